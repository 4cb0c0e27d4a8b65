// The threads of the whole process: one fixed set of workers.
#pragma once

#include <cstdint>

#include "base/function_ref.h"

namespace qdq {

// The number of threads that parallel_for uses, the caller's included. At the start: 1.
// Results never depend on it: work is divided along outputs, never along a sum.
int num_threads();

// Sets that number, or the largest possible one below it: builds without threads use one thread, and modules of
// WebAssembly the workers that they were started with and the caller. Throws Error{kInvalidArgument} if count < 1.
void set_num_threads(int count);

// Other programs may want the cores, and then waiting for a thread costs more than the thread gains. So the caller does
// whatever no other thread has begun, and after it has waited for a thread without a core it works alone for a while.
// Several threads may call these functions at the same time: one of them gets the workers, the others work alone.

// Calls body(begin, end) for disjoint ranges that cover [0, count), each at least `grain` long except the last, and
// returns when all are done. Called from inside a body it runs in the calling thread. The first exception of a body is
// rethrown.
void parallel_for(int64_t count, int64_t grain, FunctionRef<void(int64_t, int64_t)> body);

// Calls body(index, size) for every 0 <= index < size at the same time, each in its own thread, the caller's with index
// 0, so that they may wait for each other. `size` is the number of threads that are free at once, 1 <= size <= count.
// Bodies must not throw. Called from inside a body of either function, it uses the size 1.
void parallel_team(int count, FunctionRef<void(int, int)> body);

}  // namespace qdq
