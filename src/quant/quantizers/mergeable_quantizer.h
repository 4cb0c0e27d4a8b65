// MergeableQuantizer: any quantizer, with another class in the place of HistogramObserver.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "quant/quantizer.h"

namespace qdq {

// What another quantizer does, but for one thing: where its specs ask for a HistogramObserver, they get an observer of
// the given class, whose statistics can be merged, so that the data can be calibrated in parts. PyTorch has no such
// quantizer.
class MergeableQuantizer final : public Quantizer {
 public:
  // warnings() tells if another class than the default one took the place of none.
  explicit MergeableQuantizer(std::unique_ptr<Quantizer> quantizer, std::string observer = std::string(kDefault))
      : quantizer_(std::move(quantizer)), observer_(std::move(observer)) {}
  std::string_view name() const override { return quantizer_->name(); }
  Compat compat() const override { return quantizer_->compat(); }
  bool recomposes() const override { return quantizer_->recomposes(); }
  bool folds_computed_weights() const override { return quantizer_->folds_computed_weights(); }
  void fold_batch_norms(Program& program) override { quantizer_->fold_batch_norms(program); }
  bool trains_as_one(const Node& layer, const Node& norm) const override {
    return quantizer_->trains_as_one(layer, norm);
  }
  void transform_for_annotation(Program& program) override { quantizer_->transform_for_annotation(program); }
  void annotate(Program& program, Annotations& annotations) override;
  void validate(const Program& program, const Annotations& annotations) override {
    quantizer_->validate(program, annotations);
  }
  QuantizationCapabilities quantization_capabilities() const override {
    return quantizer_->quantization_capabilities();
  }
  QuantizedInterface quantized_interface() const override { return quantizer_->quantized_interface(); }
  LayersToEqualize layers_to_equalize() const override { return quantizer_->layers_to_equalize(); }
  std::vector<std::string> warnings() const override;
  void adjust_observers(const Program& program,
                        std::vector<std::pair<EdgeOrNode, std::shared_ptr<Observer>>>& observers) override;

  static constexpr std::string_view kDefault = "MergeableHistogramObserver";

 private:
  std::unique_ptr<Quantizer> quantizer_;
  std::string observer_;
  bool replaced_ = false;
};

}  // namespace qdq
