// ATen operators over elements and along axes as ONNX ones. Those that map one to one stand in read_*.cpp.
#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>

#include "io/onnx/export.h"
#include "op/einsum.h"

namespace qdq {
namespace {

// add, sub, rsub with alpha; mul, div, maximum, minimum, pow.
void arithmetic(AtenCall& call) {
  static constexpr std::pair<std::string_view, const char*> kOps[] = {
      {"add", "Add"},     {"sub", "Sub"}, {"rsub", "Sub"}, {"mul", "Mul"}, {"div", "Div"},        {"maximum", "Max"},
      {"minimum", "Min"}, {"max", "Max"}, {"min", "Min"},  {"pow", "Pow"}, {"true_divide", "Div"}};
  static constexpr std::pair<std::string_view, const char*> kOfTruth[] = {
      {"add", "Or"}, {"mul", "And"}, {"maximum", "Or"}, {"minimum", "And"}, {"max", "Or"}, {"min", "And"}};
  const std::string name = call.base();
  const DType dtype = call.result().dtype;
  std::string a = call.operand(0, dtype), b = call.operand(1, dtype);
  if (const char* op = onnx_name(kOfTruth, name); op && dtype == DType::kBool) return call.finish(op, {a, b});
  const bool has_alpha = name == "add" || name == "sub" || name == "rsub";
  if (name == "rsub") std::swap(a, b);
  if (has_alpha && call.number(2) != 1) b = call.emit("Mul", {b, call.scalar_of(2, dtype)});
  call.finish(onnx_name(kOps, name), {a, b});
}

// What is left of floats has the sign of what was divided; whether it is not the divisor's.
std::string has_other_sign(AtenCall& call, const std::string& rest, const std::string& divisor) {
  const std::string zero = call.scalar(0, call.result().dtype);
  const std::string differs = call.emit("Xor", {call.emit("Less", {rest, zero}), call.emit("Less", {divisor, zero})});
  return call.emit("And", {differs, call.emit("Not", {call.emit("Equal", {rest, zero})})});
}

// As PyTorch has it, without the rounding of a quotient that is nearly whole; of infinities, and by 0, the quotient.
void floor_of_quotient(AtenCall& call, const std::string& a, const std::string& b) {
  const DType dtype = call.result().dtype;
  const std::string rest = call.emit("Mod", {a, b}, {"fmod", 1});
  const std::string whole = call.emit("Div", {call.emit("Sub", {a, rest}), b});
  const std::string less = call.emit("Sub", {whole, call.scalar(1, dtype)});
  const std::string down = call.emit("Round", {call.emit("Where", {has_other_sign(call, rest, b), less, whole})});
  const std::string quotient = call.emit("Div", {a, b});
  const std::string is_zero = call.emit("Equal", {b, call.scalar(0, dtype)});
  call.finish("Where", {is_zero, quotient, down});
}

// Quotients of integers are rounded toward zero by ONNX; remainders with the divisor's sign are its Mod of integers,
// those of C its fmod.
void whole_division(AtenCall& call) {
  const DType dtype = call.result().dtype;
  const std::string a = call.operand(0, dtype), b = call.operand(1, dtype);
  const bool rounds_down = call.base() == "floor_divide" || call.arg(2) == Argument("floor");
  if (!rounds_down && call.arg(2) != Argument("trunc")) return call.finish("Div", {a, b});
  if (is_integral(dtype)) {
    if (!rounds_down) return call.finish("Div", {a, b});
    // What is left has the divisor's sign; without it the quotient is whole.
    return call.finish("Div", {call.emit("Sub", {a, call.emit("Mod", {a, b})}), b});
  }
  if (rounds_down) return floor_of_quotient(call, a, b);
  const std::string quotient = call.emit("Div", {a, b});
  const std::string down = call.emit("Floor", {call.emit("Abs", {quotient})});
  call.finish("Mul", {down, call.emit("Sign", {quotient})});
}
void remainder(AtenCall& call) {
  const DType dtype = call.result().dtype;
  const std::string a = call.operand(0, dtype), b = call.operand(1, dtype);
  const bool is_fmod = call.base() == "fmod";
  if (is_fmod || is_integral(dtype)) return call.finish("Mod", {a, b}, {"fmod", is_fmod});
  const std::string rest = call.emit("Mod", {a, b}, {"fmod", 1});
  call.finish("Where", {has_other_sign(call, rest, b), call.emit("Add", {rest, b}), rest});
}

void compare(AtenCall& call) {
  static constexpr std::pair<std::string_view, const char*> kOps[] = {{"eq", "Equal"},   {"ne", "Equal"},
                                                                      {"lt", "Less"},    {"le", "LessOrEqual"},
                                                                      {"gt", "Greater"}, {"ge", "GreaterOrEqual"}};
  const DType dtype = call.common_dtype(0, 1);
  if (dtype == DType::kString && !call.file().reaches(19))
    call.refuse("compares strings, which ONNX does since opset 19; write that one or a later one");
  std::vector<std::string> operands = {call.operand(0, dtype), call.operand(1, dtype)};
  const std::string name = call.base();
  if (name != "ne") return call.finish(onnx_name(kOps, name), operands);
  call.finish("Not", {call.emit("Equal", operands)});
}

void logical(AtenCall& call) {
  static constexpr std::pair<std::string_view, const char*> kOps[] = {
      {"bitwise_and", "And"}, {"bitwise_or", "Or"}, {"bitwise_xor", "Xor"}, {"bitwise_not", "Not"},
      {"__and__", "And"},     {"__or__", "Or"},     {"__xor__", "Xor"}};
  const std::string name = call.base();
  const DType dtype = call.result().dtype;
  std::vector<std::string> inputs = {call.operand(0, dtype)};
  if (name != "bitwise_not") inputs.push_back(call.operand(1, dtype));
  call.finish(concat(dtype == DType::kBool ? "" : "Bitwise", onnx_name(kOps, name)), inputs);
}

// isinf, isnan
void is_special(AtenCall& call) {
  const DType dtype = call.meta(0).dtype;
  call.finish(call.base() == "isnan" ? "IsNaN" : "IsInf", {call.operand(0, is_floating(dtype) ? dtype : DType::kF32)});
}
void sigmoid(AtenCall& call) { call.finish("Sigmoid", {call.operand(0, call.result().dtype)}); }
void rsqrt(AtenCall& call) { call.finish("Reciprocal", {call.emit("Sqrt", {call.operand(0, call.result().dtype)})}); }
void square(AtenCall& call) { call.finish("Mul", {call.tensor(0), call.tensor(0)}); }
void silu(AtenCall& call) { call.finish("Mul", {call.tensor(0), call.emit("Sigmoid", {call.tensor(0)})}); }

void gelu(AtenCall& call) {
  const std::string x = call.tensor(0);
  const DType dtype = call.result().dtype;
  const auto number = [&](double value) { return call.scalar(value, dtype); };
  const bool is_tanh = call.arg(1) == Argument("tanh");
  std::string curve;
  if (is_tanh) {
    const std::string cube = call.emit("Mul", {call.emit("Pow", {x, number(3)}), number(0.044715)});
    curve = call.emit("Tanh",
                      {call.emit("Mul", {call.emit("Add", {x, cube}), number(std::sqrt(2 / 3.14159265358979323846))})});
  } else {
    curve = call.emit("Erf", {call.emit("Div", {x, number(std::sqrt(2.0))})});
  }
  const std::string product = call.emit("Mul", {x, call.emit("Add", {curve, number(1)})});
  call.finish("Mul", {product, number(0.5)});
}

void clip(AtenCall& call) {
  const std::string name = call.base();
  const DType dtype = call.result().dtype;
  std::string low, high;
  if (name == "relu6") low = call.scalar(0, dtype), high = call.scalar(6, dtype);
  else if (name == "clamp_max") high = call.operand(1, dtype);
  else if (!call.is_none(1)) low = call.operand(1, dtype);
  if (name != "relu6" && name != "clamp_max" && name != "clamp_min" && !call.is_none(2)) high = call.operand(2, dtype);
  call.finish("Clip", {call.operand(0, dtype), low, high});
}

// ONNX's Clip has numbers for bounds.
void clip_by_tensors(AtenCall& call) {
  const DType dtype = call.result().dtype;
  std::string x = call.operand(0, dtype);
  if (!call.is_none(1)) x = call.emit("Max", {x, call.operand(1, dtype)});
  if (!call.is_none(2)) x = call.emit("Min", {x, call.operand(2, dtype)});
  call.finish("Identity", {x});
}

void with_alpha(AtenCall& call) {
  static constexpr std::pair<std::string_view, const char*> kOps[] = {
      {"leaky_relu", "LeakyRelu"}, {"elu", "Elu"}, {"celu", "Celu"}};
  const std::string name = call.base();
  const double alpha = call.number(1);
  if (name != "elu" || (call.number(2) == 1 && call.number(3) == 1))
    return call.finish(onnx_name(kOps, name), {call.tensor(0)}, {"alpha", alpha});
  if (call.number(3) != 1) call.refuse("scales its input, which ONNX's Selu does not");
  call.finish("Selu", {call.tensor(0)}, {"alpha", alpha, "gamma", call.number(2)});
}

void hard_shrink(AtenCall& call) { call.finish("Shrink", {call.tensor(0)}, {"bias", 0.0, "lambd", call.number(1)}); }

void threshold(AtenCall& call) {
  const DType dtype = call.result().dtype;
  if (call.number(2) == 0 && call.number(1) >= 0 && dtype != DType::kF16)
    return call.finish("ThresholdedRelu", {call.tensor(0)}, {"alpha", call.number(1)});
  const std::string is_above = call.emit("Greater", {call.tensor(0), call.operand(1, dtype)});
  call.finish("Where", {is_above, call.tensor(0), call.operand(2, dtype)});
}

void mish(AtenCall& call) {
  if (call.file().opset() >= 18) return call.finish("Mish", {call.tensor(0)});
  call.finish("Mul", {call.tensor(0), call.emit("Tanh", {call.emit("Softplus", {call.tensor(0)})})});
}

void selu(AtenCall& call) { call.finish("Selu", {call.tensor(0)}); }
void hard_sigmoid(AtenCall& call) { call.finish("HardSigmoid", {call.tensor(0)}, {"alpha", 1.0 / 6, "beta", 0.5}); }

void softplus(AtenCall& call) {
  if (call.number(1) != 1) call.refuse("has beta ", call.number(1), ", ONNX's Softplus has 1");
  call.finish("Softplus", {call.tensor(0)});
}

void prelu(AtenCall& call) {
  std::vector<int64_t> sizes = {-1};
  for (size_t i = 2; i < call.rank(0); ++i) sizes.push_back(1);
  call.finish("PRelu", {call.tensor(0), call.emit("Reshape", {call.tensor(1), call.integers_as_tensor(sizes)})});
}

void softmax(AtenCall& call) {
  const std::string x = call.operand(0, call.result().dtype);
  if (call.rank(0) == 0) call.refuse("is of a tensor without axes");
  call.finish(call.base().find("log") == std::string::npos ? "Softmax" : "LogSoftmax", {x},
              {"axis", call.axis(1, call.rank(0))});
}

// Axes of a reduction: an input of a sum since opset 13, and of the others since 18.
void finish_reduction(AtenCall& call, const char* op, const std::string& input, const std::vector<int64_t>& axes,
                      bool keeps_dims) {
  // Before opset 20 there is no largest of truth values; 8-bit integers have one.
  const bool is_bool = call.result().dtype == DType::kBool;
  std::vector<std::string> inputs = {is_bool ? call.cast(input, DType::kBool, DType::kU8) : input};
  OnnxAttributes attributes = {"keepdims", keeps_dims};
  const bool is_input = call.file().opset() >= 18 || std::string_view(op) == "ReduceSum";
  if (!axes.empty() && is_input) inputs.push_back(call.integers_as_tensor(axes));
  else if (!axes.empty()) attributes.add("axes", axes);
  if (!is_bool) return call.finish(op, inputs, attributes);
  call.finish("Cast", {call.emit(op, inputs, attributes)}, {"to", format::onnx_number(DType::kBool)});
}

void product(AtenCall& call) {
  const bool is_whole = call.name() == "prod.default";
  const std::vector<int64_t> axes =
      is_whole || call.rank(0) == 0 ? std::vector<int64_t>() : std::vector<int64_t>{call.axis(1, call.rank(0))};
  finish_reduction(call, "ReduceProd", call.operand(0, call.result().dtype), axes, !is_whole && call.flag(2));
}

// mean, sum, amax, amin, logsumexp: (self, dim, keepdim)
void reduce(AtenCall& call) {
  static constexpr std::pair<std::string_view, const char*> kOps[] = {
      {"mean", "ReduceMean"}, {"sum", "ReduceSum"}, {"amax", "ReduceMax"},           {"amin", "ReduceMin"},
      {"max", "ReduceMax"},   {"min", "ReduceMin"}, {"logsumexp", "ReduceLogSumExp"}};
  const std::string name = call.base();
  const bool takes_axes = call.name() != name + ".default" || name == "amax" || name == "amin" || name == "logsumexp";
  const std::vector<int64_t> axes = takes_axes ? call.axes(1, call.rank(0)) : std::vector<int64_t>();
  finish_reduction(call, onnx_name(kOps, name), call.operand(0, call.result().dtype), axes, takes_axes && call.flag(2));
}

// any, all: (self, dim, keepdim)
void any(AtenCall& call) {
  const bool is_whole = call.name().ends_with(".default");
  const std::vector<int64_t> axes = is_whole ? std::vector<int64_t>() : call.axes(1, call.rank(0));
  const std::string whole = call.cast(call.operand(0, DType::kBool), DType::kBool, DType::kU8);
  const std::string found =
      call.reduce(call.base() == "any" ? "ReduceMax" : "ReduceMin", whole, axes, !is_whole && call.flag(2));
  call.finish("Cast", {found}, {"to", format::onnx_number(call.result().dtype)});
}

void arg_max(AtenCall& call) {
  const char* op = call.base() == "argmax" ? "ArgMax" : "ArgMin";
  if (call.is_none(1) || call.rank(0) == 0) {
    if (call.flag(2) && call.rank(0) > 0) call.refuse("searches all axes at once and keeps them, which ONNX cannot");
    const std::string flat = call.emit("Reshape", {call.tensor(0), call.integers_as_tensor({-1})});
    return call.finish(op, {flat}, {"axis", 0, "keepdims", 0});
  }
  call.finish(op, {call.tensor(0)}, {"axis", call.axis(1, call.rank(0)), "keepdims", call.flag(2)});
}

void topk(AtenCall& call) {
  if (call.rank(0) == 0) call.refuse("is of a tensor without axes");
  const Argument& k = call.arg(1);
  const std::string count = k.is_node()
                                ? call.emit("Reshape", {call.operand(k, DType::kS64), call.integers_as_tensor({1})})
                                : call.integers_as_tensor({call.integer(1)});
  call.file().emit_many("TopK", {call.tensor(0), count},
                        {"axis", call.axis(2, call.rank(0)), "largest", call.flag(3), "sorted", call.flag(4)},
                        call.name_results(2), call.node().meta.extra_of(kOnnxNode));
}

void cumsum(AtenCall& call) {
  if (call.rank(0) == 0) return call.same_as(call.operand(0, call.result().dtype));
  const std::string axis = call.scalar(static_cast<double>(call.axis(1, call.rank(0))), DType::kS64);
  call.finish("CumSum", {call.operand(0, call.result().dtype), axis});
}

void where(AtenCall& call) {
  const DType dtype = call.result().dtype;
  call.finish("Where", {call.operand(0, DType::kBool), call.operand(1, dtype), call.operand(2, dtype)});
}
void masked_fill(AtenCall& call) {
  const DType dtype = call.result().dtype;
  call.finish("Where", {call.tensor(1), call.operand(2, dtype), call.operand(0, dtype)});
}

void cast(AtenCall& call) {
  const DType dtype = call.result().dtype;
  const DType from = call.meta(0).dtype;
  if (dtype == from) return call.same_as(call.tensor(0));
  const bool has_float8 = is_float8(dtype) || is_float8(from);
  if (has_float8 && !call.file().reaches(kFirstWithFloat8))
    call.refuse("casts ", to_string(from), " to ", to_string(dtype), ", which ONNX can from opset ", kFirstWithFloat8,
                " on");
  const int64_t to = format::onnx_number(dtype);
  if (is_float8(dtype)) return call.finish("Cast", {call.tensor(0)}, {"to", to, "saturate", 0});
  call.finish("Cast", {call.tensor(0)}, {"to", to});
}

void identity(AtenCall& call) {
  const bool is_dropout = call.base().find("dropout") != std::string::npos;
  if (is_dropout && call.flag(2)) {
    if (call.base() != "dropout") call.refuse("is in training mode; export the model in inference mode");
    const std::string training =
        call.file().constant(Tensor::full({}, DType::kBool, 1), call.node().name() + "_training");
    return call.finish("Dropout", {call.tensor(0), call.scalar(call.number(1), DType::kF32), training});
  }
  call.same_as(call.tensor(0));
}

// The values of a list are written with it; an item stands for one of them.
void getitem(AtenCall& call) {
  const Node* list = call.arg(0).node();
  if (list == nullptr) call.refuse("takes an item of something that is not a result");
  call.same_as(call.file().item(list, static_cast<size_t>(call.integer(1))));
}

// zeros, ones, full and their likes: (size, value) or (self, value)
void full(AtenCall& call) {
  const std::string name = call.base();
  const DType dtype = call.result().dtype;
  const bool is_like = name.ends_with("_like");
  Tensor value = Tensor::full({1}, dtype, name.starts_with("ones") ? 1 : 0);
  if (name.starts_with("full"))
    value = call.arg(1).is<int64_t>() ? Tensor::of<int64_t>({1}, {call.integer(1)}).to(dtype)
                                      : Tensor::full({1}, dtype, call.number(1));
  const std::string sizes = is_like ? call.emit("Shape", {call.tensor(0)}) : call.sizes(0, false);
  call.finish("ConstantOfShape", {sizes}, {"value", value});
}

void arange(AtenCall& call) {
  const DType dtype = call.result().dtype;
  const size_t given = call.name() == "arange.default" ? 1 : call.name() == "arange.start" ? 2 : 3;
  // ONNX Runtime makes a Slice of a Range and the Gather behind it, and loses one that goes down to 0: its end is -1.
  if (const std::optional<int64_t> step = given == 3 ? call.arg(2).integer() : std::nullopt;
      step && *step < 0 && is_integral(dtype)) {
    const std::string start = call.operand(0, dtype), way = call.emit("Sub", {start, call.operand(1, dtype)}),
                      up = call.emit("Range",
                                     {call.scalar(0, dtype), way, call.scalar(-static_cast<double>(*step), dtype)});
    return call.finish("Sub", {start, up});
  }
  call.finish("Range",
              {given == 1 ? call.scalar(0, dtype) : call.operand(0, dtype), call.operand(given == 1 ? 0 : 1, dtype),
               given == 3 ? call.operand(2, dtype) : call.scalar(1, dtype)});
}

// ONNX Runtime has none of other integers than int64.
void triangle(AtenCall& call) {
  const DType dtype = call.result().dtype;
  const bool is_cast = is_integral(dtype) && dtype != DType::kBool && dtype != DType::kS64;
  const OnnxNames inputs = {call.operand(0, is_cast ? DType::kS64 : dtype),
                            call.scalar(static_cast<double>(call.integer(1)), DType::kS64)};
  const OnnxAttributes attributes = {"upper", call.base() == "triu"};
  if (!is_cast) return call.finish("Trilu", inputs, attributes);
  call.finish("Cast", {call.emit("Trilu", inputs, attributes)}, {"to", format::onnx_number(dtype)});
}

void scalar_tensor(AtenCall& call) { call.same_as(call.operand(0, call.result().dtype)); }

void einsum(AtenCall& call) {
  std::vector<std::string> inputs;
  for (const Argument& input : call.arg(1).list()) inputs.push_back(call.operand(input, call.result().dtype));
  std::string text = call.arg(0).as<std::string>();
  if (text.find("...") != std::string::npos) {
    // ONNX Runtime wants equally many axes behind "..."; each axis gets a letter.
    std::vector<size_t> ranks;
    for (const Argument& input : call.arg(1).list()) ranks.push_back(call.meta_of(input.node()).sizes.size());
    const EinsumEquation equation = parse_einsum(text, ranks);
    std::string free;
    for (char letter = 'z'; letter >= 'a'; --letter)
      if (text.find(letter) == std::string::npos) free += letter;
    std::string spelt;
    for (const std::string& input : equation.inputs) spelt += (spelt.empty() ? "" : ",") + input;
    spelt += "->" + equation.output;
    for (char& letter : spelt)
      if (letter >= '0' && letter <= '9') {
        const auto place = static_cast<size_t>('9' - letter);
        if (place >= free.size()) call.refuse("has more axes than ONNX has letters");
        letter = free[place];
      }
    text = spelt;
  }
  call.finish("Einsum", inputs, {"equation", text.c_str()});
}

constexpr AtenExporter kExporters[] = {{"__and__.Scalar", logical},
                                       {"__and__.Tensor", logical},
                                       {"__or__.Scalar", logical},
                                       {"__or__.Tensor", logical},
                                       {"__xor__.Scalar", logical},
                                       {"__xor__.Tensor", logical},
                                       {"_log_softmax.default", softmax},
                                       {"_softmax.default", softmax},
                                       {"_to_copy.default", cast},
                                       {"add.Scalar", arithmetic},
                                       {"add.Tensor", arithmetic},
                                       {"alias.default", identity},
                                       {"alias_copy.default", identity},
                                       {"all.default", any},
                                       {"all.dim", any},
                                       {"all.dims", any},
                                       {"alpha_dropout.default", identity},
                                       {"amax.default", reduce},
                                       {"amin.default", reduce},
                                       {"any.default", any},
                                       {"any.dim", any},
                                       {"any.dims", any},
                                       {"arange.default", arange},
                                       {"arange.start", arange},
                                       {"arange.start_step", arange},
                                       {"argmax.default", arg_max},
                                       {"argmin.default", arg_max},
                                       {"bitwise_and.Scalar", logical},
                                       {"bitwise_and.Scalar_Tensor", logical},
                                       {"bitwise_and.Tensor", logical},
                                       {"bitwise_not.default", logical},
                                       {"bitwise_or.Scalar", logical},
                                       {"bitwise_or.Scalar_Tensor", logical},
                                       {"bitwise_or.Tensor", logical},
                                       {"bitwise_xor.Scalar", logical},
                                       {"bitwise_xor.Scalar_Tensor", logical},
                                       {"bitwise_xor.Tensor", logical},
                                       {"celu.default", with_alpha},
                                       {"clamp.Tensor", clip_by_tensors},
                                       {"clamp.default", clip},
                                       {"clamp_max.default", clip},
                                       {"clamp_min.default", clip},
                                       {"clone.default", identity},
                                       {"contiguous.default", identity},
                                       {"convert_element_type.no_fuse", cast},
                                       {"cumsum.default", cumsum},
                                       {"detach.default", identity},
                                       {"detach_copy.default", identity},
                                       {"div.Scalar", arithmetic},
                                       {"div.Scalar_mode", whole_division},
                                       {"div.Tensor", arithmetic},
                                       {"div.Tensor_mode", whole_division},
                                       {"dropout.default", identity},
                                       {"einsum.default", einsum},
                                       {"elu.default", with_alpha},
                                       {"empty.memory_format", full},
                                       {"empty_like.default", full},
                                       {"eq.Scalar", compare},
                                       {"eq.Tensor", compare},
                                       {"feature_alpha_dropout.default", identity},
                                       {"feature_dropout.default", identity},
                                       {"floor_divide.Scalar", whole_division},
                                       {"floor_divide.default", whole_division},
                                       {"fmod.Scalar", remainder},
                                       {"fmod.Tensor", remainder},
                                       {"full.default", full},
                                       {"full_like.default", full},
                                       {"ge.Scalar", compare},
                                       {"ge.Tensor", compare},
                                       {"gelu.default", gelu},
                                       {"gt.Scalar", compare},
                                       {"gt.Tensor", compare},
                                       {"hardshrink.default", hard_shrink},
                                       {"hardsigmoid.default", hard_sigmoid},
                                       {"hardtanh.default", clip},
                                       {"isinf.default", is_special},
                                       {"isnan.default", is_special},
                                       {"le.Scalar", compare},
                                       {"le.Tensor", compare},
                                       {"leaky_relu.default", with_alpha},
                                       {"lift_fresh.default", identity},
                                       {"lift_fresh_copy.default", identity},
                                       {"log_softmax.int", softmax},
                                       {"logsumexp.default", reduce},
                                       {"lt.Scalar", compare},
                                       {"lt.Tensor", compare},
                                       {"masked_fill.Scalar", masked_fill},
                                       {"masked_fill.Tensor", masked_fill},
                                       {"max.default", reduce},
                                       {"max.other", arithmetic},
                                       {"maximum.default", arithmetic},
                                       {"mean.default", reduce},
                                       {"mean.dim", reduce},
                                       {"min.default", reduce},
                                       {"min.other", arithmetic},
                                       {"minimum.default", arithmetic},
                                       {"mish.default", mish},
                                       {"mul.Scalar", arithmetic},
                                       {"mul.Tensor", arithmetic},
                                       {"ne.Scalar", compare},
                                       {"ne.Tensor", compare},
                                       {"ones.default", full},
                                       {"ones_like.default", full},
                                       {"operator.getitem", getitem},
                                       {"positive.default", identity},
                                       {"pow.Scalar", arithmetic},
                                       {"pow.Tensor_Scalar", arithmetic},
                                       {"pow.Tensor_Tensor", arithmetic},
                                       {"prelu.default", prelu},
                                       {"prod.default", product},
                                       {"prod.dim_int", product},
                                       {"relu6.default", clip},
                                       {"remainder.Scalar", remainder},
                                       {"remainder.Scalar_Tensor", remainder},
                                       {"remainder.Tensor", remainder},
                                       {"resolve_neg.default", identity},
                                       {"rsqrt.default", rsqrt},
                                       {"rsub.Scalar", arithmetic},
                                       {"rsub.Tensor", arithmetic},
                                       {"scalar_tensor.default", scalar_tensor},
                                       {"selu.default", selu},
                                       {"silu.default", silu},
                                       {"softmax.int", softmax},
                                       {"softplus.default", softplus},
                                       {"special_expit.default", sigmoid},
                                       {"special_log_softmax.default", softmax},
                                       {"special_softmax.default", softmax},
                                       {"square.default", square},
                                       {"sub.Scalar", arithmetic},
                                       {"sub.Tensor", arithmetic},
                                       {"sum.default", reduce},
                                       {"sum.dim_IntList", reduce},
                                       {"threshold.default", threshold},
                                       {"to.device", cast},
                                       {"to.dtype", cast},
                                       {"to.dtype_layout", cast},
                                       {"to.other", cast},
                                       {"topk.default", topk},
                                       {"tril.default", triangle},
                                       {"triu.default", triangle},
                                       {"true_divide.Scalar", arithmetic},
                                       {"true_divide.Tensor", arithmetic},
                                       {"type_as.default", cast},
                                       {"where.Scalar", where},
                                       {"where.ScalarOther", where},
                                       {"where.ScalarSelf", where},
                                       {"where.self", where},
                                       {"zeros.default", full},
                                       {"zeros_like.default", full}};

}  // namespace

std::span<const AtenExporter> element_exporters() { return kExporters; }

const AtenExporter* find_aten_exporter(std::string_view name) {
  static const auto all = [] {
    std::unordered_map<std::string_view, const AtenExporter*> out;
    for (const auto& table :
         {attention_exporters(), composed_exporters(), composed_layer_exporters(), composed_place_exporters(),
          composed_rare_exporters(), element_exporters(), layer_exporters(), control_exporters(), place_exporters(),
          signal_exporters(), size_exporters(), string_exporters(), tree_exporters(), view_exporters()})
      for (const AtenExporter& exporter : table) out.emplace(exporter.name, &exporter);
    return out;
  }();
  const auto found = all.find(name);
  return found == all.end() ? nullptr : found->second;
}

}  // namespace qdq
