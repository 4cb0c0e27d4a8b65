// `qdq quantize --recover`, `--target-agreement` and `--target-drop`.
#pragma once

#include "cli/verbs.h"
#include "data/data.h"
#include "format/json.h"
#include "quant/pt2e.h"

namespace qdq {

// The word that asks for it: "--recover", "--target-drop" or "--target-agreement".
std::string recovery_word(const QuantizeOptions& options);

// Throws Error{kInvalidArgument} for words that do not fit each other. True if the options ask for recovery.
bool wants_recovery(const QuantizeOptions& options, bool has_samples);

// Rounds the weights in groups by the samples (recover/gptq.h); returns of how many layers.
int64_t round_groups(Prepared& prepared, Data& data, Host& host);

// Brings accuracy back on the samples, then leaves operators in float until the target is reached; prints what was done
// and returns it: {"remedies": [...], "precision": {...}}, of which each is there if it was asked for. An interrupt
// ends this: what the remedies that are done gained is kept, and "interrupted" is true.
format::Json recover_accuracy(const QuantizeOptions& options, Prepared& prepared, Data& data, Host& host);

}  // namespace qdq
