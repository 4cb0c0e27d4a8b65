// Trains what prepare_qat_pt2e made: forward through the fake quantizers, back by the straight-through estimator, and a
// step of the optimizer.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "quant/qat.h"
#include "train/loss.h"

namespace qdq {

enum class Optimizer {
  kSgd,   // torch.optim.SGD: g += weight_decay p; v = momentum v + g (the first time v = g); p -= lr v
  kAdam,  // torch.optim.Adam: betas 0.9 and 0.999, eps 1e-8; g += weight_decay p
};

struct TrainingOptions {
  Loss loss = Loss::kCrossEntropy;
  Optimizer optimizer = Optimizer::kSgd;
  double lr = 0.01;
  double momentum = 0;  // of kSgd
  double weight_decay = 0;
};

// Every operator's gradient is PyTorch's; the order of every sum is fixed, so the same steps give the same bytes with
// any number of threads, natively and in WASM. A fake quantizer hands the gradient on where it rounded and holds it
// back where it clipped. Dropouts pass everything.
class Trainer {
 public:
  // `prepared` must outlive the trainer; between steps its switches and its mode (quant/qat.h) may change, and it may
  // be run or converted. Throws Error{kUnsupported} that lists every operator without a gradient, with the nodes that
  // use it, and Error{kInvalidArgument} if there is no parameter to train or an option is out of range.
  Trainer(Prepared& prepared, const TrainingOptions& options);
  ~Trainer();
  Trainer(Trainer&&) noexcept;
  Trainer& operator=(Trainer&&) noexcept;

  // One batch: observes and rounds as the switches say, computes the loss of the first output, its gradient, and moves
  // every parameter that requires one. Returns the loss before the step. The values that the backward pass needs are
  // kept until it has used them, which takes several times the memory of a run. Throws Error{kInvalidArgument} if
  // inputs or target do not fit, or the loss is not finite; no parameter has moved then.
  double step(const std::vector<Tensor>& inputs, const Tensor& target);

  void set_lr(double lr);
  // Gradients of the last step, by the parameter's name. Parameters that share their bytes go by the name of the first.
  const std::map<std::string, Tensor>& gradients() const;
  // The names of the parameters that are trained.
  std::vector<std::string> parameters() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace qdq
