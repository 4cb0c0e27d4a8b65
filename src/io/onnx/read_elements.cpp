// ONNX operators that compute each element by itself: arithmetic, comparisons, activations, casts.
#include <cmath>
#include <limits>

#include "io/onnx/chains.h"
#include "io/onnx/quantized.h"
#include "op/targets.h"

namespace qdq {
namespace {

// The second of two operands. Before opset 7 its axes could stand for those of the first from `axis` on.
Argument second_operand(OnnxCall& call) {
  const auto* given = call.opset() < 7 ? call.attribute("axis") : nullptr;
  const size_t rank = call.rank(0);
  if (given == nullptr || rank == 0 || call.rank(1) >= rank) return call.operand(1, 0);
  const auto behind = static_cast<int64_t>(rank - call.rank(1)) - call.axis(given->i, rank);
  Node* out = call.tensor(1);
  for (int64_t i = 0; i < behind; ++i) out = call.call("unsqueeze.default", {out, -1});
  return out;
}

// Of two operands that broadcast, a lone number is written as one, as Python code does.
void add(OnnxCall& call) {
  // linear without bias, and a constant row, perhaps with an axis in front: the bias.
  for (const size_t i : {size_t{0}, size_t{1}}) {
    Node *product = call.tensor(i), *bias = call.tensor(1 - i);
    if (!product->is(op::kLinear) || !product->arg(2).is_none() || call.num_uses_of_input(i) != 1) continue;
    const Tensor row = call.import().constant_of(bias);
    const SymInt columns = call.extent(product->arg(1).node(), 0);
    if (!row.defined() || row.dim() > 2 || row.dim() == 0 || columns != SymInt(row.numel()) ||
        columns != SymInt(row.size(row.dim() - 1)))
      continue;
    product->set_arg(2, row.dim() == 1 ? bias : call.import().constant(row.reshape({row.numel()}), bias->name()));
    return call.set(product);
  }
  Argument first = call.operand(0, 1);
  if (first.is_node()) call.set(call.call("add.Tensor", {first, second_operand(call)}));
  else call.set(call.call("add.Tensor", {call.tensor(1), first}));
}

void mul(OnnxCall& call) {
  const Argument first = call.operand(0, 1);
  if (first.is_node()) call.set(call.call("mul.Tensor", {first, second_operand(call)}));
  else call.set(call.call("mul.Tensor", {call.tensor(1), first}));
}

void sub(OnnxCall& call) {
  const Argument first = call.operand(0, 1);
  if (first.is_node()) call.set(call.call("sub.Tensor", {first, second_operand(call)}));
  else call.set(call.call("rsub.Scalar", {call.tensor(1), first}));
}

void div(OnnxCall& call) {
  const bool is_float = is_floating(call.meta(0).dtype);
  Node* first = call.tensor(0);
  const Argument second = second_operand(call);
  // ONNX divides integers toward zero.
  if (is_float) call.set(call.call("div.Tensor", {first, second}));
  else
    call.set(call.call("div.Tensor_mode", {first, second.is_node() ? second : Argument(call.tensor(1))},
                       "rounding_mode", "trunc"));
}

void mod(OnnxCall& call) {
  call.set(call.call(call.integer("fmod", 0) ? "fmod.Tensor" : "remainder.Tensor", {call.tensor(0), call.tensor(1)}));
}

// The result has the base's type, whatever the exponent's is.
void pow(OnnxCall& call) {
  const DType base = call.meta(0).dtype;
  Node* x = call.tensor(0);
  Argument exponent = second_operand(call);
  constexpr double kExact = 9007199254740992.0;  // 2^53
  if (exponent.is<double>() && !is_floating(base)) {
    const double number = exponent.as<double>();
    if (number == std::floor(number) && std::fabs(number) <= kExact) exponent = static_cast<int64_t>(number);
  }
  const bool by_float = exponent.is_node() ? is_floating(call.meta_of(exponent.node()).dtype) : exponent.is<double>();
  if (!is_floating(base) && by_float) x = call.call("to.dtype", {x, DType::kF64});
  else if (!is_floating(base) && exponent.is_node() && call.meta_of(exponent.node()).dtype != base)
    exponent = cast_to(call, exponent.node(), DType::kS64);
  Node* out = call.call(exponent.is_node() ? "pow.Tensor_Tensor" : "pow.Tensor_Scalar", {x, exponent});
  call.set(cast_to(call, out, base));
}

void compare(OnnxCall& call) {
  const Argument second = second_operand(call);
  call.set(call.call(concat(call.op().aten, second.is_node() ? ".Tensor" : ".Scalar"), {call.tensor(0), second}));
}

void bit_shift(OnnxCall& call) {
  const std::string direction = call.text("direction", "");
  if (direction != "LEFT" && direction != "RIGHT")
    call.refuse("shifts in the direction ", direction, ", wanted LEFT or RIGHT");
  call.set(call.call(direction == "LEFT" ? "bitwise_left_shift.Tensor" : "bitwise_right_shift.Tensor",
                     {call.tensor(0), call.tensor(1)}));
}

Node* joined_by(OnnxCall& call, std::string_view target) {
  Node* out = call.tensor(0);
  for (size_t i = 1; i < call.num_inputs(); ++i) out = call.call(target, {out, call.tensor(i)});
  return out;
}

void many(OnnxCall& call) {
  if (call.num_inputs() == 1) return call.same_as_input(0);
  call.set(joined_by(call, call.op().aten));
}

void mean_of_many(OnnxCall& call) {
  if (call.num_inputs() == 1) return call.same_as_input(0);
  call.set(call.call("div.Tensor", {joined_by(call, "add.Tensor"), static_cast<double>(call.num_inputs())}));
}

void is_inf(OnnxCall& call) {
  const bool negative = call.integer("detect_negative", 1) != 0, positive = call.integer("detect_positive", 1) != 0;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  Node* x = call.tensor(0);
  if (negative && positive) return call.set(call.call("isinf.default", {x}));
  if (!negative && !positive) return call.set(call.call("zeros_like.default", {x}, "dtype", DType::kBool));
  call.set(call.call("eq.Scalar", {x, positive ? kInfinity : -kInfinity}));
}

// Nothing is dropped. The mask says so since opset 12; before, ONNX Runtime gives none but false.
void dropout(OnnxCall& call) {
  const bool may_train = call.has(2) ? call.number(2) != 0 : call.opset() < 7 && call.integer("is_test", 0) == 0;
  const double ratio = call.has(1) ? call.number(1) : call.real("ratio", 0.5);
  if (may_train && ratio != 0) {
    if (call.has_output(1) && call.num_uses(1) > 0)
      call.refuse("is in training mode and gives its mask; export the model in inference mode");
    call.set(call.call("dropout.default", {call.tensor(0), ratio, true}));
    return;
  }
  if (call.has_output(1))
    call.set(call.call(call.opset() < 12 ? "zeros_like.default" : "ones_like.default", {call.tensor(0)}, "dtype",
                       call.opset() < 10 ? call.meta(0).dtype : DType::kBool),
             1);
  call.same_as_input(0);
}

// The bounds are inputs since opset 11, attributes before.
void clip(OnnxCall& call) {
  const auto is_number = [&](size_t i) {
    return !call.has(i) || (call.is_constant(i) && call.constant(i).numel() == 1);
  };
  if (!is_number(1) || !is_number(2))
    return call.set(call.call("clamp.Tensor", {call.tensor(0), call.optional_tensor(1), call.optional_tensor(2)}));
  const bool is_float = is_floating(call.meta(0).dtype);
  const auto bound = [&](size_t i, const char* name) -> Argument {
    if (!call.has(i)) return call.attribute(name) ? Argument(call.real(name, 0)) : Argument();
    return is_float ? Argument(call.number(i)) : Argument(call.constant(i).item_int());
  };
  const Argument low = bound(1, "min"), high = bound(2, "max");
  if (low.is_none() && high.is_none()) return call.same_as_input(0);
  const bool is_hardtanh = is_float && !low.is_none() && !high.is_none() && *low.number() <= *high.number();
  call.set(call.call(is_hardtanh ? "hardtanh.default" : "clamp.default", {call.tensor(0), low, high}));
}

void leaky_relu(OnnxCall& call) {
  call.set(call.call("leaky_relu.default", {call.tensor(0), call.real("alpha", 0.01)}));
}

void elu(OnnxCall& call) { call.set(call.call("elu.default", {call.tensor(0), call.real("alpha", 1)})); }

void celu(OnnxCall& call) { call.set(call.call("celu.default", {call.tensor(0), call.real("alpha", 1)})); }

void selu(OnnxCall& call) {
  const double alpha = call.real("alpha", 1.6732632), gamma = call.real("gamma", 1.0507010);
  if (std::fabs(alpha - 1.6732632) > 1e-5 || std::fabs(gamma - 1.0507010) > 1e-5)
    return call.set(call.call("elu.default", {call.tensor(0), alpha, gamma}));
  call.set(call.call("selu.default", {call.tensor(0)}));
}

// A constant of equal slopes along the axes behind the channels, such as tflite2onnx writes, as [C, 1, 1]; any other
// tensor as it is.
Node* narrowed_slopes(OnnxCall& call, size_t trailing) {
  const Tensor given = call.constant(1);
  if (!given.defined() || given.numel() == 0) return call.tensor(1);
  Tensor first = given;
  const int64_t end = given.dim(), begin = std::max<int64_t>(0, end - static_cast<int64_t>(trailing));
  for (int64_t axis = begin; axis < end; ++axis) first = first.slice(axis, 0, 1);
  if (first.numel() == given.numel() || !bitwise_equal(first.expand(given.sizes()), given)) return call.tensor(1);
  return call.import().constant(first.contiguous(), "slopes");
}

// A slope for each channel stands as [C, 1, 1] (before opset 7 as [C]); PyTorch has it as [C]. Other slopes broadcast.
void prelu(OnnxCall& call) {
  const size_t trailing = call.rank(0) < 2 ? 0 : call.rank(0) - 2;  // axes behind the channels
  Node *x = call.tensor(0), *given = narrowed_slopes(call, trailing);
  const SymShape& slope = call.meta_of(given).sizes;
  SymInt count = 1;
  for (const SymInt& size : slope) count = count * size;
  const bool by_channel = call.rank(0) > 1 && slope.size() > trailing && count == slope[slope.size() - 1 - trailing];
  const bool is_old = call.opset() < 7 && slope.size() == 1;
  if (count == SymInt(1) || by_channel || is_old) {
    Node* flat = call.call("reshape.default", {given, Argument(Argument::List{-1})});
    if (is_floating(call.meta(0).dtype)) return call.set(call.call("prelu.default", {x, flat}));
  }
  Node* below = call.call("mul.Tensor", {x, given});
  call.set(call.call("where.self", {call.call("lt.Scalar", {x, 0}), below, x}));
}

void hard_sigmoid(OnnxCall& call) {
  const double alpha = call.real("alpha", 0.2), beta = call.real("beta", 0.5);
  if (std::fabs(alpha - 1.0 / 6) < 1e-6 && beta == 0.5)
    return call.set(call.call("hardsigmoid.default", {call.tensor(0)}));
  Node* line = call.call("add.Tensor", {call.call("mul.Tensor", {call.tensor(0), alpha}), beta});
  call.set(call.call("clamp.default", {line, 0, 1}));
}

void gelu(OnnxCall& call) {
  call.set(call.call("gelu.default", {call.tensor(0)}, "approximate", call.text("approximate", "none")));
}

void swish(OnnxCall& call) {
  const double alpha = call.real("alpha", 1);
  Node* x = call.tensor(0);
  if (alpha == 1) return call.set(call.call("silu.default", {x}));
  Node* gate = call.call("sigmoid.default", {call.call("mul.Tensor", {x, alpha})});
  call.set(call.call("mul.Tensor", {x, gate}));
}

void softsign(OnnxCall& call) {
  Node* x = call.tensor(0);
  call.set(call.call("div.Tensor", {x, call.call("add.Tensor", {call.call("abs.default", {x}), 1})}));
}

void thresholded_relu(OnnxCall& call) {
  call.set(call.call("threshold.default", {call.tensor(0), call.real("alpha", 1), 0}));
}

// Operators of ONNX's first versions that CoreML's and Caffe2's converters wrote: alpha * f(beta * x).
void scaled_tanh(OnnxCall& call) {
  Node* inner = call.call("mul.Tensor", {call.tensor(0), call.real("beta", 1)});
  call.set(call.call("mul.Tensor", {call.call("tanh.default", {inner}), call.real("alpha", 1)}));
}

void parametric_softplus(OnnxCall& call) {
  Node* inner = call.call("mul.Tensor", {call.tensor(0), call.real("beta", 1)});
  call.set(call.call("mul.Tensor", {call.call("softplus.default", {inner}), call.real("alpha", 1)}));
}

void affine(OnnxCall& call) {
  Node* scaled = call.call("mul.Tensor", {call.tensor(0), call.real("alpha", 1)});
  call.set(call.call("add.Tensor", {scaled, call.real("beta", 0)}));
}

void scale(OnnxCall& call) { call.set(call.call("mul.Tensor", {call.tensor(0), call.real("scale", 1)})); }

// x + bias below -lambd, x - bias above lambd, else 0.
void shrink(OnnxCall& call) {
  const double lambd = call.real("lambd", 0.5), bias = call.real("bias", 0);
  Node* x = call.tensor(0);
  const bool is_float = is_floating(call.meta(0).dtype);
  if (bias == 0 && is_float && lambd >= 0) return call.set(call.call("hardshrink.default", {x, lambd}));
  const DType dtype = call.meta(0).dtype;
  const auto moved = [&](const char* target) { return cast_to(call, call.call(target, {x, bias}), dtype); };
  Node* inside = call.call("zeros_like.default", {x});
  Node* below = call.call("where.self", {call.call("lt.Scalar", {x, -lambd}), moved("add.Tensor"), inside});
  call.set(call.call("where.self", {call.call("gt.Scalar", {x, lambd}), moved("sub.Tensor"), below}));
}

// 1 at the first of the largest elements, else 0.
void hardmax(OnnxCall& call) {
  along_rows(call, [&](Node* x, int64_t axis) {
    Node* place = call.call("argmax.default", {x, axis, true});
    return call.call("scatter.value", {call.call("zeros_like.default", {x}), axis, place, 1});
  });
}

void set_cast(OnnxCall& call, DType dtype) {
  const DType from = call.meta(0).dtype;
  // What leaves four bits is another type, though its bytes are the same.
  if (dtype == from) return call.has_four_bits(0) ? call.set(call.tensor(0)) : call.same_as_input(0);
  if (from == DType::kString) return call.set(call.call("onnx.cast_from_string.default", {call.tensor(0), dtype}));
  if (dtype == DType::kString) return call.set(call.call("onnx.cast_to_string.default", {call.tensor(0)}));
  if (is_float8(dtype)) return call.set(as_float8(call, call.tensor(0), dtype, call.integer("saturate", 1) != 0));
  call.set(call.call("to.dtype", {call.tensor(0), dtype}));
}

// Numbers as the nearest of -8 to 7, or of 0 to 15.
void cast_to_four_bits(OnnxCall& call, DType dtype) {
  const bool is_unsigned = dtype == DType::kU8;
  if (call.has_four_bits(0) && call.meta(0).dtype == dtype) return call.same_as_input(0);
  Node* x = call.tensor(0);
  if (is_float8(call.meta(0).dtype) || call.meta(0).dtype == DType::kBool) x = cast_to(call, x, DType::kF32);
  if (is_floating(call.meta_of(x).dtype)) x = call.call("round.default", {x});
  const auto limit = [&](int64_t value) {
    return is_floating(call.meta_of(x).dtype) ? Argument(static_cast<double>(value)) : Argument(value);
  };
  x = call.call("clamp.default", {x, limit(is_unsigned ? 0 : -8), limit(is_unsigned ? 15 : 7)});
  call.set(cast_to(call, x, dtype));
  call.set_four_bits();
}

void cast(OnnxCall& call) {
  const auto* to = call.attribute("to");
  std::optional<DType> dtype;
  if (to && to->kind == format::OnnxKind::kString) {  // before opset 6
    static constexpr std::pair<std::string_view, DType> kNames[] = {
        {"FLOAT", DType::kF32},   {"UINT8", DType::kU8},   {"INT8", DType::kS8},      {"UINT16", DType::kU16},
        {"INT16", DType::kS16},   {"INT32", DType::kS32},  {"INT64", DType::kS64},    {"BOOL", DType::kBool},
        {"FLOAT16", DType::kF16}, {"DOUBLE", DType::kF64}, {"STRING", DType::kString}};
    for (const auto& [name, named] : kNames)
      if (to->s == name) dtype = named;
  } else if (to) {
    dtype = format::onnx_dtype(to->i);
  }
  if (to && (to->i == format::kOnnxU4 || to->i == format::kOnnxS4))
    return cast_to_four_bits(call, to->i == format::kOnnxU4 ? DType::kU8 : DType::kS8);
  if (!dtype) call.refuse("makes values of data type ", call.integer("to", 0), ", which qdq does not have");
  set_cast(call, *dtype);
}

void cast_like(OnnxCall& call) {
  const DType dtype = call.meta(1).dtype;
  if (call.has_four_bits(1)) return cast_to_four_bits(call, dtype);
  set_cast(call, dtype);
}

void where(OnnxCall& call) { call.set(call.call("where.self", {call.tensor(0), call.tensor(1), call.tensor(2)})); }

constexpr OnnxOperator kElementOperators[] = {
    {"Abs", import_plain, "abs.default"},
    {"Acos", import_plain, "acos.default"},
    {"Acosh", import_plain, "acosh.default"},
    {"Add", add, "add.Tensor"},
    {"Affine", affine, nullptr},
    {"And", import_plain, "logical_and.default"},
    {"Asin", import_plain, "asin.default"},
    {"Asinh", import_plain, "asinh.default"},
    {"Atan", import_plain, "atan.default"},
    {"Atanh", import_plain, "atanh.default"},
    {"BitShift", bit_shift, nullptr},
    {"BitwiseAnd", import_plain, "bitwise_and.Tensor"},
    {"BitwiseNot", import_plain, "bitwise_not.default"},
    {"BitwiseOr", import_plain, "bitwise_or.Tensor"},
    {"BitwiseXor", import_plain, "bitwise_xor.Tensor"},
    {"Cast", cast, nullptr},
    {"CastLike", cast_like, nullptr},
    {"Ceil", import_plain, "ceil.default"},
    {"Celu", celu, nullptr},
    {"Clip", clip, nullptr},
    {"Cos", import_plain, "cos.default"},
    {"Cosh", import_plain, "cosh.default"},
    {"Div", div, nullptr},
    {"Dropout", dropout, nullptr},
    {"Elu", elu, nullptr},
    {"Equal", compare, "eq"},
    {"Erf", import_plain, "erf.default"},
    {"Exp", import_plain, "exp.default"},
    {"Floor", import_plain, "floor.default"},
    {"Gelu", gelu, nullptr},
    {"Greater", compare, "gt"},
    {"GreaterOrEqual", compare, "ge"},
    {"HardSigmoid", hard_sigmoid, nullptr},
    {"HardSwish", import_plain, "hardswish.default"},
    {"Hardmax", hardmax, nullptr},
    {"IsInf", is_inf, nullptr},
    {"IsNaN", import_plain, "isnan.default"},
    {"LeakyRelu", leaky_relu, nullptr},
    {"Less", compare, "lt"},
    {"LessOrEqual", compare, "le"},
    {"Log", import_plain, "log.default"},
    {"Max", many, "maximum.default"},
    {"Mean", mean_of_many, nullptr},
    {"Min", many, "minimum.default"},
    {"Mish", import_plain, "mish.default"},
    {"Mod", mod, nullptr},
    {"Mul", mul, "mul.Tensor"},
    {"Neg", import_plain, "neg.default"},
    {"Not", import_plain, "logical_not.default"},
    {"Or", import_plain, "logical_or.default"},
    {"PRelu", prelu, nullptr},
    {"ParametricSoftplus", parametric_softplus, nullptr},
    {"Pow", pow, nullptr},
    {"Reciprocal", import_plain, "reciprocal.default"},
    {"Relu", import_plain, "relu.default"},
    {"Round", import_plain, "round.default"},
    {"Scale", scale, nullptr},
    {"ScaledTanh", scaled_tanh, nullptr},
    {"Selu", selu, nullptr},
    {"Shrink", shrink, nullptr},
    {"Sigmoid", import_plain, "sigmoid.default"},
    {"Sign", import_plain, "sign.default"},
    {"Sin", import_plain, "sin.default"},
    {"Sinh", import_plain, "sinh.default"},
    {"Softplus", import_plain, "softplus.default"},
    {"Softsign", softsign, nullptr},
    {"Sqrt", import_plain, "sqrt.default"},
    {"Sub", sub, "sub.Tensor"},
    {"Sum", many, "add.Tensor"},
    {"Swish", swish, nullptr},
    {"Tan", import_plain, "tan.default"},
    {"Tanh", import_plain, "tanh.default"},
    {"ThresholdedRelu", thresholded_relu, nullptr},
    {"Where", where, "where.self"},
    {"Xor", import_plain, "logical_xor.default"},
};

}  // namespace

std::span<const OnnxOperator> onnx_element_operators() { return kElementOperators; }

}  // namespace qdq
