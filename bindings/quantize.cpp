// What the module `qdq` has besides running: preparing, calibrating and converting, data, reports, and what authors of
// backends ask for.
#include <emscripten/bind.h>

#include <map>

#include "border.h"
#include "data/data.h"
#include "exec/interpreter.h"
#include "files.h"
#include "format/json.h"
#include "graph/source_partition.h"
#include "io/model.h"
#include "io/onnx.h"
#include "io/pattern.h"
#include "io/pt2.h"
#include "javascript_quantizer.h"
#include "op/op.h"
#include "profile/runtime_verdicts.h"
#include "profile/transformers_js.h"
#include "quant/fx/fuse_fx.h"
#include "quant/numeric_debug.h"
#include "quant/pt2e.h"
#include "quant/qat.h"
#include "quant/quantizers/quantization_config.h"
#include "recipe/recipe.h"
#include "recipe/recipe_backend_config.h"
#include "report/evaluation.h"
#include "report/explanation_report.h"
#include "report/graph_report.h"
#include "report/layer_comparison.h"
#include "report/observers_report.h"
#include "report/quantization_report.h"
#include "source.h"

namespace qdq {

using emscripten::val;

namespace {

// Calibration data with the files that it reads when their turn comes.
struct DataOfHost {
  std::unique_ptr<JavaScriptFiles> files;
  std::unique_ptr<Data> data;
  std::optional<int64_t> classes;  // that the program tells apart
};

// The functions that JavaScript calls.

// `files`, an object of files by name, or undefined, holds what an ONNX model keeps in other files.
val load_either(const val& file, const val& files, const val& fixed) {
  return guard([&] {
    std::map<std::string, std::shared_ptr<const format::ByteSource>> beside;
    const auto external = [&](const std::string& location) {
      const auto known = beside.find(location);
      if (known != beside.end()) return known->second;
      QDQ_CHECK(files.call<bool>("hasOwnProperty", location), kUnsupported, "the ONNX model keeps tensors in the file ",
                location, "; give its bytes too: loadOnnx(bytes, { \"", location, "\": data })");
      return beside[location] = source_from(files[location]);
    };
    OnnxFixed values;
    for (const auto& name : emscripten::vecFromJSArray<std::string>(val::global("Object").call<val>("keys", fixed))) {
      if (fixed[name].isNumber()) values.values[name] = fixed[name].as<double>();
      else
        for (const double size : emscripten::vecFromJSArray<double>(fixed[name]))
          values.shapes[name].push_back(static_cast<int64_t>(size));
    }
    return keep(load_program(source_from(file), files.isUndefined() ? format::OnnxExternalData() : external, values));
  });
}

val save(int program) {
  return guard([&] { return bytes_to(save_pt2(held<const Program>(program, "a program"))); });
}

// `settings` is what onnx_report gives.
val save_as_onnx(int program, const std::string& settings) {
  return guard([&] {
    const format::Json json = format::parse_json(settings, "the options of saveOnnx");
    const format::Fields fields(json, "saveOnnx");
    OnnxOptions options;
    if (fields.find("opset")) options.opset = fields.required<int64_t>("opset");
    options.signed_activations = fields.optional<bool>("signed_activations", false);
    options.unsigned_weights = fields.optional<bool>("unsigned_weights", false);
    options.dedicated_pairs = fields.optional<bool>("dedicated_pairs", false);
    if (fields.find("accuracy_level")) options.accuracy_level = fields.required<int64_t>("accuracy_level");
    options.format = onnx_format_of(fields.optional<std::string>("format", "qdq"));
    options.groups = onnx_groups_of(fields.optional<std::string>("groups", ""));
    options.float16 = fields.optional<bool>("float16", false);
    options.bnb4 = fields.optional<bool>("bnb4", false);
    return bytes_to(save_onnx(held<const Program>(program, "a program"), options));
  });
}

val runtime_profile_of(const std::string& name, bool is_dynamic, int activation_bits, int weight_bits) {
  return guard([&] {
    return format::print_json(profile_report(runtime_profile(name), {is_dynamic, activation_bits, weight_bits}));
  });
}

val transformers_js_files(int program, const val& dtypes, const std::string& model_file_name) {
  return guard([&] {
    std::vector<std::string> wanted = emscripten::vecFromJSArray<std::string>(dtypes);
    if (wanted.empty()) wanted = transformers_js_dtypes();
    format::Json out = format::Json::array();
    for (const std::string& dtype : wanted)
      out.push_back(transformers_js_report(transformers_js_file(held<const Program>(program, "a program"), dtype),
                                           model_file_name));
    return format::print_json(out);
  });
}

val runtime_report(int program, const std::string& name) {
  return guard([&] {
    const RuntimeProfile& profile = runtime_profile(name);
    return format::print_json(verdicts_report(runtime_verdicts(held<Program>(program, "a program"), profile), profile));
  });
}

val prepare(int program, const std::string& recipe, const val& callbacks, bool is_qat) {
  return guard([&] {
    const auto quantizer =
        parse_recipe(format::parse_json(recipe, "the recipe"), "the recipe", extensions_of(callbacks));
    Program copy = held<const Program>(program, "a program").clone();
    return keep(is_qat ? prepare_qat_pt2e(std::move(copy), *quantizer) : prepare_pt2e(std::move(copy), *quantizer));
  });
}

// `on_observed`, a function or undefined, is told the looks of observers that are done, and how many there are.
val run_prepared(int prepared, const val& inputs, const val& on_observed) {
  return guard([&] {
    Prepared::OnObserved tell;
    if (!on_observed.isUndefined())
      tell = [&](int64_t done, int64_t total) { on_observed(static_cast<double>(done), static_cast<double>(total)); };
    return tensors_to(held<Prepared>(prepared, "a prepared program").run(tensors_from(inputs), tell));
  });
}

val load_observers_of(int prepared, const std::string& report) {
  return guard([&] {
    load_observers(held<Prepared>(prepared, "a prepared program"),
                   format::parse_json(report, "the report of observers"), "the report of observers");
    return val::null();
  });
}

val needs_data(int prepared) {
  return guard([&] { return held<const Prepared>(prepared, "a prepared program").needs_data(); });
}

val prepared_warnings(int prepared) {
  return guard([&] {
    return format::print_json(format::Json(held<const Prepared>(prepared, "a prepared program").warnings()));
  });
}

val describe_prepared(int prepared) {
  return guard(
      [&] { return format::print_json(observers_report(held<const Prepared>(prepared, "a prepared program"))); });
}

val explain_prepared(int prepared) {
  return guard(
      [&] { return format::print_json(explanation_report(held<const Prepared>(prepared, "a prepared program"))); });
}

val describe_calibration(int prepared) {
  return guard(
      [&] { return format::print_json(calibration_report(held<const Prepared>(prepared, "a prepared program"))); });
}

val describe_quantization(int prepared, int program) {
  return guard([&] {
    return format::print_json(quantization_report(held<const Prepared>(prepared, "a prepared program"),
                                                  held<const Program>(program, "a program")));
  });
}

val write_report(const std::string& report) {
  return guard([&] { return report_html(format::parse_json(report, "the report")); });
}

// `backend`: its JSON.
val fuse_fx_of(int program, const std::string& backend) {
  return guard([&] {
    Program fused = held<const Program>(program, "a program").clone();
    fuse_fx(fused, parse_backend_config(format::parse_json(backend, "the backend config"), "the backend config"));
    return keep(std::move(fused));
  });
}

val onnx_warning(int program) {
  return guard([&] { return onnx_saturation_warning(held<const Program>(program, "a program")); });
}

const Attribute& attribute_of(const Program& program, const std::string& name) {
  const Attribute* attribute = program.find_attribute(name);
  QDQ_CHECK(attribute != nullptr, kInvalidArgument, "the program has no tensor '", name,
            "'; info().attributes has all");
  return *attribute;
}

val program_tensor(int program, const std::string& name) {
  return guard([&] { return tensor_to(attribute_of(held<const Program>(program, "a program"), name).tensor); });
}

val set_program_tensor(int program, const std::string& name, const val& tensor) {
  return guard([&] {
    Program& changed = held<Program>(program, "a program");
    const Tensor old = attribute_of(changed, name).tensor, now = tensor_from(tensor);
    QDQ_CHECK(now.dtype() == old.dtype() && now.sizes() == old.sizes(), kInvalidArgument, "the tensor '", name, "' is ",
              to_string(old.dtype()), to_string(old.sizes()), ", found ", to_string(now.dtype()),
              to_string(now.sizes()));
    changed.find_attribute(name)->tensor = now;
    return val::null();
  });
}

// Calls `on_node` with the name, the operator and the value of each node whose value is a tensor.
val run_nodes(int program, const val& inputs, const val& on_node) {
  return guard([&] {
    const auto backend = make_simd_ops();
    Interpreter interpreter(held<const Program>(program, "a program"), {backend.get()});
    interpreter.set_node_hook([&](const Node& node, const Value& value) {
      const Tensor* tensor = value.get_if<Tensor>();
      if (node.op() == Node::Op::kCallFunction && tensor) on_node(node.name(), node.target(), tensor_to(*tensor));
    });
    return tensors_to(interpreter.run(tensors_from(inputs)));
  });
}

val describe_session(int session) {
  return guard([&] {
    Session& described = held<Session>(session, "a session");
    format::Json placements = format::Json::array();
    for (const Session::Placement& one : described.placements()) {
      format::Json refusals = format::Json::array();
      for (const auto& [backend, reason] : one.refusals) refusals.push_back({{"backend", backend}, {"reason", reason}});
      placements.push_back(format::json_object({{"node", one.node},
                                                {"target", one.target},
                                                {"step", one.step},
                                                {"backend", one.backend},
                                                {"description", one.description},
                                                {"refusals", refusals},
                                                {"fallbacks", one.fallbacks},
                                                {"fallbackReason", one.fallback_reason}}));
    }
    return format::print_json(
        format::json_object({{"warnings", described.warnings()}, {"placements", std::move(placements)}}));
  });
}

val generate_handles(int program) {
  return guard([&] {
    generate_numeric_debug_handles(held<Program>(program, "a program"));
    return val::null();
  });
}

// `reference` is a program, or a prepared one, whose float program is meant; `candidates` the handles of programs.
val compare_layers(int reference, const val& candidates) {
  return guard([&] {
    std::vector<const Program*> programs;
    for (const int program : emscripten::convertJSArrayToNumberVector<int>(candidates))
      programs.push_back(&held<const Program>(program, "a program"));
    const Program& floats = holds<Prepared>(reference) ? held<const Prepared>(reference, "a prepared program").program()
                                                       : held<const Program>(reference, "a program");
    return keep(LayerComparison(floats, programs));
  });
}

val add_to_comparison(int comparison, const val& inputs) {
  return guard([&] {
    held<LayerComparison>(comparison, "a comparison").add(tensors_from(inputs));
    return val::null();
  });
}

val describe_comparison(int comparison, int candidate) {
  return guard([&] {
    const auto& held_one = held<const LayerComparison>(comparison, "a comparison");
    QDQ_CHECK(candidate >= 0 && static_cast<size_t>(candidate) < held_one.num_candidates(), kInvalidArgument,
              "there is no candidate ", candidate, " in the comparison, which has ", held_one.num_candidates());
    return format::print_json(held_one.json(static_cast<size_t>(candidate)));
  });
}

val evaluate(int program, int quantized, const std::string& labels) {
  return guard([&] {
    const auto known = format::json_as<std::vector<int64_t>>(format::parse_json(labels, "the labels"), "the labels");
    return keep(
        Evaluation(held<const Program>(program, "a program"), held<const Program>(quantized, "a program"), known));
  });
}

val add_to_evaluation(int evaluation, const val& inputs) {
  return guard([&] {
    held<Evaluation>(evaluation, "an evaluation").add(tensors_from(inputs));
    return val::null();
  });
}

val describe_evaluation(int evaluation) {
  return guard([&] { return format::print_json(held<Evaluation>(evaluation, "an evaluation").report()); });
}

// Data.

val open_data_of(int program, const std::string& path, const std::string& preprocess, double batch_size, double limit,
                 const val& host) {
  return guard([&] {
    DataOptions options;
    options.preprocess = preprocess;
    options.limit = static_cast<int64_t>(limit);
    options.is_batch_size_wanted = batch_size != 0;
    if (options.is_batch_size_wanted) options.batch_size = static_cast<int64_t>(batch_size);
    auto files = std::make_unique<JavaScriptFiles>(host);
    const Program& opened = held<const Program>(program, "a program");
    auto data = open_data(path, opened, options, *files);
    return keep(DataOfHost{std::move(files), std::move(data), count_classes(opened)});
  });
}

val describe_data(int data) {
  return guard([&] {
    const Data& opened = *held<const DataOfHost>(data, "data").data;
    std::vector<std::string> files;
    if (!opened.file_of(0).empty())
      for (int64_t i = 0; i < opened.num_samples(); ++i) files.push_back(opened.file_of(i));
    return format::print_json(format::json_object({{"batches", opened.num_batches()},
                                                   {"samples", opened.num_samples()},
                                                   {"id", opened.id()},
                                                   {"files", files},
                                                   {"folders", opened.folders()},
                                                   {"warnings", opened.warnings()}}));
  });
}

val data_batch(int data, double index) {
  return guard([&] {
    Data& opened = *held<DataOfHost>(data, "data").data;
    QDQ_CHECK(index >= 0 && index < static_cast<double>(opened.num_batches()), kInvalidArgument, "there is no batch ",
              index, "; the data has ", opened.num_batches());
    return tensors_to(opened.batch(static_cast<int64_t>(index)));
  });
}

val expect_batches(int data, double begin, double end) {
  return guard([&] {
    held<DataOfHost>(data, "data").data->expect(static_cast<int64_t>(begin), static_cast<int64_t>(end));
    return val::null();
  });
}

// `classes`: the path of a text with their names, or "".
val data_labels(int data, const std::string& path, const std::string& classes) {
  return guard([&] {
    DataOfHost& opened = held<DataOfHost>(data, "data");
    Classes known = read_classes(classes, opened.classes, *opened.files);
    const std::vector<int64_t> labels = read_labels(path, *opened.data, known, *opened.files);
    return format::print_json(format::json_object({{"labels", labels}, {"classes", known.names}}));
  });
}

// For authors of backends.

val quantization_capabilities(const std::string& recipe, const val& callbacks) {
  return guard([&] {
    const auto quantizer =
        parse_recipe(format::parse_json(recipe, "the recipe"), "the recipe", extensions_of(callbacks));
    return format::print_json(capabilities_report(quantizer->quantization_capabilities()));
  });
}

std::vector<std::string> sources_from(const val& names) {
  std::vector<std::string> sources = emscripten::vecFromJSArray<std::string>(names);
  for (std::string& source : sources) source = source_name(source);
  return sources;
}

val source_partitions(int program, const val& sources) {
  return guard([&] {
    format::Json out = format::Json::array();
    for (const SourcePartition& partition : get_source_partitions(*program_of(program).graph, sources_from(sources)))
      out.push_back(partition_report(partition));
    return format::print_json(out);
  });
}

val sequential_partitions(int program, const val& sources) {
  return guard([&] {
    format::Json out = format::Json::array();
    for (const auto& chain : find_sequential_partitions(*program_of(program).graph, sources_from(sources))) {
      format::Json partitions = format::Json::array();
      for (const SourcePartition& partition : chain) partitions.push_back(partition_report(partition));
      out.push_back(std::move(partitions));
    }
    return format::print_json(out);
  });
}

// The pattern is a program, or JSON text.
Pattern pattern_from(const val& pattern) {
  if (pattern.isNumber()) return pattern_of(program_of(pattern.as<int>()));
  return parse_pattern(format::parse_json(pattern.as<std::string>(), "the pattern"), "the pattern");
}

val match_pattern(int program, const val& pattern, bool ignore_literals, bool remove_overlapping_matches) {
  return guard([&] {
    const Pattern wanted = pattern_from(pattern);
    MatchOptions options;
    options.ignore_literals = ignore_literals;
    options.remove_overlapping_matches = remove_overlapping_matches;
    format::Json out = format::Json::array();
    for (const Match& match : find_matches(*program_of(program).graph, wanted, options))
      out.push_back(match_report(match));
    return format::print_json(out);
  });
}

// Pattern and replacement are programs, or JSON text. Gives how many places were replaced.
val replace_pattern_of(int program, const val& pattern, const val& replacement) {
  return guard([&] {
    Program& changed = changed_program_of(program);
    const Pattern wanted = pattern_from(pattern), instead = pattern_from(replacement);
    for (const Node* node : instead.graph->nodes())
      QDQ_CHECK(node->op() != Node::Op::kGetAttr, kInvalidArgument, "the replacement has the tensor ", node->target(),
                " of its own; wanted one that computes with its inputs alone");
    const size_t places = replace_pattern(*changed.graph, *wanted.graph, *instead.graph);
    infer_shapes(changed);
    return static_cast<double>(places);
  });
}

val convert_scalars(int program) {
  return guard([&] {
    convert_scalars_to_attributes(changed_program_of(program), Compat::kNone);
    return val::null();
  });
}

val convert(int prepared, bool fold_quantize, bool use_reference_representation) {
  return guard([&] {
    return keep(convert_pt2e(held<const Prepared>(prepared, "a prepared program"),
                             {use_reference_representation, fold_quantize}));
  });
}

}  // namespace

EMSCRIPTEN_BINDINGS(qdq_quantize) {
  emscripten::function("loadProgram", &load_either);
  emscripten::function("savePt2", &save);
  emscripten::function("saveOnnx", &save_as_onnx);
  emscripten::function("runtimeProfile", &runtime_profile_of);
  emscripten::function("transformersJsFiles", &transformers_js_files);
  emscripten::function("runtimeReport", &runtime_report);
  emscripten::function("preparePt2e", &prepare);
  emscripten::function("runPrepared", &run_prepared);
  emscripten::function("loadObservers", &load_observers_of);
  emscripten::function("needsData", &needs_data);
  emscripten::function("preparedWarnings", &prepared_warnings);
  emscripten::function("describePrepared", &describe_prepared);
  emscripten::function("explain", &explain_prepared);
  emscripten::function("describeCalibration", &describe_calibration);
  emscripten::function("quantizationCapabilities", &quantization_capabilities);
  emscripten::function("getSourcePartitions", &source_partitions);
  emscripten::function("findSequentialPartitions", &sequential_partitions);
  emscripten::function("matchPattern", &match_pattern);
  emscripten::function("replacePattern", &replace_pattern_of);
  emscripten::function("convertScalarsToAttrs", &convert_scalars);
  emscripten::function("convertPt2e", &convert);
  emscripten::function("describeQuantization", &describe_quantization);
  emscripten::function("writeReport", &write_report);
  emscripten::function("programTensor", &program_tensor);
  emscripten::function("setProgramTensor", &set_program_tensor);
  emscripten::function("runNodes", &run_nodes);
  emscripten::function("describeSession", &describe_session);
  emscripten::function("compareLayers", &compare_layers);
  emscripten::function("fuseFx", &fuse_fx_of);
  emscripten::function("onnxWarning", &onnx_warning);
  emscripten::function("generateNumericDebugHandles", &generate_handles);
  emscripten::function("addToComparison", &add_to_comparison);
  emscripten::function("describeComparison", &describe_comparison);
  emscripten::function("evaluate", &evaluate);
  emscripten::function("addToEvaluation", &add_to_evaluation);
  emscripten::function("describeEvaluation", &describe_evaluation);
  emscripten::function("openData", &open_data_of);
  emscripten::function("describeData", &describe_data);
  emscripten::function("dataBatch", &data_batch);
  emscripten::function("expectBatches", &expect_batches);
  emscripten::function("dataLabels", &data_labels);
}

}  // namespace qdq
