// Scores that masks hide from softmax: by minus infinity, or by a number far below all others such as -10000 or the
// least of float32.
#pragma once

#include <optional>

#include "graph/graph.h"
#include "tensor/tensor.h"

namespace qdq {

// What a hidden score counts as for observers. What the scores say keeps most of 8 bits, and whatever is hidden has a
// weight of about e^-16, as its integer is that of the least value.
inline constexpr float kHiddenScore = -16;

// Whether softmax reads the value, perhaps behind additions and what only moves numbers, with observers in between.
bool leads_to_softmax(const Node& value);

// Whether values lie far below all others, and none between.
bool has_finite_mask(const Tensor& values, float least);

// The values with hidden ones as kHiddenScore; nothing if none is hidden, or all are.
std::optional<Tensor> without_hidden_scores(const Tensor& values, float least);

}  // namespace qdq
