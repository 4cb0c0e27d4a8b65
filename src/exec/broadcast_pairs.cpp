#include "exec/broadcast_pairs.h"

#include <algorithm>
#include <span>
#include <vector>

#include "base/parallel.h"
#include "kernel/pointwise.h"

namespace qdq {
namespace {

constexpr int64_t kTogether = 512;  // elements for which numbers or rows are repeated at once

// Two operands broadcast to the shape of the result, with axes joined where the elements of both go on evenly.
struct Broadcast {
  struct Axis {
    int64_t size, a, b;  // and the steps of the operands
  };
  std::vector<Axis> outer;  // the last first
  Axis inner{1, 1, 1};
  int64_t rows = 1;

  Broadcast(const Tensor& a, const Tensor& b, const Shape& sizes) {
    const Tensor x = a.expand(sizes), y = b.expand(sizes);
    bool begun = false;
    for (size_t i = sizes.size(); i-- > 0;) {
      const Axis axis{sizes[i], x.strides()[i], y.strides()[i]};
      if (axis.size == 1) continue;
      Axis& last = outer.empty() ? inner : outer.back();
      if (!begun) inner = axis;
      else if (axis.a == last.a * last.size && axis.b == last.b * last.size) last.size *= axis.size;
      else outer.push_back(axis);
      begun = true;
    }
    for (const Axis& axis : outer) rows *= axis.size;
  }
};

// Elements in a row of their own: those at `from` if they lie so, else copies.
const float* row_of(const float* from, int64_t step, int64_t n, float* copies) {
  if (step == 1) return from;
  if (step == 0) std::fill_n(copies, n, *from);
  for (int64_t i = 0; step != 0 && i < n; ++i) copies[i] = from[i * step];
  return copies;
}

// The same of elements that lie side by side and one number, which need not be copied for products and sums.
bool run_number(PairLoop loop, float factor, const float* a, const float* b, const Broadcast::Axis& row, float* out) {
  const bool b_is_one = row.b == 0 && row.a == 1, a_is_one = row.a == 0 && row.b == 1;
  if (loop == pairs<kernel::mul_f32> && (a_is_one || b_is_one)) {
    kernel::mul_scalar_f32(b_is_one ? a : b, b_is_one ? *b : *a, row.size, out);
    return true;
  }
  if (loop == add_scaled && (b_is_one || (a_is_one && factor == 1))) {
    kernel::add_scalar_f32(b_is_one ? a : b, b_is_one ? factor * *b : *a, row.size, out);
    return true;
  }
  return false;
}

void run_row(PairLoop loop, float factor, const float* a, const float* b, const Broadcast::Axis& row, float* out) {
  if (row.a == 1 && row.b == 1) return loop(a, b, factor, row.size, out);
  const auto run = [&](int64_t begin, int64_t end) {
    float left[kTogether], right[kTogether];
    const float *x = nullptr, *y = nullptr;
    for (int64_t i = begin; i < end; i += kTogether) {
      const int64_t n = std::min(kTogether, end - i);
      if (i == begin || row.a != 0) x = row_of(a + i * row.a, row.a, n, left);
      if (i == begin || row.b != 0) y = row_of(b + i * row.b, row.b, n, right);
      loop(x, y, factor, n, out + i);
    }
  };
  constexpr int64_t kWorthThreads = int64_t{1} << 16;
  if (row.size <= kWorthThreads && run_number(loop, factor, a, b, row, out)) return;
  if (row.size > kWorthThreads) parallel_for(row.size, kWorthThreads, run);
  else run(0, row.size);
}

// Rows of a few elements along the last outer axis beside the same few in every row: so many rows at once as fill a
// stretch.
void run_repeated(PairLoop loop, float factor, const float* a, const float* b, const Broadcast& plan, float* out) {
  const int64_t n = plan.inner.size, rows = plan.outer[0].size, most = std::min(rows, kTogether / n);
  const bool repeats_a = plan.outer[0].a == 0;
  float again[kTogether];
  const float* few = row_of(repeats_a ? a : b, repeats_a ? plan.inner.a : plan.inner.b, n, again);
  for (int64_t r = few == again ? 1 : 0; r < most; ++r) std::copy_n(few, n, again + r * n);
  for (int64_t r = 0; r < rows; r += most) {
    const int64_t count = std::min(most, rows - r) * n, at = r * n;
    loop(repeats_a ? again : a + at, repeats_a ? b + at : again, factor, count, out + at);
  }
}

// The operand, with its rows side by side if it is read more than once: a view would be gathered each time.
Tensor with_dense_rows(const Tensor& operand, const Tensor& out) {
  if (operand.numel() > out.numel() / 2) return operand;
  for (size_t axis = operand.sizes().size(); axis-- > 0;)
    if (operand.sizes()[axis] != 1) return operand.strides()[axis] <= 1 ? operand : operand.contiguous();
  return operand;
}

bool is_repeated(const Broadcast& plan) {
  if (plan.outer.empty() || plan.inner.size > kTogether / 4) return false;
  const Broadcast::Axis &inner = plan.inner, &outer = plan.outer[0];
  const auto is_dense = [&](int64_t step, int64_t along) { return step == 1 && along == inner.size; };
  return (is_dense(inner.a, outer.a) && outer.b == 0) || (is_dense(inner.b, outer.b) && outer.a == 0);
}

}  // namespace

void broadcast_pairs(PairLoop loop, float factor, const Tensor& a, const Tensor& b, const Tensor& out) {
  const Tensor left = with_dense_rows(a, out), right = with_dense_rows(b, out);
  const Broadcast plan(left, right, out.sizes());
  const float *x = left.data<float>(), *y = right.data<float>();
  float* to = out.data<float>();
  const bool repeats = is_repeated(plan);
  const std::span<const Broadcast::Axis> outer = std::span(plan.outer).subspan(repeats ? 1 : 0);
  const int64_t elements = plan.inner.size * (repeats ? plan.outer[0].size : 1);
  const int64_t parts = plan.rows * plan.inner.size / elements;
  parallel_for(parts, std::max<int64_t>(1, (int64_t{1} << 16) / elements), [&](int64_t begin, int64_t end) {
    std::vector<int64_t> index(outer.size());
    int64_t from_a = 0, from_b = 0;
    for (size_t i = 0, rest = static_cast<size_t>(begin); i < index.size(); ++i) {
      const Broadcast::Axis& axis = outer[i];
      index[i] = static_cast<int64_t>(rest) % axis.size;
      rest /= static_cast<size_t>(axis.size);
      from_a += index[i] * axis.a;
      from_b += index[i] * axis.b;
    }
    for (int64_t r = begin; r < end; ++r) {
      if (repeats) run_repeated(loop, factor, x + from_a, y + from_b, plan, to + r * elements);
      else run_row(loop, factor, x + from_a, y + from_b, plan.inner, to + r * elements);
      for (size_t i = 0; i < index.size(); ++i) {
        const Broadcast::Axis& axis = outer[i];
        from_a += axis.a;
        from_b += axis.b;
        if (++index[i] < axis.size) break;
        index[i] = 0;
        from_a -= axis.a * axis.size;
        from_b -= axis.b * axis.size;
      }
    }
  });
}

void add_scaled(const float* a, const float* b, float factor, int64_t n, float* out) {
  if (factor == 1) kernel::add_f32(a, b, n, out);
  else if (factor == -1) kernel::sub_f32(a, b, n, out);
  else kernel::add_scaled_f32(a, b, factor, n, out);
}

Tensor add_f32(const Tensor& a, const Tensor& b, float factor) {
  const Tensor out = uninitialized(broadcast_shapes(a.sizes(), b.sizes()), DType::kF32);
  broadcast_pairs(add_scaled, factor, a, b, out);
  return out;
}

Tensor multiply_f32(const Tensor& a, const Tensor& b) {
  const Tensor out = uninitialized(broadcast_shapes(a.sizes(), b.sizes()), DType::kF32);
  broadcast_pairs(pairs<kernel::mul_f32>, 1, a, b, out);
  return out;
}

}  // namespace qdq
