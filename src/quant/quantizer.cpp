// Annotations: small operations on them.
#include "quant/quantizer.h"

#include <atomic>

namespace qdq {

std::string to_string(const EdgeOrNode& at) {
  if (const Edge* edge = std::get_if<Edge>(&at)) return concat("(", edge->first->name(), ", ", edge->second->name(), ")");
  return std::get<Node*>(at)->name();
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

}  // namespace qdq
