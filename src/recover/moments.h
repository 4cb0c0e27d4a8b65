// What layers read of the calibration data, as numbers that remedies change; and the remedies that need no more.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "quant/pt2e.h"

namespace qdq {

// LayerStatistics as numbers that remedies change.
struct LayerMoments {
  int64_t groups = 1, depth = 0, places = 0;
  bool has_products = false;
  std::vector<float> least, largest;  // of each channel
  std::vector<double> sums, squares;  // as in LayerStatistics

  double square_of(int64_t group, int64_t column) const;
  // Of x that is divided by these factors, one a channel.
  void divide(const std::vector<float>& by);
};
using MomentsOfLayers = std::unordered_map<std::string, LayerMoments>;  // by node
// Of the layers that were seen. Throws Error{kNotCalibrated} if none was observed.
MomentsOfLayers moments_of_layers(const Prepared& prepared);

int64_t equalize_by(Prepared& prepared, MomentsOfLayers& moments);
int64_t round_weights_by(Prepared& prepared, const MomentsOfLayers& moments);
int64_t correct_biases_by(Prepared& prepared, const MomentsOfLayers& moments);

}  // namespace qdq
