// Words of a shell's commands in messages and in commands that qdq runs.
#pragma once

#include <string>
#include <string_view>

namespace qdq {

// The text as one word: in single quotes if it contains characters that a shell treats specially. A backslash stays as
// it is, as paths of Windows have it, whose shell does not know single quotes.
std::string shell_word(std::string_view text);

}  // namespace qdq
