// Files without a name, which disappear with their descriptor.
#pragma once

#include <string>

namespace qdq {

// The folder of the environment variable TMPDIR, or else /var/tmp.
std::string scratch_folder();

// A descriptor for reading and writing, or -1 with errno.
int open_scratch(const std::string& folder);

}  // namespace qdq
