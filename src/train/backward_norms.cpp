// Gradients of normalisations, pools, means and softmax.
#include <algorithm>
#include <array>
#include <cmath>

#include "base/parallel.h"
#include "kernel/math.h"
#include "train/backward.h"

namespace qdq {
namespace {

// The gradient of the result itself where an operator has further ones, as the native_ forms have.
const Tensor& first_grad(const BackwardCall& c) {
  if (const Tensor* grad = c.grad.get_if<Tensor>()) return *grad;
  const Tensor* grad = c.grad.get_if<Value::List>()->at(0).get_if<Tensor>();
  QDQ_CHECK(grad != nullptr, kUnsupported, c.call.op().target, " has a gradient for its first result only");
  return *grad;
}

double element(const Tensor& vector, int64_t i, double otherwise) {
  return vector.defined() ? vector.data<float>()[i] : otherwise;
}
Tensor optional_floats(const BackwardCall& c, size_t i) {
  return c.call.optional_tensor(i) ? contiguous_f32(c.x(i)) : Tensor();
}

// The sum of (a - a0) (b - b0), in eight strands added pairwise.
double centered_product(const float* a, double a0, const float* b, double b0, int64_t n) {
  double strands[8] = {};
  int64_t i = 0;
  for (; i + 8 <= n; i += 8)
    for (int64_t j = 0; j < 8; ++j) strands[j] += (a[i + j] - a0) * (b[i + j] - b0);
  for (int64_t j = 0; i < n; ++i, ++j) strands[j] += (a[i] - a0) * (b[i] - b0);
  return ((strands[0] + strands[4]) + (strands[2] + strands[6])) +
         ((strands[1] + strands[5]) + (strands[3] + strands[7]));
}

// y = (x - mean) / sqrt(var + eps) * gamma + beta. In training mean and variance are the batch's, so x moves them:
//   grad x = gamma rstd (g - mean(g) - xhat mean(g xhat)),   else   gamma rstd g.
// Channel by channel in double, image by image.
std::vector<Value> batch_norm(const BackwardCall& c, bool training, double eps) {
  const Tensor x = contiguous_f32(c.x(0)), g = contiguous_f32(first_grad(c)), gamma = optional_floats(c, 1);
  const Tensor mean = training ? Tensor() : contiguous_f32(c.x(3)), var = training ? Tensor() : contiguous_f32(c.x(4));
  const int64_t batch = x.size(0), channels = x.size(1), pixels = x.numel() / std::max<int64_t>(1, batch * channels);
  const Tensor grad_x = Tensor::empty(x.sizes(), DType::kF32), grad_gamma = Tensor::empty({channels}, DType::kF32);
  const Tensor grad_beta = Tensor::empty({channels}, DType::kF32);
  const float *values = x.data<float>(), *grads = g.data<float>();
  float* to = grad_x.data<float>();
  const auto count = static_cast<double>(batch * pixels);
  parallel_for(channels, 1, [&](int64_t begin, int64_t end) {
    for (int64_t channel = begin; channel < end; ++channel) {
      // body(first pixel) of the channel in every image
      const auto for_each_image = [&](auto&& body) {
        for (int64_t n = 0; n < batch; ++n) body((n * channels + channel) * pixels);
      };
      double center = element(mean, channel, 0), variance = element(var, channel, 0);
      if (training) {
        for_each_image([&](int64_t first) { center += run_sum(values + first, pixels); });
        center /= count;
        for_each_image([&](int64_t first) {
          variance += centered_product(values + first, center, values + first, center, pixels);
        });
        variance /= count;
      }
      const double rstd = 1 / std::sqrt(variance + eps);
      double sum = 0, dot = 0;
      for_each_image([&](int64_t first) {
        sum += run_sum(grads + first, pixels);
        dot += rstd * centered_product(grads + first, 0, values + first, center, pixels);
      });
      const double factor = element(gamma, channel, 1) * rstd, slope = training ? dot / count * rstd : 0;
      const double shift = training ? sum / count - slope * center : 0;
      for_each_image([&](int64_t first) {
        for (int64_t i = first; i < first + pixels; ++i)
          to[i] = static_cast<float>(factor * (grads[i] - shift - values[i] * slope));
      });
      grad_gamma.data<float>()[channel] = static_cast<float>(dot);
      grad_beta.data<float>()[channel] = static_cast<float>(sum);
    }
  });
  return {grad_x, grad_gamma, grad_beta};
}

// The same over the last axes, row by row, and always with the row's own mean and variance.
std::vector<Value> layer_norm(const BackwardCall& c) {
  const Tensor x = contiguous_f32(c.x(0)), g = contiguous_f32(first_grad(c)), gamma = optional_floats(c, 2);
  const Shape shape = c.call.integers(1);
  const int64_t length = numel_of(shape), rows = x.numel() / std::max<int64_t>(1, length);
  const Tensor grad_x = Tensor::empty(x.sizes(), DType::kF32);
  std::vector<double> grad_gamma(static_cast<size_t>(length)), grad_beta(static_cast<size_t>(length));
  for (int64_t row = 0; row < rows; ++row) {
    const float *values = x.data<float>() + row * length, *grads = g.data<float>() + row * length;
    double mean = 0, variance = 0, sum = 0, dot = 0;
    for (int64_t i = 0; i < length; ++i) mean += values[i];
    mean /= static_cast<double>(length);
    for (int64_t i = 0; i < length; ++i) variance += (values[i] - mean) * (values[i] - mean);
    const double rstd = 1 / std::sqrt(variance / static_cast<double>(length) + c.call.number(4));
    for (int64_t i = 0; i < length; ++i) {
      const double normal = (values[i] - mean) * rstd, scaled = grads[i] * element(gamma, i, 1);
      sum += scaled;
      dot += scaled * normal;
      grad_gamma[static_cast<size_t>(i)] += grads[i] * normal;
      grad_beta[static_cast<size_t>(i)] += grads[i];
    }
    sum /= static_cast<double>(length);
    dot /= static_cast<double>(length);
    for (int64_t i = 0; i < length; ++i)
      grad_x.data<float>()[row * length + i] =
          static_cast<float>(rstd * (grads[i] * element(gamma, i, 1) - sum - (values[i] - mean) * rstd * dot));
  }
  const auto vector = [&](const std::vector<double>& values) {
    return Tensor::of<double>(shape, std::span<const double>(values)).to(DType::kF32);
  };
  return {grad_x, Value(), vector(grad_gamma), vector(grad_beta)};
}

// A pool over the last one or two axes; a single one is an image one high.
struct PoolSizes {
  int64_t planes, in_h, in_w, out_h, out_w;
};
PoolSizes pool_of(const Tensor& x, const Tensor& g, size_t axes) {
  const auto height = [&](const Tensor& t) { return axes == 1 ? 1 : t.size(-2); };
  return {x.numel() / std::max<int64_t>(1, height(x) * x.size(-1)), height(x), x.size(-1), height(g), g.size(-1)};
}

// Calls body(plane of the input, of its gradient, gradient of the output, output row, output column) for every output
// element; planes are divided among threads.
template <class Body> Tensor for_each_window(const BackwardCall& c, const Tensor& x, size_t axes, Body&& body) {
  const Tensor g = contiguous_f32(first_grad(c)), out = Tensor::empty(x.sizes(), DType::kF32);
  const PoolSizes pool = pool_of(x, g, axes);
  parallel_for(pool.planes, 1, [&](int64_t begin, int64_t end) {
    for (int64_t plane = begin; plane < end; ++plane) {
      const int64_t first = plane * pool.in_h * pool.in_w;
      const float* from = g.data<float>() + plane * pool.out_h * pool.out_w;
      for (int64_t h = 0; h < pool.out_h; ++h)
        for (int64_t w = 0; w < pool.out_w; ++w)
          body(pool, first, out.data<float>() + first, from[h * pool.out_w + w], h, w);
    }
  });
  return out;
}

size_t axes_of(const BackwardCall& c) { return c.call.op().target.find("1d") != std::string::npos ? 1 : 2; }

struct PoolingWindow {
  std::array<int64_t, 2> kernel{1, 1}, stride{1, 1}, padding{0, 0}, dilation{1, 1};
};
PoolingWindow window_of(const BackwardCall& c, size_t axes, bool has_dilation) {
  const auto read = [&](size_t i, int64_t of_height) -> std::array<int64_t, 2> {
    const std::vector<int64_t> values = c.call.integers(i, axes);
    return {axes == 1 ? of_height : values[0], values.back()};
  };
  PoolingWindow out;
  out.kernel = read(1, 1);
  out.stride = c.call.integers(2).empty() ? out.kernel : read(2, 1);
  out.padding = read(3, 0);
  if (has_dilation) out.dilation = read(4, 1);
  return out;
}

// The first of the largest elements gets it all.
std::vector<Value> max_pool(const BackwardCall& c) {
  const size_t axes = axes_of(c);
  const Tensor x = contiguous_f32(c.x(0));
  const PoolingWindow window = window_of(c, axes, true);
  return {for_each_window(c, x, axes,
                          [&](const PoolSizes& pool, int64_t plane, float* to, float grad, int64_t h, int64_t w) {
                            int64_t best = -1;
                            const float* values = x.data<float>() + plane;
                            for (int64_t kh = 0; kh < window.kernel[0]; ++kh)
                              for (int64_t kw = 0; kw < window.kernel[1]; ++kw) {
                                const int64_t ih = h * window.stride[0] - window.padding[0] + kh * window.dilation[0];
                                const int64_t iw = w * window.stride[1] - window.padding[1] + kw * window.dilation[1];
                                if (ih < 0 || iw < 0 || ih >= pool.in_h || iw >= pool.in_w) continue;
                                const int64_t at = ih * pool.in_w + iw;
                                if (best < 0 || values[at] > values[best] || std::isnan(values[at])) best = at;
                              }
                            if (best >= 0) to[best] += grad;
                          })};
}

// Adds grad / divisor to the rows [top, bottom) and columns [left, right).
void spread(float* to, int64_t width, int64_t top, int64_t bottom, int64_t left, int64_t right, float grad,
            int64_t divisor) {
  const float share = grad / static_cast<float>(divisor);
  for (int64_t h = top; h < bottom; ++h)
    for (int64_t w = left; w < right; ++w) to[h * width + w] += share;
}

// ATen/native/cpu/AvgPoolKernel.cpp: padding counts as far as it reaches, unless told otherwise.
std::vector<Value> avg_pool(const BackwardCall& c) {
  const size_t axes = axes_of(c);
  const PoolingWindow window = window_of(c, axes, false);
  const bool counts_padding = c.call.boolean(5);
  const int64_t fixed = axes == 2 && !c.call.is_none(6) ? c.call.integer(6) : 0;
  return {for_each_window(
      c, c.x(0), axes, [&](const PoolSizes& pool, int64_t, float* to, float grad, int64_t h, int64_t w) {
        const int64_t top = h * window.stride[0] - window.padding[0], left = w * window.stride[1] - window.padding[1];
        const int64_t bottom = std::min(top + window.kernel[0], pool.in_h + window.padding[0]);
        const int64_t right = std::min(left + window.kernel[1], pool.in_w + window.padding[1]);
        const int64_t t = std::max<int64_t>(top, 0), l = std::max<int64_t>(left, 0), b = std::min(bottom, pool.in_h),
                      r = std::min(right, pool.in_w);
        if (b <= t || r <= l) return;
        const int64_t counted = counts_padding ? (bottom - top) * (right - left) : (b - t) * (r - l);
        spread(to, pool.in_w, t, b, l, r, grad, fixed != 0 ? fixed : counted);
      })};
}

std::vector<Value> adaptive_avg_pool(const BackwardCall& c) {
  return {for_each_window(
      c, c.x(0), axes_of(c), [&](const PoolSizes& pool, int64_t, float* to, float grad, int64_t h, int64_t w) {
        const int64_t top = h * pool.in_h / pool.out_h, bottom = ((h + 1) * pool.in_h + pool.out_h - 1) / pool.out_h;
        const int64_t left = w * pool.in_w / pool.out_w, right = ((w + 1) * pool.in_w + pool.out_w - 1) / pool.out_w;
        spread(to, pool.in_w, top, bottom, left, right, grad, (bottom - top) * (right - left));
      })};
}

// Sums and means over all axes, or those listed.
std::vector<Value> sum(const BackwardCall& c) {
  const Shape& sizes = c.x(0).sizes();
  const auto rank = static_cast<int64_t>(sizes.size());
  const bool lists = c.call.op().schema->arguments.size() > 2 && !c.call.is_none(1);
  std::vector<int64_t> axes = lists ? c.call.integers(1) : std::vector<int64_t>();
  Shape kept = sizes;
  if (axes.empty()) std::fill(kept.begin(), kept.end(), 1);
  for (const int64_t axis : axes) kept[static_cast<size_t>(wrap_axis(axis, rank))] = 1;
  const Tensor spread = contiguous_f32(contiguous_f32(c.g()).reshape(kept).expand(sizes)).clone();
  const auto count = static_cast<float>(c.x(0).numel() / std::max<int64_t>(1, numel_of(kept)));
  if (c.call.op().target.find("mean") != std::string::npos)
    for (float& value : spread.span<float>()) value /= count;
  return {spread};
}

// Rows along the axis: softmax y (g - sum(g y)), log_softmax g - exp(y) sum(g).
std::vector<Value> softmax(const BackwardCall& c) {
  const bool log = c.call.op().target.find("log_softmax") != std::string::npos;
  const int64_t axis = c.y().dim() == 0 ? 0 : wrap_axis(c.call.integer(1), c.y().dim());
  if (c.y().dim() == 0) return {Tensor::empty({}, DType::kF32)};
  const Tensor y = contiguous_f32(contiguous_f32(c.y()).transpose(axis, -1)),
               g = contiguous_f32(contiguous_f32(c.g()).transpose(axis, -1)),
               out = Tensor::empty(y.sizes(), DType::kF32);
  const int64_t columns = y.size(-1);
  if (log) kernel::exp_f32(y.data<float>(), y.numel(), out.data<float>());
  for (int64_t first = 0; first < y.numel(); first += columns) {
    const float *values = y.data<float>() + first, *grads = g.data<float>() + first;
    float* to = out.data<float>() + first;
    double total = 0;
    for (int64_t i = 0; i < columns; ++i) total += log ? grads[i] : static_cast<double>(grads[i]) * values[i];
    const auto sum = static_cast<float>(total);
    for (int64_t i = 0; i < columns; ++i) to[i] = log ? grads[i] - to[i] * sum : values[i] * (grads[i] - sum);
  }
  return {out.transpose(axis, -1).contiguous()};
}

}  // namespace

void add_norm_backwards(std::vector<BackwardDef>& table) {
  const auto of_x = [&](std::string_view target, Backward backward) {
    table.push_back({target, backward, true, false});
  };
  const auto plain = [&](std::string_view target, Backward backward) { table.push_back({target, backward}); };
  of_x("batch_norm.default", [](const BackwardCall& c) { return batch_norm(c, c.call.boolean(5), c.call.number(7)); });
  of_x("native_batch_norm.default",
       [](const BackwardCall& c) { return batch_norm(c, c.call.boolean(5), c.call.number(7)); });
  of_x("_native_batch_norm_legit.default",
       [](const BackwardCall& c) { return batch_norm(c, c.call.boolean(5), c.call.number(7)); });
  of_x("_native_batch_norm_legit.no_stats",
       [](const BackwardCall& c) { return batch_norm(c, true, c.call.number(5)); });
  of_x("_native_batch_norm_legit_no_training.default",
       [](const BackwardCall& c) { return batch_norm(c, false, c.call.number(6)); });
  for (const std::string_view target : {"layer_norm.default", "native_layer_norm.default"}) of_x(target, layer_norm);
  for (const std::string_view target : {"max_pool2d.default", "max_pool2d_with_indices.default"})
    of_x(target, max_pool);
  of_x("max_pool1d.default", max_pool);
  plain("avg_pool2d.default", avg_pool);
  plain("avg_pool1d.default", avg_pool);
  for (const std::string_view target : {"adaptive_avg_pool2d.default", "_adaptive_avg_pool2d.default"})
    plain(target, adaptive_avg_pool);
  plain("adaptive_avg_pool1d.default", adaptive_avg_pool);
  for (const std::string_view target : {"mean.default", "mean.dim"}) plain(target, sum);
  for (const std::string_view target : {"sum.default", "sum.dim_IntList"}) plain(target, sum);
  for (const std::string_view target :
       {"softmax.int", "_softmax.default", "_safe_softmax.default", "special_softmax.default"})
    table.push_back({target, softmax, false, true});
  for (const std::string_view target : {"log_softmax.int", "_log_softmax.default", "special_log_softmax.default"})
    table.push_back({target, softmax, false, true});
}

}  // namespace qdq
