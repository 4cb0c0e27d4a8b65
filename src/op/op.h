// Defines operators by PyTorch's schema line, shape inference, reference evaluation and facts, and has the table of
// all operators. op/facts.h returns the facts of nodes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "graph/program.h"
#include "graph/schema.h"
#include "kernel/activation.h"
#include "tensor/tensor.h"

namespace qdq {

// A resolved argument or result. T is Tensor when running and TensorMeta when inferring shapes (where integers may be
// SymInts).
template <class T> class BasicValue {
 public:
  using List = std::vector<BasicValue>;
  BasicValue() = default;                            // None
  BasicValue(T value) : value_(std::move(value)) {}  // Implicit, so that evaluators can return tensors
  BasicValue(bool value) : value_(value) {}
  BasicValue(int64_t value) : value_(value) {}
  BasicValue(int value) : value_(static_cast<int64_t>(value)) {}
  BasicValue(double value) : value_(value) {}
  BasicValue(std::string value) : value_(std::move(value)) {}
  BasicValue(const char* value) : value_(std::string(value)) {}  // A pointer would become a bool
  BasicValue(DType value) : value_(value) {}
  BasicValue(MemoryFormat value) : value_(value) {}
  BasicValue(Layout value) : value_(value) {}
  BasicValue(Device value) : value_(std::move(value)) {}
  BasicValue(SymInt value) : value_(std::move(value)) {}
  BasicValue(List value) : value_(std::move(value)) {}
  BasicValue(Subprogram value) : value_(std::move(value)) {}

  template <class U> bool is() const { return std::holds_alternative<U>(value_); }
  template <class U> const U* get_if() const { return std::get_if<U>(&value_); }
  bool is_none() const { return is<std::monostate>(); }
  bool is_tensor() const { return is<T>(); }
  const auto& variant() const { return value_; }

 private:
  std::variant<std::monostate, T, bool, int64_t, double, std::string, DType, MemoryFormat, Layout, Device, SymInt, List,
               Subprogram>
      value_;
};
using Value = BasicValue<Tensor>;
using MetaValue = BasicValue<TensorMeta>;

struct OpDef;

// One call of an operator with all arguments in schema order: defaults are filled in, keyword-only arguments included.
// The typed accessors throw Error{kInvalidArgument} naming operator and argument if the value is of another kind.
template <class T> class Call {
 public:
  // Fills defaults. Throws Error{kInvalidArgument} on too many, missing or unknown arguments, Error{kUnsupported} on
  // strings for an operator that does not take them.
  Call(const OpDef& op, std::vector<BasicValue<T>> args,
       std::vector<std::pair<std::string, BasicValue<T>>> kwargs = {});

  const OpDef& op() const { return *op_; }
  size_t size() const { return values_.size(); }
  const BasicValue<T>& operator[](size_t i) const { return values_[i]; }
  bool is_none(size_t i) const { return values_[i].is_none(); }

  const T& tensor(size_t i) const;
  const T* optional_tensor(size_t i) const;  // null for None
  std::vector<T> tensors(size_t i) const;    // "Tensor[]"
  int64_t integer(size_t i) const;
  SymInt sym(size_t i) const;
  // Scalar or float: an int, a float or a bool (or, when running, a one-element tensor)
  double number(size_t i) const;
  bool is_integer(size_t i) const;  // whether a Scalar is an int or bool
  bool boolean(size_t i) const;
  const std::string& string(size_t i) const;
  const Program& program(size_t i) const;
  DType dtype(size_t i, DType if_none) const;
  // "int[2]": a single number counts for all.
  std::vector<int64_t> integers(size_t i) const;
  // `count` integers; a list of one counts for all, also where the schema says no length, as that of aten.convolution.
  std::vector<int64_t> integers(size_t i, size_t count) const;
  SymShape syms(size_t i) const;

 private:
  [[noreturn]] void bad(size_t i, std::string_view wanted) const;
  const OpDef* op_;
  std::vector<BasicValue<T>> values_;
};

// The schema index of the argument in each role; -1: there is none. These are facts; a quantizer decides what to do
// with them.
struct Roles {
  int activation = -1;
  int other = -1;  // the second activation of a binary operator
  int weight = -1;
  int bias = -1;
  int weight_axis = 0;          // the output-channel axis of the weight
  bool shares_qparams = false;  // every output element is an input element (views, max pools, cat) or a mean of them
};

// Inference and evaluation of an operator for one kind of tensors.
struct OpForm {
  MetaValue (*infer)(const Call<TensorMeta>& call) = nullptr;
  Value (*eval)(const Call<Tensor>& call) = nullptr;
};

// The kind of computation: all operators of a family compute the same thing and have the same roles.
enum class Family : uint8_t {
  kOther,
  kConvolution,  // aten.convolution too, whose argument says whether it is transposed
  kTransposedConvolution,
  kLinear,    // rows with a weight: linear, addmm
  kMatmul,    // two tensors: matmul, bmm, mm, baddbmm
  kAdd,       // of two tensors or a tensor and a number, as the next three
  kSubtract,  // rsub is none
  kMultiply,
  kDivide,       // without rounding
  kActivation,   // a function of each element that networks put behind layers
  kClamp,        // clamp, clip, clamp_min, clamp_max
  kElementwise,  // other functions of each element of one tensor: exp, abs
  kComparison,
  kMaxPool,
  kAveragePool,  // adaptive ones too, also in kMaxPool
  kMean,
  kReduction,  // other reductions of axes
  kSoftmax,    // log_softmax too
  kView,       // the elements under other sizes: reshape, permute, slice, select, expand; and their copying forms
  kSplit,      // a list of views
  kConcat,     // along an axis that is there
  kCopy,       // the tensor itself or a copy: clone, contiguous, detach
  kDropout,
  kCast,   // to another dtype
  kIndex,  // elements chosen by a tensor of indices
  kPad,
  kResize,  // upsampling, pixel shuffle
  kBatchNorm,
  kNorm,  // layer, group, instance, RMS norm
  kEmbedding,
  kRecurrent,
  kAttention,
  kCreation,  // new tensors: zeros, full, arange
  kQuantize,
  kDequantize,
  kChooseQParams,
  kSize,         // integers from sizes: sym_size, sym_numel
  kControlFlow,  // runs programs: cond, loops
};

// Which activation of kernel/activation.h an operator computes. Parameters that are arguments of the operator have
// their schema index here (-1: a fixed number, in `function`); the argument None means no bound.
struct Computes {
  kernel::Activation function;
  int low = -1, high = -1, slope = -1;
};

struct OpDef {
  std::string target;  // "torch.ops.aten.conv2d.default"
  SchemaLine schema;
  // The result's metadata (a list for several results); sizes may be symbolic.
  MetaValue (*infer)(const Call<TensorMeta>& call);
  // The specification: slow, plain, exact. Views alias their input, in-place operators write to it, as in PyTorch.
  Value (*eval)(const Call<Tensor>& call);
  Roles roles;
  Family family = Family::kOther;
  // For an operator whose computation depends on shapes and values: makes the program that computes a call. Its inputs
  // are the tensors for which is_bound() is false. Null: `eval` needs no program.
  Subprogram (*expand)(const Call<Tensor>& call) = nullptr;
  int spatial_axes = 0;        // of convolutions and pools; 0: any number, or none
  bool keeps_numbers = false;  // every element of the result (of several: the first) is an element of an argument
  bool takes_strings = false;  // only moves elements, or asks whether they are equal, or knows strings
  bool takes_complex = false;  // only moves elements, or has a form for complex tensors
  OpForm for_real = {}, for_complex = {};  // where complex tensors have a form of their own, which op/complex.cpp gives
  Computes computes = {};                  // kind kNone: no activation that has a name
  // The form that makes a new tensor, and the one that writes to its first argument ("relu", "relu_"): one of them is
  // this entry itself. Null where there is none.
  const OpDef* functional = nullptr;
  const OpDef* in_place = nullptr;

  std::string_view short_name() const;  // "aten.conv2d.default", as reports and messages have it
  bool is_in_place() const { return in_place == this; }
};

// Every operator, one table per family file, joined in op/op.cpp.
const std::vector<OpDef>& all_ops();
// The entry of a call_function target; null if qdq does not have the operator. "_operator.add" is "operator.add".
const OpDef* find_op(std::string_view target);

// Key in Node::meta.extra for the reason why a file's node could not be read although qdq has its operator.
inline constexpr std::string_view kUnsupportedReason = "qdq.unsupported";

// Throws Error{kUnsupported} that lists every operator of the graph which qdq does not have, with the nodes that use
// it and, where the file's reader knew one, the reason.
void check_ops(const Graph& graph);

// Sets meta.val of every node from those of the placeholders and get_attr nodes; placeholders must have theirs. It
// leaves nodes of operators that qdq does not have, and nodes that read an unknown value, as they are.
void infer_shapes(Program& program);

}  // namespace qdq
