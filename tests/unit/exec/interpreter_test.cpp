#include "exec/interpreter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include <cmath>

#include "base/parallel.h"

namespace qdq {
namespace {

using testing::HasSubstr;

Tensor counting(const Shape& shape, float step, float start) {
  const Tensor out = Tensor::empty(shape, DType::kF32);
  float value = start;
  for (float& element : out.span<float>()) {
    element = value;
    value = value > 1.f ? start : value + step;
  }
  return out;
}

Node* placeholder(Program& program, const std::string& name, const SymShape& sizes, DType dtype = DType::kF32) {
  Node* node = program.graph->create(Node::Op::kPlaceholder, name, {}, {}, name);
  node->meta.val.value = TensorMeta{dtype, sizes, {}, false};
  return node;
}

Node* attribute(Program& program, const std::string& name, const Tensor& tensor) {
  program.add_attribute({name, tensor, Attribute::Kind::kParameter});
  Node* node = program.graph->get_attr(name);
  SymShape sizes(tensor.sizes().begin(), tensor.sizes().end());
  node->meta.val.value = TensorMeta{tensor.dtype(), sizes, {}, false};
  return node;
}

// conv (3x3, stride 2, two groups) -> relu -> mean of the image -> linear, with an open batch dimension.
Program small_net() {
  Program program;
  Node* weight = attribute(program, "conv.weight", counting({8, 2, 3, 3}, 0.0371f, -1.f));
  Node* bias = attribute(program, "conv.bias", counting({8}, 0.3f, -1.f));
  Node* matrix = attribute(program, "fc.weight", counting({5, 8}, 0.0913f, -1.f));
  Node* x = placeholder(program, "x", {SymInt::symbol("s0"), 4, 9, 7});
  program.symbol_ranges["s0"] = {1, 16};
  Graph& graph = *program.graph;
  using List = Argument::List;
  Node* conv = graph.call("torch.ops.aten.conv2d.default", {x, weight, bias, List{2, 2}, List{1, 1}, List{1, 1}, 2}, {},
                          "conv2d");
  Node* relu = graph.call("torch.ops.aten.relu.default", {conv}, {}, "relu");
  Node* pool = graph.call("torch.ops.aten.adaptive_avg_pool2d.default", {relu, List{1, 1}}, {}, "pool");
  Node* flat = graph.call("torch.ops.aten.flatten.using_ints", {pool, 1}, {}, "flatten");
  Node* linear = graph.call("torch.ops.aten.linear.default", {flat, matrix}, {}, "linear");
  graph.create(Node::Op::kOutput, "output", {Argument(List{linear, relu})});
  infer_shapes(program);
  return program;
}

TEST(Interpreter, SimdAgreesWithTheReferenceAndWithItselfOnAnyThreads) {
  const Program program = small_net();
  const Tensor x = counting({3, 4, 9, 7}, 0.0173f, -1.f);
  const std::vector<Tensor> expected = Interpreter(program, {}).run({{x}});
  ASSERT_EQ(expected.size(), 2u);
  EXPECT_EQ(expected[0].sizes(), (Shape{3, 5}));
  const std::unique_ptr<OpBackend> simd = make_simd_ops();
  Interpreter fast(program, {simd.get()});
  const std::vector<Tensor> first = fast.run({{x}});
  for (size_t i = 0; i < expected.size(); ++i)
    for (int64_t j = 0; j < expected[i].numel(); ++j)
      EXPECT_NEAR(first[i].data<float>()[j], expected[i].data<float>()[j], 2e-5) << i << " " << j;
  set_num_threads(3);
  const std::vector<Tensor> again = fast.run({{x}});
  set_num_threads(1);
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(bitwise_equal(first[i], again[i]));
  // A sample's result does not depend on its batch.
  const std::vector<Tensor> single = fast.run({{x.slice(0, 1, 2)}});
  EXPECT_TRUE(bitwise_equal(single[0], first[0].slice(0, 1, 2).contiguous()));
}

TEST(Interpreter, SimdAgreesWithTheReferenceOnEveryOperatorItTakes) {
  using List = Argument::List;
  struct Case {
    const char* op;
    std::vector<Argument> more;  // behind x
    double tolerance;            // relative to 1 + |expected|
    const char* backend = "simd";
  };
  const std::vector<Case> cases = {
      {"aten.relu.default", {}, 0},
      {"aten.relu_.default", {}, 0},
      {"aten.relu6.default", {}, 0},
      {"aten.hardtanh.default", {-0.25, 0.5}, 0},
      {"aten.hardswish_.default", {}, 0},
      {"aten.hardsigmoid.default", {}, 0},
      {"aten.leaky_relu.default", {0.01}, 0},
      {"aten.sigmoid.default", {}, 1e-6},
      {"aten.silu.default", {}, 1e-6},
      {"aten.gelu.default", {}, 1e-6},
      {"aten.tanh.default", {}, 1e-6},
      {"aten.exp.default", {}, 1e-6},
      {"aten.softmax.int", {-1}, 1e-6},
      {"aten.softmax.int", {1}, 1e-6},
      {"aten.log_softmax.int", {0}, 1e-6},
      {"aten.log1p.default", {}, 1e-6},
      {"aten.erf.default", {}, 1e-6},
      {"aten.neg.default", {}, 0},
      {"aten.abs_.default", {}, 0},
      {"aten.reciprocal.default", {}, 0},
      {"aten.elu.default", {0.7}, 1e-6},
      {"aten.softplus.default", {}, 1e-6},
      {"aten.mish.default", {}, 1e-6},
      {"aten.clamp.default", {-0.5, Argument()}, 0},
      {"aten.clamp_min.default", {0.25}, 0},
      {"aten.clamp_max_.default", {0.25}, 0},
      {"aten.pow.Tensor_Scalar", {2}, 1e-6},
      {"aten.pow.Tensor_Scalar", {3}, 1e-6},
      {"aten.add.Tensor", {0.3}, 0},
      {"aten.sub_.Tensor", {2}, 0},
      {"aten.rsub.Scalar", {1, 0.3}, 0},
      {"aten.mul.Tensor", {-1.7}, 0},
      {"aten.div.Tensor", {0.3}, 0},
      {"aten.mean.dim", {Argument(List{2, 3}), true}, 1e-6},
      {"aten.mean.dim", {Argument(List{-1})}, 1e-6},
      {"aten.sum.dim_IntList", {Argument(List{1, 3})}, 1e-6},
      {"aten.sum.dim_IntList", {Argument(List{0, 1})}, 1e-6},
      {"aten.amax.default", {Argument(List{1}), true}, 0},
      {"aten.amin.default", {Argument(List{2, 3})}, 0},
      {"aten.upsample_nearest2d.vec", {Argument(List{9, 11}), Argument()}, 0},
      {"aten.upsample_bilinear2d.vec", {Argument(List{13, 3}), false, Argument()}, 1e-6},
      {"aten.upsample_bicubic2d.vec", {Argument(), true, Argument(List{2.0, 3.0})}, 1e-6},
      {"aten.pad.default", {Argument(List{1, 2, 3, -1, 1, 0}), "constant", 0.5}, 0},
      {"aten.reflection_pad2d.default", {Argument(List{4, 3, 2, 6})}, 0},
      {"aten.pad.default", {Argument(List{-2, 9, 1, 1}), "replicate", Argument()}, 0},
      {"aten.group_norm.default", {3}, 1e-5},
      {"aten.instance_norm.default", {Argument(), Argument(), Argument(), Argument(), true, 0.1, 1e-5, false}, 1e-5},
      {"aten.max_pool1d.default", {List{3}, List{2}, List{1}}, 0, "simd"},
      {"aten.reshape.default", {Argument(List{-1, 5})}, 0},
      {"aten.permute.default", {Argument(List{2, 0, 3, 1})}, 0},
      {"aten.slice.Tensor", {-1, 1, 4, 2}, 0},
      {"aten.unsqueeze.default", {1}, 0},
      {"aten.layer_norm.default", {Argument(List{5})}, 1e-5},
      {"aten.layer_norm.default", {Argument(List{7, 5})}, 1e-5},
      {"aten.max_pool2d.default", {List{3, 3}, List{2, 2}, List{1, 1}, List{1, 1}, true}, 0},
      {"aten.avg_pool2d.default", {List{3, 2}, List{2, 2}, List{1, 1}, true, false}, 1e-6},
      {"aten.adaptive_avg_pool2d.default", {Argument(List{3, 2})}, 1e-6},
      {"quantized_decomposed.quantize_per_tensor.default", {0.0173, 3, -128, 127, DType::kS8}, 0},
      {"quantized_decomposed.quantize_per_tensor.default", {0.0173, 100, 0, 127, DType::kU8}, 0},
  };
  const std::unique_ptr<OpBackend> simd = make_simd_ops();
  for (const Case& one : cases) {
    Program program;
    const bool is_sequence = std::string_view(one.op).find("pool1d") != std::string_view::npos;
    const Shape sizes = is_sequence ? Shape{2, 3, 35} : Shape{2, 3, 7, 5};
    Node* x = placeholder(program, "x", SymShape(sizes.begin(), sizes.end()));
    std::vector<Argument> args{x};
    args.insert(args.end(), one.more.begin(), one.more.end());
    Node* node = program.graph->call(concat("torch.ops.", one.op), args);
    program.graph->create(Node::Op::kOutput, "output", {Argument(List{node})});
    infer_shapes(program);
    Interpreter fast(program, {simd.get()});
    EXPECT_EQ(fast.placements().at(0).backend, one.backend) << one.op;
    // In-place operators write to their input, so each run gets its own.
    const Tensor data = counting(sizes, 0.0719f, -2.f);
    const Tensor expected = Interpreter(program, {}).run({{data.clone()}}).at(0).to(DType::kF64);
    const Tensor found = fast.run({{data.clone()}}).at(0).to(DType::kF64);
    ASSERT_EQ(found.sizes(), expected.sizes()) << one.op;
    for (int64_t i = 0; i < expected.numel(); ++i) {
      const double want = expected.data<double>()[i];
      if (std::isnan(want)) EXPECT_TRUE(std::isnan(found.data<double>()[i])) << one.op << " at " << i;
      else EXPECT_NEAR(found.data<double>()[i], want, one.tolerance * (1 + std::abs(want))) << one.op << " at " << i;
    }
  }
}

// Masks of numbers and bools, for all images or for each; hidden queries; shared keys; more queries than one block has.
TEST(Interpreter, SimdAttentionAgreesWithTheReference) {
  struct Case {
    Shape query, key, value, mask;
    bool is_bool, is_causal, is_grouped;
  };
  const std::vector<Case> cases = {{{2, 3, 7, 5}, {2, 3, 9, 5}, {2, 3, 9, 4}, {}, false, false, false},
                                   {{2, 3, 7, 5}, {2, 3, 9, 5}, {2, 3, 9, 4}, {7, 9}, false, false, false},
                                   {{2, 3, 7, 5}, {2, 3, 9, 5}, {2, 3, 9, 4}, {2, 1, 1, 9}, true, false, false},
                                   {{2, 3, 7, 5}, {2, 3, 9, 5}, {2, 3, 9, 4}, {1, 3, 7, 9}, false, false, false},
                                   {{3, 6, 8}, {3, 6, 8}, {3, 6, 8}, {}, false, true, false},
                                   {{4, 8}, {5, 8}, {5, 3}, {}, false, false, false},
                                   {{1, 6, 3, 8}, {1, 2, 4, 8}, {1, 2, 4, 8}, {3, 4}, true, false, true},
                                   {{1, 2, 70, 4}, {1, 2, 1100, 4}, {1, 2, 1100, 6}, {}, false, false, false}};
  const std::unique_ptr<OpBackend> simd = make_simd_ops();
  for (const Case& one : cases) {
    SCOPED_TRACE(to_string(one.query) + " " + to_string(one.mask));
    Program program;
    std::vector<Argument> args;
    std::vector<Tensor> inputs;
    for (const Shape& sizes : {one.query, one.key, one.value}) {
      const std::string name = concat("x", args.size());
      args.emplace_back(placeholder(program, name.c_str(), SymShape(sizes.begin(), sizes.end())));
      inputs.push_back(counting(sizes, 0.0719f + 0.01f * static_cast<float>(inputs.size()), -2.f));
    }
    args.emplace_back();
    if (!one.mask.empty()) {
      Tensor mask = counting(one.mask, 0.31f, -1.f);
      // The first of a row's keys, and in the first row all, are hidden.
      for (int64_t i = 0; i < mask.numel(); ++i)
        if (i < one.mask.back() || i % one.mask.back() == 0)
          mask.data<float>()[i] = one.is_bool ? 0 : -std::numeric_limits<float>::infinity();
      inputs.push_back(one.is_bool ? mask.to(DType::kBool) : mask);
      args.back() = placeholder(program, "mask", SymShape(one.mask.begin(), one.mask.end()));
      args.back().node()->meta.val.value =
          TensorMeta{inputs.back().dtype(), {one.mask.begin(), one.mask.end()}, {}, false};
    }
    args.insert(args.end(), {0.0, one.is_causal});
    Node* node = program.graph->call("torch.ops.aten.scaled_dot_product_attention.default", args,
                                     {{"enable_gqa", one.is_grouped}});
    program.graph->create(Node::Op::kOutput, "output", {Argument(Argument::List{node})});
    infer_shapes(program);
    Interpreter fast(program, {simd.get()});
    EXPECT_EQ(fast.placements().at(0).backend, "simd");
    const Tensor expected = Interpreter(program, {}).run({inputs}).at(0), found = fast.run({inputs}).at(0);
    ASSERT_EQ(found.sizes(), expected.sizes());
    for (int64_t i = 0; i < expected.numel(); ++i)
      ASSERT_NEAR(found.data<float>()[i], expected.data<float>()[i], 2e-5 * (1 + std::abs(expected.data<float>()[i])))
          << i;
    set_num_threads(3);
    EXPECT_TRUE(bitwise_equal(fast.run({inputs}).at(0), found));
    set_num_threads(1);
  }
}

// Operands are stretched over axes in front, between and behind, whatever their order in memory.
TEST(Interpreter, SimdBroadcastsOperandsOfAnyOrder) {
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

TEST(Interpreter, SimdChoosesByConditionsOfAnyOrder) {
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

// What a view or indices chose is remembered: other values, sizes and strides must not see it.
TEST(Interpreter, SimdViewsAndIndicesFollowTheirInputs) {
  using List = Argument::List;
  const std::unique_ptr<OpBackend> simd = make_simd_ops();
  Program program;
  Node* x = placeholder(program, "x", {SymInt::symbol("s0"), 6});
  Node* values = placeholder(program, "values", {2, 6});
  Node* places = attribute(program, "places", Tensor::of<int64_t>({2}, {2, 0}));
  const auto call = [&](const char* op, std::vector<Argument> args) {
    return program.graph->call(concat("torch.ops.aten.", op), std::move(args));
  };
  Node* turned = call("transpose.int", {x, 0, 1});
  Node* part = call("slice.Tensor", {turned, 0, 1, 5, 2});
  Node* halves = call("split.Tensor", {x, 3, 1});
  Node* second = program.graph->call("operator.getitem", {halves, 1});
  Node* flat = call("reshape.default", {turned, List{-1}});
  Node* picked = call("index.Tensor", {x, List{places}});
  Node* columns = call("index.Tensor", {x, List{Argument(), places}});
  Node* put = call("index_put.default", {x, List{places}, values});
  program.graph->create(Node::Op::kOutput, "output", {Argument(List{part, second, flat, picked, columns, put})});
  infer_shapes(program);
  Interpreter fast(program, {simd.get()}), plain(program, {});
  for (const Interpreter::OpPlacement& one : fast.placements())
    EXPECT_EQ(one.backend, one.node->is("operator.getitem") ? "reference" : "simd") << one.node->name();
  for (const int64_t rows : {3, 3, 5, 3})
    for (const bool is_turned : {false, true}) {
      static float start = 0;
      const Tensor data = counting({rows, 6}, 0.0719f, start -= 0.3f), more = counting({2, 6}, 0.0173f, start);
      const Tensor given = is_turned ? data.transpose(0, 1).contiguous().transpose(0, 1) : data;
      const Tensor kept = given.clone();
      const std::vector<Tensor> expected = plain.run({{given, more}}), found = fast.run({{given, more}});
      for (size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(bitwise_equal(found[i], expected[i])) << i;
      EXPECT_TRUE(bitwise_equal(kept, given)) << "the input was written to";
    }
  EXPECT_THROW(fast.run({{counting({2, 6}, 1, 0), counting({2, 6}, 1, 0)}}), Error) << "row 2 of 2";
}

// Indices that the caller writes anew are looked at in every run.
TEST(Interpreter, SimdSeesIndicesThatChange) {
  const std::unique_ptr<OpBackend> simd = make_simd_ops();
  Program program;
  Node* x = placeholder(program, "x", {4});
  Node* places = placeholder(program, "places", {1, 2});
  places->meta.val.value = TensorMeta{DType::kS64, {1, 2}, {}, false};
  Node* row = program.graph->call("torch.ops.aten.select.int", {places, 0, 0});
  Node* picked = program.graph->call("torch.ops.aten.index.Tensor", {x, Argument::List{row}});
  program.graph->create(Node::Op::kOutput, "output", {Argument(Argument::List{picked})});
  infer_shapes(program);
  Interpreter fast(program, {simd.get()});
  const Tensor data = Tensor::of<float>({4}, {0, 1, 2, 3}), at = Tensor::of<int64_t>({1, 2}, {3, 1});
  EXPECT_TRUE(bitwise_equal(fast.run({{data, at}})[0], Tensor::of<float>({2}, {3, 1})));
  at.data<int64_t>()[0] = 2;
  EXPECT_TRUE(bitwise_equal(fast.run({{data, at}})[0], Tensor::of<float>({2}, {2, 1})));
}

TEST(Interpreter, SimdRunsRecurrentLayersAsTheReferenceDoes) {
  using List = Argument::List;
  const std::unique_ptr<OpBackend> simd = make_simd_ops();
  constexpr int64_t T = 5, N = 2, I = 3, H = 19;
  for (const auto& [op, gates] : {std::pair("lstm.input", 4), std::pair("gru.input", 3), std::pair("rnn_tanh.input", 1),
                                  std::pair("rnn_relu.input", 1)})
    for (const bool has_biases : {false, true})
      for (const bool is_batch_first : {false, true}) {
        Program program;
        Node* x = placeholder(program, "x", is_batch_first ? SymShape{N, T, I} : SymShape{T, N, I});
        List states{attribute(program, "h", counting({4, N, H}, 0.0173f, -0.5f))}, params;
        if (gates == 4) states.push_back(attribute(program, "c", counting({4, N, H}, -0.0121f, 0.4f)));
        for (int64_t i = 0; i < 4; ++i) {
          const auto add = [&](const char* name, const Shape& sizes) {
            params.push_back(attribute(program, concat(name, i), counting(sizes, 0.0237f, -0.3f)));
          };
          add("w_ih", {gates * H, i < 2 ? I : 2 * H});
          add("w_hh", {gates * H, H});
          if (has_biases) add("b_ih", {gates * H});
          if (has_biases) add("b_hh", {gates * H});
        }
        Node* node = program.graph->call(
            concat("torch.ops.aten.", op),
            {x, gates == 4 ? Argument(states) : states[0], params, has_biases, 2, 0.0, false, true, is_batch_first});
        Node* first = program.graph->call("operator.getitem", {node, 0});
        Node* last = program.graph->call("operator.getitem", {node, gates == 4 ? 2 : 1});
        program.graph->create(Node::Op::kOutput, "output", {Argument(List{first, last})});
        infer_shapes(program);
        Interpreter fast(program, {simd.get()});
        EXPECT_EQ(fast.placements().at(0).backend, "simd") << op;
        const Tensor data = counting({is_batch_first ? N : T, is_batch_first ? T : N, I}, 0.0719f, -1.f);
        const std::vector<Tensor> expected = Interpreter(program, {}).run({{data}}), found = fast.run({{data}});
        EXPECT_EQ(fast.placements().at(0).fallbacks.runs, 0u) << op;
        for (size_t i = 0; i < expected.size(); ++i) {
          ASSERT_EQ(found[i].sizes(), expected[i].sizes()) << op;
          for (int64_t j = 0; j < expected[i].numel(); ++j)
            EXPECT_NEAR(found[i].data<float>()[j], expected[i].data<float>()[j],
                        1e-5 * (1 + std::abs(expected[i].data<float>()[j])))
                << op << " " << i << " " << j;
        }
      }
}

// What a file says of a convolution need not fit its tensors; a list of one stands for both axes.
TEST(Interpreter, SimdTakesOrRefusesTheNumbersOfAConvolutionAsTheReferenceDoes) {
  using List = Argument::List;
  constexpr int64_t kHuge = int64_t{1} << 62;
  struct Case {
    List stride, padding, dilation;
    int64_t groups, biases;
    bool runs;
  };
  const std::vector<Case> cases = {
      {{2}, {1}, {1}, 1, 4, true},        {{2, 1}, {1}, {1, 2}, 2, 4, true}, {{}, {1}, {1}, 1, 4, false},
      {{1, 1, 1}, {1}, {1}, 1, 4, false}, {{0}, {1}, {1}, 1, 4, false},      {{1}, {-1}, {1}, 1, 4, false},
      {{1}, {kHuge}, {1}, 1, 4, false},   {{1}, {1}, {kHuge}, 1, 4, false},  {{1}, {1}, {1}, 3, 4, false},
      {{1}, {1}, {1}, kHuge, 4, false},   {{1}, {1}, {1}, 1, 3, false},      {{1}, {0}, {4}, 1, 4, false},
  };
  const std::unique_ptr<OpBackend> simd = make_simd_ops();
  for (size_t i = 0; i < cases.size(); ++i) {
    const Case& one = cases[i];
    Program program;
    Node* x = placeholder(program, "x", {2, 4, 7, 5});
    Node* weight = attribute(program, "weight", counting({4, one.groups == 2 ? 2 : 4, 3, 3}, 0.0371f, -1.f));
    Node* bias = attribute(program, "bias", counting({one.biases}, 0.3f, -1.f));
    Node* conv = program.graph->call("torch.ops.aten.convolution.default", {x, weight, bias, one.stride, one.padding,
                                                                            one.dilation, false, List{0}, one.groups});
    conv->meta.val.value = TensorMeta{DType::kF32, {2, 4, 7, 5}, {}, false};
    program.graph->create(Node::Op::kOutput, "output", {Argument(List{conv})});
    Interpreter fast(program, {simd.get()}), plain(program, {});
    EXPECT_EQ(fast.placements().at(0).backend, "simd") << i;
    const Tensor data = counting({2, 4, 7, 5}, 0.0173f, -1.f);
    if (!one.runs) {
      EXPECT_THROW(plain.run({{data}}), Error) << i;
      EXPECT_THROW(fast.run({{data}}), Error) << i;
      continue;
    }
    const Tensor found = fast.run({{data}})[0], expected = plain.run({{data}})[0];
    ASSERT_EQ(found.sizes(), expected.sizes()) << i;
    for (int64_t j = 0; j < found.numel(); ++j)
      EXPECT_NEAR(found.data<float>()[j], expected.data<float>()[j], 2e-5) << i;
  }
}

TEST(Interpreter, SimdSumsAsTheEquationSays) {
  const std::unique_ptr<OpBackend> simd = make_simd_ops();
  struct Case {
    const char* equation;
    Shape a, b;
    bool by_loops;
  };
  const std::vector<Case> cases = {
      {"ij,jk->ik", {3, 5}, {5, 4}, true},
      {"bythwc,tkc->bythwk", {2, 3, 2, 2, 3, 4}, {2, 5, 4}, true},
      {"bhqd, bhkd -> bhqk", {2, 3, 4, 5}, {2, 3, 6, 5}, true},
      {"...ij,...jk->...ki", {2, 3, 5}, {2, 5, 4}, true},
      {"i,j->ji", {3}, {4}, true},
      {"bi,bi->b", {3, 4}, {3, 4}, true},
      {"ij,jk", {3, 5}, {5, 4}, true},
      {"ii,ij->j", {3, 3}, {3, 4}, false},   // a diagonal
      {"ij,jk->k", {3, 5}, {5, 4}, false},   // a sum over one operand alone
      {"ij,ij->ij", {3, 1}, {3, 4}, false},  // a size that is stretched
  };
  for (const Case& one : cases) {
    Program program;
    Node* x = placeholder(program, "x", SymShape(one.a.begin(), one.a.end()));
    Node* y = placeholder(program, "y", SymShape(one.b.begin(), one.b.end()));
    Node* node = program.graph->call("torch.ops.aten.einsum.default", {one.equation, Argument(Argument::List{x, y})});
    program.graph->create(Node::Op::kOutput, "output", {Argument(Argument::List{node})});
    infer_shapes(program);
    const Tensor a = counting(one.a, 0.0719f, -2.f), b = counting(one.b, 0.113f, -2.f);
    const Tensor expected = Interpreter(program, {}).run({{a, b}}).at(0);
    Interpreter fast(program, {simd.get()});
    const Tensor found = fast.run({{a, b}}).at(0).contiguous();
    EXPECT_EQ(fast.placements().at(0).fallbacks.runs, one.by_loops ? 0 : 1) << one.equation;
    ASSERT_EQ(found.sizes(), expected.sizes()) << one.equation;
    for (int64_t i = 0; i < found.numel(); ++i)
      EXPECT_NEAR(found.data<float>()[i], expected.data<float>()[i], 1e-5) << one.equation;
  }
}

TEST(Interpreter, SimdAddsAndMultipliesExactly) {
  const std::unique_ptr<OpBackend> simd = make_simd_ops();
  const Tensor a = counting({2, 3, 4, 5}, 0.0719f, -2.f);
  const std::vector<Tensor> others = {counting({2, 3, 4, 5}, 0.113f, -2.f), counting({2, 3, 1, 1}, 0.3f, -1.f),
                                      counting({1, 3, 1, 1}, 0.3f, -1.f), counting({5}, 0.3f, -1.f)};
  for (const char* op : {"add.Tensor", "sub.Tensor", "mul.Tensor", "div.Tensor", "add_.Tensor", "mul_.Tensor"}) {
    for (const Tensor& b : others) {
      Program program;
      Node* x = placeholder(program, "x", {2, 3, 4, 5});
      Node* y = placeholder(program, "y", SymShape(b.sizes().begin(), b.sizes().end()));
      Node* node = program.graph->call(concat("torch.ops.aten.", op), {x, y});
      program.graph->create(Node::Op::kOutput, "output", {Argument(Argument::List{node})});
      infer_shapes(program);
      const Tensor expected = Interpreter(program, {}).run({{a.clone(), b}}).at(0);
      const Tensor found = Interpreter(program, {simd.get()}).run({{a.clone(), b}}).at(0);
      EXPECT_TRUE(bitwise_equal(found, expected)) << op << " " << to_string(b.sizes());
    }
  }
}

TEST(Interpreter, SimdNormalizesBatchesAsTheReferenceDoes) {
  const std::unique_ptr<OpBackend> simd = make_simd_ops();
  const Tensor x = counting({2, 3, 5, 7}, 0.0719f, -2.f);
  for (const bool affine : {true, false}) {
    Program program;
    Node* in = placeholder(program, "x", {2, 3, 5, 7});
    const Argument weight = affine ? Argument(attribute(program, "weight", counting({3}, 0.31f, 0.2f))) : Argument();
    const Argument bias = affine ? Argument(attribute(program, "bias", counting({3}, 0.7f, -1.f))) : Argument();
    Node* mean = attribute(program, "mean", counting({3}, 0.3f, -0.5f));
    Node* var = attribute(program, "var", counting({3}, 0.2f, 0.1f));
    Node* node =
        program.graph->call("torch.ops.aten.batch_norm.default", {in, weight, bias, mean, var, false, 0.1, 1e-5, true});
    program.graph->create(Node::Op::kOutput, "output", {Argument(Argument::List{node})});
    infer_shapes(program);
    Interpreter fast(program, {simd.get()});
    EXPECT_EQ(fast.placements().at(0).backend, "simd");
    EXPECT_TRUE(bitwise_equal(fast.run({{x}}).at(0), Interpreter(program, {}).run({{x}}).at(0))) << affine;
  }
}

TEST(Interpreter, SimdQuantizesChannelsAsTheReferenceDoes) {
  const std::unique_ptr<OpBackend> simd = make_simd_ops();
  const Tensor x = counting({3, 5, 2, 7}, 0.0719f, -2.f);
  for (const int64_t axis : {0, 1, 3, -1}) {
    for (const DType dtype : {DType::kS8, DType::kU8}) {
      const int64_t channels = x.size(axis);
      Program program;
      Node* in = placeholder(program, "x", {3, 5, 2, 7});
      Node* scales = attribute(program, "scales", counting({channels}, 0.0031f, 0.002f));
      std::vector<int64_t> points;
      for (int64_t c = 0; c < channels; ++c) points.push_back(dtype == DType::kU8 ? 100 + c : -c);
      Node* zero_points =
          attribute(program, "zero_points", Tensor::of<int64_t>({channels}, std::span<const int64_t>(points)));
      Node* node = program.graph->call("torch.ops.quantized_decomposed.quantize_per_channel.default",
                                       {in, scales, zero_points, axis, dtype == DType::kU8 ? 0 : -127, 127, dtype});
      program.graph->create(Node::Op::kOutput, "output", {Argument(Argument::List{node})});
      infer_shapes(program);
      Interpreter fast(program, {simd.get()});
      EXPECT_EQ(fast.placements().at(0).backend, "simd");
      EXPECT_TRUE(bitwise_equal(fast.run({{x}}).at(0), Interpreter(program, {}).run({{x}}).at(0)))
          << axis << " " << to_string(dtype);
    }
  }
}

TEST(Interpreter, TellsWhoRunsANodeAndWhyOthersRefused) {
  Program program;
  Node* x = placeholder(program, "x", {2, 3});
  Node* relu = program.graph->call("torch.ops.aten.relu.default", {x});
  Node* flipped = program.graph->call("torch.ops.aten.flip.default", {relu, Argument::List{0}});
  program.graph->create(Node::Op::kOutput, "output", {Argument(Argument::List{flipped})});
  infer_shapes(program);
  const std::unique_ptr<OpBackend> simd = make_simd_ops();
  const Interpreter interpreter(program, {simd.get()});
  const std::vector<Interpreter::OpPlacement>& placements = interpreter.placements();
  ASSERT_EQ(placements.size(), 2u);
  EXPECT_EQ(placements[0].backend, "simd");
  EXPECT_EQ(placements[1].backend, "reference");
  ASSERT_EQ(placements[1].refusals.size(), 1u);
  EXPECT_FALSE(placements[1].refusals[0].second.empty());
}

// A program of one node on inputs of these sizes. Sizes below 0 are symbols, and leave the result's shape unknown.
Program program_of(const char* op, const std::vector<Shape>& inputs, std::vector<Argument> more = {}) {
  Program program;
  bool is_known = true;
  std::vector<Argument> args;
  for (size_t i = 0; i < inputs.size(); ++i) {
    SymShape sizes;
    for (const int64_t size : inputs[i]) {
      sizes.push_back(size < 0 ? SymInt::symbol(concat("s", -size)) : SymInt(size));
      is_known = is_known && size >= 0;
    }
    args.emplace_back(placeholder(program, concat("x", i), sizes));
  }
  args.insert(args.end(), more.begin(), more.end());
  Node* node = program.graph->call(concat("torch.ops.aten.", op), args);
  program.graph->create(Node::Op::kOutput, "output", {Argument(Argument::List{node})});
  if (is_known) infer_shapes(program);
  return program;
}

TEST(Interpreter, RefusesBeforeARunWhatTheGraphTells) {
  struct Case {
    const char* op;
    std::vector<Shape> inputs;
    std::vector<Argument> more;
    const char* reason;
  };
  const std::vector<Case> cases = {
      {"softmax.int", {{2, 3, 4}}, {1, DType::kF32}, "it converts its input"},
      {"matmul.default", {{2, 3}, {3}}, {}, "an operand is a vector"},
  };
  const std::unique_ptr<OpBackend> simd = make_simd_ops();
  for (const Case& one : cases) {
    const Program program = program_of(one.op, one.inputs, one.more);
    const Interpreter interpreter(program, {simd.get()});
    const Interpreter::OpPlacement& placement = interpreter.placements().at(0);
    EXPECT_EQ(placement.backend, "reference") << one.op;
    ASSERT_EQ(placement.refusals.size(), 1u) << one.op;
    EXPECT_EQ(placement.refusals[0].second, one.reason) << one.op;
  }
}

TEST(Interpreter, CountsTheRunsThatOnlyTheirValuesSendToTheReference) {
  const std::unique_ptr<OpBackend> simd = make_simd_ops();
  const Program program = program_of("add_.Tensor", {{-1, 3}, {-2, 3}});
  Interpreter interpreter(program, {simd.get()});
  const Tensor whole = counting({2, 3}, 0.3f, -1.f), row = counting({1, 3}, 0.2f, -1.f);
  const auto turned = [] { return counting({3, 2}, 0.3f, -1.f).transpose(0, 1); };
  interpreter.run({{whole.clone(), whole}});
  interpreter.run({{whole.clone(), row}});
  EXPECT_EQ(interpreter.placements().at(0).backend, "simd");
  EXPECT_EQ(interpreter.placements().at(0).fallbacks.runs, 0u);
  interpreter.run({{turned(), whole}});
  interpreter.run({{turned(), row}});
  EXPECT_EQ(interpreter.placements().at(0).fallbacks.runs, 2u);
  EXPECT_EQ(interpreter.placements().at(0).fallbacks.reason,
            "it is in place, and its result does not fit over its input");
}

TEST(Interpreter, RefusesInputsThatDoNotFit) {
  const Program program = small_net();
  Interpreter interpreter(program, {});
  const auto message = [&](std::vector<Tensor> inputs) {
    try {
      interpreter.run(inputs);
    } catch (const Error& error) {
      EXPECT_EQ(error.code, ErrorCode::kInvalidArgument);
      return error.message;
    }
    return std::string("accepted");
  };
  EXPECT_EQ(message({}), "the program takes 1 input, found 0");
  EXPECT_EQ(message({Tensor::empty({1, 4, 9, 8}, DType::kF32)}),
            "input 'x' is float32 [1, 4, 9, 8], the program wants float32 [s0, 4, 9, 7]: dimension 3 must be 7");
  EXPECT_THAT(message({Tensor::empty({1, 4, 9, 7}, DType::kS64)}),
              HasSubstr("is int64 [1, 4, 9, 7], the program wants float32"));
  EXPECT_THAT(message({Tensor::empty({17, 4, 9, 7}, DType::kF32)}),
              HasSubstr("dimension 0 (s0) must be at least 1 and at most 16"));
}

TEST(Interpreter, NamesTheNodeThatFailed) {
  Program program;
  Node* x = placeholder(program, "x", {2, 3});
  Node* y = placeholder(program, "y", {2, 4});
  Node* sum = program.graph->call("torch.ops.aten.add.Tensor", {x, y}, {}, "add");
  program.graph->create(Node::Op::kOutput, "output", {Argument(Argument::List{sum})});
  try {
    Interpreter(program, {}).run({{Tensor::empty({2, 3}, DType::kF32), Tensor::empty({2, 4}, DType::kF32)}});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.node, "add");
    EXPECT_EQ(error.op, "torch.ops.aten.add.Tensor");
    EXPECT_THAT(error.message, HasSubstr("(in node add, torch.ops.aten.add.Tensor)"));
  }
}

TEST(Interpreter, ListsAllUnknownOperatorsAtOnce) {
  Program program;
  Node* x = placeholder(program, "x", {2});
  Node* a = program.graph->call("torch.ops.mine.first.default", {x}, {}, "a");
  Node* b = program.graph->call("torch.ops.mine.second.default", {a}, {}, "b");
  program.graph->create(Node::Op::kOutput, "output", {Argument(Argument::List{b})});
  try {
    const Interpreter interpreter(program, {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code, ErrorCode::kUnsupported);
    EXPECT_THAT(error.message, HasSubstr("mine.first.default"));
    EXPECT_THAT(error.message, HasSubstr("mine.second.default"));
  }
}

TEST(Interpreter, InPlaceOperatorsWriteThroughViews) {
  Program program;
  Node* x = placeholder(program, "x", {2, 2});
  Graph& graph = *program.graph;
  Node* copy = graph.call("torch.ops.aten.clone.default", {x}, {}, "copy");
  Node* row = graph.call("torch.ops.aten.select.int", {copy, 0, 1}, {}, "row");
  graph.call("torch.ops.aten.relu_.default", {row}, {}, "relu_");
  graph.create(Node::Op::kOutput, "output", {Argument(Argument::List{copy})});
  const std::vector<Tensor> out = Interpreter(program, {}).run({{Tensor::of<float>({2, 2}, {-1, -2, -3, 4})}});
  EXPECT_TRUE(bitwise_equal(out[0], Tensor::of<float>({2, 2}, {-1, -2, 0, 4})));
}

TEST(Interpreter, OverwritesOnlyWhatNobodyElseSees) {
  Program program;
  Node* constant = attribute(program, "constant", counting({2, 3}, 0.3f, -1.f));
  Node* x = placeholder(program, "x", {2, 3});
  Graph& graph = *program.graph;
  Node* first = graph.call("torch.ops.aten.relu.default", {x});
  Node* view = graph.call("torch.ops.aten.view.default", {first, Argument::List{3, 2}});
  // of a view whose bytes are read again
  Node* clamped = graph.call("torch.ops.aten.hardtanh.default", {view, 0.1, 0.2});
  Node* of_constant = graph.call("torch.ops.aten.relu.default", {constant});
  Node* sum = graph.call("torch.ops.aten.add.Tensor", {of_constant, first});
  Node* twice = graph.call("torch.ops.aten.add.Tensor", {sum, sum});
  Node* last = graph.call("torch.ops.aten.relu.default", {twice});  // here the result goes over its argument
  graph.create(Node::Op::kOutput, "output", {Argument(Argument::List{clamped, last})});
  infer_shapes(program);
  const Tensor input = counting({2, 3}, 0.4f, -1.f), before = input.clone();
  const std::unique_ptr<OpBackend> simd = make_simd_ops();
  Interpreter fast(program, {simd.get()});
  const std::vector<Tensor> expected = Interpreter(program, {}).run({{input}});
  for (int run = 0; run < 2; ++run) {
    const std::vector<Tensor> found = fast.run({{input}});
    for (size_t i = 0; i < 2; ++i) EXPECT_TRUE(bitwise_equal(found[i], expected[i])) << i;
    EXPECT_TRUE(bitwise_equal(input, before));
  }
  const std::byte *argument = nullptr, *result = nullptr;
  fast.set_node_hook([&](const Node& node, const Value& value) {
    if (&node == twice) argument = value.get_if<Tensor>()->raw();
    if (&node == last) result = value.get_if<Tensor>()->raw();
  });
  fast.run({{input}});
  EXPECT_EQ(argument, result);
}

// Two convolutions, the second with what is behind it in a residual network: conv -> add_ -> relu_ -> observer, ->
// hardtanh -> mul -> observer.
Program residual_net() {
  Program program;
  Node* weight = attribute(program, "conv.weight", counting({6, 6, 3, 3}, 0.0371f, -1.f));
  Node* scale = attribute(program, "scale", counting({3, 6, 9, 7}, 0.05f, -1.f));
  Node* x = placeholder(program, "x", {3, 6, 9, 7});
  Graph& graph = *program.graph;
  using List = Argument::List;
  Node* first = graph.call("torch.ops.aten.conv2d.default", {x, weight, {}, List{1, 1}, List{1, 1}}, {}, "first");
  Node* second = graph.call("torch.ops.aten.conv2d.default", {first, weight, {}, List{1, 1}, List{1, 1}}, {}, "second");
  Node* sum = graph.call("torch.ops.aten.add_.Tensor", {second, first}, {}, "sum");
  Node* relu = graph.call("torch.ops.aten.relu_.default", {sum}, {}, "relu");
  Node* observed = graph.create(Node::Op::kCallModule, "observer_0", {relu});
  Node* clamped = graph.call("torch.ops.aten.hardtanh.default", {observed, 0.25, 3.0}, {}, "clamped");
  Node* product = graph.call("torch.ops.aten.mul.Tensor", {scale, clamped}, {}, "product");
  Node* last = graph.create(Node::Op::kCallModule, "observer_1", {product});
  graph.create(Node::Op::kOutput, "output", {Argument(List{last, observed})});
  return program;
}

TEST(Interpreter, RunsWhatIsBehindAnOperatorWhileItsResultIsWritten) {
  const Program program = residual_net();
  const Tensor x = counting({3, 6, 9, 7}, 0.0173f, -1.f), before = x.clone(),
               scale = program.find_attribute("scale")->tensor.clone();
  const std::unique_ptr<OpBackend> simd = make_simd_ops();
  const auto pass_on = [](const Node&, std::span<const Value> args, const kernel::MinMax*) { return args[0]; };
  Interpreter plain(program, {simd.get()}), fast(program, {simd.get()});
  plain.set_module_handler(pass_on);
  std::vector<std::string> ran;
  plain.set_node_hook([&](const Node& node, const Value&) { ran.push_back(node.name()); });
  const std::vector<Tensor> expected = plain.run({{x}});
  EXPECT_THAT(ran, testing::IsSupersetOf({"second", "sum", "relu", "clamped", "product"}));
  for (int threads : {1, 3}) {
    set_num_threads(threads);
    std::vector<std::string> told;
    const auto observe = [&](const Node& node, std::span<const Value> args, const kernel::MinMax* range) {
      if (range == nullptr) return args[0];
      told.push_back(node.target());
      const Tensor& seen = *args[0].get_if<Tensor>();
      const kernel::MinMax found = kernel::min_max_f32(seen.data<float>(), seen.numel());
      EXPECT_EQ(range->min, found.min);
      EXPECT_EQ(range->max, found.max);
      EXPECT_FALSE(range->has_nan);
      return args[0];
    };
    fast.set_module_handler(observe, [](const Node&) { return true; });
    const std::vector<Tensor> found = fast.run({{x}});
    EXPECT_THAT(told, testing::ElementsAre("observer_0", "observer_1"));
    for (size_t i = 0; i < expected.size(); ++i)
      EXPECT_TRUE(bitwise_equal(found[i], expected[i])) << i << " threads " << threads;
    told.clear();
    fast.set_module_handler(observe, [](const Node& node) { return node.target() == "observer_1"; });
    fast.run({{x}});
    EXPECT_THAT(told, testing::ElementsAre("observer_1"));
    fast.set_module_handler(pass_on);
    const std::vector<Tensor> unranged = fast.run({{x}});
    for (size_t i = 0; i < expected.size(); ++i)
      EXPECT_TRUE(bitwise_equal(unranged[i], expected[i])) << i << " threads " << threads;
  }
  set_num_threads(1);
  EXPECT_TRUE(bitwise_equal(x, before));
  EXPECT_TRUE(bitwise_equal(program.find_attribute("scale")->tensor, scale));
}

TEST(Interpreter, AConvolutionOfManyPixelsPacksItsWeightAnew) {
  Program program;
  Node* weight = attribute(program, "conv.weight", counting({20, 5, 3, 3}, 0.0371f, -1.f));
  Node* x = placeholder(program, "x", {SymInt::symbol("s0"), 5, 16, 16});
  using List = Argument::List;
  Node* conv =
      program.graph->call("torch.ops.aten.conv2d.default", {x, weight, {}, List{1, 1}, List{1, 1}}, {}, "conv");
  program.graph->create(Node::Op::kOutput, "output", {Argument(List{conv})});
  const Tensor images = counting({6, 5, 16, 16}, 0.0173f, -1.f);
  const std::unique_ptr<OpBackend> simd = make_simd_ops();
  Interpreter many(program, {simd.get()}), single(program, {simd.get()});
  const Tensor first = many.run({{images}})[0];
  EXPECT_TRUE(bitwise_equal(many.run({{images}})[0], first));
  for (int64_t i = 0; i < 6; ++i)
    EXPECT_TRUE(
        bitwise_equal(single.run({{images.slice(0, i, i + 1).contiguous()}})[0], first.slice(0, i, i + 1).contiguous()))
        << i;
  EXPECT_TRUE(bitwise_equal(single.run({{images}})[0], first));
}

TEST(Interpreter, KeepsAValueThatOthersReadFromWhatIsBehindIt) {
  Program program;
  Node* x = placeholder(program, "x", {2, 3});
  Graph& graph = *program.graph;
  using List = Argument::List;
  Node* first = graph.call("torch.ops.aten.relu.default", {x}, {}, "first");
  Node* view = graph.call("torch.ops.aten.view.default", {first, List{3, 2}}, {}, "view");
  // in place: the view sees it
  Node* clamped = graph.call("torch.ops.aten.hardtanh_.default", {first, 0.1, 0.5}, {}, "clamped");
  // over bytes of its own
  Node* doubled = graph.call("torch.ops.aten.add.Tensor", {clamped, x}, {}, "doubled");
  Node* ended = graph.call("torch.ops.aten.exp.default", {doubled}, {}, "ended");
  Node* buffer = graph.call("torch.ops.aten.relu.default", {ended}, {}, "buffer");
  Node* behind = graph.call("torch.ops.aten.exp.default", {buffer}, {}, "behind");
  graph.create(Node::Op::kOutput, "output", {Argument(List{view, behind})});
  const Tensor state = counting({2, 3}, 0.1f, 0.f);
  program.add_attribute({"state", state, Attribute::Kind::kBuffer});
  program.buffer_mutations.push_back({"buffer", "state"});
  const Tensor input = counting({2, 3}, 0.4f, -1.f);
  const std::vector<Tensor> expected = Interpreter(program, {}).run({{input}});
  const Tensor expected_state = state.clone();
  state.copy_from(counting({2, 3}, 0.1f, 0.f));
  const std::unique_ptr<OpBackend> simd = make_simd_ops();
  const std::vector<Tensor> found = Interpreter(program, {simd.get()}).run({{input}});
  EXPECT_TRUE(bitwise_equal(found[0], expected[0]));
  for (int64_t i = 0; i < 6; ++i) {
    EXPECT_NEAR(found[1].data<float>()[i], expected[1].data<float>()[i], 1e-5);
    EXPECT_NEAR(state.data<float>()[i], expected_state.data<float>()[i], 1e-5);
  }
}

TEST(Interpreter, WritesMutatedBuffersAfterTheRun) {
  Program program;
  const Tensor count = Tensor::of<float>({1}, {1});
  Node* buffer = attribute(program, "count", count);
  Node* x = placeholder(program, "x", {1});
  Node* sum = program.graph->call("torch.ops.aten.add.Tensor", {buffer, x}, {}, "sum");
  program.graph->create(Node::Op::kOutput, "output", {Argument(Argument::List{sum})});
  program.buffer_mutations.push_back({"sum", "count"});
  Interpreter interpreter(program, {});
  interpreter.run({{Tensor::of<float>({1}, {2})}});
  EXPECT_EQ(count.item(), 3);
  interpreter.run({{Tensor::of<float>({1}, {2})}});
  EXPECT_EQ(count.item(), 5);
}

}  // namespace
}  // namespace qdq
