// Composition of quantizers.
#include "quant/composable_quantizer.h"

#include <algorithm>

namespace qdq {

void EmbeddingQuantizer::annotate(Program& program, Annotations& annotations) {
  QuantizationSpec weight;
  weight.dtype = DType::kU8;
  weight.qscheme = QScheme::kPerChannelAffineFloatQParams;
  weight.ch_axis = 0;
  weight.observer.class_name = "PerChannelMinMaxObserver";
  weight.observer.eps = 0.000244140625;  // 2^-12
  for (Node* node : program.graph->nodes()) {
    if (!node->is("torch.ops.aten.embedding.default") || !node->arg(0).node()) continue;
    QuantizationAnnotation annotation;
    annotation.set_input(node->arg(0).node(), weight);
    annotation.annotator = "EmbeddingQuantizer";
    annotations[node] = std::move(annotation);
  }
}

Compat ComposableQuantizer::compat() const {
  const bool all = !quantizers_.empty() && std::all_of(quantizers_.begin(), quantizers_.end(),
                                                       [](const auto& quantizer) { return quantizer->compat() == Compat::kTorch26; });
  return all ? Compat::kTorch26 : Compat::kNone;
}

void ComposableQuantizer::transform_for_annotation(Program& program) {
  for (const auto& quantizer : quantizers_) quantizer->transform_for_annotation(program);
}

void ComposableQuantizer::annotate(Program& program, Annotations& annotations) {
  std::unordered_map<const Node*, uint64_t> written;
  for (const auto& quantizer : quantizers_) {
    quantizer->annotate(program, annotations);
    for (const Node* node : program.graph->nodes()) {
      const auto now = annotations.find(node);
      const auto before = written.find(node);
      QDQ_CHECK(before == written.end() || now != annotations.end(), kInvalidArgument, quantizer->name(),
                " has removed the annotation that a quantizer before it wrote on node ", node->name());
      QDQ_CHECK(before == written.end() || now->second.id == before->second, kInvalidArgument, quantizer->name(),
                " has changed the annotation that a quantizer before it wrote on node ", node->name());
      if (now != annotations.end()) written[node] = now->second.id;
    }
  }
}

void ComposableQuantizer::validate(const Program& program, const Annotations& annotations) {
  if (compat() == Compat::kTorch26) return;  // PyTorch asks none of them
  for (const auto& quantizer : quantizers_) quantizer->validate(program, annotations);
}

void ComposableQuantizer::adjust_observers(const Program& program, std::vector<std::pair<EdgeOrNode, std::shared_ptr<Observer>>>& observers) {
  if (compat() == Compat::kTorch26) return;
  for (const auto& quantizer : quantizers_) quantizer->adjust_observers(program, observers);
}

std::string ComposableQuantizer::why_float(const Program& program, const Node& node) const {
  std::string reason;
  for (const auto& quantizer : quantizers_)
    if (std::string own = quantizer->why_float(program, node); !own.empty()) reason = std::move(own);
  return reason;
}

}  // namespace qdq
