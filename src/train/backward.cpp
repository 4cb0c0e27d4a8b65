// The table of gradients, and the sums that all of them need.
#include "train/backward.h"

#include <unordered_map>

#include "kernel/pointwise.h"

namespace qdq {

const std::vector<BackwardDef>& all_backwards() {
  static const std::vector<BackwardDef> table = [] {
    std::vector<BackwardDef> out;
    add_elementwise_backwards(out);
    add_view_backwards(out);
    add_product_backwards(out);
    add_norm_backwards(out);
    return out;
  }();
  return table;
}

const BackwardDef* find_backward(std::string_view target) {
  static const std::unordered_map<std::string_view, const BackwardDef*> by_target = [] {
    std::unordered_map<std::string_view, const BackwardDef*> out;
    for (const BackwardDef& def : all_backwards()) out.emplace(def.target, &def);
    return out;
  }();
  const auto found = by_target.find(target);
  return found == by_target.end() ? nullptr : found->second;
}

Tensor floats(const Tensor& x) {
  QDQ_CHECK(x.dtype() == DType::kF32, kUnsupported, "training computes gradients of float32 tensors, found ", to_string(x.dtype()));
  return x.contiguous();
}

Tensor sum_to(const Tensor& grad, const Shape& sizes) {
  if (grad.sizes() == sizes) return grad;
  const Tensor g = floats(grad), sums = Tensor::empty(sizes, DType::kF64), to = sums.expand(g.sizes());
  const float* from = g.data<float>();
  double* into = to.data<double>();
  for_each_index<2>(g.sizes(), {g.strides().data(), to.strides().data()}, [&](const auto& at) { into[at[1]] += from[at[0]]; });
  return sums.to(DType::kF32);
}

Tensor add(const Tensor& a, const Tensor& b) {
  const Tensor left = floats(a), right = floats(b), out = Tensor::empty(a.sizes(), DType::kF32);
  kernel::add_f32(left.data<float>(), right.data<float>(), left.numel(), out.data<float>());
  return out;
}

}  // namespace qdq
