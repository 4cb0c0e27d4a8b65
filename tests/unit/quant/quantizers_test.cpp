// The quantizers: what they annotate, with PyTorch's rules and with qdq's own.
#include <gtest/gtest.h>

#include "quant/quantizers/annotation_quantizer.h"
#include "quant/quantizers/composable_quantizer.h"
#include "quant/pt2e.h"
#include "quant/quantizers/x86_inductor_quantizer.h"
#include "quant/quantizers/xnnpack_quantizer.h"
#include "program_builder.h"

namespace qdq::quantizers_test {
namespace {

const std::string kConv2d = "torch.nn.modules.conv.Conv2d";
const std::string kRelu = "torch.nn.modules.activation.ReLU";

Annotations annotate(Program& program, Quantizer& quantizer) {
  Annotations annotations;
  quantizer.transform_for_annotation(program);
  quantizer.annotate(program, annotations);
  return annotations;
}

bool has_input_spec(const Annotations& annotations, const Program& program, const std::string& node) {
  const auto found = annotations.find(program.graph->find(node));
  if (found == annotations.end()) return false;
  for (const auto& [input, spec] : found->second.input_qspec_map)
    if (!std::holds_alternative<std::monostate>(spec)) return true;
  return false;
}
bool has_output_spec(const Annotations& annotations, const Program& program, const std::string& node) {
  const auto found = annotations.find(program.graph->find(node));
  return found != annotations.end() && !std::holds_alternative<std::monostate>(found->second.output_qspec);
}

// One convolution, called twice, a relu behind each.
Program shared_conv(const std::string& relu_source = kRelu) {
  ProgramBuilder b;
  Node* weight = b.weight("c.weight", {3, 3, 1, 1});
  Node* x = b.input("x", {1, 3, 4, 4});
  Node* first = b.call("conv2d.default", {x, weight}, "c", kConv2d);
  Node* relu = b.call("relu.default", {first}, "act", relu_source);
  Node* second = b.call("conv2d.default", {relu, weight}, "c", kConv2d);
  Node* last = b.call("relu.default", {second}, "act", relu_source);
  return b.finish({last});
}

TEST(XNNPACKQuantizer, ASecondCallOfAModule) {
  for (const Compat compat : {Compat::kTorch26, Compat::kNone}) {
    XNNPACKQuantizer quantizer(compat);
    quantizer.set_global(get_symmetric_quantization_config());
    Program program = shared_conv();
    const Annotations annotations = annotate(program, quantizer);
    EXPECT_TRUE(has_input_spec(annotations, program, "conv2d"));
    EXPECT_EQ(has_input_spec(annotations, program, "conv2d_1"), compat == Compat::kNone);
    EXPECT_FALSE(has_output_spec(annotations, program, "conv2d"));
    EXPECT_TRUE(has_output_spec(annotations, program, "relu"));
  }
}

// A GRU from zeros: PyTorch 2.6 asks for the input of its state, which it does not have, and fails.
TEST(XNNPACKQuantizer, AGruWithoutAGivenState) {
  const std::string gru_type = "torch.nn.modules.rnn.GRU";
  ProgramBuilder b;
  const Argument::List weights{b.weight("gru.weight_ih", {12, 3}), b.weight("gru.weight_hh", {12, 4})};
  Node* head = b.weight("head.weight", {2, 4});
  Node* x = b.input("x", {5, 2, 3});
  Node* zeros = b.call("zeros.default", {Argument(Argument::List{1, 2, 4})}, "gru", gru_type);
  Node* gru = b.call("gru.input", {x, zeros, weights, false, 1, 0.0, false, false, false}, "gru", gru_type);
  zeros->meta.source_fn_stack = gru->meta.source_fn_stack = {{"l__self___gru", gru_type}};  // one call of the module
  Node* result = gru->graph().call("operator.getitem", {gru, 0}, {}, "getitem");
  result->meta = gru->meta;
  Node* linear = b.call("linear.default", {result, head}, "head");
  Program program = b.finish({linear});
  XNNPACKQuantizer like_pytorch(Compat::kTorch26), quantizer;
  for (XNNPACKQuantizer* q : {&like_pytorch, &quantizer}) q->set_global(get_symmetric_quantization_config());
  Program other = program.clone();
  EXPECT_THROW(annotate(other, like_pytorch), Error);
  const Annotations annotations = annotate(program, quantizer);
  EXPECT_FALSE(has_input_spec(annotations, program, "gru"));
  EXPECT_TRUE(has_input_spec(annotations, program, "linear"));
}

// The places of the largest elements, which nobody reads, are gone where the model is trained.
TEST(XNNPACKQuantizer, RemovesWhatNobodyReadsForTraining) {
  for (const bool is_qat : {false, true}) {
    ProgramBuilder b;
    Node* largest = b.call("max.dim", {b.input("x", {2, 3, 4}), 1});
    Node* values = largest->graph().call("operator.getitem", {largest, 0}, {}, "values");
    largest->graph().call("operator.getitem", {largest, 1}, {}, "indices");
    Program program = b.finish({values});
    XNNPACKQuantizer quantizer;
    quantizer.set_global(get_symmetric_quantization_config({.is_qat = is_qat}));
    annotate(program, quantizer);
    EXPECT_EQ(program.graph->find("indices") == nullptr, is_qat);
  }
}

TEST(XNNPACKQuantizer, ModuleNamesReachConvolutions) {
  for (const Compat compat : {Compat::kTorch26, Compat::kNone}) {
    XNNPACKQuantizer quantizer(compat);
    quantizer.set_module_name("c", get_symmetric_quantization_config());
    Program program = shared_conv();
    const Annotations annotations = annotate(program, quantizer);
    EXPECT_EQ(has_input_spec(annotations, program, "conv2d"), compat == Compat::kNone);
    EXPECT_EQ(has_output_spec(annotations, program, "conv2d"), compat == Compat::kNone);
  }
  EXPECT_THROW(XNNPACKQuantizer(Compat::kTorch26).set_module_name("c", std::nullopt), Error);
}

TEST(XNNPACKQuantizer, NameBeforeTypeBeforeOperatorBeforeGlobal) {
  SymmetricConfigOptions options;
  const auto config = [&](int64_t qmax) {
    options.weight_qmax = qmax;
    return get_symmetric_quantization_config(options);
  };
  const auto weight_qmax = [](XNNPACKQuantizer& quantizer) {
    Program program = shared_conv();
    const Annotations annotations = annotate(program, quantizer);
    const auto& inputs = annotations.at(program.graph->find("conv2d")).input_qspec_map;
    return *std::get<QuantizationSpec>(inputs[1].second).quant_max;
  };
  XNNPACKQuantizer quantizer;
  quantizer.set_global(config(10));
  EXPECT_EQ(weight_qmax(quantizer), 10);
  quantizer.set_operator_type("torch.ops.aten.conv2d", config(20));
  EXPECT_EQ(weight_qmax(quantizer), 20);
  quantizer.set_module_type("torch.nn.Conv2d", config(30));
  EXPECT_EQ(weight_qmax(quantizer), 30);
  quantizer.set_module_name("c", config(40));
  EXPECT_EQ(weight_qmax(quantizer), 40);
}

TEST(XNNPACKQuantizer, TurnsNumbersIntoBuffersAndSkipsHugeOnes) {
  ProgramBuilder b;
  Node* x = b.input("x", {2});
  Node* sum = b.call("add.Tensor", {x, 1.5});
  Node* product = b.call("mul.Tensor", {sum, 1e16});
  Program program = b.finish({product});
  XNNPACKQuantizer quantizer;
  quantizer.set_global(get_symmetric_quantization_config());
  const Annotations annotations = annotate(program, quantizer);
  EXPECT_EQ(program.find_attribute("_tensor_constant_0")->tensor.item(), 1.5);
  EXPECT_TRUE(has_input_spec(annotations, program, "add"));
  EXPECT_FALSE(has_input_spec(annotations, program, "mul"));
}

X86InductorQuantizer x86(Compat compat, const X86InductorConfigOptions& options = {}) {
  X86InductorQuantizer quantizer(compat);
  quantizer.set_global(get_default_x86_inductor_quantization_config(options));
  return quantizer;
}

TEST(X86InductorQuantizer, FindsFunctionsAndNonStrictExportsUnlessPyTorchIsFollowed) {
  for (const std::string& relu : {kRelu, std::string("torch.relu"), std::string()}) {
    for (const Compat compat : {Compat::kTorch26, Compat::kNone}) {
      Program program = shared_conv(relu);
      X86InductorQuantizer quantizer = x86(compat);
      const Annotations annotations = annotate(program, quantizer);
      EXPECT_TRUE(has_input_spec(annotations, program, "conv2d"));
      const auto found = annotations.find(program.graph->find("relu"));
      EXPECT_EQ(found != annotations.end() && found->second.is_output_of_quantized_pattern,
                relu == kRelu || compat == Compat::kNone);
    }
  }
  Program program = shared_conv();
  for (Node* node : program.graph->nodes()) node->meta.source_fn_stack.clear();
  X86InductorQuantizer strict = x86(Compat::kTorch26), free = x86(Compat::kNone);
  EXPECT_TRUE(annotate(program, strict).empty());
  EXPECT_FALSE(annotate(program, free).empty());
}

TEST(X86InductorQuantizer, ObservesOutputsOnlyWhereAPoolKeepsThemInIntegers) {
  ProgramBuilder b;
  Node* weight = b.weight("c.weight", {3, 3, 1, 1});
  Node* x = b.input("x", {1, 3, 4, 4});
  Node* conv = b.call("conv2d.default", {x, weight}, "c", kConv2d);
  Node* pool = b.call("max_pool2d.default", {conv, Argument::List{2, 2}}, "p", "torch.nn.modules.pooling.MaxPool2d");
  Node* first = b.call("max_pool2d.default", {x, Argument::List{2, 2}}, "q", "torch.nn.modules.pooling.MaxPool2d");
  Program program = b.finish({pool, first});
  X86InductorQuantizer quantizer = x86(Compat::kNone);
  const Annotations annotations = annotate(program, quantizer);
  EXPECT_FALSE(has_output_spec(annotations, program, "conv2d"));
  EXPECT_TRUE(has_output_spec(annotations, program, "max_pool2d"));
  EXPECT_FALSE(has_input_spec(annotations, program, "max_pool2d_1"));
}

TEST(X86InductorQuantizer, TellsWhatItLeavesOut) {
  X86InductorQuantizer quantizer = x86(Compat::kNone);
  X86InductorConfigOptions dynamic;
  dynamic.is_dynamic = true;
  quantizer.set_module_name_qconfig("c", get_default_x86_inductor_quantization_config(dynamic));
  quantizer.set_function_type_qconfig("torch.nn.functional.softmax", get_default_x86_inductor_quantization_config());
  ASSERT_EQ(quantizer.warnings().size(), 2u);
  EXPECT_NE(quantizer.warnings()[0].find("static and dynamic"), std::string::npos);
  EXPECT_NE(quantizer.warnings()[1].find("torch.nn.functional.softmax"), std::string::npos);
}

TEST(EmbeddingQuantizer, QuantizesTheTableByRows) {
  ProgramBuilder b;
  Node* table = b.weight("e.weight", {10, 4});
  Node* index = b.input("i", {3});
  std::get<TensorMeta>(index->meta.val.value).dtype = DType::kS64;
  Node* rows = b.call("embedding.default", {table, index}, "e");
  EmbeddingQuantizer quantizer;
  Prepared prepared = prepare_pt2e(b.finish({rows}), quantizer);
  prepared.run({Tensor::of<int64_t>({3}, {0, 9, 4})});
  const Program converted = convert_pt2e(prepared);
  const Tensor& frozen = converted.find_attribute("_frozen_param0")->tensor;
  EXPECT_EQ(frozen.dtype(), DType::kU8);
  EXPECT_EQ(frozen.sizes(), (Shape{10, 4}));
  EXPECT_EQ(converted.find_attribute("_zero_point_0")->tensor.dtype(), DType::kF32);
}

// Replaces every annotation.
class Bully : public Quantizer {
 public:
  std::string_view name() const override { return "Bully"; }
  void annotate(Program& program, Annotations& annotations) override {
    for (Node* node : program.graph->nodes())
      if (annotations.count(node)) annotations[node] = QuantizationAnnotation();
  }
};

TEST(ComposableQuantizer, LaterQuantizersMayNotReplaceWhatEarlierOnesWrote) {
  const auto composed = [](std::unique_ptr<Quantizer> second) {
    std::vector<std::unique_ptr<Quantizer>> parts;
    parts.push_back(std::make_unique<XNNPACKQuantizer>(
        std::move(XNNPACKQuantizer().set_global(get_symmetric_quantization_config()))));
    parts.push_back(std::move(second));
    return ComposableQuantizer(std::move(parts));
  };
  Program program = shared_conv();
  ComposableQuantizer fine = composed(std::make_unique<EmbeddingQuantizer>());
  EXPECT_FALSE(annotate(program, fine).empty());
  ComposableQuantizer broken = composed(std::make_unique<Bully>());
  try {
    annotate(program, broken);
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_NE(error.message.find("Bully has changed the annotation"), std::string::npos) << error.message;
  }
}

TEST(AnnotationQuantizer, DerivesBiasQparams) {
  QuantizationSpec activation;
  activation.quant_min = -128;
  activation.quant_max = 127;
  activation.qscheme = QScheme::kPerTensorAffine;
  QuantizationSpec weight = activation;
  weight.qscheme = QScheme::kPerChannelSymmetric;
  weight.ch_axis = 0;
  weight.observer.class_name = "PerChannelMinMaxObserver";
  NamedDerivedSpec bias;
  bias.from = {{"x", "linear"}, {"fc_weight", "linear"}};
  bias.spec.rule = "product_of_scales";
  bias.spec.qscheme = QScheme::kPerChannelSymmetric;
  bias.spec.ch_axis = 0;
  NamedAnnotation annotation;
  annotation.node = "linear";
  annotation.inputs = {{"x", activation}, {"fc_weight", weight}, {"fc_bias", bias}};

  ProgramBuilder b;
  Node* w = b.weight("fc.weight", {3, 4});
  Node* bias_node = b.weight("fc.bias", {3});
  Node* x = b.input("x", {2, 4});
  Node* linear = b.call("linear.default", {x, w, bias_node}, "fc");
  AnnotationQuantizer quantizer({annotation});
  Prepared prepared = prepare_pt2e(b.finish({linear}), quantizer);
  prepared.run({sample({2, 4}, 1)});
  ASSERT_EQ(prepared.observers().size(), 3u);
  const std::vector<float> scale_x = prepared.observers()[0].observer->calculate_qparams().scale;
  const std::vector<float> scale_w = prepared.observers()[1].observer->calculate_qparams().scale;
  const std::vector<float> scale_b = prepared.observers()[2].observer->calculate_qparams().scale;
  ASSERT_EQ(scale_b.size(), 3u);
  for (size_t c = 0; c < 3; ++c) EXPECT_EQ(scale_b[c], scale_x[0] * scale_w[c]);
  EXPECT_EQ(convert_pt2e(prepared).find_attribute("_frozen_param1")->tensor.dtype(), DType::kS32);
}

TEST(AnnotationQuantizer, NamesTheMissingNode) {
  NamedAnnotation annotation;
  annotation.node = "conv2d_7";
  AnnotationQuantizer quantizer({annotation});
  Program program = shared_conv();
  try {
    annotate(program, quantizer);
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_NE(error.message.find("similar names: conv2d, conv2d_1"), std::string::npos) << error.message;
  }
  EXPECT_THROW(derive_rule("sum"), Error);
}

}  // namespace
}  // namespace qdq::quantizers_test
