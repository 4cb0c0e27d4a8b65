// How operators of a calibrated program compute: what integers they read, or that they read none.
#pragma once

#include <array>
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
  // A weight of 8 bits where the recipe gives it 5 or fewer, in the same groups or channels; activations as they are.
  kInt8Weights,
  // Activations of 16 bits, symmetric, over twice the range that the samples show; weights as the recipe has them.
  kInt16,
  kBf16,  // weights and activations are rounded to bfloat16, products and sums are float
  kFloat
};
constexpr size_t kNumPrecisions = 5;
std::string_view to_string(Precision precision);  // "int8", "int8-weights", "int16", "bf16", "float"
// Throws Error{kInvalidArgument} for an unknown name.
Precision precision_from_name(std::string_view name);
// What operators of the program may get beside the recipe's integers if nobody says: float; int8-weights, too, where
// weights have 5 bits or fewer; with `within_limits` of size or time, all.
std::vector<Precision> default_precisions(const Prepared& prepared, bool within_limits);
// Whether one of them costs bytes in place of speed, so that a search needs the sizes of files.
bool costs_bytes(const std::vector<Precision>& precisions);

// Gives operators of the recovery's program another precision: always the first so many of an order, all the same one.
// What they give is rounded for the operators that stay as they are. When this goes, the program is as keep() says.
class OperatorPrecisions {
 public:
  // `sensitivities`: of the operators that may change, put in order: those whose rounding alone harms the outputs most
  // come first (Sensitivity::alone). For weights of 8 bits, which cost a size, the harm is divided by the number of
  // weights.
  OperatorPrecisions(Recovery& recovery, std::vector<Sensitivity> sensitivities);
  ~OperatorPrecisions();
  OperatorPrecisions(const OperatorPrecisions&) = delete;
  OperatorPrecisions& operator=(const OperatorPrecisions&) = delete;

  // How many operators the precision changes.
  size_t most(Precision precision) const { return order_of(precision).size(); }
  // The first `count` of those get the precision. All others have `others`, as far as it changes them: kInt8 for that
  // of the recipe, or kInt8Weights, whose weights the first then have, too, if these compute in integers.
  void set(Precision precision, size_t count, Precision others = Precision::kInt8);
  // What stays when this goes, with what explain() tells of it.
  void keep(Precision precision, size_t count, Precision others = Precision::kInt8);
  const Sensitivity& changed(Precision precision, size_t index) const {
    return candidates_[order_of(precision)[index]].what;
  }

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
  // Candidates by their index with what they get, in the order in which they get it.
  using Raised = std::vector<std::pair<size_t, Precision>>;
  Raised raised_with(Precision precision, size_t count, Precision others) const;
  void raise_to(Raised wanted, Precision others);
  std::vector<size_t> find_order(Precision precision) const;
  const std::vector<size_t>& order_of(Precision precision) const { return orders_[static_cast<size_t>(precision)]; }
  // The weight that has few integers, and its observer.
  const Tensor* narrow_weight(const Candidate& candidate, const Observer** observer) const;
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
  std::array<std::vector<size_t>, kNumPrecisions> orders_;  // of candidates_, by precision
  std::unordered_map<const Node*, float> largest_;          // magnitudes of what observers see in floats on the samples
  Raised raised_, kept_;
  Precision others_ = Precision::kInt8, kept_others_ = Precision::kInt8;
};

}  // namespace qdq
