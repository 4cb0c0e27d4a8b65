// How operators of a calibrated program compute: what integers they read, or that they read none.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "quant/prepared_impl.h"
#include "recover/recovery.h"
#include "recover/sensitivity.h"

namespace qdq {

enum class Precision {
  kInt8,  // as the recipe has it
  // Activations of 16 bits, symmetric, over twice the range that the samples show; weights as the recipe has them.
  kInt16,
  kBf16,  // weights and activations are rounded to bfloat16, products and sums are float
  kFloat
};
std::string_view to_string(Precision precision);  // "int8", "int16", "bf16", "float"
// Throws Error{kInvalidArgument} for an unknown name.
Precision precision_from_name(std::string_view name);

// Gives operators of the recovery's program another precision: always the first so many of an order, all the same one.
// What they give is rounded for the operators that stay as they are. When this goes, the program is as keep() says.
class OperatorPrecisions {
 public:
  // `sensitivities`: of the operators that may change, put in order: those whose rounding alone harms the outputs most
  // come first (Sensitivity::alone).
  OperatorPrecisions(Recovery& recovery, std::vector<Sensitivity> sensitivities);
  ~OperatorPrecisions();
  OperatorPrecisions(const OperatorPrecisions&) = delete;
  OperatorPrecisions& operator=(const OperatorPrecisions&) = delete;

  // How many operators can change.
  size_t most() const { return candidates_.size(); }
  // The first `count` get the precision, all others that of the recipe.
  void set(Precision precision, size_t count);
  // What stays when this goes, with what explain() tells of it.
  void keep(Precision precision, size_t count);
  const Sensitivity& operator[](size_t index) const { return candidates_[index].what; }

 private:
  // An operator, and while it has another precision what it was.
  struct Candidate {
    Node* node;
    Sensitivity what;
    std::vector<Argument> args{};
    Node::Kwargs kwargs{};
    std::vector<std::pair<std::string, Tensor>> constants{};
    std::vector<Node*> inserted{};  // observers of this precision, each in a group of its own at the end
  };
  void raise(Candidate& candidate, Precision precision);
  void restore(Candidate& candidate);
  void exchange_constant(Candidate& candidate, const std::string& name);
  // What the operator reads in place of an input.
  Node* input_at(Candidate& candidate, Node* input, Precision precision);
  Node* observed(Candidate& candidate, Node* value, std::shared_ptr<Observer> observer, bool is_constant);
  float largest_of(const Node& value);

  Recovery& recovery_;
  Prepared::Impl& impl_;
  std::vector<Candidate> candidates_;
  std::unordered_map<const Node*, float> largest_;  // magnitudes of what observers see in floats on the samples
  Precision precision_ = Precision::kInt8, kept_precision_ = Precision::kInt8;
  size_t count_ = 0, kept_ = 0;
};

}  // namespace qdq
