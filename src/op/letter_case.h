// Capitals and small letters of Unicode, one character for one, in no language in particular.
#pragma once

#include <cstdint>

namespace qdq {

char32_t to_lower(char32_t c);
char32_t to_upper(char32_t c);

}  // namespace qdq
