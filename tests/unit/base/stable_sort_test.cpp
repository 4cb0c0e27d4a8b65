#include "base/stable_sort.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace qdq::stable_sort_test {
namespace {

using testing::ElementsAre;
using testing::Pair;

TEST(SortStably, KeepsEqualItemsInTheirOrder) {
  std::vector<std::pair<int, std::string>> items{{2, "a"}, {1, "b"}, {2, "c"}, {1, "d"}, {0, "e"}};
  sort_stably(items, [](const auto& a, const auto& b) { return a.first < b.first; });
  EXPECT_THAT(items, ElementsAre(Pair(0, "e"), Pair(1, "b"), Pair(1, "d"), Pair(2, "a"), Pair(2, "c")));
}

TEST(SortStably, SortsStringsAndWhatCanOnlyMove) {
  std::string letters = "quantize";
  sort_stably(letters);
  EXPECT_EQ(letters, "aeinqtuz");
  std::vector<std::unique_ptr<int>> owned;
  for (int i = 300; i-- > 0;) owned.push_back(std::make_unique<int>(i));
  sort_stably(owned, [](const auto& a, const auto& b) { return *a < *b; });
  for (int i = 0; i < 300; ++i) EXPECT_EQ(*owned[static_cast<size_t>(i)], i);
}

}  // namespace
}  // namespace qdq::stable_sort_test
