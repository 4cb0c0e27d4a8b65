// The memory that the system counts for this process.
#pragma once

#include <cstdint>

namespace qdq {

// Bytes of memory that the process has now, the program and its libraries included, but not the pages of files that
// the system takes away as it likes (base/disk_blocks.h). 0 where nobody knows.
uint64_t process_memory();

}  // namespace qdq
