// How much of the scratch files of base/disk_blocks.h is in memory.
#pragma once

#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>

namespace qdq {

// In bytes, as Linux tells it.
inline uint64_t resident_disk_bytes() {
  std::ifstream maps("/proc/self/smaps");
  uint64_t kilobytes = 0;
  bool is_scratch = false;
  for (std::string line; std::getline(maps, line);) {
    if (line.find('-') < line.find(' ')) is_scratch = line.ends_with(" (deleted)");
    if (is_scratch && line.starts_with("Rss:")) {
      uint64_t count = 0;
      std::istringstream(line.substr(4)) >> count;
      kilobytes += count;
    }
  }
  return kilobytes * 1024;
}

}  // namespace qdq
