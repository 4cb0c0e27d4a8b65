// Errors of quantization, layer by layer.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "format/json_fwd.h"
#include "quant/pt2e.h"

namespace qdq {

// How far the value of each operator moves when a program is quantized, summed over batches.
class LayerErrors {
 public:
  // Follows the operators that have the same name in both programs; operators that were replaced are left out.
  LayerErrors(const Prepared& prepared, const Program& converted);
  LayerErrors(LayerErrors&&) noexcept;
  ~LayerErrors();

  // Runs both programs on one batch, the inputs in the order of the program's. Between the two runs the float values of
  // one batch are in memory. Throws what Interpreter::run throws.
  void add(const std::vector<Tensor>& inputs);

  // [{node, module, op, sqnrDb, mse, quantized}], largest error first, where sqnrDb = 10 log10(sum x^2 / sum (x -
  // y)^2) of the float values x and the values y that the quantized program goes on with (null if all are equal), mse
  // is the mean of (x - y)^2 and `quantized` tells whether y went through integers.
  format::Json json() const;

 private:
  struct Layer {
    std::string node, module, op;
    bool quantized = false;
    double signal = 0, noise = 0, elements = 0;
  };
  Program float_, quantized_;
  std::unique_ptr<OpBackend> backend_;
  std::vector<Layer> layers_;
  std::map<const Node*, size_t> in_float_, in_quantized_;
};

}  // namespace qdq
