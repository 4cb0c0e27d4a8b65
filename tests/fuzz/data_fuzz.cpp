// Fuzz target of samples, labels and names of classes. The first byte says which file the others are; the rest of the
// files is in order.
#include "data/data.h"

#include "base/memory.h"
#include "fuzz/fuzz.h"
#include "fuzz/small_program.h"
#include "unit/memory_files.h"

namespace {

// A bitmap of 6 x 6 pixels.
std::string bitmap() {
  std::string out = "BM";
  const auto number = [&](uint32_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) out.push_back(static_cast<char>(value >> (8 * i)));
  };
  constexpr uint32_t kSide = 6, kRow = 20, kHeader = 54;
  number(kHeader + kSide * kRow, 4);
  number(0, 4);
  number(kHeader, 4);
  number(40, 4);
  number(kSide, 4);
  number(kSide, 4);
  number(1, 2);
  number(24, 2);
  for (int i = 0; i < 6; ++i) number(0, 4);
  for (uint32_t i = 0; i < kSide * kRow; ++i) out.push_back(static_cast<char>(7 * i));
  return out;
}

}  // namespace

QDQ_FUZZ_TARGET(data)(const uint8_t* data, size_t size) {
  using namespace qdq;
  if (size == 0) return 0;
  static const Program program = fuzz::small_program();
  set_memory_limit(MemoryLimit(64 << 20, "that the fuzzing allows"));
  MemoryFiles files;
  for (const char* name : {"images/cat/0.bmp", "images/dog/1.bmp"}) files.add(name, bitmap());
  files.add("preprocess.json", R"({"resize": [6, 6]})");
  files.add("classes.txt", "cat\ndog\n");
  files.add("labels.csv", "0.bmp,cat\n1.bmp,dog\n");
  static constexpr const char* kNames[] = {"labels.csv", "classes.txt",      "preprocess.json", "images.tar",
                                           "data.npz",   "images/cat/0.bmp", "labels.npy",      "data.npy"};
  const std::string name = kNames[data[0] % std::size(kNames)];
  files.add(name, format::text_of(fuzz::input(data + 1, size - 1)));
  const bool is_data = name.ends_with(".tar") || name.starts_with("data.");
  fuzz::refusable([&] {
    const auto samples =
        open_data(is_data ? name : "images", program, {.preprocess = "preprocess.json", .batch_size = 2}, files);
    for (int64_t i = 0; i < std::min<int64_t>(samples->num_batches(), 4); ++i)
      fuzz::refusable([&] { samples->batch(i); });
    for (const char* labels : {"labels.csv", "folders", "cls", "labels.npy"})
      fuzz::refusable([&] {
        Classes classes = read_classes("classes.txt", 2, files);
        for (const int64_t label : read_labels(labels, *samples, classes, files))
          QDQ_CHECK(0 <= label && label < 2, kInternal, "a label is ", label, " of 2 classes");
      });
  });
  return 0;
}
