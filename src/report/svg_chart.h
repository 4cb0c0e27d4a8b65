// Charts as SVG files: the errors of layers, and histograms of tensors.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tensor/tensor.h"

namespace qdq {

// One layer: the signal-to-noise ratios in dB of its own fault and of its value, which has the faults of all layers so
// far; nothing where the values are equal or not known.
struct ErrorBar {
  std::string name;
  std::optional<double> own_db, all_db;
};
// Bars from 0 to 60 dB, a row for each layer in the order given. The names are shown as text, whatever is in them.
std::string error_chart(const std::string& title, const std::vector<ErrorBar>& layers);

// How often each range of values occurs in a tensor, in bins of equal width.
struct Histogram {
  std::string name;  // of the tensor
  std::string note;  // "int8, 432 elements"
  double min = 0, max = 0;
  std::vector<int64_t> counts;
};
// Of a tensor of floats or integers: 64 bins from its smallest to its largest finite value; of integers of 8 bits a bin
// for each four of their dtype's values. Without bins for an empty tensor, and for other dtypes.
Histogram histogram_of(const std::string& name, const Tensor& tensor);
// The histograms in rows of three, heights linear.
std::string histogram_chart(const std::string& title, const std::vector<Histogram>& histograms);

}  // namespace qdq
