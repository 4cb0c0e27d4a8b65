#include "report/metrics.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/stable_sort.h"
#include "report/boxes.h"

namespace qdq {

namespace {

constexpr double kTruthScore = 0.5, kLeastScore = 0.05, kLeastOverlap = 0.5;
constexpr int64_t kLongestAnswer = 30;

// --- boxes -----------------------------------------------------------------------------------------------------------

struct Boxes {
  std::vector<std::vector<Box>> truth, found;  // of each sample
};

Boxes boxes_of(const Outputs& outputs, const MetricSamples& samples, double least) {
  QDQ_CHECK(samples.reference != nullptr, kInvalidArgument,
            "boxes are compared with those of the float model; give its outputs");
  const Outputs& reference = *samples.reference;
  const std::optional<BoxLayout> layout = BoxLayout::of(reference);
  QDQ_CHECK(layout, kInvalidArgument, "the float model's outputs hold no boxes that are known: wanted ", kBoxLayouts);
  QDQ_CHECK(reference.size() == outputs.size(), kInvalidArgument, "the float model gave outputs for ", reference.size(),
            " batches, the other for ", outputs.size());
  Boxes out;
  for (size_t i = 0; i < outputs.size(); ++i) {
    for (auto& boxes : layout->read(reference[i], kTruthScore)) out.truth.push_back(std::move(boxes));
    for (auto& boxes : layout->read(outputs[i], least)) out.found.push_back(std::move(boxes));
    QDQ_CHECK(out.truth.size() == out.found.size(), kInvalidArgument, "batch ", i,
              " holds a different number of samples from the float model's");
  }
  const bool is_empty =
      std::all_of(out.truth.begin(), out.truth.end(), [](const auto& boxes) { return boxes.empty(); });
  QDQ_CHECK(!is_empty, kInvalidArgument,
            "the float model finds no box with a score of 0.5 in these samples; give pictures with objects, "
            "preprocessed as the model needs them");
  return out;
}

// Which boxes of a sample, best first, meet one of the truth, each of which is met once.
std::vector<bool> met(const std::vector<Box>& found, const std::vector<Box>& truth, double least_overlap) {
  std::vector<bool> is_taken(truth.size()), out;
  for (const Box& box : found) {
    size_t best = truth.size();
    double most = least_overlap;
    for (size_t t = 0; t < truth.size(); ++t) {
      const double part = overlap(box, truth[t]);
      if (is_taken[t] || truth[t].label != box.label || part < most) continue;
      most = part;
      best = t;
    }
    out.push_back(best < truth.size());
    if (out.back()) is_taken[best] = true;
  }
  return out;
}

// Of the boxes of all samples of one class: (score, whether it meets one), best first.
double average_precision(std::vector<std::pair<double, bool>> ranked, int64_t wanted) {
  sort_stably(ranked, [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<double> recalls, precisions;
  int64_t right = 0;
  for (size_t i = 0; i < ranked.size(); ++i) {
    right += ranked[i].second;
    recalls.push_back(static_cast<double>(right) / static_cast<double>(wanted));
    precisions.push_back(static_cast<double>(right) / static_cast<double>(i + 1));
  }
  for (size_t i = precisions.size(); i-- > 1;) precisions[i - 1] = std::max(precisions[i - 1], precisions[i]);
  double sum = 0;
  for (int step = 0; step <= 100; ++step) {
    const auto at = std::lower_bound(recalls.begin(), recalls.end(), step / 100.0);
    if (at != recalls.end()) sum += precisions[static_cast<size_t>(at - recalls.begin())];
  }
  return sum / 101;
}

// --- tokens ----------------------------------------------------------------------------------------------------------

// [N, T, C] or [N, T] as floats in C order.
Tensor scores_of(const Tensor& output) { return output.to(DType::kF32).contiguous(); }

// The classes [N, T] of scores [N, T, C], flat.
std::vector<int64_t> classes_of(const Tensor& output) {
  const Tensor scores = scores_of(output);
  const int64_t classes = scores.size(2);
  std::vector<int64_t> out;
  const float* row = scores.span<float>().data();
  for (int64_t i = 0; i < scores.numel(); i += classes)
    out.push_back(std::max_element(row + i, row + i + classes) - (row + i));
  return out;
}

struct Span {
  int64_t first, last;
};

// The most likely answer in scores of first and last tokens [N, T], of each sample.
std::vector<Span> spans_of(const Tensor& firsts, const Tensor& lasts) {
  const Tensor first = scores_of(firsts), last = scores_of(lasts);
  const int64_t tokens = first.size(1);
  std::vector<Span> out;
  for (int64_t n = 0; n < first.size(0); ++n) {
    const float* a = first.span<float>().data() + n * tokens;
    const float* b = last.span<float>().data() + n * tokens;
    Span best{0, 0};
    for (int64_t i = 0; i < tokens; ++i)
      for (int64_t j = i; j < std::min(tokens, i + kLongestAnswer); ++j)
        if (a[i] + b[j] > a[best.first] + b[best.last]) best = {i, j};
    out.push_back(best);
  }
  return out;
}

bool are_spans(const std::vector<Tensor>& outputs) {
  return outputs.size() >= 2 && outputs[0].dim() == 2 && outputs[0].sizes() == outputs[1].sizes() &&
         is_floating(outputs[0].dtype()) && is_floating(outputs[1].dtype()) && outputs[0].size(1) > 0;
}

constexpr std::string_view kTokenScores =
                               "scores [N, T, classes], or the scores of first and last tokens, two of [N, T]",
                           kLogits = "logits [N, T, vocabulary]";

// Whether output `i`, if there is one, may be floats of this rank.
bool may_be_floats(const std::vector<const TensorMeta*>& outputs, size_t i, size_t rank) {
  if (i >= outputs.size()) return false;
  return outputs[i] == nullptr || (is_floating(outputs[i]->dtype) && outputs[i]->sizes.size() == rank);
}
bool may_be_logits(const std::vector<const TensorMeta*>& outputs) { return may_be_floats(outputs, 0, 3); }
bool may_be_token_scores(const std::vector<const TensorMeta*>& outputs) {
  return may_be_logits(outputs) || (may_be_floats(outputs, 0, 2) && may_be_floats(outputs, 1, 2));
}

bool are_token_scores(const std::vector<Tensor>& outputs) {
  return !outputs.empty() && outputs[0].dim() == 3 && is_floating(outputs[0].dtype()) && outputs[0].size(2) > 0;
}

// The labels of the next samples, in C order.
class Labels {
 public:
  explicit Labels(const Tensor& labels) : all_(labels.to(DType::kS64).contiguous()) {}

  // Those of `sizes[0]` samples, each of `sizes[1]`.
  std::span<const int64_t> next(int64_t samples, int64_t width) {
    QDQ_CHECK(all_.dim() == 2 && all_.size(1) == width && at_ + samples <= all_.size(0), kInvalidArgument,
              "the labels are ", to_string(all_.sizes()), "; wanted integers [samples, ", width, "], ", at_ + samples,
              " samples at least");
    const auto out =
        all_.span<int64_t>().subspan(static_cast<size_t>(at_ * width), static_cast<size_t>(samples * width));
    at_ += samples;
    return out;
  }
  // Refuses labels that no sample has.
  void finish() const {
    QDQ_CHECK(at_ == all_.size(0), kInvalidArgument, "there are labels of ", all_.size(0), " samples, but ", at_,
              " samples; give one row for each");
  }

 private:
  Tensor all_;
  int64_t at_ = 0;
};

std::optional<Labels> labels_of(const MetricSamples& samples) {
  if (!samples.labels.defined()) return std::nullopt;
  QDQ_CHECK(is_integral(samples.labels.dtype()), kInvalidArgument, "the labels are ", to_string(samples.labels.dtype()),
            "; wanted integers");
  return Labels(samples.labels);
}

const std::vector<Tensor>& reference_of(const MetricSamples& samples, size_t batch,
                                        const std::vector<Tensor>& outputs) {
  QDQ_CHECK(samples.reference != nullptr && batch < samples.reference->size(), kInvalidArgument,
            "without labels the F1 of tokens compares with the float model's outputs; give them");
  const std::vector<Tensor>& out = (*samples.reference)[batch];
  QDQ_CHECK(out.size() == outputs.size() && out[0].sizes() == outputs[0].sizes(), kInvalidArgument,
            "the outputs differ in shape from the float model's");
  return out;
}

double f1(int64_t right, int64_t found, int64_t wanted) {
  return found + wanted == 0 ? 1 : 2.0 * static_cast<double>(right) / static_cast<double>(found + wanted);
}

double span_f1(const Outputs& outputs, const MetricSamples& samples) {
  std::optional<Labels> labels = labels_of(samples);
  double sum = 0;
  int64_t count = 0;
  for (size_t i = 0; i < outputs.size(); ++i) {
    QDQ_CHECK(are_spans(outputs[i]), kInvalidArgument, "batch ", i,
              " has outputs whose shapes differ from the first batch's");
    const std::vector<Span> found = spans_of(outputs[i][0], outputs[i][1]);
    std::vector<Span> truth;
    if (labels) {
      const auto known = labels->next(static_cast<int64_t>(found.size()), 2);
      for (size_t n = 0; n < found.size(); ++n) truth.push_back({known[2 * n], known[2 * n + 1]});
    } else {
      const std::vector<Tensor>& reference = reference_of(samples, i, outputs[i]);
      truth = spans_of(reference[0], reference[1]);
    }
    for (size_t n = 0; n < found.size(); ++n) {
      const int64_t both = std::min(found[n].last, truth[n].last) - std::max(found[n].first, truth[n].first) + 1;
      sum += f1(std::max<int64_t>(both, 0), found[n].last - found[n].first + 1, truth[n].last - truth[n].first + 1);
      ++count;
    }
  }
  if (labels) labels->finish();
  return sum / static_cast<double>(count);
}

// --- perplexity ------------------------------------------------------------------------------------------------------

bool is_mask(const Tensor& values) {
  const Tensor flat = values.to(DType::kS64).contiguous();
  const auto numbers = flat.span<int64_t>();
  return std::all_of(numbers.begin(), numbers.end(), [](int64_t x) { return x == 0 || x == 1; });
}

// What each place of logits [N, T, V] is to tell, by the text among the inputs: [N, T], -1 where nothing.
std::vector<int64_t> next_tokens(const std::vector<Tensor>& inputs, const Shape& places) {
  const auto fits = [&](const Tensor& input) { return is_integral(input.dtype()) && input.sizes() == places; };
  const auto text = std::find_if(inputs.begin(), inputs.end(), fits);
  QDQ_CHECK(text != inputs.end(), kInvalidArgument, "no input holds integers ", to_string(places),
            ", the text that the logits tell; give the tokens of each place as labels");
  const auto mask =
      std::find_if(text + 1, inputs.end(), [&](const Tensor& input) { return fits(input) && is_mask(input); });
  const Tensor tokens = text->to(DType::kS64).contiguous();
  const Tensor kept = mask == inputs.end() ? Tensor() : mask->to(DType::kS64).contiguous();
  std::vector<int64_t> out;
  for (int64_t i = 0; i < tokens.numel(); ++i) {
    const auto next = static_cast<size_t>(i + 1);
    const bool is_last = (i + 1) % places[1] == 0;
    const bool counts = !is_last && (!kept.defined() || kept.span<int64_t>()[next] == 1);
    out.push_back(counts ? tokens.span<int64_t>()[next] : -1);
  }
  return out;
}

// -log of the softmax at `token`.
double surprise(std::span<const float> logits, int64_t token) {
  const double most = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - most);
  return std::log(sum) + most - logits[static_cast<size_t>(token)];
}

constexpr std::array kMetrics = {
    Metric{"box-f1", &box_f1, true, true, false, false, &may_hold_boxes, kBoxLayouts},
    Metric{"box-map", &box_map, true, true, false, false, &may_hold_boxes, kBoxLayouts},
    Metric{"token-f1", &token_f1, true, true, true, false, &may_be_token_scores, kTokenScores},
    Metric{"perplexity", &perplexity, false, false, true, true, &may_be_logits, kLogits},
};

}  // namespace

double box_f1(const Outputs& outputs, const MetricSamples& samples) {
  const Boxes boxes = boxes_of(outputs, samples, kTruthScore);
  int64_t right = 0, found = 0, wanted = 0;
  for (size_t i = 0; i < boxes.truth.size(); ++i) {
    const std::vector<bool> is_met = met(boxes.found[i], boxes.truth[i], kLeastOverlap);
    right += std::count(is_met.begin(), is_met.end(), true);
    found += static_cast<int64_t>(boxes.found[i].size());
    wanted += static_cast<int64_t>(boxes.truth[i].size());
  }
  return f1(right, found, wanted);
}

double box_map(const Outputs& outputs, const MetricSamples& samples) {
  const Boxes boxes = boxes_of(outputs, samples, kLeastScore);
  std::map<int64_t, int64_t> wanted;  // boxes of each class
  for (const auto& sample : boxes.truth)
    for (const Box& box : sample) ++wanted[box.label];
  double sum = 0;
  constexpr int kSteps = 10;
  for (int step = 0; step < kSteps; ++step) {
    std::map<int64_t, std::vector<std::pair<double, bool>>> ranked;
    for (size_t i = 0; i < boxes.truth.size(); ++i) {
      const std::vector<bool> is_met = met(boxes.found[i], boxes.truth[i], kLeastOverlap + step * 0.05);
      for (size_t b = 0; b < is_met.size(); ++b)
        ranked[boxes.found[i][b].label].emplace_back(boxes.found[i][b].score, is_met[b]);
    }
    for (const auto& [label, count] : wanted) sum += average_precision(ranked[label], count);
  }
  return sum / (kSteps * static_cast<double>(wanted.size()));
}

double token_f1(const Outputs& outputs, const MetricSamples& samples) {
  QDQ_CHECK(!outputs.empty(), kInvalidArgument, "there are no outputs");
  if (are_spans(outputs[0])) return span_f1(outputs, samples);
  std::optional<Labels> labels = labels_of(samples);
  int64_t right = 0, found = 0, wanted = 0;
  for (size_t i = 0; i < outputs.size(); ++i) {
    QDQ_CHECK(are_token_scores(outputs[i]), kInvalidArgument, "the first output is ",
              outputs[i].empty() ? "missing" : to_string(outputs[i][0].sizes()), "; the F1 of tokens needs ",
              kTokenScores);
    const Tensor& scores = outputs[i][0];
    const std::vector<int64_t> answers = classes_of(scores);
    std::vector<int64_t> truth;
    if (labels) {
      const auto known = labels->next(scores.size(0), scores.size(1));
      truth.assign(known.begin(), known.end());
    } else {
      truth = classes_of(reference_of(samples, i, outputs[i])[0]);
    }
    for (size_t t = 0; t < answers.size(); ++t) {
      if (truth[t] < 0) continue;
      found += answers[t] != 0;
      wanted += truth[t] != 0;
      right += answers[t] != 0 && answers[t] == truth[t];
    }
  }
  if (labels) labels->finish();
  QDQ_CHECK(wanted > 0, kInvalidArgument, "every token of these samples is of class 0, ",
            labels ? "by the labels" : "as the float model sees them");
  return f1(right, found, wanted);
}

double perplexity(const Outputs& outputs, const MetricSamples& samples) {
  std::optional<Labels> labels = labels_of(samples);
  double sum = 0;
  int64_t count = 0;
  for (size_t i = 0; i < outputs.size(); ++i) {
    QDQ_CHECK(are_token_scores(outputs[i]), kInvalidArgument, "the first output is ",
              outputs[i].empty() ? "missing" : to_string(outputs[i][0].sizes()), "; perplexity needs ", kLogits);
    const Tensor logits = scores_of(outputs[i][0]);
    const int64_t vocabulary = logits.size(2);
    std::vector<int64_t> truth;
    if (labels) {
      const auto known = labels->next(logits.size(0), logits.size(1));
      truth.assign(known.begin(), known.end());
    } else {
      QDQ_CHECK(samples.inputs != nullptr && i < samples.inputs->size(), kInvalidArgument,
                "perplexity needs labels, or the inputs");
      truth = next_tokens((*samples.inputs)[i], {logits.size(0), logits.size(1)});
    }
    for (size_t t = 0; t < truth.size(); ++t) {
      if (truth[t] < 0) continue;
      QDQ_CHECK(truth[t] < vocabulary, kInvalidArgument, "token ", truth[t], " is beyond the logits of ", vocabulary,
                " tokens");
      sum += surprise(
          logits.span<float>().subspan(t * static_cast<size_t>(vocabulary), static_cast<size_t>(vocabulary)), truth[t]);
      ++count;
    }
  }
  if (labels) labels->finish();
  QDQ_CHECK(count > 0, kInvalidArgument, "there is no token to predict; perplexity needs texts of two tokens or more");
  return std::exp(sum / static_cast<double>(count));
}

const Metric* find_metric(std::string_view name) {
  const auto at =
      std::find_if(kMetrics.begin(), kMetrics.end(), [&](const Metric& metric) { return metric.name == name; });
  return at == kMetrics.end() ? nullptr : &*at;
}

std::string metric_names() {
  std::string out;
  for (const Metric& metric : kMetrics) out += concat(out.empty() ? "" : ", ", metric.name);
  return out;
}

}  // namespace qdq
