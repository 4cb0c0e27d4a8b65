// ONNX operators over images and other grids: pools, blocks of pixels, sampling at positions.
#include <algorithm>
#include <cmath>
#include <limits>

#include "io/onnx/import.h"
#include "io/onnx/chains.h"
#include "io/onnx/window.h"
#include "op/resize.h"

namespace qdq {
namespace {

// Torch's pools pad both sides alike, by half a window at most. `rounds_up`: the last window may reach beyond the
// padding if it begins within the input or the padding before it.
struct Pool {
  OnnxWindow window;
  bool rounds_up = false;
};

bool fits_torch(const OnnxWindow& window) {
  if (!window.is_symmetric()) return false;
  for (size_t i = 0; i < window.axes(); ++i)
    if (*window.begin[i].constant() > window.kernel[i] / 2) return false;
  return true;
}

// The number of windows along an axis of known size.
int64_t windows_along(const Pool& pool, size_t axis, int64_t size) {
  const int64_t begin = *pool.window.begin[axis].constant(), end = *pool.window.end[axis].constant(),
                stride = pool.window.strides[axis], room = size + begin + end - pool.window.reach(axis);
  if (room < 0) return pool.rounds_up && room > -stride ? 1 : 0;
  int64_t out = (room + (pool.rounds_up ? stride - 1 : 0)) / stride + 1;
  if (pool.rounds_up && (out - 1) * stride >= size + begin) --out;
  return out;
}

std::vector<int64_t> known_sizes(OnnxCall& call, const Node* input, size_t axes) {
  const SymShape& sizes = call.meta_of(input).sizes;
  std::vector<int64_t> out;
  for (size_t i = sizes.size() - axes; i < sizes.size(); ++i)
    if (const auto known = sizes[i].constant()) out.push_back(*known);
  return out.size() == axes ? out : std::vector<int64_t>();
}

// Makes the pool one that PyTorch's operators take without padding: what is padded before is told by `window.begin`,
// and behind as far as the last window reaches (which may be less than nothing).
void pad_to_windows(OnnxCall& call, Node* input, Pool& pool) {
  const std::vector<int64_t> sizes = known_sizes(call, input, pool.window.axes());
  if (!pool.rounds_up) return;
  if (sizes.empty()) call.refuse("rounds the number of windows up along an axis of open size that is padded unevenly");
  for (size_t i = 0; i < pool.window.axes(); ++i) {
    const int64_t count = windows_along(pool, i, sizes[i]);
    if (count < 1) call.refuse("has no window along an axis of the size ", sizes[i]);
    pool.window.end[i] =
        (count - 1) * pool.window.strides[i] + pool.window.reach(i) - sizes[i] - *pool.window.begin[i].constant();
  }
  pool.rounds_up = false;
}

Pool pool_of(OnnxCall& call, Node* input) {
  Pool out{window_of(call, input, call.integers("kernel_shape", {})), call.integer("ceil_mode", 0) != 0};
  const std::vector<int64_t> sizes = known_sizes(call, input, out.window.axes());
  if (!out.rounds_up || sizes.empty()) return out;
  // Where rounding up changes nothing, it is not said.
  Pool down = out;
  down.rounds_up = false;
  for (size_t i = 0; i < sizes.size(); ++i)
    if (windows_along(out, i, sizes[i]) != windows_along(down, i, sizes[i])) return out;
  return down;
}

double lowest(DType dtype) {
  return is_floating(dtype) ? -std::numeric_limits<double>::infinity() : static_cast<double>(min_of(dtype));
}

// Indices of PyTorch's pools, positions in a plane of the padded input, as ONNX's: positions in the whole input.
Node* onnx_indices(OnnxCall& call, Node* indices, Node* input, const Node* pooled, const std::vector<SymInt>& begin) {
  const size_t axes = begin.size();
  const std::vector<int64_t> sizes = known_sizes(call, input, axes + 2), inner = known_sizes(call, pooled, axes);
  if (sizes.empty()) call.refuse("gives indices into an input of open size");
  const bool by_columns = call.integer("storage_order", 0) != 0;
  const bool is_moved = std::any_of(begin.begin(), begin.end(), [](const SymInt& b) { return !(b == SymInt(0)); }) ||
                        inner != std::vector<int64_t>(sizes.begin() + 2, sizes.end());
  if (is_moved || by_columns) {
    std::vector<int64_t> strides(axes, 1);
    if (by_columns)
      for (size_t i = 1; i < axes; ++i) strides[i] = strides[i - 1] * sizes[i + 1];
    else
      for (size_t i = axes - 1; i > 0; --i) strides[i - 1] = strides[i] * sizes[i + 2];
    Node *rest = indices, *sum = nullptr;
    for (size_t i = axes; i-- > 0;) {
      Node* place = i == 0 ? rest : call.call("remainder.Scalar", {rest, inner[i]});
      if (i > 0) rest = call.call("floor_divide.default", {rest, inner[i]});
      if (!(begin[i] == SymInt(0))) place = call.call("sub.Tensor", {place, *begin[i].constant()});
      if (strides[i] != 1) place = call.call("mul.Tensor", {place, strides[i]});
      sum = sum ? call.call("add.Tensor", {sum, place}) : place;
    }
    indices = sum;
  }
  int64_t plane = 1;
  for (size_t i = 2; i < sizes.size(); ++i) plane *= sizes[i];
  const int64_t planes = sizes[0] * sizes[1];
  if (planes == 1) return indices;
  Shape shape(axes + 2, 1);
  shape[0] = sizes[0];
  shape[1] = sizes[1];
  const Tensor first = Tensor::empty(shape, DType::kS64);
  for (int64_t i = 0; i < planes; ++i) first.data<int64_t>()[i] = i * plane;
  return call.call("add.Tensor", {indices, call.import().constant(first, "first_of_plane")});
}

Node* max_pool_of(OnnxCall& call, Node* input) {
  Pool pool = pool_of(call, input);
  Node* given = input;
  std::vector<SymInt> moved(pool.window.axes(), 0);
  if (!fits_torch(pool.window)) {
    pad_to_windows(call, input, pool);
    moved = pool.window.begin;
    input = padded(call, input, pool.window, lowest(call.meta_of(input).dtype));
  }
  const size_t axes = pool.window.axes();
  const Arguments args = {input,
                          call.list(pool.window.kernel),
                          call.list(pool.window.strides),
                          OnnxCall::list(pool.window.padding()),
                          call.list(pool.window.dilations),
                          pool.rounds_up};
  if (!call.has_output(1) || call.num_uses(1) == 0) return call.call(with_axes("max_pool", axes), args);
  Node* both = call.call_as_it_is(concat("max_pool", axes, "d_with_indices.default"), args);
  call.set(onnx_indices(call, item(call, both, 1), given, input, moved), 1);
  return item(call, both, 0);
}

void max_pool(OnnxCall& call) { call.set(max_pool_of(call, call.tensor(0))); }

void nhwc_max_pool(OnnxCall& call) {
  Node* pooled = max_pool_of(call, call.call("movedim.int", {call.tensor(0), -1, 1}));
  call.set(call.call("movedim.int", {pooled, 1, -1}));
}

// Channels last, those of the weight too, as ONNX Runtime's optimizer of diffusion models writes for GPUs.
void nhwc_conv(OnnxCall& call) {
  Node* input = call.call("movedim.int", {call.tensor(0), -1, 1});
  Node* weight = call.call("movedim.int", {call.tensor(1), -1, 1});
  call.set(call.call("movedim.int", {convolution(call, input, weight, call.optional_tensor(2)), 1, -1}));
}

// The sum over each window divided by the number of its places; the padding counts as zeros.
Node* means_of_windows(OnnxCall& call, Node* input, Pool pool) {
  pad_to_windows(call, input, pool);
  const OnnxWindow& window = pool.window;
  Node* from = padded(call, input, pool.window, 0);
  const size_t axes = window.axes();
  const bool is_dilated =
      std::any_of(window.dilations.begin(), window.dilations.end(), [](int64_t d) { return d != 1; });
  if (!is_dilated)
    return call.call(with_axes("avg_pool", axes), {from, call.list(window.kernel), call.list(window.strides)});
  const auto channels = call.extent(input, 1).constant();
  if (!channels) call.refuse("has dilations and an open number of channels");
  Shape sizes = {*channels, 1};
  sizes.insert(sizes.end(), window.kernel.begin(), window.kernel.end());
  constexpr int64_t kMostWeights = 1 << 24;
  if (numel_of(sizes) > kMostWeights) call.refuse("has dilations and ", numel_of(sizes), " places in its windows");
  Node* weight = call.import().constant(
      Tensor::full(sizes, call.meta_of(input).dtype, 1.0 / static_cast<double>(window.taps())), "window");
  return call.call(with_axes("conv", axes),
                   {from, weight, Argument(), call.list(window.strides), OnnxCall::list(std::vector<int64_t>(axes, 0)),
                    call.list(window.dilations), *channels});
}

// How many places of a window count, divided by all of them: those within the input, and in the padding if it counts.
Node* parts_of_windows(OnnxCall& call, Node* input, const Pool& pool, bool counts_padding) {
  const size_t axes = pool.window.axes();
  const std::vector<int64_t> sizes = known_sizes(call, input, axes);
  if (sizes.empty()) {
    const std::vector<SymInt> all = sizes_of(call, input);
    std::vector<SymInt> plane(all);
    plane[0] = plane[1] = 1;
    Node* ones = call.call("full.default", {call.list(plane), 1.0}, "dtype", call.meta_of(input).dtype);
    return means_of_windows(call, ones, pool);
  }
  Shape shape(axes + 2, 1);
  std::vector<std::vector<double>> parts(axes);
  for (size_t i = 0; i < axes; ++i) {
    const int64_t begin = *pool.window.begin[i].constant(), end = *pool.window.end[i].constant();
    const int64_t low = counts_padding ? -begin : 0, high = counts_padding ? sizes[i] + end : sizes[i];
    shape[i + 2] = windows_along(pool, i, sizes[i]);
    for (int64_t at = 0; at < shape[i + 2]; ++at) {
      int64_t inside = 0;
      for (int64_t k = 0; k < pool.window.kernel[i]; ++k) {
        const int64_t place = at * pool.window.strides[i] - begin + k * pool.window.dilations[i];
        inside += place >= low && place < high;
      }
      parts[i].push_back(static_cast<double>(inside) / static_cast<double>(pool.window.kernel[i]));
    }
  }
  std::vector<float> all;
  const std::vector<double> one = {1};
  if (numel_of(shape) > (1 << 24)) call.refuse("has ", numel_of(shape), " windows of different size");
  for (const double a : parts[0])
    for (const double b : axes > 1 ? parts[1] : one)
      for (const double c : axes > 2 ? parts[2] : one) all.push_back(static_cast<float>(a * b * c));
  Node* out = float_constant(call, "parts", shape, all);
  return call.meta_of(input).dtype == DType::kF32 ? out : call.call("to.dtype", {out, call.meta_of(input).dtype});
}

}  // namespace

Node* average_pool(OnnxCall& call, Node* input) {
  const Pool pool = pool_of(call, input);
  const bool counts = call.integer("count_include_pad", 0) != 0;
  const OnnxWindow& window = pool.window;
  const bool is_dilated =
      std::any_of(window.dilations.begin(), window.dilations.end(), [](int64_t d) { return d != 1; });
  if (fits_torch(window) && !is_dilated) {
    // Without padding there is none to count, and PyTorch's default says that it counts.
    const bool include = counts || (!window.is_padded() && !pool.rounds_up);
    return call.call(with_axes("avg_pool", window.axes()), {input, call.list(window.kernel), call.list(window.strides),
                                                            OnnxCall::list(window.padding()), pool.rounds_up, include});
  }
  Node* means = means_of_windows(call, input, pool);
  if (!pool.rounds_up && (counts || !window.is_padded())) return means;
  return call.call("div.Tensor", {means, parts_of_windows(call, input, pool, counts)});
}

namespace {

void average_pool_of(OnnxCall& call) { call.set(average_pool(call, call.tensor(0))); }

std::vector<int64_t> spatial_axes(OnnxCall& call) {
  std::vector<int64_t> out;
  for (size_t i = 2; i < call.rank(0); ++i) out.push_back(static_cast<int64_t>(i));
  if (out.empty()) call.refuse("has an input of ", call.rank(0), " axes, wanted 3 at least");
  return out;
}

void global_average_pool(OnnxCall& call) {
  const size_t axes = spatial_axes(call).size();
  if (axes > 3) return call.set(call.call("mean.dim", {call.tensor(0), OnnxCall::list(spatial_axes(call)), true}));
  call.set(call.call(with_axes("adaptive_avg_pool", axes), {call.tensor(0), call.list(std::vector<int64_t>(axes, 1))}));
}

void global_max_pool(OnnxCall& call) {
  call.set(call.call("amax.default", {call.tensor(0), OnnxCall::list(spatial_axes(call)), true}));
}

void global_lp_pool(OnnxCall& call) {
  call.set(call.call("linalg_vector_norm.default",
                     {call.tensor(0), call.integer("p", 2), OnnxCall::list(spatial_axes(call)), true}));
}

void lp_pool(OnnxCall& call) {
  const int64_t p = call.integer("p", 2);
  if (p < 1) call.refuse("has the norm ", p);
  const Pool pool = pool_of(call, call.tensor(0));
  Node* powers = call.call("abs.default", {call.tensor(0)});
  if (p != 1) powers = call.call("pow.Tensor_Scalar", {powers, p});
  Node* sums = call.call("mul.Tensor", {means_of_windows(call, powers, pool), static_cast<double>(pool.window.taps())});
  call.set(p == 1 ? sums : call.call("pow.Tensor_Scalar", {sums, 1.0 / static_cast<double>(p)}));
}

// Values go back to the places that MaxPool took them from; zeros elsewhere.
void max_unpool(OnnxCall& call) {
  OnnxWindow window = window_of(call, call.tensor(0), call.integers("kernel_shape", {}));
  const std::vector<int64_t> from = known_sizes(call, call.tensor(0), window.axes() + 2);
  if (from.empty()) call.refuse("has an input of open size");
  std::vector<int64_t> natural = from;
  for (size_t i = 0; i < window.axes(); ++i)
    natural[i + 2] = (from[i + 2] - 1) * window.strides[i] + window.kernel[i] - *window.begin[i].constant() -
                     *window.end[i].constant();
  const std::vector<int64_t> sizes = call.has(2) ? call.integers(2) : natural;
  if (sizes.size() != from.size() || numel_of(sizes) < 1) call.refuse("has an output of the shape ", to_string(sizes));
  // Indices count in the natural output, of which a wanted one has more rows or columns.
  const bool is_natural = sizes == natural;
  Node* zeros = call.call("full.default", {OnnxCall::list(std::vector<int64_t>{numel_of(natural)}), 0.0}, "dtype",
                          call.meta(0).dtype);
  const Argument flat = OnnxCall::list(std::vector<int64_t>{-1});
  Node* out = call.call("scatter.src", {zeros, 0, call.call("reshape.default", {call.tensor(1), flat}),
                                        call.call("reshape.default", {call.tensor(0), flat})});
  out = call.call("reshape.default", {out, OnnxCall::list(natural)});
  if (is_natural) return call.set(out);
  std::vector<int64_t> pads;
  for (size_t i = sizes.size(); i-- > 2;) {
    pads.push_back(0);
    pads.push_back(sizes[i] - natural[i]);
  }
  call.set(call.call("pad.default", {out, OnnxCall::list(pads)}));
}

void depth_to_space(OnnxCall& call) {
  const int64_t block = call.integer("blocksize", 1);
  if (block < 1 || block > INT32_MAX || call.rank(0) != 4)
    call.refuse("has blocks of ", block, " for ", call.rank(0), " axes");
  Node* input = call.tensor(0);
  const std::string mode = call.text("mode", "DCR");
  if (mode != "DCR" && mode != "CRD") call.refuse("has the mode ", mode, ", wanted DCR or CRD");
  if (mode == "DCR") {
    // The block's place comes before the channel: exchange them.
    const auto channels = call.extent(call.tensor(0), 1).constant();
    if (!channels || *channels % (block * block) != 0) call.refuse("divides its channels in blocks of ", block);
    input = call.call("unflatten.int",
                      {input, 1, OnnxCall::list(std::vector<int64_t>{block * block, *channels / (block * block)})});
    input = call.call("flatten.using_ints", {call.call("transpose.int", {input, 1, 2}), 1, 2});
  }
  call.set(call.call("pixel_shuffle.default", {input, block}));
}

void space_to_depth(OnnxCall& call) {
  const int64_t block = call.integer("blocksize", 1);
  const int64_t channels = call.rank(0) == 4 ? call.extent(call.tensor(0), 1).constant().value_or(-1) : -1;
  if (block < 1 || block > INT32_MAX || channels < 0)
    call.refuse("has blocks of ", block, " for ", call.rank(0), " axes");
  Node* out = call.call("pixel_unshuffle.default", {call.tensor(0), block});
  if (channels > 1 && block > 1) {
    // PyTorch puts the channel first.
    out = call.call("unflatten.int", {out, 1, OnnxCall::list(std::vector<int64_t>{channels, block * block})});
    out = call.call("flatten.using_ints", {call.call("transpose.int", {out, 1, 2}), 1, 2});
  }
  call.set(out);
}

void grid_sample(OnnxCall& call) {
  static constexpr std::pair<std::string_view, int64_t> kModes[] = {
      {"bilinear", 0}, {"linear", 0}, {"nearest", 1}, {"bicubic", 2}, {"cubic", 2}};
  static constexpr std::pair<std::string_view, int64_t> kPaddings[] = {{"zeros", 0}, {"border", 1}, {"reflection", 2}};
  const auto number = [&](const auto& table, const std::string& name) {
    for (const auto& [known, value] : table)
      if (known == name) return value;
    call.refuse("has the mode ", name);
  };
  const int64_t mode = number(kModes, call.text("mode", "linear"));
  if (mode == 2 && call.rank(0) != 4) call.refuse("interpolates cubically over ", call.rank(0), " axes");
  call.set(call.call("grid_sampler.default",
                     {call.tensor(0), call.tensor(1), mode, number(kPaddings, call.text("padding_mode", "zeros")),
                      call.integer("align_corners", 0) != 0}));
}

void affine_grid(OnnxCall& call) {
  const bool align_corners = call.integer("align_corners", 0) != 0;
  const std::vector<SymInt> wanted = call.sizes(1);
  if (wanted.size() != 4 && wanted.size() != 5) call.refuse("makes a grid of ", wanted.size(), " axes, wanted 4 or 5");
  std::vector<int64_t> inner;
  for (size_t i = 2; i < wanted.size(); ++i)
    if (const auto known = wanted[i].constant()) inner.push_back(*known);
  if (inner.size() + 2 != wanted.size())
    return call.set(call.call("affine_grid_generator.default", {call.tensor(0), call.list(wanted), align_corners}));
  const size_t axes = inner.size();
  for (const int64_t size : inner)
    if (size < 1 || size > (1 << 14)) call.refuse("makes a grid of ", to_string(inner));
  const int64_t places = numel_of(inner);
  if (places > (1 << 24)) call.refuse("makes a grid of ", places, " places");
  Node* base = call.import().constant(affine_grid_base(inner, align_corners), "grid");
  if (call.meta(0).dtype != DType::kF32) base = call.call("to.dtype", {base, call.meta(0).dtype});
  Node* out = call.call("matmul.default", {base, call.call("transpose.int", {call.tensor(0), 1, 2})});
  std::vector<int64_t> shape = {-1};
  shape.insert(shape.end(), inner.begin(), inner.end());
  shape.push_back(static_cast<int64_t>(axes));
  call.set(call.call("reshape.default", {out, OnnxCall::list(shape)}));
}

void center_crop_pad(OnnxCall& call) {
  std::vector<int64_t> wanted = call.integers(1), axes = call.integers("axes", {});
  const size_t rank = call.rank(0);
  if (axes.empty())
    for (size_t i = 0; i < rank; ++i) axes.push_back(static_cast<int64_t>(i));
  if (wanted.size() != axes.size()) call.refuse("has ", wanted.size(), " sizes for ", axes.size(), " axes");
  Node* out = call.tensor(0);
  std::vector<int64_t> pads(2 * rank, 0);
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t axis = call.axis(axes[i], rank);
    const auto size = call.extent(call.tensor(0), static_cast<size_t>(axis)).constant();
    if (!size || wanted[i] < 1) call.refuse("crops an axis of open size, or to ", wanted[i]);
    if (*size > wanted[i]) {
      const int64_t start = (*size - wanted[i]) / 2;
      out = call.call("slice.Tensor", {out, axis, start, start + wanted[i]});
    } else {
      const int64_t missing = wanted[i] - *size;
      pads[2 * (rank - 1 - static_cast<size_t>(axis))] = missing / 2;
      pads[2 * (rank - 1 - static_cast<size_t>(axis)) + 1] = missing - missing / 2;
    }
  }
  while (!pads.empty() && pads.back() == 0 && pads[pads.size() - 2] == 0) pads.resize(pads.size() - 2);
  if (out == call.tensor(0) && pads.empty()) return call.same_as_input(0);
  call.set(pads.empty() ? out : call.call("pad.default", {out, OnnxCall::list(pads)}));
}

// An operator of ONNX's first versions: cuts off the borders left, top, right and bottom; with `scale`, takes height
// and width behind left and top.
void crop(OnnxCall& call) {
  const std::vector<int64_t> border = call.integers("border", {}), size = call.integers("scale", {});
  if (border.size() != 4 || call.rank(0) != 4 || (!size.empty() && size.size() != 2))
    call.refuse("has ", border.size(), " borders of ", call.rank(0), " axes and ", size.size(),
                " sizes, wanted 4, 4, and none or 2");
  for (const int64_t cut : border)
    if (cut < 0) call.refuse("has the border ", cut, ", wanted 0 or more");
  Node* out = call.tensor(0);
  for (const size_t axis : {size_t{2}, size_t{3}}) {
    const int64_t start = border[3 - axis], cut = border[5 - axis];
    const int64_t to_border = cut == 0 ? INT64_MAX : -cut;
    const int64_t end = size.empty() ? to_border : *(SymInt(start) + SymInt(size[axis - 2])).constant();
    out = call.call("slice.Tensor", {out, static_cast<int64_t>(axis), start, end});
  }
  call.set(out);
}

// An operator of ONNX's first versions: scale * x + bias[c].
void image_scaler(OnnxCall& call) {
  const auto* bias = call.attribute("bias");
  const auto channels = static_cast<int64_t>(bias ? bias->floats.size() : 0);
  if (channels == 0 || call.rank(0) != 4)
    call.refuse("has ", channels, " biases for ", call.rank(0), " axes, wanted one for each channel of 4 axes");
  Tensor row = Tensor::of<float>({channels, 1, 1}, std::span<const float>(bias->floats));
  Node* scaled = call.call("mul.Tensor", {call.tensor(0), call.real("scale", 1)});
  call.set(call.call("add.Tensor", {scaled, call.import().constant(std::move(row), "bias")}));
}

// Columns back to an image: a transposed convolution whose filters have a single 1 each.
void col2im(OnnxCall& call) {
  const std::vector<int64_t> image = call.integers(1), block = call.integers(2);
  const size_t axes = block.size();
  const std::vector<int64_t> strides = call.integers("strides", std::vector<int64_t>(axes, 1)),
                             dilations = call.integers("dilations", std::vector<int64_t>(axes, 1)),
                             pads = call.integers("pads", std::vector<int64_t>(2 * axes, 0));
  if (axes < 1 || axes > 3 || image.size() != axes || strides.size() != axes || dilations.size() != axes ||
      pads.size() != 2 * axes || call.rank(0) != 3)
    call.refuse("has an image of ", image.size(), " axes and blocks of ", axes);
  std::vector<int64_t> grid, natural;
  for (size_t i = 0; i < axes; ++i) {
    for (const int64_t each : {image[i], block[i], strides[i], dilations[i]})
      if (each < 1 || each > (1 << 20)) call.refuse("has the size or stride ", each);
    if (pads[i] < 0 || pads[i + axes] < 0 || pads[i] > (1 << 20) || pads[i + axes] > (1 << 20))
      call.refuse("has the padding ", pads[i], " or ", pads[i + axes]);
    const int64_t reach = (block[i] - 1) * dilations[i] + 1;
    grid.push_back((image[i] + pads[i] + pads[i + axes] - reach) / strides[i] + 1);
    natural.push_back((grid[i] - 1) * strides[i] + reach);
    if (grid[i] < 1) call.refuse("has blocks larger than its image");
  }
  const int64_t taps = numel_of(block);
  if (taps > (1 << 12)) call.refuse("has blocks of ", taps, " places");
  Shape sizes = {taps, 1};
  sizes.insert(sizes.end(), block.begin(), block.end());
  const Tensor ones = Tensor::empty(sizes, DType::kF32);
  for (int64_t i = 0; i < taps; ++i) ones.data<float>()[i * taps + i] = 1;
  std::vector<int64_t> shape = {-1, taps};
  shape.insert(shape.end(), grid.begin(), grid.end());
  Node* rows = call.call("reshape.default", {call.tensor(0), OnnxCall::list(shape)});
  Node* weight = call.import().constant(ones.to(call.meta(0).dtype), "blocks");
  const std::vector<int64_t> zeros(axes, 0);
  Node* out = call.call(with_axes("conv_transpose", axes, axes == 1 ? "default" : "input"),
                        {rows, weight, Argument(), OnnxCall::list(strides), OnnxCall::list(zeros),
                         OnnxCall::list(zeros), 1, OnnxCall::list(dilations)});
  std::vector<int64_t> crops;
  for (size_t i = axes; i-- > 0;) {
    crops.push_back(-pads[i]);
    crops.push_back(image[i] + pads[i] - natural[i]);
  }
  if (std::any_of(crops.begin(), crops.end(), [](int64_t c) { return c != 0; }))
    out = call.call("pad.default", {out, OnnxCall::list(crops)});
  const auto channels = call.extent(call.tensor(0), 1).constant();
  if (!channels || *channels % taps != 0) call.refuse("has columns that are not a multiple of ", taps);
  shape = {-1, *channels / taps};
  shape.insert(shape.end(), image.begin(), image.end());
  call.set(call.call("reshape.default", {out, OnnxCall::list(shape)}));
}

// Regions [K, 4] and the images that they lie in, as [K, 5].
void roi_align(OnnxCall& call) {
  const DType dtype = call.meta(1).dtype;
  Node* images = call.call("unsqueeze.default", {call.call("to.dtype", {call.tensor(2), dtype}), 1});
  Node* regions = call.call("cat.default", {Argument(Argument::List{images, call.tensor(1)}), 1});
  // Before there was a choice, positions were those of corners.
  const std::string place =
      call.text("coordinate_transformation_mode", call.opset() < 16 ? "output_half_pixel" : "half_pixel");
  const std::string mode = call.text("mode", "avg");
  if ((place != "half_pixel" && place != "output_half_pixel") || (mode != "avg" && mode != "max"))
    call.refuse("has the mode ", mode, " with ", place);
  call.set(
      call.call_as_it_is(mode == "max" ? "onnx.roi_align_max.default" : "torchvision.roi_align.default",
                         {call.tensor(0), regions, call.real("spatial_scale", 1), call.integer("output_height", 1),
                          call.integer("output_width", 1), call.integer("sampling_ratio", 0), place == "half_pixel"}));
}

void max_roi_pool(OnnxCall& call) {
  const std::vector<int64_t> sizes = call.integers("pooled_shape", {});
  if (sizes.size() != 2) call.refuse("has a pooled_shape of ", sizes.size(), " axes");
  Node* both = call.call_as_it_is("torchvision.roi_pool.default",
                                  {call.tensor(0), call.tensor(1), call.real("spatial_scale", 1), sizes[0], sizes[1]});
  call.set(item(call, both, 0));
}

void deform_conv(OnnxCall& call) {
  Node* weight = call.tensor(1);
  OnnxWindow window = window_of(call, call.tensor(0), spatial_sizes(call, weight));
  if (window.axes() != 2) call.refuse("convolves over ", window.axes(), " axes, wanted 2");
  Node* input = padded_where_uneven(call, call.tensor(0), window, 0);
  const std::vector<int64_t> padding = window.padding();
  const SymInt outputs = size_along(call, weight, 0);
  Node* bias = call.has(3) ? call.tensor(3)
                           : call.call("full.default", {call.list(std::vector<SymInt>{outputs}), 0.0}, "dtype",
                                       call.meta(0).dtype);
  call.set(call.call_as_it_is(
      "torchvision.deform_conv2d.default",
      {input, weight, call.tensor(2), call.has(4) ? call.tensor(4) : call.tensor(2), bias, window.strides[0],
       window.strides[1], padding[0], padding[1], window.dilations[0], window.dilations[1], call.integer("group", 1),
       call.integer("offset_group", 1), call.has(4)}));
}

constexpr OnnxOperator kImageOperators[] = {
    {"AffineGrid", affine_grid, nullptr},
    {"AveragePool", average_pool_of, nullptr},
    {"CenterCropPad", center_crop_pad, nullptr},
    {"Col2Im", col2im, nullptr},
    {"Crop", crop, nullptr},
    {"DeformConv", deform_conv, nullptr},
    {"DepthToSpace", depth_to_space, nullptr},
    {"GlobalAveragePool", global_average_pool, nullptr},
    {"GlobalLpPool", global_lp_pool, nullptr},
    {"GlobalMaxPool", global_max_pool, nullptr},
    {"GridSample", grid_sample, nullptr},
    {"ImageScaler", image_scaler, nullptr},
    {"LpPool", lp_pool, nullptr},
    {"MaxPool", max_pool, nullptr},
    {"MaxRoiPool", max_roi_pool, nullptr},
    {"MaxUnpool", max_unpool, nullptr},
    {"RoiAlign", roi_align, nullptr},
    {"SpaceToDepth", space_to_depth, nullptr},
    {"com.microsoft.NhwcConv", nhwc_conv, nullptr},
    {"com.microsoft.NhwcMaxPool", nhwc_max_pool, nullptr},
};

}  // namespace

std::span<const OnnxOperator> onnx_image_operators() { return kImageOperators; }

}  // namespace qdq
