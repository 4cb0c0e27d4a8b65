// What the exporters share that spell out an ATen operator as a formula of ONNX ones.
#pragma once

#include <limits>
#include <numbers>
#include <string>
#include <vector>

#include "io/onnx/export.h"

namespace qdq {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// A call's formula in the data type of its result.
class Formula {
 public:
  explicit Formula(AtenCall& call) : Formula(call, call.result().dtype) {}
  Formula(AtenCall& call, DType dtype) : call_(call), dtype_(dtype) {}

  std::string operand(size_t i) const { return call_.operand(i, dtype_); }
  std::string number(double value) const { return call_.scalar(value, dtype_); }
  std::string op(const char* name, const OnnxNames& inputs) const { return call_.emit(name, inputs); }
  std::string add(const std::string& a, const std::string& b) const { return op("Add", {a, b}); }
  std::string add(const std::string& a, double b) const { return add(a, number(b)); }
  std::string sub(const std::string& a, const std::string& b) const { return op("Sub", {a, b}); }
  std::string mul(const std::string& a, const std::string& b) const { return op("Mul", {a, b}); }
  std::string mul(const std::string& a, double b) const { return b == 1 ? a : mul(a, number(b)); }
  std::string div(const std::string& a, const std::string& b) const { return op("Div", {a, b}); }
  std::string where(const std::string& condition, const std::string& a, const std::string& b) const {
    return op("Where", {condition, a, b});
  }
  std::string reduce(const char* name, const std::string& x, const std::vector<int64_t>& axes, bool keeps) const {
    return call_.reduce(name, x, axes, keeps);
  }
  std::string unsqueeze(const std::string& x, const std::vector<int64_t>& axes) const {
    return op("Unsqueeze", {x, call_.integers_as_tensor(axes)});
  }
  void finish(const std::string& value) const { call_.finish("Identity", {value}); }

 private:
  AtenCall& call_;
  DType dtype_;
};

// Whether a number is negative, -0 included.
inline std::string is_negative(const Formula& f, const std::string& x) {
  return f.op("Or", {f.op("Less", {x, f.number(0)}), f.op("Less", {f.op("Reciprocal", {x}), f.number(0)})});
}

// The angle of (x, y): that of their quotient, moved to where x is negative.
inline std::string angle_of(const Formula& f, const std::string& y, const std::string& x) {
  const std::string zero = f.number(0), end = f.number(kInfinity);
  const std::string both = f.op("Equal", {f.op("Max", {f.op("Abs", {x}), f.op("Abs", {y})}), zero});
  const std::string ends =
      f.op("And", {f.op("Equal", {f.op("Abs", {x}), end}), f.op("Equal", {f.op("Abs", {y}), end})});
  const std::string quotient = f.where(ends, f.mul(f.op("Sign", {x}), f.op("Sign", {y})), f.div(y, x));
  const std::string near = f.where(both, zero, f.op("Atan", {quotient}));
  const std::string turn = f.where(is_negative(f, y), f.number(-std::numbers::pi), f.number(std::numbers::pi));
  return f.where(is_negative(f, x), f.add(near, turn), near);
}

}  // namespace qdq
