// A Host whose files and console are in memory.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "cli/host.h"

namespace qdq {

class MemoryHost : public Host {
 public:
  std::vector<std::byte> read_file(const std::string& path) override {
    const auto found = files.find(path);
    QDQ_CHECK(found != files.end(), kIo, "cannot read ", path, ": there is no such file");
    ++reads[path];
    return found->second;
  }
  void write_file_whole(const std::string& path, std::span<const std::byte> bytes) override {
    QDQ_CHECK(!full, kIo, "cannot write ", path, ": the disk is full");
    files[path].assign(bytes.begin(), bytes.end());
  }
  std::vector<std::string> list_folder(const std::string& path) override {
    std::set<std::string> names;
    for (const auto& [file, bytes] : files)
      if (file.starts_with(path + "/")) names.insert(file.substr(path.size() + 1, file.find('/', path.size() + 1) - path.size() - 1));
    QDQ_CHECK(!names.empty(), kIo, "cannot list ", path, ": there is no such folder");
    return {names.rbegin(), names.rend()};
  }
  bool is_folder(const std::string& path) override {
    const auto inside = files.lower_bound(path + "/");
    return inside != files.end() && inside->first.starts_with(path + "/");
  }
  bool is_file(const std::string& path) override { return files.contains(path); }
  void print(const std::string& text) override { out += text; }
  void print_error(const std::string& text) override { err += text; }
  bool error_is_terminal() override { return terminal; }
  double now_seconds() override { return clock += 0.125; }

  void add(const std::string& path, std::string_view text) {
    const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
    files[path].assign(bytes, bytes + text.size());
  }

  std::map<std::string, std::vector<std::byte>> files;
  std::map<std::string, int> reads;
  std::string out, err;
  bool terminal = false;
  bool full = false;
  double clock = 0;
};

}  // namespace qdq
