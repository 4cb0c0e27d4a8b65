// Operators that show all elements in another shape or order, and windows and diagonals. Views alias their input's
// bytes, as in PyTorch.
#include <algorithm>

#include "op/elements.h"
#include "op/families.h"

namespace qdq {
namespace {

size_t rank_of(const Tensor& tensor) { return tensor.sizes().size(); }
size_t rank_of(const TensorMeta& meta) { return meta.sizes.size(); }

// What -1 stands for. Only a run tells it where its expression is longer than a size takes: a detector of images of
// open sizes divides sums of rounded quotients by each other.
SymInt rest_of(const SymInt& count, const SymInt& known) {
  try {
    return count.floor_div(known);
  } catch (const Error&) {
    return size_from_values();
  }
}

// Sizes in which one may be -1 for what is left.
SymShape complete_sizes(const std::string& op, const SymInt& count, SymShape sizes) {
  std::optional<size_t> open;
  SymInt known(1);
  for (size_t i = 0; i < sizes.size(); ++i) {
    const std::optional<int64_t> size = sizes[i].constant();
    QDQ_CHECK(!size || *size >= -1, kInvalidArgument, op, " got the shape ", to_string(sizes));
    if (size && *size == -1) {
      QDQ_CHECK(!open, kInvalidArgument, op, " got more than one -1 in the shape ", to_string(sizes));
      open = i;
    } else {
      known = known * sizes[i];
    }
  }
  if (open) {
    QDQ_CHECK(!(known == SymInt(0)), kInvalidArgument, op, " cannot tell what -1 stands for in ", to_string(sizes));
    sizes[*open] = rest_of(count, known);
  }
  QDQ_CHECK(may_be_equal(numel_of(sizes), count), kInvalidArgument, op, " cannot give ", count.to_string(),
            " elements the shape ", to_string(sizes));
  return sizes;
}
MetaValue infer_view(const Call<TensorMeta>& call) {
  const TensorMeta& x = call.tensor(0);
  return tensor_meta(x.dtype, complete_sizes(call.op().target, numel_of(x.sizes), call.syms(1)));
}
MetaValue infer_view_as(const Call<TensorMeta>& call) {
  const TensorMeta &x = call.tensor(0), &other = call.tensor(1);
  return tensor_meta(x.dtype, complete_sizes(call.op().target, numel_of(x.sizes), other.sizes));
}
MetaValue infer_flatten(const Call<TensorMeta>& call) {
  const TensorMeta& x = call.tensor(0);
  if (x.sizes.empty()) return tensor_meta(x.dtype, {SymInt(1)});
  const size_t first = axis_of(call, 1, rank_of(x)), last = axis_of(call, 2, rank_of(x));
  QDQ_CHECK(first <= last, kInvalidArgument, "flatten got start_dim ", first, " after end_dim ", last);
  SymShape sizes(x.sizes.begin(), x.sizes.begin() + static_cast<int64_t>(first));
  sizes.push_back(numel_of(
      SymShape(x.sizes.begin() + static_cast<int64_t>(first), x.sizes.begin() + static_cast<int64_t>(last) + 1)));
  sizes.insert(sizes.end(), x.sizes.begin() + static_cast<int64_t>(last) + 1, x.sizes.end());
  return tensor_meta(x.dtype, sizes);
}
MetaValue infer_ravel(const Call<TensorMeta>& call) {
  return tensor_meta(call.tensor(0).dtype, {numel_of(call.tensor(0).sizes)});
}
MetaValue infer_unflatten(const Call<TensorMeta>& call) {
  const TensorMeta& x = call.tensor(0);
  const size_t axis = axis_of(call, 1, rank_of(x));
  const SymShape parts = complete_sizes(call.op().target, x.sizes.at(axis), call.syms(2));
  SymShape sizes = x.sizes;
  sizes.erase(sizes.begin() + static_cast<int64_t>(axis));
  sizes.insert(sizes.begin() + static_cast<int64_t>(axis), parts.begin(), parts.end());
  return tensor_meta(x.dtype, sizes);
}
// A view where the strides allow it, else a copy. (PyTorch's view refuses then; a program that ran there does not get
// here.)
Value eval_reshape(const Call<Tensor>& call) { return call.tensor(0).reshape(constant_shape(result_meta(call).sizes)); }

// A size of 1 is taken away; of a symbolic size PyTorch assumes that it is not 1.
template <class T> std::vector<bool> squeezed_axes(const Call<T>& call, size_t rank) {
  std::vector<bool> out(rank, call.size() == 1);
  if (call.size() == 1 || rank == 0) return out;
  for (int64_t axis : call.integers(1)) out[static_cast<size_t>(wrap_axis(axis, static_cast<int64_t>(rank)))] = true;
  return out;
}
MetaValue infer_squeeze(const Call<TensorMeta>& call) {
  const TensorMeta& x = call.tensor(0);
  const std::vector<bool> chosen = squeezed_axes(call, rank_of(x));
  SymShape sizes;
  for (size_t a = 0; a < chosen.size(); ++a)
    if (!chosen[a] || !(x.sizes[a] == SymInt(1))) sizes.push_back(x.sizes[a]);
  return tensor_meta(x.dtype, sizes);
}
Value eval_squeeze(const Call<Tensor>& call) {
  const Tensor& x = call.tensor(0);
  const std::vector<bool> chosen = squeezed_axes(call, rank_of(x));
  Shape sizes, strides;
  for (size_t a = 0; a < chosen.size(); ++a) {
    if (chosen[a] && x.sizes()[a] == 1) continue;
    sizes.push_back(x.sizes()[a]);
    strides.push_back(x.strides()[a]);
  }
  return x.as_strided(sizes, strides, x.storage_offset());
}

MetaValue infer_unsqueeze(const Call<TensorMeta>& call) {
  const TensorMeta& x = call.tensor(0);
  SymShape sizes = x.sizes;
  sizes.insert(sizes.begin() + wrap_axis(call.integer(1), static_cast<int64_t>(sizes.size()) + 1), SymInt(1));
  return tensor_meta(x.dtype, sizes);
}
Value eval_unsqueeze(const Call<Tensor>& call) { return call.tensor(0).unsqueeze(call.integer(1)); }

MetaValue expand_meta(const Call<TensorMeta>& call, SymShape sizes) {
  const TensorMeta& x = call.tensor(0);
  QDQ_CHECK(sizes.size() >= rank_of(x), kInvalidArgument, call.op().target, " cannot expand shape ", to_string(x.sizes),
            " to ", to_string(sizes));
  const size_t added = sizes.size() - rank_of(x);
  for (size_t a = 0; a < rank_of(x); ++a) {
    SymInt& size = sizes[added + a];
    if (size == SymInt(-1)) size = x.sizes[a];
    QDQ_CHECK(x.sizes[a] == SymInt(1) || may_be_equal(x.sizes[a], size), kInvalidArgument, call.op().target,
              " cannot expand shape ", to_string(x.sizes), " to ", to_string(sizes));
  }
  return tensor_meta(x.dtype, sizes);
}
MetaValue infer_expand(const Call<TensorMeta>& call) { return expand_meta(call, call.syms(1)); }
MetaValue infer_expand_as(const Call<TensorMeta>& call) { return expand_meta(call, call.tensor(1).sizes); }
Value eval_expand(const Call<Tensor>& call) { return call.tensor(0).expand(constant_shape(result_meta(call).sizes)); }

// For each axis of the result, the axis of the input.
template <class T> std::vector<int64_t> permute_order(const Call<T>& call, size_t rank) {
  std::vector<int64_t> order = call.integers(1);
  QDQ_CHECK(order.size() == rank, kInvalidArgument, call.op().target, " needs ", rank, " axes, found ", order.size());
  std::vector<bool> seen(rank, false);
  for (int64_t& axis : order) {
    axis = wrap_axis(axis, static_cast<int64_t>(rank));
    QDQ_CHECK(!seen[static_cast<size_t>(axis)], kInvalidArgument, call.op().target, " got axis ", axis, " twice");
    seen[static_cast<size_t>(axis)] = true;
  }
  return order;
}
std::vector<int64_t> axes_in_order(size_t rank) {
  std::vector<int64_t> order(rank);
  for (size_t a = 0; a < rank; ++a) order[a] = static_cast<int64_t>(a);
  return order;
}
template <class T> std::vector<int64_t> transpose_order(const Call<T>& call, size_t rank) {
  std::vector<int64_t> order = axes_in_order(rank);
  if (rank > 0) std::swap(order[axis_of(call, 1, rank)], order[axis_of(call, 2, rank)]);
  return order;
}
template <class T> std::vector<int64_t> t_order(const Call<T>& call, size_t rank) {
  QDQ_CHECK(rank <= 2, kInvalidArgument, call.op().target, " needs at most 2 dimensions, found ", rank);
  std::vector<int64_t> order = axes_in_order(rank);
  std::reverse(order.begin(), order.end());
  return order;
}
template <class T> std::vector<int64_t> movedim_order(const Call<T>& call, size_t rank) {
  std::vector<int64_t> order = axes_in_order(rank);
  const int64_t from = static_cast<int64_t>(axis_of(call, 1, rank)), to = static_cast<int64_t>(axis_of(call, 2, rank));
  order.erase(order.begin() + from);
  order.insert(order.begin() + to, from);
  return order;
}
template <class T> std::vector<int64_t> movedims_order(const Call<T>& call, size_t rank) {
  const std::vector<int64_t> from = call.integers(1), to = call.integers(2);
  QDQ_CHECK(from.size() == to.size() && from.size() <= rank, kInvalidArgument, call.op().target, " got ", from.size(),
            " axes for ", to.size(), " places");
  std::vector<int64_t> order(rank, -1);
  std::vector<bool> moved(rank, false);
  for (size_t i = 0; i < from.size(); ++i) {
    const int64_t axis = wrap_axis(from[i], static_cast<int64_t>(rank)),
                  place = wrap_axis(to[i], static_cast<int64_t>(rank));
    QDQ_CHECK(!moved[static_cast<size_t>(axis)] && order[static_cast<size_t>(place)] < 0, kInvalidArgument,
              call.op().target, " got an axis twice");
    moved[static_cast<size_t>(axis)] = true;
    order[static_cast<size_t>(place)] = axis;
  }
  size_t next = 0;
  for (int64_t& axis : order) {
    if (axis >= 0) continue;
    while (moved[next]) ++next;
    axis = static_cast<int64_t>(next++);
  }
  return order;
}
template <class T> using Order = std::vector<int64_t> (*)(const Call<T>&, size_t);
template <Order<TensorMeta> order> MetaValue infer_order(const Call<TensorMeta>& call) {
  const TensorMeta& x = call.tensor(0);
  SymShape sizes;
  for (int64_t axis : order(call, rank_of(x))) sizes.push_back(x.sizes[static_cast<size_t>(axis)]);
  return tensor_meta(x.dtype, sizes);
}
template <Order<Tensor> order> Value eval_order(const Call<Tensor>& call) {
  return call.tensor(0).permute(order(call, rank_of(call.tensor(0))));
}

// The elements (i, i + offset) of two axes as a new last axis.
MetaValue infer_diagonal(const Call<TensorMeta>& call) {
  SymShape sizes = call.tensor(0).sizes;
  const size_t a = axis_of(call, 2, sizes.size()), b = axis_of(call, 3, sizes.size());
  QDQ_CHECK(a != b, kInvalidArgument, call.op().target, " needs two different axes");
  const int64_t offset = call.integer(1);
  constexpr int64_t kMost = int64_t{1} << 40;
  QDQ_CHECK(offset >= -kMost && offset <= kMost, kInvalidArgument, call.op().target, " got the offset ", offset);
  const SymInt rows = offset < 0 ? sizes[a] + SymInt(offset) : sizes[a],
               columns = offset > 0 ? sizes[b] - SymInt(offset) : sizes[b];
  const std::optional<int64_t> m = rows.constant(), n = columns.constant();
  SymInt length = rows;
  if (m && n) length = std::max<int64_t>(std::min(*m, *n), 0);
  else if (sizes[a] == sizes[b]) length = offset < 0 ? rows : columns;
  else
    fail(ErrorCode::kUnsupported, call.op().target, " of the sizes ", sizes[a].to_string(), " and ",
         sizes[b].to_string(), ", of which it is not known which is smaller");
  sizes.erase(sizes.begin() + static_cast<std::ptrdiff_t>(std::max(a, b)));
  sizes.erase(sizes.begin() + static_cast<std::ptrdiff_t>(std::min(a, b)));
  sizes.push_back(length);
  return tensor_meta(call.tensor(0).dtype, sizes);
}
Tensor diagonal_of(const Tensor& x, int64_t offset, int64_t a, int64_t b, const Shape& sizes) {
  Shape strides = x.strides();
  a = wrap_axis(a, x.dim());
  b = wrap_axis(b, x.dim());
  const int64_t start = sizes.back() == 0 ? 0
                        : offset < 0      ? -offset * strides[static_cast<size_t>(a)]
                                          : offset * strides[static_cast<size_t>(b)];
  const int64_t step = strides[static_cast<size_t>(a)] + strides[static_cast<size_t>(b)];
  strides.erase(strides.begin() + std::max(a, b));
  strides.erase(strides.begin() + std::min(a, b));
  strides.push_back(step);
  return x.as_strided(sizes, strides, x.storage_offset() + start);
}
Value eval_diagonal(const Call<Tensor>& call) {
  const Shape sizes = constant_shape(result_meta(call).sizes);
  return diagonal_of(call.tensor(0), call.integer(1), call.integer(2), call.integer(3), sizes);
}
// The opposite: the last axis becomes a diagonal of zeros.
MetaValue infer_diag_embed(const Call<TensorMeta>& call) {
  SymShape sizes = call.tensor(0).sizes;
  const size_t rank = sizes.size() + 1;
  QDQ_CHECK(!sizes.empty(), kInvalidArgument, call.op().target, " needs a tensor with axes");
  const size_t a = axis_of(call, 2, rank), b = axis_of(call, 3, rank);
  QDQ_CHECK(a != b, kInvalidArgument, call.op().target, " needs two different axes");
  const int64_t offset = call.integer(1);
  constexpr int64_t kMost = int64_t{1} << 40;
  QDQ_CHECK(offset >= -kMost && offset <= kMost, kInvalidArgument, call.op().target, " got the offset ", offset);
  const SymInt extent = sizes.back() + SymInt(std::abs(offset));
  sizes.pop_back();
  sizes.insert(sizes.begin() + static_cast<std::ptrdiff_t>(std::min(a, b)), extent);
  sizes.insert(sizes.begin() + static_cast<std::ptrdiff_t>(std::max(a, b)), extent);
  return tensor_meta(call.tensor(0).dtype, sizes);
}
Value eval_diag_embed(const Call<Tensor>& call) {
  const Tensor out = empty_result(call);
  diagonal_of(out, call.integer(1), call.integer(2), call.integer(3), call.tensor(0).sizes()).copy_from(call.tensor(0));
  return out;
}

// Windows of `size` along an axis, `step` apart, as a new last axis.
MetaValue infer_unfold(const Call<TensorMeta>& call) {
  SymShape sizes = call.tensor(0).sizes;
  const size_t axis = axis_or_scalar(call, 1, sizes.size());
  const int64_t size = call.integer(2), step = call.integer(3);
  const SymInt extent = sizes.empty() ? SymInt(1) : sizes[axis];
  constexpr int64_t kMost = int64_t{1} << 31;
  QDQ_CHECK(
      size >= 0 && step > 0 && step <= kMost && size <= kMost && (!extent.is_constant() || size <= *extent.constant()),
      kInvalidArgument, call.op().target, " cannot take windows of ", size, " every ", step, " elements of ",
      extent.to_string());
  if (!sizes.empty()) sizes[axis] = (extent - SymInt(size)).floor_div(SymInt(step)) + SymInt(1);
  sizes.push_back(size);
  return tensor_meta(call.tensor(0).dtype, sizes);
}
Value eval_unfold(const Call<Tensor>& call) {
  const Tensor& x = call.tensor(0);
  Shape strides = x.strides();
  strides.push_back(x.dim() == 0 ? 1 : x.stride(call.integer(1)));
  if (x.dim() > 0) strides[axis_of(call, 1, x.sizes().size())] *= call.integer(3);
  return x.as_strided(constant_shape(result_meta(call).sizes), strides, x.storage_offset());
}

// The gradient of unfold: windows laid back to where they came from, the first one first; what several have is added.
MetaValue infer_unfold_backward(const Call<TensorMeta>& call) {
  const TensorMeta& windows = call.tensor(0);
  const SymShape sizes = call.syms(1);
  QDQ_CHECK(!sizes.empty(), kUnsupported, call.op().target, " makes a tensor without axes");
  const MetaValue back = run_op<TensorMeta>(
      "unfold", {tensor_meta(windows.dtype, sizes), call.integer(2), call.integer(3), call.integer(4)});
  const SymShape& wanted = back.get_if<TensorMeta>()->sizes;
  bool is_same = windows.sizes.size() == wanted.size();
  for (size_t i = 0; is_same && i < wanted.size(); ++i) is_same = may_be_equal(windows.sizes[i], wanted[i]);
  QDQ_CHECK(is_same, kInvalidArgument, call.op().target, " needs windows of shape ", to_string(wanted), ", found ",
            to_string(windows.sizes));
  return tensor_meta(windows.dtype, sizes);
}
Value eval_unfold_backward(const Call<Tensor>& call) {
  const Tensor out = empty_result(call);
  const Tensor& windows = call.tensor(0);
  const int64_t axis = static_cast<int64_t>(axis_of(call, 2, out.sizes().size())), size = call.integer(3),
                step = call.integer(4);
  for (int64_t i = 0; i < windows.size(axis); ++i) {
    const Tensor place = out.slice(axis, i * step, i * step + size);
    const Value window = run_op<Tensor>("movedim.int", {windows.select(axis, i), -1, axis});
    place.copy_from(*run_op<Tensor>("add.Tensor", {place, window}).get_if<Tensor>());
  }
  return out;
}

MetaValue infer_as_strided(const Call<TensorMeta>& call) { return tensor_meta(call.tensor(0).dtype, call.syms(1)); }
Value eval_as_strided(const Call<Tensor>& call) {
  const Tensor& x = call.tensor(0);
  return x.as_strided(call.integers(1), call.integers(2), call.is_none(3) ? x.storage_offset() : call.integer(3));
}

void add_shape_views(std::vector<OpDef>& ops) {
  const auto add = [&](const char* line, Infer infer, Eval eval) {
    ops.push_back(keeping_numbers(define(line, infer, eval, kSharesQparams, Family::kView)));
  };
  add("aten::view(Tensor(a) self, SymInt[] size) -> Tensor(a)", infer_view, eval_reshape);
  add("aten::view_copy(Tensor self, SymInt[] size) -> Tensor", infer_view, copied<eval_reshape>);
  add("aten::_unsafe_view(Tensor self, SymInt[] size) -> Tensor", infer_view, eval_reshape);
  add("aten::reshape(Tensor(a) self, SymInt[] shape) -> Tensor(a)", infer_view, eval_reshape);
  add("aten::view_as(Tensor(a) self, Tensor other) -> Tensor(a)", infer_view_as, eval_reshape);
  add("aten::reshape_as(Tensor(a) self, Tensor other) -> Tensor(a)", infer_view_as, eval_reshape);
  add("aten::flatten.using_ints(Tensor(a) self, int start_dim=0, int end_dim=-1) -> Tensor(a)", infer_flatten,
      eval_reshape);
  add("aten::ravel(Tensor(a) self) -> Tensor(a)", infer_ravel, eval_reshape);
  add("aten::unflatten.int(Tensor(a) self, int dim, SymInt[] sizes) -> Tensor(a)", infer_unflatten, eval_reshape);
  add("aten::squeeze(Tensor(a) self) -> Tensor(a)", infer_squeeze, eval_squeeze);
  add("aten::squeeze.dim(Tensor(a) self, int dim) -> Tensor(a)", infer_squeeze, eval_squeeze);
  add("aten::squeeze.dims(Tensor(a) self, int[] dim) -> Tensor(a)", infer_squeeze, eval_squeeze);
  add("aten::squeeze_copy(Tensor self) -> Tensor", infer_squeeze, copied<eval_squeeze>);
  add("aten::squeeze_copy.dim(Tensor self, int dim) -> Tensor", infer_squeeze, copied<eval_squeeze>);
  add("aten::squeeze_copy.dims(Tensor self, int[] dim) -> Tensor", infer_squeeze, copied<eval_squeeze>);
  add("aten::unsqueeze(Tensor(a) self, int dim) -> Tensor(a)", infer_unsqueeze, eval_unsqueeze);
  add("aten::unsqueeze_copy(Tensor self, int dim) -> Tensor", infer_unsqueeze, copied<eval_unsqueeze>);
  add("aten::expand(Tensor(a) self, SymInt[] size, *, bool implicit=False) -> Tensor(a)", infer_expand, eval_expand);
  add("aten::expand_copy(Tensor self, SymInt[] size, *, bool implicit=False) -> Tensor", infer_expand,
      copied<eval_expand>);
  add("aten::expand_as(Tensor(a) self, Tensor other) -> Tensor(a)", infer_expand_as, eval_expand);
  add("aten::broadcast_to(Tensor(a) self, SymInt[] size) -> Tensor(a)", infer_expand, eval_expand);
}

void add_axis_views(std::vector<OpDef>& ops) {
  const auto add = [&](const char* line, Infer infer, Eval eval) {
    ops.push_back(keeping_numbers(define(line, infer, eval, kSharesQparams, Family::kView)));
  };
  constexpr Infer permute = infer_order<permute_order<TensorMeta>>,
                  transpose = infer_order<transpose_order<TensorMeta>>;
  constexpr Eval run_permute = eval_order<permute_order<Tensor>>, run_transpose = eval_order<transpose_order<Tensor>>;
  add("aten::permute(Tensor(a) self, int[] dims) -> Tensor(a)", permute, run_permute);
  add("aten::permute_copy(Tensor self, int[] dims) -> Tensor", permute, copied<run_permute>);
  add("aten::transpose.int(Tensor(a) self, int dim0, int dim1) -> Tensor(a)", transpose, run_transpose);
  add("aten::transpose_copy.int(Tensor self, int dim0, int dim1) -> Tensor", transpose, copied<run_transpose>);
  add("aten::swapaxes(Tensor(a) self, int axis0, int axis1) -> Tensor(a)", transpose, run_transpose);
  add("aten::swapdims(Tensor(a) self, int dim0, int dim1) -> Tensor(a)", transpose, run_transpose);
  add("aten::t(Tensor(a) self) -> Tensor(a)", infer_order<t_order<TensorMeta>>, eval_order<t_order<Tensor>>);
  add("aten::t_copy(Tensor self) -> Tensor", infer_order<t_order<TensorMeta>>, copied<eval_order<t_order<Tensor>>>);
  add("aten::movedim.intlist(Tensor(a) self, int[] source, int[] destination) -> Tensor(a)",
      infer_order<movedims_order<TensorMeta>>, eval_order<movedims_order<Tensor>>);
  add("aten::diagonal(Tensor(a) self, int offset=0, int dim1=0, int dim2=1) -> Tensor(a)", infer_diagonal,
      eval_diagonal);
  add("aten::linalg_diagonal(Tensor(a) A, *, int offset=0, int dim1=-2, int dim2=-1) -> Tensor(a)", infer_diagonal,
      eval_diagonal);
  add("aten::unfold(Tensor(a) self, int dimension, int size, int step) -> Tensor(a)", infer_unfold, eval_unfold);
  add("aten::unfold_copy(Tensor self, int dimension, int size, int step) -> Tensor", infer_unfold, copied<eval_unfold>);
  ops.push_back(
      define("aten::unfold_backward(Tensor grad_in, SymInt[] input_sizes, int dim, int size, int step) -> Tensor",
             infer_unfold_backward, eval_unfold_backward));
  add("aten::as_strided(Tensor(a) self, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) -> Tensor(a)",
      infer_as_strided, eval_as_strided);
  add("aten::as_strided_copy(Tensor self, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) -> Tensor",
      infer_as_strided, copied<eval_as_strided>);
  add("aten::_reshape_copy(Tensor self, SymInt[] size) -> Tensor", infer_view, copied<eval_reshape>);
  add("aten::_reshape_alias(Tensor(a) self, SymInt[] size, SymInt[] stride) -> Tensor(a)", infer_view, eval_reshape);
  add("aten::movedim.int(Tensor(a) self, int source, int destination) -> Tensor(a)",
      infer_order<movedim_order<TensorMeta>>, eval_order<movedim_order<Tensor>>);
  // Its zeros are new.
  ops.push_back(define("aten::diag_embed(Tensor self, int offset=0, int dim1=-2, int dim2=-1) -> Tensor",
                       infer_diag_embed, eval_diag_embed, kSharesQparams));
}

}  // namespace

void add_view_ops(std::vector<OpDef>& ops) {
  add_shape_views(ops);
  add_axis_views(ops);
}

}  // namespace qdq
