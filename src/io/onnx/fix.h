// Inputs and open sizes of an ONNX model that become constants before it is read.
#pragma once

#include "format/onnx_file.h"
#include "io/onnx.h"

namespace qdq {

// Makes each input whose value is given a constant, every element of which is that, and gives each open size that is
// named or that a shape covers its value wherever the file has it. Throws Error{kInvalidArgument} for a name that is
// neither, a number that the input's data type or a size cannot be, a shape that the input does not have, and an input
// whose value is given while its sizes are open.
void fix_values(format::OnnxFile& file, const OnnxFixed& fixed);

}  // namespace qdq
