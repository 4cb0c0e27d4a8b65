// A quantizer's settings for one kind of layer, and what annotators have in common.
// Semantics: torch/ao/quantization/quantizer/xnnpack_quantizer_utils.py of PyTorch 2.6.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "graph/source_partition.h"
#include "quant/quantizer.h"

namespace qdq {

// The specs of an operator's tensors; nothing: stays float.
struct QuantizationConfig {
  std::optional<QuantizationSpec> input_activation;
  std::optional<QuantizationSpec> output_activation;
  std::optional<QuantizationSpec> weight;
  std::optional<QuantizationSpec> bias;
  bool is_qat = false;

  bool is_dynamic() const { return input_activation && input_activation->is_dynamic; }
  QSpec input_qspec() const { return input_activation ? QSpec(*input_activation) : QSpec(); }
  QSpec output_qspec() const { return output_activation ? QSpec(*output_activation) : QSpec(); }
  QSpec weight_qspec() const { return weight ? QSpec(*weight) : QSpec(); }
  QSpec bias_qspec() const { return bias ? QSpec(*bias) : QSpec(); }
};

// The spec of activations with which PyTorch's own configurations (get_symmetric_quantization_config and
// get_default_x86_inductor_quantization_config) begin: per tensor, affine; histograms after training, fake quantization
// in QAT (both: moving averages), and for `is_dynamic` the range of each run.
QuantizationSpec default_activation_spec(DType dtype, int64_t quant_min, int64_t quant_max, bool is_qat,
                                         bool is_dynamic);
// And that of weights: int8, symmetric, per output channel (`ch_axis` 0) or per tensor.
QuantizationSpec default_weight_spec(int64_t quant_min, int64_t quant_max, bool is_per_channel, bool is_qat);

// A quantizer's setting for what has a name (an operator, a module type, a module); nothing: stays float.
using ConfigSetting = std::pair<std::string, std::optional<QuantizationConfig>>;
// The last setting of a name holds, in the place of the first.
void set_config(std::vector<ConfigSetting>& settings, const std::string& name,
                std::optional<QuantizationConfig> config);
// Of the modules around the node, by path or by type, the innermost that has a setting; null: none has. What an ONNX
// file calls a node is the path of a module that holds this node alone.
const ConfigSetting* innermost(const Node& node, const std::vector<ConfigSetting>& settings,
                               std::string ModuleStackEntry::* key);

// Why a quantizer takes no node of this operator, with the remedy for one that decompositions leave of a layer.
std::string no_pattern_for(std::string_view quantizer, const Node& node);

// Sentences about the settings that name a module, a type of modules ("torch.nn.Linear" too) or an operator
// ("torch.ops.aten.linear") that the program does not have.
std::vector<std::string> unmatched_module_names(const Program& program, const std::vector<ConfigSetting>& settings);
std::vector<std::string> unmatched_module_types(const Program& program, const std::vector<ConfigSetting>& settings);
std::vector<std::string> unmatched_operators(const Program& program, const std::vector<ConfigSetting>& settings);

// any of them; null nodes are skipped
bool is_annotated(const Annotations& annotations, const std::vector<Node*>& nodes);
void mark_annotated(Annotations& annotations, const std::vector<Node*>& nodes);

// Whether a module of that path, or one inside it, holds the node.
bool is_in_module(const Node& node, const std::string& path);
// Whether a module of that type ("torch.nn.modules.linear.Linear", or "torch.nn.Linear") holds the node.
bool is_in_module_type(const Node& node, const std::string& type);

// Turns numbers among the operands of add and mul into 0-dimensional float buffers `_tensor_constant_<n>`, so that they
// can be observed (_convert_scalars_to_attrs). PyTorch 2.6 does so for integers too, which turns them into floats;
// otherwise only operators with a float result are touched.
void convert_scalars_to_attributes(Program& program, Compat compat);

}  // namespace qdq
