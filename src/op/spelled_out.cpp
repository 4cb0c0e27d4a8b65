// Activations in several operators.
#include "op/spelled_out.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "op/facts.h"
#include "op/infer.h"
#include "op/targets.h"

namespace qdq {

bool is_aten(const Node* node, std::string_view name) {
  return node && node->op() == Node::Op::kCallFunction && space_of(node->target()) == "aten" &&
         local_name(node->target()) == name;
}

Node* sole_call(const Argument& argument, std::string_view name) {
  Node* node = argument.node();
  return is_aten(node, name) && node->users().size() == 1 ? node : nullptr;
}

bool is_number(const Argument& argument, double wanted) {
  const auto number = argument.number();
  return number && std::fabs(*number - wanted) <= 1e-6 * std::fabs(wanted);
}

void replace_with_call(Node* last, const std::string& name, std::vector<Argument> args, Node::Kwargs kwargs) {
  Graph& graph = last->graph();
  Node* node = nullptr;
  {
    const auto point = graph.insert_before(last);
    node = graph.call(op::aten(name), std::move(args), std::move(kwargs), name.substr(0, name.find('.')));
  }
  node->meta = last->meta;
  last->replace_all_uses_with(node);
}

namespace {

// The bounds of a clamp, by whatever name; infinite where there is none.
struct Bounds {
  Argument x;
  double low = -INFINITY, high = INFINITY;
};

std::optional<Bounds> bounds_of(const Argument& argument) {
  const Node* node = argument.node();
  if (node == nullptr || node->op() != Node::Op::kCallFunction || node->users().size() != 1) return std::nullopt;
  const auto function = activation_function(*node);
  if (!function || function->kind != kernel::Activation::Kind::kClamp) return std::nullopt;
  return Bounds{argument_of(*node, 0), function->low, function->high};
}

// x, if the argument is clamp(x + 3, 0, 6) that nobody else reads; else None.
Argument behind_hard_bounds(const Argument& argument) {
  Bounds both{argument};
  for (std::optional<Bounds> bounds = bounds_of(argument); bounds; bounds = bounds_of(both.x))
    both = {bounds->x, std::fmax(both.low, bounds->low), std::fmin(both.high, bounds->high)};
  const Node* sum = sole_call(both.x, "add.Tensor");
  if (both.low != 0 || both.high != 6 || !sum || !is_number(sum->arg(1), 3) || sum->kwarg("alpha")) return {};
  return sum->arg(0);
}

// What is divided by 6, or None.
Argument sixfold(const Node* node) {
  if (is_aten(node, "div.Tensor") && is_number(node->arg(1), 6)) return node->arg(0);
  if (is_aten(node, "mul.Tensor") && is_number(node->arg(1), 1.0 / 6)) return node->arg(0);
  return {};
}

// A factor of attention: x times the square root of the scale. Gives x, and multiplies `scale`.
Node* scaled(const Argument& argument, double& scale) {
  const Node* mul = sole_call(argument, "mul.Tensor");
  if (!mul) mul = sole_call(argument, "mul.Scalar");
  if (!mul || !mul->arg(0).is_node() || !mul->arg(1).number()) return nullptr;
  scale *= *mul->arg(1).number();
  return mul->arg(0).node();
}

}  // namespace

std::vector<int64_t> permutation_of(const Node& node) {
  const TensorMeta* meta = node.meta.val.tensor();
  const auto rank = static_cast<int64_t>(meta ? meta->sizes.size() : 0);
  const auto axis_in = [&](const Argument& argument) {
    const int64_t axis = argument.integer().value_or(rank);
    return axis < -rank || axis >= rank ? rank : wrap_axis(axis, rank);
  };
  std::vector<int64_t> axes;
  if (is_aten(&node, "transpose.int")) {
    const int64_t a = axis_in(argument_of(node, 1)), b = axis_in(argument_of(node, 2));
    if (a == rank || b == rank) return {};
    for (int64_t i = 0; i < rank; ++i) axes.push_back(i == a ? b : i == b ? a : i);
  } else if (is_aten(&node, "permute.default") && argument_of(node, 1).is_list()) {
    for (const Argument& argument : argument_of(node, 1).list()) axes.push_back(axis_in(argument));
    std::vector<int64_t> sorted = axes;
    std::sort(sorted.begin(), sorted.end());
    for (int64_t i = 0; i < static_cast<int64_t>(sorted.size()); ++i)
      if (sorted[static_cast<size_t>(i)] != i) return {};
  }
  return static_cast<int64_t>(axes.size()) == rank ? axes : std::vector<int64_t>();
}

bool join_silu(Node* last) {
  if (!is_aten(last, "mul.Tensor")) return false;
  for (const size_t i : {size_t{0}, size_t{1}}) {
    const Node* sigmoid = sole_call(last->arg(i), "sigmoid.default");
    if (!sigmoid || sigmoid->arg(0) != last->arg(1 - i)) continue;
    replace_with_call(last, "silu.default", {last->arg(1 - i)});
    return true;
  }
  return false;
}

bool join_hard_curve(Node* last) {
  const Argument product = sixfold(last);
  if (const Argument x = behind_hard_bounds(product); x.is_node()) {
    replace_with_call(last, "hardsigmoid.default", {x});
    return true;
  }
  if (const Node* mul = sole_call(product, "mul.Tensor")) {
    for (const size_t i : {size_t{0}, size_t{1}}) {
      const Argument x = behind_hard_bounds(mul->arg(i));
      if (!x.is_node() || x != mul->arg(1 - i)) continue;
      replace_with_call(last, "hardswish.default", {x});
      return true;
    }
  }
  if (!is_aten(last, "mul.Tensor")) return false;
  for (const size_t i : {size_t{0}, size_t{1}}) {
    const Node* curve = sole_call(last->arg(i), "hardsigmoid.default");
    if (!curve || curve->arg(0) != last->arg(1 - i)) continue;
    replace_with_call(last, "hardswish.default", {last->arg(1 - i)});
    return true;
  }
  return false;
}

void join_attention_parts(Node* last) {
  const Node* softmax = sole_call(last->arg(0), "softmax.int");
  if (!softmax) softmax = sole_call(last->arg(0), "_safe_softmax.default");
  if (!softmax || !last->arg(1).is_node()) return;
  const auto rank = static_cast<int64_t>(last->meta.val.tensor()->sizes.size());
  const auto has_rank = [&](const Node* node) {
    const TensorMeta* meta = node->meta.val.tensor();
    return meta != nullptr && static_cast<int64_t>(meta->sizes.size()) == rank;
  };
  if (rank < 3 || !has_rank(softmax) || !has_rank(last->arg(1).node())) return;
  const std::optional<int64_t> axis = argument_of(*softmax, 1).integer();
  if ((axis != -1 && axis != rank - 1) || !argument_of(*softmax, 2).is_none()) return;
  const Node* scores = sole_call(softmax->arg(0), "matmul.default");
  Argument mask;
  if (const Node* sum = scores ? nullptr : sole_call(softmax->arg(0), "add.Tensor")) {
    if (!sum->kwargs().empty()) return;
    for (const size_t i : {size_t{0}, size_t{1}}) {
      if (scores || !(scores = sole_call(sum->arg(i), "matmul.default"))) continue;
      mask = sum->arg(1 - i);
    }
    if (!mask.is_node()) return;
  }
  if (!scores) return;
  double scale = 1;
  Node* query = scaled(scores->arg(0), scale);
  Node* turned = query ? scaled(scores->arg(1), scale) : nullptr;
  std::vector<int64_t> axes = turned ? permutation_of(*turned) : std::vector<int64_t>();
  if (!query || !has_rank(query)) return;
  const std::optional<int64_t> width = query->meta.val.tensor()->sizes.back().constant();
  if (static_cast<int64_t>(axes.size()) != rank || !width || *width < 1) return;

  std::swap(axes[axes.size() - 1], axes[axes.size() - 2]);
  std::vector<size_t> moved;
  for (size_t i = 0; i < axes.size(); ++i)
    if (axes[i] != static_cast<int64_t>(i)) moved.push_back(i);
  Node* key = turned->arg(0).node();
  if (!moved.empty()) {
    const auto point = last->graph().insert_before(turned);
    if (moved.size() == 2)
      key = last->graph().call(std::string(op::kTranspose),
                               {key, static_cast<int64_t>(moved[0]), static_cast<int64_t>(moved[1])}, {}, "transpose");
    else
      key = last->graph().call(std::string(op::kPermute),
                               {Argument(key), Argument(Argument::List(axes.begin(), axes.end()))}, {}, "permute");
    key->meta = turned->meta;
    infer_value(*key);
  }
  Node::Kwargs kwargs;
  if (!is_number(scale, 1 / std::sqrt(static_cast<double>(*width)))) kwargs.emplace_back("scale", scale);
  std::vector<Argument> args = {query, key, last->arg(1)};
  if (mask.is_node()) args.push_back(mask);
  replace_with_call(last, "scaled_dot_product_attention.default", std::move(args), std::move(kwargs));
}

}  // namespace qdq
