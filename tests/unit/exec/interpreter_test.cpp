#include "exec/interpreter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>
#include <map>

#include "base/parallel.h"
#include "unit/exec/small_net.h"

namespace qdq::interpreter_test {
namespace {

using testing::HasSubstr;

TEST(Interpreter, TellsWhoRunsANodeAndWhyOthersRefused) {
  Program program;
  Node* x = placeholder(program, "x", {2, 3});
  Node* relu = program.graph->call("torch.ops.aten.relu.default", {x});
  Node* real = program.graph->call("torch.ops.aten.nan_to_num.default", {relu});
  program.graph->create(Node::Op::kOutput, "output", {Argument(Argument::List{real})});
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
      {"softmax.int", {{2, 3, 4}}, {1, DType::kBF16}, "it converts its input"},
      {"linear.default", {{2, 3}, {3}}, {}, "its weight is not a matrix"},
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
            "input 'x' is float32 [1, 4, 9, 8], the program needs float32 [s0, 4, 9, 7]: dimension 3 must be 7");
  EXPECT_THAT(message({Tensor::empty({1, 4, 9, 7}, DType::kS64)}),
              HasSubstr("is int64 [1, 4, 9, 7], the program needs float32"));
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
  // and over an operand beside a number or a row
  Node* scaled = graph.call("torch.ops.aten.mul.Tensor", {last, 0.5});
  Node* less =
      graph.call("torch.ops.aten.sub.Tensor", {graph.call("torch.ops.aten.select.int", {constant, 0, 1}), scaled});
  Node* reversed = graph.call("torch.ops.aten.rsub.Scalar", {less, 1, 2});
  graph.create(Node::Op::kOutput, "output", {Argument(Argument::List{clamped, reversed})});
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
  std::map<const Node*, const std::byte*> bytes;
  fast.set_node_hook([&](const Node& node, const Value& value) {
    if (const Tensor* tensor = value.get_if<Tensor>()) bytes[&node] = tensor->raw();
  });
  fast.run({{input}});
  EXPECT_EQ(bytes[last], bytes[twice]);
  EXPECT_EQ(bytes[scaled], bytes[last]);
  EXPECT_EQ(bytes[reversed], bytes[less]);
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

// A search for writes at every layer takes a minute for this many.
TEST(Interpreter, ManyLayersArePreparedInTimeThatGrowsWithTheirNumber) {
  constexpr size_t kLayers = 20000;
  Program program;
  Node* last = program.graph->create(Node::Op::kPlaceholder, "x");
  last->meta.val.value = TensorMeta{DType::kF32, {2, 2}, {}, false};
  for (size_t i = 0; i < kLayers; ++i) {
    const std::string name = concat("weight_", i);
    program.add_attribute({name, Tensor::empty({2, 2}, DType::kF32)});
    Node* product = program.graph->call("torch.ops.aten.mm.default", {last, program.graph->get_attr(name)});
    product->meta = last->meta;
    last = product;
  }
  program.graph->create(Node::Op::kOutput, "output", {Argument(Argument::List{last})});
  const std::unique_ptr<OpBackend> simd = make_simd_ops();
  const std::clock_t begin = std::clock();
  const Interpreter interpreter(program, {simd.get()});
  EXPECT_LT(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC, 10);
  EXPECT_EQ(interpreter.placements().size(), kLayers);
}

// A view of a written attribute, and the result of the write itself, are in its bytes.
TEST(Interpreter, ListsTheAttributesThatRunsWrite) {
  Program program;
  Graph& graph = *program.graph;
  for (const char* name : {"direct", "viewed", "observed", "kept", "assigned"})
    program.add_attribute({name, Tensor::empty({2, 2}, DType::kF32)});
  const auto add = [&](Node* value) { return graph.call("torch.ops.aten.add_.Tensor", {value, 1}); };
  Node* twice = add(add(graph.get_attr("direct")));
  add(graph.call("torch.ops.aten.view.default", {graph.get_attr("viewed"), Argument(Argument::List{4})}));
  add(graph.create(Node::Op::kCallModule, "observer", {graph.get_attr("observed")}));
  add(graph.call("torch.ops.aten.relu.default", {graph.get_attr("kept")}));
  program.buffer_mutations.push_back({twice->name(), "assigned"});
  graph.create(Node::Op::kOutput, "output", {Argument(Argument::List{twice})});
  EXPECT_THAT(written_attributes(program), testing::UnorderedElementsAre("direct", "viewed", "observed", "assigned"));
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
}  // namespace qdq::interpreter_test
