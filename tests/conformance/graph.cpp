// Comparison of graphs up to the names of nodes.
#include "conformance/graph.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "conformance/conformance.h"

namespace qdq {

namespace {

using Json = nlohmann::json;

// A packet ("torch.ops.aten.clamp"), which PyTorch's rewrites leave behind, stands for any of its overloads.
bool same_target(const std::string& found, const std::string& expected) {
  return found == expected ||
         (std::count(expected.begin(), expected.end(), '.') == 3 && found.rfind(expected + ".", 0) == 0);
}

bool has_qparams(const Node& node) { return node.target().find("quantized_decomposed") != std::string::npos; }

class Comparison {
 public:
  Comparison(const std::string& what, const Graph& graph, const Json& expected, const NumberTolerance& tolerance)
      : what_(what), nodes_(graph.nodes()), expected_(expected), tolerance_(tolerance) {}

  Renaming run() {
    for (size_t i = 0; i < std::max(nodes_.size(), expected_.size()); ++i) {
      if (i >= expected_.size()) differ(what_, ": node ", nodes_[i]->name(), " should not be there");
      const Json& wanted = expected_[i];
      const auto name = wanted.at("name").get<std::string>();
      if (i >= nodes_.size()) differ(what_, ": node ", name, " is missing");
      same_node(*nodes_[i], wanted);
      renaming_.nodes[name] = nodes_[i];
    }
    for (size_t i = 0; i < nodes_.size(); ++i) same_users(*nodes_[i], expected_[i]);
    return std::move(renaming_);
  }

 private:
  template <class Found, class Wanted>
  [[noreturn]] void differs(const Json& wanted, const char* field, const Found& found, const Wanted& expected) const {
    differ(what_, ": node ", wanted.at("name").get<std::string>(), ": ", field, " is ", found, ", PyTorch has ",
           expected);
  }

  void same_node(const Node& node, const Json& wanted) {
    const auto op = wanted.at("op").get<std::string>();
    if (to_string(node.op()) != op)
      differs(wanted, "kind", concat(to_string(node.op()), " ", node.target()),
              concat(op, " ", wanted["target"].dump()));
    same_target_of(node, wanted);
    const Json args = wanted.value("args", Json::array());
    if (args.size() != node.args().size()) differs(wanted, "args", arguments_of(node), args.dump());
    for (size_t i = 0; i < args.size(); ++i) {
      const bool is_zero_point = has_qparams(node) && i == 2;
      if (!same(node.args()[i], args[i], is_zero_point)) differs(wanted, "args", arguments_of(node), args.dump());
    }
    const Json kwargs = wanted.value("kwargs", Json::object());
    if (kwargs.size() != node.kwargs().size()) differs(wanted, "number of kwargs", node.kwargs().size(), kwargs.dump());
    for (const auto& [key, value] : node.kwargs())
      if (!kwargs.contains(key) || !same(value, kwargs[key], false))
        differs(wanted, "kwargs", key + "=" + json_of_argument(value).dump(), kwargs.dump());
    const std::string module = node.meta.module_path().value_or("(unknown)");
    const std::string expected_module = wanted.contains("module") ? wanted["module"].get<std::string>() : "(unknown)";
    if (module != expected_module) differs(wanted, "module", "'" + module + "'", "'" + expected_module + "'");
    const int64_t handle = node.meta.debug_handle.value_or(0),
                  expected_handle = wanted.value("debug_handle", int64_t{0});
    if (handle != expected_handle) differs(wanted, "debug handle", handle, expected_handle);
  }

  // Functions and inputs have one name; attributes and modules that a pass created stand for each other, one for one.
  void same_target_of(const Node& node, const Json& wanted) {
    const auto target = wanted.at("target").get<std::string>();
    if (node.op() != Node::Op::kGetAttr && node.op() != Node::Op::kCallModule) {
      if (!same_target(node.target(), target)) differs(wanted, "target", node.target(), target);
      return;
    }
    const auto known = renaming_.targets.find(target);
    if (known != renaming_.targets.end()) {
      if (known->second != node.target()) differs(wanted, "target", node.target(), target);
      return;
    }
    for (const auto& [theirs, ours] : renaming_.targets)
      if (ours == node.target()) differs(wanted, "target", node.target(), target);
    renaming_.targets[target] = node.target();
  }

  std::string arguments_of(const Node& node) const {
    Json out = Json::array();
    for (const Argument& argument : node.args()) out.push_back(json_of_argument(argument));
    return out.dump();
  }

  bool same(const Argument& argument, const Json& wanted, bool is_zero_point) const {
    if (wanted.is_object() && wanted.contains("op"))
      return argument.is<std::string>() && argument.as<std::string>() == wanted["op"].get<std::string>();
    if (wanted.is_object() && wanted.contains("node")) {
      const auto found = renaming_.nodes.find(wanted["node"].get<std::string>());
      return found != renaming_.nodes.end() && found->second == argument.node();
    }
    if (wanted.is_array()) {
      if (!argument.is_list() || argument.list().size() != wanted.size()) return false;
      for (size_t i = 0; i < wanted.size(); ++i)
        if (!same(argument.list()[i], wanted[i], false)) return false;
      return true;
    }
    if (wanted.is_number_float() || (wanted.is_object() && wanted.contains("float"))) {
      if (!argument.is<double>()) return false;
      const double a = argument.as<double>(), b = number_of(wanted);
      return a == b || (std::isnan(a) && std::isnan(b)) || std::fabs(a - b) <= tolerance_.relative * std::fabs(b);
    }
    if (wanted.is_number_integer() && is_zero_point && argument.is<int64_t>())
      return std::abs(argument.as<int64_t>() - wanted.get<int64_t>()) <= tolerance_.integers;
    return json_of_argument(argument) == wanted;
  }

  void same_users(const Node& node, const Json& wanted) const {
    std::set<const Node*> found(node.users().begin(), node.users().end()), expected;
    for (const Json& user : wanted.at("users")) expected.insert(renaming_.nodes.at(user.get<std::string>()));
    if (found == expected) return;
    std::string names;
    for (const Node* user : node.users()) names += (names.empty() ? "" : ", ") + user->name();
    differs(wanted, "users", names, wanted["users"].dump());
  }

  std::string what_;
  std::vector<Node*> nodes_;
  const Json& expected_;
  NumberTolerance tolerance_;
  Renaming renaming_;
};

struct ArgumentToJson {
  Json operator()(std::monostate) const { return nullptr; }
  Json operator()(Node* node) const { return {{"node", node->name()}}; }
  Json operator()(bool value) const { return value; }
  Json operator()(int64_t value) const { return value; }
  Json operator()(double value) const {
    if (std::isnan(value)) return {{"float", "nan"}};
    if (std::isinf(value)) return {{"float", value > 0 ? "inf" : "-inf"}};
    return value;
  }
  Json operator()(const std::string& value) const { return value; }
  Json operator()(DType value) const { return {{"dtype", std::string(to_string(value))}}; }
  Json operator()(MemoryFormat value) const { return {{"memory_format", std::string(to_string(value))}}; }
  Json operator()(Layout) const { return {{"layout", "strided"}}; }
  Json operator()(const Device& value) const { return {{"device", value.name}}; }
  Json operator()(const Subprogram& program) const { return {{"graph", to_text(*program->graph)}}; }
  Json operator()(const Argument::List& list) const {
    Json out = Json::array();
    for (const Argument& element : list) out.push_back(json_of_argument(element));
    return out;
  }
};

}  // namespace

Json json_of_argument(const Argument& argument) { return std::visit(ArgumentToJson{}, argument.variant()); }

Renaming expect_same_graph(const std::string& what, const Graph& graph, const Json& expected,
                           const NumberTolerance& tolerance) {
  return Comparison(what, graph, expected, tolerance).run();
}

}  // namespace qdq
