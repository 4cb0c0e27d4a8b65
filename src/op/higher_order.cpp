// Operators that call operators: out_dtype, of which the integer reference representation of quantized programs is
// made.
#include "op/families.h"
#include "op/infer.h"

namespace qdq {
namespace {

constexpr size_t kFirst = 2;  // the arguments of the inner operator follow its name and the wanted dtype

template <class T> const OpDef& inner_op(const Call<T>& call) {
  QDQ_CHECK(!call.is_none(1), kInvalidArgument, "out_dtype of ", call.string(0), " lacks the dtype of its result");
  const OpDef* op = find_op(call.string(0));
  QDQ_CHECK(op != nullptr && op->target != call.op().target, kUnsupported, "out_dtype names the operator ",
            call.string(0), ", which qdq does not have");
  return *op;
}

template <class T> std::vector<BasicValue<T>> inner_args(const Call<T>& call, const OpDef& inner) {
  std::vector<BasicValue<T>> out;
  for (size_t i = kFirst; i < call.size() && out.size() < inner.schema.num_positional(); ++i) out.push_back(call[i]);
  while (!out.empty() && out.back().is_none()) out.pop_back();
  return out;
}

// All tensors are brought to the promoted dtype of theirs and a tensor of the wanted dtype
// (torch/_higher_order_ops/out_dtype.py).
DType promoted(const Call<Tensor>& call) {
  DType by_rank[3] = {call.dtype(1, DType::kF32), call.dtype(1, DType::kF32), call.dtype(1, DType::kF32)};
  bool has[3] = {false, false, true};
  for (size_t i = kFirst; i < call.size(); ++i) {
    if (!call[i].is_tensor()) continue;
    const OperandKind kind = operand_kind(call, i);
    by_rank[kind.rank] = has[kind.rank] ? promote(by_rank[kind.rank], kind.dtype) : kind.dtype;
    has[kind.rank] = true;
  }
  const OperandKind axes{by_rank[2], 2};
  return has[1] ? result_dtype({axes, OperandKind{by_rank[1], 1}}) : axes.dtype;
}

MetaValue infer_out_dtype(const Call<TensorMeta>& call) {
  const OpDef& inner = inner_op(call);
  std::vector<MetaValue> args = inner_args(call, inner);
  for (MetaValue& arg : args)  // of one dtype, whichever it is: only the sizes are asked for
    if (const TensorMeta* meta = arg.get_if<TensorMeta>()) arg = tensor_meta(call.dtype(1, meta->dtype), meta->sizes);
  const MetaValue result = inner.infer(Call<TensorMeta>(inner, std::move(args)));
  const TensorMeta* meta = result.get_if<TensorMeta>();
  QDQ_CHECK(meta != nullptr, kUnsupported, "out_dtype of ", inner.target, " does not give a tensor");
  return tensor_meta(call.dtype(1, meta->dtype), meta->sizes);
}

Value eval_out_dtype(const Call<Tensor>& call) {
  const OpDef& inner = inner_op(call);
  const DType computed = promoted(call);
  std::vector<Value> args = inner_args(call, inner);
  for (Value& arg : args)
    if (const Tensor* tensor = arg.get_if<Tensor>()) arg = tensor->to(computed);
  const Value result = inner.eval(Call<Tensor>(inner, std::move(args)));
  return result.get_if<Tensor>()->to(call.dtype(1, computed));
}

}  // namespace

void add_higher_order_ops(std::vector<OpDef>& ops) {
  OpDef out_dtype = define(
      "higher_order::out_dtype(str op, ScalarType output_dtype, Tensor? arg0=None, Tensor? arg1=None, Tensor? "
      "arg2=None, Tensor? arg3=None, "
      "Tensor? arg4=None, Tensor? arg5=None, Tensor? arg6=None, Tensor? arg7=None, Tensor? arg8=None) -> Tensor",
      infer_out_dtype, eval_out_dtype);
  out_dtype.target = "torch.ops.higher_order.out_dtype";  // it has no overloads
  ops.push_back(std::move(out_dtype));
}

}  // namespace qdq
