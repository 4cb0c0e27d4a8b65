// explain(): every reason that it can give, from graphs in which that reason holds.
#include "quant/explain.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "exec/interpreter.h"
#include "graph/shown_module.h"
#include "quant/quantizers/annotation_quantizer.h"
#include "quant/quantizers/composable_quantizer.h"
#include "quant/quantizers/x86_inductor_quantizer.h"
#include "quant/quantizers/xnnpack_quantizer.h"
#include "program_builder.h"

namespace qdq::explain_test {
namespace {

using Outcome = Explanation::Outcome;

const std::string kConv2d = "torch.nn.modules.conv.Conv2d";
const std::string kRelu = "torch.nn.modules.activation.ReLU";

// x -> conv2d (a) -> relu (act) -> max_pool2d -> flatten -> linear (head) -> softmax
Program classifier(const std::string& relu_source = kRelu) {
  ProgramBuilder b;
  Node* weight = b.weight("a.weight", {3, 3, 1, 1});
  Node* bias = b.weight("a.bias", {3});
  Node* head = b.weight("head.weight", {5, 12});
  Node* x = b.input("x", {1, 3, 4, 4});
  Node* conv = b.call("conv2d.default", {x, weight, bias}, "a", kConv2d);
  Node* relu = b.call("relu.default", {conv}, "act", relu_source);
  Node* pool = b.call("max_pool2d.default", {relu, Argument::List{2, 2}}, "pool", "torch.nn.modules.pooling.MaxPool2d");
  Node* flat = b.call("flatten.using_ints", {pool, 1}, "", "torch.flatten");
  Node* linear = b.call("linear.default", {flat, head}, "head", "torch.nn.modules.linear.Linear");
  Node* softmax = b.call("softmax.int", {linear, 1});
  return b.finish({softmax});
}

XNNPACKQuantizer xnnpack(Compat compat = Compat::kNone, const SymmetricConfigOptions& options = {}) {
  XNNPACKQuantizer quantizer(compat);
  quantizer.set_global(get_symmetric_quantization_config(options));
  return quantizer;
}
X86InductorQuantizer x86(Compat compat = Compat::kNone) {
  X86InductorQuantizer quantizer(compat);
  quantizer.set_global(get_default_x86_inductor_quantization_config());
  return quantizer;
}

void expect_says(const Explanation& explanation, Outcome outcome, const std::string& pattern, const std::string& part) {
  EXPECT_EQ(to_string(explanation.outcome), to_string(outcome)) << explanation.node << ": " << explanation.reason;
  EXPECT_EQ(explanation.pattern, pattern) << explanation.node << ": " << explanation.reason;
  EXPECT_NE(explanation.reason.find(part), std::string::npos) << explanation.node << ": " << explanation.reason;
}
std::string becomes(const Explanation& explanation, const std::string& at) {
  for (const ExplainedTensor& tensor : explanation.tensors)
    if (to_string(tensor.at) == at) return tensor.becomes;
  return "no such tensor";
}

TEST(Explain, PatternsAndTheirMembers) {
  XNNPACKQuantizer quantizer = xnnpack(Compat::kNone, {.is_per_channel = true});
  const Prepared prepared = prepare_pt2e(classifier(), quantizer);
  const Explanation conv = explain(prepared, "conv2d"), relu = explain(prepared, "relu");
  expect_says(conv, Outcome::kQuantized, "conv_relu", "the global setting asks for it, together with relu");
  EXPECT_EQ(conv.quantizer, "XNNPACKQuantizer");
  EXPECT_EQ(conv.module, "a");
  EXPECT_EQ(conv.op, "aten.conv2d.default");
  EXPECT_EQ(becomes(conv, "(x, conv2d)"), "int8 [-128, 127] per_tensor_affine by HistogramObserver");
  EXPECT_EQ(becomes(conv, "(a_weight, conv2d)"),
            "int8 [-127, 127] per_channel_symmetric along axis 0 by PerChannelMinMaxObserver");
  EXPECT_EQ(becomes(conv, "(a_bias, conv2d)"), "float");
  EXPECT_EQ(becomes(conv, "conv2d"), "no such tensor");
  expect_says(relu, Outcome::kQuantized, "conv_relu", "computed together with conv2d");
  const Explanation pool = explain(prepared, "max_pool2d");
  expect_says(pool, Outcome::kQuantized, "propagation", "passes on the values of relu");
  EXPECT_NE(becomes(pool, "max_pool2d").find("shared with "), std::string::npos);
  expect_says(explain(prepared, "softmax"), Outcome::kFloat, "", "no pattern for aten.softmax.int");
  EXPECT_EQ(explain(prepared).size(), 6u);
  EXPECT_TRUE(find_conflicts(prepared).empty());
}

// The data is not to blame for a constant, such as a mask of numbers that no observer takes.
TEST(Calibration, NamesConstantsThatCannotBeObserved) {
  ProgramBuilder b;
  Node* x = b.input("x", {2, 3});
  Node* mask = b.parameter("mask", Tensor::full({2, 3}, DType::kF32, std::nan("")));
  Node* shown = b.call("expand.default", {mask, Argument::List{2, 3}});
  XNNPACKQuantizer quantizer = xnnpack();
  Prepared prepared = prepare_pt2e(b.finish({b.call("add.Tensor", {x, shown})}), quantizer);
  try {
    prepared.run({sample({2, 3}, 1)});
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("the values of expand, a constant of the model; leave it in float"),
              std::string::npos)
        << error.what();
  }
}

TEST(Explain, AWeightOfOneRowHasNoChannels) {
  ProgramBuilder b;
  Node* row = b.weight("row", {8});
  Node* linear = b.call("linear.default", {b.input("x", {2, 8}), row}, "head", "torch.nn.modules.linear.Linear");
  X86InductorQuantizer quantizer = x86();
  Prepared prepared = prepare_pt2e(b.finish({linear}), quantizer);
  expect_says(explain(prepared, "linear"), Outcome::kFloat, "", "its weight of shape [8] has no channels");
}

TEST(Explain, TheMiddleOfAPatternIsFused) {
  X86InductorQuantizer quantizer = x86();
  const Prepared prepared = prepare_pt2e(classifier(), quantizer);
  expect_says(explain(prepared, "conv2d"), Outcome::kQuantized, "conv2d_unary", "together with relu");
  expect_says(explain(prepared, "relu"), Outcome::kFused, "conv2d_unary", "computed together with conv2d");
  expect_says(explain(prepared, "flatten"), Outcome::kQuantized, "propagation", "passes on");
}

// Their weights are most of such a model, so the summary must not pass them over.
TEST(LeftInFloat, TellsOfRecurrentLayersAndEmbeddings) {
  ProgramBuilder b;
  Node* table = b.weight("table.weight", {9, 4});
  Node* input_weight = b.weight("rnn.weight_ih_l0", {5, 4});
  Node* hidden_weight = b.weight("rnn.weight_hh_l0", {5, 5});
  Node* head = b.weight("head.weight", {2, 5});
  Node* x = b.input("x", {3, 1, 4});
  Node* hidden = b.input("hidden", {1, 1, 5});
  Node* words = b.input("words", {3, 1}, DType::kS64);
  Node* embedded = b.call("embedding.default", {table, words}, "table", "torch.nn.modules.sparse.Embedding");
  Node* sum = b.call("add.Tensor", {x, embedded});
  Node* rnn = b.call("rnn_tanh.input",
                     {sum, hidden, Argument::List{input_weight, hidden_weight}, false, 1, 0.0, false, false, false});
  Node* rows = b.call("operator.getitem", {rnn, 0});
  Node* linear = b.call("linear.default", {rows, head}, "head", "torch.nn.modules.linear.Linear");
  const Program program = b.finish({linear});
  EXPECT_EQ(count_layers(program), 4);
  XNNPACKQuantizer quantizer = xnnpack(Compat::kNone, {.is_dynamic = true});
  const Prepared prepared = prepare_pt2e(program.clone(), quantizer);
  const std::vector<LeftInFloat> left = left_in_float(prepared, convert_pt2e(prepared));
  ASSERT_EQ(left.size(), 3U);
  EXPECT_EQ(left[0].op, "aten.embedding.default");
  EXPECT_EQ(left[1].op, "aten.add.Tensor");
  EXPECT_EQ(left[2].op, "aten.rnn_tanh.input");

  EmbeddingQuantizer tables;
  const Prepared with_tables = prepare_pt2e(program.clone(), tables);
  EXPECT_EQ(left_in_float(with_tables, convert_pt2e(with_tables)).size(), 3U);
}

// A recipe for weights alone reaches layers, not sums: not even those that are fused behind a layer.
TEST(LeftInFloat, SumsHaveNoWeights) {
  QuantizationConfig weights;
  weights.weight = get_symmetric_quantization_config().weight;
  ProgramBuilder b;
  Node* weight = b.weight("a.weight", {3, 3, 1, 1});
  Node* x = b.input("x", {1, 3, 4, 4});
  Node* conv = b.call("conv2d.default", {x, weight}, "a", kConv2d);
  const Program program = b.finish({b.call("add.Tensor", {conv, x})});
  XNNPACKQuantizer first;
  first.set_global(weights);
  X86InductorQuantizer second;
  second.set_global(weights);
  for (Quantizer* quantizer : std::initializer_list<Quantizer*>{&first, &second}) {
    const Prepared prepared = prepare_pt2e(program.clone(), *quantizer);
    const std::vector<LeftInFloat> left = left_in_float(prepared, convert_pt2e(prepared));
    ASSERT_EQ(left.size(), 1U);
    EXPECT_EQ(left[0].op, "aten.add.Tensor");
    EXPECT_NE(left[0].reason.find(quantizer == &first ? "for weights alone, and this operator has none" : "conv2d"),
              std::string::npos)
        << left[0].reason;
  }
}

TEST(Explain, SettingsThatSayNo) {
  XNNPACKQuantizer quantizer = xnnpack();
  quantizer.set_module_name("head", std::nullopt);
  const Prepared prepared = prepare_pt2e(classifier(), quantizer);
  expect_says(explain(prepared, "linear"), Outcome::kFloat, "", "the settings leave head in float");
  X86InductorQuantizer other = x86();
  other.set_module_type_qconfig("torch.nn.Linear", std::nullopt);
  const Prepared prepared_other = prepare_pt2e(classifier(), other);
  expect_says(explain(prepared_other, "linear"), Outcome::kFloat, "",
              "the setting for aten.linear.default leaves it in float");
  XNNPACKQuantizer only_head;
  only_head.set_module_name("head", get_symmetric_quantization_config());
  const Prepared one = prepare_pt2e(classifier(), only_head);
  expect_says(explain(one, "linear"), Outcome::kQuantized, "linear", "the setting for module head asks for it");
  expect_says(explain(one, "conv2d"), Outcome::kFloat, "", "no global setting, and none for this module or operator");
}

TEST(Explain, OperandsThatAreNotFloat) {
  ProgramBuilder b;
  Node* x = b.input("x", {2});
  std::get<TensorMeta>(x->meta.val.value).dtype = DType::kS64;
  Program program = b.finish({b.call("add.Tensor", {x, x})});
  XNNPACKQuantizer quantizer = xnnpack();
  const Prepared prepared = prepare_pt2e(std::move(program), quantizer);
  const Explanation add = explain(prepared, "add");
  EXPECT_EQ(add.outcome, Outcome::kFloat);
  EXPECT_NE(add.reason.find("its operand x is int64, and only float32 is quantized"), std::string::npos) << add.reason;
}

TEST(Explain, OperatorsOnFloat64StayAsTheyAre) {
  ProgramBuilder b;
  Node *x = b.input("x", {2, 3}), *weight = b.input("weight", {4, 3});
  for (Node* node : {x, weight}) std::get<TensorMeta>(node->meta.val.value).dtype = DType::kF64;
  Node* sum = b.call("add.Tensor", {b.call("linear.default", {x, weight}), 0.1});
  Program program = b.finish({sum});
  XNNPACKQuantizer quantizer = xnnpack();
  Prepared prepared = prepare_pt2e(std::move(program), quantizer);
  const Explanation linear = explain(prepared, "linear");
  EXPECT_EQ(linear.outcome, Outcome::kFloat);
  EXPECT_NE(linear.reason.find("is float64, and only float32 is quantized"), std::string::npos) << linear.reason;
  const auto ones = [](Shape sizes) { return Tensor::full(std::move(sizes), DType::kF64, 1); };
  const std::vector<Tensor> inputs{ones({2, 3}), ones({4, 3})};
  prepared.run(inputs);
  const Tensor out = Interpreter(convert_pt2e(prepared), {}).run(inputs)[0];
  EXPECT_EQ(out.dtype(), DType::kF64);
  EXPECT_EQ(out.data<double>()[0], 3.1);  // 0.1 keeps its digits
}

TEST(Explain, ListsOfIntegersStayAsTheyAre) {
  ProgramBuilder b;
  Node* x = b.input("x", {2});
  std::get<TensorMeta>(x->meta.val.value).dtype = DType::kS32;
  Program program = b.finish({b.call("cat.default", {Argument(Argument::List{x, x})})});
  XNNPACKQuantizer quantizer = xnnpack();
  const Explanation cat = explain(prepare_pt2e(std::move(program), quantizer), "cat");
  EXPECT_EQ(cat.outcome, Outcome::kFloat);
  EXPECT_NE(cat.reason.find("its operand x is int32, and only float32 is quantized"), std::string::npos) << cat.reason;
}

TEST(Explain, ResultsThatOthersReadAreNotFused) {
  ProgramBuilder b;
  Node* weight = b.weight("a.weight", {3, 3});
  Node* x = b.input("x", {1, 3});
  Node* linear = b.call("linear.default", {x, weight}, "a", "torch.nn.modules.linear.Linear");
  Node* relu = b.call("relu.default", {linear}, "act", kRelu);
  Program program = b.finish({linear, relu});
  X86InductorQuantizer quantizer = x86();
  const Prepared prepared = prepare_pt2e(program.clone(), quantizer);
  const Explanation alone = explain(prepared, "relu");
  EXPECT_EQ(alone.outcome, Outcome::kFloat);
  EXPECT_NE(alone.reason.find("others read linear too"), std::string::npos) << alone.reason;
  expect_says(explain(prepared, "linear"), Outcome::kQuantized, "linear", "the global setting");
}

TEST(Explain, QuantizationIsNotContinued) {
  ProgramBuilder b;
  Node* x = b.input("x", {1, 3, 4, 4});
  Program program =
      b.finish({b.call("max_pool2d.default", {x, Argument::List{2, 2}}, "pool", "torch.nn.modules.pooling.MaxPool2d")});
  X86InductorQuantizer quantizer = x86();
  const Prepared prepared = prepare_pt2e(program.clone(), quantizer);
  EXPECT_NE(explain(prepared, "max_pool2d").reason.find("its input x does not come from a quantized operator"),
            std::string::npos);
  XNNPACKQuantizer other = xnnpack();
  const Prepared also = prepare_pt2e(std::move(program), other);
  EXPECT_NE(explain(also, "max_pool2d").reason.find("the output of x is not quantized"), std::string::npos);
}

TEST(Explain, ThePlaceholderOfPyTorchIsNoModule) {
  Program program = classifier();
  const std::string none(kNoModule);
  program.graph->find("conv2d")->meta.nn_module_stack = {{none, none, none}};
  XNNPACKQuantizer quantizer = xnnpack();
  const Prepared prepared = prepare_pt2e(std::move(program), quantizer);
  EXPECT_EQ(explain(prepared, "conv2d").module, "");
  EXPECT_FALSE(explain(prepared, "conv2d").quantizer.empty());
}

TEST(Explain, WhatDecompositionsLeaveNamesTheRemedyUnderTheRulesOfPyTorch) {
  ProgramBuilder b;
  Node* addmm = b.call("addmm.default", {b.weight("bias", {5}), b.input("x", {2, 12}), b.weight("weight", {12, 5})});
  Program program = b.finish({b.call("softmax.int", {addmm, 1})});
  XNNPACKQuantizer quantizer(Compat::kTorch26);
  quantizer.set_global(get_symmetric_quantization_config());
  X86InductorQuantizer other(Compat::kTorch26);
  other.set_global(get_default_x86_inductor_quantization_config());
  const std::string remedy =
      "has no pattern for aten.addmm.default; without the rules of torch-2.6, one with a constant matrix counts as a "
      "linear layer";
  for (Quantizer* each : {static_cast<Quantizer*>(&quantizer), static_cast<Quantizer*>(&other)}) {
    const Prepared prepared = prepare_pt2e(program.clone(), *each);
    EXPECT_NE(explain(prepared, "addmm").reason.find(remedy), std::string::npos) << explain(prepared, "addmm").reason;
    EXPECT_EQ(explain(prepared, "softmax").reason.find("torch-2.6"), std::string::npos);
  }
}

TEST(Explain, AnotherQuantizerWasFirst) {
  const auto composed = [] {
    std::vector<std::unique_ptr<Quantizer>> parts;
    parts.push_back(std::make_unique<X86InductorQuantizer>(x86()));
    parts.push_back(std::make_unique<XNNPACKQuantizer>(xnnpack()));
    return ComposableQuantizer(std::move(parts));
  };
  ComposableQuantizer quantizer = composed();
  const Prepared prepared = prepare_pt2e(classifier(), quantizer);
  const Explanation conv = explain(prepared, "conv2d");
  EXPECT_EQ(conv.quantizer, "X86InductorQuantizer");
  ASSERT_EQ(conv.decisions.size(), 3u);  // taken; refused as conv_relu and as conv
  EXPECT_EQ(conv.decisions[2].quantizer, "XNNPACKQuantizer");
  EXPECT_EQ(conv.decisions[2].reason, "it is already annotated by X86InductorQuantizer conv2d_unary");
  const Explanation softmax = explain(prepared, "softmax");
  EXPECT_TRUE(softmax.quantizer.empty());
  EXPECT_EQ(
      softmax.reason,
      "X86InductorQuantizer has no pattern for aten.softmax.int; XNNPACKQuantizer has no pattern for aten.softmax.int");
}

TEST(Explain, DynamicQuantization) {
  XNNPACKQuantizer quantizer = xnnpack(Compat::kNone, {.is_dynamic = true});
  const Prepared prepared = prepare_pt2e(classifier(), quantizer);
  const Explanation linear = explain(prepared, "linear");
  expect_says(linear, Outcome::kQuantized, "linear", "with qparams chosen at run time");
  EXPECT_EQ(becomes(linear, "(flatten, linear)"), "int8 [-128, 127] per_tensor_affine, qparams chosen at run time");
  expect_says(explain(prepared, "conv2d"), Outcome::kFloat, "", "quantizes only linear dynamically");
}

TEST(Explain, WhatPyTorchDoesNotFind) {
  X86InductorQuantizer functional = x86(Compat::kTorch26);
  const Prepared prepared = prepare_pt2e(classifier("torch.relu"), functional);
  expect_says(explain(prepared, "relu"), Outcome::kFloat, "",
              "no pattern for its recorded source torch.relu; without compat torch-2.6 it is found");
  expect_says(explain(prepared, "conv2d"), Outcome::kQuantized, "conv2d", "the global setting");
  Program non_strict = classifier();
  for (Node* node : non_strict.graph->nodes()) node->meta.source_fn_stack.clear();
  X86InductorQuantizer blind = x86(Compat::kTorch26);
  const Prepared unseen = prepare_pt2e(std::move(non_strict), blind);
  expect_says(explain(unseen, "conv2d"), Outcome::kFloat, "", "(non-strict)");

  XNNPACKQuantizer named(Compat::kTorch26);
  named.set_module_name("a", get_symmetric_quantization_config());
  const Prepared by_name = prepare_pt2e(classifier(), named);
  expect_says(explain(by_name, "conv2d"), Outcome::kFloat, "",
              "does not reach its parameter a_weight, which belongs to no module");
}

// What quantizers do stands in what they say they can do.
TEST(Capabilities, CoverEveryDecision) {
  const auto check = [](Quantizer& quantizer, bool PatternCapability::* mode) {
    const QuantizationCapabilities capabilities = quantizer.quantization_capabilities();
    EXPECT_EQ(capabilities.quantizer, quantizer.name());
    const Prepared prepared = prepare_pt2e(classifier(), quantizer);
    size_t taken = 0;
    for (const Explanation& explanation : explain(prepared)) {
      if (explanation.outcome == Outcome::kFloat) continue;
      ++taken;
      const auto found = std::find_if(capabilities.patterns.begin(), capabilities.patterns.end(),
                                      [&](const PatternCapability& c) { return c.pattern == explanation.pattern; });
      ASSERT_NE(found, capabilities.patterns.end()) << explanation.pattern;
      EXPECT_TRUE((*found).*mode) << explanation.pattern;
      const bool listed = std::any_of(
          found->operators.begin(), found->operators.end(), [&](const std::vector<std::string>& alternatives) {
            return std::find(alternatives.begin(), alternatives.end(), explanation.op) != alternatives.end();
          });
      EXPECT_TRUE(listed) << explanation.op << " is not listed for " << explanation.pattern;
    }
    EXPECT_GT(taken, 0u);
  };
  XNNPACKQuantizer quantizer = xnnpack(), dynamic = xnnpack(Compat::kNone, {.is_dynamic = true});
  check(quantizer, &PatternCapability::static_quantization);
  check(dynamic, &PatternCapability::dynamic_quantization);
  X86InductorQuantizer server = x86(), dynamic_server;
  dynamic_server.set_global(get_default_x86_inductor_quantization_config({.is_dynamic = true}));
  check(server, &PatternCapability::static_quantization);
  check(dynamic_server, &PatternCapability::dynamic_quantization);
}

TEST(Explain, QuantizersThatSayNothing) {
  class Silent : public Quantizer {
   public:
    std::string_view name() const override { return "Silent"; }
    void annotate(Program& program, Annotations& annotations) override {
      QuantizationSpec spec;
      annotations[program.graph->find("linear")].output_qspec = spec;
    }
  };
  Silent quantizer;
  const Prepared prepared = prepare_pt2e(classifier(), quantizer);
  expect_says(explain(prepared, "linear"), Outcome::kQuantized, "", "Silent annotated it");
  expect_says(explain(prepared, "conv2d"), Outcome::kFloat, "", "Silent did not annotate it");
  try {
    explain(prepared, "conv2d_9");
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_NE(error.message.find("there is no operator conv2d_9"), std::string::npos);
  }
}

TEST(Explain, ATensorThatIsQuantizedTwice) {
  QuantizationSpec wide, narrow;
  wide.dtype = DType::kU8;
  narrow.dtype = DType::kS8;
  NamedAnnotation producer{"relu", {}, wide}, consumer{"max_pool2d", {{"relu", narrow}}, {}};
  AnnotationQuantizer quantizer({producer, consumer});
  const Prepared prepared = prepare_pt2e(classifier(), quantizer);
  const auto conflicts = find_conflicts(prepared);
  ASSERT_EQ(conflicts.size(), 1u);
  EXPECT_EQ(to_string(conflicts[0].edge), "(relu, max_pool2d)");
  EXPECT_EQ(conflicts[0].message,
            "AnnotationQuantizer gives relu as uint8 [0, 255] per_tensor_affine by MinMaxObserver, but "
            "AnnotationQuantizer takes it in max_pool2d "
            "as int8 [-128, 127] per_tensor_affine by MinMaxObserver, so it is quantized twice");
}

}  // namespace
}  // namespace qdq::explain_test
