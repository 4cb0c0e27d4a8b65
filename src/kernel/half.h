// IEEE halves and floats of arrays, element by element as F16 of tensor/dtype.h converts them: exact to float, and to
// half rounded half to even, infinity from 65520 on.
#pragma once

#include <cstdint>

#include "tensor/dtype.h"

namespace qdq::kernel {

void floats_of_halves(const F16* x, int64_t n, float* out);
void halves_of_floats(const float* x, int64_t n, F16* out);

}  // namespace qdq::kernel
