// Comparisons of float32 and of integers, and logic of bool, on the portable loops; their results are bool.
#include <array>
#include <cmath>
#include <limits>
#include <optional>

#include "exec/simd.h"
#include "exec/simd_obstacles.h"
#include "kernel/compare.h"

namespace qdq {
namespace {

// The operand broadcast to `sizes`, laid out so that the elements of a row are one, or lie side by side.
Tensor in_rows(const Tensor& x, const Shape& sizes) {
  const Tensor all = x.expand(sizes);
  for (size_t axis = sizes.size(); axis-- > 0;)
    if (sizes[axis] != 1) return all.strides()[axis] <= 1 ? all : x.contiguous().expand(sizes);
  return all;
}

// Calls loop(row of x, its step, row of y, its step, elements, row of out) on all rows of two broadcast tensors.
template <class T, class Loop> Tensor for_rows(const Tensor& x, const Tensor& y, Loop&& loop) {
  const Shape sizes = broadcast_shapes(x.sizes(), y.sizes());
  const Tensor a = in_rows(x, sizes), b = in_rows(y, sizes), out = uninitialized(sizes, DType::kBool);
  const std::array strides{a.strides().data(), b.strides().data()};
  bool* to = out.data<bool>();
  for (RowWalk row(sizes, strides); row.next(); to += row.extent())
    loop(a.data<T>() + row.offset(0), row.step(0), b.data<T>() + row.offset(1), row.step(1), row.extent(), to);
  return out;
}

enum class Compare { kEqual, kNotEqual, kLess, kLessEqual, kGreater, kGreaterEqual };

// A comparison of float32, int32 or int64 with a tensor of that dtype or a number; its result is bool.
class CompareOp : public CompiledOp {
 public:
  explicit CompareOp(Compare how) : how_(how) {}

  Value run(const Call<Tensor>& call) override {
    const DType dtype = call.tensor(0).dtype();
    if (dtype == DType::kF32) {
      const std::optional<Tensor> other = floats_of(call, 1);
      return other ? compared<float>(call.tensor(0), *other) : run_reference(call, "an operand is not float32");
    }
    const std::optional<Tensor> other = integers_of(call[1], dtype);
    if (!other) return run_reference(call, "its operands are of several dtypes, or none of float32, int32 and int64");
    return dtype == DType::kS32 ? compared<int32_t>(call.tensor(0), *other) : compared<int64_t>(call.tensor(0), *other);
  }

 private:
  static std::optional<Tensor> integers_of(const Value& value, DType dtype) {
    if (dtype != DType::kS32 && dtype != DType::kS64) return std::nullopt;
    if (const Tensor* tensor = value.get_if<Tensor>())
      return tensor->dtype() == dtype ? std::optional(*tensor) : std::nullopt;
    const int64_t* number = value.get_if<int64_t>();
    if (number == nullptr || *number < min_of(dtype) || *number > max_of(dtype)) return std::nullopt;
    return Tensor::scalar(*number).to(dtype);
  }

  template <class T> Value compared(const Tensor& x, const Tensor& y) const {
    using kernel::Comparison;
    const bool swaps = how_ == Compare::kGreater || how_ == Compare::kGreaterEqual;
    const Comparison how = how_ == Compare::kEqual || how_ == Compare::kNotEqual ? Comparison::kEqual
                           : how_ == Compare::kLess || how_ == Compare::kGreater ? Comparison::kLess
                                                                                 : Comparison::kLessEqual;
    const bool turns = how_ == Compare::kNotEqual, one = true;
    return for_rows<T>(swaps ? y : x, swaps ? x : y,
                       [&](const T* a, int64_t a_step, const T* b, int64_t b_step, int64_t n, bool* out) {
                         kernel::compare(how, a, a_step, b, b_step, n, out);
                         if (turns) kernel::combine(kernel::Logic::kXor, out, 1, &one, 0, n, out);
                       });
  }

  Compare how_;
};
template <Compare how> std::unique_ptr<CompiledOp> make_compare(const Node&, bool) {
  return std::make_unique<CompareOp>(how);
}
std::string comparison_obstacle(const Node& node) {
  const Node* input = node.arg(0).node();
  const TensorMeta* x = input == nullptr ? nullptr : input->meta.val.tensor();
  if (x == nullptr || x->dtype == DType::kF32 || x->dtype == DType::kS32 || x->dtype == DType::kS64) return {};
  return concat("its input is ", to_string(x->dtype), ", not float32, int32 or int64");
}

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
template <class Kind> class KindOp : public CompiledOp {
 public:
  Value run(const Call<Tensor>& call) override {
    const Tensor x = call.tensor(0).contiguous();
    if (!is_f32(x)) return run_reference(call, "its input is not float32");
    const Tensor out = uninitialized(x.sizes(), DType::kBool);
    const float infinity = std::numeric_limits<float>::infinity();
    const float* from = x.data<float>();
    bool* __restrict to = out.data<bool>();
    for (int64_t i = 0, n = x.numel(); i < n; ++i) to[i] = Kind{}(from[i], infinity);
    return out;
  }
};
template <class Kind> std::unique_ptr<CompiledOp> make_kind(const Node&, bool) {
  return std::make_unique<KindOp<Kind>>();
}
// Logic of two bool tensors, or of one and true.
class LogicOp : public CompiledOp {
 public:
  explicit LogicOp(kernel::Logic logic) : logic_(logic) {}

  Value run(const Call<Tensor>& call) override {
    const Tensor *left = call[0].get_if<Tensor>(), *right = call.size() > 1 ? call[1].get_if<Tensor>() : nullptr;
    if (left == nullptr || left->dtype() != DType::kBool || (call.size() > 1 && right == nullptr) ||
        (right != nullptr && right->dtype() != DType::kBool))
      return run_reference(call, "an operand is not bool");
    return for_rows<bool>(*left, right != nullptr ? *right : Tensor::scalar(true),
                          [&](const bool* a, int64_t a_step, const bool* b, int64_t b_step, int64_t n, bool* out) {
                            kernel::combine(logic_, a, a_step, b, b_step, n, out);
                          });
  }

 private:
  kernel::Logic logic_;
};
template <kernel::Logic logic> std::unique_ptr<CompiledOp> make_logic(const Node&, bool) {
  return std::make_unique<LogicOp>(logic);
}

constexpr SimdOp kComparisons[] = {
    {"aten.logical_and.default", make_logic<kernel::Logic::kAnd>, logic_obstacle},
    {"aten.logical_or.default", make_logic<kernel::Logic::kOr>, logic_obstacle},
    {"aten.logical_xor.default", make_logic<kernel::Logic::kXor>, logic_obstacle},
    {"aten.logical_not.default", make_logic<kernel::Logic::kXor>, logic_obstacle},
    {"aten.bitwise_and.Tensor", make_logic<kernel::Logic::kAnd>, logic_obstacle},
    {"aten.bitwise_or.Tensor", make_logic<kernel::Logic::kOr>, logic_obstacle},
    {"aten.bitwise_xor.Tensor", make_logic<kernel::Logic::kXor>, logic_obstacle},
    {"aten.bitwise_not.default", make_logic<kernel::Logic::kXor>, logic_obstacle},
    {"aten.__and__.Tensor", make_logic<kernel::Logic::kAnd>, logic_obstacle},
    {"aten.__or__.Tensor", make_logic<kernel::Logic::kOr>, logic_obstacle},
    {"aten.__xor__.Tensor", make_logic<kernel::Logic::kXor>, logic_obstacle},
    {"aten.eq.Scalar", make_compare<Compare::kEqual>, comparison_obstacle},
    {"aten.eq.Tensor", make_compare<Compare::kEqual>, comparison_obstacle},
    {"aten.ne.Scalar", make_compare<Compare::kNotEqual>, comparison_obstacle},
    {"aten.ne.Tensor", make_compare<Compare::kNotEqual>, comparison_obstacle},
    {"aten.lt.Scalar", make_compare<Compare::kLess>, comparison_obstacle},
    {"aten.lt.Tensor", make_compare<Compare::kLess>, comparison_obstacle},
    {"aten.le.Scalar", make_compare<Compare::kLessEqual>, comparison_obstacle},
    {"aten.le.Tensor", make_compare<Compare::kLessEqual>, comparison_obstacle},
    {"aten.gt.Scalar", make_compare<Compare::kGreater>, comparison_obstacle},
    {"aten.gt.Tensor", make_compare<Compare::kGreater>, comparison_obstacle},
    {"aten.ge.Scalar", make_compare<Compare::kGreaterEqual>, comparison_obstacle},
    {"aten.ge.Tensor", make_compare<Compare::kGreaterEqual>, comparison_obstacle},
    {"aten.isnan.default", make_kind<IsNaN>, elementwise_obstacle},
    {"aten.isinf.default", make_kind<IsInfinite>, elementwise_obstacle},
    {"aten.isfinite.default", make_kind<IsFinite>, elementwise_obstacle},
};

}  // namespace

std::span<const SimdOp> comparing_simd_ops() { return kComparisons; }

}  // namespace qdq
