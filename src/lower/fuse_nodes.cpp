#include "lower/fuse_nodes.h"

#include <algorithm>

#include "lower/fuse.h"
#include "op/facts.h"
#include "op/infer.h"
#include "op/shared_storage.h"
#include "op/targets.h"

namespace qdq {
namespace {

bool has_plan_qparams(const Node& node) {
  const auto& args = node.args();
  if (args.size() != 6 || !args[0].is_node() || !args[1].number() || !args[2].integer() || !args[3].integer() ||
      !args[4].integer())
    return false;
  if (!args[5].is<DType>() || (args[5].as<DType>() != DType::kU8 && args[5].as<DType>() != DType::kS8)) return false;
  return *args[1].number() > 0 && args[0].node()->op() != Node::Op::kGetAttr;
}

const Tensor* constant_of(const Program& program, const Argument& argument) {
  const Node* node = argument.node();
  if (node == nullptr || node->op() != Node::Op::kGetAttr) return nullptr;
  for (const BufferMutation& mutation : program.buffer_mutations)
    if (mutation.buffer == node->target()) return nullptr;
  return &program.attribute_of(*node);
}

// One number stands for all.
template <size_t N>
std::optional<std::array<int64_t, N>> ints_of(const Argument& argument, const std::array<int64_t, N>& if_none) {
  if (argument.is_none() || (argument.is_list() && argument.list().empty())) return if_none;
  if (argument.is_list() && argument.list().size() != 1 && argument.list().size() != N) return std::nullopt;
  std::array<int64_t, N> out;
  for (size_t i = 0; i < N; ++i) {
    const Argument& one = !argument.is_list() ? argument : argument.list()[argument.list().size() == 1 ? 0 : i];
    const std::optional<int64_t> number = one.integer();
    if (!number) return std::nullopt;
    out[i] = *number;
  }
  return out;
}

// Whether a node's value has bytes of its own, so that writing to it is the same as making a new one.
bool is_fresh(const Node& node) {
  if (dequantizes_tensor(node) || activation_function(node)) return true;
  const OpDef* op = op_of(node);
  if (op == nullptr) return false;
  switch (op->family) {
    case Family::kConvolution:
    case Family::kLinear:
    case Family::kAdd:
    case Family::kMultiply:
    case Family::kConcat:
    case Family::kBatchNorm:
    case Family::kMaxPool:
    case Family::kAveragePool: return true;
    default: return false;
  }
}

}  // namespace

std::string fusion_obstacle(const Graph& graph) {
  if (calls_modules(graph)) return "the graph calls modules (observers)";
  const auto writers = values_with_writers(graph);
  for (const Node* node : graph.nodes())
    if (const auto found = writers.find(node); found != writers.end())
      return concat("the graph writes to a value that others may read, in node ", found->second->name());
  return {};
}

bool calls_modules(const Graph& graph) {
  const std::vector<Node*> nodes = graph.nodes();
  return std::any_of(nodes.begin(), nodes.end(), [](const Node* n) { return n->op() == Node::Op::kCallModule; });
}

std::unordered_map<const Node*, const Node*> values_with_writers(const Graph& graph) {
  const std::vector<Node*> nodes = graph.nodes();
  std::vector<std::pair<const Node*, const Node*>> writes;  // what is written, by whom
  for (const Node* node : nodes) {
    if (is_idle_dropout(*node)) continue;
    for (const Node* written : written_by(*node))
      if (single_user(*written) != node || !is_fresh(*written)) writes.emplace_back(written, node);
  }
  std::unordered_map<const Node*, const Node*> out;
  if (writes.empty()) return out;
  const SharedStorage storage(graph);
  std::unordered_map<const Node*, const Node*> writer_of;  // roots
  for (const auto& [written, node] : writes) writer_of.emplace(storage.root_of(written), node);
  for (const Node* node : nodes)
    if (const auto writer = writer_of.find(storage.root_of(node)); writer != writer_of.end())
      out.emplace(node, writer->second);
  return out;
}

bool is_idle_dropout(const Node& node) {
  return is_a(node, Family::kDropout) && node.arg(2).integer().value_or(1) == 0;
}

const TensorMeta* float_meta(const Node& node) {
  const TensorMeta* meta = node.meta.val.tensor();
  return meta != nullptr && meta->dtype == DType::kF32 ? meta : nullptr;
}

bool quantizes_tensor(const Node& node) { return node.is(op::kQuantize) && has_plan_qparams(node); }
bool dequantizes_tensor(const Node& node) {
  return node.is(op::kDequantize) && has_plan_qparams(node) && node.kwargs().empty();
}

PlanQParams plan_qparams(const Node& node) {
  const int32_t shift = node.arg(5).as<DType>() == DType::kS8 ? 128 : 0;
  const auto shifted = [&](size_t i) { return static_cast<int32_t>(*node.arg(i).integer()) + shift; };
  return {*node.arg(1).number(), shifted(2), shifted(3), shifted(4)};
}

bool is_fusable_quantize(const Node& node) {
  if (!quantizes_tensor(node) || node.users().empty() || node.meta.val.tensor() == nullptr) return false;
  const PlanQParams qparams = plan_qparams(node);
  return std::all_of(node.users().begin(), node.users().end(), [&](const Node* user) {
    return dequantizes_tensor(*user) && plan_qparams(*user) == qparams && user->arg(5) == node.arg(5);
  });
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
  const bool per_channel = node != nullptr && node->is(op::kDequantizeChannels),
             per_tensor = node != nullptr && node->is(op::kDequantize);
  if (!per_channel && !per_tensor) return "the weight is not a dequantized constant";
  const Tensor* values = constant_of(program, node->arg(0));
  if (values == nullptr || values->dtype() != DType::kS8 || values->dim() < 1)
    return "the weight is not a constant int8 tensor";
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
    if (std::any_of(all.data<double>(), all.data<double>() + all.numel(),
                    [](double zero_point) { return zero_point != 0; }))
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

std::optional<Tensor> constant_operand(const Program& program, const Argument& argument) {
  const Node* node = argument.node();
  if (node == nullptr) return std::nullopt;
  if (node->is(op::kDequantize) && constant_of(program, node->arg(0)) != nullptr && node->input_nodes().size() == 1 &&
      float_meta(*node) != nullptr)
    return eval_constant(program, *node).contiguous();
  const auto found = constant_bias(program, argument);
  const Tensor* tensor = std::get_if<Tensor>(&found);
  return tensor == nullptr ? std::nullopt : std::optional(*tensor);
}

std::optional<DynamicInput> dynamic_input(const Node& choose) {
  DynamicInput found;
  found.x = choose.arg(0).node();
  const auto qmin = choose.arg(1).integer(), qmax = choose.arg(2).integer();
  const auto epsilon = choose.arg(3).number();
  const bool is_u8 = choose.arg(4) == Argument(DType::kU8), is_s8 = choose.arg(4) == Argument(DType::kS8);
  if (found.x == nullptr || !qmin || !qmax || !epsilon || !(is_u8 || is_s8) || choose.users().size() != 2)
    return std::nullopt;
  const Node *scale = nullptr, *zero_point = nullptr, *quantize = nullptr;
  for (const Node* item : choose.users())
    if (item->is(op::kGetItem)) (item->arg(1).integer() == 0 ? scale : zero_point) = item;
  if (scale == nullptr || zero_point == nullptr) return std::nullopt;
  // Both read exactly these, with the range that was chosen for.
  const auto reads_them = [&](const Node& node) {
    return node.args().size() == 6 && node.arg(1).node() == scale && node.arg(2).node() == zero_point &&
           node.arg(3).integer() == qmin && node.arg(4).integer() == qmax && node.arg(5) == choose.arg(4) &&
           node.kwargs().empty();
  };
  for (Node* user : scale->users()) {
    if (user->is(op::kQuantizeByTensors)) quantize = user;
    else if (user->is(op::kDequantizeByTensors)) found.dequantize = user;
  }
  if (quantize == nullptr || found.dequantize == nullptr || scale->users().size() != 2 ||
      zero_point->users().size() != 2)
    return std::nullopt;
  if (!reads_them(*quantize) || !reads_them(*found.dequantize) || quantize->arg(0).node() != found.x)
    return std::nullopt;
  if (found.dequantize->arg(0).node() != quantize || quantize->users().size() != 1) return std::nullopt;
  const int32_t shift = is_s8 ? 128 : 0;
  found.range.qmin = static_cast<int32_t>(*qmin) + shift;
  found.range.qmax = static_cast<int32_t>(*qmax) + shift;
  found.range.epsilon = *epsilon;
  found.nodes = {&choose, scale, zero_point, quantize, found.dequantize};
  return found;
}

std::optional<TokenInput> token_input(const Node& choose) {
  if (!choose.is(op::kChooseQParamsPerToken) || choose.users().size() != 2 || !(choose.arg(1) == Argument(DType::kS8)))
    return std::nullopt;
  TokenInput found;
  found.x = choose.arg(0).node();
  const Node *scale = nullptr, *zero_point = nullptr, *quantize = nullptr;
  for (const Node* item : choose.users())
    if (item->is(op::kGetItem)) (item->arg(1).integer() == 0 ? scale : zero_point) = item;
  if (found.x == nullptr || scale == nullptr || zero_point == nullptr || scale->users().size() != 2 ||
      zero_point->users().size() != 2)
    return std::nullopt;
  for (Node* user : scale->users()) {
    if (user->is(op::kQuantizePerToken)) quantize = user;
    else if (user->is(op::kDequantizePerToken)) found.dequantize = user;
  }
  const auto reads_them = [&](const Node* node) {
    return node != nullptr && node->kwargs().empty() && node->arg(1).node() == scale &&
           node->arg(2).node() == zero_point && node->arg(3).integer() == -128 && node->arg(4).integer() == 127 &&
           node->arg(5) == Argument(DType::kS8);
  };
  if (!reads_them(quantize) || !reads_them(found.dequantize) || quantize->arg(0).node() != found.x ||
      found.dequantize->arg(0).node() != quantize || quantize->users().size() != 1)
    return std::nullopt;
  found.nodes = {&choose, scale, zero_point, quantize, found.dequantize};
  return found;
}

std::variant<kernel::GroupWeights, std::string> group_weights(const Program& program, const Argument& argument) {
  const Node* node = argument.node();
  if (node == nullptr || !node->is(op::kDequantizeGroups) || !node->kwargs().empty())
    return "the weight is not dequantized by groups";
  const Tensor *given = constant_of(program, node->arg(0)), *given_scales = constant_of(program, node->arg(1));
  if (given == nullptr || given->dim() != 2 || (given->dtype() != DType::kS8 && given->dtype() != DType::kU8))
    return "the weight is not a constant matrix of 8-bit integers";
  if (given_scales == nullptr || given_scales->dtype() != DType::kF32 || float_meta(*node) == nullptr)
    return "the weight's scales are not constant, or not float32";
  const int64_t channels = given->size(0), depth = given->size(1), wanted = node->arg(6).integer().value_or(0),
                group = wanted > depth && given_scales->numel() == channels ? depth : wanted;
  if (std::string obstacle = kernel::group_weights_obstacle(depth, group); !obstacle.empty()) return obstacle;
  if (given_scales->numel() != channels * (depth / group)) return "the weight has not one scale a group";
  // Bytes without sign are the same numbers with sign, 128 lower.
  const bool is_u8 = given->dtype() == DType::kU8;
  Tensor integers = given->contiguous();
  std::vector<int32_t> zero_points;
  if (is_u8) {
    const Tensor shifted = Tensor::empty(integers.sizes(), DType::kS8);
    for (int64_t i = 0; i < shifted.numel(); ++i)
      shifted.data<int8_t>()[i] = static_cast<int8_t>(integers.data<uint8_t>()[i] ^ 128);
    integers = shifted;
    zero_points.assign(static_cast<size_t>(given_scales->numel()), -128);
  }
  if (!node->arg(2).is_none()) {
    const Tensor* given_points = constant_of(program, node->arg(2));
    if (given_points == nullptr || is_floating(given_points->dtype()) || given_points->numel() != given_scales->numel())
      return "the weight's zero points are not constant integers";
    const Tensor all = given_points->to(DType::kS64).contiguous();
    zero_points.clear();
    for (const int64_t zero_point : all.span<int64_t>()) {
      if (zero_point < -128 || zero_point > 255) return concat("the weight has a zero point of ", zero_point);
      zero_points.push_back(static_cast<int32_t>(zero_point) - (is_u8 ? 128 : 0));
    }
  }
  const auto beyond = [](int32_t zero_point) { return zero_point < -128 || zero_point > 127; };
  if (std::any_of(zero_points.begin(), zero_points.end(), beyond))
    return "the weight has a zero point beyond its range";
  return kernel::pack_group_weights(integers.data<int8_t>(), given_scales->contiguous().data<float>(),
                                    zero_points.empty() ? nullptr : zero_points.data(), channels, depth, group);
}

std::optional<std::array<int64_t, 2>> int_pair(const Node& node, size_t i, std::array<int64_t, 2> if_none) {
  return ints_of<2>(node.arg(i), if_none);
}

std::optional<std::array<int64_t, 3>> int_triple(const Node& node, size_t i, std::array<int64_t, 3> if_none) {
  return ints_of<3>(node.arg(i), if_none);
}

}  // namespace qdq
