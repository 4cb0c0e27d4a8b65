// Equalization of channels between layers.
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "op/facts.h"
#include "op/math.h"
#include "op/targets.h"
#include "quant/observers/fake_quantize.h"
#include "quant/observers/range_histogram.h"
#include "quant/prepared_impl.h"
#include "recover/layers.h"
#include "recover/recovery.h"

namespace qdq {

namespace {

constexpr double kAlphas[] = {0.25, 0.5, 0.75, 1};
// In dB: less is not worth other weights.
constexpr double kLeastGain = 1;

// A layer that reads the channels along an axis of its input: which channel each element of its weight reads.
struct Reader {
  const Node* node;
  const Node* input;  // as the layer reads it: an observer, mostly
  int64_t axis;       // of the channels there
  OwnConstant weight;
  int64_t groups = 1;  // of a convolution: weight [rows, channels / groups, ...]
};

// Channels that can be scaled: what makes them, and who reads them.
struct Seam {
  const Node* producer;
  OwnConstant weight;
  std::optional<OwnConstant> bias;
  int64_t axis;  // of the channels where they are produced
  int64_t channels = 0;
  std::vector<Reader> readers;
  std::vector<size_t> observers;     // that the values pass
  FloatRange clamps{-kInf, kInf};    // what all clamps behind the producer let through
  std::vector<float> min{}, max{};   // of each channel, where the readers read it
  std::vector<float> low{}, high{};  // of each channel, as it is produced; if there are clamps
  double plain = 0;                  // error as it is, and for each alpha
  std::vector<double> errors = std::vector<double>(std::size(kAlphas));
};

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

// The channel that an element of a reader's weight reads.
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

// x along an axis divided by the factor of each channel.
Tensor divided_along(const Tensor& x, int64_t axis, const std::vector<float>& by) {
  const Tensor out = x.clone();
  int64_t inner = 1;
  for (int64_t i = axis + 1; i < out.dim(); ++i) inner *= out.size(i);
  float* values = out.data<float>();
  for (int64_t row = 0; row * inner < out.numel(); ++row, values += inner)
    for (int64_t i = 0; i < inner; ++i) values[i] /= by[static_cast<size_t>(row) % by.size()];
  return out;
}

bool has_clamps(const Seam& seam) { return seam.clamps.min > -kInf || seam.clamps.max < kInf; }

// The least factor that keeps a channel within the clamps on the samples; nothing if they cut it as it is.
std::optional<double> least_factor(const Seam& seam, size_t channel) {
  if (!has_clamps(seam)) return 0;
  const double low = static_cast<double>(seam.low[channel]) / static_cast<double>(seam.clamps.min);
  const double high = static_cast<double>(seam.high[channel]) / static_cast<double>(seam.clamps.max);
  const double least = std::max({low, high, 0.0});
  return least < 1 ? std::optional(least) : std::nullopt;
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

// The mean over the channels of noise over signal, each at most 1: what a channel of small numbers loses counts as much
// as what one of large numbers does, since the next layer may make it large.
double share_of_noise(const Tensor& exact, const Tensor& found, int64_t axis) {
  const Tensor x = exact.contiguous(), y = found.contiguous();
  const float *const a = x.data<float>(), *const b = y.data<float>();
  int64_t inner = 1;
  for (int64_t i = axis + 1; i < x.dim(); ++i) inner *= x.size(i);
  struct Sums {
    double signal = 0, noise = 0;
  };
  std::vector<Sums> channels(static_cast<size_t>(x.size(axis)));
  for (int64_t row = 0; row * inner < x.numel(); ++row) {
    Sums& sums = channels[static_cast<size_t>(row) % channels.size()];
    for (int64_t i = row * inner; i < (row + 1) * inner; ++i) {
      const auto value = static_cast<double>(a[i]);
      const double off = value - static_cast<double>(b[i]);
      sums.signal += value * value;
      sums.noise += off * off;
    }
  }
  double share = 0;
  int64_t speaking = 0;
  for (const Sums& sums : channels) {
    if (!(sums.signal > 0)) continue;
    share += std::min(1.0, sums.noise / sums.signal);
    ++speaking;
  }
  return speaking > 0 ? share / static_cast<double>(speaking) : 0;
}

// A reader that comes next in a walk, in exact numbers.
void add_errors_of(Seam& seam, const Reader& reader, const Simulation& exact, const Prepared::Impl& impl,
                   Interpreter::Walk& walk) {
  const Node& input = *exact.node(*reader.input);
  const Node* weight_node = weight_of(*walk.next());
  const Tensor x = walk.value(input).get_if<Tensor>()->contiguous();
  const Tensor weight = impl.program.find_attribute(reader.weight.name)->tensor.contiguous();
  const auto observer = impl.group_of_module(*reader.input);
  const auto result = [&](const std::vector<float>& by) {
    Tensor values = divided_along(x, reader.axis, by), scaled = with_columns_scaled(reader, weight, by);
    if (observer) {
      FloatRange range{0, 0};
      for (size_t c = 0; c < by.size(); ++c)
        range = {std::min(range.min, seam.min[c] / by[c]), std::max(range.max, seam.max[c] / by[c])};
      const Observer& rounds = *impl.groups[*observer].observer;
      const IntegerRange limits{rounds.quant_min(), rounds.quant_max()};
      const QParams qparams =
          qparams_of_range(std::span(&range.min, 1), std::span(&range.max, 1), rounds.args(), limits);
      values = fake_quantized(values, qparams, rounds.args(), limits);
    }
    if (reader.weight.observer) scaled = rounded_weight(scaled, *impl.groups[*reader.weight.observer].observer);
    return *walk.result_with({{&input, values}, {weight_node, scaled}}).get_if<Tensor>();
  };
  const Tensor wanted = *walk.result_with({{weight_node, weight}}).get_if<Tensor>();
  const int64_t axis = is_linear(*reader.node) ? wanted.dim() - 1 : 1;
  seam.plain += share_of_noise(wanted, result(std::vector<float>(static_cast<size_t>(seam.channels), 1.0f)), axis);
  for (size_t i = 0; i < std::size(kAlphas); ++i)
    seam.errors[i] += share_of_noise(wanted, result(factors_of(impl, seam, kAlphas[i])), axis);
}

void widen(std::vector<float>& min, std::vector<float>& max, const Tensor& x, int64_t axis) {
  const ChannelRanges ranges = channel_ranges_of(x, axis);
  if (min.empty()) {
    min = ranges.min;
    max = ranges.max;
  }
  for (size_t c = 0; c < min.size(); ++c) {
    min[c] = std::min(min[c], ranges.min[c]);
    max[c] = std::max(max[c], ranges.max[c]);
  }
}

void observe_channels(Recovery& recovery, std::vector<Seam>& seams) {
  std::map<const Node*, std::vector<std::pair<Seam*, int64_t>>> by_input;
  std::map<const Node*, Seam*> clamped;
  for (Seam& seam : seams) {
    for (const Reader& reader : seam.readers) by_input[reader.input].emplace_back(&seam, reader.axis);
    if (has_clamps(seam)) clamped[seam.producer] = &seam;
  }
  Interpreter floats = float_interpreter(recovery.prepared());
  floats.set_node_hook([&](const Node& node, const Value& value) {
    const Tensor* x = value.get_if<Tensor>();
    if (x == nullptr || x->numel() == 0) return;
    if (const auto seam = clamped.find(&node); seam != clamped.end())
      widen(seam->second->low, seam->second->high, *x, seam->second->axis);
    if (const auto found = by_input.find(&node); found != by_input.end())
      for (const auto& [seam, axis] : found->second) widen(seam->min, seam->max, *x, axis);
  });
  for (const Batch& batch : recovery.batches()) {
    recovery.tell_again();
    floats.run(batch);
  }
}

void measure_seams(Recovery& recovery, std::vector<Seam>& seams) {
  const Prepared::Impl& impl = Prepared::Impl::of(recovery.prepared());
  Simulation exact(recovery.prepared());
  for (size_t i = 0; i < impl.groups.size(); ++i)
    if (impl.of_constants.count(impl.groups[i].observer.get()) == 0) exact.set_rounding(i, false);
  std::map<const Node*, std::pair<Seam*, const Reader*>> by_reader;
  for (Seam& seam : seams)
    for (const Reader& reader : seam.readers)
      if (!seam.min.empty()) by_reader[exact.node(*reader.node)] = {&seam, &reader};
  constexpr int64_t kSamples = 16;
  for (const Batch* batch : recovery.some_batches(kSamples)) {
    Interpreter::Walk walk = exact.walk(*batch);
    for (; walk.next() != nullptr; walk.advance()) {
      const auto found = by_reader.find(walk.next());
      if (found == by_reader.end()) continue;
      recovery.tell_again();
      add_errors_of(*found->second.first, *found->second.second, exact, impl, walk);
    }
  }
}

// What passes observers now.
std::map<size_t, RangeHistogram> observe_again(Recovery& recovery, const std::vector<size_t>& observers) {
  Prepared::Impl& impl = Prepared::Impl::of(recovery.prepared());
  std::map<size_t, RangeHistogram> histograms;
  for (const size_t observer : observers) histograms[observer];
  Interpreter floats(impl.program, impl.backends);
  floats.set_module_handler([&](const Node& node, std::span<const Value> args, const kernel::MinMax*) {
    const auto found = histograms.find(impl.group_of_module(node).value());
    if (found != histograms.end()) found->second.add(*args[0].get_if<Tensor>());
    return args[0];
  });
  for (const Batch& batch : recovery.batches()) {
    recovery.tell_again();
    floats.run(batch);
  }
  return histograms;
}

// Gives observers the range of least error, or the whole one.
void set_ranges(Recovery& recovery, const std::map<size_t, RangeHistogram>& histograms, bool whole) {
  const Prepared::Impl& impl = Prepared::Impl::of(recovery.prepared());
  for (const auto& [index, histogram] : histograms) {
    if (histogram.total() == 0) continue;
    const Observer& observer = *impl.groups[index].observer;
    const FloatRange range =
        whole ? FloatRange{std::min(0.0f, histogram.range().min), std::max(0.0f, histogram.range().max)}
              : range_of_least_error(histogram, observer.quant_max() - observer.quant_min(),
                                     is_symmetric(observer.args().qscheme));
    recovery.prepared().set_range(index, Tensor::scalar(range.min), Tensor::scalar(range.max));
  }
}

// What equalization changes, as it was.
struct BeforeEqualizing {
  std::vector<std::pair<std::string, Tensor>> constants;
  std::vector<std::shared_ptr<Observer>> observers;
  std::unordered_set<const Observer*> of_constants;
};

void set_constant(Prepared::Impl& impl, BeforeEqualizing& before, const OwnConstant& constant, const Tensor& value) {
  Tensor& tensor = impl.program.find_attribute(constant.name)->tensor;
  before.constants.emplace_back(constant.name, tensor);
  tensor = value;
}

void apply_seam(Recovery& recovery, BeforeEqualizing& before, const Seam& seam, double alpha) {
  Prepared::Impl& impl = Prepared::Impl::of(recovery.prepared());
  const std::vector<float> by = factors_of(impl, seam, alpha);
  const auto change = [&](const OwnConstant& constant, const Tensor& value) {
    set_constant(impl, before, constant, value);
    if (!constant.observer) return;
    const Observer& observer = *impl.groups[*constant.observer].observer;
    if (is_per_channel(observer.args().qscheme)) {
      const ChannelRanges ranges = channel_ranges_of(value, observer.args().ch_axis);
      const auto count = static_cast<int64_t>(ranges.min.size());
      recovery.prepared().set_range(*constant.observer, Tensor::of<float>({count}, std::span<const float>(ranges.min)),
                                    Tensor::of<float>({count}, std::span<const float>(ranges.max)));
    } else {
      const FloatRange range = range_of(value);
      recovery.prepared().set_range(*constant.observer, Tensor::scalar(range.min), Tensor::scalar(range.max));
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

}  // namespace

int64_t equalize(Recovery& recovery) {
  Prepared::Impl& impl = Prepared::Impl::of(recovery.prepared());
  if (!impl.float_constants.empty()) return 0;  // what is rounded already cannot be shared out
  std::vector<Seam> seams;
  for (const Node* node : impl.program.graph->nodes())
    if (auto seam = seam_behind(impl, *node)) seams.push_back(std::move(*seam));
  if (seams.empty()) return 0;
  observe_channels(recovery, seams);
  measure_seams(recovery, seams);

  constexpr int64_t kSamples = 32;
  const double decibels = recovery.decibels(), of_some = recovery.decibels(kSamples);
  BeforeEqualizing before;
  for (const ObserverGroup& group : impl.groups) before.observers.push_back(group.observer);
  before.of_constants = impl.of_constants;
  Undo undo([&] {
    for (auto at = before.constants.rbegin(); at != before.constants.rend(); ++at)
      impl.program.find_attribute(at->first)->tensor = at->second;
    for (size_t i = 0; i < impl.groups.size(); ++i) impl.groups[i].observer = before.observers[i];
    impl.of_constants.swap(before.of_constants);
    impl.interpreter.reset();
  });
  std::vector<size_t> touched;
  int64_t changed = 0;
  for (const Seam& seam : seams) {
    const auto best = std::min_element(seam.errors.begin(), seam.errors.end());
    constexpr double kWorthIt = 0.9;
    if (seam.min.empty() || !(*best < kWorthIt * seam.plain)) continue;
    apply_seam(recovery, before, seam, kAlphas[best - seam.errors.begin()]);
    touched.insert(touched.end(), seam.observers.begin(), seam.observers.end());
    ++changed;
  }
  if (changed == 0) return 0;
  const std::map<size_t, RangeHistogram> histograms = observe_again(recovery, touched);
  const auto measured = [&](bool whole) {
    set_ranges(recovery, histograms, whole);
    return recovery.decibels(kSamples);
  };
  const double whole = measured(true), least = measured(false);
  if (!(std::max(whole, least) > of_some + kLeastGain)) return 0;
  if (whole > least) set_ranges(recovery, histograms, true);
  if (!(recovery.decibels() > decibels + kLeastGain)) return 0;
  undo.keep();
  return changed;
}

}  // namespace qdq
