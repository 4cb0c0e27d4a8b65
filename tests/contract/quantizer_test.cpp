// Walks the quantizers' tables, as quantization_capabilities() shows them: their operators are there, and every
// activation that they fuse behind a layer is one that plans and backends know (kernel/activation.h).
#include <gtest/gtest.h>

#include <memory>

#include "op/op.h"
#include "quant/quantizers/quantizers.h"

namespace qdq {
namespace {

std::vector<std::unique_ptr<Quantizer>> quantizers() {
  std::vector<std::unique_ptr<Quantizer>> out;
  out.push_back(std::make_unique<XNNPACKQuantizer>());
  out.push_back(std::make_unique<X86InductorQuantizer>());
  out.push_back(std::make_unique<EmbeddingQuantizer>());
  out.push_back(std::make_unique<QConfigMappingQuantizer>(get_default_qconfig_mapping("x86")));
  return out;
}

TEST(QuantizerContract, TheirPatternsNameOperators) {
  for (const auto& quantizer : quantizers()) {
    const QuantizationCapabilities capabilities = quantizer->quantization_capabilities();
    EXPECT_FALSE(capabilities.patterns.empty()) << quantizer->name();
    for (const PatternCapability& pattern : capabilities.patterns) {
      EXPECT_FALSE(pattern.operators.empty()) << quantizer->name() << " " << pattern.pattern;
      for (const std::vector<std::string>& place : pattern.operators) {
        EXPECT_FALSE(place.empty()) << quantizer->name() << " " << pattern.pattern;
        for (const std::string& name : place) {
          // FX graph mode, and XNNPACK's GRU, name layers by their modules and functions.
          if (!name.starts_with("aten.")) continue;
          EXPECT_NE(find_op("torch.ops." + name), nullptr)
              << quantizer->name() << " " << pattern.pattern << ": " << name;
        }
      }
    }
  }
}

TEST(QuantizerContract, BackendsKnowTheActivationsThatAreFused) {
  size_t seen = 0;
  for (const auto& quantizer : quantizers())
    for (const PatternCapability& pattern : quantizer->quantization_capabilities().patterns)
      for (size_t i = 1; i < pattern.operators.size(); ++i)
        for (const std::string& name : pattern.operators[i]) {
          const OpDef* op = find_op("torch.ops." + name);
          if (op == nullptr || (op->family != Family::kActivation && op->family != Family::kClamp)) continue;
          ++seen;
          EXPECT_NE(op->computes.function.kind, kernel::Activation::Kind::kNone)
              << quantizer->name() << " " << pattern.pattern << ": the entry of " << name
              << " in op/ names no activation that it computes";
        }
  EXPECT_GE(seen, 10u);
}

}  // namespace
}  // namespace qdq
