// Views of complex tensors as real ones, and back. Views share the bytes.
#pragma once

#include "tensor/tensor.h"

namespace qdq {

// The real or the imaginary numbers of a complex64 tensor.
Tensor real_part(const Tensor& z);
Tensor imag_part(const Tensor& z);
// [...] complex64 -> [..., 2] float32.
Tensor view_as_real(const Tensor& z);
// [..., 2] float32 -> [...] complex64. Throws Error{kInvalidArgument} unless the pairs lie as complex numbers do.
Tensor view_as_complex(const Tensor& x);

}  // namespace qdq
