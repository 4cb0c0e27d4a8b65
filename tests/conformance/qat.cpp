// Conformance of quantization-aware training: the prepared graph, every step of training, the converted program.
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "conformance/conformance.h"
#include "conformance/graph.h"
#include "exec/interpreter.h"
#include "format/json.h"
#include "io/pt2.h"
#include "quant/observers/fake_quantize.h"
#include "recipe/recipe.h"
#include "train/trainer.h"

namespace qdq {
namespace {

using Json = nlohmann::json;

class QatFlow {
 public:
  // All inputs are multiplied by 1 + `move`.
  QatFlow(const ConformanceCase& c, double move)
      : case_(c), move_(move), expected_(c.json().at("expected")), training_(c.json().at("training")) {
    const Json& limits = c.json().at("tolerances").at("training");
    loss_relative_ = number_of(limits.at("loss_rel"));
    parameter_absolute_ = number_of(limits.at("param_abs"));
    statistics_absolute_ = number_of(limits.at("bn_abs"));
    scale_relative_ = number_of(limits.at("scale_rel"));
  }

  struct Output {
    Tensor tensor;
    double unit = 1;  // in which it is measured
  };
  // By the names that they have in the case; and the first that is not within its limits.
  const std::map<std::string, Output>& outputs() const { return outputs_; }
  const std::optional<Mismatch>& mismatch_of_outputs() const { return of_outputs_; }

  // Throws Mismatch for all but outputs.
  void run() {
    Program program = load_pt2(case_.read("model.pt2"));
    expect_same_graph("float graph", *program.graph, expected_.at("float_graph"));
    format::Json recipe = format::Json::parse(case_.json().at("recipe").dump());
    recipe["compat"] = "torch-2.6";
    Prepared prepared = prepare_qat_pt2e(std::move(program), *parse_recipe(recipe, "the recipe"));
    same_observers(prepared);
    train(prepared);
    const Json& tolerances = case_.json().at("tolerances");
    const auto tests = batches_of(case_, "test.npz", "t", move_);
    if (training_.at("mode_before_convert") == "eval") {
      move_exported_model_to_eval(prepared);
      enable_observer(prepared, false);
      for (size_t t = 0; t < tests.size(); ++t) same_outputs("prepared", t, prepared.run(tests[t]), tolerances);
    }
    const Program converted =
        convert_pt2e(prepared, {false, case_.json().at("convert").at("fold_quantize").get<bool>()});
    const NumberTolerance tolerance{scale_relative_, 0};
    const Renaming renaming =
        expect_same_graph("converted graph", *converted.graph, expected_["converted"]["graph"], tolerance);
    for (const auto& [name, wanted] : expected_["converted"]["tensors"].items()) {
      // The counter of a BatchNorm1d goes on counting in every run of the prepared and converted programs, and the case
      // does not say how many of them there were when it was written; the steps before say that it counts.
      if (!wanted.contains("npz") || name.ends_with("num_batches_tracked")) continue;
      const Attribute* attribute = converted.find_attribute(renaming.targets.at(name));
      if (attribute == nullptr) differ("converted tensors: ", name, " is missing");
      const Tensor& tensor = case_.array("expected.npz", wanted["npz"].get<std::string>());
      expect_close("converted tensor " + name, as_vector(attribute->tensor, tensor), tensor, 0,
                   is_floating(tensor.dtype()) ? parameter_absolute_ : 0);
    }
    const std::unique_ptr<OpBackend> backend = make_simd_ops();
    Interpreter interpreter(converted, {backend.get()});
    for (size_t t = 0; t < tests.size(); ++t) same_outputs("converted", t, interpreter.run(tests[t]), tolerances);
  }

 private:
  void same_observers(const Prepared& prepared) {
    const Renaming renaming =
        expect_same_graph("prepared graph", *prepared.program().graph, expected_["prepared"]["graph"]);
    // A batch norm that PyTorch replaced, and its annotations name nevertheless, has its old name in both.
    const auto ours = [&](const Json& json) {
      const auto name = json.get<std::string>();
      const auto found = renaming.nodes.find(name);
      return found == renaming.nodes.end() ? name : found->second->name();
    };
    // The cases list those that were inserted.
    for (size_t i = 0; i < prepared.observers().size(); ++i)
      if (!prepared.observers()[i].inserted_as.empty()) inserted_.push_back(i);
    const Json& observers = expected_["prepared"]["observers"];
    if (observers.size() != inserted_.size())
      differ("there are ", inserted_.size(), " observers, PyTorch has ", observers.size());
    for (size_t i = 0; i < observers.size(); ++i) {
      const ObserverGroup& group = prepared.observers()[inserted_[i]];
      std::set<std::string> covers, expected_covers, modules(group.inserted_as.begin(), group.inserted_as.end()),
          expected_modules;
      for (const EdgeOrNode& at : group.covers) covers.insert(to_string(at));
      for (const Json& at : observers[i].at("covers"))
        expected_covers.insert(at.contains("node") ? ours(at["node"])
                                                   : concat("(", ours(at["edge"][0]), ", ", ours(at["edge"][1]), ")"));
      for (const Json& name : observers[i].at("inserted_as")) expected_modules.insert(ours(name));
      if (covers != expected_covers)
        differ("observer ", i, " covers other places than PyTorch's ", observers[i]["covers"].dump());
      if (modules != expected_modules)
        differ("observer ", i, " is inserted elsewhere than PyTorch's ", observers[i]["inserted_as"].dump());
      Json settings = observers[i];
      for (const char* key : {"id", "inserted_as", "covers", "derived_from", "state"}) settings.erase(key);
      expect_settings(*group.observer, settings);
    }
  }

  void train(Prepared& prepared) const {
    TrainingOptions options;
    options.loss = training_.at("loss") == "mse" ? Loss::kMse : Loss::kCrossEntropy;
    options.optimizer.lr = number_of(training_.at("lr"));
    options.optimizer.momentum = number_of(training_.at("momentum"));
    Trainer trainer(prepared, options);
    const auto batches = batches_of(case_, "train.npz", "b", move_);
    for (size_t step = 0; step < training_.at("steps").get<size_t>(); ++step) {
      const std::string name = concat("step", step, "_"), what = concat("step ", step, ": ");
      for (const Json& change :
           training_.value("switches_before_step", Json::object()).value(std::to_string(step), Json::array()))
        turn(prepared, change.get<std::string>());
      const Json& expected = expected_.at("steps").at(step);
      const double loss = trainer.step(batches.at(step), case_.array("train.npz", concat("b", step, "_target")));
      const std::vector<double> found_loss{loss}, expected_loss{number_of(expected.at("loss"))};
      expect_close(what + "loss", found_loss, expected_loss, loss_relative_, 0);
      if (step == 0)
        for (const auto& [parameter, grad] : trainer.gradients())
          if (case_.has_array("expected.npz", concat(name, "grad_", parameter)))
            expect_close(what + "gradient of " + parameter, grad,
                         case_.array("expected.npz", concat(name, "grad_", parameter)), 0, parameter_absolute_);
      same_fake_quantizers(what, prepared, expected.at("fake_quants"));
      same_attributes(what, prepared, expected.at("params"), name + "param_", parameter_absolute_);
      same_attributes(what, prepared, expected.at("bn"), name + "bn_", statistics_absolute_);
    }
  }

  static void turn(Prepared& prepared, const std::string& change) {
    if (change == "disable_observer") enable_observer(prepared, false);
    else if (change == "disable_fake_quant") enable_fake_quant(prepared, false);
    else if (change == "enable_fake_quant") enable_fake_quant(prepared, true);
    else if (change == "freeze_bn") move_exported_model_to_eval(prepared);
    else differ("no switch is called ", change);
  }

  void same_fake_quantizers(const std::string& what, const Prepared& prepared, const Json& expected) const {
    for (const auto& [id, wanted] : expected.items()) {
      const Observer& observer = *prepared.observers().at(inserted_.at(std::stoul(id))).observer;
      if (!observer.is_fake_quantize()) differ("observer ", id, " is no fake quantizer");
      const std::string of = concat(what, "fake quantizer ", id, ", ");
      const auto same = [&](const char* key, const std::vector<double>& found, double relative) {
        if (wanted.contains(key)) expect_close(of + key, found, numbers_of(wanted[key]), relative, 0);
      };
      const auto scales = [](const QParams& qparams) {
        return std::vector<double>(qparams.scale.begin(), qparams.scale.end());
      };
      const auto zero_points = [](const QParams& qparams) {
        return std::vector<double>(qparams.zero_point.begin(), qparams.zero_point.end());
      };
      const QParams later = observer.calculate_qparams_or_default(),
                    now = static_cast<const FakeQuantize&>(observer).qparams_in_force();
      same("scale", scales(later), scale_relative_);
      same("zero_point", zero_points(later), 0);
      same("fq_scale", scales(now), scale_relative_);
      same("fq_zero_point", zero_points(now), 0);
      if (!wanted.contains("min_val")) continue;
      // What an end of the range may be off by is measured by the range.
      const std::vector<double> low = numbers_of(wanted["min_val"]), high = numbers_of(wanted["max_val"]);
      double range = 0;
      for (size_t k = 0; k < low.size(); ++k)
        range = std::max({range, high[k] - low[k], std::fabs(low[k]), std::fabs(high[k])});
      expect_close(of + "min_val", numbers_of(observer.min_val()), low, 0, scale_relative_ * range);
      expect_close(of + "max_val", numbers_of(observer.max_val()), high, 0, scale_relative_ * range);
    }
  }

  // The cases keep a scalar as a vector of one.
  static Tensor as_vector(const Tensor& found, const Tensor& expected) {
    return found.dim() == 0 && expected.sizes() == Shape{1} ? found.reshape({1}) : found.contiguous();
  }

  void same_attributes(const std::string& what, const Prepared& prepared, const Json& names, const std::string& prefix,
                       double absolute) const {
    for (const Json& json : names) {
      const auto name = json.get<std::string>();
      const Attribute* attribute = prepared.program().find_attribute(name);
      if (attribute == nullptr) differ(what, name, " is missing");
      const Tensor& expected = case_.array("expected.npz", prefix + name);
      expect_close(what + name, as_vector(attribute->tensor, expected), expected, 0, absolute);
    }
  }

  void same_outputs(const std::string& what, size_t test, const std::vector<Tensor>& outputs, const Json& tolerances) {
    for (size_t o = 0; o < outputs.size(); ++o) {
      const std::string key = concat(what, "_t", test, "_o", o);
      outputs_[key] = {outputs[o], number_of(expected_["outputs"].at(o).at("unit"))};
      try {
        expect_within_limits(concat(what, ": output ", o, " of test ", test), outputs[o],
                             case_.array("expected.npz", key), outputs_[key].unit,
                             tolerances.at("outputs_same_qparams").at("limits").at(o));
      } catch (const Mismatch& mismatch) {
        if (!of_outputs_) of_outputs_ = mismatch;
      }
    }
  }

  const ConformanceCase& case_;
  double move_;
  const Json& expected_;
  const Json& training_;
  std::map<std::string, Output> outputs_;
  std::optional<Mismatch> of_outputs_;
  std::vector<size_t> inserted_;  // of the prepared program's observers those in the graph
  double loss_relative_ = 0, parameter_absolute_ = 0, statistics_absolute_ = 0, scale_relative_ = 0;
};

}  // namespace

void run_qat_case(const ConformanceCase& c) {
  std::vector<std::map<std::string, QatFlow::Output>> runs;
  try {
    run_moved([&](double move) {
      QatFlow flow(c, move);
      flow.run();
      runs.push_back(flow.outputs());
      if (flow.mismatch_of_outputs()) throw Mismatch(*flow.mismatch_of_outputs());
    });
  } catch (const Mismatch& mismatch) {
    // Training agreed, but for the outputs: then PyTorch's may be as far from those of the inputs as given as those of
    // the moved inputs are.
    if (runs.size() < 2) throw;
    for (const auto& [key, output] : runs[0]) {
      double apart = 0;
      for (const auto& run : runs) apart = std::max(apart, largest_difference(run.at(key).tensor, output.tensor));
      const double found = largest_difference(c.array("expected.npz", key), output.tensor);
      if (found > apart + 0.01 * output.unit) throw;
    }
  }
}

}  // namespace qdq
