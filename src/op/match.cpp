// Subgraph matching: from the values that a pattern returns towards its inputs.
#include "op/match.h"

#include <algorithm>
#include <unordered_set>

#include "op/op.h"

namespace qdq {

namespace {

const Node* returned_node(const Graph& pattern) {
  const Argument& output = pattern.output_node()->arg(0);
  const Argument* value = output.is_list() && output.list().size() == 1 ? &output.list()[0] : &output;
  QDQ_CHECK(value->is_node() && value->node()->op() == Node::Op::kCallFunction, kInvalidArgument,
            "a pattern to be replaced must return the result of one call");
  return value->node();
}

// "torch.ops.aten.clamp" matches "torch.ops.aten.clamp.default".
bool same_target(const std::string& pattern, const std::string& target) {
  return target == pattern ||
         (target.size() > pattern.size() && target.compare(0, pattern.size(), pattern) == 0 &&
          target[pattern.size()] == '.' && target.find('.', pattern.size() + 1) == std::string::npos &&
          std::count(pattern.begin(), pattern.end(), '.') == 3);
}

bool same_kind(const Node& pattern, const Node& node) {
  if (pattern.op() == Node::Op::kPlaceholder) return true;
  if (pattern.op() != node.op()) return false;
  return pattern.op() == Node::Op::kGetAttr || pattern.op() == Node::Op::kOutput ||
         same_target(pattern.target(), node.target());
}

bool same_kwarg_names(const Node& a, const Node& b) {
  return std::equal(a.kwargs().begin(), a.kwargs().end(), b.kwargs().begin(), b.kwargs().end(),
                    [](const auto& left, const auto& right) { return left.first == right.first; });
}

// All arguments in the order of the schema, with defaults where the call leaves them out.
std::vector<Argument> all_arguments(const Node& node, const Schema& schema) {
  std::vector<Argument> out;
  for (size_t i = 0; i < schema.arguments.size(); ++i) {
    const SchemaArgument& declared = schema.arguments[i];
    if (const Argument* given = node.kwarg(declared.name)) {
      out.push_back(*given);
    } else if (!declared.kwarg_only && i < node.args().size()) {
      out.push_back(node.args()[i]);
    } else {
      Argument value = declared.default_value.value_or(Argument());
      // "int[2] stride=1" means [1, 1].
      if (declared.is_list && declared.list_size > 0 && !value.is_list() && !value.is_none())
        value = Argument::List(static_cast<size_t>(declared.list_size), value);
      out.push_back(std::move(value));
    }
  }
  return out;
}

std::vector<Argument> own_arguments(const Node& node) {
  std::vector<Argument> out = node.args();
  for (const auto& [name, value] : node.kwargs()) out.push_back(value);
  return out;
}

class Matcher {
 public:
  Matcher(const Graph& graph, const Graph& pattern, const MatchOptions& options) : graph_(graph), options_(options) {
    QDQ_CHECK(pattern.size() > 0, kInvalidArgument, "a pattern must not be empty");
    const Node* output = pattern.output_node();
    for (const Node* node : pattern.nodes())
      QDQ_CHECK(node == output || !node->users().empty(), kInvalidArgument, "nobody uses the value of ", node->name(),
                " in the pattern; leave it out, or return it");
    returning_ = output->input_nodes();
    placeholders_ = pattern.placeholders();
    // What only the output uses is where a match begins.
    for (const Node* node : returning_)
      if (node->users().size() == 1) anchors_.push_back(node);
  }

  std::vector<Match> run() {
    if (!anchors_.empty()) from_anchor(0, {});
    std::unordered_set<const Node*> seen;
    std::vector<Match> out;
    for (State& state : found_) {
      if (!is_contained(state) || makes_circle(state)) continue;
      const bool overlaps = std::any_of(state.nodes_map.begin(), state.nodes_map.end(), [&](const auto& entry) {
        return is_inner(entry) && seen.count(entry.second.node());
      });
      if (overlaps && options_.remove_overlapping_matches) continue;
      Match match = result(std::move(state));
      if (options_.accept && !options_.accept(match)) continue;
      for (const auto& entry : match.nodes_map)
        if (is_inner(entry)) seen.insert(entry.second.node());
      out.push_back(std::move(match));
    }
    return out;
  }

 private:
  struct State {
    std::unordered_map<const Node*, Argument> nodes_map;
    std::unordered_set<const Node*> taken;
  };
  using Entry = std::pair<const Node* const, Argument>;
  static bool is_inner(const Entry& entry) { return entry.first->op() != Node::Op::kPlaceholder; }

  void from_anchor(size_t i, const State& before) {
    if (i == anchors_.size()) {
      const auto is_bound = [&](const Node* node) { return before.nodes_map.count(node) > 0; };
      if (std::all_of(returning_.begin(), returning_.end(), is_bound) &&
          std::all_of(placeholders_.begin(), placeholders_.end(), is_bound))
        found_.push_back(before);
      return;
    }
    for (Node* node : graph_.nodes()) {
      if (!same_kind(*anchors_[i], *node)) continue;
      State state = before;
      if (same_node(anchors_[i], node, state)) from_anchor(i + 1, state);
    }
  }

  bool same_node(const Node* pattern, Node* node, State& state) const {
    const auto known = state.nodes_map.find(pattern);
    if (known != state.nodes_map.end()) return known->second == Argument(node);
    if (state.taken.count(node) || !same_kind(*pattern, *node)) return false;
    state.nodes_map.emplace(pattern, node);
    state.taken.insert(node);
    if (pattern->op() == Node::Op::kPlaceholder) return true;
    if (pattern->args().size() == node->args().size() && same_kwarg_names(*pattern, *node))
      return same_arguments(own_arguments(*pattern), own_arguments(*node), state);
    const OpDef* op = node->op() == Node::Op::kCallFunction ? find_op(node->target()) : nullptr;
    return op && same_arguments(all_arguments(*pattern, *op->schema), all_arguments(*node, *op->schema), state);
  }

  bool same_arguments(const Argument::List& pattern, const Argument::List& arguments, State& state) const {
    if (pattern.size() != arguments.size()) return false;
    for (size_t i = 0; i < pattern.size(); ++i) {
      const Argument &wanted = pattern[i], &given = arguments[i];
      const bool same = wanted.is_node() && given.is_node() ? same_node(wanted.node(), given.node(), state)
                        : wanted.is_list() && given.is_list()
                            ? same_arguments(wanted.list(), given.list(), state)
                            : same_literal(wanted, given, state) || options_.ignore_literals;
      if (!same) return false;
    }
    return true;
  }

  static bool same_literal(const Argument& pattern, const Argument& argument, State& state) {
    if (!pattern.is_node()) return !argument.is_node() && pattern == argument;
    if (pattern.node()->op() != Node::Op::kPlaceholder) return false;
    const auto [bound, is_new] = state.nodes_map.emplace(pattern.node(), argument);
    return is_new || bound->second == argument;
  }

  bool is_contained(const State& state) const {
    std::unordered_set<const Node*> inside;
    for (const auto& entry : state.nodes_map)
      if (is_inner(entry)) inside.insert(entry.second.node());
    for (const auto& entry : state.nodes_map) {
      if (!is_inner(entry) || std::find(returning_.begin(), returning_.end(), entry.first) != returning_.end())
        continue;
      for (const Node* user : entry.second.node()->users())
        if (!inside.count(user)) return false;
    }
    return true;
  }

  // Whether a node outside of the match lies between two of its nodes, so that the match cannot be one operator
  // (torch/fx/passes/utils/fuser_utils.py, validate_partition).
  static bool makes_circle(const State& state) {
    std::unordered_set<const Node*> inside, visited;
    for (const auto& entry : state.nodes_map)
      if (is_inner(entry)) inside.insert(entry.second.node());
    std::vector<const Node*> behind;
    for (const Node* node : inside)
      for (const Node* user : node->users())
        if (!inside.count(user)) behind.push_back(user);
    while (!behind.empty()) {
      const Node* node = behind.back();
      behind.pop_back();
      if (inside.count(node)) return true;
      if (!visited.insert(node).second) continue;
      behind.insert(behind.end(), node->users().begin(), node->users().end());
    }
    return false;
  }

  Match result(State state) const {
    Match out;
    for (const Node* placeholder : placeholders_) out.placeholder_nodes.push_back(state.nodes_map.at(placeholder));
    for (const Node* node : returning_) out.returning_nodes.push_back(state.nodes_map.at(node).node());
    out.nodes_map = std::move(state.nodes_map);
    return out;
  }

  const Graph& graph_;
  const MatchOptions& options_;
  std::vector<Node*> returning_, placeholders_;
  std::vector<const Node*> anchors_;
  std::vector<State> found_;
};

Node* first_user(Node* node) {
  for (Node* after = node->next(); after != nullptr; after = after->next())
    if (std::find(node->users().begin(), node->users().end(), after) != node->users().end()) return after;
  return node->next();
}

}  // namespace

Node* Match::named(const std::string& name) const {
  const auto found =
      std::find_if(name_node_map.begin(), name_node_map.end(), [&](const auto& entry) { return entry.first == name; });
  QDQ_CHECK(found != name_node_map.end(), kInvalidArgument, "the pattern gives no node the name '", name, "'");
  return found->second;
}

std::vector<Match> find_matches(const Graph& graph, const Graph& pattern, const MatchOptions& options) {
  return Matcher(graph, pattern, options).run();
}

std::vector<Match> find_matches(const Graph& graph, const Pattern& pattern, const MatchOptions& options) {
  std::vector<Match> out = find_matches(graph, *pattern.graph, options);
  for (Match& match : out)
    for (const auto& [name, node] : pattern.names) {
      const auto found = match.nodes_map.find(node);
      QDQ_CHECK(found != match.nodes_map.end(), kInvalidArgument, "the name '", name,
                "' belongs to no node that the pattern matches");
      match.name_node_map.emplace_back(name, found->second.node());
    }
  return out;
}

size_t replace_pattern(Graph& graph, const Graph& pattern, const Graph& replacement,
                       const std::function<void(Node&)>& new_node, const MatchOptions& options) {
  const std::vector<Node*> from = pattern.placeholders(), to = replacement.placeholders();
  QDQ_CHECK(from.size() == to.size(), kInvalidArgument, "the pattern has ", from.size(),
            " placeholders and its replacement ", to.size());
  returned_node(pattern);
  std::unordered_map<const Node*, Node*> replaced;  // results of earlier matches that a later one reads
  const std::vector<Match> matches = find_matches(graph, pattern, options);
  for (const Match& match : matches) {
    Node* output = match.returning_nodes[0];
    std::unordered_map<const Node*, Argument> copies;
    for (size_t i = 0; i < from.size(); ++i) {
      Argument value = match.placeholder_nodes[i];
      if (const auto moved = replaced.find(value.node()); value.node() && moved != replaced.end())
        value = moved->second;
      copies[to[i]] = value;
    }
    const std::function<Argument(const Argument&)> copy = [&](const Argument& argument) -> Argument {
      if (argument.is_node()) return copies.at(argument.node());
      if (!argument.is_list()) return argument;
      Argument::List list;
      for (const Argument& element : argument.list()) list.push_back(copy(element));
      return list;
    };
    {
      const auto point = graph.insert_before(first_user(output));
      for (const Node* node : replacement.nodes()) {
        if (node->op() != Node::Op::kCallFunction) continue;
        std::vector<Argument> args;
        for (const Argument& argument : node->args()) args.push_back(copy(argument));
        Node::Kwargs kwargs;
        for (const auto& [name, value] : node->kwargs()) kwargs.emplace_back(name, copy(value));
        Node* created =
            graph.create(Node::Op::kCallFunction, node->target(), std::move(args), std::move(kwargs), node->name());
        if (new_node) new_node(*created);
        copies[node] = created;
      }
    }
    Node* result = copies.at(returned_node(replacement)).node();
    output->replace_all_uses_with(result);
    replaced[output] = result;
    const std::vector<Node*> order = pattern.nodes();
    for (auto node = order.rbegin(); node != order.rend(); ++node)
      if ((*node)->op() == Node::Op::kCallFunction) graph.erase(match.nodes_map.at(*node).node());
  }
  return matches.size();
}

}  // namespace qdq
