#include "lower/known_sizes.h"

#include <algorithm>
#include <optional>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "lower/fuse_nodes.h"
#include "lower/mutable_buffers.h"
#include "op/control_flow.h"
#include "op/facts.h"
#include "op/infer.h"
#include "op/targets.h"

namespace qdq {
namespace {

constexpr uint64_t kMostBytes = uint64_t{64} << 20;  // of tensors that are packed again for every size
constexpr int64_t kMostElements = 4096;              // of a tensor that is computed for the sake of sizes

bool is_large(const TensorMeta& meta) {
  int64_t count = 1;
  for (const SymInt& size : meta.sizes) {
    const std::optional<int64_t> constant = size.constant();
    if (!constant || *constant > kMostElements) return true;
    count *= *constant;
    if (count > kMostElements) return true;
  }
  return false;
}

// Whether a call always gives the same for the same arguments, and leaves these alone.
bool is_pure(const OpDef& op) {
  switch (op.family) {
    case Family::kControlFlow:
    case Family::kDropout: return false;
    default: break;
  }
  const std::vector<SchemaArgument>& arguments = op.schema->arguments;
  const auto writes = [](const SchemaArgument& one) { return one.is_mutated; };
  return op.expand == nullptr && std::none_of(arguments.begin(), arguments.end(), writes);
}

Argument with_number(const Argument& argument, const Node* node, int64_t number) {
  if (argument.node() == node) return number;
  if (!argument.is_list()) return argument;
  Argument::List list;
  for (const Argument& element : argument.list()) list.push_back(with_number(element, node, number));
  return list;
}

// The users read the number instead of the node, but for outputs, which are nodes.
void replace_by_number(Node& node, int64_t number) {
  for (Node* user : std::vector<Node*>(node.users())) {
    if (user->op() == Node::Op::kOutput) continue;
    std::vector<Argument> args;
    for (const Argument& argument : user->args()) args.push_back(with_number(argument, &node, number));
    user->set_args(std::move(args));
    Node::Kwargs kwargs;
    for (const auto& [name, argument] : user->kwargs()) kwargs.emplace_back(name, with_number(argument, &node, number));
    user->set_kwargs(std::move(kwargs));
  }
}

// An argument whose nodes are all constants of the program.
Value value_of(const Program& program, const Argument& argument) {
  return std::visit(
      [&](const auto& value) -> Value {
        using Kind = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<Kind, std::monostate>) {
          return {};
        } else if constexpr (std::is_same_v<Kind, Node*>) {
          return program.attribute_of(*value);
        } else if constexpr (std::is_same_v<Kind, Argument::List>) {
          Value::List list;
          for (const Argument& element : value) list.push_back(value_of(program, element));
          return list;
        } else {
          return value;
        }
      },
      argument.variant());
}

Value result_of(const Program& program, const OpDef& op, const Node& call) {
  std::vector<Value> args;
  for (const Argument& argument : call.args()) args.push_back(value_of(program, argument));
  std::vector<std::pair<std::string, Value>> kwargs;
  for (const auto& [name, argument] : call.kwargs()) kwargs.emplace_back(name, value_of(program, argument));
  return op.eval(Call<Tensor>(op, std::move(args), std::move(kwargs)));
}

class KnownSizes {
 public:
  explicit KnownSizes(Program& program) : program_(program), written_(written_values(program)) {}

  void visit(Node& node) {
    const OpDef* op = op_of(node);
    if (op == nullptr) return;
    infer(node);
    if (op->expand != nullptr || node.is(op::kCond)) return run_apart(node, *op);
    if (const SymInt* size = std::get_if<SymInt>(&node.meta.val.value); size != nullptr && size->is_constant())
      return replace_by_number(node, *size->constant());
    if (!is_computed_from_constants(node, *op)) return;
    const Value value = result_of(program_, *op, node);
    if (const int64_t* number = value.get_if<int64_t>()) return replace_by_number(node, *number);
    if (const Tensor* tensor = value.get_if<Tensor>()) replace_by(node, *tensor);
  }

 private:
  // Nothing is said of a value that may be of any shape.
  static void infer(Node& node) {
    for (const Node* input : node.input_nodes())
      if (input->meta.val.value.index() == 0) return;
    const ValueMeta said = node.meta.val;
    infer_value(node);
    if (node.meta.val.value.index() == 0) node.meta.val = said;
  }

  // Of few numbers, as those are that sizes are computed with.
  bool is_computed_from_constants(const Node& node, const OpDef& op) const {
    if (!is_pure(op) || is_a(node, Family::kDequantize)) return false;  // integer kernels take what is behind it
    if (written_.count(&node) != 0) return false;                       // every run writes into a tensor of its own
    for (const Node* input : node.input_nodes()) {
      const TensorMeta* meta = input->meta.val.tensor();
      if (input->op() != Node::Op::kGetAttr || written_.count(input) != 0) return false;
      if (meta == nullptr || is_large(*meta)) return false;
    }
    const TensorMeta* meta = node.meta.val.tensor();
    if (meta == nullptr) return std::holds_alternative<SymInt>(node.meta.val.value);
    const auto is_open = [](const SymInt& size) { return !size.is_constant(); };  // as many as a mask has, of few
    return meta->dtype != DType::kString && !is_complex(meta->dtype) &&
           (std::any_of(meta->sizes.begin(), meta->sizes.end(), is_open) || !is_large(*meta));
  }

  void replace_by(Node& node, const Tensor& tensor) {
    const auto point = program_.graph->insert_before(&node);
    node.replace_all_uses_with(constant("_known_" + node.name(), tensor.contiguous()));
  }
  Node* constant(const std::string& candidate, const Tensor& tensor) {
    const std::string name = program_.unique_attribute_name(candidate);
    program_.add_attribute({name, tensor, Attribute::Kind::kBuffer});
    Node* node = program_.graph->get_attr(name);
    TensorMeta meta{tensor.dtype(), {}, {}, false};
    meta.sizes.assign(tensor.sizes().begin(), tensor.sizes().end());
    node->meta.val.value = std::move(meta);
    return node;
  }

  // A call that runs a program which is known by now: its nodes take its place.
  void run_apart(Node& node, const OpDef& op) {
    if (op.expand != nullptr) return expand(node, op);
    const Node* condition = node.arg(0).node();
    if (condition == nullptr || condition->op() != Node::Op::kGetAttr || node.args().size() != 4) return;
    const Tensor& value = program_.attribute_of(*condition);
    if (value.numel() != 1 || !node.arg(3).is_list()) return;
    const Subprogram& taken = node.arg(value.item() != 0 ? 1 : 2).as<Subprogram>();
    std::vector<Node*> inputs;
    for (const Argument& operand : node.arg(3).list()) inputs.push_back(operand.node());
    hand_over(node, inlined(*taken, inputs, node), true);
  }

  void expand(Node& node, const OpDef& op) {
    if (node.args().size() != 3 || !node.arg(0).is_list()) return;
    Value::List tensors;
    std::vector<Node*> inputs;
    for (const Argument& argument : node.arg(0).list()) {
      Node* input = argument.node();
      tensors.emplace_back();
      if (input == nullptr) continue;
      const bool is_constant = input->op() == Node::Op::kGetAttr;
      const std::optional<Tensor> tensor = is_constant ? program_.attribute_of(*input) : stand_in(*input);
      if (!tensor || (!is_constant && is_bound(*tensor))) return;
      tensors.back() = *tensor;
      if (!is_bound(*tensor)) inputs.push_back(input);
    }
    const Call<Tensor> call(op, {std::move(tensors), value_of(program_, node.arg(1)), value_of(program_, node.arg(2))});
    const Subprogram program = op.expand(call);
    const std::vector<Node*> results = inlined(*program, inputs, node);
    std::vector<Node*> all;
    size_t next = 0;
    for (const Argument& name : node.arg(2).list()) {
      const bool is_wanted = name.is<std::string>() && !name.as<std::string>().empty();
      all.push_back(is_wanted && next < results.size() ? results[next++] : nullptr);
    }
    hand_over(node, all, all.size() != 1);
  }

  // A tensor of what is known of a value, whose numbers nobody reads.
  static std::optional<Tensor> stand_in(const Node& node) {
    const TensorMeta* meta = node.meta.val.tensor();
    if (meta == nullptr) return std::nullopt;
    Shape sizes;
    for (const SymInt& size : meta->sizes) {
      if (!size.is_constant()) return std::nullopt;
      sizes.push_back(*size.constant());
    }
    const Shape strides(sizes.size(), 0);
    return Tensor::empty({1}, meta->dtype).as_strided(std::move(sizes), strides, 0);
  }

  // Copies of a program's nodes in front of `place`; its results. Nothing, if it does not let itself be copied.
  std::vector<Node*> inlined(const Program& inner, const std::vector<Node*>& inputs, Node& place) {
    const std::vector<Node*> nodes = inner.graph->nodes();
    const std::vector<Argument>& results = inner.graph->output_node()->arg(0).list();
    const auto is_node = [](const Argument& result) { return result.is_node(); };
    if (!inner.buffer_mutations.empty() || inner.graph->placeholders().size() != inputs.size() ||
        std::find(inputs.begin(), inputs.end(), nullptr) != inputs.end() ||
        !std::all_of(results.begin(), results.end(), is_node) || !fusion_obstacle(*inner.graph).empty())
      return {};
    const auto point = program_.graph->insert_before(&place);
    std::unordered_map<const Node*, Node*> copies;
    size_t next = 0;
    for (Node* node : nodes) {
      const auto copied = [&](Node* input) { return copies.at(input); };
      if (node->op() == Node::Op::kPlaceholder) copies[node] = inputs[next++];
      else if (node->op() == Node::Op::kGetAttr)
        copies[node] = constant("_inlined_" + node->name(), inner.attribute_of(*node));
      else if (node->op() == Node::Op::kCallFunction) {
        std::vector<Argument> args;
        for (const Argument& argument : node->args()) args.push_back(argument.map_nodes(copied));
        Node::Kwargs kwargs;
        for (const auto& [key, value] : node->kwargs()) kwargs.emplace_back(key, value.map_nodes(copied));
        copies[node] = program_.graph->call(node->target(), std::move(args), std::move(kwargs), node->name());
        copied_.push_back(copies[node]);
      }
    }
    std::vector<Node*> out;
    for (const Argument& result : results) out.push_back(copies.at(result.node()));
    return out;
  }

  // Who read the results of a call reads these instead. Then what was copied is looked at.
  void hand_over(Node& node, const std::vector<Node*>& results, bool is_list) {
    const std::vector<Node*> copies = std::exchange(copied_, {});
    if (!is_list && !results.empty() && results[0] != nullptr) node.replace_all_uses_with(results[0]);
    for (Node* user : is_list ? std::vector<Node*>(node.users()) : std::vector<Node*>()) {
      const std::optional<int64_t> index = user->is(op::kGetItem) ? user->arg(1).integer() : std::nullopt;
      if (index && *index >= 0 && *index < static_cast<int64_t>(results.size()) && results[static_cast<size_t>(*index)])
        user->replace_all_uses_with(results[static_cast<size_t>(*index)]);
    }
    for (Node* copy : copies) visit(*copy);
  }

  std::vector<Node*> copied_;  // by the latest inlined()

  Program& program_;
  const std::unordered_set<const Node*> written_;
};

}  // namespace

bool gains_by_known_sizes(const Program& program) {
  if (!program.buffer_mutations.empty()) return false;
  std::map<std::string, int64_t> symbols;
  std::unordered_set<const Node*> follows;  // from sizes and constants alone
  uint64_t bytes = 0;
  bool gains = false;
  for (const Attribute& attribute : program.attributes) bytes += attribute.tensor.nbytes();
  for (const Node* node : program.graph->nodes()) {
    const TensorMeta* meta = node->meta.val.tensor();
    if (node->op() == Node::Op::kPlaceholder && meta != nullptr)
      for (const SymInt& size : meta->sizes)
        if (!size.is_constant()) symbols[size.to_string()] = 1;
    const OpDef* op = op_of(*node);
    if (op == nullptr) continue;
    const std::vector<Node*> inputs = node->input_nodes();
    const auto is_known = [&](const Node* input) {
      return input->op() == Node::Op::kGetAttr || follows.count(input) != 0;
    };
    if (op->family == Family::kSize || std::all_of(inputs.begin(), inputs.end(), is_known)) follows.insert(node);
    const auto is_open = [&](const SymInt& size) { return !size.evaluate(symbols); };
    gains = gains || op->expand != nullptr ||
            (meta != nullptr && std::any_of(meta->sizes.begin(), meta->sizes.end(), is_open)) ||
            (node->is(op::kCond) && node->arg(0).node() != nullptr && follows.count(node->arg(0).node()) != 0);
  }
  return gains && bytes <= kMostBytes;
}

std::map<std::string, int64_t> symbols_of(const std::vector<Node*>& placeholders, std::span<const Value> inputs) {
  std::map<std::string, int64_t> symbols;
  for (size_t i = 0; i < std::min(inputs.size(), placeholders.size()); ++i) {
    const TensorMeta* meta = placeholders[i]->meta.val.tensor();
    const Tensor* input = inputs[i].get_if<Tensor>();
    if (meta == nullptr || input == nullptr || input->sizes().size() != meta->sizes.size()) continue;
    for (size_t axis = 0; axis < meta->sizes.size(); ++axis)
      if (!meta->sizes[axis].is_constant()) symbols.emplace(meta->sizes[axis].to_string(), input->sizes()[axis]);
  }
  return symbols;
}

Program with_known_sizes(const Program& program, const std::map<std::string, int64_t>& symbols) {
  Program sized = program.clone();
  for (Node* input : sized.graph->placeholders())
    if (TensorMeta* meta = std::get_if<TensorMeta>(&input->meta.val.value))
      for (SymInt& size : meta->sizes)
        if (const std::optional<int64_t> value = size.evaluate(symbols)) size = SymInt(*value);
  infer_shapes(sized);
  KnownSizes sizes(sized);
  for (Node* node : sized.graph->nodes()) sizes.visit(*node);
  sized.graph->eliminate_dead_code();
  sized.erase_unused_attributes();
  return sized;
}

}  // namespace qdq
