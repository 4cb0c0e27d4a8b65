// How frames of volumes follow from frames.
#pragma once

#include <cstdint>

namespace qdq::kernel {

// Which of the `in` frames of a volume a frame `i` of its `out` results is made of: i * stride - pad + k * dilation for
// k below `kernel`. Frames before the first and behind the last are padding. An image is a volume of one frame.
struct FrameWindow {
  int64_t in = 1, out = 1;
  int64_t kernel = 1, stride = 1, pad = 0, dilation = 1;
};

}  // namespace qdq::kernel
