// Specs of weights of 4 bits in groups, and of the activations beside them.
#pragma once

#include <string>

#include "quant/spec.h"

namespace qdq {

inline QuantizationSpec weight_in_groups(const std::string& observer, int64_t group,
                                         QScheme scheme = QScheme::kPerChannelSymmetric) {
  QuantizationSpec out;
  out.dtype = DType::kS8;
  out.quant_min = -8;
  out.quant_max = 7;
  out.qscheme = scheme;
  out.ch_axis = 0;
  out.observer.class_name = observer;
  out.observer.group_size = group;
  return out;
}

inline QuantizationSpec activation_by_token() {
  QuantizationSpec out;
  out.dtype = DType::kS8;
  out.qscheme = QScheme::kPerTokenAffine;
  out.is_dynamic = true;
  out.observer.class_name = "PlaceholderObserver";
  return out;
}

}  // namespace qdq
