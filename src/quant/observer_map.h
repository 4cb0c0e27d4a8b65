// The observers of an annotated graph: which edges and outputs share one.
// Semantics: torch/ao/quantization/pt2e/prepare.py and fx/prepare.py of PyTorch 2.6.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "quant/annotation.h"

namespace qdq {

// Every annotated edge and output in the order of the graph (a node's input edges first) with its observer; null where
// the spec is "stay float".
using ObserverMap = std::vector<std::pair<EdgeOrNode, std::shared_ptr<Observer>>>;

// Unites edges and outputs that share (explicitly by SharedQuantizationSpec, or implicitly because they see the same
// tensor with equal specs) and makes one observer for each set, from the spec of its first member.
// `derived_from`, if given, receives the sources of observers with a DerivedQuantizationSpec.
// For training fixed qparams belong to a fake quantizer, else to an observer.
// Throws Error{kInvalidArgument} if a spec's limits are wrong, if specs share in a circle, or name an edge or node that
// carries no spec or whose observer comes later in the order.
ObserverMap make_observers(
    const Graph& graph, const Annotations& annotations,
    std::vector<std::pair<std::shared_ptr<Observer>, std::vector<std::shared_ptr<Observer>>>>* derived_from = nullptr,
    bool is_qat = false);

}  // namespace qdq
