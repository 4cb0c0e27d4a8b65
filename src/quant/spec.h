// Quantization specs: how one tensor of a graph is to be quantized, and the places that specs are for, with PyTorch's
// nouns (torch/ao/quantization/quantizer/quantizer.py of PyTorch 2.6).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "graph/graph.h"
#include "quant/observers/observer.h"

namespace qdq {

using Edge = std::pair<Node*, Node*>;          // producer, consumer
using EdgeOrNode = std::variant<Edge, Node*>;  // a use of a tensor, or a node's output
std::string to_string(const EdgeOrNode& at);   // "(x, conv2d)" or "conv2d"

// The same by names, for settings made before there is a graph; an empty consumer stands for a node's output.
struct NamedEdgeOrNode {
  std::string producer, consumer;
};
// The node of that name. Throws Error{kInvalidArgument} if the graph has none, listing similar names; `where` says who
// names it.
Node* node_named(const Graph& graph, const std::string& name, const std::string& where);
EdgeOrNode resolve(const Graph& graph, const NamedEdgeOrNode& named, const std::string& where);

// How an observer or fake quantizer is to be constructed: its class by name with settings, or a custom factory.
struct ObserverCtr {
  std::string class_name = "MinMaxObserver";
  double eps = 1.1920928955078125e-07;
  std::optional<double> averaging_constant;
  std::optional<int64_t> bins;
  int64_t group_size = 0;     // of PerGroup classes: how many neighbours in a row of a weight share a scale
  double percentile = 99.99;  // of PercentileObserver: how many percent of the values its range holds
  bool reduce_range = false;
  bool use_grad_scaling = false;  // of _LearnableFakeQuantize
  // FX graph mode's quantized tensor types: integers then go to the ends of the dtype, whatever the limits of the
  // observer.
  QDType qdtype = QDType::kPlain;
  // fake quantizers: the observer inside ("MovingAverageMinMaxObserver")
  std::string inner_class;
  std::function<std::shared_ptr<Observer>(const ObserverArgs&)> custom;  // used instead of the class, if set
};

// The name of a setting that was changed although the class does not read it; empty if there is none. A `custom` one
// may read all.
std::string_view unread_argument(const ObserverCtr& ctr);

struct QuantizationSpec {
  DType dtype = DType::kS8;
  ObserverCtr observer;
  std::optional<int64_t> quant_min, quant_max;
  std::optional<QScheme> qscheme;
  std::optional<int64_t> ch_axis;
  bool is_dynamic = false;
};
struct SharedQuantizationSpec {
  EdgeOrNode with;
};
struct FixedQParamsQuantizationSpec {
  DType dtype = DType::kU8;
  double scale = 1;
  int64_t zero_point = 0;
  std::optional<int64_t> quant_min, quant_max;
  std::optional<QScheme> qscheme;
};
struct DerivedQuantizationSpec {
  std::vector<EdgeOrNode> derived_from;
  std::function<QParams(const std::vector<std::shared_ptr<Observer>>&)> derive_qparams;
  std::string rule;  // a name for reports: "product_of_scales"
  DType dtype = DType::kS32;
  std::optional<int64_t> quant_min, quant_max;
  std::optional<QScheme> qscheme;
  std::optional<int64_t> ch_axis;
};
// monostate stands for PyTorch's None: this tensor stays float.
using QSpec = std::variant<std::monostate, QuantizationSpec, SharedQuantizationSpec, FixedQParamsQuantizationSpec,
                           DerivedQuantizationSpec>;

// Throws Error{kInvalidArgument} if quant_min > quant_max or ch_axis < 0, naming `where`.
void check_spec(const QSpec& spec, const std::string& where);

// The observer that a spec describes. For training fixed qparams belong to a fake quantizer, else to an observer; a
// derived spec reads the observers of its sources. Throws Error{kInvalidArgument} if no observer can be made so.
std::shared_ptr<Observer> make_observer(const QuantizationSpec& spec);
std::shared_ptr<Observer> make_observer(const FixedQParamsQuantizationSpec& spec, bool is_qat = false);
std::shared_ptr<Observer> make_observer(const DerivedQuantizationSpec& spec,
                                        std::vector<std::shared_ptr<Observer>> sources);

}  // namespace qdq
