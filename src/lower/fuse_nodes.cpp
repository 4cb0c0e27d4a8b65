#include "lower/fuse_nodes.h"

#include <algorithm>
#include <limits>
#include <unordered_set>

#include "lower/fuse.h"
#include "op/op.h"

namespace qdq {
namespace {

constexpr std::string_view kQuantize = "torch.ops.quantized_decomposed.quantize_per_tensor.default";
constexpr std::string_view kDequantize = "torch.ops.quantized_decomposed.dequantize_per_tensor.default";
constexpr std::string_view kDequantizeChannels = "torch.ops.quantized_decomposed.dequantize_per_channel.default";

bool has_plan_qparams(const Node& node) {
  const auto& args = node.args();
  if (args.size() != 6 || !args[0].is_node() || !args[1].number() || !args[2].integer() || !args[3].integer() || !args[4].integer()) return false;
  if (!args[5].is<DType>() || (args[5].as<DType>() != DType::kU8 && args[5].as<DType>() != DType::kS8)) return false;
  return *args[1].number() > 0 && args[0].node()->op() != Node::Op::kGetAttr;
}

// "torch.ops.aten.relu_.default" and "torch.ops.aten.relu.default" are both "relu".
std::string_view aten_name(const Node& node) {
  constexpr std::string_view kPrefix = "torch.ops.aten.";
  std::string_view name = node.target();
  if (node.op() != Node::Op::kCallFunction || !name.starts_with(kPrefix)) return {};
  name.remove_prefix(kPrefix.size());
  if (!name.ends_with(".default")) return {};
  name.remove_suffix(8);
  if (name.ends_with('_')) name.remove_suffix(1);
  return name;
}

const Tensor* constant_of(const Program& program, const Argument& argument) {
  const Node* node = argument.node();
  if (node == nullptr || node->op() != Node::Op::kGetAttr) return nullptr;
  for (const BufferMutation& mutation : program.buffer_mutations)
    if (mutation.buffer == node->target()) return nullptr;
  return &program.attribute_of(*node);
}

// Whether a node's value has bytes of its own, so that writing to it is the same as making a new one.
bool is_fresh(const Node& node) {
  if (activation_of(node)) return true;
  static const std::unordered_set<std::string_view> kFresh = {"torch.ops.aten.conv2d.default",
                                                              "torch.ops.aten.linear.default",
                                                              "torch.ops.aten.add.Tensor",
                                                              "torch.ops.aten.add_.Tensor",
                                                              "torch.ops.aten.mul.Tensor",
                                                              "torch.ops.aten.mul_.Tensor",
                                                              "torch.ops.aten.cat.default",
                                                              "torch.ops.aten.batch_norm.default",
                                                              "torch.ops.aten.max_pool2d.default",
                                                              "torch.ops.aten.avg_pool2d.default",
                                                              "torch.ops.aten.adaptive_avg_pool2d.default"};
  return node.op() == Node::Op::kCallFunction && (dequantizes_tensor(node) || kFresh.count(node.target()) != 0);
}

}  // namespace

std::string fusion_obstacle(const Graph& graph) {
  for (const Node* node : graph.nodes()) {
    if (node->op() == Node::Op::kCallModule) return "the graph calls modules (observers)";
    if (node->op() != Node::Op::kCallFunction || is_idle_dropout(*node)) continue;
    const OpDef* op = find_op(node->target());
    if (op == nullptr) continue;
    for (size_t i = 0; i < op->schema.arguments.size(); ++i) {
      if (!op->schema.arguments[i].is_mutated) continue;
      const Node* written = node->arg(i).node();
      if (written == nullptr || single_user(*written) != node || !is_fresh(*written))
        return concat("the graph writes to a value that others may read, in node ", node->name());
    }
  }
  return {};
}

bool is_idle_dropout(const Node& node) {
  return (node.is("torch.ops.aten.dropout.default") || node.is("torch.ops.aten.dropout_.default")) && node.arg(2).integer().value_or(1) == 0;
}

const TensorMeta* float_meta(const Node& node) {
  const TensorMeta* meta = node.meta.val.tensor();
  return meta != nullptr && meta->dtype == DType::kF32 ? meta : nullptr;
}

bool quantizes_tensor(const Node& node) { return node.is(kQuantize) && has_plan_qparams(node); }
bool dequantizes_tensor(const Node& node) { return node.is(kDequantize) && has_plan_qparams(node) && node.kwargs().empty(); }

PlanQParams plan_qparams(const Node& node) {
  const int32_t shift = node.arg(5).as<DType>() == DType::kS8 ? 128 : 0;
  const auto shifted = [&](size_t i) { return static_cast<int32_t>(*node.arg(i).integer()) + shift; };
  return {*node.arg(1).number(), shifted(2), shifted(3), shifted(4)};
}

bool is_fusable_quantize(const Node& node) {
  if (!quantizes_tensor(node) || node.users().empty() || node.meta.val.tensor() == nullptr) return false;
  const PlanQParams qparams = plan_qparams(node);
  return std::all_of(node.users().begin(), node.users().end(),
                     [&](const Node* user) { return dequantizes_tensor(*user) && plan_qparams(*user) == qparams && user->arg(5) == node.arg(5); });
}

Node* single_user(const Node& node) {
  if (node.users().size() != 1) return nullptr;
  Node* user = node.users()[0];
  int uses = 0;
  const auto count = [&](const Node* input) { uses += input == &node; };
  for (const Argument& argument : user->args()) argument.for_each_node(count);
  for (const auto& [key, value] : user->kwargs()) value.for_each_node(count);
  return uses == 1 && user->op() == Node::Op::kCallFunction ? user : nullptr;
}

std::variant<QuantizedWeight, std::string> quantized_weight(const Program& program, const Argument& argument) {
  const Node* node = argument.node();
  const bool per_channel = node != nullptr && node->is(kDequantizeChannels), per_tensor = node != nullptr && node->is(kDequantize);
  if (!per_channel && !per_tensor) return "the weight is not a dequantized constant";
  const Tensor* values = constant_of(program, node->arg(0));
  if (values == nullptr || values->dtype() != DType::kS8 || values->dim() < 1) return "the weight is not a constant int8 tensor";
  const int64_t channels = values->size(0);
  if (per_tensor) {
    if (!node->arg(1).number() || node->arg(2).integer().value_or(1) != 0) return "the weight has a zero point";
    return QuantizedWeight{values->contiguous(), Tensor::full({channels}, DType::kF32, *node->arg(1).number())};
  }
  const Tensor* scales = constant_of(program, node->arg(1));
  if (scales == nullptr || scales->numel() != channels || node->arg(3).integer().value_or(-1) != 0)
    return "the weight is not quantized along its output channels";
  if (!node->arg(2).is_none()) {
    const Tensor* zero_points = constant_of(program, node->arg(2));
    if (zero_points == nullptr) return "the weight's zero points are not constant";
    const Tensor all = zero_points->to(DType::kF64).contiguous();
    if (std::any_of(all.data<double>(), all.data<double>() + all.numel(), [](double zero_point) { return zero_point != 0; }))
      return "the weight has a zero point";
  }
  return QuantizedWeight{values->contiguous(), scales->to(DType::kF32).contiguous()};
}

std::variant<Tensor, std::string> constant_bias(const Program& program, const Argument& argument) {
  if (argument.is_none()) return Tensor();
  const Tensor* bias = constant_of(program, argument);
  if (bias == nullptr || bias->dtype() != DType::kF32) return "the bias is not a constant float32 tensor";
  return bias->contiguous();
}

std::optional<DynamicInput> dynamic_input(const Node& choose) {
  DynamicInput found;
  found.x = choose.arg(0).node();
  const auto qmin = choose.arg(1).integer(), qmax = choose.arg(2).integer();
  const auto epsilon = choose.arg(3).number();
  const bool is_u8 = choose.arg(4) == Argument(DType::kU8), is_s8 = choose.arg(4) == Argument(DType::kS8);
  if (found.x == nullptr || !qmin || !qmax || !epsilon || !(is_u8 || is_s8) || choose.users().size() != 2) return std::nullopt;
  const Node *scale = nullptr, *zero_point = nullptr, *quantize = nullptr;
  for (const Node* item : choose.users())
    if (item->is("operator.getitem")) (item->arg(1).integer() == 0 ? scale : zero_point) = item;
  if (scale == nullptr || zero_point == nullptr) return std::nullopt;
  // Both read exactly these, with the range that was chosen for.
  const auto reads_them = [&](const Node& node) {
    return node.args().size() == 6 && node.arg(1).node() == scale && node.arg(2).node() == zero_point && node.arg(3).integer() == qmin &&
           node.arg(4).integer() == qmax && node.arg(5) == choose.arg(4) && node.kwargs().empty();
  };
  for (Node* user : scale->users()) {
    if (user->is("torch.ops.quantized_decomposed.quantize_per_tensor.tensor")) quantize = user;
    else if (user->is("torch.ops.quantized_decomposed.dequantize_per_tensor.tensor")) found.dequantize = user;
  }
  if (quantize == nullptr || found.dequantize == nullptr || scale->users().size() != 2 || zero_point->users().size() != 2) return std::nullopt;
  if (!reads_them(*quantize) || !reads_them(*found.dequantize) || quantize->arg(0).node() != found.x) return std::nullopt;
  if (found.dequantize->arg(0).node() != quantize || quantize->users().size() != 1) return std::nullopt;
  const int32_t shift = is_s8 ? 128 : 0;
  found.range.qmin = static_cast<int32_t>(*qmin) + shift;
  found.range.qmax = static_cast<int32_t>(*qmax) + shift;
  found.epsilon = *epsilon;
  found.nodes = {&choose, scale, zero_point, quantize, found.dequantize};
  return found;
}

std::optional<std::array<int64_t, 2>> int_pair(const Node& node, size_t i, std::array<int64_t, 2> if_none) {
  const Argument& argument = node.arg(i);
  if (argument.is_none() || (argument.is_list() && argument.list().empty())) return if_none;
  if (const std::optional<int64_t> both = argument.integer()) return std::array<int64_t, 2>{*both, *both};
  if (!argument.is_list() || argument.list().size() > 2) return std::nullopt;
  const std::optional<int64_t> first = argument.list().front().integer(), second = argument.list().back().integer();
  if (!first || !second) return std::nullopt;
  return std::array<int64_t, 2>{*first, *second};
}

std::optional<Activation> activation_of(const Node& node) {
  using Kind = Activation::Kind;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const std::string_view name = aten_name(node);
  if (name.empty() || !node.arg(0).is_node() || (!node.kwargs().empty() && name != "gelu")) return std::nullopt;
  const auto number = [&](size_t i, double if_none) { return node.arg(i).number().value_or(if_none); };
  if (name == "relu") return Activation{Kind::kClamp, 0, kInfinity, 0};
  if (name == "relu6") return Activation{Kind::kClamp, 0, 6, 0};
  if (name == "hardtanh") return Activation{Kind::kClamp, number(1, -1), number(2, 1), 0};
  if (name == "clamp") return Activation{Kind::kClamp, number(1, -kInfinity), number(2, kInfinity), 0};
  if (name == "clamp_min") return Activation{Kind::kClamp, number(1, -kInfinity), kInfinity, 0};
  if (name == "clamp_max") return Activation{Kind::kClamp, -kInfinity, number(1, kInfinity), 0};
  if (name == "leaky_relu") return Activation{Kind::kLeakyRelu, 0, 0, number(1, 0.01)};
  if (name == "hardswish") return Activation{Kind::kHardSwish, 0, 0, 0};
  if (name == "hardsigmoid") return Activation{Kind::kHardSigmoid, 0, 0, 0};
  if (name == "sigmoid") return Activation{Kind::kSigmoid, 0, 0, 0};
  if (name == "silu") return Activation{Kind::kSilu, 0, 0, 0};
  if (name == "tanh") return Activation{Kind::kTanh, 0, 0, 0};
  if (name == "gelu") {
    const Argument* approximate = node.kwarg("approximate");
    const bool by_tanh = approximate != nullptr && *approximate == Argument("tanh");
    return Activation{by_tanh ? Kind::kGeluTanh : Kind::kGelu, 0, 0, 0};
  }
  return std::nullopt;
}

}  // namespace qdq
