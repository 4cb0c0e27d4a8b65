// Operators over elements on the portable loops: of one tensor, and of two that are broadcast against each other.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>

#include "exec/broadcast_pairs.h"
#include "exec/simd.h"
#include "exec/simd_obstacles.h"
#include "kernel/division.h"
#include "kernel/math.h"
#include "kernel/pointwise.h"
#include "op/facts.h"

namespace qdq {
namespace {

// Where an elementwise result goes: over x if the operator says so, or if nobody else sees the bytes of x.
Tensor result_over(const Tensor& x, bool in_place) {
  return in_place || may_overwrite(x) ? x : uninitialized(x.sizes(), DType::kF32);
}

// An operator whose loop goes over its operands and its result side by side: by itself, at the head of a tail, or as
// part of one.
class ElementwiseOp : public CompiledOp {
 public:
  Value run(const Call<Tensor>& call) final { return run(call, nullptr); }
  Value run(const Call<Tensor>& call, Tail& tail) final { return run(call, &tail); }
  bool may_be_tail() const final { return true; }

 protected:
  explicit ElementwiseOp(bool in_place) : in_place_(in_place) {}
  bool in_place_;

 private:
  // The operand that the result may go over, one of its shape; null if the loop does not take this call.
  virtual const Tensor* operand(const Call<Tensor>& call) const = 0;
  // What to do with a call that the loop does not take.
  virtual Value run_apart(const Call<Tensor>& call) = 0;

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
void elu(const Call<Tensor>& call, const float* x, int64_t n, float* out) {
  kernel::elu_f32(x, n, static_cast<float>(call.number(1)), static_cast<float>(call.number(2)),
                  static_cast<float>(call.number(3)), out);
}
void softplus(const Call<Tensor>& call, const float* x, int64_t n, float* out) {
  kernel::softplus_f32(x, n, static_cast<float>(call.number(1)), static_cast<float>(call.number(2)), out);
}
void rsqrt(const Call<Tensor>&, const float* x, int64_t n, float* out) {
  kernel::sqrt_f32(x, n, out);
  kernel::reciprocal_f32(out, n, out);
}
// A bound that is None is none.
void clamp(const Call<Tensor>& call, const float* x, int64_t n, float* out) {
  constexpr float kEnd = std::numeric_limits<float>::infinity();
  kernel::clamp_f32(x, n, call.is_none(1) ? -kEnd : static_cast<float>(call.number(1)),
                    call.is_none(2) ? kEnd : static_cast<float>(call.number(2)), out);
}
void clamp_min(const Call<Tensor>& call, const float* x, int64_t n, float* out) {
  kernel::clamp_f32(x, n, static_cast<float>(call.number(1)), std::numeric_limits<float>::infinity(), out);
}
void clamp_max(const Call<Tensor>& call, const float* x, int64_t n, float* out) {
  kernel::clamp_f32(x, n, -std::numeric_limits<float>::infinity(), static_cast<float>(call.number(1)), out);
}

// PyTorch's numbers.
void selu(const Call<Tensor>&, const float* x, int64_t n, float* out) {
  kernel::elu_f32(x, n, 1.6732632423543772848170429916717f, 1.0507009873554804934193349852946f, 1, out);
}
void celu(const Call<Tensor>& call, const float* x, int64_t n, float* out) {
  const double alpha = call.number(1);
  kernel::elu_f32(x, n, static_cast<float>(alpha), 1, static_cast<float>(1 / alpha), out);
}

// x > threshold ? x : value, and NaN stays.
void threshold(const Call<Tensor>& call, const float* x, int64_t n, float* out) {
  kernel::threshold_f32(x, n, static_cast<float>(call.number(1)), static_cast<float>(call.number(2)), out);
}

void square(const Call<Tensor>&, const float* x, int64_t n, float* out) { kernel::mul_f32(x, x, n, out); }
// -softplus(-x)
void log_sigmoid(const Call<Tensor>&, const float* x, int64_t n, float* out) {
  kernel::neg_f32(x, n, out);
  kernel::softplus_f32(out, n, 1, 20, out);
  kernel::neg_f32(out, n, out);
}

constexpr int64_t kStretch = 512;

// As PyTorch multiplies; out may be x.
void cube(const float* x, int64_t n, float* out) {
  float squares[kStretch];
  for (int64_t i = 0; i < n; i += kStretch) {
    const int64_t count = std::min(kStretch, n - i);
    kernel::mul_f32(x + i, x + i, count, squares);
    kernel::mul_f32(squares, x + i, count, out + i);
  }
}

// A power by one number: by products and roots where these do.
void power(const Call<Tensor>& call, const float* x, int64_t n, float* out) {
  const double by = call.number(1);
  if (by == 2) return kernel::mul_f32(x, x, n, out);
  if (by == 3) return cube(x, n, out);
  if (by == 0.5) return kernel::sqrt_f32(x, n, out);
  if (by == -1) return kernel::reciprocal_f32(x, n, out);
  float exponents[kStretch];
  std::fill_n(exponents, std::min(n, kStretch), static_cast<float>(by));
  for (int64_t i = 0; i < n; i += kStretch) kernel::pow_f32(x + i, exponents, std::min(kStretch, n - i), out + i);
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

  Value run_apart(const Call<Tensor>& call) override {
    const Tensor& x = call.tensor(0);
    if (!is_f32(x)) return run_reference(call, "its input is not float32");
    if (in_place_) return run_reference(call, "it is in place and its elements do not lie one behind the other");
    const Tensor out = x.contiguous();
    loop_(call, out.data<float>(), out.numel(), out.data<float>());
    return out;
  }

  UnaryLoop loop_;
};

void divide_trunc(const float* a, const float* b, float, int64_t n, float* out) {
  kernel::div_f32(a, b, n, out);
  kernel::trunc_f32(out, n, out);
}

// Between a and b by a weight, from the nearer one, as PyTorch computes it.
void lerp(const float* a, const float* b, float weight, int64_t n, float* out) {
  float way[kStretch];
  for (int64_t i = 0; i < n; i += kStretch) {
    const int64_t count = std::min(kStretch, n - i);
    kernel::sub_f32(b + i, a + i, count, way);
    if (std::abs(weight) < 0.5f) kernel::add_scaled_f32(a + i, way, weight, count, out + i);
    else kernel::add_scaled_f32(b + i, way, weight - 1, count, out + i);
  }
}

// Operators of two operands, one of which may be a number, with the factor of the one that is added.
class BinaryOp : public ElementwiseOp {
 public:
  enum class Form { kPlain, kAdd, kSubtract, kReverseSubtract, kPrelu };
  BinaryOp(PairLoop loop, Form form, bool in_place) : ElementwiseOp(in_place), loop_(loop), form_(form) {}

  Tail::Loop loop_over(const Call<Tensor>& call, const Tensor& out) const override {
    if (operand(call) == nullptr || call.tensor(0).sizes() != out.sizes()) return {};
    return [this, factor = factor_of(call), a = call.tensor(0).data<float>(), b = call.tensor(1).data<float>(),
            to = out.data<float>()](int64_t begin, int64_t count) {
      loop_(a + begin, b + begin, factor, count, to + begin);
    };
  }

 private:
  float factor_of(const Call<Tensor>& call) const {
    if (form_ == Form::kPlain || form_ == Form::kPrelu) return 1;
    const auto alpha = static_cast<float>(call.number(2));
    return form_ == Form::kAdd ? alpha : -alpha;
  }

  const Tensor* operand(const Call<Tensor>& call) const override {
    const Tensor *a = call[0].get_if<Tensor>(), *b = call[1].get_if<Tensor>();
    if (a == nullptr || b == nullptr || form_ == Form::kReverseSubtract || form_ == Form::kPrelu || !is_dense_f32(*a) ||
        !is_dense_f32(*b) || a->sizes() != b->sizes())
      return nullptr;
    return !in_place_ && may_overwrite(*b) ? b : a;
  }

  // A number, or a tensor whose numbers are those of float32 once it meets one.
  static Tensor as_f32(const Call<Tensor>& call, size_t i) {
    const Tensor* tensor = call[i].get_if<Tensor>();
    return tensor == nullptr ? Tensor::scalar(static_cast<float>(call.number(i))) : tensor->to(DType::kF32);
  }

  // Operands that are broadcast, lie otherwise or are numbers.
  Value run_apart(const Call<Tensor>& call) override {
    for (size_t i : {size_t{0}, size_t{1}})
      if (const Tensor* tensor = call[i].get_if<Tensor>();
          tensor != nullptr && (is_float8(tensor->dtype()) || is_complex(tensor->dtype())))
        return run_reference(call, "an operand is complex or a float of 8 bits");
    const Tensor* self = call[0].get_if<Tensor>();
    const bool is_mine = self != nullptr && is_dense_f32(*self) && may_overwrite(*self);
    Tensor a = as_f32(call, 0), b = as_f32(call, 1);
    if (form_ == Form::kReverseSubtract) std::swap(a, b);
    if (form_ == Form::kPrelu && b.numel() > 1) {
      Shape sizes(static_cast<size_t>(std::max<int64_t>(a.dim(), 1)), 1);
      if (sizes.size() < 2 || b.dim() != 1 || b.numel() != a.size(1))
        return run_reference(call, "its slopes do not fit");
      sizes[1] = b.numel();
      b = b.reshape(sizes);
    }
    const Shape sizes = broadcast_shapes(a.sizes(), b.sizes());
    if (numel_of(sizes) == 0) return run_reference(call, "an operand is empty");
    if (in_place_ && (!is_dense_f32(*self) || self->sizes() != sizes || self->storage() == b.storage()))
      return run_reference(call, "it is in place, and its result does not fit over its input");
    const Tensor out = in_place_ || (is_mine && self->sizes() == sizes) ? *self : uninitialized(sizes, DType::kF32);
    broadcast_pairs(loop_, factor_of(call), a, b, out);
    return out;
  }

  PairLoop loop_;
  Form form_;
};

// addcmul and addcdiv: self and value * a times b or by b, rounded at every step.
class AddProductOp : public ElementwiseOp {
 public:
  AddProductOp(PairLoop loop, bool in_place) : ElementwiseOp(in_place), loop_(loop) {}

  Tail::Loop loop_over(const Call<Tensor>& call, const Tensor& out) const override {
    if (operand(call) == nullptr || call.tensor(0).sizes() != out.sizes()) return {};
    return [this, value = static_cast<float>(call.number(3)), x = call.tensor(0).data<float>(),
            a = call.tensor(1).data<float>(), b = call.tensor(2).data<float>(),
            to = out.data<float>()](int64_t begin, int64_t count) {
      float part[kStretch];
      for (int64_t i = begin, end = begin + count; i < end; i += kStretch) {
        const int64_t n = std::min(kStretch, end - i);
        if (value != 1) kernel::mul_scalar_f32(a + i, value, n, part);
        loop_(value != 1 ? part : a + i, b + i, 1, n, part);
        kernel::add_f32(x + i, part, n, to + i);
      }
    };
  }

 private:
  const Tensor* operand(const Call<Tensor>& call) const override {
    for (size_t i = 0; i < 3; ++i)
      if (!is_dense_f32(call.tensor(i)) || call.tensor(i).sizes() != call.tensor(0).sizes()) return nullptr;
    return &call.tensor(0);
  }

  Value run_apart(const Call<Tensor>& call) override {
    const Tensor &x = call.tensor(0), &a = call.tensor(1), &b = call.tensor(2);
    const Shape product = broadcast_shapes(a.sizes(), b.sizes()), sizes = broadcast_shapes(x.sizes(), product);
    if (in_place_ || !is_f32(x) || !is_f32(a) || !is_f32(b) || numel_of(sizes) == 0)
      return run_reference(call, "it is in place and broadcasts, or an operand is empty or not float32");
    const auto value = static_cast<float>(call.number(3));
    const Tensor part = uninitialized(product, DType::kF32);
    broadcast_pairs(loop_, 1, value == 1 ? a : multiply_f32(a, Tensor::scalar(value)), b, part);
    return add_f32(x, part, 1);
  }

  PairLoop loop_;
};

// aten.where of float32 or int64 by a condition, all broadcast to one shape; masked_fill has the arguments in another
// order.
template <class T> class WhereOp : public CompiledOp {
 public:
  WhereOp(size_t condition, size_t yes, size_t no) : condition_(condition), yes_(yes), no_(no) {}

  Value run(const Call<Tensor>& call) override {
    const Tensor* condition = call[condition_].get_if<Tensor>();
    const std::optional<Tensor> yes = values_of(call, yes_), no = values_of(call, no_);
    if (condition == nullptr || condition->dtype() != DType::kBool || !yes || !no)
      return run_reference(call, "its condition is not bool, or a value has another dtype than the result");
    const Shape sizes = broadcast_shapes(condition->sizes(), broadcast_shapes(yes->sizes(), no->sizes()));
    const Tensor c = condition->expand(sizes), a = yes->expand(sizes), b = no->expand(sizes),
                 out = uninitialized(sizes, DTypeOf<T>::value);
    const std::array strides{c.strides().data(), a.strides().data(), b.strides().data()};
    T* to = out.data<T>();
    for (RowWalk row(sizes, strides); row.next(); to += row.extent())
      select(c.data<bool>() + row.offset(0), row.step(0), a.data<T>() + row.offset(1), row.step(1),
             b.data<T>() + row.offset(2), row.step(2), row.extent(), to);
    return out;
  }

 private:
  static std::optional<Tensor> values_of(const Call<Tensor>& call, size_t i) {
    if constexpr (std::is_same_v<T, float>) return floats_of(call, i);
    const Tensor* tensor = call[i].get_if<Tensor>();
    return tensor != nullptr && tensor->dtype() == DTypeOf<T>::value ? std::optional(*tensor) : std::nullopt;
  }
  // Both values are read, so that the compiler can take vectors.
  template <int64_t kA, int64_t kB>
  static void select_dense(const bool* c, const T* a, const T* b, int64_t n, T* __restrict out) {
    for (int64_t i = 0; i < n; ++i) {
      const T x = a[kA * i], y = b[kB * i];
      out[i] = c[i] ? x : y;
    }
  }
  static void select(const bool* c, int64_t c_step, const T* a, int64_t a_step, const T* b, int64_t b_step, int64_t n,
                     T* out) {
    if (c_step == 1 && a_step == 1 && b_step == 1) return select_dense<1, 1>(c, a, b, n, out);
    if (c_step == 1 && a_step == 0 && b_step == 1) return select_dense<0, 1>(c, a, b, n, out);
    if (c_step == 1 && a_step == 1 && b_step == 0) return select_dense<1, 0>(c, a, b, n, out);
    for (int64_t i = 0; i < n; ++i) out[i] = c[i * c_step] ? a[i * a_step] : b[i * b_step];
  }

  size_t condition_, yes_, no_;
};
std::unique_ptr<CompiledOp> make_where(const Node&, bool) { return std::make_unique<WhereOp<float>>(0, 1, 2); }
std::unique_ptr<CompiledOp> make_where_of_int64(const Node&, bool) {
  return std::make_unique<WhereOp<int64_t>>(0, 1, 2);
}
std::unique_ptr<CompiledOp> make_masked_fill(const Node&, bool) { return std::make_unique<WhereOp<float>>(1, 2, 0); }
std::string masked_fill_obstacle(const Node& node) {
  if (op_of(node)->is_in_place()) return "it is in place";
  return elementwise_obstacle(node);
}

template <UnaryLoop loop> std::unique_ptr<CompiledOp> make_unary(const Node& node, bool) {
  return std::make_unique<UnaryOp>(loop, op_of(node)->is_in_place());
}
template <PairLoop loop, BinaryOp::Form form = BinaryOp::Form::kPlain>
std::unique_ptr<CompiledOp> make_binary(const Node& node, bool) {
  return std::make_unique<BinaryOp>(loop, form, op_of(node)->is_in_place());
}

template <PairLoop loop> std::unique_ptr<CompiledOp> make_add_product(const Node& node, bool) {
  return std::make_unique<AddProductOp>(loop, op_of(node)->is_in_place());
}
// div.Tensor_mode and div.Scalar_mode, whose results are float32 whatever the mode.
bool divides_by(const Node& node, const char* mode) {
  const Argument& given = argument_of(node, 2);
  return given.is<std::string>() && given.as<std::string>() == mode;
}
std::unique_ptr<CompiledOp> make_divide(const Node& node, bool) {
  const PairLoop loop = divides_by(node, "floor")   ? pairs<kernel::floor_quotient_f32>
                        : divides_by(node, "trunc") ? divide_trunc
                                                    : pairs<kernel::div_f32>;
  return std::make_unique<BinaryOp>(loop, BinaryOp::Form::kPlain, op_of(node)->is_in_place());
}
std::string divide_obstacle(const Node& node) {
  const bool is_known = argument_of(node, 2).is_none() || divides_by(node, "floor") || divides_by(node, "trunc");
  return is_known ? "" : "its rounding mode is neither floor nor trunc";
}

using Form = BinaryOp::Form;
constexpr SimdOp kElementwise[] = {
    {"aten.where.self", make_where, nullptr},
    {"aten.where.ScalarOther", make_where, nullptr},
    {"aten.where.ScalarSelf", make_where, nullptr},
    {"aten.masked_fill.Scalar", make_masked_fill, masked_fill_obstacle},
    {"aten.masked_fill.Tensor", make_masked_fill, masked_fill_obstacle},
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
    {"aten.expm1.default", make_unary<plain<kernel::expm1_f32>>, elementwise_obstacle},
    {"aten.log.default", make_unary<plain<kernel::log_f32>>, elementwise_obstacle},
    {"aten.log1p.default", make_unary<plain<kernel::log1p_f32>>, elementwise_obstacle},
    {"aten.erf.default", make_unary<plain<kernel::erf_f32>>, elementwise_obstacle},
    {"aten.sin.default", make_unary<plain<kernel::sin_f32>>, elementwise_obstacle},
    {"aten.cos.default", make_unary<plain<kernel::cos_f32>>, elementwise_obstacle},
    {"aten.tan.default", make_unary<plain<kernel::tan_f32>>, elementwise_obstacle},
    {"aten.asin.default", make_unary<plain<kernel::asin_f32>>, elementwise_obstacle},
    {"aten.acos.default", make_unary<plain<kernel::acos_f32>>, elementwise_obstacle},
    {"aten.atan.default", make_unary<plain<kernel::atan_f32>>, elementwise_obstacle},
    {"aten.atan2.default", make_binary<pairs<kernel::atan2_f32>>, nullptr},
    {"aten.erfc.default", make_unary<plain<kernel::erfc_f32>>, elementwise_obstacle},
    {"aten.sinh.default", make_unary<plain<kernel::sinh_f32>>, elementwise_obstacle},
    {"aten.cosh.default", make_unary<plain<kernel::cosh_f32>>, elementwise_obstacle},
    {"aten.asinh.default", make_unary<plain<kernel::asinh_f32>>, elementwise_obstacle},
    {"aten.acosh.default", make_unary<plain<kernel::acosh_f32>>, elementwise_obstacle},
    {"aten.atanh.default", make_unary<plain<kernel::atanh_f32>>, elementwise_obstacle},
    {"aten.sqrt.default", make_unary<plain<kernel::sqrt_f32>>, elementwise_obstacle},
    {"aten.rsqrt.default", make_unary<rsqrt>, elementwise_obstacle},
    {"aten.reciprocal.default", make_unary<plain<kernel::reciprocal_f32>>, elementwise_obstacle},
    {"aten.neg.default", make_unary<plain<kernel::neg_f32>>, elementwise_obstacle},
    {"aten.abs.default", make_unary<plain<kernel::abs_f32>>, elementwise_obstacle},
    {"aten.round.default", make_unary<plain<kernel::round_f32>>, elementwise_obstacle},
    {"aten.floor.default", make_unary<plain<kernel::floor_f32>>, elementwise_obstacle},
    {"aten.ceil.default", make_unary<plain<kernel::ceil_f32>>, elementwise_obstacle},
    {"aten.elu.default", make_unary<elu>, elementwise_obstacle},
    {"aten.selu.default", make_unary<selu>, elementwise_obstacle},
    {"aten.celu.default", make_unary<celu>, elementwise_obstacle},
    {"aten.mish.default", make_unary<plain<kernel::mish_f32>>, elementwise_obstacle},
    {"aten.softplus.default", make_unary<softplus>, elementwise_obstacle},
    {"aten.clamp.default", make_unary<clamp>, elementwise_obstacle},
    {"aten.clamp_min.default", make_unary<clamp_min>, elementwise_obstacle},
    {"aten.clamp_max.default", make_unary<clamp_max>, elementwise_obstacle},
    {"aten.pow.Tensor_Scalar", make_unary<power>, elementwise_obstacle},
    {"aten.exp2.default", make_unary<plain<kernel::exp2_f32>>, elementwise_obstacle},
    {"aten.log2.default", make_unary<plain<kernel::log2_f32>>, elementwise_obstacle},
    {"aten.log10.default", make_unary<plain<kernel::log10_f32>>, elementwise_obstacle},
    {"aten.trunc.default", make_unary<plain<kernel::trunc_f32>>, elementwise_obstacle},
    {"aten.sign.default", make_unary<plain<kernel::sign_f32>>, elementwise_obstacle},
    {"aten.square.default", make_unary<square>, elementwise_obstacle},
    {"aten.log_sigmoid.default", make_unary<log_sigmoid>, elementwise_obstacle},
    {"aten.lerp.Scalar", make_binary<lerp, Form::kAdd>, elementwise_obstacle},
    {"aten.threshold.default", make_unary<threshold>, elementwise_obstacle},
    {"aten.add.Tensor", make_binary<add_scaled, Form::kAdd>, nullptr},
    {"aten.add.Scalar", make_binary<add_scaled, Form::kAdd>, nullptr},
    {"aten.sub.Tensor", make_binary<add_scaled, Form::kSubtract>, nullptr},
    {"aten.sub.Scalar", make_binary<add_scaled, Form::kSubtract>, nullptr},
    {"aten.rsub.Tensor", make_binary<add_scaled, Form::kReverseSubtract>, nullptr},
    {"aten.rsub.Scalar", make_binary<add_scaled, Form::kReverseSubtract>, nullptr},
    {"aten.mul.Tensor", make_binary<pairs<kernel::mul_f32>>, nullptr},
    {"aten.mul.Scalar", make_binary<pairs<kernel::mul_f32>>, nullptr},
    {"aten.div.Tensor", make_binary<pairs<kernel::div_f32>>, nullptr},
    {"aten.div.Scalar", make_binary<pairs<kernel::div_f32>>, nullptr},
    {"aten.true_divide.Tensor", make_binary<pairs<kernel::div_f32>>, nullptr},
    {"aten.true_divide.Scalar", make_binary<pairs<kernel::div_f32>>, nullptr},
    {"aten.div.Tensor_mode", make_divide, divide_obstacle},
    {"aten.div.Scalar_mode", make_divide, divide_obstacle},
    {"aten.floor_divide.default", make_binary<pairs<kernel::floor_quotient_f32>>, nullptr},
    {"aten.floor_divide.Scalar", make_binary<pairs<kernel::floor_quotient_f32>>, nullptr},
    {"aten.remainder.Tensor", make_binary<pairs<kernel::floor_rest_f32>>, nullptr},
    {"aten.remainder.Scalar", make_binary<pairs<kernel::floor_rest_f32>>, nullptr},
    {"aten.remainder.Scalar_Tensor", make_binary<pairs<kernel::floor_rest_f32>>, nullptr},
    {"aten.fmod.Tensor", make_binary<pairs<kernel::rest_f32>>, nullptr},
    {"aten.fmod.Scalar", make_binary<pairs<kernel::rest_f32>>, nullptr},
    {"aten.addcmul.default", make_add_product<pairs<kernel::mul_f32>>, elementwise_obstacle},
    {"aten.addcdiv.default", make_add_product<pairs<kernel::div_f32>>, elementwise_obstacle},
    {"aten.max.other", make_binary<pairs<kernel::maximum_f32>>, nullptr},
    {"aten.min.other", make_binary<pairs<kernel::minimum_f32>>, nullptr},
    {"aten.maximum.default", make_binary<pairs<kernel::maximum_f32>>, nullptr},
    {"aten.minimum.default", make_binary<pairs<kernel::minimum_f32>>, nullptr},
    {"aten.pow.Tensor_Tensor", make_binary<pairs<kernel::pow_f32>>, nullptr},
    {"aten.prelu.default", make_binary<pairs<kernel::prelu_f32>, Form::kPrelu>, elementwise_obstacle},
};

constexpr SimdOp kOfInt64[] = {{"aten.where.self", make_where_of_int64, nullptr}};

}  // namespace

std::optional<Tensor> floats_of(const Call<Tensor>& call, size_t i) {
  if (const Tensor* tensor = call[i].get_if<Tensor>()) return is_f32(*tensor) ? std::optional(*tensor) : std::nullopt;
  return Tensor::scalar(static_cast<float>(call.number(i)));
}

std::span<const SimdOp> elementwise_simd_ops() { return kElementwise; }
std::span<const SimdOp> int64_simd_ops() { return kOfInt64; }

}  // namespace qdq
