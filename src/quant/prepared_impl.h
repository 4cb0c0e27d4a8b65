// What a prepared program holds; shared by prepare.cpp and convert.cpp, nobody else's business.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "quant/observer_statistics.h"
#include "quant/pt2e.h"
#include "quant/qat_conv_bn.h"

namespace qdq {

// Whether convert_pt2e makes integers of what such an observer sees, by one scale that it knows then.
inline bool quantizes_statically(const Observer& observer) {
  const DType dtype = observer.args().dtype;
  return !observer.args().is_dynamic &&
         (dtype == DType::kU8 || dtype == DType::kS8 || dtype == DType::kU16 || dtype == DType::kS16 || dtype == DType::kS32);
}

struct Prepared::Impl {
  Program program;
  Annotations annotations;
  Compat compat = Compat::kNone;
  std::vector<ObserverGroup> groups;
  bool is_qat = false;                                  // made by prepare_qat_pt2e
  std::vector<QatConvBn> conv_bns;                      // what was rewritten for training
  int64_t revision = 0;                                 // changes with the graph, between training and inference
  std::unordered_map<std::string, size_t> modules;      // target of a call_module node -> its group
  std::unordered_map<std::string, std::string> scopes;  // node name in the float graph -> last part of its module's path
  std::unordered_set<const Observer*> of_constants;     // see one constant only; one look is enough
  bool constants_observed = false;
  std::unique_ptr<Backend> own_backend;
  std::vector<Backend*> backends;
  Program calibrated;                        // what calibration runs
  std::unique_ptr<Interpreter> interpreter;  // of `calibrated`, made at the first run
  // The observers in it that see a value right after it, clamped (as XNNPACK's around hardtanh do), and the bounds:
  //   x -> observer -> hardtanh -> the same observer
  std::unordered_map<const Node*, FloatRange> clamps;
  int64_t looks = 0, looks_done = 0;        // of observers at values of one batch
  const OnObserved* on_observed = nullptr;  // while a batch runs, if somebody wants to know

  static Prepared prepare(Program program, Quantizer& quantizer, std::vector<Backend*> backends, bool is_qat);
  // Its own of a prepared program, for those who prepare, train and convert.
  static Impl& of(const Prepared& prepared) { return *prepared.impl_; }

  // The group of an observer's call_module node; nothing for other nodes.
  std::optional<size_t> group_of_module(const Node& node) const;
  void make_interpreter();
  // Lets the observers of constants see them, once.
  void observe_constants();
};

}  // namespace qdq
