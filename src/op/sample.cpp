// Images read at places that a tensor gives: grid_sampler; and affine_grid_generator, which makes such places.
#include <array>

#include "base/parallel.h"
#include "op/elements.h"
#include "op/families.h"
#include "op/resize.h"

namespace qdq {
namespace {

// ATen/native/GridSampler.h. Places in -1..1 along W, H (and D), in this order, in the last axis of the grid.
enum class Sampling { kLinear, kNearest, kCubic };
enum class Outside { kZeros, kBorder, kReflection };

template <class T> Sampling read_sampling(const Call<T>& call) {
  const int64_t mode = call.integer(2), padding = call.integer(3);
  QDQ_CHECK(mode >= 0 && mode <= 2 && padding >= 0 && padding <= 2, kInvalidArgument, call.op().target,
            " got the interpolation mode ", mode, " and the padding mode ", padding, "; both go from 0 to 2");
  return static_cast<Sampling>(mode);
}

MetaValue infer_grid_sampler(const Call<TensorMeta>& call) {
  const TensorMeta &x = call.tensor(0), &grid = call.tensor(1);
  const size_t rank = x.sizes.size();
  QDQ_CHECK(is_floating(x.dtype) && x.dtype == grid.dtype, kInvalidArgument, call.op().target,
            " needs an image and a grid of one float dtype, found ", to_string(x.dtype), " and ",
            to_string(grid.dtype));
  QDQ_CHECK((rank == 4 || rank == 5) && grid.sizes.size() == rank && may_be_equal(x.sizes[0], grid.sizes[0]) &&
                may_be_equal(grid.sizes[rank - 1], SymInt(static_cast<int64_t>(rank) - 2)),
            kInvalidArgument, call.op().target, " cannot read an image of shape ", to_string(x.sizes),
            " at a grid of shape ", to_string(grid.sizes));
  QDQ_CHECK(read_sampling(call) != Sampling::kCubic || rank == 4, kInvalidArgument, call.op().target,
            " supports cubic interpolation only for images of two axes, found shape ", to_string(x.sizes));
  for (size_t a = 2; a < rank; ++a)
    QDQ_CHECK(!(x.sizes[a] == SymInt(0)), kInvalidArgument, call.op().target, " got an image of shape ",
              to_string(x.sizes));
  SymShape sizes{x.sizes[0], x.sizes[1]};
  sizes.insert(sizes.end(), grid.sizes.begin() + 1, grid.sizes.end() - 1);
  return tensor_meta(x.dtype, sizes);
}

// Positions are computed in F, which is f32 or, for f64, f64.
template <class F> class GridAxis {
 public:
  static constexpr size_t kMostTaps = 4;
  struct Tap {
    int64_t index;  // -1: outside
    F weight;
  };

  GridAxis(int64_t size, Sampling sampling, Outside outside, bool align_corners)
      : size_(size), sampling_(sampling), outside_(outside), align_corners_(align_corners) {}

  int64_t size() const { return size_; }

  // Sets the taps for a place and returns how many they are.
  size_t taps(F place, std::array<Tap, kMostTaps>& out) const {
    F at = align_corners_ ? (place + 1) / 2 * static_cast<F>(size_ - 1) : ((place + 1) * static_cast<F>(size_) - 1) / 2;
    if (sampling_ == Sampling::kCubic) {
      const F low = std::floor(at), t = at - low;
      const F weights[] = {far(t + 1), near(t), near(1 - t), far(2 - t)};
      for (size_t i = 0; i < kMostTaps; ++i) out[i] = {index_of(inside(low - 1 + static_cast<F>(i))), weights[i]};
      return kMostTaps;
    }
    at = inside(at);
    if (sampling_ == Sampling::kNearest) {
      out[0] = {index_of(std::nearbyint(at)), F(1)};
      return 1;
    }
    const F low = std::floor(at);
    out[0] = {index_of(low), low + 1 - at};
    out[1] = {index_of(low + 1), at - low};
    return 2;
  }

 private:
  static F near(F x) { return ((F(-0.75) + 2) * x - (F(-0.75) + 3)) * x * x + 1; }
  static F far(F x) { return ((F(-0.75) * x - 5 * F(-0.75)) * x + 8 * F(-0.75)) * x - 4 * F(-0.75); }
  int64_t index_of(F at) const { return at >= 0 && at < static_cast<F>(size_) ? static_cast<int64_t>(at) : -1; }
  // Where a position is looked for.
  F inside(F at) const {
    if (outside_ == Outside::kZeros) return at;
    if (outside_ == Outside::kReflection) at = reflected(at);
    return std::min(static_cast<F>(size_ - 1), std::max(at, F(0)));
  }
  // Between the centers of the outermost elements, or between their edges.
  F reflected(F at) const {
    const F low = align_corners_ ? F(0) : F(-0.5), span = static_cast<F>(align_corners_ ? size_ - 1 : size_);
    if (span == 0 || !std::isfinite(at)) return 0;
    at = std::fabs(at - low);
    const F rest = std::fmod(at, span);
    return std::fmod(std::floor(at / span), F(2)) == 0 ? rest + low : span - rest + low;
  }

  int64_t size_;
  Sampling sampling_;
  Outside outside_;
  bool align_corners_;
};

// An element of a plane that a place of the result adds, and its weight.
struct Source {
  int64_t index;  // -1: outside
  double weight;
};
// Appends those of one place, the same number for each: all taps of W with the first of H, then with the second.
template <class F> void add_sources(const std::vector<GridAxis<F>>& along, const F* place, std::vector<Source>& out) {
  const size_t begin = out.size();
  out.push_back({0, 1.0});
  int64_t stride = 1;
  for (size_t a = 0; a < along.size(); ++a) {
    std::array<typename GridAxis<F>::Tap, GridAxis<F>::kMostTaps> taps;
    const size_t count = along[a].taps(place[a], taps), before = out.size() - begin;
    out.resize(begin + before * count);
    for (size_t t = count; t-- > 0;)
      for (size_t i = 0; i < before; ++i) {
        const Source one = out[begin + i];
        const bool is_inside = one.index >= 0 && taps[t].index >= 0;
        out[begin + t * before + i] = {is_inside ? one.index + taps[t].index * stride : -1,
                                       one.weight * static_cast<double>(taps[t].weight)};
      }
    stride *= along[a].size();
  }
}

// The sums of the sources of each place of a plane, in double; or the one source.
template <class F>
void add_up(const std::vector<Source>& sources, bool is_chosen, const F* plane, int64_t places, F* out) {
  const size_t each = sources.size() / static_cast<size_t>(places);
  const Source* from = sources.data();
  if (is_chosen) {
    for (int64_t p = 0; p < places; ++p) out[p] = from[p].index >= 0 ? plane[from[p].index] : F(0);
    return;
  }
  for (int64_t p = 0; p < places; ++p, from += each) {
    double sum = 0;
    for (size_t i = 0; i < each; ++i)
      if (from[i].index >= 0) sum += from[i].weight * static_cast<double>(plane[from[i].index]);
    out[p] = static_cast<F>(sum);
  }
}

// The sources of some places at a time, which serve all channels.
template <class F> Tensor sample(const Call<Tensor>& call, const Shape& sizes) {
  constexpr int64_t kTogether = 1024;
  const DType dtype = DTypeOf<F>::value;
  const Tensor x = call.tensor(0).to(dtype).contiguous(), grid = call.tensor(1).to(dtype).contiguous(),
               out = Tensor::empty(sizes, dtype);
  if (out.numel() == 0) return out;
  const auto axes = static_cast<int64_t>(sizes.size()) - 2;
  const int64_t channels = sizes[1], places = out.numel() / (sizes[0] * channels),
                extent = x.numel() / x.size(0) / channels, blocks = (places + kTogether - 1) / kTogether;
  const bool is_chosen = read_sampling(call) == Sampling::kNearest;
  std::vector<GridAxis<F>> along;  // W first
  for (int64_t a = 0; a < axes; ++a)
    along.emplace_back(x.size(-1 - a), read_sampling(call), static_cast<Outside>(call.integer(3)), call.boolean(4));
  parallel_for(sizes[0] * blocks, 1, [&](int64_t begin, int64_t end) {
    std::vector<Source> sources;
    for (int64_t i = begin; i < end; ++i) {
      const int64_t n = i / blocks, first = i % blocks * kTogether, count = std::min(kTogether, places - first);
      sources.clear();
      for (int64_t p = first; p < first + count; ++p)
        add_sources(along, grid.data<F>() + (n * places + p) * axes, sources);
      for (int64_t c = n * channels; c < (n + 1) * channels; ++c)
        add_up(sources, is_chosen, x.data<F>() + c * extent, count, out.data<F>() + c * places + first);
    }
  });
  return out;
}
Value eval_grid_sampler(const Call<Tensor>& call) {
  const TensorMeta meta = result_meta(call);
  const Shape sizes = constant_shape(meta.sizes);
  return (meta.dtype == DType::kF64 ? sample<double>(call, sizes) : sample<float>(call, sizes)).to(meta.dtype);
}

// (theta [N, A, A + 1], size [N, C, H, W] or [N, C, D, H, W], align_corners) -> a grid [N, H, W, 2] or [N, D, H, W, 3]:
// the position of each place and 1, last axis first, times theta.
MetaValue infer_affine_grid(const Call<TensorMeta>& call) {
  const TensorMeta& theta = call.tensor(0);
  const SymShape size = call.syms(1);
  const auto axes = static_cast<int64_t>(size.size()) - 2;
  QDQ_CHECK(is_floating(theta.dtype) && (axes == 2 || axes == 3) && theta.sizes.size() == 3 &&
                may_be_equal(theta.sizes[0], size[0]) && may_be_equal(theta.sizes[1], SymInt(axes)) &&
                may_be_equal(theta.sizes[2], SymInt(axes + 1)),
            kInvalidArgument, call.op().target, " cannot make places in an image of shape ", to_string(size), " from ",
            to_string(theta.dtype), " ", to_string(theta.sizes),
            "; images [N, C, H, W] need [N, 2, 3], images [N, C, D, H, W] need [N, 3, 4]");
  SymShape sizes{size[0]};
  sizes.insert(sizes.end(), size.begin() + 2, size.end());
  sizes.push_back(SymInt(axes));
  return tensor_meta(theta.dtype, sizes);
}
Value eval_affine_grid(const Call<Tensor>& call) {
  const Shape sizes = constant_shape(result_meta(call).sizes);
  const Shape inner(sizes.begin() + 1, sizes.end() - 1);
  const Tensor base = affine_grid_base(inner, call.boolean(2)).to(DType::kF64),
               theta = call.tensor(0).to(DType::kF64).contiguous(), out = Tensor::empty(sizes, DType::kF64);
  const int64_t places = base.size(0), axes = sizes.back();
  double* to = out.data<double>();
  for (int64_t n = 0; n < sizes[0]; ++n)
    for (int64_t p = 0; p < places; ++p)
      for (int64_t a = 0; a < axes; ++a) {
        const double *row = theta.data<double>() + (n * axes + a) * (axes + 1),
                     *place = base.data<double>() + p * (axes + 1);
        double sum = 0;
        for (int64_t i = 0; i <= axes; ++i) sum += place[i] * row[i];
        *to++ = sum;
      }
  return out.to(call.tensor(0).dtype());
}

// Positions from -1 to 1 of the middles (or of the outer ones' middles) of `size` pixels.
std::vector<float> positions_along(int64_t size, bool align_corners) {
  std::vector<float> out;
  for (int64_t i = 0; i < size; ++i) {
    const double at = static_cast<double>(i), n = static_cast<double>(size);
    out.push_back(static_cast<float>(size == 1 ? 0 : align_corners ? 2 * at / (n - 1) - 1 : (2 * at + 1) / n - 1));
  }
  return out;
}

}  // namespace

Tensor affine_grid_base(const Shape& sizes, bool align_corners) {
  const size_t axes = sizes.size();
  const int64_t places = numel_of(sizes);
  std::vector<std::vector<float>> positions;
  for (const int64_t size : sizes) positions.push_back(positions_along(size, align_corners));
  const Tensor out = Tensor::empty({places, static_cast<int64_t>(axes) + 1}, DType::kF32);
  float* to = out.data<float>();
  for (int64_t place = 0; place < places; ++place) {
    int64_t rest = place;
    for (size_t i = axes; i-- > 0; rest /= sizes[i]) *to++ = positions[i][static_cast<size_t>(rest % sizes[i])];
    *to++ = 1;
  }
  return out;
}

void add_sample_ops(std::vector<OpDef>& ops) {
  for (const char* name : {"grid_sampler", "grid_sampler_2d", "grid_sampler_3d"})
    ops.push_back(define(concat("aten::", name,
                                "(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool "
                                "align_corners) -> Tensor"),
                         infer_grid_sampler, eval_grid_sampler, {.activation = 0}, Family::kResize));
  ops.push_back(define("aten::affine_grid_generator(Tensor theta, SymInt[] size, bool align_corners) -> Tensor",
                       infer_affine_grid, eval_affine_grid, {.activation = 0}));
}

}  // namespace qdq
