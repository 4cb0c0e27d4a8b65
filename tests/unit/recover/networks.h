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

// x[N, 3, 8, 8] -> conv -> two units of ShuffleNet -> conv -> mean -> linear. A unit takes its channels apart in
// halves, lets the second one through a convolution, joins both and shuffles them; `way` says by which operators: 0: a
// split, views; 1: slices, channel_shuffle; 2: views and selections, which halve and shuffle at once, of one image.
inline Program shuffle_network(int way) {
  ProgramBuilder b;
  Node* x = b.input("x", {way == 2 ? 1 : 4, 3, 8, 8});
  const auto conv = [&](Node* from, const std::string& name, int64_t in, int64_t out) {
    Node* made =
        b.call("conv2d.default", {from, b.weight(name + ".weight", {out, in, 1, 1}), b.weight(name + ".bias", {out})});
    return b.call("relu.default", {made});
  };
  const auto halves = [&](Node* from) -> std::pair<Node*, Node*> {
    if (way == 0) {
      Node* all = b.call("split.Tensor", {from, 4, 1});
      return {b.item(all, 0), b.item(all, 1)};
    }
    if (way == 1) return {b.call("slice.Tensor", {from, 1, 0, 4}), b.call("slice.Tensor", {from, 1, 4, 8})};
    Node* turned = b.call("transpose.int", {b.call("view.default", {from, Argument::List{4, 2, 64}}), 0, 1});
    Node* apart = b.call("reshape.default", {turned, Argument::List{2, 1, 4, 8, 8}});
    return {b.call("select.int", {apart, 0, 0}), b.call("select.int", {apart, 0, 1})};
  };
  Node* value = conv(x, "first", 3, 8);
  for (int unit = 0; unit < 2; ++unit) {
    const auto [left, right] = halves(value);
    value = b.call("cat.default", {Argument::List{left, conv(right, "unit" + std::to_string(unit), 4, 4)}, 1});
    if (way == 1) value = b.call("channel_shuffle.default", {value, 2});
    if (way != 0) continue;
    Node* groups = b.call("view.default", {value, Argument::List{4, 2, 4, 8, 8}});
    value = b.call("reshape.default", {b.call("transpose.int", {groups, 1, 2}), Argument::List{4, 8, 8, 8}});
  }
  Node* mean = b.call("mean.dim", {conv(value, "last", 8, 6), Argument::List{2, 3}});
  return b.finish({b.call("linear.default", {mean, b.weight("head.weight", {5, 6}), b.weight("head.bias", {5})})});
}

// x[4, 3, 8, 8] -> upsampled -> cat(relu(conv(x)), x) -> conv -> prelu -> conv: the input's own channels are joined
// with others.
inline Program network_with_skip() {
  ProgramBuilder b;
  Node* x = b.input("x", {4, 3, 8, 8});
  Node* first = b.call("conv2d.default", {x, b.weight("first.weight", {4, 3, 1, 1}), b.weight("first.bias", {4})});
  Node* joined = b.call("cat.default", {Argument::List{b.call("relu.default", {first}), x}, 1});
  Node* wide = b.call("upsample_nearest2d.vec", {joined, Argument::List{16, 16}, Argument()});
  Node* second =
      b.call("conv2d.default", {wide, b.weight("second.weight", {6, 7, 1, 1}), b.weight("second.bias", {6})});
  Node* bent = b.call("prelu.default", {second, b.weight("slope", {6})});
  return b.finish(
      {b.call("conv2d.default", {bent, b.weight("last.weight", {5, 6, 1, 1}), b.weight("last.bias", {5})})});
}

inline void expect_same_floats(const Program& program, const Prepared& prepared, const std::vector<Batch>& batches) {
  for (const Batch& batch : batches) {
    const Tensor x = run_node_by_node(program, batch)[0], y = float_interpreter(prepared).run(batch)[0];
    const float most = range_of(x).max - range_of(x).min;
    for (size_t i = 0; i < x.span<float>().size(); ++i)
      EXPECT_NEAR(y.span<float>()[i], x.span<float>()[i], 1e-4f * most);
  }
}

}  // namespace qdq
