// Composition of quantizers.
#include "quant/quantizers/composable_quantizer.h"

#include <algorithm>

#include "op/facts.h"
#include "quant/quantizers/patterns.h"

namespace qdq {

namespace {

constexpr PatternRow kEmbedding[] = {{.name = "embedding",
                                      .places = {{{"aten.embedding.default"}}},
                                      .modes = kStatic,
                                      .note = "the table alone, by rows, as uint8"}};

}  // namespace

QuantizationCapabilities EmbeddingQuantizer::quantization_capabilities() const {
  return capabilities_of(name(), kEmbedding);
}

void EmbeddingQuantizer::annotate(Program& program, Annotations& annotations) {
  QuantizationSpec weight;
  weight.dtype = DType::kU8;
  weight.qscheme = QScheme::kPerChannelAffineFloatQParams;
  weight.ch_axis = 0;
  weight.observer.class_name = "PerChannelMinMaxObserver";
  weight.observer.eps = 0.000244140625;  // 2^-12
  const size_t mark = annotations.num_decisions();
  for (Node* node : program.graph->nodes()) {
    Node* table = is_one_of(*node, kEmbedding[0].places[0].operators) ? weight_of(*node) : nullptr;
    if (table == nullptr) continue;
    QuantizationAnnotation annotation;
    annotation.set_input(table, weight);
    annotation.annotator = "EmbeddingQuantizer";
    annotations[node] = std::move(annotation);
    annotations.note(
        node, {"EmbeddingQuantizer", "embedding", true, "it looks up rows of a table, which are kept as integers"});
  }
  note_rest(name(), program, annotations, mark,
            [](const Node&) { return std::string("EmbeddingQuantizer quantizes embeddings only"); });
}

Compat ComposableQuantizer::compat() const {
  const bool all = !quantizers_.empty() &&
                   std::all_of(quantizers_.begin(), quantizers_.end(),
                               [](const auto& quantizer) { return quantizer->compat() == Compat::kTorch26; });
  return all ? Compat::kTorch26 : Compat::kNone;
}

bool ComposableQuantizer::hides_masks() const {
  return std::any_of(quantizers_.begin(), quantizers_.end(),
                     [](const auto& quantizer) { return quantizer->hides_masks(); });
}

QuantizationCapabilities ComposableQuantizer::quantization_capabilities() const {
  QuantizationCapabilities out{std::string(name()), {}, {}};
  for (const auto& quantizer : quantizers_) out.parts.push_back(quantizer->quantization_capabilities());
  return out;
}

bool ComposableQuantizer::trains_as_one(const Node& layer, const Node& norm) const {
  return std::any_of(quantizers_.begin(), quantizers_.end(),
                     [&](const auto& quantizer) { return quantizer->trains_as_one(layer, norm); });
}

void ComposableQuantizer::transform_for_annotation(Program& program) {
  for (const auto& quantizer : quantizers_) quantizer->transform_for_annotation(program);
}

void ComposableQuantizer::annotate(Program& program, Annotations& annotations) {
  struct Written {
    uint64_t id;
    std::string_view by;
  };
  std::unordered_map<const Node*, Written> written;
  for (const auto& quantizer : quantizers_) {
    annotate_and_note(*quantizer, program, annotations);
    for (const Node* node : program.graph->nodes()) {
      const auto now = annotations.find(node);
      const auto before = written.find(node);
      if (before != written.end() && (now == annotations.end() || now->second.id != before->second.id))
        throw Error(
            ErrorCode::kInvalidArgument,
            concat(quantizer->name(), " has ", now == annotations.end() ? "removed" : "changed",
                   " the annotation that ", before->second.by, " wrote on node ", node->name(),
                   "; the first of a composition has precedence, so those behind it must leave annotated nodes alone"),
            node->name(), node->target());
      if (before == written.end() && now != annotations.end()) written[node] = {now->second.id, quantizer->name()};
    }
  }
}

void ComposableQuantizer::validate(const Program& program, const Annotations& annotations) {
  if (compat() == Compat::kTorch26) return;  // PyTorch asks none of them
  for (const auto& quantizer : quantizers_) quantizer->validate(program, annotations);
}

std::vector<std::string> ComposableQuantizer::warnings() const {
  std::vector<std::string> out;
  for (const auto& quantizer : quantizers_)
    for (std::string& warning : quantizer->warnings()) out.push_back(std::move(warning));
  return out;
}

void ComposableQuantizer::adjust_observers(const Program& program,
                                           std::vector<std::pair<EdgeOrNode, std::shared_ptr<Observer>>>& observers) {
  if (compat() == Compat::kNone)
    for (const auto& quantizer : quantizers_) quantizer->adjust_observers(program, observers);
  Quantizer::adjust_observers(program, observers);
}

}  // namespace qdq
