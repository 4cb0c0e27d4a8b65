// Files that came as streams: parts as they were given, and freed as their readers let go of them.
#include "format/held_source.h"

#include <gtest/gtest.h>

#include "format/torch_file.h"
#include "format/zip.h"
#include "unit/format/expect_error.h"

namespace qdq::format::held_source_test {
namespace {

Bytes counted(size_t count) {
  Bytes out(count);
  for (size_t i = 0; i < count; ++i) out[i] = static_cast<std::byte>(i * 2654435761u >> 24);
  return out;
}

// In parts of so many bytes.
std::shared_ptr<HeldSource> held(ByteSpan file, size_t part) {
  auto out = std::make_shared<HeldSource>();
  for (size_t done = 0; done < file.size(); done += part)
    out->append(file.subspan(done, std::min(part, file.size() - done)));
  return out;
}

bool is_part(const ByteData& data, ByteSpan file, size_t offset) {
  return std::ranges::equal(data.bytes(), file.subspan(offset, data.bytes().size()));
}

TEST(HeldSource, GivesThePartsOfWhatCameInParts) {
  const Bytes file = counted(5'000'000);
  for (const size_t part : {size_t{999}, size_t{1} << 20, file.size()}) {
    const auto source = held(file, part);
    EXPECT_EQ(source->size(), file.size());
    EXPECT_EQ(source->held(), file.size());
    for (const auto& [offset, count] : {std::pair<size_t, size_t>{0, 10}, {1'048'570, 20}, {4'999'999, 1}, {7, 0}})
      EXPECT_TRUE(is_part(source->read(offset, count), file, offset));
    EXPECT_TRUE(is_part(source->read(0, file.size()), file, 0));
  }
}

TEST(HeldSource, FreesABlockOnceAllOfItIsLetGo) {
  constexpr uint64_t kBlock = uint64_t{1} << 20;
  const Bytes file = counted(3 * kBlock + 5);
  const auto source = held(file, kBlock);
  source->let_go(10, kBlock);
  EXPECT_EQ(source->held(), file.size());
  EXPECT_TRUE(is_part(source->read(0, file.size()), file, 0));
  source->let_go(0, 10);
  EXPECT_EQ(source->held(), file.size() - kBlock);
  source->let_go(kBlock + 10, kBlock - 10);
  EXPECT_EQ(source->held(), kBlock + 5);
  EXPECT_TRUE(is_part(source->read(2 * kBlock, kBlock + 5), file, 2 * kBlock));
  expect_error(ErrorCode::kUnsupported, "was given as a stream", [&] { source->read(0, 1); });
  source->let_go(2 * kBlock, kBlock + 5);
  EXPECT_EQ(source->held(), 0u);
}

// The archive within an archive that torch.export.save of PyTorch 2.6 writes.
TEST(HeldSource, ReadingTheTensorsOfAFileFreesIt) {
  std::vector<TorchTensor> tensors;
  for (int i = 0; i < 8; ++i) {
    TorchTensor tensor{"weight" + std::to_string(i), Tensor::empty({300'000 + i}, DType::kF32), true, false};
    std::memcpy(tensor.tensor.raw(), counted(tensor.tensor.nbytes()).data(), tensor.tensor.nbytes());
    tensors.push_back(std::move(tensor));
  }
  const Bytes weights = write_torch_file(tensors);
  ZipWriter writer;
  writer.add("before", counted(100));
  writer.add("weights.pt", weights);
  writer.add("behind", counted(100));
  const auto source = held(writer.finish(), 100'000);
  const ZipReader zip(source, "the file");
  const auto found = read_torch_file(zip.source_of(*zip.find("weights.pt")), "weights.pt", true);
  ASSERT_EQ(found.size(), tensors.size());
  for (size_t i = 0; i < found.size(); ++i)
    EXPECT_EQ(std::memcmp(found[i].tensor.raw(), tensors[i].tensor.raw(), tensors[i].tensor.nbytes()), 0);
  // The blocks at both ends hold the directories too.
  EXPECT_LE(source->held(), uint64_t{2} << 20);
  EXPECT_EQ(zip.read("behind").bytes().size(), 100u);
}

}  // namespace
}  // namespace qdq::format::held_source_test
