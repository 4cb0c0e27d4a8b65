// Fuzz target of zip archives: the directory and every member.
#include "format/zip.h"

#include "fuzz/fuzz.h"

QDQ_FUZZ_TARGET(zip)(const uint8_t* data, size_t size) {
  qdq::fuzz::refusable([&] {
    const qdq::format::ZipReader archive(qdq::fuzz::input(data, size));
    for (const auto& entry : archive.entries()) qdq::fuzz::refusable([&] { archive.read(entry); });
  });
  return 0;
}
