#include "recover/channel_axes.h"

#include <algorithm>
#include <numeric>

#include "base/stable_sort.h"
#include "op/facts.h"
#include "op/targets.h"
#include "quant/layers.h"

namespace qdq {

namespace {

// Whether the axes in front of `end`, the last one first, bring a product to another one.
bool comes_to(SymInt product, const SymShape& sizes, size_t end, const SymInt& wanted) {
  while (end > 0 && !(product == wanted)) product = product * sizes[--end];
  return product == wanted;
}

// The innermost axes of `from` and `to` that have as many elements; `i` and `j`, the numbers of axes that are left,
// move in front of them. False if there are none.
bool pass_equal_axes(const SymShape& from, size_t& i, const SymShape& to, size_t& j) {
  if (j > 0 && to[j - 1] == SymInt(1)) {
    --j;
    return true;
  }
  SymInt before = from[--i];
  if (before == SymInt(1)) return true;
  if (j == 0) return false;
  SymInt behind = to[--j];
  while (!(before == behind)) {
    const auto x = before.constant(), y = behind.constant();
    const bool grows_before = x && y ? *x < *y : comes_to(before, from, i, behind);
    if ((grows_before ? i : j) == 0) return false;
    if (grows_before) before = before * from[--i];
    else behind = behind * to[--j];
  }
  return true;
}

bool has_axis(const Axes& axes, size_t axis) {
  return std::count(axes.begin(), axes.end(), static_cast<int64_t>(axis)) != 0;
}

// The same channels where they lie along more axes, too, along which their names repeat. Nothing if a size is open.
std::optional<Channels> spread(const Channels& channels, const Axes& along, const SymShape& sizes) {
  Channels out{along, {0}};
  int64_t stride = 1;
  for (size_t i = along.size(); i-- > 0;) {  // first the numbers of the names, the innermost axis first
    const auto size = sizes[static_cast<size_t>(along[i])].constant();
    if (!size) return std::nullopt;
    const int64_t step = has_axis(channels.axes, static_cast<size_t>(along[i])) ? stride : 0;
    std::vector<int64_t> numbers;
    for (int64_t k = 0; k < *size; ++k)
      for (const int64_t number : out.names) numbers.push_back(number + k * step);
    out.names = std::move(numbers);
    if (step != 0) stride *= *size;
  }
  if (stride != std::ssize(channels.names)) return std::nullopt;
  for (int64_t& name : out.names) name = channels.names[static_cast<size_t>(name)];
  return out;
}

// The channels behind a reshaping. Where it joins or cuts their axes together with others, they lie along these, too.
std::optional<Channels> channels_behind_reshape(const SymShape& from, const Channels& channels, const SymShape& to) {
  Axes before = channels.axes, behind;
  size_t i = from.size(), j = to.size();
  while (i > static_cast<size_t>(channels.axes.front())) {
    const size_t end = i, end_behind = j;
    if (!pass_equal_axes(from, i, to, j)) return std::nullopt;
    bool has_channels = false;
    for (size_t axis = i; axis < end; ++axis) has_channels = has_channels || has_axis(channels.axes, axis);
    if (!has_channels) continue;
    for (size_t axis = i; axis < end; ++axis)
      if (!has_axis(before, axis)) before.push_back(static_cast<int64_t>(axis));
    for (size_t axis = j; axis < end_behind; ++axis) behind.push_back(static_cast<int64_t>(axis));
  }
  sort_stably(before);
  sort_stably(behind);
  if (behind.empty()) return std::nullopt;
  auto out = spread(channels, before, from);
  if (out) out->axes = std::move(behind);
  return out;
}

// The axes that those of `value` have in a product or in attention that weighs its rows.
std::optional<Axes> axes_behind_weighing(const Node& node, const Node& value, const Axes& axes) {
  const bool attends = is_form_of(node, op::kAttention);
  const size_t operand = attends ? 2 : 1;
  if (node.args().size() <= operand || node.arg(operand).node() != &value) return std::nullopt;
  for (size_t i = 0; i < operand; ++i)
    if (node.arg(i).node() == &value) return std::nullopt;
  const std::string& name = op_of(node)->schema->arguments[1].name;
  if (!attends && name != "other" && name != "mat2") return std::nullopt;
  const SymShape &from = value.meta.val.tensor()->sizes, &to = node.meta.val.tensor()->sizes;
  const bool fits =
      from.size() == to.size() && from.size() >= 2 && std::all_of(axes.begin(), axes.end(), [&](int64_t axis) {
        const auto at = static_cast<size_t>(axis);
        return at + 2 != from.size() && from[at] == to[at];
      });
  return fits ? std::optional(axes) : std::nullopt;
}

// The axis of its input that each axis of a permutation is.
std::vector<int64_t> order_of(const Node& node, int64_t rank) {
  std::vector<int64_t> order;
  const auto axis_in = [&](const Argument& argument) {
    const int64_t axis = argument.integer().value_or(0);
    return axis < 0 ? axis + rank : axis;
  };
  if (is_form_of(node, op::kTranspose)) {
    order.resize(static_cast<size_t>(rank));
    std::iota(order.begin(), order.end(), 0);
    std::swap(order.at(static_cast<size_t>(axis_in(argument_of(node, 1)))),
              order.at(static_cast<size_t>(axis_in(argument_of(node, 2)))));
  } else if (argument_of(node, 1).is_list()) {
    for (const Argument& axis : argument_of(node, 1).list()) order.push_back(axis_in(axis));
  }
  return order;
}

std::optional<Axes> axes_behind_permutation(const Node& node, const Axes& axes, int64_t rank) {
  const std::vector<int64_t> order = order_of(node, rank);
  Axes out;
  for (const int64_t axis : axes) {
    const auto found = std::find(order.begin(), order.end(), axis);
    if (found == order.end()) return std::nullopt;
    out.push_back(found - order.begin());
  }
  return out;
}

bool is_reshape(const Node& node) {
  for (const std::string_view target : {op::kFlatten, op::kReshape, op::kView, op::kUnsafeView})
    if (is_form_of(node, target)) return true;
  const std::string_view name = name_of(node);
  return name == "unsqueeze" || name == "squeeze" || name == "unflatten";
}
bool is_permutation(const Node& node) { return is_form_of(node, op::kTranspose) || is_form_of(node, op::kPermute); }

bool pads_zeros_behind(const Node& node, int64_t axis, int64_t rank) {
  const Argument& pad = argument_of(node, 1);
  if (!pad.is_list() || rank - static_cast<int64_t>(pad.list().size() / 2) <= axis) return false;
  // Others than constants are values of the tensor; only aten.pad says by a word which of both it takes.
  const Schema& schema = *op_of(node)->schema;
  if (schema.index_of("mode") && !(argument_called(node, "mode") == Argument("constant"))) return true;
  if (!schema.index_of("value")) return true;
  const Argument& value = argument_called(node, "value");
  return value.is_none() || value.number() == 0.0;
}

// The axes that an argument names, from the front; none if it names all of them by none.
std::vector<int64_t> axes_along(const Argument& argument, int64_t rank) {
  std::vector<int64_t> out;
  if (!argument.is_list()) return out;
  for (const Argument& axis : argument.list()) {
    const int64_t at = axis.integer().value_or(0);
    out.push_back(at < 0 ? at + rank : at);
  }
  return out;
}

bool spares(const std::vector<int64_t>& along, const Axes& axes) {
  return !along.empty() && std::none_of(axes.begin(), axes.end(), [&](int64_t axis) {
    return std::count(along.begin(), along.end(), axis) != 0;
  });
}

// Behind a mean or the largest values over other axes.
std::optional<Axes> axes_behind_reduction(const Node& node, const Axes& axes, int64_t rank) {
  const std::vector<int64_t> along = axes_along(argument_of(node, 1), rank);
  if (!spares(along, axes)) return std::nullopt;
  if (argument_called(node, "keepdim") == Argument(true)) return axes;
  Axes out;
  for (const int64_t axis : axes)
    out.push_back(axis - std::count_if(along.begin(), along.end(), [&](int64_t other) { return other < axis; }));
  return out;
}

// If f(s x) = s f(x) for s > 0, channel by channel, as long as x and s x lie within `clamps`, which are narrowed: the
// axes that the channels have in f(x).
std::optional<Axes> axes_behind(const Node& node, const Node& x, const Axes& axes, FloatRange& clamps) {
  const TensorMeta *from = x.meta.val.tensor(), *to = node.meta.val.tensor();
  if (from == nullptr || to == nullptr || op_of(node) == nullptr) return std::nullopt;
  if (is_a(node, Family::kMatmul) || is_form_of(node, op::kAttention)) return axes_behind_weighing(node, x, axes);
  if (node.args().empty() || node.arg(0).node() != &x) return std::nullopt;
  const int64_t axis = axes.size() == 1 ? axes[0] : -1;
  const auto if_passes = [&](bool passes) { return passes ? std::optional(axes) : std::nullopt; };
  const auto rank = static_cast<int64_t>(from->sizes.size());
  if (is_a(node, Family::kDropout) || is_a(node, Family::kCopy)) return axes;
  if (is_a(node, Family::kMaxPool) || is_a(node, Family::kAveragePool)) return if_passes(axis == 1);
  if (is_a(node, Family::kPad)) return if_passes(axis >= 0 && pads_zeros_behind(node, axis, rank));
  if (is_a(node, Family::kResize))
    return if_passes(axis == 1 && name_of(node).find("upsample") != std::string_view::npos);
  if (is_form_of(node, op::kPrelu) || name_of(node) == "neg") return axes;
  if (is_permutation(node)) return axes_behind_permutation(node, axes, rank);
  if (name_of(node) == "roll" || name_of(node) == "flip")
    return if_passes(spares(axes_along(argument_called(node, "dims"), rank), axes));
  if (is_form_of(node, op::kMeanDim) || name_of(node) == "amax") return axes_behind_reduction(node, axes, rank);
  const auto function = activation_function(node);
  if (!function) return std::nullopt;
  using Kind = kernel::Activation::Kind;
  if (function->kind != Kind::kClamp) return if_passes(function->kind == Kind::kLeakyRelu);
  if (function->low < 0) clamps.min = std::max(clamps.min, static_cast<float>(function->low));
  if (function->high > 0) clamps.max = std::min(clamps.max, static_cast<float>(function->high));
  return if_passes(function->low <= 0 && function->high > 0);
}

// The same with axes in their order; `sizes` are those of the value. Nothing if they are open and it matters.
std::optional<Channels> in_order(const Channels& channels, const SymShape& sizes) {
  if (std::is_sorted(channels.axes.begin(), channels.axes.end())) return channels;
  std::vector<int64_t> lengths, strides(channels.axes.size(), 1);
  for (const int64_t axis : channels.axes) {
    const auto length = sizes[static_cast<size_t>(axis)].constant();
    if (!length) return std::nullopt;
    lengths.push_back(*length);
  }
  for (size_t i = strides.size(); i-- > 1;) strides[i - 1] = strides[i] * lengths[i];
  std::vector<size_t> order(channels.axes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  sort_stably(order, [&](size_t a, size_t b) { return channels.axes[a] < channels.axes[b]; });
  Channels out{{}, std::vector<int64_t>(channels.names.size())};
  for (const size_t i : order) out.axes.push_back(channels.axes[i]);
  for (size_t at = 0; at < out.names.size(); ++at) {
    int64_t rest = static_cast<int64_t>(at), from = 0;
    for (size_t k = order.size(); k-- > 0; rest /= lengths[order[k]])
      from += rest % lengths[order[k]] * strides[order[k]];
    out.names[at] = channels.names[static_cast<size_t>(from)];
  }
  return out;
}

// The argument as a value; nothing if a node computes it.
std::optional<Value> plain_value(const Argument& argument) {
  if (argument.is_none()) return Value();
  if (const auto number = argument.integer()) return Value(*number);
  if (!argument.is_list()) return std::nullopt;
  Value::List out;
  for (const Argument& each : argument.list()) {
    auto value = plain_value(each);
    if (!value) return std::nullopt;
    out.push_back(std::move(*value));
  }
  return Value(std::move(out));
}

// What an operator makes of the numbers of the channels, 0, 1, ...; of several results the one of number `item`.
std::optional<std::vector<int64_t>> shown_by(const Node& node, const TensorMeta& x, const Axes& axes, int64_t item) {
  const auto count = count_along(x, axes);
  if (!count || !node.kwargs().empty()) return std::nullopt;
  Shape sizes(x.sizes.size(), 1);
  for (const int64_t axis : axes) sizes[static_cast<size_t>(axis)] = *x.sizes[static_cast<size_t>(axis)].constant();
  std::vector<int64_t> numbers(static_cast<size_t>(*count));
  std::iota(numbers.begin(), numbers.end(), 0);
  std::vector<Value> args{Value(Tensor::of<int64_t>(sizes, std::span<const int64_t>(numbers)))};
  for (size_t i = 1; i < node.args().size(); ++i) {
    auto value = plain_value(node.arg(i));
    if (!value) return std::nullopt;
    args.push_back(std::move(*value));
  }
  const Value result = op_of(node)->eval(Call<Tensor>(*op_of(node), std::move(args)));
  const Value* shown = &result;
  if (const auto* list = result.get_if<Value::List>())
    shown = item >= 0 && item < std::ssize(*list) ? &(*list)[static_cast<size_t>(item)] : nullptr;
  const Tensor* tensor = shown != nullptr ? shown->get_if<Tensor>() : nullptr;
  if (tensor == nullptr) return std::nullopt;
  const Tensor whole = tensor->contiguous();
  return std::vector<int64_t>(whole.data<int64_t>(), whole.data<int64_t>() + whole.numel());
}

// The operator that shows a part, of which this node may be an item.
const Node* shower_of(const Node& node) {
  return node.target() == op::kGetItem && !node.args().empty() ? node.arg(0).node() : &node;
}

// Whether what an operator shows has no longer the axis along which it shows it.
bool takes_one(const Node& shows) { return name_of(shows).starts_with("select") || name_of(shows) == "unbind"; }

// Between the axes of its channels an expansion repeats them: keys for several queries.
std::optional<Part> part_of_expansion(const Node& node, const Node& x, const Axes& axes) {
  const SymShape &from = x.meta.val.tensor()->sizes, &to = node.meta.val.tensor()->sizes;
  const auto more = static_cast<int64_t>(to.size() - from.size());
  Channels numbers{{}, {}};
  for (const int64_t axis : axes) numbers.axes.push_back(axis + more);
  const auto count = count_along(*x.meta.val.tensor(), axes);
  if (!count) return std::nullopt;
  numbers.names.resize(static_cast<size_t>(*count));
  std::iota(numbers.names.begin(), numbers.names.end(), 0);
  Axes along;
  for (int64_t axis = numbers.axes.front(); axis <= numbers.axes.back(); ++axis) {
    const bool is_repeated = !(from[static_cast<size_t>(axis - more)] == to[static_cast<size_t>(axis)]);
    if (is_repeated || has_axis(numbers.axes, static_cast<size_t>(axis))) along.push_back(axis);
    if (is_repeated && has_axis(numbers.axes, static_cast<size_t>(axis))) return std::nullopt;
  }
  auto out = spread(numbers, along, to);
  return out ? std::optional(Part{&x, std::move(out->axes), std::move(out->names)}) : std::nullopt;
}

}  // namespace

std::optional<Axes> axes_shown(const Node& node, const Axes& axes) {
  const Node& shows = *shower_of(node);
  const SymShape& to = node.meta.val.tensor()->sizes;
  if (takes_one(shows)) {
    const int64_t along = axis_of(shows, std::ssize(to) + 1);
    Axes out{along};
    for (const int64_t axis : axes) out.push_back(axis + (axis >= along));
    sort_stably(out);
    return out;
  }
  if (name_of(shows) != "expand") return std::nullopt;
  const SymShape& from = shows.arg(0).node()->meta.val.tensor()->sizes;
  const auto more = static_cast<int64_t>(to.size() - from.size());
  Axes out;
  for (const int64_t axis : axes)
    if (axis >= more && from[static_cast<size_t>(axis - more)] == to[static_cast<size_t>(axis)])
      out.push_back(axis - more);
  return out.empty() ? std::nullopt : std::optional(out);
}

std::string_view name_of(const Node& node) { return base_name(node.target()); }

int64_t axis_of(const Node& node, int64_t rank) {
  const int64_t axis = argument_called(node, "dim").integer().value_or(0);
  return axis < 0 ? axis + rank : axis;
}

std::optional<int64_t> count_along(const TensorMeta& value, const Axes& axes) {
  int64_t count = 1;
  for (const int64_t axis : axes) {
    const auto size = axis < std::ssize(value.sizes) ? value.sizes[static_cast<size_t>(axis)].constant() : std::nullopt;
    if (!size) return std::nullopt;
    count *= *size;
  }
  return count;
}

std::optional<Channels> channels_behind(const Node& node, const Node& x, const Channels& channels, FloatRange& clamps) {
  const TensorMeta *from = x.meta.val.tensor(), *to = node.meta.val.tensor();
  if (from == nullptr || to == nullptr) return std::nullopt;
  if (op_of(node) != nullptr && is_reshape(node)) return channels_behind_reshape(from->sizes, channels, to->sizes);
  const auto axes = axes_behind(node, x, channels.axes, clamps);
  if (!axes) return std::nullopt;
  return in_order({*axes, channels.names}, to->sizes);
}

std::optional<Channels> channels_before(const Node& node, const Channels& channels) {
  const Node& x = *node.arg(0).node();
  const TensorMeta *from = x.meta.val.tensor(), *to = node.meta.val.tensor();
  if (from == nullptr || to == nullptr) return std::nullopt;
  if (is_reshape(node)) return channels_behind_reshape(to->sizes, channels, from->sizes);
  if (is_permutation(node)) {
    const std::vector<int64_t> order = order_of(node, std::ssize(from->sizes));
    Channels out{{}, channels.names};
    for (const int64_t axis : channels.axes) out.axes.push_back(order.at(static_cast<size_t>(axis)));
    return in_order(out, from->sizes);
  }
  FloatRange clamps{-kInf, kInf};
  return axes_behind(node, x, channels.axes, clamps) == channels.axes ? std::optional(channels) : std::nullopt;
}

bool is_part(const Node& node) {
  const Node* shows = shower_of(node);
  if (shows == nullptr || op_of(*shows) == nullptr || shows->args().empty()) return false;
  const std::string_view name = name_of(*shows);
  if (shows != &node) return is_a(*shows, Family::kSplit);
  if (name.ends_with("channel_shuffle")) return true;
  if (local_name(node.target()) == "repeat_interleave.self_int") return !argument_called(node, "dim").is_none();
  return is_a(node, Family::kView) &&
         (name.starts_with("slice") || name.starts_with("narrow") || name.starts_with("select") || name == "expand");
}

std::optional<Part> part_of(const Node& node, Axes axes) {
  if (!is_part(node)) return std::nullopt;
  const Node* shows = shower_of(node);
  const Node* x = shows->arg(0).node();
  const TensorMeta* from = x != nullptr ? x->meta.val.tensor() : nullptr;
  const std::string_view name = name_of(*shows);
  if (name == "expand") return part_of_expansion(node, *x, axes);
  const bool selects = takes_one(*shows), shuffles = name.ends_with("channel_shuffle");
  if (from == nullptr || node.meta.val.tensor() == nullptr || (shuffles && axes != Axes{1})) return std::nullopt;
  const int64_t along = shuffles ? 1 : axis_of(*shows, std::ssize(from->sizes));
  Part out{x, std::move(axes), {}};
  if (std::count(out.axes.begin(), out.axes.end(), along) != 0) {
    const int64_t item = shows != &node ? node.arg(1).integer().value_or(-1) : 0;
    auto shown = shown_by(*shows, *from, out.axes, item);
    if (!shown) return std::nullopt;
    out.shown = std::move(*shown);
  } else {
    const auto count = count_along(*from, out.axes);
    if (!count) return std::nullopt;
    out.shown.resize(static_cast<size_t>(*count));
    std::iota(out.shown.begin(), out.shown.end(), 0);
  }
  if (!selects) return out;
  std::erase(out.axes, along);
  for (int64_t& axis : out.axes) axis -= axis > along;
  return out.axes.empty() ? std::nullopt : std::optional(std::move(out));
}

}  // namespace qdq
