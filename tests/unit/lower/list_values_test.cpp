// Programs that take and give lists of tensors, and what may be None: ONNX's sequences and optionals.
#include <gtest/gtest.h>

#include <functional>

#include "exec/interpreter.h"
#include "lower/lower.h"
#include "unit/format/expect_error.h"

namespace qdq::list_values_test {
namespace {

using RunValues = std::function<std::vector<Value>(std::span<const Value>)>;

// Calls test(run) for the ways to run a program.
void in_every_way(const Program& program, const std::function<void(const RunValues& run)>& test) {
  Session session = lower(program);
  Interpreter reference(program, {});
  test([&](std::span<const Value> inputs) { return session.run_values(inputs); });
  test([&](std::span<const Value> inputs) { return reference.run_values(inputs); });
}

class Lists : public testing::Test {
 protected:
  Node* input(const std::string& name, const std::string& kind) {
    Node* node = graph().create(Node::Op::kPlaceholder, name, {}, {}, name);
    if (kind.empty()) node->meta.val.value = TensorMeta{DType::kF32, {SymInt(2)}, {}, false};
    else node->meta.extra.emplace_back(kInputKind, kind);
    return node;
  }
  Node* call(const std::string& name, std::vector<Argument> args) {
    return graph().call(concat("torch.ops.onnx.", name, ".default"), std::move(args));
  }
  void output(const std::vector<Node*>& nodes) {
    graph().create(Node::Op::kOutput, "output", {Argument(Argument::List(nodes.begin(), nodes.end()))}, {}, "output");
    verify_program(program_);
  }
  Graph& graph() { return *program_.graph; }

  Program program_;
  const Tensor one_ = Tensor::of<float>({2}, {1, 2}), other_ = Tensor::of<float>({3}, {3, 4, 5});
};

TEST_F(Lists, ComeInAndGoOut) {
  Node *list = input("list", "sequence"), *x = input("x", "");
  Node* longer = call("sequence_insert", {list, x});
  Node* length = call("sequence_length", {longer});
  output({longer, call("sequence_at", {longer, call("sequence_length", {list})}), length,
          call("sequence_erase", {longer})});
  in_every_way(program_, [&](const RunValues& run) {
    const std::vector<Value> out = run(std::vector<Value>{Value::List{other_, one_}, one_});
    ASSERT_EQ(out.size(), 4u);
    ASSERT_EQ(out[0].get_if<Value::List>()->size(), 3u);
    EXPECT_TRUE(bitwise_equal(*out[0].get_if<Value::List>()->at(0).get_if<Tensor>(), other_));
    EXPECT_TRUE(bitwise_equal(*out[1].get_if<Tensor>(), one_));
    EXPECT_EQ(out[2].get_if<Tensor>()->item_int(), 3);
    EXPECT_EQ(out[3].get_if<Value::List>()->size(), 2u);
    EXPECT_EQ(run(std::vector<Value>{Value::List{}, one_})[0].get_if<Value::List>()->size(), 1u);
  });
}

TEST_F(Lists, AreRefusedWhereTheyDoNotFit) {
  Node *list = input("list", "sequence"), *x = input("x", "");
  output({call("sequence_at", {list, call("sequence_length", {list})}), x});
  in_every_way(program_, [&](const RunValues& run) {
    const auto refuse = [&](const char* words, std::vector<Value> inputs) {
      expect_error(ErrorCode::kInvalidArgument, words, [&] { run(inputs); });
    };
    refuse("input 'list' is one tensor, the program needs an ONNX sequence", {one_, one_});
    refuse("input 'list' is None, the program needs an ONNX sequence", {Value(), one_});
    refuse("input 'x' has no value", {Value::List{one_}, Value::List{one_}});
    refuse("goes to 1 in a list of 1", {Value::List{one_}, one_});
  });
  Session session = lower(program_);
  const std::vector<Tensor> tensors = {one_, one_};
  expect_error(ErrorCode::kInvalidArgument, "neither the command line nor JavaScript", [&] { session.run(tensors); });
}

TEST_F(Lists, MayBeNone) {
  Node *tensor = input("tensor", "optional"), *list = input("list", "optional sequence");
  output({call("optional_has_element", {tensor}), call("optional_has_element", {list}), list});
  in_every_way(program_, [&](const RunValues& run) {
    std::vector<Value> out = run(std::vector<Value>{Value(), Value::List{one_}});
    EXPECT_FALSE(*out[0].get_if<Tensor>()->data<bool>());
    EXPECT_TRUE(*out[1].get_if<Tensor>()->data<bool>());
    out = run(std::vector<Value>{one_, Value()});
    EXPECT_TRUE(*out[0].get_if<Tensor>()->data<bool>());
    EXPECT_TRUE(out[2].is_none());
    expect_error(ErrorCode::kInvalidArgument, "input 'tensor' is a list of tensors, the program needs an ONNX optional",
                 [&] { run(std::vector<Value>{Value::List{one_}, Value()}); });
  });
}

TEST_F(Lists, SplitAndJoin) {
  Node *x = input("x", ""), *parts = call("split_to_sequence", {x, Argument(), 0, true});
  output({parts, call("concat_from_sequence", {parts, 0, false}), call("concat_from_sequence", {parts, 1, true})});
  in_every_way(program_, [&](const RunValues& run) {
    const std::vector<Value> out = run(std::vector<Value>{one_});
    EXPECT_EQ(out[0].get_if<Value::List>()->size(), 2u);
    EXPECT_TRUE(bitwise_equal(*out[1].get_if<Tensor>(), one_));
    EXPECT_EQ(out[2].get_if<Tensor>()->sizes(), (Shape{1, 2}));
  });
}

}  // namespace
}  // namespace qdq::list_values_test
