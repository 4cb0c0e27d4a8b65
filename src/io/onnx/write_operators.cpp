// ATen operators without weights as ONNX ones: arithmetic, shapes, choices. Those that map one to one stand in
// read_*.cpp.
#include "io/onnx/export.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>

namespace qdq {
namespace {

// The name in front of the overload: "add.Tensor" -> "add".
std::string base(const AtenCall& call) { return call.name().substr(0, call.name().find('.')); }

template <size_t N>
const char* find(const std::pair<std::string_view, const char*> (&table)[N], std::string_view name) {
  for (const auto& [known, op] : table)
    if (known == name) return op;
  return nullptr;
}

// add, sub, rsub with alpha; mul, div, maximum, minimum, pow.
void arithmetic(AtenCall& call) {
  static constexpr std::pair<std::string_view, const char*> kOps[] = {
      {"add", "Add"},     {"sub", "Sub"},     {"rsub", "Sub"}, {"mul", "Mul"}, {"div", "Div"},
      {"maximum", "Max"}, {"minimum", "Min"}, {"max", "Max"},  {"min", "Min"}, {"pow", "Pow"}};
  const std::string name = base(call);
  const DType dtype = call.result().dtype;
  std::string a = call.operand(0, dtype), b = call.operand(1, dtype);
  const bool has_alpha = name == "add" || name == "sub" || name == "rsub";
  if (has_alpha && call.number(2) != 1) b = call.emit("Mul", {b, call.scalar(call.number(2), dtype)});
  if (name == "rsub") std::swap(a, b);
  call.finish(find(kOps, name), {a, b});
}

// Quotients of integers are rounded toward zero by ONNX; remainders with the divisor's sign are its Mod of integers,
// those of C its fmod.
void whole_division(AtenCall& call) {
  const DType dtype = call.result().dtype;
  const std::string a = call.operand(0, dtype), b = call.operand(1, dtype);
  const bool rounds_down = base(call) == "floor_divide" || call.arg(2) == Argument("floor");
  if (!rounds_down && call.arg(2) != Argument("trunc"))
    call.refuse("rounds a quotient in a way that ONNX does not have");
  if (is_integral(dtype)) {
    if (!rounds_down) return call.finish("Div", {a, b});
    // What is left has the divisor's sign; without it the quotient is whole.
    return call.finish("Div", {call.emit("Sub", {a, call.emit("Mod", {a, b})}), b});
  }
  const std::string quotient = call.emit("Div", {a, b});
  if (rounds_down) return call.finish("Floor", {quotient});
  const std::string down = call.emit("Floor", {call.emit("Abs", {quotient})});
  call.finish("Mul", {down, call.emit("Sign", {quotient})});
}
void remainder(AtenCall& call) {
  const bool is_fmod = base(call) == "fmod";
  const DType dtype = call.result().dtype;
  if (!is_fmod && !is_integral(dtype))
    call.refuse("takes a remainder of floats with the divisor's sign, which ONNX cannot");
  call.finish("Mod", {call.operand(0, dtype), call.operand(1, dtype)}, {"fmod", is_fmod});
}

void compare(AtenCall& call) {
  static constexpr std::pair<std::string_view, const char*> kOps[] = {{"eq", "Equal"},   {"ne", "Equal"},
                                                                      {"lt", "Less"},    {"le", "LessOrEqual"},
                                                                      {"gt", "Greater"}, {"ge", "GreaterOrEqual"}};
  const DType dtype = call.common_dtype(0, 1);
  if (dtype == DType::kString && !call.file().reaches(19))
    call.refuse("compares strings, which ONNX does since opset 19; write that one or a later one");
  std::vector<std::string> operands = {call.operand(0, dtype), call.operand(1, dtype)};
  const std::string name = base(call);
  if (name != "ne") return call.finish(find(kOps, name), operands);
  call.finish("Not", {call.emit("Equal", operands)});
}

void logical(AtenCall& call) {
  static constexpr std::pair<std::string_view, const char*> kOps[] = {
      {"bitwise_and", "And"}, {"bitwise_or", "Or"}, {"bitwise_xor", "Xor"}, {"bitwise_not", "Not"},
      {"__and__", "And"},     {"__or__", "Or"},     {"__xor__", "Xor"}};
  const std::string name = base(call);
  const DType dtype = call.result().dtype;
  std::vector<std::string> inputs = {call.operand(0, dtype)};
  if (name != "bitwise_not") inputs.push_back(call.operand(1, dtype));
  call.finish(concat(dtype == DType::kBool ? "" : "Bitwise", find(kOps, name)), inputs);
}

// Half floats are among its types since opset 20.
void is_inf(AtenCall& call) {
  const DType dtype = call.meta(0).dtype;
  call.finish("IsInf", {call.cast(call.tensor(0), dtype, dtype == DType::kF64 ? dtype : DType::kF32)});
}
void rsqrt(AtenCall& call) { call.finish("Reciprocal", {call.emit("Sqrt", {call.tensor(0)})}); }
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
  const std::string name = base(call);
  const DType dtype = call.result().dtype;
  std::string low, high;
  if (name == "relu6") low = call.scalar(0, dtype), high = call.scalar(6, dtype);
  else if (name == "clamp_max") high = call.operand(1, dtype);
  else if (!call.is_none(1)) low = call.operand(1, dtype);
  if (name != "relu6" && name != "clamp_max" && name != "clamp_min" && !call.is_none(2)) high = call.operand(2, dtype);
  call.finish("Clip", {call.tensor(0), low, high});
}

void with_alpha(AtenCall& call) {
  static constexpr std::pair<std::string_view, const char*> kOps[] = {
      {"leaky_relu", "LeakyRelu"}, {"elu", "Elu"}, {"celu", "Celu"}};
  const std::string name = base(call);
  const double alpha = call.number(1);
  if (name != "elu" || (call.number(2) == 1 && call.number(3) == 1))
    return call.finish(find(kOps, name), {call.tensor(0)}, {"alpha", alpha});
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

void shift(AtenCall& call) {
  const DType dtype = call.result().dtype;
  if (!is_integral(dtype) || min_of(dtype) < 0) call.refuse("shifts ", to_string(dtype), ", ONNX unsigned integers");
  call.finish("BitShift", {call.operand(0, dtype), call.operand(1, dtype)},
              {"direction", base(call) == "bitwise_left_shift" ? "LEFT" : "RIGHT"});
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
  const bool takes_dtype = !call.is_none(2) && call.arg(2).is<DType>();
  if (takes_dtype && call.arg(2).as<DType>() != call.meta(0).dtype)
    call.refuse("converts to another data type as it goes");
  call.finish(base(call).find("log") == std::string::npos ? "Softmax" : "LogSoftmax", {call.tensor(0)},
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
      is_whole ? std::vector<int64_t>() : std::vector<int64_t>{call.axis(1, call.rank(0))};
  finish_reduction(call, "ReduceProd", call.operand(0, call.result().dtype), axes, !is_whole && call.flag(2));
}

// mean, sum, amax, amin, logsumexp: (self, dim, keepdim)
void reduce(AtenCall& call) {
  static constexpr std::pair<std::string_view, const char*> kOps[] = {
      {"mean", "ReduceMean"}, {"sum", "ReduceSum"}, {"amax", "ReduceMax"},           {"amin", "ReduceMin"},
      {"max", "ReduceMax"},   {"min", "ReduceMin"}, {"logsumexp", "ReduceLogSumExp"}};
  const std::string name = base(call);
  const bool takes_axes = call.name() != name + ".default" || name == "amax" || name == "amin" || name == "logsumexp";
  const std::vector<int64_t> axes = takes_axes ? call.axes(1, call.rank(0)) : std::vector<int64_t>();
  finish_reduction(call, find(kOps, name), call.operand(0, call.result().dtype), axes, takes_axes && call.flag(2));
}

// any, all: (self, dim, keepdim)
void any(AtenCall& call) {
  const bool is_whole = call.name().ends_with(".default");
  const std::vector<int64_t> axes = is_whole ? std::vector<int64_t>() : call.axes(1, call.rank(0));
  finish_reduction(call, base(call) == "any" ? "ReduceMax" : "ReduceMin", call.operand(0, DType::kBool), axes,
                   !is_whole && call.flag(2));
}

void arg_max(AtenCall& call) {
  const char* op = base(call) == "argmax" ? "ArgMax" : "ArgMin";
  if (call.is_none(1)) {
    if (call.flag(2)) call.refuse("searches all axes at once and keeps them, which ONNX cannot");
    const std::string flat = call.emit("Reshape", {call.tensor(0), call.integers_as_tensor({-1})});
    return call.finish(op, {flat}, {"axis", 0, "keepdims", 0});
  }
  call.finish(op, {call.tensor(0)}, {"axis", call.axis(1, call.rank(0)), "keepdims", call.flag(2)});
}

void topk(AtenCall& call) {
  const Argument& k = call.arg(1);
  const std::string count = k.is_node()
                                ? call.emit("Reshape", {call.operand(k, DType::kS64), call.integers_as_tensor({1})})
                                : call.integers_as_tensor({call.integer(1)});
  call.file().emit_many("TopK", {call.tensor(0), count},
                        {"axis", call.axis(2, call.rank(0)), "largest", call.flag(3), "sorted", call.flag(4)},
                        call.name_results(2), call.node().meta.extra_of(kOnnxNode));
}

void cumsum(AtenCall& call) {
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
  const bool is_dropout = base(call).find("dropout") != std::string::npos;
  if (is_dropout && call.flag(2)) {
    if (base(call) != "dropout") call.refuse("is in training mode; export the model in inference mode");
    const std::string training =
        call.file().constant(Tensor::full({}, DType::kBool, 1), call.node().name() + "_training");
    return call.finish("Dropout", {call.tensor(0), call.scalar(call.number(1), DType::kF32), training});
  }
  call.same_as(call.tensor(0));
}

// The values of a list are written with it; an item stands for one of them.
void getitem(AtenCall& call) {
  const Node* list = call.arg(0).node();
  if (list == nullptr) call.refuse("takes an item of something that is no result");
  call.same_as(call.file().item(list, static_cast<size_t>(call.integer(1))));
}

void split(AtenCall& call) {
  const auto* results = std::get_if<std::vector<ValueMeta>>(&call.node().meta.val.value);
  if (results == nullptr || results->empty()) call.refuse("gives an unknown number of parts");
  const int64_t axis = call.axis(call.node().target().find("unbind") != std::string::npos ? 1 : 2, call.rank(0));
  const bool unbinds = base(call) == "unbind";
  std::vector<int64_t> parts;
  const std::vector<std::string> names = call.name_results(results->size());
  std::vector<std::string> outputs;
  for (size_t i = 0; i < results->size(); ++i) {
    const TensorMeta& part = *(*results)[i].tensor();
    const auto size = unbinds ? std::optional<int64_t>(1) : part.sizes[static_cast<size_t>(axis)].constant();
    if (!size) call.refuse("divides an axis whose size is open");
    parts.push_back(*size);
    outputs.push_back(unbinds ? call.file().fresh(names[i] + "_part") : names[i]);
  }
  call.file().emit_many("Split", {call.tensor(0), call.integers_as_tensor(parts)}, {"axis", axis}, outputs,
                        call.node().meta.extra_of(kOnnxNode));
  if (unbinds)
    for (size_t i = 0; i < outputs.size(); ++i)
      call.file().emit("Squeeze", {outputs[i], call.integers_as_tensor({axis})}, {}, names[i]);
}

void join(AtenCall& call) {
  const bool stacks = base(call) == "stack";
  const DType dtype = call.result().dtype;
  const int64_t axis = call.axis(1, call.result().sizes.size());
  std::vector<std::string> parts;
  for (const Argument& part : call.arg(0).list()) {
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
      base(call) == "narrow" ? call.integers_as_tensor({call.integer(2) + call.integer(3)}) : bound(3, INT64_MAX);
  const int64_t step = base(call) == "narrow" ? 1 : call.integer(4);
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

void select(AtenCall& call) {
  call.finish("Gather", {call.tensor(0), call.operand(2, DType::kS64)}, {"axis", call.axis(1, call.rank(0))});
}
void embedding(AtenCall& call) {
  if (write_embedding_of_integers(call)) return;
  call.finish("Gather", {call.tensor(0), call.tensor(1)}, {"axis", 0});
}
void index_select(AtenCall& call) {
  call.finish("Gather", {call.tensor(0), call.tensor(2)}, {"axis", call.axis(1, call.rank(0))});
}
void gather(AtenCall& call) {
  call.finish("GatherElements", {call.tensor(0), call.tensor(2)}, {"axis", call.axis(1, call.rank(0))});
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
  for (const int64_t axis : call.name() == "squeeze.default" ? call.axes(99, rank) : call.axes(1, rank))
    if (call.meta(0).sizes[static_cast<size_t>(axis)] == SymInt(1)) axes.push_back(axis);
  if (axes.empty()) return call.same_as(call.tensor(0));
  call.finish("Squeeze", {call.tensor(0), call.integers_as_tensor(axes)});
}
void unsqueeze(AtenCall& call) {
  call.finish("Unsqueeze", {call.tensor(0), call.integers_as_tensor({call.axis(1, call.rank(0) + 1)})});
}

void permute(AtenCall& call) {
  const size_t rank = call.rank(0);
  std::vector<int64_t> axes;
  const std::string name = base(call);
  if (name == "permute" || name == "permute_copy") {
    axes = call.axes(1, rank);
  } else {
    for (size_t i = 0; i < rank; ++i) axes.push_back(static_cast<int64_t>(i));
    const bool turns = name == "t" || name == "t_copy";
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
                        : call.integers_as_tensor({std::max<int64_t>(1, *size.integer())}));
  call.finish("Expand", {call.tensor(0), call.emit("Concat", parts, {"axis", 0})});
}

void repeat(AtenCall& call) {
  const auto extra = static_cast<int64_t>(call.arg(1).list().size()) - static_cast<int64_t>(call.rank(0));
  std::string input = call.tensor(0);
  std::vector<int64_t> front;
  for (int64_t i = 0; i < extra; ++i) front.push_back(i);
  if (extra > 0) input = call.emit("Unsqueeze", {input, call.integers_as_tensor(front)});
  call.finish("Tile", {input, call.sizes(1, false)});
}

// PyTorch counts from the last axis.
void pad(AtenCall& call) {
  static constexpr std::pair<std::string_view, const char*> kModes[] = {
      {"constant", "constant"}, {"reflect", "reflect"}, {"replicate", "edge"}, {"circular", "wrap"}};
  const bool is_constant = call.name() == "constant_pad_nd.default";
  const std::string mode = is_constant ? "constant" : call.arg(2).as<std::string>();
  const char* known = find(kModes, mode);
  if (known == nullptr) call.refuse("pads in the mode ", mode, ", which ONNX does not have");
  if (mode == "circular" && !call.file().reaches(19)) call.refuse("pads in a circle, which ONNX can from opset 19 on");
  const Argument::List& reversed = call.arg(1).list();
  const size_t rank = call.rank(0);
  Argument::List pads(2 * rank, Argument(int64_t{0}));
  for (size_t i = 0; i + 1 < reversed.size(); i += 2) {
    pads[rank - 1 - i / 2] = reversed[i];
    pads[2 * rank - 1 - i / 2] = reversed[i + 1];
  }
  const size_t at = is_constant ? 2 : 3;
  std::vector<std::string> inputs = {call.tensor(0), call.sizes(pads, false)};
  if (mode == "constant") inputs.push_back(call.scalar(call.is_none(at) ? 0 : call.number(at), call.result().dtype));
  call.finish("Pad", inputs, {"mode", known});
}

// zeros, ones, full and their likes: (size, value) or (self, value)
void full(AtenCall& call) {
  const std::string name = base(call);
  const DType dtype = call.result().dtype;
  const bool is_like = name.ends_with("_like");
  double value = name.starts_with("ones") ? 1 : 0;
  if (name.starts_with("full")) value = call.number(1);
  const std::string sizes = is_like ? call.emit("Shape", {call.tensor(0)}) : call.sizes(0, false);
  call.finish("ConstantOfShape", {sizes}, {"value", Tensor::full({1}, dtype, value)});
}

void arange(AtenCall& call) {
  const DType dtype = call.result().dtype;
  const size_t given = call.name() == "arange.default" ? 1 : call.name() == "arange.start" ? 2 : 3;
  call.finish("Range",
              {given == 1 ? call.scalar(0, dtype) : call.operand(0, dtype), call.operand(given == 1 ? 0 : 1, dtype),
               given == 3 ? call.operand(2, dtype) : call.scalar(1, dtype)});
}

void triangle(AtenCall& call) {
  call.finish("Trilu", {call.tensor(0), call.scalar(static_cast<double>(call.integer(1)), DType::kS64)},
              {"upper", base(call) == "triu"});
}

void sym_size(AtenCall& call) {
  const std::string index = call.scalar(static_cast<double>(call.axis(1, call.rank(0))), DType::kS64);
  call.finish("Gather", {call.emit("Shape", {call.tensor(0)}), index}, {"axis", 0});
}

// Sizes are numbers without axes.
void sym_arithmetic(AtenCall& call) {
  static constexpr std::pair<std::string_view, const char*> kOps[] = {
      {"operator.add", "Add"}, {"operator.sub", "Sub"}, {"operator.mul", "Mul"}, {"operator.floordiv", "Div"}};
  call.finish(find(kOps, call.name()), {call.operand(0, DType::kS64), call.operand(1, DType::kS64)});
}

void scalar_tensor(AtenCall& call) { call.same_as(call.operand(0, call.result().dtype)); }

void einsum(AtenCall& call) {
  std::vector<std::string> inputs;
  for (const Argument& input : call.arg(1).list()) inputs.push_back(call.operand(input, call.result().dtype));
  call.finish("Einsum", inputs, {"equation", call.arg(0).as<std::string>().c_str()});
}

void pixel_shuffle(AtenCall& call) {
  call.finish("DepthToSpace", {call.tensor(0)}, {"blocksize", call.integer(1), "mode", "CRD"});
}

void norm(AtenCall& call) {
  const double order = call.number(1);
  if (order != 1 && order != 2) call.refuse("is of order ", order, ", ONNX has 1 and 2");
  finish_reduction(call, order == 1 ? "ReduceL1" : "ReduceL2", call.operand(0, call.result().dtype),
                   call.axes(2, call.rank(0)), call.flag(3));
}

// (x1, x2, p, compute_mode) of two matrices; ONNX has no such operator, ONNX Runtime one.
void distances(AtenCall& call) {
  if (call.number(2) != 2) call.refuse("is of order ", call.number(2), ", com.microsoft.CDist of 2");
  if (call.rank(0) != 2 || call.rank(1) != 2) call.refuse("is of batches, com.microsoft.CDist of two matrices");
  call.finish("com.microsoft.CDist", {call.tensor(0), call.tensor(1)}, {"metric", "euclidean"});
}

constexpr AtenExporter kExporters[] = {{"_log_softmax.default", softmax},
                                       {"_softmax.default", softmax},
                                       {"_to_copy.default", cast},
                                       {"convert_element_type.no_fuse", cast},
                                       {"_unsafe_view.default", reshape},
                                       {"_cdist_forward.default", distances},
                                       {"__and__.Tensor", logical},
                                       {"__or__.Tensor", logical},
                                       {"__xor__.Tensor", logical},
                                       {"add.Scalar", arithmetic},
                                       {"add.Tensor", arithmetic},
                                       {"alias.default", identity},
                                       {"amax.default", reduce},
                                       {"amin.default", reduce},
                                       {"all.default", any},
                                       {"all.dim", any},
                                       {"any.default", any},
                                       {"any.dim", any},
                                       {"arange.default", arange},
                                       {"arange.start", arange},
                                       {"arange.start_step", arange},
                                       {"argmax.default", arg_max},
                                       {"argmin.default", arg_max},
                                       {"bitwise_and.Tensor", logical},
                                       {"bitwise_left_shift.Tensor", shift},
                                       {"bitwise_not.default", logical},
                                       {"bitwise_or.Tensor", logical},
                                       {"bitwise_right_shift.Tensor", shift},
                                       {"bitwise_xor.Tensor", logical},
                                       {"broadcast_to.default", expand},
                                       {"cat.default", join},
                                       {"celu.default", with_alpha},
                                       {"chunk.default", split},
                                       {"clamp.Tensor", clip},
                                       {"cdist.default", distances},
                                       {"clamp.default", clip},
                                       {"clamp_max.default", clip},
                                       {"clamp_min.default", clip},
                                       {"clone.default", identity},
                                       {"concat.default", join},
                                       {"constant_pad_nd.default", pad},
                                       {"contiguous.default", identity},
                                       {"cumsum.default", cumsum},
                                       {"detach.default", identity},
                                       {"div.Scalar", arithmetic},
                                       {"div.Tensor", arithmetic},
                                       {"div.Tensor_mode", whole_division},
                                       {"dropout.default", identity},
                                       {"einsum.default", einsum},
                                       {"elu.default", with_alpha},
                                       {"embedding.default", embedding},
                                       {"eq.Scalar", compare},
                                       {"eq.Tensor", compare},
                                       {"expand.default", expand},
                                       {"expand_copy.default", expand},
                                       {"feature_dropout.default", identity},
                                       {"flatten.using_ints", flatten},
                                       {"flip.default", flip},
                                       {"floor_divide.default", whole_division},
                                       {"fmod.Scalar", remainder},
                                       {"fmod.Tensor", remainder},
                                       {"full.default", full},
                                       {"full_like.default", full},
                                       {"gather.default", gather},
                                       {"ge.Scalar", compare},
                                       {"ge.Tensor", compare},
                                       {"gelu.default", gelu},
                                       {"gt.Scalar", compare},
                                       {"gt.Tensor", compare},
                                       {"hardshrink.default", hard_shrink},
                                       {"hardsigmoid.default", hard_sigmoid},
                                       {"hardtanh.default", clip},
                                       {"index_select.default", index_select},
                                       {"isinf.default", is_inf},
                                       {"le.Scalar", compare},
                                       {"le.Tensor", compare},
                                       {"leaky_relu.default", with_alpha},
                                       {"lift_fresh_copy.default", identity},
                                       {"linalg_vector_norm.default", norm},
                                       {"logsumexp.default", reduce},
                                       {"log_softmax.int", softmax},
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
                                       {"narrow.default", slice},
                                       {"ne.Scalar", compare},
                                       {"ne.Tensor", compare},
                                       {"ones.default", full},
                                       {"ones_like.default", full},
                                       {"operator.add", sym_arithmetic},
                                       {"operator.floordiv", sym_arithmetic},
                                       {"operator.getitem", getitem},
                                       {"operator.mul", sym_arithmetic},
                                       {"operator.sub", sym_arithmetic},
                                       {"pad.default", pad},
                                       {"permute.default", permute},
                                       {"permute_copy.default", permute},
                                       {"pixel_shuffle.default", pixel_shuffle},
                                       {"pow.Tensor_Scalar", arithmetic},
                                       {"pow.Tensor_Tensor", arithmetic},
                                       {"prod.default", product},
                                       {"prod.dim_int", product},
                                       {"prelu.default", prelu},
                                       {"relu6.default", clip},
                                       {"remainder.Scalar", remainder},
                                       {"remainder.Tensor", remainder},
                                       {"repeat.default", repeat},
                                       {"reshape.default", reshape},
                                       {"rsqrt.default", rsqrt},
                                       {"rsub.Scalar", arithmetic},
                                       {"rsub.Tensor", arithmetic},
                                       {"scalar_tensor.default", scalar_tensor},
                                       {"select.int", select},
                                       {"select_copy.int", select},
                                       {"selu.default", selu},
                                       {"silu.default", silu},
                                       {"slice.Tensor", slice},
                                       {"slice_copy.Tensor", slice},
                                       {"softmax.int", softmax},
                                       {"softplus.default", softplus},
                                       {"split.Tensor", split},
                                       {"split.sizes", split},
                                       {"split_with_sizes.default", split},
                                       {"square.default", square},
                                       {"squeeze.default", squeeze},
                                       {"squeeze.dim", squeeze},
                                       {"squeeze.dims", squeeze},
                                       {"stack.default", join},
                                       {"sub.Scalar", arithmetic},
                                       {"sub.Tensor", arithmetic},
                                       {"sum.default", reduce},
                                       {"sum.dim_IntList", reduce},
                                       {"sym_size.int", sym_size},
                                       {"t.default", permute},
                                       {"threshold.default", threshold},
                                       {"tile.default", repeat},
                                       {"to.device", cast},
                                       {"to.dtype", cast},
                                       {"to.dtype_layout", cast},
                                       {"topk.default", topk},
                                       {"transpose.int", permute},
                                       {"tril.default", triangle},
                                       {"triu.default", triangle},
                                       {"type_as.default", cast},
                                       {"unbind.int", split},
                                       {"unsqueeze.default", unsqueeze},
                                       {"view.default", reshape},
                                       {"view_copy.default", reshape},
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
    for (const auto& table : {attention_exporters(), element_exporters(), layer_exporters(), control_exporters(),
                              signal_exporters(), string_exporters(), view_exporters()})
      for (const AtenExporter& exporter : table) out.emplace(exporter.name, &exporter);
    return out;
  }();
  const auto found = all.find(name);
  return found == all.end() ? nullptr : found->second;
}

}  // namespace qdq
