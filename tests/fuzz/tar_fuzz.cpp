// Fuzz target of tar archives: what is listed lies in the archive.
#include "format/tar.h"

#include "fuzz/fuzz.h"

QDQ_FUZZ_TARGET(tar)(const uint8_t* data, size_t size) {
  using namespace qdq;
  fuzz::refusable([&] {
    const format::MemorySource source(fuzz::input(data, size));
    format::for_each_in_tar(source, [&](const format::TarEntry& entry) {
      QDQ_CHECK(entry.offset <= size && entry.size <= size - entry.offset, kInternal, entry.name,
                " lies outside of the archive");
    });
  });
  return 0;
}
