#include "recover/precision.h"

#include <algorithm>
#include <tuple>

#include "base/stable_sort.h"
#include "quant/prepared_impl.h"
#include "recover/sensitivity.h"

namespace qdq {

namespace {

// Observers that nobody reads any more.
void erase_unread(Prepared::Impl& impl) {
  for (Node* node : impl.program.graph->nodes()) {
    const auto group = impl.group_of_module(*node);
    if (!group || !node->users().empty()) continue;
    std::erase(impl.groups[*group].inserted_as, node->name());
    impl.modules.erase(node->target());
    impl.program.graph->erase(node);
  }
}

// Whether `a` is as good as `b` in all that is measured and better in something.
bool is_better(const PrecisionTrial& a, const PrecisionTrial& b) {
  const auto bytes = [](const PrecisionTrial& trial) { return trial.bytes.value_or(0); };
  const auto seconds = [](const PrecisionTrial& trial) { return trial.seconds.value_or(0); };
  // Without both the number of operators tells what a program costs.
  const auto cost = [](const PrecisionTrial& trial) { return trial.bytes || trial.seconds ? 0 : trial.operators; };
  const bool as_good = a.score >= b.score && bytes(a) <= bytes(b) && seconds(a) <= seconds(b) && cost(a) <= cost(b);
  return as_good && (a.score > b.score || bytes(a) < bytes(b) || seconds(a) < seconds(b) || cost(a) < cost(b));
}

void mark_front(std::vector<PrecisionTrial>& trials) {
  for (PrecisionTrial& trial : trials)
    trial.is_on_front = std::none_of(trials.begin(), trials.end(),
                                     [&](const PrecisionTrial& other) { return is_better(other, trial); });
}

class Searcher {
 public:
  Searcher(Recovery& recovery, const PrecisionMeasures& measures, const PrecisionWish& wish, PrecisionSearch& search,
           const std::function<void()>& on_trial)
      : recovery_(recovery), measures_(measures), wish_(wish), search_(search), on_trial_(on_trial) {}

  PrecisionResult run() {
    recovery_.tell("precision", 0);
    const PrecisionTrial before = trial(Precision::kInt8, 0);
    const bool wants_best = wish_.score == -std::numeric_limits<double>::infinity();
    const bool is_enough = fits(before) && before.score >= wish_.score;
    if (wants_best ? fits(before) : !is_enough) {
      if (search_.sensitivities.empty()) {
        search_.sensitivities = sensitivities(recovery_);
        if (on_trial_) on_trial_();
      }
      operators_.emplace(recovery_, search_.sensitivities);
      std::vector<Precision> precisions = wish_.precisions;
      sort_stably(precisions, [](Precision a, Precision b) {
        return a == Precision::kInt8Weights && b != Precision::kInt8Weights;
      });
      for (const Precision precision : precisions) wants_best ? fill(precision) : reach(precision);
    }
    return finish(before);
  }

 private:
  bool fits(const PrecisionTrial& trial) const {
    return (!wish_.bytes || *trial.bytes <= *wish_.bytes) && (!wish_.seconds || *trial.seconds <= *wish_.seconds);
  }
  bool is_wished(const PrecisionTrial& trial) const { return fits(trial) && trial.score >= wish_.score; }

  const PrecisionTrial& trial(Precision precision, size_t count) {
    if (count == 0) precision = Precision::kInt8;
    for (const PrecisionTrial& known : search_.trials)
      if (known.precision == precision && known.operators == static_cast<int64_t>(count) && known.others == others_ &&
          known.bytes.has_value() >= static_cast<bool>(measures_.bytes) &&
          known.seconds.has_value() >= static_cast<bool>(measures_.seconds))
        return known;
    if (operators_) operators_->set(precision, count, others_);
    PrecisionTrial out{precision, static_cast<int64_t>(count), others_, score(), {}, {}};
    if (measures_.bytes || measures_.seconds) {
      const Program converted = convert_pt2e(recovery_.prepared());
      if (measures_.bytes) out.bytes = measures_.bytes(converted);
      if (measures_.seconds) out.seconds = measures_.seconds(converted);
    }
    search_.trials.push_back(out);
    if (on_trial_) on_trial_();
    return search_.trials.back();
  }

  double score() {
    Simulation& simulation = recovery_.simulation();
    simulation.refresh();
    std::vector<std::vector<Tensor>> outputs;
    for (const Batch& batch : recovery_.batches()) {
      recovery_.tell_again();
      outputs.push_back(simulation.run(batch));
    }
    return measures_.score(outputs);
  }

  // The fewest operators that reach the score, between a number that does not and one that does.
  void reach(Precision precision) {
    const size_t most = operators_->most(precision);
    const auto reaches = [&](size_t count) { return trial(precision, count).score >= wish_.score; };
    size_t low = 0, high = std::min<size_t>(1, most);
    while (high < most && !reaches(high)) {
      low = high;
      high = std::min(most, 2 * high);
    }
    if (most == 0) return;
    if (!reaches(high)) {
      const double without = trial(Precision::kInt8, 0).score;
      if (precision == Precision::kInt8Weights && trial(precision, most).score > without) others_ = precision;
      return;
    }
    while (high - low > 1) {
      const size_t middle = low + (high - low) / 2;
      (reaches(middle) ? high : low) = middle;
    }
  }

  // Programs up to the largest that fits.
  void fill(Precision precision) {
    const size_t most = operators_->most(precision);
    const auto fits_with = [&](size_t count) { return fits(trial(precision, count)); };
    size_t low = 0, high = std::min<size_t>(1, most);
    while (high < most && fits_with(high)) {
      low = high;
      high = std::min(most, 2 * high);
    }
    if (most == 0 || fits_with(high)) return;
    while (high - low > 1) {
      const size_t middle = low + (high - low) / 2;
      (fits_with(middle) ? low : high) = middle;
    }
  }

  // By which the smallest is what comes nearest to the wish.
  std::tuple<bool, double, double, double, int64_t> distance(const PrecisionTrial& trial) const {
    const auto excess = [](const auto& found, const auto& wanted) {
      return wanted && *found > *wanted ? static_cast<double>(*found) / static_cast<double>(*wanted) : 0.0;
    };
    const double limits = std::max(excess(trial.bytes, wish_.bytes), excess(trial.seconds, wish_.seconds));
    const bool enough = trial.score >= wish_.score && wish_.score != -std::numeric_limits<double>::infinity();
    const double cost = trial.bytes ? static_cast<double>(*trial.bytes) : static_cast<double>(trial.operators);
    return {!is_wished(trial), limits, enough ? 0 : -trial.score, cost, trial.operators};
  }

  PrecisionResult finish(const PrecisionTrial& before) {
    PrecisionResult out;
    out.before = out.after = before;
    out.trials = search_.trials;
    // Programs of an earlier search with other precisions are no choice of this one.
    const auto is_choice = [&](Precision precision) {
      return precision == Precision::kInt8 ||
             std::find(wish_.precisions.begin(), wish_.precisions.end(), precision) != wish_.precisions.end();
    };
    std::erase_if(out.trials, [&](const PrecisionTrial& trial) {
      return trial.operators > 0 && !(is_choice(trial.precision) && is_choice(trial.others));
    });
    mark_front(out.trials);
    out.best = *std::min_element(out.trials.begin(), out.trials.end(),
                                 [&](const auto& a, const auto& b) { return distance(a) < distance(b); });
    sort_stably(out.trials, [](const PrecisionTrial& a, const PrecisionTrial& b) {
      return std::tuple(a.precision, a.others, a.operators) < std::tuple(b.precision, b.others, b.operators);
    });
    out.reached = is_wished(out.best);
    if (out.reached) keep(out);
    return out;
  }

  void keep(PrecisionResult& out) {
    out.after = out.best;
    const auto count = static_cast<size_t>(out.best.operators);
    if (count == 0) return;
    operators_->keep(out.best.precision, count, out.best.others);
    for (size_t i = 0; i < count; ++i) {
      const Sensitivity& changed = operators_->changed(out.best.precision, i);
      out.nodes.push_back(changed.node);
      out.modules.push_back(changed.module);
    }
    operators_.reset();
    Prepared::Impl& impl = Prepared::Impl::of(recovery_.prepared());
    erase_unread(impl);
    impl.interpreter.reset();
    recovery_.forget_simulation();
    // Without the observers that nobody reads names may be shorter.
    if (measures_.bytes) out.after.bytes = out.best.bytes = measures_.bytes(convert_pt2e(recovery_.prepared()));
  }

  Recovery& recovery_;
  const PrecisionMeasures& measures_;
  const PrecisionWish& wish_;
  PrecisionSearch& search_;
  const std::function<void()>& on_trial_;
  Precision others_ = Precision::kInt8;  // of the operators that get no other precision
  std::optional<OperatorPrecisions> operators_;
};

}  // namespace

OutputScore decibels_score(const Recovery& recovery) {
  return [&recovery](const std::vector<std::vector<Tensor>>& outputs) {
    OutputError error;
    for (size_t i = 0; i < outputs.size(); ++i) error.add(recovery.judged()[i], recovery.judged(outputs[i]));
    return error.decibels();
  };
}

PrecisionResult choose_precision(Recovery& recovery, const PrecisionMeasures& measures, const PrecisionWish& wish,
                                 PrecisionSearch* search, const std::function<void()>& on_trial) {
  QDQ_CHECK(!wish.bytes || measures.bytes, kInvalidArgument, "a limit of bytes needs a measure of them");
  QDQ_CHECK(!wish.seconds || measures.seconds, kInvalidArgument, "a limit of seconds needs a measure of them");
  PrecisionSearch own;
  return Searcher(recovery, measures, wish, search != nullptr ? *search : own, on_trial).run();
}

PrecisionResult reach_score(Recovery& recovery, const OutputScore& score, double wanted) {
  return choose_precision(recovery, {score, {}, {}}, {wanted, {}, {}, {Precision::kFloat}});
}

}  // namespace qdq
