#include "recover/seams.h"

#include <algorithm>
#include <cmath>

#include "op/facts.h"
#include "op/math.h"
#include "op/targets.h"
#include "quant/observers/fake_quantize.h"

namespace qdq {

namespace {

// The axes of a value along which its channels lie, the outermost first: one, or those that a view cut it into.
using Axes = std::vector<int64_t>;

// The axes that they have behind a reshaping, if those of `from` lie beside each other.
std::optional<Axes> axes_behind_reshape(const SymShape& from, const Axes& axes, const SymShape& to) {
  SymInt channels = 1, inner = 1, passed = 1;
  for (size_t i = 0; i < axes.size(); ++i) {
    if (axes[i] != axes[0] + static_cast<int64_t>(i)) return std::nullopt;
    channels = channels * from[static_cast<size_t>(axes[i])];
  }
  for (size_t i = static_cast<size_t>(axes.back()) + 1; i < from.size(); ++i) inner = inner * from[i];
  size_t end = to.size();
  while (end > 0 && !(passed == inner && to[end - 1] != SymInt(1))) passed = passed * to[--end];
  Axes out;
  SymInt found = 1;
  while (end > 0 && !(found == channels)) {
    found = found * to[--end];
    out.insert(out.begin(), static_cast<int64_t>(end));
  }
  return found == channels && !out.empty() ? std::optional(out) : std::nullopt;
}

// The axes that those of `value` have in a product or in attention that weighs its rows.
std::optional<Axes> axes_behind_weighing(const Node& node, const Node& value, const Axes& axes) {
  const bool attends = is_form_of(node, op::kAttention);
  const size_t operand = attends ? 2 : 1;
  if (node.args().size() <= operand || node.arg(operand).node() != &value) return std::nullopt;
  for (size_t i = 0; i < operand; ++i)
    if (node.arg(i).node() == &value) return std::nullopt;
  const std::string& name = op_of(node)->schema.arguments[1].name;
  if (!attends && name != "other" && name != "mat2") return std::nullopt;
  const SymShape &from = value.meta.val.tensor()->sizes, &to = node.meta.val.tensor()->sizes;
  const bool fits =
      from.size() == to.size() && from.size() >= 2 && std::all_of(axes.begin(), axes.end(), [&](int64_t axis) {
        const auto at = static_cast<size_t>(axis);
        return at + 2 != from.size() && from[at] == to[at];
      });
  return fits ? std::optional(axes) : std::nullopt;
}

std::optional<Axes> axes_behind_permutation(const Node& node, const Axes& axes, int64_t rank) {
  std::vector<int64_t> order;  // the axis of the value that each of the result is
  const auto axis_in = [&](const Argument& argument) {
    const int64_t axis = argument.integer().value_or(0);
    return axis < 0 ? axis + rank : axis;
  };
  if (is_form_of(node, op::kTranspose)) {
    for (int64_t i = 0; i < rank; ++i) order.push_back(i);
    std::swap(order.at(static_cast<size_t>(axis_in(argument_of(node, 1)))),
              order.at(static_cast<size_t>(axis_in(argument_of(node, 2)))));
  } else if (argument_of(node, 1).is_list()) {
    for (const Argument& axis : argument_of(node, 1).list()) order.push_back(axis_in(axis));
  }
  Axes out;
  for (const int64_t axis : axes) {
    const auto found = std::find(order.begin(), order.end(), axis);
    if (found == order.end()) return std::nullopt;
    out.push_back(found - order.begin());
  }
  return out;
}

bool pads_zeros_behind(const Node& node, int64_t axis, int64_t rank) {
  const Argument& pad = argument_of(node, 1);
  if (!pad.is_list() || rank - static_cast<int64_t>(pad.list().size() / 2) <= axis) return false;
  // Others than constants are values of the tensor; only aten.pad says by a word which of both it takes.
  const Schema& schema = op_of(node)->schema;
  if (schema.index_of("mode") && !(argument_called(node, "mode") == Argument("constant"))) return true;
  if (!schema.index_of("value")) return true;
  const Argument& value = argument_called(node, "value");
  return value.is_none() || value.number() == 0.0;
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
  for (const std::string_view target : {op::kFlatten, op::kReshape, op::kView, op::kUnsafeView})
    if (is_form_of(node, target)) return axes_behind_reshape(from->sizes, axes, to->sizes);
  if (is_form_of(node, op::kTranspose) || is_form_of(node, op::kPermute))
    return axes_behind_permutation(node, axes, rank);
  if (is_form_of(node, op::kMeanDim)) {
    const Argument& axes = argument_of(node, 1);
    bool spares = axes.is_list() && axis == 1;
    if (axes.is_list())
      for (const Argument& one : axes.list()) {
        const int64_t at = one.integer().value_or(0);
        spares = spares && (at < 0 ? at + rank : at) > axis;
      }
    return if_passes(spares);
  }
  const auto function = activation_function(node);
  if (!function) return std::nullopt;
  using Kind = kernel::Activation::Kind;
  if (function->kind != Kind::kClamp) return if_passes(function->kind == Kind::kLeakyRelu);
  if (function->low < 0) clamps.min = std::max(clamps.min, static_cast<float>(function->low));
  if (function->high > 0) clamps.max = std::min(clamps.max, static_cast<float>(function->high));
  return if_passes(function->low <= 0 && function->high > 0);
}

std::optional<Reader> reader_of(const Prepared::Impl& impl, const Node& node, const Node& input, int64_t axis) {
  const TensorMeta* value = input.meta.val.tensor();
  if (value == nullptr) return std::nullopt;
  const auto rank = static_cast<int64_t>(value->sizes.size());
  const bool convolves = is_plain_convolution(node);
  if (!(convolves ? axis == 1 : is_linear(node) && axis == rank - 1) || input_of(node) != &input) return std::nullopt;
  const auto weight = own_constant(impl, weight_of(node));
  if (!weight) return std::nullopt;
  Reader out{&node, &input, axis, *weight};
  if (!convolves) return out;
  out.groups = argument_called(node, "groups").integer().value_or(0);
  return out.groups > 0 ? std::optional(out) : std::nullopt;
}

std::optional<Seam> seam_behind(const Prepared::Impl& impl, const Node& producer) {
  const TensorMeta* value = producer.meta.val.tensor();
  if (value == nullptr || value->dtype != DType::kF32) return std::nullopt;
  const auto rank = static_cast<int64_t>(value->sizes.size());
  const bool convolves = is_plain_convolution(producer), norms = is_a(producer, Family::kNorm);
  if (!convolves && !norms && !is_linear(producer)) return std::nullopt;
  const auto weight = own_constant(impl, weight_of(producer));
  if (!weight) return std::nullopt;
  const Tensor& values = impl.program.find_attribute(weight->name)->tensor;
  if (values.dim() == 0 || (norms && (values.dim() != 1 || producer.target().find("group_norm") != std::string::npos)))
    return std::nullopt;
  Seam seam{&producer, *weight, std::nullopt, convolves ? 1 : rank - 1, values.size(0), {}, {}};
  const Node* bias = bias_of(producer);
  if (bias != nullptr && !(seam.bias = own_constant(impl, bias))) return std::nullopt;
  if (bias != nullptr && seam.bias->observer) return std::nullopt;
  if (norms && value->sizes.back() != SymInt(seam.channels)) return std::nullopt;
  std::vector<std::pair<const Node*, Axes>> open = {{&producer, Axes{seam.axis}}};
  for (size_t i = 0; i < open.size(); ++i) {
    const auto [read, axes] = open[i];
    for (const Node* user : read->users()) {
      const auto observer = impl.group_of_module(*user);
      if (observer && (!impl.takes_range(*observer) || is_per_channel(impl.groups[*observer].observer->args().qscheme)))
        return std::nullopt;
      if (observer) seam.observers.push_back(*observer);
      if (auto behind = observer ? std::optional(axes) : axes_behind(*user, *read, axes, seam.clamps)) {
        open.emplace_back(user, std::move(*behind));
        continue;
      }
      auto reader = axes.size() == 1 ? reader_of(impl, *user, *read, axes[0]) : std::nullopt;
      if (!reader) return std::nullopt;
      seam.readers.push_back(std::move(*reader));
    }
  }
  if (seam.readers.empty() || seam.observers.empty()) return std::nullopt;
  return seam;
}

// The least factor that keeps a channel within the clamps on the samples; nothing if they cut it as it is.
std::optional<double> least_factor(const Seam& seam, size_t channel) {
  if (!has_clamps(seam)) return 0;
  const double low = static_cast<double>(seam.low[channel]) / static_cast<double>(seam.clamps.min);
  const double high = static_cast<double>(seam.high[channel]) / static_cast<double>(seam.clamps.max);
  const double least = std::max({low, high, 0.0});
  return least < 1 ? std::optional(least) : std::nullopt;
}

void set_constant(Prepared::Impl& impl, BeforeEqualizing& before, const OwnConstant& constant, const Tensor& value) {
  Tensor& tensor = impl.program.find_attribute(constant.name)->tensor;
  before.constants.emplace_back(constant.name, tensor);
  tensor = value;
}

}  // namespace

std::vector<Seam> seams_of(const Prepared& prepared) {
  const Prepared::Impl& impl = Prepared::Impl::of(prepared);
  std::vector<Seam> out;
  for (const Node* node : impl.program.graph->nodes())
    if (auto seam = seam_behind(impl, *node)) out.push_back(std::move(*seam));
  return out;
}

bool has_clamps(const Seam& seam) { return seam.clamps.min > -kInf || seam.clamps.max < kInf; }

int64_t channel_at(const Reader& reader, const Tensor& weight, int64_t channels, int64_t element) {
  const int64_t columns = weight.size(1), inner = weight.numel() / std::max<int64_t>(1, weight.size(0) * columns);
  const int64_t row = element / (columns * inner), column = element / inner % columns;
  const int64_t group = row / std::max<int64_t>(1, weight.size(0) / reader.groups);
  return std::min(group * columns + column, channels - 1);
}

Tensor with_columns_scaled(const Reader& reader, const Tensor& weight, const std::vector<float>& by) {
  const Tensor out = weight.clone();
  float* const values = out.data<float>();
  for (int64_t i = 0; i < out.numel(); ++i)
    values[i] *= by[static_cast<size_t>(channel_at(reader, out, static_cast<int64_t>(by.size()), i))];
  return out;
}

Tensor with_rows_divided(const Tensor& weight, const std::vector<float>& by) {
  const Tensor out = weight.clone();
  const int64_t inner = by.empty() ? 0 : out.numel() / static_cast<int64_t>(by.size());
  for (int64_t i = 0; i < out.numel(); ++i) out.data<float>()[i] /= by[static_cast<size_t>(i / inner)];
  return out;
}

std::vector<float> factors_of(const Prepared::Impl& impl, const Seam& seam, double alpha) {
  const auto channels = static_cast<size_t>(seam.channels);
  std::vector<double> largest(channels);
  for (const Reader& reader : seam.readers) {
    const Tensor weight = impl.program.find_attribute(reader.weight.name)->tensor.contiguous();
    for (int64_t i = 0; i < weight.numel(); ++i) {
      double& most = largest[static_cast<size_t>(channel_at(reader, weight, seam.channels, i))];
      most = std::max(most, static_cast<double>(std::fabs(weight.data<float>()[i])));
    }
  }
  std::vector<double> factors(channels, 0);
  // Channels that a clamp cuts stay as they are, so the others come to their size.
  double middle = 0, middle_of_cut = 0;
  int64_t known = 0, cut = 0;
  for (size_t c = 0; c < channels; ++c) {
    const double range = std::max(std::fabs(seam.min[c]), std::fabs(seam.max[c]));
    if (!(range > 0) || !(largest[c] > 0)) continue;
    factors[c] = alpha * math::log(range) - (1 - alpha) * math::log(largest[c]);
    middle += factors[c];
    ++known;
    if (least_factor(seam, c)) continue;
    middle_of_cut += factors[c];
    ++cut;
  }
  if (cut > 0) middle = middle_of_cut / static_cast<double>(cut);
  else if (known > 0) middle /= static_cast<double>(known);
  // A channel that carries nothing keeps its size; others move by at most a factor of 2^20.
  constexpr double kMost = 13.86;
  std::vector<float> out(channels, 1.0f);
  for (size_t c = 0; c < channels; ++c)
    if (const auto least = least_factor(seam, c); least && factors[c] != 0)
      out[c] = static_cast<float>(std::max(*least, math::exp(std::clamp(factors[c] - middle, -kMost, kMost))));
  return out;
}

Tensor rounded_weight(const Tensor& weight, const Observer& observer) {
  ObserverArgs args = observer.args();
  args.eps = 0x1p-40;
  ChannelRanges ranges;
  if (is_per_channel(args.qscheme)) {
    ranges = channel_ranges_of(weight, args.ch_axis);
  } else {
    const FloatRange range = range_of(weight);
    ranges = {{range.min}, {range.max}};
  }
  const IntegerRange limits{observer.quant_min(), observer.quant_max()};
  return fake_quantized(weight, qparams_of_range(ranges.min, ranges.max, args, limits), args, limits);
}

void apply_seam(Prepared& prepared, BeforeEqualizing& before, const Seam& seam, const std::vector<float>& by) {
  Prepared::Impl& impl = Prepared::Impl::of(prepared);
  const auto change = [&](const OwnConstant& constant, const Tensor& value) {
    set_constant(impl, before, constant, value);
    if (!constant.observer) return;
    const Observer& observer = *impl.groups[*constant.observer].observer;
    if (is_per_channel(observer.args().qscheme)) {
      const ChannelRanges ranges = channel_ranges_of(value, observer.args().ch_axis);
      const auto count = static_cast<int64_t>(ranges.min.size());
      prepared.set_range(*constant.observer, Tensor::of<float>({count}, std::span<const float>(ranges.min)),
                         Tensor::of<float>({count}, std::span<const float>(ranges.max)));
    } else {
      const FloatRange range = range_of(value);
      prepared.set_range(*constant.observer, Tensor::scalar(range.min), Tensor::scalar(range.max));
    }
  };
  const auto value_of = [&](const OwnConstant& constant) {
    return impl.program.find_attribute(constant.name)->tensor.contiguous();
  };
  change(seam.weight, with_rows_divided(value_of(seam.weight), by));
  if (seam.bias) change(*seam.bias, with_rows_divided(value_of(*seam.bias), by));
  for (const Reader& reader : seam.readers)
    change(reader.weight, with_columns_scaled(reader, value_of(reader.weight), by));
}

}  // namespace qdq
