// Shifts of channels between layers: absorption of high biases, and channels moved to the middle of the range.
#include <algorithm>
#include <map>

#include "base/undo.h"
#include "op/facts.h"
#include "recover/recovery.h"
#include "recover/seams.h"

namespace qdq {

namespace {

// Values whose channels can be shifted: what makes them adds a bias of its own, at most one clamp is behind it, and all
// that reads them takes a shift back in its bias.
struct Shifted {
  Producer producer;
  int64_t axis;  // of the channels
  FloatRange clamp{-kInf, kInf};
  std::vector<Reader> readers{};
  std::vector<size_t> observers{};
  std::vector<float> min{}, max{};  // of each channel, as the producer makes it
};

// Notes what reads `value`, through observers and one clamp. False if something reads it that takes no shift back.
bool add_readers(const Prepared::Impl& impl, const Node& value, Shifted& out) {
  for (const Node* user : value.users()) {
    if (const auto observer = impl.group_of_module(*user)) {
      if (!takes_one_range(impl, *observer)) return false;
      out.observers.push_back(*observer);
      if (!add_readers(impl, *user, out)) return false;
      continue;
    }
    if (user->op() != Node::Op::kCallFunction || op_of(*user) == nullptr) return false;
    if (auto reader = reader_of(impl, *user, value, out.axis)) {
      if (!takes_offset(*user)) return false;
      out.readers.push_back(std::move(*reader));
      continue;
    }
    const auto function = activation_function(*user);
    if (!function || function->kind != kernel::Activation::Kind::kClamp || value.users().size() != 1 ||
        out.clamp.min > -kInf || out.clamp.max < kInf)
      return false;
    out.clamp = {static_cast<float>(function->low), static_cast<float>(function->high)};
    if (!add_readers(impl, *user, out)) return false;
  }
  return true;
}

std::vector<Shifted> shifted_values(const Prepared::Impl& impl) {
  std::vector<Shifted> out;
  for (const Node* node : impl.program.graph->nodes()) {
    auto producer = producer_of(impl, *node);
    if (!producer || !producer->first.bias) continue;
    Shifted one{std::move(producer->first), producer->second};
    if (!add_readers(impl, *node, one) || one.readers.empty() || one.observers.empty()) continue;
    const int64_t channels = impl.program.find_attribute(one.producer.bias->name)->tensor.numel();
    for (Reader& reader : one.readers)
      for (int64_t c = 0; c < channels; ++c) reader.channels.push_back(c);
    out.push_back(std::move(one));
  }
  return out;
}

class ShiftWatcher : public Watcher {
 public:
  explicit ShiftWatcher(std::vector<Shifted> found) : values(std::move(found)) {
    for (Shifted& value : values) by_node_[value.producer.node] = &value;
  }

  void see(const Node& node, const Tensor& x) override {
    const auto found = by_node_.find(&node);
    if (found == by_node_.end()) return;
    const ChannelRanges ranges = channel_ranges_of(x, found->second->axis);
    std::vector<float>&min = found->second->min, &max = found->second->max;
    min.resize(ranges.min.size(), kInf);
    max.resize(ranges.max.size(), -kInf);
    for (size_t c = 0; c < min.size(); ++c) {
      min[c] = std::min(min[c], ranges.min[c]);
      max[c] = std::max(max[c], ranges.max[c]);
    }
  }

  std::vector<Shifted> values;

 private:
  std::map<const Node*, Shifted*> by_node_;
};

// What each channel loses. Behind a clamp a channel that stays above its lower bound on the samples comes down to it,
// and the others keep their place; without one, each comes to the middle.
std::vector<float> offsets_of(const Shifted& value) {
  std::vector<float> out;
  const bool is_clamped = value.clamp.min > -kInf || value.clamp.max < kInf;
  for (size_t c = 0; c < value.min.size(); ++c) {
    const float min = value.min[c], max = value.max[c];
    if (!is_clamped) out.push_back(min / 2 + max / 2);
    else
      out.push_back(min > value.clamp.min && max <= value.clamp.max && value.clamp.min > -kInf ? min - value.clamp.min
                                                                                               : 0);
  }
  return out;
}

// How wide a range the values have, 0 included.
double width_of(const Shifted& value, const std::vector<float>& offsets) {
  FloatRange range{0, 0};
  for (size_t c = 0; c < offsets.size(); ++c)
    range = {std::min(range.min, std::max(value.min[c], value.clamp.min) - offsets[c]),
             std::max(range.max, std::min(value.max[c], value.clamp.max) - offsets[c])};
  return static_cast<double>(range.max) - static_cast<double>(range.min);
}

// Subtracts the offsets from the producer's bias, and adds what they weigh to the biases of the readers.
void shift(Recovery& recovery, BeforeChannels& before, std::vector<OwnBias>& biases, const Shifted& value,
           const std::vector<float>& offsets) {
  Prepared::Impl& impl = Prepared::Impl::of(recovery.prepared());
  const Tensor bias = impl.program.find_attribute(value.producer.bias->name)->tensor.contiguous().clone();
  for (size_t c = 0; c < offsets.size(); ++c) bias.span<float>()[c] -= offsets[c];
  set_constant(recovery.prepared(), before, *value.producer.bias, bias);
  for (const Reader& reader : value.readers) biases.push_back(take_back(impl, reader, offsets));
}

}  // namespace

std::unique_ptr<Watcher> watch_to_shift(Recovery& recovery) {
  const Prepared::Impl& impl = Prepared::Impl::of(recovery.prepared());
  if (!impl.float_constants.empty()) return nullptr;  // what is rounded already cannot be moved
  std::vector<Shifted> values = shifted_values(impl);
  return values.empty() ? nullptr : std::make_unique<ShiftWatcher>(std::move(values));
}

int64_t shift_channels(Recovery& recovery) {
  Prepared::Impl& impl = Prepared::Impl::of(recovery.prepared());
  const std::unique_ptr<Watcher> watcher = recovery.watched(watch_to_shift);
  if (!watcher) return 0;
  std::vector<std::pair<const Shifted*, std::vector<float>>> moved;
  for (const Shifted& value : static_cast<ShiftWatcher&>(*watcher).values) {
    constexpr double kWorthIt = 0.8;
    std::vector<float> offsets = offsets_of(value);
    if (width_of(value, offsets) < kWorthIt * width_of(value, std::vector<float>(offsets.size())))
      moved.emplace_back(&value, std::move(offsets));
  }
  if (moved.empty()) return 0;
  Rehearsal rehearsal(recovery, shift_channels, Rehearsal::When::kAlways);
  BeforeChannels before = before_channels(impl);
  std::vector<OwnBias> biases;
  Undo undo_all([&] {
    undo(impl, before);
    for (auto bias = biases.rbegin(); bias != biases.rend(); ++bias) undo(impl, *bias);
    recovery.forget_simulation();
  });
  const int64_t changed = change_channels(recovery, [&](std::vector<size_t>& touched) {
    for (const auto& [value, offsets] : moved) {
      shift(recovery, before, biases, *value, offsets);
      touched.insert(touched.end(), value->observers.begin(), value->observers.end());
    }
    impl.interpreter.reset();
    recovery.forget_simulation();
    return std::ssize(moved);
  });
  if (changed == 0 || !rehearsal.succeeds()) return 0;
  undo_all.keep();
  return changed;
}

}  // namespace qdq
