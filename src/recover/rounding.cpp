// Which integers weights become.
#include <algorithm>
#include <cmath>

#include "base/parallel.h"
#include "base/undo.h"
#include "kernel/gemm.h"
#include "op/facts.h"
#include "quant/layer_places.h"
#include "quant/layers.h"
#include "recover/moments.h"
#include "recover/recovery.h"
#include "recover/simulation.h"

namespace qdq {

namespace {

// A layer whose weight is rounded.
struct RoundedLayer : LayerProduct {
  QuantizedLayer layer;
  OwnConstant weight;
  bool has_few = false;  // integers
  std::optional<OwnBias> bias{};
};

std::vector<RoundedLayer> rounded_layers(const Prepared& prepared) {
  const Prepared::Impl& impl = Prepared::Impl::of(prepared);
  std::vector<RoundedLayer> out;
  for (const QuantizedLayer& layer : quantized_layers(prepared)) {
    const Node& node = *layer.node;
    const auto constant = own_constant(impl, weight_of(node));
    if (!constant || !constant->observer || input_of(node) == nullptr) continue;
    const Tensor& weight = impl.program.find_attribute(constant->name)->tensor;
    const Observer& observer = *impl.groups[*constant->observer].observer;
    const bool by_row = !is_per_channel(observer.args().qscheme) || observer.args().ch_axis == 0;
    if (!quantizes_statically(observer) || observer.args().group_size != 0) continue;
    if (weight.numel() == 0 || weight.dim() < 2 || !by_row) continue;
    if (auto product = product_of(node, weight))
      out.push_back({std::move(*product), layer, *constant, has_few_integers(observer)});
  }
  return out;
}

// Sums over places, by group: of x' x'^T, of x' x^T, and of x' and x.
struct Moments {
  int64_t count = 0;
  std::vector<float> squares, products;  // [groups][depth][depth]
  std::vector<double> read, meant;       // [groups][depth]

  explicit Moments(const RoundedLayer& layer)
      : squares(static_cast<size_t>(layer.groups * layer.depth * layer.depth)), products(squares.size()),
        read(static_cast<size_t>(layer.groups * layer.depth)), meant(read.size()) {}

  void add(const RoundedLayer& layer, const Tensor& found, const Tensor& wanted, int64_t places_wanted) {
    const Tensor x = as_images(found, layer), exact = as_images(wanted, layer);
    if (x.numel() == 0) return;
    const Places places(layer, x, places_wanted);
    const std::vector<float> a = places.seen_in(x), b = places.seen_in(exact);
    const int64_t width = layer.groups * layer.depth, n = places.count();
    count += n;
    parallel_for(layer.groups, 1, [&](int64_t begin, int64_t end) {
      std::vector<float> product(static_cast<size_t>(layer.depth * layer.depth));
      const auto add_product = [&](const float* right, int64_t group, std::vector<float>& to) {
        const int64_t at = group * layer.depth;
        kernel::gemm_f32(layer.depth, layer.depth, n, {a.data() + at, 1, width}, {right + at, width, 1}, nullptr,
                         kernel::BiasAxis::kNone, product.data(), layer.depth);
        float* const sums = to.data() + at * layer.depth;
        for (size_t i = 0; i < product.size(); ++i) sums[i] += product[i];
      };
      for (int64_t group = begin; group < end; ++group) {
        add_product(a.data(), group, squares);
        add_product(b.data(), group, products);
      }
    });
    for (int64_t i = 0; i < n; ++i)
      for (int64_t k = 0; k < width; ++k) {
        read[static_cast<size_t>(k)] += static_cast<double>(a[static_cast<size_t>(i * width + k)]);
        meant[static_cast<size_t>(k)] += static_cast<double>(b[static_cast<size_t>(i * width + k)]);
      }
  }

  // Around the means, which a bias takes back.
  void center(const RoundedLayer& layer) {
    const int64_t depth = layer.depth;
    for (int64_t g = 0; g < layer.groups; ++g)
      for (int64_t i = 0; i < depth; ++i)
        for (int64_t j = 0; j < depth; ++j) {
          const auto at = static_cast<size_t>((g * depth + i) * depth + j);
          const double mean = read[static_cast<size_t>(g * depth + i)] / static_cast<double>(count);
          squares[at] -= static_cast<float>(mean * read[static_cast<size_t>(g * depth + j)]);
          products[at] -= static_cast<float>(mean * meant[static_cast<size_t>(g * depth + j)]);
        }
  }

  // Adds what holds the rounded weights near the float ones, lest they follow what a few samples have by chance: the
  // mean square of what is read.
  void hold(const RoundedLayer& layer) {
    const int64_t depth = layer.depth;
    for (int64_t g = 0; g < layer.groups; ++g) {
      double trace = 0;
      for (int64_t i = 0; i < depth; ++i)
        trace += static_cast<double>(squares[static_cast<size_t>((g * depth + i) * depth + i)]);
      const auto more = static_cast<float>(trace > 0 ? trace / static_cast<double>(depth) : 1);
      for (int64_t i = 0; i < depth; ++i) {
        squares[static_cast<size_t>((g * depth + i) * depth + i)] += more;
        products[static_cast<size_t>((g * depth + i) * depth + i)] += more;
      }
    }
  }
};

// The integers that a weight may have: scale * n for low <= n <= high.
struct Grid {
  float scale = 1, low = 0, high = 0;
  float nearest(float value) const { return std::clamp(std::nearbyint(value / scale), low, high) * scale; }
};

// r -= by * row, where the square matrix is symmetric.
void subtract(float* r, const float* row, float by, int64_t count) {
  for (int64_t i = 0; i < count; ++i) r[i] -= by * row[i];
}

// q begins as the float weights with r = b - H q, and becomes numbers of the grid with a small q^T H q - 2 b^T q.
void round_row(const float* squares, int64_t depth, const Grid& grid, float* q, float* r) {
  constexpr int kMostPasses = 24;
  for (int pass = 0; pass < kMostPasses; ++pass) {
    bool changed = false;
    for (int64_t i = 0; i < depth; ++i) {
      const float* const row = squares + i * depth;
      const float next = grid.nearest(q[i] + r[i] / row[i]), by = next - q[i];
      if (by == 0) continue;
      q[i] = next;
      subtract(r, row, by, depth);
      changed = true;
    }
    if (!changed) break;
  }
}

// out[rows, depth] = a[rows, depth] * m[depth, depth], or with m transposed
std::vector<float> times(const float* a, int64_t rows, int64_t depth, const float* m, bool transposed) {
  std::vector<float> out(static_cast<size_t>(rows * depth));
  const kernel::MatrixView right = transposed ? kernel::MatrixView{m, 1, depth} : kernel::MatrixView{m, depth, 1};
  kernel::gemm_f32(rows, depth, depth, {a, depth, 1}, right, nullptr, kernel::BiasAxis::kNone, out.data(), depth);
  return out;
}

// The error e^T H e of each row, e = nearest(w) - w.
std::vector<double> errors_of_nearest(const Tensor& weight, const RoundedLayer& layer, const Moments& moments,
                                      const std::vector<Grid>& grids) {
  std::vector<double> out(grids.size());
  const int64_t depth = layer.depth;
  for (int64_t group = 0; group < layer.groups; ++group) {
    const int64_t first = group * layer.rows;
    std::vector<float> error(weight.data<float>() + first * depth, weight.data<float>() + (first + layer.rows) * depth);
    for (size_t i = 0; i < error.size(); ++i) {
      const Grid& grid = grids[static_cast<size_t>(first) + i / static_cast<size_t>(depth)];
      error[i] = grid.nearest(error[i]) - error[i];
    }
    const std::vector<float> product =
        times(error.data(), layer.rows, depth, moments.squares.data() + group * depth * depth, false);
    for (size_t i = 0; i < error.size(); ++i)
      out[static_cast<size_t>(first) + i / static_cast<size_t>(depth)] +=
          static_cast<double>(error[i]) * static_cast<double>(product[i]);
  }
  return out;
}

// The grid of each row of the weight, as its observer has it.
std::vector<Grid> grids_of(const Observer& observer, int64_t rows) {
  const QParams qparams = observer.calculate_qparams();
  std::vector<Grid> out;
  for (int64_t i = 0; i < rows; ++i) {
    const auto at = qparams.scale.size() == 1 ? size_t{0} : static_cast<size_t>(i);
    out.push_back({qparams.scale[at], static_cast<float>(observer.quant_min() - qparams.zero_point[at]),
                   static_cast<float>(observer.quant_max() - qparams.zero_point[at])});
  }
  return out;
}

// Gives the integers the part of the range, of each channel or of the whole weight, that serves the layer best.
void choose_scales(Prepared& prepared, const RoundedLayer& layer, const Tensor& weight, const Moments& moments) {
  const Prepared::Impl& impl = Prepared::Impl::of(prepared);
  const size_t index = *layer.weight.observer;
  const auto observer = [&]() -> const Observer& { return *impl.groups[index].observer; };
  constexpr float kParts[] = {1, 0.9f, 0.8f, 0.7f, 0.6f, 0.5f, 0.4f};
  const Tensor min = observer().min_val().to(DType::kF32).clone(), max = observer().max_val().to(DType::kF32).clone();
  const auto count = static_cast<size_t>(min.numel());
  const auto give = [&](const std::vector<float>& parts) {
    const Tensor low = min.clone(), high = max.clone();
    for (size_t i = 0; i < count; ++i) {
      low.data<float>()[i] *= parts[i];
      high.data<float>()[i] *= parts[i];
    }
    prepared.set_range(index, low, high);
  };
  std::vector<float> best(count, 1);
  std::vector<double> least(count, std::numeric_limits<double>::infinity());
  for (const float part : kParts) {
    give(std::vector<float>(count, part));
    const std::vector<double> rows =
        errors_of_nearest(weight, layer, moments, grids_of(observer(), layer.groups * layer.rows));
    std::vector<double> errors(count);
    for (size_t i = 0; i < rows.size(); ++i) errors[count == 1 ? 0 : i] += rows[i];
    for (size_t i = 0; i < count; ++i)
      if (errors[i] < least[i]) {
        least[i] = errors[i];
        best[i] = part;
      }
  }
  give(best);
}

// The weight as numbers of the observer's grid.
Tensor rounded_for(const RoundedLayer& layer, const Tensor& weight, const Moments& moments, const Observer& observer) {
  const Tensor out = weight.clone();
  const int64_t rows = layer.rows, depth = layer.depth;
  const std::vector<Grid> grids = grids_of(observer, layer.groups * rows);
  for (int64_t group = 0; group < layer.groups; ++group) {
    const float* const squares = moments.squares.data() + group * depth * depth;
    float* const q = out.data<float>() + group * rows * depth;
    std::vector<float> r = times(q, rows, depth, moments.products.data() + group * depth * depth, true);
    const std::vector<float> now = times(q, rows, depth, squares, false);
    for (size_t i = 0; i < r.size(); ++i) r[i] -= now[i];
    parallel_for(rows, 1, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row)
        round_row(squares, depth, grids[static_cast<size_t>(group * rows + row)], q + row * depth,
                  r.data() + row * depth);
    });
  }
  return out;
}

// The bias that gives the layer's sums the means that the float layer has.
Tensor corrected_bias(const Tensor& bias, const RoundedLayer& layer, const Moments& moments, const Tensor& weight,
                      const Tensor& rounded) {
  const Tensor out = bias.clone();
  for (int64_t row = 0; row < layer.groups * layer.rows; ++row) {
    double shift = 0;
    for (int64_t k = 0; k < layer.depth; ++k) {
      const auto at = static_cast<size_t>(row / layer.rows * layer.depth + k);
      shift += static_cast<double>(weight.data<float>()[row * layer.depth + k]) * moments.meant[at] -
               static_cast<double>(rounded.data<float>()[row * layer.depth + k]) * moments.read[at];
    }
    out.data<float>()[row] += static_cast<float>(shift / static_cast<double>(moments.count));
  }
  return out;
}

// Gives the layer's weight the integers, and their scales, that serve it best, and its bias what that moves.
void round_layer(Prepared& prepared, const RoundedLayer& layer, Moments& moments) {
  Prepared::Impl& impl = Prepared::Impl::of(prepared);
  if (layer.bias) moments.center(layer);
  moments.hold(layer);
  Attribute& attribute = *impl.program.find_attribute(layer.weight.name);
  const Tensor weight = attribute.tensor.contiguous();
  choose_scales(prepared, layer, weight, moments);
  const Tensor rounded = rounded_for(layer, weight, moments, *impl.groups[*layer.weight.observer].observer);
  attribute.tensor = rounded;
  if (!layer.bias) return;
  Tensor& bias = impl.program.find_attribute(layer.bias->name)->tensor;
  bias = corrected_bias(bias.contiguous(), layer, moments, weight, rounded);
}

// Two runs of the same samples, side by side.
struct Pair {
  Interpreter::Walk floats, rounded;
};

void advance_to(Interpreter::Walk& walk, const Node& node) {
  while (walk.next() != &node) walk.advance();
}

// Of the layer in all runs, which stand before it.
int64_t places_of(const RoundedLayer& layer, const std::vector<Pair>& pairs, const Node& node) {
  int64_t out = 0;
  for (const Pair& pair : pairs) {
    const Tensor x = as_images(*pair.rounded.value(*input_of(node)).get_if<Tensor>(), layer);
    if (x.numel() > 0) out += Places(layer, x, std::numeric_limits<int64_t>::max()).count();
  }
  return out;
}

// What the layer gets in both programs, gathered from all pairs of runs; nothing where these tell too little.
Moments moments_of(Recovery& recovery, const RoundedLayer& layer, std::vector<Pair>& pairs, const Node& exact,
                   const Node& node) {
  constexpr int64_t kFewestPlaces = 4096, kPlacesADepth = 4;
  // Many integers are near enough to the float weights that fitting a few samples harms more than it gains.
  constexpr int64_t kOfManyIntegers = 100;
  for (Pair& pair : pairs) {
    recovery.tell_again();
    advance_to(pair.floats, exact);
    advance_to(pair.rounded, node);
  }
  Moments moments(layer);
  if (!layer.has_few && places_of(layer, pairs, node) < kOfManyIntegers * layer.depth) return moments;
  const int64_t places = std::max(kFewestPlaces, (layer.has_few ? kPlacesADepth : kOfManyIntegers) * layer.depth);
  const bool same_rows = has_known_rows(recovery.prepared().program(), *input_of(*layer.layer.node));
  for (Pair& pair : pairs) {
    recovery.tell_again();
    const Tensor &found = *pair.rounded.value(*input_of(node)).get_if<Tensor>(),
                 &wanted = *pair.floats.value(*input_of(exact)).get_if<Tensor>();
    moments.add(layer, found, same_rows ? wanted : found, places / static_cast<int64_t>(pairs.size()) + 1);
  }
  return moments;
}

// Those of LayerMoments, where the float layer's x is x', too.
Moments moments_from(const RoundedLayer& layer, const LayerMoments& seen) {
  Moments out(layer);
  out.count = seen.places;
  size_t at = 0;
  for (int64_t group = 0; group < layer.groups; ++group)
    for (int64_t i = 0; i < layer.depth; ++i)
      for (int64_t j = 0; j <= i; ++j) {
        const auto value = static_cast<float>(seen.squares[at++]);
        for (const int64_t place : {i * layer.depth + j, j * layer.depth + i})
          out.squares[static_cast<size_t>(group * layer.depth * layer.depth + place)] = value;
      }
  out.products = out.squares;
  out.read = out.meant = seen.sums;
  return out;
}

}  // namespace

int64_t round_weights_by(Prepared& prepared, const MomentsOfLayers& moments) {
  Prepared::Impl& impl = Prepared::Impl::of(prepared);
  int64_t rounded = 0;
  for (RoundedLayer& layer : rounded_layers(prepared)) {
    const auto seen = moments.find(layer.layer.node->name());
    if (seen == moments.end() || !layer.has_few) continue;
    layer.bias = own_bias(impl, *layer.layer.node, layer.groups * layer.rows);
    Moments sums = moments_from(layer, seen->second);
    impl.float_constants.try_emplace(layer.weight.name, impl.program.find_attribute(layer.weight.name)->tensor);
    round_layer(prepared, layer, sums);
    if (layer.bias) keep(impl, *layer.bias);
    ++rounded;
  }
  return rounded;
}

int64_t round_weights(Recovery& recovery) {
  Prepared& prepared = recovery.prepared();
  Prepared::Impl& impl = Prepared::Impl::of(prepared);
  std::vector<RoundedLayer> layers = rounded_layers(prepared);
  if (!answers_at_places(impl.program)) std::erase_if(layers, [](const auto& layer) { return !layer.has_few; });
  if (layers.empty()) return 0;
  Rehearsal rehearsal(recovery, round_weights, Rehearsal::When::kFewSamples);
  const double before = recovery.decibels();
  const FloatProgram& floats = recovery.floats();
  std::vector<std::shared_ptr<Observer>> observers;
  for (const ObserverGroup& group : impl.groups) observers.push_back(group.observer);
  std::unordered_set<const Observer*> of_constants = impl.of_constants;
  std::vector<std::pair<std::string, Tensor>> weights;
  Undo undo_all([&] {
    for (const auto& [name, value] : weights) impl.program.find_attribute(name)->tensor = value;
    for (const RoundedLayer& layer : layers)
      if (layer.bias) undo(impl, *layer.bias);
    for (size_t i = 0; i < impl.groups.size(); ++i) impl.groups[i].observer = observers[i];
    impl.of_constants.swap(of_constants);
    impl.interpreter.reset();
    recovery.forget_simulation();
  });
  for (RoundedLayer& layer : layers) layer.bias = own_bias(impl, *layer.layer.node, layer.groups * layer.rows);

  constexpr uint64_t kBytes = uint64_t{1} << 29;
  const std::vector<const Batch*> some = recovery.some_batches(recovery.samples_within(kBytes));
  Simulation simulation(prepared);
  Interpreter interpreter = floats.interpreter();
  std::vector<Pair> pairs;
  for (const Batch* batch : some) pairs.push_back({Interpreter::Walk(interpreter, *batch), simulation.walk(*batch)});
  double done = 0;
  for (RoundedLayer& layer : layers) {
    recovery.tell("rounding", done++ / static_cast<double>(layers.size()));
    const Node &exact = *floats.node(*layer.layer.node), &node = *simulation.node(*layer.layer.node);
    Moments moments = moments_of(recovery, layer, pairs, exact, node);
    if (moments.count == 0) continue;
    weights.emplace_back(layer.weight.name, impl.program.find_attribute(layer.weight.name)->tensor);
    round_layer(prepared, layer, moments);
    for (Pair& pair : pairs)
      pair.rounded.set_value(*weight_of(node), impl.program.find_attribute(layer.weight.name)->tensor);
    for (Pair& pair : pairs)
      if (layer.bias) pair.rounded.set_value(*bias_of(node), impl.program.find_attribute(layer.bias->name)->tensor);
  }
  pairs.clear();
  impl.interpreter.reset();
  recovery.forget_simulation();
  if (!(recovery.decibels() > before) || !rehearsal.succeeds()) return 0;
  undo_all.keep();
  for (const auto& [name, value] : weights) impl.float_constants.try_emplace(name, value);
  for (const RoundedLayer& layer : layers)
    if (layer.bias) keep(impl, *layer.bias);
  return static_cast<int64_t>(weights.size());
}

}  // namespace qdq
