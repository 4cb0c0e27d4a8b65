// What quantization did to a model, layer by layer: as data for the page and `--report`, and as a file that shows it.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "format/json.h"
#include "quant/pt2e.h"

namespace qdq {

// How far the value of each operator moves when a program is quantized, summed over batches.
class LayerErrors {
 public:
  // Follows the operators that bear one name in both programs; those that were replaced by other ones are left out.
  LayerErrors(const Prepared& prepared, const Program& converted);

  // Runs both programs on one batch, the inputs in the order of the program's. Between the two runs the float values of one batch
  // are in memory. Throws what Interpreter::run throws.
  void add(const std::vector<Tensor>& inputs);

  // [{node, module, op, sqnr_db, mse, quantized}], largest error first, where sqnr_db = 10 log10(sum x^2 / sum (x - y)^2) of the
  // float values x and the values y that the quantized program goes on with (null if all are equal), mse is the mean of (x - y)^2
  // and `quantized` tells whether y went through integers.
  format::Json json() const;

 private:
  struct Layer {
    std::string node, module, op;
    bool quantized = false;
    double signal = 0, noise = 0, elements = 0;
  };
  Program float_, quantized_;
  std::unique_ptr<Backend> backend_;
  std::vector<Layer> layers_;
  std::map<const Node*, size_t> in_float_, in_quantized_;
};

// Every observer with the range it saw and the range its integers reach, its histogram (where it has one) in `bins` bins:
// [{id, class, dtype, qscheme, quant_min, quant_max, covers, channels, min, max, counts, low, high, scale, zero_point, clipped}].
// Fields that need data are missing before it was seen. Per channel: min, max, low, high over all channels, and no scale.
// `clipped` is the share of the values seen that lie outside of [low, high].
format::Json calibration_report(const Prepared& prepared, int64_t bins = 64);

// The quantized values of a converted program: [{of, by, dtype, quant_min, quant_max, channels, scale, zero_point}]. `of` is the value,
// `by` who reads it if it is a folded weight. Of several channels' scales the least and the largest; none where they are chosen at run time.
format::Json converted_qparams_report(const Program& converted);

// {layers: {total, quantized}, left: [{node, module, op, reason}], operators, conflicts, observers, qparams}: how many layers became
// integers, which did not and why, what became of each operator (explanation_report), what the observers saw and what came of it.
format::Json quantization_report(const Prepared& prepared, const Program& converted);

// The operators that could compute on integers: those with a weight, sums, products and matrix products.
int64_t count_layers(const Program& program);

// A file of HTML that shows a report and needs nothing besides itself. Shown are those fields that the report has: those of
// quantization_report, and model, nodes (graph_report of the float program), bytes ([before, after]), recipe, samples, errors
// (LayerErrors::json), those of Evaluation::report with a file and an image (a data: URL) for each prediction, and classes (their names).
std::string report_html(const format::Json& report);

}  // namespace qdq
