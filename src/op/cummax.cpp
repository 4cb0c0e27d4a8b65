// cummax and cummin: the extremes of all elements so far along an axis.
#include "op/elements.h"
#include "op/families.h"
#include "op/infer.h"

namespace qdq {

namespace {

// cummax: (values, indices) of the largest element so far, the last of equal ones; NaN wins.
MetaValue infer_cumulative_extreme(const Call<TensorMeta>& call) {
  axis_or_scalar(call, 1, call.tensor(0).sizes.size());
  return MetaValue::List{infer_like_self(call), tensor_meta(DType::kS64, call.tensor(0).sizes)};
}
template <bool largest> Value eval_cumulative_extreme(const Call<Tensor>& call) {
  infer_call(call);
  const Tensor& x = call.tensor(0);
  const int64_t axis = call.integer(1);
  return visit_wide(x.dtype(), [&](auto type) -> Value {
    using C = typename decltype(type)::type;
    const Tensor rows = (x.dim() == 0 ? x.reshape({1}) : x).to(DTypeOf<C>::value).transpose(axis, -1).contiguous();
    const Tensor values = Tensor::empty(rows.sizes(), DTypeOf<C>::value),
                 indices = Tensor::empty(rows.sizes(), DType::kS64);
    const int64_t n = rows.size(-1);
    const C* from = rows.data<C>();
    for (int64_t i = 0; i < rows.numel(); ++i) {
      const int64_t at = i % n;
      const C before = at == 0 ? from[i] : values.data<C>()[i - 1];
      const bool wins = from[i] != from[i] || (before == before && (largest ? from[i] >= before : from[i] <= before));
      values.data<C>()[i] = wins ? from[i] : before;
      indices.data<int64_t>()[i] = wins || at == 0 ? at : indices.data<int64_t>()[i - 1];
    }
    const auto back = [&](const Tensor& t) { return t.transpose(axis, -1).contiguous().reshape(x.sizes()); };
    return Value::List{back(values).to(x.dtype()), back(indices)};
  });
}

}  // namespace

void add_cummax_ops(std::vector<OpDef>& ops) {
  const Roles roles{.activation = 0};
  const auto add = [&](const char* line, Infer infer, Eval eval, const Roles& has) {
    ops.push_back(define(line, infer, eval, has));
  };
  add("aten::cummax(Tensor self, int dim) -> (Tensor values, Tensor indices)", infer_cumulative_extreme,
      eval_cumulative_extreme<true>, roles);
  add("aten::cummin(Tensor self, int dim) -> (Tensor values, Tensor indices)", infer_cumulative_extreme,
      eval_cumulative_extreme<false>, roles);
}

}  // namespace qdq
