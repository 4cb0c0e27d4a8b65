// Operators that show or move elements without changing them: views, copies, conversions, joining and splitting. Views
// alias their input's bytes, as in PyTorch.
#include <algorithm>

#include "op/elements.h"
#include "op/families.h"
#include "op/size_symbols.h"

namespace qdq {
namespace {

size_t rank_of(const Tensor& tensor) { return tensor.sizes().size(); }
size_t rank_of(const TensorMeta& meta) { return meta.sizes.size(); }

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
    sizes[*open] = count.floor_div(known);
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
  QDQ_CHECK(order.size() == rank, kInvalidArgument, call.op().target, " wants ", rank, " axes, found ", order.size());
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
  QDQ_CHECK(rank <= 2, kInvalidArgument, call.op().target, " wants at most 2 dimensions, found ", rank);
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

// Python's slice rules; the open size of an input is taken to be large enough for numbers inside of it.
struct Span {
  SymInt start, end;
};
SymInt clamp_index(const SymInt& index, const SymInt& size) {
  const std::optional<int64_t> i = index.constant(), n = size.constant();
  if (i && n) return std::clamp<int64_t>(*i < 0 ? *i + *n : *i, 0, *n);
  if (!i) return index;
  if (*i < 0) return size + index;
  return *i == std::numeric_limits<int64_t>::max() ? size : index;
}
template <class T> Span slice_span(const Call<T>& call, const SymInt& size) {
  Span span;
  const SymInt from = call.is_none(2) ? SymInt(0) : call.sym(2), to = call.is_none(3) ? size : call.sym(3);
  if (!is_known_outside(size) && from.is_constant() && (to.is_constant() || to == size)) {
    span.start = from == SymInt(0) ? SymInt(0) : bound_within(*from.constant(), size);
    span.end = to == size ? size : bound_within(*to.constant(), size);
    if (!(span.start == SymInt(0))) span.end = span.start + larger_size(0, span.end - span.start);
    return span;
  }
  span.start = call.is_none(2) ? SymInt(0) : clamp_index(call.sym(2), size);
  span.end = call.is_none(3) ? size : clamp_index(call.sym(3), size);
  const std::optional<int64_t> length = (span.end - span.start).constant();
  if (length && *length < 0) span.end = span.start;
  return span;
}
MetaValue infer_slice(const Call<TensorMeta>& call) {
  const TensorMeta& x = call.tensor(0);
  QDQ_CHECK(!x.sizes.empty(), kInvalidArgument, call.op().target, " cannot slice a tensor without axes");
  const int64_t step = call.integer(4);
  constexpr int64_t kMost = int64_t{1} << 31;  // so that strides cannot overflow
  QDQ_CHECK(step >= 1 && step <= kMost, kInvalidArgument, call.op().target, " wants a step from 1 to ", kMost,
            ", found ", step);
  SymShape sizes = x.sizes;
  SymInt& size = sizes[axis_of(call, 1, rank_of(x))];
  const Span span = slice_span(call, size);
  size = (span.end - span.start + SymInt(step - 1)).floor_div(SymInt(step));
  return tensor_meta(x.dtype, sizes);
}
Tensor sliced(const Call<Tensor>& call, const Tensor& x) {
  const int64_t axis = wrap_axis(call.integer(1), x.dim());
  const Span span = slice_span(call, SymInt(x.size(axis)));
  return x.slice(axis, *span.start.constant(), *span.end.constant(), call.integer(4));
}
Value eval_slice(const Call<Tensor>& call) {
  infer_call(call);
  return sliced(call, call.tensor(0));
}

MetaValue infer_select(const Call<TensorMeta>& call) {
  const TensorMeta& x = call.tensor(0);
  QDQ_CHECK(!x.sizes.empty(), kInvalidArgument, call.op().target, " cannot select from a tensor without axes");
  SymShape sizes = x.sizes;
  sizes.erase(sizes.begin() + static_cast<int64_t>(axis_of(call, 1, rank_of(x))));
  return tensor_meta(x.dtype, sizes);
}
Value eval_select(const Call<Tensor>& call) { return call.tensor(0).select(call.integer(1), call.integer(2)); }

MetaValue infer_narrow(const Call<TensorMeta>& call) {
  TensorMeta out = tensor_meta(call.tensor(0).dtype, call.tensor(0).sizes);
  out.sizes.at(axis_of(call, 1, out.sizes.size())) = call.sym(3);
  return out;
}
Value eval_narrow(const Call<Tensor>& call) {
  infer_call(call);
  const Tensor& x = call.tensor(0);
  const int64_t size = x.size(call.integer(1)), start = call.integer(2) < 0 ? call.integer(2) + size : call.integer(2),
                length = call.integer(3);
  QDQ_CHECK(start >= 0 && start <= size && length >= 0 && length <= size - start, kInvalidArgument, call.op().target,
            " cannot show ", length, " elements from ", call.integer(2), " on of an axis of size ", size);
  return x.slice(call.integer(1), start, start + length);
}

// The lengths of the parts along an axis.
using Lengths = std::vector<int64_t>;
template <class T> int64_t known_size(const Call<T>& call, const SymInt& size) {
  const std::optional<int64_t> value = size.constant();
  QDQ_CHECK(value.has_value(), kUnsupported, call.op().target, " splits an axis of the symbolic size ",
            size.to_string(), ": the number of parts must be known");
  return *value;
}
template <class T> Lengths equal_lengths(const Call<T>& call, int64_t size, int64_t length) {
  QDQ_CHECK(length > 0 || size == 0, kInvalidArgument, call.op().target, " cannot split into parts of length ", length);
  Lengths out;
  for (int64_t at = 0; at < size; at += length) out.push_back(std::min(length, size - at));
  if (out.empty()) out.push_back(0);
  return out;
}
template <class T> Lengths chunk_lengths(const Call<T>& call, const SymInt& size) {
  const int64_t n = known_size(call, size), chunks = call.integer(1);
  QDQ_CHECK(chunks > 0, kInvalidArgument, call.op().target, " wants at least 1 chunk, found ", chunks);
  return equal_lengths(call, n, n == 0 ? 1 : (n - 1) / chunks + 1);
}
template <class T> Lengths split_lengths(const Call<T>& call, const SymInt& size) {
  return equal_lengths(call, known_size(call, size), call.integer(1));
}
template <class T> Lengths section_lengths(const Call<T>& call, const SymInt& size) {
  const int64_t n = known_size(call, size), sections = call.integer(1);
  QDQ_CHECK(sections > 0 && sections <= 65536, kInvalidArgument, call.op().target, " wants 1 to 65536 sections, found ",
            sections);
  Lengths out(static_cast<size_t>(sections), n / sections);
  std::for_each_n(out.begin(), n % sections, [](int64_t& length) { ++length; });
  return out;
}
template <class T> Lengths listed_lengths(const Call<T>& call, const SymInt& size) {
  const Lengths out = call.integers(1);
  int64_t sum = 0;
  for (int64_t length : out) {
    QDQ_CHECK(length >= 0 && length <= std::numeric_limits<int64_t>::max() - sum, kInvalidArgument, call.op().target,
              " got the length ", length);
    sum += length;
  }
  QDQ_CHECK(may_be_equal(size, SymInt(sum)), kInvalidArgument, call.op().target, " got lengths that add up to ", sum,
            " for an axis of size ", size.to_string());
  return out;
}
template <class T> using LengthsOf = Lengths (*)(const Call<T>&, const SymInt&);
template <LengthsOf<TensorMeta> lengths> MetaValue infer_split(const Call<TensorMeta>& call) {
  const TensorMeta& x = call.tensor(0);
  const size_t axis = axis_of(call, 2, rank_of(x));
  MetaValue::List out;
  for (int64_t length : lengths(call, x.sizes.at(axis))) {
    SymShape sizes = x.sizes;
    sizes[axis] = length;
    out.push_back(tensor_meta(x.dtype, sizes));
  }
  return out;
}
template <LengthsOf<Tensor> lengths, bool copies> Value eval_split(const Call<Tensor>& call) {
  const Tensor& x = call.tensor(0);
  const int64_t axis = wrap_axis(call.integer(2), x.dim());
  Value::List out;
  int64_t at = 0;
  for (int64_t length : lengths(call, SymInt(x.size(axis)))) {
    const Tensor part = x.slice(axis, at, at + length);
    out.push_back(copies ? part.clone() : part);
    at += length;
  }
  return out;
}
MetaValue infer_unbind(const Call<TensorMeta>& call) {
  const TensorMeta& x = call.tensor(0);
  const size_t axis = axis_of(call, 1, rank_of(x));
  SymShape sizes = x.sizes;
  const int64_t count = known_size(call, sizes.at(axis));
  sizes.erase(sizes.begin() + static_cast<int64_t>(axis));
  return MetaValue::List(static_cast<size_t>(count), tensor_meta(x.dtype, sizes));
}
Value eval_unbind(const Call<Tensor>& call) {
  const Tensor& x = call.tensor(0);
  Value::List out;
  for (int64_t i = 0; i < x.size(call.integer(1)); ++i) out.push_back(x.select(call.integer(1), i));
  return out;
}

Value eval_unbind_copy(const Call<Tensor>& call) {
  Value::List out;
  const Value views = eval_unbind(call);
  for (const Value& part : *views.get_if<Value::List>()) out.push_back(part.get_if<Tensor>()->clone());
  return out;
}
// Parts that end at the given places, and the rest.
template <class T> Lengths lengths_between(const Call<T>& call, const SymInt& size) {
  const int64_t n = known_size(call, size);
  Lengths out;
  int64_t at = 0;
  for (int64_t end : call.integers(1)) {
    end = std::clamp<int64_t>(end < 0 ? end + n : end, 0, n);
    QDQ_CHECK(end >= at, kUnsupported, call.op().target, " wants places in order, found ", end, " behind ", at);
    out.push_back(end - at);
    at = end;
  }
  out.push_back(n - at);
  return out;
}

// The elements (i, i + offset) of two axes as a new last axis.
MetaValue infer_diagonal(const Call<TensorMeta>& call) {
  SymShape sizes = call.tensor(0).sizes;
  const size_t a = axis_of(call, 2, sizes.size()), b = axis_of(call, 3, sizes.size());
  QDQ_CHECK(a != b, kInvalidArgument, call.op().target, " wants two different axes");
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
  QDQ_CHECK(!sizes.empty(), kInvalidArgument, call.op().target, " wants a tensor with axes");
  const size_t a = axis_of(call, 2, rank), b = axis_of(call, 3, rank);
  QDQ_CHECK(a != b, kInvalidArgument, call.op().target, " wants two different axes");
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
  QDQ_CHECK(is_same, kInvalidArgument, call.op().target, " wants windows of shape ", to_string(wanted), ", found ",
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

MetaValue infer_cat(const Call<TensorMeta>& call) {
  std::vector<TensorMeta> parts = call.tensors(0);
  QDQ_CHECK(!parts.empty(), kInvalidArgument, call.op().target, " wants at least one tensor");
  DType dtype = parts[0].dtype;
  for (const TensorMeta& part : parts) dtype = promote(dtype, part.dtype);
  // PyTorch skips tensors of shape [0], whatever the others' rank is.
  const SymShape nothing{SymInt(0)};
  if (std::any_of(parts.begin(), parts.end(), [&](const TensorMeta& part) { return part.sizes != nothing; }))
    std::erase_if(parts, [&](const TensorMeta& part) { return part.sizes == nothing; });
  SymShape sizes = parts[0].sizes;
  QDQ_CHECK(!sizes.empty(), kInvalidArgument, call.op().target, " wants tensors with axes");
  const size_t axis = axis_of(call, 1, sizes.size());
  for (size_t n = 1; n < parts.size(); ++n) {
    bool fits = parts[n].sizes.size() == sizes.size();
    for (size_t a = 0; fits && a < sizes.size(); ++a) fits = a == axis || may_be_equal(parts[n].sizes[a], sizes[a]);
    QDQ_CHECK(fits, kInvalidArgument, call.op().target, " along axis ", axis, " cannot join shapes ",
              to_string(parts[0].sizes), " and ", to_string(parts[n].sizes));
    for (size_t a = 0; a < sizes.size(); ++a)
      if (a == axis) sizes[a] = sizes[a] + parts[n].sizes[a];
      else if (!sizes[a].is_constant()) sizes[a] = parts[n].sizes[a];
  }
  return tensor_meta(dtype, sizes);
}
Value eval_cat(const Call<Tensor>& call) {
  const Tensor out = empty_result(call);
  int64_t at = 0;
  for (const Tensor& part : call.tensors(0)) {
    if (part.sizes() == Shape{0}) continue;
    const int64_t size = part.size(call.integer(1));
    out.slice(call.integer(1), at, at + size).copy_from(part);
    at += size;
  }
  return out;
}
MetaValue infer_stack(const Call<TensorMeta>& call) {
  const std::vector<TensorMeta> parts = call.tensors(0);
  QDQ_CHECK(!parts.empty(), kInvalidArgument, call.op().target, " wants at least one tensor");
  DType dtype = parts[0].dtype;
  SymShape sizes = parts[0].sizes;
  for (const TensorMeta& part : parts) {
    dtype = promote(dtype, part.dtype);
    bool fits = part.sizes.size() == sizes.size();
    for (size_t a = 0; fits && a < sizes.size(); ++a) fits = may_be_equal(part.sizes[a], sizes[a]);
    QDQ_CHECK(fits, kInvalidArgument, call.op().target, " cannot stack shapes ", to_string(sizes), " and ",
              to_string(part.sizes));
  }
  sizes.insert(sizes.begin() + wrap_axis(call.integer(1), static_cast<int64_t>(sizes.size()) + 1),
               SymInt(static_cast<int64_t>(parts.size())));
  return tensor_meta(dtype, sizes);
}
Value eval_stack(const Call<Tensor>& call) {
  const Tensor out = empty_result(call);
  const std::vector<Tensor> parts = call.tensors(0);
  for (size_t n = 0; n < parts.size(); ++n) out.select(call.integer(1), static_cast<int64_t>(n)).copy_from(parts[n]);
  return out;
}

// repeat wants a number for each axis, new ones in front; tile fills up with ones in front.
MetaValue infer_repeat(const Call<TensorMeta>& call) {
  const TensorMeta& x = call.tensor(0);
  SymShape times = call.syms(1), sizes = x.sizes;
  if (call.op().schema.name == "tile" && times.size() < sizes.size())
    times.insert(times.begin(), sizes.size() - times.size(), SymInt(1));
  QDQ_CHECK(times.size() >= sizes.size(), kInvalidArgument, call.op().target, " wants at least ", sizes.size(),
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
    QDQ_CHECK(shifts.size() == 1, kInvalidArgument, "roll without axes wants one shift, found ", shifts.size());
    return rolled(x.reshape({x.numel()}), 0, shifts[0]).reshape(x.sizes());
  }
  QDQ_CHECK(axes.size() == shifts.size(), kInvalidArgument, "roll wants as many shifts as axes, found ", shifts.size(),
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

// The form with bytes of its own that functionalization makes of a view.
template <Eval F> Value copied(const Call<Tensor>& call) { return F(call).template get_if<Tensor>()->clone(); }

const Roles kView{.activation = 0, .shares_qparams = true};

void add_shape_views(std::vector<OpDef>& ops) {
  const auto add = [&](const char* line, Infer infer, Eval eval) {
    ops.push_back(keeping_numbers(define(line, infer, eval, kView, Family::kView)));
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
    ops.push_back(keeping_numbers(define(line, infer, eval, kView, Family::kView)));
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
  add("aten::as_strided_copy(Tensor self, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) -> Tensor",
      infer_as_strided, copied<eval_as_strided>);
  add("aten::narrow_copy(Tensor self, int dim, SymInt start, SymInt length) -> Tensor", infer_narrow,
      copied<eval_narrow>);
  add("aten::_reshape_copy(Tensor self, SymInt[] size) -> Tensor", infer_view, copied<eval_reshape>);
  add("aten::_reshape_alias(Tensor(a) self, SymInt[] size, SymInt[] stride) -> Tensor(a)", infer_view, eval_reshape);
  add("aten::movedim.int(Tensor(a) self, int source, int destination) -> Tensor(a)",
      infer_order<movedim_order<TensorMeta>>, eval_order<movedim_order<Tensor>>);
}

void add_parts(std::vector<OpDef>& ops) {
  Family family = Family::kView;  // of the entries that follow
  const auto add = [&](const char* line, Infer infer, Eval eval) {
    ops.push_back(keeping_numbers(define(line, infer, eval, kView, family)));
  };
  add("aten::slice.Tensor(Tensor(a) self, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor(a)",
      infer_slice, eval_slice);
  add("aten::slice_copy.Tensor(Tensor self, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor",
      infer_slice, copied<eval_slice>);
  add("aten::select.int(Tensor(a) self, int dim, SymInt index) -> Tensor(a)", infer_select, eval_select);
  add("aten::select_copy.int(Tensor self, int dim, SymInt index) -> Tensor", infer_select, copied<eval_select>);
  add("aten::narrow(Tensor(a) self, int dim, SymInt start, SymInt length) -> Tensor(a)", infer_narrow, eval_narrow);
  add("aten::as_strided(Tensor(a) self, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) -> Tensor(a)",
      infer_as_strided, eval_as_strided);
  family = Family::kSplit;
  add("aten::tensor_split.sections(Tensor(a -> *) self, SymInt sections, int dim=0) -> Tensor(a)[]",
      infer_split<section_lengths<TensorMeta>>, eval_split<section_lengths<Tensor>, false>);
  add("aten::chunk(Tensor(a -> *) self, int chunks, int dim=0) -> Tensor(a)[]", infer_split<chunk_lengths<TensorMeta>>,
      eval_split<chunk_lengths<Tensor>, false>);
  add("aten::split.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]",
      infer_split<split_lengths<TensorMeta>>, eval_split<split_lengths<Tensor>, false>);
  add("aten::split_copy.Tensor(Tensor self, SymInt split_size, int dim=0) -> Tensor[]",
      infer_split<split_lengths<TensorMeta>>, eval_split<split_lengths<Tensor>, true>);
  add("aten::split.sizes(Tensor(a -> *) self, SymInt[] split_size, int dim=0) -> Tensor(a)[]",
      infer_split<listed_lengths<TensorMeta>>, eval_split<listed_lengths<Tensor>, false>);
  add("aten::split_with_sizes(Tensor(a -> *) self, SymInt[] split_sizes, int dim=0) -> Tensor(a)[]",
      infer_split<listed_lengths<TensorMeta>>, eval_split<listed_lengths<Tensor>, false>);
  add("aten::split_with_sizes_copy(Tensor self, SymInt[] split_sizes, int dim=0) -> Tensor[]",
      infer_split<listed_lengths<TensorMeta>>, eval_split<listed_lengths<Tensor>, true>);
  add("aten::unsafe_split.Tensor(Tensor self, SymInt split_size, int dim=0) -> Tensor[]",
      infer_split<split_lengths<TensorMeta>>, eval_split<split_lengths<Tensor>, true>);
  add("aten::unsafe_split_with_sizes(Tensor self, SymInt[] split_sizes, int dim=0) -> Tensor[]",
      infer_split<listed_lengths<TensorMeta>>, eval_split<listed_lengths<Tensor>, true>);
  add("aten::unsafe_chunk(Tensor self, int chunks, int dim=0) -> Tensor[]", infer_split<chunk_lengths<TensorMeta>>,
      eval_split<chunk_lengths<Tensor>, true>);
  add("aten::tensor_split.indices(Tensor(a -> *) self, SymInt[] indices, int dim=0) -> Tensor(a)[]",
      infer_split<lengths_between<TensorMeta>>, eval_split<lengths_between<Tensor>, false>);
  add("aten::unbind_copy.int(Tensor self, int dim=0) -> Tensor[]", infer_unbind, eval_unbind_copy);
  add("aten::unbind.int(Tensor(a -> *) self, int dim=0) -> Tensor(a)[]", infer_unbind, eval_unbind);
  family = Family::kConcat;
  add("aten::cat(Tensor[] tensors, int dim=0) -> Tensor", infer_cat, eval_cat);
  add("aten::concat(Tensor[] tensors, int dim=0) -> Tensor", infer_cat, eval_cat);
  family = Family::kOther;
  add("aten::diag_embed(Tensor self, int offset=0, int dim1=-2, int dim2=-1) -> Tensor", infer_diag_embed,
      eval_diag_embed);
  ops.back().keeps_numbers = false;  // the zeros are new
  add("aten::stack(Tensor[] tensors, int dim=0) -> Tensor", infer_stack, eval_stack);
  add("aten::repeat(Tensor self, SymInt[] repeats) -> Tensor", infer_repeat, eval_repeat);
  add("aten::tile(Tensor self, SymInt[] dims) -> Tensor", infer_repeat, eval_repeat);
  add("aten::flip(Tensor self, int[] dims) -> Tensor", infer_like_self, eval_flip);
  add("aten::roll(Tensor self, SymInt[1] shifts, int[1] dims=[]) -> Tensor", infer_like_self, eval_roll);
}

void add_copies(std::vector<OpDef>& ops) {
  Family family = Family::kCopy;  // of the entries that follow
  const auto add = [&](const char* line, Eval eval, Infer infer = infer_like_self) {
    ops.push_back(define(line, infer, eval, kView, family));
    ops.back().keeps_numbers = family == Family::kCopy;
  };
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

}  // namespace

void add_view_ops(std::vector<OpDef>& ops) {
  add_shape_views(ops);
  add_axis_views(ops);
  add_parts(ops);
  add_copies(ops);
}

}  // namespace qdq
