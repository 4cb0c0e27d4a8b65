// Subgraph matching by walking from the returned node towards the inputs.
#include "graph/match.h"

#include <algorithm>
#include <optional>
#include <unordered_set>

namespace qdq {

namespace {

const Node* returned_node(const Graph& pattern) {
  const Argument& output = pattern.output_node()->arg(0);
  const Argument* value = output.is_list() && output.list().size() == 1 ? &output.list()[0] : &output;
  QDQ_CHECK(value->is_node() && value->node()->op() == Node::Op::kCallFunction, kInvalidArgument,
            "a pattern must return the result of one call");
  return value->node();
}

// "torch.ops.aten.clamp" matches "torch.ops.aten.clamp.default".
bool same_target(const std::string& pattern, const std::string& target) {
  return target == pattern || (target.size() > pattern.size() && target.compare(0, pattern.size(), pattern) == 0 && target[pattern.size()] == '.' &&
                               target.find('.', pattern.size() + 1) == std::string::npos && std::count(pattern.begin(), pattern.end(), '.') == 3);
}

class Matcher {
 public:
  Matcher(const Graph& pattern, const MatchOptions& options) : returned_(returned_node(pattern)), options_(options) {}

  std::optional<Match> at(Node* node) {
    match_ = {};
    taken_.clear();
    match_.output = node;
    if (!same_node(returned_, node) || !is_contained()) return std::nullopt;
    return std::move(match_);
  }

 private:
  bool same_node(const Node* pattern, Node* node) {
    const auto known = match_.nodes.find(pattern);
    if (known != match_.nodes.end()) return known->second == node;
    const auto bound = match_.placeholders.find(pattern);
    if (bound != match_.placeholders.end()) return bound->second == Argument(node);
    if (taken_.count(node)) return false;
    if (pattern->op() == Node::Op::kPlaceholder) {
      match_.placeholders.emplace(pattern, node);
      taken_.insert(node);
      return true;
    }
    if (pattern->op() != node->op() || !same_target(pattern->target(), node->target())) return false;
    match_.nodes.emplace(pattern, node);
    taken_.insert(node);
    if (pattern->args().size() != node->args().size() || pattern->kwargs().size() != node->kwargs().size()) return false;
    for (size_t i = 0; i < pattern->args().size(); ++i)
      if (!same(pattern->args()[i], node->args()[i])) return false;
    for (const auto& [name, value] : pattern->kwargs()) {
      const Argument* other = node->kwarg(name);
      if (other == nullptr || !same(value, *other)) return false;
    }
    return true;
  }

  bool same(const Argument& pattern, const Argument& argument) {
    if (pattern.is_node() && argument.is_node()) return same_node(pattern.node(), argument.node());
    if (pattern.is_node()) {
      if (pattern.node()->op() != Node::Op::kPlaceholder) return false;
      const auto [bound, is_new] = match_.placeholders.emplace(pattern.node(), argument);
      return is_new || bound->second == argument;
    }
    if (argument.is_node()) return false;
    if (pattern.is_list() && argument.is_list()) {
      if (pattern.list().size() != argument.list().size()) return options_.ignore_literals;
      for (size_t i = 0; i < pattern.list().size(); ++i)
        if (!same(pattern.list()[i], argument.list()[i])) return false;
      return true;
    }
    return options_.ignore_literals || pattern == argument;
  }

  bool is_contained() const {
    std::unordered_set<const Node*> inside;
    for (const auto& [pattern, node] : match_.nodes) inside.insert(node);
    for (const auto& [pattern, node] : match_.nodes)
      if (pattern != returned_)
        for (const Node* user : node->users())
          if (!inside.count(user)) return false;
    return true;
  }

  const Node* returned_;
  MatchOptions options_;
  Match match_;
  std::unordered_set<const Node*> taken_;
};

Node* first_user(Node* node) {
  for (Node* after = node->next(); after != nullptr; after = after->next())
    if (std::find(node->users().begin(), node->users().end(), after) != node->users().end()) return after;
  return node->next();
}

}  // namespace

std::vector<Match> find_matches(const Graph& graph, const Graph& pattern, const MatchOptions& options) {
  Matcher matcher(pattern, options);
  std::vector<Match> out;
  std::unordered_set<const Node*> taken;
  for (Node* node : graph.nodes()) {
    if (node->op() != Node::Op::kCallFunction) continue;
    std::optional<Match> match = matcher.at(node);
    if (!match || (options.accept && !options.accept(*match))) continue;
    if (std::any_of(match->nodes.begin(), match->nodes.end(), [&](const auto& entry) { return taken.count(entry.second); })) continue;
    for (const auto& [of_pattern, of_graph] : match->nodes) taken.insert(of_graph);
    out.push_back(std::move(*match));
  }
  return out;
}

size_t replace_pattern(Graph& graph, const Graph& pattern, const Graph& replacement, const std::function<void(Node&)>& new_node,
                       const MatchOptions& options) {
  const std::vector<Node*> from = pattern.placeholders(), to = replacement.placeholders();
  QDQ_CHECK(from.size() == to.size(), kInvalidArgument, "the pattern has ", from.size(), " placeholders and its replacement ", to.size());
  std::unordered_map<const Node*, Node*> replaced;  // results of earlier matches that a later one reads
  const std::vector<Match> matches = find_matches(graph, pattern, options);
  for (const Match& match : matches) {
    std::unordered_map<const Node*, Argument> copies;
    for (size_t i = 0; i < from.size(); ++i) {
      const auto bound = match.placeholders.find(from[i]);
      Argument value = bound == match.placeholders.end() ? Argument() : bound->second;
      if (const auto moved = replaced.find(value.node()); value.node() && moved != replaced.end()) value = moved->second;
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
      const auto point = graph.insert_before(first_user(match.output));
      for (const Node* node : replacement.nodes()) {
        if (node->op() != Node::Op::kCallFunction) continue;
        std::vector<Argument> args;
        for (const Argument& argument : node->args()) args.push_back(copy(argument));
        Node::Kwargs kwargs;
        for (const auto& [name, value] : node->kwargs()) kwargs.emplace_back(name, copy(value));
        Node* created = graph.create(Node::Op::kCallFunction, node->target(), std::move(args), std::move(kwargs), node->name());
        if (new_node) new_node(*created);
        copies[node] = created;
      }
    }
    Node* result = copies.at(returned_node(replacement)).node();
    match.output->replace_all_uses_with(result);
    replaced[match.output] = result;
    const std::vector<Node*> order = pattern.nodes();
    for (auto node = order.rbegin(); node != order.rend(); ++node)
      if (const auto found = match.nodes.find(*node); found != match.nodes.end()) graph.erase(found->second);
  }
  return matches.size();
}

}  // namespace qdq
