// Floats of a plan in bfloat16.
#pragma once

#include <cstddef>
#include <vector>

#include "lower/plan.h"

namespace qdq {

// Rewrites a plan whose sizes are still symbolic as torch.autocast("cpu", torch.bfloat16) of PyTorch 2.6 runs such a
// graph (aten/src/ATen/autocast_mode.h), which with int8 layers is called int8-mixed-bf16:
//   - convolutions, linear layers with f32 weights and attention read bf16 and give bf16; int8 layers give bf16 where
//     they gave f32; biases of both are bf16;
//   - other steps give bf16 if all that they read is bf16, else f32; what rounds to u8 rounds from f32, or straight
//     from bf16;
//   - linear layers that quantize by the range of each run stay between f32, and so does what enters the plan. What
//     leaves it is f32, too, but holds the bf16 that its step gives.
// Sums are f32 in either case. Steps that convert are put in where needed. Returns where each old step is now.
std::vector<size_t> keep_floats_in_bf16(Plan& plan);

}  // namespace qdq
