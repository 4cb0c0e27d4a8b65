// Equalization of channels between layers.
#include <algorithm>
#include <map>

#include "base/undo.h"
#include "kernel/difference.h"
#include "op/facts.h"
#include "quant/observers/fake_quantize.h"
#include "quant/observers/range_histogram.h"
#include "recover/recovery.h"
#include "recover/seams.h"

namespace qdq {

namespace {

// x along an axis divided by the factor of each channel.
Tensor divided_along(const Tensor& x, int64_t axis, const std::vector<float>& by) {
  const Tensor out = x.clone();
  int64_t inner = 1;
  for (int64_t i = axis + 1; i < out.dim(); ++i) inner *= out.size(i);
  float* values = out.data<float>();
  for (int64_t row = 0; row * inner < out.numel(); ++row, values += inner) {
    const float factor = by[static_cast<size_t>(row) % by.size()];
    for (int64_t i = 0; i < inner; ++i) values[i] /= factor;
  }
  return out;
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
    if (inner == 1) {
      const double value = a[row], off = value - b[row];
      sums.signal += value * value;
      sums.noise += off * off;
      continue;
    }
    const kernel::Difference difference = kernel::difference_f32(a + row * inner, b + row * inner, inner);
    sums.signal += difference.signal;
    sums.noise += difference.noise;
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

// A reader that comes next in a walk, in exact numbers; `factors` for each alpha.
void add_errors_of(Seam& seam, const Reader& reader, const std::vector<std::vector<float>>& factors,
                   const Simulation& exact, const Prepared::Impl& impl, Interpreter::Walk& walk) {
  const Node& input = *exact.node(*reader.input);
  const Node* weight_node = weight_of(*walk.next());
  const Tensor x = walk.value(input).get_if<Tensor>()->contiguous();
  const Tensor weight = impl.program.find_attribute(reader.weight.name)->tensor.contiguous();
  const auto observer = impl.group_of_module(*reader.input);
  const auto result = [&](const std::vector<float>& by) {
    Tensor values = divided_along(x, reader.axis, factors_at(reader.channels, by));
    Tensor scaled = with_columns_scaled(reader, weight, by);
    if (observer) {
      const FloatRange range = range_seen(seam, *observer, by);
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
  seam.plain += share_of_noise(wanted, result(std::vector<float>(seam.fixed.size(), 1.0f)), axis);
  for (size_t i = 0; i < std::size(kAlphas); ++i) seam.errors[i] += share_of_noise(wanted, result(factors[i]), axis);
}

void widen(std::vector<float>& min, std::vector<float>& max, const std::vector<int64_t>& channels, size_t count,
           const Tensor& x, int64_t axis) {
  const ChannelRanges ranges = channel_ranges_of(x, axis);
  min.resize(count);
  max.resize(count);
  for (size_t i = 0; i < channels.size(); ++i) {
    const auto c = static_cast<size_t>(channels[i]);
    min[c] = std::min(min[c], ranges.min[i]);
    max[c] = std::max(max[c], ranges.max[i]);
  }
}

class SeamWatcher : public Watcher {
 public:
  explicit SeamWatcher(std::vector<Seam> found) : seams(std::move(found)) {
    for (Seam& seam : seams) {
      for (const Producer& producer : seam.producers)
        if (!seam.twins.empty()) made_[producer.node] = {&seam, &producer};
      for (const Reader& reader : seam.readers) by_input_[reader.input].emplace_back(&seam, &reader);
      for (const Cut& cut : seam.cuts) clamped_[cut.value] = {&seam, &cut};
    }
  }

  void see(const Node& node, const Tensor& x) override {
    if (const auto found = clamped_.find(&node); found != clamped_.end()) {
      const auto& [seam, cut] = found->second;
      widen(seam->low, seam->high, cut->channels, seam->fixed.size(), x, cut->axis);
    }
    if (const auto found = made_.find(&node); found != made_.end())
      widen_twins(*found->second.first, *found->second.second, x);
    if (const auto found = by_input_.find(&node); found != by_input_.end())
      for (const auto& [seam, reader] : found->second)
        widen(seam->min, seam->max, reader->channels, seam->fixed.size(), x, reader->axis);
  }

  std::vector<Seam> seams;

 private:
  static void widen_twins(Seam& seam, const Producer& producer, const Tensor& x) {
    const ChannelRanges ranges = channel_ranges_of(x, producer.axis);
    seam.min.resize(seam.fixed.size());
    seam.max.resize(seam.fixed.size());
    for (size_t i = 0; i < producer.channels.size(); ++i) {
      const auto c = static_cast<size_t>(producer.channels[i]);
      if (seam.twins[c] < 0) continue;
      seam.min[c] = std::min(seam.min[c], ranges.min[i]);
      seam.max[c] = std::max(seam.max[c], ranges.max[i]);
    }
  }

  std::map<const Node*, std::pair<Seam*, const Producer*>> made_;
  std::map<const Node*, std::vector<std::pair<Seam*, const Reader*>>> by_input_;
  std::map<const Node*, std::pair<Seam*, const Cut*>> clamped_;
};

void measure_seams(Recovery& recovery, std::vector<Seam>& seams) {
  const Prepared::Impl& impl = Prepared::Impl::of(recovery.prepared());
  Simulation exact(recovery.prepared());
  for (size_t i = 0; i < impl.groups.size(); ++i)
    if (impl.of_constants.count(impl.groups[i].observer.get()) == 0) exact.set_rounding(i, false);
  std::map<const Node*, std::pair<Seam*, const Reader*>> by_reader;
  std::map<const Seam*, std::vector<std::vector<float>>> factors;
  for (Seam& seam : seams) {
    if (seam.min.empty()) continue;
    for (const Reader& reader : seam.readers) by_reader[exact.node(*reader.node)] = {&seam, &reader};
    for (const double alpha : kAlphas) factors[&seam].push_back(factors_of(impl, seam, alpha));
  }
  const int64_t samples = recovery.is_rehearsal() ? 8 : 16;
  for (const Batch* batch : recovery.some_batches(samples)) {
    Interpreter::Walk walk = exact.walk(*batch);
    for (; walk.next() != nullptr; walk.advance()) {
      const auto found = by_reader.find(walk.next());
      if (found == by_reader.end()) continue;
      recovery.tell_again();
      const auto& [seam, reader] = found->second;
      add_errors_of(*seam, *reader, factors.at(seam), exact, impl, walk);
    }
  }
}

}  // namespace

std::unique_ptr<Watcher> watch_to_equalize(Recovery& recovery) {
  // What is rounded already cannot be shared out.
  if (!Prepared::Impl::of(recovery.prepared()).float_constants.empty()) return nullptr;
  std::vector<Seam> seams = seams_of(recovery.prepared());
  return seams.empty() ? nullptr : std::make_unique<SeamWatcher>(std::move(seams));
}

int64_t equalize(Recovery& recovery) {
  Prepared::Impl& impl = Prepared::Impl::of(recovery.prepared());
  const std::unique_ptr<Watcher> watcher = recovery.watched(watch_to_equalize);
  if (!watcher) return 0;
  std::vector<Seam>& seams = static_cast<SeamWatcher&>(*watcher).seams;
  measure_seams(recovery, seams);

  Rehearsal rehearsal(recovery, equalize, Rehearsal::When::kAlways);
  BeforeChannels before = before_channels(impl);
  Undo undo_all([&] { undo(impl, before); });
  const int64_t changed = change_channels(recovery, [&](std::vector<size_t>& touched) {
    int64_t places = 0;
    for (const Seam& seam : seams) {
      const auto best = std::min_element(seam.errors.begin(), seam.errors.end());
      constexpr double kWorthIt = 0.9;
      const bool readers_gain = *best < kWorthIt * seam.plain;
      if (seam.min.empty() || !(readers_gain || gains_by_twins(seam))) continue;
      std::vector<float> factors = factors_of(impl, seam, kAlphas[best - seam.errors.begin()]);
      for (size_t c = 0; c < factors.size() && !readers_gain; ++c)
        if (seam.twins[c] < 0) factors[c] = 1;
      apply_seam(recovery.prepared(), before, seam, factors);
      for (const Look& look : seam.looks) touched.push_back(look.observer);
      ++places;
    }
    return places;
  });
  if (changed == 0 || !rehearsal.succeeds()) return 0;
  undo_all.keep();
  recovery.forget_watchers();
  return changed;
}

}  // namespace qdq
