// RNN, GRU and LSTM: PyTorch's operators where they compute the same, else operators of their own.
#include <algorithm>
#include <cctype>

#include "io/onnx/import.h"
#include "io/onnx/chains.h"
#include "io/onnx/window.h"
#include "op/targets.h"

namespace qdq {
namespace {

// What the three have in common.
struct RecurrentCell {
  int64_t gates;
  std::vector<int64_t> order;      // where PyTorch's gates stand among ONNX's
  std::vector<std::string> usual;  // activations of one direction
  size_t num_states;
};

struct Recurrent {
  RecurrentCell cell;
  std::string direction;
  bool batch_first = false;
  std::vector<std::string> activations;  // of all directions, in small letters
  Node* sequence_lens = nullptr;         // null: all sequences have the whole length
};

bool is_bidirectional(const Recurrent& net) { return net.direction == "bidirectional"; }

// Scaling values as the operators of these names have them.
std::pair<double, double> usual_scaling(const std::string& activation) {
  if (activation == "leakyrelu") return {0.01, 0};
  if (activation == "thresholdedrelu") return {1, 0};
  if (activation == "hardsigmoid") return {0.2, 0.5};
  if (activation == "elu") return {1, 0};
  if (activation == "affine" || activation == "scaledtanh") return {1, activation == "affine" ? 0 : 1};
  return {0, 0};
}

Recurrent read_recurrent(OnnxCall& call, RecurrentCell cell) {
  Recurrent net;
  net.direction = call.text("direction", "forward");
  if (net.direction != "forward" && net.direction != "reverse" && net.direction != "bidirectional")
    call.refuse("has the direction ", net.direction);
  net.batch_first = call.integer("layout", 0) != 0;
  if (call.rank(0) != 3 || call.rank(1) != 3 || call.rank(2) != 3)
    call.refuse("has an input of ", call.rank(0), " axes and weights of ", call.rank(1), " and ", call.rank(2),
                ", wanted 3 of each");
  const size_t directions = is_bidirectional(net) ? 2 : 1;
  if (const auto* given = call.attribute("activations")) net.activations = given->strings;
  for (std::string& name : net.activations)
    std::transform(name.begin(), name.end(), name.begin(),
                   [](char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); });
  if (net.activations.empty())
    for (size_t d = 0; d < directions; ++d)
      net.activations.insert(net.activations.end(), cell.usual.begin(), cell.usual.end());
  net.cell = std::move(cell);
  if (call.has(4)) {
    const Tensor known = call.constant(4);
    const auto steps = call.extent(call.tensor(0), net.batch_first ? 1 : 0).constant();
    const Tensor lengths = known.defined() ? known.to(DType::kS64).contiguous() : Tensor();
    const bool all_whole = lengths.defined() && steps &&
                           std::all_of(lengths.data<int64_t>(), lengths.data<int64_t>() + lengths.numel(),
                                       [&](int64_t length) { return length == *steps; });
    if (!all_whole) net.sequence_lens = call.tensor(4);
  }
  return net;
}

// Whether PyTorch's operator computes with these activations; of the only one of RNN that may be relu too.
bool has_usual_activations(const Recurrent& net) {
  for (size_t i = 0; i < net.activations.size(); ++i)
    if (net.activations[i] != net.cell.usual[i % net.cell.usual.size()]) return false;
  return net.activations.size() == net.cell.usual.size() * (is_bidirectional(net) ? 2 : 1);
}

Argument named(OnnxCall& call, Node* node, const std::string& name) {
  if (!call.import().is_constant(node)) return node;
  return call.import().constant(call.import().constant_of(node).clone(), name, Attribute::Kind::kParameter);
}

// Rows of a weight or bias in PyTorch's order of gates. `part` of 2: rows of the recurrent bias.
Node* reordered(OnnxCall& call, Node* all, const RecurrentCell& cell, int64_t hidden, int64_t direction, int64_t part) {
  Node* one = call.call("select.int", {all, 0, direction});
  Argument::List gates;
  for (const int64_t gate : cell.order) {
    const int64_t first = (part * cell.gates + gate) * hidden;
    gates.emplace_back(call.call("slice.Tensor", {one, 0, first, first + hidden}));
  }
  if (gates.size() == 1) return gates[0].node();
  return call.call("cat.default", {Argument(std::move(gates)), 0});
}

Node* state(OnnxCall& call, const Recurrent& net, size_t input, int64_t hidden) {
  if (call.has(input))
    return net.batch_first ? call.call("transpose.int", {call.tensor(input), 0, 1}) : call.tensor(input);
  const std::vector<SymInt> sizes = {is_bidirectional(net) ? 2 : 1,
                                     size_along(call, call.tensor(0), net.batch_first ? 0 : 1), hidden};
  return call.call("full.default", {call.list(sizes), 0.0}, "dtype", call.meta(0).dtype);
}

int64_t hidden_size(OnnxCall& call) {
  const auto hidden = call.extent(call.tensor(2), 2).constant();
  if (!hidden || *hidden < 1) call.refuse("has weights of open size");
  return *hidden;
}

void set_state(OnnxCall& call, const Recurrent& net, Node* node, size_t output) {
  if (call.has_output(output)) call.set(net.batch_first ? call.call("transpose.int", {node, 0, 1}) : node, output);
}

// By aten.lstm.input and its like: one layer.
void import_torch(OnnxCall& call, const Recurrent& net, const std::string& target) {
  const int64_t hidden = hidden_size(call), directions = is_bidirectional(net) ? 2 : 1;
  const std::string base = call.tensor(1)->name();
  Argument::List params;
  for (int64_t d = 0; d < directions; ++d) {
    const std::string end = d == 0 ? "_l0" : "_l0_reverse";
    const auto add = [&](size_t input, int64_t part, const char* name) {
      params.push_back(named(call, reordered(call, call.tensor(input), net.cell, hidden, d, part), base + name + end));
    };
    add(1, 0, "_weight_ih");
    add(2, 0, "_weight_hh");
    if (!call.has(3)) continue;
    add(3, 0, "_bias_ih");
    add(3, 1, "_bias_hh");
  }
  const bool reverses = net.direction == "reverse";
  const Argument time = Argument::List{net.batch_first ? 1 : 0};
  Node* input = reverses ? call.call("flip.default", {call.tensor(0), time}) : call.tensor(0);
  Argument::List states;
  for (size_t i = 0; i < net.cell.num_states; ++i) states.emplace_back(state(call, net, 5 + i, hidden));
  const Argument initial = states.size() == 1 ? states[0] : Argument(states);
  Node* results = call.call_as_it_is(target, {input, initial, Argument(std::move(params)), call.has(3), 1, 0.0, false,
                                              directions == 2, net.batch_first});
  if (call.has_output(0)) {
    Node* out = item(call, results, 0);
    if (reverses) out = call.call("flip.default", {out, time});
    // [T, N, D H] -> [T, D, N, H], or [N, T, D, H]
    if (directions == 1) {
      out = call.call("unsqueeze.default", {out, net.batch_first ? 2 : 1});
    } else {
      out = call.call("unflatten.int", {out, 2, OnnxCall::list(std::vector<int64_t>{directions, hidden})});
      if (!net.batch_first) out = call.call("transpose.int", {out, 1, 2});
    }
    call.set(out);
  }
  for (size_t i = 0; i < net.cell.num_states; ++i)
    if (call.has_output(i + 1)) set_state(call, net, item(call, results, static_cast<int64_t>(i) + 1), i + 1);
}

// By an operator that takes all that ONNX has.
void import_onnx(OnnxCall& call, const Recurrent& net, const std::string& target, bool flag) {
  const bool is_lstm = net.cell.num_states == 2;
  Node* input = net.batch_first ? call.call("transpose.int", {call.tensor(0), 0, 1}) : call.tensor(0);
  const auto given_state = [&](size_t i) { return call.has(i) ? Argument(state(call, net, i, 0)) : Argument(); };
  std::string names;
  Argument::List alpha, beta;
  const auto scaling = [&](const char* name) {
    const auto* given = call.attribute(name);
    return given ? given->floats : std::vector<float>();
  };
  const std::vector<float> alphas = scaling("activation_alpha"), betas = scaling("activation_beta");
  size_t next_alpha = 0, next_beta = 0;
  for (const std::string& name : net.activations) {
    names += (names.empty() ? "" : ",") + name;
    // Values are told for those activations alone that have some.
    const auto [usual_alpha, usual_beta] = usual_scaling(name);
    const bool has_beta = name == "affine" || name == "scaledtanh" || name == "hardsigmoid";
    const bool has_alpha = has_beta || usual_alpha != 0;
    alpha.emplace_back(has_alpha && next_alpha < alphas.size() ? static_cast<double>(alphas[next_alpha++])
                                                               : usual_alpha);
    beta.emplace_back(has_beta && next_beta < betas.size() ? static_cast<double>(betas[next_beta++]) : usual_beta);
  }
  std::vector<Argument> args = {input,
                                call.tensor(1),
                                call.tensor(2),
                                call.optional_tensor(3),
                                net.sequence_lens ? Argument(net.sequence_lens) : Argument(),
                                given_state(5)};
  if (is_lstm) {
    args.push_back(given_state(6));
    args.push_back(call.optional_tensor(7));
  }
  args.emplace_back(net.direction);
  args.emplace_back(names);
  args.emplace_back(std::move(alpha));
  args.emplace_back(std::move(beta));
  args.push_back(call.attribute("clip") ? Argument(call.real("clip", 0)) : Argument());
  args.emplace_back(flag);
  Node* results = call.call_as_it_is("onnx." + target, {args});
  if (call.has_output(0)) {
    Node* out = item(call, results, 0);
    // [T, D, N, H] -> [N, T, D, H]
    if (net.batch_first) out = call.call("permute.default", {out, OnnxCall::list(std::vector<int64_t>{2, 0, 1, 3})});
    call.set(out);
  }
  for (size_t i = 0; i < net.cell.num_states; ++i)
    if (call.has_output(i + 1)) set_state(call, net, item(call, results, static_cast<int64_t>(i) + 1), i + 1);
}

void lstm(OnnxCall& call) {
  const Recurrent net = read_recurrent(call, {4, {0, 2, 3, 1}, {"sigmoid", "tanh", "tanh"}, 2});
  const bool couples = call.integer("input_forget", 0) != 0;
  if (net.sequence_lens || !has_usual_activations(net) || call.has(7) || couples || call.attribute("clip"))
    return import_onnx(call, net, "lstm.default", couples);
  import_torch(call, net, "lstm.input");
}

void gru(OnnxCall& call) {
  const Recurrent net = read_recurrent(call, {3, {1, 0, 2}, {"sigmoid", "tanh"}, 1});
  const bool linear = call.integer("linear_before_reset", 0) != 0;
  if (net.sequence_lens || !has_usual_activations(net) || !linear || call.attribute("clip"))
    return import_onnx(call, net, "gru.default", linear);
  import_torch(call, net, "gru.input");
}

void rnn(OnnxCall& call) {
  Recurrent net = read_recurrent(call, {1, {0}, {"tanh"}, 1});
  const bool is_relu = std::all_of(net.activations.begin(), net.activations.end(),
                                   [](const std::string& name) { return name == "relu"; });
  if (is_relu) net.cell.usual = {"relu"};
  if (net.sequence_lens || !has_usual_activations(net) || call.attribute("clip"))
    return import_onnx(call, net, "rnn.default", false);
  import_torch(call, net, is_relu ? "rnn_relu.input" : "rnn_tanh.input");
}

constexpr OnnxOperator kRecurrentOperators[] = {
    {"GRU", gru, nullptr},
    {"LSTM", lstm, nullptr},
    {"RNN", rnn, nullptr},
};

}  // namespace

std::span<const OnnxOperator> onnx_recurrent_operators() { return kRecurrentOperators; }

}  // namespace qdq
