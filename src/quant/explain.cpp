// Explanations, put together from decisions, annotations and observers.
#include "quant/explain.h"
#include "graph/shown_module.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>

#include "op/control_flow.h"
#include "op/facts.h"
#include "op/targets.h"
#include "quant/constant_fold.h"
#include "quant/prepared_impl.h"

namespace qdq {

namespace {

// The observer of every place, and all places of every observer.
class Observers {
 public:
  explicit Observers(const Prepared& prepared) {
    for (const ObserverGroup& group : prepared.observers())
      for (const EdgeOrNode& at : group.covers) groups_[at] = &group;
  }

  const ObserverGroup* find(const EdgeOrNode& at) const {
    const auto found = groups_.find(at);
    return found == groups_.end() ? nullptr : found->second;
  }

 private:
  std::map<EdgeOrNode, const ObserverGroup*> groups_;
};

std::string describe(const Observer& observer) {
  const ObserverArgs& args = observer.args();
  const std::string dtype(to_string(args.dtype));
  if (is_floating(args.dtype)) return dtype;  // a placeholder that rounds to float16
  std::string out =
      concat(dtype, " [", observer.quant_min(), ", ", observer.quant_max(), "] ", to_string(args.qscheme));
  if (args.group_size != 0) out += concat(" in groups of ", args.group_size);
  else if (is_per_channel(args.qscheme)) out += concat(" along axis ", args.ch_axis);
  return out + (args.is_dynamic ? ", qparams chosen at run time" : concat(" by ", observer.class_name()));
}

std::string becomes(const ObserverGroup* group, const EdgeOrNode& at) {
  if (group == nullptr) return "float";
  std::string out = describe(*group->observer);
  constexpr size_t kShown = 4;
  size_t others = 0;
  for (const EdgeOrNode& other : group->covers) {
    if (other == at) continue;
    if (others < kShown) out += (others == 0 ? ", shared with " : ", ") + to_string(other);
    ++others;
  }
  return others > kShown ? concat(out, " and ", others - kShown, " more") : out;
}

// The reasons of the refusals: those of patterns that nearly took it, or else all. Quantizers are named where there are
// several.
std::string why_refused(const std::vector<Decision>& decisions) {
  const bool has_pattern =
      std::any_of(decisions.begin(), decisions.end(), [](const Decision& d) { return !d.taken && !d.pattern.empty(); });
  const bool several = std::any_of(decisions.begin(), decisions.end(),
                                   [&](const Decision& d) { return d.quantizer != decisions[0].quantizer; });
  std::vector<std::string> said;
  std::string out;
  for (const Decision& decision : decisions) {
    if (decision.taken || (has_pattern && decision.pattern.empty())) continue;
    const bool names_itself = decision.reason.find(decision.quantizer) != std::string::npos;
    const std::string reason =
        several && !names_itself ? concat(decision.quantizer, ": ", decision.reason) : decision.reason;
    if (std::find(said.begin(), said.end(), reason) != said.end()) continue;
    said.push_back(reason);
    out += (out.empty() ? "" : "; ") + reason;
  }
  return out;
}

Explanation explain(const Prepared& prepared, const Observers& observers, Node* node) {
  Explanation out;
  out.node = node->name();
  out.module = shown_module(node->meta).value_or("");
  out.op = short_name(node->target());
  out.decisions = prepared.annotations().decisions(node);
  const auto found = prepared.annotations().find(node);
  if (found != prepared.annotations().end()) {
    const QuantizationAnnotation& annotation = found->second;
    for (const auto& [input, spec] : annotation.input_qspec_map) {
      const EdgeOrNode at = Edge{input, node};
      out.tensors.push_back({at, becomes(observers.find(at), at)});
    }
    if (!std::holds_alternative<std::monostate>(annotation.output_qspec))
      out.tensors.push_back({node, becomes(observers.find(node), node)});
    const bool observed = std::any_of(out.tensors.begin(), out.tensors.end(),
                                      [&](const ExplainedTensor& t) { return observers.find(t.at); });
    if (observed) out.outcome = Explanation::Outcome::kQuantized;
    else if (annotation.in_pattern) out.outcome = Explanation::Outcome::kFused;
  }
  const auto taken =
      std::find_if(out.decisions.rbegin(), out.decisions.rend(), [](const Decision& d) { return d.taken; });
  const bool is_taken_back = !out.decisions.empty() && !out.decisions.back().taken &&
                             out.decisions.back().quantizer == "prepare_pt2e" &&
                             out.outcome == Explanation::Outcome::kFloat;
  if (is_taken_back) {
    out.quantizer = out.decisions.back().quantizer;
    out.reason = out.decisions.back().reason;
  } else if (taken != out.decisions.rend()) {
    out.quantizer = taken->quantizer;
    out.pattern = taken->pattern;
    out.reason = taken->reason;
  } else {
    out.reason = why_refused(out.decisions);
    if (!out.decisions.empty() && std::all_of(out.decisions.begin(), out.decisions.end(), [&](const Decision& d) {
          return d.quantizer == out.decisions[0].quantizer;
        }))
      out.quantizer = out.decisions[0].quantizer;
  }
  return out;
}

bool is_sum_or_product(const Node& node) {
  return is_a(node, Family::kAdd) || is_a(node, Family::kMultiply) || is_a(node, Family::kMatmul);
}

// Whether it is a product of several tensors, of which one is a parameter; quantizers have no pattern for these.
bool multiplies_by_parameter(const Node& node) {
  if (!node.is(op::aten("einsum.default")) && !node.is(op::aten("bilinear.default"))) return false;
  const std::vector<Node*> inputs = node.input_nodes();
  return std::any_of(inputs.begin(), inputs.end(), [](const Node* n) { return n->op() == Node::Op::kGetAttr; });
}

// Sums and products of two float tensors, and operators with weights; normalisations have a weight too, but nobody
// computes them on integers.
bool is_layer(const Node& node) {
  if (is_sum_or_product(node)) {
    const TensorMeta* result = node.meta.val.tensor();
    return input_of(node) && other_of(node) && (!result || is_floating(result->dtype));
  }
  if (is_a(node, Family::kBatchNorm) || is_a(node, Family::kNorm)) return false;
  return is_a(node, Family::kRecurrent) || weight_of(node) || multiplies_by_parameter(node);
}

// Whether the operator computes on integers, alone or fused with one in front of it, or reads its weights from them.
bool is_quantized(const Prepared& prepared, const Node& node) {
  if (multiplies_by_parameter(node)) return false;
  if (!is_sum_or_product(node)) {
    const std::vector<Node*> weights = weight_of(node) ? std::vector<Node*>{weight_of(node)} : node.input_nodes();
    return std::any_of(weights.begin(), weights.end(), [](const Node* weight) {
      return is_dequantize(*weight) || weight->is(op::kConvertElementType);
    });
  }
  const std::array<const Node*, 2> operands = {input_of(node), other_of(node)};
  const auto is_dequantized = [](const Node* operand) { return operand && is_dequantize(*operand); };
  if (std::any_of(operands.begin(), operands.end(), is_dequantized)) return true;
  // A sum behind a layer on integers is a part of its step.
  const auto annotation = prepared.annotations().find(prepared.program().graph->find(node.name()));
  if (annotation == prepared.annotations().end() || !annotation->second.in_pattern) return false;
  return std::any_of(operands.begin(), operands.end(),
                     [&](const Node* layer) { return layer && is_dequantized(input_of(*layer)); });
}

}  // namespace

std::string_view to_string(Explanation::Outcome outcome) {
  switch (outcome) {
    case Explanation::Outcome::kQuantized: return "quantized";
    case Explanation::Outcome::kFused: return "fused";
    case Explanation::Outcome::kFloat: return "float";
  }
  return "";
}

std::vector<Explanation> explain(const Prepared& prepared) {
  const Observers observers(prepared);
  std::vector<Explanation> out;
  for (Node* node : prepared.program().graph->nodes())
    if (node->op() == Node::Op::kCallFunction) out.push_back(explain(prepared, observers, node));
  return out;
}

Explanation explain(const Prepared& prepared, const std::string& name) {
  Node* node = prepared.program().graph->find(name);
  QDQ_CHECK(node && node->op() == Node::Op::kCallFunction, kInvalidArgument, "there is no operator ", name,
            " in the prepared program",
            node ? concat("; that is a node of kind ", to_string(node->op()))
                 : std::string("; explain() without a name lists all"));
  return explain(prepared, Observers(prepared), node);
}

std::vector<SpecConflict> find_conflicts(const Prepared& prepared) {
  const Observers observers(prepared);
  const Annotations& annotations = prepared.annotations();
  const auto annotator_of = [&](const Node* node) {
    const auto found = annotations.find(node);
    return found == annotations.end() || found->second.annotator.empty() ? std::string("(not named)")
                                                                         : found->second.annotator;
  };
  std::vector<SpecConflict> out;
  for (Node* node : prepared.program().graph->nodes()) {
    const auto found = annotations.find(node);
    if (found == annotations.end()) continue;
    for (const auto& [input, spec] : found->second.input_qspec_map) {
      const ObserverGroup* output = observers.find(input);
      const ObserverGroup* use = observers.find(Edge{input, node});
      if (output == nullptr || use == nullptr || output == use) continue;
      SpecConflict conflict{{input, node}, annotator_of(input), annotator_of(node), {}};
      conflict.message = concat(conflict.producer_annotator, " gives ", input->name(), " as ",
                                describe(*output->observer), ", but ", conflict.consumer_annotator, " takes it in ",
                                node->name(), " as ", describe(*use->observer), ", so it is quantized twice");
      out.push_back(std::move(conflict));
    }
  }
  return out;
}

namespace {

// Of the programs that the node runs, and those in them.
void for_each_layer_within(const Node& node, const std::function<void(const Node& runner, const Node& layer)>& body) {
  for (const Argument& argument : node.args()) {
    if (!argument.is<Subprogram>()) continue;
    for (const Node* inner : argument.as<Subprogram>()->graph->nodes()) {
      if (is_layer(*inner)) body(node, *inner);
      for_each_layer_within(*inner, body);
    }
  }
}

}  // namespace

int64_t count_layers(const Program& program) {
  int64_t count = 0;
  for (const Node* node : program.graph->nodes()) {
    count += is_layer(*node);
    for_each_layer_within(*node, [&](const Node&, const Node&) { ++count; });
  }
  return count;
}

int64_t count_layers(const Prepared& prepared, const Program& converted) {
  return count_layers(Prepared::Impl::of(prepared).is_qat ? converted : prepared.program());
}

std::vector<LeftInFloat> left_in_float(const Prepared& prepared, const Program& converted) {
  const Observers observers(prepared);
  std::vector<LeftInFloat> out;
  for (const Node* node : converted.graph->nodes()) {
    Node* annotated = prepared.program().graph->find(node->name());  // none for what conversion put in
    if (!is_layer(*node) || annotated == nullptr || is_quantized(prepared, *node)) continue;
    const Explanation explanation = explain(prepared, observers, annotated);
    out.push_back({node->name(), explanation.module, explanation.op, explanation.reason});
  }
  for (const Node* node : converted.graph->nodes()) {
    const std::string fixes = node->is(op::kCond) ? fixes_of(*node->arg(0).node(), nullptr) : "";
    const std::string remedy =
        fixes.empty() ? "" : concat("; read with", fixes, " the ONNX model keeps one branch, which can be quantized");
    for_each_layer_within(*node, [&](const Node& runner, const Node& layer) {
      out.push_back({concat(runner.name(), "/", layer.name()), shown_module(layer.meta).value_or(""),
                     std::string(short_name(layer.target())),
                     concat("it is in a program that ", short_name(runner.target()),
                            " runs; those stay float, as in PyTorch", remedy)});
    });
  }
  return out;
}

}  // namespace qdq
