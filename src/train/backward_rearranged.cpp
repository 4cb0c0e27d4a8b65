// Gradients of products of several, and of operators that put elements into other places.
#include <algorithm>
#include <cmath>

#include "train/composition.h"

namespace qdq {
namespace {

using Term = Composition::Term;

Value listed(const Shape& values) {
  Value::List out;
  for (const int64_t value : values) out.emplace_back(value);
  return out;
}
Term multiplied(Composition& of, Term a, Term b) { return of.call("mul.Tensor", {a, b}); }

std::vector<Value> transposed(const BackwardCall& c) {
  Composition of(c);
  return of.gradients(of.call("transpose.int", {of.argument(0), Value(int64_t{-2}), Value(int64_t{-1})}));
}
std::vector<Value> reversed_axes(const BackwardCall& c) {
  Composition of(c);
  Shape axes;
  for (int64_t axis = c.x(0).dim(); axis-- > 0;) axes.push_back(axis);
  return of.gradients(of.call("permute.default", {of.argument(0), listed(axes)}));
}

// Half a turn along each axis; of an odd number of elements the shorter half goes on with fftshift.
template <bool kBack> std::vector<Value> half_turn(const BackwardCall& c) {
  Composition of(c);
  Shape axes, by;
  if (c.call.is_none(1))
    for (int64_t axis = 0; axis < c.x(0).dim(); ++axis) axes.push_back(axis);
  else axes = c.call.integers(1);
  for (int64_t& axis : axes) {
    axis = static_cast<int64_t>(wrap_axis(axis, c.x(0).dim()));
    const int64_t size = c.x(0).size(axis);
    by.push_back(kBack ? (size + 1) / 2 : size / 2);
  }
  return of.gradients(of.call("roll.default", {of.argument(0), listed(by), listed(axes)}));
}

std::vector<Value> diff(const BackwardCall& c) {
  Composition of(c);
  std::vector<Term> parts;
  if (!c.call.is_none(3)) parts.push_back(of.argument(3));
  parts.push_back(of.argument(0));
  if (!c.call.is_none(4)) parts.push_back(of.argument(4));
  const auto axis = static_cast<int64_t>(wrap_axis(c.call.integer(2), c.x(0).dim()));
  Term x = parts.size() == 1 ? parts[0] : of.call("cat.default", {parts, Value(axis)});
  for (int64_t n = 0; n < c.call.integer(1); ++n) {
    const int64_t size = of.value(x).size(axis);
    const auto part = [&](int64_t begin, int64_t end) {
      return of.call("slice.Tensor", {x, Value(axis), Value(begin), Value(end), Value(int64_t{1})});
    };
    const Term later = part(1, size), sooner = part(0, size - 1);
    x = of.call("sub.Tensor", {later, sooner});
  }
  return of.gradients(x);
}

std::vector<Value> kron(const BackwardCall& c) {
  Composition of(c);
  const size_t rank = static_cast<size_t>(std::max(c.x(0).dim(), c.x(1).dim()));
  Shape left, right, out;
  const auto size_at = [&](const Tensor& x, size_t axis) {
    const auto missing = rank - static_cast<size_t>(x.dim());
    return axis < missing ? 1 : x.sizes()[axis - missing];
  };
  for (size_t axis = 0; axis < rank; ++axis) {
    const int64_t a = size_at(c.x(0), axis), b = size_at(c.x(1), axis);
    left.insert(left.end(), {a, 1});
    right.insert(right.end(), {1, b});
    out.push_back(a * b);
  }
  const Term product = multiplied(of, of.call("reshape.default", {of.argument(0), listed(left)}),
                                  of.call("reshape.default", {of.argument(1), listed(right)}));
  return of.gradients(of.call("reshape.default", {product, listed(out)}));
}

// (a x b)[i] = a[i + 1] b[i + 2] - a[i + 2] b[i + 1], counted around.
std::vector<Value> cross(const BackwardCall& c) {
  Composition of(c);
  const std::vector<Term> both{of.argument(0), of.argument(1)};
  int64_t axis = -1;
  if (!c.call.is_none(2)) {
    axis = c.call.integer(2);
  } else {
    const Shape& sizes = c.x(0).sizes();  // aten.cross takes the first axis of 3
    axis = std::find(sizes.begin(), sizes.end(), 3) - sizes.begin();
  }
  const int64_t from_back = axis < 0 ? -axis : std::max(c.x(0).dim(), c.x(1).dim()) - axis;
  const auto turned = [&](size_t i, int64_t by) {
    return of.call("roll.default", {both[i], listed({by}), listed({c.x(i).dim() - from_back})});
  };
  return of.gradients(of.call(
      "sub.Tensor", {multiplied(of, turned(0, -1), turned(1, -2)), multiplied(of, turned(0, -2), turned(1, -1))}));
}

std::vector<Value> product_of_all(const BackwardCall& c) {
  Composition of(c);
  Term out = of.argument(0, 0);
  for (size_t i = 1; i < c.call.tensors(0).size(); ++i) out = of.call("matmul.default", {out, of.argument(0, i)});
  return of.gradients(out);
}
std::vector<Value> two_of_any_rank(const BackwardCall& c) {
  Composition of(c);
  return of.gradients(of.call("matmul.default", {of.argument(0), of.argument(1)}));
}
std::vector<Value> matrix_power(const BackwardCall& c) {
  const int64_t n = c.call.integer(1);
  QDQ_CHECK(n > 0, kUnsupported, c.call.op().target, " has a gradient for powers above 0 only, found ", n);
  Composition of(c);
  const Term x = of.argument(0);
  Term out = x;
  for (int64_t i = 1; i < n; ++i) out = of.call("matmul.default", {out, x});
  return of.gradients(out);
}

// The square root of the sum of squares; others need singular values.
std::vector<Value> frobenius(const BackwardCall& c) {
  const std::string order = c.call.is_none(1) ? "fro" : c.call.string(1);
  QDQ_CHECK(order == "fro", kUnsupported, c.call.op().target, " has a gradient for 'fro' only, found '", order, "'");
  Composition of(c);
  return of.gradients(
      of.call("linalg_vector_norm.default", {of.argument(0), Value(2.0), c.call[2], c.call[3], Value()}));
}
std::vector<Value> norm_except_dim(const BackwardCall& c) {
  Composition of(c);
  const int64_t kept = c.call.integer(2) == -1 ? -1 : static_cast<int64_t>(wrap_axis(c.call.integer(2), c.x(0).dim()));
  Shape axes;
  for (int64_t axis = 0; axis < c.x(0).dim(); ++axis)
    if (axis != kept) axes.push_back(axis);
  const bool keeps = kept != -1;
  return of.gradients(
      of.call("linalg_vector_norm.default",
              {of.argument(0), Value(static_cast<double>(c.call.integer(1))), listed(axes), Value(keeps), Value()}));
}

// Sums without NaN, over how many there are.
std::vector<Value> nanmean(const BackwardCall& c) {
  Composition of(c);
  const Tensor x = contiguous_f32(c.x(0)), known = Tensor::empty(x.sizes(), DType::kF32);
  for (int64_t i = 0; i < x.numel(); ++i) known.data<float>()[i] = std::isnan(x.data<float>()[i]) ? 0 : 1;
  const Term whole = of.call("nansum.default", {of.argument(0), c.call[1], c.call[2], Value()}),
             count = of.call("nansum.default", {of.constant(known), c.call[1], c.call[2], Value()});
  return of.gradients(of.call("div.Tensor", {whole, count}));
}

std::vector<Value> sorted_rows(const BackwardCall& c) {
  Composition of(c);
  const Term x = of.argument(0);
  const Term order = of.call("argsort.default", {x, Value(int64_t{0}), Value(false)});
  return of.gradients(of.call("gather.default", {x, Value(int64_t{0}), order, Value(false)}));
}

std::vector<Value> repeated_by(const BackwardCall& c) {
  Composition of(c);
  const Tensor repeats = c.x(1).to(DType::kS64).contiguous();
  Term x = of.argument(0);
  int64_t axis = 0;
  if (c.call.is_none(2)) x = of.call("reshape.default", {x, listed({-1})});
  else axis = static_cast<int64_t>(wrap_axis(c.call.integer(2), c.x(0).dim()));
  std::vector<int64_t> from;
  const int64_t size = of.value(x).size(axis);
  for (int64_t i = 0; i < size; ++i)
    from.insert(from.end(), static_cast<size_t>(repeats.data<int64_t>()[repeats.numel() == 1 ? 0 : i]), i);
  const Tensor indices = Tensor::of<int64_t>({static_cast<int64_t>(from.size())}, std::span<const int64_t>(from));
  return of.gradients(of.call("index_select.default", {x, Value(axis), of.constant(indices)}));
}

// x * 2^exponent
std::vector<Value> ldexp(const BackwardCall& c) {
  Composition of(c);
  return of.gradients(multiplied(of, of.argument(0), of.call("pow.Scalar", {Value(2.0), of.argument(1)})));
}
// -x log(x)
std::vector<Value> entropy(const BackwardCall& c) {
  Composition of(c);
  const Term x = of.argument(0);
  return of.gradients(of.call("neg.default", {of.call("xlogy.Tensor", {x, x})}));
}
// The share of a normal distribution below x.
std::vector<Value> normal_share(const BackwardCall& c) {
  Composition of(c);
  const Term shared = of.call("erfc.default", {of.call("mul.Scalar", {of.argument(0), Value(-std::sqrt(0.5))})});
  return of.gradients(of.call("mul.Scalar", {shared, Value(0.5)}));
}

}  // namespace

void add_rearranged_backwards(std::vector<BackwardDef>& table) {
  const auto add = [&](std::string_view target, Backward backward) {
    table.push_back({target, backward, true, false});
  };
  add("mT.default", transposed);
  add("numpy_T.default", reversed_axes);
  add("fft_fftshift.default", half_turn<false>);
  add("fft_ifftshift.default", half_turn<true>);
  add("diff.default", diff);
  add("kron.default", kron);
  for (const std::string_view target : {"cross.default", "linalg_cross.default"}) add(target, cross);
  for (const std::string_view target : {"linalg_multi_dot.default", "chain_matmul.default"})
    add(target, product_of_all);
  add("linalg_matmul.default", two_of_any_rank);
  for (const std::string_view target : {"matrix_power.default", "linalg_matrix_power.default"})
    add(target, matrix_power);
  for (const std::string_view target : {"linalg_matrix_norm.str_ord", "linalg_norm.ord_str"}) add(target, frobenius);
  add("norm_except_dim.default", norm_except_dim);
  add("nanmean.default", nanmean);
  add("msort.default", sorted_rows);
  add("repeat_interleave.self_Tensor", repeated_by);
  add("ldexp.Tensor", ldexp);
  add("special_entr.default", entropy);
  add("special_ndtr.default", normal_share);
  for (const std::string_view target : {"fill.Scalar", "bernoulli.default"}) table.push_back({target, nullptr});
}

}  // namespace qdq
