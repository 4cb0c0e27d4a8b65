// Quantize and dequantize at the border of a program.
#include "quant/quantized_interface.h"

#include <algorithm>

#include "graph/dead_code.h"
#include "op/targets.h"

namespace qdq {

namespace {

void take_input(Graph& graph, Node* input, int64_t index) {
  const std::vector<Node*> users = input->users();
  QDQ_CHECK(!users.empty() && std::all_of(users.begin(), users.end(),
                                          [&](const Node* user) {
                                            return user->is(op::kQuantize) && user->args() == users[0]->args();
                                          }),
            kInvalidArgument, "input ", index, " ('", input->name(),
            "') cannot come as integers: it is read in float, or with several scales; wanted an input that is "
            "quantized once");
  input->meta.val = users[0]->meta.val;
  for (Node* quantize : users) {
    quantize->replace_all_uses_with(input);
    graph.erase(quantize);
  }
}

}  // namespace

void take_quantized_interface(Program& program, const QuantizedInterface& interface) {
  Graph& graph = *program.graph;
  const std::vector<Node*> inputs = graph.placeholders();
  for (const int64_t index : interface.inputs) {
    QDQ_CHECK(index >= 0 && static_cast<size_t>(index) < inputs.size(), kInvalidArgument, "there is no input ", index,
              " to come as integers; the program has ", inputs.size());
    take_input(graph, inputs[static_cast<size_t>(index)], index);
  }
  if (interface.outputs.empty()) return;
  Node* output = graph.output_node();
  std::vector<Node*> values;
  output->arg(0).for_each_node([&](Node* value) { values.push_back(value); });
  std::vector<bool> wanted(values.size(), interface.all_outputs);
  for (const int64_t index : interface.outputs) {
    if (interface.all_outputs) break;
    QDQ_CHECK(index >= 0 && static_cast<size_t>(index) < values.size(), kInvalidArgument, "there is no output ", index,
              " to go as integers; the program has ", values.size());
    wanted[static_cast<size_t>(index)] = true;
    QDQ_CHECK(values[static_cast<size_t>(index)]->is(op::kDequantize), kInvalidArgument, "output ", index, " ('",
              values[static_cast<size_t>(index)]->name(),
              "') cannot go as integers: it is not quantized per tensor; leave its index out");
  }
  size_t at = 0;
  output->set_args({output->arg(0).map_nodes(
      [&](Node* value) { return wanted[at++] && value->is(op::kDequantize) ? value->arg(0).node() : value; })});
  eliminate_dead_code(program);
}

}  // namespace qdq
