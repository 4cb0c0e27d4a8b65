// The portable float backend: operators that run on the loops of kernel/, with weights packed once.
#include <algorithm>
#include <cmath>

#include "exec/op_backend.h"
#include "exec/simd.h"
#include "exec/simd_obstacles.h"
#include "kernel/distance.h"
#include "kernel/gemm.h"
#include "kernel/math.h"
#include "kernel/pointwise.h"
#include "kernel/pool.h"
#include "kernel/quantize.h"
#include "op/facts.h"
#include "op/infer.h"
#include "op/shared_storage.h"
#include "op/targets.h"

namespace qdq {
namespace {

using Outcome = std::variant<std::unique_ptr<CompiledOp>, std::string>;

// The node that has the elements of a value.
const Node* owner_of(const Node* node) {
  while (const Node* source = source_of(*node)) node = source;
  return node;
}

// A weight may be packed once if its bytes cannot change behind the cache: an attribute that nothing writes to, or a
// tensor that is computed anew at every run.
bool is_cacheable(const Node& node, size_t index, const WrittenAttributes& written) {
  bool cacheable = true, any = false;
  const auto look = [&](const Node* weight) {
    const Node* owner = owner_of(weight);
    any = true;
    if (owner->op() == Node::Op::kPlaceholder) cacheable = false;
    else if (owner->op() == Node::Op::kGetAttr) cacheable = cacheable && written.count(owner->target()) == 0;
  };
  node.arg(index).for_each_node(look);
  return any && cacheable;
}

// aten.linear, and aten.addmm / aten.mm with a transposed or plain constant second matrix.
class SimdLinear : public CompiledOp {
 public:
  enum class Form { kLinear, kAddmm, kMm };
  SimdLinear(Form form, bool packs_once) : form_(form), packs_once_(packs_once) {}

  Value run(const Call<Tensor>& call) override {
    const Tensor& x = call.tensor(form_ == Form::kAddmm ? 1 : 0);
    const Tensor& given = call.tensor(form_ == Form::kAddmm ? 2 : 1);
    const Tensor* bias = form_ == Form::kLinear  ? call.optional_tensor(2)
                         : form_ == Form::kAddmm ? &call.tensor(0)
                                                 : nullptr;
    const bool supported = is_f32(x) && is_f32(given) && given.dim() == 2 &&
                           x.dim() >= (form_ == Form::kLinear ? 1 : 2) &&
                           (!bias || (is_f32(*bias) && bias->dim() == 1)) && x.numel() > 0 &&
                           (form_ != Form::kAddmm || (call.number(3) == 1 && call.number(4) == 1));
    if (!supported) return run_reference(call, "an operand is empty, not float32 or of another rank, or has a factor");
    const Tensor weight = form_ == Form::kLinear ? given : given.transpose(0, 1);  // [N, K]
    if (x.size(-1) != weight.size(1) || (bias && bias->numel() != weight.size(0)))
      return run_reference(call, "its weight or bias does not fit its input");
    const kernel::PackedRows packed = packed_.get(weight, packs_once_, [](const Tensor& w) {
      return kernel::pack_rows({w.data<float>(), w.size(1), 1}, w.size(0), w.size(1));
    });
    const Tensor rows = x.contiguous();
    const Tensor b = bias ? bias->contiguous() : Tensor();
    Shape sizes = x.sizes();
    sizes.back() = weight.size(0);
    const Tensor out = uninitialized(sizes, DType::kF32);
    kernel::linear_f32(rows.data<float>(), rows.numel() / rows.size(-1), packed,
                       b.defined() ? b.data<float>() : nullptr, out.data<float>());
    return out;
  }

 private:
  Form form_;
  bool packs_once_;
  PackedWeight<kernel::PackedRows> packed_;
};

// Matrices [..., rows, columns] as [count, rows, columns] of a batch.
Tensor as_batch(const Tensor& matrices, const Shape& batch) {
  Shape full = batch;
  full.insert(full.end(), matrices.sizes().end() - 2, matrices.sizes().end());
  const Shape joined{numel_of(batch), matrices.size(-2), matrices.size(-1)};
  return matrices.expand(full).reshape(joined);
}
Shape common_batch(const Tensor& a, const Tensor& b) {
  return broadcast_shapes(Shape(a.sizes().begin(), a.sizes().end() - 2), Shape(b.sizes().begin(), b.sizes().end() - 2));
}

// aten.matmul and aten.bmm of two f32 tensors. A vector is a matrix of one row on the left and of one column on the
// right.
class SimdMatmul : public CompiledOp {
 public:
  Value run(const Call<Tensor>& call) override {
    const Tensor &left = call.tensor(0), &right = call.tensor(1);
    if (!is_f32(left) || !is_f32(right) || left.dim() < 1 || right.dim() < 1)
      return run_reference(call, "an operand is a single number or not float32");
    const Tensor a = left.dim() == 1 ? left.unsqueeze(0) : left, b = right.dim() == 1 ? right.unsqueeze(1) : right;
    if (a.size(-1) != b.size(-2)) return run_reference(call, "its operands do not fit each other");
    const Shape batch = common_batch(a, b);
    const int64_t rows = a.size(-2), columns = b.size(-1), depth = a.size(-1), count = numel_of(batch);
    const Tensor x = as_batch(a, batch), y = as_batch(b, batch);
    Shape sizes = batch;
    if (left.dim() > 1) sizes.push_back(rows);
    if (right.dim() > 1) sizes.push_back(columns);
    const Tensor out = uninitialized(sizes, DType::kF32);
    kernel::matmul_f32(count, rows, columns, depth, {x.data<float>(), x.stride(1), x.stride(2)}, x.stride(0),
                       {y.data<float>(), y.stride(1), y.stride(2)}, y.stride(0), out.data<float>());
    return out;
  }
};

// aten.baddbmm: beta * self + alpha * (batch1 @ batch2).
class BaddbmmOp : public CompiledOp {
 public:
  Value run(const Call<Tensor>& call) override {
    if (!is_f32(call.tensor(0)) || call.tensor(0).numel() == 0)
      return run_reference(call, "what it adds is empty or not float32");
    const Value product = products_.run(Call<Tensor>(*find_op("torch.ops.aten.bmm.default"), {call[1], call[2]}));
    const Tensor out = *product.get_if<Tensor>();
    const auto beta = static_cast<float>(call.number(3)), alpha = static_cast<float>(call.number(4));
    if (alpha != 1) kernel::mul_scalar_f32(out.data<float>(), alpha, out.numel(), out.data<float>());
    return beta == 0 || out.numel() == 0 ? out : add_f32(out, call.tensor(0), beta);
  }

 private:
  SimdMatmul products_;
};

// aten.bilinear: the products of all pairs of elements of two rows, through a linear layer.
class BilinearOp : public CompiledOp {
 public:
  explicit BilinearOp(bool packs_once) : linear_(SimdLinear::Form::kLinear, packs_once) {}

  Value run(const Call<Tensor>& call) override {
    const Tensor &a = call.tensor(0), &b = call.tensor(1), &weight = call.tensor(2);
    if (!is_f32(a) || !is_f32(b) || !is_f32(weight) || a.numel() == 0 || b.numel() == 0 || weight.numel() == 0)
      return run_reference(call, "an operand is empty or not float32");
    infer_call(call);
    const Tensor products = multiply_f32(a.unsqueeze(-1), b.unsqueeze(-2));
    Shape sizes = products.sizes();
    sizes.pop_back();
    sizes.back() = weight.size(1) * weight.size(2);
    return linear_.run(
        Call<Tensor>(*find_op("torch.ops.aten.linear.default"),
                     {products.reshape(sizes), weight.reshape({weight.size(0), sizes.back()}), call[3]}));
  }

 private:
  SimdLinear linear_;
};

// aten.outer of two vectors.
class OuterOp : public CompiledOp {
 public:
  Value run(const Call<Tensor>& call) override {
    const Tensor a = call.tensor(0).contiguous(), b = call.tensor(1).contiguous();
    if (!is_f32(a) || !is_f32(b)) return run_reference(call, "an operand is not float32");
    const int64_t n = b.numel();
    const Tensor out = uninitialized({a.numel(), n}, DType::kF32);
    for (int64_t i = 0; i < a.numel(); ++i)
      kernel::mul_scalar_f32(b.data<float>(), a.data<float>()[i], n, out.data<float>() + i * n);
    return out;
  }
};

// aten.cdist: the roots of the sums of squared differences between all rows of two batches.
class CdistOp : public CompiledOp {
 public:
  Value run(const Call<Tensor>& call) override {
    const Tensor &a = call.tensor(0), &b = call.tensor(1);
    if (!is_f32(a) || !is_f32(b) || a.dim() < 2 || b.dim() < 2 || a.numel() == 0 || b.numel() == 0 ||
        call.number(2) != 2)
      return run_reference(call, "an operand is empty or not float32, or it has another order");
    const Shape batch = common_batch(a, b);
    const int64_t count = numel_of(batch), rows = a.size(-2), depth = a.size(-1), columns = b.size(-2),
                  stride =
                      (columns + kernel::kDistanceColumns - 1) / kernel::kDistanceColumns * kernel::kDistanceColumns;
    const Tensor x = as_batch(a, batch).contiguous(), y = as_batch(b, batch),
                 turned = Tensor::empty({count, depth, stride}, DType::kF32);
    turned.slice(2, 0, columns, 1).copy_from(y.transpose(1, 2));
    Shape sizes = batch;
    sizes.insert(sizes.end(), {rows, columns});
    const Tensor out = uninitialized(sizes, DType::kF32);
    for (int64_t i = 0; i < count; ++i)
      kernel::squared_distances_f32(x.data<float>() + i * rows * depth, rows, depth,
                                    turned.data<float>() + i * depth * stride, columns, stride,
                                    out.data<float>() + i * rows * columns);
    kernel::sqrt_f32(out.data<float>(), out.numel(), out.data<float>());
    return out;
  }
};

// Pools over NCHW f32: the geometry is read from the call, the loop is given.
class PoolOp : public CompiledOp {
 public:
  enum class Kind { kMax, kMaxWithPlaces, kAverage, kAdaptiveAverage };
  explicit PoolOp(Kind kind, bool is_1d = false) : kind_(kind), is_1d_(is_1d) {}

  Value run(const Call<Tensor>& call) override {
    const Tensor& given = call.tensor(0);
    if (!is_f32(given) || given.dim() < (is_1d_ ? 2 : 3) || given.numel() == 0)
      return run_reference(call, "its input is empty, not float32 or no image");
    kernel::Pool2d pool;
    pool.in_h = is_1d_ ? 1 : given.size(-2);
    pool.in_w = given.size(-1);
    pool.planes = given.numel() / (pool.in_h * pool.in_w);
    const std::vector<int64_t> first = pair_of(call.integers(1), 1);
    if (kind_ == Kind::kAdaptiveAverage) {
      pool.out_h = first[0];
      pool.out_w = first[1];
    } else {
      const std::vector<int64_t> stride = call.integers(2).empty() ? first : pair_of(call.integers(2), 1);
      const std::vector<int64_t> padding = pair_of(call.integers(3), 0);
      const bool is_max = kind_ == Kind::kMax || kind_ == Kind::kMaxWithPlaces;
      const std::vector<int64_t> dilation = is_max ? pair_of(call.integers(4), 1) : std::vector<int64_t>{1, 1};
      const bool ceil_mode = call.boolean(is_max ? 5 : 4);
      constexpr int64_t kMost = int64_t{1} << 31;  // as the reference allows
      const auto extents = {first[0], first[1], stride[0], stride[1], dilation[0], dilation[1]};
      const bool sane = std::min(extents) >= 1 && std::max(extents) <= kMost && std::min(padding[0], padding[1]) >= 0 &&
                        padding[0] <= first[0] / 2 && padding[1] <= first[1] / 2;
      if (!sane) return run_reference(call, "its window is not one that slides over an image");
      if (kind_ == Kind::kMaxWithPlaces && std::max(dilation[0], dilation[1]) > 1)
        return run_reference(call, "its window is dilated, and may hold no element");
      pool.kernel_h = first[0], pool.kernel_w = first[1];
      pool.stride_h = stride[0], pool.stride_w = stride[1];
      pool.pad_h = padding[0], pool.pad_w = padding[1];
      pool.dilation_h = dilation[0], pool.dilation_w = dilation[1];
      pool.out_h = pooled_extent(pool.in_h, first[0], stride[0], padding[0], dilation[0], ceil_mode);
      pool.out_w = pooled_extent(pool.in_w, first[1], stride[1], padding[1], dilation[1], ceil_mode);
      if (kind_ == Kind::kAverage) {
        pool.count_include_pad = call.boolean(5);
        pool.divisor_override = call.size() <= 6 || call.is_none(6) ? 0 : call.integer(6);
      }
    }
    if (pool.out_h < 1 || pool.out_w < 1) return run_reference(call, "its window does not fit into the image");
    Shape sizes = given.sizes();
    if (!is_1d_) sizes[sizes.size() - 2] = pool.out_h;
    sizes[sizes.size() - 1] = pool.out_w;
    const Tensor x = given.contiguous();
    const Tensor out = uninitialized(sizes, DType::kF32);
    if (kind_ == Kind::kMaxWithPlaces) {
      const Tensor places = uninitialized(sizes, DType::kS64);
      kernel::max_pool2d_places_f32(x.data<float>(), pool, out.data<float>(), places.data<int64_t>());
      return Value::List{out, places};
    }
    const auto loop = kind_ == Kind::kMax       ? kernel::max_pool2d_f32
                      : kind_ == Kind::kAverage ? kernel::avg_pool2d_f32
                                                : kernel::adaptive_avg_pool2d_f32;
    loop(x.data<float>(), pool, out.data<float>());
    return out;
  }

 private:
  // Numbers for rows and columns; of a sequence, which is an image one high, the rows have `alone`.
  std::vector<int64_t> pair_of(const std::vector<int64_t>& given, int64_t alone) const {
    if (given.empty() || given.size() > 2) return {0, 0};
    if (is_1d_) return {alone, given[0]};
    return {given[0], given.back()};
  }

  Kind kind_;
  bool is_1d_;
};

class LayerNormOp : public CompiledOp {
 public:
  Value run(const Call<Tensor>& call) override {
    const Tensor& given = call.tensor(0);
    const Tensor x = given.contiguous();
    const std::vector<int64_t> normalized = call.integers(1);
    const Tensor *weight = call.optional_tensor(2), *bias = call.optional_tensor(3);
    const auto fits = [&](const Tensor* t) { return t == nullptr || (is_dense_f32(*t) && t->sizes() == normalized); };
    if (!is_dense_f32(x) || x.numel() == 0 || normalized.empty() || normalized.size() > x.sizes().size() ||
        !fits(weight) || !fits(bias) || !std::equal(normalized.rbegin(), normalized.rend(), x.sizes().rbegin()))
      return run_reference(call, "an operand is empty, not float32 or not dense, or does not fit the others");
    const Tensor out = uninitialized(x.sizes(), DType::kF32);
    const int64_t columns = numel_of(normalized);
    kernel::layer_norm_f32(x.data<float>(), x.numel() / columns, columns, weight ? weight->data<float>() : nullptr,
                           bias ? bias->data<float>() : nullptr, static_cast<float>(call.number(4)), out.data<float>(),
                           nullptr, nullptr);
    return out;
  }
};

// aten.batch_norm in evaluation: x * alpha + beta of the channel, as the reference computes them.
class BatchNormOp : public CompiledOp {
 public:
  Value run(const Call<Tensor>& call) override {
    const Tensor& given = call.tensor(0);
    const Tensor x = given.contiguous();
    const auto fits = [&](size_t i) {
      const Tensor* values = call.optional_tensor(i);
      return values == nullptr || (is_dense_f32(*values) && values->dim() == 1 && values->size(0) == x.size(1));
    };
    if (call.boolean(5) || !is_dense_f32(x) || x.dim() < 2 || x.numel() == 0 || call.is_none(3) || call.is_none(4) ||
        !fits(1) || !fits(2) || !fits(3) || !fits(4))
      return run_reference(call, "an operand is empty, not float32 or not dense, or does not fit the others");
    const Tensor *weight = call.optional_tensor(1), *bias = call.optional_tensor(2);
    const float *mean = call.tensor(3).data<float>(), *var = call.tensor(4).data<float>(),
                eps = static_cast<float>(call.number(7));
    const int64_t channels = x.size(1);
    std::vector<float> alpha, beta;
    for (int64_t c = 0; c < channels; ++c) {
      const float rstd = 1.0f / std::sqrt(var[c] + eps);
      alpha.push_back(rstd * (weight ? weight->data<float>()[c] : 1.0f));
      beta.push_back((bias ? bias->data<float>()[c] : 0.0f) - mean[c] * alpha.back());
    }
    // Nobody else but these two sees the bytes, or they were copied here.
    const bool is_mine = x.storage() != given.storage() || given.storage().use_count() == 2;
    const Tensor out = is_mine ? x : uninitialized(x.sizes(), DType::kF32);
    kernel::scale_channels_f32(x.data<float>(), x.size(0), channels, x.numel() / x.size(0) / channels, alpha.data(),
                               beta.data(), out.data<float>());
    return out;
  }
};

// quantize_per_tensor(x, scale, zero_point, quant_min, quant_max, dtype) and its inverse, with numbers or tensors of
// one number as qparams.
class PerTensorOp : public CompiledOp {
 public:
  explicit PerTensorOp(bool quantizes) : quantizes_(quantizes) {}

  Value run(const Call<Tensor>& call) override {
    const Tensor x = call.tensor(0).contiguous();
    const DType integer = call.dtype(5, DType::kF32);
    const kernel::Affine affine{call.number(1), call.integer(2), call.integer(3), call.integer(4),
                                kernel::Scaling::kMultiply};
    const bool fits = affine.scale > 0 && (quantizes_ ? is_f32(x) : x.dtype() == integer && call.is_none(6));
    if (!fits) return run_reference(call, "its input is of another dtype, or its scale is not positive");
    const Tensor out = uninitialized(x.sizes(), quantizes_ ? integer : DType::kF32);
    const bool done = visit_dtype(integer, [&](auto type) {
      using T = typename decltype(type)::type;
      if constexpr (std::is_integral_v<T> && sizeof(T) < 4 && !std::is_same_v<T, bool>) {
        if (affine.qmin < min_of(integer) || affine.qmax > max_of(integer) || affine.qmin > affine.qmax) return false;
        if (quantizes_) kernel::quantize_f32<T>(x.data<float>(), x.numel(), affine, out.data<T>());
        else kernel::dequantize_f32<T>(x.data<T>(), x.numel(), affine, out.data<float>());
        return true;
      }
      return false;
    });
    return done ? Value(out) : run_reference(call, "its range is not that of the integers");
  }

 private:
  bool quantizes_;
};

// quantize_per_channel(x, scales, zero_points, axis, quant_min, quant_max, dtype) and its inverse.
class PerChannelOp : public CompiledOp {
 public:
  explicit PerChannelOp(bool quantizes) : quantizes_(quantizes) {}

  Value run(const Call<Tensor>& call) override {
    const Tensor &given = call.tensor(0), &scales = call.tensor(1);
    const Tensor* zero_points = call.optional_tensor(2);
    const int64_t axis = call.integer(3) < 0 ? call.integer(3) + given.dim() : call.integer(3);
    const DType integer = call.dtype(6, DType::kS8);
    const auto fits_axis = [&](const Tensor& t) {
      return t.dim() == 1 && t.is_contiguous() && t.size(0) == given.size(axis);
    };
    if (given.dtype() != (quantizes_ ? DType::kF32 : integer) || given.numel() == 0 || axis < 0 ||
        axis >= given.dim() || !is_f32(scales) || !fits_axis(scales) || (!quantizes_ && !call.is_none(7)) ||
        (integer != DType::kS8 && integer != DType::kU8) || call.integer(4) < min_of(integer) ||
        call.integer(5) > max_of(integer) || call.integer(4) > call.integer(5))
      return run_reference(call, "an operand is empty or of another dtype, or the range is not that of the integers");
    if (zero_points != nullptr && (zero_points->dtype() != DType::kS64 || !fits_axis(*zero_points)))
      return run_reference(call, "its zero points are not one int64 a channel");
    for (const float scale : scales.span<float>())
      if (!(scale > 0)) return run_reference(call, "a scale is not positive");
    kernel::ChannelAffine affine;
    affine.scales = scales.data<float>();
    affine.zero_points = zero_points == nullptr ? nullptr : zero_points->data<int64_t>();
    affine.channels = given.size(axis);
    for (int64_t i = 0; i < axis; ++i) affine.outer *= given.size(i);
    for (int64_t i = axis + 1; i < given.dim(); ++i) affine.inner *= given.size(i);
    affine.qmin = call.integer(4);
    affine.qmax = call.integer(5);
    const Tensor x = given.contiguous(), out = uninitialized(x.sizes(), quantizes_ ? integer : DType::kF32);
    if (integer == DType::kS8) convert<int8_t>(x, affine, out);
    else convert<uint8_t>(x, affine, out);
    return out;
  }

 private:
  template <class T> void convert(const Tensor& x, const kernel::ChannelAffine& affine, const Tensor& out) const {
    if (quantizes_) kernel::quantize_channels_f32<T>(x.data<float>(), affine, out.data<T>());
    else kernel::dequantize_channels_f32<T>(x.data<T>(), affine, out.data<float>());
  }

  bool quantizes_;
};

template <class Op, auto... settings> std::unique_ptr<CompiledOp> make(const Node&, bool) {
  return std::make_unique<Op>(settings...);
}
template <SimdLinear::Form form> std::unique_ptr<CompiledOp> make_linear(const Node&, bool packs_once) {
  return std::make_unique<SimdLinear>(form, packs_once);
}
std::unique_ptr<CompiledOp> make_bilinear(const Node&, bool packs_once) {
  return std::make_unique<BilinearOp>(packs_once);
}
// A product with a matrix that changes packs it as it multiplies.
std::unique_ptr<CompiledOp> make_mm(const Node&, bool packs_once) {
  if (!packs_once) return std::make_unique<SimdMatmul>();
  return std::make_unique<SimdLinear>(SimdLinear::Form::kMm, packs_once);
}

constexpr SimdOp kTaken[] = {
    {"aten.layer_norm.default", make<LayerNormOp>, layer_norm_obstacle},
    {"aten.batch_norm.default", make<BatchNormOp>, batch_norm_obstacle},
    {"aten.max_pool2d.default", make<PoolOp, PoolOp::Kind::kMax>, elementwise_obstacle},
    {"aten.max_pool2d_with_indices.default", make<PoolOp, PoolOp::Kind::kMaxWithPlaces>, elementwise_obstacle},
    {"aten.max_pool1d_with_indices.default", make<PoolOp, PoolOp::Kind::kMaxWithPlaces, true>, elementwise_obstacle},
    {"aten.avg_pool2d.default", make<PoolOp, PoolOp::Kind::kAverage>, elementwise_obstacle},
    {"aten.max_pool1d.default", make<PoolOp, PoolOp::Kind::kMax, true>, elementwise_obstacle},
    {"aten.avg_pool1d.default", make<PoolOp, PoolOp::Kind::kAverage, true>, elementwise_obstacle},
    {"aten.max_pool3d.default", make_simd_max_pool3d, elementwise_obstacle},
    {"aten.avg_pool3d.default", make_simd_avg_pool3d, elementwise_obstacle},
    {"aten.adaptive_avg_pool1d.default", make<PoolOp, PoolOp::Kind::kAdaptiveAverage, true>, elementwise_obstacle},
    {"aten.adaptive_avg_pool2d.default", make<PoolOp, PoolOp::Kind::kAdaptiveAverage>, elementwise_obstacle},
    {"aten._adaptive_avg_pool2d.default", make<PoolOp, PoolOp::Kind::kAdaptiveAverage>, elementwise_obstacle},
    {"aten.adaptive_avg_pool3d.default", make_simd_mean_of_volumes, elementwise_obstacle},
    {"aten._adaptive_avg_pool3d.default", make_simd_mean_of_volumes, elementwise_obstacle},
    {"aten.conv1d.default", make_simd_convolution, convolution_obstacle, 1},
    {"aten.conv2d.default", make_simd_convolution, convolution_obstacle, 1},
    {"aten.conv3d.default", make_simd_convolution, convolution_obstacle, 1},
    {"aten.conv_transpose1d.default", make_simd_convolution, convolution_obstacle, 1},
    {"aten.conv_transpose2d.input", make_simd_convolution, convolution_obstacle, 1},
    {"aten.conv_transpose3d.input", make_simd_convolution, convolution_obstacle, 1},
    {"aten.convolution.default", make_simd_convolution, convolution_obstacle, 1},
    {"aten.linear.default", make_linear<SimdLinear::Form::kLinear>, linear_obstacle, 1},
    {"aten.addmm.default", make_linear<SimdLinear::Form::kAddmm>, addmm_obstacle, 2},
    {"aten.mm.default", make_mm, matmul_obstacle, 1},
    {"aten.matmul.default", make<SimdMatmul>, matmul_obstacle},
    {"aten.mv.default", make<SimdMatmul>, matmul_obstacle},
    {"aten.dot.default", make<SimdMatmul>, matmul_obstacle},
    {"aten.bmm.default", make<SimdMatmul>, matmul_obstacle},
    {"aten.baddbmm.default", make<BaddbmmOp>, baddbmm_obstacle},
    {"aten.bilinear.default", make_bilinear, baddbmm_obstacle, 2},
    {"aten.outer.default", make<OuterOp>, matmul_obstacle},
    {"aten.cdist.default", make<CdistOp>, matmul_obstacle},
    {"aten.einsum.default", make_simd_einsum, nullptr},
    {"quantized_decomposed.quantize_per_tensor.default", make<PerTensorOp, true>, elementwise_obstacle},
    {"quantized_decomposed.dequantize_per_tensor.default", make<PerTensorOp, false>, nullptr},
    {"quantized_decomposed.quantize_per_tensor.tensor", make<PerTensorOp, true>, elementwise_obstacle},
    {"quantized_decomposed.dequantize_per_tensor.tensor", make<PerTensorOp, false>, nullptr},
    {"quantized_decomposed.quantize_per_channel.default", make<PerChannelOp, true>, elementwise_obstacle},
    {"quantized_decomposed.dequantize_per_channel.default", make<PerChannelOp, false>, nullptr},
};

const SimdOp* find(std::string_view name) {
  for (const std::span<const SimdOp> rows :
       {std::span<const SimdOp>(kTaken), elementwise_simd_ops(), axis_simd_ops(), image_simd_ops(),
        recurrent_simd_ops(), attention_simd_ops(), ordering_simd_ops()})
    if (const SimdOp* row = find_simd_op(rows, name)) return row;
  return find_rare_simd_op(name);
}

class SimdOps : public OpBackend {
 public:
  std::string_view name() const override { return "simd"; }

  Outcome compile(const Node& node, const WrittenAttributes& written) override {
    constexpr std::string_view kNone = "the operator has no SIMD kernel of its own";
    const OpDef* op = op_of(node);
    if (op == nullptr) return std::string(kNone);
    const auto writes = [](const SchemaArgument& argument) { return argument.is_mutated; };
    const std::vector<SchemaArgument>& arguments = op->schema->arguments;
    if ((op->family == Family::kView || op->family == Family::kSplit) &&
        std::none_of(arguments.begin(), arguments.end(), writes))
      return make_simd_view();
    const std::string_view name = op->functional != nullptr ? op->functional->short_name() : op->short_name();
    for (const std::span<const SimdOp> rows :
         {index_simd_ops(), picking_simd_ops(), joining_simd_ops(), padding_simd_ops()})
      if (const SimdOp* moving = find_simd_op(rows, name))
        return moving->make(node, keeps(node, moving->weight, written));
    for (const std::span<const SimdOp> rows : {comparing_simd_ops(), placing_simd_ops(), casting_simd_ops()}) {
      const SimdOp* taken = op->is_in_place() ? nullptr : find_simd_op(rows, name);
      if (taken == nullptr) continue;
      if (std::string reason = taken->obstacle(node); !reason.empty()) return reason;
      return taken->make(node, false);
    }
    const bool quantizes = op->family == Family::kQuantize || op->family == Family::kDequantize;
    const DType result = result_dtype_of(node);
    const bool is_half = !quantizes && is_half_dtype(result);
    const bool takes_integers = result == DType::kS32 && !op->is_in_place();
    if (const SimdOp* of_integers = takes_integers ? find_simd_op(integer_simd_ops(), name) : nullptr)
      return of_integers->make(node, keeps(node, of_integers->weight, written));
    if (const SimdOp* of_int64 = result == DType::kS64 ? find_simd_op(int64_simd_ops(), name) : nullptr)
      return of_int64->make(node, false);
    const bool are_bytes = result == DType::kU8 || result == DType::kS8;
    if (are_bytes && name.starts_with("aten.upsample_") && find(name) != nullptr) return find(name)->make(node, false);
    if (chooses_among_bytes(node, name)) return make_simd_half(find(name)->make(node, false), node, -1, false);
    if (!quantizes && result != DType::kF32 && !is_half)
      return concat("the result is ", to_string(result), ", not float32, float16 or bfloat16");
    const SimdOp* taken = find(name);
    if (taken == nullptr) return std::string(kNone);
    if (std::string reason = taken->obstacle == nullptr ? "" : taken->obstacle(node); !reason.empty()) return reason;
    const bool packs_once = keeps(node, taken->weight, written) && keeps(node, taken->other_weight, written);
    if (is_half) return make_simd_half(taken->make(node, packs_once), node, taken->weight, packs_once);
    return taken->make(node, packs_once);
  }

 private:
  // Whether the argument, if there is one, may be packed once.
  static bool keeps(const Node& node, int weight, const WrittenAttributes& written) {
    return weight < 0 || is_cacheable(node, static_cast<size_t>(weight), written);
  }
};

}  // namespace

const SimdOp* find_simd_op(std::span<const SimdOp> rows, std::string_view name) {
  const auto found = std::find_if(rows.begin(), rows.end(), [&](const SimdOp& row) { return row.op == name; });
  return found == rows.end() ? nullptr : &*found;
}

std::unique_ptr<OpBackend> make_simd_ops() { return std::make_unique<SimdOps>(); }

}  // namespace qdq
