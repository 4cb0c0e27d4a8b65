// Tensors of an ONNX file: their numbers, packed or sparse, in the file or beside it.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "format/onnx_message.h"

namespace qdq::format {

bool has_four_bits(int64_t type);  // two numbers a byte
// The data type of a number of TensorProto.DataType, of 4-bit numbers the one that they have when they are unpacked.
std::optional<DType> unpacked_dtype(int64_t type);

// A key and a value.
std::pair<std::string, std::string> read_entry(OnnxMessage message);

struct OnnxNamedTensor {
  std::string name;
  Tensor tensor;
  bool has_four_bits = false;
};
OnnxNamedTensor read_tensor(OnnxMessage message);

OnnxSparseTensor read_sparse_tensor(OnnxMessage message);
// Its numbers at the places that are given, zeros elsewhere.
Tensor dense(const OnnxSparseTensor& sparse);

}  // namespace qdq::format
