// Operators whose result is their input seen through other sizes and strides, or the input itself.
#include <algorithm>
#include <array>
#include <optional>
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

// Strides at which elements that lie at `strides` have the sizes `to` in the order of their indices; none if those of
// two axes that become one do not follow each other.
std::optional<SymShape> reshaped_strides(const SymShape& from, const SymShape& strides, const SymShape& to) {
  SymShape out(to.size(), SymInt(1));
  size_t next = to.size();  // the axes of `to` from here on have their strides
  for (size_t axis = from.size(); axis-- > 0;) {
    // As many axes as are one behind the other, together.
    SymInt stride = strides[axis], size = from[axis];
    while (axis > 0 && (from[axis - 1] == SymInt(1) || strides[axis - 1] == stride * size)) size = size * from[--axis];
    SymInt covered(1);
    while (next > 0 && !(covered == size)) {
      --next;
      out[next] = stride * covered;
      covered = covered * to[next];
    }
    if (!(covered == size)) return std::nullopt;
  }
  for (; next > 0; --next) {
    if (!(to[next - 1] == SymInt(1))) return std::nullopt;
    if (next < to.size()) out[next - 1] = out[next] * to[next];  // as in C order, by which libraries know it
  }
  return out;
}

// The axes of a value in the order N, H, W, C of the image that a reshape makes of it, if each axis of the image is
// some of its axes together and its channels lie beside each other; else none.
std::vector<size_t> axes_of_image(const SymShape& from, const SymShape& strides, const SymShape& to) {
  if (to.size() != 4) return {};
  std::array<std::vector<size_t>, 4> parts;
  size_t next = 0;
  for (size_t axis = 0; axis < 4; ++axis) {
    SymInt size(1);
    while (next < from.size() && !(size == to[axis])) {
      size = size * from[next];
      parts[axis].push_back(next++);
    }
    if (!(size == to[axis])) return {};
  }
  if (next != from.size()) return {};
  std::vector<size_t> out;
  for (const size_t axis : {0, 2, 3, 1}) out.insert(out.end(), parts[axis].begin(), parts[axis].end());
  const bool has_dense_channels = std::any_of(parts[1].begin(), parts[1].end(), [&](size_t axis) {
    return strides[axis] == SymInt(1) && !(from[axis] == SymInt(1));
  });
  return has_dense_channels ? out : std::vector<size_t>{};
}

}  // namespace

std::string fuse_reshape(Fuser& fuser, Node& node) {
  PlanBuilder& plans = fuser.plans;
  Node* x = node.arg(0).node();
  if (!plans.is_held(x)) return "its input is not in a plan";
  const SymShape &from = x->meta.val.tensor()->sizes, &to = float_meta(node)->sizes;
  size_t at = plans.read_as_is(x);
  if (is_in_c_order(plans.buffer(at))) {
    plans.add_view(node, at, 0, c_order(to));
  } else if (std::optional<SymShape> strides = reshaped_strides(from, strides_of(plans.buffer(at)), to)) {
    plans.add_view(node, at, 0, *std::move(strides));
  } else if (const auto axes = axes_of_image(from, strides_of(plans.buffer(at)), to); !axes.empty()) {
    plans.add_view(node, plans.permuted_copy(at, axes), 0, image_order(to));
  } else if (plans.buffer(at).location != PlanBuffer::Location::kView) {
    // An image stored channels last as another shape: its bytes move.
    PlanStep step;
    step.form = PlanStep::Copy{};
    step.name = node.name();
    step.inputs = {at};
    const PlanBuffer& given = plans.buffer(at);
    PlanBuffer copy = PlanBuilder::buffer_like(node, given.dtype, given.qparams);
    plans.add_step(std::move(step), std::move(copy), node, {&node});
  } else {
    at = plans.arranged(at, false);
    plans.add_view(node, at, 0, c_order(to));
  }
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

std::string fuse_slice(Fuser& fuser, Node& node) {
  Node* x = node.arg(0).node();
  if (!fuser.plans.is_held(x)) return "its input is not in a plan";
  const SymShape& sizes = x->meta.val.tensor()->sizes;
  const auto axis =
      static_cast<size_t>(wrap_axis(argument_of(node, 1).integer().value_or(0), static_cast<int64_t>(sizes.size())));
  const Argument start = argument_of(node, 2);
  const std::optional<int64_t> first = start.is_none() ? 0 : start.integer(), step = argument_of(node, 4).integer();
  if (!first || !step || !sizes[axis].is_constant()) return "its place is not a constant";
  const int64_t size = *sizes[axis].constant();
  const size_t at = fuser.plans.read_as_is(x);
  SymShape strides = strides_of(fuser.plans.buffer(at));
  const SymInt offset = SymInt(std::clamp<int64_t>(*first < 0 ? *first + size : *first, 0, size)) * strides[axis];
  strides[axis] = strides[axis] * SymInt(*step);
  fuser.plans.add_view(node, at, offset, std::move(strides));
  return {};
}

std::string fuse_split(Fuser& fuser, Node& node) {
  const Node* x = node.arg(0).node();
  if (!fuser.plans.is_held(x)) return "its input is not in a plan";
  for (const Node* user : node.users())
    if (!user->is(op::kGetItem) || float_meta(*user) == nullptr) return "its results are not taken one by one";
  fuser.plans.pass_over(node, *x);
  return {};
}

std::string fuse_getitem(Fuser& fuser, Node& node) {
  const Node* list = node.arg(0).node();
  if (list == nullptr || !is_a(*list, Family::kSplit) || !fuser.plans.is_fused(list))
    return "it is not part of a plan's value";
  Node* x = list->arg(0).node();
  if (list->is(op::kUnbind)) return selected(fuser.plans, node, x, list->arg(1), node.arg(1));
  const SymShape& sizes = x->meta.val.tensor()->sizes;
  const auto axis =
      static_cast<size_t>(wrap_axis(argument_of(*list, 2).integer().value_or(0), static_cast<int64_t>(sizes.size())));
  const auto& parts = std::get<std::vector<ValueMeta>>(list->meta.val.value);
  SymInt before(0);
  for (int64_t i = 0; i < *node.arg(1).integer(); ++i)
    before = before + parts.at(static_cast<size_t>(i)).tensor()->sizes[axis];
  const size_t at = fuser.plans.read_as_is(x);
  SymShape strides = strides_of(fuser.plans.buffer(at));
  const SymInt offset = before * strides[axis];
  fuser.plans.add_view(node, at, offset, std::move(strides));
  return {};
}

std::string fuse_identity(Fuser& fuser, Node& node) {
  const Node* x = node.arg(0).node();
  if (!fuser.plans.is_held(x)) return "its input is not in a plan";
  if (is_a(node, Family::kDropout) && !is_idle_dropout(node)) return "it drops out at random";
  fuser.plans.hold_same(node, *x);
  return {};
}

}  // namespace qdq
