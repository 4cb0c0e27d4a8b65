// What the importers of ai.onnx.ml share: rows in, scores and labels out.
#pragma once

#include "io/onnx/import.h"

namespace qdq {

// The input as rows [N, C] of float32, or of float64 if it has that.
Node* number_rows(OnnxCall& call);
// The scores behind a post_transform: "NONE", "LOGISTIC", ...
Node* transformed_scores(OnnxCall& call, Node* scores, std::string_view transform);
// Sets the call's first result to the labels of classes by number [N]; the attributes of these names list them.
void set_labels(OnnxCall& call, Node* classes, std::string_view integers, std::string_view strings);
size_t number_of_labels(OnnxCall& call, std::string_view integers, std::string_view strings);
// 1 where a score [N, 1] is larger than the threshold, else 0, as [N].
Node* is_positive(OnnxCall& call, Node* score, double threshold);
Node* side_by_side(OnnxCall& call, Node* first, Node* second);

}  // namespace qdq
