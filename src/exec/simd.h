// What the files of the portable float backend share.
#pragma once

#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/disk_blocks.h"
#include "exec/op_backend.h"

namespace qdq {

inline bool is_f32(const Tensor& tensor) { return tensor.dtype() == DType::kF32; }
inline bool is_dense_f32(const Tensor& tensor) { return is_f32(tensor) && tensor.is_contiguous(); }
// Whether nobody else sees the bytes of a tensor.
inline bool may_overwrite(const Tensor& x) { return x.storage().use_count() == 1; }

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
    keep = keep && !is_on_disk(weight.raw());  // all packed weights of such a model are more than the memory
    weight_ = keep ? weight : Tensor();
    packed_ = keep ? packed : Packed();
    return packed;
  }

 private:
  Tensor weight_;
  Packed packed_;
};

// Who runs an operator and its in-place form: by name, because each loop is written for one operator.
struct SimdOp {
  std::string_view op;
  std::unique_ptr<CompiledOp> (*make)(const Node& node, bool packs_once);
  std::string (*obstacle)(const Node& node);  // what the graph tells before a run; null: nothing
  int weight = -1;                            // the argument that is packed, once unless it may change
  int other_weight = -1;                      // another one, packed as often
};
// The rows of the files beside simd_ops.cpp, which has the others.
std::span<const SimdOp> attention_simd_ops();
std::span<const SimdOp> elementwise_simd_ops();
std::span<const SimdOp> axis_simd_ops();
std::span<const SimdOp> image_simd_ops();
std::span<const SimdOp> recurrent_simd_ops();
std::span<const SimdOp> ordering_simd_ops();
std::span<const SimdOp> deformed_simd_ops();
std::span<const SimdOp> onnx_recurrent_simd_ops();
// The row of an operator of op/rare_ops.cpp; null if there is none.
const SimdOp* find_rare_simd_op(std::string_view name);
const SimdOp* find_simd_op(std::span<const SimdOp> rows, std::string_view name);
// Comparisons, whose result is bool, and places of elements, which are integers.
std::span<const SimdOp> comparing_simd_ops();
std::span<const SimdOp> placing_simd_ops();
// Products and sums of int32; choices of int64.
std::span<const SimdOp> integer_simd_ops();
std::span<const SimdOp> int64_simd_ops();
// Casts between float32 and other dtypes.
std::span<const SimdOp> casting_simd_ops();
// Elements that are moved and not changed, of any dtype: picked and written by indices, put side by side, padded,
// repeated.
std::span<const SimdOp> index_simd_ops();
std::span<const SimdOp> picking_simd_ops();
std::span<const SimdOp> joining_simd_ops();
std::span<const SimdOp> padding_simd_ops();
// The operator of a float16 or bfloat16 node, or of one that chooses among bytes, of one that computes the same in
// float32. `weight` is the argument that is packed, or -1.
std::unique_ptr<CompiledOp> make_simd_half(std::unique_ptr<CompiledOp> floats, const Node& node, int weight,
                                           bool keeps_weight);
// The floats of float16, bfloat16 or bytes, and back.
Tensor widened_to_floats(const Tensor& halves);
Tensor narrowed_from_floats(const Tensor& floats, DType half);
// Any operator that makes views of its first argument and writes nothing.
std::unique_ptr<CompiledOp> make_simd_view();

// An argument that is a float32 tensor, or a number beside one; nothing if it is another tensor.
std::optional<Tensor> floats_of(const Call<Tensor>& call, size_t i);

// The products of two float32 tensors that are not empty, broadcast against each other.
Tensor multiply_f32(const Tensor& a, const Tensor& b);

// out[r] = the sum, in the order of kernel/math.h, of the products of row r of x and of y, `n` elements each, which
// begin as far apart as the strides tell.
void multiply_rows_f32(const float* x, int64_t x_stride, const float* y, int64_t y_stride, int64_t rows, int64_t n,
                       float* out);

// a + factor * b of two float32 tensors that are not empty, broadcast against each other.
Tensor add_f32(const Tensor& a, const Tensor& b, float factor);

// How many windows a pool has along an axis.
int64_t pooled_extent(int64_t in, int64_t kernel, int64_t stride, int64_t pad, int64_t dilation, bool ceil_mode);

std::unique_ptr<CompiledOp> make_simd_max_pool3d(const Node& node, bool packs_once);
std::unique_ptr<CompiledOp> make_simd_avg_pool3d(const Node& node, bool packs_once);
std::unique_ptr<CompiledOp> make_simd_mean_of_volumes(const Node& node, bool packs_once);
std::unique_ptr<CompiledOp> make_simd_einsum(const Node& node, bool packs_once);
// A convolution that convolution_obstacle (exec/simd_obstacles.h) lets through.
std::unique_ptr<CompiledOp> make_simd_convolution(const Node& node, bool packs_once);

}  // namespace qdq
