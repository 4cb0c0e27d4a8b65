// Operators that run programs, and layers over sequences, as ONNX ones: If, Loop, Scan, LSTM, GRU, RNN.
#include <algorithm>
#include <cstring>
#include <optional>

#include "io/onnx/export.h"
#include "op/infer.h"
#include "op/targets.h"

namespace qdq {
namespace {

const Program& program_of(AtenCall& call, size_t i) { return *call.arg(i).as<Subprogram>(); }

std::vector<std::string> values_of(AtenCall& call, size_t i) {
  std::vector<std::string> out;
  if (call.is_none(i)) return out;
  for (const Argument& argument : call.arg(i).list()) {
    if (!argument.is_node()) call.refuse("gives a program something other than tensors");
    out.push_back(call.file().value(argument.node()));
  }
  return out;
}

const ValueMeta& meta_of_output(const Program& program, size_t i) {
  return program.graph->output_node()->arg(0).list().at(i).node()->meta.val;
}

// The results of a program that stands in a graph: as outputs of that graph.
void add_outputs(OnnxExport& graph, const Program& program, const std::vector<std::string>& values) {
  for (size_t i = 0; i < values.size(); ++i) graph.add_output(values[i], meta_of_output(program, i));
}

size_t num_outputs(const Program& program) { return program.graph->output_node()->arg(0).list().size(); }

void finish_programs(AtenCall& call, const char* op, const OnnxNames& inputs, const OnnxAttributes& attributes,
                     size_t count) {
  call.file().emit_many(op, inputs, attributes, call.name_results(count), call.node().meta.extra_of(kOnnxNode));
}

// (pred, true_fn, false_fn, operands): both read the operands where they are.
void cond(AtenCall& call) {
  const std::vector<std::string> operands = values_of(call, 3);
  const auto branch = [&](size_t i) {
    OnnxExport graph(call.file());
    add_outputs(graph, program_of(call, i), graph.write(program_of(call, i), operands));
    return graph.finish();
  };
  const auto then_branch = branch(1), else_branch = branch(2);
  finish_programs(call, "If", {call.operand(0, DType::kBool)}, {"then_branch", then_branch, "else_branch", else_branch},
                  num_outputs(program_of(call, 1)));
}

// (trip_count, condition, body, carried, captured): the body takes the number of the iteration, the condition, what is
// carried and what is captured.
void loop(AtenCall& call) {
  const Program& body = program_of(call, 2);
  const std::vector<std::string> carried = values_of(call, 3), captured = values_of(call, 4);
  OnnxExport graph(call.file());
  std::vector<std::string> inputs;
  const std::vector<Node*> placeholders = body.graph->placeholders();
  for (size_t i = 0; i < 2 + carried.size() && i < placeholders.size(); ++i)
    inputs.push_back(graph.add_input(placeholders[i]->name(), placeholders[i]->meta.val));
  inputs.insert(inputs.end(), captured.begin(), captured.end());
  add_outputs(graph, body, graph.write(body, inputs));
  const std::string trips = call.is_none(0) ? "" : call.operand(0, DType::kS64);
  const std::string condition = call.is_none(1) ? "" : call.operand(1, DType::kBool);
  finish_programs(call, "Loop", {trips, condition, carried}, {"body", graph.finish()}, num_outputs(body) - 1);
}

// (cond_fn, body_fn, carried, additional): the condition is computed before the loop and at the end of its body.
void while_loop(AtenCall& call) {
  const Program &condition = program_of(call, 0), &body = program_of(call, 1);
  const std::vector<std::string> carried = values_of(call, 2), additional = values_of(call, 3);
  const auto joined = [&](std::vector<std::string> values) {
    values.insert(values.end(), additional.begin(), additional.end());
    return values;
  };
  const std::vector<std::string> begins = call.file().write(condition, joined(carried));
  OnnxExport graph(call.file());
  const ValueMeta& flag = meta_of_output(condition, 0);
  ValueMeta number;
  number.value = TensorMeta{DType::kS64, {}, {}, false};
  graph.add_input("iteration", number);
  graph.add_input("condition", flag);
  std::vector<std::string> inputs;
  const std::vector<Node*> placeholders = body.graph->placeholders();
  for (size_t i = 0; i < carried.size() && i < placeholders.size(); ++i)
    inputs.push_back(graph.add_input(placeholders[i]->name(), placeholders[i]->meta.val));
  const std::vector<std::string> results = graph.write(body, joined(inputs));
  const std::vector<std::string> goes_on = graph.write(condition, joined(results));
  if (begins.empty() || goes_on.empty()) return;  // something within has no form, which is noted
  graph.add_output(goes_on[0], flag);
  add_outputs(graph, body, results);
  finish_programs(call, "Loop", {"", begins[0], carried}, {"body", graph.finish()}, num_outputs(body));
}

// map_impl: (f, xs, pos_args); scan: (combine_fn, init, xs, dim, reverse, additional_inputs), which also carries values
// on. The program reads what it is given beside them where it is.
void scan(AtenCall& call) {
  const bool is_map = call.node().is(op::kMap);
  const Program& body = program_of(call, 0);
  const std::vector<std::string> carried = is_map ? std::vector<std::string>() : values_of(call, 1);
  const std::vector<std::string> xs = values_of(call, is_map ? 1 : 2), captured = values_of(call, is_map ? 2 : 5);
  OnnxExport graph(call.file());
  std::vector<std::string> inputs;
  const std::vector<Node*> placeholders = body.graph->placeholders();
  for (size_t i = 0; i < carried.size() + xs.size() && i < placeholders.size(); ++i)
    inputs.push_back(graph.add_input(placeholders[i]->name(), placeholders[i]->meta.val));
  inputs.insert(inputs.end(), captured.begin(), captured.end());
  add_outputs(graph, body, graph.write(body, inputs));
  const size_t stacked = num_outputs(body) - std::min(carried.size(), num_outputs(body));
  OnnxAttributes attributes = {"body", graph.finish(), "num_scan_inputs", static_cast<int64_t>(xs.size())};
  if (!is_map && call.integer(3) != 0)
    attributes.add("scan_input_axes", std::vector<int64_t>(xs.size(), call.integer(3)));
  if (!is_map && call.flag(4)) {
    attributes.add("scan_input_directions", std::vector<int64_t>(xs.size(), 1));
    attributes.add("scan_output_directions", std::vector<int64_t>(stacked, 1));
  }
  finish_programs(call, "Scan", {carried, xs}, attributes, num_outputs(body));
}

// PyTorch's gates as ONNX orders them: i f g o as i o f c; r z n as z r h.
std::vector<int64_t> gates_of(const char* op) {
  if (op[0] == 'L') return {0, 3, 1, 2};
  if (op[0] == 'G') return {1, 0, 2};
  return {0};
}

// packed() of parameters that the graph computes.
std::string pack_computed(AtenCall& call, const std::vector<const Node*>& parameters, const std::vector<int64_t>& gates,
                          int64_t directions) {
  const SymShape& sizes = call.meta_of(parameters[0]).sizes;
  const std::optional<int64_t> height = sizes.empty() ? std::nullopt : sizes[0].constant();
  if (!height || sizes.size() > 2) call.refuse("has weights of open size");
  const int64_t rows_of_gate = *height / static_cast<int64_t>(gates.size());
  std::vector<std::string> rows;
  for (const Node* node : parameters) {
    const TensorMeta& meta = call.meta_of(node);
    if (meta.sizes != sizes || meta.dtype != call.meta_of(parameters[0]).dtype)
      call.refuse("has weights of different shapes");
    const std::string value = call.file().value(node);
    for (const int64_t gate : gates)
      rows.push_back(
          call.emit("Slice", {value, call.integers_as_tensor({gate * rows_of_gate}),
                              call.integers_as_tensor({(gate + 1) * rows_of_gate}), call.integers_as_tensor({0})}));
  }
  std::vector<int64_t> shape = {directions, *height * static_cast<int64_t>(parameters.size()) / directions};
  if (sizes.size() == 2) shape.push_back(sizes[1].constant().value_or(-1));
  return call.emit("Reshape", {call.emit("Concat", rows, {"axis", 0}), call.integers_as_tensor(shape)});
}

// The parameters behind each other, their rows in the order of ONNX's gates: [directions, rows, ...].
std::string packed(AtenCall& call, const std::vector<const Node*>& parameters, const char* op, int64_t directions) {
  const std::vector<int64_t> gates = gates_of(op);
  std::vector<Tensor> tensors;
  for (const Node* node : parameters) {
    // A weight, or what the reader of a file puts together of weights.
    const Program& program = call.file().program();
    const auto is_known = [](const Node* each) { return each->op() == Node::Op::kGetAttr; };
    const std::vector<Node*> inputs = node ? node->input_nodes() : std::vector<Node*>();
    const bool is_joined = !inputs.empty() && std::all_of(inputs.begin(), inputs.end(), is_known);
    if (node == nullptr) call.refuse("lacks a weight");
    if (!is_known(node) && !is_joined) return pack_computed(call, parameters, gates, directions);
    tensors.push_back((is_joined ? eval_constant(program, *node) : program.attribute_of(*node)).contiguous());
    if (tensors.back().sizes() != tensors[0].sizes() || tensors[0].dim() < 1 ||
        tensors[0].dtype() != tensors.back().dtype())
      call.refuse("has weights of different shapes");
  }
  Shape sizes = tensors[0].sizes();
  sizes[0] *= static_cast<int64_t>(tensors.size()) / directions;
  sizes.insert(sizes.begin(), directions);
  const Tensor out = Tensor::empty(sizes, tensors[0].dtype());
  std::byte* to = out.raw();
  for (const Tensor& tensor : tensors) {
    const size_t bytes = tensor.nbytes() / gates.size();
    for (const int64_t gate : gates) {
      if (bytes > 0) std::memcpy(to, tensor.raw() + static_cast<size_t>(gate) * bytes, bytes);
      to += bytes;
    }
  }
  return call.file().constant(
      out, (parameters[0]->op() == Node::Op::kGetAttr ? parameters[0]->target() : parameters[0]->name()) + "_packed");
}

// {lstm,gru,rnn_tanh,rnn_relu}.input: (input, hx, params, has_biases, num_layers, dropout, train, bidirectional,
// batch_first). ONNX has one layer; several are written behind each other.
void recurrent(AtenCall& call) {
  const std::string name = call.name();
  const char* const op = name.starts_with("lstm") ? "LSTM" : name.starts_with("gru") ? "GRU" : "RNN";
  const bool has_biases = call.flag(3), is_bidirectional = call.flag(7), is_batch_first = call.flag(8);
  const int64_t layers = call.integer(4), directions = is_bidirectional ? 2 : 1;
  if (call.flag(6) && call.number(5) != 0) call.refuse("drops values at random; export the model in evaluation mode");
  const Argument::List& params = call.arg(2).list();
  std::vector<const Node*> states;
  if (op[0] == 'L')
    for (const Argument& state : call.arg(1).list()) states.push_back(state.node());
  else states.push_back(call.arg(1).node());
  if (states.empty()) call.refuse("has no states");
  const auto hidden = call.meta_of(states[0]).sizes.back().constant();
  const auto count = static_cast<size_t>(layers * directions * (has_biases ? 4 : 2));
  if (!hidden || layers < 1 || params.size() != count)
    call.refuse("has an open number of hidden values or projections");
  std::string input = call.tensor(0);
  const std::vector<int64_t> turn = {1, 0, 2}, inner = {0, 2, 1, 3};
  if (is_batch_first) input = call.emit("Transpose", {input}, {"perm", turn});
  std::vector<std::vector<std::string>> finals(states.size());
  for (int64_t layer = 0; layer < layers; ++layer) {
    std::vector<const Node*> w, r, b;
    for (int64_t direction = 0; direction < directions; ++direction) {
      const auto at = static_cast<size_t>((layer * directions + direction) * (has_biases ? 4 : 2));
      w.push_back(params[at].node());
      r.push_back(params[at + 1].node());
      for (size_t i = 2; has_biases && i < 4; ++i) b.push_back(params[at + i].node());
    }
    OnnxNames inputs = {input, packed(call, w, op, directions), packed(call, r, op, directions),
                        has_biases ? packed(call, b, op, directions) : std::string(), ""};
    for (const Node* state : states) {
      std::string value = call.file().value(state);
      if (layers > 1)
        value = call.emit("Slice", {value, call.integers_as_tensor({layer * directions}),
                                    call.integers_as_tensor({(layer + 1) * directions}), call.integers_as_tensor({0})});
      inputs.list.push_back(value);
    }
    OnnxAttributes attributes = {"hidden_size", *hidden, "direction", is_bidirectional ? "bidirectional" : "forward"};
    if (op[0] == 'G') attributes.add("linear_before_reset", 1);
    if (name.starts_with("rnn_relu"))
      attributes.add("activations", std::vector<std::string>(static_cast<size_t>(directions), "Relu"));
    std::vector<std::string> outputs;
    for (size_t i = 0; i <= states.size(); ++i) outputs.push_back(call.file().fresh(call.node().name() + "_part"));
    call.file().emit_many(op, inputs, attributes, outputs, call.node().meta.extra_of(kOnnxNode));
    for (size_t i = 0; i < states.size(); ++i) finals[i].push_back(outputs[1 + i]);
    // [time, directions, batch, hidden] -> [time, batch, directions * hidden]
    input = call.emit("Reshape",
                      {call.emit("Transpose", {outputs[0]}, {"perm", inner}), call.integers_as_tensor({0, 0, -1})});
  }
  if (is_batch_first) input = call.emit("Transpose", {input}, {"perm", turn});
  const std::vector<std::string> results = call.name_results(1 + states.size());
  call.file().emit("Identity", input, {}, results[0]);
  for (size_t i = 0; i < states.size(); ++i) {
    const std::string all = layers == 1 ? finals[i][0] : call.emit("Concat", finals[i], {"axis", 0});
    call.file().emit("Identity", all, {}, results[1 + i]);
  }
}

// onnx.{lstm,gru,rnn}: (x, w, r, b, sequence_lens, initial_h, [initial_c, p,] direction, activations, alpha, beta,
// clip, flag), which have all that those of ONNX have.
void onnx_recurrent(AtenCall& call) {
  static constexpr std::pair<std::string_view, const char*> kActivations[] = {{"affine", "Affine"},
                                                                              {"elu", "Elu"},
                                                                              {"hardsigmoid", "HardSigmoid"},
                                                                              {"leakyrelu", "LeakyRelu"},
                                                                              {"relu", "Relu"},
                                                                              {"scaledtanh", "ScaledTanh"},
                                                                              {"sigmoid", "Sigmoid"},
                                                                              {"softplus", "Softplus"},
                                                                              {"softsign", "Softsign"},
                                                                              {"tanh", "Tanh"},
                                                                              {"thresholdedrelu", "ThresholdedRelu"}};
  const std::string name = call.name();
  const bool is_lstm = name.starts_with("lstm"), is_gru = name.starts_with("gru");
  const size_t at = is_lstm ? 8 : 6, states = is_lstm ? 2 : 1;
  const auto hidden = call.meta(2).sizes.back().constant();
  if (!hidden) call.refuse("has an open number of hidden values");
  OnnxNames inputs = {call.tensor(0), call.tensor(1), call.tensor(2), call.optional_tensor(3)};
  inputs.list.push_back(call.is_none(4) ? std::string() : call.cast(call.tensor(4), call.meta(4).dtype, DType::kS32));
  for (size_t i = 5; i < at; ++i) inputs.list.push_back(call.optional_tensor(i));
  while (inputs.list.back().empty()) inputs.list.pop_back();
  OnnxAttributes attributes = {"hidden_size", *hidden, "direction", call.arg(at).as<std::string>().c_str()};
  // Scalings are told of those activations alone that have some.
  std::vector<std::string> activations;
  std::vector<double> alpha, beta;
  const Argument::List &alphas = call.arg(at + 2).list(), &betas = call.arg(at + 3).list();
  std::string_view rest = call.arg(at + 1).as<std::string>();
  for (size_t i = 0; !rest.empty(); ++i) {
    const std::string_view one = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), one.size() + 1));
    const auto* known = std::find_if(std::begin(kActivations), std::end(kActivations),
                                     [&](const auto& entry) { return entry.first == one; });
    if (known == std::end(kActivations)) call.refuse("has the activation ", one);
    activations.emplace_back(known->second);
    const bool has_beta = one == "affine" || one == "scaledtanh" || one == "hardsigmoid";
    if (has_beta || one == "leakyrelu" || one == "thresholdedrelu" || one == "elu")
      alpha.push_back(alphas.at(i).number().value_or(0));
    if (has_beta) beta.push_back(betas.at(i).number().value_or(0));
  }
  attributes.add("activations", activations);
  if (!alpha.empty()) attributes.add("activation_alpha", std::vector<float>(alpha.begin(), alpha.end()));
  if (!beta.empty()) attributes.add("activation_beta", std::vector<float>(beta.begin(), beta.end()));
  if (!call.is_none(at + 4)) attributes.add("clip", call.number(at + 4));
  if (is_lstm && call.flag(at + 5)) attributes.add("input_forget", 1);
  if (is_gru && call.flag(at + 5)) attributes.add("linear_before_reset", 1);
  call.file().emit_many(is_lstm  ? "LSTM"
                        : is_gru ? "GRU"
                                 : "RNN",
                        inputs, attributes, call.name_results(1 + states), call.node().meta.extra_of(kOnnxNode));
}

constexpr AtenExporter kControlExporters[] = {{"cond", cond},
                                              {"gru.default", onnx_recurrent},
                                              {"gru.input", recurrent},
                                              {"loop", loop},
                                              {"map_impl", scan},
                                              {"lstm.default", onnx_recurrent},
                                              {"lstm.input", recurrent},
                                              {"rnn.default", onnx_recurrent},
                                              {"rnn_relu.input", recurrent},
                                              {"rnn_tanh.input", recurrent},
                                              {"scan", scan},
                                              {"while_loop", while_loop}};

}  // namespace

std::span<const AtenExporter> control_exporters() { return kControlExporters; }

}  // namespace qdq
