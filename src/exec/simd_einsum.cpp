// Einstein sums of the portable float backend.
#include "exec/simd.h"
#include "kernel/gemm.h"
#include "op/einsum.h"

namespace qdq {
namespace {

// aten.einsum of two f32 tensors: axes that both have and the result too count products of matrices, those that both
// have alone are summed over.
class SimdEinsum : public CompiledOp {
 public:
  Value run(const Call<Tensor>& call) override {
    constexpr const char* kRefused = "it is not a product of two float32 tensors";
    const std::vector<Tensor> operands = call.tensors(1);
    if (operands.size() != 2 || !is_f32(operands[0]) || !is_f32(operands[1])) return run_reference(call, kRefused);
    const EinsumEquation equation =
        parse_einsum(call.string(0), {static_cast<size_t>(operands[0].dim()), static_cast<size_t>(operands[1].dim())});
    const std::string names[3] = {equation.inputs[0], equation.inputs[1], equation.output};
    const auto has = [&](int i, char name) { return names[i].find(name) != std::string::npos; };
    std::string batch, rows, columns, depth;
    for (const char name : names[0]) {
      const bool in_other = has(1, name), in_result = has(2, name);
      if (!in_other && !in_result) return run_reference(call, kRefused);
      (in_other ? in_result ? batch : depth : rows) += name;
    }
    for (const char name : names[1]) {
      if (!has(0, name) && !has(2, name)) return run_reference(call, kRefused);
      if (!has(0, name)) columns += name;
    }
    const std::string order = batch + rows + columns;
    // No name twice, and no size that another operand stretches.
    if (names[0].size() != batch.size() + rows.size() + depth.size() || order.size() != names[2].size() ||
        names[1].size() != batch.size() + columns.size() + depth.size() || is_repeated(names[0]) ||
        is_repeated(names[1]) || is_repeated(names[2]) || operands[0].dim() != static_cast<int64_t>(names[0].size()) ||
        operands[1].dim() != static_cast<int64_t>(names[1].size()))
      return run_reference(call, kRefused);
    const auto size = [&](int i, char name) {
      return operands[static_cast<size_t>(i)].size(static_cast<int64_t>(names[i].find(name)));
    };
    for (const char name : batch + depth)
      if (size(0, name) != size(1, name)) return run_reference(call, kRefused);
    const auto product = [&](int i, const std::string& axes) {
      int64_t out = 1;
      for (const char name : axes) out *= size(i, name);
      return out;
    };
    const auto flat = [&](int i, const std::string& axes, const Shape& sizes) {
      std::vector<int64_t> places;
      for (const char name : axes) places.push_back(static_cast<int64_t>(names[i].find(name)));
      return operands[static_cast<size_t>(i)].permute(places).reshape(sizes);
    };
    const int64_t count = product(0, batch), m = product(0, rows), n = product(1, columns), k = product(0, depth);
    const Tensor x = flat(0, batch + rows + depth, {count, m, k}), y = flat(1, batch + depth + columns, {count, k, n});
    Shape sizes;
    for (const char name : batch + rows) sizes.push_back(size(0, name));
    for (const char name : columns) sizes.push_back(size(1, name));
    const Tensor out = uninitialized(sizes, DType::kF32);
    kernel::matmul_f32(count, m, n, k, {x.data<float>(), x.stride(1), x.stride(2)}, x.stride(0),
                       {y.data<float>(), y.stride(1), y.stride(2)}, y.stride(0), out.data<float>());
    std::vector<int64_t> places;
    for (const char name : names[2]) places.push_back(static_cast<int64_t>(order.find(name)));
    return out.permute(places);
  }

 private:
  static bool is_repeated(const std::string& names) {
    for (size_t i = 0; i < names.size(); ++i)
      if (names.find(names[i], i + 1) != std::string::npos) return true;
    return false;
  }
};

}  // namespace

std::unique_ptr<CompiledOp> make_simd_einsum(const Node&, bool) { return std::make_unique<SimdEinsum>(); }

}  // namespace qdq
