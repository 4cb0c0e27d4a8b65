// Memory that ends at a chosen allocation: malloc and its kin of this program and of all libraries that it loads.
#pragma once

#include <cstdint>

namespace qdq {

// The n-th allocation from now on fails, counted from 1, and where `all_after` holds, each behind it, too. 0: none.
void fail_allocation(uint64_t n, bool all_after = false);
// How many allocations there were since fail_allocation.
uint64_t allocations();
// How many blocks are in use.
int64_t blocks_in_use();

}  // namespace qdq
