#include "io/onnx_layers.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "op/facts.h"
#include "op/targets.h"

namespace qdq::onnx {
namespace {

// The window of a convolution or pool over `axes` axes.
struct OnnxWindow {
  std::vector<int64_t> kernel, strides, dilations, begin, end;  // begin, end: padding
};

bool is_symmetric(const OnnxWindow& window) { return window.begin == window.end; }
bool is_padded(const OnnxWindow& window) {
  const auto any = [](const std::vector<int64_t>& pads) {
    return std::any_of(pads.begin(), pads.end(), [](int64_t pad) { return pad != 0; });
  };
  return any(window.begin) || any(window.end);
}

OnnxWindow window_of(OnnxCall& call, const std::vector<int64_t>& kernel) {
  const size_t axes = kernel.size();
  if (axes < 1 || axes > 3) call.refuse("has a window of ", axes, " axes, wanted 1 to 3");
  OnnxWindow out;
  out.kernel = kernel;
  out.strides = call.integers("strides", std::vector<int64_t>(axes, 1));
  out.dilations = call.integers("dilations", std::vector<int64_t>(axes, 1));
  const std::vector<int64_t> pads = call.integers("pads", std::vector<int64_t>(2 * axes, 0));
  const std::string automatic = call.text("auto_pad", "NOTSET");
  if (call.rank(0) != axes + 2 || out.strides.size() != axes || out.dilations.size() != axes || pads.size() != 2 * axes)
    call.refuse("has a window of ", axes, " axes, but strides, dilations, pads or an input of another number");
  for (size_t i = 0; i < axes; ++i)
    for (const int64_t each : {out.strides[i], out.dilations[i], kernel[i]})
      if (each < 1 || each > INT32_MAX)
        call.refuse("has the stride, dilation or window ", each, ", wanted 1 to ", INT32_MAX);
  out.begin.assign(pads.begin(), pads.begin() + static_cast<std::ptrdiff_t>(axes));
  out.end.assign(pads.begin() + static_cast<std::ptrdiff_t>(axes), pads.end());
  if (automatic == "VALID") {
    out.begin.assign(axes, 0);
    out.end = out.begin;
  } else if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
    for (size_t i = 0; i < axes; ++i) {
      const int64_t reach = (kernel[i] - 1) * out.dilations[i];
      int64_t rest = out.strides[i];
      if (rest > 1) {
        const auto size = call.meta(0).sizes[i + 2].constant();
        if (!size) call.refuse("pads automatically along an axis whose size is open; export it with a fixed size");
        rest = *size % out.strides[i] == 0 ? out.strides[i] : *size % out.strides[i];
      }
      const int64_t total = std::max<int64_t>(0, reach + 1 - rest);
      out.begin[i] = automatic == "SAME_UPPER" ? total / 2 : total - total / 2;
      out.end[i] = total - out.begin[i];
    }
  } else if (automatic != "NOTSET") {
    call.refuse("has auto_pad ", automatic, ", wanted NOTSET, VALID, SAME_UPPER or SAME_LOWER");
  }
  return out;
}

// The input, padded by a node of its own where both sides differ.
Node* padded_input(OnnxCall& call, OnnxWindow& window, double value) {
  Node* input = call.tensor(0);
  if (is_symmetric(window)) return input;
  Argument::List pads;
  for (size_t i = window.begin.size(); i-- > 0;) {
    pads.emplace_back(window.begin[i]);
    pads.emplace_back(window.end[i]);
  }
  window.begin.assign(window.begin.size(), 0);
  window.end = window.begin;
  std::vector<Argument> args = {input, Argument(std::move(pads))};
  if (value != 0) return call.call("pad.default", {args, "constant", value});
  return call.call("pad.default", args);
}

std::string with_axes(const char* name, size_t axes, const char* overload = "default") {
  return concat(name, axes, "d.", overload);
}

std::vector<int64_t> spatial_sizes(OnnxCall& call, Node* weight) {
  std::vector<int64_t> out;
  const SymShape& sizes = call.meta_of(weight).sizes;
  for (size_t i = 2; i < sizes.size(); ++i) out.push_back(sizes[i].constant().value_or(0));
  return out;
}

// A weight with rows and columns exchanged; one behind a dequantize node stays behind one, as quantizers and fused
// kernels look for it.
Node* transposed(OnnxCall& call, Node* weight) {
  const bool per_channel = weight->is(op::kDequantizeChannels);
  Node* integers = per_channel || weight->is(op::kDequantize) ? weight->arg(0).node() : nullptr;
  if (integers == nullptr || !call.import().is_constant(integers)) return call.call("t.default", {weight});
  std::vector<Argument> args = weight->args();
  args[0] = call.call("t.default", {integers});
  if (per_channel) args[3] = 1 - *args[3].integer();
  return call.call_as_it_is(weight->target(), args);
}

// Whether the node is a matrix that does not change from run to run.
bool is_weight(OnnxCall& call, Node* node) {
  const auto is_known = [&](const Node* n) { return call.import().is_constant(n); };
  const bool is_dequantized = is_a(*node, Family::kDequantize) && node->arg(0).node() && is_known(node->arg(0).node());
  return (is_known(node) || is_dequantized) && call.meta_of(node).sizes.size() == 2;
}

}  // namespace

void conv(OnnxCall& call) {
  Node* weight = call.tensor(1);
  OnnxWindow window = window_of(call, spatial_sizes(call, weight));
  Node* input = padded_input(call, window, 0);
  call.set(call.call(with_axes("conv", window.kernel.size()),
                     {input, weight, call.optional_tensor(2), call.list(window.strides), call.list(window.begin),
                      call.list(window.dilations), call.integer("group", 1)}));
}

void conv_transpose(OnnxCall& call) {
  Node* weight = call.tensor(1);
  const OnnxWindow window = window_of(call, spatial_sizes(call, weight));
  const size_t axes = window.kernel.size();
  if (!is_symmetric(window) || call.attribute("output_shape") || call.text("auto_pad", "NOTSET") != "NOTSET")
    call.refuse("pads both sides differently, or by the shape of its output, which aten.conv_transpose cannot");
  const std::vector<int64_t> output_padding = call.integers("output_padding", std::vector<int64_t>(axes, 0));
  call.set(
      call.call(with_axes("conv_transpose", axes, axes == 1 ? "default" : "input"),
                {call.tensor(0), weight, call.optional_tensor(2), call.list(window.strides), call.list(window.begin),
                 call.list(output_padding), call.integer("group", 1), call.list(window.dilations)}));
}

void gemm(OnnxCall& call) {
  Node* a = call.integer("transA", 0) ? call.call("t.default", {call.tensor(0)}) : call.tensor(0);
  Node* b = call.tensor(1);
  const double alpha = call.real("alpha", 1), beta = call.real("beta", 1);
  const bool is_transposed = call.integer("transB", 0) != 0;
  if (call.meta_of(b).sizes.size() != 2)
    call.refuse("multiplies by a tensor of ", call.meta_of(b).sizes.size(), " axes, wanted a matrix");
  const bool adds_vector = call.has(2) && beta == 1 && call.rank(2) == 1 &&
                           call.meta(2).sizes[0] == call.meta_of(b).sizes[is_transposed ? 0 : 1];
  if (alpha == 1 && (!call.has(2) || adds_vector)) {
    call.set(
        call.call("linear.default", {a, Argument(is_transposed ? b : transposed(call, b)), call.optional_tensor(2)}));
    return;
  }
  Node* product = call.call("mm.default", {a, Argument(is_transposed ? call.call("t.default", {b}) : b)});
  if (alpha != 1) product = call.call("mul.Tensor", {product, alpha});
  if (call.has(2)) product = call.call("add.Tensor", {product, call.tensor(2)}, "alpha", beta);
  call.set(product);
}

void matmul(OnnxCall& call) {
  Node *a = call.tensor(0), *b = call.tensor(1);
  if (is_weight(call, b) && call.rank(0) > 1 && !call.import().is_constant(a))
    call.set(call.call("linear.default", {a, Argument(transposed(call, b))}));
  else call.set(call.call("matmul.default", {a, b}));
}

void max_pool(OnnxCall& call) {
  if (call.has_output(1)) call.refuse("gives indices too, which qdq does not read");
  OnnxWindow window = window_of(call, call.integers("kernel_shape", {}));
  Node* input = padded_input(call, window, -std::numeric_limits<double>::infinity());
  call.set(call.call(with_axes("max_pool", window.kernel.size()),
                     {input, call.list(window.kernel), call.list(window.strides), call.list(window.begin),
                      call.list(window.dilations), call.integer("ceil_mode", 0) != 0}));
}

void average_pool(OnnxCall& call) {
  OnnxWindow window = window_of(call, call.integers("kernel_shape", {}));
  const bool counts = call.integer("count_include_pad", 0) != 0, ceils = call.integer("ceil_mode", 0) != 0;
  if (std::any_of(window.dilations.begin(), window.dilations.end(), [](int64_t d) { return d != 1; }))
    call.refuse("has dilations");
  if (!is_symmetric(window) && !counts)
    call.refuse("pads both sides differently and does not count the padding, which aten.avg_pool cannot");
  // Without padding there is none to count, and PyTorch's default says that it counts.
  const bool include = counts || (!is_padded(window) && !ceils);
  Node* input = padded_input(call, window, 0);
  call.set(
      call.call(with_axes("avg_pool", window.kernel.size()),
                {input, call.list(window.kernel), call.list(window.strides), call.list(window.begin), ceils, include}));
}

void global_average_pool(OnnxCall& call) {
  const size_t axes = call.rank(0) - 2;
  if (axes < 1 || axes > 3) call.refuse("has an input of ", axes + 2, " axes, wanted 3 to 5");
  call.set(call.call(with_axes("adaptive_avg_pool", axes), {call.tensor(0), call.list(std::vector<int64_t>(axes, 1))}));
}

void global_max_pool(OnnxCall& call) {
  Argument::List axes;
  for (size_t i = 2; i < call.rank(0); ++i) axes.emplace_back(static_cast<int64_t>(i));
  call.set(call.call("amax.default", {call.tensor(0), Argument(std::move(axes)), true}));
}

void batch_norm(OnnxCall& call) {
  if (call.integer("training_mode", 0) != 0) call.refuse("is in training mode; export the model in inference mode");
  call.set(
      call.call("batch_norm.default", {call.tensor(0), call.tensor(1), call.tensor(2), call.tensor(3), call.tensor(4),
                                       false, call.real("momentum", 0.9), call.real("epsilon", 1e-5), true}));
}

void instance_norm(OnnxCall& call) {
  call.set(call.call("instance_norm.default", {call.tensor(0), call.tensor(1), call.tensor(2), Argument(), Argument(),
                                               true, 0.1, call.real("epsilon", 1e-5), true}));
}

void group_norm(OnnxCall& call) {
  if (call.opset() < 21)
    call.refuse("is of opset ", call.opset(), ", whose scale is one for a group; qdq reads that of opset 21");
  call.set(call.call("group_norm.default", {call.tensor(0), call.integer("num_groups", 1), call.tensor(1),
                                            call.tensor(2), call.real("epsilon", 1e-5)}));
}

void layer_norm(OnnxCall& call) {
  if (call.has_output(1)) call.refuse("gives the mean too, which qdq does not read");
  const int64_t axis = call.axis(call.integer("axis", -1), call.rank(0));
  const SymShape sizes(call.meta(0).sizes.begin() + axis, call.meta(0).sizes.end());
  call.set(call.call("layer_norm.default", {call.tensor(0), call.list(sizes), call.tensor(1), call.optional_tensor(2),
                                            call.real("epsilon", 1e-5)}));
}

// By scale factors or sizes along the last one or two axes.
void resize(OnnxCall& call) {
  const size_t rank = call.rank(0), axes = rank - 2;
  const std::string mode = call.text("mode", "nearest"),
                    place = call.text("coordinate_transformation_mode", "half_pixel");
  const bool aligned = place == "align_corners", half_pixel = place == "half_pixel" || place == "pytorch_half_pixel";
  std::string target;
  if (mode == "nearest" && place == "asymmetric" && call.text("nearest_mode", "round_prefer_floor") == "floor")
    target = "upsample_nearest";
  else if (mode == "linear" && (aligned || half_pixel)) target = axes == 1 ? "upsample_linear" : "upsample_bilinear";
  else if (mode == "cubic" && axes == 2 && (aligned || half_pixel) &&
           std::fabs(call.real("cubic_coeff_a", -0.75) + 0.75) < 1e-6)
    target = "upsample_bicubic";
  if (target.empty() || axes < 1 || axes > 2 || call.attribute("axes") || call.integer("antialias", 0) != 0 ||
      call.integer("exclude_outside", 0) != 0 || call.text("keep_aspect_ratio_policy", "stretch") != "stretch")
    call.refuse("has the mode ", mode, " with ", place, " for ", rank, " axes, which aten.upsample cannot");
  const bool by_size = call.has(3);
  Argument::List sizes, factors;
  if (by_size) {
    const std::vector<SymInt> wanted = call.sizes(3);
    for (size_t i = 2; i < wanted.size(); ++i) sizes.push_back(call.import().size_argument(wanted[i]));
  } else {
    const Tensor scales = call.wanted_constant(2).to(DType::kF32).contiguous();
    for (int64_t i = 2; i < scales.numel(); ++i) factors.emplace_back(static_cast<double>(scales.data<float>()[i]));
    if (scales.numel() > 1 && (scales.data<float>()[0] != 1 || scales.data<float>()[1] != 1))
      call.refuse("resizes the batch or the channels");
  }
  if ((by_size ? sizes : factors).size() != axes) call.refuse("has sizes or scales for another number of axes");
  std::vector<Argument> args = {call.tensor(0), by_size ? Argument(std::move(sizes)) : Argument()};
  if (mode != "nearest") args.emplace_back(aligned);
  args.push_back(by_size ? Argument() : Argument(std::move(factors)));
  call.set(call.call(with_axes(target.c_str(), axes, "vec"), args));
}

namespace {

// {quantize,dequantize}_per_{tensor,channel}
void linear_quantization(OnnxCall& call, bool quantizes, DType dtype) {
  if (call.integer("block_size", 0) != 0) call.refuse("quantizes in blocks, which qdq does not read");
  const Tensor scales = call.wanted_constant(1);
  const Tensor zero_points = call.has(2) ? call.wanted_constant(2) : Tensor::full(scales.sizes(), DType::kS32, 0);
  if (scales.dim() > 1 || zero_points.numel() != scales.numel())
    call.refuse("has scales and zero points of different or unknown shapes");
  const Argument low = min_of(dtype), high = max_of(dtype);
  if (scales.numel() == 1 && (scales.dim() == 0 || call.rank(0) != 1)) {
    call.set(call.call_as_it_is(std::string(quantizes ? op::kQuantize : op::kDequantize),
                                {call.tensor(0), scales.item(), zero_points.item_int(), low, high, dtype}));
    return;
  }
  const std::string base = call.tensor(0)->name();
  Node* scale = call.import().constant(scales.to(DType::kF32), base + "_scale", Attribute::Kind::kBuffer);
  Node* zero_point =
      call.import().constant(zero_points.to(DType::kS64), base + "_zero_point", Attribute::Kind::kBuffer);
  call.set(call.call_as_it_is(
      std::string(quantizes ? op::kQuantizeChannels : op::kDequantizeChannels),
      {call.tensor(0), scale, zero_point, call.axis(call.integer("axis", 1), call.rank(0)), low, high, dtype}));
}

}  // namespace

void quantize_linear(OnnxCall& call) {
  DType dtype = DType::kU8;
  if (call.has(2)) dtype = call.meta(2).dtype;
  else if (const int64_t wanted = call.integer("output_dtype", 2); wanted == 3) dtype = DType::kS8;
  else if (wanted != 2 && wanted != 0) call.refuse("has the output data type ", wanted, ", wanted int8 or uint8");
  linear_quantization(call, true, dtype);
}

void dequantize_linear(OnnxCall& call) {
  const DType dtype = call.meta(0).dtype;
  const Tensor integers = call.constant(0);
  if (dtype != DType::kS32 && !call.is_constant(1)) {
    // By the scale and zero point that DynamicQuantizeLinear gave.
    const auto before_casts = [](Node* node) {
      while (node->is(op::kToDtype) || node->is(op::kReshape)) node = node->arg(0).node();
      return node;
    };
    Node *scale = before_casts(call.tensor(1)), *zero_point = call.has(2) ? before_casts(call.tensor(2)) : nullptr;
    if (!zero_point || !scale->is(op::kGetItem) || !zero_point->is(op::kGetItem))
      call.refuse("has a scale that is computed");
    return call.set(call.call_as_it_is(std::string(op::kDequantizeByTensors),
                                       {call.tensor(0), scale, zero_point, min_of(dtype), max_of(dtype), dtype}));
  }
  if (dtype != DType::kS32) return linear_quantization(call, false, dtype);
  // A bias: PT2E keeps it in float.
  if (!integers.defined()) call.refuse("dequantizes int32 values that are computed, which qdq does not read");
  const Tensor scales = call.wanted_constant(1);
  Tensor bias = integers.to(DType::kF32).clone();
  const Tensor factors = scales.to(DType::kF32).contiguous();
  const bool is_zero = !call.has(2) || [&] {
    const Tensor zeros = call.wanted_constant(2).to(DType::kS64).contiguous();
    return std::all_of(zeros.data<int64_t>(), zeros.data<int64_t>() + zeros.numel(), [](int64_t z) { return z == 0; });
  }();
  if (bias.dim() > 1 || (factors.numel() != 1 && factors.numel() != bias.numel()) || !is_zero)
    call.refuse("dequantizes int32 with a zero point or along an axis of several, which qdq does not read");
  for (int64_t i = 0; i < bias.numel(); ++i)
    bias.data<float>()[i] *= factors.data<float>()[factors.numel() == 1 ? 0 : i];
  call.set(std::move(bias));
}

void dynamic_quantize_linear(OnnxCall& call) {
  Node* both =
      call.call_as_it_is(std::string(op::kChooseQParams), {call.tensor(0), 0, 255, 1.1920928955078125e-07, DType::kU8});
  Node* scale = call.call_as_it_is(std::string(op::kGetItem), {both, 0});
  Node* zero_point = call.call_as_it_is(std::string(op::kGetItem), {both, 1});
  call.set(
      call.call_as_it_is(std::string(op::kQuantizeByTensors), {call.tensor(0), scale, zero_point, 0, 255, DType::kU8}));
  // ONNX gives them as a float and a byte, without axes.
  const std::pair<Node*, DType> others[] = {{scale, DType::kF32}, {zero_point, DType::kU8}};
  for (size_t i = 0; i < 2; ++i) {
    if (!call.has_output(i + 1)) continue;
    Node* scalar = call.call("reshape.default", {Argument(others[i].first), Argument(Argument::List{})});
    call.set(call.call("to.dtype", {scalar, others[i].second}), i + 1);
  }
}

}  // namespace qdq::onnx
