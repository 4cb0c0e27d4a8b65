// Annotations from data.
#include "quant/quantizers/annotation_quantizer.h"

#include <algorithm>

#include "quant/quantizers/quantization_config.h"

namespace qdq {

namespace {

QSpec resolve(const Graph& graph, const NamedQSpec& named, const std::string& where) {
  QSpec out;
  if (const auto* spec = std::get_if<QuantizationSpec>(&named)) out = *spec;
  if (const auto* fixed = std::get_if<FixedQParamsQuantizationSpec>(&named)) out = *fixed;
  if (const auto* shared = std::get_if<NamedSharedSpec>(&named))
    out = SharedQuantizationSpec{resolve(graph, shared->with, where)};
  if (const auto* derived = std::get_if<NamedDerivedSpec>(&named)) {
    DerivedQuantizationSpec spec = derived->spec;
    spec.derived_from.clear();
    for (const NamedEdgeOrNode& from : derived->from) spec.derived_from.push_back(resolve(graph, from, where));
    if (!spec.derive_qparams) spec.derive_qparams = derive_rule(spec.rule);
    out = std::move(spec);
  }
  return out;
}

using Sources = std::vector<std::shared_ptr<Observer>>;

QParams product_of_scales(const Sources& sources) {
  QParams out;
  for (const auto& source : sources) {
    const std::vector<float> scale = source->calculate_qparams_or_default().scale;
    if (out.scale.empty()) {
      out.scale = scale;
      continue;
    }
    const size_t channels = std::max(out.scale.size(), scale.size());
    QDQ_CHECK(
        (out.scale.size() == 1 || out.scale.size() == channels) && (scale.size() == 1 || scale.size() == channels),
        kInvalidArgument, "scales of ", out.scale.size(), " and ", scale.size(), " channels cannot be multiplied");
    std::vector<float> product(channels);
    for (size_t c = 0; c < channels; ++c)
      product[c] = out.scale[out.scale.size() == 1 ? 0 : c] * scale[scale.size() == 1 ? 0 : c];
    out.scale = std::move(product);
  }
  out.zero_point.assign(out.scale.size(), 0);
  out.zero_point_dtype = DType::kS32;
  return out;
}

QParams copy_first(const Sources& sources) { return sources.at(0)->calculate_qparams_or_default(); }

QParams largest_scale(const Sources& sources) {
  QParams out{{0.0f}, {0}, {}, DType::kS32};
  for (const auto& source : sources)
    for (const float scale : source->calculate_qparams_or_default().scale) out.scale[0] = std::max(out.scale[0], scale);
  return out;
}

constexpr std::pair<std::string_view, QParams (*)(const Sources&)> kDeriveRules[] = {
    {"product_of_scales", product_of_scales}, {"copy_first", copy_first}, {"largest_scale", largest_scale}};

}  // namespace

std::function<QParams(const Sources&)> derive_rule(const std::string& rule) {
  for (const auto& [name, function] : kDeriveRules)
    if (name == rule) return function;
  fail(ErrorCode::kInvalidArgument, "a derived spec names the rule '", rule,
       "'; the rules are product_of_scales, copy_first and largest_scale");
}

std::vector<std::string_view> derive_rule_names() {
  std::vector<std::string_view> out;
  for (const auto& [name, function] : kDeriveRules) out.push_back(name);
  return out;
}

void AnnotationQuantizer::transform_for_annotation(Program& program) {
  if (convert_scalars_) convert_scalars_to_attributes(program, compat_);
}

void AnnotationQuantizer::annotate(Program& program, Annotations& annotations) {
  const Graph& graph = *program.graph;
  const size_t mark = annotations.num_decisions();
  for (const NamedAnnotation& named : named_) {
    Node* node = node_named(graph, named.node, "the annotation list");
    const std::string where = "the annotation of " + named.node;
    QuantizationAnnotation annotation;
    for (const auto& [input, spec] : named.inputs)
      annotation.set_input(node_named(graph, input, where),
                           resolve(graph, spec, concat("(", input, ", ", named.node, ")")));
    annotation.output_qspec = resolve(graph, named.output, named.node);
    annotation.allow_implicit_sharing = named.allow_implicit_sharing;
    annotation.annotated = named.annotated;
    annotation.annotator = name_;
    annotations[node] = std::move(annotation);
    annotations.note(node, {name_, "", true, named.reason.empty() ? "its list of annotations names it" : named.reason});
  }
  for (const Node* node : graph.nodes())
    if (node->op() == Node::Op::kCallFunction && !annotations.decided_since(node, mark))
      annotations.note(node, {name_, "", false, "its list of annotations does not name it"});
}

}  // namespace qdq
