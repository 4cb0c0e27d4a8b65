// Operators of torchvision, which detectors use: regions of images in a fixed number of bins, convolutions whose taps
// move, and the choice among boxes that overlap. And ONNX's form of the first that takes the largest sample.
#include <algorithm>
#include <numeric>

#include "op/elements.h"
#include "op/families.h"

namespace qdq {
namespace {

// (input [N, C, H, W], rois [K, 5]: image, x1, y1, x2, y2; scale, rows, columns, ...) -> [K, C, rows, columns]
SymShape region_sizes(const Call<TensorMeta>& call) {
  const SymShape &x = call.tensor(0).sizes, &rois = call.tensor(1).sizes;
  QDQ_CHECK(x.size() == 4 && rois.size() == 2 && may_be_equal(rois[1], SymInt(5)), kInvalidArgument, call.op().target,
            " needs an image [N, C, H, W] and regions [K, 5], found ", to_string(x), " and ", to_string(rois));
  for (const size_t a : {size_t{2}, size_t{3}})
    QDQ_CHECK(!(x[a] == SymInt(0)), kInvalidArgument, call.op().target, " needs an image with elements, found ",
              to_string(x));
  for (const size_t i : {size_t{3}, size_t{4}})
    QDQ_CHECK(call.integer(i) >= 1 && call.integer(i) <= (1 << 16), kInvalidArgument, call.op().target, " needs ",
              call.integer(i), " bins");
  return {rois[0], x[1], SymInt(call.integer(3)), SymInt(call.integer(4))};
}

// The four elements of a plane around a position, and the share of each; nothing lies further than one outside.
struct Corners {
  bool inside = false;
  int64_t places[4] = {0, 0, 0, 0};
  double shares[4] = {0, 0, 0, 0};

  // At one channel of pixels [H * W, C].
  double sum(const double* pixels, int64_t C) const {
    return shares[0] * pixels[places[0] * C] + shares[1] * pixels[places[1] * C] + shares[2] * pixels[places[2] * C] +
           shares[3] * pixels[places[3] * C];
  }
  double largest(const double* pixels, int64_t C) const {
    return std::max({shares[0] * pixels[places[0] * C], shares[1] * pixels[places[1] * C],
                     shares[2] * pixels[places[2] * C], shares[3] * pixels[places[3] * C]});
  }
};
Corners corners_at(int64_t H, int64_t W, double y, double x) {
  Corners out;
  if (!(y >= -1 && y <= static_cast<double>(H) && x >= -1 && x <= static_cast<double>(W))) return out;
  out.inside = true;
  y = std::max(y, 0.0);
  x = std::max(x, 0.0);
  int64_t top = static_cast<int64_t>(y), left = static_cast<int64_t>(x);
  if (top >= H - 1) y = static_cast<double>(top = H - 1);
  if (left >= W - 1) x = static_cast<double>(left = W - 1);
  const int64_t bottom = std::min(top + 1, H - 1), right = std::min(left + 1, W - 1);
  const double down = y - static_cast<double>(top), across = x - static_cast<double>(left);
  const int64_t places[] = {top * W + left, top * W + right, bottom * W + left, bottom * W + right};
  const double shares[] = {(1 - down) * (1 - across), (1 - down) * across, down * (1 - across), down * across};
  std::copy_n(places, 4, out.places);
  std::copy_n(shares, 4, out.shares);
  return out;
}

// The number of the image that a region lies in.
int64_t image_of(const OpDef& op, double number, int64_t images) {
  QDQ_CHECK(number >= 0 && number < static_cast<double>(images), kInvalidArgument, op.target, " got a region of image ",
            number, ", there are ", images);
  return static_cast<int64_t>(number);
}

MetaValue infer_roi_align(const Call<TensorMeta>& call) {
  return tensor_meta(call.tensor(0).dtype, region_sizes(call));
}
// The bins of a region, each with samples in rows and columns. Positions are computed in f32, as torchvision and ONNX
// Runtime do: samples are counted by rounding them.
struct RegionBins {
  float top, left, height, width;  // of a bin
  int64_t down, across;            // samples of a bin

  Corners sample(int64_t row, int64_t column, int64_t s, int64_t H, int64_t W) const {
    const int64_t i = s / across, j = s % across;
    const float y =
        top + static_cast<float>(row) * height + (static_cast<float>(i) + 0.5f) * height / static_cast<float>(down);
    const float x =
        left + static_cast<float>(column) * width + (static_cast<float>(j) + 0.5f) * width / static_cast<float>(across);
    return corners_at(H, W, static_cast<double>(y), static_cast<double>(x));
  }
};
RegionBins bins_of(const Call<Tensor>& call, const float* roi, int64_t rows, int64_t columns) {
  const auto scale = static_cast<float>(call.number(2));
  const int64_t ratio = call.integer(5);
  const bool aligned = call.boolean(6);
  const float offset = aligned ? 0.5f : 0, left = roi[1] * scale - offset, top = roi[2] * scale - offset;
  float width = roi[3] * scale - offset - left, height = roi[4] * scale - offset - top;
  if (!aligned) {
    width = std::max(width, 1.0f);
    height = std::max(height, 1.0f);
  }
  const float bin_height = height / static_cast<float>(rows), bin_width = width / static_cast<float>(columns);
  const auto samples = [&](float bin) {
    constexpr float kMost = 1 << 12;
    QDQ_CHECK(ratio <= 0 ? std::fabs(bin) <= kMost : ratio <= static_cast<int64_t>(kMost), kInvalidArgument,
              call.op().target, " takes too many samples of a bin");
    return std::max<int64_t>(0, ratio > 0 ? ratio : static_cast<int64_t>(std::ceil(bin)));
  };
  return {top, left, bin_height, bin_width, samples(bin_height), samples(bin_width)};
}

template <bool takes_largest> Value eval_roi_align(const Call<Tensor>& call) {
  const Tensor out = Tensor::empty(constant_shape(result_meta(call).sizes), DType::kF64);
  check_float(call.tensor(0).dtype(), call.op().target);
  const Tensor x = call.tensor(0), rois = call.tensor(1).to(DType::kF32).contiguous();
  const int64_t C = x.size(1), H = x.size(2), W = x.size(3), rows = out.size(2), columns = out.size(3);
  // Where a sample lies is the same for all channels, which are looked at together.
  const Tensor pixels = x.permute({0, 2, 3, 1}).to(DType::kF64).contiguous();
  std::vector<double> bin(static_cast<size_t>(C));
  for (int64_t k = 0; k < rois.size(0); ++k) {
    const float* roi = rois.data<float>() + 5 * k;
    const double* image =
        pixels.data<double>() + image_of(call.op(), static_cast<double>(roi[0]), x.size(0)) * H * W * C;
    const RegionBins bins = bins_of(call, roi, rows, columns);
    const int64_t each = bins.down * bins.across;
    for (int64_t i = 0; i < rows * columns; ++i) {
      std::fill(bin.begin(), bin.end(), 0.0);
      for (int64_t s = 0; s < each; ++s) {
        const Corners at = bins.sample(i / columns, i % columns, s, H, W);
        if (!at.inside && !takes_largest) continue;
        for (int64_t c = 0; c < C; ++c) {
          double& value = bin[static_cast<size_t>(c)];
          if (!takes_largest) value += at.sum(image + c, C);
          else if (!at.inside) value = s == 0 ? 0 : std::max(value, 0.0);
          else value = s == 0 ? at.largest(image + c, C) : std::max(value, at.largest(image + c, C));
        }
      }
      double* to = out.data<double>() + k * C * rows * columns + i;
      for (int64_t c = 0; c < C; ++c)
        to[c * rows * columns] =
            bin[static_cast<size_t>(c)] / static_cast<double>(takes_largest ? 1 : std::max<int64_t>(each, 1));
    }
  }
  return out.to(call.tensor(0).dtype());
}

MetaValue infer_roi_pool(const Call<TensorMeta>& call) {
  const SymShape sizes = region_sizes(call);
  return MetaValue::List{tensor_meta(call.tensor(0).dtype, sizes), tensor_meta(DType::kS32, sizes)};
}
Value eval_roi_pool(const Call<Tensor>& call) {
  const MetaValue meta = infer_call(call);
  const Shape sizes = constant_shape(meta.get_if<MetaValue::List>()->at(0).get_if<TensorMeta>()->sizes);
  check_float(call.tensor(0).dtype(), call.op().target);
  const Tensor x = call.tensor(0).to(DType::kF64).contiguous(), rois = call.tensor(1).to(DType::kF32).contiguous(),
               out = Tensor::empty(sizes, DType::kF64), places = Tensor::empty(sizes, DType::kS32);
  const auto scale = static_cast<float>(call.number(2));
  const int64_t C = x.size(1), H = x.size(2), W = x.size(3), rows = sizes[2], columns = sizes[3];
  const auto edge = [&](float value) {
    constexpr float kMost = 1 << 28;
    return static_cast<int64_t>(std::round(std::clamp(value == value ? value * scale : 0, -kMost, kMost)));
  };
  for (int64_t k = 0; k < sizes[0]; ++k) {
    const float* roi = rois.data<float>() + 5 * k;
    const int64_t n = image_of(call.op(), static_cast<double>(roi[0]), x.size(0)), left = edge(roi[1]),
                  top = edge(roi[2]);
    const float height = static_cast<float>(std::max<int64_t>(edge(roi[4]) - top + 1, 1)) / static_cast<float>(rows),
                width = static_cast<float>(std::max<int64_t>(edge(roi[3]) - left + 1, 1)) / static_cast<float>(columns);
    // The part of a bin that lies in the image.
    const auto part = [](int64_t bin, float size, int64_t first, int64_t extent) {
      const auto low = static_cast<int64_t>(std::floor(static_cast<float>(bin) * size)) + first;
      const auto high = static_cast<int64_t>(std::ceil(static_cast<float>(bin + 1) * size)) + first;
      return std::pair{std::clamp<int64_t>(low, 0, extent), std::clamp<int64_t>(high, 0, extent)};
    };
    for (int64_t c = 0; c < C; ++c) {
      const double* plane = x.data<double>() + (n * C + c) * H * W;
      for (int64_t row = 0; row < rows; ++row)
        for (int64_t column = 0; column < columns; ++column) {
          const auto [y0, y1] = part(row, height, top, H);
          const auto [x0, x1] = part(column, width, left, W);
          int64_t best = -1;
          for (int64_t y = y0; y < y1; ++y)
            for (int64_t i = x0; i < x1; ++i)
              if (best < 0 || plane[y * W + i] > plane[best]) best = y * W + i;
          const int64_t to = ((k * C + c) * rows + row) * columns + column;
          out.data<double>()[to] = best < 0 ? 0 : plane[best];
          places.data<int32_t>()[to] = static_cast<int32_t>(best);
        }
    }
  }
  return Value::List{out.to(call.tensor(0).dtype()), places};
}

// (input, weight [O, C / G, kH, kW], offset [N, D 2 kH kW, oH, oW], mask [N, D kH kW, oH, oW], bias [O], stride,
// padding and dilation of both axes, groups, D, use_mask).
MetaValue infer_deform_conv(const Call<TensorMeta>& call) {
  const SymShape &x = call.tensor(0).sizes, &weight = call.tensor(1).sizes, &offset = call.tensor(2).sizes;
  QDQ_CHECK(x.size() == 4 && weight.size() == 4 && offset.size() == 4, kInvalidArgument, call.op().target,
            " needs four dimensions, found ", to_string(x), ", ", to_string(weight), " and ", to_string(offset));
  const int64_t groups = call.integer(11), parts = call.integer(12);
  QDQ_CHECK(groups >= 1 && parts >= 1, kInvalidArgument, call.op().target, " got ", groups, " groups and ", parts,
            " groups of offsets");
  SymShape sizes{x[0], weight[0]};
  for (size_t a = 0; a < 2; ++a) {
    const int64_t stride = call.integer(5 + a), padding = call.integer(7 + a), dilation = call.integer(9 + a);
    QDQ_CHECK(stride >= 1 && padding >= 0 && dilation >= 1 && std::max({stride, padding, dilation}) < (1 << 30),
              kInvalidArgument, call.op().target, " got stride ", stride, ", padding ", padding, ", dilation ",
              dilation);
    const SymInt reach = (weight[a + 2] - SymInt(1)) * SymInt(dilation) + SymInt(1);
    sizes.push_back((x[a + 2] + SymInt(2 * padding) - reach).floor_div(SymInt(stride)) + SymInt(1));
  }
  const auto check = [&](const SymShape& found, const SymShape& wanted, const char* name) {
    bool fits = found.size() == wanted.size();
    for (size_t a = 0; fits && a < wanted.size(); ++a) fits = may_be_equal(found[a], wanted[a]);
    QDQ_CHECK(fits, kInvalidArgument, call.op().target, " needs its ", name, " of shape ", to_string(wanted),
              ", found ", to_string(found));
  };
  const SymInt taps = weight[2] * weight[3] * SymInt(parts);
  check(weight, {weight[0], x[1].floor_div(SymInt(groups)), weight[2], weight[3]}, "weight");
  check(offset, {x[0], taps * SymInt(2), sizes[2], sizes[3]}, "offset");
  if (call.boolean(13)) check(call.tensor(3).sizes, {x[0], taps, sizes[2], sizes[3]}, "mask");
  check(call.tensor(4).sizes, {weight[0]}, "bias");
  for (const auto& [count, of] :
       {std::pair{weight[0].constant(), groups}, std::pair{x[1].constant(), groups}, std::pair{x[1].constant(), parts}})
    QDQ_CHECK(!count || *count % of == 0, kInvalidArgument, call.op().target, " cannot divide ", count.value_or(0),
              " channels into ", of, " groups");
  return tensor_meta(call.tensor(0).dtype, sizes);
}

// An element between others, 0 where there is none.
double between(const double* plane, int64_t H, int64_t W, double y, double x) {
  if (!(y > -1 && y < static_cast<double>(H) && x > -1 && x < static_cast<double>(W))) return 0;
  const double top = std::floor(y), left = std::floor(x);
  double sum = 0;
  for (const int64_t i : {int64_t{0}, int64_t{1}})
    for (const int64_t j : {int64_t{0}, int64_t{1}}) {
      const int64_t row = static_cast<int64_t>(top) + i, column = static_cast<int64_t>(left) + j;
      if (row < 0 || row >= H || column < 0 || column >= W) continue;
      sum += (i ? y - top : 1 - (y - top)) * (j ? x - left : 1 - (x - left)) * plane[row * W + column];
    }
  return sum;
}

Value eval_deform_conv(const Call<Tensor>& call) {
  const Tensor out = Tensor::empty(constant_shape(result_meta(call).sizes), DType::kF64);
  check_float(call.tensor(0).dtype(), call.op().target);
  const auto wide = [&](size_t i) { return call.tensor(i).to(DType::kF64).contiguous(); };
  const bool masks = call.boolean(13);
  const Tensor x = wide(0), weight = wide(1), offset = wide(2), mask = masks ? wide(3) : Tensor(), bias = wide(4);
  const int64_t C = x.size(1), H = x.size(2), W = x.size(3), O = out.size(1), out_height = out.size(2),
                out_width = out.size(3), kH = weight.size(2), kW = weight.size(3), groups = call.integer(11),
                parts = call.integer(12), inputs = weight.size(1), taps = kH * kW, places = out_height * out_width;
  std::vector<double> samples(static_cast<size_t>(C * taps));  // at one place of the output
  for (int64_t n = 0; n < x.size(0); ++n)
    for (int64_t place = 0; place < places; ++place) {
      const int64_t row = place / out_width, column = place % out_width;
      for (int64_t c = 0; c < C; ++c) {
        const int64_t part = c / (C / parts);
        for (int64_t tap = 0; tap < taps; ++tap) {
          const double* moved =
              offset.data<double>() + (n * parts + part) * 2 * taps * places + 2 * tap * places + place;
          const double y = static_cast<double>(row * call.integer(5) - call.integer(7) + tap / kW * call.integer(9)),
                       at = static_cast<double>(column * call.integer(6) - call.integer(8) +
                                                tap % kW * call.integer(10));
          double value = between(x.data<double>() + (n * C + c) * H * W, H, W, y + moved[0], at + moved[places]);
          if (masks) value *= mask.data<double>()[((n * parts + part) * taps + tap) * places + place];
          samples[static_cast<size_t>(c * taps + tap)] = value;
        }
      }
      for (int64_t o = 0; o < O; ++o) {
        const double *filter = weight.data<double>() + o * inputs * taps,
                     *from = samples.data() + o / (O / groups) * inputs * taps;
        double sum = 0;
        for (int64_t i = 0; i < inputs * taps; ++i) sum += filter[i] * from[i];
        out.data<double>()[(n * O + o) * places + place] = sum + bias.data<double>()[o];
      }
    }
  return out.to(call.tensor(0).dtype());
}

// (dets [N, 4]: x1, y1, x2, y2; scores [N]; iou_threshold) -> the numbers of the boxes, from the largest score on, that
// share with no box before them more than this part of the area of both.
MetaValue infer_nms(const Call<TensorMeta>& call) {
  const TensorMeta &boxes = call.tensor(0), &scores = call.tensor(1);
  QDQ_CHECK(boxes.sizes.size() == 2 && may_be_equal(boxes.sizes[1], SymInt(4)) && scores.sizes.size() == 1 &&
                may_be_equal(boxes.sizes[0], scores.sizes[0]),
            kInvalidArgument, call.op().target, " needs boxes [N, 4] and scores [N], found ", to_string(boxes.sizes),
            " and ", to_string(scores.sizes));
  QDQ_CHECK(boxes.dtype == scores.dtype, kInvalidArgument, call.op().target,
            " needs boxes and scores of one dtype, found ", to_string(boxes.dtype), " and ", to_string(scores.dtype));
  return tensor_meta(DType::kS64, {size_from_values()});
}
template <class T> std::vector<int64_t> chosen_boxes(const T* boxes, const T* scores, int64_t count, double threshold) {
  const auto area = [&](const T* b) { return (b[2] - b[0]) * (b[3] - b[1]); };
  // As in torchvision, whose comparison also decides what becomes of boxes whose areas are 0 or NaN.
  const auto overlap = [&](const T* a, const T* b) {
    const T width = std::max(T(0), std::min(a[2], b[2]) - std::max(a[0], b[0])),
            height = std::max(T(0), std::min(a[3], b[3]) - std::max(a[1], b[1])), shared = width * height;
    return static_cast<double>(shared / (area(a) + area(b) - shared)) > threshold;
  };
  std::vector<int64_t> order(static_cast<size_t>(count)), chosen;
  std::iota(order.begin(), order.end(), 0);
  // NaN is the largest score, as PyTorch sorts.
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return scores[a] > scores[b] || (scores[a] != scores[a] && scores[b] == scores[b]);
  });
  for (const int64_t i : order)
    if (std::none_of(chosen.begin(), chosen.end(), [&](int64_t c) { return overlap(boxes + 4 * c, boxes + 4 * i); }))
      chosen.push_back(i);
  return chosen;
}
Value eval_nms(const Call<Tensor>& call) {
  infer_call(call);
  const Tensor boxes = call.tensor(0).contiguous(), scores = call.tensor(1).contiguous();
  const bool is_wide = boxes.dtype() == DType::kF64;
  QDQ_CHECK(is_wide || boxes.dtype() == DType::kF32, kUnsupported, call.op().target,
            " needs boxes in float32 or float64, found ", to_string(boxes.dtype()));
  const auto choose = [&](auto zero) {
    using T = decltype(zero);
    return chosen_boxes(boxes.data<T>(), scores.data<T>(), scores.size(0), call.number(2));
  };
  const std::vector<int64_t> chosen = is_wide ? choose(0.0) : choose(0.0f);
  return Tensor::of<int64_t>({static_cast<int64_t>(chosen.size())}, chosen);
}

}  // namespace

void add_torchvision_ops(std::vector<OpDef>& ops) {
  const Roles roles{.activation = 0};
  const std::string region =
      "(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width";
  const std::string samples = ", int sampling_ratio, bool aligned) -> Tensor";
  ops.push_back(define("torchvision::roi_align" + region + samples, infer_roi_align, eval_roi_align<false>, roles));
  ops.push_back(define("onnx::roi_align_max" + region + samples, infer_roi_align, eval_roi_align<true>, roles));
  ops.push_back(
      define("torchvision::roi_pool" + region + ") -> (Tensor, Tensor)", infer_roi_pool, eval_roi_pool, roles));
  ops.push_back(define(
      "torchvision::deform_conv2d(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, SymInt "
      "stride_h, SymInt stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w, SymInt groups, "
      "SymInt offset_groups, bool use_mask) -> Tensor",
      infer_deform_conv, eval_deform_conv, {.activation = 0, .weight = 1, .bias = 4}));
  ops.push_back(
      define("torchvision::nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor", infer_nms, eval_nms));
}

}  // namespace qdq
