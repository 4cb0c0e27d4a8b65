// FX graph mode against PyTorch's, on the cases of tests/golden/fx, made by make_fx.py.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "cli/conformance.h"
#include "memory_host.h"

namespace qdq {
namespace {

namespace fs = std::filesystem;

void add_folder(const fs::path& folder, MemoryHost& host) {
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    std::ifstream in(entry.path(), std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(in)), {});
    host.add("fx/" + fs::relative(entry.path(), folder).generic_string(), bytes);
  }
}

TEST(FxGolden, IsWhatPyTorchMakes) {
  MemoryHost host;
  add_folder(fs::path(QDQ_SOURCE_DIR) / "tests/golden/fx", host);
  EXPECT_EQ(run_conformance("fx", host), 0) << host.out;
  EXPECT_NE(host.out.find(" passed, 0 failed"), std::string::npos) << host.out;
}

TEST(FxGolden, ARefusalIsExpectedWhereTheCaseSaysSo) {
  for (const auto& [mapping, refused] :
       {std::pair(R"({"object_type": [["torch.nn.Conv2d", {"named": "default_qconfig"}]]})", true), std::pair(R"({"default": "x86"})", false)}) {
    MemoryHost host;
    add_folder(QDQ_SOURCE_DIR "/tests/golden/fx/modules_conv", host);
    host.add("fx/case.json", concat(R"({"category": "fx", "recipe": {"qconfig_mapping": )", mapping,
                                    R"(}, "tolerances": {}, "expected": {"error": "LookupError"}})"));
    EXPECT_EQ(run_conformance("fx", host), refused ? 0 : 1) << host.out;
  }
}

// A case whose facts are changed must fail: the comparison looks.
TEST(FxGolden, SeesEveryKindOfDifference) {
  const std::string folder = QDQ_SOURCE_DIR "/tests/golden/fx/modules_conv";
  for (const auto& [from, to] : std::initializer_list<std::pair<const char*, const char*>>{
           {"\"target\": \"up\"", "\"target\": \"down\""},
           {"\"class\": \"HistogramObserver\"", "\"class\": \"MinMaxObserver\""},
           {"\"quant_max\": 127", "\"quant_max\": 255"},
           {"\"inserted_as\": [\"activation_post_process_0\"]", "\"inserted_as\": [\"activation_post_process_00\"]"},
           {"\"scale\": [0.", "\"scale\": [0.9"},
           {"\"default\": \"x86\"", "\"default\": \"qnnpack\""},
           {"\"npz\": \"reference_conv.0_weight\"", "\"npz\": \"reference_up_weight\""}}) {
    MemoryHost host;
    add_folder(folder, host);
    const auto& bytes = host.files.at("fx/case.json");
    std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    host.add("fx/case.json", text.replace(at, std::string_view(from).size(), to));
    EXPECT_EQ(run_conformance("fx", host), 1) << from;
  }
}

}  // namespace
}  // namespace qdq
