// Recurrent networks over whole sequences. Every gate is computed in double from states of the tensor's dtype, which
// are rounded at each step.
#include "op/elements.h"
#include "op/families.h"
#include "op/math.h"

namespace qdq {
namespace {

enum class Cell { kLstm, kGru, kTanh, kRelu };

int64_t gates_of(Cell cell) { return cell == Cell::kLstm ? 4 : cell == Cell::kGru ? 3 : 1; }

// (input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first). hx is a list [h, c] for
// lstm, else h. params, for each layer and direction: w_ih [G H, in], w_hh [G H, H] and, with biases, b_ih, b_hh [G H].
// An lstm with projections (proj_size) has another one, w_hr [P, H]: h becomes w_hr h, so that w_hh is [G H, P], h and
// what is given have P features, c has H.
struct Net {
  bool has_biases, bidirectional, batch_first, projects;
  int64_t layers, directions;
  size_t per_cell;  // parameters
};
template <class T> Net read_net(const Call<T>& call, Cell cell) {
  Net net{call.boolean(3), call.boolean(7), call.boolean(8), false, call.integer(4), call.boolean(7) ? 2 : 1, 0};
  const size_t count = call.tensors(2).size(), biases = net.has_biases ? 2 : 0;
  const bool is_possible = net.layers >= 1 && net.layers <= static_cast<int64_t>(count);
  const size_t cells = is_possible ? static_cast<size_t>(net.layers * net.directions) : 1;
  net.projects = cell == Cell::kLstm && count == cells * (3 + biases);
  net.per_cell = 2 + biases + (net.projects ? 1 : 0);
  QDQ_CHECK(is_possible && count == cells * net.per_cell, kInvalidArgument, call.op().target, " got ", count,
            " parameters for ", net.layers, " layers and ", net.directions, " directions");
  return net;
}
template <class T> std::vector<T> states_of(const Call<T>& call, Cell cell) {
  if (cell != Cell::kLstm) return {call.tensor(1)};
  const std::vector<T> states = call.tensors(1);
  QDQ_CHECK(states.size() == 2, kInvalidArgument, call.op().target, " needs two states, found ", states.size());
  return states;
}

MetaValue infer_cell(const Call<TensorMeta>& call, Cell cell) {
  const TensorMeta& x = call.tensor(0);
  const Net net = read_net(call, cell);
  QDQ_CHECK(x.sizes.size() == 3, kInvalidArgument, call.op().target, " needs an input of 3 dimensions, found shape ",
            to_string(x.sizes));
  const std::vector<TensorMeta> states = states_of(call, cell), params = call.tensors(2);
  const auto features = [](const TensorMeta& state) { return state.sizes.empty() ? SymInt(0) : state.sizes.back(); };
  const SymInt batch = x.sizes[net.batch_first ? 0 : 1], hidden = features(states[0]),
               whole = net.projects ? features(states[1]) : hidden;
  for (size_t i = 0; i < states.size(); ++i) {
    const TensorMeta& state = states[i];
    QDQ_CHECK(state.sizes.size() == 3 && may_be_equal(state.sizes[0], SymInt(net.layers * net.directions)) &&
                  may_be_equal(state.sizes[1], batch) && may_be_equal(state.sizes[2], i == 0 ? hidden : whole),
              kInvalidArgument, call.op().target, " got a state of shape ", to_string(state.sizes),
              " for an input of shape ", to_string(x.sizes));
  }
  const SymInt rows = whole * SymInt(gates_of(cell));
  for (size_t i = 0; i < params.size(); ++i) {
    const bool first_layer = i < net.per_cell * static_cast<size_t>(net.directions);
    SymShape wanted{rows};
    if (i % net.per_cell == 0) wanted.push_back(first_layer ? x.sizes[2] : hidden * SymInt(net.directions));
    if (i % net.per_cell == 1) wanted.push_back(hidden);
    if (net.projects && i % net.per_cell == net.per_cell - 1) wanted = {hidden, whole};
    bool fits = params[i].sizes.size() == wanted.size();
    for (size_t a = 0; fits && a < wanted.size(); ++a) fits = may_be_equal(params[i].sizes[a], wanted[a]);
    QDQ_CHECK(fits, kInvalidArgument, call.op().target, " needs parameter ", i, " of shape ", to_string(wanted),
              ", found ", to_string(params[i].sizes));
  }
  SymShape sizes = x.sizes;
  sizes[2] = hidden * SymInt(net.directions);
  MetaValue::List out{tensor_meta(x.dtype, sizes)};
  for (const TensorMeta& state : states) out.push_back(tensor_meta(x.dtype, state.sizes));
  return out;
}

template <Cell cell> MetaValue infer_recurrent(const Call<TensorMeta>& call) { return infer_cell(call, cell); }

double gate_of(double x) { return 1 / (1 + math::exp(-x)); }

// sum[g] = w[g] . x + b[g] for all gate rows.
template <class C> void project(const Tensor& w, const Tensor* b, const C* x, std::vector<double>& sums) {
  const int64_t columns = w.size(1);
  for (size_t g = 0; g < sums.size(); ++g) {
    const C* row = w.data<C>() + static_cast<int64_t>(g) * columns;
    double sum = 0;
    for (int64_t i = 0; i < columns; ++i) sum += static_cast<double>(row[i]) * static_cast<double>(x[i]);
    sums[g] = sum + (b ? static_cast<double>(b->data<C>()[g]) : 0);
  }
}

// One step of one sample: updates h (and c). `input` and `hidden` are the projections of x and of h.
template <class C>
void step(Cell cell, const std::vector<double>& input, const std::vector<double>& hidden, int64_t H, C* h, C* c) {
  for (int64_t i = 0; i < H; ++i) {
    const auto gate = [&](int64_t g) {
      return input[static_cast<size_t>(g * H + i)] + hidden[static_cast<size_t>(g * H + i)];
    };
    switch (cell) {
      case Cell::kLstm: {
        const double state = gate_of(gate(1)) * static_cast<double>(c[i]) + gate_of(gate(0)) * math::tanh(gate(2));
        c[i] = static_cast<C>(state);
        h[i] = static_cast<C>(gate_of(gate(3)) * math::tanh(state));
        break;
      }
      case Cell::kGru: {
        const size_t n = static_cast<size_t>(2 * H + i);
        const double candidate = math::tanh(input[n] + gate_of(gate(0)) * hidden[n]);
        h[i] = static_cast<C>((static_cast<double>(h[i]) - candidate) * gate_of(gate(1)) + candidate);
        break;
      }
      case Cell::kTanh: h[i] = static_cast<C>(math::tanh(gate(0))); break;
      case Cell::kRelu: h[i] = static_cast<C>(std::max(gate(0), 0.0)); break;
    }
  }
}

Value eval_cell(const Call<Tensor>& call, Cell cell) {
  infer_call(call);
  const Net net = read_net(call, cell);
  QDQ_CHECK(!call.boolean(6) || call.number(5) == 0 || net.layers == 1, kUnsupported, call.op().target,
            " with dropout draws random numbers: export the model in evaluation mode");
  const DType dtype = call.tensor(0).dtype();
  return visit_float(dtype, call.op().target, [&](auto type) -> Value {
    using C = typename decltype(type)::type;
    const DType t = DTypeOf<C>::value;
    // [time, batch, features], so that a sample's features at one time lie together.
    Tensor x = (net.batch_first ? call.tensor(0).transpose(0, 1) : call.tensor(0)).to(t).contiguous();
    std::vector<Tensor> states;
    for (const Tensor& state : states_of(call, cell)) states.push_back(state.to(t).clone());
    const std::vector<Tensor> given = call.tensors(2);
    const int64_t T = x.size(0), N = x.size(1), H = states.back().size(2), P = states[0].size(2);
    std::vector<double> input(static_cast<size_t>(gates_of(cell) * H)), hidden(input.size());
    std::vector<double> projected(static_cast<size_t>(P));
    std::vector<C> whole(static_cast<size_t>(H));  // h in front of the projection
    for (int64_t layer = 0; layer < net.layers; ++layer) {
      const Tensor out = Tensor::empty({T, N, P * net.directions}, t);
      for (int64_t direction = 0; direction < net.directions; ++direction) {
        const int64_t index = layer * net.directions + direction;
        std::vector<Tensor> params;
        for (size_t i = 0; i < net.per_cell; ++i)
          params.push_back(given[static_cast<size_t>(index) * net.per_cell + i].to(t).contiguous());
        for (int64_t turn = 0; turn < T; ++turn) {
          const int64_t time = direction == 0 ? turn : T - 1 - turn;
          for (int64_t n = 0; n < N; ++n) {
            C* h = states[0].data<C>() + (index * N + n) * P;
            C* c = cell == Cell::kLstm ? states[1].data<C>() + (index * N + n) * H : nullptr;
            project<C>(params[0], net.has_biases ? &params[2] : nullptr, x.data<C>() + (time * N + n) * x.size(2),
                       input);
            project<C>(params[1], net.has_biases ? &params[3] : nullptr, h, hidden);
            step<C>(cell, input, hidden, H, net.projects ? whole.data() : h, c);
            if (net.projects) {
              project<C>(params.back(), nullptr, whole.data(), projected);
              std::transform(projected.begin(), projected.end(), h, [](double value) { return static_cast<C>(value); });
            }
            std::copy_n(h, P, out.data<C>() + (time * N + n) * P * net.directions + direction * P);
          }
        }
      }
      x = out;
    }
    Value::List results{(net.batch_first ? x.transpose(0, 1).contiguous() : x).to(dtype)};
    for (const Tensor& state : states) results.push_back(state.to(dtype));
    return results;
  });
}
template <Cell cell> Value eval_recurrent(const Call<Tensor>& call) { return eval_cell(call, cell); }

// (input [N, in], hx, w_ih, w_hh, b_ih?, b_hh?): one step, as a sequence of one.
template <class T, Cell cell> BasicValue<T> one_step(const Call<T>& call) {
  using V = BasicValue<T>;
  constexpr std::string_view kNets[] = {"lstm.input", "gru.input", "rnn_tanh.input", "rnn_relu.input"};
  const auto in_front = [](const V& value) { return run_op<T>("unsqueeze", {value, 0}); };
  typename V::List states, params{call[2], call[3]};
  for (const T& state : states_of(call, cell)) states.push_back(in_front(state));
  if (!call.is_none(4)) params.insert(params.end(), {call[4], call[5]});
  const V hx = cell == Cell::kLstm ? V(states) : states[0];
  const V results = run_op<T>(kNets[static_cast<size_t>(cell)],
                              {in_front(call[0]), hx, V(params), !call.is_none(4), 1, 0.0, false, false, false});
  const auto& list = *results.template get_if<typename V::List>();
  const auto first = [](const V& value) { return run_op<T>("select.int", {value, 0, 0}); };
  if (cell != Cell::kLstm) return first(list[1]);
  return typename V::List{first(list[1]), first(list[2])};
}

}  // namespace

void add_recurrent_ops(std::vector<OpDef>& ops) {
  const Roles roles{.activation = 0};
  constexpr const char* kOptions =
      "Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional, bool "
      "batch_first) -> ";
  constexpr const char* kStep = "Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None) -> ";
  const auto add = [&](const char* begin, const char* end, const char* results, Infer infer, Eval eval) {
    ops.push_back(define(concat("aten::", begin, end, results), infer, eval, roles, Family::kRecurrent));
  };
  add("lstm.input(Tensor input, Tensor[] hx, ", kOptions, "(Tensor, Tensor, Tensor)", infer_recurrent<Cell::kLstm>,
      eval_recurrent<Cell::kLstm>);
  add("gru.input(Tensor input, Tensor hx, ", kOptions, "(Tensor, Tensor)", infer_recurrent<Cell::kGru>,
      eval_recurrent<Cell::kGru>);
  add("rnn_tanh.input(Tensor input, Tensor hx, ", kOptions, "(Tensor, Tensor)", infer_recurrent<Cell::kTanh>,
      eval_recurrent<Cell::kTanh>);
  add("rnn_relu.input(Tensor input, Tensor hx, ", kOptions, "(Tensor, Tensor)", infer_recurrent<Cell::kRelu>,
      eval_recurrent<Cell::kRelu>);
  add("lstm_cell(Tensor input, Tensor[] hx, ", kStep, "(Tensor, Tensor)", one_step<TensorMeta, Cell::kLstm>,
      one_step<Tensor, Cell::kLstm>);
  add("gru_cell(Tensor input, Tensor hx, ", kStep, "Tensor", one_step<TensorMeta, Cell::kGru>,
      one_step<Tensor, Cell::kGru>);
  add("rnn_tanh_cell(Tensor input, Tensor hx, ", kStep, "Tensor", one_step<TensorMeta, Cell::kTanh>,
      one_step<Tensor, Cell::kTanh>);
  add("rnn_relu_cell(Tensor input, Tensor hx, ", kStep, "Tensor", one_step<TensorMeta, Cell::kRelu>,
      one_step<Tensor, Cell::kRelu>);
}

}  // namespace qdq
