// What fusion reads off single nodes of a dq/q graph.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>

#include "graph/program.h"
#include "lower/plan.h"

namespace qdq {

// The one activation with a weight, which no kernel::Activation stands for.
inline constexpr std::string_view kPrelu = "torch.ops.aten.prelu.default";

// Why a graph is not rewritten (it calls modules, or writes to a value that others may read); empty: it may be.
std::string fusion_obstacle(const Graph& graph);
bool calls_modules(const Graph& graph);
// Values that the graph writes to while others may read them, with all that share their elements, and a node that
// writes to each. Steps of a plan run together, so that none may read or make one.
std::unordered_map<const Node*, const Node*> values_with_writers(const Graph& graph);
// A dropout that passes its input on.
bool is_idle_dropout(const Node& node);

// Tensor metadata of a node whose value is one f32 tensor, or null.
const TensorMeta* float_meta(const Node& node);

// Whether this is quantize_per_tensor / dequantize_per_tensor with numbers as qparams and u8 or s8.
bool quantizes_tensor(const Node& node);
bool dequantizes_tensor(const Node& node);
// Their qparams as a plan has them: those of s8 shifted by 128.
PlanQParams plan_qparams(const Node& node);
// A quantize node all of whose users are dequantize nodes with the same qparams.
bool is_fusable_quantize(const Node& node);

// The node's only user if it uses it once; else null.
Node* single_user(const Node& node);

// A dequantized constant s8 weight, symmetric, per tensor or per channel along axis 0.
struct QuantizedWeight {
  Tensor values;  // s8, C order
  Tensor scales;  // f32 [channels]
};
// Or the reason why `node` (an argument) is none.
std::variant<QuantizedWeight, std::string> quantized_weight(const Program& program, const Argument& argument);
// The f32 constant behind an argument; undefined for None. Or the reason why it is none.
std::variant<Tensor, std::string> constant_bias(const Program& program, const Argument& argument);

// The same of a constant that may be one of integers, dequantized; nothing for None and other arguments.
std::optional<Tensor> constant_operand(const Program& program, const Argument& argument);

// An f32 value that is quantized by the range that it has in every run, as convert_pt2e writes it, up to its dequantize
// node.
struct DynamicInput {
  Node* x = nullptr;
  Node* dequantize = nullptr;
  DynamicRange range;
  std::vector<const Node*> nodes;  // choose_qparams, both getitems, quantize, dequantize
};
// The one that begins at this choose_qparams.tensor node; nothing if somebody else reads a part of it.
std::optional<DynamicInput> dynamic_input(const Node& choose);

// An f32 value that is rounded to int8 by the range of each row, up to its dequantize node.
struct TokenInput {
  Node* x = nullptr;
  Node* dequantize = nullptr;
  std::vector<const Node*> nodes;  // choose_qparams, both getitems, quantize, dequantize
};
// The one that begins at this choose_qparams_per_token_asymmetric node; nothing if somebody else reads a part of it.
std::optional<TokenInput> token_input(const Node& choose);

// A constant weight [channels, depth] of 4 or 8 bits that is dequantized by groups along its rows, packed; or the
// reason why `node` (an argument) is none.
std::variant<kernel::GroupWeights, std::string> group_weights(const Program& program, const Argument& argument);

// Argument i of type int[2] as two numbers; nothing if it is there and something else.
std::optional<std::array<int64_t, 2>> int_pair(const Node& node, size_t i, std::array<int64_t, 2> if_none);
// The same of type int[3].
std::optional<std::array<int64_t, 3>> int_triple(const Node& node, size_t i, std::array<int64_t, 3> if_none);

}  // namespace qdq
