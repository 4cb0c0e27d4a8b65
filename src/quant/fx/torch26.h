// What PyTorch 2.6's FX graph mode does by accident, rule by rule, where qdq's own way does what the mapping says.
// Compat::kTorch26 follows these rules (docs/compatibility.md). They were read from torch/ao/quantization/fx.
#pragma once

#include "quant/compat.h"

namespace qdq {

struct FxRules {
  // Functions and methods are known by what export recorded of them. Else one that the mapping or the backend does not
  // know by that name is known by what it computes.
  bool knows_records_only = false;
  // Calls that are fused must have the same setting by type, or prepare_fx raises (qconfig_mapping_utils.py).
  bool fused_settings_must_agree = false;
  // Weight observers per channel raise for modules of transposed convolutions (quantize_handler.py).
  bool refuses_transposed_per_channel = false;
  // A value's dtype is what the setting of its producer says, even where its output was not observed (prepare.py).
  bool trusts_settings_of_producers = false;
  // A fixed range is put on the inputs of sigmoid and its like as well, which cuts off all outside of it (prepare.py).
  bool observes_inputs_of_fixed_ranges = false;
  // Batch norms of modules alone are folded (fuse.py).
  bool folds_modules_only = false;
  // A buffer or constant is a node of its own wherever it is read, so each reader has an observer of its own
  // (torch/fx/_symbolic_trace.py, create_arg).
  bool observes_constants_by_reader = false;
  // There are no modules for training transposed convolutions, so their weights are rounded by convert alone
  // (quantization_mappings.py, DEFAULT_QAT_MODULE_MAPPINGS).
  bool trains_transposed_in_float = false;
  // INPUT_OUTPUT_NOT_OBSERVED is never asked for: such operators have an observer of their own (quantize_handler.py).
  bool observes_what_is_not_observed = false;
  // Constraints on weights are asked for where the weight is an argument, not for the weights of modules (prepare.py).
  bool takes_any_range_of_module_weights = false;
  // What keeps its input's numbers is quantized as the next observed value on the way up along first arguments, through
  // whatever changes the numbers in between (utils.py, _maybe_make_input_output_share_observers).
  bool shares_through_anything = false;
  // Positions, sizes and masks are quantized as features are.
  bool takes_positions = false;
};

inline constexpr FxRules kFxTorch26{.knows_records_only = true,
                                    .fused_settings_must_agree = true,
                                    .refuses_transposed_per_channel = true,
                                    .trusts_settings_of_producers = true,
                                    .observes_inputs_of_fixed_ranges = true,
                                    .folds_modules_only = true,
                                    .observes_constants_by_reader = true,
                                    .trains_transposed_in_float = true,
                                    .observes_what_is_not_observed = true,
                                    .takes_any_range_of_module_weights = true,
                                    .shares_through_anything = true,
                                    .takes_positions = true};
inline constexpr FxRules kFxOwn{};

inline const FxRules& fx_rules(Compat compat) { return compat == Compat::kTorch26 ? kFxTorch26 : kFxOwn; }

}  // namespace qdq
