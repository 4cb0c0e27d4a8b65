// Fuzz target of torch.save files as a whole.
#include "format/torch_file.h"

#include "fuzz/fuzz.h"

QDQ_FUZZ_TARGET(torch_file)(const uint8_t* data, size_t size) {
  qdq::fuzz::refusable([&] { qdq::format::read_torch_file(qdq::fuzz::input(data, size)); });
  return 0;
}
