#include "lower/mutable_buffers.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "op/facts.h"
#include "op/functional_write.h"
#include "op/op.h"
#include "op/shared_storage.h"
#include "op/targets.h"

namespace qdq {
namespace {

using Places = std::unordered_map<const Node*, size_t>;

Places places_of(const Graph& graph) {
  Places places;
  for (const Node* node : graph.nodes()) places.emplace(node, places.size());
  return places;
}

// The nodes that read each buffer.
using Readers = std::unordered_map<std::string_view, std::vector<Node*>>;

Readers readers_of(const Graph& graph) {
  Readers readers;
  for (Node* node : graph.nodes())
    if (node->op() == Node::Op::kGetAttr) readers[node->target()].push_back(node);
  return readers;
}

std::unordered_set<std::string_view> mutated_buffers(const Program& program) {
  std::unordered_set<std::string_view> names;
  for (const BufferMutation& mutation : program.buffer_mutations) names.insert(mutation.buffer);
  return names;
}

// The get_attr node behind views; null for other values.
Node* buffer_behind(Node* node) {
  while (node != nullptr && is_view(*node)) node = node->arg(0).node();
  return node != nullptr && node->op() == Node::Op::kGetAttr ? node : nullptr;
}

constexpr size_t kBehindAll = SIZE_MAX;

// The last place where a value is read, through views too. A value that is returned is read behind all.
size_t last_read(const Node& node, const Places& places, const Node* but) {
  size_t last = 0;
  std::vector<const Node*> values = {&node};
  while (!values.empty()) {
    const Node* value = values.back();
    values.pop_back();
    for (const Node* user : value->users()) {
      if (user == but) continue;
      last = std::max(last, user->op() == Node::Op::kOutput ? kBehindAll : places.at(user));
      if (is_view(*user)) values.push_back(user);
    }
  }
  return last;
}

// One write to a buffer: `node` writes to the buffer itself, or to a part of it that `part` takes.
struct Write {
  Node* node;
  Node* part;
  std::string buffer;
};

std::optional<Write> write_of(Node& node) {
  const std::vector<Node*> written = written_by(node);
  Node* to = written.empty() ? nullptr : written[0];
  Node* source = buffer_behind(to);
  if (source == nullptr) return std::nullopt;
  return Write{&node, to == source ? nullptr : to, source->target()};
}

// Whether there is a functional operator for it.
bool can_be_functional(const Write& write) {
  if (written_by(*write.node).size() != 1 || !has_functional_form(*write.node)) return false;
  if (write.part == nullptr) return true;
  return write.node->is(op::kCopyTo) && takes_part(*write.part) &&
         write.part->arg(0).node()->op() == Node::Op::kGetAttr && write.node->users().empty();
}

std::vector<Write> writes_of(const Program& program) {
  std::vector<Write> writes;
  for (Node* node : program.graph->nodes())
    if (std::optional<Write> write = write_of(*node)) writes.push_back(std::move(*write));
  return writes;
}

// Whether a view of the buffer that is older than a write to it is read behind that write.
bool has_stale_view(const Readers& readers, const Write& write, const Places& places) {
  const size_t at = places.at(write.node);
  for (const Node* node : readers.at(write.buffer))
    for (const Node* user : node->users())
      if (is_view(*user) && places.at(user) < at && last_read(*user, places, write.node) > at) return true;
  return false;
}

bool is_whole_slice(const Node& node) {
  if (!node.is(op::kSlice) || !node.kwargs().empty()) return false;
  const std::optional<int64_t> start = node.arg(2).is_none() ? 0 : node.arg(2).integer();
  const std::optional<int64_t> end = node.arg(3).is_none() ? INT64_MAX : node.arg(3).integer();
  const std::optional<int64_t> step = node.arg(4).is_none() ? 1 : node.arg(4).integer();
  return start == 0 && end == INT64_MAX && step == 1;
}

void drop_views_of_all(Program& program) {
  for (Node* node : program.graph->nodes()) {
    const bool is_same = is_whole_slice(*node) || node->is("torch.ops.aten.alias.default");
    Node* x = is_same ? node->arg(0).node() : nullptr;
    if (x == nullptr || buffer_behind(x) == nullptr) continue;
    node->replace_all_uses_with(x);
    program.graph->erase(node);
  }
}

// Gives the mutation's operator the form that writes into the buffer, if there is one. What replaces it has its place.
bool write_into(Program& program, Node& node, Node& buffer, Places& places) {
  if (node.is(op::kSliceScatter) && node.kwargs().empty()) {
    const auto point = program.graph->insert_before(&node);
    std::vector<Argument> part{&buffer};
    for (size_t i = 2; i < node.args().size(); ++i) part.push_back(node.arg(i));
    Node* slice = program.graph->call(std::string(op::kSlice), std::move(part));
    Node* write = program.graph->call(std::string(op::kCopyTo), {slice, node.arg(1)});
    node.replace_all_uses_with(&buffer);
    const size_t place = places.extract(&node).mapped();
    places.emplace(slice, place);
    places.emplace(write, place);
    program.graph->erase(&node);
    return true;
  }
  const OpDef* op = op_of(node);
  if (op == nullptr || op->in_place == nullptr || op->is_in_place()) return false;
  node.set_target(op->in_place->target);
  return true;
}

}  // namespace

std::vector<std::string> written_buffers(const Program& program) {
  std::vector<std::string> names;
  std::unordered_set<std::string> known;
  const auto add = [&](const std::string& name) {
    if (known.insert(name).second) names.push_back(name);
  };
  for (const BufferMutation& mutation : program.buffer_mutations) add(mutation.buffer);
  for (const Write& write : writes_of(program)) add(write.buffer);
  return names;
}

std::unordered_set<const Node*> written_values(const Program& program) {
  const SharedStorage storage(*program.graph);
  std::unordered_set<const Node*> roots, written;
  for (const Node* node : program.graph->nodes())
    for (const Node* value : written_by(*node)) roots.insert(storage.root_of(value));
  const std::unordered_set<std::string_view> mutated = mutated_buffers(program);
  for (const Node* node : program.graph->nodes()) {
    const bool is_mutated = node->op() == Node::Op::kGetAttr && mutated.count(node->target()) != 0;
    if (is_mutated || roots.count(storage.root_of(node)) != 0) written.insert(node);
  }
  return written;
}

void make_functional(Program& program) {
  if (writes_of(program).empty()) return;
  drop_views_of_all(program);
  const std::vector<Write> writes = writes_of(program);
  const Places places = places_of(*program.graph);
  const Readers readers = readers_of(*program.graph);
  const std::unordered_set<std::string_view> mutated = mutated_buffers(program);
  for (const Write& write : writes)
    if (!can_be_functional(write) || has_stale_view(readers, write, places) || mutated.count(write.buffer) != 0) return;
  std::map<std::string, Node*> values;  // of the buffers that have been written
  size_t next = 0;
  for (Node* node : program.graph->nodes()) {
    for (Node* input : node->input_nodes()) {
      const auto value = input->op() == Node::Op::kGetAttr ? values.find(input->target()) : values.end();
      if (value != values.end()) node->replace_input_with(input, value->second);
    }
    if (next == writes.size() || node != writes[next].node) continue;
    const Write& write = writes[next++];
    std::vector<Node*> chain = {node->arg(0).node()};
    if (write.part != nullptr) chain.push_back(write.part->arg(0).node());
    Node* made = values[write.buffer] = make_written(*program.graph, *node, chain, chain).back();
    node->replace_all_uses_with(made);
    program.graph->erase(node);
  }
  for (const auto& [buffer, node] : values) program.buffer_mutations.push_back({node->name(), buffer});
}

void make_outputs_of_mutations(Program& program) {
  if (program.buffer_mutations.empty()) return;
  Node* output = program.graph->output_node();
  Argument::List results = output->arg(0).list();
  for (const BufferMutation& mutation : program.buffer_mutations)
    results.emplace_back(program.graph->find(mutation.node));
  output->set_args({Argument(std::move(results))});
}

void end_as_outputs(Program& program) {
  if (program.buffer_mutations.empty()) return;
  Node* output = program.graph->output_node();
  Argument::List results = output->arg(0).list();
  const size_t first = results.size() - program.buffer_mutations.size();
  for (size_t i = 0; i < program.buffer_mutations.size(); ++i)
    program.buffer_mutations[i].node = results[first + i].node()->name();
  results.resize(first);
  output->set_args({Argument(std::move(results))});
}

void write_in_place(Program& program) {
  const std::vector<BufferMutation> mutations = std::exchange(program.buffer_mutations, {});
  std::unordered_map<std::string_view, size_t> times;
  for (const BufferMutation& mutation : mutations) ++times[mutation.node];
  Places places = places_of(*program.graph);
  const Readers readers = readers_of(*program.graph);
  for (const BufferMutation& mutation : mutations) {
    Node* node = program.graph->find(mutation.node);
    Node* buffer = node == nullptr ? nullptr : node->arg(0).node();
    const bool fits = buffer != nullptr && buffer->op() == Node::Op::kGetAttr && buffer->target() == mutation.buffer &&
                      times.at(mutation.node) == 1 && last_read(*node, places, nullptr) < kBehindAll;
    const auto is_read_before = [&](const Node* other) { return last_read(*other, places, node) < places.at(node); };
    const bool can =
        fits && std::all_of(readers.at(mutation.buffer).begin(), readers.at(mutation.buffer).end(), is_read_before);
    if (!can || !write_into(program, *node, *buffer, places)) program.buffer_mutations.push_back(mutation);
  }
}

}  // namespace qdq
