// Gradients of windows in three axes, and of others that images of two axes make up.

#include "train/composition.h"

namespace qdq {
namespace {

using Term = Composition::Term;
using Operand = Composition::Operand;

Value numbers(const Shape& values) {
  Value::List out;
  for (const int64_t value : values) out.emplace_back(value);
  return out;
}
Term reshaped(Composition& of, Term x, const Shape& sizes) { return of.call("reshape.default", {x, numbers(sizes)}); }
Term permuted(Composition& of, Term x, const Shape& axes) { return of.call("permute.default", {x, numbers(axes)}); }

// The gradients where that of the first of several results is given, and no other.
std::vector<Value> gradients_of_first(Composition& of, Term result) {
  const BackwardCall& c = of.of();
  if (const Tensor* grad = c.grad.get_if<Tensor>()) return of.gradients(result, *grad);
  const Tensor* grad = c.grad.get_if<Value::List>()->at(0).get_if<Tensor>();
  QDQ_CHECK(grad != nullptr, kUnsupported, c.call.op().target, " has a gradient for its first result only");
  return of.gradients(result, *grad);
}

// A window over boxes [.., D, H, W] is one over planes and then one over what is left along D.
template <class Planes, class Depths>
Term in_boxes(Composition& of, Term x, const Planes& planes, const Depths& depths) {
  const Shape sizes = of.value(x).sizes();
  const size_t rank = sizes.size();
  Shape outer(sizes.begin(), sizes.end() - 3);
  int64_t rows = 1;
  for (const int64_t size : outer) rows *= size;
  const int64_t depth = sizes[rank - 3];
  x = planes(reshaped(of, x, {rows * depth, 1, sizes[rank - 2], sizes[rank - 1]}));
  const Shape plane = of.value(x).sizes();
  x = depths(reshaped(of, x, {rows, 1, depth, plane[2] * plane[3]}));
  outer.insert(outer.end(), {of.value(x).size(2), plane[2], plane[3]});
  return reshaped(of, x, outer);
}

std::vector<Value> max_pool3d(const BackwardCall& c) {
  const Shape kernel = c.call.integers(1, 3), padding = c.call.integers(3, 3), dilation = c.call.integers(4, 3);
  const Shape stride = c.call.integers(2).empty() ? kernel : c.call.integers(2, 3);
  const bool ceil = c.call.boolean(5);
  Composition of(c);
  const auto pool = [&](Term x, const Shape& size, const Shape& by, const Shape& pads, const Shape& apart) {
    return of.call("max_pool2d.default", {x, numbers(size), numbers(by), numbers(pads), numbers(apart), Value(ceil)});
  };
  return gradients_of_first(
      of, in_boxes(
              of, of.argument(0),
              [&](Term x) {
                return pool(x, {kernel[1], kernel[2]}, {stride[1], stride[2]}, {padding[1], padding[2]},
                            {dilation[1], dilation[2]});
              },
              [&](Term x) { return pool(x, {kernel[0], 1}, {stride[0], 1}, {padding[0], 0}, {dilation[0], 1}); }));
}

std::vector<Value> max_pool1d(const BackwardCall& c) {
  Composition of(c);
  return gradients_of_first(
      of, of.call("max_pool1d.default", {of.argument(0), c.call[1], c.call[2], c.call[3], c.call[4], c.call[5]}));
}

// What a mean divides by is the size of a box, and so the product of both sizes.
std::vector<Value> avg_pool3d(const BackwardCall& c) {
  const Shape kernel = c.call.integers(1, 3), padding = c.call.integers(3, 3);
  const Shape stride = c.call.integers(2).empty() ? kernel : c.call.integers(2, 3);
  const Value all = c.call[6].is_none() ? Value() : Value(int64_t{1});
  Composition of(c);
  const auto pool = [&](Term x, const Shape& size, const Shape& by, const Shape& pads, const Value& divisor) {
    return of.call("avg_pool2d.default", {x, numbers(size), numbers(by), numbers(pads), c.call[4], c.call[5], divisor});
  };
  return of.gradients(in_boxes(
      of, of.argument(0),
      [&](Term x) {
        return pool(x, {kernel[1], kernel[2]}, {stride[1], stride[2]}, {padding[1], padding[2]}, c.call[6]);
      },
      [&](Term x) { return pool(x, {kernel[0], 1}, {stride[0], 1}, {padding[0], 0}, all); }));
}

std::vector<Value> adaptive_avg_pool3d(const BackwardCall& c) {
  const Shape to = c.call.integers(1, 3);
  Composition of(c);
  return of.gradients(in_boxes(
      of, of.argument(0), [&](Term x) { return of.call("adaptive_avg_pool2d.default", {x, numbers({to[1], to[2]})}); },
      [&](Term x) { return of.call("adaptive_avg_pool2d.default", {x, numbers({to[0], of.value(x).size(3)})}); }));
}

// The largest of each window, one axis after the other, the last one first: of equal ones that is the first of all.
// Windows may overlap.
std::vector<Value> adaptive_max_pool(const BackwardCall& c) {
  const Shape to = c.call.integers(1);
  Composition of(c);
  Term x = of.argument(0);
  for (size_t i = to.size(); i-- > 0;) {
    Shape sizes = of.value(x).sizes();
    const size_t axis = sizes.size() - (to.size() - i);
    const int64_t size = sizes[axis],
                  inner = numel_of(Shape(sizes.begin() + static_cast<int64_t>(axis) + 1, sizes.end()));
    const Term columns = reshaped(of, x, {numel_of(sizes) / size / inner, 1, size, inner});
    std::vector<Term> parts;
    for (int64_t k = 0; k < to[i]; ++k) {
      const int64_t begin = k * size / to[i], end = ((k + 1) * size + to[i] - 1) / to[i];
      const Term window =
          of.call("slice.Tensor", {columns, Value(int64_t{2}), Value(begin), Value(end), Value(int64_t{1})});
      parts.push_back(of.call("max_pool2d.default", {window, numbers({end - begin, 1}), numbers({1, 1}),
                                                     numbers({0, 0}), numbers({1, 1}), Value(false)}));
    }
    sizes[axis] = to[i];
    x = reshaped(of, of.call("cat.default", {parts, Value(int64_t{2})}), sizes);
  }
  return gradients_of_first(of, x);
}

// A line is an image of one row.
std::vector<Value> upsample_linear1d(const BackwardCall& c) {
  const bool is_vec = c.call.op().target.ends_with(".vec");
  Composition of(c);
  const Term x = of.call("unsqueeze.default", {of.argument(0), Value(int64_t{2})});
  Term y;
  if (is_vec) {
    Value sizes, scales;
    if (!c.call.is_none(1)) sizes = numbers({1, c.call.integers(1)[0]});
    if (!c.call.is_none(3)) scales = Value(Value::List{Value(1.0), c.call[3].get_if<Value::List>()->at(0)});
    y = of.call("upsample_bilinear2d.vec", {x, sizes, c.call[2], scales});
  } else {
    y = of.call("upsample_bilinear2d.default", {x, numbers({1, c.call.integers(1)[0]}), c.call[2], Value(), c.call[3]});
  }
  return of.gradients(of.call("squeeze.dim", {y, Value(int64_t{2})}));
}

// Each plane of the filter gives images at places of their own along the depth, which add up.
std::vector<Value> conv_transpose3d(const BackwardCall& c) {
  const Shape stride = c.call.integers(3, 3), padding = c.call.integers(4, 3), beyond = c.call.integers(5, 3),
              dilation = c.call.integers(7, 3);
  QDQ_CHECK(c.x(0).dim() == 5, kUnsupported, c.call.op().target, " has a gradient for batches only");
  Composition of(c);
  const Shape sizes = c.x(0).sizes();
  const int64_t depth = c.x(1).size(2), last = (sizes[2] - 1) * stride[0],
                whole = last + dilation[0] * (depth - 1) + beyond[0] + 1;
  const Term images = reshaped(of, permuted(of, of.argument(0), {0, 2, 1, 3, 4}),
                               {sizes[0] * sizes[2], sizes[1], sizes[3], sizes[4]}),
             weight = of.argument(1);
  Term all;
  for (int64_t k = 0; k < depth; ++k) {
    const Term plane = of.call("select.int", {weight, Value(int64_t{2}), Value(k)});
    Term y = of.call("conv_transpose2d.input",
                     {images, plane, Value(), numbers({stride[1], stride[2]}), numbers({padding[1], padding[2]}),
                      numbers({beyond[1], beyond[2]}), c.call[6], numbers({dilation[1], dilation[2]})});
    const Shape plain = of.value(y).sizes();
    y = permuted(of, reshaped(of, y, {sizes[0], sizes[2], plain[1], plain[2], plain[3]}), {0, 2, 1, 3, 4});
    // Zeros between the depths, before and behind.
    y = reshaped(of, y, {sizes[0], plain[1], sizes[2], 1, plain[2] * plain[3]});
    y = of.call("constant_pad_nd.default", {y, numbers({0, 0, 0, stride[0] - 1}), Value(0.0)});
    y = reshaped(of, y, {sizes[0], plain[1], sizes[2] * stride[0], plain[2], plain[3]});
    y = of.call("slice.Tensor", {y, Value(int64_t{2}), Value(int64_t{0}), Value(last + 1), Value(int64_t{1})});
    const int64_t before = k * dilation[0];
    y = of.call("constant_pad_nd.default", {y, numbers({0, 0, 0, 0, before, whole - last - 1 - before}), Value(0.0)});
    all = k == 0 ? y : of.call("add.Tensor", {all, y});
  }
  Term out = of.call("slice.Tensor",
                     {all, Value(int64_t{2}), Value(padding[0]), Value(whole - padding[0]), Value(int64_t{1})});
  if (!c.call.is_none(2))
    out = of.call("add.Tensor", {out, reshaped(of, of.argument(2), {1, c.x(2).size(0), 1, 1, 1})});
  return of.gradients(out);
}

// Time, batch, channels; the weight is [taps, channels in, channels out].
std::vector<Value> conv_tbc(const BackwardCall& c) {
  Composition of(c);
  const Term y = of.call("conv1d.default",
                         {permuted(of, of.argument(0), {1, 2, 0}), permuted(of, of.argument(1), {2, 1, 0}),
                          of.argument(2), numbers({1}), numbers({c.call.integer(3)}), numbers({1}), Value(int64_t{1})});
  return of.gradients(permuted(of, y, {2, 0, 1}));
}

}  // namespace

void add_window_backwards(std::vector<BackwardDef>& table) {
  const auto add = [&](std::string_view target, Backward backward) {
    table.push_back({target, backward, true, false});
  };
  for (const std::string_view target : {"max_pool3d.default", "max_pool3d_with_indices.default"})
    add(target, max_pool3d);
  add("max_pool1d_with_indices.default", max_pool1d);
  add("avg_pool3d.default", avg_pool3d);
  for (const std::string_view target : {"adaptive_avg_pool3d.default", "_adaptive_avg_pool3d.default"})
    add(target, adaptive_avg_pool3d);
  for (const std::string_view target :
       {"adaptive_max_pool1d.default", "adaptive_max_pool2d.default", "adaptive_max_pool3d.default"})
    add(target, adaptive_max_pool);
  for (const std::string_view target : {"upsample_linear1d.default", "upsample_linear1d.vec"})
    add(target, upsample_linear1d);
  add("conv_transpose3d.input", conv_transpose3d);
  add("conv_tbc.default", conv_tbc);
}

}  // namespace qdq
