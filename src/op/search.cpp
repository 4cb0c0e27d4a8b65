// Operators that look for values: where a mask is true, which values there are, where a value belongs in a sorted row.
// How large most of their results are only the values tell.

#include "op/elements.h"
#include "op/families.h"

namespace qdq {
namespace {

// The places of the elements that are not 0, in C order, for each axis.
std::vector<std::vector<int64_t>> places_of(const Tensor& x) {
  const Tensor mask = x.to(DType::kBool).contiguous();
  std::vector<std::vector<int64_t>> places(x.sizes().size());
  for (int64_t i = 0; i < mask.numel(); ++i) {
    if (!mask.data<bool>()[i]) continue;
    int64_t rest = i;
    for (size_t a = places.size(); a-- > 0; rest /= x.sizes()[a]) places[a].push_back(rest % x.sizes()[a]);
  }
  return places;
}
Tensor vector_of(const std::vector<int64_t>& values) {
  return Tensor::of<int64_t>({static_cast<int64_t>(values.size())}, values);
}

// nonzero: a row of indices for each place.
MetaValue infer_nonzero(const Call<TensorMeta>& call) {
  return tensor_meta(DType::kS64, {size_from_values(), SymInt(static_cast<int64_t>(call.tensor(0).sizes.size()))});
}
Value eval_nonzero(const Call<Tensor>& call) {
  const Tensor& x = call.tensor(0);
  if (x.dim() == 0) return Tensor::empty({x.to(DType::kBool).item() != 0 ? 1 : 0, 0}, DType::kS64);
  const std::vector<std::vector<int64_t>> places = places_of(x);
  const Tensor out = Tensor::empty({static_cast<int64_t>(places[0].size()), x.dim()}, DType::kS64);
  for (size_t a = 0; a < places.size(); ++a)
    for (size_t i = 0; i < places[a].size(); ++i) out.data<int64_t>()[i * places.size() + a] = places[a][i];
  return out;
}
MetaValue infer_nonzero_static(const Call<TensorMeta>& call) {
  QDQ_CHECK(call.integer(1) >= 0, kInvalidArgument, call.op().target, " got the size ", call.integer(1));
  return tensor_meta(DType::kS64, {call.sym(1), SymInt(static_cast<int64_t>(call.tensor(0).sizes.size()))});
}
Value eval_nonzero_static(const Call<Tensor>& call) {
  const Tensor out = empty_result(call);
  out.copy_from(Tensor::scalar<int64_t>(call.integer(2)));
  const Value found = run_op<Tensor>("nonzero", {call[0]});
  const Tensor& places = *found.get_if<Tensor>();
  const int64_t count = std::min(out.size(0), places.size(0));
  out.slice(0, 0, count).copy_from(places.slice(0, 0, count));
  return out;
}
// where(condition): the same as a list with an index tensor for each axis; a number counts as one axis.
MetaValue infer_nonzero_list(const Call<TensorMeta>& call) {
  const size_t axes = std::max<size_t>(call.tensor(0).sizes.size(), 1);
  return MetaValue::List(axes, tensor_meta(DType::kS64, {size_from_values()}));
}
Value eval_nonzero_list(const Call<Tensor>& call) {
  const Tensor& x = call.tensor(0);
  Value::List out;
  for (const std::vector<int64_t>& places : places_of(x.dim() == 0 ? x.reshape({1}) : x))
    out.push_back(vector_of(places));
  return out;
}

void check_mask(const OpDef& op, DType dtype) {
  QDQ_CHECK(dtype == DType::kBool || dtype == DType::kU8, kInvalidArgument, op.target, " needs a bool mask, found ",
            to_string(dtype));
}
MetaValue infer_masked_select(const Call<TensorMeta>& call) {
  check_mask(call.op(), call.tensor(1).dtype);
  broadcast_shapes(call.tensor(0).sizes, call.tensor(1).sizes);
  return tensor_meta(call.tensor(0).dtype, {size_from_values()});
}
// The elements of x in C order; [1] of a scalar.
Tensor flat(const Tensor& x) { return x.reshape({x.numel()}); }
std::vector<int64_t> true_places(const Tensor& mask) { return places_of(flat(mask))[0]; }
Value eval_masked_select(const Call<Tensor>& call) {
  check_mask(call.op(), call.tensor(1).dtype());
  const Tensor &x = call.tensor(0), &mask = call.tensor(1);
  const Shape sizes = broadcast_shapes(x.sizes(), mask.sizes());
  const Value picked =
      run_op<Tensor>("index_select", {flat(x.expand(sizes)), 0, vector_of(true_places(mask.expand(sizes)))});
  return picked;
}
MetaValue infer_masked_scatter(const Call<TensorMeta>& call) {
  check_mask(call.op(), call.tensor(1).dtype);
  QDQ_CHECK(call.tensor(0).dtype == call.tensor(2).dtype, kInvalidArgument, call.op().target, " needs a ",
            to_string(call.tensor(0).dtype), " source, found ", to_string(call.tensor(2).dtype));
  return tensor_meta(call.tensor(0).dtype, broadcast_shapes(call.tensor(0).sizes, call.tensor(1).sizes));
}
Value eval_masked_scatter(const Call<Tensor>& call) {
  const Shape sizes = constant_shape(result_meta(call).sizes);
  const std::vector<int64_t> places = true_places(call.tensor(1).expand(sizes));
  const Tensor source = flat(call.tensor(2));
  const int64_t count = static_cast<int64_t>(places.size());
  QDQ_CHECK(count <= source.numel(), kInvalidArgument, call.op().target, " got ", source.numel(), " values for ", count,
            " places");
  const Value row = run_op<Tensor>(
      "scatter.src", {flat(call.tensor(0).expand(sizes)), 0, vector_of(places), source.slice(0, 0, count)});
  return row.get_if<Tensor>()->reshape(sizes);
}

// unique: the different slices along an axis (without axis: elements), where each slice went, how many there were of
// each. `consecutive` compares neighbours only, else the slices are sorted by their elements first.
struct UniqueForm {
  bool consecutive;
  int dim, inverse, counts;  // places of the arguments; -1: none
};
template <class T> bool asks_for(const Call<T>& call, int place) {
  return place < 0 || call.boolean(static_cast<size_t>(place));
}
template <const UniqueForm& form> MetaValue infer_unique(const Call<TensorMeta>& call) {
  const TensorMeta& x = call.tensor(0);
  const bool by_axis = form.dim >= 0 && !call.is_none(static_cast<size_t>(form.dim));
  SymShape values{size_from_values()}, inverse = x.sizes;
  if (by_axis) {
    values = x.sizes;
    SymInt& size = values.at(axis_of(call, static_cast<size_t>(form.dim), x.sizes.size()));
    inverse = {size};
    size = size_from_values();
  }
  if (!by_axis && !asks_for(call, form.inverse)) inverse = {SymInt(0)};
  const bool counted = by_axis || (call.op().schema->num_returns == 3 && asks_for(call, form.counts));
  MetaValue::List out{tensor_meta(x.dtype, values), tensor_meta(DType::kS64, inverse),
                      tensor_meta(DType::kS64, {counted ? size_from_values() : SymInt(0)})};
  out.resize(call.op().schema->num_returns);
  return out;
}
// The order of the slices and, for each in this order, whether it is another one than that before it.
struct Groups {
  std::vector<int64_t> order;
  std::vector<bool> begins;
};
Groups groups_of(const Tensor& x, int64_t axis, bool consecutive) {
  return visit_wide(x.dtype(), [&](auto type) {
    using C = typename decltype(type)::type;
    const Tensor rows = x.to(DTypeOf<C>::value).transpose(0, axis).contiguous();
    const int64_t n = rows.size(0), width = n == 0 ? 0 : rows.numel() / n;
    const C* data = rows.data<C>();
    // NaN lies behind all numbers and is equal to nothing.
    const auto before = [&](int64_t a, int64_t b) {
      for (int64_t i = 0; i < width; ++i) {
        const C u = data[a * width + i], v = data[b * width + i];
        if (u < v || (u == u && v != v)) return true;
        if (v < u || (v == v && u != u)) return false;
      }
      return false;
    };
    Groups groups;
    if (!consecutive && width == 1) {
      std::vector<int64_t> keys(static_cast<size_t>(n));
      std::transform(data, data + n, keys.begin(), [](C value) { return order_key(value); });
      groups.order = stable_order(keys);
    } else {
      groups.order = stable_order(n, [&](int64_t a, int64_t b) { return !consecutive && before(a, b); });
    }
    groups.begins.reserve(groups.order.size());
    for (size_t i = 0; i < groups.order.size(); ++i) {
      const C* row = data + groups.order[i] * width;
      groups.begins.push_back(i == 0 || !std::equal(row, row + width, data + groups.order[i - 1] * width));
    }
    return groups;
  });
}
template <const UniqueForm& form> Value eval_unique(const Call<Tensor>& call) {
  infer_call(call);
  const bool by_axis = form.dim >= 0 && !call.is_none(static_cast<size_t>(form.dim));
  const Tensor x = by_axis ? call.tensor(0) : flat(call.tensor(0));
  const int64_t axis = by_axis ? wrap_axis(call.integer(static_cast<size_t>(form.dim)), x.dim()) : 0;
  const Groups groups = groups_of(x, axis, form.consecutive);
  std::vector<int64_t> firsts, counts, inverse(groups.order.size());
  for (size_t i = 0; i < groups.order.size(); ++i) {
    if (groups.begins[i]) firsts.push_back(groups.order[i]), counts.push_back(0);
    ++counts.back();
    inverse[static_cast<size_t>(groups.order[i])] = static_cast<int64_t>(firsts.size()) - 1;
  }
  Tensor back = vector_of(inverse);
  if (!by_axis) back = asks_for(call, form.inverse) ? back.reshape(call.tensor(0).sizes()) : vector_of({});
  Value::List out{take(x, axis, firsts), back,
                  by_axis || asks_for(call, form.counts) ? vector_of(counts) : vector_of({})};
  out.resize(call.op().schema->num_returns);
  return out;
}
constexpr UniqueForm kUnique2{false, -1, 2, 3}, kUnique{false, -1, 2, -1}, kUniqueDim{false, 1, -1, -1},
    kUniqueConsecutive{true, 3, 1, 2}, kUniqueDimConsecutive{true, 1, -1, -1};

// Where each value belongs in a sorted row: behind those that are smaller (left) or not larger (right). The rows are
// one for all, or one for each row of the values.
template <class T> struct Search {
  size_t rows, values;
  bool right;
};
template <class T> Search<T> read_search(const Call<T>& call) {
  const bool bucketizes = call.op().schema->name.starts_with("bucketize");
  Search<T> search{bucketizes ? size_t{1} : size_t{0}, bucketizes ? size_t{0} : size_t{1}, false};
  search.right = call.boolean(*place_of(call, "right"));
  const std::optional<size_t> side = place_of(call, "side");
  if (side && !call.is_none(*side)) {
    QDQ_CHECK(call.string(*side) == "left" || call.string(*side) == "right", kInvalidArgument, call.op().target,
              " knows the sides left and right, found '", call.string(*side), "'");
    QDQ_CHECK(!search.right || call.string(*side) == "right", kInvalidArgument, call.op().target,
              " got right=True and side='left'");
    search.right = call.string(*side) == "right";
  }
  return search;
}
MetaValue infer_search(const Call<TensorMeta>& call) {
  const Search<TensorMeta> search = read_search(call);
  const SymShape& rows = call.tensor(search.rows).sizes;
  const TensorMeta* values = call[search.values].get_if<TensorMeta>();
  if (values == nullptr) call.number(search.values);  // throws if it is no number
  const SymShape sizes = values ? values->sizes : SymShape();
  bool fits = rows.size() == 1 || (rows.size() == sizes.size() && rows.size() > 1);
  for (size_t a = 0; fits && rows.size() > 1 && a + 1 < rows.size(); ++a) fits = may_be_equal(rows[a], sizes[a]);
  QDQ_CHECK(fits, kInvalidArgument, call.op().target, " cannot look for values of shape ", to_string(sizes),
            " in sorted rows of shape ", to_string(rows));
  return tensor_meta(call.boolean(*place_of(call, "out_int32")) ? DType::kS32 : DType::kS64, sizes);
}
Value eval_search(const Call<Tensor>& call) {
  const TensorMeta meta = result_meta(call);
  const Search<Tensor> search = read_search(call);
  Tensor sorted = call.tensor(search.rows);
  if (const std::optional<size_t> sorter = place_of(call, "sorter"); sorter && !call.is_none(*sorter))
    sorted = *run_op<Tensor>("gather", {sorted, -1, call[*sorter]}).get_if<Tensor>();
  const Tensor values = operand(call, search.values);
  return visit_wide(promote(wide_dtype(sorted.dtype()), wide_dtype(values.dtype())), [&](auto type) {
    using C = typename decltype(type)::type;
    const Tensor rows = sorted.to(DTypeOf<C>::value).contiguous(), wanted = values.to(DTypeOf<C>::value).contiguous();
    const Tensor out = Tensor::empty(constant_shape(meta.sizes), DType::kS64);
    const int64_t n = rows.size(-1), per_row = rows.dim() > 1 ? wanted.size(-1) : 0;
    for (int64_t i = 0; i < wanted.numel(); ++i) {
      const C value = wanted.data<C>()[i];
      const C* row = rows.data<C>() + (per_row > 0 ? i / per_row * n : 0);
      int64_t low = 0, high = n;
      while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (search.right ? !(row[middle] > value) : !(row[middle] >= value)) low = middle + 1;
        else high = middle;
      }
      out.data<int64_t>()[i] = low;
    }
    return out.to(meta.dtype);
  });
}

// Which elements are among the tested ones.
MetaValue infer_isin(const Call<TensorMeta>& call) {
  for (size_t i : {size_t{0}, size_t{1}})
    if (!call[i].is_tensor()) call.number(i);  // throws if it is no number
  return tensor_meta(DType::kBool, call[0].is_tensor() ? call.tensor(0).sizes : SymShape());
}
Value eval_isin(const Call<Tensor>& call) {
  infer_call(call);
  const Tensor elements = operand(call, 0), tested = operand(call, 1);
  return visit_wide(promote(wide_dtype(elements.dtype()), wide_dtype(tested.dtype())), [&](auto type) -> Value {
    using C = typename decltype(type)::type;
    const Tensor list = flat(tested.to(DTypeOf<C>::value)), x = elements.to(DTypeOf<C>::value).contiguous();
    std::vector<C> sorted(list.span<C>().begin(), list.span<C>().end());
    std::erase_if(sorted, [](C v) { return v != v; });
    std::sort(sorted.begin(), sorted.end());
    const Tensor out = Tensor::empty(x.sizes(), DType::kBool);
    for (int64_t i = 0; i < x.numel(); ++i) {
      const C value = x.data<C>()[i];
      const bool found = value == value && std::binary_search(sorted.begin(), sorted.end(), value);
      out.data<bool>()[i] = found != call.boolean(3);
    }
    return out;
  });
}

// How often each number from 0 on is there, or the sum of the weights at its places.
MetaValue infer_bincount(const Call<TensorMeta>& call) {
  const TensorMeta& x = call.tensor(0);
  const TensorMeta* weights = call.optional_tensor(1);
  QDQ_CHECK(is_integral(x.dtype) && x.sizes.size() == 1 && call.integer(2) >= 0 &&
                (!weights || (weights->sizes.size() == 1 && may_be_equal(weights->sizes[0], x.sizes[0]))),
            kInvalidArgument, call.op().target, " needs a list of integers, and as many weights, found ",
            to_string(x.dtype), " ", to_string(x.sizes));
  const DType dtype = !weights ? DType::kS64 : weights->dtype == DType::kF32 ? DType::kF32 : DType::kF64;
  return tensor_meta(dtype, {size_from_values()});
}
Value eval_bincount(const Call<Tensor>& call) {
  const DType dtype = result_meta(call).dtype;
  const Tensor x = call.tensor(0).to(DType::kS64).contiguous();
  int64_t count = call.integer(2);
  constexpr int64_t kMost = int64_t{1} << 28;
  for (const int64_t value : x.span<int64_t>()) {
    QDQ_CHECK(value >= 0 && value < kMost, kInvalidArgument, call.op().target, " got the number ", value);
    count = std::max(count, value + 1);
  }
  const Tensor weights = call.is_none(1) ? Tensor() : call.tensor(1).to(DType::kF64).contiguous();
  const Tensor sums = Tensor::empty({count}, DType::kF64);
  for (int64_t i = 0; i < x.numel(); ++i)
    sums.data<double>()[x.data<int64_t>()[i]] += weights.defined() ? weights.data<double>()[i] : 1;
  return sums.to(dtype);
}

// Every slice along the axis as often as `repeats` says.
MetaValue infer_repeats(const Call<TensorMeta>& call) {
  const bool of_self = call.op().schema->arguments[0].name == "self";
  const size_t repeats = of_self ? 1 : 0, output_size = of_self ? 3 : 1;
  const TensorMeta& counts = call.tensor(repeats);
  QDQ_CHECK((counts.dtype == DType::kS64 || counts.dtype == DType::kS32) && counts.sizes.size() <= 1, kInvalidArgument,
            call.op().target, " needs a list of integers as repeats, found ", to_string(counts.dtype), " ",
            to_string(counts.sizes));
  const SymInt size = call.is_none(output_size) ? size_from_values() : call.sym(output_size);
  if (!of_self) return tensor_meta(counts.dtype, {size});
  const TensorMeta& x = call.tensor(0);
  if (call.is_none(2)) return tensor_meta(x.dtype, {size});
  SymShape sizes = x.sizes;
  sizes.at(axis_of(call, 2, sizes.size())) = size;
  return tensor_meta(x.dtype, sizes);
}
Value eval_repeats(const Call<Tensor>& call) {
  infer_call(call);
  const bool of_self = call.op().schema->arguments[0].name == "self";
  const Tensor counts = flat(call.tensor(of_self ? 1 : 0)).to(DType::kS64).contiguous();
  const Tensor x = !of_self ? counts : call.is_none(2) ? flat(call.tensor(0)) : call.tensor(0);
  const int64_t axis = of_self && !call.is_none(2) ? wrap_axis(call.integer(2), x.dim()) : 0;
  QDQ_CHECK(counts.numel() == x.size(axis) || counts.numel() == 1, kInvalidArgument, call.op().target, " got ",
            counts.numel(), " repeats for an axis of size ", x.size(axis));
  std::vector<int64_t> source;
  for (int64_t i = 0; i < x.size(axis); ++i) {
    const int64_t count = counts.data<int64_t>()[counts.numel() == 1 ? 0 : i];
    constexpr int64_t kMost = int64_t{1} << 28;
    QDQ_CHECK(count >= 0 && count <= kMost && count + static_cast<int64_t>(source.size()) <= kMost, kInvalidArgument,
              call.op().target, " got ", count, " repeats");
    source.insert(source.end(), static_cast<size_t>(count), i);
  }
  const size_t output_size = of_self ? 3 : 1;
  QDQ_CHECK(call.is_none(output_size) || call.integer(output_size) == static_cast<int64_t>(source.size()),
            kInvalidArgument, call.op().target, " was promised ", call.sym(output_size).to_string(), " slices, found ",
            source.size());
  return of_self ? take(x, axis, source) : vector_of(source).to(call.tensor(0).dtype());
}

}  // namespace

void add_search_ops(std::vector<OpDef>& ops) {
  const auto add = [&](std::string_view line, Infer infer, Eval eval) { ops.push_back(define(line, infer, eval)); };
  add("aten::nonzero(Tensor self) -> Tensor", infer_nonzero, eval_nonzero);
  add("aten::argwhere(Tensor self) -> Tensor", infer_nonzero, eval_nonzero);
  add("aten::nonzero_static(Tensor self, *, int size, int fill_value=-1) -> Tensor", infer_nonzero_static,
      eval_nonzero_static);
  add("aten::nonzero_numpy(Tensor self) -> Tensor[]", infer_nonzero_list, eval_nonzero_list);
  add("aten::where(Tensor condition) -> Tensor[]", infer_nonzero_list, eval_nonzero_list);
  add("aten::masked_select(Tensor self, Tensor mask) -> Tensor", infer_masked_select, eval_masked_select);
  ops.back().keeps_numbers = true;
  add("aten::masked_scatter(Tensor self, Tensor mask, Tensor source) -> Tensor", infer_masked_scatter,
      eval_masked_scatter);
  add("aten::_unique2(Tensor self, bool sorted=True, bool return_inverse=False, bool return_counts=False) -> (Tensor, "
      "Tensor, Tensor)",
      infer_unique<kUnique2>, eval_unique<kUnique2>);
  add("aten::_unique(Tensor self, bool sorted=True, bool return_inverse=False) -> (Tensor, Tensor)",
      infer_unique<kUnique>, eval_unique<kUnique>);
  add("aten::unique_dim(Tensor self, int dim, bool sorted=True, bool return_inverse=False, bool return_counts=False) "
      "-> (Tensor, Tensor, Tensor)",
      infer_unique<kUniqueDim>, eval_unique<kUniqueDim>);
  add("aten::unique_consecutive(Tensor self, bool return_inverse=False, bool return_counts=False, int? dim=None) -> "
      "(Tensor, Tensor, Tensor)",
      infer_unique<kUniqueConsecutive>, eval_unique<kUniqueConsecutive>);
  add("aten::unique_dim_consecutive(Tensor self, int dim, bool return_inverse=False, bool return_counts=False) -> "
      "(Tensor, Tensor, Tensor)",
      infer_unique<kUniqueDimConsecutive>, eval_unique<kUniqueDimConsecutive>);
  add("aten::searchsorted.Tensor(Tensor sorted_sequence, Tensor self, *, bool out_int32=False, bool right=False, str? "
      "side=None, Tensor? sorter=None) -> Tensor",
      infer_search, eval_search);
  add("aten::searchsorted.Scalar(Tensor sorted_sequence, Scalar self, *, bool out_int32=False, bool right=False, str? "
      "side=None, Tensor? sorter=None) -> Tensor",
      infer_search, eval_search);
  add("aten::bucketize.Tensor(Tensor self, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor",
      infer_search, eval_search);
  add("aten::bucketize.Scalar(Scalar self, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor",
      infer_search, eval_search);
  const std::string isin = ", *, bool assume_unique=False, bool invert=False) -> Tensor";
  add("aten::isin.Tensor_Tensor(Tensor elements, Tensor test_elements" + isin, infer_isin, eval_isin);
  add("aten::isin.Tensor_Scalar(Tensor elements, Scalar test_element" + isin, infer_isin, eval_isin);
  add("aten::isin.Scalar_Tensor(Scalar element, Tensor test_elements" + isin, infer_isin, eval_isin);
  add("aten::bincount(Tensor self, Tensor? weights=None, int minlength=0) -> Tensor", infer_bincount, eval_bincount);
  add("aten::repeat_interleave.Tensor(Tensor repeats, *, SymInt? output_size=None) -> Tensor", infer_repeats,
      eval_repeats);
  add("aten::repeat_interleave.self_Tensor(Tensor self, Tensor repeats, int? dim=None, *, SymInt? output_size=None) -> "
      "Tensor",
      infer_repeats, eval_repeats);
  ops.back().keeps_numbers = true;
}

}  // namespace qdq
