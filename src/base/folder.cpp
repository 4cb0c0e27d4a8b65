#include "base/folder.h"

#include <dirent.h>

#include <cerrno>
#include <memory>
#include <string_view>

namespace qdq {

int for_each_name_in(const std::string& folder, const std::function<void(const char*)>& take) {
  const std::unique_ptr<DIR, decltype([](DIR* open) { closedir(open); })> open(opendir(folder.c_str()));
  if (!open) return errno;
  for (;;) {
    errno = 0;
    const dirent* const entry = readdir(open.get());
    if (entry == nullptr) return errno;
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") take(entry->d_name);
  }
}

}  // namespace qdq
