#include "base/scratch_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>

namespace qdq {

std::string scratch_folder() {
  const char* folder = std::getenv("TMPDIR");
  return folder != nullptr && *folder != 0 ? folder : "/var/tmp";
}

int open_scratch(const std::string& folder) {
#if defined(O_TMPFILE) && !defined(__EMSCRIPTEN__)
  const int unnamed = open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (unnamed >= 0) return unnamed;
#endif
  std::string name = folder + "/qdq.XXXXXX";
  const int named = mkstemp(name.data());
  if (named >= 0) unlink(name.c_str());
  return named;
}

}  // namespace qdq
