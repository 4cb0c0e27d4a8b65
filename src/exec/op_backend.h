// Who runs the operators of a program.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "exec/tail.h"
#include "op/written_attributes.h"
#include "op/op.h"

namespace qdq {

// One node made ready to run by a backend: packed weights, chosen kernel.
class CompiledOp {
 public:
  virtual ~CompiledOp() = default;
  // The node's result for arguments in schema order (defaults filled in).
  virtual Value run(const Call<Tensor>& call) = 0;
  // The same with what is behind the node done to it, if the tail takes the result: stretch by stretch as they are
  // written if the operator overrides this, else when all is written.
  virtual Value run(const Call<Tensor>& call, Tail& tail);
  // As part of a tail: the loop that writes the node's result over `out`, which is the call's argument of that shape
  // and not written yet; the call outlives the loop. Nothing if the operator cannot work so, or not for such arguments.
  virtual Tail::Loop loop_over(const Call<Tensor>& call, const Tensor& out) const;
  // Whether it ever has such a loop.
  virtual bool may_be_tail() const { return false; }

  // The runs that this operator left to the reference, because only the values that came told that it cannot take
  // them, and why it left the last one.
  struct Fallbacks {
    uint64_t runs = 0;
    std::string_view reason;
  };
  const Fallbacks& fallbacks() const { return fallbacks_; }

 protected:
  // The node's result by the reference operator. `reason` is a literal: "its input is empty".
  Value run_reference(const Call<Tensor>& call, std::string_view reason);

 private:
  Fallbacks fallbacks_;
};

// Somebody who can run operators faster than the reference.
class OpBackend {
 public:
  virtual ~OpBackend() = default;
  virtual std::string_view name() const = 0;
  // A compiled operator, or the reason why this node is refused ("dtype int8", "dilation 2"); the next backend is asked
  // then. A backend decides by what Node::meta tells. Where only the values of a run tell, the operator runs the
  // reference and says so (CompiledOp::run_reference). `written`: of the node's program; other attributes keep their
  // values, and may be packed once.
  virtual std::variant<std::unique_ptr<CompiledOp>, std::string> compile(const Node& node,
                                                                         const WrittenAttributes& written) = 0;
};

// The portable float kernels (kernel/): the same bits natively and in WASM, for any SIMD width and number of threads.
// Calibration runs on it, so that both builds write the same file.
std::unique_ptr<OpBackend> make_simd_ops();

// A program that is ready to run: inputs in the order of its placeholders, outputs in that of its output node.
using ProgramRunner = std::function<std::vector<Value>(std::span<const Value> inputs)>;
using ProgramPreparer = std::function<ProgramRunner(const Program& program)>;

// Runs the operators of Family::kControlFlow by what `prepare` makes of their programs, once for each when a node is
// compiled. `name` is that of whoever runs most of them.
// An empty reason refuses all other nodes.
std::unique_ptr<OpBackend> make_control_flow_ops(std::string_view name, ProgramPreparer prepare);

}  // namespace qdq
