// The portable loops over elements beside the reference: broadcasting, conditions, comparisons, logic, half floats.
#include "exec/interpreter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>

#include "unit/exec/small_net.h"

namespace qdq::simd_elements_test {
namespace {

// Operands are stretched over axes in front, between and behind, whatever their order in memory.
TEST(SimdElements, BroadcastsOperandsOfAnyOrder) {
  const std::unique_ptr<OpBackend> simd = make_simd_ops();
  const std::vector<std::pair<Shape, Shape>> cases = {
      {{2, 3, 4, 5}, {5}},
      {{4}, {2, 3, 4}},
      {{2, 3, 1, 1}, {2, 3, 4, 5}},
      {{2, 1, 4, 1}, {1, 3, 1, 5}},
      {{7, 2}, {7, 1}},
      {{1200, 3}, {3}},
      {{2, 700}, {2, 1}},
      {{3, 1, 700}, {1, 2, 700}},
      {{1}, {2, 3}},
      {{}, {3}},
      {{1, 1}, {1}},
      {{2, 3, 4}, {2, 3, 4}},
  };
  for (const char* op : {"add.Tensor", "sub.Tensor", "mul.Tensor", "div.Tensor", "maximum.default", "rsub.Tensor"})
    for (const auto& [a, b] : cases)
      for (const bool is_turned : {false, true}) {
        const bool has_factor = std::string_view(op).find("sub") != std::string_view::npos;
        Program program;
        Node* x = placeholder(program, "x", SymShape(a.begin(), a.end()));
        Node* y = placeholder(program, "y", SymShape(b.begin(), b.end()));
        std::vector<Argument> args{x, y};
        Node::Kwargs kwargs;
        if (has_factor) kwargs.emplace_back("alpha", 0.7);
        if (std::string_view(op) == "rsub.Tensor") kwargs[0].second = 1;
        Node* node = program.graph->create(Node::Op::kCallFunction, concat("torch.ops.aten.", op), args, kwargs);
        program.graph->create(Node::Op::kOutput, "output", {Argument(Argument::List{node})});
        infer_shapes(program);
        Interpreter fast(program, {simd.get()});
        EXPECT_EQ(fast.placements().at(0).backend, "simd") << op;
        // The same elements, the last axis not the fastest.
        const auto turned = [&](const Tensor& t) {
          return is_turned && t.dim() > 1 ? t.transpose(0, -1).contiguous().transpose(0, -1) : t;
        };
        const Tensor left = turned(counting(a, 0.0719f, -2.f)), right = turned(counting(b, -0.0373f, 1.7f));
        const Tensor expected = Interpreter(program, {}).run({{left, right}}).at(0),
                     found = fast.run({{left, right}}).at(0);
        EXPECT_TRUE(bitwise_equal(expected, found)) << op << " " << to_string(a) << " " << to_string(b);
        EXPECT_EQ(fast.placements().at(0).fallbacks.runs, 0u) << op << " " << to_string(a) << " " << to_string(b);
      }
}

TEST(SimdElements, ChoosesByConditionsOfAnyOrder) {
  using List = Argument::List;
  const std::unique_ptr<OpBackend> simd = make_simd_ops();
  const std::vector<std::array<Shape, 3>> cases = {
      {Shape{2, 3, 5}, Shape{2, 3, 5}, Shape{2, 3, 5}},
      {Shape{2, 1, 5}, Shape{3, 5}, Shape{}},
      {Shape{1}, Shape{4, 1}, Shape{1, 3}},
      {Shape{}, Shape{7}, Shape{7}},
      {Shape{2, 0}, Shape{1, 1}, Shape{}},
  };
  for (const auto& [c, a, b] : cases)
    for (const int number : {0, 1, 2}) {  // which of the values is a number; 0: none
      Program program;
      Node* x = placeholder(program, "x", SymShape(a.begin(), a.end()));
      Node* y = placeholder(program, "y", SymShape(b.begin(), b.end()));
      Node* condition = placeholder(program, "c", SymShape(c.begin(), c.end()));
      condition->meta.val.value = TensorMeta{DType::kBool, SymShape(c.begin(), c.end()), {}, false};
      const char* op = number == 0 ? "self" : number == 1 ? "ScalarSelf" : "ScalarOther";
      Node* node = program.graph->call(concat("torch.ops.aten.where.", op),
                                       {condition, number == 1 ? Argument(0.7) : x, number == 2 ? Argument(-3) : y});
      program.graph->create(Node::Op::kOutput, "output", {Argument(List{node})});
      infer_shapes(program);
      Interpreter fast(program, {simd.get()});
      EXPECT_EQ(fast.placements().at(0).backend, "simd");
      Tensor chosen = Tensor::empty(c, DType::kBool);
      for (int64_t i = 0; i < chosen.numel(); ++i) chosen.data<bool>()[i] = i % 3 != 1;
      const std::vector<Tensor> inputs{counting(a, 0.0719f, -2.f), counting(b, -0.0373f, 1.7f), chosen};
      EXPECT_TRUE(bitwise_equal(fast.run(inputs)[0], Interpreter(program, {}).run(inputs)[0])) << op;
      EXPECT_EQ(fast.placements().at(0).fallbacks.runs, 0u);
    }
}

TEST(SimdElements, ChoosesIndices) {
  const std::unique_ptr<OpBackend> simd = make_simd_ops();
  Program program;
  std::vector<Argument> args;
  for (const auto& [name, dtype, sizes] :
       {std::tuple("c", DType::kBool, SymShape{40, 1}), std::tuple("x", DType::kS64, SymShape{40, 7}),
        std::tuple("y", DType::kS64, SymShape{7})}) {
    Node* input = placeholder(program, name, sizes);
    input->meta.val.value = TensorMeta{dtype, sizes, {}, false};
    args.emplace_back(input);
  }
  Node* node = program.graph->call("torch.ops.aten.where.self", args);
  program.graph->create(Node::Op::kOutput, "output", {Argument(Argument::List{node})});
  infer_shapes(program);
  Interpreter fast(program, {simd.get()});
  EXPECT_EQ(fast.placements().at(0).backend, "simd");
  const Tensor chosen = Tensor::empty({40, 1}, DType::kBool), x = Tensor::empty({40, 7}, DType::kS64),
               y = Tensor::empty({7}, DType::kS64);
  for (int64_t i = 0; i < 40; ++i) chosen.data<bool>()[i] = i % 3 != 1;
  for (int64_t i = 0; i < 280; ++i) x.data<int64_t>()[i] = (int64_t{1} << 40) + i;
  for (int64_t i = 0; i < 7; ++i) y.data<int64_t>()[i] = -i;
  const std::vector<Tensor> inputs{chosen, x, y};
  EXPECT_TRUE(bitwise_equal(fast.run(inputs)[0], Interpreter(program, {}).run(inputs)[0]));
  EXPECT_EQ(fast.placements().at(0).fallbacks.runs, 0u);
}

// Operands that are broadcast, hold a number that float32 rounds, NaN, infinities or zeros of both signs.
TEST(SimdElements, ComparesAndRoundsAsTheReferenceDoes) {
  const std::unique_ptr<OpBackend> simd = make_simd_ops();
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> numbers{0.5F, 1.5F, -0.5F,    -0.3F,     0.0F, -0.0F,  8388609.0F, -2.5F,
                                   0.1F, NAN,  infinity, -infinity, 3e9F, 1e-40F, 2.0F,       4194304.5F};
  const auto agree = [&](const std::string& op, const Tensor& a, const Tensor* b) {
    SCOPED_TRACE(op);
    Program program;
    std::vector<Argument> args{placeholder(program, "x", SymShape(a.sizes().begin(), a.sizes().end()))};
    std::vector<Tensor> inputs{a};
    if (b != nullptr) {
      args.emplace_back(placeholder(program, "y", SymShape(b->sizes().begin(), b->sizes().end())));
      inputs.push_back(*b);
    } else if (op.ends_with("Scalar")) {
      args.emplace_back(0.1);
    }
    Node* node = program.graph->call("torch.ops.aten." + op, args);
    program.graph->create(Node::Op::kOutput, "output", {Argument(Argument::List{node})});
    infer_shapes(program);
    Interpreter fast(program, {simd.get()});
    EXPECT_EQ(fast.placements().at(0).backend, "simd");
    EXPECT_TRUE(bitwise_equal(fast.run(inputs)[0], Interpreter(program, {}).run(inputs)[0]));
    EXPECT_EQ(fast.placements().at(0).fallbacks.runs, 0U);
  };
  const Tensor x = Tensor::empty({2, 8}, DType::kF32), row = Tensor::empty({8}, DType::kF32),
               column = Tensor::empty({2, 1}, DType::kF32);
  std::copy(numbers.begin(), numbers.end(), x.data<float>());
  std::copy_n(numbers.begin() + 4, 8, row.data<float>());
  std::copy_n(numbers.begin() + 8, 2, column.data<float>());
  for (const char* op : {"round.default", "floor.default", "ceil.default"}) agree(op, x, nullptr);
  for (const std::string op : {"eq", "ne", "lt", "le", "gt", "ge"}) {
    agree(op + ".Scalar", x, nullptr);
    agree(op + ".Scalar", x.transpose(0, 1), nullptr);
    for (const Tensor* other : {&x, &row, &column}) agree(op + ".Tensor", x, other);
    agree(op + ".Tensor", row, &x);
  }
}

TEST(SimdElements, LogicIsThatOfTheReference) {
  const std::unique_ptr<OpBackend> simd = make_simd_ops();
  const std::vector<std::pair<Shape, Shape>> shapes = {{{3, 37}, {3, 37}}, {{3, 37}, {37}}, {{3, 1}, {1, 37}}};
  for (const char* op : {"logical_and", "logical_or", "logical_xor", "logical_not"})
    for (const auto& [left, right] : shapes) {
      SCOPED_TRACE(op);
      Program program;
      std::vector<Argument> args;
      std::vector<Tensor> inputs;
      for (const Shape& sizes : {left, right}) {
        if (!inputs.empty() && std::string_view(op) == "logical_not") break;
        Node* node = placeholder(program, concat("x", inputs.size()), SymShape(sizes.begin(), sizes.end()));
        node->meta.val.value = TensorMeta{DType::kBool, SymShape(sizes.begin(), sizes.end()), {}, false};
        args.emplace_back(node);
        const Tensor values = Tensor::empty(sizes, DType::kBool);
        for (int64_t i = 0; i < values.numel(); ++i)
          values.data<bool>()[i] = (i * i + static_cast<int64_t>(inputs.size())) % 3 == 0;
        inputs.push_back(values);
      }
      Node* node = program.graph->call(concat("torch.ops.aten.", op, ".default"), args);
      program.graph->create(Node::Op::kOutput, "output", {Argument(Argument::List{node})});
      infer_shapes(program);
      const Tensor expected = Interpreter(program, {}).run(inputs).at(0);
      Interpreter fast(program, {simd.get()});
      EXPECT_TRUE(bitwise_equal(fast.run(inputs).at(0), expected));
      EXPECT_EQ(fast.placements().at(0).backend, "simd");
      EXPECT_EQ(fast.placements().at(0).fallbacks.runs, 0);
    }
}

TEST(SimdElements, HalvesAreComputedAsFloatsAndRoundedOnce) {
  using List = Argument::List;
  struct Case {
    const char* op;
    std::vector<Argument> more;  // behind x
    Shape weight;                // of a second operand between the two; none if empty
  };
  const std::vector<Case> cases = {
      {"aten.relu_.default", {}, {}},
      {"aten.exp.default", {}, {}},
      {"aten.add.Tensor", {}, {2, 4, 7, 5}},
      {"aten.mul.Tensor", {}, {4, 1, 1}},
      {"aten.softmax.int", {-1}, {}},
      {"aten.mean.dim", {Argument(List{2, 3}), true}, {}},
      {"aten.max_pool2d.default", {List{3, 3}, List{2, 2}, List{1, 1}}, {}},
      {"aten.layer_norm.default", {Argument(List{7, 5})}, {}},
      {"aten.conv2d.default", {Argument(), List{1, 1}, List{1, 1}}, {6, 4, 3, 3}},
      {"aten.conv_transpose2d.input", {Argument(), List{2, 2}}, {4, 3, 2, 2}},
      {"aten.linear.default", {}, {6, 5}},
      {"aten.matmul.default", {}, {5, 3}},
      {"aten.to.dtype", {DType::kF32}, {}},
  };
  const std::unique_ptr<OpBackend> simd = make_simd_ops();
  for (const Case& one : cases) {
    SCOPED_TRACE(one.op);
    Program program;
    const auto half_placeholder = [&](const char* name, const Shape& sizes) {
      Node* node = placeholder(program, name, SymShape(sizes.begin(), sizes.end()));
      node->meta.val.value = TensorMeta{DType::kF16, SymShape(sizes.begin(), sizes.end()), {}, false};
      return node;
    };
    std::vector<Argument> args{half_placeholder("x", {2, 4, 7, 5})};
    std::vector<Tensor> inputs{counting({2, 4, 7, 5}, 0.0719f, -1.f).to(DType::kF16)};
    if (!one.weight.empty()) {
      args.emplace_back(half_placeholder("weight", one.weight));
      inputs.push_back(counting(one.weight, 0.113f, -1.f).to(DType::kF16));
    }
    args.insert(args.end(), one.more.begin(), one.more.end());
    Node* node = program.graph->call(concat("torch.ops.", one.op), args);
    program.graph->create(Node::Op::kOutput, "output", {Argument(List{node})});
    infer_shapes(program);
    const auto copies = [&] {
      std::vector<Tensor> out;
      for (const Tensor& input : inputs) out.push_back(input.clone());
      return out;
    };
    const Tensor expected = Interpreter(program, {}).run(copies()).at(0);
    Interpreter fast(program, {simd.get()});
    EXPECT_EQ(fast.placements().at(0).backend, "simd");
    const Tensor found = fast.run(copies()).at(0);
    EXPECT_EQ(fast.placements().at(0).fallbacks.runs, 0);
    ASSERT_EQ(found.dtype(), expected.dtype());
    ASSERT_EQ(found.sizes(), expected.sizes());
    const Tensor a = found.to(DType::kF32).contiguous(), b = expected.to(DType::kF32).contiguous();
    for (int64_t i = 0; i < a.numel(); ++i)
      EXPECT_NEAR(a.data<float>()[i], b.data<float>()[i], 0x1p-10 * (0.01 + std::fabs(b.data<float>()[i]))) << i;
  }
}

}  // namespace
}  // namespace qdq::simd_elements_test
