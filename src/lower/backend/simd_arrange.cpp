// Views of any strides that become dense: channels that are shuffled, sliced and moved to the front or to the back.
#include <algorithm>
#include <vector>

#include "base/parallel.h"
#include "base/stable_sort.h"
#include "kernel/pointwise_int8.h"
#include "kernel/rows.h"
#include "lower/backend/simd_steps.h"

namespace qdq::simd {
namespace {

struct Axis {
  int64_t size = 1, from = 1, to = 1;  // strides in elements
};

// The axes of a copy, the output's innermost last; those that lie one behind the other on both sides are one.
std::vector<Axis> axes_of(const PlanBuffer& in, const PlanBuffer& out) {
  std::vector<Axis> axes;
  const Shape from = in.strides(), to = out.strides();
  for (size_t i = 0; i < out.sizes.size(); ++i)
    if (out.sizes[i] != 1) axes.push_back({out.sizes[i], from[i], to[i]});
  sort_stably(axes, [](const Axis& a, const Axis& b) { return a.to > b.to; });
  std::vector<Axis> joined;
  for (const Axis& axis : axes) {
    const bool follows =
        !joined.empty() && joined.back().from == axis.from * axis.size && joined.back().to == axis.to * axis.size;
    if (follows) joined.back() = {joined.back().size * axis.size, axis.from, axis.to};
    else joined.push_back(axis);
  }
  return joined;
}

// How the elements of the innermost axes move.
enum class Move {
  kRows,         // dense to dense
  kEverySecond,  // of a dense row
  kLines,        // two to four dense rows, element by element
  kTransposed,   // a dense matrix of bytes
  kElements,     // any strides
};

// Takes the axes off that a move works on: those of one row, and the axis along which rows repeat.
struct Tile {
  Move move = Move::kElements;
  Axis rows, outer, inner;  // `outer` of kLines and kTransposed alone
  explicit Tile(std::vector<Axis>& axes, DType dtype) {
    inner = last(axes);
    if (inner.from == 1) {
      move = Move::kRows;
    } else if (!axes.empty() && axes.back().from == 1 && inner.size <= 4 && axes.back().to == inner.size) {
      move = Move::kLines;
      outer = last(axes);
    } else if (!axes.empty() && axes.back().from == 1 && dtype == DType::kU8 && axes.back().size == inner.from &&
               axes.back().to == inner.size) {
      move = Move::kTransposed;
      outer = last(axes);
      return;
    } else if (inner.from == 2) {
      move = Move::kEverySecond;
    }
    rows = last(axes);
  }

 private:
  static Axis last(std::vector<Axis>& axes) {
    if (axes.empty()) return {};
    const Axis out = axes.back();
    axes.pop_back();
    return out;
  }
};

template <class T> void move_rows(const Tile& tile, const T* x, T* y, int64_t rows) {
  constexpr auto kSize = static_cast<int64_t>(sizeof(T));
  const auto& [move, row, outer, inner] = tile;
  switch (move) {
    case Move::kRows:
      return kernel::copy_row_bytes(reinterpret_cast<const std::byte*>(x), row.from * kSize,
                                    reinterpret_cast<std::byte*>(y), row.to * kSize, inner.size * kSize, rows);
    case Move::kEverySecond: return kernel::take_every_second(x, row.from, y, row.to, inner.size, rows);
    case Move::kLines: return kernel::interleave(x, row.from, inner.from, inner.size, y, row.to, outer.size, rows);
    case Move::kTransposed:
      if constexpr (kSize == 1) kernel::interleave_planes_u8(x, inner.size, outer.size, y);
      return;
    case Move::kElements:
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t i = 0; i < inner.size; ++i) y[r * row.to + i * inner.to] = x[r * row.from + i * inner.from];
  }
}

template <class T> Compiled arranged(std::vector<Axis> axes, DType dtype) {
  const Tile tile(axes, dtype);
  int64_t tiles = 1;
  for (const Axis& axis : axes) tiles *= axis.size;
  return made("strided copy", [=](auto inputs, std::byte* output, std::byte*) {
    if (tile.inner.size == 0 || tile.outer.size == 0) return;
    const auto* x = reinterpret_cast<const T*>(inputs[0]);
    auto* y = reinterpret_cast<T*>(output);
    const int64_t grain = std::max<int64_t>(1, 65536 / (tile.inner.size * tile.outer.size));
    parallel_for(tiles * tile.rows.size, grain, [&](int64_t begin, int64_t end) {
      for (int64_t next; begin < end; begin = next) {
        next = std::min(end, begin / tile.rows.size * tile.rows.size + tile.rows.size);
        int64_t rest = begin / tile.rows.size, from = begin % tile.rows.size * tile.rows.from,
                to = begin % tile.rows.size * tile.rows.to;
        for (size_t i = axes.size(); i-- > 0; rest /= axes[i].size) {
          from += rest % axes[i].size * axes[i].from;
          to += rest % axes[i].size * axes[i].to;
        }
        move_rows(tile, x + from, y + to, next - begin);
      }
    });
  });
}

}  // namespace

bool moves_rows(const Plan& plan, const PlanStep& step) {
  const PlanBuffer &in = plan.buffers[step.inputs[0]], &out = plan.buffers[step.output];
  if (in.dtype != out.dtype || out.dtype == DType::kBF16) return false;
  std::vector<Axis> axes = axes_of(in, out);
  return Tile(axes, out.dtype).move != Move::kElements;
}

Compiled arrange(const Plan& plan, const PlanStep& step) {
  const PlanBuffer &in = plan.buffers[step.inputs[0]], &out = plan.buffers[step.output];
  switch (size_of(out.dtype)) {
    case 1: return arranged<uint8_t>(axes_of(in, out), out.dtype);
    case 4: return arranged<float>(axes_of(in, out), out.dtype);
    default: return "elements of another size";
  }
}

}  // namespace qdq::simd
