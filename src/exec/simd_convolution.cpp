// Convolutions of the portable float backend: of images by the kernel itself, of volumes and transposed ones by several
// calls of it.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "exec/convolution.h"
#include "exec/simd.h"
#include "kernel/conv.h"
#include "op/facts.h"
#include "op/targets.h"

namespace qdq {
namespace {

// aten.conv1d, aten.conv2d and aten.convolution on f32; padding given as numbers.
class SimdConvolution : public CompiledOp {
 public:
  SimdConvolution(bool general, bool packs_once) : general_(general), packs_once_(packs_once) {}

  Value run(const Call<Tensor>& call) override { return run(call, nullptr); }
  Value run(const Call<Tensor>& call, Tail& tail) override { return run(call, &tail); }

 private:
  Value run(const Call<Tensor>& call, Tail* tail) {
    const std::optional<FloatConvolution> conv = float_convolution(call, general_);
    if (!conv || conv->axes == 3)
      return run_reference(call, "its numbers, sizes or dtypes are not those of a convolution of images");
    const Tensor &given = call.tensor(0), &weight = call.tensor(1);
    const Tensor* bias = call.optional_tensor(2);
    const kernel::Conv2d sizes{given.size(1),    weight.size(0),    conv->groups,     conv->kernel[1],
                               conv->kernel[2],  conv->stride[1],   conv->stride[2],  conv->padding[1],
                               conv->padding[2], conv->dilation[1], conv->dilation[2]};
    const Tensor x = given.contiguous();
    const Tensor b = bias ? bias->contiguous() : Tensor();
    const float* biases = b.defined() ? b.data<float>() : nullptr;
    const Tensor out = uninitialized(conv->sizes, DType::kF32);
    std::function<void(int64_t, int64_t)> written;
    if (tail != nullptr && tail->begin(out, true))
      written = [tail](int64_t begin, int64_t count) { tail->written(begin, count); };
    const int64_t in_h = conv->in[1], in_w = conv->in[2], out_h = conv->out[1], out_w = conv->out[2];
    if (kernel::takes_winograd(sizes, out_h, out_w)) {
      const Tensor w = weight.contiguous();
      kernel::winograd_conv2d_f32(sizes, x.data<float>(), x.size(0), in_h, in_w, w.data<float>(), biases, out_h, out_w,
                                  out.data<float>(), written);
      return out;
    }
    // For so many pixels packing is less than a hundredth of the work, and a packed weight that is kept is a copy of it
    // in memory.
    constexpr int64_t kImages = 4, kPixels = 512;
    const bool keep = packs_once_ && (x.size(0) < kImages || x.size(0) * out_h * out_w < kPixels);
    const kernel::PackedConv2d packed =
        packed_.get(weight, keep, [&](const Tensor& w) { return kernel::pack_conv2d_f32(sizes, w.data<float>()); });
    kernel::conv2d_f32(x.data<float>(), x.size(0), in_h, in_w, packed, biases, out_h, out_w, out.data<float>(),
                       written);
    return out;
  }

  bool general_, packs_once_;
  PackedWeight<kernel::PackedConv2d> packed_;
};

// Settings of an axis.
struct Axis {
  int64_t in, kernel, stride, padding, dilation, out;
};

void set_axes(const FloatConvolution& conv, Axis* axes) {
  for (size_t i = 0; i < 3; ++i)
    axes[i] = {conv.in[i], conv.kernel[i], conv.stride[i], conv.padding[i], conv.dilation[i], conv.out[i]};
}

// aten.conv3d, and aten.convolution over three axes. The slices of the input lie in a copy so that those under the
// kernel follow each other: they are the channels of one image. A sum goes over (kd, c, kh, kw).
class SimdVolumeConvolution : public CompiledOp {
 public:
  using CompiledOp::run;
  SimdVolumeConvolution(bool general, bool packs_once) : general_(general), packs_once_(packs_once) {}

  Value run(const Call<Tensor>& call) override {
    const std::optional<FloatConvolution> conv = float_convolution(call, general_);
    if (!conv || conv->axes != 3)
      return run_reference(call, "its numbers, sizes or dtypes are not those of a convolution of volumes");
    Axis axes[3];
    set_axes(*conv, axes);
    for (Axis& axis : axes)
      if (axis.kernel == 1) axis.dilation = 1;
    const Tensor* bias = call.optional_tensor(2);
    return compute(call.tensor(0), call.tensor(1), bias ? bias->contiguous() : Tensor(), conv->groups, axes);
  }

 private:
  struct Packed {
    std::vector<kernel::PackedConv2d> groups;
  };

  static Packed pack(const Tensor& weight, int64_t groups, const Axis* axes) {
    // [O, C, KD, KH, KW] -> [O, KD, C, KH, KW]
    const Tensor turned = weight.transpose(1, 2).contiguous();
    kernel::Conv2d conv;
    conv.in_channels = axes[0].kernel * weight.size(1);
    conv.out_channels = weight.size(0) / groups;
    conv.kernel_h = axes[1].kernel, conv.kernel_w = axes[2].kernel;
    conv.stride_h = axes[1].stride, conv.stride_w = axes[2].stride;
    conv.pad_h = axes[1].padding, conv.pad_w = axes[2].padding;
    conv.dilation_h = axes[1].dilation, conv.dilation_w = axes[2].dilation;
    Packed out;
    for (int64_t group = 0; group < groups; ++group)
      out.groups.push_back(kernel::pack_conv2d_f32(conv, turned.data<float>() + group * (turned.numel() / groups)));
    return out;
  }

  Tensor compute(const Tensor& given, const Tensor& weight, const Tensor& bias, int64_t groups, const Axis* axes) {
    const Packed packed = packed_.get(weight, packs_once_, [&](const Tensor& w) { return pack(w, groups, axes); });
    const Tensor x = given.contiguous();
    const Axis& depth = axes[0];
    const int64_t batch = x.size(0), channels = x.size(1) / groups, outputs = weight.size(0) / groups;
    const int64_t plane = axes[1].in * axes[2].in, slice = channels * plane, out_plane = axes[1].out * axes[2].out;
    // Slices that are `dilation` apart lie behind each other: those of the places r, r + dilation, ... for each r.
    const int64_t padded = depth.in + 2 * depth.padding, rows = (padded + depth.dilation - 1) / depth.dilation;
    const auto row_of = [&](int64_t place) { return place % depth.dilation * rows + place / depth.dilation; };
    const Tensor slices = Tensor::empty({rows * depth.dilation, channels, axes[1].in, axes[2].in}, DType::kF32);
    const Tensor image = uninitialized({outputs, axes[1].out, axes[2].out}, DType::kF32);
    const Tensor out = uninitialized({batch, weight.size(0), depth.out, axes[1].out, axes[2].out}, DType::kF32);
    for (int64_t n = 0; n < batch; ++n)
      for (int64_t group = 0; group < groups; ++group) {
        const float* from = x.data<float>() + (n * groups + group) * channels * depth.in * plane;
        for (int64_t d = 0; d < depth.in; ++d)
          for (int64_t c = 0; c < channels; ++c)
            std::memcpy(slices.data<float>() + row_of(d + depth.padding) * slice + c * plane,
                        from + (c * depth.in + d) * plane, static_cast<size_t>(plane) * sizeof(float));
        float* to = out.data<float>() + (n * groups + group) * outputs * depth.out * out_plane;
        for (int64_t d = 0; d < depth.out; ++d) {
          kernel::conv2d_f32(slices.data<float>() + row_of(d * depth.stride) * slice, 1, axes[1].in, axes[2].in,
                             packed.groups[static_cast<size_t>(group)],
                             bias.defined() ? bias.data<float>() + group * outputs : nullptr, axes[1].out, axes[2].out,
                             image.data<float>());
          for (int64_t o = 0; o < outputs; ++o)
            std::memcpy(to + (o * depth.out + d) * out_plane, image.data<float>() + o * out_plane,
                        static_cast<size_t>(out_plane) * sizeof(float));
        }
      }
    return out;
  }

  bool general_, packs_once_;
  PackedWeight<Packed> packed_;
};

// The places of an axis of the output that are a stride apart, which the same taps of the kernel reach: a convolution
// of stride 1 with those taps, in reverse.
struct Phase {
  int64_t first, count;     // places of the output: first, first + stride, ...
  int64_t tap, step, taps;  // of the kernel: tap, tap + step, ...
  int64_t dilation, begin;  // steps in the input; where the input of the first place begins, maybe before it
};

std::vector<Phase> phases_of(const Axis& axis) {
  const int64_t divisor = std::gcd(axis.dilation, axis.stride), step = axis.stride / divisor;
  std::vector<Phase> out;
  for (int64_t first = 0; first < axis.stride; ++first) {
    const int64_t count = std::max<int64_t>(0, (axis.out - first + axis.stride - 1) / axis.stride);
    Phase phase{first, count, 0, step, 0, axis.dilation / divisor, 0};
    while (phase.tap < std::min(step, axis.kernel) &&
           (first + axis.padding - phase.tap * axis.dilation) % axis.stride != 0)
      ++phase.tap;
    if (phase.tap < std::min(step, axis.kernel)) {
      phase.taps = (axis.kernel - phase.tap + step - 1) / step;
      phase.begin =
          (first + axis.padding - phase.tap * axis.dilation) / axis.stride - (phase.taps - 1) * phase.dilation;
    }
    out.push_back(phase);
  }
  return out;
}

// Images under a transposed convolution: a convolution for each way in which places of the output can lie between those
// of the input. A sum goes over (c, kh, kw), the taps in reverse.
class TransposedImages {
 public:
  explicit TransposedImages(bool packs_once) : packs_once_(packs_once) {}

  // x[N, C, in, in] and weight[C, O / groups, kernel, kernel] with two axes; the result is [N, O, out, out].
  Tensor compute(const Tensor& given, const Tensor& weight, const Tensor& bias, int64_t groups, const Axis* axes) {
    const std::vector<Phase> downs = phases_of(axes[0]), acrosses = phases_of(axes[1]);
    const Packed packed = packed_.get(weight, packs_once_, [&](const Tensor& w) {
      Packed all;
      for (const Phase& down : downs)
        for (const Phase& across : acrosses)
          all.phases.push_back(down.taps * across.taps == 0 ? kernel::PackedConv2d()
                                                            : pack(w, groups, axes, down, across));
      return all;
    });
    const Tensor x = given.contiguous().reshape({given.size(0), given.size(1), axes[0].in, axes[1].in});
    const int64_t batch = x.size(0), outputs = weight.size(1) * groups;
    const Tensor out = uninitialized({batch, outputs, axes[0].out, axes[1].out}, DType::kF32);
    for (size_t i = 0; i < downs.size(); ++i)
      for (size_t k = 0; k < acrosses.size(); ++k)
        run_phase(x, packed.phases[i * acrosses.size() + k], bias, downs[i], acrosses[k], axes, out);
    return out;
  }

 private:
  struct Packed {
    std::vector<kernel::PackedConv2d> phases;
  };

  // [C, O / groups, KH, KW] -> [O, C / groups, taps, taps], the taps of the phase in reverse.
  static kernel::PackedConv2d pack(const Tensor& weight, int64_t groups, const Axis* axes, const Phase& down,
                                   const Phase& across) {
    const int64_t inputs = weight.size(0) / groups, outputs = weight.size(1);
    kernel::Conv2d conv{weight.size(0), outputs * groups, groups};
    conv.kernel_h = down.taps, conv.kernel_w = across.taps;
    conv.dilation_h = down.dilation, conv.dilation_w = across.dilation;
    conv.pad_h = std::max<int64_t>(0, -down.begin), conv.pad_w = std::max<int64_t>(0, -across.begin);
    const Tensor turned = uninitialized({outputs * groups, inputs, down.taps, across.taps}, DType::kF32);
    float* to = turned.data<float>();
    for (int64_t o = 0; o < outputs * groups; ++o)
      for (int64_t c = 0; c < inputs; ++c) {
        const float* filter = weight.data<float>() +
                              ((o / outputs * inputs + c) * outputs + o % outputs) * axes[0].kernel * axes[1].kernel;
        for (int64_t h = down.taps; h-- > 0;)
          for (int64_t w = across.taps; w-- > 0;)
            *to++ = filter[(down.tap + h * down.step) * axes[1].kernel + across.tap + w * across.step];
      }
    return kernel::pack_conv2d_f32(conv, turned.data<float>());
  }

  static void run_phase(const Tensor& x, const kernel::PackedConv2d& packed, const Tensor& bias, const Phase& down,
                        const Phase& across, const Axis* axes, const Tensor& out) {
    const int64_t planes = out.size(0) * out.size(1), count = down.count * across.count;
    if (count == 0) return;
    Tensor image = uninitialized({planes, down.count, across.count}, DType::kF32);
    // What begins behind the first place of the input is cut off; beyond its end the kernel reads zeros.
    const int64_t top = std::max<int64_t>(0, down.begin), left = std::max<int64_t>(0, across.begin);
    if (down.taps * across.taps == 0 || top >= axes[0].in || left >= axes[1].in) {
      for (int64_t p = 0; p < planes; ++p)
        std::fill_n(image.data<float>() + p * count, count,
                    bias.defined() ? bias.data<float>()[p % out.size(1)] : 0.0f);
    } else {
      const Tensor part = x.slice(2, top, axes[0].in).slice(3, left, axes[1].in).contiguous();
      kernel::conv2d_f32(part.data<float>(), x.size(0), part.size(2), part.size(3), packed,
                         bias.defined() ? bias.data<float>() : nullptr, down.count, across.count, image.data<float>());
    }
    for (int64_t p = 0; p < planes; ++p)
      for (int64_t h = 0; h < down.count; ++h) {
        const float* from = image.data<float>() + (p * down.count + h) * across.count;
        float* to =
            out.data<float>() + (p * axes[0].out + down.first + h * axes[0].stride) * axes[1].out + across.first;
        for (int64_t w = 0; w < across.count; ++w) to[w * axes[1].stride] = from[w];
      }
  }

  bool packs_once_;
  PackedWeight<Packed> packed_;
};

// Volumes under a transposed convolution. Places of the output's depth that lie alike between the slices of the input
// are images of their own: their channels are those of the slices that they take. A sum goes over (kd, c, kh, kw), the
// taps in reverse.
class TransposedVolumes {
 public:
  explicit TransposedVolumes(bool packs_once) : packs_once_(packs_once) {}

  Tensor compute(const Tensor& given, const Tensor& weight, const Tensor& bias, int64_t groups, const Axis* axes) {
    const std::vector<Phase> phases = phases_of(axes[0]);
    const std::vector<Tensor> weights = weights_.get(weight, packs_once_, [&](const Tensor& w) {
      std::vector<Tensor> out;
      for (const Phase& phase : phases) out.push_back(weight_of(w, groups, phase));
      return out;
    });
    const Tensor x = given.contiguous();
    const Tensor out =
        uninitialized({x.size(0), weight.size(1) * groups, axes[0].out, axes[1].out, axes[2].out}, DType::kF32);
    images_.resize(phases.size(), TransposedImages(packs_once_));
    for (size_t i = 0; i < phases.size(); ++i) {
      if (phases[i].count == 0) continue;
      Tensor images;
      if (phases[i].taps > 0)
        images = images_[i].compute(slices_of(x, groups, phases[i]), weights[i], bias, groups, axes + 1);
      store(images, bias, phases[i], axes[0].stride, out);
    }
    return out;
  }

 private:
  // [C, O / groups, KD, KH, KW] -> [groups, taps, C / groups, O / groups, KH, KW], the first three as one.
  static Tensor weight_of(const Tensor& weight, int64_t groups, const Phase& phase) {
    const int64_t inputs = weight.size(0) / groups, outputs = weight.size(1), area = weight.size(3) * weight.size(4);
    const Tensor out =
        uninitialized({groups * phase.taps * inputs, outputs, weight.size(3), weight.size(4)}, DType::kF32);
    float* to = out.data<float>();
    for (int64_t group = 0; group < groups; ++group)
      for (int64_t t = phase.taps; t-- > 0;)
        for (int64_t row = group * inputs * outputs; row < (group + 1) * inputs * outputs; ++row, to += area)
          std::copy_n(weight.data<float>() + (row * weight.size(2) + phase.tap + t * phase.step) * area, area, to);
    return out;
  }

  // [N, C, D, H, W] -> [N, count, groups, taps, C / groups, H, W], the first two as one and the next three; zeros stand
  // for slices beyond the input.
  static Tensor slices_of(const Tensor& x, int64_t groups, const Phase& phase) {
    const int64_t channels = x.size(1), depth = x.size(2), inputs = channels / groups, area = x.size(3) * x.size(4);
    const Tensor out =
        uninitialized({x.size(0) * phase.count, channels * phase.taps, x.size(3), x.size(4)}, DType::kF32);
    float* to = out.data<float>();
    for (int64_t n = 0; n < x.size(0); ++n)
      for (int64_t place = 0; place < phase.count; ++place)
        for (int64_t group = 0; group < groups; ++group)
          for (int64_t t = 0; t < phase.taps; ++t)
            for (int64_t c = 0; c < inputs; ++c, to += area) {
              const int64_t d = phase.begin + place + t * phase.dilation;
              if (d < 0 || d >= depth) std::fill_n(to, area, 0.0f);
              else std::copy_n(x.data<float>() + ((n * channels + group * inputs + c) * depth + d) * area, area, to);
            }
    return out;
  }

  // images[N, count, O, H, W] to out[N, O, D, H, W]; the bias alone where no tap reaches.
  static void store(const Tensor& images, const Tensor& bias, const Phase& phase, int64_t stride, const Tensor& out) {
    const int64_t outputs = out.size(1), area = out.size(3) * out.size(4);
    for (int64_t n = 0; n < out.size(0); ++n)
      for (int64_t place = 0; place < phase.count; ++place)
        for (int64_t o = 0; o < outputs; ++o) {
          float* to = out.data<float>() + ((n * outputs + o) * out.size(2) + phase.first + place * stride) * area;
          if (!images.defined()) std::fill_n(to, area, bias.defined() ? bias.data<float>()[o] : 0.0f);
          else std::copy_n(images.data<float>() + ((n * phase.count + place) * outputs + o) * area, area, to);
        }
  }

  bool packs_once_;
  PackedWeight<std::vector<Tensor>> weights_;
  std::vector<TransposedImages> images_;
};

// aten.conv_transpose1d to 3d, and aten.convolution that is transposed.
class SimdTransposedConvolution : public CompiledOp {
 public:
  using CompiledOp::run;
  SimdTransposedConvolution(bool general, bool packs_once)
      : general_(general), images_(packs_once), volumes_(packs_once) {}

  Value run(const Call<Tensor>& call) override {
    const std::optional<FloatConvolution> conv = float_transposed_convolution(call, general_);
    constexpr int64_t kMostPhases = 64;
    if (!conv || *std::max_element(conv->stride.begin(), conv->stride.end()) > kMostPhases)
      return run_reference(call, "its numbers, sizes or dtypes are not those of a transposed convolution");
    Axis axes[3];
    set_axes(*conv, axes);
    const Tensor &x = call.tensor(0), &weight = call.tensor(1);
    const Tensor* bias = call.optional_tensor(2);
    const Tensor biases = bias ? bias->contiguous() : Tensor();
    if (conv->axes == 3) return volumes_.compute(x, weight, biases, conv->groups, axes);
    return images_.compute(x, weight, biases, conv->groups, axes + 1).reshape(conv->sizes);
  }

 private:
  bool general_;
  TransposedImages images_;
  TransposedVolumes volumes_;
};

}  // namespace

std::unique_ptr<CompiledOp> make_simd_convolution(const Node& node, bool packs_once) {
  const bool general = node.is(op::kConvolution);
  const Node* weight = node.arg(1).node();
  const TensorMeta* meta = weight ? weight->meta.val.tensor() : nullptr;
  if (general ? node.arg(6).integer().value_or(0) != 0 : op_of(node)->family == Family::kTransposedConvolution)
    return std::make_unique<SimdTransposedConvolution>(general, packs_once);
  if (meta != nullptr && meta->sizes.size() == 5) return std::make_unique<SimdVolumeConvolution>(general, packs_once);
  return std::make_unique<SimdConvolution>(general, packs_once);
}

}  // namespace qdq
