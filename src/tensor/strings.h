// The texts behind tensors of strings. Every distinct text has one number for the whole process, and these numbers are
// the elements of such a tensor. So code that only moves or compares elements never reads the texts.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/tensor.h"

namespace qdq {

// Whether the text is well-formed UTF-8 (RFC 3629: no overlong forms, no surrogates).
bool is_utf8(std::string_view text);
// The characters of well-formed UTF-8, and back. Numbers that are no characters become U+FFFD.
std::u32string characters_of(std::string_view text);
std::string utf8_of(std::u32string_view characters);

// The number of a text in UTF-8, which it keeps as long as the process lives; that of the empty text is 0. May be
// called by several threads at once. Throws Error{kBadFile} if the text is no UTF-8, Error{kOutOfMemory} if all texts
// together would take more than kMostTextBytes, of which each takes kBytesPerText besides its own.
StringId intern(std::string_view text);
inline constexpr uint64_t kMostTextBytes = uint64_t{1} << 29, kBytesPerText = 128;
// The text of a number that intern() gave; it stays where it is.
const std::string& text_of(StringId id);

// A tensor of these texts, in C order. Throws Error{kInvalidArgument} if the shape has another number of elements.
Tensor string_tensor(const Shape& sizes, std::span<const std::string> texts);
// The texts of a string tensor, in C order.
std::vector<std::string_view> texts_of(const Tensor& strings);

}  // namespace qdq
