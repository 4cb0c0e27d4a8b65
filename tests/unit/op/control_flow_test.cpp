// Programs that operators run.
#include "op/control_flow.h"

#include <gtest/gtest.h>

#include <memory>

#include "graph/program.h"
#include "op/targets.h"

namespace qdq::control_flow_test {
namespace {

// The second input reaches the condition in the branch as its second operand, and by its size.
TEST(FixesOf, NamesTheInputsThatAConditionHangsOn) {
  const auto input = [](Program& program, const char* name, const char* in_file) {
    Node* node = program.graph->create(Node::Op::kPlaceholder, name, {}, {}, name);
    if (in_file != nullptr) node->meta.extra.emplace_back(kOnnxValue, in_file);
    return node;
  };
  Program program;
  Node* rate = input(program, "sr", "sr");
  Node* samples = input(program, "samples", "audio");
  Node* spaced = input(program, "spaced", "rate of 'x'");
  Node* weight = program.graph->get_attr("weight");
  auto branch = std::make_shared<Program>();
  input(*branch, "w", nullptr);
  Node* x = input(*branch, "x", nullptr);
  Node* size = branch->graph->call(std::string(op::kSymSize), {x, 0});
  Node* is_one = branch->graph->call("torch.ops.aten.eq.Scalar", {size, 1});
  Node* wanted = program.graph->call("torch.ops.aten.eq.Scalar", {rate, 16000});
  Node* cond = program.graph->call(std::string(op::kCond),
                                   {wanted, Subprogram(branch), Subprogram(branch), Argument::List{weight, samples}});
  const Enclosing around{cond, nullptr};
  EXPECT_EQ(fixes_of(*wanted, nullptr), " --fix sr=VALUE");
  EXPECT_EQ(fixes_of(*is_one, &around), " --fix audio=SHAPE");
  EXPECT_EQ(fixes_of(*spaced, nullptr), " --fix 'rate of '\\''x'\\''=VALUE'");
  EXPECT_EQ(fixes_of(*weight, nullptr), "");
  // Nobody can tell the numbers of an image, or of an input of open size; of a few, perhaps.
  for (const auto& [sizes, wanted_fix] :
       {std::pair<SymShape, const char*>{{1, 3, 32, 32}, ""}, {{SymInt::symbol("n")}, ""}, {{4}, " --fix sr=VALUE"}}) {
    rate->meta.val.value = TensorMeta{DType::kF32, sizes, {}, false};
    EXPECT_EQ(fixes_of(*wanted, nullptr), wanted_fix);
  }
}

}  // namespace
}  // namespace qdq::control_flow_test
