// Operators that others make up, as PyTorch's own definitions do: blends, products, norms,
// losses, comparisons. Each is written once, for shapes and for tensors.
#include <algorithm>
#include <cmath>
#include <limits>

#include "op/composed.h"
#include "op/elements.h"
#include "op/families.h"

namespace qdq {
namespace {

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
  QDQ_CHECK(a.size() == 3 && b.size() == 3, kInvalidArgument, call.op().target, " needs two stacks of matrices, found ",
            to_string(a), " and ", to_string(b));
  const auto rows = run_op<T>("permute", {call[1], ValueList<T>{1, 0, 2}});
  return run_op<T>("addmm", {call[0], reshaped(rows, {a[1], a[0] * a[2]}), reshaped(call[2], {b[0] * b[1], b[2]}),
                             call[3], call[4]});
}
// Axes of self that are not summed, then those of other.
template <class T>
BasicValue<T> contracted(const Call<T>& call, const std::vector<size_t>& of_self, const std::vector<size_t>& of_other) {
  const SymShape a = shape_of(call[0]), b = shape_of(call[1]);
  SymShape sizes;
  SymInt rows = 1, columns = 1, depth = 1;
  ValueList<T> self_order, other_order;
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
            " needs 3 elements along axis ", axis, ", found shape ", to_string(sizes));
  const auto turned = [&](size_t i, int64_t by) {
    const auto wide = run_op<T>("expand", {call[i], list_of<T>(sizes)});
    return run_op<T>("roll", {wide, ValueList<T>{-by}, ValueList<T>{axis}});
  };
  return run_op<T>("sub.Tensor", {run_op<T>("mul.Tensor", {turned(0, 1), turned(1, 2)}),
                                  run_op<T>("mul.Tensor", {turned(0, 2), turned(1, 1)})});
}
template <class T> BasicValue<T> chain_matmul(const Call<T>& call) {
  const std::vector<T> matrices = call.tensors(0);
  QDQ_CHECK(!matrices.empty(), kInvalidArgument, call.op().target, " needs at least one matrix");
  BasicValue<T> product = matrices[0];
  for (size_t i = 1; i < matrices.size(); ++i) product = run_op<T>("matmul", {product, matrices[i]});
  return product;
}
template <class T> BasicValue<T> vecdot(const Call<T>& call) {
  const auto product = run_op<T>("mul.Tensor", {call[0], call[1]});
  return run_op<T>("sum.dim_IntList", {product, ValueList<T>{call[2]}});
}
// x1 W x2 for each matrix W of the weight.
template <class T> BasicValue<T> bilinear(const Call<T>& call) {
  const SymShape weight = shape_of(call[2]);
  QDQ_CHECK(weight.size() == 3, kInvalidArgument, call.op().target, " needs a weight of 3 dimensions, found shape ",
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
  const auto x = run_op<T>("permute", {call[0], ValueList<T>{1, 2, 0}}),
             weight = run_op<T>("permute", {call[1], ValueList<T>{2, 1, 0}});
  return run_op<T>("permute", {run_op<T>("conv1d", {x, weight, call[2], ValueList<T>{1}, ValueList<T>{call[3]}}),
                               ValueList<T>{2, 0, 1}});
}

// Norms and distances.

template <class T> BasicValue<T> cosine_similarity(const Call<T>& call) {
  const BasicValue<T> axis = ValueList<T>{call[2]};
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
                   {run_op<T>("add.Tensor", {difference, call[3]}), call[2], ValueList<T>{-1}, call[4]});
}
template <class T> BasicValue<T> dist(const Call<T>& call) {
  return run_op<T>("linalg_vector_norm", {run_op<T>("sub.Tensor", {call[0], call[1]}), call[2]});
}
template <class T>
BasicValue<T> matrix_norm(const Call<T>& call, const BasicValue<T>& axes, const BasicValue<T>& keepdim,
                          const BasicValue<T>& dtype) {
  const auto* list = axes.template get_if<ValueList<T>>();
  QDQ_CHECK(list != nullptr && list->size() == 2, kInvalidArgument, call.op().target, " needs two axes");
  if (call[1].template is<std::string>()) {
    QDQ_CHECK(call.string(1) == "fro", kUnsupported, call.op().target, " of order '", call.string(1),
              "' needs singular values, which qdq does not compute");
    return run_op<T>("linalg_vector_norm", {call[0], 2, axes, keepdim, dtype});
  }
  const double order = call.number(1);
  QDQ_CHECK(std::fabs(order) == 1 || std::isinf(order), kUnsupported, call.op().target, " of order ", order,
            " needs singular values, which qdq does not compute");
  // The largest sum of magnitudes over the first axis (1) or the second (infinity); the smallest for negative orders.
  const bool first = std::fabs(order) == 1;
  const auto sums = run_op<T>("linalg_vector_norm", {call[0], 1, ValueList<T>{(*list)[first ? 0 : 1]}, true, dtype});
  const auto extreme = run_op<T>(order > 0 ? "amax" : "amin", {sums, ValueList<T>{(*list)[first ? 1 : 0]}, true});
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
  const auto* axes = call[2].template get_if<ValueList<T>>();
  const size_t count = axes ? axes->size() : call.is_none(2) ? rank : 1;
  if (call.is_none(1)) return run_op<T>("linalg_vector_norm", {call[0], 2, call[2], call[3], call[4]});
  if (count == 2) return matrix_norm(call, axes ? call[2] : BasicValue<T>(ValueList<T>{-2, -1}), call[3], call[4]);
  QDQ_CHECK(count == 1 && !call[1].template is<std::string>(), kInvalidArgument, call.op().target,
            " needs one or two axes for an order, found shape ", to_string(shape_of(call[0])));
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
  ValueList<T> others;
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
  return call.op().schema->num_returns == 2 ? BasicValue<T>(ValueList<T>{weight, norm}) : weight;
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
  const bool divides = call.op().schema->name == "smooth_l1_loss";
  QDQ_CHECK(bound > 0 || (divides && bound == 0), kInvalidArgument, call.op().target, " got the bound ", bound);
  const auto distance = run_op<T>("abs", {run_op<T>("sub.Tensor", {call[0], call[1]})});
  if (bound == 0) return reduced(call, distance, 2);
  const auto inner = run_op<T>("mul.Scalar", {run_op<T>("square", {distance}), divides ? 0.5 / bound : 0.5});
  const auto outer = run_op<T>("mul.Scalar", {run_op<T>("sub.Scalar", {distance, 0.5 * bound}), divides ? 1.0 : bound});
  return reduced(call, run_op<T>("where.self", {run_op<T>("lt.Scalar", {distance, bound}), inner, outer}), 2);
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
  const auto* indices = call[2].template get_if<ValueList<T>>();
  const SymShape sizes = shape_of(call[0]);
  QDQ_CHECK(indices != nullptr && indices->size() <= sizes.size(), kInvalidArgument, call.op().target,
            " needs a list of at most ", sizes.size(), " indices");
  ValueList<T> inside;
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
  return ValueList<T>{run_op<T>("log_sigmoid", {call[0]}), buffer};
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
            " needs rows of one length, found shapes ", to_string(a), " and ", to_string(b));
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
            " needs floats of one dtype, found ", to_string(a.dtype), " and ", to_string(b.dtype));
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
  QDQ_CHECK(sizes.size() == 2, kInvalidArgument, call.op().target, " needs rows, found shape ", to_string(sizes));
  const auto places = run_op<T>("triu_indices", {sizes[0], sizes[0], 1});
  const auto all = run_op<T>("cdist", {call[0], call[0], call[1]});
  return run_op<T>("index.Tensor", {all, ValueList<T>{run_op<T>("select.int", {places, 0, 0}),
                                                      run_op<T>("select.int", {places, 0, 1})}});
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
