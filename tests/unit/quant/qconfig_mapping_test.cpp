// QConfigs, mappings and what they make of a program. PyTorch's own numbers are in the conformance cases "fx".
#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "program_builder.h"
#include "quant/pt2e.h"
#include "quant/fx/qconfig_mapping_quantizer.h"
#include "quant/fx/module_name_regex.h"
#include "quant/fx/quantized_calls.h"

namespace qdq::qconfig_mapping_test {
namespace {

const std::string kLinear = "torch.nn.modules.linear.Linear";

TEST(ModuleNameRegex, MatchesAsPythonDoes) {
  struct Row {
    const char *regex, *text;
    bool matches;  // re.match(regex, text) is not None, in Python
  };
  for (const Row& row : std::initializer_list<Row>{{"", "a", true},
                                                   {"foo.*bar.*conv[0-9]+", "foo.x.bar.conv12", true},
                                                   {"foo.*bar.*conv[0-9]+", "foo.x.bar.conv", false},
                                                   {"a\\.fc", "a.fc", true},
                                                   {"a\\.fc", "axfc", false},
                                                   {"[ab]\\..*", "b.act", true},
                                                   {"[^ab]", "b", false},
                                                   {"layer(1|2)\\.\\d+$", "layer2.10", true},
                                                   {"layer(1|2)\\.\\d+$", "layer2.10.conv", false},
                                                   {"(?:ab)+c", "ababc", true},
                                                   {"(?:ab){2}c", "abc", false},
                                                   {"(?:ab){1,2}c", "ababc", true},
                                                   {"a{2,}b", "aaaab", true},
                                                   {"a.?c", "ac", true},
                                                   {"a.*?c$", "abcbc", true},
                                                   {"b", "ab", false},
                                                   {"^a", "a", true},
                                                   {"(a*)*b", "aaab", true},
                                                   {"[]x]y", "]y", true},
                                                   {"[a-c-]d", "-d", true},
                                                   {"\\w+\\W\\w", "ab.c", true},
                                                   {"a|b", "b", true}})
    EXPECT_EQ(matches_at_start(row.regex, row.text), row.matches) << row.regex << " " << row.text;
}

TEST(ModuleNameRegex, RefusesWhatItDoesNotKnow) {
  for (const char* regex : {"(", ")", "[a", "*", "a**", "(?=a)", "\\b", "a{x}", "[b-a]", "\\", "a{3,2}"})
    EXPECT_THROW(matches_at_start(regex, "a"), Error) << regex;
  EXPECT_THROW(matches_at_start("(a*)*(a*)*(a*)*(a*)*c", std::string(200, 'a')), Error);
}

TEST(QConfig, NamesAreThoseOfPyTorch) {
  const QConfig qconfig = named_qconfig("default_qconfig");
  EXPECT_EQ(qconfig.activation->class_name, "MinMaxObserver");
  EXPECT_EQ(qconfig.activation->settings().quant_max, 127);
  EXPECT_EQ(qconfig.weight->settings().qscheme, QScheme::kPerTensorSymmetric);
  EXPECT_EQ(quantized_dtype(qconfig.weight->settings()), "qint8");
  EXPECT_EQ(named_qconfig("default_symmetric_qnnpack_qconfig").activation->settings().eps, 0x1p-12);
  EXPECT_EQ(quantized_dtype(named_qconfig("float_qparams_weight_only_qconfig_4bit").weight->settings()), "quint4x2");
  EXPECT_TRUE(is_reuse_input(named_qconfig("default_reuse_input_qconfig")));
  EXPECT_THROW(named_qconfig("default_qconfig_v7"), Error);
  EXPECT_THROW(get_default_qconfig("tensorrt"), Error);
  EXPECT_THROW(get_default_qat_qconfig("x86", 2), Error);
  for (const std::string& name : named_qconfigs()) EXPECT_NO_THROW(named_qconfig(name).activation->settings()) << name;
}

TEST(QConfig, WrongArgumentsAreNamed) {
  EXPECT_THROW((ObserverWithArgs{"MinMaxObserver", {{"quantmax", int64_t{3}}}, nullptr}.settings()), Error);
  EXPECT_THROW((ObserverWithArgs{"MinMaxObserver", {{"quant_max", 0.5}}, nullptr}.settings()), Error);
}

TEST(QConfig, AComputeDTypeMeansDynamic) {
  const ObserverWithArgs older{
      "PlaceholderObserver", {{"dtype", std::string("quint8")}, {"compute_dtype", std::string("quint8")}}, nullptr};
  EXPECT_TRUE(older.settings().is_dynamic);
  EXPECT_THROW((ObserverWithArgs{"MinMaxObserver", {{"compute_dtype", std::string("quint8")}}, nullptr}.settings()),
               Error);
}

// a.fc -> relu -> b.fc -> F.linear -> F.linear, a ReLU module behind the first.
Program layers() {
  ProgramBuilder b;
  Node* wa = b.weight("a.fc.weight", {4, 4});
  Node* wb = b.weight("b.fc.weight", {4, 4});
  Node* w1 = b.weight("w1", {4, 4});
  Node* w2 = b.weight("w2", {4, 4});
  Node* x = b.input("x", {2, 4});
  Node* a = b.call("linear.default", {x, wa}, "a.fc", kLinear);
  Node* relu = b.call("relu.default", {a}, "a.act", "torch.nn.modules.activation.ReLU");
  Node* second = b.call("linear.default", {relu, wb}, "b.fc", kLinear);
  Node* third = b.call("linear.default", {second, w1}, "", "");
  Node* fourth = b.call("linear.default", {third, w2}, "", "");
  third->meta.source_fn_stack = {{"linear", "torch._C._nn.linear"}};
  fourth->meta.source_fn_stack = {{"linear_1", "torch._C._nn.linear"}};
  for (Node* node : {third, fourth}) node->meta.nn_module_stack = {{"L__self__", "", "net.Net"}};
  return b.finish({fourth});
}

// Node -> the class of its activation observers, of those calls that are observed.
std::map<std::string, std::string> observed(const QConfigMapping& mapping, Compat compat = Compat::kTorch26) {
  const Program program = layers();
  std::map<std::string, std::string> out;
  std::vector<std::string> unmatched;
  const PrepareCustomConfig custom;
  for (const QuantizedCall& call :
       quantized_calls(program, {mapping, get_backend_config("native"), custom, compat}, unmatched))
    if (call.is_observed()) out[call.traced.nodes[0]->name()] = call.effective->activation->class_name;
  return out;
}

TEST(QConfigMapping, TheMoreSpecialSettingHolds) {
  const OptionalQConfig min_max = named_qconfig("default_qconfig"), histogram = get_default_qconfig("x86"), none;
  QConfigMapping mapping;
  EXPECT_TRUE(observed(mapping).empty());
  mapping.set_global(min_max);
  EXPECT_EQ(observed(mapping).size(), 4u);
  // b.fc alone: a.fc is fused with its relu, and the class LinearReLU has no setting.
  mapping.set_object_type("torch.nn.Linear", none);
  EXPECT_EQ(observed(mapping).count("linear_1"), 0u);
  EXPECT_EQ(observed(mapping).count("linear"), 1u);
  EXPECT_EQ(observed(mapping, Compat::kNone).count("linear"), 0u);
  mapping.set_module_name_regex("b\\..*", histogram).set_module_name_regex("b", none);
  EXPECT_EQ(observed(mapping)["linear_1"], "HistogramObserver");
  mapping.set_module_name("b", min_max);
  EXPECT_EQ(observed(mapping)["linear_1"], "MinMaxObserver");
  mapping.set_module_name("b.fc", none);
  EXPECT_EQ(observed(mapping).count("linear_1"), 0u);
  mapping.set_object_type("torch.nn.functional.linear", histogram)
      .set_module_name_object_type_order("", "torch.nn.functional.linear", 1, min_max);
  EXPECT_EQ(observed(mapping)["linear_2"], "HistogramObserver");
  EXPECT_EQ(observed(mapping)["linear_3"], "MinMaxObserver");
  EXPECT_THROW(mapping.set_module_name_object_type_order("", "torch.add", -1, none), Error);
  EXPECT_THROW(mapping.set_module_name_regex("(", none), Error);
}

TEST(QConfigMapping, FusedLayersNeedOneSettingInPyTorch) {
  QConfigMapping mapping;
  mapping.set_object_type("torch.nn.Linear", named_qconfig("default_qconfig"));
  EXPECT_THROW(observed(mapping), Error);
  EXPECT_EQ(observed(mapping, Compat::kNone).size(), 2u);
  mapping.set_object_type("torch.nn.ReLU", named_qconfig("default_qconfig"));
  EXPECT_EQ(observed(mapping).size(), 2u);
}

TEST(QConfigMapping, TheBackendTakesItsOwnDTypesOnly) {
  QConfigMapping mapping;
  mapping.set_global(named_qconfig("default_symmetric_qnnpack_qconfig"));
  EXPECT_TRUE(observed(mapping).empty());
  mapping.set_global(named_qconfig("default_dynamic_qconfig"));
  EXPECT_EQ(observed(mapping).size(), 4u);
}

TEST(QConfigMapping, AValueIsObservedOnce) {
  ProgramBuilder b;
  Node* x = b.input("x", {2, 4});
  Node* sum = b.call("add.Tensor", {x, x});
  Node* scaled = b.call("mul.Tensor", {sum, 2.0});
  Node* joined = b.call("cat.default", {Argument(Argument::List{scaled, x}), 1});
  QConfigMappingQuantizer quantizer(get_default_qconfig_mapping("qnnpack"));
  Prepared prepared = prepare_pt2e(b.finish({joined}), quantizer);
  // x; the sum, which the scaled one shares; cat shares with it too, and takes x along.
  ASSERT_EQ(prepared.observers().size(), 1u);
  EXPECT_EQ(prepared.observers()[0].inserted_as.size(), 4u);
}

// Conv2d(padding_mode="reflect") exports as two operators.
TEST(QConfigMapping, AConvolutionThatPadsIsFused) {
  constexpr const char* kConv = "torch.nn.modules.conv.Conv2d";
  ProgramBuilder b;
  Node* x = b.input("x", {1, 3, 6, 6});
  Node* pad = b.call("pad.default", {x, Argument(Argument::List{1, 1, 1, 1}), "reflect"}, "conv", kConv);
  Node* conv = b.call("conv2d.default", {pad, b.weight("conv.weight", {4, 3, 3, 3})}, "conv", kConv);
  Node* relu = b.call("relu.default", {conv}, "act", "torch.nn.modules.activation.ReLU");
  QConfigMappingQuantizer quantizer(get_default_qconfig_mapping("x86"));
  const Prepared prepared = prepare_pt2e(b.finish({relu}), quantizer);
  std::set<std::string> observed;
  for (const ObserverGroup& group : prepared.observers())
    for (const std::string& name : group.inserted_as)
      observed.insert(prepared.program().graph->find(name)->arg(0).node()->name());
  EXPECT_EQ(observed, (std::set<std::string>{"x", "conv_weight", "relu"}));
}

// How many observers a model of one call gets, as PyTorch and by default.
std::pair<size_t, size_t> observers_of(const std::function<Node*(ProgramBuilder&, Node*)>& body,
                                       const QConfigMapping& mapping, const Shape& input = {2, 4}) {
  std::pair<size_t, size_t> out;
  for (const Compat compat : {Compat::kTorch26, Compat::kNone}) {
    ProgramBuilder b;
    Node* x = b.input("x", input);
    Node* y = body(b, x);
    QConfigMappingQuantizer quantizer(mapping, compat);
    (compat == Compat::kTorch26 ? out.first : out.second) = prepare_pt2e(b.finish({y}), quantizer).observers().size();
  }
  return out;
}

// What docs/compatibility.md lists.
TEST(QConfigMapping, DepartsFromPyTorchOnlyWhereItSaysSo) {
  using Counts = std::pair<size_t, size_t>;
  const QConfigMapping mapping = get_default_qconfig_mapping("x86");
  const auto linear = [](ProgramBuilder& b, Node* x) {
    return b.call("linear.default", {x, b.weight("fc.weight", {4, 4})}, "fc", kLinear);
  };
  const auto source = [](Node* node, const char* name) {
    node->meta.nn_module_stack = {{"L__self__", "", "net.Net"}};
    node->meta.source_fn_stack = {{node->name(), name}};
    return node;
  };
  // torch.relu is no pattern of the backend: the linear's own output is observed, by default that of the relu.
  EXPECT_EQ(observers_of([&](auto& b, Node* x) { return source(b.call("relu.default", {linear(b, x)}), "torch.relu"); },
                         mapping),
            Counts(3, 3));
  EXPECT_EQ(observers_of([&](auto& b, Node* x) { return source(b.call("relu.default", {x}), "torch.relu"); }, mapping),
            Counts(0, 1));
  // The input of a sigmoid gets the range of its output.
  EXPECT_EQ(
      observers_of([&](auto& b, Node* x) { return source(b.call("sigmoid.default", {x}), "torch.sigmoid"); }, mapping),
      Counts(2, 1));
  // The result of reshape passes for quantized.
  const auto reshaped = [&](auto& b, Node* x) {
    return linear(b, source(b.call("reshape.default", {x, Argument(Argument::List{2, 4})}), "reshape"));
  };
  EXPECT_EQ(observers_of(reshaped, mapping), Counts(2, 3));
  // That of a cosine is quantized as what the cosine is of.
  const auto reshaped_cosine = [&](auto& b, Node* x) {
    Node* cosine = source(b.call("cos.default", {source(b.call("add.Tensor", {x, x}), "_operator.add")}), "torch.cos");
    return reshaped(b, cosine);
  };
  EXPECT_EQ(observers_of(reshaped_cosine, mapping), Counts(4, 5));
  // Per channel, a transposed convolution is refused.
  const auto transposed = [&](auto& b, Node* x) {
    return b.call("conv_transpose2d.input", {x, b.weight("up.weight", {3, 2, 2, 2})}, "up",
                  "torch.nn.modules.conv.ConvTranspose2d");
  };
  EXPECT_EQ(observers_of(transposed, mapping, {1, 3, 4, 4}), Counts(3, 3));
  EXPECT_THROW(observers_of(transposed, get_default_qconfig_mapping("onednn"), {1, 3, 4, 4}), Error);
  ProgramBuilder b;
  Node* y = transposed(b, b.input("x", {1, 3, 4, 4}));
  QConfigMappingQuantizer quantizer(get_default_qconfig_mapping("onednn"));
  const Prepared prepared = prepare_pt2e(b.finish({y}), quantizer);
  EXPECT_TRUE(prepared.observers().empty());
  EXPECT_NE(prepared.annotations()
                .decisions(prepared.program().graph->find("conv_transpose2d"))
                .at(0)
                .reason.find("per tensor"),
            std::string::npos);
}

TEST(QConfigMapping, AFilterKeepsWholePatternsOut) {
  QConfigMappingQuantizer quantizer(get_default_qconfig_mapping("x86"));
  quantizer.set_filter_function([](const Node& node) { return !node.is("torch.ops.aten.relu.default"); });
  const Prepared prepared = prepare_pt2e(layers(), quantizer);
  for (const ObserverGroup& group : prepared.observers())
    for (const EdgeOrNode& at : group.covers)
      if (const Edge* edge = std::get_if<Edge>(&at)) {
        EXPECT_NE(edge->second->name(), "linear");
      }
  EXPECT_FALSE(prepared.observers().empty());
}

}  // namespace
}  // namespace qdq::qconfig_mapping_test
