// Runs every fuzz target of the formats on mutations of valid files: a short fuzzing, the same every time.
// QDQ_FUZZ_SEED and QDQ_FUZZ_ROUNDS in the environment make it another or a longer one.
#include <gtest/gtest.h>

#include "format/json.h"
#include "format/npz.h"
#include "format/torch_file.h"
#include "format/zip.h"
#include "golden_bytes.h"
#include "unit/fuzz_random.h"

#define LLVMFuzzerTestOneInput fuzz_zip
#include "fuzz/zip_fuzz.cpp"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput fuzz_npz
#include "fuzz/npz_fuzz.cpp"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput fuzz_pickle
#include "fuzz/pickle_fuzz.cpp"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput fuzz_torch_file
#include "fuzz/torch_file_fuzz.cpp"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput fuzz_json
#include "fuzz/json_fuzz.cpp"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput fuzz_image
#include "fuzz/image_fuzz.cpp"
#undef LLVMFuzzerTestOneInput

namespace qdq::format::fuzz_test {
namespace {

// A few changes of the kinds that break parsers: bits, extreme numbers, lost, doubled and exchanged pieces.
Bytes mutated(const Bytes& seed, Random& random) {
  Bytes out = seed;
  for (uint64_t changes = 1 + random.below(4); changes > 0 && !out.empty(); --changes) {
    const size_t at = random.below(out.size());
    const size_t length = std::min<size_t>(out.size() - at, 1 + random.below(16));
    const auto here = out.begin() + static_cast<std::ptrdiff_t>(at), end = here + static_cast<std::ptrdiff_t>(length);
    switch (random.below(7)) {
      case 0: out[at] ^= static_cast<std::byte>(1 << random.below(8)); break;
      case 1: out[at] = static_cast<std::byte>(random.below(256)); break;
      case 2: {
        static constexpr uint64_t kExtreme[] = {0,      1,          0x7F,       0xFF,         0x7FFF,
                                                0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, ~uint64_t{0}, ~uint64_t{0} >> 1};
        const uint64_t value = kExtreme[random.below(std::size(kExtreme))];
        std::memcpy(&out[at], &value, std::min<size_t>({out.size() - at, sizeof(value), size_t{1} << random.below(4)}));
        break;
      }
      case 3: out.erase(here, end); break;
      case 4: {
        const Bytes piece(here, end);
        out.insert(here, piece.begin(), piece.end());
        break;
      }
      case 5: out.resize(at); break;
      case 6: {
        const size_t from = random.below(seed.size());
        std::copy_n(seed.begin() + static_cast<std::ptrdiff_t>(from), std::min(length, seed.size() - from), here);
        break;
      }
    }
  }
  return out;
}

using Target = int (*)(const uint8_t*, size_t);

void fuzz(Target target, const std::vector<Bytes>& seeds, int64_t rounds) {
  const auto seed = static_cast<uint64_t>(setting("QDQ_FUZZ_SEED", 20261120));
  rounds = setting("QDQ_FUZZ_ROUNDS", rounds);
  for (size_t file = 0; file < seeds.size(); ++file) {
    Random random(seed + file);
    for (int64_t round = 0; round < rounds; ++round) {
      const Bytes input = mutated(seeds[file], random);
      try {
        target(reinterpret_cast<const uint8_t*>(input.data()), input.size());
      } catch (const std::exception& error) {
        FAIL() << "QDQ_FUZZ_SEED=" << seed << ", file " << file << ", round " << round << ": " << error.what();
      }
    }
  }
}

Bytes zip_member(const Bytes& archive, std::string_view name) {
  const ZipReader reader(archive);
  const ByteData data = reader.read(name);
  return {data.bytes().begin(), data.bytes().end()};
}

Bytes text(std::string_view json) { return {bytes_of(json).begin(), bytes_of(json).end()}; }

TEST(Fuzz, Zip) {
  ZipWriter wide({64, true});
  wide.add("a/b", bytes_of("some bytes"));
  wide.add("c", {});
  const Bytes npz = golden_bytes("format/image.npz");
  fuzz(fuzz_zip, {wide.finish(), golden_bytes("format/nested.pt"), npz}, 700);
}

TEST(Fuzz, Npz) {
  const NamedTensor arrays[] = {{"a", Tensor::of<float>({2, 2}, {1, 2, 3, 4})}, {"b", Tensor::scalar(int64_t{5})}};
  fuzz(fuzz_npz, {write_npy(arrays[0].tensor), write_npz(arrays), text("\x93NUMPY\x01\x00")}, 2000);
}

TEST(Fuzz, Pickle) {
  std::vector<Bytes> seeds;
  for (const char* name : {"dtypes", "nested", "refused"})
    seeds.push_back(zip_member(golden_bytes("format/" + std::string(name) + ".pt"), std::string(name) + "/data.pkl"));
  seeds.push_back(
      text(std::string("\x80\x04\x95\x20\0\0\0\0\0\0\0\x8c\x01k\x94\x8c\x01m\x94\x93\x94)\x81}(h\0]\x94("
                       "K\1e\x85ub.",
                       38)));
  fuzz(fuzz_pickle, seeds, 1200);
}

TEST(Fuzz, TorchFile) {
  fuzz(fuzz_torch_file, {golden_bytes("format/nested.pt"), golden_bytes("format/dtypes.pt")}, 1500);
}

TEST(Fuzz, Json) {
  fuzz(fuzz_json,
       {text(R"({"resize": [6, 4], "filter": "bicubic", "crop": 3, "mean": [0.5, 1e-3, -2],
                 "std": 2, "layout": "NHWC"})"),
        text(R"({"letterbox": [6, 9], "pad": 0, "pad_position": "end", "antialias": false})"),
        text(R"({"resize": 8, "antialias": false, "channel_order": "BGR", "grayscale": true, "scale": 0.5})"),
        text("[NaN, -Infinity, \"\\u00e4\\ud83d\\ude00 \xC3\xA4\", {\"float\": \"inf\"}, "
             "[[[[1e308, -0.0, 18446744073709551615]]]]]")},
       2500);
}

TEST(Fuzz, Image) {
  std::vector<Bytes> seeds;
  for (const char* name : {"gradient.png", "gradient.bmp", "gradient.jpg", "gradient_gray.png", "gradient_rgba.png"})
    seeds.push_back(golden_bytes(std::string("format/") + name));
  fuzz(fuzz_image, seeds, 600);
}

}  // namespace
}  // namespace qdq::format::fuzz_test
