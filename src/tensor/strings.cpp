#include "tensor/strings.h"

#include <deque>
#include <mutex>
#include <unordered_map>

#include "base/memory.h"

namespace qdq {
namespace {

// Texts stay for good, as nobody knows where copies of their numbers are.
struct Texts {
  std::mutex mutex;
  std::deque<std::string> all{""};
  std::unordered_map<std::string_view, uint64_t> numbers{{"", 0}};
  uint64_t bytes = 0;
};

Texts& texts() {
  static Texts known;
  return known;
}

}  // namespace

bool is_utf8(std::string_view text) {
  size_t i = 0;
  while (i < text.size()) {
    const auto first = static_cast<unsigned char>(text[i++]);
    if (first < 0x80) continue;
    const int more = first >= 0xF0 ? 3 : first >= 0xE0 ? 2 : 1;
    if (first < 0xC2 || first > 0xF4) return false;
    uint32_t point = first & (0x3Fu >> more);
    for (int k = 0; k < more; ++k) {
      if (i == text.size() || (static_cast<unsigned char>(text[i]) & 0xC0) != 0x80) return false;
      point = point << 6 | (static_cast<unsigned char>(text[i++]) & 0x3Fu);
    }
    if ((more == 2 && point < 0x800) || (more == 3 && (point < 0x10000 || point > 0x10FFFF))) return false;
    if (point >= 0xD800 && point < 0xE000) return false;
  }
  return true;
}

std::u32string characters_of(std::string_view text) {
  std::u32string out;
  for (size_t i = 0; i < text.size();) {
    const auto first = static_cast<unsigned char>(text[i++]);
    const int more = first >= 0xF0 ? 3 : first >= 0xE0 ? 2 : first >= 0xC0 ? 1 : 0;
    char32_t point = more == 0 ? first : first & (0x3Fu >> more);
    for (int k = 0; k < more && i < text.size(); ++k)
      point = point << 6 | (static_cast<unsigned char>(text[i++]) & 0x3Fu);
    out += point;
  }
  return out;
}

std::string utf8_of(std::u32string_view characters) {
  std::string out;
  for (char32_t c : characters) {
    if (c > 0x10FFFF || (c >= 0xD800 && c < 0xE000)) c = 0xFFFD;
    const int more = c >= 0x10000 ? 3 : c >= 0x800 ? 2 : c >= 0x80 ? 1 : 0;
    constexpr unsigned kFirst[] = {0, 0xC0, 0xE0, 0xF0};
    out += static_cast<char>(kFirst[more] | c >> (6 * more));
    for (int k = more; k-- > 0;) out += static_cast<char>(0x80 | (c >> (6 * k) & 0x3F));
  }
  return out;
}

StringId intern(std::string_view text) {
  Texts& known = texts();
  const std::lock_guard lock(known.mutex);
  const auto found = known.numbers.find(text);
  if (found != known.numbers.end()) return {found->second};
  QDQ_CHECK(is_utf8(text), kBadFile, "a string of ", text.size(), " bytes is not text in UTF-8");
  const uint64_t bytes = text.size() + kBytesPerText;
  QDQ_CHECK(bytes <= kMostTextBytes - known.bytes, kOutOfMemory, "the ", known.all.size(),
            " different strings that this process has met take ", known.bytes >> 20, " of ", kMostTextBytes >> 20,
            " MB, and stay as long as it lives; begin anew, with fewer different strings");
  take_memory(bytes);
  known.bytes += bytes;
  const uint64_t number = known.all.size();
  known.numbers.emplace(known.all.emplace_back(text), number);
  return {number};
}

const std::string& text_of(StringId id) {
  Texts& known = texts();
  const std::lock_guard lock(known.mutex);
  QDQ_CHECK(id.number < known.all.size(), kInternal, "there is no string of the number ", id.number);
  return known.all[static_cast<size_t>(id.number)];
}

Tensor string_tensor(const Shape& sizes, std::span<const std::string> texts) {
  QDQ_CHECK(numel_of(sizes) == static_cast<int64_t>(texts.size()), kInvalidArgument, texts.size(),
            " strings were given for a tensor of shape ", to_string(sizes));
  Tensor out = Tensor::empty(sizes, DType::kString);
  StringId* to = out.data<StringId>();
  for (const std::string& text : texts) *to++ = intern(text);
  return out;
}

std::vector<std::string_view> texts_of(const Tensor& strings) {
  const Tensor dense = strings.contiguous();
  std::vector<std::string_view> out;
  for (const StringId id : dense.span<StringId>()) out.emplace_back(text_of(id));
  return out;
}

}  // namespace qdq
