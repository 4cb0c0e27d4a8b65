// The inner loops under gemm and conv: a block of a product of packed panels, and getting data into panels and out of
// tiles. Seen only inside the room.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

#include "kernel/gemm.h"

namespace qdq::kernel {

inline constexpr int64_t kPanel = 16;

inline int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
inline int64_t round_up(int64_t a, int64_t b) { return divide_up(a, b) * b; }

// Uninitialized floats, 64-byte aligned.
struct FreeScratch {
  void operator()(float* p) const { ::operator delete(p, std::align_val_t{64}); }
};
using Scratch = std::unique_ptr<float[], FreeScratch>;
inline Scratch make_scratch(int64_t count) {
  return Scratch(static_cast<float*>(::operator new(static_cast<size_t>(count) * sizeof(float), std::align_val_t{64})));
}

// A tensor for panels, not initialized.
Tensor make_panels(const Shape& sizes);

// Packs rows [begin, begin + count) of m[rows, depth] as [ceil(count / panel)][depth][panel]; missing rows become zero.
void pack_panels(const MatrixView& m, int64_t begin, int64_t count, int64_t depth, int64_t panel, float* out);

// One side of a block product whose elements fill the lanes of vectors. Element (k, column) stands at
//   packed:  data[(column / 16) * panel_stride + k * 16 + column % 16]
//   offsets: data[offsets[k] + column]
// and must be readable up to the next multiple of 16 columns.
struct LaneOperand {
  const float* data;
  int64_t panel_stride;
  const int64_t* offsets;
};

// tile[r, c] = sum_k a[r / a_panel * a_panel_stride + k * a_panel + r % a_panel] * b(k, c), or that sum added to tile
// if `accumulate`; depth <= kSumBlock, one sequential sum from 0. a_panel <= 16. Writes up to the next multiple of 16
// columns; rows of the tile are tile_stride apart.
void multiply_block(const float* a, int64_t a_panel, int64_t a_panel_stride, int64_t rows, const LaneOperand& b,
                    int64_t columns, int64_t depth, bool accumulate, float* tile, int64_t tile_stride);

// The same with rows that lie one after the other, tile[r, c] = sum_k a[r * a_row_stride + k] * b(k, c); b is packed.
void multiply_block_by_rows(const float* a, int64_t a_row_stride, int64_t rows, const LaneOperand& b, int64_t columns,
                            int64_t depth, bool accumulate, float* tile, int64_t tile_stride);

// out[r] = the whole sum over `depth`, in blocks of kSumBlock (kernel/gemm.h), of m[r * row_stride + k] * x[k *
// x_stride]: rows of a matrix by a vector, of which nothing is packed.
void multiply_vector(const float* m, int64_t row_stride, int64_t rows, int64_t depth, const float* x, int64_t x_stride,
                     float* out);

// tile[r, c] = the whole sum over `depth`, in blocks of kSumBlock (kernel/gemm.h), of packed rows `a` ([rows /
// a_panel][depth][a_panel]) with the lanes of b. Writes up to the next multiple of 16 columns.
void multiply_tile(const float* a, int64_t a_panel, int64_t rows, const LaneOperand& b, int64_t columns, int64_t depth,
                   float* tile, int64_t tile_stride);

// out[r * out_stride + c] = tile[r, c] + row_bias[r] + column_bias[c]; at most one bias is not null.
void store_tile(const float* tile, int64_t tile_stride, int64_t rows, int64_t columns, const float* row_bias,
                const float* column_bias, float* out, int64_t out_stride);

// out[c * out_stride + r] = tile[r, c] + column_bias[c]; column_bias may be null.
void store_tile_transposed(const float* tile, int64_t tile_stride, int64_t rows, int64_t columns,
                           const float* column_bias, float* out, int64_t out_stride);

// One panel of 16 rows, row_stride apart: panel[k * 16 + r] = m[r * row_stride + k] for k < depth.
void pack_rows_of_panel(const float* m, int64_t row_stride, int64_t depth, float* panel);

// Packs columns [0, count) of m[depth, .], whose rows are row_stride apart, as [ceil(count / 16)][depth][16]; missing
// columns become zero.
void pack_columns(const float* m, int64_t row_stride, int64_t count, int64_t depth, float* panels);

// A run of neighbouring columns of a panel: `length` elements of each k, from source + offsets[k] + begin on.
struct Segment {
  int64_t begin;
  int64_t length;
};

// Fills panel[k * 16 + j] for k < depth from the segments, one after the other (their lengths sum up to at most 16).
// Reads up to 15 elements beyond a segment, and writes up to 16 beyond the panel's last element.
void pack_segments(const float* source, const int64_t* offsets, int64_t depth, const Segment* segments, int64_t count,
                   float* panel);

}  // namespace qdq::kernel
