// Sizes and what is computed of them, which ONNX has as tensors without axes.
#include <variant>

#include "io/onnx/export.h"
#include "op/size_symbols.h"

namespace qdq {
namespace {

void sym_size(AtenCall& call) {
  const std::string index = call.scalar(static_cast<double>(call.axis(1, call.rank(0))), DType::kS64);
  call.finish("Gather", {call.emit("Shape", {call.tensor(0)}), index}, {"axis", 0});
}

// Sizes are numbers without axes; what they give with fractions (1.5 * size, size / 2) is a double.
DType sym_dtype(const AtenCall& call, size_t i) {
  const Argument& number = call.arg(i);
  const bool is_double =
      number.is_node() ? std::holds_alternative<double>(number.node()->meta.val.value) : number.is<double>();
  return is_double ? DType::kF64 : DType::kS64;
}
DType sym_dtype(const AtenCall& call) { return sym_dtype(call, 0) == DType::kF64 ? DType::kF64 : sym_dtype(call, 1); }

// Whether a size may be below zero: what is computed by subtraction, or is a number that only a run tells.
bool may_be_negative(const Argument& size) {
  if (!size.is_node()) return size.number().value_or(0) < 0;
  const auto* value = std::get_if<SymInt>(&size.node()->meta.val.value);
  return value != nullptr && (!is_known_outside(*value) || value->to_string().find('-') != std::string::npos);
}

void sym_arithmetic(AtenCall& call) {
  static constexpr std::pair<std::string_view, const char*> kOps[] = {
      {"operator.add", "Add"},     {"operator.sub", "Sub"}, {"operator.mul", "Mul"}, {"operator.floordiv", "Div"},
      {"operator.truediv", "Div"}, {"operator.mod", "Mod"}, {"operator.pow", "Pow"}};
  const bool is_fraction = std::holds_alternative<double>(call.node().meta.val.value),
             rounds = call.name() == "operator.floordiv";
  const DType dtype = is_fraction ? DType::kF64 : sym_dtype(call);
  const std::string a = call.operand(0, dtype), b = call.operand(1, dtype);
  if (dtype == DType::kF64 && rounds) return call.finish("Floor", {call.emit("Div", {a, b})});
  if (dtype == DType::kF64 && call.name() == "operator.mod") call.refuse("takes the rest of a fraction");
  // ONNX divides toward zero: -(-size // 4) would be rounded down, and (size - 4) // 3 up for a size of 3.
  if (rounds && (may_be_negative(call.arg(0)) || may_be_negative(call.arg(1))))
    return call.finish("Div", {call.emit("Sub", {a, call.emit("Mod", {a, b})}), b});
  call.finish(onnx_name(kOps, call.name()), {a, b});
}
void sym_compare(AtenCall& call) {
  static constexpr std::pair<std::string_view, const char*> kOps[] = {
      {"operator.eq", "Equal"},       {"operator.ne", "Equal"},   {"operator.lt", "Less"},
      {"operator.le", "LessOrEqual"}, {"operator.gt", "Greater"}, {"operator.ge", "GreaterOrEqual"}};
  const DType dtype = sym_dtype(call);
  const std::string a = call.operand(0, dtype), b = call.operand(1, dtype);
  if (call.name() != "operator.ne") return call.finish(onnx_name(kOps, call.name()), {a, b});
  call.finish("Not", {call.emit("Equal", {a, b})});
}
void sym_negate(AtenCall& call) { call.finish("Neg", {call.operand(0, sym_dtype(call, 0))}); }
void sym_not(AtenCall& call) { call.finish("Not", {call.operand(0, DType::kBool)}); }
void sym_root(AtenCall& call) { call.finish("Sqrt", {call.operand(0, DType::kF64)}); }
void sym_float(AtenCall& call) { call.same_as(call.operand(0, DType::kF64)); }

constexpr AtenExporter kSizeExporters[] = {
    {"operator.add", sym_arithmetic}, {"operator.eq", sym_compare},         {"operator.floordiv", sym_arithmetic},
    {"operator.ge", sym_compare},     {"operator.gt", sym_compare},         {"operator.le", sym_compare},
    {"operator.lt", sym_compare},     {"operator.mod", sym_arithmetic},     {"operator.mul", sym_arithmetic},
    {"operator.ne", sym_compare},     {"operator.neg", sym_negate},         {"operator.pow", sym_arithmetic},
    {"operator.sub", sym_arithmetic}, {"operator.truediv", sym_arithmetic}, {"size.int", sym_size},
    {"sym_size.int", sym_size},       {"torch._sym_sqrt", sym_root},        {"torch.sym_float", sym_float},
    {"torch.sym_not", sym_not}};

}  // namespace

std::span<const AtenExporter> size_exporters() { return kSizeExporters; }

}  // namespace qdq
