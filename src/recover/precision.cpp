#include "recover/precision.h"

#include <algorithm>
#include <map>

#include "op/facts.h"
#include "quant/prepared_impl.h"
#include "recover/layers.h"
#include "recover/sensitivity.h"

namespace qdq {

namespace {

// An operator that can be left in float, its arguments from before, and its constants.
struct Candidate {
  Node* node;
  std::string module;
  std::vector<Argument> args{};
  Node::Kwargs kwargs{};
  std::vector<std::pair<std::string, Tensor>> constants{};
};

// The operators in float among the candidates: always the first so many.
class FloatOperators {
 public:
  FloatOperators(Recovery& recovery, std::vector<Candidate> candidates)
      : recovery_(recovery), impl_(Prepared::Impl::of(recovery.prepared())), candidates_(std::move(candidates)) {}
  ~FloatOperators() { set(kept_); }
  FloatOperators(const FloatOperators&) = delete;
  FloatOperators& operator=(const FloatOperators&) = delete;

  const std::vector<Candidate>& candidates() const { return candidates_; }

  void set(size_t count) {
    if (count == count_) return;
    for (; count_ < count; ++count_) {
      Candidate& candidate = candidates_[count_];
      candidate.args = candidate.node->args();
      candidate.kwargs = candidate.node->kwargs();
      for (const Node* input : candidate.node->input_nodes())
        if (const auto constant = own_constant(impl_, input)) exchange_constant(candidate, constant->name);
      const auto unrounded = [&](Node* node) { return impl_.group_of_module(*node) ? node->arg(0).node() : node; };
      std::vector<Argument> args = candidate.args;
      for (Argument& argument : args) argument = argument.map_nodes(unrounded);
      Node::Kwargs kwargs = candidate.kwargs;
      for (auto& [name, argument] : kwargs) argument = argument.map_nodes(unrounded);
      candidate.node->set_args(std::move(args));
      candidate.node->set_kwargs(std::move(kwargs));
    }
    for (; count_ > count; --count_) {
      Candidate& candidate = candidates_[count_ - 1];
      candidate.node->set_args(std::move(candidate.args));
      candidate.node->set_kwargs(std::move(candidate.kwargs));
      for (const auto& [name, value] : std::exchange(candidate.constants, {}))
        impl_.program.find_attribute(name)->tensor = value;
    }
    impl_.interpreter.reset();
    recovery_.forget_simulation();
  }

  // What stays when this goes.
  void keep(size_t count) {
    set(count);
    kept_ = count;
  }

 private:
  // Gives a constant that the operator alone reads the value of the float program.
  void exchange_constant(Candidate& candidate, const std::string& name) {
    Tensor& tensor = impl_.program.find_attribute(name)->tensor;
    candidate.constants.emplace_back(name, tensor);
    if (const auto found = impl_.float_constants.find(name); found != impl_.float_constants.end())
      tensor = found->second;
  }

  Recovery& recovery_;
  Prepared::Impl& impl_;
  std::vector<Candidate> candidates_;
  size_t count_ = 0, kept_ = 0;
};

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

std::vector<Candidate> candidates_of(Recovery& recovery) {
  const Prepared::Impl& impl = Prepared::Impl::of(recovery.prepared());
  std::vector<Sensitivity> found = sensitivities(recovery);
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.alone < b.alone; });
  std::vector<Candidate> out;
  for (const Sensitivity& sensitivity : found)
    out.push_back({impl.program.graph->find(sensitivity.node), sensitivity.module});
  return out;
}

}  // namespace

PrecisionResult reach_score(Recovery& recovery, const OutputScore& score, double wanted) {
  const auto score_now = [&] {
    Simulation& simulation = recovery.simulation();
    simulation.refresh();
    std::vector<std::vector<Tensor>> outputs;
    for (const Batch& batch : recovery.batches()) {
      recovery.tell_again();
      outputs.push_back(simulation.run(batch));
    }
    return score(outputs);
  };
  recovery.tell("precision", 0);
  PrecisionResult out;
  out.before = out.after = score_now();
  std::map<size_t, double> trials{{0, out.before}};
  if (!(out.before >= wanted)) {
    FloatOperators floats(recovery, candidates_of(recovery));
    const size_t most = floats.candidates().size();
    const auto reaches = [&](size_t count) {
      floats.set(count);
      const auto [at, is_new] = trials.try_emplace(count, 0);
      if (is_new) at->second = score_now();
      return at->second >= wanted;
    };
    // Between a number that does not reach the score and one that does.
    size_t low = 0, high = std::min<size_t>(1, most);
    while (high < most && !reaches(high)) {
      low = high;
      high = std::min(most, 2 * high);
    }
    out.reached = most > 0 && reaches(high);
    while (out.reached && high - low > 1) {
      const size_t middle = low + (high - low) / 2;
      (reaches(middle) ? high : low) = middle;
    }
    if (out.reached) {
      floats.keep(high);
      out.after = trials.at(high);
      for (size_t i = 0; i < high; ++i) {
        // The last that was taken is what explain() tells.
        Prepared::Impl::of(recovery.prepared())
            .annotations.note(floats.candidates()[i].node,
                              {"", "", true, "it was left in float so that the outputs reach the target"});
        out.nodes.push_back(floats.candidates()[i].node->name());
        out.modules.push_back(floats.candidates()[i].module);
      }
    }
  } else {
    out.reached = true;
  }
  if (!out.nodes.empty()) {
    Prepared::Impl& impl = Prepared::Impl::of(recovery.prepared());
    erase_unread(impl);
    impl.interpreter.reset();
    recovery.forget_simulation();
  }
  for (const auto& [count, value] : trials) out.trials.push_back({static_cast<int64_t>(count), value});
  return out;
}

}  // namespace qdq
