// Parts of shape inference that the families share. Sizes may be symbolic: a condition that cannot be decided then
// counts as true.
#pragma once

#include "op/op.h"

namespace qdq {

TensorMeta tensor_meta(DType dtype, SymShape sizes);
// Sizes and dtype of a tensor.
TensorMeta meta_of(const Tensor& tensor);
// The sizes. Throws Error{kInternal} if symbols are left.
Shape constant_shape(const SymShape& sizes);

// What the operator's own inference says of this call. So an evaluation allocates exactly what is inferred, and its
// arguments are checked by then.
MetaValue infer_call(const Call<Tensor>& call);
TensorMeta result_meta(const Call<Tensor>& call);
// A zeroed tensor of the inferred shape and dtype, for operators with one result.
Tensor empty_result(const Call<Tensor>& call);

// The result of another operator: its metadata from metadata, its tensors from tensors. Arguments in the order of the
// schema, keyword-only ones too; what is left out has its default.
template <class T> BasicValue<T> run_op(const OpDef& op, std::vector<BasicValue<T>> args);
// Of the ATen operator of this name: "mul.Tensor", "gather".
template <class T> BasicValue<T> run_op(std::string_view local_name, std::vector<BasicValue<T>> args);

// The size of a result that only the values of the arguments tell, as how many elements of a mask are true; infer_value
// makes a symbol of it. Where an operator has several, size_symbols.h tells them apart.
SymInt size_from_values();

// Sets meta.val of a call from those of its arguments. A size from values stays the symbol that it was, or becomes one
// that the graph does not have yet: u0, u1, ... as torch.export names them.
void infer_value(Node& call);
// The result of a call whose arguments are constants, get_attr nodes of the program or lists of them. Throws
// Error{kInternal} for others.
Tensor eval_constant(const Program& program, const Node& call);

// The result is like the first argument, as for in-place operators and most pointwise ones.
MetaValue infer_like_self(const Call<TensorMeta>& call);
// Nothing is returned.
MetaValue infer_none(const Call<TensorMeta>& call);

SymShape broadcast_shapes(const SymShape& a, const SymShape& b);
SymInt numel_of(const SymShape& sizes);
// Whether two sizes can be equal: false only for two different numbers.
bool may_be_equal(const SymInt& a, const SymInt& b);
// Where the schema has this argument, if it has it.
template <class T> std::optional<size_t> place_of(const Call<T>& call, std::string_view name) {
  return call.op().schema->index_of(name);
}
// The axis argument as an index from the front. Throws Error{kInvalidArgument} if there is no such axis.
template <class T> size_t axis_of(const Call<T>& call, size_t i, size_t rank) {
  QDQ_CHECK(rank > 0, kInvalidArgument, call.op().target, " got an axis for a tensor without axes");
  return static_cast<size_t>(wrap_axis(call.integer(i), static_cast<int64_t>(rank)));
}
// The same where PyTorch lets a scalar count as one axis.
template <class T> size_t axis_or_scalar(const Call<T>& call, size_t i, size_t rank) {
  return static_cast<size_t>(wrap_axis(call.integer(i), std::max<int64_t>(static_cast<int64_t>(rank), 1)));
}
// Axes of an "int[]?" argument, sorted, each once; all axes for None and for [].
template <class T> std::vector<size_t> axes_of(const Call<T>& call, size_t i, size_t rank);

// What var and std take off the number of elements, by `correction` or by `unbiased`.
template <class T> double correction_of(const Call<T>& call) {
  if (const std::optional<size_t> i = place_of(call, "correction")) return call.is_none(*i) ? 1 : call.number(*i);
  const std::optional<size_t> i = place_of(call, "unbiased");
  return i && !call.boolean(*i) ? 0 : 1;
}

// Promotion (ATen/native/TypeProperties.cpp, result_type): tensors with axes outrank 0-d tensors, those outrank Python
// numbers, as long as the kind (bool < integer < float) does not grow.
DType promote(DType a, DType b);
struct OperandKind {
  DType dtype;
  int rank;  // 0: Python number, 1: 0-d tensor, 2: tensor with axes
};
DType result_dtype(std::initializer_list<OperandKind> operands);
// Of the i-th argument, a tensor or a number.
template <class T> OperandKind operand_kind(const Call<T>& call, size_t i);
// The dtype of operators whose result is always a float (sigmoid, div): integers become f32.
inline DType float_dtype(DType dtype) { return is_floating(dtype) ? dtype : DType::kF32; }

}  // namespace qdq
