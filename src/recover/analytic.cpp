// Bias correction by what batch norms tell, without data.
#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "op/facts.h"
#include "op/math.h"
#include "quant/layer_places.h"
#include "quant/layers.h"
#include "recover/moments.h"
#include "recover/statistics.h"

namespace qdq {

namespace {

// Of each channel along axis 1; as a normal distribution, which behind a clamp or a sum is an approximation.
struct ChannelMoments {
  std::vector<double> mean, variance;
};

struct NormalMoments {
  double mean, square;
};

double density(double z) { return std::isfinite(z) ? 0.3989422804014327 * math::exp(-0.5 * z * z) : 0; }
double share_below(double z) {
  if (!std::isfinite(z)) return z > 0 ? 1 : 0;
  return 0.5 * math::erfc(-z * 0.7071067811865476);
}

// E(y) and E(y^2) of y = min(max(x, low), high), x normally distributed.
NormalMoments clamped_normal(double mean, double deviation, double low, double high) {
  if (!(deviation > 0)) {
    const double value = std::fmin(std::fmax(mean, low), high);
    return {value, value * value};
  }
  const double a = (low - mean) / deviation, b = (high - mean) / deviation;
  const double below = share_below(a), above = 1 - share_below(b), within = share_below(b) - below;
  const double at_low = density(a), at_high = density(b);
  const auto bound = [](double value, double factor) { return std::isfinite(value) ? value * factor : 0; };
  return {bound(low, below) + bound(high, above) + mean * within + deviation * (at_low - at_high),
          bound(low, bound(low, below)) + bound(high, bound(high, above)) +
              (mean * mean + deviation * deviation) * within +
              deviation * (bound(low + mean, at_low) - bound(high + mean, at_high))};
}

// What the values of a prepared program are like where batch norms tell.
class KnownMoments {
 public:
  explicit KnownMoments(const Prepared::Impl& impl) : impl_(impl) {}

  // Null where it is not known.
  const ChannelMoments* of(const Node* node) {
    if (node == nullptr) return nullptr;
    const auto [at, is_new] = known_.try_emplace(node);
    if (is_new) {
      std::optional<ChannelMoments> found = find(*node);
      at->second = std::move(found);
    }
    const auto& found = known_.at(node);
    return found ? &*found : nullptr;
  }

 private:
  std::optional<ChannelMoments> find(const Node& node) {
    if (const auto normals = impl_.normals.find(node.name()); normals != impl_.normals.end()) {
      ChannelMoments out;
      out.mean.assign(normals->second.mean.begin(), normals->second.mean.end());
      for (const float deviation : normals->second.deviation)
        out.variance.push_back(static_cast<double>(deviation) * static_cast<double>(deviation));
      return out;
    }
    if (node.op() == Node::Op::kCallModule) return copy_of(node.arg(0).node(), node);
    if (const auto activation = activation_function(node)) return behind(*activation, input_of(node));
    if (is_a(node, Family::kAdd)) return sum_of(node);
    if (passes_channels(node)) return copy_of(node.arg(0).node(), node);
    return std::nullopt;
  }

  // Whether the operator leaves the channels along axis 1 where they are, if it does not change how many there are.
  static bool passes_channels(const Node& node) {
    for (const Family family : {Family::kPad, Family::kAveragePool, Family::kCopy, Family::kDropout})
      if (is_a(node, family)) return true;
    const std::string_view name = node.op() == Node::Op::kCallFunction ? base_name(node.target()) : "";
    if (is_a(node, Family::kView)) return name == "flatten" || name == "view" || name == "reshape" || name == "squeeze";
    const TensorMeta* read = is_a(node, Family::kMean) ? node.arg(0).node()->meta.val.tensor() : nullptr;
    const Argument& axes = read != nullptr ? node.arg(1) : Argument();
    if (read == nullptr || !axes.is_list()) return false;
    const auto rank = static_cast<int64_t>(read->sizes.size());
    return std::all_of(axes.list().begin(), axes.list().end(), [&](const Argument& axis) {
      const int64_t at = axis.integer().value_or(0);
      return (at < 0 ? at + rank : at) >= 2;
    });
  }

  std::optional<ChannelMoments> copy_of(const Node* input, const Node& node) {
    const ChannelMoments* from = of(input);
    if (from == nullptr || node.op() == Node::Op::kCallModule) return from ? std::optional(*from) : std::nullopt;
    const TensorMeta *meta = node.meta.val.tensor(), *read = input->meta.val.tensor();
    const auto channels = static_cast<int64_t>(from->mean.size());
    if (meta == nullptr || read == nullptr || meta->sizes.size() < 2 || !(meta->sizes[0] == read->sizes[0]) ||
        meta->sizes[1].constant() != channels)
      return std::nullopt;
    return *from;
  }

  std::optional<ChannelMoments> behind(const kernel::Activation& activation, const Node* input) {
    const ChannelMoments* from = of(input);
    if (from == nullptr || activation.kind != kernel::Activation::Kind::kClamp) return std::nullopt;
    ChannelMoments out;
    for (size_t c = 0; c < from->mean.size(); ++c) {
      const NormalMoments found =
          clamped_normal(from->mean[c], std::sqrt(from->variance[c]), activation.low, activation.high);
      out.mean.push_back(found.mean);
      out.variance.push_back(std::fmax(0.0, found.square - found.mean * found.mean));
    }
    return out;
  }

  std::optional<ChannelMoments> sum_of(const Node& node) {
    if (argument_called(node, "alpha").number().value_or(1) != 1) return std::nullopt;
    const ChannelMoments *a = of(node.arg(0).node()), *b = of(node.arg(1).node());
    if (a == nullptr || b == nullptr || a->mean.size() != b->mean.size()) return std::nullopt;
    ChannelMoments out = *a;
    for (size_t c = 0; c < out.mean.size(); ++c) {
      out.mean[c] += b->mean[c];
      out.variance[c] += b->variance[c];
    }
    return out;
  }

  const Prepared::Impl& impl_;
  std::unordered_map<const Node*, std::optional<ChannelMoments>> known_;
};

// What layers read on average, as moments whose sums are of so many places.
MomentsOfLayers moments_by_norms(const Prepared& prepared) {
  const Prepared::Impl& impl = Prepared::Impl::of(prepared);
  KnownMoments known(impl);
  MomentsOfLayers moments;
  for (const QuantizedLayer& layer : quantized_layers(prepared)) {
    const auto constant = own_constant(impl, weight_of(*layer.node));
    const ChannelMoments* read = known.of(input_of(*layer.node));
    if (!constant || read == nullptr) continue;
    const auto product = product_of(*layer.node, impl.program.find_attribute(constant->name)->tensor);
    const auto channels = static_cast<int64_t>(read->mean.size());
    if (!product || channels == 0 || product->groups * product->depth % channels != 0) continue;
    const int64_t taps = product->groups * product->depth / channels;
    constexpr int64_t kPlaces = 1 << 20;
    LayerMoments& out = moments[layer.node->name()];
    out.groups = product->groups;
    out.depth = product->depth;
    out.places = kPlaces;
    for (int64_t i = 0; i < product->groups * product->depth; ++i)
      out.sums.push_back(read->mean[static_cast<size_t>(i / taps)] * static_cast<double>(kPlaces));
  }
  return moments;
}

}  // namespace

bool recovers_without_data(const Prepared& prepared) { return !moments_by_norms(prepared).empty(); }

AppliedRemedy recover_without_data(Prepared& prepared) {
  Prepared::Impl& impl = Prepared::Impl::of(prepared);
  impl.check_idle();
  QDQ_CHECK(!impl.is_qat, kInvalidArgument,
            "the program was prepared for training, which recovers accuracy itself; wanted one from prepare_pt2e");
  const MomentsOfLayers moments = moments_by_norms(prepared);
  const AppliedRemedy out{"bias correction", moments.empty() ? 0 : correct_biases_by(prepared, moments)};
  impl.interpreter.reset();
  return out;
}

}  // namespace qdq
