#include "quant/quantizers/mergeable_quantizer.h"

namespace qdq {

namespace {

// Whether there was one.
bool replace_histogram(QSpec& spec, const std::string& observer) {
  auto* quantization = std::get_if<QuantizationSpec>(&spec);
  if (quantization == nullptr || quantization->observer.custom) return false;
  std::string& class_name = quantization->observer.class_name;
  if (class_name != "HistogramObserver") return false;
  class_name = observer;
  return true;
}

}  // namespace

void MergeableQuantizer::annotate(Program& program, Annotations& annotations) {
  quantizer_->annotate(program, annotations);
  for (auto& [node, annotation] : annotations) {
    for (auto& [input, spec] : annotation.input_qspec_map) replaced_ = replace_histogram(spec, observer_) || replaced_;
    replaced_ = replace_histogram(annotation.output_qspec, observer_) || replaced_;
  }
}

std::vector<std::string> MergeableQuantizer::warnings() const {
  std::vector<std::string> out = quantizer_->warnings();
  if (!replaced_ && observer_ != kDefault)
    out.push_back(concat("no value of this model has a HistogramObserver, so that ", observer_, " takes no place"));
  return out;
}

void MergeableQuantizer::adjust_observers(const Program& program,
                                          std::vector<std::pair<EdgeOrNode, std::shared_ptr<Observer>>>& observers) {
  quantizer_->adjust_observers(program, observers);
  Quantizer::adjust_observers(program, observers);
}

}  // namespace qdq
