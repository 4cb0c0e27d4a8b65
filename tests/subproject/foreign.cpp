// Quantizes nothing: it only compiles and links beside a library that keeps to itself.
#include <cstdio>

#include <qdq/qdq.h>

#include "base/error.h"

int main() {
  try {
    qdq::load_model("no.pt2");
  } catch (const qdq::Error& error) {
    std::printf("%s (%d)\n", error.message.c_str(), errors_of_my_own());
    return 0;
  }
  return 1;
}
