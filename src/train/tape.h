// What a forward pass of a prepared program leaves behind, and the walk back over it.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "exec/interpreter.h"
#include "quant/trainee.h"

namespace qdq {

class Tape {
 public:
  // `trained`: the names of the attributes whose gradients are of use. Throws Error{kUnsupported} that lists every
  // operator without a gradient, with the nodes that use it.
  Tape(Prepared& prepared, std::unordered_set<std::string> trained);
  Tape(const Tape&) = delete;  // its interpreter calls it back
  Tape& operator=(const Tape&) = delete;

  // Runs a batch and keeps the values that the way back reads. Throws what a run throws.
  std::vector<Tensor> forward(const std::vector<Tensor>& inputs);
  // The gradients of the trained attributes, and of learnt scales and zero points ("OBSERVER.scale"), by name, from
  // those of the outputs of the last forward(): undefined where nothing flows back from an output, and missing ones at
  // the end count as such. Uses up what forward() kept. Throws Error{kInvalidArgument} if there was no forward() since,
  // a gradient does not fit its output, or an output that has one depends on nothing that is trained.
  std::map<std::string, Tensor> backward(const std::vector<Tensor>& grads);
  // The next forward() uses the value.
  void set_parameter(const std::string& name, const Tensor& value);

 private:
  void compile();
  void find_flow();
  Value observe(const Node& node, std::span<const Value> args);
  void keep(const Node& node, const Value& value);
  std::vector<Value> backward_of(const Node& node, const Value& grad);
  Tensor backward_of_learnt(const Node& node, const Tensor& x, const Tensor& grad);
  void add_gradient(const std::string& name, const Tensor& grad);

  Trainee prepared_;
  std::unordered_set<std::string> trained_;

  // The prepared program in functional form, of the revision that the mode has.
  Program program_;
  int64_t revision_ = -1;
  std::unique_ptr<Interpreter> interpreter_;
  std::vector<const Node*> order_;                  // of execution
  std::vector<const Node*> outputs_;                // null: no value of a node
  std::unordered_set<const Node*> differentiable_;  // nodes through which gradients flow
  std::unordered_set<const Node*> saved_;           // whose values the way back reads

  // What one forward pass left.
  bool is_recorded_ = false;
  std::unordered_map<const Node*, Value> values_;
  std::unordered_map<const Node*, Tensor> masks_;   // of fake quantizers that rounded
  std::unordered_map<const Node*, Tensor> learnt_;  // what those saw whose qparams are learnt
  std::map<std::string, Tensor> gradients_;         // found so far
};

}  // namespace qdq
