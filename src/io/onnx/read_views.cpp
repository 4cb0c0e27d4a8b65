// ONNX operators that make and place elements: constants, sizes, reshapes, slices, padding.
#include <algorithm>
#include <limits>

#include "base/stable_sort.h"
#include "io/onnx/chains.h"
#include "op/size_symbols.h"
#include "tensor/strings.h"

namespace qdq {
namespace {

using format::OnnxKind;

void identity(OnnxCall& call) { call.same_as_input(0); }

void concat_values(OnnxCall& call) {
  Argument::List all;
  for (size_t i = 0; i < call.num_inputs(); ++i) all.emplace_back(call.tensor(i));
  if (all.size() == 1) return call.same_as_input(0);
  call.set(call.call("cat.default", {Argument(std::move(all)), call.axis(call.integer("axis", 0), call.rank(0))}));
}

// By lengths, or into as many parts of equal length as there are outputs; the last one is shorter if need be.
void split(OnnxCall& call) {
  const int64_t axis = call.axis(call.integer("axis", 0), call.rank(0));
  const auto count = static_cast<int64_t>(call.num_outputs());
  const SymInt whole = call.extent(call.tensor(0), static_cast<size_t>(axis));
  const int64_t wanted = call.integer("num_outputs", count);
  std::vector<SymInt> parts;
  if (call.has(1)) parts = call.sizes(1);
  else if (call.attribute("split"))
    for (const int64_t length : call.integers("split", {})) parts.emplace_back(length);
  if (call.num_outputs() == 1 && parts.empty() && wanted == 1) return call.same_as_input(0);
  const bool by_number = parts.empty();
  if (by_number && (wanted < 1 || wanted != count)) call.refuse("has ", count, " outputs for ", wanted, " parts");
  if (by_number && whole.is_constant()) {
    const int64_t size = *whole.constant(), each = size / count + (size % count != 0);
    for (int64_t i = 0, rest = size; i < count; ++i, rest -= each)
      parts.emplace_back(std::clamp<int64_t>(rest, 0, each));
  }
  Node* x = call.tensor(0);
  if (by_number && parts.empty()) {  // an open size
    const SymInt size = size_along(call, x, axis);
    const SymInt each = divide_sizes(call, add_sizes(call, size, count - 1), count);
    SymInt from = 0;
    for (int64_t i = 0; i < count; ++i) {
      const SymInt to = add_sizes(call, from, each);
      const Argument end = i + 1 == count ? Argument(int64_t{INT64_MAX}) : as_argument(call, to);
      call.set(call.call("slice.Tensor", {x, axis, as_argument(call, from), end}), static_cast<size_t>(i));
      from = to;
    }
    return;
  }
  if (parts.size() != call.num_outputs())
    call.refuse("has ", call.num_outputs(), " outputs for ", parts.size(), " parts");
  std::vector<int64_t> lengths;
  for (const SymInt& length : parts)
    if (const std::optional<int64_t> known = length.constant()) lengths.push_back(*known);
  if (lengths.size() == parts.size()) {
    const std::vector<Node*> nodes = split_parts(call, x, lengths, axis);
    for (size_t i = 0; i < nodes.size(); ++i) call.set(nodes[i], i);
    return;
  }
  SymInt from = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    const SymInt to = add_sizes(call, from, parts[i]);
    call.set(call.call("slice.Tensor", {x, axis, as_argument(call, from), as_argument(call, to)}), i);
    from = to;
  }
}

// Elements from start to end of an axis. PyTorch takes numbers to lie within an axis of open size; those of a file may
// lie beyond, so that the size of the result is not known before the model runs.
Node* sliced(OnnxCall& call, Node* x, int64_t axis, const SymInt& start, const SymInt& end, int64_t step) {
  const SymInt size = call.extent(x, static_cast<size_t>(axis));
  // This and further bounds lie beyond any axis. tf2onnx writes a billion for the end of an open one.
  const int64_t far = size.is_constant() ? std::numeric_limits<int32_t>::max() : 1'000'000'000;
  std::optional<int64_t> first = start.constant(), last = end.constant();
  if (first) first = std::clamp(*first, -far - 1, far + 1);
  if (last) last = *last >= far ? INT64_MAX : std::max(*last, -far - 1);
  const Argument from = first ? Argument(*first) : as_argument(call, start),
                 to = last ? Argument(*last) : as_argument(call, end);
  Node* out = call.call("slice.Tensor", {x, axis, from, to, step});
  if (call.import().is_constant(out) || size.is_constant()) return out;
  TensorMeta meta = call.meta_of(out);
  SymInt& length = meta.sizes[static_cast<size_t>(axis)];
  // The size of one input as the end of another's axis, which may be shorter.
  if (first == 0 && !last && step == 1 && is_symbol(end) && is_symbol(size) && !(end == size)) {
    length = smaller_size(end, size);
    call.import().know_size(length, out, axis);
    out->meta.val.value = std::move(meta);
  }
  if (!first || !last) return out;
  if (leaves_out_some(*first, *last) && !length.is_constant() && is_known_outside(size)) return out;
  length = slice_length(*first, *last, step, size);
  call.import().know_size(length, out, axis);
  out->meta.val.value = std::move(meta);
  return out;
}

// The same from the end on: start lies behind end, which does not belong to it. The largest numbers as an end mean the
// front, as in ONNX Runtime; by the text of ONNX, which wants the least ones for that, nothing would be left.
Node* sliced_backwards(OnnxCall& call, Node* x, int64_t axis, const SymInt& start, const SymInt& end, int64_t step) {
  constexpr int64_t kFar = int64_t{1} << 31;
  const auto size = call.extent(x, static_cast<size_t>(axis)).constant();
  auto first = start.constant(), last = end.constant();
  if (last && (*last == std::numeric_limits<int32_t>::max() || *last == INT64_MAX)) last = -2 * kFar;
  SymInt from = 0, to = INT64_MAX;  // of the same elements forwards
  if (size && first && last) {
    const int64_t n = *size;
    const int64_t begin = std::clamp<int64_t>(*first < 0 ? *first + n : *first, n == 0 ? -1 : 0, n - 1);
    const int64_t stop = std::clamp<int64_t>(*last < 0 ? std::max(*last, -kFar - n) + n : *last, -1, n - 1);
    from = stop + 1;
    to = std::max(begin, stop) + 1;
  } else {
    // Bounds that are computed count from the front.
    if (first && *first == -1) to = INT64_MAX;
    else if (first && *first >= kFar - 1) to = INT64_MAX;
    else to = first ? SymInt(*first + 1) : add_sizes(call, start, 1);
    if (last && *last <= -kFar + 1) from = 0;
    else if (last && *last == -1) from = INT64_MAX;
    else from = last ? SymInt(*last + 1) : add_sizes(call, end, 1);
  }
  const bool is_whole = from == SymInt(0) && (to == SymInt(INT64_MAX) || (size && to == SymInt(*size)));
  if (!is_whole) x = sliced(call, x, axis, from, to, 1);
  x = reversed(call, x, axis);
  return step == 1 ? x : sliced(call, x, axis, 0, INT64_MAX, step);
}

// Attributes before opset 10.
void slice(OnnxCall& call) {
  const size_t rank = call.rank(0);
  const auto bounds = [&](size_t i, const char* name) {
    if (call.has(i)) return call.sizes(i);
    const std::vector<int64_t> known = call.integers(name, {});
    return std::vector<SymInt>(known.begin(), known.end());
  };
  const std::vector<SymInt> starts = bounds(1, "starts"), ends = bounds(2, "ends");
  std::vector<int64_t> axes, steps(starts.size(), 1);
  for (size_t i = 0; i < starts.size(); ++i) axes.push_back(static_cast<int64_t>(i));
  if (call.has(3)) axes = call.integers(3);
  else axes = call.integers("axes", axes);
  if (call.has(4)) steps = call.integers(4);
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size())
    call.refuse("has starts, ends, axes or steps of different number");
  Node* out = call.tensor(0);
  constexpr int64_t kMostSteps = int64_t{1} << 31;
  for (size_t i = 0; i < starts.size(); ++i) {
    const int64_t axis = call.axis(axes[i], rank), step = std::clamp(steps[i], -kMostSteps, kMostSteps);
    if (step == 0) call.refuse("has the step 0");
    out = step > 0 ? sliced(call, out, axis, starts[i], ends[i], step)
                   : sliced_backwards(call, out, axis, starts[i], ends[i], -step);
  }
  if (out == call.tensor(0)) return call.same_as_input(0);
  call.set(out);
}

void eye_like(OnnxCall& call) {
  if (call.rank(0) != 2) call.refuse("has an input of ", call.rank(0), " axes, wanted 2");
  const int64_t number = call.integer("dtype", 0), k = call.integer("k", 0);
  const auto wanted = format::onnx_dtype(number);
  if (call.attribute("dtype") && !wanted)
    call.refuse("makes values of data type ", number, ", which qdq does not have");
  const DType dtype = call.attribute("dtype") ? *wanted : call.meta(0).dtype;
  Node* x = call.tensor(0);
  Node* ones = call.call("ones_like.default", {x}, "dtype", dtype);
  call.set(call.call("tril.default", {call.call("triu.default", {ones, k}), k}));
}

// The sizes that a run computes, where 0 stands for the size that an axis has already.
std::vector<SymInt> computed_sizes(OnnxCall& call) {
  const SymShape& shape = call.meta(1).sizes;
  const auto count = shape.size() == 1 ? shape[0].constant() : std::nullopt;
  constexpr int64_t kMost = 64;
  if (!count || *count > kMost) call.refuse("gets a shape of ", to_string(shape), " numbers, which is computed");
  Node* given = cast_to(call, call.tensor(1), DType::kS64);
  std::vector<SymInt> out;
  for (int64_t i = 0; i < *count; ++i) {
    Node* size = call.call("select.int", {given, 0, i});
    if (i < static_cast<int64_t>(call.rank(0)) && call.integer("allowzero", 0) == 0) {
      Node* copies = call.call("eq.Scalar", {size, 0});
      const Argument own = as_argument(call, size_along(call, call.tensor(0), i));
      size = call.call("where.ScalarSelf", {copies, own, size});
    }
    out.push_back(as_size(call, size));
  }
  return out;
}

void reshape(OnnxCall& call) {
  const bool is_computed = !call.is_sizes(1) && !call.is_constant(1);
  std::vector<SymInt> sizes = is_computed ? computed_sizes(call) : call.sizes(1);
  const SymShape& from = call.meta(0).sizes;
  size_t open = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == SymInt(0) && call.integer("allowzero", 0) == 0) {
      if (i >= from.size()) call.refuse("copies the size of axis ", i, ", its input has ", from.size());
      sizes[i] = from[i];
      if (!sizes[i].is_constant()) call.import().know_size(sizes[i], call.tensor(0), static_cast<int64_t>(i));
    }
    if (!sizes[i].is_constant() || sizes[i] == SymInt(-1)) ++open;
  }
  Argument::List arguments;
  for (const SymInt& size : sizes)
    arguments.push_back(open == 1 && !size.is_constant() ? Argument(-1) : call.import().size_argument(size));
  call.set(call.call("reshape.default", {call.tensor(0), Argument(std::move(arguments))}));
}

void flatten(OnnxCall& call) {
  const size_t rank = call.rank(0);
  const int64_t given = call.integer("axis", 1);
  const int64_t axis = given < 0 ? given + static_cast<int64_t>(rank) : given;
  if (axis < 0 || axis > static_cast<int64_t>(rank))
    call.refuse("has the axis ", given, " for an input of ", rank, " axes");
  if (axis == 1 && rank > 1) return call.set(call.call("flatten.using_ints", {call.tensor(0), 1}));
  const auto reshaped = [&](int64_t rows, int64_t columns) {
    return call.call("reshape.default", {call.tensor(0), Argument(Argument::List{rows, columns})});
  };
  if (axis == 0) return call.set(reshaped(1, -1));
  if (axis == static_cast<int64_t>(rank)) return call.set(reshaped(-1, 1));
  // Axes before it become one, and those behind it.
  Node* behind =
      axis + 1 < static_cast<int64_t>(rank) ? call.call("flatten.using_ints", {call.tensor(0), axis}) : call.tensor(0);
  call.set(call.call("flatten.using_ints", {behind, 0, axis - 1}));
}

void transpose(OnnxCall& call) {
  const auto rank = static_cast<int64_t>(call.rank(0));
  std::vector<int64_t> axes;
  for (int64_t i = rank; i-- > 0;) axes.push_back(i);
  axes = call.integers("perm", axes);
  std::vector<int64_t> moved;
  for (int64_t i = 0; i < static_cast<int64_t>(axes.size()); ++i)
    if (axes[static_cast<size_t>(i)] != i) moved.push_back(i);
  if (moved.empty()) return call.same_as_input(0);
  if (moved.size() == 2 && static_cast<int64_t>(axes.size()) == rank)
    return call.set(call.call("transpose.int", {call.tensor(0), moved[0], moved[1]}));
  call.set(call.call("permute.default", {call.tensor(0), OnnxCall::list(axes)}));
}

// Axes are an attribute before opset 13. Without them all go that have the size 1, or at most that; another open size
// is taken for a larger one.
void squeeze(OnnxCall& call) {
  auto axes = call.axes(1, call.rank(0));
  if (!axes) {
    axes.emplace();
    const SymShape& sizes = call.meta(0).sizes;
    for (size_t i = 0; i < sizes.size(); ++i)
      if (sizes[i] == SymInt(1) || is_at_most(1, sizes[i])) axes->push_back(static_cast<int64_t>(i));
    if (sizes == SymShape(sizes.size(), SymInt(1))) return call.set(call.call("squeeze.default", {call.tensor(0)}));
  }
  if (axes->empty()) return call.same_as_input(0);
  // An axis that is named goes. Where its size is open, only a reshape removes it, which refuses another size than 1.
  const SymShape& sizes = call.meta(0).sizes;
  const auto is_named = [&](size_t axis) {
    return std::find(axes->begin(), axes->end(), static_cast<int64_t>(axis)) != axes->end();
  };
  Argument::List others;
  bool has_open = false;
  for (size_t axis = 0; axis < sizes.size(); ++axis) {
    if (is_named(axis)) {
      const std::optional<int64_t> size = sizes[axis].constant();
      if (size.value_or(1) != 1) call.refuse("removes axis ", axis, ", whose size is ", *size, ", wanted 1");
      has_open |= !size;
    } else {
      others.push_back(call.import().size_argument(sizes[axis]));
    }
  }
  if (has_open) return call.set(call.call("reshape.default", {call.tensor(0), Argument(std::move(others))}));
  if (axes->size() == 1) return call.set(call.call("squeeze.dim", {call.tensor(0), axes->front()}));
  call.set(call.call("squeeze.dims", {call.tensor(0), OnnxCall::list(*axes)}));
}

void unsqueeze(OnnxCall& call) {
  Node* out = call.tensor(0);
  std::vector<int64_t> axes = call.has(1) ? call.integers(1) : call.integers("axes", {});
  for (int64_t& axis : axes) axis = call.axis(axis, call.rank(0) + axes.size());
  sort_stably(axes);
  const auto twice = std::adjacent_find(axes.begin(), axes.end());
  if (twice != axes.end()) call.refuse("adds axis ", *twice, " twice");
  for (const int64_t axis : axes) out = call.call("unsqueeze.default", {out, axis});
  if (axes.empty()) return call.same_as_input(0);
  call.set(out);
}

// Where two open sizes meet, a run tells which of them is 1: x is broadcast with a tensor of the given sizes.
void expand_both(OnnxCall& call, const std::vector<SymInt>& wanted, const std::vector<size_t>& unknown) {
  Node* given = call.call("full.default", {call.list(wanted), true}, "dtype", DType::kBool);
  Node* out = call.call("where.self", {given, call.tensor(0), call.tensor(0)});
  TensorMeta meta = *out->meta.val.tensor();
  for (const size_t axis : unknown) {
    meta.sizes[axis] = call.import().fresh_symbol();
    call.import().know_size(meta.sizes[axis], out, static_cast<int64_t>(axis));
  }
  out->meta.val.value = std::move(meta);
  call.set(out);
}

// Sizes of 1 on either side stretch to the other's.
void expand(OnnxCall& call) {
  const std::vector<SymInt> wanted = call.sizes(1);
  const SymShape& from = call.meta(0).sizes;
  const size_t rank = std::max(wanted.size(), from.size());
  Argument::List sizes;
  std::vector<size_t> unknown;
  for (size_t i = 0; i < rank; ++i) {
    const SymInt own = i + from.size() < rank ? SymInt(1) : from[i + from.size() - rank];
    const SymInt given = i + wanted.size() < rank ? SymInt(1) : wanted[i + wanted.size() - rank];
    // What a run computes can only be 1 or the own size, unless that is 1.
    const bool is_own =
        given == SymInt(1) || given == own || (!given.is_constant() && own.is_constant() && !(own == SymInt(1)));
    if (!is_own && !given.is_constant() && !own.is_constant()) unknown.push_back(i);
    sizes.push_back(i + from.size() >= rank && is_own ? Argument(-1) : call.import().size_argument(given));
  }
  if (!unknown.empty()) return expand_both(call, wanted, unknown);
  call.set(call.call("expand.default", {call.tensor(0), Argument(std::move(sizes))}));
}

void tile(OnnxCall& call) { call.set(call.call("repeat.default", {call.tensor(0), call.list(call.sizes(1))})); }

// A number of the input, or of the attribute before opset 11; a tensor if it is computed.
Argument pad_value(OnnxCall& call) {
  if (!call.has(2)) return call.real("value", 0);
  if (!call.is_constant(2)) return call.tensor(2);
  return call.number(2);
}

// Elements of an axis by places that repeat or mirror it.
Node* padded_by_places(OnnxCall& call, Node* x, int64_t axis, int64_t size, int64_t before, int64_t after,
                       std::string_view mode) {
  constexpr int64_t kMost = int64_t{1} << 24;
  if (size < 1 || before > kMost || after > kMost || size > kMost)
    call.refuse("pads an axis of size ", size, " by ", before, " and ", after, " in the mode ", mode);
  std::vector<int64_t> places;
  for (int64_t i = -before; i < size + after; ++i) {
    const int64_t period = mode == "reflect" ? std::max<int64_t>(1, 2 * size - 2) : size;
    const int64_t at = ((i % period) + period) % period;
    places.push_back(mode == "edge" ? std::clamp<int64_t>(i, 0, size - 1) : at < size ? at : period - at);
  }
  return call.call("index_select.default", {x, axis, constant_vector(call, places)});
}

// Pads are an attribute before opset 11. Negative ones cut.
void pad(OnnxCall& call) {
  static constexpr std::pair<std::string_view, const char*> kModes[] = {
      {"constant", "constant"}, {"reflect", "reflect"}, {"edge", "replicate"}, {"wrap", "circular"}};
  const std::string mode = call.text("mode", "constant");
  const auto known = std::find_if(std::begin(kModes), std::end(kModes), [&](const auto& m) { return m.first == mode; });
  if (known == std::end(kModes)) call.refuse("pads in the mode ", mode, ", wanted constant, reflect, edge or wrap");
  std::vector<SymInt> pads;
  if (call.has(1)) pads = call.sizes(1);
  else
    for (const int64_t each : call.integers(call.attribute("pads") ? "pads" : "paddings", {})) pads.emplace_back(each);
  const size_t rank = call.rank(0);
  std::vector<int64_t> axes;
  for (size_t i = 0; i < rank; ++i) axes.push_back(static_cast<int64_t>(i));
  if (call.has(3)) axes = *call.axes(3, rank);
  if (pads.size() != 2 * axes.size()) call.refuse("has ", pads.size(), " pads for ", axes.size(), " axes");
  Node* x = call.tensor(0);
  // PyTorch counts from the last axis, and only as far as it pads.
  std::vector<SymInt> reversed(2 * rank, SymInt(0));
  for (size_t i = 0; i < axes.size(); ++i) {
    const size_t from_last = rank - 1 - static_cast<size_t>(axes[i]);
    const SymInt size = call.extent(call.tensor(0), static_cast<size_t>(axes[i]));
    SymInt before = pads[i], after = pads[i + axes.size()];
    const auto first = before.constant(), last = after.constant();
    if (mode != "constant") {
      if (!first || !last) call.refuse("pads by computed numbers in the mode ", mode);
      // Cut first, then pad; beyond the axis itself the pattern goes on.
      if (*first < 0 || *last < 0)
        x = sliced(call, x, axes[i], -std::clamp<int64_t>(*first, -INT64_MAX, 0),
                   *last < 0 ? SymInt(*last) : SymInt(INT64_MAX), 1);
      before = std::max<int64_t>(0, *first);
      after = std::max<int64_t>(0, *last);
      const auto extent = call.extent(x, static_cast<size_t>(axes[i])).constant();
      const int64_t widest = std::max(*before.constant(), *after.constant());
      if (extent && (mode == "reflect" ? widest >= *extent : mode == "wrap" && widest > *extent) && widest > 0) {
        x = padded_by_places(call, x, axes[i], *extent, *before.constant(), *after.constant(), mode);
        before = after = 0;
      }
    }
    reversed[2 * from_last] = before;
    reversed[2 * from_last + 1] = after;
  }
  while (!reversed.empty() && reversed.back() == SymInt(0) && reversed[reversed.size() - 2] == SymInt(0))
    reversed.resize(reversed.size() - 2);
  if (reversed.empty()) return x == call.tensor(0) ? call.same_as_input(0) : call.set(x);
  const Argument amounts = call.list(reversed);
  const Argument value = mode == "constant" ? pad_value(call) : Argument();
  if (value.is_node()) {  // where the padding lies, the value
    Node* inside = call.call("ones_like.default", {x}, "dtype", DType::kBool);
    Node* is_inside = call.call("pad.default", {inside, amounts});
    Node* number = call.call("reshape.default", {value, Argument(Argument::List{})});
    return call.set(call.call("where.self", {is_inside, call.call("pad.default", {x, amounts}), number}));
  }
  const bool is_zero = value.is_none() || value == Argument(0.0);
  if (is_zero) call.set(call.call("pad.default", {x, amounts, known->second}));
  else call.set(call.call("pad.default", {x, amounts, known->second, value}));
}

void constant(OnnxCall& call) {
  for (const char* name : {"value", "sparse_value"})
    if (const auto* value = call.attribute(name); value && value->t.defined()) {
      if (value->has_four_bits) call.set_four_bits();
      return call.set(value->t);
    }
  if (const auto* value = call.attribute("value_float")) return call.set(Tensor::scalar(value->f));
  if (const auto* value = call.attribute("value_int")) return call.set(Tensor::scalar(value->i));
  if (const auto* value = call.attribute("value_floats"))
    return call.set(
        Tensor::of<float>({static_cast<int64_t>(value->floats.size())}, std::span<const float>(value->floats)));
  if (const auto* value = call.attribute("value_ints"))
    return call.set(
        Tensor::of<int64_t>({static_cast<int64_t>(value->ints.size())}, std::span<const int64_t>(value->ints)));
  if (const auto* value = call.attribute("value_string")) return call.set(string_tensor({}, {&value->s, 1}));
  if (const auto* value = call.attribute("value_strings")) return call.set(string_vector(value->strings));
  call.refuse("has a value that is not a tensor");
}

void constant_of_shape(OnnxCall& call) {
  const auto* value = call.attribute("value");
  const Tensor fill = value && value->kind == OnnxKind::kTensor ? value->t : Tensor::scalar(0.0f);
  if (fill.numel() != 1) call.refuse("has a value of ", fill.numel(), " elements, wanted one");
  const std::vector<SymInt> sizes = call.sizes(0);
  constexpr int64_t kSmall = 64;  // a shape in the making
  if (sizes.size() == 1 && sizes[0].constant() && *sizes[0].constant() >= 0 && *sizes[0].constant() <= kSmall) {
    Tensor out = Tensor::empty({*sizes[0].constant()}, fill.dtype());
    out.copy_from(fill);
    return call.set(std::move(out));
  }
  const Argument number = is_floating(fill.dtype()) ? Argument(fill.item()) : Argument(fill.item_int());
  call.set(call.call("full.default", {call.list(sizes), number}, "dtype", fill.dtype()));
}

// ceil((limit - start) / delta) numbers, none if that is negative.
void range(OnnxCall& call) {
  const DType dtype = call.meta(0).dtype;
  const bool is_float = is_floating(dtype);
  const auto known = [&](size_t i) { return call.is_constant(i); };
  if (known(0) && known(1) && known(2)) {
    const double start = call.number(0), limit = call.number(1), delta = call.number(2);
    if (delta == 0) call.refuse("goes in steps of 0");
    if ((limit - start) / delta <= 0) return call.set(Tensor::empty({0}, dtype));
    if (is_float) return call.set(call.call("arange.start_step", {start, limit, delta}, "dtype", dtype));
  }
  const bool is_computed = !known(0) || !known(1) || !known(2);
  if (is_computed && (is_float || !known(2) || !(call.is_sizes(0) || known(0)) || !(call.is_sizes(1) || known(1)))) {
    const auto wide = [&](size_t i) { return cast_to(call, call.tensor(i), DType::kF64); };
    Node* distance = call.call("sub.Tensor", {wide(1), wide(0)});
    Node* count = call.call("ceil.default", {call.call("div.Tensor", {distance, wide(2)})});
    count = call.call("reshape.default", {call.call("clamp.default", {count, 0}), Argument(Argument::List{})});
    Node* places = cast_to(call, count_up(call, as_size(call, count)), dtype);
    Node* steps = call.call("mul.Tensor", {places, call.tensor(2)});
    return call.set(cast_to(call, call.call("add.Tensor", {steps, call.tensor(0)}), dtype));
  }
  std::vector<Argument> args;
  for (size_t i = 0; i < 3; ++i) args.push_back(as_argument(call, call.size(i)));
  call.set(call.call("arange.start_step", args, "dtype", dtype));
}

void trilu(OnnxCall& call) {
  const bool upper = call.integer("upper", 1) != 0;
  Node* x = call.tensor(0);
  const auto rank = static_cast<int64_t>(call.rank(0));
  if (rank < 2) call.refuse("has an input of ", rank, " axes, wanted 2 at least");
  if (!call.has(1) || call.is_constant(1))
    return call.set(call.call(upper ? "triu.default" : "tril.default", {x, call.has(1) ? call.whole_number(1) : 0}));
  // A diagonal that is computed: how far each element lies to the right of the main one, beside it.
  Node* rows = along_axis(call, count_up(call, size_along(call, x, rank - 2)), 0, 2);
  Node* distance = call.call("sub.Tensor", {count_up(call, size_along(call, x, rank - 1)), rows});
  Node* keeps = call.call(upper ? "ge.Tensor" : "le.Tensor", {distance, call.tensor(1)});
  call.set(call.call("where.self", {keeps, x, call.call("zeros_like.default", {x})}));
}

void shape(OnnxCall& call) {
  const SymShape& all = call.meta(0).sizes;
  const auto rank = static_cast<int64_t>(all.size());
  const auto bound = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank); };
  const int64_t start = bound(call.integer("start", 0)), end = bound(call.integer("end", rank));
  for (int64_t i = start; i < end; ++i) call.import().know_size(all[static_cast<size_t>(i)], call.tensor(0), i);
  call.set(start < end ? std::vector<SymInt>(all.begin() + start, all.begin() + end) : std::vector<SymInt>(), true);
}

void size(OnnxCall& call) {
  SymInt count = 1;
  for (size_t i = 0; i < call.rank(0); ++i)
    count = multiply_sizes(call, count, size_along(call, call.tensor(0), static_cast<int64_t>(i)));
  call.set({count}, false);
}

constexpr OnnxOperator kViewOperators[] = {
    {"Concat", concat_values, nullptr},
    {"Constant", constant, nullptr},
    {"ConstantOfShape", constant_of_shape, nullptr},
    {"DynamicSlice", slice, nullptr},
    {"Expand", expand, nullptr},
    {"EyeLike", eye_like, nullptr},
    {"Flatten", flatten, nullptr},
    {"Identity", identity, nullptr},
    {"Pad", pad, nullptr},
    {"Range", range, nullptr},
    {"Reshape", reshape, nullptr},
    {"Shape", shape, nullptr},
    {"Size", size, nullptr},
    {"Slice", slice, nullptr},
    {"Split", split, nullptr},
    {"Squeeze", squeeze, nullptr},
    {"Tile", tile, nullptr},
    {"Transpose", transpose, nullptr},
    {"Trilu", trilu, nullptr},
    {"Unsqueeze", unsqueeze, nullptr},
};

}  // namespace

std::span<const OnnxOperator> onnx_view_operators() { return kViewOperators; }

}  // namespace qdq
