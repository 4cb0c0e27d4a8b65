#include "data/sorted_names.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "base/error.h"

namespace qdq::sorted_names_test {
namespace {

std::vector<std::string> all_of(const SortedNames& names) {
  std::vector<std::string> out;
  names.for_each([&](std::string_view name) { out.emplace_back(name); });
  return out;
}

TEST(SortedNames, AreThoseThatCameInTheOrderOfTheirBytes) {
  std::mt19937 random(3);
  for (const size_t count : {0, 1, 63, 64, 65, 50000}) {
    std::vector<std::string> wanted;
    for (size_t i = 0; i < count; ++i)
      wanted.push_back(
          concat("n", random() % 50, i % 7 == 0 ? "-\xc3\xa9/" : "/", std::string(i % 3 * 90, 'x'), random()));
    NameSorter sorter;
    for (const std::string& name : wanted) sorter.add(name);
    const SortedNames names = sorter.finish();
    std::sort(wanted.begin(), wanted.end());
    ASSERT_EQ(names.size(), static_cast<int64_t>(count));
    ASSERT_EQ(all_of(names), wanted);
    for (size_t i = 0; i < count; i += 1 + count / 100) {
      ASSERT_EQ(names[static_cast<int64_t>(i)], wanted[i]);
      ASSERT_EQ(names.lower_bound(wanted[i]),
                std::lower_bound(wanted.begin(), wanted.end(), wanted[i]) - wanted.begin());
    }
    EXPECT_EQ(names.lower_bound(""), 0);
    EXPECT_EQ(names.lower_bound("o"), names.size());
  }
}

TEST(SortedNames, KeepNamesThatComeTwice) {
  NameSorter sorter;
  for (const char* name : {"b", "a", "", "b"}) sorter.add(name);
  EXPECT_EQ(all_of(sorter.finish()), (std::vector<std::string>{"", "a", "b", "b"}));
}

// Names as those of ImageNet: a folder of nine characters, the same again and a number of up to five digits.
TEST(SortedNames, TakeTenBytesForAFileOfImageNet) {
  std::mt19937 random(5);
  NameSorter sorter;
  for (int folder = 0; folder < 100; ++folder)
    for (int i = 0; i < 1300; ++i) {
      const std::string synset = concat("n0", 1440764 + 1000 * folder);
      sorter.add(concat(synset, "/", synset, "_", random() % 30000, ".JPEG"));
    }
  EXPECT_LT(sorter.finish().bytes(), 130000U * 11);
}

}  // namespace
}  // namespace qdq::sorted_names_test
