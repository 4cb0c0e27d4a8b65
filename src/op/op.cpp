// The table of all operators: entries, second names, forms in place.
#include "op/op.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "base/listed.h"
#include "op/elements.h"
#include "op/facts.h"
#include "op/families.h"
#include "op/infer.h"
#include "op/targets.h"

namespace qdq {

OpDef define(std::string_view schema_line, Infer infer, Eval eval, const Roles& roles, Family family) {
  const size_t colons = schema_line.find("::");
  QDQ_CHECK(colons != std::string_view::npos, kInternal, "the operator schema '", schema_line, "' has no namespace");
  const std::string_view space = schema_line.substr(0, colons);
  OpDef op;
  op.schema = SchemaLine(schema_line.substr(colons + 2));
  const std::string_view name = op.schema.name();
  op.infer = infer;
  op.eval = eval;
  op.roles = roles;
  op.family = family;
  if (space == "operator" || space == "torch") op.target = concat(space, ".", name);
  else op.target = concat("torch.ops.", space, ".", name, name.find('.') == std::string_view::npos ? ".default" : "");
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
                                             "clamp",        "clamp_min",   "clamp_max",
                                             "i0",           "lerp"};

// "add.Tensor(...)" -> "add"
std::string_view without_overload(std::string_view name) { return name.substr(0, name.find('.')); }

// "abs(Tensor self) -> Tensor" -> "abs_(Tensor(a!) self) -> Tensor"
SchemaLine in_place_line(const SchemaLine& line) {
  const std::string_view name = line.name(), stem = without_overload(name);
  constexpr std::string_view kSelf = "(Tensor";
  return SchemaLine(
      concat(stem, "_", name.substr(stem.size()), kSelf, "(a!)", line.text().substr(name.size() + kSelf.size())));
}

void add_in_place_forms(std::vector<OpDef>& ops) {
  std::unordered_set<std::string_view> known;
  for (const OpDef& op : ops) known.insert(op.target);
  std::vector<OpDef> forms;
  for (const OpDef& functional : ops) {
    const std::string_view name = functional.schema.name(), stem = without_overload(name);
    const bool listed = std::find(std::begin(kAlsoInPlace), std::end(kAlsoInPlace), stem) != std::end(kAlsoInPlace);
    if (!listed || !functional.schema.text().substr(name.size()).starts_with("(Tensor ")) continue;
    OpDef op = functional;
    op.schema = in_place_line(functional.schema);
    op.target.insert(op.target.rfind('.'), "_");
    op.infer = infer_like_self;
    op.eval = eval_in_place;
    if (!known.contains(op.target)) forms.push_back(std::move(op));
  }
  std::move(forms.begin(), forms.end(), std::back_inserter(ops));
}

void add_second_names(std::vector<OpDef>& ops) {
  constexpr std::string_view kAten = "torch.ops.aten.";
  for (size_t i = 0, count = ops.size(); i < count; ++i) {
    if (!ops[i].target.starts_with(kAten)) continue;
    const std::string_view stem = without_overload(ops[i].schema.name());
    const bool in_place = stem.ends_with('_');
    const std::string_view functional = stem.substr(0, stem.size() - (in_place ? 1 : 0));
    for (const auto& [second, first] : kSecondNames) {
      if (functional != first || (in_place && second.starts_with("special_"))) continue;
      OpDef op = ops[i];
      op.schema = SchemaLine(concat(second, op.schema.text().substr(first.size())));
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

// Forms in place whose overload has another name than that of the functional one.
constexpr std::pair<std::string_view, std::string_view> kOtherOverloads[] = {
    {"pow_.Scalar", "pow.Tensor_Scalar"},
    {"pow_.Tensor", "pow.Tensor_Tensor"},
    {"floor_divide_.Tensor", "floor_divide.default"}};

std::string functional_target(const OpDef& op) {
  for (const auto& [in_place, functional] : kOtherOverloads)
    if (op.target == op::aten(in_place)) return op::aten(functional);
  std::string plain = op.target;
  plain.erase(plain.rfind('_', plain.rfind('.')), 1);
  return plain;
}

// "add_.Tensor" stands beside "add.Tensor". An operator without a functional form, such as zero_, has none; what writes
// to another argument than its first (running statistics) is no in-place form.
void pair_forms(std::vector<OpDef>& ops) {
  std::unordered_map<std::string_view, OpDef*> by_target;
  for (OpDef& op : ops) by_target.emplace(op.target, &op);
  for (OpDef& op : ops) {
    if (!op.schema.mutates_first()) {
      op.functional = &op;
      continue;
    }
    op.in_place = &op;
    if (const auto found = by_target.find(functional_target(op)); found != by_target.end()) {
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
    add_order_ops(all);
    add_view_ops(all);
    add_part_ops(all);
    add_copy_ops(all);
    add_resize_ops(all);
    add_index_ops(all);
    add_scatter_ops(all);
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

}  // namespace qdq
