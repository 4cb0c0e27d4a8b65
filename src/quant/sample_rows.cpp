#include "quant/sample_rows.h"

#include <algorithm>

namespace qdq {

int64_t samples_of(const std::vector<Tensor>& inputs) {
  return inputs.empty() || !inputs[0].defined() || inputs[0].dim() == 0 ? 1 : inputs[0].size(0);
}

std::optional<int64_t> row_with(const Tensor& values, bool (*is_odd)(float)) {
  if (!is_floating(values.dtype()) || values.numel() == 0) return std::nullopt;
  const Tensor flat = values.to(DType::kF32).contiguous();
  const std::span<const float> all = flat.span<float>();
  const auto at = std::find_if(all.begin(), all.end(), is_odd);
  if (at == all.end()) return std::nullopt;
  return values.dim() == 0 ? 0 : (at - all.begin()) / (values.numel() / values.size(0));
}

}  // namespace qdq
