// Constant folding of quantized weights.
#include "quant/constant_fold.h"

#include <optional>
#include <unordered_map>
#include <utility>

#include "base/disk_blocks.h"
#include "exec/interpreter.h"
#include "op/written_attributes.h"
#include "graph/dead_code.h"
#include "op/facts.h"
#include "op/targets.h"

namespace qdq {

namespace {

// Values of nodes that depend on constants only.
class Constants {
 public:
  explicit Constants(const Program& program) : program_(program), written_(written_attributes(program)) {}

  std::optional<Tensor> tensor(const Node& node) {
    const std::optional<Value>& value = evaluate(node);
    if (!value || !value->is_tensor()) return std::nullopt;
    return *value->get_if<Tensor>();
  }

 private:
  // A stack of its own: chains of constants are as long as a file makes them.
  const std::optional<Value>& evaluate(const Node& node) {
    std::vector<const Node*> waiting = {&node};
    while (!waiting.empty()) {
      const Node& next = *waiting.back();
      if (values_.count(&next) != 0 || !waits_for_input(next, waiting)) waiting.pop_back();
    }
    return values_.at(&node);
  }

  // Puts the first input without a value on the stack. Else gives the node its value, which is none if it depends on
  // more than constants.
  bool waits_for_input(const Node& node, std::vector<const Node*>& waiting) {
    std::optional<Value> value;
    if (node.op() == Node::Op::kGetAttr) {
      if (!written_.count(node.target())) value = Value(program_.attribute_of(node));
    } else if (const OpDef* op = op_of(node); op && op->family != Family::kDequantize && !op->is_in_place() &&
                                              op->family != Family::kDropout && !node.input_nodes().empty()) {
      bool is_constant = true;
      for (const Node* input : node.input_nodes()) {
        const auto known = values_.find(input);
        if (known == values_.end()) {
          waiting.push_back(input);
          return true;
        }
        is_constant = known->second.has_value();
        if (!is_constant) break;
      }
      if (is_constant) value = call(node, *op);
    }
    values_.emplace(&node, std::move(value));
    return false;
  }

  std::optional<Value> call(const Node& node, const OpDef& op) {
    std::vector<Value> args;
    for (const Argument& argument : node.args()) {
      std::optional<Value> value = resolve(argument);
      if (!value) return std::nullopt;
      args.push_back(std::move(*value));
    }
    std::vector<std::pair<std::string, Value>> kwargs;
    for (const auto& [name, argument] : node.kwargs()) {
      std::optional<Value> value = resolve(argument);
      if (!value) return std::nullopt;
      kwargs.emplace_back(name, std::move(*value));
    }
    const Call<Tensor> arguments(op, std::move(args), std::move(kwargs));
    if (op.family != Family::kQuantize) return op.eval(arguments);
    // Integers are the same however they are computed, and weights are large.
    auto compiled = backend_->compile(node, written_);
    auto* fast = std::get_if<std::unique_ptr<CompiledOp>>(&compiled);
    Value out = fast ? (*fast)->run(arguments) : op.eval(arguments);
    for (const Tensor* tensor : {arguments[0].get_if<Tensor>(), std::as_const(out).get_if<Tensor>()})
      if (tensor != nullptr && tensor->defined()) release_pages({tensor->storage()->data(), tensor->storage()->size()});
    return out;
  }

  std::optional<Value> resolve(const Argument& argument) {
    if (const Node* node = argument.node()) return values_.at(node);
    if (argument.is_list()) {
      Value::List list;
      for (const Argument& element : argument.list()) {
        std::optional<Value> value = resolve(element);
        if (!value) return std::nullopt;
        list.push_back(std::move(*value));
      }
      return Value(std::move(list));
    }
    return std::visit(
        [](const auto& constant) -> std::optional<Value> {
          using T = std::decay_t<decltype(constant)>;
          if constexpr (std::is_same_v<T, std::monostate>) return Value();
          else if constexpr (std::is_same_v<T, Node*> || std::is_same_v<T, Argument::List>) return std::nullopt;
          else return Value(constant);
        },
        argument.variant());
  }

  const Program& program_;
  const WrittenAttributes written_;
  const std::unique_ptr<OpBackend> backend_ = make_simd_ops();
  std::unordered_map<const Node*, std::optional<Value>> values_;
};

std::string frozen_name(const Program& program, int64_t& count) {
  for (;; ++count) {
    std::string name = "_frozen_param" + std::to_string(count);
    if (program.find_attribute(name) == nullptr) return name;
  }
}

// Puts a constant in the place of the node that computes it.
void freeze(Program& program, Node* node, const Tensor& value, int64_t& count) {
  const std::string name = frozen_name(program, count);
  program.add_attribute({name, value.contiguous(), Attribute::Kind::kBuffer, true, false});
  const auto point = program.graph->insert_before(node);
  Node* constant = program.graph->get_attr(name);
  constant->meta = node->meta;
  node->replace_all_uses_with(constant);
  program.graph->erase(node);
}

bool rounds_to_bf16(const Node& node) {
  return node.is(op::kConvertElementType) && node.arg(1) == Argument(DType::kBF16);
}

// Integers that an operator finds the range of: its reader would be left with that range alone.
bool quantizes_dynamically(const Node& node) {
  const Node* scale = node.is(op::kQuantizeByTensors) ? node.arg(1).node() : nullptr;
  return scale != nullptr && scale->op() != Node::Op::kGetAttr;
}

}  // namespace

void fold_computed_weights(Program& program) {
  std::unordered_map<Node*, Tensor> computed;
  {
    Constants constants(program);
    for (Node* node : program.graph->nodes()) {
      if (!is_a(*node, Family::kConvolution) && !is_a(*node, Family::kTransposedConvolution) &&
          !is_a(*node, Family::kLinear))
        continue;
      for (Node* weight : {weight_of(*node), bias_of(*node)}) {
        if (weight == nullptr || weight->op() == Node::Op::kGetAttr || computed.count(weight) != 0) continue;
        if (std::optional<Tensor> value = constants.tensor(*weight)) computed.emplace(weight, *value);
      }
    }
  }
  if (computed.empty()) return;
  int64_t count = 0;
  for (Node* node : program.graph->nodes())
    if (const auto found = computed.find(node); found != computed.end()) freeze(program, node, found->second, count);
  eliminate_dead_code(program);
  program.erase_unused_attributes();
}

bool is_quantize(const Node& node) { return is_a(node, Family::kQuantize); }
bool is_dequantize(const Node& node) { return is_a(node, Family::kDequantize); }

void fold_quantized_constants(Program& program, Compat compat) {
  Graph& graph = *program.graph;
  const BlocksOnDisk as_the_weights(has_disk_blocks());
  std::vector<std::pair<Node*, Tensor>> frozen;
  {
    Constants constants(program);
    for (Node* node : graph.nodes()) {
      if (!is_quantize(*node) && !rounds_to_bf16(*node)) continue;
      if (compat == Compat::kNone && quantizes_dynamically(*node)) continue;
      if (std::optional<Tensor> value = constants.tensor(*node)) frozen.emplace_back(node, *value);
    }
  }
  int64_t count = 0;
  for (auto& [node, value] : frozen) freeze(program, node, value, count);
  eliminate_dead_code(program);
  program.erase_unused_attributes();
}

}  // namespace qdq
