// Operators that show a part of a tensor, take it apart along an axis, or join tensors along one. Parts alias their
// input's bytes, as in PyTorch.
#include <algorithm>

#include "op/elements.h"
#include "op/families.h"
#include "op/size_symbols.h"
#include "tensor/sym_arithmetic.h"

namespace qdq {
namespace {

// Python's slice rules; the open size of an input is taken to be large enough for numbers and sizes inside of it.
struct Span {
  SymInt start, end;
};
SymInt clamp_index(const SymInt& index, const SymInt& size) {
  const std::optional<int64_t> i = index.constant(), n = size.constant();
  if (i && n) return std::clamp<int64_t>(*i < 0 ? *i + *n : *i, 0, *n);
  if (!i) return is_negated(index) ? size + index : index;
  if (*i < 0) return size + index;
  return *i == std::numeric_limits<int64_t>::max() ? size : index;
}
template <class T> Span slice_span(const Call<T>& call, const SymInt& size) {
  Span span;
  const SymInt from = call.is_none(2) ? SymInt(0) : call.sym(2), to = call.is_none(3) ? size : call.sym(3);
  if (!is_known_outside(size) && from.is_constant() && (to.is_constant() || to == size)) {
    const int64_t last = to == size ? INT64_MAX : *to.constant();
    span.start = from == SymInt(0) ? SymInt(0) : bound_within(*from.constant(), size);
    span.end = span.start + length_within(*from.constant(), last, size);
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
  QDQ_CHECK(step >= 1 && step <= kMost, kInvalidArgument, call.op().target, " needs a step from 1 to ", kMost,
            ", found ", step);
  SymShape sizes = x.sizes;
  SymInt& size = sizes[axis_of(call, 1, x.sizes.size())];
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
  sizes.erase(sizes.begin() + static_cast<int64_t>(axis_of(call, 1, x.sizes.size())));
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
  QDQ_CHECK(chunks > 0, kInvalidArgument, call.op().target, " needs at least 1 chunk, found ", chunks);
  return equal_lengths(call, n, n == 0 ? 1 : (n - 1) / chunks + 1);
}
template <class T> Lengths split_lengths(const Call<T>& call, const SymInt& size) {
  return equal_lengths(call, known_size(call, size), call.integer(1));
}
template <class T> Lengths section_lengths(const Call<T>& call, const SymInt& size) {
  const int64_t n = known_size(call, size), sections = call.integer(1);
  QDQ_CHECK(sections > 0 && sections <= 65536, kInvalidArgument, call.op().target, " needs 1 to 65536 sections, found ",
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
  const size_t axis = axis_of(call, 2, x.sizes.size());
  MetaValue::List out;
  for (int64_t length : lengths(call, x.sizes.at(axis))) {
    SymShape sizes = x.sizes;
    sizes[axis] = length;
    out.push_back(tensor_meta(x.dtype, sizes));
  }
  return out;
}
// Lengths may be sizes, as where what was joined is parted again.
MetaValue infer_listed_split(const Call<TensorMeta>& call) {
  const TensorMeta& x = call.tensor(0);
  const size_t axis = axis_of(call, 2, x.sizes.size());
  const SymShape lengths = call.syms(1);
  const auto is_known = [](const SymInt& length) { return length.is_constant(); };
  if (std::all_of(lengths.begin(), lengths.end(), is_known)) return infer_split<listed_lengths<TensorMeta>>(call);
  SymInt sum;
  MetaValue::List out;
  for (const SymInt& length : lengths) {
    SymShape sizes = x.sizes;
    sizes[axis] = length;
    sum = sum + length;
    out.push_back(tensor_meta(x.dtype, sizes));
  }
  QDQ_CHECK(may_be_equal(x.sizes[axis], sum), kInvalidArgument, call.op().target, " got lengths that add up to ",
            sum.to_string(), " for an axis of size ", x.sizes[axis].to_string());
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
  const size_t axis = axis_of(call, 1, x.sizes.size());
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
    QDQ_CHECK(end >= at, kUnsupported, call.op().target, " needs places in order, found ", end, " behind ", at);
    out.push_back(end - at);
    at = end;
  }
  out.push_back(n - at);
  return out;
}

MetaValue infer_cat(const Call<TensorMeta>& call) {
  std::vector<TensorMeta> parts = call.tensors(0);
  QDQ_CHECK(!parts.empty(), kInvalidArgument, call.op().target, " needs at least one tensor");
  DType dtype = parts[0].dtype;
  for (const TensorMeta& part : parts) dtype = promote(dtype, part.dtype);
  // PyTorch skips tensors of shape [0], whatever the others' rank is.
  const SymShape nothing{SymInt(0)};
  if (std::any_of(parts.begin(), parts.end(), [&](const TensorMeta& part) { return part.sizes != nothing; }))
    std::erase_if(parts, [&](const TensorMeta& part) { return part.sizes == nothing; });
  SymShape sizes = parts[0].sizes;
  QDQ_CHECK(!sizes.empty(), kInvalidArgument, call.op().target, " needs tensors with axes");
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
  QDQ_CHECK(!parts.empty(), kInvalidArgument, call.op().target, " needs at least one tensor");
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

}  // namespace

void add_part_ops(std::vector<OpDef>& ops) {
  Family family = Family::kView;  // of the entries that follow
  const auto add = [&](const char* line, Infer infer, Eval eval) {
    ops.push_back(keeping_numbers(define(line, infer, eval, kSharesQparams, family)));
  };
  add("aten::slice.Tensor(Tensor(a) self, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor(a)",
      infer_slice, eval_slice);
  add("aten::slice_copy.Tensor(Tensor self, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor",
      infer_slice, copied<eval_slice>);
  add("aten::select.int(Tensor(a) self, int dim, SymInt index) -> Tensor(a)", infer_select, eval_select);
  add("aten::select_copy.int(Tensor self, int dim, SymInt index) -> Tensor", infer_select, copied<eval_select>);
  add("aten::narrow(Tensor(a) self, int dim, SymInt start, SymInt length) -> Tensor(a)", infer_narrow, eval_narrow);
  add("aten::narrow_copy(Tensor self, int dim, SymInt start, SymInt length) -> Tensor", infer_narrow,
      copied<eval_narrow>);
  family = Family::kSplit;
  add("aten::tensor_split.sections(Tensor(a -> *) self, SymInt sections, int dim=0) -> Tensor(a)[]",
      infer_split<section_lengths<TensorMeta>>, eval_split<section_lengths<Tensor>, false>);
  add("aten::chunk(Tensor(a -> *) self, int chunks, int dim=0) -> Tensor(a)[]", infer_split<chunk_lengths<TensorMeta>>,
      eval_split<chunk_lengths<Tensor>, false>);
  add("aten::split.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]",
      infer_split<split_lengths<TensorMeta>>, eval_split<split_lengths<Tensor>, false>);
  add("aten::split_copy.Tensor(Tensor self, SymInt split_size, int dim=0) -> Tensor[]",
      infer_split<split_lengths<TensorMeta>>, eval_split<split_lengths<Tensor>, true>);
  add("aten::split.sizes(Tensor(a -> *) self, SymInt[] split_size, int dim=0) -> Tensor(a)[]", infer_listed_split,
      eval_split<listed_lengths<Tensor>, false>);
  add("aten::split_with_sizes(Tensor(a -> *) self, SymInt[] split_sizes, int dim=0) -> Tensor(a)[]", infer_listed_split,
      eval_split<listed_lengths<Tensor>, false>);
  add("aten::split_with_sizes_copy(Tensor self, SymInt[] split_sizes, int dim=0) -> Tensor[]", infer_listed_split,
      eval_split<listed_lengths<Tensor>, true>);
  add("aten::unsafe_split.Tensor(Tensor self, SymInt split_size, int dim=0) -> Tensor[]",
      infer_split<split_lengths<TensorMeta>>, eval_split<split_lengths<Tensor>, true>);
  add("aten::unsafe_split_with_sizes(Tensor self, SymInt[] split_sizes, int dim=0) -> Tensor[]", infer_listed_split,
      eval_split<listed_lengths<Tensor>, true>);
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
  add("aten::stack(Tensor[] tensors, int dim=0) -> Tensor", infer_stack, eval_stack);
}

}  // namespace qdq
