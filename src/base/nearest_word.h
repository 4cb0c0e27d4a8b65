// Finds the known word that is nearest to a misspelt one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace qdq {

// The word of the list that a misspelt word probably means, or "" if none is near.
std::string nearest_word(std::string_view word, const std::vector<std::string>& words);

}  // namespace qdq
