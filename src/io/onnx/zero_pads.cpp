#include "io/onnx/zero_pads.h"

#include <algorithm>

#include "op/facts.h"
#include "op/targets.h"

namespace qdq {
namespace {

// Whether two nodes differ in their first arguments alone.
bool round_alike(const Node& a, const Node& b) {
  return a.args().size() == b.args().size() && std::equal(a.args().begin() + 1, a.args().end(), b.args().begin() + 1);
}

// The node that alone gives the value to this one, if it is the first argument.
Node* lone_input(const Node& node) {
  Node* input = node.args().empty() ? nullptr : node.arg(0).node();
  return input != nullptr && input->op() == Node::Op::kCallFunction && input->users().size() == 1 ? input : nullptr;
}

void pad_behind_rounding(Graph& graph, Node& conv, size_t axes) {
  Node* dequantize = lone_input(conv);
  Node* quantize = dequantize && dequantize->is(op::kDequantize) ? lone_input(*dequantize) : nullptr;
  Node* pad =
      quantize && quantize->is(op::kQuantize) && round_alike(*quantize, *dequantize) ? lone_input(*quantize) : nullptr;
  const auto zeros = pad == nullptr ? std::nullopt : zero_pad_of(*pad, axes);
  if (!zeros || zeros->input->meta.val.tensor() == nullptr) return;
  Node* padded = nullptr;
  {
    const auto point = graph.insert_before(&conv);
    padded = graph.call(pad->target(), pad->args(), {}, pad->name());
  }
  padded->meta = pad->meta;
  conv.set_arg(0, padded);
  const bool is_rounded = zeros->input->is(op::kDequantize) && round_alike(*zeros->input, *dequantize);
  padded->set_arg(0, is_rounded ? zeros->input : dequantize);
  if (is_rounded) {
    graph.erase(dequantize);
    graph.erase(quantize);
  } else {
    quantize->set_arg(0, zeros->input);
    for (Node* node : {quantize, dequantize})
      if (auto* meta = std::get_if<TensorMeta>(&node->meta.val.value))
        meta->sizes = zeros->input->meta.val.tensor()->sizes;
  }
  graph.erase(pad);
}

}  // namespace

std::optional<ZeroPad> zero_pad_of(const Node& node, size_t axes) {
  const bool has_mode = is_form_of(node, op::aten("pad.default"));
  if (node.op() != Node::Op::kCallFunction || !is_a(node, Family::kPad)) return std::nullopt;
  if (base_name(node.target()) != "pad" && base_name(node.target()) != "constant_pad_nd") return std::nullopt;
  const size_t value = has_mode ? 3 : 2;
  const Argument mode = has_mode ? argument_of(node, 2) : Argument("constant"), number = argument_of(node, value);
  const bool has_zeros = number.is_none() || number.number() == 0;
  Node* input = node.arg(0).node();
  if (!(mode == Argument("constant")) || !has_zeros || input == nullptr || !node.arg(1).is_list()) return std::nullopt;
  const Argument::List& pads = node.arg(1).list();
  if (pads.size() % 2 != 0 || pads.size() > 2 * axes) return std::nullopt;
  ZeroPad out{input, std::vector<int64_t>(axes), std::vector<int64_t>(axes)};
  for (size_t i = 0; i < pads.size(); ++i) {
    const auto known = pads[i].integer();
    if (!known || *known < 0) return std::nullopt;
    (i % 2 == 0 ? out.before : out.behind)[axes - 1 - i / 2] = *known;
  }
  return out;
}

void pad_behind_rounding(Graph& graph) {
  for (Node* node : graph.nodes()) {
    const TensorMeta* meta = node->op() == Node::Op::kCallFunction ? node->meta.val.tensor() : nullptr;
    if (meta != nullptr && is_a(*node, Family::kConvolution) && meta->sizes.size() > 2)
      pad_behind_rounding(graph, *node, meta->sizes.size() - 2);
  }
}

}  // namespace qdq
