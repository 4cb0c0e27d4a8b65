// Programs and what stands in them as JSON.
#include "report/graph_report.h"

#include "format/json.h"
#include "graph/shown_module.h"
#include "op/facts.h"
#include "op/targets.h"

namespace qdq {

using format::Json;
using format::json_object;

namespace {

Json shape_json(const SymShape& shape) {
  Json out = Json::array();
  for (const SymInt& size : shape) {
    if (const auto constant = size.constant()) out.push_back(*constant);
    else out.push_back(size.to_string());
  }
  return out;
}

void add_value(Json& out, const ValueMeta& value) {
  if (const TensorMeta* tensor = value.tensor()) {
    out["dtype"] = to_string(tensor->dtype);
    out["shape"] = shape_json(tensor->sizes);
  }
}

Json value_json(const Node& node) {
  Json out = json_object({{"name", node.name()}});
  add_value(out, node.meta.val);
  return out;
}

std::string_view name_of(Attribute::Kind kind) {
  switch (kind) {
    case Attribute::Kind::kParameter: return "parameter";
    case Attribute::Kind::kBuffer: return "buffer";
    case Attribute::Kind::kConstant: return "constant";
  }
  return "";
}

// The elements of a C-ordered row as lists of lists with these sizes; `at` goes on behind those that were taken.
template <class T> Json nested(std::span<const T> elements, std::span<const int64_t> sizes, size_t& at) {
  if (sizes.empty()) {
    const T element = elements[at++];
    if constexpr (std::is_same_v<T, double>) return format::json_of_number(element);
    else return element;
  }
  Json out = Json::array();
  out.get_ref<Json::array_t&>().reserve(static_cast<size_t>(sizes[0]));
  for (int64_t i = 0; i < sizes[0]; ++i) out.push_back(nested(elements, sizes.subspan(1), at));
  return out;
}

Json nested(const Tensor& tensor) {
  const auto lists = [&](DType dtype, auto element) {
    const Tensor flat = tensor.to(dtype).contiguous();
    size_t at = 0;
    return nested<decltype(element)>(flat.span<decltype(element)>(), tensor.sizes(), at);
  };
  if (is_floating(tensor.dtype())) return lists(DType::kF64, double{});
  if (tensor.dtype() == DType::kBool) return lists(DType::kBool, bool{});
  return lists(DType::kS64, int64_t{});
}

// The one element of a get_attr node's tensor, or the argument's own number.
std::vector<double> numbers(const Program& program, const Argument& argument) {
  if (const auto number = argument.number()) return {*number};
  std::vector<double> out;
  if (const Node* node = argument.node(); node && node->op() == Node::Op::kGetAttr) {
    const Tensor values = program.attribute_of(*node).to(DType::kF64).contiguous();
    out.assign(values.span<double>().begin(), values.span<double>().end());
  }
  return out;
}

}  // namespace

Json json_of(const Tensor& tensor) { return tensor.defined() ? nested(tensor) : Json(); }

Json json_of(const Argument& argument) {
  return std::visit(
      [](const auto& value) -> Json {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, std::monostate>) return nullptr;
        else if constexpr (std::is_same_v<T, Node*>) return json_object({{"node", value->name()}});
        else if constexpr (std::is_same_v<T, double>) return format::json_of_number(value);
        else if constexpr (std::is_same_v<T, DType>) return json_object({{"dtype", to_string(value)}});
        else if constexpr (std::is_same_v<T, MemoryFormat>) return json_object({{"memory_format", to_string(value)}});
        else if constexpr (std::is_same_v<T, Layout>) return json_object({{"layout", "strided"}});
        else if constexpr (std::is_same_v<T, Device>) return json_object({{"device", value.name}});
        else if constexpr (std::is_same_v<T, Subprogram>) return json_object({{"graph", to_text(*value->graph)}});
        else if constexpr (std::is_same_v<T, Argument::List>) {
          Json out = Json::array();
          for (const Argument& element : value) out.push_back(json_of(element));
          return out;
        } else return value;
      },
      argument.variant());
}

Json json_of(const Edge& edge) { return Json::array({edge.first->name(), edge.second->name()}); }

Json json_of(const EdgeOrNode& place) {
  if (const Edge* edge = std::get_if<Edge>(&place)) return json_object({{"edge", json_of(*edge)}});
  return json_object({{"node", std::get<Node*>(place)->name()}});
}

Json node_report(const Node& node) {
  Json out = json_object({{"name", node.name()}, {"op", to_string(node.op())}, {"target", node.target()}});
  out["args"] = Json::array();
  for (const Argument& argument : node.args()) out["args"].push_back(json_of(argument));
  out["kwargs"] = Json::object();
  for (const auto& [name, argument] : node.kwargs()) out["kwargs"][name] = json_of(argument);
  out["users"] = Json::array();
  for (const Node* user : node.users()) out["users"].push_back(user->name());
  if (const auto path = shown_module(node.meta)) {
    out["module"] = *path;
    out["type"] = node.meta.nn_module_stack.back().type;
  }
  if (!node.meta.source_fn_stack.empty()) out["source"] = node.meta.source_fn_stack.back().second;
  if (node.meta.debug_handle) out["debug_handle"] = *node.meta.debug_handle;
  add_value(out, node.meta.val);
  return out;
}

Json graph_report(const Graph& graph) {
  Json nodes = Json::array();
  for (const Node* node : graph.nodes()) nodes.push_back(node_report(*node));
  return json_object({{"nodes", std::move(nodes)}});
}

std::vector<QuantizedValue> quantized_values(const Program& program) {
  std::vector<QuantizedValue> out;
  for (const Node* node : program.graph->nodes()) {
    const bool quantizes = is_a(*node, Family::kQuantize);
    const bool folded =
        is_a(*node, Family::kDequantize) && node->arg(0).is_node() && node->arg(0).node()->op() == Node::Op::kGetAttr;
    const bool per_channel = node->is(op::kQuantizeChannels) || node->is(op::kDequantizeChannels);
    if (!quantizes && !folded) continue;
    // (x, scale, zero_point, [axis,] quant_min, quant_max, dtype)
    const size_t limits = per_channel ? 4 : 3;
    const Argument& dtype = node->arg(limits + 2);
    if (!dtype.is<DType>()) continue;
    QuantizedValue value{node,
                         node->arg(0).node() ? node->arg(0).node()->name() : "",
                         numbers(program, node->arg(1)),
                         {},
                         node->arg(limits).integer().value_or(0),
                         node->arg(limits + 1).integer().value_or(0),
                         dtype.as<DType>()};
    for (const double zero_point : numbers(program, node->arg(2)))
      value.zero_point.push_back(static_cast<int64_t>(zero_point));
    out.push_back(std::move(value));
  }
  return out;
}

Json program_report(const Program& program) {
  Json out = json_object({{"torch_version", program.torch_version}, {"dialect", program.dialect}});
  out["inputs"] = Json::array();
  for (const Node* node : program.graph->placeholders()) out["inputs"].push_back(value_json(*node));
  out["outputs"] = Json::array();
  program.graph->output_node()->arg(0).for_each_node(
      [&](const Node* node) { out["outputs"].push_back(value_json(*node)); });
  if (program.output_names.size() == out["outputs"].size())  // those of an ONNX file
    for (size_t i = 0; i < program.output_names.size(); ++i) out["outputs"][i]["called"] = program.output_names[i];
  out["attributes"] = Json::array();
  for (const Attribute& attribute : program.attributes)
    out["attributes"].push_back(json_object({{"name", attribute.name},
                                             {"kind", name_of(attribute.kind)},
                                             {"dtype", to_string(attribute.tensor.dtype())},
                                             {"shape", attribute.tensor.sizes()},
                                             {"bytes", attribute.tensor.nbytes()}}));
  out["qparams"] = Json::array();
  for (const QuantizedValue& value : quantized_values(program)) {
    Json entry = json_object({{"node", value.quantize->name()},
                              {"of", value.of},
                              {"dtype", to_string(value.dtype)},
                              {"quant_min", value.quant_min},
                              {"quant_max", value.quant_max},
                              {"scale", Json::array()},
                              {"zero_point", value.zero_point}});
    for (const double scale : value.scale) entry["scale"].push_back(format::json_of_number(scale));
    out["qparams"].push_back(std::move(entry));
  }
  out.update(graph_report(*program.graph));
  return out;
}

Json partition_report(const SourcePartition& partition) {
  const auto names = [](const std::vector<Node*>& nodes) {
    Json out = Json::array();
    for (const Node* node : nodes) out.push_back(node->name());
    return out;
  };
  return json_object({{"source", partition.source},
                      {"nodes", names(partition.nodes)},
                      {"input_nodes", names(partition.input_nodes)},
                      {"output_nodes", names(partition.output_nodes)},
                      {"params", names(partition.params)}});
}

Json match_report(const Match& match) {
  Json out = json_object(
      {{"name_node_map", Json::object()}, {"placeholder_nodes", Json::array()}, {"returning_nodes", Json::array()}});
  for (const auto& [name, node] : match.name_node_map)
    out["name_node_map"][name] = node ? Json(node->name()) : Json(nullptr);
  for (const Argument& argument : match.placeholder_nodes) out["placeholder_nodes"].push_back(json_of(argument));
  for (const Node* node : match.returning_nodes) out["returning_nodes"].push_back(node->name());
  return out;
}

}  // namespace qdq
