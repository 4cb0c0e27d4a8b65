// Writes lists of names for messages.
#pragma once

#include <string>

#include "base/error.h"

namespace qdq {

// "a, b, c and 4 more": the first `most` of the names, which are strings or views of strings.
template <class Names> std::string listed(const Names& names, size_t most) {
  std::string out;
  size_t shown = 0;
  for (const auto& name : names) {
    if (shown == most) return concat(out, " and ", names.size() - most, " more");
    out += concat(shown == 0 ? "" : ", ", name);
    ++shown;
  }
  return out;
}

}  // namespace qdq
