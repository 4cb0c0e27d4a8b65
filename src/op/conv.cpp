// Convolutions and transposed convolutions over one, two or three axes.
//
// Axes: N batch, C input channels, O output channels, G groups, then the spatial axes D H W; a missing one has the
// extent 1. Every sum runs over (c, kd, kh, kw) ascending in double (integers: 64 bits), is rounded once and then gets
// the bias.
#include <array>

#include "op/elements.h"
#include "op/families.h"

namespace qdq {
namespace {

using Extents = std::array<int64_t, 3>;

// Settings per spatial axis, as many as the operator has.
struct Conv {
  bool transposed = false;
  SymInt groups{1};  // a symbol where each sample of an open batch has filters of its own
  std::vector<int64_t> stride, pad_low, pad_high, dilation, output_padding;
};

// Where the schema keeps stride, padding, dilation, groups, output padding and the transposed flag; -1: it has none.
struct ConvArguments {
  int stride, padding, dilation, groups, output_padding, transposed;
};
constexpr ConvArguments kConv{3, 4, 5, 6, -1, -1};
constexpr ConvArguments kConvTranspose{3, 4, 7, 6, 5, -1};
constexpr ConvArguments kConvolution{3, 4, 5, 8, 7, 6};

// "same": the output has the input's extent at stride 1; the odd element of padding goes to the high end
// (ATen/native/Convolution.cpp).
template <class T> void read_padding(const Call<T>& call, size_t place, const SymShape& weight, Conv& conv) {
  const size_t axes = weight.size() - 2;
  if (!call[place].template is<std::string>()) {
    conv.pad_low = conv.pad_high = call.integers(place, axes);
    return;
  }
  conv.pad_low.assign(axes, 0);
  conv.pad_high.assign(axes, 0);
  const std::string& mode = call.string(place);
  QDQ_CHECK(mode == "same" || mode == "valid", kInvalidArgument, call.op().target,
            " needs padding 'same' or 'valid', found '", mode, "'");
  if (mode == "valid") return;
  for (size_t a = 0; a < axes; ++a) {
    QDQ_CHECK(conv.stride[a] == 1, kInvalidArgument, call.op().target, " with padding 'same' needs stride 1, found ",
              conv.stride[a]);
    const std::optional<int64_t> kernel = weight[a + 2].constant();
    QDQ_CHECK(kernel.has_value(), kInvalidArgument, call.op().target, " needs a weight of known shape");
    const int64_t total = conv.dilation[a] * (*kernel - 1);
    conv.pad_low[a] = total / 2;
    conv.pad_high[a] = total - total / 2;
  }
}

template <class T>
Conv read_conv(const Call<T>& call, const ConvArguments& at, bool transposed, const SymShape& weight) {
  const auto place = [](int i) { return static_cast<size_t>(i); };
  QDQ_CHECK(weight.size() >= 3 && weight.size() <= 5, kInvalidArgument, call.op().target,
            " needs a weight of 3 to 5 dimensions, found shape ", to_string(weight));
  const size_t axes = weight.size() - 2;
  Conv conv;
  conv.transposed = at.transposed >= 0 ? call.boolean(place(at.transposed)) : transposed;
  conv.groups = call.sym(place(at.groups));
  conv.stride = call.integers(place(at.stride), axes);
  conv.dilation = call.integers(place(at.dilation), axes);
  conv.output_padding.assign(axes, 0);
  if (at.output_padding >= 0) conv.output_padding = call.integers(place(at.output_padding), axes);
  const auto check = [&](const std::vector<int64_t>& values, const char* name, int64_t least) {
    for (const int64_t value : values)
      QDQ_CHECK(value >= least && value <= (int64_t{1} << 31), kInvalidArgument, call.op().target, " got ", name, " ",
                value);
  };
  check(conv.stride, "stride", 1);
  check(conv.dilation, "dilation", 1);
  check(conv.output_padding, "output_padding", 0);
  read_padding(call, place(at.padding), weight, conv);
  check(conv.pad_low, "padding", 0);
  check(conv.pad_high, "padding", 0);
  QDQ_CHECK(!conv.groups.is_constant() || *conv.groups.constant() >= 1, kInvalidArgument, call.op().target, " got ",
            conv.groups.to_string(), " groups");
  return conv;
}

MetaValue infer_with(const Call<TensorMeta>& call, const ConvArguments& places, bool transposed) {
  const TensorMeta &x = call.tensor(0), &weight = call.tensor(1);
  QDQ_CHECK(weight.dtype == x.dtype, kInvalidArgument, call.op().target, " on ", to_string(x.dtype),
            " needs a weight of the same dtype, found ", to_string(weight.dtype));
  const Conv conv = read_conv(call, places, transposed, weight.sizes);
  const size_t axes = weight.sizes.size() - 2;
  const bool batched = x.sizes.size() == axes + 2;
  QDQ_CHECK(batched || x.sizes.size() == axes + 1, kInvalidArgument, call.op().target, " with a weight of shape ",
            to_string(weight.sizes), " needs an input of ", axes + 1, " or ", axes + 2, " dimensions, found shape ",
            to_string(x.sizes));
  const SymInt channels = x.sizes[batched ? 1 : 0];
  const SymInt wanted = conv.transposed ? weight.sizes[0] : weight.sizes[1] * conv.groups;
  const SymInt outputs = conv.transposed ? weight.sizes[1] * conv.groups : weight.sizes[0];
  QDQ_CHECK(may_be_equal(channels, wanted), kInvalidArgument, call.op().target, " with a weight of shape ",
            to_string(weight.sizes), " and ", conv.groups.to_string(), " groups needs ", wanted.to_string(),
            " input channels, found ", channels.to_string());
  const std::optional<int64_t> divided = weight.sizes[0].constant(), groups = conv.groups.constant();
  QDQ_CHECK(!divided || !groups || *divided % *groups == 0, kInvalidArgument, call.op().target, " cannot split ",
            *divided, " channels into ", *groups, " groups");
  if (const TensorMeta* bias = call.optional_tensor(2)) {
    QDQ_CHECK(bias->sizes.size() == 1 && may_be_equal(bias->sizes[0], outputs), kInvalidArgument, call.op().target,
              " needs a bias of shape [", outputs.to_string(), "], found ", to_string(bias->sizes));
  }
  SymShape sizes;
  if (batched) sizes.push_back(x.sizes[0]);
  sizes.push_back(outputs);
  for (size_t a = 0; a < axes; ++a) {
    const SymInt extent = x.sizes[a + (batched ? 2 : 1)];
    const SymInt reach = (weight.sizes[a + 2] - SymInt(1)) * SymInt(conv.dilation[a]);
    const SymInt padding(conv.pad_low[a] + conv.pad_high[a]), stride(conv.stride[a]);
    const SymInt out = conv.transposed
                           ? (extent - SymInt(1)) * stride - padding + reach + SymInt(conv.output_padding[a] + 1)
                           : (extent + padding - reach - SymInt(1)).floor_div(stride) + SymInt(1);
    QDQ_CHECK(!out.is_constant() || *out.constant() > 0, kInvalidArgument, call.op().target, " on an input of shape ",
              to_string(x.sizes), " with a weight of shape ", to_string(weight.sizes), " has the output extent ",
              out.to_string(), " in spatial axis ", a);
    sizes.push_back(out);
  }
  return tensor_meta(x.dtype, sizes);
}

// Everything in three spatial axes; the missing ones come first.
struct Problem {
  int64_t batch, groups, group_inputs, group_outputs;
  Extents in, out, kernel, stride, pad, dilation;
};

// Operands and result are double or int64_t, in which the sums are kept.
template <class C> Tensor run_conv(const Tensor& x, const Tensor& weight, const Problem& p) {
  const int64_t in_plane = p.in[0] * p.in[1] * p.in[2], taps = p.kernel[0] * p.kernel[1] * p.kernel[2];
  const Tensor out =
      Tensor::empty({p.batch, p.groups * p.group_outputs, p.out[0], p.out[1], p.out[2]}, DTypeOf<C>::value);
  C* to = out.data<C>();
  std::vector<C> row(static_cast<size_t>(p.out[2]));
  for (int64_t n = 0; n < p.batch; ++n) {
    for (int64_t o = 0; o < p.groups * p.group_outputs; ++o) {
      const C* group = x.data<C>() + (n * p.groups + o / p.group_outputs) * p.group_inputs * in_plane;
      const C* filter = weight.data<C>() + o * p.group_inputs * taps;
      for (int64_t d = 0; d < p.out[0]; ++d) {
        for (int64_t h = 0; h < p.out[1]; ++h) {
          // One output row at a time: every element's sum still runs over the taps in order.
          std::fill(row.begin(), row.end(), C(0));
          for (int64_t tap = 0; tap < p.group_inputs * taps; ++tap) {
            const int64_t c = tap / taps, kw = tap % p.kernel[2], kh = tap / p.kernel[2] % p.kernel[1],
                          kd = tap % taps / (p.kernel[1] * p.kernel[2]);
            const int64_t id = d * p.stride[0] - p.pad[0] + kd * p.dilation[0],
                          ih = h * p.stride[1] - p.pad[1] + kh * p.dilation[1];
            if (id < 0 || id >= p.in[0] || ih < 0 || ih >= p.in[1]) continue;
            const C* from = group + c * in_plane + (id * p.in[1] + ih) * p.in[2];
            const C w = filter[tap];
            const int64_t first = kw * p.dilation[2] - p.pad[2];
            for (int64_t i = 0; i < p.out[2]; ++i) {
              const int64_t iw = first + i * p.stride[2];
              if (iw >= 0 && iw < p.in[2])
                row[static_cast<size_t>(i)] = add_wrapping(row[static_cast<size_t>(i)], mul_wrapping(w, from[iw]));
            }
          }
          to = std::copy(row.begin(), row.end(), to);
        }
      }
    }
  }
  return out;
}

// The weight of a transposed convolution is [C, O / G, kD, kH, kW]. Output position o gets x[i] w[k] where o = i stride
// - pad + k dilation.
template <class C> Tensor run_conv_transpose(const Tensor& x, const Tensor& weight, const Problem& p) {
  const int64_t in_plane = p.in[0] * p.in[1] * p.in[2], taps = p.kernel[0] * p.kernel[1] * p.kernel[2];
  const Tensor out =
      Tensor::empty({p.batch, p.groups * p.group_outputs, p.out[0], p.out[1], p.out[2]}, DTypeOf<C>::value);
  C* to = out.data<C>();
  // The input index that reaches output o through tap k; -1 if there is none.
  const auto source = [&](size_t axis, int64_t o, int64_t k) {
    const int64_t at = o + p.pad[axis] - k * p.dilation[axis];
    return at < 0 || at % p.stride[axis] != 0 || at / p.stride[axis] >= p.in[axis] ? int64_t{-1} : at / p.stride[axis];
  };
  for (int64_t n = 0; n < p.batch; ++n) {
    for (int64_t o = 0; o < p.groups * p.group_outputs; ++o) {
      const int64_t g = o / p.group_outputs;
      for (int64_t d = 0; d < p.out[0]; ++d) {
        for (int64_t h = 0; h < p.out[1]; ++h) {
          for (int64_t w = 0; w < p.out[2]; ++w) {
            C sum = 0;
            for (int64_t c = 0; c < p.group_inputs; ++c) {
              const C* plane = x.data<C>() + (n * p.groups * p.group_inputs + g * p.group_inputs + c) * in_plane;
              const C* filter =
                  weight.data<C>() + ((g * p.group_inputs + c) * p.group_outputs + o % p.group_outputs) * taps;
              for (int64_t tap = 0; tap < taps; ++tap) {
                const int64_t id = source(0, d, tap / (p.kernel[1] * p.kernel[2]));
                const int64_t ih = source(1, h, tap / p.kernel[2] % p.kernel[1]);
                const int64_t iw = source(2, w, tap % p.kernel[2]);
                if (id < 0 || ih < 0 || iw < 0) continue;
                sum = add_wrapping(sum, mul_wrapping(filter[tap], plane[(id * p.in[1] + ih) * p.in[2] + iw]));
              }
            }
            *to++ = sum;
          }
        }
      }
    }
  }
  return out;
}

Value eval_with(const Call<Tensor>& call, const ConvArguments& places, bool transposed) {
  const Tensor &x = call.tensor(0), &weight = call.tensor(1);
  const Shape sizes = constant_shape(result_meta(call).sizes);
  const Conv conv = read_conv(call, places, transposed, meta_of(weight).sizes);
  const size_t axes = static_cast<size_t>(weight.dim()) - 2, first = 3 - axes;
  const bool batched = x.sizes().size() == axes + 2;

  Problem p{};
  p.batch = batched ? x.size(0) : 1;
  p.groups = *conv.groups.constant();
  p.group_inputs = (conv.transposed ? weight.size(0) : weight.size(1) * p.groups) / p.groups;
  p.group_outputs = conv.transposed ? weight.size(1) : weight.size(0) / p.groups;
  p.in = p.out = p.kernel = p.stride = p.dilation = {1, 1, 1};
  for (size_t a = 0; a < axes; ++a) {
    p.in[first + a] = x.sizes()[a + (batched ? 2 : 1)];
    p.out[first + a] = sizes[a + (batched ? 2 : 1)];
    p.kernel[first + a] = weight.sizes()[a + 2];
    p.stride[first + a] = conv.stride[a];
    p.pad[first + a] = conv.pad_low[a];
    p.dilation[first + a] = conv.dilation[a];
  }
  const DType c = compute_dtype(x.dtype());
  Tensor out = visit_wide(x.dtype(), [&](auto type) {
    using C = typename decltype(type)::type;
    const Tensor in = x.to(DTypeOf<C>::value).contiguous(), w = weight.to(DTypeOf<C>::value).contiguous();
    return (conv.transposed ? run_conv_transpose<C>(in, w, p) : run_conv<C>(in, w, p)).to(c);
  });
  if (const Tensor* bias = call.optional_tensor(2)) {
    const auto sum = [](auto a, auto b) { return add_wrapping(a, b); };
    out = run_loops(out, bias->reshape({bias->numel(), 1, 1, 1}), c, c, &sum, kWideLoops<decltype(sum)>);
  }
  return out.reshape(sizes).to(x.dtype());
}

template <const ConvArguments& places, bool transposed> MetaValue infer_conv(const Call<TensorMeta>& call) {
  return infer_with(call, places, transposed);
}
template <const ConvArguments& places, bool transposed> Value eval_conv(const Call<Tensor>& call) {
  return eval_with(call, places, transposed);
}

}  // namespace

void add_conv_ops(std::vector<OpDef>& ops) {
  const Roles roles{.activation = 0, .weight = 1, .bias = 2, .weight_axis = 0};
  const Roles transposed{.activation = 0, .weight = 1, .bias = 2, .weight_axis = 1};
  const auto conv = [&](int axes, const char* line) {
    ops.push_back(define(line, infer_conv<kConv, false>, eval_conv<kConv, false>, roles, Family::kConvolution));
    ops.back().spatial_axes = axes;
  };
  const auto conv_transpose = [&](int axes, const char* line) {
    ops.push_back(define(line, infer_conv<kConvTranspose, true>, eval_conv<kConvTranspose, true>, transposed,
                         Family::kTransposedConvolution));
    ops.back().spatial_axes = axes;
  };
  conv(1,
       "aten::conv1d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[1] stride=[1], SymInt[1] padding=[0], "
       "SymInt[1] dilation=[1], SymInt "
       "groups=1) -> Tensor");
  conv(1,
       "aten::conv1d.padding(Tensor input, Tensor weight, Tensor? bias=None, SymInt[1] stride=[1], str "
       "padding=\"valid\", SymInt[1] dilation=[1], "
       "SymInt groups=1) -> Tensor");
  conv(
      2,
      "aten::conv2d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=[1, 1], SymInt[2] padding=[0, 0], "
      "SymInt[2] dilation=[1, 1], "
      "SymInt groups=1) -> Tensor");
  conv(2,
       "aten::conv2d.padding(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=[1, 1], str "
       "padding=\"valid\", SymInt[2] dilation=[1, "
       "1], SymInt groups=1) -> Tensor");
  conv(3,
       "aten::conv3d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[3] stride=[1, 1, 1], SymInt[3] padding=[0, "
       "0, 0], SymInt[3] dilation=[1, "
       "1, 1], SymInt groups=1) -> Tensor");
  conv(3,
       "aten::conv3d.padding(Tensor input, Tensor weight, Tensor? bias=None, SymInt[3] stride=[1, 1, 1], str "
       "padding=\"valid\", SymInt[3] "
       "dilation=[1, 1, 1], SymInt groups=1) -> Tensor");
  conv_transpose(
      1,
      "aten::conv_transpose1d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[1] stride=[1], SymInt[1] "
      "padding=[0], SymInt[1] "
      "output_padding=[0], SymInt groups=1, SymInt[1] dilation=[1]) -> Tensor");
  conv_transpose(
      2,
      "aten::conv_transpose2d.input(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=[1, 1], SymInt[2] "
      "padding=[0, 0], SymInt[2] "
      "output_padding=[0, 0], SymInt groups=1, SymInt[2] dilation=[1, 1]) -> Tensor");
  conv_transpose(
      3,
      "aten::conv_transpose3d.input(Tensor input, Tensor weight, Tensor? bias=None, SymInt[3] stride=[1, 1, 1], "
      "SymInt[3] padding=[0, 0, 0], "
      "SymInt[3] output_padding=[0, 0, 0], SymInt groups=1, SymInt[3] dilation=[1, 1, 1]) -> Tensor");
  ops.push_back(
      define("aten::convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] "
             "dilation, bool transposed, "
             "SymInt[] output_padding, SymInt groups) -> Tensor",
             infer_conv<kConvolution, false>, eval_conv<kConvolution, false>, roles, Family::kConvolution));
}

}  // namespace qdq
