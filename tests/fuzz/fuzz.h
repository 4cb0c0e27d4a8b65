// What every fuzz target shares: an input may be refused with an Error, and nothing else may happen.
#pragma once

#include <cstddef>
#include <cstdint>

#include "format/bytes.h"

namespace qdq::fuzz {

inline format::ByteSpan input(const uint8_t* data, size_t size) { return std::as_bytes(std::span(data, size)); }

// Any other exception, and an Error that says that qdq itself is wrong, goes on and ends the run.
template <class Body> void refusable(Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    if (error.code == ErrorCode::kInternal) throw;
  }
}

}  // namespace qdq::fuzz
