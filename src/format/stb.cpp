// The one place where stb_image is compiled: the decoders of JPEG, PNG and BMP, and inflate. Without SIMD and without
// libm's pow, so that pixels are the same natively and in WASM. And stb_image_write, for thumbnails and deflate.
#include "format/stb.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>

namespace {

std::atomic<uint64_t> refused{0};

void* counted(void* block) {
  if (block == nullptr) ++refused;
  return block;
}

// stb_image_write does not look whether it got its memory. It gets it from here or is left by an exception, and all of
// it is freed behind the call.
class WriterMemory {
 public:
  void* take(size_t size) {
    blocks_.push_back(std::make_unique_for_overwrite<char[]>(size));
    return blocks_.back().get();
  }
  void* grow(const void* block, size_t old_size, size_t size) {
    void* const larger = take(size);
    if (block != nullptr) std::memcpy(larger, block, old_size);
    return larger;
  }

 private:
  std::vector<std::unique_ptr<char[]>> blocks_;
};

std::mutex writing;
WriterMemory* writer_memory = nullptr;  // of the call that holds the mutex

}  // namespace

// A JPEG that lacks a scan leaves planes unwritten; they must be the same every time.
#define STBI_MALLOC(size) counted(std::calloc(1, size))
#define STBI_REALLOC(pointer, size) counted(std::realloc(pointer, size))
#define STBI_FREE(pointer) std::free(pointer)
#define STBI_NO_SIMD
#define STBI_NO_STDIO
#define STBI_NO_LINEAR
#define STBI_NO_HDR
#define STBI_ONLY_JPEG
#define STBI_ONLY_PNG
#define STBI_ONLY_BMP
// CMakeLists.txt says why WASM has no thread-local variables here; image.cpp tells itself what is wrong with an image.
#define STBI_NO_THREAD_LOCALS
#define STBI_NO_FAILURE_STRINGS
#define STB_IMAGE_IMPLEMENTATION
#include <stb/stb_image.h>

#define STBIW_MALLOC(size) writer_memory->take(size)
#define STBIW_REALLOC_SIZED(pointer, old_size, size) writer_memory->grow(pointer, old_size, size)
#define STBIW_FREE(pointer) static_cast<void>(pointer)
#define STBI_WRITE_NO_STDIO
#define STB_IMAGE_WRITE_IMPLEMENTATION
#include <stb/stb_image_write.h>

namespace qdq::format {

uint64_t refused_to_decoders() { return refused; }

Bytes zlib_stream(ByteSpan data, int quality) {
  const std::lock_guard<std::mutex> lock(writing);
  WriterMemory memory;
  writer_memory = &memory;
  int size = 0;
  // It only reads what it is given, though its type does not say so.
  auto* const bytes = const_cast<unsigned char*>(reinterpret_cast<const unsigned char*>(data.data()));
  const auto* const out =
      reinterpret_cast<const std::byte*>(stbi_zlib_compress(bytes, static_cast<int>(data.size()), &size, quality));
  return {out, out + size};
}

}  // namespace qdq::format
