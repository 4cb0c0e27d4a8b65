// Files in memory.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/files.h"

namespace qdq {

class MemoryFiles : public Files {
 public:
  std::vector<std::byte> read(const std::string& path) override {
    const auto found = contents.find(path);
    QDQ_CHECK(found != contents.end(), kIo, "cannot read ", path, ": there is no such file");
    ++reads[path];
    return found->second;
  }
  void write(const std::string& path, std::span<const std::byte> bytes) override {
    QDQ_CHECK(!full, kIo, "cannot write ", path, ": the disk is full");
    contents[path].assign(bytes.begin(), bytes.end());
  }
  std::string why_not_written(const std::string& folder) override {
    return locked.contains(folder) ? "permission denied" : "";
  }
  std::vector<std::string> list(const std::string& folder) override {
    std::set<std::string> names;
    for (const auto& [file, bytes] : contents)
      if (file.starts_with(folder + "/"))
        names.insert(file.substr(folder.size() + 1, file.find('/', folder.size() + 1) - folder.size() - 1));
    QDQ_CHECK(!names.empty(), kIo, "cannot list ", folder, ": there is no such folder");
    return {names.rbegin(), names.rend()};
  }
  bool is_folder(const std::string& path) override {
    const auto inside = contents.lower_bound(path + "/");
    return inside != contents.end() && inside->first.starts_with(path + "/");
  }
  bool is_file(const std::string& path) override { return contents.contains(path); }

  void add(const std::string& path, std::string_view text) {
    const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
    contents[path].assign(bytes, bytes + text.size());
  }

  std::map<std::string, std::vector<std::byte>> contents;
  std::map<std::string, int> reads;
  std::set<std::string> locked;  // folders that take no files
  bool full = false;
};

}  // namespace qdq
