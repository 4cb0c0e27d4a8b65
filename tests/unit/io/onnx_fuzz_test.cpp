// Loads mutations of the golden ONNX models: a short fuzzing without a fuzzer, the same every time.
// QDQ_FUZZ_SEED and QDQ_FUZZ_ROUNDS in the environment make it another or a longer one.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "format/npz.h"
#include "format/onnx_file.h"
#define LLVMFuzzerTestOneInput fuzz_onnx  // other fuzzings of this program have the name
#include "fuzz/onnx_fuzz.cpp"
#undef LLVMFuzzerTestOneInput
#include "unit/fuzz_random.h"
#include "source_dir.h"

namespace qdq {
namespace {

using format::Bytes;

std::vector<Bytes> models(const std::string& file) {
  std::ifstream in(std::filesystem::path(kSourceDir) / "tests/golden/onnx" / file, std::ios::binary);
  EXPECT_TRUE(in.good()) << file;
  const std::vector<char> bytes((std::istreambuf_iterator<char>(in)), {});
  std::vector<Bytes> out;
  for (const format::NamedTensor& array : format::read_npz(format::bytes_of({bytes.data(), bytes.size()}), file))
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
      for (int64_t round = 0; round < rounds; ++round) {
        Bytes changed = model;
        for (uint64_t changes = 1 + random.below(4); changes > 0; --changes)
          changed[random.below(changed.size())] = static_cast<std::byte>(random.below(256));
        if (random.below(5) == 0) changed.resize(random.below(changed.size()));
        run(changed, seed, round);
      }
    }
  }
}

// The structs instead of the bytes, so that the graph is reached every time.
TEST(FuzzOnnx, Graphs) {
  const auto seed = static_cast<uint64_t>(setting("QDQ_FUZZ_SEED", 20261122));
  const int64_t rounds = setting("QDQ_FUZZ_ROUNDS", 20);
  Random random(seed);
  static constexpr int64_t kExtreme[] = {0, -1, 1, 2, 3, 7, 255, 1 << 20, INT64_MAX, INT64_MIN, -(int64_t{1} << 40)};
  const auto extreme = [&] { return kExtreme[random.below(std::size(kExtreme))]; };
  for (const std::string file : {"operators.npz", "networks.npz"}) {
    for (const Bytes& model : models(file)) {
      const format::OnnxFile whole = format::read_onnx_file(model);
      for (int64_t round = 0; round < rounds; ++round) {
        format::OnnxFile changed = whole;
        format::OnnxNode& node = changed.nodes[random.below(changed.nodes.size())];
        format::OnnxNode& other = changed.nodes[random.below(changed.nodes.size())];
        switch (random.below(8)) {
          case 0: node.op_type = other.op_type; break;
          case 1:
            if (!node.inputs.empty() && !other.inputs.empty())
              node.inputs[random.below(node.inputs.size())] = other.inputs[random.below(other.inputs.size())];
            break;
          case 2:
            if (!node.inputs.empty())
              node.inputs.erase(node.inputs.begin() + static_cast<std::ptrdiff_t>(random.below(node.inputs.size())));
            break;
          case 3:
            if (!node.attributes.empty()) node.attributes[random.below(node.attributes.size())].i = extreme();
            break;
          case 4:
            if (!node.attributes.empty()) {
              auto& ints = node.attributes[random.below(node.attributes.size())].ints;
              if (ints.empty() || random.below(3) == 0) ints.push_back(extreme());
              else if (random.below(3) == 0) ints.pop_back();
              else ints[random.below(ints.size())] = extreme();
            }
            break;
          case 5:
            if (!changed.initializers.empty()) {
              Tensor& tensor = changed.initializers[random.below(changed.initializers.size())].second;
              tensor = tensor.clone();
              if (tensor.dtype() == DType::kS64 && tensor.numel() > 0)
                tensor.data<int64_t>()[random.below(static_cast<uint64_t>(tensor.numel()))] = extreme();
              else if (random.below(2) == 0) tensor = tensor.reshape({tensor.numel()});
              else tensor = tensor.to(DType::kS64);
            }
            break;
          case 6:
            if (!changed.inputs.empty() && changed.inputs[0].dims && !changed.inputs[0].dims->empty()) {
              format::OnnxDimension& size = (*changed.inputs[0].dims)[random.below(changed.inputs[0].dims->size())];
              if (random.below(2) == 0) size = {std::nullopt, "n"};
              else size.value = extreme();
            }
            break;
          case 7: std::swap(node, other); break;
        }
        run(format::write_onnx_file(changed), seed, round);
      }
    }
  }
}

}  // namespace
}  // namespace qdq
