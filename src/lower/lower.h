// From a program to a session that runs it on backends.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/program.h"
#include "op/op.h"

namespace qdq {

class OpBackend;    // exec/op_backend.h
class StepBackend;  // lower/step_backend.h
struct Plan;        // lower/plan.h

// Float convolutions, linear layers and matrix products as PyTorch 2.6 runs them on one thread of this processor: on
// oneDNN and on OpenBLAS, in the same order of summation. A calibration on this backend therefore finds PyTorch's
// ranges, but not the bits of the portable backend, so it is used only on request. Null in builds without oneDNN
// (WASM).
std::unique_ptr<OpBackend> make_onednn_ops();

// The instruction with which the "simd" backend multiplies integers on this machine, in words: "16-bit dot product".
std::string_view integer_products();

// Whether sums of u8 times s8 saturate at 16 bits in oneDNN and ONNX Runtime on this processor (no VNNI) unless
// activations lie in 0..127 or weights in -64..63 (reduce_range). Sessions run such products on kernels that are exact.
// False in builds without oneDNN.
bool int8_products_saturate();

// The names that `LowerOptions::backends` may hold, best first: "onednn" (native builds), "simd", "reference".
std::vector<std::string_view> backend_names();

struct LowerOptions {
  // Tried in this order, and after them the reference operators. Empty: all backends of the build, best first.
  std::vector<std::string> backends;
  // Whether dq -> op -> q is fused into integer steps where a backend has them, and batch norms are folded into the
  // float convolutions before them. The results may differ from those of the graph run node by node (false) by one
  // quantization step, float ones by a rounding error.
  bool fuse = true;
  // Whether what is not quantized is computed in bfloat16, as lower/mixed_bf16.h says (with int8 layers: PyTorch's
  // int8-mixed-bf16). Where the processor or the first backend has no instructions for it plain loops compute the same,
  // rounded behind each operator as autocast's graph has it, slowly; Session::warnings() says so.
  bool bf16 = false;
  // Backends of one's own, asked for every fused step before those of the build, in this order. What they refuse goes
  // to the next; sessions of this option share them, so that they must bear calls from the threads that run sessions.
  std::vector<std::shared_ptr<StepBackend>> step_backends{};
};

// A program made ready to run again and again. It owns its program, and the state of one that writes to its buffers
// (ExportedProgram.graph_signature.buffers_to_mutate, or operators in place): a run begins with what the last one left,
// the first with what the program has; the program that was lowered, and other sessions of it, never change.
class Session {
 public:
  Session(Program program, const LowerOptions& options);
  ~Session();
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;

  // As Interpreter::run. Integer steps are compiled at the first run with inputs of new sizes; a program whose sizes
  // follow from values is lowered anew for each of these (lower/known_sizes.h). One run at a time:
  // throws Error{kInvalidArgument} where another thread, or an operator that is running, runs this session already.
  std::vector<Tensor> run(std::span<const Tensor> inputs);
  // As Interpreter::run_values, for programs that take or give lists of tensors.
  std::vector<Value> run_values(std::span<const Value> inputs);

  // Gives the buffers that runs write to the values that they have in the program. One without such buffers stays as it
  // is.
  void reset();

  // What ran and for how long: a fused step, or a node that no plan took.
  struct Timing {
    // "conv2d_3", "convolution" or the node's target, "onednn", "brgconv:avx512_core_vnni"
    std::string name, what, backend, description;
    double seconds = 0;
    double operations = 0;  // multiplications and additions of a convolution, linear layer or attention; 0 for all else
  };
  // run(), appending to `timings` in execution order.
  std::vector<Tensor> run(std::span<const Tensor> inputs, std::vector<Timing>& timings);
  // The same timings, but each the median of `repeats` executions of a step in a row, its data in the cache: what its
  // kernel takes with nothing around it. Nodes that no plan took are executed once.
  void run_repeated(std::span<const Tensor> inputs, size_t repeats, std::vector<Timing>& timings);

  // Requests that this build or processor cannot meet, and what costs speed on it: one sentence each.
  const std::vector<std::string>& warnings() const;

  // What is run: the plans' nodes are calls of "plan_<i>".
  const Program& program() const;
  // The plans by number, with symbolic sizes: fused calls in their order, their weights, and the qparams of all values.
  const std::vector<Plan>& plans() const;

  // Who runs a node of the program that was lowered, and why the others refused.
  struct Placement {
    std::string node, target;
    // the fused step that the node is part of, by the name of its last node; empty: it runs on its own
    std::string step;
    std::string backend, description;
    std::vector<std::pair<std::string, std::string>> refusals{};  // (backend, or "fusion", and the reason)
    // How many runs so far the backend left to the reference loops because of the values that it was given, and the
    // reason of the last one. Always 0 for a fused step.
    uint64_t fallbacks = 0;
    std::string fallback_reason{};
  };
  // In execution order, without the nodes that were computed once (dequantized weights) or folded into weights (batch
  // norms). Compiles the steps if nothing ran yet, for the sizes that the program was exported with.
  std::vector<Placement> placements();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Chooses a backend for every node. Constant subgraphs (dequantized weights) are computed once, here.
// Throws Error{kInvalidArgument} for a backend name that the build does not have, for `bf16` without `fuse`
// or with backends that have no fused steps; Error{kUnsupported} for `bf16` and a program whose sizes are not known.
Session lower(const Program& program, const LowerOptions& options = {});

}  // namespace qdq
