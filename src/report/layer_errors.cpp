// Runs the float program and the quantized one, and compares the values of their operators.
#include "report/layer_errors.h"

#include <algorithm>
#include <cmath>

#include "exec/interpreter.h"
#include "format/json.h"
#include "kernel/difference.h"
#include "op/facts.h"

namespace qdq {

using format::Json;
using format::json_object;

namespace {

const Node* user_of(const Node& node, Family family) {
  for (const Node* user : node.users())
    if (is_a(*user, family)) return user;
  return nullptr;
}

// Where the quantized program has the value that it goes on with in place of the node's: behind the quantize/dequantize
// pair.
const Node* continued_at(const Node& node) {
  const Node* quantize = user_of(node, Family::kQuantize);
  return quantize ? user_of(*quantize, Family::kDequantize) : nullptr;
}

}  // namespace

LayerErrors::LayerErrors(const Prepared& prepared, const Program& converted)
    : float_(prepared.program().clone()), quantized_(converted.clone()), backend_(make_simd_ops()) {
  std::map<std::string_view, const Node*> by_name;
  for (const Node* node : quantized_.graph->nodes())
    if (node->op() == Node::Op::kCallFunction) by_name[node->name()] = node;
  for (const Node* node : float_.graph->nodes()) {
    const TensorMeta* value = node->meta.val.tensor();
    const auto other = by_name.find(node->name());
    if (node->op() != Node::Op::kCallFunction || !value || !is_floating(value->dtype) || other == by_name.end())
      continue;
    const Node* behind = continued_at(*other->second);
    in_float_[node] = layers_.size();
    in_quantized_[behind ? behind : other->second] = layers_.size();
    layers_.push_back({node->name(), node->meta.module_path().value_or(""), std::string(short_name(node->target())),
                       behind != nullptr});
  }
}

LayerErrors::LayerErrors(LayerErrors&&) noexcept = default;
LayerErrors::~LayerErrors() = default;

void LayerErrors::add(const std::vector<Tensor>& inputs) {
  std::vector<Tensor> values(layers_.size());
  Interpreter floats(float_, {backend_.get()});
  floats.set_module_handler([](const Node&, std::span<const Value> args, const kernel::MinMax*) { return args[0]; });
  floats.set_node_hook([&](const Node& node, const Value& value) {
    const auto layer = in_float_.find(&node);
    const Tensor* tensor = value.get_if<Tensor>();
    // Operators behind may write into the value.
    if (layer != in_float_.end() && tensor) values[layer->second] = tensor->to(DType::kF32).clone();
  });
  floats.run(inputs);
  Interpreter integers(quantized_, {backend_.get()});
  integers.set_node_hook([&](const Node& node, const Value& value) {
    const auto found = in_quantized_.find(&node);
    const Tensor* tensor = value.get_if<Tensor>();
    if (found == in_quantized_.end() || !tensor) return;
    const Tensor x = values[found->second], y = tensor->to(DType::kF32).contiguous();
    values[found->second] = {};
    if (!x.defined() || x.sizes() != y.sizes()) return;
    const Tensor flat = x.contiguous();
    const std::span<const float> a = flat.span<float>(), b = y.span<float>();
    Layer& layer = layers_[found->second];
    const auto [signal, noise] = kernel::difference_f32(a.data(), b.data(), static_cast<int64_t>(a.size()));
    layer.signal += signal;
    layer.noise += noise;
    layer.elements += static_cast<double>(a.size());
  });
  integers.run(inputs);
}

Json LayerErrors::json() const {
  std::vector<const Layer*> sorted;
  for (const Layer& layer : layers_)
    if (layer.elements > 0) sorted.push_back(&layer);
  // Without multiplying out, since a value may be all zeros: noise / signal, where nothing over nothing is no error.
  const auto share = [](const Layer* layer) {
    return layer->noise == 0 ? 0 : layer->signal == 0 ? INFINITY : layer->noise / layer->signal;
  };
  std::stable_sort(sorted.begin(), sorted.end(), [&](const Layer* a, const Layer* b) { return share(a) > share(b); });
  Json out = Json::array();
  for (const Layer* layer : sorted) {
    Json entry = json_object({{"node", layer->node},
                              {"module", layer->module},
                              {"op", layer->op},
                              {"mse", format::json_of_number(layer->noise / layer->elements)},
                              {"quantized", layer->quantized}});
    entry["sqnrDb"] = layer->noise == 0 || layer->signal == 0
                          ? Json()
                          : format::json_of_number(10 * std::log10(layer->signal / layer->noise));
    out.push_back(std::move(entry));
  }
  return out;
}

}  // namespace qdq
