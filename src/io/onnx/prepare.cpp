// Rewrites a program before it is written as ONNX, which knows no writing to tensors.
#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "io/onnx/export.h"
#include "io/onnx/import.h"
#include "op/facts.h"
#include "op/functional_write.h"
#include "op/infer.h"
#include "op/shared_storage.h"
#include "op/targets.h"

namespace qdq {
namespace {

constexpr std::string_view kDetachTo = "torch.ops.aten.detach_.default";
constexpr int64_t kLargestFolded = int64_t{1} << 24;  // elements

// Where nodes stand in the graph. What replaces a node has its place.
using Places = std::unordered_map<const Node*, size_t>;

// Whether a node reads what it is given, itself or through views, behind another node.
bool is_read_behind(const Node& value, const Node& write, const Places& places) {
  std::vector<const Node*> values = {&value};
  while (!values.empty()) {
    const Node* read = values.back();
    values.pop_back();
    for (const Node* user : read->users()) {
      if (user == &write) continue;
      if (places.at(user) > places.at(&write)) return true;
      if (is_view(*user)) values.push_back(user);
    }
  }
  return false;
}

bool is_read_once(const Node* value) {
  return value != nullptr && value->op() == Node::Op::kCallFunction && value->users().size() == 1;
}
// Whether the result may be the first argument with its bytes.
bool keeps_bytes(const Node& value) {
  const OpDef* op = op_of(value);
  return is_view(value) || (op != nullptr && op->roles.shares_qparams);
}

// The elements that slice or select takes of its axis, if they are known: from the first to the one behind the last.
std::optional<std::pair<int64_t, int64_t>> places_of(const Node& part) {
  const auto start = argument_of(part, 2), end = argument_of(part, 3);
  const std::optional<int64_t> first = start.is_none() ? 0 : start.integer();
  if (!first || *first < 0) return std::nullopt;
  if (part.is(op::kSelect)) return std::pair(*first, *first + 1);
  const std::optional<int64_t> last = end.is_none() ? INT64_MAX : end.integer();
  if (!last || *last < 0) return std::nullopt;
  return std::pair(*first, *last);
}

// Whether two views of a value take parts of one axis that have no element in common.
bool are_apart(const Node& a, const Node& b) {
  const auto axis = argument_of(a, 1).integer(), other = argument_of(b, 1).integer();
  if (a.target() != b.target() || !takes_part(a) || !axis || axis != other) return false;
  const auto first = places_of(a), second = places_of(b);
  return first && second && (first->second <= second->first || second->second <= first->first);
}

// What values are since the last write to them. Nodes are visited in their order; those that come read the values as
// they were at first.
class Versions {
 public:
  explicit Versions(Places& places) : places_(places) {}

  void visit(Node* node) {
    if (!newest_.empty())
      for (Node* input : node->input_nodes())
        if (Node* newest = newest_of(input); newest != input) node->replace_input_with(input, newest);
    if (is_view(*node)) views_[node->arg(0).node()].push_back(node);
  }

  // Whether nobody but the node sees what it writes to.
  bool is_alone(const Node& write) {
    const Node* value = write.arg(0).node();
    while (is_read_once(value) && origins_.count(value) == 0 && alone_.count(value) == 0 && keeps_bytes(*value))
      value = value->arg(0).node();
    return is_read_once(value) && origins_.count(value) == 0 && alone_.insert(&write).second;
  }

  // The value that a node writes to and the values that this is a view of, innermost first, as they were at first.
  // Empty where the write cannot be rewritten.
  std::vector<Node*> chain_of(const Node& write, Node* written) {
    std::vector<Node*> chain = {origin_of(written)};
    while (chain.back() != nullptr && chain.back()->op() == Node::Op::kCallFunction && is_view(*chain.back())) {
      const Node& view = *chain.back();
      if (!takes_part(view)) break;
      chain.push_back(origin_of(view.arg(0).node()));
    }
    if (chain.back() == nullptr || chain.back()->op() != Node::Op::kCallFunction) return {};
    for (size_t i = 0; i < chain.size(); ++i) {
      const Node* inner = i == 0 ? nullptr : chain[i - 1];
      if (has_other_views(chain[i], inner, write) || has_other_views(newest_of(chain[i]), inner, write)) return {};
    }
    return is_seen_alone(*chain.back(), write) ? chain : std::vector<Node*>();
  }

  // Writes to the value and its views become new ones. Erases the write, whose readers read the value.
  void make_functional(Graph& graph, Node* write, const std::vector<Node*>& chain) {
    std::vector<Node*> values;
    for (Node* value : chain) values.push_back(newest_of(value));
    const std::vector<Node*> made = make_written(graph, *write, chain, values);
    for (size_t i = 0; i < chain.size(); ++i) {
      places_.emplace(made[i], places_.at(write));
      origins_.emplace(made[i], chain[i]);
      newest_[chain[i]] = made[i];
    }
    write->replace_all_uses_with(chain[0]);
    erase(graph, write);
  }

  // A later node may get its address.
  void erase(Graph& graph, Node* node) {
    places_.erase(node);
    graph.erase(node);
  }

 private:
  Node* origin_of(Node* value) const {
    const auto found = origins_.find(value);
    return found == origins_.end() ? value : found->second;
  }
  Node* newest_of(Node* value) const {
    const auto found = newest_.find(value);
    return found == newest_.end() ? value : found->second;
  }
  // Whether nobody reads behind the write, but through `value`, what its elements are shared with: what it is a
  // transposed form of, say, or what a dropout is given.
  bool is_seen_alone(const Node& value, const Node& write) const {
    const Node* same = &value;
    for (Node* source; (source = source_of(*same)) != nullptr; same = source) {
      if (same->is(op::kGetItem)) return !is_view(*same);  // a part of a split would have to be put back
      const auto is_read = [&](const Node* user) {
        return user != same &&
               (places_.at(user) > places_.at(&write) || (is_view(*user) && is_read_behind(*user, write, places_)));
      };
      for (const Node* version : {static_cast<const Node*>(source), static_cast<const Node*>(origin_of(source))})
        if (std::any_of(version->users().begin(), version->users().end(), is_read)) return false;
      if (source->op() != Node::Op::kCallFunction) return false;
    }
    return true;
  }
  // Whether other views, which are older than the write and read behind it, would have to see it.
  bool has_other_views(const Node* value, const Node* inner, const Node& write) {
    const auto found = views_.find(value);
    if (found == views_.end()) return false;
    std::erase_if(found->second,
                  [&](const Node* view) { return view != inner && !is_read_behind(*view, write, places_); });
    return std::any_of(found->second.begin(), found->second.end(), [=](const Node* view) {
      return view != inner && (inner == nullptr || !are_apart(*view, *inner));
    });
  }

  Places& places_;
  std::unordered_map<const Node*, Node*> origins_;  // of what was made of a value
  std::unordered_map<const Node*, Node*> newest_;
  std::unordered_set<const Node*> alone_;                            // writes
  std::unordered_map<const Node*, std::vector<const Node*>> views_;  // of each value, as far as they may be read again
};

// What depends on constants alone, and is one tensor. ONNX dequantizes int32, but does not quantize to it.
bool is_foldable(const Node& node) {
  const std::vector<Node*> inputs = node.input_nodes();
  const TensorMeta* meta = node.meta.val.tensor();
  if (meta == nullptr) return false;
  if (has_onnx_form(node) && !(is_a(node, Family::kQuantize) && meta->dtype == DType::kS32)) return false;
  if (!std::all_of(inputs.begin(), inputs.end(), [](const Node* n) { return n->op() == Node::Op::kGetAttr; }))
    return false;
  const bool is_known =
      std::all_of(meta->sizes.begin(), meta->sizes.end(), [](const SymInt& size) { return size.is_constant(); });
  return is_known && *numel_of(meta->sizes).constant() <= kLargestFolded;
}

void fold(Program& program, Node* node, Versions& versions) {
  Attribute attribute;
  try {
    attribute.tensor = eval_constant(program, *node).contiguous();
  } catch (const Error&) {
    return;  // it draws random numbers, say: whoever writes it tells
  }
  attribute.name = program.unique_attribute_name(node->name());
  attribute.kind = Attribute::Kind::kConstant;
  attribute.persistent = false;
  const auto point = program.graph->insert_before(program.graph->first());
  Node* constant = program.graph->get_attr(attribute.name, attribute.name);
  constant->meta.val.value = meta_of(attribute.tensor);
  program.add_attribute(std::move(attribute));
  node->replace_all_uses_with(constant);
  versions.erase(*program.graph, node);
}

// Leaves out the buffers that the program only computes for its next run, which computes nothing else of them either,
// such as counts of batches: no output tells what they hold.
void leave_out_unread_state(Program& program) {
  Graph& graph = *program.graph;
  std::unordered_set<std::string> read;
  std::vector<Node*> writes;
  for (Node* node : graph.nodes()) {
    if (node->op() != Node::Op::kGetAttr) continue;
    for (Node* user : node->users())
      if (user->users().empty() && written_by(*user) == std::vector<Node*>{node}) writes.push_back(user);
      else read.insert(node->target());
  }
  for (Node* write : writes)
    if (read.count(write->arg(0).node()->target()) == 0) graph.erase(write);
  graph.eliminate_dead_code();
  std::erase_if(program.buffer_mutations, [&](const BufferMutation& each) { return read.count(each.buffer) == 0; });
}

}  // namespace

bool writes_alone(const Node* input) {
  while (is_read_once(input) && keeps_bytes(*input)) input = input->arg(0).node();
  return is_read_once(input);
}

std::unordered_set<const Node*> prepare_to_write(Program& program) {
  leave_out_unread_state(program);
  Places places;
  const std::vector<Node*> nodes = program.graph->nodes();
  for (Node* node : nodes) places.emplace(node, places.size());
  Versions versions(places);
  std::unordered_set<const Node*> refused;
  for (Node* node : nodes) {
    Node* first = node->args().empty() ? nullptr : node->arg(0).node();
    versions.visit(node);
    if (node->op() != Node::Op::kCallFunction || op_of(*node) == nullptr) continue;
    if (node->is(kDetachTo)) {
      node->replace_all_uses_with(first);
      versions.erase(*program.graph, node);
      continue;
    }
    const auto& arguments = op_of(*node)->schema->arguments;
    const bool writes = first != nullptr && !arguments.empty() && arguments[0].is_mutated;
    if (!writes && is_foldable(*node)) fold(program, node, versions);
    if (!writes || versions.is_alone(*node)) continue;
    const std::vector<Node*> chain =
        has_functional_form(*node) ? versions.chain_of(*node, first) : std::vector<Node*>();
    if (chain.empty()) refused.insert(node);
    else versions.make_functional(*program.graph, node, chain);
  }
  program.graph->eliminate_dead_code();
  std::unordered_set<const Node*> out;
  for (const Node* node : program.graph->nodes())
    if (refused.count(node) != 0) out.insert(node);
  return out;
}

}  // namespace qdq
