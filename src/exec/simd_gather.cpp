// gather and scatter: elements picked or written along one axis by indices as many as they are. Slices that are picked,
// and elements that are read backwards or around the end.
#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <optional>

#include "exec/simd.h"
#include "kernel/rows.h"
#include "op/facts.h"
#include "op/index.h"
#include "op/infer.h"

namespace qdq {
namespace {

// A tensor that lies as it likes, and how far its elements are apart along each axis of the indices.
struct Side {
  std::byte* data;
  Shape strides;
};

// What is picked is read or written; or floats are added to it, or take its place if they are larger, smaller or NaN.
enum class Pick { kRead, kWrite, kAdd, kMax, kMin };

// Elements of any dtype as words of their size, from `picked` to `row` or back; along the axis `picked` has `size`
// elements, which are `step` apart.
struct Picking {
  const OpDef& op;
  const Tensor& index;
  int64_t size, step;
  Side picked, row;

  template <class Word, Pick how> void run() const {
    const int64_t* given = index.data<int64_t>();
    const std::array<const int64_t*, 3> strides{index.strides().data(), picked.strides.data(), row.strides.data()};
    for (RowWalk walk(index.sizes(), strides); walk.next(); given += walk.extent()) {
      Word* from = reinterpret_cast<Word*>(picked.data) + walk.offset(1);
      Word* to = reinterpret_cast<Word*>(row.data) + walk.offset(2);
      // What is written could be these members for all that the compiler knows.
      const int64_t n = walk.extent(), from_step = walk.step(1), to_step = walk.step(2), extent = size, along = step;
      for (int64_t i = 0; i < n; ++i) {
        int64_t place = given[i];
        if (static_cast<uint64_t>(place) >= static_cast<uint64_t>(extent)) place = checked_index(op, place, extent);
        Word &one = from[i * from_step + place * along], &other = to[i * to_step];
        if constexpr (how == Pick::kRead) other = one;
        else if constexpr (how == Pick::kWrite) one = other;
        else if constexpr (how == Pick::kAdd) one += other;
        else {
          // Always written, so that no branch but that of NaN has to be foretold.
          one = (how == Pick::kMax ? other > one : other < one) ? other : one;
          if (other != other) one = other;
        }
      }
    }
  }
  void run(size_t bytes, Pick how) const {
    switch (how) {
      case Pick::kRead: return move<Pick::kRead>(bytes);
      case Pick::kWrite: return move<Pick::kWrite>(bytes);
      case Pick::kAdd: return run<float, Pick::kAdd>();
      case Pick::kMax: return run<float, Pick::kMax>();
      case Pick::kMin: return run<float, Pick::kMin>();
    }
  }
  template <Pick how> void move(size_t bytes) const {
    switch (bytes) {
      case 1: return run<uint8_t, how>();
      case 2: return run<uint16_t, how>();
      case 4: return run<uint32_t, how>();
      default: return run<uint64_t, how>();
    }
  }
};

Picking picking_of(const Call<Tensor>& call, const Tensor& index, const Tensor& picked, const Tensor& row) {
  const auto axis = static_cast<size_t>(wrap_axis(call.integer(1), picked.dim()));
  Picking out{call.op(),
              index,
              picked.sizes()[axis],
              picked.strides()[axis],
              {picked.raw(), picked.strides()},
              {row.raw(), row.strides()}};
  out.picked.strides[axis] = 0;
  return out;
}

Tensor index_of(const Call<Tensor>& call) { return call.tensor(2).to(DType::kS64).contiguous(); }

// gather, and take_along_dim, which is gather of operands that are broadcast, or of rows.
class GatherOp : public CompiledOp {
 public:
  explicit GatherOp(bool broadcasts) : broadcasts_(broadcasts) {}

  Value run(const Call<Tensor>& call) override {
    if (!broadcasts_) return gather(call);
    infer_call(call);
    Tensor x = call.tensor(0), index = call.tensor(1);
    int64_t axis = 0;
    if (call.is_none(2)) {
      x = x.reshape({x.numel()});
      index = index.reshape({index.numel()});
    } else {
      axis = wrap_axis(call.integer(2), x.dim());
      const auto at = static_cast<size_t>(axis);
      Shape sizes = x.sizes(), wanted = index.sizes();
      sizes[at] = wanted[at] = 1;
      sizes = wanted = broadcast_shapes(sizes, wanted);
      sizes[at] = x.size(axis);
      wanted[at] = index.size(axis);
      x = x.expand(sizes);
      index = index.expand(wanted);
    }
    return gather(Call<Tensor>(*find_op("torch.ops.aten.gather.default"), {x, axis, index}));
  }

 private:
  Value gather(const Call<Tensor>& call) {
    const Tensor& x = call.tensor(0);
    if (x.dim() == 0 || x.dtype() == DType::kString) return run_reference(call, "its input is a number, or of strings");
    infer_call(call);
    const Tensor index = index_of(call), out = uninitialized(index.sizes(), x.dtype());
    picking_of(call, index, x, out).run(size_of(x.dtype()), Pick::kRead);
    return out;
  }

  bool broadcasts_;
};

// index_select, and embedding, which is that of rows by indices of any shape: slices along an axis, of any dtype.
class SelectOp : public CompiledOp {
 public:
  explicit SelectOp(bool embeds) : embeds_(embeds) {}

  Value run(const Call<Tensor>& call) override {
    if (call.tensor(0).dtype() == DType::kString) return run_reference(call, "its input is of strings");
    infer_call(call);
    const Tensor x = call.tensor(0).contiguous(), index = call.tensor(embeds_ ? 1 : 2).to(DType::kS64).contiguous();
    const int64_t axis = embeds_ ? 0 : wrap_axis(call.integer(1), x.dim()), extent = x.size(axis);
    const auto at = static_cast<size_t>(axis);
    Shape sizes = x.sizes();
    sizes[at] = index.numel();
    const int64_t outer = numel_of(Shape(sizes.begin(), sizes.begin() + axis)),
                  inner = numel_of(Shape(sizes.begin() + axis + 1, sizes.end()));
    if (embeds_) {
      sizes.erase(sizes.begin());
      sizes.insert(sizes.begin(), index.sizes().begin(), index.sizes().end());
    }
    std::vector<int64_t> places;
    for (const int64_t place : index.span<int64_t>()) places.push_back(checked_index(call.op(), place, extent));
    const Tensor out = uninitialized(sizes, x.dtype());
    const size_t bytes = static_cast<size_t>(inner) * size_of(x.dtype());
    switch (bytes) {
      case 1: copy<uint8_t>(x, outer, extent, places, out); break;
      case 2: copy<uint16_t>(x, outer, extent, places, out); break;
      case 4: copy<uint32_t>(x, outer, extent, places, out); break;
      case 8: copy<uint64_t>(x, outer, extent, places, out); break;
      default: {
        const std::byte* from = x.raw();
        std::byte* to = out.raw();
        for (int64_t o = 0; o < outer; ++o, from += static_cast<size_t>(extent) * bytes)
          for (const int64_t place : places) {
            std::memcpy(to, from + static_cast<size_t>(place) * bytes, bytes);
            to += bytes;
          }
      }
    }
    return out;
  }

 private:
  // Slices of one word.
  template <class Word>
  static void copy(const Tensor& x, int64_t outer, int64_t extent, const std::vector<int64_t>& places,
                   const Tensor& out) {
    const Word* from = reinterpret_cast<const Word*>(x.raw());
    Word* to = reinterpret_cast<Word*>(out.raw());
    for (int64_t o = 0; o < outer; ++o, from += extent)
      for (const int64_t place : places) *to++ = from[place];
  }

  bool embeds_;
};

// scatter.src, scatter.value, which writes one number, and scatter_add and scatter_reduce of float32, sums in the order
// of their indices.
class ScatterOp : public CompiledOp {
 public:
  ScatterOp(bool in_place, Pick how) : in_place_(in_place), how_(how) {}

  Value run(const Call<Tensor>& call) override {
    const Tensor& x = call.tensor(0);
    const Tensor* source = call[3].get_if<Tensor>();
    const bool fits = source == nullptr || (source->dtype() == x.dtype() && source->dim() == x.dim());
    if (x.dim() == 0 || x.dtype() == DType::kString || is_complex(x.dtype()) || !fits)
      return run_reference(call, "its input is a number, or values are complex, strings or of another dtype");
    const Reduction how = call.size() > 4 ? reduction_of(call) : Reduction{how_, false, {}};
    if (how.pick == Pick::kRead) return run_reference(call, "it multiplies");
    if (how.pick != Pick::kWrite && !is_f32(x)) return run_reference(call, "it combines other numbers than float32");
    infer_call(call);
    const Tensor index = index_of(call);
    for (int64_t a = 0; source != nullptr && a < x.dim(); ++a)
      if (source->size(a) < index.size(a)) return run_reference(call, "its values are fewer than its indices");
    Tensor values = source != nullptr ? *source : Tensor::full({}, x.dtype(), call.number(3)).expand(index.sizes());
    if (values.storage() == x.storage()) values = values.clone();
    const Tensor out = in_place_ || may_overwrite(x) ? x : x.clone();
    if (how.start) {
      const Tensor start = Tensor::full({}, DType::kF32, *how.start).expand(index.sizes());
      picking_of(call, index, out, start).run(sizeof(float), Pick::kWrite);
    }
    picking_of(call, index, out, values).run(size_of(x.dtype()), how.pick);
    if (how.averages) divide_by_counts(call, index, !how.start, out);
    return out;
  }

 private:
  struct Reduction {
    Pick pick;                   // kRead: none of those
    bool averages = false;       // sums are divided by their counts
    std::optional<float> start;  // takes the place of what stood where something is written, and changes no result
  };

  static Reduction reduction_of(const Call<Tensor>& call) {
    const std::string& name = call.string(4);
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    Reduction out{name == "amax" ? Pick::kMax : name == "amin" ? Pick::kMin : Pick::kAdd, name == "mean", {}};
    if (name == "prod") out.pick = Pick::kRead;
    if (!call.boolean(5)) out.start = name == "amax" ? -kInfinity : name == "amin" ? kInfinity : -0.0f;
    return out;
  }

  // What stood at a place counts as one more.
  static void divide_by_counts(const Call<Tensor>& call, const Tensor& index, bool counts_self, const Tensor& out) {
    const Tensor counts = Tensor::full(out.sizes(), DType::kF32, 0),
                 one = Tensor::full({}, DType::kF32, 1).expand(index.sizes());
    picking_of(call, index, counts, one).run(sizeof(float), Pick::kAdd);
    const Tensor sums = out.contiguous();
    for (size_t i = 0; i < counts.span<float>().size(); ++i)
      if (const float count = counts.data<float>()[i]; count > 0)
        sums.data<float>()[i] /= count + (counts_self ? 1 : 0);
    if (sums.storage() != out.storage()) out.copy_from(sums);
  }

  bool in_place_;
  Pick how_;
};

// aten.flip: the elements read backwards along some axes.
class FlipOp : public CompiledOp {
 public:
  Value run(const Call<Tensor>& call) override {
    const Tensor& x = call.tensor(0);
    if (x.dim() == 0 || x.dtype() == DType::kString) return run_reference(call, "its input is a number, or of strings");
    infer_call(call);
    Shape strides = x.strides();
    int64_t first = 0;
    for (const int64_t given : call.integers(1)) {
      const auto axis = static_cast<size_t>(wrap_axis(given, x.dim()));
      first += std::max<int64_t>(x.sizes()[axis] - 1, 0) * strides[axis];
      strides[axis] = -strides[axis];
    }
    const Tensor out = uninitialized(x.sizes(), x.dtype());
    switch (size_of(x.dtype())) {
      case 1: copy<uint8_t>(x, first, strides, out); break;
      case 2: copy<uint16_t>(x, first, strides, out); break;
      case 4: copy<uint32_t>(x, first, strides, out); break;
      default: copy<uint64_t>(x, first, strides, out); break;
    }
    return out;
  }

 private:
  template <class Word> static void copy(const Tensor& x, int64_t first, const Shape& strides, const Tensor& out) {
    const Word* from = reinterpret_cast<const Word*>(x.raw()) + first;
    Word* to = reinterpret_cast<Word*>(out.raw());
    const std::array<const int64_t*, 1> all{strides.data()};
    for (RowWalk row(x.sizes(), all); row.next(); to += row.extent()) {
      const Word* at = from + row.offset(0);
      if (row.step(0) == 1) std::copy_n(at, row.extent(), to);
      else if (row.step(0) == -1) kernel::reverse(at - row.extent() + 1, row.extent(), to);
      else
        for (int64_t i = 0; i < row.extent(); ++i) to[i] = at[i * row.step(0)];
    }
  }
};

// aten.roll: element i of an axis goes to i + shift, around the end; without axes the flat tensor is rolled.
class RollOp : public CompiledOp {
 public:
  Value run(const Call<Tensor>& call) override {
    const Tensor& given = call.tensor(0);
    const std::vector<int64_t> shifts = call.integers(1);
    std::vector<int64_t> axes = call.is_none(2) ? std::vector<int64_t>() : call.integers(2);
    const bool is_flat = axes.empty();
    if (is_flat) axes = {0};
    if (given.numel() == 0 || given.dim() == 0 || axes.size() != shifts.size())
      return run_reference(call, "its input is empty or a number, or it has not as many shifts as axes");
    infer_call(call);
    const Shape sizes = is_flat ? Shape{given.numel()} : given.sizes();
    Shape by(sizes.size(), 0);
    for (size_t i = 0; i < axes.size(); ++i) {
      const auto axis = static_cast<size_t>(wrap_axis(axes[i], static_cast<int64_t>(sizes.size())));
      by[axis] = ((by[axis] + shifts[i] % sizes[axis]) % sizes[axis] + sizes[axis]) % sizes[axis];
    }
    const Tensor x = given.contiguous(), out = uninitialized(given.sizes(), given.dtype());
    roll(sizes, by, size_of(x.dtype()), x.raw(), out.raw());
    return out;
  }

 private:
  // Rows up to the last axis that is rolled, each in two pieces.
  static void roll(const Shape& sizes, const Shape& by, size_t bytes, const std::byte* from, std::byte* to) {
    size_t last = sizes.size() - 1;
    for (; last > 0 && by[last] == 0; --last) bytes *= static_cast<size_t>(sizes[last]);
    const size_t row = static_cast<size_t>(sizes[last]) * bytes, head = static_cast<size_t>(by[last]) * bytes;
    const int64_t rows = numel_of(Shape(sizes.begin(), sizes.begin() + static_cast<std::ptrdiff_t>(last)));
    for (int64_t r = 0; r < rows; ++r, to += row) {
      int64_t source = 0;
      for (int64_t a = static_cast<int64_t>(last) - 1, rest = r, step = 1; a >= 0; --a) {
        const int64_t size = sizes[static_cast<size_t>(a)];
        source += (rest % size - by[static_cast<size_t>(a)] + size) % size * step;
        rest /= size;
        step *= size;
      }
      const std::byte* at = from + static_cast<size_t>(source) * row;
      std::memcpy(to + head, at, row - head);
      std::memcpy(to, at + row - head, head);
    }
  }
};

// tril and triu: elements on one side of a diagonal are 0.
class TriangleOp : public CompiledOp {
 public:
  TriangleOp(bool is_lower, bool in_place) : is_lower_(is_lower), in_place_(in_place) {}

  Value run(const Call<Tensor>& call) override {
    const Tensor& x = call.tensor(0);
    if (x.dim() < 2 || x.numel() == 0 || x.dtype() == DType::kString || (in_place_ && !x.is_contiguous()))
      return run_reference(call, "its input is empty, no matrix or of strings, or written where it does not lie dense");
    infer_call(call);
    const int64_t rows = x.size(-2), columns = x.size(-1),
                  diagonal = std::clamp(call.integer(1), -rows - 1, columns + 1) + (is_lower_ ? 1 : 0);
    const bool copies = !in_place_ && !may_overwrite(x) && x.is_contiguous();
    const Tensor out = copies ? uninitialized(x.sizes(), x.dtype()) : x.contiguous();
    const size_t bytes = size_of(x.dtype());
    const std::byte* from = x.raw();
    std::byte* to = out.raw();
    for (int64_t r = 0; r < x.numel() / columns; ++r, to += static_cast<size_t>(columns) * bytes) {
      const auto edge = static_cast<size_t>(std::clamp<int64_t>(r % rows + diagonal, 0, columns)) * bytes,
                 width = static_cast<size_t>(columns) * bytes, kept = is_lower_ ? 0 : edge;
      if (copies) std::memcpy(to + kept, from + kept, is_lower_ ? edge : width - edge);
      std::memset(to + edge - kept, 0, is_lower_ ? width - edge : edge);
      if (copies) from += width;
    }
    return out;
  }

 private:
  bool is_lower_, in_place_;
};

template <bool is_lower> std::unique_ptr<CompiledOp> make_triangle(const Node& node, bool) {
  return std::make_unique<TriangleOp>(is_lower, op_of(node)->is_in_place());
}
std::unique_ptr<CompiledOp> make_flip(const Node&, bool) { return std::make_unique<FlipOp>(); }
std::unique_ptr<CompiledOp> make_roll(const Node&, bool) { return std::make_unique<RollOp>(); }
template <bool embeds> std::unique_ptr<CompiledOp> make_select(const Node&, bool) {
  return std::make_unique<SelectOp>(embeds);
}
template <bool broadcasts> std::unique_ptr<CompiledOp> make_gather(const Node&, bool) {
  return std::make_unique<GatherOp>(broadcasts);
}
template <Pick how> std::unique_ptr<CompiledOp> make_scatter(const Node& node, bool) {
  return std::make_unique<ScatterOp>(op_of(node)->is_in_place(), how);
}

constexpr SimdOp kPicking[] = {
    {"aten.flip.default", make_flip, nullptr},
    {"aten.roll.default", make_roll, nullptr},
    {"aten.index_select.default", make_select<false>, nullptr},
    {"aten.embedding.default", make_select<true>, nullptr},
    {"aten.tril.default", make_triangle<true>, nullptr},
    {"aten.triu.default", make_triangle<false>, nullptr},
    {"aten.gather.default", make_gather<false>, nullptr},
    {"aten.take_along_dim.default", make_gather<true>, nullptr},
    {"aten.scatter.src", make_scatter<Pick::kWrite>, nullptr},
    {"aten.scatter.value", make_scatter<Pick::kWrite>, nullptr},
    {"aten.scatter_add.default", make_scatter<Pick::kAdd>, nullptr},
    {"aten.scatter_reduce.two", make_scatter<Pick::kAdd>, nullptr},
};

}  // namespace

std::span<const SimdOp> picking_simd_ops() { return kPicking; }

}  // namespace qdq
