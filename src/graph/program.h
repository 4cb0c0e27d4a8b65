// A program: a graph, its tensors, and what a file says around them (torch.export.ExportedProgram in unlifted form).
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "graph/attributes.h"
#include "graph/graph.h"

namespace qdq {

// A user output that is not simply the value of a node in the output node's list: a buffer that the graph mutates.
struct BufferMutation {
  std::string node;    // the node whose value is written
  std::string buffer;  // the attribute it is written to
};

// A user input that was a constant at export (None, a number, a string): the graph has the value in it and does not
// take the input, but a caller of the exported program passes it.
struct ConstantInput {
  size_t position = 0;  // among all user inputs, counted with the constant ones
  std::string name;
  Argument value;
  bool operator==(const ConstantInput&) const = default;
};

struct ValueRange {
  std::optional<int64_t> min, max;
};

// What an ONNX file says of itself in words.
struct OnnxNotes {
  std::string doc_string, domain;
  int64_t model_version = 0;
  std::string graph_name, graph_doc_string;
  std::map<std::string, std::string> value_doc_strings;  // of inputs and outputs, by their names in the file
  bool operator==(const OnnxNotes&) const = default;
};

// Copying is explicit (clone), moving is cheap. The output node's args()[0] is the flat list of user outputs.
class Program {
 public:
  Program() : graph(std::make_unique<Graph>()) {}

  std::unique_ptr<Graph> graph;
  Attributes attributes;
  std::vector<BufferMutation> buffer_mutations;
  std::vector<ConstantInput> constant_inputs;       // in order of position
  std::map<std::string, ValueRange> symbol_ranges;  // of the symbols in sizes: "s0" -> 1..1024
  std::map<std::string, int64_t> symbol_hints;      // the value each symbol had at export, where the file tells
  std::string in_spec, out_spec;                    // torch's pytree specs as JSON text; empty if unknown
  std::vector<std::string> forward_arg_names;
  // What an ONNX file calls things, which .pt2 files do not keep: symbols ("s0" -> "batch") and outputs, in order.
  std::map<std::string, std::string> symbol_names;
  std::vector<std::string> output_names;
  std::vector<std::pair<std::string, std::string>> metadata;  // and what it says of itself (metadata_props)
  OnnxNotes notes;
  std::string dialect = "TRAINING";  // the file's verifier: "TRAINING" or "ATEN"
  std::string torch_version;

  const Attribute* find_attribute(std::string_view name) const;  // or null
  Attribute* find_attribute(std::string_view name);
  // Throws Error{kInvalidArgument} if the name is taken.
  Attribute& add_attribute(Attribute attribute) { return attributes.add(std::move(attribute)); }
  // A name of the form `candidate`, `candidate_1`, ... that no attribute has.
  std::string unique_attribute_name(std::string candidate) const { return attributes.free_name(std::move(candidate)); }
  void erase_attribute(std::string_view name);
  // Erases the attributes that no get_attr node reads and no mutation writes.
  void erase_unused_attributes();
  // The tensor behind a get_attr node. Throws Error{kInvalidArgument} naming node and attribute if there is none.
  const Tensor& attribute_of(const Node& get_attr) const;

  // A deep copy of the graph that shares the tensors' bytes.
  Program clone(std::unordered_map<const Node*, Node*>* copies = nullptr) const;
};

// Text that reads like PyTorch's Graph.__str__:
// "    %relu : [num_users=1] = call_function[target=torch.ops.aten.relu.default](args = (%conv2d,), kwargs = {})".
std::string to_text(const Graph& graph);
// One argument as PyTorch prints it: "%x", "[1, 1]", "None", "torch.int8".
std::string to_text(const Argument& argument);

// Checks that the graph is one that can be run: names unique, every argument defined before its use and in this graph,
// users and inputs agree, one output node at the end, every get_attr names an attribute. Throws Error{kInvalidArgument}
// naming the first node that does not hold.
void verify_program(const Program& program);

}  // namespace qdq
