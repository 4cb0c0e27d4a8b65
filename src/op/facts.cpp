#include "op/facts.h"

#include <limits>

#include "op/families.h"
#include "op/targets.h"

namespace qdq {
namespace {

Node* node_of(const Node& node, int Roles::* role) {
  const OpDef* op = op_of(node);
  return op == nullptr || op->roles.*role < 0 ? nullptr
                                              : argument_of(node, static_cast<size_t>(op->roles.*role)).node();
}

}  // namespace

const OpDef* op_of(const Node& node) { return node.op() == Node::Op::kCallFunction ? find_op(node.target()) : nullptr; }

bool is_a(const Node& node, Family family) {
  const OpDef* op = op_of(node);
  return op != nullptr && op->family == family;
}

bool is_form_of(const Node& node, std::string_view functional_target) {
  const OpDef* op = op_of(node);
  return op != nullptr && op->functional != nullptr && op->functional->target == functional_target;
}

const Argument& argument_of(const Node& node, size_t index) {
  static const Argument kNone;
  const OpDef* op = op_of(node);
  QDQ_CHECK(op != nullptr && index < op->schema->arguments.size(), kInternal, "no argument ", index, " of ",
            node.target());
  if (index < node.args().size()) return node.args()[index];
  const SchemaArgument& argument = op->schema->arguments[index];
  if (const Argument* given = node.kwarg(argument.name)) return *given;
  return argument.default_value ? *argument.default_value : kNone;
}

Node* input_of(const Node& node) { return node_of(node, &Roles::activation); }
Node* other_of(const Node& node) { return node_of(node, &Roles::other); }
Node* weight_of(const Node& node) { return node_of(node, &Roles::weight); }
Node* bias_of(const Node& node) { return node_of(node, &Roles::bias); }

std::optional<kernel::Activation> activation_function(const Node& node) {
  using Kind = kernel::Activation::Kind;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const OpDef* op = op_of(node);
  if (op == nullptr || op->computes.function.kind == Kind::kNone) return std::nullopt;
  kernel::Activation function = op->computes.function;
  bool known = true;
  const auto read = [&](int index, double& parameter, double if_none) {
    if (index < 0) return;
    const Argument& given = argument_of(node, static_cast<size_t>(index));
    known = known && (given.is_none() || given.number().has_value());
    parameter = given.number().value_or(if_none);
  };
  read(op->computes.low, function.low, -kInfinity);
  read(op->computes.high, function.high, kInfinity);
  read(op->computes.slope, function.slope, 0);
  if (!known) return std::nullopt;
  if (function.kind == Kind::kGelu && argument_of(node, 1) == Argument("tanh")) function.kind = Kind::kGeluTanh;
  return function;
}

std::string_view short_name(std::string_view target) {
  constexpr std::string_view kPrefix = "torch.ops.";
  if (target.starts_with(kPrefix)) target.remove_prefix(kPrefix.size());
  return target;
}

std::string_view local_name(std::string_view target) {
  const std::string_view name = short_name(target);
  return name.size() == target.size() ? name : name.substr(name.find('.') + 1);
}

std::string_view base_name(std::string_view target) {
  const std::string_view name = local_name(target);
  return name.size() == target.size() ? name.substr(name.rfind('.') + 1) : name.substr(0, name.find('.'));
}

std::string_view space_of(std::string_view target) {
  const std::string_view name = short_name(target);
  return name.size() == target.size() ? std::string_view() : name.substr(0, name.find('.'));
}

const OpDef& plain_form(const OpDef& op) {
  const OpDef& form = op.functional != nullptr ? *op.functional : op;
  const std::string_view name = base_name(form.target), first = first_name(name);
  if (first == name) return form;
  std::string target = form.target;
  target.replace(static_cast<size_t>(name.data() - form.target.data()), name.size(), first);
  const OpDef* found = find_op(target);
  return found != nullptr ? *found : form;
}

bool is_view(const OpDef& op) {
  if (op.family != Family::kView && op.family != Family::kSplit && op.family != Family::kCopy) return false;
  const std::string_view name = base_name(op.target);
  return !op.is_in_place() && !name.ends_with("_copy") && name != "clone";
}

bool is_view(const Node& node) {
  if (node.is(op::kGetItem)) return node.arg(0).is_node() && is_view(*node.arg(0).node());
  const OpDef* op = op_of(node);
  return op != nullptr && is_view(*op);
}

}  // namespace qdq
