#include "exec/simd_obstacles.h"

#include <algorithm>
#include <initializer_list>
#include <iterator>

#include "op/facts.h"
#include "op/targets.h"

namespace qdq {
namespace {

// What the graph tells of an argument that is one tensor; null if it tells nothing.
const TensorMeta* meta_of(const Node& node, size_t i) {
  const Node* input = node.arg(i).node();
  return input == nullptr ? nullptr : input->meta.val.tensor();
}

// Operands are float32, or halves like the result.
std::string dtype_obstacle(const Node& node, std::initializer_list<size_t> arguments) {
  const DType result = result_dtype_of(node), wanted = is_half_dtype(result) ? result : DType::kF32;
  for (const size_t i : arguments) {
    const TensorMeta* meta = meta_of(node, i);
    if (meta != nullptr && meta->dtype != wanted)
      return concat(op_of(node)->schema->arguments[i].name, " is ", to_string(meta->dtype), ", not ",
                    to_string(wanted));
  }
  return {};
}

}  // namespace

DType result_dtype_of(const Node& node) {
  const ValueMeta* value = &node.meta.val;
  if (const auto* several = std::get_if<std::vector<ValueMeta>>(&value->value); several && !several->empty())
    value = &several->front();
  const TensorMeta* meta = value->tensor();
  return meta == nullptr ? DType::kF32 : meta->dtype;
}

bool chooses_among_bytes(const Node& node, std::string_view name) {
  const TensorMeta* x = meta_of(node, 0);
  const DType result = result_dtype_of(node);
  if ((result != DType::kU8 && result != DType::kS8) || x == nullptr || x->dtype != result) return false;
  const auto is_integer = [&](size_t i) { return node.arg(i).is_none() || node.arg(i).integer(); };
  if (name == "aten.clamp.default") return is_integer(1) && is_integer(2);
  constexpr std::string_view kChoosing[] = {"aten.relu.default", "aten.max_pool1d.default", "aten.max_pool2d.default",
                                            "aten.max_pool3d.default"};
  return std::find(std::begin(kChoosing), std::end(kChoosing), name) != std::end(kChoosing);
}

std::string elementwise_obstacle(const Node& node) { return dtype_obstacle(node, {0}); }

std::string places_obstacle(const Node& node) {
  const TensorMeta* x = meta_of(node, 0);
  if (x == nullptr || x->dtype == DType::kF32 || is_half_dtype(x->dtype) || counts_in_int64(x->dtype)) return {};
  return concat("its input is ", to_string(x->dtype), ", neither an integer nor float32, float16 or bfloat16");
}

bool counts_in_int64(DType dtype) { return is_integral(dtype) && dtype != DType::kBool && dtype != DType::kU64; }

std::string logic_obstacle(const Node& node) {
  for (const size_t i : {size_t{0}, size_t{1}})
    if (const TensorMeta* meta = i < node.args().size() ? meta_of(node, i) : nullptr;
        meta != nullptr && meta->dtype != DType::kBool)
      return concat(op_of(node)->schema->arguments[i].name, " is ", to_string(meta->dtype), ", not bool");
  return {};
}

std::string matmul_obstacle(const Node& node) { return dtype_obstacle(node, {0, 1}); }

std::string baddbmm_obstacle(const Node& node) { return dtype_obstacle(node, {0, 1, 2}); }

std::string linear_obstacle(const Node& node) {
  const TensorMeta* weight = meta_of(node, 1);
  if (weight != nullptr && weight->sizes.size() != 2) return "its weight is not a matrix";
  return dtype_obstacle(node, {0, 1, 2});
}

std::string addmm_obstacle(const Node& node) {
  if (argument_of(node, 3).number().value_or(1) != 1 || argument_of(node, 4).number().value_or(1) != 1)
    return "it has a factor";
  const TensorMeta* bias = meta_of(node, 0);
  if (bias != nullptr && bias->sizes.size() != 1) return "what it adds is not a vector";
  return dtype_obstacle(node, {0, 1, 2});
}

std::string convolution_obstacle(const Node& node) {
  const TensorMeta *x = meta_of(node, 0), *weight = meta_of(node, 1);
  if (x != nullptr && weight != nullptr && x->sizes.size() != weight->sizes.size()) return "its input has no batch";
  return dtype_obstacle(node, {0, 1, 2});
}

std::string softmax_obstacle(const Node& node) {
  const Argument& converts = argument_of(node, 2);  // a dtype, or for _softmax whether to
  const TensorMeta* x = meta_of(node, 0);
  const bool is_idle = x != nullptr && converts == Argument(x->dtype);
  if (!converts.is_none() && !is_idle && converts.integer().value_or(1) != 0) return "it converts its input";
  return dtype_obstacle(node, {0});
}

std::string layer_norm_obstacle(const Node& node) { return dtype_obstacle(node, {0, 2, 3}); }

std::string batch_norm_obstacle(const Node& node) {
  if (node.arg(5).integer().value_or(0) != 0) return "it takes the statistics of its batch";
  if (node.arg(3).is_none() || node.arg(4).is_none()) return "it has no statistics of its own";
  return dtype_obstacle(node, {0, 1, 2, 3, 4});
}

}  // namespace qdq
