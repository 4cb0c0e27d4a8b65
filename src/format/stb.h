// What stb_image and stb_image_write do beside what their own headers declare.
#pragma once

#include <cstdint>

#include "format/bytes.h"

namespace qdq::format {

// The bytes as a zlib stream (RFC 1950): 1 to 2^30 bytes, stb_image_write's quality. One call at a time works, others
// wait. Throws std::bad_alloc.
Bytes zlib_stream(ByteSpan data, int quality);

// How often the decoders were given no memory, by all threads: they say no more than that an image cannot be decoded.
uint64_t refused_to_decoders();

}  // namespace qdq::format
