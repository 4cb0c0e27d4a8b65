#include "io/onnx/loop_trips.h"

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace qdq {
namespace {

// What the condition of a body follows from, and the carried values among that; null if a graph in the body takes part.
struct ConditionPart {
  format::OnnxGraph graph;      // gives the condition and these values
  std::vector<size_t> carried;  // places among the body's carried values
};

std::unique_ptr<ConditionPart> condition_of(const format::OnnxGraph& body, size_t carried) {
  std::set<std::string> needed = {body.outputs[0].name};
  std::set<size_t> nodes, values;
  for (size_t before = 0; before != needed.size();) {
    before = needed.size();
    for (size_t n = 0; n < body.nodes.size(); ++n) {
      const format::OnnxNode& node = body.nodes[n];
      const auto is_needed = [&](const std::string& name) { return needed.count(name) != 0; };
      if (std::none_of(node.outputs.begin(), node.outputs.end(), is_needed) || !nodes.insert(n).second) continue;
      for (const format::OnnxAttribute& attribute : node.attributes)
        if (!attribute.graphs.empty()) return nullptr;
      for (const std::string& input : node.inputs)
        if (!input.empty()) needed.insert(input);
    }
    for (size_t i = 0; i < carried; ++i)
      if (needed.count(body.inputs[2 + i].name) != 0 && values.insert(i).second)
        needed.insert(body.outputs[1 + i].name);
  }
  auto out = std::make_unique<ConditionPart>();
  out->graph = body;
  out->graph.nodes.clear();
  for (const size_t n : nodes) out->graph.nodes.push_back(body.nodes[n]);
  out->graph.outputs = {body.outputs[0]};
  for (const size_t i : values) out->graph.outputs.push_back(body.outputs[1 + i]);
  out->carried.assign(values.begin(), values.end());
  return out;
}

}  // namespace

Tensor known_in(OnnxCall& call, const format::OnnxGraph& body, const std::string& name) {
  for (const auto& [known, tensor] : body.initializers)
    if (known == name) return tensor;
  const auto maker = std::find_if(body.nodes.begin(), body.nodes.end(), [&](const format::OnnxNode& node) {
    return !node.outputs.empty() && node.outputs[0] == name;
  });
  if (maker == body.nodes.end()) return name.empty() ? Tensor() : call.import().constant_of(name);
  return maker->op_type == "Constant" && maker->attributes.size() == 1 ? maker->attributes[0].t : Tensor();
}

bool goes_on(OnnxCall& call, const format::OnnxGraph& body) {
  std::string name = body.outputs.empty() ? std::string() : body.outputs[0].name;
  for (size_t steps = 0; steps <= body.nodes.size(); ++steps) {
    if (body.inputs.size() > 1 && name == body.inputs[1].name) return true;
    const Tensor known = known_in(call, body, name);
    if (known.defined()) return known.numel() == 1 && known.to(DType::kBool).item_int() != 0;
    const auto maker = std::find_if(body.nodes.begin(), body.nodes.end(), [&](const format::OnnxNode& node) {
      return !node.outputs.empty() && node.outputs[0] == name;
    });
    if (maker == body.nodes.end() || (maker->op_type != "Identity" && maker->op_type != "Cast")) return false;
    name = maker->inputs.empty() ? std::string() : maker->inputs[0];
  }
  return false;
}

std::optional<int64_t> counted_trips(OnnxCall& call, const format::OnnxGraph& body, size_t carried, int64_t most) {
  const std::unique_ptr<ConditionPart> part = condition_of(body, carried);
  if (part == nullptr) return std::nullopt;
  for (const size_t i : part->carried)
    if (call.is_sizes(2 + i) || !call.is_constant(2 + i)) return std::nullopt;
  const auto known = [&](OnnxValue& value) {
    Node* node = value.kind.is_tensor() ? call.import().node_of(value, "Loop") : nullptr;
    return node == nullptr || !call.import().is_constant(node) ? Tensor() : call.import().constant_of(node);
  };
  std::vector<OnnxValue> values(2);
  for (size_t i = 0; i < carried; ++i) values.push_back(call.value(2 + i));
  values[1].node = call.import().constant(Tensor::full({}, DType::kBool, 1), "condition");
  for (int64_t trip = 0; trip < std::min(most, kMostUnrolled); ++trip) {
    values[0].node = call.import().constant(Tensor::scalar(trip), "iteration");
    std::vector<OnnxValue> results = call.import().inline_graph(part->graph, values);
    const Tensor condition = known(results[0]);
    if (!condition.defined() || condition.numel() != 1) return std::nullopt;
    if (condition.to(DType::kBool).item_int() == 0) return trip + 1;
    for (size_t i = 0; i < part->carried.size(); ++i) values[2 + part->carried[i]] = results[1 + i];
  }
  return most <= kMostUnrolled ? std::optional(most) : std::nullopt;
}

}  // namespace qdq
