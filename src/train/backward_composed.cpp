// Gradients of operators that others make up, as PyTorch 2.6 itself computes many of them.
#include <algorithm>
#include <cmath>

#include "base/stable_sort.h"
#include "op/elements.h"
#include "train/composition.h"

namespace qdq {
namespace {

using Term = Composition::Term;
using Terms = std::vector<Value>;

Value list_of(const Shape& values) {
  Value::List out;
  for (const int64_t value : values) out.emplace_back(value);
  return out;
}

Term times(Composition& of, Term a, double factor) { return of.call("mul.Scalar", {a, Value(factor)}); }
Term times(Composition& of, Term a, Term b) { return of.call("mul.Tensor", {a, b}); }
Term sum(Composition& of, Term a, Term b) { return of.call("add.Tensor", {a, b}); }
Term difference(Composition& of, Term a, Term b) { return of.call("sub.Tensor", {a, b}); }
Term shaped(Composition& of, Term a, const Shape& sizes) { return of.call("reshape.default", {a, list_of(sizes)}); }
Term summed(Composition& of, Term a, const Shape& axes) {
  return of.call("sum.dim_IntList", {a, list_of(axes), Value(false)});
}

// beta self + alpha (product), as addmv, addr, baddbmm and addbmm have it.
template <class Product> Terms added(const BackwardCall& c, const Product& product) {
  Composition of(c);
  const Term self = times(of, of.argument(0), c.call.number(3));
  const Term other = times(of, product(of, of.argument(1), of.argument(2)), c.call.number(4));
  return of.gradients(sum(of, self, other));
}
Term matrix_product(Composition& of, Term a, Term b) { return of.call("matmul.default", {a, b}); }
Term outer_product(Composition& of, Term a, Term b) {
  return times(of, of.call("unsqueeze.default", {a, Value(1)}), of.call("unsqueeze.default", {b, Value(0)}));
}

Terms two_matrices(const BackwardCall& c) {
  Composition of(c);
  return of.gradients(matrix_product(of, of.argument(0), of.argument(1)));
}
Terms outer(const BackwardCall& c) {
  Composition of(c);
  return of.gradients(outer_product(of, of.argument(0), of.argument(1)));
}
Terms vector_dot(const BackwardCall& c) {
  Composition of(c);
  const auto axis = static_cast<int64_t>(wrap_axis(c.call.integer(2), c.x(0).dim()));
  return of.gradients(summed(of, times(of, of.argument(0), of.argument(1)), {axis}));
}
// The last axes of both are summed.
Terms inner(const BackwardCall& c) {
  Composition of(c);
  const Term a = of.argument(0), b = of.argument(1);
  if (c.x(0).dim() == 0 || c.x(1).dim() == 0) return of.gradients(times(of, a, b));
  Shape rows = c.x(0).sizes(), columns = c.x(1).sizes(), sizes(rows.begin(), rows.end() - 1);
  sizes.insert(sizes.end(), columns.begin(), columns.end() - 1);
  const Term left = shaped(of, a, {-1, rows.back()}),
             right = of.call("t.default", {shaped(of, b, {-1, columns.back()})});
  return of.gradients(shaped(of, matrix_product(of, left, right), sizes));
}

// The gradient of an operand is the product of the result's and of the other one: "ij,jk->ik" gives "ik,jk->ij".
Terms einsum(const BackwardCall& c) {
  std::string equation = c.call.string(0);
  std::erase(equation, ' ');
  const std::vector<Tensor> operands = c.call.tensors(1);
  const size_t arrow = equation.find("->");
  std::vector<std::string> labels(1);
  for (const char letter : equation.substr(0, arrow))
    if (letter == ',') labels.emplace_back();
    else labels.back() += letter;
  QDQ_CHECK(arrow != std::string::npos && labels.size() == operands.size(), kUnsupported, c.call.op().target,
            " has a gradient for equations with a result only, found \"", equation, "\"");
  const std::string out = equation.substr(arrow + 2);
  for (std::string part : labels) {
    std::erase(part, '.');
    std::string once = part;
    sort_stably(once);
    QDQ_CHECK(std::unique(once.begin(), once.end()) == once.end(), kUnsupported, c.call.op().target,
              " has no gradient for a diagonal, as \"", equation, "\" has it");
  }
  const OpDef& op = c.call.op();
  Value::List grads;
  for (size_t k = 0; k < operands.size(); ++k) {
    std::string inputs = out, own;
    Value::List tensors{Value(contiguous_f32(c.g()))};
    for (size_t other = 0; other < operands.size(); ++other)
      if (other != k) {
        inputs += "," + labels[other];
        tensors.emplace_back(operands[other]);
      }
    Shape spread = operands[k].sizes(), narrow;
    const size_t dots = labels[k].find("...");
    const auto named = static_cast<int64_t>(labels[k].size()) - (dots == std::string::npos ? 0 : 3);
    int64_t axis = 0;
    for (size_t i = 0; i < labels[k].size(); ++i) {
      if (i == dots) {
        for (int64_t n = operands[k].dim() - named; n > 0; --n) narrow.push_back(spread[static_cast<size_t>(axis++)]);
        own += "...";
        i += 2;
        continue;
      }
      const bool is_known = inputs.find(labels[k][i]) != std::string::npos;
      narrow.push_back(is_known ? spread[static_cast<size_t>(axis)] : 1);
      if (is_known) own += labels[k][i];
      ++axis;
    }
    const Value grad = op.eval(Call<Tensor>(op, {Value(inputs + "->" + own), Value(std::move(tensors))}));
    // What only this operand has along an axis was summed, so all of it has one gradient; what was broadcast is summed.
    const Tensor& found = *grad.get_if<Tensor>();
    if (found.numel() != numel_of(narrow)) grads.emplace_back(sum_to_shape(found, spread));
    else grads.emplace_back(contiguous_f32(found.reshape(narrow).expand(spread)).clone());
  }
  return {Value(), Value(std::move(grads))};
}

Terms tensordot(const BackwardCall& c) {
  const auto wrapped = [&](size_t argument, int64_t rank) {
    std::vector<int64_t> axes = c.call.integers(argument);
    for (int64_t& axis : axes) axis = static_cast<int64_t>(wrap_axis(axis, rank));
    return axes;
  };
  const Shape &left = c.x(0).sizes(), &right = c.x(1).sizes();
  const std::vector<int64_t> of_left = wrapped(2, c.x(0).dim()), of_right = wrapped(3, c.x(1).dim());
  Shape order_left, order_right(of_right.begin(), of_right.end()), sizes;
  int64_t depth = 1;
  for (int64_t axis = 0; axis < c.x(0).dim(); ++axis)
    if (std::find(of_left.begin(), of_left.end(), axis) == of_left.end()) {
      order_left.push_back(axis);
      sizes.push_back(left[static_cast<size_t>(axis)]);
    }
  for (const int64_t axis : of_left) {
    order_left.push_back(axis);
    depth *= left[static_cast<size_t>(axis)];
  }
  for (int64_t axis = 0; axis < c.x(1).dim(); ++axis)
    if (std::find(of_right.begin(), of_right.end(), axis) == of_right.end()) {
      order_right.push_back(axis);
      sizes.push_back(right[static_cast<size_t>(axis)]);
    }
  Composition of(c);
  const Term a = shaped(of, of.call("permute.default", {of.argument(0), list_of(order_left)}), {-1, depth});
  const Term b = shaped(of, of.call("permute.default", {of.argument(1), list_of(order_right)}), {depth, -1});
  return of.gradients(shaped(of, matrix_product(of, a, b), sizes));
}

// x1 weight x2 + bias: [..., i], [o, i, j], [..., j] -> [..., o]
Terms bilinear(const BackwardCall& c) {
  Composition of(c);
  const Shape &sizes = c.x(0).sizes(), &weight = c.x(2).sizes();
  Shape result(sizes.begin(), sizes.end() - 1);
  result.push_back(weight[0]);
  const Term a = shaped(of, of.argument(0), {1, -1, weight[1]}), b = shaped(of, of.argument(1), {1, -1, weight[2]});
  const Term each = summed(of, times(of, matrix_product(of, a, of.argument(2)), b), {2});  // [o, rows]
  Term out = shaped(of, of.call("t.default", {each}), result);
  if (!c.call.is_none(3)) out = sum(of, out, of.argument(3));
  return of.gradients(out);
}

// Channels along axis 1, as a vector that lies so.
Term along_channels(Composition& of, size_t argument, int64_t rank) {
  Shape sizes(static_cast<size_t>(rank), 1);
  sizes[1] = of.of().x(argument).numel();
  return shaped(of, of.argument(argument), sizes);
}

// Every group of channels of every image by its own mean and variance.
Terms normalized_groups(const BackwardCall& c, const Tensor& grad, int64_t groups, size_t weight, size_t bias,
                        double eps) {
  Composition of(c);
  const Shape& sizes = c.x(0).sizes();
  const int64_t length = c.x(0).numel() / std::max<int64_t>(1, sizes[0] * groups);
  const Term rows = shaped(of, of.argument(0), {sizes[0] * groups, length});
  Term out = shaped(of, of.call("layer_norm.default", {rows, list_of({length}), Value(), Value(), Value(eps)}), sizes);
  if (!c.call.is_none(weight)) out = times(of, out, along_channels(of, weight, c.x(0).dim()));
  if (!c.call.is_none(bias)) out = sum(of, out, along_channels(of, bias, c.x(0).dim()));
  return of.gradients(out, grad);
}
Terms group_norm(const BackwardCall& c) {
  return normalized_groups(c, c.g(), c.call.integer(1), 2, 3, c.call.number(4));
}
Terms native_group_norm(const BackwardCall& c) {
  const Tensor* grad = c.grad.get_if<Value::List>()->at(0).get_if<Tensor>();
  QDQ_CHECK(grad != nullptr, kUnsupported, c.call.op().target, " has a gradient for its first result only");
  return normalized_groups(c, *grad, c.call.integer(6), 1, 2, c.call.number(7));
}
Terms instance_norm(const BackwardCall& c) {
  if (c.call.boolean(5)) return normalized_groups(c, c.g(), c.x(0).size(1), 1, 2, c.call.number(7));
  Composition of(c);
  const auto optional = [&](size_t i) { return c.call.is_none(i) ? Composition::Operand(Value()) : of.argument(i); };
  return of.gradients(of.call("batch_norm.default", {of.argument(0), optional(1), optional(2), optional(3), optional(4),
                                                     Value(false), Value(0.1), c.call[7], Value(false)}));
}

// x / sqrt(mean(x^2) + eps) * weight over the last axes.
Terms rms_norm(const BackwardCall& c) {
  Composition of(c);
  Shape axes;
  for (size_t i = 0; i < c.call.integers(1).size(); ++i) axes.push_back(-1 - static_cast<int64_t>(i));
  const Term x = of.argument(0);
  const Term mean = of.call("mean.dim", {of.call("square.default", {x}), list_of(axes), Value(true)});
  const double eps = c.call.is_none(3) ? rms_norm_eps(DType::kF32) : c.call.number(3);
  Term out = times(of, x, of.call("rsqrt.default", {of.call("add.Scalar", {mean, Value(eps)})}));
  if (!c.call.is_none(2)) out = times(of, out, of.argument(2));
  return of.gradients(out);
}

Term length_of(Composition& of, Term x, double p, int64_t axis, bool keep) {
  return of.call("linalg_vector_norm.default", {x, Value(p), list_of({axis}), Value(keep)});
}

Terms cosine_similarity(const BackwardCall& c) {
  Composition of(c);
  const Term a = of.argument(0), b = of.argument(1);
  const int64_t axis = c.call.integer(2);
  const auto unit = [&](Term x) {
    const Term length = length_of(of, x, 2, axis, true);
    return of.call("div.Tensor", {x, of.call("clamp_min.default", {length, c.call[3]})});
  };
  return of.gradients(summed(of, times(of, unit(a), unit(b)), {axis}));
}
Terms pairwise_distance(const BackwardCall& c) {
  Composition of(c);
  const Term apart = of.call("add.Scalar", {difference(of, of.argument(0), of.argument(1)), c.call[3]});
  return of.gradients(length_of(of, apart, c.call.number(2), -1, c.call.boolean(4)));
}
Terms dist(const BackwardCall& c) {
  Composition of(c);
  return of.gradients(of.call("norm.Scalar", {difference(of, of.argument(0), of.argument(1)), c.call[2]}));
}
Terms cdist(const BackwardCall& c) {
  Composition of(c);
  const Term apart = difference(of, of.call("unsqueeze.default", {of.argument(0), Value(-2)}),
                                of.call("unsqueeze.default", {of.argument(1), Value(-3)}));
  return of.gradients(length_of(of, apart, c.call.number(2), -1, false));
}
Terms linalg_norm(const BackwardCall& c) {
  const bool is_matrix =
      !c.call.is_none(1) && (c.call.is_none(2) ? c.x(0).dim() : static_cast<int64_t>(c.call.integers(2).size())) == 2;
  QDQ_CHECK(!is_matrix, kUnsupported, c.call.op().target, " has a gradient for norms of vectors only");
  Composition of(c);
  return of.gradients(of.call("linalg_vector_norm.default",
                              {of.argument(0), c.call.is_none(1) ? Value(2.0) : c.call[1], c.call[2], c.call[3]}));
}

// weight g / |v|, the norm over all axes but one.
Terms weight_norm(const BackwardCall& c) {
  Composition of(c);
  Shape axes;
  for (int64_t axis = 0; axis < c.x(0).dim(); ++axis)
    if (c.call.integer(2) == -1 || axis != static_cast<int64_t>(wrap_axis(c.call.integer(2), c.x(0).dim())))
      axes.push_back(axis);
  const Term v = of.argument(0), g = of.argument(1);
  const Term length = of.call("linalg_vector_norm.default", {v, Value(2.0), list_of(axes), Value(true)});
  const Term weight = times(of, v, of.call("div.Tensor", {g, length}));
  if (const Tensor* grad = c.grad.get_if<Tensor>()) return of.gradients(weight, *grad);
  const Tensor* grad = c.grad.get_if<Value::List>()->at(0).get_if<Tensor>();
  QDQ_CHECK(grad != nullptr, kUnsupported, c.call.op().target, " has a gradient for its first result only");
  return of.gradients(weight, *grad);
}

// The loss of every element, and what the argument `reduction` makes of all: 0 none, 1 mean, 2 sum.
Term reduced(Composition& of, Term each, int64_t reduction) {
  if (reduction == 1) return of.call("mean.default", {each});
  return reduction == 2 ? of.call("sum.default", {each}) : each;
}
Terms mse_loss(const BackwardCall& c) {
  Composition of(c);
  const Term apart = difference(of, of.argument(0), of.argument(1));
  return of.gradients(reduced(of, of.call("square.default", {apart}), c.call.integer(2)));
}
Terms l1_loss(const BackwardCall& c) {
  Composition of(c);
  const Term apart = difference(of, of.argument(0), of.argument(1));
  return of.gradients(reduced(of, of.call("abs.default", {apart}), c.call.integer(2)));
}
// Half the square up to a width, and straight lines beyond: m (|x| - m / 2) for m = min(|x|, width).
Terms bent_loss(const BackwardCall& c) {
  Composition of(c);
  const double width = c.call.number(3);
  const Term size = of.call("abs.default", {difference(of, of.argument(0), of.argument(1))});
  const bool is_smooth = c.call.op().target.find("smooth_l1") != std::string::npos;
  if (is_smooth && width == 0) return of.gradients(reduced(of, size, c.call.integer(2)));
  const Term near = of.call("clamp_max.default", {size, Value(width)});
  const Term each = times(of, near, difference(of, size, times(of, near, 0.5)));
  return of.gradients(reduced(of, is_smooth ? times(of, each, 1 / width) : each, c.call.integer(2)));
}

// Convolutions that say their padding in words: "valid" is none; "same" has as many outputs as inputs, the odd one
// behind.
Terms padded_convolution(const BackwardCall& c) {
  const Tensor& weight = c.x(1);
  const auto axes = static_cast<size_t>(weight.dim() - 2);
  const std::vector<int64_t> dilation = c.call.integers(5, axes);
  Shape pads;
  for (size_t i = axes; i-- > 0;) {
    const int64_t all = c.call.string(4) == "same" ? dilation[i] * (weight.size(static_cast<int64_t>(i) + 2) - 1) : 0;
    pads.insert(pads.end(), {all / 2, all - all / 2});
  }
  Composition of(c);
  const Term x = of.call("constant_pad_nd.default", {of.argument(0), list_of(pads), Value(0.0)});
  const Composition::Operand bias = c.call.is_none(2) ? Composition::Operand(Value()) : of.argument(2);
  const std::string op = concat("conv", axes, "d.default");
  return of.gradients(of.call(op, {x, of.argument(1), bias, c.call[3], list_of(Shape(axes, 0)), c.call[5], c.call[6]}));
}

// The sum of the planes of a filter in three axes, each as a convolution in two over the images that it meets.
Terms convolution3d(const BackwardCall& c) {
  Composition of(c);
  const std::vector<int64_t> stride = c.call.integers(3, 3), padding = c.call.integers(4, 3),
                             dilation = c.call.integers(5, 3);
  QDQ_CHECK(c.x(0).dim() == 5, kUnsupported, c.call.op().target, " has a gradient for batches only");
  const Shape pads{padding[2], padding[2], padding[1], padding[1], padding[0], padding[0]};
  const Term x = of.call("constant_pad_nd.default", {of.argument(0), list_of(pads), Value(0.0)}),
             weight = of.argument(1);
  const Shape sizes = of.value(x).sizes();
  const int64_t depth = c.x(1).size(2), steps = (sizes[2] - dilation[0] * (depth - 1) - 1) / stride[0] + 1;
  Term all;
  for (int64_t k = 0; k < depth; ++k) {
    const int64_t begin = k * dilation[0];
    const Term met = of.call("slice.Tensor",
                             {x, Value(2), Value(begin), Value(begin + (steps - 1) * stride[0] + 1), Value(stride[0])});
    const Term images = shaped(of, of.call("permute.default", {met, list_of({0, 2, 1, 3, 4})}),
                               {sizes[0] * steps, sizes[1], sizes[3], sizes[4]});
    const Term plane = of.call("conv2d.default", {images, of.call("select.int", {weight, Value(2), Value(k)}), Value(),
                                                  list_of({stride[1], stride[2]}), list_of({0, 0}),
                                                  list_of({dilation[1], dilation[2]}), c.call[6]});
    all = k == 0 ? plane : sum(of, all, plane);
  }
  const Shape planes = of.value(all).sizes();
  Term out = of.call("permute.default",
                     {shaped(of, all, {sizes[0], steps, planes[1], planes[2], planes[3]}), list_of({0, 2, 1, 3, 4})});
  if (!c.call.is_none(2)) out = sum(of, out, along_channels(of, 2, 5));
  return of.gradients(out);
}

// Layers of recurrent cells, forward in time and, if asked, backward too.
enum class Cell { kLstm, kGru, kTanh, kRelu };

Term gate_sum(Composition& of, Term x, Term weight, const Term* bias) {
  return of.call("linear.default", {x, weight, bias ? Composition::Operand(*bias) : Composition::Operand(Value())});
}
Term gate(Composition& of, Term gates, int64_t index, int64_t size) {
  return of.call("slice.Tensor", {gates, Value(1), Value(index * size), Value((index + 1) * size), Value(1)});
}

// The next hidden state, and of an LSTM the next cell state too.
void step(Composition& of, Cell cell, Term from_input, Term from_hidden, Term& hidden, Term& memory) {
  const int64_t size = of.value(hidden).size(1);
  const auto sigmoid = [&](Term x) { return of.call("sigmoid.default", {x}); };
  const auto tanh = [&](Term x) { return of.call("tanh.default", {x}); };
  if (cell == Cell::kTanh || cell == Cell::kRelu) {
    const Term x = sum(of, from_input, from_hidden);
    hidden = cell == Cell::kTanh ? tanh(x) : of.call("relu.default", {x});
  } else if (cell == Cell::kLstm) {
    const Term gates = sum(of, from_input, from_hidden);
    const Term in = sigmoid(gate(of, gates, 0, size)), forget = sigmoid(gate(of, gates, 1, size)),
               seen = tanh(gate(of, gates, 2, size)), out = sigmoid(gate(of, gates, 3, size));
    memory = sum(of, times(of, forget, memory), times(of, in, seen));
    hidden = times(of, out, tanh(memory));
  } else {
    const auto both = [&](int64_t i) { return sum(of, gate(of, from_input, i, size), gate(of, from_hidden, i, size)); };
    const Term reset = sigmoid(both(0)), update = sigmoid(both(1));
    const Term fresh = tanh(sum(of, gate(of, from_input, 2, size), times(of, reset, gate(of, from_hidden, 2, size))));
    hidden = sum(of, fresh, times(of, update, difference(of, hidden, fresh)));
  }
}

// One step of a layer: gru_cell(input, hidden, w_in, w_hidden, b_in, b_hidden), and so on.
template <Cell cell> Terms one_step(const BackwardCall& c) {
  constexpr bool kHasMemory = cell == Cell::kLstm;
  Composition of(c);
  const Term x = of.argument(0), w_in = of.argument(2), w_hidden = of.argument(3);
  std::vector<Term> biases;
  if (!c.call.is_none(4)) biases = {of.argument(4), of.argument(5)};
  Term hidden = kHasMemory ? of.argument(1, 0) : of.argument(1), memory = kHasMemory ? of.argument(1, 1) : hidden;
  step(of, cell, gate_sum(of, x, w_in, biases.empty() ? nullptr : &biases[0]),
       gate_sum(of, hidden, w_hidden, biases.empty() ? nullptr : &biases[1]), hidden, memory);
  if (!kHasMemory) return of.gradients(hidden);
  std::vector<Tensor> grads(2);
  const Value::List& given = *c.grad.get_if<Value::List>();
  for (size_t i = 0; i < 2; ++i)
    if (const Tensor* grad = given.at(i).get_if<Tensor>()) grads[i] = contiguous_f32(*grad);
  return of.gradients({hidden, memory}, grads);
}

template <Cell cell> Terms recurrent(const BackwardCall& c) {
  QDQ_CHECK(c.call.number(5) == 0 || !c.call.boolean(6), kUnsupported, c.call.op().target,
            " has no gradient with dropout between its layers; export the model with dropout = 0");
  const bool has_biases = c.call.boolean(3), both_ways = c.call.boolean(7), batch_first = c.call.boolean(8);
  const int64_t layers = c.call.integer(4), directions = both_ways ? 2 : 1;
  QDQ_CHECK(c.call.tensors(2).size() == static_cast<size_t>(layers * directions * (has_biases ? 4 : 2)), kUnsupported,
            c.call.op().target, " has no gradient with projections (proj_size)");
  Composition of(c);
  Term x = of.argument(0);
  if (batch_first) x = of.call("transpose.int", {x, Value(0), Value(1)});
  const int64_t steps = of.value(x).size(0);
  QDQ_CHECK(of.value(x).dim() == 3, kUnsupported, c.call.op().target, " has a gradient for batches only");
  // An LSTM's states are a list of two, others' one tensor.
  constexpr bool kHasMemory = cell == Cell::kLstm;
  const Term hiddens = kHasMemory ? of.argument(1, 0) : of.argument(1),
             memories = kHasMemory ? of.argument(1, 1) : hiddens;
  std::vector<Term> last_hidden, last_memory;
  size_t next = 0;
  for (int64_t layer = 0; layer < layers; ++layer) {
    std::vector<std::vector<Term>> outputs(static_cast<size_t>(directions));
    for (int64_t direction = 0; direction < directions; ++direction) {
      const Term w_in = of.argument(2, next++), w_hidden = of.argument(2, next++);
      std::vector<Term> biases;
      if (has_biases) biases = {of.argument(2, next), of.argument(2, next + 1)}, next += 2;
      const int64_t state = layer * directions + direction;
      Term hidden = of.call("select.int", {hiddens, Value(0), Value(state)}), memory = hidden;
      if (kHasMemory) memory = of.call("select.int", {memories, Value(0), Value(state)});
      const Term all = gate_sum(of, x, w_in, has_biases ? &biases[0] : nullptr);
      std::vector<Term>& line = outputs[static_cast<size_t>(direction)];
      line.resize(static_cast<size_t>(steps));
      for (int64_t n = 0; n < steps; ++n) {
        const int64_t at = direction == 0 ? n : steps - 1 - n;
        const Term now = of.call("select.int", {all, Value(0), Value(at)});
        step(of, cell, now, gate_sum(of, hidden, w_hidden, has_biases ? &biases[1] : nullptr), hidden, memory);
        line[static_cast<size_t>(at)] = hidden;
      }
      last_hidden.push_back(hidden);
      last_memory.push_back(memory);
    }
    std::vector<Term> rows;
    for (int64_t n = 0; n < steps; ++n) {
      const auto at = static_cast<size_t>(n);
      rows.push_back(both_ways ? of.call("cat.default", {std::vector<Term>{outputs[0][at], outputs[1][at]}, Value(1)})
                               : outputs[0][at]);
    }
    x = of.call("stack.default", {rows, Value(0)});
  }
  if (batch_first) x = of.call("transpose.int", {x, Value(0), Value(1)});
  std::vector<Term> results{x, of.call("stack.default", {last_hidden, Value(0)})};
  if (kHasMemory) results.push_back(of.call("stack.default", {last_memory, Value(0)}));
  std::vector<Tensor> grads(results.size());
  const Value::List& given = *c.grad.get_if<Value::List>();
  for (size_t i = 0; i < grads.size(); ++i)
    if (const Tensor* grad = given.at(i).get_if<Tensor>()) grads[i] = contiguous_f32(*grad);
  return of.gradients(results, grads);
}

}  // namespace

void add_composed_backwards(std::vector<BackwardDef>& table) {
  const auto add = [&](std::string_view target, Backward backward) {
    table.push_back({target, backward, true, false});
  };
  for (const std::string_view target : {"mv.default", "dot.default", "vdot.default"}) add(target, two_matrices);
  for (const std::string_view target : {"outer.default", "ger.default"}) add(target, outer);
  add("linalg_vecdot.default", vector_dot);
  add("inner.default", inner);
  add("trace.default", [](const BackwardCall& c) {
    Composition of(c);
    return of.gradients(of.call("sum.default", {of.call("diagonal.default", {of.argument(0)})}));
  });
  add("einsum.default", einsum);
  add("tensordot.default", tensordot);
  add("bilinear.default", bilinear);
  add("addmv.default", [](const BackwardCall& c) { return added(c, matrix_product); });
  add("baddbmm.default", [](const BackwardCall& c) { return added(c, matrix_product); });
  add("addr.default", [](const BackwardCall& c) { return added(c, outer_product); });
  add("addbmm.default", [](const BackwardCall& c) {
    return added(c, [](Composition& of, Term a, Term b) { return summed(of, matrix_product(of, a, b), {0}); });
  });
  add("group_norm.default", group_norm);
  add("native_group_norm.default", native_group_norm);
  add("instance_norm.default", instance_norm);
  add("rms_norm.default", rms_norm);
  add("cosine_similarity.default", cosine_similarity);
  add("pairwise_distance.default", pairwise_distance);
  add("dist.default", dist);
  for (const std::string_view target : {"cdist.default", "_cdist_forward.default"}) add(target, cdist);
  add("linalg_norm.default", linalg_norm);
  for (const std::string_view target : {"_weight_norm.default", "_weight_norm_interface.default"})
    add(target, weight_norm);
  add("mse_loss.default", mse_loss);
  add("l1_loss.default", l1_loss);
  for (const std::string_view target : {"huber_loss.default", "smooth_l1_loss.default"}) add(target, bent_loss);
  for (const std::string_view target : {"conv1d.padding", "conv2d.padding", "conv3d.padding"})
    add(target, padded_convolution);
  add("conv3d.default", convolution3d);
  add("lstm.input", recurrent<Cell::kLstm>);
  add("gru.input", recurrent<Cell::kGru>);
  add("lstm_cell.default", one_step<Cell::kLstm>);
  add("gru_cell.default", one_step<Cell::kGru>);
  add("rnn_tanh_cell.default", one_step<Cell::kTanh>);
  add("rnn_relu_cell.default", one_step<Cell::kRelu>);
  add("rnn_tanh.input", recurrent<Cell::kTanh>);
  add("rnn_relu.input", recurrent<Cell::kRelu>);
}

}  // namespace qdq
