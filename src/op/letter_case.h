// Converts between upper and lower case as Unicode does, one character to one, independent of language.
#pragma once

#include <cstdint>

namespace qdq {

char32_t to_lower(char32_t c);
char32_t to_upper(char32_t c);

}  // namespace qdq
