// Activation functions: one tensor in, one of the same shape out.
#include <limits>

#include "op/elements.h"
#include "op/families.h"
#include "op/math.h"

namespace qdq {
namespace {

// The result of sigmoid(int tensor) and the like is f32.
MetaValue infer_float_like_self(const Call<TensorMeta>& call) {
  return tensor_meta(float_dtype(call.tensor(0).dtype), call.tensor(0).sizes);
}

// f(C) -> C of every element, for float and integer tensors alike; f chooses, it does not round.
template <class F> Value any_formula(const Call<Tensor>& call, const F& f) {
  const Tensor& x = call.tensor(0);
  return run_loops(x, x.dtype(), x.dtype(), &f, kWideLoops<F>);
}

// f(C) -> C, for floats; the arithmetic is that of the tensor's dtype, as in PyTorch.
template <class F> Value float_formula(const Call<Tensor>& call, const F& f) {
  const Tensor& x = call.tensor(0);
  check_float(x.dtype(), call.op().target);
  return run_loops(x, x.dtype(), x.dtype(), &f, kFloatLoops<F>);
}

// f(double) -> double, rounded once; for formulas with transcendental functions. Integers become f32 where inference
// says so.
template <class F> Value exact_formula(const Call<Tensor>& call, F f) {
  const DType out = result_meta(call).dtype;
  check_float(out, call.op().target);
  return run_loops(call.tensor(0), out, out, &f, kDoubleLoops<F>);
}

template <double (*F)(double)> Value eval_exact(const Call<Tensor>& call) { return exact_formula(call, F); }

Value eval_relu(const Call<Tensor>& call) {
  return any_formula(call, [](auto x) { return x < 0 ? decltype(x)(0) : x; });
}

// NaN stays NaN, as in ATen's clamp.
Value clamp_to(const Call<Tensor>& call, double low, double high) {
  return any_formula(call, [=](auto x) {
    using C = decltype(x);
    const C lowest = saturate<C>(low), highest = saturate<C>(high);
    return x < lowest ? lowest : x > highest ? highest : x;
  });
}
Value eval_relu6(const Call<Tensor>& call) { return clamp_to(call, 0, 6); }
Value eval_hardtanh(const Call<Tensor>& call) { return clamp_to(call, call.number(1), call.number(2)); }

// ATen/native/cpu/Activation.cpp: x * min(max(x + 3, 0), 6) / 6 and min(max(x + 3, 0), 6) / 6.
template <class C> C relu6_of_shifted(C x) { return std::min(std::max(x + C(3), C(0)), C(6)); }
Value eval_hardswish(const Call<Tensor>& call) {
  return float_formula(call, [](auto x) { return x * relu6_of_shifted(x) / decltype(x)(6); });
}
Value eval_hardsigmoid(const Call<Tensor>& call) {
  return float_formula(call, [](auto x) { return relu6_of_shifted(x) / decltype(x)(6); });
}

Value eval_leaky_relu(const Call<Tensor>& call) {
  const double slope = call.number(1);
  return float_formula(call, [=](auto x) { return x > 0 ? x : x * static_cast<decltype(x)>(slope); });
}

Value eval_threshold(const Call<Tensor>& call) {
  const double threshold = call.number(1), value = call.number(2);
  return any_formula(call,
                     [=](auto x) { return x <= saturate<decltype(x)>(threshold) ? saturate<decltype(x)>(value) : x; });
}

Value eval_hardshrink(const Call<Tensor>& call) {
  const double lambda = call.number(1);
  return float_formula(call, [=](auto x) {
    const auto l = static_cast<decltype(x)>(lambda);
    return x >= -l && x <= l ? decltype(x)(0) : x;
  });
}

Value eval_softshrink(const Call<Tensor>& call) {
  const double lambda = call.number(1);
  QDQ_CHECK(lambda >= 0, kInvalidArgument, call.op().target, " got lambd ", lambda);
  return float_formula(call, [=](auto x) {
    const auto l = static_cast<decltype(x)>(lambda);
    return x > l ? x - l : x < -l ? x + l : x == x ? decltype(x)(0) : x;
  });
}

// Outside of training the slope is the middle of its range.
size_t first_slope(const OpDef& op) { return op.schema->arguments[1].name == "noise" ? 2 : 1; }
Value eval_rrelu(const Call<Tensor>& call) {
  const size_t lower = first_slope(call.op());
  QDQ_CHECK(!call.boolean(lower + 2), kUnsupported, call.op().target,
            " in training mode draws random numbers, which qdq does not do: export the model in evaluation mode");
  const double slope = (call.number(lower) + call.number(lower + 1)) / 2;
  return float_formula(call, [=](auto x) { return x > 0 ? x : x * static_cast<decltype(x)>(slope); });
}

double sigmoid_of(double x) { return 1 / (1 + math::exp(-x)); }
double silu_of(double x) { return x / (1 + math::exp(-x)); }
double mish_of(double x) { return x * math::tanh(math::log1p(math::exp(x))); }
double log_sigmoid_of(double x) { return std::min(x, 0.0) - math::log1p(math::exp(-std::fabs(x))); }

double gelu_of(double x) { return 0.5 * x * (1 + math::erf(x * 0x1.6a09e667f3bcdp-1)); }
double gelu_tanh_of(double x) {
  constexpr double kSqrt2OverPi = 0x1.9884533d43651p-1;
  return 0.5 * x * (1 + math::tanh(kSqrt2OverPi * (x + 0.044715 * x * x * x)));
}
Value eval_gelu(const Call<Tensor>& call) {
  const std::string& approximate = call.string(1);
  QDQ_CHECK(approximate == "none" || approximate == "tanh", kInvalidArgument, call.op().target,
            " needs approximate 'none' or 'tanh', found '", approximate, "'");
  return exact_formula(call, approximate == "none" ? gelu_of : gelu_tanh_of);
}

Value elu_with(const Call<Tensor>& call, double alpha, double scale, double input_scale) {
  return exact_formula(call,
                       [=](double x) { return x > 0 ? x * scale : math::expm1(x * input_scale) * alpha * scale; });
}
Value eval_elu(const Call<Tensor>& call) { return elu_with(call, call.number(1), call.number(2), call.number(3)); }
Value eval_celu(const Call<Tensor>& call) { return elu_with(call, call.number(1), 1, 1 / call.number(1)); }
Value eval_selu(const Call<Tensor>& call) {
  return elu_with(call, 1.6732632423543772848170429916717, 1.0507009873554804934193349852946, 1);
}

Value eval_softplus(const Call<Tensor>& call) {
  const double beta = call.number(1), threshold = call.number(2);
  return exact_formula(call,
                       [=](double x) { return x * beta > threshold ? x : math::log1p(math::exp(x * beta)) / beta; });
}

// weight: one number, or one for each channel (axis 1).
Value eval_prelu(const Call<Tensor>& call) {
  infer_call(call);
  const Tensor& x = call.tensor(0);
  Tensor weight = call.tensor(1);
  if (weight.numel() == 1) {
    weight = weight.reshape({});
  } else {
    Shape shape(x.sizes().size(), 1);
    shape.at(1) = weight.numel();
    weight = weight.reshape(shape);
  }
  check_float(x.dtype(), call.op().target);
  const auto formula = [](double v, double w) { return v > 0 ? v : v * w; };
  return run_loops(x, weight, x.dtype(), x.dtype(), &formula, kDoubleLoops<decltype(formula)>);
}
MetaValue infer_prelu(const Call<TensorMeta>& call) {
  const TensorMeta &x = call.tensor(0), &weight = call.tensor(1);
  QDQ_CHECK(
      numel_of(weight.sizes) == SymInt(1) || (x.sizes.size() >= 2 && may_be_equal(numel_of(weight.sizes), x.sizes[1])),
      kInvalidArgument, "prelu got a weight of shape ", to_string(weight.sizes), " for an input of shape ",
      to_string(x.sizes));
  return infer_like_self(call);
}

// Both halves of an axis: a * sigmoid(b).
MetaValue infer_glu(const Call<TensorMeta>& call) {
  TensorMeta out = tensor_meta(call.tensor(0).dtype, call.tensor(0).sizes);
  SymInt& size = out.sizes.at(axis_of(call, 1, out.sizes.size()));
  size = size.floor_div(2);
  return out;
}
Value eval_glu(const Call<Tensor>& call) {
  const Tensor& x = call.tensor(0);
  const int64_t axis = wrap_axis(call.integer(1), x.dim()), size = x.size(axis);
  QDQ_CHECK(size % 2 == 0, kInvalidArgument, "glu needs an even size in axis ", axis, ", found ", size);
  check_float(x.dtype(), call.op().target);
  const auto formula = [](double v, double gate) { return v * sigmoid_of(gate); };
  return run_loops(x.slice(axis, 0, size / 2), x.slice(axis, size / 2, size), x.dtype(), x.dtype(), &formula,
                   kDoubleLoops<decltype(formula)>);
}

}  // namespace

void add_activation_ops(std::vector<OpDef>& ops) {
  using Kind = kernel::Activation::Kind;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const Computes relu{{Kind::kClamp, 0, kInfinity}}, relu6{{Kind::kClamp, 0, 6}};
  const Computes hardtanh{{Kind::kClamp}, 1, 2}, leaky_relu{{Kind::kLeakyRelu}, -1, -1, 1};
  const Computes hardswish{{Kind::kHardSwish}}, hardsigmoid{{Kind::kHardSigmoid}}, sigmoid{{Kind::kSigmoid}};
  const Computes tanh{{Kind::kTanh}}, silu{{Kind::kSilu}}, gelu{{Kind::kGelu}}, no_kernel{};
  const auto add = [&](const char* line, Eval eval, const Computes& computes, Infer infer = infer_like_self) {
    const bool clamps = computes.function.kind == Kind::kClamp;
    ops.push_back(define(line, infer, eval, {.activation = 0, .shares_qparams = clamps}, Family::kActivation));
    ops.back().computes = computes;
  };
  add("aten::relu(Tensor self) -> Tensor", eval_relu, relu);
  add("aten::relu_(Tensor(a!) self) -> Tensor(a!)", in_place<eval_relu>, relu);
  add("aten::relu6(Tensor self) -> Tensor", eval_relu6, relu6);
  add("aten::relu6_(Tensor(a!) self) -> Tensor(a!)", in_place<eval_relu6>, relu6);
  add("aten::hardtanh(Tensor self, Scalar min_val=-1, Scalar max_val=1) -> Tensor", eval_hardtanh, hardtanh);
  add("aten::hardtanh_(Tensor(a!) self, Scalar min_val=-1, Scalar max_val=1) -> Tensor(a!)", in_place<eval_hardtanh>,
      hardtanh);
  add("aten::hardswish(Tensor self) -> Tensor", eval_hardswish, hardswish);
  add("aten::hardswish_(Tensor(a!) self) -> Tensor(a!)", in_place<eval_hardswish>, hardswish);
  add("aten::hardsigmoid(Tensor self) -> Tensor", eval_hardsigmoid, hardsigmoid);
  add("aten::hardsigmoid_(Tensor(a!) self) -> Tensor(a!)", in_place<eval_hardsigmoid>, hardsigmoid);
  add("aten::leaky_relu(Tensor self, Scalar negative_slope=0.01) -> Tensor", eval_leaky_relu, leaky_relu);
  add("aten::leaky_relu_(Tensor(a!) self, Scalar negative_slope=0.01) -> Tensor(a!)", in_place<eval_leaky_relu>,
      leaky_relu);
  add("aten::threshold(Tensor self, Scalar threshold, Scalar value) -> Tensor", eval_threshold, no_kernel);
  add("aten::hardshrink(Tensor self, Scalar lambd=0.5) -> Tensor", eval_hardshrink, no_kernel);
  add("aten::softshrink(Tensor self, Scalar lambd=0.5) -> Tensor", eval_softshrink, no_kernel);
  add("aten::rrelu(Tensor self, Scalar lower=0.125, Scalar upper=0.33333333333333331, bool training=False, Generator? "
      "generator=None) -> Tensor",
      eval_rrelu, no_kernel);
  add("aten::rrelu_with_noise(Tensor self, Tensor(b!) noise, Scalar lower=0.125, Scalar upper=0.33333333333333331, "
      "bool "
      "training=False, Generator? generator=None) -> Tensor",
      eval_rrelu, no_kernel);
  add("aten::sigmoid(Tensor self) -> Tensor", eval_exact<sigmoid_of>, sigmoid, infer_float_like_self);
  add("aten::sigmoid_(Tensor(a!) self) -> Tensor(a!)", in_place<eval_exact<sigmoid_of>>, sigmoid);
  add("aten::tanh(Tensor self) -> Tensor", eval_exact<math::tanh>, tanh, infer_float_like_self);
  add("aten::tanh_(Tensor(a!) self) -> Tensor(a!)", in_place<eval_exact<math::tanh>>, tanh);
  add("aten::silu(Tensor self) -> Tensor", eval_exact<silu_of>, silu);
  add("aten::silu_(Tensor(a!) self) -> Tensor(a!)", in_place<eval_exact<silu_of>>, silu);
  add("aten::mish(Tensor self) -> Tensor", eval_exact<mish_of>, no_kernel);
  add("aten::mish_(Tensor(a!) self) -> Tensor(a!)", in_place<eval_exact<mish_of>>, no_kernel);
  add("aten::log_sigmoid(Tensor self) -> Tensor", eval_exact<log_sigmoid_of>, no_kernel);
  add("aten::gelu(Tensor self, *, str approximate=\"none\") -> Tensor", eval_gelu, gelu);
  add("aten::gelu_(Tensor(a!) self, *, str approximate=\"none\") -> Tensor(a!)", in_place<eval_gelu>, gelu);
  add("aten::elu(Tensor self, Scalar alpha=1, Scalar scale=1, Scalar input_scale=1) -> Tensor", eval_elu, no_kernel);
  add("aten::elu_(Tensor(a!) self, Scalar alpha=1, Scalar scale=1, Scalar input_scale=1) -> Tensor(a!)",
      in_place<eval_elu>, no_kernel);
  add("aten::celu(Tensor self, Scalar alpha=1.) -> Tensor", eval_celu, no_kernel);
  add("aten::selu(Tensor self) -> Tensor", eval_selu, no_kernel);
  add("aten::softplus(Tensor self, Scalar beta=1, Scalar threshold=20) -> Tensor", eval_softplus, no_kernel);
  ops.push_back(define("aten::prelu(Tensor self, Tensor weight) -> Tensor", infer_prelu, eval_prelu,
                       {.activation = 0, .weight = 1}));
  ops.push_back(define("aten::glu(Tensor self, int dim=-1) -> Tensor", infer_glu, eval_glu, {.activation = 0}));
}

}  // namespace qdq
