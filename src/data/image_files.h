// Where images come from: a folder and the folders in it, a folder of .tar archives, or one .tar archive.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "base/files.h"
#include "data/sorted_names.h"
#include "format/bytes.h"

namespace qdq {

// The members of a .tar archive, found by their names.
class TarMembers {
 public:
  // Throws what for_each_in_tar throws.
  TarMembers(const std::string& path, Files& files);
  void for_each(const std::function<void(std::string)>& visit) const;
  // Throws Error{kInvalidArgument} if there is no such member.
  format::Bytes read(const std::string& name) const;

 private:
  std::string path_;
  Files& files_;
  SortedNames members_;  // NAME, a zero, and the 16 bytes of offset and size
};

// The names of the files lie outside of memory: data/sorted_names.h says how.
class ImageFiles {
 public:
  // Throws Error{kIo} for what cannot be listed, and what TarMembers throws.
  ImageFiles(std::string path, Files& files);

  const std::string& path() const { return path_; }
  // FILE or FOLDER/FILE; where there are none ARCHIVE.tar/MEMBER; of one archive MEMBER.
  const SortedNames& names() const { return names_; }
  // Files that are not read: images of other kinds, and what else is there.
  struct Unread {
    int64_t count = 0;
    std::string first;  // in the order of their names
  };
  const Unread& foreign_images() const { return foreign_images_; }
  const Unread& other_files() const { return other_files_; }
  std::string path_of(const std::string& name) const { return path_ + "/" + name; }
  // The bytes of one of them, or of a file beside them. Throws Error{kIo}.
  format::Bytes read(const std::string& name) const;
  // Whether several threads may read at the same time.
  bool serves_threads() const { return files_.serves_threads(); }

 private:
  std::string path_;
  Files& files_;
  std::map<std::string, TarMembers, std::less<>> archives_;  // by their names in the folder; of one archive: ""
  SortedNames names_;
  Unread foreign_images_, other_files_;
};

}  // namespace qdq
