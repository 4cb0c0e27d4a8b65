// Halves and floats of arrays, element by element as F16 and BF16 of tensor/dtype.h convert them: exact to float, and
// to half rounded half to even, infinity from 65520 on for F16.
#pragma once

#include <cstdint>

#include "tensor/dtype.h"

namespace qdq::kernel {

void floats_of_halves(const F16* x, int64_t n, float* out);
void halves_of_floats(const float* x, int64_t n, F16* out);
void floats_of_halves(const BF16* x, int64_t n, float* out);
void halves_of_floats(const float* x, int64_t n, BF16* out);

}  // namespace qdq::kernel
