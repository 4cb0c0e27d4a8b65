// Operators on halves: in floats, with one rounding at the end, as the reference computes them. And operators that
// choose among bytes, which floats hold.
#include "exec/simd.h"
#include "exec/simd_obstacles.h"
#include "kernel/convert.h"
#include "kernel/half.h"
#include "op/elements.h"
#include "op/facts.h"

namespace qdq {

Tensor widened_to_floats(const Tensor& halves) {
  const Tensor x = halves.contiguous(), out = uninitialized(x.sizes(), DType::kF32);
  if (x.dtype() == DType::kU8) kernel::floats_of_integers(x.data<uint8_t>(), x.numel(), out.data<float>());
  else if (x.dtype() == DType::kS8) kernel::floats_of_integers(x.data<int8_t>(), x.numel(), out.data<float>());
  else if (x.dtype() == DType::kF16) kernel::floats_of_halves(x.data<F16>(), x.numel(), out.data<float>());
  else kernel::floats_of_halves(x.data<BF16>(), x.numel(), out.data<float>());
  return out;
}

Tensor narrowed_from_floats(const Tensor& floats, DType half) {
  const Tensor x = floats.contiguous(), out = uninitialized(x.sizes(), half);
  void* bytes = out.raw();
  if (size_of(half) == 1) kernel::bytes_of_floats(x.data<float>(), x.numel(), static_cast<uint8_t*>(bytes));
  else if (half == DType::kF16) kernel::halves_of_floats(x.data<float>(), x.numel(), out.data<F16>());
  else kernel::halves_of_floats(x.data<float>(), x.numel(), out.data<BF16>());
  return out;
}

namespace {

// The floats among results.
Value narrowed(const Value& value, DType half) {
  if (const Value::List* list = value.get_if<Value::List>()) {
    Value::List out;
    for (const Value& one : *list) out.push_back(narrowed(one, half));
    return out;
  }
  const Tensor* tensor = value.get_if<Tensor>();
  return tensor != nullptr && is_f32(*tensor) ? Value(narrowed_from_floats(*tensor, half)) : value;
}

// The operator for floats between two conversions. A weight is converted once if it is kept.
class HalfOp : public CompiledOp {
 public:
  HalfOp(std::unique_ptr<CompiledOp> floats, DType half, bool in_place, int weight, bool keeps_weight)
      : floats_(std::move(floats)), half_(half), in_place_(in_place), weight_index_(weight),
        keeps_weight_(keeps_weight) {}

  Value run(const Call<Tensor>& call) override {
    std::vector<Value> arguments;
    std::vector<std::pair<std::string, Value>> named;
    const Schema& schema = *call.op().schema;
    for (size_t i = 0; i < call.size(); ++i) {
      if (i < schema.num_positional()) arguments.push_back(argument_of_floats(call[i], i));
      else named.emplace_back(schema.arguments[i].name, argument_of_floats(call[i], i));
    }
    const Value out = narrowed(floats_->run(Call<Tensor>(call.op(), std::move(arguments), std::move(named))), half_);
    return in_place_ ? store_in_self(call, *out.get_if<Tensor>()) : out;
  }

 private:
  Value argument_of_floats(const Value& value, size_t index) {
    if (const Value::List* list = value.get_if<Value::List>()) {
      Value::List out;
      for (const Value& one : *list) out.push_back(argument_of_floats(one, index));
      return out;
    }
    const Tensor* tensor = value.get_if<Tensor>();
    if (tensor == nullptr || !tensor->defined() || tensor->dtype() != half_) return value;
    if (static_cast<int>(index) == weight_index_) return weight_.get(*tensor, keeps_weight_, widened_to_floats);
    return widened_to_floats(*tensor);
  }

  std::unique_ptr<CompiledOp> floats_;
  DType half_;
  bool in_place_;
  int weight_index_;
  bool keeps_weight_;
  PackedWeight<Tensor> weight_;
};

}  // namespace

std::unique_ptr<CompiledOp> make_simd_half(std::unique_ptr<CompiledOp> floats, const Node& node, int weight,
                                           bool keeps_weight) {
  return std::make_unique<HalfOp>(std::move(floats), result_dtype_of(node), op_of(node)->is_in_place(), weight,
                                  keeps_weight);
}

}  // namespace qdq
