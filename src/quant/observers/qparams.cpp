// Scales and zero points, bit for bit as PyTorch computes them on a CPU.
#include "quant/observers/qparams.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

namespace qdq {
namespace {

constexpr std::array<std::pair<QScheme, std::string_view>, 6> kSchemeNames = {{
    {QScheme::kPerTensorAffine, "per_tensor_affine"},
    {QScheme::kPerTensorSymmetric, "per_tensor_symmetric"},
    {QScheme::kPerChannelAffine, "per_channel_affine"},
    {QScheme::kPerChannelSymmetric, "per_channel_symmetric"},
    {QScheme::kPerChannelAffineFloatQParams, "per_channel_affine_float_qparams"},
    {QScheme::kPerTokenAffine, "per_token_affine"},
}};

bool is_observable(const ObserverArgs& args) {
  switch (args.dtype) {
    case DType::kU8: return true;
    case DType::kS8:
    case DType::kS32: return args.qdtype != QDType::kQuint4x2;
    case DType::kS16:
    case DType::kU16: return args.qdtype == QDType::kPlain;
    default: return false;
  }
}

int64_t floor_half(int64_t value) { return value >= 0 ? value / 2 : -((1 - value) / 2); }

IntegerRange default_range(const ObserverArgs& args) {
  if (args.qdtype == QDType::kQuint4x2) return {0, 15};
  if (args.dtype == DType::kS8 && args.reduce_range) return {-64, 63};
  if (args.dtype == DType::kU8 && args.reduce_range) return {0, 127};
  return {min_of(args.dtype), max_of(args.dtype)};
}

// torch.max and torch.min: NaN wins.
float max_or_nan(float a, float b) { return std::isnan(a) || a > b ? a : b; }
float min_or_nan(float a, float b) { return std::isnan(a) || a < b ? a : b; }

// Tensor.to(torch.int) on x86: what s32 cannot hold becomes the smallest s32.
int32_t to_s32(float value) {
  if (!(value >= -2147483648.0f && value < 2147483648.0f)) return std::numeric_limits<int32_t>::min();
  return static_cast<int32_t>(value);
}

int64_t symmetric_zero_point(const ObserverArgs& args, IntegerRange range) {
  if (args.dtype == DType::kU16) return 32768;
  if (args.dtype != DType::kU8 || args.qdtype == QDType::kQuint4x2) return 0;
  return args.quant_min && args.quant_max ? floor_half(range.min + range.max) : 128;
}

int64_t affine_zero_point(float min, float scale, IntegerRange range) {
  const int32_t rounded = to_s32(std::nearbyint(min / scale));
  // PyTorch subtracts in int32, which wraps around.
  const auto wrapped = static_cast<int32_t>(static_cast<uint32_t>(range.min) - static_cast<uint32_t>(rounded));
  return std::clamp<int64_t>(wrapped, range.min, range.max);
}

}  // namespace

std::string_view to_string(QScheme scheme) {
  for (const auto& [known, name] : kSchemeNames)
    if (known == scheme) return name;
  fail(ErrorCode::kInternal, "unknown quantization scheme number ", static_cast<int>(scheme));
}

QScheme qscheme_from_name(std::string_view name) {
  constexpr std::string_view kPrefix = "torch.";
  const std::string_view bare = name.starts_with(kPrefix) ? name.substr(kPrefix.size()) : name;
  std::string known_names;
  for (const auto& [scheme, known] : kSchemeNames) {
    if (known == bare) return scheme;
    known_names += known_names.empty() ? std::string(known) : ", " + std::string(known);
  }
  fail(ErrorCode::kInvalidArgument, "there is no quantization scheme \"", name, "\"; known are ", known_names);
}

std::vector<std::string_view> qscheme_names() {
  std::vector<std::string_view> out;
  for (const auto& [scheme, name] : kSchemeNames) out.push_back(name);
  return out;
}

bool is_per_channel(QScheme scheme) {
  return scheme == QScheme::kPerChannelAffine || scheme == QScheme::kPerChannelSymmetric ||
         scheme == QScheme::kPerChannelAffineFloatQParams;
}

bool is_symmetric(QScheme scheme) {
  return scheme == QScheme::kPerTensorSymmetric || scheme == QScheme::kPerChannelSymmetric;
}

IntegerRange limits_of(DType dtype) {
  switch (dtype) {
    case DType::kS8: return {-128, 127};
    case DType::kU8: return {0, 255};
    case DType::kS16: return {-32768, 32767};
    case DType::kU16: return {0, 65535};
    default: return {std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()};
  }
}

IntegerRange integer_range(const ObserverArgs& args) {
  QDQ_CHECK(is_observable(args), kInvalidArgument, "an observer cannot quantize to ", dtype_name(args),
            "; it takes int8, uint8, int16, uint16, int32, qint8, quint8, qint32 or quint4x2");
  if (!args.quant_min || !args.quant_max) return default_range(args);
  IntegerRange range{*args.quant_min, *args.quant_max};
  QDQ_CHECK(range.min <= 0 && 0 <= range.max, kInvalidArgument, "the quantization range [", range.min, ", ", range.max,
            "] does not include 0");
  QDQ_CHECK(range.min < range.max, kInvalidArgument, "the quantization range [", range.min, ", ", range.max,
            "] is empty: quant_min must be less than quant_max");
  // Beyond these limits no dtype can hold the integers, and their difference could overflow.
  constexpr int64_t kWidest = int64_t{1} << 32;
  QDQ_CHECK(range.min >= -kWidest && range.max < kWidest, kInvalidArgument, "the quantization range [", range.min, ", ",
            range.max, "] is wider than 32 bits");
  const int64_t length = range.max - range.min + 1;
  const int64_t longest = args.dtype == DType::kS8 ? 256 : args.dtype == DType::kS32 ? kWidest : 2 * kWidest;
  QDQ_CHECK(length <= longest, kInvalidArgument, "the quantization range [", range.min, ", ", range.max, "] holds ",
            length, " integers, ", dtype_name(args), " has ", longest);
  return args.reduce_range ? IntegerRange{floor_half(range.min), floor_half(range.max)} : range;
}

QParams qparams_of_range(std::span<const float> min, std::span<const float> max, const ObserverArgs& args,
                         IntegerRange range) {
  QParams out;
  const auto eps = static_cast<float>(args.eps);
  const auto width = static_cast<double>(range.max - range.min);
  const bool symmetric = is_symmetric(args.qscheme);
  const bool float_zero_point = args.qscheme == QScheme::kPerChannelAffineFloatQParams;
  out.zero_point_dtype = float_zero_point ? DType::kF32 : symmetric ? DType::kS64 : DType::kS32;
  for (size_t i = 0; i < min.size(); ++i) {
    QDQ_CHECK(min[i] <= max[i], kInvalidArgument, "the observed range [", min[i], ", ", max[i], "] of channel ", i,
              " is not a range: the data held NaN, or nothing finite was seen");
    const float low = min_or_nan(min[i], 0.0f);
    const float high = max_or_nan(max[i], 0.0f);
    if (symmetric) {
      const float scale = max_or_nan(-low, high) / static_cast<float>(width / 2);
      out.scale.push_back(max_or_nan(scale, eps));
      out.zero_point.push_back(symmetric_zero_point(args, range));
    } else if (float_zero_point) {
      const float scale = (max[i] - min[i]) / static_cast<float>(width);
      out.scale.push_back(scale > eps ? scale : 1.0f);
      out.float_zero_point.push_back(-1.0f * min[i] / out.scale.back());
    } else {
      const float scale = max_or_nan((high - low) / static_cast<float>(width), eps);
      out.scale.push_back(scale);
      out.zero_point.push_back(affine_zero_point(low, scale, range));
    }
  }
  return out;
}

FusedQParams fused_qparams(float min, float max, IntegerRange range, bool symmetric) {
  QDQ_CHECK(min <= max, kInvalidArgument, "the observed range [", min, ", ", max,
            "] is not a range: the data held NaN, or nothing was seen");
  // fp16's smallest normal number: smaller scales are cut off there.
  constexpr float kSmallestScale = 6.1e-5f;
  const auto qmin = static_cast<double>(range.min);
  const auto qmax = static_cast<double>(range.max);
  const int64_t width = range.max - range.min;
  if (min < 0 && max > 0 && symmetric) {
    const auto low = static_cast<float>(-(width / 2 + 1));
    const auto high = static_cast<float>(width / 2);
    const double scale = std::max(std::fabs(min / low), std::fabs(max / high));
    min = static_cast<float>(scale * low);
    max = static_cast<float>(scale * high);
  }
  min = std::min(min, 0.0f);
  max = std::max(max, 0.0f);
  double scale = (static_cast<double>(max) - min) / static_cast<double>(width);
  const auto narrow = static_cast<float>(scale);
  if (narrow == 0.0f || std::isinf(1.0f / narrow)) scale = 0.1;
  if (scale < kSmallestScale) {
    const float amplifier = kSmallestScale / static_cast<float>(scale);
    scale = kSmallestScale;
    if (min == 0.0f) {
      max = kSmallestScale * static_cast<float>(width);
    } else if (max == 0.0f) {
      min = -kSmallestScale * static_cast<float>(width);
    } else {
      min *= amplifier;
      max *= amplifier;
    }
  }
  // The zero point follows from either end. PyTorch compares |q| - |x / scale| where FBGEMM, which it was copied from,
  // has a sum.
  const double from_min = min / scale;
  const double from_max = max / scale;
  const bool take_min = std::fabs(qmin) - std::fabs(from_min) < std::fabs(qmax) - std::fabs(from_max);
  double zero_point = take_min ? qmin - from_min : qmax - from_max;
  if (min < 0 && max > 0 && symmetric) zero_point = (qmin + qmax) / 2;
  zero_point = std::clamp(zero_point, qmin, qmax);
  return {static_cast<float>(scale), static_cast<int32_t>(std::nearbyint(zero_point))};
}

}  // namespace qdq
