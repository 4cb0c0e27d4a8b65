// From ranges of floats to scales and zero points (torch/ao/quantization/observer.py, UniformQuantizationObserverBase).
#pragma once

#include <cstdint>
#include <span>

#include "quant/observers/observer.h"

namespace qdq {

struct IntegerRange {
  int64_t min = 0;
  int64_t max = 0;
};

// All integers that an observer's integral dtype holds, of those wider than 32 bits the ones that fit these.
IntegerRange limits_of(DType dtype);

// The integers in force: custom limits or those of the dtype, halved by reduce_range (custom limits by floor division).
// Throws Error{kInvalidArgument} if the dtype or the limits are not what PyTorch's observers take
// (torch/ao/quantization/utils.py, validate_qmin_qmax and calculate_qmin_qmax).
IntegerRange integer_range(const ObserverArgs& args);

// One scale and zero point for each pair of min and max, in f32 with half to even (observer.py, _calculate_qparams):
//   symmetric     scale = max(|min|, max) / ((range.max - range.min) / 2), zero point 0, or the middle for unsigned
// dtypes
//   affine        scale = (max - min) / (range.max - range.min) with min <= 0 <= max, zero point = range.min -
// round(min / scale)
//   float_qparams the same without including 0, and the zero point -min / scale as a float
// scale is at least eps. Throws Error{kInvalidArgument} if a min is greater than its max or NaN.
QParams qparams_of_range(std::span<const float> min, std::span<const float> max, const ObserverArgs& args,
                         IntegerRange range);

// The parameters that FusedMovingAvgObsFakeQuantize quantizes with while it observes; convert uses others
// (ATen/native/quantized/cpu/QuantUtils.h, ChooseQuantizationParams): in double, no eps but a scale of at least 6.1e-5,
// and a zero point nudged from one end. Throws Error{kInvalidArgument} if min is greater than max or NaN.
struct FusedQParams {
  float scale = 1;
  int32_t zero_point = 0;
};
FusedQParams fused_qparams(float min, float max, IntegerRange range, bool symmetric);

}  // namespace qdq
