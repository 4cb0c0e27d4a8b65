// What a prepared program holds, for those who prepare, calibrate, train, recover and convert.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "exec/interpreter.h"
#include "quant/fold_batch_norm.h"
#include "quant/input_equalization.h"
#include "quant/layer_statistics.h"
#include "quant/observers/observer_statistics.h"
#include "quant/pt2e.h"
#include "quant/qat_conv_bn.h"

namespace qdq {

// Whether convert_pt2e makes integers of what such an observer sees, by one scale that it knows then.
inline bool quantizes_statically(const Observer& observer) {
  const DType dtype = observer.args().dtype;
  return !observer.args().is_dynamic && (dtype == DType::kU8 || dtype == DType::kS8 || dtype == DType::kU16 ||
                                         dtype == DType::kS16 || dtype == DType::kS32);
}

// Whether convert_pt2e rounds what such an observer sees to floats of 16 bits. PyTorch leaves out bfloat16.
inline bool rounds_to_half(const Observer& observer, Compat compat) {
  const DType dtype = observer.args().dtype;
  return dtype == DType::kF16 || (dtype == DType::kBF16 && compat == Compat::kNone);
}

struct Prepared::Impl {
  Program program;
  Annotations annotations;
  Compat compat = Compat::kNone;
  bool hides_masks = false;  // of any size; else of those that PyTorch cannot observe
  std::vector<ObserverGroup> groups;
  std::vector<std::string> warnings;                // the quantizer's, and calibration's
  QuantizedInterface interface;                     // the quantizer's
  std::vector<EqualizedLayer> equalized;            // those that convert equalizes
  bool is_qat = false;                              // made by prepare_qat_pt2e
  std::vector<QatConvBn> conv_bns;                  // what was rewritten for training
  Graph replaced;                                   // batch norms that annotations name, and the program has no more
  std::optional<bool> training;                     // the form that it was last moved to; none: as it was prepared
  int64_t revision = 0;                             // changes with the graph, between training and inference
  std::unordered_map<std::string, size_t> modules;  // target of a call_module node -> its group
  // node name in the float graph -> last part of its module's path
  std::unordered_map<std::string, std::string> scopes;
  std::unordered_set<const Observer*> of_constants;  // see one constant only; one look is enough
  // What weights and biases were before recovery of accuracy changed them for the sake of better integers.
  std::unordered_map<std::string, Tensor> float_constants;
  std::vector<std::string> unreached;  // values whose observers recovery took away, for no data had come
  // What the buffers that runs change were before calibration ran, by name; empty if it is trained.
  std::unordered_map<std::string, Tensor> state_before;
  // Of convolutions that a batch norm was folded into, by the node's name: what their values are like.
  std::unordered_map<std::string, ChannelNormals> normals;
  std::vector<LayerStatistics> layers;  // observed, or loaded
  Interpreter::NodeHook node_hook;      // of calibration; empty: nobody observes layers
  std::unique_ptr<OpBackend> own_backend;
  std::vector<OpBackend*> backends;
  Program calibrated;  // what calibration runs
  // Of `calibrated`: a cache of packed weights, made at a run and freed by whoever needs the memory.
  mutable std::unique_ptr<Interpreter> interpreter;
  // The observers in it that see a value right after they saw it unclamped (as XNNPACK's around hardtanh do), and the
  // bounds:
  //   x -> observer -> hardtanh -> the same observer
  std::unordered_map<const Node*, FloatRange> clamps;
  int64_t looks = 0, looks_done = 0;        // of observers at values of one batch
  const OnObserved* on_observed = nullptr;  // while a batch runs, if somebody wants to know
  bool is_running = false;
  int64_t samples_before = 0, samples = 0;  // shown before the newest batch, and in it
  bool is_told_of_masks = false;

  // Throws Error{kInvalidArgument} while a batch runs: a callback must not take away what it runs on.
  void check_idle() const {
    QDQ_CHECK(!is_running, kInvalidArgument,
              "the prepared program is running; run() must return before it runs again, is changed or is converted");
  }

  static Prepared prepare(Program program, Quantizer& quantizer, std::vector<OpBackend*> backends, bool is_qat);
  // A copy to try changes on: a graph of its own, and the observers of `prepared` until set_range() exchanges them. It
  // has no annotations and borrows the backends.
  static Prepared copy_to_try(const Prepared& prepared);
  static Impl& of(Prepared& prepared) { return *prepared.impl_; }
  static const Impl& of(const Prepared& prepared) { return *prepared.impl_; }

  // The group of an observer's call_module node; nothing for other nodes.
  std::optional<size_t> group_of_module(const Node& node) const;
  // Whether observers()[index] would need data for the qparams that convert_pt2e asks of it, and none has come.
  bool is_unseen(size_t index) const;
  // Whether calibration has shown any such observer data; never in training.
  bool has_seen_data() const;
  // Whether set_range takes observers()[index].
  bool takes_range(size_t index) const;
  void make_interpreter();
  // The values without the scores that a mask hides, for observers that are not to see these (masks.h).
  std::optional<Tensor> hide_mask(const Node& observed, const Tensor& values, const FloatRange& range) const;
  void warn_of_masks(const Node& observed, const Tensor& values, const FloatRange& range);
  // Lets the observers that see nothing but constants see them: one look is enough.
  void observe_constants();
};

}  // namespace qdq
