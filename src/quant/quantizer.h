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

// Whose matching rules hold: qdq's own, which do what the user meant, or those of PyTorch 2.6 to the node (docs/compatibility.md).
enum class Compat { kNone, kTorch26 };

using Edge = std::pair<Node*, Node*>;          // producer, consumer
using EdgeOrNode = std::variant<Edge, Node*>;  // a use of a tensor, or a node's output
std::string to_string(const EdgeOrNode& at);   // "(x, conv2d)" or "conv2d"

// The same by names, for settings made before there is a graph; an empty consumer stands for a node's output.
struct NamedEdgeOrNode {
  std::string producer, consumer;
};
// The node of that name. Throws Error{kInvalidArgument} if the graph has none, listing similar names; `where` says who names it.
Node* node_named(const Graph& graph, const std::string& name, const std::string& where);
EdgeOrNode resolve(const Graph& graph, const NamedEdgeOrNode& named, const std::string& where);

// Attributes that are set on one observer, and so on all that share it, before it is put into the graph.
struct ObserverOverride {
  NamedEdgeOrNode at;
  std::vector<std::pair<std::string, AttributeValue>> attributes;
};

// How an observer or fake quantizer is to be constructed: its class by name with settings, or a custom factory.
struct ObserverCtr {
  std::string class_name = "MinMaxObserver";
  double eps = 1.1920928955078125e-07;
  std::optional<double> averaging_constant;
  std::optional<int64_t> bins;
  bool reduce_range = false;
  // FX graph mode's quantized tensor types: integers then go to the ends of the dtype, whatever the limits of the observer.
  QDType qdtype = QDType::kPlain;
  std::string inner_class;                                               // fake quantizers: the observer inside ("MovingAverageMinMaxObserver")
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
  // The spec of the edge from `input` is set, in place if there is one.
  void set_input(Node* input, QSpec spec);
  const QSpec* find_input(const Node* input) const;  // or null
  // Whether it says anything about quantization, or only marks the node as taken (PyTorch's _is_valid_annotation).
  bool is_valid() const { return !input_qspec_map.empty() || !std::holds_alternative<std::monostate>(output_qspec); }

  std::vector<std::pair<Node*, QSpec>> input_qspec_map;  // in insertion order, as a Python dict keeps it
  QSpec output_qspec;
  bool allow_implicit_sharing = true;
  bool annotated = false;  // PyTorch's _annotated
  // PyTorch's _is_output_of_quantized_pattern: X86InductorQuantizer continues quantization behind such a node.
  bool is_output_of_quantized_pattern = false;
  bool in_pattern = false;   // part of a quantized pattern, though none of its own tensors need be quantized
  std::string annotator;     // who wrote it, quantizer and pattern: "XNNPACKQuantizer conv_relu"
  uint64_t id = fresh_id();  // tells a replaced annotation from an edited one; copies keep it

  static uint64_t fresh_id();
};

// What a quantizer decided about one operator. Quantizers write it down where they decide; explain() reads it.
struct Decision {
  std::string quantizer;  // "XNNPACKQuantizer"
  std::string pattern;    // "conv_relu"; empty where it was no matter of a pattern
  bool taken = false;     // annotated, or left alone
  std::string reason;     // in words that follow "because"
};

// node.meta["quantization_annotation"] of every annotated node, and beside it what quantizers decided about all operators.
class Annotations : public std::unordered_map<const Node*, QuantizationAnnotation> {
 public:
  void note(const Node* node, Decision decision);
  // In the order in which they were made; empty if nobody has looked at the node.
  const std::vector<Decision>& decisions(const Node* node) const;
  // How many decisions were made so far, and whether one about the node came later than that.
  size_t num_decisions() const { return num_decisions_; }
  bool decided_since(const Node* node, size_t mark) const;

 private:
  struct Notes {
    std::vector<Decision> decisions;
    size_t last = 0;  // number of the last one among all
  };
  std::unordered_map<const Node*, Notes> notes_;
  size_t num_decisions_ = 0;
};

// A pattern that a quantizer looks for.
struct PatternCapability {
  std::string pattern;  // as decisions and annotations name it
  // Operators in the order in which each reads the one before, with the alternatives at each place: {{"aten.linear.default"}, {...}}.
  std::vector<std::vector<std::string>> operators;
  bool static_quantization = true, dynamic_quantization = false, qat = true;
  std::string note;  // a condition in words
};
struct QuantizationCapabilities {
  std::string quantizer;
  std::vector<PatternCapability> patterns;      // in the order in which they are tried
  std::vector<QuantizationCapabilities> parts;  // of a composed quantizer, in its order
};

class Quantizer {
 public:
  virtual ~Quantizer() = default;
  virtual std::string_view name() const = 0;
  virtual Compat compat() const { return Compat::kNone; }
  // Folds batch norms into the layers in front of them, before all else (not for quantization-aware training). Default: as
  // prepare_pt2e does it, see fold_batch_norms.
  virtual void fold_batch_norms(Program& program);
  // Rewrites before annotation (scalars to tensors). Default: none.
  virtual void transform_for_annotation(Program& program) { (void)program; }
  // Writes annotations; may read those already there. Says by annotations.note() why it takes or refuses an operator; where it says
  // nothing, explain() can only tell that it did or did not annotate it.
  virtual void annotate(Program& program, Annotations& annotations) = 0;
  // Throws Error{kInvalidArgument} if the annotated graph is not what the backend can run. Default: accepts.
  virtual void validate(const Program& program, const Annotations& annotations) {
    (void)program;
    (void)annotations;
  }
  // What it can quantize at all, whatever its settings are. Default: it does not tell.
  virtual QuantizationCapabilities quantization_capabilities() const { return {std::string(name()), {}, {}}; }
  // What of its settings the quantizer could not take, one sentence each. Default: nothing.
  virtual std::vector<std::string> warnings() const { return {}; }
  // Called when all observers exist and none is in the graph yet, one entry for each annotated edge and node, in order
  // (prepare_obs_or_fq_callback); may replace them. Null: nothing is inserted there. Default: makes the observer overrides.
  // Throws Error{kInvalidArgument} for an override of a place that has no observer, or of an attribute that the observer does not have.
  virtual void adjust_observers(const Program& program, std::vector<std::pair<EdgeOrNode, std::shared_ptr<Observer>>>& observers);
  void set_observer_overrides(std::vector<ObserverOverride> overrides) { overrides_ = std::move(overrides); }

 private:
  std::vector<ObserverOverride> overrides_;
};

// Lets the quantizer annotate, and notes for every operator about which it said nothing whether it annotated it.
void annotate_and_note(Quantizer& quantizer, Program& program, Annotations& annotations);

}  // namespace qdq
