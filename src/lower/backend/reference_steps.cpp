// The steps of a plan as plain loops over lower/plan.h, written for the reader: the specification of the other
// backends.
#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <vector>

#include "kernel/math.h"
#include "kernel/observe.h"
#include "lower/step_backend.h"

namespace qdq {
namespace {

// The elements of a buffer as reals without their scale.
class Operand {
 public:
  Operand(const PlanBuffer& buffer, const std::byte* bytes)
      : bytes_(bytes), dtype_(buffer.dtype), zero_point_(buffer.qparams.zero_point) {}
  float real(int64_t i) const {
    if (dtype_ == DType::kU8) return static_cast<float>(integer(i));
    return dtype_ == DType::kBF16 ? static_cast<float>(reinterpret_cast<const BF16*>(bytes_)[i])
                                  : reinterpret_cast<const float*>(bytes_)[i];
  }
  int32_t integer(int64_t i) const {
    return static_cast<int32_t>(reinterpret_cast<const uint8_t*>(bytes_)[i]) - zero_point_;
  }

 private:
  const std::byte* bytes_;
  DType dtype_;
  int32_t zero_point_;
};

// Every element rounded to bf16.
Tensor rounded_to_bf16(const Tensor& values) { return values.to(DType::kBF16).to(DType::kF32).contiguous(); }

// A plan of one step: inputs 0, 1, ... and the output behind them.
class ReferenceStep : public CompiledStep {
 public:
  ReferenceStep(const Plan& plan, const PlanStep& step) {
    plan_.steps.push_back(step);
    for (size_t i = 0; i < step.inputs.size(); ++i) {
      plan_.buffers.push_back(plan.buffers[step.inputs[i]]);
      plan_.steps[0].inputs[i] = i;
    }
    plan_.buffers.push_back(plan.buffers[step.output]);
    plan_.steps[0].output = step.inputs.size();
    if (has_float_weight(step) && in(0).dtype == DType::kBF16)
      plan_.steps[0].weights()->values = rounded_to_bf16(step.weights()->values);
    const auto is_bf16 = [&](const PlanBuffer& buffer) { return buffer.dtype == DType::kBF16; };
    rounds_product_ = is_bf16(out()) || (has_float_weight(step) && is_bf16(in(0)));
    rounds_result_ = is_bf16(out()) || (rounds_product_ && (step.inputs.size() == 1 || is_bf16(in(1))));
    const Kind kind = step.kind();
    const bool has_no_scale = kind == Kind::kMaxPool || kind == Kind::kMap || kind == Kind::kCopy ||
                              kind == Kind::kArrange || kind == Kind::kDynamicRound || kind == Kind::kLayerNorm ||
                              kind == Kind::kAttention || kind == Kind::kGroupLinear || kind == Kind::kRotary;
    if (!has_no_scale) to_ = requantization(plan_, this->step());
  }

  std::string description() const override { return "plain loops"; }

  void run(std::span<const std::byte* const> inputs, std::byte* output, std::byte*) override {
    inputs_ = inputs;
    output_ = output;
    switch (step().kind()) {
      case Kind::kQuantize:
      case Kind::kDequantize: return convert();
      case Kind::kConvolution: return convolution();
      case Kind::kLinear: return linear();
      case Kind::kDynamicLinear: return dynamic_linear();
      case Kind::kGroupLinear: return group_linear();
      case Kind::kDynamicConvolution: return dynamic_convolution();
      case Kind::kDynamicRound: return dynamic_round();
      case Kind::kMaxPool: return max_pool();
      case Kind::kAveragePool: return average_pool();
      case Kind::kAdd:
      case Kind::kMul: return binary();
      case Kind::kPrelu: return prelu();
      case Kind::kConcat: return concat();
      case Kind::kMap: return map();
      case Kind::kCopy: return copy();
      case Kind::kArrange: return arrange();
      case Kind::kLayerNorm: return layer_norm();
      case Kind::kAttention: return attention();
      case Kind::kRotary: return rotary();
    }
  }

 private:
  using Kind = PlanStep::Kind;
  const PlanStep& step() const { return plan_.steps[0]; }
  const PlanBuffer& in(size_t i) const { return plan_.buffers[i]; }
  const PlanBuffer& out() const { return plan_.buffers.back(); }
  Operand operand(size_t i) const { return {in(i), inputs_[i]}; }

  static float rounded(float x, bool to_bf16) { return to_bf16 ? static_cast<float>(BF16(x)) : x; }

  void finish(float t, const Requantization& to, int64_t at) {
    float y;
    t = rounded(t, rounds_result_);
    kernel::activate_f32(to.activation, &t, 1, &y);
    y = rounded(y, rounds_result_);
    if (out().dtype == DType::kU8) reinterpret_cast<uint8_t*>(output_)[at] = quantize_result(y, to);
    else write(y, at);
  }
  void write(float y, int64_t at) {
    if (out().dtype == DType::kBF16) reinterpret_cast<BF16*>(output_)[at] = BF16(y);
    else reinterpret_cast<float*>(output_)[at] = y;
  }
  void finish_sum(float acc, int64_t channel, int64_t at) {
    const size_t c = static_cast<size_t>(channel);
    float t = acc * to_.multiplier[c];
    t = rounded(t + to_.offset[c], rounds_product_);
    if (inputs_.size() > 1) t = t + operand(1).real(at) * to_.residual_multiplier;
    finish(t, to_, at);
  }

  static void add_product(int32_t& acc, const Operand& x, int64_t at, int8_t weight) { acc += x.integer(at) * weight; }
  static void add_product(double& acc, const Operand& x, int64_t at, float weight) {
    acc += static_cast<double>(x.real(at)) * static_cast<double>(weight);
  }

  void convert() {
    const Operand x = operand(0);
    const Shape to = out().strides(), from = in(0).strides();
    for_each_index<2>(out().sizes, {to.data(), from.data()},
                      [&](const std::array<int64_t, 2>& at) { finish(x.real(at[1]) * to_.multiplier[0], to_, at[0]); });
  }

  void convolution() {
    const Operand x = operand(0);
    const Shape &xs = in(0).sizes, &ys = out().sizes;
    const Shape x_strides = in(0).strides(), y_strides = out().strides();
    const PlanStep::Convolution& conv = step().as<PlanStep::Convolution>();
    const Window2d& window = conv.window;
    const kernel::FrameWindow& frames = conv.frames;
    const Tensor& weights = conv.weights.values;
    const int64_t depth = weights.size(1), per_group = ys[1] / conv.groups;
    const auto sum = [&](const auto* all_weights, auto acc, int64_t n, int64_t oc, int64_t oh, int64_t ow) {
      const auto* weight = all_weights + oc * depth * frames.kernel * window.kernel_h * window.kernel_w;
      for (int64_t c = 0; c < depth; ++c)
        for (int64_t kd = 0; kd < frames.kernel; ++kd)
          for (int64_t kh = 0; kh < window.kernel_h; ++kh)
            for (int64_t kw = 0; kw < window.kernel_w; ++kw) {
              const int64_t d = n % frames.out * frames.stride - frames.pad + kd * frames.dilation;
              const int64_t h = oh * window.stride_h - window.pad_h + kh * window.dilation_h;
              const int64_t w = ow * window.stride_w - window.pad_w + kw * window.dilation_w;
              const auto tap = *weight++;
              if (d < 0 || d >= frames.in || h < 0 || h >= xs[2] || w < 0 || w >= xs[3]) continue;
              const int64_t frame = n / frames.out * frames.in + d, channel = oc / per_group * depth + c;
              add_product(acc, x, frame * x_strides[0] + channel * x_strides[1] + h * x_strides[2] + w * x_strides[3],
                          tap);
            }
      return static_cast<float>(acc);
    };
    const auto sum_at = [&](int64_t n, int64_t oc, int64_t oh, int64_t ow) {
      if (conv.weights.is_float()) return sum(weights.data<float>(), 0.0, n, oc, oh, ow);
      return sum(weights.data<int8_t>(), int32_t{0}, n, oc, oh, ow);
    };
    for (int64_t n = 0; n < ys[0]; ++n)
      for (int64_t oc = 0; oc < ys[1]; ++oc)
        for (int64_t oh = 0; oh < ys[2]; ++oh)
          for (int64_t ow = 0; ow < ys[3]; ++ow)
            finish_sum(sum_at(n, oc, oh, ow), oc,
                       n * y_strides[0] + oc * y_strides[1] + oh * y_strides[2] + ow * y_strides[3]);
  }

  void linear() {
    const Operand x = operand(0);
    const ProductWeights& weights = *step().weights();
    const int64_t channels = weights.channels(), depth = weights.depth(),
                  rows = numel_of(out().sizes) / std::max<int64_t>(channels, 1);
    const auto sum = [&](const auto* weight, auto acc, int64_t row) {
      for (int64_t k = 0; k < depth; ++k) add_product(acc, x, row * depth + k, weight[k]);
      return static_cast<float>(acc);
    };
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t oc = 0; oc < channels; ++oc)
        finish_sum(weights.is_float() ? sum(weights.values.data<float>() + oc * depth, 0.0, row)
                                      : sum(weights.values.data<int8_t>() + oc * depth, int32_t{0}, row),
                   oc, row * channels + oc);
  }

  void dynamic_linear() {
    const float* x = reinterpret_cast<const float*>(inputs_[0]);
    const PlanStep::DynamicLinear& linear = step().as<PlanStep::DynamicLinear>();
    const int64_t channels = linear.weights.channels(), depth = linear.weights.depth(), count = numel_of(in(0).sizes);
    const kernel::MinMax range = kernel::min_max_f32(x, count);
    const PlanQParams qparams = dynamic_qparams(linear.range, range.min, range.max);
    const Requantization rounding = rounding_to(qparams);
    std::vector<int32_t> q(static_cast<size_t>(count));
    for (size_t i = 0; i < q.size(); ++i) q[i] = quantize_result(x[i], rounding) - qparams.zero_point;
    for (int64_t row = 0; row < count / depth; ++row)
      for (int64_t oc = 0; oc < channels; ++oc) {
        int32_t acc = 0;
        for (int64_t k = 0; k < depth; ++k)
          acc += q[static_cast<size_t>(row * depth + k)] * linear.weights.values.data<int8_t>()[oc * depth + k];
        const size_t c = static_cast<size_t>(oc);
        const float multiplier = static_cast<float>(qparams.scale * static_cast<double>(to_.multiplier[c]));
        float t = static_cast<float>(acc) * multiplier;
        t = t + to_.offset[c];
        if (inputs_.size() > 1) t = t + operand(1).real(row * channels + oc) * to_.residual_multiplier;
        finish(t, to_, row * channels + oc);
      }
  }

  // The convolution of the image that this run's range gives.
  void dynamic_convolution() {
    const float* x = reinterpret_cast<const float*>(inputs_[0]);
    const PlanStep::DynamicConvolution& dynamic = step().as<PlanStep::DynamicConvolution>();
    const auto count = static_cast<size_t>(numel_of(in(0).sizes));
    const kernel::MinMax range = kernel::min_max_f32(x, static_cast<int64_t>(count));
    Plan plan = plan_;
    plan.buffers[0].dtype = DType::kU8;
    plan.buffers[0].qparams = dynamic_qparams(dynamic.range, range.min, range.max);
    const Requantization rounding = rounding_to(plan.buffers[0].qparams);
    std::vector<uint8_t> image(count);
    std::transform(x, x + count, image.begin(), [&](float value) { return quantize_result(value, rounding); });
    plan.steps[0].form = dynamic.convolution;
    ReferenceStep integers(plan, plan.steps[0]);
    integers.to_.activation = to_.activation;
    std::vector<const std::byte*> inputs(inputs_.begin(), inputs_.end());
    inputs[0] = reinterpret_cast<const std::byte*>(image.data());
    integers.run(inputs, output_, nullptr);
  }

  // s, acc and out of kernel/gemm_groups.h.
  void group_linear() {
    const PlanStep::GroupLinear& linear = step().as<PlanStep::GroupLinear>();
    const kernel::GroupWeights& weights = linear.weights;
    const int64_t depth = weights.depth, channels = weights.channels, rows = numel_of(in(0).sizes) / depth;
    Requantization to;
    to.activation = step().activation;
    std::vector<int32_t> integers(static_cast<size_t>(channels * depth));
    kernel::unpack_group_weights(weights, integers.data());
    const auto* x = reinterpret_cast<const float*>(inputs_[0]);
    std::vector<int8_t> a(static_cast<size_t>(rows * depth));
    std::vector<kernel::TokenQParams> tokens(static_cast<size_t>(rows));
    if (linear.per_token) kernel::quantize_tokens_s8(x, rows, depth, a.data(), tokens.data());
    for (int64_t i = 0; i < rows * channels; ++i) {
      const int64_t row = i / channels, channel = i % channels;
      const int32_t* w = integers.data() + channel * depth;
      float acc = 0, correction = 0;
      for (int64_t g = 0; g < weights.groups(); ++g) {
        const float scale = kernel::group_scale(weights, channel, g);
        float sum = 0;
        int32_t products = 0, of_weights = 0;
        for (int64_t k = g * weights.group; k < (g + 1) * weights.group; ++k) {
          sum = sum + x[row * depth + k] * static_cast<float>(w[k]);
          products += a[static_cast<size_t>(row * depth + k)] * w[k];
          of_weights += w[k];
        }
        acc = acc + (linear.per_token ? static_cast<float>(products) : sum) * scale;
        correction = correction + static_cast<float>(of_weights) * scale;
      }
      if (linear.per_token) {
        const kernel::TokenQParams& token = tokens[static_cast<size_t>(row)];
        acc = (acc - static_cast<float>(token.zero_point) * correction) * token.scale;
      }
      if (linear.bias.defined()) acc = acc + linear.bias.data<float>()[channel];
      finish(acc, to, i);
    }
  }

  void dynamic_round() {
    const float* x = reinterpret_cast<const float*>(inputs_[0]);
    const int64_t count = numel_of(in(0).sizes);
    const kernel::MinMax range = kernel::min_max_f32(x, count);
    const PlanQParams qparams = dynamic_qparams(*step().range(), range.min, range.max);
    const Requantization rounding = rounding_to(qparams);
    for (int64_t i = 0; i < count; ++i)
      write(
          static_cast<float>(quantize_result(x[i], rounding) - qparams.zero_point) * static_cast<float>(qparams.scale),
          i);
  }

  void max_pool() {
    const Operand x = operand(0);
    if (in(0).dtype == DType::kU8)
      max_pool([&](int64_t at) { return reinterpret_cast<const uint8_t*>(inputs_[0])[at]; }, uint8_t{0});
    else max_pool([&](int64_t at) { return x.real(at); }, -std::numeric_limits<float>::infinity());
  }
  template <class Read, class T> void max_pool(Read x, T least) {
    const Shape &xs = in(0).sizes, &ys = out().sizes;
    const Shape x_strides = in(0).strides(), y_strides = out().strides();
    const Window2d& window = step().as<PlanStep::MaxPool>().window;
    for (int64_t n = 0; n < ys[0]; ++n)
      for (int64_t oh = 0; oh < ys[2]; ++oh)
        for (int64_t ow = 0; ow < ys[3]; ++ow)
          for (int64_t c = 0; c < ys[1]; ++c) {
            T largest = least;
            for (int64_t kh = 0; kh < window.kernel_h; ++kh)
              for (int64_t kw = 0; kw < window.kernel_w; ++kw) {
                const int64_t h = oh * window.stride_h - window.pad_h + kh * window.dilation_h;
                const int64_t w = ow * window.stride_w - window.pad_w + kw * window.dilation_w;
                if (h < 0 || h >= xs[2] || w < 0 || w >= xs[3]) continue;
                largest =
                    std::max(largest, x(n * x_strides[0] + c * x_strides[1] + h * x_strides[2] + w * x_strides[3]));
              }
            const int64_t at = n * y_strides[0] + c * y_strides[1] + oh * y_strides[2] + ow * y_strides[3];
            if constexpr (std::is_same_v<T, uint8_t>) reinterpret_cast<uint8_t*>(output_)[at] = largest;
            else write(largest, at);
          }
  }

  void average_pool() {
    const Operand x = operand(0);
    const PlanStep::AveragePool& pool = step().as<PlanStep::AveragePool>();
    const bool rounds = pool.rounding.has_value(), is_u8 = in(0).dtype == DType::kU8;
    const Requantization rounding = rounds ? rounding_to(*pool.rounding) : Requantization();
    const Shape& ys = out().sizes;
    const Shape x_strides = in(0).strides(), y_strides = out().strides();
    for (int64_t oh = 0; oh < ys[2]; ++oh)
      for (int64_t ow = 0; ow < ys[3]; ++ow) {
        const AverageWindow window = average_window(pool, in(0).sizes, oh, ow);
        const Requantization to = requantization(plan_, step(), window.divisor);
        for (int64_t n = 0; n < ys[0]; ++n)
          for (int64_t c = 0; c < ys[1]; ++c) {
            int32_t acc = 0;
            float sum = 0;
            for (int64_t h = window.row_begin; h < window.row_end; ++h)
              for (int64_t w = window.column_begin; w < window.column_end; ++w) {
                const int64_t at = n * x_strides[0] + c * x_strides[1] + h * x_strides[2] + w * x_strides[3];
                if (is_u8) acc += x.integer(at);
                else if (rounds) acc += quantize_result(x.real(at), rounding) - rounding.zero_point;
                else sum += x.real(at);
              }
            const float t = (is_u8 || rounds ? static_cast<float>(acc) : sum) * to.multiplier[0];
            finish(t, to, n * y_strides[0] + c * y_strides[1] + oh * y_strides[2] + ow * y_strides[3]);
          }
      }
  }

  // Strides of an input as the output's axes see it: 0 along those that are broadcast.
  Shape broadcast_strides(size_t i) const {
    const Shape own = in(i).strides();
    const size_t rank = out().sizes.size(), missing = rank - own.size();
    Shape strides(rank, 0);
    for (size_t axis = missing; axis < rank; ++axis)
      if (in(i).sizes[axis - missing] != 1) strides[axis] = own[axis - missing];
    return strides;
  }

  void binary() {
    const Operand a = operand(0), b = operand(1);
    const Shape to = out().strides(), a_strides = broadcast_strides(0), b_strides = broadcast_strides(1);
    const bool is_add = step().kind() == Kind::kAdd;
    for_each_index<3>(out().sizes, {to.data(), a_strides.data(), b_strides.data()},
                      [&](const std::array<int64_t, 3>& at) {
                        const float x = a.real(at[1]), y = b.real(at[2]);
                        if (is_add) {
                          const float left = x * to_.multiplier[0], right = y * to_.multiplier[1];
                          finish(left + right, to_, at[0]);
                        } else {
                          const float left = x * to_.multiplier[0];
                          finish(left * y, to_, at[0]);
                        }
                      });
  }

  void prelu() {
    const Operand x = operand(0);
    const Shape to = out().strides(), from = in(0).strides();
    const float* slopes = step().as<PlanStep::Prelu>().slopes.data<float>();
    for_each_index<2>(out().sizes, {to.data(), from.data()}, [&](const std::array<int64_t, 2>& at) {
      const float u = x.real(at[1]) * to_.multiplier[0];
      finish(u > 0 ? u : u * slopes[at[0] / to[1] % out().sizes[1]], to_, at[0]);
    });
  }

  void concat() {
    const Shape strides = out().strides();
    const auto axis = static_cast<size_t>(step().as<PlanStep::Concat>().axis);
    int64_t begin = 0;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const Operand x = operand(i);
      const Shape from = in(i).strides();
      const int64_t base = begin * strides[axis];
      for_each_index<2>(in(i).sizes, {strides.data(), from.data()}, [&](const std::array<int64_t, 2>& at) {
        finish(x.real(at[1]) * to_.multiplier[i], to_, base + at[0]);
      });
      begin += in(i).sizes[axis];
    }
  }

  void map() {
    const uint8_t* x = reinterpret_cast<const uint8_t*>(inputs_[0]);
    const int64_t n = numel_of(out().sizes);
    const Tensor& table = step().as<PlanStep::Map>().table;
    if (table.dtype() == DType::kU8)
      for (int64_t i = 0; i < n; ++i) reinterpret_cast<uint8_t*>(output_)[i] = table.data<uint8_t>()[x[i]];
    else
      for (int64_t i = 0; i < n; ++i) reinterpret_cast<float*>(output_)[i] = table.data<float>()[x[i]];
  }

  void copy() {
    if (inputs_[0] == output_) return;  // a reshape in place
    const Shape from = in(0).strides(), to = out().strides();
    const auto move = [&](auto* target, const auto* source) {
      std::vector<int64_t> order;  // where the elements lie, in C order of the input's shape
      order.reserve(static_cast<size_t>(numel_of(in(0).sizes)));
      for_each_index<1>(in(0).sizes, {from.data()}, [&](const std::array<int64_t, 1>& at) { order.push_back(at[0]); });
      size_t next = 0;
      for_each_index<1>(out().sizes, {to.data()},
                        [&](const std::array<int64_t, 1>& at) { target[at[0]] = source[order[next++]]; });
    };
    if (out().dtype == DType::kBF16) move(reinterpret_cast<BF16*>(output_), reinterpret_cast<const BF16*>(inputs_[0]));
    else if (out().dtype == DType::kU8)
      move(reinterpret_cast<uint8_t*>(output_), reinterpret_cast<const uint8_t*>(inputs_[0]));
    else move(reinterpret_cast<float*>(output_), reinterpret_cast<const float*>(inputs_[0]));
  }

  void arrange() {
    const Shape from = in(0).strides(), to = out().strides();
    const Operand x = operand(0);
    for_each_index<2>(out().sizes, {to.data(), from.data()}, [&](const std::array<int64_t, 2>& at) {
      if (out().dtype == DType::kU8)
        reinterpret_cast<uint8_t*>(output_)[at[0]] = reinterpret_cast<const uint8_t*>(inputs_[0])[at[1]];
      else write(x.real(at[1]), at[0]);
    });
  }

  void layer_norm() {
    const PlanStep::LayerNorm& norm = step().as<PlanStep::LayerNorm>();
    const int64_t columns = out().sizes.back(), rows = numel_of(out().sizes) / std::max<int64_t>(columns, 1);
    const auto data_of = [](const Tensor& tensor) { return tensor.defined() ? tensor.data<float>() : nullptr; };
    const Operand operand(in(0), inputs_[0]);
    std::vector<float> x(static_cast<size_t>(rows * columns)), y(x.size());
    for (size_t i = 0; i < x.size(); ++i) x[i] = operand.real(static_cast<int64_t>(i));
    if (norm.roundings.any()) {
      for (float& value : x) value *= in(0).dtype == DType::kU8 ? static_cast<float>(in(0).qparams.scale) : 1.0f;
      kernel::rounded_layer_norm_f32(x.data(), rows, columns, rounded_norm_of(norm), y.data());
      const Requantization to = rounding_to(out().qparams);
      for (size_t i = 0; i < y.size(); ++i) finish(y[i], to, static_cast<int64_t>(i));
      return;
    }
    if (norm.is_rms)
      kernel::rms_norm_f32(x.data(), rows, columns, data_of(norm.gamma), static_cast<float>(norm.epsilon), y.data());
    else
      kernel::layer_norm_f32(x.data(), rows, columns, data_of(norm.gamma), data_of(norm.beta),
                             static_cast<float>(norm.epsilon), y.data(), nullptr, nullptr);
    for (size_t i = 0; i < y.size(); ++i) write(y[i], static_cast<int64_t>(i));
  }

  void attention() {
    const Operand queries = operand(0), keys = operand(1), values = operand(2);
    const bool has_mask = step().inputs.size() > 3;
    const Operand mask = operand(has_mask ? 3 : 0);
    const Shape qs = in(0).strides(), ks = in(1).strides(), vs = in(2).strides(), ys = out().strides(),
                ms = has_mask ? broadcast_strides(in(3)) : Shape(4);
    const Shape &q = in(0).sizes, &v = in(2).sizes;
    const int64_t shared = std::max<int64_t>(q[1] / std::max<int64_t>(v[1], 1), 1);
    const bool in_rows = has_mask || shared > 1;
    std::vector<float> products(static_cast<size_t>(q[3]));
    std::vector<float> weights(static_cast<size_t>(v[2]));
    const float factor = static_cast<float>(step().as<PlanStep::Attention>().factor);
    for (int64_t n = 0; n < q[0]; ++n)
      for (int64_t h = 0; h < q[1]; ++h)
        for (int64_t l = 0; l < q[2]; ++l) {
          for (int64_t s = 0; s < v[2]; ++s) {
            for (int64_t d = 0; d < q[3]; ++d)
              products[static_cast<size_t>(d)] = queries.real(n * qs[0] + h * qs[1] + l * qs[2] + d * qs[3]) *
                                                 keys.real(n * ks[0] + h / shared * ks[1] + s * ks[2] + d * ks[3]);
            // As attend_f32 has it, where queries go over rows; else one term after the other.
            const float sum = in_rows ? kernel::sum_f32(products.data(), q[3])
                                      : std::accumulate(products.begin(), products.end(), 0.0f);
            weights[static_cast<size_t>(s)] = sum * factor;
            if (has_mask) weights[static_cast<size_t>(s)] += mask.real(n * ms[0] + h * ms[1] + l * ms[2] + s * ms[3]);
          }
          const auto is_hidden = [](float score) { return score == -std::numeric_limits<float>::infinity(); };
          if (has_mask && std::all_of(weights.begin(), weights.end(), is_hidden))
            std::fill(weights.begin(), weights.end(), 0.0f);
          else kernel::softmax_f32(weights.data(), 1, v[2], weights.data());
          if (in(2).dtype == DType::kBF16)
            for (float& weight : weights) weight = static_cast<float>(BF16(weight));
          for (int64_t e = 0; e < v[3]; ++e) {
            float sum = 0;
            for (int64_t s = 0; s < v[2]; ++s)
              sum +=
                  weights[static_cast<size_t>(s)] * values.real(n * vs[0] + h / shared * vs[1] + s * vs[2] + e * vs[3]);
            write(sum, n * ys[0] + l * ys[1] + h * ys[2] + e * ys[3]);
          }
        }
  }

  void rotary() {
    const Operand x = operand(0), cos = operand(1), sin = operand(2);
    const Shape xs = in(0).strides(), cs = broadcast_strides(in(1)), ss = broadcast_strides(in(2)),
                ys = out().strides();
    const Shape& sizes = out().sizes;
    const int64_t half = sizes[3] / 2;
    const auto place = [](const Shape& strides, int64_t n, int64_t h, int64_t l, int64_t d) {
      return n * strides[0] + h * strides[1] + l * strides[2] + d * strides[3];
    };
    for (int64_t n = 0; n < sizes[0]; ++n)
      for (int64_t h = 0; h < sizes[1]; ++h)
        for (int64_t l = 0; l < sizes[2]; ++l)
          for (int64_t d = 0; d < sizes[3]; ++d) {
            const float other = d < half ? -x.real(place(xs, n, h, l, d + half)) : x.real(place(xs, n, h, l, d - half));
            const float turned = x.real(place(xs, n, h, l, d)) * cos.real(place(cs, n, h, l, d));
            write(turned + other * sin.real(place(ss, n, h, l, d)), place(ys, n, h, l, d));
          }
  }

  // Strides of a buffer whose axes of one element stand for any number.
  static Shape broadcast_strides(const PlanBuffer& buffer) {
    Shape strides = buffer.strides();
    for (size_t axis = 0; axis < strides.size(); ++axis)
      if (buffer.sizes[axis] == 1) strides[axis] = 0;
    return strides;
  }

  Plan plan_;
  // In bf16 each operator of a fused step rounds, as autocast's graph has it: the product, and what follows it.
  bool rounds_product_ = false, rounds_result_ = false;
  Requantization to_;
  std::span<const std::byte* const> inputs_;
  std::byte* output_ = nullptr;
};

class ReferenceSteps : public StepBackend {
 public:
  std::string_view name() const override { return "reference"; }
  bool has(PlanStep::Kind) const override { return false; }  // any step, but slowly
  std::variant<std::unique_ptr<CompiledStep>, std::string> compile(const Plan& plan, const PlanStep& step) override {
    return std::make_unique<ReferenceStep>(plan, step);
  }
};

}  // namespace

std::unique_ptr<StepBackend> make_reference_steps() { return std::make_unique<ReferenceSteps>(); }

}  // namespace qdq
