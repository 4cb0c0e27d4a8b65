// Which operators of a program the calls of a case's traced graph are.
#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <unordered_set>
#include <vector>

#include "conformance/conformance.h"
#include "format/json.h"
#include "graph/source_partition.h"
#include "io/pt2.h"
#include "quant/fx/traced_calls.h"
#include "recipe/recipe_fx.h"

namespace qdq::conformance {

using Json = nlohmann::json;

// A node of a graph in a case, with what its arguments are.
inline const Json& node_of(const Json& graph, const std::string& name) {
  for (const Json& node : graph)
    if (node.at("name") == name) return node;
  differ("the case's graph has no node ", name);
}

inline void nodes_in(const Json& argument, std::vector<std::string>& out) {
  if (argument.is_object() && argument.contains("node")) out.push_back(argument["node"].get<std::string>());
  else if (argument.is_structured())
    for (const Json& element : argument) nodes_in(element, out);
}

inline std::vector<std::string> inputs_of(const Json& node) {
  std::vector<std::string> out;
  nodes_in(node.value("args", Json::array()), out);
  nodes_in(node.value("kwargs", Json::object()), out);
  return out;
}

// The nodes that the output depends on. A tracer keeps what nobody reads, with its observers; a program does not.
inline std::set<std::string> names_that_are_read(const Json& graph) {
  std::set<std::string> out;
  for (size_t i = graph.size(); i-- > 0;) {
    const auto name = graph[i].at("name").get<std::string>();
    if (graph[i].at("op") != "output" && !out.contains(name)) continue;
    for (const std::string& input : inputs_of(graph[i])) out.insert(input);
  }
  return out;
}

class CaseCalls {
 protected:
  // All inputs are multiplied by 1 + `move`.
  CaseCalls(const ConformanceCase& c, double move)
      : case_(c), move_(move), recipe_(c.json().at("recipe")), expected_(c.json().at("expected")),
        float_(load_pt2(c.read("model.pt2"))) {}

  PrepareCustomConfig custom_config() const {
    const Json custom = recipe_.value("prepare_custom_config", Json::object());
    return parse_prepare_custom_config(format::Json::parse(custom.dump()), "the recipe");
  }

  // The function that a node of the traced graph calls. The pools that may return indices, too, are written as what
  // dispatches them, and then the name of the node tells.
  static std::string function_of(const Json& wanted) {
    const auto target = wanted.at("target").get<std::string>();
    if (target != "torch.nn.functional.boolean_dispatch.<locals>.fn") return source_name(target);
    const auto name = wanted.at("name").get<std::string>();
    const size_t number = name.find_last_not_of("0123456789");
    const bool is_numbered = number + 1 < name.size() && name[number] == '_';
    return concat("torch.nn.functional.", is_numbered ? name.substr(0, number) : name);
  }

  bool is_call(const Json& wanted, const TracedCall& call) const {
    const auto target = wanted.at("target").get<std::string>();
    if (wanted.at("op") == "call_module") return call.kind == TracedCall::Kind::kModule && call.path == target;
    return call.kind != TracedCall::Kind::kModule && call.type == function_of(wanted);
  }

  // The nodes of a call that others read.
  static std::vector<Node*> results_of(const TracedCall& call) {
    std::vector<Node*> out;
    for (Node* node : call.nodes)
      if (std::any_of(node->users().begin(), node->users().end(), [&](const Node* user) {
            return std::find(call.nodes.begin(), call.nodes.end(), user) == call.nodes.end();
          }))
        out.push_back(node);
    return out;
  }

  static bool depends_on(const Node* node, const Node* source) {
    if (node == source) return true;
    const std::vector<Node*> inputs = node->input_nodes();
    return std::any_of(inputs.begin(), inputs.end(), [&](const Node* input) { return depends_on(input, source); });
  }

  // The results of an attention in its order: what its last linear layer gives, and the shares.
  static std::vector<Node*> results_of_attention(const TracedCall& call) {
    std::vector<Node*> out = results_of(call);
    const auto last = std::find_if(call.nodes.rbegin(), call.nodes.rend(), [](const Node* node) {
      return node->target().find(".linear.") != std::string::npos;
    });
    if (last != call.nodes.rend())
      std::stable_partition(out.begin(), out.end(), [&](const Node* node) { return depends_on(node, *last); });
    return out;
  }

  // One of the results of a call; null if it is something else. The states of an LSTM are a pair within its results.
  Node* part_of(const Json& wanted, const std::vector<std::string>& inputs) {
    if (inputs.empty()) return nullptr;
    const Json& which = wanted.at("args").size() > 1 ? wanted["args"][1] : Json();
    const bool is_field =
        wanted.at("target") == "builtins.getattr" && (which == "values" || which == "indices");  // of torch.max
    if (!is_field && (wanted.at("target") != "operator.getitem" || !which.is_number_integer())) return nullptr;
    auto index = is_field ? int64_t{which == "indices"} : which.get<int64_t>();
    std::string source = inputs[0];
    const auto pair = states_.find(source);
    if (pair != states_.end()) {
      source = pair->second;
      ++index;
    }
    const auto call = calls_.find(source);
    if (call == calls_.end()) return nullptr;
    if (pair == states_.end() && index == 1 && call->second.type == "torch.nn.modules.rnn.LSTM")
      states_[wanted.at("name").get<std::string>()] = source;
    for (Node* node : results_of(call->second))
      if (node->is("operator.getitem") && node->arg(1).integer() == index) return node;
    if (call->second.type != "torch.nn.modules.activation.MultiheadAttention") return nullptr;
    const std::vector<Node*> results = results_of_attention(call->second);
    return static_cast<size_t>(index) < results.size() ? results[static_cast<size_t>(index)] : nullptr;
  }

  // x.size(0), x.shape and what is computed from them.
  bool is_number(const Json& node) const {
    if (node.at("target") == "size" || node.at("target") == "getattr" || node.at("target") == "builtins.getattr")
      return true;
    const std::vector<std::string> inputs = inputs_of(node);
    return !inputs.empty() && std::all_of(inputs.begin(), inputs.end(),
                                          [&](const std::string& input) { return !values_.contains(input); });
  }

  // A constant that the tracer made of what it had computed itself: what the reader's operators see of that kind, and
  // the case has not named yet.
  void name_constants(const Json& wanted, const TracedCall& call, const std::unordered_set<const Node*>& constants) {
    std::vector<const Node*> seen;
    for (const Node* node : call.nodes)
      for (const Node* input : node->input_nodes())
        if (constants.count(input) && std::find(seen.begin(), seen.end(), input) == seen.end()) seen.push_back(input);
    for (const std::string& input : inputs_of(wanted)) {
      if (const auto named = values_.find(input); named != values_.end())
        std::erase_if(seen, [&](const Node* node) { return node->name() == named->second; });
    }
    for (const std::string& input : inputs_of(wanted)) {
      if (!unnamed_.contains(input) || seen.empty()) continue;
      values_[input] = seen.front()->name();
      unnamed_.erase(input);
      seen.erase(seen.begin());
    }
  }

  // Which operators a node of the traced graph became, and which one gives its value. Results are taken out of lists
  // where the trace does it, and as often: a program does not tell, and what observes them sees them in that order.
  void find_calls() {
    const std::unordered_set<const Node*> constants = untraced_constants(float_);
    const PrepareCustomConfig custom = custom_config();
    const TracerScope scope{
        "", "", [&](const std::string& path, const std::string& type) { return custom.is_non_traceable(path, type); }};
    std::vector<TracedCall> calls = traced_calls(float_, scope);
    const std::vector<Node*> placeholders = float_.graph->placeholders();
    std::vector<std::pair<Node*, Node*>> moves;
    std::set<const Node*> taken;
    std::map<std::string, std::pair<Node*, Node*>> taken_again;  // the result, and what gives it a second time
    size_t next = 0, input = 0;
    for (const Json& wanted : expected_.at("traced")) {
      const auto name = wanted.at("name").get<std::string>(), op = wanted.at("op").get<std::string>();
      if (op == "placeholder") {
        if (input == placeholders.size()) differ("the program has fewer inputs than the traced graph");
        values_[name] = placeholders[input++]->name();
      } else if (op == "get_attr") {
        for (const Node* node : float_.graph->nodes())
          if (node->op() == Node::Op::kGetAttr && node->target() == wanted.at("target").get<std::string>())
            values_[name] = node->name();
        if (!values_.contains(name)) unnamed_.insert(name);
      } else if (op != "output") {
        const std::vector<std::string> inputs = inputs_of(wanted);
        if (Node* part = part_of(wanted, inputs)) {
          values_[name] = part->name();
          if (!part->is("operator.getitem") || next == calls.size()) continue;
          if (!taken.insert(part).second) {
            const auto point = float_.graph->insert_before(part);
            Node* again = float_.graph->call(part->target(), part->args());
            again->meta = part->meta;
            taken_again[name] = {part, again};
            values_[name] = again->name();
            part = again;
          }
          moves.emplace_back(part, calls[next].nodes[0]);
          continue;
        }
        if (next < calls.size() && is_call(wanted, calls[next])) {
          if (calls[next].output) values_[name] = calls[next].output->name();
          name_constants(wanted, calls[next], constants);
          for (const std::string& read : inputs)
            if (const auto again = taken_again.find(read); again != taken_again.end())
              for (Node* node : calls[next].nodes) node->replace_input_with(again->second.first, again->second.second);
          calls_[name] = calls[next++];
        } else {
          // Nothing that runs: it hands on its input, or is a number that the program knows, or nobody reads it.
          if (is_number(wanted)) continue;
          if (inputs.empty()) differ("the call ", name, " (", wanted["target"].dump(), ") is missing");
          if (values_.contains(inputs[0])) values_[name] = values_.at(inputs[0]);
        }
      }
    }
    if (next < calls.size())
      differ("the traced graph has no call ", calls[next].path, " ", calls[next].type, " (node ",
             calls[next].nodes[0]->name(), ")");
    for (const auto& [part, place] : moves) float_.graph->move_before(part, place);
  }

  const ConformanceCase& case_;
  double move_;
  const Json& recipe_;
  const Json& expected_;
  Program float_;
  const Program* program_ = nullptr;           // the one that is being compared
  std::map<std::string, std::string> values_;  // node of the traced graph -> the node here that gives its value
  std::map<std::string, TracedCall> calls_;    // node of the traced graph -> its operators

 private:
  std::map<std::string, std::string> states_;  // node that is the pair of an LSTM's states -> the LSTM's call
  std::set<std::string> unnamed_;              // constants of the tracer whose values have not been met yet
};

}  // namespace qdq::conformance
