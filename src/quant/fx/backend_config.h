// What a backend can quantize in FX graph mode: patterns of modules and functions, with the dtypes that it takes and
// the limits that it sets to them. Semantics: torch/ao/quantization/backend_config/backend_config.py of PyTorch 2.6.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "quant/fx/qconfig.h"
#include "quant/observers/observer.h"

namespace qdq {

// How the output of a pattern is observed: by an observer of its own, by that of its first input, or not at all, as its
// inputs are not either. (PyTorch 2.6 takes the last one for the first; so does Compat::kTorch26.)
enum class ObservationType {
  kOutputUseDifferentObserverAsInput,
  kOutputShareObserverWithInput,
  kInputOutputNotObserved
};
std::string_view to_string(ObservationType type);  // "OUTPUT_SHARE_OBSERVER_WITH_INPUT"
// Throws Error{kInvalidArgument} for a name that is none of the three.
ObservationType observation_type_from_name(std::string_view name);
std::vector<std::string_view> observation_type_names();

// The dtype of a QConfig's observer as backends name it: "quint8", "qint8", "quint4x2", "float16", "float32". Plain
// integers count as PyTorch's quantized types on them.
std::string quantized_dtype(const ObserverArgs& settings);

// A dtype, and what an observer must promise of the numbers. A QConfig that breaks a promise is ignored, with a
// warning.
struct DTypeWithConstraints {
  std::string dtype{};  // empty: any
  // The observer's quant_min and quant_max must lie within (both or none).
  std::optional<int64_t> quant_min_lower_bound{}, quant_max_upper_bound{};
  // The observer's eps must not be below. The upper bound is kept and not asked for, as in PyTorch.
  std::optional<double> scale_min_lower_bound{}, scale_max_upper_bound{};
  // It must be a FixedQParamsObserver (or FixedQParamsFakeQuantize) with this scale and zero point (both or none).
  std::optional<double> scale_exact_match{};
  std::optional<int64_t> zero_point_exact_match{};

  bool operator==(const DTypeWithConstraints&) const = default;
};

struct DTypeConfig {
  DTypeWithConstraints input_dtype{}, output_dtype{}, weight_dtype{};
  std::string bias_dtype{};  // empty: any
  bool is_dynamic = false;

  bool operator==(const DTypeConfig&) const = default;
};

// A pattern in PyTorch's complex format: the last operator, and what its inputs must come from, one for each tensor it
// reads; none: they come from anywhere. `type` is "torch.nn.Conv2d", "torch.nn.functional.relu", "operator.add", the
// name of a method, a module class of one's own ("net.Block", or "Block" wherever it lies), or "MatchAllNode", which is
// any value.
struct BackendPattern {
  std::string type{};
  std::vector<BackendPattern> inputs{};

  bool operator==(const BackendPattern&) const = default;
};

struct BackendPatternConfig {
  std::string name{};  // for explain(); empty: the pattern, as text
  BackendPattern pattern{};
  ObservationType observation_type = ObservationType::kOutputUseDifferentObserverAsInput;
  std::vector<DTypeConfig> dtype_configs{};
  // The module class whose weight becomes integers (module patterns); empty: its weight stays float. Functions with a
  // weight are known by their operators.
  std::string root_module{};
  // The class that the modules of the pattern become before all else (PyTorch's fuser method makes it); a batch norm
  // among them is folded. Empty: they stay what they are.
  std::string fused_module{};
  // Where there are entries: the observation type by how many tensors the root reads (x + y, x + 1).
  std::vector<std::pair<int64_t, ObservationType>> num_tensor_args_to_observation_type{};
};

// PyTorch's simple format: one operator behind the other. Throws Error{kInvalidArgument} for less than one or more than
// three.
BackendPattern pattern_of_sequence(const std::vector<std::string>& types);
std::string to_string(const BackendPattern& pattern);  // "torch.nn.ReLU(torch.nn.Conv2d)"
// The operator that reads the pattern's inputs: the innermost and rightmost one.
const BackendPattern& root_of(const BackendPattern& pattern);

struct BackendConfig {
  std::string name;
  std::vector<BackendPatternConfig> configs;

  // Takes the place of a config with the same pattern. Throws Error{kInvalidArgument} for bounds that come without
  // their partners, and a pattern without dtype configs.
  BackendConfig& set_backend_pattern_config(BackendPatternConfig config);
};

// PyTorch's: "native" (that of fbgemm and qnnpack), "fbgemm", "x86", "qnnpack", "onednn", "executorch", "tensorrt".
// Throws Error{kInvalidArgument} for another name. The class of a fused module stands for its form in training, too.
const BackendConfig& get_backend_config(std::string_view name);
std::vector<std::string_view> backend_config_names();

// The name under which functions and classes are recorded: source_name, and the classes of torch.ao.nn.intrinsic.
std::string recorded_name(std::string_view type);
BackendPattern with_recorded_names(const BackendPattern& pattern);

// The name under which the native backend knows the ATen operator "torch.ops.aten.relu.default" as a function or
// method, or "torch.relu" style for one that it does not know.
std::string function_of_operator(std::string_view target);

// Whether the pattern takes tensors that are observed so. `weight_counts`: the weight is an argument (a function), or
// is that of a module that is about to be converted. Where the dtypes fit and a constraint is broken, `broken` gets it
// as a clause: "its activation's eps 1e-07 is below the backend's 0.0002".
bool supports(const BackendPatternConfig& pattern, const QConfig& qconfig, bool weight_counts, std::string& broken);

// Whether the pattern wants a fixed scale of its input.
bool has_fixed_range(const BackendPatternConfig& pattern);

}  // namespace qdq
