// Arithmetic, comparisons and selections, element by element, with broadcasting and type promotion.
#include <cstring>
#include <limits>
#include <numeric>

#include "op/elements.h"
#include "op/families.h"
#include "op/math.h"

namespace qdq {
namespace {

// The promoted dtype of two operands, tensors or numbers.
template <class T> DType common_dtype(const Call<T>& call, size_t a = 0, size_t b = 1) {
  return result_dtype({operand_kind(call, a), operand_kind(call, b)});
}

SymShape sizes_of(const Call<TensorMeta>& call, size_t i) {
  const TensorMeta* meta = call[i].get_if<TensorMeta>();
  return meta ? meta->sizes : SymShape();
}

// f(C, C) -> C of both operands in their promoted dtype.
Tensor run_binary(const Call<Tensor>& call, DType out, const void* f, const Loops& loops) {
  return run_loops(operand(call, 0), operand(call, 1), common_dtype(call), out, f, loops);
}
template <class F> Value binary(const Call<Tensor>& call, const F& f) {
  Loops loops = kLoops<F>;
  loops.u64 = loop_over<uint64_t, F>;
  return run_binary(call, common_dtype(call), &f, loops);
}
// The same where f is one step that f64 does exactly or rounds as f32 would (+ - * / and the root of two f32 numbers, a
// choice, fmod).
template <class F> Value binary_step(const Call<Tensor>& call, const F& f) {
  return run_binary(call, common_dtype(call), &f, kNumberLoops<F>);
}

MetaValue infer_binary(const Call<TensorMeta>& call) {
  return tensor_meta(common_dtype(call), broadcast_shapes(sizes_of(call, 0), sizes_of(call, 1)));
}
MetaValue infer_compare(const Call<TensorMeta>& call) {
  return tensor_meta(DType::kBool, broadcast_shapes(sizes_of(call, 0), sizes_of(call, 1)));
}
MetaValue infer_equality(const Call<TensorMeta>& call) {
  common_dtype(call);  // strings are not compared with numbers
  return infer_compare(call);
}

// A scaling factor such as alpha in the computing type; integers exactly.
template <class C> C factor(const Call<Tensor>& call, size_t i) {
  if constexpr (std::is_same_v<C, int64_t>) return call.integer(i);
  else return static_cast<C>(call.number(i));
}

enum class Sum { kAdd, kSub, kReverseSub };

// a + alpha b, a - alpha b, b - alpha a.
template <class C> Tensor sum_of(const Tensor& a, const Tensor& b, C alpha) {
  return map<C>(a.to(DTypeOf<C>::value), b.to(DTypeOf<C>::value), broadcast_shapes(a.sizes(), b.sizes()),
                [alpha](C x, C y) { return add_wrapping(x, mul_wrapping(alpha, y)); });
}
template <Sum kind> Value eval_sum(const Call<Tensor>& call) {
  const DType dtype = common_dtype(call);
  const Tensor first = operand(call, 0), second = operand(call, 1);
  const Tensor &a = kind == Sum::kReverseSub ? second : first, &b = kind == Sum::kReverseSub ? first : second;
  // Sums that wrap are the same of int64 and uint64.
  return visit_compute(dtype == DType::kU64 ? DType::kS64 : dtype, [&](auto type) {
    using C = typename decltype(type)::type;
    return sum_of<C>(a, b, kind == Sum::kAdd ? factor<C>(call, 2) : mul_wrapping(C(-1), factor<C>(call, 2))).to(dtype);
  });
}

Value eval_mul(const Call<Tensor>& call) {
  return binary_step(call, [](auto x, auto y) { return mul_wrapping(x, y); });
}

template <class C> void check_divisor(C divisor) {
  if constexpr (std::is_integral_v<C>)
    QDQ_CHECK(divisor != 0, kInvalidArgument, "an integer tensor is divided by zero");
}

template <class C> C divide_floor(C x, C y) {
  check_divisor(y);
  if constexpr (std::is_integral_v<C>) {
    if (std::is_signed_v<C> && y == C(-1)) return mul_wrapping(x, C(-1));
    return x / y - (x % y != 0 && (x < 0) != (y < 0));
  } else {
    // c10/util/generic_math.h, div_floor_floating: exact where x / y rounds up to the next integer.
    if (y == 0) return x / y;
    const C rest = std::fmod(x, y);
    C quotient = (x - rest) / y;
    if (rest != 0 && (y < 0) != (rest < 0)) quotient -= 1;
    if (quotient == 0) return std::copysign(C(0), x / y);
    const C floored = std::floor(quotient);
    return quotient - floored > C(0.5) ? floored + 1 : floored;
  }
}

template <class C> C divide_trunc(C x, C y) {
  check_divisor(y);
  if constexpr (std::is_integral_v<C>) return std::is_signed_v<C> && y == C(-1) ? mul_wrapping(x, C(-1)) : x / y;
  else return std::trunc(x / y);
}

// The rest has the sign of the divisor.
template <class C> C modulo_floor(C x, C y) {
  check_divisor(y);
  if constexpr (std::is_integral_v<C>) {
    if (std::is_signed_v<C> && y == C(-1)) return 0;
    const C rest = x % y;
    return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
  } else {
    const C rest = std::fmod(x, y);
    return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
  }
}

// The rest has the sign of the dividend.
template <class C> C modulo_trunc(C x, C y) {
  check_divisor(y);
  if constexpr (std::is_integral_v<C>) return std::is_signed_v<C> && y == C(-1) ? 0 : x % y;
  else return std::fmod(x, y);
}

MetaValue infer_div(const Call<TensorMeta>& call) {
  return tensor_meta(float_dtype(common_dtype(call)), broadcast_shapes(sizes_of(call, 0), sizes_of(call, 1)));
}
Value eval_div(const Call<Tensor>& call) {
  const DType dtype = float_dtype(common_dtype(call));
  const auto quotient = [](double x, double y) { return x / y; };
  return run_loops(operand(call, 0), operand(call, 1), dtype, dtype, &quotient, kDoubleLoops<decltype(quotient)>);
}
Value eval_floor_divide(const Call<Tensor>& call) {
  return binary(call, [](auto x, auto y) { return divide_floor(x, y); });
}
MetaValue infer_div_mode(const Call<TensorMeta>& call) {
  return call.is_none(2) ? infer_div(call) : infer_binary(call);
}
Value eval_div_mode(const Call<Tensor>& call) {
  if (call.is_none(2)) return eval_div(call);
  if (call.string(2) == "floor") return eval_floor_divide(call);
  QDQ_CHECK(call.string(2) == "trunc", kInvalidArgument, call.op().target,
            " wants rounding_mode 'floor' or 'trunc', found '", call.string(2), "'");
  return binary(call, [](auto x, auto y) { return divide_trunc(x, y); });
}
Value eval_remainder(const Call<Tensor>& call) {
  return binary(call, [](auto x, auto y) { return modulo_floor(x, y); });
}
Value eval_fmod(const Call<Tensor>& call) {
  return binary_step(call, [](auto x, auto y) { return modulo_trunc(x, y); });
}

// NaN wins.
template <class C> C larger(C x, C y) { return x != x || x > y ? x : y; }
template <class C> C smaller(C x, C y) { return x != x || x < y ? x : y; }
Value eval_maximum(const Call<Tensor>& call) {
  return binary_step(call, [](auto x, auto y) { return larger(x, y); });
}
Value eval_minimum(const Call<Tensor>& call) {
  return binary_step(call, [](auto x, auto y) { return smaller(x, y); });
}

// Powers of floats are computed in double; integers multiply.
template <class C> C power(C x, C y) {
  if constexpr (std::is_integral_v<C>) {
    if constexpr (std::is_signed_v<C>)
      if (y < 0) return x == 1 ? 1 : x == -1 ? (y % 2 == 0 ? 1 : -1) : 0;
    C out = 1;
    for (; y > 0; y /= 2, x = mul_wrapping(x, x))
      if (y % 2 == 1) out = mul_wrapping(out, x);
    return out;
  } else {
    return static_cast<C>(math::pow(static_cast<double>(x), static_cast<double>(y)));
  }
}
Value eval_pow(const Call<Tensor>& call) {
  return binary_step(call, [](auto x, auto y) { return power(x, y); });
}

// Functions of two numbers that always give floats, computed in double and rounded once.
template <double (*F)(double, double)> Value eval_float_of_two(const Call<Tensor>& call) {
  const DType dtype = result_meta(call).dtype;
  check_float(dtype, call.op().target);
  const auto f = [](double x, double y) { return F(x, y); };
  return run_loops(operand(call, 0), operand(call, 1), dtype, dtype, &f, kDoubleLoops<decltype(f)>);
}
double copysign_of(double x, double y) { return std::copysign(x, y); }
double hypot_of(double x, double y) {
  const double a = std::fabs(x), b = std::fabs(y), most = std::max(a, b), least = std::min(a, b);
  if (std::isinf(a) || std::isinf(b)) return std::numeric_limits<double>::infinity();
  if (!(most > 0)) return a + b;
  return most * std::sqrt(1 + least / most * (least / most));
}
// log(exp(x) + exp(y)).
double logaddexp_of(double x, double y) {
  if (x != x || y != y || (x == y && std::isinf(x))) return x != x ? x : y;
  return std::max(x, y) + math::log1p(math::exp(-std::fabs(x - y)));
}
double logaddexp2_of(double x, double y) {
  constexpr double kLn2 = 0x1.62e42fefa39efp-1;
  return logaddexp_of(x * kLn2, y * kLn2) / kLn2;
}
double xlogy_of(double x, double y) { return y != y ? y : x == 0 ? 0 : x * math::log(y); }
double ldexp_of(double x, double y) { return x * math::exp2(y); }
// Only of NaN a number is not the larger one.
template <class C> C fmax_of(C x, C y) { return x != x || y > x ? y : x; }
template <class C> C fmin_of(C x, C y) { return x != x || y < x ? y : x; }
Value eval_fmax(const Call<Tensor>& call) {
  return binary_step(call, [](auto x, auto y) { return fmax_of(x, y); });
}
Value eval_fmin(const Call<Tensor>& call) {
  return binary_step(call, [](auto x, auto y) { return fmin_of(x, y); });
}
Value eval_heaviside(const Call<Tensor>& call) {
  return binary_step(call, [](auto x, auto y) {
    using C = decltype(x);
    return x == 0 ? y : C(x > 0);
  });
}
MetaValue infer_float_power(const Call<TensorMeta>& call) {
  return tensor_meta(DType::kF64, broadcast_shapes(sizes_of(call, 0), sizes_of(call, 1)));
}

struct Equal {
  template <class C> bool operator()(C x, C y) const { return x == y; }
};
struct NotEqual {
  template <class C> bool operator()(C x, C y) const { return x != y; }
};
struct Less {
  template <class C> bool operator()(C x, C y) const { return x < y; }
};
struct LessEqual {
  template <class C> bool operator()(C x, C y) const { return x <= y; }
};
struct Greater {
  template <class C> bool operator()(C x, C y) const { return x > y; }
};
struct GreaterEqual {
  template <class C> bool operator()(C x, C y) const { return x >= y; }
};
struct BothTrue {
  template <class C> bool operator()(C x, C y) const { return x != 0 && y != 0; }
};
struct EitherTrue {
  template <class C> bool operator()(C x, C y) const { return x != 0 || y != 0; }
};
struct OneTrue {
  template <class C> bool operator()(C x, C y) const { return (x != 0) != (y != 0); }
};

template <class F> Value eval_compare(const Call<Tensor>& call) {
  const auto f = [](auto x, auto y) { return static_cast<decltype(x)>(F{}(x, y)); };
  return run_binary(call, DType::kBool, &f, kNumberLoops<decltype(f)>);
}

// Strings are equal if their numbers are.
Tensor numbers_of(const Tensor& strings) {
  return Tensor(strings.storage(), DType::kS64, strings.sizes(), strings.strides(), strings.storage_offset());
}
template <class F> Value eval_equality(const Call<Tensor>& call) {
  if (common_dtype(call) != DType::kString) return eval_compare<F>(call);
  const auto f = [](auto x, auto y) { return static_cast<decltype(x)>(F{}(x, y)); };
  return run_loops(numbers_of(call.tensor(0)), numbers_of(call.tensor(1)), DType::kS64, DType::kBool, &f,
                   kWideLoops<decltype(f)>);
}

struct BitAnd {
  int64_t operator()(int64_t x, int64_t y) const { return x & y; }
};
struct BitOr {
  int64_t operator()(int64_t x, int64_t y) const { return x | y; }
};
struct BitXor {
  int64_t operator()(int64_t x, int64_t y) const { return x ^ y; }
};

// A shift by a negative number or by all bits leaves what is left of the sign, which an uint64 does not have.
struct ShiftLeft {
  int64_t bits = 64;
  bool is_unsigned = false;
  int64_t operator()(int64_t x, int64_t y) const {
    return y < 0 || y >= bits ? 0 : static_cast<int64_t>(static_cast<uint64_t>(x) << y);
  }
};
struct ShiftRight {
  int64_t bits = 64;
  bool is_unsigned = false;
  int64_t operator()(int64_t x, int64_t y) const {
    const bool is_far = y < 0 || y >= bits;
    if (is_unsigned) return is_far ? 0 : static_cast<int64_t>(static_cast<uint64_t>(x) >> y);
    return x >> (is_far ? 63 : y);
  }
};
template <class F> Value eval_shift(const Call<Tensor>& call) {
  const DType dtype = common_dtype(call);
  QDQ_CHECK(is_integral(dtype), kInvalidArgument, call.op().target, " wants integers, found ", to_string(dtype));
  const Tensor a = operand(call, 0).to(dtype).to(DType::kS64), b = operand(call, 1).to(dtype).to(DType::kS64);
  return map<int64_t>(a, b, broadcast_shapes(a.sizes(), b.sizes()),
                      F{static_cast<int64_t>(8 * size_of(dtype)), dtype == DType::kU64})
      .to(dtype);
}

struct Gcd {
  int64_t operator()(int64_t x, int64_t y) const {
    auto magnitude = [](int64_t v) { return v < 0 ? -static_cast<uint64_t>(v) : static_cast<uint64_t>(v); };
    return static_cast<int64_t>(std::gcd(magnitude(x), magnitude(y)));
  }
};
struct Lcm {
  int64_t operator()(int64_t x, int64_t y) const {
    const int64_t divisor = Gcd{}(x, y);
    if (divisor == 0) return 0;
    const int64_t product = mul_wrapping(x / divisor, y);
    return product < 0 ? mul_wrapping(product, int64_t{-1}) : product;
  }
};

template <class F> Value eval_bitwise(const Call<Tensor>& call) {
  const DType dtype = common_dtype(call);
  QDQ_CHECK(!is_floating(dtype), kInvalidArgument, call.op().target, " wants integers, found ", to_string(dtype));
  const Tensor a = operand(call, 0).to(DType::kS64), b = operand(call, 1).to(DType::kS64);
  return map<int64_t>(a, b, broadcast_shapes(a.sizes(), b.sizes()), F{}).to(dtype);
}

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
  QDQ_CHECK(!is_floating(x.dtype()), kInvalidArgument, call.op().target, " wants integers, found ",
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

// clamp, clamp_min, clamp_max: bounds at the given places, numbers or tensors; -1 or None: there is none.
template <class T> DType clamp_dtype(const Call<T>& call, int low, int high) {
  OperandKind self = operand_kind(call, 0);
  const auto bound = [&](int i) {
    return i < 0 || call.is_none(static_cast<size_t>(i)) ? self : operand_kind(call, static_cast<size_t>(i));
  };
  return result_dtype({self, bound(low), bound(high)});
}
MetaValue infer_clamp_by(const Call<TensorMeta>& call, int low, int high) {
  SymShape sizes = call.tensor(0).sizes;
  for (int i : {low, high})
    if (i >= 0) sizes = broadcast_shapes(sizes, sizes_of(call, static_cast<size_t>(i)));
  return tensor_meta(clamp_dtype(call, low, high), sizes);
}
Value clamp_by(const Call<Tensor>& call, int low, int high) {
  const DType dtype = clamp_dtype(call, low, high);
  const auto at_least = [](auto x, auto b) { return x != x ? x : larger(b, x); };
  const auto at_most = [](auto x, auto b) { return x != x ? x : smaller(b, x); };
  const DType c = compute_dtype(dtype);
  Tensor out = call.tensor(0).to(c);
  for (int i : {low, high}) {
    if (i < 0 || call.is_none(static_cast<size_t>(i))) continue;
    const Tensor bound = operand(call, static_cast<size_t>(i));
    out = i == low ? run_loops(out, bound, c, c, &at_least, kNumberLoops<decltype(at_least)>)
                   : run_loops(out, bound, c, c, &at_most, kNumberLoops<decltype(at_most)>);
  }
  return out.to(dtype).clone();
}
MetaValue infer_clamp(const Call<TensorMeta>& call) { return infer_clamp_by(call, 1, 2); }
MetaValue infer_clamp_min(const Call<TensorMeta>& call) { return infer_clamp_by(call, 1, -1); }
MetaValue infer_clamp_max(const Call<TensorMeta>& call) { return infer_clamp_by(call, -1, 1); }
Value eval_clamp(const Call<Tensor>& call) { return clamp_by(call, 1, 2); }
Value eval_clamp_min(const Call<Tensor>& call) { return clamp_by(call, 1, -1); }
Value eval_clamp_max(const Call<Tensor>& call) { return clamp_by(call, -1, 1); }

// where(condition, a, b).
MetaValue infer_where(const Call<TensorMeta>& call) {
  return tensor_meta(common_dtype(call, 1, 2),
                     broadcast_shapes(call.tensor(0).sizes, broadcast_shapes(sizes_of(call, 1), sizes_of(call, 2))));
}
Tensor choose(const Tensor& condition, const Tensor& a, const Tensor& b, DType dtype) {
  const Shape sizes = broadcast_shapes(condition.sizes(), broadcast_shapes(a.sizes(), b.sizes()));
  const Tensor out = Tensor::empty(sizes, dtype);
  const Tensor c = condition.to(DType::kBool).expand(sizes), x = a.to(dtype).expand(sizes),
               y = b.to(dtype).expand(sizes);
  const size_t size = size_of(dtype);
  for_each_index<4>(sizes, {out.strides().data(), c.strides().data(), x.strides().data(), y.strides().data()},
                    [&, when = c.data<bool>()](const std::array<int64_t, 4>& at) {
                      const std::byte* from = when[at[1]] ? x.raw() + static_cast<size_t>(at[2]) * size
                                                          : y.raw() + static_cast<size_t>(at[3]) * size;
                      std::memcpy(out.raw() + static_cast<size_t>(at[0]) * size, from, size);
                    });
  return out;
}
Value eval_where(const Call<Tensor>& call) {
  return choose(call.tensor(0), operand(call, 1), operand(call, 2), common_dtype(call, 1, 2));
}

MetaValue infer_masked_fill(const Call<TensorMeta>& call) {
  return tensor_meta(call.tensor(0).dtype, broadcast_shapes(call.tensor(0).sizes, call.tensor(1).sizes));
}
Value eval_masked_fill(const Call<Tensor>& call) {
  QDQ_CHECK(operand(call, 2).dim() == 0, kInvalidArgument, call.op().target,
            " wants a single number as value, found a tensor of shape ", to_string(operand(call, 2).sizes()));
  return choose(call.tensor(1), operand(call, 2), call.tensor(0), call.tensor(0).dtype());
}

Value eval_fill(const Call<Tensor>& call) {
  const Tensor out = Tensor::empty(call.tensor(0).sizes(), call.tensor(0).dtype());
  out.copy_from(operand(call, 1));
  return out;
}
Value eval_zero_(const Call<Tensor>& call) {
  call.tensor(0).copy_from(Tensor::scalar<int64_t>(0));
  return call.tensor(0);
}
Value eval_copy_(const Call<Tensor>& call) {
  // The source may be another view of the same bytes.
  call.tensor(0).copy_from(call.tensor(1).clone());
  return call.tensor(0);
}
Value eval_copy(const Call<Tensor>& call) {
  const Tensor out = Tensor::empty(call.tensor(0).sizes(), call.tensor(0).dtype());
  out.copy_from(call.tensor(1));
  return out;
}

// self + value * (a * b) and self + value * (a / b).
MetaValue infer_addc(const Call<TensorMeta>& call) {
  return tensor_meta(result_dtype({operand_kind(call, 0), operand_kind(call, 1), operand_kind(call, 2)}),
                     broadcast_shapes(sizes_of(call, 0), broadcast_shapes(sizes_of(call, 1), sizes_of(call, 2))));
}
template <bool divides> Value eval_addc(const Call<Tensor>& call) {
  const DType dtype = result_dtype({operand_kind(call, 0), operand_kind(call, 1), operand_kind(call, 2)});
  const Shape sizes =
      broadcast_shapes(call.tensor(0).sizes(), broadcast_shapes(call.tensor(1).sizes(), call.tensor(2).sizes()));
  return visit_compute(dtype, [&](auto type) -> Value {
    using C = typename decltype(type)::type;
    const DType c = DTypeOf<C>::value;
    const C value = factor<C>(call, 3);
    const Tensor part = map<C>(call.tensor(1).to(c), call.tensor(2).to(c), sizes, [=](C a, C b) {
      if constexpr (divides) {
        check_divisor(b);
        return mul_wrapping(value, a) / b;
      } else {
        return mul_wrapping(mul_wrapping(value, a), b);
      }
    });
    return map<C>(call.tensor(0).to(c), part, sizes, [](C x, C y) { return add_wrapping(x, y); }).to(dtype);
  });
}

void add_arithmetic(std::vector<OpDef>& ops) {
  const Roles two{.activation = 0, .other = 1};
  Family family = Family::kAdd;  // of the entries that follow
  const auto add = [&](std::string_view line, Eval eval, Infer infer = infer_binary) {
    ops.push_back(define(line, infer, eval, two, family));
  };
  const auto add_in_place = [&](std::string_view line, Eval eval) { add(line, eval, infer_like_self); };
  add("aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", eval_sum<Sum::kAdd>);
  add("aten::add.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor", eval_sum<Sum::kAdd>);
  add_in_place("aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)",
               in_place<eval_sum<Sum::kAdd>>);
  add_in_place("aten::add_.Scalar(Tensor(a!) self, Scalar other, Scalar alpha=1) -> Tensor(a!)",
               in_place<eval_sum<Sum::kAdd>>);
  family = Family::kSubtract;
  add("aten::sub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", eval_sum<Sum::kSub>);
  add("aten::sub.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor", eval_sum<Sum::kSub>);
  add_in_place("aten::sub_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)",
               in_place<eval_sum<Sum::kSub>>);
  add_in_place("aten::sub_.Scalar(Tensor(a!) self, Scalar other, Scalar alpha=1) -> Tensor(a!)",
               in_place<eval_sum<Sum::kSub>>);
  family = Family::kOther;
  add("aten::rsub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", eval_sum<Sum::kReverseSub>);
  add("aten::rsub.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor", eval_sum<Sum::kReverseSub>);
  family = Family::kMultiply;
  add("aten::mul.Tensor(Tensor self, Tensor other) -> Tensor", eval_mul);
  add("aten::mul.Scalar(Tensor self, Scalar other) -> Tensor", eval_mul);
  add_in_place("aten::mul_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)", in_place<eval_mul>);
  add_in_place("aten::mul_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)", in_place<eval_mul>);
  family = Family::kDivide;
  add("aten::div.Tensor(Tensor self, Tensor other) -> Tensor", eval_div, infer_div);
  add("aten::div.Scalar(Tensor self, Scalar other) -> Tensor", eval_div, infer_div);
  add_in_place("aten::div_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)", in_place<eval_div>);
  add_in_place("aten::div_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)", in_place<eval_div>);
}

void add_functions_of_two(std::vector<OpDef>& ops) {
  const auto add = [&](std::string_view line, Eval eval, Infer infer = infer_binary) {
    ops.push_back(define(line, infer, eval, {.activation = 0, .other = 1}, Family::kOther));
  };
  add("aten::div.Tensor_mode(Tensor self, Tensor other, *, str? rounding_mode) -> Tensor", eval_div_mode,
      infer_div_mode);
  add("aten::div.Scalar_mode(Tensor self, Scalar other, *, str? rounding_mode) -> Tensor", eval_div_mode,
      infer_div_mode);
  add("aten::floor_divide(Tensor self, Tensor other) -> Tensor", eval_floor_divide);
  add("aten::floor_divide.Scalar(Tensor self, Scalar other) -> Tensor", eval_floor_divide);
  add("aten::remainder.Tensor(Tensor self, Tensor other) -> Tensor", eval_remainder);
  add("aten::remainder.Scalar(Tensor self, Scalar other) -> Tensor", eval_remainder);
  add("aten::remainder.Scalar_Tensor(Scalar self, Tensor other) -> Tensor", eval_remainder);
  add("aten::true_divide.Tensor(Tensor self, Tensor other) -> Tensor", eval_div, infer_div);
  add("aten::true_divide.Scalar(Tensor self, Scalar other) -> Tensor", eval_div, infer_div);
  add("aten::atan2(Tensor self, Tensor other) -> Tensor", eval_float_of_two<math::atan2>, infer_div);
  add("aten::copysign.Tensor(Tensor self, Tensor other) -> Tensor", eval_float_of_two<copysign_of>, infer_div);
  add("aten::copysign.Scalar(Tensor self, Scalar other) -> Tensor", eval_float_of_two<copysign_of>, infer_div);
  add("aten::hypot(Tensor self, Tensor other) -> Tensor", eval_float_of_two<hypot_of>, infer_binary);
  add("aten::logaddexp(Tensor self, Tensor other) -> Tensor", eval_float_of_two<logaddexp_of>, infer_binary);
  add("aten::logaddexp2(Tensor self, Tensor other) -> Tensor", eval_float_of_two<logaddexp2_of>, infer_binary);
  add("aten::xlogy.Tensor(Tensor self, Tensor other) -> Tensor", eval_float_of_two<xlogy_of>, infer_div);
  add("aten::xlogy.Scalar_Self(Scalar self, Tensor other) -> Tensor", eval_float_of_two<xlogy_of>, infer_div);
  add("aten::xlogy.Scalar_Other(Tensor self, Scalar other) -> Tensor", eval_float_of_two<xlogy_of>, infer_div);
  add("aten::ldexp.Tensor(Tensor self, Tensor other) -> Tensor", eval_float_of_two<ldexp_of>, infer_div);
  add("aten::fmax(Tensor self, Tensor other) -> Tensor", eval_fmax);
  add("aten::fmin(Tensor self, Tensor other) -> Tensor", eval_fmin);
  add("aten::heaviside(Tensor self, Tensor values) -> Tensor", eval_heaviside);
  add("aten::float_power.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor", eval_float_of_two<math::pow>,
      infer_float_power);
  add("aten::float_power.Tensor_Scalar(Tensor self, Scalar exponent) -> Tensor", eval_float_of_two<math::pow>,
      infer_float_power);
  add("aten::float_power.Scalar(Scalar self, Tensor exponent) -> Tensor", eval_float_of_two<math::pow>,
      infer_float_power);
  add("aten::fmod.Tensor(Tensor self, Tensor other) -> Tensor", eval_fmod);
  add("aten::fmod.Scalar(Tensor self, Scalar other) -> Tensor", eval_fmod);
  add("aten::maximum(Tensor self, Tensor other) -> Tensor", eval_maximum);
  add("aten::minimum(Tensor self, Tensor other) -> Tensor", eval_minimum);
  add("aten::max.other(Tensor self, Tensor other) -> Tensor", eval_maximum);
  add("aten::min.other(Tensor self, Tensor other) -> Tensor", eval_minimum);
  add("aten::pow.Tensor_Scalar(Tensor self, Scalar exponent) -> Tensor", eval_pow);
  add("aten::pow.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor", eval_pow);
  add("aten::pow.Scalar(Scalar self, Tensor exponent) -> Tensor", eval_pow);
  add("aten::addcmul(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor", eval_addc<false>,
      infer_addc);
  add("aten::addcdiv(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor", eval_addc<true>,
      infer_addc);
}

void add_comparisons(std::vector<OpDef>& ops) {
  const auto add = [&](std::string_view line, Eval eval, Infer infer = infer_compare) {
    ops.push_back(define(line, infer, eval, {}, Family::kComparison));
  };
  add("aten::eq.Tensor(Tensor self, Tensor other) -> Tensor", eval_equality<Equal>, infer_equality);
  add("aten::eq.Scalar(Tensor self, Scalar other) -> Tensor", eval_compare<Equal>);
  add("aten::ne.Tensor(Tensor self, Tensor other) -> Tensor", eval_equality<NotEqual>, infer_equality);
  add("aten::ne.Scalar(Tensor self, Scalar other) -> Tensor", eval_compare<NotEqual>);
  add("aten::lt.Tensor(Tensor self, Tensor other) -> Tensor", eval_compare<Less>);
  add("aten::lt.Scalar(Tensor self, Scalar other) -> Tensor", eval_compare<Less>);
  add("aten::le.Tensor(Tensor self, Tensor other) -> Tensor", eval_compare<LessEqual>);
  add("aten::le.Scalar(Tensor self, Scalar other) -> Tensor", eval_compare<LessEqual>);
  add("aten::gt.Tensor(Tensor self, Tensor other) -> Tensor", eval_compare<Greater>);
  add("aten::gt.Scalar(Tensor self, Scalar other) -> Tensor", eval_compare<Greater>);
  add("aten::ge.Tensor(Tensor self, Tensor other) -> Tensor", eval_compare<GreaterEqual>);
  add("aten::ge.Scalar(Tensor self, Scalar other) -> Tensor", eval_compare<GreaterEqual>);
  add("aten::logical_and(Tensor self, Tensor other) -> Tensor", eval_compare<BothTrue>);
  add("aten::logical_or(Tensor self, Tensor other) -> Tensor", eval_compare<EitherTrue>);
  add("aten::logical_xor(Tensor self, Tensor other) -> Tensor", eval_compare<OneTrue>);
  add("aten::logical_not(Tensor self) -> Tensor", eval_predicate<IsZero>, infer_predicate);
  add("aten::isnan(Tensor self) -> Tensor", eval_predicate<IsNaN>, infer_predicate);
  add("aten::isinf(Tensor self) -> Tensor", eval_predicate<IsInf>, infer_predicate);
  add("aten::bitwise_and.Tensor(Tensor self, Tensor other) -> Tensor", eval_bitwise<BitAnd>, infer_binary);
  add("aten::bitwise_and.Scalar(Tensor self, Scalar other) -> Tensor", eval_bitwise<BitAnd>, infer_binary);
  add("aten::__and__.Tensor(Tensor self, Tensor other) -> Tensor", eval_bitwise<BitAnd>, infer_binary);
  add("aten::__and__.Scalar(Tensor self, Scalar other) -> Tensor", eval_bitwise<BitAnd>, infer_binary);
  add("aten::bitwise_or.Tensor(Tensor self, Tensor other) -> Tensor", eval_bitwise<BitOr>, infer_binary);
  add("aten::bitwise_or.Scalar(Tensor self, Scalar other) -> Tensor", eval_bitwise<BitOr>, infer_binary);
  add("aten::__or__.Tensor(Tensor self, Tensor other) -> Tensor", eval_bitwise<BitOr>, infer_binary);
  add("aten::__or__.Scalar(Tensor self, Scalar other) -> Tensor", eval_bitwise<BitOr>, infer_binary);
  add("aten::bitwise_xor.Tensor(Tensor self, Tensor other) -> Tensor", eval_bitwise<BitXor>, infer_binary);
  add("aten::bitwise_xor.Scalar(Tensor self, Scalar other) -> Tensor", eval_bitwise<BitXor>, infer_binary);
  add("aten::__xor__.Tensor(Tensor self, Tensor other) -> Tensor", eval_bitwise<BitXor>, infer_binary);
  add("aten::__xor__.Scalar(Tensor self, Scalar other) -> Tensor", eval_bitwise<BitXor>, infer_binary);
  add("aten::bitwise_not(Tensor self) -> Tensor", eval_bitwise_not, infer_like_self);
  add("aten::bitwise_and.Scalar_Tensor(Scalar self, Tensor other) -> Tensor", eval_bitwise<BitAnd>, infer_binary);
  add("aten::bitwise_or.Scalar_Tensor(Scalar self, Tensor other) -> Tensor", eval_bitwise<BitOr>, infer_binary);
  add("aten::bitwise_xor.Scalar_Tensor(Scalar self, Tensor other) -> Tensor", eval_bitwise<BitXor>, infer_binary);
  add("aten::bitwise_left_shift.Tensor(Tensor self, Tensor other) -> Tensor", eval_shift<ShiftLeft>, infer_binary);
  add("aten::bitwise_left_shift.Tensor_Scalar(Tensor self, Scalar other) -> Tensor", eval_shift<ShiftLeft>,
      infer_binary);
  add("aten::bitwise_left_shift.Scalar_Tensor(Scalar self, Tensor other) -> Tensor", eval_shift<ShiftLeft>,
      infer_binary);
  add("aten::bitwise_right_shift.Tensor(Tensor self, Tensor other) -> Tensor", eval_shift<ShiftRight>, infer_binary);
  add("aten::bitwise_right_shift.Tensor_Scalar(Tensor self, Scalar other) -> Tensor", eval_shift<ShiftRight>,
      infer_binary);
  add("aten::bitwise_right_shift.Scalar_Tensor(Scalar self, Tensor other) -> Tensor", eval_shift<ShiftRight>,
      infer_binary);
  add("aten::__lshift__.Tensor(Tensor self, Tensor other) -> Tensor", eval_shift<ShiftLeft>, infer_binary);
  add("aten::__lshift__.Scalar(Tensor self, Scalar other) -> Tensor", eval_shift<ShiftLeft>, infer_binary);
  add("aten::__rshift__.Tensor(Tensor self, Tensor other) -> Tensor", eval_shift<ShiftRight>, infer_binary);
  add("aten::__rshift__.Scalar(Tensor self, Scalar other) -> Tensor", eval_shift<ShiftRight>, infer_binary);
  add("aten::gcd(Tensor self, Tensor other) -> Tensor", eval_bitwise<Gcd>, infer_binary);
  add("aten::lcm(Tensor self, Tensor other) -> Tensor", eval_bitwise<Lcm>, infer_binary);
  add("aten::isposinf(Tensor self) -> Tensor", eval_predicate<IsPositiveInf>, infer_predicate);
  add("aten::isneginf(Tensor self) -> Tensor", eval_predicate<IsNegativeInf>, infer_predicate);
  add("aten::isfinite(Tensor self) -> Tensor", eval_predicate<IsFinite>, infer_predicate);
  add("aten::signbit(Tensor self) -> Tensor", eval_predicate<HasSign>, infer_predicate);
}

void add_unary(std::vector<OpDef>& ops) {
  const Roles roles{.activation = 0};
  const auto add = [&](std::string_view line, Eval eval, Infer infer = infer_like_self) {
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

void add_clamps(std::vector<OpDef>& ops) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr kernel::Activation clamp{kernel::Activation::Kind::kClamp, -kInfinity, kInfinity};
  const Computes both{clamp, 1, 2}, low{clamp, 1, -1}, high{clamp, -1, 1}, by_tensors{};
  const auto add = [&](std::string_view line, const Computes& computes, Eval eval, Infer infer = infer_like_self) {
    ops.push_back(define(line, infer, eval, {.activation = 0}, Family::kClamp));
    ops.back().computes = computes;
  };
  add("aten::clamp(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor", both, eval_clamp, infer_clamp);
  add("aten::clamp_(Tensor(a!) self, Scalar? min=None, Scalar? max=None) -> Tensor(a!)", both, in_place<eval_clamp>);
  add("aten::clamp.Tensor(Tensor self, Tensor? min=None, Tensor? max=None) -> Tensor", by_tensors, eval_clamp,
      infer_clamp);
  add("aten::clamp_min.Tensor(Tensor self, Tensor min) -> Tensor", by_tensors, eval_clamp_min, infer_clamp_min);
  add("aten::clamp_max.Tensor(Tensor self, Tensor max) -> Tensor", by_tensors, eval_clamp_max, infer_clamp_max);
  add("aten::clamp_min(Tensor self, Scalar min) -> Tensor", low, eval_clamp_min, infer_clamp_min);
  add("aten::clamp_min_(Tensor(a!) self, Scalar min) -> Tensor(a!)", low, in_place<eval_clamp_min>);
  add("aten::clamp_max(Tensor self, Scalar max) -> Tensor", high, eval_clamp_max, infer_clamp_max);
  add("aten::clamp_max_(Tensor(a!) self, Scalar max) -> Tensor(a!)", high, in_place<eval_clamp_max>);
}

void add_selections(std::vector<OpDef>& ops) {
  const auto add = [&](std::string_view line, Eval eval, Infer infer = infer_like_self) {
    ops.push_back(define(line, infer, eval));
  };
  add("aten::where.self(Tensor condition, Tensor self, Tensor other) -> Tensor", eval_where, infer_where);
  add("aten::where.ScalarSelf(Tensor condition, Scalar self, Tensor other) -> Tensor", eval_where, infer_where);
  add("aten::where.ScalarOther(Tensor condition, Tensor self, Scalar other) -> Tensor", eval_where, infer_where);
  add("aten::where.Scalar(Tensor condition, Scalar self, Scalar other) -> Tensor", eval_where, infer_where);
  add("aten::masked_fill.Scalar(Tensor self, Tensor mask, Scalar value) -> Tensor", eval_masked_fill,
      infer_masked_fill);
  add("aten::masked_fill.Tensor(Tensor self, Tensor mask, Tensor value) -> Tensor", eval_masked_fill,
      infer_masked_fill);
  add("aten::masked_fill_.Scalar(Tensor(a!) self, Tensor mask, Scalar value) -> Tensor(a!)",
      in_place<eval_masked_fill>);
  add("aten::masked_fill_.Tensor(Tensor(a!) self, Tensor mask, Tensor value) -> Tensor(a!)",
      in_place<eval_masked_fill>);
  add("aten::fill.Scalar(Tensor self, Scalar value) -> Tensor", eval_fill);
  add("aten::fill.Tensor(Tensor self, Tensor value) -> Tensor", eval_fill);
  add("aten::fill_.Scalar(Tensor(a!) self, Scalar value) -> Tensor(a!)", in_place<eval_fill>);
  add("aten::fill_.Tensor(Tensor(a!) self, Tensor value) -> Tensor(a!)", in_place<eval_fill>);
  add("aten::zero_(Tensor(a!) self) -> Tensor(a!)", eval_zero_);
  add("aten::copy(Tensor self, Tensor src, bool non_blocking=False) -> Tensor", eval_copy);
  add("aten::copy_(Tensor(a!) self, Tensor src, bool non_blocking=False) -> Tensor(a!)", eval_copy_);
}

}  // namespace

void add_pointwise_ops(std::vector<OpDef>& ops) {
  add_arithmetic(ops);
  add_functions_of_two(ops);
  add_comparisons(ops);
  add_unary(ops);
  add_clamps(ops);
  add_selections(ops);
}

}  // namespace qdq
