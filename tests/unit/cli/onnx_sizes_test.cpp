// Sizes of ONNX models that only a run tells.
#include <gtest/gtest.h>

#include <algorithm>

#include "exec/interpreter.h"
#include "io/onnx.h"
#include "lower/lower.h"
#include "unit/cli/cli_fixture.h"
#include "unit/cli/onnx_node.h"

namespace qdq::onnx_sizes_test {
namespace {

// The rows f [6, 2] for which x [6] is above 0, but for the first, and 2 at most, as a detector takes its best boxes:
// zeros of their shape are added, and a linear layer follows.
Program best_rows() {
  format::OnnxFile file;
  file.ir_version = 8;
  file.opsets = {{"", 17}};
  using Dims = std::vector<format::OnnxDimension>;
  file.inputs.push_back({"x", DType::kF32, Dims{{6, ""}}});
  file.inputs.push_back({"f", DType::kF32, Dims{{6, ""}, {2, ""}}});
  const auto integers = [&](const std::string& name, int64_t value) {
    file.initializers.emplace_back(name, Tensor::of<int64_t>({1}, {value}));
  };
  integers("zero", 0);
  integers("one", 1);
  integers("three", 3);
  file.initializers.emplace_back("none", Tensor::full({}, DType::kF32, 0));
  file.initializers.emplace_back("w", Tensor::of<float>({2, 3}, {1, 0, 1, 0, 1, 1}));
  file.nodes = {
      onnx_node("Greater", {"x", "none"}, "above"),     onnx_node("NonZero", {"above"}, "places"),
      onnx_node("Squeeze", {"places", "zero"}, "all"),  onnx_node("Slice", {"all", "one", "three", "zero"}, "kept"),
      onnx_node("Gather", {"f", "kept"}, "rows"),       onnx_node("Shape", {"rows"}, "shape"),
      onnx_node("ConstantOfShape", {"shape"}, "zeros"), onnx_node("Add", {"zeros", "rows"}, "same"),
      onnx_node("MatMul", {"same", "w"}, "product"),    onnx_node("Relu", {"product"}, "y")};
  file.outputs.push_back({"y", std::nullopt, std::nullopt});
  return load_onnx(format::write_onnx_file(file));
}

TEST(OnnxSizes, ASliceMayEndBehindWhatARunFinds) {
  const Program program = best_rows();
  Session session = lower(program);
  const Tensor f = Tensor::of<float>({6, 2}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  const std::pair<std::vector<float>, std::vector<float>> cases[] = {{{1, 1, 1, 1, 1, 1}, {2, 3, 5, 4, 5, 9}},
                                                                     {{0, 1, 0, 0, 1, 0}, {8, 9, 17}},
                                                                     {{0, 0, 1, 0, 0, 0}, {}},
                                                                     {{0, 0, 0, 0, 0, 0}, {}},
                                                                     {{1, 0, 1, 0, 0, 1}, {4, 5, 9, 10, 11, 21}}};
  for (const auto& [x, wanted] : cases) {
    const std::vector<Tensor> inputs = {Tensor::of<float>({6}, std::span<const float>(x)), f};
    for (const Tensor& y : {session.run(inputs).at(0), Interpreter(program, {}).run(inputs).at(0)}) {
      EXPECT_EQ(y.sizes(), (Shape{static_cast<int64_t>(wanted.size()) / 3, 3}));
      EXPECT_EQ(std::vector<float>(y.data<float>(), y.data<float>() + y.numel()), wanted);
    }
  }
}

// The places of x and y that are above 0, which broadcast: as many, or one of them. Ones of the sum's shape are added.
TEST(OnnxSizes, WhereTwoSizesOfARunMeetEitherMayBeOne) {
  format::OnnxFile file;
  file.ir_version = 8;
  file.opsets = {{"", 17}};
  using Dims = std::vector<format::OnnxDimension>;
  for (const char* name : {"x", "y"}) file.inputs.push_back({name, DType::kF32, Dims{{4, ""}}});
  file.initializers.emplace_back("none", Tensor::full({}, DType::kF32, 0));
  format::OnnxNode cast_a = onnx_node("Cast", {"a"}, "c"), cast_b = onnx_node("Cast", {"b"}, "d"),
                   ones = onnx_node("ConstantOfShape", {"shape"}, "ones");
  format::OnnxAttribute to;
  to.name = "to";
  to.kind = format::OnnxKind::kInt;
  to.i = format::onnx_number(DType::kF32);
  cast_a.attributes = cast_b.attributes = {to};
  format::OnnxAttribute value;
  value.name = "value";
  value.kind = format::OnnxKind::kTensor;
  value.t = Tensor::of<float>({1}, {1});
  ones.attributes = {value};
  file.nodes = {onnx_node("Greater", {"x", "none"}, "p"),
                onnx_node("Greater", {"y", "none"}, "q"),
                onnx_node("NonZero", {"p"}, "a"),
                onnx_node("NonZero", {"q"}, "b"),
                cast_a,
                cast_b,
                onnx_node("Add", {"c", "d"}, "sum"),
                onnx_node("Shape", {"sum"}, "shape"),
                ones,
                onnx_node("Add", {"sum", "ones"}, "more"),
                onnx_node("Relu", {"more"}, "z")};
  for (const char* name : {"z", "ones"}) file.outputs.push_back({name, std::nullopt, std::nullopt});
  const Program program = load_onnx(format::write_onnx_file(file));
  Session session = lower(program);
  const auto floats = [](std::vector<float> values) { return Tensor::of<float>({4}, std::span<const float>(values)); };
  struct Case {
    std::vector<float> x, y, wanted;
  };
  const Case cases[] = {{{0, 1, 0, 0}, {1, 0, 1, 1}, {2, 4, 5}},
                        {{1, 0, 1, 1}, {0, 1, 0, 0}, {2, 4, 5}},
                        {{1, 1, 0, 0}, {0, 0, 1, 1}, {3, 5}},
                        {{0, 0, 1, 0}, {0, 0, 0, 1}, {6}},
                        {{0, 0, 1, 0}, {0, 0, 0, 0}, {}}};
  for (const auto& [x, y, wanted] : cases) {
    const std::vector<Tensor> inputs = {floats(x), floats(y)};
    for (const std::vector<Tensor>& results : {session.run(inputs), Interpreter(program, {}).run(inputs)}) {
      EXPECT_EQ(results.at(0).sizes(), (Shape{1, static_cast<int64_t>(wanted.size())}));
      EXPECT_EQ(std::vector<float>(results[0].data<float>(), results[0].data<float>() + results[0].numel()), wanted);
      EXPECT_EQ(results.at(1).sizes(), results[0].sizes());
    }
  }
  const std::vector<Tensor> differ = {floats({1, 1, 0, 0}), floats({1, 1, 1, 0})};
  EXPECT_THROW(session.run(differ), Error);
  EXPECT_THROW(Interpreter(program, {}).run(differ), Error);
}

// The largest of the rows f [4, 2] for which x [4] is above 0, or nothing if there is none, as torchvision's detectors
// ask before they suppress boxes.
TEST(OnnxSizes, WhatARunFindsMayBeNothing) {
  format::OnnxFile file;
  file.ir_version = 8;
  file.opsets = {{"", 17}};
  using Dims = std::vector<format::OnnxDimension>;
  file.inputs.push_back({"x", DType::kF32, Dims{{4, ""}}});
  file.inputs.push_back({"f", DType::kF32, Dims{{4, ""}, {2, ""}}});
  file.initializers = {{"none", Tensor::full({}, DType::kF32, 0)},
                       {"zero", Tensor::of<int64_t>({1}, {0})},
                       {"nothing", Tensor::of<int64_t>({}, {0})}};
  const auto attribute = [](const char* name, format::OnnxKind kind, int64_t i = 0) {
    format::OnnxAttribute out;
    out.name = name;
    out.kind = kind;
    out.i = i;
    return out;
  };
  const auto branch = [&](const char* name, format::OnnxGraph graph, const char* output) {
    graph.outputs.push_back({output, std::nullopt, std::nullopt});
    format::OnnxAttribute out = attribute(name, format::OnnxKind::kGraph);
    out.graphs = {std::make_shared<const format::OnnxGraph>(std::move(graph))};
    return out;
  };
  format::OnnxGraph empty, full;
  empty.initializers = {{"empty", Tensor::empty({0}, DType::kF32)}};
  empty.nodes = {onnx_node("Identity", {"empty"}, "same")};
  full.nodes = {onnx_node("ReduceMax", {"rows"}, "largest"), onnx_node("Unsqueeze", {"largest", "zero"}, "one")};
  full.nodes[0].attributes = {attribute("keepdims", format::OnnxKind::kInt)};
  file.nodes = {onnx_node("Greater", {"x", "none"}, "above"),
                onnx_node("NonZero", {"above"}, "places"),
                onnx_node("Squeeze", {"places", "zero"}, "kept"),
                onnx_node("Gather", {"f", "kept"}, "rows"),
                onnx_node("Shape", {"rows"}, "shape"),
                onnx_node("ReduceProd", {"shape"}, "count"),
                onnx_node("Equal", {"count", "nothing"}, "is_nothing"),
                onnx_node("If", {"is_nothing"}, "y")};
  file.nodes[5].attributes = {attribute("keepdims", format::OnnxKind::kInt)};
  file.nodes[7].attributes = {branch("then_branch", empty, "same"), branch("else_branch", full, "one")};
  file.outputs.push_back({"y", std::nullopt, std::nullopt});
  const Program program = load_onnx(format::write_onnx_file(file));
  Session session = lower(program);
  const Tensor f = Tensor::of<float>({4, 2}, {0, 1, 2, 3, 4, 5, 6, 7});
  const std::pair<std::vector<float>, std::vector<float>> cases[] = {
      {{1, 0, 1, 0}, {5}}, {{0, 0, 0, 0}, {}}, {{0, 0, 0, 1}, {7}}};
  for (const auto& [x, wanted] : cases) {
    const std::vector<Tensor> inputs = {Tensor::of<float>({4}, std::span<const float>(x)), f};
    for (const Tensor& y : {session.run(inputs).at(0), Interpreter(program, {}).run(inputs).at(0)})
      EXPECT_EQ(std::vector<float>(y.data<float>(), y.data<float>() + y.numel()), wanted);
  }
}

// x [1, 3] stretched to no row.
TEST(OnnxSizes, StretchedToNothingIsWrittenSo) {
  format::OnnxFile file;
  file.ir_version = 8;
  file.opsets = {{"", 17}};
  file.inputs.push_back({"x", DType::kF32, std::vector<format::OnnxDimension>{{1, ""}, {3, ""}}});
  file.initializers = {{"sizes", Tensor::of<int64_t>({2}, {0, 3})}};
  file.nodes = {onnx_node("Expand", {"x", "sizes"}, "y")};
  file.outputs.push_back({"y", std::nullopt, std::nullopt});
  const Program program = load_onnx(format::write_onnx_file(file));
  const std::vector<Tensor> inputs = {Tensor::full({1, 3}, DType::kF32, 2)};
  EXPECT_EQ(Interpreter(program, {}).run(inputs).at(0).sizes(), (Shape{0, 3}));
  EXPECT_EQ(Interpreter(load_onnx(save_onnx(program)), {}).run(inputs).at(0).sizes(), (Shape{0, 3}));
}

// As exporters write index_add: what is added is stretched to the shape of the first row of what it is added to.
TEST(OnnxSizes, TheFirstRowOfAnOpenAxisStretchesToAnother) {
  format::OnnxFile file;
  file.ir_version = 8;
  file.opsets = {{"", 17}};
  using Dims = std::vector<format::OnnxDimension>;
  for (const char* name : {"x", "y"})
    file.inputs.push_back({name, DType::kF32, Dims{{std::nullopt, concat("rows_of_", name)}, {4, ""}}});
  file.initializers = {{"zero", Tensor::of<int64_t>({1}, {0})}, {"one", Tensor::of<int64_t>({1}, {1})}};
  file.nodes = {onnx_node("Slice", {"x", "zero", "one", "zero"}, "first"), onnx_node("Add", {"first", "y"}, "z")};
  file.outputs.push_back({"z", std::nullopt, std::nullopt});
  const Program program = load_onnx(format::write_onnx_file(file));
  for (const Node* node : program.graph->nodes()) {
    if (node->is("torch.ops.aten.slice.Tensor")) {
      EXPECT_EQ(node->meta.val.tensor()->sizes[0].to_string(), "Min(1, s0)");
    } else if (node->is("torch.ops.aten.add.Tensor")) {
      EXPECT_EQ(node->meta.val.tensor()->sizes[0].to_string(), "s1");
    }
  }
  Session session = lower(program);
  const auto rows = [](int64_t count) { return Tensor::full({count, 4}, DType::kF32, static_cast<double>(count)); };
  for (const auto& [x, y] : {std::pair<int64_t, int64_t>(1, 5), {5, 1}, {3, 4}, {1, 1}}) {
    const std::vector<Tensor> inputs = {rows(x), rows(y)};
    const Tensor wanted = Tensor::full({y, 4}, DType::kF32, static_cast<double>(x + y));
    EXPECT_TRUE(bitwise_equal(session.run(inputs).at(0), wanted)) << x << " and " << y;
    EXPECT_TRUE(bitwise_equal(Interpreter(program, {}).run(inputs).at(0), wanted)) << x << " and " << y;
  }
}

TEST(OnnxSizes, WhereOpenSizesOfTwoInputsMeetEitherMayBeOne) {
  format::OnnxFile file;
  file.ir_version = 8;
  file.opsets = {{"", 17}};
  using Dims = std::vector<format::OnnxDimension>;
  for (const char* name : {"x", "y"})
    file.inputs.push_back({name, DType::kF32, Dims{{std::nullopt, concat("rows_of_", name)}, {4, ""}}});
  file.nodes = {onnx_node("Relu", {"x"}, "a"), onnx_node("Relu", {"y"}, "b"), onnx_node("Add", {"a", "b"}, "sum"),
                onnx_node("Relu", {"sum"}, "z")};
  file.outputs.push_back({"z", std::nullopt, std::nullopt});
  const Program program = load_onnx(format::write_onnx_file(file));
  Session session = lower(program);
  const auto rows = [](int64_t count) { return Tensor::full({count, 4}, DType::kF32, static_cast<double>(count)); };
  const std::pair<int64_t, int64_t> cases[] = {{1, 5}, {5, 1}, {3, 3}, {1, 1}};
  for (const auto& [x, y] : cases) {
    const std::vector<Tensor> inputs = {rows(x), rows(y)};
    const Tensor wanted = Tensor::full({std::max(x, y), 4}, DType::kF32, static_cast<double>(x + y));
    for (const Tensor& z : {session.run(inputs).at(0), Interpreter(program, {}).run(inputs).at(0)})
      EXPECT_TRUE(bitwise_equal(z.contiguous(), wanted)) << x << " " << y;
  }
  for (const auto& [x, y] : {std::pair<int64_t, int64_t>{3, 5}, {5, 3}}) {
    const std::vector<Tensor> inputs = {rows(x), rows(y)};
    EXPECT_THROW(session.run(inputs), Error);
  }
}

// A scale is what it is, though the size that it makes is rounded: 7 rows become 3 by 1/2, not by 3/7.
TEST(OnnxSizes, AnOpenSizeIsHalvedAsAKnownOne) {
  using Dims = std::vector<format::OnnxDimension>;
  const auto halved = [](const std::string& mode, bool is_open) {
    format::OnnxFile file;
    file.ir_version = 8;
    file.opsets = {{"", 13}};
    file.inputs.push_back(
        {"x", DType::kF32,
         is_open ? Dims{{1, ""}, {1, ""}, {{}, "h"}, {5, ""}} : Dims{{1, ""}, {1, ""}, {7, ""}, {5, ""}}});
    file.initializers.emplace_back("scales", Tensor::of<float>({4}, {1, 1, 0.5F, 1}));
    file.nodes = {onnx_node("Resize", {"x", "", "scales"}, "y")};
    format::OnnxAttribute attribute;
    attribute.name = "mode";
    attribute.kind = format::OnnxKind::kString;
    attribute.s = mode;
    file.nodes[0].attributes = {attribute};
    file.outputs.push_back({"y", std::nullopt, std::nullopt});
    return load_onnx(format::write_onnx_file(file));
  };
  const Tensor x = Tensor::empty({1, 1, 7, 5}, DType::kF32);
  for (int64_t i = 0; i < x.numel(); ++i) x.data<float>()[i] = static_cast<float>(i * i % 23);
  const std::vector<Tensor> inputs = {x};
  for (const char* mode : {"linear", "cubic", "nearest"}) {
    SCOPED_TRACE(mode);
    const Tensor wanted = Interpreter(halved(mode, false), {}).run(inputs).at(0).contiguous();
    const Program open = halved(mode, true);
    EXPECT_EQ(wanted.sizes(), (Shape{1, 1, 3, 5}));
    EXPECT_TRUE(bitwise_equal(Interpreter(open, {}).run(inputs).at(0).contiguous(), wanted));
    EXPECT_TRUE(bitwise_equal(Interpreter(load_onnx(save_onnx(open)), {}).run(inputs).at(0).contiguous(), wanted));
  }
}

// A size, or one below zero, by a divisor, toward zero.
TEST(OnnxSizes, AreDividedTowardZero) {
  for (const int64_t divisor : {2, -2, 3, -4}) {
    format::OnnxFile file;
    file.ir_version = 8;
    file.opsets = {{"", 13}};
    using Dims = std::vector<format::OnnxDimension>;
    file.inputs.push_back({"x", DType::kF32, Dims{{{}, "n"}, {5, ""}}});
    file.initializers.emplace_back("d", Tensor::of<int64_t>({2}, {divisor, divisor}));
    file.initializers.emplace_back("minus", Tensor::of<int64_t>({1}, {-1}));
    file.nodes = {onnx_node("Shape", {"x"}, "shape"), onnx_node("Div", {"shape", "d"}, "y"),
                  onnx_node("Mul", {"shape", "minus"}, "negated"), onnx_node("Div", {"negated", "d"}, "z")};
    for (const char* name : {"y", "z"}) file.outputs.push_back({name, std::nullopt, std::nullopt});
    const Program program = load_onnx(format::write_onnx_file(file));
    const std::vector<Tensor> inputs = {Tensor::full({7, 5}, DType::kF32, 1)};
    const std::vector<Tensor> found = Interpreter(program, {}).run(inputs);
    EXPECT_TRUE(bitwise_equal(found.at(0).contiguous(), Tensor::of<int64_t>({2}, {7 / divisor, 5 / divisor})));
    EXPECT_TRUE(bitwise_equal(found.at(1).contiguous(), Tensor::of<int64_t>({2}, {-7 / divisor, -5 / divisor})));
  }
}

// (n - 9) // 3 rounds down where n is 5, ONNX's Div toward zero; n // 3 needs no more than that.
TEST(OnnxSizes, QuotientsThatMayBeNegativeAreWrittenToRoundDown) {
  Program program;
  Graph& graph = *program.graph;
  Node* x = graph.create(Node::Op::kPlaceholder, "x", {}, {}, "x");
  x->meta.val.value = TensorMeta{DType::kF32, {SymInt::symbol("s0")}, {}, false};
  Node* rows = graph.call("torch.ops.aten.sym_size.int", {x, 0});
  Node* down = graph.call("operator.floordiv", {graph.call("operator.sub", {rows, 9}), 3});
  Node* third = graph.call("operator.floordiv", {rows, 3});
  Node* y = graph.call("torch.ops.aten.add.Tensor", {graph.call("torch.ops.aten.add.Tensor", {x, down}), third});
  graph.create(Node::Op::kOutput, "output", {Argument(Argument::List{y})});
  infer_shapes(program);
  const std::vector<Tensor> inputs = {Tensor::full({5}, DType::kF32, 10)};
  const format::Bytes bytes = save_onnx(program);
  EXPECT_TRUE(bitwise_equal(Interpreter(load_onnx(bytes), {}).run(inputs)[0], Tensor::full({5}, DType::kF32, 9)));
  const auto nodes = format::read_onnx_file(bytes).nodes;
  EXPECT_EQ(std::ranges::count(nodes, "Mod", &format::OnnxNode::op_type), 1);
}

// A softmax in front of a product with a vector is no attention.
TEST(OnnxLoad, ASoftmaxMayMeetAVector) {
  format::OnnxFile file;
  file.ir_version = 8;
  file.opsets = {{"", 13}};
  using Dims = std::vector<format::OnnxDimension>;
  file.inputs.push_back({"x", DType::kF32, Dims{{2, ""}, {3, ""}, {2, ""}, {2, ""}}});
  file.initializers.emplace_back("v", Tensor::of<float>({2}, {1, 1}));
  file.nodes = {onnx_node("Softmax", {"x"}, "p"), onnx_node("MatMul", {"p", "v"}, "y")};
  file.outputs.push_back({"y", std::nullopt, std::nullopt});
  const Program program = load_onnx(format::write_onnx_file(file));
  const std::vector<Tensor> inputs = {Tensor::full({2, 3, 2, 2}, DType::kF32, 1)};
  EXPECT_TRUE(
      bitwise_equal(Interpreter(program, {}).run(inputs).at(0).contiguous(), Tensor::full({2, 3, 2}, DType::kF32, 1)));
}

// Sizes that the file calls differently are taken for the same; where one of them is 1, that is no wrong result.
TEST(OnnxSizes, OpenSizesThatDifferAreMet) {
  using Dims = std::vector<format::OnnxDimension>;
  format::OnnxFile file;
  file.ir_version = 8;
  file.opsets = {{"", 17}};
  file.inputs.push_back({"a", DType::kF32, Dims{{2, ""}, {{}, "n"}}});
  file.inputs.push_back({"b", DType::kF32, Dims{{2, ""}, {{}, "m"}}});
  file.nodes = {onnx_node("Add", {"a", "b"}, "y")};
  file.outputs.push_back({"y", std::nullopt, std::nullopt});
  const Program program = load_onnx(format::write_onnx_file(file));
  const std::vector<Tensor> inputs = {Tensor::full({2, 1}, DType::kF32, 1), Tensor::full({2, 4}, DType::kF32, 2)},
                            same = {Tensor::full({2, 4}, DType::kF32, 1), inputs[1]};
  const Tensor sum = Tensor::full({2, 4}, DType::kF32, 3);
  EXPECT_TRUE(bitwise_equal(Interpreter(program, {}).run(inputs).at(0).contiguous(), sum));
  Session session = lower(program);
  EXPECT_TRUE(bitwise_equal(session.run(same).at(0).contiguous(), sum));
  try {
    EXPECT_TRUE(bitwise_equal(session.run(inputs).at(0).contiguous(), sum));
  } catch (const Error& error) {
    EXPECT_NE(error.message.find("run it node by node"), std::string::npos) << error.message;
  }
}

TEST(OnnxSizes, ResizedHalfPrecisionStaysHalf) {
  using Dims = std::vector<format::OnnxDimension>;
  format::OnnxFile file;
  file.ir_version = 8;
  file.opsets = {{"", 16}};
  file.inputs.push_back({"x", DType::kF16, Dims{{{}, "n"}, {1, ""}, {2, ""}, {5, ""}}});
  file.initializers.emplace_back("sizes", Tensor::of<int64_t>({4}, {2, 1, 6, 7}));
  file.nodes = {onnx_node("Resize", {"x", "", "", "sizes"}, "y")};
  format::OnnxAttribute mode;
  mode.name = "mode";
  mode.kind = format::OnnxKind::kString;
  mode.s = "linear";
  file.nodes[0].attributes = {mode};
  file.outputs.push_back({"y", std::nullopt, std::nullopt});
  const Program program = load_onnx(format::write_onnx_file(file));
  const std::vector<Tensor> inputs = {Tensor::full({3, 1, 2, 5}, DType::kF16, 1.5)};
  const Tensor y = Interpreter(program, {}).run(inputs).at(0).contiguous();
  EXPECT_TRUE(bitwise_equal(y, Tensor::full({2, 1, 6, 7}, DType::kF16, 1.5)));
}

// A layer norm over axes of open size takes ones in the place of a weight.
TEST(OnnxSizes, LayerNormsOfOpenSizesAreWritten) {
  using Dims = std::vector<format::OnnxDimension>;
  format::OnnxFile file;
  file.ir_version = 8;
  file.opsets = {{"", 17}};
  file.inputs.push_back({"x", DType::kF32, Dims{{2, ""}, {{}, "n"}, {3, ""}}});
  file.initializers.emplace_back("w", Tensor::of<float>({2, 3}, {1, 2, 3, 4, 5, 6}));
  file.nodes = {onnx_node("LayerNormalization", {"x", "w"}, "y")};
  format::OnnxAttribute axis;
  axis.name = "axis";
  axis.kind = format::OnnxKind::kInt;
  axis.i = 1;
  file.nodes[0].attributes = {axis};
  file.outputs.push_back({"y", std::nullopt, std::nullopt});
  const Program program = load_onnx(format::write_onnx_file(file));
  const std::vector<Tensor> inputs = {Tensor::of<float>({2, 2, 3}, {1, 5, 2, 3, 4, 9, 0, 1, 7, 8, 2, 5})};
  const Tensor wanted = Interpreter(program, {}).run(inputs).at(0).contiguous();
  EXPECT_TRUE(bitwise_equal(Interpreter(load_onnx(save_onnx(program)), {}).run(inputs).at(0).contiguous(), wanted));
}

// Resize of opset 10 takes the elements behind where it makes an axis smaller, those before where it makes it larger,
// also if only a run tells the scale.
TEST(OnnxSizes, AComputedScaleTellsWhichElementIsTheNearest) {
  using Dims = std::vector<format::OnnxDimension>;
  format::OnnxFile file;
  file.ir_version = 5;
  file.opsets = {{"", 10}};
  file.inputs.push_back({"x", DType::kF32, Dims{{1, ""}, {1, ""}, {1, ""}, {{}, "n"}}});
  file.inputs.push_back({"scales", DType::kF32, Dims{{4, ""}}});
  file.nodes = {onnx_node("Resize", {"x", "scales"}, "y")};
  file.outputs.push_back({"y", std::nullopt, std::nullopt});
  const Program program = load_onnx(format::write_onnx_file(file));
  const auto resized = [&](const Program& by, float scale) {
    const std::vector<Tensor> inputs = {Tensor::of<float>({1, 1, 1, 5}, {0, 1, 2, 3, 4}),
                                        Tensor::of<float>({4}, {1, 1, 1, scale})};
    const Tensor y = Interpreter(by, {}).run(inputs).at(0).contiguous();
    return std::vector<float>(y.data<float>(), y.data<float>() + y.numel());
  };
  const Program again = load_onnx(save_onnx(program));
  for (const Program* by : {&program, &again}) {
    EXPECT_EQ(resized(*by, 0.7F), (std::vector<float>{0, 2, 3}));
    EXPECT_EQ(resized(*by, 1.4F), (std::vector<float>{0, 0, 1, 2, 2, 3, 4}));
  }
}

// A grid of a size that the graph computes is that of the same size as a constant.
TEST(OnnxSizes, AGridMayHaveTheSizeOfAnImage) {
  using Dims = std::vector<format::OnnxDimension>;
  const auto grid = [](bool is_open) {
    format::OnnxFile file;
    file.ir_version = 9;
    file.opsets = {{"", 20}};
    file.inputs.push_back({"theta", DType::kF32, Dims{{2, ""}, {2, ""}, {3, ""}}});
    file.inputs.push_back(
        {"x", DType::kF32,
         is_open ? Dims{{2, ""}, {1, ""}, {{}, "h"}, {{}, "w"}} : Dims{{2, ""}, {1, ""}, {3, ""}, {4, ""}}});
    file.nodes = {onnx_node("Shape", {"x"}, "size"), onnx_node("AffineGrid", {"theta", "size"}, "y")};
    file.outputs.push_back({"y", std::nullopt, std::nullopt});
    return load_onnx(format::write_onnx_file(file));
  };
  const std::vector<Tensor> inputs = {Tensor::of<float>({2, 2, 3}, {1, 2, 3, 4, 5, 6, -1, 0, 2, 0, 3, 1}),
                                      Tensor::full({2, 1, 3, 4}, DType::kF32, 0)};
  const Tensor wanted = Interpreter(grid(false), {}).run(inputs).at(0).contiguous();
  const Program open = grid(true), again = load_onnx(save_onnx(open));
  for (const Program* program : {&open, &again}) {
    const Tensor y = Interpreter(*program, {}).run(inputs).at(0).contiguous();
    ASSERT_EQ(y.sizes(), (Shape{2, 3, 4, 2}));
    for (int64_t i = 0; i < y.numel(); ++i) EXPECT_NEAR(y.data<float>()[i], wanted.data<float>()[i], 1e-5);
  }
}

// A window counts the padding around an image, and nothing behind that; one that would begin there is none. ONNX
// Runtime counts what is behind where it counts padding, also if a pool alone reads a pad, which it makes a part of it.
TEST(OnnxSizes, PoolsThatRoundUpCountPaddingThatNoPoolCounts) {
  for (const bool is_open : {true, false})
    for (const int64_t stride : {2, 3})
      for (const int64_t rows : {3, 4, 5, 6, 7, 8}) {
        Program program;
        Graph& graph = *program.graph;
        Node* x = graph.create(Node::Op::kPlaceholder, "x", {}, {}, "x");
        const SymInt height = is_open ? SymInt::symbol("s0") : SymInt(rows);
        x->meta.val.value = TensorMeta{DType::kF32, {1, 1, height, 7}, {}, false};
        const auto both = [](int64_t value) { return Argument::List{value, value}; };
        Node* y = graph.call("torch.ops.aten.avg_pool2d.default", {x, both(3), both(stride), both(1), true, true});
        graph.create(Node::Op::kOutput, "output", {Argument(Argument::List{y})});
        infer_shapes(program);
        const format::Bytes bytes = save_onnx(program);
        const std::vector<format::OnnxNode> nodes = format::read_onnx_file(bytes).nodes;
        for (const format::OnnxNode& node : nodes) {
          for (const format::OnnxAttribute& attribute : node.attributes)
            EXPECT_FALSE(attribute.name == "count_include_pad" && attribute.i != 0) << node.name;
          if (node.op_type != "Pad") continue;
          const auto reads = [&](const format::OnnxNode& one) { return one.inputs[0] == node.outputs[0]; };
          EXPECT_EQ(std::ranges::count_if(nodes, reads), 2);
        }
        const Tensor image = Tensor::empty({1, 1, rows, 7}, DType::kF32);
        for (int64_t i = 0; i < image.numel(); ++i) image.data<float>()[i] = static_cast<float>(i * i % 23);
        const std::vector<Tensor> inputs = {image};
        const Tensor wanted = Interpreter(program, {}).run(inputs).at(0).contiguous(),
                     found = Interpreter(load_onnx(bytes), {}).run(inputs).at(0).contiguous();
        ASSERT_EQ(found.sizes(), wanted.sizes());
        for (int64_t i = 0; i < found.numel(); ++i) EXPECT_NEAR(found.data<float>()[i], wanted.data<float>()[i], 1e-5);
      }
}

// Backwards through x, and the parts of what was joined. ONNX Runtime joins a Range with the Gather behind it to a
// Slice, which ends before -1 where the Range goes down to 0.
TEST(OnnxSizes, PlacesThatGoDownAndPartsOfOpenSizesAreWritten) {
  Program program;
  Graph& graph = *program.graph;
  Node *x = graph.create(Node::Op::kPlaceholder, "x", {}, {}, "x"),
       *y = graph.create(Node::Op::kPlaceholder, "y", {}, {}, "y");
  x->meta.val.value = TensorMeta{DType::kF32, {SymInt::symbol("s0")}, {}, false};
  y->meta.val.value = TensorMeta{DType::kF32, {SymInt::symbol("s1")}, {}, false};
  Node *of_x = graph.call("torch.ops.aten.sym_size.int", {x, 0}),
       *of_y = graph.call("torch.ops.aten.sym_size.int", {y, 0});
  Node* down = graph.call("torch.ops.aten.arange.start_step", {graph.call("operator.sub", {of_x, 1}), -1, -1});
  Node* turned = graph.call("torch.ops.aten.index.Tensor", {x, Argument::List{down}});
  Node* all = graph.call("torch.ops.aten.cat.default", {Argument(Argument::List{turned, y})});
  Node* parts = graph.call("torch.ops.aten.split_with_sizes.default", {all, Argument::List{of_x, of_y}});
  Node* second = graph.call("torch.ops.aten.mul.Tensor", {graph.call("operator.getitem", {parts, 1}), 2});
  graph.create(Node::Op::kOutput, "output", {Argument(Argument::List{turned, second})});
  infer_shapes(program);
  EXPECT_EQ(second->meta.val.tensor()->sizes[0], SymInt::symbol("s1"));
  const format::Bytes bytes = save_onnx(program);
  const std::vector<format::OnnxNode> nodes = format::read_onnx_file(bytes).nodes;
  for (const format::OnnxNode& range : nodes)
    for (const format::OnnxNode& reader : nodes)
      EXPECT_FALSE(range.op_type == "Range" && reader.op_type == "Gather" && reader.inputs[1] == range.outputs[0]);
  for (const Program& each : {program.clone(), load_onnx(bytes)}) {
    const std::vector<Tensor> found =
        Interpreter(each, {}).run({{Tensor::of<float>({3}, {1, 2, 3}), Tensor::of<float>({2}, {4, 5})}});
    EXPECT_TRUE(bitwise_equal(found.at(0).contiguous(), Tensor::of<float>({3}, {3, 2, 1})));
    EXPECT_TRUE(bitwise_equal(found.at(1).contiguous(), Tensor::of<float>({2}, {8, 10})));
  }
}

// As decoders take the last positions: as many as there are new tokens.
TEST(OnnxSizes, ASliceMayBeginAsFarFromTheEndAsAnInputIsLong) {
  format::OnnxFile file;
  file.ir_version = 8;
  file.opsets = {{"", 17}};
  using Dims = std::vector<format::OnnxDimension>;
  file.inputs.push_back({"x", DType::kF32, Dims{{std::nullopt, "all"}}});
  file.inputs.push_back({"new", DType::kF32, Dims{{std::nullopt, "some"}}});
  file.initializers = {{"end", Tensor::of<int64_t>({1}, {INT64_MAX})}, {"axis", Tensor::of<int64_t>({1}, {0})}};
  file.nodes = {onnx_node("Shape", {"new"}, "count"), onnx_node("Neg", {"count"}, "begin"),
                onnx_node("Slice", {"x", "begin", "end", "axis"}, "last"), onnx_node("Add", {"last", "new"}, "y")};
  file.outputs.push_back({"y", std::nullopt, std::nullopt});
  const Program program = load_onnx(format::write_onnx_file(file));
  EXPECT_EQ(to_text(*program.graph).find("aten.item"), std::string::npos) << "PyTorch could not tell the size of y";
  for (const Node* node : program.graph->nodes())
    if (node->target() == "torch.ops.aten.slice.Tensor") {
      EXPECT_EQ(node->meta.val.tensor()->sizes[0].to_string(), "s1");
    }
  const std::vector<Tensor> found =
      Interpreter(program, {}).run({{Tensor::of<float>({4}, {1, 2, 3, 4}), Tensor::of<float>({2}, {10, 20})}});
  EXPECT_TRUE(bitwise_equal(found.at(0).contiguous(), Tensor::of<float>({2}, {13, 24})));
}

// In integers most of the rows are 0, and so not above it.
TEST_F(CliTest, AModelWhoseOutputsVaryInNumberIsQuantized) {
  format::OnnxFile file;
  file.ir_version = 8;
  file.opsets = {{"", 17}};
  using Dims = std::vector<format::OnnxDimension>;
  file.inputs.push_back({"x", DType::kF32, Dims{{8, ""}, {1, ""}}});
  file.initializers.emplace_back("w", Tensor::full({1, 1}, DType::kF32, 1));
  file.initializers.emplace_back("none", Tensor::full({}, DType::kF32, 0));
  file.initializers.emplace_back("one", Tensor::of<int64_t>({1}, {1}));
  file.initializers.emplace_back("zero", Tensor::of<int64_t>({1}, {0}));
  file.nodes = {onnx_node("MatMul", {"x", "w"}, "scores"),        onnx_node("Squeeze", {"scores", "one"}, "flat"),
                onnx_node("Greater", {"flat", "none"}, "above"),  onnx_node("NonZero", {"above"}, "places"),
                onnx_node("Squeeze", {"places", "zero"}, "rows"), onnx_node("Gather", {"x", "rows"}, "best")};
  file.outputs.push_back({"best", std::nullopt, std::nullopt});
  host.contents["boxes.onnx"] = format::write_onnx_file(file);
  const std::vector<format::NamedTensor> samples{
      {"b0_i0", Tensor::of<float>({8, 1}, {1, 1e-4F, 1e-4F, 1e-4F, 1e-4F, 1e-4F, 1e-4F, 1e-4F})}};
  host.contents["x.npz"] = format::write_npz(samples);
  for (const char* out : {"out.onnx", "out.pt2"}) {
    EXPECT_EQ(run({"quantize", "boxes.onnx", "--calibrate", "x.npz", "-o", out}), 0) << host.err;
    EXPECT_EQ(host.err.find("is lost in integers"), std::string::npos) << host.err;
    for (const char* model : {"boxes.onnx", out})
      EXPECT_EQ(run({"run", model, "--inputs", "x.npz", "-o", "y.npz"}), 0) << host.err;
    EXPECT_EQ(format::read_npz(host.contents["y.npz"]).at(0).tensor.sizes(), (Shape{1, 1}));
  }
}

}  // namespace
}  // namespace qdq::onnx_sizes_test
