// Operators that make tensors from sizes and numbers.
#include "op/elements.h"
#include "op/families.h"

namespace qdq {
namespace {

// zeros(size), new_zeros(self, size), zeros_like(self): sizes from "size" or from self, the dtype from "dtype", else
// self's, else f32.
MetaValue infer_filled(const Call<TensorMeta>& call) {
  const std::optional<size_t> size = call.op().schema.index_of("size");
  const TensorMeta* self = call[0].get_if<TensorMeta>();
  const SymShape sizes = size ? call.syms(*size) : call.tensor(0).sizes;
  for (const SymInt& extent : sizes)
    QDQ_CHECK(!extent.is_constant() || *extent.constant() >= 0, kInvalidArgument, call.op().target, " got the shape ",
              to_string(sizes));
  DType otherwise = self ? self->dtype : DType::kF32;
  if (!self) {
    // full takes the dtype of its number.
    if (const std::optional<size_t> value = call.op().schema.index_of("fill_value"))
      otherwise = call[*value].is<bool>() ? DType::kBool : call.is_integer(*value) ? DType::kS64 : DType::kF32;
  }
  return tensor_meta(call.dtype(*place_of(call, "dtype"), otherwise), sizes);
}
// Uninitialised memory is zero here, so that runs repeat.
Value eval_zeros(const Call<Tensor>& call) { return empty_result(call); }
Value eval_ones(const Call<Tensor>& call) {
  const TensorMeta meta = result_meta(call);
  return Tensor::full(constant_shape(meta.sizes), meta.dtype, 1);
}
Value eval_full(const Call<Tensor>& call) {
  const Tensor out = empty_result(call);
  out.copy_from(operand(call, *place_of(call, "fill_value")));
  return out;
}

MetaValue infer_scalar_tensor(const Call<TensorMeta>& call) {
  return tensor_meta(call.dtype(*place_of(call, "dtype"), DType::kF32), {});
}
Value eval_scalar_tensor(const Call<Tensor>& call) {
  QDQ_CHECK(operand(call, 0).dim() == 0, kInvalidArgument, call.op().target,
            " wants a number, found a tensor of shape ", to_string(operand(call, 0).sizes()));
  return operand(call, 0).to(result_meta(call).dtype);
}

// [start, end) by step: ceil((end - start) / step) elements; s64 if all three are integers, else f32.
struct RangeArguments {
  int start, end, step;
};
template <class T> bool all_integers(const Call<T>& call, const RangeArguments& at) {
  for (int i : {at.start, at.end, at.step})
    if (i >= 0 && !call.is_integer(static_cast<size_t>(i))) return false;
  return true;
}
template <class T> double number_or(const Call<T>& call, int i, double otherwise) {
  return i < 0 ? otherwise : call.number(static_cast<size_t>(i));
}
template <const RangeArguments& at> MetaValue infer_arange(const Call<TensorMeta>& call) {
  const bool integers = all_integers(call, at);
  const DType dtype = call.dtype(*place_of(call, "dtype"), integers ? DType::kS64 : DType::kF32);
  if (integers) {
    const SymInt start = at.start < 0 ? SymInt(0) : call.sym(static_cast<size_t>(at.start)),
                 end = call.sym(static_cast<size_t>(at.end));
    const int64_t step = at.step < 0 ? 1 : call.integer(static_cast<size_t>(at.step));
    QDQ_CHECK(step != 0, kInvalidArgument, call.op().target, " got step 0");
    const SymInt by(step), one(1);
    const SymInt count =
        step > 0 ? (end - start + by - one).floor_div(by) : (start - end - by - one).floor_div(SymInt(0) - by);
    QDQ_CHECK(!count.is_constant() || *count.constant() >= 0, kInvalidArgument, call.op().target, " cannot go from ",
              start.to_string(), " to ", end.to_string(), " by ", step);
    return tensor_meta(dtype, {count});
  }
  const double start = number_or(call, at.start, 0), step = number_or(call, at.step, 1);
  const double count = std::ceil((call.number(static_cast<size_t>(at.end)) - start) / step);
  QDQ_CHECK(count >= 0 && count < 9e15, kInvalidArgument, call.op().target, " has the length ", count);
  return tensor_meta(dtype, {SymInt(static_cast<int64_t>(count))});
}
template <const RangeArguments& at> Value eval_arange(const Call<Tensor>& call) {
  const Tensor out = empty_result(call);
  if (all_integers(call, at)) {
    const int64_t start = at.start < 0 ? 0 : call.integer(static_cast<size_t>(at.start)),
                  step = at.step < 0 ? 1 : call.integer(static_cast<size_t>(at.step));
    const Tensor exact = Tensor::empty(out.sizes(), DType::kS64);
    for (int64_t i = 0; i < exact.numel(); ++i) exact.data<int64_t>()[i] = start + i * step;
    return exact.to(out.dtype());
  }
  const double start = number_or(call, at.start, 0), step = number_or(call, at.step, 1);
  const Tensor exact = Tensor::empty(out.sizes(), DType::kF64);
  for (int64_t i = 0; i < exact.numel(); ++i) exact.data<double>()[i] = start + static_cast<double>(i) * step;
  return exact.to(out.dtype());
}
constexpr RangeArguments kEnd{-1, 0, -1}, kStartEnd{0, 1, -1}, kStartEndStep{0, 1, 2};

// meshgrid: vectors (or numbers) spread over a grid with an axis for each; "xy" exchanges the first two axes.
MetaValue infer_meshgrid(const Call<TensorMeta>& call) {
  const std::vector<TensorMeta> tensors = call.tensors(0);
  const bool exchanged = call.string(1) == "xy" && tensors.size() >= 2;
  QDQ_CHECK(exchanged || call.string(1) == "ij" || call.string(1) == "xy", kInvalidArgument, call.op().target,
            " knows the indexings ij and xy, found ", call.string(1));
  SymShape sizes;
  for (const TensorMeta& tensor : tensors) {
    QDQ_CHECK(tensor.sizes.size() <= 1, kInvalidArgument, call.op().target, " wants vectors, found shape ",
              to_string(tensor.sizes));
    sizes.push_back(tensor.sizes.empty() ? SymInt(1) : tensor.sizes[0]);
  }
  if (exchanged) std::swap(sizes[0], sizes[1]);
  MetaValue::List out;
  for (const TensorMeta& tensor : tensors) out.push_back(tensor_meta(tensor.dtype, sizes));
  return out;
}
Value eval_meshgrid(const Call<Tensor>& call) {
  infer_call(call);
  const std::vector<Tensor> tensors = call.tensors(0);
  const auto axis_of_tensor = [&](size_t i) {
    return i < 2 && tensors.size() >= 2 && call.string(1) == "xy" ? 1 - i : i;
  };
  Shape sizes(tensors.size(), 1);
  for (size_t i = 0; i < tensors.size(); ++i) sizes[axis_of_tensor(i)] = tensors[i].numel();
  Value::List out;
  for (size_t i = 0; i < tensors.size(); ++i) {
    Shape own(tensors.size(), 1);
    own[axis_of_tensor(i)] = tensors[i].numel();
    out.push_back(tensors[i].reshape(own).expand(sizes));
  }
  return out;
}

}  // namespace

void add_create_ops(std::vector<OpDef>& ops) {
  const std::string options = "ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None";
  const auto add = [&](const std::string& begin, const std::string& end, Infer infer, Eval eval) {
    ops.push_back(
        define("aten::" + begin + ", *, " + options + end + ") -> Tensor", infer, eval, {}, Family::kCreation));
  };
  const std::string format = ", MemoryFormat? memory_format=None";
  add("zeros(SymInt[] size", "", infer_filled, eval_zeros);
  add("ones(SymInt[] size", "", infer_filled, eval_ones);
  add("full(SymInt[] size, Scalar fill_value", "", infer_filled, eval_full);
  add("empty.memory_format(SymInt[] size", format, infer_filled, eval_zeros);
  add("zeros_like(Tensor self", format, infer_filled, eval_zeros);
  add("ones_like(Tensor self", format, infer_filled, eval_ones);
  add("full_like(Tensor self, Scalar fill_value", format, infer_filled, eval_full);
  add("empty_like(Tensor self", format, infer_filled, eval_zeros);
  add("new_zeros(Tensor self, SymInt[] size", "", infer_filled, eval_zeros);
  add("new_ones(Tensor self, SymInt[] size", "", infer_filled, eval_ones);
  add("new_full(Tensor self, SymInt[] size, Scalar fill_value", "", infer_filled, eval_full);
  add("new_empty(Tensor self, SymInt[] size", "", infer_filled, eval_zeros);
  ops.push_back(
      define("aten::meshgrid.indexing(Tensor[] tensors, *, str indexing) -> Tensor[]", infer_meshgrid, eval_meshgrid));
  add("scalar_tensor(Scalar s", "", infer_scalar_tensor, eval_scalar_tensor);
  add("arange(Scalar end", "", infer_arange<kEnd>, eval_arange<kEnd>);
  add("arange.start(Scalar start, Scalar end", "", infer_arange<kStartEnd>, eval_arange<kStartEnd>);
  add("arange.start_step(Scalar start, Scalar end, Scalar step=1", "", infer_arange<kStartEndStep>,
      eval_arange<kStartEndStep>);
}

}  // namespace qdq
