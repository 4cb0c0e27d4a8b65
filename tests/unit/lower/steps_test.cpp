// Every kind of step on every backend against the plain loops: a table of problems, random data.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <ostream>
#include <random>

#include "lower/step_backend.h"

namespace qdq::steps_test {
namespace {

using Kind = PlanStep::Kind;
using Step = PlanStep;
using Act = Activation::Kind;

constexpr double kInf = std::numeric_limits<double>::infinity();
const Activation kNone{}, kRelu{Act::kClamp, 0, kInf, 0}, kRelu6{Act::kClamp, 0, 6, 0},
    kHardtanh{Act::kClamp, -1, 1, 0};

struct Value {
  Shape sizes;
  DType dtype = DType::kU8;
  PlanQParams qparams{};
};

struct Problem {
  std::string name;
  std::vector<Value> inputs;
  Value output;
  PlanStep step;
};

void PrintTo(const Problem& problem, std::ostream* out) { *out << problem.name; }

Problem conv(std::string name, Shape x, int64_t oc, int64_t kernel, int64_t stride, int64_t pad, int64_t groups,
             Activation activation, PlanQParams in, PlanQParams out, DType to = DType::kU8) {
  Problem problem{std::move(name), {{x, DType::kU8, in}}, {}, {}};
  problem.step.activation = activation;
  problem.step.form = Step::Convolution{{Tensor::empty({oc, x[1] / groups, kernel, kernel}, DType::kS8), {}, {}},
                                        groups,
                                        {kernel, kernel, stride, stride, pad, pad, 1, 1}};
  problem.output = {
      {x[0], oc, (x[2] + 2 * pad - kernel) / stride + 1, (x[3] + 2 * pad - kernel) / stride + 1}, to, out};
  return problem;
}
// Of volumes whose frames are x, in so many as frames.in says.
Problem volumes(Problem problem, kernel::FrameWindow frames) {
  problem.name += "_volumes";
  frames.out = (frames.in + 2 * frames.pad - frames.dilation * (frames.kernel - 1) - 1) / frames.stride + 1;
  Step::Convolution& conv = problem.step.as<Step::Convolution>();
  conv.frames = frames;
  Shape sizes = conv.weights.values.sizes();
  sizes.insert(sizes.begin() + 2, frames.kernel);
  conv.weights.values = Tensor::empty(sizes, DType::kS8);
  problem.output.sizes[0] = problem.output.sizes[0] / frames.in * frames.out;
  return problem;
}
Problem linear(std::string name, Shape x, int64_t oc, Activation activation, PlanQParams in, PlanQParams out,
               DType to = DType::kU8) {
  Problem problem{std::move(name), {{x, DType::kU8, in}}, {}, {}};
  problem.step.activation = activation;
  problem.step.form = Step::Linear{{Tensor::empty({oc, x.back()}, DType::kS8), {}, {}}};
  problem.output = {x, to, out};
  problem.output.sizes.back() = oc;
  return problem;
}
Problem dynamic_linear(std::string name, Shape x, int64_t oc, Activation activation, int32_t qmin, int32_t qmax) {
  Problem problem = linear(std::move(name), std::move(x), oc, activation, {}, {}, DType::kF32);
  problem.inputs[0].dtype = DType::kF32;
  const ProductWeights weights = *problem.step.weights();
  problem.step.form = Step::DynamicLinear{weights, {qmin, qmax, 0.000244140625}};
  return problem;
}
Problem group_linear(std::string name, Shape x, int64_t oc, int64_t group, bool per_token, Activation activation) {
  const int64_t depth = x.back();
  std::minstd_rand random(5);
  std::vector<int8_t> integers(static_cast<size_t>(oc * depth));
  for (int8_t& q : integers) q = static_cast<int8_t>(static_cast<int>(random() >> 8 & 15) - 8);
  std::vector<float> scales(static_cast<size_t>(oc * depth / group));
  for (float& scale : scales) scale = static_cast<float>(random() >> 8 & 255) / 4096;
  Problem problem{std::move(name), {{x, DType::kF32}}, {x, DType::kF32}, {}};
  problem.output.sizes.back() = oc;
  problem.step.activation = activation;
  problem.step.form =
      Step::GroupLinear{kernel::pack_group_weights(integers.data(), scales.data(), nullptr, oc, depth, group),
                        Tensor::full({oc}, DType::kF32, 0.75), per_token};
  return problem;
}
Problem dynamic_conv(std::string name, Shape x, int64_t oc, int64_t kernel, int64_t stride, int64_t pad, int64_t groups,
                     Activation activation, int32_t qmin, int32_t qmax) {
  Problem problem =
      conv(std::move(name), std::move(x), oc, kernel, stride, pad, groups, activation, {}, {}, DType::kF32);
  problem.inputs[0].dtype = DType::kF32;
  const Step::Convolution convolution = problem.step.as<Step::Convolution>();
  problem.step.form = Step::DynamicConvolution{convolution, {qmin, qmax, 0.000244140625}};
  return problem;
}
// All operands in f32.
Problem in_floats(Problem problem) {
  problem.name += "_floats";
  for (Value& input : problem.inputs) input.dtype = DType::kF32;
  problem.output.dtype = DType::kF32;
  if (ProductWeights* weights = problem.step.weights())
    weights->values = Tensor::empty(weights->values.sizes(), DType::kF32);
  return problem;
}
// All operands that are f32 in bf16.
Problem in_bf16(Problem problem) {
  problem.name += "_bf16";
  for (Value& input : problem.inputs)
    if (input.dtype == DType::kF32) input.dtype = DType::kBF16;
  if (problem.output.dtype == DType::kF32) problem.output.dtype = DType::kBF16;
  return problem;
}
Problem with_residual(Problem problem, PlanQParams qparams, DType dtype = DType::kU8) {
  problem.name += "_residual";
  problem.inputs.push_back({problem.output.sizes, dtype, qparams});
  problem.step.in_place_input = 1;
  return problem;
}
Problem general(std::string name, Step::Form form, std::vector<Value> inputs, Value output,
                Activation activation = kNone) {
  Problem problem{std::move(name), std::move(inputs), std::move(output), {}};
  problem.step.form = std::move(form);
  problem.step.activation = activation;
  return problem;
}
Tensor slopes_of(int64_t channels) {
  const Tensor slopes = Tensor::empty({channels}, DType::kF32);
  for (int64_t c = 0; c < channels; ++c) slopes.data<float>()[c] = 0.5f - 0.0625f * static_cast<float>(c);
  return slopes;
}
Problem max_pool(std::string name, Value x, Window2d window, Shape out, Value like) {
  like.sizes = std::move(out);
  return general(std::move(name), Step::MaxPool{window}, {std::move(x)}, std::move(like));
}
Problem average_pool(std::string name, Value x, Window2d window, Shape out, Value like, bool count_include_pad = true,
                     int64_t divisor = 0) {
  like.sizes = std::move(out);
  return general(std::move(name), Step::AveragePool{window, count_include_pad, divisor, {}}, {std::move(x)},
                 std::move(like));
}

Problem rounded(Problem problem, PlanQParams qparams) {
  problem.step.as<Step::AveragePool>().rounding = qparams;
  return problem;
}

std::vector<Problem> problems() {
  const PlanQParams zero{0.02, 0}, middle{0.03, 120}, wide{0.05, 133}, narrow{0.04, 3, 0, 127},
      shifted{0.03, 128, 1, 255};
  std::vector<Problem> out{
      conv("conv_first", {1, 3, 17, 19}, 16, 7, 2, 3, 1, kRelu, middle, zero),
      conv("conv_1x1", {1, 64, 7, 7}, 32, 1, 1, 0, 1, kNone, zero, wide),
      conv("conv_1x1_zero_point", {2, 24, 5, 5}, 40, 1, 1, 0, 1, kRelu6, wide, zero),
      conv("conv_1x1_stride", {1, 32, 8, 8}, 48, 1, 2, 0, 1, kNone, zero, middle),
      conv("conv_3x3", {2, 16, 9, 8}, 24, 3, 1, 1, 1, kRelu, zero, zero),
      conv("conv_3x3_zero_point", {1, 8, 9, 8}, 24, 3, 2, 1, 1, kNone, shifted, shifted),
      conv("conv_odd_channels", {1, 5, 6, 7}, 11, 3, 1, 1, 1, kHardtanh, middle, wide),
      conv("conv_narrow", {1, 16, 6, 6}, 16, 3, 1, 1, 1, kRelu, narrow, narrow),
      conv("conv_groups", {1, 32, 6, 6}, 64, 3, 1, 1, 4, kRelu, zero, zero),
      conv("conv_depthwise", {1, 32, 12, 12}, 32, 3, 1, 1, 32, kRelu6, zero, zero),
      conv("conv_depthwise_stride", {2, 20, 11, 11}, 20, 5, 2, 2, 20, kRelu, zero, zero),
      conv("conv_depthwise_zero_point", {1, 16, 8, 8}, 16, 3, 1, 1, 16, kNone, middle, wide),
      conv("conv_hard_swish", {1, 16, 8, 8}, 24, 1, 1, 0, 1, {Act::kHardSwish, 0, 0, 0}, zero, {0.03, 12}),
      conv("conv_silu", {1, 16, 8, 8}, 24, 1, 1, 0, 1, {Act::kSilu, 0, 0, 0}, middle, {0.03, 9}),
      conv("conv_silu_in_bands", {1, 4, 112, 112}, 24, 1, 1, 0, 1, {Act::kSilu, 0, 0, 0}, middle, {0.03, 9}),
      conv("conv_gelu", {1, 16, 8, 8}, 24, 1, 1, 0, 1, {Act::kGelu, 0, 0, 0}, middle, {0.03, 7}),
      conv("conv_leaky", {1, 16, 8, 8}, 24, 3, 1, 1, 1, {Act::kLeakyRelu, 0, 0, 0.1}, zero, {0.03, 30}),
      conv("conv_f32", {1, 16, 8, 8}, 24, 3, 1, 1, 1, kRelu, zero, {}, DType::kF32),
      conv("conv_f32_silu", {1, 24, 8, 8}, 24, 3, 1, 1, 24, {Act::kSilu, 0, 0, 0}, middle, {}, DType::kF32),
      conv("conv_f32_hard_sigmoid", {1, 24, 1, 1}, 24, 1, 1, 0, 1, {Act::kHardSigmoid, 0, 0, 0}, zero, {}, DType::kF32),
      volumes(conv("conv_3x3x3", {10, 16, 9, 8}, 24, 3, 1, 1, 1, kRelu, zero, zero), {5, 0, 3, 1, 1, 1}),
      volumes(conv("conv_narrow", {10, 16, 9, 8}, 24, 3, 1, 1, 1, kRelu, narrow, narrow), {5, 0, 3, 1, 1, 1}),
      volumes(conv("conv_narrow_stride", {7, 24, 7, 9}, 40, 3, 2, 1, 1, kNone, narrow, middle), {7, 0, 3, 2, 0, 2}),
      volumes(conv("conv_first", {6, 3, 17, 19}, 16, 7, 2, 3, 1, kRelu, middle, zero), {6, 0, 3, 1, 1, 1}),
      volumes(conv("conv_stride", {14, 5, 6, 7}, 11, 3, 2, 1, 1, kHardtanh, middle, wide), {7, 0, 2, 2, 1, 1}),
      volumes(conv("conv_dilated", {9, 8, 5, 6}, 12, 2, 1, 0, 1, kNone, shifted, shifted), {9, 0, 3, 1, 2, 2}),
      volumes(conv("conv_temporal", {8, 64, 5, 5}, 32, 1, 1, 0, 1, kRelu, wide, zero), {4, 0, 3, 1, 1, 1}),
      volumes(conv("conv_1x1x1_stride", {8, 32, 8, 8}, 48, 1, 2, 0, 1, kNone, zero, middle), {4, 0, 1, 2, 0, 1}),
      volumes(conv("conv_1x1x1_padded", {4, 32, 5, 5}, 16, 1, 1, 0, 1, kNone, wide, middle), {4, 0, 1, 1, 1, 1}),
      volumes(conv("conv_flat", {6, 32, 6, 5}, 16, 3, 1, 1, 1, kNone, wide, middle), {3, 0, 1, 2, 0, 1}),
      volumes(conv("conv_groups", {6, 32, 6, 6}, 64, 3, 1, 1, 4, kRelu, middle, zero), {3, 0, 3, 1, 1, 1}),
      volumes(conv("conv_groups_as_frames", {6, 24, 6, 6}, 24, 3, 1, 1, 3, kRelu, middle, zero), {3, 0, 3, 1, 1, 1}),
      volumes(conv("conv_depthwise", {10, 20, 7, 7}, 20, 3, 1, 1, 20, kRelu6, middle, zero), {5, 0, 3, 2, 1, 1}),
      volumes(conv("conv_depthwise_flat", {10, 20, 7, 7}, 20, 3, 1, 1, 20, kRelu6, middle, zero), {5, 0, 1, 2, 0, 1}),
      volumes(conv("conv_gelu", {4, 16, 8, 8}, 24, 1, 1, 0, 1, {Act::kGelu, 0, 0, 0}, narrow, {0.03, 7}),
              {4, 0, 3, 1, 1, 1}),
      with_residual(volumes(conv("conv_relu", {6, 16, 5, 5}, 32, 3, 1, 1, 1, kRelu, zero, zero), {3, 0, 3, 1, 1, 1}),
                    middle),
      with_residual(
          volumes(conv("conv_narrow_relu", {6, 16, 5, 5}, 32, 3, 1, 1, 1, kRelu, narrow, zero), {3, 0, 3, 1, 1, 1}),
          middle),
      with_residual(conv("conv_relu", {1, 16, 9, 9}, 32, 3, 1, 1, 1, kRelu, zero, zero), middle),
      with_residual(conv("conv_plain", {2, 16, 5, 5}, 24, 1, 1, 0, 1, kNone, wide, middle), wide),
      with_residual(conv("conv_real", {1, 16, 5, 5}, 24, 1, 1, 0, 1, kRelu, wide, zero), {}, DType::kF32),
      with_residual(conv("conv_f32", {1, 16, 5, 5}, 24, 1, 1, 0, 1, kRelu, wide, {}, DType::kF32), {}, DType::kF32),
      linear("linear", {1, 512}, 100, kNone, zero, {}, DType::kF32),
      linear("linear_u8", {3, 65}, 33, kRelu, middle, zero),
      linear("linear_tokens", {2, 5, 48}, 96, {Act::kGelu, 0, 0, 0}, wide, {0.03, 6}),
      dynamic_linear("dynamic_linear", {3, 5, 48}, 96, kNone, 0, 255),
      dynamic_linear("dynamic_linear_gelu", {7, 65}, 33, {Act::kGelu, 0, 0, 0}, 1, 255),
      group_linear("group_linear", {1, 64}, 33, 32, false, kNone),
      group_linear("group_linear_silu", {2, 5, 64}, 40, 16, false, {Act::kSilu, 0, 0, 0}),
      group_linear("group_linear_tokens", {2, 5, 64}, 40, 32, true, kRelu),
      dynamic_conv("dynamic_conv_1x1", {2, 24, 5, 5}, 40, 1, 1, 0, 1, kNone, 0, 255),
      dynamic_conv("dynamic_conv_3x3", {1, 16, 9, 8}, 24, 3, 1, 1, 1, kRelu, 0, 255),
      dynamic_conv("dynamic_conv_stride", {2, 3, 17, 19}, 16, 7, 2, 3, 1, kRelu6, 1, 255),
      dynamic_conv("dynamic_conv_narrow", {1, 16, 9, 9}, 16, 3, 1, 1, 1, kNone, 0, 127),
      dynamic_conv("dynamic_conv_groups", {1, 32, 6, 6}, 64, 3, 1, 1, 4, kRelu, 0, 255),
      dynamic_conv("dynamic_conv_depthwise", {1, 32, 12, 12}, 32, 3, 1, 1, 32, {Act::kSilu, 0, 0, 0}, 0, 255),
      with_residual(dynamic_conv("dynamic_conv_sum", {1, 16, 8, 8}, 32, 3, 2, 1, 1, kRelu, 0, 255), {}, DType::kF32),
      general("dynamic_round", Step::DynamicRound{{0, 255, 0.000244140625}}, {{{2, 5, 33}, DType::kF32}},
              {{2, 5, 33}, DType::kF32}),
      general("dynamic_round_image", Step::DynamicRound{{1, 255, 0.000244140625}}, {{{2, 7, 3, 5}, DType::kF32}},
              {{2, 7, 3, 5}, DType::kF32}),
      with_residual(dynamic_linear("dynamic_linear_sum", {4, 32}, 32, kNone, 0, 255), {}, DType::kF32),
      with_residual(linear("linear_sum", {4, 32}, 32, kNone, middle, wide), middle),
      max_pool("max_pool", {{1, 16, 12, 12}}, {3, 3, 2, 2, 1, 1, 1, 1}, {1, 16, 6, 6}, {}),
      max_pool("max_pool_ceil", {{2, 20, 13, 13}}, {3, 3, 2, 2, 0, 0, 1, 1}, {2, 20, 6, 6}, {}),
      average_pool("average_global", {{2, 40, 7, 7}, DType::kU8, zero}, {7, 7, 7, 7, 0, 0, 1, 1}, {2, 40, 1, 1},
                   {{}, DType::kU8, zero}),
      average_pool("average_to_other", {{1, 40, 8, 8}, DType::kU8, middle}, {2, 2, 2, 2, 0, 0, 1, 1}, {1, 40, 4, 4},
                   {{}, DType::kU8, wide}),
      average_pool("average_padded", {{1, 8, 8, 8}, DType::kU8, middle}, {3, 3, 2, 2, 1, 1, 1, 1}, {1, 8, 4, 4},
                   {{}, DType::kU8, middle}),
      average_pool("average_unpadded", {{1, 8, 8, 8}, DType::kU8, middle}, {3, 3, 2, 2, 1, 1, 1, 1}, {1, 8, 4, 4},
                   {{}, DType::kU8, middle}, false),
      average_pool("average_divisor", {{1, 8, 8, 8}, DType::kU8, middle}, {3, 3, 1, 1, 0, 0, 1, 1}, {1, 8, 6, 6},
                   {{}, DType::kU8, middle}, true, 5),
      average_pool("average_f32", {{1, 24, 7, 7}, DType::kF32}, {7, 7, 7, 7, 0, 0, 1, 1}, {1, 24, 1, 1},
                   {{}, DType::kF32}),
      average_pool("average_f32_to_u8", {{1, 24, 7, 7}, DType::kF32}, {7, 7, 7, 7, 0, 0, 1, 1}, {1, 24, 1, 1},
                   {{}, DType::kU8, middle}),
      rounded(average_pool("average_rounded", {{2, 93, 7, 7}, DType::kF32}, {7, 7, 7, 7, 0, 0, 1, 1}, {2, 93, 1, 1},
                           {{}, DType::kU8, middle}),
              wide),
      rounded(average_pool("average_rounded_narrow", {{1, 150, 6, 9}, DType::kF32}, {2, 3, 2, 3, 0, 0, 1, 1},
                           {1, 150, 3, 3}, {{}, DType::kF32}),
              narrow),
      average_pool("average_u8_to_f32", {{1, 24, 7, 7}, DType::kU8, middle}, {7, 7, 7, 7, 0, 0, 1, 1}, {1, 24, 1, 1},
                   {{}, DType::kF32}),
      in_floats(conv("conv_first", {1, 3, 17, 19}, 16, 7, 2, 3, 1, kRelu, {}, {})),
      in_floats(conv("conv_1x1", {2, 64, 7, 7}, 33, 1, 1, 0, 1, kNone, {}, {})),
      in_floats(conv("conv_groups", {1, 32, 6, 6}, 64, 3, 1, 1, 4, kRelu6, {}, {})),
      in_floats(conv("conv_depthwise", {2, 20, 11, 11}, 20, 5, 2, 2, 20, {Act::kHardSwish, 0, 0, 0}, {}, {})),
      in_floats(conv("conv_silu", {1, 16, 8, 8}, 24, 3, 1, 1, 1, {Act::kSilu, 0, 0, 0}, {}, {})),
      in_floats(with_residual(conv("conv", {1, 16, 9, 9}, 32, 3, 1, 1, 1, kRelu, {}, {}), {})),
      in_floats(linear("linear", {2, 5, 48}, 96, {Act::kGelu, 0, 0, 0}, {}, {})),
      in_floats(with_residual(linear("linear", {4, 32}, 33, kNone, {}, {}), {})),
      in_floats(max_pool("max_pool", {{2, 20, 13, 13}}, {3, 3, 2, 2, 1, 1, 1, 1}, {2, 20, 7, 7}, {})),
      in_floats(general("flatten_image", Step::Copy{}, {{{2, 3, 4, 5}}}, {{2, 60}})),
      in_bf16(in_floats(conv("conv_first", {1, 3, 17, 19}, 16, 7, 2, 3, 1, kRelu, {}, {}))),
      in_bf16(in_floats(conv("conv_depthwise", {2, 20, 11, 11}, 20, 5, 2, 2, 20, {Act::kHardSwish, 0, 0, 0}, {}, {}))),
      in_bf16(in_floats(with_residual(conv("conv", {1, 16, 9, 9}, 32, 3, 1, 1, 1, kRelu, {}, {}), {}))),
      in_bf16(in_floats(with_residual(linear("linear", {2, 5, 48}, 96, {Act::kGelu, 0, 0, 0}, {}, {}), {}))),
      in_bf16(conv("conv_int8", {1, 24, 8, 8}, 24, 3, 1, 1, 1, {Act::kSilu, 0, 0, 0}, middle, {}, DType::kF32)),
      in_bf16(with_residual(linear("linear_int8", {4, 32}, 32, kNone, middle, {}, DType::kF32), {}, DType::kF32)),
      in_bf16(
          with_residual(conv("conv_int8_to_u8", {1, 16, 5, 5}, 24, 1, 1, 0, 1, kRelu, wide, zero), {}, DType::kF32)),
      in_bf16(in_floats(max_pool("max_pool", {{2, 20, 13, 13}}, {3, 3, 2, 2, 1, 1, 1, 1}, {2, 20, 7, 7}, {}))),
      in_bf16(average_pool("average", {{1, 24, 7, 7}, DType::kF32}, {7, 7, 7, 7, 0, 0, 1, 1}, {1, 24, 1, 1},
                           {{}, DType::kF32})),
      in_bf16(in_floats(general("flatten_image", Step::Copy{}, {{{2, 3, 4, 5}}}, {{2, 60}}))),
      in_bf16(in_floats(general("add_relu", Step::Add{}, {{{2, 18, 5, 5}}, {{2, 18, 5, 5}}}, {{2, 18, 5, 5}}, kRelu))),
      in_bf16(in_floats(general("mul_excitation", Step::Mul{}, {{{2, 24, 1, 1}}, {{2, 24, 5, 5}}}, {{2, 24, 5, 5}}))),
      in_bf16(
          general("silu", Step::Dequantize{}, {{{4, 50}, DType::kF32}}, {{4, 50}, DType::kF32}, {Act::kSilu, 0, 0, 0})),
      in_bf16(general("dequantize_rows", Step::Dequantize{}, {{{4, 50}, DType::kU8, middle}}, {{4, 50}, DType::kF32})),
      in_bf16(general("quantize_rows", Step::Quantize{}, {{{4, 50}, DType::kF32}}, {{4, 50}, DType::kU8, middle})),
      general("add", Step::Add{}, {{{1, 16, 6, 6}, DType::kU8, zero}, {{1, 16, 6, 6}, DType::kU8, middle}},
              {{1, 16, 6, 6}, DType::kU8, wide}),
      general("add_relu", Step::Add{}, {{{2, 18, 5, 5}, DType::kU8, wide}, {{2, 18, 5, 5}, DType::kU8, middle}},
              {{2, 18, 5, 5}, DType::kU8, zero}, kRelu),
      general("add_to_f32", Step::Add{}, {{{3, 40}, DType::kU8, wide}, {{3, 40}, DType::kF32}}, {{3, 40}, DType::kF32}),
      general("add_broadcast", Step::Add{}, {{{1, 16, 1, 1}, DType::kU8, wide}, {{1, 16, 5, 5}, DType::kU8, zero}},
              {{1, 16, 5, 5}, DType::kU8, middle}),
      general("mul", Step::Mul{}, {{{1, 16, 6, 6}, DType::kU8, zero}, {{1, 16, 6, 6}, DType::kU8, zero}},
              {{1, 16, 6, 6}, DType::kU8, wide}),
      general("mul_zero_points", Step::Mul{}, {{{1, 16, 6, 6}, DType::kU8, middle}, {{1, 16, 6, 6}, DType::kU8, wide}},
              {{1, 16, 6, 6}, DType::kU8, wide}),
      general("mul_excitation", Step::Mul{},
              {{{2, 24, 1, 1}, DType::kU8, {0.004, 0}}, {{2, 24, 5, 5}, DType::kU8, zero}},
              {{2, 24, 5, 5}, DType::kU8, zero}),
      general("mul_excitation_f32", Step::Mul{}, {{{2, 24, 1, 1}, DType::kF32}, {{2, 24, 5, 5}, DType::kF32}},
              {{2, 24, 5, 5}, DType::kU8, middle}),
      // Short pieces that are repeated, more of them than are written out at once: masks of a separator, gates of rows.
      general("mul_two_masks", Step::Mul{},
              {{{1, 2, 60, 70}, DType::kU8, {0.004, 0}}, {{1, 1, 60, 70}, DType::kU8, middle}},
              {{1, 2, 60, 70}, DType::kU8, middle}),
      general("mul_gated_rows", Step::Mul{}, {{{3, 4, 40, 1}, DType::kU8, wide}, {{3, 4, 40, 41}, DType::kU8, middle}},
              {{3, 4, 40, 41}, DType::kU8, middle}),
      general("add_to_short_rows", Step::Add{}, {{{5, 3, 20, 1}, DType::kF32}, {{5, 3, 20, 30}, DType::kU8, middle}},
              {{5, 3, 20, 30}, DType::kU8, zero}, kRelu),
      general("prelu", Step::Prelu{slopes_of(18)}, {{{2, 18, 5, 5}, DType::kU8, wide}},
              {{2, 18, 5, 5}, DType::kU8, middle}),
      general("prelu_to_u8", Step::Prelu{slopes_of(18)}, {{{2, 18, 5, 5}, DType::kF32}},
              {{2, 18, 5, 5}, DType::kU8, middle}),
      in_floats(general("prelu", Step::Prelu{slopes_of(18)}, {{{2, 18, 5, 5}}}, {{2, 18, 5, 5}})),
      general("prelu_rows", Step::Prelu{slopes_of(40)}, {{{3, 40}, DType::kU8, wide}}, {{3, 40}, DType::kF32}),
      general("quantize_image", Step::Quantize{}, {{{2, 3, 9, 10}, DType::kF32}}, {{2, 3, 9, 10}, DType::kU8, middle}),
      general("quantize_rows", Step::Quantize{}, {{{4, 50}, DType::kF32}}, {{4, 50}, DType::kU8, narrow}),
      general("quantize_sigmoid", Step::Quantize{}, {{{4, 50}, DType::kF32}}, {{4, 50}, DType::kU8, {1.0 / 256, 0}},
              {Act::kSigmoid, 0, 0, 0}),
      general("dequantize_rows", Step::Dequantize{}, {{{4, 50}, DType::kU8, middle}}, {{4, 50}, DType::kF32}),
      general("dequantize_image", Step::Dequantize{}, {{{2, 16, 5, 6}, DType::kU8, middle}},
              {{2, 16, 5, 6}, DType::kF32}),
      general("sigmoid_f32", Step::Dequantize{}, {{{4, 50}, DType::kF32}}, {{4, 50}, DType::kF32},
              {Act::kSigmoid, 0, 0, 0}),
  };
  for (const bool same : {true, false}) {
    const Value second{{2, 24, 5, 5}, DType::kU8, same ? zero : wide};
    Problem cat = general(same ? "concat" : "concat_other", Step::Concat{1},
                          {{{2, 16, 5, 5}, DType::kU8, zero}, second}, {{2, 40, 5, 5}, DType::kU8, zero});
    out.push_back(cat);
  }
  out.push_back(general("concat_reals", Step::Concat{1},
                        {{{2, 16, 5, 5}, DType::kF32}, {{2, 24, 5, 5}, DType::kU8, wide}},
                        {{2, 40, 5, 5}, DType::kU8, zero}));
  out.push_back(general("concat_many", Step::Concat{1}, std::vector<Value>(1025, {{2, 1, 2, 2}, DType::kF32}),
                        {{2, 1025, 2, 2}, DType::kF32}));
  Problem map = general("map", Step::Map{}, {{{2, 16, 5, 5}}}, {{2, 16, 5, 5}});
  Tensor& table = map.step.as<Step::Map>().table;
  table = Tensor::empty({256}, DType::kU8);
  for (int q = 0; q < 256; ++q) table.data<uint8_t>()[q] = static_cast<uint8_t>(255 - q);
  out.push_back(map);
  Problem norm =
      general("layer_norm", Step::LayerNorm{{}, {}, 1e-5}, {{{2, 5, 72}, DType::kF32}}, {{2, 5, 72}, DType::kF32});
  out.push_back(norm);
  norm.name = "layer_norm_affine";
  norm.step.as<Step::LayerNorm>().gamma = Tensor::full({72}, DType::kF32, 1.5);
  norm.step.as<Step::LayerNorm>().beta = Tensor::full({72}, DType::kF32, -0.25);
  out.push_back(norm);
  Problem attention =
      general("attention", Step::Attention{0.25},
              {{{2, 3, 10, 16}, DType::kF32}, {{2, 3, 12, 16}, DType::kF32}, {{2, 3, 12, 24}, DType::kF32}},
              {{2, 10, 3, 24}, DType::kF32});
  out.push_back(attention);
  norm.step.as<Step::LayerNorm>().beta = {};
  Problem rms = norm;
  rms.name = "rms_norm";
  rms.step.as<Step::LayerNorm>().is_rms = true;
  out.push_back(rms);
  out.push_back(general("attention_masked", Step::Attention{0.25},
                        {{{2, 4, 3, 16}, DType::kF32},
                         {{2, 2, 12, 16}, DType::kF32},
                         {{2, 2, 12, 24}, DType::kF32},
                         {{2, 1, 3, 12}, DType::kF32}},
                        {{2, 3, 4, 24}, DType::kF32}));
  out.push_back(general("attention_shared", Step::Attention{0.25},
                        {{{1, 6, 1, 21}, DType::kF32}, {{1, 2, 40, 21}, DType::kF32}, {{1, 2, 40, 7}, DType::kF32}},
                        {{1, 1, 6, 7}, DType::kF32}));
  out.push_back(general("rotary", Step::Rotary{},
                        {{{2, 3, 5, 18}, DType::kF32}, {{1, 1, 5, 18}, DType::kF32}, {{2, 1, 5, 18}, DType::kF32}},
                        {{2, 3, 5, 18}, DType::kF32}));
  norm.step.as<Step::LayerNorm>().beta = Tensor::full({72}, DType::kF32, -0.25);
  out.push_back(in_bf16(norm));
  for (const DType dtype : {DType::kU8, DType::kF32}) {
    Problem rounded = general(dtype == DType::kU8 ? "layer_norm_rounded_u8" : "layer_norm_rounded", norm.step.form,
                              {{{2, 5, 72}, dtype, middle}}, {{2, 5, 72}, dtype, middle});
    rounded.step.as<Step::LayerNorm>().roundings = {middle, zero, zero, middle, wide};
    out.push_back(rounded);
  }
  out.push_back(in_bf16(attention));
  Problem narrowed =
      general("arrange_to_bf16", Step::Arrange{}, {{{2, 5, 4, 3}, DType::kF32}}, {{2, 5, 4, 3}, DType::kBF16});
  out.push_back(narrowed);
  std::swap(narrowed.inputs[0].dtype, narrowed.output.dtype);
  narrowed.name = "arrange_from_bf16";
  out.push_back(narrowed);
  for (const auto& [name, sizes] : {std::pair("lines", Shape{2, 3, 4, 5}), std::pair("rows", Shape{2, 60})}) {
    narrowed = general(concat(name, "_to_bf16"), Step::Arrange{}, {{sizes, DType::kF32}}, {sizes, DType::kBF16});
    out.push_back(narrowed);
    std::swap(narrowed.inputs[0].dtype, narrowed.output.dtype);
    narrowed.name = concat(name, "_from_bf16");
    out.push_back(narrowed);
  }
  Problem joined = general("concat", Step::Concat{1}, {{{2, 16, 5, 5}, DType::kF32}, {{2, 24, 5, 5}, DType::kF32}},
                           {{2, 40, 5, 5}, DType::kF32});
  out.push_back(in_bf16(joined));
  out.push_back(general("arrange_image", Step::Arrange{}, {{{2, 5, 4, 3}, DType::kF32}}, {{2, 5, 4, 3}, DType::kF32}));
  out.push_back(general("flatten_image", Step::Copy{}, {{{2, 3, 4, 5}}}, {{2, 60}}));
  return out;
}

// The problem as a plan of one step with random weights, and random inputs for it.
struct Instance {
  Plan plan;
  std::vector<Tensor> inputs;
};
Instance instance_of(Problem problem, unsigned seed) {
  std::mt19937 random(seed);
  const auto integer = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  const auto real = [&](float low, float high) { return std::uniform_real_distribution<float>(low, high)(random); };
  Instance made;
  const auto add_buffer = [&](const Value& value, const std::string& name) {
    PlanBuffer buffer;
    buffer.name = name;
    for (const int64_t size : value.sizes) buffer.symbolic_sizes.push_back(SymInt(size));
    buffer.dtype = value.dtype;
    buffer.channels_last = value.sizes.size() == 4;
    buffer.qparams = value.qparams;
    made.plan.buffers.push_back(std::move(buffer));
    return made.plan.buffers.size() - 1;
  };
  PlanStep step = std::move(problem.step);
  step.name = problem.name;
  for (const Value& value : problem.inputs) {
    const size_t at = add_buffer(value, concat("input_", step.inputs.size()));
    made.plan.buffers[at].location = PlanBuffer::Location::kInput;
    if (step.kind() == Kind::kQuantize || step.kind() == Kind::kAttention || step.kind() == Kind::kArrange ||
        step.kind() == Kind::kRotary)
      made.plan.buffers[at].channels_last = false;
    step.inputs.push_back(at);
    Tensor input = Tensor::empty({numel_of(value.sizes)}, value.dtype);
    for (int64_t i = 0; i < input.numel(); ++i) {
      if (value.dtype == DType::kU8)
        input.data<uint8_t>()[i] = static_cast<uint8_t>(integer(value.qparams.qmin, value.qparams.qmax));
      else if (value.dtype == DType::kBF16) input.data<BF16>()[i] = BF16(real(-4, 4));
      else input.data<float>()[i] = real(-4, 4);
    }
    made.inputs.push_back(input);
  }
  step.output = add_buffer(problem.output, "output");
  made.plan.buffers[step.output].location = PlanBuffer::Location::kOutput;
  if (step.kind() == Kind::kDequantize || step.kind() == Kind::kAttention || step.kind() == Kind::kRotary)
    made.plan.buffers[step.output].channels_last = false;
  if (ProductWeights* weights = step.weights()) {
    const int64_t channels = weights->channels(), depth = weights->depth();
    weights->values = weights->values.clone();  // backends keep packed weights by their address
    if (weights->is_float())
      for (float& w : weights->values.span<float>()) w = real(-1, 1) / std::sqrt(static_cast<float>(depth));
    else
      for (int8_t& w : weights->values.span<int8_t>()) w = static_cast<int8_t>(integer(-127, 127));
    weights->scales = Tensor::empty({channels}, DType::kF32);
    weights->bias = Tensor::empty({channels}, DType::kF32);
    for (int64_t c = 0; c < channels; ++c) {
      // Sums of about 3 in reals.
      weights->scales.data<float>()[c] = real(0.5f, 1.5f) / std::sqrt(static_cast<float>(depth)) / 64.0f;
      weights->bias.data<float>()[c] = real(-1, 1);
    }
  }
  made.plan.steps.push_back(std::move(step));
  made.plan = specialize(made.plan, {});
  return made;
}

Tensor run(CompiledStep& compiled, const Instance& instance) {
  const PlanBuffer& out = instance.plan.buffers[instance.plan.steps[0].output];
  const Tensor output = Tensor::full({numel_of(out.sizes)}, out.dtype, 77);
  const Tensor scratch = Tensor::empty({static_cast<int64_t>(compiled.scratch_bytes())}, DType::kU8);
  std::vector<const std::byte*> inputs;
  for (const Tensor& input : instance.inputs) inputs.push_back(input.raw());
  compiled.run(inputs, output.raw(), scratch.numel() > 0 ? scratch.raw() : nullptr);
  return output;
}

// The largest difference: in steps for u8, relative to 1 and the largest value for floats.
double difference(const Tensor& a, const Tensor& b) {
  const Tensor x = a.to(DType::kF64), y = b.to(DType::kF64);
  double largest = 0, scale = 1;
  for (int64_t i = 0; i < x.numel(); ++i) {
    largest = std::max(largest, std::fabs(x.data<double>()[i] - y.data<double>()[i]));
    scale = std::max(scale, std::fabs(y.data<double>()[i]));
  }
  return a.dtype() == DType::kU8 ? largest : largest / scale;
}

// What oneDNN leaves to others, by the reason it gives.
const std::vector<std::pair<std::string, std::string>> kOneDnnRefusals = {
    {"group_linear", "its weights are packed in groups"},
    {"group_linear_silu", "its weights are packed in groups"},
    {"group_linear_tokens", "its weights are packed in groups"},
    {"rms_norm", "a norm by the mean square"},
    {"attention_masked", "a mask"},
    {"attention_shared", "grouped queries"},
    {"rotary", "the portable kernel is the only one"},
    {"dynamic_round", "it only rounds"},
    {"dynamic_round_image", "it only rounds"},
    {"conv_depthwise_volumes", "volumes of one channel in each group"},
    {"conv_depthwise_flat_volumes", "volumes of one channel in each group"},
    {"average_to_other", "other qparams behind it"},
    {"average_padded", "padding that counts"},
    {"average_unpadded", "padding that counts"},
    {"average_divisor", "a divisor of its own"},
    {"average_f32_to_u8", "other qparams behind it"},
    {"average_u8_to_f32", "other qparams behind it"},
    {"average_rounded", "a rounding in front of it"},
    {"average_rounded_narrow", "a rounding in front of it"},
    {"mul", "the portable kernel is faster"},
    {"mul_zero_points", "the portable kernel is faster"},
    {"mul_excitation", "the portable kernel is faster"},
    {"mul_excitation_f32", "the portable kernel is faster"},
    {"mul_two_masks", "the portable kernel is faster"},
    {"mul_gated_rows", "the portable kernel is faster"},
    {"quantize_image", "the portable kernel is faster"},
    {"quantize_rows", "the portable kernel is faster"},
    {"quantize_sigmoid", "the portable kernel is faster"},
    {"sigmoid_f32", "an activation"},
    {"concat", "the portable kernel is faster"},
    {"concat_other", "the portable kernel is faster"},
    {"concat_reals", "the portable kernel is faster"},
    {"concat_many", "more inputs than oneDNN has names for"},
    {"max_pool", "the portable kernel is faster"},
    {"max_pool_ceil", "the portable kernel is faster"},
    {"prelu", "the portable kernel does it"},
    {"prelu_to_u8", "the portable kernel does it"},
    {"prelu_floats", "the portable kernel does it"},
    {"prelu_rows", "the portable kernel does it"},
    {"layer_norm_rounded", "roundings inside it"},
    {"layer_norm_rounded_u8", "roundings inside it"},
    {"map", "it only moves bytes"},
    {"flatten_image", "it only moves bytes"},
};

const std::vector<std::pair<std::string, std::string>> kSimdRefusals = {
    {"conv_first_floats", "its weights are float32"},  {"conv_1x1_floats", "its weights are float32"},
    {"conv_groups_floats", "its weights are float32"}, {"conv_depthwise_floats", "its weights are float32"},
    {"conv_silu_floats", "its weights are float32"},   {"conv_residual_floats", "its weights are float32"},
    {"linear_floats", "its weights are float32"},      {"linear_residual_floats", "its weights are float32"},
    {"max_pool_floats", "an image in float32"},        {"flatten_image_floats", "a reshape between storage orders"},
};

class Steps : public testing::TestWithParam<Problem> {};

TEST_P(Steps, OneDnnIsWithinOneStepOfThePlainLoops) {
  const auto onednn = make_onednn_steps(), reference = make_reference_steps();
  if (onednn == nullptr) GTEST_SKIP() << "a build without oneDNN";
  for (unsigned seed = 0; seed < 3; ++seed) {
    const Instance instance = instance_of(GetParam(), seed);
    auto compiled = onednn->compile(instance.plan, instance.plan.steps[0]);
    if (compiled.index() == 1 && (std::get<std::string>(compiled).starts_with("this processor has no VNNI") ||
                                  std::get<std::string>(compiled).starts_with("with vectors of 256 bits") ||
                                  std::get<std::string>(compiled) == "oneDNN runs it in a plain loop"))
      GTEST_SKIP() << std::get<std::string>(compiled);
    const auto refusal = std::find_if(kOneDnnRefusals.begin(), kOneDnnRefusals.end(),
                                      [&](const auto& one) { return one.first == GetParam().name; });
    if (refusal != kOneDnnRefusals.end()) {
      ASSERT_TRUE(std::holds_alternative<std::string>(compiled));
      EXPECT_EQ(std::get<std::string>(compiled), refusal->second);
      return;
    }
    ASSERT_EQ(compiled.index(), 0u) << std::get<std::string>(compiled);
    auto plain = reference->compile(instance.plan, instance.plan.steps[0]);
    const Tensor expected = run(*std::get<0>(plain), instance), found = run(*std::get<0>(compiled), instance);
    // One rounding to bf16 may fall to the other side.
    const double tolerance = found.dtype() == DType::kU8 ? 1 : found.dtype() == DType::kBF16 ? 1.0 / 128 : 2e-5;
    EXPECT_LE(difference(found, expected), tolerance)
        << "seed " << seed << ", " << std::get<0>(compiled)->description();
    EXPECT_TRUE(bitwise_equal(run(*std::get<0>(compiled), instance), found)) << "a second run differs";
  }
}

TEST_P(Steps, SimdGivesTheBytesOfThePlainLoops) {
  const auto simd = make_simd_steps(), reference = make_reference_steps();
  for (unsigned seed = 0; seed < 3; ++seed) {
    const Instance instance = instance_of(GetParam(), seed);
    auto compiled = simd->compile(instance.plan, instance.plan.steps[0]);
    if (GetParam().name.ends_with("_bf16")) {
      ASSERT_EQ(compiled.index(), 1u);
      EXPECT_EQ(std::get<std::string>(compiled), "it computes no bfloat16");
      return;
    }
    const auto refusal = std::find_if(kSimdRefusals.begin(), kSimdRefusals.end(),
                                      [&](const auto& one) { return one.first == GetParam().name; });
    if (refusal != kSimdRefusals.end()) {
      ASSERT_EQ(compiled.index(), 1u);
      EXPECT_EQ(std::get<std::string>(compiled), refusal->second);
      return;
    }
    ASSERT_EQ(compiled.index(), 0u) << std::get<std::string>(compiled);
    auto plain = reference->compile(instance.plan, instance.plan.steps[0]);
    EXPECT_TRUE(bitwise_equal(run(*std::get<0>(compiled), instance), run(*std::get<0>(plain), instance)))
        << "seed " << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(Table, Steps, testing::ValuesIn(problems()), [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace qdq::steps_test
