#include "lower/fold_constants.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "exec/interpreter.h"
#include "op/facts.h"
#include "op/infer.h"
#include "op/op.h"
#include "op/shared_storage.h"
#include "op/targets.h"

namespace qdq {
namespace {

constexpr int64_t kLargestCreated = int64_t{1} << 22;  // elements; a mask of 2048 x 2048

// A new tensor whose elements follow from its sizes, which are known, and numbers.
bool is_created(const Node& node) {
  if (!is_a(node, Family::kCreation)) return false;
  const std::string_view name = base_name(node.target());
  const TensorMeta* meta = node.meta.val.tensor();
  if (meta == nullptr || name.find("rand") != std::string_view::npos || name.starts_with("empty") ||
      name.starts_with("new_empty"))
    return false;
  const bool reads_at_most_its_sizes =
      node.input_nodes().empty() || name.starts_with("new_") || name.ends_with("_like");
  const std::optional<int64_t> count = numel_of(meta->sizes).constant();
  return reads_at_most_its_sizes && count && *count <= kLargestCreated;
}

// A write that changes nothing if it comes again.
bool is_idempotent(const Node& node) {
  static constexpr std::string_view kNames[] = {"zero_", "fill_", "copy_", "masked_fill_"};
  return std::find(std::begin(kNames), std::end(kNames), base_name(node.target())) != std::end(kNames);
}

class ConstantNodes {
 public:
  explicit ConstantNodes(const Program& program) : program_(program), storage_(*program.graph) {
    for (const BufferMutation& mutation : program.buffer_mutations) changing_attributes_.insert(mutation.buffer);
    find_changes();
    find_followers();
  }

  bool has(const Node* node) const { return constant_.count(node) != 0; }
  // Of constants: whether the program writes to it, or to what it is made of.
  bool follows_from_writes(const Node* node) const { return followers_.count(node) != 0; }

 private:
  // A value that may be written to, and whose bytes views of it share.
  struct Root {
    std::vector<const Node*> values;
    size_t last_write = 0, first_read = std::numeric_limits<size_t>::max();  // read by what is no constant
    bool changes = false;
  };

  // All is constant but what is not by itself; from there on each node tells those that it makes change.
  void find_changes() {
    std::unordered_map<const Node*, size_t> places;
    const std::vector<Node*> nodes = program_.graph->nodes();
    for (const Node* node : nodes) {
      places.emplace(node, places.size());
      roots_[storage_.root_of(node)].values.push_back(node);
      for (const Node* written : written_by(*node)) roots_[storage_.root_of(written)].last_write = places.at(node);
    }
    for (const Node* node : nodes) {
      if (!can_be_constant(*node)) add_other(node);
      // An attribute keeps what is written for the next run.
      for (const Node* written : written_by(*node))
        if (storage_.root_of(written)->op() != Node::Op::kCallFunction && !is_idempotent(*node)) change(written);
    }
    while (!waiting_.empty()) {
      const Node* node = waiting_.back();
      waiting_.pop_back();
      for (const Node* user : node->users()) {
        if (!is_created(*user)) add_other(user);
        for (const Node* written : written_by(*user)) change(written);
      }
      // What is read before it is written has another value then.
      for (const Node* input : node->input_nodes()) {
        Root& root = roots_.at(storage_.root_of(input));
        root.first_read = std::min(root.first_read, places.at(node));
        if (root.first_read < root.last_write) change(input);
      }
    }
    for (const Node* node : nodes)
      if (others_.count(node) == 0) constant_.insert(node);
  }
  void add_other(const Node* node) {
    if (others_.insert(node).second) waiting_.push_back(node);
  }
  void change(const Node* value) {
    Root& root = roots_.at(storage_.root_of(value));
    if (std::exchange(root.changes, true)) return;
    for (const Node* node : root.values) add_other(node);
  }

  bool can_be_constant(const Node& node) const {
    if (node.op() == Node::Op::kGetAttr) return changing_attributes_.count(node.target()) == 0;
    if (node.op() != Node::Op::kCallFunction || find_op(node.target()) == nullptr) return false;
    return is_created(node) || !node.input_nodes().empty();
  }

  void find_followers() {
    for (const Node* node : program_.graph->nodes())
      if (has(node))
        for (const Node* written : written_by(*node)) followers_.insert(storage_.root_of(written));
    for (const Node* node : program_.graph->nodes()) {
      if (!has(node)) continue;
      const std::vector<Node*> inputs = node->input_nodes();
      if (followers_.count(storage_.root_of(node)) != 0 ||
          std::any_of(inputs.begin(), inputs.end(), [&](const Node* input) { return follows_from_writes(input); }))
        followers_.insert(node);
    }
  }

  const Program& program_;
  const SharedStorage storage_;
  std::unordered_set<std::string> changing_attributes_;
  std::unordered_map<const Node*, Root> roots_;
  std::unordered_set<const Node*> constant_, others_, followers_;
  std::vector<const Node*> waiting_;  // of the others, those that have told nobody yet
};

// The program of the constants alone, whose outputs are `roots`.
Program program_of(const Program& program, const ConstantNodes& constants, const std::vector<Node*>& roots) {
  Program out;
  out.attributes = program.attributes;
  std::unordered_map<const Node*, Node*> copies;
  // What a tensor is created like is not computed; an element stands for it.
  const auto stand_in = [&](const Node& like) {
    const TensorMeta& meta = *like.meta.val.tensor();
    Attribute attribute;
    attribute.name = out.unique_attribute_name("_like_" + like.name());
    Shape sizes;
    for (const SymInt& size : meta.sizes) sizes.push_back(size.constant().value_or(1));
    attribute.tensor = Tensor::full(Shape(sizes.size(), 1), meta.dtype, 0).expand(sizes);
    Node* node = out.graph->get_attr(attribute.name, attribute.name);
    out.add_attribute(std::move(attribute));
    return node;
  };
  for (const Node* node : program.graph->nodes()) {
    if (!constants.has(node)) continue;
    const auto copied = [&](Node* input) {
      const auto [known, is_new] = copies.emplace(input, nullptr);
      if (is_new) known->second = stand_in(*input);
      return known->second;
    };
    std::vector<Argument> args;
    for (const Argument& argument : node->args()) args.push_back(argument.map_nodes(copied));
    Node::Kwargs kwargs;
    for (const auto& [key, value] : node->kwargs()) kwargs.emplace_back(key, value.map_nodes(copied));
    if (node->op() == Node::Op::kGetAttr && constants.follows_from_writes(node)) {
      Tensor& tensor = out.find_attribute(node->target())->tensor;
      tensor = tensor.clone();  // the program's own stays
    }
    Node* copy = out.graph->create(node->op(), node->target(), std::move(args), std::move(kwargs), node->name());
    copy->meta = node->meta;
    copies[node] = copy;
  }
  Argument::List results;
  for (Node* root : roots) results.push_back(copies.at(root));
  out.graph->create(Node::Op::kOutput, "output", {Argument(std::move(results))});
  return out;
}

// Folds the outermost of those constants that are `chosen`, and leaves out what wrote to them.
void fold(Program& program, const ConstantNodes& constants, const std::function<bool(const Node*)>& chosen) {
  Graph& graph = *program.graph;
  std::vector<Node*> folded, roots;
  bool all_are_tensors = true;
  const auto is_other = [&](const Node* user) { return !constants.has(user) || !chosen(user); };
  for (Node* node : graph.nodes()) {
    const bool is_value = node->op() == Node::Op::kCallFunction || constants.follows_from_writes(node);
    if (!is_value || is_other(node)) continue;
    folded.push_back(node);
    if (std::none_of(node->users().begin(), node->users().end(), is_other)) continue;
    if (node->meta.val.is_tensor()) roots.push_back(node);
    else all_are_tensors = false;
  }
  if (roots.empty()) return;
  const std::vector<Tensor> values = Interpreter(program_of(program, constants, roots), {}).run({});
  for (size_t i = 0; i < roots.size(); ++i) {
    const std::string name = program.unique_attribute_name("_folded_" + roots[i]->name());
    program.add_attribute({name, values[i].contiguous(), Attribute::Kind::kBuffer});
    const auto point = graph.insert_before(roots[i]);
    Node* constant = graph.get_attr(name);
    constant->meta = roots[i]->meta;
    const auto returns = [](const Node* user) { return user->op() == Node::Op::kOutput; };
    if (std::any_of(roots[i]->users().begin(), roots[i]->users().end(), returns)) {
      Node* copy = graph.call(std::string(op::kClone), {constant});  // its owner may write to it
      copy->meta = constant->meta;
      roots[i]->replace_all_uses_with(copy, returns);
    }
    roots[i]->replace_all_uses_with(constant, is_other);
  }
  // Who reads a number of theirs still needs the writes.
  for (auto node = folded.rbegin(); node != folded.rend(); ++node)
    if ((*node)->users().empty() && (all_are_tensors || written_by(**node).empty())) graph.erase(*node);
  graph.eliminate_dead_code();
  program.erase_unused_attributes();
}

}  // namespace

void fold_constants(Program& program) {
  fold(program, ConstantNodes(program), [](const Node*) { return true; });
}

void fold_written_constants(Program& program) {
  const ConstantNodes constants(program);
  fold(program, constants, [&](const Node* node) { return constants.follows_from_writes(node); });
}

void fold_quantized_constants(Program& program) {
  const auto is_of_int32 = [](const Node* node) {
    const TensorMeta* integers = node->arg(0).node() ? node->arg(0).node()->meta.val.tensor() : nullptr;
    return is_a(*node, Family::kDequantize) && integers && integers->dtype == DType::kS32;
  };
  fold(program, ConstantNodes(program),
       [&](const Node* node) { return is_a(*node, Family::kQuantize) || is_of_int32(node); });
}

}  // namespace qdq
