#include "lower/join_operators.h"

#include <optional>
#include <utility>

#include "lower/fuse_nodes.h"
#include "op/infer.h"
#include "op/targets.h"

namespace qdq {
namespace {

constexpr std::string_view kPower = "torch.ops.aten.pow.Tensor_Scalar", kRoot = "torch.ops.aten.sqrt.default",
                           kLarger = "torch.ops.aten.maximum.default", kLeakyRelu = "torch.ops.aten.leaky_relu.default",
                           kClampMin = "torch.ops.aten.clamp_min.default";

Node* input_if(const Argument& argument, std::string_view target) {
  Node* node = argument.node();
  return node != nullptr && node->is(target) && node->kwargs().empty() ? node : nullptr;
}

// A float32 constant, or one that is dequantized; nothing for other arguments.
std::optional<Tensor> constant_floats_of(const Program& program, const Argument& argument) {
  const Node* node = argument.node();
  if (node == nullptr) return std::nullopt;
  if (node->is(op::kDequantize) && node->arg(0).is_node() && node->arg(0).node()->op() == Node::Op::kGetAttr &&
      node->input_nodes().size() == 1 && float_meta(*node) != nullptr)
    return eval_constant(program, *node);
  const auto found = constant_bias(program, argument);
  const Tensor* tensor = std::get_if<Tensor>(&found);
  return tensor == nullptr ? std::nullopt : std::optional(*tensor);
}

// A number, or a constant of one element.
std::optional<double> number_of(const Program& program, const Argument& argument) {
  if (const std::optional<double> number = argument.number()) return number;
  const std::optional<Tensor> tensor = constant_floats_of(program, argument);
  if (!tensor || tensor->numel() != 1) return std::nullopt;
  return tensor->item();
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

// x of x - mean(x).
Node* centered(const Argument& argument) {
  const Node* sub = input_if(argument, op::kSub);
  if (sub == nullptr || sub->args().size() != 2) return nullptr;
  Node* x = averaged(sub->arg(1));
  return x != nullptr && sub->arg(0).node() == x ? x : nullptr;
}

// The other operand, if it is a constant for each element of the last axis.
Node* per_column(const Program& program, const Node& node, const Node* operand, int64_t columns) {
  if (!node.kwargs().empty() || node.args().size() != 2) return nullptr;
  Node* other = node.arg(node.arg(0).node() == operand ? 1 : 0).node();
  const std::optional<Tensor> tensor = constant_floats_of(program, other);
  return tensor && tensor->sizes() == Shape{columns} ? other : nullptr;
}

void join_layer_norm(Program& program, Node& div) {
  const Node* root = div.args().size() == 2 ? input_if(div.arg(1), kRoot) : nullptr;
  const Node* add = root == nullptr ? nullptr : input_if(root->arg(0), op::kAdd);
  const std::optional<double> epsilon =
      add == nullptr || add->args().size() != 2 ? std::nullopt : number_of(program, add->arg(1));
  const Node* square = epsilon ? averaged(add->arg(0)) : nullptr;
  if (square == nullptr) return;
  const bool is_power = square->is(kPower) && square->arg(1).number() == 2.0;
  const bool is_product = square->is(op::kMul) && square->arg(0) == square->arg(1) && square->kwargs().empty();
  Node* x = is_power || is_product ? centered(square->arg(0)) : nullptr;
  if (x == nullptr || centered(div.arg(0)) != x) return;
  const std::optional<int64_t> columns = float_meta(*x)->sizes.back().constant();
  if (!columns || *columns < 1) return;

  Node *last = &div, *gamma = nullptr, *beta = nullptr;
  if (Node* mul = single_user(*last); mul != nullptr && mul->is(op::kMul)) {
    gamma = per_column(program, *mul, last, *columns);
    if (gamma != nullptr) last = mul;
  }
  if (Node* shift = single_user(*last); shift != nullptr && shift->is(op::kAdd)) {
    beta = per_column(program, *shift, last, *columns);
    if (beta != nullptr) last = shift;
  }
  const auto argument = [](Node* node) { return node == nullptr ? Argument() : Argument(node); };
  const auto point = program.graph->insert_before(last);
  Node* whole = program.graph->call(std::string(op::kLayerNorm),
                                    {x, Argument::List{*columns}, argument(gamma), argument(beta), *epsilon}, {});
  whole->meta = last->meta;
  last->replace_all_uses_with(whole);
}

void join_larger(Program& program, Node& larger) {
  for (const size_t i : {size_t{0}, size_t{1}}) {
    Node* x = larger.arg(i).node();
    const std::optional<double> bound = number_of(program, larger.arg(1 - i));
    if (!bound || x == nullptr || float_meta(*x) == nullptr || float_meta(larger) == nullptr ||
        float_meta(larger)->sizes != float_meta(*x)->sizes)
      continue;
    larger.set_args({x, *bound});
    larger.set_target(std::string(kClampMin));
    return;
  }
  for (const size_t i : {size_t{0}, size_t{1}}) {
    const Node* mul = input_if(larger.arg(1 - i), op::kMul);
    Node* x = larger.arg(i).node();
    if (mul == nullptr || x == nullptr || mul->args().size() != 2 || float_meta(*x) == nullptr) continue;
    const size_t at = mul->arg(0).node() == x ? 0 : 1;
    const std::optional<double> slope = mul->arg(at).node() == x ? number_of(program, mul->arg(1 - at)) : std::nullopt;
    if (!slope || !(*slope >= 0 && *slope <= 1) || float_meta(larger) == nullptr ||
        float_meta(larger)->sizes != float_meta(*x)->sizes)
      continue;
    larger.set_args({x, *slope});
    larger.set_target(std::string(kLeakyRelu));
    return;
  }
}

void join_bias(Program& program, Node& add) {
  if (!add.kwargs().empty() || add.args().size() != 2) return;
  for (const size_t i : {size_t{0}, size_t{1}}) {
    Node* conv = add.arg(i).node();
    if (conv == nullptr || single_user(*conv) != &add) continue;
    if (!conv->is(op::kConv2d) && !conv->is(op::kConv1d) && !conv->is(op::kLinear)) continue;
    const TensorMeta *meta = float_meta(*conv), *result = float_meta(add);
    const std::optional<Tensor> shift = constant_floats_of(program, add.arg(1 - i));
    const auto bias = constant_bias(program, conv->arg(2));
    if (meta == nullptr || result == nullptr || result->sizes != meta->sizes || !shift ||
        !std::holds_alternative<Tensor>(bias))
      continue;
    const size_t rank = meta->sizes.size(), axes = shift->sizes().size();
    const size_t behind = conv->is(op::kConv2d) ? 2 : conv->is(op::kConv1d) ? 1 : 0;  // axes behind the channels
    if ((behind > 0 && rank != behind + 2) || rank < behind + 1 || axes < behind + 1 || axes > rank ||
        meta->sizes[rank - behind - 1] != SymInt(shift->numel()) || shift->sizes()[axes - behind - 1] != shift->numel())
      continue;
    const Tensor sum = shift->clone().reshape({shift->numel()});
    if (const Tensor& old = *std::get_if<Tensor>(&bias); old.defined()) {
      if (old.numel() != sum.numel()) continue;
      for (int64_t c = 0; c < sum.numel(); ++c) sum.data<float>()[c] += old.data<float>()[c];
    }
    const std::string name = program.unique_attribute_name(concat("_joined_", conv->name(), "_bias"));
    program.add_attribute({name, sum, Attribute::Kind::kBuffer});
    const auto point = program.graph->insert_before(conv);
    Node* joined = program.graph->get_attr(name);
    joined->meta.val.value = TensorMeta{DType::kF32, {SymInt(sum.numel())}, {}, false};
    conv->set_arg(2, joined);
    add.replace_all_uses_with(conv);
    return;
  }
}

}  // namespace

void join_operators(Program& program) {
  if (!fusion_obstacle(*program.graph).empty()) return;
  for (Node* node : program.graph->nodes()) {
    if (node->is(op::kDiv)) join_layer_norm(program, *node);
    else if (node->is(kLarger)) join_larger(program, *node);
    else if (node->is(op::kAdd)) join_bias(program, *node);
  }
  program.graph->eliminate_dead_code();
  program.erase_unused_attributes();
}

}  // namespace qdq
