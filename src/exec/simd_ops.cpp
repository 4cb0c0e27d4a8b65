// The portable float backend: operators that run on the loops of kernel/, with weights packed once.
#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>

#include "exec/op_backend.h"
#include "exec/simd.h"
#include "exec/simd_obstacles.h"
#include "kernel/gemm.h"
#include "kernel/math.h"
#include "kernel/pointwise.h"
#include "kernel/pool.h"
#include "kernel/quantize.h"
#include "op/facts.h"

namespace qdq {
namespace {

using Outcome = std::variant<std::unique_ptr<CompiledOp>, std::string>;

// The node that a value comes from when observers, which pass their input on, are looked through.
const Node* source_of(const Node* node) {
  while (node != nullptr && node->op() == Node::Op::kCallModule) node = node->arg(0).node();
  return node;
}

bool is_mutated(const Program& program, const std::string& attribute) {
  for (const BufferMutation& mutation : program.buffer_mutations)
    if (mutation.buffer == attribute) return true;
  for (const Node* node : program.graph->nodes()) {
    if (node->op() != Node::Op::kCallFunction) continue;
    const OpDef* op = find_op(node->target());
    if (op == nullptr || op->schema.arguments.empty() || !op->schema.arguments[0].is_mutated) continue;
    const Node* written = source_of(node->arg(0).node());
    if (written != nullptr && written->op() == Node::Op::kGetAttr && written->target() == attribute) return true;
  }
  return false;
}

// A weight may be packed once if its bytes cannot change behind the cache: an attribute that nothing writes to, or a
// tensor that is computed anew at every run.
bool is_cacheable(const Node& node, size_t index, const Program& program) {
  const Node* source = source_of(node.arg(index).node());
  if (source == nullptr || source->op() == Node::Op::kPlaceholder) return false;
  return source->op() != Node::Op::kGetAttr || !is_mutated(program, source->target());
}

int64_t pooled_extent(int64_t in, int64_t kernel, int64_t stride, int64_t pad, int64_t dilation, bool ceil_mode) {
  const int64_t span = in + 2 * pad - dilation * (kernel - 1) - 1;
  int64_t out = (ceil_mode ? (span + stride - 1) / stride : span / stride) + 1;
  if (ceil_mode && (out - 1) * stride >= in + pad) --out;
  return out;
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

// aten.matmul and aten.bmm of two f32 tensors with at least two dimensions each.
class SimdMatmul : public CompiledOp {
 public:
  Value run(const Call<Tensor>& call) override {
    const Tensor& a = call.tensor(0);
    const Tensor& b = call.tensor(1);
    if (!is_f32(a) || !is_f32(b) || a.dim() < 2 || b.dim() < 2 || a.size(-1) != b.size(-2))
      return run_reference(call, "an operand is a vector, not float32, or does not fit the other");
    const Shape batch =
        broadcast_shapes(Shape(a.sizes().begin(), a.sizes().end() - 2), Shape(b.sizes().begin(), b.sizes().end() - 2));
    const int64_t rows = a.size(-2), columns = b.size(-1), depth = a.size(-1), count = numel_of(batch);
    const auto flat = [&](const Tensor& t) {
      Shape full = batch;
      full.insert(full.end(), t.sizes().end() - 2, t.sizes().end());
      const Shape joined{count, t.size(-2), t.size(-1)};
      return t.expand(full).reshape(joined);
    };
    const Tensor x = flat(a), y = flat(b);
    Shape sizes = batch;
    sizes.insert(sizes.end(), {rows, columns});
    const Tensor out = uninitialized(sizes, DType::kF32);
    kernel::matmul_f32(count, rows, columns, depth, {x.data<float>(), x.stride(1), x.stride(2)}, x.stride(0),
                       {y.data<float>(), y.stride(1), y.stride(2)}, y.stride(0), out.data<float>());
    return out;
  }
};

// Pools over NCHW f32: the geometry is read from the call, the loop is given.
class PoolOp : public CompiledOp {
 public:
  enum class Kind { kMax, kAverage, kAdaptiveAverage };
  explicit PoolOp(Kind kind) : kind_(kind) {}

  Value run(const Call<Tensor>& call) override {
    const Tensor& given = call.tensor(0);
    if (!is_f32(given) || given.dim() < 3 || given.numel() == 0)
      return run_reference(call, "its input is empty, not float32 or no image");
    kernel::Pool2d pool;
    pool.in_h = given.size(-2);
    pool.in_w = given.size(-1);
    pool.planes = given.numel() / (pool.in_h * pool.in_w);
    const std::vector<int64_t> first = call.integers(1, 2);
    if (kind_ == Kind::kAdaptiveAverage) {
      pool.out_h = first[0];
      pool.out_w = first[1];
    } else {
      const std::vector<int64_t> stride = call.integers(2).empty() ? first : call.integers(2, 2);
      const std::vector<int64_t> padding = call.integers(3, 2);
      const std::vector<int64_t> dilation = kind_ == Kind::kMax ? call.integers(4, 2) : std::vector<int64_t>{1, 1};
      const bool ceil_mode = call.boolean(kind_ == Kind::kMax ? 5 : 4);
      constexpr int64_t kMost = int64_t{1} << 31;  // as the reference allows
      const auto extents = {first[0], first[1], stride[0], stride[1], dilation[0], dilation[1]};
      const bool sane = std::min(extents) >= 1 && std::max(extents) <= kMost && std::min(padding[0], padding[1]) >= 0 &&
                        padding[0] <= first[0] / 2 && padding[1] <= first[1] / 2;
      if (!sane) return run_reference(call, "its window is not one that slides over an image");
      pool.kernel_h = first[0], pool.kernel_w = first[1];
      pool.stride_h = stride[0], pool.stride_w = stride[1];
      pool.pad_h = padding[0], pool.pad_w = padding[1];
      pool.dilation_h = dilation[0], pool.dilation_w = dilation[1];
      pool.out_h = pooled_extent(pool.in_h, first[0], stride[0], padding[0], dilation[0], ceil_mode);
      pool.out_w = pooled_extent(pool.in_w, first[1], stride[1], padding[1], dilation[1], ceil_mode);
      if (kind_ == Kind::kAverage) {
        pool.count_include_pad = call.boolean(5);
        pool.divisor_override = call.is_none(6) ? 0 : call.integer(6);
      }
    }
    if (pool.out_h < 1 || pool.out_w < 1) return run_reference(call, "its window does not fit into the image");
    Shape sizes = given.sizes();
    sizes[sizes.size() - 2] = pool.out_h;
    sizes[sizes.size() - 1] = pool.out_w;
    const Tensor x = given.contiguous();
    const Tensor out = uninitialized(sizes, DType::kF32);
    const auto loop = kind_ == Kind::kMax       ? kernel::max_pool2d_f32
                      : kind_ == Kind::kAverage ? kernel::avg_pool2d_f32
                                                : kernel::adaptive_avg_pool2d_f32;
    loop(x.data<float>(), pool, out.data<float>());
    return out;
  }

 private:
  Kind kind_;
};

bool is_dense_f32(const Tensor& tensor) { return is_f32(tensor) && tensor.is_contiguous(); }

// Where an elementwise result goes: over x if the operator says so, or if nobody else sees the bytes of x.
bool may_overwrite(const Tensor& x) { return x.storage().use_count() == 1; }
Tensor result_over(const Tensor& x, bool in_place) {
  return in_place || may_overwrite(x) ? x : uninitialized(x.sizes(), DType::kF32);
}

// An operator whose loop goes over its operands and its result side by side: by itself, at the head of a tail, or as
// part of one.
class ElementwiseOp : public CompiledOp {
 public:
  Value run(const Call<Tensor>& call) final { return run(call, nullptr); }
  Value run(const Call<Tensor>& call, Tail& tail) final { return run(call, &tail); }

 protected:
  explicit ElementwiseOp(bool in_place) : in_place_(in_place) {}
  bool in_place_;

 private:
  // The operand that the result may go over, one of its shape; null if the loop does not take this call.
  virtual const Tensor* operand(const Call<Tensor>& call) const = 0;
  // What to do with a call that the loop does not take.
  virtual Value run_apart(const Call<Tensor>& call) {
    return run_reference(call, "its input is not float32, or its elements do not lie one behind the other");
  }

  Value run(const Call<Tensor>& call, Tail* tail) {
    const Tensor* x = operand(call);
    if (x == nullptr) return run_apart(call);
    const bool is_owned = !in_place_ || may_overwrite(*x);
    const Tensor out = result_over(*x, in_place_);
    const Tail::Loop loop = loop_over(call, out);
    if (tail != nullptr && tail->begin(out, is_owned)) tail->run(loop);
    else loop(0, out.numel());
    return out;
  }
};

// An elementwise loop over n elements; the call tells settings such as the slope of a leaky relu.
using UnaryLoop = void (*)(const Call<Tensor>& call, const float* x, int64_t n, float* out);

template <void (*F)(const float*, int64_t, float*)>
void plain(const Call<Tensor>&, const float* x, int64_t n, float* out) {
  F(x, n, out);
}

void hardtanh(const Call<Tensor>& call, const float* x, int64_t n, float* out) {
  kernel::clamp_f32(x, n, static_cast<float>(call.number(1)), static_cast<float>(call.number(2)), out);
}
void relu6(const Call<Tensor>&, const float* x, int64_t n, float* out) { kernel::clamp_f32(x, n, 0, 6, out); }
void leaky_relu(const Call<Tensor>& call, const float* x, int64_t n, float* out) {
  kernel::leaky_relu_f32(x, n, static_cast<float>(call.number(1)), out);
}
void gelu(const Call<Tensor>& call, const float* x, int64_t n, float* out) {
  (call.string(1) == "tanh" ? kernel::gelu_tanh_f32 : kernel::gelu_f32)(x, n, out);
}

class UnaryOp : public ElementwiseOp {
 public:
  UnaryOp(UnaryLoop loop, bool in_place) : ElementwiseOp(in_place), loop_(loop) {}

  Tail::Loop loop_over(const Call<Tensor>& call, const Tensor& out) const override {
    const Tensor* x = operand(call);
    if (x == nullptr || x->sizes() != out.sizes()) return {};
    return [this, &call, from = x->data<float>(), to = out.data<float>()](int64_t begin, int64_t count) {
      loop_(call, from + begin, count, to + begin);
    };
  }

 private:
  const Tensor* operand(const Call<Tensor>& call) const override {
    const Tensor& x = call.tensor(0);
    return is_dense_f32(x) ? &x : nullptr;
  }

  UnaryLoop loop_;
};

using BinaryLoop = void (*)(const float* a, const float* b, int64_t n, float* out);

// Whether b has one element for each leading part of a: [N, C, 1, 1] beside [N, C, H, W].
bool is_scale_of(const Tensor& a, const Tensor& b) {
  if (a.dim() != b.dim()) return false;
  bool trailing = false;
  for (size_t i = 0; i < a.sizes().size(); ++i) {
    trailing = trailing || (b.sizes()[i] == 1 && a.sizes()[i] != 1);
    if (b.sizes()[i] != (trailing ? 1 : a.sizes()[i])) return false;
  }
  return trailing;
}

class BinaryOp : public ElementwiseOp {
 public:
  BinaryOp(BinaryLoop loop, bool in_place, bool has_alpha)
      : ElementwiseOp(in_place), loop_(loop), has_alpha_(has_alpha) {}

  Tail::Loop loop_over(const Call<Tensor>& call, const Tensor& out) const override {
    if (operand(call) == nullptr || call.tensor(0).sizes() != out.sizes()) return {};
    return [this, a = call.tensor(0).data<float>(), b = call.tensor(1).data<float>(), to = out.data<float>()](
               int64_t begin, int64_t count) { loop_(a + begin, b + begin, count, to + begin); };
  }

 private:
  bool takes(const Call<Tensor>& call) const {
    const Tensor *a = call[0].get_if<Tensor>(), *b = call[1].get_if<Tensor>();
    return a != nullptr && b != nullptr && is_dense_f32(*a) && is_dense_f32(*b) && !(has_alpha_ && call.number(2) != 1);
  }

  const Tensor* operand(const Call<Tensor>& call) const override {
    if (!takes(call) || call.tensor(0).sizes() != call.tensor(1).sizes()) return nullptr;
    return !in_place_ && may_overwrite(call.tensor(1)) ? &call.tensor(1) : &call.tensor(0);
  }

  // A product with a factor for each leading part.
  Value run_apart(const Call<Tensor>& call) override {
    if (!takes(call))
      return run_reference(
          call,
          "an operand is a number or not float32, has a factor, or does not lie one element behind the "
          "other");
    if (loop_ != kernel::mul_f32) return run_reference(call, "an operand is broadcast");
    const Tensor *a = &call.tensor(0), *b = &call.tensor(1);
    if (!in_place_ && is_scale_of(*b, *a)) std::swap(a, b);
    if (a->numel() == 0 || !is_scale_of(*a, *b))
      return run_reference(call, "an operand is empty, or broadcast other than along the trailing axes");
    const Tensor out = result_over(*a, in_place_);
    kernel::scale_channels_f32(a->data<float>(), 1, b->numel(), a->numel() / b->numel(), b->data<float>(), nullptr,
                               out.data<float>());
    return out;
  }

  BinaryLoop loop_;
  bool has_alpha_;
};

// aten.softmax.int and aten._softmax along the last axis.
class SoftmaxOp : public CompiledOp {
 public:
  Value run(const Call<Tensor>& call) override {
    const Tensor& x = call.tensor(0);
    const bool converts = call.op().schema.arguments[2].name == "dtype" ? !call.is_none(2) : call.boolean(2);
    if (!is_dense_f32(x) || x.dim() == 0 || x.numel() == 0 || converts ||
        wrap_axis(call.integer(1), x.dim()) != x.dim() - 1)
      return run_reference(call, "its input is empty, not float32 or not dense, or it is not along the last axis");
    const Tensor out = uninitialized(x.sizes(), DType::kF32);
    const int64_t columns = x.size(-1);
    kernel::softmax_f32(x.data<float>(), x.numel() / columns, columns, out.data<float>());
    return out;
  }
};

class LayerNormOp : public CompiledOp {
 public:
  Value run(const Call<Tensor>& call) override {
    const Tensor& x = call.tensor(0);
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
    const Tensor& x = call.tensor(0);
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
    const Tensor out = result_over(x, false);
    kernel::scale_channels_f32(x.data<float>(), x.size(0), channels, x.numel() / x.size(0) / channels, alpha.data(),
                               beta.data(), out.data<float>());
    return out;
  }
};

// quantize_per_tensor.default(x, scale, zero_point, quant_min, quant_max, dtype) and its inverse, with numbers as
// qparams.
class PerTensorOp : public CompiledOp {
 public:
  explicit PerTensorOp(bool quantizes) : quantizes_(quantizes) {}

  Value run(const Call<Tensor>& call) override {
    const Tensor& x = call.tensor(0);
    const DType integer = call.dtype(5, DType::kF32);
    const kernel::Affine affine{call.number(1), call.integer(2), call.integer(3), call.integer(4),
                                kernel::Scaling::kMultiply};
    const bool fits =
        x.is_contiguous() && affine.scale > 0 && (quantizes_ ? is_f32(x) : x.dtype() == integer && call.is_none(6));
    if (!fits) return run_reference(call, "its input is not dense or of another dtype, or its scale is not positive");
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

// quantize_per_channel(x, scales, zero_points, axis, quant_min, quant_max, dtype).
class QuantizePerChannelOp : public CompiledOp {
 public:
  Value run(const Call<Tensor>& call) override {
    const Tensor &x = call.tensor(0), &scales = call.tensor(1), &zero_points = call.tensor(2);
    const int64_t axis = call.integer(3) < 0 ? call.integer(3) + x.dim() : call.integer(3);
    const DType integer = call.dtype(6, DType::kS8);
    const auto fits_axis = [&](const Tensor& t) {
      return t.dim() == 1 && t.is_contiguous() && t.size(0) == x.size(axis);
    };
    if (!is_dense_f32(x) || x.numel() == 0 || axis < 0 || axis >= x.dim() || !is_f32(scales) ||
        zero_points.dtype() != DType::kS64 || !fits_axis(scales) || !fits_axis(zero_points) ||
        (integer != DType::kS8 && integer != DType::kU8) || call.integer(4) < min_of(integer) ||
        call.integer(5) > max_of(integer) || call.integer(4) > call.integer(5))
      return run_reference(
          call, "an operand is empty, not dense or of another dtype, or the range is not that of the integers");
    for (const float scale : scales.span<float>())
      if (!(scale > 0)) return run_reference(call, "a scale is not positive");
    kernel::ChannelAffine affine;
    affine.scales = scales.data<float>();
    affine.zero_points = zero_points.data<int64_t>();
    affine.channels = x.size(axis);
    for (int64_t i = 0; i < axis; ++i) affine.outer *= x.size(i);
    for (int64_t i = axis + 1; i < x.dim(); ++i) affine.inner *= x.size(i);
    affine.qmin = call.integer(4);
    affine.qmax = call.integer(5);
    const Tensor out = uninitialized(x.sizes(), integer);
    if (integer == DType::kS8) kernel::quantize_channels_f32(x.data<float>(), affine, out.data<int8_t>());
    else kernel::quantize_channels_f32(x.data<float>(), affine, out.data<uint8_t>());
    return out;
  }
};

template <class Op, auto... settings> std::unique_ptr<CompiledOp> make(const Node&, bool) {
  return std::make_unique<Op>(settings...);
}
template <UnaryLoop loop> std::unique_ptr<CompiledOp> make_unary(const Node& node, bool) {
  return std::make_unique<UnaryOp>(loop, op_of(node)->is_in_place());
}
template <BinaryLoop loop, bool has_alpha> std::unique_ptr<CompiledOp> make_binary(const Node& node, bool) {
  return std::make_unique<BinaryOp>(loop, op_of(node)->is_in_place(), has_alpha);
}
template <SimdLinear::Form form> std::unique_ptr<CompiledOp> make_linear(const Node&, bool packs_once) {
  return std::make_unique<SimdLinear>(form, packs_once);
}
// A product with a matrix that changes packs it as it multiplies.
std::unique_ptr<CompiledOp> make_mm(const Node&, bool packs_once) {
  if (!packs_once) return std::make_unique<SimdMatmul>();
  return std::make_unique<SimdLinear>(SimdLinear::Form::kMm, packs_once);
}

// Who runs an operator and its in-place form: by name, because each loop is written for one operator.
struct Taken {
  std::string_view op;
  std::unique_ptr<CompiledOp> (*make)(const Node& node, bool packs_once);
  std::string (*obstacle)(const Node& node);  // what the graph tells before a run; null: nothing
  int weight = -1;                            // the argument that is packed, once unless it may change
};
constexpr Taken kTaken[] = {
    {"aten.relu.default", make_unary<plain<kernel::relu_f32>>, elementwise_obstacle},
    {"aten.relu6.default", make_unary<relu6>, elementwise_obstacle},
    {"aten.hardtanh.default", make_unary<hardtanh>, elementwise_obstacle},
    {"aten.hardswish.default", make_unary<plain<kernel::hardswish_f32>>, elementwise_obstacle},
    {"aten.hardsigmoid.default", make_unary<plain<kernel::hardsigmoid_f32>>, elementwise_obstacle},
    {"aten.leaky_relu.default", make_unary<leaky_relu>, elementwise_obstacle},
    {"aten.sigmoid.default", make_unary<plain<kernel::sigmoid_f32>>, elementwise_obstacle},
    {"aten.silu.default", make_unary<plain<kernel::silu_f32>>, elementwise_obstacle},
    {"aten.gelu.default", make_unary<gelu>, elementwise_obstacle},
    {"aten.tanh.default", make_unary<plain<kernel::tanh_f32>>, elementwise_obstacle},
    {"aten.exp.default", make_unary<plain<kernel::exp_f32>>, elementwise_obstacle},
    {"aten.add.Tensor", make_binary<kernel::add_f32, true>, add_obstacle},
    {"aten.sub.Tensor", make_binary<kernel::sub_f32, true>, add_obstacle},
    {"aten.mul.Tensor", make_binary<kernel::mul_f32, false>, mul_obstacle},
    {"aten.div.Tensor", make_binary<kernel::div_f32, false>, add_obstacle},
    {"aten.softmax.int", make<SoftmaxOp>, softmax_obstacle},
    {"aten._softmax.default", make<SoftmaxOp>, softmax_obstacle},
    {"aten.layer_norm.default", make<LayerNormOp>, layer_norm_obstacle},
    {"aten.batch_norm.default", make<BatchNormOp>, batch_norm_obstacle},
    {"aten.max_pool2d.default", make<PoolOp, PoolOp::Kind::kMax>, elementwise_obstacle},
    {"aten.avg_pool2d.default", make<PoolOp, PoolOp::Kind::kAverage>, elementwise_obstacle},
    {"aten.adaptive_avg_pool2d.default", make<PoolOp, PoolOp::Kind::kAdaptiveAverage>, elementwise_obstacle},
    {"aten._adaptive_avg_pool2d.default", make<PoolOp, PoolOp::Kind::kAdaptiveAverage>, elementwise_obstacle},
    {"aten.conv1d.default", make_simd_convolution, convolution_obstacle, 1},
    {"aten.conv2d.default", make_simd_convolution, convolution_obstacle, 1},
    {"aten.conv3d.default", make_simd_convolution, convolution_obstacle, 1},
    {"aten.conv_transpose1d.default", make_simd_convolution, convolution_obstacle, 1},
    {"aten.conv_transpose2d.input", make_simd_convolution, convolution_obstacle, 1},
    {"aten.convolution.default", make_simd_convolution, convolution_obstacle, 1},
    {"aten.linear.default", make_linear<SimdLinear::Form::kLinear>, linear_obstacle, 1},
    {"aten.addmm.default", make_linear<SimdLinear::Form::kAddmm>, addmm_obstacle, 2},
    {"aten.mm.default", make_mm, matmul_obstacle, 1},
    {"aten.matmul.default", make<SimdMatmul>, matmul_obstacle},
    {"aten.bmm.default", make<SimdMatmul>, matmul_obstacle},
    {"aten.einsum.default", make_simd_einsum, nullptr},
    {"quantized_decomposed.quantize_per_tensor.default", make<PerTensorOp, true>, elementwise_obstacle},
    {"quantized_decomposed.dequantize_per_tensor.default", make<PerTensorOp, false>, nullptr},
    {"quantized_decomposed.quantize_per_channel.default", make<QuantizePerChannelOp>, elementwise_obstacle},
};

class SimdOps : public OpBackend {
 public:
  std::string_view name() const override { return "simd"; }

  Outcome compile(const Node& node, const Program& program) override {
    constexpr std::string_view kNone = "the operator has no SIMD kernel of its own";
    const OpDef* op = op_of(node);
    if (op == nullptr) return std::string(kNone);
    const TensorMeta* meta = node.meta.val.tensor();
    const bool quantizes = op->family == Family::kQuantize || op->family == Family::kDequantize;
    if (!quantizes && meta != nullptr && meta->dtype != DType::kF32)
      return concat("the result is ", to_string(meta->dtype), ", not float32");
    const std::string_view name = op->functional != nullptr ? op->functional->short_name() : op->short_name();
    const auto taken = std::find_if(std::begin(kTaken), std::end(kTaken), [&](const Taken& t) { return t.op == name; });
    if (taken == std::end(kTaken)) return std::string(kNone);
    if (std::string reason = taken->obstacle == nullptr ? "" : taken->obstacle(node); !reason.empty()) return reason;
    const bool packs_once = taken->weight < 0 || is_cacheable(node, static_cast<size_t>(taken->weight), program);
    return taken->make(node, packs_once);
  }
};

}  // namespace

std::unique_ptr<OpBackend> make_simd_ops() { return std::make_unique<SimdOps>(); }

}  // namespace qdq
