// A file that came as a stream, which cannot be asked for a part again: it is held in blocks, and a block is freed as
// soon as its readers have let go of all of it, so that file and weights are not in memory together.
#pragma once

#include <algorithm>
#include <vector>

#include "format/source.h"

namespace qdq::format {

class HeldSource final : public ByteSource {
 public:
  // The next bytes of the file.
  void append(ByteSpan bytes) {
    for (size_t done = 0; done < bytes.size();) {
      if (size_ % kBlock == 0) blocks_.emplace_back().bytes.reserve(kBlock);
      Bytes& last = blocks_.back().bytes;
      const size_t count = std::min(bytes.size() - done, kBlock - last.size());
      qdq::format::append(last, bytes.subspan(done, count));
      done += count;
      size_ += count;
    }
  }

  uint64_t size() const override { return size_; }
  // Throws Error{kUnsupported} for bytes that readers have let go of.
  ByteData read(uint64_t offset, uint64_t count) const override {
    Bytes out;
    out.reserve(static_cast<size_t>(count));
    for_each_block(offset, count, [&](Block& block, size_t from, size_t bytes) {
      QDQ_CHECK(from + bytes <= block.bytes.size(), kUnsupported,
                "two tensors of the file share bytes, and it was given as a stream, whose bytes are read once; give it "
                "as a Uint8Array or as a source that reads parts");
      qdq::format::append(out, ByteSpan(block.bytes).subspan(from, bytes));
    });
    return ByteData(std::move(out));
  }
  void let_go(uint64_t offset, uint64_t count) const override {
    for_each_block(offset, count, [&](Block& block, size_t, size_t bytes) {
      block.let_go += bytes;
      if (block.let_go >= block.bytes.size()) Bytes().swap(block.bytes);
    });
  }
  // The bytes that are in memory.
  uint64_t held() const {
    uint64_t sum = 0;
    for (const Block& block : blocks_) sum += block.bytes.size();
    return sum;
  }

 private:
  static constexpr size_t kBlock = size_t{1} << 20;
  struct Block {
    Bytes bytes;
    uint64_t let_go = 0;
  };
  template <class Body> void for_each_block(uint64_t offset, uint64_t count, const Body& body) const {
    while (count > 0) {
      const auto from = static_cast<size_t>(offset % kBlock);
      const size_t bytes = static_cast<size_t>(std::min<uint64_t>(count, kBlock - from));
      body(blocks_[static_cast<size_t>(offset / kBlock)], from, bytes);
      offset += bytes;
      count -= bytes;
    }
  }

  mutable std::vector<Block> blocks_;
  uint64_t size_ = 0;
};

}  // namespace qdq::format
