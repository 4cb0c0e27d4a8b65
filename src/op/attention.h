// Prepares the operands of aten.scaled_dot_product_attention for loops.
#pragma once

#include "op/op.h"

namespace qdq {

// Expanded over the batch axes of the result, including heads that share keys; B is their product. All are contiguous
// and, except for the mask, have the query's dtype.
struct AttentionOperands {
  Shape sizes;               // of the result [..., L, V]
  Tensor query, key, value;  // [B, L, E], [B, S, E], [B, S, V]
  Tensor mask;               // f64, added to the scores: 0 or -infinity where it was bool; expands to [..., L, S]
  double scale = 1;
};

// Throws Error{kUnsupported} for dropout, Error{kInvalidArgument} for shapes that do not fit.
AttentionOperands attention_operands(const Call<Tensor>& call);

}  // namespace qdq
