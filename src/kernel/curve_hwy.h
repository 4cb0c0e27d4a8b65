// Functions of kernel/activation.h on vectors, to the bits of kernel/math.h and kernel/pointwise.h;
// included by the room's Highway files after hwy/highway.h, once a target.
#if defined(QDQ_KERNEL_CURVE_HWY_H) == defined(HWY_TARGET_TOGGLE)
#ifdef QDQ_KERNEL_CURVE_HWY_H
#undef QDQ_KERNEL_CURVE_HWY_H
#else
#define QDQ_KERNEL_CURVE_HWY_H
#endif

#include "hwy/highway.h"
#include "kernel/requantize.h"

HWY_BEFORE_NAMESPACE();
namespace qdq::kernel {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// 1.5 * 2^23: a float below 2^22 added to it is rounded half to even to an integer that its bits show.
constexpr float kRounder = 12582912.0f;

// min(max(x, low), high) that leaves NaN alone on every machine. Where the instructions give their second operand for
// NaN and for two zeros, that is what they compute.
template <class V> HWY_INLINE V clamp_real(V x, V low, V high) {
#if HWY_ARCH_X86 || HWY_ARCH_WASM
  return hn::Min(high, hn::Max(low, x));
#else
  const V raised = hn::IfThenElse(hn::Lt(x, low), low, x);
  return hn::IfThenElse(hn::Gt(raised, high), high, raised);
#endif
}

// Constants are read from memory that the compiler knows nothing of, or it would make each anew where registers are
// short: WASM's engines take three instructions for that and one to load it.
HWY_INLINE const float* hidden(const float* constants) {
  __asm__("" : "+r"(constants));
  return constants;
}

// For |x| <= kExpRange. The last three are 1, kExpRange and the square root of a half.
constexpr float kExpRange = 80.0f;
constexpr float kExpConstants[] = {1.44269504f,   kRounder,      0.693359375f,  -2.12194440e-4f,
                                   1.3997796e-3f, 8.3955629e-3f, 4.1665401e-2f, 1.6666277e-1f,
                                   0.5f,          1.0f,          kExpRange,     0.70710678118654752f};

// exp(-x): the polynomial under kernel/math.h for the rest behind a multiple of log 2, the signs turned so that -x is
// never made. `c` is kExpConstants.
template <class DF> HWY_INLINE hn::Vec<DF> exp_of_minus(DF df, const float* c, hn::Vec<DF> x) {
  const hn::Rebind<int32_t, DF> d;
  const auto constant = [&](int i) HWY_ATTR { return hn::Set(df, c[i]); };
  const auto rounded = hn::Add(hn::Mul(x, constant(0)), constant(1));
  const auto turns = hn::Sub(rounded, constant(1));
  const auto r = hn::Sub(hn::Sub(x, hn::Mul(turns, constant(2))), hn::Mul(turns, constant(3)));
  auto p = hn::Sub(hn::Mul(r, constant(4)), constant(5));
  p = hn::Add(hn::Mul(r, p), constant(6));
  p = hn::Sub(hn::Mul(r, p), constant(7));
  p = hn::Add(hn::Mul(r, p), constant(8));
  const auto near_one = hn::Add(hn::Sub(hn::Mul(p, hn::Mul(r, r)), r), constant(9));
  // The low bits of `rounded` are the power of two to divide by.
  return hn::BitCast(df, hn::Sub(hn::BitCast(d, near_one), hn::ShiftLeft<23>(hn::BitCast(d, rounded))));
}

// near_silu_f32 of kernel/pointwise.h, with its constants in registers. A minimax fit of 1 / (1 + exp(-x)) that weighs
// errors where activations are many and meets 0 and 1 at the bounds, in f32 as well. The two cubics share what their
// factors have in common, which takes four operations off them.
constexpr float kNearSiluConstants[] = {218.67677f, 7078.0073f, 1653.505f, -21836.707f,
                                        291.9163f,  6740225.5f, 64.0f,     kNearSiluBound};
constexpr float kNearSiluScale = 1.0f / 128.0f;
template <class DF> struct NearSilu {
  using V = hn::Vec<DF>;
  V shared, p1, p0, q1, q0, rest, half, high, low;

  HWY_INLINE explicit NearSilu(const float* c = hidden(kNearSiluConstants))
      : shared(hn::Set(DF(), c[0])), p1(hn::Set(DF(), c[1])), p0(hn::Set(DF(), c[2])), q1(hn::Set(DF(), c[3])),
        q0(hn::Set(DF(), c[4])), rest(hn::Set(DF(), c[5])), half(hn::Set(DF(), c[6])), high(hn::Set(DF(), c[7])),
        low(hn::Neg(high)) {}
  HWY_INLINE V bounded(V x) const { return hn::Min(hn::Max(x, low), high); }
  // The cubics at c, which is x within the bounds: above and below the line.
  HWY_INLINE V above(V c, V& below) const {
    const V y = hn::Mul(c, c), s = hn::Mul(hn::Add(y, shared), y);
    below = hn::Add(hn::Mul(hn::Add(s, q1), hn::Add(y, q0)), rest);
    return hn::Mul(c, hn::Mul(hn::Add(s, p1), hn::Add(y, p0)));
  }
  // The function at x / kNearSiluScale.
  HWY_INLINE V unscaled(V x, V above, V below) const { return hn::Mul(x, hn::Add(hn::Div(above, below), half)); }
  HWY_INLINE V operator()(V x) const {
    V below;
    const V over = above(bounded(x), below);
    return hn::Mul(unscaled(x, over, below), hn::Set(DF(), kNearSiluScale));
  }
};

// hardsigmoid_f32 and hardswish_f32 of kernel/pointwise.h.
constexpr float kHardConstants[] = {3.0f, 6.0f};
template <class DF> struct Hard {
  using V = hn::Vec<DF>;
  V zero, three, six;

  HWY_INLINE explicit Hard(const float* c = hidden(kHardConstants))
      : zero(hn::Zero(DF())), three(hn::Set(DF(), c[0])), six(hn::Set(DF(), c[1])) {}
  HWY_INLINE V shifted_relu6(V x) const { return clamp_real(hn::Add(x, three), zero, six); }
  HWY_INLINE V sigmoid(V x) const { return hn::Div(shifted_relu6(x), six); }
  HWY_INLINE V swish(V x) const { return hn::Div(hn::Mul(x, shifted_relu6(x)), six); }
};

// erf(x) as kernel/math.h has it: below 2/3 its series (highest power first), beyond that 1 - exp(-x^2) p(x / (1 + x) -
// 0.4) with the sign of x. The last two are 2/3 and 0.4.
constexpr double kErfFactor = 1.1283791670955126;
constexpr float kErfConstants[] = {static_cast<float>(kErfFactor / -75600),
                                   static_cast<float>(kErfFactor / 9360),
                                   static_cast<float>(kErfFactor / -1320),
                                   static_cast<float>(kErfFactor / 216),
                                   static_cast<float>(kErfFactor / -42),
                                   static_cast<float>(kErfFactor / 10),
                                   static_cast<float>(kErfFactor / -3),
                                   static_cast<float>(kErfFactor - 1),
                                   -2.62829995f,
                                   6.70290899f,
                                   -6.40948725f,
                                   3.26076579f,
                                   -1.36451399f,
                                   0.156276464f,
                                   0.142050847f,
                                   0.384356916f,
                                   0.160370469f,
                                   -1.13703561f,
                                   0.539284408f,
                                   2.0f / 3.0f,
                                   0.4f};

template <class DF> HWY_INLINE hn::Vec<DF> erf_real(DF df, const float* exp_constants, const float* c, hn::Vec<DF> x) {
  const auto constant = [&](int i) HWY_ATTR { return hn::Set(df, c[i]); };
  const auto one = hn::Set(df, exp_constants[9]);
  const auto size = hn::Abs(x), square = hn::Mul(x, x);
  auto series = constant(0);
#pragma GCC unroll 8
  for (int i = 1; i < 8; ++i) series = hn::Add(hn::Mul(series, square), constant(i));
  const auto small = hn::Add(x, hn::Mul(x, series));
  const auto z = hn::Sub(hn::Div(size, hn::Add(one, size)), constant(20));
  auto p = constant(8);
#pragma GCC unroll 16
  for (int i = 9; i < 19; ++i) p = hn::Add(hn::Mul(z, p), constant(i));
  const auto power = exp_of_minus(df, exp_constants, hn::Min(square, hn::Set(df, exp_constants[10])));
  const auto large = hn::CopySign(hn::Sub(one, hn::Mul(power, p)), x);
  return hn::IfThenElse(hn::Lt(size, constant(19)), small, large);
}

// sigmoid, SiLU and GELU of kernel/math.h within the range of the exponential; c is kExpConstants, e kErfConstants.
template <class DF> HWY_INLINE hn::Vec<DF> sigmoid_real(DF df, const float* c, hn::Vec<DF> x) {
  const auto one = hn::Set(df, 1.0f);
  return hn::Div(one, hn::Add(one, exp_of_minus(df, c, x)));
}
template <class DF> HWY_INLINE hn::Vec<DF> silu_real(DF df, const float* c, hn::Vec<DF> x) {
  return hn::Div(x, hn::Add(hn::Set(df, 1.0f), exp_of_minus(df, c, x)));
}
template <class DF> HWY_INLINE hn::Vec<DF> gelu_real(DF df, const float* c, const float* e, hn::Vec<DF> x) {
  const auto erf = erf_real(df, c, e, hn::Mul(x, hn::Set(df, c[11])));
  return hn::Mul(hn::Mul(x, hn::Set(df, c[8])), hn::Add(hn::Set(df, 1.0f), erf));
}

// out[i] = activation(x[i]) for n elements, a multiple of a vector's lanes. x and out are aligned and do not alias.
template <class DF>
HWY_NOINLINE void activate(DF df, const Requantize& q, const float* HWY_RESTRICT x, int64_t n,
                           float* HWY_RESTRICT out) {
  constexpr int64_t kWidth = static_cast<int64_t>(HWY_MAX_LANES_D(DF));
  const auto map = [&](auto&& f) HWY_ATTR {
    for (int64_t i = 0; i < n; i += kWidth) hn::Store(f(hn::Load(df, x + i)), df, out + i);
  };
  const float* c = hidden(kExpConstants);
  const auto one = hn::Set(df, 1.0f);
  // Whether all of x were within the range of the exponential.
  auto inside = hn::Le(one, one);
  const auto map_inside = [&](auto&& f) HWY_ATTR {
    map([&](auto u) HWY_ATTR {
      inside = hn::And(inside, hn::Le(hn::Abs(u), hn::Set(df, c[10])));
      return f(u);
    });
    return hn::AllTrue(df, inside);
  };
  const Hard<DF> hard;
  switch (q.curve.kind) {
    case Activation::Kind::kClamp: {
      const auto low = hn::Set(df, static_cast<float>(q.curve.low)),
                 high = hn::Set(df, static_cast<float>(q.curve.high));
      return map([&](auto u) HWY_ATTR { return clamp_real(u, low, high); });
    }
    case Activation::Kind::kHardSwish: return map([&](auto u) HWY_ATTR { return hard.swish(u); });
    case Activation::Kind::kHardSigmoid: return map([&](auto u) HWY_ATTR { return hard.sigmoid(u); });
    case Activation::Kind::kSigmoid:
      if (map_inside([&](auto u) HWY_ATTR { return sigmoid_real(df, c, u); })) return;
      break;
    case Activation::Kind::kSilu:
      if (map_inside([&](auto u) HWY_ATTR { return silu_real(df, c, u); })) return;
      break;
    case Activation::Kind::kNearSilu: {
      const NearSilu<DF> silu;
      return map([&](auto u) HWY_ATTR { return silu(u); });
    }
    case Activation::Kind::kGelu: {
      const float* e = hidden(kErfConstants);
      if (map_inside([&](auto u) HWY_ATTR { return gelu_real(df, c, e, u); })) return;
      break;
    }
    default: break;
  }
  q.activation(x, n, out);
}

}  // namespace HWY_NAMESPACE
}  // namespace qdq::kernel
HWY_AFTER_NAMESPACE();

#endif
