// Fuzz target of pickles: the bytes as a pickle, and as the pickle of a torch.save file.
#include "format/pickle.h"

#include "format/torch_file.h"
#include "format/zip.h"
#include "fuzz/fuzz.h"

QDQ_FUZZ_TARGET(pickle)(const uint8_t* data, size_t size) {
  using namespace qdq;
  using namespace qdq::format;
  fuzz::refusable([&] { write_pickle(read_pickle(fuzz::input(data, size))); });
  ZipWriter archive;
  archive.add("archive/data.pkl", fuzz::input(data, size));
  const Bytes storage(64, std::byte{1});
  for (const char* key : {"0", "1", "2", "3"}) archive.add(std::string("archive/data/") + key, storage);
  const Bytes bytes = archive.finish();
  fuzz::refusable([&] {
    const std::vector<TorchTensor> tensors = read_torch_file(bytes);
    read_torch_file(write_torch_file(tensors));
  });
  return 0;
}
