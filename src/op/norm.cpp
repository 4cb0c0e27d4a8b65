// Normalisations. Statistics are summed in double in index order.
#include "op/elements.h"
#include "op/families.h"

namespace qdq {
namespace {

struct Moments {
  double mean = 0, variance = 0;  // variance: of the population
};
template <class C> Moments moments_of(const C* x, int64_t n) {
  Moments out;
  for (int64_t i = 0; i < n; ++i) out.mean += static_cast<double>(x[i]);
  out.mean /= static_cast<double>(n);
  for (int64_t i = 0; i < n; ++i) {
    const double distance = static_cast<double>(x[i]) - out.mean;
    out.variance += distance * distance;
  }
  out.variance /= static_cast<double>(n);
  return out;
}

// Where the schema keeps things; training -1: never.
struct BatchNormPlaces {
  int running_mean, running_var, training, momentum, eps;
};
constexpr BatchNormPlaces kBatchNorm{3, 4, 5, 6, 7};
constexpr BatchNormPlaces kNoTraining{3, 4, -1, 5, 6};
constexpr BatchNormPlaces kNoStats{-1, -1, 3, 4, 5};

template <class T> bool is_training(const Call<T>& call, const BatchNormPlaces& at) {
  return at.training >= 0 && call.boolean(static_cast<size_t>(at.training));
}

MetaValue infer_batch_norm_with(const Call<TensorMeta>& call, const BatchNormPlaces& at, bool has_saved) {
  const TensorMeta& x = call.tensor(0);
  QDQ_CHECK(x.sizes.size() >= 2, kInvalidArgument, call.op().target, " needs at least 2 dimensions, found shape ",
            to_string(x.sizes));
  for (int i : {1, 2, at.running_mean, at.running_var}) {
    if (i < 0 || call.is_none(static_cast<size_t>(i))) continue;
    const TensorMeta& vector = call.tensor(static_cast<size_t>(i));
    QDQ_CHECK(vector.sizes.size() == 1 && may_be_equal(vector.sizes[0], x.sizes[1]), kInvalidArgument, call.op().target,
              " on an input of shape ", to_string(x.sizes), " got '",
              call.op().schema->arguments[static_cast<size_t>(i)].name, "' of shape ", to_string(vector.sizes));
  }
  const bool training = is_training(call, at);
  QDQ_CHECK(training || (at.running_mean >= 0 && !call.is_none(static_cast<size_t>(at.running_mean)) &&
                         !call.is_none(static_cast<size_t>(at.running_var))),
            kInvalidArgument, call.op().target, " in evaluation mode needs running statistics");
  const TensorMeta out = tensor_meta(x.dtype, x.sizes);
  if (!has_saved) return out;
  const DType saved = x.dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  const TensorMeta stats = tensor_meta(saved, training ? SymShape{x.sizes[1]} : SymShape{SymInt(0)});
  return MetaValue::List{out, stats, stats};
}

// ATen/native/cpu/batch_norm_kernel.cpp: x * alpha + beta with alpha = weight / sqrt(var + eps), beta = bias - mean *
// alpha, all in the tensor's dtype.
template <class C> Tensor scale_channels(const Tensor& x, const std::vector<C>& alpha, const std::vector<C>& beta) {
  const Tensor in = x.contiguous(), out = Tensor::empty(x.sizes(), DTypeOf<C>::value);
  const int64_t channels = x.size(1), inner = numel_of(Shape(x.sizes().begin() + 2, x.sizes().end()));
  const C* from = in.data<C>();
  C* to = out.data<C>();
  for (int64_t plane = 0; plane < x.size(0) * channels; ++plane, from += inner, to += inner) {
    const C a = alpha[static_cast<size_t>(plane % channels)], b = beta[static_cast<size_t>(plane % channels)];
    for (int64_t i = 0; i < inner; ++i) to[i] = from[i] * a + b;
  }
  return out;
}

// The i-th argument as numbers, or `otherwise` for every channel.
template <class C> std::vector<C> channel_values(const Call<Tensor>& call, int i, int64_t channels, C otherwise) {
  if (i < 0 || call.is_none(static_cast<size_t>(i))) return std::vector<C>(static_cast<size_t>(channels), otherwise);
  const Tensor values = call.tensor(static_cast<size_t>(i)).to(DTypeOf<C>::value).contiguous();
  return std::vector<C>(values.data<C>(), values.data<C>() + values.numel());
}

// running = (1 - momentum) running + momentum current, in place.
template <class C>
void update_running(const Call<Tensor>& call, int i, const std::vector<double>& current, double momentum) {
  if (i < 0 || call.is_none(static_cast<size_t>(i))) return;
  std::vector<C> values = channel_values<C>(call, i, static_cast<int64_t>(current.size()), C(0));
  for (size_t c = 0; c < values.size(); ++c)
    values[c] = static_cast<C>((1 - momentum) * static_cast<double>(values[c]) + momentum * current[c]);
  call.tensor(static_cast<size_t>(i)).copy_from(Tensor::of<C>({static_cast<int64_t>(values.size())}, values));
}

Value eval_batch_norm_with(const Call<Tensor>& call, const BatchNormPlaces& at, bool has_saved) {
  infer_call(call);
  const Tensor& x = call.tensor(0);
  const int64_t channels = x.size(1);
  return visit_float(x.dtype(), call.op().target, [&](auto type) -> Value {
    using C = typename decltype(type)::type;
    const Tensor in = x.to(DTypeOf<C>::value);
    const double eps = call.number(static_cast<size_t>(at.eps));
    std::vector<C> mean = channel_values<C>(call, at.running_mean, channels, C(0)),
                   var = channel_values<C>(call, at.running_var, channels, C(1));
    std::vector<C> rstd(mean.size());
    const bool training = is_training(call, at);
    if (training) {
      std::vector<size_t> others{0};
      for (size_t a = 2; a < x.sizes().size(); ++a) others.push_back(a);
      const Rows rows = rows_along(in, others);
      std::vector<double> means, unbiased;
      for (int64_t c = 0; c < channels; ++c) {
        const Moments m = moments_of(rows.data.data<C>() + c * rows.inner, rows.inner);
        mean[static_cast<size_t>(c)] = static_cast<C>(m.mean);
        var[static_cast<size_t>(c)] = static_cast<C>(m.variance);
        rstd[static_cast<size_t>(c)] = static_cast<C>(1 / std::sqrt(m.variance + eps));
        means.push_back(m.mean);
        unbiased.push_back(m.variance * static_cast<double>(rows.inner) / static_cast<double>(rows.inner - 1));
      }
      const double momentum = call.number(static_cast<size_t>(at.momentum));
      update_running<C>(call, at.running_mean, means, momentum);
      update_running<C>(call, at.running_var, unbiased, momentum);
    } else {
      for (size_t c = 0; c < rstd.size(); ++c) rstd[c] = C(1) / std::sqrt(var[c] + static_cast<C>(eps));
    }
    std::vector<C> alpha = channel_values<C>(call, 1, channels, C(1)),
                   beta = channel_values<C>(call, 2, channels, C(0));
    for (size_t c = 0; c < alpha.size(); ++c) {
      alpha[c] = rstd[c] * alpha[c];
      beta[c] = beta[c] - mean[c] * alpha[c];
    }
    const Tensor out = scale_channels<C>(in, alpha, beta).to(x.dtype());
    if (!has_saved) return out;
    if (!training)
      return Value::List{out, Tensor::empty({0}, DTypeOf<C>::value), Tensor::empty({0}, DTypeOf<C>::value)};
    return Value::List{out, Tensor::of<C>({channels}, mean), Tensor::of<C>({channels}, rstd)};
  });
}

template <const BatchNormPlaces& places, bool has_saved> MetaValue infer_batch_norm(const Call<TensorMeta>& call) {
  return infer_batch_norm_with(call, places, has_saved);
}
template <const BatchNormPlaces& places, bool has_saved> Value eval_batch_norm(const Call<Tensor>& call) {
  return eval_batch_norm_with(call, places, has_saved);
}

// Normalises runs of `length` elements, of which there are `groups` in a row: element i of a run has the weight
// weight[run % groups * per_group + i / inner]. Everything is computed in double and rounded once.
struct Runs {
  int64_t count, length, groups, per_group, inner;
};
Value normalize_runs(const Tensor& x, const Runs& runs, double eps, const Tensor* weight, const Tensor* bias,
                     const Shape* stats) {
  const DType wide = DType::kF64;
  const Tensor in = x.to(wide).contiguous(), out = Tensor::empty(x.sizes(), wide);
  const Tensor means = Tensor::empty({runs.count}, wide), rstds = Tensor::empty({runs.count}, wide);
  const Tensor gamma = weight ? weight->to(wide).contiguous() : Tensor(),
               beta = bias ? bias->to(wide).contiguous() : Tensor();
  for (int64_t r = 0; r < runs.count; ++r) {
    const double* from = in.data<double>() + r * runs.length;
    const Moments m = moments_of(from, runs.length);
    const double rstd = 1 / std::sqrt(m.variance + eps);
    means.data<double>()[r] = m.mean;
    rstds.data<double>()[r] = rstd;
    for (int64_t i = 0; i < runs.length; ++i) {
      const int64_t at = r % runs.groups * runs.per_group + i / runs.inner;
      double value = (from[i] - m.mean) * rstd;
      if (weight) value *= gamma.data<double>()[at];
      if (bias) value += beta.data<double>()[at];
      out.data<double>()[r * runs.length + i] = value;
    }
  }
  if (stats == nullptr) return out.to(x.dtype());
  return Value::List{out.to(x.dtype()), means.reshape(*stats).to(x.dtype()), rstds.reshape(*stats).to(x.dtype())};
}

// Layer norm over the last axes, which normalized_shape repeats.
template <bool has_stats> MetaValue infer_layer_norm(const Call<TensorMeta>& call) {
  const TensorMeta& x = call.tensor(0);
  const SymShape shape = call.syms(1);
  bool fits = !shape.empty() && shape.size() <= x.sizes.size();
  for (size_t a = 0; fits && a < shape.size(); ++a)
    fits = may_be_equal(shape[a], x.sizes[x.sizes.size() - shape.size() + a]);
  QDQ_CHECK(fits, kInvalidArgument, call.op().target, " over shape ", to_string(shape),
            " does not fit an input of shape ", to_string(x.sizes));
  for (size_t i : {size_t{2}, size_t{3}}) {
    if (call.op().schema->arguments[i].type != "Tensor") continue;
    if (const TensorMeta* parameter = call.optional_tensor(i))
      QDQ_CHECK(parameter->sizes.size() == shape.size() && may_be_equal(numel_of(parameter->sizes), numel_of(shape)),
                kInvalidArgument, call.op().target, " over shape ", to_string(shape), " got '",
                call.op().schema->arguments[i].name, "' of shape ", to_string(parameter->sizes));
  }
  const TensorMeta out = tensor_meta(x.dtype, x.sizes);
  if (!has_stats) return out;
  SymShape stats = x.sizes;
  std::fill(stats.end() - static_cast<int64_t>(shape.size()), stats.end(), SymInt(1));
  return MetaValue::List{out, tensor_meta(x.dtype, stats), tensor_meta(x.dtype, stats)};
}
template <bool has_stats> Value eval_layer_norm(const Call<Tensor>& call) {
  infer_call(call);
  const Tensor& x = call.tensor(0);
  const Shape shape = call.integers(1);
  const int64_t length = numel_of(shape), runs = length == 0 ? 0 : x.numel() / length;
  Shape stats = x.sizes();
  std::fill(stats.end() - static_cast<int64_t>(shape.size()), stats.end(), 1);
  check_float(x.dtype(), call.op().target);
  return normalize_runs(x, {runs, length, 1, length, 1}, call.number(4), call.optional_tensor(2),
                        call.optional_tensor(3), has_stats ? &stats : nullptr);
}

Value eval_rms_norm(const Call<Tensor>& call) {
  infer_call(call);
  const Tensor& x = call.tensor(0);
  const int64_t length = numel_of(call.integers(1)), runs = length == 0 ? 0 : x.numel() / length;
  check_float(x.dtype(), call.op().target);
  const double eps = call.is_none(3) ? rms_norm_eps(x.dtype()) : call.number(3);
  const Tensor in = x.to(DType::kF64).contiguous(), out = Tensor::empty(x.sizes(), DType::kF64);
  const Tensor weight = call.is_none(2) ? Tensor() : call.tensor(2).to(DType::kF64).contiguous();
  for (int64_t r = 0; r < runs; ++r) {
    const double* from = in.data<double>() + r * length;
    double squares = 0;
    for (int64_t i = 0; i < length; ++i) squares += from[i] * from[i];
    const double rstd = 1 / std::sqrt(squares / static_cast<double>(length) + eps);
    for (int64_t i = 0; i < length; ++i)
      out.data<double>()[r * length + i] = from[i] * rstd * (weight.defined() ? weight.data<double>()[i] : 1);
  }
  return out.to(x.dtype());
}

// Groups of channels of x [N, C, ...].
void check_groups(const OpDef& op, const SymShape& sizes, int64_t groups) {
  QDQ_CHECK(sizes.size() >= 2 && groups >= 1 &&
                (!sizes[1].is_constant() ||
                 (groups <= std::max<int64_t>(*sizes[1].constant(), 1) && *sizes[1].constant() % groups == 0)),
            kInvalidArgument, op.target, " cannot split an input of shape ", to_string(sizes), " into ", groups,
            " groups of channels");
}
MetaValue infer_group_norm(const Call<TensorMeta>& call) {
  check_groups(call.op(), call.tensor(0).sizes, call.integer(1));
  return infer_like_self(call);
}
MetaValue infer_native_group_norm(const Call<TensorMeta>& call) {
  const TensorMeta& x = call.tensor(0);
  check_groups(call.op(), x.sizes, call.integer(6));
  const TensorMeta stats = tensor_meta(x.dtype, {x.sizes[0], SymInt(call.integer(6))});
  return MetaValue::List{infer_like_self(call), stats, stats};
}
Value group_norm(const Call<Tensor>& call, int64_t groups, const Tensor* weight, const Tensor* bias, double eps,
                 bool has_stats) {
  const Tensor& x = call.tensor(0);
  check_groups(call.op(), meta_of(x).sizes, groups);
  const int64_t channels = x.size(1), inner = numel_of(Shape(x.sizes().begin() + 2, x.sizes().end())),
                per_group = channels / groups;
  for (const Tensor* parameter : {weight, bias})
    QDQ_CHECK(parameter == nullptr || parameter->numel() == channels, kInvalidArgument, call.op().target, " needs ",
              channels, " numbers as weight and bias, found ", parameter->numel());
  const Shape stats{x.size(0), groups};
  check_float(x.dtype(), call.op().target);
  return normalize_runs(x, {x.size(0) * groups, per_group * inner, groups, per_group, inner}, eps, weight, bias,
                        has_stats ? &stats : nullptr);
}
Value eval_group_norm(const Call<Tensor>& call) {
  return group_norm(call, call.integer(1), call.optional_tensor(2), call.optional_tensor(3), call.number(4), false);
}
Value eval_native_group_norm(const Call<Tensor>& call) {
  return group_norm(call, call.integer(6), call.optional_tensor(1), call.optional_tensor(2), call.number(7), true);
}
// With running statistics it is a batch norm; without, every channel of every sample is its own group.
constexpr BatchNormPlaces kInstanceNorm{3, 4, -1, 6, 7};
MetaValue infer_instance_norm(const Call<TensorMeta>& call) {
  if (!call.boolean(5)) return infer_batch_norm_with(call, kInstanceNorm, false);
  const SymShape& sizes = call.tensor(0).sizes;
  QDQ_CHECK(sizes.size() >= 2, kInvalidArgument, call.op().target, " needs at least 2 dimensions, found shape ",
            to_string(sizes));
  return infer_like_self(call);
}
Value eval_instance_norm(const Call<Tensor>& call) {
  infer_call(call);
  if (!call.boolean(5)) return eval_batch_norm_with(call, kInstanceNorm, false);
  QDQ_CHECK(call.is_none(3), kUnsupported, call.op().target,
            " that updates running statistics is not there: export the model in evaluation mode");
  return group_norm(call, call.tensor(0).size(1), call.optional_tensor(1), call.optional_tensor(2), call.number(7),
                    false);
}

}  // namespace

void add_norm_ops(std::vector<OpDef>& ops) {
  const Roles affine{.activation = 0, .weight = 1, .bias = 2};
  const auto add = [&](const char* line, Infer infer, Eval eval, const Roles& roles) {
    const bool is_batch_norm = std::string_view(line).find("batch_norm") != std::string_view::npos;
    ops.push_back(define(line, infer, eval, roles, is_batch_norm ? Family::kBatchNorm : Family::kNorm));
  };
  add("aten::batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool "
      "training, float momentum, float "
      "eps, bool cudnn_enabled) -> Tensor",
      infer_batch_norm<kBatchNorm, false>, eval_batch_norm<kBatchNorm, false>, affine);
  add("aten::native_batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, "
      "bool training, float momentum, "
      "float eps) -> (Tensor, Tensor, Tensor)",
      infer_batch_norm<kBatchNorm, true>, eval_batch_norm<kBatchNorm, true>, affine);
  add("aten::_native_batch_norm_legit(Tensor input, Tensor? weight, Tensor? bias, Tensor(a!) running_mean, Tensor(b!) "
      "running_var, bool training, "
      "float momentum, float eps) -> (Tensor, Tensor, Tensor)",
      infer_batch_norm<kBatchNorm, true>, eval_batch_norm<kBatchNorm, true>, affine);
  add("aten::_native_batch_norm_legit.no_stats(Tensor input, Tensor? weight, Tensor? bias, bool training, float "
      "momentum, float eps) -> (Tensor, "
      "Tensor, Tensor)",
      infer_batch_norm<kNoStats, true>, eval_batch_norm<kNoStats, true>, affine);
  add("aten::_native_batch_norm_legit_no_training(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, "
      "Tensor running_var, float "
      "momentum, float eps) -> (Tensor, Tensor, Tensor)",
      infer_batch_norm<kNoTraining, true>, eval_batch_norm<kNoTraining, true>, affine);
  add("aten::instance_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool "
      "use_input_stats, float "
      "momentum, float eps, bool cudnn_enabled) -> Tensor",
      infer_instance_norm, eval_instance_norm, affine);
  add("aten::layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, Tensor? bias=None, float "
      "eps=1.0000000000000001e-05, bool "
      "cudnn_enable=True) -> Tensor",
      infer_layer_norm<false>, eval_layer_norm<false>, Roles{.activation = 0, .weight = 2, .bias = 3});
  add("aten::native_layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight, Tensor? bias, float eps) -> "
      "(Tensor, Tensor, Tensor)",
      infer_layer_norm<true>, eval_layer_norm<true>, Roles{.activation = 0, .weight = 2, .bias = 3});
  add("aten::rms_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, float? eps=None) -> Tensor",
      infer_layer_norm<false>, eval_rms_norm, Roles{.activation = 0, .weight = 2});
  add("aten::group_norm(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, float "
      "eps=1.0000000000000001e-05, bool "
      "cudnn_enabled=True) -> Tensor",
      infer_group_norm, eval_group_norm, Roles{.activation = 0, .weight = 2, .bias = 3});
  add("aten::native_group_norm(Tensor input, Tensor? weight, Tensor? bias, SymInt N, SymInt C, SymInt HxW, int group, "
      "float eps) -> (Tensor, Tensor, "
      "Tensor)",
      infer_native_group_norm, eval_native_group_norm, affine);
}

double rms_norm_eps(DType dtype) { return dtype == DType::kF64 ? 0x1p-52 : 0x1p-23; }

}  // namespace qdq
