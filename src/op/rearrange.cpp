// Operators that others make up and that rearrange elements: joining, taking apart, flips, transpositions, diagonals.

#include "op/composed.h"
#include "op/elements.h"
#include "op/families.h"

namespace qdq {
namespace {

// At least so many axes: in front for 1 and 2, the third behind.
template <class T> BasicValue<T> with_axes(BasicValue<T> x, size_t axes) {
  size_t rank = shape_of(x).size();
  if (rank == 0 && axes > 0) x = axis_in_front(x, 0), ++rank;
  if (rank == 1 && axes > 1) x = axis_in_front(x, 0), ++rank;
  return rank == 2 && axes > 2 ? axis_in_front(x, 2) : x;
}
template <class T, size_t axes> BasicValue<T> at_least(const Call<T>& call) {
  if (call[0].is_tensor()) return with_axes(call[0], axes);
  ValueList<T> out;
  for (const T& tensor : call.tensors(0)) out.push_back(with_axes<T>(tensor, axes));
  return out;
}
template <class T, size_t axes> BasicValue<T> stacked(const Call<T>& call) {
  ValueList<T> parts;
  for (const T& tensor : call.tensors(0)) parts.push_back(with_axes<T>(tensor, axes));
  QDQ_CHECK(!parts.empty(), kInvalidArgument, call.op().target, " needs at least one tensor");
  const int64_t axis = axes == 3 ? 2 : axes == 2 || shape_of(parts[0]).size() == 1 ? 0 : 1;
  return run_op<T>("cat", {parts, axis});
}
template <class T> BasicValue<T> column_stack(const Call<T>& call) {
  ValueList<T> parts;
  for (const T& tensor : call.tensors(0))
    parts.push_back(shape_of(tensor).size() < 2 ? reshaped<T>(tensor, {numel_of(shape_of(tensor)), 1})
                                                : BasicValue<T>(tensor));
  return run_op<T>("cat", {parts, 1});
}
template <class T> BasicValue<T> block_diag(const Call<T>& call) {
  SymInt columns = 0, before = 0;
  ValueList<T> parts, rows;
  for (const T& tensor : call.tensors(0)) {
    parts.push_back(with_axes<T>(tensor, 2));
    QDQ_CHECK(shape_of(parts.back()).size() == 2, kInvalidArgument, call.op().target, " needs matrices, found shape ",
              to_string(shape_of(parts.back())));
    columns = columns + shape_of(parts.back())[1];
  }
  for (const BasicValue<T>& part : parts) {
    const SymInt own = shape_of(part)[1];
    rows.push_back(run_op<T>("constant_pad_nd", {part, ValueList<T>{before, columns - before - own}}));
    before = before + own;
  }
  QDQ_CHECK(!rows.empty(), kInvalidArgument, call.op().target, " needs at least one tensor");
  return run_op<T>("cat", {rows, 0});
}
template <class T> BasicValue<T> meshgrid(const Call<T>& call) {
  return run_op<T>("meshgrid.indexing", {call[0], "ij"});
}
template <class T> BasicValue<T> cartesian_prod(const Call<T>& call) {
  if (call.tensors(0).size() == 1) return call.tensors(0)[0];
  const auto grid = meshgrid(call);
  ValueList<T> columns;
  for (const BasicValue<T>& axis : *grid.template get_if<ValueList<T>>())
    columns.push_back(run_op<T>("flatten.using_ints", {axis}));
  return run_op<T>("stack", {columns, 1});
}
template <class T> BasicValue<T> broadcast_tensors(const Call<T>& call) {
  SymShape sizes;
  for (const T& tensor : call.tensors(0)) sizes = broadcast_shapes(sizes, shape_of(tensor));
  ValueList<T> out;
  for (const T& tensor : call.tensors(0)) out.push_back(run_op<T>("expand", {tensor, list_of<T>(sizes)}));
  return out;
}
template <class T> BasicValue<T> stack_of(const Call<T>& call) { return run_op<T>("stack", {call[0], call[1]}); }
// hsplit, vsplit, dsplit: by the second, first or third axis (hsplit of a vector: by the first).
template <class T, int64_t axis> BasicValue<T> split_by(const Call<T>& call) {
  const size_t rank = shape_of(call[0]).size();
  QDQ_CHECK(static_cast<int64_t>(rank) > axis || (axis == 1 && rank == 1), kInvalidArgument, call.op().target,
            " cannot split shape ", to_string(shape_of(call[0])));
  const bool by_list = call[1].template is<ValueList<T>>();
  return run_op<T>(by_list ? "tensor_split.indices" : "tensor_split.sections",
                   {call[0], call[1], rank == 1 ? int64_t{0} : axis});
}
template <class T> BasicValue<T> flip_rows(const Call<T>& call) {
  return run_op<T>("flip", {call[0], ValueList<T>{0}});
}
template <class T> BasicValue<T> flip_columns(const Call<T>& call) {
  return run_op<T>("flip", {call[0], ValueList<T>{1}});
}
template <class T> BasicValue<T> rot90(const Call<T>& call) {
  const std::vector<int64_t> axes = call.integers(2);
  const int64_t quarters = (call.integer(1) % 4 + 4) % 4, rank = static_cast<int64_t>(shape_of(call[0]).size());
  QDQ_CHECK(axes.size() == 2 && wrap_axis(axes[0], rank) != wrap_axis(axes[1], rank), kInvalidArgument,
            call.op().target, " needs two different axes");
  if (quarters == 0) return run_op<T>("clone", {call[0]});
  if (quarters == 2) return run_op<T>("flip", {call[0], call[2]});
  const auto flipped = run_op<T>("flip", {call[0], ValueList<T>{axes[quarters == 1 ? 1 : 0]}});
  return run_op<T>("transpose.int", {flipped, axes[0], axes[1]});
}
// The differences of neighbours, n times.
template <class T> BasicValue<T> diff(const Call<T>& call) {
  const int64_t n = call.integer(1), axis = static_cast<int64_t>(axis_of(call, 2, shape_of(call[0]).size()));
  ValueList<T> parts{call[0]};
  if (!call.is_none(3)) parts.insert(parts.begin(), call[3]);
  if (!call.is_none(4)) parts.push_back(call[4]);
  BasicValue<T> x = parts.size() == 1 ? call[0] : run_op<T>("cat", {parts, axis});
  constexpr int64_t kMost = 4096;
  QDQ_CHECK(n >= 0 && n <= kMost, kInvalidArgument, call.op().target, " needs 0 to ", kMost, " times, found ", n);
  if (n == 0) return run_op<T>("clone", {x});
  for (int64_t i = 0; i < n; ++i) {
    const SymInt size = shape_of(x)[static_cast<size_t>(axis)];
    if (size == SymInt(0)) break;
    const auto next = run_op<T>("narrow", {x, axis, 1, size - SymInt(1)}),
               previous = run_op<T>("narrow", {x, axis, 0, size - SymInt(1)});
    const bool is_bool = operand_kind(call, 0).dtype == DType::kBool;
    x = run_op<T>(is_bool ? "logical_xor" : "sub.Tensor", {next, previous});
  }
  return x;
}
template <class T> BasicValue<T> matrix_transposed(const Call<T>& call) {
  return run_op<T>("transpose.int", {call[0], -2, -1});
}
// The conjugate too, where numbers are complex.
template <class T> BasicValue<T> conjugate_transposed(const Call<T>& call) {
  const BasicValue<T> out = matrix_transposed(call);
  return has_complex(call[0]) ? run_op<T>("conj_physical", {out}) : out;
}
template <class T> BasicValue<T> all_transposed(const Call<T>& call) {
  ValueList<T> order;
  for (int64_t axis = static_cast<int64_t>(shape_of(call[0]).size()); axis-- > 0;) order.push_back(axis);
  return run_op<T>("permute", {call[0], order});
}
// Diagonals.

template <class T> BasicValue<T> diagonal_copy(const Call<T>& call) {
  return run_op<T>("clone", {run_op<T>("diagonal", {call[0], call[1], call[2], call[3]})});
}
template <class T> BasicValue<T> diag(const Call<T>& call) {
  const size_t rank = shape_of(call[0]).size();
  QDQ_CHECK(rank == 1 || rank == 2, kInvalidArgument, call.op().target, " needs a vector or a matrix, found shape ",
            to_string(shape_of(call[0])));
  if (rank == 1) return run_op<T>("diag_embed", {call[0], call[1]});
  return run_op<T>("diagonal_copy", {call[0], call[1]});
}
template <class T> BasicValue<T> diagflat(const Call<T>& call) {
  return run_op<T>("diag_embed", {run_op<T>("reshape", {call[0], ValueList<T>{-1}}), call[1]});
}
template <class T> BasicValue<T> trace(const Call<T>& call) {
  QDQ_CHECK(shape_of(call[0]).size() == 2, kInvalidArgument, call.op().target, " needs a matrix, found shape ",
            to_string(shape_of(call[0])));
  return run_op<T>("sum", {run_op<T>("diagonal", {call[0]})});
}

}  // namespace

void add_rearranging_ops(std::vector<OpDef>& ops) {
  const auto add = [&](const char* line, Infer infer, Eval eval) {
    ops.push_back(define(line, infer, eval, {.activation = 0}));
  };
  add("aten::atleast_1d(Tensor self) -> Tensor", at_least<TensorMeta, 1>, at_least<Tensor, 1>);
  add("aten::atleast_2d(Tensor self) -> Tensor", at_least<TensorMeta, 2>, at_least<Tensor, 2>);
  add("aten::atleast_3d(Tensor self) -> Tensor", at_least<TensorMeta, 3>, at_least<Tensor, 3>);
  add("aten::atleast_1d.Sequence(Tensor[] tensors) -> Tensor[]", at_least<TensorMeta, 1>, at_least<Tensor, 1>);
  add("aten::atleast_2d.Sequence(Tensor[] tensors) -> Tensor[]", at_least<TensorMeta, 2>, at_least<Tensor, 2>);
  add("aten::atleast_3d.Sequence(Tensor[] tensors) -> Tensor[]", at_least<TensorMeta, 3>, at_least<Tensor, 3>);
  add("aten::hstack(Tensor[] tensors) -> Tensor", stacked<TensorMeta, 1>, stacked<Tensor, 1>);
  add("aten::vstack(Tensor[] tensors) -> Tensor", stacked<TensorMeta, 2>, stacked<Tensor, 2>);
  add("aten::row_stack(Tensor[] tensors) -> Tensor", stacked<TensorMeta, 2>, stacked<Tensor, 2>);
  add("aten::dstack(Tensor[] tensors) -> Tensor", stacked<TensorMeta, 3>, stacked<Tensor, 3>);
  add("aten::column_stack(Tensor[] tensors) -> Tensor", column_stack, column_stack);
  add("aten::_stack(Tensor[] tensors, int dim=0) -> Tensor", stack_of, stack_of);
  add("aten::block_diag(Tensor[] tensors) -> Tensor", block_diag, block_diag);
  add("aten::meshgrid(Tensor[] tensors) -> Tensor[]", meshgrid, meshgrid);
  add("aten::cartesian_prod(Tensor[] tensors) -> Tensor", cartesian_prod, cartesian_prod);
  add("aten::broadcast_tensors(Tensor[] tensors) -> Tensor[]", broadcast_tensors, broadcast_tensors);
  add("aten::hsplit.int(Tensor(a -> *) self, int sections) -> Tensor(a)[]", split_by<TensorMeta, 1>,
      split_by<Tensor, 1>);
  add("aten::hsplit.array(Tensor(a -> *) self, int[] indices) -> Tensor(a)[]", split_by<TensorMeta, 1>,
      split_by<Tensor, 1>);
  add("aten::vsplit.int(Tensor(a -> *) self, int sections) -> Tensor(a)[]", split_by<TensorMeta, 0>,
      split_by<Tensor, 0>);
  add("aten::vsplit.array(Tensor(a -> *) self, int[] indices) -> Tensor(a)[]", split_by<TensorMeta, 0>,
      split_by<Tensor, 0>);
  add("aten::dsplit.int(Tensor(a -> *) self, int sections) -> Tensor(a)[]", split_by<TensorMeta, 2>,
      split_by<Tensor, 2>);
  add("aten::dsplit.array(Tensor(a -> *) self, int[] indices) -> Tensor(a)[]", split_by<TensorMeta, 2>,
      split_by<Tensor, 2>);
  add("aten::flipud(Tensor self) -> Tensor", flip_rows, flip_rows);
  add("aten::fliplr(Tensor self) -> Tensor", flip_columns, flip_columns);
  add("aten::rot90(Tensor self, int k=1, int[] dims=[0, 1]) -> Tensor", rot90, rot90);
  add("aten::diff(Tensor self, int n=1, int dim=-1, Tensor? prepend=None, Tensor? append=None) -> Tensor", diff, diff);
  add("aten::mT(Tensor(a) self) -> Tensor(a)", matrix_transposed, matrix_transposed);
  add("aten::adjoint(Tensor(a) self) -> Tensor(a)", conjugate_transposed, conjugate_transposed);
  add("aten::numpy_T(Tensor(a) self) -> Tensor(a)", all_transposed, all_transposed);
  add("aten::diagonal_copy(Tensor self, int offset=0, int dim1=0, int dim2=1) -> Tensor", diagonal_copy, diagonal_copy);
  add("aten::diag(Tensor self, int diagonal=0) -> Tensor", diag, diag);
  add("aten::diagflat(Tensor self, int offset=0) -> Tensor", diagflat, diagflat);
  add("aten::trace(Tensor self) -> Tensor", trace, trace);
  add("aten::mH(Tensor(a) self) -> Tensor(a)", conjugate_transposed, conjugate_transposed);
}

}  // namespace qdq
