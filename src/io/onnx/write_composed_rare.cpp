// ATen operators that ONNX does not have, spelled out in those that it has: what few networks contain.
#include <cmath>
#include <numbers>

#include "io/onnx/formula.h"
#include "io/onnx/import.h"

namespace qdq {
namespace {

// --- signs and bits

// (self, other): the size of one with the sign of the other
void copy_sign(AtenCall& call) {
  const Formula f(call);
  const std::string size = f.op("Abs", {f.operand(0)});
  call.finish("Where", {is_negative(f, f.operand(1)), f.op("Neg", {size}), size});
}
void sign_bit(AtenCall& call) {
  const DType dtype = call.meta(0).dtype;
  if (dtype == DType::kBool) return call.finish("Not", {call.emit("Or", {call.tensor(0), call.scalar(1, dtype)})});
  const Formula f(call, dtype);
  f.finish(is_floating(dtype) ? is_negative(f, f.operand(0)) : f.op("Less", {f.operand(0), f.number(0)}));
}
void real_sign(AtenCall& call) {
  if (call.result().dtype == DType::kBool) return call.same_as(call.tensor(0));
  call.finish("Sign", {call.tensor(0)});
}
// Of real numbers: 0 or pi.
void real_angle(AtenCall& call) {
  const Formula f(call);
  const std::string x = f.operand(0);
  const std::string angle = f.where(f.op("Less", {x, f.number(0)}), f.number(std::numbers::pi), f.number(0));
  call.finish("Where", {f.op("IsNaN", {x}), x, angle});
}
// ONNX shifts unsigned integers; those with a sign are multiplied and divided, the quotient rounded down.
void shift_integers(AtenCall& call) {
  const DType dtype = call.result().dtype;
  const bool is_left = call.name().find("left") != std::string::npos || call.begins("__lshift__");
  if (!is_integral(dtype)) call.refuse("shifts ", to_string(dtype), ", ONNX integers");
  if (min_of(dtype) >= 0)
    return call.finish("BitShift", {call.operand(0, dtype), call.operand(1, dtype)},
                       {"direction", is_left ? "LEFT" : "RIGHT"});
  const Formula f(call, DType::kS64);
  // By as many bits as there are, or by a negative number, nothing is left but the sign.
  const std::string x = f.operand(0), given = f.operand(1), bits = f.number(static_cast<double>(8 * size_of(dtype)));
  const std::string is_beyond = f.op("Or", {f.op("Less", {given, f.number(0)}), f.op("GreaterOrEqual", {given, bits})});
  const std::string power = f.op("Pow", {f.number(2), f.where(is_beyond, f.number(62), given)});
  const std::string moved =
      is_left ? f.where(is_beyond, f.number(0), f.mul(x, power)) : f.div(f.sub(x, f.op("Mod", {x, power})), power);
  call.finish("Cast", {moved}, {"to", format::onnx_number(dtype)});
}

// --- functions of elements

// log2(2^a + 2^b)
void log_add_exp2(AtenCall& call) {
  const Formula f(call);
  const std::string a = f.operand(0), b = f.operand(1);
  const std::string apart = f.mul(f.op("Neg", {f.op("Abs", {f.sub(a, b)})}), std::numbers::ln2);
  const std::string sum = f.add(f.op("Max", {a, b}), f.mul(f.op("Softplus", {apart}), std::numbers::log2e));
  call.finish("Where", {f.op("Equal", {a, b}), f.add(a, 1), sum});
}
// -x log x
void entropy(AtenCall& call) {
  const Formula f(call);
  const std::string x = f.operand(0), zero = f.number(0);
  const std::string inside = f.op("Neg", {f.mul(x, f.op("Log", {x}))});
  const std::string positive = f.where(f.op("Less", {x, zero}), f.number(-kInfinity), inside);
  call.finish("Where", {f.op("Equal", {x, zero}), zero, positive});
}
void normal_distribution(AtenCall& call) {
  const Formula f(call);
  const std::string curve = f.op("Erf", {f.mul(f.operand(0), std::numbers::sqrt2 / 2)});
  f.finish(f.mul(f.add(curve, 1), 0.5));
}
// (self, other, rtol, atol, equal_nan)
void is_close(AtenCall& call) {
  const DType common = call.common_dtype(0, 1);
  const Formula f(call, is_floating(common) ? common : DType::kF64);
  const std::string a = f.operand(0), b = f.operand(1);
  const std::string apart = f.op("Abs", {f.sub(a, b)});
  const std::string allowed = f.add(f.mul(f.op("Abs", {b}), call.number(2)), call.number(3));
  const std::string is_near =
      f.op("And", {f.op("LessOrEqual", {apart, allowed}), f.op("Less", {apart, f.number(kInfinity)})});
  std::string close = f.op("Or", {f.op("Equal", {a, b}), is_near});
  if (call.flag(4)) close = f.op("Or", {close, f.op("And", {f.op("IsNaN", {a}), f.op("IsNaN", {b})})});
  f.finish(close);
}
void log_sigmoid_forward(AtenCall& call) {
  const Formula f(call, call.meta(0).dtype);
  const std::string curve = f.op("Softplus", {f.op("Neg", {f.operand(0)})});
  call.file().emit("Neg", {curve}, {}, call.only_result());
}

// (self, target, reduction[, beta or delta]); the reduction is 0 none, 1 mean, 2 sum
void loss(AtenCall& call) {
  const Formula f(call);
  const std::string apart = f.sub(f.operand(0), f.operand(1)), size = f.op("Abs", {apart});
  std::string out;
  if (call.begins("l1_loss")) out = size;
  else if (call.begins("mse_loss") || call.number(3) == 0) out = call.begins("mse_loss") ? f.mul(apart, apart) : size;
  else {
    const double width = call.number(3);
    const bool is_huber = call.begins("huber_loss");
    const std::string square = f.mul(f.mul(apart, apart), is_huber ? 0.5 : 0.5 / width);
    const std::string line = f.mul(f.add(size, -0.5 * width), is_huber ? width : 1);
    out = f.where(f.op("Less", {size, f.number(width)}), square, line);
  }
  if (call.integer(2) == 0) return f.finish(out);
  f.finish(f.reduce(call.integer(2) == 1 ? "ReduceMean" : "ReduceSum", out, {}, false));
}

// --- along axes

// The one in the middle of those in order, the lower one of two; a NaN, if there is one. (self[, dim, keepdim])
void median(AtenCall& call) {
  const bool is_whole = call.name() == "median.default";
  const DType dtype = call.meta(0).dtype;
  const Formula f(call, dtype);
  const bool is_number = call.rank(0) == 0;
  const int64_t axis = is_whole || is_number ? 0 : call.axis(1, call.rank(0));
  std::string x = f.operand(0);
  if (is_whole || is_number) x = call.emit("Reshape", {x, call.integers_as_tensor({-1})});
  const Formula whole(call, DType::kS64);
  const std::string size = call.emit("Gather", {call.emit("Shape", {x}), call.integers_as_tensor({axis})}, {"axis", 0});
  const std::string count = whole.div(whole.add(size, 1), whole.number(2));
  const auto part = [&] { return call.file().fresh(call.node().name() + "_part"); };
  const std::string values = part(), places = part();
  call.file().emit_many("TopK", {x, count}, {"axis", axis, "largest", 0, "sorted", 1}, {values, places});
  const auto last = [&](const std::string& all) {
    return call.emit("Gather", {all, call.integers_as_tensor({-1})}, {"axis", axis});
  };
  std::string value = last(values), place = last(places);
  if (is_floating(dtype)) {
    const std::string is_nan = call.cast(f.op("IsNaN", {x}), DType::kBool, DType::kS32);
    const std::string has_nan = call.cast(call.reduce("ReduceMax", is_nan, {axis}, true), DType::kS32, DType::kBool);
    value = f.where(has_nan, f.number(std::numeric_limits<double>::quiet_NaN()), value);
    place = f.where(has_nan, call.emit("ArgMax", {is_nan}, {"axis", axis, "keepdims", 1}), place);
  }
  const bool keeps = !is_whole && !is_number && call.flag(2);
  const auto kept = [&](const std::string& all) {
    return keeps ? all : call.emit("Squeeze", {all, call.integers_as_tensor({axis})});
  };
  if (is_whole) return f.finish(kept(value));
  const std::vector<std::string> names = call.name_results(2);
  call.file().emit("Identity", {kept(value)}, {}, names[0]);
  call.file().emit("Identity", {kept(place)}, {}, names[1]);
}

std::string slice(AtenCall& call, const std::string& x, int64_t axis, int64_t from, int64_t to, int64_t step = 1) {
  const auto one = [&](int64_t value) { return call.integers_as_tensor({value}); };
  return call.emit("Slice", {x, one(from), one(to), one(axis), one(step)});
}

// (self, n, dim, prepend, append)
void difference(AtenCall& call) {
  const DType dtype = call.result().dtype;
  const int64_t axis = call.axis(2, call.rank(0));
  std::vector<std::string> parts;
  if (!call.is_none(3)) parts.push_back(call.operand(3, dtype));
  parts.push_back(call.operand(0, dtype));
  if (!call.is_none(4)) parts.push_back(call.operand(4, dtype));
  std::string x = parts.size() == 1 ? parts[0] : call.emit("Concat", parts, {"axis", axis});
  for (int64_t i = 0; i < call.integer(1); ++i)
    x = call.emit(dtype == DType::kBool ? "Xor" : "Sub",
                  {slice(call, x, axis, 1, INT64_MAX), slice(call, x, axis, 0, -1)});
  call.finish("Identity", {x});
}

// (self, k, dims): quarter turns
void quarter_turns(AtenCall& call) {
  const int64_t quarters = ((call.integer(1) % 4) + 4) % 4;
  const std::vector<int64_t> axes = call.axes(2, call.rank(0));
  const auto flipped = [&](const std::string& x, int64_t axis) { return slice(call, x, axis, -1, INT64_MIN, -1); };
  const std::string x = call.tensor(0);
  if (quarters == 0) return call.same_as(x);
  if (quarters == 2) return call.finish("Identity", {flipped(flipped(x, axes[0]), axes[1])});
  std::vector<int64_t> order;
  for (int64_t i = 0; i < static_cast<int64_t>(call.rank(0)); ++i) order.push_back(i);
  std::swap(order[static_cast<size_t>(axes[0])], order[static_cast<size_t>(axes[1])]);
  const std::string turned = call.emit("Transpose", {x}, {"perm", order});
  call.finish("Identity", {flipped(turned, quarters == 1 ? axes[0] : axes[1])});
}

void at_least(AtenCall& call) {
  const size_t wanted = call.begins("atleast_1d") ? 1 : call.begins("atleast_2d") ? 2 : 3;
  std::vector<int64_t> axes;
  if (call.rank(0) == 0)
    for (size_t i = 0; i < wanted; ++i) axes.push_back(static_cast<int64_t>(i));
  else if (call.rank(0) == 1 && wanted > 1) axes = wanted == 2 ? std::vector<int64_t>{0} : std::vector<int64_t>{0, 2};
  else if (call.rank(0) == 2 && wanted == 3) axes = {2};
  if (axes.empty()) return call.same_as(call.tensor(0));
  call.finish("Unsqueeze", {call.tensor(0), call.integers_as_tensor(axes)});
}

// hsplit, vsplit, dsplit, and tensor_split.indices: (self, count or places[, dim]); parts of the sizes of the results
void split_by_places(AtenCall& call) {
  const auto* results = std::get_if<std::vector<ValueMeta>>(&call.node().meta.val.value);
  if (results == nullptr || results->empty()) call.refuse("gives an unknown number of parts");
  const int64_t axis = call.begins("tensor_split") ? call.axis(2, call.rank(0))
                       : call.begins("dsplit")     ? 2
                       : call.begins("vsplit")     ? 0
                                                   : static_cast<int64_t>(call.rank(0) > 1);
  std::vector<int64_t> parts;
  for (const ValueMeta& result : *results) {
    const auto size = result.tensor()->sizes[static_cast<size_t>(axis)].constant();
    if (!size) call.refuse("divides an axis whose size is open");
    parts.push_back(*size);
  }
  call.file().emit_many("Split", {call.tensor(0), call.integers_as_tensor(parts)}, {"axis", axis},
                        call.name_results(parts.size()), call.node().meta.extra_of(kOnnxNode));
}

// Each element of one times all of the other.
void kronecker(AtenCall& call) {
  const Formula f(call);
  const size_t rank = call.result().sizes.size();
  std::vector<std::string> operands;
  for (const size_t i : {size_t{0}, size_t{1}}) {
    // The axes of both by turns, those of size 1 in front if there are fewer.
    std::vector<int64_t> axes;
    for (size_t k = 0; k < 2 * (rank - call.rank(i)); ++k) axes.push_back(static_cast<int64_t>(k));
    for (size_t k = rank - call.rank(i); k < rank; ++k) axes.push_back(static_cast<int64_t>(2 * k + (i == 0 ? 1 : 0)));
    operands.push_back(axes.empty() ? f.operand(i) : f.unsqueeze(f.operand(i), axes));
  }
  const auto lifted = [&](size_t i) {
    const std::string sizes = call.emit("Shape", {call.tensor(i)});
    const std::string ones = call.integers_as_tensor(std::vector<int64_t>(rank - call.rank(i), 1));
    return rank == call.rank(i) ? sizes : call.emit("Concat", {ones, sizes}, {"axis", 0});
  };
  const std::string sizes = call.emit("Mul", {lifted(0), lifted(1)});
  call.finish("Reshape", {f.mul(operands[0], operands[1]), sizes});
}

// (repeats) and (self, repeats, dim): each place as often as its number says. A place of the result belongs to the
// first of the repeats whose running sum is beyond it.
void repeat_by_numbers(AtenCall& call) {
  const bool has_values = call.begins("repeat_interleave.self");
  const size_t at = has_values ? 1 : 0;
  const Formula f(call, DType::kS64);
  const std::string zero = call.scalar(0, DType::kS64);
  std::string x = has_values ? call.tensor(0) : "", repeats = f.operand(at);
  const bool is_flat = has_values && call.is_none(2);
  if (is_flat) x = call.emit("Reshape", {x, call.integers_as_tensor({-1})});
  const int64_t axis = is_flat || !has_values ? 0 : call.axis(2, call.rank(0));
  if (call.rank(at) == 0) repeats = call.emit("Reshape", {repeats, call.integers_as_tensor({1})});
  if (has_values) {  // one number for all
    const std::string size =
        call.emit("Gather", {call.emit("Shape", {x}), call.integers_as_tensor({axis})}, {"axis", 0});
    repeats = call.emit("Expand", {repeats, size});
  }
  const std::string ends = call.emit("CumSum", {repeats, zero});
  const std::string total = call.reduce("ReduceSum", repeats, {}, false);
  const std::string all = call.emit("Range", {zero, total, call.scalar(1, DType::kS64)});
  const std::string is_behind = call.emit("LessOrEqual", {f.unsqueeze(ends, {0}), f.unsqueeze(all, {1})});
  const std::string places = call.reduce("ReduceSum", call.cast(is_behind, DType::kBool, DType::kS64), {1}, false);
  if (has_values) return call.finish("Gather", {x, places}, {"axis", axis});
  call.finish("Cast", {places}, {"to", format::onnx_number(call.result().dtype)});
}

// --- matrices

void determinant(AtenCall& call) {
  if (call.name() != "_linalg_det.default") return call.finish("Det", {call.tensor(0)});
  call.file().emit("Det", {call.tensor(0)}, {}, call.only_result());
}
// The sign, and the logarithm of the size; by the largest element, so that the product of large ones stays finite.
void log_determinant(AtenCall& call) {
  const Formula f(call, call.meta(0).dtype);
  const auto rows = call.meta(0).sizes.back().constant();
  if (!rows) call.refuse("needs the size of an axis that is open");
  const std::string x = f.operand(0), most = f.reduce("ReduceMax", f.op("Abs", {x}), {-2, -1}, true);
  const std::string unit = f.where(f.op("Equal", {most, f.number(0)}), f.number(1), most);
  const std::string value = call.emit("Det", {f.div(x, unit)});
  const std::string flat = call.emit("Squeeze", {unit, call.integers_as_tensor({-2, -1})});
  const std::vector<std::string> names = call.name_results(2);
  call.file().emit("Sign", {value}, {}, names[0]);
  const std::string moved = f.mul(f.op("Log", {flat}), static_cast<double>(*rows));
  call.file().emit("Add", {f.op("Log", {f.op("Abs", {value})}), moved}, {}, names[1]);
}
void product_of_all(AtenCall& call) {
  const Argument::List& factors = call.arg(0).list();
  const DType dtype = call.result().dtype;
  std::string out = call.operand(factors[0], dtype);
  for (size_t i = 1; i < factors.size(); ++i) out = call.emit("MatMul", {out, call.operand(factors[i], dtype)});
  call.finish("Identity", {out});
}
void matrix_power(AtenCall& call) {
  const int64_t power = call.integer(1);
  if (power < 1) call.refuse("has the power ", power, "; ONNX has those from 1 on");
  std::string out = call.tensor(0);
  for (int64_t i = 1; i < power; ++i) out = call.emit("MatMul", {out, call.tensor(0)});
  call.finish("Identity", {out});
}
// linalg_matrix_norm and linalg_norm.ord_str: (self, ord, dim, keepdim): the square root of all squares, or the
// largest of the sums of rows or columns.
void matrix_norm(AtenCall& call) {
  const Formula f(call);
  const std::vector<int64_t> axes = call.is_none(2) ? call.axes(99, call.rank(0)) : call.axes(2, call.rank(0));
  const bool keeps = call.flag(3);
  if (axes.size() != 2) call.refuse("is over other than two axes");
  if (call.arg(1).is<std::string>()) {
    if (call.arg(1).as<std::string>() != "fro") call.refuse("is a norm by singular values, which ONNX does not have");
    return f.finish(f.reduce("ReduceL2", f.operand(0), axes, keeps));
  }
  const double order = call.number(1);
  if (std::fabs(order) == 2) call.refuse("is a norm by singular values, which ONNX does not have");
  const bool by_rows = std::isinf(order);
  const std::string sums = f.reduce("ReduceL1", f.operand(0), {by_rows ? axes[1] : axes[0]}, true);
  const std::string out = f.reduce(order > 0 ? "ReduceMax" : "ReduceMin", sums, {by_rows ? axes[0] : axes[1]}, true);
  f.finish(keeps ? out : call.emit("Squeeze", {out, call.integers_as_tensor(axes)}));
}
// (self, p): of all pairs of rows
void distances_of_pairs(AtenCall& call) {
  const Formula f(call);
  const auto count = call.meta(0).sizes[0].constant();
  if (!count || *count > 512) call.refuse("is of an open number of rows, or of more than 512");
  std::vector<int64_t> first, second;
  for (int64_t i = 0; i < *count; ++i)
    for (int64_t k = i + 1; k < *count; ++k) first.push_back(i), second.push_back(k);
  const auto rows = [&](const std::vector<int64_t>& places) {
    return call.emit("Gather", {f.operand(0), call.integers_as_tensor(places)}, {"axis", 0});
  };
  const std::string apart = f.sub(rows(first), rows(second));
  const double order = call.number(1);
  if (order == 1 || order == 2) return f.finish(f.reduce(order == 1 ? "ReduceL1" : "ReduceL2", apart, {1}, false));
  if (std::isinf(order)) return f.finish(f.reduce("ReduceMax", f.op("Abs", {apart}), {1}, false));
  if (order == 0) call.refuse("counts differences");
  const std::string sum = f.reduce("ReduceSum", f.op("Pow", {f.op("Abs", {apart}), f.number(order)}), {1}, false);
  f.finish(f.op("Pow", {sum, f.number(1 / order)}));
}

constexpr AtenExporter kRareExporters[] = {{"__lshift__.Scalar", shift_integers},
                                           {"__lshift__.Tensor", shift_integers},
                                           {"__rshift__.Scalar", shift_integers},
                                           {"__rshift__.Tensor", shift_integers},
                                           {"_linalg_det.default", determinant},
                                           {"_linalg_slogdet.default", log_determinant},
                                           {"_pdist_forward.default", distances_of_pairs},
                                           {"angle.default", real_angle},
                                           {"atleast_1d.default", at_least},
                                           {"atleast_2d.default", at_least},
                                           {"atleast_3d.default", at_least},
                                           {"bitwise_left_shift.Scalar_Tensor", shift_integers},
                                           {"bitwise_left_shift.Tensor", shift_integers},
                                           {"bitwise_left_shift.Tensor_Scalar", shift_integers},
                                           {"bitwise_right_shift.Scalar_Tensor", shift_integers},
                                           {"bitwise_right_shift.Tensor", shift_integers},
                                           {"bitwise_right_shift.Tensor_Scalar", shift_integers},
                                           {"chain_matmul.default", product_of_all},
                                           {"copysign.Scalar", copy_sign},
                                           {"copysign.Tensor", copy_sign},
                                           {"det.default", determinant},
                                           {"diff.default", difference},
                                           {"dsplit.array", split_by_places},
                                           {"dsplit.int", split_by_places},
                                           {"hsplit.array", split_by_places},
                                           {"hsplit.int", split_by_places},
                                           {"huber_loss.default", loss},
                                           {"isclose.default", is_close},
                                           {"kron.default", kronecker},
                                           {"l1_loss.default", loss},
                                           {"linalg_matrix_norm.default", matrix_norm},
                                           {"linalg_matrix_norm.str_ord", matrix_norm},
                                           {"linalg_matrix_power.default", matrix_power},
                                           {"linalg_multi_dot.default", product_of_all},
                                           {"linalg_norm.ord_str", matrix_norm},
                                           {"linalg_slogdet.default", log_determinant},
                                           {"log_sigmoid_forward.default", log_sigmoid_forward},
                                           {"logaddexp2.default", log_add_exp2},
                                           {"matrix_power.default", matrix_power},
                                           {"median.default", median},
                                           {"median.dim", median},
                                           {"mse_loss.default", loss},
                                           {"pdist.default", distances_of_pairs},
                                           {"repeat_interleave.Tensor", repeat_by_numbers},
                                           {"repeat_interleave.self_Tensor", repeat_by_numbers},
                                           {"rot90.default", quarter_turns},
                                           {"sgn.default", real_sign},
                                           {"signbit.default", sign_bit},
                                           {"slogdet.default", log_determinant},
                                           {"smooth_l1_loss.default", loss},
                                           {"special_entr.default", entropy},
                                           {"special_ndtr.default", normal_distribution},
                                           {"tensor_split.indices", split_by_places},
                                           {"vsplit.array", split_by_places},
                                           {"vsplit.int", split_by_places}};

}  // namespace

std::span<const AtenExporter> composed_rare_exporters() { return kRareExporters; }

}  // namespace qdq
