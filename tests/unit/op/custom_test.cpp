// Operators that a program brings itself.
#include "op/custom.h"

#include <gtest/gtest.h>

#include "graph/program.h"
#include "op/infer.h"
#include "unit/format/expect_error.h"

namespace qdq::custom_test {
namespace {

CustomOperator scaled(std::string schema) {
  return {std::move(schema), [](const Call<TensorMeta>& call) -> MetaValue { return call.tensor(0); },
          [](const Call<Tensor>& call) -> Value {
            Tensor out = call.tensor(0).contiguous().clone();
            for (float& x : out.span<float>()) x *= static_cast<float>(call.number(1));
            return out;
          }};
}

TEST(CustomOperator, RunsByItsName) {
  register_operator(scaled("custom_test::scale(Tensor x, *, float factor=2.0) -> Tensor"));
  const OpDef* op = find_op("torch.ops.custom_test.scale.default");
  ASSERT_NE(op, nullptr);
  const Value out = op->eval(Call<Tensor>(*op, {Tensor::of<float>({2}, {1, -3})}, {{"factor", 0.5}}));
  EXPECT_TRUE(bitwise_equal(*out.get_if<Tensor>(), Tensor::of<float>({2}, {0.5f, -1.5f})));
}

TEST(CustomOperator, ResultsAreThoseThatItsShapeFunctionTells) {
  CustomOperator wrong = scaled("custom_test::wrong(Tensor x, *, float factor=2.0) -> Tensor");
  wrong.infer = [](const Call<TensorMeta>& call) -> MetaValue {
    return tensor_meta(DType::kF32, {call.tensor(0).sizes[0] + SymInt(1)});
  };
  register_operator(std::move(wrong));
  const OpDef* op = find_op("torch.ops.custom_test.wrong.default");
  expect_error(ErrorCode::kInvalidArgument, "gave float32[2], its shape function says float32[3]",
               [&] { op->eval(Call<Tensor>(*op, {Tensor::of<float>({2}, {1, 2})})); });
}

TEST(CustomOperator, NamesAreTakenOnce) {
  register_operator(scaled("custom_test::once(Tensor x, float factor) -> Tensor"));
  expect_error(ErrorCode::kInvalidArgument, "there is an operator torch.ops.custom_test.once.default already",
               [] { register_operator(scaled("custom_test::once(Tensor x, float factor) -> Tensor")); });
  expect_error(ErrorCode::kInvalidArgument, "there is an operator torch.ops.aten.relu.default already",
               [] { register_operator(scaled("aten::relu(Tensor self) -> Tensor")); });
  expect_error(ErrorCode::kInvalidArgument, "the schema 'nothing' cannot be read",
               [] { register_operator(scaled("nothing")); });
  expect_error(ErrorCode::kInvalidArgument, "lacks its shape function",
               [] { register_operator({"custom_test::empty(Tensor x) -> Tensor", {}, {}}); });
}

}  // namespace
}  // namespace qdq::custom_test
