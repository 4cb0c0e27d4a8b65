// FX graph mode's policy as a quantizer: observers where prepare_fx with a QConfigMapping and a BackendConfig has them.
// Semantics: torch/ao/quantization/fx/prepare.py and convert.py of PyTorch 2.6.
#pragma once

#include <memory>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "graph/source_partition.h"
#include "quant/fx/backend_config.h"
#include "quant/fx/prepare_custom_config.h"
#include "quant/fx/qconfig_mapping.h"
#include "quant/quantizer.h"

namespace qdq {

// Takes the operators that the mapping gives a QConfig and that the backend knows with those dtypes; the native backend
// has convolutions and linear layers (with batch norm and relu), add, mul, matmul, cat, norms, activations, embeddings
// by their weight. A tensor is observed once, by whoever needs it first; operators that hand numbers on (pools, views,
// cat) share the observer of their first input. Module names and types are those that export recorded.
//
// With Compat::kTorch26 the result is prepare_fx's, with its oddities (docs/compatibility.md). Without, an operator
// that the record names otherwise (torch.relu, nn.Flatten) is known by what it computes, and what those oddities would
// spoil is left in float.
class QConfigMappingQuantizer : public Quantizer {
 public:
  explicit QConfigMappingQuantizer(QConfigMapping mapping, Compat compat = Compat::kNone)
      : mapping_(std::move(mapping)), compat_(compat) {}

  const QConfigMapping& qconfig_mapping() const { return mapping_; }
  // What the backend can run; without, the native one.
  QConfigMappingQuantizer& set_backend_config(BackendConfig backend);
  const BackendConfig& backend_config() const { return backend_; }
  // Standalone modules, modules that are left alone, inputs and outputs as integers. With Compat::kTorch26 the output
  // index 0 means all outputs that are quantized, as in PyTorch.
  QConfigMappingQuantizer& set_prepare_custom_config(PrepareCustomConfig custom);
  QuantizedInterface quantized_interface() const override;
  // Which convolutions and linear layers have their inputs equalized with their weights (prepare_fx's
  // _equalization_config; input_equalization.h): those to which the mapping gives default_equalization_qconfig(). One
  // whose input another quantized layer reads, too, is left out with a warning, as in PyTorch. Throws
  // Error{kInvalidArgument} for a mapping with another QConfig.
  QConfigMappingQuantizer& set_equalization_config(QConfigMapping mapping);
  LayersToEqualize layers_to_equalize() const override { return {to_equalize_, compat_}; }
  // Nothing that the function refuses is quantized, whatever the mapping says; a pattern is taken if all its operators
  // pass.
  QConfigMappingQuantizer& set_filter_function(NodeFilter filter);

  std::string_view name() const override { return "QConfigMapping"; }
  bool recomposes() const override { return compat_ == Compat::kNone; }
  bool folds_computed_weights() const override { return compat_ == Compat::kNone; }
  // Those behind convolutions and linear layers, all being modules and the batch norm the only reader; with
  // Compat::kTorch26 no others, and not that of a transposed convolution with a relu behind, which PyTorch takes to
  // belong to the batch norm.
  void fold_batch_norms(Program& program) override;
  // Those that fuse_fx makes one module of: convolutions of up to three axes and linear layers. With Compat::kTorch26
  // no others; else a function and a transposed convolution, too, as Quantizer does.
  bool trains_as_one(const Node& layer, const Node& norm) const override;
  // Throws Error{kInvalidArgument} with Compat::kTorch26 where prepare_fx refuses: operators that are fused and have
  // different settings, a weight observer per channel for a transposed convolution.
  void annotate(Program& program, Annotations& annotations) override;
  void adjust_observers(const Program& program,
                        std::vector<std::pair<EdgeOrNode, std::shared_ptr<Observer>>>& observers) override;
  QuantizationCapabilities quantization_capabilities() const override;
  // Settings that reach nothing, and QConfigs that break a constraint of the backend.
  std::vector<std::string> warnings() const override { return unmatched_; }

 private:
  QConfigMapping mapping_;
  BackendConfig backend_ = get_backend_config("native");
  PrepareCustomConfig custom_;
  QConfigMapping equalization_;
  Compat compat_;
  NodeFilter filter_;
  std::vector<std::string> unmatched_;           // warnings of the program annotated last
  std::vector<std::string> to_equalize_;         // layers of it
  std::unordered_set<const Node*> folded_;       // layers of it whose batch norm is gone
  std::unordered_set<const Node*> fused_norms_;  // batch norms of it that are one module with the layer in front
};

}  // namespace qdq
