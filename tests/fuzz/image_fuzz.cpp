// Fuzz target of images.
#include "format/image.h"

#include "fuzz/fuzz.h"

QDQ_FUZZ_TARGET(image)(const uint8_t* data, size_t size) {
  qdq::fuzz::refusable([&] { qdq::format::decode_image(qdq::fuzz::input(data, size)); });
  return 0;
}
