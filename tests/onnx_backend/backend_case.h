// One of ONNX's backend tests: a model, and for each of its data sets the inputs and the outputs that it must give.
#pragma once

#include <string>
#include <vector>

#include "base/files.h"
#include "format/bytes.h"
#include "tensor/tensor.h"

namespace qdq {

// What an input_K.pb or output_K.pb holds.
struct BackendValue {
  enum class Kind { kTensor, kSequence, kNothing };  // kNothing: an optional value that is not there
  Kind kind = Kind::kTensor;
  std::vector<Tensor> tensors;  // one of a kTensor
};

struct BackendDataSet {
  std::vector<BackendValue> inputs, outputs;
};

// The case's facts that are known without reading all of its model.
class BackendCase {
 public:
  // `path` is the folder of a model.onnx or, of the light models, the .onnx file itself, whose output lies beside it.
  BackendCase(const std::string& path, Files& files);

  // Whether the case is a network with weights of one value, whose input is the ramp that ONNX's runner makes.
  bool is_light() const { return light_; }
  const format::Bytes& model() const { return model_; }
  // The model whose inputs but the first are initializers, with the values of the first data set: models that people
  // export have axes and sizes in them, these bring such numbers as inputs.
  format::Bytes model_with_constants() const;
  // The operators of the graph's nodes, in order and each once; those of other domains as "domain:Name".
  const std::vector<std::string>& operators() const { return operators_; }
  // Reads the arrays. Throws Error{kUnsupported} for data that qdq has no type for, such as strings.
  std::vector<BackendDataSet> data_sets() const;

 private:
  // TypeProto's field that an input or output has: 1 tensor, 4 sequence, 9 optional.
  struct ValueType {
    uint32_t type = 1;
    int64_t element = 0;  // TensorProto.DataType
    Shape sizes;
  };
  ValueType read_type(format::ByteSpan value_info) const;
  void read_graph(format::ByteSpan graph);
  std::vector<BackendValue> read_values(const std::string& folder, const std::string& letter,
                                        const std::vector<ValueType>& types) const;

  std::string path_;
  Files* files_;
  bool light_ = false;
  format::Bytes model_;
  std::vector<std::string> operators_;
  std::vector<ValueType> inputs_, outputs_;
};

// The paths of all cases at or under a folder, in order of their names.
std::vector<std::string> find_backend_cases(const std::string& folder, Files& files);

}  // namespace qdq
