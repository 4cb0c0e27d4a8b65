// XNNPACKQuantizer: int8 for mobile processors. Semantics: torch/ao/quantization/quantizer/xnnpack_quantizer.py of
// PyTorch 2.6.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "quant/quantizers/quantization_config.h"

namespace qdq {

struct XnnpackRules;  // torch26.h

// Arguments of PyTorch's get_symmetric_quantization_config, with its defaults.
struct SymmetricConfigOptions {
  bool is_per_channel = false;
  bool is_qat = false;
  bool is_dynamic = false;
  int64_t act_qmin = -128, act_qmax = 127;
  int64_t weight_qmin = -127, weight_qmax = 127;
  // Weights in -64..63 instead: then two products of bytes fit 16 bits, and the kernels of other runtimes that add them
  // so on processors without VNNI do not saturate. PyTorch's function does not have it.
  bool reduce_range = false;
};
// int8 activations per tensor (affine, HistogramObserver), int8 weights per tensor or per channel along axis 0
// (symmetric, min/max), float bias; eps 2^-12 everywhere.
QuantizationConfig get_symmetric_quantization_config(const SymmetricConfigOptions& options = {});

// Annotates convolutions, linears, add, mul, cat and pools, first those with a relu behind, and passes annotations on
// through operators that keep the numbers. Precedence: module name (of nested ones the
// innermost), module type, operator type, global.
//
// With Compat::kTorch26 it annotates exactly what PyTorch 2.6 does. Without, it does what the settings say where
// PyTorch stumbles over its own bookkeeping:
//  - module name and type filters look at the operators of a pattern, not at weights (which belong to no module), so
//    they reach convolutions and linear + relu;
//  - a second call of a module is quantized like the first;
//  - cat and adaptive_avg_pool2d are found by operator, so in non-strict exports too;
//  - each operator has one setting: no config for a module takes it out of that of the module around it;
//  - set_operator_type is obeyed, and a dynamic setting holds for the modules it was given for, whatever the global one
//    is.
class XNNPACKQuantizer : public Quantizer {
 public:
  explicit XNNPACKQuantizer(Compat compat = Compat::kNone) : compat_(compat) {}

  XNNPACKQuantizer& set_global(std::optional<QuantizationConfig> config);
  // "torch.ops.aten.linear", for every overload. One of them ("torch.ops.aten.linear.default") means the same, and so
  // does the function or module class that stands for it ("torch.nn.functional.linear", "torch.nn.Linear").
  XNNPACKQuantizer& set_operator_type(const std::string& operator_type, std::optional<QuantizationConfig> config);
  // "torch.nn.modules.linear.Linear" or "torch.nn.Linear"; nothing: modules of this type stay float.
  XNNPACKQuantizer& set_module_type(const std::string& module_type, std::optional<QuantizationConfig> config);
  // Throws Error{kInvalidArgument} for no config, as PyTorch does, if compatible with it; else the module stays float.
  XNNPACKQuantizer& set_module_name(const std::string& module_name, std::optional<QuantizationConfig> config);

  // Nothing that the function refuses is annotated, whatever the settings say; a pattern is taken if all its operators
  // pass.
  XNNPACKQuantizer& set_filter_function(NodeFilter filter);

  std::string_view name() const override { return "XNNPACKQuantizer"; }
  Compat compat() const override { return compat_; }
  std::vector<std::string> warnings() const override;
  void transform_for_annotation(Program& program) override;
  QuantizationCapabilities quantization_capabilities() const override;
  void annotate(Program& program, Annotations& annotations) override;

 private:
  const XnnpackRules& rules() const;
  // The setting that holds for a node, as qdq reads them; null: none.
  const ConfigSetting* setting_of(const Node& node) const;
  bool holds(const ConfigSetting& setting, const Node& node) const;
  bool is_dynamic(const ConfigSetting& setting) const;

  Compat compat_;
  NodeFilter filter_;
  ConfigSetting global_;
  std::vector<ConfigSetting> operator_types_, module_types_, module_names_;  // in the order of their first setting
  std::vector<std::string> refused_, unmatched_;  // warnings of the setters, and of the program annotated last
};

}  // namespace qdq
