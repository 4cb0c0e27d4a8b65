// Comparisons of float32 and logic of bool on the portable loops; their results are bool.
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <optional>

#include "exec/simd.h"
#include "exec/simd_obstacles.h"

namespace qdq {
namespace {

// n comparisons of a row, whose operands go on by their steps.
using CompareRow = void (*)(const float* x, int64_t x_step, const float* y, int64_t y_step, int64_t n, bool* out);

template <class Compare>
void compare_row(const float* x, int64_t x_step, const float* y, int64_t y_step, int64_t n, bool* __restrict out) {
  if (x_step == 1 && y_step == 0)
    for (int64_t i = 0; i < n; ++i) out[i] = Compare{}(x[i], *y);
  else
    for (int64_t i = 0; i < n; ++i) out[i] = Compare{}(x[i * x_step], y[i * y_step]);
}

// A comparison of float32 with a tensor or a number; its result is bool.
class CompareOp : public CompiledOp {
 public:
  explicit CompareOp(CompareRow compare) : compare_(compare) {}

  Value run(const Call<Tensor>& call) override {
    const std::optional<Tensor> left = floats_of(call, 0), right = floats_of(call, 1);
    if (!left || !right) return run_reference(call, "an operand is not float32");
    const Shape sizes = broadcast_shapes(left->sizes(), right->sizes());
    const Tensor a = left->expand(sizes), b = right->expand(sizes), out = uninitialized(sizes, DType::kBool);
    const std::array strides{a.strides().data(), b.strides().data()};
    bool* to = out.data<bool>();
    for (RowWalk row(sizes, strides); row.next(); to += row.extent())
      compare_(a.data<float>() + row.offset(0), row.step(0), b.data<float>() + row.offset(1), row.step(1), row.extent(),
               to);
    return out;
  }

 private:
  CompareRow compare_;
};
// What kind of number each float32 is, as a comparison of it with infinity.
struct IsNaN {
  bool operator()(float x, float) const { return x != x; }
};
struct IsInfinite {
  bool operator()(float x, float infinity) const { return std::fabs(x) == infinity; }
};
struct IsFinite {
  bool operator()(float x, float infinity) const { return std::fabs(x) < infinity; }
};
class KindOp : public CompiledOp {
 public:
  explicit KindOp(CompareRow compare) : compare_(compare) {}

  Value run(const Call<Tensor>& call) override {
    const Tensor x = call.tensor(0).contiguous();
    if (!is_f32(x)) return run_reference(call, "its input is not float32");
    const Tensor out = uninitialized(x.sizes(), DType::kBool);
    const float infinity = std::numeric_limits<float>::infinity();
    compare_(x.data<float>(), 1, &infinity, 0, x.numel(), out.data<bool>());
    return out;
  }

 private:
  CompareRow compare_;
};
template <class Kind> std::unique_ptr<CompiledOp> make_kind(const Node&, bool) {
  return std::make_unique<KindOp>(compare_row<Kind>);
}
// Logic of two bool tensors, or of one and true.
template <class Logic> class LogicOp : public CompiledOp {
 public:
  Value run(const Call<Tensor>& call) override {
    const Tensor *left = call[0].get_if<Tensor>(), *right = call.size() > 1 ? call[1].get_if<Tensor>() : nullptr;
    if (left == nullptr || left->dtype() != DType::kBool || (call.size() > 1 && right == nullptr) ||
        (right != nullptr && right->dtype() != DType::kBool))
      return run_reference(call, "an operand is not bool");
    const Tensor other = right != nullptr ? *right : Tensor::scalar(true);
    const Shape sizes = broadcast_shapes(left->sizes(), other.sizes());
    const Tensor a = left->expand(sizes), b = other.expand(sizes), out = uninitialized(sizes, DType::kBool);
    const std::array strides{a.strides().data(), b.strides().data()};
    bool* to = out.data<bool>();
    for (RowWalk row(sizes, strides); row.next(); to += row.extent())
      combine(a.data<bool>() + row.offset(0), row.step(0), b.data<bool>() + row.offset(1), row.step(1), row.extent(),
              to);
    return out;
  }

 private:
  static void combine(const bool* x, int64_t x_step, const bool* y, int64_t y_step, int64_t n, bool* out) {
    // Eight at a time: a bool is a byte of 0 or 1, and so is what the bits of two give.
    int64_t i = 0;
    const int64_t together = x_step == 1 && y_step <= 1 ? n - n % 8 : 0;
    for (uint64_t a = 0, b = *y ? 0x0101010101010101u : 0; i < together; i += 8) {
      std::memcpy(&a, x + i, 8);
      if (y_step == 1) std::memcpy(&b, y + i, 8);
      a = Logic{}(a, b);
      std::memcpy(out + i, &a, 8);
    }
    for (; i < n; ++i) out[i] = Logic{}(x[i * x_step], y[i * y_step]) != 0;
  }
};
template <class Logic> std::unique_ptr<CompiledOp> make_logic(const Node&, bool) {
  return std::make_unique<LogicOp<Logic>>();
}
template <class Compare> std::unique_ptr<CompiledOp> make_compare(const Node&, bool) {
  return std::make_unique<CompareOp>(compare_row<Compare>);
}

constexpr SimdOp kComparisons[] = {
    {"aten.logical_and.default", make_logic<std::bit_and<>>, logic_obstacle},
    {"aten.logical_or.default", make_logic<std::bit_or<>>, logic_obstacle},
    {"aten.logical_xor.default", make_logic<std::bit_xor<>>, logic_obstacle},
    {"aten.logical_not.default", make_logic<std::bit_xor<>>, logic_obstacle},
    {"aten.eq.Scalar", make_compare<std::equal_to<float>>, elementwise_obstacle},
    {"aten.eq.Tensor", make_compare<std::equal_to<float>>, elementwise_obstacle},
    {"aten.ne.Scalar", make_compare<std::not_equal_to<float>>, elementwise_obstacle},
    {"aten.ne.Tensor", make_compare<std::not_equal_to<float>>, elementwise_obstacle},
    {"aten.lt.Scalar", make_compare<std::less<float>>, elementwise_obstacle},
    {"aten.lt.Tensor", make_compare<std::less<float>>, elementwise_obstacle},
    {"aten.le.Scalar", make_compare<std::less_equal<float>>, elementwise_obstacle},
    {"aten.le.Tensor", make_compare<std::less_equal<float>>, elementwise_obstacle},
    {"aten.gt.Scalar", make_compare<std::greater<float>>, elementwise_obstacle},
    {"aten.gt.Tensor", make_compare<std::greater<float>>, elementwise_obstacle},
    {"aten.ge.Scalar", make_compare<std::greater_equal<float>>, elementwise_obstacle},
    {"aten.ge.Tensor", make_compare<std::greater_equal<float>>, elementwise_obstacle},
    {"aten.isnan.default", make_kind<IsNaN>, elementwise_obstacle},
    {"aten.isinf.default", make_kind<IsInfinite>, elementwise_obstacle},
    {"aten.isfinite.default", make_kind<IsFinite>, elementwise_obstacle},
};

}  // namespace

std::span<const SimdOp> comparing_simd_ops() { return kComparisons; }

}  // namespace qdq
