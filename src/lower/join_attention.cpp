// Attention that a graph spells out in two products and a softmax.
#include <cmath>
#include <optional>
#include <utility>

#include "lower/fuse_nodes.h"
#include "lower/join_operators.h"
#include "lower/layer_norm_pattern.h"
#include "lower/plan_builder.h"
#include "op/infer.h"
#include "op/targets.h"

namespace qdq {
namespace {

constexpr std::string_view kSoftmax = "torch.ops.aten.softmax.int", kInnerSoftmax = "torch.ops.aten._softmax.default";

// A float32 value of this rank that is computed in every run.
bool is_operand(const Node* node, size_t rank) {
  return node != nullptr && node->op() != Node::Op::kGetAttr && float_meta(*node) != nullptr &&
         float_meta(*node)->sizes.size() == rank && !PlanBuilder::is_constant(*node);
}

// A product of matrices of the same rank whose leading axes agree.
bool is_product(const Node* node, size_t rank) {
  if (node == nullptr || !(node->is(op::kMatmul) || node->is(op::kBmm)) || !node->kwargs().empty() ||
      !is_operand(node, rank) || !is_operand(node->arg(0).node(), rank) || !is_operand(node->arg(1).node(), rank))
    return false;
  for (const size_t i : {size_t{0}, size_t{1}})
    for (size_t axis = 0; axis + 2 < rank; ++axis)
      if (float_meta(*node->arg(i).node())->sizes[axis] != float_meta(*node)->sizes[axis]) return false;
  return true;
}

// x of x * number and x / number, which nobody else reads; the number goes into the scale.
Node* unscaled(const Program& program, Node* node, double& scale) {
  while (node != nullptr && (node->is(op::kMul) || node->is(op::kDiv)) && node->kwargs().empty() &&
         single_user(*node) != nullptr) {
    const size_t at = node->is(op::kMul) && number_of(program, node->arg(0)) ? 1 : 0;
    const std::optional<double> number = number_of(program, node->arg(1 - at));
    Node* x = node->arg(at).node();
    if (!number || *number == 0 || x == nullptr || float_meta(*x) == nullptr || float_meta(*node) == nullptr ||
        float_meta(*x)->sizes != float_meta(*node)->sizes)
      break;
    scale = node->is(op::kMul) ? scale * *number : scale / *number;
    node = x;
  }
  return node;
}

// The softmax along the last axis in front of a product, if nobody else reads it; else null.
Node* softmax_in(const Node& product, size_t rank) {
  Node* softmax = product.arg(0).node();
  if (!(softmax->is(kSoftmax) || softmax->is(kInnerSoftmax)) || !softmax->kwargs().empty()) return nullptr;
  const int64_t axis = softmax->arg(1).integer().value_or(0), last = static_cast<int64_t>(rank) - 1;
  const bool converts = softmax->is(kSoftmax) ? !softmax->arg(2).is_none() : softmax->arg(2).integer().value_or(1) != 0;
  return (axis == -1 || axis == last) && !converts && single_user(*softmax) == &product ? softmax : nullptr;
}

void join(Program& program, Node& last) {
  const TensorMeta* meta = float_meta(last);
  const size_t rank = meta == nullptr ? 0 : meta->sizes.size();
  if ((rank != 3 && rank != 4) || !is_product(&last, rank)) return;
  const Node* softmax = softmax_in(last, rank);
  if (softmax == nullptr) return;
  double scale = 1;
  Node* scores = unscaled(program, softmax->arg(0).node(), scale);
  if (!is_product(scores, rank) || single_user(*scores) == nullptr) return;
  Node* query = unscaled(program, scores->arg(0).node(), scale);
  Node* turned = unscaled(program, scores->arg(1).node(), scale);
  if (!is_operand(query, rank) || !is_operand(turned, rank) || !std::isfinite(scale)) return;
  if (!float_meta(*query)->sizes.back().is_constant()) return;

  Graph& graph = *program.graph;
  const auto point = graph.insert_before(&last);
  const auto call = [&](std::string_view target, std::vector<Argument> args, Node::Kwargs kwargs = {}) {
    Node* node = graph.call(std::string(target), std::move(args), std::move(kwargs));
    infer_value(*node);
    return node;
  };
  const auto end = static_cast<int64_t>(rank);
  Node* key = call(op::kTranspose, {turned, end - 2, end - 1});
  const auto raised = [&](Node* node) { return rank == 4 ? node : call(op::kUnsqueeze, {node, 0}); };
  Node::Kwargs kwargs;
  kwargs.emplace_back("scale", scale);
  query = raised(query);
  key = raised(key);
  Node* value = raised(last.arg(1).node());
  Node* whole = call(op::kAttention, {query, key, value}, std::move(kwargs));
  if (rank == 3) whole = call(op::kSqueezeDim, {whole, 0});
  last.replace_all_uses_with(whole);
}

}  // namespace

void join_attention(Program& program) {
  for (Node* node : program.graph->nodes())
    if (node->is(op::kMatmul) || node->is(op::kBmm)) join(program, *node);
}

}  // namespace qdq
