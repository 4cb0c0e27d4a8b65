// gather and scatter: elements picked or written along one axis by indices as many as they are.
#include <array>
#include <cstring>

#include "exec/simd.h"
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

// Elements of any dtype as words of their size, from `picked` to `row` or back; along the axis `picked` has `size`
// elements, which are `step` apart.
struct Picking {
  const OpDef& op;
  const Tensor& index;
  int64_t size, step;
  Side picked, row;

  template <class Word> void run(bool writes) const {
    const int64_t* given = index.data<int64_t>();
    const std::array<const int64_t*, 3> strides{index.strides().data(), picked.strides.data(), row.strides.data()};
    for (RowWalk walk(index.sizes(), strides); walk.next(); given += walk.extent()) {
      Word* from = reinterpret_cast<Word*>(picked.data) + walk.offset(1);
      Word* to = reinterpret_cast<Word*>(row.data) + walk.offset(2);
      for (int64_t i = 0; i < walk.extent(); ++i) {
        int64_t place = given[i];
        if (static_cast<uint64_t>(place) >= static_cast<uint64_t>(size)) place = checked_index(op, place, size);
        Word &one = from[i * walk.step(1) + place * step], &other = to[i * walk.step(2)];
        if (writes) one = other;
        else other = one;
      }
    }
  }
  void run(size_t bytes, bool writes) const {
    switch (bytes) {
      case 1: return run<uint8_t>(writes);
      case 2: return run<uint16_t>(writes);
      case 4: return run<uint32_t>(writes);
      default: return run<uint64_t>(writes);
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

class GatherOp : public CompiledOp {
 public:
  Value run(const Call<Tensor>& call) override {
    const Tensor& x = call.tensor(0);
    if (x.dim() == 0 || x.dtype() == DType::kString) return run_reference(call, "its input is a number, or of strings");
    infer_call(call);
    const Tensor index = index_of(call), out = uninitialized(index.sizes(), x.dtype());
    picking_of(call, index, x, out).run(size_of(x.dtype()), false);
    return out;
  }
};

// scatter.src, and scatter.value, which writes one number.
class ScatterOp : public CompiledOp {
 public:
  explicit ScatterOp(bool in_place) : in_place_(in_place) {}

  Value run(const Call<Tensor>& call) override {
    const Tensor& x = call.tensor(0);
    const Tensor* source = call[3].get_if<Tensor>();
    const bool fits = source == nullptr || (source->dtype() == x.dtype() && source->dim() == x.dim());
    if (x.dim() == 0 || x.dtype() == DType::kString || is_complex(x.dtype()) || !fits)
      return run_reference(call, "its input is a number, or values are complex, strings or of another dtype");
    infer_call(call);
    const Tensor index = index_of(call);
    for (int64_t a = 0; source != nullptr && a < x.dim(); ++a)
      if (source->size(a) < index.size(a)) return run_reference(call, "its values are fewer than its indices");
    Tensor values = source != nullptr ? *source : Tensor::full({}, x.dtype(), call.number(3)).expand(index.sizes());
    if (values.storage() == x.storage()) values = values.clone();
    const Tensor out = in_place_ || may_overwrite(x) ? x : x.clone();
    picking_of(call, index, out, values).run(size_of(x.dtype()), true);
    return out;
  }

 private:
  bool in_place_;
};

std::unique_ptr<CompiledOp> make_gather(const Node&, bool) { return std::make_unique<GatherOp>(); }
std::unique_ptr<CompiledOp> make_scatter(const Node& node, bool) {
  return std::make_unique<ScatterOp>(op_of(node)->is_in_place());
}

constexpr SimdOp kPicking[] = {
    {"aten.gather.default", make_gather, nullptr},
    {"aten.scatter.src", make_scatter, nullptr},
    {"aten.scatter.value", make_scatter, nullptr},
};

}  // namespace

std::span<const SimdOp> picking_simd_ops() { return kPicking; }

}  // namespace qdq
