// ATen operators that choose, place and sort elements, and that sample images, as ONNX ones.
#include <algorithm>

#include "io/onnx/export.h"

namespace qdq {
namespace {

void select(AtenCall& call) {
  call.finish("Gather", {call.tensor(0), call.operand(2, DType::kS64)}, {"axis", call.axis(1, call.rank(0))});
}
void embedding(AtenCall& call) {
  if (write_embedding_of_integers(call)) return;
  call.finish("Gather", {call.tensor(0), call.tensor(1)}, {"axis", 0});
}
void index_select(AtenCall& call) {
  call.finish("Gather", {call.tensor(0), call.tensor(2)}, {"axis", call.axis(1, call.rank(0))});
}
void gather(AtenCall& call) {
  call.finish("GatherElements", {call.tensor(0), call.tensor(2)}, {"axis", call.axis(1, call.rank(0))});
}

// The integers of several axes from the first on, side by side: [..., axes].
std::string joined_indices(AtenCall& call, const Argument::List& indices) {
  const SymShape* sizes = nullptr;
  bool differ = false;
  for (const Argument& index : indices) {
    if (!index.is_node()) call.refuse("leaves out axes in front of others that it has indices for");
    const TensorMeta& meta = call.meta_of(index.node());
    if (!is_integral(meta.dtype)) call.refuse("takes elements by a mask");
    differ = differ || (sizes && *sizes != meta.sizes);
    sizes = &meta.sizes;
  }
  std::vector<std::string> parts;
  for (const Argument& index : indices) parts.push_back(call.operand(index, DType::kS64));
  if (differ) {
    // All in the shape that they broadcast to, which their sum has.
    std::string sum = parts[0];
    for (size_t i = 1; i < parts.size(); ++i) sum = call.emit("Add", {sum, parts[i]});
    const std::string shape = call.emit("Shape", {sum});
    for (std::string& part : parts) part = call.emit("Expand", {part, shape});
  }
  for (std::string& part : parts) part = call.emit("Unsqueeze", {part, call.integers_as_tensor({-1})});
  return parts.size() == 1 ? parts[0] : call.emit("Concat", parts, {"axis", -1});
}

// (self, indices): one index of any axis, or several from the first axis on.
void index(AtenCall& call) {
  const Argument::List& indices = call.arg(1).list();
  const auto given = std::count_if(indices.begin(), indices.end(), [](const Argument& i) { return i.is_node(); });
  if (given != 1) return call.finish("GatherND", {call.tensor(0), joined_indices(call, indices)});
  const auto at = std::find_if(indices.begin(), indices.end(), [](const Argument& i) { return i.is_node(); });
  const Node* node = at->node();
  const int64_t axis = at - indices.begin();
  const DType dtype = call.meta_of(node).dtype;
  if (is_integral(dtype)) {
    const std::string places = call.operand(*at, dtype == DType::kS32 ? DType::kS32 : DType::kS64);
    return call.finish("Gather", {call.tensor(0), places}, {"axis", axis});
  }
  if (axis != 0) call.refuse("takes elements by a mask behind the first axis");
  const std::vector<int64_t> turn = {1, 0};
  const std::string places = call.emit("Transpose", {call.emit("NonZero", {call.file().value(node)})}, {"perm", turn});
  call.finish("GatherND", {call.tensor(0), places});
}

// (self, indices, values, accumulate)
void index_put(AtenCall& call) {
  const Argument::List& indices = call.arg(1).list();
  const DType dtype = call.result().dtype;
  if (indices.size() == 1 && indices[0].is_node() && call.meta_of(indices[0].node()).dtype == DType::kBool &&
      call.rank(2) == 0 && !call.flag(3)) {
    // A mask of the first axes and one value.
    std::string mask = call.file().value(indices[0].node());
    const auto rank = static_cast<int64_t>(call.meta_of(indices[0].node()).sizes.size());
    std::vector<int64_t> others;
    for (int64_t i = rank; i < static_cast<int64_t>(call.rank(0)); ++i) others.push_back(i);
    if (!others.empty()) mask = call.emit("Unsqueeze", {mask, call.integers_as_tensor(others)});
    return call.finish("Where", {mask, call.operand(2, dtype), call.tensor(0)});
  }
  const std::string places = joined_indices(call, indices);
  // One value for each place: what is broadcast is spread.
  SymShape wanted;
  for (const Argument& index : indices) wanted = broadcast_shapes(wanted, call.meta_of(index.node()).sizes);
  std::string values = call.operand(2, dtype);
  wanted.insert(wanted.end(), call.meta(0).sizes.begin() + static_cast<std::ptrdiff_t>(indices.size()),
                call.meta(0).sizes.end());
  if (call.meta(2).sizes != wanted) {
    std::vector<std::string> parts = {call.emit(
        "Slice", {call.emit("Shape", {places}), call.integers_as_tensor({0}), call.integers_as_tensor({-1})})};
    if (call.rank(0) > indices.size())
      parts.push_back(call.emit("Slice", {call.emit("Shape", {call.tensor(0)}),
                                          call.integers_as_tensor({static_cast<int64_t>(indices.size())}),
                                          call.integers_as_tensor({static_cast<int64_t>(call.rank(0))})}));
    values = call.emit("Expand", {values, call.emit("Concat", parts, {"axis", 0})});
  }
  call.finish("ScatterND", {call.tensor(0), places, values}, {"reduction", call.flag(3) ? "add" : "none"});
}

// scatter: (self, dim, index, src or value); scatter_add; scatter_reduce: (self, dim, index, src, reduce,
// include_self)
void scatter(AtenCall& call) {
  static constexpr std::pair<std::string_view, const char*> kReductions[] = {
      {"sum", "add"}, {"prod", "mul"}, {"amax", "max"}, {"amin", "min"}};
  const std::string name = call.name();
  const DType dtype = call.result().dtype;
  const char* reduction = name.starts_with("scatter_add") ? "add" : "none";
  if (name.starts_with("scatter_reduce")) {
    const auto& wanted = call.arg(4).as<std::string>();
    const auto* known = std::find_if(std::begin(kReductions), std::end(kReductions),
                                     [&](const auto& each) { return each.first == wanted; });
    if (known == std::end(kReductions) || !call.flag(5))
      call.refuse("joins values by ", wanted, call.flag(5) ? "" : " without those that were there",
                  ", which ONNX cannot");
    reduction = known->second;
    if ((wanted == "amax" || wanted == "amin") && !call.file().reaches(18))
      call.refuse("joins values by ", wanted, ", which ONNX can from opset 18 on");
  }
  std::string values;
  if (name == "scatter.value") {
    values = call.emit("Expand", {call.operand(3, dtype), call.emit("Shape", {call.tensor(2)})});
  } else {
    values = call.operand(3, dtype);
    // PyTorch takes as many values of each axis as there are places; ONNX wants no more.
    if (call.meta(3).sizes != call.meta(2).sizes) {
      const std::vector<int64_t> front(call.rank(2), 0);
      values = call.emit("Slice", {values, call.integers_as_tensor(front), call.emit("Shape", {call.tensor(2)})});
    }
  }
  call.finish("ScatterElements", {call.tensor(0), call.operand(2, DType::kS64), values},
              {"axis", call.axis(1, call.rank(0)), "reduction", reduction});
}

void nonzero(AtenCall& call) {
  const std::vector<int64_t> turn = {1, 0};
  call.finish("Transpose", {call.emit("NonZero", {call.tensor(0)})}, {"perm", turn});
}

// _unique2: (self, sorted, ...); unique_dim: (self, dim, sorted, ...): values, places in them, counts.
void unique(AtenCall& call) {
  const bool has_axis = call.name() == "unique_dim.default";
  OnnxAttributes attributes = {"sorted", 1};
  if (has_axis) attributes.add("axis", call.axis(1, call.rank(0)));
  const std::vector<std::string> names = call.name_results(3);
  const std::string places = has_axis ? names[1] : call.file().fresh(names[1] + "_part");
  call.file().emit_many("Unique", {call.tensor(0)}, attributes, {names[0], "", places, names[2]},
                        call.node().meta.extra_of(kOnnxNode));
  if (!has_axis) call.file().emit("Reshape", {places, call.emit("Shape", {call.tensor(0)})}, {}, names[1]);
}

// (self, dim, descending): all elements of an axis from the largest on, or from the smallest.
void sort(AtenCall& call) {
  const int64_t axis = call.axis(1, call.rank(0));
  const std::string size =
      call.emit("Gather", {call.emit("Shape", {call.tensor(0)}), call.integers_as_tensor({axis})}, {"axis", 0});
  const bool gives_places = call.name() == "argsort.default";
  std::vector<std::string> outputs;
  if (gives_places) outputs = {call.file().fresh(call.node().name() + "_part"), call.file().name_of(&call.node())};
  else outputs = call.name_results(2);
  call.file().emit_many("TopK", {call.tensor(0), size}, {"axis", axis, "largest", call.flag(2), "sorted", 1}, outputs,
                        call.node().meta.extra_of(kOnnxNode));
  if (gives_places) call.file().set(&call.node(), outputs[1]);
}

void item(AtenCall& call) {
  call.finish("Reshape", {call.operand(0, DType::kS64),
                          call.file().constant(Tensor::empty({0}, DType::kS64), call.node().name() + "_constant")});
}

// (boxes, scores, max_output_boxes_per_class, iou_threshold, score_threshold, center_point_box)
void non_max_suppression(AtenCall& call) {
  const std::string most = call.operand(2, DType::kS64);
  call.finish("NonMaxSuppression",
              {call.tensor(0), call.tensor(1), most, call.operand(3, DType::kF32),
               call.is_none(4) ? std::string() : call.operand(4, DType::kF32)},
              {"center_point_box", call.flag(5)});
}

// (input, rois [K, 5], spatial_scale, pooled_height, pooled_width, sampling_ratio, aligned): the first number of each
// row tells the image.
void roi_align(AtenCall& call) {
  const auto part = [&](int64_t from, int64_t to) {
    const auto number = [&](int64_t value) { return call.integers_as_tensor({value}); };
    return call.emit("Slice", {call.tensor(1), number(from), number(to), number(1)});
  };
  const std::string image = call.emit("Squeeze", {part(0, 1), call.integers_as_tensor({1})});
  call.finish(
      "RoiAlign", {call.tensor(0), part(1, 5), call.emit("Cast", image, {"to", format::onnx_number(DType::kS64)})},
      {"mode", call.name() == "roi_align_max.default" ? "max" : "avg", "spatial_scale", call.number(2), "output_height",
       call.integer(3), "output_width", call.integer(4), "sampling_ratio", std::max<int64_t>(0, call.integer(5)),
       "coordinate_transformation_mode", call.flag(6) ? "half_pixel" : "output_half_pixel"});
}

// (input, rois [K, 5], spatial_scale, pooled_height, pooled_width): the pooled regions, and where their values stood.
void roi_pool(AtenCall& call) {
  const std::vector<std::string> results = call.name_results(1);
  call.file().emit_many(
      "MaxRoiPool", {call.tensor(0), call.tensor(1)},
      {"pooled_shape", std::vector<int64_t>{call.integer(3), call.integer(4)}, "spatial_scale", call.number(2)},
      results, call.node().meta.extra_of(kOnnxNode));
}

// (input, weight, offset, mask, bias, strides, paddings, dilations of two axes, groups, offset groups, whether there is
// a mask)
void deform_conv(AtenCall& call) {
  if (!call.file().reaches(19)) call.refuse("moves what it convolves, which ONNX can from opset 19 on");
  const auto both = [&](size_t i) { return std::vector<int64_t>{call.integer(i), call.integer(i + 1)}; };
  const std::vector<int64_t> padding = both(7);
  call.finish(
      "DeformConv",
      {call.tensor(0), call.tensor(1), call.tensor(2), call.tensor(4), call.flag(13) ? call.tensor(3) : std::string()},
      {"strides", both(5), "pads", std::vector<int64_t>{padding[0], padding[1], padding[0], padding[1]}, "dilations",
       both(9), "group", call.integer(11), "offset_group", call.integer(12)});
}

// (input, grid, interpolation_mode, padding_mode, align_corners)
void grid_sampler(AtenCall& call) {
  static constexpr const char *kModes[] = {"bilinear", "nearest", "bicubic"},
                              *kModesSince20[] = {"linear", "nearest", "cubic"},
                              *kPaddings[] = {"zeros", "border", "reflection"};
  const int64_t mode = call.integer(2), padding = call.integer(3);
  const bool is_new = call.file().opset() >= 20 || (call.rank(0) != 4 && call.file().reaches(20));
  if (mode < 0 || mode > 2 || padding < 0 || padding > 2) call.refuse("has a mode that ONNX does not have");
  if (call.rank(0) != 4 && !is_new) call.refuse("samples ", call.rank(0), " axes, which ONNX can from opset 20 on");
  call.finish("GridSample", {call.tensor(0), call.tensor(1)},
              {"mode", (is_new ? kModesSince20 : kModes)[mode], "padding_mode", kPaddings[padding], "align_corners",
               call.flag(4)});
}

constexpr AtenExporter kPlaceExporters[] = {
    {"_unique2.default", unique},
    {"argsort.default", sort},
    {"deform_conv2d.default", deform_conv},
    {"embedding.default", embedding},
    {"gather.default", gather},
    {"grid_sampler.default", grid_sampler},
    {"index.Tensor", index},
    {"index_put.default", index_put},
    {"index_select.default", index_select},
    {"item.default", item},
    {"non_max_suppression.default", non_max_suppression},
    {"nonzero.default", nonzero},
    {"roi_align.default", roi_align},
    {"roi_align_max.default", roi_align},
    {"roi_pool.default", roi_pool},
    {"scatter.src", scatter},
    {"scatter.value", scatter},
    {"scatter_add.default", scatter},
    {"scatter_reduce.two", scatter},
    {"select.int", select},
    {"select_copy.int", select},
    {"sort.default", sort},
    {"unique_dim.default", unique},
};

}  // namespace

std::span<const AtenExporter> place_exporters() { return kPlaceExporters; }

}  // namespace qdq
