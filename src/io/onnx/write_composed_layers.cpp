// Layers that ONNX does not have, spelled out in what it has: pads, adaptive pools, norms, bags, cells.
#include <algorithm>
#include <limits>
#include <numeric>

#include "io/onnx/export.h"

namespace qdq {
namespace {

int64_t known_extent(AtenCall& call, size_t i, int64_t axis) {
  const auto size = call.meta(i).sizes[static_cast<size_t>(axis)].constant();
  if (!size) call.refuse("needs the size of an axis that is open");
  return *size;
}
std::string with_axes(AtenCall& call, const std::string& x, const std::vector<int64_t>& axes) {
  return call.emit("Unsqueeze", {x, call.integers_as_tensor(axes)});
}

// Pools of a given number of windows, whose sizes differ by one: the places of each, and which of them count.
std::string pooled_axis(AtenCall& call, const std::string& x, int64_t axis, int64_t outputs, bool is_max) {
  if (outputs == 1) return call.reduce(is_max ? "ReduceMax" : "ReduceMean", x, {axis}, true);
  const int64_t size = known_extent(call, 0, axis);
  const auto rank = static_cast<int64_t>(call.rank(0));
  int64_t widest = 0;
  const auto from = [&](int64_t i) { return i * size / outputs; };
  const auto to = [&](int64_t i) { return ((i + 1) * size + outputs - 1) / outputs; };
  for (int64_t i = 0; i < outputs; ++i) widest = std::max(widest, to(i) - from(i));
  std::vector<int64_t> places;
  const Tensor shares = Tensor::full({outputs, widest}, DType::kF32, 0);
  for (int64_t i = 0; i < outputs; ++i)
    for (int64_t k = 0; k < widest; ++k) {
      const bool is_inside = from(i) + k < to(i);
      places.push_back(is_inside ? from(i) + k : from(i));  // the first one again, which is no new maximum
      if (is_inside) shares.data<float>()[i * widest + k] = 1 / static_cast<float>(to(i) - from(i));
    }
  const std::string table =
      call.emit("Reshape", {call.integers_as_tensor(places), call.integers_as_tensor({outputs, widest})});
  const std::string apart = call.emit("Gather", {x, table}, {"axis", axis});
  if (is_max) return call.reduce("ReduceMax", apart, {axis + 1}, false);
  std::vector<int64_t> axes_behind;
  for (int64_t i = 2; i < rank - axis + 1; ++i) axes_behind.push_back(i);
  const std::string weights =
      with_axes(call, call.file().constant(shares.to(call.meta(0).dtype), call.node().name() + "_shares"), axes_behind);
  return call.reduce("ReduceSum", call.emit("Mul", {apart, weights}), {axis + 1}, false);
}
// Of each window of a pool that rounds up, the share that lies in the image, not in the padding around it; what lies
// behind the padding is no part of a window. [1, 1, windows along each axis]; undefined where sizes are open.
Tensor shares_of_image(AtenCall& call, const std::vector<int64_t>& kernel, const std::vector<int64_t>& strides,
                       const std::vector<int64_t>& padding) {
  const size_t first = call.rank(0) - kernel.size();
  Tensor out = Tensor::full(Shape(kernel.size() + 2, 1), DType::kF32, 1);
  for (size_t i = 0; i < kernel.size(); ++i) {
    const auto in = call.meta(0).sizes[first + i].constant(), windows = call.result().sizes[first + i].constant();
    if (!in || !windows) return {};
    Shape sizes(kernel.size() + 2, 1), all = out.sizes();
    sizes[i + 2] = all[i + 2] = *windows;
    const Tensor shares = Tensor::empty(sizes, DType::kF32);
    for (int64_t at = 0; at < *windows; ++at) {
      const int64_t begin = at * strides[i] - padding[i], end = std::min(begin + kernel[i], *in + padding[i]);
      const int64_t inside = std::min(end, *in) - std::max<int64_t>(begin, 0);
      shares.data<float>()[at] = static_cast<float>(inside) / static_cast<float>(end - begin);
    }
    const Tensor product = out.expand(all).contiguous(), other = shares.expand(all).contiguous();
    for (int64_t at = 0; at < product.numel(); ++at) product.data<float>()[at] *= other.data<float>()[at];
    out = product;
  }
  return out;
}

// Whether a window along a known axis would begin in the padding behind the image, where PyTorch has none.
bool leaves_out_windows(AtenCall& call, const std::vector<int64_t>& kernel, const std::vector<int64_t>& strides,
                        const std::vector<int64_t>& padding) {
  const size_t first = call.rank(0) - kernel.size();
  for (size_t i = 0; i < kernel.size(); ++i) {
    const int64_t in = call.meta(0).sizes[first + i].constant().value_or(0),
                  windows = call.result().sizes[first + i].constant().value_or(0);
    if ((in + 2 * padding[i] - kernel[i] + strides[i] - 1) / strides[i] + 1 > windows) return true;
  }
  return false;
}

}  // namespace

std::string mean_with_padding(AtenCall& call, const std::string& input, const std::vector<int64_t>& kernel,
                              const std::vector<int64_t>& strides, const std::vector<int64_t>& padding) {
  const size_t axes = kernel.size();
  const DType dtype = call.result().dtype;
  OnnxAttributes attributes = {"kernel_shape", kernel, "strides", strides, "ceil_mode", 1};
  if (const Tensor shares = shares_of_image(call, kernel, strides, padding); shares.defined()) {
    std::vector<int64_t> both = padding;
    both.insert(both.end(), padding.begin(), padding.end());
    attributes.add("pads", both);
    std::string mean = call.emit("AveragePool", {input}, attributes);
    // onnx infers a size with a last window that begins behind the image, which no runtime computes.
    std::vector<int64_t> windows, places;
    for (size_t i = 0; i < axes; ++i) windows.push_back(shares.size(static_cast<int64_t>(i) + 2));
    for (size_t i = 0; i < axes; ++i) places.push_back(static_cast<int64_t>(i) + 2);
    if (leaves_out_windows(call, kernel, strides, padding))
      mean = call.emit("Slice", {mean, call.integers_as_tensor(std::vector<int64_t>(axes, 0)),
                                 call.integers_as_tensor(windows), call.integers_as_tensor(places)});
    return call.emit("Mul", {mean, call.file().constant(shares.to(dtype), call.node().name() + "_shares")});
  }
  std::vector<int64_t> pads(2 * axes + 4, 0), reach, places;
  for (size_t i = 0; i < axes; ++i) {
    pads[2 + i] = pads[axes + 4 + i] = padding[i];
    // The last window begins in the image or the padding in front of it.
    reach.push_back(std::max(kernel[i] - strides[i], padding[i]) + 1);
    places.push_back(static_cast<int64_t>(i) + 2);
  }
  const auto numbers = [&](const std::vector<int64_t>& values) { return call.integers_as_tensor(values); };
  const std::string padded = call.emit("Pad", {input, numbers(pads)}),
                    room = call.emit("Sub", {call.emit("Shape", padded, {"start", 2}), numbers(reach)}),
                    windows = call.emit("Add", {call.emit("Div", {room, numbers(strides)}), numbers({1})}),
                    first = numbers(std::vector<int64_t>(axes, 0));
  return call.emit("Slice", {call.emit("AveragePool", {padded}, attributes), first, windows, numbers(places)});
}

void adaptive_pool(AtenCall& call) {
  const std::string name = call.name();
  const bool is_max = name.find("max") != std::string::npos;
  const size_t axes = name.find("1d") != std::string::npos ? 1 : name.find("3d") != std::string::npos ? 3 : 2;
  const std::vector<int64_t> outputs = call.integers(1, axes);
  std::string x = call.tensor(0);
  for (size_t i = 0; i < axes; ++i)
    x = pooled_axis(call, x, static_cast<int64_t>(call.rank(0) - axes + i), outputs[i], is_max);
  if (!is_max) return call.finish("Identity", {x});
  call.file().emit("Identity", {x}, {}, call.only_result());
}

namespace {

// A batch norm's weight or bias, or a number in the place of one that it does not have.
std::string for_each_channel(AtenCall& call, size_t i, int64_t channels, double value) {
  if (!call.is_none(i)) return call.tensor(i);
  return call.file().constant(Tensor::full({channels}, call.meta(0).dtype, value), call.node().name() + "_constant");
}

// By the statistics of what it is given, over all axes but the channels': those of one instance that has all.
void batch_norm_by_own_statistics(AtenCall& call) {
  const auto channels = call.meta(0).sizes[1].constant();
  if (!channels) call.refuse("has an open number of channels");
  std::vector<int64_t> turned(call.rank(0));
  std::iota(turned.begin(), turned.end(), 0);
  std::swap(turned[0], turned[1]);
  const std::string rows = call.emit("Transpose", {call.tensor(0)}, {"perm", turned});
  const std::string flat = call.emit("Reshape", {rows, call.integers_as_tensor({1, *channels, -1})});
  const std::string normed = call.emit(
      "InstanceNormalization", {flat, for_each_channel(call, 1, *channels, 1), for_each_channel(call, 2, *channels, 0)},
      {"epsilon", call.number(7)});
  call.finish("Transpose", {call.emit("Reshape", {normed, call.emit("Shape", {rows})})}, {"perm", turned});
}

// (input, weight, bias, mean, var, training, momentum, eps)
void batch_norm(AtenCall& call) {
  if (call.is_none(3) || call.is_none(4)) return batch_norm_by_own_statistics(call);
  const int64_t channels = *call.meta(3).sizes[0].constant();
  const OnnxNames inputs = {call.tensor(0), for_each_channel(call, 1, channels, 1),
                            for_each_channel(call, 2, channels, 0), call.tensor(3), call.tensor(4)};
  if (!call.flag(5)) return call.finish("BatchNormalization", inputs, {"epsilon", call.number(7)});
  const std::string name = call.file().name_of(&call.node());
  call.file().emit_many("BatchNormalization", inputs,
                        {"epsilon", call.number(7), "momentum", 1 - call.number(6), "training_mode", 1},
                        {name, call.file().fresh(name + "_mean"), call.file().fresh(name + "_var")},
                        call.node().meta.extra_of(kOnnxNode));
  call.file().set(&call.node(), name);
}

// _native_batch_norm_legit_no_training: (input, weight, bias, mean, var, momentum, eps); with `training` behind the
// variance, native_batch_norm.
void native_batch_norm(AtenCall& call) {
  const bool has_flag = !call.begins("_native_batch_norm_legit_no_training");
  if (has_flag && (call.flag(5) || call.is_none(3) || call.is_none(4)))
    call.refuse("normalizes with the batch's own statistics; export the model in inference mode");
  const Shape channels = {known_extent(call, 0, 1)};
  const auto or_constant = [&](size_t i, double value) {
    return call.is_none(i) ? call.file().constant(Tensor::full(channels, call.meta(0).dtype, value),
                                                  call.node().name() + "_constant")
                           : call.tensor(i);
  };
  call.file().emit("BatchNormalization",
                   {call.tensor(0), or_constant(1, 1), or_constant(2, 0), call.tensor(3), call.tensor(4)},
                   {"epsilon", call.number(has_flag ? 7 : 6)}, call.only_result());
}
// _native_batch_norm_legit.no_stats: (input, weight, bias, training, momentum, eps), as decompositions leave an
// instance norm: by the mean and deviation of each channel, axis 1, of its input.
void norm_of_batch(AtenCall& call) {
  std::vector<int64_t> axes = {0}, others;
  for (int64_t i = 2; i < static_cast<int64_t>(call.rank(0)); ++i) {
    axes.push_back(i);
    others.push_back(i - 1);
  }
  const DType dtype = call.meta(0).dtype;
  const std::string x = call.tensor(0);
  const std::string apart = call.emit("Sub", {x, call.reduce("ReduceMean", x, axes, true)});
  const std::string variance = call.reduce("ReduceMean", call.emit("Mul", {apart, apart}), axes, true);
  const std::string deviation = call.emit("Sqrt", {call.emit("Add", {variance, call.scalar(call.number(5), dtype)})});
  std::string out = call.emit("Div", {apart, deviation});
  if (!call.is_none(1)) out = call.emit("Mul", {out, with_axes(call, call.tensor(1), others)});
  if (!call.is_none(2)) out = call.emit("Add", {out, with_axes(call, call.tensor(2), others)});
  call.file().emit("Identity", {out}, {}, call.only_result());
}
// (input, p, train)
void native_dropout(AtenCall& call) {
  if (call.flag(2)) call.refuse("is in training mode; export the model in inference mode");
  call.file().emit("Identity", {call.tensor(0)}, {}, call.only_result());
}

// Of rows [places, width] that are joined [bags, places]; a bag without any gives 0.
void largest_of_bags(AtenCall& call, const std::string& rows, const std::string& joined, const std::string& joins) {
  const DType dtype = call.meta(0).dtype;
  const std::string hidden = call.scalar(-std::numeric_limits<double>::infinity(), dtype);
  const std::string each = call.emit("Where", {with_axes(call, joined, {2}), with_axes(call, rows, {0}), hidden});
  const std::string has_rows =
      call.emit("Greater", {call.reduce("ReduceSum", joins, {1}, true), call.scalar(0, dtype)});
  const std::string largest = call.reduce("ReduceMax", each, {1}, false);
  call.file().emit("Where", {has_rows, largest, call.scalar(0, dtype)}, {}, call.only_result());
}

// (weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights, include_last_offset, padding_idx):
// each row joins its bag, whose number is how many bags begin no later, less one. Those of the padding join none.
void embedding_bag(AtenCall& call) {
  constexpr int64_t kMean = 1, kMax = 2;
  const int64_t mode = call.integer(4);
  if (call.rank(1) != 1) call.refuse("has bags of one size");
  const DType dtype = call.meta(0).dtype;
  std::string offsets = call.operand(2, DType::kS64);
  if (call.flag(7))
    offsets = call.emit("Slice", {offsets, call.integers_as_tensor({0}), call.integers_as_tensor({-1})});
  const std::string rows = call.emit("Gather", {call.tensor(0), call.operand(1, DType::kS64)}, {"axis", 0});
  const std::string places = call.emit(
      "Range", {call.scalar(0, DType::kS64), call.emit("Size", {call.tensor(1)}), call.scalar(1, DType::kS64)});
  const std::string begun = call.emit("GreaterOrEqual", {with_axes(call, places, {0}), with_axes(call, offsets, {1})});
  // [bags, places]: bags that have begun and of which the next has not.
  const std::string counts = call.reduce("ReduceSum", call.cast(begun, DType::kBool, DType::kS64), {0}, true);
  const std::string numbers =
      call.emit("Range", {call.scalar(1, DType::kS64),
                          call.emit("Add", {call.emit("Size", {offsets}), call.scalar(1, DType::kS64)}),
                          call.scalar(1, DType::kS64)});
  std::string joined = call.emit("Equal", {counts, with_axes(call, numbers, {1})});
  if (!call.is_none(8) && call.integer(8) >= 0) {
    const std::string padding =
        call.emit("Equal", {call.operand(1, DType::kS64), call.scalar(call.number(8), DType::kS64)});
    joined = call.emit("And", {joined, with_axes(call, call.emit("Not", {padding}), {0})});
  }
  std::string joins = call.cast(joined, DType::kBool, dtype);
  if (mode == kMax) return largest_of_bags(call, rows, joined, joins);
  if (!call.is_none(6)) joins = call.emit("Mul", {joins, with_axes(call, call.operand(6, dtype), {0})});
  std::string sum = call.emit("MatMul", {joins, rows});
  if (mode == kMean)
    sum =
        call.emit("Div", {sum, call.emit("Max", {call.reduce("ReduceSum", joins, {1}, true), call.scalar(1, dtype)})});
  call.file().emit("Identity", {sum}, {}, call.only_result());
}

// --- cells of recurrent layers: (input, hidden or [hidden, cell], w_ih, w_hh, b_ih, b_hh)

std::string gates_of(AtenCall& call, const std::string& x, size_t weight) {
  OnnxNames inputs = {x, call.tensor(weight)};
  if (!call.is_none(weight + 2)) inputs.list.push_back(call.tensor(weight + 2));
  return call.emit("Gemm", inputs, {"transB", 1});
}
std::vector<std::string> parts_of(AtenCall& call, const std::string& gates, size_t count) {
  const auto width = call.meta(3).sizes[1].constant();
  if (!width || call.rank(0) != 2) call.refuse("has an open width, or no batch axis");
  std::vector<std::string> names;
  for (size_t i = 0; i < count; ++i) names.push_back(call.file().fresh(call.node().name() + "_gate"));
  call.file().emit_many("Split", {gates, call.integers_as_tensor(std::vector<int64_t>(count, *width))}, {"axis", 1},
                        names);
  return names;
}
void lstm_cell(AtenCall& call) {
  const Argument::List& state = call.arg(1).list();
  const std::string hidden = call.file().value(state.at(0).node()), cell = call.file().value(state.at(1).node());
  const std::vector<std::string> gates =
      parts_of(call, call.emit("Add", {gates_of(call, call.tensor(0), 2), gates_of(call, hidden, 3)}), 4);
  const auto sigmoid = [&](size_t i) { return call.emit("Sigmoid", {gates[i]}); };
  const std::vector<std::string> names = call.name_results(2);
  const std::string added = call.emit("Mul", {sigmoid(0), call.emit("Tanh", {gates[2]})});
  call.file().emit("Add", {call.emit("Mul", {sigmoid(1), cell}), added}, {}, names[1]);
  call.file().emit("Mul", {sigmoid(3), call.emit("Tanh", {names[1]})}, {}, names[0]);
}
void gru_cell(AtenCall& call) {
  const std::string hidden = call.tensor(1);
  const std::vector<std::string> x = parts_of(call, gates_of(call, call.tensor(0), 2), 3),
                                 h = parts_of(call, gates_of(call, hidden, 3), 3);
  const auto sigmoid = [&](size_t i) { return call.emit("Sigmoid", {call.emit("Add", {x[i], h[i]})}); };
  const std::string fresh = call.emit("Tanh", {call.emit("Add", {x[2], call.emit("Mul", {sigmoid(0), h[2]})})});
  call.finish("Add", {fresh, call.emit("Mul", {sigmoid(1), call.emit("Sub", {hidden, fresh})})});
}
void rnn_cell(AtenCall& call) {
  call.finish(call.begins("rnn_tanh") ? "Tanh" : "Relu",
              {call.emit("Add", {gates_of(call, call.tensor(0), 2), gates_of(call, call.tensor(1), 3)})});
}

constexpr AtenExporter kComposedLayerExporters[] = {{"batch_norm.default", batch_norm},
                                                    {"_adaptive_avg_pool3d.default", adaptive_pool},
                                                    {"_embedding_bag.default", embedding_bag},
                                                    {"_embedding_bag_forward_only.default", embedding_bag},
                                                    {"_native_batch_norm_legit.default", native_batch_norm},
                                                    {"_native_batch_norm_legit.no_stats", norm_of_batch},
                                                    {"_native_batch_norm_legit_no_training.default", native_batch_norm},
                                                    {"adaptive_max_pool1d.default", adaptive_pool},
                                                    {"adaptive_max_pool2d.default", adaptive_pool},
                                                    {"adaptive_max_pool3d.default", adaptive_pool},
                                                    {"embedding_bag.default", embedding_bag},
                                                    {"embedding_bag.padding_idx", embedding_bag},
                                                    {"gru_cell.default", gru_cell},
                                                    {"lstm_cell.default", lstm_cell},
                                                    {"native_batch_norm.default", native_batch_norm},
                                                    {"native_dropout.default", native_dropout},
                                                    {"rnn_relu_cell.default", rnn_cell},
                                                    {"rnn_tanh_cell.default", rnn_cell}};

}  // namespace

std::span<const AtenExporter> composed_layer_exporters() { return kComposedLayerExporters; }

}  // namespace qdq
