#include "lower/volumes_as_images.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "lower/as_images.h"
#include "lower/fuse_nodes.h"
#include "op/targets.h"

namespace qdq {
namespace {

constexpr std::string_view kMaxPool3d = "torch.ops.aten.max_pool3d.default",
                           kAvgPool3d = "torch.ops.aten.avg_pool3d.default",
                           kAdaptiveAvgPool3d = "torch.ops.aten.adaptive_avg_pool3d.default";

using Triple = std::array<int64_t, 3>;

Argument rows_and_columns(const Triple& all) { return Argument::List{all[1], all[2]}; }

// Window, stride and padding of a pool.
struct PoolWindow {
  Triple kernel, stride, padding;
  // One frame after the other.
  bool is_flat() const { return kernel[0] == 1 && stride[0] == 1 && padding[0] == 0; }
};
std::optional<PoolWindow> window_of(const Node& pool) {
  const auto kernel = int_triple(pool, 1, {1, 1, 1});
  if (!kernel) return std::nullopt;
  const auto stride = int_triple(pool, 2, *kernel), padding = int_triple(pool, 3, {0, 0, 0});
  if (!stride || !padding) return std::nullopt;
  return PoolWindow{*kernel, *stride, *padding};
}

int64_t size_at(const SymShape& sizes, size_t axis) { return *sizes[axis].constant(); }

// [N, C, D, H, W] as [N * D, C, H, W].
class VolumesAsImages : public AsImages {
 public:
  explicit VolumesAsImages(Program& program) : AsImages(program, 5, op::kConv3d, false) {}

 private:
  bool takes_sizes(const SymShape& sizes) const override {
    return std::all_of(sizes.begin() + 1, sizes.end(),
                       [](const SymInt& size) { return size.constant().value_or(0) > 0; });
  }

  bool takes_convolution(const Node& node) const override {
    return int_triple(node, 3, {1, 1, 1}) && int_triple(node, 4, {0, 0, 0}) && int_triple(node, 5, {1, 1, 1});
  }

  bool is_pool(const Node& node) const override {
    if (!node.is(kMaxPool3d) && !node.is(kAvgPool3d) && !node.is(kAdaptiveAvgPool3d)) return false;
    const SymShape volume = sizes_of(node.arg(0).node());
    if (volume.size() != 5) return false;
    if (node.is(kAdaptiveAvgPool3d)) return int_triple(node, 1, {0, 0, 0}) == Triple{1, 1, 1};
    const auto window = window_of(node);
    if (!window) return false;
    if (node.is(kMaxPool3d)) return int_triple(node, 4, {1, 1, 1}).has_value();
    return node.arg(4).integer().value_or(0) == 0 && (window->is_flat() || covers_frames(*window, volume));
  }

  static bool covers_frames(const PoolWindow& window, const SymShape& sizes) {
    return window.padding == Triple{0, 0, 0} && sizes[3] == SymInt(window.kernel[1]) &&
           sizes[4] == SymInt(window.kernel[2]);
  }

  std::optional<int64_t> image_axis(int64_t axis) const override {
    if (axis != 1 && axis != 3 && axis != 4) return std::nullopt;  // frames of several volumes would alternate
    return axis == 1 ? 1 : axis - 1;
  }

  Node* to_image(Node* volume) override {
    Node* frames = add_call(op::kPermute, {volume, Argument::List{0, 2, 1, 3, 4}});
    return add_call(op::kFlatten, {frames, 0, 1});
  }
  Node* from_image(Node* image, const SymShape& sizes) override {
    Argument::List frames{-1, size_at(sizes, 2), size_at(sizes, 1), size_at(sizes, 3), size_at(sizes, 4)};
    return add_call(op::kPermute, {add_call(op::kView, {image, std::move(frames)}), Argument::List{0, 2, 1, 3, 4}});
  }

  void rewrite_convolution(Node& node) override {
    Node *x = node.arg(0).node(), *weight = node.arg(1).node();
    const Triple stride = *int_triple(node, 3, {1, 1, 1}), padding = *int_triple(node, 4, {0, 0, 0}),
                 dilation = *int_triple(node, 5, {1, 1, 1});
    Shape sizes = weight_values(*weight).sizes();
    if (sizes[2] == 1 && stride[0] == 1 && padding[0] == 0) {
      sizes.erase(sizes.begin() + 2);
      node.set_arg(0, raised(x));
      node.set_arg(1, reshaped_weight(weight, &node, sizes));
      node.set_arg(3, rows_and_columns(stride));
      node.set_arg(4, rows_and_columns(padding));
      node.set_arg(5, rows_and_columns(dilation));
      if (node.arg(6).is_none()) node.set_arg(6, 1);
      node.set_target(std::string(op::kConv2d));
      return lift(node);
    }
    // It reads the volume that lower_for_others() makes of the image.
    if (is_raised(x) || dequantizes_tensor(*x)) node.set_arg(0, raised(x));
    const auto point = program_.graph->insert_after(&node);
    replace(node, to_image(&node));
  }

  void rewrite_pool(Node& node) override {
    const SymShape sizes = sizes_of(node.arg(0).node());
    Node* image = raised(node.arg(0).node());
    const auto point = program_.graph->insert_before(&node);
    replace(node, node.is(kAdaptiveAvgPool3d)
                      ? add_call(op::kAdaptiveAvgPool2d, {depth_image(image, sizes), Argument::List{1, 1}})
                  : node.is(kMaxPool3d) ? max_pool(node, image, sizes)
                                        : average_pool(node, image, sizes));
  }

  // Images [N * D, C, H, W] of volumes of these sizes as [N, C, D, H * W].
  Node* depth_image(Node* image, const SymShape& sizes) {
    Argument::List frames{-1, size_at(sizes, 2), size_at(sizes, 1), size_at(sizes, 3) * size_at(sizes, 4)};
    return add_call(op::kPermute, {add_call(op::kView, {image, std::move(frames)}), Argument::List{0, 2, 1, 3}});
  }
  // And back.
  Node* frame_images(Node* image, const SymShape& sizes) {
    return add_call(op::kView, {add_call(op::kPermute, {image, Argument::List{0, 2, 1, 3}}),
                                Argument::List{-1, size_at(sizes, 1), size_at(sizes, 3), size_at(sizes, 4)}});
  }

  Node* max_pool(const Node& node, Node* image, SymShape sizes) {
    const PoolWindow w = *window_of(node);
    const Triple dilation = *int_triple(node, 4, {1, 1, 1});
    const bool is_ceil = node.arg(5).integer().value_or(0) != 0;
    const SymShape& result = node.meta.val.tensor()->sizes;
    image = add_call(op::kMaxPool2d, {image, rows_and_columns(w.kernel), rows_and_columns(w.stride),
                                      rows_and_columns(w.padding), rows_and_columns(dilation), is_ceil});
    if (w.is_flat()) return image;
    sizes[3] = result[3];
    sizes[4] = result[4];
    Node* pooled = add_call(op::kMaxPool2d,
                            {depth_image(image, sizes), Argument::List{w.kernel[0], 1}, Argument::List{w.stride[0], 1},
                             Argument::List{w.padding[0], 0}, Argument::List{dilation[0], 1}, is_ceil});
    return frame_images(pooled, result);
  }

  Node* average_pool(const Node& node, Node* image, const SymShape& sizes) {
    const PoolWindow w = *window_of(node);
    const Argument counts_padding = node.arg(5).is_none() ? Argument(true) : node.arg(5);
    if (w.is_flat())
      return add_call(op::kAvgPool2d, {image, rows_and_columns(w.kernel), rows_and_columns(w.stride),
                                       rows_and_columns(w.padding), false, counts_padding, node.arg(6)});
    Node* pooled = add_call(op::kAvgPool2d,
                            {depth_image(image, sizes), Argument::List{w.kernel[0], w.kernel[1] * w.kernel[2]},
                             Argument::List{w.stride[0], 1}, Argument::List{0, 0}, false, counts_padding, node.arg(6)});
    return frame_images(pooled, node.meta.val.tensor()->sizes);
  }
};

}  // namespace

void make_images_of_volumes(Program& program) {
  if (fusion_obstacle(*program.graph).empty()) VolumesAsImages(program).run();
}

std::optional<ConvolutionOfFrames> convolution_of_frames(const Node& node) {
  if (!node.is(op::kConv3d)) return std::nullopt;
  const Node* volume = node.arg(0).node();
  if (volume == nullptr || !volume->is(op::kPermute)) return std::nullopt;
  const Node* frames = volume->arg(0).node();
  if (frames == nullptr || !frames->is(op::kView)) return std::nullopt;
  Node *images = frames->arg(0).node(), *permuted = single_user(node);
  if (images == nullptr || permuted == nullptr || !permuted->is(op::kPermute)) return std::nullopt;
  Node* result = single_user(*permuted);
  const Argument swapped(Argument::List{0, 2, 1, 3, 4});
  if (result == nullptr || !result->is(op::kFlatten) || result->arg(1).integer() != 0 ||
      result->arg(2).integer() != 1 || !(volume->arg(1) == swapped) || !(permuted->arg(1) == swapped))
    return std::nullopt;
  const TensorMeta *in = images->meta.val.tensor(), *split = frames->meta.val.tensor();
  if (in == nullptr || split == nullptr || in->sizes.size() != 4 || split->sizes.size() != 5 ||
      !std::equal(in->sizes.begin() + 1, in->sizes.end(), split->sizes.begin() + 2))
    return std::nullopt;
  return ConvolutionOfFrames{images, result};
}

}  // namespace qdq
