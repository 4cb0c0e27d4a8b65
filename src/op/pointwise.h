// Shared by element-wise operators, except for their loops (op/elements.h).
#pragma once

#include <vector>

#include "op/elements.h"
#include "op/families.h"

namespace qdq {

// The promoted dtype of two operands, tensors or numbers.
template <class T> DType common_dtype(const Call<T>& call, size_t a = 0, size_t b = 1) {
  return result_dtype({operand_kind(call, a), operand_kind(call, b)});
}

inline SymShape sizes_of(const Call<TensorMeta>& call, size_t i) {
  const TensorMeta* meta = call[i].get_if<TensorMeta>();
  return meta ? meta->sizes : SymShape();
}

// NaN wins.
template <class C> C larger(C x, C y) { return x != x || x > y ? x : y; }
template <class C> C smaller(C x, C y) { return x != x || x < y ? x : y; }

// Parts of add_pointwise_ops: functions of one operand, and what chooses among operands or bounds them.
void add_unary_ops(std::vector<OpDef>& ops);
void add_selection_ops(std::vector<OpDef>& ops);

}  // namespace qdq
