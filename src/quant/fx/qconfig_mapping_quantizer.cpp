// prepare_fx in terms of annotations.
#include "quant/fx/qconfig_mapping_quantizer.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "graph/dead_code.h"
#include "op/facts.h"
#include "op/op.h"
#include "op/targets.h"
#include "quant/fx/quantized_calls.h"
#include "quant/fx/torch26.h"

namespace qdq {

namespace {

constexpr std::string_view kName = "QConfigMapping";

constexpr size_t kNone = ~size_t{0};
const std::string kFloat = "float32";

using ObservedInput = std::pair<Node*, size_t>;  // a value, and the observer node that it is read through

constexpr const char* kInteger = "quint8";  // what input_quantized_indexes and output_quantized_indexes speak of
using Dtypes = std::unordered_map<const Node*, std::string>;

// An input of a module by its number, in the order in which it reads them; null: it has fewer.
Node* input_of(const QuantizedCall& call, int64_t index) {
  std::vector<Node*> inputs;
  for (const Argument& argument : call.traced.args)
    argument.for_each_node([&](Node* node) {
      if (std::find(inputs.begin(), inputs.end(), node) == inputs.end()) inputs.push_back(node);
    });
  return index >= 0 && static_cast<size_t>(index) < inputs.size() ? inputs[static_cast<size_t>(index)] : nullptr;
}

// What is known of a node and its value; numbers are those of calls and of observer nodes.
struct Placed {
  size_t call = kNone;
  size_t output = kNone;             // the observer of the value as an output
  std::vector<size_t> for_readers;   // observers that were put behind it for those who read it
  std::vector<ObservedInput> edges;  // of the node's inputs
};

// Puts observers around the calls in their order, as insert_observers_for_model does.
class ObserverPlacement {
 public:
  // `given`: the dtypes of values that come from outside, or out of standalone modules, otherwise than in float.
  ObserverPlacement(const Program& program, const std::vector<QuantizedCall>& calls, const FxRules& rules, Dtypes given)
      : calls_(calls), rules_(rules), given_(std::move(given)) {
    if (rules.observes_constants_by_reader) constants_ = untraced_constants(program);
    for (size_t i = 0; i < calls.size(); ++i)
      for (Node* node : calls[i].traced.nodes) placed_[node].call = i;
    seen_.resize(calls.size());
  }

  // Observes an input of the program that comes as integers as its first reader would.
  void observe_given(Node* value, int64_t index) {
    for (const QuantizedCall& call : calls_) {
      const auto reads = [&](const Argument& argument) {
        bool found = false;
        argument.for_each_node([&](const Node* node) { found = found || node == value; });
        return found;
      };
      const std::vector<Argument>& args = call.traced.args;
      if (!call.is_observed() || !call.is_root || std::none_of(args.begin(), args.end(), reads)) continue;
      if (!call.effective->activation || dtype_of(*call.effective->activation) != kInteger) continue;
      placed_[value].output = insert(*call.effective->activation);
      given_[value] = kInteger;
      return;
    }
    fail(ErrorCode::kInvalidArgument, "input ", index, " ('", value->name(),
         "') cannot come as integers: nothing that reads it is quantized to quint8; leave its index out");
  }

  // The dtypes of values that are observed as outputs.
  Dtypes outputs() const {
    Dtypes out;
    for (const auto& [value, placed] : placed_)
      if (placed.output != kNone) out[value] = dtype_of(*modules_[module_of_[placed.output]]);
    return out;
  }

  void run() {
    for (size_t i = 0; i < calls_.size(); ++i) {
      if (calls_[i].standalone != nullptr) observe_standalone(i);
      if (!calls_[i].is_observed()) continue;
      if (calls_[i].is_root) observe_inputs(i);
      observe_weight(i);
      if (calls_[i].is_last) observe_output(i);
    }
  }

  // The specs, in the order of the graph: the first place of an observer has the spec, the others share it.
  void annotate(Graph& graph, Annotations& annotations) const {
    std::vector<std::optional<EdgeOrNode>> first(modules_.size());
    const auto spec = [&](size_t observer, EdgeOrNode at) -> QSpec {
      std::optional<EdgeOrNode>& known = first[module_of_[observer]];
      if (known) return SharedQuantizationSpec{*known};
      known = at;
      return spec_of(*modules_[module_of_[observer]]);
    };
    for (Node* node : graph.nodes()) {
      const auto placed = placed_.find(node);
      if (placed == placed_.end() || (placed->second.edges.empty() && placed->second.output == kNone)) continue;
      QuantizationAnnotation& annotation = annotations[node];
      annotation.annotated = true;
      annotation.allow_implicit_sharing = false;
      for (const auto& [value, observer] : placed->second.edges)
        annotation.set_input(value, spec(observer, Edge{value, node}));
      if (placed->second.output != kNone) annotation.output_qspec = spec(placed->second.output, node);
    }
  }

 private:
  static std::string dtype_of(const ObserverWithArgs& observer) {
    return observer.class_name == "Identity" ? kFloat : quantized_dtype(observer.settings());
  }

  // In which dtype the producer of a value hands it on.
  std::string dtype_of_output(const Node* value) const {
    if (const auto given = given_.find(value); given != given_.end()) return given->second;
    const auto placed = placed_.find(value);
    if (placed == placed_.end() || placed->second.call == kNone) return kFloat;
    const QConfig* qconfig = calls_[placed->second.call].effective;
    if (qconfig == nullptr || !qconfig->activation ||
        (!rules_.trusts_settings_of_producers && placed->second.output == kNone))
      return kFloat;
    return dtype_of(*qconfig->activation);
  }

  size_t insert(const ObserverWithArgs& observer) {
    modules_.push_back(&observer);
    module_of_.push_back(modules_.size() - 1);
    return module_of_.size() - 1;
  }

  // One observer of a class and dtype serves all that read the value.
  void observe_input(size_t i, Node* value, const ObserverWithArgs& observer, bool is_first) {
    const TensorMeta* meta = value->meta.val.tensor();
    if (meta == nullptr || !is_quantizable(meta->dtype)) return;
    const std::string wanted = dtype_of(observer), given = dtype_of_output(value);
    const bool is_dynamic = observer.settings().is_dynamic;
    if (is_dynamic ? !is_first : wanted == kFloat || wanted == given) return;
    size_t found = kNone;
    for (const size_t known : placed_[value].for_readers) {
      if (constants_.count(value) != 0 && seen(i, value) != known) continue;
      const ObserverWithArgs& other = *modules_[module_of_[known]];
      if (other.class_name == observer.class_name && dtype_of(other) == wanted) found = known;
    }
    if (found == kNone) placed_[value].for_readers.push_back(found = insert(observer));
    seen_[i].emplace_back(value, found);
    for (Node* node : calls_[i].traced.nodes) {
      const std::vector<Node*> inputs = node->input_nodes();
      std::vector<ObservedInput>& edges = placed_[node].edges;
      const auto is_same = [&](const auto& edge) { return edge.first == value; };
      if (std::find(inputs.begin(), inputs.end(), value) != inputs.end() &&
          std::none_of(edges.begin(), edges.end(), is_same))
        edges.emplace_back(value, found);
    }
  }

  // The inputs that the module takes as integers; all else is its own matter.
  void observe_standalone(size_t i) {
    const QuantizedCall& call = calls_[i];
    if (!call.qconfig || !call.qconfig->activation || dtype_of(*call.qconfig->activation) == kFloat) return;
    if (call.standalone->prepare_custom_config)
      for (const int64_t index : call.standalone->prepare_custom_config->input_quantized_indexes)
        if (Node* value = input_of(call, index)) observe_input(i, value, *call.qconfig->activation, false);
    // PyTorch takes its result to be quantized as its own setting says, whatever is inside.
    if (rules_.trusts_settings_of_producers && call.traced.output)
      given_[call.traced.output] = dtype_of(*call.qconfig->activation);
  }

  void observe_inputs(size_t i) {
    const QuantizedCall& call = calls_[i];
    const QConfig& qconfig = *call.effective;
    if (is_reuse_input(qconfig) || !qconfig.activation) return;
    if (!rules_.observes_inputs_of_fixed_ranges && has_fixed_range(*call.pattern)) return;
    const Node* weight = call.argument(&Roles::weight);
    const Node* bias = call.argument(&Roles::bias);
    for (size_t k = 0; k < call.traced.args.size(); ++k)
      call.traced.args[k].for_each_node([&](Node* value) {
        if (value != weight && value != bias)
          observe_input(i, value, *qconfig.activation, k == 0 && !call.traced.args[k].is_list());
      });
  }

  void observe_weight(size_t i) {
    const QuantizedCall& call = calls_[i];
    if (!call.is_root || !call.quantizes_weight() || !call.effective->weight) return;
    std::string broken;
    // Broken constraints are no matter here: prepare_fx takes them, or the call would not be observed.
    if (call.traced.kind == TracedCall::Kind::kModule && !supports(*call.pattern, *call.effective, true, broken) &&
        broken.empty())
      return;
    if (Node* weight = call.argument(&Roles::weight)) return observe_input(i, weight, *call.effective->weight, false);
    // A recurrent layer has several.
    for (const Node* node : call.traced.nodes)
      for (Node* input : node->input_nodes())
        if (const TensorMeta* meta = input->meta.val.tensor();
            input->op() == Node::Op::kGetAttr && meta && meta->sizes.size() == 2)
          observe_input(i, input, *call.effective->weight, false);
  }

  void observe_output(size_t i) {
    const QuantizedCall& call = calls_[i];
    if (!call.effective->activation) return;
    const ObserverWithArgs& observer = *call.effective->activation;
    if (dtype_of(observer) == kFloat || observer.settings().is_dynamic) return;
    Node* value = call.traced.output;
    if (!is_quantizable(value->meta.val.tensor()->dtype)) return;
    const bool reuses = is_reuse_input(*call.effective);
    const Argument* first = call.traced.args.empty() ? nullptr : &call.traced.args[0];
    const bool reads_input =
        first && first->is_node() && first->node()->op() == Node::Op::kPlaceholder && seen(i, first->node()) == kNone;
    if ((!call.shares_input || reads_input) && !reuses) {
      placed_[value].output = insert(observer);
      return;
    }
    const size_t source = first ? observer_of(i, first->is_list() ? first->list()[0].node() : first->node()) : kNone;
    if (source == kNone) return;
    if (first->is_list())
      for (size_t k = 1; k < first->list().size(); ++k) {
        const size_t other = observer_of(i, first->list()[k].node());
        if (other == kNone) return;
        module_of_[other] = module_of_[source];
      }
    module_of_.push_back(module_of_[source]);
    placed_[value].output = module_of_.size() - 1;
  }

  static bool keeps_numbers(const TracedCall& call) {
    return std::all_of(call.nodes.begin(), call.nodes.end(), [](const Node* node) {
      const OpDef* op = find_op(node->target());
      return op && op->roles.shares_qparams;
    });
  }

  size_t seen(size_t i, const Node* value) const {
    for (const auto& [input, observer] : seen_[i])
      if (input == value) return observer;
    return kNone;
  }

  // The observer that a call sees a value through, or the next one on the way up along first arguments.
  size_t observer_of(size_t i, const Node* value) const {
    while (value != nullptr) {
      if (const size_t observer = seen(i, value); observer != kNone) return observer;
      const auto placed = placed_.find(value);
      if (placed == placed_.end()) return kNone;
      if (placed->second.output != kNone) return placed->second.output;
      i = placed->second.call;
      value = nullptr;
      if (i == kNone || (!rules_.shares_through_anything && !keeps_numbers(calls_[i].traced))) return kNone;
      for (const Argument& up : calls_[i].traced.args)
        if (value == nullptr) value = up.node();
    }
    return kNone;
  }

  const std::vector<QuantizedCall>& calls_;
  const FxRules& rules_;
  Dtypes given_;
  std::unordered_set<const Node*> constants_;     // of which every reader has an observer of its own
  std::vector<const ObserverWithArgs*> modules_;  // observer instances
  std::vector<size_t> module_of_;                 // of every observer node; sharing changes it
  std::vector<std::vector<ObservedInput>> seen_;  // by call
  std::unordered_map<const Node*, Placed> placed_;
};

}  // namespace

QConfigMappingQuantizer& QConfigMappingQuantizer::set_filter_function(NodeFilter filter) {
  filter_ = std::move(filter);
  return *this;
}

QConfigMappingQuantizer& QConfigMappingQuantizer::set_prepare_custom_config(PrepareCustomConfig custom) {
  custom_ = std::move(custom);
  return *this;
}

QConfigMappingQuantizer& QConfigMappingQuantizer::set_equalization_config(QConfigMapping mapping) {
  const auto check = [](const OptionalQConfig& qconfig, std::string_view of) {
    const std::string found = qconfig && qconfig->activation ? qconfig->activation->class_name : "";
    QDQ_CHECK(!qconfig || found == default_equalization_qconfig().activation->class_name, kInvalidArgument,
              "the equalization config has a QConfig for ", of, " whose inputs have ", found.empty() ? "none" : found,
              "; wanted default_equalization_qconfig or none");
  };
  check(mapping.global(), "all");
  for (const auto* settings : {&mapping.object_types(), &mapping.module_name_regexes(), &mapping.module_names()})
    for (const QConfigMapping::Setting& s : *settings) check(s.qconfig, s.key);
  for (const QConfigMapping::OrderSetting& s : mapping.module_name_object_type_orders())
    check(s.qconfig, s.object_type);
  equalization_ = std::move(mapping);
  return *this;
}

QuantizedInterface QConfigMappingQuantizer::quantized_interface() const {
  // PyTorch counts output nodes, of which a graph has one for all results.
  return {custom_.input_quantized_indexes, custom_.output_quantized_indexes, compat_ == Compat::kTorch26};
}

QConfigMappingQuantizer& QConfigMappingQuantizer::set_backend_config(BackendConfig backend) {
  backend_ = std::move(backend);
  return *this;
}

void QConfigMappingQuantizer::fold_batch_norms(Program& program) {
  if (!fx_rules(compat_).folds_modules_only) qdq::fold_batch_norms(program, Compat::kNone);
  folded_.clear();
  for (const ConvBn& parts : foldable_batch_norms(program, {mapping_, backend_, custom_, compat_})) {
    folded_.insert(parts.conv);
    fold_batch_norm(program, parts, Compat::kNone);
  }
  eliminate_dead_code(program);
  program.erase_unused_attributes();
}

bool QConfigMappingQuantizer::trains_as_one(const Node& layer, const Node& norm) const {
  return fused_norms_.count(&norm) != 0 || (compat_ == Compat::kNone && Quantizer::trains_as_one(layer, norm));
}

namespace {

// Annotates the program, or the inside of a standalone module. `given` as for ObserverPlacement; returns the dtypes of
// values that are observed as outputs.
Dtypes annotate_calls(Program& program, const FxRequest& request, Dtypes given, Annotations& annotations,
                      std::unordered_set<const Node*>& fused_norms, std::vector<std::string>& unmatched) {
  std::vector<std::string> warnings;
  const std::vector<QuantizedCall> calls = quantized_calls(program, request, warnings);
  unmatched.insert(unmatched.end(), warnings.begin(), warnings.end());
  for (const QuantizedCall& call : calls)
    for (const Node* node : call.traced.nodes)
      if (node != call.traced.nodes[0] && node->is(op::kBatchNorm)) fused_norms.insert(node);
  for (const QuantizedCall& call : calls) {
    if (call.standalone == nullptr) continue;
    QConfigMapping own;
    const FxRequest inside =
        request_inside(request, call, call.qconfig ? OptionalQConfig(*call.qconfig) : OptionalQConfig(), own);
    Dtypes inputs;
    for (const int64_t index : inside.custom.input_quantized_indexes) {
      const Node* value = input_of(call, index);
      QDQ_CHECK(value != nullptr, kInvalidArgument, "the standalone module ", inside.path, " has no input ", index,
                " to come as integers");
      inputs[value] = kInteger;
    }
    for (auto& [value, dtype] : annotate_calls(program, inside, std::move(inputs), annotations, fused_norms, unmatched))
      if (value == call.traced.output) given[value] = dtype;
  }
  ObserverPlacement placement(program, calls, fx_rules(request.compat), std::move(given));
  if (request.key.empty()) {
    const std::vector<Node*> placeholders = program.graph->placeholders();
    for (const int64_t index : request.custom.input_quantized_indexes) {
      QDQ_CHECK(index >= 0 && static_cast<size_t>(index) < placeholders.size(), kInvalidArgument, "there is no input ",
                index, " to come as integers; the program has ", placeholders.size());
      placement.observe_given(placeholders[static_cast<size_t>(index)], index);
    }
  }
  placement.run();
  placement.annotate(*program.graph, annotations);
  for (const QuantizedCall& call : calls)
    for (Node* node : call.traced.nodes) {
      if (call.standalone != nullptr) continue;
      const std::string pattern(call.pattern ? call.pattern->name : "");
      annotations.note(node, {std::string(kName), pattern, call.is_observed(), call.reason});
      if (!call.is_observed()) continue;
      QuantizationAnnotation& annotation = annotations[node];
      annotation.annotated = annotation.in_pattern = true;
      annotation.allow_implicit_sharing = false;
      annotation.annotator = concat(kName, " ", pattern);
    }
  return placement.outputs();
}

// The layers that the mapping of the request gives a QConfig, and whose inputs no other quantized call reads.
std::vector<std::string> layers_of(const Program& program, const FxRequest& request, const Annotations& annotations,
                                   std::vector<std::string>& warnings) {
  std::vector<std::string> out, unmatched;
  constexpr std::string_view kLayers[] = {"conv1d", "conv2d", "conv3d", "linear"};
  for (const QuantizedCall& call : calls_with_settings(program, request, unmatched)) {
    const std::vector<Node*>& nodes = call.traced.nodes;
    if (call.qconfig == nullptr || (nodes.size() != 1 && call.fused_type.empty()) ||
        std::find(std::begin(kLayers), std::end(kLayers), base_name(nodes[0]->target())) == std::end(kLayers))
      continue;
    const auto is_quantized = [&](const Node* user) {
      const auto found = annotations.find(user);
      return std::find(nodes.begin(), nodes.end(), user) == nodes.end() && found != annotations.end() &&
             found->second.annotated;
    };
    const Node* input = nodes[0]->arg(0).node();
    const std::vector<Node*> users = input ? input->users() : std::vector<Node*>();
    if (std::any_of(users.begin(), users.end(), is_quantized))
      warnings.push_back(concat("the input of ", nodes[0]->name(), " is not equalized: it is part of a branch"));
    else out.push_back(nodes[0]->name());
  }
  for (const std::string& warning : unmatched) warnings.push_back(concat("equalization: ", warning));
  return out;
}

}  // namespace

void QConfigMappingQuantizer::annotate(Program& program, Annotations& annotations) {
  const auto passes = [&](const Node& node) {
    const auto found = annotations.find(&node);
    return (found == annotations.end() || !found->second.annotated) && (!filter_ || filter_(node));
  };
  fused_norms_.clear();
  unmatched_.clear();
  if (mapping_.empty() && custom_.standalone_module_names.empty() && custom_.standalone_module_classes.empty())
    unmatched_.push_back("the QConfigMapping has no setting, so that everything stays float; set_global is missing");
  for (std::string& warning : custom_.unmatched(*program.graph)) unmatched_.push_back(std::move(warning));
  const FxRequest request{mapping_, backend_, custom_, compat_, "", "", passes, std::exchange(folded_, {})};
  const FxRequest equalization{equalization_, backend_, custom_, compat_, "", "", filter_, request.has_folded_norm};
  annotate_calls(program, request, {}, annotations, fused_norms_, unmatched_);
  to_equalize_ = layers_of(program, equalization, annotations, unmatched_);
}

void QConfigMappingQuantizer::adjust_observers(
    const Program& program, std::vector<std::pair<EdgeOrNode, std::shared_ptr<Observer>>>& observers) {
  Quantizer::adjust_observers(program, observers);
  if (!fx_rules(compat_).trains_transposed_in_float) return;
  for (const auto& [at, observer] : observers) {
    const Edge* edge = std::get_if<Edge>(&at);
    if (edge != nullptr && observer && is_a(*edge->second, Family::kTransposedConvolution) &&
        edge->first->op() == Node::Op::kGetAttr && edge->second->arg(1).node() == edge->first)
      observer->enable_fake_quant(false);
  }
}

// The patterns of one name and length are one, with all their operators at each place.
QuantizationCapabilities QConfigMappingQuantizer::quantization_capabilities() const {
  QuantizationCapabilities out{std::string(kName), {}, {}};
  for (const BackendPatternConfig& config : backend_.configs) {
    if (config.pattern.type.starts_with("torch.ao.nn.")) continue;  // a fused class; its parts are a pattern
    std::vector<std::string> operators;
    for (const BackendPattern* part = &config.pattern; part != nullptr;) {
      operators.insert(operators.begin(), recorded_name(part->type));
      const BackendPattern* input = nullptr;
      for (const BackendPattern& next : part->inputs)
        if (next.type != "MatchAllNode") input = &next;
      part = input;
    }
    auto same = std::find_if(out.patterns.begin(), out.patterns.end(), [&](const PatternCapability& other) {
      return other.pattern == config.name && other.operators.size() == operators.size();
    });
    if (same == out.patterns.end()) {
      same = out.patterns.insert(out.patterns.end(), {config.name, {}, false, false, true, ""});
      same->operators.resize(operators.size());
    }
    for (size_t i = 0; i < operators.size(); ++i)
      if (std::find(same->operators[i].begin(), same->operators[i].end(), operators[i]) == same->operators[i].end())
        same->operators[i].push_back(operators[i]);
    for (const DTypeConfig& dtypes : config.dtype_configs)
      (dtypes.is_dynamic ? same->dynamic_quantization : same->static_quantization) = true;
    if (operators.size() > 1) same->note = "nobody else reads what is in front of the last";
    if (config.observation_type == ObservationType::kOutputShareObserverWithInput)
      same->note = "output in terms of the first input";
    if (has_fixed_range(config)) same->note = "with a FixedQParamsObserver of the scale and zero point of its range";
  }
  return out;
}

}  // namespace qdq
