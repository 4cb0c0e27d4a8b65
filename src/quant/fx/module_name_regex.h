// The regular expressions of set_module_name_regex.
#pragma once

#include <string_view>

namespace qdq {

// re.match of Python: whether the expression matches a beginning of the text. Known are characters, . \d \w \s (and
// their opposites), other escaped characters, [sets] with ranges and ^, groups ( ) and (?: ), |, ^, $, and * + ? {m}
// {m,} {m,n}, also with a ? behind. Throws Error{kInvalidArgument} naming the place for anything else.
bool matches_at_start(std::string_view regex, std::string_view text);

}  // namespace qdq
