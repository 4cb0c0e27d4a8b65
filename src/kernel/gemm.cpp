// Float matrix products: packing, blocking for the caches, and work for the threads.
#include "kernel/gemm.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/parallel.h"
#include "kernel/panel.h"

namespace qdq::kernel {
namespace {

// Lanes of the outer loop: their blocks of kSumBlock rows stay in the first-level cache while the other operand passes.
constexpr int64_t kLaneChunk = 64;
// Rows a task takes at once, given the depth: about what fits half of a second-level cache of 1 MiB.
int64_t row_chunk(int64_t depth) {
  return std::clamp<int64_t>((int64_t{1} << 17) / std::max<int64_t>(depth, 1) / kPanel * kPanel, kPanel, 256);
}

// b packed in panels of 16 lanes.
LaneOperand packed_lanes(const float* packed, int64_t depth) { return {packed, depth * kPanel, nullptr}; }

// out = a * b; packs a in chunks of rows.
void multiply(int64_t rows, int64_t columns, int64_t depth, const MatrixView& a, const LaneOperand& b,
              const float* bias, BiasAxis axis, float* out, int64_t out_stride) {
  if (rows * columns == 0) return;
  const int64_t row_step = std::min(row_chunk(depth), round_up(rows, kPanel));
  const int64_t row_chunks = divide_up(rows, row_step), lane_chunks = divide_up(columns, kLaneChunk);
  const int64_t panel = std::min(rows, kPanel);
  const float* row_bias = axis == BiasAxis::kRow ? bias : nullptr;
  const float* column_bias = axis == BiasAxis::kColumn ? bias : nullptr;
  // Small products are not worth waking threads for.
  const int64_t flops = 2 * std::min(rows, row_step) * kLaneChunk * std::max<int64_t>(depth, 1);
  const int64_t grain = std::max<int64_t>(1, 200000 / flops);
  parallel_for(row_chunks * lane_chunks, grain, [&](int64_t begin, int64_t end) {
    const Scratch packed = make_scratch(round_up(row_step, panel) * depth);
    const Scratch tile = make_scratch(round_up(row_step, panel) * kLaneChunk);
    int64_t packed_chunk = -1;
    for (int64_t task = begin; task < end; ++task) {
      const int64_t chunk = task / lane_chunks, row = chunk * row_step, count = std::min(row_step, rows - row);
      const int64_t column = task % lane_chunks * kLaneChunk;
      if (chunk != packed_chunk) pack_panels(a, row, count, depth, panel, packed.get());
      packed_chunk = chunk;
      const int64_t width = std::min(kLaneChunk, columns - column);
      const LaneOperand lanes{b.data + column * (b.offsets ? 1 : depth), b.panel_stride, b.offsets};
      multiply_tile(packed.get(), panel, count, lanes, width, depth, tile.get(), kLaneChunk);
      store_tile(tile.get(), kLaneChunk, count, width, row_bias ? row_bias + row : nullptr,
                 column_bias ? column_bias + column : nullptr, out + row * out_stride + column, out_stride);
    }
  });
}

MatrixView transposed(const MatrixView& m) { return {m.data, m.column_stride, m.row_stride}; }

// So few rows that packing b would take longer than the product with it.
constexpr int64_t kFewRows = 4;
bool is_read_in_place(int64_t rows, int64_t columns, const MatrixView& b) {
  return rows <= kFewRows && b.column_stride == 1 && columns % kPanel == 0;
}

}  // namespace

void pack_panels(const MatrixView& m, int64_t begin, int64_t count, int64_t depth, int64_t panel, float* out) {
  for (int64_t p = 0; p < count; p += panel) {
    const int64_t valid = std::min(panel, count - p);
    const float* from = m.data + (begin + p) * m.row_stride;
    if (m.column_stride == 1 && valid == kPanel) {
      pack_rows_of_panel(from, m.row_stride, depth, out);
      out += depth * kPanel;
      continue;
    }
    for (int64_t k = 0; k < depth; ++k) {
      const float* at = from + k * m.column_stride;
      if (m.row_stride == 1 && valid == kPanel) {
        std::memcpy(out, at, kPanel * sizeof(float));  // a constant size, so no call
      } else {
        for (int64_t r = 0; r < valid; ++r) out[r] = at[r * m.row_stride];
      }
      std::fill(out + valid, out + panel, 0.0f);
      out += panel;
    }
  }
}

void multiply_tile(const float* a, int64_t a_panel, int64_t rows, const LaneOperand& b, int64_t columns, int64_t depth,
                   float* tile, int64_t tile_stride) {
  LaneOperand block = b;
  for (int64_t k = 0; k == 0 || k < depth; k += kSumBlock) {
    multiply_block(a + k * a_panel, a_panel, a_panel * depth, rows, block, columns, std::min(kSumBlock, depth - k),
                   k > 0, tile, tile_stride);
    if (block.offsets) {
      block.offsets += kSumBlock;
    } else {
      block.data += kSumBlock * kPanel;
    }
  }
}

Tensor make_panels(const Shape& sizes) {
  return Tensor(std::make_shared<Storage>(static_cast<size_t>(numel_of(sizes)) * sizeof(float)), DType::kF32, sizes,
                contiguous_strides(sizes), 0);
}

PackedRows pack_rows(const MatrixView& w, int64_t rows, int64_t depth) {
  PackedRows packed;
  packed.rows = rows;
  packed.depth = depth;
  packed.data = make_panels({divide_up(rows, kPanel), depth, kPanel});
  pack_panels(w, 0, rows, depth, kPanel, packed.data.data<float>());
  return packed;
}

void linear_f32(const float* x, int64_t m, const PackedRows& weight, const float* bias, float* out) {
  multiply(m, weight.rows, weight.depth, {x, weight.depth, 1}, packed_lanes(weight.data.data<float>(), weight.depth),
           bias, bias ? BiasAxis::kColumn : BiasAxis::kNone, out, weight.rows);
}

void gemm_f32(int64_t rows, int64_t columns, int64_t depth, const MatrixView& a, const MatrixView& b, const float* bias,
              BiasAxis axis, float* out, int64_t out_row_stride) {
  // Columns that lie one after the other are rows of their own, which one row need not pack.
  if (rows == 1 && b.row_stride == 1 && axis == BiasAxis::kNone) {
    const int64_t grain = std::max<int64_t>(1, 100000 / std::max<int64_t>(depth, 1));
    return parallel_for(columns, grain, [&](int64_t begin, int64_t end) {
      multiply_vector(b.data + begin * b.column_stride, b.column_stride, end - begin, depth, a.data, a.column_stride,
                      out + begin);
    });
  }
  // A vector as one row rather than as one of 16 lanes.
  if (columns == 1 && rows > 1 && axis == BiasAxis::kNone && out_row_stride == 1)
    return gemm_f32(1, rows, depth, transposed(b), transposed(a), nullptr, axis, out, rows);
  if (is_read_in_place(rows, columns, b)) {
    std::vector<int64_t> offsets(static_cast<size_t>(depth));
    for (int64_t k = 0; k < depth; ++k) offsets[static_cast<size_t>(k)] = k * b.row_stride;
    return multiply(rows, columns, depth, a, {b.data, 0, offsets.data()}, bias, axis, out, out_row_stride);
  }
  const Scratch packed = make_scratch(round_up(columns, kPanel) * depth);
  parallel_for(divide_up(columns, kPanel), std::max<int64_t>(1, 4096 / std::max<int64_t>(depth, 1)),
               [&](int64_t begin, int64_t end) {
                 pack_panels(transposed(b), begin * kPanel, std::min(end * kPanel, columns) - begin * kPanel, depth,
                             kPanel, packed.get() + begin * kPanel * depth);
               });
  multiply(rows, columns, depth, a, packed_lanes(packed.get(), depth), bias, axis, out, out_row_stride);
}

void matmul_f32(int64_t batch, int64_t rows, int64_t columns, int64_t depth, const MatrixView& a,
                int64_t a_batch_stride, const MatrixView& b, int64_t b_batch_stride, float* out) {
  const auto one = [&](int64_t i) {
    gemm_f32(rows, columns, depth, {a.data + i * a_batch_stride, a.row_stride, a.column_stride},
             {b.data + i * b_batch_stride, b.row_stride, b.column_stride}, nullptr, BiasAxis::kNone,
             out + i * rows * columns, columns);
  };
  if (batch < num_threads()) {
    for (int64_t i = 0; i < batch; ++i) one(i);
    return;
  }
  const int64_t flops = std::max<int64_t>(1, rows * columns * std::max<int64_t>(depth, 1));
  parallel_for(batch, std::max<int64_t>(1, 100000 / flops), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) one(i);
  });
}

}  // namespace qdq::kernel
