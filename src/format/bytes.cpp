#include "format/bytes.h"

#include <algorithm>
#include <array>

namespace qdq::format {

namespace {

constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr uint32_t kNoDigit = 64;

constexpr std::array<uint8_t, 256> digit_values() {
  std::array<uint8_t, 256> out{};
  out.fill(kNoDigit);
  for (size_t i = 0; i < kDigits.size(); ++i) out[static_cast<uint8_t>(kDigits[i])] = static_cast<uint8_t>(i);
  return out;
}

}  // namespace

std::string base64(ByteSpan bytes) {
  std::string out;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t count = std::min<size_t>(3, bytes.size() - i);
    uint32_t group = 0;
    for (size_t k = 0; k < 3; ++k) group = group << 8 | (k < count ? std::to_integer<uint32_t>(bytes[i + k]) : 0);
    for (size_t k = 0; k < 4; ++k) out += k <= count ? kDigits[group >> (18 - 6 * k) & 63] : '=';
  }
  return out;
}

Bytes base64_bytes(std::string_view text, std::string_view what) {
  static constexpr std::array<uint8_t, 256> kValues = digit_values();
  const size_t padding = text.ends_with("==") ? 2 : text.ends_with("=") ? 1 : 0;
  QDQ_CHECK(text.size() % 4 == 0, kBadFile, what, " is not base64: it has ", text.size(),
            " characters, no multiple of 4; the file was cut off or changed, so make it again");
  Bytes out(text.size() / 4 * 3);
  uint32_t odd = 0;  // what is no digit has a bit of its own
  const auto value_at = [&](size_t i) {
    const uint32_t value = kValues[static_cast<uint8_t>(text[i])];
    odd |= value;
    return value & (kNoDigit - 1);
  };
  const auto write = [&](size_t i, uint32_t group) {
    for (size_t k = 0; k < 3; ++k) out[i / 4 * 3 + k] = static_cast<std::byte>(group >> (16 - 8 * k));
  };
  const size_t whole = padding > 0 ? text.size() - 4 : text.size();
  for (size_t i = 0; i < whole; i += 4)
    write(i, value_at(i) << 18 | value_at(i + 1) << 12 | value_at(i + 2) << 6 | value_at(i + 3));
  odd &= kNoDigit;
  if (padding > 0) {
    const uint32_t third = padding == 1 ? value_at(whole + 2) << 6 : 0;
    const uint32_t group = value_at(whole) << 18 | value_at(whole + 1) << 12 | third;
    write(whole, group);
    odd = (odd & kNoDigit) | (group & ((1u << (8 * padding)) - 1));  // bits that no byte has
  }
  QDQ_CHECK(odd == 0, kBadFile, what, " is not base64; the file was changed, so make it again");
  out.resize(out.size() - padding);
  return out;
}

}  // namespace qdq::format
