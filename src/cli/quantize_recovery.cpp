#include "cli/quantize_recovery.h"

#include <memory>
#include <cstdio>
#include <optional>

#include "cli/metric.h"
#include "cli/progress.h"
#include "recover/gptq.h"
#include "recover/precision.h"
#include "report/evaluation.h"

namespace qdq {

namespace {

using format::Json;

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

// Adds to `out` what each remedy brought.
void apply_remedies(Recovery& recovery, bool tells, Host& host, Json& out) {
  if (tells) host.print("recovering accuracy (error of the outputs on the samples)\n");
  double began = host.now_seconds();
  while (const std::optional<RemedyResult> result = recovery.next()) {
    const double now = host.now_seconds();
    out.push_back({{"remedy", result->remedy},
                   {"changes", result->changes},
                   {"before", format::json_of_number(result->before)},
                   {"after", format::json_of_number(result->after)},
                   {"seconds", now - began}});
    char line[120];
    if (result->changes > 0)
      std::snprintf(line, sizeof line, "  %-16s  %6.2f -> %6.2f dB, %lld place%s, %s\n", result->remedy.c_str(),
                    result->before, result->after, static_cast<long long>(result->changes),
                    result->changes == 1 ? "" : "s", human_seconds(now - began).c_str());
    else
      std::snprintf(line, sizeof line, "  %-16s  %6.2f dB: no gain, not kept, %s\n", result->remedy.c_str(),
                    result->before, human_seconds(now - began).c_str());
    if (tells) host.print(line);
    began = now;
  }
}

// Interrupts are held while it lives.
class HeldInterrupts {
 public:
  explicit HeldInterrupts(Host& host) : host_(host) { host_.hold_interrupts(true); }
  ~HeldInterrupts() { host_.hold_interrupts(false); }
  HeldInterrupts(const HeldInterrupts&) = delete;
  HeldInterrupts& operator=(const HeldInterrupts&) = delete;

 private:
  Host& host_;
};

// What --target-agreement, --target-drop and --target-metric ask for.
struct Target {
  OutputScore score;
  double wanted;
  std::string of;  // what the score is
  bool is_percentage = true;
  double sign = 1;  // -1: of a score whose negative is told
};

Target target_of_metric(const QuantizeOptions& options, const Recovery& recovery, Data& data, Host& host) {
  const Measure measure(options.metric, options.labels);
  const double sign = measure.is_more_better() ? 1 : -1;
  const auto inputs = std::make_shared<const Outputs>(measure.reads_inputs() ? all_batches(data, host) : Outputs());
  const auto score = [=, &recovery, &host](const Outputs& outputs) {
    return sign * measure(outputs, {&recovery.outputs(), inputs.get(), {}}, host);
  };
  return {score, sign * *options.target_metric, "metric", false, sign};
}

// Throws for outputs that are no classes, and for labels that are missing or do not fit.
Target target_of(const QuantizeOptions& options, const Recovery& recovery, Data& data, const Program& program,
                 Host& host) {
  if (options.target_metric) return target_of_metric(options, recovery, data, host);
  const auto answers_of = [](const std::vector<std::vector<Tensor>>& outputs, const char* model) {
    Answers out;
    for (const std::vector<Tensor>& batch : outputs) out.add(batch, model);
    return out;
  };
  const Answers floats = answers_of(recovery.outputs(), "the float model");
  if (options.target_agreement)
    return {[=](const auto& outputs) { return answers_of(outputs, "the int8 model").agreement(floats); },
            *options.target_agreement, "agreement"};
  Classes classes = read_classes(options.classes, count_classes(program), host.files);
  const std::vector<int64_t> labels = read_labels(options.labels, data, classes, host.files);
  return {[=](const auto& outputs) { return answers_of(outputs, "the int8 model").top(1, labels); },
          floats.top(1, labels) - *options.target_drop, "top-1"};
}

Json reach_target(const Target& target, Recovery& recovery, bool tells, Host& host) {
  const double began = host.now_seconds();
  if (tells) host.print(concat("choosing the precision (", target.of, " on the samples)\n"));
  const PrecisionResult result = reach_score(recovery, target.score, target.wanted);
  Json trials = Json::array(), operators = Json::array();
  const auto words_of = [&](double score) {
    char text[40];
    std::snprintf(text, sizeof text, target.is_percentage ? "%6.2f %%" : "%6g", target.sign * score);
    return std::string(text);
  };
  char line[40];
  for (const PrecisionTrial& trial : result.trials) {
    std::snprintf(line, sizeof line, "  %4lld in float      ", static_cast<long long>(trial.operators_in_float));
    if (tells) host.print(concat(line, words_of(trial.score), "\n"));
    trials.push_back({{"operators_in_float", trial.operators_in_float}, {"score", target.sign * trial.score}});
  }
  if (!result.reached) {
    host.print_error(concat("qdq: warning: not even with all operators in float that can be does the ", target.of,
                            " reach ", words_of(target.wanted), "; all stay in integers\n"));
  }
  for (size_t i = 0; i < result.nodes.size(); ++i) {
    if (tells)
      host.print(concat("    ", result.nodes[i], result.modules[i].empty() ? "" : " in " + result.modules[i], "\n"));
    operators.push_back({{"node", result.nodes[i]}, {"module", result.modules[i]}});
  }
  if (tells) host.print(concat("  time              ", human_seconds(host.now_seconds() - began), "\n"));
  return {{"reached", result.reached},
          {"before", target.sign * result.before},
          {"after", target.sign * result.after},
          {"operators", operators},
          {"trials", trials},
          {"seconds", host.now_seconds() - began}};
}

}  // namespace

std::string recovery_word(const QuantizeOptions& options) {
  if (options.recover) return "--recover";
  if (options.target_metric) return "--target-metric";
  return options.target_drop ? "--target-drop" : "--target-agreement";
}

bool wants_recovery(const QuantizeOptions& options, bool has_samples) {
  const auto &agreement = options.target_agreement, &drop = options.target_drop;
  if (!options.recover && !agreement && !drop && !options.target_metric) return false;
  QDQ_CHECK(has_samples, kInvalidArgument, recovery_word(options),
            " needs samples to judge by: give a folder, an .npz or an .npy by --calibrate");
  QDQ_CHECK(!drop || !options.labels.empty(), kInvalidArgument,
            "--target-drop needs the --labels of the samples; without labels use --target-agreement");
  if (options.target_metric) Measure(options.metric, options.labels);  // throws
  QDQ_CHECK(!(drop || options.target_metric) || options.test.empty(), kInvalidArgument,
            drop ? "--target-drop" : "--target-metric",
            " judges by the samples of --calibrate and their --labels; leave out --test");
  QDQ_CHECK(!agreement || (*agreement > 0 && *agreement <= 100), kInvalidArgument, "--target-agreement is ",
            agreement.value_or(0), "; wanted a percentage above 0");
  QDQ_CHECK(!drop || *drop >= 0, kInvalidArgument, "--target-drop is ", drop.value_or(0),
            "; wanted points of top-1, 0 or more");
  return true;
}

int64_t round_groups(Prepared& prepared, Data& data, Host& host) {
  const std::vector<Batch> batches = all_batches(data, host);
  std::optional<Progress> progress;
  return gptq(prepared, batches, [&](int64_t done, int64_t total) {
    if (!progress) progress.emplace(host, "rounding weights", total, "layers");
    if (done != 0) progress->advance();
  });
}

Json recover_accuracy(const QuantizeOptions& options, Prepared& prepared, Data& data, Host& host) {
  const bool tells = !options.json && !host.is_quiet();
  Json out = Json::object();
  if (options.recover) out["remedies"] = Json::array();
  const HeldInterrupts held(host);
  try {
    Recovery recovery(prepared, all_batches(data, host), [&](const std::string&, double) {
      QDQ_CHECK(!host.is_interrupted(), kCancelled, "the recovery of accuracy was interrupted");
    });
    std::optional<Target> target;  // refused before the work begins
    if (options.target_agreement || options.target_drop || options.target_metric)
      target = target_of(options, recovery, data, prepared.program(), host);
    if (options.recover) apply_remedies(recovery, tells, host, out["remedies"]);
    if (target) out["precision"] = reach_target(*target, recovery, tells, host);
  } catch (const Error& error) {
    if (error.code != ErrorCode::kCancelled) throw;
    host.print_error(concat("qdq: warning: ", error.message, "; what was gained so far is kept\n"));
    out["interrupted"] = true;
  }
  return out;
}

}  // namespace qdq
