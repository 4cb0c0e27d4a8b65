// Files of models as JavaScript gives them.
#pragma once

#include <emscripten/val.h>

#include <memory>

#include "border.h"
#include "bytes.h"
#include "format/held_source.h"

namespace qdq {

// An object whose method readInto(offset, out) fills a part, and answers how many bytes it filled.
class JavaScriptSource final : public format::ByteSource {
 public:
  explicit JavaScriptSource(emscripten::val source)
      : source_(std::move(source)), size_(static_cast<uint64_t>(source_["size"].as<double>())) {}

  uint64_t size() const override { return size_; }
  format::ByteData read(uint64_t offset, uint64_t count) const override {
    format::Bytes bytes(static_cast<size_t>(count));
    const auto filled = source_.call<double>("readInto", static_cast<double>(offset), view_of(bytes));
    QDQ_CHECK(filled == static_cast<double>(count), kIo, "the source of the model was asked for ", count,
              " bytes from the byte ", offset, " on and gave ", filled);
    return format::ByteData(std::move(bytes));
  }

 private:
  emscripten::val source_;
  uint64_t size_;
};

// The bytes of a file that came as a stream, known to JavaScript by a number.
using HeldFile = std::shared_ptr<format::HeldSource>;

// From a Uint8Array, which is copied, an object with size and readInto, or the number of a HeldFile.
inline std::shared_ptr<const format::ByteSource> source_from(const emscripten::val& raw) {
  if (raw.isNumber()) return held<HeldFile>(raw.as<int>(), "a file");
  if (raw.hasOwnProperty("readInto")) return std::make_shared<JavaScriptSource>(raw);
  return std::make_shared<format::MemorySource>(format::ByteData(bytes_from(raw)));
}

}  // namespace qdq
