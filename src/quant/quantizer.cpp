// Annotations: small operations on them.
#include "quant/quantizer.h"

#include <algorithm>
#include <atomic>

#include "quant/fold_batch_norm.h"

namespace qdq {

std::string to_string(const EdgeOrNode& at) {
  if (const Edge* edge = std::get_if<Edge>(&at)) return concat("(", edge->first->name(), ", ", edge->second->name(), ")");
  return std::get<Node*>(at)->name();
}

Node* node_named(const Graph& graph, const std::string& name, const std::string& where) {
  Node* node = graph.find(name);
  if (node) return node;
  std::string similar;
  for (const Node* other : graph.nodes())
    if (other->name().find(name.substr(0, name.find('_'))) != std::string::npos) similar += (similar.empty() ? "" : ", ") + other->name();
  fail(ErrorCode::kInvalidArgument, where, " names the node '", name, "', which the graph does not have",
       similar.empty() ? "" : "; similar names: ", similar.substr(0, 200));
}

EdgeOrNode resolve(const Graph& graph, const NamedEdgeOrNode& named, const std::string& where) {
  Node* producer = node_named(graph, named.producer, where);
  if (named.consumer.empty()) return producer;
  return Edge{producer, node_named(graph, named.consumer, where)};
}

void Quantizer::fold_batch_norms(Program& program) { qdq::fold_batch_norms(program, compat()); }

void Quantizer::adjust_observers(const Program& program, std::vector<std::pair<EdgeOrNode, std::shared_ptr<Observer>>>& observers) {
  for (const ObserverOverride& override : overrides_) {
    const EdgeOrNode at = resolve(*program.graph, override.at, "an observer override");
    const auto found = std::find_if(observers.begin(), observers.end(), [&](const auto& entry) { return entry.first == at && entry.second; });
    QDQ_CHECK(found != observers.end(), kInvalidArgument, "an observer override names ", to_string(at), ", which no quantizer observes");
    for (const auto& [name, value] : override.attributes) found->second->set_attribute(name, value);
  }
}

void QuantizationAnnotation::set_input(Node* input, QSpec spec) {
  for (auto& [node, old] : input_qspec_map)
    if (node == input) {
      old = std::move(spec);
      return;
    }
  input_qspec_map.emplace_back(input, std::move(spec));
}

const QSpec* QuantizationAnnotation::find_input(const Node* input) const {
  for (const auto& [node, spec] : input_qspec_map)
    if (node == input) return &spec;
  return nullptr;
}

uint64_t QuantizationAnnotation::fresh_id() {
  static std::atomic<uint64_t> last = 0;
  return ++last;
}

void Annotations::note(const Node* node, Decision decision) {
  Notes& notes = notes_[node];
  notes.decisions.push_back(std::move(decision));
  notes.last = num_decisions_++;
}

const std::vector<Decision>& Annotations::decisions(const Node* node) const {
  static const std::vector<Decision> none;
  const auto found = notes_.find(node);
  return found == notes_.end() ? none : found->second.decisions;
}

bool Annotations::decided_since(const Node* node, size_t mark) const {
  const auto found = notes_.find(node);
  return found != notes_.end() && found->second.last >= mark;
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
