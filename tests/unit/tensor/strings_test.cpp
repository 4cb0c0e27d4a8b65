// Strings: one number for each text, and tensors that are no numbers.
#include "tensor/strings.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/memory.h"

namespace qdq::strings_test {
namespace {

TEST(Strings, EqualTextsHaveOneNumber) {
  EXPECT_EQ(intern("").number, 0u);
  const StringId id = intern("some text");
  EXPECT_EQ(intern(std::string("some ") + "text").number, id.number);
  EXPECT_NE(intern("some other text").number, id.number);
  EXPECT_EQ(text_of(id), "some text");
  EXPECT_EQ(text_of(intern(std::string("a\0b", 3))), std::string("a\0b", 3));
}

TEST(Strings, AreUtf8) {
  for (const char* wrong : {"\xFF", "\xC3", "\xE0\x80\x80", "\xED\xA0\x80", "\xF5\x80\x80\x80"}) {
    try {
      intern(wrong);
      ADD_FAILURE() << wrong;
    } catch (const Error& error) {
      EXPECT_EQ(error.code, ErrorCode::kBadFile);
    }
  }
  const std::string text = "a\xC3\xBC\xE6\x97\xA5\xF0\x9F\x98\x80";
  EXPECT_EQ(characters_of(text), U"a\u00FC\u65E5\U0001F600");
  EXPECT_EQ(utf8_of(characters_of(text)), text);
  EXPECT_EQ(utf8_of(std::u32string(1, char32_t{0xD800})), "\xEF\xBF\xBD");
}

TEST(Strings, CountAsMemory) {
  const std::optional<MemoryLimit> before = memory_limit();
  set_memory_limit(MemoryLimit(1 << 20, "that the test allows"));
#ifndef __EMSCRIPTEN__
  EXPECT_THROW(intern(std::string(2 << 20, 'x')), Error);
#endif
  set_memory_limit(before);
}

TEST(Strings, SeveralThreadsMayAsk) {
  const auto ask = [] {
    for (int i = 0; i < 2000; ++i) text_of(intern(std::to_string(i)));
  };
#ifdef __EMSCRIPTEN__
  ask();
#else
  std::thread other(ask);
  ask();
  other.join();
#endif
  EXPECT_EQ(text_of(intern("1999")), "1999");
}

// Views, copies and comparisons of bytes work; nothing takes the numbers of texts for numbers.
TEST(Strings, AreMovedAndNotComputedWith) {
  const Tensor strings = string_tensor({2, 2}, std::vector<std::string>{"a", "b", "c", "d"});
  EXPECT_EQ(texts_of(strings.transpose(0, 1)), (std::vector<std::string_view>{"a", "c", "b", "d"}));
  EXPECT_TRUE(bitwise_equal(strings.transpose(0, 1).clone(), strings.transpose(0, 1)));
  EXPECT_EQ(texts_of(Tensor::empty({2}, DType::kString)), (std::vector<std::string_view>{"", ""}));
  EXPECT_THROW(strings.to(DType::kS64), Error);
  EXPECT_THROW(Tensor::scalar(1.0f).to(DType::kString), Error);
  EXPECT_THROW(strings.select(0, 0).select(0, 0).item_int(), Error);
  EXPECT_THROW(strings.data<int64_t>(), Error);
  EXPECT_THROW(Tensor::full({2}, DType::kString, 1), Error);
  EXPECT_FALSE(is_integral(DType::kString) || is_floating(DType::kString));
  EXPECT_EQ(to_string(DType::kString), "string");
  EXPECT_FALSE(dtype_from_name("string") || dtype_from_number(static_cast<int64_t>(DType::kString)));
  EXPECT_THROW(string_tensor({3}, std::vector<std::string>{"a"}), Error);
}

}  // namespace
}  // namespace qdq::strings_test
