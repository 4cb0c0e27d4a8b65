// Runs a program node by node.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include "exec/tail.h"
#include "op/op.h"

namespace qdq {

// One node made ready to run by a backend: packed weights, chosen kernel.
class CompiledOp {
 public:
  virtual ~CompiledOp() = default;
  // The node's result for arguments in schema order (defaults filled in).
  virtual Value run(const Call<Tensor>& call) = 0;
  // The same with what is behind the node done to it, if the tail takes the result: stretch by stretch as they are written if the operator
  // overrides this, else when all is written.
  virtual Value run(const Call<Tensor>& call, Tail& tail);
  // As part of a tail: the loop that writes the node's result over `out`, which is the call's argument of that shape and not written yet; the
  // call outlives the loop. Nothing if the operator cannot work so, or not for such arguments.
  virtual Tail::Loop loop_over(const Call<Tensor>& call, const Tensor& out) const;
};

// Somebody who can run operators faster than the reference.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view name() const = 0;
  // A compiled operator, or the reason why this node is refused ("dtype int8", "dilation 2"); the next backend is asked then.
  // Refusing at run time is not possible, so a backend decides by what Node::meta tells or handles all that can come.
  virtual std::variant<std::unique_ptr<CompiledOp>, std::string> compile(const Node& node, const Program& program) = 0;
};

// The portable float kernels (kernel/): the same bits natively and in WASM, for any SIMD width and number of threads.
// Calibration runs on it, so that both builds write the same file.
std::unique_ptr<Backend> make_simd_backend();

// Candidates are asked in order; the reference operators close the list. The program must outlive the interpreter and keep its
// nodes while it lives; attribute tensors are read at every run.
class Interpreter {
 public:
  // Throws Error{kUnsupported} listing all unknown operators.
  Interpreter(const Program& program, std::vector<Backend*> backends);
  ~Interpreter();
  Interpreter(Interpreter&&) noexcept;
  Interpreter& operator=(Interpreter&&) noexcept;

  // Answers call_module nodes (observers): gets the node and its resolved arguments, returns its result.
  using ModuleHandler = std::function<Value(const Node& node, std::span<const Value> args)>;
  void set_module_handler(ModuleHandler handler);
  // Answers them instead where the range of the first argument is known already: it was taken while the argument was written. That is done
  // only for nodes that `wants` it for (all, if it is empty).
  using RangedModuleHandler = std::function<Value(const Node& node, std::span<const Value> args, const kernel::MinMax& range)>;
  using RangeWish = std::function<bool(const Node& node)>;
  void set_ranged_module_handler(RangedModuleHandler handler, RangeWish wants = {});
  // Called after every node that ran, with its result. No node runs as part of another's tail then.
  using NodeHook = std::function<void(const Node& node, const Value& value)>;
  void set_node_hook(NodeHook hook);

  // Runs the graph on the user inputs in order and returns the user outputs, flat. A value is freed after its last use.
  // Throws Error{kInvalidArgument} naming the input whose number, dtype or shape does not fit; errors inside a node carry
  // node and op; Error{kOutOfMemory} before anything runs if the results cannot fit into what memory is left, where that is known.
  std::vector<Tensor> run(std::span<const Tensor> inputs);

  // Who runs each call_function node, and why the others refused.
  struct Placement {
    const Node* node;
    std::string backend;
    std::vector<std::pair<std::string, std::string>> refusals;  // (backend, reason)
  };
  const std::vector<Placement>& placements() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace qdq
