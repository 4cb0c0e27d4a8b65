// Equalization of channels: through activations, pools, views, attention, sums, products and concatenations.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "recover/seams.h"
#include "unit/recover/networks.h"

namespace qdq::equalize_test {
namespace {

// x[8, 16] -> layer norm -> linear -> relu -> linear -> [8, 4]; of channels that are made larger by up to 1000 in the
// norm and in the first linear layer, and as much smaller in the weights that read them.
Program damaged() {
  ProgramBuilder b;
  Node* x = b.input("x", {8, 16});
  Node* norm =
      b.call("layer_norm.default", {x, Argument::List{16}, b.weight("norm.weight", {16}), b.weight("norm.bias", {16})});
  Node* first = b.call("linear.default", {norm, b.weight("first.weight", {12, 16}), b.weight("first.bias", {12})});
  Node* relu = b.call("relu.default", {first});
  Program program =
      b.finish({b.call("linear.default", {relu, b.weight("second.weight", {4, 12}), b.weight("second.bias", {4})})});
  const auto scale = [&](const std::string& name, int64_t axis, float power) {
    const Tensor tensor = program.find_attribute(name)->tensor;
    const int64_t columns = tensor.dim() > 1 ? tensor.size(1) : 1;
    for (int64_t i = 0; i < tensor.numel(); ++i) {
      const int64_t channel = axis == 0 ? i / columns : i % columns;
      tensor.data<float>()[i] *= std::pow(10.0f, power * static_cast<float>(channel % 4));
    }
  };
  for (const char* name : {"norm.weight", "norm.bias", "first.weight", "first.bias"}) scale(name, 0, 1);
  for (const char* name : {"first.weight", "second.weight"}) scale(name, 1, -1);
  return program;
}

TEST(Equalize, RepairsChannelsOfVeryDifferentSizes) {
  XNNPACKQuantizer quantizer = xnnpack();
  Prepared prepared = prepare_pt2e(damaged(), quantizer);
  for (const Batch& batch : rows()) prepared.run(batch);
  Recovery recovery(prepared, rows());
  const double before = recovery.decibels();
  EXPECT_EQ(equalize(recovery), 2);
  EXPECT_GT(recovery.decibels(), before + 10);
  // The float program computes what it did.
  for (const Batch& batch : rows()) {
    const Tensor x = run_node_by_node(damaged(), batch)[0], y = prepared.run(batch)[0];
    for (size_t i = 0; i < 32; ++i) EXPECT_NEAR(y.span<float>()[i], x.span<float>()[i], 1e-4);
  }
}

// x[4, 3, 8, 8] -> conv -> relu6 -> pad -> depthwise conv -> relu6 -> mean or pool -> flatten -> linear -> [4, 5]. The
// first channel of each convolution is cut by the relu6 behind it; the others are made smaller by up to 1000, and as
// much larger in the weights that read them.
Program damaged_network(bool by_mean) {
  ProgramBuilder b;
  Node* x = b.input("x", {4, 3, 8, 8});
  Node* first = b.call("conv2d.default", {x, b.weight("first.weight", {8, 3, 3, 3}), b.weight("first.bias", {8})});
  Node* clipped = b.call("hardtanh.default", {first, 0.0, 6.0});
  Node* padded = b.call("pad.default", {clipped, Argument::List{0, 1, 0, 1}});
  Node* second = b.call("conv2d.default", {padded, b.weight("second.weight", {8, 1, 3, 3}), b.weight("bias", {8}),
                                           Argument::List{1, 1}, Argument::List{0, 0}, Argument::List{1, 1}, 8});
  Node* again = b.call("hardtanh.default", {second, 0.0, 6.0});
  Node* flat =
      by_mean ? b.call("mean.dim", {again, Argument::List{-1, -2}})
              : b.call("flatten.using_ints", {b.call("adaptive_avg_pool2d.default", {again, Argument::List{1, 1}}), 1});
  Program program =
      b.finish({b.call("linear.default", {flat, b.weight("last.weight", {5, 8}), b.weight("last.bias", {5})})});
  const auto scale = [&](const std::string& name, float power, int64_t inner, int64_t channels) {
    const Tensor tensor = program.find_attribute(name)->tensor;
    for (int64_t i = 0; i < tensor.numel(); ++i) {
      const int64_t channel = i / inner % channels;
      tensor.data<float>()[i] *= std::pow(10.0f, power * static_cast<float>(channel % 4));
      if (channel == 0 && power < 0) tensor.data<float>()[i] *= 40;
    }
  };
  for (const auto& [name, inner] : {std::pair("first.weight", 27), {"first.bias", 1}}) scale(name, -1, inner, 8);
  scale("second.weight", 1, 9, 8);
  for (const auto& [name, inner] : {std::pair("second.weight", 9), {"bias", 1}}) scale(name, -1, inner, 8);
  scale("last.weight", 1, 1, 8);
  return program;
}

TEST(Equalize, KeepsWithinClamps) {
  for (const bool by_mean : {false, true}) {
    XNNPACKQuantizer quantizer = xnnpack();
    Prepared prepared = calibrated(damaged_network(by_mean), quantizer);
    Recovery recovery(prepared, batches());
    EXPECT_EQ(equalize(recovery), 2);
    for (const Batch& batch : batches()) {
      const Tensor x = run_node_by_node(damaged_network(by_mean), batch)[0];
      const Tensor y = float_interpreter(prepared).run(batch)[0];
      for (size_t i = 0; i < 20; ++i) EXPECT_NEAR(y.span<float>()[i], x.span<float>()[i], 2e-4);
    }
    // What the clamps cut has ranges that drown the rest, which is for another remedy to mend.
    choose_ranges(recovery);
    Prepared plain = calibrated(damaged_network(by_mean), quantizer);
    Recovery without(plain, batches());
    choose_ranges(without);
    EXPECT_GT(recovery.decibels(), without.decibels() + 10);
  }
}

// x[8, 6, 16] -> q, k, v of two heads -> attention -> linear -> [8, 6, 4], written as exporters do; channels of v are
// made larger by up to 1000, and as much smaller in the weight behind the attention.
Program damaged_attention(bool composed) {
  ProgramBuilder b;
  Node* x = b.input("x", {8, 6, 16});
  const auto heads = [&](const std::string& name) {
    Node* y = b.call("linear.default", {x, b.weight(name + ".weight", {16, 16}), b.weight(name + ".bias", {16})});
    return b.call("transpose.int", {b.call("view.default", {y, Argument::List{8, 6, 2, 8}}), 1, 2});
  };
  Node *q = heads("q"), *k = heads("key"), *v = heads("value");
  Node* mixed = nullptr;
  if (composed) {
    mixed = b.call("scaled_dot_product_attention.default", {q, k, v});
  } else {
    Node* scores = b.call("matmul.default", {q, b.call("transpose.int", {k, -2, -1})});
    mixed = b.call("matmul.default", {b.call("softmax.int", {scores, -1}), v});
  }
  Node* back = b.call("permute.default", {mixed, Argument::List{0, 2, 1, 3}});
  Node* flat = b.call("reshape.default", {b.call("clone.default", {back}), Argument::List{8, 6, 16}});
  Program program =
      b.finish({b.call("linear.default", {flat, b.weight("out.weight", {4, 16}), b.weight("out.bias", {4})})});
  const auto scale = [&](const std::string& name, int64_t inner, float power) {
    const Tensor tensor = program.find_attribute(name)->tensor;
    for (int64_t i = 0; i < tensor.numel(); ++i)
      tensor.data<float>()[i] *= std::pow(10.0f, power * static_cast<float>(i / inner % 4));
  };
  scale("value.weight", 16, 1);
  scale("value.bias", 1, 1);
  scale("out.weight", 1, -1);
  return program;
}

TEST(Equalize, GoesThroughAttention) {
  for (const bool composed : {false, true}) {
    const std::vector<Batch> batches = {{sample({8, 6, 16}, 1)}, {sample({8, 6, 16}, 2)}};
    XNNPACKQuantizer quantizer = xnnpack();
    Prepared prepared = prepare_pt2e(damaged_attention(composed), quantizer);
    for (const Batch& batch : batches) prepared.run(batch);
    Recovery recovery(prepared, batches);
    const double before = recovery.decibels();
    EXPECT_EQ(equalize(recovery), 2);  // the values, and queries with keys
    EXPECT_GT(recovery.decibels(), before + 10);
    const Tensor x = run_node_by_node(damaged_attention(composed), batches[0])[0];
    const Tensor y = float_interpreter(prepared).run(batches[0])[0];
    for (size_t i = 0; i < 8 * 6 * 4; ++i) EXPECT_NEAR(y.span<float>()[i], x.span<float>()[i], 2e-4);
  }
}

// Multiplies the channels of an attribute by 1 to 1000, or divides them: `inner` elements lie beside each other in a
// channel.
void scale_channels(Program& program, const std::string& name, int64_t inner, int64_t channels, float power) {
  const Tensor tensor = program.find_attribute(name)->tensor;
  for (int64_t i = 0; i < tensor.numel(); ++i)
    tensor.data<float>()[i] *= std::pow(10.0f, power * static_cast<float>(i / inner % channels % 4));
}

// x[4, 3, 8, 8] -> conv -> a; a + project(relu(expand(a))) -> conv -> mean -> linear: what the sum adds up has channels
// of very different sizes.
Program damaged_residual() {
  ProgramBuilder b;
  Node* x = b.input("x", {4, 3, 8, 8});
  const auto conv = [&](Node* from, const std::string& name, int64_t in, int64_t out) {
    return b.call("conv2d.default",
                  {from, b.weight(name + ".weight", {out, in, 1, 1}), b.weight(name + ".bias", {out})});
  };
  Node* first = conv(x, "first", 3, 8);
  Node* wide = b.call("relu.default", {conv(first, "expand", 8, 16)});
  Node* sum = b.call("add.Tensor", {first, conv(wide, "project", 16, 8)});
  Node* mean = b.call("mean.dim", {b.call("relu.default", {conv(sum, "last", 8, 8)}), Argument::List{2, 3}});
  Program program =
      b.finish({b.call("linear.default", {mean, b.weight("head.weight", {5, 8}), b.weight("head.bias", {5})})});
  scale_channels(program, "first.weight", 3, 8, 1);
  scale_channels(program, "project.weight", 16, 8, 1);
  for (const char* name : {"first.bias", "project.bias"}) scale_channels(program, name, 1, 8, 1);
  for (const char* name : {"expand.weight", "last.weight"}) scale_channels(program, name, 1, 8, -1);
  return program;
}

TEST(Equalize, GoesThroughResidualSums) {
  XNNPACKQuantizer quantizer = xnnpack();
  Prepared prepared = calibrated(damaged_residual(), quantizer);
  Recovery recovery(prepared, batches());
  const double before = recovery.decibels();
  EXPECT_GT(equalize(recovery), 0);
  EXPECT_GT(recovery.decibels(), before + 10);
  for (const Batch& batch : batches()) {
    const Tensor x = run_node_by_node(damaged_residual(), batch)[0], y = float_interpreter(prepared).run(batch)[0];
    for (size_t i = 0; i < 20; ++i) EXPECT_NEAR(y.span<float>()[i], x.span<float>()[i], 2e-4);
  }
}

// x[8, 16] -> RMS norm as exporters spell it out -> silu(gate) * up -> down, as decoders have it: the norm's weight and
// the rows of `up` are of very different sizes.
Program damaged_gates() {
  ProgramBuilder b;
  Node* x = b.input("x", {8, 16});
  Node* mean = b.call("mean.dim", {b.call("pow.Tensor_Scalar", {x, 2}), Argument::List{-1}, true});
  Node* even = b.call("mul.Tensor", {x, b.call("rsqrt.default", {b.call("add.Tensor", {mean, 1e-6})})});
  Node* norm = b.call("mul.Tensor", {even, b.weight("norm.weight", {16})});
  Node* gate = b.call("silu.default", {b.call("linear.default", {norm, b.weight("gate.weight", {12, 16})})});
  Node* up = b.call("linear.default", {norm, b.weight("up.weight", {12, 16})});
  Node* product = b.call("mul.Tensor", {gate, up});
  Program program = b.finish({b.call("linear.default", {product, b.weight("down.weight", {4, 12})})});
  scale_channels(program, "norm.weight", 1, 16, 1);
  for (const char* name : {"gate.weight", "up.weight"}) scale_channels(program, name, 1, 16, -1);
  scale_channels(program, "up.weight", 16, 12, 1);
  scale_channels(program, "down.weight", 1, 12, -1);
  return program;
}

TEST(Equalize, GoesThroughProducts) {
  XNNPACKQuantizer quantizer = xnnpack();
  Prepared prepared = prepare_pt2e(damaged_gates(), quantizer);
  for (const Batch& batch : rows()) prepared.run(batch);
  Recovery recovery(prepared, rows());
  const double before = recovery.decibels();
  EXPECT_EQ(equalize(recovery), 2);
  EXPECT_GT(recovery.decibels(), before + 10);
  for (const Batch& batch : rows()) {
    const Tensor x = run_node_by_node(damaged_gates(), batch)[0], y = float_interpreter(prepared).run(batch)[0];
    for (size_t i = 0; i < 32; ++i) EXPECT_NEAR(y.span<float>()[i], x.span<float>()[i], 2e-4);
  }
}

// x[4, 3, 8, 8] -> conv -> relu -> squeeze -> relu -> [expand 1 x 1, expand 3 x 3] -> relu -> cat -> conv -> mean ->
// linear, a fire module of SqueezeNet: what the expanding convolutions make is of very different sizes.
Program damaged_fire_module() {
  ProgramBuilder b;
  Node* x = b.input("x", {4, 3, 8, 8});
  const auto conv = [&](Node* from, const std::string& name, int64_t in, int64_t out, int64_t window) {
    const int64_t pad = window / 2;
    return b.call(
        "relu.default",
        {b.call("conv2d.default", {from, b.weight(name + ".weight", {out, in, window, window}),
                                   b.weight(name + ".bias", {out}), Argument::List{1, 1}, Argument::List{pad, pad}})});
  };
  Node* squeeze = conv(x, "squeeze", 3, 4, 1);
  Node* joined =
      b.call("cat.default", {Argument::List{conv(squeeze, "one", 4, 8, 1), conv(squeeze, "three", 4, 4, 3)}, 1});
  Node* mean = b.call("mean.dim", {conv(joined, "last", 12, 6, 1), Argument::List{2, 3}});
  Program program =
      b.finish({b.call("linear.default", {mean, b.weight("head.weight", {5, 6}), b.weight("head.bias", {5})})});
  scale_channels(program, "one.weight", 4, 8, 1);
  scale_channels(program, "three.weight", 36, 4, 1);
  for (const char* name : {"one.bias", "three.bias"}) scale_channels(program, name, 1, 8, 1);
  scale_channels(program, "last.weight", 1, 12, -1);
  return program;
}

// x[8, 6, 16] -> q and k of two heads, or one linear layer for both and v -> attention -> linear -> [8, 6, 4]; channels
// of q are made larger by up to 30 and those of k as much smaller.
Program damaged_scores(bool fused, bool composed) {
  ProgramBuilder b;
  Node* x = b.input("x", {8, 6, 16});
  const auto heads = [&](Node* rows) {
    Node* view = b.call("view.default", {rows, Argument::List{8, 6, 2, 8}});
    return b.call("transpose.int", {view, 1, 2});
  };
  std::vector<Node*> parts;
  if (fused) {
    Node* all = b.call("linear.default", {x, b.weight("qkv.weight", {48, 16}), b.weight("qkv.bias", {48})});
    for (int64_t i = 0; i < 3; ++i) parts.push_back(b.call("slice.Tensor", {all, 2, 16 * i, 16 * (i + 1)}));
  } else {
    for (const std::string name : {"q", "k", "v"})
      parts.push_back(
          b.call("linear.default", {x, b.weight(name + ".weight", {16, 16}), b.weight(name + ".bias", {16})}));
  }
  Node *q = heads(parts[0]), *k = heads(parts[1]), *v = heads(parts[2]), *mixed = nullptr;
  if (composed) {
    Node* scores = b.call("matmul.default", {b.call("mul.Tensor", {q, 0.35}), b.call("transpose.int", {k, -2, -1})});
    mixed = b.call("matmul.default", {b.call("softmax.int", {scores, -1}), v});
  } else {
    mixed = b.call("scaled_dot_product_attention.default", {q, k, v});
  }
  Node* rows = b.call("view.default", {b.call("transpose.int", {mixed, 1, 2}), Argument::List{8, 6, 16}});
  Program program =
      b.finish({b.call("linear.default", {rows, b.weight("out.weight", {4, 16}), b.weight("out.bias", {4})})});
  const auto scale = [&](const std::string& name, int64_t first, bool up) {
    for (const char* which : {".weight", ".bias"}) {
      const Tensor values = program.find_attribute(name + which)->tensor;
      const int64_t inner = values.dim() == 2 ? 16 : 1;
      for (int64_t c = 0; c < 16; ++c) {
        const auto by = static_cast<float>(std::pow(30.0, static_cast<double>(c % 5) / 2 - 1));
        for (int64_t i = 0; i < inner; ++i) {
          float& value = values.span<float>()[static_cast<size_t>((first + c) * inner + i)];
          value = up ? value * by : value / by;
        }
      }
    }
  };
  scale(fused ? "qkv" : "q", 0, true);
  scale(fused ? "qkv" : "k", fused ? 16 : 0, false);
  return program;
}

TEST(Equalize, GivesQueriesAndKeysOneSize) {
  const std::vector<Batch> batches = {{sample({8, 6, 16}, 1)}, {sample({8, 6, 16}, 2)}, {sample({8, 6, 16}, 3)}};
  for (const bool fused : {false, true})
    for (const bool composed : {false, true}) {
      XNNPACKQuantizer quantizer = xnnpack();
      Prepared prepared = prepare_pt2e(damaged_scores(fused, composed), quantizer);
      for (const Batch& batch : batches) prepared.run(batch);
      Recovery recovery(prepared, batches);
      const double before = recovery.decibels();
      EXPECT_GT(equalize(recovery), 0) << fused << composed;
      EXPECT_GT(recovery.decibels(), before + 3) << fused << composed;
      expect_same_floats(damaged_scores(fused, composed), prepared, batches);
    }
}

// x[4, 3, 8, 8] -> cat(relu6(conv(x)), relu(conv(x))) -> conv -> mean -> linear. The second convolution makes channels
// of very different sizes; what the first one makes is an output, too.
Program damaged_beside_an_output() {
  ProgramBuilder b;
  Node* x = b.input("x", {4, 3, 8, 8});
  const auto conv = [&](Node* from, const std::string& name, int64_t in, int64_t out) {
    return b.call("conv2d.default",
                  {from, b.weight(name + ".weight", {out, in, 1, 1}), b.weight(name + ".bias", {out})});
  };
  Node* clamped = b.call("hardtanh.default", {conv(x, "first", 3, 4), 0.0, 6.0});
  Node* free = b.call("relu.default", {conv(x, "second", 3, 8)});
  Node* joined = b.call("cat.default", {Argument::List{clamped, free}, 1});
  Node* mean = b.call("mean.dim", {b.call("relu.default", {conv(joined, "last", 12, 6)}), Argument::List{2, 3}});
  Node* head = b.call("linear.default", {mean, b.weight("head.weight", {5, 6}), b.weight("head.bias", {5})});
  Program program = b.finish({head, clamped});
  scale_channels(program, "second.weight", 3, 8, 1);
  scale_channels(program, "second.bias", 1, 8, 1);
  const Tensor weight = program.find_attribute("last.weight")->tensor;
  for (int64_t i = 0; i < weight.numel(); ++i)
    if (i % 12 >= 4) weight.data<float>()[i] *= std::pow(10.0f, -static_cast<float>(i % 12 % 4));
  return program;
}

TEST(Equalize, LeavesOutputsAsTheyAre) {
  XNNPACKQuantizer quantizer = xnnpack();
  Prepared prepared = calibrated(damaged_beside_an_output(), quantizer);
  Recovery recovery(prepared, batches());
  EXPECT_GT(equalize(recovery), 0);
  expect_same_floats(damaged_beside_an_output(), prepared, batches());
  const Tensor x = run_node_by_node(damaged_beside_an_output(), batches()[0])[1];
  EXPECT_TRUE(bitwise_equal(x, float_interpreter(prepared).run(batches()[0])[1]));
}

TEST(Equalize, GoesThroughConcatenations) {
  XNNPACKQuantizer quantizer = xnnpack();
  Prepared prepared = calibrated(damaged_fire_module(), quantizer);
  Recovery recovery(prepared, batches());
  const double before = recovery.decibels();
  EXPECT_GT(equalize(recovery), 0);
  EXPECT_GT(recovery.decibels(), before + 10);
  expect_same_floats(damaged_fire_module(), prepared, batches());
}

// x[12, 24] -> linear -> relu -> linear -> [12, 4], which hands its channels on one by one: those of sizes from 1 to
// 1000, which the last weight makes equal.
Program rare_channels() {
  ProgramBuilder b;
  Node* x = b.input("x", {12, 24});
  Node* first = b.call("linear.default", {x, b.weight("first.weight", {24, 24}), b.weight("first.bias", {24})});
  Node* relu = b.call("relu.default", {first});
  Program program =
      b.finish({b.call("linear.default", {relu, b.weight("last.weight", {4, 24}), b.weight("last.bias", {4})})});
  float* const first_weight = program.find_attribute("first.weight")->tensor.data<float>();
  float* const first_bias = program.find_attribute("first.bias")->tensor.data<float>();
  float* const last_weight = program.find_attribute("last.weight")->tensor.data<float>();
  for (int64_t c = 0; c < 24; ++c) {
    const float size = std::pow(10.0f, static_cast<float>(c % 4));
    for (int64_t k = 0; k < 24; ++k) first_weight[c * 24 + k] = c == k ? size : 0.0f;
    first_bias[c] = 0.001f * size;
    for (int64_t row = 0; row < 4; ++row) last_weight[row * 24 + c] /= size;
  }
  return program;
}

// Each of 72 samples lights one channel: in every batch all of them, or in each batch four of its own.
std::vector<Batch> lights(bool each_its_own) {
  std::vector<Batch> out;
  for (int64_t batch = 0; batch < 6; ++batch) {
    const Tensor x = Tensor::empty({12, 24}, DType::kF32);
    for (int64_t row = 0; row < 12; ++row)
      for (int64_t c = 0; c < 24; ++c)
        x.data<float>()[row * 24 + c] = (each_its_own ? c == batch * 4 + row % 4 : c % 12 == row) ? 1.0f : 0.0f;
    out.push_back({x});
  }
  return out;
}

TEST(Equalize, NeedsChannelsThatOtherSamplesShowToo) {
  for (const bool each_its_own : {false, true}) {
    XNNPACKQuantizer quantizer = xnnpack();
    Prepared prepared = prepare_pt2e(rare_channels(), quantizer);
    for (const Batch& batch : lights(each_its_own)) prepared.run(batch);
    Recovery recovery(prepared, lights(each_its_own));
    EXPECT_EQ(equalize(recovery) > 0, !each_its_own);
    if (each_its_own) expect_same_floats(rare_channels(), prepared, lights(true));
  }
}

TEST(Equalize, LeavesWhatNeedsItNotAsItIs) {
  XNNPACKQuantizer quantizer = xnnpack();
  Prepared prepared = calibrated(network(), quantizer);
  const Program before = convert_pt2e(prepared);
  Recovery recovery(prepared, batches());
  EXPECT_EQ(equalize(recovery), 0);
  const Program after = convert_pt2e(prepared);
  for (size_t i = 0; i < after.attributes.size(); ++i)
    EXPECT_TRUE(bitwise_equal(after.attributes[i].tensor, before.attributes[i].tensor));
}

}  // namespace
}  // namespace qdq::equalize_test
