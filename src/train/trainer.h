// Trains what prepare_qat_pt2e made: forward through the fake quantizers, back by the straight-through estimator, and a
// step of the optimizer.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "format/npz.h"
#include "quant/qat.h"
#include "train/training_options.h"

namespace qdq {

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
  // kept until it has used them, which takes several times the memory of a run. `teacher` is the first output of the
  // float model for the same inputs, wanted where options.distillation is above 0 and refused elsewhere; `target` may
  // be undefined where that is 1. Throws Error{kInvalidArgument} if inputs, target or teacher do not fit, or the loss
  // is not finite; no parameter has moved then.
  double step(const std::vector<Tensor>& inputs, const Tensor& target, const Tensor& teacher = {});

  // The same in three parts, for any loss. forward() observes, rounds and returns the outputs. backward() takes the
  // gradients of the loss by output (float32 of its shape; undefined or missing at the end: nothing flows back from
  // it), and finds gradients(), which take the place of earlier ones. update() moves the parameters by them. Each
  // throws Error{kInvalidArgument} where the part before it is missing; backward() also if a gradient does not fit its
  // output or is not finite.
  std::vector<Tensor> forward(const std::vector<Tensor>& inputs);
  void backward(const std::vector<Tensor>& grads);
  void update();

  // The rate that the schedule begins with, and the one that the next update() has.
  void set_lr(double lr);
  double lr() const;
  // How many updates there were.
  int64_t num_updates() const;
  // All that training has made so far, under names of their own: parameters and buffers, what the optimizer keeps, what
  // the observers saw, their switches and the program's form. A trainer of the same program, quantizer and options that
  // takes it over goes on as this one would, to the byte. format::write_npz makes a file of it.
  std::vector<format::NamedTensor> state_dict() const;
  // Takes over the state of another. Throws Error{kInvalidArgument} naming what is missing, or does not belong to this
  // program; the trainer is of no use then.
  void load_state_dict(std::span<const format::NamedTensor> state);

  // Gradients of the last backward(), by the parameter's name. Parameters that share their bytes go by the name of the
  // first.
  const std::map<std::string, Tensor>& gradients() const;
  // The names of the parameters that are trained.
  std::vector<std::string> parameters() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace qdq
