// What quantization did to a model, layer by layer: as data for the page and `--report`, and as a file that shows it.
// JavaScript alone reads the data, so its fields have JavaScript's names.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "format/json_fwd.h"
#include "quant/pt2e.h"

namespace qdq {

// Every observer with the range it saw and the range its integers reach, its histogram (where it has one) in `bins`
// bins: [{id, class, dtype, qscheme, quantMin, quantMax, covers, channels, min, max, counts, low, high, scale,
// zeroPoint, clipped}]. Fields that need data are missing before it was seen. Per channel: min, max, low, high over
// all channels, and no scale. `clipped` is the share of the values seen that lie outside of [low, high].
format::Json calibration_report(const Prepared& prepared, int64_t bins = 64);

// The quantized values of a converted program: [{of, by, dtype, quantMin, quantMax, channels, scale, zeroPoint}].
// `of` is the value, `by` who reads it if it is a folded weight. Of several channels' scales the least and the largest;
// none where they are chosen at run time.
format::Json converted_qparams_report(const Program& converted);

// What speaks against the samples of the calibration, one sentence each: an input that is zero in all of them.
std::vector<std::string> doubts_about_calibration(const Prepared& prepared);

// {layers: {total, quantized}, left: [{node, module, op, reason}], operators, conflicts, observers, qparams,
// dataWarnings?}: how many layers became integers, which did not and why, what became of each operator
// (explanation_report), what the observers saw and what came of it, and doubts_about_calibration().
format::Json quantization_report(const Prepared& prepared, const Program& converted);

// A self-contained HTML file that shows a report. Every field may be missing: those of quantization_report; model,
// made ({date, by, command, machine}), nodes (graph_report of the float program), bytes ([before, after]), recipe,
// samples, errors (LayerComparison::json); those of Evaluation::report with a file and an image (a data: URL) for each
// prediction; and classes (their names).
std::string report_html(const format::Json& report);

}  // namespace qdq
