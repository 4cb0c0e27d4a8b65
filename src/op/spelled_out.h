// Activations and attention that a graph computes in several operators, as the one operator that a model has called.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graph/program.h"

namespace qdq {

// Whether the node, which may be null, calls the ATen operator of this name: "mul.Tensor".
bool is_aten(const Node* node, std::string_view name);
// The argument's node if it is such a call and has one reader; else null.
Node* sole_call(const Argument& argument, std::string_view name);
// Whether the argument is this number, but for a relative error of 1e-6.
bool is_number(const Argument& argument, double wanted);
// The axes of a transpose or permute node, counted from the front, in the order that it gives them; empty for other
// nodes, and where they are no constants that fit its shape.
std::vector<int64_t> permutation_of(const Node& node);
// Puts a call of the ATen operator in the place of `last`, which computes the same. What `last` read stays in the
// graph.
void replace_with_call(Node* last, const std::string& name, std::vector<Argument> args, Node::Kwargs kwargs = {});

// Looks for an activation whose last operator this is, and puts it in the place of that one. Factors may have any
// order. Gives whether there was one.
//   x * sigmoid(x)                                                                silu
//   clamp(x + 3, 0, 6) / 6, times x or not; one clamp, two, relu6 or hardtanh     hardswish, hardsigmoid
bool join_silu(Node* last);
bool join_hard_curve(Node* last);

//   q * c, k^T * c -> matmul (-> add mask) -> softmax -> matmul v      becomes      scaled_dot_product_attention
// Exporters scale both factors of PyTorch's operator so; attention that a model spells out itself has its scale
// elsewhere, and stays. `last` is the second matmul.
void join_attention_parts(Node* last);

}  // namespace qdq
