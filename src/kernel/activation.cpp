#include "kernel/activation.h"

#include <algorithm>

#include "kernel/math.h"
#include "kernel/pointwise.h"

namespace qdq::kernel {

std::string_view to_string(Activation::Kind kind) {
  switch (kind) {
    case Activation::Kind::kNone: return "none";
    case Activation::Kind::kClamp: return "clamp";
    case Activation::Kind::kLeakyRelu: return "leaky_relu";
    case Activation::Kind::kHardSwish: return "hard_swish";
    case Activation::Kind::kHardSigmoid: return "hard_sigmoid";
    case Activation::Kind::kSigmoid: return "sigmoid";
    case Activation::Kind::kSilu: return "silu";
    case Activation::Kind::kNearSilu: return "near_silu";
    case Activation::Kind::kGelu: return "gelu";
    case Activation::Kind::kGeluTanh: return "gelu_tanh";
    case Activation::Kind::kTanh: return "tanh";
  }
  return "";
}

void activate_f32(const Activation& activation, const float* x, int64_t n, float* out) {
  switch (activation.kind) {
    case Activation::Kind::kNone:
      if (x != out) std::copy_n(x, n, out);
      return;
    case Activation::Kind::kClamp:
      return clamp_f32(x, n, static_cast<float>(activation.low), static_cast<float>(activation.high), out);
    case Activation::Kind::kLeakyRelu: return leaky_relu_f32(x, n, static_cast<float>(activation.slope), out);
    case Activation::Kind::kHardSwish: return hardswish_f32(x, n, out);
    case Activation::Kind::kHardSigmoid: return hardsigmoid_f32(x, n, out);
    case Activation::Kind::kSigmoid: return sigmoid_f32(x, n, out);
    case Activation::Kind::kSilu: return silu_f32(x, n, out);
    case Activation::Kind::kNearSilu: return near_silu_f32(x, n, out);
    case Activation::Kind::kGelu: return gelu_f32(x, n, out);
    case Activation::Kind::kGeluTanh: return gelu_tanh_f32(x, n, out);
    case Activation::Kind::kTanh: return tanh_f32(x, n, out);
  }
}

}  // namespace qdq::kernel
