// FX graph mode and quantization-aware training against PyTorch's, on the cases of tests/golden/fx, made by make_fx.py,
// and of tests/golden/qat, made by tests/beside/qat_networks.py.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "conformance/conformance.h"
#include "format/npz.h"
#include "source_dir.h"
#include "unit/memory_files.h"

namespace qdq {
namespace {

namespace fs = std::filesystem;

void add_folder(const fs::path& folder, MemoryFiles& files) {
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    std::ifstream in(entry.path(), std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(in)), {});
    files.add("fx/" + fs::relative(entry.path(), folder).generic_string(), bytes);
  }
}

void expect_all_pass(const fs::path& folder) {
  MemoryFiles files;
  std::ostringstream out;
  add_folder(fs::path(kSourceDir) / folder, files);
  EXPECT_EQ(run_conformance("fx", files, out), 0) << out.str();
  EXPECT_NE(out.str().find(" passed, 0 failed"), std::string::npos) << out.str();
}

TEST(FxGolden, IsWhatPyTorchMakes) { expect_all_pass("tests/golden/fx"); }
TEST(QatGolden, IsWhatPyTorchMakes) { expect_all_pass("tests/golden/qat"); }

TEST(FxGolden, ARefusalIsExpectedWhereTheCaseSaysSo) {
  for (const auto& [mapping, refused] :
       {std::pair(R"({"object_type": [["torch.nn.Conv2d", {"named": "default_qconfig"}]]})", true),
        std::pair(R"({"default": "x86"})", false)}) {
    MemoryFiles files;
    std::ostringstream out;
    add_folder(std::string(kSourceDir) + "/tests/golden/fx/modules_conv", files);
    files.add("fx/case.json", concat(R"({"category": "fx", "recipe": {"qconfig_mapping": )", mapping,
                                     R"(}, "tolerances": {}, "expected": {"error": "LookupError"}})"));
    EXPECT_EQ(run_conformance("fx", files, out), refused ? 0 : 1) << out.str();
  }
}

TEST(FxGolden, CustomConfigsMatter) {
  for (const char* name : {"standalone_float", "standalone_quantized", "standalone_backend", "standalone_pair",
                           "non_traceable_name", "non_traceable_class", "quantized_input", "quantized_both"}) {
    MemoryFiles files;
    std::ostringstream out;
    add_folder(concat(kSourceDir, "/tests/golden/fx/", name), files);
    const auto& bytes = files.contents.at("fx/case.json");
    std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    const size_t at = text.find("\"prepare_custom_config\": ");
    ASSERT_NE(at, std::string::npos) << name;
    files.add("fx/case.json", text.insert(at + 1, "not_"));
    EXPECT_EQ(run_conformance("fx", files, out), 1) << name;
  }
}

// A case whose facts are changed must fail: the comparison looks.
TEST(FxGolden, SeesEveryKindOfDifference) {
  const std::string folder = std::string(kSourceDir) + "/tests/golden/fx/modules_conv";
  for (const auto& [from, to] : std::initializer_list<std::pair<const char*, const char*>>{
           {"\"target\": \"up\"", "\"target\": \"down\""},
           {"\"class\": \"HistogramObserver\"", "\"class\": \"MinMaxObserver\""},
           {"\"quant_max\": 127", "\"quant_max\": 255"},
           {"\"inserted_as\": [\"activation_post_process_0\"]", "\"inserted_as\": [\"activation_post_process_00\"]"},
           {"\"scale\": [0.", "\"scale\": [0.9"},
           {"\"default\": \"x86\"", "\"default\": \"qnnpack\""},
           {"\"npz\": \"reference_conv.0_weight\"", "\"npz\": \"reference_up_weight\""}}) {
    MemoryFiles files;
    std::ostringstream out;
    add_folder(folder, files);
    const auto& bytes = files.contents.at("fx/case.json");
    std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    files.add("fx/case.json", text.replace(at, std::string_view(from).size(), to));
    EXPECT_EQ(run_conformance("fx", files, out), 1) << from;
  }
}

// Layer by layer: what an observer saw, and the integers behind a layer.
TEST(FxGolden, SeesWhichLayerDiffers) {
  for (const auto& [changed, said] :
       {std::pair("seen_3_0", "observer 3"), std::pair("layer_dequantize_5_t1", "rounds")}) {
    MemoryFiles files;
    std::ostringstream out;
    add_folder(std::string(kSourceDir) + "/tests/golden/fx/deep_by_layer", files);
    std::vector<format::NamedTensor> arrays = format::read_npz(files.contents.at("fx/expected.npz"));
    for (auto& [name, array] : arrays) {
      if (name != changed) continue;
      array = array.clone();
      if (array.dtype() == DType::kF32) array.span<float>()[0] = 100;
      else array.span<uint8_t>()[0] = static_cast<uint8_t>(array.span<uint8_t>()[0] ^ 1);
    }
    files.write("fx/expected.npz", format::write_npz(arrays));
    EXPECT_EQ(run_conformance("fx", files, out), 1) << changed;
    EXPECT_NE(out.str().find(said), std::string::npos) << out.str();
  }
}

}  // namespace
}  // namespace qdq
