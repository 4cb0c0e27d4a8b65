// Runs a program node by node.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "exec/op_backend.h"

namespace qdq {

// Candidates are asked in order; the reference operators close the list. The program must outlive the interpreter and
// keep its nodes while it lives; attribute tensors are read at every run.
class Interpreter {
 public:
  // Throws Error{kUnsupported} listing all unknown operators.
  Interpreter(const Program& program, std::vector<OpBackend*> backends);
  ~Interpreter();
  Interpreter(Interpreter&&) noexcept;
  Interpreter& operator=(Interpreter&&) noexcept;

  // Answers call_module nodes (observers): gets the node and its resolved arguments, returns its result. `range` is
  // that of the first argument where it is known, else null: it is taken while the argument is written, for the sake of
  // the nodes that `wants_range` (none, if it is empty).
  using ModuleHandler =
      std::function<Value(const Node& node, std::span<const Value> args, const kernel::MinMax* range)>;
  using NodeTest = std::function<bool(const Node& node)>;
  void set_module_handler(ModuleHandler handler, NodeTest wants_range = {});
  // Called after every node that ran, with its result. No node runs as part of another's tail then.
  using NodeHook = std::function<void(const Node& node, const Value& value)>;
  void set_node_hook(NodeHook hook);

  // Runs the graph on the user inputs in order and returns the user outputs, flat. A value is freed after its last use.
  // Throws Error{kInvalidArgument} naming the input whose number, dtype or shape does not fit; errors inside a node
  // carry node and op; Error{kOutOfMemory} before anything runs if the results cannot fit into what memory is left,
  // where that is known.
  std::vector<Tensor> run(std::span<const Tensor> inputs);
  // The same of a program whose inputs or outputs may be lists of tensors or None, as ONNX's sequences and optionals:
  // for each input and output a tensor, a Value::List of tensors or None.
  std::vector<Value> run_values(std::span<const Value> inputs);

  // A run that stops behind every node, so that values can be read and replaced in between, and the attributes of nodes
  // that come later changed. Several may be under way at once; the interpreter must outlive them. No node runs as part
  // of another's tail. Buffers are not written.
  class Walk {
   public:
    // Throws as run() does for inputs that do not fit.
    Walk(Interpreter& interpreter, std::span<const Tensor> inputs);
    ~Walk();
    Walk(Walk&&) noexcept;
    Walk& operator=(Walk&&) noexcept;

    // Another run that stands where this one does, with values of its own.
    Walk clone() const;

    // The node that advance() runs; null behind the output node.
    const Node* next() const;
    void advance();
    // The value of a node that ran, as long as a node that did not run yet reads it; else None.
    const Value& value(const Node& node) const;
    void set_value(const Node& node, Value value);
    // What the node that comes next gives for other values of some of its inputs; the run stays where it is. The node
    // must call an operator.
    Value result_with(std::vector<std::pair<const Node*, Value>> others);
    // The user outputs, flat, when next() is null.
    std::vector<Tensor> outputs() const;

   private:
    struct Impl;
    explicit Walk(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
  };

  // Who runs each call_function node, why the others refused, and how many runs the one who runs it has left to the
  // reference so far.
  struct OpPlacement {
    const Node* node;
    std::string backend;
    std::vector<std::pair<std::string, std::string>> refusals{};  // (backend, reason)
    CompiledOp::Fallbacks fallbacks{};
  };
  const std::vector<OpPlacement>& placements() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Outputs in order: tensors as they are, lists by their elements, None left out.
std::vector<Tensor> flat_tensors(std::span<const Value> outputs);

}  // namespace qdq
