#include "data/image_files.h"

#include <utility>
#include <vector>

#include "base/error.h"
#include "data/file_names.h"
#include "format/tar.h"

namespace qdq {

namespace {

void put_number(std::string& out, uint64_t value) {
  for (int shift = 56; shift >= 0; shift -= 8) out += static_cast<char>(value >> shift & 255);
}

uint64_t number_at(std::string_view text, size_t at) {
  uint64_t value = 0;
  for (size_t i = 0; i < 8; ++i) value = value << 8 | static_cast<unsigned char>(text[at + i]);
  return value;
}

constexpr size_t kNumbers = 17;  // what stands behind a member's name

}  // namespace

TarMembers::TarMembers(const std::string& path, Files& files) : path_(path), files_(files) {
  NameSorter sorter;
  const auto add = [&](const format::TarEntry& entry) {
    std::string member = entry.name + '\0';
    put_number(member, entry.offset);
    put_number(member, entry.size);
    sorter.add(std::move(member));
  };
  format::for_each_in_tar(format::FileSource(files, path), add, path);
  members_ = sorter.finish();
}

void TarMembers::for_each(const std::function<void(std::string)>& visit) const {
  std::string last;
  members_.for_each([&](std::string_view member) {
    const std::string_view name = member.substr(0, member.size() - kNumbers);
    if (name == last) return;
    last = name;
    visit(last);
  });
}

format::Bytes TarMembers::read(const std::string& name) const {
  std::string key = name + '\0', found;
  // As tar unpacks it: the last of a name counts.
  for (int64_t i = members_.lower_bound(key); i < members_.size(); ++i) {
    std::string member = members_[i];
    if (!member.starts_with(key) || member.size() != name.size() + kNumbers) break;
    found = std::move(member);
  }
  QDQ_CHECK(!found.empty(), kInvalidArgument, path_, " has no member ", name,
            "; it has changed since it was opened, so start again");
  return files_.read_part(path_, number_at(found, key.size()), number_at(found, key.size() + 8));
}

ImageFiles::ImageFiles(std::string path, Files& files) : path_(std::move(path)), files_(files) {
  NameSorter sorter;
  bool has_images = false;
  std::vector<std::string> archives;
  const auto add = [&](std::string name) {
    if (!is_image(name)) {
      Unread& unread = is_foreign_image(name) ? foreign_images_ : other_files_;
      if (++unread.count == 1 || name < unread.first) unread.first = std::move(name);
      return;
    }
    has_images = true;
    sorter.add(std::move(name));
  };
  if (files_.is_folder(path_)) {
    files_.for_each_name(path_, [&](const std::string& name) {
      if (is_image(name)) add(name);
      else if (files_.is_folder(path_of(name)))
        files_.for_each_name(path_of(name), [&](const std::string& inner) { add(name + "/" + inner); });
      else if (ends_with(name, ".tar")) archives.push_back(name);
      else add(name);
    });
  } else {
    archives.emplace_back();
  }
  if (!has_images)
    for (const std::string& name : archives) {
      const auto& members = archives_.try_emplace(name, name.empty() ? path_ : path_of(name), files_).first->second;
      members.for_each([&](const std::string& member) { add(name.empty() ? member : name + "/" + member); });
    }
  names_ = sorter.finish();
}

format::Bytes ImageFiles::read(const std::string& name) const {
  if (archives_.empty()) return files_.read(path_of(name));
  if (archives_.begin()->first.empty()) return archives_.begin()->second.read(name);
  const std::string_view front = front_of(name);
  const auto archive = archives_.find(front);
  if (archive == archives_.end()) return files_.read(path_of(name));
  return archive->second.read(name.substr(front.size() + 1));
}

}  // namespace qdq
