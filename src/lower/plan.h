// The plan of a quantized region: fused steps over buffers in one arena. Plain data, and the arithmetic that every
// backend follows.
//
// Inside a plan there are two kinds of numbers: u8 and f32; and bf16 in place of some f32 where that was asked for
// (lower/mixed_bf16.h): computed as f32, rounded half to even when written, and weights in f32 that meet bf16 are
// rounded to it first. A region that the graph quantized to int8 is shifted: its q is kept as q + 128, its zero point
// and range as well, so that no backend needs kernels for signed activations. Weights are s8 with zero point 0, or f32.
// Images [N, C, H, W] are stored channels last (N H W C); other shapes in C order.
//
// The arithmetic. Integer sums are exact in s32. All else is f32, every operation rounded on its own (no fused
// multiply-add), half to even; with equal sums, two backends that follow this give equal bytes. acc, t and y by kind:
//
//   kConvolution, kLinear   acc = sum (x - zero_point(x)) * weight
//                           t = float(acc) * multiplier[oc] + offset[oc]
//                           with a residual r, thereafter t = t + real(r) * residual_multiplier
//   the same, weights f32   acc = sum x * weight in f32, its order the backend's own; multiplier is 1
//   kAveragePool            acc = sum over the window of (x - zero_point(x))
//                           with `rounding`, of f32 x: of (q - zero_point),
//                           where q = clamp(half_even(x * (1 / scale)) + zero_point, qmin, qmax)
//                           t = float(acc) * multiplier[0]
//   kAdd                    t = real(a) * multiplier[0] + real(b) * multiplier[1]
//   kMul                    t = (real(a) * multiplier[0]) * real(b)
//   kPrelu                  u = real(x) * multiplier[0];  t = u > 0 ? u : u * slopes[c]
//   kConcat, input i        t = real(x_i) * multiplier[i]
//   kQuantize, kDequantize  t = real(x) * multiplier[0]
//   kDynamicLinear          acc = sum (q - zero_point) * weight
//                           with scale, zero_point and q of the input of this run: dynamic_qparams
//                           t = float(acc) * float(scale * weight_scale[oc]) + offset[oc]; then as kLinear
//   kDynamicConvolution     the same sums of a convolution; taps outside the image do not count
//   kDynamicRound           y = float(q - zero_point) * scale, and nothing behind it
//   kGroupLinear            t = what kernel/gemm_groups.h documents, for activations in f32 or, per token, int8
//
// where real(x) is x itself for f32 and float(x - zero_point(x)), an exact integer, for u8; scales are in the
// multipliers. Then
//
//   y = activation(t)
//   u8:  q = clamp(half_even(y * inverse_scale) + zero_point, low, high)       NaN gives clamp(0, low, high)
//   f32: y
//
// where SiLU behind weights in s8 is near_silu_f32 of kernel/pointwise.h, at half of the cost, and elsewhere silu_f32
// of kernel/math.h. Requantization (below) holds these numbers. Where the activation is a clamp and the output u8, it
// is folded: the multipliers contain 1 / scale of the output, inverse_scale is 1 (no product is needed), and low and
// high are the quantized bounds of the clamp. kMaxPool, kCopy and kArrange move bytes, kMap looks every byte up in a
// table. kLayerNorm is layer_norm_f32 (or rms_norm_f32) of kernel/math.h, with roundings rounded_layer_norm_f32 of
// kernel/rounded_norm.h, whose x and result may be u8; kRotary is rotate_halves_f32 of kernel/attention.h, and
// kAttention softmax_f32(t) v of every head with t = (q k') * factor (+ mask), all in f32; the order of their sums is
// each backend's own.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "kernel/activation.h"
#include "kernel/frames.h"
#include "kernel/gemm_groups.h"
#include "kernel/rounded_norm.h"
#include "tensor/sym_int.h"
#include "tensor/tensor.h"

namespace qdq {

using kernel::Activation;

// How the u8 numbers of a buffer stand for reals: x = (q - zero_point) * scale, qmin <= q <= qmax.
struct PlanQParams {
  double scale = 1;
  int32_t zero_point = 0;
  int32_t qmin = 0, qmax = 255;
  bool operator==(const PlanQParams&) const = default;
};

struct PlanBuffer {
  enum class Location {
    kInput,   // the caller's bytes; never written
    kArena,   // at `offset` in the arena
    kOutput,  // the caller's bytes
    kView,    // bytes of `base`, seen through other sizes and strides
  };
  std::string name;            // of the graph's node whose value this is
  SymShape symbolic_sizes;     // as the graph knows them
  Shape sizes;                 // for the sizes that this plan is made for, [N, C, H, W] for images
  DType dtype = DType::kF32;   // kU8, kF32 or kBF16
  bool channels_last = false;  // rank 4 only: stored as N H W C
  PlanQParams qparams;         // of a kU8 buffer
  Location location = Location::kArena;
  uint64_t offset = 0;  // of kArena: in bytes, a multiple of 64
  // Of kView, in elements. Only kArrange and kAttention meet views that are neither in C order nor channels last.
  size_t base = 0;  // an earlier buffer, no view itself
  SymInt symbolic_view_offset;
  SymShape symbolic_view_strides;
  int64_t view_offset = 0;
  Shape view_strides;

  uint64_t bytes() const { return static_cast<uint64_t>(numel_of(sizes)) * size_of(dtype); }
  Shape strides() const;  // in elements, by logical axis
};

// Buffers in the arena and in scratch memory begin at multiples of 64 bytes: the bytes that one of `bytes` takes there.
inline uint64_t aligned(uint64_t bytes) { return (bytes + 63) / 64 * 64; }

// Extents along H and W.
struct Window2d {
  int64_t kernel_h = 1, kernel_w = 1;
  int64_t stride_h = 1, stride_w = 1;
  int64_t pad_h = 0, pad_w = 0;  // before the first row and column; behind the last as the output extents ask for
  int64_t dilation_h = 1, dilation_w = 1;
};

// What a convolution or a linear layer multiplies with: s8 or f32 [OC, ...] in C order, the scales of s8 f32 [OC], bias
// f32 [OC] or undefined.
struct ProductWeights {
  Tensor values, scales, bias;
  bool is_float() const { return values.dtype() == DType::kF32; }
  int64_t channels() const { return values.size(0); }
  int64_t depth() const { return channels() == 0 ? 0 : values.numel() / channels(); }  // terms of a sum
};

// How an f32 value is quantized by the range that it has in this run.
struct DynamicRange {
  int32_t qmin = 0, qmax = 255;
  double epsilon = 0;  // the smallest scale
};

// How the numbers inside a layer norm are rounded: r of kernel/rounded_norm.h. None: they are not.
struct NormRoundings {
  std::optional<PlanQParams> mean, variance, shifted, normalized, scaled;
  bool any() const { return mean || variance || shifted || normalized || scaled; }
};

// What a step does. Its numbers are u8 or f32, and bf16 in place of f32, unless a kind says otherwise.
struct PlanStep {
  // f32 to u8; may change the storage order (C order to channels last).
  struct Quantize {};
  // u8 or f32 to f32; may change the storage order.
  struct Dequantize {};
  // inputs {x [N, C, H, W]} or {x, residual of the output's shape, u8 or f32}; output u8 or f32 [N, OC, OH, OW];
  // weights [OC, C / groups, kH, kW]. x is u8 for weights in s8; for weights in f32 all is f32.
  // Over three axes, for weights in s8: N counts the frames of volumes one behind the other, frames.in of each in x and
  // frames.out in the output; weights [OC, C / groups, kD, kH, kW]. Frames outside the volume do not count.
  struct Convolution {
    ProductWeights weights;
    int64_t groups = 1;
    Window2d window;
    kernel::FrameWindow frames{};
    bool is_of_volumes() const { return weights.values.dim() == 5; }
  };
  // The same for inputs {x [..., depth]} or {x, residual}, output [..., OC], weights [OC, depth].
  struct Linear {
    ProductWeights weights;
  };
  // As Linear for an f32 input that is quantized by its own range in every run; weights s8, residual and output f32.
  struct DynamicLinear {
    ProductWeights weights;
    DynamicRange range;
  };
  // inputs {x [..., depth]}, output [..., OC], both f32; weights of 4 or 8 bits with a scale for each group of a row.
  struct GroupLinear {
    kernel::GroupWeights weights;
    Tensor bias;             // f32 [OC] or undefined
    bool per_token = false;  // whether x is rounded to int8 by the range of each of its rows (quantize_tokens_s8)
  };
  // As Convolution for an f32 image, likewise.
  struct DynamicConvolution {
    Convolution convolution;
    DynamicRange range;
  };
  // f32 to the same shape in f32, rounded to the steps that its own range gives in every run.
  struct DynamicRound {
    DynamicRange range;
  };
  // u8 to u8 with equal qparams, or f32 to f32; taps outside the image do not count.
  struct MaxPool {
    Window2d window;
  };
  // A window is divided by divisor_override if that is not 0; else by the number of its taps, those in the padding (up
  // to pad rows and columns on every side) among them if count_include_pad. Every window covers at least one element of
  // the image.
  struct AveragePool {
    Window2d window;
    bool count_include_pad = true;
    int64_t divisor_override = 0;
    std::optional<PlanQParams> rounding;  // of an f32 input: to what x is rounded before it is added
    bool is_global = false;               // the window is the whole image, and specialize() says how large that is
  };
  // Two inputs, each of the output's shape or broadcast to it as in PyTorch.
  struct Add {};
  struct Mul {};
  // An image, or rows [N, C]; a slope for each channel.
  struct Prelu {
    Tensor slopes;  // f32 [C]
  };
  // The inputs one behind the other along `axis`.
  struct Concat {
    int64_t axis = 0;
  };
  // u8 to u8 or f32 of the same shape: output = table[q].
  struct Map {
    Tensor table;  // u8 or f32 [256]
  };
  // The same elements in C order of the shape (reshape); dtype and qparams as the input.
  struct Copy {};
  // A view in C order or channels last: dtype (but for f32 to bf16 and back), sizes and qparams as the input.
  struct Arrange {};
  // f32 [..., columns] to the same; with roundings u8, too.
  struct LayerNorm {
    Tensor gamma, beta;  // f32 [columns] or undefined
    double epsilon = 0;
    NormRoundings roundings{};
    bool is_rms = false;  // divides by the root of the mean square; has no beta
  };
  // q [N, H, L, D], k [N, M, S, D], v [N, M, S, E] f32 with dense last axes; output f32 [N, L, H, E]. M divides H: a
  // head of k and v serves a run of those of q. A fourth input is a mask that is added, f32 and of four axes, each that
  // of [N, H, L, S] or 1.
  struct Attention {
    double factor = 1;
  };
  // x [N, H, L, D], cos and sin f32 of four axes, each that of x or 1 and the last D: rotate_halves_f32 of each row.
  struct Rotary {};
  using Form = std::variant<Quantize, Dequantize, Convolution, Linear, DynamicLinear, GroupLinear, DynamicConvolution,
                            DynamicRound, MaxPool, AveragePool, Add, Mul, Prelu, Concat, Map, Copy, Arrange, LayerNorm,
                            Attention, Rotary>;
  // The forms by name, in the order of Form.
  enum class Kind {
    kQuantize,
    kDequantize,
    kConvolution,
    kLinear,
    kDynamicLinear,
    kGroupLinear,
    kDynamicConvolution,
    kDynamicRound,
    kMaxPool,
    kAveragePool,
    kAdd,
    kMul,
    kPrelu,
    kConcat,
    kMap,
    kCopy,
    kArrange,
    kLayerNorm,
    kAttention,
    kRotary,
  };

  std::string name;            // the node at the end of what was fused
  std::vector<size_t> inputs;  // indices of buffers
  size_t output = 0;
  // The output may lie on the bytes of this input (same shape and element size); -1: on none. When it does, the backend
  // finds equal pointers, and must read an element of that input before it writes the element at the same place.
  int in_place_input = -1;
  Activation activation;  // kNone for those that move bytes
  Form form;

  Kind kind() const { return static_cast<Kind>(form.index()); }
  // The fields of a step whose kind() says that it has this form.
  template <class T> const T& as() const { return *std::get_if<T>(&form); }
  template <class T> T& as() { return *std::get_if<T>(&form); }
  // How a convolution finds its taps, also of a kDynamicConvolution; null for all else.
  const Convolution* convolution() const;
  // Of kDynamicLinear, kDynamicConvolution and kDynamicRound; null for all else.
  const DynamicRange* range() const;
  // Of a convolution or linear layer; null for all else.
  const ProductWeights* weights() const;
  ProductWeights* weights() { return const_cast<ProductWeights*>(std::as_const(*this).weights()); }
};

struct Plan {
  std::vector<PlanBuffer> buffers;
  std::vector<PlanStep> steps;          // in execution order
  std::vector<size_t> inputs, outputs;  // buffers that the caller brings, in his order
  uint64_t arena_bytes = 0;
  bool has_sizes_from_run = false;  // sizes that do not follow from those of the program's inputs, but from these
};

// A convolution or linear layer in f32.
bool has_float_weight(const PlanStep& step);
// The largest integer that s8 weights are multiplied with; 0 for a step without such.
int32_t largest_factor(const Plan& plan, const PlanStep& step);

std::string_view to_string(PlanStep::Kind kind);  // "convolution"

// The numbers of the formulas at the top of this file. A multiplier is computed in double from the f32 scales and
// rounded once to f32.
struct Requantization {
  std::vector<float> multiplier;  // kConvolution, kLinear: [OC]; kAdd, kConcat: one an input; else one
  std::vector<float> offset;      // [OC], kConvolution and kLinear only: bias, divided by the output's scale if folded
  float residual_multiplier = 0;
  Activation activation;    // kNone if it was folded
  float inverse_scale = 1;  // of a u8 output; 1 if folded
  int32_t zero_point = 0, low = 0, high = 255;
};
// kAveragePool divides by the taps of a window: `divisor` is theirs (windows at a border may have fewer).
Requantization requantization(const Plan& plan, const PlanStep& step, int64_t divisor = 1);

// qparams of a dynamic layer's input whose smallest and largest elements these are, as choose_qparams.tensor has
// them (torch/ao/quantization/fx/_decomposed.py), in f32: the range takes in 0, scale = max(width / (qmax - qmin),
// epsilon).
PlanQParams dynamic_qparams(const DynamicRange& range, float min, float max);

// What quantize_result needs for these qparams.
Requantization rounding_to(const PlanQParams& qparams);
// The numbers of a layer norm with roundings as the kernel takes them; they point into the form's tensors.
kernel::RoundedNorm rounded_norm_of(const PlanStep::LayerNorm& form);
// q of the formulas for y = activation(t).
uint8_t quantize_result(float y, const Requantization& to);

// The taps of an average window at output (oh, ow): which rows and columns of the image [N, C, H, W] it covers, and by
// what it is divided.
struct AverageWindow {
  int64_t row_begin, row_end, column_begin, column_end, divisor;
};
AverageWindow average_window(const PlanStep::AveragePool& pool, const Shape& image, int64_t oh, int64_t ow);

// A copy of the plan for given values of its symbols, with the arena laid out: buffers whose lives do not overlap share
// bytes, and outputs lie on a dying input where in_place_input allows it. Throws Error{kUnsupported} naming the buffer
// whose size stays unknown.
Plan specialize(const Plan& plan, const std::map<std::string, int64_t>& symbols);

}  // namespace qdq
