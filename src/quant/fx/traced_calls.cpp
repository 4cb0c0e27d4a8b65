// Calls out of nn_module_stack and source_fn_stack.
#include "quant/fx/traced_calls.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "quant/fx/backend_config.h"

namespace qdq {

namespace {

// The outermost module that the tracer does not look into; null if there is none.
const ModuleStackEntry* leaf_module(const Node& node) {
  for (const ModuleStackEntry& entry : node.meta.nn_module_stack)
    if (!entry.path.empty() && (entry.type.starts_with("torch.nn.") || entry.type.starts_with("torch.ao.nn.")) &&
        entry.type != "torch.nn.modules.container.Sequential")
      return &entry;
  return nullptr;
}

// "getattr(L['fn'], '0')", as a model that is a Sequential itself records its parts, is "0".
std::string plain_path(const std::string& path) {
  if (path.find("L['") == std::string::npos) return path;
  std::string out;
  for (size_t i = 0; i < path.size(); ++i) {
    constexpr std::string_view kGet = "getattr(", kNext = ", ";
    if (path.compare(i, kGet.size(), kGet) == 0) i += kGet.size() - 1;
    else if (path.compare(i, kNext.size(), kNext) == 0) out += '.', ++i;
    else if (path[i] != '\'' && path[i] != ')') out += path[i];
  }
  const size_t end = out.find(']');
  return out.starts_with("L[") && end != std::string::npos ? out.substr(std::min(out.size(), end + 2)) : out;
}

// What stays together: the call of a module, or of a function, by the names that export gave them.
std::string key_of(const Node& node) {
  if (const ModuleStackEntry* leaf = leaf_module(node)) return concat("module ", leaf->key);
  if (node.meta.source_fn_stack.empty()) return concat("node ", node.name());
  return concat("function ", node.meta.source_fn_stack.front().first);
}

TracedCall call_of(const Node& node) {
  TracedCall out;
  if (const ModuleStackEntry* leaf = leaf_module(node)) {
    out.kind = TracedCall::Kind::kModule;
    out.type = out.module_type = leaf->type;
    out.path = plain_path(leaf->path);
    return out;
  }
  if (!node.meta.nn_module_stack.empty()) {
    out.path = plain_path(node.meta.nn_module_stack.back().path);
    out.module_type = node.meta.nn_module_stack.back().type;
  }
  out.type = node.meta.source_fn_stack.empty() ? function_of_operator(node.target())
                                               : node.meta.source_fn_stack.front().second;
  if (out.type == "_operator.iadd") out.type = "_operator.add";
  if (out.type == "_operator.imul") out.type = "_operator.mul";
  if (out.type.find('.') == std::string::npos) out.kind = TracedCall::Kind::kMethod;
  return out;
}

void find_borders(TracedCall& call) {
  const std::unordered_set<const Node*> inside(call.nodes.begin(), call.nodes.end());
  const auto counts = [&](const Node* node) {
    return !inside.count(node) && node->meta.val.is_tensor() &&
           (call.kind != TracedCall::Kind::kModule || node->op() != Node::Op::kGetAttr);
  };
  const auto add = [&](Argument argument) {
    if (std::find(call.args.begin(), call.args.end(), argument) == call.args.end() || call.nodes.size() == 1)
      call.args.push_back(std::move(argument));
  };
  std::vector<Node*> outputs;
  for (Node* node : call.nodes) {
    std::vector<Argument> arguments = node->args();
    for (const auto& [name, value] : node->kwargs()) arguments.push_back(value);
    for (const Argument& argument : arguments) {
      Argument::List list;
      argument.for_each_node([&](Node* input) {
        if (counts(input)) list.emplace_back(input);
      });
      if (list.empty()) continue;
      if (argument.is_list()) add(std::move(list));
      else add(argument);
    }
    for (const Node* user : node->users())
      if (!inside.count(user)) {
        outputs.push_back(node);
        break;
      }
  }
  if (outputs.size() == 1 && outputs[0]->meta.val.is_tensor()) call.output = outputs[0];
}

}  // namespace

std::unordered_set<const Node*> untraced_constants(const Program& program) {
  std::unordered_set<const Node*> out;
  for (const Node* node : program.graph->nodes()) {
    if (node->op() == Node::Op::kGetAttr) {
      const Attribute* attribute = program.find_attribute(node->target());
      if (attribute != nullptr && attribute->kind != Attribute::Kind::kParameter) out.insert(node);
    } else if (node->op() == Node::Op::kCallFunction && leaf_module(*node) == nullptr) {
      const std::vector<Node*> inputs = node->input_nodes();
      if (!inputs.empty() && std::all_of(inputs.begin(), inputs.end(), [&](Node* input) { return out.count(input); }))
        out.insert(node);
    }
  }
  return out;
}

std::vector<TracedCall> traced_calls(const Program& program) {
  const std::unordered_set<const Node*> constants = untraced_constants(program);
  std::vector<TracedCall> out;
  std::unordered_map<const Node*, size_t> of_node;
  std::string last;
  for (Node* node : program.graph->nodes()) {
    if (node->op() != Node::Op::kCallFunction || constants.count(node)) continue;
    const auto producer = node->is("operator.getitem") ? of_node.find(node->arg(0).node()) : of_node.end();
    if (producer == of_node.end()) {
      const std::string key = key_of(*node);
      if (out.empty() || key != last) out.push_back(call_of(*node));
      last = key;
    }
    const size_t call = producer == of_node.end() ? out.size() - 1 : producer->second;
    out[call].nodes.push_back(node);
    of_node[node] = call;
  }
  for (TracedCall& call : out) find_borders(call);
  return out;
}

std::string computed_function(const TracedCall& call) {
  return call.nodes.size() == 1 ? function_of_operator(call.nodes[0]->target()) : std::string();
}

}  // namespace qdq
