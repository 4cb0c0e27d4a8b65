// What the tests of integers in ONNX files share: an input, a count of operators, a run.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "exec/interpreter.h"
#include "format/onnx_file.h"

namespace qdq::integer_files {

inline Tensor ramp(const Shape& sizes) {
  const Tensor out = Tensor::empty(sizes, DType::kF32);
  for (int64_t i = 0; i < out.numel(); ++i) out.data<float>()[i] = static_cast<float>(i * 11 % 29) / 9 - 1.5F;
  return out;
}

inline int64_t count(const format::OnnxFile& file, const std::string& op) {
  return std::count_if(file.nodes.begin(), file.nodes.end(), [&](const auto& node) { return node.op_type == op; });
}

inline Tensor run(const Program& program, const Tensor& input) {
  return Interpreter(program, {}).run(std::vector<Tensor>{input})[0];
}

}  // namespace qdq::integer_files
