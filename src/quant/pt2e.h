// The PT2E flow: prepare, calibrate, convert.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "quant/quantizer.h"

namespace qdq {

class OpBackend;  // exec/op_backend.h

// One observer instance of a prepared program and everything that shares it.
struct ObserverGroup {
  std::shared_ptr<Observer> observer;
  std::vector<EdgeOrNode> covers;        // all edges and nodes of the annotated graph that share the instance
  std::vector<std::string> inserted_as;  // its call_module nodes
  std::vector<std::shared_ptr<Observer>> derived_from;
};

// The statistics of an observer (Observer::min_val and so on): f32, undefined where its class has none.
struct ObserverState {
  Tensor min_val, max_val, histogram;
};

// A program with observers as call_module nodes, calibrated by running it.
class Prepared {
 public:
  Prepared(Prepared&&) noexcept;
  Prepared& operator=(Prepared&&) noexcept;
  ~Prepared();

  // Runs one batch through the float program and its observers; returns the float outputs. Memory is bounded by one
  // batch. Throws Error{kInvalidArgument} if the inputs do not fit, or hold NaN (naming the input).
  // `on_observed`, if given, is called after each observer has seen its tensor, with how many have in this batch and
  // how many will. What runs, changes or converts this program meanwhile is refused with Error{kInvalidArgument}.
  using OnObserved = std::function<void(int64_t done, int64_t total)>;
  std::vector<Tensor> run(const std::vector<Tensor>& inputs, const OnObserved& on_observed = {});

  // Whether convert_pt2e needs data first: whether there are observers that are neither dynamic nor on constants, and
  // none of them has seen any.
  bool needs_data() const;

  // The values whose observers have seen no data, such as those behind a detector that has found no box. convert_pt2e
  // leaves them in float if others have seen some.
  std::vector<std::string> values_without_data() const;

  // Gives observers()[index] what it saw in an earlier run of the same program, so that convert_pt2e needs no data. An
  // observer of a constant has seen it already, and the state must be the same. Throws Error{kInvalidArgument} for a
  // state that this observer cannot have reached on this tensor, and for an observer that has seen data since.
  void set_state(size_t index, const ObserverState& state);

  // Puts a MinMaxObserver (PerChannelMinMaxObserver, PerGroupMinMaxObserver) with this range in for observers()[index],
  // with its dtype, scheme and limits: convert_pt2e takes the range whatever was seen, and a further run widens it. The
  // scale follows from the range alone, down to 2^-40, whatever eps the recipe has.
  // f32, of rank 0, or one element a channel. Throws Error{kInvalidArgument} for an observer that is no static one of
  // integers or has fixed or derived qparams, for one from which others are derived, for fake quantizers, and for a
  // range that is none.
  void set_range(size_t index, const Tensor& min, const Tensor& max);

  // The layers whose inputs convert_pt2e equalizes with their weights, by their nodes (quant/input_equalization.h).
  std::vector<std::string> layers_to_equalize() const;

  const Program& program() const;
  const std::vector<ObserverGroup>& observers() const;
  const Annotations& annotations() const;  // of the annotated graph's nodes, which live on in program()
  // One sentence each: what the quantizer warned of when it had annotated, such as settings without effect, and that
  // calibration saw infinities, or what finite masks hide.
  const std::vector<std::string>& warnings() const;

  struct Impl;  // quant/prepared_impl.h

 private:
  std::unique_ptr<Impl> impl_;
  explicit Prepared(std::unique_ptr<Impl> impl);
};

// Folds batch norm, lets the quantizer transform and annotate, and inserts observers
// (torch/ao/quantization/quantize_pt2e.py, prepare_pt2e). `backends` run the calibration; empty: the portable float
// kernels. Throws Error{kInvalidArgument} where PyTorch refuses the annotations; and, unless PyTorch 2.6 is followed,
// for a program that is quantized already, and for one that was exported in training mode, whose batch norms would go
// on using the statistics of each batch (move_exported_model_to_eval).
Prepared prepare_pt2e(Program program, Quantizer& quantizer, std::vector<OpBackend*> backends = {});

struct ConvertOptions {
  bool use_reference_representation = false;
  bool fold_quantize = true;  // store weights as integers
};

// The dq/q program: observers become quantize/dequantize pairs with their qparams, weights are folded to integers
// (quantize_pt2e.py, convert_pt2e). Inputs that the quantizer wants so are equalized with their weights before
// (input_equalization.h). What prepare_qat_pt2e rewrote is folded; unless PyTorch 2.6 is followed, batch
// norms and dropouts that are left take their inference form. Values that no data has reached stay float; if none has
// come at all, this throws Error{kNotCalibrated} naming the observers. Buffers that runs change have their values of
// before prepare_pt2e; after training, those of now.
Program convert_pt2e(const Prepared& prepared, const ConvertOptions& options = {});

// The program that convert_pt2e gives behind a calibration, with placeholders for the scales and zero points that
// samples decide and without equalization: what there is to know of its operators before the samples are run.
Program form_of_converted(const Prepared& prepared, const ConvertOptions& options = {});

}  // namespace qdq
