// Functions of two operands, element by element, with broadcasting and type promotion: arithmetic, comparisons, bits.
#include <limits>
#include <numeric>

#include "kernel/division.h"
#include "op/elements.h"
#include "op/families.h"
#include "op/math.h"
#include "op/pointwise.h"

namespace qdq {
namespace {

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
// choice).
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
    return kernel::floor_quotient_of(x, y);
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
    return kernel::floor_rest_of(x, y);
  }
}

// The rest has the sign of the dividend.
template <class C> C modulo_trunc(C x, C y) {
  check_divisor(y);
  if constexpr (std::is_integral_v<C>) return std::is_signed_v<C> && y == C(-1) ? 0 : x % y;
  else return kernel::rest_of(x, y);
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
            " needs rounding_mode 'floor' or 'trunc', found '", call.string(2), "'");
  return binary(call, [](auto x, auto y) { return divide_trunc(x, y); });
}
Value eval_remainder(const Call<Tensor>& call) {
  return binary(call, [](auto x, auto y) { return modulo_floor(x, y); });
}
Value eval_fmod(const Call<Tensor>& call) {
  return binary(call, [](auto x, auto y) { return modulo_trunc(x, y); });
}

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
  QDQ_CHECK(is_integral(dtype), kInvalidArgument, call.op().target, " needs integers, found ", to_string(dtype));
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
  QDQ_CHECK(!is_floating(dtype), kInvalidArgument, call.op().target, " needs integers, found ", to_string(dtype));
  const Tensor a = operand(call, 0).to(DType::kS64), b = operand(call, 1).to(DType::kS64);
  return map<int64_t>(a, b, broadcast_shapes(a.sizes(), b.sizes()), F{}).to(dtype);
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
  const auto add = [&](const char* line, Eval eval, Infer infer = infer_binary) {
    ops.push_back(define(line, infer, eval, two, family));
  };
  const auto add_in_place = [&](const char* line, Eval eval) { add(line, eval, infer_like_self); };
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
  const auto add = [&](const char* line, Eval eval, Infer infer = infer_binary) {
    ops.push_back(define(line, infer, eval, {.activation = 0, .other = 1}, Family::kOther));
  };
  add("aten::div.Tensor_mode(Tensor self, Tensor other, *, str? rounding_mode) -> Tensor", eval_div_mode,
      infer_div_mode);
  add("aten::div.Scalar_mode(Tensor self, Scalar other, *, str? rounding_mode) -> Tensor", eval_div_mode,
      infer_div_mode);
  add("aten::floor_divide(Tensor self, Tensor other) -> Tensor", eval_floor_divide);
  add("aten::floor_divide.Scalar(Tensor self, Scalar other) -> Tensor", eval_floor_divide);
  add("aten::floor_divide_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)", in_place<eval_floor_divide>,
      infer_like_self);
  add("aten::floor_divide_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)", in_place<eval_floor_divide>,
      infer_like_self);
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
  add("aten::pow_.Scalar(Tensor(a!) self, Scalar exponent) -> Tensor(a!)", in_place<eval_pow>, infer_like_self);
  add("aten::pow_.Tensor(Tensor(a!) self, Tensor exponent) -> Tensor(a!)", in_place<eval_pow>, infer_like_self);
  add("aten::addcmul(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor", eval_addc<false>,
      infer_addc);
  add("aten::addcdiv(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor", eval_addc<true>,
      infer_addc);
}

void add_comparisons(std::vector<OpDef>& ops) {
  const auto add = [&](const char* line, Eval eval, Infer infer = infer_compare) {
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
}

}  // namespace

void add_pointwise_ops(std::vector<OpDef>& ops) {
  add_arithmetic(ops);
  add_functions_of_two(ops);
  add_comparisons(ops);
  add_unary_ops(ops);
  add_selection_ops(ops);
}

}  // namespace qdq
