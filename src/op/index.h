// Shared by operators that read elements by index tensors (index.cpp) and those that write to them (scatter.cpp).
#pragma once

#include <cstring>
#include <functional>

#include "op/op.h"

namespace qdq {

// An index counted from the front. Throws Error{kInvalidArgument} for one outside of the axis.
int64_t checked_index(const OpDef& op, int64_t index, int64_t size);

// Where the elements are that a call of aten.index or aten.index_put picks: in C order of the result that index gives,
// counted from the first element of the tensor that is indexed. Throws Error{kInvalidArgument} for an index outside.
struct PickedElements {
  Shape sizes;  // of that result
  std::vector<int64_t> offsets;
};
PickedElements pick_elements(const Call<Tensor>& call);

// Calls body(i, copy) for every i below n, where copy(to, place, from, place) copies an element of `bytes` bytes.
template <class Body> void copy_elements(size_t n, size_t bytes, Body&& body) {
  const auto each = [&](auto size) {
    const auto copy = [size](std::byte* to, int64_t to_place, const std::byte* from, int64_t from_place) {
      std::memcpy(to + static_cast<size_t>(to_place) * size, from + static_cast<size_t>(from_place) * size, size);
    };
    for (size_t i = 0; i < n; ++i) body(i, copy);
  };
  if (bytes == 4) each(std::integral_constant<size_t, 4>());  // a known size makes no calls
  else each(bytes);
}

// gather: out[i][j] = x[index[i][j]][j] along axis 0, and so on. The result has the shape of the indices.
MetaValue infer_gather(const Call<TensorMeta>& call);
// The place in x for each element of the index tensor, counted from the first element; x is self or has its shape.
std::vector<int64_t> indexed_places(const Call<Tensor>& call, const Tensor& x);

}  // namespace qdq
