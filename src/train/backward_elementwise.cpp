// Gradients of element-wise operators (tools/autograd/derivatives.yaml of PyTorch 2.6 has the formulas).
#include <limits>

#include "base/parallel.h"
#include "kernel/math.h"
#include "op/elements.h"
#include "train/backward.h"

namespace qdq {
namespace {

constexpr int64_t kGrain = 1 << 14;

// n results from gradients and elements that are `step` apart. A loop is all that is compiled for each function.
using GradLoop = void (*)(const void* f, const float* grads, const float* elements, int64_t step, float* out,
                          int64_t n);
template <class F>
void loop_of(const void* f, const float* grads, const float* elements, int64_t step, float* out, int64_t n) {
  const F& function = *static_cast<const F*>(f);
  if (step == 0) {
    const float element = *elements;
    for (int64_t i = 0; i < n; ++i) out[i] = function(grads[i], element);
  } else {
    for (int64_t i = 0; i < n; ++i) out[i] = function(grads[i], elements[i]);
  }
}

Tensor run_loop(const Tensor& grad, const Tensor& of, const void* f, GradLoop loop) {
  const Repeats repeats = repeats_of(of.sizes(), grad.sizes());
  const Tensor g = contiguous_f32(grad), x = contiguous_f32(repeats.count > 0 ? of : of.expand(grad.sizes())),
               out = Tensor::empty(g.sizes(), DType::kF32);
  const float *a = g.data<float>(), *b = x.data<float>();
  float* to = out.data<float>();
  if (x.numel() == g.numel()) {
    parallel_for(g.numel(), kGrain,
                 [&](int64_t begin, int64_t end) { loop(f, a + begin, b + begin, 1, to + begin, end - begin); });
    return out;
  }
  for (int64_t first = 0, row = 0; first < g.numel(); first += repeats.inner, ++row)
    loop(f, a + first, b + row % repeats.count, 0, to + first, repeats.inner);
  return out;
}

// f(grad, element of `of`) for every element; `of` may be broadcast.
template <class F> Tensor combined(const Tensor& grad, const Tensor& of, const F& f) {
  return run_loop(grad, of, &f, loop_of<F>);
}
Tensor times(const Tensor& a, const Tensor& b) {
  return combined(a, b, [](float g, float x) { return g * x; });
}
Tensor times(const Tensor& a, double factor) {
  const auto f = static_cast<float>(factor);
  return combined(a, a, [=](float g, float) { return g * f; });
}
// A kernel over a whole array.
Tensor curve(void (*kernel)(const float*, int64_t, float*), const Tensor& of) {
  const Tensor x = contiguous_f32(of), out = Tensor::empty(x.sizes(), DType::kF32);
  kernel(x.data<float>(), x.numel(), out.data<float>());
  return out;
}

float number(const BackwardCall& c, size_t i) { return static_cast<float>(c.call.number(i)); }

// add, sub and rsub: grad of self and of other, times what the formula has in front of them.
enum class SumForm { kAdd, kSub, kReverseSub };
template <SumForm kind> std::vector<Value> sum(const BackwardCall& c) {
  const double alpha = c.call.number(2), self = kind == SumForm::kReverseSub ? -alpha : 1,
               other = kind == SumForm::kAdd   ? alpha
                       : kind == SumForm::kSub ? -alpha
                                               : 1;
  std::vector<Value> out(2);
  const auto grad = [&](size_t i, double factor) {
    if (c.wanted[i]) out[i] = sum_to_shape(factor == 1 ? c.g() : times(c.g(), factor), c.x(i).sizes());
  };
  grad(0, self);
  grad(1, other);
  return out;
}

// The other operand: a tensor, or a number as a tensor of one.
Tensor second(const BackwardCall& c) { return operand(c.call, 1).to(DType::kF32); }

std::vector<Value> mul(const BackwardCall& c) {
  std::vector<Value> out(2);
  if (c.wanted[0]) out[0] = sum_to_shape(times(c.g(), second(c)), c.x(0).sizes());
  if (c.wanted[1]) out[1] = sum_to_shape(times(c.g(), c.x(0)), c.x(1).sizes());
  return out;
}

std::vector<Value> div(const BackwardCall& c) {
  std::vector<Value> out(2);
  const Tensor by = second(c);
  const Tensor self = combined(c.g(), by, [](float g, float d) { return g / d; });
  if (c.wanted[0]) out[0] = sum_to_shape(self, c.x(0).sizes());
  if (c.wanted[1]) {
    const Tensor product = times(self, c.x(0));
    out[1] = sum_to_shape(combined(product, by, [](float a, float d) { return -a / d; }), c.x(1).sizes());
  }
  return out;
}

std::vector<Value> pow_of(const BackwardCall& c) {
  const Tensor x = contiguous_f32(c.x(0)), power = Tensor::full(x.sizes(), DType::kF32, c.call.number(1) - 1),
               out = Tensor::empty(x.sizes(), DType::kF32);
  if (c.call.number(1) == 0) return {Value(out)};
  kernel::pow_f32(x.data<float>(), power.data<float>(), x.numel(), out.data<float>());
  return {Value(times(times(c.g(), out), c.call.number(1)))};
}

// The gradient of one element from the element that went in, or (of_result) that came out.
template <class F> constexpr auto of_input(F) {
  return [](const BackwardCall& c) { return std::vector<Value>{combined(c.g(), c.x(0), F())}; };
}
template <class F> constexpr auto of_result(F) {
  return [](const BackwardCall& c) { return std::vector<Value>{combined(c.g(), c.y(), F())}; };
}

std::vector<Value> within(const BackwardCall& c, float low, float high, bool inclusive) {
  if (inclusive) return {combined(c.g(), c.x(0), [=](float g, float x) { return low <= x && x <= high ? g : 0.0f; })};
  return {combined(c.g(), c.x(0), [=](float g, float x) { return low < x && x < high ? g : 0.0f; })};
}
constexpr float kFar = std::numeric_limits<float>::infinity();
std::vector<Value> clamp(const BackwardCall& c) {
  return within(c, c.call.is_none(1) ? -kFar : number(c, 1), c.call.is_none(2) ? kFar : number(c, 2), true);
}

std::vector<Value> leaky_relu(const BackwardCall& c) {
  const float slope = number(c, 1);
  return {combined(c.g(), c.x(0), [=](float g, float x) { return x > 0 ? g : g * slope; })};
}

std::vector<Value> elu(const BackwardCall& c) {
  const float scale = number(c, 2), low = number(c, 1) * scale, input = number(c, 3);
  return {combined(c.g(), c.y(), [=](float g, float y) { return y <= 0 ? g * input * (y + low) : g * scale; })};
}

std::vector<Value> silu(const BackwardCall& c) {
  const Tensor slope =
      combined(curve(kernel::sigmoid_f32, c.x(0)), c.x(0), [](float s, float x) { return s * (1 + x * (1 - s)); });
  return {times(c.g(), slope)};
}

std::vector<Value> gelu(const BackwardCall& c) {
  const Tensor& x = c.x(0);
  if (c.call.string(1) == "tanh") {
    constexpr float kBeta = 0.7978845608028654f, kKappa = 0.044715f;
    const Tensor inner = combined(x, x, [](float v, float) { return kBeta * (v + kKappa * v * v * v); });
    const Tensor slope = combined(curve(kernel::tanh_f32, inner), x, [](float t, float v) {
      return 0.5f * (1 + t) + 0.5f * v * (1 - t * t) * kBeta * (1 + 3 * kKappa * v * v);
    });
    return {times(c.g(), slope)};
  }
  const Tensor cdf = curve(kernel::erf_f32, times(x, 0.7071067811865476));
  const Tensor density = curve(kernel::exp_f32, combined(x, x, [](float v, float) { return -0.5f * v * v; }));
  const Tensor part = combined(density, x, [](float d, float v) { return d * 0.3989422804014327f * v; });
  return {times(c.g(), combined(cdf, part, [](float e, float p) { return 0.5f * (1 + e) + p; }))};
}

// What the condition lets through, of self (argument 1) and of other, or of what is not masked (argument 0).
Tensor where(const BackwardCall& c, const Tensor& condition, bool is, size_t i) {
  const Tensor passes =
      combined(c.g(), condition.to(DType::kF32), [=](float g, float on) { return (on != 0) == is ? g : 0.0f; });
  return sum_to_shape(passes, c.x(i).sizes());
}
std::vector<Value> where_self(const BackwardCall& c) {
  std::vector<Value> out(3);
  for (size_t i : {size_t{1}, size_t{2}})
    if (c.wanted[i]) out[i] = where(c, c.x(0), i == 1, i);
  return out;
}
std::vector<Value> masked_fill(const BackwardCall& c) { return {Value(where(c, c.x(1), false, 0))}; }

}  // namespace

void add_elementwise_backwards(std::vector<BackwardDef>& table) {
  const auto of_x = [&](std::string_view target, Backward backward) {
    table.push_back({target, backward, true, false});
  };
  const auto of_y = [&](std::string_view target, Backward backward) {
    table.push_back({target, backward, false, true});
  };
  for (const std::string_view target : {"add.Tensor", "add.Scalar"}) table.push_back({target, sum<SumForm::kAdd>});
  for (const std::string_view target : {"sub.Tensor", "sub.Scalar"}) table.push_back({target, sum<SumForm::kSub>});
  for (const std::string_view target : {"rsub.Tensor", "rsub.Scalar"})
    table.push_back({target, sum<SumForm::kReverseSub>});
  for (const std::string_view target : {"mul.Tensor", "mul.Scalar"}) of_x(target, mul);
  for (const std::string_view target : {"div.Tensor", "div.Scalar"}) of_x(target, div);
  of_x("pow.Tensor_Scalar", pow_of);
  table.push_back({"neg.default", [](const BackwardCall& c) { return std::vector<Value>{times(c.g(), -1)}; }});
  of_x("abs.default", of_input([](float g, float x) { return x > 0 ? g : x < 0 ? -g : 0.0f; }));
  of_x("square.default", of_input([](float g, float x) { return 2 * g * x; }));
  of_x("log.default", of_input([](float g, float x) { return g / x; }));
  of_y("exp.default", of_result([](float g, float y) { return g * y; }));
  of_y("sqrt.default", of_result([](float g, float y) { return g / (2 * y); }));
  of_y("rsqrt.default", of_result([](float g, float y) { return -0.5f * g * (y * y * y); }));
  of_y("reciprocal.default", of_result([](float g, float y) { return -g * (y * y); }));
  of_y("sigmoid.default", of_result([](float g, float y) { return g * (1 - y) * y; }));
  of_y("tanh.default", of_result([](float g, float y) { return g * (1 - y * y); }));
  of_y("relu.default", of_result([](float g, float y) { return y <= 0 ? 0.0f : g; }));
  of_x("relu6.default", [](const BackwardCall& c) { return within(c, 0, 6, false); });
  of_x("hardtanh.default", [](const BackwardCall& c) { return within(c, number(c, 1), number(c, 2), false); });
  of_x("clamp.default", clamp);
  of_x("clamp_min.default", [](const BackwardCall& c) { return within(c, number(c, 1), kFar, true); });
  of_x("clamp_max.default", [](const BackwardCall& c) { return within(c, -kFar, number(c, 1), true); });
  of_x("leaky_relu.default", leaky_relu);
  of_x("hardswish.default", of_input([](float g, float x) { return x < -3 ? 0.0f : x <= 3 ? g * (x / 3 + 0.5f) : g; }));
  of_x("hardsigmoid.default", of_input([](float g, float x) { return -3 < x && x < 3 ? g / 6 : 0.0f; }));
  of_y("elu.default", elu);
  of_x("where.self", where_self);
  of_x("masked_fill.Scalar", masked_fill);
  of_x("silu.default", silu);
  of_x("gelu.default", gelu);
}

}  // namespace qdq
