// A network to recover the accuracy of, its samples, and how it is quantized.
#pragma once

#include <utility>
#include <vector>

#include "exec/op_backend.h"
#include "quant/quantizers/xnnpack_quantizer.h"
#include "recover/recovery.h"
#include "unit/quant/program_builder.h"

namespace qdq {

inline XNNPACKQuantizer xnnpack(int64_t weight_bits = 8) {
  XNNPACKQuantizer quantizer;
  SymmetricConfigOptions options;
  options.is_per_channel = true;
  if (weight_bits < 8) {
    options.weight_qmin = -(int64_t{1} << (weight_bits - 1));
    options.weight_qmax = -options.weight_qmin - 1;
  }
  quantizer.set_global(get_symmetric_quantization_config(options));
  return quantizer;
}

// x[4, 3, 8, 8] -> conv -> relu6 -> conv (no bias) -> relu -> mean -> linear -> [4, 5]. The first convolution's values
// reach far beyond the 6 that relu6 lets through, and its rows are of very different sizes.
inline Program network() {
  ProgramBuilder b;
  Node* x = b.input("x", {4, 3, 8, 8});
  Node* first = b.call("conv2d.default", {x, b.weight("first.weight", {8, 3, 3, 3}), b.weight("first.bias", {8})});
  Node* clipped = b.call("hardtanh.default", {first, 0.0, 6.0});
  Node* second = b.call("conv2d.default", {clipped, b.weight("second.weight", {6, 8, 3, 3})});
  Node* relu = b.call("relu.default", {second});
  Node* mean = b.call("mean.dim", {relu, Argument::List{2, 3}});
  Program program =
      b.finish({b.call("linear.default", {mean, b.weight("last.weight", {5, 6}), b.weight("last.bias", {5})})});
  Tensor weight = program.find_attribute("first.weight")->tensor;
  for (int64_t i = 0; i < weight.numel(); ++i) weight.data<float>()[i] *= i / 27 == 0 ? 40.0f : 1.0f;
  return program;
}

inline std::vector<Batch> batches(int count = 4) {
  std::vector<Batch> out;
  for (int i = 0; i < count; ++i) out.push_back({sample({4, 3, 8, 8}, static_cast<uint32_t>(i) + 1)});
  return out;
}

inline Prepared calibrated(Program program, Quantizer& quantizer) {
  Prepared prepared = prepare_pt2e(std::move(program), quantizer);
  for (const Batch& batch : batches()) prepared.run(batch);
  return prepared;
}

inline std::vector<Tensor> run_node_by_node(const Program& program, const Batch& inputs) {
  const auto backend = make_simd_ops();
  return Interpreter(program, {backend.get()}).run(inputs);
}

// For programs that read x[8, 16].
inline std::vector<Batch> rows() { return {{sample({8, 16}, 1)}, {sample({8, 16}, 2)}, {sample({8, 16}, 3)}}; }

inline void expect_same(const Program& found, const Program& wanted) {
  EXPECT_EQ(to_text(*found.graph), to_text(*wanted.graph));
  ASSERT_EQ(found.attributes.size(), wanted.attributes.size());
  for (size_t i = 0; i < found.attributes.size(); ++i)
    EXPECT_TRUE(bitwise_equal(found.attributes[i].tensor, wanted.attributes[i].tensor));
}

}  // namespace qdq
