// aten.to.dtype and aten._to_copy between float32 and other dtypes, and from bytes to int32.
#include <algorithm>
#include <iterator>

#include "exec/simd.h"
#include "exec/simd_obstacles.h"
#include "kernel/convert.h"

namespace qdq {
namespace {

// Converts all elements of a dense tensor to another.
using Cast = void (*)(const Tensor& x, const Tensor& out);

template <class From, class To, void (*convert)(const From*, int64_t, To*)>
void cast(const Tensor& x, const Tensor& out) {
  const void* from = x.raw();
  void* to = out.raw();
  convert(static_cast<const From*>(from), x.numel(), static_cast<To*>(to));
}

struct CastRow {
  DType from, to;
  Cast cast;
};
constexpr CastRow kRows[] = {
    {DType::kF32, DType::kS32, cast<float, int32_t, kernel::integers_of_floats>},
    {DType::kF32, DType::kS64, cast<float, int64_t, kernel::integers_of_floats>},
    {DType::kF32, DType::kU8, cast<float, uint8_t, kernel::bytes_of_floats>},
    {DType::kF32, DType::kS8, cast<float, uint8_t, kernel::bytes_of_floats>},
    {DType::kF32, DType::kBool, cast<float, uint8_t, kernel::bools_of_floats>},
    {DType::kS32, DType::kF32, cast<int32_t, float, kernel::floats_of_integers>},
    {DType::kU8, DType::kF32, cast<uint8_t, float, kernel::floats_of_integers>},
    {DType::kBool, DType::kF32, cast<uint8_t, float, kernel::floats_of_integers>},
    {DType::kS8, DType::kF32, cast<int8_t, float, kernel::floats_of_integers>},
    {DType::kU8, DType::kS32, cast<uint8_t, int32_t, kernel::integers_of_integers>},
    {DType::kS8, DType::kS32, cast<int8_t, int32_t, kernel::integers_of_integers>},
};

Cast cast_between(DType from, DType to) {
  const auto row = std::find_if(std::begin(kRows), std::end(kRows),
                                [&](const CastRow& one) { return one.from == from && one.to == to; });
  return row == std::end(kRows) ? nullptr : row->cast;
}

bool is_half_cast(DType from, DType to) {
  return (is_half_dtype(from) && to == DType::kF32) || (from == DType::kF32 && is_half_dtype(to));
}

class CastOp : public CompiledOp {
 public:
  explicit CastOp(DType to) : to_(to) {}

  Value run(const Call<Tensor>& call) override {
    const Tensor& x = call.tensor(0);
    if (is_half_cast(x.dtype(), to_)) return to_ == DType::kF32 ? widened_to_floats(x) : narrowed_from_floats(x, to_);
    const Cast cast = cast_between(x.dtype(), to_);
    if (cast == nullptr) return run_reference(call, "its input is of another dtype");
    const Tensor out = uninitialized(x.sizes(), to_);
    cast(x.contiguous(), out);
    return out;
  }

 private:
  DType to_;
};

std::string cast_obstacle(const Node& node) {
  const Node* input = node.arg(0).node();
  const TensorMeta* from = input == nullptr ? nullptr : input->meta.val.tensor();
  const DType to = result_dtype_of(node);
  if (from != nullptr && (is_half_cast(from->dtype, to) || cast_between(from->dtype, to) != nullptr)) return {};
  return from == nullptr ? "the graph does not tell its input's dtype"
                         : concat("no loop casts ", to_string(from->dtype), " to ", to_string(to));
}

std::unique_ptr<CompiledOp> make_cast(const Node& node, bool) {
  return std::make_unique<CastOp>(result_dtype_of(node));
}

constexpr SimdOp kCasts[] = {
    {"aten.to.dtype", make_cast, cast_obstacle},
    {"aten._to_copy.default", make_cast, cast_obstacle},
};

}  // namespace

std::span<const SimdOp> casting_simd_ops() { return kCasts; }

}  // namespace qdq
