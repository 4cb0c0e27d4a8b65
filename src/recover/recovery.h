// The remedies that recover accuracy, and what they share: a calibrated program, its samples, and a measure of each
// change.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "quant/pt2e.h"
#include "recover/output_error.h"
#include "recover/simulation.h"

namespace qdq {

using Batch = std::vector<Tensor>;

// Called between pieces of work, each well below a second, with the current stage and its progress from 0 to 1. An
// exception from it ends the work.
using OnRecovering = std::function<void(const std::string& remedy, double done)>;

// The gain of a remedy.
struct RemedyResult {
  // "weight scales", "inputs", "equalization", "shifts", "ranges", "sums", "outputs", "rounding" or "bias correction"
  std::string remedy;
  int64_t changes = 0;           // places; 0: it did not help and was not kept
  double before = 0, after = 0;  // Recovery::decibels
};

class Recovery;

// What a remedy notes of the float program's values on the samples.
class Watcher {
 public:
  virtual ~Watcher() = default;
  virtual void see(const Node& node, const Tensor& value) = 0;
};

// One of the remedy for the program as it is; null if it has nothing to see.
using MakeWatcher = std::unique_ptr<Watcher> (*)(Recovery&);
std::unique_ptr<Watcher> watch_inputs(Recovery& recovery);
std::unique_ptr<Watcher> watch_to_equalize(Recovery& recovery);
std::unique_ptr<Watcher> watch_to_shift(Recovery& recovery);
std::unique_ptr<Watcher> watch_for_ranges(Recovery& recovery);
std::unique_ptr<Watcher> watch_to_correct(Recovery& recovery);

// What the constructor of Recovery checks of a program, calibrated or not: throws Error{kInvalidArgument} if it was
// prepared for training, or its recipe equalizes inputs.
void check_recoverable(const Prepared& prepared);

// A prepared program with the samples that judge it. The float outputs are computed once.
class Recovery {
 public:
  // What follows: remedies, whose watchers then see the run that gives the float outputs, or measures alone.
  enum class Then { kRemedies, kMeasures };
  // `prepared` must outlive this. Throws Error{kNotCalibrated} if it needs data first, Error{kInvalidArgument} if there
  // are no batches, what check_recoverable does, and what a run throws for batches that do not fit.
  Recovery(Prepared& prepared, std::vector<Batch> batches, OnRecovering on_recovering = {},
           Then then = Then::kMeasures);

  // Values that "sums" leaves rounded whatever they cost, as a runtime computes layers in integers only with them.
  void keep_rounded(std::function<bool(const Node& value)> keeps) { keeps_ = std::move(keeps); }
  bool keeps_rounded(const Node& value) const { return keeps_ && keeps_(value); }

  // Applies the next of the remedies below: weight scales, inputs, equalization, shifts, ranges, sums, outputs,
  // rounding, bias correction. Each is kept if it helps. If sums are, those from inputs on are tried once more: what
  // they gain may have been hidden by the noise of the sums. Those that learn from samples are rehearsed (class
  // Rehearsal) before they are kept. Nothing if all remedies were tried. If `on_recovering` throws, the prepared
  // program is as it was before this call.
  std::optional<RemedyResult> next();

  Prepared& prepared() { return prepared_; }
  const std::vector<Batch>& batches() const { return batches_; }
  const std::vector<std::vector<Tensor>>& outputs() const { return outputs_; }  // of the float program, by batch
  // The same by which programs are judged, and what a run of the simulation has for them (judged_outputs.h); and what
  // of a run is the program's own.
  const std::vector<std::vector<Tensor>>& judged() const { return judged_; }
  std::vector<Tensor> judged(std::vector<Tensor> of_run) const;
  std::vector<std::vector<Tensor>> own_outputs(std::vector<std::vector<Tensor>> of_runs) const;
  int64_t num_samples() const;  // of all batches, along the first axis of the first input
  // Whether it is part of a rehearsal, which judges by other samples what a remedy learns from these.
  bool is_rehearsal() const { return is_rehearsal_; }
  Simulation& simulation();
  // The float program; asked for before weights or biases change.
  const FloatProgram& floats();
  // After a remedy has changed the nodes of the prepared program.
  void forget_simulation() noexcept;
  // The same where observers alone have changed: what layers of the float program give stays known.
  void forget_rounding() noexcept;
  // A watcher that has seen all samples. The watchers of the remedies behind it look on and are kept for these, until
  // the program changes.
  std::unique_ptr<Watcher> watched(MakeWatcher make);
  // One that has looked on while others ran; null if none has since the program changed.
  std::unique_ptr<Watcher> kept(MakeWatcher make);
  // After a remedy has changed what the float program computes inside.
  void forget_watchers() noexcept { watchers_.clear(); }
  // Some of the batches, spread over all, with about `samples` samples: enough for what is measured layer by layer.
  std::vector<const Batch*> some_batches(int64_t samples) const;
  // About how many samples may be under way at once for their values to take so many bytes.
  int64_t samples_within(uint64_t bytes) const;
  // OutputError of the program as it now is, on all batches, or on some_batches(samples). No batch is measured again
  // before something changes.
  OutputError error(int64_t samples);
  double decibels();
  double decibels(int64_t samples);
  // What was measured of the program as it now is, by batch; and for one that is known to give the same.
  using Errors = std::map<const Batch*, OutputError>;
  const Errors& errors() const { return errors_; }
  void set_errors(Errors errors);
  // Whether decibels() and simulation() round weights of few integers, as they do at first: what activations need shows
  // best beside float weights, which the remedy "rounding" comes near to.
  void set_rounding_to_few(bool rounds);
  void tell(const std::string& remedy, double done);
  void tell_again();  // what was told last, between pieces of the same work

 private:
  friend class Rehearsal;

  // Of a rehearsal: with the float outputs of these batches, by which programs are judged.
  Recovery(Prepared& prepared, std::vector<Batch> batches, std::vector<std::vector<Tensor>> judged,
           OnRecovering on_recovering);

  Prepared& prepared_;
  std::vector<Batch> batches_;
  std::vector<std::vector<Tensor>> outputs_, judged_;  // of the float program
  std::unique_ptr<Simulation> simulation_;
  std::unique_ptr<FloatProgram> floats_;
  std::map<MakeWatcher, std::unique_ptr<Watcher>> watchers_;  // for remedies to come
  bool rounds_to_few_ = true;
  size_t next_remedy_ = 0;
  bool has_started_again_ = false;  // behind sums in float
  std::optional<double> decibels_;  // behind the last remedy
  Errors errors_, errors_before_;   // of this version of the simulation, and behind the last remedy
  uint64_t measured_version_ = 0;
  bool is_rehearsal_ = false;
  std::vector<bool> outputs_that_compare_;  // judged_outputs.h
  OnRecovering on_recovering_;
  std::function<bool(const Node& value)> keeps_;
  std::string told_ = "weight scales";
  double told_done_ = 0;
};

// Whether what a remedy learns from two thirds of the samples takes the outputs for the last third nearer. Made before
// the remedy changes the program, and asked once its outputs have gained, since a rehearsal takes longer than a remedy.
class Rehearsal {
 public:
  // Of fewer than 64 samples of a classifier each third is kept back once, whatever the remedy. Of more samples, or of
  // outputs at many places, one third is, and only for remedies that are rehearsed always.
  enum class When { kFewSamples, kAlways };
  Rehearsal(Recovery& recovery, int64_t (*remedy)(Recovery&), When when);

  // True for a recovery that is part of a rehearsal itself, and for samples that cannot be divided.
  bool succeeds();

 private:
  Recovery& recovery_;
  int64_t (*remedy_)(Recovery&);
  size_t parts_ = 0;  // that are kept back
  std::optional<Prepared> before_;
};

// Whether some output has values at many places of a sample: boxes, pixels, tokens. The one answer of a classifier
// tells too little of a sample to choose among many integers by it.
bool answers_at_places(const Program& program);

// Why an operator whose observers a remedy takes out stays in float, for explain().
constexpr const char* kLeftInFloat = "recovery left its values in float, which brings the outputs nearer";

// The remedies. Each changes the prepared program and returns how many places; 0 if the outputs did not come nearer to
// the float ones and nothing changed.

// Lets the scales of weights go below the recipe's eps (2^-12 in XNNPACK's and X86's recipes, as in PyTorch). That eps
// erases weights that were folded with a batch norm of large variance.
int64_t free_weight_scales(Recovery& recovery);

// Subtracts an offset from each channel of the values in front of the first layers, and multiplies it by a scale, where
// no norm makes them and one range for all would leave half of the integers unused (geometric mean over the channels):
// columns of a table, the axes of a sensor, embeddings beside numbers. Both are float operators that the program gets;
// the layers that alone read the value take up the scales in their weights and the offsets in their biases, as in
// equalize() and shift_channels(). Other values in front of the first layers are not rounded then. Nothing if the
// recipe has integers come in. Kept if the outputs are below 20 dB and gain 6 dB.
int64_t scale_inputs(Recovery& recovery);

// Gives a part of what the channels of a layer or norm differ by to the layers that alone read it, through activations,
// pools, views, attention, sums, concatenations and splits that do not mind: the one's rows are divided, the others'
// columns multiplied (cross-layer equalization; SmoothQuant where the first is a layer norm or RMS norm). The factor of
// a channel is range^alpha / weight^(1 - alpha), of the largest value on the samples and of the largest weight that
// reads it; alpha is the one of 0.25, 0.5, 0.75 and 1 that leaves the smallest error behind the layers on 16 samples,
// every channel's counted the same, or nothing changes. A channel that a clamp (ReLU6) cuts on the samples, or that
// something else needs as it is, keeps its size, and the others stay within the clamp. Queries and keys, over whose
// channels a product sums, come to one size, channel by channel. What the float program computes on the samples stays
// the same but for its rounding. Kept if the outputs gain 1 dB.
int64_t equalize(Recovery& recovery);

// Subtracts an offset from the bias of a layer or layer norm for each channel, and adds what it weighs to the biases of
// the layers that alone read these values, at most behind one clamp (ReLU, ReLU6); a layer without a bias gets one. A
// channel behind a clamp that stays above its lower bound on the samples comes down to it (absorption of high biases,
// Nagel et al. 2019, Data-Free Quantization, with what the samples show in place of a normal distribution); one without
// a clamp comes to the middle of its range (Wei et al. 2023, Outlier Suppression+). Changes a value only if its range
// becomes less than 0.8 times as wide. Convolutions with padding take no offset, as they read zeros beside the values.
// What the float program computes on the samples stays the same but for its rounding. Kept if the outputs gain 1 dB.
int64_t shift_channels(Recovery& recovery);

// Removes the observers behind the last layers that multiply (convolutions, linear layers, matrix products). The rest,
// such as a pool, a concatenation of boxes and scores, or a softmax, then runs in float on unrounded values.
int64_t release_outputs(Recovery& recovery);

// Removes the observers that no layer (convolution, linear layer, matrix product) reads, if the outputs are below 30 dB
// and gain 3 dB: those of residual sums with a few channels far larger than the others, and of the inputs of layer
// norms. It starts with the observers whose channels lose most, and removes as many as come within 0.5 dB of removing
// all.
int64_t release_sums(Recovery& recovery);

// Gives each observer of activations the range that serves the outputs best. Candidates are the range of its class, the
// whole range, the range of least squared error, and ranges without 1e-5 to 2e-3 of the values (range_histogram.h),
// each limited to what the clamp behind it lets through. The result of the operator behind the observer on 16 samples
// ranks the candidates. The outputs for 32 samples decide between this choice and one rule for all; where they differ
// most, they decide observer by observer, in the order of the graph. Uses fewer samples if more would need over 1 GB.
int64_t choose_ranges(Recovery& recovery);

// Rounds weights of 5 bits or fewer for what layers make of them, not each to the nearest: layer after layer, each on
// what those before it give, the integers q of a row that give the smallest sum of (w x - q s x')^2 over places of the
// samples, where x is what the float layer reads and x' what this one does (Nagel et al. 2020, Up or Down?; Frantar et
// al. 2022, GPTQ, have x = x'). Every weight in turn takes the integer that is best beside the others, first in one
// pass that hands each error on, then until none changes; the mean square of x' holds them near w. Each channel, or the
// whole weight, gets the scale between 0.4 and 1 of the whole range's that serves it best. Where the layer has a bias
// of its own it takes back the mean error. Transposed convolutions, and weights that several layers read, stay as they
// are. If an output has three or more axes, weights of more bits are rounded so, too, where the samples have 100 places
// or more for each number that a row reads; of fewer they would learn the samples.
int64_t round_weights(Recovery& recovery);

// Shifts the bias of every quantized layer so that each channel has the float layer's mean on the samples, behind the
// activation if one follows: layer by layer, each behind corrected ones. A layer without a bias gets one. A layer with
// fewer than 8 values per channel on all samples does not change. Uses as many samples as fit into 1 GB together with
// the values between two layers.
int64_t correct_biases(Recovery& recovery);

// A sentence for the outputs of a calibrated program, or values that outputs are selected by (judged_outputs.h), below
// 10 dB in int8, or 20 if an additive mask is rounded, and for each with lost channels (lost_channels.h), judged by all
// batches together, with a remedy: another one if it `is_recovered` already. None for a program that was prepared for
// training, has inputs to be equalized, or has operators that qdq does not have.
std::vector<std::string> lost_outputs(Prepared& prepared, const std::vector<Batch>& batches, bool is_recovered = false);

// All remedies, one after another; `on_remedy`, if given, gets each result at once. The same samples give the same
// bytes in every build, with any number of threads.
std::vector<RemedyResult> recover(Prepared& prepared, std::vector<Batch> batches,
                                  const std::function<void(const RemedyResult&)>& on_remedy = {},
                                  OnRecovering on_recovering = {});

}  // namespace qdq
