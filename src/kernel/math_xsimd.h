// What math_xsimd.cpp, curve_hwy.cpp and sine_hwy.cpp, which write kernel/math.h together, want of each other.
#pragma once

#include <cstdint>

namespace qdq::kernel {

// For arguments of any size, in the caller's thread, four lanes at a time: curve_hwy.cpp takes wider vectors where the
// arguments are such as networks have.
namespace four_lanes {
void exp_f32(const float* x, int64_t n, float* out);
void sigmoid_f32(const float* x, int64_t n, float* out);
void silu_f32(const float* x, int64_t n, float* out);

}  // namespace four_lanes

// sin(x + quadrant * pi/2) in double: the quarter turn nearest to x is taken off in two parts, the rest goes through
// Taylor's series, whose first missing term is below 2^-40 of the result. Beyond kMostSineArgument, whole turns are
// taken off first.
float sine(float value, int64_t quadrant);
inline constexpr float kMostSineArgument = 1e15f;
inline constexpr double kQuarterTurns = 0.63661977236758134;  // in 1
inline constexpr double kQuarterTurn = 1.5707963267341256, kQuarterRest = 6.0771005065061922e-11;
inline constexpr double kSineSeries[] = {-1 / 6.0, 1 / 120.0, -1 / 5040.0, 1 / 362880.0, -1 / 39916800.0};
inline constexpr double kSineDivisor = 6227020800.0;
inline constexpr double kCosineSeries[] = {-1 / 2.0, 1 / 24.0, -1 / 720.0, 1 / 40320.0, -1 / 3628800.0};
inline constexpr double kCosineDivisor = 479001600.0;

}  // namespace qdq::kernel
