// What layers read of the calibration data, in sums that merge exactly: enough to equalize, to round weights and to
// correct biases without samples.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "quant/exact_sums.h"
#include "tensor/tensor.h"

namespace qdq {

class Prepared;

// Of one convolution or linear layer whose weight becomes integers. x is what its kernel sees at one place, `depth`
// numbers a group: the channels of the group, and within each the taps of the kernel; zeros where it lies on padding.
struct LayerStatistics {
  std::string layer;  // its node in the prepared program
  int64_t groups = 1, depth = 0;
  bool has_products = false;
  int64_t places = 0;                 // that were seen
  std::vector<float> least, largest;  // of each channel that it reads; none before data
  ExactSums sums;                     // of x [groups, depth]
  // Of x x^T, its lower triangle row by row [groups, depth (depth + 1) / 2], where the weight has few integers or
  // scales by groups (has_products); else of the squares of x [groups, depth].
  ExactSums squares;

  size_t num_squares() const;
};

// From now on run() sees for each batch what such layers read in floats, at no more than 4096 places of each
// (docs/scale.md has what that costs). Transposed convolutions and layers whose weight others read too are left out.
// What a batch adds is computed in its own order, and batches are added up exactly. Throws Error{kInvalidArgument} for
// a program that was prepared for training, or has no such layer.
void observe_layers(Prepared& prepared);
// In the order of the graph; none unless they are observed or were loaded.
const std::vector<LayerStatistics>& layer_statistics(const Prepared& prepared);
// Gives a program what the layers of the same program have read elsewhere; `what` names it in errors. Throws
// Error{kInvalidArgument} if they are not its layers.
void load_layer_statistics(Prepared& prepared, std::vector<LayerStatistics> statistics, const std::string& what);

}  // namespace qdq
