// The facts about a node, from its operator's entry in the table (op/op.h). Nodes that call no operator of the table
// (placeholders, observers) have no facts: functions return null, false or nothing.
#pragma once

#include <optional>
#include <string_view>

#include "op/op.h"

namespace qdq {

const OpDef* op_of(const Node& node);  // or null
bool is_a(const Node& node, Family family);
// Whether the node calls the operator of this target or its in-place form: is_form_of(node, op::kRelu) holds for relu_.
bool is_form_of(const Node& node, std::string_view functional_target);

// The argument by its schema index, whether positional or by name; else the schema's default, else None. The node must
// call an operator of the table.
const Argument& argument_of(const Node& node, size_t index);

// Arguments by their roles; null where there is none, or no node. For batch norms and embeddings as well.
Node* input_of(const Node& node);  // roles.activation
Node* other_of(const Node& node);
Node* weight_of(const Node& node);
Node* bias_of(const Node& node);

// The functional form under the operator's first name, which tables about ATen operators are keyed by: "mul.Tensor" of
// multiply_.Tensor. Where there is no functional form, the entry itself.
const OpDef& plain_form(const OpDef& op);

// Whether the result is, or may be, the first argument with other sizes: reshape, slice, split, contiguous.
bool is_view(const OpDef& op);
// Whether the node is such a view, or an item of one that gives several.
bool is_view(const Node& node);

// The activation that the node computes, with its parameters; nothing for other operators, or if a parameter is not
// constant.
std::optional<kernel::Activation> activation_function(const Node& node);

// "torch.ops.aten.relu_.default" -> "aten.relu_.default"; other targets ("operator.getitem") as they are.
std::string_view short_name(std::string_view target);
// The same without the namespace too, the key of tables about ATen operators: "relu_.default"; "operator.getitem".
std::string_view local_name(std::string_view target);
// And without the overload: "relu_", "getitem".
std::string_view base_name(std::string_view target);
// "torch.ops.aten.relu_.default" -> "aten"; empty for targets without a namespace ("operator.getitem").
std::string_view space_of(std::string_view target);

}  // namespace qdq
