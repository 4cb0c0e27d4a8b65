// The quantized_decomposed operators, after torch/ao/quantization/fx/_decomposed.py and determine_qparams in
// torch/ao/quantization/utils.py. All arithmetic is f32 unless an operand is wider; rounding is half to even.
#include "kernel/observe.h"
#include "op/elements.h"
#include "op/families.h"

namespace qdq {
namespace {

// expressions with PyTorch's promotion, so that the formulas below read like their source.

template <class F> Tensor combine(const Tensor& a, const Tensor& b, const F& f) {
  const DType dtype = result_dtype({{a.dtype(), a.dim() == 0 ? 1 : 2}, {b.dtype(), b.dim() == 0 ? 1 : 2}});
  return run_loops(a, b, dtype, dtype, &f, kWideLoops<F>);
}
Tensor operator+(const Tensor& a, const Tensor& b) {
  return combine(a, b, [](auto x, auto y) { return add_wrapping(x, y); });
}
Tensor operator-(const Tensor& a, const Tensor& b) {
  return combine(a, b, [](auto x, auto y) { return add_wrapping(x, mul_wrapping(decltype(y)(-1), y)); });
}
Tensor operator*(const Tensor& a, const Tensor& b) {
  return combine(a, b, [](auto x, auto y) { return mul_wrapping(x, y); });
}

// f of every element of a float tensor, rounded to the tensor's dtype.
template <class F> Tensor apply(const Tensor& x, const F& f) {
  check_float(x.dtype(), "quantized_decomposed");
  return run_loops(x, x.dtype(), x.dtype(), &f, kDoubleLoops<F>);
}
Tensor reciprocal(const Tensor& x) {
  return apply(x, [](double v) { return 1 / v; });
}
Tensor round(const Tensor& x) {
  return apply(x, [](double v) { return std::nearbyint(v); });
}
Tensor clamp(const Tensor& x, int64_t low, int64_t high) {
  const double lowest = static_cast<double>(low), highest = static_cast<double>(high);
  return apply(x, [=](double v) { return v < lowest ? lowest : v > highest ? highest : v; });
}

void check_quantized_dtype(const OpDef& op, DType dtype) {
  QDQ_CHECK(is_integral(dtype) && dtype != DType::kS64, kInvalidArgument, op.target,
            " does not have the quantized dtype ", to_string(dtype));
}
void check_range(const OpDef& op, int64_t qmin, int64_t qmax, DType dtype) {
  check_quantized_dtype(op, dtype);
  QDQ_CHECK(qmin >= min_of(dtype) && qmax <= max_of(dtype), kInvalidArgument, op.target, " got the range ", qmin, "..",
            qmax, ", which does not fit ", to_string(dtype));
}
// f16 and bf16 are quantized as f32.
void check_float_input(const OpDef& op, DType dtype) {
  QDQ_CHECK(dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16, kInvalidArgument, op.target,
            " needs a float32 tensor, found ", to_string(dtype));
}
void check_dtype_is(const OpDef& op, DType found, DType wanted) {
  check_quantized_dtype(op, wanted);
  QDQ_CHECK(found == wanted, kInvalidArgument, op.target, " needs a ", to_string(wanted), " tensor, found ",
            to_string(found));
}
void check_one(const OpDef& op, const TensorMeta& qparam, const char* name) {
  QDQ_CHECK(may_be_equal(numel_of(qparam.sizes), SymInt(1)), kInvalidArgument, op.target, " needs one number as ", name,
            ", found shape ", to_string(qparam.sizes));
}

// per tensor: (input, scale, zero_point, quant_min, quant_max, dtype).

enum class Given { kNumbers, kQParamTensors, kAllTensors };

template <Given given> MetaValue infer_quantize(const Call<TensorMeta>& call) {
  const DType dtype = call.dtype(5, DType::kS8);
  check_float_input(call.op(), call.tensor(0).dtype);
  if (given != Given::kNumbers) {
    check_one(call.op(), call.tensor(1), "scale");
    check_one(call.op(), call.tensor(2), "zero_point");
  }
  if (given != Given::kAllTensors) check_range(call.op(), call.integer(3), call.integer(4), dtype);
  return tensor_meta(dtype, call.tensor(0).sizes);
}
template <Given given> Value eval_quantize(const Call<Tensor>& call) {
  infer_call(call);
  const DType dtype = call.dtype(5, DType::kS8);
  const int64_t qmin = call.integer(3), qmax = call.integer(4);
  check_range(call.op(), qmin, qmax, dtype);
  // The reciprocal is taken in double and applied as f32.
  const float inverse = static_cast<float>(1.0 / call.number(1)), zero_point = static_cast<float>(call.integer(2));
  const float low = static_cast<float>(qmin), high = static_cast<float>(qmax);
  return map<float>(call.tensor(0).to(DType::kF32),
                    [=](float x) {
                      const float q = std::nearbyint(x * inverse) + zero_point;
                      return q < low ? low : q > high ? high : q;
                    })
      .to(dtype);
}

template <Given given> MetaValue infer_dequantize(const Call<TensorMeta>& call) {
  check_dtype_is(call.op(), call.tensor(0).dtype, call.dtype(5, DType::kS8));
  if (given != Given::kNumbers) {
    check_one(call.op(), call.tensor(1), "scale");
    check_one(call.op(), call.tensor(2), "zero_point");
  }
  return tensor_meta(call.dtype(6, DType::kF32), call.tensor(0).sizes);
}
template <Given given> Value eval_dequantize(const Call<Tensor>& call) {
  const DType out = result_meta(call).dtype;
  const Tensor scale = Tensor::scalar(call.number(1)), zero_point = Tensor::scalar(call.integer(2));
  const auto difference = [](double q, double z) { return q - z; };
  const auto product = [](double q, double s) { return q * s; };
  check_float(out, call.op().target);
  // Two steps, since each result of the output dtype is rounded.
  const Tensor shifted =
      run_loops(call.tensor(0), zero_point, out, out, &difference, kDoubleLoops<decltype(difference)>);
  return run_loops(shifted, scale, out, out, &product, kDoubleLoops<decltype(product)>);
}

// One number per channel, shaped to broadcast along the axis.
Tensor along(const Tensor& qparams, int64_t axis, const Tensor& input) {
  Shape shape(input.sizes().size(), 1);
  shape[static_cast<size_t>(axis)] = qparams.numel();
  return qparams.reshape(shape);
}
void check_channels(const Call<TensorMeta>& call, size_t axis_place) {
  const SymShape& sizes = call.tensor(0).sizes;
  const int64_t axis = call.integer(axis_place), rank = static_cast<int64_t>(sizes.size());
  QDQ_CHECK(axis < rank && axis >= -rank, kInvalidArgument, call.op().target, " got axis ", axis,
            " for a tensor of shape ", to_string(sizes));
  const SymInt& channels = sizes[static_cast<size_t>(axis < 0 ? axis + rank : axis)];
  for (size_t i : {size_t{1}, size_t{2}}) {
    if (call.is_none(i)) continue;
    const SymInt count = numel_of(call.tensor(i).sizes);
    QDQ_CHECK(count == SymInt(1) || may_be_equal(count, channels), kInvalidArgument, call.op().target, " needs ",
              channels.to_string(), " numbers as ", call.op().schema->arguments[i].name, ", found shape ",
              to_string(call.tensor(i).sizes));
  }
}
MetaValue infer_quantize_per_channel(const Call<TensorMeta>& call) {
  check_float_input(call.op(), call.tensor(0).dtype);
  check_channels(call, 3);
  check_range(call.op(), call.integer(4), call.integer(5), call.dtype(6, DType::kS8));
  return tensor_meta(call.dtype(6, DType::kS8), call.tensor(0).sizes);
}
Value eval_quantize_per_channel(const Call<Tensor>& call) {
  const DType dtype = result_meta(call).dtype;
  const Tensor input = call.tensor(0).to(DType::kF32);
  const int64_t axis = wrap_axis(call.integer(3), input.dim());
  const Tensor scales = along(call.tensor(1), axis, input), zero_points = along(call.tensor(2), axis, input);
  return clamp(round(input * reciprocal(scales)) + zero_points, call.integer(4), call.integer(5)).to(dtype);
}
MetaValue infer_dequantize_per_channel(const Call<TensorMeta>& call) {
  check_dtype_is(call.op(), call.tensor(0).dtype, call.dtype(6, DType::kS8));
  check_channels(call, 3);
  check_range(call.op(), call.integer(4), call.integer(5), call.dtype(6, DType::kS8));
  return tensor_meta(call.dtype(7, DType::kF32), call.tensor(0).sizes);
}
Value eval_dequantize_per_channel(const Call<Tensor>& call) {
  const DType out = result_meta(call).dtype;
  const Tensor& input = call.tensor(0);
  const int64_t axis = wrap_axis(call.integer(3), input.dim());
  const Tensor scales = along(call.tensor(1), axis, input);
  if (call.is_none(2)) return (input * scales).to(out);
  return ((input - along(call.tensor(2), axis, input)) * scales).to(out);
}
MetaValue infer_fake_quant_per_channel(const Call<TensorMeta>& call) {
  QDQ_CHECK(call.tensor(0).dtype == DType::kF32, kInvalidArgument, call.op().target, " needs a float32 tensor, found ",
            to_string(call.tensor(0).dtype));
  check_channels(call, 3);
  return infer_like_self(call);
}
Value eval_fake_quant_per_channel(const Call<Tensor>& call) {
  infer_call(call);
  const Tensor& input = call.tensor(0);
  const int64_t axis = wrap_axis(call.integer(3), input.dim());
  const Tensor scales = along(call.tensor(1).to(DType::kF32), axis, input),
               zero_points = along(call.tensor(2).to(DType::kS32), axis, input);
  const Tensor q = clamp(round(input * reciprocal(scales)) + zero_points, call.integer(4), call.integer(5));
  return (q - zero_points) * scales;
}

// per token: one scale and zero point for each row along the last axis.

// The zero point is added before rounding.
Tensor quantize_rows(const Tensor& input, const Tensor& scales, const Tensor& zero_points, int64_t qmin, int64_t qmax,
                     DType dtype) {
  return clamp(round(input * reciprocal(scales) + zero_points), qmin, qmax).to(dtype);
}
MetaValue infer_quantize_per_token(const Call<TensorMeta>& call) {
  const DType dtype = call.dtype(5, DType::kS8);
  check_range(call.op(), call.integer(3), call.integer(4), dtype);
  const SymShape& sizes = call.tensor(0).sizes;
  QDQ_CHECK(!sizes.empty(), kInvalidArgument, call.op().target, " needs a tensor with axes");
  const SymInt tokens = numel_of(SymShape(sizes.begin(), sizes.end() - 1));
  for (size_t i : {size_t{1}, size_t{2}})
    QDQ_CHECK(may_be_equal(numel_of(call.tensor(i).sizes), tokens), kInvalidArgument, call.op().target, " needs ",
              tokens.to_string(), " ", call.op().schema->arguments[i].name, ", found shape ",
              to_string(call.tensor(i).sizes));
  return tensor_meta(dtype, sizes);
}
Value eval_quantize_per_token(const Call<Tensor>& call) {
  const TensorMeta meta = result_meta(call);
  return quantize_rows(call.tensor(0), call.tensor(1), call.tensor(2), call.integer(3), call.integer(4), meta.dtype);
}
MetaValue infer_dequantize_per_token(const Call<TensorMeta>& call) {
  const TensorMeta& x = call.tensor(0);
  return tensor_meta(call.dtype(6, DType::kF32),
                     broadcast_shapes(x.sizes, broadcast_shapes(call.tensor(1).sizes, call.tensor(2).sizes)));
}
Value eval_dequantize_per_token(const Call<Tensor>& call) {
  return ((call.tensor(0) - call.tensor(2)) * call.tensor(1)).to(result_meta(call).dtype);
}

// per channel group: one scale and zero point for each run of group_size elements of a row.

template <class T> int64_t group_size_of(const Call<T>& call, const SymShape& sizes, const SymShape& scales) {
  int64_t group = call.integer(6);
  QDQ_CHECK(group > 1 && sizes.size() == 2 && sizes[1].is_constant(), kInvalidArgument, call.op().target,
            " needs a matrix and groups of more than 1 element, found shape ", to_string(sizes), " and group size ",
            group);
  const int64_t columns = *sizes[1].constant();
  if (group > columns && !scales.empty() && scales.back() == SymInt(1)) group = columns;
  QDQ_CHECK(group > 0 && columns % group == 0, kInvalidArgument, call.op().target, " cannot split rows of ", columns,
            " into groups of ", group);
  return group;
}
void check_groups(const Call<TensorMeta>& call) {
  const SymShape& sizes = call.tensor(0).sizes;
  const SymInt groups = numel_of(sizes).floor_div(SymInt(group_size_of(call, sizes, call.tensor(1).sizes)));
  for (size_t i : {size_t{1}, size_t{2}})
    QDQ_CHECK(call.is_none(i) || may_be_equal(numel_of(call.tensor(i).sizes), groups), kInvalidArgument,
              call.op().target, " needs ", groups.to_string(), " ", call.op().schema->arguments[i].name,
              ", found shape ", to_string(call.tensor(i).sizes));
}
MetaValue infer_quantize_group(const Call<TensorMeta>& call) {
  check_groups(call);
  check_range(call.op(), call.integer(3), call.integer(4), call.dtype(5, DType::kS8));
  return tensor_meta(call.dtype(5, DType::kS8), call.tensor(0).sizes);
}
Value eval_quantize_group(const Call<Tensor>& call) {
  const TensorMeta meta = result_meta(call);
  const Tensor& input = call.tensor(0);
  const int64_t group = group_size_of(call, meta.sizes, meta_of(call.tensor(1)).sizes), rows = input.numel() / group;
  visit_float(input.dtype(), call.op().target, [&](auto type) {
    using C = typename decltype(type)::type;
    const Tensor all = input.to(DTypeOf<C>::value).contiguous();
    for (const C x : all.template span<C>()) QDQ_CHECK(x == x, kInvalidArgument, call.op().target, " got a NaN");
  });
  return quantize_rows(input.reshape({rows, group}), call.tensor(1).reshape({rows, 1}),
                       call.tensor(2).reshape({rows, 1}), call.integer(3), call.integer(4), meta.dtype)
      .reshape(input.sizes());
}
MetaValue infer_dequantize_group(const Call<TensorMeta>& call) {
  check_groups(call);
  return tensor_meta(call.dtype(7, DType::kF32), call.tensor(0).sizes);
}
Value eval_dequantize_group(const Call<Tensor>& call) {
  const TensorMeta meta = result_meta(call);
  const Tensor& input = call.tensor(0);
  const int64_t group = group_size_of(call, meta.sizes, meta_of(call.tensor(1)).sizes), rows = input.numel() / group;
  const Tensor q = input.reshape({rows, group}), scales = call.tensor(1).reshape({rows, 1});
  const Tensor shifted = call.is_none(2) ? q : q - call.tensor(2).reshape({rows, 1});
  return (shifted * scales).reshape(input.sizes()).to(meta.dtype);
}

// qparams of a tensor.

kernel::MinMax min_max_of(const OpDef& op, const float* x, int64_t n) {
  QDQ_CHECK(n > 0, kInvalidArgument, op.target, " has no result for an empty tensor");
  const kernel::MinMax out = kernel::min_max_f32(x, n);
  QDQ_CHECK(!out.has_nan, kInvalidArgument, op.target, " got a NaN");
  return out;
}

// (input, quant_min, quant_max, eps, dtype) -> (scale f64 [1], zero_point s64 [1])
MetaValue infer_choose_qparams(const Call<TensorMeta>& call) {
  check_float_input(call.op(), call.tensor(0).dtype);
  check_quantized_dtype(call.op(), call.dtype(4, DType::kS8));
  const int64_t qmin = call.integer(1), qmax = call.integer(2);
  QDQ_CHECK(qmin <= 0 && qmax >= 0 && qmin < qmax, kInvalidArgument, call.op().target, " got the range ", qmin, "..",
            qmax, ", which must include 0 and more");
  return MetaValue::List{tensor_meta(DType::kF64, {SymInt(1)}), tensor_meta(DType::kS64, {SymInt(1)})};
}
template <bool symmetric> Value eval_choose_qparams(const Call<Tensor>& call) {
  infer_call(call);
  const Tensor& input = call.tensor(0);
  const int64_t qmin = call.integer(1), qmax = call.integer(2);
  const Tensor wide = input.to(DType::kF32).contiguous();
  // Nothing needs no range: a detector that finds no box. ONNX Runtime gives a scale, too, where PyTorch fails.
  const bool is_empty = wide.numel() == 0;
  const kernel::MinMax range =
      is_empty ? kernel::MinMax{0, 0, false} : min_max_of(call.op(), wide.data<float>(), wide.numel());
  // Until eps, which is an f32 tensor, comes in, all is in the input's dtype.
  const auto rounded = [&](float x) {
    return input.dtype() == DType::kF16 ? float(F16(x)) : input.dtype() == DType::kBF16 ? float(BF16(x)) : x;
  };
  const float low = std::min(range.min, 0.0f), high = std::max(range.max, 0.0f),
              eps = static_cast<float>(call.number(3));
  const float width = static_cast<float>(static_cast<double>(qmax) - static_cast<double>(qmin));
  float scale = symmetric ? rounded(std::max(-low, high) / (width / 2)) : rounded(rounded(high - low) / width);
  scale = std::max(scale, eps);
  int64_t zero_point = 0;
  if (symmetric) {
    if (call.dtype(4, DType::kS8) == DType::kU8) zero_point = 128;
  } else {
    // An infinite range gives NaN, which PyTorch's conversion makes the smallest integer, so that the zero point ends
    // at qmax.
    const float steps = std::nearbyint(low / scale);
    zero_point = steps == steps
                     ? std::clamp(qmin - saturate<int64_t>(static_cast<double>(std::max(steps, -0x1p62f))), qmin, qmax)
                     : qmax;
  }
  return Value::List{Tensor::of<double>({1}, {static_cast<double>(scale)}), Tensor::of<int64_t>({1}, {zero_point})};
}

SymShape token_sizes(const SymShape& sizes, const OpDef& op) {
  QDQ_CHECK(!sizes.empty(), kInvalidArgument, op.target, " needs a tensor with axes");
  SymShape out = sizes;
  out.back() = 1;
  return out;
}
// Symmetric: scale = max(largest |x|, 1e-5) / 127, in f32 for f16; zero points are float zeros.
MetaValue infer_choose_per_token(const Call<TensorMeta>& call) {
  const TensorMeta& x = call.tensor(0);
  QDQ_CHECK(call.dtype(1, DType::kS8) == DType::kS8, kInvalidArgument, call.op().target, " has int8 only, found ",
            to_string(call.dtype(1, DType::kS8)));
  const TensorMeta out = tensor_meta(x.dtype == DType::kF16 ? DType::kF32 : x.dtype, token_sizes(x.sizes, call.op()));
  return MetaValue::List{out, out};
}
Value eval_choose_per_token(const Call<Tensor>& call) {
  const MetaValue meta = infer_call(call);
  const TensorMeta& one = *meta.get_if<MetaValue::List>()->at(0).get_if<TensorMeta>();
  const Tensor& x = call.tensor(0);
  const Shape sizes = constant_shape(one.sizes);
  const Tensor largest = visit_float(x.dtype(), call.op().target, [&](auto type) {
    using C = typename decltype(type)::type;
    const Tensor in = x.to(DTypeOf<C>::value).contiguous(), out = Tensor::empty(sizes, DTypeOf<C>::value);
    const int64_t n = x.size(-1);
    for (int64_t r = 0; r < out.numel(); ++r)
      for (int64_t i = 0; i < n; ++i) {
        const C magnitude = std::fabs(in.data<C>()[r * n + i]);
        if (magnitude > out.data<C>()[r] || magnitude != magnitude) out.data<C>()[r] = magnitude;
      }
    return out.to(one.dtype);
  });
  const Tensor scales = apply(apply(largest, [](auto v) { return v < decltype(v)(1e-5) ? decltype(v)(1e-5) : v; }),
                              [](auto v) { return v / decltype(v)(127); });
  return Value::List{scales, Tensor::empty(sizes, one.dtype)};
}

// Asymmetric int8: the zero point comes from the end of the range whose rounding error is smaller.
MetaValue infer_choose_per_token_asymmetric(const Call<TensorMeta>& call) {
  check_float_input(call.op(), call.tensor(0).dtype);
  const SymShape sizes = token_sizes(call.tensor(0).sizes, call.op());
  return MetaValue::List{tensor_meta(DType::kF64, sizes), tensor_meta(DType::kS64, sizes)};
}
Value eval_choose_per_token_asymmetric(const Call<Tensor>& call) {
  infer_call(call);
  const Tensor& input = call.tensor(0);
  QDQ_CHECK(input.dtype() == DType::kF32, kUnsupported, call.op().target, " is there for float32 only, found ",
            to_string(input.dtype()));
  const Tensor x = input.contiguous();
  Shape sizes = x.sizes();
  const int64_t n = sizes.back();
  sizes.back() = 1;
  const Tensor scales = Tensor::empty(sizes, DType::kF64), zero_points = Tensor::empty(sizes, DType::kS64);
  for (int64_t r = 0; r < scales.numel(); ++r) {
    const kernel::MinMax range = min_max_of(call.op(), x.data<float>() + r * n, n);
    const float low = std::min(range.min, 0.0f), high = std::max(range.max, 0.0f);
    const float scale = std::max((high - low) / 255.0f, std::numeric_limits<float>::epsilon());
    const float from_low = low / scale, from_high = high / scale;
    const float zero_point = (-128.0f + from_low) + (127.0f + from_high) > 0 ? -128.0f - from_low : 127.0f - from_high;
    scales.data<double>()[r] = static_cast<double>(scale);
    zero_points.data<int64_t>()[r] =
        saturate<int64_t>(static_cast<double>(std::nearbyint(std::clamp(zero_point, -128.0f, 127.0f))));
  }
  return Value::List{scales, zero_points};
}

MetaValue infer_convert(const Call<TensorMeta>& call) {
  return tensor_meta(call.dtype(1, call.tensor(0).dtype), call.tensor(0).sizes);
}
Value eval_convert(const Call<Tensor>& call) {
  return call.tensor(0).to(call.dtype(1, call.tensor(0).dtype())).clone();
}

}  // namespace

// NOLINTNEXTLINE(readability-function-size): a table
void add_quantized_decomposed_ops(std::vector<OpDef>& ops) {
  const Roles roles{.activation = 0};
  const auto add = [&](const char* line, Infer infer, Eval eval) {
    const std::string_view text = line, name = text.substr(text.find("::") + 2);
    const Family family = name.starts_with("quantize")     ? Family::kQuantize
                          : name.starts_with("dequantize") ? Family::kDequantize
                          : name.starts_with("convert")    ? Family::kCast
                          : name.starts_with("fake_quant") ? Family::kOther
                                                           : Family::kChooseQParams;
    ops.push_back(define(line, infer, eval, roles, family));
  };
  add("quantized_decomposed::quantize_per_tensor(Tensor input, float scale, int zero_point, int quant_min, int "
      "quant_max, ScalarType dtype) -> "
      "Tensor",
      infer_quantize<Given::kNumbers>, eval_quantize<Given::kNumbers>);
  add("quantized_decomposed::quantize_per_tensor.tensor(Tensor input, Tensor scale, Tensor zero_point, int quant_min, "
      "int quant_max, ScalarType "
      "dtype) -> Tensor",
      infer_quantize<Given::kQParamTensors>, eval_quantize<Given::kQParamTensors>);
  add("quantized_decomposed::quantize_per_tensor.tensor2(Tensor input, Tensor scale, Tensor zero_point, Tensor "
      "quant_min, Tensor quant_max, "
      "ScalarType dtype) -> Tensor",
      infer_quantize<Given::kAllTensors>, eval_quantize<Given::kAllTensors>);
  add("quantized_decomposed::dequantize_per_tensor(Tensor input, float scale, int zero_point, int quant_min, int "
      "quant_max, ScalarType dtype, *, "
      "ScalarType? out_dtype=None) -> Tensor",
      infer_dequantize<Given::kNumbers>, eval_dequantize<Given::kNumbers>);
  add("quantized_decomposed::dequantize_per_tensor.tensor(Tensor input, Tensor scale, Tensor zero_point, int "
      "quant_min, int quant_max, ScalarType "
      "dtype, *, ScalarType? out_dtype=None) -> Tensor",
      infer_dequantize<Given::kQParamTensors>, eval_dequantize<Given::kQParamTensors>);
  add("quantized_decomposed::dequantize_per_tensor.tensor2(Tensor input, Tensor scale, Tensor zero_point, Tensor "
      "quant_min, Tensor quant_max, "
      "ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor",
      infer_dequantize<Given::kAllTensors>, eval_dequantize<Given::kAllTensors>);
  add("quantized_decomposed::quantize_per_channel(Tensor input, Tensor scales, Tensor zero_points, int axis, int "
      "quant_min, int quant_max, "
      "ScalarType dtype) -> Tensor",
      infer_quantize_per_channel, eval_quantize_per_channel);
  add("quantized_decomposed::dequantize_per_channel(Tensor input, Tensor scales, Tensor? zero_points, int axis, int "
      "quant_min, int quant_max, "
      "ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor",
      infer_dequantize_per_channel, eval_dequantize_per_channel);
  add("quantized_decomposed::fake_quant_per_channel(Tensor input, Tensor scales, Tensor zero_points, int axis, int "
      "quant_min, int quant_max) -> "
      "Tensor",
      infer_fake_quant_per_channel, eval_fake_quant_per_channel);
  add("quantized_decomposed::quantize_per_token(Tensor input, Tensor scales, Tensor zero_points, int quant_min, int "
      "quant_max, ScalarType dtype) -> "
      "Tensor",
      infer_quantize_per_token, eval_quantize_per_token);
  add("quantized_decomposed::dequantize_per_token(Tensor input, Tensor scales, Tensor zero_points, int quant_min, int "
      "quant_max, ScalarType dtype, "
      "ScalarType output_dtype) -> Tensor",
      infer_dequantize_per_token, eval_dequantize_per_token);
  add("quantized_decomposed::quantize_per_channel_group(Tensor input, Tensor scales, Tensor zero_points, int "
      "quant_min, int quant_max, ScalarType "
      "dtype, int group_size) -> Tensor",
      infer_quantize_group, eval_quantize_group);
  add("quantized_decomposed::dequantize_per_channel_group(Tensor input, Tensor scales, Tensor? zero_points, int "
      "quant_min, int quant_max, ScalarType "
      "dtype, int group_size, ScalarType output_dtype) -> Tensor",
      infer_dequantize_group, eval_dequantize_group);
  add("quantized_decomposed::choose_qparams.tensor(Tensor input, int quant_min, int quant_max, float eps, ScalarType "
      "dtype) -> (Tensor, Tensor)",
      infer_choose_qparams, eval_choose_qparams<false>);
  add("quantized_decomposed::choose_qparams_symmetric.tensor(Tensor input, int quant_min, int quant_max, float eps, "
      "ScalarType dtype) -> (Tensor, "
      "Tensor)",
      infer_choose_qparams, eval_choose_qparams<true>);
  add("quantized_decomposed::choose_qparams_per_token(Tensor input, ScalarType dtype) -> (Tensor, Tensor)",
      infer_choose_per_token, eval_choose_per_token);
  add("quantized_decomposed::choose_qparams_per_token_asymmetric(Tensor input, ScalarType dtype) -> (Tensor, Tensor)",
      infer_choose_per_token_asymmetric, eval_choose_per_token_asymmetric);
  add("quantized_decomposed::_choose_qparams_per_token_asymmetric_impl(Tensor input, ScalarType dtype) -> (Tensor, "
      "Tensor)",
      infer_choose_per_token_asymmetric, eval_choose_per_token_asymmetric);
  add("quantized_decomposed::convert_element_type.no_fuse(Tensor input, ScalarType dtype) -> Tensor", infer_convert,
      eval_convert);
}

}  // namespace qdq
