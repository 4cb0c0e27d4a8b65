// Backend configs: patterns, and whether a QConfig fits.
#include "quant/fx/backend_config.h"

#include <algorithm>
#include <array>
#include <unordered_set>

#include "base/error.h"
#include "graph/source_partition.h"
#include "op/facts.h"

namespace qdq {

namespace {

constexpr std::array<std::pair<std::string_view, ObservationType>, 3> kObservationTypes = {
    {{"OUTPUT_USE_DIFFERENT_OBSERVER_AS_INPUT", ObservationType::kOutputUseDifferentObserverAsInput},
     {"OUTPUT_SHARE_OBSERVER_WITH_INPUT", ObservationType::kOutputShareObserverWithInput},
     {"INPUT_OUTPUT_NOT_OBSERVED", ObservationType::kInputOutputNotObserved}}};

// What a backend can ask of an observer; nothing where the class has no such property.
struct Promises {
  std::optional<int64_t> quant_min, quant_max;
  std::optional<double> scale_min;
  bool has_fixed_qparams = false;
};

Promises promises_of(const ObserverWithArgs& observer, const ObserverArgs& settings) {
  const auto is_of = [&](std::string_view word) { return observer.class_name.starts_with(word); };
  Promises out;
  out.has_fixed_qparams = is_of("FixedQParams");
  if (is_of("NoopObserver") || is_of("ReuseInputObserver") || is_of("RecordingObserver")) return out;
  if (!out.has_fixed_qparams) out.scale_min = settings.eps;
  if (is_of("PlaceholderObserver")) {
    out.quant_min = settings.quant_min;
    out.quant_max = settings.quant_max;
    return out;
  }
  const std::shared_ptr<Observer> instance = make_observer(observer.class_name, settings);
  out.quant_min = instance->quant_min();
  out.quant_max = instance->quant_max();
  return out;
}

// Which constraint the observer breaks, as a clause about `what`; empty: none.
std::string broken_constraint(const DTypeWithConstraints& wanted, const ObserverWithArgs& observer, const char* what) {
  const ObserverArgs settings = observer.settings();
  const Promises found = promises_of(observer, settings);
  if (wanted.quant_min_lower_bound && wanted.quant_max_upper_bound) {
    if (!found.quant_min || !found.quant_max) return concat("its ", what, " says no quant_min and quant_max");
    if (*found.quant_min < *wanted.quant_min_lower_bound || *found.quant_max > *wanted.quant_max_upper_bound)
      return concat("its ", what, " has integers from ", *found.quant_min, " to ", *found.quant_max,
                    ", the backend from ", *wanted.quant_min_lower_bound, " to ", *wanted.quant_max_upper_bound);
  }
  if (wanted.scale_min_lower_bound) {
    if (!found.scale_min) return concat("its ", what, " says no eps");
    if (*found.scale_min < *wanted.scale_min_lower_bound)
      return concat("its ", what, " has the eps ", *found.scale_min, ", the backend takes scales from ",
                    *wanted.scale_min_lower_bound);
  }
  if (wanted.scale_exact_match && wanted.zero_point_exact_match) {
    if (!found.has_fixed_qparams)
      return concat("its ", what, " is no FixedQParamsObserver, but the backend has the fixed scale ",
                    *wanted.scale_exact_match, " and zero point ", *wanted.zero_point_exact_match);
    if (settings.scale != *wanted.scale_exact_match || settings.zero_point != *wanted.zero_point_exact_match)
      return concat("its ", what, " has the fixed scale ", settings.scale, " and zero point ", settings.zero_point,
                    ", the backend ", *wanted.scale_exact_match, " and ", *wanted.zero_point_exact_match);
  }
  return {};
}

void check_constraints(const DTypeWithConstraints& dtype, const std::string& pattern) {
  QDQ_CHECK(dtype.quant_min_lower_bound.has_value() == dtype.quant_max_upper_bound.has_value(), kInvalidArgument,
            "the pattern ", pattern, " bounds only one of quant_min and quant_max; give quant_min_lower_bound and ",
            "quant_max_upper_bound, or neither");
  QDQ_CHECK(dtype.scale_exact_match.has_value() == dtype.zero_point_exact_match.has_value(), kInvalidArgument,
            "the pattern ", pattern, " fixes only one of scale and zero point; give scale_exact_match and ",
            "zero_point_exact_match, or neither");
}

// The functions and methods of the native backend.
const std::unordered_set<std::string>& native_functions() {
  static const std::unordered_set<std::string> names = [] {
    std::unordered_set<std::string> out;
    for (const BackendPatternConfig& config : get_backend_config("native").configs)
      if (config.pattern.inputs.empty()) out.insert(recorded_name(config.pattern.type));
    return out;
  }();
  return names;
}

}  // namespace

std::string_view to_string(ObservationType type) {
  for (const auto& [name, known] : kObservationTypes)
    if (known == type) return name;
  fail(ErrorCode::kInternal, "an observation type without a name");
}

ObservationType observation_type_from_name(std::string_view name) {
  std::vector<std::string> names;
  for (const auto& [word, type] : kObservationTypes) {
    if (word == name) return type;
    names.emplace_back(word);
  }
  fail(ErrorCode::kInvalidArgument, "there is no observation type '", name, "'; wanted ", names[0], ", ", names[1],
       " or ", names[2]);
}

std::vector<std::string_view> observation_type_names() {
  std::vector<std::string_view> out;
  for (const auto& [name, type] : kObservationTypes) out.push_back(name);
  return out;
}

std::string quantized_dtype(const ObserverArgs& settings) {
  if (settings.qdtype == QDType::kQuint4x2) return "quint4x2";
  switch (settings.dtype) {
    case DType::kU8: return "quint8";
    case DType::kS8: return "qint8";
    case DType::kS32: return "qint32";
    default: return std::string(to_string(settings.dtype));
  }
}

BackendPattern pattern_of_sequence(const std::vector<std::string>& types) {
  QDQ_CHECK(!types.empty() && types.size() <= 3, kInvalidArgument, "a pattern has ", types.size(),
            " operators one behind the other; wanted 1 to 3");
  BackendPattern out{types[0], {}};
  for (size_t i = 1; i < types.size(); ++i) out = {types[i], {std::move(out)}};
  return out;
}

std::string to_string(const BackendPattern& pattern) {
  std::string out = pattern.type;
  for (size_t i = 0; i < pattern.inputs.size(); ++i) out += concat(i == 0 ? "(" : ", ", to_string(pattern.inputs[i]));
  return pattern.inputs.empty() ? out : out + ")";
}

const BackendPattern& root_of(const BackendPattern& pattern) {
  for (size_t i = pattern.inputs.size(); i-- > 0;)
    if (pattern.inputs[i].type != "MatchAllNode") return root_of(pattern.inputs[i]);
  return pattern;
}

BackendConfig& BackendConfig::set_backend_pattern_config(BackendPatternConfig config) {
  const std::string text = to_string(config.pattern);
  QDQ_CHECK(!config.pattern.type.empty(), kInvalidArgument, "a pattern of the backend config '", name,
            "' names no operator");
  QDQ_CHECK(!config.dtype_configs.empty(), kInvalidArgument, "the pattern ", text, " of the backend config '", name,
            "' has no dtype config, so that nothing would be quantized; give one");
  for (const DTypeConfig& dtypes : config.dtype_configs)
    for (const DTypeWithConstraints* dtype : {&dtypes.input_dtype, &dtypes.output_dtype, &dtypes.weight_dtype})
      check_constraints(*dtype, text);
  if (config.name.empty()) config.name = text;
  const auto found =
      std::find_if(configs.begin(), configs.end(), [&](const auto& other) { return other.pattern == config.pattern; });
  if (found == configs.end()) configs.push_back(std::move(config));
  else *found = std::move(config);
  return *this;
}

std::string recorded_name(std::string_view type) {
  constexpr std::string_view kIntrinsic = "torch.ao.nn.intrinsic.";
  if (type.starts_with(kIntrinsic) && type.find('.', kIntrinsic.size()) == std::string_view::npos)
    return concat(kIntrinsic, "modules.fused.", type.substr(kIntrinsic.size()));
  return source_name(type);
}

BackendPattern with_recorded_names(const BackendPattern& pattern) {
  BackendPattern out{recorded_name(pattern.type), {}};
  for (const BackendPattern& input : pattern.inputs) out.inputs.push_back(with_recorded_names(input));
  return out;
}

std::string function_of_operator(std::string_view target) {
  if (space_of(target) != "aten") return source_name(target);
  std::string_view name = base_name(target);
  if (name.size() > 1 && name.ends_with('_') && name[0] != '_') name.remove_suffix(1);
  if (name.starts_with("upsample_")) name = "interpolate";
  for (const std::string_view prefix : {"torch._C._nn.", "torch.nn.functional.", "torch.", ""})
    if (native_functions().count(concat(prefix, name)) != 0) return concat(prefix, name);
  return concat("torch.", name);
}

bool supports(const BackendPatternConfig& pattern, const QConfig& qconfig, bool weight_counts, std::string& broken) {
  const ObserverArgs activation = qconfig.activation ? qconfig.activation->settings() : ObserverArgs();
  const std::string input =
      qconfig.activation && qconfig.activation->class_name != "Identity" ? quantized_dtype(activation) : "";
  const std::string output = activation.is_dynamic ? "float32" : input;
  const std::string weight = qconfig.weight ? quantized_dtype(qconfig.weight->settings()) : "";
  const bool is_float16 = input == "float16" && weight == "float16" && !activation.is_dynamic;
  const std::string bias = is_float16 ? "float16" : "float32";
  const auto fits = [](const std::string& wanted, const std::string& found) {
    return wanted.empty() || wanted == found;
  };
  // Constraints count for a dtype that is observed as it stands there.
  const auto broken_by = [](const DTypeWithConstraints& wanted, const std::optional<ObserverWithArgs>& observer,
                            const std::string& found, const char* what) {
    if (wanted.dtype.empty() || wanted.dtype != found || !observer) return std::string();
    return broken_constraint(wanted, *observer, what);
  };
  for (const DTypeConfig& config : pattern.dtype_configs) {
    if (!fits(config.input_dtype.dtype, input) || !fits(config.output_dtype.dtype, output)) continue;
    if (!config.input_dtype.dtype.empty() && config.is_dynamic != activation.is_dynamic) continue;
    if (weight_counts && (!fits(config.weight_dtype.dtype, weight) || !fits(config.bias_dtype, bias))) continue;
    std::string why = broken_by(config.input_dtype, qconfig.activation, input, "activation");
    if (why.empty()) why = broken_by(config.output_dtype, qconfig.activation, input, "activation");
    if (why.empty() && weight_counts) why = broken_by(config.weight_dtype, qconfig.weight, weight, "weight");
    if (why.empty()) {
      broken.clear();
      return true;
    }
    broken = why;
  }
  return false;
}

bool has_fixed_range(const BackendPatternConfig& pattern) {
  return std::any_of(pattern.dtype_configs.begin(), pattern.dtype_configs.end(),
                     [](const DTypeConfig& config) { return config.input_dtype.scale_exact_match.has_value(); });
}

}  // namespace qdq
