// prepare_fx in terms of annotations.
#include "quant/qconfig_mapping_quantizer.h"

#include <algorithm>
#include <unordered_map>

#include "op/op.h"
#include "quant/quantized_calls.h"

namespace qdq {

namespace {

constexpr std::string_view kName = "QConfigMapping";

// An observer in the graph, behind `value`. Sharing gives several of them one module (the observer instance).
struct Insertion {
  Node* value;
  size_t module;
};

// Puts observers around the calls in their order, as insert_observers_for_model does.
class Placement {
 public:
  Placement(std::vector<QuantizedCall>& calls, bool strict) : calls_(calls), strict_(strict) {
    for (size_t i = 0; i < calls.size(); ++i)
      for (Node* node : calls[i].traced.nodes) producer_[node] = i;
  }

  void run() {
    for (size_t i = 0; i < calls_.size(); ++i) {
      if (!calls_[i].is_observed()) continue;
      if (calls_[i].is_root) observe_inputs(i);
      observe_weight(i);
      if (calls_[i].is_last) observe_output(i);
    }
  }

  // The specs, in the order of the graph: the first place of an observer has the spec, the others share it.
  void annotate(Graph& graph, Annotations& annotations) const {
    std::unordered_map<size_t, EdgeOrNode> first;
    const auto spec = [&](size_t insertion, EdgeOrNode at) -> QSpec {
      const size_t module = insertions_[insertion].module;
      const auto [known, is_new] = first.emplace(module, at);
      return is_new ? spec_of(*modules_[module]) : QSpec(SharedQuantizationSpec{known->second});
    };
    for (Node* node : graph.nodes()) {
      const auto edges = edges_.find(node);
      const auto output = outputs_.find(node);
      if (edges == edges_.end() && output == outputs_.end()) continue;
      QuantizationAnnotation& annotation = annotations[node];
      annotation.allow_implicit_sharing = false;
      annotation.annotated = true;
      if (edges != edges_.end())
        for (const auto& [value, insertion] : edges->second) annotation.set_input(value, spec(insertion, Edge{value, node}));
      if (output != outputs_.end()) annotation.output_qspec = spec(output->second, node);
    }
  }

 private:
  static QuantizedDType dtype_of(const ObserverWithArgs& observer) {
    return observer.class_name == "Identity" ? QuantizedDType::kFloat32 : quantized_dtype(observer.settings());
  }
  static bool is_quantized(QuantizedDType dtype) { return dtype != QuantizedDType::kFloat32 && dtype != QuantizedDType::kAny; }

  // In which dtype the producer of a value hands it on.
  QuantizedDType dtype_of_output(const Node* value) const {
    const auto producer = producer_.find(value);
    const QConfig* qconfig = producer == producer_.end() ? nullptr : calls_[producer->second].effective;
    if (qconfig == nullptr || !qconfig->activation) return QuantizedDType::kFloat32;
    // PyTorch goes by what the setting says, even where the output was not observed in the end.
    if (!strict_ && !outputs_.count(value)) return QuantizedDType::kFloat32;
    return dtype_of(*qconfig->activation);
  }

  size_t insert(Node* value, const ObserverWithArgs& observer) {
    modules_.push_back(&observer);
    insertions_.push_back({value, modules_.size() - 1});
    return insertions_.size() - 1;
  }

  // One observer of a class and dtype serves all that read the value.
  void observe_input(size_t i, Node* value, const ObserverWithArgs& observer, bool is_first) {
    const TensorMeta* meta = value->meta.val.tensor();
    if (meta == nullptr || !is_floating(meta->dtype)) return;
    const QuantizedDType wanted = dtype_of(observer), given = dtype_of_output(value);
    const bool is_dynamic = observer.settings().is_dynamic;
    if (is_dynamic ? !is_first : !is_quantized(wanted) || wanted == given) return;
    std::vector<size_t>& known = inputs_[value];
    const auto same = std::find_if(known.begin(), known.end(), [&](size_t insertion) {
      const ObserverWithArgs& other = *modules_[insertions_[insertion].module];
      return other.class_name == observer.class_name && dtype_of(other) == wanted;
    });
    const size_t insertion = same != known.end() ? *same : insert(value, observer);
    if (same == known.end()) known.push_back(insertion);
    seen_[i].emplace_back(value, insertion);
    for (Node* node : calls_[i].traced.nodes) {
      const std::vector<Node*> inputs = node->input_nodes();
      auto& edges = edges_[node];
      const auto is_same = [&](const auto& edge) { return edge.first == value; };
      if (std::find(inputs.begin(), inputs.end(), value) != inputs.end() && std::none_of(edges.begin(), edges.end(), is_same))
        edges.emplace_back(value, insertion);
    }
  }

  void observe_inputs(size_t i) {
    const QuantizedCall& call = calls_[i];
    const QConfig& qconfig = *call.effective;
    if (is_reuse_input(qconfig) || !qconfig.activation) return;
    // In PyTorch a fixed range is put on the input of sigmoid as well, which cuts off all that is not in 0..1.
    if (!strict_ && call.pattern->fixed_scale != 0) return;
    const Node* weight = call.argument(&Roles::weight);
    const Node* bias = call.argument(&Roles::bias);
    for (size_t k = 0; k < call.traced.args.size(); ++k)
      call.traced.args[k].for_each_node([&](Node* value) {
        if (value != weight && value != bias) observe_input(i, value, *qconfig.activation, k == 0 && !call.traced.args[k].is_list());
      });
  }

  void observe_weight(size_t i) {
    const QuantizedCall& call = calls_[i];
    if (!call.is_root || !call.pattern->has_weight || !call.effective->weight) return;
    if (call.traced.kind == TracedCall::Kind::kModule && !supports(*call.pattern, *call.effective, true)) return;
    if (Node* weight = call.argument(&Roles::weight)) return observe_input(i, weight, *call.effective->weight, false);
    // A recurrent layer has several.
    for (const Node* node : call.traced.nodes)
      for (Node* input : node->input_nodes())
        if (const TensorMeta* meta = input->meta.val.tensor(); input->op() == Node::Op::kGetAttr && meta && meta->sizes.size() == 2)
          observe_input(i, input, *call.effective->weight, false);
  }

  void observe_output(size_t i) {
    QuantizedCall& call = calls_[i];
    if (!call.effective->activation) return;
    const ObserverWithArgs& observer = *call.effective->activation;
    if (!is_quantized(dtype_of(observer)) || observer.settings().is_dynamic) return;
    Node* value = call.traced.output;
    if (!is_floating(value->meta.val.tensor()->dtype)) return;
    const bool reuses = is_reuse_input(*call.effective);
    const Argument* first = call.traced.args.empty() ? nullptr : &call.traced.args[0];
    const bool reads_input = first && first->is_node() && first->node()->op() == Node::Op::kPlaceholder && !seen(i, first->node());
    if ((!call.shares_input || reads_input) && !reuses) {
      outputs_[value] = insert(value, observer);
      return;
    }
    const std::optional<size_t> source = first ? observer_of(i, first->is_list() ? first->list()[0] : *first) : std::nullopt;
    if (!source) return;
    if (first->is_list())
      for (size_t k = 1; k < first->list().size(); ++k) {
        const std::optional<size_t> other = observer_of(i, first->list()[k]);
        if (!other) return;
        insertions_[*other].module = insertions_[*source].module;
      }
    insertions_.push_back({value, insertions_[*source].module});
    outputs_[value] = insertions_.size() - 1;
  }

  const size_t* seen(size_t i, const Node* value) const {
    const auto found = seen_.find(i);
    if (found == seen_.end()) return nullptr;
    for (const auto& [input, insertion] : found->second)
      if (input == value) return &insertion;
    return nullptr;
  }

  // The observer that a call sees an argument through, or the next one on the way up along first arguments.
  std::optional<size_t> observer_of(size_t i, const Argument& argument) const {
    Node* value = argument.node();
    if (value == nullptr) return std::nullopt;
    if (const size_t* insertion = seen(i, value)) return *insertion;
    if (const auto output = outputs_.find(value); output != outputs_.end()) return output->second;
    const auto producer = producer_.find(value);
    if (producer == producer_.end()) return std::nullopt;
    for (const Argument& up : calls_[producer->second].traced.args)
      if (up.is_node()) return observer_of(producer->second, up);
    return std::nullopt;
  }

  std::vector<QuantizedCall>& calls_;
  bool strict_;
  std::unordered_map<const Node*, size_t> producer_;
  std::vector<const ObserverWithArgs*> modules_;
  std::vector<Insertion> insertions_;
  std::unordered_map<const Node*, std::vector<size_t>> inputs_;                   // observers that were put behind a value for its readers
  std::unordered_map<const Node*, size_t> outputs_;                               // observers of values as outputs
  std::unordered_map<size_t, std::vector<std::pair<Node*, size_t>>> seen_;        // by call: its inputs and their observers
  std::unordered_map<const Node*, std::vector<std::pair<Node*, size_t>>> edges_;  // by node
};

}  // namespace

QConfigMappingQuantizer& QConfigMappingQuantizer::set_filter_function(NodeFilter filter) {
  filter_ = std::move(filter);
  return *this;
}

void QConfigMappingQuantizer::fold_batch_norms(Program& program) {
  if (compat_ == Compat::kNone) qdq::fold_batch_norms(program, Compat::kNone);
  for (const ConvBn& parts : foldable_batch_norms(*program.graph, compat_)) fold_batch_norm(program, parts, Compat::kNone);
  program.graph->eliminate_dead_code();
  program.erase_unused_attributes();
}

void QConfigMappingQuantizer::annotate(Program& program, Annotations& annotations) {
  const bool strict = compat_ == Compat::kTorch26;
  std::vector<QuantizedCall> calls = quantized_calls(*program.graph, mapping_, compat_, [&](const Node& node) {
    const auto found = annotations.find(&node);
    return (found == annotations.end() || !found->second.annotated) && (!filter_ || filter_(node));
  });
  Placement placement(calls, strict);
  placement.run();
  placement.annotate(*program.graph, annotations);
  for (const QuantizedCall& call : calls)
    for (Node* node : call.traced.nodes) {
      const std::string pattern(call.pattern ? call.pattern->name : "");
      annotations.note(node, {std::string(kName), pattern, call.is_observed(), call.reason});
      if (!call.is_observed()) continue;
      QuantizationAnnotation& annotation = annotations[node];
      annotation.annotated = annotation.in_pattern = true;
      annotation.allow_implicit_sharing = false;
      annotation.annotator = concat(kName, " ", pattern);
    }
}

QuantizationCapabilities QConfigMappingQuantizer::quantization_capabilities() const {
  QuantizationCapabilities out{std::string(kName), {}, {}};
  for (const auto& [types, pattern] : backend_patterns()) {
    PatternCapability capability{std::string(pattern->name), {types}, false, false, true, ""};
    for (const DTypeConfig& config : pattern->dtype_configs)
      (config.is_dynamic ? capability.dynamic_quantization : capability.static_quantization) = true;
    if (pattern->takes_relu) capability.operators.push_back({"torch.nn.modules.activation.ReLU", "torch.nn.functional.relu"});
    if (pattern->takes_relu) capability.note = "the relu may be missing; nobody else reads what is in front";
    if (pattern->observation == Observation::kShared) capability.note = "output in terms of the first input";
    if (pattern->fixed_scale != 0) capability.note = "with a FixedQParamsObserver of the scale and zero point of its range";
    out.patterns.push_back(std::move(capability));
  }
  return out;
}

}  // namespace qdq
