// What an operator is: PyTorch's schema line, shape inference, reference evaluation, roles; and the table of all of them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "graph/program.h"
#include "graph/schema.h"
#include "tensor/tensor.h"

namespace qdq {

// A resolved argument or result. T is Tensor when running and TensorMeta when inferring shapes (where integers may be SymInts).
template <class T> class BasicValue {
 public:
  using List = std::vector<BasicValue>;
  BasicValue() = default;                                         // None
  BasicValue(T value) : value_(std::move(value)) {}               // NOLINT: implicit, so that evaluators can return tensors
  BasicValue(bool value) : value_(value) {}                       // NOLINT
  BasicValue(int64_t value) : value_(value) {}                    // NOLINT
  BasicValue(int value) : value_(static_cast<int64_t>(value)) {}  // NOLINT
  BasicValue(double value) : value_(value) {}                     // NOLINT
  BasicValue(std::string value) : value_(std::move(value)) {}     // NOLINT
  BasicValue(const char* value) : value_(std::string(value)) {}   // NOLINT: a pointer would become a bool
  BasicValue(DType value) : value_(value) {}                      // NOLINT
  BasicValue(MemoryFormat value) : value_(value) {}               // NOLINT
  BasicValue(Layout value) : value_(value) {}                     // NOLINT
  BasicValue(Device value) : value_(std::move(value)) {}          // NOLINT
  BasicValue(SymInt value) : value_(std::move(value)) {}          // NOLINT
  BasicValue(List value) : value_(std::move(value)) {}            // NOLINT

  template <class U> bool is() const { return std::holds_alternative<U>(value_); }
  template <class U> const U* get_if() const { return std::get_if<U>(&value_); }
  bool is_none() const { return is<std::monostate>(); }
  bool is_tensor() const { return is<T>(); }
  const auto& variant() const { return value_; }

 private:
  std::variant<std::monostate, T, bool, int64_t, double, std::string, DType, MemoryFormat, Layout, Device, SymInt, List> value_;
};
using Value = BasicValue<Tensor>;
using MetaValue = BasicValue<TensorMeta>;

struct OpDef;

// One call of an operator with all arguments in schema order: defaults are filled in, keyword-only arguments included. The typed
// accessors throw Error{kInvalidArgument} naming operator and argument if the value is of another kind.
template <class T> class Call {
 public:
  // Fills defaults. Throws Error{kInvalidArgument} on too many, missing or unknown arguments.
  Call(const OpDef& op, std::vector<BasicValue<T>> args, std::vector<std::pair<std::string, BasicValue<T>>> kwargs = {});

  const OpDef& op() const { return *op_; }
  size_t size() const { return values_.size(); }
  const BasicValue<T>& operator[](size_t i) const { return values_[i]; }
  bool is_none(size_t i) const { return values_[i].is_none(); }

  const T& tensor(size_t i) const;
  const T* optional_tensor(size_t i) const;  // null for None
  std::vector<T> tensors(size_t i) const;    // "Tensor[]"
  int64_t integer(size_t i) const;
  SymInt sym(size_t i) const;
  double number(size_t i) const;    // Scalar or float: an int, a float or a bool (or, when running, a one-element tensor)
  bool is_integer(size_t i) const;  // whether a Scalar is an int or bool
  bool boolean(size_t i) const;
  const std::string& string(size_t i) const;
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

// Which argument is what, by schema index; -1: there is none. Facts only: what a quantizer makes of them is its policy.
struct Roles {
  int activation = -1;
  int other = -1;  // the second activation of a binary operator
  int weight = -1;
  int bias = -1;
  int weight_axis = 0;          // the output-channel axis of the weight
  bool shares_qparams = false;  // every output element is an input element (views, max pools, cat) or a mean of them
};

struct OpDef {
  std::string target;  // "torch.ops.aten.conv2d.default"
  Schema schema;
  // The result's metadata (a list for several results); sizes may be symbolic.
  MetaValue (*infer)(const Call<TensorMeta>& call);
  // The specification: slow, plain, exact. Views alias their input, in-place operators write to it, as in PyTorch.
  Value (*eval)(const Call<Tensor>& call);
  Roles roles;
};

// Every operator, one table per family file, joined in op/op.cpp.
const std::vector<OpDef>& all_ops();
// The entry of a call_function target; null if qdq does not have the operator. "_operator.add" is "operator.add".
const OpDef* find_op(std::string_view target);

// Throws Error{kUnsupported} that lists every operator of the graph which qdq does not have, with the nodes that use it.
void check_ops(const Graph& graph);

// Sets meta.val of every node from those of the placeholders and get_attr nodes (placeholders must have theirs).
void infer_shapes(Program& program);

}  // namespace qdq
