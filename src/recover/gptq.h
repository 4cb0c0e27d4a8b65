// Which integers weights become that share scales by groups along their rows.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "recover/recovery.h"

namespace qdq {

// Rounds the weights of linear layers in groups (PerGroup observers) for what the layers make of them on the samples,
// not each to the nearest: layer after layer, the integers of a row with the smallest sum of (w x - q x')^2, where x is
// what the float layer reads and x' what it reads behind layers that are rounded already (x' alone if a run selects the
// rows, as a router does: they are other tokens then). Columns are rounded in order, each with the error of those
// before it (Frantar et al. 2022, GPTQ, in the form of Babai's nearest plane); then each weight in turn takes the
// integer that is best beside the others, and each group the scale that is best for its integers, until nothing
// changes. A hundredth of the mean square of x' holds the weights near the float ones, or more where the rows are few
// beside the depth, up to all of it. Sums are in double and in the order of the samples; rows are divided among
// threads, never sums.
// A weight that several layers read stays as it is. Returns how many layers were rounded; 0 if none is in groups.
// `on_rounding`, if given, is told how many of how many layers are done; what it throws leaves the program as it was.
// Throws Error{kInvalidArgument} if there are no batches, and what a run throws for batches that do not fit.
int64_t gptq(Prepared& prepared, const std::vector<Batch>& batches,
             const std::function<void(int64_t done, int64_t total)>& on_rounding = {});
// Whether there are such layers.
bool gptq_has_layers(Prepared& prepared);

}  // namespace qdq
