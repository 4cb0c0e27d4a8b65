// Elements in order.
#include <algorithm>

#include "op/elements.h"
#include "op/families.h"

namespace qdq {
namespace {

// The k first elements in order and their indices; equal ones keep their order, NaN counts as the largest.
MetaValue ordered_meta(const Call<TensorMeta>& call, size_t axis, const SymInt* k) {
  SymShape sizes = call.tensor(0).sizes;
  if (k && !sizes.empty()) sizes[axis] = *k;
  return MetaValue::List{tensor_meta(call.tensor(0).dtype, sizes), tensor_meta(DType::kS64, sizes)};
}
// The places of the k smallest keys in their order, equal ones as they come; only those are sorted.
std::vector<int64_t> smallest(const std::vector<int64_t>& keys, int64_t k) {
  if (k <= 0) return {};
  std::vector<int64_t> ranked = keys;
  const auto last = ranked.begin() + static_cast<std::ptrdiff_t>(k) - 1;
  std::nth_element(ranked.begin(), last, ranked.end());
  int64_t ties = std::count(ranked.begin(), last + 1, *last);
  std::vector<int64_t> places, found;
  for (size_t i = 0; i < keys.size(); ++i) {
    if (keys[i] > *last || (keys[i] == *last && ties-- <= 0)) continue;
    places.push_back(static_cast<int64_t>(i));
    found.push_back(keys[i]);
  }
  std::vector<int64_t> out = stable_order(found);
  for (int64_t& place : out) place = places[static_cast<size_t>(place)];
  return out;
}
Value ordered(const Tensor& x, int64_t axis, int64_t k, bool descending) {
  return visit_wide(x.dtype(), [&](auto type) -> Value {
    using C = typename decltype(type)::type;
    const Tensor rows = (x.dim() == 0 ? x.reshape({1}) : x).to(DTypeOf<C>::value).transpose(axis, -1).contiguous();
    Shape sizes = rows.sizes();
    const int64_t n = sizes.back();
    sizes.back() = k;
    const Tensor values = Tensor::empty(sizes, DTypeOf<C>::value), indices = Tensor::empty(sizes, DType::kS64);
    std::vector<int64_t> keys(static_cast<size_t>(n));
    for (int64_t r = 0; n > 0 && r < rows.numel() / n; ++r) {
      const C* row = rows.data<C>() + r * n;
      std::transform(row, row + n, keys.begin(), [&](C v) { return descending ? ~order_key(v) : order_key(v); });
      const std::vector<int64_t> order = k < n ? smallest(keys, k) : stable_order(keys);
      for (int64_t i = 0; i < k; ++i) {
        values.data<C>()[r * k + i] = row[order[static_cast<size_t>(i)]];
        indices.data<int64_t>()[r * k + i] = order[static_cast<size_t>(i)];
      }
    }
    const auto back = [&](const Tensor& t) {
      return x.dim() == 0 ? t.reshape({}) : t.transpose(axis, -1).contiguous();
    };
    return Value::List{back(values).to(x.dtype()), back(indices)};
  });
}
MetaValue infer_topk(const Call<TensorMeta>& call) {
  const TensorMeta& x = call.tensor(0);
  const SymInt k = call.sym(1);
  const size_t axis = axis_or_scalar(call, 2, x.sizes.size());
  const std::optional<int64_t> wanted = k.constant(), size = x.sizes.empty() ? 1 : x.sizes[axis].constant();
  QDQ_CHECK(!wanted || (*wanted >= 0 && (!size || *wanted <= *size)), kInvalidArgument, "topk needs ", k.to_string(),
            " elements of an axis of shape ", to_string(x.sizes));
  return ordered_meta(call, axis, &k);
}
Value eval_topk(const Call<Tensor>& call) {
  infer_call(call);
  return ordered(call.tensor(0), call.integer(2), call.integer(1), call.boolean(3));
}
MetaValue infer_sort(const Call<TensorMeta>& call) {
  return ordered_meta(call, axis_or_scalar(call, *place_of(call, "dim"), call.tensor(0).sizes.size()), nullptr);
}
Value eval_sort(const Call<Tensor>& call) {
  const Tensor& x = call.tensor(0);
  const int64_t axis = call.integer(*place_of(call, "dim"));
  return ordered(x, axis, x.dim() == 0 ? 1 : x.size(axis), call.boolean(*place_of(call, "descending")));
}
// The indices of sort alone.
MetaValue infer_argsort(const Call<TensorMeta>& call) { return infer_sort(call).get_if<MetaValue::List>()->at(1); }
Value eval_argsort(const Call<Tensor>& call) { return eval_sort(call).get_if<Value::List>()->at(1); }

}  // namespace

void add_order_ops(std::vector<OpDef>& ops) {
  const auto add = [&](const char* line, Infer infer, Eval eval, const Roles& roles) {
    ops.push_back(define(line, infer, eval, roles));
  };
  add("aten::topk(Tensor self, SymInt k, int dim=-1, bool largest=True, bool sorted=True) -> (Tensor values, Tensor "
      "indices)",
      infer_topk, eval_topk, {.activation = 0});
  add("aten::sort(Tensor self, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)", infer_sort,
      eval_sort, {.activation = 0});
  add("aten::sort.stable(Tensor self, *, bool? stable, int dim=-1, bool descending=False) -> (Tensor values, Tensor "
      "indices)",
      infer_sort, eval_sort, {.activation = 0});
  add("aten::argsort.stable(Tensor self, *, bool stable, int dim=-1, bool descending=False) -> Tensor", infer_argsort,
      eval_argsort, {});
  add("aten::argsort(Tensor self, int dim=-1, bool descending=False) -> Tensor", infer_argsort, eval_argsort, {});
}

}  // namespace qdq
