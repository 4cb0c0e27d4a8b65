#include "base/function_ref.h"

#include <gtest/gtest.h>

#include <memory>

namespace qdq::function_ref_test {
namespace {

int twice(int value) { return 2 * value; }
int call(FunctionRef<int(int)> function, int value) { return function(value); }
int call_through(FunctionRef<int(int)> function, int value) { return call(function, value); }

TEST(FunctionRef, CallsWhatTheCallerHas) {
  int calls = 0;
  const auto counted = [&](int value) { return ++calls + value; };
  EXPECT_EQ(call(counted, 10), 11);
  EXPECT_EQ(call_through(counted, 10), 12);
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(call(&twice, 4), 8);
}

TEST(FunctionRef, PassesReferencesAndWhatCanOnlyMove) {
  const auto keep = [](std::unique_ptr<int> value, int& out) -> int& { return out = *value; };
  int out = 0;
  EXPECT_EQ(&FunctionRef<int&(std::unique_ptr<int>, int&)>(keep)(std::make_unique<int>(5), out), &out);
  EXPECT_EQ(out, 5);
}

}  // namespace
}  // namespace qdq::function_ref_test
