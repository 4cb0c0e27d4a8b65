// Variances, and layer and group norms that exporters spell out where their opset has none, put together again:
// quantizers leave these in float, and would round each of their parts.
#include <algorithm>
#include <set>

#include "io/onnx/import.h"
#include "op/facts.h"
#include "op/infer.h"
#include "op/spelled_out.h"
#include "op/targets.h"

namespace qdq {
namespace {

const SymShape* sizes_of(const Node* node) {
  const TensorMeta* meta = node ? node->meta.val.tensor() : nullptr;
  return meta && is_floating(meta->dtype) ? &meta->sizes : nullptr;
}

// The sizes of the last axes, which are known, if a mean is over these and keeps them; else none.
SymShape averaged_sizes(const Node& mean) {
  const SymShape* sizes = sizes_of(mean.arg(0).node());
  const Argument& axes = argument_of(mean, 1);
  if (!sizes || !axes.is_list() || argument_of(mean, 2).integer().value_or(0) != 1 || !argument_of(mean, 3).is_none())
    return {};
  const auto rank = static_cast<int64_t>(sizes->size());
  std::set<int64_t> places;
  for (const Argument& axis : axes.list()) places.insert(wrap_axis(axis.integer().value_or(0), rank));
  const auto count = static_cast<int64_t>(places.size());
  if (places.empty() || *places.begin() != rank - count || axes.list().size() != places.size()) return {};
  SymShape out(sizes->end() - count, sizes->end());
  const bool is_known = std::all_of(out.begin(), out.end(), [](const SymInt& size) { return size.is_constant(); });
  return is_known ? out : SymShape();
}

bool is_square_of(const Node& node, const Node* x) {
  if (is_aten(&node, "pow.Tensor_Scalar")) return node.arg(0).node() == x && is_number(node.arg(1), 2);
  return is_aten(&node, "mul.Tensor") && node.arg(0).node() == x && node.arg(1).node() == x;
}

class NormFuser {
 public:
  explicit NormFuser(Program& program) : program_(program) {}

  // (x - mean(x)) / sqrt(mean((x - mean(x))^2) + epsilon), then * weight + bias or not
  void layer_norm(Node* division) {
    const Node *centered = division->arg(0).node(), *root = sole_call(division->arg(1), "sqrt.default");
    const Node* sum = root ? sole_call(root->arg(0), "add.Tensor") : nullptr;
    const Node* variance = sum ? sole_call(sum->arg(0), "mean.dim") : nullptr;
    const Node* square = variance ? variance->arg(0).node() : nullptr;
    if (!square || !sum->arg(1).number() || !is_aten(centered, "sub.Tensor") || !is_square_of(*square, centered))
      return;
    const Node* mean = sole_call(centered->arg(1), "mean.dim");
    if (!mean || mean->arg(0) != centered->arg(0) || !centered->kwargs().empty() || !sum->kwargs().empty()) return;
    const auto is_inside = [&](const Node* user) { return user == square || user == division; };
    const std::vector<Node*>& users = centered->users();
    if (square->users().size() != 1 || !std::all_of(users.begin(), users.end(), is_inside)) return;
    const SymShape sizes = averaged_sizes(*mean);
    if (sizes.empty() || averaged_sizes(*variance) != sizes) return;

    Argument::List shape;
    for (const SymInt& size : sizes) shape.emplace_back(*size.constant());
    Node* last = division;
    const auto behind = [&](std::string_view name) {
      Node* constant = constant_behind(last, name);
      if (!constant || constant->meta.val.tensor()->sizes != sizes) return Argument();
      last = last->users()[0];
      return Argument(constant);
    };
    const Argument weight = behind("mul.Tensor"), bias = behind("add.Tensor");
    replace_with_call(last, "layer_norm.default",
                      {mean->arg(0), Argument(std::move(shape)), weight, bias, *sum->arg(1).number()});
  }

  // reshape to [N, groups, -1] -> instance_norm -> reshape back, then * weight + bias or not
  void group_norm(Node* norm) {
    const Node* groups = sole_call(norm->arg(0), "reshape.default");
    Node* last = norm->users().size() == 1 ? norm->users()[0] : nullptr;
    if (!groups || !is_aten(last, "reshape.default") || last->arg(0).node() != norm) return;
    const Argument& x = groups->arg(0);
    const SymShape *sizes = sizes_of(x.node()), *split = sizes_of(groups), *back = sizes_of(last);
    if (!sizes || !split || !back || *back != *sizes || sizes->size() < 2 || split->size() != 3) return;
    const std::optional<int64_t> channels = (*sizes)[1].constant(), count = (*split)[1].constant();
    if ((*split)[0] != (*sizes)[0] || !channels || !count || *count < 1 || *channels % *count != 0) return;
    const bool is_plain = is_filled(argument_of(*norm, 1), 1) && is_filled(argument_of(*norm, 2), 0);
    if (!is_plain || argument_of(*norm, 5).integer().value_or(0) != 1) return;

    const auto behind = [&](std::string_view name) {
      Node* constant = constant_behind(last, name);
      Node* each = constant ? each_channel(*constant, sizes->size(), *channels) : nullptr;
      if (!each) return Argument();
      last = last->users()[0];
      return Argument(each);
    };
    const Argument weight = behind("mul.Tensor"), bias = behind("add.Tensor");
    replace_with_call(last, "group_norm.default", {x, *count, weight, bias, argument_of(*norm, 7)});
  }

  // mean((x - mean(x))^2), then * n / (n - correction) or not
  void variance(Node* mean) {
    const Node* square = mean->arg(0).node();
    const Node* centered = square && square->users().size() == 1 ? square->arg(0).node() : nullptr;
    if (!is_aten(centered, "sub.Tensor") || !is_square_of(*square, centered) || !centered->kwargs().empty()) return;
    const Node *middle = centered->arg(1).node(), *x = centered->arg(0).node();
    if (!is_aten(middle, "mean.dim") || middle->arg(0).node() != x ||
        argument_of(*middle, 2).integer().value_or(0) != 1)
      return;
    const SymShape* sizes = sizes_of(x);
    if (!sizes || !argument_of(*middle, 3).is_none() || !argument_of(*mean, 3).is_none()) return;
    const std::set<int64_t> axes = axes_of(*mean, sizes->size());
    if (axes.empty() || axes != axes_of(*middle, sizes->size())) return;
    // A layer norm in another form, which lower/layer_norm_pattern.h knows.
    const bool keeps = argument_of(*mean, 2).integer().value_or(0) == 1;
    if (keeps && axes == std::set{static_cast<int64_t>(sizes->size()) - 1}) return;
    double correction = 0;
    Node* last = mean;
    if (Node* quotient = corrected(*mean, *x, axes, correction)) last = quotient;
    Node::Kwargs settings{{"correction", correction}, {"keepdim", keeps}};
    replace_with_call(last, "var.correction", {Argument(const_cast<Node*>(x)), mean->arg(1)}, std::move(settings));
  }

 private:
  static std::set<int64_t> axes_of(const Node& mean, size_t rank) {
    std::set<int64_t> out;
    const Argument& axes = argument_of(mean, 1);
    if (axes.is_list())
      for (const Argument& axis : axes.list())
        out.insert(wrap_axis(axis.integer().value_or(0), static_cast<int64_t>(rank)));
    return out;
  }

  // mean * n / (n - correction), for the number n of elements along the axes of x; null if there is none.
  static Node* corrected(const Node& mean, const Node& x, const std::set<int64_t>& axes, double& correction) {
    Node* product = mean.users().size() == 1 ? mean.users()[0] : nullptr;
    Node* quotient = product && product->users().size() == 1 ? product->users()[0] : nullptr;
    if (!is_aten(product, "mul.Tensor") || !is_aten(quotient, "div.Tensor") || quotient->arg(0).node() != product)
      return nullptr;
    const Argument &n = product->arg(product->arg(0).node() == &mean ? 1 : 0), &divisor = quotient->arg(1);
    SymInt count(1);
    for (const int64_t axis : axes) count = count * (*sizes_of(&x))[static_cast<size_t>(axis)];
    if (const auto whole = count.constant()) {
      if (!n.number() || !divisor.number() || *n.number() != static_cast<double>(*whole)) return nullptr;
      correction = *n.number() - *divisor.number();
      return quotient;
    }
    const Node* less = divisor.node();
    if (!n.node() || !is_size_of(*n.node(), x, axes) || !is_aten(less, "sub.Tensor") || less->arg(0) != n ||
        !less->arg(1).number() || !less->kwargs().empty())
      return nullptr;
    correction = *less->arg(1).number();
    return quotient;
  }

  // Whether a scalar is the open size of x along its only axis.
  static bool is_size_of(const Node& scalar, const Node& x, const std::set<int64_t>& axes) {
    const Node* number = is_aten(&scalar, "to.dtype") ? scalar.arg(0).node() : nullptr;
    const Node* size = is_aten(number, "scalar_tensor.default") ? number->arg(0).node() : nullptr;
    return is_aten(size, "sym_size.int") && size->arg(0).node() == &x && axes.size() == 1 &&
           size->arg(1).integer() == *axes.begin();
  }

  // The constant that the value's only reader, which calls this operator, joins with it; null if there is none of the
  // value's type.
  static Node* constant_behind(const Node* value, std::string_view name) {
    const Node* user = value->users().size() == 1 ? value->users()[0] : nullptr;
    if (!is_aten(user, name) || !user->kwargs().empty() || user->args().size() != 2) return nullptr;
    Node* other = user->arg(user->arg(0).node() == value ? 1 : 0).node();
    if (!other || other->op() != Node::Op::kGetAttr || !sizes_of(other)) return nullptr;
    return other->meta.val.tensor()->dtype == value->meta.val.tensor()->dtype ? other : nullptr;
  }

  bool is_filled(const Argument& argument, double value) const {
    if (argument.is_none()) return true;
    const Node* node = argument.node();
    if (!node || node->op() != Node::Op::kGetAttr) return false;
    const Tensor numbers = program_.attribute_of(*node).to(DType::kF64).contiguous();
    return std::all_of(numbers.data<double>(), numbers.data<double>() + numbers.numel(),
                       [&](double number) { return number == value; });
  }

  // A constant [C, 1, 1] beside [N, C, H, W] as [C]; null if it has other sizes.
  Node* each_channel(const Node& constant, size_t rank, int64_t channels) {
    const Tensor tensor = program_.attribute_of(constant);
    const auto dims = static_cast<size_t>(tensor.dim());
    if (tensor.numel() != channels || dims + 1 < rank || dims > rank) return nullptr;
    if (tensor.size(static_cast<int64_t>(dims + 1 - rank)) != channels) return nullptr;
    Attribute attribute;
    attribute.name = program_.unique_attribute_name(constant.target() + "_by_channel");
    attribute.kind = program_.find_attribute(constant.target())->kind;
    attribute.tensor = tensor.reshape({channels}).contiguous();
    const auto point = program_.graph->insert_before(program_.graph->first());
    Node* node = program_.graph->get_attr(attribute.name, attribute.name);
    node->meta.val.value = meta_of(attribute.tensor);
    program_.add_attribute(std::move(attribute));
    return node;
  }

  Program& program_;
};

}  // namespace

void fuse_norms(Program& program) {
  NormFuser fuser(program);
  for (Node* node : program.graph->nodes()) {
    if (is_aten(node, "div.Tensor")) fuser.layer_norm(node);
    if (is_aten(node, "instance_norm.default")) fuser.group_norm(node);
  }
  for (Node* node : program.graph->nodes())
    if (is_aten(node, "mean.dim") && !node->users().empty()) fuser.variance(node);
}

}  // namespace qdq
