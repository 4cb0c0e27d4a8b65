// ONNX operators that make, place and choose elements: constants, sizes, reshapes, slices, gathers, padding.
#include <algorithm>

#include "io/onnx/import.h"

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

void split(OnnxCall& call) {
  const int64_t axis = call.axis(call.integer("axis", 0), call.rank(0));
  std::vector<int64_t> parts;
  if (call.has(1)) {
    parts = call.integers(1);
  } else {
    const auto size = call.meta(0).sizes[static_cast<size_t>(axis)].constant();
    if (!size) call.refuse("divides an axis whose size is open");
    const auto count = static_cast<int64_t>(call.num_outputs());
    const int64_t each = count == 0 ? 0 : *size / count + (*size % count != 0);
    int64_t rest = *size;
    for (int64_t i = 0; i < count; ++i, rest -= parts.back()) parts.push_back(std::min(rest, each));
  }
  if (parts.size() != call.num_outputs())
    call.refuse("has ", call.num_outputs(), " outputs for ", parts.size(), " parts");
  Node* all = call.call("split_with_sizes.default", {call.tensor(0), OnnxCall::list(parts), axis});
  for (size_t i = 0; i < parts.size(); ++i) call.set(call.call("operator.getitem", {all, static_cast<int64_t>(i)}), i);
}

void slice(OnnxCall& call) {
  const size_t rank = call.rank(0);
  const std::vector<SymInt> starts = call.sizes(1), ends = call.sizes(2);
  std::vector<int64_t> axes, steps(starts.size(), 1);
  for (size_t i = 0; i < starts.size(); ++i) axes.push_back(static_cast<int64_t>(i));
  if (call.has(3)) axes = call.integers(3);
  if (call.has(4)) steps = call.integers(4);
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size())
    call.refuse("has starts, ends, axes or steps of different number");
  Node* out = call.tensor(0);
  for (size_t i = 0; i < starts.size(); ++i) {
    const int64_t axis = call.axis(axes[i], rank);
    const auto start = starts[i].constant(), end = ends[i].constant();
    if (steps[i] == -1 && start == -1 && end && *end <= -(int64_t{1} << 31)) {
      out = call.call("flip.default", {out, Argument(Argument::List{axis})});
      continue;
    }
    if (steps[i] < 1) call.refuse("has the step ", steps[i], ", wanted a positive one or a whole axis backwards");
    const Argument to =
        end && *end >= (int64_t{1} << 31) - 1 ? Argument(INT64_MAX) : call.import().size_argument(ends[i]);
    out = call.call("slice.Tensor", {out, axis, call.import().size_argument(starts[i]), to, steps[i]});
  }
  call.set(out);
}

void gather(OnnxCall& call) {
  const int64_t axis = call.axis(call.integer("axis", 0), call.rank(0));
  Node *data = call.tensor(0), *index = call.tensor(1);
  const Tensor known = call.constant(1);
  if (known.defined() && known.dim() == 0) return call.set(call.call("select.int", {data, axis, known.item_int()}));
  if (axis == 0 && call.rank(0) == 2 && call.is_constant(0) && !known.defined())
    return call.set(call.call("embedding.default", {data, index}));
  Argument::List indices(static_cast<size_t>(axis));
  indices.emplace_back(index);
  call.set(call.call("index.Tensor", {data, Argument(std::move(indices))}));
}

void gather_elements(OnnxCall& call) {
  call.set(
      call.call("gather.default", {call.tensor(0), call.axis(call.integer("axis", 0), call.rank(0)), call.tensor(1)}));
}

void reshape(OnnxCall& call) {
  std::vector<SymInt> sizes = call.sizes(1);
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
  // Axes before it become one, and those behind it.
  Argument::List sizes = {-1, 1};
  if (axis == 0) std::swap(sizes[0], sizes[1]);
  SymInt inner = 1;
  for (size_t i = static_cast<size_t>(axis); i < rank; ++i) inner = inner * call.meta(0).sizes[i];
  if (axis > 0 && !inner.is_constant()) call.refuse("joins axes of open size");
  if (axis > 0) sizes[1] = *inner.constant();
  call.set(call.call("reshape.default", {call.tensor(0), Argument(std::move(sizes))}));
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

void squeeze(OnnxCall& call) {
  const auto axes = call.axes(1, call.rank(0));
  if (!axes) return call.set(call.call("squeeze.default", {call.tensor(0)}));
  if (axes->size() == 1) return call.set(call.call("squeeze.dim", {call.tensor(0), axes->front()}));
  call.set(call.call("squeeze.dims", {call.tensor(0), OnnxCall::list(*axes)}));
}

void unsqueeze(OnnxCall& call) {
  Node* out = call.tensor(0);
  std::vector<int64_t> axes = call.integers(1);
  for (int64_t& axis : axes) axis = call.axis(axis, call.rank(0) + axes.size());
  std::sort(axes.begin(), axes.end());
  for (const int64_t axis : axes) out = call.call("unsqueeze.default", {out, axis});
  call.set(out);
}

// Sizes of 1 on either side stretch to the other's.
void expand(OnnxCall& call) {
  const std::vector<SymInt> wanted = call.sizes(1);
  const SymShape& from = call.meta(0).sizes;
  const size_t rank = std::max(wanted.size(), from.size());
  Argument::List sizes;
  for (size_t i = 0; i < rank; ++i) {
    const SymInt own = i + from.size() < rank ? SymInt(1) : from[i + from.size() - rank];
    const SymInt given = i + wanted.size() < rank ? SymInt(1) : wanted[i + wanted.size() - rank];
    sizes.push_back(i + from.size() >= rank && (given == SymInt(1) || given == own)
                        ? Argument(-1)
                        : call.import().size_argument(given));
  }
  call.set(call.call("expand.default", {call.tensor(0), Argument(std::move(sizes))}));
}

void tile(OnnxCall& call) { call.set(call.call("repeat.default", {call.tensor(0), call.list(call.sizes(1))})); }

void pad(OnnxCall& call) {
  static constexpr std::pair<std::string_view, const char*> kModes[] = {
      {"constant", "constant"}, {"reflect", "reflect"}, {"edge", "replicate"}};
  const std::string mode = call.text("mode", "constant");
  const auto known = std::find_if(std::begin(kModes), std::end(kModes), [&](const auto& m) { return m.first == mode; });
  if (known == std::end(kModes)) call.refuse("pads in the mode ", mode, ", wanted constant, reflect or edge");
  const std::vector<int64_t> pads = call.integers(1);
  const size_t rank = call.rank(0);
  std::vector<int64_t> axes;
  for (size_t i = 0; i < rank; ++i) axes.push_back(static_cast<int64_t>(i));
  if (call.has(3)) axes = *call.axes(3, rank);
  if (pads.size() != 2 * axes.size()) call.refuse("has ", pads.size(), " pads for ", axes.size(), " axes");
  // PyTorch counts from the last axis, and only as far as it pads.
  std::vector<int64_t> reversed(2 * rank, 0);
  for (size_t i = 0; i < axes.size(); ++i) {
    const size_t from_last = rank - 1 - static_cast<size_t>(axes[i]);
    reversed[2 * from_last] = pads[i];
    reversed[2 * from_last + 1] = pads[i + axes.size()];
  }
  while (!reversed.empty() && reversed.back() == 0 && reversed[reversed.size() - 2] == 0)
    reversed.resize(reversed.size() - 2);
  if (reversed.empty()) return call.same_as_input(0);
  std::vector<Argument> args = {call.tensor(0), OnnxCall::list(reversed), Argument(known->second)};
  if (call.has(2) && mode == "constant") args.emplace_back(call.number(2));
  call.set(call.call("pad.default", args));
}

void constant(OnnxCall& call) {
  if (const auto* value = call.attribute("value"); value && value->kind == OnnxKind::kTensor) return call.set(value->t);
  if (const auto* value = call.attribute("value_float")) return call.set(Tensor::scalar(value->f));
  if (const auto* value = call.attribute("value_int")) return call.set(Tensor::scalar(value->i));
  if (const auto* value = call.attribute("value_floats"))
    return call.set(
        Tensor::of<float>({static_cast<int64_t>(value->floats.size())}, std::span<const float>(value->floats)));
  if (const auto* value = call.attribute("value_ints"))
    return call.set(
        Tensor::of<int64_t>({static_cast<int64_t>(value->ints.size())}, std::span<const int64_t>(value->ints)));
  call.refuse("has a value that is no dense tensor of numbers");
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

void range(OnnxCall& call) {
  if (is_floating(call.meta(0).dtype)) {
    call.set(
        call.call("arange.start_step", {call.number(0), call.number(1), call.number(2)}, "dtype", call.meta(0).dtype));
    return;
  }
  std::vector<Argument> args;
  for (size_t i = 0; i < 3; ++i) args.push_back(call.import().size_argument(call.size(i)));
  call.set(call.call("arange.start_step", args, "dtype", DType::kS64));
}

void trilu(OnnxCall& call) {
  const int64_t diagonal = call.has(1) ? call.whole_number(1) : 0;
  call.set(call.call(call.integer("upper", 1) ? "triu.default" : "tril.default", {call.tensor(0), diagonal}));
}

void shape(OnnxCall& call) {
  const SymShape& all = call.meta(0).sizes;
  const auto rank = static_cast<int64_t>(all.size());
  const auto bound = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank); };
  const int64_t start = bound(call.integer("start", 0)), end = bound(call.integer("end", rank));
  for (int64_t i = start; i < end; ++i) call.import().know_size(all[static_cast<size_t>(i)], call.tensor(0), i);
  call.set(start < end ? std::vector<SymInt>(all.begin() + start, all.begin() + end) : std::vector<SymInt>(), true);
}

constexpr OnnxOperator kOperators[] = {
    {"Concat", concat_values, nullptr},
    {"Constant", constant, nullptr},
    {"ConstantOfShape", constant_of_shape, nullptr},
    {"Expand", expand, nullptr},
    {"Flatten", flatten, nullptr},
    {"Gather", gather, nullptr},
    {"GatherElements", gather_elements, nullptr},
    {"Identity", identity, nullptr},
    {"Pad", pad, nullptr},
    {"Range", range, nullptr},
    {"Reshape", reshape, nullptr},
    {"Shape", shape, nullptr},
    {"Slice", slice, nullptr},
    {"Split", split, nullptr},
    {"Squeeze", squeeze, nullptr},
    {"Tile", tile, nullptr},
    {"Transpose", transpose, nullptr},
    {"Trilu", trilu, nullptr},
    {"Unsqueeze", unsqueeze, nullptr},
};

}  // namespace

std::span<const OnnxOperator> onnx_view_operators() { return kOperators; }

}  // namespace qdq
