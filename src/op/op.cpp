#include "op/op.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <unordered_map>

#include "base/listed.h"
#include "op/elements.h"
#include "op/facts.h"
#include "op/families.h"
#include "op/infer.h"

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
  const Schema& schema = op.schema;
  QDQ_CHECK(values_.size() <= schema.num_positional(), kInvalidArgument, op.target, " takes ", schema.num_positional(),
            " positional arguments, found ", values_.size());
  std::vector<bool> given(schema.arguments.size(), false);
  std::fill_n(given.begin(), values_.size(), true);
  values_.resize(schema.arguments.size());
  for (auto& [name, value] : kwargs) {
    const std::optional<size_t> i = schema.index_of(name);
    QDQ_CHECK(i.has_value(), kInvalidArgument, op.target, " has no argument '", name, "'");
    QDQ_CHECK(!given[*i], kInvalidArgument, op.target, " got the argument '", name, "' twice");
    values_[*i] = std::move(value);
    given[*i] = true;
  }
  for (size_t i = 0; i < given.size(); ++i) {
    if (given[i]) continue;
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
  fail(ErrorCode::kInvalidArgument, op_->target, " wants ", wanted, " as its argument '", op_->schema.arguments[i].name,
       values_[i].is_none() ? "', found None" : "', found a value of another kind");
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
  const int64_t wanted = op_->schema.arguments[i].list_size;
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
  QDQ_CHECK(out.size() == count, kInvalidArgument, op_->target, " wants ", count, " numbers as its argument '",
            op_->schema.arguments[i].name, "', found ", out.size());
  return out;
}

template class Call<Tensor>;
template class Call<TensorMeta>;

OpDef define(std::string_view schema_line, Infer infer, Eval eval, const Roles& roles, Family family) {
  const size_t colons = schema_line.find("::");
  QDQ_CHECK(colons != std::string_view::npos, kInternal, "the operator schema '", schema_line, "' has no namespace");
  const std::string_view space = schema_line.substr(0, colons);
  OpDef op;
  op.schema = Schema::parse(schema_line.substr(colons + 2));
  op.infer = infer;
  op.eval = eval;
  op.roles = roles;
  op.family = family;
  if (space == "operator") op.target = concat("operator.", op.schema.name);
  else
    op.target = concat("torch.ops.", space, ".", op.schema.name,
                       op.schema.name.find('.') == std::string::npos ? ".default" : "");
  return op;
}

// PyTorch's second names of operators; an exported program keeps the one that the model used. All overloads go along,
// and the in-place form ("mul_" is "multiply_" too).
constexpr std::pair<std::string_view, std::string_view> kSecondNames[] = {{"multiply", "mul"},
                                                                          {"divide", "div"},
                                                                          {"subtract", "sub"},
                                                                          {"clip", "clamp"},
                                                                          {"absolute", "abs"},
                                                                          {"negative", "neg"},
                                                                          {"fix", "trunc"},
                                                                          {"greater", "gt"},
                                                                          {"greater_equal", "ge"},
                                                                          {"less", "lt"},
                                                                          {"less_equal", "le"},
                                                                          {"not_equal", "ne"},
                                                                          {"concatenate", "cat"},
                                                                          {"moveaxis", "movedim"},
                                                                          {"arcsin", "asin"},
                                                                          {"arccos", "acos"},
                                                                          {"arctan", "atan"},
                                                                          {"arcsinh", "asinh"},
                                                                          {"arccosh", "acosh"},
                                                                          {"arctanh", "atanh"},
                                                                          {"arctan2", "atan2"},
                                                                          {"special_erf", "erf"},
                                                                          {"special_erfc", "erfc"},
                                                                          {"special_erfinv", "erfinv"},
                                                                          {"special_exp2", "exp2"},
                                                                          {"special_expm1", "expm1"},
                                                                          {"special_log1p", "log1p"},
                                                                          {"special_sinc", "sinc"},
                                                                          {"special_gammaln", "lgamma"},
                                                                          {"special_digamma", "digamma"},
                                                                          {"special_psi", "digamma"},
                                                                          {"special_logit", "logit"},
                                                                          {"ger", "outer"},
                                                                          {"linalg_matmul", "matmul"},
                                                                          {"special_logsumexp", "logsumexp"}};

std::string_view first_name(std::string_view name) {
  for (const auto& [second, first] : kSecondNames)
    if (name == second) return first;
  return name;
}

// Operators whose form in place is the functional one, stored in self.
constexpr std::string_view kAlsoInPlace[] = {"abs",          "acos",        "acosh",
                                             "addcdiv",      "addcmul",     "asin",
                                             "asinh",        "atan",        "atan2",
                                             "atanh",        "bitwise_and", "bitwise_left_shift",
                                             "bitwise_not",  "bitwise_or",  "bitwise_xor",
                                             "ceil",         "celu",        "bitwise_right_shift",
                                             "copysign",     "cos",         "cosh",
                                             "cumsum",       "deg2rad",     "digamma",
                                             "div",          "eq",          "erf",
                                             "erfc",         "erfinv",      "exp2",
                                             "expm1",        "floor",       "fmod",
                                             "frac",         "gcd",         "ge",
                                             "gt",           "heaviside",   "hypot",
                                             "lcm",          "le",          "lgamma",
                                             "log",          "log10",       "log1p",
                                             "log2",         "logical_and", "logical_not",
                                             "logical_or",   "logical_xor", "logit",
                                             "lt",           "nan_to_num",  "ne",
                                             "neg",          "rad2deg",     "reciprocal",
                                             "remainder",    "round",       "rsqrt",
                                             "scatter",      "scatter_add", "scatter_reduce",
                                             "index_add",    "index_copy",  "index_fill",
                                             "index_reduce", "put",         "masked_scatter",
                                             "cumprod",      "selu",        "sgn",
                                             "sign",         "sin",         "sinc",
                                             "sinh",         "square",      "tan",
                                             "threshold",    "tril",        "triu",
                                             "true_divide",  "trunc",       "xlogy",
                                             "clamp",        "clamp_min",   "clamp_max"};

Value eval_in_place(const Call<Tensor>& call) {
  std::vector<Value> args;
  for (size_t i = 0; i < call.size(); ++i) args.push_back(call[i]);
  const Value result = run_op<Tensor>(*call.op().functional, std::move(args));
  return store_in_self(call, *result.get_if<Tensor>());
}

void add_in_place_forms(std::vector<OpDef>& ops) {
  std::set<std::string> known;
  for (const OpDef& op : ops) known.insert(op.target);
  for (size_t i = 0, count = ops.size(); i < count; ++i) {
    const std::string name = ops[i].schema.name.substr(0, ops[i].schema.name.find('.'));
    const bool listed = std::find(std::begin(kAlsoInPlace), std::end(kAlsoInPlace), name) != std::end(kAlsoInPlace);
    if (!listed || ops[i].schema.arguments[0].type != "Tensor") continue;
    OpDef op = ops[i];
    op.schema.name.insert(name.size(), "_");
    op.schema.arguments[0].is_mutated = true;
    op.target.insert(op.target.rfind('.'), "_");
    op.infer = infer_like_self;
    op.eval = eval_in_place;
    if (!known.contains(op.target)) ops.push_back(std::move(op));
  }
}

void add_second_names(std::vector<OpDef>& ops) {
  constexpr std::string_view kAten = "torch.ops.aten.";
  for (size_t i = 0, count = ops.size(); i < count; ++i) {
    if (!ops[i].target.starts_with(kAten)) continue;
    const std::string name = ops[i].schema.name.substr(0, ops[i].schema.name.find('.'));
    for (const auto& [second, first] : kSecondNames) {
      const bool in_place = name == concat(first, "_") && !second.starts_with("special_");
      if (name != first && !in_place) continue;
      OpDef op = ops[i];
      op.schema.name.replace(0, first.size(), second);
      op.target.replace(kAten.size(), first.size(), second);
      ops.push_back(std::move(op));
    }
  }
}

std::string_view OpDef::short_name() const { return qdq::short_name(target); }

// The operators of these families move elements; of the others those that are named.
void mark_those_that_take_strings(std::vector<OpDef>& ops) {
  static constexpr Family kFamilies[] = {Family::kView,  Family::kSplit, Family::kConcat,     Family::kCopy,
                                         Family::kIndex, Family::kSize,  Family::kControlFlow};
  static constexpr std::string_view kNames[] = {"eq.Tensor",   "ne.Tensor",      "where.self",   "index_put.default",
                                                "scatter.src", "repeat.default", "flip.default", "stack.default"};
  for (OpDef& op : ops)
    op.takes_strings |= op.target == "operator.getitem" ||
                        std::find(std::begin(kFamilies), std::end(kFamilies), op.family) != std::end(kFamilies) ||
                        (op.target.starts_with("torch.ops.aten.") &&
                         std::find(std::begin(kNames), std::end(kNames), local_name(op.target)) != std::end(kNames));
}

// "add_.Tensor" stands beside "add.Tensor". An operator without a functional form, such as zero_, has none; what writes
// to another argument than its first (running statistics) is no in-place form.
void pair_forms(std::vector<OpDef>& ops) {
  std::unordered_map<std::string_view, OpDef*> by_target;
  for (OpDef& op : ops) by_target.emplace(op.target, &op);
  for (OpDef& op : ops) {
    const bool writes_first = !op.schema.arguments.empty() && op.schema.arguments[0].is_mutated;
    if (!writes_first) {
      op.functional = &op;
      continue;
    }
    op.in_place = &op;
    std::string plain = op.target;
    const size_t underscore = plain.rfind('_', plain.rfind('.'));
    plain.erase(underscore, 1);
    if (const auto found = by_target.find(plain); found != by_target.end()) {
      op.functional = found->second;
      found->second->in_place = &op;
    }
  }
}

const std::vector<OpDef>& all_ops() {
  static const std::vector<OpDef> ops = [] {
    std::vector<OpDef> all;
    add_conv_ops(all);
    add_linear_ops(all);
    add_attention_ops(all);
    add_norm_ops(all);
    add_pool_ops(all);
    add_activation_ops(all);
    add_pointwise_ops(all);
    add_reduce_ops(all);
    add_view_ops(all);
    add_resize_ops(all);
    add_index_ops(all);
    add_create_ops(all);
    add_recurrent_ops(all);
    add_quantized_decomposed_ops(all);
    add_higher_order_ops(all);
    add_sym_ops(all);
    add_rare_ops(all);
    mark_those_that_take_strings(all);
    add_in_place_forms(all);
    add_second_names(all);
    pair_forms(all);
    return all;
  }();
  return ops;
}

const OpDef* find_op(std::string_view target) {
  static const std::unordered_map<std::string_view, const OpDef*> by_target = [] {
    std::unordered_map<std::string_view, const OpDef*> map;
    for (const OpDef& op : all_ops())
      QDQ_CHECK(map.emplace(op.target, &op).second, kInternal, "the operator ", op.target, " is defined twice");
    return map;
  }();
  if (target.substr(0, 10) == "_operator.") target.remove_prefix(1);
  const auto found = by_target.find(target);
  return found == by_target.end() ? find_custom_op(target) : found->second;
}

namespace {

bool is_unknown(const Node& node) { return node.op() == Node::Op::kCallFunction && find_op(node.target()) == nullptr; }

}  // namespace

void check_ops(const Graph& graph) {
  std::map<std::string, std::vector<const Node*>> unknown;
  for (const Node* node : graph.nodes())
    if (is_unknown(*node)) unknown[node->target()].push_back(node);
  if (unknown.empty()) return;
  std::string list;
  for (const auto& [target, nodes] : unknown) {
    list += concat(list.empty() ? "" : "; ", target, " (", nodes.size() == 1 ? "node " : "nodes ");
    std::vector<std::string_view> names;
    for (const Node* node : nodes) names.push_back(node->name());
    list += listed(names, 5) + ")";
    for (const auto& [key, reason] : nodes[0]->meta.extra)
      if (key == kUnsupportedReason) list += concat(": ", reason);
  }
  const auto& [target, nodes] = *unknown.begin();
  throw Error(ErrorCode::kUnsupported,
              concat("qdq does not have ", unknown.size(), unknown.size() == 1 ? " operator" : " operators",
                     " of this program: ", list),
              nodes[0]->name(), target);
}

namespace {

// Operators that run programs ask what is known of the results of those, and need not know their inputs; nor need those
// that take lists of tensors and what may be None.
bool may_read_unknown(const Node& user) {
  const OpDef* op = find_op(user.target());
  if (op == nullptr) return false;
  const auto& arguments = op->schema.arguments;
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

Value constant_value_of(const Program& program, const Argument& argument) {
  if (const Node* node = argument.node()) return program.attribute_of(*node);
  if (!argument.is_list()) return value_of<Tensor>(argument);
  Value::List list;
  for (const Argument& element : argument.list()) list.push_back(constant_value_of(program, element));
  return list;
}

// Calls body(size, the size at the same place of `before`, or null) for all sizes of a value.
void for_each_size(ValueMeta& value, const ValueMeta* before, const std::function<void(SymInt&, const SymInt*)>& body) {
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

// The first of u0, u1, ... behind those of the graph's values.
SymInt fresh_symbol(const Graph& graph) {
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
  return SymInt::symbol(concat("u", next));
}

void name_size_from_values(ValueMeta& value, const Node& call) {
  const SymInt open = size_from_values();
  std::optional<SymInt> name;
  for_each_size(value, &call.meta.val, [&](SymInt& size, const SymInt* before) {
    if (!(size == open)) return;
    if (before && !before->is_constant()) {
      size = *before;  // as it was called before
      return;
    }
    if (!name) name = fresh_symbol(call.graph());
    size = *name;
  });
}

}  // namespace

void infer_value(Node& call) {
  ValueMeta value = value_meta_of(infer_node(call));
  // Refuses more elements than can be counted, so that sums of sizes stay within 64 bits.
  if (const TensorMeta* meta = value.tensor()) {
    Shape known;
    for (const SymInt& size : meta->sizes)
      if (const auto constant = size.constant()) known.push_back(*constant);
    numel_of(known);
  }
  name_size_from_values(value, call);
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
