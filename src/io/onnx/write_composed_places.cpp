// ATen operators that ONNX does not have, spelled out in those that it has: of places, windows, searches, grids.
#include <algorithm>

#include "io/onnx/export.h"
#include "op/resize.h"

namespace qdq {
namespace {

std::string unsqueeze(AtenCall& call, const std::string& x, const std::vector<int64_t>& axes) {
  return axes.empty() ? x : call.emit("Unsqueeze", {x, call.integers_as_tensor(axes)});
}
std::string transpose(AtenCall& call, const std::string& x, const std::vector<int64_t>& order) {
  return call.emit("Transpose", {x}, {"perm", order});
}
std::string shape(AtenCall& call, const std::string& x) { return call.emit("Shape", {x}); }
// The size of an axis, as a number without axes.
std::string size_of(AtenCall& call, size_t i, int64_t axis) {
  const auto known = call.meta(i).sizes[static_cast<size_t>(axis)].constant();
  if (known) return call.scalar(static_cast<double>(*known), DType::kS64);
  return call.emit("Gather", {shape(call, call.tensor(i)), call.scalar(static_cast<double>(axis), DType::kS64)},
                   {"axis", 0});
}
std::vector<int64_t> counted(int64_t from, int64_t to) {
  std::vector<int64_t> out;
  for (int64_t i = from; i < to; ++i) out.push_back(i);
  return out;
}
std::string gather(AtenCall& call, const std::string& x, const std::string& places, int64_t axis) {
  return call.emit("Gather", {x, places}, {"axis", axis});
}
int64_t known_size(AtenCall& call, size_t i, int64_t axis) {
  const auto size = call.meta(i).sizes[static_cast<size_t>(axis)].constant();
  if (!size) call.refuse("needs the size of an axis that is open");
  return *size;
}

// --- one axis by places

// A row of places along an axis, spread over all elements of `like`.
std::string spread(AtenCall& call, const std::string& row, int64_t axis, size_t rank, const std::string& like) {
  std::vector<int64_t> others = counted(0, static_cast<int64_t>(rank));
  std::erase(others, axis);
  const std::string flat = call.emit("Reshape", {row, call.integers_as_tensor({-1})});
  return call.emit("Expand", {unsqueeze(call, flat, others), shape(call, like)});
}
void scatter_rows(AtenCall& call, const std::string& row, const std::string& source, int64_t axis,
                  const char* reduction) {
  const size_t rank = call.rank(0) + (is_complex(call.result().dtype) ? 1 : 0);  // complex numbers are pairs
  const std::string places = spread(call, row, axis, rank, source);
  call.finish("ScatterElements", {call.tensor(0), places, source}, {"axis", axis, "reduction", reduction});
}

// (self, dim, index, source, alpha)
void index_add(AtenCall& call) {
  const DType dtype = call.result().dtype;
  if (call.rank(0) == 0) call.refuse("is of a tensor without axes");
  std::string source = call.operand(3, dtype);
  const bool adds = call.begins("index_add");
  if (adds && call.number(4) != 1) source = call.emit("Mul", {source, call.scalar_of(4, dtype)});
  scatter_rows(call, call.operand(2, DType::kS64), source, call.axis(1, call.rank(0)), adds ? "add" : "none");
}
// (self, dim, index, value)
void index_fill(AtenCall& call) {
  if (call.rank(0) == 0) call.refuse("is of a tensor without axes");
  const int64_t axis = call.axis(1, call.rank(0));
  const std::string row = call.emit("Reshape", {call.operand(2, DType::kS64), call.integers_as_tensor({-1})});
  const std::string sizes = shape(call, gather(call, call.tensor(0), row, axis));
  scatter_rows(call, row, call.emit("Expand", {call.operand(3, call.result().dtype), sizes}), axis, "none");
}
// (self, src, dim, start, end, step): the places are the same slice of all places.
void slice_scatter(AtenCall& call) {
  const int64_t axis = call.axis(2, call.rank(0));
  const auto bound = [&](size_t i, int64_t if_none) {
    const Node* node = call.arg(i).node();
    if (node) return call.emit("Reshape", {call.file().value(node), call.integers_as_tensor({1})});
    return call.integers_as_tensor({call.is_none(i) ? if_none : call.integer(i)});
  };
  const auto number = [&](double value) { return call.scalar(value, DType::kS64); };
  const std::string all = call.emit("Range", {number(0), size_of(call, 0, axis), number(1)});
  const std::string row = call.emit("Slice", {all, bound(3, 0), bound(4, INT64_MAX), call.integers_as_tensor({0}),
                                              call.integers_as_tensor({call.integer(5)})});
  scatter_rows(call, row, call.operand(1, call.result().dtype), axis, "none");
}
// (self, src, dim, index)
void select_scatter(AtenCall& call) {
  const int64_t axis = call.axis(2, call.rank(0));
  const std::string source = unsqueeze(call, call.operand(1, call.result().dtype), {axis});
  scatter_rows(call, call.operand(3, DType::kS64), source, axis, "none");
}

// (self, shifts, dims): what is cut off at one end stands at the other. Without axes all elements in a row.
void roll(AtenCall& call) {
  const bool is_flat = call.arg(2).list().empty();
  const std::vector<int64_t> shifts = call.integers(1);
  const std::vector<int64_t> axes = is_flat ? std::vector<int64_t>{0} : call.axes(2, call.rank(0));
  std::string x = call.tensor(0);
  if (is_flat) x = call.emit("Reshape", {x, call.integers_as_tensor({-1})});
  for (size_t i = 0; i < axes.size(); ++i) {
    const SymInt& extent = is_flat ? SymInt(0) : call.meta(0).sizes[static_cast<size_t>(axes[i])];
    const int64_t size = extent.constant().value_or(0);
    const int64_t shift = size > 0 ? ((shifts[i] % size) + size) % size : shifts[i];
    if (shift == 0) continue;
    const auto part = [&](int64_t from, int64_t to) {
      const auto one = [&](int64_t value) { return call.integers_as_tensor({value}); };
      return call.emit("Slice", {x, one(from), one(to), one(axes[i])});
    };
    x = call.emit("Concat", {part(-shift, INT64_MAX), part(0, -shift)}, {"axis", axes[i]});
  }
  if (is_flat) return call.finish("Reshape", {x, shape(call, call.tensor(0))});
  call.finish("Identity", {x});
}

void turn_around(AtenCall& call) {
  const int64_t axis = call.begins("fliplr") ? 1 : 0;
  const auto one = [&](int64_t value) { return call.integers_as_tensor({value}); };
  call.finish("Slice", {call.tensor(0), one(-1), one(INT64_MIN), one(axis), one(-1)});
}

// (self, repeats, dim): each element several times.
void repeat_each(AtenCall& call) {
  const std::string repeats = call.operand(1, DType::kS64);
  std::string x = call.tensor(0);
  if (call.is_none(2)) x = call.emit("Reshape", {x, call.integers_as_tensor({-1})});
  const size_t rank = call.is_none(2) ? 1 : call.rank(0);
  const int64_t axis = call.is_none(2) ? 0 : call.axis(2, rank);
  const auto one = [&](int64_t value) { return call.integers_as_tensor({value}); };
  std::vector<std::string> parts(rank + 1, one(1));
  parts[static_cast<size_t>(axis) + 1] = call.emit("Reshape", {repeats, one(1)});
  const std::string tiled =
      call.emit("Tile", {unsqueeze(call, x, {axis + 1}), call.emit("Concat", parts, {"axis", 0})});
  const std::string sizes = shape(call, x);
  const auto part = [&](int64_t from, int64_t to) { return call.emit("Slice", {sizes, one(from), one(to)}); };
  std::vector<std::string> wanted;
  if (axis > 0) wanted.push_back(part(0, axis));
  wanted.push_back(call.emit("Mul", {part(axis, axis + 1), repeats}));
  if (axis + 1 < static_cast<int64_t>(rank)) wanted.push_back(part(axis + 1, INT64_MAX));
  call.finish("Reshape", {tiled, call.emit("Concat", wanted, {"axis", 0})});
}

// (self, dimension, size, step): windows along an axis, whose elements stand behind.
std::string windows(AtenCall& call, const std::string& x, const std::string& size, int64_t axis, int64_t count,
                    int64_t step, int64_t dilation) {
  const auto number = [&](int64_t value) { return call.scalar(static_cast<double>(value), DType::kS64); };
  const std::string end = call.emit("Sub", {size, number((count - 1) * dilation)});
  const std::string starts = call.emit("Range", {number(0), end, number(step)});
  std::vector<int64_t> offsets;
  for (int64_t i = 0; i < count; ++i) offsets.push_back(i * dilation);
  return gather(call, x, call.emit("Add", {unsqueeze(call, starts, {1}), call.integers_as_tensor(offsets)}), axis);
}
void unfold(AtenCall& call) {
  const auto rank = static_cast<int64_t>(call.rank(0));
  if (rank == 0) call.refuse("is of a tensor without axes");
  const int64_t axis = call.axis(1, call.rank(0));
  const std::string found =
      windows(call, call.tensor(0), size_of(call, 0, axis), axis, call.integer(2), call.integer(3), 1);
  std::vector<int64_t> order = counted(0, rank + 1);
  order.erase(order.begin() + axis + 1);
  order.push_back(axis + 1);
  call.finish("Transpose", {found}, {"perm", order});
}
// (self, kernel_size, dilation, padding, stride): [N, C * kernel, places]
void im2col(AtenCall& call) {
  if (call.rank(0) != 4) call.refuse("has an input without a batch axis");
  const std::vector<int64_t> kernel = call.integers(1, 2), dilation = call.integers(2, 2),
                             padding = call.integers(3, 2), stride = call.integers(4, 2);
  const auto number = [&](int64_t value) { return call.scalar(static_cast<double>(value), DType::kS64); };
  std::string x = call.emit(
      "Pad", {call.tensor(0), call.integers_as_tensor({0, 0, padding[0], padding[1], 0, 0, padding[0], padding[1]})});
  const auto size = [&](size_t i) {
    return call.emit("Add", {size_of(call, 0, static_cast<int64_t>(i) + 2), number(2 * padding[i])});
  };
  x = windows(call, x, size(0), 2, kernel[0], stride[0], dilation[0]);  // [N, C, rows, in the window, W]
  x = windows(call, x, size(1), 4, kernel[1], stride[1], dilation[1]);  // [N, C, rows, in it, columns, in it]
  x = transpose(call, x, {0, 1, 3, 5, 2, 4});
  const int64_t channels = known_size(call, 0, 1) * kernel[0] * kernel[1];
  call.finish("Reshape", {x, call.integers_as_tensor({0, channels, -1})});
}

// --- diagonals

// Columns of the diagonal's elements in the last two axes, laid in a row.
std::string diagonal_of(AtenCall& call, int64_t offset, int64_t first, int64_t second) {
  const auto rank = static_cast<int64_t>(call.rank(0));
  const int64_t rows = known_size(call, 0, first), columns = known_size(call, 0, second);
  std::vector<int64_t> order = counted(0, rank), places;
  std::erase_if(order, [&](int64_t axis) { return axis == first || axis == second; });
  order.push_back(first);
  order.push_back(second);
  for (int64_t r = std::max<int64_t>(0, -offset), c = std::max<int64_t>(0, offset); r < rows && c < columns; ++r, ++c)
    places.push_back(r * columns + c);
  std::vector<int64_t> flat(static_cast<size_t>(rank - 2), 0);
  flat.push_back(-1);
  const std::string x = call.emit("Reshape", {transpose(call, call.tensor(0), order), call.integers_as_tensor(flat)});
  return gather(call, x, call.integers_as_tensor(places), rank - 2);
}
void diagonal(AtenCall& call) {
  call.finish("Identity", {diagonal_of(call, call.integer(1), call.axis(2, call.rank(0)), call.axis(3, call.rank(0)))});
}
void trace(AtenCall& call) {
  const std::string found = call.cast(diagonal_of(call, 0, 0, 1), call.meta(0).dtype, call.result().dtype);
  call.finish("Identity", {call.reduce("ReduceSum", found, {0}, false)});
}
// diag_embed with the diagonal in the last two axes: the elements where a unit matrix has ones.
void embed_diagonal(AtenCall& call) {
  const bool is_diag = call.begins("diag.");
  if (is_diag && call.rank(0) == 2) return call.finish("Identity", {diagonal_of(call, call.integer(1), 0, 1)});
  const size_t rank = call.rank(0) + 1;
  if (call.integer(1) != 0 || (!is_diag && (call.axis(2, rank) != static_cast<int64_t>(rank) - 2 ||
                                            call.axis(3, rank) != static_cast<int64_t>(rank) - 1)))
    call.refuse("lays a diagonal elsewhere than through the middle of the last two axes");
  const int64_t size = known_size(call, 0, static_cast<int64_t>(rank) - 2);
  const Tensor unit = Tensor::full({size, size}, DType::kBool, 0);
  for (int64_t i = 0; i < size; ++i) unit.data<bool>()[i * size + i] = true;
  call.finish("Where", {call.file().constant(unit, call.node().name() + "_unit"), unsqueeze(call, call.tensor(0), {-1}),
                        call.scalar(0, call.result().dtype)});
}

// --- masks and searches

std::string places_of_mask(AtenCall& call, const std::string& mask) {
  return transpose(call, call.emit("NonZero", {mask}), {1, 0});
}
std::string spread_over(AtenCall& call, const std::string& x, size_t other) {
  return call.emit("Expand", {x, shape(call, call.tensor(other))});
}
// (self, mask)
void masked_select(AtenCall& call) {
  std::string mask = spread_over(call, call.tensor(1), 0), x = spread_over(call, call.tensor(0), 1);
  if (call.rank(0) == 0 && call.rank(1) == 0) mask = unsqueeze(call, mask, {0}), x = unsqueeze(call, x, {0});
  call.finish("GatherND", {x, places_of_mask(call, mask)});
}
// (self, mask, source): the first values of the source, as many as there are places.
void masked_scatter(AtenCall& call) {
  if (call.rank(0) < call.rank(1)) call.refuse("broadcasts what it writes to");
  const std::string places = places_of_mask(call, spread_over(call, call.tensor(1), 0));
  const std::string count = call.emit("Shape", {places}, {"start", 0, "end", 1});
  const std::string flat = call.emit("Reshape", {call.operand(2, call.result().dtype), call.integers_as_tensor({-1})});
  const std::string values = call.emit("Slice", {flat, call.integers_as_tensor({0}), count});
  call.finish("ScatterND", {call.tensor(0), places, values});
}
// (self, index)
void take(AtenCall& call) {
  const std::string flat = call.emit("Reshape", {call.tensor(0), call.integers_as_tensor({-1})});
  call.finish("Gather", {flat, call.operand(1, DType::kS64)}, {"axis", 0});
}
// (self, indices, dim)
void take_along(AtenCall& call) {
  if (call.is_none(2)) {
    const auto flat = [&](const std::string& x) { return call.emit("Reshape", {x, call.integers_as_tensor({-1})}); };
    return call.finish("GatherElements", {flat(call.tensor(0)), flat(call.operand(1, DType::kS64))}, {"axis", 0});
  }
  const size_t rank = call.rank(0);
  const int64_t axis = call.axis(2, rank);
  std::string x = call.tensor(0), places = call.operand(1, DType::kS64);
  bool broadcasts = false;
  for (size_t i = 0; i < rank; ++i)
    broadcasts |= static_cast<int64_t>(i) != axis && !(call.meta(0).sizes[i] == call.meta(1).sizes[i]);
  if (broadcasts) {
    // Each gets the sizes of both along the other axes.
    std::vector<int64_t> others(rank, 1), own(rank, 0);
    std::swap(others[static_cast<size_t>(axis)], own[static_cast<size_t>(axis)]);
    const auto sizes_beside = [&](const std::string& tensor) {
      const std::string sizes = call.emit("Mul", {shape(call, tensor), call.integers_as_tensor(others)});
      return call.emit("Add", {sizes, call.integers_as_tensor(own)});
    };
    const std::string spread = call.emit("Expand", {x, sizes_beside(places)});
    places = call.emit("Expand", {places, sizes_beside(x)});
    x = spread;
  }
  call.finish("GatherElements", {x, places}, {"axis", axis});
}
// The tensors of the places along each axis.
void where_of_each_axis(AtenCall& call) {
  const size_t rank = call.rank(0);
  if (rank == 0) call.refuse("is of a tensor without axes");
  const std::vector<std::string> names = call.name_results(rank);
  const std::string places = call.emit("NonZero", {call.tensor(0)});
  for (size_t i = 0; i < rank; ++i)
    call.file().emit("Gather", {places, call.scalar(static_cast<double>(i), DType::kS64)}, {"axis", 0}, names[i]);
}

// How many of a sorted row lie below a value: bucketize: (self, boundaries, out_int32, right); searchsorted:
// (sorted_sequence, self, out_int32, right, side, sorter)
void search_sorted(AtenCall& call) {
  const bool is_bucketize = call.begins("bucketize");
  const size_t row_at = is_bucketize ? 1 : 0, value_at = 1 - row_at;
  if (!is_bucketize && !call.is_none(5)) call.refuse("searches a row that is not sorted");
  const bool is_right = call.flag(3) || (!is_bucketize && call.arg(4) == Argument("right"));
  const DType dtype = call.common_dtype(0, 1);
  const bool is_number = !call.arg(value_at).is_node();
  std::string row = call.operand(row_at, dtype);
  const std::string value = unsqueeze(call, call.operand(value_at, dtype), {-1});
  if (call.rank(row_at) > 1) row = unsqueeze(call, row, {-2});
  // NaN lies behind all.
  const std::string is_below = call.emit("Not", {call.emit(is_right ? "Less" : "LessOrEqual", {value, row})});
  const std::string count = call.reduce("ReduceSum", call.cast(is_below, DType::kBool, DType::kS64), {-1}, false);
  const std::string out = call.cast(count, DType::kS64, call.result().dtype);
  if (is_number) return call.finish("Reshape", {out, call.integers_as_tensor({})});
  call.finish("Identity", {out});
}
// isin: (elements, test_elements, assume_unique, invert)
void is_in(AtenCall& call) {
  const DType dtype = call.common_dtype(0, 1);
  const std::string row = call.emit("Reshape", {call.operand(1, dtype), call.integers_as_tensor({-1})});
  const std::string is_equal = call.emit("Equal", {unsqueeze(call, call.operand(0, dtype), {-1}), row});
  const std::string count = call.reduce("ReduceSum", call.cast(is_equal, DType::kBool, DType::kS32), {-1}, false);
  call.finish(call.flag(3) ? "LessOrEqual" : "Greater", {count, call.scalar(0, DType::kS32)});
}
// (self, num_classes)
void one_hot(AtenCall& call) {
  if (call.integer(1) < 0) call.refuse("counts its classes when it runs");
  if (call.rank(0) == 0) call.refuse("is of a tensor without axes");
  call.finish("OneHot", {call.operand(0, DType::kS64), call.integers_as_tensor({call.integer(1)}),
                         call.integers_as_tensor({0, 1})});
}

// (self, k, dim, keepdim)
void kth(AtenCall& call) {
  if (call.rank(0) == 0) call.refuse("is of a tensor without axes");
  const int64_t axis = call.axis(2, call.rank(0)), k = call.integer(1);
  const std::vector<std::string> names = call.name_results(2);
  const std::string values = call.file().fresh(names[0] + "_part"), places = call.file().fresh(names[1] + "_part");
  call.file().emit_many("TopK", {call.tensor(0), call.integers_as_tensor({k})}, {"axis", axis, "largest", 0},
                        {values, places});
  const std::string last =
      call.flag(3) ? call.integers_as_tensor({k - 1}) : call.scalar(static_cast<double>(k - 1), DType::kS64);
  call.file().emit("Gather", {values, last}, {"axis", axis}, names[0]);
  call.file().emit("Gather", {places, last}, {"axis", axis}, names[1]);
}

// --- tensors that are spread or joined

void meshgrid(AtenCall& call) {
  const Argument::List& list = call.arg(0).list();
  const bool is_xy = call.name() == "meshgrid.indexing" && call.arg(1) == Argument("xy") && list.size() > 1;
  std::vector<std::string> sizes, rows;
  for (const Argument& each : list) {
    rows.push_back(call.emit("Reshape", {call.file().value(each.node()), call.integers_as_tensor({-1})}));
    sizes.push_back(shape(call, rows.back()));
  }
  if (is_xy) std::swap(sizes[0], sizes[1]);
  const std::string all = call.emit("Concat", sizes, {"axis", 0});
  const std::vector<std::string> names = call.name_results(list.size());
  for (size_t i = 0; i < list.size(); ++i) {
    const size_t axis = is_xy && i < 2 ? 1 - i : i;
    std::vector<int64_t> others = counted(0, static_cast<int64_t>(list.size()));
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(axis));
    call.file().emit("Expand", {unsqueeze(call, rows[i], others), all}, {}, names[i]);
  }
}
void broadcast_all(AtenCall& call) {
  std::vector<std::string> values;
  std::string sum;
  for (const Argument& each : call.arg(0).list()) {
    values.push_back(call.file().value(each.node()));
    // Of the sizes alone: zeros of int64 that broadcast as the tensors do.
    const std::string zeros =
        call.emit("ConstantOfShape", {shape(call, values.back())}, {"value", Tensor::full({1}, DType::kS64, 0)});
    sum = sum.empty() ? zeros : call.emit("Add", {sum, zeros});
  }
  const std::vector<std::string> names = call.name_results(values.size());
  const std::string all = shape(call, sum);
  for (size_t i = 0; i < values.size(); ++i) call.file().emit("Expand", {values[i], all}, {}, names[i]);
}
// fill: (self, value); copy: (self, src)
void fill(AtenCall& call) {
  call.finish("Expand", {call.operand(1, call.result().dtype), shape(call, call.tensor(0))});
}
// new_zeros, new_ones, new_full, new_empty: (self, size, value)
void fill_sizes(AtenCall& call) {
  const DType dtype = call.result().dtype;
  const double value = call.begins("new_ones") ? 1 : call.begins("new_full") ? call.number(2) : 0;
  call.finish("ConstantOfShape", {call.sizes(1, false)}, {"value", Tensor::full({1}, dtype, value)});
}
void stack(AtenCall& call) {
  const Argument::List& list = call.arg(0).list();
  const DType dtype = call.result().dtype;
  const auto rank = static_cast<int64_t>(call.result().sizes.size());
  const bool is_columns = call.begins("column_stack"), is_depth = call.begins("dstack"),
             is_rows = call.begins("vstack") || call.begins("row_stack");
  std::vector<std::string> parts;
  for (const Argument& each : list) {
    std::string value = call.operand(each, dtype);
    const size_t own = call.meta_of(each.node()).sizes.size();
    if (own == 0) value = unsqueeze(call, value, counted(0, rank));
    else if (own == 1 && is_columns) value = unsqueeze(call, value, {1});
    else if (own == 1 && is_rows) value = unsqueeze(call, value, {0});
    else if (own == 1 && is_depth) value = unsqueeze(call, value, {0, 2});
    else if (own == 2 && is_depth) value = unsqueeze(call, value, {2});
    parts.push_back(std::move(value));
  }
  call.finish("Concat", parts, {"axis", is_depth ? 2 : is_rows || rank == 1 ? 0 : 1});
}
// (self, groups)
void shuffle_channels(AtenCall& call) {
  const int64_t channels = known_size(call, 0, 1), groups = call.integer(1);
  std::vector<int64_t> order;
  for (int64_t i = 0; i < channels; ++i) order.push_back((i % groups) * (channels / groups) + i / groups);
  call.finish("Gather", {call.tensor(0), call.integers_as_tensor(order)}, {"axis", 1});
}
// (self, source, destination)
void move_axes(AtenCall& call) {
  const std::vector<int64_t> from = call.axes(1, call.rank(0)), to = call.axes(2, call.rank(0));
  std::vector<int64_t> order(call.rank(0), -1), others = counted(0, static_cast<int64_t>(call.rank(0)));
  if (call.arg(1).list().empty()) return call.same_as(call.tensor(0));
  for (size_t i = 0; i < from.size(); ++i) {
    order[static_cast<size_t>(to[i])] = from[i];
    std::erase(others, from[i]);
  }
  for (int64_t& axis : order)
    if (axis < 0) axis = others.front(), others.erase(others.begin());
  call.finish("Transpose", {call.tensor(0)}, {"perm", order});
}
// mT, mH and adjoint of real numbers, numpy_T
void turn(AtenCall& call) {
  const auto rank = static_cast<int64_t>(call.rank(0));
  std::vector<int64_t> order = counted(0, rank);
  if (call.begins("numpy_T")) std::reverse(order.begin(), order.end());
  else if (rank > 1) std::swap(order[order.size() - 1], order[order.size() - 2]);
  if (rank < 2) return call.same_as(call.tensor(0));
  call.finish("Transpose", {call.tensor(0)}, {"perm", order});
}
void flatten_all(AtenCall& call) { call.finish("Reshape", {call.tensor(0), call.integers_as_tensor({-1})}); }
void numel(AtenCall& call) { call.finish("Size", {call.tensor(0)}); }
// Checks that end the run, which ONNX does not have.
void nothing(AtenCall&) {}

// (self, output_size, kernel_size, dilation, padding, stride), with or without a batch
void add_columns(AtenCall& call) {
  if (!call.file().reaches(18)) call.refuse("adds up columns, which ONNX can from opset 18 on");
  const auto numbers = [&](size_t i) { return call.integers(i, 2); };
  const std::vector<int64_t> padding = numbers(4);
  const bool has_batch = call.rank(0) == 3;
  const OnnxAttributes attributes = {"dilations", numbers(3),
                                     "strides",   numbers(5),
                                     "pads",      std::vector<int64_t>{padding[0], padding[1], padding[0], padding[1]}};
  const std::string columns = has_batch ? call.tensor(0) : unsqueeze(call, call.tensor(0), {0}),
                    block = call.integers_as_tensor(numbers(2)), image = call.sizes(1, false);
  if (has_batch) return call.finish("Col2Im", {columns, image, block}, attributes);
  call.finish("Squeeze", {call.emit("Col2Im", {columns, image, block}, attributes), call.integers_as_tensor({0})});
}

// (self, indices in each plane, output_size, ...): scattered along the elements of each plane of zeros.
void unpool(AtenCall& call) {
  const size_t axes = call.arg(2).list().size();
  const auto front = static_cast<int64_t>(call.rank(0) - axes);
  const auto numbers = [&](std::vector<int64_t> values) { return call.integers_as_tensor(std::move(values)); };
  const std::string planes = call.emit("Slice", {shape(call, call.tensor(0)), numbers({0}), numbers({front})}),
                    rows = call.emit("Concat", {planes, numbers({-1})}, {"axis", 0}),
                    sizes = call.emit("Concat", {planes, call.sizes(2, false)}, {"axis", 0});
  const auto in_rows = [&](const std::string& x) { return call.emit("Reshape", {x, rows}); };
  const std::string zeros = in_rows(call.emit("Expand", {call.scalar(0, call.result().dtype), sizes}));
  const std::string out =
      call.emit("ScatterElements", {zeros, in_rows(call.tensor(1)), in_rows(call.tensor(0))}, {"axis", front});
  call.finish("Reshape", {out, sizes});
}

// (theta, size, align_corners): the places of an image times theta.
void affine_grid(AtenCall& call) {
  const SymShape& sizes = call.result().sizes;
  Shape inner;
  for (size_t i = 1; i + 1 < sizes.size(); ++i)
    if (const auto known = sizes[i].constant()) inner.push_back(*known);
  if (inner.size() + 2 != sizes.size()) {
    if (!call.file().reaches(20)) call.refuse("makes a grid of open size, which ONNX can from opset 20 on");
    return call.finish("AffineGrid", {call.tensor(0), call.sizes(1, false)}, {"align_corners", call.flag(2)});
  }
  const Tensor base = affine_grid_base(inner, call.flag(2)).to(call.result().dtype);
  const std::string out = call.emit(
      "MatMul", {call.file().constant(base, call.node().name() + "_base"), transpose(call, call.tensor(0), {0, 2, 1})});
  std::vector<int64_t> wanted{-1};
  wanted.insert(wanted.end(), inner.begin(), inner.end());
  wanted.push_back(static_cast<int64_t>(inner.size()));
  call.finish("Reshape", {out, call.integers_as_tensor(wanted)});
}

constexpr AtenExporter kComposedPlaceExporters[] = {{"_assert_async.msg", nothing},
                                                    {"_assert_scalar.default", nothing},
                                                    {"_assert_tensor_metadata.default", nothing},
                                                    {"adjoint.default", turn},
                                                    {"affine_grid_generator.default", affine_grid},
                                                    {"broadcast_tensors.default", broadcast_all},
                                                    {"bucketize.Scalar", search_sorted},
                                                    {"bucketize.Tensor", search_sorted},
                                                    {"channel_shuffle.default", shuffle_channels},
                                                    {"col2im.default", add_columns},
                                                    {"column_stack.default", stack},
                                                    {"copy.default", fill},
                                                    {"diag.default", embed_diagonal},
                                                    {"diag_embed.default", embed_diagonal},
                                                    {"diagonal.default", diagonal},
                                                    {"diagonal_copy.default", diagonal},
                                                    {"linalg_diagonal.default", diagonal},
                                                    {"dstack.default", stack},
                                                    {"fill.Scalar", fill},
                                                    {"fill.Tensor", fill},
                                                    {"fliplr.default", turn_around},
                                                    {"flipud.default", turn_around},
                                                    {"hstack.default", stack},
                                                    {"im2col.default", im2col},
                                                    {"index_add.default", index_add},
                                                    {"index_copy.default", index_add},
                                                    {"index_fill.int_Scalar", index_fill},
                                                    {"index_fill.int_Tensor", index_fill},
                                                    {"isin.Scalar_Tensor", is_in},
                                                    {"isin.Tensor_Scalar", is_in},
                                                    {"isin.Tensor_Tensor", is_in},
                                                    {"kthvalue.default", kth},
                                                    {"mH.default", turn},
                                                    {"mT.default", turn},
                                                    {"masked_scatter.default", masked_scatter},
                                                    {"masked_select.default", masked_select},
                                                    {"max_unpool2d.default", unpool},
                                                    {"max_unpool3d.default", unpool},
                                                    {"meshgrid.default", meshgrid},
                                                    {"meshgrid.indexing", meshgrid},
                                                    {"movedim.intlist", move_axes},
                                                    {"native_channel_shuffle.default", shuffle_channels},
                                                    {"new_empty.default", fill_sizes},
                                                    {"new_full.default", fill_sizes},
                                                    {"new_ones.default", fill_sizes},
                                                    {"new_zeros.default", fill_sizes},
                                                    {"nonzero_numpy.default", where_of_each_axis},
                                                    {"numpy_T.default", turn},
                                                    {"one_hot.default", one_hot},
                                                    {"ravel.default", flatten_all},
                                                    {"repeat_interleave.self_int", repeat_each},
                                                    {"roll.default", roll},
                                                    {"row_stack.default", stack},
                                                    {"searchsorted.Scalar", search_sorted},
                                                    {"searchsorted.Tensor", search_sorted},
                                                    {"select_scatter.default", select_scatter},
                                                    {"slice_scatter.default", slice_scatter},
                                                    {"sym_constrain_range.default", nothing},
                                                    {"sym_constrain_range_for_size.default", nothing},
                                                    {"sym_numel.default", numel},
                                                    {"take.default", take},
                                                    {"take_along_dim.default", take_along},
                                                    {"trace.default", trace},
                                                    {"unfold.default", unfold},
                                                    {"unfold_copy.default", unfold},
                                                    {"vstack.default", stack},
                                                    {"where.default", where_of_each_axis}};

}  // namespace

std::span<const AtenExporter> composed_place_exporters() { return kComposedPlaceExporters; }

}  // namespace qdq
