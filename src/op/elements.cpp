#include "op/elements.h"

namespace qdq {

Tensor operand(const Call<Tensor>& call, size_t i) {
  if (const Tensor* tensor = call[i].get_if<Tensor>()) return *tensor;
  if (call.is_integer(i)) return Tensor::scalar<int64_t>(call.integer(i));
  return Tensor::scalar<double>(call.number(i));
}

Value store_in_self(const Call<Tensor>& call, const Tensor& result) {
  const Tensor& self = call.tensor(0);
  const auto kind = [](DType t) { return is_floating(t) ? 2 : t == DType::kBool ? 0 : 1; };
  QDQ_CHECK(kind(result.dtype()) <= kind(self.dtype()), kInvalidArgument, call.op().target, " cannot store a ",
            to_string(result.dtype()), " result in a ", to_string(self.dtype()), " tensor");
  QDQ_CHECK(result.sizes() == self.sizes(), kInvalidArgument, call.op().target, " cannot store a result of shape ",
            to_string(result.sizes()), " in a tensor of shape ", to_string(self.sizes()));
  self.copy_from(result);
  return self;
}

Rows rows_along(const Tensor& x, const std::vector<size_t>& axes) {
  std::vector<bool> inner(x.sizes().size(), false);
  for (size_t axis : axes) inner[axis] = true;
  Rows rows;
  std::vector<int64_t> order;
  for (size_t a = 0; a < inner.size(); ++a) {
    if (inner[a]) continue;
    order.push_back(static_cast<int64_t>(a));
    rows.outer *= x.sizes()[a];
  }
  for (size_t axis : axes) {
    order.push_back(static_cast<int64_t>(axis));
    rows.inner *= x.sizes()[axis];
  }
  rows.data = x.permute(order).contiguous();
  return rows;
}

Tensor take(const Tensor& x, int64_t axis, const std::vector<int64_t>& source, double fill) {
  Shape sizes = x.sizes();
  sizes.at(static_cast<size_t>(axis)) = static_cast<int64_t>(source.size());
  const Tensor out = fill == 0 ? Tensor::empty(sizes, x.dtype()) : Tensor::full(sizes, x.dtype(), fill);
  for (size_t i = 0; i < source.size(); ++i)
    if (source[i] >= 0) out.select(axis, static_cast<int64_t>(i)).copy_from(x.select(axis, source[i]));
  return out;
}

}  // namespace qdq
