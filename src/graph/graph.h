// The IR: an FX-like graph of named ATen calls, after torch.fx.Graph and torch.fx.Node.
//
// A graph is the flat, unlifted form of an exported program: one get_attr node per parameter, buffer and constant
// first, then the user inputs as placeholders, then the operators in execution order, then one output node.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

#include "base/function_ref.h"
#include "tensor/sym_int.h"
#include "tensor/tensor.h"

namespace qdq {

class Graph;
class Node;
class Program;

// A program as an argument of an operator that runs programs (torch.cond, loops). It is never changed: copies share it.
// Weights that it alone reads are its own attributes, everything else comes in through its placeholders.
using Subprogram = std::shared_ptr<const Program>;

// The numbers are torch.export's (torch/_export/serde/schema.py).
enum class MemoryFormat : uint8_t { kContiguous = 1, kChannelsLast = 2, kChannelsLast3d = 3, kPreserve = 4 };
enum class Layout : uint8_t { kStrided = 7 };
struct Device {
  std::string name = "cpu";
  bool operator==(const Device&) const = default;
};
std::string_view to_string(MemoryFormat format);  // "contiguous_format", ...

// An argument of a node: a constant, another node's value, or a list of arguments.
class Argument {
 public:
  using List = std::vector<Argument>;

  Argument() = default;                   // None
  Argument(Node* node) : value_(node) {}  // Implicit, so that argument lists read like PyTorch's
  Argument(bool value) : value_(value) {}
  Argument(int64_t value) : value_(value) {}
  Argument(int value) : value_(static_cast<int64_t>(value)) {}
  Argument(double value) : value_(value) {}
  Argument(std::string value) : value_(std::move(value)) {}
  Argument(const char* value) : value_(std::string(value)) {}
  Argument(DType value) : value_(value) {}
  Argument(MemoryFormat value) : value_(value) {}
  Argument(Layout value) : value_(value) {}
  Argument(Device value) : value_(std::move(value)) {}
  Argument(List value) : value_(std::move(value)) {}
  Argument(Subprogram value) : value_(std::move(value)) {}

  template <class T> bool is() const { return std::holds_alternative<T>(value_); }
  bool is_none() const { return is<std::monostate>(); }
  bool is_node() const { return is<Node*>(); }
  bool is_list() const { return is<List>(); }
  // The value. Throws Error{kInternal} if it is of another kind.
  template <class T> const T& as() const {
    const T* value = std::get_if<T>(&value_);
    QDQ_CHECK(value != nullptr, kInternal, "an argument is not of the wanted kind");
    return *value;
  }
  Node* node() const { return is_node() ? as<Node*>() : nullptr; }  // or null
  const List& list() const { return as<List>(); }
  // An int, float or bool as a double / an int or bool as an integer; nothing otherwise.
  std::optional<double> number() const;
  std::optional<int64_t> integer() const;

  // Calls body(node) for this node, or for every node in this list, left to right.
  void for_each_node(FunctionRef<void(Node*)> body) const;
  // A copy with every node replaced.
  Argument map_nodes(FunctionRef<Node*(Node*)> replacement) const;
  // Puts a node in the places of another one.
  void replace(const Node* old_node, Node* new_node);

  bool operator==(const Argument&) const = default;
  const auto& variant() const { return value_; }

 private:
  std::variant<std::monostate, Node*, bool, int64_t, double, std::string, DType, MemoryFormat, Layout, Device, List,
               Subprogram>
      value_;
};

// What is known of a value before running: torch.export's "val" metadata.
struct TensorMeta {
  DType dtype = DType::kF32;
  SymShape sizes;
  SymShape strides;  // empty: contiguous
  bool requires_grad = false;
  bool operator==(const TensorMeta&) const = default;
};
struct ValueMeta {
  // Nothing known; a tensor; a symbolic integer; a float or bool scalar (value unknown); several results.
  std::variant<std::monostate, TensorMeta, SymInt, double, bool, std::vector<ValueMeta>> value;
  bool is_tensor() const { return std::holds_alternative<TensorMeta>(value); }
  const TensorMeta* tensor() const { return std::get_if<TensorMeta>(&value); }
  bool operator==(const ValueMeta&) const = default;
};

// A module's path without the frame that torch.export recorded in front of it: "L['self'].layer1" and
// "getattr(L['model'].layers[2], '0')" are "layer1" and "layers.2.0".
std::string without_frame(std::string_view path);

struct ModuleStackEntry {
  std::string key;   // "L__self___layer1"
  std::string path;  // "layer1.0.conv1", without the frame
  std::string type;  // "torch.nn.modules.conv.Conv2d"
  bool operator==(const ModuleStackEntry&) const = default;
};

// Keys of NodeMeta::extra: what an ONNX file calls the nodes that a node stands for, and the node's value; of an
// operator that qdq does not have, its domain and version there; of MatMulNBits, how exactly runtimes shall compute it.
inline constexpr std::string_view kOnnxNode = "onnx.node", kOnnxValue = "onnx.value", kOnnxDomain = "onnx.domain",
                                  kOnnxVersion = "onnx.version", kOnnxAccuracyLevel = "onnx.accuracy_level";

// The key of a placeholder whose value is not one tensor, and what it is then: ONNX's "sequence", a list of tensors,
// "optional", which may be None, or "optional sequence".
inline constexpr std::string_view kInputKind = "onnx.kind", kSequence = "sequence", kOptional = "optional";

struct NodeMeta {
  ValueMeta val;
  std::vector<ModuleStackEntry> nn_module_stack;                     // outermost first
  std::vector<std::pair<std::string, std::string>> source_fn_stack;  // (name, module type or function), outermost first
  std::string torch_fn;                                              // "conv2d_1;builtin_function_or_method.conv2d"
  std::string stack_trace;
  std::optional<int64_t> debug_handle;
  std::vector<std::pair<std::string, std::string>> extra;  // other metadata of the file, kept as it was

  // The last extra of this key; "" if there is none.
  const std::string& extra_of(std::string_view key) const;

  // The innermost module path, "" for the root; nothing if unknown.
  std::optional<std::string> module_path() const;
};

class Node {
 public:
  enum class Op { kPlaceholder, kGetAttr, kCallFunction, kCallModule, kOutput };
  using Kwargs = std::vector<std::pair<std::string, Argument>>;  // in call order

  Op op() const { return op_; }
  const std::string& name() const { return name_; }
  // call_function: "torch.ops.aten.conv2d.default" or "operator.getitem"; get_attr: the attribute's name
  // "layer1.0.conv1.weight"; call_module: the module's name; placeholder: the input's name; output: "output".
  const std::string& target() const { return target_; }
  void set_target(std::string target) { target_ = std::move(target); }
  bool is(std::string_view function_target) const { return op_ == Op::kCallFunction && target_ == function_target; }

  // Positional arguments in schema order, trailing defaults left out; keyword-only arguments in kwargs.
  const std::vector<Argument>& args() const { return args_; }
  const Kwargs& kwargs() const { return kwargs_; }
  // The i-th positional argument, None if it was left out.
  const Argument& arg(size_t i) const;
  const Argument* kwarg(std::string_view name) const;  // or null
  void set_args(std::vector<Argument> args);
  void set_arg(size_t i, Argument value);  // extends with None as needed
  void set_kwargs(Kwargs kwargs);

  // The nodes that use this one, each once, in the order in which their arguments were set last, as in torch.fx.
  const std::vector<Node*>& users() const { return users_; }
  // The nodes that this one uses, each once, in argument order.
  std::vector<Node*> input_nodes() const;

  void replace_input_with(Node* old_input, Node* new_input);
  // Makes the users of this node (those for which `which` holds; all if empty) use `other` instead; returns those
  // changed. `other` itself is left alone.
  std::vector<Node*> replace_all_uses_with(Node* other, const std::function<bool(Node*)>& which = {});

  Graph& graph() const { return *graph_; }
  Node* next() const;  // or null at the end
  Node* prev() const;

  NodeMeta meta;

 private:
  friend class Graph;
  Node() = default;
  void update_users(const std::vector<Node*>& before);
  void put_last_of_users(Node* user);

  Graph* graph_ = nullptr;
  std::list<std::unique_ptr<Node>>::iterator position_;
  Op op_ = Op::kCallFunction;
  std::string name_;
  std::string target_;
  std::vector<Argument> args_;
  Kwargs kwargs_;
  std::vector<Node*> users_;
};

std::string_view to_string(Node::Op op);  // "call_function"

// Owns its nodes. Nodes keep their address until erased. Movable handles are shared_ptr or unique_ptr to a Graph.
class Graph {
 public:
  Graph() = default;
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  // Nodes in execution order; erasing the node just visited is allowed with nodes_snapshot().
  std::vector<Node*> nodes() const;
  size_t size() const { return nodes_.size(); }
  Node* first() const { return nodes_.empty() ? nullptr : nodes_.front().get(); }
  Node* last() const { return nodes_.empty() ? nullptr : nodes_.back().get(); }
  Node* find(std::string_view name) const;  // or null
  Node* output_node() const;                // throws Error{kInvalidArgument} if there is none
  std::vector<Node*> placeholders() const;

  // Adds a node before the insert point (the end, unless set). The name is made unique with PyTorch's rule: a taken
  // name gets the suffix _1, _2, ... An empty name is derived from the target ("quantize_per_tensor_default").
  Node* create(Node::Op op, std::string target, std::vector<Argument> args = {}, Node::Kwargs kwargs = {},
               std::string name = {});
  Node* call(std::string target, std::vector<Argument> args, Node::Kwargs kwargs = {}, std::string name = {}) {
    return create(Node::Op::kCallFunction, std::move(target), std::move(args), std::move(kwargs), std::move(name));
  }
  Node* get_attr(std::string attribute, std::string name = {}) {
    return create(Node::Op::kGetAttr, std::move(attribute), {}, {}, std::move(name));
  }

  // Where create() puts nodes while this object lives; then the point is as before.
  class InsertPoint {
   public:
    ~InsertPoint() { graph_.insert_before_ = saved_; }
    InsertPoint(const InsertPoint&) = delete;
    InsertPoint& operator=(const InsertPoint&) = delete;

   private:
    friend class Graph;
    InsertPoint(Graph& graph, Node* before) : graph_(graph), saved_(graph.insert_before_) {
      graph.insert_before_ = before;
    }
    Graph& graph_;
    Node* saved_;
  };
  [[nodiscard]] InsertPoint insert_before(Node* node) { return InsertPoint(*this, node); }
  [[nodiscard]] InsertPoint insert_after(Node* node) { return InsertPoint(*this, node->next()); }

  void move_before(Node* node, Node* place);
  // Throws Error{kInternal} if the node still has users.
  void erase(Node* node);
  // Erases call_function and get_attr nodes without users, from the end; in-place operators (a trailing underscore in
  // the operator's name), those for which `keep` holds, and call_module stay. Returns whether anything went.
  bool eliminate_dead_code(const std::function<bool(const Node*)>& keep = {});
  // A name that no node has yet, made from the candidate as PyTorch does.
  std::string unique_name(std::string candidate) const;
  void rename(Node* node, std::string name);  // made unique

  // A copy; `copies`, if given, receives old node -> new node.
  std::unique_ptr<Graph> clone(std::unordered_map<const Node*, Node*>* copies = nullptr) const;

 private:
  friend class Node;  // walks the list
  std::list<std::unique_ptr<Node>> nodes_;
  std::unordered_map<std::string, Node*> by_name_;
  // PyTorch never gives a name back: a name stays taken when its node is erased.
  mutable std::unordered_map<std::string, int64_t> next_suffix_;
  std::unordered_set<std::string> used_names_;
  Node* insert_before_ = nullptr;
};

// The attribute name "conv.weight" as a node name: "conv_weight"; a leading digit gets a _ in front and capitals go as
// in PyTorch: "normLayer.weight" gives "norm_layer_weight".
std::string node_name_of(std::string_view attribute);

}  // namespace qdq
