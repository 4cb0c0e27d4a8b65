// Bytes that are read part by part, so that a file larger than the memory can be looked into.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "base/files.h"
#include "format/bytes.h"

namespace qdq::format {

// Some bytes: a view of what lies elsewhere, or bytes of its own.
class ByteData {
 public:
  explicit ByteData(ByteSpan view) : view_(view) {}
  explicit ByteData(Bytes owned) : owned_(std::move(owned)), view_(owned_) {}
  ByteData(ByteData&&) = default;
  ByteData& operator=(ByteData&&) = default;
  ByteSpan bytes() const { return view_; }
  std::string_view text() const { return text_of(view_); }

 private:
  Bytes owned_;
  ByteSpan view_;
};

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  virtual uint64_t size() const = 0;
  // The bytes from `offset` on, which lie inside. Throws Error{kIo} if they cannot be read.
  virtual ByteData read(uint64_t offset, uint64_t count) const = 0;
  // Says that these bytes have been read for the last time. A source that holds bytes for its readers alone frees them.
  virtual void let_go(uint64_t /*offset*/, uint64_t /*count*/) const {}
};

// Bytes in memory, which must outlive what is read of them.
class MemorySource final : public ByteSource {
 public:
  explicit MemorySource(ByteSpan bytes) : bytes_(bytes) {}
  explicit MemorySource(ByteData data) : data_(std::move(data)), bytes_(data_.bytes()) {}
  uint64_t size() const override { return bytes_.size(); }
  ByteData read(uint64_t offset, uint64_t count) const override {
    return ByteData(bytes_.subspan(static_cast<size_t>(offset), static_cast<size_t>(count)));
  }

 private:
  ByteData data_{ByteSpan()};
  ByteSpan bytes_;
};

// Some bytes of another source, which lie inside.
class PartSource final : public ByteSource {
 public:
  PartSource(std::shared_ptr<const ByteSource> whole, uint64_t offset, uint64_t size)
      : whole_(std::move(whole)), offset_(offset), size_(size) {}
  uint64_t size() const override { return size_; }
  ByteData read(uint64_t offset, uint64_t count) const override { return whole_->read(offset_ + offset, count); }
  void let_go(uint64_t offset, uint64_t count) const override { whole_->let_go(offset_ + offset, count); }

 private:
  std::shared_ptr<const ByteSource> whole_;
  uint64_t offset_, size_;
};

// A file, read part by part. The files must outlive it. Throws Error{kIo} if there is no such file.
class FileSource final : public ByteSource {
 public:
  FileSource(Files& files, std::string path) : files_(files), path_(std::move(path)), size_(files.size_of(path_)) {}
  uint64_t size() const override { return size_; }
  ByteData read(uint64_t offset, uint64_t count) const override {
    Bytes bytes = files_.read_part(path_, offset, count);
    QDQ_CHECK(bytes.size() == count, kIo, "cannot read ", path_, ": it has become shorter while it was read");
    return ByteData(std::move(bytes));
  }

 private:
  Files& files_;
  std::string path_;
  uint64_t size_;
};

}  // namespace qdq::format
