// The table of gradients, and the sums that all of them need.
#include "train/backward.h"

#include <unordered_map>

#include "kernel/pointwise.h"
#include "op/facts.h"

namespace qdq {

const std::vector<BackwardDef>& all_backwards() {
  static const std::vector<BackwardDef> table = [] {
    std::vector<BackwardDef> out;
    add_elementwise_backwards(out);
    add_function_backwards(out);
    add_view_backwards(out);
    add_reduction_backwards(out);
    add_composed_backwards(out);
    add_product_backwards(out);
    add_norm_backwards(out);
    add_window_backwards(out);
    add_rearranged_backwards(out);
    return out;
  }();
  return table;
}

const BackwardDef* find_backward(std::string_view target) {
  static const std::unordered_map<std::string_view, const BackwardDef*> by_op = [] {
    std::unordered_map<std::string_view, const BackwardDef*> out;
    for (const BackwardDef& def : all_backwards()) out.emplace(def.op, &def);
    return out;
  }();
  const OpDef* op = find_op(target);
  if (op == nullptr) return nullptr;
  const auto found = by_op.find(local_name(op->is_in_place() ? op->target : plain_form(*op).target));
  return found == by_op.end() ? nullptr : found->second;
}

Tensor contiguous_f32(const Tensor& x) {
  QDQ_CHECK(x.dtype() == DType::kF32, kUnsupported, "training computes gradients of float32 tensors, found ",
            to_string(x.dtype()));
  return x.contiguous();
}

Repeats repeats_of(const Shape& narrow, const Shape& wide) {
  // Axes from the back: those that repeat, those that vary, those that repeat again.
  Repeats out{1, 1};
  size_t axis = 0;
  const auto at = [&](size_t a) { return a < narrow.size() ? narrow[narrow.size() - 1 - a] : 1; };
  const auto size = [&](size_t a) { return wide[wide.size() - 1 - a]; };
  for (; axis < wide.size() && at(axis) == 1; ++axis) out.inner *= size(axis);
  for (; axis < wide.size() && at(axis) == size(axis); ++axis) out.count *= size(axis);
  for (; axis < wide.size(); ++axis)
    if (at(axis) != 1) return {};
  return out;
}

double run_sum(const float* x, int64_t n) {
  double strands[8] = {};
  int64_t i = 0;
  for (; i + 8 <= n; i += 8)
    for (int64_t j = 0; j < 8; ++j) strands[j] += x[i + j];
  for (int64_t j = 0; i < n; ++i, ++j) strands[j] += x[i];
  return ((strands[0] + strands[4]) + (strands[2] + strands[6])) +
         ((strands[1] + strands[5]) + (strands[3] + strands[7]));
}

Tensor sum_to_shape(const Tensor& grad, const Shape& sizes) {
  if (grad.sizes() == sizes) return grad;
  const Tensor g = contiguous_f32(grad), sums = Tensor::empty(sizes, DType::kF64), to = sums.expand(g.sizes());
  const float* from = g.data<float>();
  double* into = to.data<double>();
  if (const Repeats repeats = repeats_of(sizes, g.sizes()); repeats.count > 0) {
    for (int64_t row = 0; row * repeats.inner < g.numel(); ++row)
      into[row % repeats.count] += run_sum(from + row * repeats.inner, repeats.inner);
    return sums.to(DType::kF32);
  }
  for_each_index<2>(g.sizes(), {g.strides().data(), to.strides().data()},
                    [&](const auto& at) { into[at[1]] += from[at[0]]; });
  return sums.to(DType::kF32);
}

Tensor add_tensors(const Tensor& a, const Tensor& b) {
  const Tensor left = contiguous_f32(a), right = contiguous_f32(b), out = Tensor::empty(a.sizes(), DType::kF32);
  kernel::add_f32(left.data<float>(), right.data<float>(), left.numel(), out.data<float>());
  return out;
}

}  // namespace qdq
