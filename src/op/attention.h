// The operands of aten.scaled_dot_product_attention as loops take them.
#pragma once

#include "op/op.h"

namespace qdq {

// Spread over the batch axes of the result, heads that share keys included: B is their product. All lie contiguous and
// are of the query's dtype, but for the mask.
struct AttentionOperands {
  Shape sizes;               // of the result [..., L, V]
  Tensor query, key, value;  // [B, L, E], [B, S, E], [B, S, V]
  Tensor mask;               // f64, added to the scores: 0 or -infinity where it was bool; expands to [..., L, S]
  double scale = 1;
};

// Throws Error{kUnsupported} for dropout, Error{kInvalidArgument} for shapes that do not fit.
AttentionOperands attention_operands(const Call<Tensor>& call);

}  // namespace qdq
