// What annotators have in common.
#include "quant/quantizers/quantization_config.h"

#include <algorithm>
#include <iterator>

#include "op/facts.h"
#include "op/targets.h"
#include "quant/unmatched_settings.h"

namespace qdq {

namespace {

constexpr double kEps = 0.000244140625;  // 2^-12, the smallest scale of both configurations

}  // namespace

QuantizationSpec default_activation_spec(DType dtype, int64_t quant_min, int64_t quant_max, bool is_qat,
                                         bool is_dynamic) {
  QuantizationSpec spec;
  spec.dtype = dtype;
  spec.quant_min = quant_min;
  spec.quant_max = quant_max;
  spec.qscheme = QScheme::kPerTensorAffine;
  spec.is_dynamic = is_dynamic;
  spec.observer.eps = kEps;
  if (is_qat && is_dynamic) {
    spec.observer.class_name = "FakeQuantize";
    spec.observer.inner_class = "MovingAverageMinMaxObserver";
    spec.observer.averaging_constant = 1.0;
  } else if (is_qat) {
    spec.observer.class_name = "FusedMovingAvgObsFakeQuantize";
  } else {
    spec.observer.class_name = is_dynamic ? "PlaceholderObserver" : "HistogramObserver";
  }
  return spec;
}

QuantizationSpec default_weight_spec(int64_t quant_min, int64_t quant_max, bool is_per_channel, bool is_qat) {
  QuantizationSpec spec;
  spec.dtype = DType::kS8;
  spec.quant_min = quant_min;
  spec.quant_max = quant_max;
  spec.qscheme = is_per_channel ? QScheme::kPerChannelSymmetric : QScheme::kPerTensorSymmetric;
  spec.ch_axis = 0;
  spec.observer.eps = kEps;
  if (is_qat) {
    spec.observer.class_name = "FusedMovingAvgObsFakeQuantize";
    spec.observer.inner_class =
        is_per_channel ? "MovingAveragePerChannelMinMaxObserver" : "MovingAverageMinMaxObserver";
  } else {
    spec.observer.class_name = is_per_channel ? "PerChannelMinMaxObserver" : "MinMaxObserver";
  }
  return spec;
}

void set_config(std::vector<ConfigSetting>& settings, const std::string& name,
                std::optional<QuantizationConfig> config) {
  const auto found = std::find_if(settings.begin(), settings.end(),
                                  [&](const ConfigSetting& setting) { return setting.first == name; });
  if (found == settings.end()) settings.emplace_back(name, std::move(config));
  else found->second = std::move(config);
}

const ConfigSetting* innermost(const Node& node, const std::vector<ConfigSetting>& settings,
                               std::string ModuleStackEntry::* key) {
  if (key == &ModuleStackEntry::path)
    for (const auto& [what, name] : node.meta.extra)
      for (const ConfigSetting& s : settings)
        if (what == kOnnxNode && name == s.first) return &s;
  const auto& stack = node.meta.nn_module_stack;
  for (auto entry = stack.rbegin(); entry != stack.rend(); ++entry)
    for (const ConfigSetting& s : settings)
      if ((*entry).*key == s.first) return &s;
  return nullptr;
}

namespace {

std::vector<std::string> unmatched(std::string_view kind, const std::vector<ConfigSetting>& settings,
                                   const std::vector<std::string>& known) {
  std::vector<std::string> out;
  for (const ConfigSetting& setting : settings)
    if (std::find(known.begin(), known.end(), setting.first) == known.end())
      out.push_back(unmatched_setting(kind, setting.first, known));
  return out;
}

}  // namespace

std::string no_pattern_for(std::string_view quantizer, const Node& node) {
  const std::string_view op = short_name(node.target());
  std::string_view remedy;
  if (op == "aten.convolution.default")
    remedy = ", which a decomposition left of a layer; without the rules of torch-2.6 it counts as one";
  if (op == "aten.addmm.default" || op == "aten.mm.default")
    remedy = "; without the rules of torch-2.6, one with a constant matrix counts as a linear layer";
  return concat(quantizer, " has no pattern for ", op, remedy);
}

std::vector<std::string> unmatched_module_names(const Program& program, const std::vector<ConfigSetting>& settings) {
  if (settings.empty()) return {};
  return unmatched("module", settings, ProgramNames(*program.graph).modules);
}

std::vector<std::string> unmatched_module_types(const Program& program, const std::vector<ConfigSetting>& settings) {
  if (settings.empty()) return {};
  return unmatched("module type", settings, ProgramNames(*program.graph).module_types);
}

std::vector<std::string> unmatched_operators(const Program& program, const std::vector<ConfigSetting>& settings) {
  if (settings.empty()) return {};
  return unmatched("operator", settings, ProgramNames(*program.graph).operators);
}

bool is_annotated(const Annotations& annotations, const std::vector<Node*>& nodes) {
  return std::any_of(nodes.begin(), nodes.end(), [&](const Node* node) {
    const auto found = annotations.find(node);
    return node && found != annotations.end() && found->second.annotated;
  });
}

void mark_annotated(Annotations& annotations, const std::vector<Node*>& nodes) {
  for (const Node* node : nodes)
    if (node) annotations[node].annotated = true;
}

bool is_in_module(const Node& node, const std::string& path) {
  return std::any_of(node.meta.nn_module_stack.begin(), node.meta.nn_module_stack.end(),
                     [&](const ModuleStackEntry& entry) { return entry.path == path; });
}

bool is_in_module_type(const Node& node, const std::string& type) {
  const std::string recorded = source_name(type);
  return std::any_of(node.meta.nn_module_stack.begin(), node.meta.nn_module_stack.end(),
                     [&](const ModuleStackEntry& entry) { return entry.type == recorded; });
}

void convert_scalars_to_attributes(Program& program, Compat compat) {
  int64_t n = 0;
  for (Node* node : program.graph->nodes()) {
    if (!node->is(op::kAdd) && !node->is(op::kMul)) continue;
    const TensorMeta* result = node->meta.val.tensor();
    if (compat == Compat::kNone && result && !is_quantizable(result->dtype)) continue;
    for (size_t i = 0; i < node->args().size(); ++i) {
      const std::optional<double> number = node->arg(i).number();
      if (!number) continue;
      while (program.find_attribute("_tensor_constant_" + std::to_string(n))) ++n;
      const std::string name = "_tensor_constant_" + std::to_string(n);
      program.add_attribute({name, Tensor::scalar(static_cast<float>(*number)), Attribute::Kind::kBuffer, true, false});
      const auto point = program.graph->insert_before(node);
      Node* constant = program.graph->get_attr(name);
      constant->meta.val.value = TensorMeta{DType::kF32, {}, {}, false};
      node->set_arg(i, constant);
    }
  }
}

}  // namespace qdq
