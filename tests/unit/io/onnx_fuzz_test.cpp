// Loads mutations of the golden ONNX models: a short fuzzing without a fuzzer, the same every time.
// QDQ_FUZZ_SEED and QDQ_FUZZ_ROUNDS in the environment make it another or a longer one.
#include <gtest/gtest.h>

#include "format/npz.h"
#include "format/onnx_file.h"
#define LLVMFuzzerTestOneInput fuzz_onnx  // other fuzzings of this program have the name
#include "fuzz/onnx_fuzz.cpp"
#undef LLVMFuzzerTestOneInput
#include "fuzz/onnx_mutations.h"
#include "golden_bytes.h"

namespace qdq::onnx_fuzz_test {
namespace {

using format::Bytes;

std::vector<Bytes> models(const std::string& file) {
  std::vector<Bytes> out;
  for (const format::NamedTensor& array : format::read_npz(golden_bytes("onnx/" + file), file))
    if (array.name.ends_with("/model"))
      out.emplace_back(array.tensor.raw(), array.tensor.raw() + array.tensor.nbytes());
  return out;
}

void run(const Bytes& bytes, uint64_t seed, int64_t round) {
  try {
    fuzz_onnx(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  } catch (const std::exception& error) {
    FAIL() << "QDQ_FUZZ_SEED=" << seed << ", round " << round << ": " << error.what();
  }
}

TEST(FuzzOnnx, Bytes) {
  const auto seed = static_cast<uint64_t>(setting("QDQ_FUZZ_SEED", 20261122));
  const int64_t rounds = setting("QDQ_FUZZ_ROUNDS", 10);
  Random random(seed);
  for (const std::string file : {"operators.npz", "networks.npz"}) {
    for (const Bytes& model : models(file)) {
      for (int64_t round = 0; round < rounds; ++round) run(fuzz::with_other_bytes(model, random), seed, round);
    }
  }
}

// The structs instead of the bytes, so that the graph is reached every time.
TEST(FuzzOnnx, Graphs) {
  const auto seed = static_cast<uint64_t>(setting("QDQ_FUZZ_SEED", 20261122));
  const int64_t rounds = setting("QDQ_FUZZ_ROUNDS", 20);
  Random random(seed);
  for (const std::string file : {"operators.npz", "networks.npz"}) {
    for (const Bytes& model : models(file)) {
      const format::OnnxFile whole = format::read_onnx_file(model);
      for (int64_t round = 0; round < rounds; ++round)
        run(format::write_onnx_file(fuzz::with_other_graph(whole, random)), seed, round);
    }
  }
}

}  // namespace
}  // namespace qdq::onnx_fuzz_test
