// What models say of samples, side by side.
#include "report/evaluation.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <map>
#include <numeric>

#include "base/stable_sort.h"
#include "format/json.h"
#include "kernel/difference.h"
#include "recover/judged_outputs.h"
#include "tensor/complex.h"

namespace qdq {

using format::Json;
using format::json_object;

namespace {

constexpr size_t kChoices = 5;
constexpr size_t kShown = 3;

Answer answer_of(std::span<const float> scores) {
  // The best so far in order; a class that equals one of them goes behind it.
  std::vector<size_t> best;
  for (size_t i = 0; i < scores.size(); ++i) {
    if (best.size() == kChoices && scores[i] <= scores[best.back()]) continue;
    if (best.size() == kChoices) best.pop_back();
    auto at = best.begin();
    while (at != best.end() && scores[*at] >= scores[i]) ++at;
    best.insert(at, i);
  }
  double sum = 0, least = INFINITY, exponentials = 0;
  const double most = scores[best[0]];
  for (const double score : scores) {
    sum += score;
    least = std::min(least, score);
    exponentials += std::exp(score - most);
  }
  const bool shares = least >= 0 && std::abs(sum - 1) < 1e-3;
  Answer answer;
  for (const size_t i : best) {
    const double score = scores[i];
    answer.top.push_back({static_cast<int64_t>(i), shares ? score : std::exp(score - most) / exponentials});
  }
  return answer;
}

// f32, in C order; of complex numbers their two parts.
Tensor floats(const Tensor& tensor) {
  return (is_complex(tensor.dtype()) ? view_as_real(tensor) : tensor.to(DType::kF32)).contiguous();
}

double percent(int64_t part, size_t whole) {
  return 100.0 * static_cast<double>(part) / static_cast<double>(std::max<size_t>(1, whole));
}

Json choices_json(const Answer& answer) {
  Json out = Json::array();
  for (size_t i = 0; i < std::min(kShown, answer.top.size()); ++i)
    out.push_back(
        json_object({{"class", answer.top[i].label}, {"share", format::json_of_number(answer.top[i].share)}}));
  return out;
}

// The first output that compares, not counting those of text.
std::optional<size_t> first_to_compare(const Program& program) {
  const Argument::List& outputs = program.graph->output_node()->arg(0).list();
  const std::vector<bool> compare = outputs_that_compare(program);
  size_t at = 0;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const TensorMeta* meta = outputs[i].node() ? outputs[i].node()->meta.val.tensor() : nullptr;
    if (meta != nullptr && meta->dtype == DType::kString) continue;
    if (compare[i]) return at;
    ++at;
  }
  return std::nullopt;
}

}  // namespace

bool is_classification(const Tensor& output) {
  return output.dim() == 2 && output.size(1) >= 1 && is_floating(output.dtype());
}

std::vector<std::string> doubts_about(const Answers& answers, std::span<const int64_t> labels,
                                      std::optional<int64_t> classes) {
  constexpr int64_t kManyClasses = 100;
  constexpr size_t kEnough = 16, kEnoughForNone = 8;
  const std::vector<Answer>& all = answers.all();
  if (classes.value_or(2) < 2) return {};
  const std::string remedy = "; is the preprocessing the one that the model was trained with?";
  if (all.size() < kEnough) {
    if (all.size() < kEnoughForNone || labels.empty() || answers.top(1, labels) > 0) return {};
    return {concat("is right about none of the ", all.size(), " samples", remedy)};
  }
  const auto is_first = [&](const Answer& answer) { return answer.top[0].label == all[0].top[0].label; };
  const bool has_others =
      labels.empty() || std::any_of(labels.begin(), labels.end(), [&](int64_t label) { return label != labels[0]; });
  if (has_others && std::all_of(all.begin(), all.end(), is_first))
    return {concat("gives all ", all.size(), " samples the class ", all[0].top[0].label, remedy)};
  if (labels.empty() && classes.value_or(0) >= kManyClasses) {
    std::map<int64_t, size_t> counts;
    for (const Answer& answer : all) ++counts[answer.top[0].label];
    const auto most = std::max_element(counts.begin(), counts.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    if (3 * most->second > 2 * all.size())
      return {concat("gives ", most->second, " of ", all.size(), " samples the same of its ", *classes,
                     " classes, class ", most->first, remedy)};
  }
  if (labels.empty() || !classes) return {};
  // Two standard deviations above chance are no accident.
  const double top1 = answers.top(1, labels), chance = 100.0 / static_cast<double>(*classes);
  const double spread = std::sqrt(chance * (100 - chance) / static_cast<double>(all.size()));
  if (top1 > chance + 2 * spread) return {};
  char text[96];
  std::snprintf(text, sizeof text, "is right about %.1f %% of the samples, where chance is right about %.1f %%", top1,
                chance);
  return {text + remedy};
}

std::optional<int64_t> count_classes(const Program& program) {
  std::vector<const Node*> outputs;
  program.graph->output_node()->arg(0).for_each_node([&](const Node* node) { outputs.push_back(node); });
  const TensorMeta* first = outputs.empty() ? nullptr : outputs[0]->meta.val.tensor();
  if (!first || first->sizes.size() != 2 || !is_floating(first->dtype)) return {};
  return first->sizes[1].constant();
}

void Answers::add(const std::vector<Tensor>& outputs, const std::string& model) {
  QDQ_CHECK(!outputs.empty(), kInvalidArgument, model, " has no outputs");
  QDQ_CHECK(is_classification(outputs[0]), kInvalidArgument, model, ": output 0 is ", to_string(outputs[0].dtype()),
            to_string(outputs[0].sizes()), "; a classifier returns floats of shape [samples, classes]");
  const Tensor scores = floats(outputs[0]);
  const auto classes = static_cast<size_t>(scores.size(1));
  for (int64_t i = 0; i < scores.size(0); ++i)
    answers_.push_back(answer_of(scores.span<float>().subspan(static_cast<size_t>(i) * classes, classes)));
}

double Answers::top(size_t k, std::span<const int64_t> labels) const {
  QDQ_CHECK(labels.size() >= answers_.size(), kInvalidArgument, "there are ", labels.size(), " labels for ",
            answers_.size(), " samples");
  int64_t right = 0;
  for (size_t i = 0; i < answers_.size(); ++i) {
    const auto& top = answers_[i].top;
    const auto end = top.begin() + static_cast<std::ptrdiff_t>(std::min(k, top.size()));
    right += std::any_of(top.begin(), end, [&](const Answer::Choice& choice) { return choice.label == labels[i]; });
  }
  return percent(right, answers_.size());
}

double Answers::ties() const {
  const auto is_tie = [](const Answer& answer) {
    return answer.top.size() > 1 && answer.top[0].share == answer.top[1].share;
  };
  return percent(std::count_if(answers_.begin(), answers_.end(), is_tie), answers_.size());
}

double Answers::agreement(const Answers& other) const {
  int64_t same = 0;
  for (size_t i = 0; i < std::min(answers_.size(), other.answers_.size()); ++i)
    same += answers_[i].top[0].label == other.answers_[i].top[0].label;
  return percent(same, answers_.size());
}

Evaluation::Evaluation(const Program& float_program, const Program& quantized, std::vector<int64_t> labels)
    : float_{lower(float_program), {}}, int8_{lower(quantized), {}}, labels_(std::move(labels)),
      classes_(count_classes(float_program)), compared_(first_to_compare(float_program)),
      classifies_(compared_ == size_t{0}) {}

std::vector<Tensor> Evaluation::run(Contender& model, const std::vector<Tensor>& inputs, bool timed) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point began = Clock::now();
  std::vector<Tensor> outputs = model.session.run(inputs);
  if (timed) model.seconds += std::chrono::duration<double>(Clock::now() - began).count();
  return outputs;
}

void Evaluation::check_labels(size_t begin, size_t end, int64_t classes) const {
  for (size_t i = begin; i < std::min(end, labels_.size()); ++i)
    QDQ_CHECK(labels_[i] >= 0 && labels_[i] < classes, kInvalidArgument, "the label of sample ", i, " is ", labels_[i],
              "; the model has classes 0 to ", classes - 1);
}

void Evaluation::add(const std::vector<Tensor>& inputs) {
  const Shape sizes = inputs.empty() ? Shape{} : inputs[0].sizes();
  const int64_t count = sizes.empty() ? 1 : sizes[0];
  const bool timed = std::find(met_.begin(), met_.end(), sizes) != met_.end();
  if (!timed) met_.push_back(sizes);
  if (samples_ == 0) first_ = inputs;
  std::vector<Tensor> before = run(float_, inputs, timed), after = run(int8_, inputs, timed);
  // Some classifiers give labels that are text in front of their scores.
  for (std::vector<Tensor>* outputs : {&before, &after})
    std::erase_if(*outputs, [](const Tensor& output) { return output.dtype() == DType::kString; });
  samples_ += count;
  if (timed) {
    timed_samples_ += count;
    largest_timed_ = std::max(largest_timed_, count);
  }
  if (!compared_) return;
  const size_t at = *compared_;
  QDQ_CHECK(at < before.size() && before.size() == after.size() && before[at].sizes() == after[at].sizes(),
            kInvalidArgument, "the float and the quantized program give different outputs, so they cannot be compared");
  const Tensor x = floats(before[at]), y = floats(after[at]);
  const auto difference = [&](int64_t from, int64_t n) {
    return kernel::difference_f32(x.span<float>().data() + from, y.span<float>().data() + from, n);
  };
  const kernel::Difference all = difference(0, x.numel());
  signal_ += all.signal;
  noise_ += all.noise;
  classifies_ = classifies_ && is_classification(before[0]);
  if (!classifies_) return;
  const size_t begin = float_.answers.all().size();
  check_labels(begin, begin + static_cast<size_t>(x.size(0)), x.size(1));
  float_.answers.add(before, "the float model");
  int8_.answers.add(after, "the int8 model");
  const int64_t classes = x.size(1);
  for (int64_t i = 0; i < x.size(0); ++i) {
    const kernel::Difference one = difference(i * classes, classes);
    // Never NaN, by which samples could not be sorted.
    moved_.push_back(one.noise == 0 ? 0 : one.signal > 0 && one.noise < INFINITY ? one.noise / one.signal : INFINITY);
  }
}

Json Evaluation::report(size_t kept) {
  if (samples_ > 0 && timed_samples_ == 0) {
    timed_samples_ = largest_timed_ = met_[0].empty() ? 1 : met_[0][0];
    for (Contender* model : {&float_, &int8_}) run(*model, first_, true);
  }
  const double milliseconds = 1000.0 / static_cast<double>(std::max<int64_t>(1, timed_samples_));
  Json out = Json::object();
  if (compared_) out["sqnr"] = noise_ == 0 ? Json() : format::json_of_number(10 * std::log10(signal_ / noise_));
  out["speed"] = json_object(
      {{"float", float_.seconds * milliseconds}, {"int8", int8_.seconds * milliseconds}, {"batch", largest_timed_}});
  if (!classifies_ || samples_ == 0) return out;
  const std::vector<Answer>&a = float_.answers.all(), &b = int8_.answers.all();
  QDQ_CHECK(labels_.empty() || labels_.size() == a.size(), kInvalidArgument, "there are ", labels_.size(),
            " labels for ", a.size(), " samples; give one for each, in their order");
  out["accuracy"] = json_object({{"agreement", int8_.answers.agreement(float_.answers)}, {"samples", a.size()}});
  if (!labels_.empty())
    for (const auto& [name, k] : {std::pair("top1", size_t{1}), std::pair("top5", size_t{5})})
      out["accuracy"][name] = {float_.answers.top(k, labels_), int8_.answers.top(k, labels_)};
  Json warnings = Json::array();
  for (const std::string& doubt : doubts_about(float_.answers, labels_, classes_))
    warnings.push_back("The float model " + doubt);
  if (!warnings.empty()) out["warnings"] = std::move(warnings);
  const auto differs = [&](size_t i) { return a[i].top[0].label != b[i].top[0].label; };
  std::vector<size_t> order(a.size());
  std::iota(order.begin(), order.end(), size_t{0});
  sort_stably(order, [&](size_t i, size_t k) {
    if (differs(i) != differs(k)) return differs(i);
    return moved_[i] != moved_[k] ? moved_[i] > moved_[k] : i < k;
  });
  order.resize(std::min(kept, order.size()));
  out["predictions"] = Json::array();
  for (const size_t i : order) {
    Json sample = json_object({{"sample", i}});
    if (!labels_.empty()) sample["label"] = labels_[i];
    sample.update(json_object(
        {{"float", choices_json(a[i])}, {"int8", choices_json(b[i])}, {"moved", format::json_of_number(moved_[i])}}));
    out["predictions"].push_back(std::move(sample));
  }
  return out;
}

}  // namespace qdq
