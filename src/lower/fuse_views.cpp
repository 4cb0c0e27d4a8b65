// Operators whose result is their input seen through other sizes and strides, or the input itself.
#include <utility>

#include "lower/fuser.h"
#include "op/facts.h"
#include "op/targets.h"

namespace qdq {
namespace {

std::string permuted(PlanBuilder& plans, Node& node, const std::vector<size_t>& axes) {
  Node* x = node.arg(0).node();
  if (!plans.is_held(x)) return "its input is not in a plan";
  const size_t at = plans.read_as_is(x);
  const SymShape from = strides_of(plans.buffer(at));
  SymShape strides;
  for (const size_t axis : axes) strides.push_back(from[axis]);
  plans.add_view(node, at, 0, std::move(strides));
  return {};
}

// x.select(axis, index) as a view.
std::string selected(PlanBuilder& plans, Node& node, Node* x, const Argument& axis_argument,
                     const Argument& index_argument) {
  if (!plans.is_held(x)) return "its input is not in a plan";
  const SymShape& sizes = x->meta.val.tensor()->sizes;
  const auto axis =
      static_cast<size_t>(wrap_axis(axis_argument.integer().value_or(0), static_cast<int64_t>(sizes.size())));
  const std::optional<int64_t> index = index_argument.integer();
  if (!index || *index < 0) return "its index is not a constant from the front";
  const size_t at = plans.read_as_is(x);
  SymShape strides = strides_of(plans.buffer(at));
  const SymInt offset = SymInt(*index) * strides[axis];
  strides.erase(strides.begin() + static_cast<std::ptrdiff_t>(axis));
  plans.add_view(node, at, offset, std::move(strides));
  return {};
}

}  // namespace

std::string fuse_reshape(Fuser& fuser, Node& node) {
  PlanBuilder& plans = fuser.plans;
  Node* x = node.arg(0).node();
  if (!plans.is_held(x)) return "its input is not in a plan";
  size_t at = plans.read_as_is(x);
  if (!is_in_c_order(plans.buffer(at))) {
    if (plans.buffer(at).location != PlanBuffer::Location::kView) {
      // An image stored channels last as another shape: its bytes move.
      PlanStep step;
      step.form = PlanStep::Copy{};
      step.name = node.name();
      step.inputs = {at};
      const PlanBuffer& from = plans.buffer(at);
      PlanBuffer to = PlanBuilder::buffer_like(node, from.dtype, from.qparams);
      plans.add_step(std::move(step), std::move(to), node, {&node});
      return {};
    }
    at = plans.arranged(at, false);
  }
  plans.add_view(node, at, 0, c_order(float_meta(node)->sizes));
  return {};
}

// An axis of one element more or less leaves every other stride as it is; not of images stored channels last, which
// steps want whole.
std::string fuse_squeeze(Fuser& fuser, Node& node) {
  Node* x = node.arg(0).node();
  if (!fuser.plans.is_held(x)) return "its input is not in a plan";
  const SymShape& sizes = x->meta.val.tensor()->sizes;
  const size_t at = fuser.plans.read_as_is(x), rank = sizes.size();
  if (is_in_c_order(fuser.plans.buffer(at)) || fuser.plans.buffer(at).location != PlanBuffer::Location::kView ||
      float_meta(node)->sizes.size() + 1 != rank)
    return fuse_reshape(fuser, node);
  SymShape strides = strides_of(fuser.plans.buffer(at));
  strides.erase(strides.begin() + wrap_axis(node.arg(1).integer().value_or(0), static_cast<int64_t>(rank)));
  fuser.plans.add_view(node, at, 0, std::move(strides));
  return {};
}

std::string fuse_unsqueeze(Fuser& fuser, Node& node) {
  Node* x = node.arg(0).node();
  if (!fuser.plans.is_held(x)) return "its input is not in a plan";
  const size_t at = fuser.plans.read_as_is(x);
  if (is_in_c_order(fuser.plans.buffer(at)) || fuser.plans.buffer(at).location != PlanBuffer::Location::kView)
    return fuse_reshape(fuser, node);
  SymShape strides = strides_of(fuser.plans.buffer(at));
  const int64_t axis = wrap_axis(node.arg(1).integer().value_or(0), static_cast<int64_t>(strides.size()) + 1);
  const SymInt stride =
      axis < static_cast<int64_t>(strides.size())
          ? strides[static_cast<size_t>(axis)] * x->meta.val.tensor()->sizes[static_cast<size_t>(axis)]
          : SymInt(1);
  strides.insert(strides.begin() + axis, stride);
  fuser.plans.add_view(node, at, 0, std::move(strides));
  return {};
}

std::string fuse_permute(Fuser& fuser, Node& node) {
  if (!node.arg(1).is_list()) return "its axes are not constant";
  std::vector<size_t> axes;
  const int64_t rank = static_cast<int64_t>(float_meta(node)->sizes.size());
  for (const Argument& axis : node.arg(1).list())
    axes.push_back(static_cast<size_t>(wrap_axis(axis.integer().value_or(0), rank)));
  return permuted(fuser.plans, node, axes);
}

std::string fuse_transpose(Fuser& fuser, Node& node) {
  const int64_t rank = static_cast<int64_t>(float_meta(node)->sizes.size());
  std::vector<size_t> axes(static_cast<size_t>(rank));
  for (size_t i = 0; i < axes.size(); ++i) axes[i] = i;
  std::swap(axes[static_cast<size_t>(wrap_axis(node.arg(1).integer().value_or(0), rank))],
            axes[static_cast<size_t>(wrap_axis(node.arg(2).integer().value_or(0), rank))]);
  return permuted(fuser.plans, node, axes);
}

std::string fuse_select(Fuser& fuser, Node& node) {
  return selected(fuser.plans, node, node.arg(0).node(), node.arg(1), node.arg(2));
}

std::string fuse_unbind(Fuser& fuser, Node& node) {
  const Node* x = node.arg(0).node();
  if (!fuser.plans.is_held(x)) return "its input is not in a plan";
  for (const Node* user : node.users())
    if (!user->is(op::kGetItem) || float_meta(*user) == nullptr) return "its results are not taken one by one";
  fuser.plans.pass_over(node, *x);
  return {};
}

std::string fuse_getitem(Fuser& fuser, Node& node) {
  const Node* list = node.arg(0).node();
  if (list == nullptr || !list->is(op::kUnbind) || !fuser.plans.is_fused(list))
    return "it is not part of a plan's value";
  return selected(fuser.plans, node, list->arg(0).node(), list->arg(1), node.arg(1));
}

std::string fuse_identity(Fuser& fuser, Node& node) {
  const Node* x = node.arg(0).node();
  if (!fuser.plans.is_held(x)) return "its input is not in a plan";
  if (is_a(node, Family::kDropout) && !is_idle_dropout(node)) return "it drops out at random";
  fuser.plans.hold_same(node, *x);
  return {};
}

}  // namespace qdq
