// Reverse-mode differentiation, one table entry an operator: what the gradient of its result makes of the gradients of
// its arguments. Everything is float32; sums run in one fixed order, whatever the number of threads.
#pragma once

#include <string_view>
#include <vector>

#include "op/op.h"

namespace qdq {

// One call whose result has a gradient.
struct BackwardCall {
  // Arguments in schema order, as the forward pass saw them. Tensors that the operator's entry does not save have their
  // shape, but no values.
  const Call<Tensor>& call;
  const Value& result;  // likewise
  // of the result: a tensor of its shape; for several results a list, undefined where nobody asked
  const Value& grad;
  std::vector<bool> wanted;  // by argument: whether its gradient is of use
  const Tensor& x(size_t i) const { return call.tensor(i); }
  const Tensor& g() const { return *grad.get_if<Tensor>(); }
  const Tensor& y() const { return *result.get_if<Tensor>(); }
};

// The gradients by argument: of the argument's shape, a list of such for a list; None where there is none or it is not
// wanted.
using Backward = std::vector<Value> (*)(const BackwardCall& call);

struct BackwardDef {
  std::string_view op;  // "conv2d.default", of aten
  Backward backward;    // null: the result does not depend on its arguments smoothly, so nothing flows back
  bool saves_inputs = false, saves_result = false;
};

// The entry of an operator ("torch.ops.aten.conv2d.default"); null if there is none.
const BackwardDef* find_backward(std::string_view target);
const std::vector<BackwardDef>& all_backwards();

// The families, joined in backward.cpp.
void add_elementwise_backwards(std::vector<BackwardDef>& table);  // backward_elementwise.cpp
void add_function_backwards(std::vector<BackwardDef>& table);     // backward_functions.cpp
void add_reduction_backwards(std::vector<BackwardDef>& table);    // backward_reductions.cpp: sums, norms, chosen ones
void add_composed_backwards(std::vector<BackwardDef>& table);     // backward_composed.cpp: what others make up
void add_view_backwards(std::vector<BackwardDef>& table);         // backward_views.cpp
// backward_products.cpp: matrix products, convolutions
void add_product_backwards(std::vector<BackwardDef>& table);
void add_window_backwards(std::vector<BackwardDef>& table);      // backward_windows.cpp: of three axes, mostly
void add_rearranged_backwards(std::vector<BackwardDef>& table);  // backward_rearranged.cpp
void add_norm_backwards(std::vector<BackwardDef>& table);        // backward_norms.cpp: norms, pools, means, softmax

// The tensor in C order. Throws Error{kUnsupported} if it is not float32.
Tensor contiguous_f32(const Tensor& x);
// How a tensor lies in the wider one that it is broadcast to, where it varies along neighbouring axes only (as channels
// do, or nothing, or all): element i of the wide one is element i / inner % count of it. `count` is 0 where it lies
// otherwise.
struct Repeats {
  int64_t count = 0, inner = 1;
};
Repeats repeats_of(const Shape& narrow, const Shape& wide);
// The gradient of what was broadcast: the sum over the broadcast axes, each element in C order in double (a run of
// neighbours that sum up to one element in eight strands added pairwise).
Tensor sum_to_shape(const Tensor& grad, const Shape& sizes);
// The sum of a run in eight strands added pairwise.
double run_sum(const float* x, int64_t n);
// a + b, as a new tensor.
Tensor add_tensors(const Tensor& a, const Tensor& b);

}  // namespace qdq
