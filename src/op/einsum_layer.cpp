// Einsums with a constant as linear layers.
#include <algorithm>
#include <utility>

#include "op/einsum.h"
#include "op/op.h"

namespace qdq {

std::optional<EinsumLayer> layer_of_einsum(const std::string& text, const TensorMeta& x, const TensorMeta& constant,
                                           size_t weight) {
  if (!is_floating(x.dtype)) return std::nullopt;
  std::vector<size_t> ranks = {x.sizes.size(), constant.sizes.size()};
  if (weight == 0) std::swap(ranks[0], ranks[1]);
  const EinsumEquation equation = parse_einsum(text, ranks);
  EinsumLayer layer{equation.inputs[1 - weight], equation.inputs[weight], {}, {}, equation.output};
  const auto times = [](const std::string& letters, char c) { return std::count(letters.begin(), letters.end(), c); };
  for (size_t a = 0; a < layer.tensor.size(); ++a) {
    const char c = layer.tensor[a];
    const size_t at = layer.constant.find(c);
    if (times(layer.tensor, c) != 1 || times(layer.result, c) != (at == std::string::npos ? 1 : 0)) return std::nullopt;
    if (at == std::string::npos) continue;
    if (x.sizes[a].constant() == std::nullopt || x.sizes[a] != constant.sizes[at]) return std::nullopt;
    layer.in += c;
  }
  for (char c : layer.constant)
    if (times(layer.constant, c) != 1 || (times(layer.tensor, c) == 0 && times(layer.result, c) != 1))
      return std::nullopt;
  for (char c : layer.result)
    if (times(layer.tensor, c) == 0) layer.out += c;
  if (layer.in.empty() || layer.out.empty() || layer.in.size() == layer.tensor.size()) return std::nullopt;
  return layer;
}

// What Keras's layers of attention are, and others whose weights have more axes than two.
Node* linear_of_einsum(const EinsumLayer& layer, Node* x, Node* constant, const AtenCaller& call) {
  // The tensor with the axes of these letters in the order of those.
  const auto in_order = [&](Node* tensor, const std::string& letters, const std::string& order) {
    if (letters == order) return tensor;
    Argument::List axes;
    for (char c : order) axes.emplace_back(static_cast<int64_t>(letters.find(c)));
    return call("permute.default", {tensor, Argument(std::move(axes))});
  };
  std::string kept = layer.tensor;
  std::erase_if(kept, [&](char c) { return layer.in.find(c) != std::string::npos; });
  x = in_order(x, layer.tensor, kept + layer.in);
  if (layer.in.size() > 1) x = call("flatten.using_ints", {x, static_cast<int64_t>(kept.size())});
  Node* weight = in_order(constant, layer.constant, layer.out + layer.in);
  Argument::List sizes;
  int64_t rows = 1;
  for (char c : layer.out) {
    sizes.emplace_back(*constant->meta.val.tensor()->sizes[layer.constant.find(c)].constant());
    rows *= *sizes.back().integer();
  }
  if (layer.constant.size() > 2) weight = call("reshape.default", {weight, Argument::List{rows, -1}});
  Node* product = call("linear.default", {x, weight});
  if (sizes.size() > 1) product = call("unflatten.int", {product, -1, Argument(std::move(sizes))});
  return in_order(product, kept + layer.out, layer.result);
}

}  // namespace qdq
