// Ranges of activations that serve the outputs.
#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <map>
#include <numeric>
#include <optional>

#include "kernel/difference.h"
#include "quant/observers/fake_quantize.h"
#include "quant/observers/range_histogram.h"
#include "quant/prepared_impl.h"
#include "recover/recovery.h"

namespace qdq {

namespace {

// The ranges that an observer can be given, the one that it has first.
struct RangeChoice {
  size_t observer;
  const RangeHistogram* histogram;
  std::vector<FloatRange> ranges{};
  std::vector<double> errors{};   // of what reads it, by range: noise over signal
  std::vector<size_t> open{};     // the ranges that may serve it best
  std::vector<size_t> by_rule{};  // among the ranges, for those of which several rules give the same
};

// Shares of the values that ranges keep, as rules behind what was observed, the whole range and the least error.
constexpr double kShares[] = {0.99999, 0.9999, 0.9995, 0.999, 0.998};
constexpr size_t kRules = 3 + std::size(kShares);

FloatRange range_in_force(const Observer& observer) {
  const QParams qparams = observer.calculate_qparams();
  const auto at = [&](int64_t q) { return static_cast<float>(q - qparams.zero_point[0]) * qparams.scale[0]; };
  return {at(observer.quant_min()), at(observer.quant_max())};
}

void find_ranges(RangeChoice& choice, const Observer& observer) {
  const RangeHistogram& histogram = *choice.histogram;
  const FloatRange all{std::min(0.0f, histogram.range().min), std::max(0.0f, histogram.range().max)};
  const bool symmetric = is_symmetric(observer.args().qscheme);
  const auto within = [&](const FloatRange& range) {
    return FloatRange{std::max(range.min, all.min), std::min(range.max, all.max)};
  };
  std::vector<FloatRange> found = {
      within(range_in_force(observer)), all,
      range_of_least_error(histogram, observer.quant_max() - observer.quant_min(), symmetric)};
  for (const double share : kShares) found.push_back(range_of_share(histogram, share));
  for (const FloatRange& range : found) {
    const auto is_near = [&](const FloatRange& other) {
      const float near = 0.02f * (range.max - range.min);
      return std::fabs(other.min - range.min) <= near && std::fabs(other.max - range.max) <= near;
    };
    const auto known = std::find_if(choice.ranges.begin(), choice.ranges.end(), is_near);
    choice.by_rule.push_back(static_cast<size_t>(known - choice.ranges.begin()));
    if (known == choice.ranges.end()) choice.ranges.push_back(range);
  }
  choice.errors.assign(choice.ranges.size(), 0);
  choice.open.resize(choice.ranges.size());
  std::iota(choice.open.begin(), choice.open.end(), size_t{0});
}

Tensor rounded_within(const Tensor& x, const Observer& observer, const FloatRange& range) {
  const IntegerRange limits{observer.quant_min(), observer.quant_max()};
  return fake_quantized(x,
                        qparams_of_range(std::span(&range.min, 1), std::span(&range.max, 1), observer.args(), limits),
                        observer.args(), limits);
}

// Of the operators that come next in a walk: adds what rounding their inputs within each range does to their results.
void add_errors(Interpreter::Walk& walk, const Simulation& simulation, const Prepared::Impl& impl,
                const std::vector<RangeChoice*>& choice_of) {
  const Node& node = *walk.next();
  if (node.op() != Node::Op::kCallFunction) return;
  for (const Node* input : node.input_nodes()) {
    const auto observer = simulation.observer_of(*input);
    RangeChoice* choice = observer ? choice_of[*observer] : nullptr;
    const Tensor* x = walk.value(*input).get_if<Tensor>();
    if (choice == nullptr || x == nullptr || x->numel() == 0) continue;
    const Value exact = walk.result_with({});
    const Tensor* y = exact.get_if<Tensor>();
    if (y == nullptr || y->dtype() != DType::kF32) continue;
    for (const size_t i : choice->open) {
      const Tensor rounded = rounded_within(*x, *impl.groups[*observer].observer, choice->ranges[i]);
      const Tensor found = walk.result_with({{input, rounded}}).get_if<Tensor>()->contiguous();
      const kernel::Difference difference =
          kernel::difference_f32(y->contiguous().data<float>(), found.data<float>(), found.numel());
      if (difference.signal > 0) choice->errors[i] += difference.noise / difference.signal;
    }
  }
}

// The observers of activations that take a range, with what passes each on all samples.
std::vector<RangeChoice> observed_choices(Recovery& recovery) {
  const Prepared::Impl& impl = Prepared::Impl::of(recovery.prepared());
  std::vector<RangeChoice> choices;
  for (const auto& [observer, histogram] : recovery.looks().histograms) {
    if (histogram.total() == 0) continue;
    choices.push_back({observer, &histogram});
    find_ranges(choices.back(), *impl.groups[observer].observer);
  }
  return choices;
}

// What is far from the best on the first samples need not be tried on more: `left` times as many as were tried.
void leave_out_worse(RangeChoice& choice, double left) {
  constexpr double kFar = 1.5;
  double least = kInf;
  for (const size_t i : choice.open) least = std::min(least, choice.errors[i]);
  std::erase_if(choice.open, [&](size_t i) {
    const bool is_far = choice.errors[i] > kFar * least;
    if (is_far) choice.errors[i] *= 1 + left;
    return is_far;
  });
}

// Asks the operators behind every observer which of its ranges serves them best: on exact inputs, with rounded weights.
void measure_locally(Recovery& recovery, std::vector<RangeChoice>& choices) {
  const Prepared::Impl& impl = Prepared::Impl::of(recovery.prepared());
  std::vector<RangeChoice*> by_observer(impl.groups.size());
  for (RangeChoice& choice : choices) by_observer[choice.observer] = &choice;
  Simulation exact(recovery.prepared());
  for (size_t i = 0; i < impl.groups.size(); ++i)
    if (impl.of_constants.count(impl.groups[i].observer.get()) == 0) exact.set_rounding(i, false);
  constexpr int64_t kSamples = 16;
  recovery.tell("ranges", 0.2);
  const std::vector<Batch> batches = recovery.some_samples(kSamples);
  for (size_t i = 0; i < batches.size(); ++i) {
    Interpreter::Walk walk = exact.walk(batches[i]);
    while (walk.next() != nullptr) {
      recovery.tell_again();
      add_errors(walk, exact, impl, by_observer);
      walk.advance();
    }
    const double left = static_cast<double>(batches.size() - i - 1) / static_cast<double>(i + 1);
    for (RangeChoice& choice : choices) leave_out_worse(choice, left);
  }
}

// Which of its ranges each observer has.
using Chosen = std::vector<size_t>;

void set_choice(Prepared& prepared, const RangeChoice& choice, size_t which) {
  const FloatRange& range = choice.ranges[which];
  prepared.set_range(choice.observer, Tensor::scalar(range.min), Tensor::scalar(range.max));
}

void apply_choice(Prepared& prepared, const std::vector<RangeChoice>& choices, const Chosen& chosen) {
  for (size_t i = 0; i < choices.size(); ++i) set_choice(prepared, choices[i], chosen[i]);
}

// Finds the program with the least error of the outputs on some batches.
class Contest {
 public:
  Contest(Recovery& recovery, int64_t samples) : recovery_(recovery), batches_(recovery.some_batches(samples)) {
    for (const Batch* batch : batches_) signal_.merge(recovery.signal_of(*batch));
  }

  const std::vector<const Batch*>& batches() const { return batches_; }

  // Whether the outputs that `run` gives for a batch, by its index, are nearer to the float ones than those of all
  // programs before. Ends as soon as their noise is as large as the best program's for all batches, or larger than the
  // best program's for the first half of the batches.
  bool is_won(const std::function<std::vector<Tensor>(size_t batch)>& run) {
    OutputError error = signal_;
    double of_half = 0;
    for (size_t i = 0; i < batches_.size(); ++i) {
      recovery_.tell_again();
      error.merge(OutputError::noise_of(recovery_.outputs_of(*batches_[i]), run(i)));
      const double decibels = error.decibels();
      if (decibels <= most_) return false;
      if (2 * i < batches_.size()) of_half = decibels;
      else if (of_half < most_of_half_) return false;
    }
    most_ = error.decibels();
    most_of_half_ = of_half;
    return true;
  }

 private:
  Recovery& recovery_;
  std::vector<const Batch*> batches_;
  OutputError signal_;
  double most_ = -kInf, most_of_half_ = -kInf;  // with the noise of all batches, and of the first half of them
};

// Runs that stop together before an observer, so that several of its ranges can be tried from there.
class SharedRuns {
 public:
  SharedRuns(Simulation& simulation, const std::vector<const Batch*>& batches) : simulation_(simulation) {
    simulation_.refresh();
    for (const Batch* batch : batches) walks_.push_back(simulation_.walk(*batch));
  }

  // Goes on to the next observer that is wanted, which is not run yet; nothing if there is none. What runs on the way
  // is rounded by the ranges of now.
  std::optional<size_t> advance_to(const std::function<bool(size_t)>& is_wanted) {
    simulation_.refresh();
    for (; walks_[0].next() != nullptr; advance()) {
      const auto observer = simulation_.observer_of(*walks_[0].next());
      if (observer && is_wanted(*observer)) return observer;
    }
    return std::nullopt;
  }

  // The outputs of one of them with the ranges of now from here on.
  std::vector<Tensor> outputs(size_t run) {
    simulation_.refresh();
    Interpreter::Walk rest = walks_[run].clone();
    while (rest.next() != nullptr) rest.advance();
    return rest.outputs();
  }

 private:
  void advance() {
    for (Interpreter::Walk& walk : walks_) walk.advance();
  }

  Simulation& simulation_;
  std::vector<Interpreter::Walk> walks_;
};

// The places where two choices differ, those with the largest difference of errors first, at most 64.
std::vector<size_t> disputed_choices(const std::vector<RangeChoice>& choices, const Chosen& best, const Chosen& local) {
  std::vector<std::pair<double, size_t>> disputed;
  for (size_t i = 0; i < choices.size(); ++i)
    if (best[i] != local[i]) {
      const std::vector<double>& errors = choices[i].errors;
      disputed.emplace_back(std::fabs(errors[best[i]] - errors[local[i]]), i);
    }
  std::sort(disputed.begin(), disputed.end(),
            [](const auto& a, const auto& b) { return a.first != b.first ? a.first > b.first : a.second < b.second; });
  constexpr size_t kMostTrials = 64;
  disputed.resize(std::min(disputed.size(), kMostTrials));
  std::vector<size_t> out;
  for (const auto& [by, i] : disputed) out.push_back(i);
  return out;
}

// The choice that serves the outputs. Changes the ranges while it looks.
Chosen best_choice(Recovery& recovery, const std::vector<RangeChoice>& choices) {
  constexpr int64_t kSamples = 32;
  constexpr uint64_t kBytes = uint64_t{1} << 30;  // of what is kept of runs that share their beginning
  const int64_t samples = std::clamp<int64_t>(recovery.samples_within(kBytes), 1, kSamples);
  Contest contest(recovery, samples);
  Simulation& simulation = recovery.simulation();
  Chosen best;
  const auto consider = [&](const Chosen& chosen, double done) {
    recovery.tell("ranges", done);
    apply_choice(recovery.prepared(), choices, chosen);
    simulation.refresh();
    if (contest.is_won([&](size_t batch) { return simulation.run(*contest.batches()[batch]); })) best = chosen;
  };
  consider(Chosen(choices.size(), 0), 0.4);  // what the observers found, as far as it is read
  Chosen local;
  for (const RangeChoice& choice : choices)
    local.push_back(*std::min_element(choice.open.begin(), choice.open.end(),
                                      [&](size_t a, size_t b) { return choice.errors[a] < choice.errors[b]; }));
  consider(local, 0.45);
  for (size_t rule = 1; rule < kRules; ++rule) {
    Chosen same;
    for (const RangeChoice& choice : choices) same.push_back(choice.by_rule[rule]);
    consider(same, 0.5);
  }
  // Where the two ways disagree most, the outputs decide observer by observer, in the order of the graph: what comes
  // before an observer is computed once for all that follow.
  const std::vector<size_t> disputed = disputed_choices(choices, best, local);
  if (disputed.empty()) return best;
  std::map<size_t, size_t> open;  // observers that are disputed, and which choice is theirs
  for (const size_t i : disputed) open[choices[i].observer] = i;
  apply_choice(recovery.prepared(), choices, best);
  SharedRuns runs(simulation, contest.batches());
  for (double done = 0; !open.empty(); ++done) {
    const auto next = runs.advance_to([&](size_t observer) { return open.count(observer) != 0; });
    if (!next) break;
    const size_t i = open.at(*next);
    open.erase(*next);
    recovery.tell("ranges", 0.6 + 0.3 * done / static_cast<double>(disputed.size()));
    set_choice(recovery.prepared(), choices[i], local[i]);
    if (contest.is_won([&](size_t run) { return runs.outputs(run); })) best[i] = local[i];
    else set_choice(recovery.prepared(), choices[i], best[i]);
  }
  return best;
}

}  // namespace

int64_t choose_ranges(Recovery& recovery) {
  Prepared& prepared = recovery.prepared();
  Prepared::Impl& impl = Prepared::Impl::of(prepared);
  std::vector<RangeChoice> choices = observed_choices(recovery);
  if (choices.empty()) return 0;
  recovery.set_rounding_to_few(false);
  const Undo round_weights([&] { recovery.set_rounding_to_few(true); });
  measure_locally(recovery, choices);

  std::vector<std::shared_ptr<Observer>> original;
  for (const RangeChoice& choice : choices) original.push_back(impl.groups[choice.observer].observer);
  Undo undo([&] {
    for (size_t i = 0; i < choices.size(); ++i) impl.groups[choices[i].observer].observer = original[i];
  });
  const double before = recovery.decibels();
  apply_choice(prepared, choices, best_choice(recovery, choices));
  if (!(recovery.decibels(before) > before)) return 0;
  undo.keep();
  return static_cast<int64_t>(choices.size());
}

}  // namespace qdq
