// Weights with zero points, as ONNX Runtime's uint8 ones, as int8 weights without, which the integer kernels take.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "lower/fuse_nodes.h"
#include "lower/join_operators.h"
#include "op/facts.h"
#include "op/infer.h"
#include "op/targets.h"

namespace qdq {
namespace {

// Integers less their zero points, and what dequantizes them.
struct ShiftedWeight {
  std::vector<int32_t> values;  // in C order
  Shape sizes;
  Node* dequantize = nullptr;
};

const Tensor* constant_integers(const Program& program, const Argument& argument) {
  const Node* node = argument.node();
  if (node == nullptr || node->op() != Node::Op::kGetAttr) return nullptr;
  const auto writes = [&](const BufferMutation& one) { return one.buffer == node->target(); };
  if (std::any_of(program.buffer_mutations.begin(), program.buffer_mutations.end(), writes)) return nullptr;
  const Tensor& tensor = program.attribute_of(*node);
  return is_integral(tensor.dtype()) ? &tensor : nullptr;
}

// A zero point for each channel along the first axis; nothing if they are not known.
std::optional<std::vector<int32_t>> zero_points_of(const Program& program, const Node& dequantize, int64_t channels) {
  if (dequantize.is(op::kDequantize)) {
    const std::optional<int64_t> all = dequantize.arg(2).integer();
    if (!all || *all < -128 || *all > 255) return std::nullopt;
    return std::vector<int32_t>(static_cast<size_t>(channels), static_cast<int32_t>(*all));
  }
  if (dequantize.arg(3).integer().value_or(-1) != 0) return std::nullopt;
  if (dequantize.arg(2).is_none()) return std::vector<int32_t>(static_cast<size_t>(channels), 0);
  const Tensor* given = constant_integers(program, dequantize.arg(2));
  if (given == nullptr || given->numel() != channels) return std::nullopt;
  std::vector<int32_t> out;
  const Tensor all = given->to(DType::kS64).contiguous();
  for (const int64_t zero_point : all.span<int64_t>()) {
    if (zero_point < -128 || zero_point > 255) return std::nullopt;
    out.push_back(static_cast<int32_t>(zero_point));
  }
  return out;
}

// Nothing for other weights, and for those that are int8 without zero points already.
std::optional<ShiftedWeight> shifted_weight(const Program& program, const Argument& argument) {
  Node* node = argument.node();
  if (node == nullptr || !(node->is(op::kDequantize) || node->is(op::kDequantizeChannels)) ||
      float_meta(*node) == nullptr || !node->kwargs().empty())
    return std::nullopt;
  const Tensor* integers = constant_integers(program, node->arg(0));
  if (integers == nullptr || size_of(integers->dtype()) != 1 || integers->dim() < 1 || integers->numel() == 0)
    return std::nullopt;
  const int64_t channels = integers->size(0), depth = integers->numel() / channels;
  const auto zero_points = zero_points_of(program, *node, channels);
  if (!zero_points) return std::nullopt;
  const auto is_zero = [](int32_t zero_point) { return zero_point == 0; };
  if (integers->dtype() == DType::kS8 && std::all_of(zero_points->begin(), zero_points->end(), is_zero))
    return std::nullopt;
  ShiftedWeight out{{}, integers->sizes(), node};
  const Tensor wide = integers->to(DType::kS32).contiguous();
  out.values.assign(wide.data<int32_t>(), wide.data<int32_t>() + wide.numel());
  for (size_t i = 0; i < out.values.size(); ++i) out.values[i] -= (*zero_points)[i / static_cast<size_t>(depth)];
  return out;
}

Node* add_constant(Program& program, const std::string& base, const Tensor& values) {
  const std::string name = program.unique_attribute_name(base);
  program.add_attribute({name, values, Attribute::Kind::kBuffer});
  Node* node = program.graph->get_attr(name);
  node->meta.val.value = TensorMeta{values.dtype(), {values.sizes().begin(), values.sizes().end()}, {}, false};
  return node;
}

// As much of the integers as int8 holds, dequantized; `values` keeps the rest.
Node* taken_as_int8(Program& program, ShiftedWeight& weight) {
  const Tensor part = Tensor::empty(weight.sizes, DType::kS8);
  for (size_t i = 0; i < weight.values.size(); ++i) {
    const int32_t taken = std::clamp(weight.values[i], -128, 127);
    part.data<int8_t>()[i] = static_cast<int8_t>(taken);
    weight.values[i] -= taken;
  }
  const Node& old = *weight.dequantize;
  Node* integers = add_constant(program, concat("_signed_", old.name()), part);
  const int64_t low = -128, high = 127;
  std::vector<Argument> args{integers, old.arg(1), int64_t{0}, low, high, DType::kS8};
  if (old.is(op::kDequantizeChannels)) {
    Node* zeros = add_constant(program, concat("_zeros_", old.name()), Tensor::full({weight.sizes[0]}, DType::kS64, 0));
    args = {integers, old.arg(1), zeros, int64_t{0}, low, high, DType::kS8};
  }
  Node* out = program.graph->call(old.target(), std::move(args));
  infer_value(*out);
  return out;
}

// What is beyond int8 becomes further layers of the same input, whose results are added.
void add_layers_of_rest(Program& program, Node& layer, ShiftedWeight& weight) {
  const auto is_left = [&] { return std::any_of(weight.values.begin(), weight.values.end(), [](int v) { return v; }); };
  Node* sum = nullptr;
  while (is_left()) {
    std::vector<Argument> args = layer.args();
    args[1] = taken_as_int8(program, weight);
    if (args.size() > 2) args[2] = Argument();
    Node* part = program.graph->call(layer.target(), std::move(args));
    part->meta = layer.meta;
    sum = sum == nullptr ? part : program.graph->call(std::string(op::kAdd), {sum, part});
    sum->meta = layer.meta;
  }
  if (sum == nullptr) return;
  const auto point = program.graph->insert_after(&layer);
  Node* whole = program.graph->call(std::string(op::kAdd), {&layer, sum});
  whole->meta = layer.meta;
  layer.replace_all_uses_with(whole, [whole](const Node* user) { return user != whole; });
}

}  // namespace

void make_weight_signed(Program& program, Node& layer) {
  std::optional<ShiftedWeight> weight = shifted_weight(program, layer.arg(1));
  const Node* x = layer.arg(0).node();
  if (!weight || x == nullptr || float_meta(layer) == nullptr || !layer.kwargs().empty()) return;
  const auto fits = [](int32_t value) { return value >= -128 && value <= 127; };
  const auto point = program.graph->insert_before(&layer);
  if (is_a(*x, Family::kDequantize) || std::all_of(weight->values.begin(), weight->values.end(), fits)) {
    layer.set_arg(1, taken_as_int8(program, *weight));
    add_layers_of_rest(program, layer, *weight);
  } else {
    layer.set_arg(1, add_constant(program, concat("_float_", weight->dequantize->name()),
                                  eval_constant(program, *weight->dequantize).contiguous()));
  }
}

}  // namespace qdq
