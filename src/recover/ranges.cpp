// Ranges of activations that serve the outputs.
#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <set>

#include "base/stable_sort.h"
#include "base/undo.h"
#include "kernel/difference.h"
#include "op/facts.h"
#include "quant/observers/fake_quantize.h"
#include "quant/observers/range_histogram.h"
#include "quant/prepared_impl.h"
#include "recover/recovery.h"

namespace qdq {

namespace {

// What the clamps that alone read a value let through of it.
FloatRange let_through(const Node& observer) {
  FloatRange out{kInf, -kInf};
  for (const Node* user : observer.users()) {
    const auto function = activation_function(*user);
    if (!function || user->arg(0).node() != &observer) return {-kInf, kInf};
    if (function->kind == kernel::Activation::Kind::kClamp) {
      out = {std::min(out.min, static_cast<float>(function->low)),
             std::max(out.max, static_cast<float>(function->high))};
    } else {
      return {-kInf, kInf};
    }
  }
  return out.min <= out.max ? out : FloatRange{-kInf, kInf};
}

Tensor clamped(const Tensor& x, const FloatRange& bounds) {
  if (bounds.min == -kInf && bounds.max == kInf) return x;
  const Tensor out = x.to(DType::kF32).clone();
  for (float& value : out.span<float>()) value = std::clamp(value, bounds.min, bounds.max);
  return out;
}

// The ranges that an observer can be given, the one that it has first.
struct RangeChoice {
  size_t observer = 0;
  RangeHistogram histogram;
  std::vector<FloatRange> ranges;
  std::vector<double> errors;   // of what reads it, by range: noise over signal
  std::vector<size_t> by_rule;  // among the ranges, for those of which several rules give the same
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
  const RangeHistogram& histogram = choice.histogram;
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
    if (choice == nullptr || choice->ranges.size() == 1 || x == nullptr || x->numel() == 0) continue;
    const Value exact = walk.result_with({});
    const Tensor* y = exact.get_if<Tensor>();
    if (y == nullptr || y->dtype() != DType::kF32) continue;
    for (size_t i = 0; i < choice->ranges.size(); ++i) {
      const Tensor rounded = rounded_within(*x, *impl.groups[*observer].observer, choice->ranges[i]);
      const Tensor found = walk.result_with({{input, rounded}}).get_if<Tensor>()->contiguous();
      const kernel::Difference difference =
          kernel::difference_f32(y->contiguous().data<float>(), found.data<float>(), found.numel());
      if (difference.signal > 0) choice->errors[i] += difference.noise / difference.signal;
    }
  }
}

class RangeWatcher : public Watcher {
 public:
  // Of the observers of activations that take a range.
  explicit RangeWatcher(const Prepared::Impl& impl) : impl_(impl), choice_of_(impl.groups.size()) {
    for (size_t i = 0; i < impl.groups.size(); ++i) {
      const Observer* observer = impl.groups[i].observer.get();
      if (!impl.takes_range(i) || is_per_channel(observer->args().qscheme) || impl.of_constants.count(observer) != 0)
        continue;
      choice_of_[i] = choices.size();
      choices.emplace_back().observer = i;
    }
  }

  void see(const Node& node, const Tensor& x) override {
    const auto group = impl_.group_of_module(node);
    if (const auto choice = group ? choice_of_[*group] : std::nullopt)
      choices[*choice].histogram.add(clamped(x, let_through(node)));
  }

  std::vector<RangeChoice> choices;

 private:
  const Prepared::Impl& impl_;
  std::vector<std::optional<size_t>> choice_of_;
};

// The observers of activations that take a range, with what passes each on all samples.
std::vector<RangeChoice> observed_choices(Recovery& recovery) {
  const Prepared::Impl& impl = Prepared::Impl::of(recovery.prepared());
  const std::unique_ptr<Watcher> watcher = recovery.watched(watch_for_ranges);
  if (!watcher) return {};
  std::vector<RangeChoice> choices = std::move(static_cast<RangeWatcher&>(*watcher).choices);
  std::erase_if(choices, [](const RangeChoice& choice) { return choice.histogram.total() == 0; });
  for (RangeChoice& choice : choices) find_ranges(choice, *impl.groups[choice.observer].observer);
  return choices;
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
  for (const Batch* batch : recovery.some_batches(kSamples)) {
    Interpreter::Walk walk = exact.walk(*batch);
    while (walk.next() != nullptr) {
      recovery.tell_again();
      add_errors(walk, exact, impl, by_observer);
      walk.advance();
    }
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

// Runs on some samples that stop together before an observer, so that several of its ranges can be tried from there.
class SharedRuns {
 public:
  SharedRuns(Recovery& recovery, int64_t samples)
      : recovery_(recovery), simulation_(recovery.simulation()), batches_(recovery.some_batches(samples)) {
    simulation_.refresh();
    for (const Batch* batch : batches_) walks_.push_back(simulation_.walk(*batch));
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

  // OutputError of the program with the ranges of now from here on.
  double decibels() {
    simulation_.refresh();
    OutputError error;
    for (size_t i = 0; i < walks_.size(); ++i) {
      recovery_.tell_again();
      Interpreter::Walk rest = walks_[i].clone();
      while (rest.next() != nullptr) rest.advance();
      error.add(recovery_.judged()[static_cast<size_t>(batches_[i] - recovery_.batches().data())],
                recovery_.judged(rest.outputs()));
    }
    return error.decibels();
  }

 private:
  void advance() {
    for (Interpreter::Walk& walk : walks_) walk.advance();
  }

  Recovery& recovery_;
  Simulation& simulation_;
  std::vector<const Batch*> batches_;
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
  sort_stably(disputed, [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second < b.second;
  });
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
  const auto measured = [&](const Chosen& chosen, double done) {
    recovery.tell("ranges", done);
    apply_choice(recovery.prepared(), choices, chosen);
    return recovery.decibels(samples);
  };
  Chosen best(choices.size(), 0);  // what the observers found, as far as it is read
  double most = measured(best, 0.4);
  std::set<Chosen> known = {best};
  const auto consider = [&](const Chosen& chosen, double done) {
    if (!known.insert(chosen).second) return;
    const double found = measured(chosen, done);
    if (found <= most) return;
    most = found;
    best = chosen;
  };
  Chosen local;
  for (const RangeChoice& choice : choices)
    local.push_back(
        static_cast<size_t>(std::min_element(choice.errors.begin(), choice.errors.end()) - choice.errors.begin()));
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
  SharedRuns runs(recovery, samples);
  for (double done = 0; !open.empty(); ++done) {
    const auto next = runs.advance_to([&](size_t observer) { return open.count(observer) != 0; });
    if (!next) break;
    const size_t i = open.at(*next);
    open.erase(*next);
    recovery.tell("ranges", 0.6 + 0.3 * done / static_cast<double>(disputed.size()));
    const auto set = [&](size_t range) {
      set_choice(recovery.prepared(), choices[i], range);
      return runs.decibels();
    };
    const double found = set(local[i]);
    if (found > most) {
      most = found;
      best[i] = local[i];
    } else {
      set_choice(recovery.prepared(), choices[i], best[i]);
    }
  }
  return best;
}

}  // namespace

std::unique_ptr<Watcher> watch_for_ranges(Recovery& recovery) {
  auto out = std::make_unique<RangeWatcher>(Prepared::Impl::of(recovery.prepared()));
  return out->choices.empty() ? nullptr : std::move(out);
}

int64_t choose_ranges(Recovery& recovery) {
  Prepared& prepared = recovery.prepared();
  Prepared::Impl& impl = Prepared::Impl::of(prepared);
  std::vector<RangeChoice> choices = observed_choices(recovery);
  if (choices.empty()) return 0;
  Rehearsal rehearsal(recovery, choose_ranges, Rehearsal::When::kFewSamples);
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
  if (!(recovery.decibels() > before) || !rehearsal.succeeds()) return 0;
  undo.keep();
  return static_cast<int64_t>(choices.size());
}

}  // namespace qdq
