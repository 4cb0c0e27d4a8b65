// Deformable convolutions on the portable loops: the samples of a stretch of places as a matrix, and its product with
// the weight.
#include <algorithm>
#include <cmath>

#include "exec/simd.h"
#include "exec/simd_obstacles.h"
#include "kernel/gemm.h"
#include "op/infer.h"

namespace qdq {
namespace {

// Where samples lie in planes with a border of zeros, and the share of each of the four elements around.
struct Samples {
  std::vector<int64_t> top, bottom;  // of the left ones
  std::vector<float> shares;         // 4 of each

  explicit Samples(int64_t n) : top(static_cast<size_t>(n)), bottom(top), shares(static_cast<size_t>(4 * n)) {}

  void set(size_t i, double y, double x, int64_t H, int64_t W) {
    const bool inside = y > -1 && y < static_cast<double>(H) && x > -1 && x < static_cast<double>(W);
    const double above = inside ? std::floor(y) : 0, left = inside ? std::floor(x) : 0;
    const auto down = static_cast<float>(y - above), across = static_cast<float>(x - left);
    top[i] = inside ? (static_cast<int64_t>(above) + 1) * (W + 2) + static_cast<int64_t>(left) + 1 : 0;
    bottom[i] = inside ? top[i] + W + 2 : 0;
    const float all[] = {(1 - down) * (1 - across), (1 - down) * across, down * (1 - across), down * across};
    for (size_t k = 0; k < 4; ++k) shares[4 * i + k] = inside ? all[k] : 0;
  }
  void take(const float* plane, const float* mask, size_t n, float* to) const {
    for (size_t i = 0; i < n; ++i) {
      const float *above = plane + top[i], *below = plane + bottom[i], *share = shares.data() + 4 * i;
      const float value = ((share[0] * above[0] + share[1] * above[1]) + share[2] * below[0]) + share[3] * below[1];
      to[i] = mask != nullptr ? value * mask[i] : value;
    }
  }
};

// torchvision.deform_conv2d: (input [N, C, H, W], weight, offset, mask, bias, ...) as op/torchvision.cpp reads them.
class DeformConvOp : public CompiledOp {
 public:
  Value run(const Call<Tensor>& call) override {
    const Shape sizes = constant_shape(result_meta(call).sizes);
    for (const size_t i : {0, 1, 2, 3, 4})
      if (!is_f32(call.tensor(i)) && (i != 3 || call.boolean(13)))
        return run_reference(call, "an operand is not float32");
    if (numel_of(sizes) == 0 || call.tensor(0).numel() == 0) return run_reference(call, "an operand is empty");
    const Layer layer(call, sizes);
    const Tensor out = uninitialized(sizes, DType::kF32);
    for (int64_t n = 0; n < sizes[0]; ++n) layer.run(n, out.data<float>() + n * sizes[1] * layer.places);
    return out;
  }

 private:
  struct Layer {
    const Call<Tensor>& call;
    Tensor x, weight, offset, mask, bias;
    int64_t C, H, W, O, out_width, places, kernel_width, taps, groups, parts;

    Layer(const Call<Tensor>& given, const Shape& sizes)
        : call(given), x(given.tensor(0).contiguous()), weight(given.tensor(1).contiguous()),
          offset(given.tensor(2).contiguous()), mask(given.boolean(13) ? given.tensor(3).contiguous() : Tensor()),
          bias(given.tensor(4).contiguous()), C(x.size(1)), H(x.size(2)), W(x.size(3)), O(sizes[1]),
          out_width(sizes[3]), places(sizes[2] * sizes[3]), kernel_width(weight.size(3)),
          taps(weight.size(2) * weight.size(3)), groups(given.integer(11)), parts(given.integer(12)) {}

    // The planes of an image with a border of zeros.
    std::vector<float> with_border(int64_t n) const {
      std::vector<float> planes(static_cast<size_t>(C * (H + 2) * (W + 2)), 0.0f);
      const float* from = x.data<float>() + n * C * H * W;
      for (int64_t c = 0; c < C; ++c)
        for (int64_t row = 0; row < H; ++row, from += W)
          std::copy_n(from, W, planes.data() + (c * (H + 2) + row + 1) * (W + 2) + 1);
      return planes;
    }

    void run(int64_t n, float* out) const {
      constexpr int64_t kStretch = 512;
      const std::vector<float> planes = with_border(n);
      std::vector<float> columns(static_cast<size_t>(C * taps * std::min(places, kStretch)));
      const int64_t depth = C / groups * taps, rows = O / groups;
      for (int64_t begin = 0; begin < places; begin += kStretch) {
        const int64_t count = std::min(kStretch, places - begin);
        sample(n, planes.data(), begin, count, columns.data());
        for (int64_t g = 0; g < groups; ++g)
          kernel::gemm_f32(rows, count, depth, {weight.data<float>() + g * rows * depth, depth, 1},
                           {columns.data() + g * depth * count, count, 1}, bias.data<float>() + g * rows,
                           kernel::BiasAxis::kRow, out + g * rows * places + begin, places);
      }
    }

    // The samples of all channels and taps at places from `begin` on: [C, taps, count].
    void sample(int64_t n, const float* planes, int64_t begin, int64_t count, float* columns) const {
      Samples samples(count);
      for (int64_t part = 0; part < parts; ++part)
        for (int64_t tap = 0; tap < taps; ++tap) {
          const int64_t at = (n * parts + part) * taps + tap;
          const float* moved = offset.data<float>() + 2 * at * places + begin;
          for (int64_t i = 0; i < count; ++i) {
            const int64_t row = (begin + i) / out_width, column = (begin + i) % out_width;
            const int64_t y = row * call.integer(5) - call.integer(7) + tap / kernel_width * call.integer(9),
                          left = column * call.integer(6) - call.integer(8) + tap % kernel_width * call.integer(10);
            samples.set(static_cast<size_t>(i), static_cast<double>(y) + static_cast<double>(moved[i]),
                        static_cast<double>(left) + static_cast<double>(moved[places + i]), H, W);
          }
          const float* factor = mask.defined() ? mask.data<float>() + at * places + begin : nullptr;
          for (int64_t c = part * (C / parts); c < (part + 1) * (C / parts); ++c)
            samples.take(planes + c * (H + 2) * (W + 2), factor, static_cast<size_t>(count),
                         columns + (c * taps + tap) * count);
        }
    }
  };
};

std::unique_ptr<CompiledOp> make_deform_conv(const Node&, bool) { return std::make_unique<DeformConvOp>(); }

constexpr SimdOp kDeformed[] = {{"torchvision.deform_conv2d.default", make_deform_conv, elementwise_obstacle}};

}  // namespace

std::span<const SimdOp> deformed_simd_ops() { return kDeformed; }

}  // namespace qdq
