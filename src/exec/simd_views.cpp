// Views, and elements picked and written by indices. Where elements are is found once and remembered for calls with
// operands of the same sizes and strides and the same indices, so that a call makes a tensor, or copies stretches, and
// nothing else.
#include <algorithm>
#include <cstring>
#include <utility>

#include "exec/simd.h"
#include "kernel/pointwise.h"
#include "op/index.h"
#include "op/facts.h"

namespace qdq {
namespace {

// Whether two arguments are the same constants: numbers, None and lists of them. Other kinds count as different.
bool same_constant(const Value& a, const Value& b) {
  if (const auto *x = a.get_if<int64_t>(), *y = b.get_if<int64_t>(); x != nullptr && y != nullptr) return *x == *y;
  if (const auto *x = a.get_if<bool>(), *y = b.get_if<bool>(); x != nullptr && y != nullptr) return *x == *y;
  if (const auto *x = a.get_if<Value::List>(), *y = b.get_if<Value::List>(); x != nullptr && y != nullptr)
    return std::equal(x->begin(), x->end(), y->begin(), y->end(), same_constant);
  return a.is_none() && b.is_none();
}

// Where the elements of a tensor lie in its storage.
struct Geometry {
  Shape sizes, strides;
  int64_t offset = 0;

  bool is_of(const Tensor& x) const {
    return sizes == x.sizes() && strides == x.strides() && offset == x.storage_offset();
  }
  static Geometry of(const Tensor& x) { return {x.sizes(), x.strides(), x.storage_offset()}; }
};

// An operator that shows its first argument through other sizes and strides, one or several times.
class ViewOp : public CompiledOp {
 public:
  Value run(const Call<Tensor>& call) override {
    const Tensor& x = call.tensor(0);
    if (is_known(call, x)) return is_list_ ? views_of(x) : Value(view_of(x, views_[0]));
    const Value out = call.op().eval(call);
    remember(call, x, out);
    return out;
  }

 private:
  static Tensor view_of(const Tensor& x, const Geometry& as) { return x.as_strided(as.sizes, as.strides, as.offset); }
  Value views_of(const Tensor& x) const {
    Value::List list;
    list.reserve(views_.size());
    for (const Geometry& view : views_) list.push_back(view_of(x, view));
    return list;
  }

  bool is_known(const Call<Tensor>& call, const Tensor& x) const {
    if (views_.empty() || !given_.is_of(x) || arguments_.size() != call.size()) return false;
    for (size_t i = 1; i < call.size(); ++i)
      if (!same_constant(arguments_[i], call[i])) return false;
    return true;
  }

  // Keeps what a call gave, if all of it are views of its input.
  void remember(const Call<Tensor>& call, const Tensor& x, const Value& out) {
    views_.clear();
    arguments_.clear();
    const auto is_view = [&](const Value& value) {
      const Tensor* tensor = value.get_if<Tensor>();
      return tensor != nullptr && tensor->storage() == x.storage() && tensor->dtype() == x.dtype();
    };
    const Value::List* list = out.get_if<Value::List>();
    is_list_ = list != nullptr;
    const std::span<const Value> results = is_list_ ? std::span<const Value>(*list) : std::span<const Value>(&out, 1);
    if (!std::all_of(results.begin(), results.end(), is_view)) return;
    for (const Value& one : results) views_.push_back(Geometry::of(*one.get_if<Tensor>()));
    given_ = Geometry::of(x);
    arguments_.resize(1);  // the tensor itself is not kept
    for (size_t i = 1; i < call.size(); ++i) arguments_.push_back(call[i]);
  }

  Geometry given_;
  std::vector<Value> arguments_;
  std::vector<Geometry> views_;
  bool is_list_ = false;
};

// Elements that lie one behind the other: `count` from `offset` on in the tensor that is indexed.
struct Stretch {
  int64_t offset, count;
};

// Copies the stretches to (kGather) or from (kScatter) elements that lie one behind the other.
enum class Move { kGather, kScatter };
template <Move move>
void copy(const std::vector<Stretch>& stretches, size_t bytes, std::byte* indexed, std::byte* row) {
  const auto each = [&](auto size) {
    for (const Stretch& one : stretches) {
      std::byte* at = indexed + static_cast<size_t>(one.offset) * size;
      const size_t length = static_cast<size_t>(one.count) * size;
      if (one.count == 1) std::memcpy(move == Move::kGather ? row : at, move == Move::kGather ? at : row, size);
      else std::memcpy(move == Move::kGather ? row : at, move == Move::kGather ? at : row, length);
      row += length;
    }
  };
  if (bytes == 4) each(std::integral_constant<size_t, 4>());  // a known size makes no calls
  else each(bytes);
}

// aten.index and aten.index_put.
class IndexOp : public CompiledOp {
 public:
  // Indices that are `kept` do not change while somebody holds them.
  IndexOp(Move move, bool in_place, bool kept) : move_(move), in_place_(in_place), kept_(kept) {}

  Value run(const Call<Tensor>& call) override {
    const Tensor& x = call.tensor(0);
    const bool writes = move_ == Move::kScatter;
    const bool adds = writes && call.boolean(3);
    if (writes && ((adds && !is_f32(x)) || call.tensor(2).dtype() != x.dtype()))
      return run_reference(call, "it adds other numbers than float32, or its values are of another dtype");
    if (writes && !in_place_ && !x.is_contiguous()) return run_reference(call, "its input is not contiguous");
    find(call, x);
    const size_t bytes = size_of(x.dtype());
    if (!writes) {
      const Tensor out = uninitialized(sizes_, x.dtype());
      copy<Move::kGather>(stretches_, bytes, x.raw(), out.raw());
      return out;
    }
    const Tensor values = call.tensor(2).expand(sizes_).contiguous();
    const bool overlaps = in_place_ && values.storage() == x.storage();
    const Tensor from = overlaps ? values.clone() : values, out = in_place_ || may_overwrite(x) ? x : x.clone();
    if (adds) add(from.data<float>(), out.data<float>());
    else copy<Move::kScatter>(stretches_, bytes, out.raw(), from.raw());
    return out;
  }

 private:
  // One stretch after the other, so that numbers for one place are added in their order.
  void add(const float* row, float* out) const {
    for (const Stretch& one : stretches_) {
      if (one.count == 1) out[one.offset] += *row;
      else kernel::add_f32(out + one.offset, row, one.count, out + one.offset);
      row += one.count;
    }
  }
  // The stretches of a call, known if sizes, strides and the numbers of all indices are those of the last one.
  void find(const Call<Tensor>& call, const Tensor& x) {
    const Value::List& list = *call[1].get_if<Value::List>();
    const auto is_same = [&](const Value& a, const Value& b) {
      const Tensor *s = a.get_if<Tensor>(), *t = b.get_if<Tensor>();
      if (kept_ && s != nullptr && t != nullptr && s->storage() == t->storage() && s->raw() == t->raw() &&
          s->sizes() == t->sizes() && s->strides() == t->strides())
        return true;
      return s == nullptr || t == nullptr ? s == t : bitwise_equal(*s, *t);
    };
    if (is_found_ && x.sizes() == x_sizes_ && x.strides() == x_strides_ &&
        std::equal(list.begin(), list.end(), indices_.begin(), indices_.end(), is_same))
      return;
    is_found_ = false;
    PickedElements picked = pick_elements(call);
    stretches_.clear();
    for (const int64_t offset : picked.offsets) {
      if (!stretches_.empty() && stretches_.back().offset + stretches_.back().count == offset)
        ++stretches_.back().count;
      else stretches_.push_back({offset, 1});
    }
    sizes_ = std::move(picked.sizes);
    x_sizes_ = x.sizes();
    x_strides_ = x.strides();
    indices_.clear();
    for (const Value& index : list)
      indices_.push_back(kept_ || index.is_none() ? index : Value(index.get_if<Tensor>()->clone()));
    is_found_ = true;
  }

  Move move_;
  bool in_place_, kept_, is_found_ = false;
  Shape x_sizes_, x_strides_, sizes_;
  Value::List indices_;
  std::vector<Stretch> stretches_;
};

// aten.index_copy and aten.index_add of float32: slices of the source, for indices along an axis, in their order.
class IndexSlicesOp : public CompiledOp {
 public:
  IndexSlicesOp(bool adds, bool in_place) : adds_(adds), in_place_(in_place) {}

  Value run(const Call<Tensor>& call) override {
    const Tensor &x = call.tensor(0), &source = call.tensor(3);
    const Tensor index = call.tensor(2).to(DType::kS64).contiguous();
    const int64_t axis = call.integer(1) < 0 ? call.integer(1) + x.dim() : call.integer(1);
    if (!fits(x, axis, index, source) || (adds_ && !is_f32(x)))
      return run_reference(call, "its operands do not fit, or are of several dtypes or not contiguous");
    const Tensor rows = source.storage() == x.storage() ? source.clone() : source.contiguous();
    const Tensor out = in_place_ || may_overwrite(x) ? x : x.clone();
    const int64_t count = index.numel(), size = x.size(axis);
    int64_t outer = 1;
    for (int64_t a = 0; a < axis; ++a) outer *= x.size(a);
    const int64_t row = rows.numel() / std::max<int64_t>(outer * count, 1);
    const float alpha = adds_ ? static_cast<float>(call.number(4)) : 0;
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t i = 0; i < count; ++i)
        move(rows, (o * count + i) * row, out, (o * size + index.data<int64_t>()[i]) * row, row, alpha);
    return out;
  }

 private:
  static bool fits(const Tensor& x, int64_t axis, const Tensor& index, const Tensor& source) {
    if (axis < 0 || axis >= x.dim() || x.dtype() != source.dtype() || !x.is_contiguous() || index.dim() != 1 ||
        x.dtype() == DType::kString)
      return false;
    Shape sizes = x.sizes();
    sizes[static_cast<size_t>(axis)] = index.numel();
    const std::span<const int64_t> places = index.span<int64_t>();
    const auto is_inside = [&](int64_t place) { return place >= 0 && place < x.size(axis); };
    return source.sizes() == sizes && std::all_of(places.begin(), places.end(), is_inside);
  }

  void move(const Tensor& rows, int64_t from, const Tensor& out, int64_t to, int64_t count, float alpha) const {
    const auto bytes = static_cast<int64_t>(size_of(rows.dtype()));
    if (!adds_) {
      std::memcpy(out.raw() + to * bytes, rows.raw() + from * bytes, static_cast<size_t>(count * bytes));
      return;
    }
    float* sums = out.data<float>() + to;
    kernel::add_scaled_f32(sums, rows.data<float>() + from, alpha, count, sums);
  }

  bool adds_, in_place_;
};

template <bool adds> std::unique_ptr<CompiledOp> make_index_slices(const Node& node, bool) {
  return std::make_unique<IndexSlicesOp>(adds, op_of(node)->is_in_place());
}

template <Move move> std::unique_ptr<CompiledOp> make_index(const Node& node, bool kept) {
  return std::make_unique<IndexOp>(move, op_of(node)->is_in_place(), kept);
}

constexpr SimdOp kIndexed[] = {
    {"aten.index.Tensor", make_index<Move::kGather>, nullptr, 1},
    {"aten.index_put.default", make_index<Move::kScatter>, nullptr, 1},
    {"aten.index_copy.default", make_index_slices<false>, nullptr, 2},
    {"aten.index_add.default", make_index_slices<true>, nullptr, 2},
};

}  // namespace

std::unique_ptr<CompiledOp> make_simd_view() { return std::make_unique<ViewOp>(); }

std::span<const SimdOp> index_simd_ops() { return kIndexed; }

}  // namespace qdq
