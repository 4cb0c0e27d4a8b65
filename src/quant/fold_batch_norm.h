// Folds a batch norm in inference mode into the convolution in front of it.
#pragma once

#include <string>
#include <vector>

#include "graph/program.h"
#include "quant/compat.h"

namespace qdq {

// Rewrites every conv -> batch_norm into conv with new weight and bias (torch/ao/quantization/pt2e/utils.py,
// _fuse_conv_bn_; the formula is torch/nn/utils/fusion.py, fuse_conv_bn_weights, in float32 and in its order):
//   r = 1 / sqrt(var + eps);  weight' = weight * (gamma * r) along the output channels;  bias' = (bias - mean) * r *
//                             gamma + beta
// The weight keeps its attribute's name; a convolution without bias gets the attribute `<weight>_bias`.
// PyTorch folds a convolution whose result has further users and folds a weight that two convolutions share twice,
// which changes what the model computes. So does Compat::kTorch26; else such a batch norm is left in place, and a
// shared weight is copied.
void fold_batch_norms(Program& program, Compat compat);

// What a batch norm says of the values that it gives: each channel's mean and standard deviation on the data that it
// was trained on (its bias and the size of its weight).
struct ChannelNormals {
  std::vector<float> mean, deviation;
};
// Of every batch norm that reads a convolution and whose parameters are float32 constants, with the names of both.
struct NormBehindConv {
  std::string conv, norm;
  ChannelNormals normals;
};
std::vector<NormBehindConv> norms_behind_convs(const Program& program);

// One convolution, its parameters (get_attr nodes; bias may be null) with the nodes that read them, which is the
// convolution itself unless they are quantized in between, and the batch norm that reads nothing else than the
// convolution.
struct ConvBn {
  Node *conv, *weight, *weight_reader, *bias, *bias_reader, *norm;
};
// Folds this batch norm as above, in training form too: with its running statistics.
// Throws Error{kUnsupported} if parameters or statistics are not float32 constants.
void fold_batch_norm(Program& program, const ConvBn& parts, Compat compat);

// The weight that folding would give, without folding. Throws as fold_batch_norm does.
Tensor folded_weight(const Program& program, const ConvBn& parts);

// aten.conv1d / conv2d, and aten.conv_transpose1d / conv_transpose2d (the overloads that PyTorch 2.6 names).
bool is_conv(const Node& node);
bool is_conv_transpose(const Node& node);

}  // namespace qdq
