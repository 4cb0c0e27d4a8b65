// Sizes that only a run knows, and the minimum and maximum of unknown sizes.
#pragma once

#include <cstddef>

#include "tensor/sym_int.h"

namespace qdq {

// Whether the size is a number or depends on the sizes of inputs alone: u0, u1, ... are those that a run tells, and
// v0, v1, ... those that change from iteration to iteration; each is known in its own graph only.
bool is_known_outside(const SymInt& size);

// Stands for one of several sizes of a result that only values tell, until infer_value makes a symbol of it;
// size_from_values() of op/infer.h is the first.
SymInt size_from_values(size_t which);
bool is_size_from_values(const SymInt& size);

// As sympy writes them where they are not known, Min(10, u0), which SymInt::evaluate knows.
SymInt smaller_size(const SymInt& a, const SymInt& b);
SymInt larger_size(const SymInt& a, const SymInt& b);

// Whether the size is Min(most, ...): with 1, as the first or the last row of an open axis has, it stretches as 1 does.
bool is_at_most(const SymInt& most, const SymInt& size);

// Whether the size is written as smaller_size() of the two, whose expression may be longer than a size takes.
bool is_smaller_of(const SymInt& size, const SymInt& a, const SymInt& b);

// Whether the size is a symbol alone.
bool is_symbol(const SymInt& size);

// Where a bound of a slice, which counts from either end and may lie beyond, is on an axis of an open size.
SymInt bound_within(int64_t bound, const SymInt& size);
// How many elements lie between two of them: the last k that there are, Min(k, u0).
SymInt length_within(int64_t from, int64_t to, const SymInt& size);
// The same of every step-th element.
SymInt slice_length(int64_t from, int64_t to, int64_t step, const SymInt& size);
// Whether the bounds leave out some elements alone, x[2:] and x[2:-1], so that a long axis leaves n - k.
bool leaves_out_some(int64_t from, int64_t to);

}  // namespace qdq
