// Fusion walks the graph once, in execution order. A head (a convolution, an addition, ...) looks ahead along values
// with one user for what it can take with it (residual, activation, quantize); its step is made where the last of these
// nodes stands, when all inputs exist. A node that no plan can do ends the open plan if it needs one of its values.
#include "lower/fuse.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <unordered_set>

#include "lower/fuse_nodes.h"
#include "lower/fuser.h"
#include "lower/join_operators.h"
#include "lower/volumes_as_images.h"
#include "op/facts.h"
#include "op/targets.h"

namespace qdq {
namespace {

// The form of an operator that makes a new tensor; it stands for the one that writes to its input, too.
struct Rule {
  std::string_view target;
  std::string (*fuse)(Fuser& fuser, Node& node);
};
constexpr Rule kRules[] = {
    {op::kConv2d, fuse_product},
    {op::kConv3d, fuse_product},
    {op::kLinear, fuse_product},
    {op::kBatchNorm, fuse_batch_norm},
    {op::kAdd, fuse_add},
    {op::kMul, fuse_mul},
    {kPrelu, fuse_prelu},
    {op::kCat, fuse_concat},
    {op::kMaxPool2d, fuse_max_pool},
    {op::kAvgPool2d, fuse_average_pool},
    {op::kAdaptiveAvgPool2d, fuse_adaptive_average_pool},
    {op::kMeanDim, fuse_mean},
    {op::kFlatten, fuse_reshape},
    {op::kView, fuse_reshape},
    {op::kReshape, fuse_reshape},
    {op::kUnsafeView, fuse_reshape},
    {op::kSqueezeDim, fuse_squeeze},
    {op::kSqueezeDims, fuse_reshape},
    {op::kUnsqueeze, fuse_unsqueeze},
    {op::kPermute, fuse_permute},
    {op::kTranspose, fuse_transpose},
    {op::kSelect, fuse_select},
    {op::kSlice, fuse_slice},
    {op::kGetItem, fuse_getitem},
    {op::kLayerNorm, fuse_layer_norm},
    {kRmsNorm, fuse_rms_norm},
    {kRotaryEmbedding, fuse_rotary},
    {op::kAttention, fuse_attention},
};

// The symbols of the inputs' sizes, each with a value.
std::map<std::string, int64_t> symbols_of(const Program& program) {
  std::map<std::string, int64_t> symbols;
  for (const Node* input : program.graph->placeholders())
    if (const TensorMeta* meta = input->meta.val.tensor())
      for (const SymInt& size : meta->sizes)
        if (!size.is_constant()) symbols[size.to_string()] = 1;
  return symbols;
}

// Which sizes a plan may have.
class KnownAtPlan {
 public:
  explicit KnownAtPlan(const Program& program, const std::vector<Node*>& nodes) : symbols_(symbols_of(program)) {
    for (Node* node : nodes)
      if (is_integer_layer(*node)) take_around(*node);
  }

  // Empty, or which of a tensor's sizes only a run tells.
  std::string open_size(const SymShape& sizes) const {
    for (const SymInt& size : sizes)
      if (!size.evaluate(symbols_)) return size.to_string();
    return {};
  }
  // Whether a plan can take the node in spite of such sizes: it belongs to a layer of integers, and has no sizes of
  // this kind but those of its operands, each a symbol or an expression by itself. The plan's inputs tell them then.
  bool takes(const Node& node) const {
    if (around_layers_.count(&node) == 0) return false;
    SymShape told;
    for (const Node* input : node.input_nodes()) {
      const TensorMeta* read = input->meta.val.tensor();
      for (const SymInt& size : read != nullptr ? read->sizes : SymShape()) {
        if (size.evaluate(symbols_)) continue;
        if (!size.evaluate({{size.to_string(), 1}})) return false;
        told.push_back(size);
      }
    }
    const SymShape& sizes = node.meta.val.tensor()->sizes;
    return std::all_of(sizes.begin(), sizes.end(), [&](const SymInt& size) {
      return size.evaluate(symbols_) || std::find(told.begin(), told.end(), size) != told.end();
    });
  }

 private:
  static bool is_integer_layer(const Node& node) {
    const Node *x = node.arg(0).node(), *weight = node.arg(1).node();
    return (node.is(op::kLinear) || node.is(op::kConv2d)) && x != nullptr && dequantizes_tensor(*x) &&
           weight != nullptr && is_a(*weight, Family::kDequantize) && PlanBuilder::is_constant(*weight);
  }

  // What quantizes in front of it, and activations and what quantizes behind it, with all that dequantizes there.
  // Nothing else: a plan is compiled for every number of rows that comes.
  void take_around(Node& layer) {
    around_layers_.insert(&layer);
    take_rounding(layer.arg(0).node()->arg(0).node());
    around_layers_.insert(layer.arg(0).node());
    Node* next = single_user(layer);
    for (; next != nullptr && activation_function(*next); next = single_user(*next)) around_layers_.insert(next);
    take_rounding(next);
  }
  void take_rounding(Node* quantize) {
    if (quantize == nullptr || !is_fusable_quantize(*quantize)) return;
    around_layers_.insert(quantize);
    around_layers_.insert(quantize->users().begin(), quantize->users().end());
  }

  const std::map<std::string, int64_t> symbols_;
  std::unordered_set<const Node*> around_layers_;
};

// Empty if the node goes into a plan, else why not.
std::string visit(Fuser& fuser, Node& node, const KnownAtPlan& known) {
  if (fuser.make_pending(node) || fuser.is_taken(&node)) return {};
  if (const Node* writer = fuser.plans.writer_beside(node))
    return concat("node ", writer->name(), " writes to a value that it reads or makes");
  if (is_a(node, Family::kSplit)) return fuse_split(fuser, node);
  if (fuser.options.dynamic && (take_dynamic(fuser, node) || take_tokens(fuser, node))) return {};
  const TensorMeta* meta = node.meta.val.tensor();
  if (meta == nullptr) return "its shape is not known";
  if (!known.takes(node)) {
    if (const std::string size = known.open_size(meta->sizes); !size.empty())
      return concat("its size ", size, " does not follow from those of the inputs");
    for (const Node* input : node.input_nodes())
      if (const TensorMeta* read = input->meta.val.tensor())
        if (const std::string size = known.open_size(read->sizes); !size.empty())
          return concat("the size ", size, " of ", input->name(), " does not follow from those of the inputs");
  }
  if (take_rounded_norm(fuser, node)) return {};
  if (quantizes_tensor(node)) return fuse_quantize(fuser, node);
  if (dequantizes_tensor(node)) return fuse_dequantize(fuser, node);
  if (float_meta(node) == nullptr) return "its result is not float32";
  const OpDef* op = op_of(node);
  if (op == nullptr) return "no step does this operator";
  if (op->family == Family::kCopy || op->family == Family::kDropout) return fuse_identity(fuser, node);
  const std::string_view target = op->functional != nullptr ? op->functional->target : op->target;
  const auto rule =
      std::find_if(std::begin(kRules), std::end(kRules), [&](const Rule& one) { return one.target == target; });
  if (rule != std::end(kRules)) return rule->fuse(fuser, node);
  if (activation_function(node)) return fuse_activation(fuser, node);
  return "no step does this operator";
}

}  // namespace

Fusion fuse_program(Program& program, const FusionOptions& options) {
  Fuser fuser(program, options);
  const std::vector<Node*> nodes = program.graph->nodes();
  const KnownAtPlan known(program, nodes);
  const std::string obstacle = calls_modules(*program.graph) ? "the graph calls modules (observers)" : "";
  for (Node* node : nodes) {
    if (!node->is(op::kDiv)) continue;
    const auto norm = layer_norm_around(program, *node);
    if (!norm || !norm->roundings.any()) continue;
    const auto shared = std::make_shared<const LayerNormPattern>(*norm);
    for (const Node* part : norm->nodes) fuser.norms.emplace(part, shared);
  }
  for (Node* node : nodes) {
    if (node->op() == Node::Op::kOutput) fuser.plans.need_inputs(*node);
    if (node->op() != Node::Op::kCallFunction || PlanBuilder::is_constant(*node)) continue;
    std::string refusal = obstacle.empty() ? visit(fuser, *node, known) : obstacle;
    if (!refusal.empty()) fuser.plans.leave(*node, std::move(refusal));
  }
  Fusion fusion = fuser.plans.finish(nodes);
  for (Plan& plan : fusion.plans)
    plan.has_sizes_from_run = std::any_of(plan.inputs.begin(), plan.inputs.end(), [&](size_t input) {
      return !known.open_size(plan.buffers[input].symbolic_sizes).empty();
    });
  return fusion;
}

}  // namespace qdq
