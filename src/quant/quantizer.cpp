// What quantizers do unless they say otherwise.
#include "quant/quantizer.h"

#include <algorithm>

#include "quant/fold_batch_norm.h"

namespace qdq {

void Quantizer::fold_batch_norms(Program& program) { qdq::fold_batch_norms(program, compat()); }

bool Quantizer::trains_as_one(const Node& layer, const Node&) const {
  return is_conv(layer) || is_conv_transpose(layer);
}

void Quantizer::adjust_observers(const Program& program,
                                 std::vector<std::pair<EdgeOrNode, std::shared_ptr<Observer>>>& observers) {
  for (const ObserverOverride& override : overrides_) {
    const EdgeOrNode at = resolve(*program.graph, override.at, "an observer override");
    const auto found = std::find_if(observers.begin(), observers.end(),
                                    [&](const auto& entry) { return entry.first == at && entry.second; });
    QDQ_CHECK(found != observers.end(), kInvalidArgument, "an observer override names ", to_string(at),
              ", which no quantizer observes");
    for (const auto& [name, value] : override.attributes) found->second->set_attribute(name, value);
    found->second->check_settings();
  }
}

void annotate_and_note(Quantizer& quantizer, Program& program, Annotations& annotations) {
  const size_t mark = annotations.num_decisions();
  const uint64_t began = QuantizationAnnotation::fresh_id();
  quantizer.annotate(program, annotations);
  for (const Node* node : program.graph->nodes()) {
    if (node->op() != Node::Op::kCallFunction || annotations.decided_since(node, mark)) continue;
    const auto found = annotations.find(node);
    const bool taken = found != annotations.end() && found->second.id > began;
    const std::string name(quantizer.name());
    annotations.note(node, {name, "", taken, name + (taken ? " annotated it" : " did not annotate it")});
  }
}

}  // namespace qdq
