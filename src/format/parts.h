// Bytes that lie in several places, one part behind the other: files that are written without being put together first.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "format/bytes.h"

namespace qdq::format {

class Parts {
 public:
  Parts() = default;
  explicit Parts(Bytes bytes) { add(std::move(bytes)); }

  void add(Bytes bytes) {
    const auto owner = std::make_shared<const Bytes>(std::move(bytes));
    add(owner, *owner);
  }
  // Bytes that stay where they are as long as `owner` lives.
  void add(std::shared_ptr<const void> owner, ByteSpan bytes) {
    if (bytes.empty()) return;
    owners_.push_back(std::move(owner));
    spans_.push_back(bytes);
    size_ += bytes.size();
  }
  void add(const Parts& others) {
    for (size_t i = 0; i < others.spans_.size(); ++i) add(others.owners_[i], others.spans_[i]);
  }

  uint64_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const std::vector<ByteSpan>& spans() const { return spans_; }
  // All of them as one.
  Bytes joined() const {
    Bytes out;
    out.reserve(static_cast<size_t>(size_));
    for (const ByteSpan part : spans_) append(out, part);
    return out;
  }

 private:
  std::vector<std::shared_ptr<const void>> owners_;
  std::vector<ByteSpan> spans_;
  uint64_t size_ = 0;
};

}  // namespace qdq::format
