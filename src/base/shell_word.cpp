#include "base/shell_word.h"

namespace qdq {

std::string shell_word(std::string_view text) {
  constexpr std::string_view kPlain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/._-+:=,@%\\";
  if (!text.empty() && text.find_first_not_of(kPlain) == std::string_view::npos) return std::string(text);
  std::string out = "'";
  for (const char letter : text) {
    if (letter == '\'') out += "'\\''";
    else out += letter;
  }
  return out + "'";
}

}  // namespace qdq
