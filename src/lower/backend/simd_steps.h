// What the steps on the portable kernels share.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <variant>

#include "kernel/conv_int8.h"
#include "kernel/requantize.h"
#include "lower/step_backend.h"

namespace qdq::simd {

using Compiled = std::variant<std::unique_ptr<CompiledStep>, std::string>;

// A step that is one function of its inputs' bytes.
class FunctionStep : public CompiledStep {
 public:
  using Run = std::function<void(std::span<const std::byte* const> inputs, std::byte* output, std::byte* scratch)>;
  FunctionStep(std::string description, Run run, size_t scratch_bytes = 0)
      : description_(std::move(description)), run_(std::move(run)), scratch_bytes_(scratch_bytes) {}
  size_t scratch_bytes() const override { return scratch_bytes_; }
  void run(std::span<const std::byte* const> inputs, std::byte* output, std::byte* scratch) override {
    run_(inputs, output, scratch);
  }
  std::string description() const override { return description_; }

 private:
  std::string description_;
  Run run_;
  size_t scratch_bytes_;
};

inline Compiled made(std::string description, FunctionStep::Run run, size_t scratch_bytes = 0) {
  return std::make_unique<FunctionStep>(std::move(description), std::move(run), scratch_bytes);
}

inline const uint8_t* u8(const std::byte* bytes) { return reinterpret_cast<const uint8_t*>(bytes); }
inline uint8_t* u8(std::byte* bytes) { return reinterpret_cast<uint8_t*>(bytes); }
inline const float* f32(const std::byte* bytes) { return reinterpret_cast<const float*>(bytes); }
inline float* f32(std::byte* bytes) { return reinterpret_cast<float*>(bytes); }

// The plan's numbers as the kernels take them.
kernel::Requantize requantize_of(const Requantization& from, const PlanBuffer& out);

// A product in s8 as the kernels take it: a linear layer is a convolution of one column.
struct Int8Product {
  kernel::Conv2d conv;
  kernel::ConvInt8Images images;    // extents and strides
  bool interleaves_frames = false;  // weights [OC, C, kD, ...] are taken as [OC, kD, C, ...]
};
std::variant<Int8Product, std::string> int8_product_of(const Plan& plan, const PlanStep& step);

// A step of the kind kArrange, or a kDequantize that only changes the order, between buffers of one dtype.
Compiled arrange(const Plan& plan, const PlanStep& step);
// Whether the step moves dense rows, every second element of them, pairs or bytes of a matrix: in each, this backend
// takes less time than oneDNN's reorder.
bool moves_rows(const Plan& plan, const PlanStep& step);

// The steps of sequence models and of ranges that a run finds: kDynamicLinear, kGroupLinear, kDynamicConvolution,
// kDynamicRound, kLayerNorm, kAttention and kRotary.
Compiled compile_sequence_step(const Plan& plan, const PlanStep& step);

}  // namespace qdq::simd
