// The layers of a prepared program whose weight and bias a remedy may change.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "quant/prepared_impl.h"

namespace qdq {

// A layer whose weight is a constant that becomes integers.
struct QuantizedLayer {
  const Node* node;        // in the prepared program
  size_t weight_observer;  // among Prepared::observers()
  int64_t channel_axis;    // of its result
};
// In the order of the graph.
std::vector<QuantizedLayer> quantized_layers(const Prepared& prepared);

// 5 bits or fewer: which integers the values become is worth choosing (round_weights in recover/recovery.h).
bool has_few_integers(const Observer& observer);

// A convolution over axes of its own, not aten.convolution, and not a transposed one.
bool is_plain_convolution(const Node& node);
// Rows times a weight [rows, depth]: aten.linear.
bool is_linear(const Node& node);
// Whether integers make the operator faster by much: it multiplies tensors (layers, attention, control flow that may
// hold some).
bool multiplies_tensors(const Node& node);
// Takes these call_module nodes out of the program: what they saw is rounded there no longer. explain() gives the
// reason for operators that no observer is left of.
void erase_observers(Prepared::Impl& impl, const std::vector<Node*>& modules, const std::string& reason);
// The same of those that convert_pt2e leaves in float for want of data. values_without_data() goes on to name them.
void erase_unseen_observers(Prepared& prepared);
// The argument of that name in the operator's schema, or its default. The node must call an operator that has it.
const Argument& argument_called(const Node& node, std::string_view name);

// A constant that one node alone reads, perhaps through an observer.
struct OwnConstant {
  std::string name;  // the attribute
  std::optional<size_t> observer;
};
// Nothing if `argument` is none, or others read it, too.
std::optional<OwnConstant> own_constant(const Prepared::Impl& impl, const Node* argument);

// A bias that one layer alone reads, and what undoes that it has one.
struct OwnBias {
  Node* layer = nullptr;
  std::string name;       // the attribute
  Tensor before;          // its value
  Node* added = nullptr;  // the reader of a bias that the layer got, and the arguments from before
  std::vector<Argument> old_args{};
  Node::Kwargs old_kwargs{};
};
// Makes the bias of a layer an attribute that it alone reads: [channels], zeros if it had none. Nothing if something
// computes the bias, or the layer is not of float32.
std::optional<OwnBias> own_bias(Prepared::Impl& impl, const Node& layer, int64_t channels);
// Gives the layer the bias, with the value, that it had.
void undo(Prepared::Impl& impl, const OwnBias& bias);
// Notes for FloatProgram that the bias was another one.
void keep(Prepared::Impl& impl, const OwnBias& bias);

}  // namespace qdq
