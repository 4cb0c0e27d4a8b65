// Operators that copy elements without changing them (but for their dtype): copies, conversions, repetition, reversal.

#include "op/elements.h"
#include "op/families.h"

namespace qdq {
namespace {

// repeat wants a number for each axis, new ones in front; tile fills up with ones in front.
MetaValue infer_repeat(const Call<TensorMeta>& call) {
  const TensorMeta& x = call.tensor(0);
  SymShape times = call.syms(1), sizes = x.sizes;
  if (call.op().schema->name == "tile" && times.size() < sizes.size())
    times.insert(times.begin(), sizes.size() - times.size(), SymInt(1));
  QDQ_CHECK(times.size() >= sizes.size(), kInvalidArgument, call.op().target, " needs at least ", sizes.size(),
            " numbers, found ", times.size());
  sizes.insert(sizes.begin(), times.size() - sizes.size(), SymInt(1));
  for (size_t a = 0; a < sizes.size(); ++a) sizes[a] = sizes[a] * times[a];
  return tensor_meta(x.dtype, sizes);
}
Value eval_repeat(const Call<Tensor>& call) {
  const Tensor out = empty_result(call);
  Shape sizes = call.tensor(0).sizes();
  sizes.insert(sizes.begin(), out.sizes().size() - sizes.size(), 1);
  const Tensor x = call.tensor(0).reshape(sizes);
  if (out.numel() == 0) return out;
  // [t0 n0, t1 n1, ...] seen as [t0, n0, t1, n1, ...] is the input broadcast over the t axes.
  Shape split, once;
  for (size_t a = 0; a < sizes.size(); ++a) {
    split.insert(split.end(), {out.sizes()[a] / sizes[a], sizes[a]});
    once.insert(once.end(), {1, sizes[a]});
  }
  out.reshape(split).copy_from(x.reshape(once));
  return out;
}

Value eval_flip(const Call<Tensor>& call) {
  const Tensor& x = call.tensor(0);
  Tensor from = x;
  for (int64_t axis : call.integers(1)) {
    if (x.dim() == 0 && wrap_axis(axis, 1) == 0) continue;  // a scalar counts as one axis
    const Tensor out = Tensor::empty(x.sizes(), x.dtype());
    for (int64_t i = 0; i < x.size(axis); ++i) out.select(axis, i).copy_from(from.select(axis, x.size(axis) - 1 - i));
    from = out;
  }
  return from.clone();
}

// Element i goes to i + shift, around the end. Without axes the flat tensor is rolled.
Value eval_roll(const Call<Tensor>& call) {
  const Tensor& x = call.tensor(0);
  const std::vector<int64_t> shifts = call.integers(1),
                             axes = call.is_none(2) ? std::vector<int64_t>() : call.integers(2);
  const auto rolled = [](const Tensor& from, int64_t axis, int64_t shift) {
    const Tensor out = Tensor::empty(from.sizes(), from.dtype());
    const int64_t size = from.size(axis);
    if (size == 0) return out;
    const int64_t by = (shift % size + size) % size;
    out.slice(axis, by, size).copy_from(from.slice(axis, 0, size - by));
    out.slice(axis, 0, by).copy_from(from.slice(axis, size - by, size));
    return out;
  };
  if (axes.empty()) {
    QDQ_CHECK(shifts.size() == 1, kInvalidArgument, "roll without axes needs one shift, found ", shifts.size());
    return rolled(x.reshape({x.numel()}), 0, shifts[0]).reshape(x.sizes());
  }
  QDQ_CHECK(axes.size() == shifts.size(), kInvalidArgument, "roll needs as many shifts as axes, found ", shifts.size(),
            " and ", axes.size());
  Tensor out = x.clone();
  for (size_t i = 0; i < axes.size(); ++i) out = rolled(out, axes[i], shifts[i]);
  return out;
}

Value eval_self(const Call<Tensor>& call) { return call.tensor(0); }
Value eval_clone(const Call<Tensor>& call) { return call.tensor(0).clone(); }
// Memory formats other than C order only change where elements lie, which no operator here can see.
Value eval_contiguous(const Call<Tensor>& call) { return call.tensor(0).contiguous(); }

Value eval_dropout(const Call<Tensor>& call) {
  QDQ_CHECK(call.is_none(2) || !call.boolean(2) || call.number(1) == 0, kUnsupported, call.op().target,
            " in training mode draws random numbers, which qdq does not do: export the model in evaluation mode");
  return call.tensor(0);
}
MetaValue infer_native_dropout(const Call<TensorMeta>& call) {
  return MetaValue::List{infer_like_self(call), tensor_meta(DType::kBool, call.tensor(0).sizes)};
}
Value eval_native_dropout(const Call<Tensor>& call) {
  const Tensor kept = Tensor::full(call.tensor(0).sizes(), DType::kBool, 1);
  return Value::List{eval_dropout(call).get_if<Tensor>()->clone(), kept};
}

// The dtype wanted is at place `dtype`; a copy is made if the argument at `copy` says so (always if there is none:
// _to_copy).
MetaValue infer_to(const Call<TensorMeta>& call) {
  const TensorMeta& x = call.tensor(0);
  const std::optional<size_t> dtype = place_of(call, "dtype");
  return tensor_meta(dtype ? call.dtype(*dtype, x.dtype) : x.dtype, x.sizes);
}
Value eval_to(const Call<Tensor>& call) {
  const Tensor& x = call.tensor(0);
  const std::optional<size_t> dtype = place_of(call, "dtype"), copy = place_of(call, "copy");
  const Tensor out = x.to(dtype ? call.dtype(*dtype, x.dtype()) : x.dtype());
  return !copy || call.boolean(*copy) ? out.clone() : out;
}
MetaValue infer_type_as(const Call<TensorMeta>& call) {
  return tensor_meta(call.tensor(1).dtype, call.tensor(0).sizes);
}
Value eval_to_other(const Call<Tensor>& call) {
  const Tensor out = call.tensor(0).to(call.tensor(1).dtype());
  return call.boolean(3) ? out.clone() : out;
}
Value eval_type_as(const Call<Tensor>& call) { return call.tensor(0).to(call.tensor(1).dtype()); }

}  // namespace

void add_copy_ops(std::vector<OpDef>& ops) {
  Family family = Family::kOther;  // of the entries that follow
  const auto add = [&](const char* line, Eval eval, Infer infer = infer_like_self) {
    ops.push_back(define(line, infer, eval, kSharesQparams, family));
    ops.back().keeps_numbers = family != Family::kDropout && family != Family::kCast;
  };
  add("aten::repeat(Tensor self, SymInt[] repeats) -> Tensor", eval_repeat, infer_repeat);
  add("aten::tile(Tensor self, SymInt[] dims) -> Tensor", eval_repeat, infer_repeat);
  add("aten::flip(Tensor self, int[] dims) -> Tensor", eval_flip);
  add("aten::roll(Tensor self, SymInt[1] shifts, int[1] dims=[]) -> Tensor", eval_roll);
  family = Family::kCopy;
  add("aten::clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor", eval_clone);
  add("aten::contiguous(Tensor(a) self, *, MemoryFormat memory_format=contiguous_format) -> Tensor(a)",
      eval_contiguous);
  add("aten::detach(Tensor(a) self) -> Tensor(a)", eval_self);
  add("aten::detach_(Tensor(a!) self) -> Tensor(a!)", eval_self);
  add("aten::detach_copy(Tensor self) -> Tensor", eval_clone);
  add("aten::alias(Tensor(a) self) -> Tensor(a)", eval_self);
  add("aten::alias_copy(Tensor self) -> Tensor", eval_clone);
  // Of real numbers.
  add("aten::conj(Tensor(a) self) -> Tensor(a)", eval_self);
  add("aten::resolve_conj(Tensor(a) self) -> Tensor(a)", eval_self);
  add("aten::resolve_neg(Tensor(a) self) -> Tensor(a)", eval_self);
  add("aten::real(Tensor(a) self) -> Tensor(a)", eval_self);
  add("aten::lift_fresh(Tensor(a) self) -> Tensor(a)", eval_self);
  add("aten::lift_fresh_copy(Tensor self) -> Tensor", eval_clone);
  family = Family::kDropout;  // which scales what it keeps in training
  add("aten::dropout(Tensor input, float p, bool train) -> Tensor", eval_dropout);
  add("aten::dropout_(Tensor(a!) self, float p, bool train) -> Tensor(a!)", eval_dropout);
  add("aten::feature_dropout(Tensor input, float p, bool train) -> Tensor", eval_dropout);
  add("aten::feature_dropout_(Tensor(a!) self, float p, bool train) -> Tensor(a!)", eval_dropout);
  add("aten::alpha_dropout(Tensor input, float p, bool train) -> Tensor", eval_dropout);
  add("aten::feature_alpha_dropout(Tensor input, float p, bool train) -> Tensor", eval_dropout);
  add("aten::native_dropout(Tensor input, float p, bool? train) -> (Tensor, Tensor)", eval_native_dropout,
      infer_native_dropout);
  family = Family::kCast;
  add("aten::to.dtype(Tensor(a) self, ScalarType dtype, bool non_blocking=False, bool copy=False, MemoryFormat? "
      "memory_format=None) -> Tensor(a)",
      eval_to, infer_to);
  add("aten::to.dtype_layout(Tensor(a) self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
      "bool? pin_memory=None, bool "
      "non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) -> Tensor(a)",
      eval_to, infer_to);
  add("aten::to.device(Tensor(a) self, Device device, ScalarType dtype, bool non_blocking=False, bool copy=False, "
      "MemoryFormat? memory_format=None) "
      "-> Tensor(a)",
      eval_to, infer_to);
  add("aten::_to_copy(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? "
      "pin_memory=None, bool "
      "non_blocking=False, MemoryFormat? memory_format=None) -> Tensor",
      eval_to, infer_to);
  add("aten::to.other(Tensor(a) self, Tensor other, bool non_blocking=False, bool copy=False, MemoryFormat? "
      "memory_format=None) -> Tensor(a)",
      eval_to_other, infer_type_as);
  add("aten::type_as(Tensor self, Tensor other) -> Tensor", eval_type_as, infer_type_as);
}

}  // namespace qdq
