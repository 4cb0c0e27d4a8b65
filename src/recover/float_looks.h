// What the values of a prepared program are like in floats, as several remedies ask for it.
#pragma once

#include <functional>
#include <map>
#include <vector>

#include "quant/observers/range_histogram.h"
#include "recover/seams.h"

namespace qdq {

struct FloatLooks {
  std::vector<Seam> seams;  // with the ranges of their channels
  // What passes the observers of activations that take one range, within what the clamps behind them let through.
  std::map<size_t, RangeHistogram> histograms;

  // Runs the program in floats on all batches. `tell` is called before each; `take`, if given, receives the outputs.
  static FloatLooks of(const Prepared& prepared, const std::vector<std::vector<Tensor>>& batches,
                       const std::function<void()>& tell,
                       const std::function<void(std::vector<Tensor> outputs)>& take = {});
};

}  // namespace qdq
