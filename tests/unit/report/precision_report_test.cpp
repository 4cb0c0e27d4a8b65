// The file of a search for precision.
#include "report/precision_report.h"

#include <gtest/gtest.h>

#include "quant/quantizers/xnnpack_quantizer.h"
#include "unit/quant/program_builder.h"

namespace qdq::precision_report_test {
namespace {

TEST(PrecisionSearch, RefusesWhatIsNone) {
  const std::string saved =
      print_search({{{"n", "m", "op", 1, 2, 3}}, {{Precision::kBf16, 2, Precision::kInt8Weights, 40, 7, 0.5}}}, "one");
  const PrecisionSearch search = parse_search(saved, "one", "s.json");
  EXPECT_EQ(print_search(search, "one"), saved);
  const auto refused = [](const std::string& text, const std::string& identity) {
    try {
      parse_search(text, identity, "s.json");
    } catch (const Error& error) {
      return error.message;
    }
    return std::string();
  };
  EXPECT_NE(refused(saved, "two").find("is the search of another program"), std::string::npos);
  EXPECT_NE(refused("{}", "one").find("is not a file that --search wrote"), std::string::npos);
  EXPECT_NE(refused("[", "one"), "");
  for (const auto& [from, to] :
       {std::pair("\"bf16\"", "\"bf17\""), std::pair("\"bytes\": 7", "\"bytes\": -7"),
        std::pair("\"operators\": 2", "\"operators\": \"2\""), std::pair("\"own\"", "\"mine\"")}) {
    std::string text = saved;
    text.replace(text.find(from), std::string_view(from).size(), to);
    EXPECT_NE(refused(text, "one"), "") << to;
  }
}

TEST(PrecisionSearch, BelongsToOneProgramAndItsSamples) {
  const auto identity = [](uint32_t weights, uint32_t samples, const std::string& measures) {
    ProgramBuilder b;
    Node* x = b.input("x", {2, 8});
    Program program = b.finish({b.call("linear.default", {x, b.weight("weight", {4, 8}), b.weight("bias", {4})})});
    program.find_attribute("weight")->tensor = sample({4, 8}, weights);
    XNNPACKQuantizer quantizer;
    quantizer.set_global(get_symmetric_quantization_config({}));
    Prepared prepared = prepare_pt2e(std::move(program), quantizer);
    prepared.run({sample({2, 8}, samples)});
    Recovery recovery(prepared, {{sample({2, 8}, samples)}});
    return identity_of_search(recovery, measures);
  };
  const std::string first = identity(1, 2, "dB");
  EXPECT_EQ(identity(1, 2, "dB"), first);
  EXPECT_NE(identity(3, 2, "dB"), first);
  EXPECT_NE(identity(1, 3, "dB"), first);
  EXPECT_NE(identity(1, 2, "top-1"), first);
}

}  // namespace
}  // namespace qdq::precision_report_test
