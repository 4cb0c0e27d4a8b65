// Operators that write to elements that index tensors pick, and to parts of a copy.
#include "op/elements.h"
#include "op/families.h"
#include "op/index.h"

namespace qdq {
namespace {

// index_put: values broadcast to the shape that index would give. Later writes win; with accumulate they add up in
// order.
Value eval_index_put_(const Call<Tensor>& call) {
  const Tensor& x = call.tensor(0);
  QDQ_CHECK(call.tensor(2).dtype() == x.dtype(), kInvalidArgument, call.op().target, " needs ", to_string(x.dtype()),
            " values, found ", to_string(call.tensor(2).dtype()));
  const auto [sizes, offsets] = pick_elements(call);
  const Tensor values = call.tensor(2).expand(sizes).clone();
  if (!call.boolean(3)) {
    copy_elements(offsets.size(), size_of(x.dtype()),
                  [&](size_t i, auto copy) { copy(x.raw(), offsets[i], values.raw(), static_cast<int64_t>(i)); });
    return x;
  }
  if (x.dtype() == DType::kF32) {
    for (size_t i = 0; i < offsets.size(); ++i) x.data<float>()[offsets[i]] += values.data<float>()[i];
    return x;
  }
  const auto sum = [](auto a, auto b) { return add_wrapping(a, b); };
  for (size_t i = 0; i < offsets.size(); ++i) {
    const Tensor place = x.as_strided({}, {}, x.storage_offset() + offsets[i]),
                 value = values.as_strided({}, {}, static_cast<int64_t>(i));
    place.copy_from(run_loops(place, value, x.dtype(), x.dtype(), &sum, kWideLoops<decltype(sum)>));
  }
  return x;
}
// The functional form of an operator that writes to its first argument.
template <Eval F> Value on_copy(const Call<Tensor>& call) {
  std::vector<Value> args{call.tensor(0).clone()};
  for (size_t i = 1; i < call.size(); ++i) args.push_back(call[i]);
  return F(Call<Tensor>(call.op(), std::move(args)));
}

MetaValue infer_scatter(const Call<TensorMeta>& call) {
  infer_gather(call);
  return infer_like_self(call);
}
// Values for every index, in the order of the indices.
Tensor scattered_values(const Call<Tensor>& call, DType dtype) {
  // Values as many as indices; a tensor's are its leading corner.
  Tensor values = operand(call, 3).to(dtype);
  const Shape& sizes = call.tensor(2).sizes();
  if (call[3].is<Tensor>()) {
    for (size_t a = 0; a < sizes.size(); ++a) {
      QDQ_CHECK(values.sizes().size() == sizes.size() && values.sizes()[a] >= sizes[a], kInvalidArgument,
                call.op().target, " got values of shape ", to_string(values.sizes()), " for indices of shape ",
                to_string(sizes));
      values = values.slice(static_cast<int64_t>(a), 0, sizes[a]);
    }
  }
  return values.expand(sizes).contiguous();
}
Value eval_scatter(const Call<Tensor>& call) {
  infer_call(call);
  const Tensor out = call.tensor(0).clone(), values = scattered_values(call, out.dtype());
  const std::vector<int64_t> places = indexed_places(call, out);
  copy_elements(places.size(), size_of(out.dtype()),
                [&](size_t i, auto copy) { copy(out.raw(), places[i], values.raw(), static_cast<int64_t>(i)); });
  return out;
}

// How several values at one place become one.
enum class Combine { kSum, kProduct, kMean, kLargest, kSmallest };
Combine combine_of(const OpDef& op, const std::string& name) {
  if (name == "sum" || name == "add") return Combine::kSum;
  if (name == "prod" || name == "multiply") return Combine::kProduct;
  if (name == "mean") return Combine::kMean;
  if (name == "amax") return Combine::kLargest;
  QDQ_CHECK(name == "amin", kInvalidArgument, op.target, " knows no reduction '", name, "'");
  return Combine::kSmallest;
}
template <class C> C combined(Combine combine, C a, C b) {
  switch (combine) {
    case Combine::kProduct: return mul_wrapping(a, b);
    case Combine::kLargest: return a != a || a > b ? a : b;
    case Combine::kSmallest: return a != a || a < b ? a : b;
    default: return add_wrapping(a, b);
  }
}
// self with the values combined into it in their order, in double or 64 bits, rounded once. Without include_self what
// stood at a place that is written does not count.
Tensor combine_at(const Call<Tensor>& call, const Tensor& values, Combine combine, bool include_self) {
  const Tensor& self = call.tensor(0);
  return visit_wide(self.dtype(), [&](auto type) {
    using C = typename decltype(type)::type;
    const Tensor out = self.to(DTypeOf<C>::value).clone();
    C* sums = out.data<C>();
    const C* from = values.data<C>();
    const std::vector<int64_t> places = indexed_places(call, out);
    // How often each place was written, where that matters.
    const bool counts_matter = combine == Combine::kMean || !include_self;
    std::vector<int64_t> counts(counts_matter ? static_cast<size_t>(out.numel()) : 0, 0);
    for (size_t i = 0; i < places.size(); ++i) {
      const int64_t at = places[i];
      const bool first = counts_matter && counts[static_cast<size_t>(at)]++ == 0 && !include_self;
      sums[at] = first ? from[i] : combined(combine, sums[at], from[i]);
    }
    for (size_t at = 0; combine == Combine::kMean && at < counts.size(); ++at) {
      const int64_t count = counts[at] + (include_self ? 1 : 0);
      if (counts[at] == 0 || count == 1) continue;
      C& sum = sums[at];
      if constexpr (std::is_integral_v<C>) sum = sum / count - (sum % count != 0 && sum < 0);
      else sum /= static_cast<C>(count);
    }
    return out.to(self.dtype());
  });
}
Value eval_scatter_reduce(const Call<Tensor>& call) {
  infer_call(call);
  const std::optional<size_t> reduce = place_of(call, "reduce"), include_self = place_of(call, "include_self");
  const Combine combine = reduce ? combine_of(call.op(), call.string(*reduce)) : Combine::kSum;
  const Tensor& self = call.tensor(0);
  const Tensor values = scattered_values(call, self.dtype()).to(wide_dtype(self.dtype())).contiguous();
  return combine_at(call, values, combine, !include_self || call.boolean(*include_self));
}

// index_add and its kin: slice i of the source, for index i of the axis.
MetaValue infer_index_slices(const Call<TensorMeta>& call) {
  const TensorMeta &x = call.tensor(0), &index = call.tensor(2);
  check_index_dtype(call.op(), index.dtype);
  const size_t axis = axis_or_scalar(call, 1, x.sizes.size());
  QDQ_CHECK(index.sizes.size() <= 1, kInvalidArgument, call.op().target, " needs a list of indices, found shape ",
            to_string(index.sizes));
  if (place_of(call, "source")) {
    const TensorMeta& source = call.tensor(3);
    bool fits = source.sizes.size() == x.sizes.size() && source.dtype == x.dtype;
    for (size_t a = 0; fits && a < x.sizes.size(); ++a)
      fits = may_be_equal(source.sizes[a], a == axis ? numel_of(index.sizes) : x.sizes[a]);
    QDQ_CHECK(fits, kInvalidArgument, call.op().target, " got ", to_string(source.dtype), " ", to_string(source.sizes),
              " for ", numel_of(index.sizes).to_string(), " indices of ", to_string(x.dtype), " ", to_string(x.sizes));
  }
  return infer_like_self(call);
}
// The index list spread over the shape of the source, as scatter wants it: [[i0, i0], [i1, i1]].
Tensor spread_index(const Call<Tensor>& call, const Shape& sizes) {
  Shape shape(sizes.size(), 1);
  if (!shape.empty()) shape[axis_of(call, 1, shape.size())] = call.tensor(2).numel();
  return call.tensor(2).reshape(shape).expand(sizes);
}
Value eval_index_slices(const Call<Tensor>& call) {
  infer_call(call);
  const Tensor& self = call.tensor(0);
  Shape sizes = self.sizes();
  if (!sizes.empty()) sizes[axis_of(call, 1, sizes.size())] = call.tensor(2).numel();
  const Tensor values = operand(call, 3);
  QDQ_CHECK(place_of(call, "source") || values.dim() == 0, kInvalidArgument, call.op().target,
            " needs one value, found shape ", to_string(values.sizes()));
  const std::string_view name = call.op().schema->name;
  const Value index = spread_index(call, sizes);
  if (name == "index_add") {
    const Value scaled = run_op<Tensor>("mul.Tensor", {values, call[4]});
    return run_op<Tensor>("scatter_add", {self, call[1], index, scaled});
  }
  if (name == "index_reduce")
    return run_op<Tensor>("scatter_reduce.two", {self, call[1], index, values, call[4], call[5]});
  return run_op<Tensor>("scatter.src", {self, call[1], index, values.to(self.dtype()).expand(sizes)});
}

MetaValue infer_put(const Call<TensorMeta>& call) {
  check_index_dtype(call.op(), call.tensor(1).dtype);
  QDQ_CHECK(call.tensor(0).dtype == call.tensor(2).dtype &&
                may_be_equal(numel_of(call.tensor(1).sizes), numel_of(call.tensor(2).sizes)),
            kInvalidArgument, call.op().target, " got ", to_string(call.tensor(2).dtype), " ",
            to_string(call.tensor(2).sizes), " for indices of shape ", to_string(call.tensor(1).sizes));
  return infer_like_self(call);
}
Value eval_put(const Call<Tensor>& call) {
  infer_call(call);
  const Tensor &x = call.tensor(0), &index = call.tensor(1), &source = call.tensor(2);
  const Value row =
      run_op<Tensor>(call.boolean(3) ? "scatter_add" : "scatter.src",
                     {x.reshape({x.numel()}), 0, index.reshape({index.numel()}), source.reshape({source.numel()})});
  return row.get_if<Tensor>()->reshape(x.sizes());
}

// A copy of self with a part of it overwritten; the part is what the view operator of that name shows.
template <const std::string_view& view> Value eval_part_scatter(const Call<Tensor>& call) {
  const Tensor out = call.tensor(0).clone();
  std::vector<Value> args{out};
  for (size_t i = 2; i < call.size(); ++i) args.push_back(call[i]);
  const OpDef& op = *find_op(view);
  const Tensor part = *op.eval(Call<Tensor>(op, std::move(args))).get_if<Tensor>();
  QDQ_CHECK(part.sizes() == call.tensor(1).sizes(), kInvalidArgument, call.op().target, " needs a source of shape ",
            to_string(part.sizes()), ", found ", to_string(call.tensor(1).sizes()));
  part.copy_from(call.tensor(1));
  return out;
}
constexpr std::string_view kSlice = "torch.ops.aten.slice.Tensor", kSelect = "torch.ops.aten.select.int",
                           kDiagonal = "torch.ops.aten.diagonal.default",
                           kAsStrided = "torch.ops.aten.as_strided.default";

}  // namespace

void add_scatter_ops(std::vector<OpDef>& ops) {
  const auto add = [&](const char* line, Infer infer, Eval eval) { ops.push_back(define(line, infer, eval)); };
  add("aten::index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor",
      infer_like_self, on_copy<eval_index_put_>);
  add("aten::index_put_(Tensor(a!) self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor(a!)",
      infer_like_self, eval_index_put_);
  add("aten::_unsafe_index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor",
      infer_like_self, on_copy<eval_index_put_>);
  add("aten::put(Tensor self, Tensor index, Tensor source, bool accumulate=False) -> Tensor", infer_put, eval_put);
  add("aten::scatter.src(Tensor self, int dim, Tensor index, Tensor src) -> Tensor", infer_scatter, eval_scatter);
  add("aten::scatter.value(Tensor self, int dim, Tensor index, Scalar value) -> Tensor", infer_scatter, eval_scatter);
  add("aten::scatter.reduce(Tensor self, int dim, Tensor index, Tensor src, *, str reduce) -> Tensor", infer_scatter,
      eval_scatter_reduce);
  add("aten::scatter.value_reduce(Tensor self, int dim, Tensor index, Scalar value, *, str reduce) -> Tensor",
      infer_scatter, eval_scatter_reduce);
  add("aten::scatter_add(Tensor self, int dim, Tensor index, Tensor src) -> Tensor", infer_scatter,
      eval_scatter_reduce);
  add("aten::scatter_reduce.two(Tensor self, int dim, Tensor index, Tensor src, str reduce, *, bool "
      "include_self=True) -> Tensor",
      infer_scatter, eval_scatter_reduce);
  add("aten::index_add(Tensor self, int dim, Tensor index, Tensor source, *, Scalar alpha=1) -> Tensor",
      infer_index_slices, eval_index_slices);
  add("aten::index_copy(Tensor self, int dim, Tensor index, Tensor source) -> Tensor", infer_index_slices,
      eval_index_slices);
  add("aten::index_reduce(Tensor self, int dim, Tensor index, Tensor source, str reduce, *, bool include_self=True) -> "
      "Tensor",
      infer_index_slices, eval_index_slices);
  add("aten::index_fill.int_Scalar(Tensor self, int dim, Tensor index, Scalar value) -> Tensor", infer_index_slices,
      eval_index_slices);
  add("aten::index_fill.int_Tensor(Tensor self, int dim, Tensor index, Tensor value) -> Tensor", infer_index_slices,
      eval_index_slices);
  add("aten::slice_scatter(Tensor self, Tensor src, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> "
      "Tensor",
      infer_like_self, eval_part_scatter<kSlice>);
  add("aten::select_scatter(Tensor self, Tensor src, int dim, SymInt index) -> Tensor", infer_like_self,
      eval_part_scatter<kSelect>);
  add("aten::diagonal_scatter(Tensor self, Tensor src, int offset=0, int dim1=0, int dim2=1) -> Tensor",
      infer_like_self, eval_part_scatter<kDiagonal>);
  add("aten::as_strided_scatter(Tensor self, Tensor src, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) "
      "-> Tensor",
      infer_like_self, eval_part_scatter<kAsStrided>);
}

}  // namespace qdq
