// Convolutions over three axes as convolutions of frames.
#pragma once

#include <optional>

#include "graph/program.h"

namespace qdq {

// Rewrites quantized conv3d and what stands between them as the same of images [N * D, C, H, W], for which there are
// steps; all sizes but N must be constant.
//   a conv3d whose windows are one frame deep   a conv2d of each frame
//   every other conv3d                          itself, between what makes volumes of images and images of volumes
//   max_pool3d                                  max_pool2d of each frame, then one of images [N, C, D, H * W]
//   avg_pool3d of one frame or whole frames     avg_pool2d of [N * D, C, H, W] or [N, C, D, H * W]
//   adaptive_avg_pool3d to one element          adaptive_avg_pool2d of [N, C, D, H * W]
// The graph must have its shapes.
void make_images_of_volumes(Program& program);

// A conv3d that reads volumes of images and whose volumes are only read as images; nothing for every other node.
struct ConvolutionOfFrames {
  Node* images;  // [N * D, C, H, W]
  Node* result;  // [N * OD, OC, OH, OW]
};
std::optional<ConvolutionOfFrames> convolution_of_frames(const Node& node);

}  // namespace qdq
