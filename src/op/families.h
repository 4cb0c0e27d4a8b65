// The tables of the families of operators, which have one file each; op.cpp joins them.
#pragma once

#include <vector>

#include "op/op.h"

namespace qdq {

using Infer = MetaValue (*)(const Call<TensorMeta>& call);
using Eval = Value (*)(const Call<Tensor>& call);

// An entry from PyTorch's schema line, as torch._C._jit_get_all_schemas() prints it: "aten::add.Tensor(Tensor self,
// ...) -> Tensor" becomes the target torch.ops.aten.add.Tensor. A namespace with a dot in it ("operator") is taken as
// it is: "operator::getitem". Functions between the tables and this one take lines as C strings: there are hundreds of
// calls, and WebAssembly passes a pointer in 4 bytes, a string_view by value in 33.
OpDef define(std::string_view schema_line, Infer infer, Eval eval, const Roles& roles = {},
             Family family = Family::kOther);
// Of operators whose results are elements of the first argument, or means of them.
inline constexpr Roles kSharesQparams{.activation = 0, .shares_qparams = true};
// "multiply" -> "mul": the name under which an operator stands in the tables; other names as they are.
std::string_view first_name(std::string_view name);
inline OpDef keeping_numbers(OpDef op) {
  op.keeps_numbers = true;
  return op;
}

// Those of op/custom.h; null if there is none of the name.
const OpDef* find_custom_op(std::string_view target);

void add_activation_ops(std::vector<OpDef>& ops);
void add_attention_ops(std::vector<OpDef>& ops);
void add_bag_ops(std::vector<OpDef>& ops);
void add_complex_ops(std::vector<OpDef>& ops);
void add_composed_ops(std::vector<OpDef>& ops);
void add_conv_ops(std::vector<OpDef>& ops);
void add_create_ops(std::vector<OpDef>& ops);
void add_copy_ops(std::vector<OpDef>& ops);
void add_cummax_ops(std::vector<OpDef>& ops);
void add_fourier_ops(std::vector<OpDef>& ops);
void add_frame_ops(std::vector<OpDef>& ops);
void add_higher_order_ops(std::vector<OpDef>& ops);
void add_index_ops(std::vector<OpDef>& ops);
void add_linear_ops(std::vector<OpDef>& ops);
void add_norm_ops(std::vector<OpDef>& ops);
void add_onnx_attention_ops(std::vector<OpDef>& ops);
void add_onnx_ops(std::vector<OpDef>& ops);
void add_onnx_recurrent_ops(std::vector<OpDef>& ops);
void add_onnx_sequence_ops(std::vector<OpDef>& ops);
void add_order_ops(std::vector<OpDef>& ops);
void add_part_ops(std::vector<OpDef>& ops);
void add_pointwise_ops(std::vector<OpDef>& ops);
void add_pool_ops(std::vector<OpDef>& ops);
void add_quantized_decomposed_ops(std::vector<OpDef>& ops);
void add_rare_ops(std::vector<OpDef>& ops);  // of several files that few networks need
void add_rearranging_ops(std::vector<OpDef>& ops);
void add_recurrent_ops(std::vector<OpDef>& ops);
void add_reduce_ops(std::vector<OpDef>& ops);
void add_resize_ops(std::vector<OpDef>& ops);
void add_sample_ops(std::vector<OpDef>& ops);
void add_scatter_ops(std::vector<OpDef>& ops);
void add_search_ops(std::vector<OpDef>& ops);
void add_square_matrix_ops(std::vector<OpDef>& ops);
void add_string_ops(std::vector<OpDef>& ops);
void add_sym_ops(std::vector<OpDef>& ops);
void add_torchvision_ops(std::vector<OpDef>& ops);
void add_view_ops(std::vector<OpDef>& ops);

// Gives operators on real numbers their forms for complex tensors (op/complex.cpp).
void add_complex_forms(std::vector<OpDef>& ops);
// Whether a value is a complex tensor, a list with one, or their dtype.
template <class T> bool has_complex(const BasicValue<T>& value);

}  // namespace qdq
