#include "cli/quantize_recovery.h"

#include <cstdio>
#include <functional>
#include <optional>

#include "cli/progress.h"
#include "cli/quantize_precision.h"
#include "profile/runtime_verdicts.h"
#include "recover/awq.h"
#include "recover/gptq.h"
#include "recover/statistics.h"

namespace qdq {

namespace {

using format::Json;

// Adds to `out` what each remedy brought.
void apply_remedies(Recovery& recovery, StageBar& bar, bool tells, Host& host, Json& out) {
  if (tells) host.print("recovering accuracy (error of the outputs on the samples)\n");
  double began = host.now_seconds();
  while (const std::optional<RemedyResult> result = recovery.next()) {
    bar.wipe();
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

// How far the outputs still are from the float ones, and the option that leaves operators in float; empty from 30 dB on
// (20 without classes), and if at most one sample in a hundred gets another class.
std::string distance_left(Recovery& recovery) {
  constexpr double kNear = 30, kNearWithoutClasses = 20;
  const OutputError error = recovery.error(recovery.num_samples());
  const int64_t answers = error.answers(), others = error.other_answers();
  if (error.decibels() >= (answers > 0 ? kNear : kNearWithoutClasses) || (answers > 0 && others * 100 <= answers))
    return {};
  char found[80];
  std::snprintf(found, sizeof found, "still %.1f dB of signal to noise", error.decibels());
  if (answers > 0)
    return concat(found, ", and ", others, " of ", counted(answers, "samples"), others == 1 ? " gets" : " get",
                  " another class than in float; to leave as few operators in float as the goal needs, those that harm "
                  "most first, run the same command with\n  --target-agreement 99\n");
  uint64_t bytes = 0;
  for (const Attribute& attribute : recovery.prepared().program().attributes) bytes += attribute.tensor.nbytes();
  return concat(found,
                "; to leave the operators in float that harm most, as many as the size of the file allows, run "
                "the same command with, for example,\n  --max-size ",
                bytes / 2, "\n");
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

// Prints what was applied, and `how`, and returns it.
Json told(const std::string& how, const std::vector<AppliedRemedy>& applied, const QuantizeOptions& options,
          Host& host) {
  Json out = Json::array();
  std::string text = concat("recovering accuracy (", how, ")\n");
  for (const AppliedRemedy& remedy : applied) {
    out.push_back({{"remedy", remedy.remedy}, {"changes", remedy.changes}});
    char line[80];
    std::snprintf(line, sizeof line, "  %-17s %lld place%s\n", remedy.remedy.c_str(),
                  static_cast<long long>(remedy.changes), remedy.changes == 1 ? "" : "s");
    text += line;
  }
  if (!options.json && !host.is_quiet()) host.print(text);
  return {{"applied", std::move(out)}};
}

}  // namespace

namespace {

// Shows how many of how many are done of what `work` does with all samples; returns what that returns.
int64_t with_progress(const char* title, const char* unit, Prepared& prepared, Data& data, Host& host,
                      int64_t (*work)(Prepared&, const std::vector<Batch>&,
                                      const std::function<void(int64_t done, int64_t total)>&)) {
  std::optional<Progress> progress;
  return work(prepared, all_batches(data, host), [&](int64_t done, int64_t total) {
    if (!progress) progress.emplace(host, title, total, unit);
    if (done != 0) progress->advance();
  });
}

}  // namespace

int64_t scale_for_groups(Prepared& prepared, Data& data, Host& host) {
  return with_progress("scaling channels", "places", prepared, data, host, awq);
}

int64_t round_groups(Prepared& prepared, Data& data, Host& host) {
  return with_progress("rounding weights", "layers", prepared, data, host, gptq);
}

Json recover_by_state(const QuantizeOptions& options, Prepared& prepared, Host& host) {
  std::vector<AppliedRemedy> applied;
  if (options.gptq) applied.push_back({"weights in groups", gptq_by_statistics(prepared)});
  if (options.recover)
    for (AppliedRemedy& remedy : recover_by_statistics(prepared)) applied.push_back(std::move(remedy));
  return told("by what layers read of the samples, without running them", applied, options, host);
}

Json recover_by_norms(const QuantizeOptions& options, Prepared& prepared, Host& host) {
  return told("without data, by what batch norms tell", {recover_without_data(prepared)}, options, host);
}

Json recover_accuracy(const QuantizeOptions& options, bool recovers, Prepared& prepared, Data& data, Host& host) {
  const bool tells = !options.json && !host.is_quiet();
  Json out = Json::object();
  if (recovers) out["remedies"] = Json::array();
  const HeldInterrupts held(host);
  StageBar bar(host);
  try {
    Recovery recovery(
        prepared, all_batches(data, host),
        [&](const std::string& stage, double done) {
          bar.show(stage, done);
          QDQ_CHECK(!host.is_interrupted(), kCancelled, "the recovery of accuracy was interrupted");
        },
        recovers ? Recovery::Then::kRemedies : Recovery::Then::kMeasures);
    if (const std::string& runtime = options.quantizer.runtime; !runtime.empty())
      recovery.keep_rounded(
          [&profile = runtime_profile(runtime)](const Node& value) { return needs_rounding(value, profile); });
    std::optional<PrecisionTask> task;  // refused before the work begins
    if (wishes_precision(options)) task.emplace(options, recovery, data, host);
    if (recovers) apply_remedies(recovery, bar, tells, host, out["remedies"]);
    bar.wipe();
    if (task) out["precision"] = task->run(tells, bar, host);
    else if (tells) host.print(distance_left(recovery));
  } catch (const Error& error) {
    bar.wipe();
    if (error.code != ErrorCode::kCancelled) throw;
    const bool has_search = !options.search.empty() && host.files.is_file(options.search);
    host.print_error(
        concat("qdq: warning: ", error.message, "; what was gained so far is kept",
               has_search ? concat(", and the same command goes on with the search in ", options.search) : "", "\n"));
    out["interrupted"] = true;
  }
  return out;
}

}  // namespace qdq
