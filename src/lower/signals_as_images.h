// Convolutions along one axis as convolutions of images.
#pragma once

#include "graph/program.h"

namespace qdq {

// Rewrites 1-d convolutions and what stands between them as the same of images of one row, [N, C, 1, L], for which
// there are steps:
//   x -> conv1d -> relu -> max_pool1d -> y   becomes   x -> unsqueeze(2) -> conv2d -> relu -> max_pool2d -> squeeze(2)
// Done where the convolutions are quantized; with `floats` also where at least as many convolutions gain as values must
// be brought from one form to the other. The graph must have its shapes.
void make_images_of_signals(Program& program, bool floats);

}  // namespace qdq
