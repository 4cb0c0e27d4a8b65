// Rows of a backend, and the settings that they are applied under.
#include "quant/quantizers/pattern_quantizer.h"

#include <algorithm>

#include "op/facts.h"
#include "op/recompose.h"
#include "op/targets.h"
#include "op/widen_halves.h"

namespace qdq {

namespace {

// x * sigmoid(x) in the place of silu(x).
void split_silu(Node* silu, Node* input) {
  Graph& graph = silu->graph();
  Node *sigmoid = nullptr, *product = nullptr;
  {
    const auto point = graph.insert_before(silu);
    sigmoid = graph.call(op::aten("sigmoid.default"), {input}, {}, "sigmoid");
    product = graph.call(std::string(op::kMul), {input, sigmoid}, {}, "mul");
  }
  sigmoid->meta = silu->meta;
  product->meta = silu->meta;
  // It stands in the place of silu, but does not give its value.
  sigmoid->meta.debug_handle.reset();
  std::erase_if(sigmoid->meta.extra, [](const auto& entry) { return entry.first == kOnnxValue; });
  silu->replace_all_uses_with(product);
  graph.erase(silu);
}

}  // namespace

PatternQuantizer::PatternQuantizer(std::string name, std::vector<PatternRow> rows)
    : texts_(std::make_shared<std::deque<std::string>>()), rows_(std::move(rows)) {
  const auto keep = [&](std::string_view text) { return &texts_->emplace_back(text); };
  name_ = keep(name);
  for (PatternRow& row : rows_) {
    QDQ_CHECK(!row.places[0].operators.empty(), kInvalidArgument, "the pattern '", row.name, "' of ", *name_,
              " has no operators");
    row.name = *keep(row.name);
    row.note = *keep(row.note);
    for (PatternPlace& place : row.places) {
      place.operators = *keep(place.operators);
      for (const std::string_view word : words_of(place.operators))
        QDQ_CHECK(std::any_of(all_ops().begin(), all_ops().end(),
                              [&](const OpDef& op) { return stands_for(word, op.short_name()); }),
                  kInvalidArgument, "the pattern '", row.name, "' of ", *name_, " names the operator '", word,
                  "', which qdq does not have; wanted a name like aten.conv2d or aten.conv2d.default");
    }
  }
}

PatternQuantizer& PatternQuantizer::set_global(std::optional<QuantizationConfig> config) {
  global_.second = std::move(config);
  return *this;
}

PatternQuantizer& PatternQuantizer::set_module_name(const std::string& module_name,
                                                    std::optional<QuantizationConfig> config) {
  set_config(module_names_, module_name, std::move(config));
  return *this;
}

PatternQuantizer& PatternQuantizer::set_filter_function(NodeFilter filter) {
  filter_ = std::move(filter);
  return *this;
}

PatternQuantizer& PatternQuantizer::set_split_silu(bool split_silu) {
  split_silu_ = split_silu;
  return *this;
}

bool PatternQuantizer::reaches(const Node& node) const {
  const ConfigSetting* setting = setting_of(node);
  return setting->second && (!filter_ || filter_(node));
}

bool PatternQuantizer::recomposes() const {
  return std::none_of(rows_.begin(), rows_.end(), [](const PatternRow& row) {
    return std::any_of(row.places.begin(), row.places.end(), [](const PatternPlace& place) {
      const std::vector<std::string_view> words = words_of(place.operators);
      return std::any_of(words.begin(), words.end(), is_decomposed);
    });
  });
}

bool PatternQuantizer::rounds_activations() const {
  const auto rounds = [](const ConfigSetting& setting) { return setting.second && setting.second->input_activation; };
  return rounds(global_) || std::any_of(module_names_.begin(), module_names_.end(), rounds);
}

void PatternQuantizer::transform_for_annotation(Program& program) {
  if (rounds_activations()) widen_halves(program);
  if (!split_silu_) return;
  for (Node* node : program.graph->nodes()) {
    if (!is_one_of(*node, "aten.silu") || !reaches(*node)) continue;
    // Others that read the input of an in-place form read what it has written there.
    Node* input = input_of(*node);
    if (base_name(node->target()).ends_with('_') && input->users().size() > 1) continue;
    split_silu(node, input);
  }
}

const ConfigSetting* PatternQuantizer::setting_of(const Node& node) const {
  const ConfigSetting* named = innermost(node, module_names_, &ModuleStackEntry::path);
  return named ? named : &global_;
}

void PatternQuantizer::annotate(Program& program, Annotations& annotations) {
  unmatched_ = unmatched_module_names(program, module_names_);
  const size_t mark = annotations.num_decisions();
  const uint64_t began = QuantizationAnnotation::fresh_id();
  const PatternPolicy policy{.quantizer = *name_, .rows = rows_};
  const auto apply = [&](const ConfigSetting& setting, std::string words) {
    if (!setting.second) return;
    const NodeFilter reaches = [&](const Node& node) {
      return setting_of(node) == &setting && (!filter_ || filter_(node));
    };
    PatternAnnotator(policy, {&setting.second, std::move(words), setting.second->is_dynamic(), reaches, {}}, program,
                     annotations, began)
        .run();
  };
  for (const ConfigSetting& setting : module_names_) apply(setting, concat("the setting for module ", setting.first));
  apply(global_, "the global setting");
  note_rest(*name_, program, annotations, mark, [&](const Node& node) { return why_not_taken(node); });
}

std::string PatternQuantizer::why_not_taken(const Node& node) const {
  const ConfigSetting* setting = setting_of(node);
  if (filter_ && !filter_(node)) return "the filter function refuses it";
  if (!setting->second)
    return setting == &global_ ? std::string("there is no global setting, and none for this module")
                               : concat("the settings leave ", setting->first, " in float");
  std::string patterns;
  for (const PatternRow& row : rows_)
    for (const PatternPlace& place : row.places)
      if (is_one_of(node, place.operators)) patterns += concat(patterns.empty() ? "" : ", ", row.name);
  if (patterns.empty()) return concat(*name_, " has no pattern for ", short_name(node.target()));
  return concat(*name_, " quantizes it only as part of the patterns that it knows: ", patterns);
}

}  // namespace qdq
