// Random int8 networks: the plain loops of the reference steps and the portable kernels give the same integers, with
// any number of threads. ctest runs this on each instruction set that the processor has. The digest that it prints is
// the same natively and in WebAssembly.
// QDQ_FUZZ_SEED and QDQ_FUZZ_ROUNDS make it another or a longer one.
#include <gtest/gtest.h>

#include <bit>
#include <iostream>

#include "base/parallel.h"
#include "lower/lower.h"
#include "lower/step_backend.h"
#include "unit/fuzz_random.h"
#include "unit/lower/graph_builder.h"

namespace qdq::differential_fuzz_test {
namespace {

using List = Argument::List;

constexpr uint64_t kPrime = 0x100000001b3;  // of the digest

struct Value8 {
  Node* node;
  int64_t channels, height, width;
};

class RandomNetwork {
 public:
  explicit RandomNetwork(Random& random) : random_(random) {}

  // From x: float32[batch, channels, side, side].
  Program make(Shape& input) {
    const int64_t channels = 1 + below(5), side = 5 + below(9);
    input = {1, channels, side, side};
    values_.push_back({rounded(g_.input(input)), channels, side, side});
    for (int64_t layers = 2 + below(6); layers > 0; --layers) values_.push_back(layer());
    const Value8 last = values_.back();
    Node* flat = last.node;
    int64_t features = last.channels;
    if (below(2) == 0) {
      flat = rounded(g_.call("torch.ops.aten.adaptive_avg_pool2d.default", {flat, List{1, 1}}));
    } else {
      features *= last.height * last.width;
    }
    flat = g_.call("torch.ops.aten.flatten.using_ints", {flat, 1});
    return g_.done({rounded(g_.call("torch.ops.aten.linear.default", {flat, g_.weight({1 + below(9), features})}))});
  }

 private:
  int64_t below(int64_t count) { return static_cast<int64_t>(random_.below(static_cast<uint64_t>(count))); }

  // To unsigned or signed integers of some scale and zero point.
  Node* rounded(Node* x) {
    const bool is_signed = below(3) == 0;
    const double scale = 0.01 + 0.005 * static_cast<double>(below(9));
    const int zero_point = static_cast<int>(below(4) == 0 ? below(256) : 128) - (is_signed ? 128 : 0);
    return g_.round(x, scale, zero_point, is_signed ? DType::kS8 : DType::kU8);
  }

  Node* activated(Node* x) {
    switch (below(4)) {
      case 0: return g_.call("torch.ops.aten.relu.default", {x});
      case 1: return g_.call("torch.ops.aten.hardtanh.default", {x, 0.0, 6.0});
      default: return x;
    }
  }

  Value8 convolution(const Value8& x) {
    const int64_t kernel = x.height >= 3 && x.width >= 3 ? 1 + 2 * below(2) : 1;
    const int pad = static_cast<int>(below(2) * (kernel / 2));
    const bool is_depthwise = below(3) == 0;
    const int64_t outputs = is_depthwise ? x.channels : 1 + below(20);
    Node* conv = g_.conv(x.node, {outputs, is_depthwise ? 1 : x.channels, kernel, kernel}, pad,
                         static_cast<int>(is_depthwise ? x.channels : 1));
    const int64_t lost = kernel - 1 - 2 * pad;
    return {rounded(activated(conv)), outputs, x.height - lost, x.width - lost};
  }

  Value8 layer() {
    const Value8 x = values_[static_cast<size_t>(below(static_cast<int64_t>(values_.size())))];
    switch (below(6)) {
      case 0:
        if (x.height < 3 || x.width < 3) return convolution(x);
        return {rounded(g_.call("torch.ops.aten.max_pool2d.default", {x.node, List{2, 2}, List{2, 2}})), x.channels,
                x.height / 2, x.width / 2};
      case 1:
      case 2:
        for (const Value8& y : values_) {
          if (y.height != x.height || y.width != x.width || y.node == x.node) continue;
          if (below(2) == 0)
            return {rounded(g_.call("torch.ops.aten.cat.default", {List{x.node, y.node}, 1})), x.channels + y.channels,
                    x.height, x.width};
          if (y.channels == x.channels)
            return {rounded(activated(g_.call("torch.ops.aten.add.Tensor", {x.node, y.node}))), x.channels, x.height,
                    x.width};
        }
        return convolution(x);
      default: return convolution(x);
    }
  }

  Random& random_;
  GraphBuilder g_;
  std::vector<Value8> values_;
};

TEST(FuzzDifferential, PlainLoopsAndKernelsGiveTheSameIntegers) {
  const auto seed = static_cast<uint64_t>(setting("QDQ_FUZZ_SEED", 20261123));
  const int64_t rounds = setting("QDQ_FUZZ_ROUNDS", 60);
  Random random(seed);
  int64_t compared = 0;
  uint64_t digest = 0;
  for (int64_t round = 0; round < rounds; ++round) {
    SCOPED_TRACE(concat("QDQ_FUZZ_SEED=", seed, ", round ", round));
    Shape sizes;
    const Program program = RandomNetwork(random).make(sizes);
    LowerOptions plain_loops{{"simd"}};
    plain_loops.step_backends = {make_reference_steps()};
    Session reference = lower(program.clone(), plain_loops), simd = lower(program.clone(), {{"simd"}});
    for (const int64_t batch : {1, 3}) {
      sizes[0] = batch;
      std::mt19937 numbers(static_cast<unsigned>(17 * round + batch));
      const Tensor x = Tensor::empty(sizes, DType::kF32);
      for (float& number : x.span<float>()) number = uniform(numbers, -3, 3);
      set_num_threads(static_cast<int>(batch));
      const Tensor wanted = reference.run({{x}})[0].contiguous();
      ASSERT_TRUE(bitwise_equal(simd.run({{x}})[0].contiguous(), wanted)) << "simd";
      compared += wanted.numel();
      for (const float number : wanted.span<float>()) digest = digest * kPrime + std::bit_cast<uint32_t>(number);
    }
  }
  set_num_threads(1);
  EXPECT_GT(compared, rounds);
  std::cout << rounds << " networks of seed " << seed << ": digest " << std::hex << digest << std::dec << std::endl;
}

// How many numbers oneDNN gives further from those of plain loops than this.
int64_t far_from_plain_loops(const Program& program, const Tensor& input, float most) {
  LowerOptions plain_loops{{"simd"}};
  plain_loops.step_backends = {make_reference_steps()};
  const Tensor wanted = lower(program.clone(), plain_loops).run({{input}})[0].contiguous(),
               found = lower(program.clone(), {{"onednn", "simd"}}).run({{input}})[0].contiguous();
  int64_t far = 0;
  for (int64_t i = 0; i < wanted.numel(); ++i) far += std::abs(wanted.data<float>()[i] - found.data<float>()[i]) > most;
  return far;
}

// One convolution of random groups, window and zero points by oneDNN: its integers are those of the plain loops, but
// for a step where halves are rounded by different floats; some are of floats.
TEST(FuzzDifferential, OneDnnConvolutionsGiveTheNumbersOfPlainLoops) {
  if (make_onednn_steps() == nullptr) GTEST_SKIP() << "built without oneDNN";
  const auto seed = static_cast<uint64_t>(setting("QDQ_FUZZ_SEED", 20261126));
  const int64_t rounds = setting("QDQ_FUZZ_ROUNDS", 60);
  Random random(seed);
  const auto below = [&](int64_t count) { return static_cast<int64_t>(random.below(static_cast<uint64_t>(count))); };
  for (int64_t round = 0; round < rounds; ++round) {
    GraphBuilder g;
    const int64_t groups = below(3) == 0 ? 1 : 1 + below(9), inner = 1 + below(below(3) == 0 ? 20 : 4),
                  outer = 1 + below(below(3) == 0 ? 20 : 4), batch = 1 + below(3);
    const int64_t kernel[] = {1 + below(4), 1 + below(4)};
    const auto pair = [&](int64_t least, int64_t count) { return List{least + below(count), least + below(count)}; };
    const List strides = pair(1, 3), padding = pair(0, below(2) == 0 ? 1 : 3),
               dilation = below(4) == 0 ? pair(1, 1) : List{1, 1};
    const Shape sizes = {batch, groups * inner, 7 + below(below(2) == 0 ? 2 : 8) - 3 * below(2),
                         7 + below(8) - 3 * below(2)};
    const auto rounded = [&](Node* x) {
      const bool is_signed = below(2) == 0;
      const int zero_point = static_cast<int>(below(256)) - (is_signed ? 128 : 0);
      return g.round(x, 0.02, zero_point, is_signed ? DType::kS8 : DType::kU8);
    };
    const bool is_float = below(4) == 0;
    const Shape weight = {groups * outer, inner, kernel[0], kernel[1]};
    Node* x = g.input(sizes);
    Node* conv = is_float
                     ? g.call("torch.ops.aten.conv2d.default", {x, g.floats(weight, -1, 1), g.floats({groups * outer}),
                                                                List{1, 1}, List{0, 0}, List{1, 1}, groups})
                     : g.conv(rounded(x), weight, 0, static_cast<int>(groups));
    conv->set_arg(3, Argument(strides));
    conv->set_arg(4, Argument(padding));
    conv->set_arg(5, Argument(dilation));
    const Program program = g.done({is_float ? conv : rounded(conv)});
    SCOPED_TRACE(concat("QDQ_FUZZ_SEED=", seed, ", round ", round, ": groups ", groups, " of ", inner, " and ", outer,
                        ", kernel ", kernel[0], "x", kernel[1], ", strides ", strides[0].integer().value_or(0), " ",
                        strides[1].integer().value_or(0), ", padding ", padding[0].integer().value_or(0), " ",
                        padding[1].integer().value_or(0), ", dilation ", dilation[0].integer().value_or(0), " ",
                        dilation[1].integer().value_or(0), ", of ", to_string(sizes)));
    EXPECT_EQ(
        far_from_plain_loops(program, random_tensor(sizes, static_cast<unsigned>(round)), is_float ? 1e-3F : 0.0201F),
        0);
  }
}

// Windows of few channels and many columns, which fill rows of AMX tiles; and strides that leave one column of results.
TEST(FuzzDifferential, OneDnnConvolutionsOfLongWindowsGiveTheNumbersOfPlainLoops) {
  if (make_onednn_steps() == nullptr) GTEST_SKIP() << "built without oneDNN";
  const std::pair<int64_t, int64_t> shapes[] = {{4, 32}, {8, 16}, {16, 8}, {16, 12}, {24, 8}, {28, 16}, {64, 8}};
  for (const auto& [channels, columns] : shapes) {
    GraphBuilder g;
    const Shape sizes = {1, channels, 2, 60};
    Node* x = g.round(g.input(sizes), 0.02, 120, DType::kU8);
    const Program program = g.done({g.round(g.conv(x, {32, channels, 1, columns}), 0.02, 128, DType::kU8)});
    EXPECT_EQ(far_from_plain_loops(program, random_tensor(sizes, 7), 0.0201F), 0) << channels << ", " << columns;
  }
  for (const int64_t channels : {3, 8, 20}) {
    GraphBuilder g;
    const Shape sizes = {2, channels, 8, 5};
    Node* x = g.round(g.input(sizes), 0.02, 120, DType::kU8);
    Node* y = g.conv(x, {8, channels, 1, 4});
    y->set_arg(3, Argument(Argument::List{1, 2}));
    EXPECT_EQ(far_from_plain_loops(g.done({g.round(y, 0.02, 128, DType::kU8)}), random_tensor(sizes, 7), 0.0201F), 0)
        << channels;
  }
}

}  // namespace
}  // namespace qdq::differential_fuzz_test
