// What the files of the portable float backend share.
#pragma once

#include <limits>
#include <memory>

#include "exec/op_backend.h"

namespace qdq {

inline bool is_f32(const Tensor& tensor) { return tensor.dtype() == DType::kF32; }

// A tensor for a kernel that writes every element.
inline Tensor uninitialized(const Shape& sizes, DType dtype) {
  const auto count = static_cast<uint64_t>(numel_of(sizes));  // refuses sizes whose strides would overflow
  QDQ_CHECK(count <= std::numeric_limits<size_t>::max() / size_of(dtype), kOutOfMemory, "a tensor of shape ",
            to_string(sizes), " does not fit into memory");
  return Tensor(std::make_shared<Storage>(static_cast<size_t>(count) * size_of(dtype)), dtype, sizes,
                contiguous_strides(sizes), 0);
}

// Something made from a weight, made again only when another tensor comes, or every time if it is not to be kept.
// Holding the storage keeps its address from being reused. A weight that changes in place would go unnoticed, so it is
// not kept (is_cacheable in exec/simd_ops.cpp).
template <class Packed> class PackedWeight {
 public:
  template <class Pack> Packed get(const Tensor& weight, bool keep, Pack&& pack) {
    const bool same = weight_.defined() && weight_.raw() == weight.raw() && weight_.sizes() == weight.sizes() &&
                      weight_.strides() == weight.strides() && weight_.storage() == weight.storage();
    if (same) return packed_;
    Packed packed = pack(weight.contiguous());
    weight_ = keep ? weight : Tensor();
    packed_ = keep ? packed : Packed();
    return packed;
  }

 private:
  Tensor weight_;
  Packed packed_;
};

std::unique_ptr<CompiledOp> make_simd_einsum(const Node& node, bool packs_once);
// A convolution that convolution_obstacle (exec/simd_obstacles.h) lets through.
std::unique_ptr<CompiledOp> make_simd_convolution(const Node& node, bool packs_once);

}  // namespace qdq
