// Names of millions of files in little memory.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace qdq {

// Names in the order of their bytes. Each is held without the beginning that it shares with the one before: those of
// ImageNet (n01440764/n01440764_10026.JPEG) take 9 to 10 bytes each in place of 30.
class SortedNames {
 public:
  // A name that comes after all that are there, or is the last again.
  void append(std::string_view name);
  int64_t size() const { return size_; }
  std::string operator[](int64_t index) const;
  // The first name that is not before `name`; size() if there is none.
  int64_t lower_bound(std::string_view name) const;
  void for_each(const std::function<void(std::string_view)>& visit) const;
  size_t bytes() const;

  // Goes from name to name.
  class Cursor {
   public:
    Cursor(const SortedNames& names, size_t block) : names_(&names), block_(block) {}
    bool next();  // false behind the last
    const std::string& name() const { return name_; }
    size_t block() const { return block_; }

   private:
    const SortedNames* names_;
    size_t block_, at_ = 0;
    std::string name_;
  };

 private:
  friend class NameSorter;
  // Of as many names as kBlock says each; the first is whole.
  static constexpr int64_t kBlock = 64;
  std::vector<std::string> blocks_;
  std::string last_;
  int64_t size_ = 0;
};

// Sorts names that come in any order. Some thousands of them at a time are sorted and packed, and those packs merged.
class NameSorter {
 public:
  void add(std::string name);
  SortedNames finish();

 private:
  // Names of a run that are not merged yet.
  struct Rest {
    SortedNames* run;
    SortedNames::Cursor cursor;
    bool next();
  };
  void pack();
  std::vector<std::string> names_;
  std::vector<SortedNames> runs_;
};

}  // namespace qdq
