// Every kind of configuration, through prepare, convert and run: what is quantized, with which numbers, and what comes
// out.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "exec/interpreter.h"
#include "program_builder.h"
#include "quant/quantizers/annotation_quantizer.h"
#include "quant/quantizers/composable_quantizer.h"
#include "quant/explain.h"
#include "quant/quantizers/x86_inductor_quantizer.h"
#include "quant/quantizers/xnnpack_quantizer.h"
#include "unit/format/expect_error.h"

namespace qdq::configuration_test {
namespace {

const std::string kLinear = "torch.nn.modules.linear.Linear";

// x [2, 4] -> linear (outer.inner) -> linear (head), from modules of the types Outer and Linear.
Program two_linears() {
  ProgramBuilder b;
  Node* first = b.weight("outer.inner.weight", {3, 4});
  Node* second = b.weight("head.weight", {5, 3});
  Node* x = b.input("x", {2, 4});
  Node* inner = b.call("linear.default", {x, first}, "outer.inner", kLinear);
  inner->meta.nn_module_stack = {{"L__self__", "", "Net"}, {"o", "outer", "my.Outer"}, {"i", "outer.inner", kLinear}};
  Node* head = b.call("linear.default", {inner, second}, "head", kLinear);
  return b.finish({head});
}

struct Flow {
  Prepared prepared;
  Program converted;
  Tensor output;
};
Flow flow(Program program, Quantizer& quantizer, const Tensor& x) {
  Prepared prepared = prepare_pt2e(std::move(program), quantizer);
  prepared.run({x});
  Program converted = convert_pt2e(prepared);
  const auto backend = make_simd_ops();
  Tensor output = Interpreter(converted, {backend.get()}).run(std::vector<Tensor>{x})[0];
  return {std::move(prepared), std::move(converted), std::move(output)};
}

// The operators that compute on dequantized weights.
std::vector<std::string> quantized(const Program& converted) {
  std::vector<std::string> out;
  for (const Node* node : converted.graph->nodes())
    if (node->is("torch.ops.aten.linear.default") &&
        node->arg(1).node()->target().find("dequantize") != std::string::npos)
      out.push_back(node->name());
  return out;
}
using Names = std::vector<std::string>;

// The numbers of a tensor as quantization along an axis leaves them, computed plainly; axis -1: one scale for all.
struct Plain {
  bool symmetric;
  int64_t low, high;
  std::vector<float> operator()(const Tensor& tensor, int64_t axis) const {
    const auto values = tensor.span<float>();
    int64_t inner = 1, channels = axis < 0 ? 1 : tensor.size(axis);
    for (int64_t i = axis + 1; axis >= 0 && i < tensor.dim(); ++i) inner *= tensor.size(i);
    const auto channel = [&](size_t i) {
      return axis < 0 ? 0 : static_cast<size_t>(static_cast<int64_t>(i) / inner % channels);
    };
    std::vector<float> least(static_cast<size_t>(channels), 0), most(static_cast<size_t>(channels), 0), out;
    for (size_t i = 0; i < values.size(); ++i) {
      least[channel(i)] = std::min(least[channel(i)], values[i]);
      most[channel(i)] = std::max(most[channel(i)], values[i]);
    }
    for (size_t i = 0; i < values.size(); ++i) {
      const float a = least[channel(i)], b = most[channel(i)], range = static_cast<float>(high - low);
      const float scale = symmetric ? std::max(-a, b) / (range / 2) : (b - a) / range;
      const auto bounded = [&](float value) {
        return std::clamp(value, static_cast<float>(low), static_cast<float>(high));
      };
      const float zero = symmetric ? 0.0f : bounded(static_cast<float>(low) - std::nearbyint(a / scale));
      const float q = bounded(std::nearbyint(values[i] * (1.0f / scale)) + zero);
      out.push_back((q - zero) * scale);
    }
    return out;
  }
};

QuantizationSpec spec(DType dtype, std::optional<int64_t> low, std::optional<int64_t> high, QScheme qscheme,
                      const char* observer = "MinMaxObserver") {
  QuantizationSpec out;
  out.dtype = dtype;
  out.quant_min = low;
  out.quant_max = high;
  out.qscheme = qscheme;
  out.observer.class_name = observer;
  return out;
}

// x [2, 4] -> linear with weight [3, 4].
Program one_linear(Tensor* weight = nullptr) {
  ProgramBuilder b;
  Node* w = b.weight("fc.weight", {3, 4});
  Node* x = b.input("x", {2, 4});
  Program program = b.finish({b.call("linear.default", {x, w}, "fc", kLinear)});
  if (weight) *weight = program.attribute_of(*w);
  return program;
}

void expect_product(const Tensor& output, const std::vector<float>& x, const std::vector<float>& w) {
  ASSERT_EQ(output.sizes(), (Shape{2, 3}));
  for (size_t n = 0; n < 2; ++n)
    for (size_t o = 0; o < 3; ++o) {
      float sum = 0;
      for (size_t k = 0; k < 4; ++k) sum += x[n * 4 + k] * w[o * 4 + k];
      EXPECT_NEAR(output.span<float>()[n * 3 + o], sum, 1e-5) << n << ", " << o;
    }
}

TEST(Specs, EveryIntegerRange) {
  struct Case {
    DType dtype;
    int64_t low, high;
    QScheme qscheme;
  };
  const QScheme affine = QScheme::kPerTensorAffine, symmetric = QScheme::kPerTensorSymmetric;
  for (const Case& c :
       {Case{DType::kS8, -128, 127, affine}, Case{DType::kS8, -127, 127, symmetric}, Case{DType::kU8, 0, 255, affine},
        Case{DType::kU8, 0, 127, affine}, Case{DType::kS16, -32768, 32767, affine},
        Case{DType::kS16, -32767, 32767, symmetric}, Case{DType::kS8, -8, 7, affine},
        Case{DType::kS8, -8, 7, symmetric}, Case{DType::kU8, 0, 15, affine}}) {
    Tensor weight;
    Program program = one_linear(&weight);
    XNNPACKQuantizer quantizer;
    QuantizationConfig config;
    config.input_activation = spec(c.dtype, c.low, c.high, c.qscheme);
    config.weight = spec(c.dtype, c.low, c.high, c.qscheme);
    quantizer.set_global(config);
    const Tensor x = sample({2, 4}, 3);
    const Flow result = flow(std::move(program), quantizer, x);
    const Plain plain{c.qscheme == symmetric, c.low, c.high};
    expect_product(result.output, plain(x, -1), plain(weight, -1));
    const Tensor& frozen = result.converted.find_attribute("_frozen_param0")->tensor;
    EXPECT_EQ(frozen.dtype(), c.dtype);
    const Node* dequantize = result.converted.graph->find("linear")->arg(0).node();
    EXPECT_EQ(dequantize->arg(3), Argument(c.low));
    EXPECT_EQ(dequantize->arg(4), Argument(c.high));
  }
}

TEST(Specs, PerChannelAlongAnyAxis) {
  for (const int64_t axis : {0, 1, -1, -2}) {
    Tensor weight;
    Program program = one_linear(&weight);
    QuantizationConfig config;
    config.weight = spec(DType::kS8, -127, 127, QScheme::kPerChannelSymmetric, "PerChannelMinMaxObserver");
    config.weight->ch_axis = axis;
    XNNPACKQuantizer quantizer;
    quantizer.set_global(config);
    const Tensor x = sample({2, 4}, 4);
    const Flow result = flow(std::move(program), quantizer, x);
    const int64_t from_front = axis < 0 ? axis + 2 : axis;
    const Plain plain{true, -127, 127};
    expect_product(result.output, {x.span<float>().begin(), x.span<float>().end()}, plain(weight, from_front));
    const Node* dequantize = result.converted.graph->find("linear")->arg(1).node();
    EXPECT_EQ(dequantize->arg(3), Argument(from_front));
    EXPECT_EQ(result.converted.attribute_of(*dequantize->arg(1).node()).sizes(), (Shape{weight.size(from_front)}));
  }
}

TEST(Specs, ActivationsPerChannelFromTheEnd) {
  Tensor weight;
  Program program = one_linear(&weight);
  QuantizationConfig config;
  config.input_activation = spec(DType::kU8, 0, 255, QScheme::kPerChannelAffine, "PerChannelMinMaxObserver");
  config.input_activation->ch_axis = -1;
  XNNPACKQuantizer quantizer;
  quantizer.set_global(config);
  const Tensor x = sample({2, 4}, 5);
  const Flow result = flow(std::move(program), quantizer, x);
  expect_product(result.output, Plain{false, 0, 255}(x, 1), {weight.span<float>().begin(), weight.span<float>().end()});
}

TEST(Specs, AxesThatATensorDoesNotHaveAreRefused) {
  const char* ranks = "fc_weight has 2 axes";
  for (const auto& [axis, compat, part] : {std::tuple(-3, Compat::kNone, ranks), std::tuple(2, Compat::kNone, ranks),
                                           std::tuple(-1, Compat::kTorch26, "PyTorch 2.6 refuses")}) {
    QuantizationConfig config;
    config.weight = spec(DType::kS8, -127, 127, QScheme::kPerChannelSymmetric, "PerChannelMinMaxObserver");
    config.weight->ch_axis = axis;
    XNNPACKQuantizer quantizer(compat);
    quantizer.set_global(config);
    try {
      prepare_pt2e(one_linear(), quantizer);
      FAIL() << "axis " << axis << " was accepted";
    } catch (const Error& error) {
      EXPECT_NE(error.message.find("(fc_weight, linear) has ch_axis " + std::to_string(axis)), std::string::npos)
          << error.message;
      EXPECT_NE(error.message.find(part), std::string::npos) << error.message;
    }
  }
}

TEST(Specs, ReduceRange) {
  Tensor weight;
  Program program = one_linear(&weight);
  QuantizationConfig config;
  config.input_activation = spec(DType::kU8, {}, {}, QScheme::kPerTensorAffine);
  config.input_activation->observer.reduce_range = true;
  XNNPACKQuantizer quantizer;
  quantizer.set_global(config);
  const Tensor x = sample({2, 4}, 6);
  const Flow result = flow(std::move(program), quantizer, x);
  EXPECT_EQ(result.prepared.observers()[0].observer->quant_max(), 127);
  expect_product(result.output, Plain{false, 0, 127}(x, -1),
                 {weight.span<float>().begin(), weight.span<float>().end()});

  X86InductorQuantizer server;
  server.set_global(get_default_x86_inductor_quantization_config({.reduce_range = true}));
  const Flow reduced = flow(one_linear(), server, x);
  EXPECT_EQ(reduced.converted.graph->find("linear")->arg(0).node()->arg(4), Argument(127));
}

// Takes a quarter of the largest value for the limit.
class Quarter : public Observer {
 public:
  explicit Quarter(ObserverArgs args) : Observer(std::move(args)) {
    quant_min_ = -127;
    quant_max_ = 127;
  }
  std::string_view class_name() const override { return "Quarter"; }
  Tensor forward(const Tensor& x) override {
    const Tensor flat = x.contiguous();
    for (const float value : flat.span<float>()) most_ = std::max(most_, std::fabs(value));
    return x;
  }
  QParams calculate_qparams() const override { return {{most_ / 4 / 127}, {0}, {}}; }

 private:
  float most_ = 0;
};

TEST(Specs, CustomObservers) {
  Tensor weight;
  Program program = one_linear(&weight);
  QuantizationConfig config;
  config.input_activation = QuantizationSpec();
  config.input_activation->observer.custom = [](const ObserverArgs& args) { return std::make_shared<Quarter>(args); };
  XNNPACKQuantizer quantizer;
  quantizer.set_global(config);
  const Tensor x = sample({2, 4}, 7);
  const Flow result = flow(std::move(program), quantizer, x);
  float most = 0;
  for (const float value : x.span<float>()) most = std::max(most, std::fabs(value));
  std::vector<float> clipped;
  for (const float value : x.span<float>()) {
    const float scale = most / 4 / 127;
    clipped.push_back(std::clamp(std::nearbyint(value * (1.0f / scale)), -127.0f, 127.0f) * scale);
  }
  expect_product(result.output, clipped, {weight.span<float>().begin(), weight.span<float>().end()});
}

TEST(Settings, OfNestedModulesTheInnermostHoldsInAnyOrder) {
  const Tensor x = sample({2, 4}, 8);
  const auto config = get_symmetric_quantization_config();
  for (const bool inner_first : {false, true}) {
    XNNPACKQuantizer quantizer;
    quantizer.set_global(config);
    if (inner_first) quantizer.set_module_name("outer.inner", std::nullopt).set_module_name("outer", config);
    else quantizer.set_module_name("outer", config).set_module_name("outer.inner", std::nullopt);
    EXPECT_EQ(quantized(flow(two_linears(), quantizer, x).converted), (Names{"linear_1"}));
    const auto server_config = get_default_x86_inductor_quantization_config();
    X86InductorQuantizer server;
    if (inner_first)
      server.set_module_name_qconfig("outer.inner", std::nullopt).set_module_name_qconfig("outer", server_config);
    else server.set_module_name_qconfig("outer", server_config).set_module_name_qconfig("outer.inner", std::nullopt);
    server.set_global(server_config);
    EXPECT_EQ(quantized(flow(two_linears(), server, x).converted), (Names{"linear_1"}));
  }
}

TEST(Settings, EveryKindOfKey) {
  const Tensor x = sample({2, 4}, 9);
  const auto config = get_symmetric_quantization_config();
  const auto taken = [&](const std::function<void(XNNPACKQuantizer&)>& set) {
    XNNPACKQuantizer quantizer;
    set(quantizer);
    return quantized(flow(two_linears(), quantizer, x).converted);
  };
  EXPECT_EQ(taken([&](auto& q) { q.set_global(config); }), (Names{"linear", "linear_1"}));
  EXPECT_EQ(taken([&](auto& q) { q.set_module_name("outer", config); }), (Names{"linear"}));
  EXPECT_EQ(taken([&](auto& q) { q.set_module_type("my.Outer", config); }), (Names{"linear"}));
  EXPECT_EQ(taken([&](auto& q) { q.set_module_type("torch.nn.Linear", config); }), (Names{"linear", "linear_1"}));
  for (const char* name : {"torch.ops.aten.linear", "torch.ops.aten.linear.default", "torch.nn.functional.linear"})
    EXPECT_EQ(taken([&](auto& q) { q.set_operator_type(name, config); }), (Names{"linear", "linear_1"})) << name;
  EXPECT_EQ(taken([&](auto& q) { q.set_global(config).set_operator_type("torch.ops.aten.linear", {}); }), (Names{}));
  EXPECT_EQ(taken([&](auto& q) { q.set_global(config).set_module_type("my.Outer", {}); }), (Names{"linear_1"}));
  EXPECT_EQ(taken([&](auto& q) { q.set_module_type("my.Outer", config).set_module_type("torch.nn.Linear", {}); }),
            (Names{}));
  EXPECT_EQ(taken([&](auto& q) { q.set_global(config).set_module_name("head", {}); }), (Names{"linear"}));

  const auto server_config = get_default_x86_inductor_quantization_config();
  const auto taken_x86 = [&](const std::function<void(X86InductorQuantizer&)>& set) {
    X86InductorQuantizer quantizer;
    set(quantizer);
    return quantized(flow(two_linears(), quantizer, x).converted);
  };
  EXPECT_EQ(taken_x86([&](auto& q) { q.set_function_type_qconfig("torch.nn.functional.linear", server_config); }),
            (Names{"linear", "linear_1"}));
  EXPECT_EQ(taken_x86([&](auto& q) { q.set_module_type_qconfig("torch.nn.Linear", server_config); }),
            (Names{"linear", "linear_1"}));
  EXPECT_EQ(taken_x86([&](auto& q) { q.set_global(server_config).set_module_name_qconfig("head", {}); }),
            (Names{"linear"}));
  EXPECT_EQ(taken_x86([&](auto& q) { q.set_module_name_qconfig("head", server_config); }), (Names{"linear_1"}));
}

TEST(Settings, FilterFunctions) {
  const Tensor x = sample({2, 4}, 10);
  const NodeFilter not_the_head = [](const Node& node) { return node.name() != "linear_1"; };
  XNNPACKQuantizer quantizer;
  quantizer.set_global(get_symmetric_quantization_config()).set_filter_function(not_the_head);
  const Flow result = flow(two_linears(), quantizer, x);
  EXPECT_EQ(quantized(result.converted), (Names{"linear"}));
  EXPECT_EQ(explain(result.prepared, "linear_1").reason, "the filter function refuses it");
  X86InductorQuantizer server;
  server.set_global(get_default_x86_inductor_quantization_config()).set_filter_function(not_the_head);
  const Flow of_server = flow(two_linears(), server, x);
  EXPECT_EQ(quantized(of_server.converted), (Names{"linear"}));
  EXPECT_EQ(explain(of_server.prepared, "linear_1").reason, "the filter function refuses it");
}

TEST(ObserverOverrides, ReachAllThatShareTheObserver) {
  XNNPACKQuantizer quantizer;
  QuantizationConfig config;
  config.input_activation = config.output_activation = spec(DType::kS8, -128, 127, QScheme::kPerTensorAffine);
  quantizer.set_global(config);
  quantizer.set_observer_overrides(
      {{{"x", "linear"}, {{"quant_min", int64_t{-8}}, {"quant_max", int64_t{7}}}}, {{"linear", ""}, {{"eps", 0.5}}}});
  Tensor weight;
  const Tensor x = sample({2, 4}, 11);
  const Flow result = flow(two_linears(), quantizer, x);
  const Node* input = result.converted.graph->find("linear")->arg(0).node();
  EXPECT_EQ(input->arg(3), Argument(-8));
  EXPECT_EQ(input->arg(4), Argument(7));
  const Node* between = result.converted.graph->find("linear_1")->arg(0).node();
  EXPECT_EQ(between->arg(1), Argument(0.5));  // eps is the smallest scale
}

TEST(ObserverOverrides, RefuseWhatIsNotThere) {
  const auto refusal = [](ObserverOverride override) {
    XNNPACKQuantizer quantizer;
    quantizer.set_global(get_symmetric_quantization_config());
    quantizer.set_observer_overrides({std::move(override)});
    try {
      prepare_pt2e(two_linears(), quantizer);
    } catch (const Error& error) {
      return error.message;
    }
    return std::string("nothing was refused");
  };
  EXPECT_NE(refusal({{"y", ""}, {}}).find("names the node 'y'"), std::string::npos);
  EXPECT_NE(refusal({{"head_weight", ""}, {}}).find("names head_weight, which no quantizer observes"),
            std::string::npos);
  EXPECT_NE(refusal({{"linear", ""}, {{"colour", int64_t{1}}}}).find("has no attribute colour"), std::string::npos);
  EXPECT_NE(refusal({{"linear", ""}, {{"scale", 0.5}}}).find("has no attribute scale"), std::string::npos);
  for (const auto& [name, value, words] : std::vector<std::tuple<std::string, AttributeValue, std::string>>{
           {"bins", int64_t{1} << 40, "takes 1 to 65536 bins"},
           {"bins", int64_t{0}, "takes 1 to 65536 bins"},
           {"eps", std::nan(""), "cannot work with eps nan"},
           {"eps", -1.0, "cannot work with eps -1"},
           {"eps", std::string("small"), "the attribute eps of HistogramObserver must be a number"},
           {"dtype", std::string("float32"), "cannot work with dtype float32, wanted integers"},
           {"dtype", std::string("bool"), "cannot work with dtype bool, wanted integers"},
           {"ch_axis", int64_t{5}, "gives linear the ch_axis 5, but linear has 2 axes"},
           {"ch_axis", int64_t{-1}, "the ch_axis -1, but linear has 2 axes"},
           {"is_dynamic", true, "HistogramObserver does not support dynamic quantization"},
           {"averaging_constant", 2.0, "HistogramObserver does not read the attribute averaging_constant"},
           {"quant_max", int64_t{300}, "quant_max 300 in int8, which holds -128 to 127"},
           {"quant_min", int64_t{128}, "quant_min 128"}})
    EXPECT_NE(refusal({{"linear", ""}, {{name, value}}}).find(words), std::string::npos)
        << refusal({{"linear", ""}, {{name, value}}});
}

TEST(ObserverOverrides, GiveAHistogramOtherBins) {
  XNNPACKQuantizer quantizer;
  quantizer.set_global(get_symmetric_quantization_config());
  for (const int64_t bins : {1, 64, 65536}) {
    quantizer.set_observer_overrides({{{"linear", ""}, {{"bins", bins}}}});
    Prepared prepared = prepare_pt2e(two_linears(), quantizer);
    prepared.run({sample({2, 4}, 11)});
    prepared.run({sample({2, 4}, 12)});
    const auto& groups = prepared.observers();
    EXPECT_TRUE(std::any_of(groups.begin(), groups.end(), [&](const ObserverGroup& group) {
      const Tensor histogram = group.observer->histogram();
      return histogram.defined() && histogram.numel() == bins;
    })) << bins;
    convert_pt2e(prepared);
  }
}

TEST(Specs, SettingsThatAnObserverDoesNotReadAreRefused) {
  QuantizationSpec spec;
  spec.observer.group_size = 32;
  expect_error(ErrorCode::kInvalidArgument, "gives MinMaxObserver the setting group_size",
               [&] { make_observer(spec); });
  spec.observer = {};
  spec.observer.bins = 99;
  expect_error(ErrorCode::kInvalidArgument, "the setting bins", [&] { make_observer(spec); });
  spec.observer.class_name = "HistogramObserver";
  EXPECT_EQ(make_observer(spec)->args().bins, 99);
  expect_error(ErrorCode::kInvalidArgument, "does not read the attribute averaging_constant",
               [&] { make_observer(spec)->set_attribute("averaging_constant", 0.5); });
}

TEST(FixedQParams, MustBeNumbersThatQuantize) {
  for (const auto& [scale, zero_point, words] :
       std::vector<std::tuple<double, int64_t, std::string>>{{0, 0, "scale 0"},
                                                             {-1, 0, "scale -1"},
                                                             {std::nan(""), 0, "scale nan"},
                                                             {1e-60, 0, "scale 1e-60"},
                                                             {0.5, 256, "zero_point 256, wanted 0 to 255"}}) {
    FixedQParamsQuantizationSpec fixed{DType::kU8, scale, zero_point, {}, {}, {}};
    try {
      make_observer(fixed);
      ADD_FAILURE() << words;
    } catch (const Error& error) {
      EXPECT_NE(error.message.find(words), std::string::npos) << error.message;
    }
  }
}

}  // namespace
}  // namespace qdq::configuration_test
