// X86InductorQuantizer: int8 for x86 servers. Semantics: torch/ao/quantization/quantizer/x86_inductor_quantizer.py of
// PyTorch 2.6.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "quant/quantizers/quantization_config.h"

namespace qdq {

// Arguments of PyTorch's get_default_x86_inductor_quantization_config, with its defaults.
struct X86InductorConfigOptions {
  bool is_qat = false;
  bool is_dynamic = false;
  bool reduce_range = false;  // activations in 0..127, for processors whose u8*s8 products saturate
};
// uint8 activations per tensor (affine, HistogramObserver), int8 weights per channel along axis 0 (symmetric), float
// bias.
QuantizationConfig get_default_x86_inductor_quantization_config(const X86InductorConfigOptions& options = {});
// Linear weights rounded to float16; nothing else.
QuantizationConfig get_x86_inductor_linear_dynamic_fp16_config();

// Annotates conv2d and linear with what can be fused behind them (add, relu and others), matmul on request, and passes
// quantization on through pools, cat and flatten. Outputs are observed only where such an operator keeps them in int8.
// Precedence: module name, operator type, global. No config for a name or type: those nodes stay float.
// A config that would mix static with dynamic or PTQ with QAT is not taken, nor one for an operator it cannot quantize:
// warnings() tells so.
//
// With Compat::kTorch26 it annotates exactly what PyTorch 2.6 does, which finds operators by what a strict export
// recorded about their source. Without, it looks at the operators themselves: non-strict exports, torch.relu and
// x.relu(), functional activations and the linears inside attention modules are found too.
class X86InductorQuantizer : public Quantizer {
 public:
  explicit X86InductorQuantizer(Compat compat = Compat::kNone) : compat_(compat) {}

  X86InductorQuantizer& set_global(std::optional<QuantizationConfig> config);
  // "torch.nn.functional.linear", "torch.matmul", "torch.ops.aten.linear", ...
  X86InductorQuantizer& set_function_type_qconfig(const std::string& function,
                                                  std::optional<QuantizationConfig> config) {
    return set_operator(function, std::move(config));
  }
  // "torch.nn.Conv2d", "torch.nn.modules.linear.Linear", ...
  X86InductorQuantizer& set_module_type_qconfig(const std::string& module_type,
                                                std::optional<QuantizationConfig> config) {
    return set_operator(module_type, std::move(config));
  }
  X86InductorQuantizer& set_module_name_qconfig(const std::string& module_name,
                                                std::optional<QuantizationConfig> config);
  // Nothing that the function refuses is annotated, whatever the settings say; a pattern is taken if all its operators
  // pass.
  X86InductorQuantizer& set_filter_function(NodeFilter filter) {
    filter_ = std::move(filter);
    return *this;
  }

  std::string_view name() const override { return "X86InductorQuantizer"; }
  Compat compat() const override { return compat_; }
  std::vector<std::string> warnings() const override;
  QuantizationCapabilities quantization_capabilities() const override;
  void annotate(Program& program, Annotations& annotations) override;

 private:
  bool accepts(const std::string& name, const std::optional<QuantizationConfig>& config);
  X86InductorQuantizer& set_operator(const std::string& source, std::optional<QuantizationConfig> config);
  std::string why_not_looked_at(const Node& node) const;

  Compat compat_;
  NodeFilter filter_;
  std::optional<QuantizationConfig> global_;
  // operator types as "aten.conv2d.default"; both in the order of their first setting
  std::vector<ConfigSetting> operator_types_, module_names_;
  std::vector<std::string> refused_, unmatched_;  // warnings of the setters, and of the program annotated last
};

}  // namespace qdq
