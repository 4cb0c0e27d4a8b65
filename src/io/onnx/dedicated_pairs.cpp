#include "io/onnx/dedicated_pairs.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "io/onnx.h"
#include "op/facts.h"

namespace qdq {
namespace {

// The same call behind `place`, without the names that an ONNX file gave the node and its value.
Node* copy_of(const Node& call, Node* place, std::vector<Argument> arguments) {
  const auto point = place->graph().insert_after(place);
  Node* out = place->graph().call(call.target(), std::move(arguments), call.kwargs());
  out->meta = call.meta;
  std::erase_if(out->meta.extra,
                [](const auto& extra) { return extra.first == kOnnxNode || extra.first == kOnnxValue; });
  return out;
}

// A quantize node of values, not of a constant, by a scale that is known.
bool quantizes_a_value(const Node& node) {
  if (!is_a(node, Family::kQuantize)) return false;
  const Node *values = node.arg(0).node(), *scale = node.arg(1).node();
  return values != nullptr && values->op() != Node::Op::kGetAttr &&
         (scale == nullptr || scale->op() == Node::Op::kGetAttr);
}

// The readers of its float values, behind each dequantize node.
size_t count_readers(const Node& quantize) {
  size_t readers = 0;
  for (const Node* dequantize : quantize.users())
    if (is_a(*dequantize, Family::kDequantize)) readers += dequantize->users().size();
  return readers;
}

}  // namespace

bool shares_pairs(const Program& program) {
  return std::ranges::any_of(program.graph->nodes(), [](const Node* node) {
    return (quantizes_a_value(*node) && count_readers(*node) > 1) ||
           std::ranges::any_of(node->args(), [](const Argument& argument) {
             return argument.is<Subprogram>() && shares_pairs(*argument.as<Subprogram>());
           });
  });
}

int64_t dedicate_pairs(Program& program) {
  int64_t pairs = 0;
  for (Node* quantize : program.graph->nodes()) {
    for (size_t i = 0; i < quantize->args().size(); ++i) {
      if (!quantize->arg(i).is<Subprogram>()) continue;
      Program inner = quantize->arg(i).as<Subprogram>()->clone();
      pairs += dedicate_pairs(inner);
      quantize->set_arg(i, Subprogram(std::make_shared<const Program>(std::move(inner))));
    }
    if (!quantizes_a_value(*quantize)) continue;
    bool is_first = true;
    const std::vector<Node*> readers_of_integers = quantize->users();
    for (Node* dequantize : readers_of_integers) {
      if (!is_a(*dequantize, Family::kDequantize)) continue;
      pairs += 1;
      const std::vector<Node*> readers = dequantize->users();
      for (Node* reader : readers) {
        if (std::exchange(is_first, false)) continue;
        Node* own = copy_of(*quantize, quantize, quantize->args());
        std::vector<Argument> arguments = dequantize->args();
        arguments[0] = own;
        reader->replace_input_with(dequantize, copy_of(*dequantize, dequantize, std::move(arguments)));
      }
    }
  }
  program.graph->eliminate_dead_code();
  return pairs;
}

}  // namespace qdq
