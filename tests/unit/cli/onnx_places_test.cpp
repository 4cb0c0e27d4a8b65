// What is written of operators that choose and write places of a tensor.
#include <gtest/gtest.h>

#include "exec/interpreter.h"
#include "format/onnx_file.h"
#include "io/onnx.h"
#include "op/infer.h"
#include "op/targets.h"
#include "unit/cli/onnx_node.h"
#include "unit/format/expect_error.h"

namespace qdq::onnx_places_test {
namespace {

// y = scatter_reduce(x, 1, places, values, reduction), as networks of graphs join what their edges bring.
Program joined(const std::string& reduction, bool include_self, DType dtype = DType::kF32) {
  Program out;
  const auto input = [&](const std::string& name, Shape sizes, DType type) {
    Node* node = out.graph->create(Node::Op::kPlaceholder, name, {}, {}, name);
    node->meta.val.value = TensorMeta{type, SymShape(sizes.begin(), sizes.end()), {}, false};
    return node;
  };
  Node* x = input("x", {2, 4}, dtype);
  Node* places = input("places", {2, 3}, DType::kS64);
  Node* values = input("values", {2, 3}, dtype);
  Node* y = out.graph->call("torch.ops.aten.scatter_reduce.two", {x, int64_t{1}, places, values, reduction},
                            {{"include_self", include_self}});
  out.graph->create(Node::Op::kOutput, "output", {Argument(Argument::List{y})}, {}, "output");
  return out;
}

TEST(OnnxScatter, EveryReductionIsWrittenWithAndWithoutWhatWasThere) {
  const Tensor places = Tensor::of<int64_t>({2, 3}, {0, 2, 0, 3, 3, 1});
  for (const std::string reduction : {"sum", "prod", "mean", "amax", "amin"})
    for (const bool include_self : {false, true})
      for (const DType dtype : {DType::kF32, DType::kS64}) {
        if (reduction == "mean" && dtype == DType::kS64) continue;
        SCOPED_TRACE(reduction + (include_self ? " with what was there" : ""));
        const Program program = joined(reduction, include_self, dtype);
        const std::vector<Tensor> inputs = {Tensor::of<float>({2, 4}, {9, -9, 5, 1, -8, 8, 4, 2}).to(dtype), places,
                                            Tensor::of<float>({2, 3}, {-3, 2, -5, 7, 6, -1}).to(dtype)};
        const Tensor wanted = Interpreter(program, {}).run(inputs)[0].contiguous();
        const Program again = load_onnx(save_onnx(program));
        EXPECT_TRUE(bitwise_equal(Interpreter(again, {}).run(inputs)[0].contiguous(), wanted));
      }
}

TEST(OnnxScatter, MeansOfIntegersAreRefused) {
  expect_error(ErrorCode::kUnsupported, "joins integers by mean, which ONNX cannot",
               [] { save_onnx(joined("mean", true, DType::kS64)); });
}

// y = op(inputs...) of float32 inputs and such of other types.
void expect_written(const std::string& op, const std::vector<Tensor>& inputs, std::vector<Argument> args = {},
                    bool is_list = false) {
  SCOPED_TRACE(op);
  Program program;
  std::vector<Argument> all;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::string name = concat("in", i);
    Node* node = program.graph->create(Node::Op::kPlaceholder, name, {}, {}, name);
    node->meta.val.value = meta_of(inputs[i]);
    all.emplace_back(node);
  }
  if (is_list) all = {args.at(0), Argument(Argument::List(all.begin(), all.end()))};
  else all.insert(all.end(), args.begin(), args.end());
  Node* y = program.graph->call("torch.ops.aten." + op, all);
  program.graph->create(Node::Op::kOutput, "output", {Argument(Argument::List{y})}, {}, "output");
  infer_shapes(program);
  const Tensor wanted = Interpreter(program, {}).run(inputs)[0].contiguous(),
               found = Interpreter(load_onnx(save_onnx(program)), {}).run(inputs)[0].contiguous();
  ASSERT_EQ(found.dtype(), wanted.dtype());
  ASSERT_EQ(found.sizes(), wanted.sizes());
  for (int64_t i = 0; i < wanted.numel(); ++i)
    EXPECT_NEAR(found.to(DType::kF64).data<double>()[i], wanted.to(DType::kF64).data<double>()[i], 1e-6) << i;
}
Tensor counted(const Shape& sizes, DType dtype = DType::kF32) {
  const Tensor out = Tensor::empty(sizes, DType::kF32);
  for (int64_t i = 0; i < out.numel(); ++i) out.data<float>()[i] = static_cast<float>(i * 7 % 11 - 3);
  return out.to(dtype);
}

TEST(OnnxPlaces, WhatIsTakenAlongAnAxisIsSpreadOverTheOtherAxes) {
  const Tensor places = Tensor::of<int64_t>({1, 2, 1}, {2, 0});
  expect_written("take_along_dim.default", {counted({2, 3, 4}), places}, {1});
  expect_written("take_along_dim.default", {counted({1, 3, 1}), Tensor::of<int64_t>({2, 1, 2}, {2, 0, 1, 1})}, {1});
}

TEST(OnnxPlaces, CrossProductsSpreadTheirOperandsAndFindTheirAxis) {
  expect_written("cross.default", {counted({2, 3, 4}), counted({2, 3, 4})});
  expect_written("linalg_cross.default", {counted({2, 1, 3}), counted({4, 3})});
}

TEST(OnnxPlaces, EinsumsSpreadWhatTheirDotsStandFor) {
  const std::string product = "...ij,...jk->...ik";
  expect_written("einsum.default", {counted({1, 2, 3}), counted({4, 3, 5})}, {product}, true);
  expect_written("einsum.default", {counted({4, 1, 2, 3}), counted({3, 5})}, {product}, true);
  expect_written("einsum.default", {counted({4, 2, 3}), counted({6, 1, 3, 5})}, {product}, true);
  const format::OnnxFile file = [&] {
    Program program;
    Node* x = program.graph->create(Node::Op::kPlaceholder, "x", {}, {}, "x");
    x->meta.val.value = meta_of(counted({2, 3}));
    Node* y = program.graph->call("torch.ops.aten.einsum.default", {"...i->...", Argument(Argument::List{x})});
    program.graph->create(Node::Op::kOutput, "output", {Argument(Argument::List{y})}, {}, "output");
    infer_shapes(program);
    return format::read_onnx_file(save_onnx(program));
  }();
  // ONNX Runtime wants equally many axes behind the dots of each operand, so that none are written.
  ASSERT_EQ(file.nodes.size(), 1U);
  EXPECT_EQ(file.nodes[0].attributes.at(0).s, "zi->z");
}

// y = Einsum(x, weight), the weight being a constant, as first or second operand.
Program einsum_of_weight(const std::string& equation, const Tensor& x, const Tensor& weight, bool weight_first) {
  format::OnnxFile file;
  file.ir_version = 8;
  file.opsets = {{"", 17}};
  std::vector<format::OnnxDimension> sizes(static_cast<size_t>(x.dim()));
  for (size_t a = 0; a < sizes.size(); ++a) sizes[a].value = x.sizes()[a];
  sizes[0] = {std::nullopt, "n"};
  file.inputs.push_back({"x", DType::kF32, sizes});
  file.outputs.push_back({"y", std::nullopt, std::nullopt});
  file.initializers.emplace_back("weight", weight);
  format::OnnxNode node = onnx_node("Einsum", {"x", "weight"}, "y");
  if (weight_first) std::swap(node.inputs[0], node.inputs[1]);
  format::OnnxAttribute text;
  text.name = "equation";
  text.kind = format::OnnxKind::kString;
  text.s = equation;
  node.attributes = {text};
  file.nodes = {node};
  return load_onnx(format::write_onnx_file(file));
}

// The sum itself, by PyTorch's operator.
Tensor einsum_of(const std::string& equation, const std::vector<Tensor>& operands) {
  Program program;
  Argument::List nodes;
  for (size_t i = 0; i < operands.size(); ++i) {
    Node* node = program.graph->create(Node::Op::kPlaceholder, concat("in", i), {}, {}, concat("in", i));
    node->meta.val.value = meta_of(operands[i]);
    nodes.emplace_back(node);
  }
  Node* y = program.graph->call("torch.ops.aten.einsum.default", {equation, Argument(nodes)});
  program.graph->create(Node::Op::kOutput, "output", {Argument(Argument::List{y})}, {}, "output");
  infer_shapes(program);
  return Interpreter(program, {}).run(operands)[0].contiguous();
}

TEST(OnnxPlaces, EinsumsWithAConstantAreLinearLayers) {
  struct Case {
    const char* equation;
    Shape x, weight;
    bool weight_first = false, is_linear = true;
  };
  const Case cases[] = {
      {"abc,cde->abde", {2, 3, 4}, {4, 2, 5}},               // Keras's queries, keys and values
      {"abcd,cde->abe", {2, 3, 2, 5}, {2, 5, 4}},            // and what is behind its attention
      {"bi,oi->bo", {3, 4}, {6, 4}},                         //
      {"...i,ij->...j", {2, 3, 4}, {4, 5}},                  //
      {"nchw,dc->ndhw", {2, 4, 3, 5}, {6, 4}},               // the sum is not over the last axis
      {"oi,bit->bot", {2, 4, 3}, {6, 4}, true},              // nor is the weight behind
      {"abc,dce->eabd", {2, 3, 4}, {5, 4, 2}},               //
      {"bhi,hij->bhj", {2, 3, 4}, {3, 4, 5}, false, false},  // a matrix for each head
      {"bi,i->b", {2, 4}, {4}, false, false},
      {"bi,j->bij", {2, 4}, {3}, false, false},
      {"bii,ij->bj", {2, 4, 4}, {4, 3}, false, false},
      {"bij,jk->bk", {2, 3, 4}, {4, 5}, false, false},
      {"bi,ijk->bj", {2, 4}, {4, 3, 2}, false, false},
      {"bi,ij->bj", {2, 4}, {1, 3}, false, false},
      {"ab,ab->", {2, 3}, {2, 3}, false, false},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.equation);
    const Tensor x = counted(one.x), weight = counted(one.weight);
    const Program program = einsum_of_weight(one.equation, x, weight, one.weight_first);
    const Graph& graph = *program.graph;
    EXPECT_EQ(graph.find("linear") != nullptr, one.is_linear);
    EXPECT_EQ(graph.find("einsum") == nullptr, one.is_linear);
    const Tensor wanted =
        one.weight_first ? einsum_of(one.equation, {weight, x}) : einsum_of(one.equation, {x, weight});
    const Program again = load_onnx(save_onnx(program));
    for (const Program* read : {&program, &again}) {
      const Tensor found = Interpreter(*read, {}).run(std::vector<Tensor>{x})[0].contiguous();
      ASSERT_EQ(found.sizes(), wanted.sizes());
      for (int64_t i = 0; i < wanted.numel(); ++i) EXPECT_NEAR(found.data<float>()[i], wanted.data<float>()[i], 1e-4);
    }
  }
}

TEST(OnnxPlaces, TrianglesAndQuestionsOfIntegersTakeTypesThatOnnxRuntimeHas) {
  for (const DType dtype : {DType::kS32, DType::kS8, DType::kS64, DType::kF32})
    for (const char* op : {"tril.default", "triu.default", "isnan.default", "isinf.default"})
      expect_written(op, {counted({3, 4}, dtype)});
}

// A program that gives x, None, a number of each kind and the size of x.
TEST(OnnxOutputs, NumbersAreWrittenAndNoneIsLeftOut) {
  Program program;
  Node* x = program.graph->create(Node::Op::kPlaceholder, "x", {}, {}, "x");
  x->meta.val.value = TensorMeta{DType::kF32, SymShape{SymInt(2), SymInt(3)}, {}, false};
  Node* size = program.graph->call("torch.ops.aten.sym_size.int", {x, 1});
  program.graph->create(Node::Op::kOutput, "output", {Argument(Argument::List{x, {}, int64_t{7}, 0.5, true, size})}, {},
                        "output");
  const Tensor input = Tensor::of<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  const std::vector<std::byte> bytes = save_onnx(program);
  const format::OnnxFile file = format::read_onnx_file(bytes);
  ASSERT_EQ(file.outputs.size(), 5U);
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ(file.outputs[i].name, concat("output_", i));
  const std::vector<Tensor> wanted = Interpreter(program, {}).run({{input}}),
                            found = Interpreter(load_onnx(bytes), {}).run({{input}});
  ASSERT_EQ(found.size(), wanted.size());
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].dtype(), wanted[i].dtype());
    EXPECT_TRUE(bitwise_equal(found[i].contiguous(), wanted[i].contiguous())) << i;
  }
}

TEST(OnnxSave, WritesToInputsAndBuffersAreRefusedWithARemedy) {
  for (const bool is_buffer : {false, true}) {
    Program program;
    Graph& graph = *program.graph;
    const Tensor zeros = Tensor::full({2, 3}, DType::kF32, 0);
    if (is_buffer) program.add_attribute({"cache", zeros, Attribute::Kind::kBuffer});
    Node* state = is_buffer ? graph.get_attr("cache") : graph.create(Node::Op::kPlaceholder, "x", {}, {}, "x");
    state->meta.val.value = meta_of(zeros);
    Node* row = graph.call("torch.ops.aten.select.int", {state, int64_t{0}, int64_t{1}});
    Node* written = graph.call("torch.ops.aten.add_.Scalar", {row, 1.0});
    graph.create(Node::Op::kOutput, "output", {Argument(Argument::List{written, state})}, {}, "output");
    infer_shapes(program);
    try {
      save_onnx(program);
      ADD_FAILURE() << "nothing was refused";
    } catch (const Error& error) {
      const std::string remedy = is_buffer ? "writes to the buffer cache, which an ONNX model cannot do; let the model "
                                             "take the buffer as an input and return its new value"
                                           : "writes to the input x; let the model write to a clone of it";
      EXPECT_NE(error.message.find(remedy), std::string::npos) << error.message;
    }
  }
}

// As batch norms of an exported program count their batches, in both dialects of torch.export.
TEST(OnnxSave, LeavesOutBuffersThatNoOutputDependsOn) {
  for (const bool is_in_place : {false, true}) {
    Program program;
    Graph& graph = *program.graph;
    const Tensor values = Tensor::full({2, 3}, DType::kF32, -1);
    program.add_attribute({"batches", Tensor::scalar(int64_t{0}), Attribute::Kind::kBuffer});
    Node* x = graph.create(Node::Op::kPlaceholder, "x", {}, {}, "x");
    x->meta.val.value = meta_of(values);
    Node* count = graph.get_attr("batches");
    count->meta.val.value = TensorMeta{DType::kS64, {}, {}, false};
    Node* next = graph.call(op::aten(is_in_place ? "add_.Tensor" : "add.Tensor"), {count, int64_t{1}});
    if (!is_in_place) program.buffer_mutations = {{next->name(), "batches"}};
    Node* y = graph.call(op::aten("relu.default"), {x});
    graph.create(Node::Op::kOutput, "output", {Argument(Argument::List{y})}, {}, "output");
    infer_shapes(program);
    const format::OnnxFile file = format::read_onnx_file(save_onnx(program));
    EXPECT_EQ(file.nodes.size(), 1u);
    EXPECT_TRUE(file.initializers.empty());
  }
}

// A bias that convert_pt2e(fold_quantize=False) left in float: ONNX does not quantize to int32.
TEST(OnnxSave, QuantizesConstantsToInt32Itself) {
  Program program;
  Graph& graph = *program.graph;
  const Tensor values = Tensor::full({3}, DType::kF32, 0.25);
  program.add_attribute({"bias", values, Attribute::Kind::kParameter});
  Node* x = graph.create(Node::Op::kPlaceholder, "x", {}, {}, "x");
  Node* bias = graph.get_attr("bias");
  for (Node* node : {x, bias}) node->meta.val.value = meta_of(values);
  const auto with_qparams = [&](std::string_view name, Node* input) {
    return graph.call(std::string(name), {input, 1e-4, 0, min_of(DType::kS32), max_of(DType::kS32), DType::kS32});
  };
  Node* real = with_qparams(op::kDequantize, with_qparams(op::kQuantize, bias));
  Node* y = graph.call(op::aten("add.Tensor"), {x, real});
  graph.create(Node::Op::kOutput, "output", {Argument(Argument::List{y})}, {}, "output");
  infer_shapes(program);
  const std::vector<Tensor> found = Interpreter(load_onnx(save_onnx(program)), {}).run({{values}});
  EXPECT_NEAR(found[0].data<float>()[0], 0.5, 1e-6);
}

// PyTorch and ONNX Runtime leave out a window that begins in the padding behind the image; onnx infers a size with it,
// and a factor for each window does not fit that.
TEST(OnnxSave, AveragesWhoseLastWindowIsLeftOutAreSliced) {
  for (const int64_t size : {7, 8}) {
    Program program;
    Graph& graph = *program.graph;
    const Tensor image = Tensor::full({1, 2, size, size}, DType::kF32, 3);
    Node* x = graph.create(Node::Op::kPlaceholder, "x", {}, {}, "x");
    x->meta.val.value = meta_of(image);
    const auto both = [](int64_t number) { return Argument(Argument::List{number, number}); };
    Node* y = graph.call(op::aten("avg_pool2d.default"), {x, both(2), both(2), both(1), true, true});
    graph.create(Node::Op::kOutput, "output", {Argument(Argument::List{y})}, {}, "output");
    infer_shapes(program);
    const std::vector<std::byte> bytes = save_onnx(program);
    const auto& nodes = format::read_onnx_file(bytes).nodes;
    const auto slices = std::count_if(nodes.begin(), nodes.end(), [](const auto& n) { return n.op_type == "Slice"; });
    EXPECT_EQ(slices, size == 7 ? 1 : 0);
    EXPECT_TRUE(bitwise_equal(Interpreter(load_onnx(bytes), {}).run({{image}})[0].contiguous(),
                              Interpreter(program, {}).run({{image}})[0].contiguous()));
  }
}

}  // namespace
}  // namespace qdq::onnx_places_test
