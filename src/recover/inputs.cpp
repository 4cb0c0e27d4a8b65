// Values in front of the first layers whose channels have nothing in common: columns of a table, sensors, embeddings.
#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <span>
#include <tuple>
#include <unordered_set>
#include <utility>

#include "base/undo.h"
#include "op/facts.h"
#include "op/math.h"
#include "op/targets.h"
#include "recover/recovery.h"
#include "recover/seams.h"

namespace qdq {

namespace {

constexpr const char* kScalesInputs =
    "recovery put it in front of the first layer, so that channels of different ranges share one scale";
// In dB: less is not worth a difference and a product in float.
constexpr double kWorthFloats = 6;
// In dB: outputs that are as near are near enough.
constexpr double kNearEnough = 20;

// A value that layers alone read, through one observer, and that no layer or norm makes.
struct Feature {
  Node* observer;  // its call_module node
  Seam seam;       // without a producer: each channel minus its offset is what comes in
  bool can_shift;  // the readers take an offset back in their biases
  std::vector<float> offsets{};
};

bool is_layer(const Node& node) { return multiplies_tensors(node) && !is_a(node, Family::kEmbedding); }

// The observers of activations in front of the first layers.
std::vector<Node*> observers_in_front(const Prepared::Impl& impl) {
  std::unordered_set<const Node*> behind;
  std::vector<Node*> out;
  for (Node* node : impl.program.graph->nodes()) {
    const std::vector<Node*> inputs = node->input_nodes();
    if (is_layer(*node) || std::any_of(inputs.begin(), inputs.end(), [&](Node* x) { return behind.count(x) != 0; }))
      behind.insert(node);
    else if (const auto group = impl.group_of_module(*node);
             group && impl.of_constants.count(impl.groups[*group].observer.get()) == 0)
      out.push_back(node);
  }
  return out;
}

bool feeds_layer(const Node& observer) {
  const auto& users = observer.users();
  return std::any_of(users.begin(), users.end(), [](const Node* user) { return is_layer(*user); });
}

std::optional<Feature> feature_of(const Prepared::Impl& impl, Node& observer) {
  const size_t group = *impl.group_of_module(observer);
  const TensorMeta* value = observer.meta.val.tensor();
  if (!takes_one_range(impl, group) || value == nullptr || value->dtype != DType::kF32 || observer.users().empty() ||
      producer_of(impl, *observer.arg(0).node()))
    return std::nullopt;
  Feature out{&observer, {}, true};
  std::optional<int64_t> axis;
  for (const Node* user : observer.users()) {
    if (user->op() != Node::Op::kCallFunction || op_of(*user) == nullptr) return std::nullopt;
    const int64_t channels_at = is_plain_convolution(*user) ? 1 : std::ssize(value->sizes) - 1;
    auto reader = reader_of(impl, *user, observer, channels_at);
    if (!reader || axis.value_or(channels_at) != channels_at) return std::nullopt;
    axis = channels_at;
    out.can_shift = out.can_shift && takes_offset(*user);
    out.seam.readers.push_back(std::move(*reader));
  }
  const auto count = value->sizes[static_cast<size_t>(*axis)].constant();
  if (!count || *count < 2) return std::nullopt;
  std::vector<int64_t> channels;
  for (int64_t c = 0; c < *count; ++c) channels.push_back(c);
  for (Reader& reader : out.seam.readers) reader.channels = channels;
  out.seam.looks.push_back({group, channels});
  out.seam.fixed.resize(channels.size());
  return out;
}

// What each channel has on the samples.
class InputWatcher : public Watcher {
 public:
  explicit InputWatcher(std::vector<Feature> found) : features(std::move(found)) {}

  void see(const Node& node, const Tensor& x) override {
    for (Feature& feature : features) {
      if (feature.observer != &node) continue;
      const ChannelRanges ranges = channel_ranges_of(x, feature.seam.readers[0].axis);
      std::vector<float>&min = feature.seam.min, &max = feature.seam.max;
      min.resize(ranges.min.size(), kInf);
      max.resize(ranges.max.size(), -kInf);
      for (size_t c = 0; c < min.size(); ++c) {
        min[c] = std::min(min[c], ranges.min[c]);
        max[c] = std::max(max[c], ranges.max[c]);
      }
    }
  }

  std::vector<Feature> features;
};

// Moves the channels to the middle of their ranges, where the readers allow it; whether one range for all of them then
// leaves the most of most channels' integers unused.
bool center(Feature& feature) {
  std::vector<float>&min = feature.seam.min, &max = feature.seam.max;
  feature.offsets.assign(min.size(), 0);
  float low = 0, high = 0;
  for (size_t c = 0; c < min.size(); ++c) {
    low = std::min(low, min[c]);
    high = std::max(high, max[c]);
  }
  double lost = 0;
  int64_t speaking = 0;
  for (size_t c = 0; c < min.size(); ++c) {
    if (feature.can_shift && std::isfinite(min[c] / 2 + max[c] / 2)) feature.offsets[c] = min[c] / 2 + max[c] / 2;
    min[c] -= feature.offsets[c];
    max[c] -= feature.offsets[c];
    const float width = std::max(max[c], 0.0f) - std::min(min[c], 0.0f);
    if (!(width > 0) || !std::isfinite(width)) continue;
    lost += math::log(static_cast<double>(high) - static_cast<double>(low)) - math::log(static_cast<double>(width));
    ++speaking;
  }
  constexpr double kWorthIt = 0.6931;  // half of the integers
  return speaking > 0 && lost > kWorthIt * static_cast<double>(speaking);
}

// (x - offset) * scale in front of the observers, with a constant for each channel, and the offsets in the readers'
// biases.
class Insertion {
 public:
  Insertion(Prepared::Impl& impl, std::vector<Feature>& features) : impl_(impl), features_(features) {
    for (const Feature& feature : features_) {
      for (const Reader& reader : feature.seam.readers)
        if (feature.can_shift) biases_.push_back(take_back(impl_, reader, feature.offsets));
      if (feature.can_shift) insert(feature, op::kSub, "offset", feature.offsets);
      scales_.push_back(insert(feature, op::kMul, "scale", std::vector<float>(feature.offsets.size(), 1)));
    }
    impl_.interpreter.reset();
  }
  ~Insertion() {
    if (is_kept_) return;
    for (auto bias = biases_.rbegin(); bias != biases_.rend(); ++bias) undo(impl_, *bias);
    for (auto node = inserted_.rbegin(); node != inserted_.rend(); ++node) {
      Node* const constant = (*node)->arg(1).node();
      (*node)->replace_all_uses_with((*node)->arg(0).node());
      impl_.program.graph->erase(*node);
      impl_.program.erase_attribute(constant->target());
      impl_.program.graph->erase(constant);
    }
    impl_.interpreter.reset();
  }
  Insertion(const Insertion&) = delete;
  Insertion& operator=(const Insertion&) = delete;
  void keep() { is_kept_ = true; }

  // Divides the channels by the factors for this alpha, and multiplies the columns of the readers' weights.
  void scale(Prepared& prepared, BeforeChannels& before, double alpha) {
    for (size_t i = 0; i < features_.size(); ++i) {
      const Seam& seam = features_[i].seam;
      const std::vector<float> factors = factors_of(impl_, seam, alpha);
      const std::span<float> scale = impl_.program.find_attribute(scales_[i])->tensor.span<float>();
      for (size_t c = 0; c < scale.size(); ++c) scale[c] = 1 / factors[c];
      apply_seam(prepared, before, seam, factors);
      const size_t observer = seam.looks[0].observer;
      const FloatRange range = range_seen(seam, observer, factors);
      prepared.set_range(observer, Tensor::scalar(range.min), Tensor::scalar(range.max));
    }
  }

 private:
  // Returns the name of the constant.
  std::string insert(const Feature& feature, std::string_view target, const char* word,
                     const std::vector<float>& values) {
    Graph& graph = *impl_.program.graph;
    Node* const value = feature.observer->arg(0).node();
    std::vector<int64_t> sizes(value->meta.val.tensor()->sizes.size(), 1);
    sizes[static_cast<size_t>(feature.seam.readers[0].axis)] = std::ssize(values);
    const std::string name = impl_.program.unique_attribute_name(concat(value->name(), "_", word));
    impl_.program.add_attribute(
        {name, Tensor::of<float>(sizes, std::span<const float>(values)), Attribute::Kind::kBuffer, true, false});
    const auto point = graph.insert_before(feature.observer);
    Node* const constant = graph.get_attr(name);
    constant->meta.val.value = TensorMeta{DType::kF32, SymShape(sizes.begin(), sizes.end()), {}, false};
    inserted_.push_back(graph.call(std::string(target), {value, constant}));
    inserted_.back()->meta.val = value->meta.val;
    inserted_.back()->meta.nn_module_stack = feature.seam.readers[0].node->meta.nn_module_stack;
    feature.observer->replace_input_with(value, inserted_.back());
    impl_.annotations.note(inserted_.back(), {"", "", true, kScalesInputs});
    return name;
  }

  Prepared::Impl& impl_;
  const std::vector<Feature>& features_;
  std::vector<OwnBias> biases_;
  std::vector<Node*> inserted_;
  std::vector<std::string> scales_;
  bool is_kept_ = false;
};

}  // namespace

std::unique_ptr<Watcher> watch_inputs(Recovery& recovery) {
  Prepared::Impl& impl = Prepared::Impl::of(recovery.prepared());
  // What is rounded already cannot be shared out, and integers come in as they are.
  if (!impl.float_constants.empty() || !impl.interface.inputs.empty()) return nullptr;
  std::vector<Feature> features;
  for (Node* node : observers_in_front(impl))
    if (auto feature = feature_of(impl, *node)) features.push_back(std::move(*feature));
  return features.empty() ? nullptr : std::make_unique<InputWatcher>(std::move(features));
}

int64_t scale_inputs(Recovery& recovery) {
  Prepared::Impl& impl = Prepared::Impl::of(recovery.prepared());
  const bool is_judged = !recovery.is_rehearsal();  // a rehearsal judges by other samples
  const double before_all = is_judged ? recovery.decibels() : 0;
  const std::unique_ptr<Watcher> watcher = before_all > kNearEnough ? nullptr : recovery.watched(watch_inputs);
  if (!watcher) return 0;
  std::vector<Feature>& features = static_cast<InputWatcher&>(*watcher).features;
  std::erase_if(features, [](Feature& feature) { return feature.seam.min.empty() || !center(feature); });
  if (features.empty()) return 0;
  std::vector<Node*> loose;
  for (Node* node : observers_in_front(impl))
    if (!feeds_layer(*node)) loose.push_back(node);

  Rehearsal rehearsal(recovery, scale_inputs, Rehearsal::When::kFewSamples);
  BeforeChannels before = before_channels(impl);
  std::optional<Insertion> insertion;
  Undo undo_all([&] {
    undo(impl, before);
    insertion.reset();
    recovery.forget_simulation();
  });
  insertion.emplace(impl, features);
  const auto decibels_with = [&](double alpha) {
    insertion->scale(recovery.prepared(), before, alpha);
    recovery.forget_simulation();
    for (const Node* node : loose) recovery.simulation().bypass(*node);
    return recovery.decibels();
  };
  double most = 0, best = 0;
  for (const double alpha : kAlphas) {
    const double found = decibels_with(alpha);
    if (best == 0 || found > most) std::tie(most, best) = std::pair(found, alpha);
    undo(impl, before);
    before = before_channels(impl);
  }
  if (is_judged && !(most > before_all + kWorthFloats)) return 0;
  insertion->scale(recovery.prepared(), before, best);
  recovery.forget_simulation();
  if (!rehearsal.succeeds()) return 0;
  insertion->keep();
  undo_all.keep();
  erase_observers(impl, loose, kLeftInFloat);
  recovery.forget_simulation();
  return std::ssize(features);
}

}  // namespace qdq
