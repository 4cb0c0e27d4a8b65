// XNNPACKQuantizer's patterns in the order in which they are tried, and which setting holds for which operator.
#include "quant/quantizers/xnnpack_quantizer.h"

#include <algorithm>
#include <iterator>

#include "graph/dead_code.h"
#include "op/facts.h"
#include "op/targets.h"
#include "quant/quantizers/torch26.h"

namespace qdq {

namespace {

constexpr std::string_view kName = "XNNPACKQuantizer";

constexpr std::string_view kConv = "aten.conv1d.default aten.conv2d.default";
constexpr std::string_view kConvTranspose = "aten.conv_transpose1d.default aten.conv_transpose2d.input";
constexpr std::string_view kLinear = "aten.linear.default";
constexpr std::string_view kAdd = "aten.add.Tensor aten.add_.Tensor";
constexpr std::string_view kMul = "aten.mul.Tensor aten.mul_.Tensor";
// Operators whose output takes over the observer of their input (_is_share_obs_or_fq_op).
constexpr std::string_view kKeepsNumbers =
    "aten.relu.default aten.hardtanh.default aten.hardtanh_.default aten.max_pool2d.default aten.mean.default "
    "aten.mean.dim aten.permute.default aten.permute_copy.default aten.squeeze.dim aten.squeeze_copy.dim "
    "aten.adaptive_avg_pool2d.default aten.view_copy.default aten.view.default aten.slice_copy.Tensor "
    "aten.flatten.using_ints";

constexpr PatternPlace kRelu{.operators = "aten.relu"};
// In quantization-aware training; else batch norms are folded before.
constexpr PatternPlace kNorm{
    .operators = "aten.batch_norm.default", .inputs = Inputs::kFolded, .others = Readers::kNobodyUnsaid};
constexpr PatternPlace kMaybeRelu{.operators = "aten.relu", .others = Readers::kNobodyUnsaid, .may_be_missing = true};
constexpr std::string_view kNormNote = "the relu may be missing; without QAT batch norms are folded before";
constexpr std::string_view kConvNote = "nobody else reads the convolution";
constexpr std::string_view kBinaryNote = "float32 operands";

void annotate_gru(PatternAnnotator& annotator, const PatternRow& row);

constexpr PatternRow kRows[] = {
    {.name = "conv_bn",
     .places = {{{kConv}, kNorm, kMaybeRelu}},
     .modes = kQat,
     .note = kNormNote,
     .first_decides = true},
    {.name = "conv_bn",
     .places = {{{kConvTranspose}, kNorm, kMaybeRelu}},
     .modes = kQat,
     .note = kNormNote,
     .first_decides = true},
    {.name = "linear_relu", .places = {{{kLinear}, kRelu}}, .note = "nobody else reads the linear"},
    {.name = "linear", .places = {{{kLinear}}}, .modes = kAnyMode, .adds = true},
    {.name = "conv_relu", .places = {{{kConv}, kRelu}}, .note = kConvNote},
    {.name = "conv", .places = {{{kConv}}}},
    {.name = "conv_transpose_relu", .places = {{{kConvTranspose}, kRelu}}, .note = kConvNote},
    {.name = "adaptive_avg_pool2d",
     .places = {{{.operators = "aten.adaptive_avg_pool2d.default", .inputs = Inputs::kLikeProducer}}},
     .output = Output::kLikeInput,
     .note = "output in terms of its input",
     .says_note = true},
    {.name = "gru_io_only",
     .places = {{{"torch.nn.GRU"}}},
     .note = "a module by its recorded source; its inside stays in float",
     .annotate = annotate_gru},
    {.name = "add_relu", .places = {{{kAdd}, kRelu}}, .note = kBinaryNote, .only_float32 = true},
    {.name = "add", .places = {{{kAdd}}}, .note = kBinaryNote, .only_float32 = true},
    {.name = "mul_relu", .places = {{{kMul}, kRelu}}, .note = kBinaryNote, .only_float32 = true},
    {.name = "mul", .places = {{{kMul}}}, .note = kBinaryNote, .only_float32 = true},
    {.name = "cat",
     .places = {{{"aten.cat.default"}}},
     .output = Output::kLikeInput,
     .note = "all inputs and the output have the same scale and zero point",
     .says_note = true},
    // Behind the patterns of all settings.
    {.name = "propagation",
     .places = {{{.operators = kKeepsNumbers, .inputs = Inputs::kHandedOn}}},
     .note = "behind an operator whose output is quantized, with the same scale and zero point"},
};
constexpr std::span kPatterns = std::span(kRows).first(std::size(kRows) - 1);
constexpr const PatternRow& kPropagation = kRows[std::size(kRows) - 1];

// The input and the hidden state of a GRU. Both belong to the same node, and the second annotation takes the place of
// the first.
void annotate_gru(PatternAnnotator& annotator, const PatternRow& row) {
  const auto calls =
      get_source_partitions(annotator.graph(), {source_name("torch.nn.GRU")}, annotator.setting().reaches);
  for (const SourcePartition& call : calls) {
    std::vector<Node*> ends = call.input_nodes;
    ends.insert(ends.end(), call.output_nodes.begin(), call.output_nodes.end());
    if (is_annotated(annotator.annotations(), ends)) continue;
    if (annotator.rules().check_recurrent) annotator.rules().check_recurrent(call);
    if (call.input_nodes.size() < 2) continue;
    for (size_t i = 0; i < 2; ++i) {
      Node* input = call.input_nodes[i];
      annotator.write(input->users().front(), row, "it reads the input or state of a GRU, whose inside stays in float")
          .set_input(input, annotator.config()->input_qspec());
    }
    for (Node* output : call.output_nodes)
      annotator.write(output, row, "it gives a result of a GRU, whose inside stays in float").output_qspec =
          annotator.config()->output_qspec();
    mark_annotated(annotator.annotations(), call.nodes);
  }
}

// "torch.ops.aten.linear" is the packet of "torch.ops.aten.linear.default".
bool is_of_packet(const Node& node, const std::string& packet) {
  return node.op() == Node::Op::kCallFunction && node.target().starts_with(packet + ".");
}

}  // namespace

QuantizationConfig get_symmetric_quantization_config(const SymmetricConfigOptions& options) {
  QuantizationConfig config;
  config.is_qat = options.is_qat;

  const QuantizationSpec activation =
      default_activation_spec(DType::kS8, options.act_qmin, options.act_qmax, options.is_qat, options.is_dynamic);
  const QuantizationSpec weight =
      default_weight_spec(options.reduce_range ? -64 : options.weight_qmin,
                          options.reduce_range ? 63 : options.weight_qmax, options.is_per_channel, options.is_qat);
  check_spec(activation, "activations");
  check_spec(weight, "weights");
  config.input_activation = activation;
  if (!options.is_dynamic) config.output_activation = activation;
  config.weight = weight;
  return config;
}

XNNPACKQuantizer& XNNPACKQuantizer::set_global(std::optional<QuantizationConfig> config) {
  global_.second = std::move(config);
  return *this;
}

XNNPACKQuantizer& XNNPACKQuantizer::set_operator_type(const std::string& operator_type,
                                                      std::optional<QuantizationConfig> config) {
  if (rules().ignores_operator_types) {
    refused_.push_back(concat("the setting for operators ", operator_type,
                              " is left out, as PyTorch 2.6 does; without compat torch-2.6 it is obeyed"));
    return *this;
  }
  const std::string_view name = operator_of_source(source_name(operator_type));
  const bool has_overload = !space_of(operator_type).empty() && std::ranges::count(operator_type, '.') == 4;
  const std::string target = !name.empty()  ? op::target(name.substr(0, name.rfind('.')))
                             : has_overload ? operator_type.substr(0, operator_type.rfind('.'))
                                            : operator_type;
  set_config(operator_types_, target, std::move(config));
  return *this;
}

XNNPACKQuantizer& XNNPACKQuantizer::set_module_type(const std::string& module_type,
                                                    std::optional<QuantizationConfig> config) {
  set_config(module_types_, source_name(module_type), std::move(config));
  return *this;
}

XNNPACKQuantizer& XNNPACKQuantizer::set_module_name(const std::string& module_name,
                                                    std::optional<QuantizationConfig> config) {
  QDQ_CHECK(config || !rules().refuses_float_modules, kInvalidArgument, "set_module_name('", module_name,
            "') was given no config, which PyTorch 2.6 does not support");
  set_config(module_names_, module_name, std::move(config));
  return *this;
}

XNNPACKQuantizer& XNNPACKQuantizer::set_filter_function(NodeFilter filter) {
  filter_ = std::move(filter);
  return *this;
}

std::vector<std::string> XNNPACKQuantizer::warnings() const {
  std::vector<std::string> out = refused_;
  out.insert(out.end(), unmatched_.begin(), unmatched_.end());
  return out;
}

QuantizationCapabilities XNNPACKQuantizer::quantization_capabilities() const { return capabilities_of(kName, kRows); }

const XnnpackRules& XNNPACKQuantizer::rules() const { return xnnpack_rules(compat_); }

const ConfigSetting* XNNPACKQuantizer::setting_of(const Node& node) const {
  if (const ConfigSetting* named = innermost(node, module_names_, &ModuleStackEntry::path)) return named;
  if (const ConfigSetting* typed = innermost(node, module_types_, &ModuleStackEntry::type)) return typed;
  // A relu that is fused goes with the operator in front of it.
  const Node* producer = is_one_of(node, kRelu.operators) ? input_of(node) : nullptr;
  for (const ConfigSetting& s : operator_types_)
    if (is_of_packet(node, s.first) || (producer && is_of_packet(*producer, s.first))) return &s;
  return global_.second ? &global_ : nullptr;
}

bool XNNPACKQuantizer::holds(const ConfigSetting& setting, const Node& node) const {
  return rules().reaches ? rules().reaches(module_names_, module_types_, setting, node) : setting_of(node) == &setting;
}

bool XNNPACKQuantizer::is_dynamic(const ConfigSetting& setting) const {
  const auto& config = rules().global_says_dynamic ? global_.second : setting.second;
  return config && config->is_dynamic();
}

void XNNPACKQuantizer::transform_for_annotation(Program& program) { convert_scalars_to_attributes(program, compat_); }

void XNNPACKQuantizer::annotate(Program& program, Annotations& annotations) {
  unmatched_ = unmatched_module_names(program, module_names_);
  for (std::string& warning : unmatched_module_types(program, module_types_)) unmatched_.push_back(std::move(warning));
  for (std::string& warning : unmatched_operators(program, operator_types_)) unmatched_.push_back(std::move(warning));
  if (!global_.second && module_names_.empty() && module_types_.empty() && operator_types_.empty())
    unmatched_.push_back(concat(kName, " has no setting, so that everything stays float; set_global is missing"));
  const auto trains = [](const ConfigSetting& s) { return s.second && s.second->is_qat && !s.second->is_dynamic(); };
  bool trains_any = trains(global_);
  for (const auto* settings : {&module_names_, &module_types_, &operator_types_})
    trains_any = trains_any || std::any_of(settings->begin(), settings->end(), trains);
  // As the patterns of batch norms in training do.
  if (trains_any && eliminate_dead_code(program)) annotations.forget_all_but(*program.graph);
  const size_t mark = annotations.num_decisions();
  const uint64_t began = QuantizationAnnotation::fresh_id();
  const PatternPolicy policy{
      .quantizer = kName, .rows = kPatterns, .rules = rules().matching, .claims_folded = false, .members_count = false};
  const auto passes = [&](const Node& node) { return !filter_ || filter_(node); };
  const auto apply = [&](const ConfigSetting& s, std::string words) {
    if (!s.second) return;
    const NodeFilter reaches = [&](const Node& node) { return holds(s, node) && passes(node); };
    PatternAnnotator(policy, {&s.second, std::move(words), is_dynamic(s), reaches}, program, annotations, began).run();
  };
  for (const ConfigSetting& s : module_names_) apply(s, concat("the setting for module ", s.first));
  for (const ConfigSetting& s : module_types_) apply(s, concat("the setting for modules of type ", s.first));
  for (const ConfigSetting& s : operator_types_) apply(s, concat("the setting for operators ", s.first));
  apply(global_, "the global setting");

  PatternAnnotator behind(policy, {&global_.second, {}}, program, annotations, began);
  for (Node* node : program.graph->nodes())
    if (is_one_of(*node, kKeepsNumbers) && input_of(*node) && !is_annotated(annotations, {node}) && passes(*node))
      behind.hand_on(node, kPropagation);

  note_rest(kName, program, annotations, mark, [&](const Node& node) -> std::string {
    const ConfigSetting* setting = setting_of(node);
    if (!passes(node)) return "the filter function refuses it";
    if (setting == nullptr) return "there is no global setting, and none for this module or operator";
    if (!setting->second) return concat("the settings leave ", setting->first, " in float");
    if (is_dynamic(*setting) && !is_one_of(node, kLinear)) return concat(kName, " quantizes only linear dynamically");
    if (is_one_of(node, kConvTranspose))
      return concat(kName, " quantizes a transposed convolution only together with a relu behind it");
    if (is_one_of(node, rules().found_by_source))
      return "PyTorch 2.6 finds it by its recorded source, and here that is another or none; without compat torch-2.6 "
             "it is found";
    return no_pattern_for(kName, node);
  });
}

}  // namespace qdq
