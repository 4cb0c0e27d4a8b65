// Calls of operators: their arguments by kind, and what calls in graphs give.
#include <algorithm>
#include <map>

#include "base/function_ref.h"
#include "op/families.h"
#include "op/infer.h"
#include "op/size_symbols.h"
#include "op/targets.h"

namespace qdq {

namespace {

// A schema default as a value.
template <class T> BasicValue<T> value_of(const Argument& argument) {
  return std::visit(
      [](const auto& value) -> BasicValue<T> {
        using U = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<U, std::monostate>) {
          return {};
        } else if constexpr (std::is_same_v<U, Node*>) {
          fail(ErrorCode::kInternal, "a node was found where a constant was wanted");
        } else if constexpr (std::is_same_v<U, Argument::List>) {
          typename BasicValue<T>::List list;
          for (const Argument& element : value) list.push_back(value_of<T>(element));
          return list;
        } else {
          return value;
        }
      },
      argument.variant());
}

bool is_of_strings(const Tensor& tensor) { return tensor.dtype() == DType::kString; }
bool is_of_strings(const TensorMeta& meta) { return meta.dtype == DType::kString; }

bool is_of_complex(const Tensor& tensor) { return is_complex(tensor.dtype()); }
bool is_of_complex(const TensorMeta& meta) { return is_complex(meta.dtype); }

// Whether a value is a tensor of strings, a list with one, or their dtype.
template <class T> bool has_strings(const BasicValue<T>& value) {
  if (const T* tensor = value.template get_if<T>()) return is_of_strings(*tensor);
  if (const DType* dtype = value.template get_if<DType>()) return *dtype == DType::kString;
  const auto* list = value.template get_if<typename BasicValue<T>::List>();
  return list != nullptr && std::any_of(list->begin(), list->end(), has_strings<T>);
}

}  // namespace

template <class T> bool has_complex(const BasicValue<T>& value) {
  if (const T* tensor = value.template get_if<T>()) return is_of_complex(*tensor);
  if (const DType* dtype = value.template get_if<DType>()) return is_complex(*dtype);
  const auto* list = value.template get_if<typename BasicValue<T>::List>();
  return list != nullptr && std::any_of(list->begin(), list->end(), has_complex<T>);
}
template bool has_complex(const Value&);
template bool has_complex(const MetaValue&);

template <class T>
Call<T>::Call(const OpDef& op, std::vector<BasicValue<T>> args,
              std::vector<std::pair<std::string, BasicValue<T>>> kwargs)
    : op_(&op), values_(std::move(args)) {
  const Schema& schema = *op.schema;
  const size_t positional = values_.size();
  const bool fits =
      positional == 0 || (positional <= schema.arguments.size() && !schema.arguments[positional - 1].kwarg_only);
  QDQ_CHECK(fits, kInvalidArgument, op.target, " takes ", schema.num_positional(), " positional arguments, found ",
            positional);
  values_.resize(schema.arguments.size());
  std::vector<bool> named(kwargs.empty() ? 0 : values_.size(), false);  // mostly nothing is
  for (auto& [name, value] : kwargs) {
    const std::optional<size_t> i = schema.index_of(name);
    QDQ_CHECK(i.has_value(), kInvalidArgument, op.target, " has no argument '", name, "'");
    QDQ_CHECK(*i >= positional && !named[*i], kInvalidArgument, op.target, " got the argument '", name, "' twice");
    values_[*i] = std::move(value);
    named[*i] = true;
  }
  for (size_t i = positional; i < values_.size(); ++i) {
    if (!named.empty() && named[i]) continue;
    const SchemaArgument& argument = schema.arguments[i];
    QDQ_CHECK(argument.default_value || argument.is_optional, kInvalidArgument, op.target, " lacks the argument '",
              argument.name, "'");
    if (argument.default_value) values_[i] = value_of<T>(*argument.default_value);
  }
  for (size_t i = 0; !op.takes_complex && i < values_.size(); ++i)
    QDQ_CHECK(!has_complex(values_[i]), kUnsupported, op.target, " has no form for complex numbers, and its argument '",
              schema.arguments[i].name, "' is complex64");
  for (size_t i = 0; !op.takes_strings && i < values_.size(); ++i)
    QDQ_CHECK(!has_strings(values_[i]), kUnsupported, op.target, " computes with numbers, and its argument '",
              schema.arguments[i].name, "' is of strings");
}

template <class T> void Call<T>::bad(size_t i, std::string_view wanted) const {
  fail(ErrorCode::kInvalidArgument, op_->target, " needs ", wanted, " as its argument '",
       op_->schema->arguments[i].name, values_[i].is_none() ? "', found None" : "', found a value of another kind");
}

template <class T> const T& Call<T>::tensor(size_t i) const {
  const T* value = values_[i].template get_if<T>();
  if (value == nullptr) bad(i, "a tensor");
  return *value;
}

template <class T> const T* Call<T>::optional_tensor(size_t i) const { return is_none(i) ? nullptr : &tensor(i); }

template <class T> std::vector<T> Call<T>::tensors(size_t i) const {
  const auto* list = values_[i].template get_if<typename BasicValue<T>::List>();
  if (list == nullptr) bad(i, "a list of tensors");
  std::vector<T> out;
  for (const BasicValue<T>& element : *list) {
    const T* tensor = element.template get_if<T>();
    if (tensor == nullptr) bad(i, "a list of tensors");
    out.push_back(*tensor);
  }
  return out;
}

namespace {

template <class T> std::optional<SymInt> sym_of(const BasicValue<T>& value) {
  if (const int64_t* integer = value.template get_if<int64_t>()) return SymInt(*integer);
  if (const bool* boolean = value.template get_if<bool>()) return SymInt(*boolean);
  if (const SymInt* sym = value.template get_if<SymInt>()) return *sym;
  if constexpr (std::is_same_v<T, Tensor>) {
    const Tensor* tensor = value.template get_if<Tensor>();
    if (tensor != nullptr && tensor->numel() == 1 && !is_floating(tensor->dtype())) return SymInt(tensor->item_int());
  }
  return std::nullopt;
}

template <class T> std::optional<int64_t> integer_of(const BasicValue<T>& value) {
  const std::optional<SymInt> sym = sym_of(value);
  return sym ? sym->constant() : std::nullopt;
}

}  // namespace

template <class T> int64_t Call<T>::integer(size_t i) const {
  const std::optional<int64_t> value = integer_of(values_[i]);
  if (!value) bad(i, "an integer");
  return *value;
}

template <class T> SymInt Call<T>::sym(size_t i) const {
  const std::optional<SymInt> value = sym_of(values_[i]);
  if (!value) bad(i, "an integer");
  return *value;
}

template <class T> double Call<T>::number(size_t i) const {
  if (const double* value = values_[i].template get_if<double>()) return *value;
  if (const std::optional<int64_t> value = integer_of(values_[i])) return static_cast<double>(*value);
  if constexpr (std::is_same_v<T, Tensor>) {
    const Tensor* tensor = values_[i].template get_if<Tensor>();
    if (tensor != nullptr && tensor->numel() == 1) return tensor->item();
  }
  bad(i, "a number");
}

template <class T> bool Call<T>::is_integer(size_t i) const { return sym_of(values_[i]).has_value(); }

template <class T> bool Call<T>::boolean(size_t i) const {
  const std::optional<int64_t> value = integer_of(values_[i]);
  if (!value) bad(i, "a bool");
  return *value != 0;
}

template <class T> const std::string& Call<T>::string(size_t i) const {
  const std::string* value = values_[i].template get_if<std::string>();
  if (value == nullptr) bad(i, "a string");
  return *value;
}

template <class T> const Program& Call<T>::program(size_t i) const {
  const Subprogram* value = values_[i].template get_if<Subprogram>();
  if (value == nullptr || *value == nullptr) bad(i, "a program");
  return **value;
}

template <class T> DType Call<T>::dtype(size_t i, DType if_none) const {
  if (is_none(i)) return if_none;
  const DType* value = values_[i].template get_if<DType>();
  if (value == nullptr) bad(i, "a dtype");
  return *value;
}

template <class T> SymShape Call<T>::syms(size_t i) const {
  const int64_t wanted = op_->schema->arguments[i].list_size;
  SymShape out;
  if (const auto* list = values_[i].template get_if<typename BasicValue<T>::List>()) {
    for (const BasicValue<T>& element : *list) {
      const std::optional<SymInt> value = sym_of(element);
      if (!value) bad(i, "a list of integers");
      out.push_back(*value);
    }
    // PyTorch lets a list of one stand for all, as in conv2d(stride=[2]).
    if (out.size() == 1 && wanted > 1) out.resize(static_cast<size_t>(wanted), SymInt(out[0]));
  } else {
    out.assign(static_cast<size_t>(std::max<int64_t>(wanted, 1)), sym(i));
  }
  return out;
}

template <class T> std::vector<int64_t> Call<T>::integers(size_t i) const {
  std::vector<int64_t> out;
  for (const SymInt& value : syms(i)) {
    const std::optional<int64_t> constant = value.constant();
    if (!constant) bad(i, "a list of known integers");
    out.push_back(*constant);
  }
  return out;
}

template <class T> std::vector<int64_t> Call<T>::integers(size_t i, size_t count) const {
  std::vector<int64_t> out = integers(i);
  if (out.size() == 1) out.resize(count, int64_t{out[0]});
  QDQ_CHECK(out.size() == count, kInvalidArgument, op_->target, " needs ", count, " numbers as its argument '",
            op_->schema->arguments[i].name, "', found ", out.size());
  return out;
}

template class Call<Tensor>;
template class Call<TensorMeta>;

namespace {

// Operators that run programs ask what is known of the results of those, and need not know their inputs; nor need those
// that take lists of tensors and what may be None.
bool may_read_unknown(const Node& user) {
  const OpDef* op = find_op(user.target());
  if (op == nullptr) return false;
  const auto& arguments = op->schema->arguments;
  return op->family == Family::kControlFlow ||
         std::any_of(arguments.begin(), arguments.end(), [](const SchemaArgument& a) { return a.type == "Any"; });
}

MetaValue meta_value_of(const ValueMeta& meta, const Node& user, const Node& node) {
  return std::visit(
      [&](const auto& value) -> MetaValue {
        using U = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<U, std::monostate>) {
          if (may_read_unknown(user)) return {};
          throw Error(ErrorCode::kInvalidArgument,
                      concat("nothing is known of the value '", node.name(), "' that '", user.name(),
                             "' uses: give its dtype and shape"),
                      user.name(), user.target());
        } else if constexpr (std::is_same_v<U, std::vector<ValueMeta>>) {
          MetaValue::List list;
          for (const ValueMeta& element : value)
            list.push_back(element.value.index() == 0 ? MetaValue() : meta_value_of(element, user, node));
          return list;
        } else {
          return value;
        }
      },
      meta.value);
}

MetaValue meta_value_of(const Argument& argument, const Node& user) {
  if (const Node* node = argument.node()) return meta_value_of(node->meta.val, user, *node);
  if (!argument.is_list()) return value_of<TensorMeta>(argument);
  MetaValue::List list;
  for (const Argument& element : argument.list()) list.push_back(meta_value_of(element, user));
  return list;
}

ValueMeta value_meta_of(const MetaValue& value) {
  return std::visit(
      [](const auto& held) -> ValueMeta {
        using U = std::decay_t<decltype(held)>;
        if constexpr (std::is_same_v<U, TensorMeta> || std::is_same_v<U, SymInt> || std::is_same_v<U, double> ||
                      std::is_same_v<U, bool>) {
          return {held};
        } else if constexpr (std::is_same_v<U, int64_t>) {
          return {SymInt(held)};
        } else if constexpr (std::is_same_v<U, MetaValue::List>) {
          std::vector<ValueMeta> list;
          for (const MetaValue& element : held) list.push_back(value_meta_of(element));
          return {list};
        } else {
          return {};
        }
      },
      value.variant());
}

MetaValue infer_node(const Node& node) {
  const OpDef* op = find_op(node.target());
  QDQ_CHECK(op != nullptr, kUnsupported, "qdq does not have the operator ", node.target());
  std::vector<MetaValue> args;
  for (const Argument& argument : node.args()) args.push_back(meta_value_of(argument, node));
  std::vector<std::pair<std::string, MetaValue>> kwargs;
  for (const auto& [name, argument] : node.kwargs()) kwargs.emplace_back(name, meta_value_of(argument, node));
  return op->infer(Call<TensorMeta>(*op, std::move(args), std::move(kwargs)));
}

// What getitem takes of several results, without looking at the others: an operator may have thousands. Null for other
// operators, and where the place is not known.
const ValueMeta* chosen_result(const Node& node) {
  if (!node.is(op::kGetItem) || node.args().size() != 2 || !node.arg(0).is_node()) return nullptr;
  const auto* results = std::get_if<std::vector<ValueMeta>>(&node.arg(0).node()->meta.val.value);
  const std::optional<int64_t> place = node.arg(1).integer();
  const bool is_known = results && place && *place >= 0 && static_cast<size_t>(*place) < results->size();
  return is_known ? &(*results)[static_cast<size_t>(*place)] : nullptr;
}

Value constant_value_of(const Program& program, const Argument& argument) {
  if (const Node* node = argument.node()) return program.attribute_of(*node);
  if (!argument.is_list()) return value_of<Tensor>(argument);
  Value::List list;
  for (const Argument& element : argument.list()) list.push_back(constant_value_of(program, element));
  return list;
}

// Calls body(size, the size at the same place of `before`, or null) for all sizes of a value.
void for_each_size(ValueMeta& value, const ValueMeta* before, FunctionRef<void(SymInt&, const SymInt*)> body) {
  if (auto* tensor = std::get_if<TensorMeta>(&value.value)) {
    const TensorMeta* old = before ? before->tensor() : nullptr;
    for (size_t a = 0; a < tensor->sizes.size(); ++a)
      body(tensor->sizes[a], old && old->sizes.size() == tensor->sizes.size() ? &old->sizes[a] : nullptr);
  } else if (auto* size = std::get_if<SymInt>(&value.value)) {
    body(*size, before ? std::get_if<SymInt>(&before->value) : nullptr);
  } else if (auto* list = std::get_if<std::vector<ValueMeta>>(&value.value)) {
    const auto* old = before ? std::get_if<std::vector<ValueMeta>>(&before->value) : nullptr;
    for (size_t i = 0; i < list->size(); ++i)
      for_each_size((*list)[i], old && i < old->size() ? &(*old)[i] : nullptr, body);
  }
}

// The number of the first of u0, u1, ... behind those of the graph's values.
int64_t fresh_symbol(const Graph& graph) {
  int64_t next = 0;
  for (const Node* node = graph.first(); node != nullptr; node = node->next()) {
    ValueMeta value = node->meta.val;
    for_each_size(value, nullptr, [&](SymInt& size, const SymInt*) {
      if (size.is_constant()) return;
      const std::string name = size.to_string();
      constexpr size_t kMostDigits = 15;
      if (name.size() < 2 || name.size() > kMostDigits || name[0] != 'u' ||
          name.find_first_not_of("0123456789", 1) != std::string::npos)
        return;
      next = std::max<int64_t>(next, std::stoll(name.substr(1)) + 1);
    });
  }
  return next;
}

void name_sizes_from_values(ValueMeta& value, const Node& call) {
  std::map<std::string, SymInt> names;
  int64_t next = -1;
  for_each_size(value, &call.meta.val, [&](SymInt& size, const SymInt* before) {
    if (!is_size_from_values(size)) return;
    if (before && !before->is_constant()) {
      size = *before;  // as it was called before
      return;
    }
    if (next < 0) next = fresh_symbol(call.graph());
    const auto [name, is_new] = names.try_emplace(size.to_string(), SymInt::symbol(concat("u", next)));
    next += is_new ? 1 : 0;
    size = name->second;
  });
}

// x[:100] of an open axis: infer() takes the axis to be long enough, as torch.export makes sure where it tells the
// size 100. Where the program tells an open size, the axis may be shorter.
void keep_open_slice(ValueMeta& value, const Node& call) {
  const TensorMeta* before = call.meta.val.tensor();
  auto* after = std::get_if<TensorMeta>(&value.value);
  const auto is_number = [](const Argument& argument) { return argument.integer().has_value(); };
  if (!call.is(op::kSlice) || before == nullptr || after == nullptr || call.args().size() < 4) return;
  const SymShape& x = call.arg(0).node()->meta.val.tensor()->sizes;
  const size_t axis = static_cast<size_t>(wrap_axis(*call.arg(1).integer(), static_cast<int64_t>(x.size())));
  const bool is_open = before->sizes.size() == x.size() && !before->sizes[axis].is_constant() && !x[axis].is_constant();
  // x[:m] of an open axis that may be shorter.
  if (is_open && is_smaller_of(before->sizes[axis], after->sizes[axis], x[axis]))
    after->sizes[axis] = before->sizes[axis];
  if (!std::all_of(call.args().begin() + 1, call.args().end(), is_number)) return;
  const int64_t from = *call.arg(2).integer(), to = *call.arg(3).integer();
  const int64_t step = call.args().size() > 4 ? *call.arg(4).integer() : 1;
  if (is_open && is_known_outside(x[axis]) && !leaves_out_some(from, to))
    after->sizes[axis] = slice_length(from, to, step, x[axis]);
}

}  // namespace

void infer_value(Node& call) {
  const ValueMeta* chosen = chosen_result(call);
  ValueMeta value = chosen != nullptr ? *chosen : value_meta_of(infer_node(call));
  // Refuses more elements than can be counted, so that sums of sizes stay within 64 bits.
  if (const TensorMeta* meta = value.tensor()) {
    Shape known;
    for (const SymInt& size : meta->sizes)
      if (const auto constant = size.constant()) known.push_back(*constant);
    numel_of(known);
  }
  keep_open_slice(value, call);
  name_sizes_from_values(value, call);
  call.meta.val = std::move(value);
}

Tensor eval_constant(const Program& program, const Node& call) {
  const OpDef* op = find_op(call.target());
  QDQ_CHECK(op != nullptr, kInternal, "qdq does not have the operator ", call.target());
  std::vector<Value> args;
  for (const Argument& argument : call.args()) args.push_back(constant_value_of(program, argument));
  std::vector<std::pair<std::string, Value>> kwargs;
  for (const auto& [name, argument] : call.kwargs()) kwargs.emplace_back(name, constant_value_of(program, argument));
  const Value result = op->eval(Call<Tensor>(*op, std::move(args), std::move(kwargs)));
  QDQ_CHECK(result.is_tensor(), kInternal, call.target(), " does not give one tensor");
  return *result.get_if<Tensor>();
}

void infer_shapes(Program& program) {
  const auto is_known = [](const Node* input) { return input->meta.val.value.index() != 0; };
  for (Node* node : program.graph->nodes()) {
    try {
      if (node->op() == Node::Op::kGetAttr) {
        const Tensor& tensor = program.attribute_of(*node);
        TensorMeta meta;
        meta.dtype = tensor.dtype();
        meta.sizes.assign(tensor.sizes().begin(), tensor.sizes().end());
        if (!tensor.is_contiguous()) meta.strides.assign(tensor.strides().begin(), tensor.strides().end());
        node->meta.val.value = std::move(meta);
      } else if (node->op() == Node::Op::kCallFunction) {
        const std::vector<Node*> inputs = node->input_nodes();
        if (!find_op(node->target()) || !std::all_of(inputs.begin(), inputs.end(), is_known)) continue;
        const ValueMeta said = node->meta.val;
        infer_value(*node);
        if (node->meta.val.value.index() == 0) node->meta.val = said;
      } else if (node->op() == Node::Op::kCallModule && !node->input_nodes().empty()) {
        node->meta.val = node->input_nodes()[0]->meta.val;  // observers hand their input on
      }
    } catch (Error& error) {
      if (error.node.empty()) error.node = node->name();
      if (error.op.empty()) error.op = node->target();
      throw;
    }
  }
}

}  // namespace qdq
