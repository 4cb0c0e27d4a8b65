#include "report/boxes.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/stable_sort.h"

namespace qdq {

namespace {

constexpr double kLargestOverlap = 0.5;
constexpr size_t kMostBoxes = 100;

bool is_whole(const Tensor& values) {
  if (!is_floating(values.dtype())) return true;
  const Tensor flat = values.to(DType::kF32).contiguous();
  const auto numbers = flat.span<float>();
  return std::all_of(numbers.begin(), numbers.end(), [](float x) { return x == std::floor(x); });
}

bool is_beyond_shares(const Tensor& values) {
  const Tensor flat = values.to(DType::kF32).contiguous();
  const auto numbers = flat.span<float>();
  return std::any_of(numbers.begin(), numbers.end(), [](float x) { return x < 0 || x > 1; });
}

// Whether the last axis sums to 1 everywhere.
bool sums_to_one(const Tensor& scores) {
  const Tensor flat = scores.to(DType::kF32).contiguous();
  const int64_t classes = scores.size(-1);
  if (classes < 2) return false;
  const float* row = flat.span<float>().data();
  for (int64_t i = 0; i < flat.numel(); i += classes) {
    double sum = 0;
    for (int64_t c = 0; c < classes; ++c) sum += row[i + c];
    if (std::abs(sum - 1) > 1e-3) return false;
  }
  return true;
}

double share_of(double score, bool is_logit) { return is_logit ? 1 / (1 + std::exp(-score)) : score; }

// With an axis of samples in front.
Tensor with_samples(const Tensor& output, int64_t rank) {
  return output.dim() == rank - 1 ? output.unsqueeze(0) : output;
}

double area(double width, double height) { return std::max(0.0, width) * std::max(0.0, height); }

std::vector<Box> without_doubles(std::vector<Box> found) {
  sort_stably(found, [](const Box& a, const Box& b) { return a.score > b.score; });
  std::vector<Box> kept;
  for (const Box& box : found) {
    if (kept.size() == kMostBoxes) break;
    const bool is_known = std::any_of(kept.begin(), kept.end(), [&](const Box& other) {
      return other.label == box.label && overlap(other, box) > kLargestOverlap;
    });
    if (!is_known) kept.push_back(box);
  }
  return kept;
}

}  // namespace

double overlap(const Box& a, const Box& b) {
  const double both = area(std::min(a.x1, b.x1) - std::max(a.x0, b.x0), std::min(a.y1, b.y1) - std::max(a.y0, b.y0));
  const double all = area(a.x1 - a.x0, a.y1 - a.y0) + area(b.x1 - b.x0, b.y1 - b.y0) - both;
  return all > 0 ? both / all : 0;
}

bool may_hold_boxes(const std::vector<const TensorMeta*>& outputs) {
  const auto may = [&](const TensorMeta* output) {
    if (output == nullptr) return true;
    const size_t rank = output->sizes.size();
    if (!is_floating(output->dtype) || rank < 2 || rank > 3) return false;
    const auto a = output->sizes[rank - 2].constant(), b = output->sizes[rank - 1].constant();
    if (!b || *b == 6 || (*b == 4 && outputs.size() > 1)) return true;
    return rank == 3 && *b > 4 && (!a || (*a > 4 && *a != *b));
  };
  return std::any_of(outputs.begin(), outputs.end(), may);
}

// Views of outputs: boxes [N, K, 4], scores [N, K, C] and, where there are such, objects' scores and classes [N, K].
struct BoxLayout::Table {
  Tensor boxes, scores, objects, labels;
};

std::optional<BoxLayout::Table> BoxLayout::table_of(const std::vector<Tensor>& outputs) const {
  if (std::max({boxes_, scores_, labels_.value_or(0)}) >= outputs.size()) return std::nullopt;
  Tensor all = with_samples(outputs[boxes_], 3);
  if (all.dim() != 3) return std::nullopt;
  if (form_ == Form::kClasses) all = all.transpose(1, 2);
  const int64_t width = all.size(2), count = all.size(1);
  const auto columns = [&](int64_t from, int64_t to) { return all.slice(2, from, to); };
  if (form_ != Form::kSeparate && width < 5) return std::nullopt;
  switch (form_) {
    case Form::kLabelled:
      if (width != 6) return std::nullopt;
      return Table{columns(0, 4), columns(4, 5), {}, all.select(2, 5)};
    case Form::kScored: return Table{columns(0, 4), columns(4, 5), {}, {}};
    case Form::kObjects:
      if (width < 6) return std::nullopt;
      return Table{columns(0, 4), columns(5, width), all.select(2, 4), {}};
    case Form::kClasses: return Table{columns(0, 4), columns(4, width), {}, {}};
    case Form::kSeparate: break;
  }
  const int64_t rank = outputs[boxes_].dim();
  Tensor scores = outputs[scores_].dim() == rank - 1 ? outputs[scores_].unsqueeze(-1) : outputs[scores_];
  scores = with_samples(scores, 3);
  if (width != 4 || scores.dim() != 3) return std::nullopt;
  if (scores.size(1) != count) scores = scores.transpose(1, 2);
  Table out{all, scores, {}, labels_ ? with_samples(outputs[*labels_], 2) : Tensor()};
  const bool fits = scores.size(1) == count && scores.size(0) == all.size(0) &&
                    (!labels_ || out.labels.sizes() == Shape{all.size(0), count});
  return fits ? std::optional(out) : std::nullopt;
}

bool BoxLayout::find_form(const std::vector<Tensor>& outputs) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Tensor& output = outputs[i];
    if (!is_floating(output.dtype()) || output.dim() < 2 || output.dim() > 3) continue;
    const int64_t a = output.size(-2), b = output.size(-1);
    boxes_ = scores_ = i;
    form_ = Form::kLabelled;
    if (b == 6 && is_whole(table_of(outputs)->labels)) return true;  // the only one that may lack the axis of samples
    if (std::min(a, b) < 5 || a == b || output.dim() == 2) continue;
    form_ = a < b ? Form::kClasses : b == 5 ? Form::kScored : Form::kObjects;
    return true;
  }
  return false;
}

bool BoxLayout::find_separate(const std::vector<Tensor>& outputs) {
  form_ = Form::kSeparate;
  for (boxes_ = 0; boxes_ < outputs.size(); ++boxes_) {
    const Tensor& boxes = outputs[boxes_];
    if (!is_floating(boxes.dtype()) || boxes.dim() < 2 || boxes.dim() > 3 || boxes.size(-1) != 4) continue;
    std::optional<size_t> scores, labels;
    for (size_t i = 0; i < outputs.size(); ++i) {
      const Tensor& other = outputs[i];
      if (i == boxes_ || (other.dim() != boxes.dim() && other.dim() != boxes.dim() - 1)) continue;
      BoxLayout trial = *this;
      trial.scores_ = i;
      if (!labels && other.dim() < boxes.dim() && is_whole(other)) labels = i;
      else if (!scores && is_floating(other.dtype()) && trial.table_of(outputs)) scores = i;
    }
    if (!scores) continue;
    scores_ = *scores;
    labels_ = labels;
    if (!table_of(outputs)) labels_.reset();
    return true;
  }
  return false;
}

void BoxLayout::note_values(const std::vector<std::vector<Tensor>>& batches) {
  has_background_ = true;
  for (const std::vector<Tensor>& outputs : batches) {
    const std::optional<Table> table = table_of(outputs);
    if (!table) continue;  // read() says so
    are_logits_ = are_logits_ || is_beyond_shares(table->scores);
    are_object_logits_ = are_object_logits_ || (table->objects.defined() && is_beyond_shares(table->objects));
    has_background_ = has_background_ && sums_to_one(table->scores);
    const Tensor boxes = table->boxes.to(DType::kF32).contiguous();
    const float* box = boxes.span<float>().data();
    for (int64_t i = 0; i < boxes.numel(); i += 4)
      are_corners_ = are_corners_ && box[i + 2] >= box[i] && box[i + 3] >= box[i + 1];
  }
  has_background_ = has_background_ && !labels_;
}

std::optional<BoxLayout> BoxLayout::of(const std::vector<std::vector<Tensor>>& batches) {
  BoxLayout layout;
  if (batches.empty()) return std::nullopt;
  const std::vector<Tensor>& first = batches[0];
  const bool is_known = layout.find_separate(first);
  if (!is_known && !layout.find_form(first)) return std::nullopt;
  layout.note_values(batches);
  return layout;
}

std::vector<Box> BoxLayout::sample(const Table& table, int64_t index, double least) const {
  const auto numbers = [&](const Tensor& tensor) {
    return tensor.defined() ? tensor.select(0, index).to(DType::kF32).contiguous() : Tensor();
  };
  const Tensor boxes = numbers(table.boxes), scores = numbers(table.scores), objects = numbers(table.objects),
               labels = numbers(table.labels);
  const int64_t classes = scores.size(1), first = has_background_ ? 1 : 0;
  std::vector<Box> found;
  for (int64_t k = 0; k < boxes.size(0); ++k) {
    const float* score = scores.span<float>().data() + k * classes;
    const int64_t best = std::max_element(score + first, score + classes) - score;
    double share = share_of(score[best], are_logits_);
    if (objects.defined()) share *= share_of(objects.span<float>()[static_cast<size_t>(k)], are_object_logits_);
    if (!(share >= least)) continue;
    const float* at = boxes.span<float>().data() + 4 * k;
    const int64_t label =
        labels.defined() ? static_cast<int64_t>(std::llround(labels.span<float>()[static_cast<size_t>(k)])) : best;
    const double a = at[0], b = at[1], c = at[2], d = at[3];
    if (are_corners_) found.push_back({a, b, c, d, share, label});
    else found.push_back({a - c / 2, b - d / 2, a + c / 2, b + d / 2, share, label});
  }
  return without_doubles(std::move(found));
}

std::vector<std::vector<Box>> BoxLayout::read(const std::vector<Tensor>& outputs, double least) const {
  const std::optional<Table> table = table_of(outputs);
  QDQ_CHECK(table && table->scores.size(2) > 0, kInvalidArgument,
            "the outputs hold no boxes like the float model's; their shapes differ");
  std::vector<std::vector<Box>> out;
  for (int64_t i = 0; i < table->boxes.size(0); ++i) out.push_back(sample(*table, i, least));
  return out;
}

}  // namespace qdq
