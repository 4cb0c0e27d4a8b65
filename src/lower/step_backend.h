// Who runs the steps of a plan.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "lower/plan.h"

namespace qdq {

// One step made ready: weights packed, primitive or kernel chosen, for the sizes of one specialized plan. It owns all
// that it needs.
class CompiledStep {
 public:
  virtual ~CompiledStep() = default;
  // Bytes of working memory that run() wants; all steps of a session share the largest.
  virtual size_t scratch_bytes() const { return 0; }
  // Inputs as in PlanStep::inputs, each buffer's bytes as its PlanBuffer says; `scratch` is 64-byte aligned. Buffers in
  // the arena are 64-byte aligned, views and those of the caller as their elements are. `output` equals an input only
  // as PlanStep::in_place_input allows. Throws only what comes from outside (out of memory). Uses num_threads()
  // threads; the bytes written do not depend on it.
  virtual void run(std::span<const std::byte* const> inputs, std::byte* output, std::byte* scratch) = 0;
  // What was chosen, for people: "brgconv:avx512_core_vnni", "conv 3x3 dot8". One line.
  virtual std::string description() const = 0;
};

class StepBackend {
 public:
  virtual ~StepBackend() = default;
  virtual std::string_view name() const = 0;
  // Whether the backend has such steps that are worth a plan: plans are made where some backend has convolutions and
  // linear layers.
  virtual bool has(PlanStep::Kind kind) const = 0;
  // Whether that holds for convolutions and linear layers with f32 weights, too.
  virtual bool has_floats() const { return false; }
  // Why steps in bf16 are slow: what the processor or the backend lacks, and what is done instead; empty if they are
  // not.
  virtual std::string bf16_obstacle() const {
    return "its kernels compute no bfloat16; plain loops give the same numbers, and are slower than float32";
  }
  // Whether its sums of u8 times s8 would saturate at 16 bits, so that products of such are left to others.
  virtual bool int8_saturates() const { return false; }
  // The step of a specialized plan made ready, or the reason why not ("a residual in f32", "groups of 3 channels"); the
  // next backend is asked then. A backend keeps nothing of the plan: what it needs of `plan` and `step` it copies
  // (tensors share their bytes when copied).
  virtual std::variant<std::unique_ptr<CompiledStep>, std::string> compile(const Plan& plan, const PlanStep& step) = 0;
};

// oneDNN's int8 primitives; null in builds without oneDNN (WASM). May differ from the formulas of plan.h by one step of
// the output.
std::unique_ptr<StepBackend> make_onednn_steps();
// The portable kernels of kernel/: the bytes of the formulas of plan.h, natively and in WASM.
std::unique_ptr<StepBackend> make_simd_steps();
// Plain loops that follow plan.h to the letter: what the others are tested against. Takes every step.
std::unique_ptr<StepBackend> make_reference_steps();

}  // namespace qdq
