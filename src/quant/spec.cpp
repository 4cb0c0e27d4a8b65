// Specs: the places that they are for, and the observers that they describe.
#include "quant/spec.h"

#include <utility>

namespace qdq {

std::string to_string(const EdgeOrNode& at) {
  if (const Edge* edge = std::get_if<Edge>(&at))
    return concat("(", edge->first->name(), ", ", edge->second->name(), ")");
  return std::get<Node*>(at)->name();
}

Node* node_named(const Graph& graph, const std::string& name, const std::string& where) {
  Node* node = graph.find(name);
  if (node) return node;
  std::string similar;
  for (const Node* other : graph.nodes())
    if (other->name().find(name.substr(0, name.find('_'))) != std::string::npos)
      similar += (similar.empty() ? "" : ", ") + other->name();
  fail(ErrorCode::kInvalidArgument, where, " names the node '", name, "', which the graph does not have",
       similar.empty() ? "" : "; similar names: ", similar.substr(0, 200));
}

EdgeOrNode resolve(const Graph& graph, const NamedEdgeOrNode& named, const std::string& where) {
  Node* producer = node_named(graph, named.producer, where);
  if (named.consumer.empty()) return producer;
  return Edge{producer, node_named(graph, named.consumer, where)};
}

void check_spec(const QSpec& spec, const std::string& where) {
  // An observer of one's own reads each bound.
  const auto* named = std::get_if<QuantizationSpec>(&spec);
  const bool is_own = named != nullptr && named->observer.custom;
  const auto check = [&](const auto& s) {
    if constexpr (requires { s.quant_min; })
      QDQ_CHECK(is_own || s.quant_min.has_value() == s.quant_max.has_value(), kInvalidArgument, "the spec of ", where,
                " has ", s.quant_min ? "quant_min but no quant_max" : "quant_max but no quant_min",
                ", which does nothing alone; give both, or none for all integers of the dtype");
    if constexpr (requires { s.quant_min; })
      QDQ_CHECK(!s.quant_min || !s.quant_max || *s.quant_min <= *s.quant_max, kInvalidArgument, "the spec of ", where,
                " has quant_min ", *s.quant_min, ", which is above its quant_max ", *s.quant_max);
    if constexpr (requires { s.ch_axis; })
      QDQ_CHECK(s.ch_axis.value_or(0) >= 0, kInvalidArgument, "the spec of ", where, " has ch_axis ", *s.ch_axis,
                ", which PyTorch 2.6 refuses; without compat torch-2.6 negative axes count from the end");
  };
  std::visit(check, spec);
}

std::string_view unread_argument(const ObserverCtr& ctr) {
  if (ctr.custom) return {};
  const ObserverCtr plain;
  for (const auto& [name, is_given] :
       {std::pair("averaging_constant", ctr.averaging_constant.has_value()), std::pair("bins", ctr.bins.has_value()),
        std::pair("group_size", ctr.group_size != plain.group_size),
        std::pair("percentile", ctr.percentile != plain.percentile), std::pair("reduce_range", ctr.reduce_range),
        std::pair("use_grad_scaling", ctr.use_grad_scaling)})
    if (is_given && !observer_reads(ctr.class_name, ctr.inner_class, name)) return name;
  return {};
}

std::shared_ptr<Observer> make_observer(const QuantizationSpec& spec) {
  const ObserverCtr& ctr = spec.observer;
  const std::string_view unread = unread_argument(ctr);
  QDQ_CHECK(unread.empty(), kInvalidArgument, "a spec gives ", ctr.class_name, " the setting ", unread,
            ", which that class does not read; leave it out, or name a class that reads it");
  for (const std::string& name : {ctr.class_name, ctr.inner_class})
    QDQ_CHECK(ctr.custom || !name.starts_with("FixedQParams"), kInvalidArgument, "a spec names ", name,
              ", which does not read the scale and zero point that it needs there: without them the scale is 1; wanted "
              "a spec of fixed qparams (\"spec\": \"fixed_qparams\") with scale and zero_point");
  const bool per_channel_class =
      ctr.class_name.find("PerChannel") != std::string::npos || ctr.class_name.find("PerGroup") != std::string::npos;
  ObserverArgs args;
  args.dtype = spec.dtype;
  args.qdtype = ctr.qdtype;
  args.qscheme = spec.qscheme.value_or(per_channel_class ? QScheme::kPerChannelAffine : QScheme::kPerTensorAffine);
  args.quant_min = spec.quant_min;
  args.quant_max = spec.quant_max;
  args.is_dynamic = spec.is_dynamic;
  args.eps = ctr.eps;
  args.group_size = ctr.group_size;
  args.percentile = ctr.percentile;
  args.reduce_range = ctr.reduce_range;
  args.use_grad_scaling = ctr.use_grad_scaling;
  if (ctr.averaging_constant) args.averaging_constant = *ctr.averaging_constant;
  if (ctr.bins) args.bins = *ctr.bins;
  // PyTorch hands the axis only to classes that are called so.
  if (per_channel_class || ctr.custom || ctr.class_name == "_LearnableFakeQuantize")
    args.ch_axis = spec.ch_axis.value_or(0);
  if (ctr.custom) return ctr.custom(args);
  args.inner_class = ctr.inner_class;
  return make_observer(ctr.class_name, args);
}

std::shared_ptr<Observer> make_observer(const FixedQParamsQuantizationSpec& spec, bool is_qat) {
  ObserverArgs args;
  args.dtype = spec.dtype;
  args.qscheme = spec.qscheme.value_or(QScheme::kPerTensorAffine);
  args.quant_min = spec.quant_min;
  args.quant_max = spec.quant_max;
  args.scale = spec.scale;
  args.zero_point = spec.zero_point;
  const auto observer = make_observer(is_qat ? "FixedQParamsFakeQuantize" : "FixedQParamsObserver", args);
  observer->check_settings();
  return observer;
}

std::shared_ptr<Observer> make_observer(const DerivedQuantizationSpec& spec,
                                        std::vector<std::shared_ptr<Observer>> sources) {
  QDQ_CHECK(spec.derive_qparams, kInvalidArgument, "a derived spec has no function that computes its qparams");
  QDQ_CHECK(!spec.qscheme || !is_per_channel(*spec.qscheme) || spec.ch_axis, kInvalidArgument,
            "a derived spec is per channel but names no ch_axis");
  ObserverArgs args;
  args.dtype = spec.dtype;
  args.qscheme = spec.qscheme.value_or(QScheme::kPerTensorAffine);
  args.quant_min = spec.quant_min;
  args.quant_max = spec.quant_max;
  args.ch_axis = spec.ch_axis.value_or(0);
  return make_derived_observer(args, std::move(sources), spec.derive_qparams);
}

}  // namespace qdq
