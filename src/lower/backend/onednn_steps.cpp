// The steps of a plan on oneDNN's int8 primitives, with what follows a sum fused into them.
//
// The multipliers of lower/plan.h go in as scales of the weights, the offsets as bias, so that the primitive computes
// the formulas there; it may use fused multiply-add and its own approximations of exp and erf, which is where the one
// step of difference comes from.
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/parallel.h"
#include "kernel/gate.h"
#include "kernel/observe.h"
#include "kernel/quantize.h"
#include "lower/step_backend.h"
#include "lower/backend/onednn_float.h"
#include "lower/backend/onednn_primitive.h"
#include "lower/backend/onednn_widened.h"
#include "lower/backend/simd_steps.h"

namespace qdq {
namespace {

using dnnl::algorithm;
using dnnl::memory;
using dnnl::primitive_attr;
using onednn::append_activation;
using onednn::constant;
using onednn::constants;
using onednn::data_type;
using onednn::desc_of;
using onednn::engine;
using onednn::PackedWeights;
using onednn::padding_behind;
using onednn::plain_attr;
using onednn::PrimitiveStep;
using onednn::step_of;
using Dims = memory::dims;
using onednn::Compiled;

// Quantizes its input by the range that it finds, then multiplies; the primitive reads scale and zero point when it
// runs.
class DynamicProductStep : public CompiledStep {
 public:
  DynamicProductStep(std::unique_ptr<PrimitiveStep> product, DynamicRange range, int64_t count, memory scale,
                     memory zero_point)
      : product_(std::move(product)), range_(range), count_(count), scale_(std::move(scale)),
        zero_point_(std::move(zero_point)) {}
  size_t scratch_bytes() const override { return quantized_bytes() + product_->scratch_bytes(); }
  std::string description() const override { return "quantize + " + product_->description(); }
  void run(std::span<const std::byte* const> inputs, std::byte* output, std::byte* scratch) override {
    const float* x = reinterpret_cast<const float*>(inputs[0]);
    const kernel::MinMax found = kernel::min_max_f32(x, count_);
    const PlanQParams qparams = dynamic_qparams(range_, found.min, found.max);
    kernel::quantize_f32(x, count_, {qparams.scale, qparams.zero_point, qparams.qmin, qparams.qmax},
                         reinterpret_cast<uint8_t*>(scratch));
    *static_cast<float*>(scale_.get_data_handle()) = static_cast<float>(qparams.scale);
    *static_cast<int32_t*>(zero_point_.get_data_handle()) = qparams.zero_point;
    const std::byte* operands[] = {scratch, inputs.size() > 1 ? inputs[1] : nullptr};
    product_->run({operands, inputs.size()}, output, scratch + quantized_bytes());
  }

 private:
  size_t quantized_bytes() const { return aligned(static_cast<size_t>(count_)); }
  std::unique_ptr<PrimitiveStep> product_;
  DynamicRange range_;
  int64_t count_;
  memory scale_, zero_point_;
};

// A product in f32 and its gate (SiLU, GELU) behind it: the primitive's own exponential takes longer than both passes.
// A part of the images at a time, so that what lies between the passes stays in the cache.
class GatedStep : public CompiledStep {
 public:
  struct Portion {
    int64_t count = 1;     // of parts
    int64_t elements = 0;  // of the result, in one part
    uint64_t in_bytes = 0, out_bytes = 0;
  };
  GatedStep(std::unique_ptr<CompiledStep> product, const kernel::GateTable& table, kernel::Requantize to, Portion part)
      : product_(std::move(product)), table_(&table), to_(std::move(to)), part_(part) {}
  size_t scratch_bytes() const override { return reals_bytes() + product_->scratch_bytes(); }
  std::string description() const override { return product_->description() + " + gate"; }
  void run(std::span<const std::byte* const> inputs, std::byte* output, std::byte* scratch) override {
    for (int64_t i = 0; i < part_.count; ++i) {
      const std::byte* const input = inputs[0] + static_cast<size_t>(i) * part_.in_bytes;
      std::byte* const to = output + static_cast<size_t>(i) * part_.out_bytes;
      std::byte* const reals = to_.out_is_float ? to : scratch;
      product_->run({&input, 1}, reals, scratch + reals_bytes());
      kernel::gate(*table_, reinterpret_cast<const float*>(reals), part_.elements, to_, to);
    }
  }
  static const kernel::GateTable* table_of(Activation::Kind kind) {
    switch (kind) {
      case Activation::Kind::kSilu: return &kernel::silu_table();
      case Activation::Kind::kGelu: return &kernel::gelu_table();
      case Activation::Kind::kGeluTanh: return &kernel::gelu_tanh_table();
      default: return nullptr;
    }
  }

 private:
  size_t reals_bytes() const {
    return to_.out_is_float ? 0 : aligned(static_cast<size_t>(part_.elements) * sizeof(float));
  }
  std::unique_ptr<CompiledStep> product_;
  const kernel::GateTable* table_;
  kernel::Requantize to_;
  Portion part_;
};

// The bounds of a folded clamp that the saturation to u8 does not give by itself.
void append_bounds(dnnl::post_ops& ops, const Requantization& to, bool is_u8) {
  if (is_u8 && (to.low > 0 || to.high < 255))
    ops.append_eltwise(algorithm::eltwise_clip, static_cast<float>(to.low - to.zero_point),
                       static_cast<float>(to.high - to.zero_point));
}

// What the processor has, or what DNNL_MAX_CPU_ISA lets oneDNN see of it.
bool has_vnni() {
  const dnnl::cpu_isa isa = dnnl::get_effective_cpu_isa();
  return isa != dnnl::cpu_isa::isa_default && isa != dnnl::cpu_isa::sse41 && isa != dnnl::cpu_isa::avx &&
         isa != dnnl::cpu_isa::avx2 && isa != dnnl::cpu_isa::avx512_core;
}
bool has_vnni_of_256_bits() {
  const dnnl::cpu_isa isa = dnnl::get_effective_cpu_isa();
  return isa == dnnl::cpu_isa::avx2_vnni || isa == dnnl::cpu_isa::avx2_vnni_2;
}
bool has_bf16() {
  return has_vnni() && !has_vnni_of_256_bits() && dnnl::get_effective_cpu_isa() != dnnl::cpu_isa::avx512_core_vnni;
}

class OneDnnSteps : public StepBackend {
 public:
  std::string_view name() const override { return "onednn"; }
  bool has(PlanStep::Kind) const override { return true; }
  bool has_floats() const override { return true; }
  std::string bf16_obstacle() const override {
    if (has_bf16()) return "";
    return "this processor has no bfloat16 instructions (AVX-512 BF16 or AMX); float32 is computed and rounded, which "
           "takes longer than float32 alone";
  }
  bool int8_saturates() const override { return !has_vnni(); }

  Compiled compile(const Plan& plan, const PlanStep& step) override {
    using Kind = PlanStep::Kind;
    omp_set_num_threads(num_threads());  // for regions that OpenMP runs itself
    const onednn::OpenMpRegions regions(onednn::OpenMpRegions::Threads::kIndependent);
    for (const size_t buffer : step.inputs)
      if (numel_of(plan.buffers[buffer].sizes) == 0) return "an empty input";
    if (numel_of(plan.buffers[step.output].sizes) == 0) return "an empty output";
    if (!has_bf16() && onednn::is_in_bf16(plan, step))
      return onednn::widened(plan, step, [this](const Plan& floats, const PlanStep& in_floats) {
        Compiled compiled = compile(floats, in_floats);
        return compiled.index() == 0 ? std::move(compiled) : simd_->compile(floats, in_floats);
      });
    // Two products of at most 127 * 128 fit 16 bits, but up to AVX2 the portable kernels take these, too: on an AMD
    // EPYC (Zen 3) they are 1.4 times as fast for ResNet-18 and EfficientNet-B0, and as fast for MobileNetV2 and
    // SqueezeNet.
    const bool is_wide = dnnl::get_effective_cpu_isa() == dnnl::cpu_isa::avx512_core;
    if (!has_vnni() && largest_factor(plan, step) > (is_wide ? 127 : 0))
      return "this processor has no VNNI, without which the portable kernels are exact and faster";
    const bool is_bf16 = plan.buffers[step.inputs[0]].dtype == DType::kBF16;
    // Measured on SqueezeNet: 3 times as long for its concatenations and its max pools.
    const bool moves_bytes = plan.buffers[step.output].dtype == DType::kU8;
    try {
      switch (step.kind()) {
        case Kind::kConvolution:
        case Kind::kLinear:
          if (is_gated(plan, step)) return gated(plan, step);
          return product(plan, step);
        case Kind::kDynamicLinear:
        case Kind::kDynamicConvolution: return dynamic_product(plan, step);
        case Kind::kMaxPool: return moves_bytes ? Compiled("the portable kernel is faster") : max_pool(plan, step);
        case Kind::kAveragePool: return average_pool(plan, step);
        case Kind::kAdd: return is_bf16 ? onednn::bf16_binary(plan, step) : binary(plan, step);
        case Kind::kConcat: return moves_bytes ? Compiled("the portable kernel is faster") : concat(plan, step);
        case Kind::kDequantize:
          return is_bf16 && step.activation.kind != Activation::Kind::kNone ? onednn::bf16_activation(plan, step)
                                                                            : convert(plan, step);
        case Kind::kArrange:
          return simd::moves_rows(plan, step) ? Compiled("the portable kernel is faster") : arrange(plan, step);
        case Kind::kLayerNorm:
          if (step.as<PlanStep::LayerNorm>().roundings.any()) return "roundings inside it";
          return onednn::layer_norm(plan, step);
        case Kind::kAttention: return onednn::attention(plan, step);
        // Measured: 0.11 ms against 0.05 for an image of 3 x 224 x 224, and 1.5 times as long for the products of
        // EfficientNet.
        case Kind::kQuantize:
          return is_bf16 ? onednn::bf16_quantize(plan, step) : Compiled("the portable kernel is faster");
        case Kind::kMul: return is_bf16 ? onednn::bf16_binary(plan, step) : Compiled("the portable kernel is faster");
        case Kind::kCopy: return copy(plan, step);
        case Kind::kPrelu: return "the portable kernel does it";
        case Kind::kMap: return "it only moves bytes";
        case Kind::kDynamicRound: return "it only rounds";
        case Kind::kGroupLinear: return "its weights are packed in groups";
        case Kind::kRotary: return "the portable kernel is the only one";
      }
      return "an unknown kind of step";
    } catch (const dnnl::error& error) {
      if (error.status == dnnl_out_of_memory) throw Error(ErrorCode::kOutOfMemory, "oneDNN ran out of memory");
      return qdq::concat("oneDNN has no primitive for it (", error.what(), ")");
    }
  }

 private:
  Compiled product(const Plan& plan, const PlanStep& step) {
    if (step.kind() == PlanStep::Kind::kConvolution)
      return has_float_weight(step) ? onednn::float_convolution(plan, step, weights_) : convolution(plan, step);
    return has_float_weight(step) ? onednn::float_linear(plan, step, weights_) : linear(plan, step);
  }

  // Not a float product that stays f32: the table's error of 2e-5 is below a step of u8, but not below what a float
  // model may be off.
  static bool is_gated(const Plan& plan, const PlanStep& step) {
    const DType out = plan.buffers[step.output].dtype;
    const bool stays_float = has_float_weight(step) && out == DType::kF32;
    const PlanStep::Convolution* convolution = step.convolution();
    if (convolution != nullptr && convolution->is_of_volumes()) return false;
    return step.inputs.size() == 1 && out != DType::kBF16 && !stays_float &&
           GatedStep::table_of(step.activation.kind) != nullptr && kernel::gates_are_fast();
  }
  Compiled gated(const Plan& plan, const PlanStep& step) {
    Plan part;
    part.buffers = {plan.buffers[step.inputs[0]], plan.buffers[step.output]};
    PlanBuffer &in = part.buffers[0], &out = part.buffers[1];
    kernel::Requantize to;
    to.out_is_float = out.dtype == DType::kF32;
    const Requantization formula = requantization(plan, step);
    to.inverse_scale = formula.inverse_scale;
    to.zero_point = formula.zero_point;
    to.low = formula.low;
    to.high = formula.high;
    GatedStep::Portion extents;
    if (step.kind() == PlanStep::Kind::kConvolution) {
      constexpr int64_t kCached = 1 << 18;  // elements
      const auto split = [&](size_t axis) {
        const int64_t size = out.sizes[axis], most = std::max<int64_t>(1, kCached / (numel_of(out.sizes) / size));
        int64_t parts = 1;
        while (size % parts != 0 || size / parts > most) ++parts;
        in.sizes[axis] = out.sizes[axis] = size / parts;
        extents.count *= parts;
      };
      split(0);
      // Where a window is one pixel, rows are as good as images: 0.05 ms less for 96 channels of 112 x 112.
      const Window2d& w = step.as<PlanStep::Convolution>().window;
      if (out.sizes[0] == 1 && w.kernel_h == 1 && w.kernel_w == 1 &&
          in.sizes == Shape{1, in.sizes[1], out.sizes[2], out.sizes[3]})
        split(2);
    }
    extents.elements = numel_of(out.sizes);
    extents.in_bytes = in.bytes();
    extents.out_bytes = out.bytes();
    out.dtype = DType::kF32;
    out.qparams = {};
    PlanStep bare = step;
    bare.activation = {};
    bare.inputs = {0};
    bare.output = 1;
    Compiled compiled = product(part, bare);
    if (compiled.index() == 1) return compiled;
    return std::make_unique<GatedStep>(std::move(std::get<0>(compiled)), *GatedStep::table_of(step.activation.kind),
                                       std::move(to), extents);
  }

  // What a convolution and a matrix product have in common behind their sum.
  struct Product {
    primitive_attr attr = plain_attr();
    std::vector<float> multiplier, offset;
    bool accumulates = false;   // the residual, onto the output
    int residual_post_op = -1;  // or by a post-op that reads it
    bool has_output_scale = false;
    float output_scale = 1;
    int32_t output_zero_point = 0;
  };

  static Product product_of(const Plan& plan, const PlanStep& step, int weight_mask) {
    const PlanBuffer& out = plan.buffers[step.output];
    const bool is_u8 = out.dtype == DType::kU8;
    Requantization to = requantization(plan, step);
    Product product;
    dnnl::post_ops ops;
    const PlanBuffer* residual = step.inputs.size() > 1 ? &plan.buffers[step.inputs[1]] : nullptr;
    if (residual != nullptr && residual->dtype != out.dtype && is_u8) {
      // A residual in f32 is added in reals, so nothing may be folded.
      PlanStep unfolded = step;
      Plan reals = plan;
      reals.buffers[step.output].dtype = DType::kF32;
      const Requantization in_reals = requantization(reals, unfolded);
      to.multiplier = in_reals.multiplier;
      to.offset = in_reals.offset;
      to.inverse_scale = static_cast<float>(1.0 / out.qparams.scale);
      product.residual_post_op = ops.len();
      ops.append_binary(algorithm::binary_add, desc_of(*residual));
      append_activation(ops, step.activation);
      product.has_output_scale = true;
    } else {
      if (residual != nullptr) {
        product.accumulates = true;
        ops.append_sum(to.residual_multiplier, residual->dtype == DType::kU8 ? residual->qparams.zero_point : 0,
                       data_type(residual->dtype));
      }
      append_activation(ops, to.activation);
      product.has_output_scale = is_u8 && to.activation.kind != Activation::Kind::kNone;
      if (!product.has_output_scale) append_bounds(ops, to, is_u8);
    }
    if (is_u8 && to.zero_point != 0) {
      // The primitive adds the zero point before it rounds, where a sum near 128 has lost up to 7 bits behind the
      // binary point: one value in 200,000 went to its neighbour. So it is rounded before.
      if (product.has_output_scale) ops.append_eltwise(algorithm::eltwise_linear, to.inverse_scale, 0);
      product.has_output_scale = false;
      ops.append_eltwise(algorithm::eltwise_round, 0, 0);
    }
    product.multiplier = std::move(to.multiplier);
    product.offset = std::move(to.offset);
    product.attr.set_post_ops(ops);
    product.attr.set_scales_mask(DNNL_ARG_WEIGHTS, weight_mask);
    if (product.has_output_scale) {
      product.output_scale = static_cast<float>(out.qparams.scale);
      product.attr.set_scales_mask(DNNL_ARG_DST, 0);
    }
    if (is_u8 && to.zero_point != 0) {
      product.output_zero_point = to.zero_point;
      product.attr.set_zero_points_mask(DNNL_ARG_DST, 0);
    }
    return product;
  }

  // Moves the input's zero point into the offsets: sum (x - z) w = sum x w - z sum w. Only where no tap lies outside
  // the image.
  static void fold_zero_point(Product& product, const ProductWeights& weights, int32_t zero_point) {
    const int64_t depth = weights.depth();
    const int8_t* w = weights.values.data<int8_t>();
    for (int64_t c = 0; c < weights.channels(); ++c) {
      int64_t sum = 0;
      for (int64_t k = 0; k < depth; ++k) sum += w[c * depth + k];
      float& offset = product.offset[static_cast<size_t>(c)];
      const double multiplier = product.multiplier[static_cast<size_t>(c)];
      offset = static_cast<float>(static_cast<double>(offset) - static_cast<double>(zero_point * sum) * multiplier);
    }
  }

  static void bind_product(PrimitiveStep& compiled, const Plan& plan, const PlanStep& step, const Product& product,
                           const memory::desc& x, const memory::desc& out, const memory::desc& bias) {
    compiled.bind_input(DNNL_ARG_SRC, 0, x);
    compiled.bind_output(out);
    memory offsets(bias, engine());
    std::memcpy(offsets.get_data_handle(), product.offset.data(), product.offset.size() * sizeof(float));
    compiled.bind(DNNL_ARG_BIAS, offsets);
    compiled.bind(DNNL_ARG_ATTR_SCALES | DNNL_ARG_WEIGHTS, constants(product.multiplier));
    if (product.has_output_scale) compiled.bind(DNNL_ARG_ATTR_SCALES | DNNL_ARG_DST, constants({product.output_scale}));
    if (product.output_zero_point != 0)
      compiled.bind(DNNL_ARG_ATTR_ZERO_POINTS | DNNL_ARG_DST, constant(product.output_zero_point));
    if (product.accumulates) compiled.set_accumulated_input(1, static_cast<size_t>(plan.buffers[step.output].bytes()));
    if (product.residual_post_op >= 0)
      compiled.bind_input(DNNL_ARG_ATTR_MULTIPLE_POST_OP(product.residual_post_op) | DNNL_ARG_SRC_1, 1,
                          desc_of(plan.buffers[step.inputs[1]]));
  }

  Compiled convolution(const Plan& plan, const PlanStep& step) {
    const PlanBuffer &in = plan.buffers[step.inputs[0]], &out = plan.buffers[step.output];
    if (step.inputs.size() > 1 && out.dtype == DType::kF32 && plan.buffers[step.inputs[1]].dtype == DType::kU8)
      return "a u8 residual of an f32 result";
    const PlanStep::Convolution& conv = *step.convolution();
    const Window2d& w = conv.window;
    const Dims padding_end = padding_behind(w, in.sizes, out.sizes);
    if (onednn::has_wrong_sums(plan, step, conv)) return onednn::kWrongSums;
    // Measured: 0.15 ms against 0.30 for 144 channels of 56 x 56, where the level is AVX2_VNNI.
    if (conv.groups > 1 && conv.weights.values.size(1) == 1 && has_vnni_of_256_bits())
      return "with vectors of 256 bits the portable kernel is faster";
    // A post-op that reads the residual, and the sums of one channel, are tried on images alone.
    if (conv.is_of_volumes() && step.inputs.size() > 1 && plan.buffers[step.inputs[1]].dtype != out.dtype)
      return "volumes beside a residual of another dtype";
    if (conv.is_of_volumes() && conv.weights.values.size(1) == 1) return "volumes of one channel in each group";
    Product product = product_of(plan, step, conv.groups > 1 ? 3 : 1);
    const int32_t zero_point = in.qparams.zero_point;
    const bool is_padded =
        w.pad_h > 0 || w.pad_w > 0 || padding_end[0] > 0 || padding_end[1] > 0 || conv.frames.pad > 0;
    if (zero_point != 0 && is_padded) product.attr.set_zero_points_mask(DNNL_ARG_SRC, 0);
    else if (zero_point != 0) fold_zero_point(product, conv.weights, zero_point);
    auto compiled = convolution_of(plan, step, product);
    if (zero_point != 0 && is_padded) compiled->bind(DNNL_ARG_ATTR_ZERO_POINTS | DNNL_ARG_SRC, constant(zero_point));
    return compiled;
  }
  // The primitive for an image in u8.
  std::unique_ptr<PrimitiveStep> convolution_of(const Plan& plan, const PlanStep& step, const Product& product) {
    PlanBuffer in = plan.buffers[step.inputs[0]];
    in.dtype = DType::kU8;
    const PlanBuffer& out = plan.buffers[step.output];
    const PlanStep::Convolution& conv = *step.convolution();
    const Window2d& w = conv.window;
    const Dims kernel = onednn::weight_dims(conv);
    memory::desc x = desc_of(in), y = desc_of(out);
    const memory::desc bias({conv.weights.channels()}, memory::data_type::f32, memory::format_tag::a),
        weights(kernel, memory::data_type::s8, memory::format_tag::any);
    Dims strides{w.stride_h, w.stride_w}, dilation{w.dilation_h - 1, w.dilation_w - 1}, padding{w.pad_h, w.pad_w},
        padding_end = padding_behind(w, in.sizes, out.sizes);
    if (conv.is_of_volumes()) {
      const kernel::FrameWindow& f = conv.frames;
      x = onednn::volumes_of(x, f.in);
      y = onednn::volumes_of(y, f.out);
      strides.insert(strides.begin(), f.stride);
      dilation.insert(dilation.begin(), f.dilation - 1);
      padding.insert(padding.begin(), f.pad);
      padding_end.insert(padding_end.begin(), (f.out - 1) * f.stride + (f.kernel - 1) * f.dilation + 1 - f.in - f.pad);
    }
    dnnl::convolution_forward::primitive_desc desc(engine(), dnnl::prop_kind::forward_inference,
                                                   algorithm::convolution_direct, x, weights, bias, y, strides,
                                                   dilation, padding, padding_end, product.attr);
    onednn::avoid_wrong_tiles(desc);
    auto compiled = step_of<dnnl::convolution_forward>(desc);
    bind_product(*compiled, plan, step, product, x, y, bias);
    const memory::desc plain(kernel, memory::data_type::s8, contiguous_strides(kernel));
    compiled->bind(DNNL_ARG_WEIGHTS, weights_.get(conv.weights.values, plain, desc.weights_desc()));
    return compiled;
  }

  Compiled linear(const Plan& plan, const PlanStep& step) {
    const PlanBuffer &in = plan.buffers[step.inputs[0]], &out = plan.buffers[step.output];
    if (step.inputs.size() > 1 && plan.buffers[step.inputs[1]].dtype != out.dtype)
      return "a residual of another dtype than the result";
    Product product = product_of(plan, step, 2);
    if (in.qparams.zero_point != 0) fold_zero_point(product, *step.weights(), in.qparams.zero_point);
    return matmul_of(plan, step, product);
  }
  // The primitive for rows in u8.
  std::unique_ptr<PrimitiveStep> matmul_of(const Plan& plan, const PlanStep& step, const Product& product) {
    const ProductWeights& weights = *step.weights();
    const int64_t oc = weights.channels(), depth = weights.depth(),
                  rows = numel_of(plan.buffers[step.inputs[0]].sizes) / depth;
    const memory::desc x({rows, depth}, memory::data_type::u8, memory::format_tag::ab),
        y({rows, oc}, data_type(plan.buffers[step.output].dtype), memory::format_tag::ab);
    const memory::desc bias({1, oc}, memory::data_type::f32, memory::format_tag::ab);
    const dnnl::matmul::primitive_desc desc(engine(), x, {{depth, oc}, memory::data_type::s8, memory::format_tag::any},
                                            bias, y, product.attr);
    auto compiled = step_of<dnnl::matmul>(desc);
    bind_product(*compiled, plan, step, product, x, y, bias);
    const memory::desc plain({depth, oc}, memory::data_type::s8, Dims{1, depth});
    compiled->bind(DNNL_ARG_WEIGHTS, weights_.get(weights.values, plain, desc.weights_desc()));
    return compiled;
  }

  Compiled dynamic_product(const Plan& plan, const PlanStep& step) {
    if (plan.buffers[step.output].dtype != DType::kF32) return "a result that is not f32";
    if (step.inputs.size() > 1 && plan.buffers[step.inputs[1]].dtype != DType::kF32)
      return "a residual that is not f32";
    const PlanStep::Convolution* convolution = step.convolution();
    if (convolution != nullptr && onednn::has_wrong_sums(plan, step, *convolution)) return onednn::kWrongSums;
    Product product = product_of(plan, step, convolution == nullptr ? 2 : convolution->groups > 1 ? 3 : 1);
    product.attr.set_scales_mask(DNNL_ARG_SRC, 0);
    product.attr.set_zero_points_mask(DNNL_ARG_SRC, 0);
    auto compiled = convolution != nullptr ? convolution_of(plan, step, product) : matmul_of(plan, step, product);
    const memory scale = constants({1.0f}), zero_point = constant(0);
    compiled->bind(DNNL_ARG_ATTR_SCALES | DNNL_ARG_SRC, scale);
    compiled->bind(DNNL_ARG_ATTR_ZERO_POINTS | DNNL_ARG_SRC, zero_point);
    return std::make_unique<DynamicProductStep>(std::move(compiled), *step.range(),
                                                numel_of(plan.buffers[step.inputs[0]].sizes), scale, zero_point);
  }

  static Compiled pool(const Window2d& w, algorithm how, const memory::desc& x, const memory::desc& y) {
    const Dims in = x.get_dims(), out = y.get_dims();
    const Dims padding_end = padding_behind(w, in, out);
    const dnnl::pooling_forward::primitive_desc desc(
        engine(), dnnl::prop_kind::forward_inference, how, x, y, {w.stride_h, w.stride_w}, {w.kernel_h, w.kernel_w},
        {w.dilation_h - 1, w.dilation_w - 1}, {w.pad_h, w.pad_w}, padding_end, plain_attr());
    auto compiled = step_of<dnnl::pooling_forward>(desc);
    compiled->bind_input(DNNL_ARG_SRC, 0, x);
    compiled->bind_output(y);
    return compiled;
  }
  static Compiled max_pool(const Plan& plan, const PlanStep& step) {
    return pool(step.as<PlanStep::MaxPool>().window, algorithm::pooling_max, desc_of(plan.buffers[step.inputs[0]]),
                desc_of(plan.buffers[step.output]));
  }
  static Compiled average_pool(const Plan& plan, const PlanStep& step) {
    const PlanBuffer &in = plan.buffers[step.inputs[0]], &out = plan.buffers[step.output];
    const PlanStep::AveragePool& average = step.as<PlanStep::AveragePool>();
    const Window2d& w = average.window;
    const bool is_padded = w.pad_h > 0 || w.pad_w > 0;
    if (average.divisor_override != 0) return "a divisor of its own";
    if (average.rounding) return "a rounding in front of it";
    if (step.activation.kind != Activation::Kind::kNone) return "an activation";
    if (in.dtype != out.dtype || (in.dtype == DType::kU8 && in.qparams != out.qparams))
      return "other qparams behind it";
    if (is_padded && (average.count_include_pad || in.dtype == DType::kU8)) return "padding that counts";
    return pool(w, algorithm::pooling_avg_exclude_padding, desc_of(in), desc_of(out));
  }

  static Compiled binary(const Plan& plan, const PlanStep& step) {
    const PlanBuffer &a = plan.buffers[step.inputs[0]], &b = plan.buffers[step.inputs[1]],
                     &out = plan.buffers[step.output];
    const Requantization to = requantization(plan, step);
    const bool is_u8 = out.dtype == DType::kU8;
    if (is_u8 && to.activation.kind != Activation::Kind::kNone) return "an activation in reals before the rounding";
    // The primitive broadcasts its second source only.
    const size_t whole = a.sizes == out.sizes ? 0 : 1, other = 1 - whole;
    const PlanBuffer &first = whole == 0 ? a : b, &second = whole == 0 ? b : a;
    if (first.sizes != out.sizes) return "both operands are broadcast";
    if (second.sizes.size() != out.sizes.size()) return "an operand of lower rank";
    primitive_attr attr = plain_attr();
    attr.set_scales_mask(DNNL_ARG_SRC_0, 0);
    attr.set_scales_mask(DNNL_ARG_SRC_1, 0);
    const auto shift_of = [&](const PlanBuffer& buffer, size_t i) {
      return buffer.dtype == DType::kU8 ? static_cast<float>(-buffer.qparams.zero_point) * to.multiplier[i] : 0.0f;
    };
    // The primitive takes zero points off behind the sum, which by then has lost what is small beside them: the scores
    // that a mask of -1e9 is added to.
    constexpr float kMostShift = 1 << 14;  // floats of this size are 2^-9 apart
    if (std::max(std::fabs(shift_of(a, 0)), std::fabs(shift_of(b, 1))) > kMostShift) return "a large zero point";
    const float shift = shift_of(a, 0) + shift_of(b, 1);
    dnnl::post_ops ops;
    if (shift != 0) ops.append_eltwise(algorithm::eltwise_linear, 1, shift);
    append_activation(ops, to.activation);
    append_bounds(ops, to, is_u8);
    if (is_u8 && to.zero_point != 0) {
      ops.append_eltwise(algorithm::eltwise_round, 0, 0);
      ops.append_eltwise(algorithm::eltwise_linear, 1, static_cast<float>(to.zero_point));
    }
    attr.set_post_ops(ops);
    const dnnl::binary::primitive_desc desc(engine(), algorithm::binary_add, desc_of(first), desc_of(second),
                                            desc_of(out), attr);
    if (std::string_view(desc.impl_info_str()).starts_with("ref")) return "oneDNN runs it in a plain loop";
    auto compiled = step_of<dnnl::binary>(desc);
    compiled->bind_input(DNNL_ARG_SRC_0, whole, desc_of(first));
    compiled->bind_input(DNNL_ARG_SRC_1, other, desc_of(second));
    compiled->bind(DNNL_ARG_ATTR_SCALES | DNNL_ARG_SRC_0, constants({to.multiplier[whole]}));
    compiled->bind(DNNL_ARG_ATTR_SCALES | DNNL_ARG_SRC_1, constants({to.multiplier[other]}));
    compiled->bind_output(desc_of(out));
    return compiled;
  }

  static Compiled concat(const Plan& plan, const PlanStep& step) {
    const PlanBuffer& out = plan.buffers[step.output];
    // oneDNN numbers the sources from one name, and what else a primitive takes has the numbers behind them.
    constexpr size_t kMostSources = DNNL_ARG_MULTIPLE_DST - DNNL_ARG_MULTIPLE_SRC;
    if (step.inputs.size() > kMostSources) return "more inputs than oneDNN has names for";
    std::vector<memory::desc> sources;
    for (const size_t input : step.inputs) {
      const PlanBuffer& in = plan.buffers[input];
      if (in.dtype != out.dtype || (in.dtype == DType::kU8 && in.qparams != out.qparams))
        return "an input with other qparams";
      sources.push_back(desc_of(in));
    }
    if (step.activation.kind != Activation::Kind::kNone) return "an activation";
    const dnnl::concat::primitive_desc desc(engine(), desc_of(out), static_cast<int>(step.as<PlanStep::Concat>().axis),
                                            sources, plain_attr());
    auto compiled = step_of<dnnl::concat>(desc);
    for (size_t i = 0; i < sources.size(); ++i)
      compiled->bind_input(DNNL_ARG_MULTIPLE_SRC + static_cast<int>(i), i, sources[i]);
    compiled->bind_output(desc_of(out));
    return compiled;
  }

  static Compiled convert(const Plan& plan, const PlanStep& step) {
    const PlanBuffer &in = plan.buffers[step.inputs[0]], &out = plan.buffers[step.output];
    const memory::desc x = desc_of(in), y = desc_of(out);
    primitive_attr attr = plain_attr();
    if (step.activation.kind != Activation::Kind::kNone) return "an activation";
    const float scale = requantization(plan, step).multiplier[0];
    const int32_t zero_point = in.dtype == DType::kU8 ? in.qparams.zero_point : 0;
    attr.set_scales_mask(DNNL_ARG_SRC, 0);
    if (zero_point != 0) attr.set_zero_points_mask(DNNL_ARG_SRC, 0);
    auto compiled = step_of<dnnl::reorder>(dnnl::reorder::primitive_desc(engine(), x, engine(), y, attr));
    compiled->bind_input(DNNL_ARG_SRC, 0, x);
    compiled->bind_output(y);
    compiled->bind(DNNL_ARG_ATTR_SCALES | DNNL_ARG_SRC, constants({scale}));
    if (zero_point != 0) compiled->bind(DNNL_ARG_ATTR_ZERO_POINTS | DNNL_ARG_SRC, constant(zero_point));
    return compiled;
  }
  static Compiled arrange(const Plan& plan, const PlanStep& step) {
    const memory::desc x = desc_of(plan.buffers[step.inputs[0]]), y = desc_of(plan.buffers[step.output]);
    auto compiled = step_of<dnnl::reorder>(dnnl::reorder::primitive_desc(engine(), x, engine(), y, plain_attr()));
    compiled->bind_input(DNNL_ARG_SRC, 0, x);
    compiled->bind_output(y);
    return compiled;
  }

  // An image of floats as other sizes in C order; of u8 the portable kernel moves the bytes faster.
  static Compiled copy(const Plan& plan, const PlanStep& step) {
    const PlanBuffer &in = plan.buffers[step.inputs[0]], &out = plan.buffers[step.output];
    if (in.dtype == DType::kU8 || in.sizes.size() != 4 || out.channels_last) return "it only moves bytes";
    const memory::desc x = desc_of(in), y(in.sizes, data_type(in.dtype), memory::format_tag::abcd);
    auto compiled = step_of<dnnl::reorder>(dnnl::reorder::primitive_desc(engine(), x, engine(), y, plain_attr()));
    compiled->bind_input(DNNL_ARG_SRC, 0, x);
    compiled->bind_output(y);
    return compiled;
  }

  PackedWeights weights_;
  std::unique_ptr<StepBackend> simd_ = make_simd_steps();  // for steps in floats that it does in place of bf16
};

}  // namespace

std::unique_ptr<StepBackend> make_onednn_steps() { return std::make_unique<OneDnnSteps>(); }

}  // namespace qdq
