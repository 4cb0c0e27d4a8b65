// Weights in groups, rounded by what layers read.
#include "recover/gptq.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/parallel.h"
#include "kernel/gemm.h"
#include "op/facts.h"
#include "quant/observers/qparams.h"
#include "quant/layers.h"
#include "recover/moments.h"
#include "recover/simulation.h"
#include "recover/statistics.h"

namespace qdq {

namespace {

struct GroupedLayer {
  const Node* node;  // in the prepared program
  OwnConstant weight;
  int64_t rows = 0, depth = 0, group = 0;
};

std::vector<GroupedLayer> grouped_layers(Prepared& prepared) {
  Prepared::Impl& impl = Prepared::Impl::of(prepared);
  std::vector<GroupedLayer> out;
  for (const QuantizedLayer& layer : quantized_layers(prepared)) {
    const auto constant = own_constant(impl, weight_of(*layer.node));
    if (!is_linear(*layer.node) || !constant || !constant->observer || input_of(*layer.node) == nullptr) continue;
    const int64_t group = impl.groups[*constant->observer].observer->args().group_size;
    const Tensor& weight = impl.program.find_attribute(constant->name)->tensor;
    if (group == 0 || weight.dim() != 2 || weight.numel() == 0 || weight.dtype() != DType::kF32) continue;
    out.push_back({layer.node, *constant, weight.size(0), weight.size(1), group});
  }
  return out;
}

// Sums over what a layer reads, [depth, depth] each: of x' x'^T and of x' x^T.
struct InputMoments {
  std::vector<double> squares, products;
  int64_t count = 0;

  explicit InputMoments(int64_t depth) : squares(static_cast<size_t>(depth * depth)), products(squares.size()) {}

  void add(const Tensor& found, const Tensor& wanted, int64_t depth, int64_t most) {
    const Tensor a = found.contiguous(), b = wanted.contiguous();
    const int64_t all = a.numel() / depth, step = std::max<int64_t>(1, (all + most - 1) / most),
                  n = (all + step - 1) / step;
    if (n == 0) return;
    count += n;
    std::vector<float> product(squares.size());
    const auto add_product = [&](const Tensor& right, std::vector<double>& to) {
      kernel::gemm_f32(depth, depth, n, {a.data<float>(), 1, depth * step}, {right.data<float>(), depth * step, 1},
                       nullptr, kernel::BiasAxis::kNone, product.data(), depth);
      for (size_t i = 0; i < product.size(); ++i) to[i] += static_cast<double>(product[i]);
    };
    add_product(a, squares);
    add_product(b, products);
  }

  // How much of the mean square the sums of so few rows ask for, where chance has made some directions small: the
  // shrinkage of a covariance towards a multiple of the identity (Chen et al. 2010, OAS).
  double part_of_chance(double trace, int64_t depth) const {
    constexpr double kLeast = 0.01, kMost = 1;
    const auto p = static_cast<double>(depth), n = static_cast<double>(count);
    double all = 0;
    for (const double value : squares) all += value * value;
    const double spread = (n + 1 - 2 / p) * (all - trace * trace / p);
    const double shrunk = spread > 0 ? std::min(1.0, ((1 - 2 / p) * all + trace * trace) / spread) : 1;
    return shrunk < 1 ? std::clamp(shrunk / (1 - shrunk), kLeast, kMost) : kMost;
  }

  // A part of the mean square of what is read, which holds weights near the float ones.
  void hold(int64_t depth) {
    double trace = 0;
    for (int64_t i = 0; i < depth; ++i) trace += squares[static_cast<size_t>(i * depth + i)];
    const double more = trace > 0 ? part_of_chance(trace, depth) * trace / static_cast<double>(depth) : 1;
    for (int64_t i = 0; i < depth; ++i) {
      squares[static_cast<size_t>(i * depth + i)] += more;
      products[static_cast<size_t>(i * depth + i)] += more;
    }
  }
};

// The upper triangular R with R R^T = m, in the upper half of what it returns; m is symmetric and positive definite.
std::vector<double> triangle_of(std::vector<double> m, int64_t depth) {
  std::vector<double> column(static_cast<size_t>(depth));
  for (int64_t k = depth; k-- > 0;) {
    const auto diagonal = static_cast<size_t>(k * depth + k);
    m[diagonal] = std::sqrt(std::max(m[diagonal], std::numeric_limits<double>::min()));
    for (int64_t i = 0; i < k; ++i) {
      double& value = m[static_cast<size_t>(i * depth + k)];
      value /= m[diagonal];
      column[static_cast<size_t>(i)] = value;
    }
    constexpr int64_t kRowsAtOnce = 64;
    parallel_for(k, kRowsAtOnce, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const double by = column[static_cast<size_t>(i)];
        double* const row = m.data() + i * depth;
        for (int64_t j = i; j < k; ++j) row[j] -= by * column[static_cast<size_t>(j)];
      }
    });
  }
  return m;
}

// x with R R^T x = b, in the place of b.
void solve(const std::vector<double>& triangle, int64_t depth, double* b) {
  for (int64_t i = depth; i-- > 0;) {
    const double* const row = triangle.data() + i * depth;
    double sum = b[i];
    for (int64_t j = i + 1; j < depth; ++j) sum -= row[j] * b[j];
    b[i] = sum / row[i];
  }
  for (int64_t i = 0; i < depth; ++i) {
    const double* const row = triangle.data() + i * depth;
    b[i] /= row[i];
    for (int64_t j = i + 1; j < depth; ++j) b[j] -= row[j] * b[i];
  }
}

// The numbers of a group: scale * n for low <= n <= high.
struct GroupGrid {
  double scale = 1, low = 0, high = 0;
  double nearest(double value) const { return std::clamp(std::nearbyint(value / scale), low, high); }
};

// A row's weights while they are rounded.
class RoundedRow {
 public:
  RoundedRow(const InputMoments& moments, const std::vector<double>& triangle, const GroupedLayer& layer,
             const Observer& observer, const float* weight)
      : moments_(moments), triangle_(triangle), depth_(layer.depth), group_(layer.group), args_(observer.args()),
        range_{observer.quant_min(), observer.quant_max()}, wanted_(static_cast<size_t>(depth_)) {
    for (int64_t i = 0; i < depth_; ++i) {
      const double* const row = moments.products.data() + i * depth_;
      double sum = 0;
      for (int64_t k = 0; k < depth_; ++k) sum += row[k] * static_cast<double>(weight[k]);
      wanted_[static_cast<size_t>(i)] = sum;
    }
    best_ = wanted_;
    solve(triangle, depth_, best_.data());
  }

  void round() {
    for (int64_t first = 0; first < depth_; first += group_) grids_.push_back(grid_for(first));
    in_order();
    constexpr int kRounds = 3;
    for (int i = 0; i < kRounds; ++i) {
      one_by_one();
      choose_scales();
    }
    one_by_one();
  }

  // The range of each group, whose scale its observer takes, and the numbers.
  void write(float* min, float* max, float* weight) const {
    for (size_t g = 0; g < grids_.size(); ++g) {
      min[g] = static_cast<float>(range_of(grids_[g]).first);
      max[g] = static_cast<float>(range_of(grids_[g]).second);
    }
    for (int64_t i = 0; i < depth_; ++i)
      weight[i] = static_cast<float>(integers_[static_cast<size_t>(i)]) * static_cast<float>(grid(i).scale);
  }

 private:
  const GroupGrid& grid(int64_t i) const { return grids_[static_cast<size_t>(i / group_)]; }

  std::pair<double, double> range_of(const GroupGrid& grid) const {
    if (!is_symmetric(args_.qscheme)) return {grid.low * grid.scale, grid.high * grid.scale};
    const double half = grid.scale * static_cast<double>(range_.max - range_.min) / 2;
    return {-half, half};
  }

  // The grid that the observer will have for a range.
  GroupGrid grid_of_range(double low, double high) const {
    const auto min = static_cast<float>(low), max = static_cast<float>(high);
    ObserverArgs args = args_;
    args.eps = kLeastScale;
    const QParams qparams = qparams_of_range({&min, 1}, {&max, 1}, args, range_);
    const auto zero = static_cast<double>(qparams.zero_point[0]);
    return {static_cast<double>(qparams.scale[0]), static_cast<double>(range_.min) - zero,
            static_cast<double>(range_.max) - zero};
  }

  // The part of a group's range that serves its weights best, each by the mean square of what it multiplies.
  GroupGrid grid_for(int64_t first) const {
    const auto begin = best_.begin() + first, end = begin + group_;
    const auto [min, max] = std::minmax_element(begin, end);
    const double low = std::min(*min, 0.0), high = std::max(*max, 0.0);
    constexpr int kUnits = 40, kLargest = 43, kSmallest = 16;
    GroupGrid out = grid_of_range(low, high);
    double least = std::numeric_limits<double>::infinity();
    for (int part = kLargest; part >= kSmallest; --part) {
      const double by = static_cast<double>(part) / kUnits;
      const GroupGrid grid = grid_of_range(low * by, high * by);
      double sum = 0;
      for (int64_t i = first; i < first + group_; ++i) {
        const double value = best_[static_cast<size_t>(i)], error = grid.nearest(value) * grid.scale - value;
        sum += moments_.squares[static_cast<size_t>(i * depth_ + i)] * error * error;
      }
      if (!(sum < least)) continue;
      least = sum;
      out = grid;
    }
    return out;
  }

  // Each weight to the nearest of what it should be beside those before it.
  void in_order() {
    std::vector<double> owed(static_cast<size_t>(depth_));
    integers_.resize(static_cast<size_t>(depth_));
    for (int64_t i = 0; i < depth_; ++i) {
      const auto at = static_cast<size_t>(i);
      const double* const row = triangle_.data() + i * depth_;
      integers_[at] = grid(i).nearest(best_[at] + owed[at] / row[i]);
      const double error = best_[at] - integers_[at] * grid(i).scale;
      for (int64_t j = i; j < depth_; ++j) owed[static_cast<size_t>(j)] += error * row[j];
    }
  }

  // wanted - H q
  std::vector<double> rest() const {
    std::vector<double> out = wanted_;
    for (int64_t i = 0; i < depth_; ++i) {
      const double value = integers_[static_cast<size_t>(i)] * grid(i).scale;
      if (value != 0) subtract(out, i, value);
    }
    return out;
  }
  void subtract(std::vector<double>& from, int64_t column, double by) const {
    const double* const row = moments_.squares.data() + column * depth_;
    for (int64_t j = 0; j < depth_; ++j) from[static_cast<size_t>(j)] -= by * row[j];
  }

  // Each weight in turn takes the integer that is best beside the others.
  void one_by_one() {
    constexpr int kMostPasses = 12;
    std::vector<double> left = rest();
    for (int pass = 0; pass < kMostPasses; ++pass) {
      bool changed = false;
      for (int64_t i = 0; i < depth_; ++i) {
        const auto at = static_cast<size_t>(i);
        const double square = moments_.squares[static_cast<size_t>(i * depth_ + i)], scale = grid(i).scale;
        const double next = grid(i).nearest(integers_[at] * scale + left[at] / square);
        if (next == integers_[at]) continue;
        subtract(left, i, (next - integers_[at]) * scale);
        integers_[at] = next;
        changed = true;
      }
      if (!changed) break;
    }
  }

  // The scale of each group that is best for its integers beside the other groups.
  void choose_scales() {
    std::vector<double> left = rest();
    for (size_t g = 0; g < grids_.size(); ++g) {
      const int64_t first = static_cast<int64_t>(g) * group_;
      double along = 0, square = 0;
      for (int64_t i = first; i < first + group_; ++i) {
        const double n = integers_[static_cast<size_t>(i)];
        along += n * left[static_cast<size_t>(i)];
        const double* const row = moments_.squares.data() + i * depth_;
        for (int64_t j = first; j < first + group_; ++j) square += n * row[j] * integers_[static_cast<size_t>(j)];
      }
      if (!(square > 0)) continue;
      GroupGrid moved = grids_[g];
      moved.scale += along / square;
      if (!(moved.scale > kLeastScale)) continue;
      const auto [low, high] = range_of(moved);
      moved = grid_of_range(low, high);
      if (moved.low != grids_[g].low) continue;  // rounding moved the zero point
      for (int64_t i = first; i < first + group_; ++i)
        subtract(left, i, integers_[static_cast<size_t>(i)] * (moved.scale - grids_[g].scale));
      grids_[g] = moved;
    }
  }

  static constexpr double kLeastScale = 0x1p-40;  // that of Prepared::set_range

  const InputMoments& moments_;
  const std::vector<double>& triangle_;
  int64_t depth_, group_;
  const ObserverArgs& args_;
  IntegerRange range_;
  std::vector<double> wanted_, best_;  // H w' and w', the weights without rounding
  std::vector<GroupGrid> grids_;
  std::vector<double> integers_;
};

// The runs of a batch in floats and with the weights that are rounded so far.
struct GroupedRun {
  Interpreter::Walk floats, rounded;
};

void advance_to_layer(Interpreter::Walk& walk, const Node& node) {
  while (walk.next() != &node) walk.advance();
}

// Rounds a layer's weight: its range by groups, and the numbers.
struct RoundedWeight {
  Tensor min, max, weight;
};
RoundedWeight round_grouped(const GroupedLayer& layer, const Tensor& weight, const Observer& observer,
                            InputMoments& moments) {
  moments.hold(layer.depth);
  const std::vector<double> triangle = triangle_of(moments.squares, layer.depth);
  const int64_t groups = layer.depth / layer.group;
  RoundedWeight out{Tensor::empty({layer.rows * groups}, DType::kF32),
                    Tensor::empty({layer.rows * groups}, DType::kF32), weight.clone()};
  parallel_for(layer.rows, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      RoundedRow row(moments, triangle, layer, observer, weight.data<float>() + i * layer.depth);
      row.round();
      row.write(out.min.data<float>() + i * groups, out.max.data<float>() + i * groups,
                out.weight.data<float>() + i * layer.depth);
    }
  });
  return out;
}

using RoundedLayers = std::vector<std::pair<const GroupedLayer*, RoundedWeight>>;

int64_t keep_rounded(Prepared& prepared, const RoundedLayers& found) {
  Prepared::Impl& impl = Prepared::Impl::of(prepared);
  for (auto& [layer, rounded] : found) {
    Attribute& attribute = *impl.program.find_attribute(layer->weight.name);
    impl.float_constants.try_emplace(layer->weight.name, attribute.tensor);
    attribute.tensor = rounded.weight;
    prepared.set_range(*layer->weight.observer, rounded.min, rounded.max);
  }
  impl.interpreter.reset();
  return static_cast<int64_t>(found.size());
}

}  // namespace

int64_t gptq_by_statistics(Prepared& prepared) {
  Prepared::Impl& impl = Prepared::Impl::of(prepared);
  impl.check_idle();
  const std::vector<GroupedLayer> layers = grouped_layers(prepared);
  const MomentsOfLayers moments = moments_of_layers(prepared);
  RoundedLayers found;
  for (const GroupedLayer& layer : layers) {
    const auto seen = moments.find(layer.node->name());
    if (seen == moments.end()) continue;
    InputMoments sums(layer.depth);
    size_t at = 0;
    for (int64_t i = 0; i < layer.depth; ++i)
      for (int64_t j = 0; j <= i; ++j, ++at)
        sums.squares[static_cast<size_t>(i * layer.depth + j)] =
            sums.squares[static_cast<size_t>(j * layer.depth + i)] = seen->second.squares[at];
    sums.products = sums.squares;
    sums.count = seen->second.places;
    const Tensor weight = impl.program.find_attribute(layer.weight.name)->tensor.contiguous();
    found.emplace_back(&layer, round_grouped(layer, weight, *impl.groups[*layer.weight.observer].observer, sums));
  }
  return keep_rounded(prepared, found);
}

bool gptq_has_layers(Prepared& prepared) { return !grouped_layers(prepared).empty(); }

int64_t gptq(Prepared& prepared, const std::vector<Batch>& batches,
             const std::function<void(int64_t done, int64_t total)>& on_rounding) {
  QDQ_CHECK(!batches.empty(), kInvalidArgument, "there are no samples to round weights with");
  Prepared::Impl& impl = Prepared::Impl::of(prepared);
  impl.check_idle();
  const std::vector<GroupedLayer> layers = grouped_layers(prepared);
  if (layers.empty()) return 0;
  const FloatProgram floats(prepared);
  Interpreter interpreter = floats.interpreter();
  std::vector<GroupedRun> runs;
  for (const Batch& batch : batches)
    runs.push_back({Interpreter::Walk(interpreter, batch), Interpreter::Walk(interpreter, batch)});
  RoundedLayers found;
  for (size_t i = 0; i < layers.size(); ++i) {
    if (on_rounding) on_rounding(static_cast<int64_t>(i), static_cast<int64_t>(layers.size()));
    const GroupedLayer& layer = layers[i];
    const Node& node = *floats.node(*layer.node);
    constexpr int64_t kFewestRows = 4096, kRowsADepth = 8;
    const int64_t most = std::max(kFewestRows, kRowsADepth * layer.depth) / static_cast<int64_t>(runs.size()) + 1;
    const bool same_rows = has_known_rows(floats.program(), *input_of(node));
    InputMoments moments(layer.depth);
    for (GroupedRun& run : runs) {
      advance_to_layer(run.floats, node);
      advance_to_layer(run.rounded, node);
      const Tensor &found_rows = *run.rounded.value(*input_of(node)).get_if<Tensor>(),
                   &wanted_rows = *run.floats.value(*input_of(node)).get_if<Tensor>();
      moments.add(found_rows, same_rows ? wanted_rows : found_rows, layer.depth, most);
    }
    if (moments.count == 0) continue;
    const Tensor weight = impl.program.find_attribute(layer.weight.name)->tensor.contiguous();
    RoundedWeight rounded = round_grouped(layer, weight, *impl.groups[*layer.weight.observer].observer, moments);
    for (GroupedRun& run : runs) run.rounded.set_value(*weight_of(node), rounded.weight);
    found.emplace_back(&layer, std::move(rounded));
  }
  if (on_rounding) on_rounding(static_cast<int64_t>(layers.size()), static_cast<int64_t>(layers.size()));
  return keep_rounded(prepared, found);
}

}  // namespace qdq
