// A file of its own, since its plain loops want the compiler's vectors and those of gemm_groups_hwy.cpp do not.
#include "kernel/group_operands.h"

namespace qdq::kernel {

std::vector<int32_t> sums_of_groups(const int8_t* a, int64_t count, int64_t group) {
  std::vector<int32_t> sums(static_cast<size_t>(count));
  for (size_t i = 0; i < sums.size(); ++i) {
    const int8_t* at = a + static_cast<int64_t>(i) * group;
    for (int64_t k = 0; k < group; ++k) sums[i] += at[k];
  }
  return sums;
}

std::vector<int16_t> words_of(const int8_t* a, int64_t count) {
  constexpr size_t kOrder[4] = {0, 2, 1, 3};
  std::vector<int16_t> words(static_cast<size_t>(count));
  for (size_t i = 0; i < words.size(); ++i) words[i] = a[i / 4 * 4 + kOrder[i % 4]];
  return words;
}

}  // namespace qdq::kernel
