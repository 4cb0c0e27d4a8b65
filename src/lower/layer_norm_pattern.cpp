#include "lower/layer_norm_pattern.h"

#include <algorithm>
#include <string_view>

#include "lower/fuse_nodes.h"
#include "op/targets.h"

namespace qdq {
namespace {

// How exporters spell 1 / sqrt(x) and x squared.
constexpr std::string_view kPower = "torch.ops.aten.pow.Tensor_Scalar", kRoot = "torch.ops.aten.sqrt.default",
                           kInverseRoot = "torch.ops.aten.rsqrt.default",
                           kInverse = "torch.ops.aten.reciprocal.default";
using Nodes = std::vector<Node*>;

// What an argument is rounded from, and how; the nodes that round are added to `nodes`.
Argument unrounded(const Argument& argument, std::optional<PlanQParams>& rounding, Nodes& nodes) {
  Node* dequantize = argument.node();
  if (dequantize == nullptr || !dequantizes_tensor(*dequantize)) return argument;
  Node* quantize = dequantize->arg(0).node();
  if (quantize == nullptr || !is_fusable_quantize(*quantize)) return argument;
  rounding = plan_qparams(*quantize);
  nodes.insert(nodes.end(), {quantize, dequantize});
  return quantize->arg(0);
}

// Whether both are the same number: one node, or two that dequantize the same integers.
bool is_same_value(const Node* a, const Node* b) {
  if (a == b) return true;
  return a != nullptr && b != nullptr && dequantizes_tensor(*a) && dequantizes_tensor(*b) && a->args() == b->args();
}

// The operand of a mean over the last axis that keeps it.
Node* averaged(const Argument& argument) {
  const Node* mean = input_if(argument, op::kMeanDim);
  if (mean == nullptr || !mean->arg(1).is_list() || mean->arg(1).list().size() != 1 ||
      mean->arg(2).integer().value_or(0) != 1 || !mean->arg(3).is_none())
    return nullptr;
  Node* x = mean->arg(0).node();
  const TensorMeta* meta = x == nullptr ? nullptr : float_meta(*x);
  const int64_t axis = mean->arg(1).list()[0].integer().value_or(0);
  if (meta == nullptr || (axis != -1 && axis != static_cast<int64_t>(meta->sizes.size()) - 1)) return nullptr;
  return x;
}

bool is_square(const Node& node) {
  return (node.is(kPower) && node.arg(1).number() == 2.0) ||
         (node.is(op::kMul) && node.kwargs().empty() && node.arg(0) == node.arg(1));
}

// The mean that x - mean(x) takes; null if the argument is something else.
Node* mean_of_centered(const Argument& argument, std::optional<PlanQParams>& rounding, Nodes& nodes) {
  Node* sub = input_if(argument, op::kSub);
  if (sub == nullptr || sub->args().size() != 2) return nullptr;
  const Argument mean = unrounded(sub->arg(1), rounding, nodes);
  const Node* x = averaged(mean);
  if (x == nullptr || !is_same_value(sub->arg(0).node(), x)) return nullptr;
  nodes.insert(nodes.end(), {mean.node(), sub});
  return mean.node();
}

// The other operand, if it is a constant for each element of the last axis.
Node* per_column(const Program& program, const Node& node, const Node* operand, int64_t columns) {
  if (!node.kwargs().empty() || node.args().size() != 2) return nullptr;
  Node* other = node.arg(node.arg(0).node() == operand ? 1 : 0).node();
  const std::optional<Tensor> tensor = constant_operand(program, other);
  return tensor && tensor->defined() && tensor->sizes() == Shape{columns} ? other : nullptr;
}

// Takes the operator behind the end of the pattern if it is this one with a constant; returns the constant.
Node* take_behind(const Program& program, LayerNormPattern& found, std::string_view target,
                  std::optional<PlanQParams>& rounding) {
  Node *operand = found.last, *user = single_user(*operand);
  Nodes taken;
  std::optional<PlanQParams> by;
  if (user != nullptr && is_fusable_quantize(*user) && user->users().size() == 1) {
    by = plan_qparams(*user);
    operand = user->users()[0];
    taken = {user, operand};
    user = single_user(*operand);
  }
  if (user == nullptr || !user->is(target)) return nullptr;
  Node* constant = per_column(program, *user, operand, found.columns);
  if (constant == nullptr) return nullptr;
  rounding = by;
  found.nodes.insert(found.nodes.end(), taken.begin(), taken.end());
  found.nodes.push_back(user);
  found.last = user;
  return constant;
}

bool is_closed(const LayerNormPattern& found) {
  const auto is_inside = [&](const Node* node) {
    return std::find(found.nodes.begin(), found.nodes.end(), node) != found.nodes.end();
  };
  return std::all_of(found.nodes.begin(), found.nodes.end(), [&](const Node* node) {
    return node == found.last || std::all_of(node->users().begin(), node->users().end(), is_inside);
  });
}

// x and epsilon of mean(x^2) + epsilon.
struct MeanSquare {
  Node* x;
  double epsilon;
};
std::optional<MeanSquare> mean_square(const Program& program, const Argument& argument) {
  const Node* add = input_if(argument, op::kAdd);
  if (add == nullptr || add->args().size() != 2) return std::nullopt;
  const Node* square = averaged(add->arg(0));
  const std::optional<double> epsilon = number_of(program, add->arg(1));
  if (square == nullptr || !epsilon) return std::nullopt;
  if (!is_square(*square) || square->arg(0).node() == nullptr) return std::nullopt;
  return MeanSquare{square->arg(0).node(), *epsilon};
}

// Of x / sqrt(mean(x^2) + epsilon), which exporters write in several ways.
std::optional<MeanSquare> divided_by_root(const Program& program, const Node& node) {
  if (!node.kwargs().empty() || node.args().size() != 2) return std::nullopt;
  const auto of_root = [&](const Argument& argument) -> std::optional<MeanSquare> {
    const Node* root = input_if(argument, kRoot);
    return root == nullptr ? std::nullopt : mean_square(program, root->arg(0));
  };
  const auto of_factor = [&](const Argument& argument) -> std::optional<MeanSquare> {
    if (const Node* root = input_if(argument, kInverseRoot)) return mean_square(program, root->arg(0));
    if (const Node* inverse = input_if(argument, kInverse)) return of_root(inverse->arg(0));
    const Node* div = input_if(argument, op::kDiv);
    return div != nullptr && number_of(program, div->arg(0)) == 1.0 ? of_root(div->arg(1)) : std::nullopt;
  };
  for (const size_t i : {size_t{0}, size_t{1}}) {
    const auto found = node.is(op::kDiv) && i == 0 ? of_root(node.arg(1))
                       : node.is(op::kMul)         ? of_factor(node.arg(1 - i))
                                                   : std::nullopt;
    if (found && found->x == node.arg(i).node()) return found;
  }
  return std::nullopt;
}

}  // namespace

Node* input_if(const Argument& argument, std::string_view target) {
  Node* node = argument.node();
  return node != nullptr && node->is(target) && node->kwargs().empty() ? node : nullptr;
}

std::optional<double> number_of(const Program& program, const Argument& argument) {
  if (const std::optional<double> number = argument.number()) return number;
  const std::optional<Tensor> tensor = constant_operand(program, argument);
  if (!tensor || !tensor->defined() || tensor->numel() != 1) return std::nullopt;
  return tensor->item();
}

std::optional<LayerNormPattern> layer_norm_around(const Program& program, Node& division) {
  LayerNormPattern found;
  Node* root = division.args().size() == 2 ? input_if(division.arg(1), kRoot) : nullptr;
  if (root == nullptr) return std::nullopt;
  Node* add = input_if(unrounded(root->arg(0), found.roundings.shifted, found.nodes), op::kAdd);
  const std::optional<double> epsilon =
      add == nullptr || add->args().size() != 2 ? std::nullopt : number_of(program, add->arg(1));
  if (!epsilon) return std::nullopt;
  const Argument variance = unrounded(add->arg(0), found.roundings.variance, found.nodes);
  Node* square = averaged(variance);
  if (square == nullptr) return std::nullopt;
  if (!is_square(*square)) return std::nullopt;
  std::optional<PlanQParams> other;
  Node* first = mean_of_centered(square->arg(0), found.roundings.mean, found.nodes);
  Node* mean = mean_of_centered(division.arg(0), other, found.nodes);
  if (first == nullptr || mean == nullptr || other != found.roundings.mean) return std::nullopt;
  if (!is_same_value(first->arg(0).node(), mean->arg(0).node())) return std::nullopt;
  found.x = first->arg(0).node();
  const std::optional<int64_t> columns = float_meta(*found.x)->sizes.back().constant();
  if (!columns || *columns < 1) return std::nullopt;
  found.columns = *columns;
  found.epsilon = *epsilon;
  found.last = &division;
  found.nodes.insert(found.nodes.end(), {variance.node(), square, add, root, &division});
  found.gamma = take_behind(program, found, op::kMul, found.roundings.normalized);
  std::optional<PlanQParams>& behind = found.gamma == nullptr ? found.roundings.normalized : found.roundings.scaled;
  found.beta = take_behind(program, found, op::kAdd, behind);
  if (found.roundings.any() && !is_closed(found)) return std::nullopt;
  return found;
}

std::optional<LayerNormPattern> rms_norm_around(const Program& program, Node& node) {
  const std::optional<MeanSquare> by = divided_by_root(program, node);
  if (!by) return std::nullopt;
  const std::optional<int64_t> columns = float_meta(*by->x)->sizes.back().constant();
  if (!columns || *columns < 1) return std::nullopt;
  LayerNormPattern found;
  found.x = by->x;
  found.epsilon = by->epsilon;
  found.columns = *columns;
  found.last = &node;
  if (Node* mul = single_user(node); mul != nullptr && mul->is(op::kMul)) {
    found.gamma = per_column(program, *mul, &node, *columns);
    if (found.gamma != nullptr) found.last = mul;
  }
  return found;
}

}  // namespace qdq
