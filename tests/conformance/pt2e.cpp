// Conformance of the PT2E flow: reading, annotation, preparation, calibration, conversion and the outputs of the
// result.
#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <set>

#include "conformance/conformance.h"
#include "conformance/graph.h"
#include "exec/interpreter.h"
#include "format/json.h"
#include "format/sha256.h"
#include "io/pt2.h"
#include "quant/numeric_debug.h"
#include "quant/pt2e.h"
#include "recipe/recipe.h"

namespace qdq {

namespace {

using Json = nlohmann::json;

// One flow of a case: the case itself, or an entry of `flows` in zoo.
class Flow {
 public:
  Flow(const ConformanceCase& c, const Json& flow, const Program& program, std::string prefix)
      : case_(c), flow_(flow), expected_(flow.at("expected")), tolerances_(flow.at("tolerances")), float_(program),
        prefix_(std::move(prefix)), backend_(make_simd_ops()) {
    if (expected_.contains("error")) stage_ = expected_["error"].at("stage").get<std::string>();
    const Json& qparams = tolerances_.value("qparams", Json::object());
    default_ = tolerance_of(qparams.value("default", Json::object()));
    widest_ = default_;
    if (qparams.contains("observers"))
      for (const auto& [id, tolerance] : qparams["observers"].items()) {
        by_observer_[id] = tolerance_of(tolerance);
        widest_.relative = std::max(widest_.relative, by_observer_[id].relative);
        widest_.integers = std::max(widest_.integers, by_observer_[id].integers);
      }
  }

  void run() {
    std::optional<Prepared> prepared;
    if (refused("prepare", [&] { prepared.emplace(prepare()); })) return;
    if (expected_.contains("annotations")) same_annotations(*prepared);
    if (expected_.contains("prepared")) same_observers(*prepared);
    if (refused("calibrate", [&] { calibrate(*prepared); })) return;
    if (refused("qparams", [&] { read_qparams(*prepared); })) return;
    if (expected_.contains("prepared")) same_state(*prepared);
    std::optional<Program> converted;
    const bool fold = flow_.value("convert", Json::object()).value("fold_quantize", true);
    if (refused("convert", [&] { converted.emplace(convert_pt2e(*prepared, {false, fold})); })) return;
    Renaming renaming;
    if (expected_.contains("converted")) {
      renaming = expect_same_graph("converted graph", *converted->graph, expected_["converted"]["graph"], widest_);
      same_tensors(*converted, renaming, expected_["converted"]["tensors"]);
    }
    if (refused("run", [&] { run_tests(*converted); })) return;
    if (!stage_.empty())
      differ("this should be refused at the stage ", stage_, ": ", expected_["error"]["message"].dump());
    if (expected_.contains("outputs")) {
      same_outputs("converted", *converted, tolerances_.at("outputs_end_to_end"));
      Program with_qparams = converted->clone();
      take_over_numbers(with_qparams, renaming);
      same_outputs("converted with PyTorch's qparams", with_qparams, tolerances_.at("outputs_same_qparams"));
    }
    if (expected_.contains("numeric_debug")) same_numeric_debug(*converted);
    if (expected_.contains("reference")) same_reference(fold);
  }

 private:
  static NumberTolerance tolerance_of(const Json& json) {
    return {json.value("scale_rel", 1e-6), json.value("zero_point", int64_t{0})};
  }

  // Runs a stage. True if it was refused as it should be; an error at another stage goes through.
  bool refused(const std::string& stage, const std::function<void()>& body) {
    if (stage != stage_) {
      body();
      return false;
    }
    try {
      body();
    } catch (const Error&) {
      return true;
    }
    differ("the stage ", stage, " should be refused: ", expected_["error"]["message"].dump());
  }

  std::unique_ptr<Quantizer> quantizer() const {
    format::Json recipe = format::Json::parse(flow_.at("recipe").dump());
    recipe["compat"] = "torch-2.6";
    return parse_recipe(recipe, "the recipe");
  }

  Prepared prepare() const {
    Program program = float_.clone();
    if (case_.json().value("numeric_debug_handles", false)) generate_numeric_debug_handles(program);
    return prepare_pt2e(std::move(program), *quantizer());
  }

  void calibrate(Prepared& prepared) const {
    for (const auto& batch : batches_of(case_, "calib.npz", "b")) prepared.run(batch);
  }

  // annotations

  Json json_of(const EdgeOrNode& at) const {
    if (const Edge* edge = std::get_if<Edge>(&at)) return {{"edge", {edge->first->name(), edge->second->name()}}};
    return {{"node", std::get<Node*>(at)->name()}};
  }

  static Json json_of(const ObserverCtr& ctr) {
    Json args = Json::object(), inner = Json::object();
    if (ctr.eps != 1.1920928955078125e-07) args["eps"] = ctr.eps;
    if (!ctr.inner_class.empty()) {
      inner["class"] = ctr.inner_class;
      if (ctr.averaging_constant) inner["args"] = {{"averaging_constant", *ctr.averaging_constant}};
      args["observer"] = inner;
    } else if (ctr.averaging_constant) {
      args["averaging_constant"] = *ctr.averaging_constant;
    }
    Json out = {{"class", ctr.class_name}};
    if (!args.empty()) out["args"] = args;
    return out;
  }

  Json json_of(const QSpec& spec) const {
    const auto number = [](const std::optional<int64_t>& value) { return value ? Json(*value) : Json(); };
    const auto scheme = [](const std::optional<QScheme>& value) {
      return value ? Json(std::string(to_string(*value))) : Json();
    };
    if (const auto* s = std::get_if<QuantizationSpec>(&spec))
      return {{"spec", "quantization"},
              {"dtype", std::string(to_string(s->dtype))},
              {"quant_min", number(s->quant_min)},
              {"quant_max", number(s->quant_max)},
              {"qscheme", scheme(s->qscheme)},
              {"ch_axis", number(s->ch_axis)},
              {"is_dynamic", s->is_dynamic},
              {"observer", json_of(s->observer)}};
    if (const auto* s = std::get_if<SharedQuantizationSpec>(&spec)) return {{"shared_with", json_of(s->with)}};
    if (const auto* s = std::get_if<FixedQParamsQuantizationSpec>(&spec))
      return {{"spec", "fixed_qparams"},
              {"dtype", std::string(to_string(s->dtype))},
              {"scale", s->scale},
              {"zero_point", s->zero_point},
              {"quant_min", number(s->quant_min)},
              {"quant_max", number(s->quant_max)},
              {"qscheme", scheme(s->qscheme)}};
    if (const auto* s = std::get_if<DerivedQuantizationSpec>(&spec)) {
      Json from = Json::array();
      for (const EdgeOrNode& at : s->derived_from) from.push_back(json_of(at));
      return {{"spec", "derived"},
              {"from", from},
              {"rule", s->rule},
              {"dtype", std::string(to_string(s->dtype))},
              {"quant_min", number(s->quant_min)},
              {"quant_max", number(s->quant_max)},
              {"qscheme", scheme(s->qscheme)},
              {"ch_axis", number(s->ch_axis)}};
    }
    return nullptr;
  }

  void same_annotations(const Prepared& prepared) const {
    const Json& table = expected_["annotations"]["qspecs"];
    const auto resolve = [&](const Json& spec) {
      return spec.is_object() && spec.contains("qspec") ? table.at(spec["qspec"].get<size_t>()) : spec;
    };
    std::set<std::string> annotated;
    for (const Json& wanted : expected_["annotations"]["nodes"]) {
      const auto name = wanted.at("node").get<std::string>();
      annotated.insert(name);
      const auto found = prepared.annotations().find(prepared.program().graph->find(name));
      if (found == prepared.annotations().end()) differ("annotations: node ", name, " has none");
      const QuantizationAnnotation& annotation = found->second;
      const auto same = [&](const std::string& what, const Json& ours, const Json& theirs) {
        if (ours != theirs)
          differ("annotations: node ", name, ": ", what, " is ", ours.dump(), ", PyTorch has ", theirs.dump());
      };
      const Json inputs = wanted.value("inputs", Json::array());
      same("the number of inputs", annotation.input_qspec_map.size(), inputs.size());
      for (size_t i = 0; i < inputs.size(); ++i) {
        same("an input", annotation.input_qspec_map[i].first->name(), inputs[i][0]);
        same("the spec of input " + inputs[i][0].get<std::string>(), json_of(annotation.input_qspec_map[i].second),
             resolve(inputs[i][1]));
      }
      same("the output spec", json_of(annotation.output_qspec), resolve(wanted.at("output")));
      same("annotated", annotation.annotated, wanted.value("annotated", false));
      same("allow_implicit_sharing", annotation.allow_implicit_sharing, wanted.value("allow_implicit_sharing", true));
      same("is_output_of_quantized_pattern", annotation.is_output_of_quantized_pattern,
           wanted.value("is_output_of_quantized_pattern", false));
    }
    for (const auto& [node, annotation] : prepared.annotations())
      for (const Node* known : prepared.program().graph->nodes())
        if (known == node && !annotated.count(node->name()))
          differ("annotations: node ", node->name(), " has one, but none in PyTorch");
  }

  // observers

  static std::set<std::string> texts(const Json& list) {
    std::set<std::string> out;
    for (const Json& element : list) out.insert(element.dump());
    return out;
  }

  void same_observers(const Prepared& prepared) const {
    Renaming renaming;
    const bool has_graph = expected_["prepared"].contains("graph");
    if (has_graph)
      renaming = expect_same_graph("prepared graph", *prepared.program().graph, expected_["prepared"]["graph"]);
    const Json& observers = expected_["prepared"]["observers"];
    if (observers.size() != prepared.observers().size())
      differ("there are ", prepared.observers().size(), " observers, PyTorch has ", observers.size());
    for (size_t i = 0; i < observers.size(); ++i) {
      const ObserverGroup& group = prepared.observers()[i];
      Json covers = Json::array(), modules = Json::array(), sources = Json::array();
      for (const EdgeOrNode& at : group.covers) covers.push_back(json_of(at));
      const auto same = [&](const char* what, const Json& ours, const Json& theirs) {
        if (texts(ours) != texts(theirs))
          differ("observer ", i, " ", what, " ", ours.dump(), ", PyTorch's ", theirs.dump());
      };
      same("covers", covers, observers[i].at("covers"));
      for (const std::string& name : group.inserted_as) modules.push_back(name);
      Json expected_modules = Json::array();
      for (const Json& name : observers[i].at("inserted_as"))
        expected_modules.push_back(has_graph ? renaming.nodes.at(name.get<std::string>())->name()
                                             : name.get<std::string>());
      same("is inserted as", modules, expected_modules);
      for (const auto& source : group.derived_from)
        for (size_t k = 0; k < prepared.observers().size(); ++k)
          if (prepared.observers()[k].observer == source) sources.push_back(k);
      same("is derived from", sources, observers[i].value("derived_from", Json::array()));
      Json settings = observers[i];
      for (const char* key : {"id", "inserted_as", "covers", "derived_from", "state"}) settings.erase(key);
      // no axis: nothing to compare
      if (settings.contains("ch_axis") && settings["ch_axis"].is_null()) settings.erase("ch_axis");
      expect_settings(*group.observer, settings);
    }
  }

  // What convert would ask every observer for.
  static void read_qparams(const Prepared& prepared) {
    for (const ObserverGroup& group : prepared.observers())
      if (!group.observer->args().is_dynamic && !is_floating(group.observer->args().dtype))
        group.observer->calculate_qparams_or_default();
  }

  NumberTolerance tolerance_of_observer(size_t id) const {
    const auto found = by_observer_.find(std::to_string(id));
    return found == by_observer_.end() ? default_ : found->second;
  }

  void same_state(const Prepared& prepared) const {
    const Json& observers = expected_["prepared"]["observers"];
    for (size_t i = 0; i < observers.size(); ++i) {
      const Json state = observers[i].value("state", Json::object());
      const Observer& observer = *prepared.observers()[i].observer;
      const NumberTolerance tolerance = tolerance_of_observer(i);
      const std::string what = concat("observer ", i, " of ", to_string(prepared.observers()[i].covers[0]), ": ");
      if (state.contains("min_val")) {
        const std::vector<double> low = numbers_of(state["min_val"]), high = numbers_of(state["max_val"]);
        double range = 0;
        for (size_t k = 0; k < low.size(); ++k)
          range = std::max({range, high[k] - low[k], std::fabs(low[k]), std::fabs(high[k])});
        // Values that do not depend on sums are exact; for the others the tolerance of the scale is one of the range.
        const double absolute =
            by_observer_.count(std::to_string(i)) || tolerance.relative > 0 ? tolerance.relative * range : 0;
        expect_close(what + "min_val", numbers_of(observer.min_val()), low, 0, absolute);
        expect_close(what + "max_val", numbers_of(observer.max_val()), high, 0, absolute);
      }
      if (!state.contains("scale")) continue;
      const QParams qparams = observer.calculate_qparams_or_default();
      const std::vector<double> scale(qparams.scale.begin(), qparams.scale.end());
      expect_close(what + "scale", scale, numbers_of(state["scale"]), tolerance.relative, 0);
      std::vector<double> zero_point(qparams.zero_point.begin(), qparams.zero_point.end());
      if (!qparams.float_zero_point.empty())
        zero_point.assign(qparams.float_zero_point.begin(), qparams.float_zero_point.end());
      expect_close(what + "zero_point", zero_point, numbers_of(state["zero_point"]),
                   qparams.float_zero_point.empty() ? 0 : 1e-6, static_cast<double>(tolerance.integers));
    }
  }

  // tensors

  void same_tensors(const Program& program, const Renaming& renaming, const Json& tensors) const {
    for (const auto& [name, wanted] : tensors.items()) {
      const auto target = renaming.targets.find(name);
      if (target == renaming.targets.end()) differ("converted tensors: no node reads ", name);
      const Attribute* attribute = program.find_attribute(target->second);
      if (attribute == nullptr) differ("converted tensors: ", name, " is missing");
      same_tensor("converted tensor " + name, attribute->tensor.contiguous(), wanted);
    }
  }

  void same_tensor(const std::string& what, const Tensor& tensor, const Json& wanted) const {
    if (wanted.contains("same_as")) {
      const auto name = wanted["same_as"].get<std::string>();
      const Attribute* original = float_.find_attribute(name);
      // By bytes: tensors of zeros are the same, whatever their shapes.
      const auto bytes = [](const Tensor& t) { return std::span<const std::byte>(t.raw(), t.nbytes()); };
      if (original == nullptr || !std::ranges::equal(bytes(original->tensor.contiguous()), bytes(tensor)))
        differ(what, " is not the float model's ", name);
      return;
    }
    const std::string dtype(to_string(tensor.dtype()));
    if (dtype != wanted.at("dtype").get<std::string>() || Json(tensor.sizes()) != wanted.at("shape"))
      differ(what, " is ", dtype, " ", to_string(tensor.sizes()), ", PyTorch has ", wanted["dtype"].dump(), " ",
             wanted["shape"].dump());
    if (format::sha256({tensor.raw(), tensor.nbytes()}) == wanted.at("sha256").get<std::string>()) return;
    if (!wanted.contains("npz")) differ(what, " differs from PyTorch's (by its hash)");
    const Tensor& expected = case_.array("expected.npz", wanted["npz"].get<std::string>());
    // Where qparams may move, so may scales, and integers by one.
    const bool moves = !by_observer_.empty();
    expect_close(what, tensor, expected, moves && is_floating(tensor.dtype()) ? widest_.relative : 0, 0);
    if (!moves) differ(what, " has PyTorch's numbers, but other bytes");
  }

  // outputs

  std::vector<std::vector<Tensor>> run_tests(const Program& program) const {
    Interpreter interpreter(program, {backend_.get()});
    std::vector<std::vector<Tensor>> out;
    for (const auto& inputs : batches_of(case_, "test.npz", "t")) out.push_back(interpreter.run(inputs));
    return out;
  }

  // The literals and tensors of PyTorch's converted program in place of ours, where they may differ.
  void take_over_numbers(Program& program, const Renaming& renaming) const {
    const Json& graph = expected_["converted"]["graph"];
    for (const Json& wanted : graph) {
      Node* node = program.graph->find(renaming.nodes.at(wanted.at("name").get<std::string>())->name());
      if (node->target().find("quantized_decomposed") == std::string::npos) continue;
      for (size_t i = 0; i < wanted["args"].size(); ++i) {
        const Json& value = wanted["args"][i];
        if (value.is_number_float()) node->set_arg(i, value.get<double>());
        else if (value.is_number_integer()) node->set_arg(i, value.get<int64_t>());
      }
    }
    for (const auto& [name, wanted] : expected_["converted"]["tensors"].items())
      if (wanted.contains("npz"))
        program.find_attribute(renaming.targets.at(name))->tensor =
            case_.array("expected.npz", wanted["npz"].get<std::string>());
  }

  void same_outputs(const std::string& what, const Program& program, const Json& tolerance,
                    const std::string& kind = "converted") const {
    const auto outputs = run_tests(program);
    const Json& limits = tolerance.at("limits");
    for (size_t t = 0; t < outputs.size(); ++t)
      for (size_t o = 0; o < outputs[t].size(); ++o) {
        const std::string key = concat(prefix_, kind, "_t", t, "_o", o);
        expect_within_limits(concat(what, ": output ", o, " of test ", t), outputs[t][o],
                             case_.array("expected.npz", key), number_of(expected_["outputs"].at(o).at("unit")),
                             limits.at(o));
      }
  }

  void same_numeric_debug(const Program& converted) const {
    Program with_handles = float_.clone();
    generate_numeric_debug_handles(with_handles);
    const std::vector<std::vector<Tensor>> inputs = batches_of(case_, "test.npz", "t");
    const std::vector<NodeAccuracy> found = compare_by_debug_handle(with_handles, converted, inputs, {backend_.get()});
    const Json& expected = expected_["numeric_debug"];
    if (found.size() != expected.size())
      differ("numeric debug: ", found.size(), " handles, PyTorch has ", expected.size());
    for (size_t i = 0; i < found.size(); ++i) {
      const std::string what = concat("numeric debug of handle ", found[i].handle, ": ");
      if (found[i].handle != expected[i].at("handle").get<int64_t>())
        differ(what, "PyTorch has handle ", expected[i]["handle"].dump());
      // Accumulated in float32 there; the ratio of sums is good to about five digits.
      expect_close(what + "mse", found[i].mse, numbers_of(expected[i].at("mse")), 1e-4, 1e-12);
      expect_close(what + "sqnr_db", found[i].sqnr_db, numbers_of(expected[i].at("sqnr_db")), 0, 1e-3);
    }
  }

  // The reference representation, from a calibration of its own.
  void same_reference(bool fold) const {
    const Json& reference = expected_["reference"];
    Prepared prepared = prepare();
    calibrate(prepared);
    if (reference.contains("error")) {
      try {
        convert_pt2e(prepared, {true, fold});
      } catch (const Error&) {
        return;
      }
      differ("the reference representation should be refused: ", reference["error"].dump());
    }
    const Program program = convert_pt2e(prepared, {true, fold});
    expect_same_graph("reference graph", *program.graph, reference.at("graph"), widest_);
    same_outputs("reference representation", program, tolerances_.at("outputs_end_to_end"), "reference");
  }

  const ConformanceCase& case_;
  const Json& flow_;
  const Json& expected_;
  const Json& tolerances_;
  const Program& float_;
  std::string prefix_;
  std::string stage_;
  NumberTolerance default_, widest_;
  std::map<std::string, NumberTolerance> by_observer_;
  std::unique_ptr<OpBackend> backend_;
};

// What torch.export.load of 2.6 makes of a saved program: arguments that have a default become keywords.
void move_defaults_to_kwargs(Program& program) {
  for (Node* node : program.graph->nodes()) {
    const OpDef* op = node->op() == Node::Op::kCallFunction ? find_op(node->target()) : nullptr;
    if (op == nullptr) continue;
    std::vector<Argument> args;
    Node::Kwargs kwargs;
    for (size_t i = 0; i < node->args().size(); ++i) {
      const SchemaArgument& argument = op->schema->arguments.at(i);
      if (argument.default_value) kwargs.emplace_back(argument.name, node->args()[i]);
      else args.push_back(node->args()[i]);
    }
    kwargs.insert(kwargs.end(), node->kwargs().begin(), node->kwargs().end());
    node->set_args(std::move(args));
    node->set_kwargs(std::move(kwargs));
  }
}

Program load_float(const ConformanceCase& c) {
  Program program = load_pt2(c.read("model.pt2"));
  if (c.json().at("expected").contains("float_graph"))
    expect_same_graph("float graph", *program.graph, c.json()["expected"]["float_graph"]);
  return program;
}

void same_float_outputs(const ConformanceCase& c, const Program& program) {
  const Json& tolerances = c.json().at("tolerances");
  if (!tolerances.contains("float_outputs")) return;
  const std::unique_ptr<OpBackend> backend = make_simd_ops();
  Interpreter interpreter(program, {backend.get()});
  const auto tests = batches_of(c, "test.npz", "t");
  for (size_t t = 0; t < tests.size(); ++t) {
    const std::vector<Tensor> outputs = interpreter.run(tests[t]);
    for (size_t o = 0; o < outputs.size(); ++o) {
      const std::string key = concat("float_t", t, "_o", o);
      if (!c.has_array("expected.npz", key)) continue;
      expect_close(concat("float output ", o, " of test ", t), outputs[o], c.array("expected.npz", key), 0,
                   number_of(tolerances["float_outputs"].at(o).at("max_abs")));
    }
  }
}

}  // namespace

void run_pt2e_case(const ConformanceCase& c) {
  Program program = load_float(c);
  same_float_outputs(c, program);
  if (c.json().contains("after_load")) move_defaults_to_kwargs(program);
  Flow(c, c.json(), program, "").run();
}

void run_zoo_case(const ConformanceCase& c) {
  const Program program = load_float(c);
  same_float_outputs(c, program);
  for (const Json& flow : c.json().at("flows")) {
    const auto name = flow.at("name").get<std::string>();
    try {
      Flow(c, flow, program, name + "_").run();
    } catch (const Mismatch& mismatch) {
      differ(name, ": ", mismatch.what());
    } catch (const Error& error) {
      throw Error(error.code, name + ": " + error.message, error.node, error.op);
    }
  }
}

}  // namespace qdq
