// ONNX operators that quantize and dequantize, and those that compute with integers: the latter become float operators
// between dequantize and quantize nodes, which lowering joins to integer kernels.
#include "io/onnx/quantized.h"

#include "io/onnx/window.h"
#include "op/targets.h"

namespace qdq {
namespace {

Node* cast(OnnxCall& call, Node* node, DType dtype) {
  return call.meta_of(node).dtype == dtype ? node : call.call("to.dtype", {node, dtype});
}

Node* zeros_like_scale(OnnxCall& call, size_t scale) {
  Shape sizes;
  for (const SymInt& size : call.meta(scale).sizes) {
    if (!size.is_constant()) call.refuse("has scales of open size");
    sizes.push_back(*size.constant());
  }
  return call.import().constant(Tensor::empty(sizes, DType::kS64), "zero_point", Attribute::Kind::kBuffer);
}

// One number for the whole tensor.
bool is_single(OnnxCall& call, const OnnxQParams& q, const Node* x) {
  const SymShape& sizes = call.meta(q.scale).sizes;
  return q.block == 0 && (sizes.empty() || (sizes.size() == 1 && sizes[0] == SymInt(1) &&
                                            (call.meta_of(x).sizes.size() != 1 || !call.is_constant(q.scale))));
}

void check_scales(OnnxCall& call, const OnnxQParams& q) {
  if (call.has(q.zero_point) && call.meta(q.zero_point).sizes.size() != call.rank(q.scale) &&
      !(call.is_constant(q.zero_point) && call.constant(q.zero_point).numel() == 1))
    call.refuse("has scales and zero points of different shapes");
}

// A scale or zero point in the shape that broadcasts against x, whose axis is divided in blocks if there are any.
Node* along_axis(OnnxCall& call, Node* qparam, const OnnxQParams& q, int64_t axis, size_t rank) {
  if (q.block > 0) return call.call("unsqueeze.default", {qparam, axis + 1});
  if (call.meta_of(qparam).sizes.size() != 1) return qparam;
  std::vector<int64_t> sizes(rank, 1);
  if (rank > 0) sizes[static_cast<size_t>(axis)] = -1;
  return call.call("reshape.default", {qparam, OnnxCall::list(sizes)});
}

// The axis as [blocks, block].
Node* in_blocks(OnnxCall& call, Node* x, const OnnxQParams& q, int64_t axis) {
  if (q.block == 0) return x;
  if (call.meta_of(x).sizes.empty()) call.refuse("quantizes a tensor without axes in blocks");
  const auto size = call.extent(x, static_cast<size_t>(axis)).constant();
  if (!size || *size % q.block != 0)
    call.refuse("quantizes in blocks of ", q.block, " along an axis that is not a multiple of them");
  return call.call("unflatten.int", {x, axis, OnnxCall::list(std::vector<int64_t>{*size / q.block, q.block})});
}
Node* without_blocks(OnnxCall& call, Node* x, const OnnxQParams& q, int64_t axis) {
  return q.block == 0 ? x : call.call("flatten.using_ints", {x, axis, axis + 1});
}

// One scale serves all elements, whichever axis is named.
int64_t axis_of(OnnxCall& call, const OnnxQParams& q, const Node* x) {
  const SymShape& scales = call.meta(q.scale).sizes;
  const bool is_one = scales.empty() || (scales.size() == 1 && scales[0] == SymInt(1));
  if (call.meta_of(x).sizes.empty() || (q.block == 0 && is_one)) return 0;
  return call.axis(q.axis, call.meta_of(x).sizes.size());
}

// (x - zero_point) * scale, each element by itself.
Node* dequantized_by_elements(OnnxCall& call, Node* x, const OnnxQParams& q) {
  const int64_t axis = axis_of(call, q, x);
  const size_t rank = call.meta_of(x).sizes.size();
  Node* out = in_blocks(call, x, q, axis);
  // That of floats is 0.
  if (call.has(q.zero_point) && !is_float8(call.meta_of(x).dtype)) {
    Node* zero_point = cast(call, along_axis(call, call.tensor(q.zero_point), q, axis, rank), DType::kS32);
    out = call.call("sub.Tensor", {cast(call, out, DType::kS32), zero_point});
  }
  Node* scale = cast(call, along_axis(call, call.tensor(q.scale), q, axis, rank), DType::kF32);
  out = call.call("mul.Tensor", {cast(call, out, DType::kF32), scale});
  return without_blocks(call, out, q, axis);
}

// A stored matrix in blocks along an axis as PyTorch's operator has it, whose groups lie along the rows: columns are
// exchanged with rows and back. Null for others.
Node* dequantized_groups(OnnxCall& call, Node* integers, const OnnxQParams& q) {
  const SymShape& sizes = call.meta_of(integers).sizes;
  const DType dtype = call.meta_of(integers).dtype;
  const bool is_known = call.import().is_constant(integers) && call.is_constant(q.scale) &&
                        (!call.has(q.zero_point) || call.is_constant(q.zero_point));
  if (q.block == 0 || !is_known || sizes.size() != 2 || size_of(dtype) != 1) return nullptr;
  const int64_t axis = call.axis(q.axis, 2);
  const auto size = sizes[static_cast<size_t>(axis)].constant();
  if (!size || *size % q.block != 0 || call.rank(q.scale) != 2) return nullptr;
  const auto rows_of = [&](const Tensor& tensor) { return axis == 1 ? tensor : tensor.transpose(0, 1).contiguous(); };
  const auto keep = [&](const Tensor& tensor, const char* name) {
    return call.import().constant(rows_of(tensor), integers->name() + name, Attribute::Kind::kBuffer);
  };
  const Tensor scales = call.constant(q.scale);
  const Tensor zeros = call.has(q.zero_point) ? call.constant(q.zero_point).to(DType::kS32)
                                              : Tensor::full(scales.sizes(), DType::kS32, 0);
  Node* rows = axis == 1 ? integers : keep(call.import().constant_of(integers), "_rows");
  const bool has_four_bits = call.has_four_bits(0);
  const int64_t low = has_four_bits ? (dtype == DType::kU8 ? 0 : -8) : min_of(dtype),
                high = has_four_bits ? (dtype == DType::kU8 ? 15 : 7) : max_of(dtype);
  Node* out =
      call.call_as_it_is(op::kDequantizeGroups, {rows, keep(scales.to(DType::kF32), "_scale"),
                                                 keep(zeros, "_zero_point"), low, high, dtype, q.block, DType::kF32});
  return axis == 1 ? out : call.call("t.default", {out});
}

// Scales and zero points as tensors for each channel.
std::pair<Node*, Node*> channels(OnnxCall& call, const OnnxQParams& q, const std::string& base) {
  const auto known = [&](size_t i, DType dtype, const char* name) {
    const Tensor tensor = call.constant(i);
    return tensor.defined() ? call.import().constant(tensor.to(dtype), base + name, Attribute::Kind::kBuffer)
                            : cast(call, call.tensor(i), dtype);
  };
  Node* scale = known(q.scale, DType::kF32, "_scale");
  if (call.has(q.zero_point)) return {scale, known(q.zero_point, DType::kS64, "_zero_point")};
  return {scale, zeros_like_scale(call, q.scale)};
}

// A scale or zero point as DynamicQuantizeLinear gave it, before it was cast; null for others.
Node* given_by_range(OnnxCall& call, size_t i) {
  if (!call.has(i)) return nullptr;
  Node* node = call.tensor(i);
  while (node->is(op::kToDtype) || node->is(op::kReshape)) node = node->arg(0).node();
  return node->is(op::kGetItem) ? node : nullptr;
}

// The arguments of {quantize,dequantize}_per_{tensor,channel} behind the tensor, and its target among the three.
Node* by_qparams(OnnxCall& call, Node* x, const OnnxQParams& q, DType dtype, int64_t low, int64_t high,
                 std::string_view whole, std::string_view by_tensors, std::string_view by_channel) {
  check_scales(call, q);
  const bool is_known = call.is_constant(q.scale) && (!call.has(q.zero_point) || call.is_constant(q.zero_point));
  if (is_single(call, q, x)) {
    if (is_known)
      return call.call_as_it_is(
          whole, {x, call.constant(q.scale).item(),
                  call.has(q.zero_point) ? call.constant(q.zero_point).item_int() : int64_t{0}, low, high, dtype});
    Node *scale = given_by_range(call, q.scale), *zero_point = given_by_range(call, q.zero_point);
    if (!scale || !zero_point) {
      scale = call.tensor(q.scale);
      zero_point = call.has(q.zero_point) ? call.tensor(q.zero_point) : zeros_like_scale(call, q.scale);
    }
    return call.call_as_it_is(by_tensors, {x, scale, zero_point, low, high, dtype});
  }
  const auto [scale, zero_point] = channels(call, q, x->name());
  return call.call_as_it_is(by_channel, {x, scale, zero_point, axis_of(call, q, x), low, high, dtype});
}

}  // namespace

Node* dequantized(OnnxCall& call, Node* integers, const OnnxQParams& q) {
  const DType dtype = call.meta_of(integers).dtype;
  const bool is_integer = is_integral(dtype) && dtype != DType::kU32 && dtype != DType::kU64;
  if (!is_integer && !is_float8(dtype))
    call.refuse("dequantizes ", to_string(dtype), ", wanted integers or floats of 8 bits");
  if (Node* groups = is_integer ? dequantized_groups(call, integers, q) : nullptr)
    return cast(call, groups, call.meta(q.scale).dtype);
  const bool by_elements = is_float8(dtype) || size_of(dtype) > 2 || q.block > 0 || call.rank(q.scale) > 1 ||
                           (call.rank(q.scale) == 1 && call.meta_of(integers).sizes.empty());
  Node* out = by_elements ? dequantized_by_elements(call, integers, q)
                          : by_qparams(call, integers, q, dtype, min_of(dtype), max_of(dtype), op::kDequantize,
                                       op::kDequantizeByTensors, op::kDequantizeChannels);
  return cast(call, out, call.meta(q.scale).dtype);
}

namespace {

// x / scale, with the axis in blocks.
Node* over_scale(OnnxCall& call, Node* floats, const OnnxQParams& q, int64_t axis) {
  const size_t rank = call.meta_of(floats).sizes.size();
  Node* out = cast(call, in_blocks(call, floats, q, axis), DType::kF32);
  return call.call("div.Tensor", {out, cast(call, along_axis(call, call.tensor(q.scale), q, axis, rank), DType::kF32)});
}

}  // namespace

Node* as_float8(OnnxCall& call, Node* numbers, DType dtype, bool saturates) {
  const DType from = call.meta_of(numbers).dtype;
  if (from == dtype) return numbers;
  if (!is_floating(from) || is_float8(from)) numbers = cast(call, numbers, DType::kF32);
  const double most = float8_max(dtype);
  return cast(call, saturates ? call.call("clamp.default", {numbers, -most, most}) : numbers, dtype);
}

Node* quantized(OnnxCall& call, Node* floats, const OnnxQParams& q, DType dtype, int64_t low, int64_t high) {
  floats = is_floating(call.meta_of(floats).dtype) && call.meta_of(floats).dtype != DType::kF64
               ? floats
               : cast(call, floats, DType::kF32);
  // PyTorch's operators multiply by the reciprocal of a scale. One that the graph computes is divided by, as ONNX says:
  // no integer kernel would take it.
  const bool is_given = call.is_constant(q.scale) || given_by_range(call, q.scale);
  if (is_given && q.block == 0 && call.rank(q.scale) <= 1)
    return by_qparams(call, floats, q, dtype, low, high, op::kQuantize, op::kQuantizeByTensors, op::kQuantizeChannels);
  const int64_t axis = axis_of(call, q, floats);
  const size_t rank = call.meta_of(floats).sizes.size();
  Node* out = call.call("round.default", {over_scale(call, floats, q, axis)});
  if (call.has(q.zero_point))
    out = call.call("add.Tensor",
                    {out, cast(call, along_axis(call, call.tensor(q.zero_point), q, axis, rank), DType::kF32)});
  out = call.call("clamp.default", {out, low, high});
  return without_blocks(call, cast(call, out, dtype), q, axis);
}

Node* quantized(OnnxCall& call, Node* floats, const OnnxQParams& q) {
  const DType dtype = call.has(q.zero_point) ? call.meta(q.zero_point).dtype : DType::kU8;
  if (!is_integral(dtype) || size_of(dtype) > 2)
    call.refuse("quantizes to ", to_string(dtype), ", wanted integers of 8 or 16 bits");
  return quantized(call, floats, q, dtype, min_of(dtype), max_of(dtype));
}

namespace {

// The uint8 tensor, its scale and its zero point.
std::vector<Node*> quantized_by_range(OnnxCall& call, Node* floats) {
  Node* both = call.call_as_it_is(op::kChooseQParams, {floats, 0, 255, 1.1920928955078125e-07, DType::kU8});
  Node *scale = item(call, both, 0), *zero_point = item(call, both, 1);
  return {call.call_as_it_is(op::kQuantizeByTensors, {floats, scale, zero_point, 0, 255, DType::kU8}), scale,
          zero_point};
}

}  // namespace

Node* dynamically_quantized(OnnxCall& call, Node* floats) {
  const std::vector<Node*> q = quantized_by_range(call, floats);
  return call.call_as_it_is(op::kDequantizeByTensors, {q[0], q[1], q[2], 0, 255, DType::kU8});
}

namespace {

OnnxQParams given_qparams(OnnxCall& call) {
  // Once a number for the whole tensor, later of an axis.
  return {1, 2, call.integer("axis", 1), call.integer("block_size", 0)};
}

// Floats of 8 bits are those of x / scale; their zero point is 0.
void quantize_to_float8(OnnxCall& call, const OnnxQParams& q, DType dtype) {
  if (call.has(q.zero_point) && call.is_constant(q.zero_point)) {
    const Tensor zeros = call.constant(q.zero_point).to(DType::kF32).contiguous();
    for (const float zero : zeros.span<float>())
      if (zero != 0)
        call.refuse("has the zero point ", static_cast<double>(zero), ", which is 0 for ", to_string(dtype));
  }
  const int64_t axis = axis_of(call, q, call.tensor(0));
  Node* out = over_scale(call, call.tensor(0), q, axis);
  call.set(without_blocks(call, as_float8(call, out, dtype, call.integer("saturate", 1) != 0), q, axis));
}

void quantize_linear(OnnxCall& call) {
  if (call.integer("block_size", 0) < 0) call.refuse("has blocks of ", call.integer("block_size", 0));
  const OnnxQParams q = given_qparams(call);
  int64_t wanted = call.integer("output_dtype", 0);
  if (call.has(2) && call.has_four_bits(2))
    wanted = call.meta(2).dtype == DType::kU8 ? format::kOnnxU4 : format::kOnnxS4;
  else if (call.has(2)) wanted = format::onnx_number(call.meta(2).dtype);
  if (wanted == format::kOnnxU4) return call.set(quantized(call, call.tensor(0), q, DType::kU8, 0, 15));
  if (wanted == format::kOnnxS4) return call.set(quantized(call, call.tensor(0), q, DType::kS8, -8, 7));
  const auto dtype = wanted == 0 ? DType::kU8 : format::onnx_dtype(wanted);
  if (dtype && is_float8(*dtype)) return quantize_to_float8(call, q, *dtype);
  if (!dtype || !is_integral(*dtype) || size_of(*dtype) > 2)
    call.refuse("has the output data type ", wanted, ", wanted integers of 4, 8 or 16 bits or floats of 8");
  call.set(quantized(call, call.tensor(0), q, *dtype, min_of(*dtype), max_of(*dtype)));
}

void dequantize_linear(OnnxCall& call) {
  if (call.integer("block_size", 0) < 0) call.refuse("has blocks of ", call.integer("block_size", 0));
  Node* out = dequantized(call, call.tensor(0), given_qparams(call));
  if (const int64_t wanted = call.integer("output_dtype", 0); wanted != 0) {
    const auto dtype = format::onnx_dtype(wanted);
    if (!dtype || !is_floating(*dtype)) call.refuse("has the output data type ", wanted, ", wanted a float");
    out = cast(call, out, *dtype);
  }
  // A bias that is known becomes a float one, as PT2E keeps it.
  if (call.import().is_constant(out)) return call.set(call.import().constant_of(out));
  call.set(out);
}

void dynamic_quantize_linear(OnnxCall& call) {
  const std::vector<Node*> q = quantized_by_range(call, call.tensor(0));
  call.set(q[0]);
  // ONNX gives them as a float and a byte, without axes.
  const DType dtypes[] = {DType::kF32, DType::kU8};
  for (size_t i = 1; i < 3; ++i)
    if (call.has_output(i))
      call.set(cast(call, call.call("reshape.default", {Argument(q[i]), Argument(Argument::List{})}), dtypes[i - 1]),
               i);
}

// What is added to sums of products of integers, in units of both scales.
Node* float_bias(OnnxCall& call, size_t bias, size_t scale, size_t weight_scale, double factor = 1) {
  Node* product = call.call("mul.Tensor", {call.tensor(scale), call.tensor(weight_scale)});
  if (factor != 1) product = call.call("mul.Tensor", {product, factor});
  if (call.meta_of(product).sizes.size() > 1) call.refuse("has scales of several axes");
  return call.call("mul.Tensor", {cast(call, call.tensor(bias), DType::kF32), product});
}

void qlinear_conv(OnnxCall& call) {
  if (call.integer("channels_last", 0) != 0) call.refuse("has its channels last");
  Node *input = dequantized(call, call.tensor(0), {1, 2}), *weight = dequantized(call, call.tensor(3), {4, 5});
  const Argument bias = call.has(8) ? Argument(float_bias(call, 8, 1, 4)) : Argument();
  call.set(quantized(call, convolution(call, input, weight, bias), {6, 7}));
}

void qlinear_matmul(OnnxCall& call) {
  Node *a = dequantized(call, call.tensor(0), {1, 2, -2}), *b = dequantized(call, call.tensor(3), {4, 5, -1});
  call.set(quantized(call, matrix_product(call, a, b), {6, 7}));
}

void qgemm(OnnxCall& call) {
  Node *a = dequantized(call, call.tensor(0), {1, 2}),
       *b = dequantized(call, call.tensor(3), {4, 5, call.integer("transB", 0) ? 0 : 1});
  if (call.integer("transA", 0)) a = call.call("t.default", {a});
  if (call.integer("transB", 0)) b = transposed(call, b);
  const double alpha = call.real("alpha", 1);
  Node* bias = call.has(6) ? float_bias(call, 6, 1, 4, alpha) : nullptr;
  const bool is_row = bias && call.meta_of(bias).sizes.size() == 1 && call.extent(bias, 0) == call.extent(b, 1);
  Node* out = matrix_product(call, a, b, alpha == 1 && is_row ? Argument(bias) : Argument());
  if (alpha != 1) out = call.call("mul.Tensor", {out, alpha});
  if (bias && (alpha != 1 || !is_row)) out = call.call("add.Tensor", {out, bias});
  call.set(call.has(7) ? quantized(call, out, {7, 8}) : out);
}

// An operator with the inputs a, scale, zero point, b, scale, zero point, and those of the output.
void qlinear_binary(OnnxCall& call) {
  Node *a = dequantized(call, call.tensor(0), {1, 2}), *b = dequantized(call, call.tensor(3), {4, 5});
  call.set(quantized(call, call.call(call.op().aten, {a, b}), {6, 7}));
}

// An operator with the inputs x, scale, zero point, and those of the output.
void set_like_input(OnnxCall& call, Node* result) { call.set(quantized(call, result, {3, 4})); }
Node* float_input(OnnxCall& call) { return dequantized(call, call.tensor(0), {1, 2}); }

void qlinear_sigmoid(OnnxCall& call) { set_like_input(call, call.call("sigmoid.default", {float_input(call)})); }

void qlinear_leaky_relu(OnnxCall& call) {
  set_like_input(call, call.call("leaky_relu.default", {float_input(call), call.real("alpha", 0.01)}));
}

void qlinear_softmax(OnnxCall& call) {
  Node* input = float_input(call);
  const int64_t axis = call.axis(call.integer("axis", -1), call.rank(0));
  if (call.integer("opset", 13) >= 13) return set_like_input(call, call.call("softmax.int", {input, axis}));
  // Older ones go over all axes from this one on.
  Node* rows = call.call("flatten.using_ints", {input, axis});
  set_like_input(call, call.call("reshape_as.default", {call.call("softmax.int", {rows, axis}), input}));
}

// Channels in the second axis, while `channels_last` says that they are in the last one.
Node* channels_first(OnnxCall& call, Node* x) {
  if (call.integer("channels_last", 0) == 0) return x;
  return call.call("movedim.int", {x, -1, 1});
}
Node* channels_as_given(OnnxCall& call, Node* x) {
  if (call.integer("channels_last", 0) == 0) return x;
  return call.call("movedim.int", {x, 1, -1});
}

void qlinear_average_pool(OnnxCall& call) {
  set_like_input(call, channels_as_given(call, average_pool(call, channels_first(call, float_input(call)))));
}

void qlinear_global_average_pool(OnnxCall& call) {
  Node* input = channels_first(call, float_input(call));
  const size_t axes = call.rank(0) - 2;
  if (call.rank(0) < 3 || axes > 3) call.refuse("has an input of ", call.rank(0), " axes, wanted 3 to 5");
  set_like_input(call, channels_as_given(call, call.call(with_axes("adaptive_avg_pool", axes),
                                                         {input, OnnxCall::list(std::vector<int64_t>(axes, 1))})));
}

void qlinear_concat(OnnxCall& call) {
  Argument::List all;
  for (size_t i = 2; i + 2 < call.num_inputs(); i += 3)
    all.emplace_back(dequantized(call, call.tensor(i), {i + 1, i + 2}));
  if (all.empty()) call.refuse("has no input");
  const int64_t axis = call.axis(call.integer("axis", 0), call.rank(2));
  call.set(quantized(call, call.call("cat.default", {Argument(std::move(all)), axis}), {0, 1}));
}

void qlinear_where(OnnxCall& call) {
  Node *a = dequantized(call, call.tensor(1), {2, 3}), *b = dequantized(call, call.tensor(4), {5, 6});
  call.set(quantized(call, call.call("where.self", {call.tensor(0), a, b}), {7, 8}));
}

void qlinear_reduce_mean(OnnxCall& call) {
  std::vector<int64_t> axes = call.integers("axes", {});
  if (axes.empty())
    for (size_t i = 0; i < call.rank(0); ++i) axes.push_back(static_cast<int64_t>(i));
  set_like_input(call,
                 call.call("mean.dim", {float_input(call), OnnxCall::list(axes), call.integer("keepdims", 1) != 0}));
}

// Integers less their zero points, which may be one for each row (of an axis), as int32. A weight stays as small as it
// is, and as fuse_integer_products looks for it.
Node* shifted(OnnxCall& call, size_t i, size_t zero_point, int64_t axis) {
  Node* out = call.call_as_it_is(op::kToDtype, {call.tensor(i), DType::kS32});
  if (!call.has(zero_point)) return out;
  Node* zero = cast(call, call.tensor(zero_point), DType::kS32);
  if (call.meta_of(zero).sizes.size() == 1 && !(call.extent(zero, 0) == SymInt(1))) {
    std::vector<int64_t> sizes(call.rank(i), 1);
    sizes[static_cast<size_t>(call.axis(axis, call.rank(i)))] = -1;
    zero = call.call("reshape.default", {zero, OnnxCall::list(sizes)});
  } else if (call.meta_of(zero).sizes.size() == 1) {
    zero = call.call("reshape.default", {Argument(zero), Argument(Argument::List{})});
  }
  return call.call_as_it_is(op::kSub, {out, zero});
}

void matmul_integer(OnnxCall& call) {
  call.set(call.call("matmul.default", {shifted(call, 0, 2, -2), shifted(call, 1, 3, -1)}));
}

void conv_integer(OnnxCall& call) {
  call.set(convolution(call, shifted(call, 0, 2, 1), shifted(call, 1, 3, 0), Argument()));
}

void matmul_integer_to_float(OnnxCall& call) {
  Node *a = dequantized(call, call.tensor(0), {2, 4, -2}), *b = dequantized(call, call.tensor(1), {3, 5, -1});
  call.set(matrix_product(call, a, b, call.optional_tensor(6)));
}

void dynamic_quantize_matmul(OnnxCall& call) {
  Node* b = dequantized(call, call.tensor(1), {2, 3, -1});
  call.set(matrix_product(call, dynamically_quantized(call, call.tensor(0)), b, call.optional_tensor(4)));
}

// Reads the node as the float operator of this type whose inputs these are; those that are null stand as they are.
void read_as(OnnxCall& call, const char* op_type, const char* domain, const std::vector<size_t>& inputs,
             const std::vector<Node*>& floats) {
  format::OnnxNode node = call.node();
  node.op_type = op_type;
  node.domain = domain;
  node.inputs.clear();
  for (size_t i = 0; i < inputs.size(); ++i) {
    node.inputs.push_back(call.has(inputs[i]) ? call.node().inputs[inputs[i]] : std::string());
    if (i >= floats.size() || floats[i] == nullptr) continue;
    OnnxValue value;
    value.node = floats[i];
    node.inputs.back() += "/as floats";
    call.import().define(node.inputs.back(), std::move(value));
  }
  call.import().read(node);
}

// input, weight, bias, scales of input and weight, mask, zero points of input and weight, past.
void qattention(OnnxCall& call) {
  Node *input = dequantized(call, call.tensor(0), {3, 6}), *weight = dequantized(call, call.tensor(1), {4, 7, 1});
  read_as(call, "Attention", "com.microsoft", {0, 1, 2, 5, 8}, {input, weight});
}

// Words, segments; tables of words, places and segments, the factors and summands of the norm; mask; the scales of
// these five, and their zero points.
void qembed_layer_norm(OnnxCall& call) {
  std::vector<Node*> floats(7);
  for (size_t i = 0; i < 5; ++i)
    if (call.has(2 + i)) floats[2 + i] = dequantized(call, call.tensor(2 + i), {8 + i, 13 + i});
  read_as(call, "EmbedLayerNormalization", "com.microsoft", {0, 1, 2, 3, 4, 5, 6, 7}, floats);
}

// An LSTM with weights [directions, input, 4 hidden] and one scale, or one for each column. ONNX Runtime rounds inputs
// and states to eight bits as well, by their range in this run; here they stay floats.
void dynamic_quantize_lstm(OnnxCall& call) {
  const auto turned = [&](size_t i, size_t scale, size_t zero_point) {
    Node* integers = cast(call, call.tensor(i), DType::kF32);
    const auto by_column = [&](size_t qparam) {
      Node* node = cast(call, call.tensor(qparam), DType::kF32);
      const size_t rank = call.rank(qparam);  // [directions], or [directions, 4 hidden]
      if (rank == 0) return node;
      node = call.call("unsqueeze.default", {node, 1});
      return rank == 1 ? call.call("unsqueeze.default", {node, 2}) : node;
    };
    Node* shifted = call.has(zero_point) ? call.call("sub.Tensor", {integers, by_column(zero_point)}) : integers;
    return call.call("transpose.int", {call.call("mul.Tensor", {shifted, by_column(scale)}), 1, 2});
  };
  read_as(call, "LSTM", "", {0, 1, 2, 3, 4, 5, 6, 7}, {nullptr, turned(1, 8, 9), turned(2, 10, 11)});
}

constexpr OnnxOperator kQuantizedOperators[] = {
    {"ConvInteger", conv_integer, nullptr},
    {"DequantizeLinear", dequantize_linear, nullptr},
    {"DynamicQuantizeLinear", dynamic_quantize_linear, nullptr},
    {"MatMulInteger", matmul_integer, nullptr},
    {"QLinearConv", qlinear_conv, nullptr},
    {"QLinearMatMul", qlinear_matmul, nullptr},
    {"QuantizeLinear", quantize_linear, nullptr},
    {"com.microsoft.DequantizeLinear", dequantize_linear, nullptr},
    {"com.microsoft.DynamicQuantizeMatMul", dynamic_quantize_matmul, nullptr},
    {"com.microsoft.DynamicQuantizeLSTM", dynamic_quantize_lstm, nullptr},
    {"com.microsoft.MatMulIntegerToFloat", matmul_integer_to_float, nullptr},
    {"com.microsoft.QAttention", qattention, nullptr},
    {"com.microsoft.QEmbedLayerNormalization", qembed_layer_norm, nullptr},
    {"com.microsoft.QGemm", qgemm, nullptr},
    {"com.microsoft.QLinearAdd", qlinear_binary, "add.Tensor"},
    {"com.microsoft.QLinearAveragePool", qlinear_average_pool, nullptr},
    {"com.microsoft.QLinearConcat", qlinear_concat, nullptr},
    {"com.microsoft.QLinearConv", qlinear_conv, nullptr},
    {"com.microsoft.QLinearGlobalAveragePool", qlinear_global_average_pool, nullptr},
    {"com.microsoft.QLinearLeakyRelu", qlinear_leaky_relu, nullptr},
    {"com.microsoft.QLinearMul", qlinear_binary, "mul.Tensor"},
    {"com.microsoft.QLinearReduceMean", qlinear_reduce_mean, nullptr},
    {"com.microsoft.QLinearSigmoid", qlinear_sigmoid, nullptr},
    {"com.microsoft.QLinearSoftmax", qlinear_softmax, nullptr},
    {"com.microsoft.QLinearWhere", qlinear_where, nullptr},
    {"com.microsoft.QuantizeLinear", quantize_linear, nullptr},
};

}  // namespace

std::span<const OnnxOperator> onnx_quantized_operators() { return kQuantizedOperators; }

}  // namespace qdq
