// Recurrent cells as ONNX has them and PyTorch does not: with other activations, clipped sums, peepholes, or sequences
// of different length.

#include "op/elements.h"
#include "op/families.h"
#include "op/math.h"

namespace qdq {
namespace {

enum class OnnxCell { kLstm, kGru, kRnn };

int64_t num_gates(OnnxCell cell) { return cell == OnnxCell::kLstm ? 4 : cell == OnnxCell::kGru ? 3 : 1; }
// Of one direction.
size_t num_functions(OnnxCell cell) { return cell == OnnxCell::kLstm ? 3 : cell == OnnxCell::kGru ? 2 : 1; }

// Where the schema keeps things; x 0, w 1, r 2, b 3, sequence_lens 4, initial_h 5.
struct CellArguments {
  int initial_c, peepholes, direction, activations, alpha, beta, clip, flag;
};
constexpr CellArguments kLstmArguments{6, 7, 8, 9, 10, 11, 12, 13};
constexpr CellArguments kOtherArguments{-1, -1, 6, 7, 8, 9, 10, 11};

CellArguments places_of(OnnxCell cell) { return cell == OnnxCell::kLstm ? kLstmArguments : kOtherArguments; }

template <class T> int64_t num_directions(const Call<T>& call, const CellArguments& at) {
  const std::string& direction = call.string(static_cast<size_t>(at.direction));
  QDQ_CHECK(direction == "forward" || direction == "reverse" || direction == "bidirectional", kInvalidArgument,
            call.op().target, " got the direction ", direction);
  return direction == "bidirectional" ? 2 : 1;
}

struct CellFunction {
  std::string name;
  double alpha = 0, beta = 0;

  double operator()(double x) const {
    if (name == "sigmoid") return 1 / (1 + math::exp(-x));
    if (name == "tanh") return math::tanh(x);
    if (name == "relu") return std::max(x, 0.0);
    if (name == "affine") return alpha * x + beta;
    if (name == "leakyrelu") return x >= 0 ? x : alpha * x;
    if (name == "thresholdedrelu") return x >= alpha ? x : 0;
    if (name == "scaledtanh") return alpha * math::tanh(beta * x);
    if (name == "hardsigmoid") return std::min(std::max(alpha * x + beta, 0.0), 1.0);
    if (name == "elu") return x >= 0 ? x : alpha * (math::exp(x) - 1);
    if (name == "softsign") return x / (1 + std::fabs(x));
    return std::max(x, 0.0) + math::log1p(math::exp(-std::fabs(x)));  // softplus
  }
};

// "sigmoid,tanh,tanh"
std::vector<CellFunction> functions_of(const Call<Tensor>& call, const CellArguments& at, size_t wanted) {
  static constexpr std::string_view kNames[] = {"sigmoid",         "tanh",       "relu",        "affine", "leakyrelu",
                                                "thresholdedrelu", "scaledtanh", "hardsigmoid", "elu",    "softsign",
                                                "softplus"};
  const auto numbers = [&](int i) {
    std::vector<double> out;
    if (const auto* list = call[static_cast<size_t>(i)].get_if<Value::List>())
      for (const Value& value : *list) {
        if (const double* number = value.get_if<double>()) out.push_back(*number);
        else if (const int64_t* whole = value.get_if<int64_t>()) out.push_back(static_cast<double>(*whole));
      }
    return out;
  };
  const std::vector<double> alpha = numbers(at.alpha), beta = numbers(at.beta);
  std::vector<CellFunction> out;
  const std::string& names = call.string(static_cast<size_t>(at.activations));
  for (size_t begin = 0; begin <= names.size();) {
    const size_t end = std::min(names.find(',', begin), names.size());
    CellFunction function{names.substr(begin, end - begin)};
    QDQ_CHECK(std::find(std::begin(kNames), std::end(kNames), function.name) != std::end(kNames), kInvalidArgument,
              call.op().target, " does not have the activation ", function.name);
    if (out.size() < alpha.size()) function.alpha = alpha[out.size()];
    if (out.size() < beta.size()) function.beta = beta[out.size()];
    out.push_back(std::move(function));
    begin = end + 1;
  }
  QDQ_CHECK(out.size() == wanted, kInvalidArgument, call.op().target, " needs ", wanted, " activations, found ",
            out.size());
  return out;
}

// x [T, N, I], w [D, G H, I], r [D, G H, H], b [D, 2 G H], states [D, N, H], p [D, 3 H] -> y [T, D, N, H] and states.
MetaValue infer_onnx_cell(const Call<TensorMeta>& call, OnnxCell cell) {
  const CellArguments at = places_of(cell);
  const SymShape &x = call.tensor(0).sizes, &w = call.tensor(1).sizes, &r = call.tensor(2).sizes;
  QDQ_CHECK(x.size() == 3 && w.size() == 3 && r.size() == 3, kInvalidArgument, call.op().target,
            " needs three dimensions, found shapes ", to_string(x), ", ", to_string(w), " and ", to_string(r));
  const SymInt hidden = r[2], rows = hidden * SymInt(num_gates(cell)), directions(num_directions(call, at));
  const auto check = [&](int i, const SymShape& wanted) {
    if (i < 0 || call.is_none(static_cast<size_t>(i))) return;
    const SymShape& found = call.tensor(static_cast<size_t>(i)).sizes;
    bool fits = found.size() == wanted.size();
    for (size_t a = 0; fits && a < wanted.size(); ++a) fits = may_be_equal(found[a], wanted[a]);
    QDQ_CHECK(fits, kInvalidArgument, call.op().target, " needs its argument ", i, " of shape ", to_string(wanted),
              ", found ", to_string(found));
  };
  check(1, {directions, rows, x[2]});
  check(2, {directions, rows, hidden});
  check(3, {directions, rows * SymInt(2)});
  check(4, {x[1]});
  check(5, {directions, x[1], hidden});
  check(at.initial_c, {directions, x[1], hidden});
  check(at.peepholes, {directions, hidden * SymInt(3)});
  const DType dtype = call.tensor(0).dtype;
  const TensorMeta state = tensor_meta(dtype, {directions, x[1], hidden});
  MetaValue::List out{tensor_meta(dtype, {x[0], directions, x[1], hidden}), state};
  if (cell == OnnxCell::kLstm) out.push_back(state);
  return out;
}

// One direction of one sample; all in double, from f32 or f64 tensors brought to double.
struct CellWeights {
  const double *w, *r, *b, *p;  // b, p may be null
  int64_t inputs, hidden;
  double clip;
  bool flag;  // of LSTM: the forget gate is what the input gate leaves; of GRU: linear before reset
  const CellFunction* functions;
};

double clipped(const CellWeights& c, double x) { return std::clamp(x, -c.clip, c.clip); }

double row_product(const double* row, const double* x, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += row[i] * x[i];
  return sum;
}

// The sum that gate g of element i gets from the input, and from the state.
double from_input(const CellWeights& c, int64_t g, int64_t i, const double* x) {
  const int64_t row = g * c.hidden + i;
  return row_product(c.w + row * c.inputs, x, c.inputs) + (c.b ? c.b[row] : 0);
}
double from_state(const CellWeights& c, int64_t gates, int64_t g, int64_t i, const double* h) {
  const int64_t row = g * c.hidden + i;
  return row_product(c.r + row * c.hidden, h, c.hidden) + (c.b ? c.b[gates * c.hidden + row] : 0);
}

void step_lstm(const CellWeights& c, const double* x, const double* h, double* next, double* state) {
  for (int64_t i = 0; i < c.hidden; ++i) {
    const auto sum = [&](int64_t g) { return from_input(c, g, i, x) + from_state(c, 4, g, i, h); };
    const auto peep = [&](int64_t g) { return c.p ? c.p[g * c.hidden + i] * state[i] : 0; };
    const double in = c.functions[0](clipped(c, sum(0) + peep(0)));
    const double forget = c.flag ? 1 - in : c.functions[0](clipped(c, sum(2) + peep(2)));
    state[i] = forget * state[i] + in * c.functions[1](clipped(c, sum(3)));
    next[i] = c.functions[0](clipped(c, sum(1) + peep(1))) * c.functions[2](state[i]);
  }
}

void step_gru(const CellWeights& c, const double* x, const double* h, double* next) {
  std::vector<double> reset(static_cast<size_t>(c.hidden)), kept(reset);
  for (int64_t i = 0; i < c.hidden; ++i) {
    reset[static_cast<size_t>(i)] = c.functions[0](clipped(c, from_input(c, 1, i, x) + from_state(c, 3, 1, i, h)));
    kept[static_cast<size_t>(i)] = reset[static_cast<size_t>(i)] * h[i];
  }
  for (int64_t i = 0; i < c.hidden; ++i) {
    const double update = c.functions[0](clipped(c, from_input(c, 0, i, x) + from_state(c, 3, 0, i, h)));
    const double past =
        c.flag ? reset[static_cast<size_t>(i)] * from_state(c, 3, 2, i, h) : from_state(c, 3, 2, i, kept.data());
    const double candidate = c.functions[1](clipped(c, from_input(c, 2, i, x) + past));
    next[i] = (1 - update) * candidate + update * h[i];
  }
}

// How many steps each of the N sequences has, at most T.
std::vector<int64_t> sequence_lengths(const Call<Tensor>& call, int64_t N, int64_t T) {
  std::vector<int64_t> lengths(static_cast<size_t>(N), T);
  if (const Tensor* given = call.optional_tensor(4)) {
    const Tensor all = given->to(DType::kS64).contiguous();
    for (size_t n = 0; n < lengths.size(); ++n) {
      lengths[n] = all.data<int64_t>()[n];
      QDQ_CHECK(lengths[n] >= 0 && lengths[n] <= T, kInvalidArgument, call.op().target, " got a sequence of ",
                lengths[n], " steps, wanted 0 to ", T);
    }
  }
  return lengths;
}

Value eval_onnx_cell(const Call<Tensor>& call, OnnxCell cell) {
  infer_call(call);
  const CellArguments at = places_of(cell);
  const DType dtype = call.tensor(0).dtype();
  check_float(dtype, call.op().target);
  const auto wide = [&](int i) {
    const Tensor* tensor = i < 0 ? nullptr : call.optional_tensor(static_cast<size_t>(i));
    return tensor ? tensor->to(DType::kF64).contiguous() : Tensor();
  };
  const Tensor x = wide(0), w = wide(1), r = wide(2), b = wide(3), initial_h = wide(5), initial_c = wide(at.initial_c),
               p = wide(at.peepholes);
  const int64_t T = x.size(0), N = x.size(1), I = x.size(2), H = r.size(2), D = num_directions(call, at),
                rows = num_gates(cell) * H;
  const std::vector<CellFunction> functions = functions_of(call, at, num_functions(cell) * static_cast<size_t>(D));
  const std::vector<int64_t> lengths = sequence_lengths(call, N, T);
  const Tensor y = Tensor::empty({T, D, N, H}, DType::kF64), last_h = Tensor::empty({D, N, H}, DType::kF64),
               last_c = Tensor::empty({D, N, H}, DType::kF64);
  std::vector<double> h(static_cast<size_t>(H)), next(h), c(h);
  for (int64_t d = 0; d < D; ++d) {
    const bool backwards = d == 1 || call.string(static_cast<size_t>(at.direction)) == "reverse";
    const CellWeights weights{w.data<double>() + d * rows * I,
                              r.data<double>() + d * rows * H,
                              b.defined() ? b.data<double>() + d * 2 * rows : nullptr,
                              p.defined() ? p.data<double>() + d * 3 * H : nullptr,
                              I,
                              H,
                              call.is_none(static_cast<size_t>(at.clip)) ? std::numeric_limits<double>::infinity()
                                                                         : call.number(static_cast<size_t>(at.clip)),
                              call.boolean(static_cast<size_t>(at.flag)),
                              functions.data() + static_cast<size_t>(d) * num_functions(cell)};
    QDQ_CHECK(weights.clip >= 0, kInvalidArgument, call.op().target, " clips at ", weights.clip);
    for (int64_t n = 0; n < N; ++n) {
      const auto first = [&](const Tensor& initial, std::vector<double>& state) {
        if (initial.defined()) std::copy_n(initial.data<double>() + (d * N + n) * H, H, state.data());
        else std::fill(state.begin(), state.end(), 0.0);
      };
      first(initial_h, h);
      first(initial_c, c);
      const int64_t length = lengths[static_cast<size_t>(n)];
      for (int64_t turn = 0; turn < length; ++turn) {
        const int64_t time = backwards ? length - 1 - turn : turn;
        const double* here = x.data<double>() + (time * N + n) * I;
        if (cell == OnnxCell::kLstm) step_lstm(weights, here, h.data(), next.data(), c.data());
        else if (cell == OnnxCell::kGru) step_gru(weights, here, h.data(), next.data());
        else
          for (int64_t i = 0; i < H; ++i)
            next[static_cast<size_t>(i)] = weights.functions[0](
                clipped(weights, from_input(weights, 0, i, here) + from_state(weights, 1, 0, i, h.data())));
        std::swap(h, next);
        std::copy_n(h.data(), H, y.data<double>() + ((time * D + d) * N + n) * H);
      }
      std::copy_n(h.data(), H, last_h.data<double>() + (d * N + n) * H);
      std::copy_n(c.data(), H, last_c.data<double>() + (d * N + n) * H);
    }
  }
  Value::List out{y.to(dtype), last_h.to(dtype)};
  if (cell == OnnxCell::kLstm) out.push_back(last_c.to(dtype));
  return out;
}

template <OnnxCell cell> MetaValue infer_onnx_recurrent(const Call<TensorMeta>& call) {
  return infer_onnx_cell(call, cell);
}
template <OnnxCell cell> Value eval_onnx_recurrent(const Call<Tensor>& call) { return eval_onnx_cell(call, cell); }

}  // namespace

void add_onnx_recurrent_ops(std::vector<OpDef>& ops) {
  const std::string inputs = "(Tensor x, Tensor w, Tensor r, Tensor? b, Tensor? sequence_lens, Tensor? initial_h",
                    options =
                        ", str direction, str activations, float[] activation_alpha, float[] activation_beta, "
                        "float? clip, bool ";
  const Roles roles{.activation = 0};
  ops.push_back(define(
      "onnx::lstm" + inputs + ", Tensor? initial_c, Tensor? p" + options + "input_forget) -> (Tensor, Tensor, Tensor)",
      infer_onnx_recurrent<OnnxCell::kLstm>, eval_onnx_recurrent<OnnxCell::kLstm>, roles));
  ops.push_back(define("onnx::gru" + inputs + options + "linear_before_reset) -> (Tensor, Tensor)",
                       infer_onnx_recurrent<OnnxCell::kGru>, eval_onnx_recurrent<OnnxCell::kGru>, roles));
  ops.push_back(define("onnx::rnn" + inputs + options + "unused) -> (Tensor, Tensor)",
                       infer_onnx_recurrent<OnnxCell::kRnn>, eval_onnx_recurrent<OnnxCell::kRnn>, roles));
}

}  // namespace qdq
