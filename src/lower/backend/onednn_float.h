// Convolutions and linear layers in f32 on oneDNN.
#pragma once

#include <memory>
#include <string>
#include <variant>

#include "lower/backend/onednn_primitive.h"

namespace qdq::onednn {

// Steps with f32 weights made ready: weights in the layout that the primitive likes best, bias, residual and activation fused into it. The order
// of a sum is oneDNN's own. Or the reason why not.
std::variant<std::unique_ptr<CompiledStep>, std::string> float_convolution(const Plan& plan, const PlanStep& step, PackedWeights& weights);
std::variant<std::unique_ptr<CompiledStep>, std::string> float_linear(const Plan& plan, const PlanStep& step, PackedWeights& weights);

}  // namespace qdq::onednn
