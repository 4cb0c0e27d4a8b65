// Exported PyTorch programs (.pt2) as Programs and back.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "format/parts.h"
#include "format/source.h"
#include "graph/program.h"

namespace qdq {

// The program of a .pt2 file that torch.export.save wrote: the single-program zip of PyTorch up to 2.8 and the archive
// of newer ones (torch/export/pt2_archive), training or decomposed graphs, schema version 8. Nothing that the file
// names is executed.
//
// The graph is flat and unlifted, as ExportedProgram.module() gives it, with the names of the file: one get_attr node
// per parameter, buffer and constant first, then the user inputs, then the operators. Arguments stand in schema order,
// also those that the file gives by keyword; an argument left out before a given one gets its default. Operators that
// qdq does not have are kept as the file has them, the names of their arguments in the entry "input_names" of
// meta.extra; check_ops() lists them. A buffer that the program writes to by an output is in buffer_mutations, no copy_
// node is made. Inputs that were constant at export (None, a number) are in constant_inputs and not in the graph.
//
// Weights are copied once; tensors that share a storage in the file share it here. Throws Error{kBadFile} if the file
// is damaged, Error{kUnsupported} if it is of another schema version or holds custom objects, sparse tensors or
// unknown data types.
Program load_pt2(std::span<const std::byte> bytes);
// The same of a file that is read part by part, weight by weight; BlocksOnDisk (base/disk_blocks.h) keeps them on disk.
Program load_pt2(std::shared_ptr<const format::ByteSource> source);

// A .pt2 file that torch.export.load of PyTorch 2.6 and later reads, in the single-program layout. Holds the attributes
// that get_attr nodes read or mutations write and no others. Equal programs give equal bytes. Quantized programs need
// `import torch.ao.quantization.fx._decomposed` on the loading side. Metadata of values that a node lacks is inferred.
// Throws Error{kUnsupported} naming the node that cannot be written: a call_module (an observer), an operator that qdq
// does not have and that did not come from a file, a list that is used as a whole, an argument that the format does not
// have, a loop that PyTorch does not have (io/pt2_control.h).
std::vector<std::byte> save_pt2(const Program& program);
// The same; the program's tensors stay where they are, and must not change before it is written.
format::Parts save_pt2_parts(const Program& program);

// The operators that no PyTorch has, each once, of the program and of those that it runs: "onnx.roi_align_max.default".
// torch.export.load refuses files with such. Operators of torchvision are there once it is imported.
std::vector<std::string> operators_outside_pytorch(const Program& program);

}  // namespace qdq
