// What qdq runs on, in words.
#pragma once

#include <string>

namespace qdq {

// "native, AVX-512 VNNI, AVX-VNNI": the build and the features of the processor that its kernels ask for.
std::string machine_text();

}  // namespace qdq
