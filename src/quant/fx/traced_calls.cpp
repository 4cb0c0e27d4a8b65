// Calls out of nn_module_stack and source_fn_stack.
#include "quant/fx/traced_calls.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "op/facts.h"
#include "op/op.h"
#include "quant/fx/backend_config.h"

namespace qdq {

namespace {

constexpr std::string_view kOperators = "_operator.";

// What the tracer knows of the modules around a node: the part of the stack inside of its scope.
class Stack {
 public:
  Stack(const Node& node, const TracerScope& scope) : scope_(scope), entries_(node.meta.nn_module_stack) {
    if (scope.key.empty()) return;
    while (first_ < entries_.size() && entries_[first_].key != scope.key) ++first_;
    is_inside_ = first_ < entries_.size();
  }
  bool is_inside() const { return is_inside_; }
  bool empty() const { return first_ == entries_.size(); }
  const ModuleStackEntry& innermost() const { return entries_.back(); }

  std::string path_of(const ModuleStackEntry& entry) const {
    if (scope_.path.empty()) return entry.path;
    return entry.path.size() > scope_.path.size() ? entry.path.substr(scope_.path.size() + 1) : "";
  }
  // The outermost module that the tracer does not look into; null if there is none.
  const ModuleStackEntry* leaf() const {
    for (size_t i = first_ + (scope_.key.empty() ? 0 : 1); i < entries_.size(); ++i) {
      const ModuleStackEntry& entry = entries_[i];
      const bool is_of_torch = (entry.type.starts_with("torch.nn.") || entry.type.starts_with("torch.ao.nn.")) &&
                               entry.type != "torch.nn.modules.container.Sequential";
      if (!entry.path.empty() && (is_of_torch || (scope_.is_leaf && scope_.is_leaf(path_of(entry), entry.type))))
        return &entry;
    }
    return nullptr;
  }

 private:
  const TracerScope& scope_;
  const std::vector<ModuleStackEntry>& entries_;
  size_t first_ = 0;
  bool is_inside_ = true;
};

// What stays together: the call of a module, or of a function, by the names that export gave them.
std::string key_of(const Node& node, const Stack& stack) {
  if (const ModuleStackEntry* leaf = stack.leaf()) return concat("module ", leaf->key);
  if (node.meta.source_fn_stack.empty()) return concat("node ", node.name());
  return concat("function ", node.meta.source_fn_stack.front().first);
}

// Python asks the left operand first, and a constant's own operator calls its method: `buffer * x` is buffer.mul(x).
bool is_method_of_constant(const Node& node, const std::string& function,
                           const std::unordered_set<const Node*>& constants) {
  return function.starts_with(kOperators) && !node.args().empty() && constants.count(node.arg(0).node()) != 0;
}

TracedCall call_of(const Node& node, const Stack& stack, const std::unordered_set<const Node*>& constants) {
  TracedCall out;
  if (const ModuleStackEntry* leaf = stack.leaf()) {
    out.kind = TracedCall::Kind::kModule;
    out.type = out.module_type = leaf->type;
    out.key = leaf->key;
    out.path = stack.path_of(*leaf);
    return out;
  }
  if (!stack.empty()) {
    out.path = stack.path_of(stack.innermost());
    out.module_type = stack.innermost().type;
  }
  out.type = node.meta.source_fn_stack.empty() ? function_of_operator(node.target())
                                               : node.meta.source_fn_stack.front().second;
  if (out.type == "_operator.iadd") out.type = "_operator.add";
  if (out.type == "_operator.imul") out.type = "_operator.mul";
  if (is_method_of_constant(node, out.type, constants)) out.type.erase(0, kOperators.size());
  if (out.type.find('.') == std::string::npos) out.kind = TracedCall::Kind::kMethod;
  return out;
}

void find_borders(TracedCall& call) {
  const std::unordered_set<const Node*> inside(call.nodes.begin(), call.nodes.end());
  // Of the constants that a module reads, its parameters are its own, but it may be called with one.
  const auto counts = [&](const Node* reader, const Node* node) {
    const OpDef* op = find_op(reader->target());
    const bool is_activation = op && op->roles.activation >= 0 &&
                               reader->arg(static_cast<size_t>(op->roles.activation)).node() == node,
               is_own = call.kind == TracedCall::Kind::kModule && node->op() == Node::Op::kGetAttr && !is_activation;
    return !inside.count(node) && node->meta.val.is_tensor() && !is_own;
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
        if (counts(node, input)) list.emplace_back(input);
      });
      if (list.empty()) continue;
      if (argument.is_list() && call.type == "torch.functional.einsum")
        std::for_each(list.begin(), list.end(), add);  // its operands are arguments of their own
      else if (argument.is_list()) add(std::move(list));
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

std::unordered_set<const Node*> untraced_constants(const Program& program, const TracerScope& scope) {
  std::unordered_set<const Node*> out;
  for (const Node* node : program.graph->nodes()) {
    if (node->op() == Node::Op::kGetAttr) {
      const Attribute* attribute = program.find_attribute(node->target());
      if (attribute != nullptr && attribute->kind != Attribute::Kind::kParameter) out.insert(node);
    } else if (node->op() == Node::Op::kCallFunction && Stack(*node, scope).leaf() == nullptr) {
      const std::vector<Node*> inputs = node->input_nodes();
      if (inputs.empty() ? is_a(*node, Family::kCreation)
                         : std::all_of(inputs.begin(), inputs.end(), [&](Node* input) { return out.count(input); }))
        out.insert(node);
    }
  }
  return out;
}

std::vector<TracedCall> traced_calls(const Program& program, const TracerScope& scope) {
  const std::unordered_set<const Node*> constants = untraced_constants(program, scope);
  std::vector<TracedCall> out;
  std::unordered_map<const Node*, size_t> of_node;
  std::string last;
  for (Node* node : program.graph->nodes()) {
    if (node->op() != Node::Op::kCallFunction || constants.count(node)) continue;
    const Stack stack(*node, scope);
    if (!stack.is_inside()) {
      last.clear();
      continue;
    }
    const auto producer = node->is("operator.getitem") ? of_node.find(node->arg(0).node()) : of_node.end();
    if (producer == of_node.end()) {
      const std::string key = key_of(*node, stack);
      if (out.empty() || key != last) out.push_back(call_of(*node, stack, constants));
      last = key;
    }
    const size_t call = producer == of_node.end() ? out.size() - 1 : producer->second;
    out[call].nodes.push_back(node);
    of_node[node] = call;
  }
  for (TracedCall& call : out) find_borders(call);
  return out;
}

Node* layer_of(const TracedCall& call) {
  const auto is_pad = [](const Node* node) { return is_a(*node, Family::kPad); };
  return std::all_of(call.nodes.begin(), call.nodes.end() - 1, is_pad) ? call.nodes.back() : nullptr;
}

std::string computed_function(const TracedCall& call) {
  return call.nodes.size() == 1 ? function_of_operator(call.nodes[0]->target()) : std::string();
}

}  // namespace qdq
