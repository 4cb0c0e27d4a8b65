// ONNX's sequences, lists of tensors whose length a run tells, and its optionals, which may be None. Nothing is known
// of a list before it runs, nor of the tensors in it. PyTorch has none of these operators.
#include "op/elements.h"
#include "op/families.h"

namespace qdq {
namespace {

const Value::List& list_in(const Call<Tensor>& call) {
  const auto* list = call[0].get_if<Value::List>();
  QDQ_CHECK(list != nullptr, kInvalidArgument, call.op().target, " needs a list of tensors, found ",
            call[0].is_none() ? "None" : "one tensor");
  return *list;
}
Tensor element(const Call<Tensor>& call, const Value& value) {
  const Tensor* tensor = value.get_if<Tensor>();
  QDQ_CHECK(tensor != nullptr, kInvalidArgument, call.op().target, " found something other than a tensor in its list");
  return *tensor;
}

// A place in a list, counted from either end; `if_none` if none is given. At most `last`.
std::ptrdiff_t place(const Call<Tensor>& call, size_t i, int64_t if_none, int64_t last) {
  const auto count = static_cast<int64_t>(list_in(call).size());
  const Tensor* given = call.optional_tensor(i);
  const int64_t wanted = given ? given->item_int() : if_none, at = wanted < 0 ? wanted + count : wanted;
  QDQ_CHECK(at >= 0 && at <= last, kInvalidArgument, call.op().target, " goes to ", wanted, " in a list of ", count);
  return static_cast<std::ptrdiff_t>(at);
}
int64_t length(const Call<Tensor>& call) { return static_cast<int64_t>(list_in(call).size()); }

Value eval_construct(const Call<Tensor>& call) {
  const Value::List& all = list_in(call);
  for (const Value& value : all) element(call, value);
  return all;
}
Value eval_at(const Call<Tensor>& call) {
  return element(call, list_in(call)[static_cast<size_t>(place(call, 1, 0, length(call) - 1))]);
}
Value eval_insert(const Call<Tensor>& call) {
  Value::List out = list_in(call);
  out.insert(out.begin() + place(call, 2, length(call), length(call)), call.tensor(1));
  return out;
}
Value eval_erase(const Call<Tensor>& call) {
  Value::List out = list_in(call);
  out.erase(out.begin() + place(call, 1, -1, length(call) - 1));
  return out;
}

MetaValue infer_length(const Call<TensorMeta>&) { return tensor_meta(DType::kS64, {}); }
Value eval_length(const Call<Tensor>& call) { return Tensor::scalar(length(call)); }

// Without sizes the parts have one element each. One size is that of all parts, of which the last may be smaller;
// several are those of the parts. Without keepdims parts of one element have no axis for it, unless the sizes are a
// list: as in ONNX Runtime, for which PyTorch writes unbind so; ONNX's text ignores keepdims where there is any size.
Value eval_split_to_list(const Call<Tensor>& call) {
  const Tensor& x = call.tensor(0);
  const Tensor* split = call.optional_tensor(1);
  QDQ_CHECK(x.dim() > 0, kInvalidArgument, call.op().target, " needs an axis to divide, found one number");
  const int64_t axis = wrap_axis(call.integer(2), x.dim()), size = x.size(axis);
  std::vector<int64_t> parts;
  bool is_dropped = false;  // the axis
  if (split == nullptr || split->dim() == 0) {
    const int64_t each = split ? split->item_int() : 1;
    is_dropped = each == 1 && !call.boolean(3);
    QDQ_CHECK(each > 0, kInvalidArgument, call.op().target, " divides into parts of ", each);
    for (int64_t rest = size; rest > 0; rest -= std::min(rest, each)) parts.push_back(std::min(rest, each));
  } else {
    const Tensor sizes = split->to(DType::kS64).contiguous();
    QDQ_CHECK(sizes.dim() == 1, kInvalidArgument, call.op().target, " needs a list of sizes, found shape ",
              to_string(sizes.sizes()));
    parts.assign(sizes.data<int64_t>(), sizes.data<int64_t>() + sizes.numel());
  }
  Value::List out;
  int64_t from = 0;
  for (const int64_t part : parts) {
    QDQ_CHECK(part >= 0 && part <= size - from, kInvalidArgument, call.op().target, " divides ", size, " into more");
    const Tensor slice = x.slice(axis, from, from + part);
    out.emplace_back(is_dropped ? slice.select(axis, 0) : slice);
    from += part;
  }
  QDQ_CHECK(from == size, kInvalidArgument, call.op().target, " divides ", size, " into parts of ", from, " together");
  return out;
}

Value eval_concat(const Call<Tensor>& call) {
  const Value::List& all = list_in(call);
  QDQ_CHECK(!all.empty(), kInvalidArgument, call.op().target, " joins an empty list");
  return run_op<Tensor>(call.boolean(2) ? "stack" : "cat", {all, call[1]});
}

MetaValue infer_has_element(const Call<TensorMeta>&) { return tensor_meta(DType::kBool, {}); }
Value eval_has_element(const Call<Tensor>& call) { return Tensor::scalar(!call.is_none(0)); }
Value eval_get_element(const Call<Tensor>& call) {
  QDQ_CHECK(!call.is_none(0), kInvalidArgument, call.op().target, " reads an optional that holds nothing");
  return call[0];
}

}  // namespace

void add_onnx_sequence_ops(std::vector<OpDef>& ops) {
  const auto add = [&](const char* line, Eval eval, Infer infer = infer_none) {
    ops.push_back(define(line, infer, eval));
  };
  add("onnx::sequence_construct(Any tensors) -> Any", eval_construct);
  add("onnx::sequence_at(Any sequence, Tensor position) -> Any", eval_at);
  add("onnx::sequence_insert(Any sequence, Any tensor, Tensor? position=None) -> Any", eval_insert);
  add("onnx::sequence_erase(Any sequence, Tensor? position=None) -> Any", eval_erase);
  add("onnx::sequence_length(Any sequence) -> Tensor", eval_length, infer_length);
  add("onnx::split_to_sequence(Any x, Tensor? split, int axis, bool keepdims) -> Any", eval_split_to_list);
  add("onnx::concat_from_sequence(Any sequence, int axis, bool new_axis) -> Any", eval_concat);
  add("onnx::optional_has_element(Any value) -> Tensor", eval_has_element, infer_has_element);
  add("onnx::optional_get_element(Any value) -> Any", eval_get_element);
}

}  // namespace qdq
