// What quantizers do unless they say otherwise.
#include "quant/quantizer.h"

#include <algorithm>

#include "quant/fold_batch_norm.h"

namespace qdq {

namespace {

// Throws Error{kInvalidArgument} if the tensor that is observed there has no such axis.
void check_axis(const EdgeOrNode& at, int64_t axis) {
  const Node* of = std::holds_alternative<Edge>(at) ? std::get<Edge>(at).first : std::get<Node*>(at);
  const TensorMeta* meta = of->meta.val.tensor();
  const auto rank = meta ? static_cast<int64_t>(meta->sizes.size()) : INT64_MAX;
  QDQ_CHECK(0 <= axis && axis < rank, kInvalidArgument, "an observer override gives ", to_string(at), " the ch_axis ",
            axis, ", but ", of->name(), " has ", rank, " axes, counted from 0");
}

}  // namespace

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
    for (const auto& [name, value] : override.attributes) {
      found->second->set_attribute(name, value);
      if (name == "ch_axis") check_axis(at, found->second->args().ch_axis);
    }
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
