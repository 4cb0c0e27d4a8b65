// What the loops of gemm_groups_hwy.cpp read beside a row of int8 activations.
#pragma once

#include <cstdint>
#include <vector>

namespace qdq::kernel {

// The sum of each group of neighbours: `count` groups.
std::vector<int32_t> sums_of_groups(const int8_t* a, int64_t count, int64_t group);

// The same integers in 16 bits, each four neighbours in the order 0, 2, 1, 3. `count` is a multiple of 4.
std::vector<int16_t> words_of(const int8_t* a, int64_t count);

}  // namespace qdq::kernel
