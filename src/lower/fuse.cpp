// Fusion walks the graph once, in execution order. A head (a convolution, an addition, ...) looks ahead along values
// with one user for what it can take with it (residual, activation, quantize); its step is made where the last of these
// nodes stands, when all inputs exist. A node that no plan can do ends the open plan if it needs one of its values.
#include "lower/fuse.h"

#include <algorithm>
#include <iterator>
#include <map>

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

// Empty, or which size of a tensor only a run tells.
std::string open_size(const TensorMeta& meta, const std::map<std::string, int64_t>& symbols) {
  for (const SymInt& size : meta.sizes)
    if (!size.evaluate(symbols)) return size.to_string();
  return {};
}

// Empty if the node goes into a plan, else why not.
std::string visit(Fuser& fuser, Node& node, const std::map<std::string, int64_t>& symbols) {
  if (fuser.make_pending(node) || fuser.is_taken(&node)) return {};
  if (const Node* writer = fuser.plans.writer_beside(node))
    return concat("node ", writer->name(), " writes to a value that it reads or makes");
  if (is_a(node, Family::kSplit)) return fuse_split(fuser, node);
  if (fuser.options.dynamic && (take_dynamic(fuser, node) || take_tokens(fuser, node))) return {};
  const TensorMeta* meta = node.meta.val.tensor();
  if (meta == nullptr) return "its shape is not known";
  if (const std::string size = open_size(*meta, symbols); !size.empty())
    return concat("its size ", size, " does not follow from those of the inputs");
  for (const Node* input : node.input_nodes())
    if (const TensorMeta* read = input->meta.val.tensor())
      if (const std::string size = open_size(*read, symbols); !size.empty())
        return concat("the size ", size, " of ", input->name(), " does not follow from those of the inputs");
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
  const std::map<std::string, int64_t> symbols = symbols_of(program);
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
    std::string refusal = obstacle.empty() ? visit(fuser, *node, symbols) : obstacle;
    if (!refusal.empty()) fuser.plans.leave(*node, std::move(refusal));
  }
  return fuser.plans.finish(nodes);
}

}  // namespace qdq
