// Operators that others make up, as PyTorch's own definitions do. Each is written once, for shapes and for tensors.
#include <algorithm>
#include <cmath>
#include <limits>

#include "op/elements.h"
#include "op/families.h"

namespace qdq {
namespace {

template <class T> using List = typename BasicValue<T>::List;

SymShape shape_of(const Tensor& tensor) { return {tensor.sizes().begin(), tensor.sizes().end()}; }
SymShape shape_of(const TensorMeta& meta) { return meta.sizes; }
template <class T> const T& tensor_of(const BasicValue<T>& value) {
  const T* tensor = value.template get_if<T>();
  QDQ_CHECK(tensor != nullptr, kInvalidArgument, "a tensor is wanted");
  return *tensor;
}
template <class T> SymShape shape_of(const BasicValue<T>& value) { return shape_of(tensor_of(value)); }
template <class T> BasicValue<T> list_of(const SymShape& sizes) { return List<T>(sizes.begin(), sizes.end()); }
template <class T> BasicValue<T> reshaped(const BasicValue<T>& x, const SymShape& sizes) {
  return run_op<T>("reshape", {x, list_of<T>(sizes)});
}
template <class T> BasicValue<T> axis_in_front(const BasicValue<T>& x, int64_t axis) {
  return run_op<T>("unsqueeze", {x, axis});
}
template <class T> BasicValue<T> item(const BasicValue<T>& list, size_t i) {
  return list.template get_if<List<T>>()->at(i);
}

// Blends.

// self + weight (end - self), from the nearer end.
template <class T> BasicValue<T> lerp(const Call<T>& call) {
  using V = BasicValue<T>;
  const V distance = run_op<T>("sub.Tensor", {call[1], call[0]});
  const V from_self = run_op<T>("add.Tensor", {call[0], run_op<T>("mul.Tensor", {distance, call[2]})});
  const V rest = run_op<T>("rsub.Scalar", {run_op<T>("mul.Tensor", {run_op<T>("ones_like", {distance}), call[2]}), 1});
  const V from_end = run_op<T>("sub.Tensor", {call[1], run_op<T>("mul.Tensor", {distance, rest})});
  const V weight = call[2].is_tensor() ? call[2] : run_op<T>("full_like", {distance, call[2]});
  const V near = run_op<T>("lt.Scalar", {run_op<T>("abs", {weight}), 0.5});
  return run_op<T>("where.self", {near, from_self, from_end});
}

// Products.

template <class T> BasicValue<T> addmv(const Call<T>& call) {
  const auto product =
      run_op<T>("addmm", {axis_in_front(call[0], -1), call[1], axis_in_front(call[2], -1), call[3], call[4]});
  return run_op<T>("squeeze.dim", {product, -1});
}
template <class T> BasicValue<T> addr(const Call<T>& call) {
  return run_op<T>("addmm", {call[0], axis_in_front(call[1], 1), axis_in_front(call[2], 0), call[3], call[4]});
}
// The products of all pairs of matrices, added up.
template <class T> BasicValue<T> addbmm(const Call<T>& call) {
  const SymShape a = shape_of(call[1]), b = shape_of(call[2]);
  QDQ_CHECK(a.size() == 3 && b.size() == 3, kInvalidArgument, call.op().target, " wants two stacks of matrices, found ",
            to_string(a), " and ", to_string(b));
  const auto rows = run_op<T>("permute", {call[1], List<T>{1, 0, 2}});
  return run_op<T>("addmm", {call[0], reshaped(rows, {a[1], a[0] * a[2]}), reshaped(call[2], {b[0] * b[1], b[2]}),
                             call[3], call[4]});
}
// Axes of self that are not summed, then those of other.
template <class T>
BasicValue<T> contracted(const Call<T>& call, const std::vector<size_t>& of_self, const std::vector<size_t>& of_other) {
  const SymShape a = shape_of(call[0]), b = shape_of(call[1]);
  SymShape sizes;
  SymInt rows = 1, columns = 1, depth = 1;
  List<T> self_order, other_order;
  const auto is_in = [](const std::vector<size_t>& axes, size_t axis) {
    return std::find(axes.begin(), axes.end(), axis) != axes.end();
  };
  for (size_t axis = 0; axis < a.size(); ++axis) {
    if (is_in(of_self, axis)) continue;
    self_order.push_back(static_cast<int64_t>(axis));
    rows = rows * a[axis];
    sizes.push_back(a[axis]);
  }
  for (size_t i = 0; i < of_self.size(); ++i) {
    QDQ_CHECK(may_be_equal(a[of_self[i]], b[of_other[i]]), kInvalidArgument, call.op().target, " cannot sum over ",
              a[of_self[i]].to_string(), " and ", b[of_other[i]].to_string(), " elements");
    self_order.push_back(static_cast<int64_t>(of_self[i]));
    other_order.push_back(static_cast<int64_t>(of_other[i]));
    depth = depth * a[of_self[i]];
  }
  for (size_t axis = 0; axis < b.size(); ++axis) {
    if (is_in(of_other, axis)) continue;
    other_order.push_back(static_cast<int64_t>(axis));
    columns = columns * b[axis];
    sizes.push_back(b[axis]);
  }
  const auto left = reshaped(run_op<T>("permute", {call[0], self_order}), {rows, depth}),
             right = reshaped(run_op<T>("permute", {call[1], other_order}), {depth, columns});
  return reshaped(run_op<T>("mm", {left, right}), sizes);
}
template <class T> BasicValue<T> tensordot(const Call<T>& call) {
  std::vector<size_t> axes[2];
  for (size_t i : {size_t{0}, size_t{1}}) {
    const size_t rank = shape_of(call[i]).size();
    for (int64_t axis : call.integers(i + 2)) {
      const size_t at = static_cast<size_t>(wrap_axis(axis, static_cast<int64_t>(rank)));
      QDQ_CHECK(std::find(axes[i].begin(), axes[i].end(), at) == axes[i].end(), kInvalidArgument, call.op().target,
                " got axis ", axis, " twice");
      axes[i].push_back(at);
    }
  }
  QDQ_CHECK(axes[0].size() == axes[1].size(), kInvalidArgument, call.op().target, " got ", axes[0].size(), " and ",
            axes[1].size(), " axes to sum over");
  return contracted(call, axes[0], axes[1]);
}
template <class T> BasicValue<T> inner(const Call<T>& call) {
  const size_t a = shape_of(call[0]).size(), b = shape_of(call[1]).size();
  if (a == 0 || b == 0) return run_op<T>("mul.Tensor", {call[0], call[1]});
  return contracted(call, {a - 1}, {b - 1});
}
// Every element of self times all of other.
template <class T> BasicValue<T> kron(const Call<T>& call) {
  SymShape a = shape_of(call[0]), b = shape_of(call[1]);
  const size_t rank = std::max(a.size(), b.size());
  a.insert(a.begin(), rank - a.size(), SymInt(1));
  b.insert(b.begin(), rank - b.size(), SymInt(1));
  SymShape wide_a, wide_b, sizes;
  for (size_t axis = 0; axis < rank; ++axis) {
    wide_a.insert(wide_a.end(), {a[axis], SymInt(1)});
    wide_b.insert(wide_b.end(), {SymInt(1), b[axis]});
    sizes.push_back(a[axis] * b[axis]);
  }
  return reshaped(run_op<T>("mul.Tensor", {reshaped(call[0], wide_a), reshaped(call[1], wide_b)}), sizes);
}
template <class T> BasicValue<T> cross(const Call<T>& call) {
  const SymShape sizes = broadcast_shapes(shape_of(call[0]), shape_of(call[1]));
  int64_t axis = -1;
  if (call.is_none(2)) {
    const auto three = std::find(sizes.begin(), sizes.end(), SymInt(3));
    QDQ_CHECK(three != sizes.end(), kInvalidArgument, call.op().target, " finds no axis of 3 elements in shape ",
              to_string(sizes));
    axis = three - sizes.begin();
  } else {
    axis = static_cast<int64_t>(axis_of(call, 2, sizes.size()));
  }
  QDQ_CHECK(may_be_equal(sizes[static_cast<size_t>(axis)], SymInt(3)), kInvalidArgument, call.op().target,
            " wants 3 elements along axis ", axis, ", found shape ", to_string(sizes));
  const auto turned = [&](size_t i, int64_t by) {
    const auto wide = run_op<T>("expand", {call[i], list_of<T>(sizes)});
    return run_op<T>("roll", {wide, List<T>{-by}, List<T>{axis}});
  };
  return run_op<T>("sub.Tensor", {run_op<T>("mul.Tensor", {turned(0, 1), turned(1, 2)}),
                                  run_op<T>("mul.Tensor", {turned(0, 2), turned(1, 1)})});
}
template <class T> BasicValue<T> chain_matmul(const Call<T>& call) {
  const std::vector<T> matrices = call.tensors(0);
  QDQ_CHECK(!matrices.empty(), kInvalidArgument, call.op().target, " wants at least one matrix");
  BasicValue<T> product = matrices[0];
  for (size_t i = 1; i < matrices.size(); ++i) product = run_op<T>("matmul", {product, matrices[i]});
  return product;
}
template <class T> BasicValue<T> vecdot(const Call<T>& call) {
  const auto product = run_op<T>("mul.Tensor", {call[0], call[1]});
  return run_op<T>("sum.dim_IntList", {product, List<T>{call[2]}});
}
// x1 W x2 for each matrix W of the weight.
template <class T> BasicValue<T> bilinear(const Call<T>& call) {
  const SymShape weight = shape_of(call[2]);
  QDQ_CHECK(weight.size() == 3, kInvalidArgument, call.op().target, " wants a weight of 3 dimensions, found shape ",
            to_string(weight));
  const auto products = run_op<T>("mul.Tensor", {axis_in_front(call[0], -1), axis_in_front(call[1], -2)});
  return run_op<T>("linear", {run_op<T>("flatten.using_ints", {products, -2, -1}),
                              run_op<T>("flatten.using_ints", {call[2], 1}), call[3]});
}
// The products of three tensors with new axes, summed over some.
template <class T> BasicValue<T> trilinear(const Call<T>& call) {
  BasicValue<T> product;
  for (size_t i : {size_t{0}, size_t{1}, size_t{2}}) {
    BasicValue<T> factor = call[i];
    for (int64_t axis : call.integers(i + 3)) factor = axis_in_front(factor, axis);
    product = i == 0 ? factor : run_op<T>("mul.Tensor", {product, factor});
  }
  return call.integers(6).empty() ? product : run_op<T>("sum.dim_IntList", {product, call[6]});
}
template <class T> BasicValue<T> convolution(const Call<T>& call) {
  std::vector<BasicValue<T>> args;
  for (size_t i = 0; i < 9; ++i) args.push_back(call[i]);
  return run_op<T>("convolution", std::move(args));
}
// [T, N, C] in place of [N, C, T].
template <class T> BasicValue<T> conv_tbc(const Call<T>& call) {
  const auto x = run_op<T>("permute", {call[0], List<T>{1, 2, 0}}),
             weight = run_op<T>("permute", {call[1], List<T>{2, 1, 0}});
  return run_op<T>("permute",
                   {run_op<T>("conv1d", {x, weight, call[2], List<T>{1}, List<T>{call[3]}}), List<T>{2, 0, 1}});
}

// Norms and distances.

template <class T> BasicValue<T> cosine_similarity(const Call<T>& call) {
  const BasicValue<T> axis = List<T>{call[2]};
  const SymShape sizes = broadcast_shapes(shape_of(call[0]), shape_of(call[1]));
  const auto unit = [&](const BasicValue<T>& x) {
    const auto wide = run_op<T>("expand", {x, list_of<T>(sizes)});
    const auto norm = run_op<T>("linalg_vector_norm", {wide, 2, axis, true});
    return run_op<T>("div.Tensor", {wide, run_op<T>("clamp_min", {norm, call[3]})});
  };
  return run_op<T>("sum.dim_IntList", {run_op<T>("mul.Tensor", {unit(call[0]), unit(call[1])}), axis});
}
template <class T> BasicValue<T> pairwise_distance(const Call<T>& call) {
  const auto difference = run_op<T>("sub.Tensor", {call[0], call[1]});
  return run_op<T>("linalg_vector_norm",
                   {run_op<T>("add.Tensor", {difference, call[3]}), call[2], List<T>{-1}, call[4]});
}
template <class T> BasicValue<T> dist(const Call<T>& call) {
  return run_op<T>("linalg_vector_norm", {run_op<T>("sub.Tensor", {call[0], call[1]}), call[2]});
}
template <class T>
BasicValue<T> matrix_norm(const Call<T>& call, const BasicValue<T>& axes, const BasicValue<T>& keepdim,
                          const BasicValue<T>& dtype) {
  const auto* list = axes.template get_if<List<T>>();
  QDQ_CHECK(list != nullptr && list->size() == 2, kInvalidArgument, call.op().target, " wants two axes");
  if (call[1].template is<std::string>()) {
    QDQ_CHECK(call.string(1) == "fro", kUnsupported, call.op().target, " of order '", call.string(1),
              "' wants singular values, which qdq does not compute");
    return run_op<T>("linalg_vector_norm", {call[0], 2, axes, keepdim, dtype});
  }
  const double order = call.number(1);
  QDQ_CHECK(std::fabs(order) == 1 || std::isinf(order), kUnsupported, call.op().target, " of order ", order,
            " wants singular values, which qdq does not compute");
  // The largest sum of magnitudes over the first axis (1) or the second (infinity); the smallest for negative orders.
  const bool first = std::fabs(order) == 1;
  const auto sums = run_op<T>("linalg_vector_norm", {call[0], 1, List<T>{(*list)[first ? 0 : 1]}, true, dtype});
  const auto extreme = run_op<T>(order > 0 ? "amax" : "amin", {sums, List<T>{(*list)[first ? 1 : 0]}, true});
  return keepdim.template get_if<bool>() && *keepdim.template get_if<bool>()
             ? extreme
             : run_op<T>("squeeze.dims", {extreme, axes});
}
template <class T> BasicValue<T> linalg_matrix_norm(const Call<T>& call) {
  return matrix_norm(call, call[2], call[3], call[4]);
}
// Without an order of all elements, else of vectors or matrices as there are axes.
template <class T> BasicValue<T> linalg_norm(const Call<T>& call) {
  const size_t rank = shape_of(call[0]).size();
  const auto* axes = call[2].template get_if<List<T>>();
  const size_t count = axes ? axes->size() : call.is_none(2) ? rank : 1;
  if (call.is_none(1)) return run_op<T>("linalg_vector_norm", {call[0], 2, call[2], call[3], call[4]});
  if (count == 2) return matrix_norm(call, axes ? call[2] : BasicValue<T>(List<T>{-2, -1}), call[3], call[4]);
  QDQ_CHECK(count == 1 && !call[1].template is<std::string>(), kInvalidArgument, call.op().target,
            " wants one or two axes for an order, found shape ", to_string(shape_of(call[0])));
  return run_op<T>("linalg_vector_norm", {call[0], call[1], call[2], call[3], call[4]});
}
template <class T> BasicValue<T> frobenius_norm(const Call<T>& call) {
  return run_op<T>("linalg_vector_norm", {call[0], 2, call[1], call[2]});
}
// The norm over all axes but one, which stays; over all for dim = -1.
template <class T> BasicValue<T> norm_beside(const BasicValue<T>& v, const BasicValue<T>& p, int64_t axis) {
  const int64_t rank = static_cast<int64_t>(shape_of(v).size());
  if (axis == -1) return run_op<T>("linalg_vector_norm", {v, p});
  axis = wrap_axis(axis, rank);
  List<T> others;
  for (int64_t a = 0; a < rank; ++a)
    if (a != axis) others.push_back(a);
  if (others.empty()) return run_op<T>("abs", {v});
  return run_op<T>("linalg_vector_norm", {v, p, others, true});
}
template <class T> BasicValue<T> norm_except_dim(const Call<T>& call) {
  return norm_beside(call[0], call[1], call.integer(2));
}
template <class T> BasicValue<T> weight_norm(const Call<T>& call) {
  const auto norm = norm_beside<T>(call[0], 2, call.integer(2));
  const auto weight = run_op<T>("mul.Tensor", {call[0], run_op<T>("div.Tensor", {call[1], norm})});
  return call.op().schema.num_returns == 2 ? BasicValue<T>(List<T>{weight, norm}) : weight;
}

// Losses: none (0), the mean (1) or the sum (2) of what is computed for each element.
template <class T> BasicValue<T> reduced(const Call<T>& call, const BasicValue<T>& loss, size_t reduction) {
  const int64_t kind = call.integer(reduction);
  QDQ_CHECK(kind >= 0 && kind <= 2, kInvalidArgument, call.op().target, " got the reduction ", kind);
  return kind == 0 ? loss : run_op<T>(kind == 1 ? "mean" : "sum", {loss});
}
template <class T> BasicValue<T> mse_loss(const Call<T>& call) {
  return reduced(call, run_op<T>("square", {run_op<T>("sub.Tensor", {call[0], call[1]})}), 2);
}
template <class T> BasicValue<T> l1_loss(const Call<T>& call) {
  return reduced(call, run_op<T>("abs", {run_op<T>("sub.Tensor", {call[0], call[1]})}), 2);
}
// Quadratic below the bound and linear beyond: d^2 / 2 and bound (d - bound / 2); smooth_l1 divides by the bound.
template <class T> BasicValue<T> huber_loss(const Call<T>& call) {
  const double bound = call.number(3);
  const bool divides = call.op().schema.name == "smooth_l1_loss";
  QDQ_CHECK(bound > 0 || (divides && bound == 0), kInvalidArgument, call.op().target, " got the bound ", bound);
  const auto distance = run_op<T>("abs", {run_op<T>("sub.Tensor", {call[0], call[1]})});
  if (bound == 0) return reduced(call, distance, 2);
  const auto inner = run_op<T>("mul.Scalar", {run_op<T>("square", {distance}), divides ? 0.5 / bound : 0.5});
  const auto outer = run_op<T>("mul.Scalar", {run_op<T>("sub.Scalar", {distance, 0.5 * bound}), divides ? 1.0 : bound});
  return reduced(call, run_op<T>("where.self", {run_op<T>("lt.Scalar", {distance, bound}), inner, outer}), 2);
}

// Joining and taking apart.

// At least so many axes: in front for 1 and 2, the third behind.
template <class T> BasicValue<T> with_axes(BasicValue<T> x, size_t axes) {
  size_t rank = shape_of(x).size();
  if (rank == 0 && axes > 0) x = axis_in_front(x, 0), ++rank;
  if (rank == 1 && axes > 1) x = axis_in_front(x, 0), ++rank;
  return rank == 2 && axes > 2 ? axis_in_front(x, 2) : x;
}
template <class T, size_t axes> BasicValue<T> at_least(const Call<T>& call) {
  if (call[0].is_tensor()) return with_axes(call[0], axes);
  List<T> out;
  for (const T& tensor : call.tensors(0)) out.push_back(with_axes<T>(tensor, axes));
  return out;
}
template <class T, size_t axes> BasicValue<T> stacked(const Call<T>& call) {
  List<T> parts;
  for (const T& tensor : call.tensors(0)) parts.push_back(with_axes<T>(tensor, axes));
  QDQ_CHECK(!parts.empty(), kInvalidArgument, call.op().target, " wants at least one tensor");
  const int64_t axis = axes == 3 ? 2 : axes == 2 || shape_of(parts[0]).size() == 1 ? 0 : 1;
  return run_op<T>("cat", {parts, axis});
}
template <class T> BasicValue<T> column_stack(const Call<T>& call) {
  List<T> parts;
  for (const T& tensor : call.tensors(0))
    parts.push_back(shape_of(tensor).size() < 2 ? reshaped<T>(tensor, {numel_of(shape_of(tensor)), 1})
                                                : BasicValue<T>(tensor));
  return run_op<T>("cat", {parts, 1});
}
template <class T> BasicValue<T> block_diag(const Call<T>& call) {
  SymInt columns = 0, before = 0;
  List<T> parts, rows;
  for (const T& tensor : call.tensors(0)) {
    parts.push_back(with_axes<T>(tensor, 2));
    QDQ_CHECK(shape_of(parts.back()).size() == 2, kInvalidArgument, call.op().target, " wants matrices, found shape ",
              to_string(shape_of(parts.back())));
    columns = columns + shape_of(parts.back())[1];
  }
  for (const BasicValue<T>& part : parts) {
    const SymInt own = shape_of(part)[1];
    rows.push_back(run_op<T>("constant_pad_nd", {part, List<T>{before, columns - before - own}}));
    before = before + own;
  }
  QDQ_CHECK(!rows.empty(), kInvalidArgument, call.op().target, " wants at least one tensor");
  return run_op<T>("cat", {rows, 0});
}
template <class T> BasicValue<T> meshgrid(const Call<T>& call) {
  return run_op<T>("meshgrid.indexing", {call[0], "ij"});
}
template <class T> BasicValue<T> cartesian_prod(const Call<T>& call) {
  if (call.tensors(0).size() == 1) return call.tensors(0)[0];
  const auto grid = meshgrid(call);
  List<T> columns;
  for (const BasicValue<T>& axis : *grid.template get_if<List<T>>())
    columns.push_back(run_op<T>("flatten.using_ints", {axis}));
  return run_op<T>("stack", {columns, 1});
}
template <class T> BasicValue<T> broadcast_tensors(const Call<T>& call) {
  SymShape sizes;
  for (const T& tensor : call.tensors(0)) sizes = broadcast_shapes(sizes, shape_of(tensor));
  List<T> out;
  for (const T& tensor : call.tensors(0)) out.push_back(run_op<T>("expand", {tensor, list_of<T>(sizes)}));
  return out;
}
template <class T> BasicValue<T> stack_of(const Call<T>& call) { return run_op<T>("stack", {call[0], call[1]}); }
// hsplit, vsplit, dsplit: by the second, first or third axis (hsplit of a vector: by the first).
template <class T, int64_t axis> BasicValue<T> split_by(const Call<T>& call) {
  const size_t rank = shape_of(call[0]).size();
  QDQ_CHECK(static_cast<int64_t>(rank) > axis || (axis == 1 && rank == 1), kInvalidArgument, call.op().target,
            " cannot split shape ", to_string(shape_of(call[0])));
  const bool by_list = call[1].template is<List<T>>();
  return run_op<T>(by_list ? "tensor_split.indices" : "tensor_split.sections",
                   {call[0], call[1], rank == 1 ? int64_t{0} : axis});
}
template <class T> BasicValue<T> flip_rows(const Call<T>& call) { return run_op<T>("flip", {call[0], List<T>{0}}); }
template <class T> BasicValue<T> flip_columns(const Call<T>& call) { return run_op<T>("flip", {call[0], List<T>{1}}); }
template <class T> BasicValue<T> rot90(const Call<T>& call) {
  const std::vector<int64_t> axes = call.integers(2);
  const int64_t quarters = (call.integer(1) % 4 + 4) % 4, rank = static_cast<int64_t>(shape_of(call[0]).size());
  QDQ_CHECK(axes.size() == 2 && wrap_axis(axes[0], rank) != wrap_axis(axes[1], rank), kInvalidArgument,
            call.op().target, " wants two different axes");
  if (quarters == 0) return run_op<T>("clone", {call[0]});
  if (quarters == 2) return run_op<T>("flip", {call[0], call[2]});
  const auto flipped = run_op<T>("flip", {call[0], List<T>{axes[quarters == 1 ? 1 : 0]}});
  return run_op<T>("transpose.int", {flipped, axes[0], axes[1]});
}
// The differences of neighbours, n times.
template <class T> BasicValue<T> diff(const Call<T>& call) {
  const int64_t n = call.integer(1), axis = static_cast<int64_t>(axis_of(call, 2, shape_of(call[0]).size()));
  List<T> parts{call[0]};
  if (!call.is_none(3)) parts.insert(parts.begin(), call[3]);
  if (!call.is_none(4)) parts.push_back(call[4]);
  BasicValue<T> x = parts.size() == 1 ? call[0] : run_op<T>("cat", {parts, axis});
  constexpr int64_t kMost = 4096;
  QDQ_CHECK(n >= 0 && n <= kMost, kInvalidArgument, call.op().target, " wants 0 to ", kMost, " times, found ", n);
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
template <class T> BasicValue<T> all_transposed(const Call<T>& call) {
  List<T> order;
  for (int64_t axis = static_cast<int64_t>(shape_of(call[0]).size()); axis-- > 0;) order.push_back(axis);
  return run_op<T>("permute", {call[0], order});
}
template <class T> BasicValue<T> matrix_power(const Call<T>& call) {
  int64_t n = call.integer(1);
  const SymShape sizes = shape_of(call[0]);
  QDQ_CHECK(sizes.size() >= 2 && may_be_equal(sizes[sizes.size() - 1], sizes[sizes.size() - 2]), kInvalidArgument,
            call.op().target, " wants square matrices, found shape ", to_string(sizes));
  QDQ_CHECK(n >= 0, kUnsupported, call.op().target, " with a negative power wants inverse matrices");
  BasicValue<T> base = call[0], out;
  for (; n > 0; n /= 2) {
    if (n % 2 == 1) out = out.is_none() ? base : run_op<T>("matmul", {out, base});
    if (n > 1) base = run_op<T>("matmul", {base, base});
  }
  if (!out.is_none()) return run_op<T>("clone", {out});
  const auto eye = run_op<T>("eye", {sizes.back(), operand_kind(call, 0).dtype});
  return run_op<T>("clone", {run_op<T>("expand", {eye, list_of<T>(sizes)})});
}

// Diagonals.

template <class T> BasicValue<T> diagonal_copy(const Call<T>& call) {
  return run_op<T>("clone", {run_op<T>("diagonal", {call[0], call[1], call[2], call[3]})});
}
template <class T> BasicValue<T> diag(const Call<T>& call) {
  const size_t rank = shape_of(call[0]).size();
  QDQ_CHECK(rank == 1 || rank == 2, kInvalidArgument, call.op().target, " wants a vector or a matrix, found shape ",
            to_string(shape_of(call[0])));
  if (rank == 1) return run_op<T>("diag_embed", {call[0], call[1]});
  return run_op<T>("diagonal_copy", {call[0], call[1]});
}
template <class T> BasicValue<T> diagflat(const Call<T>& call) {
  return run_op<T>("diag_embed", {run_op<T>("reshape", {call[0], List<T>{-1}}), call[1]});
}
template <class T> BasicValue<T> trace(const Call<T>& call) {
  QDQ_CHECK(shape_of(call[0]).size() == 2, kInvalidArgument, call.op().target, " wants a matrix, found shape ",
            to_string(shape_of(call[0])));
  return run_op<T>("sum", {run_op<T>("diagonal", {call[0]})});
}

// Comparisons of whole tensors.

template <class T> BasicValue<T> isclose(const Call<T>& call) {
  const auto distance = run_op<T>("abs", {run_op<T>("sub.Tensor", {call[0], call[1]})});
  const auto size = run_op<T>("mul.Scalar", {run_op<T>("abs", {call[1]}), call[2]});
  const auto close =
      run_op<T>("logical_and", {run_op<T>("le.Tensor", {distance, run_op<T>("add.Scalar", {size, call[3]})}),
                                run_op<T>("isfinite", {distance})});
  const auto equal = run_op<T>("logical_or", {run_op<T>("eq.Tensor", {call[0], call[1]}), close});
  if (!call.boolean(4)) return equal;
  const auto both_nan = run_op<T>("logical_and", {run_op<T>("isnan", {call[0]}), run_op<T>("isnan", {call[1]})});
  return run_op<T>("logical_or", {equal, both_nan});
}
template <class T> BasicValue<T> allclose(const Call<T>& call) {
  const auto close = run_op<T>("isclose", {call[0], call[1], call[2], call[3], call[4]});
  return run_op<T>("item", {run_op<T>("all", {close})});
}
template <class T> BasicValue<T> equal(const Call<T>& call) {
  const SymShape a = shape_of(call[0]), b = shape_of(call[1]);
  if (!std::equal(a.begin(), a.end(), b.begin(), b.end(), may_be_equal)) return false;
  return run_op<T>("item", {run_op<T>("all", {run_op<T>("eq.Tensor", {call[0], call[1]})})});
}
template <class T> BasicValue<T> msort(const Call<T>& call) { return item<T>(run_op<T>("sort", {call[0], 0}), 0); }

// index with places outside of the tensor, which give `fill`.
template <class T> BasicValue<T> masked_index(const Call<T>& call) {
  const auto* indices = call[2].template get_if<List<T>>();
  const SymShape sizes = shape_of(call[0]);
  QDQ_CHECK(indices != nullptr && indices->size() <= sizes.size(), kInvalidArgument, call.op().target,
            " wants a list of at most ", sizes.size(), " indices");
  List<T> inside;
  for (size_t a = 0; a < indices->size(); ++a) {
    const BasicValue<T>& index = (*indices)[a];
    const std::optional<int64_t> size = sizes[a].constant();
    if (index.is_none()) inside.push_back(index);
    else if (size) inside.push_back(run_op<T>("clamp", {index, 0, std::max<int64_t>(*size, 1) - 1}));
    else inside.push_back(run_op<T>("clamp_min", {index, 0}));  // of which the shape alone counts here
  }
  const auto picked = run_op<T>("index.Tensor", {call[0], inside});
  return run_op<T>("masked_fill.Scalar", {picked, run_op<T>("logical_not", {call[1]}), call[3]});
}
template <class T> BasicValue<T> log_sigmoid_forward(const Call<T>& call) {
  const auto buffer = run_op<T>("exp", {run_op<T>("neg", {run_op<T>("abs", {call[0]})})});
  return List<T>{run_op<T>("log_sigmoid", {call[0]}), buffer};
}
template <class T> BasicValue<T> special_softmax(const Call<T>& call) {
  return run_op<T>("softmax.int", {call[0], call[1], call[2]});
}
template <class T> BasicValue<T> special_log_softmax(const Call<T>& call) {
  return run_op<T>("log_softmax.int", {call[0], call[1], call[2]});
}

// The normal distribution's: how likely a value is below x.
template <class T> BasicValue<T> special_ndtr(const Call<T>& call) {
  const auto scaled = run_op<T>("mul.Scalar", {call[0], 0x1.6a09e667f3bcdp-1});
  return run_op<T>("mul.Scalar", {run_op<T>("add.Scalar", {run_op<T>("erf", {scaled}), 1}), 0.5});
}
// -x log x; 0 at 0, -inf below.
template <class T> BasicValue<T> special_entr(const Call<T>& call) {
  const auto product = run_op<T>("neg", {run_op<T>("mul.Tensor", {call[0], run_op<T>("log", {call[0]})})});
  const auto with_zero = run_op<T>("masked_fill.Scalar", {product, run_op<T>("eq.Scalar", {call[0], 0}), 0.0});
  const auto is_below = run_op<T>("lt.Scalar", {call[0], 0});
  return run_op<T>("masked_fill.Scalar", {with_zero, is_below, -std::numeric_limits<double>::infinity()});
}

// Distances of all rows of x1 [..., P, M] to all of x2 [..., R, M].
template <class T> T expanded_rows(const Call<T>& call, size_t i) {
  SymShape a = shape_of(call[0]), b = shape_of(call[1]);
  QDQ_CHECK(a.size() >= 2 && b.size() >= 2 && may_be_equal(a.back(), b.back()), kInvalidArgument, call.op().target,
            " wants rows of one length, found shapes ", to_string(a), " and ", to_string(b));
  SymShape own(i == 0 ? a.end() - 2 : b.end() - 2, i == 0 ? a.end() : b.end());
  a.resize(a.size() - 2);
  b.resize(b.size() - 2);
  SymShape sizes = broadcast_shapes(a, b);
  sizes.insert(sizes.end(), own.begin(), own.end());
  return tensor_of(run_op<T>("expand", {call[i], list_of<T>(sizes)}));
}
MetaValue infer_cdist(const Call<TensorMeta>& call) {
  const TensorMeta a = expanded_rows(call, 0), b = expanded_rows(call, 1);
  QDQ_CHECK(is_floating(a.dtype) && a.dtype == b.dtype, kInvalidArgument, call.op().target,
            " wants floats of one dtype, found ", to_string(a.dtype), " and ", to_string(b.dtype));
  SymShape sizes = a.sizes;
  sizes.back() = b.sizes[b.sizes.size() - 2];
  return tensor_meta(a.dtype, sizes);
}
Value eval_cdist(const Call<Tensor>& call) {
  const TensorMeta meta = result_meta(call);
  const Tensor a = expanded_rows(call, 0).to(DType::kF64).contiguous(),
               b = expanded_rows(call, 1).to(DType::kF64).contiguous();
  const Tensor out = Tensor::empty(constant_shape(meta.sizes), DType::kF64);
  const int64_t P = a.size(-2), R = b.size(-2), M = a.size(-1);
  const double p = call.number(2);
  QDQ_CHECK(p >= 0, kInvalidArgument, call.op().target, " got p = ", p);
  std::vector<double> difference(static_cast<size_t>(M));
  for (int64_t i = 0; i < out.numel(); ++i) {
    const double *x = a.data<double>() + i / R * M, *y = b.data<double>() + (i / R / P * R + i % R) * M;
    for (int64_t m = 0; m < M; ++m) difference[static_cast<size_t>(m)] = x[m] - y[m];
    out.data<double>()[i] = p_norm(difference.data(), M, p);
  }
  return out.to(meta.dtype);
}
// Of each row to those behind it.
template <class T> BasicValue<T> pdist(const Call<T>& call) {
  const SymShape sizes = shape_of(call[0]);
  QDQ_CHECK(sizes.size() == 2, kInvalidArgument, call.op().target, " wants rows, found shape ", to_string(sizes));
  const auto places = run_op<T>("triu_indices", {sizes[0], sizes[0], 1});
  const auto all = run_op<T>("cdist", {call[0], call[0], call[1]});
  return run_op<T>("index.Tensor",
                   {all, List<T>{run_op<T>("select.int", {places, 0, 0}), run_op<T>("select.int", {places, 0, 1})}});
}

// det of matrices [*, N, N], their factors and the rows that were exchanged, counted from 1 (LAPACK's getrf).
MetaValue infer_det_and_factors(const Call<TensorMeta>& call) {
  const TensorMeta& x = call.tensor(0);
  const size_t rank = x.sizes.size();
  QDQ_CHECK(x.dtype == DType::kF32 || x.dtype == DType::kF64, kInvalidArgument, call.op().target,
            " wants float32 or float64, found ", to_string(x.dtype));
  QDQ_CHECK(rank >= 2 && may_be_equal(x.sizes[rank - 1], x.sizes[rank - 2]), kInvalidArgument, call.op().target,
            " wants square matrices, found shape ", to_string(x.sizes));
  const SymShape batch(x.sizes.begin(), x.sizes.end() - 2), rows(x.sizes.begin(), x.sizes.end() - 1);
  return MetaValue::List{tensor_meta(x.dtype, batch), tensor_meta(x.dtype, x.sizes), tensor_meta(DType::kS32, rows)};
}
// Factors a matrix in place: l below the diagonal, u above it. Returns the product of the diagonal.
double factor_matrix(double* a, int32_t* exchanged, int64_t n) {
  double det = 1;
  for (int64_t k = 0; k < n; ++k) {
    int64_t pivot = k;
    for (int64_t i = k + 1; i < n; ++i)
      if (std::fabs(a[i * n + k]) > std::fabs(a[pivot * n + k])) pivot = i;
    exchanged[k] = static_cast<int32_t>(pivot + 1);
    if (pivot != k) {
      std::swap_ranges(a + k * n, a + (k + 1) * n, a + pivot * n);
      det = -det;
    }
    const double diagonal = a[k * n + k];
    det *= diagonal;
    for (int64_t i = k + 1; i < n && diagonal != 0; ++i) {
      const double factor = a[i * n + k] /= diagonal;
      for (int64_t j = k + 1; j < n; ++j) a[i * n + j] -= factor * a[k * n + j];
    }
  }
  return det;
}
Value eval_det_and_factors(const Call<Tensor>& call) {
  infer_call(call);
  const Tensor& x = call.tensor(0);
  // PyTorch factors what lies in columns: of a tensor in C order that is the transposed one.
  const Tensor factors = (x.is_contiguous() ? x.transpose(-2, -1) : x).to(DType::kF64).clone();
  const int64_t n = x.size(-1);
  const Shape batch(x.sizes().begin(), x.sizes().end() - 2), rows(x.sizes().begin(), x.sizes().end() - 1);
  const Tensor det = Tensor::empty(batch, DType::kF64), exchanged = Tensor::empty(rows, DType::kS32);
  for (int64_t i = 0; i < det.numel(); ++i)
    det.data<double>()[i] = factor_matrix(factors.data<double>() + i * n * n, exchanged.data<int32_t>() + i * n, n);
  return Value::List{det.to(x.dtype()), factors.to(x.dtype()), exchanged};
}
template <class T> BasicValue<T> det(const Call<T>& call) { return item(run_op<T>("_linalg_det", {call[0]}), 0); }

// The inverse of matrices [*, N, N], by elimination in float64, and 0, or the place, counted from 1, of the first pivot
// that is 0.
MetaValue infer_inverse_and_info(const Call<TensorMeta>& call) {
  const TensorMeta& x = call.tensor(0);
  infer_det_and_factors(call);
  return MetaValue::List{tensor_meta(x.dtype, x.sizes),
                         tensor_meta(DType::kS32, SymShape(x.sizes.begin(), x.sizes.end() - 2))};
}
// Turns a into the identity and b, the identity, into the inverse of a.
int32_t invert_matrix(double* a, double* b, int64_t n) {
  for (int64_t k = 0; k < n; ++k) {
    int64_t pivot = k;
    for (int64_t i = k + 1; i < n; ++i)
      if (std::fabs(a[i * n + k]) > std::fabs(a[pivot * n + k])) pivot = i;
    if (a[pivot * n + k] == 0) return static_cast<int32_t>(k + 1);
    for (double* m : {a, b}) {
      if (pivot != k) std::swap_ranges(m + k * n, m + (k + 1) * n, m + pivot * n);
    }
    const double diagonal = a[k * n + k];
    for (int64_t j = 0; j < n; ++j) {
      a[k * n + j] /= diagonal;
      b[k * n + j] /= diagonal;
    }
    for (int64_t i = 0; i < n; ++i) {
      const double factor = a[i * n + k];
      if (i == k || factor == 0) continue;
      for (int64_t j = 0; j < n; ++j) {
        a[i * n + j] -= factor * a[k * n + j];
        b[i * n + j] -= factor * b[k * n + j];
      }
    }
  }
  return 0;
}
Value eval_inverse_and_info(const Call<Tensor>& call) {
  infer_call(call);
  const Tensor& x = call.tensor(0);
  const int64_t n = x.size(-1);
  const Tensor rest = x.contiguous().to(DType::kF64).clone(), out = Tensor::full(x.sizes(), DType::kF64, 0);
  const Tensor info = Tensor::empty(Shape(x.sizes().begin(), x.sizes().end() - 2), DType::kS32);
  for (int64_t i = 0; i < info.numel(); ++i) {
    double* inverse = out.data<double>() + i * n * n;
    for (int64_t k = 0; k < n; ++k) inverse[k * n + k] = 1;
    info.data<int32_t>()[i] = invert_matrix(rest.data<double>() + i * n * n, inverse, n);
  }
  QDQ_CHECK(
      !call.boolean(1) || info.numel() == 0 ||
          std::all_of(info.data<int32_t>(), info.data<int32_t>() + info.numel(), [](int32_t v) { return v == 0; }),
      kInvalidArgument, call.op().target, " got a matrix that has no inverse");
  return Value::List{out.to(x.dtype()), info};
}
template <class T> BasicValue<T> inverse(const Call<T>& call) {
  return item(run_op<T>("linalg_inv_ex", {call[0], true}), 0);
}

}  // namespace

// NOLINTNEXTLINE(readability-function-size): a table
void add_composed_ops(std::vector<OpDef>& ops) {
  const auto add = [&](const char* line, Infer infer, Eval eval) {
    ops.push_back(define(line, infer, eval, {.activation = 0}));
  };
  add("aten::lerp.Scalar(Tensor self, Tensor end, Scalar weight) -> Tensor", lerp, lerp);
  add("aten::lerp.Tensor(Tensor self, Tensor end, Tensor weight) -> Tensor", lerp, lerp);
  add("aten::addmv(Tensor self, Tensor mat, Tensor vec, *, Scalar beta=1, Scalar alpha=1) -> Tensor", addmv, addmv);
  add("aten::addr(Tensor self, Tensor vec1, Tensor vec2, *, Scalar beta=1, Scalar alpha=1) -> Tensor", addr, addr);
  add("aten::addbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor", addbmm,
      addbmm);
  add("aten::vdot(Tensor self, Tensor other) -> Tensor", inner, inner);
  add("aten::inner(Tensor self, Tensor other) -> Tensor", inner, inner);
  add("aten::tensordot(Tensor self, Tensor other, int[] dims_self, int[] dims_other) -> Tensor", tensordot, tensordot);
  add("aten::kron(Tensor self, Tensor other) -> Tensor", kron, kron);
  add("aten::cross(Tensor self, Tensor other, int? dim=None) -> Tensor", cross, cross);
  add("aten::linalg_cross(Tensor self, Tensor other, *, int dim=-1) -> Tensor", cross, cross);
  add("aten::chain_matmul(Tensor[] matrices) -> Tensor", chain_matmul, chain_matmul);
  add("aten::linalg_multi_dot(Tensor[] tensors) -> Tensor", chain_matmul, chain_matmul);
  add("aten::linalg_vecdot(Tensor x, Tensor y, *, int dim=-1) -> Tensor", vecdot, vecdot);
  add("aten::matrix_power(Tensor self, int n) -> Tensor", matrix_power, matrix_power);
  add("aten::_linalg_det(Tensor A) -> (Tensor result, Tensor LU, Tensor pivots)", infer_det_and_factors,
      eval_det_and_factors);
  add("aten::linalg_det(Tensor A) -> Tensor", det, det);
  add("aten::det(Tensor self) -> Tensor", det, det);
  add("aten::linalg_inv_ex(Tensor A, *, bool check_errors=False) -> (Tensor inverse, Tensor info)",
      infer_inverse_and_info, eval_inverse_and_info);
  add("aten::linalg_inv(Tensor A) -> Tensor", inverse, inverse);
  add("aten::inverse(Tensor self) -> Tensor", inverse, inverse);
  add("aten::linalg_matrix_power(Tensor self, int n) -> Tensor", matrix_power, matrix_power);
  add("aten::bilinear(Tensor input1, Tensor input2, Tensor weight, Tensor? bias=None) -> Tensor", bilinear, bilinear);
  add("aten::_trilinear(Tensor i1, Tensor i2, Tensor i3, int[] expand1, int[] expand2, int[] expand3, int[] sumdim, "
      "int "
      "unroll_dim=1) -> Tensor",
      trilinear, trilinear);
  add("aten::_convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] "
      "dilation, bool transposed, SymInt[] output_padding, SymInt groups, bool benchmark, bool deterministic, bool "
      "cudnn_enabled, bool allow_tf32) -> Tensor",
      convolution, convolution);
  add("aten::conv_tbc(Tensor self, Tensor weight, Tensor bias, int pad=0) -> Tensor", conv_tbc, conv_tbc);
  add("aten::cosine_similarity(Tensor x1, Tensor x2, int dim=1, float eps=1e-08) -> Tensor", cosine_similarity,
      cosine_similarity);
  add("aten::pairwise_distance(Tensor x1, Tensor x2, float p=2., float eps=9.9999999999999995e-07, bool "
      "keepdim=False) -> Tensor",
      pairwise_distance, pairwise_distance);
  add("aten::dist(Tensor self, Tensor other, Scalar p=2) -> Tensor", dist, dist);
  add("aten::special_ndtr(Tensor self) -> Tensor", special_ndtr, special_ndtr);
  add("aten::special_entr(Tensor self) -> Tensor", special_entr, special_entr);
  add("aten::cdist(Tensor x1, Tensor x2, float p=2., int? compute_mode=None) -> Tensor", infer_cdist, eval_cdist);
  add("aten::_cdist_forward(Tensor x1, Tensor x2, float p, int? compute_mode) -> Tensor", infer_cdist, eval_cdist);
  add("aten::pdist(Tensor self, float p=2.) -> Tensor", pdist, pdist);
  add("aten::_pdist_forward(Tensor self, float p=2.) -> Tensor", pdist, pdist);
  add("aten::linalg_norm(Tensor self, Scalar? ord=None, int[1]? dim=None, bool keepdim=False, *, ScalarType? "
      "dtype=None) -> Tensor",
      linalg_norm, linalg_norm);
  add("aten::linalg_norm.ord_str(Tensor self, str ord, int[1]? dim=None, bool keepdim=False, *, ScalarType? "
      "dtype=None) -> Tensor",
      linalg_norm, linalg_norm);
  add("aten::linalg_matrix_norm(Tensor self, Scalar ord, int[] dim=[-2, -1], bool keepdim=False, *, ScalarType? "
      "dtype=None) -> Tensor",
      linalg_matrix_norm, linalg_matrix_norm);
  add("aten::linalg_matrix_norm.str_ord(Tensor self, str ord=\"fro\", int[] dim=[-2, -1], bool keepdim=False, *, "
      "ScalarType? dtype=None) -> Tensor",
      linalg_matrix_norm, linalg_matrix_norm);
  add("aten::frobenius_norm.dim(Tensor self, int[1] dim, bool keepdim=False) -> Tensor", frobenius_norm,
      frobenius_norm);
  add("aten::norm_except_dim(Tensor v, int pow=2, int dim=0) -> Tensor", norm_except_dim, norm_except_dim);
  add("aten::_weight_norm(Tensor v, Tensor g, int dim=0) -> Tensor", weight_norm, weight_norm);
  add("aten::_weight_norm_interface(Tensor v, Tensor g, int dim=0) -> (Tensor, Tensor)", weight_norm, weight_norm);
  add("aten::mse_loss(Tensor self, Tensor target, int reduction=1) -> Tensor", mse_loss, mse_loss);
  add("aten::l1_loss(Tensor self, Tensor target, int reduction=1) -> Tensor", l1_loss, l1_loss);
  add("aten::huber_loss(Tensor self, Tensor target, int reduction=1, float delta=1.) -> Tensor", huber_loss,
      huber_loss);
  add("aten::smooth_l1_loss(Tensor self, Tensor target, int reduction=1, float beta=1.) -> Tensor", huber_loss,
      huber_loss);
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
  add("aten::adjoint(Tensor(a) self) -> Tensor(a)", matrix_transposed, matrix_transposed);
  add("aten::numpy_T(Tensor(a) self) -> Tensor(a)", all_transposed, all_transposed);
  add("aten::diagonal_copy(Tensor self, int offset=0, int dim1=0, int dim2=1) -> Tensor", diagonal_copy, diagonal_copy);
  add("aten::diag(Tensor self, int diagonal=0) -> Tensor", diag, diag);
  add("aten::diagflat(Tensor self, int offset=0) -> Tensor", diagflat, diagflat);
  add("aten::trace(Tensor self) -> Tensor", trace, trace);
  add("aten::isclose(Tensor self, Tensor other, float rtol=1.0000000000000001e-05, float atol=1e-08, bool "
      "equal_nan=False) -> Tensor",
      isclose, isclose);
  add("aten::allclose(Tensor self, Tensor other, float rtol=1.0000000000000001e-05, float atol=1e-08, bool "
      "equal_nan=False) -> bool",
      allclose, allclose);
  add("aten::equal(Tensor self, Tensor other) -> bool", equal, equal);
  add("aten::msort(Tensor self) -> Tensor", msort, msort);
  add("aten::_unsafe_masked_index(Tensor self, Tensor mask, Tensor?[] indices, Scalar fill) -> Tensor", masked_index,
      masked_index);
  add("aten::log_sigmoid_forward(Tensor self) -> (Tensor output, Tensor buffer)", log_sigmoid_forward,
      log_sigmoid_forward);
  add("aten::special_softmax(Tensor self, int dim, ScalarType? dtype=None) -> Tensor", special_softmax,
      special_softmax);
  add("aten::special_log_softmax(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor", special_log_softmax,
      special_log_softmax);
}

}  // namespace qdq
