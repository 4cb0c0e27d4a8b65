// LSTM, GRU and simple recurrent layers on the portable loops: the inputs of all steps are multiplied at once, the
// states step by step, and the gates are whole vectors.
#include <algorithm>

#include "exec/simd.h"
#include "exec/simd_obstacles.h"
#include "kernel/gemm.h"
#include "kernel/math.h"
#include "kernel/pointwise.h"
#include "op/facts.h"
#include "op/infer.h"

namespace qdq {
namespace {

enum class Cell { kLstm, kGru, kTanh, kRelu };
int64_t gates_of(Cell cell) { return cell == Cell::kLstm ? 4 : cell == Cell::kGru ? 3 : 1; }

kernel::PackedRows packed_rows(const Tensor& w) {
  return kernel::pack_rows({w.data<float>(), w.size(1), 1}, w.size(0), w.size(1));
}

// What a GRU does once its candidate is there: h + update (old h - candidate) in the order of PyTorch.
void mix(float* candidate, const float* update, int64_t H, float* h, float* scratch) {
  kernel::tanh_f32(candidate, H, candidate);
  kernel::sub_f32(h, candidate, H, scratch);
  kernel::mul_f32(scratch, update, H, scratch);
  kernel::add_f32(scratch, candidate, H, h);
}

// One step of one sample: updates h and c by the projections of the input and of h, which it writes over.
void step(Cell cell, const float* input, float* sums, int64_t H, float* h, float* c, float* scratch) {
  switch (cell) {
    case Cell::kLstm: {
      kernel::add_f32(input, sums, 4 * H, sums);
      float *in = sums, *forget = sums + H, *candidate = sums + 2 * H, *output = sums + 3 * H;
      kernel::sigmoid_f32(in, 2 * H, in);
      kernel::tanh_f32(candidate, H, candidate);
      kernel::sigmoid_f32(output, H, output);
      kernel::mul_f32(forget, c, H, c);
      kernel::mul_f32(in, candidate, H, candidate);
      kernel::add_f32(c, candidate, H, c);
      kernel::tanh_f32(c, H, scratch);
      kernel::mul_f32(output, scratch, H, h);
      break;
    }
    case Cell::kGru: {
      float *reset = sums, *update = sums + H, *candidate = sums + 2 * H;
      kernel::add_f32(input, sums, 2 * H, sums);
      kernel::sigmoid_f32(sums, 2 * H, sums);
      kernel::mul_f32(reset, candidate, H, candidate);
      kernel::add_f32(input + 2 * H, candidate, H, candidate);
      mix(candidate, update, H, h, scratch);
      break;
    }
    case Cell::kTanh:
    case Cell::kRelu:
      kernel::add_f32(input, sums, H, h);
      (cell == Cell::kTanh ? kernel::tanh_f32 : kernel::relu_f32)(h, H, h);
      break;
  }
}

// (input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first) as op/recurrent.cpp reads
// them.
class RecurrentOp : public CompiledOp {
 public:
  RecurrentOp(Cell cell, bool packs_once) : cell_(cell), packs_once_(packs_once) {}

  Value run(const Call<Tensor>& call) override {
    const Tensor& given = call.tensor(0);
    const std::vector<Tensor> params = call.tensors(2);
    std::vector<Tensor> states = cell_ == Cell::kLstm ? call.tensors(1) : std::vector<Tensor>{call.tensor(1)};
    const bool biases = call.boolean(3), batch_first = call.boolean(8);
    const int64_t layers = call.integer(4), directions = call.boolean(7) ? 2 : 1;
    const size_t each = parameters_of_cell(params.size(), biases, layers * directions);
    if (!fits(given, states, params, each, layers, directions, batch_first) || call.boolean(6))
      return run_reference(call, "an operand is empty, not float32 or does not fit the others, or it is in training");
    packed_.resize(params.size());
    // [time, batch, features]
    Tensor x = (batch_first ? given.transpose(0, 1) : given).contiguous();
    for (Tensor& state : states) state = state.clone();
    const int64_t T = x.size(0), N = x.size(1), H = states.back().size(2), P = states[0].size(2);
    for (int64_t layer = 0; layer < layers; ++layer) {
      const Tensor out = uninitialized({T, N, P * directions}, DType::kF32);
      for (int64_t direction = 0; direction < directions; ++direction) {
        const int64_t index = layer * directions + direction;
        float* c = cell_ == Cell::kLstm ? states[1].data<float>() + index * N * H : nullptr;
        run_direction(x, params, static_cast<size_t>(index) * each, biases, direction == 1,
                      states[0].data<float>() + index * N * P, c, H, out, direction * P, each % 2 == 1);
      }
      x = out;
    }
    Value::List results{batch_first ? x.transpose(0, 1).contiguous() : x};
    for (const Tensor& state : states) results.push_back(state);
    return results;
  }

 private:
  // An LSTM with projections has one more.
  size_t parameters_of_cell(size_t all, bool biases, int64_t cells) const {
    const size_t each = biases ? 4 : 2;
    return cell_ == Cell::kLstm && cells > 0 && all == static_cast<size_t>(cells) * (each + 1) ? each + 1 : each;
  }

  bool fits(const Tensor& x, const std::vector<Tensor>& states, const std::vector<Tensor>& params, size_t each,
            int64_t layers, int64_t directions, bool batch_first) const {
    const size_t count = cell_ == Cell::kLstm ? 2 : 1;
    const bool projects = each % 2 == 1;
    if (!is_f32(x) || x.dim() != 3 || x.numel() == 0 || layers < 1 || layers > static_cast<int64_t>(params.size()) ||
        params.size() != static_cast<size_t>(layers * directions) * each || states.size() != count)
      return false;
    const auto features = [](const Tensor& state) { return state.dim() == 3 ? state.size(2) : 0; };
    const int64_t N = x.size(batch_first ? 0 : 1), P = features(states[0]), H = projects ? features(states[1]) : P;
    for (size_t i = 0; i < count; ++i)
      if (!is_f32(states[i]) || states[i].sizes() != Shape{layers * directions, N, i == 0 ? P : H} || P * H == 0)
        return false;
    for (size_t i = 0; i < params.size(); ++i) {
      const int64_t in = i / each < static_cast<size_t>(directions) ? x.size(2) : P * directions;
      const Shape wanted = i % each == 0                      ? Shape{gates_of(cell_) * H, in}
                           : i % each == 1                    ? Shape{gates_of(cell_) * H, P}
                           : projects && i % each == each - 1 ? Shape{P, H}
                                                              : Shape{gates_of(cell_) * H};
      if (!is_f32(params[i]) || params[i].sizes() != wanted) return false;
    }
    return true;
  }

  kernel::PackedRows packed(const std::vector<Tensor>& params, size_t i) {
    return packed_[i].get(params[i], packs_once_, packed_rows);
  }

  // One layer in one direction over x [T, N, in]; h and c [N, H] are its states, `out` [T, N, .] gets h at `column`.
  // With a projection h is [N, P], the product of that with what it would be without.
  void run_direction(const Tensor& x, const std::vector<Tensor>& params, size_t first, bool biases, bool backward,
                     float* h, float* c, int64_t H, const Tensor& out, int64_t column, bool projects) {
    const int64_t T = x.size(0), N = x.size(1), width = gates_of(cell_) * H, stride = out.size(2);
    const kernel::PackedRows of_input = packed(params, first), of_state = packed(params, first + 1);
    const Tensor input_bias = biases ? params[first + 2].contiguous() : Tensor(),
                 state_bias = biases ? params[first + 3].contiguous() : Tensor();
    const Tensor inputs = uninitialized({T, N, width}, DType::kF32), sums = uninitialized({N, width}, DType::kF32);
    kernel::linear_f32(x.data<float>(), T * N, of_input, biases ? input_bias.data<float>() : nullptr,
                       inputs.data<float>());
    const size_t last = first + (biases ? 4 : 2);
    const kernel::PackedRows projection = projects ? packed(params, last) : kernel::PackedRows();
    const int64_t P = projects ? params[last].size(0) : H;
    const Tensor whole = projects ? uninitialized({N, H}, DType::kF32) : Tensor();
    float* const states = projects ? whole.data<float>() : h;
    std::vector<float> scratch(static_cast<size_t>(H));
    for (int64_t turn = 0; turn < T; ++turn) {
      const int64_t time = backward ? T - 1 - turn : turn;
      kernel::linear_f32(h, N, of_state, biases ? state_bias.data<float>() : nullptr, sums.data<float>());
      for (int64_t n = 0; n < N; ++n)
        step(cell_, inputs.data<float>() + (time * N + n) * width, sums.data<float>() + n * width, H, states + n * H,
             c == nullptr ? nullptr : c + n * H, scratch.data());
      if (projects) kernel::linear_f32(states, N, projection, nullptr, h);
      for (int64_t n = 0; n < N; ++n) std::copy_n(h + n * P, P, out.data<float>() + (time * N + n) * stride + column);
    }
  }

  Cell cell_;
  bool packs_once_;
  std::vector<PackedWeight<kernel::PackedRows>> packed_;
};

// (input [N, in], hx, w_ih, w_hh, b_ih?, b_hh?): one step of a cell, as a sequence of one.
class CellOp : public RecurrentOp {
 public:
  CellOp(Cell cell, bool packs_once) : RecurrentOp(cell, packs_once), cell_(cell) {}

  Value run(const Call<Tensor>& call) override {
    infer_call(call);
    const std::vector<Tensor> given = cell_ == Cell::kLstm ? call.tensors(1) : std::vector<Tensor>{call.tensor(1)};
    Value::List states, params{call[2], call[3]};
    for (const Tensor& state : given) states.emplace_back(state.unsqueeze(0));
    if (!call.is_none(4)) params.insert(params.end(), {call[4], call[5]});
    constexpr const char* kNets[] = {"lstm", "gru", "rnn_tanh", "rnn_relu"};
    const Value results =
        RecurrentOp::run(Call<Tensor>(*find_op(concat("torch.ops.aten.", kNets[static_cast<size_t>(cell_)], ".input")),
                                      {call.tensor(0).unsqueeze(0), cell_ == Cell::kLstm ? Value(states) : states[0],
                                       Value(params), !call.is_none(4), 1, 0.0, false, false, false}));
    const auto& list = *results.get_if<Value::List>();
    const auto state = [&](size_t i) { return list[i].get_if<Tensor>()->select(0, 0); };
    if (cell_ != Cell::kLstm) return state(1);
    return Value::List{state(1), state(2)};
  }

 private:
  Cell cell_;
};

// Where an operator of ONNX keeps its arguments behind x, w, r, b, sequence_lens and initial_h.
struct OnnxPlaces {
  size_t direction, activations, clip, flag;
};
constexpr OnnxPlaces kOnnxLstm{8, 9, 12, 13}, kOnnxOther{6, 7, 10, 11};

// (x [T, N, I], w [D, G H, I], r [D, G H, H], b [D, 2 G H], sequence_lens [N], initial_h [D, N, H], ...) as
// op/onnx_recurrent.cpp reads them, with the activations of PyTorch. The rows of the weights are put in the order of
// PyTorch's gates.
class OnnxRecurrentOp : public CompiledOp {
 public:
  OnnxRecurrentOp(Cell cell, bool packs_once)
      : cell_(cell), places_(cell == Cell::kLstm ? kOnnxLstm : kOnnxOther), packs_once_(packs_once) {}

  Value run(const Call<Tensor>& call) override {
    const Tensor &given = call.tensor(0), &r = call.tensor(2);
    const Cell cell =
        cell_ == Cell::kTanh && call.string(places_.activations).starts_with("relu") ? Cell::kRelu : cell_;
    if (given.numel() == 0 || r.numel() == 0) return run_reference(call, "an operand is empty");
    for (const size_t i : {0, 1, 2, 3, 5, 6})
      if (const Tensor* tensor = i < places_.direction ? call.optional_tensor(i) : nullptr; tensor && !is_f32(*tensor))
        return run_reference(call, "an operand is not float32");
    const Tensor x = given.contiguous();
    const int64_t T = x.size(0), N = x.size(1), D = r.size(0), H = r.size(2);
    infer_call(call);
    const std::vector<int64_t> lengths = lengths_of(call, T, N);
    const Tensor y = Tensor::empty({T, D, N, H}, DType::kF32), h = state_of(call.optional_tensor(5), {D, N, H}),
                 c = cell == Cell::kLstm ? state_of(call.optional_tensor(6), {D, N, H}) : Tensor();
    for (int64_t d = 0; d < D; ++d) {
      const bool backward = d == 1 || call.string(places_.direction) == "reverse";
      run_direction(cell, call, x, d, lengths, backward, h.data<float>() + d * N * H,
                    c.defined() ? c.data<float>() + d * N * H : nullptr, y);
    }
    Value::List results{y, h};
    if (c.defined()) results.emplace_back(c);
    return results;
  }

 private:
  static Tensor state_of(const Tensor* given, const Shape& sizes) {
    return given != nullptr ? given->clone() : Tensor::empty(sizes, DType::kF32);
  }
  static std::vector<int64_t> lengths_of(const Call<Tensor>& call, int64_t T, int64_t N) {
    if (call.is_none(4)) return std::vector<int64_t>(static_cast<size_t>(N), T);
    const Tensor given = call.tensor(4).to(DType::kS64).contiguous();
    for (const int64_t length : given.span<int64_t>())
      QDQ_CHECK(length >= 0 && length <= T, kInvalidArgument, call.op().target, " got a sequence of ", length,
                " steps, wanted 0 to ", T);
    return {given.data<int64_t>(), given.data<int64_t>() + N};
  }
  // Blocks of rows, one for each gate, in the order of PyTorch's: ONNX has i o f c and z r h.
  Tensor reordered(const Tensor& rows) const {
    static constexpr int64_t kOrders[3][4] = {{0, 2, 3, 1}, {1, 0, 2}, {0}};
    const int64_t gates = gates_of(cell_), block = rows.numel() / gates;
    const int64_t* order = kOrders[cell_ == Cell::kLstm ? 0 : cell_ == Cell::kGru ? 1 : 2];
    const Tensor from = rows.contiguous(), out = uninitialized(rows.sizes(), DType::kF32);
    for (int64_t g = 0; g < gates; ++g)
      std::copy_n(from.data<float>() + order[g] * block, block, out.data<float>() + g * block);
    return out;
  }
  // A weight of a direction: all gates, or those from row `first` on of what reordered gives.
  kernel::PackedRows packed(const Tensor& weights, int64_t d, size_t place, int64_t first, int64_t last) {
    return packed_[static_cast<size_t>(3 * d) + place].get(weights.select(0, d), packs_once_, [&](const Tensor& w) {
      return packed_rows(reordered(w).slice(0, first, last).contiguous());
    });
  }

  void run_direction(Cell cell, const Call<Tensor>& call, const Tensor& x, int64_t d,
                     const std::vector<int64_t>& lengths, bool backward, float* h, float* c, const Tensor& y) {
    const int64_t T = x.size(0), N = x.size(1), H = y.size(3), width = gates_of(cell) * H;
    const bool resets_first = cell == Cell::kGru && !call.boolean(places_.flag);
    const int64_t rows = resets_first ? 2 * H : width;
    const kernel::PackedRows of_input = packed(call.tensor(1), d, 0, 0, width),
                             of_state = packed(call.tensor(2), d, 1, 0, rows),
                             of_kept = resets_first ? packed(call.tensor(2), d, 2, rows, width) : kernel::PackedRows();
    const Tensor* biases = call.optional_tensor(3);
    const auto bias = [&](int64_t half) {
      return biases == nullptr ? Tensor() : reordered(biases->select(0, d).slice(0, half * width, (half + 1) * width));
    };
    const Tensor input_bias = bias(0), state_bias = bias(1);
    const auto data = [](const Tensor& t) { return t.defined() ? t.data<float>() : nullptr; };
    const Tensor inputs = uninitialized({T, N, width}, DType::kF32), sums = uninitialized({N, rows}, DType::kF32),
                 kept = uninitialized({N, H}, DType::kF32), candidates = uninitialized({N, H}, DType::kF32);
    kernel::linear_f32(x.data<float>(), T * N, of_input, data(input_bias), inputs.data<float>());
    std::vector<float> scratch(static_cast<size_t>(H));
    const int64_t longest = *std::max_element(lengths.begin(), lengths.end());
    for (int64_t turn = 0; turn < longest; ++turn) {
      const auto input_of = [&](int64_t n) {
        const int64_t length = lengths[static_cast<size_t>(n)], time = backward ? length - 1 - turn : turn;
        return turn < length ? time * N + n : -1;
      };
      kernel::linear_f32(h, N, of_state, data(state_bias), sums.data<float>());
      if (resets_first) reset(inputs.data<float>(), input_of, N, H, h, sums.data<float>(), kept.data<float>());
      if (resets_first)
        kernel::linear_f32(kept.data<float>(), N, of_kept, state_bias.defined() ? data(state_bias) + rows : nullptr,
                           candidates.data<float>());
      for (int64_t n = 0; n < N; ++n) {
        const int64_t at = input_of(n);
        if (at < 0) continue;
        const float* input = inputs.data<float>() + at * width;
        float *sum = sums.data<float>() + n * rows, *state = h + n * H, *candidate = candidates.data<float>() + n * H;
        if (resets_first) {
          kernel::add_f32(input + 2 * H, candidate, H, candidate);
          mix(candidate, sum + H, H, state, scratch.data());
        } else {
          step(cell, input, sum, H, state, c == nullptr ? nullptr : c + n * H, scratch.data());
        }
        std::copy_n(state, H, y.data<float>() + ((at / N * y.size(1) + d) * N + n) * H);
      }
    }
  }

  // The reset and update gates of all samples, over `sums`, and what the reset gate keeps of their states.
  template <class InputOf>
  static void reset(const float* inputs, const InputOf& input_of, int64_t N, int64_t H, const float* h, float* sums,
                    float* kept) {
    for (int64_t n = 0; n < N; ++n) {
      float* gates = sums + n * 2 * H;
      if (const int64_t at = input_of(n); at >= 0) kernel::add_f32(inputs + at * 3 * H, gates, 2 * H, gates);
      kernel::sigmoid_f32(gates, 2 * H, gates);
      kernel::mul_f32(gates, h + n * H, H, kept + n * H);
    }
  }

  Cell cell_;
  OnnxPlaces places_;
  bool packs_once_;
  PackedWeight<kernel::PackedRows> packed_[6];
};

template <Cell cell> std::string onnx_obstacle(const Node& node) {
  const OnnxPlaces at = cell == Cell::kLstm ? kOnnxLstm : kOnnxOther;
  if (!argument_of(node, at.clip).is_none()) return "it clips its sums";
  if (cell == Cell::kLstm && !argument_of(node, 7).is_none()) return "it has peepholes";
  if (cell == Cell::kLstm && argument_of(node, at.flag).integer().value_or(0) != 0) return "its forget gate is tied";
  const std::string_view one = cell == Cell::kLstm ? "sigmoid,tanh,tanh" : cell == Cell::kGru ? "sigmoid,tanh" : "tanh";
  const Argument& given = argument_of(node, at.activations);
  const std::string names = given.is<std::string>() ? given.as<std::string>() : "";
  const bool is_relu = cell == Cell::kTanh && (names == "relu" || names == "relu,relu");
  if (!is_relu && names != one && names != concat(one, ",", one)) return "it has other activations than PyTorch's";
  return elementwise_obstacle(node);
}

template <Cell cell> std::unique_ptr<CompiledOp> make_onnx_recurrent(const Node&, bool packs_once) {
  return std::make_unique<OnnxRecurrentOp>(cell, packs_once);
}

template <Cell cell> std::unique_ptr<CompiledOp> make_recurrent(const Node&, bool packs_once) {
  return std::make_unique<RecurrentOp>(cell, packs_once);
}

template <Cell cell> std::unique_ptr<CompiledOp> make_cell(const Node&, bool packs_once) {
  return std::make_unique<CellOp>(cell, packs_once);
}

constexpr SimdOp kRecurrent[] = {
    {"aten.lstm.input", make_recurrent<Cell::kLstm>, elementwise_obstacle, 2},
    {"aten.gru.input", make_recurrent<Cell::kGru>, elementwise_obstacle, 2},
    {"aten.rnn_tanh.input", make_recurrent<Cell::kTanh>, elementwise_obstacle, 2},
    {"aten.rnn_relu.input", make_recurrent<Cell::kRelu>, elementwise_obstacle, 2},
    {"aten.lstm_cell.default", make_cell<Cell::kLstm>, elementwise_obstacle, 2, 3},
    {"aten.gru_cell.default", make_cell<Cell::kGru>, elementwise_obstacle, 2, 3},
    {"aten.rnn_tanh_cell.default", make_cell<Cell::kTanh>, elementwise_obstacle, 2, 3},
    {"aten.rnn_relu_cell.default", make_cell<Cell::kRelu>, elementwise_obstacle, 2, 3},
};
constexpr SimdOp kOnnxRecurrent[] = {
    {"onnx.lstm.default", make_onnx_recurrent<Cell::kLstm>, onnx_obstacle<Cell::kLstm>, 1, 2},
    {"onnx.gru.default", make_onnx_recurrent<Cell::kGru>, onnx_obstacle<Cell::kGru>, 1, 2},
    {"onnx.rnn.default", make_onnx_recurrent<Cell::kTanh>, onnx_obstacle<Cell::kTanh>, 1, 2},
};

}  // namespace

std::span<const SimdOp> recurrent_simd_ops() { return kRecurrent; }
std::span<const SimdOp> onnx_recurrent_simd_ops() { return kOnnxRecurrent; }

}  // namespace qdq
