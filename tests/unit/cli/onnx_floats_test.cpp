// Floats that ONNX's operators, or ONNX Runtime's, do not take: what is written computes in float32.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "exec/interpreter.h"
#include "format/onnx_file.h"
#include "io/onnx.h"
#include "op/infer.h"

namespace qdq::onnx_floats_test {
namespace {

using List = Argument::List;

Tensor ramp(const Shape& sizes, DType dtype) {
  const Tensor out = Tensor::empty(sizes, DType::kF32);
  for (int64_t i = 0; i < out.numel(); ++i) out.data<float>()[i] = static_cast<float>(i % 7) / 4 - 0.5F;
  return out.to(dtype);
}

class Builder {
 public:
  explicit Builder(DType dtype) : dtype_(dtype) {}

  Node* input(const Shape& sizes) { return input(sizes, dtype_); }
  Node* input(const Shape& sizes, DType dtype) {
    const std::string name = concat("x", program_.graph->placeholders().size());
    Node* node = program_.graph->create(Node::Op::kPlaceholder, name, {}, {}, name);
    node->meta.val.value = TensorMeta{dtype, SymShape(sizes.begin(), sizes.end()), {}, false};
    return node;
  }
  Node* weight(const Shape& sizes) {
    const std::string name = program_.unique_attribute_name("w");
    Attribute attribute;
    attribute.name = name;
    attribute.tensor = ramp(sizes, dtype_);
    const auto point = program_.graph->insert_before(program_.graph->first());
    Node* node = program_.graph->get_attr(name, name);
    node->meta.val.value = meta_of(attribute.tensor);
    program_.add_attribute(std::move(attribute));
    return node;
  }
  Node* call(const std::string& name, std::vector<Argument> args, Node::Kwargs kwargs = {}) {
    return program_.graph->call("torch.ops." + name, std::move(args), std::move(kwargs));
  }
  Node* item(Node* list, int64_t i) { return program_.graph->call("operator.getitem", {list, i}); }
  Program done(List results) {
    program_.graph->create(Node::Op::kOutput, "output", {Argument(std::move(results))}, {}, "output");
    infer_shapes(program_);
    return std::move(program_);
  }

 private:
  Program program_;
  DType dtype_;
};

format::OnnxFile file_of(const Program& program) { return format::read_onnx_file(save_onnx(program)); }

// The floats that each operator of a file reads. Operators keep the type of their first float, but for casts.
std::map<std::string, std::vector<DType>> floats_by_operator(const format::OnnxFile& file) {
  std::map<std::string, DType> types;
  for (const format::OnnxValueInfo& value : file.inputs) types[value.name] = *value.dtype;
  for (const auto& [name, tensor] : file.initializers) types[name] = tensor.dtype();
  std::map<std::string, std::vector<DType>> out;
  for (const format::OnnxNode& node : file.nodes) {
    DType type = DType::kF32;
    for (const std::string& input : node.inputs) {
      const auto found = types.find(input);
      if (found == types.end() || !is_floating(found->second)) continue;
      out[node.op_type].push_back(type = found->second);
    }
    if (node.op_type == "Cast") type = *format::onnx_dtype(node.attributes[0].i);
    for (const std::string& output : node.outputs) types[output] = type;
  }
  return out;
}

void expect_same(const Program& program, const std::vector<Tensor>& inputs, double tolerance) {
  const std::vector<Tensor> wanted = Interpreter(program, {}).run(inputs),
                            found = Interpreter(load_onnx(save_onnx(program)), {}).run(inputs);
  ASSERT_EQ(found.size(), wanted.size());
  for (size_t i = 0; i < found.size(); ++i) {
    ASSERT_EQ(found[i].dtype(), wanted[i].dtype());
    ASSERT_EQ(found[i].sizes(), wanted[i].sizes());
    const Tensor a = found[i].to(DType::kF64).contiguous(), b = wanted[i].to(DType::kF64).contiguous();
    for (int64_t k = 0; k < a.numel(); ++k)
      EXPECT_NEAR(a.data<double>()[k], b.data<double>()[k], tolerance * (1 + std::fabs(b.data<double>()[k])));
  }
}

Program layers(DType dtype) {
  Builder b(dtype);
  Node* x = b.input({2, 3, 9});
  x = b.call("aten.conv1d.default", {x, b.weight({4, 3, 3}), b.weight({4})});
  x = b.call("aten.relu.default", {x});
  x = b.call("aten.clone.default", {x});
  return b.done({b.call("aten.conv1d.default", {x, b.weight({2, 4, 3})}), b.call("aten.celu.default", {x, 0.5})});
}

TEST(OnnxFloats, Bfloat16IsComputedInFloat32) {
  const Program program = layers(DType::kBF16);
  for (const auto& [op, types] : floats_by_operator(file_of(program)))
    for (const DType type : types) EXPECT_TRUE(type == DType::kF32 || op == "Cast") << op;
  // One cast of the input, three of weights, two of outputs: none between the layers.
  EXPECT_EQ(floats_by_operator(file_of(program)).at("Cast").size(), 6U);
  for (const auto& [name, tensor] : file_of(program).initializers)
    EXPECT_TRUE(tensor.dtype() == DType::kBF16 || tensor.numel() == 1) << name;
  expect_same(program, {ramp({2, 3, 9}, DType::kBF16)}, 2e-2);
}

TEST(OnnxFloats, OthersAreWhatTheyWereWhereTheOperatorTakesThem) {
  for (const DType dtype : {DType::kF16, DType::kF64}) {
    const auto types = floats_by_operator(file_of(layers(dtype)));
    for (const DType type : types.at("Conv")) EXPECT_EQ(type, dtype);
    EXPECT_EQ(types.at("Celu"), std::vector{DType::kF32});
    expect_same(layers(dtype), {ramp({2, 3, 9}, dtype)}, 2e-3);
  }
}

TEST(OnnxFloats, OfScatteredSumsAndDistancesAreFloat32) {
  Builder b(DType::kF16);
  Node* x = b.input({2, 4});
  Node* places = b.input({2, 3}, DType::kS64);
  Node* sum = b.call("aten.scatter_add.default", {x, 1, places, b.input({2, 3})});
  const Program program = b.done({sum, b.call("aten.cdist.default", {x, sum})});
  const auto types = floats_by_operator(file_of(program));
  for (const char* op : {"ScatterElements", "CDist"})
    for (const DType type : types.at(op)) EXPECT_EQ(type, DType::kF32) << op;
  expect_same(program,
              {ramp({2, 4}, DType::kF16), Tensor::of<int64_t>({2, 3}, {0, 2, 0, 3, 3, 1}), ramp({2, 3}, DType::kF16)},
              2e-3);
}

TEST(OnnxFloats, DynamicallyQuantizedBfloat16IsAnInteger) {
  Builder b(DType::kBF16);
  const std::string q = "quantized_decomposed.";
  Node* x = b.input({2, 3});
  Node* chosen = b.call(q + "choose_qparams.tensor", {x, -128, 127, 1e-7, DType::kS8});
  Node *scale = b.item(chosen, 0), *zero_point = b.item(chosen, 1);
  Node* integers = b.call(q + "quantize_per_tensor.tensor", {x, scale, zero_point, -128, 127, DType::kS8});
  const Program program =
      b.done({b.call(q + "dequantize_per_tensor.tensor", {integers, scale, zero_point, -128, 127, DType::kS8},
                     {{"out_dtype", DType::kBF16}})});
  EXPECT_EQ(floats_by_operator(file_of(program)).at("DynamicQuantizeLinear"), std::vector{DType::kF32});
}

// The reference representation computes with a scale of float64, DynamicQuantizeLinear gives float32.
TEST(OnnxFloats, QParamsThatAreComputedWithAreRefused) {
  Builder b(DType::kF32);
  Node* x = b.input({2, 3});
  Node* chosen = b.call("quantized_decomposed.choose_qparams.tensor", {x, -128, 127, 1e-7, DType::kS8});
  const Program program = b.done({b.call("aten.div.Tensor", {x, b.item(chosen, 0)})});
  try {
    save_onnx(program);
    ADD_FAILURE() << "nothing was refused";
  } catch (const Error& error) {
    EXPECT_NE(error.message.find("gives qparams that div"), std::string::npos) << error.message;
  }
}

TEST(OnnxFloats, WeightsOfRecurrentLayersAreFloat32) {
  Builder b(DType::kBF16);
  Node* x = b.input({5, 2, 3});
  Node* state = b.input({1, 2, 4});
  Node* all = b.call("aten.gru.input", {x, state, List{b.weight({12, 3}), b.weight({12, 4})}, false, int64_t{1}, 0.0,
                                        false, false, false});
  const Program program = b.done({b.item(all, 0)});
  const auto types = floats_by_operator(file_of(program));
  for (const DType type : types.at("GRU")) EXPECT_EQ(type, DType::kF32);
  expect_same(program, {ramp({5, 2, 3}, DType::kBF16), ramp({1, 2, 4}, DType::kBF16)}, 2e-2);
}

// A program for both branches.
Subprogram branch(const char* name, DType dtype) {
  Builder b(dtype);
  return std::make_shared<Program>(b.done({b.call(name, {b.input({2, 3})})}));
}

TEST(OnnxFloats, OfBranchesAreFloat32Too) {
  Builder b(DType::kBF16);
  Node* flag = b.input({}, DType::kBool);
  Node* all = b.call("higher_order.cond", {flag, branch("aten.sin.default", DType::kBF16),
                                           branch("aten.cos.default", DType::kBF16), List{b.input({2, 3})}});
  const Program program = b.done({b.item(all, 0)});
  int64_t branches = 0;
  for (const format::OnnxNode& node : file_of(program).nodes)
    for (const format::OnnxAttribute& attribute : node.attributes)
      for (const auto& graph : attribute.graphs) {
        ++branches;
        ASSERT_EQ(graph->nodes.size(), 4U);  // Cast, Sin or Cos, Cast, Identity
        EXPECT_EQ(graph->nodes[0].op_type, "Cast");
        EXPECT_EQ(graph->nodes[2].op_type, "Cast");
      }
  EXPECT_EQ(branches, 2);
  expect_same(program, {Tensor::full({}, DType::kBool, 1), ramp({2, 3}, DType::kBF16)}, 1e-2);
}

TEST(OnnxFloats, ComplexNumbersByLengthAndAngle) {
  Builder b(DType::kF32);
  Node* x = b.input({2, 3});
  Node* polar = b.call("aten.polar.default", {x, b.input({2, 3})});
  Node* pairs = b.call("aten.view_as_complex.default", {b.input({2, 2})});
  const Program program = b.done({b.call("aten.view_as_real.default", {polar}), b.call("aten.angle.default", {pairs})});
  const Tensor angles = Tensor::of<float>({2, 3}, {0, 1, -2, 3, -4, 5});
  for (const std::vector<float>& parts : {std::vector<float>{1, 2, -3, -4}, {-5, 0, 0, -6}})
    expect_same(program, {ramp({2, 3}, DType::kF32), angles, Tensor::of<float>({2, 2}, std::span(parts))}, 1e-6);
}

TEST(OnnxFloats, ComplexNumbersAreDivided) {
  Builder b(DType::kF32);
  Node *z = b.call("aten.view_as_complex.default", {b.input({3, 2})}),
       *w = b.call("aten.view_as_complex.default", {b.input({3, 2})}), *real = b.input({3});
  Argument::List outputs;
  for (const auto& [above, below] : {std::pair<Node*, Argument>{z, w}, {z, real}, {real, w}, {z, 4.0}})
    outputs.emplace_back(b.call("aten.view_as_real.default", {b.call("aten.div.Tensor", {above, below})}));
  const Program program = b.done(outputs);
  expect_same(program,
              {ramp({3, 2}, DType::kF32), Tensor::of<float>({3, 2}, {1, -2, 0, 3, -4, 0.5F}),
               Tensor::of<float>({3}, {-3, 0.25F, 2})},
              1e-6);
}

}  // namespace
}  // namespace qdq::onnx_floats_test
