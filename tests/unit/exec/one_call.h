// One operator by the portable loops and by the reference, and numbers for it.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "base/parallel.h"
#include "exec/interpreter.h"
#include "unit/exec/small_net.h"

namespace qdq {

// A program of one operator, whose arguments that are tensors are its inputs.
struct OneCall {
  Program program;
  std::vector<Tensor> inputs;

  OneCall(const std::string& op, const std::vector<std::variant<Tensor, Argument>>& arguments,
          Node::Kwargs kwargs = {}) {
    std::vector<Argument> args;
    for (const auto& argument : arguments) {
      if (const Argument* plain = std::get_if<Argument>(&argument)) args.push_back(*plain);
      else args.emplace_back(input(std::get<Tensor>(argument)));
    }
    finish(program.graph->call("torch.ops." + op, args, std::move(kwargs)));
  }
  OneCall(const std::string& op, const std::vector<Tensor>& list, const Argument& more) {
    Argument::List all;
    for (const Tensor& tensor : list) all.emplace_back(input(tensor));
    finish(program.graph->call("torch.ops." + op, {Argument(all), more}));
  }

  Node* input(const Tensor& tensor) {
    inputs.push_back(tensor);
    return placeholder(program, concat("x", inputs.size()), SymShape(tensor.sizes().begin(), tensor.sizes().end()),
                       tensor.dtype());
  }
  void finish(Node* node) {
    program.graph->create(Node::Op::kOutput, "output", {Argument(Argument::List{node})});
    infer_shapes(program);
  }

  std::vector<Tensor> clones() const {
    std::vector<Tensor> out;
    for (const Tensor& tensor : inputs) out.push_back(tensor.clone());
    return out;
  }
  // The results of the loops, which must have taken the call, with one and with three threads.
  std::vector<Value> run_fast() {
    const std::unique_ptr<OpBackend> simd = make_simd_ops();
    Interpreter fast(program, {simd.get()});
    EXPECT_EQ(fast.placements().at(0).backend, "simd");
    const std::vector<Value> found = flat(fast.run_values(values_of(clones())));
    EXPECT_EQ(fast.placements().at(0).fallbacks.runs, 0u) << fast.placements().at(0).fallbacks.reason;
    set_num_threads(3);
    const std::vector<Value> again = flat(fast.run_values(values_of(clones())));
    set_num_threads(1);
    for (size_t i = 0; i < found.size(); ++i)
      EXPECT_TRUE(bitwise_equal(*found[i].get_if<Tensor>(), *again[i].get_if<Tensor>()));
    return found;
  }
  std::vector<Value> run_reference() { return flat(Interpreter(program, {}).run_values(values_of(clones()))); }

  static std::vector<Value> values_of(const std::vector<Tensor>& tensors) { return {tensors.begin(), tensors.end()}; }
  static std::vector<Value> flat(const std::vector<Value>& values) {
    std::vector<Value> out;
    for (const Value& value : values) {
      if (const Value::List* list = value.get_if<Value::List>()) out.insert(out.end(), list->begin(), list->end());
      else out.push_back(value);
    }
    return out;
  }

  void expect_equal(const std::string& what) {
    SCOPED_TRACE(what);
    const std::vector<Value> expected = run_reference(), found = run_fast();
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i)
      EXPECT_TRUE(bitwise_equal(*found[i].get_if<Tensor>(), *expected[i].get_if<Tensor>())) << "result " << i;
  }
};

// Numbers with ties, zeros of both signs, infinities and, if wanted, NaN.
inline Tensor numbers(const Shape& sizes, bool has_nan, uint32_t seed = 1) {
  const Tensor out = Tensor::empty(sizes, DType::kF32);
  for (float& value : out.span<float>()) {
    seed = seed * 1664525u + 1013904223u;
    const uint32_t kind = seed >> 24;
    value = static_cast<float>(static_cast<int32_t>(seed >> 8 & 0xff) - 128) / 16;
    if (kind == 3) value = -0.0f;
    if (kind == 5) value = -std::numeric_limits<float>::infinity();
    if (kind == 7) value = std::numeric_limits<float>::infinity();
    if (has_nan && kind == 9) value = NAN;
  }
  return out;
}
inline Tensor integers(const Shape& sizes, int64_t below, DType dtype = DType::kS64) {
  const Tensor out = Tensor::empty(sizes, DType::kS64);
  uint32_t seed = 7;
  for (int64_t& value : out.span<int64_t>()) {
    seed = seed * 1664525u + 1013904223u;
    value = static_cast<int64_t>(seed >> 8) % below;
  }
  return out.to(dtype);
}

}  // namespace qdq
