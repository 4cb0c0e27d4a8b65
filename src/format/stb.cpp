// The one place where stb_image is compiled: the decoders of JPEG, PNG and BMP, and inflate. Without SIMD and without
// libm's pow, so that pixels are the same natively and in WASM. And stb_image_write, for thumbnails.
#include <cstdlib>

// A JPEG that lacks a scan leaves planes unwritten; they must be the same every time.
#define STBI_MALLOC(size) std::calloc(1, size)
#define STBI_REALLOC(pointer, size) std::realloc(pointer, size)
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

#define STBI_WRITE_NO_STDIO
#define STB_IMAGE_WRITE_IMPLEMENTATION
#include <stb/stb_image_write.h>
