// Fuzz target of NumPy's files: the bytes as .npy and as .npz.
#include "format/npz.h"

#include "fuzz/fuzz.h"

QDQ_FUZZ_TARGET(npz)(const uint8_t* data, size_t size) {
  using namespace qdq;
  fuzz::refusable([&] {
    const Tensor array = format::read_npy(fuzz::input(data, size));
    const Tensor back = format::read_npy(format::write_npy(array));
    QDQ_CHECK(bitwise_equal(array, back), kInternal, "an array did not survive writing and reading");
  });
  fuzz::refusable([&] { format::read_npz(fuzz::input(data, size)); });
  return 0;
}
