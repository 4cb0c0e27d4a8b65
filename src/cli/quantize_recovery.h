// `qdq quantize --recover`, `--awq` and `--gptq`.
#pragma once

#include "cli/verbs.h"
#include "data/data.h"
#include "format/json.h"
#include "quant/pt2e.h"

namespace qdq {

// Scales the channels that weights in groups read by the samples (recover/awq.h); returns how many places.
int64_t scale_for_groups(Prepared& prepared, Data& data, Host& host);

// Rounds the weights in groups by the samples (recover/gptq.h); returns of how many layers.
int64_t round_groups(Prepared& prepared, Data& data, Host& host);

// Brings accuracy back by what layers read of the samples of a merged calibration, and rounds weights in groups by it,
// as the options want; prints what was done and returns {"applied": [{"remedy", "changes"}, ...]}.
format::Json recover_by_state(const QuantizeOptions& options, Prepared& prepared, Host& host);

// Corrects biases without data, by what folded batch norms tell, and prints and returns it as above.
format::Json recover_by_norms(const QuantizeOptions& options, Prepared& prepared, Host& host);

// Brings accuracy back on the samples if it `recovers`, then chooses the precision that the options wish
// (quantize_precision.h); prints what was done and returns it: {"remedies": [...], "precision": {...}}, of which each
// is there if it was asked for. An interrupt ends this: what the remedies that are done gained is kept, and
// "interrupted" is true.
format::Json recover_accuracy(const QuantizeOptions& options, bool recovers, Prepared& prepared, Data& data,
                              Host& host);

}  // namespace qdq
