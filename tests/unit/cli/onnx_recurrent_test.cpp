// How layers over sequences are written to ONNX.
#include <gtest/gtest.h>

#include "exec/interpreter.h"
#include "format/onnx_file.h"
#include "io/onnx.h"
#include "op/infer.h"

namespace qdq::onnx_recurrent_test {
namespace {

Tensor ramp(const Shape& sizes) {
  const Tensor out = Tensor::empty(sizes, DType::kF32);
  for (int64_t i = 0; i < out.numel(); ++i) out.data<float>()[i] = static_cast<float>(i % 7) / 4 - 0.5F;
  return out;
}

Node* input(Graph& graph, const char* name, SymShape sizes) {
  Node* node = graph.create(Node::Op::kPlaceholder, name, {}, {}, name);
  node->meta.val.value = TensorMeta{DType::kF32, std::move(sizes), {}, false};
  return node;
}

TEST(OnnxRecurrent, LayersStandBehindEachOther) {
  Program program;
  Graph& graph = *program.graph;
  std::vector<Node*> params;
  for (int layer = 0; layer < 2; ++layer)
    for (const char* name : {"w_ih", "w_hh", "b_ih", "b_hh"}) {
      Attribute attribute;
      attribute.name = concat(name, layer);
      attribute.tensor = ramp(name[0] == 'w' ? Shape{16, 4} : Shape{16});
      params.push_back(graph.get_attr(attribute.name, attribute.name));
      params.back()->meta.val.value =
          TensorMeta{DType::kF32, {attribute.tensor.sizes().begin(), attribute.tensor.sizes().end()}, {}, false};
      program.add_attribute(std::move(attribute));
    }
  Node *x = input(graph, "x", {5, 3, 4}), *h = input(graph, "h", {2, 3, 4}), *c = input(graph, "c", {2, 3, 4});
  Node* lstm = graph.call("torch.ops.aten.lstm.input",
                          {Argument(x), Argument(Argument::List{h, c}),
                           Argument(Argument::List(params.begin(), params.end())), true, 2, 0.0, false, false, false},
                          {}, "lstm");
  Argument::List results;
  for (int i = 0; i < 3; ++i) results.emplace_back(graph.call("operator.getitem", {lstm, i}, {}, "getitem"));
  graph.create(Node::Op::kOutput, "output", {Argument(results)}, {}, "output");
  const format::OnnxFile file = format::read_onnx_file(save_onnx(program));
  int64_t layers = 0;
  for (const format::OnnxNode& node : file.nodes) layers += node.op_type == "LSTM";
  EXPECT_EQ(layers, 2);
  EXPECT_EQ((*file.outputs[2].dims).size(), 3u);
  for (const auto& [name, tensor] : file.initializers) {
    if (name != "w_ih0_packed") continue;
    // The gates i f g o are i o f g in ONNX.
    const Tensor first = ramp({16, 4});
    for (const auto& [to, from] : {std::pair(0, 0), std::pair(4, 12), std::pair(8, 4), std::pair(12, 8)})
      for (int64_t k = 0; k < 16; ++k) EXPECT_EQ(tensor.data<float>()[to * 4 + k], first.data<float>()[from * 4 + k]);
  }
}

// Weights that the graph computes, as weight norm does, have their gates reordered by the file.
TEST(OnnxRecurrent, WeightsMayBeComputed) {
  for (const char* layer : {"lstm", "gru", "rnn_tanh"}) {
    SCOPED_TRACE(layer);
    const int64_t gates = layer[0] == 'l' ? 4 : layer[0] == 'g' ? 3 : 1;
    Program program;
    Graph& graph = *program.graph;
    Node *x = input(graph, "x", {5, 2, 3}), *h = input(graph, "h", {2, 2, 4}), *scale = input(graph, "scale", {1});
    Argument::List params;
    std::vector<Tensor> values = {ramp({5, 2, 3}), ramp({2, 2, 4}), ramp({1})};
    for (const SymShape& sizes :
         {SymShape{gates * 4, 3}, SymShape{gates * 4, 4}, SymShape{gates * 4}, SymShape{gates * 4},
          SymShape{gates * 4, 3}, SymShape{gates * 4, 4}, SymShape{gates * 4}, SymShape{gates * 4}}) {
      Shape known;
      for (const SymInt& size : sizes) known.push_back(*size.constant());
      const std::string name = concat("w", params.size());
      program.add_attribute({name, ramp(known)});
      Node* weight = graph.get_attr(name, name);
      weight->meta.val.value = TensorMeta{DType::kF32, sizes, {}, false};
      params.emplace_back(graph.call("torch.ops.aten.mul.Tensor", {weight, scale}));
      infer_value(*params.back().node());
    }
    const Argument states = layer[0] == 'l' ? Argument(Argument::List{h, h}) : Argument(h);
    Node* node = graph.call(concat("torch.ops.aten.", layer, ".input"),
                            {x, states, Argument(params), true, 1, 0.0, false, true, false});
    infer_value(*node);
    Node* result = graph.call("operator.getitem", {node, 0});
    infer_value(*result);
    graph.create(Node::Op::kOutput, "output", {Argument(Argument::List{result})}, {}, "output");
    const Tensor wanted = Interpreter(program, {}).run(values)[0].contiguous();
    const Tensor found = Interpreter(load_onnx(save_onnx(program)), {}).run(values)[0].contiguous();
    ASSERT_EQ(found.sizes(), wanted.sizes());
    for (int64_t i = 0; i < wanted.numel(); ++i) EXPECT_NEAR(found.data<float>()[i], wanted.data<float>()[i], 1e-5);
  }
}

}  // namespace
}  // namespace qdq::onnx_recurrent_test
