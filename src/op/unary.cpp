// Functions of one operand, element by element: arithmetic, functions that give floats, and predicates.
#include <cmath>

#include "op/elements.h"
#include "op/families.h"
#include "op/math.h"
#include "op/pointwise.h"

namespace qdq {
namespace {

struct Negate {
  template <class C> C operator()(C x) const { return mul_wrapping(x, C(-1)); }
};
struct Absolute {
  template <class C> C operator()(C x) const { return x < 0 ? mul_wrapping(x, C(-1)) : x == 0 ? C(0) : x; }
};
struct Sign {
  template <class C> C operator()(C x) const { return x != x ? C(0) : static_cast<C>((x > 0) - (x < 0)); }
};
struct Square {
  template <class C> C operator()(C x) const { return mul_wrapping(x, x); }
};
struct Round {
  template <class C> C operator()(C x) const {
    if constexpr (std::is_integral_v<C>) return x;
    else return std::nearbyint(x);
  }
};
struct Floor {
  template <class C> C operator()(C x) const {
    if constexpr (std::is_integral_v<C>) return x;
    else return std::floor(x);
  }
};
struct Ceil {
  template <class C> C operator()(C x) const {
    if constexpr (std::is_integral_v<C>) return x;
    else return std::ceil(x);
  }
};
struct Trunc {
  template <class C> C operator()(C x) const {
    if constexpr (std::is_integral_v<C>) return x;
    else return std::trunc(x);
  }
};
Value eval_positive(const Call<Tensor>& call) { return call.tensor(0); }
template <class F> Value eval_unary(const Call<Tensor>& call) {
  const Tensor& x = call.tensor(0);
  const F f{};
  return run_loops(x, x.dtype(), x.dtype(), &f, kWideLoops<F>);
}

// ATen rounds x * 10^n and divides again; n < 0 the other way.
Value eval_round_decimals(const Call<Tensor>& call) {
  const Tensor& x = call.tensor(0);
  const int64_t decimals = call.integer(1);
  if (!is_floating(x.dtype()) || decimals == 0) {
    QDQ_CHECK(is_floating(x.dtype()) || decimals == 0, kInvalidArgument, call.op().target, " rounds ",
              to_string(x.dtype()), " to ", decimals, " decimals");
    return eval_unary<Round>(call);
  }
  const double ten = math::pow(10, std::fabs(static_cast<double>(decimals)));
  const auto f = [=](auto v) {
    const auto power = static_cast<decltype(v)>(ten);
    return decimals < 0 ? std::nearbyint(v / power) * power : std::nearbyint(v * power) / power;
  };
  return run_loops(x, x.dtype(), x.dtype(), &f, kFloatLoops<decltype(f)>);
}
struct Fraction {
  template <class C> C operator()(C x) const {
    if constexpr (std::is_integral_v<C>) return 0;
    else return x - std::trunc(x);
  }
};
Value eval_frac(const Call<Tensor>& call) {
  check_float(call.tensor(0).dtype(), call.op().target);
  return eval_unary<Fraction>(call);
}
// NaN, +inf and -inf become numbers: by default 0 and the largest ones of the dtype.
Value eval_nan_to_num(const Call<Tensor>& call) {
  const Tensor& x = call.tensor(0);
  if (!is_floating(x.dtype())) return x.clone();
  double most = std::numeric_limits<double>::max();
  if (x.dtype() == DType::kF16) most = 65504;
  if (x.dtype() == DType::kBF16) most = 0x1.fep+127;
  if (x.dtype() == DType::kF32) most = std::numeric_limits<float>::max();
  const double nan = call.is_none(1) ? 0 : call.number(1), high = call.is_none(2) ? most : call.number(2),
               low = call.is_none(3) ? -most : call.number(3);
  const auto f = [=](double v) { return v != v ? nan : std::isinf(v) ? (v > 0 ? high : low) : v; };
  return run_loops(x, x.dtype(), x.dtype(), &f, kDoubleLoops<decltype(f)>);
}

struct IsZero {
  template <class C> C operator()(C x) const { return x == 0; }
};
struct IsNaN {
  template <class C> C operator()(C x) const { return x != x; }
};
struct IsInf {
  template <class C> C operator()(C x) const {
    if constexpr (std::is_integral_v<C>) return 0;
    else return std::isinf(x);
  }
};
struct IsPositiveInf {
  template <class C> C operator()(C x) const { return IsInf{}(x) != 0 && x > 0; }
};
struct IsNegativeInf {
  template <class C> C operator()(C x) const { return IsInf{}(x) != 0 && x < 0; }
};
struct IsFinite {
  template <class C> C operator()(C x) const { return x == x && IsInf{}(x) == 0; }
};
struct HasSign {
  template <class C> C operator()(C x) const {
    if constexpr (std::is_integral_v<C>) return x < 0;
    else return std::signbit(x);
  }
};
MetaValue infer_predicate(const Call<TensorMeta>& call) { return tensor_meta(DType::kBool, call.tensor(0).sizes); }
template <class F> Value eval_predicate(const Call<Tensor>& call) {
  const F f{};
  return run_loops(call.tensor(0), call.tensor(0).dtype(), DType::kBool, &f, kWideLoops<F>);
}

Value eval_bitwise_not(const Call<Tensor>& call) {
  const Tensor& x = call.tensor(0);
  QDQ_CHECK(!is_floating(x.dtype()), kInvalidArgument, call.op().target, " needs integers, found ",
            to_string(x.dtype()));
  const bool is_bool = x.dtype() == DType::kBool;
  return map<int64_t>(x.to(DType::kS64), [=](int64_t v) { return is_bool ? v == 0 : ~v; }).to(x.dtype());
}

// Functions that always give floats, computed in double and rounded once.
MetaValue infer_float(const Call<TensorMeta>& call) {
  return tensor_meta(float_dtype(call.tensor(0).dtype), call.tensor(0).sizes);
}
template <double (*F)(double)> Value eval_float(const Call<Tensor>& call) {
  const DType out = float_dtype(call.tensor(0).dtype());
  const auto f = [](double x) { return F(x); };
  return run_loops(call.tensor(0), out, out, &f, kDoubleLoops<decltype(f)>);
}
double sqrt_of(double x) { return std::sqrt(x); }
double rsqrt_of(double x) { return 1 / std::sqrt(x); }
double reciprocal_of(double x) { return 1 / x; }
double log2_of(double x) { return math::log(x) * 0x1.71547652b82fep+0; }
double log10_of(double x) { return math::log(x) * 0x1.bcb7b1526e50ep-2; }

double expit_of(double x) { return 1 / (1 + math::exp(-x)); }
double sinc_of(double x) {
  constexpr double kPi = 0x1.921fb54442d18p+1;
  return x == 0 ? 1 : math::sin(kPi * x) / (kPi * x);
}
double angle_of(double x) { return x != x ? x : x < 0 ? 0x1.921fb54442d18p+1 : 0; }
double deg2rad_of(double x) { return x * 0x1.1df46a2529d39p-6; }
double rad2deg_of(double x) { return x * 0x1.ca5dc1a63c1f8p+5; }
// log(x / (1 - x)) of x held within [eps, 1 - eps].
Value eval_logit(const Call<Tensor>& call) {
  const DType out = float_dtype(call.tensor(0).dtype());
  const double eps = call.is_none(1) ? -1 : call.number(1);
  const auto f = [=](double x) {
    const double p = eps < 0 ? x : x < eps ? eps : x > 1 - eps ? 1 - eps : x;
    return math::log(p / (1 - p));
  };
  return run_loops(call.tensor(0), out, out, &f, kDoubleLoops<decltype(f)>);
}

void add_functions(std::vector<OpDef>& ops) {
  const Roles roles{.activation = 0};
  const auto add = [&](const char* line, Eval eval, Infer infer = infer_like_self) {
    ops.push_back(define(line, infer, eval, roles, Family::kElementwise));
  };
  add("aten::neg(Tensor self) -> Tensor", eval_unary<Negate>);
  add("aten::abs(Tensor self) -> Tensor", eval_unary<Absolute>);
  add("aten::sign(Tensor self) -> Tensor", eval_unary<Sign>);
  add("aten::square(Tensor self) -> Tensor", eval_unary<Square>);
  add("aten::round(Tensor self) -> Tensor", eval_unary<Round>);
  add("aten::floor(Tensor self) -> Tensor", eval_unary<Floor>);
  add("aten::ceil(Tensor self) -> Tensor", eval_unary<Ceil>);
  add("aten::trunc(Tensor self) -> Tensor", eval_unary<Trunc>);
  add("aten::exp(Tensor self) -> Tensor", eval_float<math::exp>, infer_float);
  add("aten::exp_(Tensor(a!) self) -> Tensor(a!)", in_place<eval_float<math::exp>>);
  add("aten::expm1(Tensor self) -> Tensor", eval_float<math::expm1>, infer_float);
  add("aten::log(Tensor self) -> Tensor", eval_float<math::log>, infer_float);
  add("aten::log1p(Tensor self) -> Tensor", eval_float<math::log1p>, infer_float);
  add("aten::log2(Tensor self) -> Tensor", eval_float<log2_of>, infer_float);
  add("aten::log10(Tensor self) -> Tensor", eval_float<log10_of>, infer_float);
  add("aten::erf(Tensor self) -> Tensor", eval_float<math::erf>, infer_float);
  add("aten::sin(Tensor self) -> Tensor", eval_float<math::sin>, infer_float);
  add("aten::cos(Tensor self) -> Tensor", eval_float<math::cos>, infer_float);
  add("aten::tan(Tensor self) -> Tensor", eval_float<math::tan>, infer_float);
  add("aten::asin(Tensor self) -> Tensor", eval_float<math::asin>, infer_float);
  add("aten::acos(Tensor self) -> Tensor", eval_float<math::acos>, infer_float);
  add("aten::atan(Tensor self) -> Tensor", eval_float<math::atan>, infer_float);
  add("aten::sinh(Tensor self) -> Tensor", eval_float<math::sinh>, infer_float);
  add("aten::cosh(Tensor self) -> Tensor", eval_float<math::cosh>, infer_float);
  add("aten::asinh(Tensor self) -> Tensor", eval_float<math::asinh>, infer_float);
  add("aten::acosh(Tensor self) -> Tensor", eval_float<math::acosh>, infer_float);
  add("aten::atanh(Tensor self) -> Tensor", eval_float<math::atanh>, infer_float);
  add("aten::exp2(Tensor self) -> Tensor", eval_float<math::exp2>, infer_float);
  add("aten::erfc(Tensor self) -> Tensor", eval_float<math::erfc>, infer_float);
  add("aten::erfinv(Tensor self) -> Tensor", eval_float<math::erfinv>, infer_float);
  add("aten::lgamma(Tensor self) -> Tensor", eval_float<math::lgamma>, infer_float);
  add("aten::digamma(Tensor self) -> Tensor", eval_float<math::digamma>, infer_float);
  add("aten::sinc(Tensor self) -> Tensor", eval_float<sinc_of>, infer_float);
  add("aten::i0(Tensor self) -> Tensor", eval_float<math::i0>, infer_float);
  add("aten::angle(Tensor self) -> Tensor", eval_float<angle_of>, infer_float);
  add("aten::deg2rad(Tensor self) -> Tensor", eval_float<deg2rad_of>, infer_float);
  add("aten::rad2deg(Tensor self) -> Tensor", eval_float<rad2deg_of>, infer_float);
  add("aten::special_expit(Tensor self) -> Tensor", eval_float<expit_of>, infer_float);
  add("aten::logit(Tensor self, float? eps=None) -> Tensor", eval_logit, infer_float);
  add("aten::frac(Tensor self) -> Tensor", eval_frac);
  add("aten::sgn(Tensor self) -> Tensor", eval_unary<Sign>);
  add("aten::positive(Tensor(a) self) -> Tensor(a)", eval_positive);
  add("aten::round.decimals(Tensor self, *, int decimals) -> Tensor", eval_round_decimals);
  add("aten::nan_to_num(Tensor self, float? nan=None, float? posinf=None, float? neginf=None) -> Tensor",
      eval_nan_to_num);
  add("aten::sqrt(Tensor self) -> Tensor", eval_float<sqrt_of>, infer_float);
  add("aten::sqrt_(Tensor(a!) self) -> Tensor(a!)", in_place<eval_float<sqrt_of>>);
  add("aten::rsqrt(Tensor self) -> Tensor", eval_float<rsqrt_of>, infer_float);
  add("aten::reciprocal(Tensor self) -> Tensor", eval_float<reciprocal_of>, infer_float);
}

void add_predicates(std::vector<OpDef>& ops) {
  const auto add = [&](const char* line, Eval eval, Infer infer = infer_predicate) {
    ops.push_back(define(line, infer, eval, {}, Family::kComparison));
  };
  add("aten::logical_not(Tensor self) -> Tensor", eval_predicate<IsZero>);
  add("aten::isnan(Tensor self) -> Tensor", eval_predicate<IsNaN>);
  add("aten::isinf(Tensor self) -> Tensor", eval_predicate<IsInf>);
  add("aten::isposinf(Tensor self) -> Tensor", eval_predicate<IsPositiveInf>);
  add("aten::isneginf(Tensor self) -> Tensor", eval_predicate<IsNegativeInf>);
  add("aten::isfinite(Tensor self) -> Tensor", eval_predicate<IsFinite>);
  add("aten::signbit(Tensor self) -> Tensor", eval_predicate<HasSign>);
  add("aten::bitwise_not(Tensor self) -> Tensor", eval_bitwise_not, infer_like_self);
}

}  // namespace

void add_unary_ops(std::vector<OpDef>& ops) {
  add_functions(ops);
  add_predicates(ops);
}

}  // namespace qdq
