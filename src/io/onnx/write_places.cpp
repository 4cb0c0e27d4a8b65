// ATen operators that choose, place and sort elements, and that sample images, as ONNX ones.
#include <algorithm>
#include <limits>
#include <numeric>

#include "io/onnx/export.h"
#include "io/onnx/integer_layers.h"
#include "op/infer.h"

namespace qdq {
namespace {

void select(AtenCall& call) {
  call.finish("Gather", {call.tensor(0), call.operand(2, DType::kS64)}, {"axis", call.axis(1, call.rank(0))});
}
void embedding(AtenCall& call) {
  if (write_embedding_of_integers(call) || write_embedding_of_blocks(call)) return;
  call.finish("Gather", {call.tensor(0), call.tensor(1)}, {"axis", 0});
}
void index_select(AtenCall& call) {
  call.finish("Gather", {call.tensor(0), call.tensor(2)}, {"axis", call.axis(1, call.rank(0))});
}
void gather(AtenCall& call) {
  if (call.rank(0) == 0) return call.finish("Reshape", {call.tensor(0), call.emit("Shape", {call.tensor(2)})});
  call.finish("GatherElements", {call.tensor(0), call.tensor(2)}, {"axis", call.axis(1, call.rank(0))});
}

// Elements of adjacent axes, by indices that broadcast with each other or by a mask of all these axes.
struct Places {
  size_t first = 0, axes = 0;  // of the tensor
  std::string table;           // [index axes..., axes]
  SymShape sizes;              // of the indices
};

Places mask_places(AtenCall& call, const Node* mask, size_t first) {
  const std::vector<int64_t> turn = {1, 0};
  Places out{first, call.meta_of(mask).sizes.size(), {}, {}};
  out.table = call.emit("Transpose", {call.emit("NonZero", {call.file().value(mask)})}, {"perm", turn});
  out.sizes = {SymInt::symbol("places")};
  return out;
}

Places places_of(AtenCall& call, const Argument::List& indices) {
  Places out;
  std::vector<const Node*> given;
  for (size_t i = 0; i < indices.size(); ++i) {
    if (!indices[i].is_node()) continue;
    if (given.empty()) out.first = i;
    else if (i != out.first + given.size()) call.refuse("leaves out axes between others that it has indices for");
    given.push_back(indices[i].node());
  }
  if (given.empty()) call.refuse("has no indices");
  if (given.size() == 1 && !is_integral(call.meta_of(given[0]).dtype)) return mask_places(call, given[0], out.first);
  out.axes = given.size();
  std::vector<std::string> parts;
  bool differ = false;
  for (const Node* node : given) {
    const TensorMeta& meta = call.meta_of(node);
    if (!is_integral(meta.dtype)) call.refuse("takes elements by a mask and by numbers");
    differ = differ || meta.sizes != call.meta_of(given[0]).sizes;
    out.sizes = broadcast_shapes(out.sizes, meta.sizes);
    parts.push_back(call.operand(Argument(const_cast<Node*>(node)), DType::kS64));
  }
  if (differ) {
    // All in the shape that they broadcast to, which their sum has.
    std::string sum = parts[0];
    for (size_t i = 1; i < parts.size(); ++i) sum = call.emit("Add", {sum, parts[i]});
    const std::string shape = call.emit("Shape", {sum});
    for (std::string& part : parts) part = call.emit("Expand", {part, shape});
  }
  for (std::string& part : parts) part = call.emit("Unsqueeze", {part, call.integers_as_tensor({-1})});
  out.table = parts.size() == 1 ? parts[0] : call.emit("Concat", parts, {"axis", -1});
  return out;
}

// Order of axes in which `count` of them, from `from` on, stand from `to` on.
std::vector<int64_t> moved_axes(size_t rank, size_t from, size_t count, size_t to) {
  std::vector<int64_t> order(rank), moved;
  std::iota(order.begin(), order.end(), 0);
  const auto begin = order.begin() + static_cast<std::ptrdiff_t>(from);
  moved.assign(begin, begin + static_cast<std::ptrdiff_t>(count));
  order.erase(begin, begin + static_cast<std::ptrdiff_t>(count));
  order.insert(order.begin() + static_cast<std::ptrdiff_t>(to), moved.begin(), moved.end());
  return order;
}
std::string move(AtenCall& call, const std::string& x, const std::vector<int64_t>& order) {
  return std::is_sorted(order.begin(), order.end()) ? x : call.emit("Transpose", {x}, {"perm", order});
}

// (self, indices): one index of any axis, or several of adjacent ones, or a mask.
void index(AtenCall& call) {
  const Argument::List& indices = call.arg(1).list();
  const auto given = std::count_if(indices.begin(), indices.end(), [](const Argument& i) { return i.is_node(); });
  const auto at = std::find_if(indices.begin(), indices.end(), [](const Argument& i) { return i.is_node(); });
  if (given == 1 && is_integral(call.meta_of(at->node()).dtype)) {
    const bool is_s32 = call.meta_of(at->node()).dtype == DType::kS32;
    const std::string places = call.operand(*at, is_s32 ? DType::kS32 : DType::kS64);
    const int64_t axis = at - indices.begin();
    return call.finish("Gather", {call.tensor(0), places}, {"axis", axis});
  }
  const Places places = places_of(call, indices);
  const size_t rank = call.rank(0), out = places.sizes.size() + rank - places.axes;
  const std::string turned = move(call, call.tensor(0), moved_axes(rank, places.first, places.axes, 0));
  if (places.first == 0) return call.finish("GatherND", {turned, places.table});
  const std::string found = call.emit("GatherND", {turned, places.table});
  call.finish("Transpose", {found}, {"perm", moved_axes(out, 0, places.sizes.size(), places.first)});
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
  const Places places = places_of(call, indices);
  const size_t rank = call.rank(0), behind = places.first + places.axes;
  // One value for each place: what is broadcast is spread to [axes in front, index axes, axes behind].
  const SymShape& own = call.meta(0).sizes;
  SymShape wanted(own.begin(), own.begin() + static_cast<std::ptrdiff_t>(places.first));
  wanted.insert(wanted.end(), places.sizes.begin(), places.sizes.end());
  wanted.insert(wanted.end(), own.begin() + static_cast<std::ptrdiff_t>(behind), own.end());
  std::string values = call.operand(2, dtype);
  if (call.meta(2).sizes != wanted) {
    const auto bound = [&](size_t at) { return call.integers_as_tensor({static_cast<int64_t>(at)}); };
    const std::string sizes = rank > places.axes ? call.emit("Shape", {call.tensor(0)}) : std::string();
    std::vector<std::string> parts;
    if (places.first > 0) parts.push_back(call.emit("Slice", {sizes, bound(0), bound(places.first)}));
    parts.push_back(call.emit(
        "Slice", {call.emit("Shape", {places.table}), call.integers_as_tensor({0}), call.integers_as_tensor({-1})}));
    if (rank > behind) parts.push_back(call.emit("Slice", {sizes, bound(behind), bound(rank)}));
    values = call.emit("Expand", {values, call.emit("Concat", parts, {"axis", 0})});
  }
  const OnnxAttributes attributes = {"reduction", call.flag(3) ? "add" : "none"};
  if (places.first == 0) return call.finish("ScatterND", {call.tensor(0), places.table, values}, attributes);
  values = move(call, values, moved_axes(wanted.size(), places.first, places.sizes.size(), 0));
  const std::string turned = move(call, call.tensor(0), moved_axes(rank, places.first, places.axes, 0));
  const std::string written = call.emit("ScatterND", {turned, places.table, values}, attributes);
  call.finish("Transpose", {written}, {"perm", moved_axes(rank, 0, places.axes, places.first)});
}

// The values that a scatter writes, as many as there are places.
std::string scattered_values(AtenCall& call) {
  const DType dtype = call.result().dtype;
  if (call.begins("scatter.value"))
    return call.emit("Expand", {call.operand(3, dtype), call.emit("Shape", {call.tensor(2)})});
  const std::string values = call.operand(3, dtype);
  // PyTorch takes as many values of each axis as there are places; ONNX wants no more.
  if (call.meta(3).sizes == call.meta(2).sizes) return values;
  const std::vector<int64_t> front(call.rank(2), 0);
  return call.emit("Slice", {values, call.integers_as_tensor(front), call.emit("Shape", {call.tensor(2)})});
}

// A number that changes no result of a reduction: 0, 1, the smallest or the largest there is.
std::string neutral(AtenCall& call, const std::string& reduction, DType dtype) {
  if (reduction == "sum" || reduction == "mean") return call.scalar(0, dtype);
  if (reduction == "prod") return call.scalar(1, dtype);
  const bool is_largest = reduction == "amin";
  if (is_integral(dtype)) return call.file().scalar(Argument(is_largest ? max_of(dtype) : min_of(dtype)), dtype);
  return call.scalar(std::numeric_limits<double>::infinity() * (is_largest ? 1 : -1), dtype);
}

// scatter_reduce: (self, dim, index, src, reduce, include_self). What stands at a place that is written does not count
// without include_self: a neutral number takes its place first.
void scatter_reduce(AtenCall& call) {
  static constexpr std::pair<std::string_view, const char*> kReductions[] = {
      {"sum", "add"}, {"prod", "mul"}, {"amax", "max"}, {"amin", "min"}, {"mean", "add"}};
  const auto& wanted = call.arg(4).as<std::string>();
  const DType dtype = call.result().dtype;
  const bool is_mean = wanted == "mean", joins_by_order = wanted == "amax" || wanted == "amin";
  if (joins_by_order && !call.file().reaches(18))
    call.refuse("joins values by ", wanted, ", which ONNX can from opset 18 on");
  if (is_mean && !is_floating(dtype)) call.refuse("joins integers by mean, which ONNX cannot");
  const std::string places = call.operand(2, DType::kS64), shape = call.emit("Shape", {places});
  const int64_t axis = call.axis(1, call.rank(0));
  const auto spread = [&](const std::string& number) { return call.emit("Expand", {number, shape}); };
  std::string self = call.tensor(0);
  if (!call.flag(5))
    self = call.emit("ScatterElements", {self, places, spread(neutral(call, wanted, dtype))}, {"axis", axis});
  const OnnxNames inputs = {self, places, scattered_values(call)};
  const OnnxAttributes attributes = {"axis", axis, "reduction", onnx_name(kReductions, wanted)};
  if (!is_mean) return call.finish("ScatterElements", inputs, attributes);
  // The sums, divided by how many numbers each has; those that nothing is written to have one.
  const std::string ones = call.emit("Expand", {call.scalar(1, dtype), call.emit("Shape", {call.tensor(0)})});
  std::string counts = ones;
  if (!call.flag(5))
    counts = call.emit("ScatterElements", {ones, places, spread(call.scalar(0, dtype))}, {"axis", axis});
  counts = call.emit("ScatterElements", {counts, places, spread(call.scalar(1, dtype))}, attributes);
  call.finish("Div", {call.emit("ScatterElements", inputs, attributes), counts});
}

// scatter: (self, dim, index, src or value); scatter_add
void scatter(AtenCall& call) {
  const std::string name = call.name();
  if (name.starts_with("scatter_reduce")) return scatter_reduce(call);
  const char* reduction = name.starts_with("scatter_add") ? "add" : "none";
  if (name.ends_with("reduce")) reduction = call.arg(4) == Argument("add") ? "add" : "mul";
  call.finish("ScatterElements", {call.tensor(0), call.operand(2, DType::kS64), scattered_values(call)},
              {"axis", call.axis(1, call.rank(0)), "reduction", reduction});
}

void nonzero(AtenCall& call) {
  if (call.rank(0) == 0) call.refuse("is of a tensor without axes");
  const std::vector<int64_t> turn = {1, 0};
  call.finish("Transpose", {call.emit("NonZero", {call.tensor(0)})}, {"perm", turn});
}

// _unique2: (self, sorted, return_inverse, return_counts); unique_dim with `dim` in front of these: values, places in
// them, counts; of what the first is not asked for an empty tensor.
void unique(AtenCall& call) {
  const bool has_axis = call.name() == "unique_dim.default";
  OnnxAttributes attributes = {"sorted", 1};
  if (has_axis) attributes.add("axis", call.axis(1, call.rank(0)));
  std::vector<std::string> names = call.name_results(3);
  for (const size_t i : {size_t{1}, size_t{2}})
    if (!has_axis && !call.flag(i + 1)) {
      call.file().emit("Identity", {call.integers_as_tensor({})}, {}, names[i]);
      names[i] = call.file().fresh(names[i] + "_unread");
    }
  const std::string places = has_axis ? names[1] : call.file().fresh(names[1] + "_part");
  call.file().emit_many("Unique", {call.tensor(0)}, attributes, {names[0], "", places, names[2]},
                        call.node().meta.extra_of(kOnnxNode));
  if (!has_axis) call.file().emit("Reshape", {places, call.emit("Shape", {call.tensor(0)})}, {}, names[1]);
}

// (self, dim, descending), with `stable` in front of dim (ONNX's order is): all elements of an axis from the largest
// on, or from the smallest.
void sort(AtenCall& call) {
  const size_t at = call.name().ends_with(".stable") ? 2 : 1;
  if (call.rank(0) == 0) call.refuse("is of a tensor without axes");
  const int64_t axis = call.name() == "msort.default" ? 0 : call.axis(at, call.rank(0));
  const std::string size =
      call.emit("Gather", {call.emit("Shape", {call.tensor(0)}), call.integers_as_tensor({axis})}, {"axis", 0});
  const bool gives_places = call.name().starts_with("argsort");
  std::vector<std::string> outputs;
  if (gives_places) outputs = {call.file().fresh(call.node().name() + "_part"), call.file().name_of(&call.node())};
  else outputs = call.name_results(2);
  call.file().emit_many("TopK", {call.tensor(0), size}, {"axis", axis, "largest", call.flag(at + 1), "sorted", 1},
                        outputs, call.node().meta.extra_of(kOnnxNode));
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

// (boxes [N, 4], scores [N], iou_threshold): one image and one class, of which all boxes may be chosen.
void nms(AtenCall& call) {
  const auto numbers = [&](std::vector<int64_t> values) { return call.integers_as_tensor(std::move(values)); };
  const auto with_axes = [&](size_t i, std::vector<int64_t> axes) {
    return call.emit("Unsqueeze", {call.operand(i, DType::kF32), numbers(std::move(axes))});
  };
  const std::string found = call.emit(
      "NonMaxSuppression",
      {with_axes(0, {0}), with_axes(1, {0, 1}), call.emit("Shape", {call.tensor(1)}), call.operand(2, DType::kF32)});
  call.finish("Squeeze", {call.emit("Slice", {found, numbers({2}), numbers({3}), numbers({1})}), numbers({1})});
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

constexpr AtenExporter kPlaceExporters[] = {{"_local_scalar_dense.default", item},
                                            {"_unique2.default", unique},
                                            {"_unsafe_index.Tensor", index},
                                            {"_unsafe_index_put.default", index_put},
                                            {"argsort.default", sort},
                                            {"argsort.stable", sort},
                                            {"argwhere.default", nonzero},
                                            {"deform_conv2d.default", deform_conv},
                                            {"embedding.default", embedding},
                                            {"gather.default", gather},
                                            {"grid_sampler.default", grid_sampler},
                                            {"grid_sampler_2d.default", grid_sampler},
                                            {"grid_sampler_3d.default", grid_sampler},
                                            {"index.Tensor", index},
                                            {"index_put.default", index_put},
                                            {"index_select.default", index_select},
                                            {"item.default", item},
                                            {"nms.default", nms},
                                            {"non_max_suppression.default", non_max_suppression},
                                            {"nonzero.default", nonzero},
                                            {"roi_align.default", roi_align},
                                            {"roi_align_max.default", roi_align},
                                            {"roi_pool.default", roi_pool},
                                            {"scatter.reduce", scatter},
                                            {"scatter.src", scatter},
                                            {"scatter.value", scatter},
                                            {"scatter.value_reduce", scatter},
                                            {"scatter_add.default", scatter},
                                            {"scatter_reduce.two", scatter},
                                            {"select.int", select},
                                            {"select_copy.int", select},
                                            {"sort.default", sort},
                                            {"sort.stable", sort},
                                            {"unique_dim.default", unique}};

}  // namespace

std::span<const AtenExporter> place_exporters() { return kPlaceExporters; }

}  // namespace qdq
