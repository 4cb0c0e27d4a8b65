// Tar archives: shards of samples as WebDataset has them.
#pragma once

#include <functional>
#include <string>

#include "format/source.h"

namespace qdq::format {

struct TarEntry {
  std::string name;
  uint64_t offset = 0;  // of its bytes in the archive
  uint64_t size = 0;
};

// Visits the regular files of an archive (ustar, with GNU's and pax's long names and sizes) in its order; folders,
// links and other members are passed over. Reads the headers alone. `what` names the archive in errors. Throws
// Error{kBadFile} if it is damaged or cut off.
void for_each_in_tar(const ByteSource& source, const std::function<void(TarEntry)>& visit,
                     const std::string& what = "the tar archive");

}  // namespace qdq::format
