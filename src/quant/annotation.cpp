// Annotations: small operations on them.
#include "quant/annotation.h"

#include <atomic>
#include <unordered_set>

namespace qdq {

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

void Annotations::forget_all_but(const Graph& graph) {
  const std::vector<Node*> nodes = graph.nodes();
  const std::unordered_set<const Node*> kept(nodes.begin(), nodes.end());
  std::erase_if(*this, [&](const auto& entry) { return kept.count(entry.first) == 0; });
  std::erase_if(notes_, [&](const auto& entry) { return kept.count(entry.first) == 0; });
}

}  // namespace qdq
