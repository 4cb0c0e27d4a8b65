// fuse_fx: the fusions of FX graph mode alone.
// Semantics: torch/ao/quantization/quantize_fx.py of PyTorch 2.6.
#pragma once

#include "quant/fx/backend_config.h"

namespace qdq {

// Folds batch norms into the convolutions and linear layers in front of them where the backend fuses these modules, as
// prepare_fx does first of all; a program of operators has no fused modules, and keeps its relus, which lowering takes
// into the layers. Returns how many are gone. Throws Error{kInvalidArgument} for a program exported in training mode.
int64_t fuse_fx(Program& program, const BackendConfig& backend = get_backend_config("native"));

}  // namespace qdq
