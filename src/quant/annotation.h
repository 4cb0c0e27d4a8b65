// Annotations: what a quantizer writes on the nodes of a graph, and what it says about its decisions.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "quant/spec.h"

namespace qdq {

struct QuantizationAnnotation {
  // The spec of the edge from `input` is set, in place if there is one.
  void set_input(Node* input, QSpec spec);
  const QSpec* find_input(const Node* input) const;  // or null
  // Whether it says anything about quantization, or only marks the node as taken (PyTorch's _is_valid_annotation).
  bool is_valid() const { return !input_qspec_map.empty() || !std::holds_alternative<std::monostate>(output_qspec); }

  std::vector<std::pair<Node*, QSpec>> input_qspec_map;  // in insertion order, as a Python dict keeps it
  QSpec output_qspec;
  bool allow_implicit_sharing = true;
  bool annotated = false;  // PyTorch's _annotated
  // PyTorch's _is_output_of_quantized_pattern: X86InductorQuantizer continues quantization behind such a node.
  bool is_output_of_quantized_pattern = false;
  bool in_pattern = false;   // part of a quantized pattern, though none of its own tensors need be quantized
  std::string annotator;     // who wrote it, quantizer and pattern: "XNNPACKQuantizer conv_relu"
  uint64_t id = fresh_id();  // tells a replaced annotation from an edited one; copies keep it

  static uint64_t fresh_id();
};

// What a quantizer decided about one operator. Quantizers write it down where they decide; explain() reads it.
struct Decision {
  std::string quantizer;  // "XNNPACKQuantizer"
  std::string pattern;    // "conv_relu"; empty where it was no matter of a pattern
  bool taken = false;     // annotated, or left alone
  std::string reason;     // in words that follow "because"
};

// node.meta["quantization_annotation"] of every annotated node, and beside it what quantizers decided about all
// operators.
class Annotations : public std::unordered_map<const Node*, QuantizationAnnotation> {
 public:
  void note(const Node* node, Decision decision);
  // In the order in which they were made; empty if nobody has looked at the node.
  const std::vector<Decision>& decisions(const Node* node) const;
  // How many decisions were made so far, and whether one about the node came later than that.
  size_t num_decisions() const { return num_decisions_; }
  bool decided_since(const Node* node, size_t mark) const;
  // Removes what is written of nodes that the graph no longer has.
  void forget_all_but(const Graph& graph);

 private:
  struct Notes {
    std::vector<Decision> decisions;
    size_t last = 0;  // number of the last one among all
  };
  std::unordered_map<const Node*, Notes> notes_;
  size_t num_decisions_ = 0;
};

}  // namespace qdq
