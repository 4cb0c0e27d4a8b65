// Resizing, padding and the norms of planes on the portable loops.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "exec/simd.h"
#include "exec/simd_obstacles.h"
#include "kernel/math.h"
#include "kernel/pointwise.h"
#include "kernel/resample.h"
#include "op/infer.h"
#include "op/resize.h"

namespace qdq {
namespace {

// An axis that is resized, as flat lists: output element i is the sum of weight * element over its taps.
struct ResizedAxis {
  std::vector<int64_t> first;  // of output i in the lists below; one more at the end
  std::vector<int64_t> index;
  std::vector<float> weight;
  // The weights are multiples of 1/parts, a power of two of at most 64; 0: they are not.
  int64_t parts = 1;

  explicit ResizedAxis(const ResizeTaps& taps) {
    for (const std::vector<ResizeTap>& here : taps) {
      first.push_back(static_cast<int64_t>(index.size()));
      for (const ResizeTap& tap : here) {
        while (parts > 0 && !is_whole(tap.weight * static_cast<double>(parts))) parts = parts < 64 ? parts * 2 : 0;
        index.push_back(tap.index);
        weight.push_back(static_cast<float>(tap.weight));
      }
    }
    first.push_back(static_cast<int64_t>(index.size()));
  }
  // Each element itself.
  explicit ResizedAxis(int64_t size) : index(static_cast<size_t>(size)), weight(index.size(), 1.0f) {
    std::iota(index.begin(), index.end(), int64_t{0});
    first = index;
    first.push_back(size);
  }
  int64_t size() const { return static_cast<int64_t>(first.size()) - 1; }
  kernel::Taps taps() const { return {size(), first.data(), index.data(), weight.data()}; }

 private:
  static bool is_whole(double x) { return x == std::floor(x); }
};

// upsample_* of sequences, images and volumes, along the depth, then the height and then the width, each sum rounded at
// every step. Bytes are computed in floats, where that is exact. All sequences are the rows of one image.
class ResizeOp : public CompiledOp {
 public:
  Value run(const Call<Tensor>& call) override {
    const Tensor& given = call.tensor(0);
    const bool are_bytes = given.dtype() == DType::kU8 || given.dtype() == DType::kS8;
    if (!(is_f32(given) || are_bytes) || given.dim() < 3 || given.dim() > 5 || given.numel() == 0)
      return run_reference(call, "its input is empty, not float32, or has other than one to three axes to resize");
    std::vector<ResizedAxis> axes;
    int64_t parts = 1;
    for (const ResizeTaps& taps : resize_taps(call)) parts *= axes.emplace_back(taps).parts;
    // Floats hold the sums of bytes if these have at most 24 bits.
    if (are_bytes && (parts == 0 || parts > int64_t{1} << 16))
      return run_reference(call, "floats do not hold its sums of bytes exactly");
    Tensor x = are_bytes ? widened_to_floats(given) : given.contiguous();
    Shape sizes = given.sizes();
    const int64_t in_w = sizes.back(), in_h = axes.size() == 1 ? given.numel() / in_w : given.size(-2);
    if (axes.size() == 3) {
      sizes[2] = axes[0].size();
      x = resized(x, sizes, given.size(2), in_h * in_w, axes[0], ResizedAxis(in_h * in_w));
    }
    const ResizedAxis rows = axes.size() == 1 ? ResizedAxis(in_h) : axes[axes.size() - 2];
    if (axes.size() > 1) sizes[sizes.size() - 2] = rows.size();
    sizes.back() = axes.back().size();
    x = resized(x, sizes, in_h, in_w, rows, axes.back());
    return are_bytes ? narrowed_from_floats(x, given.dtype()) : x;
  }

 private:
  // Planes [in_h, in_w] as a tensor of these sizes.
  static Tensor resized(const Tensor& x, const Shape& sizes, int64_t in_h, int64_t in_w, const ResizedAxis& rows,
                        const ResizedAxis& columns) {
    const Tensor out = uninitialized(sizes, DType::kF32);
    kernel::resample_f32(x.data<float>(), x.numel() / in_h / in_w, in_h, in_w, rows.taps(), columns.taps(),
                         out.data<float>());
    return out;
  }
};

// upsample_nearest*: rows and elements chosen, of any dtype as words of their size.
class NearestOp : public CompiledOp {
 public:
  Value run(const Call<Tensor>& call) override {
    const Tensor& given = call.tensor(0);
    if (given.numel() == 0 || size_of(given.dtype()) > sizeof(uint64_t))
      return run_reference(call, "its input is empty");
    switch (size_of(given.dtype())) {
      case 1: return resized<uint8_t>(call, given);
      case 2: return resized<uint16_t>(call, given);
      case 4: return resized<uint32_t>(call, given);
      default: return resized<uint64_t>(call, given);
    }
  }

 private:
  template <class Word> static Tensor resized(const Call<Tensor>& call, const Tensor& given) {
    std::vector<ResizedAxis> axes;
    for (const ResizeTaps& taps : resize_taps(call)) axes.emplace_back(taps);
    Shape sizes = given.sizes();
    const size_t leading = sizes.size() - axes.size();
    for (size_t a = 0; a < axes.size(); ++a) sizes[leading + a] = axes[a].size();
    const Tensor x = given.contiguous(), out = uninitialized(sizes, given.dtype());
    const int64_t planes = numel_of(Shape(sizes.begin(), sizes.begin() + static_cast<std::ptrdiff_t>(leading)));
    if (out.numel() == 0) return out;
    const int64_t in_plane = x.numel() / planes, out_plane = out.numel() / planes;
    for (int64_t p = 0; p < planes; ++p)
      choose(axes, 0, reinterpret_cast<const Word*>(x.raw()) + p * in_plane, in_plane,
             reinterpret_cast<Word*>(out.raw()) + p * out_plane, out_plane, &x.sizes()[leading]);
    return out;
  }

  // The elements of an axis, each of them `in` or `out` words over the axes behind it.
  template <class Word>
  static void choose(const std::vector<ResizedAxis>& axes, size_t a, const Word* from, int64_t in, Word* to,
                     int64_t out, const int64_t* sizes) {
    const int64_t count = axes[a].size(), *index = axes[a].index.data();
    if (a + 1 == axes.size()) {
      for (int64_t i = 0; i < count; ++i) to[i] = from[index[i]];
      return;
    }
    in /= sizes[a];
    out /= count;
    for (int64_t i = 0; i < count; ++i, to += out) {
      if (i > 0 && index[i] == index[i - 1]) std::copy_n(to - out, out, to);
      else choose(axes, a + 1, from + index[i] * in, in, to, out, sizes);
    }
  }
};

// Padding of any axes, row by row of the result; elements of any dtype as words of their size.
class PadOp : public CompiledOp {
 public:
  Value run(const Call<Tensor>& call) override {
    const Tensor& given = call.tensor(0);
    const Shape& sizes = sizes_of(call, given);
    if (given.dim() == 0 || given.numel() == 0 || numel_of(sizes) == 0 || size_of(given.dtype()) > sizeof(int64_t) ||
        given.dtype() == DType::kString || is_complex(given.dtype()))
      return run_reference(call, "its input is empty or a single number, complex or of strings");
    switch (size_of(given.dtype())) {
      case 1: return padded<uint8_t>(call, given, sizes);
      case 2: return padded<uint16_t>(call, given, sizes);
      case 4: return padded<uint32_t>(call, given, sizes);
      default: return padded<uint64_t>(call, given, sizes);
    }
  }

 private:
  // The result's sizes, which are found and checked once for calls of the same sizes.
  const Shape& sizes_of(const Call<Tensor>& call, const Tensor& given) {
    std::vector<int64_t> pad = call.integers(1);
    if (pad != pad_ || given.sizes() != given_ || sizes_.empty()) {
      sizes_ = constant_shape(result_meta(call).sizes);
      given_ = given.sizes();
      pad_ = std::move(pad);
    }
    return sizes_;
  }

  template <class Word> static Tensor padded(const Call<Tensor>& call, const Tensor& given, const Shape& sizes) {
    const Border border = border_of(call);
    Word filling;
    std::memcpy(&filling, Tensor::full({1}, given.dtype(), filling_of(call)).raw(), sizeof(Word));
    const std::vector<int64_t> pad = call.integers(1);
    const Tensor x = given.contiguous(), out = uninitialized(sizes, given.dtype());
    const size_t rank = sizes.size();
    // sources[a][i]: the input's element of axis a for the result's element i, times its stride; -1: none.
    std::vector<std::vector<int64_t>> sources(rank);
    for (size_t a = 0; a < rank; ++a) {
      const size_t pair = 2 * (rank - 1 - a);
      const int64_t before = pair < pad.size() ? pad[pair] : 0;
      sources[a].resize(static_cast<size_t>(sizes[a]));
      for (int64_t i = 0; i < sizes[a]; ++i) {
        // Of what lies inside along the last axis, which goes in one piece, only the first is asked for.
        if (a + 1 == rank && i > before && i < before + x.sizes()[a] && i > 0) continue;
        const int64_t source = padding_source(i - before, x.sizes()[a], border);
        sources[a][static_cast<size_t>(i)] = source < 0 ? -1 : source * x.strides()[a];
      }
    }
    const std::vector<int64_t>& columns = sources.back();
    const int64_t width = sizes.back(), before = pad.empty() ? 0 : pad[0];
    const int64_t begin = std::clamp<int64_t>(before, 0, width), end = std::clamp(before + x.size(-1), begin, width);
    std::vector<int64_t> index(rank, 0);
    const Word* from = reinterpret_cast<const Word*>(x.raw());
    Word* to = reinterpret_cast<Word*>(out.raw());
    for (int64_t row = 0; row < out.numel() / width; ++row, to += width) {
      int64_t offset = 0;
      bool inside = true;
      for (size_t a = 0; a + 1 < rank; ++a) {
        const int64_t at = sources[a][static_cast<size_t>(index[a])];
        inside = inside && at >= 0;
        offset += at;
      }
      if (inside) pad_row(from + offset, columns, begin, end, filling, to);
      else std::fill_n(to, width, filling);
      for (size_t a = rank - 1; a-- > 0;) {
        if (++index[a] < sizes[a]) break;
        index[a] = 0;
      }
    }
    return out;
  }

  template <class Word>
  static void pad_row(const Word* from, const std::vector<int64_t>& columns, int64_t begin, int64_t end, Word filling,
                      Word* to) {
    const auto border = [&](int64_t first, int64_t last) {
      for (int64_t j = first; j < last; ++j) {
        const int64_t source = columns[static_cast<size_t>(j)];
        to[j] = source < 0 ? filling : from[source];
      }
    };
    border(0, begin);
    if (end > begin) std::copy_n(from + columns[static_cast<size_t>(begin)], end - begin, to + begin);
    border(end, static_cast<int64_t>(columns.size()));
  }

  Shape given_, sizes_;
  std::vector<int64_t> pad_;
};

// group_norm, and instance_norm, which has a group for every channel: rows of all elements of a group are normed as by
// layer_norm_f32, and then the factors and summands of their channels follow.
class GroupNormOp : public CompiledOp {
 public:
  explicit GroupNormOp(bool is_instance) : is_instance_(is_instance) {}

  Value run(const Call<Tensor>& call) override {
    const Tensor& given = call.tensor(0);
    const size_t at = is_instance_ ? 1 : 2;
    const auto fits = [&](const Tensor* t) {
      return t == nullptr || (is_dense_f32(*t) && t->dim() == 1 && t->size(0) == given.size(1));
    };
    const Tensor *weight = call.optional_tensor(at), *bias = call.optional_tensor(at + 1);
    if (!is_f32(given) || given.dim() < 2 || given.numel() == 0 || !fits(weight) || !fits(bias) ||
        (is_instance_ && (!call.boolean(5) || !call.is_none(3))))
      return run_reference(call, "an operand is empty, not float32 or does not fit, or it has statistics of its own");
    const int64_t channels = given.size(1), groups = is_instance_ ? channels : call.integer(1);
    if (groups < 1 || channels % groups != 0) return run_reference(call, "its groups do not divide the channels");
    const Tensor x = given.contiguous(), out = uninitialized(x.sizes(), DType::kF32);
    const int64_t rows = x.size(0) * groups, inner = x.numel() / x.size(0) / channels;
    kernel::layer_norm_f32(x.data<float>(), rows, x.numel() / rows, nullptr, nullptr,
                           static_cast<float>(call.number(is_instance_ ? 7 : 4)), out.data<float>(), nullptr, nullptr);
    if (weight == nullptr && bias == nullptr) return out;
    const std::vector<float> ones(weight == nullptr ? static_cast<size_t>(channels) : 0, 1.0f);
    kernel::scale_channels_f32(out.data<float>(), x.size(0), channels, inner,
                               weight != nullptr ? weight->data<float>() : ones.data(),
                               bias != nullptr ? bias->data<float>() : nullptr, out.data<float>());
    return out;
  }

 private:
  bool is_instance_;
};

template <class Op, auto... settings> std::unique_ptr<CompiledOp> make_of(const Node&, bool) {
  return std::make_unique<Op>(settings...);
}

constexpr SimdOp kImages[] = {
    {"aten.upsample_linear1d.vec", make_of<ResizeOp>, elementwise_obstacle},
    {"aten.upsample_linear1d.default", make_of<ResizeOp>, elementwise_obstacle},
    {"aten.upsample_bilinear2d.vec", make_of<ResizeOp>, elementwise_obstacle},
    {"aten.upsample_bilinear2d.default", make_of<ResizeOp>, elementwise_obstacle},
    {"aten.upsample_bicubic2d.vec", make_of<ResizeOp>, elementwise_obstacle},
    {"aten.upsample_bicubic2d.default", make_of<ResizeOp>, elementwise_obstacle},
    {"aten.upsample_trilinear3d.vec", make_of<ResizeOp>, elementwise_obstacle},
    {"aten.upsample_trilinear3d.default", make_of<ResizeOp>, elementwise_obstacle},
    {"aten._upsample_bilinear2d_aa.vec", make_of<ResizeOp>, elementwise_obstacle},
    {"aten._upsample_bilinear2d_aa.default", make_of<ResizeOp>, elementwise_obstacle},
    {"aten._upsample_bicubic2d_aa.vec", make_of<ResizeOp>, elementwise_obstacle},
    {"aten._upsample_bicubic2d_aa.default", make_of<ResizeOp>, elementwise_obstacle},
    {"aten.group_norm.default", make_of<GroupNormOp, false>, elementwise_obstacle},
    {"aten.instance_norm.default", make_of<GroupNormOp, true>, elementwise_obstacle},
};

constexpr SimdOp kPadding[] = {
    {"aten.upsample_nearest1d.vec", make_of<NearestOp>, nullptr},
    {"aten.upsample_nearest1d.default", make_of<NearestOp>, nullptr},
    {"aten.upsample_nearest2d.vec", make_of<NearestOp>, nullptr},
    {"aten.upsample_nearest2d.default", make_of<NearestOp>, nullptr},
    {"aten.upsample_nearest3d.vec", make_of<NearestOp>, nullptr},
    {"aten.upsample_nearest3d.default", make_of<NearestOp>, nullptr},
    {"aten._upsample_nearest_exact1d.vec", make_of<NearestOp>, nullptr},
    {"aten._upsample_nearest_exact1d.default", make_of<NearestOp>, nullptr},
    {"aten._upsample_nearest_exact2d.vec", make_of<NearestOp>, nullptr},
    {"aten._upsample_nearest_exact2d.default", make_of<NearestOp>, nullptr},
    {"aten._upsample_nearest_exact3d.vec", make_of<NearestOp>, nullptr},
    {"aten._upsample_nearest_exact3d.default", make_of<NearestOp>, nullptr},
    {"aten.pad.default", make_of<PadOp>, nullptr},
    {"aten.constant_pad_nd.default", make_of<PadOp>, nullptr},
    {"aten.reflection_pad1d.default", make_of<PadOp>, nullptr},
    {"aten.reflection_pad2d.default", make_of<PadOp>, nullptr},
    {"aten.replication_pad1d.default", make_of<PadOp>, nullptr},
    {"aten.replication_pad2d.default", make_of<PadOp>, nullptr},
};

}  // namespace

std::span<const SimdOp> padding_simd_ops() { return kPadding; }
std::span<const SimdOp> image_simd_ops() { return kImages; }

}  // namespace qdq
