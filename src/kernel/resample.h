// Planes whose rows and columns are sums of weighted others: images that are resized.
#pragma once

#include <cstdint>

namespace qdq::kernel {

// An axis that is resized: output i is the sum of weight[t] * element index[t] for first[i] <= t < first[i + 1], in
// this order from the first product on, each product and sum rounded; 0 if there is none.
struct Taps {
  int64_t size = 0;                // outputs
  const int64_t* first = nullptr;  // [size + 1]
  const int64_t* index = nullptr;
  const float* weight = nullptr;
};

// x is [planes, in_h, in_w], out is [planes, rows.size, columns.size]: the rows are summed first, then of their sums
// the columns. The bits are the same on any vector width and number of threads.
void resample_f32(const float* x, int64_t planes, int64_t in_h, int64_t in_w, const Taps& rows, const Taps& columns,
                  float* out);

}  // namespace qdq::kernel
