// Names of millions of files in little memory.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/scratch_bytes.h"

namespace qdq {

// Names in the order of their bytes. Each is held without the beginning that it shares with the one before: those of
// ImageNet (n01440764/n01440764_10026.JPEG) take 9 to 10 bytes each in place of 30. Those bytes are set aside; 8 for 64
// names stay in memory.
class SortedNames {
 public:
  // `store`: where the bytes go, which names may share.
  explicit SortedNames(std::shared_ptr<ScratchBytes> store = std::make_shared<ScratchBytes>());
  // A name that comes after all that are there, or is the last again.
  void append(std::string_view name);
  int64_t size() const { return size_; }
  std::string operator[](int64_t index) const;
  // The first name that is not before `name`; size() if there is none.
  int64_t lower_bound(std::string_view name) const;
  void for_each(const std::function<void(std::string_view)>& visit) const;
  uint64_t bytes() const { return bytes_; }

  // Goes from name to name.
  class Cursor {
   public:
    Cursor(const SortedNames& names, size_t block) : names_(&names), next_block_(block) {}
    bool next();  // false behind the last
    const std::string& name() const { return name_; }

   private:
    const SortedNames* names_;
    size_t next_block_, at_ = 0;
    std::string block_, name_;
  };

 private:
  std::string block(size_t index) const;

  // Of as many names as kBlock says each; the first is whole.
  static constexpr int64_t kBlock = 64;
  std::shared_ptr<ScratchBytes> store_;
  std::vector<uint64_t> begins_;  // of the blocks that are set aside, and the end of the last
  std::string open_;              // the block that grows
  std::string last_;
  int64_t size_ = 0;
  uint64_t bytes_ = 0;
};

// Sorts names that come in any order. Some thousands of them at a time are sorted and set aside, and those runs merged.
class NameSorter {
 public:
  void add(std::string name);
  SortedNames finish();

 private:
  void pack();
  std::vector<std::string> names_;
  std::shared_ptr<ScratchBytes> store_ = std::make_shared<ScratchBytes>();
  std::vector<SortedNames> runs_;
};

}  // namespace qdq
