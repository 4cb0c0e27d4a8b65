// What a .pt2 file tells of its nodes and values, in the spelling of torch/_export/serde/serialize.py.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "io/place.h"

namespace qdq {

// The metadata of a node except its value: {"nn_module_stack":
// "L__self__,,Net;L__self___fc,fc,torch.nn.modules.linear.Linear", ...}.
NodeMeta read_node_metadata(const Place& metadata);
// The same as key and text, in the order in which PyTorch writes it.
std::vector<std::pair<std::string, std::string>> node_metadata(const NodeMeta& meta);

// Strides in elements of a tensor that lies in C order.
SymShape strides_in_c_order(const SymShape& sizes);
// A tensor's metadata; strides are left empty if they are those of C order.
TensorMeta meta_of_tensor(const Tensor& tensor, bool requires_grad);

// The mark in NodeMeta::extra of an operator that qdq does not have: the names of its positional arguments in the file,
// separated by semicolons.
inline constexpr std::string_view kInputNames = "input_names";
// The text of a mark, or null.
const std::string* find_mark(const NodeMeta& meta, std::string_view mark);

}  // namespace qdq
