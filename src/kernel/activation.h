// The activation functions that plans, kernels and backends know by name, all in one list.
#pragma once

#include <cstdint>
#include <string_view>

namespace qdq::kernel {

// A function of one real. Bounds and parameters are in reals.
struct Activation {
  enum class Kind : uint8_t {
    kNone,
    kClamp,        // min(max(t, low), high): ReLU, ReLU6, hardtanh
    kLeakyRelu,    // t > 0 ? t : t * slope
    kHardSwish,    // t * min(max(t + 3, 0), 6) / 6
    kHardSigmoid,  // min(max(t + 3, 0), 6) / 6
    kSigmoid,
    kSilu,
    kNearSilu,  // near_silu_f32 of kernel/pointwise.h; only in a requantization, behind weights in s8
    kGelu,
    kGeluTanh,
    kTanh,  // as in kernel/math.h
  };
  Kind kind = Kind::kNone;
  double low = 0, high = 0;  // kClamp; -inf and inf where there is no bound
  double slope = 0;          // kLeakyRelu
  bool operator==(const Activation&) const = default;
};

// "hard_swish"; empty behind the last kind.
std::string_view to_string(Activation::Kind kind);

// out[i] = activation(x[i]) by kernel/math.h and kernel/pointwise.h: the same bits natively and in WASM. `out` may be
// x.
void activate_f32(const Activation& activation, const float* x, int64_t n, float* out);

}  // namespace qdq::kernel
