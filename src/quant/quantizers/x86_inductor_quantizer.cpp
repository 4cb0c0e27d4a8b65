// X86InductorQuantizer's patterns in the order in which they are tried, and which setting holds for which pattern.
#include "quant/quantizers/x86_inductor_quantizer.h"

#include <algorithm>

#include "op/facts.h"
#include "op/targets.h"
#include "quant/quantizers/torch26.h"
#include "quant/unmatched_settings.h"

namespace qdq {

namespace {

constexpr std::string_view kName = "X86InductorQuantizer";

constexpr std::string_view kConv2d = "aten.conv2d.default";
constexpr std::string_view kLinear = "aten.linear.default";
constexpr std::string_view kMatmul = "aten.matmul.default";
constexpr std::string_view kAdd = "aten.add.Tensor aten.add_.Tensor";
constexpr std::string_view kBehindConv = "aten.relu aten.hardtanh aten.hardswish aten.relu6 aten.silu";
constexpr std::string_view kBehindLinear = "aten.relu aten.leaky_relu aten.tanh aten.gelu.default";
constexpr std::string_view kFlatten = "aten.flatten.using_ints";
// Operators that take int8 in and give int8 out.
constexpr std::string_view kInt8InOut =
    "aten.max_pool2d.default aten.cat.default aten.avg_pool2d.default aten.adaptive_avg_pool2d.default "
    "aten.flatten.using_ints";
constexpr std::string_view kQuantizableByDefault =
    "aten.conv2d.default aten.linear.default aten.max_pool2d.default aten.cat.default aten.avg_pool2d.default "
    "aten.adaptive_avg_pool2d.default aten.flatten.using_ints";

bool is_quantizable(const Node& node) { return is_one_of(node, kQuantizableByDefault) || is_one_of(node, kMatmul); }

// In quantization-aware training; else batch norms are folded before.
constexpr PatternPlace kNorm{
    .operators = "aten.batch_norm.default", .inputs = Inputs::kFolded, .others = Readers::kAnybody};
constexpr PatternPlace kAddBehindNorm{.operators = kAdd, .others = Readers::kNobodyUnsaid};
constexpr PatternPlace kReluBehindNorm{.operators = "aten.relu", .others = Readers::kAnybody, .may_be_missing = true};
constexpr PatternPlace kActivationBehindNorm{
    .operators = kBehindConv, .others = Readers::kAnybody, .may_be_missing = true};
constexpr PatternPlace kRelu{.operators = "aten.relu"};
// The other operand of a linear's addition stays float, that of a convolution's does not.
constexpr PatternPlace kAddBehindLinear{.operators = kAdd, .inputs = Inputs::kFloat};
constexpr std::string_view kAlone = "nobody else reads what is in front";
constexpr std::string_view kNormNote = "the last may be missing";

std::string why_flatten_stays(const Node& node) {
  const auto& users = node.users();
  const auto is_float = [](const Node* user) { return !is_quantizable(*user); };
  if (!is_one_of(node, kFlatten) || users.empty() || !std::all_of(users.begin(), users.end(), is_float)) return {};
  return "nothing behind it is quantized, so integers would only be turned back";
}

// Outputs are observed in quantization-aware training alone. Elsewhere only what continues them in int8 does so.
constexpr PatternRow chain(std::string_view name, std::array<PatternPlace, 4> places, std::string_view note = {}) {
  return {.name = name, .places = places, .output = Output::kContinued, .modes = kAnyMode, .note = note};
}
constexpr PatternRow in_training(std::array<PatternPlace, 4> places) {
  return {.name = "conv2d_bn",
          .places = places,
          .output = Output::kQuantizedAndContinued,
          .modes = kQat | kDynamicQat,
          .note = kNormNote};
}

constexpr PatternRow kRows[] = {
    in_training({{{kConv2d}, kNorm, kAddBehindNorm, kReluBehindNorm}}),
    in_training({{{kConv2d}, kNorm, kActivationBehindNorm}}),
    chain("conv2d_binary_unary", {{{kConv2d}, {kAdd}, kRelu}}, kAlone),
    chain("conv2d_binary", {{{kConv2d}, {kAdd}}}, kAlone),
    chain("conv2d_unary", {{{kConv2d}, {kBehindConv}}}, kAlone),
    chain("conv2d", {{{kConv2d}}}),
    chain("linear_binary_unary", {{{kLinear}, kAddBehindLinear, kRelu}}, kAlone),
    chain("linear_binary", {{{kLinear}, kAddBehindLinear}}, kAlone),
    chain("linear_unary", {{{kLinear}, {kBehindLinear}}}, kAlone),
    chain("linear", {{{kLinear}}}),
    chain("matmul", {{{kMatmul}}}, "only on request, by the function type torch.matmul"),
    {.name = "propagation",
     .places = {{{.operators = kInt8InOut, .inputs = Inputs::kBehindContinued}}},
     .output = Output::kLikeInputAndContinued,
     .modes = kAnyMode,
     .note = "behind a quantized operator; flatten only in front of one",
     .obstacle = why_flatten_stays},
};

// Whether PyTorch's patterns fuse this behind a convolution or linear, were it recorded as they want it.
bool is_fusible_function(const Node& node) {
  const Node* producer = input_of(node);
  return producer != nullptr && (is_one_of(*producer, kConv2d) || is_one_of(*producer, kLinear)) &&
         (is_one_of(node, kBehindConv) || is_one_of(node, kBehindLinear));
}

}  // namespace

QuantizationConfig get_default_x86_inductor_quantization_config(const X86InductorConfigOptions& options) {
  const QuantizationSpec activation =
      default_activation_spec(DType::kU8, 0, options.reduce_range ? 127 : 255, options.is_qat, options.is_dynamic);
  QuantizationConfig config;
  config.input_activation = config.output_activation = activation;
  config.weight = default_weight_spec(-128, 127, /*is_per_channel=*/true, options.is_qat);
  config.is_qat = options.is_qat;
  return config;
}

QuantizationConfig get_x86_inductor_linear_dynamic_fp16_config() {
  QuantizationSpec weight;
  weight.dtype = DType::kF16;
  weight.observer.class_name = "PlaceholderObserver";
  QuantizationConfig config;
  config.weight = weight;
  return config;
}

// Whether the config goes together with those set before.
bool X86InductorQuantizer::accepts(const std::string& name, const std::optional<QuantizationConfig>& config) {
  if (!config) return true;
  std::vector<const QuantizationConfig*> others;
  for (const auto* settings : {&module_names_, &operator_types_})
    for (const ConfigSetting& setting : *settings)
      if (setting.second) others.push_back(&*setting.second);
  if (global_) others.push_back(&*global_);
  for (const QuantizationConfig* other : others) {
    const bool other_mode = other->is_qat != config->is_qat;
    const bool other_time =
        other->input_activation && config->input_activation && other->is_dynamic() != config->is_dynamic();
    if (!other_mode && !other_time) continue;
    refused_.push_back(concat("the config for ", name,
                              " is left out: ", other_mode ? "training-aware and post-training" : "static and dynamic",
                              " quantization cannot be mixed"));
    return false;
  }
  return true;
}

X86InductorQuantizer& X86InductorQuantizer::set_operator(const std::string& source,
                                                         std::optional<QuantizationConfig> config) {
  if (!accepts(source, config)) return *this;
  const auto known = words_of(kQuantizableByDefault);
  std::string name(operator_of_source(source_name(source)));
  // "torch.ops.aten.linear" and "torch.ops.aten.linear.default"
  const auto is_meant = [&](std::string_view target) { return (op::target(target) + ".").starts_with(source + "."); };
  if (is_meant(kMatmul)) name = kMatmul;
  for (const auto& target : known)
    if (is_meant(target)) name = target;
  if (name == kMatmul || std::find(known.begin(), known.end(), name) != known.end()) {
    set_config(operator_types_, name, std::move(config));
    return *this;
  }
  std::vector<std::string> sources;
  for (const auto& target : known)
    for (std::string& each : sources_of_operator(target)) sources.push_back(std::move(each));
  const std::string meant = nearest_name(source, sources);
  refused_.push_back(concat("the config for ", source, " is left out: ", kName, " does not quantize that",
                            meant.empty() ? "" : concat("; did you mean ", meant, "?")));
  return *this;
}

X86InductorQuantizer& X86InductorQuantizer::set_global(std::optional<QuantizationConfig> config) {
  if (accepts("all operators", config)) global_ = std::move(config);
  return *this;
}

X86InductorQuantizer& X86InductorQuantizer::set_module_name_qconfig(const std::string& module_name,
                                                                    std::optional<QuantizationConfig> config) {
  if (accepts("module " + module_name, config)) set_config(module_names_, module_name, std::move(config));
  return *this;
}

std::vector<std::string> X86InductorQuantizer::warnings() const {
  std::vector<std::string> out = refused_;
  out.insert(out.end(), unmatched_.begin(), unmatched_.end());
  return out;
}

QuantizationCapabilities X86InductorQuantizer::quantization_capabilities() const {
  return capabilities_of(kName, kRows);
}

void X86InductorQuantizer::annotate(Program& program, Annotations& annotations) {
  unmatched_ = unmatched_module_names(program, module_names_);
  std::vector<ConfigSetting> packets;
  for (const ConfigSetting& setting : operator_types_)
    packets.emplace_back(op::target(setting.first.substr(0, setting.first.rfind('.'))), std::nullopt);
  for (std::string& warning : unmatched_operators(program, packets)) unmatched_.push_back(std::move(warning));
  if (!global_ && module_names_.empty() && operator_types_.empty())
    unmatched_.push_back(concat(kName, " has no setting, so that everything stays float; set_global is missing"));
  const size_t mark = annotations.num_decisions();
  const uint64_t began = QuantizationAnnotation::fresh_id();
  const X86Rules& rules = x86_rules(compat_);
  const PatternPolicy policy{.quantizer = kName, .rows = kRows, .rules = rules.matching, .claims_parameters = false};
  using Reaches = std::function<bool(const PatternChain&)>;
  const auto apply = [&](const std::optional<QuantizationConfig>& config, std::string words, const Reaches& reaches) {
    const Reaches passes = [&](const PatternChain& nodes) {
      const auto is_let_in = [&](const Node* node) { return !filter_ || filter_(*node); };
      return std::all_of(nodes.begin(), nodes.end(), is_let_in) && reaches(nodes);
    };
    PatternAnnotator(policy, {&config, std::move(words), false, {}, passes}, program, annotations, began).run();
  };
  // A pattern that has one of these operators.
  const auto has = [&](std::string_view operators, const std::string& what) -> Reaches {
    return [&rules, operators, what](const PatternChain& nodes) {
      const auto count =
          std::count_if(nodes.begin(), nodes.end(), [&](const Node* node) { return is_one_of(*node, operators); });
      QDQ_CHECK(count <= 1 || !rules.refuses_several_operators, kUnsupported, "one pattern holds several nodes that ",
                "are ", what, "; PyTorch 2.6 does not support that");
      return count >= 1;
    };
  };
  for (const ConfigSetting& setting : module_names_)
    apply(setting.second, concat("the setting for module ", setting.first), [&](const PatternChain& nodes) {
      return std::all_of(nodes.begin(), nodes.end(), [&](const Node* node) {
        if (rules.is_in_module) return rules.is_in_module(*node, setting.first);
        return innermost(*node, module_names_, &ModuleStackEntry::path) == &setting;
      });
    });
  for (const auto& [name, config] : operator_types_)
    apply(config, concat("the setting for ", name), has(name, op::target(name)));
  if (global_) apply(global_, "the global setting", has(kQuantizableByDefault, "quantizable by default"));
  note_rest(kName, program, annotations, mark, [&](const Node& node) { return why_not_looked_at(node); });
}

std::string X86InductorQuantizer::why_not_looked_at(const Node& node) const {
  const bool finds_by_source = x86_rules(compat_).finds_by_source;
  const bool named = std::any_of(module_names_.begin(), module_names_.end(),
                                 [&](const ConfigSetting& s) { return is_in_module(node, s.first); });
  const bool typed = std::any_of(operator_types_.begin(), operator_types_.end(),
                                 [&](const ConfigSetting& s) { return is_one_of(node, s.first); });
  if (filter_ && !filter_(node)) return "the filter function refuses it";
  if (is_one_of(node, kAdd))
    return concat(kName, " quantizes an addition only directly behind a convolution or linear that nobody else reads");
  if (finds_by_source && is_fusible_function(node)) return not_found_by_source(node);
  if (is_one_of(node, kMatmul) && !named && !typed)
    return concat(kName, " quantizes matmul only on request (function type torch.matmul)");
  if (!is_quantizable(node)) return no_pattern_for(kName, node);
  if (!named && !typed && !global_) return "there is no global setting, and none for this module or operator";
  return finds_by_source ? not_found_by_source(node)
                         : "the settings that reach it were not taken; see the quantizer's warnings";
}

}  // namespace qdq
