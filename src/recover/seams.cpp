#include "recover/seams.h"

#include <algorithm>
#include <cmath>

#include "op/facts.h"
#include "op/math.h"
#include "quant/observers/fake_quantize.h"

namespace qdq {

namespace {

// The least factor that keeps a channel within the clamps on the samples; nothing if they cut it as it is, or it has to
// stay.
std::optional<double> least_factor(const Seam& seam, size_t channel) {
  if (seam.fixed[channel]) return std::nullopt;
  if (!has_clamps(seam)) return 0;
  const double low = static_cast<double>(seam.low[channel]) / static_cast<double>(seam.clamps.min);
  const double high = static_cast<double>(seam.high[channel]) / static_cast<double>(seam.clamps.max);
  const double least = std::max({low, high, 0.0});
  return least < 1 ? std::optional(least) : std::nullopt;
}

}  // namespace

namespace {

double size_of(const Seam& seam, size_t channel) {
  return std::max(std::fabs(seam.min[channel]), std::fabs(seam.max[channel]));
}

// The number of the twin, for the one of the two that comes first, if both can be scaled.
std::optional<size_t> twin_of(const Seam& seam, size_t channel) {
  const int64_t twin = channel < seam.twins.size() ? seam.twins[channel] : -1;
  if (twin <= static_cast<int64_t>(channel) || seam.fixed[channel] || seam.fixed[static_cast<size_t>(twin)])
    return std::nullopt;
  const auto other = static_cast<size_t>(twin);
  return size_of(seam, channel) > 0 && size_of(seam, other) > 0 ? std::optional(other) : std::nullopt;
}

}  // namespace

// Of a sum of a_c b_c, where each operand is rounded by the size of its largest channel A or B, the noise grows as
// A^2 sum b_c^2 + B^2 sum a_c^2.
bool gains_by_twins(const Seam& seam) {
  if (seam.min.empty() || has_clamps(seam)) return false;
  double most_a = 0, most_b = 0, most_even = 0, all_a = 0, all_b = 0, all_even = 0;
  for (size_t c = 0; c < seam.fixed.size(); ++c) {
    const auto twin = twin_of(seam, c);
    if (!twin) continue;
    const double a = size_of(seam, c), b = size_of(seam, *twin);
    most_a = std::max(most_a, a);
    most_b = std::max(most_b, b);
    most_even = std::max(most_even, a * b);
    all_a += a * a;
    all_b += b * b;
    all_even += a * b;
  }
  constexpr double kWorthIt = 0.9;
  return 2 * most_even * all_even < kWorthIt * (most_a * most_a * all_b + most_b * most_b * all_a);
}

bool has_clamps(const Seam& seam) { return seam.clamps.min > -kInf || seam.clamps.max < kInf; }

std::vector<float> factors_at(const std::vector<int64_t>& channels, const std::vector<float>& factors) {
  std::vector<float> out;
  for (const int64_t channel : channels) out.push_back(factors[static_cast<size_t>(channel)]);
  return out;
}

FloatRange range_seen(const Seam& seam, size_t observer, const std::vector<float>& factors) {
  FloatRange range{0, 0};
  for (const Look& look : seam.looks) {
    if (look.observer != observer) continue;
    for (const int64_t channel : look.channels) {
      const auto c = static_cast<size_t>(channel);
      range = {std::min(range.min, seam.min[c] / factors[c]), std::max(range.max, seam.max[c] / factors[c])};
    }
  }
  return range;
}

Tensor with_columns_scaled(const Reader& reader, const Tensor& weight, const std::vector<float>& factors) {
  const Tensor out = weight.clone();
  const std::vector<float> by = factors_at(reader.channels, factors);
  float* const values = out.data<float>();
  for_each_column(reader, out, [&](int64_t, int64_t begin, int64_t end, size_t channel) {
    for (int64_t i = begin; i < end; ++i) values[i] *= by[channel];
  });
  return out;
}

Tensor with_rows_divided(const Producer& producer, const Tensor& weight, const std::vector<float>& factors) {
  const Tensor out = weight.clone();
  const std::vector<float> by = factors_at(producer.channels, factors);
  if (producer.is_transposed && out.dim() > 1) {
    const int64_t columns = out.size(1), inner = out.numel() / (out.size(0) * columns);
    const int64_t of_group = out.size(0) / producer.groups * columns;  // pieces of `inner` elements
    for (int64_t i = 0; i < out.numel(); ++i)
      out.data<float>()[i] /= by[static_cast<size_t>(i / inner / of_group * columns + i / inner % columns)];
    return out;
  }
  const int64_t inner = by.empty() ? 0 : out.numel() / static_cast<int64_t>(by.size());
  for (int64_t i = 0; i < out.numel(); ++i) out.data<float>()[i] /= by[static_cast<size_t>(i / inner)];
  return out;
}

std::vector<float> factors_of(const Prepared::Impl& impl, const Seam& seam, double alpha) {
  const size_t channels = seam.fixed.size();
  std::vector<double> largest(channels);
  for (const Reader& reader : seam.readers) {
    const Tensor weight = impl.program.find_attribute(reader.weight.name)->tensor.contiguous();
    const float* const values = weight.data<float>();
    for_each_column(reader, weight, [&](int64_t, int64_t begin, int64_t end, size_t channel) {
      double& most = largest[static_cast<size_t>(reader.channels[channel])];
      for (int64_t i = begin; i < end; ++i) most = std::max(most, static_cast<double>(std::fabs(values[i])));
    });
  }
  std::vector<double> factors(channels, 0);
  // Channels that a clamp cuts, or that have to, stay as they are, so the others come to their size.
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
  for (size_t c = 0; c < seam.twins.size(); ++c)
    if (seam.twins[c] >= 0) out[c] = 1;
  if (!gains_by_twins(seam)) return out;
  for (size_t c = 0; c < channels; ++c)
    if (const auto twin = twin_of(seam, c)) {
      const double half = (math::log(size_of(seam, c)) - math::log(size_of(seam, *twin))) / 2;
      out[c] = static_cast<float>(math::exp(std::clamp(half, -kMost, kMost)));
      out[*twin] = 1 / out[c];
    }
  return out;
}

namespace {

// Beyond the edge of its input a convolution reads zeros, which no bias of its own can make up for. Places of what a
// transposed one gives read fewer values near the edges, too.
bool reads_beyond_edges(const Node& node) {
  if (is_linear(node)) return false;
  if (is_a(node, Family::kTransposedConvolution)) return true;
  const Argument& padding = argument_called(node, "padding");
  if (!padding.is_list()) return padding != Argument("valid");
  return std::any_of(padding.list().begin(), padding.list().end(),
                     [](const Argument& size) { return size.integer().value_or(1) != 0; });
}

}  // namespace

bool takes_offset(const Node& layer) {
  const Node* bias = bias_of(layer);
  return (bias == nullptr || bias->op() == Node::Op::kGetAttr) && !reads_beyond_edges(layer);
}

OwnBias take_back(Prepared::Impl& impl, const Reader& reader, const std::vector<float>& offsets) {
  const Tensor weight = impl.program.find_attribute(reader.weight.name)->tensor.contiguous();
  std::vector<double> sums(static_cast<size_t>(weight.size(0)));
  for_each_column(reader, weight, [&](int64_t row, int64_t begin, int64_t end, size_t channel) {
    for (int64_t i = begin; i < end; ++i)
      sums[static_cast<size_t>(row)] +=
          static_cast<double>(weight.data<float>()[i]) * static_cast<double>(offsets[channel]);
  });
  OwnBias out = *own_bias(impl, *reader.node, weight.size(0));
  Tensor& bias = impl.program.find_attribute(out.name)->tensor;
  bias = bias.contiguous().clone();
  for (size_t row = 0; row < sums.size(); ++row)
    bias.span<float>()[row] = static_cast<float>(static_cast<double>(bias.span<float>()[row]) + sums[row]);
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

void apply_seam(Prepared& prepared, BeforeChannels& before, const Seam& seam, const std::vector<float>& factors) {
  const Prepared::Impl& impl = Prepared::Impl::of(prepared);
  const auto change = [&](const OwnConstant& constant, const Tensor& value) {
    set_constant(prepared, before, constant, value);
  };
  const auto value_of = [&](const OwnConstant& constant) {
    return impl.program.find_attribute(constant.name)->tensor.contiguous();
  };
  for (const Producer& producer : seam.producers) {
    change(producer.weight, with_rows_divided(producer, value_of(producer.weight), factors));
    if (producer.bias) change(*producer.bias, with_rows_divided(producer, value_of(*producer.bias), factors));
  }
  for (const Reader& reader : seam.readers)
    change(reader.weight, with_columns_scaled(reader, value_of(reader.weight), factors));
}

}  // namespace qdq
