// Pools over volumes of the portable float backend: those of images on each slice, and then over the slices.
#include <algorithm>
#include <array>

#include "exec/simd.h"
#include "kernel/pointwise.h"
#include "kernel/pool.h"

namespace qdq {
namespace {

// A pool along one axis.
struct PooledAxis {
  int64_t in, kernel, stride, padding, dilation, out;

  // The places of the input under window i: first, first + dilation, ... below end.
  int64_t first(int64_t i) const {
    int64_t place = i * stride - padding;
    while (place < 0) place += dilation;
    return place;
  }
  int64_t end(int64_t i) const { return std::min(i * stride - padding + (kernel - 1) * dilation + 1, in); }
  // By how much an average over window i divides.
  int64_t divisor(int64_t i, bool counts_padding) const {
    if (!counts_padding) return std::max<int64_t>(0, end(i) - first(i));
    return std::min(i * stride - padding + kernel, in + padding) - (i * stride - padding);
  }
};
using PooledAxes = std::array<PooledAxis, 3>;

// aten.max_pool3d, and aten.avg_pool3d, whose sums go over (kh, kw) within each slice first and then over kd.
class VolumePoolOp : public CompiledOp {
 public:
  explicit VolumePoolOp(bool averages) : averages_(averages) {}

  Value run(const Call<Tensor>& call) override {
    const Tensor& given = call.tensor(0);
    PooledAxes axes;
    if (!is_f32(given) || given.dim() < 4 || given.numel() == 0 || !read_axes(call, axes))
      return run_reference(call, "its input is empty, not float32 or no volume, or its window does not slide over it");
    const Tensor x = given.contiguous();
    const int64_t volumes = x.numel() / (axes[0].in * axes[1].in * axes[2].in), area = axes[1].out * axes[2].out;
    const Tensor slices = uninitialized({volumes * axes[0].in, area}, DType::kF32);
    pool_slices(x.data<float>(), volumes * axes[0].in, axes, slices.data<float>());
    Shape sizes = x.sizes();
    for (size_t i = 0; i < 3; ++i) sizes[sizes.size() - 3 + i] = axes[i].out;
    const Tensor out = uninitialized(sizes, DType::kF32);
    const auto combine = averages_ ? kernel::add_f32 : kernel::maximum_f32;
    for (int64_t v = 0; v < volumes; ++v)
      for (int64_t d = 0; d < axes[0].out; ++d) {
        const float* from = slices.data<float>() + v * axes[0].in * area;
        float* to = out.data<float>() + (v * axes[0].out + d) * area;
        const int64_t first = axes[0].first(d);
        std::copy_n(from + first * area, area, to);
        for (int64_t place = first + axes[0].dilation; place < axes[0].end(d); place += axes[0].dilation)
          combine(to, from + place * area, area, to);
      }
    if (averages_) divide(call, axes, volumes, out.data<float>());
    return out;
  }

 private:
  // Whether the window is one that slides over the volume and always holds an element.
  bool read_axes(const Call<Tensor>& call, PooledAxes& axes) const {
    const Tensor& x = call.tensor(0);
    const auto kernel = call.integers(1, 3), stride = call.integers(2).empty() ? kernel : call.integers(2, 3),
               padding = call.integers(3, 3), dilation = averages_ ? std::vector<int64_t>(3, 1) : call.integers(4, 3);
    const bool ceil_mode = call.boolean(averages_ ? 4 : 5);
    constexpr int64_t kMost = int64_t{1} << 31;  // as the reference allows
    for (size_t i = 0; i < 3; ++i) {
      PooledAxis& axis = axes[i];
      axis = {x.size(static_cast<int64_t>(i) - 3), kernel[i], stride[i], padding[i], dilation[i], 0};
      if (std::min({axis.kernel, axis.stride, axis.dilation}) < 1 ||
          std::max({axis.kernel, axis.stride, axis.dilation}) > kMost || axis.padding < 0 ||
          axis.padding > axis.kernel / 2)
        return false;
      axis.out = pooled_extent(axis.in, axis.kernel, axis.stride, axis.padding, axis.dilation, ceil_mode);
      for (int64_t o = 0; o < axis.out; ++o)
        if (axis.first(o) >= axis.end(o)) return false;
      if (axis.out < 1) return false;
    }
    return true;
  }

  void pool_slices(const float* x, int64_t count, const PooledAxes& axes, float* out) const {
    kernel::Pool2d pool;
    pool.planes = count;
    pool.in_h = axes[1].in, pool.in_w = axes[2].in, pool.out_h = axes[1].out, pool.out_w = axes[2].out;
    pool.kernel_h = axes[1].kernel, pool.kernel_w = axes[2].kernel;
    pool.stride_h = axes[1].stride, pool.stride_w = axes[2].stride;
    pool.pad_h = axes[1].padding, pool.pad_w = axes[2].padding;
    pool.dilation_h = axes[1].dilation, pool.dilation_w = axes[2].dilation;
    pool.divisor_override = 1;
    (averages_ ? kernel::avg_pool2d_f32 : kernel::max_pool2d_f32)(x, pool, out);
  }

  static void divide(const Call<Tensor>& call, const PooledAxes& axes, int64_t volumes, float* out) {
    const int64_t given = call.is_none(6) ? 0 : call.integer(6), count = axes[0].out * axes[1].out * axes[2].out;
    const bool counts_padding = call.boolean(5);
    std::vector<float> divisors;
    for (int64_t d = 0; d < axes[0].out; ++d)
      for (int64_t h = 0; h < axes[1].out; ++h)
        for (int64_t w = 0; w < axes[2].out; ++w)
          divisors.push_back(
              static_cast<float>(given != 0 ? given
                                            : axes[0].divisor(d, counts_padding) * axes[1].divisor(h, counts_padding) *
                                                  axes[2].divisor(w, counts_padding)));
    for (int64_t v = 0; v < volumes; ++v) kernel::div_f32(out + v * count, divisors.data(), count, out + v * count);
  }

  bool averages_;
};

// aten.adaptive_avg_pool3d to one element.
class VolumeMeanOp : public CompiledOp {
 public:
  Value run(const Call<Tensor>& call) override {
    const Tensor& given = call.tensor(0);
    const std::vector<int64_t> sizes = call.integers(1);
    if (!is_f32(given) || given.dim() < 4 || given.numel() == 0 ||
        !std::all_of(sizes.begin(), sizes.end(), [](int64_t size) { return size == 1; }))
      return run_reference(call, "its input is empty or not float32, or it gives several elements");
    const Tensor x = given.contiguous();
    Shape out_sizes = x.sizes();
    std::fill(out_sizes.end() - 3, out_sizes.end(), 1);
    const Tensor out = uninitialized(out_sizes, DType::kF32);
    kernel::Pool2d pool;
    pool.planes = out.numel();
    pool.in_h = x.size(-3) * x.size(-2);
    pool.in_w = x.size(-1);
    pool.out_h = pool.out_w = 1;
    kernel::adaptive_avg_pool2d_f32(x.data<float>(), pool, out.data<float>());
    return out;
  }
};

}  // namespace

int64_t pooled_extent(int64_t in, int64_t kernel, int64_t stride, int64_t pad, int64_t dilation, bool ceil_mode) {
  const int64_t span = in + 2 * pad - dilation * (kernel - 1) - 1;
  int64_t out = (ceil_mode ? (span + stride - 1) / stride : span / stride) + 1;
  if (ceil_mode && (out - 1) * stride >= in + pad) --out;
  return out;
}

std::unique_ptr<CompiledOp> make_simd_max_pool3d(const Node&, bool) { return std::make_unique<VolumePoolOp>(false); }
std::unique_ptr<CompiledOp> make_simd_mean_of_volumes(const Node&, bool) { return std::make_unique<VolumeMeanOp>(); }
std::unique_ptr<CompiledOp> make_simd_avg_pool3d(const Node&, bool) { return std::make_unique<VolumePoolOp>(true); }

}  // namespace qdq
