// Runs int8 and float programs with something in them changed: a short fuzzing, the same every time. A session gives
// outputs or refuses, fused or node by node; that it reads nothing it must not is seen where the sanitizers are.
// QDQ_FUZZ_SEED and QDQ_FUZZ_ROUNDS make it another or a longer one.
#include <gtest/gtest.h>

#include "lower/lower.h"
#include "unit/fuzz_random.h"
#include "unit/lower/graph_builder.h"

namespace qdq::session_fuzz_test {
namespace {

// A residual block with a depthwise convolution and a concatenation, pools and a classifier.
Program network() {
  GraphBuilder g;
  using List = Argument::List;
  Node* x = g.round(g.input({2, 3, 12, 12}), 0.03, 128);
  Node* stem = g.round(g.call("torch.ops.aten.relu.default", {g.conv(x, {16, 3, 3, 3}, 1)}), 0.02, 0);
  Node* pooled =
      g.round(g.call("torch.ops.aten.max_pool2d.default", {stem, List{3, 3}, List{2, 2}, List{1, 1}}), 0.02, 0);
  Node* depthwise =
      g.round(g.call("torch.ops.aten.hardtanh.default", {g.conv(pooled, {16, 1, 3, 3}, 1, 16), 0.0, 6.0}), 0.02, 0);
  Node* sum = g.round(g.call("torch.ops.aten.add.Tensor", {g.conv(depthwise, {16, 16, 1, 1}), pooled}), 0.03, 0);
  Node* both = g.round(g.call("torch.ops.aten.cat.default", {List{sum, pooled}, 1}), 0.03, 0);
  Node* mean = g.round(g.call("torch.ops.aten.adaptive_avg_pool2d.default", {both, List{1, 1}}), 0.03, 0);
  Node* flat = g.round(g.call("torch.ops.aten.flatten.using_ints", {mean, 1}), 0.03, 0);
  return g.done({g.round(g.call("torch.ops.aten.linear.default", {flat, g.weight({10, 32})}), 0.05, 128)});
}

// A convolution of every kind with a batch norm behind it, in float.
Program float_network() {
  GraphBuilder g;
  using List = Argument::List;
  const List one{1, 1};
  const auto normal = [&](Node* x, Shape weight, int64_t groups) {
    const int64_t channels = weight[0];
    Node* conv = g.call("torch.ops.aten.conv2d.default",
                        {x, g.floats(std::move(weight)), g.floats({channels}), one, one, one, groups});
    Node* norm = g.call("torch.ops.aten.batch_norm.default",
                        {conv, g.floats({channels}), g.floats({channels}), g.floats({channels}), g.floats({channels}),
                         false, 0.1, 1e-5, true});
    return g.call("torch.ops.aten.relu_.default", {norm});
  };
  Node* stem = normal(g.input({2, 3, 12, 12}), {16, 3, 3, 3}, 1);
  Node* deep = normal(stem, {16, 1, 3, 3}, 16);
  Node* mean = g.call("torch.ops.aten.adaptive_avg_pool2d.default", {normal(deep, {8, 8, 1, 1}, 2), List{1, 1}});
  return g.done({g.call("torch.ops.aten.flatten.using_ints", {mean, 1})});
}

Argument changed(const Argument& argument, const std::vector<Node*>& nodes, Random& random) {
  // None that asks for gigabytes: the address sanitizer ends a program whose memory is refused.
  constexpr int64_t kNumbers[] = {0, 1, -1, 2, 3, 5, 16, 128, 255, -128, INT64_MAX, INT64_MIN};
  if (argument.is_list() && !argument.list().empty()) {
    Argument::List list = argument.list();
    const size_t at = random.below(list.size());
    if (random.below(3) == 0) list.erase(list.begin() + static_cast<std::ptrdiff_t>(at));
    else list[at] = changed(list[at], nodes, random);
    return list;
  }
  if (argument.is_node()) return nodes[random.below(nodes.size())];
  if (argument.is<double>())
    return random.below(2) ? static_cast<double>(kNumbers[random.below(std::size(kNumbers))]) : 1e-30;
  return kNumbers[random.below(std::size(kNumbers))];
}

// Another argument, a tensor in another's place, or a shape that is not true.
void change(Program& program, Random& random) {
  const std::vector<Node*> nodes = program.graph->nodes();
  const size_t place = 1 + random.below(nodes.size() - 2);
  Node& node = *nodes[place];
  const auto attribute = [&]() -> Attribute& { return program.attributes[random.below(program.attributes.size())]; };
  switch (random.below(4)) {
    case 0: std::swap(attribute().tensor, attribute().tensor); break;
    case 1:
      if (TensorMeta* meta = std::get_if<TensorMeta>(&node.meta.val.value); meta && !meta->sizes.empty())
        meta->sizes[random.below(meta->sizes.size())] = SymInt(static_cast<int64_t>(random.below(40)));
      break;
    default: {
      if (node.args().empty()) break;
      const std::vector<Node*> before(nodes.begin(), nodes.begin() + static_cast<std::ptrdiff_t>(place));
      const size_t i = random.below(node.args().size());
      node.set_arg(i, changed(node.args()[i], before, random));
    }
  }
}

TEST(FuzzSession, RunsOrRefusesChangedPrograms) {
  const auto seed = static_cast<uint64_t>(setting("QDQ_FUZZ_SEED", 20261122));
  const int64_t rounds = setting("QDQ_FUZZ_ROUNDS", 400);
  const Program originals[] = {network(), float_network()};
  const Tensor x = random_tensor({2, 3, 12, 12}, 1);
  Random random(seed);
  int64_t ran = 0, refused = 0;
  for (int64_t round = 0; round < rounds; ++round) {
    Program program = originals[round % 2].clone();
    for (uint64_t changes = 1 + random.below(2); changes > 0; --changes) change(program, random);
    for (const LowerOptions& options : {LowerOptions{}, LowerOptions{{"simd"}}, LowerOptions{{"simd"}, false}}) {
      try {
        lower(program.clone(), options).run({{x}});
        ++ran;
      } catch (const Error& error) {
        EXPECT_NE(error.code, ErrorCode::kInternal)
            << "QDQ_FUZZ_SEED=" << seed << ", round " << round << ": " << error.what();
        ++refused;
      }
    }
  }
  EXPECT_GT(ran, rounds / 10);
  EXPECT_GT(refused, rounds / 10);
}

}  // namespace
}  // namespace qdq::session_fuzz_test
