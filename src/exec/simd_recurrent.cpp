// LSTM, GRU and simple recurrent layers on the portable loops: the inputs of all steps are multiplied at once, the
// states step by step, and the gates are whole vectors.
#include <algorithm>

#include "exec/simd.h"
#include "exec/simd_obstacles.h"
#include "kernel/gemm.h"
#include "kernel/math.h"
#include "kernel/pointwise.h"

namespace qdq {
namespace {

// (input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first) as op/recurrent.cpp reads
// them.
class RecurrentOp : public CompiledOp {
 public:
  enum class Cell { kLstm, kGru, kTanh, kRelu };
  RecurrentOp(Cell cell, bool packs_once) : cell_(cell), packs_once_(packs_once) {}

  Value run(const Call<Tensor>& call) override {
    const Tensor& given = call.tensor(0);
    const std::vector<Tensor> params = call.tensors(2);
    std::vector<Tensor> states = cell_ == Cell::kLstm ? call.tensors(1) : std::vector<Tensor>{call.tensor(1)};
    const bool biases = call.boolean(3), batch_first = call.boolean(8);
    const int64_t layers = call.integer(4), directions = call.boolean(7) ? 2 : 1;
    const size_t each = biases ? 4 : 2;
    if (!fits(given, states, params, biases, layers, directions, batch_first) || call.boolean(6))
      return run_reference(call, "an operand is empty, not float32 or does not fit the others, or it is in training");
    packed_.resize(params.size());
    // [time, batch, features]
    Tensor x = (batch_first ? given.transpose(0, 1) : given).contiguous();
    for (Tensor& state : states) state = state.clone();
    const int64_t T = x.size(0), N = x.size(1), H = states[0].size(2);
    for (int64_t layer = 0; layer < layers; ++layer) {
      const Tensor out = uninitialized({T, N, H * directions}, DType::kF32);
      for (int64_t direction = 0; direction < directions; ++direction) {
        const int64_t index = layer * directions + direction;
        float* c = cell_ == Cell::kLstm ? states[1].data<float>() + index * N * H : nullptr;
        run_direction(x, params, static_cast<size_t>(index) * each, biases, direction == 1,
                      states[0].data<float>() + index * N * H, c, H, out, direction * H);
      }
      x = out;
    }
    Value::List results{batch_first ? x.transpose(0, 1).contiguous() : x};
    for (const Tensor& state : states) results.push_back(state);
    return results;
  }

 private:
  int64_t gates() const { return cell_ == Cell::kLstm ? 4 : cell_ == Cell::kGru ? 3 : 1; }

  bool fits(const Tensor& x, const std::vector<Tensor>& states, const std::vector<Tensor>& params, bool biases,
            int64_t layers, int64_t directions, bool batch_first) const {
    const size_t each = biases ? 4 : 2, count = cell_ == Cell::kLstm ? 2 : 1;
    if (!is_f32(x) || x.dim() != 3 || x.numel() == 0 || layers < 1 || layers > static_cast<int64_t>(params.size()) ||
        params.size() != static_cast<size_t>(layers * directions) * each || states.size() != count)
      return false;
    const int64_t N = x.size(batch_first ? 0 : 1), H = states[0].dim() == 3 ? states[0].size(2) : 0;
    for (const Tensor& state : states)
      if (!is_f32(state) || state.sizes() != Shape{layers * directions, N, H} || H == 0) return false;
    for (size_t i = 0; i < params.size(); ++i) {
      const int64_t in = i / each < static_cast<size_t>(directions) ? x.size(2) : H * directions;
      const Shape wanted = i % each == 0   ? Shape{gates() * H, in}
                           : i % each == 1 ? Shape{gates() * H, H}
                                           : Shape{gates() * H};
      if (!is_f32(params[i]) || params[i].sizes() != wanted) return false;
    }
    return true;
  }

  kernel::PackedRows packed(const std::vector<Tensor>& params, size_t i) {
    return packed_[i].get(params[i], packs_once_, [](const Tensor& w) {
      return kernel::pack_rows({w.data<float>(), w.size(1), 1}, w.size(0), w.size(1));
    });
  }

  // One layer in one direction over x [T, N, in]; h and c [N, H] are its states, `out` [T, N, .] gets h at `column`.
  void run_direction(const Tensor& x, const std::vector<Tensor>& params, size_t first, bool biases, bool backward,
                     float* h, float* c, int64_t H, const Tensor& out, int64_t column) {
    const int64_t T = x.size(0), N = x.size(1), width = gates() * H, stride = out.size(2);
    const kernel::PackedRows of_input = packed(params, first), of_state = packed(params, first + 1);
    const Tensor input_bias = biases ? params[first + 2].contiguous() : Tensor(),
                 state_bias = biases ? params[first + 3].contiguous() : Tensor();
    const Tensor inputs = uninitialized({T, N, width}, DType::kF32), sums = uninitialized({N, width}, DType::kF32);
    kernel::linear_f32(x.data<float>(), T * N, of_input, biases ? input_bias.data<float>() : nullptr,
                       inputs.data<float>());
    std::vector<float> scratch(static_cast<size_t>(H));
    for (int64_t turn = 0; turn < T; ++turn) {
      const int64_t time = backward ? T - 1 - turn : turn;
      kernel::linear_f32(h, N, of_state, biases ? state_bias.data<float>() : nullptr, sums.data<float>());
      for (int64_t n = 0; n < N; ++n) {
        float* state = h + n * H;
        step(inputs.data<float>() + (time * N + n) * width, sums.data<float>() + n * width, H, state,
             c == nullptr ? nullptr : c + n * H, scratch.data());
        std::copy_n(state, H, out.data<float>() + (time * N + n) * stride + column);
      }
    }
  }

  // One step of one sample: updates h and c by the projections of the input and of h, which it writes over.
  void step(const float* input, float* sums, int64_t H, float* h, float* c, float* scratch) const {
    switch (cell_) {
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
        kernel::tanh_f32(candidate, H, candidate);
        kernel::sub_f32(h, candidate, H, scratch);
        kernel::mul_f32(scratch, update, H, scratch);
        kernel::add_f32(scratch, candidate, H, h);
        break;
      }
      case Cell::kTanh:
      case Cell::kRelu:
        kernel::add_f32(input, sums, H, h);
        (cell_ == Cell::kTanh ? kernel::tanh_f32 : kernel::relu_f32)(h, H, h);
        break;
    }
  }

  Cell cell_;
  bool packs_once_;
  std::vector<PackedWeight<kernel::PackedRows>> packed_;
};

template <RecurrentOp::Cell cell> std::unique_ptr<CompiledOp> make_recurrent(const Node&, bool packs_once) {
  return std::make_unique<RecurrentOp>(cell, packs_once);
}

constexpr SimdOp kRecurrent[] = {
    {"aten.lstm.input", make_recurrent<RecurrentOp::Cell::kLstm>, elementwise_obstacle, 2},
    {"aten.gru.input", make_recurrent<RecurrentOp::Cell::kGru>, elementwise_obstacle, 2},
    {"aten.rnn_tanh.input", make_recurrent<RecurrentOp::Cell::kTanh>, elementwise_obstacle, 2},
    {"aten.rnn_relu.input", make_recurrent<RecurrentOp::Cell::kRelu>, elementwise_obstacle, 2},
};

}  // namespace

std::span<const SimdOp> recurrent_simd_ops() { return kRecurrent; }

}  // namespace qdq
