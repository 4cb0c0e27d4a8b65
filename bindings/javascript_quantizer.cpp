#include "javascript_quantizer.h"

#include <map>

#include "border.h"
#include "format/json.h"
#include "quant/observers/fake_quantize.h"
#include "report/graph_report.h"

namespace qdq {

using emscripten::val;

namespace {

// The programs that quantizers written in JavaScript annotate at the moment, innermost last; JavaScript calls the last
// one -1.
struct AnnotatedNow {
  const Program* program;
  Program* to_transform;  // null but for transformForAnnotation()
};
std::vector<AnnotatedNow>& annotated_now() {
  static std::vector<AnnotatedNow> programs;
  return programs;
}
constexpr int kAnnotatedNow = -1;

// Qparams that `who` gave as JSON, zero points within the limits.
QParams qparams_from(const std::string& text, const std::string& who, IntegerRange limits) {
  const auto json = format::parse_json(text, who);
  QParams qparams;
  for (const auto& scale : json.at("scale")) {
    QDQ_CHECK(scale.is_number() && scale.get<double>() > 0, kInvalidArgument, who, " gave the scale ", scale.dump(),
              ", it must be a positive number");
    qparams.scale.push_back(scale.get<float>());
  }
  for (const auto& zero_point : json.at("zero_point")) {
    QDQ_CHECK(zero_point.is_number_integer() && zero_point.get<int64_t>() >= limits.min &&
                  zero_point.get<int64_t>() <= limits.max,
              kInvalidArgument, who, " gave the zero point ", zero_point.dump(), ", it must be an integer from ",
              limits.min, " to ", limits.max);
    qparams.zero_point.push_back(zero_point.get<int64_t>());
  }
  QDQ_CHECK(!qparams.scale.empty() && qparams.scale.size() == qparams.zero_point.size(), kInvalidArgument, who,
            " gave ", qparams.scale.size(), " scales and ", qparams.zero_point.size(), " zero points");
  return qparams;
}

class JavaScriptObserver final : public Observer {
 public:
  JavaScriptObserver(ObserverArgs args, val body)
      : Observer(std::move(args)), body_(std::move(body)), name_(body_["name"].as<std::string>()) {
    quant_min_ = args_.quant_min.value_or(min_of(args_.dtype));
    quant_max_ = args_.quant_max.value_or(max_of(args_.dtype));
  }

  std::string_view class_name() const override { return name_; }

  Tensor forward(const Tensor& x) override {
    body_.call<void>("forward", tensor_to(x));
    calibrated_ = true;
    return x;
  }
  bool calibrated() const override { return calibrated_; }

  QParams calculate_qparams() const override {
    QDQ_CHECK(calibrated_, kNotCalibrated, "the observer ", name_, " has seen no data; run the prepared program first");
    return qparams_from(body_.call<std::string>("calculateQparams"), "calculateQparams() of " + name_,
                        {quant_min(), quant_max()});
  }

 private:
  val body_;
  std::string name_;
  bool calibrated_ = false;
};

// An observer whose object has fakeQuantize(tensor): what that gives goes on, and its gradient passes as it comes.
class JavaScriptFakeQuantize final : public FakeQuantize {
 public:
  JavaScriptFakeQuantize(const ObserverArgs& args, const val& body)
      : FakeQuantize(args, std::make_shared<JavaScriptObserver>(args, body)), body_(body) {}

  std::string_view class_name() const override { return inner_->class_name(); }

  Tensor forward_with_mask(const Tensor& x, Tensor* mask) override {
    if (observer_enabled_) {
      inner_->forward(x);
      in_force_ = inner_->calculate_qparams();
    }
    if (!fake_quant_enabled_) return x;
    const Tensor out = tensor_from(body_.call<val>("fakeQuantize", tensor_to(x)));
    QDQ_CHECK(out.dtype() == x.dtype() && out.sizes() == x.sizes(), kInvalidArgument, "fakeQuantize() of ",
              class_name(), " gave ", to_string(out.dtype()), to_string(out.sizes()), ", wanted ", to_string(x.dtype()),
              to_string(x.sizes()));
    if (mask) *mask = Tensor::full(x.sizes(), DType::kU8, 1);
    return out;
  }

 private:
  val body_;
};

std::string settings_text(const ObserverArgs& args) {
  format::Json settings = format::json_object({{"dtype", to_string(args.dtype)},
                                               {"qscheme", to_string(args.qscheme)},
                                               {"quantMin", args.quant_min.value_or(min_of(args.dtype))},
                                               {"quantMax", args.quant_max.value_or(max_of(args.dtype))},
                                               {"chAxis", args.ch_axis},
                                               {"eps", args.eps}});
  return format::print_json(settings);
}

class JavaScriptQuantizer final : public Quantizer {
 public:
  JavaScriptQuantizer(int64_t number, std::string name, val callbacks, RecipeExtensions extensions)
      : number_(number), name_(std::move(name)), callbacks_(std::move(callbacks)), extensions_(std::move(extensions)) {}

  std::string_view name() const override { return name_; }

  void transform_for_annotation(Program& program) override {
    ask<void>("transformForAnnotation", program, {}, &program);
  }
  void annotate(Program& program, Annotations& annotations) override {
    const auto text = ask<std::string>("annotate", program, annotations);
    write_annotations(format::parse_json(text, "the annotations of " + name_), name_, program, annotations,
                      extensions_);
  }
  void validate(const Program& program, const Annotations& annotations) override {
    ask<void>("validate", program, annotations);
  }
  void adjust_observers(const Program& program,
                        std::vector<std::pair<EdgeOrNode, std::shared_ptr<Observer>>>& observers) override {
    Quantizer::adjust_observers(program, observers);
    const std::vector<std::pair<EdgeOrNode, std::shared_ptr<Observer>>> old = observers;
    // Each instance once, by the number of its first place.
    std::map<const Observer*, size_t> numbers;
    format::Json places = format::Json::array();
    for (const auto& [at, observer] : old) {
      format::Json place = format::Json::object();
      if (const auto* edge = std::get_if<Edge>(&at)) place["edge"] = {edge->first->name(), edge->second->name()};
      else place["node"] = std::get<Node*>(at)->name();
      const size_t number = numbers.emplace(observer.get(), places.size()).first->second;
      place["observer"] = number;
      place["class"] = observer ? std::string(observer->class_name()) : "";
      places.push_back(std::move(place));
    }
    const auto answer =
        callbacks_.call<std::string>("adjustObservers", static_cast<double>(number_), format::print_json(places));
    if (answer.empty()) return;
    const format::Json wanted = format::parse_json(answer, "what adjustObservers() of " + name_ + " returned");
    QDQ_CHECK(wanted.is_array() && wanted.size() == old.size(), kInvalidArgument, "adjustObservers() of ", name_,
              " needs to return an observer for each of the ", old.size(), " places");
    for (size_t i = 0; i < old.size(); ++i) {
      if (wanted[i].is_null()) {
        observers[i].second = nullptr;
      } else if (wanted[i].is_object() && wanted[i].contains("custom") && old[i].second) {
        observers[i].second = extensions_.observer(wanted[i]["custom"].get<int64_t>(), old[i].second->args());
      } else {
        QDQ_CHECK(
            wanted[i].is_number_integer() && wanted[i].get<int64_t>() >= 0 && wanted[i].get<size_t>() < old.size(),
            kInvalidArgument, "adjustObservers() of ", name_, " returned ", wanted[i].dump(), " for place ", i,
            "; wanted the number of an observer, null, or a function that makes one");
        observers[i].second = old[wanted[i].get<size_t>()].second;
      }
    }
  }

 private:
  template <class Result>
  Result ask(const char* method, const Program& program, const Annotations& annotations,
             Program* to_transform = nullptr) {
    annotated_now().push_back({&program, to_transform});
    const auto leave = [](void*) { annotated_now().pop_back(); };
    const std::unique_ptr<void, decltype(leave)> when_done(this, leave);  // also when JavaScript throws
    format::Json report = graph_report(*program.graph);
    for (format::Json& node : report["nodes"]) {
      const auto found = annotations.find(program.graph->find(node["name"].get<std::string>()));
      if (found != annotations.end() && found->second.annotated) node["annotatedBy"] = found->second.annotator;
    }
    return callbacks_.call<Result>(method, static_cast<double>(number_), format::print_json(report));
  }

  int64_t number_;
  std::string name_;
  val callbacks_;
  RecipeExtensions extensions_;
};

}  // namespace

const Program& program_of(int handle) {
  if (handle != kAnnotatedNow) return held<const Program>(handle, "a program");
  QDQ_CHECK(!annotated_now().empty(), kInvalidArgument,
            "this graph could be asked only while annotate() was running; ask the program instead");
  return *annotated_now().back().program;
}
Program& changed_program_of(int handle) {
  if (handle != kAnnotatedNow) return held<Program>(handle, "a program");
  QDQ_CHECK(!annotated_now().empty() && annotated_now().back().to_transform, kInvalidArgument,
            "this graph can be changed only while transformForAnnotation() is running");
  return *annotated_now().back().to_transform;
}

RecipeExtensions extensions_of(const val& callbacks) {
  RecipeExtensions extensions;
  extensions.observer = [callbacks](int64_t number, const ObserverArgs& args) -> std::shared_ptr<Observer> {
    val body = callbacks.call<val>("makeObserver", static_cast<double>(number), settings_text(args));
    if (!body["fakeQuantize"].isUndefined()) return std::make_shared<JavaScriptFakeQuantize>(args, body);
    return std::make_shared<JavaScriptObserver>(args, std::move(body));
  };
  extensions.derive = [callbacks](int64_t number, const std::vector<QParams>& sources) {
    format::Json list = format::Json::array();
    for (const QParams& source : sources)
      list.push_back(
          format::json_object({{"scale", format::Json(source.scale)}, {"zeroPoint", format::Json(source.zero_point)}}));
    QParams out =
        qparams_from(callbacks.call<std::string>("derive", static_cast<double>(number), format::print_json(list)),
                     "the rule of a derived spec", {min_of(DType::kS32), max_of(DType::kS32)});
    out.zero_point_dtype = DType::kS32;
    return out;
  };
  extensions.filter = [callbacks, known = std::make_shared<std::map<std::pair<int64_t, const Node*>, bool>>()](
                          int64_t number, const Node& node) {
    const auto found = known->find({number, &node});
    if (found != known->end()) return found->second;
    const bool passes =
        callbacks.call<bool>("filter", static_cast<double>(number), format::print_json(node_report(node)));
    known->emplace(std::pair(number, &node), passes);
    return passes;
  };
  const RecipeExtensions observers_only = extensions;
  extensions.quantizer = [callbacks, observers_only](int64_t number,
                                                     const std::string& name) -> std::unique_ptr<Quantizer> {
    return std::make_unique<JavaScriptQuantizer>(number, name, callbacks, observers_only);
  };
  return extensions;
}

}  // namespace qdq
