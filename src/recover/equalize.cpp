// Equalization of channels between layers.
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "kernel/difference.h"
#include "op/facts.h"
#include "op/math.h"
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
  OwnConstant weight;
  int64_t groups = 1;  // of a convolution: weight [rows, channels / groups, ...]
};

// Channels that can be scaled: what makes them, and who reads them.
struct Seam {
  OwnConstant weight;
  std::optional<OwnConstant> bias;
  int64_t axis;  // of the values
  int64_t channels = 0;
  std::vector<Reader> readers;
  std::vector<size_t> observers;  // that the values pass
  std::vector<float> min, max;    // of each channel, where the readers read it
  double plain = 0;               // error as it is, and for each alpha
  std::vector<double> errors = std::vector<double>(std::size(kAlphas));
};

// Whether f(s x) = s f(x) for s > 0, channel by channel.
bool passes_scales(const Node& node, int64_t axis) {
  if (is_a(node, Family::kDropout) || is_a(node, Family::kCopy)) return true;
  if (is_a(node, Family::kMaxPool) || is_a(node, Family::kAveragePool)) return axis == 1;
  const auto function = activation_function(node);
  if (!function) return false;
  using Kind = kernel::Activation::Kind;
  return function->kind == Kind::kLeakyRelu ||
         (function->kind == Kind::kClamp && (function->low == 0 || std::isinf(function->low)) &&
          std::isinf(function->high));
}

std::optional<Reader> reader_of(const Prepared::Impl& impl, const Node& node, const Node& input, int64_t axis,
                                int64_t rank) {
  const bool convolves = is_plain_convolution(node);
  if (!(convolves ? axis == 1 : is_linear(node) && axis == rank - 1) || input_of(node) != &input) return std::nullopt;
  const auto weight = own_constant(impl, weight_of(node));
  if (!weight) return std::nullopt;
  Reader out{&node, &input, *weight};
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
  Seam seam{*weight, std::nullopt, convolves ? 1 : rank - 1, values.size(0), {}, {}, {}, {}};
  const Node* bias = bias_of(producer);
  if (bias != nullptr && !(seam.bias = own_constant(impl, bias))) return std::nullopt;
  if (bias != nullptr && seam.bias->observer) return std::nullopt;
  if (norms && value->sizes.back() != SymInt(seam.channels)) return std::nullopt;
  std::vector<const Node*> open = {&producer};
  for (size_t i = 0; i < open.size(); ++i)
    for (const Node* user : open[i]->users()) {
      const auto observer = impl.group_of_module(*user);
      if (observer && (!impl.takes_range(*observer) || is_per_channel(impl.groups[*observer].observer->args().qscheme)))
        return std::nullopt;
      if (observer) seam.observers.push_back(*observer);
      if (observer || (passes_scales(*user, seam.axis) && user->arg(0).node() == open[i])) {
        open.push_back(user);
        continue;
      }
      auto reader = reader_of(impl, *user, *open[i], seam.axis, rank);
      if (!reader) return std::nullopt;
      seam.readers.push_back(std::move(*reader));
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
  float* const values = out.data<float>();
  for (int64_t i = 0; i < out.numel(); ++i) values[i] /= by[static_cast<size_t>(i / inner) % by.size()];
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
  double middle = 0;
  int64_t known = 0;
  for (size_t c = 0; c < channels; ++c) {
    const double range = std::max(std::fabs(seam.min[c]), std::fabs(seam.max[c]));
    if (!(range > 0) || !(largest[c] > 0)) continue;
    factors[c] = alpha * math::log(range) - (1 - alpha) * math::log(largest[c]);
    middle += factors[c];
    ++known;
  }
  if (known > 0) middle /= static_cast<double>(known);
  // A channel that carries nothing keeps its size; others move by at most a factor of 2^20.
  constexpr double kMost = 13.86;
  std::vector<float> out(channels, 1.0f);
  for (size_t c = 0; c < channels; ++c)
    if (factors[c] != 0) out[c] = static_cast<float>(math::exp(std::clamp(factors[c] - middle, -kMost, kMost)));
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

double share_of_noise(const Tensor& exact, const Tensor& found) {
  const Tensor x = exact.contiguous(), y = found.contiguous();
  const kernel::Difference difference = kernel::difference_f32(x.data<float>(), y.data<float>(), x.numel());
  return difference.signal > 0 ? difference.noise / difference.signal : 0;
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
    Tensor values = divided_along(x, seam.axis, by), scaled = with_columns_scaled(reader, weight, by);
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
  seam.plain += share_of_noise(wanted, result(std::vector<float>(static_cast<size_t>(seam.channels), 1.0f)));
  for (size_t i = 0; i < std::size(kAlphas); ++i)
    seam.errors[i] += share_of_noise(wanted, result(factors_of(impl, seam, kAlphas[i])));
}

void observe_channels(Recovery& recovery, std::vector<Seam>& seams) {
  std::map<const Node*, std::vector<Seam*>> by_input;
  for (Seam& seam : seams)
    for (const Reader& reader : seam.readers) by_input[reader.input].push_back(&seam);
  Interpreter floats = float_interpreter(recovery.prepared());
  floats.set_node_hook([&](const Node& node, const Value& value) {
    const auto found = by_input.find(&node);
    const Tensor* x = value.get_if<Tensor>();
    if (found == by_input.end() || x == nullptr || x->numel() == 0) return;
    for (Seam* seam : found->second) {
      const ChannelRanges ranges = channel_ranges_of(*x, seam->axis);
      if (seam->min.empty()) {
        seam->min = ranges.min;
        seam->max = ranges.max;
      }
      for (size_t c = 0; c < seam->min.size(); ++c) {
        seam->min[c] = std::min(seam->min[c], ranges.min[c]);
        seam->max[c] = std::max(seam->max[c], ranges.max[c]);
      }
    }
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

// Gives observers the range of least error, or the whole one, of what passes them now.
void observe_again(Recovery& recovery, const std::vector<size_t>& observers, bool whole) {
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

  const double decibels = recovery.decibels();
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
  observe_again(recovery, touched, true);
  const double whole = recovery.decibels();
  observe_again(recovery, touched, false);
  const double least = recovery.decibels();
  if (whole > least) observe_again(recovery, touched, true);
  if (!(std::max(whole, least) > decibels + kLeastGain)) return 0;
  undo.keep();
  return changed;
}

}  // namespace qdq
