// What the importers of ONNX operators share: the values read so far, and one call with its inputs.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "format/onnx_file.h"
#include "op/op.h"

namespace qdq {

// A value of an ONNX graph: a node; integers that are known but for symbols (what Shape gives, and what is made of it);
// a sequence of values; or an optional that holds nothing.
struct OnnxValue {
  // What a run may find in place of one tensor.
  struct Kind {
    bool is_list = false, may_be_none = false;
    bool is_tensor() const { return !is_list && !may_be_none; }
  };
  Node* node = nullptr;
  Kind kind;                  // of the node's value
  std::vector<SymInt> sizes;  // if there is no node
  bool is_vector = true;      // of sizes: one axis, or none
  DType dtype = DType::kS64;  // of sizes
  std::shared_ptr<const std::vector<OnnxValue>> elements;
  Node* stacked = nullptr;  // of a list that is only joined along a new axis: its tensors along a first one
  bool is_empty_optional = false;
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
  void add(const Subprogram& value);
  void add(const Argument& value);
  void add(const std::vector<Argument>& values);  // each of them
};

struct OnnxOperator;

// The program so far. Graphs lie in graphs: a branch of an If whose condition is known, a function of the file and the
// body of a short loop become part of the program around them (a scope of their own), what only a run decides becomes a
// program of its own (a frame), which takes what it needs of the outer ones as further inputs.
class OnnxImport {
 public:
  // `defers`: what needs values or sizes that only a run tells becomes a call that is read anew when they have come.
  explicit OnnxImport(format::OnnxFile file, bool defers = true);
  ~OnnxImport();
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
  // A size that depends on symbols: the node that is this integer, the axis of the node that has it, or the sum,
  // difference, product or floor quotient of two others.
  void know_size(const SymInt& size, Node* integer);
  void know_size(const SymInt& size, Node* node, int64_t axis);
  void know_size(const SymInt& size, const char* operation, const SymInt& a, const SymInt& b);
  // What was read holds only if this size is not zero: no run may give its inputs' symbols so. False if it has others.
  bool know_more_than_zero(const SymInt& size);
  // Whether a tensor of the program has the size, which is known then.
  bool find_size(const SymInt& size);
  // A symbol that no size has yet: v0, v1, ... of what changes from iteration to iteration.
  SymInt fresh_symbol();
  // A value as a node: sizes become a tensor. `reader` is for errors.
  Node* node_of(OnnxValue& value, const std::string& reader);
  // A value whose node is what a run finds: a tensor, a list of tensors, None (null).
  OnnxValue as_it_runs(OnnxValue& value, const std::string& reader);

  // Reads a graph as part of the current program, its inputs being these values; gives those of its outputs.
  std::vector<OnnxValue> inline_graph(const format::OnnxGraph& graph, const std::vector<OnnxValue>& inputs);
  // Reads a node that an importer made.
  void read(const format::OnnxNode& node) { read_node(node); }
  // Gives a value of the innermost graph a name, and the value of a name, in the program that is being built. Throws
  // Error{kBadFile} if nothing has made it; `reader` is for that message.
  void define(const std::string& name, OnnxValue value) { scope().values[name] = std::move(value); }
  OnnxValue& value(const std::string& name, const std::string& reader);
  // The tensor of a name that is known; undefined for others.
  Tensor constant_of(const std::string& name) {
    const OnnxValue* found = find(name);
    return found && found->node ? constant_of(found->node) : Tensor();
  }

  // Reads graphs as programs of their own, which take their inputs as these placeholders, and behind them what they
  // need of the programs around: the same for all, given as nodes of the current program.
  struct GraphInput {
    std::string name;
    ValueMeta meta;  // which may tell nothing
    OnnxValue::Kind kind;
  };
  struct Subprograms {
    std::vector<std::shared_ptr<const Program>> programs;
    std::vector<OnnxValue::Kind> results;  // what any of them may give
    std::vector<Node*> captured;
  };
  Subprograms subprograms(const std::vector<const format::OnnxGraph*>& graphs,
                          const std::vector<std::vector<GraphInput>>& inputs);
  // How many nodes of functions and inner graphs were read, again for each call and turn.
  int64_t written_out() const { return written_out_; }
  // Notes a sequence that takes so many bytes. Throws Error{kOutOfMemory} where the limit is reached.
  void count_sequence(uint64_t bytes);

 private:
  friend class OnnxCall;
  struct SizeSource {
    Node* node = nullptr;  // of a lone axis, or the integer itself
    int64_t axis = -1;
    const char* operation = nullptr;
    SymInt a, b;
    Node* computed = nullptr;
  };
  // A program that is being built.
  struct Frame {
    Program program;
    Node* first_input = nullptr;
    std::map<std::string, SizeSource> sizes;  // by the size's text
    std::map<const Node*, Node*> copies;      // of nodes of the frame around
    std::vector<const Node*> captured;        // those among them that are inputs, in order
  };
  // The names of a graph.
  struct Scope {
    size_t frame = 0;
    bool sees_outer = true;
    format::OnnxOpsets opsets;
    std::unordered_map<std::string, OnnxValue> values;
    std::unordered_map<std::string, Tensor> initializers;  // those that no node has read yet
    std::unordered_map<std::string, int64_t> uses;         // how often the graph reads a value, its outputs counted
    std::unordered_map<std::string, int64_t> stacks;       // how often it joins a list along a new axis
    std::unordered_map<std::string, const format::OnnxValueInfo*> said;  // what the file says of values
    std::unordered_set<std::string> four_bit_tensors;                    // values of int4 and uint4
  };

  Frame& frame() { return *frames_.back(); }
  Program& program() { return frames_.back()->program; }
  const Program& program() const { return frames_.back()->program; }
  Scope& scope() { return *scopes_.back(); }
  // Begins a scope of the current frame with the graph's names; the caller ends it.
  Scope& enter(const format::OnnxGraph& graph, bool sees_outer, const format::OnnxOpsets& opsets);
  void read_inputs(const format::OnnxGraph& graph);
  bool read_loose_input(const format::OnnxValueInfo& input);
  Node* add_input(const std::string& name, ValueMeta value);
  void read_nodes(const std::vector<format::OnnxNode>& nodes);
  void read_node(const format::OnnxNode& node);
  void count_written_out();
  void read_known(const format::OnnxNode& node, const OnnxOperator& op);
  void read_unknown(const format::OnnxNode& node, const std::string& reason);
  bool read_deferred(const format::OnnxNode& node);
  void set_outputs(const format::OnnxNode& node, Node* result, bool is_list);
  Argument argument_of(const format::OnnxNode& node, const format::OnnxAttribute& attribute);
  void name_results(const format::OnnxNode& node);
  bool read_function(const format::OnnxNode& node);
  void write_outputs(const std::vector<OnnxValue>& values);
  std::vector<OnnxValue> outputs_of(const format::OnnxGraph& graph);
  Program finish_frame();
  int64_t opset(const std::string& domain) const;
  OnnxValue* find(const std::string& name);  // or null
  OnnxValue captured(const OnnxValue& value, size_t from);
  Node* captured(Node* node, size_t from);
  Scope* scope_of(const std::string& name);
  int64_t num_uses(const std::string& value);
  std::optional<TensorMeta> meta_said_of(const std::string& value);
  SymInt symbol_of(const format::OnnxDimension& dimension);
  std::string attribute_name(const std::string& name) const;
  Node* after_inputs();

  format::OnnxFile file_;
  int64_t file_elements_;  // of all its tensors
  bool defers_;
  std::map<std::pair<std::string, std::string>, const format::OnnxFunction*> functions_;  // by domain and name
  std::vector<std::unique_ptr<Frame>> frames_;
  std::vector<std::unique_ptr<Scope>> scopes_;
  std::map<std::string, std::string> symbols_;  // dim_param -> "s0"
  std::vector<std::string> input_symbols_;
  int64_t fresh_symbols_ = 0;
  int64_t written_out_ = 0;
  uint64_t uncounted_bytes_ = 0;  // of sequences
};

// One node of the ONNX graph.
class OnnxCall {
 public:
  OnnxCall(OnnxImport& import, const format::OnnxNode& node, const OnnxOperator& op);

  const OnnxOperator& op() const { return op_; }
  int64_t opset() const { return opset_; }  // of the node's domain
  OnnxImport& import() { return import_; }
  template <class... Parts> [[noreturn]] void refuse(const Parts&... parts) const {
    const MessagePart list[] = {MessagePart(parts)...};
    refuse_because(kPartKinds<part_kind<Parts>()...>, list);
  }

  const format::OnnxNode& node() const { return node_; }
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
  // The size of an axis. Throws Error{kUnsupported} if there is none.
  const SymInt& extent(const Node* node, size_t axis) const;
  size_t rank(size_t i) { return meta(i).sizes.size(); }
  bool is_constant(size_t i) { return import_.is_constant(tensor(i)); }
  Tensor constant(size_t i) { return import_.constant_of(tensor(i)); }  // undefined if it is none
  Tensor wanted_constant(size_t i);
  double number(size_t i);  // a constant of one element
  // Integers: of a constant, sizes with symbols, or what a run computes, as symbols of their own.
  bool is_sizes(size_t i) const;
  std::vector<SymInt> sizes(size_t i);
  bool is_vector(size_t i);
  std::vector<int64_t> integers(size_t i);
  SymInt size(size_t i);           // the only one
  int64_t whole_number(size_t i);  // the same, known
  // Axes of the input `i`, or of the attribute in older opsets, counted from the front; nothing if none are given.
  std::optional<std::vector<int64_t>> axes(size_t i, size_t rank);
  bool has_four_bits(size_t i) const;  // whether it is int4 or uint4, held as int8 or uint8
  // The value behind an input, whatever it is.
  OnnxValue& value(size_t i);
  // A graph among the attributes. Throws Error{kBadFile} if there is none.
  const format::OnnxGraph& graph(std::string_view name) const;

  const format::OnnxAttribute* attribute(std::string_view name) const;  // or null
  int64_t integer(std::string_view name, int64_t if_none) const;
  double real(std::string_view name, double if_none) const;
  std::string text(std::string_view name, std::string_view if_none) const;
  std::vector<int64_t> integers(std::string_view name, std::vector<int64_t> if_none) const;
  int64_t axis(int64_t axis, size_t rank) const;

  // A target: the local name of an ATen operator ("add.Tensor"), the short name of another ("onnx.find.default"), or in
  // full.
  Node* call(std::string_view target, const Arguments& args);
  Node* call(std::string_view target, const Arguments& args, const char* keyword, const Argument& value);
  Node* call_as_it_is(std::string_view target, const Arguments& args);  // is never computed at once
  Argument list(const std::vector<SymInt>& sizes);
  static Argument list(const std::vector<int64_t>& integers);

  void set(Node* node, size_t output = 0);
  void set(Tensor constant);
  // Sizes that the call computes, of the type of integers that those which it reads have.
  void set(std::vector<SymInt> sizes, bool is_vector);
  // The sizes that are input 0, as integers of another type.
  void cast_sizes(DType dtype);
  void set(OnnxValue value, size_t output);
  void same_as_input(size_t i, size_t output = 0);
  void set_four_bits(size_t output = 0);  // the output, which is int8 or uint8, is int4 or uint4
  int64_t num_uses(size_t output) const { return import_.num_uses(node_.outputs[output]); }
  bool is_only_stacked(size_t output) const;  // whether all that read it join it along a new axis
  // How often the value behind an input is read.
  int64_t num_uses_of_input(size_t i) const { return import_.num_uses(node_.inputs[i]); }

 private:
  [[noreturn]] void refuse_because(const PartKind* kinds, const MessagePart* parts) const;
  std::string where() const;

  OnnxImport& import_;
  const format::OnnxNode& node_;
  const OnnxOperator& op_;
  int64_t opset_;
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
std::span<const OnnxOperator> onnx_attention_operators();
std::span<const OnnxOperator> onnx_block_operators();
std::span<const OnnxOperator> onnx_control_operators();
std::span<const OnnxOperator> onnx_element_operators();
std::span<const OnnxOperator> onnx_image_operators();
std::span<const OnnxOperator> onnx_layer_operators();
std::span<const OnnxOperator> onnx_microsoft_operators();
std::span<const OnnxOperator> onnx_ml_operators();
std::span<const OnnxOperator> onnx_place_operators();
std::span<const OnnxOperator> onnx_quantized_operators();
std::span<const OnnxOperator> onnx_recurrent_operators();
std::span<const OnnxOperator> onnx_reduction_operators();
std::span<const OnnxOperator> onnx_resize_operators();
std::span<const OnnxOperator> onnx_signal_operators();
std::span<const OnnxOperator> onnx_string_operators();
std::span<const OnnxOperator> onnx_tree_operators();
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

// The target of a node that is read when it runs: "torch.ops.onnx.ReduceSum.v18". Its call has the lists of inputs, of
// attributes (names and values by turns) and of the names of outputs, "" for those that are left out.
// Stands for a graph among the attributes of such a node, and of one that nobody reads, which is not kept.
inline constexpr std::string_view kLostGraph = "(a graph that was not kept)";
std::string deferred_target(const format::OnnxNode& node, int64_t opset);
// Lets find_op know such targets.
void register_deferred_onnx();
// Brings ImageDecoder as a program would (op/custom.h).
void register_image_decoder();

// Integers less their zero point, as MatMulInteger and ConvInteger are imported; null where it is none of those.
struct ShiftedIntegers {
  Node *integers = nullptr, *zero_point = nullptr;  // the latter may be null
};
ShiftedIntegers shifted_integers(Node* node);
// What stands before casts and reshapes.
Node* origin_of(Node* node);

// Puts together what exporters spell out: SiLU, GELU, attention.
void fuse_onnx_patterns(Program& program);
void fuse_integer_products(Program& program);
void fuse_norms(Program& program);

}  // namespace qdq
