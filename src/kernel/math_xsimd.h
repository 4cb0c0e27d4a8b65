// What math_xsimd.cpp and curve_hwy.cpp, which write kernel/math.h together, want of each other.
#pragma once

#include <cstdint>

namespace qdq::kernel {

// For arguments of any size, in the caller's thread, four lanes at a time: curve_hwy.cpp takes wider vectors where the
// arguments are such as networks have.
namespace four_lanes {
void exp_f32(const float* x, int64_t n, float* out);
void sigmoid_f32(const float* x, int64_t n, float* out);
void silu_f32(const float* x, int64_t n, float* out);
void gelu_f32(const float* x, int64_t n, float* out);

}  // namespace four_lanes
}  // namespace qdq::kernel
