// The steps of a plan on the portable kernels: the bytes of lower/plan.h's formulas, natively and in WASM.
#include "kernel/quantize.h"
#include "lower/backend.h"

namespace qdq {
namespace {

using Compiled = std::variant<std::unique_ptr<CompiledStep>, std::string>;

// f32 to u8 or u8 to f32 where the storage order stays.
class ConvertStep : public CompiledStep {
 public:
  ConvertStep(const PlanBuffer& from, const PlanBuffer& to) : count_(numel_of(to.sizes)), quantizes_(to.dtype == DType::kU8) {
    const PlanQParams& qparams = quantizes_ ? to.qparams : from.qparams;
    affine_ = {qparams.scale, qparams.zero_point, qparams.qmin, qparams.qmax};
  }
  void run(std::span<const std::byte* const> inputs, std::byte* output, std::byte*) override {
    if (quantizes_) kernel::quantize_f32(reinterpret_cast<const float*>(inputs[0]), count_, affine_, reinterpret_cast<uint8_t*>(output));
    else kernel::dequantize_f32(reinterpret_cast<const uint8_t*>(inputs[0]), count_, affine_, reinterpret_cast<float*>(output));
  }
  std::string description() const override { return quantizes_ ? "quantize" : "dequantize"; }

 private:
  int64_t count_;
  bool quantizes_;
  kernel::Affine affine_;
};

class SimdSteps : public StepBackend {
 public:
  std::string_view name() const override { return "simd"; }
  bool has(PlanStep::Kind kind) const override { return kind == PlanStep::Kind::kQuantize || kind == PlanStep::Kind::kDequantize; }

  Compiled compile(const Plan& plan, const PlanStep& step) override {
    using Kind = PlanStep::Kind;
    const PlanBuffer& out = plan.buffers[step.output];
    const PlanBuffer& in = plan.buffers[step.inputs[0]];
    if (step.kind == Kind::kQuantize || step.kind == Kind::kDequantize) {
      if (in.dtype == out.dtype) return "the dtype stays";
      if (in.channels_last != out.channels_last) return "the storage order changes";
      if (step.activation.kind != Activation::Kind::kNone) return concat("the activation ", to_string(step.activation.kind));
      return std::make_unique<ConvertStep>(in, out);
    }
    return concat("there is no integer kernel for ", to_string(step.kind));
  }
};

}  // namespace

std::unique_ptr<StepBackend> make_simd_steps() { return std::make_unique<SimdSteps>(); }

}  // namespace qdq
