// A layer as a product of its weight's rows with what its kernel sees at each place of its result.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "graph/graph.h"
#include "tensor/tensor.h"

namespace qdq {

// An axis along which a kernel moves.
struct KernelAxis {
  int64_t size = 1, stride = 1, padding = 0, dilation = 1;  // padding: before the first element
  int64_t after = 0;                                        // and behind the last
};

struct LayerProduct {
  std::vector<KernelAxis> axes;  // none: linear
  int64_t groups = 1;
  int64_t rows = 0, depth = 0;  // of a group
};
// Of a convolution (is_plain_convolution) or a linear layer (is_linear) with this weight. Nothing for other nodes, and
// where the convolution's strides, paddings, dilations or groups are no numbers that are known and sound.
std::optional<LayerProduct> product_of(const Node& node, const Tensor& weight);

// The places of a layer's result that are looked at: every so manieth of a batch, not in step with its rows.
class Places {
 public:
  // `x`: what the layer reads, f32 [N, channels, ...], a row being an image without extent (as_images).
  Places(const LayerProduct& layer, const Tensor& x, int64_t wanted);
  int64_t count() const { return count_; }
  // What the kernel sees at each: [count, channels * taps], the channels of a group beside each other.
  std::vector<float> seen_in(const Tensor& x) const;

 private:
  const LayerProduct& layer_;
  int64_t channels_, all_ = 0, step_ = 1, count_ = 0;
  std::vector<int64_t> in_, out_;
};

// Rows of a linear layer as images without extent.
Tensor as_images(const Tensor& x, const LayerProduct& layer);

}  // namespace qdq
