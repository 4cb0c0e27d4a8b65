// ATen operators that ONNX does not have, spelled out in those that it has: of elements, reductions, products.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "io/onnx/formula.h"

namespace qdq {
namespace {

int64_t rank_of(AtenCall& call, size_t i) { return static_cast<int64_t>(call.rank(i)); }

// --- elements

// (self, tensor1, tensor2, value): self + value * tensor1 * tensor2, or tensor1 / tensor2
void add_combined(AtenCall& call) {
  const Formula f(call);
  const std::string part = f.op(call.begins("addcmul") ? "Mul" : "Div", {f.operand(1), f.operand(2)});
  call.finish("Add", {f.operand(0), f.mul(part, call.number(3))});
}

void interpolate(AtenCall& call) {
  const Formula f(call);
  const std::string from = f.operand(0);
  call.finish("Add", {from, f.mul(f.operand(2), f.sub(f.operand(1), from))});
}

// Near 0 the plain formula loses what 1 + x rounds away.
void log1p(AtenCall& call) {
  const Formula f(call);
  const std::string x = f.operand(0);
  const std::string near = f.mul(f.op("Atanh", {f.div(x, f.add(x, 2))}), 2);
  call.finish("Where", {f.op("Less", {f.op("Abs", {x}), f.number(0.5)}), near, f.op("Log", {f.add(x, 1)})});
}
// tanh(x / 2) * (e^x + 1)
void expm1(AtenCall& call) {
  const Formula f(call);
  const std::string x = f.operand(0);
  call.finish("Mul", {f.op("Tanh", {f.mul(x, 0.5)}), f.add(f.op("Exp", {x}), 1)});
}
void logarithm(AtenCall& call) {
  const Formula f(call);
  call.finish(
      "Mul", {f.op("Log", {f.operand(0)}), f.number(call.begins("log2") ? std::numbers::log2e : std::numbers::log10e)});
}
void exp2(AtenCall& call) {
  const Formula f(call);
  call.finish("Pow", {f.number(2), f.operand(0)});
}
void erfc(AtenCall& call) {
  const Formula f(call);
  call.finish("Sub", {f.number(1), f.op("Erf", {f.operand(0)})});
}

std::string truncated(const Formula& f, const std::string& x) {
  return f.mul(f.op("Sign", {x}), f.op("Floor", {f.op("Abs", {x})}));
}
void truncate(AtenCall& call) {
  const Formula f(call);
  if (is_integral(call.result().dtype)) return call.same_as(call.tensor(0));
  f.finish(truncated(f, f.operand(0)));
}
void fraction(AtenCall& call) {
  const Formula f(call);
  call.finish("Sub", {f.operand(0), truncated(f, f.operand(0))});
}
// Integers are what they are rounded to, and ONNX rounds floats alone.
void round_to_whole(AtenCall& call) {
  if (is_integral(call.result().dtype)) return call.same_as(call.tensor(0));
  call.finish(call.begins("floor") ? "Floor" : call.begins("ceil") ? "Ceil" : "Round", {call.tensor(0)});
}
void round_decimals(AtenCall& call) {
  const Formula f(call);
  const double ten = std::pow(10.0, std::abs(static_cast<double>(call.integer(1))));
  const bool is_down = call.integer(1) < 0;
  const std::string scaled = f.op(is_down ? "Div" : "Mul", {f.operand(0), f.number(ten)});
  call.finish(is_down ? "Mul" : "Div", {f.op("Round", {scaled}), f.number(ten)});
}

void is_finite(AtenCall& call) {
  const DType dtype = call.meta(0).dtype;
  if (!is_floating(dtype)) return call.finish("Equal", {call.tensor(0), call.tensor(0)});
  const std::string x = call.tensor(0);
  call.finish("Not", {call.emit("Or", {call.emit("IsInf", {x}), call.emit("IsNaN", {x})})});
}
void is_signed_infinity(AtenCall& call) {
  const DType dtype = call.meta(0).dtype;
  const bool is_positive = call.begins("isposinf");
  call.finish("IsInf", {call.operand(0, is_floating(dtype) ? dtype : DType::kF32)},
              {"detect_negative", !is_positive, "detect_positive", is_positive});
}

void float_power(AtenCall& call) {
  const Formula f(call);
  call.finish("Pow", {f.operand(0), f.operand(1)});
}

void atan2(AtenCall& call) {
  const Formula f(call);
  f.finish(angle_of(f, f.operand(0), f.operand(1)));
}
// By the larger one, whose square may be none.
void hypotenuse(AtenCall& call) {
  const Formula f(call);
  const std::string a = f.op("Abs", {f.operand(0)}), b = f.op("Abs", {f.operand(1)});
  const std::string more = f.op("Max", {a, b}), share = f.div(f.op("Min", {a, b}), more);
  const std::string root = f.op("Sqrt", {f.add(f.mul(share, share), 1)});
  const std::string end = f.number(kInfinity);
  const std::string is_end = f.op("Or", {f.op("Equal", {a, end}), f.op("Equal", {b, end})});
  const std::string finite = f.where(f.op("Equal", {more, f.number(0)}), more, f.mul(more, root));
  call.finish("Where", {is_end, end, finite});
}
// max + log(1 + e^-|a - b|); equal ones may be infinite.
void log_add_exp(AtenCall& call) {
  const Formula f(call);
  const std::string a = f.operand(0), b = f.operand(1);
  const std::string apart = f.op("Neg", {f.op("Abs", {f.sub(a, b)})});
  const std::string sum = f.add(f.op("Max", {a, b}), f.op("Softplus", {apart}));
  call.finish("Where", {f.op("Equal", {a, b}), f.add(a, std::numbers::ln2), sum});
}
void log_sigmoid(AtenCall& call) {
  const Formula f(call);
  call.finish("Neg", {f.op("Softplus", {f.op("Neg", {f.operand(0)})})});
}
void logit(AtenCall& call) {
  const Formula f(call);
  std::string x = f.operand(0);
  if (!call.is_none(1)) x = f.op("Clip", {x, f.number(call.number(1)), f.number(1 - call.number(1))});
  call.finish("Log", {f.div(x, f.sub(f.number(1), x))});
}
void soft_shrink(AtenCall& call) {
  const std::string x = call.tensor(0);
  const std::string shrunk = call.emit("Shrink", {x}, {"bias", call.number(1), "lambd", call.number(1)});
  call.finish("Where", {call.emit("IsNaN", {x}), x, shrunk});
}
void gated_linear_unit(AtenCall& call) {
  const int64_t axis = call.axis(1, call.rank(0));
  const auto half = call.result().sizes[static_cast<size_t>(axis)].constant();
  if (!half) call.refuse("divides an axis whose size is open");
  const std::string first = call.file().fresh(call.node().name() + "_part"),
                    second = call.file().fresh(call.node().name() + "_part");
  call.file().emit_many("Split", {call.tensor(0), call.integers_as_tensor({*half, *half})}, {"axis", axis},
                        {first, second});
  call.finish("Mul", {first, call.emit("Sigmoid", {second})});
}
void leaky_between(AtenCall& call) {
  if (call.flag(3)) call.refuse("is in training mode; export the model in inference mode");
  call.finish("LeakyRelu", {call.tensor(0)}, {"alpha", (call.number(1) + call.number(2)) / 2});
}
void change_unit(AtenCall& call) {
  const Formula f(call);
  const double factor = std::numbers::pi / 180;
  call.finish("Mul", {f.operand(0), f.number(call.begins("deg2rad") ? factor : 1 / factor)});
}
void sinc(AtenCall& call) {
  const Formula f(call);
  const std::string x = f.mul(f.operand(0), std::numbers::pi);
  call.finish("Where", {f.op("Equal", {x, f.number(0)}), f.number(1), f.div(f.op("Sin", {x}), x)});
}
// NaN counts only where both are.
void ignore_nan(AtenCall& call) {
  const Formula f(call);
  const std::string a = f.operand(0), b = f.operand(1);
  const std::string chosen = f.op(call.begins("fmax") ? "Max" : "Min", {a, b});
  if (!is_floating(call.result().dtype)) return f.finish(chosen);
  call.finish("Where", {f.op("IsNaN", {a}), b, f.where(f.op("IsNaN", {b}), a, chosen)});
}
void nan_to_num(AtenCall& call) {
  const Formula f(call);
  const DType dtype = call.result().dtype;
  if (!is_floating(dtype)) return call.same_as(call.tensor(0));
  const double most = dtype == DType::kF16   ? 65504
                      : dtype == DType::kF64 ? std::numeric_limits<double>::max()
                                             : std::numeric_limits<float>::max();
  const auto number = [&](size_t i, double otherwise) {
    return f.number(call.is_none(i) ? otherwise : call.number(i));
  };
  std::string x = f.operand(0);
  x = f.where(f.op("IsNaN", {x}), number(1, 0), x);
  x = f.where(f.op("Equal", {x, f.number(kInfinity)}), number(2, most), x);
  call.finish("Where", {f.op("Equal", {x, f.number(-kInfinity)}), number(3, -most), x});
}
void heaviside(AtenCall& call) {
  const Formula f(call);
  const std::string x = f.operand(0), zero = f.number(0);
  const std::string step = f.where(f.op("Greater", {x, zero}), f.number(1), zero);
  call.finish("Where", {f.op("Equal", {x, zero}), f.operand(1), step});
}
// self * log(other), and 0 where self is.
void x_log_y(AtenCall& call) {
  const Formula f(call);
  const std::string x = f.operand(0), y = f.operand(1);
  const std::string known = f.where(f.op("IsNaN", {y}), y, f.number(0));
  call.finish("Where", {f.op("Equal", {x, f.number(0)}), known, f.mul(x, f.op("Log", {y}))});
}
void times_power_of_two(AtenCall& call) {
  const Formula f(call);
  call.finish("Mul", {f.operand(0), f.op("Pow", {f.number(2), f.operand(1)})});
}
void bound_by_tensor(AtenCall& call) {
  const Formula f(call);
  call.finish(call.begins("clamp_max") ? "Min" : "Max", {f.operand(0), f.operand(1)});
}
// Of the whole axis: softmax, but 0 where all is minus infinity.
void safe_softmax(AtenCall& call) {
  const Formula f(call);
  const int64_t axis = call.axis(1, call.rank(0));
  const std::string x = f.operand(0);
  const std::string is_empty = f.op("Equal", {f.reduce("ReduceMax", x, {axis}, true), f.number(-kInfinity)});
  call.finish("Where", {is_empty, f.number(0), call.emit("Softmax", {x}, {"axis", axis})});
}

// --- reductions

// How many elements the axes have, as a float.
std::string count_of(AtenCall& call, const std::vector<int64_t>& axes, DType dtype) {
  double count = 1;
  for (const int64_t axis : axes) {
    const auto size = call.meta(0).sizes[static_cast<size_t>(axis)].constant();
    if (!size) {
      const std::string sizes =
          call.emit("Gather", {call.emit("Shape", {call.tensor(0)}), call.integers_as_tensor(axes)}, {"axis", 0});
      return call.cast(call.emit("ReduceProd", {sizes}, {"keepdims", 0}), DType::kS64, dtype);
    }
    count *= static_cast<double>(*size);
  }
  return call.scalar(count, dtype);
}

// var, std and those with the mean: (self, dim, unbiased or correction, keepdim); of everything (self, unbiased)
void deviation(AtenCall& call) {
  const std::string name = call.name();
  const bool is_whole = name.ends_with(".default"), has_mean = name.find("_mean") != std::string::npos;
  const DType dtype = call.meta(0).dtype;
  const Formula f(call, dtype);
  const std::vector<int64_t> axes = is_whole ? call.axes(99, call.rank(0)) : call.axes(1, call.rank(0));
  const size_t at = is_whole ? 1 : 2;
  const double correction = call.is_none(at) ? 1 : call.number(at);
  const bool keeps = !is_whole && call.flag(3);
  const std::string x = f.operand(0);
  if (axes.empty()) call.refuse("is of a tensor without axes");
  const std::string apart = f.sub(x, f.reduce("ReduceMean", x, axes, true));
  const std::string sum = f.reduce("ReduceSum", f.mul(apart, apart), axes, keeps);
  const std::string count = f.op("Max", {f.sub(count_of(call, axes, dtype), f.number(correction)), f.number(0)});
  std::string out = f.div(sum, count);
  if (name.starts_with("std")) out = f.op("Sqrt", {out});
  if (!has_mean) return f.finish(out);
  const std::vector<std::string> names = call.name_results(2);
  call.file().emit("Identity", {out}, {}, names[0]);
  call.file().emit("Identity", {f.reduce("ReduceMean", x, axes, keeps)}, {}, names[1]);
}

// max.dim, min.dim: (self, dim, keepdim): the values, and where they stand.
void extreme(AtenCall& call) {
  const bool is_max = call.begins("max");
  const int64_t axis = call.axis(1, call.rank(0));
  const DType own = call.meta(0).dtype, dtype = own == DType::kBool ? DType::kU8 : own;
  const std::string x = call.cast(call.tensor(0), own, dtype);
  const std::vector<std::string> names = call.name_results(2);
  if (call.rank(0) == 0) {
    call.file().emit("Identity", {call.tensor(0)}, {}, names[0]);
    call.file().emit("Identity", {call.scalar(0, DType::kS64)}, {}, names[1]);
    return;
  }
  const std::string found = call.reduce(is_max ? "ReduceMax" : "ReduceMin", x, {axis}, call.flag(2));
  call.file().emit("Identity", {call.cast(found, dtype, own)}, {}, names[0]);
  call.file().emit(is_max ? "ArgMax" : "ArgMin", {x}, {"axis", axis, "keepdims", call.flag(2)}, names[1]);
}

// (self, *, dim, keepdim): both ends.
void both_extremes(AtenCall& call) {
  const std::vector<int64_t> axes =
      call.is_none(1) ? call.axes(99, call.rank(0)) : std::vector<int64_t>{call.axis(1, call.rank(0))};
  const std::vector<std::string> names = call.name_results(2);
  for (const size_t i : {size_t{0}, size_t{1}})
    call.file().emit("Identity", {call.reduce(i == 0 ? "ReduceMin" : "ReduceMax", call.tensor(0), axes, call.flag(2))},
                     {}, names[i]);
}

// The norm of some order over axes.
std::string norm_of(const Formula& f, const std::string& x, double order, const std::vector<int64_t>& axes,
                    bool keeps) {
  if (order == 1) return f.reduce("ReduceL1", x, axes, keeps);
  if (order == 2) return f.reduce("ReduceL2", x, axes, keeps);
  const std::string size = f.op("Abs", {x});
  if (std::isinf(order)) return f.reduce(order > 0 ? "ReduceMax" : "ReduceMin", size, axes, keeps);
  if (order == 0) {
    const std::string counts = f.where(f.op("Equal", {x, f.number(0)}), f.number(0), f.number(1));
    return f.reduce("ReduceSum", counts, axes, keeps);
  }
  const std::string sum = f.reduce("ReduceSum", f.op("Pow", {size, f.number(order)}), axes, keeps);
  return f.op("Pow", {sum, f.number(1 / order)});
}

// norm.Scalar: (self, p); norm.ScalarOpt_dim, linalg_norm, linalg_vector_norm: (self, p, dim, keepdim, dtype);
// norm.ScalarOpt_dtype: (self, p, dtype); frobenius_norm.dim: (self, dim, keepdim)
void norm(AtenCall& call) {
  const Formula f(call);
  const std::string name = call.name();
  const bool is_frobenius = name.starts_with("frobenius");
  const size_t dim = is_frobenius ? 1 : 2;
  const bool has_axes = name != "norm.Scalar" && name != "norm.ScalarOpt_dtype" && !call.is_none(dim);
  if (name == "linalg_norm.default" && !call.is_none(1) && call.rank(0) != 1)
    call.refuse("is a norm of matrices, which ONNX does not have");
  const double order = is_frobenius || call.is_none(1) ? 2 : call.number(1);
  const std::vector<int64_t> axes = has_axes ? call.axes(dim, call.rank(0)) : call.axes(99, call.rank(0));
  f.finish(norm_of(f, f.operand(0), order, axes, has_axes && call.flag(dim + 1)));
}

// (x1, x2, p, eps, keepdim), (self, other, p)
void distance(AtenCall& call) {
  const Formula f(call);
  const std::string apart = f.sub(f.operand(0), f.operand(1));
  if (call.begins("dist."))
    return f.finish(norm_of(f, apart, call.number(2),
                            call.axes(99, broadcast_shapes(call.meta(0).sizes, call.meta(1).sizes).size()), false));
  f.finish(norm_of(f, f.add(apart, call.number(3)), call.number(2), {-1}, call.flag(4)));
}
// (x1, x2, p, compute_mode): all rows of one with all of the other. ONNX Runtime has an operator for two matrices.
void distances(AtenCall& call) {
  if (call.number(2) == 2 && call.rank(0) == 2 && call.rank(1) == 2)
    return call.finish("com.microsoft.CDist", {call.tensor(0), call.tensor(1)}, {"metric", "euclidean"});
  const Formula f(call);
  const std::string apart = f.sub(f.unsqueeze(f.operand(0), {-2}), f.unsqueeze(f.operand(1), {-3}));
  f.finish(norm_of(f, apart, call.number(2), {-1}, false));
}
// (x1, x2, dim, eps)
void cosine_similarity(AtenCall& call) {
  const Formula f(call);
  const int64_t rank = std::max(rank_of(call, 0), rank_of(call, 1)), axis = call.axis(2, static_cast<size_t>(rank));
  if (call.rank(0) != call.rank(1)) call.refuse("compares tensors of different numbers of axes");
  const std::string a = f.operand(0), b = f.operand(1);
  const auto length = [&](const std::string& x) {
    return f.op("Max", {f.reduce("ReduceL2", x, {axis}, true), f.number(call.number(3))});
  };
  f.finish(f.reduce("ReduceSum", f.mul(f.div(a, length(a)), f.div(b, length(b))), {axis}, false));
}

void count_nonzero(AtenCall& call) {
  const DType dtype = call.meta(0).dtype;
  const std::vector<int64_t> axes = call.axes(call.is_none(1) ? 99 : 1, call.rank(0));
  const std::string is_some = call.cast(call.tensor(0), dtype, DType::kBool);
  call.finish("Identity", {call.reduce("ReduceSum", call.cast(is_some, DType::kBool, DType::kS64), axes, false)});
}
// (self, dim, keepdim) of what is no NaN
void sum_of_numbers(AtenCall& call) {
  const Formula f(call);
  const std::vector<int64_t> axes = call.axes(1, call.rank(0));
  const std::string x = f.operand(0);
  if (!is_floating(call.result().dtype)) return f.finish(f.reduce("ReduceSum", x, axes, call.flag(2)));
  const std::string is_nan = f.op("IsNaN", {x});
  const std::string sum = f.reduce("ReduceSum", f.where(is_nan, f.number(0), x), axes, call.flag(2));
  if (call.begins("nansum")) return f.finish(sum);
  f.finish(f.div(sum, f.reduce("ReduceSum", f.where(is_nan, f.number(0), f.number(1)), axes, call.flag(2))));
}

// cumprod, cummax, cummin, logcumsumexp: (self, dim). Each place's elements in a row of their own, those behind it
// replaced by what changes nothing.
void running(AtenCall& call) {
  const bool is_product = call.begins("cumprod"), is_max = call.begins("cummax"), is_min = call.begins("cummin");
  const TensorMeta& meta = call.meta(0);
  if (call.rank(0) == 0 || !is_floating(meta.dtype)) call.refuse("runs over ", to_string(meta.dtype), " or a number");
  const int64_t axis = call.axis(1, call.rank(0));
  const Formula own(call, is_max || is_min ? meta.dtype : call.result().dtype);
  const std::string x = own.operand(0);
  const std::string size = call.emit(
      "Slice", {call.emit("Shape", {x}), call.integers_as_tensor({axis}), call.integers_as_tensor({axis + 1})});
  std::string seen = call.emit("ConstantOfShape", {call.emit("Concat", {size, size}, {"axis", 0})},
                               {"value", Tensor::full({1}, DType::kF32, 1)});
  seen = call.cast(call.emit("Trilu", {seen}, {"upper", 0}), DType::kF32, DType::kBool);
  std::vector<int64_t> behind;
  for (int64_t i = axis + 1; i < rank_of(call, 0); ++i) behind.push_back(i + 1 - axis);
  if (!behind.empty()) seen = own.unsqueeze(seen, behind);
  const double nothing = is_product ? 1 : is_min ? kInfinity : -kInfinity;
  const std::string rows = own.where(seen, own.unsqueeze(x, {axis}), own.number(nothing));
  const char* op = is_product ? "ReduceProd" : is_max ? "ReduceMax" : is_min ? "ReduceMin" : "ReduceLogSumExp";
  const std::string found = own.reduce(op, rows, {axis + 1}, false);
  if (!is_max && !is_min) return own.finish(found);
  const std::vector<std::string> names = call.name_results(2);
  call.file().emit("Identity", {found}, {}, names[0]);
  call.file().emit(is_max ? "ArgMax" : "ArgMin", {rows}, {"axis", axis + 1, "keepdims", 0, "select_last_index", 1},
                   names[1]);
}

// --- products

// beta * self + alpha * product
void add_product(AtenCall& call) {
  const Formula f(call);
  const auto column = [&](size_t i, int64_t axis) { return f.unsqueeze(f.operand(i), {axis}); };
  std::string product =
      call.begins("addr") ? f.mul(column(1, 1), column(2, 0)) : f.op("MatMul", {f.operand(1), f.operand(2)});
  if (call.begins("addbmm")) product = f.reduce("ReduceSum", product, {0}, false);
  call.finish("Add", {f.mul(f.operand(0), call.number(3)), f.mul(product, call.number(4))});
}
void product_of_two(AtenCall& call) {
  const Formula f(call);
  call.finish("MatMul", {f.operand(0), f.operand(1)});
}
void inner(AtenCall& call) {
  const Formula f(call);
  if (call.rank(0) == 0 || call.rank(1) == 0) return call.finish("Mul", {f.operand(0), f.operand(1)});
  if (call.rank(1) > 2) call.refuse("is of ", call.rank(1), " axes");
  std::string other = f.operand(1);
  if (call.rank(1) == 2) other = call.emit("Transpose", {other}, {"perm", std::vector<int64_t>{1, 0}});
  call.finish("MatMul", {f.operand(0), other});
}
void outer(AtenCall& call) {
  const Formula f(call);
  call.finish("Mul", {f.unsqueeze(f.operand(0), {1}), f.unsqueeze(f.operand(1), {0})});
}
void dot_of_rows(AtenCall& call) {
  const Formula f(call);
  const size_t rank = call.result().sizes.size() + 1;
  f.finish(f.reduce("ReduceSum", f.mul(f.operand(0), f.operand(1)), {call.axis(2, rank) - static_cast<int64_t>(rank)},
                    false));
}
// (self, other, dims_self, dims_other): the axes by letters.
void tensor_dot(AtenCall& call) {
  const std::vector<int64_t> own = call.axes(2, call.rank(0)), others = call.axes(3, call.rank(1));
  if (call.rank(0) + call.rank(1) > 26 || call.arg(2).list().empty()) call.refuse("has too many axes, or joins none");
  std::string first, second, out;
  for (int64_t i = 0; i < rank_of(call, 0); ++i) first += static_cast<char>('a' + i);
  for (int64_t i = 0; i < rank_of(call, 1); ++i) second += static_cast<char>('a' + rank_of(call, 0) + i);
  for (size_t i = 0; i < own.size(); ++i) second[static_cast<size_t>(others[i])] = first[static_cast<size_t>(own[i])];
  for (const char c : first) out += second.find(c) == std::string::npos ? std::string(1, c) : "";
  for (const char c : second) out += first.find(c) == std::string::npos ? std::string(1, c) : "";
  const Formula f(call);
  call.finish("Einsum", {f.operand(0), f.operand(1)}, {"equation", (first + "," + second + "->" + out).c_str()});
}
void bilinear(AtenCall& call) {
  const Formula f(call);
  const std::string half = call.emit("Einsum", {f.operand(0), f.operand(2)}, {"equation", "...i,oij->...oj"});
  const std::string sum = f.reduce("ReduceSum", f.mul(half, f.unsqueeze(f.operand(1), {-2})), {-1}, false);
  if (call.is_none(3)) return f.finish(sum);
  call.finish("Add", {sum, f.operand(3)});
}
// (self, other, dim): of vectors of three
void cross(AtenCall& call) {
  const Formula f(call);
  const SymShape& sizes = call.result().sizes;
  // Counted from the end, as operands of fewer axes broadcast; where none is told, the first of three elements.
  const auto rank = static_cast<int64_t>(sizes.size());
  const auto first = std::find(sizes.begin(), sizes.end(), SymInt(3));
  const int64_t axis = (call.is_none(2) ? first - sizes.begin() : call.axis(2, sizes.size())) - rank;
  const auto turned = [&](size_t i, const std::vector<int64_t>& order) {
    return call.emit("Gather", {f.operand(i), call.integers_as_tensor(order)}, {"axis", axis});
  };
  const std::vector<int64_t> once = {1, 2, 0}, twice = {2, 0, 1};
  call.finish("Sub", {f.mul(turned(0, once), turned(1, twice)), f.mul(turned(0, twice), turned(1, once))});
}

constexpr AtenExporter kComposedExporters[] = {{"_cdist_forward.default", distances},
                                               {"_logcumsumexp.default", running},
                                               {"_safe_softmax.default", safe_softmax},
                                               {"addbmm.default", add_product},
                                               {"addcdiv.default", add_combined},
                                               {"addcmul.default", add_combined},
                                               {"addmv.default", add_product},
                                               {"addr.default", add_product},
                                               {"aminmax.default", both_extremes},
                                               {"atan2.default", atan2},
                                               {"baddbmm.default", add_product},
                                               {"bilinear.default", bilinear},
                                               {"cdist.default", distances},
                                               {"ceil.default", round_to_whole},
                                               {"clamp_max.Tensor", bound_by_tensor},
                                               {"clamp_min.Tensor", bound_by_tensor},
                                               {"cosine_similarity.default", cosine_similarity},
                                               {"count_nonzero.default", count_nonzero},
                                               {"count_nonzero.dim_IntList", count_nonzero},
                                               {"cross.default", cross},
                                               {"cummax.default", running},
                                               {"cummin.default", running},
                                               {"cumprod.default", running},
                                               {"deg2rad.default", change_unit},
                                               {"dist.default", distance},
                                               {"dot.default", product_of_two},
                                               {"erfc.default", erfc},
                                               {"exp2.default", exp2},
                                               {"expm1.default", expm1},
                                               {"float_power.Scalar", float_power},
                                               {"float_power.Tensor_Scalar", float_power},
                                               {"float_power.Tensor_Tensor", float_power},
                                               {"floor.default", round_to_whole},
                                               {"fmax.default", ignore_nan},
                                               {"fmin.default", ignore_nan},
                                               {"frac.default", fraction},
                                               {"frobenius_norm.dim", norm},
                                               {"glu.default", gated_linear_unit},
                                               {"heaviside.default", heaviside},
                                               {"hypot.default", hypotenuse},
                                               {"inner.default", inner},
                                               {"isfinite.default", is_finite},
                                               {"isneginf.default", is_signed_infinity},
                                               {"isposinf.default", is_signed_infinity},
                                               {"ldexp.Tensor", times_power_of_two},
                                               {"lerp.Scalar", interpolate},
                                               {"lerp.Tensor", interpolate},
                                               {"linalg_cross.default", cross},
                                               {"linalg_norm.default", norm},
                                               {"linalg_vecdot.default", dot_of_rows},
                                               {"linalg_vector_norm.default", norm},
                                               {"log10.default", logarithm},
                                               {"log1p.default", log1p},
                                               {"log2.default", logarithm},
                                               {"log_sigmoid.default", log_sigmoid},
                                               {"logaddexp.default", log_add_exp},
                                               {"logcumsumexp.default", running},
                                               {"logit.default", logit},
                                               {"max.dim", extreme},
                                               {"min.dim", extreme},
                                               {"mv.default", product_of_two},
                                               {"nan_to_num.default", nan_to_num},
                                               {"nanmean.default", sum_of_numbers},
                                               {"nansum.default", sum_of_numbers},
                                               {"norm.Scalar", norm},
                                               {"norm.ScalarOpt_dim", norm},
                                               {"norm.ScalarOpt_dim_dtype", norm},
                                               {"norm.ScalarOpt_dtype", norm},
                                               {"outer.default", outer},
                                               {"pairwise_distance.default", distance},
                                               {"rad2deg.default", change_unit},
                                               {"round.decimals", round_decimals},
                                               {"round.default", round_to_whole},
                                               {"rrelu.default", leaky_between},
                                               {"sinc.default", sinc},
                                               {"softshrink.default", soft_shrink},
                                               {"std.correction", deviation},
                                               {"std.default", deviation},
                                               {"std.dim", deviation},
                                               {"std_mean.correction", deviation},
                                               {"std_mean.default", deviation},
                                               {"std_mean.dim", deviation},
                                               {"tensordot.default", tensor_dot},
                                               {"trunc.default", truncate},
                                               {"var.correction", deviation},
                                               {"var.default", deviation},
                                               {"var.dim", deviation},
                                               {"var_mean.correction", deviation},
                                               {"var_mean.default", deviation},
                                               {"var_mean.dim", deviation},
                                               {"vdot.default", product_of_two},
                                               {"xlogy.Scalar_Other", x_log_y},
                                               {"xlogy.Scalar_Self", x_log_y},
                                               {"xlogy.Tensor", x_log_y}};

}  // namespace

std::span<const AtenExporter> composed_exporters() { return kComposedExporters; }

}  // namespace qdq
