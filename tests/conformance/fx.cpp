// Conformance of FX graph mode: QConfigMapping, prepare_fx, convert_to_reference_fx and convert_fx.
//
// The cases hold graphs of modules; here is an exported program of operators. What is compared: the calls of the traced
// graph one by one (path and type); every value that a call or the output reads, with all observers (and in the
// converted program all quantize - dequantize pairs) on the way from its producer, and which of them are one instance;
// settings, statistics and qparams of observers; the qparams and integers of weights, and that all others are float;
// outputs. Mapped: a node's name becomes the operators that the call was exported as; a module that was fused is its
// operators together; quint8 is uint8, and so on; a call without an operator (nn.Identity) is the value that it hands
// on. Not compared: names of attributes for qparams, and the lowered graph, whose modules qdq does not have (their
// scales, zero points and weights are).
#include <algorithm>
#include <cmath>
#include <map>

#include "conformance/conformance.h"
#include "conformance/fx_json.h"
#include "conformance/fx_layers.h"
#include "conformance/fx_paths.h"
#include "exec/interpreter.h"
#include "lower/lower.h"
#include "op/op.h"
#include "quant/qat.h"
#include "recipe/recipe.h"
#include "recipe/recipe_backend_config.h"
#include "recipe/recipe_fx.h"
#include "recipe/recipe_qconfig.h"

namespace qdq {

namespace {

using conformance::inputs_of, conformance::node_of, conformance::Json;

Json plain(const format::Json& json) { return Json::parse(format::print_json(json)); }

void same_json(const std::string& what, const Json& found, const Json& expected) {
  if (found.is_object() && expected.is_object() && found.size() == expected.size())
    for (const auto& [key, value] : expected.items())
      if (found.contains(key)) same_json(concat(what, ", ", key), found[key], value);
  if (found.is_array() && expected.is_array() && found.size() == expected.size())
    for (size_t i = 0; i < found.size(); ++i) same_json(concat(what, ", ", i), found[i], expected[i]);
  if (found != expected) differ(what, " is ", found.dump(), ", PyTorch has ", expected.dump());
}

void same_defaults(const Json& expected) {
  for (const auto& [backend, mappings] : expected.at("default_mappings").items()) {
    same_json(concat("the mapping of ", backend), plain(json_of(get_default_qconfig_mapping(backend))),
              mappings.at("ptq"));
    same_json(concat("the QAT mapping of ", backend), plain(json_of(get_default_qat_qconfig_mapping(backend))),
              mappings.at("qat"));
  }
  for (const auto& [name, qconfig] : expected.at("named_qconfigs").items())
    same_json(name, plain(json_of(OptionalQConfig(named_qconfig(name)))), qconfig);
  const Json backends = expected.value("backend_configs", Json::object());
  for (const auto& [name, config] : backends.items()) {
    const BackendConfig theirs = parse_backend_config(format::Json::parse(config.dump()), name);
    const BackendConfig& ours = get_backend_config(name);
    if (ours.name != theirs.name) differ("the backend config ", name, " is called ", ours.name);
    if (ours.configs.size() != theirs.configs.size())
      differ("the backend config ", name, " has ", ours.configs.size(), " patterns, PyTorch has ",
             theirs.configs.size());
    // Their order matters only among patterns that can end in the same operator.
    for (const BackendPatternConfig& wanted : theirs.configs) {
      const auto found = std::find_if(ours.configs.begin(), ours.configs.end(), [&](const auto& other) {
        return with_recorded_names(other.pattern) == with_recorded_names(wanted.pattern);
      });
      if (found == ours.configs.end()) differ("the backend config ", name, " has no ", to_string(wanted.pattern));
      BackendConfig one{name, {*found}}, other{name, {wanted}};
      one.configs[0].pattern = other.configs[0].pattern;
      same_json(concat(name, ", ", to_string(wanted.pattern)), plain(json_of(one)), plain(json_of(other)));
    }
  }
}

// Names of dtypes without the q: a program has no quantized tensor types.
Json with_plain_dtypes(const Json& settings) {
  Json out = settings;
  for (auto& [key, value] : out.items())
    if (value.is_object()) value = with_plain_dtypes(value);
    else if (key == "dtype")
      value = value == "quint8" ? "uint8" : value == "qint8" ? "int8" : value == "qint32" ? "int32" : value;
  return out;
}

class Flow : private conformance::CasePaths {
 public:
  // All inputs are multiplied by 1 + `move`.
  explicit Flow(const ConformanceCase& c, double move = 0) : CasePaths(c, move) {
    const Json qparams = c.json().at("tolerances").value("qparams", Json::object()).value("default", Json::object());
    scale_tolerance_ = qparams.value("scale_rel", 1e-6);
    zero_point_tolerance_ = static_cast<double>(qparams.value("zero_point", int64_t{0}));
  }

  // A case that PyTorch refuses.
  void run_refused() const {
    try {
      Prepared prepared = prepare();
      for (const auto& batch : batches_of(case_, "calib.npz", "b")) prepared.run(batch);
      convert_pt2e(prepared);
    } catch (const Error& error) {
      if (error.code == ErrorCode::kInternal) throw;  // a bug is no refusal
      return;
    }
    differ("this should be refused: ", expected_["error"].dump());
  }

  void run() {
    if (has_quantized_interface()) return run_with_integers();
    if (expected_.contains("equalization")) return run_equalized();
    if (recipe_.contains("expanded")) same_json("the mapping", plain(json_of(mapping())), recipe_["expanded"]);
    find_calls();
    Prepared prepared = prepare();
    if (is_qat()) move_exported_model_to_train(prepared);
    program_ = &prepared.program();
    same_observers(prepared);
    for (const auto& batch : batches_of(case_, "calib.npz", "b", move_)) prepared.run(batch);
    if (is_by_layer()) see_what_pytorch_saw(prepared);
    same_states(prepared);
    if (is_qat()) {
      same_module_fake_quants(prepared);
      move_exported_model_to_eval(prepared);
    }
    const Program unfolded = convert_pt2e(prepared, {false, false});
    program_ = &unfolded;
    same_quantizers();
    const Program converted = convert_pt2e(prepared);
    program_ = &converted;
    same_weights(expected_.at("reference").at("modules"));
    if (is_by_layer()) return same_layers(converted);
    same_outputs(converted);
    if (expected_.contains("lowered")) same_lowered(converted);
  }

 private:
  bool has_quantized_interface() const {
    const PrepareCustomConfig custom = custom_config();
    return !custom.input_quantized_indexes.empty() || !custom.output_quantized_indexes.empty();
  }

  // Programs that take and give integers. PyTorch's carry their qparams with them; here the observer of the input has
  // found them, as the case's script did.
  void run_with_integers() {
    find_calls();
    Prepared prepared = prepare();
    for (const auto& batch : batches_of(case_, "calib.npz", "b", move_)) prepared.run(batch);
    const Program converted = convert_pt2e(prepared);
    program_ = &converted;
    same_weights(expected_.at("reference").at("modules"));
    for (const int64_t index : custom_config().input_quantized_indexes)
      if (converted.graph->placeholders().at(static_cast<size_t>(index))->meta.val.tensor()->dtype != DType::kU8)
        differ("input ", index, " is no uint8");
    std::vector<const Node*> results;
    converted.graph->output_node()->arg(0).for_each_node([&](const Node* node) { results.push_back(node); });
    if (!custom_config().output_quantized_indexes.empty())
      for (const Node* result : results)
        if (result->meta.val.tensor()->dtype != DType::kU8) differ("output ", result->name(), " is no uint8");
    Interpreter interpreter(converted, {});
    const auto tests = batches_of(case_, "test.npz", "t", move_);
    for (size_t t = 0; t < tests.size(); ++t) {
      std::vector<Tensor> inputs = tests[t];
      for (size_t i = 0; i < inputs.size(); ++i) {
        const Node* input = converted.graph->placeholders()[i];
        if (input->meta.val.tensor()->dtype == DType::kU8) inputs[i] = integers_of(inputs[i], *input->users()[0]);
      }
      std::vector<Tensor> outputs = interpreter.run(inputs);
      for (size_t o = 0; o < outputs.size(); ++o)
        if (outputs[o].dtype() == DType::kU8) outputs[o] = reals_of(outputs[o], *results[o]);
      same_output("the reference model", "reference", t, outputs,
                  case_.json()["tolerances"].at("reference_outputs").at("limits"));
    }
  }

  // Whether the case has what each observer saw and the integers in front of each layer: deep networks, in which single
  // roundings decide about all that follows (fx_layers.h).
  bool is_by_layer() const { return expected_.value("by_layer", false); }

  // The ranges here are PyTorch's but for the order of sums. Then observers get the tensors that PyTorch's saw, so that
  // they must say the same.
  void see_what_pytorch_saw(Prepared& prepared) const {
    constexpr double kSums = 1e-4;  // of a range
    for (const auto& [theirs, ours] : group_of_) {
      Observer& observer = *prepared.observers()[ours].observer;
      const auto fresh = make_observer(observer.class_name(), observer.args());
      for (size_t k = 0; case_.has_array("expected.npz", concat("seen_", theirs, "_", k)); ++k)
        fresh->forward(case_.array("expected.npz", concat("seen_", theirs, "_", k)));
      if (!fresh->min_val().defined()) continue;
      const std::vector<double> low = numbers_of(fresh->min_val()), high = numbers_of(fresh->max_val());
      const std::string what = concat("observer ", theirs, " in a run of one's own: ");
      expect_close(what + "min_val", numbers_of(observer.min_val()), low, 0, kSums * (high[0] - low[0]));
      expect_close(what + "max_val", numbers_of(observer.max_val()), high, 0, kSums * (high[0] - low[0]));
      observer.set_state(fresh->min_val(), fresh->max_val(), fresh->histogram());
    }
  }

  void same_layers(const Program& converted) {
    conformance::Layers layers(case_, converted, quantizers_);
    const auto tests = batches_of(case_, "test.npz", "t", move_);
    for (size_t t = 0; t < tests.size(); ++t) {
      const std::vector<Tensor> outputs = layers.run(t, tests[t]);
      for (size_t o = 0; o < outputs.size(); ++o)
        expect_close(concat("output ", o, " of test ", t), outputs[o],
                     case_.array("expected.npz", concat("reference_t", t, "_o", o)), 0,
                     1e-3 * number_of(expected_.at("outputs").at(o).at("unit")));
    }
  }

  // Observers see what they see without, and convert changes what they say; so it is the converted program alone.
  void run_equalized() {
    find_calls();
    Prepared prepared = prepare();
    for (const auto& batch : batches_of(case_, "calib.npz", "b", move_)) prepared.run(batch);
    const Program converted = convert_pt2e(prepared);
    program_ = &converted;
    same_weights(expected_.at("reference").at("modules"));
    const Json &factors = expected_["equalization"].at("factors"),
               &qparams = expected_["equalization"].at("quantizers");
    size_t factor = 0, quantizer = 0;
    for (const Node* node : converted.graph->nodes()) {
      if (node->op() == Node::Op::kGetAttr && node->target().find("_equalization_scale") != std::string::npos) {
        if (factor == factors.size()) differ("there are more than ", factors.size(), " inputs with factors");
        expect_close(concat("the factors of input ", factor), numbers_of(converted.attribute_of(*node)),
                     numbers_of(factors[factor]), 1e-6, 0);
        ++factor;
      }
      if (!node->is("torch.ops.quantized_decomposed.quantize_per_tensor.default")) continue;
      if (quantizer == qparams.size()) differ("there are more than ", qparams.size(), " quantize operators");
      same_qparams(concat("quantize operator ", quantizer), numbers_of_argument(*node, 1),
                   numbers_of_argument(*node, 2), Json::array({qparams[quantizer][0]}),
                   Json::array({qparams[quantizer][1]}));
      ++quantizer;
    }
    if (factor != factors.size() || quantizer != qparams.size())
      differ("there are ", factor, " inputs with factors and ", quantizer, " quantize operators, in PyTorch ",
             factors.size(), " and ", qparams.size());
    same_outputs(converted);
  }

  // By the scale and zero point of a quantize or dequantize operator.
  static Tensor integers_of(const Tensor& values, const Node& by) {
    const Tensor out = Tensor::empty(values.sizes(), DType::kU8);
    const auto inverse = static_cast<float>(1 / by.arg(1).number().value());
    const auto zero_point = static_cast<float>(by.arg(2).number().value());
    const Tensor dense = values.contiguous();
    for (size_t i = 0; i < out.span<uint8_t>().size(); ++i)
      out.span<uint8_t>()[i] =
          static_cast<uint8_t>(std::clamp(std::nearbyint(dense.span<float>()[i] * inverse) + zero_point, 0.0f, 255.0f));
    return out;
  }
  static Tensor reals_of(const Tensor& values, const Node& by) {
    const Tensor out = Tensor::empty(values.sizes(), DType::kF32), dense = values.contiguous();
    for (size_t i = 0; i < out.span<float>().size(); ++i)
      out.span<float>()[i] = static_cast<float>(
          (static_cast<double>(dense.span<uint8_t>()[i]) - by.arg(2).number().value()) * by.arg(1).number().value());
    return out;
  }

  format::Json recipe() const {
    format::Json out;
    out["quantizer"] = "QConfigMapping";
    out["compat"] = "torch-2.6";
    out["is_qat"] = is_qat();
    for (const char* key : {"qconfig_mapping", "backend_config", "prepare_custom_config", "equalization_config"})
      if (recipe_.contains(key)) out[key] = format::Json::parse(recipe_[key].dump());
    return out;
  }
  bool is_qat() const { return recipe_.value("qat", false); }
  Prepared prepare() const {
    const auto quantizer = parse_recipe(recipe(), "the recipe");
    return is_qat() ? prepare_qat_pt2e(float_.clone(), *quantizer) : prepare_pt2e(float_.clone(), *quantizer);
  }
  QConfigMapping mapping() const { return parse_qconfig_mapping(recipe()["qconfig_mapping"], "the recipe", is_qat()); }

  // observers

  void same_observers(const Prepared& prepared) {
    std::map<std::string, size_t> module_of_node;  // of PyTorch's observers: call_module node -> index
    const Json& observers = expected_.at("prepared").at("observers");
    for (size_t i = 0; i < observers.size(); ++i)
      for (const Json& name : observers[i].at("inserted_as")) module_of_node[name.get<std::string>()] = i;
    std::map<std::string, size_t> group_of_node;
    for (size_t i = 0; i < prepared.observers().size(); ++i)
      for (const std::string& name : prepared.observers()[i].inserted_as) group_of_node[name] = i;
    std::map<size_t, size_t> theirs_of;
    same_paths(
        expected_["prepared"].at("graph"),
        [&](const Json& node) { return module_of_node.contains(node.at("name").get<std::string>()); },
        [&](const Node& node) -> const Node* {
          return group_of_node.contains(node.name()) ? node.arg(0).node() : nullptr;
        },
        [&](const std::string& what, const Node& found, const Json& wanted, bool is_again) {
          const size_t ours = group_of_node.at(found.name()),
                       theirs = module_of_node.at(wanted.at("name").get<std::string>());
          const auto known = group_of_.emplace(theirs, ours).first, known_back = theirs_of.emplace(ours, theirs).first;
          if (known->second != ours || (known_back->second != theirs && !is_again))
            differ(what, ": the observer is not shared with the same ones as PyTorch's ", wanted["name"].dump());
        });
    const std::set<std::string> read = conformance::names_that_are_read(expected_["prepared"]["graph"]);
    for (size_t i = 0; i < observers.size(); ++i) {
      const Json& names = observers[i].at("inserted_as");
      if (std::none_of(names.begin(), names.end(), [&](const Json& name) { return read.contains(name); })) continue;
      if (!group_of_.contains(i))
        differ("PyTorch's observer ", i, " (", observers[i]["inserted_as"].dump(), ") is missing");
      const Observer& observer = *prepared.observers()[group_of_[i]].observer;
      Json settings = observer.class_name() == "FixedQParamsObserver" ? with_plain_dtypes(observers[i]) : observers[i];
      for (const char* key : {"id", "inserted_as", "state"}) settings.erase(key);
      // rounding as it runs or beforehand: the same
      if (settings.at("dtype") == "float16") settings.erase("is_dynamic");
      expect_settings(observer, settings);
    }
    // What is left are weights of modules, which PyTorch observes when it converts.
    for (size_t i = 0; i < prepared.observers().size(); ++i)
      for (const std::string& name : prepared.observers()[i].inserted_as)
        if (const Node* observer = program_->graph->find(name); !theirs_of.contains(i) && !is_weight(*observer))
          differ("the observer of ", observer->arg(0).node()->name(), " should not be there");
  }

  // Whether all that read the value read it as a weight.
  static bool is_weight(const Node& value) {
    return std::all_of(value.users().begin(), value.users().end(), [&](const Node* user) {
      const OpDef* op = find_op(user->target());
      const bool is_recurrent = op && op->family == Family::kRecurrent && op->roles.weight < 0;
      return is_recurrent ||
             (op && op->roles.weight >= 0 && user->arg(static_cast<size_t>(op->roles.weight)).node() == &value);
    });
  }

  // Those of weights, which PyTorch's modules for training hold.
  void same_module_fake_quants(const Prepared& prepared) const {
    constexpr std::string_view kSuffix = ".weight_fake_quant";
    for (const auto& [name, wanted] : expected_["prepared"].at("module_fake_quants").items()) {
      const Observer* found = nullptr;
      for (const auto& [node, call] : calls_)
        for (const ObserverGroup& group : prepared.observers())
          for (const std::string& inserted : group.inserted_as) {
            const Node* observer = program_->graph->find(inserted);
            if (call.path + std::string(kSuffix) == name && is_weight(*observer) &&
                observer->users()[0]->name() == qdq::layer_of(call)->name())
              found = group.observer.get();
          }
      if (found == nullptr) differ("the fake quantizer ", name, " is missing");
      Json settings = wanted;
      settings.erase("state");
      expect_settings(*found, settings);
      same_state(name, *found, wanted.at("state"));
    }
  }

  void same_states(const Prepared& prepared) const {
    const Json& observers = expected_["prepared"]["observers"];
    for (size_t i = 0; i < observers.size(); ++i)
      if (group_of_.contains(i))
        same_state(concat("observer ", i, " (", observers[i]["inserted_as"][0].dump(), ")"),
                   *prepared.observers()[group_of_.at(i)].observer, observers[i].value("state", Json::object()));
  }

  void same_state(const std::string& what, const Observer& observer, const Json& state) const {
    if (state.contains("min_val")) {
      const std::vector<double> low = numbers_of(state["min_val"]), high = numbers_of(state["max_val"]);
      double range = 0;
      for (size_t k = 0; k < low.size(); ++k)
        range = std::max({range, high[k] - low[k], std::fabs(low[k]), std::fabs(high[k])});
      expect_close(what + ": min_val", numbers_of(observer.min_val()), low, 0, scale_tolerance_ * range);
      expect_close(what + ": max_val", numbers_of(observer.max_val()), high, 0, scale_tolerance_ * range);
    }
    if (!state.contains("scale")) return;
    const QParams qparams = observer.calculate_qparams_or_default();
    same_qparams(what, {qparams.scale.begin(), qparams.scale.end()},
                 {qparams.zero_point.begin(), qparams.zero_point.end()}, state["scale"], state["zero_point"]);
  }

  void same_qparams(const std::string& what, const std::vector<double>& scale, const std::vector<double>& zero_point,
                    const Json& wanted_scale, const Json& wanted_zero_point) const {
    expect_close(what + " scale", scale, numbers_of(wanted_scale), scale_tolerance_, 0);
    expect_close(what + " zero point", zero_point, numbers_of(wanted_zero_point), 0, zero_point_tolerance_);
  }

  // quantize and dequantize operators

  // An argument of quantize or dequantize as numbers: a literal, or a buffer.
  std::vector<double> numbers_of_argument(const Node& node, size_t i) const {
    if (const auto number = node.arg(i).number()) return {*number};
    return numbers_of(program_->attribute_of(*node.arg(i).node()));
  }

  void same_quantizers() {
    const Json& graph = expected_["reference"].at("graph");
    const Json& qparams = expected_["reference"].at("qparams");
    same_paths(
        graph, [](const Json& node) { return node.at("op") == "call_method" && node.at("target") == "dequantize"; },
        [](const Node& node) -> const Node* {
          if (node.target().find("convert_element_type") != std::string::npos) return node.arg(0).node()->arg(0).node();
          return node.target().find("quantized_decomposed.dequantize") == std::string::npos
                     ? nullptr
                     : node.arg(0).node()->arg(0).node();
        },
        [&](const std::string& what, const Node& found, const Json& wanted, bool) {
          const std::string source = inputs_of(wanted)[0];
          const Json& quantize = node_of(graph, source);
          const bool is_dynamic = quantize.at("target") == "torch.quantize_per_tensor_dynamic";
          if (quantize.at("args").back() == Json{{"dtype", "float16"}} ||
              (is_dynamic && quantize.at("args")[1] == Json{{"dtype", "float16"}})) {
            if (found.target().find("convert_element_type") == std::string::npos)
              differ(what, ": it is not rounded to float16");
            return;
          }
          if (is_dynamic != found.target().ends_with("dequantize_per_tensor.tensor"))
            differ(what, ": found ", found.target(), ", PyTorch has ", quantize["target"].dump());
          if (is_dynamic) return;
          const auto named = [&](size_t i) {
            return qparams.at(quantize.at("args")[i].at("node").get<std::string>()).at("value");
          };
          same_qparams(what, numbers_of_argument(found, 1), numbers_of_argument(found, 2), named(1), named(2));
          quantizers_.emplace_back(found.arg(0).node()->name(), wanted.at("name").get<std::string>());
        });
  }

  // weights

  // The module's path: a fused module holds the layer as its child "0".
  std::string layer_of(const std::string& module) const {
    for (const auto& [name, call] : calls_)
      if (call.kind == TracedCall::Kind::kModule && call.path == module) return module;
    if (module.ends_with(".0")) return module.substr(0, module.size() - 2);
    return module;
  }

  void same_weights(const Json& modules) const {
    std::map<std::string, const Json*> quantized;
    for (const Json& module : modules)
      if (module.contains("weight")) quantized[layer_of(module.at("name").get<std::string>())] = &module["weight"];
    for (const auto& [name, call] : calls_)
      for (const Node* traced : call.nodes) {
        const OpDef* op = find_op(traced->target());
        const Node* node = program_->graph->find(traced->name());
        if (call.kind != TracedCall::Kind::kModule || op == nullptr || op->roles.weight < 0 || node == nullptr)
          continue;
        const Node* weight = node->arg(static_cast<size_t>(op->roles.weight)).node();
        const bool is_quantized =
            weight && weight->target().find("quantized_decomposed.dequantize") != std::string::npos;
        const auto wanted = quantized.find(call.path);
        if (is_quantized != (wanted != quantized.end()))
          differ("the weight of ", call.path, is_quantized ? " should be float" : " should be quantized");
        if (is_quantized) same_weight(concat("the weight of ", call.path), *weight, *wanted->second);
      }
  }

  void same_weight(const std::string& what, const Node& dequantize, const Json& wanted) const {
    // Training has moved the statistics that are folded into it; all else is exact.
    // So have statistics of inputs those that are equalized.
    const double relative = is_qat() || expected_.contains("equalization") ? scale_tolerance_ : 0;
    expect_close(what + ": scale", numbers_of_argument(dequantize, 1), numbers_of(wanted.at("scale")), relative, 0);
    expect_close(what + ": zero point", numbers_of_argument(dequantize, 2), numbers_of(wanted.at("zero_point")), 0, 0);
    if (wanted.at("qscheme").get<std::string>().starts_with("per_channel") &&
        dequantize.arg(3).integer() != wanted.at("axis").get<int64_t>())
      differ(what, ": the axis is ", dequantize.arg(3).integer().value_or(-1), ", PyTorch has ", wanted["axis"].dump());
    const Tensor& found = program_->attribute_of(*dequantize.arg(0).node());
    const Tensor& integers = case_.array("expected.npz", wanted.at("npz").get<std::string>());
    // quint4x2 has two in a byte, the first below.
    if (wanted.at("dtype") != "quint4x2" || integers.numel() == found.numel())
      return expect_close(what, found, integers);
    std::vector<double> unpacked;
    for (const double byte : numbers_of(integers))
      for (const int shift : {0, 4}) unpacked.push_back(static_cast<double>((static_cast<int>(byte) >> shift) & 15));
    expect_close(what, numbers_of(found), unpacked, 0, 0);
  }

  // outputs

  void same_output(const std::string& what, const std::string& kind, size_t test, const std::vector<Tensor>& outputs,
                   const Json& limits) const {
    for (size_t o = 0; o < outputs.size(); ++o)
      expect_within_limits(concat(what, ": output ", o, " of test ", test), outputs[o],
                           case_.array("expected.npz", concat(kind, "_t", test, "_o", o)),
                           number_of(expected_.at("outputs").at(o).at("unit")),
                           limits.is_array() ? limits.at(o) : limits);
  }

  void same_outputs(const Program& converted) const {
    // On the operators as they are specified: the mean of integers can lie just between two others, and then the order
    // of a sum decides.
    Interpreter interpreter(converted, {});
    const auto tests = batches_of(case_, "test.npz", "t", move_);
    for (size_t t = 0; t < tests.size(); ++t)
      same_output("the reference model", "reference", t, interpreter.run(tests[t]),
                  case_.json()["tolerances"].at("reference_outputs").at("limits"));
  }

  // convert_fx: scales and zero points of its modules, their weights, and what they compute with integers.
  void same_lowered(const Program& converted) {
    const Json& lowered = expected_["lowered"];
    for (const Json& module : lowered.at("modules")) {
      const auto name = module.at("name").get<std::string>(), type = module.at("type").get<std::string>();
      std::string last;  // a module that is called twice keeps the scale of its last call
      for (const Json& node : expected_["traced"])
        if (const auto call = calls_.find(node.at("name").get<std::string>());
            call != calls_.end() && call->second.kind == TracedCall::Kind::kModule && call->second.path == name)
          last = call->first;
      for (const auto& [node, call] : calls_) {
        if (node != last) continue;
        if (module.contains("scale") && type.find(".dynamic.") == std::string::npos)
          same_output_qparams(name, node, module);
        if (!module.contains("weight")) continue;
        const Node* now = program_->graph->find(call.nodes[0]->name());
        const OpDef* op = find_op(now->target());
        const Node* weight = now->arg(static_cast<size_t>(op->roles.weight)).node();
        Json wanted = module["weight"];
        if (!wanted.contains("axis")) wanted["axis"] = 0;
        same_weight(concat("the lowered weight of ", name), *weight, wanted);
      }
    }
    Session session = lower(converted);
    const auto tests = batches_of(case_, "test.npz", "t", move_);
    // Engines differ from the reference, and from each other, by single roundings.
    const double engine = number_of(case_.json()["tolerances"].at("lowered_outputs").at("max_units"));
    Json limits = Json::array();
    for (const Json& difference : lowered.at("difference_to_reference")) {
      Json limit = Json::object();
      limit["max_units"] = std::max(engine, 1.01 + number_of(difference.at("max_units")));
      limits.push_back(limit);
    }
    for (size_t t = 0; t < tests.size(); ++t)
      same_output("the lowered model", "lowered", t, session.run(tests[t]), limits);
  }

  void same_output_qparams(const std::string& module, const std::string& node, const Json& wanted) const {
    const Node* value = program_->graph->find(value_of(expected_["prepared"]["graph"], node));
    for (int nodes = 0; nodes < 2; ++nodes) {
      for (const Node* user : value->users())
        if (user->target().find("quantized_decomposed.quantize") != std::string::npos)
          return same_qparams(concat("the lowered module ", module), numbers_of_argument(*user, 1),
                              numbers_of_argument(*user, 2), wanted.at("scale"), wanted.at("zero_point"));
      if (value->users().size() != 1) break;
      value = value->users()[0];  // a relu that the lowered module has taken in
    }
    differ("the output of ", module, " is not quantized");
  }

  double scale_tolerance_ = 0, zero_point_tolerance_ = 0;
  std::map<size_t, size_t> group_of_;                            // PyTorch's observers -> ours
  std::vector<std::pair<std::string, std::string>> quantizers_;  // quantize here, dequantize of PyTorch
};

}  // namespace

void run_fx_case(const ConformanceCase& c) {
  if (c.json().value("flow", "") == "fx_facts") return same_defaults(c.json().at("expected"));
  if (c.json().at("expected").contains("error")) Flow(c).run_refused();
  else run_moved([&](double move) { Flow(c, move).run(); });
}

}  // namespace qdq
