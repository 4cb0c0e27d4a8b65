#include "cli/quantize_precision.h"

#include <cmath>
#include <cstdio>
#include <memory>

#include "cli/metric.h"
#include "cli/progress.h"
#include "cli/wrong_usage.h"
#include "format/bytes.h"
#include "io/model.h"
#include "profile/runtime_profile.h"
#include "report/evaluation.h"
#include "report/layer_gains.h"
#include "report/metrics.h"
#include "report/precision_report.h"

namespace qdq {

namespace {

using format::Json;

Target target_of_metric(const QuantizeOptions& options, const Recovery& recovery, Data& data, Host& host) {
  const Measure measure(options.metric, options.labels, host);
  const double sign = measure.is_more_better() ? 1 : -1;
  const auto inputs = std::make_shared<const Outputs>(measure.reads_inputs() ? all_batches(data, host) : Outputs());
  const auto score = [=, &recovery, &host](const Outputs& outputs) {
    return sign * measure(recovery.own_outputs(outputs), {&recovery.outputs(), inputs.get(), {}}, host);
  };
  return {score, sign * *options.target_metric, "metric", "", sign};
}

// `word`: the option that compares classes.
void check_classifies(const Program& program, const char* word) {
  const TensorMeta* first = nullptr;
  program.graph->output_node()->arg(0).for_each_node([&](const Node* node) {
    if (first == nullptr) first = node->meta.val.tensor();
  });
  if (first == nullptr || (first->sizes.size() == 2 && is_floating(first->dtype))) return;
  fail_usage(word, " compares classes, floats of shape [samples, classes], but output 0 of the model is ",
             to_string(first->dtype), to_string(first->sizes), "; give --target-metric with --metric (", metric_names(),
             ", or a command of your own), or --max-size");
}

// Of --target-drop.
std::vector<int64_t> target_labels(const QuantizeOptions& options, const Program& program, Data& data, Host& host) {
  Classes classes = read_classes(options.classes, count_classes(program), host.files);
  return labels_from(options.labels, data, classes, host);
}

Target target_of(const QuantizeOptions& options, Recovery& recovery, Data& data, Host& host) {
  if (options.target_metric) return target_of_metric(options, recovery, data, host);
  if (!options.target_agreement && !options.target_drop)
    return {decibels_score(recovery), std::nullopt, "signal to noise", " dB"};
  const auto answers_of = [](const std::vector<std::vector<Tensor>>& outputs, const char* model) {
    Answers out;
    for (const std::vector<Tensor>& batch : outputs) out.add(batch, model);
    return out;
  };
  const Answers floats = answers_of(recovery.outputs(), "the float model");
  if (options.target_agreement)
    return {[=](const auto& outputs) { return answers_of(outputs, "the int8 model").agreement(floats); },
            *options.target_agreement, "agreement"};
  const std::vector<int64_t> labels = target_labels(options, recovery.prepared().program(), data, host);
  const double of_float = floats.top(1, labels);
  return {[=](const auto& outputs) { return answers_of(outputs, "the int8 model").top(1, labels); },
          of_float - *options.target_drop,
          "top-1",
          " %",
          1,
          of_float};
}

std::vector<Precision> precisions_of(const QuantizeOptions& options, const Prepared& prepared) {
  std::vector<Precision> out;
  for (const std::string& name : options.precisions) out.push_back(precision_from_name(name));
  if (!out.empty()) return out;
  out = default_precisions(prepared, options.max_size || options.max_latency);
  // A runtime has no kernels for what its profile does not name, and would convert to float and back around each.
  const std::string& runtime = options.quantizer.runtime;
  std::erase_if(out, [&](Precision precision) {
    if (runtime.empty()) return false;
    return precision == Precision::kBf16 || (precision == Precision::kInt16 && !runtime_profile(runtime).can_16_bits);
  });
  return out;
}

// ", the others in int8-weights"; empty if they are as the recipe has them.
std::string others_words(const PrecisionTrial& trial) {
  return trial.others == Precision::kInt8 ? "" : concat(", the others in ", to_string(trial.others));
}

std::string milliseconds(double seconds) {
  char out[40];
  std::snprintf(out, sizeof out, "%.3g ms", 1e3 * seconds);
  return out;
}

}  // namespace

std::vector<Batch> all_batches(Data& data, Host& host) {
  std::vector<Batch> out;
  Progress progress(host, "reading", data.num_batches(), "batches");
  data.expect(0, data.num_batches());
  for (int64_t i = 0; i < data.num_batches(); ++i) {
    out.push_back(data.batch(i));
    progress.advance();
  }
  return out;
}

bool wishes_precision(const QuantizeOptions& options) {
  return options.target_agreement || options.target_drop || options.target_metric || options.max_size ||
         options.max_latency;
}

namespace {
std::string wish_word(const QuantizeOptions& options) {
  if (options.target_metric) return "--target-metric";
  if (options.target_drop) return "--target-drop";
  if (options.target_agreement) return "--target-agreement";
  return options.max_size ? "--max-size" : "--max-latency";
}
}  // namespace

std::string recovery_word(const QuantizeOptions& options) { return options.recover ? "--recover" : wish_word(options); }

bool wants_recovery(const QuantizeOptions& options, bool has_samples, bool has_state) {
  const auto &agreement = options.target_agreement, &drop = options.target_drop;
  const bool wishes = wishes_precision(options);
  QDQ_CHECK_USAGE(wishes || (options.precisions.empty() && options.search.empty()),
                  options.search.empty() ? "--precisions" : "--search",
                  " needs a goal: --target-agreement, --target-drop, --target-metric, --max-size or --max-latency");
  if (!options.recover && !wishes) return false;
  if (has_state && !wishes) return true;
  QDQ_CHECK_USAGE(!has_state, wish_word(options), " judges programs by samples, but --calibrate has the ",
                  "statistics of a calibration; give samples with --calibrate, or leave it out");
  QDQ_CHECK_USAGE(has_samples, recovery_word(options),
                  " needs samples to judge by: give a folder, an .npz or an .npy with --calibrate");
  QDQ_CHECK_USAGE(!drop || !options.labels.empty(),
                  "--target-drop needs the --labels of the samples; without labels use --target-agreement");
  QDQ_CHECK_USAGE(!(drop || options.target_metric) || options.test.empty(), drop ? "--target-drop" : "--target-metric",
                  " judges by the samples of --calibrate and their --labels; leave out --test");
  QDQ_CHECK_USAGE(!agreement || (*agreement > 0 && *agreement <= 100), "--target-agreement is ", agreement.value_or(0),
                  "; wanted a percentage above 0, at most 100");
  QDQ_CHECK_USAGE(!drop || *drop >= 0, "--target-drop is ", drop.value_or(0), "; wanted points of top-1, 0 or more");
  QDQ_CHECK_USAGE(!options.max_latency || (*options.max_latency > 0 && std::isfinite(*options.max_latency)),
                  "--max-latency is ", options.max_latency.value_or(0), "; wanted milliseconds above 0");
  QDQ_CHECK_USAGE(!options.max_size || !(options.use_reference_representation || options.no_fold_quantize),
                  "--max-size goes with files of quantize and dequantize operators around folded weights; leave out ",
                  options.no_fold_quantize ? "--no-fold-quantize" : "--reference-representation");
  return true;
}

void check_goal(const QuantizeOptions& options, const Program& program, Data& data, Host& host) {
  if (options.target_metric) Measure(options.metric, options.labels, host).check(program);
  if (options.target_agreement) check_classifies(program, "--target-agreement");
  if (!options.target_drop) return;
  check_classifies(program, "--target-drop");
  target_labels(options, program, data, host);
  if (options.report.empty()) warn_of_classes(options.classes, options.labels, host);
}

PrecisionTask::PrecisionTask(const QuantizeOptions& options, Recovery& recovery, Data& data, Host& host)
    : options_(options), recovery_(recovery), data_(data), target_(target_of(options, recovery, data, host)) {
  if (target_.wanted) wish_.score = *target_.wanted;
  wish_.bytes = options.max_size;
  if (options.max_latency) wish_.seconds = *options.max_latency / 1e3;
  wish_.precisions = precisions_of(options, recovery.prepared());
}

PrecisionMeasures PrecisionTask::measures() {
  PrecisionMeasures out;
  out.score = target_.score;
  if (options_.max_size || options_.max_latency || costs_bytes(wish_.precisions))
    out.bytes = [this](const Program& converted) {
      return save_chosen(converted, options_.output, options_.onnx).size();
    };
  if (options_.max_latency)
    out.seconds = [this](const Program& converted) { return seconds_of_steps(converted, data_.batch(0)); };
  return out;
}

std::string PrecisionTask::score_words(double score) const {
  char out[48];
  std::snprintf(out, sizeof out, target_.unit.empty() ? "%g" : "%.2f", target_.sign * score);
  return concat(out, target_.unit);
}

// "  float 81.35 %, wanted 80.85 %\n"; empty without a target.
std::string PrecisionTask::goal_line() const {
  if (!target_.wanted) return "";
  const std::string of_float = target_.of_float ? concat("float ", score_words(*target_.of_float), ", ") : "";
  return concat("  ", of_float, "wanted ", score_words(*target_.wanted), "\n");
}

std::string PrecisionTask::words_of(const PrecisionTrial& trial) const {
  char score[48];
  std::snprintf(score, sizeof score, target_.unit.empty() ? "%6g" : "%6.2f", target_.sign * trial.score);
  std::string out = concat(score, target_.unit);
  if (trial.bytes) out += concat(", ", human_bytes(*trial.bytes));
  if (trial.seconds) out += concat(", ", milliseconds(*trial.seconds));
  return out;
}

// "reaches agreement of 99.00 % within 2.5 MB and 3 ms", "is within 2.5 MB"
std::string PrecisionTask::wish_words() const {
  std::string out;
  if (target_.wanted) out = concat(target_.of, " of ", score_words(*target_.wanted));
  std::string limits;
  if (wish_.bytes) limits = human_bytes(*wish_.bytes);
  if (wish_.seconds) limits += concat(limits.empty() ? "" : " and ", milliseconds(*wish_.seconds));
  if (limits.empty()) return concat("reaches ", out);
  return out.empty() ? concat("is within ", limits) : concat("reaches ", out, " within ", limits);
}

void PrecisionTask::print(const PrecisionResult& result, Host& host) const {
  for (const PrecisionTrial& trial : result.trials) {
    char line[64];
    if (trial.operators == 0) std::snprintf(line, sizeof line, "     0 changed          ");
    else
      std::snprintf(line, sizeof line, "  %4lld in %-12s  ", static_cast<long long>(trial.operators),
                    std::string(to_string(trial.precision)).c_str());
    const std::string others = others_words(trial);
    host.print(concat(line, words_of(trial), others, trial.is_on_front ? "  *\n" : "\n"));
  }
  host.print("  * on the front: nothing that was tried is as good in all and better in something\n");
  if (result.nodes.empty()) return;
  host.print(concat("  in ", to_string(result.after.precision), " now", others_words(result.after), ":\n"));
  for (size_t i = 0; i < result.nodes.size(); ++i)
    host.print(concat("    ", result.nodes[i], result.modules[i].empty() ? "" : " in " + result.modules[i], "\n"));
}

Json PrecisionTask::run(bool tells, StageBar& bar, Host& host) {
  const double began = host.now_seconds();
  if (tells) host.print(concat("choosing the precision (", target_.of, " on the samples)\n", goal_line()));
  PrecisionSearch search;
  std::string identity;
  size_t resumed = 0;
  if (!options_.search.empty()) {
    identity = identity_of_search(
        recovery_,
        concat(target_.of, " ", options_.metric, " ", options_.max_size || options_.max_latency ? "bytes" : "",
               options_.max_latency ? " seconds" : "", options_.output.ends_with(".onnx") ? " onnx" : ""));
    if (host.files.is_file(options_.search))
      search = parse_search(std::string(format::text_of(host.files.read(options_.search))), identity, options_.search);
    resumed = search.trials.size();
    if (tells && resumed > 0)
      host.print(concat("  going on behind ", resumed, resumed == 1 ? " program" : " programs", " of ", options_.search,
                        "\n"));
  }
  const auto save = [&] {
    const std::string text = print_search(search, identity);
    host.files.write(options_.search, format::bytes_of(text));
  };
  const PrecisionMeasures measured = measures();
  const PrecisionResult result =
      choose_precision(recovery_, measured, wish_, &search, options_.search.empty() ? std::function<void()>() : save);
  bar.wipe();
  if (tells) print(result, host);
  if (!result.reached) {
    const PrecisionTrial& best = result.best;
    const std::string what = best.operators == 0
                                 ? "the recipe's own precision"
                                 : concat(best.operators, best.operators == 1 ? " operator in " : " operators in ",
                                          to_string(best.precision), others_words(best));
    std::string words = words_of(best);
    words.erase(0, words.find_first_not_of(' '));
    host.print_error(concat("qdq: warning: nothing that was tried ", wish_words(), "; the nearest is ", what, " with ",
                            words, "; the precision of all operators stays as the recipe has it\n"));
  }
  const double seconds = host.now_seconds() - began;
  if (tells) host.print(concat("  time              ", human_seconds(seconds), "\n"));
  Json out = precision_report(result, target_.sign);
  out["score"] = concat(target_.of, target_.unit);
  if (target_.wanted) out["wanted"] = format::json_of_number(target_.sign * *target_.wanted);
  if (target_.of_float) out["float"] = format::json_of_number(*target_.of_float);
  out["resumed"] = resumed;
  out["seconds"] = seconds;
  return out;
}

}  // namespace qdq
