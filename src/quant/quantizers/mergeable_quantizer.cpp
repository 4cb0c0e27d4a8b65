#include "quant/quantizers/mergeable_quantizer.h"

namespace qdq {

namespace {

void make_mergeable(QSpec& spec) {
  auto* quantization = std::get_if<QuantizationSpec>(&spec);
  if (quantization == nullptr || quantization->observer.custom) return;
  std::string& class_name = quantization->observer.class_name;
  if (class_name == "HistogramObserver") class_name = "MergeableHistogramObserver";
}

}  // namespace

void MergeableQuantizer::annotate(Program& program, Annotations& annotations) {
  quantizer_->annotate(program, annotations);
  for (auto& [node, annotation] : annotations) {
    for (auto& [input, spec] : annotation.input_qspec_map) make_mergeable(spec);
    make_mergeable(annotation.output_qspec);
  }
}

void MergeableQuantizer::adjust_observers(const Program& program,
                                          std::vector<std::pair<EdgeOrNode, std::shared_ptr<Observer>>>& observers) {
  quantizer_->adjust_observers(program, observers);
  Quantizer::adjust_observers(program, observers);
}

}  // namespace qdq
