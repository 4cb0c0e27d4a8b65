// Operators on halves: in floats, with one rounding at the end, as the reference computes them.
#include "exec/simd.h"
#include "kernel/half.h"
#include "op/elements.h"
#include "op/facts.h"

namespace qdq {
namespace {

Tensor widened(const Tensor& halves) {
  const Tensor x = halves.contiguous(), out = uninitialized(x.sizes(), DType::kF32);
  kernel::floats_of_halves(x.data<F16>(), x.numel(), out.data<float>());
  return out;
}
Tensor narrowed(const Tensor& floats) {
  const Tensor x = floats.contiguous(), out = uninitialized(x.sizes(), DType::kF16);
  kernel::halves_of_floats(x.data<float>(), x.numel(), out.data<F16>());
  return out;
}

// The operator for floats between two conversions. A weight is converted once if it is kept.
class HalfOp : public CompiledOp {
 public:
  HalfOp(std::unique_ptr<CompiledOp> floats, bool in_place, int weight, bool keeps_weight)
      : floats_(std::move(floats)), in_place_(in_place), weight_index_(weight), keeps_weight_(keeps_weight) {}

  Value run(const Call<Tensor>& call) override {
    std::vector<Value> arguments;
    std::vector<std::pair<std::string, Value>> named;
    const Schema& schema = call.op().schema;
    for (size_t i = 0; i < call.size(); ++i) {
      if (i < schema.num_positional()) arguments.push_back(argument_of_floats(call[i], i));
      else named.emplace_back(schema.arguments[i].name, argument_of_floats(call[i], i));
    }
    const Value result = floats_->run(Call<Tensor>(call.op(), std::move(arguments), std::move(named)));
    const Tensor out = narrowed(*result.get_if<Tensor>());
    return in_place_ ? store_in_self(call, out) : Value(out);
  }

 private:
  Value argument_of_floats(const Value& value, size_t index) {
    if (const Value::List* list = value.get_if<Value::List>()) {
      Value::List out;
      for (const Value& one : *list) out.push_back(argument_of_floats(one, index));
      return out;
    }
    const Tensor* tensor = value.get_if<Tensor>();
    if (tensor == nullptr || !tensor->defined() || tensor->dtype() != DType::kF16) return value;
    if (static_cast<int>(index) == weight_index_) return weight_.get(*tensor, keeps_weight_, widened);
    return widened(*tensor);
  }

  std::unique_ptr<CompiledOp> floats_;
  bool in_place_;
  int weight_index_;
  bool keeps_weight_;
  PackedWeight<Tensor> weight_;
};

// aten.to.dtype and aten._to_copy between halves and floats.
class HalfCastOp : public CompiledOp {
 public:
  Value run(const Call<Tensor>& call) override {
    const Tensor& x = call.tensor(0);
    if (x.dtype() == DType::kF16) return widened(x);
    if (x.dtype() == DType::kF32) return narrowed(x);
    return run_reference(call, "its input is neither float16 nor float32");
  }
};

std::string half_cast_obstacle(const Node& node) {
  const Node* input = node.arg(0).node();
  const TensorMeta *from = input == nullptr ? nullptr : input->meta.val.tensor(), *to = node.meta.val.tensor();
  const auto are = [&](DType a, DType b) { return from->dtype == a && to->dtype == b; };
  if (from != nullptr && to != nullptr && (are(DType::kF16, DType::kF32) || are(DType::kF32, DType::kF16))) return {};
  return "it is no cast between float16 and float32";
}

std::unique_ptr<CompiledOp> make_half_cast(const Node&, bool) { return std::make_unique<HalfCastOp>(); }

constexpr SimdOp kCasts[] = {
    {"aten.to.dtype", make_half_cast, half_cast_obstacle},
    {"aten._to_copy.default", make_half_cast, half_cast_obstacle},
};

}  // namespace

std::span<const SimdOp> casting_simd_ops() { return kCasts; }

std::unique_ptr<CompiledOp> make_simd_half(std::unique_ptr<CompiledOp> floats, const Node& node, int weight,
                                           bool keeps_weight) {
  return std::make_unique<HalfOp>(std::move(floats), op_of(node)->is_in_place(), weight, keeps_weight);
}

}  // namespace qdq
