// ATen's layers as ONNX ones: what has weights, windows, normalization, attention or quantization.
#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "io/onnx/export.h"
#include "io/onnx/integer_layers.h"
#include "io/onnx/zero_pads.h"
#include "op/elements.h"
#include "op/facts.h"
#include "op/targets.h"

namespace qdq {
namespace {

std::vector<int64_t> both_sides(const std::vector<int64_t>& padding) {
  std::vector<int64_t> out = padding;
  out.insert(out.end(), padding.begin(), padding.end());
  return out;
}

// conv{1,2,3}d: (input, weight, bias, stride, padding, dilation, groups)
void conv(AtenCall& call) {
  const size_t axes = call.rank(0) - 2;
  if (call.rank(0) != call.rank(1)) call.refuse("has an input without a batch axis, which ONNX's Conv cannot");
  OnnxAttributes attributes = {"strides", call.integers(3, axes), "dilations", call.integers(5, axes),
                               "group",   call.integer(6)};
  std::vector<int64_t> pads;  // where they are numbers
  const std::vector<int64_t> dilation = call.integers(5, axes);
  const bool is_dilated = std::any_of(dilation.begin(), dilation.end(), [](int64_t d) { return d != 1; });
  if (call.arg(4) == Argument("same") && is_dilated) {
    // ONNX Runtime has that without dilations alone.
    pads.resize(2 * axes);
    for (size_t i = 0; i < axes; ++i) {
      const auto size = call.meta(1).sizes[2 + i].constant();
      if (!size) call.refuse("has a window of open size");
      pads[i] = dilation[i] * (*size - 1) / 2;
      pads[axes + i] = dilation[i] * (*size - 1) - pads[i];
    }
  } else if (call.arg(4).is<std::string>()) {
    attributes.add("auto_pad", call.arg(4) == Argument("same") ? "SAME_UPPER" : "VALID");
  } else {
    pads = both_sides(call.integers(4, axes));
  }
  OnnxAttributes padded = attributes;
  if (!pads.empty()) padded.add("pads", pads);
  if (write_dynamic_convolution(call, padded) || write_integer_convolution(call, padded)) return;
  const Node* input = call.arg(0).node();
  const auto zeros = pads.empty() || input == nullptr ? std::nullopt : zero_pad_of(*input, axes);
  if (!zeros) return finish_layer(call, "Conv", padded, 0);
  for (size_t i = 0; i < axes; ++i) {
    pads[i] += zeros->before[i];
    pads[axes + i] += zeros->behind[i];
  }
  attributes.add("pads", pads);
  finish_layer(call, "Conv", attributes, 0, 1, zeros->input);
}

// (input, weight, bias, stride, padding, output_padding, groups, dilation)
void conv_transpose(AtenCall& call) {
  const size_t axes = call.rank(1) - 2;
  if (call.rank(0) != call.rank(1)) call.refuse("has an input without a batch axis, which ONNX's ConvTranspose cannot");
  finish_layer(call, "ConvTranspose",
               {"strides", call.integers(3, axes), "pads", both_sides(call.integers(4, axes)), "output_padding",
                call.integers(5, axes), "group", call.integer(6), "dilations", call.integers(7, axes)},
               1, call.integer(6));
}

// (input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)
void convolution(AtenCall& call) {
  const size_t axes = call.rank(0) - 2;
  OnnxAttributes attributes = {"strides",   call.integers(3, axes), "pads",  both_sides(call.integers(4, axes)),
                               "dilations", call.integers(5, axes), "group", call.integer(8)};
  if (call.flag(6)) attributes.add("output_padding", call.integers(7, axes));
  if (!call.flag(6)) return finish_layer(call, "Conv", attributes, 0);
  finish_layer(call, "ConvTranspose", attributes, 1, call.integer(8));
}

// QuantizeLinear and DequantizeLinear have 16-bit integers since opset 21, and com.microsoft's always.
std::string quantizer(AtenCall& call, const char* op, DType dtype) {
  if (dtype == DType::kS8 || dtype == DType::kU8 || (dtype == DType::kS32 && op[0] == 'D')) return op;
  if (dtype != DType::kS16 && dtype != DType::kU16)
    call.refuse("quantizes to ", to_string(dtype), ", ONNX to 8 and 16 bits");
  return call.file().opset() >= 21 ? op : concat("com.microsoft.", op);
}

// A weight with rows and columns exchanged: as it lies in the file, where it does.
std::string transposed(AtenCall& call, const Node* weight) {
  OnnxExport& file = call.file();
  const auto turned = [&](const Tensor& tensor, const Node* node) {
    return file.constant(tensor.transpose(0, 1).contiguous(), node->target() + "_t");
  };
  if (const Tensor tensor = stored_tensor(call, weight); tensor.defined()) return turned(tensor, weight);
  const StoredWeight quantized = stored_weight(call, weight);
  if (!quantized.integers.defined())
    return call.emit("Transpose", {file.value(weight)}, {"perm", std::vector<int64_t>{1, 0}});
  const std::string name = weight->arg(0).node()->target();
  const DType dtype = quantized.integers.dtype();
  const std::string zeros = file.constant(Tensor::full(quantized.scales.sizes(), dtype, 0), name + "_zero_point");
  const std::string floats = call.emit(
      quantizer(call, "DequantizeLinear", dtype),
      {turned(quantized.integers, weight->arg(0).node()), file.constant(quantized.scales, name + "_scale"), zeros},
      {"axis", 1 - quantized.axis});
  return call.cast(floats, DType::kF32, call.meta_of(weight).dtype);
}

// The bias of a linear layer over three axes or more. If the layer has integers, with an axis of one in front: ONNX
// Runtime makes a float Gemm of a product and a row since 1.22 (matmul_add_fusion.cc), before it looks for products of
// integers.
std::string bias_of_product(AtenCall& call) {
  const Node *input = call.arg(0).node(), *weight = call.arg(1).node();
  const Tensor row = stored_tensor(call, call.arg(2).node());
  const bool has_integers = input && input->is(op::kDequantize) && stored_weight(call, weight).integers.defined();
  if (!has_integers || !row.defined() || row.dim() != 1) return call.tensor(2);
  return call.file().constant(row.reshape({1, row.numel()}), call.arg(2).node()->target());
}

void linear(AtenCall& call) {
  if (call.rank(1) == 1) {  // a number for each row
    const std::string product = call.emit("MatMul", {call.tensor(0), call.tensor(1)});
    return call.is_none(2) ? call.same_as(product) : call.finish("Add", {product, call.tensor(2)});
  }
  if (call.rank(1) != 2) call.refuse("has a weight of ", call.rank(1), " axes");
  if (write_dynamic_linear(call) || write_linear_of_blocks(call) || write_linear_of_normal_floats(call)) return;
  if (call.rank(0) == 2) return finish_layer(call, "Gemm", {"transB", 1}, 0);
  const std::string weight = transposed(call, call.arg(1).node());
  if (call.is_none(2)) return call.finish("MatMul", {call.tensor(0), weight});
  call.finish("Add", {call.emit("MatMul", {call.tensor(0), weight}), bias_of_product(call)});
}

void addmm(AtenCall& call) {
  if (call.rank(0) > 2) call.refuse("adds a tensor of ", call.rank(0), " axes");
  if (call.number(3) == 0) return call.finish("Gemm", {call.tensor(1), call.tensor(2)}, {"alpha", call.number(4)});
  call.finish("Gemm", {call.tensor(1), call.tensor(2), call.tensor(0)},
              {"beta", call.number(3), "alpha", call.number(4)});
}

void matmul(AtenCall& call) { call.finish("MatMul", {call.tensor(0), call.tensor(1)}); }

// The weight, or ones in its place.
std::string norm_weight(AtenCall& call) {
  if (!call.is_none(2)) return call.tensor(2);
  const DType dtype = call.meta(0).dtype;
  const Argument::List& sizes = call.arg(1).list();
  if (std::any_of(sizes.begin(), sizes.end(), [](const Argument& size) { return size.is_node(); }))
    return call.emit("ConstantOfShape", {call.sizes(1, false)}, {"value", Tensor::full({1}, dtype, 1)});
  return call.file().constant(Tensor::full(call.integers(1), dtype, 1), call.node().name() + "_constant");
}

// Of one element it leaves the bias. ONNX Runtime 1.21 refuses the operator there ("must be larger than 1").
void norm_of_one_element(AtenCall& call) {
  const std::string zeros = call.emit("Sub", {call.tensor(0), call.tensor(0)});
  if (call.is_none(3)) return call.same_as(zeros);
  call.finish("Add", {zeros, call.tensor(3)});
}

void layer_norm(AtenCall& call) {
  const Argument::List& sizes = call.arg(1).list();
  const auto is_one = [](const Argument& size) { return size.integer() == 1; };
  if (std::all_of(sizes.begin(), sizes.end(), is_one)) return norm_of_one_element(call);
  call.finish("LayerNormalization", {call.tensor(0), norm_weight(call), call.optional_tensor(3)},
              {"axis", -static_cast<int64_t>(call.arg(1).list().size()), "epsilon", call.number(4)});
}

// (input, normalized_shape, weight, bias, eps): the result, the mean, and what the difference is multiplied by.
void native_layer_norm(AtenCall& call) {
  call.file().emit_many("LayerNormalization", {call.tensor(0), norm_weight(call), call.optional_tensor(3)},
                        {"axis", -static_cast<int64_t>(call.arg(1).list().size()), "epsilon", call.number(4)},
                        call.name_results(3), call.node().meta.extra_of(kOnnxNode));
}

// x / sqrt(mean(x^2) + eps) * weight: (input, normalized_shape, weight, eps, the machine epsilon by default)
void rms_norm(AtenCall& call) {
  const DType dtype = call.result().dtype;
  const double eps = call.is_none(3) ? rms_norm_eps(dtype) : call.number(3);
  std::vector<int64_t> axes;
  for (size_t i = 0; i < call.arg(1).list().size(); ++i) axes.push_back(-1 - static_cast<int64_t>(i));
  const std::string x = call.tensor(0), squares = call.reduce("ReduceMean", call.emit("Mul", {x, x}), axes, true);
  const std::string root = call.emit("Sqrt", {call.emit("Add", {squares, call.scalar(eps, dtype)})});
  if (call.is_none(2)) return call.finish("Div", {x, root});
  call.finish("Mul", {call.emit("Div", {x, root}), call.tensor(2)});
}

// Groups as the channels of an instance normalization, then weight and bias for each channel; group_norm: (input,
// groups, weight, bias, eps); native_group_norm: (input, weight, bias, N, C, HxW, groups, eps).
std::string normed_groups(AtenCall& call, int64_t groups, size_t weight, double eps) {
  const DType dtype = call.meta(0).dtype;
  const auto filled = [&](double value) {
    return call.file().constant(Tensor::full({groups}, dtype, value), call.node().name() + "_constant");
  };
  std::vector<int64_t> per_channel(call.rank(0) - 1, 1);
  per_channel[0] = -1;
  const std::string shape = call.emit("Shape", {call.tensor(0)});
  std::string value = call.emit("Reshape", {call.tensor(0), call.integers_as_tensor({0, groups, -1})});
  value = call.emit("InstanceNormalization", {value, filled(1), filled(0)}, {"epsilon", eps});
  value = call.emit("Reshape", {value, shape});
  for (const size_t i : {weight, weight + 1}) {
    if (call.is_none(i)) continue;
    value = call.emit(i == weight ? "Mul" : "Add",
                      {value, call.emit("Reshape", {call.tensor(i), call.integers_as_tensor(per_channel)})});
  }
  return value;
}
void group_norm(AtenCall& call) { call.finish("Identity", {normed_groups(call, call.integer(1), 2, call.number(4))}); }
void native_group_norm(AtenCall& call) {
  call.file().emit("Identity", {normed_groups(call, call.integer(6), 1, call.number(7))}, {}, call.only_result());
}

// (input, weight, bias, mean, var, use_input_stats, momentum, eps); without its own statistics a batch norm.
void instance_norm(AtenCall& call) {
  const auto channels = call.meta(0).sizes[1].constant();
  if (!channels) call.refuse("has an open number of channels");
  const auto or_constant = [&](size_t i, double value) {
    return call.is_none(i) ? call.file().constant(Tensor::full({*channels}, call.meta(0).dtype, value),
                                                  call.node().name() + "_constant")
                           : call.tensor(i);
  };
  std::vector<std::string> inputs = {call.tensor(0), or_constant(1, 1), or_constant(2, 0)};
  if (call.flag(5)) return call.finish("InstanceNormalization", inputs, {"epsilon", call.number(7)});
  inputs.insert(inputs.end(), {call.tensor(3), call.tensor(4)});
  call.finish("BatchNormalization", inputs, {"epsilon", call.number(7)});
}

// (self, kernel_size, stride, padding, dilation, ceil_mode) and, of averages, (..., padding, ceil_mode,
// count_include_pad, divisor_override)
void pool(AtenCall& call) {
  const bool is_max = call.name().starts_with("max");
  const size_t axes = call.name().find("1d") != std::string::npos   ? 1
                      : call.name().find("3d") != std::string::npos ? 3
                                                                    : 2;
  const bool lacks_batch = call.rank(0) == axes + 1;
  if (call.rank(0) != axes + 2 && !lacks_batch) call.refuse("has an input of ", call.rank(0), " axes");
  if (!is_max && !call.is_none(6)) call.refuse("has a divisor of its own, which ONNX's AveragePool does not have");
  const std::vector<int64_t> kernel = call.integers(1, axes);
  const bool has_stride = !call.is_none(2) && !(call.arg(2).is_list() && call.arg(2).list().empty());
  const std::vector<int64_t> strides = has_stride ? call.integers(2, axes) : kernel;
  const std::vector<int64_t> padding = call.integers(3, axes);
  const bool rounds_up = call.flag(is_max ? 5 : 4);
  const std::string batch_axis = lacks_batch ? call.integers_as_tensor({0}) : "";
  const std::string input = lacks_batch ? call.emit("Unsqueeze", {call.tensor(0), batch_axis}) : call.tensor(0);
  bool counts = !is_max && call.flag(5);
  const bool pads = std::any_of(padding.begin(), padding.end(), [](int64_t size) { return size > 0; });
  if (counts && rounds_up && pads) {
    const std::string mean = mean_with_padding(call, input, kernel, strides, padding);
    return lacks_batch ? call.finish("Squeeze", {mean, batch_axis}) : call.same_as(mean);
  }
  counts = counts && pads;
  OnnxAttributes attributes = {"kernel_shape",      kernel,      "strides", strides, "pads",
                               both_sides(padding), "ceil_mode", rounds_up};
  if (is_max) attributes.add("dilations", call.integers(4, axes));
  else attributes.add("count_include_pad", counts);
  const char* op = is_max ? "MaxPool" : "AveragePool";
  if (call.name().find("with_indices") == std::string::npos) {
    if (!lacks_batch) return call.finish(op, {input}, attributes);
    return call.finish("Squeeze", {call.emit(op, {input}, attributes), batch_axis});
  }
  // ONNX counts the places of the whole tensor, PyTorch those of each plane.
  const std::vector<std::string> names = call.name_results(2);
  const std::string values = lacks_batch ? call.file().fresh(names[0] + "_of_batch") : names[0];
  std::string places = call.file().fresh(names[1] + "_of_all");
  call.file().emit_many(op, input, attributes, {values, places}, call.node().meta.extra_of(kOnnxNode));
  if (lacks_batch) {
    call.file().emit("Squeeze", {values, batch_axis}, {}, names[0]);
    places = call.emit("Squeeze", {places, batch_axis});
  }
  const std::string sizes = call.emit("Shape", input, {"start", 2});
  call.file().emit("Mod", {places, call.emit("ReduceProd", sizes, {"keepdims", 0})}, {}, names[1]);
}

void adaptive_average(AtenCall& call) {
  const SymShape& sizes = call.meta(0).sizes;
  const SymShape& outs = call.result().sizes;
  const size_t axes = call.arg(1).is_list() && call.arg(1).list().size() > 1 ? call.arg(1).list().size()
                      : call.name().find("1d") != std::string::npos          ? 1
                                                                             : 2;
  if (sizes.size() != axes + 2) call.refuse("has an input without a batch axis, which ONNX's pools cannot");
  if (std::all_of(outs.begin() + 2, outs.end(), [](const SymInt& out) { return out == SymInt(1); }))
    return call.finish("GlobalAveragePool", {call.tensor(0)});
  std::vector<int64_t> kernel;
  for (size_t i = 2; i < sizes.size(); ++i) {
    const auto in = sizes[i].constant(), out = outs[i].constant();
    if (!in || !out || *out < 1 || *in % *out != 0) return adaptive_pool(call);
    kernel.push_back(*in / *out);
  }
  call.finish("AveragePool", {call.tensor(0)}, {"kernel_shape", kernel, "strides", kernel});
}

// upsample_*.vec: (input, output_size, align_corners where there is one, scale_factors); .default has a factor for each
// axis behind its sizes
void upsample(AtenCall& call) {
  const std::string name = call.name();
  const bool is_antialiased = name.find("_aa.") != std::string::npos;
  const bool is_exact = name.starts_with("_upsample_nearest_exact"),
             is_nearest = name.find("nearest") != std::string::npos,
             is_cubic = name.find("bicubic") != std::string::npos;
  const size_t at = is_nearest ? 2 : 3;
  OnnxAttributes attributes = {"mode",
                               is_nearest ? "nearest"
                               : is_cubic ? "cubic"
                                          : "linear",
                               "coordinate_transformation_mode",
                               is_exact       ? "half_pixel"
                               : is_nearest   ? "asymmetric"
                               : call.flag(2) ? "align_corners"
                                              : "half_pixel"};
  if (is_nearest) attributes.add("nearest_mode", is_exact ? "round_prefer_ceil" : "floor");
  if (is_cubic) attributes.add("cubic_coeff_a", is_antialiased ? -0.5 : -0.75);
  if (is_antialiased && !call.file().reaches(18)) call.refuse("is antialiased, which ONNX has since opset 18");
  if (is_antialiased && call.flag(2))
    call.refuse("is antialiased with its corners aligned, which ONNX defines otherwise");
  if (is_antialiased) attributes.add("antialias", 1), attributes.add("exclude_outside", 1);
  if (name.ends_with(".default") && !call.is_none(at)) call.refuse("has factors beside its sizes");
  if (call.is_none(1)) {
    std::vector<float> scales = {1, 1};
    for (const Argument& factor : call.arg(at).list())
      scales.push_back(static_cast<float>(factor.number().value_or(1)));
    const Tensor all = Tensor::of<float>({static_cast<int64_t>(scales.size())}, std::span<const float>(scales));
    return call.finish("Resize", {call.tensor(0), "", call.file().constant(all, call.node().name() + "_scales")},
                       attributes);
  }
  const std::string shape = call.emit("Shape", {call.tensor(0)});
  const std::string outer = call.emit("Slice", {shape, call.integers_as_tensor({0}), call.integers_as_tensor({2})});
  call.finish("Resize", {call.tensor(0), "", "", call.emit("Concat", {outer, call.sizes(1, false)}, {"axis", 0})},
              attributes);
}

// Quantizes floats of any data type as float32: before opset 19 ONNX has no other, and PyTorch computes so too.
std::string as_float(AtenCall& call, size_t i) { return call.cast(call.tensor(i), call.meta(i).dtype, DType::kF32); }

// The end of a dequantization, in the data type of the result.
void finish_floats(AtenCall& call, const std::string& op, const OnnxNames& inputs, const OnnxAttributes& attributes) {
  const DType dtype = call.result().dtype;
  if (dtype == DType::kF32) return call.finish(op, inputs, attributes);
  call.finish("Cast", {call.emit(op, inputs, attributes)}, {"to", format::onnx_number(dtype)});
}

// Whether ONNX Runtime would run a softmax of 8-bit integers whose largest results lie beyond the range: its kernel
// (QLinearSoftmax of 1.21) lets those wrap around to 0. The scale 1/256 is what QNN wishes, and stays as it is.
bool is_softmax_beyond(const Node& quantize, double largest) {
  const Node* softmax = quantize.arg(0).node();
  const bool is_plain = softmax && is_a(*softmax, Family::kSoftmax) &&
                        local_name(softmax->target()).find("log") == std::string_view::npos;
  const Node* before = is_plain ? softmax->arg(0).node() : nullptr;
  return before && is_a(*before, Family::kDequantize) && largest < 255.0 / 256;
}

// {quantize,dequantize}_per_tensor: (input, scale, zero_point, quant_min, quant_max, dtype)
void per_tensor(AtenCall& call) {
  const bool quantizes = call.name().starts_with("quantize");
  const DType dtype = call.arg(5).as<DType>();
  const std::string op = quantizer(call, quantizes ? "QuantizeLinear" : "DequantizeLinear", dtype);
  const double scale = call.number(1);
  const int64_t zero_point = call.integer(2);
  const OnnxNames qparams = {call.scalar(scale, DType::kF32), call.scalar(static_cast<double>(zero_point), dtype)};
  if (!quantizes) return finish_floats(call, op, {call.tensor(0), qparams.list}, {});
  std::string input = as_float(call, 0);
  // ONNX saturates at the ends of the data type.
  const auto bound = [&](size_t i) {
    return call.scalar(static_cast<double>(call.integer(i) - zero_point) * scale, DType::kF32);
  };
  if (call.integer(3) > min_of(dtype) || call.integer(4) < max_of(dtype))
    input = call.emit("Clip", {input, bound(3), bound(4)});
  else if (const auto steps = static_cast<double>(max_of(dtype) - zero_point);
           size_of(dtype) == 1 && is_softmax_beyond(call.node(), steps * scale))
    // It still becomes the largest integer. ONNX Runtime takes a Clip for a part of the quantization.
    input = call.emit("Min", {input, call.scalar((steps - 0.25) * scale, DType::kF32)});
  call.finish(op, {input, qparams.list});
}

// Who reads a scale or zero point, which ONNX has as float32 or uint8, as the float64 or int64 that PyTorch has; null
// if all quantize by it or, where the numbers are the same, cast it.
const Node* reader_by_dtype(const Node& qparam, bool has_same_numbers) {
  for (const Node* reader : qparam.users()) {
    if (is_a(*reader, Family::kQuantize) || is_a(*reader, Family::kDequantize)) continue;
    if (has_same_numbers && is_a(*reader, Family::kCast)) continue;
    const Node* behind = is_view(*reader) ? reader_by_dtype(*reader, has_same_numbers) : reader;
    if (behind != nullptr) return behind;
  }
  return nullptr;
}

// Quantization by the range that the values turn out to have: (input, quant_min, quant_max, eps, dtype). ONNX does it
// to uint8; int8 is the same integers less 128, so what is dequantized is the same. The operator gives the integers
// too, as a third item.
void choose_qparams(AtenCall& call) {
  if (call.integer(2) - call.integer(1) != 255)
    call.refuse("chooses qparams for ", call.integer(2) - call.integer(1) + 1, " integers, ONNX for 256");
  const bool is_unsigned = call.arg(4).as<DType>() == DType::kU8;
  for (const Node* item : call.node().users())
    if (const Node* reader = reader_by_dtype(*item, is_unsigned || item->arg(1) == Argument(0)))
      call.refuse("gives qparams that ", reader->name(), " computes with, and ONNX has other data types for them");
  const std::vector<std::string> names = call.name_results(3);
  call.file().emit_many("DynamicQuantizeLinear", {as_float(call, 0)}, {}, {names[2], names[0], names[1]});
}

// The choose_qparams that gave the scale at argument 1; null if none did.
const Node* chosen_by(const AtenCall& call) {
  const Node* item = call.arg(1).node();
  const Node* choice = item && item->is(op::kGetItem) ? item->arg(0).node() : nullptr;
  return choice && choice->is(op::kChooseQParams) ? choice : nullptr;
}

// (input, scale, zero_point, quant_min, quant_max, dtype) with tensors that choose_qparams gives.
void quantize_by_choice(AtenCall& call) {
  const Node* choice = chosen_by(call);
  if (choice == nullptr || choice->arg(0) != call.arg(0))
    call.refuse("quantizes by qparams of other values than its own");
  call.same_as(call.file().item(choice, 2));
}
void dequantize_by_choice(AtenCall& call) {
  const Node* input = call.arg(0).node();
  const bool is_own = chosen_by(call) && input && input->is(op::kQuantizeByTensors) && input->arg(1) == call.arg(1);
  if (!is_own) call.refuse("dequantizes by qparams that its integers were not made with");
  finish_floats(call, "DequantizeLinear", {call.tensor(0), call.tensor(1), call.tensor(2)}, {});
}

// Zero points of the integers' type, as ONNX has them: the nearest to those of embeddings, which are floats. Where
// these lie beyond the type (all of a row is far above zero), `rest` is what the values lack, a number per channel.
struct WholeZeros {
  Tensor zeros, rest;
};

WholeZeros whole_zeros(const Tensor& zero_points, const Tensor& scales, DType dtype) {
  const Tensor given = zero_points.to(DType::kF64).contiguous(), steps = scales.to(DType::kF64).contiguous();
  const Tensor whole = Tensor::empty(given.sizes(), DType::kF64), rest = Tensor::empty(given.sizes(), DType::kF32);
  bool lies_beyond = false;
  for (int64_t i = 0; i < given.numel(); ++i) {
    const double zero = given.data<double>()[i];
    const double nearest =
        std::clamp(std::nearbyint(zero), static_cast<double>(min_of(dtype)), static_cast<double>(max_of(dtype)));
    whole.data<double>()[i] = nearest;
    rest.data<float>()[i] = static_cast<float>((nearest - zero) * steps.data<double>()[i]);
    lies_beyond = lies_beyond || std::fabs(nearest - zero) > 0.5;
  }
  return {whole.to(dtype), lies_beyond ? rest : Tensor()};
}

// {quantize,dequantize}_per_channel: (input, scales, zero_points, axis, quant_min, quant_max, dtype)
void per_channel(AtenCall& call) {
  const DType dtype = call.arg(6).as<DType>();
  const bool quantizes = call.name().starts_with("quantize");
  const std::string op = quantizer(call, quantizes ? "QuantizeLinear" : "DequantizeLinear", dtype);
  const Tensor scales = stored_tensor(call, call.arg(1).node()), zero_points = stored_tensor(call, call.arg(2).node());
  if (!scales.defined() || (!call.is_none(2) && !zero_points.defined()))
    call.refuse("has scales or zero points that are known only when it runs");
  const std::string name = call.node().name();
  const int64_t axis = call.axis(3, call.rank(0));
  const auto [zeros, rest] = zero_points.defined() ? whole_zeros(zero_points, scales, dtype)
                                                   : WholeZeros{Tensor::full(scales.sizes(), dtype, 0), Tensor()};
  const Tensor steps = scales.to(DType::kF32).contiguous();
  const OnnxNames qparams = {call.file().constant(steps, name + "_scale"),
                             call.file().constant(zeros, name + "_zero_point")};
  Shape sizes(call.rank(0), 1);
  sizes[static_cast<size_t>(axis)] = steps.numel();
  if (!quantizes && rest.defined()) {
    const std::string floats = call.emit(op, {call.tensor(0), qparams.list}, {"axis", axis});
    return finish_floats(call, "Add", {floats, call.file().constant(rest.reshape(sizes), name + "_rest")}, {});
  }
  if (!quantizes) return finish_floats(call, op, {call.tensor(0), qparams.list}, {"axis", axis});
  std::string input = as_float(call, 0);
  // A narrower range than the data type's, channel by channel.
  const Tensor offsets = zeros.to(DType::kF64).contiguous();
  const auto bounds = [&](size_t i) {
    const Tensor out = Tensor::empty(sizes, DType::kF32);
    for (int64_t k = 0; k < steps.numel(); ++k)
      out.data<float>()[k] = static_cast<float>((static_cast<double>(call.integer(i)) - offsets.data<double>()[k]) *
                                                static_cast<double>(steps.data<float>()[k]));
    return call.file().constant(out, name + "_bound");
  };
  if (call.integer(4) > min_of(dtype)) input = call.emit("Max", {input, bounds(4)});
  if (call.integer(5) < max_of(dtype)) input = call.emit("Min", {input, bounds(5)});
  call.finish(op, {input, qparams.list}, {"axis", axis});
}

// dequantize_per_channel_group, the groups as channels of a matrix of their own: (input, scales, zero_points,
// quant_min, quant_max, dtype, group_size, output_dtype)
void per_channel_group(AtenCall& call) {
  if (write_blocks(call)) return;
  const DType dtype = call.arg(5).as<DType>();
  const Tensor integers = stored_tensor(call, call.arg(0).node()), scales = stored_tensor(call, call.arg(1).node());
  const Tensor zeros = call.is_none(2) ? Tensor() : stored_tensor(call, call.arg(2).node());
  if (!integers.defined() || !scales.defined() || (!call.is_none(2) && !zeros.defined()))
    call.refuse("has integers, scales or zero points that are known only when it runs");
  const int64_t groups = scales.numel();
  const Tensor zero_points = zeros.defined() ? zeros.reshape({groups}) : Tensor::full({groups}, dtype, 0);
  const std::string name = call.node().name();
  const std::string rows = call.file().constant(
      integers.reshape({groups, groups == 0 ? 0 : integers.numel() / groups}).contiguous(), name + "_groups");
  const std::string floats =
      call.emit(quantizer(call, "DequantizeLinear", dtype),
                {rows, call.file().constant(scales.to(DType::kF32).reshape({groups}).contiguous(), name + "_scale"),
                 call.file().constant(zero_points.to(dtype).contiguous(), name + "_zero_point")},
                {"axis", 0});
  finish_floats(call, "Reshape", {floats, call.integers_as_tensor(integers.sizes())}, {});
}

constexpr AtenExporter kLayerExporters[] = {{"_adaptive_avg_pool2d.default", adaptive_average},
                                            {"_upsample_bicubic2d_aa.default", upsample},
                                            {"_upsample_bicubic2d_aa.vec", upsample},
                                            {"_upsample_bilinear2d_aa.default", upsample},
                                            {"_upsample_bilinear2d_aa.vec", upsample},
                                            {"_upsample_nearest_exact1d.default", upsample},
                                            {"_upsample_nearest_exact1d.vec", upsample},
                                            {"_upsample_nearest_exact2d.default", upsample},
                                            {"_upsample_nearest_exact3d.default", upsample},
                                            {"_upsample_nearest_exact2d.vec", upsample},
                                            {"_upsample_nearest_exact3d.vec", upsample},
                                            {"adaptive_avg_pool1d.default", adaptive_average},
                                            {"adaptive_avg_pool2d.default", adaptive_average},
                                            {"adaptive_avg_pool3d.default", adaptive_average},
                                            {"addmm.default", addmm},
                                            {"avg_pool1d.default", pool},
                                            {"avg_pool2d.default", pool},
                                            {"avg_pool3d.default", pool},
                                            {"bmm.default", matmul},
                                            {"choose_qparams.tensor", choose_qparams},
                                            {"conv1d.default", conv},
                                            {"conv1d.padding", conv},
                                            {"conv2d.default", conv},
                                            {"conv2d.padding", conv},
                                            {"conv3d.default", conv},
                                            {"conv3d.padding", conv},
                                            {"conv_transpose1d.default", conv_transpose},
                                            {"conv_transpose2d.input", conv_transpose},
                                            {"conv_transpose3d.input", conv_transpose},
                                            {"_convolution.default", convolution},
                                            {"convolution.default", convolution},
                                            {"dequantize_per_channel.default", per_channel},
                                            {"dequantize_per_channel_group.default", per_channel_group},
                                            {"dequantize_per_tensor.default", per_tensor},
                                            {"dequantize_per_tensor.tensor", dequantize_by_choice},
                                            {"group_norm.default", group_norm},
                                            {"instance_norm.default", instance_norm},
                                            {"layer_norm.default", layer_norm},
                                            {"linear.default", linear},
                                            {"matmul.default", matmul},
                                            {"max_pool1d.default", pool},
                                            {"max_pool1d_with_indices.default", pool},
                                            {"max_pool2d.default", pool},
                                            {"max_pool2d_with_indices.default", pool},
                                            {"max_pool3d.default", pool},
                                            {"max_pool3d_with_indices.default", pool},
                                            {"mm.default", matmul},
                                            {"native_group_norm.default", native_group_norm},
                                            {"native_layer_norm.default", native_layer_norm},
                                            {"quantize_per_channel.default", per_channel},
                                            {"quantize_per_tensor.default", per_tensor},
                                            {"quantize_per_tensor.tensor", quantize_by_choice},
                                            {"rms_norm.default", rms_norm},
                                            {"upsample_bicubic2d.default", upsample},
                                            {"upsample_bicubic2d.vec", upsample},
                                            {"upsample_bilinear2d.default", upsample},
                                            {"upsample_bilinear2d.vec", upsample},
                                            {"upsample_linear1d.default", upsample},
                                            {"upsample_linear1d.vec", upsample},
                                            {"upsample_nearest1d.default", upsample},
                                            {"upsample_nearest1d.vec", upsample},
                                            {"upsample_nearest2d.default", upsample},
                                            {"upsample_nearest2d.vec", upsample},
                                            {"upsample_nearest3d.default", upsample},
                                            {"upsample_nearest3d.vec", upsample},
                                            {"upsample_trilinear3d.default", upsample},
                                            {"upsample_trilinear3d.vec", upsample}};

}  // namespace

std::span<const AtenExporter> layer_exporters() { return kLayerExporters; }

}  // namespace qdq
