// Shapes that an ONNX graph computes from open sizes, computed as far as they are known.
#include <algorithm>
#include <optional>

#include "io/onnx/import.h"
#include "tensor/sym_arithmetic.h"

namespace qdq {
namespace {

enum class SizeArithmetic { kAdd, kSub, kMul, kDiv, kMod };

SymInt compute(OnnxCall& call, SizeArithmetic what, const SymInt& a, const SymInt& b) {
  // ONNX divides toward zero, which is down for sizes and divisors above zero.
  if (const auto divisor = b.constant(); what == SizeArithmetic::kDiv && divisor) {
    const bool is_negative = *divisor < 0 && *divisor != INT64_MIN;
    if (const auto known = a.constant(); known && (*divisor > 0 || (is_negative && *known != INT64_MIN)))
      return *known / *divisor;
    const auto negated = [&](const SymInt& size) { return compute(call, SizeArithmetic::kMul, size, SymInt(-1)); };
    if (is_negative) return negated(compute(call, what, a, SymInt(-*divisor)));
    if (is_negated(a)) return negated(compute(call, what, negated(a), b));
  }
  static constexpr const char* kNames[] = {"operator.add", "operator.sub", "operator.mul", "operator.floordiv",
                                           "operator.mod"};
  SymInt out;
  switch (what) {
    case SizeArithmetic::kAdd: out = a + b; break;
    case SizeArithmetic::kSub: out = a - b; break;
    case SizeArithmetic::kMul: out = a * b; break;
    case SizeArithmetic::kDiv: out = a.floor_div(b); break;
    case SizeArithmetic::kMod: out = size_modulo(a, b); break;  // with the sign of the divisor
  }
  call.import().know_size(out, kNames[static_cast<size_t>(what)], a, b);
  return out;
}

void elementwise(OnnxCall& call, SizeArithmetic what) {
  const std::vector<SymInt> a = call.sizes(0), b = call.sizes(1);
  const size_t count = std::max(a.size(), b.size());
  if ((a.size() != count && a.size() != 1) || (b.size() != count && b.size() != 1))
    call.refuse("joins ", a.size(), " sizes and ", b.size());
  std::vector<SymInt> out;
  for (size_t i = 0; i < count; ++i)
    out.push_back(compute(call, what, a[a.size() == 1 ? 0 : i], b[b.size() == 1 ? 0 : i]));
  call.set(std::move(out), call.is_vector(0) || call.is_vector(1));
}

// Whether two sizes are equal, if that is known before the model runs. An open size is no number below zero, and where
// zero is asked for, the program takes none; but a difference, the rest of a division, and what a run finds (boxes
// above a score) may be zero.
std::optional<bool> equal(OnnxCall& call, const SymInt& a, const SymInt& b) {
  if (a == b) return true;
  if ((a - b).is_constant()) return false;
  for (const auto& [size, number] : {std::pair(a, b.constant()), std::pair(b, a.constant())}) {
    if (!number || *number > 0) continue;
    if (*number == 0 && size.to_string().find('-') != std::string::npos) continue;
    if (*number == 0 && !call.import().know_more_than_zero(size)) continue;
    return false;
  }
  return std::nullopt;
}

bool compare_sizes(OnnxCall& call) {
  const std::vector<SymInt> a = call.sizes(0), b = call.sizes(1);
  const size_t count = std::max(a.size(), b.size());
  if ((a.size() != count && a.size() != 1) || (b.size() != count && b.size() != 1))
    call.refuse("compares ", a.size(), " sizes with ", b.size());
  Tensor out = Tensor::empty(call.is_vector(0) || call.is_vector(1) ? Shape{static_cast<int64_t>(count)} : Shape{},
                             DType::kBool);
  for (size_t i = 0; i < count; ++i) {
    const std::optional<bool> known = equal(call, a[a.size() == 1 ? 0 : i], b[b.size() == 1 ? 0 : i]);
    if (!known) return false;
    out.data<bool>()[i] = *known;
  }
  call.set(std::move(out));
  return true;
}

void choose(OnnxCall& call) {
  const Tensor condition = call.wanted_constant(0).contiguous();
  const std::vector<SymInt> a = call.sizes(1), b = call.sizes(2);
  const auto count = std::max({static_cast<size_t>(condition.numel()), a.size(), b.size()});
  for (const size_t size : {static_cast<size_t>(condition.numel()), a.size(), b.size()})
    if (size != count && size != 1) call.refuse("chooses between ", a.size(), " sizes and ", b.size());
  std::vector<SymInt> out;
  for (size_t i = 0; i < count; ++i)
    out.push_back(condition.data<bool>()[condition.numel() == 1 ? 0 : i] ? a[a.size() == 1 ? 0 : i]
                                                                         : b[b.size() == 1 ? 0 : i]);
  call.set(std::move(out), call.is_vector(1) || call.is_vector(2));
}

void gather_sizes(OnnxCall& call) {
  const std::vector<SymInt> from = call.sizes(0);
  std::vector<SymInt> out;
  for (const int64_t index : call.integers(1)) out.push_back(from[static_cast<size_t>(call.axis(index, from.size()))]);
  call.set(std::move(out), call.constant(1).dim() == 1);
}

// Attributes before opset 10. Going backwards, the first place is the last one at most, and the end lies before it.
void slice_sizes(OnnxCall& call) {
  const std::vector<SymInt> from = call.sizes(0);
  const auto count = static_cast<int64_t>(from.size());
  const int64_t step = call.has(4) ? std::clamp(call.whole_number(4), -count - 1, count + 1) : 1;
  if (step == 0) call.refuse("has the step 0");
  const int64_t least = step < 0 ? -1 : 0, most = step < 0 ? count - 1 : count;
  const auto bound = [&](size_t i, const char* name) {
    const std::vector<int64_t> given = call.has(i) ? std::vector{call.whole_number(i)} : call.integers(name, {});
    if (given.size() != 1) call.refuse("has ", given.size(), " ", name, " for one axis");
    return std::clamp<int64_t>(given[0] < 0 ? std::max(given[0], -count - 1) + count : given[0], least, most);
  };
  const int64_t end = bound(2, "ends");
  std::vector<SymInt> out;
  for (int64_t i = bound(1, "starts"); step > 0 ? i < end : i > end; i += step)
    out.push_back(from[static_cast<size_t>(i)]);
  call.set(std::move(out), true);
}

void negate(OnnxCall& call) {
  std::vector<SymInt> out;
  for (const SymInt& size : call.sizes(0)) out.push_back(compute(call, SizeArithmetic::kMul, size, SymInt(-1)));
  call.set(std::move(out), call.is_vector(0));
}

// PyTorch's newer exporter takes the absolute value of the sizes of an expand, where -1 stands for 1.
bool absolute(OnnxCall& call) {
  std::vector<SymInt> out;
  for (const SymInt& size : call.sizes(0)) {
    const std::optional<int64_t> known = size.constant();
    if (known && *known == INT64_MIN) return false;
    const bool is_below = known ? *known < 0 : is_negated(size);
    out.push_back(is_below ? compute(call, SizeArithmetic::kMul, size, SymInt(-1)) : size);
    // A difference may have either sign.
    if (out.back().to_string().find('-') != std::string::npos) return false;
  }
  call.set(std::move(out), call.is_vector(0));
  return true;
}

void product(OnnxCall& call) {
  SymInt out = 1;
  for (const SymInt& size : call.sizes(0)) out = compute(call, SizeArithmetic::kMul, out, size);
  call.set({out}, call.integer("keepdims", 1) != 0);
}

void join(OnnxCall& call) {
  std::vector<SymInt> out;
  for (size_t i = 0; i < call.num_inputs(); ++i) {
    const std::vector<SymInt> part = call.sizes(i);
    out.insert(out.end(), part.begin(), part.end());
  }
  call.set(std::move(out), true);
}

}  // namespace

bool import_sizes(OnnxCall& call) {
  bool any = false;
  for (size_t i = 0; i < call.num_inputs(); ++i) any |= call.has(i) && call.is_sizes(i);
  if (!any) return false;
  const std::string_view op = call.op().name;
  const auto is_integer = [&](size_t i) {
    return call.is_sizes(i) || (call.is_constant(i) && !is_floating(call.meta(i).dtype) && call.rank(i) < 2);
  };
  const auto all_integers = [&](size_t first) {
    for (size_t i = first; i < call.num_inputs(); ++i)
      if (!is_integer(i)) return false;
    return true;
  };
  static constexpr std::pair<std::string_view, SizeArithmetic> kArithmetic[] = {{"Add", SizeArithmetic::kAdd},
                                                                                {"Sub", SizeArithmetic::kSub},
                                                                                {"Mul", SizeArithmetic::kMul},
                                                                                {"Div", SizeArithmetic::kDiv}};
  for (const auto& [name, what] : kArithmetic)
    if (op == name && all_integers(0)) return elementwise(call, what), true;
  if (op == "Mod" && all_integers(0) && call.integer("fmod", 0) == 0)
    return elementwise(call, SizeArithmetic::kMod), true;
  if (op == "Concat" && all_integers(0)) return join(call), true;
  if (op == "Equal" && all_integers(0)) return compare_sizes(call);
  if (op == "Where" && call.is_constant(0) && call.rank(0) < 2 && all_integers(1)) return choose(call), true;
  if (!call.is_sizes(0)) return false;
  if (op == "Gather" && call.is_constant(1) && call.rank(1) < 2) return gather_sizes(call), true;
  if ((op == "Slice" || op == "DynamicSlice") && all_integers(1)) return slice_sizes(call), true;
  if (op == "Neg") return negate(call), true;
  if (op == "Abs") return absolute(call);
  if (op == "ReduceProd") return product(call), true;
  if (op == "Unsqueeze" && !call.is_vector(0)) return call.set(call.sizes(0), true), true;
  if (op == "Squeeze" && call.sizes(0).size() == 1) return call.set(call.sizes(0), false), true;
  if (op == "Reshape" && call.is_constant(1)) {
    const bool to_vector = call.constant(1).numel() == 1;
    if (to_vector || (call.constant(1).numel() == 0 && call.sizes(0).size() == 1))
      return call.set(call.sizes(0), to_vector), true;
  }
  if (op == "Cast")
    for (const DType dtype : {DType::kS32, DType::kS64})
      if (format::onnx_dtype(call.integer("to", 0)) == dtype) return call.cast_sizes(dtype), true;
  return false;
}

}  // namespace qdq
