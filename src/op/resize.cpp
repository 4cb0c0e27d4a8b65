// Operators that change the extents of images: padding, interpolation, pixel shuffle.
#include "op/resize.h"

#include "op/elements.h"
#include "op/families.h"

namespace qdq {
namespace {

// Padding: pairs (before, after) from the last axis backwards.

Border border_named(const OpDef& op, const std::string& mode) {
  if (mode == "constant") return Border::kConstant;
  if (mode == "reflect") return Border::kReflect;
  if (mode == "replicate") return Border::kReplicate;
  QDQ_CHECK(mode == "circular", kInvalidArgument, op.target, " has no mode '", mode, "'");
  return Border::kCircular;
}

MetaValue infer_pad_with(const Call<TensorMeta>& call, Border border) {
  const TensorMeta& x = call.tensor(0);
  const SymShape pad = call.syms(1);
  QDQ_CHECK(pad.size() % 2 == 0 && pad.size() / 2 <= x.sizes.size(), kInvalidArgument, call.op().target,
            " cannot pad shape ", to_string(x.sizes), " by ", to_string(pad));
  SymShape sizes = x.sizes;
  for (size_t i = 0; i < pad.size() / 2; ++i) {
    SymInt& size = sizes[sizes.size() - 1 - i];
    const std::optional<int64_t> extent = size.constant();
    for (size_t side : {size_t{0}, size_t{1}}) {
      const std::optional<int64_t> by = pad[2 * i + side].constant();
      constexpr int64_t kMost = int64_t{1} << 40;
      QDQ_CHECK(!by || (*by >= -kMost && *by <= kMost), kInvalidArgument, call.op().target, " got the padding ",
                to_string(pad));
      const bool fits = border == Border::kConstant || border == Border::kReplicate || !by || !extent ||
                        (border == Border::kReflect ? *by < *extent : *by <= *extent);
      QDQ_CHECK(fits && (border == Border::kConstant || !extent || *extent > 0 || (by && *by == 0)), kInvalidArgument,
                call.op().target, " cannot pad shape ", to_string(x.sizes), " by ", to_string(pad), " in this mode");
    }
    size = size + pad[2 * i] + pad[2 * i + 1];
    QDQ_CHECK(!size.is_constant() || *size.constant() >= 0, kInvalidArgument, call.op().target, " cannot pad shape ",
              to_string(x.sizes), " by ", to_string(pad));
  }
  return tensor_meta(x.dtype, sizes);
}

Value pad_with(const Call<Tensor>& call, Border border, double value) {
  const Shape sizes = constant_shape(result_meta(call).sizes);
  const std::vector<int64_t> pad = call.integers(1);
  Tensor out = call.tensor(0);
  for (size_t i = 0; i < pad.size() / 2; ++i) {
    const int64_t axis = out.dim() - 1 - static_cast<int64_t>(i);
    std::vector<int64_t> source(static_cast<size_t>(sizes[static_cast<size_t>(axis)]));
    for (size_t at = 0; at < source.size(); ++at)
      source[at] = padding_source(static_cast<int64_t>(at) - pad[2 * i], out.size(axis), border);
    out = take(out, axis, source, value);
  }
  return pad.empty() ? out.clone() : out;
}
MetaValue infer_pad(const Call<TensorMeta>& call) {
  return infer_pad_with(call, border_named(call.op(), call.string(2)));
}
Value eval_pad(const Call<Tensor>& call) { return pad_with(call, border_of(call), filling_of(call)); }
MetaValue infer_constant_pad(const Call<TensorMeta>& call) { return infer_pad_with(call, Border::kConstant); }
Value eval_constant_pad(const Call<Tensor>& call) { return pad_with(call, Border::kConstant, filling_of(call)); }
template <Border border> MetaValue infer_border_pad(const Call<TensorMeta>& call) {
  return infer_pad_with(call, border);
}
template <Border border> Value eval_border_pad(const Call<Tensor>& call) { return pad_with(call, border, 0); }

// Interpolation of x [N, C, spatial axes...] (ATen/native/UpSample.h). An output element is a weighted sum of input
// elements along each spatial axis in turn, in double; positions and weights are f32 as in PyTorch (f64 for f64).

// The last two look at all that an output element covers where the image shrinks.
enum class Kernel { kNearest, kNearestExact, kLinear, kCubic, kLinearAntialias, kCubicAntialias };
bool is_smooth(Kernel kernel) { return kernel != Kernel::kNearest && kernel != Kernel::kNearestExact; }

// The two forms: .vec (input, output_size?, [align_corners,] scale_factors?), plain (self, output_size,
// [align_corners,] scales...?).
template <class T> bool is_vec(const Call<T>& call) { return call.op().schema->index_of("scale_factors").has_value(); }
template <class T> std::optional<double> scale_of(const Call<T>& call, size_t axis, Kernel kernel) {
  const size_t first = is_smooth(kernel) ? 3 : 2;
  if (!is_vec(call))
    return call.is_none(first + axis) ? std::nullopt : std::optional<double>(call.number(first + axis));
  const auto* list = call[first].template get_if<typename BasicValue<T>::List>();
  if (list == nullptr) return std::nullopt;
  QDQ_CHECK(axis < list->size(), kInvalidArgument, call.op().target, " got ", list->size(), " scale factors");
  const BasicValue<T>& value = (*list)[axis];
  if (const double* number = value.template get_if<double>()) return *number;
  if (const int64_t* number = value.template get_if<int64_t>()) return static_cast<double>(*number);
  fail(ErrorCode::kInvalidArgument, call.op().target, " needs numbers as scale factors");
}
MetaValue infer_resized(const Call<TensorMeta>& call, Kernel kernel, size_t axes) {
  const TensorMeta& x = call.tensor(0);
  QDQ_CHECK(x.sizes.size() == axes + 2, kInvalidArgument, call.op().target, " needs ", axes + 2,
            " dimensions, found shape ", to_string(x.sizes));
  SymShape sizes = x.sizes;
  if (!call.is_none(1)) {
    const SymShape wanted = call.syms(1);
    QDQ_CHECK(wanted.size() == axes, kInvalidArgument, call.op().target, " needs ", axes, " output extents, found ",
              wanted.size());
    std::copy(wanted.begin(), wanted.end(), sizes.begin() + 2);
  } else {
    for (size_t a = 0; a < axes; ++a) {
      const std::optional<double> scale = scale_of(call, a, kernel);
      QDQ_CHECK(scale && *scale > 0 && *scale < 1e9, kInvalidArgument, call.op().target,
                " needs output extents or positive scale factors");
      if (const std::optional<int64_t> extent = sizes[a + 2].constant()) {
        sizes[a + 2] = static_cast<int64_t>(static_cast<double>(*extent) * *scale);
      } else {
        // 1/2, 1/4, ...: the product is exact, and so rounded as a division of integers.
        const bool is_halved = *scale < 1 && std::exp2(std::round(std::log2(*scale))) == *scale && *scale > 1e-6;
        QDQ_CHECK(is_halved || *scale == std::floor(*scale), kUnsupported, call.op().target,
                  " scales the symbolic size ", sizes[a + 2].to_string(), " by ", *scale);
        sizes[a + 2] = is_halved ? sizes[a + 2].floor_div(SymInt(static_cast<int64_t>(1 / *scale)))
                                 : sizes[a + 2] * SymInt(static_cast<int64_t>(*scale));
      }
    }
  }
  for (size_t a = 0; a < axes; ++a)
    QDQ_CHECK((!sizes[a + 2].is_constant() || *sizes[a + 2].constant() > 0) &&
                  (!x.sizes[a + 2].is_constant() || *x.sizes[a + 2].constant() > 0),
              kInvalidArgument, call.op().target, " cannot resize shape ", to_string(x.sizes), " to ",
              to_string(sizes));
  return tensor_meta(x.dtype, sizes);
}
template <Kernel kernel, size_t axes> MetaValue infer_upsample(const Call<TensorMeta>& call) {
  return infer_resized(call, kernel, axes);
}

using Tap = ResizeTap;
using Taps = ResizeTaps;

// Keys' cubic convolution with a = -0.75 at distance x <= 1 and 1 < x < 2.
template <class F> F cubic_near(F x) { return ((F(-0.75) + 2) * x - (F(-0.75) + 3)) * x * x + 1; }
template <class F> F cubic_far(F x) { return ((F(-0.75) * x - 5 * F(-0.75)) * x + 8 * F(-0.75)) * x - 4 * F(-0.75); }

// The position as an index, held within [low, high]; NaN is low.
template <class F> int64_t index_at(F position, int64_t low, int64_t high) {
  if (!(position > static_cast<F>(low))) return low;
  return position >= static_cast<F>(high) ? high : static_cast<int64_t>(std::floor(position));
}

// A linear (half width 1) or cubic (2, with a = -0.5) filter, as wide as an output element where that is more than an
// input element; its weights are normed (ATen/native/cpu/UpSampleKernel.cpp).
template <class F> std::vector<Tap> covering_taps(bool cubic, int64_t in, F center, F scale) {
  const F widen = std::max(scale, F(1)), support = (cubic ? F(2) : F(1)) * widen;
  const int64_t begin = index_at(center - support + F(0.5), 0, in), end = index_at(center + support + F(0.5), 0, in);
  std::vector<Tap> taps;
  F total = 0;
  for (int64_t i = begin; i < end; ++i) {
    const F x = std::fabs((static_cast<F>(i) - center + F(0.5)) / widen);
    F weight = x < 1 ? 1 - x : F(0);
    if (cubic && x < 1) weight = (F(1.5) * x - F(2.5)) * x * x + 1;
    else if (cubic) weight = x < 2 ? F(-0.5) * (((x - 5) * x + 8) * x - 4) : F(0);
    taps.push_back({i, static_cast<double>(weight)});
    total += weight;
  }
  for (Tap& tap : taps) tap.weight = total != 0 ? static_cast<double>(static_cast<F>(tap.weight) / total) : 0;
  return taps;
}

// F: the type of positions.
template <class F>
Taps taps_of(Kernel kernel, int64_t in, int64_t out, bool align_corners, std::optional<double> scale_factor) {
  F scale = scale_factor && *scale_factor > 0 ? static_cast<F>(1.0 / *scale_factor)
                                              : static_cast<F>(in) / static_cast<F>(out);
  if (align_corners) scale = out > 1 ? static_cast<F>(in - 1) / static_cast<F>(out - 1) : F(0);
  Taps taps(static_cast<size_t>(out));
  for (int64_t o = 0; o < out; ++o) {
    std::vector<Tap>& here = taps[static_cast<size_t>(o)];
    const F at = static_cast<F>(o);
    if (kernel == Kernel::kNearest || kernel == Kernel::kNearestExact) {
      const F position = kernel == Kernel::kNearest ? at * scale : (at + F(0.5)) * scale;
      here.push_back({index_at(position, 0, in - 1), 1});
      continue;
    }
    if (kernel == Kernel::kLinearAntialias || kernel == Kernel::kCubicAntialias) {
      here = covering_taps(kernel == Kernel::kCubicAntialias, in, scale * (at + F(0.5)), scale);
      continue;
    }
    F position = align_corners ? scale * at : scale * (at + F(0.5)) - F(0.5);
    if (kernel == Kernel::kLinear) {
      position = std::max(position, F(0));
      const int64_t low = index_at(position, 0, in - 1);
      const F weight = std::clamp(position - static_cast<F>(low), F(0), F(1));
      here.push_back({low, static_cast<double>(F(1) - weight)});
      here.push_back({std::min(low + 1, in - 1), static_cast<double>(weight)});
      continue;
    }
    const int64_t low = index_at(position, -2, in + 1);
    const F t = position - static_cast<F>(low);
    const F weights[4] = {cubic_far(t + 1), cubic_near(t), cubic_near(1 - t), cubic_far(1 - t + 1)};
    for (int64_t i = 0; i < 4; ++i)
      here.push_back({std::clamp<int64_t>(low - 1 + i, 0, in - 1), static_cast<double>(weights[i])});
  }
  return taps;
}

// x is f64.
Tensor interpolate(const Tensor& x, int64_t axis, const Taps& taps) {
  Shape sizes = x.sizes();
  sizes[static_cast<size_t>(axis)] = static_cast<int64_t>(taps.size());
  Tensor out = Tensor::empty(sizes, DType::kF64);
  for (size_t o = 0; o < taps.size(); ++o) {
    const Tensor to = out.select(axis, static_cast<int64_t>(o));
    Tensor sum = Tensor::empty(to.sizes(), DType::kF64);
    for (const Tap& tap : taps[o])
      sum = map<double>(sum, x.select(axis, tap.index), to.sizes(),
                        [w = tap.weight](double s, double v) { return s + w * v; });
    to.copy_from(sum);
  }
  return out;
}
Taps axis_taps(const Call<Tensor>& call, Kernel kernel, size_t axis, int64_t extent) {
  const Tensor& x = call.tensor(0);
  const int64_t in = x.size(static_cast<int64_t>(axis) + 2);
  const bool align_corners = is_smooth(kernel) && call.boolean(2);
  const std::optional<double> scale = scale_of(call, axis, kernel);
  return x.dtype() == DType::kF64 ? taps_of<double>(kernel, in, extent, align_corners, scale)
                                  : taps_of<float>(kernel, in, extent, align_corners, scale);
}
Value resized(const Call<Tensor>& call, Kernel kernel, size_t axes) {
  const Tensor& x = call.tensor(0);
  const Shape sizes = constant_shape(result_meta(call).sizes);
  const bool smooth = is_smooth(kernel);
  Tensor out = smooth ? x.to(DType::kF64) : x;
  for (size_t a = 0; a < axes; ++a) {
    const int64_t axis = static_cast<int64_t>(a) + 2;
    const Taps taps = axis_taps(call, kernel, a, sizes[a + 2]);
    if (smooth) {
      out = interpolate(out, axis, taps);
    } else {
      std::vector<int64_t> source;
      for (const std::vector<Tap>& here : taps) source.push_back(here[0].index);
      out = take(out, axis, source);
    }
  }
  return out.to(x.dtype());
}
template <Kernel kernel, size_t axes> Value eval_upsample(const Call<Tensor>& call) {
  return resized(call, kernel, axes);
}

// [..., C r r, H, W] -> [..., C, H r, W r] and back.
MetaValue infer_shuffled(const Call<TensorMeta>& call, bool back) {
  const TensorMeta& x = call.tensor(0);
  const int64_t r = call.integer(1);
  QDQ_CHECK(x.sizes.size() >= 3 && r >= 1 && r < 65536, kInvalidArgument, call.op().target, " by ", r,
            " needs at least 3 dimensions, found shape ", to_string(x.sizes));
  SymShape sizes = x.sizes;
  SymInt &channels = sizes[sizes.size() - 3], &height = sizes[sizes.size() - 2], &width = sizes[sizes.size() - 1];
  const auto divides = [](const SymInt& size, int64_t by) { return !size.is_constant() || *size.constant() % by == 0; };
  QDQ_CHECK(back ? divides(height, r) && divides(width, r) : divides(channels, r * r), kInvalidArgument,
            call.op().target, " by ", r, " does not fit shape ", to_string(x.sizes));
  channels = back ? channels * SymInt(r * r) : channels.floor_div(SymInt(r * r));
  height = back ? height.floor_div(SymInt(r)) : height * SymInt(r);
  width = back ? width.floor_div(SymInt(r)) : width * SymInt(r);
  return tensor_meta(x.dtype, sizes);
}
template <bool back> MetaValue infer_pixel_shuffle(const Call<TensorMeta>& call) { return infer_shuffled(call, back); }
Value shuffled(const Call<Tensor>& call, bool back) {
  const Tensor& x = call.tensor(0);
  const Shape sizes = constant_shape(result_meta(call).sizes);
  const Shape& few = back ? x.sizes() : sizes;  // the side with few channels
  const size_t rank = few.size();
  const int64_t r = call.integer(1), batch = numel_of(Shape(few.begin(), few.end() - 3)), C = few[rank - 3],
                H = few[rank - 2] / r, W = few[rank - 1] / r;
  if (back) return x.reshape({batch, C, H, r, W, r}).permute({0, 1, 3, 5, 2, 4}).clone().reshape(sizes);
  return x.reshape({batch, C, r, r, H, W}).permute({0, 1, 4, 2, 5, 3}).clone().reshape(sizes);
}
template <bool back> Value eval_pixel_shuffle(const Call<Tensor>& call) { return shuffled(call, back); }

// [N, g k, ...] -> [N, k g, ...]: the channels of g groups one by one in turn.
MetaValue infer_channel_shuffle(const Call<TensorMeta>& call) {
  const TensorMeta& x = call.tensor(0);
  const int64_t groups = call.integer(1);
  QDQ_CHECK(x.sizes.size() > 2 && groups > 0 && (!x.sizes[1].is_constant() || *x.sizes[1].constant() % groups == 0),
            kInvalidArgument, call.op().target, " cannot shuffle ", groups, " groups of shape ", to_string(x.sizes));
  return infer_like_self(call);
}
Value eval_channel_shuffle(const Call<Tensor>& call) {
  infer_call(call);
  const Tensor& x = call.tensor(0);
  const int64_t groups = call.integer(1), each = x.size(1) / groups;
  std::vector<int64_t> source;
  for (int64_t c = 0; c < x.size(1); ++c) source.push_back(c % groups * each + c / groups);
  return take(x, 1, source);
}

// The kernel of an operator by its name: "upsample_bilinear2d", "_upsample_bicubic2d_aa".
Kernel kernel_named(const OpDef& op) {
  const std::string& name = op.schema->name;
  const auto has = [&](std::string_view part) { return name.find(part) != std::string::npos; };
  if (has("exact")) return Kernel::kNearestExact;
  if (has("nearest")) return Kernel::kNearest;
  const bool is_cubic = has("cubic"), covers = has("_aa");
  if (is_cubic) return covers ? Kernel::kCubicAntialias : Kernel::kCubic;
  QDQ_CHECK(has("linear"), kInternal, op.target, " does not resize");
  return covers ? Kernel::kLinearAntialias : Kernel::kLinear;
}

}  // namespace

int64_t padding_source(int64_t i, int64_t extent, Border border) {
  if (i >= 0 && i < extent) return i;
  switch (border) {
    case Border::kConstant: return -1;
    case Border::kReflect: return i < 0 ? -i : 2 * (extent - 1) - i;
    case Border::kReplicate: return i < 0 ? 0 : extent - 1;
    case Border::kCircular: return i < 0 ? i + extent : i - extent;
  }
  return -1;
}

Border border_of(const Call<Tensor>& call) {
  const std::string& name = call.op().schema->name;
  if (name == "pad") return border_named(call.op(), call.string(2));
  if (name == "constant_pad_nd") return Border::kConstant;
  if (name.find("reflection") != std::string::npos) return Border::kReflect;
  return name.find("replication") != std::string::npos ? Border::kReplicate : Border::kCircular;
}

double filling_of(const Call<Tensor>& call) {
  const std::string& name = call.op().schema->name;
  if (name == "pad") return call.is_none(3) ? 0 : call.number(3);
  return name == "constant_pad_nd" ? call.number(2) : 0;
}

std::vector<ResizeTaps> resize_taps(const Call<Tensor>& call) {
  const Kernel kernel = kernel_named(call.op());
  const Shape sizes = constant_shape(result_meta(call).sizes);
  std::vector<ResizeTaps> out;
  for (size_t a = 2; a < sizes.size(); ++a) out.push_back(axis_taps(call, kernel, a - 2, sizes[a]));
  return out;
}

namespace {

auto resize_adder_to(std::vector<OpDef>& ops, Family family) {
  return [&ops, family](std::string_view line, Infer infer, Eval eval, const Roles& roles) {
    const bool interpolates = line.find("linear") != line.npos || line.find("cubic") != line.npos;
    ops.push_back(define(line, infer, eval, roles, family));
    ops.back().keeps_numbers = roles.shares_qparams && !interpolates;
  };
}

void add_pads(std::vector<OpDef>& ops) {
  const auto add = resize_adder_to(ops, Family::kPad);
  const Roles roles{.activation = 0};
  add("aten::pad(Tensor self, SymInt[] pad, str mode=\"constant\", float? value=None) -> Tensor", infer_pad, eval_pad,
      roles);
  add("aten::constant_pad_nd(Tensor self, SymInt[] pad, Scalar value=0) -> Tensor", infer_constant_pad,
      eval_constant_pad, roles);
  add("aten::reflection_pad1d(Tensor self, SymInt[2] padding) -> Tensor", infer_border_pad<Border::kReflect>,
      eval_border_pad<Border::kReflect>, kSharesQparams);
  add("aten::reflection_pad2d(Tensor self, SymInt[4] padding) -> Tensor", infer_border_pad<Border::kReflect>,
      eval_border_pad<Border::kReflect>, kSharesQparams);
  add("aten::replication_pad1d(Tensor self, SymInt[2] padding) -> Tensor", infer_border_pad<Border::kReplicate>,
      eval_border_pad<Border::kReplicate>, kSharesQparams);
  add("aten::replication_pad2d(Tensor self, SymInt[4] padding) -> Tensor", infer_border_pad<Border::kReplicate>,
      eval_border_pad<Border::kReplicate>, kSharesQparams);
  add("aten::reflection_pad3d(Tensor self, SymInt[6] padding) -> Tensor", infer_border_pad<Border::kReflect>,
      eval_border_pad<Border::kReflect>, kSharesQparams);
  add("aten::replication_pad3d(Tensor self, SymInt[6] padding) -> Tensor", infer_border_pad<Border::kReplicate>,
      eval_border_pad<Border::kReplicate>, kSharesQparams);
  add("aten::_pad_circular(Tensor self, SymInt[] pad) -> Tensor", infer_border_pad<Border::kCircular>,
      eval_border_pad<Border::kCircular>, kSharesQparams);
}

}  // namespace

void add_resize_ops(std::vector<OpDef>& ops) {
  add_pads(ops);
  const auto add = resize_adder_to(ops, Family::kResize);
  const std::string vec = ".vec(Tensor input, SymInt[]? output_size, ", factors = "float[]? scale_factors) -> Tensor";
  const auto add_1d = [&](const std::string& name, const std::string& align, Infer infer, Eval eval) {
    add("aten::" + name + vec + align + factors, infer, eval, kSharesQparams);
    add("aten::" + name + "(Tensor self, SymInt[1] output_size, " + align + "float? scales=None) -> Tensor", infer,
        eval, kSharesQparams);
  };
  const auto add_2d = [&](const std::string& name, const std::string& align, Infer infer, Eval eval) {
    add("aten::" + name + vec + align + factors, infer, eval, kSharesQparams);
    add("aten::" + name + "(Tensor self, SymInt[2] output_size, " + align +
            "float? scales_h=None, float? scales_w=None) -> Tensor",
        infer, eval, kSharesQparams);
  };
  const auto add_3d = [&](const std::string& name, const std::string& align, Infer infer, Eval eval) {
    add("aten::" + name + vec + align + factors, infer, eval, kSharesQparams);
    add("aten::" + name + "(Tensor self, SymInt[3] output_size, " + align +
            "float? scales_d=None, float? scales_h=None, float? scales_w=None) -> Tensor",
        infer, eval, kSharesQparams);
  };
  const std::string align = "bool align_corners, ";
  add_1d("_upsample_nearest_exact1d", "", infer_upsample<Kernel::kNearestExact, 1>,
         eval_upsample<Kernel::kNearestExact, 1>);
  add_3d("upsample_nearest3d", "", infer_upsample<Kernel::kNearest, 3>, eval_upsample<Kernel::kNearest, 3>);
  add_3d("_upsample_nearest_exact3d", "", infer_upsample<Kernel::kNearestExact, 3>,
         eval_upsample<Kernel::kNearestExact, 3>);
  add_3d("upsample_trilinear3d", align, infer_upsample<Kernel::kLinear, 3>, eval_upsample<Kernel::kLinear, 3>);
  add_2d("_upsample_bilinear2d_aa", align, infer_upsample<Kernel::kLinearAntialias, 2>,
         eval_upsample<Kernel::kLinearAntialias, 2>);
  add_2d("_upsample_bicubic2d_aa", align, infer_upsample<Kernel::kCubicAntialias, 2>,
         eval_upsample<Kernel::kCubicAntialias, 2>);
  add_1d("upsample_nearest1d", "", infer_upsample<Kernel::kNearest, 1>, eval_upsample<Kernel::kNearest, 1>);
  add_2d("upsample_nearest2d", "", infer_upsample<Kernel::kNearest, 2>, eval_upsample<Kernel::kNearest, 2>);
  add_2d("_upsample_nearest_exact2d", "", infer_upsample<Kernel::kNearestExact, 2>,
         eval_upsample<Kernel::kNearestExact, 2>);
  add_1d("upsample_linear1d", align, infer_upsample<Kernel::kLinear, 1>, eval_upsample<Kernel::kLinear, 1>);
  add_2d("upsample_bilinear2d", align, infer_upsample<Kernel::kLinear, 2>, eval_upsample<Kernel::kLinear, 2>);
  add_2d("upsample_bicubic2d", align, infer_upsample<Kernel::kCubic, 2>, eval_upsample<Kernel::kCubic, 2>);
  add("aten::channel_shuffle(Tensor self, SymInt groups) -> Tensor", infer_channel_shuffle, eval_channel_shuffle,
      kSharesQparams);
  add("aten::native_channel_shuffle(Tensor self, SymInt groups) -> Tensor", infer_channel_shuffle, eval_channel_shuffle,
      kSharesQparams);
  add("aten::pixel_shuffle(Tensor self, int upscale_factor) -> Tensor", infer_pixel_shuffle<false>,
      eval_pixel_shuffle<false>, kSharesQparams);
  add("aten::pixel_unshuffle(Tensor self, int downscale_factor) -> Tensor", infer_pixel_shuffle<true>,
      eval_pixel_shuffle<true>, kSharesQparams);
}

}  // namespace qdq
