// Python's % and ** of symbolic sizes.
#pragma once

#include "tensor/sym_int.h"

namespace qdq {

// a - a.floor_div(b) * b, with the sign of b. Throws as floor_div does.
SymInt size_modulo(const SymInt& a, const SymInt& b);
// The product of as many factors; an opaque atom where the exponent is symbolic or large. Throws
// Error{kInvalidArgument} for a negative exponent.
SymInt size_power(const SymInt& base, const SymInt& exponent);

// Whether every term is below zero, as of -n - 1, so that the whole is if symbols are sizes.
bool is_negated(const SymInt& size);

}  // namespace qdq
