// The Quantizer interface: a quantizer decides which tensors of a program are quantized, and how
// (torch/ao/quantization/quantizer/quantizer.py of PyTorch 2.6).
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/program.h"
#include "quant/annotation.h"
#include "quant/quantized_interface.h"
#include "quant/compat.h"
#include "quant/spec.h"

namespace qdq {

// Attributes that are set on one observer, and so on all that share it, before it is put into the graph.
struct ObserverOverride {
  NamedEdgeOrNode at;
  std::vector<std::pair<std::string, AttributeValue>> attributes;
};

// A pattern that a quantizer looks for.
struct PatternCapability {
  std::string pattern;  // as decisions and annotations name it
  // Operators in the order in which each reads the one before, with the alternatives at each place:
  // {{"aten.linear.default"}, {...}}.
  std::vector<std::vector<std::string>> operators;
  bool static_quantization = true, dynamic_quantization = false, qat = true;
  std::string note;  // a condition in words
};
struct QuantizationCapabilities {
  std::string quantizer;
  std::vector<PatternCapability> patterns;      // in the order in which they are tried
  std::vector<QuantizationCapabilities> parts;  // of a composed quantizer, in its order
};

// Convolutions and linear layers, by their nodes, and whether all is done as in PyTorch 2.6.
struct LayersToEqualize {
  std::vector<std::string> nodes;
  Compat compat = Compat::kNone;
};

class Quantizer {
 public:
  virtual ~Quantizer() = default;
  virtual std::string_view name() const = 0;
  virtual Compat compat() const { return Compat::kNone; }
  // Whether layers that decompositions took apart are put together before all else (op/recompose.h), which PyTorch does
  // not do.
  virtual bool recomposes() const { return compat() == Compat::kNone; }
  // Whether weights that operators compute of constants become constants then (constant_fold.h), which PyTorch does
  // not do, either.
  virtual bool folds_computed_weights() const { return compat() == Compat::kNone; }
  // Whether scores that masks hide from softmax count as kHiddenScore (masks.h); PyTorch's observers see them as they
  // are. Default: only those that PyTorch cannot observe do.
  virtual bool hides_masks() const { return false; }
  // Folds batch norms into the layers in front of them, before all else (not for quantization-aware training). Default:
  // as prepare_pt2e does it, see fold_batch_norms.
  virtual void fold_batch_norms(Program& program);
  // Whether a layer is trained as one with the batch norm behind it, which reads nothing else: its weight is rounded as
  // the batch norm's running statistics scale it. Called after annotate(). Default: convolutions and transposed ones
  // of one or two axes, as in prepare_qat_pt2e.
  virtual bool trains_as_one(const Node& layer, const Node& norm) const;
  // Rewrites before annotation (scalars to tensors). Default: none.
  virtual void transform_for_annotation(Program& program) { (void)program; }
  // Writes annotations; may read those already there. Notes by annotations.note() why it takes or refuses an operator;
  // without a note, explain() reports only whether the operator was annotated.
  virtual void annotate(Program& program, Annotations& annotations) = 0;
  // Throws Error{kInvalidArgument} if the annotated graph is not what the backend can run. Default: accepts.
  virtual void validate(const Program& program, const Annotations& annotations) {
    (void)program;
    (void)annotations;
  }
  // The patterns that it can quantize under some setting. Default: none are listed.
  virtual QuantizationCapabilities quantization_capabilities() const { return {std::string(name()), {}, {}}; }
  // Which inputs and outputs of the converted program are integers. Default: none.
  virtual QuantizedInterface quantized_interface() const { return {}; }
  // The nodes of convolutions and linear layers whose inputs are equalized with their weights when the program is
  // converted, see input_equalization.h. Asked for after annotate(). Default: none.
  virtual LayersToEqualize layers_to_equalize() const { return {}; }
  // The settings that the quantizer could not apply, one sentence each. Default: none.
  virtual std::vector<std::string> warnings() const { return {}; }
  // Called when all observers exist and none is in the graph yet, one entry for each annotated edge and node, in order
  // (prepare_obs_or_fq_callback); may replace them. Null: nothing is inserted there. Default: makes the observer
  // overrides. Throws Error{kInvalidArgument} for an override of a place that has no observer, or of an attribute that
  // the observer does not have.
  virtual void adjust_observers(const Program& program,
                                std::vector<std::pair<EdgeOrNode, std::shared_ptr<Observer>>>& observers);
  void set_observer_overrides(std::vector<ObserverOverride> overrides) { overrides_ = std::move(overrides); }

 private:
  std::vector<ObserverOverride> overrides_;
};

// Lets the quantizer annotate. An operator about which it noted nothing gets a note whether it was annotated.
void annotate_and_note(Quantizer& quantizer, Program& program, Annotations& annotations);

}  // namespace qdq
