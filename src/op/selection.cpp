// What bounds elements, chooses among them, or puts others in their place.
#include <cstring>
#include <limits>

#include "op/elements.h"
#include "op/families.h"
#include "op/pointwise.h"

namespace qdq {
namespace {

// clamp, clamp_min, clamp_max: bounds at the given places, numbers or tensors; -1 or None: there is none.
template <class T> DType clamp_dtype(const Call<T>& call, int low, int high) {
  OperandKind self = operand_kind(call, 0);
  const auto bound = [&](int i) {
    return i < 0 || call.is_none(static_cast<size_t>(i)) ? self : operand_kind(call, static_cast<size_t>(i));
  };
  return result_dtype({self, bound(low), bound(high)});
}
MetaValue infer_clamp_by(const Call<TensorMeta>& call, int low, int high) {
  SymShape sizes = call.tensor(0).sizes;
  for (int i : {low, high})
    if (i >= 0) sizes = broadcast_shapes(sizes, sizes_of(call, static_cast<size_t>(i)));
  return tensor_meta(clamp_dtype(call, low, high), sizes);
}
Value clamp_by(const Call<Tensor>& call, int low, int high) {
  const DType dtype = clamp_dtype(call, low, high);
  const auto at_least = [](auto x, auto b) { return x != x ? x : larger(b, x); };
  const auto at_most = [](auto x, auto b) { return x != x ? x : smaller(b, x); };
  const DType c = compute_dtype(dtype);
  Tensor out = call.tensor(0).to(c);
  for (int i : {low, high}) {
    if (i < 0 || call.is_none(static_cast<size_t>(i))) continue;
    const Tensor bound = operand(call, static_cast<size_t>(i));
    out = i == low ? run_loops(out, bound, c, c, &at_least, kNumberLoops<decltype(at_least)>)
                   : run_loops(out, bound, c, c, &at_most, kNumberLoops<decltype(at_most)>);
  }
  return out.to(dtype).clone();
}
MetaValue infer_clamp(const Call<TensorMeta>& call) { return infer_clamp_by(call, 1, 2); }
MetaValue infer_clamp_min(const Call<TensorMeta>& call) { return infer_clamp_by(call, 1, -1); }
MetaValue infer_clamp_max(const Call<TensorMeta>& call) { return infer_clamp_by(call, -1, 1); }
Value eval_clamp(const Call<Tensor>& call) { return clamp_by(call, 1, 2); }
Value eval_clamp_min(const Call<Tensor>& call) { return clamp_by(call, 1, -1); }
Value eval_clamp_max(const Call<Tensor>& call) { return clamp_by(call, -1, 1); }

// where(condition, a, b).
MetaValue infer_where(const Call<TensorMeta>& call) {
  return tensor_meta(common_dtype(call, 1, 2),
                     broadcast_shapes(call.tensor(0).sizes, broadcast_shapes(sizes_of(call, 1), sizes_of(call, 2))));
}
Tensor choose(const Tensor& condition, const Tensor& a, const Tensor& b, DType dtype) {
  const Shape sizes = broadcast_shapes(condition.sizes(), broadcast_shapes(a.sizes(), b.sizes()));
  const Tensor out = Tensor::empty(sizes, dtype);
  const Tensor c = condition.to(DType::kBool).expand(sizes), x = a.to(dtype).expand(sizes),
               y = b.to(dtype).expand(sizes);
  const size_t size = size_of(dtype);
  for_each_index<4>(sizes, {out.strides().data(), c.strides().data(), x.strides().data(), y.strides().data()},
                    [&, when = c.data<bool>()](const std::array<int64_t, 4>& at) {
                      const std::byte* from = when[at[1]] ? x.raw() + static_cast<size_t>(at[2]) * size
                                                          : y.raw() + static_cast<size_t>(at[3]) * size;
                      std::memcpy(out.raw() + static_cast<size_t>(at[0]) * size, from, size);
                    });
  return out;
}
Value eval_where(const Call<Tensor>& call) {
  return choose(call.tensor(0), operand(call, 1), operand(call, 2), common_dtype(call, 1, 2));
}

MetaValue infer_masked_fill(const Call<TensorMeta>& call) {
  return tensor_meta(call.tensor(0).dtype, broadcast_shapes(call.tensor(0).sizes, call.tensor(1).sizes));
}
Value eval_masked_fill(const Call<Tensor>& call) {
  QDQ_CHECK(operand(call, 2).dim() == 0, kInvalidArgument, call.op().target,
            " needs a single number as value, found a tensor of shape ", to_string(operand(call, 2).sizes()));
  return choose(call.tensor(1), operand(call, 2), call.tensor(0), call.tensor(0).dtype());
}

Value eval_fill(const Call<Tensor>& call) {
  const Tensor out = Tensor::empty(call.tensor(0).sizes(), call.tensor(0).dtype());
  out.copy_from(operand(call, 1));
  return out;
}
Value eval_zero_(const Call<Tensor>& call) {
  call.tensor(0).copy_from(Tensor::scalar<int64_t>(0));
  return call.tensor(0);
}
Value eval_copy_(const Call<Tensor>& call) {
  // The source may be another view of the same bytes.
  call.tensor(0).copy_from(call.tensor(1).clone());
  return call.tensor(0);
}
Value eval_copy(const Call<Tensor>& call) {
  const Tensor out = Tensor::empty(call.tensor(0).sizes(), call.tensor(0).dtype());
  out.copy_from(call.tensor(1));
  return out;
}

void add_clamps(std::vector<OpDef>& ops) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr kernel::Activation clamp{kernel::Activation::Kind::kClamp, -kInfinity, kInfinity};
  const Computes both{clamp, 1, 2}, low{clamp, 1, -1}, high{clamp, -1, 1}, by_tensors{};
  const auto add = [&](const char* line, const Computes& computes, Eval eval, Infer infer = infer_like_self) {
    ops.push_back(define(line, infer, eval, {.activation = 0}, Family::kClamp));
    ops.back().computes = computes;
  };
  add("aten::clamp(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor", both, eval_clamp, infer_clamp);
  add("aten::clamp_(Tensor(a!) self, Scalar? min=None, Scalar? max=None) -> Tensor(a!)", both, in_place<eval_clamp>);
  add("aten::clamp.Tensor(Tensor self, Tensor? min=None, Tensor? max=None) -> Tensor", by_tensors, eval_clamp,
      infer_clamp);
  add("aten::clamp_min.Tensor(Tensor self, Tensor min) -> Tensor", by_tensors, eval_clamp_min, infer_clamp_min);
  add("aten::clamp_max.Tensor(Tensor self, Tensor max) -> Tensor", by_tensors, eval_clamp_max, infer_clamp_max);
  add("aten::clamp_min(Tensor self, Scalar min) -> Tensor", low, eval_clamp_min, infer_clamp_min);
  add("aten::clamp_min_(Tensor(a!) self, Scalar min) -> Tensor(a!)", low, in_place<eval_clamp_min>);
  add("aten::clamp_max(Tensor self, Scalar max) -> Tensor", high, eval_clamp_max, infer_clamp_max);
  add("aten::clamp_max_(Tensor(a!) self, Scalar max) -> Tensor(a!)", high, in_place<eval_clamp_max>);
}

void add_selections(std::vector<OpDef>& ops) {
  const auto add = [&](const char* line, Eval eval, Infer infer = infer_like_self) {
    ops.push_back(define(line, infer, eval));
  };
  add("aten::where.self(Tensor condition, Tensor self, Tensor other) -> Tensor", eval_where, infer_where);
  add("aten::where.ScalarSelf(Tensor condition, Scalar self, Tensor other) -> Tensor", eval_where, infer_where);
  add("aten::where.ScalarOther(Tensor condition, Tensor self, Scalar other) -> Tensor", eval_where, infer_where);
  add("aten::where.Scalar(Tensor condition, Scalar self, Scalar other) -> Tensor", eval_where, infer_where);
  add("aten::masked_fill.Scalar(Tensor self, Tensor mask, Scalar value) -> Tensor", eval_masked_fill,
      infer_masked_fill);
  add("aten::masked_fill.Tensor(Tensor self, Tensor mask, Tensor value) -> Tensor", eval_masked_fill,
      infer_masked_fill);
  add("aten::masked_fill_.Scalar(Tensor(a!) self, Tensor mask, Scalar value) -> Tensor(a!)",
      in_place<eval_masked_fill>);
  add("aten::masked_fill_.Tensor(Tensor(a!) self, Tensor mask, Tensor value) -> Tensor(a!)",
      in_place<eval_masked_fill>);
  add("aten::fill.Scalar(Tensor self, Scalar value) -> Tensor", eval_fill);
  add("aten::fill.Tensor(Tensor self, Tensor value) -> Tensor", eval_fill);
  add("aten::fill_.Scalar(Tensor(a!) self, Scalar value) -> Tensor(a!)", in_place<eval_fill>);
  add("aten::fill_.Tensor(Tensor(a!) self, Tensor value) -> Tensor(a!)", in_place<eval_fill>);
  add("aten::zero_(Tensor(a!) self) -> Tensor(a!)", eval_zero_);
  add("aten::copy(Tensor self, Tensor src, bool non_blocking=False) -> Tensor", eval_copy);
  add("aten::copy_(Tensor(a!) self, Tensor src, bool non_blocking=False) -> Tensor(a!)", eval_copy_);
}

}  // namespace

void add_selection_ops(std::vector<OpDef>& ops) {
  add_clamps(ops);
  add_selections(ops);
}

}  // namespace qdq
