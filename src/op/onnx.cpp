// Operators of ONNX that no ATen operator is, nor a short chain of them: choosing boxes, ensembles of trees. Their
// namespace is "onnx"; PyTorch does not have them.
#include <algorithm>
#include <cmath>
#include <limits>

#include "op/elements.h"
#include "op/families.h"
#include "op/math.h"
#include "op/trees.h"

namespace qdq {
namespace {

// A box as the corners nearest to and furthest from the origin.
struct Box {
  float y0, x0, y1, x1;
};
Box box_of(const float* b, bool center_point_box) {
  if (center_point_box) return {b[1] - b[3] / 2, b[0] - b[2] / 2, b[1] + b[3] / 2, b[0] + b[2] / 2};
  return {std::min(b[0], b[2]), std::min(b[1], b[3]), std::max(b[0], b[2]), std::max(b[1], b[3])};
}
// Whether the shared area is more than the given part of the area of both.
bool overlap(const Box& a, const Box& b, float threshold) {
  const float height = std::min(a.y1, b.y1) - std::max(a.y0, b.y0), width = std::min(a.x1, b.x1) - std::max(a.x0, b.x0);
  if (!(height > 0) || !(width > 0)) return false;
  const float shared = height * width;
  const float area_a = (a.y1 - a.y0) * (a.x1 - a.x0), area_b = (b.y1 - b.y0) * (b.x1 - b.x0);
  const float both = area_a + area_b - shared;
  return area_a > 0 && area_b > 0 && both > 0 && shared / both > threshold;
}

// Boxes [N, B, 4] and scores [N, C, B] -> [M, 3]: batch, class and box, for each class from the largest score on those
// that overlap none before by more than the threshold.
MetaValue infer_non_max_suppression(const Call<TensorMeta>& call) {
  const TensorMeta &boxes = call.tensor(0), &scores = call.tensor(1);
  const SymShape &b = boxes.sizes, &s = scores.sizes;
  QDQ_CHECK(boxes.dtype == DType::kF32 && scores.dtype == DType::kF32, kInvalidArgument, call.op().target,
            " needs float32 boxes and scores, found ", to_string(boxes.dtype), " and ", to_string(scores.dtype));
  QDQ_CHECK(b.size() == 3 && s.size() == 3 && may_be_equal(b[0], s[0]) && may_be_equal(b[1], s[2]) &&
                may_be_equal(b[2], SymInt(4)),
            kInvalidArgument, call.op().target, " needs boxes [N, B, 4] and scores [N, C, B], found ", to_string(b),
            " and ", to_string(s));
  return tensor_meta(DType::kS64, {size_from_values(), SymInt(3)});
}
Value eval_non_max_suppression(const Call<Tensor>& call) {
  infer_call(call);
  const Tensor boxes = call.tensor(0).contiguous(), scores = call.tensor(1).contiguous();
  const int64_t batches = scores.size(0), classes = scores.size(1), count = scores.size(2), most = call.integer(2);
  const auto threshold = static_cast<float>(call.number(3));
  const float least = call.is_none(4) ? -std::numeric_limits<float>::infinity() : static_cast<float>(call.number(4));
  const bool center = call.boolean(5);
  std::vector<int64_t> picked, order;
  for (int64_t n = 0; n < batches * classes && most > 0; ++n) {
    const float *box = boxes.data<float>() + n / classes * count * 4, *score = scores.data<float>() + n * count;
    order.clear();
    for (int64_t i = 0; i < count; ++i)
      if (call.is_none(4) ? score[i] == score[i] : score[i] > least) order.push_back(i);
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return score[a] > score[b]; });
    std::vector<Box> chosen;
    for (const int64_t i : order) {
      if (static_cast<int64_t>(chosen.size()) >= most) break;
      const Box here = box_of(box + i * 4, center);
      if (std::any_of(chosen.begin(), chosen.end(), [&](const Box& b) { return overlap(b, here, threshold); }))
        continue;
      chosen.push_back(here);
      picked.insert(picked.end(), {n / classes, n % classes, i});
    }
  }
  return Tensor::of<int64_t>({static_cast<int64_t>(picked.size()) / 3, 3}, picked);
}

// Trees over x [N, F] -> [N, targets]. The second result tells which targets a row has reached.
bool goes_yes(TreeMode mode, double value, double threshold) {
  switch (mode) {
    case TreeMode::kLessEqual: return value <= threshold;
    case TreeMode::kLess: return value < threshold;
    case TreeMode::kGreaterEqual: return value >= threshold;
    case TreeMode::kGreater: return value > threshold;
    case TreeMode::kEqual: return value == threshold;
    default: return value != threshold;
  }
}
MetaValue infer_tree_ensemble(const Call<TensorMeta>& call) {
  const TensorMeta& x = call.tensor(kTreeX);
  QDQ_CHECK(x.sizes.size() == 2, kInvalidArgument, call.op().target, " needs rows [N, F], found shape ",
            to_string(x.sizes));
  const int64_t targets = call.integer(kTreeNumTargets);
  QDQ_CHECK(targets >= 1 && targets <= 1 << 20, kInvalidArgument, call.op().target, " got ", targets, " targets");
  const SymShape sizes{x.sizes[0], SymInt(targets)};
  return MetaValue::List{tensor_meta(x.dtype == DType::kF64 ? DType::kF64 : DType::kF32, sizes),
                         tensor_meta(DType::kBool, sizes)};
}
Value eval_tree_ensemble(const Call<Tensor>& call) {
  infer_call(call);
  const auto integers = [&](size_t i) { return call.tensor(i).to(DType::kS64).contiguous(); };
  const Tensor roots = integers(kTreeRoots), features = integers(kTreeFeatures), modes = integers(kTreeModes),
               yes = integers(kTreeYes), no = integers(kTreeNo), missing = integers(kTreeMissing),
               first = integers(kTreeFirst), count = integers(kTreeCount), targets = integers(kTreeTargets),
               weights = call.tensor(kTreeWeights).to(DType::kF64).contiguous(),
               thresholds = call.tensor(kTreeThresholds).to(DType::kF64).contiguous();
  const Tensor x = call.tensor(kTreeX).to(DType::kF64).contiguous();
  const int64_t nodes = features.numel(), width = x.size(1), num_targets = call.integer(kTreeNumTargets);
  for (const Tensor& part : {modes, yes, no, missing, first, count, thresholds})
    QDQ_CHECK(part.numel() == nodes, kInvalidArgument, call.op().target, " got parts of ", nodes, " and ", part.numel(),
              " nodes");
  QDQ_CHECK(targets.numel() == weights.numel(), kInvalidArgument, call.op().target, " got ", targets.numel(),
            " targets for ", weights.numel(), " weights");
  const auto at = [&](const Tensor& of, int64_t i, int64_t limit, const char* what) {
    const int64_t value = of.data<int64_t>()[i];
    QDQ_CHECK(value >= 0 && value < limit, kInvalidArgument, call.op().target, " names the ", what, " ", value, " of ",
              limit);
    return value;
  };
  const std::string& aggregate = call.string(kTreeAggregate);
  const bool smallest = aggregate == "MIN", largest = aggregate == "MAX", mean = aggregate == "AVERAGE";
  QDQ_CHECK(smallest || largest || mean || aggregate == "SUM", kInvalidArgument, call.op().target,
            " joins trees by SUM, AVERAGE, MIN or MAX, found ", aggregate);
  const Shape sizes{x.size(0), num_targets};
  const Tensor out = Tensor::empty(sizes, DType::kF64), reached = Tensor::empty(sizes, DType::kBool);
  for (int64_t row = 0; row < x.size(0); ++row) {
    double* sums = out.data<double>() + row * num_targets;
    bool* written = reached.data<bool>() + row * num_targets;
    for (int64_t tree = 0; tree < roots.numel(); ++tree) {
      int64_t node = at(roots, tree, nodes, "node");
      // A path has no more nodes than there are; one that is longer goes in a circle.
      for (int64_t steps = 0; static_cast<TreeMode>(modes.data<int64_t>()[node]) != TreeMode::kLeaf; ++steps) {
        QDQ_CHECK(steps < nodes, kInvalidArgument, call.op().target, " has a tree that goes in a circle");
        const auto mode = static_cast<TreeMode>(modes.data<int64_t>()[node]);
        const double value = x.data<double>()[row * width + at(features, node, width, "feature")];
        const bool is_yes = goes_yes(mode, value, thresholds.data<double>()[node]) ||
                            (missing.data<int64_t>()[node] != 0 && value != value);
        node = at(is_yes ? yes : no, node, nodes, "node");
      }
      const int64_t begin = at(first, node, weights.numel() + 1, "weight");
      const int64_t length = at(count, node, weights.numel() - begin + 1, "weight");
      for (int64_t i = begin; i < begin + length; ++i) {
        const int64_t target = at(targets, i, num_targets, "target");
        const double weight = weights.data<double>()[i];
        double& sum = sums[target];
        const bool is_first = !written[target];
        if (smallest || largest) sum = is_first ? weight : smallest ? std::min(sum, weight) : std::max(sum, weight);
        else sum += weight;
        written[target] = true;
      }
    }
    for (int64_t i = 0; mean && i < num_targets; ++i)
      sums[i] /= static_cast<double>(std::max<int64_t>(1, roots.numel()));
  }
  return Value::List{out.to(call.tensor(kTreeX).dtype() == DType::kF64 ? DType::kF64 : DType::kF32), reached};
}

// The probabilities of C classes [N, C] from decisions between each pair of them [N, C(C-1)/2], whose probabilities are
// 1 / (1 + exp(a * score + b)), as libsvm couples them (multiclass_probability, of Wu, Lin and Weng's second method).
MetaValue infer_pairwise(const Call<TensorMeta>& call) {
  const TensorMeta& scores = call.tensor(0);
  const int64_t classes = call.integer(3);
  constexpr int64_t kMostClasses = 1 << 12;
  QDQ_CHECK(classes > 1 && classes <= kMostClasses, kInvalidArgument, call.op().target, " has ", classes, " classes");
  const SymInt pairs(classes * (classes - 1) / 2);
  bool fits = scores.sizes.size() == 2 && may_be_equal(scores.sizes[1], pairs);
  for (const size_t i : {size_t{1}, size_t{2}})
    fits = fits && call.tensor(i).sizes.size() == 1 && may_be_equal(call.tensor(i).sizes[0], pairs);
  QDQ_CHECK(fits, kInvalidArgument, call.op().target, " needs a score for each of ", pairs.to_string(),
            " pairs, found shape ", to_string(scores.sizes));
  return tensor_meta(DType::kF32, {scores.sizes[0], SymInt(classes)});
}

void couple(const std::vector<double>& r, size_t k, std::vector<double>& p) {
  constexpr int kMostRounds = 100;
  const double enough = 0.005 / static_cast<double>(k);
  std::vector<double> q(k * k, 0), qp(k);
  for (size_t t = 0; t < k; ++t)
    for (size_t j = 0; j < k; ++j) {
      if (j == t) continue;
      q[t * k + t] += r[j * k + t] * r[j * k + t];
      q[t * k + j] = -r[j * k + t] * r[t * k + j];
    }
  p.assign(k, 1 / static_cast<double>(k));
  for (int round = 0; round < kMostRounds; ++round) {
    double pqp = 0, error = 0;
    for (size_t t = 0; t < k; ++t) {
      qp[t] = 0;
      for (size_t j = 0; j < k; ++j) qp[t] += q[t * k + j] * p[j];
      pqp += p[t] * qp[t];
    }
    for (size_t t = 0; t < k; ++t) error = std::max(error, std::fabs(qp[t] - pqp));
    if (error < enough) return;
    for (size_t t = 0; t < k; ++t) {
      const double own = q[t * k + t], step = (pqp - qp[t]) / own;
      p[t] += step;
      pqp = (pqp + step * (step * own + 2 * qp[t])) / (1 + step) / (1 + step);
      for (size_t j = 0; j < k; ++j) {
        qp[j] = (qp[j] + step * q[t * k + j]) / (1 + step);
        p[j] /= 1 + step;
      }
    }
  }
}

Value eval_pairwise(const Call<Tensor>& call) {
  const Tensor out = empty_result(call);
  const Tensor scores = call.tensor(0).to(DType::kF64).contiguous(), a = call.tensor(1).to(DType::kF64).contiguous(),
               b = call.tensor(2).to(DType::kF64).contiguous();
  const auto k = static_cast<size_t>(call.integer(3));
  const int64_t pairs = a.numel();
  std::vector<double> r(k * k, 0), p;
  for (int64_t n = 0; n < out.size(0); ++n) {
    int64_t pair = 0;
    for (size_t i = 0; i < k; ++i)
      for (size_t j = i + 1; j < k; ++j, ++pair) {
        constexpr double kLeast = 1e-7;
        const double line = scores.data<double>()[n * pairs + pair] * a.data<double>()[pair] + b.data<double>()[pair];
        const double one = std::clamp(1 / (1 + math::exp(line)), kLeast, 1 - kLeast);
        r[i * k + j] = one;
        r[j * k + i] = 1 - one;
      }
    couple(r, k, p);
    for (size_t i = 0; i < k; ++i)
      out.data<float>()[n * out.size(1) + static_cast<int64_t>(i)] = static_cast<float>(p[i]);
  }
  return out;
}

}  // namespace

void add_onnx_ops(std::vector<OpDef>& ops) {
  ops.push_back(
      define("onnx::non_max_suppression(Tensor boxes, Tensor scores, SymInt max_output_boxes_per_class, Scalar "
             "iou_threshold=0, Scalar? score_threshold=None, bool center_point_box=False) -> Tensor",
             infer_non_max_suppression, eval_non_max_suppression));
  ops.push_back(define("onnx::pairwise_probabilities(Tensor scores, Tensor a, Tensor b, int classes) -> Tensor",
                       infer_pairwise, eval_pairwise));
  ops.push_back(
      define("onnx::tree_ensemble(Tensor x, Tensor roots, Tensor features, Tensor modes, Tensor thresholds, "
             "Tensor yes, Tensor no, Tensor missing, Tensor first, Tensor count, Tensor targets, Tensor weights, "
             "int num_targets, str aggregate) -> (Tensor scores, Tensor reached)",
             infer_tree_ensemble, eval_tree_ensemble));
}

}  // namespace qdq
