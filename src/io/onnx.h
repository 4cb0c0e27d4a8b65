// ONNX models as Programs and back.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "format/onnx_file.h"
#include "graph/program.h"

namespace qdq {

// What of an ONNX model shall be constant, by the names that the file gives.
struct OnnxFixed {
  std::map<std::string, double> values;  // of inputs, every element of which is the number, and of open sizes
  std::map<std::string, std::vector<int64_t>> shapes;  // of inputs
};

// The program of an ONNX model, of any opset: ATen calls as torch.export makes them of the same network, so that every
// quantizer finds its patterns. Initializers are the parameters; dimensions with names, or unknown ones, are symbols
// (s0, s1, ...). An operator that qdq does not have becomes a call of its name, torch.ops.onnx.X.default.
//
// What depends on constants and shapes alone is computed at once. MatMul with a constant matrix, with an Add behind it,
// and Gemm are aten.linear; what the exporter spells out is put together again (SiLU, GELU,
// scaled_dot_product_attention). QuantizeLinear and DequantizeLinear are the quantized_decomposed calls of a converted
// program; they multiply by the reciprocal of the scale where ONNX divides, which can move a value that lies within a
// rounding error of the middle between two integers by one. Node names "/layer1/layer1.0/conv1/Conv" tell the modules.
// docs/onnx.md has the table of operators.
//
// Throws Error{kBadFile} if the file is damaged, Error{kUnsupported} that names the node and the setting that it cannot
// read. Tensors in other files are asked of `external`.
//
// `fixed` makes inputs and open sizes constants: {.values = {{"sr", 16000}, {"batch", 1}}, .shapes = {{"x", {1, 9}}}}.
// The program does not have an input whose value is fixed. What hangs on constants is computed at once, so that an If
// on them leaves the branch that is taken, which can be quantized. Throws Error{kInvalidArgument} for a name that the
// model does not have, and a value or a shape that it cannot have.
Program load_onnx(std::span<const std::byte> bytes, const format::OnnxExternalData& external = {},
                  const OnnxFixed& fixed = {});

// Whether the bytes begin like an ONNX model, and not like a zip archive.
bool looks_like_onnx(std::span<const std::byte> bytes);

// How quantized operators are written: as float ones between DequantizeLinear and QuantizeLinear, or as operators of
// integers where ONNX or com.microsoft has them (QLinearConv, QLinearMatMul, QGemm, QLinearAdd, ...).
enum class OnnxFormat { kQdq, kQOperator };
// "qdq" and "qoperator". Throws Error{kInvalidArgument} for other words.
OnnxFormat onnx_format_of(std::string_view word);

// How linear layers with weights in groups are written: of 4 bits as MatMulNBits and of more as DequantizeLinear of
// rows; as MatMulNBits of 4 or 8 bits; as DequantizeLinear with blocks, which is of opset 21.
enum class OnnxGroups { kDefault, kMatMulNBits, kBlocks };
// "", "matmul-nbits" and "blocks". Throws Error{kInvalidArgument} for other words.
OnnxGroups onnx_groups_of(std::string_view word);
std::string_view to_string(OnnxGroups groups);

// How an ONNX model is written.
struct OnnxOptions {
  // 17 to 21; if none is given, 17 or the first one behind it that has all operators of the program
  std::optional<int64_t> opset = {};
  bool external_data = false;  // tensors in a file beside the model, where those of more than two gigabytes always are
  // int8 activations as they are; else as uint8 with zero points that are 128 more, which stand for the same numbers
  bool signed_activations = false;
  std::string data_ending = ".data";  // behind the model's name, of the file that keeps the tensors
  // int8 weights of products of integers as uint8 with zero points of 128, which stand for the same numbers
  bool unsigned_weights = false;
  // float32 within the model as float16; inputs and outputs stay as they are
  bool float16 = false;
  // each operator that reads a quantized activation gets QuantizeLinear and DequantizeLinear of its own, as runtimes
  // want it that join a pair to one operator (TensorRT): DedicatedQDQPair of ONNX Runtime's tools
  bool dedicated_pairs = false;
  // how ONNX Runtime multiplies weights of 4 bits in groups (MatMulNBits): 4 rounds the activations to int8 by blocks,
  // which is faster on CPUs, 1 keeps them float32, 0 leaves it to the runtime; nothing: the attribute is not written
  std::optional<int64_t> accuracy_level = {};
  OnnxFormat format = OnnxFormat::kQdq;      // kQOperator is refused for a model without operators that become such
  OnnxGroups groups = OnnxGroups::kDefault;  // another form than the default is refused for a model without groups
  // float weights of linear layers as the 16 numbers of NF4 in blocks of 64: com.microsoft.MatMulBnb4
  bool bnb4 = false;
};

// An ONNX model; one of opset 17 is run by ONNX Runtime since 1.12. Quantized programs become QDQ models:
// QuantizeLinear and DequantizeLinear around the operators, uint8 activations, int8 ones as well with 128 added, for
// which ONNX Runtime has its x86 kernels (signed_activations: as they are), int8 weights per channel or per tensor as
// initializers, and the bias of a convolution or a two-dimensional linear as int32 with the product of both
// scales, rounded half to even, as integer kernels want it (where it fits, else float). 16-bit activations are
// QuantizeLinear of com.microsoft before opset 21. A range narrower than the data type's becomes a Clip in front;
// ranges chosen at run time become DynamicQuantizeLinear; other floats than float32 are converted on the way to
// integers and back. What was read from an ONNX file keeps its names there: inputs, outputs, dimensions, nodes and
// tensors, and the operators that qdq does not have. Else inputs keep their names, open dimensions those of their
// symbols, and outputs are output_0, output_1, ... Equal programs give equal bytes.
// Throws Error{kUnsupported} that lists everything which has no ONNX form: operators with their nodes, settings with
// the reason; Error{kInvalidArgument} for an opset that is not written, for dedicated_pairs without any,
// and for an accuracy_level beyond 0 to 4, or without weights of 4 bits in groups.
// The external data, if there is any, goes to `data`; the model calls that file `data_name`. The tensors stay where
// they are, and must not change before it is written.
format::Parts save_onnx_parts(const Program& program, const OnnxOptions& options, const std::string& data_name,
                              format::Parts& data);
// One sentence on what ONNX Runtime computes otherwise of a quantized program where the processor lacks VNNI: its
// kernels add two products of uint8 and int8 in 16 bits, which saturate. "" if no two can.
std::string onnx_saturation_warning(const Program& program);
// Whether signed_activations changes how a program is written.
bool has_int8_activations(const Program& program);
// Whether several operators read one quantized activation, so that `dedicated_pairs` changes the file.
bool shares_pairs(const Program& program);
// A model that is one file. Throws Error{kUnsupported} if it is too large for that.
std::vector<std::byte> save_onnx(const Program& program, const OnnxOptions& options = {});

}  // namespace qdq
