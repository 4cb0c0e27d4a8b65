// ATen operators that give elements another shape or order, join and divide tensors, as ONNX ones.
#include <algorithm>
#include <numeric>

#include "io/onnx/export.h"

namespace qdq {
namespace {

void expand_as(AtenCall& call) { call.finish("Expand", {call.tensor(0), call.emit("Shape", {call.tensor(1)})}); }
void reshape_as(AtenCall& call) { call.finish("Reshape", {call.tensor(0), call.emit("Shape", {call.tensor(1)})}); }

void move_axis(AtenCall& call) {
  const size_t rank = call.rank(0);
  std::vector<int64_t> axes(rank);
  std::iota(axes.begin(), axes.end(), 0);
  const int64_t from = call.axis(1, rank), to = call.axis(2, rank);
  axes.erase(axes.begin() + from);
  axes.insert(axes.begin() + to, from);
  call.finish("Transpose", {call.tensor(0)}, {"perm", axes});
}

// The sizes of the input from this axis on.
std::string sizes_from(AtenCall& call, int64_t axis) {
  const auto bound = [&](int64_t at) { return call.integers_as_tensor({at}); };
  return call.emit("Slice",
                   {call.emit("Shape", {call.tensor(0)}), bound(axis), bound(static_cast<int64_t>(call.rank(0)))});
}

// Axes in front keep their size (0); of the others one is inferred, and more are computed.
void unflatten(AtenCall& call) {
  const auto axis = static_cast<size_t>(call.axis(1, call.rank(0)));
  std::vector<int64_t> sizes(axis, 0);
  for (size_t i = axis; i < call.result().sizes.size(); ++i)
    sizes.push_back(call.result().sizes[i].constant().value_or(-1));
  if (std::count(sizes.begin(), sizes.end(), -1) > 1) {
    const std::string behind = sizes_from(call, static_cast<int64_t>(axis) + 1);
    const std::string front = call.integers_as_tensor(std::vector<int64_t>(axis, 0));
    return call.finish("Reshape",
                       {call.tensor(0), call.emit("Concat", {front, call.sizes(2, false), behind}, {"axis", 0})});
  }
  call.finish("Reshape", {call.tensor(0), call.integers_as_tensor(sizes)});
}

// ONNX's SpaceToDepth has the places of a block in front of the channels, PyTorch behind them.
void pixel_unshuffle(AtenCall& call) {
  const int64_t block = call.integer(1);
  const auto channels = call.rank(0) == 4 ? call.meta(0).sizes[1].constant() : std::nullopt;
  if (!channels) call.refuse("has an open number of channels, or no batch axis");
  std::vector<int64_t> order;
  for (int64_t c = 0; c < *channels; ++c)
    for (int64_t k = 0; k < block * block; ++k) order.push_back(k * *channels + c);
  const std::string parts = call.emit("SpaceToDepth", {call.tensor(0)}, {"blocksize", block});
  call.finish("Gather", {parts, call.integers_as_tensor(order)}, {"axis", 1});
}

void split(AtenCall& call) {
  const auto* results = std::get_if<std::vector<ValueMeta>>(&call.node().meta.val.value);
  if (results == nullptr || results->empty()) call.refuse("gives an unknown number of parts");
  const int64_t axis = call.axis(call.node().target().find("unbind") != std::string::npos ? 1 : 2, call.rank(0));
  const bool unbinds = call.base() == "unbind";
  const bool has_list = !unbinds && call.arg(1).is_list();
  std::vector<int64_t> parts;
  const std::vector<std::string> names = call.name_results(results->size());
  std::vector<std::string> outputs;
  for (size_t i = 0; i < results->size(); ++i) {
    const TensorMeta& part = *(*results)[i].tensor();
    const auto size = unbinds ? std::optional<int64_t>(1) : part.sizes[static_cast<size_t>(axis)].constant();
    if (!size && !has_list) call.refuse("divides an axis whose size is open");
    parts.push_back(size.value_or(0));
    outputs.push_back(unbinds ? call.file().fresh(names[i] + "_part") : names[i]);
  }
  const std::string lengths = has_list ? call.sizes(1, false) : call.integers_as_tensor(parts);
  call.file().emit_many("Split", {call.tensor(0), lengths}, {"axis", axis}, outputs,
                        call.node().meta.extra_of(kOnnxNode));
  if (unbinds)
    for (size_t i = 0; i < outputs.size(); ++i)
      call.file().emit("Squeeze", {outputs[i], call.integers_as_tensor({axis})}, {}, names[i]);
}

void join(AtenCall& call) {
  const bool stacks = call.base().ends_with("stack");
  const DType dtype = call.result().dtype;
  const int64_t axis = call.axis(1, call.result().sizes.size());
  std::vector<std::string> parts;
  for (const Argument& part : call.arg(0).list()) {
    // PyTorch joins an empty vector with tensors of any number of axes.
    const SymShape& sizes = call.meta_of(part.node()).sizes;
    if (!stacks && sizes == SymShape{SymInt(0)} && call.result().sizes.size() != 1) continue;
    std::string value = call.operand(part, dtype);
    if (stacks) value = call.emit("Unsqueeze", {value, call.integers_as_tensor({axis})});
    parts.push_back(std::move(value));
  }
  call.finish("Concat", parts, {"axis", axis});
}

// (self, dim, start, end, step); narrow: (self, dim, start, length)
void slice(AtenCall& call) {
  const int64_t axis = call.axis(1, call.rank(0));
  const auto bound = [&](size_t i, int64_t if_none) {
    const Node* node = call.arg(i).node();
    if (node) return call.emit("Reshape", {call.file().value(node), call.integers_as_tensor({1})});
    return call.integers_as_tensor({call.is_none(i) ? if_none : call.integer(i)});
  };
  std::string end =
      call.base() == "narrow" ? call.integers_as_tensor({call.integer(2) + call.integer(3)}) : bound(3, INT64_MAX);
  const int64_t step = call.base() == "narrow" ? 1 : call.integer(4);
  call.finish("Slice",
              {call.tensor(0), bound(2, 0), end, call.integers_as_tensor({axis}), call.integers_as_tensor({step})});
}

void flip(AtenCall& call) {
  // ONNX's shape inference takes an empty axis that is turned around for one of size 1.
  std::vector<int64_t> axes = call.axes(1, call.rank(0));
  std::erase_if(axes, [&](int64_t axis) { return call.meta(0).sizes[static_cast<size_t>(axis)] == SymInt(0); });
  if (axes.empty()) return call.same_as(call.tensor(0));
  const auto all = [&](int64_t value) { return call.integers_as_tensor(std::vector<int64_t>(axes.size(), value)); };
  call.finish("Slice", {call.tensor(0), all(-1), all(INT64_MIN), call.integers_as_tensor(axes), all(-1)});
}

// A size of 0 stands for that of the input unless `allowzero` says otherwise.
void reshape(AtenCall& call) {
  const Argument::List& sizes = call.arg(1).list();
  const bool has_zero =
      std::any_of(sizes.begin(), sizes.end(), [](const Argument& size) { return size.integer() == 0; });
  call.finish("Reshape", {call.tensor(0), call.sizes(1, !has_zero)}, {"allowzero", has_zero});
}

// Axes that keep their size are copied (0), the joined ones inferred; behind those, open sizes are computed.
void flatten(AtenCall& call) {
  const size_t rank = call.rank(0);
  if (rank == 0) return call.finish("Reshape", {call.tensor(0), call.integers_as_tensor({-1})});
  const int64_t start = call.axis(1, rank), end = call.axis(2, rank);
  if (start == 1 && end == static_cast<int64_t>(rank) - 1) return call.finish("Flatten", {call.tensor(0)}, {"axis", 1});
  std::vector<int64_t> sizes(static_cast<size_t>(start), 0);
  sizes.push_back(-1);
  const SymShape& found = call.meta(0).sizes;
  const auto behind = found.begin() + end + 1;
  if (std::all_of(behind, found.end(), [](const SymInt& size) { return size.is_constant(); })) {
    for (auto size = behind; size != found.end(); ++size) sizes.push_back(*size->constant());
    return call.finish("Reshape", {call.tensor(0), call.integers_as_tensor(sizes)});
  }
  const auto bound = [&](int64_t at) { return call.integers_as_tensor({at}); };
  const std::string rest =
      call.emit("Slice", {call.emit("Shape", {call.tensor(0)}), bound(end + 1), bound(static_cast<int64_t>(rank))});
  call.finish("Reshape", {call.tensor(0), call.emit("Concat", {call.integers_as_tensor(sizes), rest}, {"axis", 0})});
}

void squeeze(AtenCall& call) {
  const size_t rank = call.rank(0);
  std::vector<int64_t> axes;
  for (const int64_t axis : call.name().ends_with(".default") ? call.axes(99, rank) : call.axes(1, rank))
    if (call.meta(0).sizes[static_cast<size_t>(axis)] == SymInt(1)) axes.push_back(axis);
  if (axes.empty()) return call.same_as(call.tensor(0));
  call.finish("Squeeze", {call.tensor(0), call.integers_as_tensor(axes)});
}
void unsqueeze(AtenCall& call) {
  call.finish("Unsqueeze", {call.tensor(0), call.integers_as_tensor({call.axis(1, call.rank(0) + 1)})});
}

void permute(AtenCall& call) {
  const size_t rank = call.rank(0);
  if (rank == 0) return call.same_as(call.tensor(0));
  std::vector<int64_t> axes;
  const std::string name = call.base();
  if (name == "permute") {
    axes = call.axes(1, rank);
  } else {
    for (size_t i = 0; i < rank; ++i) axes.push_back(static_cast<int64_t>(i));
    const bool turns = name == "t";
    if (turns && rank == 2) std::swap(axes[0], axes[1]);
    else if (!turns)
      std::swap(axes[static_cast<size_t>(call.axis(1, rank))], axes[static_cast<size_t>(call.axis(2, rank))]);
  }
  call.finish("Transpose", {call.tensor(0)}, {"perm", axes});
}

// -1 keeps the size; ONNX does that with 1.
void expand(AtenCall& call) {
  const Argument::List& list = call.arg(1).list();
  std::vector<std::string> parts;
  for (const Argument& size : list)
    parts.push_back(size.is_node()
                        ? call.emit("Reshape", {call.file().value(size.node()), call.integers_as_tensor({1})})
                        : call.integers_as_tensor({*size.integer() < 0 ? 1 : *size.integer()}));
  call.finish("Expand", {call.tensor(0), call.emit("Concat", parts, {"axis", 0})});
}

void repeat(AtenCall& call) {
  const auto extra = static_cast<int64_t>(call.arg(1).list().size()) - static_cast<int64_t>(call.rank(0));
  std::string input = call.tensor(0);
  std::vector<int64_t> front;
  for (int64_t i = 0; i < extra; ++i) front.push_back(i);
  if (extra > 0) input = call.emit("Unsqueeze", {input, call.integers_as_tensor(front)});
  Argument::List times(static_cast<size_t>(std::max<int64_t>(0, -extra)), Argument(int64_t{1}));  // of axes in front
  times.insert(times.end(), call.arg(1).list().begin(), call.arg(1).list().end());
  call.finish("Tile", {input, call.sizes(times, false)});
}

void pad_by(AtenCall& call, const char* mode, const std::string& constant = {}) {
  if (mode == std::string_view("wrap") && !call.file().reaches(19))
    call.refuse("pads in a circle, which ONNX can from opset 19 on");
  std::vector<std::string> inputs = {call.tensor(0), call.pads(1, call.rank(0))};
  if (!constant.empty()) inputs.push_back(constant);
  call.finish("Pad", inputs, {"mode", mode});
}

// Pads with the number that is argument `at`, 0 by default.
void pad_by_constant(AtenCall& call, size_t at) {
  const DType dtype = call.result().dtype;
  pad_by(call, "constant", call.is_none(at) ? call.scalar(0, dtype) : call.scalar_of(at, dtype));
}
void constant_pad(AtenCall& call) { pad_by_constant(call, 2); }
void reflection_pad(AtenCall& call) { pad_by(call, "reflect"); }
void replication_pad(AtenCall& call) { pad_by(call, "edge"); }
void circular_pad(AtenCall& call) { pad_by(call, "wrap"); }

void pad(AtenCall& call) {
  static constexpr std::pair<std::string_view, const char*> kModes[] = {
      {"reflect", "reflect"}, {"replicate", "edge"}, {"circular", "wrap"}};
  const std::string& mode = call.arg(2).as<std::string>();
  if (mode == "constant") return pad_by_constant(call, 3);
  const char* known = onnx_name(kModes, mode);
  if (known == nullptr) call.refuse("pads in the mode ", mode, ", which ONNX does not have");
  pad_by(call, known);
}

void pixel_shuffle(AtenCall& call) {
  call.finish("DepthToSpace", {call.tensor(0)}, {"blocksize", call.integer(1), "mode", "CRD"});
}

constexpr AtenExporter kViewExporters[] = {{"_reshape_alias.default", reshape},
                                           {"_reshape_copy.default", reshape},
                                           {"_pad_circular.default", circular_pad},
                                           {"_stack.default", join},
                                           {"_unsafe_view.default", reshape},
                                           {"broadcast_to.default", expand},
                                           {"cat.default", join},
                                           {"chunk.default", split},
                                           {"concat.default", join},
                                           {"constant_pad_nd.default", constant_pad},
                                           {"expand.default", expand},
                                           {"expand_as.default", expand_as},
                                           {"expand_copy.default", expand},
                                           {"flatten.using_ints", flatten},
                                           {"flip.default", flip},
                                           {"movedim.int", move_axis},
                                           {"narrow.default", slice},
                                           {"narrow_copy.default", slice},
                                           {"pad.default", pad},
                                           {"permute.default", permute},
                                           {"permute_copy.default", permute},
                                           {"pixel_shuffle.default", pixel_shuffle},
                                           {"pixel_unshuffle.default", pixel_unshuffle},
                                           {"reflection_pad1d.default", reflection_pad},
                                           {"reflection_pad2d.default", reflection_pad},
                                           {"reflection_pad3d.default", reflection_pad},
                                           {"repeat.default", repeat},
                                           {"replication_pad1d.default", replication_pad},
                                           {"replication_pad2d.default", replication_pad},
                                           {"replication_pad3d.default", replication_pad},
                                           {"reshape.default", reshape},
                                           {"reshape_as.default", reshape_as},
                                           {"slice.Tensor", slice},
                                           {"slice_copy.Tensor", slice},
                                           {"split.Tensor", split},
                                           {"split.sizes", split},
                                           {"split_copy.Tensor", split},
                                           {"split_with_sizes.default", split},
                                           {"split_with_sizes_copy.default", split},
                                           {"squeeze.default", squeeze},
                                           {"squeeze.dim", squeeze},
                                           {"squeeze.dims", squeeze},
                                           {"squeeze_copy.default", squeeze},
                                           {"squeeze_copy.dim", squeeze},
                                           {"squeeze_copy.dims", squeeze},
                                           {"stack.default", join},
                                           {"swapaxes.default", permute},
                                           {"swapdims.default", permute},
                                           {"t.default", permute},
                                           {"t_copy.default", permute},
                                           {"tensor_split.sections", split},
                                           {"tile.default", repeat},
                                           {"transpose.int", permute},
                                           {"transpose_copy.int", permute},
                                           {"unbind.int", split},
                                           {"unbind_copy.int", split},
                                           {"unflatten.int", unflatten},
                                           {"unsafe_chunk.default", split},
                                           {"unsafe_split.Tensor", split},
                                           {"unsafe_split_with_sizes.default", split},
                                           {"unsqueeze.default", unsqueeze},
                                           {"unsqueeze_copy.default", unsqueeze},
                                           {"view.default", reshape},
                                           {"view_as.default", reshape_as},
                                           {"view_copy.default", reshape}};

}  // namespace

std::span<const AtenExporter> view_exporters() { return kViewExporters; }

}  // namespace qdq
