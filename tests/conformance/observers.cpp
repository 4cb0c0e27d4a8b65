// Conformance of observers and fake quantizers alone: settings, state after every batch, qparams, refusals. All numbers
// must be those of PyTorch to the last bit, which is stricter than the tolerances in the cases.
#include <memory>

#include "conformance/conformance.h"
#include "quant/observers/fake_quantize.h"
#include "quant/observers/observer_histogram.h"
#include "quant/observers/qparams.h"

namespace qdq {
namespace {

using Json = nlohmann::json;

// Writes constructor arguments over those of the class; an observer inside goes first, as a partial of its class in
// PyTorch.
void read_args(const Json& json, ObserverArgs& args) {
  if (json.contains("observer")) {
    const Json& inner = json["observer"];
    args.inner_class = inner.at("class").get<std::string>();
    const ObserverArgs defaults = default_observer_args(args.inner_class);
    args.dtype = defaults.dtype;
    args.qdtype = defaults.qdtype;
    args.qscheme = defaults.qscheme;
    if (inner.contains("args")) read_args(inner["args"], args);
  }
  for (const auto& [key, value] : json.items()) {
    if (key == "observer") continue;
    if (key == "dtype") set_dtype(args, value.get<std::string>());
    else if (key == "qscheme") args.qscheme = qscheme_from_name(value.get<std::string>());
    else if (key == "reduce_range") args.reduce_range = value.get<bool>();
    else if (key == "quant_min") args.quant_min = value.get<int64_t>();
    else if (key == "quant_max") args.quant_max = value.get<int64_t>();
    else if (key == "ch_axis") args.ch_axis = value.get<int64_t>();
    else if (key == "eps") args.eps = number_of(value);
    else if (key == "is_dynamic") args.is_dynamic = value.get<bool>();
    else if (key == "averaging_constant") args.averaging_constant = number_of(value);
    else if (key == "bins") args.bins = value.get<int64_t>();
    else if (key == "scale") args.scale = number_of(value);
    else if (key == "zero_point") args.zero_point = value.get<int64_t>();
    else differ("the argument ", key, " is not known");
  }
}

void expect_zero_points(const std::string& what, const QParams& qparams, const Json& expected) {
  if (qparams.zero_point_dtype == DType::kF32) {
    const std::vector<double> found(qparams.float_zero_point.begin(), qparams.float_zero_point.end());
    expect_close(what, found, numbers_of(expected), 0, 0);
    return;
  }
  const std::vector<double> found(qparams.zero_point.begin(), qparams.zero_point.end());
  expect_close(what, found, numbers_of(expected), 0, 0);
}

void expect_qparams(const std::string& what, const QParams& qparams, const Json& expected) {
  const std::vector<double> scale(qparams.scale.begin(), qparams.scale.end());
  expect_close(what + "scale", scale, numbers_of(expected.at("scale")), 0, 0);
  expect_zero_points(what + "zero_point", qparams, expected.at("zero_point"));
}

const FakeQuantize& fake_quantize_of(const Observer& observer) {
  if (!observer.is_fake_quantize()) differ(observer.class_name(), " is no fake quantizer");
  return static_cast<const FakeQuantize&>(observer);
}

void expect_state(const ConformanceCase& c, const std::string& what, const Observer& observer, const Json& expected,
                  const Tensor& output) {
  if (expected.contains("min_val")) {
    expect_close(what + "min_val", numbers_of(observer.min_val()), numbers_of(expected["min_val"]), 0, 0);
    expect_close(what + "max_val", numbers_of(observer.max_val()), numbers_of(expected["max_val"]), 0, 0);
  }
  if (expected.contains("histogram"))
    expect_close(what + "histogram", observer.histogram(),
                 c.array("data.npz", expected["histogram"].get<std::string>()));
  if (expected.contains("scale")) expect_qparams(what, fake_quantize_of(observer).qparams_in_force(), expected);
  if (expected.contains("output"))
    expect_close(what + "output", output, c.array("data.npz", expected["output"].get<std::string>()));
}

void apply_switches(Observer& observer, const Json& switches) {
  if (!observer.is_fake_quantize()) differ(observer.class_name(), " is no fake quantizer");
  for (const auto& name : switches) {
    const auto method = name.get<std::string>();
    if (method == "enable_observer") observer.enable_observer(true);
    else if (method == "disable_observer") observer.enable_observer(false);
    else if (method == "enable_fake_quant") observer.enable_fake_quant(true);
    else if (method == "disable_fake_quant") observer.enable_fake_quant(false);
    else differ("the switch ", method, " is not known");
  }
}

void expect_search(const HistogramObserver& observer, const Json& expected) {
  const HistogramSearch found = observer.search();
  const auto start = expected.at("start_bin").get<int64_t>();
  const auto end = expected.at("end_bin").get<int64_t>();
  if (found.start_bin != start || found.end_bin != end)
    differ("the search keeps bins ", found.start_bin, "..", found.end_bin, ", PyTorch's keeps ", start, "..", end);
  const std::vector<double> range{found.range.min, found.range.max};
  expect_close("the range found", range,
               std::vector<double>{number_of(expected.at("new_min")), number_of(expected.at("new_max"))}, 0, 0);
}

void expect_recorded(const Observer& observer, const Json& expected) {
  std::vector<double> sums;
  for (const Tensor& tensor : observer.recorded()) {
    double sum = 0;
    for (const double value : numbers_of(tensor)) sum += value;
    sums.push_back(sum);
  }
  expect_close("the sums of the recorded tensors", sums, numbers_of(expected), 1e-5, 1e-5);
}

// What happens to one entry of a case up to its end, or to the error that PyTorch had too.
class Entry {
 public:
  Entry(const ConformanceCase& c, const Json& json) : case_(c), json_(json), expected_(json.at("expected")) {}

  void run() {
    const std::string stage = expected_.contains("error") ? expected_["error"].at("stage").get<std::string>() : "";
    if (stage != "construct") return run_constructed(stage);
    refused(stage, [&] { construct(); });
  }

 private:
  void construct() {
    const auto name = json_.at("class").get<std::string>();
    ObserverArgs args = default_observer_args(name);
    read_args(json_.at("args"), args);
    observer_ = make_observer(name, args);
  }

  void feed() {
    const Json& batches = json_.at("batches");
    for (size_t n = 0; n < batches.size(); ++n) {
      const std::string key = std::to_string(n);
      if (json_.contains("switches") && json_["switches"].contains(key))
        apply_switches(*observer_, json_["switches"][key]);
      const Tensor output = observer_->forward(case_.array("data.npz", batches[n].get<std::string>()));
      if (expected_.contains("after_batch") && n < expected_["after_batch"].size())
        expect_state(case_, "after batch " + key + ": ", *observer_, expected_["after_batch"][n], output);
    }
  }

  void run_constructed(const std::string& stage) {
    construct();
    if (expected_.contains("settings")) expect_settings(*observer_, expected_["settings"]);
    if (stage == "forward") return refused(stage, [&] { feed(); });
    feed();
    if (expected_.contains("recorded")) expect_recorded(*observer_, expected_["recorded"]);
    if (expected_.contains("search")) {
      if (observer_->class_name() == "HistogramObserver")
        expect_search(static_cast<const HistogramObserver&>(*observer_), expected_["search"]);
    }
    if (stage == "calculate_qparams") return refused(stage, [&] { observer_->calculate_qparams_or_default(); });
    const QParams qparams = observer_->calculate_qparams_or_default();
    expect_qparams("", qparams, expected_);
    const auto dtype = expected_.at("zero_point_dtype").get<std::string>();
    if (to_string(qparams.zero_point_dtype) != dtype)
      differ("zero_point has dtype ", to_string(qparams.zero_point_dtype), ", PyTorch's has ", dtype);
  }

  template <class Body> void refused(const std::string& stage, Body&& body) {
    try {
      body();
    } catch (const Error& error) {
      // A bug is not a refusal.
      if (error.code != ErrorCode::kInternal) return;
      throw;
    }
    differ("nothing was refused at the stage ", stage,
           ", PyTorch says: ", expected_["error"].at("message").get<std::string>());
  }

  const ConformanceCase& case_;
  const Json& json_;
  const Json& expected_;
  std::shared_ptr<Observer> observer_;
};

// One named setting as the JSON of the cases has it.
Json setting_of(const Observer& observer, const std::string& key) {
  const ObserverArgs& args = observer.args();
  const bool has_range =
      observer.class_name() != "PlaceholderObserver" && observer.class_name() != "_DerivedObserverOrFakeQuantize";
  if (key == "class") return observer.class_name();
  if (key == "dtype") return dtype_name(args);
  if (key == "qscheme") return to_string(args.qscheme);
  if (key == "quant_min")
    return has_range ? Json(observer.quant_min()) : args.quant_min ? Json(*args.quant_min) : Json();
  if (key == "quant_max")
    return has_range ? Json(observer.quant_max()) : args.quant_max ? Json(*args.quant_max) : Json();
  if (key == "ch_axis") return observer.is_fake_quantize() ? fake_quantize_of(observer).ch_axis() : args.ch_axis;
  if (key == "eps") return args.eps;
  if (key == "is_dynamic") return args.is_dynamic;
  if (key == "reduce_range") return args.reduce_range;
  if (key == "averaging_constant") return args.averaging_constant;
  if (key == "bins") return args.bins;
  if (key == "scale") return static_cast<double>(static_cast<float>(args.scale));
  if (key == "zero_point") return args.zero_point;
  differ("the setting ", key, " is not known");
}

}  // namespace

void expect_settings(const Observer& observer, const Json& expected) {
  for (const auto& [key, value] : expected.items()) {
    if (key == "observer") {
      expect_settings(fake_quantize_of(observer).inner(), value);
      continue;
    }
    const Json found = setting_of(observer, key);
    if (found != value)
      differ("the setting ", key, " of ", observer.class_name(), " is ", found.dump(), ", PyTorch has ", value.dump());
  }
}

void run_observers_case(const ConformanceCase& c) {
  for_each_entry(c.json().at("entries"), [&](const Json& entry) { Entry(c, entry).run(); });
}

}  // namespace qdq
