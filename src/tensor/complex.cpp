#include "tensor/complex.h"

namespace qdq {
namespace {

// Strides of axes of one element or none say nothing, and can be any number.
Tensor part_at(const Tensor& z, int64_t which) {
  QDQ_CHECK(is_complex(z.dtype()), kInvalidArgument, "a complex64 tensor is wanted, found ", to_string(z.dtype()));
  Shape strides = z.numel() == 0 ? contiguous_strides(z.sizes()) : z.strides();
  for (size_t axis = 0; axis < strides.size(); ++axis) strides[axis] = z.sizes()[axis] <= 1 ? 2 : 2 * strides[axis];
  return Tensor(z.storage(), DType::kF32, z.sizes(), std::move(strides), 2 * z.storage_offset() + which);
}

}  // namespace

Tensor real_part(const Tensor& z) { return part_at(z, 0); }
Tensor imag_part(const Tensor& z) { return part_at(z, 1); }

Tensor view_as_real(const Tensor& z) {
  const Tensor real = part_at(z, 0);
  Shape sizes = real.sizes(), strides = real.strides();
  sizes.push_back(2);
  strides.push_back(1);
  return Tensor(z.storage(), DType::kF32, std::move(sizes), std::move(strides), real.storage_offset());
}

Tensor view_as_complex(const Tensor& x) {
  QDQ_CHECK(x.dtype() == DType::kF32, kUnsupported, "view_as_complex makes complex64 of float32, found ",
            to_string(x.dtype()));
  QDQ_CHECK(x.dim() > 0 && x.sizes().back() == 2, kInvalidArgument,
            "view_as_complex needs a last axis of 2 elements, found the shape ", to_string(x.sizes()));
  Shape sizes(x.sizes().begin(), x.sizes().end() - 1), strides(x.strides().begin(), x.strides().end() - 1);
  if (x.numel() == 0) return Tensor(x.storage(), DType::kC64, sizes, contiguous_strides(sizes), 0);
  bool is_pairs = x.strides().back() == 1 && x.storage_offset() % 2 == 0;
  for (size_t axis = 0; axis < sizes.size(); ++axis) {
    is_pairs = is_pairs && (sizes[axis] == 1 || strides[axis] % 2 == 0);
    strides[axis] = sizes[axis] == 1 ? 1 : strides[axis] / 2;
  }
  QDQ_CHECK(is_pairs, kInvalidArgument, "view_as_complex needs pairs at even places, found strides ",
            to_string(x.strides()), " and offset ", x.storage_offset());
  return Tensor(x.storage(), DType::kC64, std::move(sizes), std::move(strides), x.storage_offset() / 2);
}

}  // namespace qdq
