// What PyTorch 2.6 does by accident, rule by rule, where qdq's own quantizers do what the settings say.
// Compat::kTorch26 follows these rules (docs/compatibility.md).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "quant/quantizers/patterns.h"

namespace qdq {

// torch/ao/quantization/quantizer/xnnpack_quantizer.py and xnnpack_quantizer_utils.py
struct XnnpackRules {
  MatchingRules matching = {};
  // Whether a setting reaches a node: every one is applied in turn to all that it names, and the first that annotates a
  // node has it. Null: each operator has one setting.
  bool (*reaches)(const std::vector<ConfigSetting>& module_names, const std::vector<ConfigSetting>& module_types,
                  const ConfigSetting& setting, const Node& node) = nullptr;
  bool ignores_operator_types = false;    // set_operator_type is stored and never read
  bool global_says_dynamic = false;       // whether a setting is dynamic is read from the global one
  bool refuses_float_modules = false;     // set_module_name with no config raises
  std::string_view found_by_source = {};  // operators that are found by what a strict export recorded, and no others
};
const XnnpackRules& xnnpack_rules(Compat compat);

// torch/ao/quantization/quantizer/x86_inductor_quantizer.py
struct X86Rules {
  MatchingRules matching = {};
  // Whether the setting of a module holds for a node: for any module around it. Null: for the innermost that has one.
  bool (*is_in_module)(const Node& node, const std::string& path) = nullptr;
  // A pattern may hold one of the operators that a setting is for, and more are refused.
  bool refuses_several_operators = false;
  bool finds_by_source = false;  // patterns are found by what a strict export recorded, and not by operators
};
const X86Rules& x86_rules(Compat compat);

// Why PyTorch 2.6, which goes by what an export recorded, does not see what the operators show.
std::string not_found_by_source(const Node& node);

// What an export records for modules and functions that become the operator, the module first; empty if that is not
// known. And the operator for such a name; empty for others.
std::vector<std::string> sources_of_operator(std::string_view name);
std::string_view operator_of_source(std::string_view source);

}  // namespace qdq
