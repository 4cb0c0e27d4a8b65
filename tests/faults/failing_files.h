// Files whose calls fail: those that open, write, close, rename and link, of this program and all libraries.
#pragma once

#include <cstdint>

namespace qdq {

// The n-th of these calls from now on fails with this error, counted from 1; 0: none.
void fail_file_call(uint64_t n, int error);
// How many there were since.
uint64_t file_calls();
// The name of the one that failed; "" if none did.
const char* failed_file_call();
// Whether write() takes no more than half of what it is given.
void write_by_halves(bool wanted);

}  // namespace qdq
