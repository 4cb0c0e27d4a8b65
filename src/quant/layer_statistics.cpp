#include "quant/layer_statistics.h"

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "kernel/gemm.h"
#include "op/facts.h"
#include "quant/layer_places.h"
#include "quant/layers.h"

namespace qdq {

namespace {

constexpr int64_t kMostPlaces = 4096;  // of a batch

// A layer that is observed.
struct ObservedLayer {
  const Node* node;
  LayerProduct product;
  int64_t channel_axis;  // of what it reads
};

std::optional<ObservedLayer> observed_layer(const Prepared::Impl& impl, const QuantizedLayer& layer) {
  const Node& node = *layer.node;
  const auto weight = own_constant(impl, weight_of(node));
  const Node* input = input_of(node);
  if (!weight || !weight->observer || input == nullptr) return std::nullopt;
  auto product = product_of(node, impl.program.find_attribute(weight->name)->tensor);
  const TensorMeta* read = input->meta.val.tensor();
  if (!product || read == nullptr || read->sizes.size() < 2) return std::nullopt;
  const size_t rank = read->sizes.size();
  if (!product->axes.empty() && rank != product->axes.size() + 2) return std::nullopt;
  const int64_t axis = product->axes.empty() ? static_cast<int64_t>(rank) - 1 : 1;
  return ObservedLayer{&node, std::move(*product), axis};
}

std::vector<ObservedLayer> observed_layers(const Prepared& prepared) {
  std::vector<ObservedLayer> out;
  for (const QuantizedLayer& layer : quantized_layers(prepared))
    if (auto observed = observed_layer(Prepared::Impl::of(prepared), layer)) out.push_back(std::move(*observed));
  return out;
}

LayerStatistics empty_statistics(const Prepared& prepared, const ObservedLayer& layer) {
  const Prepared::Impl& impl = Prepared::Impl::of(prepared);
  const Observer& observer = *impl.groups[*impl.group_of_module(*weight_of(*layer.node))].observer;
  LayerStatistics out;
  out.layer = layer.node->name();
  out.groups = layer.product.groups;
  out.depth = layer.product.depth;
  out.has_products = has_few_integers(observer) || observer.args().group_size != 0;
  out.sums = ExactSums(static_cast<size_t>(out.groups * out.depth));
  out.squares = ExactSums(out.num_squares());
  return out;
}

// The sums over the places of one batch: of what each column of [count, width] has, and of its squares.
void add_columns(LayerStatistics& to, const std::vector<float>& seen, size_t width, bool squares_too) {
  std::vector<double> sums(width), squares(width);
  for (size_t row = 0; row < seen.size(); row += width)
    for (size_t k = 0; k < width; ++k) {
      const auto value = static_cast<double>(seen[row + k]);
      sums[k] += value;
      squares[k] += value * value;
    }
  to.sums.add(sums);
  if (squares_too) to.squares.add(squares);
}

void add_products(LayerStatistics& to, const std::vector<float>& seen, int64_t count) {
  const int64_t depth = to.depth, width = to.groups * depth;
  std::vector<float> product(static_cast<size_t>(depth * depth));
  std::vector<double> triangles;
  triangles.reserve(to.num_squares());
  for (int64_t group = 0; group < to.groups; ++group) {
    const float* const x = seen.data() + group * depth;
    kernel::gemm_f32(depth, depth, count, {x, 1, width}, {x, width, 1}, nullptr, kernel::BiasAxis::kNone,
                     product.data(), depth);
    for (int64_t i = 0; i < depth; ++i)
      triangles.insert(triangles.end(), product.begin() + i * depth, product.begin() + i * depth + i + 1);
  }
  to.squares.add(triangles);
}

void widen_channels(LayerStatistics& to, const Tensor& x, int64_t axis) {
  ChannelRanges ranges = channel_ranges_of(x, axis);
  for (std::vector<float>* values : {&ranges.min, &ranges.max})
    for (float& value : *values) value += 0.0f;  // -0 becomes 0, which a comparison cannot tell apart
  if (to.least.empty()) {
    to.least = ranges.min;
    to.largest = ranges.max;
    return;
  }
  for (size_t c = 0; c < to.least.size(); ++c) {
    to.least[c] = std::min(to.least[c], ranges.min[c]);
    to.largest[c] = std::max(to.largest[c], ranges.max[c]);
  }
}

void observe(LayerStatistics& to, const ObservedLayer& layer, const Tensor& value) {
  const Tensor read = value.contiguous();
  if (read.numel() == 0 || read.dtype() != DType::kF32) return;
  const Tensor x = as_images(read, layer.product);
  const Places places(layer.product, x, kMostPlaces);
  if (places.count() == 0) return;
  const std::vector<float> seen = places.seen_in(x);
  to.places += places.count();
  add_columns(to, seen, static_cast<size_t>(to.groups * to.depth), !to.has_products);
  if (to.has_products) add_products(to, seen, places.count());
  widen_channels(to, read, layer.channel_axis);
}

// Sums of squares are no negative numbers.
void check_squares(const LayerStatistics& layer, const std::string& what) {
  const std::vector<double> squares = layer.squares.values();
  size_t at = 0;
  for (int64_t i = 0; i < layer.groups * layer.depth; ++i, ++at) {
    if (layer.has_products) at += static_cast<size_t>(i % layer.depth);
    QDQ_CHECK(squares[at] >= 0, kInvalidArgument, what, " has the sum of squares ", squares[at], " of the layer ",
              layer.layer);
  }
}

}  // namespace

size_t LayerStatistics::num_squares() const {
  return static_cast<size_t>(groups * (has_products ? depth * (depth + 1) / 2 : depth));
}

void observe_layers(Prepared& prepared) {
  Prepared::Impl& impl = Prepared::Impl::of(prepared);
  impl.check_idle();
  QDQ_CHECK(!impl.is_qat, kInvalidArgument,
            "the program was prepared for training, which recovers accuracy itself; wanted one from prepare_pt2e");
  auto layers = std::make_shared<std::vector<ObservedLayer>>(observed_layers(prepared));
  QDQ_CHECK(!layers->empty(), kInvalidArgument,
            "no convolution or linear layer has a weight of its own that becomes integers, so there are no statistics "
            "to recover accuracy with");
  impl.layers.clear();
  auto by_input = std::make_shared<std::unordered_map<std::string, std::vector<size_t>>>();
  for (const ObservedLayer& layer : *layers) {
    (*by_input)[input_of(*layer.node)->name()].push_back(impl.layers.size());
    impl.layers.push_back(empty_statistics(prepared, layer));
  }
  impl.node_hook = [&impl, layers, by_input](const Node& node, const Value& value) {
    const auto found = by_input->find(node.name());
    const Tensor* x = value.get_if<Tensor>();
    if (found == by_input->end() || x == nullptr) return;
    for (const size_t i : found->second) observe(impl.layers[i], (*layers)[i], *x);
  };
  impl.interpreter.reset();
}

const std::vector<LayerStatistics>& layer_statistics(const Prepared& prepared) {
  return Prepared::Impl::of(prepared).layers;
}

void load_layer_statistics(Prepared& prepared, std::vector<LayerStatistics> statistics, const std::string& what) {
  Prepared::Impl& impl = Prepared::Impl::of(prepared);
  const std::vector<ObservedLayer> layers = observed_layers(prepared);
  QDQ_CHECK(layers.size() == statistics.size(), kInvalidArgument, what, " holds what ", statistics.size(),
            " layers read, and this program has ", layers.size(), " such layers");
  for (size_t i = 0; i < layers.size(); ++i) {
    const LayerStatistics &found = statistics[i], wanted = empty_statistics(prepared, layers[i]);
    const OwnConstant weight = *own_constant(impl, weight_of(*layers[i].node));
    const auto channels = static_cast<size_t>(impl.program.find_attribute(weight.name)->tensor.size(1) * wanted.groups);
    QDQ_CHECK(found.layer == wanted.layer && found.groups == wanted.groups && found.depth == wanted.depth &&
                  found.has_products == wanted.has_products && found.sums.size() == wanted.sums.size() &&
                  found.squares.size() == wanted.squares.size() &&
                  (found.places == 0 || found.least.size() == channels),
              kInvalidArgument, what, " does not hold what the layer ", wanted.layer, " read, but what ", found.layer,
              " read in ", found.groups, " groups of ", found.depth);
  }
  for (const LayerStatistics& layer : statistics) check_squares(layer, what);
  impl.layers = std::move(statistics);
}

}  // namespace qdq
