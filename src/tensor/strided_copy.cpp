#include "tensor/strided_copy.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "base/stable_sort.h"

namespace qdq {
namespace {

struct Axis {
  int64_t size, from, to;  // and the steps
};

// The axes without those of one element, ordered by their steps at the target, the largest first, and joined where the
// numbers of both go on evenly.
std::vector<Axis> joined_axes(std::span<const int64_t> sizes, std::span<const int64_t> from,
                              std::span<const int64_t> to) {
  std::vector<Axis> axes;
  for (size_t i = 0; i < sizes.size(); ++i)
    if (sizes[i] != 1) axes.push_back({sizes[i], from[i], to[i]});
  sort_stably(axes, [](const Axis& a, const Axis& b) { return std::llabs(a.to) > std::llabs(b.to); });
  std::vector<Axis> joined;
  for (const Axis& axis : axes) {
    if (!joined.empty() && joined.back().from == axis.size * axis.from && joined.back().to == axis.size * axis.to)
      joined.back() = {joined.back().size * axis.size, axis.from, axis.to};
    else joined.push_back(axis);
  }
  return joined;
}

// Loops with a constant step become vectors.
template <int64_t step, class Element> void take_every(const Element* from, Element* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] = from[i * step];
}
template <int64_t lines, class Element>
void interleave(const Element* from, int64_t from_step, Element* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    for (int64_t line = 0; line < lines; ++line) to[i * lines + line] = from[line * from_step + i];
}

// to[r * to_step + c] = from[c * from_step + r]; words of 32 bits in squares of four, which lie in vectors.
using Four [[gnu::vector_size(16)]] = uint32_t;
template <class Element>
void turn(const Element* from, int64_t from_step, Element* to, int64_t to_step, int64_t rows, int64_t columns) {
  const bool in_fours = sizeof(Element) == sizeof(uint32_t);
  const int64_t whole_rows = in_fours ? rows - rows % 4 : 0, whole_columns = in_fours ? columns - columns % 4 : 0;
  for (int64_t c = 0; c < whole_columns; c += 4)
    for (int64_t r = 0; r < whole_rows; r += 4) {
      Four line[4];
      for (int64_t i = 0; i < 4; ++i) std::memcpy(&line[i], from + (c + i) * from_step + r, sizeof(Four));
      const Four first = __builtin_shufflevector(line[0], line[1], 0, 4, 1, 5),
                 second = __builtin_shufflevector(line[2], line[3], 0, 4, 1, 5),
                 third = __builtin_shufflevector(line[0], line[1], 2, 6, 3, 7),
                 fourth = __builtin_shufflevector(line[2], line[3], 2, 6, 3, 7);
      line[0] = __builtin_shufflevector(first, second, 0, 1, 4, 5);
      line[1] = __builtin_shufflevector(first, second, 2, 3, 6, 7);
      line[2] = __builtin_shufflevector(third, fourth, 0, 1, 4, 5);
      line[3] = __builtin_shufflevector(third, fourth, 2, 3, 6, 7);
      for (int64_t i = 0; i < 4; ++i) std::memcpy(to + (r + i) * to_step + c, &line[i], sizeof(Four));
    }
  for (int64_t c = 0; c < columns; ++c)
    for (int64_t r = c < whole_columns ? whole_rows : 0; r < rows; ++r) to[r * to_step + c] = from[c * from_step + r];
}

template <class Element>
void copy_square(const Element* from, Element* to, const Axis& outer, const Axis& inner, int64_t rows,
                 int64_t columns) {
  if (sizeof(Element) == sizeof(uint32_t) && outer.from == 1 && inner.to == 1 && rows >= 4 && columns >= 4)
    return turn(from, inner.from, to, outer.to, rows, columns);
  for (int64_t r = 0; r < rows; ++r) {
    const Element* in = from + r * outer.from;
    Element* out = to + r * outer.to;
    if (inner.to == 1 && inner.from == 2) take_every<2>(in, out, columns);
    else if (inner.to == 1 && inner.from == 4) take_every<4>(in, out, columns);
    else if (inner.to == 1)
      for (int64_t c = 0; c < columns; ++c) out[c] = in[c * inner.from];
    else
      for (int64_t c = 0; c < columns; ++c) out[c * inner.to] = in[c * inner.from];
  }
}

// A square whose rows are read where its columns are written, through a copy of it that lies dense. Rows that are
// many powers of two apart push each other out of the first-level cache, and so each is read once.
template <class Element>
void turn_square(const Element* from, Element* to, int64_t from_step, int64_t to_step, int64_t rows, int64_t columns) {
  constexpr int64_t kSide = 32, kApart = kSide + 1;
  Element square[kSide * kApart];
  turn(from, from_step, square, kApart, rows, columns);
  for (int64_t r = 0; r < rows; ++r) std::copy_n(square + r * kApart, columns, to + r * to_step);
}

// The two innermost axes: rows side by side, or squares where the order is another.
template <class Element> void copy_plane(const Element* from, Element* to, const Axis& outer, const Axis& inner) {
  constexpr int64_t kSquare = 32;
  if (inner.from == 1 && inner.to == 1 && inner.size >= kSquare) {
    for (int64_t r = 0; r < outer.size; ++r)
      std::memcpy(to + r * outer.to, from + r * outer.from, static_cast<size_t>(inner.size) * sizeof(Element));
    return;
  }
  if (inner.from == 1) return copy_square(from, to, outer, inner, outer.size, inner.size);
  // Lines that become one, as where channels become pixels.
  if (outer.from == 1 && inner.to == 1 && outer.to == inner.size) {
    if (inner.size == 2) return interleave<2>(from, inner.from, to, outer.size);
    if (inner.size == 3) return interleave<3>(from, inner.from, to, outer.size);
    if (inner.size == 4) return interleave<4>(from, inner.from, to, outer.size);
  }
  constexpr int64_t kPage = 1024;
  const bool turns =
      outer.from == 1 && inner.to == 1 && inner.from * static_cast<int64_t>(sizeof(Element)) % kPage == 0;
  for (int64_t r = 0; r < outer.size; r += kSquare)
    for (int64_t c = 0; c < inner.size; c += kSquare) {
      const Element* in = from + r * outer.from + c * inner.from;
      Element* out = to + r * outer.to + c * inner.to;
      const int64_t rows = std::min(kSquare, outer.size - r), columns = std::min(kSquare, inner.size - c);
      if (turns) turn_square(in, out, inner.from, outer.to, rows, columns);
      else copy_square(in, out, outer, inner, rows, columns);
    }
}

template <class Element>
void copy_axes(std::span<const Axis> outer, const Element* from, Element* to, const Axis& rows, const Axis& columns) {
  if (outer.empty()) return copy_plane(from, to, rows, columns);
  for (int64_t i = 0; i < outer[0].size; ++i)
    copy_axes(outer.subspan(1), from + i * outer[0].from, to + i * outer[0].to, rows, columns);
}

template <class Element> void copy_all(std::vector<Axis> axes, const std::byte* from, std::byte* to) {
  while (axes.size() < 2) axes.insert(axes.begin(), {1, 0, 0});
  const Axis columns = axes.back();
  axes.pop_back();
  // Beside the axis that is written densely, the one that is read densely.
  const auto densest = std::min_element(
      axes.begin(), axes.end(), [](const Axis& a, const Axis& b) { return std::llabs(a.from) < std::llabs(b.from); });
  const auto beside = columns.from == 1 || densest->size == 1 ? axes.end() - 1 : densest;
  const Axis rows = *beside;
  axes.erase(beside);
  copy_axes(std::span<const Axis>(axes), reinterpret_cast<const Element*>(from), reinterpret_cast<Element*>(to), rows,
            columns);
}

}  // namespace

void copy_strided(std::span<const int64_t> sizes, size_t bytes, const std::byte* from,
                  std::span<const int64_t> from_strides, std::byte* to, std::span<const int64_t> to_strides) {
  if (std::find(sizes.begin(), sizes.end(), 0) != sizes.end()) return;
  std::vector<Axis> axes = joined_axes(sizes, from_strides, to_strides);
  switch (bytes) {
    case 1: return copy_all<uint8_t>(std::move(axes), from, to);
    case 2: return copy_all<uint16_t>(std::move(axes), from, to);
    case 4: return copy_all<uint32_t>(std::move(axes), from, to);
    default: return copy_all<uint64_t>(std::move(axes), from, to);
  }
}

}  // namespace qdq
