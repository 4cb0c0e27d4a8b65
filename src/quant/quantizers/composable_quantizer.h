// ComposableQuantizer: several quantizers one after the other, and EmbeddingQuantizer, which is mostly used in one.
// Semantics: torch/ao/quantization/quantizer/{composable,embedding}_quantizer.py of PyTorch 2.6.
#pragma once

#include <memory>
#include <vector>

#include "quant/quantizer.h"

namespace qdq {

// uint8 weights per row with float zero points for every embedding; activations stay float.
class EmbeddingQuantizer : public Quantizer {
 public:
  explicit EmbeddingQuantizer(Compat compat = Compat::kNone) : compat_(compat) {}
  std::string_view name() const override { return "EmbeddingQuantizer"; }
  Compat compat() const override { return compat_; }
  QuantizationCapabilities quantization_capabilities() const override;
  void annotate(Program& program, Annotations& annotations) override;

 private:
  Compat compat_;
};

// Lets quantizers annotate in turn; the order is the precedence. None may replace or remove what one before wrote.
// It is compatible with PyTorch 2.6 if all its quantizers are.
class ComposableQuantizer : public Quantizer {
 public:
  explicit ComposableQuantizer(std::vector<std::unique_ptr<Quantizer>> quantizers)
      : quantizers_(std::move(quantizers)) {}
  std::string_view name() const override { return "ComposableQuantizer"; }
  Compat compat() const override;
  bool hides_masks() const override;                                    // whether one of its parts does
  QuantizationCapabilities quantization_capabilities() const override;  // the capabilities of its parts
  void transform_for_annotation(Program& program) override;
  bool trains_as_one(const Node& layer, const Node& norm) const override;  // whether one of its parts does
  // Throws Error{kInvalidArgument} naming the quantizer that changed an annotation, the one that wrote it, and the
  // node.
  void annotate(Program& program, Annotations& annotations) override;
  void validate(const Program& program, const Annotations& annotations) override;
  std::vector<std::string> warnings() const override;
  void adjust_observers(const Program& program,
                        std::vector<std::pair<EdgeOrNode, std::shared_ptr<Observer>>>& observers) override;

 private:
  std::vector<std::unique_ptr<Quantizer>> quantizers_;
};

}  // namespace qdq
