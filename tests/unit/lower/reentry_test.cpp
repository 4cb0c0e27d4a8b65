// A session that an operator of its own, or another thread, runs while it runs.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "graph_builder.h"
#include "lower/lower.h"
#include "op/custom.h"
#include "op/infer.h"
#include "unit/format/expect_error.h"

namespace qdq::reentry_test {
namespace {

constexpr const char* kRefusal = "the session is running; run() must return before another thread or an operator";

// relu of an operator whose evaluation calls `during`.
Session session_that_calls(const std::string& name, std::function<void()> during) {
  register_operator({concat("reentry_test::", name, "(Tensor x) -> Tensor"),
                     [](const Call<TensorMeta>& call) -> MetaValue { return call.tensor(0); },
                     [during](const Call<Tensor>& call) -> Value {
                       during();
                       return call.tensor(0);
                     }});
  GraphBuilder g;
  Node* inner = g.call(concat("torch.ops.reentry_test.", name, ".default"), {g.input({2, 3})});
  return lower(g.done({g.call("torch.ops.aten.relu.default", {inner})}));
}

TEST(Reentry, OfASessionByItsOwnOperatorIsRefused) {
  Session* session = nullptr;
  const std::vector<Tensor> inputs = {Tensor::full({2, 3}, DType::kF32, 1)};
  int calls = 0;
  Session made = session_that_calls("again", [&] {
    if (++calls == 2) return;
    expect_error(ErrorCode::kInvalidArgument, kRefusal, [&] { session->run(inputs); });
  });
  session = &made;
  EXPECT_TRUE(bitwise_equal(made.run(inputs)[0], inputs[0]));
  EXPECT_TRUE(bitwise_equal(made.run(inputs)[0], inputs[0])) << "and the refusal leaves it as it was";
  EXPECT_EQ(calls, 2);
}

TEST(Reentry, AnOperatorThatThrowsLeavesTheSessionReady) {
  bool throws = true;
  Session session = session_that_calls("throws", [&] { QDQ_CHECK(!throws, kInvalidArgument, "no"); });
  const std::vector<Tensor> inputs = {Tensor::full({2, 3}, DType::kF32, 1)};
  expect_error(ErrorCode::kInvalidArgument, "no", [&] { session.run(inputs); });
  throws = false;
  EXPECT_EQ(session.run(inputs).size(), 1u);
}

#ifndef __EMSCRIPTEN__
TEST(Reentry, OfASessionByAnotherThreadIsRefused) {
  std::atomic<bool> inside{false}, go_on{false};
  Session session = session_that_calls("waits", [&] {
    inside = true;
    while (!go_on) std::this_thread::yield();
  });
  const std::vector<Tensor> inputs = {Tensor::full({2, 3}, DType::kF32, 1)};
  std::thread first([&] { session.run(inputs); });
  while (!inside) std::this_thread::yield();
  expect_error(ErrorCode::kInvalidArgument, kRefusal, [&] { session.run(inputs); });
  go_on = true;
  first.join();
}
#endif

}  // namespace
}  // namespace qdq::reentry_test
