// Recovery of accuracy across the border, in the module `qdq`.
#include "recover/precision.h"

#include <emscripten/bind.h>

#include "border.h"
#include "format/json.h"
#include "io/model.h"
#include "profile/runtime_profile.h"
#include "profile/runtime_verdicts.h"
#include "recover/awq.h"
#include "recover/gptq.h"
#include "recover/statistics.h"
#include "report/layer_gains.h"
#include "report/metrics.h"
#include "report/precision_report.h"
#include "report/quantization_report.h"
#include "report/sensitivity_report.h"

namespace qdq {

using emscripten::val;

namespace {

// A recovery, and the prepared program that it changes, which JavaScript may dispose of before it.
struct RecoveryOf {
  int prepared;
  Recovery recovery;
};

std::vector<Batch> batches_from(const val& batches) {
  std::vector<Batch> out;
  for (const val& batch : emscripten::vecFromJSArray<val>(batches)) out.push_back(tensors_from(batch));
  return out;
}

// What `work` on the samples returns. `on_done` is told how much of how much is done.
val work_on_groups(int prepared, const val& batches, const val& on_done, decltype(&gptq) work) {
  return guard([&] {
    return static_cast<int>(
        work(held<Prepared>(prepared, "a prepared program"), batches_from(batches),
             [&](int64_t done, int64_t total) { on_done(static_cast<double>(done), static_cast<double>(total)); }));
  });
}

// How many layers were rounded.
val round_in_groups(int prepared, const val& batches, const val& on_rounding) {
  return work_on_groups(prepared, batches, on_rounding, gptq);
}

// How many places were scaled.
val scale_for_groups(int prepared, const val& batches, const val& on_scaling) {
  return work_on_groups(prepared, batches, on_scaling, awq);
}

val observe_layers_of(int prepared) {
  return guard([&] {
    observe_layers(held<Prepared>(prepared, "a prepared program"));
    return val::null();
  });
}

// [{remedy, changes}] of the remedies that need statistics only.
val apply_statistics(int prepared) {
  return guard([&] {
    format::Json out = format::Json::array();
    for (const AppliedRemedy& remedy : recover_by_statistics(held<Prepared>(prepared, "a prepared program")))
      out.push_back(format::json_object({{"remedy", remedy.remedy}, {"changes", remedy.changes}}));
    return format::print_json(out);
  });
}

// How many biases were corrected by what batch norms tell.
val correct_without_data(int prepared) {
  return guard(
      [&] { return static_cast<int>(recover_without_data(held<Prepared>(prepared, "a prepared program")).changes); });
}

val round_by_statistics(int prepared) {
  return guard([&] { return static_cast<int>(gptq_by_statistics(held<Prepared>(prepared, "a prepared program"))); });
}

// `on_recovering` is told the remedy and how far it is. `for_remedies`: next_remedy() follows, which keeps what the
// runtime, "" for none, needs for its integers.
val make_recovery(int prepared, const val& batches, const val& on_recovering, bool for_remedies,
                  const std::string& runtime) {
  return guard([&] {
    const RuntimeProfile* profile = runtime.empty() ? nullptr : &runtime_profile(runtime);
    RecoveryOf made{prepared,
                    Recovery(
                        held<Prepared>(prepared, "a prepared program"), batches_from(batches),
                        [on_recovering](const std::string& remedy, double done) { on_recovering(remedy, done); },
                        for_remedies ? Recovery::Then::kRemedies : Recovery::Then::kMeasures)};
    if (profile != nullptr)
      made.recovery.keep_rounded([profile](const Node& value) { return needs_rounding(value, *profile); });
    return keep(std::move(made));
  });
}

// The next remedy's {remedy, changes, before, after}, or "null" when all were tried.
val next_remedy(int handle) {
  return guard([&] {
    RecoveryOf& kept = held<RecoveryOf>(handle, "a recovery");
    held<Prepared>(kept.prepared, "the prepared program of this recovery");
    const std::optional<RemedyResult> result = kept.recovery.next();
    if (!result) return std::string("null");
    return format::print_json(format::json_object({{"remedy", result->remedy},
                                                   {"changes", result->changes},
                                                   {"before", result->before},
                                                   {"after", result->after}}));
  });
}

// {all, operators: [{node, module, op, own, alone, without}]} in dB.
val sensitivities_of(int handle) {
  return guard([&] {
    RecoveryOf& kept = held<RecoveryOf>(handle, "a recovery");
    held<Prepared>(kept.prepared, "the prepared program of this recovery");
    double all = 0;
    const std::vector<Sensitivity> found = sensitivities(kept.recovery, &all);
    return format::print_json(sensitivity_report(found, all));
  });
}

// precision_report(). `score` gets the outputs of all batches and gives a number; null: the ratio of signal to noise.
// `wish` is the JSON {wanted?, maxBytes?, maxSeconds?, precisions?, format, search?}; `search` what an earlier search
// told `on_search`, the text of a file.
val choose_precision_of(int handle, const val& score, const std::string& wish, const val& on_search) {
  return guard([&] {
    RecoveryOf& kept = held<RecoveryOf>(handle, "a recovery");
    held<Prepared>(kept.prepared, "the prepared program of this recovery");
    Recovery& recovery = kept.recovery;
    const format::Json json = format::parse_json(wish, "the wish");
    const format::Fields fields(json, "the wish");
    PrecisionMeasures measures{decibels_score(recovery), {}, {}};
    if (!score.isNull())
      measures.score = [&](const std::vector<std::vector<Tensor>>& outputs) {
        val batches = val::array();
        for (const std::vector<Tensor>& batch : recovery.own_outputs(outputs))
          batches.call<void>("push", tensors_to(batch));
        return score(batches).as<double>();
      };
    PrecisionWish wished;
    wished.score = fields.optional<double>("wanted", wished.score);
    if (fields.find("maxBytes") != nullptr) wished.bytes = static_cast<uint64_t>(fields.required<int64_t>("maxBytes"));
    if (fields.find("maxSeconds") != nullptr) wished.seconds = fields.required<double>("maxSeconds");
    wished.precisions = default_precisions(recovery.prepared(), wished.bytes || wished.seconds);
    if (fields.find("precisions") != nullptr) {
      wished.precisions.clear();
      for (const std::string& name : fields.required<std::vector<std::string>>("precisions"))
        wished.precisions.push_back(precision_from_name(name));
    }
    const std::string file = "model." + fields.required<std::string>("format");
    if (wished.bytes || wished.seconds || costs_bytes(wished.precisions))
      measures.bytes = [&](const Program& converted) { return save_program(converted, file).size(); };
    if (wished.seconds)
      measures.seconds = [&](const Program& converted) { return seconds_of_steps(converted, recovery.batches()[0]); };
    const std::string identity =
        on_search.isNull()
            ? ""
            : identity_of_search(recovery, concat("JavaScript ", file, wished.seconds ? " seconds" : ""));
    const auto known = fields.optional<std::string>("search", "");
    PrecisionSearch search;
    if (!known.empty()) search = parse_search(known, identity, "the search");
    return format::print_json(precision_report(choose_precision(recovery, measures, wished, &search, [&] {
      if (!on_search.isNull()) on_search(print_search(search, identity));
    })));
  });
}

// What the outputs of all batches are worth; `reference` and `inputs` are batches too, or undefined, as `labels`.
val measure(const std::string& metric, const val& outputs, const val& reference, const val& inputs, const val& labels) {
  return guard([&] {
    const Metric* known = find_metric(metric);
    QDQ_CHECK(known != nullptr, kInvalidArgument, "there is no metric ", metric, "; wanted one of ", metric_names());
    const auto batches = [](const val& of) { return of.isUndefined() ? Outputs() : batches_from(of); };
    const Outputs found = batches(outputs), floats = batches(reference), read = batches(inputs);
    MetricSamples samples;
    if (!reference.isUndefined()) samples.reference = &floats;
    if (!inputs.isUndefined()) samples.inputs = &read;
    if (!labels.isUndefined()) samples.labels = tensor_from(labels);
    return known->measure(found, samples);
  });
}

// What a calibrated program and some batches tell of the calibration: a list of sentences.
val calibration_warnings(int handle, const val& batches) {
  return guard([&] {
    Prepared& prepared = held<Prepared>(handle, "a prepared program");
    std::vector<std::string> out = doubts_about_calibration(prepared);
    for (std::string& lost : lost_outputs(prepared, batches_from(batches))) out.push_back(std::move(lost));
    return format::print_json(format::Json(out));
  });
}

}  // namespace

EMSCRIPTEN_BINDINGS(qdq_recover) {
  emscripten::function("awq", &scale_for_groups);
  emscripten::function("gptq", &round_in_groups);
  emscripten::function("observeLayers", &observe_layers_of);
  emscripten::function("recoverByStatistics", &apply_statistics);
  emscripten::function("recoverWithoutData", &correct_without_data);
  emscripten::function("gptqByStatistics", &round_by_statistics);
  emscripten::function("calibrationWarnings", &calibration_warnings);
  emscripten::function("makeRecovery", &make_recovery);
  emscripten::function("nextRemedy", &next_remedy);
  emscripten::function("sensitivities", &sensitivities_of);
  emscripten::function("choosePrecision", &choose_precision_of);
  emscripten::function("measure", &measure);
}

}  // namespace qdq
