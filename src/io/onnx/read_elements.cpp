// ONNX operators that compute each element by itself: arithmetic, comparisons, activations, casts.
#include <algorithm>
#include <cmath>

#include "io/onnx/import.h"
#include "op/targets.h"

namespace qdq {
namespace {

// Of two operands that broadcast, a lone number is written as one, as Python code does.
void add(OnnxCall& call) {
  // linear without bias, and a constant row that nobody adds to anything else: the bias.
  for (const size_t i : {size_t{0}, size_t{1}}) {
    Node *product = call.tensor(i), *bias = call.tensor(1 - i);
    if (!product->is(op::kLinear) || !product->arg(2).is_none() || call.num_uses_of_input(i) != 1) continue;
    if (!call.import().is_constant(bias) || call.rank(1 - i) != 1 ||
        call.meta(1 - i).sizes[0] != call.meta_of(product->arg(1).node()).sizes[0])
      continue;
    product->set_arg(2, bias);
    return call.set(product);
  }
  Argument first = call.operand(0, 1);
  if (first.is_node()) call.set(call.call("add.Tensor", {first, call.operand(1, 0)}));
  else call.set(call.call("add.Tensor", {call.tensor(1), first}));
}

void mul(OnnxCall& call) {
  const Argument first = call.operand(0, 1);
  if (first.is_node()) call.set(call.call("mul.Tensor", {first, call.operand(1, 0)}));
  else call.set(call.call("mul.Tensor", {call.tensor(1), first}));
}

void sub(OnnxCall& call) {
  const Argument first = call.operand(0, 1);
  if (first.is_node()) call.set(call.call("sub.Tensor", {first, call.operand(1, 0)}));
  else call.set(call.call("rsub.Scalar", {call.tensor(1), first}));
}

void div(OnnxCall& call) {
  const bool is_float = is_floating(call.meta(0).dtype);
  Node* first = call.tensor(0);
  const Argument second = call.operand(1, 0);
  // ONNX divides integers toward zero.
  if (is_float) call.set(call.call("div.Tensor", {first, second}));
  else call.set(call.call("div.Tensor_mode", {first, call.tensor(1)}, "rounding_mode", "trunc"));
}

void mod(OnnxCall& call) {
  call.set(call.call(call.integer("fmod", 0) ? "fmod.Tensor" : "remainder.Tensor", {call.tensor(0), call.tensor(1)}));
}

void pow(OnnxCall& call) {
  const Argument exponent = call.operand(1, 0);
  call.set(call.call(exponent.is_node() ? "pow.Tensor_Tensor" : "pow.Tensor_Scalar", {call.tensor(0), exponent}));
}

void compare(OnnxCall& call) {
  const Argument second = call.operand(1, 0);
  call.set(call.call(concat(call.op().aten, second.is_node() ? ".Tensor" : ".Scalar"), {call.tensor(0), second}));
}

void many(OnnxCall& call) {
  Node* out = call.tensor(0);
  for (size_t i = 1; i < call.num_inputs(); ++i) out = call.call(call.op().aten, {out, call.tensor(i)});
  call.set(out);
}

void mean_of_many(OnnxCall& call) {
  Node* out = call.tensor(0);
  for (size_t i = 1; i < call.num_inputs(); ++i) out = call.call("add.Tensor", {out, call.tensor(i)});
  call.set(call.call("div.Tensor", {out, static_cast<double>(call.num_inputs())}));
}

void dropout(OnnxCall& call) {
  if (call.has_output(1)) call.refuse("gives its mask too, which qdq does not read");
  if (call.has(2) && call.number(2) != 0) call.refuse("is in training mode; export the model in inference mode");
  call.same_as_input(0);
}

void clip(OnnxCall& call) {
  const auto is_number = [&](size_t i) {
    return !call.has(i) || (call.is_constant(i) && call.constant(i).numel() == 1);
  };
  if (!is_number(1) || !is_number(2))
    return call.set(call.call("clamp.Tensor", {call.tensor(0), call.optional_tensor(1), call.optional_tensor(2)}));
  const bool is_float = is_floating(call.meta(0).dtype);
  const auto bound = [&](size_t i) -> Argument {
    if (!call.has(i)) return {};
    return is_float ? Argument(call.number(i)) : Argument(call.constant(i).item_int());
  };
  call.set(call.call(is_float && call.has(1) && call.has(2) ? "hardtanh.default" : "clamp.default",
                     {call.tensor(0), bound(1), bound(2)}));
}

void leaky_relu(OnnxCall& call) {
  call.set(call.call("leaky_relu.default", {call.tensor(0), call.real("alpha", 0.01)}));
}

void elu(OnnxCall& call) { call.set(call.call("elu.default", {call.tensor(0), call.real("alpha", 1)})); }

void celu(OnnxCall& call) { call.set(call.call("celu.default", {call.tensor(0), call.real("alpha", 1)})); }

void selu(OnnxCall& call) {
  if (std::fabs(call.real("alpha", 1.6732632) - 1.6732632) > 1e-5 ||
      std::fabs(call.real("gamma", 1.0507010) - 1.0507010) > 1e-5)
    call.refuse("has an alpha or gamma that aten.selu does not have");
  call.set(call.call("selu.default", {call.tensor(0)}));
}

// A slope for each channel stands as [C, 1, 1]; PyTorch has it as [C].
void prelu(OnnxCall& call) {
  const SymShape& slope = call.meta(1).sizes;
  SymInt count = 1;
  for (const SymInt& size : slope) count = count * size;
  const size_t trailing = call.rank(0) < 2 ? 0 : call.rank(0) - 2;  // axes behind the channels
  const bool by_channel = slope.size() > trailing && count == slope[slope.size() - 1 - trailing];
  if (count != SymInt(1) && !by_channel) call.refuse("has slopes that differ along other axes than the channels");
  call.set(call.call("prelu.default",
                     {call.tensor(0), call.call("reshape.default", {call.tensor(1), Argument(Argument::List{-1})})}));
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

void cast(OnnxCall& call) {
  const int64_t number = call.integer("to", 0);
  const auto dtype = format::onnx_dtype(number);
  if (!dtype) call.refuse("makes values of data type ", number, ", which qdq does not have");
  if (*dtype == call.meta(0).dtype) return call.same_as_input(0);
  call.set(call.call("to.dtype", {call.tensor(0), *dtype}));
}

void cast_like(OnnxCall& call) {
  const DType dtype = call.meta(1).dtype;
  if (dtype == call.meta(0).dtype) return call.same_as_input(0);
  call.set(call.call("to.dtype", {call.tensor(0), dtype}));
}

void where(OnnxCall& call) { call.set(call.call("where.self", {call.tensor(0), call.tensor(1), call.tensor(2)})); }

constexpr OnnxOperator kOperators[] = {
    {"Abs", import_plain, "abs.default"},
    {"Add", add, "add.Tensor"},
    {"And", import_plain, "logical_and.default"},
    {"Cast", cast, nullptr},
    {"CastLike", cast_like, nullptr},
    {"Ceil", import_plain, "ceil.default"},
    {"Celu", celu, nullptr},
    {"Clip", clip, nullptr},
    {"Cos", import_plain, "cos.default"},
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
    {"IsInf", import_plain, "isinf.default"},
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
    {"Pow", pow, nullptr},
    {"Reciprocal", import_plain, "reciprocal.default"},
    {"Relu", import_plain, "relu.default"},
    {"Round", import_plain, "round.default"},
    {"Selu", selu, nullptr},
    {"Sigmoid", import_plain, "sigmoid.default"},
    {"Sign", import_plain, "sign.default"},
    {"Sin", import_plain, "sin.default"},
    {"Softplus", import_plain, "softplus.default"},
    {"Sqrt", import_plain, "sqrt.default"},
    {"Sub", sub, "sub.Tensor"},
    {"Sum", many, "add.Tensor"},
    {"Tanh", import_plain, "tanh.default"},
    {"Where", where, "where.self"},
    {"Xor", import_plain, "logical_xor.default"},
};

}  // namespace

std::span<const OnnxOperator> onnx_element_operators() { return kOperators; }

}  // namespace qdq
