#include "recover/lost_channels.h"

#include <algorithm>
#include <cmath>

#include "recover/output_error.h"

namespace qdq {

void LostChannels::Range::add(float value) {
  if (!std::isfinite(value)) return;
  low = std::min(low, value);
  high = std::max(high, value);
}

void LostChannels::add(const std::vector<Tensor>& reference, const std::vector<Tensor>& found) {
  outputs_.resize(std::max(outputs_.size(), reference.size()));
  for (size_t i = 0; i < reference.size(); ++i) {
    if (!is_floating(reference[i].dtype()) || reference[i].sizes() != found[i].sizes()) continue;
    const Tensor x = reference[i].to(DType::kF32).contiguous(), y = found[i].to(DType::kF32).contiguous();
    const ChannelExtents extents = channels_of_output(x.sizes());
    std::vector<Channel>& channels = outputs_[i];
    channels.resize(std::max(channels.size(), static_cast<size_t>(extents.channels)));
    const std::span<const float> a = x.span<float>(), b = y.span<float>();
    size_t at = 0;
    for (int64_t outer = 0; outer < extents.outer; ++outer)
      for (int64_t c = 0; c < extents.channels; ++c)
        for (int64_t inner = 0; inner < extents.inner; ++inner, ++at) {
          channels[static_cast<size_t>(c)].reference.add(a[at]);
          channels[static_cast<size_t>(c)].found.add(b[at]);
        }
  }
}

std::optional<LostChannels::Loss> LostChannels::of(size_t output) const {
  constexpr float kTelling = 0.05f;
  if (output >= outputs_.size()) return std::nullopt;
  const std::vector<Channel>& channels = outputs_[output];
  Loss loss{0, channels.size(), 0, 0};
  for (size_t c = 0; c < channels.size(); ++c) {
    const auto& [reference, found] = channels[c];
    const float span = reference.high - reference.low;
    if (!(span >= kTelling) || found.low != found.high) continue;
    if (loss.lost++ == 0) loss.first = c;
    loss.span = std::max(loss.span, span);
  }
  return loss.lost == 0 || loss.lost == loss.channels ? std::nullopt : std::optional(loss);
}

}  // namespace qdq
