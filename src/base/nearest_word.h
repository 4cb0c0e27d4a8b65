// What somebody meant who misspelt a word.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace qdq {

// The one of the words that a misspelt word probably means, or "" if none is near.
std::string nearest_word(std::string_view word, const std::vector<std::string>& words);

}  // namespace qdq
