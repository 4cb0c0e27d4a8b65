// Einstein sums of the portable float backend.
#include <algorithm>

#include "exec/simd.h"
#include "kernel/gemm.h"
#include "op/einsum.h"

namespace qdq {
namespace {

// Values with a letter for each axis, none of them twice.
struct Factor {
  Tensor values;
  std::string axes;

  int64_t size(char axis) const { return values.size(static_cast<int64_t>(axes.find(axis))); }
  bool has(char axis) const { return axes.find(axis) != std::string::npos; }
};

template <class Keep> std::string letters_of(const std::string& axes, Keep&& keep) {
  std::string out;
  std::copy_if(axes.begin(), axes.end(), std::back_inserter(out), keep);
  return out;
}

int64_t product_of(const Factor& factor, const std::string& axes) {
  int64_t out = 1;
  for (const char axis : axes) out *= factor.size(axis);
  return out;
}

// The axes in this order; those that the factor lacks have the size 1.
Tensor in_order(const Factor& factor, const std::string& order) {
  Shape sizes, strides;
  for (const char axis : order) {
    sizes.push_back(factor.has(axis) ? factor.size(axis) : 1);
    strides.push_back(factor.has(axis) ? factor.values.strides()[factor.axes.find(axis)] : 0);
  }
  return factor.values.as_strided(sizes, strides, factor.values.storage_offset());
}

// Repeated letters are read along the diagonal. An axis of size 1 that another operand stretches is left out.
Factor factor_of(const Tensor& x, const std::string& subscripts, const std::string& stretched) {
  Factor out;
  Shape sizes, strides;
  for (size_t a = 0; a < subscripts.size(); ++a) {
    const char axis = subscripts[a];
    if (x.sizes()[a] == 1 && stretched.find(axis) != std::string::npos) continue;
    const size_t at = out.axes.find(axis);
    if (at != std::string::npos) {
      strides[at] += x.strides()[a];
      continue;
    }
    out.axes += axis;
    sizes.push_back(x.sizes()[a]);
    strides.push_back(x.strides()[a]);
  }
  out.values = x.as_strided(sizes, strides, x.storage_offset());
  return out;
}

// The product of two, summed over the axes that are not `kept`. Those of one factor alone are all kept.
Factor multiply(const Factor& a, const Factor& b, const std::string& kept) {
  const auto is_kept = [&](char axis) { return kept.find(axis) != std::string::npos; };
  const std::string batch = letters_of(a.axes, [&](char axis) { return b.has(axis) && is_kept(axis); }),
                    depth = letters_of(a.axes, [&](char axis) { return b.has(axis) && !is_kept(axis); }),
                    rows = letters_of(a.axes, [&](char axis) { return !b.has(axis); }),
                    columns = letters_of(b.axes, [&](char axis) { return !a.has(axis); }),
                    order = batch + rows + columns;
  if (depth.empty()) return {multiply_f32(in_order(a, order), in_order(b, order)), order};
  const int64_t count = product_of(a, batch), m = product_of(a, rows), n = product_of(b, columns),
                k = product_of(a, depth);
  const Tensor x = in_order(a, batch + rows + depth).reshape({count, m, k}),
               y = in_order(b, batch + depth + columns).reshape({count, k, n});
  Shape sizes;
  for (const char axis : batch + rows) sizes.push_back(a.size(axis));
  for (const char axis : columns) sizes.push_back(b.size(axis));
  const Tensor out = uninitialized(sizes, DType::kF32);
  if (m * n == 1 && x.stride(2) == 1 && y.stride(1) == 1) {
    multiply_rows_f32(x.data<float>(), x.stride(0), y.data<float>(), y.stride(0), count, k, out.data<float>());
    return {out, order};
  }
  kernel::matmul_f32(count, m, n, k, {x.data<float>(), x.stride(1), x.stride(2)}, x.stride(0),
                     {y.data<float>(), y.stride(1), y.stride(2)}, y.stride(0), out.data<float>());
  return {out, order};
}

// The factor summed over the axes that are not `kept`: its product with ones.
Factor sum_alone(const Factor& factor, const std::string& kept) {
  const std::string dropped = letters_of(factor.axes, [&](char axis) { return kept.find(axis) == std::string::npos; });
  if (dropped.empty()) return factor;
  const Tensor one = Tensor::scalar(1.0f);
  Factor ones{one, dropped};
  Shape sizes;
  for (const char axis : dropped) sizes.push_back(factor.size(axis));
  ones.values = one.expand(sizes);
  return multiply(factor, ones, kept);
}

// Factors that are multiplied two by two.
class EinsteinSum {
 public:
  EinsteinSum(const std::vector<Tensor>& operands, const EinsumEquation& equation) : output_(equation.output) {
    std::string stretched;  // the letters of axes that are longer than 1 somewhere
    for (size_t i = 0; i < operands.size(); ++i)
      for (size_t a = 0; a < equation.inputs[i].size(); ++a)
        if (operands[i].sizes()[a] != 1) stretched += equation.inputs[i][a];
    for (size_t i = 0; i < operands.size(); ++i)
      factors_.push_back(factor_of(operands[i], equation.inputs[i], stretched));
  }

  Tensor compute() {
    for (size_t i = 0; i < factors_.size(); ++i) factors_[i] = sum_alone(factors_[i], wanted_beside(i, i));
    while (factors_.size() > 1) {
      const auto [i, k] = cheapest_pair();
      factors_[i] = multiply(factors_[i], factors_[k], wanted_beside(i, k));
      factors_.erase(factors_.begin() + static_cast<std::ptrdiff_t>(k));
    }
    return in_order(factors_[0], output_);
  }

 private:
  // The letters of the output and of all factors but two.
  std::string wanted_beside(size_t i, size_t k) const {
    std::string out = output_;
    for (size_t other = 0; other < factors_.size(); ++other)
      if (other != i && other != k) out += factors_[other].axes;
    return out;
  }

  // The pair whose product takes the fewest multiplications, then has the fewest elements, then the first. Only sizes
  // decide, so that the order of the sums is the same everywhere.
  std::pair<size_t, size_t> cheapest_pair() const {
    std::pair<size_t, size_t> best{0, 1};
    std::pair<double, double> least{0, 0};
    for (size_t i = 0; i < factors_.size(); ++i)
      for (size_t k = i + 1; k < factors_.size(); ++k) {
        const std::string wanted = wanted_beside(i, k);
        double products = 1, elements = 1;
        const auto count = [&](const Factor& factor, char axis) {
          const auto size = static_cast<double>(factor.size(axis));
          products *= size;
          if (wanted.find(axis) != std::string::npos) elements *= size;
        };
        for (const char axis : factors_[i].axes) count(factors_[i], axis);
        for (const char axis : factors_[k].axes)
          if (!factors_[i].has(axis)) count(factors_[k], axis);
        const std::pair<double, double> cost{products, elements};
        if ((i == 0 && k == 1) || cost < least) least = cost, best = {i, k};
      }
    return best;
  }

  std::vector<Factor> factors_;
  std::string output_;
};

// aten.einsum of f32 tensors: products of matrices, of two operands at a time.
class SimdEinsum : public CompiledOp {
 public:
  Value run(const Call<Tensor>& call) override {
    const std::vector<Tensor> operands = call.tensors(1);
    std::vector<size_t> ranks;
    for (const Tensor& operand : operands) {
      if (!is_f32(operand) || operand.numel() == 0) return run_reference(call, "an operand is empty or not float32");
      ranks.push_back(static_cast<size_t>(operand.dim()));
    }
    const Tensor out = EinsteinSum(operands, parse_einsum(call.string(0), ranks)).compute();
    const auto is_input = [&](const Tensor& operand) { return operand.storage() == out.storage(); };
    return std::any_of(operands.begin(), operands.end(), is_input) ? out.clone() : out;
  }
};

}  // namespace

std::unique_ptr<CompiledOp> make_simd_einsum(const Node&, bool) { return std::make_unique<SimdEinsum>(); }

}  // namespace qdq
