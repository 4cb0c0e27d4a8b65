// A pass over a finished plan: average pools that round their input themselves.
#pragma once

#include <vector>

#include "lower/plan.h"

namespace qdq {

// Squeeze and excitation has an f32 value that is multiplied later and, rounded to u8, averaged now. Where nobody else
// reads the rounded value, the pool rounds as it reads:
//
//   x -> quantize -> q -> average_pool        becomes        x -> average_pool with PlanStep::rounding
//
// The integers stay the same. Returns for every old step the new index of the step that does its work; empty if nothing
// changed.
std::vector<size_t> round_in_pools(Plan& plan);

}  // namespace qdq
