// The rewriting of conv -> batch_norm for quantization-aware training, and its undoing when the program is converted.
#pragma once

#include <string>
#include <vector>

#include "graph/program.h"
#include "quant/quantizer.h"

namespace qdq {

// The names of the nodes of one rewritten convolution (quant/qat.h draws it).
struct QatConvBn {
  std::string conv, norm;
  std::string weight, scaled_weight;  // a get_attr node, and what the convolution has for it (in front of observers)
  std::string bias, zero_bias;        // likewise; empty without a bias
};

// Rewrites every convolution and linear layer of an annotated program (transposed convolutions of one group) whose only
// reader is a batch norm with weight and bias, where the quantizer trains the two as one. Annotations follow their
// nodes; those of the weight's and bias's edges move to what replaces them. Under Compat::kTorch26 the annotation of
// what reads the batch norm goes on naming the one that it read before, which is in `replaced` then and in the program
// no more: PyTorch makes an observer for that edge and inserts none.
std::vector<QatConvBn> fuse_conv_bn_qat(Program& program, Annotations& annotations, const Quantizer& quantizer,
                                        Graph& replaced);

// Puts the convolutions back in front of their batch norms, with whatever quantizes their weights and biases by now in
// front of the parameters themselves, and folds the norms (qat_utils.py, _fold_conv_bn_qat). The counters of batches
// go: those of BatchNorm2d under Compat::kTorch26.
void fold_conv_bn_qat(Program& program, const std::vector<QatConvBn>& rewritten, Compat compat);

// Sets training or inference form of all batch norms and dropouts; returns whether any changed.
bool set_training_mode(Program& program, bool training, Compat compat);

}  // namespace qdq
