// Threads: one fixed set of workers for the whole process.
#pragma once

#include <cstdint>
#include <functional>

namespace qdq {

// The number of threads that parallel_for uses, the caller's included. At the start: 1.
// Results never depend on it: work is divided along outputs, never along a sum.
int num_threads();

// Throws Error{kInvalidArgument} if count < 1. Takes as many as there can be: builds without threads use one, and
// modules of WebAssembly no more than the workers that they were started with and the caller.
void set_num_threads(int count);

// Other programs may want the cores, and then a thread that is waited for costs more than it gives: whatever another
// thread has not begun the caller does itself, and after a wait for one that had no core it works alone for a while.
// Several threads may call these functions at the same time: one of them gets the workers, the others work alone.

// Calls body(begin, end) for disjoint ranges that cover [0, count), each at least `grain` long except the last, and
// returns when all are done. Called from inside a body it runs in the calling thread. The first exception of a body is
// rethrown.
void parallel_for(int64_t count, int64_t grain, const std::function<void(int64_t, int64_t)>& body);

// Calls body(index, size) for every 0 <= index < size at the same time, each in a thread of its own, the caller's with
// index 0, so that they may wait for each other. 1 <= size <= count is how many threads come at once. Bodies must not
// throw. Called from inside a body of either function the size is 1.
void parallel_team(int count, const std::function<void(int, int)>& body);

}  // namespace qdq
