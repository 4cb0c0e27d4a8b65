#include "recover/output_error.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <numeric>

#include "op/math.h"

namespace qdq {

ChannelExtents channels_of_output(const Shape& sizes) {
  const auto product = [&](size_t from, size_t to) {
    return std::accumulate(sizes.begin() + static_cast<std::ptrdiff_t>(from),
                           sizes.begin() + static_cast<std::ptrdiff_t>(to), int64_t{1}, std::multiplies<>());
  };
  const size_t rank = sizes.size();
  if (rank < 3) return {1, 1, product(0, rank)};
  const size_t axis = rank == 3 ? 2 : 1;
  return {product(0, axis), sizes[axis], product(axis + 1, rank)};
}

namespace {

size_t place_of_largest(std::span<const float> row) {
  return static_cast<size_t>(std::max_element(row.begin(), row.end()) - row.begin());
}

// A channel that is lost may not hide the others, but still tells whether it comes nearer.
double damped(double share) { return share <= 1 ? share : 1 + math::log(share); }

}  // namespace

void OutputError::add(const std::vector<Tensor>& reference, const std::vector<Tensor>& found) {
  QDQ_CHECK(reference.size() == found.size(), kInvalidArgument, "there are ", reference.size(), " outputs and ",
            found.size(), " to compare with");
  OutputError of_batch;
  of_batch.outputs_.resize(reference.size());
  for (size_t i = 0; i < reference.size(); ++i) {
    if (!is_floating(reference[i].dtype()) || reference[i].numel() == 0) continue;
    QDQ_CHECK(reference[i].sizes() == found[i].sizes(), kInvalidArgument, "output ", i, " has the sizes ",
              to_string(reference[i].sizes()), " and ", to_string(found[i].sizes()));
    const Tensor x = reference[i].to(DType::kF32).contiguous(), y = found[i].to(DType::kF32).contiguous();
    const ChannelExtents extents = channels_of_output(x.sizes());
    std::vector<Sums>& sums = of_batch.outputs_[i];
    sums.resize(static_cast<size_t>(extents.channels));
    const std::span<const float> a = x.span<float>(), b = y.span<float>();
    if (i == 0 && x.dim() == 2 && x.size(1) > 1) {
      const auto classes = static_cast<size_t>(x.size(1));
      for (size_t row = 0; row < a.size(); row += classes)
        of_batch.other_answers_ +=
            place_of_largest(a.subspan(row, classes)) != place_of_largest(b.subspan(row, classes)) ? 1 : 0;
      of_batch.answers_ = x.size(0);
    }
    size_t at = 0;
    for (int64_t outer = 0; outer < extents.outer; ++outer)
      for (int64_t channel = 0; channel < extents.channels; ++channel) {
        Sums& sum = sums[static_cast<size_t>(channel)];
        for (int64_t inner = 0; inner < extents.inner; ++inner, ++at) {
          if (!std::isfinite(a[at])) continue;
          const double value = a[at], difference = value - b[at];
          sum.count += 1;
          sum.sum += value;
          sum.squares += value * value;
          sum.noise += std::isfinite(difference) ? difference * difference : value * value + 1;
        }
      }
  }
  add(of_batch);
}

void OutputError::add(const OutputError& other) {
  answers_ += other.answers_;
  other_answers_ += other.other_answers_;
  outputs_.resize(std::max(outputs_.size(), other.outputs_.size()));
  for (size_t i = 0; i < other.outputs_.size(); ++i) {
    const std::vector<Sums>& from = other.outputs_[i];
    std::vector<Sums>& to = outputs_[i];
    to.resize(std::max(to.size(), from.size()));
    for (size_t c = 0; c < from.size(); ++c) {
      to[c].count += from[c].count;
      to[c].sum += from[c].sum;
      to[c].squares += from[c].squares;
      to[c].noise += from[c].noise;
    }
  }
}

namespace {

constexpr double kNothingDiffers = 200;

double decibels_of(double share) {
  return share == 0 ? kNothingDiffers : std::min(kNothingDiffers, -10 / std::numbers::ln10 * math::log(share));
}

}  // namespace

// Noise over signal of an output; nothing if it had no elements or is zero in both programs.
std::optional<double> OutputError::share_of(const std::vector<Sums>& sums) {
  const auto signal_of = [](const Sums& sum) { return std::max(0.0, sum.squares - sum.sum * sum.sum / sum.count); };
  double signal = 0, squares = 0, noise = 0;
  int64_t channels = 0;
  for (const Sums& sum : sums) {
    if (sum.count == 0) continue;
    signal += signal_of(sum);
    squares += sum.squares;
    noise += sum.noise;
    ++channels;
  }
  if (channels == 0 || (squares == 0 && noise == 0)) return std::nullopt;
  // An output that never changes says nothing but whether the quantized one changes it.
  constexpr double kNothing = 1e-12, kFaint = 0.01;
  if (!(signal > kNothing * squares)) return damped(noise / std::max(squares, 1e-30));
  const double faint = kFaint * signal / static_cast<double>(channels);
  double out = 0;
  for (const Sums& sum : sums)
    if (sum.count != 0) out += damped(sum.noise / (signal_of(sum) + faint));
  return out / static_cast<double>(channels) * (1 + kFaint);
}

double OutputError::decibels() const {
  double share = 0;
  int64_t outputs = 0;
  for (const std::vector<Sums>& sums : outputs_)
    if (const auto of_output = share_of(sums)) {
      share += *of_output;
      ++outputs;
    }
  return outputs == 0 ? kNothingDiffers : decibels_of(share / static_cast<double>(outputs));
}

double OutputError::decibels(size_t output) const {
  return output < outputs_.size() ? decibels_of(share_of(outputs_[output]).value_or(0)) : kNothingDiffers;
}

}  // namespace qdq
