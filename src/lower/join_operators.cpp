#include "lower/join_operators.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "lower/fuse_nodes.h"
#include "lower/layer_norm_pattern.h"
#include "op/infer.h"
#include "op/targets.h"

namespace qdq {
namespace {

// max(x, slope x) and the like are written with these.
constexpr std::string_view kLarger = "torch.ops.aten.maximum.default", kLeakyRelu = "torch.ops.aten.leaky_relu.default",
                           kClampMin = "torch.ops.aten.clamp_min.default";

// Whether the division is in a layer norm; one that rounds on the way is left to fusion.
bool join_layer_norm(Program& program, Node& division) {
  const std::optional<LayerNormPattern> found = layer_norm_around(program, division);
  if (!found || found->roundings.any()) return found.has_value();
  const auto argument = [](Node* node) { return node == nullptr ? Argument() : Argument(node); };
  const auto point = program.graph->insert_before(found->last);
  Node* whole = program.graph->call(
      std::string(op::kLayerNorm),
      {found->x, Argument::List{found->columns}, argument(found->gamma), argument(found->beta), found->epsilon}, {});
  whole->meta = found->last->meta;
  found->last->replace_all_uses_with(whole);
  return true;
}

void join_rms_norm(Program& program, Node& node) {
  const std::optional<LayerNormPattern> found = rms_norm_around(program, node);
  if (!found) return;
  const auto point = program.graph->insert_before(found->last);
  const Argument gamma = found->gamma == nullptr ? Argument() : Argument(found->gamma);
  Node* whole =
      program.graph->call(std::string(kRmsNorm), {found->x, Argument::List{found->columns}, gamma, found->epsilon}, {});
  whole->meta = found->last->meta;
  found->last->replace_all_uses_with(whole);
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

// One slope for all channels.
void join_prelu(Program& program, Node& prelu) {
  const std::optional<double> slope = number_of(program, prelu.arg(1));
  if (!slope || float_meta(prelu) == nullptr) return;
  prelu.set_args({prelu.arg(0), *slope});
  prelu.set_target(std::string(kLeakyRelu));
}

void join_bias(Program& program, Node& add) {
  if (!add.kwargs().empty() || add.args().size() != 2) return;
  for (const size_t i : {size_t{0}, size_t{1}}) {
    Node* conv = add.arg(i).node();
    if (conv == nullptr || single_user(*conv) != &add) continue;
    if (!conv->is(op::kConv2d) && !conv->is(op::kConv1d) && !conv->is(op::kLinear)) continue;
    const TensorMeta *meta = float_meta(*conv), *result = float_meta(add);
    const std::optional<Tensor> shift = constant_operand(program, add.arg(1 - i));
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

// Operators that choose among integers or say where they lie, so that they may as well do so among dequantized ones.
constexpr std::string_view kChoosing[] = {op::kMaxPool2d,  op::kFlatten,    op::kView,        op::kReshape,
                                          op::kUnsafeView, op::kSqueezeDim, op::kSqueezeDims, op::kUnsqueeze,
                                          op::kPermute,    op::kTranspose};

// dequantize(choosing(q)) as choosing(dequantize(q)), which plans compute in the same integers.
void dequantize_in_front(Program& program, Node& choosing) {
  const bool may_choose = std::any_of(std::begin(kChoosing), std::end(kChoosing),
                                      [&](std::string_view target) { return choosing.is(target); });
  Node* integers = choosing.arg(0).node();
  if (!may_choose || integers == nullptr || integers->op() == Node::Op::kGetAttr || choosing.users().empty() ||
      choosing.meta.val.tensor() == nullptr)
    return;
  const Node& first = *choosing.users()[0];
  for (const Node* user : choosing.users())
    if (!dequantizes_tensor(*user) || plan_qparams(*user) != plan_qparams(first) || user->arg(5) != first.arg(5))
      return;
  const auto point = program.graph->insert_before(&choosing);
  std::vector<Argument> args = first.args();
  args[0] = integers;
  Node* real = program.graph->call(first.target(), std::move(args));
  infer_value(*real);
  args = choosing.args();
  args[0] = real;
  Node* chosen = program.graph->call(choosing.target(), std::move(args), choosing.kwargs());
  infer_value(*chosen);
  const std::vector<Node*> users = choosing.users();
  for (Node* user : users) {
    user->replace_all_uses_with(chosen);
    program.graph->erase(user);
  }
  program.graph->erase(&choosing);
}

}  // namespace

void join_operators(Program& program) {
  if (!fusion_obstacle(*program.graph).empty()) return;
  leave_out_idle_operators(program);
  join_decoder_operators(program);
  join_attention(program);
  for (Node* node : program.graph->nodes()) {
    // What a layer norm divides has no mean, so that a norm by the mean square would be found in it, too.
    if (node->is(op::kDiv) && join_layer_norm(program, *node)) continue;
    if (node->is(op::kDiv) || node->is(op::kMul)) join_rms_norm(program, *node);
    else if (node->is(kLarger)) join_larger(program, *node);
    else if (node->is(kPrelu)) join_prelu(program, *node);
    else if (node->is(op::kAdd)) join_bias(program, *node);
  }
  const std::vector<Node*> nodes = program.graph->nodes();  // from the end: a chain moves as a whole
  for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) dequantize_in_front(program, **node);
  for (Node* node : program.graph->nodes())
    if (node->is(op::kConv2d) || node->is(op::kConv1d) || node->is(op::kLinear)) make_weight_signed(program, *node);
  program.graph->eliminate_dead_code();
  program.erase_unused_attributes();
}

}  // namespace qdq
