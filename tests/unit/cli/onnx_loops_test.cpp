// Loops of ONNX models that become something else: those that append to a list, those that count their own turns, and
// those over bags of rows.
#include <gtest/gtest.h>

#include "exec/interpreter.h"
#include "io/onnx.h"
#include "unit/cli/onnx_node.h"

namespace qdq::onnx_loops_test {
namespace {

// The sums of the rows of x [t, 2] up to each, which a loop appends to a list, as scripts do, joined along an axis.
// With `is_counted` its length is a result, too.
Program running_sums(int64_t axis, bool is_counted) {
  using Dims = std::vector<format::OnnxDimension>;
  const auto attribute = [](const char* name, format::OnnxKind kind, int64_t i = 0) {
    format::OnnxAttribute out;
    out.name = name;
    out.kind = kind;
    out.i = i;
    return out;
  };
  auto body = std::make_shared<format::OnnxGraph>();
  body->inputs = {{"i", DType::kS64, Dims()}, {"go", DType::kBool, Dims()}};
  for (const char* name : {"list", "sum"}) body->inputs.push_back({name, std::nullopt, std::nullopt});
  body->nodes = {onnx_node("Gather", {"x", "i"}, "row"), onnx_node("Add", {"sum", "row"}, "next"),
                 onnx_node("SequenceInsert", {"list", "next"}, "longer"), onnx_node("Identity", {"go"}, "goes")};
  for (const char* name : {"goes", "longer", "next"}) body->outputs.push_back({name, std::nullopt, std::nullopt});
  format::OnnxFile file;
  file.ir_version = 8;
  file.opsets = {{"", 17}};
  file.inputs.push_back({"x", DType::kF32, Dims{{std::nullopt, "t"}, {2, ""}}});
  file.initializers = {{"start", Tensor::full({2}, DType::kF32, 0)}, {"first", Tensor::of<int64_t>({}, {0})}};
  format::OnnxNode loop = onnx_node("Loop", {"t", "", "empty", "start"}, "all");
  loop.outputs.push_back("last");
  loop.attributes = {attribute("body", format::OnnxKind::kGraph)};
  loop.attributes[0].graphs = {body};
  format::OnnxNode join = onnx_node("ConcatFromSequence", {"all"}, "y");
  join.attributes = {attribute("axis", format::OnnxKind::kInt, axis), attribute("new_axis", format::OnnxKind::kInt, 1)};
  file.nodes = {onnx_node("Shape", {"x"}, "shape"), onnx_node("Gather", {"shape", "first"}, "t"),
                onnx_node("SequenceEmpty", {}, "empty"), loop, join};
  file.outputs = {{"y", std::nullopt, std::nullopt}, {"last", std::nullopt, std::nullopt}};
  if (is_counted) {
    file.nodes.push_back(onnx_node("SequenceLength", {"all"}, "count"));
    file.outputs.push_back({"count", std::nullopt, std::nullopt});
  }
  return load_onnx(format::write_onnx_file(file));
}

TEST(OnnxLoops, ALoopStacksWhatItAppendsToAList) {
  const std::vector<float> rows = {1, 2, 3, 4, 5, 6};
  for (const int64_t axis : {0, 1, -1}) {
    SCOPED_TRACE(axis);
    const Program program = running_sums(axis, false), counted = running_sums(axis, true);
    EXPECT_EQ(to_text(*program.graph).find("sequence"), std::string::npos);
    const Program again = load_onnx(save_onnx(program));
    for (const int64_t t : {1, 3}) {
      const std::vector<Tensor> inputs = {
          Tensor::of<float>({t, 2}, std::span<const float>(rows.data(), static_cast<size_t>(2 * t)))};
      Tensor wanted = Tensor::of<float>({3, 2}, {1, 2, 4, 6, 9, 12}).slice(0, 0, t);
      if (axis != 0) wanted = wanted.transpose(0, 1);
      for (const Program* each : {&program, &counted, &again}) {
        const std::vector<Tensor> found = Interpreter(*each, {}).run(inputs);
        EXPECT_TRUE(bitwise_equal(found.at(0).contiguous(), wanted.contiguous()));
        EXPECT_EQ(found.at(1).data<float>()[0], t == 1 ? 1 : 9);
      }
      EXPECT_EQ(Interpreter(counted, {}).run(inputs).at(2).item_int(), t);
    }
  }
}

// Adds x to itself until a number that begins with 0, or with an input, has counted up to `end`, as TensorFlow's loops
// do; gives the sums, too.
Program counting_loop(int32_t end, bool begins_with_zero) {
  using Dims = std::vector<format::OnnxDimension>;
  const auto info = [](const char* name) { return format::OnnxValueInfo{name, std::nullopt, std::nullopt}; };
  auto body = std::make_shared<format::OnnxGraph>();
  body->inputs = {{"i", DType::kS64, Dims()}, {"go", DType::kBool, Dims()}, info("time"), info("sum")};
  body->nodes = {onnx_node("Add", {"time", "one"}, "later"), onnx_node("Add", {"sum", "x"}, "next"),
                 onnx_node("Less", {"later", "end"}, "goes"), onnx_node("Identity", {"next"}, "part")};
  body->outputs = {info("goes"), info("later"), info("next"), info("part")};
  format::OnnxFile file;
  file.ir_version = 8;
  file.opsets = {{"", 17}};
  file.inputs = {{"x", DType::kF32, Dims{{2, ""}}}, {"begin", DType::kS32, Dims()}};
  file.initializers = {{"one", Tensor::of<int32_t>({}, {1})},
                       {"end", Tensor::of<int32_t>({}, {end})},
                       {"zero", Tensor::of<int32_t>({}, {0})}};
  format::OnnxNode loop = onnx_node("Loop", {"", "", begins_with_zero ? "zero" : "begin", "x"}, "last");
  loop.outputs.insert(loop.outputs.end(), {"y", "parts"});
  loop.attributes.emplace_back().name = "body";
  loop.attributes[0].kind = format::OnnxKind::kGraph;
  loop.attributes[0].graphs = {body};
  file.nodes = {loop};
  file.outputs = {info("last"), info("y"), info("parts")};
  return load_onnx(format::write_onnx_file(file));
}

TEST(OnnxLoops, ALoopThatCountsItselfIsWrittenOut) {
  for (const int32_t end : {1, 3, 100})
    for (const bool begins_with_zero : {true, false}) {
      SCOPED_TRACE(concat(end, begins_with_zero));
      const Program program = counting_loop(end, begins_with_zero);
      const bool is_loop = to_text(*program.graph).find("higher_order.loop") != std::string::npos;
      EXPECT_EQ(is_loop, !begins_with_zero || end > 64);
      const std::vector<Tensor> found =
          Interpreter(program, {}).run({{Tensor::of<float>({2}, {1, 2}), Tensor::of<int32_t>({}, {0})}});
      EXPECT_EQ(found.at(0).item_int(), end);
      EXPECT_EQ(found.at(1).data<float>()[1], static_cast<float>(2 * (end + 1)));
      EXPECT_EQ(found.at(2).sizes(), (Shape{end, 2}));
    }
}

// Reduces the rows of a table that each row of x [batch, 2] lists, as PyTorch's exporter writes EmbeddingBag: bag i are
// the indices from begins[i] to ends[i]. The begins are known, or counted where the batch is open.
Program bags(const std::string& reduce, bool is_open, std::vector<int64_t> begins, int64_t opset) {
  using Dims = std::vector<format::OnnxDimension>;
  const auto info = [](const char* name) { return format::OnnxValueInfo{name, std::nullopt, std::nullopt}; };
  const auto with = [](format::OnnxNode node, std::vector<format::OnnxAttribute> attributes) {
    node.attributes = std::move(attributes);
    return node;
  };
  format::OnnxAttribute axes = onnx_integer("axes", 0);
  axes.kind = format::OnnxKind::kInts;
  axes.ints = {0};
  auto body = std::make_shared<format::OnnxGraph>();
  body->inputs = {{"i", DType::kS64, Dims()}, {"go", DType::kBool, Dims()}};
  const bool has_axes = reduce != "ReduceSum" && opset < 18;
  body->nodes = {onnx_node("Gather", {"begins", "i"}, "begin"),
                 onnx_node("Gather", {"ends", "i"}, "end"),
                 onnx_node("Unsqueeze", {"begin", "first"}, "from"),
                 onnx_node("Unsqueeze", {"end", "first"}, "to"),
                 onnx_node("Slice", {"list", "from", "to", "first"}, "bag"),
                 with(onnx_node("Gather", {"table", "bag"}, "rows"), {onnx_integer("axis", 0)}),
                 with(onnx_node(reduce, {"rows", "first"}, "reduced"), {onnx_integer("keepdims", 0)}),
                 onnx_node("Identity", {"yes"}, "goes")};
  if (has_axes) {
    body->nodes[6].inputs.pop_back();
    body->nodes[6].attributes.push_back(axes);
  }
  body->outputs = {info("goes"), info("reduced")};
  const auto numbers = [](std::vector<int64_t> all) {
    return Tensor::of<int64_t>({static_cast<int64_t>(all.size())}, std::span<const int64_t>(all));
  };
  format::OnnxFile file;
  file.ir_version = 8;
  file.opsets = {{"", opset}};
  file.inputs = {
      {"x", DType::kS64,
       Dims{is_open ? format::OnnxDimension{std::nullopt, "batch"} : format::OnnxDimension{3, ""}, {2, ""}}}};
  file.initializers = {{"table", Tensor::of<float>({4, 2}, {1, 2, 3, 5, 7, 11, 13, 17})},
                       {"first", numbers({0})},
                       {"second", numbers({1})},
                       {"last", numbers({INT64_MAX})},
                       {"all", numbers({-1})},
                       {"zero", Tensor::of<int64_t>({}, {0})},
                       {"two", Tensor::of<int64_t>({}, {2})},
                       {"yes", Tensor::full({}, DType::kBool, 1)},
                       {"known", numbers(std::move(begins))}};
  file.nodes = {
      onnx_node("Reshape", {"x", "all"}, "list"),
      onnx_node("Shape", {"list"}, "length"),
      with(onnx_node("ReduceProd", {"length"}, "number"), {onnx_integer("keepdims", 0)}),
      onnx_node("Range", {"zero", "number", "two"}, "counted"),
      with(onnx_node("Concat", {is_open ? "counted" : "known", "length"}, "begins"), {onnx_integer("axis", 0)}),
      onnx_node("Slice", {"begins", "second", "last", "first"}, "ends"),
      onnx_node("Shape", {"ends"}, "count"),
      onnx_node("Gather", {"count", "zero"}, "trips")};
  format::OnnxNode loop = onnx_node("Loop", {"trips", "yes"}, "y");
  loop.attributes.emplace_back().name = "body";
  loop.attributes[0].kind = format::OnnxKind::kGraph;
  loop.attributes[0].graphs = {body};
  file.nodes.push_back(loop);
  file.outputs = {info("y")};
  return load_onnx(format::write_onnx_file(file));
}

TEST(OnnxLoops, ALoopOverEqualBagsReducesAnAxis) {
  const Tensor x = Tensor::of<int64_t>({3, 2}, {0, 1, 3, 3, 2, 0});
  for (const int64_t opset : {17, 18})
    for (const bool is_open : {false, true})
      for (const std::string reduce : {"ReduceSum", "ReduceMean", "ReduceMax"}) {
        SCOPED_TRACE(concat(reduce, opset, is_open));
        const Program program = bags(reduce, is_open, {0, 2, 4}, opset);
        const std::string text = to_text(*program.graph);
        EXPECT_EQ(text.find("loop"), std::string::npos) << text;
        EXPECT_EQ(text.find("stack"), std::string::npos) << text;
        const Tensor wanted = reduce == "ReduceSum"    ? Tensor::of<float>({3, 2}, {4, 7, 26, 34, 8, 13})
                              : reduce == "ReduceMean" ? Tensor::of<float>({3, 2}, {2, 3.5, 13, 17, 4, 6.5})
                                                       : Tensor::of<float>({3, 2}, {3, 5, 13, 17, 7, 11});
        EXPECT_TRUE(bitwise_equal(Interpreter(program, {}).run({{x}}).at(0).contiguous(), wanted));
        EXPECT_TRUE(
            bitwise_equal(Interpreter(load_onnx(save_onnx(program)), {}).run({{x}}).at(0).contiguous(), wanted));
      }
}

TEST(OnnxLoops, BagsOfOtherSizesStayTurns) {
  const Tensor x = Tensor::of<int64_t>({3, 2}, {0, 1, 3, 3, 2, 0});
  const std::pair<std::vector<int64_t>, std::vector<float>> cases[] = {
      {{0, 1, 4}, {1, 2, 29, 39, 8, 13}}, {{0, 2, 2}, {4, 7, 0, 0, 34, 47}}, {{2, 4}, {26, 34, 8, 13}}};
  for (const auto& [begins, sums] : cases) {
    const Program program = bags("ReduceSum", false, begins, 17);
    const Tensor wanted = Tensor::of<float>({static_cast<int64_t>(begins.size()), 2}, std::span<const float>(sums));
    EXPECT_TRUE(bitwise_equal(Interpreter(program, {}).run({{x}}).at(0).contiguous(), wanted));
  }
}

}  // namespace
}  // namespace qdq::onnx_loops_test
