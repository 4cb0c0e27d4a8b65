// Gradients of functions of one element, or of an element of each of two or three tensors, in double
// (tools/autograd/derivatives.yaml of PyTorch 2.6 has the formulas).
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "op/elements.h"
#include "op/math.h"
#include "train/backward.h"

namespace qdq {
namespace {

constexpr double kPi = std::numbers::pi, kLn2 = std::numbers::ln2;

// g f(x, y) for every element, x and y being broadcast to the gradient.
template <class F> Tensor slope(const Tensor& grad, const Tensor& x, const Tensor& y, const F& f) {
  const Tensor g = contiguous_f32(grad), a = x.to(DType::kF32).expand(g.sizes()).contiguous(),
               b = y.to(DType::kF32).expand(g.sizes()).contiguous(), out = Tensor::empty(g.sizes(), DType::kF32);
  for (int64_t i = 0; i < g.numel(); ++i)
    out.data<float>()[i] =
        static_cast<float>(g.data<float>()[i] * static_cast<double>(f(a.data<float>()[i], b.data<float>()[i])));
  return out;
}

// A function of the element that went in and of the one that came out.
template <class F> constexpr auto by_slope(F) {
  return [](const BackwardCall& c) { return std::vector<Value>{slope(c.g(), c.x(0), c.x(0), F())}; };
}
template <class F> constexpr auto by_slope_of_result(F) {
  return [](const BackwardCall& c) { return std::vector<Value>{slope(c.g(), c.y(), c.y(), F())}; };
}

// The gradients of two operands, either of which may be a number.
template <class A, class B> std::vector<Value> two(const BackwardCall& c, const A& of_first, const B& of_second) {
  std::vector<Value> out(2);
  const Tensor first = operand(c.call, 0), second = operand(c.call, 1);
  if (c.wanted[0]) out[0] = sum_to_shape(slope(c.g(), first, second, of_first), first.sizes());
  if (c.wanted[1]) out[1] = sum_to_shape(slope(c.g(), first, second, of_second), second.sizes());
  return out;
}
template <class A, class B> constexpr auto by_slopes(A, B) {
  return [](const BackwardCall& c) { return two(c, A(), B()); };
}

double number_or(const BackwardCall& c, size_t i, double otherwise) {
  return c.call.is_none(i) ? otherwise : c.call.number(i);
}

std::vector<Value> softplus(const BackwardCall& c) {
  const double beta = c.call.number(1), threshold = c.call.number(2);
  return {slope(c.g(), c.x(0), c.x(0),
                [=](double x, double) { return x * beta > threshold ? 1.0 : 1 / (1 + math::exp(-x * beta)); })};
}

std::vector<Value> mish(const BackwardCall& c) {
  return {slope(c.g(), c.x(0), c.x(0), [](double x, double) {
    const double s = 1 / (1 + math::exp(-x)), t = math::tanh(x > 20 ? x : math::log1p(math::exp(x)));
    return t + x * s * (1 - t * t);
  })};
}

std::vector<Value> celu(const BackwardCall& c) {
  const double alpha = c.call.number(1);
  return {slope(c.g(), c.x(0), c.x(0), [=](double x, double) { return x > 0 ? 1.0 : math::exp(x / alpha); })};
}

constexpr double kSeluAlpha = 1.6732632423543772848170429916717, kSeluScale = 1.0507009873554804934193349852946;

// What passes where the value is within or beyond a limit.
std::vector<Value> threshold(const BackwardCall& c) {
  const double limit = c.call.number(1);
  return {slope(c.g(), c.x(0), c.x(0), [=](double x, double) { return x <= limit ? 0.0 : 1.0; })};
}
std::vector<Value> shrink(const BackwardCall& c) {
  const double limit = c.call.number(1);
  return {slope(c.g(), c.x(0), c.x(0), [=](double x, double) { return std::fabs(x) <= limit ? 0.0 : 1.0; })};
}

std::vector<Value> logit(const BackwardCall& c) {
  const double eps = number_or(c, 1, -1), low = std::max(eps, 0.0),
               outside = eps < 0 ? std::numeric_limits<double>::quiet_NaN() : 0;
  return {slope(c.g(), c.x(0), c.x(0),
                [=](double x, double) { return x < low || x > 1 - low ? outside : 1 / (x * (1 - x)); })};
}

// In training its slopes are drawn, which qdq does not do.
std::vector<Value> rrelu(const BackwardCall& c) {
  QDQ_CHECK(!c.call.boolean(3), kUnsupported, c.call.op().target,
            " has a gradient in inference form only, where its slope is the mean of its bounds");
  const double low = (c.call.number(1) + c.call.number(2)) / 2;
  return {slope(c.g(), c.x(0), c.x(0), [=](double x, double) { return x > 0 ? 1.0 : low; })};
}

// The weight lies along axis 1, or there is one.
std::vector<Value> prelu(const BackwardCall& c) {
  Shape sizes(static_cast<size_t>(std::max<int64_t>(1, c.x(0).dim())), 1);
  if (sizes.size() > 1) sizes[1] = c.x(1).numel();
  const Tensor weight = contiguous_f32(c.x(1)).reshape(c.x(0).dim() == 0 ? Shape{} : sizes);
  std::vector<Value> out(2);
  if (c.wanted[0]) out[0] = slope(c.g(), c.x(0), weight, [](double x, double w) { return x > 0 ? 1.0 : w; });
  if (c.wanted[1]) {
    const Tensor each = slope(c.g(), c.x(0), weight, [](double x, double) { return x > 0 ? 0.0 : x; });
    out[1] = sum_to_shape(each, weight.sizes()).reshape(c.x(1).sizes());
  }
  return out;
}

// a sigmoid(b) of the halves along an axis.
std::vector<Value> glu(const BackwardCall& c) {
  const auto axis = static_cast<int64_t>(wrap_axis(c.call.integer(1), c.x(0).dim()));
  const int64_t half = c.x(0).size(axis) / 2;
  const Tensor a = c.x(0).slice(axis, 0, half), b = c.x(0).slice(axis, half, 2 * half),
               out = Tensor::empty(c.x(0).sizes(), DType::kF32);
  const auto sigmoid = [](double x) { return 1 / (1 + math::exp(-x)); };
  out.slice(axis, 0, half).copy_from(slope(c.g(), a, b, [&](double, double y) { return sigmoid(y); }));
  out.slice(axis, half, 2 * half).copy_from(slope(c.g(), a, b, [&](double x, double y) {
    return x * sigmoid(y) * (1 - sigmoid(y));
  }));
  return {out};
}

std::vector<Value> addcmul(const BackwardCall& c) {
  const double value = c.call.number(3);
  std::vector<Value> out(3);
  if (c.wanted[0]) out[0] = sum_to_shape(c.g(), c.x(0).sizes());
  const auto times = [=](double x, double) { return x * value; };
  if (c.wanted[1]) out[1] = sum_to_shape(slope(c.g(), c.x(2), c.x(2), times), c.x(1).sizes());
  if (c.wanted[2]) out[2] = sum_to_shape(slope(c.g(), c.x(1), c.x(1), times), c.x(2).sizes());
  return out;
}

std::vector<Value> addcdiv(const BackwardCall& c) {
  const double value = c.call.number(3);
  std::vector<Value> out(3);
  if (c.wanted[0]) out[0] = sum_to_shape(c.g(), c.x(0).sizes());
  if (c.wanted[1])
    out[1] = sum_to_shape(slope(c.g(), c.x(2), c.x(2), [=](double x, double) { return value / x; }), c.x(1).sizes());
  if (c.wanted[2])
    out[2] = sum_to_shape(slope(c.g(), c.x(1), c.x(2), [=](double x, double y) { return -value * x / (y * y); }),
                          c.x(2).sizes());
  return out;
}

// self + weight (end - self)
std::vector<Value> lerp(const BackwardCall& c) {
  const Tensor weight = operand(c.call, 2);
  std::vector<Value> out(3);
  if (c.wanted[0])
    out[0] = sum_to_shape(slope(c.g(), weight, weight, [](double w, double) { return 1 - w; }), c.x(0).sizes());
  if (c.wanted[1])
    out[1] = sum_to_shape(slope(c.g(), weight, weight, [](double w, double) { return w; }), c.x(1).sizes());
  if (c.wanted[2])
    out[2] = sum_to_shape(slope(c.g(), c.x(0), c.x(1), [](double a, double b) { return b - a; }), weight.sizes());
  return out;
}

// Bounds that are tensors, one of which may be missing (ATen/native/TensorCompare.cpp, clamp_backward_min_max).
std::vector<Value> clamp_by(const BackwardCall& c, const Tensor* min, const Tensor* max, size_t at_min, size_t at_max) {
  const double far = std::numeric_limits<double>::infinity();
  const Tensor low = min ? *min : Tensor::full({}, DType::kF32, -far),
               high = max ? *max : Tensor::full({}, DType::kF32, far);
  const Tensor& x = c.x(0);
  const auto above = [](double v, double bound) { return v >= bound ? 1.0 : 0.0; };
  const auto below = [](double v, double bound) { return v <= bound ? 1.0 : 0.0; };
  std::vector<Value> out(3);
  if (c.wanted[0]) out[0] = sum_to_shape(slope(slope(c.g(), x, low, above), x, high, below), x.sizes());
  if (min && c.wanted[at_min]) {
    const Tensor in_order = slope(c.g(), low, high, [](double a, double b) { return a < b ? 1.0 : 0.0; });
    out[at_min] =
        sum_to_shape(slope(in_order, x, low, [](double v, double l) { return v < l ? 1.0 : 0.0; }), min->sizes());
  }
  if (max && c.wanted[at_max]) {
    const Tensor over = slope(c.g(), x, high, [](double v, double h) { return v > h ? 1.0 : 0.0; });
    const Tensor rest = add_tensors(c.g(), slope(over, over, over, [](double, double) { return -1.0; }));
    const Tensor crossed = slope(rest, low, high, [](double a, double b) { return b < a ? 1.0 : 0.0; });
    out[at_max] = sum_to_shape(add_tensors(over, crossed), max->sizes());
  }
  return out;
}

// The gradient of what a condition chooses.
std::vector<Value> where_number(const BackwardCall& c, size_t tensor, bool is) {
  std::vector<Value> out(3);
  out[tensor] =
      sum_to_shape(slope(c.g(), c.x(0), c.x(0), [=](double on, double) { return (on != 0) == is ? 1.0 : 0.0; }),
                   c.x(tensor).sizes());
  return out;
}

std::vector<Value> masked_fill_by(const BackwardCall& c) {
  std::vector<Value> out(3);
  const auto passes = [&](bool is, const Shape& sizes) {
    return sum_to_shape(slope(c.g(), c.x(1), c.x(1), [=](double on, double) { return (on != 0) == is ? 1.0 : 0.0; }),
                        sizes);
  };
  if (c.wanted[0]) out[0] = passes(false, c.x(0).sizes());
  if (c.wanted[2]) out[2] = passes(true, c.x(2).sizes());
  return out;
}

void add_unary_backwards(std::vector<BackwardDef>& table) {
  const auto of_x = [&](std::string_view target, Backward backward) {
    table.push_back({target, backward, true, false});
  };
  const auto of_y = [&](std::string_view target, Backward backward) {
    table.push_back({target, backward, false, true});
  };
  of_x("sin.default", by_slope([](double x, double) { return math::cos(x); }));
  of_x("cos.default", by_slope([](double x, double) { return -math::sin(x); }));
  of_y("tan.default", by_slope_of_result([](double y, double) { return 1 + y * y; }));
  of_x("asin.default", by_slope([](double x, double) { return 1 / std::sqrt(1 - x * x); }));
  of_x("acos.default", by_slope([](double x, double) { return -1 / std::sqrt(1 - x * x); }));
  of_x("atan.default", by_slope([](double x, double) { return 1 / (1 + x * x); }));
  of_x("sinh.default", by_slope([](double x, double) { return math::cosh(x); }));
  of_x("cosh.default", by_slope([](double x, double) { return math::sinh(x); }));
  of_x("asinh.default", by_slope([](double x, double) { return 1 / std::sqrt(x * x + 1); }));
  of_x("acosh.default", by_slope([](double x, double) { return 1 / std::sqrt(x * x - 1); }));
  of_x("atanh.default", by_slope([](double x, double) { return 1 / (1 - x * x); }));
  of_x("expm1.default", by_slope([](double x, double) { return math::exp(x); }));
  of_x("exp2.default", by_slope([](double x, double) { return math::exp2(x) * kLn2; }));
  of_x("log1p.default", by_slope([](double x, double) { return 1 / (1 + x); }));
  of_x("log2.default", by_slope([](double x, double) { return 1 / (x * kLn2); }));
  of_x("log10.default", by_slope([](double x, double) { return 1 / (x * std::numbers::ln10); }));
  of_x("erf.default", by_slope([](double x, double) { return 2 * std::numbers::inv_sqrtpi * math::exp(-x * x); }));
  of_x("erfc.default", by_slope([](double x, double) { return -2 * std::numbers::inv_sqrtpi * math::exp(-x * x); }));
  of_y("erfinv.default", by_slope_of_result([](double y, double) { return std::sqrt(kPi) / 2 * math::exp(y * y); }));
  of_x("lgamma.default", by_slope([](double x, double) { return math::digamma(x); }));
  of_x("sinc.default", by_slope([](double x, double) {
         const double a = kPi * x;
         return x == 0 ? 0.0 : (a * math::cos(a) - math::sin(a)) / (a * x);
       }));
  of_x("special_expit.default", by_slope([](double x, double) {
         const double s = 1 / (1 + math::exp(-x));
         return s * (1 - s);
       }));
  of_x("log_sigmoid.default", by_slope([](double x, double) { return 1 / (1 + math::exp(x)); }));
  of_x("selu.default",
       by_slope([](double x, double) { return x > 0 ? kSeluScale : kSeluScale * kSeluAlpha * math::exp(x); }));
  of_x("nan_to_num.default", by_slope([](double x, double) { return std::isfinite(x) ? 1.0 : 0.0; }));
  of_x("deg2rad.default", by_slope([](double, double) { return kPi / 180; }));
  of_x("rad2deg.default", by_slope([](double, double) { return 180 / kPi; }));
  for (const std::string_view target : {"frac.default", "positive.default"})
    table.push_back({target, [](const BackwardCall& c) { return std::vector<Value>{c.g()}; }});
  of_x("softplus.default", softplus);
  of_x("mish.default", mish);
  of_x("celu.default", celu);
  of_x("threshold.default", threshold);
  of_x("hardshrink.default", shrink);
  of_x("softshrink.default", shrink);
  of_x("logit.default", logit);
  of_x("rrelu.default", rrelu);
  of_x("prelu.default", prelu);
  of_x("glu.default", glu);
}

void add_binary_backwards(std::vector<BackwardDef>& table) {
  const auto of_x = [&](std::string_view target, Backward backward) {
    table.push_back({target, backward, true, false});
  };
  constexpr auto half = [](double a, double b) { return a > b ? 1.0 : a == b ? 0.5 : 0.0; };
  constexpr auto other_half = [](double a, double b) { return b > a ? 1.0 : a == b ? 0.5 : 0.0; };
  for (const std::string_view target : {"maximum.default", "max.other"}) of_x(target, by_slopes(half, other_half));
  for (const std::string_view target : {"minimum.default", "min.other"}) of_x(target, by_slopes(other_half, half));
  of_x("fmax.default", by_slopes([](double a, double b) { return a >= b || std::isnan(b) ? 1.0 : 0.0; },
                                 [](double a, double b) { return a >= b || std::isnan(b) ? 0.0 : 1.0; }));
  of_x("fmin.default", by_slopes([](double a, double b) { return a <= b || std::isnan(b) ? 1.0 : 0.0; },
                                 [](double a, double b) { return a <= b || std::isnan(b) ? 0.0 : 1.0; }));
  of_x("atan2.default", by_slopes([](double y, double x) { return x / (x * x + y * y); },
                                  [](double y, double x) { return -y / (x * x + y * y); }));
  of_x("hypot.default", by_slopes([](double a, double b) { return a / std::sqrt(a * a + b * b); },
                                  [](double a, double b) { return b / std::sqrt(a * a + b * b); }));
  of_x("logaddexp.default", by_slopes([](double a, double b) { return 1 / (1 + math::exp(b - a)); },
                                      [](double a, double b) { return 1 / (1 + math::exp(a - b)); }));
  of_x("logaddexp2.default", by_slopes([](double a, double b) { return 1 / (1 + math::exp2(b - a)); },
                                       [](double a, double b) { return 1 / (1 + math::exp2(a - b)); }));
  constexpr auto log_of_other = [](double a, double b) { return a == 0 && b <= 0 ? 0.0 : math::log(b); };
  constexpr auto ratio = [](double a, double b) { return a / b; };
  for (const std::string_view target : {"xlogy.Tensor", "xlogy.Scalar_Self", "xlogy.Scalar_Other"})
    of_x(target, by_slopes(log_of_other, ratio));
  constexpr auto sign = [](double a, double b) {
    return a == 0 ? 0.0 : std::signbit(a) == std::signbit(b) ? 1.0 : -1.0;
  };
  constexpr auto none = [](double, double) { return 0.0; };
  constexpr auto whole = [](double, double) { return 1.0; };
  for (const std::string_view target : {"copysign.Tensor", "copysign.Scalar"}) of_x(target, by_slopes(sign, none));
  for (const std::string_view target : {"fmod.Tensor", "fmod.Scalar"})
    of_x(target, by_slopes(whole, [](double a, double b) { return -std::trunc(a / b); }));
  for (const std::string_view target : {"remainder.Tensor", "remainder.Scalar"})
    of_x(target, by_slopes(whole, [](double a, double b) { return -std::floor(a / b); }));
  constexpr auto of_base = [](double a, double b) { return b == 0 ? 0.0 : b * math::pow(a, b - 1); };
  constexpr auto of_exponent = [](double a, double b) {
    return a == 0 && b >= 0 ? 0.0 : math::pow(a, b) * math::log(a);
  };
  for (const std::string_view target : {"pow.Tensor_Tensor", "pow.Scalar"})
    of_x(target, by_slopes(of_base, of_exponent));
}

}  // namespace

void add_function_backwards(std::vector<BackwardDef>& table) {
  add_unary_backwards(table);
  add_binary_backwards(table);
  const auto of_x = [&](std::string_view target, Backward backward) {
    table.push_back({target, backward, true, false});
  };
  of_x("addcmul.default", addcmul);
  of_x("addcdiv.default", addcdiv);
  for (const std::string_view target : {"lerp.Scalar", "lerp.Tensor"}) of_x(target, lerp);
  for (const std::string_view target : {"true_divide.Tensor", "true_divide.Scalar"})
    of_x(target, by_slopes([](double, double b) { return 1 / b; }, [](double a, double b) { return -a / (b * b); }));
  for (const std::string_view target : {"div.Tensor_mode", "div.Scalar_mode"})
    of_x(target, [](const BackwardCall& c) {
      const bool rounds = !c.call.is_none(2);
      return two(
          c, [=](double, double b) { return rounds ? 0 : 1 / b; },
          [=](double a, double b) { return rounds ? 0 : -a / (b * b); });
    });
  of_x("clamp.Tensor",
       [](const BackwardCall& c) { return clamp_by(c, c.call.optional_tensor(1), c.call.optional_tensor(2), 1, 2); });
  of_x("clamp_min.Tensor", [](const BackwardCall& c) { return clamp_by(c, &c.x(1), nullptr, 1, 2); });
  of_x("clamp_max.Tensor", [](const BackwardCall& c) { return clamp_by(c, nullptr, &c.x(1), 2, 1); });
  of_x("where.ScalarSelf", [](const BackwardCall& c) { return where_number(c, 2, false); });
  of_x("where.ScalarOther", [](const BackwardCall& c) { return where_number(c, 1, true); });
  of_x("masked_fill.Tensor", masked_fill_by);
  for (const std::string_view target :
       {"floor.default", "ceil.default", "round.default", "round.decimals", "trunc.default", "sign.default",
        "sgn.default", "floor_divide.default", "floor_divide.Scalar", "heaviside.default", "angle.default"})
    table.push_back({target, nullptr});
}

}  // namespace qdq
