// What quantizers decide about each operator, and what they can do, as JSON: for `inspect --explain --json`.
#pragma once

#include "format/json_fwd.h"
#include "quant/pt2e.h"

namespace qdq {

// {"operators": [{node, module, op, outcome, quantizer, pattern, reason, tensors, decisions}], "conflicts": [{edge,
// message, ...}]}
format::Json explanation_report(const Prepared& prepared);

// {"quantizer", "patterns": [{pattern, operators, static, dynamic, qat, note}], "parts": [...]}
format::Json capabilities_report(const QuantizationCapabilities& capabilities);

}  // namespace qdq
