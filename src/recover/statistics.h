// Recovery of accuracy by statistics of the layers' inputs on the calibration data, in sums that merge, and without
// samples.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "quant/layer_statistics.h"
#include "quant/pt2e.h"

namespace qdq {

// What a remedy did: `changes` places, 0 if there was nothing to do.
struct AppliedRemedy {
  std::string remedy;  // "equalization", "rounding" or "bias correction"
  int64_t changes = 0;
};

// Applies the three remedies that need no more than layer_statistics(prepared), each a simpler form of that of
// recovery.h, for nothing runs on samples and nothing is judged by the outputs:
// - equalization where the error that the sums foresee falls by a third: of weights by the mean squares of what they
//   multiply, of activations a twelfth of a squared step. Channels behind a clamp (ReLU6) stay as they are, and those
//   whose observer others share;
// - rounding of weights of 5 bits or fewer, with what the float layer reads for what it reads in integers (x' = x);
// - bias correction for what the rounding of the weight moves each channel by: not layer after layer, and without what
//   the rounding of activations moves. Layers seen at fewer than 8 places stay as they are.
// Throws Error{kNotCalibrated} if there are no statistics, or the program needs data first.
std::vector<AppliedRemedy> recover_by_statistics(Prepared& prepared);
// Bias correction without any data (Nagel et al. 2019, Data-Free Quantization, 4.2): the bias of a layer compensates
// the shift of each channel by the rounding of its weight, computed from the mean of the layer's inputs, which folded
// batch norms provide. Values behind such a norm count as normally distributed, with its bias as the mean and its
// weight as the standard deviation. ReLU, ReLU6 and other clamps, pools, means, paddings and sums between the norm and
// the layer are taken into account, but not the zeros around an image. Layers behind anything else, such as the first
// one, do not change. Needs no calibration, and so works for weights-only and dynamic quantization. Returns {"bias
// correction", layers}. Throws Error{kInvalidArgument} for a program that was prepared for training.
AppliedRemedy recover_without_data(Prepared& prepared);
// Whether they tell of any layer.
bool recovers_without_data(const Prepared& prepared);
// gptq() (gptq.h) of such sums, with x' = x. Returns how many layers were rounded; 0 if none is in groups.
int64_t gptq_by_statistics(Prepared& prepared);

}  // namespace qdq
