// What the importers of ONNX operators share: the values read so far, and one call with its inputs.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "format/onnx_file.h"
#include "op/op.h"

namespace qdq {

// A value of an ONNX graph: a node, or integers that are known but for symbols (what Shape gives, and what is made of
// it).
struct OnnxValue {
  Node* node = nullptr;
  std::vector<SymInt> sizes;  // if there is no node
  bool is_vector = true;      // of sizes: one axis, or none
};

// The arguments of a call. They are put in by functions, one for each kind: as lists of Argument they would be most of
// this room's code.
class Arguments {
 public:
  template <class... T> Arguments(const T&... values) {
    (add(values), ...);
  }  // Implicit, so that calls read like PyTorch's
  std::vector<Argument> list;

 private:
  void add(Node* node);
  void add(bool value);
  void add(int value);
  void add(int64_t value);
  void add(double value);
  void add(const char* value);
  void add(const std::string& value);
  void add(DType value);
  void add(const Argument& value);
  void add(const std::vector<Argument>& values);  // each of them
};

struct OnnxOperator;

// The program so far.
class OnnxImport {
 public:
  explicit OnnxImport(format::OnnxFile file) : file_(std::move(file)) {}
  Program run();

  // A node for a tensor that is known.
  Node* constant(Tensor tensor, const std::string& name, Attribute::Kind kind = Attribute::Kind::kConstant);
  // The tensor of a constant node; undefined for other nodes.
  Tensor constant_of(const Node* node) const;
  bool is_constant(const Node* node) const { return node->op() == Node::Op::kGetAttr; }
  // A call; computed at once if all its inputs are constants (and `fold` holds). Trailing arguments that equal their
  // defaults are left out.
  Node* call(const std::string& target, std::vector<Argument> args, Node::Kwargs kwargs,
             const std::vector<ModuleStackEntry>& modules, bool fold);
  // A size as an argument: a number, or a node that computes it.
  Argument size_argument(const SymInt& size);
  // A size that depends on symbols: the axis of the node that has it, or the sum, difference, product or floor quotient
  // of two others.
  void know_size(const SymInt& size, Node* node, int64_t axis);
  void know_size(const SymInt& size, const char* operation, const SymInt& a, const SymInt& b);

  // How often the graph reads a value, the graph's outputs counted.
  int64_t num_uses(const std::string& value) const;

 private:
  friend class OnnxCall;
  void check_operators() const;
  void read_inputs();
  void read_node(const format::OnnxNode& node);
  void write_outputs();
  Node* value_node(const std::string& name, const std::string& reader);
  std::string attribute_name(const std::string& name) const;
  Node* after_inputs() const;

  struct SizeSource {
    Node* node = nullptr;  // of a lone axis
    int64_t axis = 0;
    const char* operation = nullptr;
    SymInt a, b;
    Node* computed = nullptr;
  };

  format::OnnxFile file_;
  Program program_;
  int64_t opset_ = 0;
  std::unordered_map<std::string, OnnxValue> values_;
  std::unordered_map<std::string, Tensor> initializers_;  // those that no node has read yet
  std::unordered_map<std::string, int64_t> uses_;
  std::map<std::string, std::string> symbols_;  // dim_param -> "s0"
  std::map<std::string, SizeSource> sizes_;     // by the size's text
  Node* first_input_ = nullptr;
};

// One node of the ONNX graph.
class OnnxCall {
 public:
  OnnxCall(OnnxImport& import, const format::OnnxNode& node, const OnnxOperator& op);

  const OnnxOperator& op() const { return op_; }
  int64_t opset() const { return import_.opset_; }
  OnnxImport& import() { return import_; }
  template <class... Parts> [[noreturn]] void refuse(const Parts&... parts) const {
    refuse_because({MessagePart(parts)...});
  }

  size_t num_inputs() const { return node_.inputs.size(); }
  size_t num_outputs() const { return node_.outputs.size(); }
  bool has(size_t i) const { return i < node_.inputs.size() && !node_.inputs[i].empty(); }
  bool has_output(size_t i) const { return i < node_.outputs.size() && !node_.outputs[i].empty(); }

  // The input as a node. Throws Error{kBadFile} if there is none.
  Node* tensor(size_t i);
  Argument optional_tensor(size_t i) { return has(i) ? Argument(tensor(i)) : Argument(); }
  // The input as a number if it is a constant of one element with no more axes than `other` has, else as a node.
  Argument operand(size_t i, size_t other);
  const TensorMeta& meta(size_t i) { return meta_of(tensor(i)); }
  const TensorMeta& meta_of(const Node* node) const;
  size_t rank(size_t i) { return meta(i).sizes.size(); }
  bool is_constant(size_t i) { return import_.is_constant(tensor(i)); }
  Tensor constant(size_t i) { return import_.constant_of(tensor(i)); }  // undefined if it is none
  Tensor wanted_constant(size_t i);
  double number(size_t i);  // a constant of one element
  // Integers: of a constant, or sizes with symbols.
  bool is_sizes(size_t i) const;
  std::vector<SymInt> sizes(size_t i);
  bool is_vector(size_t i);
  std::vector<int64_t> integers(size_t i);
  SymInt size(size_t i);           // the only one
  int64_t whole_number(size_t i);  // the same, known
  // Axes of the input `i`, or of the attribute in older opsets, counted from the front; nothing if none are given.
  std::optional<std::vector<int64_t>> axes(size_t i, size_t rank);

  const format::OnnxAttribute* attribute(std::string_view name) const;  // or null
  int64_t integer(std::string_view name, int64_t if_none) const;
  double real(std::string_view name, double if_none) const;
  std::string text(std::string_view name, std::string_view if_none) const;
  std::vector<int64_t> integers(std::string_view name, std::vector<int64_t> if_none) const;
  int64_t axis(int64_t axis, size_t rank) const;

  // aten.<target>
  Node* call(std::string_view target, const Arguments& args);
  Node* call(std::string_view target, const Arguments& args, const char* keyword, const Argument& value);
  Node* call_as_it_is(const std::string& full_target, const Arguments& args);  // is never computed at once
  Argument list(const std::vector<SymInt>& sizes);
  static Argument list(const std::vector<int64_t>& integers);

  void set(Node* node, size_t output = 0);
  void set(Tensor constant);
  void set(std::vector<SymInt> sizes, bool is_vector);
  void same_as_input(size_t i);
  int64_t num_uses(size_t output) const { return import_.num_uses(node_.outputs[output]); }
  // How often the value behind an input is read.
  int64_t num_uses_of_input(size_t i) const { return import_.num_uses(node_.inputs[i]); }

 private:
  [[noreturn]] void refuse_because(std::initializer_list<MessagePart> parts) const;
  std::string where() const;
  OnnxValue& value(size_t i);

  OnnxImport& import_;
  const format::OnnxNode& node_;
  const OnnxOperator& op_;
  std::vector<ModuleStackEntry> modules_;
};

// An operator of ONNX, whose importer knows all of its versions. Operators of other domains have that in their name:
// "com.microsoft.FusedConv". `aten` is what a plain one maps to: one call with the same inputs, both ways.
struct OnnxOperator {
  std::string_view name;
  void (*import)(OnnxCall& call);
  const char* aten;
};
void import_plain(OnnxCall& call);
// The tables, one for each file read_*.cpp.
std::span<const OnnxOperator> onnx_element_operators();
std::span<const OnnxOperator> onnx_image_operators();
std::span<const OnnxOperator> onnx_layer_operators();
std::span<const OnnxOperator> onnx_quantized_operators();
std::span<const OnnxOperator> onnx_reduction_operators();
std::span<const OnnxOperator> onnx_resize_operators();
std::span<const OnnxOperator> onnx_view_operators();
const OnnxOperator* find_onnx_operator(std::string_view name);  // or null
// The plain operator of an ATen target ("relu.default"); null if there is none.
const OnnxOperator* find_onnx_operator_of(std::string_view aten);

// Where a node comes from, as PyTorch's exporters tell: the newer one by metadata, the older one by names like
// "/layer1/layer1.0/conv1/Conv". Outermost first; the root module alone if nothing is told.
std::vector<ModuleStackEntry> module_stack_of(const format::OnnxNode& node);
// The same as metadata; nothing for the root module alone.
std::vector<std::pair<std::string, std::string>> metadata_of(const std::vector<ModuleStackEntry>& modules);

// Integers with symbols through the operators that compute shapes. False if this is none of those.
bool import_sizes(OnnxCall& call);

// Puts together what exporters spell out: SiLU, GELU, attention.
void fuse_onnx_patterns(Program& program);

}  // namespace qdq
