// Quantization-aware training: a program whose weights and activations pass through fake quantizers, so that training
// (train/trainer.h) teaches the network to live with the rounding that convert_pt2e makes final.
#pragma once

#include "quant/pt2e.h"

namespace qdq {

// Lets the quantizer (one made with is_qat) transform and annotate, rewrites convolutions in front of batch norms as
// drawn below, and inserts fake quantizers (torch/ao/quantization/quantize_pt2e.py, prepare_qat_pt2e). The result
// begins in training mode where the program was exported so, and its rewritten batch norms do in any case. run()
// observes and rounds; convert_pt2e folds the batch norms.
//
//   conv(x, w, b) -> batch_norm     becomes (torch/ao/quantization/pt2e/qat_utils.py, _get_qat_conv_bn_pattern)
//   f = gamma / sqrt(running_var + eps);  conv(x, w * f, 0) / f + b -> batch_norm in training mode
//
// so that the weight is rounded as it will be after folding. PyTorch 2.6 gives every such batch norm the eps 1e-5 and
// the momentum 0.1, and so does Compat::kTorch26; else it keeps its own. The program's statistics of batch norms are
// copied, its parameters are never written. In a program of an ONNX file, which does not say which of its constants
// learn, the float32 ones that layers and norms read as weights and biases become parameters that training changes.
// Throws Error{kInvalidArgument} as prepare_pt2e, and if nothing that the quantizer placed is a fake quantizer.
Prepared prepare_qat_pt2e(Program program, Quantizer& quantizer, std::vector<OpBackend*> backends = {});

// Switches of all fake quantizers (torch/ao/quantization/fake_quantize.py): whether they take in what passes, and
// whether they round it.
void enable_observer(Prepared& prepared, bool enabled = true);
void enable_fake_quant(Prepared& prepared, bool enabled = true);

// Puts a LearnableFakeQuantize (quant/observers/learnable_fake_quantize.h) in the place of every fake quantizer that
// makes integers with a scale of its own: all but dynamic ones, those with fixed or float qparams, and those that
// others derive theirs from. What was seen stays. For use before there is a Trainer. The new ones estimate until
// enable_param_learning.
void learn_qparams(Prepared& prepared, bool use_grad_scaling = false);
// Whether the learnable ones learn: enabled, they round and their observers are off, as PyTorch's
// enable_param_learning has it; else they only stop to learn.
void enable_param_learning(Prepared& prepared, bool enabled = true);

// Batch norms and dropouts in training or inference form (torch/ao/quantization/pt2e/export_utils.py). Like there,
// Compat::kTorch26 gives all batch norms that change the eps 1e-5 and the momentum 0.1, and the dropouts the
// probability 0.5.
void move_exported_model_to_train(Prepared& prepared);
void move_exported_model_to_eval(Prepared& prepared);
// The same of a program that was exported in training mode; whether it was.
bool move_exported_model_to_eval(Program& program);

}  // namespace qdq
