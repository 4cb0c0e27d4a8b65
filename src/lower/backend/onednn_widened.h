// Steps in bfloat16 on processors that have no instructions for it.
#pragma once

#include <functional>

#include "lower/backend/simd_steps.h"
#include "lower/plan.h"

namespace qdq::onednn {

// Whether some buffer of the step is bf16.
bool is_in_bf16(const Plan& plan, const PlanStep& step);

using CompileStep = std::function<Compiled(const Plan& plan, const PlanStep& step)>;

// The step by what `compile` makes of it in f32: operands become floats, which is exact, and the result is rounded to
// bf16 once, as primitives in bf16 do it. Takes steps that are in bf16.
Compiled widened(const Plan& plan, const PlanStep& step, const CompileStep& compile);

}  // namespace qdq::onednn
