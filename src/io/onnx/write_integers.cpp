// Layers whose weights are integers, or other numbers of few bits.
#include "io/onnx/integer_layers.h"

#include <algorithm>
#include <cmath>

#include "io/onnx/import.h"
#include "io/onnx/normal_floats.h"
#include "op/facts.h"
#include "op/targets.h"

namespace qdq {

Tensor stored_tensor(AtenCall& call, const Node* node) {
  return node && node->op() == Node::Op::kGetAttr ? call.file().program().attribute_of(*node) : Tensor();
}

StoredWeight stored_weight(AtenCall& call, const Node* node) {
  StoredWeight out;
  if (node == nullptr) return out;
  if (node->is(op::kDequantize)) {
    out.integers = stored_tensor(call, node->arg(0).node());
    out.scales = Tensor::full({}, DType::kF32, node->arg(1).number().value_or(0));
    if (node->arg(2).integer() != 0) out.integers = Tensor();
  } else if (node->is(op::kDequantizeChannels)) {
    const Tensor scales = stored_tensor(call, node->arg(1).node()),
                 zero_points = stored_tensor(call, node->arg(2).node());
    if (!scales.defined() || !zero_points.defined()) return out;
    const Tensor zeros = zero_points.to(DType::kS64).contiguous();
    if (std::any_of(zeros.data<int64_t>(), zeros.data<int64_t>() + zeros.numel(), [](int64_t z) { return z != 0; }))
      return out;
    out.integers = stored_tensor(call, node->arg(0).node());
    out.scales = scales.to(DType::kF32).contiguous();
    out.axis = *node->arg(3).integer();
  }
  return out;
}

namespace {

// What a layer gives, with the bias that it has.
void finish_with_bias(AtenCall& call, const std::string& op, const OnnxNames& inputs,
                      const OnnxAttributes& attributes = {}) {
  if (call.is_none(2)) return call.finish(op, inputs, attributes);
  call.finish("Add", {call.emit(op, inputs, attributes), call.tensor(2)});
}

// The choose_qparams whose scale and zero point both the dequantize node and its quantize node have; null if none.
const Node* choice_of(const Node& dequantize) {
  const Node *integers = dequantize.arg(0).node(), *scale = dequantize.arg(1).node();
  const Node* choice = scale && scale->is(op::kGetItem) ? scale->arg(0).node() : nullptr;
  if (!choice || !choice->is(op::kChooseQParams) || !integers || !integers->is(op::kQuantizeByTensors)) return nullptr;
  return integers->arg(1).node() == scale && integers->arg(0) == choice->arg(0) ? choice : nullptr;
}

// Integers from `low` on in 4 or 8 bits; of 4, the first of two is in the lower half of a byte, and the last of an odd
// row stands alone.
Tensor packed(const Tensor& integers, int64_t rows, int64_t low, int64_t bits) {
  const Tensor flat = integers.to(DType::kS32).contiguous();
  const int64_t count = flat.numel() / rows, per_byte = 8 / bits, bytes = (count + per_byte - 1) / per_byte;
  const Tensor out = Tensor::full({rows, bytes}, DType::kU8, 0);
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t i = 0; i < count; ++i) {
      const int32_t value = flat.data<int32_t>()[row * count + i] - static_cast<int32_t>(low);
      out.data<uint8_t>()[row * bytes + i / per_byte] |= static_cast<uint8_t>(value << (i % per_byte * bits));
    }
  return out;
}

bool lies_within(const Tensor& integers, int64_t low, int64_t high) {
  const Tensor wide = integers.to(DType::kS64).contiguous();
  const std::span<const int64_t> values = wide.span<int64_t>();
  return std::all_of(values.begin(), values.end(), [&](int64_t value) { return value >= low && value <= high; });
}

// A matrix of integers of 4 or 8 bits in groups along its rows.
struct BlockedMatrix {
  std::string name;
  Tensor integers, scales, zeros;        // undefined zeros: all are 0
  int64_t low = 0, block = 0, bits = 0;  // the least integer of so many bits, and how many share a scale
  int64_t middle() const { return int64_t{1} << (bits - 1); }  // of the integers without sign
  int64_t high() const { return low + 2 * middle() - 1; }
};

// Whether the operators of com.microsoft take such groups.
bool is_block(int64_t group) { return group >= 16 && group <= 256 && (group & (group - 1)) == 0; }

// That of a dequantize_per_channel_group node: (input, scales, zero_points, quant_min, quant_max, dtype, group_size,
// output_dtype). Nothing for others, and for what is computed or does not fit.
std::optional<BlockedMatrix> blocked_matrix(AtenCall& call, const Node* weight) {
  if (!weight || !weight->is(op::kDequantizeGroups)) return std::nullopt;
  BlockedMatrix out;
  out.name = weight->arg(0).node()->target();
  out.integers = stored_tensor(call, weight->arg(0).node());
  out.scales = stored_tensor(call, weight->arg(1).node());
  const bool has_zeros = !weight->arg(2).is_none();
  if (has_zeros) out.zeros = stored_tensor(call, weight->arg(2).node());
  out.block = weight->arg(6).integer().value_or(0);
  const int64_t low = weight->arg(3).integer().value_or(0), high = weight->arg(4).integer().value_or(-1);
  out.bits = high - low < 16 && low >= -8 && high < 16 && (low >= 0 || high < 8) ? 4 : 8;
  out.low = low < 0 ? -out.middle() : 0;
  if (!out.integers.defined() || !out.scales.defined() || (has_zeros && !out.zeros.defined()) ||
      out.integers.dim() != 2 || high < low || low < out.low || high > out.high() || out.block < 1 ||
      out.integers.size(1) % out.block != 0)
    return std::nullopt;
  const int64_t blocks = out.integers.numel() / out.block;
  if (blocks == 0 || out.scales.numel() != blocks || (has_zeros && out.zeros.numel() != blocks) ||
      !lies_within(out.integers, out.low, out.high()) || (has_zeros && !lies_within(out.zeros, out.low, out.high())))
    return std::nullopt;
  return out;
}

// The matrix as floats, its rows and columns perhaps exchanged: DequantizeLinear of opset 21, whose scales are for
// blocks along an axis. Refuses an earlier opset.
std::string dequantized_blocks(AtenCall& call, const BlockedMatrix& matrix, bool is_turned) {
  OnnxExport& file = call.file();
  if (!file.reaches(kFirstWithBlocks))
    call.refuse("has weights in groups, which DequantizeLinear takes from opset ", kFirstWithBlocks, " on, found ",
                file.opset(), "; ask for opset ", kFirstWithBlocks, " or for another form of groups");
  const auto& [name, integers, scales, zeros, low, block, bits] = matrix;
  const DType dtype = low == 0 ? DType::kU8 : DType::kS8;
  const Shape by_block = {integers.size(0), integers.size(1) / block};
  const auto constant = [&](const Tensor& tensor, bool is_integer, const char* ending) {
    const Tensor lies = is_turned ? tensor.transpose(0, 1).contiguous() : tensor.contiguous();
    return is_integer && bits == 4 ? file.four_bit_constant(lies, name + ending) : file.constant(lies, name + ending);
  };
  OnnxNames inputs = {constant(integers.to(dtype), true, ""),
                      constant(scales.to(DType::kF32).reshape(by_block), false, "_scale")};
  if (zeros.defined() && !lies_within(zeros, 0, 0))  // which is what none mean
    inputs.list.push_back(constant(zeros.to(dtype).reshape(by_block), true, "_zero_point"));
  return call.emit("DequantizeLinear", inputs, {"axis", is_turned ? 0 : 1, "block_size", block});
}

// int8 as uint8 with zero points of 128.
constexpr int64_t kMiddleOf8 = 128;
Tensor without_sign(const Tensor& integers) {
  const Tensor in = integers.contiguous(), out = Tensor::empty(in.sizes(), DType::kU8);
  for (int64_t i = 0; i < out.numel(); ++i)
    out.data<uint8_t>()[i] = static_cast<uint8_t>(in.data<int8_t>()[i] + kMiddleOf8);
  return out;
}

// A layer of int8 weights whose input is quantized by the range that it turns out to have; no choice where it is none.
struct DynamicLayer {
  const Node *input = nullptr, *choice = nullptr, *weight = nullptr;
  StoredWeight stored;
};
DynamicLayer dynamic_layer_of(AtenCall& call) {
  DynamicLayer out{call.arg(0).node(), nullptr, call.arg(1).node(), {}};
  if (!out.input || !out.input->is(op::kDequantizeByTensors) || call.meta(0).dtype != DType::kF32) return out;
  out.stored = stored_weight(call, out.weight);
  const bool is_by_row = out.stored.integers.defined() && (out.stored.scales.numel() == 1 || out.stored.axis == 0);
  if (is_by_row && out.stored.integers.dtype() == DType::kS8) out.choice = choice_of(*out.input);
  return out;
}

// The layer's integer product, perhaps of weights without sign; the scales of its rows, of this shape; and the bias.
void finish_dynamic_layer(AtenCall& call, const DynamicLayer& layer, const char* op, const Tensor& weight,
                          bool is_unsigned, const Shape& channels, const OnnxAttributes& attributes = {}) {
  OnnxExport& file = call.file();
  const std::string name = layer.weight->arg(0).node()->target();
  OnnxNames inputs = {file.value(layer.input->arg(0).node())};
  inputs.list.push_back(file.constant(is_unsigned ? without_sign(weight) : weight, name + "_integers"));
  inputs.list.push_back(file.item(layer.choice, 1));
  if (is_unsigned) inputs.list.push_back(call.scalar(kMiddleOf8, DType::kU8));
  const std::string product = call.cast(call.emit(op, inputs, attributes), DType::kS32, DType::kF32);
  const Tensor& scales = layer.stored.scales;
  const std::string by_row = file.constant(scales.reshape(scales.numel() == 1 ? Shape{} : channels), name + "_scale");
  const std::string scale = call.emit("Mul", {file.item(layer.choice, 0), by_row});
  if (call.is_none(2)) return call.finish("Mul", {product, scale});
  std::string bias = call.tensor(2);
  if (channels.size() > 1) bias = call.emit("Reshape", {bias, call.integers_as_tensor(channels)});
  call.finish("Add", {call.emit("Mul", {product, scale}), bias});
}

// How exactly runtimes shall multiply weights in blocks: as asked for, else as the file says that was read.
std::optional<int64_t> accuracy_level_of(AtenCall& call) {
  if (const std::optional<int64_t> asked = call.file().options().accuracy_level) return asked;
  const std::string& read = call.node().meta.extra_of(kOnnxAccuracyLevel);
  return read.size() == 1 && read[0] >= '0' && read[0] <= '4' ? std::optional<int64_t>(read[0] - '0') : std::nullopt;
}

}  // namespace

bool write_dynamic_linear(AtenCall& call) {
  const DynamicLayer layer = dynamic_layer_of(call);
  if (layer.choice == nullptr) return false;
  const Tensor& integers = layer.stored.integers;
  finish_dynamic_layer(call, layer, "MatMulInteger", integers.transpose(0, 1).contiguous(),
                       call.file().options().unsigned_weights, {integers.size(0)});
  return true;
}

bool write_dynamic_convolution(AtenCall& call, const OnnxAttributes& attributes) {
  const DynamicLayer layer = dynamic_layer_of(call);
  if (layer.choice == nullptr) return false;
  const Tensor& integers = layer.stored.integers;
  Shape channels(static_cast<size_t>(integers.dim()) - 1, 1);
  channels[0] = integers.size(0);
  finish_dynamic_layer(call, layer, "ConvInteger", integers.contiguous(), true, channels, attributes);
  return true;
}

bool write_integer_convolution(AtenCall& call, OnnxAttributes attributes) {
  if (is_floating(call.meta(0).dtype)) return false;
  Node* input = call.arg(0).node();
  const auto pads = std::find_if(attributes.list.begin(), attributes.list.end(),
                                 [](const format::OnnxAttribute& each) { return each.name == "pads"; });
  if (local_name(input->target()) == "pad.default" && pads != attributes.list.end()) {
    const Argument::List& amounts = input->arg(1).list();  // from the last axis on, before and behind
    const size_t axes = pads->ints.size() / 2;
    for (size_t i = 0; i < amounts.size() && i < pads->ints.size(); ++i)
      pads->ints[(i % 2 == 0 ? axes : 2 * axes) - 1 - i / 2] += amounts[i].integer().value_or(0);
    input = input->arg(0).node();
  }
  const ShiftedIntegers x = shifted_integers(input), w = shifted_integers(call.arg(1).node());
  if (x.integers == nullptr || w.integers == nullptr || !call.is_none(2))
    call.refuse("is a convolution of ", to_string(call.meta(0).dtype), ", which ONNX has only in 8 bits");
  // A zero point became int32 and got the shape that it works by.
  const auto zero_point = [&](const ShiftedIntegers& shifted) -> std::string {
    const Node* node = origin_of(shifted.zero_point);
    if (node == nullptr) return {};
    const Tensor known = stored_tensor(call, node);
    const DType dtype = call.meta_of(shifted.integers).dtype;
    if (!known.defined() || known.dtype() == dtype) return call.file().value(node);
    const Shape shape = known.numel() == 1 ? Shape{} : Shape{known.numel()};
    return call.file().constant(known.to(dtype).reshape(shape).contiguous(), node->target());
  };
  call.finish("ConvInteger",
              {call.file().value(x.integers), call.file().value(w.integers), zero_point(x), zero_point(w)}, attributes);
  return true;
}

bool write_embedding_of_integers(AtenCall& call) {
  const Node* weight = call.arg(0).node();
  const StoredWeight stored = stored_weight(call, weight);
  if (!stored.integers.defined() || stored.integers.dtype() != DType::kS8 || stored.integers.dim() != 2 ||
      (stored.scales.numel() != 1 && stored.axis != 0))
    return false;
  OnnxExport& file = call.file();
  const std::string name = weight->arg(0).node()->target(), indices = call.tensor(1);
  const bool is_by_row = stored.scales.numel() != 1;
  const Tensor scales = stored.scales.reshape(is_by_row ? Shape{stored.scales.numel(), 1} : Shape{});
  const auto rows_of = [&](const Tensor& table, const char* ending) {
    return call.emit("Gather", {file.constant(table.contiguous(), name + ending), indices}, {"axis", 0});
  };
  const std::string floats = call.cast(rows_of(stored.integers, ""), DType::kS8, DType::kF32);
  const std::string scale = is_by_row ? rows_of(scales, "_scale") : file.constant(scales, name + "_scale");
  const DType dtype = call.result().dtype;
  if (dtype == DType::kF32) call.finish("Mul", {floats, scale});
  else call.finish("Cast", {call.emit("Mul", {floats, scale})}, {"to", format::onnx_number(dtype)});
  return true;
}

bool write_linear_of_normal_floats(AtenCall& call) {
  const Tensor weight = stored_tensor(call, call.arg(1).node());
  if (!call.file().options().bnb4 || !weight.defined() || weight.dtype() != DType::kF32 || weight.numel() == 0 ||
      call.meta(0).dtype != DType::kF32)
    return false;
  constexpr int64_t kBlock = 64, kUpper = 4;
  constexpr size_t kNumbers = std::size(kNormalFloat4);
  const Tensor values = weight.contiguous();
  const int64_t count = values.numel(), blocks = (count + kBlock - 1) / kBlock;
  const Tensor packed = Tensor::full({(count + 1) / 2}, DType::kU8, 0), largest = Tensor::empty({blocks}, DType::kF32);
  for (int64_t block = 0; block < blocks; ++block) {
    const int64_t end = std::min(count, (block + 1) * kBlock);
    float most = 0;
    for (int64_t i = block * kBlock; i < end; ++i) most = std::max(most, std::fabs(values.data<float>()[i]));
    largest.data<float>()[block] = most;
    for (int64_t i = block * kBlock; i < end; ++i) {
      const float part = most == 0 ? 0 : values.data<float>()[i] / most;
      size_t code = 0;
      while (code + 1 < kNumbers && part > (kNormalFloat4[code] + kNormalFloat4[code + 1]) / 2) ++code;
      packed.data<uint8_t>()[i / 2] |= static_cast<uint8_t>(code << (i % 2 == 0 ? kUpper : 0));
    }
  }
  OnnxExport& file = call.file();
  const std::string name = call.arg(1).node()->target();
  finish_with_bias(call, "com.microsoft.MatMulBnb4",
                   {call.tensor(0), file.constant(packed, name + "_nf4"), file.constant(largest, name + "_absmax")},
                   {"K", weight.size(1), "N", weight.size(0), "block_size", kBlock, "quant_type", 1});
  return true;
}

bool write_blocks(AtenCall& call) {
  if (call.file().options().groups != OnnxGroups::kBlocks) return false;
  const std::optional<BlockedMatrix> matrix = blocked_matrix(call, &call.node());
  if (!matrix) return false;
  call.file().note_groups();
  const std::string floats = dequantized_blocks(call, *matrix, false);
  call.same_as(call.cast(floats, DType::kF32, call.result().dtype));
  return true;
}

bool write_linear_of_blocks(AtenCall& call) {
  const DType floats = call.meta(0).dtype;
  const std::optional<BlockedMatrix> weight = blocked_matrix(call, call.arg(1).node());
  if (!weight || (floats != DType::kF32 && floats != DType::kF16)) return false;
  OnnxExport& file = call.file();
  const OnnxGroups form = file.options().groups;
  if (form == OnnxGroups::kBlocks) {  // joined by ONNX Runtime to MatMulNBits if the blocks lie along the first axis
    file.note_groups();
    finish_with_bias(call, "MatMul",
                     {call.tensor(0), call.cast(dequantized_blocks(call, *weight, true), DType::kF32, floats)}, {});
    return true;
  }
  const auto& [name, integers, scales, zeros, low, block, bits] = *weight;
  if (!is_block(block) || (bits != 4 && form != OnnxGroups::kMatMulNBits)) return false;
  const int64_t rows = integers.size(0), depth = integers.size(1), blocks = depth / block;
  const auto bytes_of = [bits](int64_t count) { return (count * bits + 7) / 8; };
  OnnxNames inputs = {call.tensor(0),
                      file.constant(packed(integers, rows, low, bits).reshape({rows, blocks, bytes_of(block)}),
                                    name + (bits == 4 ? "_4bit" : "_8bit")),
                      file.constant(scales.to(floats).reshape({rows * blocks}).contiguous(), name + "_scale")};
  // Without zero points they are the middle.
  const int64_t middle = low + weight->middle();
  const bool is_middle = zeros.defined() ? lies_within(zeros, middle, middle) : middle == 0;
  if (!is_middle) {
    const Tensor given = zeros.defined() ? zeros : Tensor::full({rows * blocks}, DType::kS64, 0);
    inputs.list.push_back(
        file.constant(packed(given, rows, low, bits).reshape({rows * bytes_of(blocks)}), name + "_zero_point"));
  }
  OnnxAttributes attributes = {"K", depth, "N", rows, "bits", bits, "block_size", block};
  if (const std::optional<int64_t> level = accuracy_level_of(call)) attributes.add("accuracy_level", *level);
  file.note_blocks();
  finish_with_bias(call, "com.microsoft.MatMulNBits", inputs, attributes);
  return true;
}

bool write_embedding_of_blocks(AtenCall& call) {
  const DType floats = call.result().dtype;
  const std::optional<BlockedMatrix> weight = blocked_matrix(call, call.arg(0).node());
  if (!weight || weight->bits != 4 || !is_block(weight->block) || (floats != DType::kF32 && floats != DType::kF16) ||
      call.file().options().groups == OnnxGroups::kBlocks)
    return false;
  const auto& [name, integers, scales, zeros, low, block, bits] = *weight;
  const DType dtype = low == 0 ? DType::kU8 : DType::kS8;
  const Shape by_block = {integers.size(0), integers.size(1) / block};
  OnnxExport& file = call.file();
  OnnxNames inputs = {file.four_bit_constant(integers.to(dtype), name), call.tensor(1),
                      file.constant(scales.to(floats).reshape(by_block).contiguous(), name + "_scale")};
  if (zeros.defined() && !lies_within(zeros, 0, 0))  // which is what none mean
    inputs.list.push_back(file.four_bit_constant(zeros.to(dtype).reshape(by_block), name + "_zero_point"));
  call.finish("com.microsoft.GatherBlockQuantized", inputs,
              {"gather_axis", 0, "quantize_axis", 1, "block_size", block});
  return true;
}

}  // namespace qdq
