#include "recover/channel_changes.h"

#include <algorithm>
#include <map>

#include "quant/observers/fake_quantize.h"
#include "quant/observers/range_histogram.h"

namespace qdq {

namespace {

// In dB: less is not worth other weights.
constexpr double kLeastGain = 1;

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

}  // namespace

BeforeChannels before_channels(const Prepared::Impl& impl) {
  BeforeChannels before;
  for (const ObserverGroup& group : impl.groups) before.observers.push_back(group.observer);
  before.of_constants = impl.of_constants;
  return before;
}

void undo(Prepared::Impl& impl, BeforeChannels& before) {
  for (auto at = before.constants.rbegin(); at != before.constants.rend(); ++at)
    impl.program.find_attribute(at->first)->tensor = at->second;
  for (size_t i = 0; i < impl.groups.size(); ++i) impl.groups[i].observer = before.observers[i];
  impl.of_constants.swap(before.of_constants);
  impl.interpreter.reset();
}

void set_constant(Prepared& prepared, BeforeChannels& before, const OwnConstant& constant, const Tensor& value) {
  Prepared::Impl& impl = Prepared::Impl::of(prepared);
  Tensor& tensor = impl.program.find_attribute(constant.name)->tensor;
  before.constants.emplace_back(constant.name, tensor);
  tensor = value;
  if (!constant.observer) return;
  const Observer& observer = *impl.groups[*constant.observer].observer;
  if (observer.args().group_size != 0) {
    const Observer& original = *before.observers[*constant.observer];
    const auto seen = make_observer(std::string(original.class_name()), original.args());
    seen->forward(value);
    prepared.set_range(*constant.observer, seen->min_val(), seen->max_val());
  } else if (is_per_channel(observer.args().qscheme)) {
    const ChannelRanges ranges = channel_ranges_of(value, observer.args().ch_axis);
    const auto count = static_cast<int64_t>(ranges.min.size());
    prepared.set_range(*constant.observer, Tensor::of<float>({count}, std::span<const float>(ranges.min)),
                       Tensor::of<float>({count}, std::span<const float>(ranges.max)));
  } else {
    const FloatRange range = range_of(value);
    prepared.set_range(*constant.observer, Tensor::scalar(range.min), Tensor::scalar(range.max));
  }
}

bool takes_one_range(const Prepared::Impl& impl, size_t observer) {
  return impl.takes_range(observer) && !is_per_channel(impl.groups[observer].observer->args().qscheme);
}

int64_t change_channels(Recovery& recovery, const std::function<int64_t(std::vector<size_t>& touched)>& change) {
  constexpr int64_t kSamples = 32;
  // A rehearsal judges by other samples.
  const bool is_judged = !recovery.is_rehearsal();
  const double decibels = is_judged ? recovery.decibels() : 0, of_some = is_judged ? recovery.decibels(kSamples) : 0;
  std::vector<size_t> touched;
  const int64_t changed = change(touched);
  if (changed == 0) return 0;
  const std::map<size_t, RangeHistogram> histograms = observe_again(recovery, touched);
  const auto measured = [&](bool whole) {
    set_ranges(recovery, histograms, whole);
    return recovery.decibels(kSamples);
  };
  const double whole = measured(true), least = measured(false);
  if (is_judged && !(std::max(whole, least) > of_some + kLeastGain)) return 0;
  if (whole > least) set_ranges(recovery, histograms, true);
  return !is_judged || recovery.decibels() > decibels + kLeastGain ? changed : 0;
}

}  // namespace qdq
