// Pools of images.
#include "lower/fuser.h"
#include "op/op.h"

namespace qdq {
namespace {

// The image's constant height and width, if it has them.
std::optional<std::array<int64_t, 2>> extents_of(const Node* image) {
  const TensorMeta* meta = image == nullptr ? nullptr : image->meta.val.tensor();
  if (meta == nullptr || meta->sizes.size() != 4) return std::nullopt;
  const auto h = meta->sizes[2].constant(), w = meta->sizes[3].constant();
  if (!h || !w || *h < 1 || *w < 1) return std::nullopt;
  return std::array<int64_t, 2>{*h, *w};
}

// Windows side by side.
Window2d tiles(int64_t h, int64_t w) { return {h, w, h, w, 0, 0, 1, 1}; }

PlanStep::AveragePool whole_image() {
  PlanStep::AveragePool form;
  form.is_global = true;
  return form;
}

std::string emit_average(Fuser& fuser, Node& node, const PlanStep::AveragePool& form) {
  Node* x = node.arg(0).node();
  if (!fuser.plans.is_held(x)) return "its input is not in a plan";
  if (x->meta.val.tensor() == nullptr || x->meta.val.tensor()->sizes.size() != 4)
    return "its input is not a batch of images";
  if (float_meta(node)->sizes.size() != 4) return "its result is not a batch of images";
  fuser.emit(node, fuser.epilogue_of(node, false), [&plans = fuser.plans, form, x](PlanStep& step, Fuser::Order) {
    step.form = form;
    step.inputs = {plans.read(x)};
  });
  return {};
}

}  // namespace

std::string fuse_max_pool(Fuser& fuser, Node& node) {
  PlanBuilder& plans = fuser.plans;
  Node* x = node.arg(0).node();
  if (!plans.is_held(x) || plans.held(x).symbolic_sizes.size() != 4) return "its input is not an image of a plan";
  if (!plans.is_held_u8(x) && !fuser.options.floats) return "its input is not quantized";
  const auto kernel = int_pair(node, 1, {1, 1});
  if (!kernel) return "its window is not constant";
  const auto stride = int_pair(node, 2, *kernel), padding = int_pair(node, 3, {0, 0}),
             dilation = int_pair(node, 4, {1, 1});
  if (!stride || !padding || !dilation) return "its window is not constant";
  PlanStep step;
  step.form = PlanStep::MaxPool{{(*kernel)[0], (*kernel)[1], (*stride)[0], (*stride)[1], (*padding)[0], (*padding)[1],
                                 (*dilation)[0], (*dilation)[1]}};
  step.name = node.name();
  step.inputs = {plans.read(x)};
  const PlanBuffer& from = plans.buffer(step.inputs[0]);
  PlanBuffer to = PlanBuilder::buffer_like(node, from.dtype, from.qparams);
  plans.add_step(std::move(step), std::move(to), node, {&node});
  return {};
}

std::string fuse_average_pool(Fuser& fuser, Node& node) {
  const auto kernel = int_pair(node, 1, {1, 1});
  if (!kernel) return "its window is not constant";
  const auto stride = int_pair(node, 2, *kernel), padding = int_pair(node, 3, {0, 0});
  const bool is_ceil = node.arg(4).integer().value_or(0) != 0;
  if (!stride || !padding || is_ceil) return is_ceil ? "ceil_mode" : "its window is not constant";
  PlanStep::AveragePool form;
  form.window = {(*kernel)[0], (*kernel)[1], (*stride)[0], (*stride)[1], (*padding)[0], (*padding)[1], 1, 1};
  form.count_include_pad = node.arg(5).integer().value_or(1) != 0;
  form.divisor_override = node.arg(6).integer().value_or(0);
  return emit_average(fuser, node, form);
}

std::string fuse_adaptive_average_pool(Fuser& fuser, Node& node) {
  const auto in = extents_of(node.arg(0).node());
  const auto out = int_pair(node, 1, {0, 0});
  if (!in && out && *out == std::array<int64_t, 2>{1, 1}) return emit_average(fuser, node, whole_image());
  if (!in || !out || (*out)[0] < 1 || (*out)[1] < 1) return "its extents are not constant";
  if ((*in)[0] % (*out)[0] != 0 || (*in)[1] % (*out)[1] != 0) return "its windows differ in size";
  PlanStep::AveragePool form;
  form.window = tiles((*in)[0] / (*out)[0], (*in)[1] / (*out)[1]);
  return emit_average(fuser, node, form);
}

std::string fuse_mean(Fuser& fuser, Node& node) {
  const TensorMeta* image = node.arg(0).node() == nullptr ? nullptr : node.arg(0).node()->meta.val.tensor();
  if (image == nullptr || image->sizes.size() != 4 || !node.arg(1).is_list() || node.arg(1).list().size() != 2 ||
      !node.kwargs().empty())
    return "it is not the mean of an image";
  for (const Argument& axis : node.arg(1).list())
    if (const int64_t at = axis.integer().value_or(0); at != -1 && at != -2 && at != 2 && at != 3)
      return "it is not the mean over rows and columns";
  const auto in = extents_of(node.arg(0).node());
  PlanStep::AveragePool form = whole_image();
  if (in) form.window = tiles((*in)[0], (*in)[1]);
  form.is_global = !in;
  return emit_average(fuser, node, form);
}

}  // namespace qdq
