// Pooling over the last one, two or three axes; all axes before them are planes of their own.
#include <array>
#include <functional>

#include "op/elements.h"
#include "op/families.h"

namespace qdq {
namespace {

using Extents = std::array<int64_t, 3>;

// A window sliding over an image, with one entry per spatial axis; missing axes come first.
struct PoolWindow {
  Extents kernel{1, 1, 1}, stride{1, 1, 1}, padding{0, 0, 0}, dilation{1, 1, 1};
  bool ceil_mode = false;
};

template <class T> PoolWindow read_window(const Call<T>& call, size_t axes, bool has_dilation) {
  PoolWindow window;
  const std::vector<int64_t> kernel = call.integers(1, axes),
                             stride = call.integers(2).empty() ? kernel : call.integers(2, axes);
  const std::vector<int64_t> padding = call.integers(3, axes),
                             dilation = has_dilation ? call.integers(4, axes) : std::vector<int64_t>(axes, 1);
  for (size_t a = 0; a < axes; ++a) {
    constexpr int64_t kMost = int64_t{1} << 31;
    QDQ_CHECK(kernel[a] >= 1 && kernel[a] <= kMost && stride[a] >= 1 && stride[a] <= kMost && dilation[a] >= 1 &&
                  dilation[a] <= kMost && padding[a] >= 0 && padding[a] <= kernel[a] / 2,
              kInvalidArgument, call.op().target, " got kernel ", kernel[a], ", stride ", stride[a], ", padding ",
              padding[a], ", dilation ", dilation[a], ": all must be positive and the padding at most half the kernel");
    const size_t to = 3 - axes + a;
    window.kernel[to] = kernel[a];
    window.stride[to] = stride[a];
    window.padding[to] = padding[a];
    window.dilation[to] = dilation[a];
  }
  window.ceil_mode = call.boolean(has_dilation ? 5 : 4);
  return window;
}

// ATen/native/Pool.h, pooling_output_shape: with ceil_mode the last window must still start inside the image or its
// left padding.
SymInt pooled_extent(const SymInt& in, const PoolWindow& window, size_t axis) {
  const int64_t stride = window.stride[axis], padding = window.padding[axis];
  const SymInt reach(2 * padding - window.dilation[axis] * (window.kernel[axis] - 1) - 1 +
                     (window.ceil_mode ? stride - 1 : 0));
  const SymInt out = (in + reach).floor_div(SymInt(stride)) + SymInt(1);
  if (!out.is_constant() || !window.ceil_mode) return out;
  return (*out.constant() - 1) * stride >= *in.constant() + padding ? out - SymInt(1) : out;
}

void check_rank(const OpDef& op, const SymShape& sizes, size_t axes) {
  QDQ_CHECK(sizes.size() == axes + 1 || sizes.size() == axes + 2, kInvalidArgument, op.target, " needs ", axes + 1,
            " or ", axes + 2, " dimensions, found shape ", to_string(sizes));
}

MetaValue infer_window(const Call<TensorMeta>& call, size_t axes, bool has_dilation, bool has_indices) {
  const TensorMeta& x = call.tensor(0);
  check_rank(call.op(), x.sizes, axes);
  const PoolWindow window = read_window(call, axes, has_dilation);
  SymShape sizes = x.sizes;
  for (size_t a = 0; a < axes; ++a) {
    SymInt& size = sizes[sizes.size() - axes + a];
    size = pooled_extent(size, window, 3 - axes + a);
    QDQ_CHECK(!size.is_constant() || *size.constant() > 0, kInvalidArgument, call.op().target, " on an input of shape ",
              to_string(x.sizes), " has the output extent ", size.to_string(), " in spatial axis ", a);
  }
  const TensorMeta out = tensor_meta(x.dtype, sizes);
  if (!has_indices) return out;
  return MetaValue::List{out, tensor_meta(DType::kS64, sizes)};
}

template <size_t axes, bool has_dilation, bool has_indices> MetaValue infer_pool(const Call<TensorMeta>& call) {
  return infer_window(call, axes, has_dilation, has_indices);
}

// The spatial extents as three axes, and the number of planes before them.
struct PoolPlanes {
  int64_t count = 1;
  Extents extents{1, 1, 1};
  int64_t size() const { return extents[0] * extents[1] * extents[2]; }
};
PoolPlanes planes_of(const Shape& sizes, size_t axes) {
  PoolPlanes out;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (i + axes < sizes.size()) out.count *= sizes[i];
    else out.extents[i + 3 - sizes.size()] = sizes[i];
  }
  return out;
}

// Calls body(plane, output index, output position) for every output element in C order.
template <class Body> void for_each_output(const PoolPlanes& out, Body&& body) {
  for (int64_t plane = 0, index = 0; plane < out.count; ++plane)
    for (int64_t d = 0; d < out.extents[0]; ++d)
      for (int64_t h = 0; h < out.extents[1]; ++h)
        for (int64_t w = 0; w < out.extents[2]; ++w) body(plane, index++, Extents{d, h, w});
}

// A box of input positions: first + i * step below end, per axis.
struct PoolBox {
  Extents first{}, end{}, step{1, 1, 1};
  int64_t count() const {
    int64_t out = 1;
    for (size_t a = 0; a < 3; ++a) out *= std::max<int64_t>(end[a] - first[a], 0);
    return out;
  }
};
template <class Body> void for_each_position(const PoolBox& box, const Extents& in, Body&& body) {
  for (int64_t d = box.first[0]; d < box.end[0]; d += box.step[0])
    for (int64_t h = box.first[1]; h < box.end[1]; h += box.step[1])
      for (int64_t w = box.first[2]; w < box.end[2]; w += box.step[2]) body((d * in[1] + h) * in[2] + w);
}
// floor(o in / out) up to ceil((o + 1) in / out).
PoolBox adaptive_box(const Extents& in, const Extents& out, const Extents& at) {
  PoolBox box;
  for (size_t a = 0; a < 3; ++a) {
    box.first[a] = at[a] * in[a] / out[a];
    box.end[a] = ((at[a] + 1) * in[a] + out[a] - 1) / out[a];
  }
  return box;
}

// The box of the input from which an element of the output comes: (extents of the input, of the output, position in the
// output).
using BoxOf = std::function<PoolBox(const Extents& in, const Extents& out, const Extents& at)>;

// The largest element of each box and its index in the plane; NaN wins.
Value max_over(const Call<Tensor>& call, const Shape& sizes, size_t axes, bool has_indices, const BoxOf& box_of) {
  const Tensor& x = call.tensor(0);
  const PoolPlanes in = planes_of(x.sizes(), axes), out = planes_of(sizes, axes);
  const Tensor indices = Tensor::empty(sizes, DType::kS64);
  return visit_wide(x.dtype(), [&](auto type) -> Value {
    using C = typename decltype(type)::type;
    const Tensor from = x.to(DTypeOf<C>::value).contiguous(), to = Tensor::empty(sizes, DTypeOf<C>::value);
    for_each_output(out, [&](int64_t plane, int64_t index, const Extents& at) {
      const C* image = from.data<C>() + plane * in.size();
      int64_t best = -1;
      for_each_position(box_of(in.extents, out.extents, at), in.extents, [&](int64_t i) {
        if (best < 0 || image[i] > image[best] || image[i] != image[i]) best = i;
      });
      QDQ_CHECK(best >= 0, kInvalidArgument, call.op().target, " has a window without an element");
      to.data<C>()[index] = image[best];
      indices.data<int64_t>()[index] = best;
    });
    if (!has_indices) return to.to(x.dtype());
    return Value::List{to.to(x.dtype()), indices};
  });
}

Value max_pool(const Call<Tensor>& call, size_t axes, bool has_indices) {
  const MetaValue meta = infer_call(call);
  const TensorMeta& first =
      has_indices ? *meta.get_if<MetaValue::List>()->at(0).get_if<TensorMeta>() : *meta.get_if<TensorMeta>();
  const PoolWindow window = read_window(call, axes, true);
  return max_over(call, constant_shape(first.sizes), axes, has_indices,
                  [&](const Extents& in, const Extents&, const Extents& at) {
                    PoolBox box;
                    box.step = window.dilation;
                    for (size_t a = 0; a < 3; ++a) {
                      box.first[a] = at[a] * window.stride[a] - window.padding[a];
                      box.end[a] = std::min(box.first[a] + (window.kernel[a] - 1) * window.dilation[a] + 1, in[a]);
                      while (box.first[a] < 0) box.first[a] += window.dilation[a];
                    }
                    return box;
                  });
}

template <size_t axes, bool has_indices> Value eval_max_pool(const Call<Tensor>& call) {
  return max_pool(call, axes, has_indices);
}

// The sum of each box in double, in C order, divided by what divisor(box, position) says; 0 for a box without elements.
using Divisor = std::function<int64_t(const PoolBox& box, const Extents& at)>;
Value average_over(const Call<Tensor>& call, size_t axes, const BoxOf& box_of, const Divisor& divisor) {
  const Tensor& x = call.tensor(0);
  const Shape sizes = constant_shape(result_meta(call).sizes);
  const PoolPlanes in = planes_of(x.sizes(), axes), out = planes_of(sizes, axes);
  return visit_wide(x.dtype(), [&](auto type) -> Value {
    using C = typename decltype(type)::type;
    const Tensor from = x.to(DTypeOf<C>::value).contiguous(), to = Tensor::empty(sizes, DTypeOf<C>::value);
    for_each_output(out, [&](int64_t plane, int64_t index, const Extents& at) {
      const C* image = from.data<C>() + plane * in.size();
      const PoolBox box = box_of(in.extents, out.extents, at);
      if (box.count() == 0) return;
      C sum = 0;
      for_each_position(box, in.extents, [&](int64_t i) { sum = add_wrapping(sum, image[i]); });
      to.data<C>()[index] = sum / static_cast<C>(divisor(box, at));
    });
    return to.to(x.dtype());
  });
}

Value avg_pool(const Call<Tensor>& call, size_t axes) {
  const PoolWindow window = read_window(call, axes, false);
  const bool count_include_pad = call.boolean(5);
  const int64_t divisor_override = call.size() > 6 && !call.is_none(6) ? call.integer(6) : 0;
  QDQ_CHECK(call.size() <= 6 || call.is_none(6) || divisor_override != 0, kInvalidArgument, call.op().target,
            " got the divisor 0");
  const PoolPlanes in = planes_of(call.tensor(0).sizes(), axes);
  // The window with its padding, as far as the padded image goes.
  const auto padded = [&](const Extents& at) {
    PoolBox box;
    for (size_t a = 0; a < 3; ++a) {
      box.first[a] = at[a] * window.stride[a] - window.padding[a];
      box.end[a] = std::min(box.first[a] + window.kernel[a], in.extents[a] + window.padding[a]);
    }
    return box;
  };
  return average_over(
      call, axes,
      [&](const Extents& extents, const Extents&, const Extents& at) {
        PoolBox box = padded(at);
        for (size_t a = 0; a < 3; ++a) {
          box.first[a] = std::max<int64_t>(box.first[a], 0);
          box.end[a] = std::min(box.end[a], extents[a]);
        }
        return box;
      },
      [&](const PoolBox& box, const Extents& at) {
        if (divisor_override != 0) return divisor_override;
        return count_include_pad ? padded(at).count() : box.count();
      });
}
template <size_t axes> Value eval_avg_pool(const Call<Tensor>& call) { return avg_pool(call, axes); }

MetaValue infer_output_size(const Call<TensorMeta>& call, size_t axes, bool has_indices) {
  const TensorMeta& x = call.tensor(0);
  check_rank(call.op(), x.sizes, axes);
  const SymShape wanted = call.syms(1);
  QDQ_CHECK(wanted.size() == axes, kInvalidArgument, call.op().target, " needs ", axes, " output extents, found ",
            wanted.size());
  SymShape sizes = x.sizes;
  for (size_t a = 0; a < axes; ++a) {
    const SymInt& in = x.sizes[x.sizes.size() - axes + a];
    const std::optional<int64_t> size = wanted[a].constant(), extent = in.constant();
    QDQ_CHECK((!size || *size >= 0) && (!extent || *extent > 0), kInvalidArgument, call.op().target,
              " cannot pool shape ", to_string(x.sizes), " to ", to_string(wanted));
    sizes[sizes.size() - axes + a] = wanted[a];
  }
  const TensorMeta out = tensor_meta(x.dtype, sizes);
  if (!has_indices) return out;
  return MetaValue::List{out, tensor_meta(DType::kS64, sizes)};
}
template <size_t axes, bool has_indices> MetaValue infer_adaptive(const Call<TensorMeta>& call) {
  return infer_output_size(call, axes, has_indices);
}
template <size_t axes> Value eval_adaptive_avg(const Call<Tensor>& call) {
  return average_over(call, axes, adaptive_box, [](const PoolBox& box, const Extents&) { return box.count(); });
}
template <size_t axes> Value eval_adaptive_max(const Call<Tensor>& call) {
  const MetaValue meta = infer_call(call);
  const Shape sizes = constant_shape(meta.get_if<MetaValue::List>()->at(0).get_if<TensorMeta>()->sizes);
  return max_over(call, sizes, axes, true, adaptive_box);
}

// The opposite of max_pool with indices: every value at its place in a plane of zeros; of several the last.
MetaValue infer_max_unpool(const Call<TensorMeta>& call, size_t axes) {
  const TensorMeta &x = call.tensor(0), &indices = call.tensor(1);
  check_rank(call.op(), x.sizes, axes);
  bool fits = indices.dtype == DType::kS64 && indices.sizes.size() == x.sizes.size();
  for (size_t a = 0; fits && a < x.sizes.size(); ++a) fits = may_be_equal(indices.sizes[a], x.sizes[a]);
  QDQ_CHECK(fits, kInvalidArgument, call.op().target, " needs an int64 index for each element of shape ",
            to_string(x.sizes), ", found ", to_string(indices.dtype), " ", to_string(indices.sizes));
  const SymShape wanted = call.syms(2);
  QDQ_CHECK(wanted.size() == axes, kInvalidArgument, call.op().target, " needs ", axes, " output extents, found ",
            wanted.size());
  SymShape sizes = x.sizes;
  for (size_t a = 0; a < axes; ++a) {
    QDQ_CHECK(!wanted[a].is_constant() || *wanted[a].constant() > 0, kInvalidArgument, call.op().target,
              " got the output extents ", to_string(wanted));
    sizes[sizes.size() - axes + a] = wanted[a];
  }
  return tensor_meta(x.dtype, sizes);
}
template <size_t axes> MetaValue infer_unpool(const Call<TensorMeta>& call) { return infer_max_unpool(call, axes); }
template <size_t axes> Value eval_unpool(const Call<Tensor>& call) {
  const Shape sizes = constant_shape(result_meta(call).sizes);
  const int64_t planes = planes_of(sizes, axes).count, extent = planes_of(sizes, axes).size();
  const auto rows = [&](const Tensor& t) { return t.reshape({planes, planes == 0 ? 0 : t.numel() / planes}); };
  const Value zeros = Tensor::empty({planes, extent}, call.tensor(0).dtype());
  const Value out = run_op<Tensor>("scatter.src", {zeros, 1, rows(call.tensor(1)), rows(call.tensor(0))});
  return out.get_if<Tensor>()->reshape(sizes);
}

// im2col: [N, C, H, W] (or without N) to [N, C kH kW, L], a column for each of the L places of the window; outside of
// the image is 0. col2im adds the columns up again.
struct Columns {
  std::vector<int64_t> kernel, dilation, padding, stride;
};
template <class T> Columns read_columns(const Call<T>& call, size_t first) {
  Columns out{call.integers(first, 2), call.integers(first + 1, 2), call.integers(first + 2, 2),
              call.integers(first + 3, 2)};
  constexpr int64_t kMost = int64_t{1} << 31;
  for (size_t a = 0; a < 2; ++a)
    QDQ_CHECK(out.kernel[a] >= 1 && out.kernel[a] < kMost && out.dilation[a] >= 1 && out.dilation[a] < kMost &&
                  out.padding[a] >= 0 && out.padding[a] < kMost && out.stride[a] >= 1 && out.stride[a] < kMost,
              kInvalidArgument, call.op().target, " got kernel ", out.kernel[a], ", dilation ", out.dilation[a],
              ", padding ", out.padding[a], ", stride ", out.stride[a]);
  return out;
}
// How many places the window has along H or W.
SymInt places_along(const OpDef& op, const Columns& columns, size_t axis, const SymInt& extent) {
  const SymInt reach(2 * columns.padding[axis] - columns.dilation[axis] * (columns.kernel[axis] - 1) - 1);
  const SymInt out = (extent + reach).floor_div(SymInt(columns.stride[axis])) + SymInt(1);
  QDQ_CHECK(!out.is_constant() || *out.constant() > 0, kInvalidArgument, op.target, " has a window larger than the ",
            extent.to_string(), " elements of an axis");
  return out;
}
MetaValue infer_im2col(const Call<TensorMeta>& call) {
  const TensorMeta& x = call.tensor(0);
  check_rank(call.op(), x.sizes, 2);
  const Columns columns = read_columns(call, 1);
  const size_t rank = x.sizes.size();
  SymShape sizes(x.sizes.begin(), x.sizes.end() - 2);
  sizes.back() = sizes.back() * SymInt(columns.kernel[0]) * SymInt(columns.kernel[1]);
  sizes.push_back(places_along(call.op(), columns, 0, x.sizes[rank - 2]) *
                  places_along(call.op(), columns, 1, x.sizes[rank - 1]));
  return tensor_meta(x.dtype, sizes);
}
// For every element of a plane's columns [kH, kW, LH, LW] its place in the plane; -1: outside.
std::vector<int64_t> column_sources(const OpDef& op, const Columns& c, int64_t height, int64_t width) {
  const int64_t rows = *places_along(op, c, 0, height).constant(), places = *places_along(op, c, 1, width).constant();
  std::vector<int64_t> out;
  for (int64_t kh = 0; kh < c.kernel[0]; ++kh)
    for (int64_t kw = 0; kw < c.kernel[1]; ++kw)
      for (int64_t lh = 0; lh < rows; ++lh)
        for (int64_t lw = 0; lw < places; ++lw) {
          const int64_t h = lh * c.stride[0] - c.padding[0] + kh * c.dilation[0],
                        w = lw * c.stride[1] - c.padding[1] + kw * c.dilation[1];
          out.push_back(h < 0 || h >= height || w < 0 || w >= width ? -1 : h * width + w);
        }
  return out;
}
Value eval_im2col(const Call<Tensor>& call) {
  const Tensor out = empty_result(call), &x = call.tensor(0);
  const int64_t height = x.size(-2), width = x.size(-1);
  const Tensor planes = x.reshape({height * width == 0 ? 0 : x.numel() / (height * width), height * width});
  if (out.numel() == 0) return out;
  return take(planes, 1, column_sources(call.op(), read_columns(call, 1), height, width)).reshape(out.sizes());
}
MetaValue infer_col2im(const Call<TensorMeta>& call) {
  const TensorMeta& x = call.tensor(0);
  const Columns columns = read_columns(call, 2);
  const SymShape image = call.syms(1);
  QDQ_CHECK((x.sizes.size() == 2 || x.sizes.size() == 3) && image.size() == 2, kInvalidArgument, call.op().target,
            " cannot make an image ", to_string(image), " of columns of shape ", to_string(x.sizes));
  for (const SymInt& extent : image)
    QDQ_CHECK(!extent.is_constant() || *extent.constant() > 0, kInvalidArgument, call.op().target,
              " cannot make an image ", to_string(image));
  const size_t rank = x.sizes.size();
  const int64_t window = columns.kernel[0] * columns.kernel[1];
  const SymInt places = places_along(call.op(), columns, 0, image[0]) * places_along(call.op(), columns, 1, image[1]);
  const std::optional<int64_t> rows = x.sizes[rank - 2].constant();
  QDQ_CHECK(may_be_equal(x.sizes[rank - 1], places) && (!rows || *rows % window == 0), kInvalidArgument,
            call.op().target, " cannot make an image ", to_string(image), " of columns of shape ", to_string(x.sizes));
  SymShape sizes(x.sizes.begin(), x.sizes.end() - 1);
  sizes.back() = sizes.back().floor_div(SymInt(window));
  sizes.insert(sizes.end(), image.begin(), image.end());
  return tensor_meta(x.dtype, sizes);
}
Value eval_col2im(const Call<Tensor>& call) {
  const Shape sizes = constant_shape(result_meta(call).sizes);
  const Tensor& x = call.tensor(0);
  if (numel_of(sizes) == 0) return Tensor::empty(sizes, x.dtype());
  const int64_t height = sizes[sizes.size() - 2], width = sizes.back();
  const std::vector<int64_t> places = column_sources(call.op(), read_columns(call, 2), height, width);
  return visit_wide(x.dtype(), [&](auto type) -> Value {
    using C = typename decltype(type)::type;
    const Tensor from = x.to(DTypeOf<C>::value).contiguous(), out = Tensor::empty(sizes, DTypeOf<C>::value);
    const C* column = from.data<C>();
    for (C* plane = out.data<C>(); plane < out.data<C>() + out.numel(); plane += height * width)
      for (const int64_t at : places) {
        if (at >= 0) plane[at] = add_wrapping(plane[at], *column);
        ++column;
      }
    return out.to(x.dtype());
  });
}

// What goes the other way, and windows as columns.
void add_unpool_ops(std::vector<OpDef>& ops) {
  ops.push_back(define("aten::max_unpool2d(Tensor self, Tensor indices, SymInt[2] output_size) -> Tensor",
                       infer_unpool<2>, eval_unpool<2>, {.activation = 0}, Family::kResize));
  ops.push_back(
      define("aten::max_unpool3d(Tensor self, Tensor indices, SymInt[3] output_size, int[3] stride, int[3] "
             "padding) -> Tensor",
             infer_unpool<3>, eval_unpool<3>, {.activation = 0}, Family::kResize));
  ops.push_back(
      define("aten::im2col(Tensor self, int[2] kernel_size, int[2] dilation, int[2] padding, int[2] stride) "
             "-> Tensor",
             infer_im2col, eval_im2col, {.activation = 0}));
  ops.push_back(
      define("aten::col2im(Tensor self, SymInt[2] output_size, int[2] kernel_size, int[2] dilation, int[2] "
             "padding, int[2] stride) -> Tensor",
             infer_col2im, eval_col2im, {.activation = 0}));
}

}  // namespace

void add_pool_ops(std::vector<OpDef>& ops) {
  const auto add = [&](const char* line, Infer infer, Eval eval) {
    const std::string_view text = line;
    const bool is_max = text.find("max_pool") != std::string_view::npos;
    ops.push_back(define(line, infer, eval, kSharesQparams, is_max ? Family::kMaxPool : Family::kAveragePool));
    ops.back().keeps_numbers = is_max;
    ops.back().spatial_axes = text[text.find("pool") + 4] - '0';
  };
  add("aten::max_pool1d(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=[0], int[1] dilation=[1], "
      "bool ceil_mode=False) -> Tensor",
      infer_pool<1, true, false>, eval_max_pool<1, false>);
  add("aten::max_pool1d_with_indices(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=[0], int[1] "
      "dilation=[1], bool "
      "ceil_mode=False) -> (Tensor, Tensor)",
      infer_pool<1, true, true>, eval_max_pool<1, true>);
  add("aten::max_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, int[2] dilation=1, bool "
      "ceil_mode=False) -> Tensor",
      infer_pool<2, true, false>, eval_max_pool<2, false>);
  add("aten::max_pool2d_with_indices(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, int[2] "
      "dilation=1, bool ceil_mode=False) "
      "-> (Tensor, Tensor)",
      infer_pool<2, true, true>, eval_max_pool<2, true>);
  add("aten::max_pool3d(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, int[3] dilation=1, bool "
      "ceil_mode=False) -> Tensor",
      infer_pool<3, true, false>, eval_max_pool<3, false>);
  add("aten::avg_pool1d(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=[0], bool ceil_mode=False, "
      "bool count_include_pad=True) -> "
      "Tensor",
      infer_pool<1, false, false>, eval_avg_pool<1>);
  add("aten::avg_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, bool ceil_mode=False, "
      "bool count_include_pad=True, int? "
      "divisor_override=None) -> Tensor",
      infer_pool<2, false, false>, eval_avg_pool<2>);
  add("aten::avg_pool3d(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, bool ceil_mode=False, "
      "bool count_include_pad=True, int? "
      "divisor_override=None) -> Tensor",
      infer_pool<3, false, false>, eval_avg_pool<3>);
  add("aten::adaptive_avg_pool1d(Tensor self, int[1] output_size) -> Tensor", infer_adaptive<1, false>,
      eval_adaptive_avg<1>);
  add("aten::adaptive_avg_pool2d(Tensor self, SymInt[2] output_size) -> Tensor", infer_adaptive<2, false>,
      eval_adaptive_avg<2>);
  add("aten::_adaptive_avg_pool2d(Tensor self, SymInt[2] output_size) -> Tensor", infer_adaptive<2, false>,
      eval_adaptive_avg<2>);
  add("aten::adaptive_avg_pool3d(Tensor self, SymInt[3] output_size) -> Tensor", infer_adaptive<3, false>,
      eval_adaptive_avg<3>);
  add("aten::_adaptive_avg_pool3d(Tensor self, SymInt[3] output_size) -> Tensor", infer_adaptive<3, false>,
      eval_adaptive_avg<3>);
  add("aten::max_pool3d_with_indices(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, int[3] "
      "dilation=1, bool ceil_mode=False) -> (Tensor, Tensor)",
      infer_pool<3, true, true>, eval_max_pool<3, true>);
  add("aten::adaptive_max_pool3d(Tensor self, int[3] output_size) -> (Tensor, Tensor)", infer_adaptive<3, true>,
      eval_adaptive_max<3>);
  add("aten::adaptive_max_pool1d(Tensor self, int[1] output_size) -> (Tensor, Tensor)", infer_adaptive<1, true>,
      eval_adaptive_max<1>);
  add("aten::adaptive_max_pool2d(Tensor self, int[2] output_size) -> (Tensor, Tensor)", infer_adaptive<2, true>,
      eval_adaptive_max<2>);
  add_unpool_ops(ops);
}

}  // namespace qdq
