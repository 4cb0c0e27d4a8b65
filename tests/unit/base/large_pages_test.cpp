#include "base/large_pages.h"

#include <gtest/gtest.h>

#include <vector>

namespace qdq::large_pages_test {
namespace {

// Whatever the system makes of it, memory keeps what it holds and can be written, at any address and for any length.
TEST(LargePages, MemoryStaysAsItIs) {
  constexpr size_t kBytes = size_t{9} << 20;
  for (const size_t from : {size_t{0}, size_t{1}, size_t{4097}}) {
    for (const size_t bytes : {size_t{0}, size_t{100}, size_t{5} << 20, kBytes - from}) {
      std::vector<unsigned char> memory(kBytes);
      for (size_t i = 0; i < kBytes; ++i) memory[i] = static_cast<unsigned char>(i * 7 + i / 4096);
      prefer_large_pages(memory.data() + from, bytes);
      for (size_t i = 0; i < kBytes; ++i) ASSERT_EQ(memory[i], static_cast<unsigned char>(i * 7 + i / 4096)) << i;
      memory[from + bytes / 2] = 1;
      ASSERT_EQ(memory[from + bytes / 2], 1);
    }
  }
  prefer_large_pages(nullptr, 0);
}

}  // namespace
}  // namespace qdq::large_pages_test
