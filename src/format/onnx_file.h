// ONNX files (onnx.proto of ONNX 1.17) as plain structs: what a graph of dense tensors needs of them.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "format/parts.h"
#include "format/source.h"
#include "tensor/tensor.h"

namespace qdq::format {

// The numbers are AttributeProto.AttributeType's.
enum class OnnxKind {
  kNone = 0,
  kFloat = 1,
  kInt = 2,
  kString = 3,
  kTensor = 4,
  kFloats = 6,
  kInts = 7,
  kStrings = 8,
  kGraph = 5,
  kTensors = 9,
  kGraphs = 10,
  kSparseTensor = 11,
  kOther = 99
};

struct OnnxGraph;

// A sparse tensor: the places of its values, by number [count] or by axes [count, rank].
struct OnnxSparseTensor {
  std::string name;
  Tensor values, indices;
  Shape sizes;
};

struct OnnxAttribute {
  std::string name;
  OnnxKind kind = OnnxKind::kNone;  // kOther: a type or a list of sparse tensors, which is not kept
  std::string reference;            // the attribute of the function whose value this has; "" for one of its own
  float f = 0;
  int64_t i = 0;
  std::string s;
  Tensor t;
  bool has_four_bits = false;  // t is int4 or uint4
  std::vector<float> floats;
  std::vector<int64_t> ints;
  std::vector<std::string> strings;
  std::vector<Tensor> tensors;
  std::shared_ptr<OnnxSparseTensor> sparse;
  std::vector<std::shared_ptr<const OnnxGraph>> graphs;  // of kGraph: one
};

struct OnnxNode {
  std::string name, op_type, domain;         // the domain "" is ONNX's own, also written "ai.onnx"
  std::vector<std::string> inputs, outputs;  // "" stands for one that is left out
  std::vector<OnnxAttribute> attributes;
  std::vector<std::pair<std::string, std::string>> metadata;  // of the exporter's own
};

// One size of an input or output: a number, a name, or unknown.
struct OnnxDimension {
  std::optional<int64_t> value;
  std::string param;
};

struct OnnxValueInfo {
  enum class Type { kUnknown, kTensor, kSequence, kOptional, kOptionalSequence, kOther };  // of tensors
  std::string name;
  std::optional<DType> dtype;                      // nothing: no tensor, or of a type that qdq does not have
  std::optional<std::vector<OnnxDimension>> dims;  // nothing: not even the number of axes is known
  Type type = Type::kTensor;
  bool has_four_bits = false;
  std::string doc_string = {};
};

struct OnnxGraph {
  std::string name, doc_string;
  std::vector<OnnxNode> nodes;
  std::vector<std::pair<std::string, Tensor>> initializers;
  std::vector<OnnxValueInfo> inputs, outputs;  // old files list initializers among the inputs too
  std::vector<OnnxValueInfo> values;           // what the file says of values in between
  std::vector<std::string>
      four_bit_tensors;  // initializers and inputs of int4 and uint4, which are int8 and uint8 here
};

// Operator sets: domain -> version. The domain "" is ONNX's own.
using OnnxOpsets = std::vector<std::pair<std::string, int64_t>>;

// An operator that the file itself defines by a graph.
struct OnnxFunction {
  std::string name, domain;
  std::vector<std::string> inputs, outputs;
  std::vector<std::string> attributes;            // that a call has to give
  std::vector<OnnxAttribute> default_attributes;  // and those that it may
  std::vector<OnnxNode> nodes;
  OnnxOpsets opsets;
};

struct OnnxFile : OnnxGraph {
  int64_t ir_version = 0;
  std::string producer_name, producer_version, domain, model_doc_string;
  int64_t model_version = 0;
  OnnxOpsets opsets;
  std::vector<OnnxFunction> functions;
  std::vector<std::pair<std::string, std::string>> metadata;  // metadata_props, in the file's order
};

// TensorProto.DataType's numbers of uint4 and int4, which qdq keeps as uint8 and int8.
inline constexpr int64_t kOnnxU4 = 21, kOnnxS4 = 22;
// The data type of a number of TensorProto.DataType; nothing for those that qdq does not have.
std::optional<DType> onnx_dtype(int64_t number);
int64_t onnx_number(DType dtype);  // and back

// A file that tensors of a model lie in, by the path that the model gives, relative to its own folder:
// "model.onnx.data". It is read before the next call. Throws if there is no such file.
using OnnxExternalData = std::function<std::shared_ptr<const ByteSource>(const std::string& location)>;

// Reads a ModelProto. Tensors are copied once; their sizes are checked against the bytes that are there before memory
// is taken. Throws Error{kBadFile} if the bytes are no ONNX model or contradict themselves, Error{kUnsupported} naming
// the tensor for data types that qdq does not have, and for data in other files if `external` is empty. Graphs within
// graphs go 16 levels deep at most. Files outside of the model's folder are never asked for.
OnnxFile read_onnx_file(ByteSpan bytes, const OnnxExternalData& external = {});

// Whether the tensors leave room for the rest of a model in two gigabytes.
bool fits_in_one_file(const OnnxGraph& graph);

// The bytes of a ModelProto; tensors as raw data. With `data` initializers of a kilobyte and more lie there, each at a
// multiple of 64, in a file that the model calls `data_name`, and are not copied. Equal structs give equal bytes.
// Throws Error{kUnsupported} if the tensors are more than two gigabytes and there is no `data`.
Parts onnx_file_parts(const OnnxFile& file, const std::string& data_name = {}, Parts* data = nullptr);
// The same without other files, as one.
Bytes write_onnx_file(const OnnxFile& file);

}  // namespace qdq::format
