#include "recover/recovery.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <utility>

#include "exec/footprint.h"
#include "quant/layers.h"
#include "quant/prepared_impl.h"
#include "recover/judged_outputs.h"

namespace qdq {

namespace {

int64_t samples_of(const Batch& batch) { return batch.empty() || batch[0].dim() == 0 ? 1 : batch[0].size(0); }

// In how many parts few samples are: each is kept back once.
constexpr size_t kParts = 3;

// The same samples in at least so many batches, if the program leaves it open how many a batch has.
std::vector<Batch> in_smaller_batches(const Program& program, const std::vector<Batch>& batches, size_t wanted) {
  const std::vector<Node*> placeholders = program.graph->placeholders();
  std::optional<SymInt> open;
  for (size_t i = 0; i < batches[0].size(); ++i) {
    const TensorMeta* meta = placeholders[i]->meta.val.tensor();
    if (meta == nullptr || meta->sizes.empty() || meta->sizes[0].is_constant()) return batches;
    if (open && !(meta->sizes[0] == *open)) return batches;
    open = meta->sizes[0];
  }
  const auto pieces = static_cast<int64_t>((wanted + batches.size() - 1) / batches.size());
  std::vector<Batch> out;
  for (const Batch& batch : batches) {
    // Programs may want two samples or more.
    const int64_t samples = samples_of(batch), some = std::max<int64_t>(2, (samples + pieces - 1) / pieces);
    for (int64_t at = 0; at < samples;) {
      const int64_t end = samples - at - some < 2 ? samples : at + some;
      Batch& piece = out.emplace_back();
      for (const Tensor& input : batch) piece.push_back(input.slice(0, at, end).contiguous());
      at = end;
    }
  }
  return out;
}

// In the order of their remedies.
constexpr MakeWatcher kWatchers[] = {watch_inputs, watch_to_equalize, watch_to_shift, watch_for_ranges,
                                     watch_to_correct};

}  // namespace

void check_recoverable(const Prepared& prepared) {
  const Prepared::Impl& impl = Prepared::Impl::of(prepared);
  QDQ_CHECK(!impl.is_qat, kInvalidArgument,
            "the program was prepared for training, which recovers accuracy itself; wanted one from prepare_pt2e");
  QDQ_CHECK(impl.equalized.empty(), kInvalidArgument,
            "the recipe equalizes inputs with their weights when it converts, which recovery does not foresee (it "
            "equalizes channels itself); leave the equalization config out");
}

Recovery::Recovery(Prepared& prepared, std::vector<Batch> batches, OnRecovering on_recovering, Then then)
    : prepared_(prepared), batches_(std::move(batches)),
      outputs_that_compare_(outputs_that_compare(prepared.program())), on_recovering_(std::move(on_recovering)) {
  QDQ_CHECK(!batches_.empty(), kInvalidArgument, "there are no samples to recover accuracy on");
  check_recoverable(prepared);
  QDQ_CHECK(!prepared.needs_data(), kNotCalibrated,
            "the program is not calibrated; run the calibration batches before accuracy is recovered");
  erase_unseen_observers(prepared);
  const Prepared::Impl& impl = Prepared::Impl::of(prepared);
  FloatProgram floats(prepared);
  floats.judge();
  Interpreter interpreter = floats.interpreter();
  if (then == Then::kRemedies && impl.float_constants.empty()) {  // what watchers see is not rounded
    for (const MakeWatcher make : kWatchers)
      if (std::unique_ptr<Watcher> watcher = make(*this)) watchers_[make] = std::move(watcher);
    interpreter.set_node_hook([&](const Node& node, const Value& value) {
      const Tensor* x = value.get_if<Tensor>();
      const Node* watched = floats.original(node);
      if (x == nullptr || x->numel() == 0 || watched == nullptr) return;
      for (const auto& [make, watcher] : watchers_) watcher->see(*watched, *x);
    });
  }
  std::vector<std::vector<Tensor>> runs;
  for (const Batch& batch : batches_) {
    tell_again();
    runs.push_back(interpreter.run(batch));
    judged_.push_back(judged(runs.back()));
  }
  outputs_ = own_outputs(std::move(runs));
}

Recovery::Recovery(Prepared& prepared, std::vector<Batch> batches, std::vector<std::vector<Tensor>> judged,
                   OnRecovering on_recovering)
    : prepared_(prepared), batches_(std::move(batches)), judged_(std::move(judged)), is_rehearsal_(true),
      outputs_that_compare_(outputs_that_compare(prepared.program())), on_recovering_(std::move(on_recovering)) {}

std::vector<Tensor> Recovery::judged(std::vector<Tensor> of_run) const {
  return judged_outputs(outputs_that_compare_, std::move(of_run));
}

std::vector<std::vector<Tensor>> Recovery::own_outputs(std::vector<std::vector<Tensor>> of_runs) const {
  const size_t own = prepared_.program().graph->output_node()->arg(0).list().size();
  for (std::vector<Tensor>& outputs : of_runs) outputs.resize(std::min(own, outputs.size()));
  return of_runs;
}

double Recovery::decibels() { return decibels(std::numeric_limits<int64_t>::max()); }

double Recovery::decibels(int64_t samples) { return error(samples).decibels(); }

OutputError Recovery::error(int64_t samples) {
  Simulation& simulation = this->simulation();
  simulation.refresh();
  if (std::exchange(measured_version_, simulation.version()) != simulation.version()) errors_.clear();
  OutputError all;
  for (const Batch* batch : some_batches(samples)) {
    const auto [known, is_new] = errors_.try_emplace(batch);
    if (is_new) {
      tell_again();
      known->second.add(judged_[static_cast<size_t>(batch - batches_.data())], judged(simulation.run(*batch)));
    }
    all.add(known->second);
  }
  return all;
}

void Recovery::set_errors(Errors errors) {
  simulation().refresh();
  measured_version_ = simulation().version();
  errors_ = std::move(errors);
}

namespace {

bool has_few_samples(Recovery& recovery) {
  constexpr int64_t kFewSamples = 64;
  return recovery.num_samples() < kFewSamples && !answers_at_places(recovery.prepared().program());
}

}  // namespace

Rehearsal::Rehearsal(Recovery& recovery, int64_t (*remedy)(Recovery&), When when)
    : recovery_(recovery), remedy_(remedy) {
  if (recovery.is_rehearsal_) return;
  if (has_few_samples(recovery)) parts_ = kParts;
  else if (when == When::kAlways) parts_ = 1;
  if (parts_ > 0) before_ = Prepared::Impl::copy_to_try(recovery.prepared());
}

bool Rehearsal::succeeds() {
  if (parts_ == 0) return true;
  const OnRecovering tell_same = [this](const std::string&, double) { recovery_.tell_again(); };
  std::vector<Batch> batches;
  std::vector<std::vector<Tensor>> judged;
  if (const std::vector<Batch>& all = recovery_.batches(); all.size() >= kParts) {
    constexpr int64_t kMostSamples = 48;
    const bool takes_all = parts_ == kParts;
    for (const Batch* batch : recovery_.some_batches(takes_all ? recovery_.num_samples() : kMostSamples)) {
      batches.push_back(*batch);
      judged.push_back(recovery_.judged()[static_cast<size_t>(batch - all.data())]);
    }
  } else {
    batches = in_smaller_batches(before_->program(), all, 2 * kParts);
    judged = Recovery(*before_, batches, tell_same).judged();
  }
  if (batches.size() < 2) return true;
  OutputError without, with;
  for (size_t part = 0; part < std::min(parts_, batches.size()); ++part) {
    std::vector<Batch> kept_back, others;
    std::vector<std::vector<Tensor>> judged_back, judged_others;
    for (size_t i = 0; i < batches.size(); ++i) {
      const bool is_kept_back = i % kParts == part;
      (is_kept_back ? kept_back : others).push_back(batches[i]);
      (is_kept_back ? judged_back : judged_others).push_back(judged[i]);
    }
    Prepared copy = Prepared::Impl::copy_to_try(*before_);
    Recovery judge(copy, std::move(kept_back), std::move(judged_back), tell_same);
    Recovery pupil(copy, std::move(others), std::move(judged_others), tell_same);
    judge.decibels();
    for (const auto& [batch, error] : judge.errors()) without.add(error);
    remedy_(pupil);
    judge.forget_simulation();
    judge.decibels();
    for (const auto& [batch, error] : judge.errors()) with.add(error);
  }
  return with.decibels() >= without.decibels();
}

void Recovery::forget_simulation() noexcept {
  simulation_.reset();
  errors_.clear();
  forget_watchers();
}

void Recovery::forget_rounding() noexcept {
  auto of_layers = watchers_.extract(watch_to_correct);
  forget_simulation();
  if (of_layers) watchers_.insert(std::move(of_layers));
}

std::unique_ptr<Watcher> Recovery::kept(MakeWatcher make) {
  auto found = watchers_.extract(make);
  return found ? std::move(found.mapped()) : nullptr;
}

std::unique_ptr<Watcher> Recovery::watched(MakeWatcher make) {
  if (std::unique_ptr<Watcher> found = kept(make)) return found;
  std::unique_ptr<Watcher> wanted = make(*this);
  if (!wanted) return nullptr;
  std::map<MakeWatcher, std::unique_ptr<Watcher>> others;
  for (auto at = std::find(std::begin(kWatchers), std::end(kWatchers), make) + 1;
       at != std::end(kWatchers) && !is_rehearsal_; ++at)
    if (std::unique_ptr<Watcher> other = (*at)(*this)) others[*at] = std::move(other);
  Interpreter floats = float_interpreter(prepared_);
  floats.set_node_hook([&](const Node& node, const Value& value) {
    const Tensor* x = value.get_if<Tensor>();
    if (x == nullptr || x->numel() == 0) return;
    wanted->see(node, *x);
    for (const auto& [of, other] : others) other->see(node, *x);
  });
  for (const Batch& batch : batches_) {
    tell_again();
    floats.run(batch);
  }
  watchers_ = std::move(others);
  return wanted;
}

int64_t Recovery::samples_within(uint64_t bytes) const {
  const Program& program = prepared_.program();
  const std::vector<Node*> placeholders = program.graph->placeholders();
  std::map<std::string, int64_t> symbols;
  const Batch& batch = batches_[0];
  for (size_t i = 0; i < batch.size(); ++i)
    if (const TensorMeta* meta = placeholders[i]->meta.val.tensor())
      for (size_t axis = 0; axis < meta->sizes.size(); ++axis)
        if (!meta->sizes[axis].is_constant()) symbols[meta->sizes[axis].to_string()] = batch[i].sizes()[axis];
  const uint64_t of_batch = std::max<uint64_t>(1, least_bytes_of_results(program, symbols));
  return static_cast<int64_t>(bytes / of_batch) * samples_of(batch);
}

int64_t Recovery::num_samples() const {
  int64_t all = 0;
  for (const Batch& batch : batches_) all += samples_of(batch);
  return all;
}

std::vector<const Batch*> Recovery::some_batches(int64_t samples) const {
  const int64_t all = num_samples();
  const auto count = static_cast<int64_t>(batches_.size());
  samples = std::min(samples, all);
  const int64_t wanted = std::clamp<int64_t>((samples * count + all - 1) / std::max<int64_t>(all, 1), 1, count);
  std::vector<const Batch*> out;
  for (int64_t i = 0; i < wanted; ++i) out.push_back(&batches_[static_cast<size_t>(i * count / wanted)]);
  return out;
}

Simulation& Recovery::simulation() {
  if (!simulation_) {
    simulation_ = std::make_unique<Simulation>(prepared_);
    if (!rounds_to_few_) simulation_->set_rounding_to_few(false);
  }
  return *simulation_;
}

void Recovery::set_rounding_to_few(bool rounds) {
  rounds_to_few_ = rounds;
  if (simulation_) simulation_->set_rounding_to_few(rounds);
}

const FloatProgram& Recovery::floats() {
  if (!floats_) floats_ = std::make_unique<FloatProgram>(prepared_);
  return *floats_;
}

bool answers_at_places(const Program& program) {
  const Argument::List& outputs = program.graph->output_node()->arg(0).list();
  return std::any_of(outputs.begin(), outputs.end(), [](const Argument& output) {
    const TensorMeta* value = output.node() ? output.node()->meta.val.tensor() : nullptr;
    return value != nullptr && value->dtype == DType::kF32 && value->sizes.size() > 2;
  });
}

void Recovery::tell(const std::string& remedy, double done) {
  told_ = remedy;
  told_done_ = done;
  tell_again();
}

void Recovery::tell_again() {
  if (on_recovering_) on_recovering_(told_, told_done_);
}

std::optional<RemedyResult> Recovery::next() {
  struct Remedy {
    const char* name;
    int64_t (*apply)(Recovery&);
  };
  constexpr Remedy kRemedies[] = {{"weight scales", free_weight_scales},
                                  {"inputs", scale_inputs},
                                  {"equalization", equalize},
                                  {"shifts", shift_channels},
                                  {"ranges", choose_ranges},
                                  {"sums", release_sums},
                                  {"outputs", release_outputs},
                                  {"rounding", round_weights},
                                  {"bias correction", correct_biases}};
  if (next_remedy_ == std::size(kRemedies)) return std::nullopt;
  if (!decibels_) {
    decibels_ = decibels();
    errors_before_ = errors_;
  }
  const Remedy& remedy = kRemedies[next_remedy_];
  tell(remedy.name, 0);
  RemedyResult result{remedy.name, remedy.apply(*this), *decibels_, *decibels_};
  if (result.changes > 0) {
    decibels_ = result.after = decibels();
    errors_before_ = errors_;
  } else {  // the program is as it was, though its observers may have been exchanged for a while
    set_errors(errors_before_);
  }
  ++next_remedy_;
  if (result.changes > 0 && remedy.apply == release_sums && !std::exchange(has_started_again_, true))
    next_remedy_ = 1;  // behind the scales of weights
  return result;
}

std::vector<RemedyResult> recover(Prepared& prepared, std::vector<Batch> batches,
                                  const std::function<void(const RemedyResult&)>& on_remedy,
                                  OnRecovering on_recovering) {
  Recovery recovery(prepared, std::move(batches), std::move(on_recovering), Recovery::Then::kRemedies);
  std::vector<RemedyResult> out;
  while (std::optional<RemedyResult> result = recovery.next()) {
    if (on_remedy) on_remedy(*result);
    out.push_back(std::move(*result));
  }
  return out;
}

}  // namespace qdq
