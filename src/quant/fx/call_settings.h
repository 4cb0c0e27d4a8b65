// Which QConfig a QConfigMapping gives to a call.
// Semantics: torch/ao/quantization/fx/qconfig_mapping_utils.py of PyTorch 2.6.
#pragma once

#include <string>
#include <unordered_set>
#include <vector>

#include "quant/fx/quantized_calls.h"
#include "quant/fx/torch26.h"

namespace qdq {

class CallSettings {
 public:
  // Calls with a node that `passes` refuses get no QConfig.
  CallSettings(const QConfigMapping& mapping, const FxRules& rules, const NodeFilter& passes)
      : mapping_(mapping), rules_(rules), passes_(passes) {}

  // Sets the call's QConfig, and the reason for it. Calls must come in their order, since settings may count them.
  // Throws Error{kInvalidArgument} for calls that are fused with different settings, if they must agree.
  void give(QuantizedCall& call);
  // Whether a call had the setting, even if one of higher priority took its place.
  bool has_met(const QConfigMapping::Setting& setting) const { return met_.count(&setting) != 0; }
  bool has_met(const QConfigMapping::OrderSetting& setting) const { return met_.count(&setting) != 0; }

 private:
  // A setting, and in which words the mapping names it.
  struct Found {
    const QConfig* qconfig;
    std::string words;
  };
  Found found(const QConfigMapping::Setting& setting, const char* kind) const;

  const QConfigMapping::Setting* by_type(const std::string& type, const TracedCall* call = nullptr) const;
  Found by_type_or(const std::string& type, Found fallback, const TracedCall* call = nullptr) const;
  Found by_name_or(const std::string& path, Found fallback) const;
  // The setting that names the one operator of a call, "torch.ops.aten.linear"; null if there is none.
  const QConfigMapping::Setting* by_operator(const QuantizedCall& call) const;
  Found of_fused(const QuantizedCall& call, const Found& global) const;
  int64_t count(std::string key);

  const QConfigMapping& mapping_;
  const FxRules& rules_;
  const NodeFilter& passes_;
  mutable std::unordered_set<const void*> met_;  // settings
  std::vector<std::string> counted_;             // module and type of the calls so far
};

}  // namespace qdq
