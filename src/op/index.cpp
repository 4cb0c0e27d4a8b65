// Operators that pick elements by index tensors, and triangles.
#include "op/index.h"

#include <algorithm>

#include "op/elements.h"
#include "op/families.h"

namespace qdq {
namespace {

MetaValue infer_embedding(const Call<TensorMeta>& call) {
  const TensorMeta &weight = call.tensor(0), &indices = call.tensor(1);
  QDQ_CHECK(weight.sizes.size() == 2, kInvalidArgument, call.op().target, " needs a matrix as weight, found shape ",
            to_string(weight.sizes));
  check_index_dtype(call.op(), indices.dtype);
  SymShape sizes = indices.sizes;
  sizes.push_back(weight.sizes[1]);
  return tensor_meta(weight.dtype, sizes);
}
Value eval_embedding(const Call<Tensor>& call) {
  const Shape sizes = constant_shape(result_meta(call).sizes);
  const Tensor& weight = call.tensor(0);
  const Tensor indices = call.tensor(1).to(DType::kS64).contiguous();
  std::vector<int64_t> rows;
  // PyTorch refuses negative indices; a Gather of ONNX, which this is too, counts them from the end.
  for (int64_t index : indices.span<int64_t>()) rows.push_back(checked_index(call.op(), index, weight.size(0)));
  return take(weight, 0, rows).reshape(sizes);
}

MetaValue infer_index_select(const Call<TensorMeta>& call) {
  const TensorMeta &x = call.tensor(0), &indices = call.tensor(2);
  check_index_dtype(call.op(), indices.dtype);
  QDQ_CHECK(!x.sizes.empty() && indices.sizes.size() <= 1, kInvalidArgument, call.op().target,
            " needs a list of indices, found shape ", to_string(indices.sizes));
  SymShape sizes = x.sizes;
  sizes[axis_of(call, 1, sizes.size())] = numel_of(indices.sizes);
  return tensor_meta(x.dtype, sizes);
}
Value eval_index_select(const Call<Tensor>& call) {
  infer_call(call);
  const Tensor& x = call.tensor(0);
  const int64_t axis = wrap_axis(call.integer(1), x.dim());
  const Tensor indices = call.tensor(2).to(DType::kS64).contiguous();
  std::vector<int64_t> source;
  for (int64_t index : indices.span<int64_t>()) source.push_back(checked_index(call.op(), index, x.size(axis)));
  return take(x, axis, source);
}

// Advanced indexing, x[..., i, ...] with a tensor or nothing for each axis: the index tensors broadcast, and their axes
// stand where the first of them was, or in front if axes without index lie between them
// (ATen/native/TensorAdvancedIndexing.cpp).
template <class T> struct Indices {
  std::vector<std::optional<T>> per_axis;
  bool adjacent = true;
  size_t first = 0;
};
template <class T> Indices<T> read_indices(const OpDef& op, const typename BasicValue<T>::List& list, size_t rank) {
  QDQ_CHECK(list.size() <= rank, kInvalidArgument, op.target, " needs a list of at most ", rank, " indices");
  Indices<T> out;
  out.per_axis.resize(rank);
  size_t runs = 0;
  bool inside = false;
  for (size_t a = 0; a < list.size(); ++a) {
    const T* index = list[a].template get_if<T>();
    QDQ_CHECK(index != nullptr || list[a].is_none(), kInvalidArgument, op.target, " needs tensors as indices");
    if (index) {
      out.per_axis[a] = *index;
      if (!inside && runs++ == 0) out.first = a;
    }
    inside = index != nullptr;
  }
  out.adjacent = runs <= 1;
  if (!out.adjacent) out.first = 0;
  return out;
}
// A bool mask is what nonzero() gives: one index tensor for each of its axes.
template <class T> bool is_mask(const BasicValue<T>& value) {
  const T* tensor = value.template get_if<T>();
  if (tensor == nullptr) return false;
  if constexpr (std::is_same_v<T, Tensor>) return tensor->dtype() == DType::kBool || tensor->dtype() == DType::kU8;
  else return tensor->dtype == DType::kBool || tensor->dtype == DType::kU8;
}
template <class T> typename BasicValue<T>::List without_masks(const Call<T>& call, size_t place) {
  using Value = BasicValue<T>;
  const auto* list = call[place].template get_if<typename Value::List>();
  QDQ_CHECK(list != nullptr, kInvalidArgument, call.op().target, " needs a list of indices");
  const auto sizes_of = [](const T& tensor) {
    if constexpr (std::is_same_v<T, Tensor>) return tensor.sizes();
    else return tensor.sizes;
  };
  const auto sizes = sizes_of(call.tensor(0));
  typename Value::List out;
  for (const Value& value : *list) {
    if (!is_mask(value)) {
      out.push_back(value);
      continue;
    }
    const auto masked = sizes_of(*value.template get_if<T>());
    bool fits = out.size() + masked.size() <= sizes.size();
    for (size_t a = 0; fits && a < masked.size(); ++a) fits = may_be_equal(masked[a], sizes[out.size() + a]);
    QDQ_CHECK(fits, kInvalidArgument, call.op().target, " got a mask of shape ", to_string(masked),
              " for a tensor of shape ", to_string(sizes));
    const Value places = run_op<T>("nonzero_numpy", {value});
    const auto& axes = *places.template get_if<typename Value::List>();
    // A mask without axes is one index into an axis of 1, which no operator of a program has.
    QDQ_CHECK(!masked.empty(), kUnsupported, call.op().target, " by a mask without axes");
    out.insert(out.end(), axes.begin(), axes.end());
  }
  return out;
}

MetaValue infer_index(const Call<TensorMeta>& call) {
  const TensorMeta& x = call.tensor(0);
  const Indices<TensorMeta> indices = read_indices<TensorMeta>(call.op(), without_masks(call, 1), x.sizes.size());
  SymShape shared, sizes;
  for (const std::optional<TensorMeta>& index : indices.per_axis) {
    if (!index) continue;
    check_index_dtype(call.op(), index->dtype);
    shared = broadcast_shapes(shared, index->sizes);
  }
  bool placed = false;
  for (size_t a = 0; a < x.sizes.size(); ++a) {
    if (!placed && (!indices.adjacent || indices.per_axis[a])) {
      sizes.insert(sizes.end(), shared.begin(), shared.end());
      placed = true;
    }
    if (!indices.per_axis[a]) sizes.push_back(x.sizes[a]);
  }
  return tensor_meta(x.dtype, sizes);
}

}  // namespace

int64_t checked_index(const OpDef& op, int64_t index, int64_t size) {
  QDQ_CHECK(index >= -size && index < size, kInvalidArgument, op.target, " got index ", index, " for an axis of size ",
            size);
  return index < 0 ? index + size : index;
}

MetaValue infer_gather(const Call<TensorMeta>& call) {
  const TensorMeta &x = call.tensor(0), &index = call.tensor(2);
  check_index_dtype(call.op(), index.dtype);
  QDQ_CHECK(x.sizes.size() == index.sizes.size(), kInvalidArgument, call.op().target, " needs indices of ",
            x.sizes.size(), " dimensions, found shape ", to_string(index.sizes));
  const size_t axis = axis_or_scalar(call, 1, x.sizes.size());
  for (size_t a = 0; a < x.sizes.size(); ++a) {
    const std::optional<int64_t> wanted = index.sizes[a].constant(), size = x.sizes[a].constant();
    QDQ_CHECK(a == axis || !wanted || !size || *wanted <= *size, kInvalidArgument, call.op().target,
              " got indices of shape ", to_string(index.sizes), " for a tensor of shape ", to_string(x.sizes));
  }
  return tensor_meta(x.dtype, index.sizes);
}

std::vector<int64_t> indexed_places(const Call<Tensor>& call, const Tensor& x) {
  const Tensor index = call.tensor(2).to(DType::kS64).contiguous();
  const int64_t* given = index.data<int64_t>();
  std::vector<int64_t> places(static_cast<size_t>(index.numel()), 0);
  if (x.dim() == 0) return places;
  const size_t axis = static_cast<size_t>(wrap_axis(call.integer(1), x.dim()));
  const int64_t size = x.sizes()[axis], stride = x.strides()[axis];
  Shape others = x.strides();
  others[axis] = 0;
  int64_t* to = places.data();
  const std::array strides{index.strides().data(), static_cast<const int64_t*>(others.data())};
  for (RowWalk row(index.sizes(), strides); row.next();)
    for (int64_t i = 0; i < row.extent(); ++i, ++given)
      *to++ = row.offset(1) + i * row.step(1) + checked_index(call.op(), *given, size) * stride;
  return places;
}

PickedElements pick_elements(const Call<Tensor>& call) {
  const Tensor& x = call.tensor(0);
  const Value::List plain = without_masks(call, 1);
  // As a call again, for the shared parts.
  const Call<Tensor> index_call(*find_op("torch.ops.aten.index.Tensor"), {x, plain});
  const Shape sizes = constant_shape(result_meta(index_call).sizes);
  const Indices<Tensor> indices = read_indices<Tensor>(call.op(), plain, x.sizes().size());
  Shape shared;
  for (const std::optional<Tensor>& index : indices.per_axis)
    if (index) shared = broadcast_shapes(shared, index->sizes());
  std::vector<Tensor> expanded(indices.per_axis.size());
  for (size_t a = 0; a < expanded.size(); ++a)
    if (indices.per_axis[a]) expanded[a] = indices.per_axis[a]->to(DType::kS64).expand(shared).contiguous();
  // The offsets of the axes in front of the shared ones, of these, and of those behind, which add up.
  const auto combined = [](const std::vector<int64_t>& offsets, int64_t size, int64_t stride) {
    std::vector<int64_t> out;
    for (const int64_t offset : offsets)
      for (int64_t i = 0; i < size; ++i) out.push_back(offset + i * stride);
    return out;
  };
  std::vector<int64_t> before{0}, picked(static_cast<size_t>(numel_of(shared)), 0), behind{0};
  size_t axis = 0;  // of the result, next one that comes straight from x
  for (size_t a = 0; a < expanded.size(); ++a) {
    if (expanded[a].defined()) {
      const int64_t* index = expanded[a].data<int64_t>();
      for (size_t i = 0; numel_of(sizes) > 0 && i < picked.size(); ++i)
        picked[i] += checked_index(call.op(), index[i], x.sizes()[a]) * x.strides()[a];
      continue;
    }
    std::vector<int64_t>& side = axis++ < indices.first ? before : behind;
    side = combined(side, x.sizes()[a], x.strides()[a]);
  }
  std::vector<int64_t> offsets;
  offsets.reserve(static_cast<size_t>(numel_of(sizes)));
  for (const int64_t front : before)
    for (const int64_t middle : picked)
      for (const int64_t back : behind) offsets.push_back(front + middle + back);
  return {sizes, offsets};
}

namespace {

Value eval_index(const Call<Tensor>& call) {
  const Tensor& x = call.tensor(0);
  const auto [sizes, offsets] = pick_elements(call);
  const Tensor out = Tensor::empty(sizes, x.dtype());
  copy_elements(offsets.size(), size_of(x.dtype()),
                [&](size_t i, auto copy) { copy(out.raw(), static_cast<int64_t>(i), x.raw(), offsets[i]); });
  return out;
}
Value eval_gather(const Call<Tensor>& call) {
  const Tensor& x = call.tensor(0);
  const Tensor out = empty_result(call);
  const std::vector<int64_t> places = indexed_places(call, x);
  copy_elements(places.size(), size_of(x.dtype()),
                [&](size_t i, auto copy) { copy(out.raw(), static_cast<int64_t>(i), x.raw(), places[i]); });
  return out;
}
// take sees the tensor as one row.
MetaValue infer_take(const Call<TensorMeta>& call) {
  check_index_dtype(call.op(), call.tensor(1).dtype);
  return tensor_meta(call.tensor(0).dtype, call.tensor(1).sizes);
}
Value eval_take(const Call<Tensor>& call) {
  infer_call(call);
  const Tensor& x = call.tensor(0);
  const Value row =
      run_op<Tensor>("index_select", {x.reshape({x.numel()}), 0, call.tensor(1).reshape({call.tensor(1).numel()})});
  return row.get_if<Tensor>()->reshape(call.tensor(1).sizes());
}
// gather with broadcasting beside the axis; without an axis of the rows that both are.
template <class T> BasicValue<T> take_along_dim(const Call<T>& call) {
  using V = BasicValue<T>;
  if (call.is_none(2)) {
    const V row = run_op<T>("reshape", {call[0], typename V::List{-1}}),
            at = run_op<T>("reshape", {call[1], typename V::List{-1}});
    return run_op<T>("gather", {row, 0, at});
  }
  const auto sizes_of = [&](size_t i) {
    if constexpr (std::is_same_v<T, Tensor>) return call.tensor(i).sizes();
    else return call.tensor(i).sizes;
  };
  auto x = sizes_of(0), index = sizes_of(1);
  QDQ_CHECK(x.size() == index.size() && !x.empty(), kInvalidArgument, call.op().target, " needs indices of ", x.size(),
            " dimensions, found shape ", to_string(index));
  const size_t axis = axis_of(call, 2, x.size());
  const auto own = x[axis], wanted = index[axis];
  x[axis] = index[axis] = 1;
  x = index = broadcast_shapes(x, index);
  x[axis] = own;
  index[axis] = wanted;
  const auto expanded = [](const V& value, const auto& sizes) {
    return run_op<T>("expand", {value, typename V::List(sizes.begin(), sizes.end())});
  };
  return run_op<T>("gather", {expanded(call[0], x), call[2], expanded(call[1], index)});
}

// Elements above (tril) or below (triu) the diagonal become 0.
MetaValue infer_triangle(const Call<TensorMeta>& call) {
  QDQ_CHECK(call.tensor(0).sizes.size() >= 2, kInvalidArgument, call.op().target,
            " needs at least 2 dimensions, found shape ", to_string(call.tensor(0).sizes));
  return infer_like_self(call);
}
template <bool lower> Value eval_triangle(const Call<Tensor>& call) {
  infer_call(call);
  const Tensor out = call.tensor(0).clone();
  const int64_t rows = out.size(-2), columns = out.size(-1);
  const int64_t diagonal = std::clamp(call.integer(1), -rows - 1, columns);
  const size_t size = size_of(out.dtype());
  for (int64_t i = 0; columns > 0 && i < out.numel() / columns; ++i) {
    // Columns up to the one behind the diagonal are below it.
    const int64_t below = std::clamp<int64_t>(i % rows + diagonal + (lower ? 1 : 0), 0, columns);
    const int64_t begin = lower ? below : 0, end = lower ? columns : below;
    std::memset(out.raw() + static_cast<size_t>(i * columns + begin) * size, 0,
                static_cast<size_t>(end - begin) * size);
  }
  return out;
}

// Every element along the axis `repeats` times; without axis the flat tensor.
MetaValue infer_repeat_interleave(const Call<TensorMeta>& call) {
  const TensorMeta& x = call.tensor(0);
  const std::optional<int64_t> repeats = call.sym(1).constant();
  QDQ_CHECK(!repeats || *repeats >= 0, kInvalidArgument, call.op().target, " got ", *repeats, " repeats");
  if (call.is_none(2)) return tensor_meta(x.dtype, {numel_of(x.sizes) * call.sym(1)});
  SymShape sizes = x.sizes;
  SymInt& size = sizes.at(axis_of(call, 2, sizes.size()));
  size = size * call.sym(1);
  return tensor_meta(x.dtype, sizes);
}
Value eval_repeat_interleave(const Call<Tensor>& call) {
  const Shape sizes = constant_shape(result_meta(call).sizes);
  const Tensor x = call.is_none(2) ? call.tensor(0).reshape({call.tensor(0).numel()}) : call.tensor(0);
  const int64_t axis = call.is_none(2) ? 0 : wrap_axis(call.integer(2), x.dim()), repeats = call.integer(1);
  std::vector<int64_t> source;
  for (int64_t i = 0; i < sizes[static_cast<size_t>(axis)]; ++i) source.push_back(i / repeats);
  return take(x, axis, source);
}

// one_hot: out[..., c] = 1 where c is the value, else 0. The number of classes is an argument: one that follows from
// the values has no shape before running.
MetaValue infer_one_hot(const Call<TensorMeta>& call) {
  const TensorMeta& x = call.tensor(0);
  QDQ_CHECK(x.dtype == DType::kS64, kInvalidArgument, call.op().target, " needs int64 classes, got ",
            to_string(x.dtype));
  const SymInt classes = call.sym(1);
  QDQ_CHECK(!classes.constant() || *classes.constant() > 0, kUnsupported, call.op().target, " with ",
            classes.to_string(), " classes; wanted a positive number, as qdq does not derive it from the values");
  SymShape sizes = x.sizes;
  sizes.push_back(classes);
  return tensor_meta(DType::kS64, sizes);
}
Value eval_one_hot(const Call<Tensor>& call) {
  const Tensor out = empty_result(call);
  const Tensor x = call.tensor(0).contiguous();
  const int64_t classes = call.integer(1);
  for (int64_t i = 0; i < x.numel(); ++i) {
    const int64_t c = x.data<int64_t>()[i];
    QDQ_CHECK(c >= 0 && c < classes, kInvalidArgument, call.op().target, " got the class ", c, " of ", classes);
    out.data<int64_t>()[i * classes + c] = 1;
  }
  return out;
}

}  // namespace

void add_index_ops(std::vector<OpDef>& ops) {
  const auto add = [&](const char* line, Infer infer, Eval eval, const Roles& roles = {}) {
    ops.push_back(define(line, infer, eval, roles));
    if (roles.shares_qparams) ops.back().family = Family::kIndex, ops.back().keeps_numbers = true;
  };
  add("aten::embedding(Tensor weight, Tensor indices, SymInt padding_idx=-1, bool scale_grad_by_freq=False, bool "
      "sparse=False) -> Tensor",
      infer_embedding, eval_embedding, Roles{.weight = 0});
  ops.back().family = Family::kEmbedding;
  ops.back().keeps_numbers = true;
  add("aten::one_hot(Tensor self, int num_classes=-1) -> Tensor", infer_one_hot, eval_one_hot);
  add("aten::index_select(Tensor self, int dim, Tensor index) -> Tensor", infer_index_select, eval_index_select,
      kSharesQparams);
  add("aten::index.Tensor(Tensor self, Tensor?[] indices) -> Tensor", infer_index, eval_index, kSharesQparams);
  add("aten::gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor", infer_gather,
      eval_gather, kSharesQparams);
  add("aten::take(Tensor self, Tensor index) -> Tensor", infer_take, eval_take, kSharesQparams);
  add("aten::take_along_dim(Tensor self, Tensor indices, int? dim=None) -> Tensor", take_along_dim<TensorMeta>,
      take_along_dim<Tensor>, kSharesQparams);
  add("aten::_unsafe_index.Tensor(Tensor self, Tensor?[] indices) -> Tensor", infer_index, eval_index, kSharesQparams);
  add("aten::tril(Tensor self, int diagonal=0) -> Tensor", infer_triangle, eval_triangle<true>);
  add("aten::triu(Tensor self, int diagonal=0) -> Tensor", infer_triangle, eval_triangle<false>);
  add("aten::repeat_interleave.self_int(Tensor self, SymInt repeats, int? dim=None, *, SymInt? output_size=None) -> "
      "Tensor",
      infer_repeat_interleave, eval_repeat_interleave, kSharesQparams);
}

}  // namespace qdq
