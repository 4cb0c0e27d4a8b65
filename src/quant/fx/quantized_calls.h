// The calls of a program with what a QConfigMapping and the backend make of them: fused, matched with patterns, each
// with its QConfig. Semantics: torch/ao/quantization/fx/{fuse,match_utils,qconfig_mapping_utils}.py of PyTorch 2.6.
#pragma once

#include <string>
#include <unordered_set>
#include <vector>

#include "graph/source_partition.h"
#include "op/op.h"
#include "quant/fx/backend_config.h"
#include "quant/fold_batch_norm.h"
#include "quant/fx/prepare_custom_config.h"
#include "quant/fx/qconfig_mapping.h"
#include "quant/fx/traced_calls.h"

namespace qdq {

struct QuantizedCall {
  TracedCall traced;  // with what was fused into it
  // The types of the modules behind it that were: batch norm (in training), relu. A functional relu counts as its
  // module.
  std::vector<std::string> fused;
  std::string fused_type;  // the class that they became together; empty: nothing was fused
  // Of a module that is quantized on its own: it has no pattern. Null: it is none.
  const PrepareCustomConfig::StandaloneModule* standalone = nullptr;
  const BackendPatternConfig* pattern = nullptr;  // of the backend; null: it has none
  const QConfig* qconfig = nullptr;               // of the mapping; null: none
  // What its tensors are quantized by: the QConfig of the last call of the pattern; null if the backend does not take
  // it.
  const QConfig* effective = nullptr;
  bool is_root = true, is_last = true;  // of its pattern, which may have several calls: a function and a relu behind
  bool shares_input = false;            // its output is observed by the observer of its first input
  std::string reason;                   // for explain()

  bool is_observed() const { return qconfig && effective; }
  // Of the root of a pattern: whether its weight becomes integers.
  bool quantizes_weight() const;
  // The node in that role of its operator (&Roles::weight); null if there is none.
  Node* argument(int Roles::* role) const;
};

// What is asked of a program.
struct FxRequest {
  const QConfigMapping& mapping;  // this, the backend and the custom config must outlive the calls
  const BackendConfig& backend;
  const PrepareCustomConfig& custom;
  Compat compat = Compat::kNone;
  std::string key{}, path{};                          // of the standalone module whose inside is meant; empty: all
  NodeFilter passes{};                                // calls with a node that it refuses get no QConfig
  std::unordered_set<const Node*> has_folded_norm{};  // layers in front of batch norms that are gone
};

// With Compat::kTorch26, types are those that export recorded, and calls that are fused must have the same setting by
// type, as in PyTorch (else Error{kInvalidArgument}). `unmatched` gets a sentence for each setting that reaches
// nothing,
// but for types that PyTorch's default mappings have, and for each QConfig that breaks a constraint of the backend.
std::vector<QuantizedCall> quantized_calls(const Program& program, const FxRequest& request,
                                           std::vector<std::string>& unmatched);

// The same with settings alone: without patterns, and so without `effective`.
std::vector<QuantizedCall> calls_with_settings(const Program& program, const FxRequest& request,
                                               std::vector<std::string>& unmatched);

// The batch norms that FX graph mode folds before all else, as the backend fuses them: of modules, in inference form,
// with constant statistics.
std::vector<ConvBn> foldable_batch_norms(const Program& program, const FxRequest& request);

// The request for the inside of a standalone module; `qconfig` is what the whole has for the module. The mapping is
// kept in `own` where the entry has none.
FxRequest request_inside(const FxRequest& request, const QuantizedCall& call, const OptionalQConfig& qconfig,
                         QConfigMapping& own);

}  // namespace qdq
