// PyTorch's named observers and qconfigs as two tables of text.
#include "quant/fx/qconfig.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"

namespace qdq {

namespace {

struct NamedObserver {
  std::string_view name;
  std::string_view text;  // class, then arguments; `observer=` names another row, or a class
};

constexpr NamedObserver kObservers[] = {
    {"default_observer", "MinMaxObserver quant_min=0 quant_max=127"},
    {"default_placeholder_observer", "PlaceholderObserver"},
    {"default_debug_observer", "RecordingObserver"},
    {"default_weight_observer", "MinMaxObserver dtype=qint8 qscheme=per_tensor_symmetric"},
    {"weight_observer_range_neg_127_to_127",
     "MinMaxObserver dtype=qint8 qscheme=per_tensor_symmetric quant_min=-127 quant_max=127 eps=0.000244140625"},
    {"default_histogram_observer", "HistogramObserver quant_min=0 quant_max=127"},
    {"default_per_channel_weight_observer", "PerChannelMinMaxObserver dtype=qint8 qscheme=per_channel_symmetric"},
    {"per_channel_weight_observer_range_neg_127_to_127",
     "PerChannelMinMaxObserver dtype=qint8 qscheme=per_channel_symmetric quant_min=-127 quant_max=127 "
     "eps=0.000244140625"},
    {"default_dynamic_quant_observer", "PlaceholderObserver dtype=quint8 quant_min=0 quant_max=255 is_dynamic=true"},
    {"default_float_qparams_observer",
     "PerChannelMinMaxObserver dtype=quint8 qscheme=per_channel_affine_float_qparams ch_axis=0"},
    {"default_float_qparams_observer_4bit",
     "PerChannelMinMaxObserver dtype=quint4x2 qscheme=per_channel_affine_float_qparams ch_axis=0"},
    {"default_fixed_qparams_range_0to1_observer",
     "FixedQParamsObserver scale=0.00390625 zero_point=0 dtype=quint8 quant_min=0 quant_max=255"},
    {"default_fixed_qparams_range_neg1to1_observer",
     "FixedQParamsObserver scale=0.0078125 zero_point=128 dtype=quint8 quant_min=0 quant_max=255"},
    {"default_reuse_input_observer", "ReuseInputObserver"},
    {"histogram", "HistogramObserver"},
    {"histogram_reduced", "HistogramObserver reduce_range=true"},
    {"histogram_full", "HistogramObserver reduce_range=false"},
    {"histogram_qint8", "HistogramObserver dtype=qint8 reduce_range=false eps=0.000244140625"},
    {"min_max", "MinMaxObserver"},
    {"noop", "NoopObserver"},
    {"noop_float32", "NoopObserver dtype=float32"},
    {"identity", "Identity"},
    {"float16", "PlaceholderObserver dtype=float16"},
    {"float16_dynamic", "PlaceholderObserver dtype=float16 is_dynamic=true"},
    {"float32", "PlaceholderObserver dtype=float32"},
    {"quint8", "PlaceholderObserver dtype=quint8"},
    {"default_fake_quant",
     "FakeQuantize observer=MovingAverageMinMaxObserver quant_min=0 quant_max=255 dtype=quint8 "
     "qscheme=per_tensor_affine reduce_range=true"},
    {"default_weight_fake_quant",
     "FakeQuantize observer=MovingAverageMinMaxObserver quant_min=-128 quant_max=127 dtype=qint8 "
     "qscheme=per_tensor_symmetric reduce_range=false"},
    {"default_dynamic_fake_quant",
     "FakeQuantize observer=MovingAverageMinMaxObserver quant_min=0 quant_max=255 is_dynamic=true dtype=quint8 "
     "averaging_constant=1"},
    {"default_per_channel_weight_fake_quant",
     "FakeQuantize observer=MovingAveragePerChannelMinMaxObserver quant_min=-128 quant_max=127 "
     "dtype=qint8 qscheme=per_channel_symmetric reduce_range=false ch_axis=0"},
    {"default_embedding_fake_quant",
     "FakeQuantize observer=MovingAveragePerChannelMinMaxObserver qscheme=per_channel_affine_float_qparams "
     "dtype=quint8 quant_min=0 quant_max=255 ch_axis=0 averaging_constant=1"},
    {"default_embedding_fake_quant_4bit",
     "FakeQuantize observer=MovingAveragePerChannelMinMaxObserver qscheme=per_channel_affine_float_qparams "
     "ch_axis=0 dtype=quint4x2 averaging_constant=1"},
    {"default_fused_act_fake_quant",
     "FusedMovingAvgObsFakeQuantize observer=MovingAverageMinMaxObserver quant_min=0 quant_max=255 dtype=quint8"},
    {"default_fused_wt_fake_quant",
     "FusedMovingAvgObsFakeQuantize observer=MovingAverageMinMaxObserver quant_min=-128 quant_max=127 dtype=qint8 "
     "qscheme=per_tensor_symmetric"},
    {"default_fused_per_channel_wt_fake_quant",
     "FusedMovingAvgObsFakeQuantize observer=MovingAveragePerChannelMinMaxObserver quant_min=-128 "
     "quant_max=127 dtype=qint8 qscheme=per_channel_symmetric"},
    {"fused_wt_fake_quant_range_neg_127_to_127",
     "FusedMovingAvgObsFakeQuantize observer=MovingAverageMinMaxObserver quant_min=-127 quant_max=127 "
     "dtype=qint8 qscheme=per_tensor_symmetric eps=0.000244140625"},
    {"fused_per_channel_wt_fake_quant_range_neg_127_to_127",
     "FusedMovingAvgObsFakeQuantize observer=MovingAveragePerChannelMinMaxObserver quant_min=-127 quant_max=127 "
     "dtype=qint8 "
     "qscheme=per_channel_symmetric eps=0.000244140625"},
    {"fused_qint8",
     "FusedMovingAvgObsFakeQuantize observer=MovingAverageMinMaxObserver quant_min=-128 quant_max=127 dtype=qint8 "
     "reduce_range=false eps=0.000244140625"},
    {"fused_reduced",
     "FusedMovingAvgObsFakeQuantize observer=MovingAverageMinMaxObserver quant_min=0 quant_max=255 reduce_range=true"},
    {"fused_full",
     "FusedMovingAvgObsFakeQuantize observer=MovingAverageMinMaxObserver quant_min=0 quant_max=255 reduce_range=false"},
    {"fused", "FusedMovingAvgObsFakeQuantize observer=MovingAverageMinMaxObserver quant_min=0 quant_max=255"},
    {"fake_reduced", "FakeQuantize observer=MovingAverageMinMaxObserver quant_min=0 quant_max=255 reduce_range=true"},
    {"fake_full", "FakeQuantize observer=MovingAverageMinMaxObserver quant_min=0 quant_max=255 reduce_range=false"},
    {"fake", "FakeQuantize observer=MovingAverageMinMaxObserver quant_min=0 quant_max=255"},
    {"fixed_qparams_fake_quant_0to1", "FixedQParamsFakeQuantize observer=default_fixed_qparams_range_0to1_observer"},
    {"fixed_qparams_fake_quant_neg1to1",
     "FixedQParamsFakeQuantize observer=default_fixed_qparams_range_neg1to1_observer"},
};

struct NamedQConfig {
  std::string_view name, activation, weight;  // rows of the table above; an empty weight: none
};
constexpr NamedQConfig kQConfigs[] = {
    {"default_qconfig", "default_observer", "default_weight_observer"},
    {"default_debug_qconfig", "default_debug_observer", "default_weight_observer"},
    {"default_per_channel_qconfig", "default_observer", "default_per_channel_weight_observer"},
    {"default_dynamic_qconfig", "default_dynamic_quant_observer", "default_weight_observer"},
    {"float16_dynamic_qconfig", "float16_dynamic", "float16"},
    {"float16_static_qconfig", "float16", "float16"},
    {"per_channel_dynamic_qconfig", "default_dynamic_quant_observer", "default_per_channel_weight_observer"},
    {"float_qparams_weight_only_qconfig", "default_placeholder_observer", "default_float_qparams_observer"},
    {"float_qparams_weight_only_qconfig_4bit", "default_placeholder_observer", "default_float_qparams_observer_4bit"},
    {"default_quint8_weight_qconfig", "histogram", "min_max"},
    {"default_qat_qconfig", "default_fake_quant", "default_weight_fake_quant"},
    {"default_dynamic_qat_qconfig", "default_dynamic_fake_quant", "default_weight_fake_quant"},
    {"default_weight_only_qconfig", "identity", "default_weight_fake_quant"},
    {"default_activation_only_qconfig", "default_fake_quant", "identity"},
    {"default_qat_qconfig_v2", "default_fused_act_fake_quant", "default_fused_wt_fake_quant"},
    {"default_reuse_input_qconfig", "default_reuse_input_observer", "noop"},
    {"default_symmetric_qnnpack_qconfig", "histogram_qint8", "weight_observer_range_neg_127_to_127"},
    {"default_per_channel_symmetric_qnnpack_qconfig", "histogram_qint8",
     "per_channel_weight_observer_range_neg_127_to_127"},
    {"default_symmetric_qnnpack_qat_qconfig", "fused_qint8", "fused_wt_fake_quant_range_neg_127_to_127"},
    {"default_per_channel_symmetric_qnnpack_qat_qconfig", "fused_qint8",
     "fused_per_channel_wt_fake_quant_range_neg_127_to_127"},
    {"default_embedding_qat_qconfig", "noop_float32", "default_embedding_fake_quant"},
    {"default_embedding_qat_qconfig_4bit", "noop_float32", "default_embedding_fake_quant_4bit"},
    {"_default_fp32_placeholder_qconfig", "float32", "float32"},
    {"_default_quint8_placeholder_qconfig", "quint8", ""},
};

// The defaults of the backends by version: "ptq 0", "qat 0", "qat 1".
struct BackendQConfigs {
  std::string_view backend, activation[3], weight[3];
};
constexpr BackendQConfigs kBackends[] = {
    {"fbgemm",
     {"histogram_reduced", "fake_reduced", "fused_reduced"},
     {"default_per_channel_weight_observer", "default_per_channel_weight_fake_quant",
      "default_fused_per_channel_wt_fake_quant"}},
    {"x86",
     {"histogram_reduced", "fake_reduced", "fused_reduced"},
     {"default_per_channel_weight_observer", "default_per_channel_weight_fake_quant",
      "default_fused_per_channel_wt_fake_quant"}},
    {"qnnpack",
     {"histogram_full", "fake_full", "fused_full"},
     {"default_weight_observer", "default_weight_fake_quant", "default_fused_wt_fake_quant"}},
    {"executorch",
     {"histogram_qint8", "fused_qint8", "fused_qint8"},
     {"weight_observer_range_neg_127_to_127", "fused_wt_fake_quant_range_neg_127_to_127",
      "fused_wt_fake_quant_range_neg_127_to_127"}},
    {"onednn",
     {"histogram_full", "fake", "fused"},
     {"default_per_channel_weight_observer", "default_per_channel_weight_fake_quant",
      "default_fused_per_channel_wt_fake_quant"}},
};

AttributeValue value_of(std::string_view text) {
  if (text == "true" || text == "false") return text == "true";
  if (text.find('.') != std::string_view::npos) {
    // 0.000244140625: twelve digits over 10^12, both exact in a double, so that the quotient is rounded once.
    int64_t digits = 0, scale = 1;
    for (const char c : text.substr(text.find('.') + 1)) {
      digits = digits * 10 + (c - '0');
      scale *= 10;
    }
    return static_cast<double>(digits) / static_cast<double>(scale);
  }
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && end == text.data() + text.size()) return number;
  return std::string(text);
}

// "MinMaxObserver quant_min=0 quant_max=127"
ObserverWithArgs observer_of_text(std::string_view text) {
  ObserverWithArgs out;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(text.size(), word.size() + 1));
    const size_t equals = word.find('=');
    if (equals == std::string_view::npos) out.class_name = std::string(word);
    else if (word.starts_with("observer="))
      out.observer = std::make_shared<ObserverWithArgs>(named_observer(word.substr(equals + 1)));
    else out.args.emplace_back(std::string(word.substr(0, equals)), value_of(word.substr(equals + 1)));
  }
  return out;
}

QConfig backend_qconfig(std::string_view backend, size_t column) {
  for (const BackendQConfigs& known : kBackends)
    if (known.backend == backend)
      return {named_observer(known.activation[column]), named_observer(known.weight[column])};
  fail(ErrorCode::kInvalidArgument, "there is no default qconfig for the backend '", backend,
       "'; wanted x86, fbgemm, qnnpack, onednn or executorch");
}

double number_of(const AttributeValue& value, const std::string& name) {
  if (const auto* integer = std::get_if<int64_t>(&value)) return static_cast<double>(*integer);
  const auto* real = std::get_if<double>(&value);
  QDQ_CHECK(real, kInvalidArgument, "the argument ", name, " of an observer must be a number");
  return *real;
}

template <class T> const T& get(const AttributeValue& value, const std::string& name, const char* wanted) {
  const T* found = std::get_if<T>(&value);
  QDQ_CHECK(found, kInvalidArgument, "the argument ", name, " of an observer must be ", wanted);
  return *found;
}

void apply(const ObserverWithArgs& observer, ObserverArgs& to) {
  const std::string_view inside = observer.observer ? std::string_view(observer.observer->class_name) : "";
  for (const auto& [name, value] : observer.args) {
    QDQ_CHECK(observer.custom || observer_reads(observer.class_name, inside, name), kInvalidArgument,
              observer.class_name, " does not read the argument '", name, "'; leave it out, or name a class that does");
    const auto integer = [&, &key = name, &of = value] { return get<int64_t>(of, key, "an integer"); };
    const auto flag = [&, &key = name, &of = value] { return get<bool>(of, key, "true or false"); };
    if (name == "dtype") set_dtype(to, get<std::string>(value, name, "the name of a dtype"));
    else if (name == "qscheme") to.qscheme = qscheme_from_name(get<std::string>(value, name, "the name of a qscheme"));
    else if (name == "reduce_range") to.reduce_range = flag();
    else if (name == "is_dynamic") to.is_dynamic = flag();
    else if (name == "quant_min") to.quant_min = integer();
    else if (name == "quant_max") to.quant_max = integer();
    else if (name == "ch_axis") to.ch_axis = integer();
    else if (name == "zero_point") to.zero_point = integer();
    else if (name == "bins") to.bins = integer();
    else if (name == "eps") to.eps = number_of(value, name);
    else if (name == "averaging_constant") to.averaging_constant = number_of(value, name);
    else if (name == "scale") to.scale = number_of(value, name);
    else if (name == "compute_dtype" && observer.class_name == "PlaceholderObserver") {
      // The older spelling of is_dynamic (observer.py, PlaceholderObserver.__init__).
      get<std::string>(value, name, "the name of a dtype");
      to.is_dynamic = true;
    } else
      fail(ErrorCode::kInvalidArgument, observer.class_name, " takes no argument '", name,
           "'; wanted dtype, qscheme, reduce_range, quant_min, quant_max, ch_axis, eps, is_dynamic, "
           "averaging_constant, bins, scale or zero_point");
  }
}

}  // namespace

ObserverArgs ObserverWithArgs::settings() const {
  ObserverArgs out = default_observer_args(class_name);
  if (observer) {
    const ObserverArgs inside = observer->settings();
    out.inner_class = observer->class_name;
    out.qscheme = inside.qscheme;
    if (observer->class_name == "FixedQParamsObserver") {
      const std::string inner_class = out.inner_class;
      out = inside;
      out.inner_class = inner_class;
    } else {
      apply(*observer, out);
    }
  }
  apply(*this, out);
  return out;
}

QSpec spec_of(const ObserverWithArgs& observer) {
  if (observer.class_name == "Identity") return {};
  const ObserverArgs settings = observer.settings();
  if (settings.dtype == DType::kF32) return {};
  if (observer.class_name == "FixedQParamsObserver") {
    FixedQParamsQuantizationSpec spec;
    spec.dtype = settings.dtype;
    spec.scale = settings.scale;
    spec.zero_point = settings.zero_point;
    spec.quant_min = settings.quant_min;
    spec.quant_max = settings.quant_max;
    spec.qscheme = settings.qscheme;
    return spec;
  }
  QuantizationSpec spec;
  spec.dtype = settings.dtype;
  spec.quant_min = settings.quant_min;
  spec.quant_max = settings.quant_max;
  spec.qscheme = settings.qscheme;
  if (is_per_channel(settings.qscheme)) spec.ch_axis = settings.ch_axis;
  // Rounding to float16 as it runs and beforehand are the same thing.
  spec.is_dynamic = settings.is_dynamic && settings.dtype != DType::kF16;
  spec.observer.class_name = observer.class_name;
  spec.observer.eps = settings.eps;
  spec.observer.reduce_range = settings.reduce_range;
  spec.observer.inner_class = settings.inner_class;
  spec.observer.qdtype = settings.qdtype;
  const ObserverArgs plain = default_observer_args(observer.class_name);
  if (settings.averaging_constant != plain.averaging_constant)
    spec.observer.averaging_constant = settings.averaging_constant;
  if (settings.bins != plain.bins) spec.observer.bins = settings.bins;
  if (observer.custom) spec.observer.custom = observer.custom;
  if (observer.class_name == "FixedQParamsFakeQuantize")
    spec.observer.custom = [settings](const ObserverArgs&) {
      return make_observer("FixedQParamsFakeQuantize", settings);
    };
  return spec;
}

bool is_reuse_input(const QConfig& qconfig) {
  return qconfig.activation && qconfig.activation->class_name == "ReuseInputObserver" && qconfig.weight &&
         qconfig.weight->class_name == "NoopObserver";
}

ObserverWithArgs named_observer(std::string_view name) {
  for (const NamedObserver& known : kObservers)
    if (known.name == name) return observer_of_text(known.text);
  // The argument `observer` of a fake quantizer may be a bare class.
  return {std::string(name), {}, nullptr};
}

QConfig default_equalization_qconfig() {
  return {ObserverWithArgs{"_InputEqualizationObserver", {}, nullptr},
          ObserverWithArgs{"_WeightEqualizationObserver", {}, nullptr}};
}

QConfig named_qconfig(std::string_view name) {
  if (name == "default_equalization_qconfig") return default_equalization_qconfig();
  for (const NamedQConfig& known : kQConfigs) {
    if (known.name != name) continue;
    QConfig out{named_observer(known.activation), std::nullopt};
    if (!known.weight.empty()) out.weight = named_observer(known.weight);
    return out;
  }
  std::string names;
  for (const std::string& known : named_qconfigs())
    if (!known.starts_with('_')) names += (names.empty() ? "" : ", ") + known;
  fail(ErrorCode::kInvalidArgument, "there is no qconfig '", name, "'; PyTorch's are ", names);
}

std::vector<std::string> named_qconfigs() {
  std::vector<std::string> out;
  for (const NamedQConfig& known : kQConfigs) out.emplace_back(known.name);
  return out;
}

std::vector<std::string_view> qconfig_backend_names() {
  std::vector<std::string_view> out;
  for (const BackendQConfigs& known : kBackends) out.push_back(known.backend);
  return out;
}

QConfig get_default_qconfig(std::string_view backend, int64_t version) {
  QDQ_CHECK(version == 0, kInvalidArgument, "get_default_qconfig has only version 0, not ", version);
  return backend_qconfig(backend, 0);
}

QConfig get_default_qat_qconfig(std::string_view backend, int64_t version) {
  QDQ_CHECK(version == 0 || version == 1, kInvalidArgument, "get_default_qat_qconfig has the versions 0 and 1, not ",
            version);
  return backend_qconfig(backend, static_cast<size_t>(version) + 1);
}

}  // namespace qdq
