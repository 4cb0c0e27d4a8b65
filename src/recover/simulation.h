// A calibrated program in floats that rounds wherever its int8 form would.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "exec/interpreter.h"
#include "quant/pt2e.h"

namespace qdq {

// Runs a prepared program in floats: observers hand their values on and see nothing.
Interpreter float_interpreter(const Prepared& prepared);

// A prepared program as it was when this was made, in floats, with the weights and biases from before remedies changed
// them for the sake of better integers.
class FloatProgram {
 public:
  explicit FloatProgram(const Prepared& prepared);
  // This must outlive it.
  Interpreter interpreter() const;
  const Node* node(const Node& of_prepared) const;  // null for one that the prepared program got later
  const Node* original(const Node& node) const;     // the node of the prepared program that stands for one
  const Program& program() const { return program_; }
  // From now on runs give what Simulation::run gives.
  void judge();

 private:
  std::unordered_map<const Node*, Node*> copies_;
  std::unordered_map<const Node*, const Node*> originals_;  // from the copies
  Program program_;
  std::vector<OpBackend*> backends_;
};

// Whether the inputs' sizes tell how many rows a value has. Rows that a run selects, as a router does for its experts,
// are those of other tokens in floats than behind rounded layers.
bool has_known_rows(const Program& program, const Node& rows);

// Each observer of the prepared program rounds what it sees by its present qparams, as the quantize and dequantize in
// its place would; constants are rounded once. The numbers are those of the converted program run node by node.
class Simulation {
 public:
  // The prepared program must outlive this, keep its nodes, and be calibrated.
  explicit Simulation(Prepared& prepared);

  // Whether an observer rounds (all do at first) or hands its values on.
  void set_rounding(size_t observer, bool rounds);
  // The same for the observers of weights that have few integers.
  void set_rounding_to_few(bool rounds);
  // From now on the observer that this call_module node of the prepared program calls rounds nothing there.
  void bypass(const Node& module);
  // Takes in what changed in the prepared program: the range of an observer, the value of a parameter.
  void refresh();
  // Counts what changed what a run gives: refresh() to something new, set_rounding(), bypass().
  uint64_t version() const { return version_; }

  // The outputs, and behind them the values of judged_outputs.h.
  std::vector<Tensor> run(const std::vector<Tensor>& inputs);
  Interpreter::Walk walk(const std::vector<Tensor>& inputs);
  // The node that stands for one of the prepared program; null for the observers of constants.
  const Node* node(const Node& of_prepared) const;
  // The observer of activations that a node of the simulation's program stands for; nothing for other nodes.
  std::optional<size_t> observer_of(const Node& node) const;
  // A value that operators of the simulation's program read through an observer, or a constant that one saw.
  std::optional<size_t> observer_behind(const Node& input) const;
  // Keeps, from now on, what observers of activations see, for unrounded(): the values of a whole run.
  void keep_unrounded() { keeps_unrounded_ = true; }
  // What the observer makes of a value; and the value that it saw last at this input, as it was.
  Tensor rounded(size_t observer, const Tensor& x) const;
  Tensor unrounded(const Node& input) const;

 private:
  struct Constant {
    const Node* observed;   // the get_attr in the prepared program
    std::string attribute;  // of program_: the rounded value
    size_t observer;
    Tensor source;                         // what was rounded last
    const Observer* rounded_by = nullptr;  // null: it is the source
  };
  struct Rounder {
    std::shared_ptr<Observer> observer;
    QParams qparams;
    bool rounds = true;
  };
  Tensor rounded(const Rounder& rounder, const Tensor& x) const;

  Prepared& prepared_;
  std::unordered_map<const Node*, Node*> copies_;  // from the prepared program's nodes
  Program program_;
  std::unordered_map<const Node*, size_t> observer_of_;  // of a call_module node of program_
  std::unordered_set<const Node*> bypassed_;             // of those
  bool keeps_unrounded_ = false;
  uint64_t version_ = 0;
  std::unordered_map<const Node*, Tensor> seen_;  // by observers, last
  std::vector<Constant> constants_;
  std::vector<Rounder> rounders_;
  std::unique_ptr<Interpreter> interpreter_;
};

}  // namespace qdq
