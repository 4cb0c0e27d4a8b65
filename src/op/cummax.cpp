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
    C* to = values.data<C>();
    int64_t* places = indices.data<int64_t>();
    for (int64_t row = 0; row < rows.numel(); row += n, from += n, to += n, places += n) {
      C best = from[0];
      int64_t place = 0;
      for (int64_t i = 0; i < n; ++i) {
        const bool wins = from[i] != from[i] || (best == best && (largest ? from[i] >= best : from[i] <= best));
        if (wins) best = from[i], place = i;
        to[i] = best;
        places[i] = place;
      }
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
