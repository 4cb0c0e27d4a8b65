// Bytes that are set aside: in a file, and in memory where there is none.
#include "base/scratch_bytes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

namespace qdq::scratch_bytes_test {
namespace {

std::string text_of(size_t count) {
  std::string out(count, 0);
  for (size_t i = 0; i < count; ++i) out[i] = static_cast<char>((i * 2654435761U) >> 13);
  return out;
}

void expect_kept(const ScratchBytes& bytes, const std::string& wanted) {
  ASSERT_EQ(bytes.size(), wanted.size());
  for (size_t at = 0; at < wanted.size(); at += 700001)
    for (const size_t most : {size_t{0}, size_t{1}, size_t{900}, size_t{2500000}}) {
      const size_t count = std::min(most, wanted.size() - at);
      ASSERT_EQ(bytes.read(at, count), wanted.substr(at, count)) << at;
    }
}

TEST(ScratchBytes, AreReadInAnyOrder) {
  for (const size_t size : {size_t{0}, size_t{5}, size_t{1} << 20, (size_t{1} << 20) + 1, size_t{5000000}}) {
    const std::string wanted = text_of(size);
    ScratchBytes bytes;
    for (size_t at = 0; at < size; at += 123457) bytes.append(std::string_view(wanted).substr(at, 123457));
    expect_kept(bytes, wanted);
#ifndef __EMSCRIPTEN__
    EXPECT_LE(bytes.bytes_in_memory(), size_t{2} << 20);
#endif
  }
}

#ifndef __EMSCRIPTEN__
TEST(ScratchBytes, StayInMemoryWhereNoFileCanBeMade) {
  const char* before = std::getenv("TMPDIR");
  const std::string folder = before == nullptr ? "" : before;
  setenv("TMPDIR", "/nowhere/at/all", 1);
  ScratchBytes bytes;
  const std::string wanted = text_of(3000000);
  bytes.append(wanted);
  if (before == nullptr) unsetenv("TMPDIR");
  else setenv("TMPDIR", folder.c_str(), 1);
  expect_kept(bytes, wanted);
  EXPECT_GE(bytes.bytes_in_memory(), wanted.size());
}
#endif

}  // namespace
}  // namespace qdq::scratch_bytes_test
