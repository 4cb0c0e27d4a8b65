// The table of observer classes, and those that keep no statistics.
#include "quant/observers/observer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "quant/observers/fake_quantize.h"
#include "quant/observers/learnable_fake_quantize.h"
#include "quant/observers/observer_histogram.h"
#include "quant/observers/observer_mergeable_histogram.h"
#include "quant/observers/observer_min_max.h"
#include "quant/observers/observer_per_group.h"
#include "quant/observers/observer_statistics.h"
#include "quant/observers/qparams.h"

namespace qdq {
namespace {

class FixedQParamsObserver final : public Observer {
 public:
  explicit FixedQParamsObserver(const ObserverArgs& args) : Observer(args) {
    QDQ_CHECK(!args.is_dynamic, kInvalidArgument, "FixedQParamsObserver does not support dynamic quantization");
    quant_min_ = args.quant_min.value_or(0);
    quant_max_ = args.quant_max.value_or(255);
  }
  std::string_view class_name() const override { return "FixedQParamsObserver"; }
  std::string_view mergeable_class() const override { return class_name(); }
  Tensor forward(const Tensor& x) override { return x; }
  QParams calculate_qparams() const override {
    QParams out{{static_cast<float>(args_.scale)}, {args_.zero_point}, {}};
    out.zero_point_dtype = DType::kS32;
    return out;
  }
};

// PlaceholderObserver, NoopObserver, ReuseInputObserver: they carry settings and look at nothing.
class BlindObserver final : public Observer {
 public:
  BlindObserver(const ObserverArgs& args, std::string_view class_name) : Observer(args), class_name_(class_name) {
    quant_min_ = args.quant_min.value_or(0);
    quant_max_ = args.quant_max.value_or(0);
  }
  std::string_view class_name() const override { return class_name_; }
  std::string_view mergeable_class() const override { return class_name(); }
  Tensor forward(const Tensor& x) override { return x; }
  QParams calculate_qparams() const override {
    fail(ErrorCode::kInvalidArgument, class_name_,
         " has no qparams: it only carries a dtype; use an observer that sees data");
  }

 private:
  std::string_view class_name_;
};

class RecordingObserver final : public Observer {
 public:
  explicit RecordingObserver(const ObserverArgs& args) : Observer(args) {}
  std::string_view class_name() const override { return "RecordingObserver"; }
  Tensor forward(const Tensor& x) override {
    recorded_.push_back(x.clone());
    return x;
  }
  QParams calculate_qparams() const override {
    fail(ErrorCode::kInvalidArgument, "RecordingObserver has no qparams: it keeps the tensors for debugging");
  }
  std::vector<Tensor> recorded() const override { return recorded_; }

 private:
  std::vector<Tensor> recorded_;
};

class DerivedObserver final : public Observer {
 public:
  DerivedObserver(const ObserverArgs& args, std::vector<std::shared_ptr<Observer>> derived_from, DeriveQParams derive)
      : Observer(args), derived_from_(std::move(derived_from)), derive_(std::move(derive)) {
    quant_min_ = args.quant_min.value_or(0);
    quant_max_ = args.quant_max.value_or(0);
  }
  std::string_view class_name() const override { return "_DerivedObserverOrFakeQuantize"; }
  std::string_view mergeable_class() const override { return class_name(); }
  Tensor forward(const Tensor& x) override { return x; }
  QParams calculate_qparams() const override { return derive_(derived_from_); }
  bool calibrated() const override {
    return std::all_of(derived_from_.begin(), derived_from_.end(),
                       [](const auto& source) { return source->calibrated(); });
  }

 private:
  std::vector<std::shared_ptr<Observer>> derived_from_;
  DeriveQParams derive_;
};

template <bool kMovingAverage, bool kPerChannel> std::shared_ptr<Observer> make_min_max(const ObserverArgs& args) {
  return std::make_shared<MinMaxObserver>(args, kMovingAverage, kPerChannel);
}
template <bool kByError> std::shared_ptr<Observer> make_per_group(const ObserverArgs& args) {
  return std::make_shared<PerGroupObserver>(args, kByError);
}
template <MergeableHistogramObserver::Rule kRule> std::shared_ptr<Observer> make_by_rule(const ObserverArgs& args) {
  return std::make_shared<MergeableHistogramObserver>(args, kRule);
}
template <class T> std::shared_ptr<Observer> make(const ObserverArgs& args) { return std::make_shared<T>(args); }
std::shared_ptr<Observer> make_placeholder(const ObserverArgs& args) {
  return std::make_shared<BlindObserver>(args, "PlaceholderObserver");
}
std::shared_ptr<Observer> make_noop(const ObserverArgs& args) {
  return std::make_shared<BlindObserver>(args, "NoopObserver");
}
std::shared_ptr<Observer> make_reuse_input(const ObserverArgs& args) {
  return std::make_shared<BlindObserver>(args, "ReuseInputObserver");
}

struct ObserverClass {
  std::string_view name;
  std::shared_ptr<Observer> (*make)(const ObserverArgs&);
};

constexpr std::array kClasses = {
    ObserverClass{"MinMaxObserver", make_min_max<false, false>},
    ObserverClass{"MovingAverageMinMaxObserver", make_min_max<true, false>},
    ObserverClass{"PerChannelMinMaxObserver", make_min_max<false, true>},
    ObserverClass{"MovingAveragePerChannelMinMaxObserver", make_min_max<true, true>},
    ObserverClass{"PerGroupMinMaxObserver", make_per_group<false>},
    ObserverClass{"PerGroupMSEObserver", make_per_group<true>},
    ObserverClass{"HistogramObserver", make<HistogramObserver>},
    ObserverClass{"MergeableHistogramObserver", make_by_rule<MergeableHistogramObserver::Rule::kSearch>},
    ObserverClass{"PercentileObserver", make_by_rule<MergeableHistogramObserver::Rule::kPercentile>},
    ObserverClass{"EntropyObserver", make_by_rule<MergeableHistogramObserver::Rule::kEntropy>},
    ObserverClass{"MSEObserver", make_by_rule<MergeableHistogramObserver::Rule::kMSE>},
    ObserverClass{"FixedQParamsObserver", make<FixedQParamsObserver>},
    ObserverClass{"PlaceholderObserver", make_placeholder},
    ObserverClass{"NoopObserver", make_noop},
    ObserverClass{"ReuseInputObserver", make_reuse_input},
    ObserverClass{"RecordingObserver", make<RecordingObserver>},
    ObserverClass{"FakeQuantize", make<FakeQuantize>},
    ObserverClass{"FixedQParamsFakeQuantize", make<FixedQParamsFakeQuantize>},
    ObserverClass{"FusedMovingAvgObsFakeQuantize", make<FusedMovingAvgObsFakeQuantize>},
    ObserverClass{"_LearnableFakeQuantize", make<LearnableFakeQuantize>},
};

struct DTypeName {
  std::string_view name;
  DType dtype;
  QDType qdtype;
};

// PyTorch's quantized types; all other names are those of DType.
constexpr std::array kQDTypes = {
    DTypeName{"quint8", DType::kU8, QDType::kQuantized},
    DTypeName{"qint8", DType::kS8, QDType::kQuantized},
    DTypeName{"qint32", DType::kS32, QDType::kQuantized},
    DTypeName{"quint4x2", DType::kU8, QDType::kQuint4x2},
};

}  // namespace

bool observer_reads(std::string_view class_name, std::string_view inner_class, std::string_view argument) {
  const auto has_name = [&](const ObserverClass& known) { return known.name == class_name; };
  if (std::none_of(kClasses.begin(), kClasses.end(), has_name)) return true;
  if (argument == "use_grad_scaling") return class_name == "_LearnableFakeQuantize";
  const bool is_inside = class_name == "FakeQuantize" || class_name == "_LearnableFakeQuantize";
  const std::string_view inside = !is_inside            ? class_name
                                  : inner_class.empty() ? "MovingAverageMinMaxObserver"
                                                        : inner_class;
  if (argument == "averaging_constant") return inside.find("MovingAv") != std::string_view::npos;
  if (argument == "bins") return inside.ends_with("HistogramObserver");
  if (argument == "group_size") return inside.starts_with("PerGroup");
  if (argument == "percentile") return inside == "PercentileObserver";
  if (argument == "scale" || argument == "zero_point") return inside.starts_with("FixedQParams");
  if (argument != "reduce_range") return true;
  constexpr std::array<std::string_view, 6> kWithout{"FixedQParamsObserver", "FixedQParamsFakeQuantize",
                                                     "PlaceholderObserver",  "NoopObserver",
                                                     "ReuseInputObserver",   "RecordingObserver"};
  return std::find(kWithout.begin(), kWithout.end(), inside) == kWithout.end();
}

std::string dtype_name(const ObserverArgs& args) {
  if (args.qdtype == QDType::kPlain) return std::string(to_string(args.dtype));
  for (const DTypeName& known : kQDTypes)
    if (known.dtype == args.dtype && known.qdtype == args.qdtype) return std::string(known.name);
  return concat("quantized ", to_string(args.dtype));
}

void set_dtype(ObserverArgs& args, std::string_view name) {
  constexpr std::string_view kPrefix = "torch.";
  const std::string_view bare = name.starts_with(kPrefix) ? name.substr(kPrefix.size()) : name;
  for (const DTypeName& known : kQDTypes) {
    if (known.name != bare) continue;
    args.dtype = known.dtype;
    args.qdtype = known.qdtype;
    return;
  }
  const std::optional<DType> dtype = dtype_from_name(bare);
  QDQ_CHECK(dtype, kInvalidArgument, "there is no dtype \"", name, "\" for an observer");
  args.dtype = *dtype;
  args.qdtype = QDType::kPlain;
}

std::vector<std::string_view> quantized_dtype_names() {
  std::vector<std::string_view> out;
  for (const DTypeName& known : kQDTypes) out.push_back(known.name);
  return out;
}

ObserverArgs default_observer_args(std::string_view class_name) {
  ObserverArgs args;
  set_dtype(args, class_name == "PlaceholderObserver" ? "float32"
                  : class_name == "NoopObserver"      ? "float16"
                                                      : "quint8");
  if (class_name.find("PerChannel") != std::string_view::npos) args.qscheme = QScheme::kPerChannelAffine;
  if (class_name.find("PerGroup") != std::string_view::npos) args.qscheme = QScheme::kPerChannelSymmetric;
  if (class_name == "FixedQParamsObserver" || class_name == "FusedMovingAvgObsFakeQuantize") {
    args.quant_min = 0;
    args.quant_max = 255;
  }
  return args;
}

Tensor Observer::forward_with_range(const Tensor& x, const FloatRange&) { return forward(x); }
bool Observer::forward_clamped(float, float) { return false; }
Tensor Observer::forward_with_mask(const Tensor& x, Tensor*) { return forward(x); }
QParams Observer::qparams_after(const Tensor&) const { return calculate_qparams(); }

void Observer::set_attribute(std::string_view name, const AttributeValue& value) {
  const auto integer = [&]() -> int64_t {
    const auto* number = std::get_if<int64_t>(&value);
    QDQ_CHECK(number, kInvalidArgument, "the attribute ", name, " of ", class_name(), " must be an integer");
    return *number;
  };
  const auto number = [&]() -> double {
    if (const auto* whole = std::get_if<int64_t>(&value)) return static_cast<double>(*whole);
    const auto* real = std::get_if<double>(&value);
    QDQ_CHECK(real, kInvalidArgument, "the attribute ", name, " of ", class_name(), " must be a number");
    return *real;
  };
  const auto text = [&]() -> const std::string& {
    const auto* name_of_value = std::get_if<std::string>(&value);
    QDQ_CHECK(name_of_value, kInvalidArgument, "the attribute ", name, " of ", class_name(), " must be a name");
    return *name_of_value;
  };
  const bool is_fixed = class_name().find("FixedQParams") != std::string_view::npos;
  const bool is_known = is_fixed || name == "scale" || name == "zero_point";  // which the end of the list refuses
  QDQ_CHECK(is_known || observer_reads(class_name(), args_.inner_class, name), kInvalidArgument, class_name(),
            " does not read the attribute ", name);
  if (name == "dtype") set_dtype(args_, text());
  else if (name == "qscheme") args_.qscheme = qscheme_from_name(text());
  else if (name == "quant_min") quant_min_ = integer();
  else if (name == "quant_max") quant_max_ = integer();
  else if (name == "ch_axis") args_.ch_axis = integer();
  else if (name == "eps") args_.eps = number();
  else if (name == "averaging_constant") args_.averaging_constant = number();
  else if (name == "bins") args_.bins = integer();
  else if (name == "is_dynamic" && std::holds_alternative<bool>(value)) args_.is_dynamic = std::get<bool>(value);
  else if (name == "scale" && is_fixed) args_.scale = number();
  else if (name == "zero_point" && is_fixed) args_.zero_point = integer();
  else
    fail(ErrorCode::kInvalidArgument, class_name(), " has no attribute ", name,
         " of that kind; wanted dtype, qscheme, quant_min, quant_max, ",
         "ch_axis, eps, averaging_constant, bins or is_dynamic", is_fixed ? ", scale or zero_point" : "");
}

void Observer::check_settings() const {
  QDQ_CHECK(args_.eps >= 0 && std::isfinite(args_.eps), kInvalidArgument, class_name(), " cannot work with eps ",
            args_.eps, ", wanted a number that is not negative");
  QDQ_CHECK(args_.averaging_constant >= 0 && args_.averaging_constant <= 1, kInvalidArgument, class_name(),
            " cannot work with averaging_constant ", args_.averaging_constant, ", wanted 0 to 1");
  if (!is_integral(args_.dtype)) {
    const bool has_qparams = min_val().defined() || class_name().find("FixedQParams") != std::string_view::npos;
    QDQ_CHECK(!has_qparams, kInvalidArgument, class_name(), " cannot work with dtype ", dtype_name(args_),
              ", wanted integers; to leave a tensor in float, give it no spec");
    return;
  }
  const IntegerRange all = limits_of(args_.dtype);
  QDQ_CHECK(all.min <= quant_min_ && quant_min_ <= quant_max_ && quant_max_ <= all.max, kInvalidArgument, class_name(),
            " cannot work with quant_min ", quant_min_, " and quant_max ", quant_max_, " in ", to_string(args_.dtype),
            ", which holds ", all.min, " to ", all.max);
  if (class_name().find("FixedQParams") == std::string_view::npos) return;
  QDQ_CHECK(args_.scale > 0 && std::isfinite(static_cast<float>(args_.scale)) && static_cast<float>(args_.scale) > 0,
            kInvalidArgument, class_name(), " cannot work with scale ", args_.scale, ", wanted a float above zero");
  QDQ_CHECK(quant_min_ <= args_.zero_point && args_.zero_point <= quant_max_, kInvalidArgument, class_name(),
            " cannot work with zero_point ", args_.zero_point, ", wanted ", quant_min_, " to ", quant_max_);
}

FloatRange Observer::histogram_range() const {
  return {static_cast<float>(min_val().item()), static_cast<float>(max_val().item())};
}

void Observer::set_state(const Tensor& min_val, const Tensor& max_val, const Tensor& histogram) {
  QDQ_CHECK(!min_val.defined() && !max_val.defined() && !histogram.defined(), kInvalidArgument, class_name(),
            " keeps no statistics, and was given some");
}

QParams Observer::calculate_qparams_or_default() const {
  if (calibrated()) return calculate_qparams();
  return QParams{{1.0f}, {0}, {}};
}

std::shared_ptr<Observer> make_observer(std::string_view class_name, const ObserverArgs& args) {
  std::string names;
  for (const ObserverClass& known : kClasses) {
    if (known.name == class_name) return known.make(args);
    names += names.empty() ? std::string(known.name) : concat(", ", known.name);
  }
  fail(ErrorCode::kInvalidArgument, "there is no observer class \"", class_name, "\"; known are ", names);
}

std::vector<std::string_view> observer_class_names() {
  std::vector<std::string_view> names;
  for (const ObserverClass& known : kClasses) names.push_back(known.name);
  return names;
}

std::shared_ptr<Observer> make_derived_observer(const ObserverArgs& args,
                                                std::vector<std::shared_ptr<Observer>> derived_from,
                                                DeriveQParams derive) {
  QDQ_CHECK(derive, kInvalidArgument, "a derived observer needs a function that gives its qparams");
  return std::make_shared<DerivedObserver>(args, std::move(derived_from), std::move(derive));
}

}  // namespace qdq
