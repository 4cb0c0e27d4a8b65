#include "graph/program.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <unordered_set>

namespace qdq {

const Attribute* Program::find_attribute(std::string_view name) const {
  const size_t place = attributes.place_of(name);
  return place == attributes.size() ? nullptr : &attributes[place];
}

Attribute* Program::find_attribute(std::string_view name) {
  return const_cast<Attribute*>(static_cast<const Program*>(this)->find_attribute(name));
}

void Program::erase_attribute(std::string_view name) {
  attributes.erase_if([&](const Attribute& attribute) { return attribute.name == name; });
}

void Program::erase_unused_attributes() {
  std::unordered_set<std::string> used;
  for (const Node* node : graph->nodes())
    if (node->op() == Node::Op::kGetAttr) used.insert(node->target());
  for (const BufferMutation& mutation : buffer_mutations) used.insert(mutation.buffer);
  attributes.erase_if([&](const Attribute& attribute) { return used.count(attribute.name) == 0; });
}

const Tensor& Program::attribute_of(const Node& get_attr) const {
  const Attribute* attribute = find_attribute(get_attr.target());
  if (attribute == nullptr || !attribute->tensor.defined())
    throw Error(ErrorCode::kInvalidArgument,
                concat("node ", get_attr.name(), " reads the attribute '", get_attr.target(),
                       "', which the program does not have"),
                get_attr.name());
  return attribute->tensor;
}

Program Program::clone(std::unordered_map<const Node*, Node*>* copies) const {
  Program out;
  out.graph = graph->clone(copies);
  out.attributes = attributes;
  out.buffer_mutations = buffer_mutations;
  out.constant_inputs = constant_inputs;
  out.symbol_ranges = symbol_ranges;
  out.symbol_hints = symbol_hints;
  out.in_spec = in_spec;
  out.out_spec = out_spec;
  out.forward_arg_names = forward_arg_names;
  out.symbol_names = symbol_names;
  out.output_names = output_names;
  out.metadata = metadata;
  out.notes = notes;
  out.dialect = dialect;
  out.torch_version = torch_version;
  return out;
}

namespace {

// Python's repr of a float: the shortest text that reads back exactly.
std::string print_float(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char text[40];
  for (int digits = 1; digits <= 17; ++digits) {
    std::snprintf(text, sizeof text, "%.*g", digits, value);
    if (std::strtod(text, nullptr) == value) break;
  }
  std::string out = text;
  const double magnitude = std::fabs(value);
  const size_t exponent = out.find('e');
  if (exponent != std::string::npos && magnitude >= 1e-4 && magnitude < 1e16) {
    std::snprintf(text, sizeof text, "%.0f", value);
    out = text;
  }
  if (out.find_first_of(".en") == std::string::npos) out += ".0";
  return out;
}

struct ArgumentPrinter {
  std::string operator()(std::monostate) const { return "None"; }
  std::string operator()(Node* node) const { return "%" + node->name(); }
  std::string operator()(bool value) const { return value ? "True" : "False"; }
  std::string operator()(int64_t value) const { return std::to_string(value); }
  std::string operator()(double value) const { return print_float(value); }
  std::string operator()(const std::string& value) const { return value; }
  std::string operator()(DType value) const { return "torch." + std::string(to_string(value)); }
  std::string operator()(MemoryFormat value) const { return "torch." + std::string(to_string(value)); }
  std::string operator()(Layout) const { return "torch.strided"; }
  std::string operator()(const Device& value) const { return value.name; }
  std::string operator()(const Subprogram&) const { return "<program>"; }
  std::string operator()(const Argument::List& list) const {
    std::string out = "[";
    for (size_t i = 0; i < list.size(); ++i) out += (i ? ", " : "") + to_text(list[i]);
    return out + "]";
  }
};

std::string print_args(const Node& node) {
  std::string out = "(args = (";
  for (size_t i = 0; i < node.args().size(); ++i) out += (i ? ", " : "") + to_text(node.args()[i]);
  if (node.args().size() == 1) out += ",";
  out += "), kwargs = {";
  for (size_t i = 0; i < node.kwargs().size(); ++i)
    out += (i ? ", " : "") + node.kwargs()[i].first + ": " + to_text(node.kwargs()[i].second);
  return out + "})";
}

std::string print_output(const Argument& argument) {
  if (argument.is_node()) return argument.node()->name();
  if (!argument.is_list()) return to_text(argument);
  std::string out = "(";
  for (size_t i = 0; i < argument.list().size(); ++i) out += (i ? ", " : "") + print_output(argument.list()[i]);
  return out + (argument.list().size() == 1 ? ",)" : ")");
}

}  // namespace

std::string to_text(const Argument& argument) { return std::visit(ArgumentPrinter{}, argument.variant()); }

std::string to_text(const Graph& graph) {
  std::string out = "graph():\n";
  for (const Node* node : graph.nodes()) {
    if (node->op() == Node::Op::kOutput) {
      out += concat("    return ", print_output(node->arg(0)), "\n");
      continue;
    }
    out += concat("    %", node->name(), " : [num_users=", node->users().size(), "] = ", to_string(node->op()),
                  "[target=", node->target(), "]");
    if (node->op() != Node::Op::kPlaceholder && node->op() != Node::Op::kGetAttr) out += print_args(*node);
    out += "\n";
  }
  return out;
}

namespace {

// Who uses whom, by what the arguments say or by what the used nodes say.
using Edges = std::vector<std::pair<const Node*, const Node*>>;

std::pair<Edges, Edges> edges_of(const std::vector<Node*>& nodes) {
  Edges by_arguments, by_users;
  for (const Node* node : nodes) {
    for (const Node* input : node->input_nodes()) by_arguments.emplace_back(input, node);
    for (const Node* user : node->users()) by_users.emplace_back(node, user);
  }
  std::sort(by_arguments.begin(), by_arguments.end());
  std::sort(by_users.begin(), by_users.end());
  return {std::move(by_arguments), std::move(by_users)};
}
bool has_edge(const Edges& edges, const Node* used, const Node* user) {
  return std::binary_search(edges.begin(), edges.end(), std::pair(used, user));
}

}  // namespace

void verify_program(const Program& program) {
  const auto bad = [](const Node* node, const auto&... parts) {
    throw Error(ErrorCode::kInvalidArgument, concat("node ", node->name(), " ", parts...), node->name(),
                node->target());
  };
  std::unordered_set<const Node*> defined;
  std::unordered_set<std::string> names;
  std::unordered_set<std::string> attributes;
  for (const Attribute& attribute : program.attributes) attributes.insert(attribute.name);
  const std::vector<Node*> nodes = program.graph->nodes();
  const auto [by_arguments, by_users] = edges_of(nodes);
  for (const Node* node : nodes) {
    if (!names.insert(node->name()).second) bad(node, "has the same name as an earlier node");
    for (const Node* input : node->input_nodes()) {
      if (&input->graph() != program.graph.get()) bad(node, "uses ", input->name(), " of another graph");
      if (defined.count(input) == 0) bad(node, "uses ", input->name(), " before it is defined");
      if (!has_edge(by_users, input, node)) bad(node, "uses ", input->name(), ", which does not know of it");
    }
    for (const Node* user : node->users())
      if (!has_edge(by_arguments, node, user)) bad(node, "has the user ", user->name(), ", which does not use it");
    if (node->op() == Node::Op::kGetAttr && attributes.count(node->target()) == 0)
      bad(node, "reads the attribute '", node->target(), "', which the program does not have");
    if ((node->op() == Node::Op::kOutput) != (node == nodes.back()))
      bad(node, "is out of place: a graph has one output node, at its end");
    defined.insert(node);
  }
  program.graph->output_node();
  for (const BufferMutation& mutation : program.buffer_mutations) {
    QDQ_CHECK(names.count(mutation.node) != 0, kInvalidArgument, "the mutated buffer '", mutation.buffer,
              "' takes its value from node ", mutation.node, ", which the graph does not have");
    QDQ_CHECK(attributes.count(mutation.buffer) != 0, kInvalidArgument, "the program mutates a buffer '",
              mutation.buffer, "', which it does not have");
  }
}

}  // namespace qdq
