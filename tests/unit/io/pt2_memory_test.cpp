// Archives that declare more than memory holds: nothing is allocated for them.
#include <gtest/gtest.h>

#include "io/pt2.h"
#include "unit/base/limited_memory.h"
#include "unit/format/expect_error.h"
#include "unit/io/edited_pt2.h"

namespace qdq::pt2_memory_test {
namespace {

constexpr uint64_t kFiveGigabytes = 5'000'000'000;

template <class T> void put(format::Bytes& bytes, size_t at, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) bytes[at + i] = static_cast<std::byte>(value >> 8 * i);
}

// conv_net with one member more, which claims to be 5 GB when it is inflated. As many bytes are there as a deflated
// member of that size has.
format::Bytes with_five_gigabytes() {
  format::ZipWriter zip({1, true});
  const std::string name = "extra_files/weights.bin";
  zip.add(name, format::Bytes(kFiveGigabytes / 1032 + 1));
  for (const auto& [other, bytes] : members_of("conv_net")) zip.add(other, bytes);
  format::Bytes file = zip.finish();
  constexpr uint16_t kDeflated = 8;
  constexpr size_t kCentralHeader = 46;
  put(file, 8, kDeflated);  // in the local header, which stands first
  const size_t central = format::text_of(file).rfind(name) - kCentralHeader;
  put(file, central + 10, kDeflated);
  put(file, central + kCentralHeader + name.size() + 4, kFiveGigabytes);
  return file;
}

TEST(Pt2Memory, AnArchiveThatInflatesToFiveGigabytesIsRefusedBeforeItIsRead) {
  const format::Bytes file = with_five_gigabytes();
  const LimitedMemory limit(4'000'000'000);
  expect_error(ErrorCode::kOutOfMemory, "loading the .pt2 file needs at least 5000 MB of memory, and ",
               [&] { load_pt2(file); });
}

// Were it made, the limit would refuse it in other words.
TEST(Pt2Memory, AWeightThatIsDeclaredWithFiveGigabytesDoesNotFitItsBytes) {
  const LimitedMemory limit(1'000'000'000);
  expect_error(ErrorCode::kBadFile,
               "the weight 'turned' in shared_archive/data/weights/weight_1 does not fit its bytes", [] {
                 load_pt2(with_json("shared_archive", "shared_archive/data/weights/model_weights_config.json",
                                    [](format::Json& json) {
                                      format::Json& meta = json["config"]["turned"]["tensor_meta"];
                                      meta["sizes"] = {{{"as_int", 25'000}}, {{"as_int", 50'000}}};
                                      meta["strides"] = {{{"as_int", 50'000}}, {{"as_int", 1}}};
                                    }));
               });
}

// conv_net says of its weights what it wants; the file has them as they are.
TEST(Pt2Memory, AGraphThatDescribesAWeightOfFiveGigabytesIsNotBelieved) {
  expect_error(ErrorCode::kBadFile, "float32[25000, 50000, 1, 1], but the file holds float32[4, 2, 3, 3]", [] {
    load_pt2(with_json("conv_net", "serialized_exported_program.json", [](format::Json& program) {
      format::Json& sizes = program["graph_module"]["graph"]["tensor_values"]["p_conv_weight"]["sizes"];
      const int64_t wanted[] = {25'000, 50'000, 1, 1};
      for (size_t i = 0; i < 4; ++i) sizes[i]["as_int"] = wanted[i];
    }));
  });
}

}  // namespace
}  // namespace qdq::pt2_memory_test
