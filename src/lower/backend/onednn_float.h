// Steps in f32 and bf16 on oneDNN.
#pragma once

#include <memory>
#include <string>
#include <variant>

#include "lower/backend/onednn_primitive.h"

namespace qdq::onednn {

using Compiled = std::variant<std::unique_ptr<CompiledStep>, std::string>;

// Each gives the step made ready, or the reason why not. The order of a sum is oneDNN's own, in f32.

// Steps with f32 weights: weights in the layout that the primitive likes best and rounded to bf16 for a bf16 input;
// bias, residual and activation fused.
Compiled float_convolution(const Plan& plan, const PlanStep& step, PackedWeights& weights);
Compiled float_linear(const Plan& plan, const PlanStep& step, PackedWeights& weights);
// kAdd and kMul of two bf16.
Compiled bf16_binary(const Plan& plan, const PlanStep& step);
// kDequantize with an activation, in bf16.
Compiled bf16_activation(const Plan& plan, const PlanStep& step);
// kQuantize from bf16.
Compiled bf16_quantize(const Plan& plan, const PlanStep& step);
Compiled layer_norm(const Plan& plan, const PlanStep& step);
Compiled attention(const Plan& plan, const PlanStep& step);

}  // namespace qdq::onednn
