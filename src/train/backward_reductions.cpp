// Gradients of reductions, of scans and of what chooses elements, line by line in double (torch/csrc/autograd/
// FunctionsManual.cpp of PyTorch 2.6 has the formulas).
#include <algorithm>
#include <cmath>

#include "op/math.h"
#include "train/backward.h"

namespace qdq {
namespace {

size_t argument_named(const BackwardCall& c, std::string_view name) {
  const std::vector<SchemaArgument>& arguments = c.call.op().schema->arguments;
  for (size_t i = 0; i < arguments.size(); ++i)
    if (arguments[i].name == name) return i;
  return arguments.size();
}

// The axes of the argument `dim`: all if it is missing, None or empty.
std::vector<int64_t> reduced_axes(const BackwardCall& c) {
  const int64_t rank = c.x(0).dim();
  const size_t at = argument_named(c, "dim");
  std::vector<int64_t> axes;
  if (at < c.call.size() && !c.call.is_none(at)) axes = c.call.integers(at);
  if (axes.empty())
    for (int64_t axis = 0; axis < rank; ++axis) axes.push_back(axis);
  for (int64_t& axis : axes) axis = static_cast<int64_t>(wrap_axis(axis, rank));
  return axes;
}

// A tensor with some of its axes last, and one as large for results.
struct Lines {
  Tensor x, out;
  std::vector<int64_t> order;  // of axes
  int64_t count = 1, length = 1;
};
Lines lines_of(const Tensor& input, const std::vector<int64_t>& axes) {
  Lines lines;
  for (int64_t axis = 0; axis < input.dim(); ++axis)
    if (std::find(axes.begin(), axes.end(), axis) == axes.end()) {
      lines.order.push_back(axis);
      lines.count *= input.size(axis);
    }
  for (const int64_t axis : axes) {
    lines.order.push_back(axis);
    lines.length *= input.size(axis);
  }
  lines.x = contiguous_f32(contiguous_f32(input).permute(lines.order));
  lines.out = Tensor::empty(lines.x.sizes(), DType::kF32);
  return lines;
}
Tensor in_order(const Lines& lines) {
  std::vector<int64_t> back(lines.order.size());
  for (size_t i = 0; i < back.size(); ++i) back[static_cast<size_t>(lines.order[i])] = static_cast<int64_t>(i);
  return lines.out.permute(back).contiguous();
}

// The gradient of a reduction: body(line, its result, the result's gradient, where the elements' gradients go).
template <class Body>
Tensor reduced(const BackwardCall& c, const Tensor& result, const Tensor& grad, const Body& body) {
  const std::vector<int64_t> axes = reduced_axes(c);
  Lines lines = lines_of(c.x(0), axes);
  const Tensor g = contiguous_f32(grad), y = contiguous_f32(result);
  for (int64_t line = 0; line < lines.count; ++line) {
    const int64_t first = line * lines.length;
    body(std::span<const float>(lines.x.data<float>() + first, static_cast<size_t>(lines.length)),
         static_cast<double>(y.data<float>()[line]), static_cast<double>(g.data<float>()[line]),
         lines.out.data<float>() + first);
  }
  return in_order(lines);
}

// All elements that are the largest or least share the gradient.
void among_equals(std::span<const float> x, double y, double g, float* to) {
  const auto equals = [&](float value) {
    return value == static_cast<float>(y) || (std::isnan(y) && std::isnan(value));
  };
  const auto count = static_cast<double>(std::count_if(x.begin(), x.end(), equals));
  for (size_t i = 0; i < x.size(); ++i) to[i] = equals(x[i]) ? static_cast<float>(g / count) : 0.0f;
}
std::vector<Value> extreme(const BackwardCall& c) { return {reduced(c, c.y(), c.g(), among_equals)}; }

void product_of_others(std::span<const float> x, double, double g, float* to) {
  std::vector<double> before(x.size() + 1, 1.0);
  for (size_t i = 0; i < x.size(); ++i) before[i + 1] = before[i] * x[i];
  double behind = 1;
  for (size_t i = x.size(); i-- > 0;) {
    to[i] = static_cast<float>(g * before[i] * behind);
    behind *= x[i];
  }
}
std::vector<Value> prod(const BackwardCall& c) { return {reduced(c, c.y(), c.g(), product_of_others)}; }

std::vector<Value> logsumexp(const BackwardCall& c) {
  return {reduced(c, c.y(), c.g(), [](std::span<const float> x, double y, double g, float* to) {
    for (size_t i = 0; i < x.size(); ++i) to[i] = static_cast<float>(g * math::exp(x[i] - y));
  })};
}

std::vector<Value> nansum(const BackwardCall& c) {
  return {reduced(c, c.g(), c.g(), [](std::span<const float> x, double, double g, float* to) {
    for (size_t i = 0; i < x.size(); ++i) to[i] = std::isnan(x[i]) ? 0.0f : static_cast<float>(g);
  })};
}

// |x|_p along the axes; p = 2 if there is none.
double power_of_norm(const BackwardCall& c) {
  for (const std::string_view name : {"ord", "p"})
    if (const size_t at = argument_named(c, name); at < c.call.size())
      return c.call.is_none(at) ? 2 : c.call.number(at);
  return 2;
}
std::vector<Value> vector_norm(const BackwardCall& c) {
  const double p = power_of_norm(c);
  return {reduced(c, c.y(), c.g(), [p](std::span<const float> x, double y, double g, float* to) {
    if (std::isinf(p)) {
      const auto equals = [&](float value) { return std::fabs(value) == static_cast<float>(y); };
      const auto count = static_cast<double>(std::count_if(x.begin(), x.end(), equals));
      for (size_t i = 0; i < x.size(); ++i)
        to[i] = equals(x[i]) && x[i] != 0 ? static_cast<float>((x[i] > 0 ? g : -g) / count) : 0.0f;
      return;
    }
    for (size_t i = 0; i < x.size(); ++i) {
      const double a = std::fabs(static_cast<double>(x[i])), sign = x[i] > 0 ? 1 : x[i] < 0 ? -1 : 0;
      double slope = 0;
      if (p == 1) slope = sign;
      else if (p == 2) slope = y == 0 ? 0 : x[i] / y;
      else if (p != 0 && y != 0 && a != 0) slope = sign * math::pow(a, p - 1) / math::pow(y, p - 1);
      to[i] = static_cast<float>(g * slope);
    }
  })};
}

// How many are taken off the number of elements: `correction`, or 1 where `unbiased`.
double correction_of(const BackwardCall& c) {
  if (const size_t at = argument_named(c, "correction"); at < c.call.size())
    return c.call.is_none(at) ? 1 : c.call.number(at);
  const size_t at = argument_named(c, "unbiased");
  return c.call.boolean(at) ? 1 : 0;
}

// grad of variances (or deviations) and of means, either of which may be undefined
Tensor moments(const BackwardCall& c, const Tensor* of_spread, const Tensor* of_mean, bool is_deviation) {
  const double correction = correction_of(c);
  const Tensor zeros = Tensor::empty((of_spread ? of_spread : of_mean)->sizes(), DType::kF32);
  return reduced(c, of_mean ? *of_mean : zeros, of_spread ? *of_spread : zeros,
                 [=](std::span<const float> x, double mean_grad, double g, float* to) {
                   const auto n = static_cast<double>(x.size());
                   double mean = 0, squares = 0;
                   for (const float value : x) mean += value;
                   mean /= n;
                   for (const float value : x) squares += (value - mean) * (value - mean);
                   const double count = std::max(0.0, n - correction), spread = squares / count;
                   double factor = 2 / count;
                   if (is_deviation) factor = spread == 0 ? 0 : 1 / (count * std::sqrt(spread));
                   for (size_t i = 0; i < x.size(); ++i)
                     to[i] = static_cast<float>(g * factor * (x[i] - mean) + mean_grad / n);
                 });
}
template <bool is_deviation> std::vector<Value> spread(const BackwardCall& c) {
  return {moments(c, &c.g(), nullptr, is_deviation)};
}
template <bool is_deviation> std::vector<Value> spread_and_mean(const BackwardCall& c) {
  const Value::List& grads = *c.grad.get_if<Value::List>();
  return {moments(c, grads.at(0).get_if<Tensor>(), grads.at(1).get_if<Tensor>(), is_deviation)};
}

// (values, indices along an axis): each value's gradient belongs to the element that it is.
std::vector<Value> chosen(const BackwardCall& c) {
  const Tensor* grad = c.grad.get_if<Value::List>()->at(0).get_if<Tensor>();
  const Tensor out = Tensor::empty(c.x(0).sizes(), DType::kF32);
  if (grad == nullptr) return {out};
  Tensor g = contiguous_f32(*grad), at = c.result.get_if<Value::List>()->at(1).get_if<Tensor>()->to(DType::kS64);
  const size_t argument = argument_named(c, "dim");
  const auto axis = static_cast<int64_t>(wrap_axis(c.call.integer(argument), std::max<int64_t>(1, out.dim())));
  if (out.dim() == 0) return {g.reshape({})};
  if (g.dim() < out.dim()) g = g.unsqueeze(axis), at = at.unsqueeze(axis);
  at = at.contiguous();
  g = g.contiguous();
  const int64_t inner = numel_of(Shape(out.sizes().begin() + axis + 1, out.sizes().end())), length = out.size(axis),
                taken = g.size(axis);
  for (int64_t i = 0; i < g.numel(); ++i) {
    const int64_t outer = i / (inner * taken);
    out.data<float>()[(outer * length + at.data<int64_t>()[i]) * inner + i % inner] += g.data<float>()[i];
  }
  return {out};
}

// Scans along an axis: body(line, its result, the result's gradients, where the elements' gradients go).
template <class Body> std::vector<Value> scan(const BackwardCall& c, const Body& body) {
  const std::vector<int64_t> axes = reduced_axes(c);
  Lines lines = lines_of(c.x(0), axes);
  const Lines g = lines_of(c.g(), axes), y = lines_of(c.y(), axes);
  for (int64_t line = 0; line < lines.count; ++line) {
    const int64_t first = line * lines.length;
    body(lines.x.data<float>() + first, y.x.data<float>() + first, g.x.data<float>() + first,
         lines.out.data<float>() + first, lines.length);
  }
  return {in_order(lines)};
}
std::vector<Value> cumsum(const BackwardCall& c) {
  return scan(c, [](const float*, const float*, const float* g, float* to, int64_t n) {
    double sum = 0;
    for (int64_t i = n; i-- > 0;) to[i] = static_cast<float>(sum += g[i]);
  });
}
std::vector<Value> cumprod(const BackwardCall& c) {
  return scan(c, [](const float* x, const float*, const float* g, float* to, int64_t n) {
    double before = 1;
    for (int64_t i = 0; i < n; ++i) {
      double sum = 0, others = before;
      for (int64_t k = i; k < n; ++k) {
        if (k > i) others *= x[k];
        sum += g[k] * others;
      }
      to[i] = static_cast<float>(sum);
      before *= x[i];
    }
  });
}
std::vector<Value> logcumsumexp(const BackwardCall& c) {
  return scan(c, [](const float* x, const float* y, const float* g, float* to, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
      double sum = 0;
      for (int64_t k = i; k < n; ++k) sum += g[k] * math::exp(static_cast<double>(x[i]) - y[k]);
      to[i] = static_cast<float>(sum);
    }
  });
}

}  // namespace

void add_reduction_backwards(std::vector<BackwardDef>& table) {
  const auto of_x = [&](std::string_view target, Backward backward) {
    table.push_back({target, backward, true, false});
  };
  const auto of_both = [&](std::string_view target, Backward backward) {
    table.push_back({target, backward, true, true});
  };
  for (const std::string_view target : {"amax.default", "amin.default", "max.default", "min.default", "median.default"})
    of_both(target, extreme);
  for (const std::string_view target : {"prod.default", "prod.dim_int"}) of_both(target, prod);
  of_both("logsumexp.default", logsumexp);
  of_x("nansum.default", nansum);
  for (const std::string_view target : {"linalg_vector_norm.default", "norm.Scalar", "norm.ScalarOpt_dim",
                                        "norm.ScalarOpt_dtype", "norm.ScalarOpt_dim_dtype", "frobenius_norm.dim"})
    of_both(target, vector_norm);
  for (const std::string_view target : {"var.correction", "var.dim", "var.default"}) of_x(target, spread<false>);
  for (const std::string_view target : {"std.correction", "std.dim", "std.default"}) of_x(target, spread<true>);
  for (const std::string_view target : {"var_mean.correction", "var_mean.dim", "var_mean.default"})
    of_x(target, spread_and_mean<false>);
  for (const std::string_view target : {"std_mean.correction", "std_mean.dim", "std_mean.default"})
    of_x(target, spread_and_mean<true>);
  for (const std::string_view target : {"max.dim", "min.dim", "median.dim", "kthvalue.default", "topk.default",
                                        "sort.default", "sort.stable", "cummax.default", "cummin.default"})
    table.push_back({target, chosen, false, true});
  of_both("cumsum.default", cumsum);
  of_both("cumprod.default", cumprod);
  of_both("logcumsumexp.default", logcumsumexp);
}

}  // namespace qdq
