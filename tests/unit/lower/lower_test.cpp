#include "lower/lower.h"
#include "lower/step_backend.h"
#include "op/op.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace qdq::lower_test {
namespace {

using testing::HasSubstr;

// A linear layer whose int8 weight is dequantized in the graph, as convert_pt2e leaves it.
Program quantized_linear() {
  Program program;
  Graph& graph = *program.graph;
  const Tensor weight = Tensor::of<int8_t>({3, 4}, {1, -2, 3, -4, 5, -6, 7, -8, 9, -10, 11, -12});
  program.add_attribute({"weight", weight, Attribute::Kind::kBuffer});
  program.add_attribute({"scale", Tensor::of<float>({3}, {0.5f, 0.25f, 0.125f}), Attribute::Kind::kBuffer});
  program.add_attribute({"zero_point", Tensor::of<int64_t>({3}, {0, 0, 0}), Attribute::Kind::kBuffer});
  Node* w = graph.get_attr("weight");
  Node* scale = graph.get_attr("scale");
  Node* zero_point = graph.get_attr("zero_point");
  w->meta.val.value = TensorMeta{DType::kS8, {3, 4}, {}, false};
  scale->meta.val.value = TensorMeta{DType::kF32, {3}, {}, false};
  zero_point->meta.val.value = TensorMeta{DType::kS64, {3}, {}, false};
  Node* x = graph.create(Node::Op::kPlaceholder, "x", {}, {}, "x");
  x->meta.val.value = TensorMeta{DType::kF32, {SymInt::symbol("s0"), 4}, {}, false};
  Node* dequantized = graph.call("torch.ops.quantized_decomposed.dequantize_per_channel.default",
                                 {w, scale, zero_point, 0, -127, 127, DType::kS8});
  Node* linear = graph.call("torch.ops.aten.linear.default", {x, dequantized}, {}, "linear");
  graph.create(Node::Op::kOutput, "output", {Argument(Argument::List{linear})});
  infer_shapes(program);
  return program;
}

TEST(Lower, ComputesConstantsOnce) {
  const Program program = quantized_linear();
  Session session = lower(program);
  for (const Node* node : session.program().graph->nodes())
    EXPECT_FALSE(node->is("torch.ops.quantized_decomposed.dequantize_per_channel.default"));
  EXPECT_EQ(session.program().find_attribute("weight"), nullptr);
  EXPECT_NE(program.find_attribute("weight"), nullptr);  // the program given is left alone
  const Tensor x = Tensor::of<float>({2, 4}, {1, 2, 3, 4, -1, 0, 1, 0});
  const std::vector<Tensor> out = session.run({{x}});
  EXPECT_TRUE(bitwise_equal(out[0], Tensor::of<float>({2, 3}, {-5, -4.5, -3.25, 1, 0.5, 0.25})));
}

TEST(Lower, EveryBackendGivesTheSameNumbers) {
  const Program program = quantized_linear();
  const Tensor x = Tensor::of<float>({1, 4}, {1, 2, 3, 4});
  for (const std::string_view name : backend_names()) {
    const std::vector<Tensor> out = lower(program, {{std::string(name)}}).run({{x}});
    EXPECT_TRUE(bitwise_equal(out[0], Tensor::of<float>({1, 3}, {-5, -4.5, -3.25}))) << name;
  }
}

// Found by the fuzzer: steps believed that open sizes fit, and read behind what there was.
TEST(Lower, RefusesInputsWhoseOpenSizesDoNotFitTheLayers) {
  Program program = quantized_linear();
  Node* x = program.graph->placeholders()[0];
  x->meta.val.value = TensorMeta{DType::kF32, {SymInt::symbol("s0"), SymInt::symbol("s1")}, {}, false};
  infer_shapes(program);
  Session session = lower(program);
  EXPECT_EQ(session.run({{Tensor::full({2, 4}, DType::kF32, 1)}})[0].sizes(), (Shape{2, 3}));
  for (const int64_t width : {3, 5}) {
    try {
      session.run({{Tensor::full({2, width}, DType::kF32, 1)}});
      FAIL() << width;
    } catch (const Error& error) {
      EXPECT_EQ(error.code, ErrorCode::kInvalidArgument) << error.message;
      EXPECT_EQ(error.node, "linear") << error.message;
    }
  }
  EXPECT_EQ(session.run({{Tensor::full({1, 4}, DType::kF32, 1)}})[0].sizes(), (Shape{1, 3}));
}

// A sum of no products is 0, plus the bias.
TEST(Lower, RunsLayersWithoutInputs) {
  Program program;
  Graph& graph = *program.graph;
  const auto constant = [&](const char* name, const Tensor& tensor) {
    Node* node = graph.get_attr(name, name);
    node->meta.val = {TensorMeta{DType::kF32, SymShape(tensor.sizes().begin(), tensor.sizes().end()), {}, false}};
    program.add_attribute({name, tensor, Attribute::Kind::kConstant, false, false});
    return node;
  };
  Node* weight = constant("weight", Tensor::empty({3, 0}, DType::kF32));
  Node* bias = constant("bias", Tensor::of<float>({3}, {1, 2, 3}));
  Node* x = graph.create(Node::Op::kPlaceholder, "x", {}, {}, "x");
  x->meta.val.value = TensorMeta{DType::kF32, {2, 0}, {}, false};
  Node* linear = graph.call("torch.ops.aten.linear.default", {x, weight, bias});
  Node* relu = graph.call("torch.ops.aten.relu.default", {linear});
  graph.create(Node::Op::kOutput, "output", {Argument(Argument::List{relu})});
  infer_shapes(program);
  for (const std::string_view name : backend_names())
    EXPECT_TRUE(bitwise_equal(lower(program, {{std::string(name)}}).run({{Tensor::empty({2, 0}, DType::kF32)}})[0],
                              Tensor::of<float>({2, 3}, {1, 2, 3, 1, 2, 3})))
        << name;
}

// The sizes of the graph say 1 where a run gives 2.
TEST(Lower, RefusesToJoinWhatDoesNotFit) {
  Program program;
  Graph& graph = *program.graph;
  Node* x = graph.create(Node::Op::kPlaceholder, "x", {}, {}, "x");
  Node* y = graph.create(Node::Op::kPlaceholder, "y", {}, {}, "y");
  x->meta.val.value = TensorMeta{DType::kF32, {SymInt::symbol("s0"), 3, 4}, {}, false};
  y->meta.val.value = TensorMeta{DType::kF32, {1, 2, 4}, {}, false};
  Node* integers =
      graph.call("torch.ops.quantized_decomposed.quantize_per_tensor.default", {x, 0.5, 0, 0, 255, DType::kU8});
  Node* floats = graph.call("torch.ops.quantized_decomposed.dequantize_per_tensor.default",
                            {integers, 0.5, 0, 0, 255, DType::kU8});
  Node* joined = graph.call("torch.ops.aten.cat.default", {Argument(Argument::List{floats, y}), 1});
  graph.create(Node::Op::kOutput, "output", {Argument(Argument::List{joined})});
  infer_shapes(program);
  const Tensor one = Tensor::full({1, 2, 4}, DType::kF32, 1);
  for (const std::string_view name : backend_names()) {
    SCOPED_TRACE(name);
    EXPECT_EQ(lower(program, {{std::string(name)}}).run({{Tensor::full({1, 3, 4}, DType::kF32, 1), one}})[0].sizes(),
              (Shape{1, 5, 4}));
    EXPECT_THROW(lower(program, {{std::string(name)}}).run({{Tensor::full({2, 3, 4}, DType::kF32, 1), one}}), Error);
  }
}

// Takes linear layers in f32 and gives minus their result; refuses all else.
class NegativeLinear : public StepBackend {
 public:
  class Step : public CompiledStep {
   public:
    explicit Step(std::unique_ptr<CompiledStep> inner, int64_t count) : inner_(std::move(inner)), count_(count) {}
    size_t scratch_bytes() const override { return inner_->scratch_bytes(); }
    void run(std::span<const std::byte* const> inputs, std::byte* output, std::byte* scratch) override {
      inner_->run(inputs, output, scratch);
      for (int64_t i = 0; i < count_; ++i) reinterpret_cast<float*>(output)[i] *= -1;
    }
    std::string description() const override { return "negative"; }

   private:
    std::unique_ptr<CompiledStep> inner_;
    int64_t count_;
  };
  std::string_view name() const override { return "negative"; }
  bool has(PlanStep::Kind kind) const override { return kind == PlanStep::Kind::kLinear; }
  bool has_floats() const override { return true; }
  std::variant<std::unique_ptr<CompiledStep>, std::string> compile(const Plan& plan, const PlanStep& step) override {
    if (step.kind() != PlanStep::Kind::kLinear) return "only linear layers";
    auto inner = std::get<std::unique_ptr<CompiledStep>>(make_reference_steps()->compile(plan, step));
    return std::make_unique<Step>(std::move(inner), numel_of(plan.buffers[step.output].sizes));
  }
};

TEST(Lower, AsksBackendsOfOnesOwnFirst) {
  const Program program = quantized_linear();
  const Tensor x = Tensor::of<float>({1, 4}, {1, 2, 3, 4});
  LowerOptions options{.backends = {"simd"}, .step_backends = {std::make_shared<NegativeLinear>()}};
  Session session = lower(program, options);
  EXPECT_TRUE(bitwise_equal(session.run({{x}})[0], Tensor::of<float>({1, 3}, {5, 4.5, 3.25})));
  ASSERT_EQ(session.plans().size(), 1u);
  bool is_placed = false;
  for (const Session::Placement& placement : session.placements())
    is_placed = is_placed || (placement.backend == "negative" && placement.description == "negative");
  EXPECT_TRUE(is_placed);
  options.step_backends = {nullptr};
  EXPECT_THROW(lower(program, options), Error);
}

TEST(Lower, NamesTheBackendsWhenOneIsUnknown) {
  try {
    lower(quantized_linear(), {{"cuda"}});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(error.message, HasSubstr("there is no backend 'cuda' in this build; it has "));
    EXPECT_THAT(error.message, HasSubstr("simd"));
  }
}

}  // namespace
}  // namespace qdq::lower_test
