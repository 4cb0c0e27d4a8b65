// What PyTorch's native backend (fbgemm, qnnpack, oneDNN) can quantize in FX graph mode, and with which dtypes.
// Semantics: torch/ao/quantization/backend_config/native.py and _common_operator_config_utils.py of PyTorch 2.6.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "quant/observers/observer.h"
#include "quant/fx/qconfig.h"

namespace qdq {

// How the output of an operator is observed (ObservationType): by an observer of its own, by that of its first input;
// of add and mul that depends on whether the other operand is a number.
enum class Observation { kOwn, kShared, kSharedWithNumber };

// A tensor's type as a DTypeConfig asks for it. kAny: whatever there is.
enum class QuantizedDType { kAny, kFloat32, kFloat16, kQuint8, kQint8, kQuint4x2, kOther };
QuantizedDType quantized_dtype(const ObserverArgs& settings);

struct DTypeConfig {
  QuantizedDType input = QuantizedDType::kAny, output = QuantizedDType::kAny, weight = QuantizedDType::kAny,
                 bias = QuantizedDType::kAny;
  bool is_dynamic = false;
};

// One kind of operators.
struct BackendPattern {
  std::string_view name;  // for explain(): "conv"
  Observation observation = Observation::kOwn;
  std::span<const DTypeConfig> dtype_configs{};
  bool takes_relu = false;  // a relu behind it belongs to it
  bool has_weight = false;  // whose weight becomes integers (module forms)
  double fixed_scale = 0;   // operators whose output has a known range want these qparams; 0: no such wish
  int64_t fixed_zero_point = 0;
};

// The pattern of a recorded type ("torch.nn.modules.conv.Conv2d", "torch._C._nn.linear", "_operator.add", or the method
// "view"); null if the backend has none.
const BackendPattern* find_backend_pattern(std::string_view type);

// All of them, with the types of each.
std::vector<std::pair<std::vector<std::string>, const BackendPattern*>> backend_patterns();

// The name under which the backend knows the ATen operator "torch.ops.aten.relu.default" as a function or method, or
// "torch.relu" style for one that it does not know.
std::string function_of_operator(std::string_view target);

// Whether the backend takes tensors that are observed so. `weight_counts`: the weight is an argument (a function), or
// is that of a module that is about to be converted.
bool supports(const BackendPattern& pattern, const QConfig& qconfig, bool weight_counts);

}  // namespace qdq
