// Functions of the form x * gate(x), where gate rises from 0 to 1 and gate(x) + gate(-x) = 1: SiLU, GELU. They are
// max(x, 0) + fall(|x|), where fall(u) = -u * gate(-u) is smooth and goes to 0; a table of cubics is a third of the
// work of an exponential and a division.
#pragma once

#include <cstdint>

#include "kernel/requantize.h"

namespace qdq::kernel {

// Cubic i stands for fall around i / pieces_per_unit: ((c[3][i] u + c[2][i]) u + c[1][i]) u + c[0][i]. Behind the last
// it stays as it is.
struct GateTable {
  static constexpr int kPieces = 32;
  float pieces_per_unit = 2;
  float c[4][kPieces] = {};
};

// Within 1e-5 of x / (1 + exp(-x)), and for GELU within 1e-5 of the formulas in kernel/math.h. Computed once.
const GateTable& silu_table();
const GateTable& gelu_table();
const GateTable& gelu_tanh_table();

// y = max(x, 0) + fall(|x|) of n elements; in u8 clamp(half_even(y * inverse_scale) + zero_point, low, high) as
// kernel/requantize.h has it, NaN low. `out` may be x for f32. NaN stays NaN. Uses num_threads() threads, whose number
// changes nothing. Unlike the rest of the room it multiplies and adds in one operation, because it serves oneDNN's
// primitives alone, which do so, too: results differ in the last bits where there is none.
void gate(const GateTable& table, const float* x, int64_t n, const Requantize& to, void* out);

// Whether this processor has vectors of 16 floats, in two of which a row of the table fits.
bool gates_are_fast();

}  // namespace qdq::kernel
