// Products of int32 numbers that bytes hold, as ONNX's MatMulInteger and ConvInteger are read: by the kernels of bytes,
// whose sums are exact; and the subtraction of zero points in front of them.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>
#include <vector>

#include "exec/simd.h"
#include "kernel/conv_int8.h"
#include "kernel/convert.h"
#include "kernel/observe.h"

namespace qdq {
namespace {

// The kernels give sums as float32, which is exact below 2^24: 255 times 128 times this.
constexpr int64_t kMostExactProducts = 512;
constexpr int64_t kExactSum = int64_t{1} << 24;

struct Range {
  int32_t low = 0, high = 0;
};
// Floats hold what bytes hold; what is far beyond that counts as 2^20.
Range range_with_zero(const Tensor& dense) {
  constexpr int64_t kTogether = 4096;
  constexpr float kFar = 0x1p20f;
  kernel::MinMax range{0, 0, false};
  float some[kTogether];
  for (int64_t i = 0; i < dense.numel(); i += kTogether) {
    const int64_t n = std::min(kTogether, dense.numel() - i);
    kernel::floats_of_integers(dense.data<int32_t>() + i, n, some);
    range = kernel::joined(range, kernel::min_max_f32(some, n));
  }
  return {static_cast<int32_t>(std::max(range.min, -kFar)), static_cast<int32_t>(std::min(range.max, kFar))};
}

// A weight [channels, depth, kernel_h, kernel_w] as parts of its depth whose sums are exact; none if int8 does not hold
// it, or no part has exact sums.
struct IntegerWeight {
  struct Part {
    int64_t first = 0;  // input channel
    kernel::PackedConvInt8 packed;
  };
  std::vector<Part> parts;
};

int64_t largest_sum(const int32_t* weight, int64_t channels, int64_t depth) {
  int64_t largest = 0;
  for (int64_t c = 0; c < channels; ++c) {
    int64_t sum = 0;
    for (int64_t i = 0; i < depth; ++i) sum += std::abs(weight[c * depth + i]);
    largest = std::max(largest, sum);
  }
  return largest;
}

IntegerWeight packed_weight(const kernel::Conv2d& conv, const Tensor& weight) {
  const Range range = range_with_zero(weight);
  if (range.low < -128 || range.high > 127) return {};
  const int64_t window = conv.kernel_h * conv.kernel_w, depth = weight.numel() / conv.out_channels / window;
  const bool is_exact = 255 * largest_sum(weight.data<int32_t>(), conv.out_channels, depth * window) < kExactSum;
  if (!is_exact && (conv.groups > 1 || window > kMostExactProducts)) return {};
  const int64_t most = is_exact ? depth : kMostExactProducts / window;
  IntegerWeight out;
  for (int64_t first = 0; first < depth; first += most) {
    const int64_t count = std::min(most, depth - first);
    kernel::Conv2d part = conv;
    if (!is_exact) part.in_channels = count;
    const Tensor bytes = weight.slice(1, first, first + count, 1).contiguous().to(DType::kS8);
    kernel::Requantize as_floats;
    as_floats.multiplier.assign(static_cast<size_t>(conv.out_channels), 1.0f);
    as_floats.out_is_float = true;
    out.parts.push_back({first, kernel::pack_conv2d_int8(part, bytes.data<int8_t>(), 0, std::move(as_floats))});
  }
  return out;
}

// Wraps as the sums of the reference do.
int32_t added(int32_t a, int32_t b) {
  return static_cast<int32_t>(static_cast<uint32_t>(a) + static_cast<uint32_t>(b));
}

// `images` [batch, in_h, in_w, in_channels] as int32; the sums likewise. Nothing if bytes do not hold them.
std::optional<Tensor> convolved(IntegerWeight& weight, const Tensor& images, kernel::ConvInt8Images call,
                                int64_t channels) {
  const Range range = range_with_zero(images);
  if (weight.parts.empty() || int64_t{range.high} - range.low > 255) return std::nullopt;
  const Tensor bytes = uninitialized(images.sizes(), DType::kU8);
  std::transform(images.data<int32_t>(), images.data<int32_t>() + images.numel(), bytes.data<uint8_t>(),
                 [low = range.low](int32_t x) { return static_cast<uint8_t>(x - low); });
  const Shape sizes{call.batch, call.out_h, call.out_w, channels};
  const Tensor floats = uninitialized(sizes, DType::kF32);
  const std::vector<float> ones(static_cast<size_t>(channels), 1.0f);
  call.x_stride = images.size(3);
  call.out = floats.data<float>();
  call.out_stride = channels;
  Tensor sums;
  for (IntegerWeight::Part& part : weight.parts) {
    kernel::set_input_qparams(part.packed, -range.low, ones.data());
    call.x = bytes.data<uint8_t>() + part.first;
    kernel::conv2d_int8(part.packed, call);
    const Tensor some = uninitialized(sizes, DType::kS32);
    kernel::integers_of_floats(floats.data<float>(), floats.numel(), some.data<int32_t>());
    if (!sums.defined()) sums = some;
    else
      std::transform(some.data<int32_t>(), some.data<int32_t>() + some.numel(), sums.data<int32_t>(),
                     sums.data<int32_t>(), added);
  }
  return sums;
}

class IntegerMatmul : public CompiledOp {
 public:
  explicit IntegerMatmul(bool packs_once) : packs_once_(packs_once) {}

  Value run(const Call<Tensor>& call) override {
    const Tensor &left = call.tensor(0), &right = call.tensor(1);
    const bool fits = left.dtype() == DType::kS32 && right.dtype() == DType::kS32 && left.dim() >= 2 &&
                      right.dim() == 2 && left.size(-1) == right.size(0) && left.numel() > 0 && right.numel() > 0;
    if (!fits) return run_reference(call, "its operands are no int32 rows and one int32 matrix");
    const int64_t depth = right.size(0), columns = right.size(1), rows = left.numel() / depth;
    IntegerWeight weight = weight_.get(right, packs_once_, [&](const Tensor& matrix) {
      const Tensor turned = matrix.transpose(0, 1).contiguous().reshape({columns, depth, 1, 1});
      return packed_weight(kernel::linear_as_conv2d(depth, columns), turned);
    });
    kernel::ConvInt8Images images;
    images.in_h = images.out_h = rows;
    const auto sums = convolved(weight, left.contiguous().reshape({1, rows, 1, depth}), images, columns);
    if (!sums) return run_reference(call, "its numbers do not fit bytes");
    Shape sizes = left.sizes();
    sizes.back() = columns;
    return sums->reshape(sizes);
  }

 private:
  bool packs_once_;
  PackedWeight<IntegerWeight> weight_;
};

class IntegerConvolution : public CompiledOp {
 public:
  explicit IntegerConvolution(bool packs_once) : packs_once_(packs_once) {}

  Value run(const Call<Tensor>& call) override {
    const Tensor &x = call.tensor(0), &w = call.tensor(1);
    const std::vector<int64_t> stride = call.integers(3), padding = call.integers(4), dilation = call.integers(5);
    const int64_t groups = call.integer(6);
    const bool fits = x.dtype() == DType::kS32 && w.dtype() == DType::kS32 && x.dim() == 4 && w.dim() == 4 &&
                      x.numel() > 0 && w.numel() > 0 && call.is_none(2) && stride.size() == 2 && padding.size() == 2 &&
                      dilation.size() == 2 && groups >= 1 && w.size(0) % groups == 0 && x.size(1) == w.size(1) * groups;
    if (!fits) return run_reference(call, "its operands are no int32 images and windows without a bias");
    const auto extents = {stride[0], stride[1], dilation[0], dilation[1]};
    if (std::min(extents) < 1 || std::min(padding[0], padding[1]) < 0)
      return run_reference(call, "its window is not one that slides over an image");
    const kernel::Conv2d conv{x.size(1), w.size(0),  groups,     w.size(2),   w.size(3),  stride[0],
                              stride[1], padding[0], padding[1], dilation[0], dilation[1]};
    kernel::ConvInt8Images images;
    images.batch = x.size(0), images.in_h = x.size(2), images.in_w = x.size(3);
    images.out_h = pooled_extent(images.in_h, conv.kernel_h, stride[0], padding[0], dilation[0], false);
    images.out_w = pooled_extent(images.in_w, conv.kernel_w, stride[1], padding[1], dilation[1], false);
    if (images.out_h < 1 || images.out_w < 1) return run_reference(call, "its window does not fit into the image");
    IntegerWeight weight = weight_.get(w, packs_once_, [&](const Tensor& dense) { return packed_weight(conv, dense); });
    const auto sums = convolved(weight, x.permute({0, 2, 3, 1}).contiguous(), images, w.size(0));
    if (!sums) return run_reference(call, "its numbers do not fit bytes");
    return sums->permute({0, 3, 1, 2}).contiguous();
  }

 private:
  bool packs_once_;
  PackedWeight<IntegerWeight> weight_;
};

// Sums and differences of two int32 tensors, broadcast against each other.
class IntegerSum : public CompiledOp {
 public:
  explicit IntegerSum(int32_t sign) : sign_(sign) {}

  Value run(const Call<Tensor>& call) override {
    const Tensor *left = call[0].get_if<Tensor>(), *right = call[1].get_if<Tensor>();
    if (left == nullptr || right == nullptr || left->dtype() != DType::kS32 || right->dtype() != DType::kS32 ||
        call.number(2) != 1)
      return run_reference(call, "its operands are no two int32 tensors, or one has a factor");
    const Shape sizes = broadcast_shapes(left->sizes(), right->sizes());
    const Tensor a = left->expand(sizes), b = right->expand(sizes), out = uninitialized(sizes, DType::kS32);
    const std::array strides{a.strides().data(), b.strides().data()};
    int32_t* to = out.data<int32_t>();
    for (RowWalk row(sizes, strides); row.next(); to += row.extent()) {
      const int32_t *x = a.data<int32_t>() + row.offset(0), *y = b.data<int32_t>() + row.offset(1);
      for (int64_t i = 0; i < row.extent(); ++i) {
        const auto second = static_cast<uint32_t>(y[i * row.step(1)]) * static_cast<uint32_t>(sign_);
        to[i] = added(x[i * row.step(0)], static_cast<int32_t>(second));
      }
    }
    return out;
  }

 private:
  int32_t sign_;
};

template <int32_t sign> std::unique_ptr<CompiledOp> make_integer_sum(const Node&, bool) {
  return std::make_unique<IntegerSum>(sign);
}
template <class Op> std::unique_ptr<CompiledOp> make_product(const Node&, bool packs_once) {
  return std::make_unique<Op>(packs_once);
}

constexpr SimdOp kOfIntegers[] = {
    {"aten.matmul.default", make_product<IntegerMatmul>, nullptr, 1},
    {"aten.mm.default", make_product<IntegerMatmul>, nullptr, 1},
    {"aten.add.Tensor", make_integer_sum<1>, nullptr},
    {"aten.sub.Tensor", make_integer_sum<-1>, nullptr},
    {"aten.conv2d.default", make_product<IntegerConvolution>, nullptr, 1},
};

}  // namespace

std::span<const SimdOp> integer_simd_ops() { return kOfIntegers; }

}  // namespace qdq
