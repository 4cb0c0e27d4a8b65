// Quantization specs, annotations and the Quantizer interface, with PyTorch's nouns
// (torch/ao/quantization/quantizer/quantizer.py of PyTorch 2.6).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "graph/program.h"
#include "quant/observer.h"

namespace qdq {

using Edge = std::pair<Node*, Node*>;               // producer, consumer
using EdgeOrNode = std::variant<Edge, Node*>;       // a use of a tensor, or a node's output

// How an observer or fake quantizer is to be constructed: its class by name with settings, or a custom factory.
struct ObserverCtr {
  std::string class_name = "MinMaxObserver";
  double eps = 1.1920928955078125e-07;
  std::optional<double> averaging_constant;
  std::optional<int64_t> bins;
  std::string inner_class;  // fake quantizers: the observer inside ("MovingAverageMinMaxObserver")
  std::function<std::shared_ptr<Observer>(const ObserverArgs&)> custom;  // used instead of the class, if set
};

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
using QSpec = std::variant<std::monostate, QuantizationSpec, SharedQuantizationSpec, FixedQParamsQuantizationSpec, DerivedQuantizationSpec>;

struct QuantizationAnnotation {
  std::vector<std::pair<Node*, QSpec>> input_qspec_map;  // in insertion order, as a Python dict keeps it
  QSpec output_qspec;
  bool allow_implicit_sharing = true;
  bool annotated = false;  // PyTorch's _annotated
  std::string annotator;   // who wrote it: quantizer and pattern, for explain()
};

// node.meta["quantization_annotation"] of every annotated node.
using Annotations = std::unordered_map<const Node*, QuantizationAnnotation>;

class Quantizer {
 public:
  virtual ~Quantizer() = default;
  virtual std::string_view name() const = 0;
  // Rewrites before annotation (scalars to tensors). Default: none.
  virtual void transform_for_annotation(Program& program) { (void)program; }
  // Writes annotations; may read those already there.
  virtual void annotate(Program& program, Annotations& annotations) = 0;
  // Throws Error{kInvalidArgument} if the annotated graph is not what the backend can run. Default: accepts.
  virtual void validate(const Program& program, const Annotations& annotations) { (void)program; (void)annotations; }
};

}  // namespace qdq
