// Resize and Upsample. What PyTorch's upsampling computes exactly becomes that; else each axis is resized by itself: by
// chosen indices, or by a product with a matrix of weights.
#include <algorithm>
#include <cmath>

#include "io/onnx/import.h"
#include "io/onnx/chains.h"
#include "io/onnx/window.h"
#include "op/targets.h"

namespace qdq {
namespace {

// How positions of the output become positions of the input, and how elements around a position are chosen.
struct Resizing {
  std::string mode, place, nearest;
  double cubic_a = -0.75, extrapolation = 0;
  bool excludes_outside = false, antialias = false;
};

// One axis.
struct ResizedAxis {
  size_t axis = 0;
  SymInt in, out;
  std::optional<double> scale;     // as the node tells it; else out / in
  Node* computed_scale = nullptr;  // the same, where only a run tells
  float begin = 0, end = 1;        // of the part that tf_crop_and_resize takes
};

Resizing resizing_of(OnnxCall& call) {
  Resizing out;
  out.mode = call.text("mode", "nearest");
  const bool is_old = call.opset() < 11;
  out.place = is_old ? "asymmetric" : call.text("coordinate_transformation_mode", "half_pixel");
  // Upsample and the first Resize: down, and in Resize up where it makes images smaller.
  out.nearest =
      is_old ? (call.op().name == "Upsample" ? "floor" : "simple") : call.text("nearest_mode", "round_prefer_floor");
  out.cubic_a = call.real("cubic_coeff_a", -0.75);
  out.extrapolation = call.real("extrapolation_value", 0);
  out.excludes_outside = call.integer("exclude_outside", 0) != 0;
  out.antialias = call.integer("antialias", 0) != 0;
  if (out.mode != "nearest" && out.mode != "linear" && out.mode != "bilinear" && out.mode != "cubic")
    call.refuse("has the mode ", out.mode, ", wanted nearest, linear or cubic");
  if (out.mode == "bilinear") out.mode = "linear";
  static constexpr std::string_view kPlaces[] = {"half_pixel",        "half_pixel_symmetric", "pytorch_half_pixel",
                                                 "align_corners",     "asymmetric",           "tf_half_pixel_for_nn",
                                                 "tf_crop_and_resize"};
  if (std::find(std::begin(kPlaces), std::end(kPlaces), out.place) == std::end(kPlaces))
    call.refuse("has the coordinate_transformation_mode ", out.place);
  static constexpr std::string_view kNearest[] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil", "simple"};
  if (std::find(std::begin(kNearest), std::end(kNearest), out.nearest) == std::end(kNearest))
    call.refuse("has the nearest_mode ", out.nearest);
  return out;
}

// Whether the filter is as wide as PyTorch's antialiasing makes it, which leaves out what lies outside of the image.
bool is_antialiased_as_in_pytorch(const Resizing& how) {
  return how.antialias && how.excludes_outside && (how.place == "half_pixel" || how.place == "pytorch_half_pixel") &&
         (how.mode == "linear" || (how.mode == "cubic" && std::fabs(how.cubic_a + 0.5) <= 1e-6));
}

int64_t whole_size(OnnxCall& call, double size) {
  if (!(size >= 0 && size < 0x1p62)) call.refuse("makes an axis of ", size, " elements");
  return static_cast<int64_t>(size);
}

// The size that a scale makes of an axis.
SymInt scaled(OnnxCall& call, const SymInt& size, double scale) {
  if (!(scale >= 1e-6 && scale <= 1e6)) call.refuse("has the scale ", scale, ", wanted one of 1e-06 to 1e+06");
  if (const auto known = size.constant())
    return whole_size(call, std::floor(static_cast<float>(*known) * static_cast<float>(scale)));
  if (scale == std::floor(scale)) return multiply_sizes(call, size, SymInt(static_cast<int64_t>(scale)));
  const double divisor = std::round(1 / scale);
  if (static_cast<float>(1 / divisor) == static_cast<float>(scale))
    return divide_sizes(call, size, static_cast<int64_t>(divisor));
  call.refuse("scales an axis of open size by ", scale);
}

Node* number_of(OnnxCall& call, const SymInt& size, DType dtype) {
  return call.call("scalar_tensor.default", {call.import().size_argument(size)}, "dtype", dtype);
}

// The same of a scale that is computed.
SymInt scaled_in_run(OnnxCall& call, const SymInt& size, Node* scale) {
  Node* product = call.call("mul.Tensor", {number_of(call, size, DType::kF32), scale});
  Node* whole = call.call("to.dtype", {call.call("floor.default", {product}), DType::kS64});
  Node* number = call.call_as_it_is("item.default", {whole});
  const auto* symbol = std::get_if<SymInt>(&number->meta.val.value);
  if (symbol == nullptr) call.refuse("computes its scales from something that is not a number");
  call.import().know_size(*symbol, number);
  return *symbol;
}

// The numbers of tf_crop_and_resize: where each axis begins, then where each ends.
std::vector<float> region_of(OnnxCall& call, size_t axes) {
  const Tensor roi = call.wanted_constant(1).to(DType::kF32).contiguous();
  if (static_cast<size_t>(roi.numel()) != 2 * axes)
    call.refuse("has a roi of ", roi.numel(), " numbers for ", axes, " axes");
  return {roi.data<float>(), roi.data<float>() + roi.numel()};
}

// One scale for all axes, the smallest or the largest, to which the sizes are brought.
double keep_aspect_ratio(OnnxCall& call, const std::string& policy, const std::vector<int64_t>& axes,
                         std::vector<SymInt>& sizes) {
  if (policy != "not_larger" && policy != "not_smaller") call.refuse("has the keep_aspect_ratio_policy ", policy);
  const auto size_in = [&](size_t i) { return call.extent(call.tensor(0), static_cast<size_t>(axes[i])).constant(); };
  std::optional<double> one;
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto in = size_in(i), out = sizes[i].constant();
    if (!in || !out || *in < 1) call.refuse("keeps the aspect ratio of open sizes");
    const double scale = static_cast<double>(*out) / static_cast<double>(*in);
    one = !one ? scale : policy == "not_larger" ? std::min(*one, scale) : std::max(*one, scale);
  }
  for (size_t i = 0; i < axes.size(); ++i)
    sizes[i] = whole_size(call, std::floor(*one * static_cast<double>(*size_in(i)) + 0.5));
  return *one;
}

// The axes that are resized; those whose size and scale stay are left out.
std::vector<ResizedAxis> resized_axes(OnnxCall& call, const Resizing& how) {
  Node* input = call.tensor(0);
  const size_t rank = call.rank(0);
  // X, scales; later X, roi, scales, sizes; at first the scales were an attribute.
  const bool is_old = call.opset() < 11;
  const size_t scales_at = is_old ? 1 : 2, sizes_at = 3;
  std::vector<int64_t> axes = call.integers("axes", {});
  if (axes.empty())
    for (size_t i = 0; i < rank; ++i) axes.push_back(static_cast<int64_t>(i));
  for (int64_t& axis : axes) axis = call.axis(axis, rank);
  const std::string policy = call.text("keep_aspect_ratio_policy", "stretch");
  const bool wants_numbers = ((how.antialias || how.excludes_outside) && !is_antialiased_as_in_pytorch(how)) ||
                             how.place == "tf_crop_and_resize" || policy != "stretch";
  std::vector<double> scales;
  std::vector<Node*> computed;
  if (const auto* given = call.attribute("scales")) {
    scales.assign(given->floats.begin(), given->floats.end());
  } else if (call.has(scales_at) && !call.is_constant(scales_at) && !wants_numbers) {
    for (size_t i = 0; i < axes.size(); ++i)
      computed.push_back(call.call("select.int", {call.tensor(scales_at), 0, static_cast<int64_t>(i)}));
  } else if (call.has(scales_at) && !(call.is_constant(scales_at) && call.constant(scales_at).numel() == 0)) {
    const Tensor known = call.wanted_constant(scales_at).to(DType::kF64).contiguous();
    scales.assign(known.data<double>(), known.data<double>() + known.numel());
  }
  std::vector<SymInt> sizes;
  if (scales.empty() && computed.empty() && !is_old && call.has(sizes_at)) {
    sizes = call.sizes(sizes_at);
    if (wants_numbers && std::any_of(sizes.begin(), sizes.end(), [](const SymInt& s) { return !s.is_constant(); }))
      call.wanted_constant(sizes_at);
  }
  const size_t count = std::max({scales.size(), computed.size(), sizes.size()});
  if (count != axes.size()) call.refuse("has ", count, " sizes or scales for ", axes.size(), " axes");
  std::vector<float> part;
  if (how.place == "tf_crop_and_resize") part = region_of(call, axes.size());
  if (!sizes.empty() && policy != "stretch") scales.assign(axes.size(), keep_aspect_ratio(call, policy, axes, sizes));
  std::vector<ResizedAxis> out;
  for (size_t i = 0; i < axes.size(); ++i) {
    ResizedAxis axis;
    axis.axis = static_cast<size_t>(axes[i]);
    axis.in = size_along(call, input, axis.axis);
    if (!scales.empty()) axis.scale = scales[i];
    if (!computed.empty()) {
      axis.computed_scale = computed[i];
      axis.out = scaled_in_run(call, axis.in, computed[i]);
    } else {
      axis.out = sizes.empty() ? scaled(call, axis.in, scales[i]) : sizes[i];
    }
    if (!part.empty()) {
      axis.begin = part[i];
      axis.end = part[i + axes.size()];
    }
    const bool stays = !axis.computed_scale && axis.in == axis.out && (!axis.scale || *axis.scale == 1) && part.empty();
    constexpr int64_t kMost = 1 << 24;
    for (const SymInt& size : {axis.in, axis.out})
      if (size.is_constant() && (*size.constant() < 1 || *size.constant() > kMost))
        call.refuse("resizes ", axis.in.to_string(), " elements to ", axis.out.to_string());
    if (!stays) out.push_back(axis);
  }
  return out;
}

float scale_of(const ResizedAxis& axis) {
  return axis.scale ? static_cast<float>(*axis.scale)
                    : static_cast<float>(*axis.out.constant()) / static_cast<float>(*axis.in.constant());
}

// The position in the input of an element of the output, in f32 as ONNX Runtime computes it.
float position_of(const Resizing& how, const ResizedAxis& axis, int64_t at) {
  const float scale = scale_of(axis), x = static_cast<float>(at), in = static_cast<float>(*axis.in.constant()),
              out = static_cast<float>(*axis.out.constant());
  if (how.place == "asymmetric") return x / scale;
  if (how.place == "pytorch_half_pixel") return out > 1 ? (x + 0.5f) / scale - 0.5f : 0;
  if (how.place == "tf_half_pixel_for_nn") return (x + 0.5f) / scale;
  if (how.place == "align_corners") return out > 1 ? x * (in - 1) / (out - 1) : 0;
  if (how.place == "tf_crop_and_resize")
    return out > 1 ? axis.begin * (in - 1) + x * (axis.end - axis.begin) * (in - 1) / (out - 1)
                   : 0.5f * (axis.begin + axis.end) * (in - 1);
  if (how.place == "half_pixel_symmetric") {
    const float wanted = scale * in, offset = in / 2 * (1 - out / wanted);
    return offset + (x + 0.5f) / scale - 0.5f;
  }
  return (x + 0.5f) / scale - 0.5f;
}

int64_t nearest_of(const Resizing& how, const ResizedAxis& axis, float position) {
  float place = 0;
  if (how.nearest == "floor") place = std::floor(position);
  else if (how.nearest == "ceil") place = std::ceil(position);
  else if (how.nearest == "simple") place = scale_of(axis) < 1 ? std::ceil(position) : std::trunc(position);
  else if (how.nearest == "round_prefer_ceil") place = std::floor(position + 0.5f);
  else place = std::ceil(position - 0.5f);
  return static_cast<int64_t>(std::clamp(place, 0.0f, static_cast<float>(*axis.in.constant() - 1)));
}

double weight_at(const Resizing& how, double distance) {
  const double x = std::fabs(distance), a = how.cubic_a;
  if (how.mode == "linear") return std::max(0.0, 1 - x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

bool is_outside(const ResizedAxis& axis, float position) {
  return position < 0 || position > static_cast<float>(*axis.in.constant() - 1);
}

// [out, in]: the weights of the input's elements in each of the output's.
Tensor weights_of(OnnxCall& call, const Resizing& how, const ResizedAxis& axis) {
  const int64_t in = *axis.in.constant(), out = *axis.out.constant();
  constexpr int64_t kMostWeights = 1 << 26;
  if (in > kMostWeights / out) call.refuse("resizes ", in, " elements to ", out, " in the mode ", how.mode);
  const Tensor weights = Tensor::empty({out, in}, DType::kF32);
  // Where the image becomes smaller, antialiasing widens the filter.
  const double width = how.antialias ? std::min(1.0, static_cast<double>(scale_of(axis))) : 1;
  const double wide = std::ceil((how.mode == "linear" ? 1 : 2) / width);
  if (!(wide >= 1 && wide <= static_cast<double>(kMostWeights / out)))
    call.refuse("resizes by ", scale_of(axis), ", which takes in ", wide, " elements");
  const auto reach = static_cast<int64_t>(wide);
  for (int64_t o = 0; o < out; ++o) {
    const float position = position_of(how, axis, o);
    constexpr float kFarthest = 0x1p60F;
    if (!(std::abs(position) < kFarthest)) call.refuse("resizes from the place ", position);
    const auto low = static_cast<int64_t>(std::floor(position));
    std::vector<std::pair<int64_t, double>> taps;
    double sum = 0;
    for (int64_t i = low - reach; i <= low + reach + 1; ++i) {
      const double weight = weight_at(how, (static_cast<double>(i) - static_cast<double>(position)) * width);
      if (how.excludes_outside && (i < 0 || i >= in)) continue;
      taps.emplace_back(std::clamp<int64_t>(i, 0, in - 1), weight);
      sum += weight;
    }
    for (const auto& [i, weight] : taps)
      weights.data<float>()[o * in + i] +=
          static_cast<float>((how.antialias || how.excludes_outside) && sum != 0 ? weight / sum : weight);
  }
  return weights;
}

// What the position of an axis tells to be outside of the image gets a number.
Node* extrapolated(OnnxCall& call, Node* x, const Resizing& how, const ResizedAxis& axis) {
  const int64_t out = *axis.out.constant();
  Shape shape(call.meta_of(x).sizes.size(), 1);
  shape[axis.axis] = out;
  const Tensor mask = Tensor::empty(shape, DType::kBool);
  bool any = false;
  for (int64_t o = 0; o < out; ++o) any |= mask.data<bool>()[o] = is_outside(axis, position_of(how, axis, o));
  if (!any) return x;
  return call.call("masked_fill.Scalar", {x, call.import().constant(mask, "outside"), how.extrapolation});
}

std::vector<int64_t> nearest_indices(const Resizing& how, const ResizedAxis& axis) {
  std::vector<int64_t> out;
  for (int64_t o = 0; o < *axis.out.constant(); ++o) out.push_back(nearest_of(how, axis, position_of(how, axis, o)));
  return out;
}

// Whether aten.upsample_nearest takes the same elements, or nearest_exact.
bool is_upsample_nearest(const Resizing& how, const ResizedAxis& axis, bool exact) {
  const bool is_open = !axis.in.is_constant() || !axis.out.is_constant();
  const bool is_half = how.place == "half_pixel" || how.place == "pytorch_half_pixel";
  if (is_open) {
    if (!exact && how.place == "asymmetric" && (how.nearest == "floor" || how.nearest == "simple")) return true;
    if (exact && is_half && how.place == "half_pixel" && how.nearest == "round_prefer_ceil") return true;
    // No position lies between two elements where the scale is a whole number.
    const bool whole = axis.scale && *axis.scale == std::floor(*axis.scale);
    if (whole && is_half && how.nearest.starts_with("round")) return true;
    return whole && !exact && *axis.scale == 2 && how.place == "asymmetric" && how.nearest == "round_prefer_floor";
  }
  const int64_t in = *axis.in.constant(), out = *axis.out.constant();
  const float step =
      axis.scale ? static_cast<float>(1.0 / *axis.scale) : static_cast<float>(in) / static_cast<float>(out);
  const std::vector<int64_t> wanted = nearest_indices(how, axis);
  for (int64_t o = 0; o < out; ++o) {
    const float position = exact ? (static_cast<float>(o) + 0.5f) * step : static_cast<float>(o) * step;
    if (std::min(static_cast<int64_t>(std::floor(position)), in - 1) != wanted[static_cast<size_t>(o)]) return false;
  }
  return true;
}

// The name of aten.upsample_* that computes the same along `spatial` axes; "" if there is none.
std::string upsampling_of(const Resizing& how, const std::vector<ResizedAxis>& axes, size_t spatial) {
  if (how.mode == "nearest") {
    const auto all = [&](bool exact) {
      return std::all_of(axes.begin(), axes.end(),
                         [&](const ResizedAxis& axis) { return is_upsample_nearest(how, axis, exact); });
    };
    if (how.place == "tf_crop_and_resize") return "";
    if (all(false)) return with_axes("upsample_nearest", spatial, "vec");
    return all(true) ? with_axes("_upsample_nearest_exact", spatial, "vec") : "";
  }
  const bool half = how.place == "half_pixel" || how.place == "pytorch_half_pixel";
  if (!half && how.place != "align_corners") return "";
  // PyTorch has no exception for a lone element.
  if (how.place == "pytorch_half_pixel" &&
      std::any_of(axes.begin(), axes.end(), [](const ResizedAxis& axis) { return axis.out == SymInt(1); }))
    return "";
  const bool is_cubic = how.mode == "cubic";
  if (is_cubic && spatial != 2) return "";
  if (is_antialiased_as_in_pytorch(how) && spatial == 2)
    return is_cubic ? "_upsample_bicubic2d_aa.vec" : "_upsample_bilinear2d_aa.vec";
  if (how.antialias || how.excludes_outside || (is_cubic && std::fabs(how.cubic_a + 0.75) > 1e-6)) return "";
  static constexpr const char* kLinear[] = {"upsample_linear", "upsample_bilinear", "upsample_trilinear"};
  return with_axes(is_cubic ? "upsample_bicubic" : kLinear[spatial - 1], spatial, "vec");
}

// aten.upsample_*, if there is one that computes the same along the last one to three axes.
Node* upsampled(OnnxCall& call, const Resizing& how, const std::vector<ResizedAxis>& axes) {
  const size_t rank = call.rank(0);
  if (rank < 3 || rank > 5) return nullptr;
  const size_t spatial = rank - 2;
  if (std::any_of(axes.begin(), axes.end(),
                  [](const ResizedAxis& axis) { return axis.axis < 2 || axis.computed_scale; }))
    return nullptr;
  const std::string target = upsampling_of(how, axes, spatial);
  if (target.empty() || !find_op(op::aten(target))) return nullptr;
  const bool aligned = how.place == "align_corners" && how.mode != "nearest";
  // By scales where all of them are told, else by sizes.
  bool by_scale = !axes.empty();
  std::vector<SymInt> sizes;
  std::vector<double> scales(spatial, 1);
  for (size_t i = 0; i < spatial; ++i) sizes.push_back(size_along(call, call.tensor(0), i + 2));
  for (const ResizedAxis& axis : axes) {
    sizes[axis.axis - 2] = axis.out;
    if (axis.scale) scales[axis.axis - 2] = *axis.scale;
    const bool is_halved = axis.scale && std::exp2(std::round(std::log2(*axis.scale))) == *axis.scale;
    const bool is_exact = axis.scale && (is_halved || *axis.scale == std::floor(*axis.scale));
    by_scale &= axis.scale && (axis.in.is_constant() || is_exact);
    // Sizes do not tell the scale where they were rounded.
    if (axis.scale && !axis.in.is_constant() && !is_exact && !aligned && how.mode != "nearest") return nullptr;
    // PyTorch rounds the size in double.
    const auto in = axis.in.constant(), out = axis.out.constant();
    if (axis.scale && in && out) by_scale &= static_cast<int64_t>(static_cast<double>(*in) * *axis.scale) == *out;
    if (axis.scale && !by_scale && *axis.scale != 1 && !aligned && in && out &&
        static_cast<double>(*out) != static_cast<double>(*in) * *axis.scale && how.mode != "nearest")
      return nullptr;
  }
  std::vector<Argument> args = {call.tensor(0), by_scale ? Argument() : call.list(sizes)};
  if (how.mode != "nearest") args.emplace_back(aligned);
  args.push_back(by_scale ? Argument(Argument::List(scales.begin(), scales.end())) : Argument());
  return call.call(target, args);
}

// An axis of open size, or whose scale only a run tells: positions and weights are computed then, as position_of and
// weight_at compute them.
class ResizingInRun {
 public:
  ResizingInRun(OnnxCall& call, const Resizing& how, const ResizedAxis& axis) : call_(call), how_(how), axis_(axis) {}

  Node* resized(Node* x) {
    if (how_.antialias || how_.excludes_outside || how_.place == "tf_crop_and_resize")
      call_.refuse("resizes an axis of open size in the mode ", how_.mode, " with ", how_.place);
    Node* position = positions();
    if (how_.mode == "nearest") return chosen(x, nearest(position));
    if (how_.mode == "linear") position = clamped(position);
    Node* low = call_.call("floor.default", {position});
    std::vector<int64_t> shape(call_.meta_of(x).sizes.size(), 1);
    shape[axis_.axis] = -1;
    Node* distance = call_.call("reshape.default", {call_.call("sub.Tensor", {position, low}), OnnxCall::list(shape)});
    if (how_.mode == "linear") {
      Node* first = chosen(x, low);
      Node* difference = call_.call("sub.Tensor", {chosen(x, call_.call("add.Tensor", {low, 1.0})), first});
      return call_.call("add.Tensor", {first, call_.call("mul.Tensor", {difference, distance})});
    }
    Node* sum = nullptr;
    for (int64_t tap = -1; tap <= 2; ++tap) {
      Node* from = chosen(x, call_.call("add.Tensor", {low, static_cast<double>(tap)}));
      Node* part = call_.call("mul.Tensor", {from, cubic_weight(distance, tap)});
      sum = sum ? call_.call("add.Tensor", {sum, part}) : part;
    }
    return sum;
  }

 private:
  Node* number(const SymInt& size) { return number_of(call_, size, DType::kF32); }
  Node* clamped(Node* place) {
    Node* last = number(subtract_sizes(call_, axis_.in, SymInt(1)));
    return call_.call("minimum.default", {call_.call("clamp_min.default", {place, 0}), last});
  }
  Node* chosen(Node* x, Node* place) {
    Node* index = call_.call("to.dtype", {clamped(place), DType::kS64});
    return call_.call("index_select.default", {x, static_cast<int64_t>(axis_.axis), index});
  }
  Node* divided_by_scale(Node* place) {
    if (axis_.computed_scale) return call_.call("div.Tensor", {place, axis_.computed_scale});
    if (axis_.scale) return call_.call("div.Tensor", {place, static_cast<double>(static_cast<float>(*axis_.scale))});
    return call_.call("div.Tensor", {place, call_.call("div.Tensor", {number(axis_.out), number(axis_.in)})});
  }

  Node* positions() {
    Node* at = call_.call("arange.default", {call_.import().size_argument(axis_.out)}, "dtype", DType::kF32);
    if (how_.place == "asymmetric") return divided_by_scale(at);
    if (how_.place == "align_corners") {
      Node* steps = call_.call("clamp_min.default", {number(subtract_sizes(call_, axis_.out, SymInt(1))), 1});
      Node* last = number(subtract_sizes(call_, axis_.in, SymInt(1)));
      return call_.call("div.Tensor", {call_.call("mul.Tensor", {at, last}), steps});
    }
    Node* middle = divided_by_scale(call_.call("add.Tensor", {at, 0.5}));
    if (how_.place == "tf_half_pixel_for_nn") return middle;
    middle = call_.call("sub.Tensor", {middle, 0.5});
    if (how_.place == "pytorch_half_pixel") {
      // 0 where there is one element only.
      Node* several = call_.call("gt.Scalar", {number(axis_.out), 1});
      return call_.call("mul.Tensor", {middle, call_.call("to.dtype", {several, DType::kF32})});
    }
    if (how_.place == "half_pixel_symmetric" && (axis_.scale || axis_.computed_scale)) {
      // The middle stays where it is, though the size was rounded.
      Node* half = call_.call("mul.Tensor", {number(axis_.in), 0.5});
      Node* kept = call_.call("mul.Tensor", {divided_by_scale(number(axis_.out)), 0.5});
      return call_.call("add.Tensor", {middle, call_.call("sub.Tensor", {half, kept})});
    }
    return middle;
  }

  Node* nearest(Node* position) {  // to be cut to an integer
    if (how_.nearest == "ceil") return call_.call("ceil.default", {position});
    if (how_.nearest == "round_prefer_floor")
      return call_.call("ceil.default", {call_.call("sub.Tensor", {position, 0.5})});
    if (how_.nearest == "simple" && axis_.computed_scale) {
      Node* shrinks = call_.call("lt.Scalar", {axis_.computed_scale, 1});
      return call_.call("where.self", {shrinks, call_.call("ceil.default", {position}), position});
    }
    if (how_.nearest == "round_prefer_ceil") position = call_.call("add.Tensor", {position, 0.5});
    return call_.call("floor.default", {position});
  }

  // Of the element `tap` behind the one below a position that is `distance` further.
  Node* cubic_weight(Node* distance, int64_t tap) {
    const double a = how_.cubic_a;
    Node* x = call_.call("abs.default", {call_.call("sub.Tensor", {distance, static_cast<double>(tap)})});
    const auto times_plus = [&](Node* node, double plus) {
      return call_.call("add.Tensor", {call_.call("mul.Tensor", {node, x}), plus});
    };
    if (tap == 0 || tap == 1) {
      Node* line = call_.call("sub.Tensor", {call_.call("mul.Tensor", {x, a + 2}), a + 3});
      return times_plus(call_.call("mul.Tensor", {line, x}), 1);
    }
    Node* line = call_.call("sub.Tensor", {call_.call("mul.Tensor", {x, a}), 5 * a});
    return times_plus(times_plus(line, 8 * a), -4 * a);
  }

  OnnxCall& call_;
  const Resizing& how_;
  const ResizedAxis& axis_;
};

void resize(OnnxCall& call) {
  const Resizing how = resizing_of(call);
  const std::vector<ResizedAxis> axes = resized_axes(call, how);
  if (axes.empty()) return call.same_as_input(0);
  if (Node* node = upsampled(call, how, axes)) return call.set(node);
  Node* out = call.tensor(0);
  const DType dtype = call.meta(0).dtype;
  const bool rounds = how.mode != "nearest" && !is_floating(dtype);
  if (rounds) out = call.call("to.dtype", {out, DType::kF32});
  for (const ResizedAxis& axis : axes) {
    const auto place = static_cast<int64_t>(axis.axis);
    if (!axis.in.is_constant() || !axis.out.is_constant()) {
      out = ResizingInRun(call, how, axis).resized(out);
      continue;
    }
    if (how.mode == "nearest") {
      const std::vector<int64_t> indices = nearest_indices(how, axis);
      const Tensor known =
          Tensor::of<int64_t>({static_cast<int64_t>(indices.size())}, std::span<const int64_t>(indices));
      out = call.call("index_select.default", {out, place, call.import().constant(known, "indices")});
    } else {
      const Tensor weights = weights_of(call, how, axis);
      const auto rank = static_cast<int64_t>(call.rank(0));
      Node* table = call.import().constant(weights.to(call.meta_of(out).dtype), "weights");
      // The axis is the last but one of the second factor.
      if (place == rank - 2) {
        out = call.call("matmul.default", {table, out});
      } else {
        const bool is_last = place == rank - 1;
        if (!is_last) out = call.call("transpose.int", {out, place, rank - 1});
        out = call.call("matmul.default", {out, call.call("t.default", {table})});
        if (!is_last) out = call.call("transpose.int", {out, place, rank - 1});
      }
    }
  }
  if (how.place == "tf_crop_and_resize")
    for (const ResizedAxis& axis : axes) {
      if (!axis.in.is_constant() || !axis.out.is_constant()) continue;
      out = extrapolated(call, out, how, axis);
    }
  // Weights that a run computes are float32.
  call.set(call.meta_of(out).dtype == dtype ? out : call.call("to.dtype", {out, dtype}));
}

constexpr OnnxOperator kResizeOperators[] = {
    {"Resize", resize, nullptr},
    {"Upsample", resize, nullptr},
};

}  // namespace

std::span<const OnnxOperator> onnx_resize_operators() { return kResizeOperators; }

}  // namespace qdq
