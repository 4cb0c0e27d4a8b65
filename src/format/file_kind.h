// What a file is, by its first bytes, for messages about one that should be another.
#pragma once

#include <string>

#include "format/source.h"

namespace qdq::format {

// "it is empty", "it is a .npy file", "it is a zip archive, as .npz and .pt2 files are", ..., and of what is not known
// "it is a text that begins with \"a,b\"" or "it begins with the bytes 01 ff".
std::string kind_of_file(const ByteSource& source);
// The same of a file that is a part of another: `size` bytes from `offset` on.
std::string kind_of_file(const ByteSource& source, uint64_t offset, uint64_t size);

}  // namespace qdq::format
