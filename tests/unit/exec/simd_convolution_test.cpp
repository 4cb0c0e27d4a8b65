// Convolutions by Winograd's transform, of volumes and transposed ones: what the loops give beside the reference, on
// random sizes and settings.
#include <gtest/gtest.h>

#include <cmath>

#include "base/parallel.h"
#include "exec/interpreter.h"
#include "op/op.h"
#include "unit/exec/small_net.h"
#include "unit/fuzz_random.h"

namespace qdq::simd_convolution_test {
namespace {

using List = Argument::List;

Tensor floats(const Shape& sizes, Random& random) {
  const Tensor out = Tensor::empty(sizes, DType::kF32);
  for (float& element : out.span<float>()) element = static_cast<float>(random.below(2001)) / 1000 - 1;
  return out;
}

struct Settings {
  List stride, padding, dilation, output_padding;
  int64_t groups;
};

// The program of one call: its target and how it takes its settings.
Program program_of(const std::string& op, const Tensor& x, const Tensor& weight, const Tensor& bias,
                   const Settings& s) {
  Program program;
  Node* input = program.graph->create(Node::Op::kPlaceholder, "x", {}, {}, "x");
  input->meta.val.value = TensorMeta{DType::kF32, SymShape(x.sizes().begin(), x.sizes().end()), {}, false};
  std::vector<Argument> args = {input, attribute(program, "weight", weight),
                                bias.defined() ? Argument(attribute(program, "bias", bias)) : Argument()};
  if (op == "convolution.default" || op == "convolution.transposed")
    for (const Argument& each :
         {Argument(s.stride), Argument(s.padding), Argument(s.dilation), Argument(op == "convolution.transposed"),
          Argument(s.output_padding), Argument(s.groups)})
      args.push_back(each);
  else if (op.starts_with("conv_transpose"))
    for (const Argument& each : {Argument(s.stride), Argument(s.padding), Argument(s.output_padding),
                                 Argument(s.groups), Argument(s.dilation)})
      args.push_back(each);
  else
    for (const Argument& each : {Argument(s.stride), Argument(s.padding), Argument(s.dilation), Argument(s.groups)})
      args.push_back(each);
  const std::string target = op == "convolution.transposed" ? "convolution.default" : op;
  Node* call = program.graph->call(concat("torch.ops.aten.", target), std::move(args));
  program.graph->create(Node::Op::kOutput, "output", {Argument(List{call})});
  infer_shapes(program);
  return program;
}

void expect_same(const Program& program, const Tensor& x, const std::string& what) {
  SCOPED_TRACE(what);
  const std::unique_ptr<OpBackend> simd = make_simd_ops();
  const Tensor wanted = Interpreter(program, {}).run({{x}}).at(0);
  Tensor first;
  for (const int threads : {1, 3}) {
    set_num_threads(threads);
    Interpreter fast(program, {simd.get()});
    EXPECT_EQ(fast.placements().at(0).backend, "simd");
    const Tensor found = fast.run({{x}}).at(0), again = fast.run({{x}}).at(0);
    EXPECT_EQ(fast.placements().at(0).fallbacks.runs, 0);
    ASSERT_EQ(found.sizes(), wanted.sizes());
    for (int64_t i = 0; i < found.numel(); ++i)
      ASSERT_NEAR(found.data<float>()[i], wanted.data<float>()[i], 2e-5) << "element " << i;
    EXPECT_TRUE(bitwise_equal(found, again));
    EXPECT_TRUE(!first.defined() || bitwise_equal(found, first));
    first = found;
  }
  set_num_threads(1);
}

List random_list(size_t axes, Random& random, int64_t low, uint64_t count) {
  List out;
  for (size_t i = 0; i < axes; ++i) out.emplace_back(low + static_cast<int64_t>(random.below(count)));
  return out;
}

TEST(SimdConvolution, VolumesAreAsTheReferenceGivesThem) {
  Random random(1);
  for (int round = 0; round < 60; ++round) {
    const int64_t groups = 1 + static_cast<int64_t>(random.below(3)),
                  inputs = 1 + static_cast<int64_t>(random.below(3)),
                  outputs = 1 + static_cast<int64_t>(random.below(4));
    Settings s{random_list(3, random, 1, 3), random_list(3, random, 0, 3), random_list(3, random, 1, 2), List{0, 0, 0},
               groups};
    Shape x = {1 + static_cast<int64_t>(random.below(2)), groups * inputs}, w = {groups * outputs, inputs};
    for (int i = 0; i < 3; ++i) {
      w.push_back(1 + static_cast<int64_t>(random.below(3)));
      x.push_back(5 + static_cast<int64_t>(random.below(4)));
    }
    const Tensor input = floats(x, random), weight = floats(w, random),
                 bias = random.below(2) == 0 ? floats({w[0]}, random) : Tensor();
    const char* op = random.below(2) == 0 ? "conv3d.default" : "convolution.default";
    expect_same(program_of(op, input, weight, bias, s), input, concat("round ", round, " ", op, " ", to_string(w)));
  }
}

TEST(SimdConvolution, WinogradIsAsTheReferenceGivesItForAnyBatch) {
  Random random(3);
  for (int round = 0; round < 12; ++round) {
    const int64_t groups = 1 + static_cast<int64_t>(random.below(2)),
                  inputs = 16 + static_cast<int64_t>(random.below(30)),
                  outputs = 16 + static_cast<int64_t>(random.below(30));
    const Settings s{List{1, 1}, random_list(2, random, 0, 3), List{1, 1}, List{0, 0}, groups};
    const Tensor input = floats({3, groups * inputs, 8 + static_cast<int64_t>(random.below(9)), 12}, random),
                 weight = floats({groups * outputs, inputs, 3, 3}, random),
                 bias = random.below(2) == 0 ? floats({groups * outputs}, random) : Tensor();
    for (float& element : weight.span<float>()) element /= 8;  // for outputs as large as those of the other tests
    const char* op = random.below(2) == 0 ? "conv2d.default" : "convolution.default";
    const Program program = program_of(op, input, weight, bias, s);
    expect_same(program, input, concat("round ", round, " ", op, " ", to_string(input.sizes())));
    const std::unique_ptr<OpBackend> simd = make_simd_ops();
    Interpreter fast(program, {simd.get()});
    const Tensor all = fast.run({{input}}).at(0), last = input.slice(0, 2, 3).contiguous();
    const Tensor found = Interpreter(program_of(op, last, weight, bias, s), {simd.get()}).run({{last}}).at(0);
    EXPECT_TRUE(bitwise_equal(found, all.slice(0, 2, 3).contiguous())) << "round " << round;
  }
}

TEST(SimdConvolution, TransposedOnesAreAsTheReferenceGivesThem) {
  Random random(2);
  for (int round = 0; round < 120; ++round) {
    const size_t axes = 1 + random.below(3);
    const int64_t groups = 1 + static_cast<int64_t>(random.below(3)),
                  inputs = 1 + static_cast<int64_t>(random.below(3)),
                  outputs = 1 + static_cast<int64_t>(random.below(4));
    Settings s{
        random_list(axes, random, 1, 4), random_list(axes, random, 0, 4), random_list(axes, random, 1, 3), {}, groups};
    Shape x = {1 + static_cast<int64_t>(random.below(2)), groups * inputs}, w = {groups * inputs, outputs};
    for (size_t i = 0; i < axes; ++i) {
      // Less than the stride or the dilation, as PyTorch wants it.
      const int64_t most = std::max(*s.stride[i].integer(), *s.dilation[i].integer());
      s.output_padding.emplace_back(static_cast<int64_t>(random.below(static_cast<uint64_t>(most))));
      w.push_back(1 + static_cast<int64_t>(random.below(4)));
      x.push_back(7 + static_cast<int64_t>(random.below(4)));
    }
    const Tensor input = floats(x, random), weight = floats(w, random),
                 bias = random.below(2) == 0 ? floats({groups * outputs}, random) : Tensor();
    const std::string op = random.below(3) == 0 ? "convolution.transposed"
                           : axes == 1          ? "conv_transpose1d.default"
                           : axes == 2          ? "conv_transpose2d.input"
                                                : "conv_transpose3d.input";
    expect_same(program_of(op, input, weight, bias, s), input, concat("round ", round, " ", op, " ", to_string(w)));
  }
}

}  // namespace
}  // namespace qdq::simd_convolution_test
