// Calibration states as text: what `qdq calibrate` and `qdq merge` write.
#pragma once

#include <string>

#include "format/json_fwd.h"
#include "state/calibration_state.h"

namespace qdq {

// JSON, the same bytes for the same state in every build:
//   {"format": "qdq calibration state 1", "qdq": version, "program": SHA-256, "recipe": SHA-256,
//    "data": {"id", "samples", "batches"}, "shards": "3/16", "seen": [[first batch, end], ...],
//    "observers": [{"id", "class", "min_val", "max_val", "histogram"}, ...],
//    "layers": [{"layer", "groups", "depth", "products", "places", "least", "largest", "sums": {"place", "digits"},
//                "squares": {"place", "digits"}}, ...]}
// min_val and max_val are numbers, or lists with one a channel; an observer that saw nothing has neither. A histogram
// is base64 of unsigned LEB128 numbers, the counts of a RangeHistogram from its first bin to its last; a zero is
// followed by how many more zeros come after it. There are layers if they were observed (quant/layer_statistics.h):
// least and largest are base64 of floats, digits (exact_sums.h) base64 of LEB128 numbers, all high ones and then all
// low ones, 2 n for n >= 0 and -2 n - 1 below.
std::string print_state(const CalibrationState& state);
// Whether a JSON value is meant to be one.
bool is_state(const format::Json& json);
// Throws Error{kBadFile} or Error{kInvalidArgument}, naming `what`, if it is not what print_state writes: text that is
// no JSON, other fields, batches that are not those of the shards, counts that do not belong to the range.
CalibrationState parse_state(std::string_view text, const std::string& what);

}  // namespace qdq
