// What is said of outputs that come to little in integers.
#include <algorithm>
#include <cstdio>
#include <map>

#include "op/facts.h"
#include "quant/layers.h"
#include "quant/prepared_impl.h"
#include "recover/judged_outputs.h"
#include "recover/lost_channels.h"
#include "recover/recovery.h"

namespace qdq {

namespace {

// A sum that is rounded with a mask of large negative numbers in it (-1e4, -1e9, ...): ", and add_1 holds a mask of
// -1e+09, beside which ..."; empty if there is none.
std::string mask_in(const Prepared& prepared) {
  constexpr float kMask = -5000, kMuchLarger = 100;
  for (const ObserverGroup& group : prepared.observers()) {
    const Tensor min = group.observer->min_val(), max = group.observer->max_val();
    if (!min.defined() || !max.defined() || min.numel() != 1 || max.numel() != 1 || group.covers.empty()) continue;
    const float least = min.to(DType::kF32).data<float>()[0], most = max.to(DType::kF32).data<float>()[0];
    if (!(least <= kMask) || !(most * kMuchLarger <= -least)) continue;
    const Edge* edge = std::get_if<Edge>(&group.covers[0]);
    const Node* node = edge != nullptr ? edge->first : std::get<Node*>(group.covers[0]);
    if (!is_a(*node, Family::kAdd)) continue;
    return concat(", and ", node->name(), " holds a mask of ", static_cast<double>(least),
                  ", beside which integers tell no scores apart");
  }
  return {};
}

// What has become of an output.
enum class Fate { kNearEnough, kPoor, kLost, kLostChannels };

Fate fate_of(double decibels, bool has_mask, const std::optional<LostChannels::Loss>& channels) {
  constexpr double kLost = 0.5, kPoor = 10, kPoorByMask = 20;
  if (decibels < (has_mask ? kPoorByMask : kPoor)) return decibels <= kLost ? Fate::kLost : Fate::kPoor;
  return channels ? Fate::kLostChannels : Fate::kNearEnough;
}

// Of one output or of several whose decibels are sorted.
std::string loss_of(Fate fate, const std::vector<double>& decibels, const std::string& mask) {
  const bool is_one = decibels.size() == 1;
  if (fate == Fate::kLost)
    return concat(is_one ? " is lost in integers: it has" : " are lost in integers: they have",
                  " more noise than signal on the samples", mask);
  char least[32], most[32];
  std::snprintf(least, sizeof least, "%.1f", decibels.front());
  std::snprintf(most, sizeof most, "%.1f", decibels.back());
  const std::string range = std::string_view(least) == most ? least : concat(least, " to ", most);
  return concat(is_one ? " has" : " have", " only ", range, " dB of signal to noise in integers on the samples", mask);
}

std::string loss_of(const LostChannels::Loss& channels) {
  char number[32];
  std::snprintf(number, sizeof number, "%.2g", static_cast<double>(channels.span));
  return concat(" loses ", channels.lost, " of its ", channels.channels, " channels in integers (the first is ",
                channels.first, "): they span up to ", number,
                " in float and are one number on all samples, as scores are that share a scale with boxes");
}

// "'a'", "'a' and 'b'", "'a', 'b' and 'c'".
std::string listed(const std::vector<std::string>& names) {
  std::string out;
  for (size_t i = 0; i < names.size(); ++i) out += (i == 0 ? "" : i + 1 == names.size() ? " and " : ", ") + names[i];
  return out;
}

class Losses {
 public:
  Losses(Prepared& prepared, const std::vector<Batch>& batches, bool is_recovered)
      : program_(Prepared::Impl::of(prepared).program), floats_(prepared), mask_(mask_in(prepared)),
        remedy_(concat(is_recovered ? "; leave operators in float (--target-agreement or --max-size)"
                                    : "; recover accuracy (--recover)",
                       ", try another recipe, or compare layer by layer (qdq compare)")) {
    floats_.judge();
    Interpreter interpreter = floats_.interpreter();
    Simulation simulation(prepared);
    const std::vector<bool> compare = outputs_that_compare(program_);
    num_outputs_ = compare.size();
    for (const Batch& batch : batches) {
      const std::vector<Tensor> outputs = judged_outputs(compare, interpreter.run(batch));
      const std::vector<Tensor> found = judged_outputs(compare, simulation.run(batch));
      error_.add(outputs, found);
      channels_.add(outputs, found);
    }
  }

  std::vector<std::string> said() {
    std::vector<std::string> out;
    std::map<Fate, std::vector<size_t>> alike;
    for (size_t i = 0; i < num_outputs_; ++i) alike[fate_at(i)].push_back(i);
    for (const auto& [fate, outputs] : alike) {
      if (fate == Fate::kNearEnough) continue;
      std::vector<std::string> names;
      for (const size_t i : outputs) names.push_back(name_of(i));
      if (fate == Fate::kLostChannels)
        for (size_t k = 0; k < outputs.size(); ++k)
          out.push_back(concat("the output ", names[k], loss_at({outputs[k]}), remedy_));
      else
        out.push_back(concat("the output", names.size() == 1 ? " " : "s ", listed(names), loss_at(outputs), remedy_));
    }
    if (std::string words = said_of_selecting(); !words.empty()) out.push_back(std::move(words));
    return out;
  }

 private:
  Fate fate_at(size_t i) const { return fate_of(error_.decibels(i), !mask_.empty(), channels_.of(i)); }

  std::string name_of(size_t i) const {
    return i < program_.output_names.size() ? concat("'", program_.output_names[i], "'") : std::to_string(i);
  }

  // Of outputs with one fate.
  std::string loss_at(const std::vector<size_t>& outputs) const {
    const Fate fate = fate_at(outputs[0]);
    if (fate == Fate::kLostChannels) return loss_of(*channels_.of(outputs[0]));
    std::vector<double> decibels;
    for (const size_t i : outputs) decibels.push_back(error_.decibels(i));
    std::sort(decibels.begin(), decibels.end());
    return loss_of(fate, decibels, mask_);
  }

  // Of the values that outputs are selected by the worst is enough.
  std::string said_of_selecting() {
    const Argument::List& judged = floats_.program().graph->output_node()->arg(0).list();
    std::vector<size_t> lost;
    for (size_t i = num_outputs_; i < judged.size(); ++i)
      if (fate_at(i) != Fate::kNearEnough) lost.push_back(i);
    if (lost.empty()) return {};
    const size_t worst = *std::min_element(lost.begin(), lost.end(),
                                           [&](size_t i, size_t j) { return error_.decibels(i) < error_.decibels(j); });
    const std::string others =
        lost.size() == 1 ? "" : concat(" and ", lost.size() - 1, lost.size() == 2 ? " other" : " others");
    return concat("'", observed(judged[worst].node())->name(), "'", loss_at({worst}), "; outputs are selected by it",
                  others, remedy_);
  }

  const Program& program_;
  FloatProgram floats_;
  OutputError error_;
  LostChannels channels_;
  size_t num_outputs_ = 0;
  std::string mask_, remedy_;
};

}  // namespace

std::vector<std::string> lost_outputs(Prepared& prepared, const std::vector<Batch>& batches, bool is_recovered) {
  const Prepared::Impl& impl = Prepared::Impl::of(prepared);
  const auto is_unknown = [](const Node* node) {
    return node->op() == Node::Op::kCallFunction && op_of(*node) == nullptr;
  };
  const std::vector<Node*> nodes = impl.program.graph->nodes();
  if (impl.is_qat || !impl.equalized.empty() || std::any_of(nodes.begin(), nodes.end(), is_unknown)) return {};
  return Losses(prepared, batches, is_recovered).said();
}

}  // namespace qdq
