// Which size the channels get that weights in groups read.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "recover/recovery.h"

namespace qdq {

// Scales the channels that linear layers with weights in groups (PerGroup observers) read, so that the channels with
// large activations lose least by rounding (Lin et al. 2023, AWQ): the columns of these weights are multiplied by s,
// and what makes the channels is divided by it, a norm, a linear layer or a product with a constant. The factor s of a
// channel is the mean of |x| over the samples to the power of alpha, over the geometric mean of the largest and the
// smallest such factor of the seam. alpha is the one of 0, 0.05, ..., 0.95 with which the layers that read the channels
// lose least: the sum over them of the squares of x (q(w s) / s - w) over those of x w, on 512 places of the samples.
// Channels that something else needs as they are, or that a clamp may cut, keep their size. What the float program
// computes stays the same but for its rounding. Comes before gptq(), which then rounds the scaled weights. Returns how
// many places were scaled. `on_scaling`, if given, is told how many of how many are done; what it throws leaves the
// program as it was. Throws Error{kInvalidArgument} if there are no batches or weights are rounded already, and what a
// run throws for batches that do not fit.
int64_t awq(Prepared& prepared, const std::vector<Batch>& batches,
            const std::function<void(int64_t done, int64_t total)>& on_scaling = {});
// Whether there are places whose channels may be scaled.
bool awq_has_places(Prepared& prepared);

}  // namespace qdq
