// Reductions along axes, softmax, sums up to each element. Sums run in index order in double (integers: 64 bits) and
// are rounded once.
#include <algorithm>
#include <numeric>

#include "op/elements.h"
#include "op/families.h"
#include "op/math.h"

namespace qdq {
namespace {

template <class T> bool keeps_axes(const Call<T>& call) {
  const std::optional<size_t> i = place_of(call, "keepdim");
  return i && call.boolean(*i);
}
template <class T> std::vector<size_t> reduced_axes(const Call<T>& call, size_t rank) {
  const std::optional<size_t> i = place_of(call, "dim");
  if (i) return axes_of(call, *i, rank);
  std::vector<size_t> all(rank);
  std::iota(all.begin(), all.end(), size_t{0});
  return all;
}

TensorMeta reduced_meta(const Call<TensorMeta>& call, DType dtype) {
  const TensorMeta& x = call.tensor(0);
  const std::vector<size_t> axes = reduced_axes(call, x.sizes.size());
  SymShape sizes;
  for (size_t a = 0; a < x.sizes.size(); ++a) {
    if (std::find(axes.begin(), axes.end(), a) == axes.end()) sizes.push_back(x.sizes[a]);
    else if (keeps_axes(call)) sizes.push_back(SymInt(1));
  }
  return tensor_meta(dtype, sizes);
}

// row(const C* x, int64_t n) -> C for every row along the reduced axes, C being double or int64_t; `in` is the dtype to
// compute in. As rows are summed in double or 64 bits and rounded once, the loops are compiled for these two alone.
template <class C, class F> void reduce_row(const void* f, Elements x, Elements, std::byte* out, int64_t n) {
  *reinterpret_cast<C*>(out) = (*static_cast<const F*>(f))(reinterpret_cast<const C*>(x.data), n);
}
Tensor run_reduction(const Call<Tensor>& call, DType in, const TensorMeta& meta, const void* f, const Loops& loops) {
  const Tensor& x = call.tensor(0);
  const DType wide = wide_dtype(in);
  const Rows rows = rows_along(x.to(in).to(wide), reduced_axes(call, x.sizes().size()));
  const Tensor out = Tensor::empty(constant_shape(meta.sizes), wide);
  const auto bytes = static_cast<int64_t>(size_of(wide));
  for (int64_t r = 0; r < rows.outer; ++r)
    (wide == DType::kF64 ? loops.f64 : loops.s64)(f, {rows.data.raw() + r * rows.inner * bytes, 1}, {},
                                                  out.raw() + r * bytes, rows.inner);
  return out.to(meta.dtype);
}
template <class F> Tensor reduce(const Call<Tensor>& call, DType in, const TensorMeta& meta, const F& row) {
  return run_reduction(call, in, meta, &row, {nullptr, reduce_row<double, F>, reduce_row<int64_t, F>});
}

// sum, mean, prod: integers become s64 (mean: refused) unless a dtype is given.
template <class T> DType sum_dtype(const Call<T>& call, DType self) {
  const std::optional<size_t> i = place_of(call, "dtype");
  return i ? call.dtype(*i, is_floating(self) ? self : DType::kS64) : is_floating(self) ? self : DType::kS64;
}
MetaValue infer_sum(const Call<TensorMeta>& call) { return reduced_meta(call, sum_dtype(call, call.tensor(0).dtype)); }
MetaValue infer_mean(const Call<TensorMeta>& call) {
  const DType dtype = sum_dtype(call, call.tensor(0).dtype);
  QDQ_CHECK(is_floating(dtype), kInvalidArgument, call.op().target, " needs a float tensor, found ",
            to_string(call.tensor(0).dtype));
  return reduced_meta(call, dtype);
}
template <class C> Accumulator<C> sum_of(const C* x, int64_t n) {
  Accumulator<C> sum = 0;
  for (int64_t i = 0; i < n; ++i) sum = add_wrapping(sum, static_cast<Accumulator<C>>(x[i]));
  return sum;
}
struct SumOf {
  template <class C> C operator()(const C* x, int64_t n) const { return static_cast<C>(sum_of(x, n)); }
};
struct MeanOf {
  template <class C> C operator()(const C* x, int64_t n) const {
    return static_cast<C>(sum_of(x, n) / static_cast<Accumulator<C>>(n));
  }
};
struct ProductOf {
  template <class C> C operator()(const C* x, int64_t n) const {
    Accumulator<C> product = 1;
    for (int64_t i = 0; i < n; ++i) product = mul_wrapping(product, static_cast<Accumulator<C>>(x[i]));
    return static_cast<C>(product);
  }
};
template <class F> Value eval_sum(const Call<Tensor>& call) {
  const TensorMeta meta = result_meta(call);
  return reduce(call, meta.dtype, meta, F{});
}

// Largest and smallest element; NaN wins, and of equal ones the first.
template <bool largest, class C> int64_t extreme_index(const C* x, int64_t n) {
  int64_t best = 0;
  for (int64_t i = 1; i < n; ++i) {
    if (x[best] != x[best]) break;
    if (x[i] != x[i] || (largest ? x[i] > x[best] : x[i] < x[best])) best = i;
  }
  return best;
}
// An axis that is kept may be empty, and so is the result then.
void check_not_empty(const Call<TensorMeta>& call) {
  const SymShape& sizes = call.tensor(0).sizes;
  for (const size_t axis : reduced_axes(call, sizes.size()))
    QDQ_CHECK(axis >= sizes.size() || !(sizes[axis] == SymInt(0)), kInvalidArgument, call.op().target,
              " has no result for an input of shape ", to_string(sizes));
}
MetaValue infer_extreme(const Call<TensorMeta>& call) {
  check_not_empty(call);
  return reduced_meta(call, call.tensor(0).dtype);
}
template <bool largest> Value eval_extreme(const Call<Tensor>& call) {
  const TensorMeta meta = result_meta(call);
  return reduce(call, meta.dtype, meta, [](const auto* x, int64_t n) { return x[extreme_index<largest>(x, n)]; });
}
MetaValue infer_arg_extreme(const Call<TensorMeta>& call) {
  check_not_empty(call);
  return reduced_meta(call, DType::kS64);
}
// The place of the extreme of every row, in the order of the rows.
template <bool largest> std::vector<int64_t> extreme_places(const Rows& rows) {
  std::vector<int64_t> places(static_cast<size_t>(rows.outer));
  visit_wide(rows.data.dtype(), [&](auto type) {
    using C = typename decltype(type)::type;
    const C* row = rows.data.data<C>();
    for (size_t r = 0; r < places.size(); ++r, row += rows.inner) places[r] = extreme_index<largest>(row, rows.inner);
  });
  return places;
}
template <bool largest> Value eval_arg_extreme(const Call<Tensor>& call) {
  const Tensor& x = call.tensor(0);
  const Tensor out = empty_result(call);
  const std::vector<int64_t> places =
      extreme_places<largest>(rows_along(x.to(wide_dtype(x.dtype())), reduced_axes(call, x.sizes().size())));
  std::copy(places.begin(), places.end(), out.data<int64_t>());
  return out;
}
// max.dim: (values, indices).
MetaValue infer_extreme_dim(const Call<TensorMeta>& call) {
  check_not_empty(call);
  return MetaValue::List{reduced_meta(call, call.tensor(0).dtype), reduced_meta(call, DType::kS64)};
}
template <bool largest> Value eval_extreme_dim(const Call<Tensor>& call) {
  const Tensor& x = call.tensor(0);
  const MetaValue meta = infer_call(call);
  const Shape sizes = constant_shape(meta.get_if<MetaValue::List>()->at(0).get_if<TensorMeta>()->sizes);
  const Rows rows = rows_along(x.to(wide_dtype(x.dtype())), reduced_axes(call, x.sizes().size()));
  const Tensor values = Tensor::empty(sizes, rows.data.dtype()), indices = Tensor::empty(sizes, DType::kS64);
  const std::vector<int64_t> places = extreme_places<largest>(rows);
  std::copy(places.begin(), places.end(), indices.data<int64_t>());
  const Tensor flat = rows.data.reshape({rows.outer, rows.inner}), out = values.reshape({rows.outer});
  for (int64_t r = 0; r < rows.outer; ++r)
    out.select(0, r).copy_from(flat.select(0, r).select(0, places[static_cast<size_t>(r)]));
  return Value::List{values.to(x.dtype()), indices};
}

MetaValue infer_bool(const Call<TensorMeta>& call) {
  return reduced_meta(call, call.tensor(0).dtype == DType::kU8 ? DType::kU8 : DType::kBool);
}
template <bool all> Value eval_bool(const Call<Tensor>& call) {
  const TensorMeta meta = result_meta(call);
  const auto row = [](const auto* x, int64_t n) {
    for (int64_t i = 0; i < n; ++i)
      if ((x[i] != 0) != all) return std::decay_t<decltype(*x)>(!all);
    return std::decay_t<decltype(*x)>(all);
  };
  return reduce(call, call.tensor(0).dtype(), meta, row);
}

// Sums that leave NaN out; the mean is over what is left.
template <bool mean> Value eval_nan_sum(const Call<Tensor>& call) {
  const TensorMeta meta = result_meta(call);
  return reduce(call, meta.dtype, meta, [](const auto* x, int64_t n) {
    using C = std::decay_t<decltype(*x)>;
    C sum = 0;
    int64_t count = 0;
    for (int64_t i = 0; i < n; ++i)
      if (x[i] == x[i]) sum = add_wrapping(sum, x[i]), ++count;
    if constexpr (mean && !std::is_integral_v<C>) return sum / static_cast<C>(count);
    else return sum;
  });
}
MetaValue infer_count_nonzero(const Call<TensorMeta>& call) { return reduced_meta(call, DType::kS64); }
Value eval_count_nonzero(const Call<Tensor>& call) {
  return reduce(call, call.tensor(0).dtype(), result_meta(call), [](const auto* x, int64_t n) {
    return static_cast<std::decay_t<decltype(*x)>>(n - std::count(x, x + n, std::decay_t<decltype(*x)>(0)));
  });
}
MetaValue infer_extremes(const Call<TensorMeta>& call) {
  const MetaValue one = infer_extreme(call);
  return MetaValue::List{one, one};
}
Value eval_extremes(const Call<Tensor>& call) {
  const MetaValue metas = infer_call(call);
  const TensorMeta& meta = *metas.get_if<MetaValue::List>()->at(0).get_if<TensorMeta>();
  const auto least = [](const auto* x, int64_t n) { return x[extreme_index<false>(x, n)]; };
  const auto most = [](const auto* x, int64_t n) { return x[extreme_index<true>(x, n)]; };
  return Value::List{reduce(call, meta.dtype, meta, least), reduce(call, meta.dtype, meta, most)};
}

// Sum of squared distances from the mean / max(n - correction, 0).
template <class C> double variance_of(const C* x, int64_t n, double correction) {
  const double mean = static_cast<double>(sum_of(x, n)) / static_cast<double>(n);
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double distance = static_cast<double>(x[i]) - mean;
    sum += distance * distance;
  }
  return sum / std::max(static_cast<double>(n) - correction, 0.0);
}
MetaValue infer_float_reduction(const Call<TensorMeta>& call) {
  QDQ_CHECK(is_floating(call.tensor(0).dtype), kInvalidArgument, call.op().target, " needs a float tensor, found ",
            to_string(call.tensor(0).dtype));
  return reduced_meta(call, call.tensor(0).dtype);
}
template <bool takes_root> Value eval_var(const Call<Tensor>& call) {
  const TensorMeta meta = result_meta(call);
  const double correction = correction_of(call);
  return reduce(call, meta.dtype, meta, [&](const auto* x, int64_t n) {
    const double variance = variance_of(x, n, correction);
    return static_cast<std::decay_t<decltype(*x)>>(takes_root ? std::sqrt(variance) : variance);
  });
}
MetaValue infer_var_mean(const Call<TensorMeta>& call) {
  const MetaValue one = infer_float_reduction(call);
  return MetaValue::List{one, one};
}
template <bool takes_root> Value eval_var_mean(const Call<Tensor>& call) {
  const MetaValue meta = infer_call(call);
  const TensorMeta& one = *meta.get_if<MetaValue::List>()->at(0).get_if<TensorMeta>();
  const double correction = correction_of(call);
  const Tensor variance = reduce(call, one.dtype, one, [&](const auto* x, int64_t n) {
    const double variance = variance_of(x, n, correction);
    return static_cast<std::decay_t<decltype(*x)>>(takes_root ? std::sqrt(variance) : variance);
  });
  return Value::List{variance, reduce(call, one.dtype, one, MeanOf{})};
}

template <class C> C norm_of(const C* x, int64_t n, double p) {
  double out = p == -std::numeric_limits<double>::infinity() ? -p : 0;
  for (int64_t i = 0; i < n; ++i) {
    const double magnitude = std::fabs(static_cast<double>(x[i]));
    if (std::isinf(p))
      out = magnitude != magnitude || out != out ? NAN : p > 0 ? std::max(out, magnitude) : std::min(out, magnitude);
    else if (p == 0) out += magnitude != 0;
    else if (p == 1) out += magnitude;
    else out += p == 2 ? magnitude * magnitude : math::pow(magnitude, p);
  }
  if (std::isinf(p) || p == 0 || p == 1) return static_cast<C>(out);
  return static_cast<C>(p == 2 ? std::sqrt(out) : math::pow(out, 1 / p));
}
}  // namespace

double p_norm(const double* x, int64_t n, double p) { return norm_of(x, n, p); }

namespace {

MetaValue infer_norm(const Call<TensorMeta>& call) {
  const DType dtype = sum_dtype(call, call.tensor(0).dtype);
  QDQ_CHECK(is_floating(dtype), kInvalidArgument, call.op().target, " needs a float tensor, found ",
            to_string(call.tensor(0).dtype));
  return reduced_meta(call, dtype);
}
Value eval_norm(const Call<Tensor>& call) {
  const TensorMeta meta = result_meta(call);
  const double p = call.is_none(1) ? 2 : call.number(1);
  return reduce(call, meta.dtype, meta, [&](const auto* x, int64_t n) { return norm_of(x, n, p); });
}

Value eval_logsumexp(const Call<Tensor>& call) {
  const TensorMeta meta = result_meta(call);
  return reduce(call, meta.dtype, meta, [](const auto* x, int64_t n) {
    using C = std::decay_t<decltype(*x)>;
    const double largest = n == 0 ? 0 : static_cast<double>(x[extreme_index<true>(x, n)]);
    const double shift = std::isinf(largest) ? 0 : largest;
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += math::exp(static_cast<double>(x[i]) - shift);
    return static_cast<C>(math::log(sum) + shift);
  });
}

// row(const C* x, C* out, int64_t n) for every row along one axis, C being double or, unless only_floats, int64_t; the
// result has the input's shape. It is rounded once, to the dtype that is also that of the input's elements.
template <class C, class F> void rewrite_row(const void* f, Elements x, Elements, std::byte* out, int64_t n) {
  (*static_cast<const F*>(f))(reinterpret_cast<const C*>(x.data), reinterpret_cast<C*>(out), n);
}
Tensor run_along_axis(const Tensor& x, int64_t axis, DType dtype, const void* f, const Loops& loops) {
  const DType wide = wide_dtype(dtype);
  const Tensor in = (x.dim() == 0 ? x.reshape({1}) : x).to(dtype).to(wide);
  const Tensor last = in.transpose(axis, -1).contiguous(), out = Tensor::empty(last.sizes(), wide);
  const int64_t n = last.size(-1), bytes = static_cast<int64_t>(size_of(wide));
  for (int64_t i = 0; n > 0 && i < last.numel(); i += n)
    (wide == DType::kF64 ? loops.f64 : loops.s64)(f, {last.raw() + i * bytes, 1}, {}, out.raw() + i * bytes, n);
  return out.transpose(axis, -1).contiguous().reshape(x.sizes()).to(dtype);
}
template <bool only_floats = false, class F>
Tensor along_axis(const Tensor& x, int64_t axis, DType dtype, const F& row) {
  if constexpr (only_floats) return run_along_axis(x, axis, dtype, &row, {nullptr, rewrite_row<double, F>, nullptr});
  else return run_along_axis(x, axis, dtype, &row, {nullptr, rewrite_row<double, F>, rewrite_row<int64_t, F>});
}

// exp(x - max) / sum; its logarithm is (x - max) - log(sum). A row of -inf gives NaN, safe_softmax gives 0 there.
enum class Softmax { kPlain, kLog, kSafe };
MetaValue infer_softmax(const Call<TensorMeta>& call) {
  const DType dtype =
      call.op().schema->arguments[2].type == "ScalarType" ? call.dtype(2, call.tensor(0).dtype) : call.tensor(0).dtype;
  QDQ_CHECK(is_floating(dtype), kInvalidArgument, call.op().target, " needs a float tensor, found ", to_string(dtype));
  axis_or_scalar(call, 1, call.tensor(0).sizes.size());
  return tensor_meta(dtype, call.tensor(0).sizes);
}
template <Softmax kind> void softmax_row(const double* x, double* out, int64_t n) {
  const double largest = x[extreme_index<true>(x, n)];
  if (kind == Softmax::kSafe && std::isinf(largest) && largest < 0) {
    std::fill_n(out, n, 0.0);
    return;
  }
  std::vector<double> powers(static_cast<size_t>(n));
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    powers[static_cast<size_t>(i)] = math::exp(x[i] - largest);
    sum += powers[static_cast<size_t>(i)];
  }
  const double log_sum = kind == Softmax::kLog ? math::log(sum) : 0;
  for (int64_t i = 0; i < n; ++i)
    out[i] = kind == Softmax::kLog ? x[i] - largest - log_sum : powers[static_cast<size_t>(i)] / sum;
}
template <Softmax kind> Value eval_softmax(const Call<Tensor>& call) {
  return along_axis<true>(call.tensor(0), call.integer(1), result_meta(call).dtype,
                          [](const double* x, double* out, int64_t n) { softmax_row<kind>(x, out, n); });
}

MetaValue infer_cumsum(const Call<TensorMeta>& call) {
  axis_or_scalar(call, 1, call.tensor(0).sizes.size());
  return tensor_meta(sum_dtype(call, call.tensor(0).dtype), call.tensor(0).sizes);
}
Value eval_cumsum(const Call<Tensor>& call) {
  return along_axis(call.tensor(0), call.integer(1), result_meta(call).dtype, [](const auto* x, auto* out, int64_t n) {
    using C = std::decay_t<decltype(*x)>;
    Accumulator<C> sum = 0;
    for (int64_t i = 0; i < n; ++i) out[i] = static_cast<C>(sum = add_wrapping(sum, static_cast<Accumulator<C>>(x[i])));
  });
}

Value eval_cumprod(const Call<Tensor>& call) {
  return along_axis(call.tensor(0), call.integer(1), result_meta(call).dtype, [](const auto* x, auto* out, int64_t n) {
    std::decay_t<decltype(*x)> product = 1;
    for (int64_t i = 0; i < n; ++i) out[i] = product = mul_wrapping(product, x[i]);
  });
}
MetaValue infer_logcumsumexp(const Call<TensorMeta>& call) {
  QDQ_CHECK(is_floating(call.tensor(0).dtype), kInvalidArgument, call.op().target, " needs a float tensor, found ",
            to_string(call.tensor(0).dtype));
  return infer_cumsum(call);
}
Value eval_logcumsumexp(const Call<Tensor>& call) {
  return along_axis<true>(call.tensor(0), call.integer(1), result_meta(call).dtype,
                          [](const double* x, double* out, int64_t n) {
                            double sum = -std::numeric_limits<double>::infinity();
                            for (int64_t i = 0; i < n; ++i) {
                              const double high = std::max(sum, x[i]), low = std::min(sum, x[i]);
                              if (sum != sum || x[i] != x[i]) sum = sum + x[i];
                              else sum = std::isinf(high) ? high : high + math::log1p(math::exp(low - high));
                              out[i] = sum;
                            }
                          });
}
// The k-th smallest element of every row and its index; of the median k is the lower middle. A row with NaN has the
// median NaN.
MetaValue infer_kth(const Call<TensorMeta>& call) {
  const TensorMeta& x = call.tensor(0);
  check_not_empty(call);
  if (const std::optional<size_t> k = place_of(call, "k")) {
    const std::optional<int64_t> size =
        x.sizes.empty() ? 1 : x.sizes[axis_or_scalar(call, 2, x.sizes.size())].constant();
    QDQ_CHECK(call.integer(*k) >= 1 && (!size || call.integer(*k) <= *size), kInvalidArgument, call.op().target,
              " needs element ", call.integer(*k), " of an axis of shape ", to_string(x.sizes));
  }
  return MetaValue::List{reduced_meta(call, x.dtype), reduced_meta(call, DType::kS64)};
}
Value eval_kth(const Call<Tensor>& call) {
  const Tensor& x = call.tensor(0);
  const MetaValue meta = infer_call(call);
  const Shape sizes = constant_shape(meta.get_if<MetaValue::List>()->at(0).get_if<TensorMeta>()->sizes);
  const std::optional<size_t> place = place_of(call, "k");
  return visit_wide(x.dtype(), [&](auto type) -> Value {
    using C = typename decltype(type)::type;
    const Rows rows = rows_along(x.to(DTypeOf<C>::value), reduced_axes(call, x.sizes().size()));
    const Tensor values = Tensor::empty(sizes, DTypeOf<C>::value), indices = Tensor::empty(sizes, DType::kS64);
    std::vector<int64_t> keys(static_cast<size_t>(rows.inner));
    for (int64_t r = 0; r < rows.outer; ++r) {
      const C* row = rows.data.data<C>() + r * rows.inner;
      std::transform(row, row + rows.inner, keys.begin(), [](C v) { return order_key(v); });
      const std::vector<int64_t> order = stable_order(keys);
      int64_t at = order[static_cast<size_t>(place ? call.integer(*place) - 1 : (rows.inner - 1) / 2)];
      if (!place && row[order.back()] != row[order.back()])
        at = std::find_if(row, row + rows.inner, [](C v) { return v != v; }) - row;
      values.data<C>()[r] = row[at];
      indices.data<int64_t>()[r] = at;
    }
    return Value::List{values.to(x.dtype()), indices};
  });
}
MetaValue infer_median(const Call<TensorMeta>& call) { return infer_kth(call).get_if<MetaValue::List>()->at(0); }
Value eval_median(const Call<Tensor>& call) {
  // Of all elements; its place is not asked for.
  std::vector<Value> args{call.tensor(0).reshape({call.tensor(0).numel()}), 0};
  infer_call(call);
  const Value both = run_op<Tensor>("median.dim", std::move(args));
  return both.get_if<Value::List>()->at(0);
}

}  // namespace

// NOLINTNEXTLINE(readability-function-size): a table
void add_reduce_ops(std::vector<OpDef>& ops) {
  const Roles roles{.activation = 0};
  Family family = Family::kMean;  // of the entries that follow
  const auto add = [&](const char* line, Infer infer, Eval eval, const Roles& r) {
    ops.push_back(define(line, infer, eval, r, family));
    ops.back().keeps_numbers = r.shares_qparams && family != Family::kMean;
  };
  add("aten::mean(Tensor self, *, ScalarType? dtype=None) -> Tensor", infer_mean, eval_sum<MeanOf>, kSharesQparams);
  add("aten::mean.dim(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor", infer_mean,
      eval_sum<MeanOf>, kSharesQparams);
  family = Family::kReduction;
  add("aten::sum(Tensor self, *, ScalarType? dtype=None) -> Tensor", infer_sum, eval_sum<SumOf>, roles);
  add("aten::sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
      infer_sum, eval_sum<SumOf>, roles);
  add("aten::prod(Tensor self, *, ScalarType? dtype=None) -> Tensor", infer_sum, eval_sum<ProductOf>, roles);
  add("aten::prod.dim_int(Tensor self, int dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor", infer_sum,
      eval_sum<ProductOf>, roles);
  add("aten::amax(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor", infer_extreme, eval_extreme<true>,
      kSharesQparams);
  add("aten::amin(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor", infer_extreme, eval_extreme<false>,
      kSharesQparams);
  add("aten::max(Tensor self) -> Tensor", infer_extreme, eval_extreme<true>, kSharesQparams);
  add("aten::min(Tensor self) -> Tensor", infer_extreme, eval_extreme<false>, kSharesQparams);
  add("aten::max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)", infer_extreme_dim,
      eval_extreme_dim<true>, roles);
  add("aten::min.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)", infer_extreme_dim,
      eval_extreme_dim<false>, roles);
  add("aten::argmax(Tensor self, int? dim=None, bool keepdim=False) -> Tensor", infer_arg_extreme,
      eval_arg_extreme<true>, roles);
  add("aten::argmin(Tensor self, int? dim=None, bool keepdim=False) -> Tensor", infer_arg_extreme,
      eval_arg_extreme<false>, roles);
  add("aten::any(Tensor self) -> Tensor", infer_bool, eval_bool<false>, roles);
  add("aten::any.dim(Tensor self, int dim, bool keepdim=False) -> Tensor", infer_bool, eval_bool<false>, roles);
  add("aten::any.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor", infer_bool, eval_bool<false>,
      roles);
  add("aten::all.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor", infer_bool, eval_bool<true>, roles);
  add("aten::all(Tensor self) -> Tensor", infer_bool, eval_bool<true>, roles);
  add("aten::all.dim(Tensor self, int dim, bool keepdim=False) -> Tensor", infer_bool, eval_bool<true>, roles);
  add("aten::var.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor",
      infer_float_reduction, eval_var<false>, roles);
  add("aten::var.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> Tensor",
      infer_float_reduction, eval_var<false>, roles);
  add("aten::var(Tensor self, bool unbiased=True) -> Tensor", infer_float_reduction, eval_var<false>, roles);
  add("aten::std.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor",
      infer_float_reduction, eval_var<true>, roles);
  add("aten::std.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> Tensor",
      infer_float_reduction, eval_var<true>, roles);
  add("aten::std(Tensor self, bool unbiased=True) -> Tensor", infer_float_reduction, eval_var<true>, roles);
  add("aten::var_mean.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> "
      "(Tensor, Tensor)",
      infer_var_mean, eval_var_mean<false>, roles);
  add("aten::var_mean.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> (Tensor, Tensor)",
      infer_var_mean, eval_var_mean<false>, roles);
  add("aten::var_mean(Tensor self, bool unbiased=True) -> (Tensor, Tensor)", infer_var_mean, eval_var_mean<false>,
      roles);
  add("aten::std_mean.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> "
      "(Tensor, Tensor)",
      infer_var_mean, eval_var_mean<true>, roles);
  add("aten::std_mean.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> (Tensor, Tensor)",
      infer_var_mean, eval_var_mean<true>, roles);
  add("aten::std_mean(Tensor self, bool unbiased=True) -> (Tensor, Tensor)", infer_var_mean, eval_var_mean<true>,
      roles);
  add("aten::linalg_vector_norm(Tensor self, Scalar ord=2, int[1]? dim=None, bool keepdim=False, *, ScalarType? "
      "dtype=None) -> Tensor",
      infer_norm, eval_norm, roles);
  add("aten::norm.ScalarOpt_dim(Tensor self, Scalar? p, int[1] dim, bool keepdim=False) -> Tensor", infer_norm,
      eval_norm, roles);
  add("aten::norm.Scalar(Tensor self, Scalar p=2) -> Tensor", infer_norm, eval_norm, roles);
  add("aten::norm.ScalarOpt_dtype(Tensor self, Scalar? p, *, ScalarType dtype) -> Tensor", infer_norm, eval_norm,
      roles);
  add("aten::norm.ScalarOpt_dim_dtype(Tensor self, Scalar? p, int[1] dim, bool keepdim, *, ScalarType dtype) -> Tensor",
      infer_norm, eval_norm, roles);
  add("aten::nansum(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor", infer_sum,
      eval_nan_sum<false>, roles);
  add("aten::nanmean(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
      infer_mean, eval_nan_sum<true>, roles);
  add("aten::count_nonzero(Tensor self, int? dim=None) -> Tensor", infer_count_nonzero, eval_count_nonzero, roles);
  add("aten::count_nonzero.dim_IntList(Tensor self, int[] dim) -> Tensor", infer_count_nonzero, eval_count_nonzero,
      roles);
  add("aten::aminmax(Tensor self, *, int? dim=None, bool keepdim=False) -> (Tensor min, Tensor max)", infer_extremes,
      eval_extremes, roles);
  add("aten::median(Tensor self) -> Tensor", infer_median, eval_median, roles);
  add("aten::median.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)", infer_kth,
      eval_kth, roles);
  add("aten::kthvalue(Tensor self, int k, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)",
      infer_kth, eval_kth, roles);
  add("aten::logsumexp(Tensor self, int[1] dim, bool keepdim=False) -> Tensor", infer_float_reduction, eval_logsumexp,
      roles);
  family = Family::kSoftmax;
  add("aten::softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor", infer_softmax,
      eval_softmax<Softmax::kPlain>, roles);
  add("aten::_softmax(Tensor self, int dim, bool half_to_float) -> Tensor", infer_softmax,
      eval_softmax<Softmax::kPlain>, roles);
  add("aten::_safe_softmax(Tensor self, int dim, ScalarType? dtype=None) -> Tensor", infer_softmax,
      eval_softmax<Softmax::kSafe>, roles);
  add("aten::log_softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor", infer_softmax,
      eval_softmax<Softmax::kLog>, roles);
  add("aten::_log_softmax(Tensor self, int dim, bool half_to_float) -> Tensor", infer_softmax,
      eval_softmax<Softmax::kLog>, roles);
  family = Family::kOther;
  add("aten::cumsum(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor", infer_cumsum, eval_cumsum, roles);
  add("aten::cumprod(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor", infer_cumsum, eval_cumprod, roles);
  add("aten::logcumsumexp(Tensor self, int dim) -> Tensor", infer_logcumsumexp, eval_logcumsumexp, roles);
  add("aten::_logcumsumexp(Tensor self, int dim) -> Tensor", infer_logcumsumexp, eval_logcumsumexp, roles);
}

}  // namespace qdq
