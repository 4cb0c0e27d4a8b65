// Runs a reference and its candidates node by node, and compares the values of their operators.
#include "report/layer_comparison.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "base/stable_sort.h"
#include "exec/interpreter.h"
#include "format/json.h"
#include "graph/shown_module.h"
#include "op/facts.h"
#include "op/infer.h"
#include "op/math.h"
#include "quant/fold_batch_norm.h"
#include "op/recompose.h"

namespace qdq {

using format::Json;
using format::json_object;

// What is summed of a layer's values over all batches.
struct LayerComparison::Sums {
  kernel::Difference difference;
  double elements = 0;
  int64_t worst = -1;  // the sample with the largest share of noise
  double worst_share = -1, worst_db = 0;

  void add(const Tensor& reference, const Tensor& found, int64_t first_sample, int64_t samples);
};

struct LayerComparison::Layer {
  size_t value;           // of the reference, among the kept ones
  const Node* reference;  // in the reference
  const Node* node;       // in the candidate
  const Node* continued;  // what the candidate goes on with in the node's place
  const Node* shadow;     // the node that `continued` is in the candidate's program of shadows
  Sums total, own;
  std::optional<Sums> weight;
};

struct LayerComparison::Candidate {
  Program program;
  Program shadows;  // the program, where each layer reads the reference's values as further inputs
  std::vector<const Layer*> shadow_inputs;  // whose values it takes behind its own inputs
  bool writes_in_place = false;             // some operator does
  std::vector<Layer> layers;
  std::vector<std::string> lost, strange;  // operators of the reference and of the candidate without a counterpart
};

namespace {

const Node* user_of(const Node& node, Family family) {
  for (const Node* user : node.users())
    if (is_a(*user, family)) return user;
  return nullptr;
}

// Where a program has the value that it goes on with in place of the node's: behind the quantize/dequantize pair.
const Node* continued_at(const Node& node) {
  const Node* quantize = user_of(node, Family::kQuantize);
  return quantize ? user_of(*quantize, Family::kDequantize) : nullptr;
}

bool is_compared(const Node& node) {
  const TensorMeta* value = node.meta.val.tensor();
  return node.op() == Node::Op::kCallFunction && value && is_floating(value->dtype) && !is_a(node, Family::kQuantize) &&
         !is_a(node, Family::kDequantize);
}

bool may_have_same_sizes(const Node& a, const Node& b) {
  const SymShape &x = a.meta.val.tensor()->sizes, &y = b.meta.val.tensor()->sizes;
  if (x.size() != y.size()) return false;
  for (size_t i = 0; i < x.size(); ++i)
    if (x[i].is_constant() && y[i].is_constant() && x[i] != y[i]) return false;
  return true;
}

// What ONNX files call the values that a node stands for. Where a model was quantized by ONNX Runtime's tools, a value
// of the float model may have an ending, or be known by its integers alone.
std::vector<std::string> onnx_names_of(const Node& node) {
  std::vector<std::string> out;
  const auto add = [&](const Node& named, std::string_view ending) {
    for (const auto& [key, name] : named.meta.extra)
      if (key == kOnnxValue && name.ends_with(ending)) out.push_back(name.substr(0, name.size() - ending.size()));
  };
  add(node, "");
  add(node, "_QuantizeLinear_Input");
  if (const Node* quantize = user_of(node, Family::kQuantize); quantize && out.empty()) add(*quantize, "_quantized");
  if (const Node* behind = continued_at(node)) add(*behind, "");  // an output, whose name the float model gave
  return out;
}

// Finds the counterparts of a reference's nodes in a candidate.
class Counterparts {
 public:
  explicit Counterparts(const Program& candidate) {
    for (const Node* node : candidate.graph->nodes()) {
      if (!is_compared(*node)) continue;
      if (node->meta.debug_handle) by_handle_.emplace(*node->meta.debug_handle, node);
      const std::vector<std::string> values = onnx_names_of(*node);
      for (const std::string& name : values) by_value_.emplace(name, node);
      has_values_ |= !values.empty();
      by_name_.emplace(node->name(), node);
    }
  }

  const Node* find(const Node& node) const {
    const auto fits = [&](const Node* other) { return other && may_have_same_sizes(node, *other) ? other : nullptr; };
    if (node.meta.debug_handle)
      if (const Node* found = fits(look_up(by_handle_, *node.meta.debug_handle))) return found;
    const std::vector<std::string> values = onnx_names_of(node);
    for (const std::string& name : values) {
      if (const Node* found = fits(look_up(by_value_, name))) return found;
      if (const Node* found = has_values_ ? nullptr : fits(look_up(by_name_, name))) return found;
    }
    if (values.empty())
      if (const Node* found = fits(look_up(by_value_, node.name()))) return found;
    // Both files name their values: that they count their nodes alike says nothing.
    if (!values.empty() && has_values_) return nullptr;
    const Node* found = fits(look_up(by_name_, node.name()));
    return found && short_name(found->target()) == short_name(node.target()) ? found : nullptr;
  }

 private:
  template <class Map> static const Node* look_up(const Map& map, const typename Map::key_type& key) {
    const auto found = map.find(key);
    return found == map.end() ? nullptr : found->second;
  }
  std::unordered_map<int64_t, const Node*> by_handle_;
  std::unordered_map<std::string, const Node*> by_value_, by_name_;
  bool has_values_ = false;
};

// The weight of a layer in float; undefined for other operators, and for weights that are computed.
Tensor weight_in(const Program& program, const Node& layer) {
  const Node* weight = weight_of(layer);
  while (weight && weight->op() == Node::Op::kCallModule) weight = weight->arg(0).node();  // observers
  if (weight == nullptr) return {};
  if (weight->op() == Node::Op::kGetAttr) return program.attribute_of(*weight);
  if (!is_a(*weight, Family::kDequantize)) return {};
  for (const Node* input : weight->input_nodes())
    if (input->op() != Node::Op::kGetAttr) return {};
  return eval_constant(program, *weight);
}

// Whether the layer and the operator behind it are one to those who compare: an activation that alone reads the value.
bool is_one_with_next(const Node& node) {
  return node.users().size() == 1 && activation_function(*node.users()[0]).has_value() && weight_of(node);
}

Program folded(const Program& program) {
  Program out = program.clone();
  recompose(out);
  fold_batch_norms(out, Compat::kNone);
  return out;
}

// The same digits in every build, which the C library's log10 does not give.
double decibels(double ratio) { return 10 / 2.302585092994046 * math::log(ratio); }

Json error_json(const kernel::Difference& sums, double elements) {
  const auto ratio = [](double x) { return std::isfinite(x) ? format::json_of_number(x) : Json(); };
  return json_object({{"sqnrDb", sums.noise == 0 ? Json() : format::json_of_number(decibels(sums.signal / sums.noise))},
                      {"mse", format::json_of_number(sums.noise / elements)},
                      {"cosine", ratio(sums.product / std::sqrt(sums.signal * sums.other))},
                      {"maxError", format::json_of_number(sums.largest)}});
}

// Noise over signal, where nothing over nothing is no error: values may be all zeros.
double share_of(const kernel::Difference& sums) {
  if (sums.noise == 0) return 0;
  const double share = sums.noise / sums.signal;
  return share == share ? share : INFINITY;  // values that are no numbers are the worst
}

}  // namespace

void LayerComparison::Sums::add(const Tensor& reference, const Tensor& found, int64_t first_sample, int64_t samples) {
  const Tensor x = reference.to(DType::kF32).contiguous(), y = found.to(DType::kF32).contiguous();
  if (x.sizes() != y.sizes()) return;
  const bool has_samples = x.dim() > 0 && x.size(0) == samples;
  const int64_t parts = has_samples ? samples : 1, n = x.numel() / std::max<int64_t>(parts, 1);
  elements += static_cast<double>(x.numel());
  for (int64_t i = 0; i < parts; ++i) {
    const kernel::Difference one =
        kernel::difference_f32(x.span<float>().data() + i * n, y.span<float>().data() + i * n, n);
    difference.signal += one.signal;
    difference.noise += one.noise;
    difference.other += one.other;
    difference.product += one.product;
    difference.largest = std::max(difference.largest, one.largest);
    const double share = share_of(one);
    if (!has_samples || !(share > worst_share)) continue;
    worst = first_sample + i;
    worst_share = share;
    worst_db = decibels(one.signal / one.noise);
  }
}

bool has_layers_to_compare(const Program& program) {
  const std::vector<Node*> nodes = program.graph->nodes();
  return std::any_of(nodes.begin(), nodes.end(), [](const Node* node) { return is_compared(*node); });
}

LayerComparison::LayerComparison(LayerComparison&&) noexcept = default;
LayerComparison::~LayerComparison() = default;

namespace {

// A copy of a program in which every layer reads the reference's values.
class Shadows {
 public:
  explicit Shadows(const Program& candidate) : program_(candidate.clone(&copies_)) {
    const std::vector<Node*> own = program_.graph->placeholders();
    behind_inputs_ = own.empty() ? program_.graph->first() : own.back()->next();
  }

  // Puts a further input in the place of the node's value wherever others read it. Behind a quantize/dequantize pair
  // they read the input through a pair of the same kind.
  void replace(const Node* in_candidate) {
    Node* node = copies_.at(in_candidate);
    Node* input = nullptr;
    {
      const auto point = program_.graph->insert_before(behind_inputs_);
      input = program_.graph->create(Node::Op::kPlaceholder, "shadow", {}, {}, "shadow");
    }
    input->set_target(input->name());
    input->meta.val = node->meta.val;
    for (Node* user : std::vector<Node*>(node->users())) {
      if (!is_a(*user, Family::kQuantize)) {
        user->replace_input_with(node, input);
        continue;
      }
      Node* quantize = twin(*user, node, input);
      for (Node* dequantize : std::vector<Node*>(user->users()))
        dequantize->replace_all_uses_with(twin(*dequantize, user, quantize));
    }
  }

  const Node* copy_of(const Node* node) const { return copies_.at(node); }
  Program take() { return std::move(program_); }

 private:
  // The same operator on another input.
  Node* twin(Node& node, Node* input, Node* other) {
    const auto point = program_.graph->insert_after(&node);
    Node* out = program_.graph->call(node.target(), node.args(), node.kwargs());
    out->replace_input_with(input, other);
    out->meta.val = node.meta.val;
    return out;
  }

  std::unordered_map<const Node*, Node*> copies_;
  Program program_;
  Node* behind_inputs_;
};

}  // namespace

LayerComparison::LayerComparison(const Program& reference, const std::vector<const Program*>& candidates)
    : reference_(folded(reference)), backend_(make_simd_ops()) {
  QDQ_CHECK(!candidates.empty(), kInvalidArgument, "there is nothing to compare with the reference");
  const size_t num_inputs = reference_.graph->placeholders().size();
  for (const Program* program : candidates) {
    auto candidate = std::make_unique<Candidate>();
    candidate->program = folded(*program);
    const size_t found = candidate->program.graph->placeholders().size();
    QDQ_CHECK(found == num_inputs, kInvalidArgument, "the programs to compare take ", num_inputs, " and ", found,
              " inputs");
    const Counterparts counterparts(candidate->program);
    std::unordered_set<const Node*> taken;
    for (const Node* node : reference_.graph->nodes()) {
      if (!is_compared(*node)) continue;
      const Node* other = counterparts.find(*node);
      if (other == nullptr || !taken.insert(other).second) {
        candidate->lost.push_back(node->name());
        continue;
      }
      const Node* behind = continued_at(*other);
      const size_t value = places_.emplace(node, places_.size()).first->second;
      candidate->layers.push_back({value, node, other, behind ? behind : other, nullptr, {}, {}, {}});
    }
    QDQ_CHECK(!taken.empty(), kInvalidArgument,
              "no operator of the one program has the name of one in the other, so they cannot be compared layer by "
              "layer");
    for (const Node* node : candidate->program.graph->nodes())
      if (is_compared(*node) && taken.count(node) == 0) candidate->strange.push_back(node->name());
    Shadows shadows(candidate->program);
    for (const Node* node : candidate->program.graph->nodes())
      candidate->writes_in_place |= op_of(*node) && op_of(*node)->functional;
    for (Layer& layer : candidate->layers) {
      layer.shadow = shadows.copy_of(layer.continued);
      if (is_one_with_next(*layer.node) && taken.count(layer.node->users()[0]) != 0) continue;
      shadows.replace(layer.node);
      candidate->shadow_inputs.push_back(&layer);
    }
    candidate->shadows = shadows.take();
    for (Layer& layer : candidate->layers) {
      const Tensor x = weight_in(reference_, *layer.reference), y = weight_in(candidate->program, *layer.node);
      if (!x.defined() || !y.defined() || !is_floating(x.dtype()) || x.sizes() != y.sizes()) continue;
      layer.weight.emplace().add(x, y, 0, 0);
    }
    candidates_.push_back(std::move(candidate));
  }
}

void LayerComparison::add(const std::vector<Tensor>& inputs) {
  const auto hand_on = [](const Node&, std::span<const Value> args, const kernel::MinMax*) { return args[0]; };
  std::vector<Tensor> values(places_.size());
  Interpreter interpreter(reference_, {backend_.get()});
  interpreter.set_module_handler(hand_on);
  interpreter.set_node_hook([&](const Node& node, const Value& value) {
    const auto place = places_.find(&node);
    const Tensor* tensor = value.get_if<Tensor>();
    // Operators behind may write into the value.
    if (place != places_.end() && tensor) values[place->second] = tensor->clone();
  });
  interpreter.run(inputs);
  const int64_t samples = inputs.empty() || inputs[0].dim() == 0 ? 1 : inputs[0].size(0);
  for (const auto& candidate : candidates_) measure(*candidate, inputs, values, samples);
  samples_ += samples;
}

void LayerComparison::measure(Candidate& candidate, const std::vector<Tensor>& inputs, std::vector<Tensor>& values,
                              int64_t samples) {
  const auto run = [&](const Program& program, const std::vector<Tensor>& in, const Node* Layer::* place,
                       Sums Layer::* sums) {
    std::unordered_map<const Node*, Layer*> layers;
    for (Layer& layer : candidate.layers) layers[layer.*place] = &layer;
    Interpreter interpreter(program, {backend_.get()});
    interpreter.set_node_hook([&](const Node& node, const Value& value) {
      const auto found = layers.find(&node);
      const Tensor* tensor = value.get_if<Tensor>();
      if (found == layers.end() || tensor == nullptr || !values[found->second->value].defined()) return;
      (found->second->*sums).add(values[found->second->value], *tensor, samples_, samples);
    });
    interpreter.run(in);
  };
  run(candidate.program, inputs, &Layer::continued, &Layer::total);
  std::vector<Tensor> in = inputs;
  for (const Layer* layer : candidate.shadow_inputs) {
    const Tensor value = values[layer->value].to(layer->node->meta.val.tensor()->dtype);
    in.push_back(candidate.writes_in_place ? value.clone() : value);
  }
  run(candidate.shadows, in, &Layer::shadow, &Layer::own);
}

Json LayerComparison::json(size_t candidate) const {
  std::vector<const Layer*> sorted;
  for (const Layer& layer : candidates_.at(candidate)->layers)
    if (layer.total.elements > 0) sorted.push_back(&layer);
  sort_stably(sorted, [](const Layer* a, const Layer* b) {
    return share_of(a->total.difference) > share_of(b->total.difference);
  });
  Json out = Json::array();
  for (const Layer* layer : sorted) {
    const Node& node = *layer->reference;
    Json entry = json_object({{"node", node.name()},
                              {"module", shown_module(node.meta).value_or("")},
                              {"op", short_name(node.target())},
                              {"quantized", layer->continued != layer->node}});
    if (layer->node->name() != node.name()) entry["candidateNode"] = layer->node->name();
    entry.update(error_json(layer->total.difference, layer->total.elements));
    if (layer->total.worst >= 0 && layer->total.worst_share > 0)
      entry["worst"] =
          json_object({{"sample", layer->total.worst}, {"sqnrDb", format::json_of_number(layer->total.worst_db)}});
    if (layer->own.elements > 0) entry["own"] = error_json(layer->own.difference, layer->own.elements);
    if (layer->weight) entry["weight"] = error_json(layer->weight->difference, layer->weight->elements);
    out.push_back(std::move(entry));
  }
  return out;
}

std::vector<std::string> LayerComparison::unmatched_in_reference(size_t candidate) const {
  return candidates_.at(candidate)->lost;
}
std::vector<std::string> LayerComparison::unmatched_in_candidate(size_t candidate) const {
  return candidates_.at(candidate)->strange;
}

}  // namespace qdq
