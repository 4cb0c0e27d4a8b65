#include "lower/integer_layers.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "base/listed.h"
#include "lower/bound_operands.h"
#include "lower/fold_constants.h"
#include "lower/fuse.h"
#include "lower/fuse_products.h"
#include "lower/known_sizes.h"
#include "lower/mutable_buffers.h"
#include "lower/rewrite_for_steps.h"
#include "op/facts.h"
#include "op/infer.h"
#include "op/recompose.h"
#include "op/targets.h"
#include "op/widen_halves.h"

namespace qdq {
namespace {

// Fusion packs weights, for which models that are quantized layer by layer have no memory.
constexpr uint64_t kMostQuantizedBytes = uint64_t{1} << 28;

bool may_be_quantized(const Node& node) {
  constexpr Family kFamilies[] = {Family::kConvolution, Family::kTransposedConvolution,
                                  Family::kLinear,      Family::kMatmul,
                                  Family::kRecurrent,   Family::kEmbedding};
  return std::any_of(std::begin(kFamilies), std::end(kFamilies), [&](Family family) { return is_a(node, family); });
}

bool is_dequantized(const Node* node) { return node != nullptr && is_a(*node, Family::kDequantize); }

// Whether the step that took a node multiplies integers.
bool multiplies_integers(const PlanStep& step) {
  if (const auto* groups = std::get_if<PlanStep::GroupLinear>(&step.form)) return groups->per_token;
  return step.weights() != nullptr && !step.weights()->is_float();
}

// The dtype of the integers behind a dequantize node.
std::optional<DType> integers_of(const Node& dequantize) {
  const Node* integers = dequantize.arg(0).node();
  const TensorMeta* meta = integers == nullptr ? nullptr : integers->meta.val.tensor();
  return meta == nullptr ? std::nullopt : std::optional(meta->dtype);
}

bool has_float_weights(const Node& layer) {
  if (!is_a(layer, Family::kRecurrent)) {
    const Node* weight = weight_of(layer);
    return weight != nullptr && weight->op() != Node::Op::kCallFunction;
  }
  const std::vector<Node*> inputs = layer.input_nodes();
  return std::none_of(inputs.begin(), inputs.end(), [](const Node* input) {
    return is_dequantized(input) && input->arg(0).node() && input->arg(0).node()->op() == Node::Op::kGetAttr;
  });
}

std::string reason_of(const Program& program, const Node& layer, const NodeFate* fate) {
  if (is_a(layer, Family::kEmbedding)) return "its rows are looked up, not multiplied";
  const Node* input = input_of(layer);
  if (!is_dequantized(input))
    return is_a(layer, Family::kMatmul) ? "only one of its operands is quantized" : "only its weight is quantized";
  const std::optional<DType> dtype = integers_of(*input);
  if (dtype && *dtype != DType::kU8 && *dtype != DType::kS8)
    return concat("its activations are ", to_string(*dtype), ", and the integer kernels take 8 bits");
  if (layer.is(op::kConv2d) || layer.is(op::kLinear))
    if (std::string obstacle = int8_product_obstacle(program, layer); !obstacle.empty()) return obstacle;
  const bool is_told = fate != nullptr && !fate->refusal.empty() && fate->refusal != "no step does this operator";
  if (is_told && !is_a(layer, Family::kRecurrent)) return fate->refusal;  // these have no one shape
  return concat("no integer kernel does ", short_name(layer.target()));
}

}  // namespace

IntegerLayers integer_layers(const Program& program, std::span<const Tensor> example) {
  IntegerLayers out;
  uint64_t bytes = 0;
  for (const Attribute& attribute : program.attributes) bytes += attribute.tensor.nbytes();
  if (bytes > kMostQuantizedBytes) return out;
  Program whole = program.clone(), lowered;  // layers that were taken apart are found whole
  std::vector<NodeFate> fates;
  std::vector<Plan> plans;
  try {
    infer_shapes(whole);
    recompose(whole);
    widen_quantized_halves(whole);
    fold_quantized_constants(whole);
    lowered = whole.clone();
    make_functional(lowered);
    make_outputs_of_mutations(lowered);
    bind_constant_operands(lowered);
    infer_shapes(lowered);
    if (gains_by_known_sizes(lowered)) {
      std::map<std::string, int64_t> symbols =
          symbols_of(lowered.graph->placeholders(), std::vector<Value>(example.begin(), example.end()));
      symbols.insert(lowered.symbol_hints.begin(), lowered.symbol_hints.end());
      lowered = with_known_sizes(lowered, symbols);
    }
    rewrite_for_steps(lowered, false);
    Fusion fusion = fuse_program(lowered);
    fates = std::move(fusion.fates);
    plans = std::move(fusion.plans);
  } catch (const Error&) {  // a run tells what is wrong
    return out;
  }
  std::map<std::string_view, const NodeFate*> fate_of;
  for (const NodeFate& fate : fates) fate_of.emplace(fate.node, &fate);
  for (const Node* node : whole.graph->nodes()) {
    if (node->op() != Node::Op::kCallFunction || !may_be_quantized(*node)) continue;
    const std::vector<Node*> inputs = node->input_nodes();
    if (std::none_of(inputs.begin(), inputs.end(), is_dequantized)) continue;
    if (has_float_weights(*node)) continue;  // a float layer behind rounded values
    ++out.total;
    const auto found = fate_of.find(node->name());
    const NodeFate* fate = found == fate_of.end() ? nullptr : found->second;
    if (fate != nullptr && fate->plan >= 0 &&
        multiplies_integers(plans.at(static_cast<size_t>(fate->plan)).steps.at(fate->step)))
      continue;
    out.in_float.push_back({node->name(), node->target(), reason_of(whole, *node, fate)});
  }
  return out;
}

std::string float_layers_text(const IntegerLayers& layers) {
  if (layers.in_float.empty()) return {};
  constexpr size_t kNamed = 8;
  std::vector<std::pair<std::string_view, std::vector<std::string_view>>> reasons;
  for (const IntegerLayers::Float& layer : layers.in_float) {
    auto at = std::find_if(reasons.begin(), reasons.end(), [&](const auto& one) { return one.first == layer.reason; });
    if (at == reasons.end()) at = reasons.insert(at, {layer.reason, {}});
    at->second.push_back(layer.node);
  }
  std::string out = concat("  in float here     ", layers.in_float.size(), " of ", layers.total, " quantized layers\n");
  for (const auto& [reason, nodes] : reasons) out += concat("    ", listed(nodes, kNamed), ": ", reason, "\n");
  return out;
}

}  // namespace qdq
