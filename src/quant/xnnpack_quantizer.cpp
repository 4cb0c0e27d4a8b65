// XNNPACKQuantizer's patterns and the order in which they are tried.
#include "quant/xnnpack_quantizer.h"

#include <algorithm>
#include <cmath>

#include "quant/fold_batch_norm.h"
#include "quant/sharing.h"

namespace qdq {

namespace {

constexpr double kHistcBound = 3.4028235e15;  // PyTorch's histc fails for larger values

bool is_relu(const Node& node) { return node.is("torch.ops.aten.relu.default") || node.is("torch.ops.aten.relu_.default"); }
bool is_linear(const Node& node) { return node.is("torch.ops.aten.linear.default"); }
bool is_add(const Node& node) { return node.is("torch.ops.aten.add.Tensor") || node.is("torch.ops.aten.add_.Tensor"); }
bool is_mul(const Node& node) { return node.is("torch.ops.aten.mul.Tensor") || node.is("torch.ops.aten.mul_.Tensor"); }

// Operators whose output takes over the observer of their input (_is_share_obs_or_fq_op).
bool keeps_numbers(const Node& node) {
  static constexpr std::string_view kTargets[] = {"torch.ops.aten.relu.default",
                                                  "torch.ops.aten.hardtanh.default",
                                                  "torch.ops.aten.hardtanh_.default",
                                                  "torch.ops.aten.max_pool2d.default",
                                                  "torch.ops.aten.mean.default",
                                                  "torch.ops.aten.mean.dim",
                                                  "torch.ops.aten.permute.default",
                                                  "torch.ops.aten.permute_copy.default",
                                                  "torch.ops.aten.squeeze.dim",
                                                  "torch.ops.aten.squeeze_copy.dim",
                                                  "torch.ops.aten.adaptive_avg_pool2d.default",
                                                  "torch.ops.aten.view_copy.default",
                                                  "torch.ops.aten.view.default",
                                                  "torch.ops.aten.slice_copy.Tensor",
                                                  "torch.ops.aten.flatten.using_ints"};
  return std::any_of(std::begin(kTargets), std::end(kTargets), [&](std::string_view target) { return node.is(target); });
}

const std::string kName = "XNNPACKQuantizer";

// Annotates a program under one setting.
class Annotator {
 public:
  // `setting` names the setting in reasons: "the global setting". Annotations with an id up to `began` are those of other quantizers.
  Annotator(Program& program, Annotations& annotations, const QuantizationConfig& config, NodeFilter filter, Compat compat, std::string setting,
            uint64_t began)
      : program_(program), graph_(*program.graph), annotations_(annotations), config_(config), filter_(std::move(filter)), compat_(compat),
        setting_(std::move(setting)), began_(began) {}

  void annotate_static() {
    if (config_.is_qat) {
      conv_bn(is_conv, true);
      conv_bn(is_conv, false);
      conv_bn(is_conv_transpose, true);
      conv_bn(is_conv_transpose, false);
    }
    weighted_relu(is_linear, "linear_relu");
    linear();
    weighted_relu(is_conv, "conv_relu");
    conv();
    weighted_relu(is_conv_transpose, "conv_transpose_relu");
    adaptive_avg_pool2d();
    gru_io_only();
    binary_relu(is_add, "add_relu");
    binary(is_add, "add");
    binary_relu(is_mul, "mul_relu");
    binary(is_mul, "mul");
    cat();
  }

  void annotate_dynamic() { linear(); }

 private:
  bool strict() const { return compat_ == Compat::kTorch26; }
  bool passes(const Node* node) const { return !filter_ || filter_(*node); }

  // An annotation of the node, with the reason for it.
  QuantizationAnnotation& write(Node* node, const char* pattern, std::string reason) {
    QuantizationAnnotation annotation;
    annotation.annotated = true;
    annotation.annotator = concat(kName, " ", pattern);
    annotations_.note(node, {kName, pattern, true, std::move(reason)});
    return annotations_[node] = std::move(annotation);
  }
  void refuse(const Node* node, const char* pattern, std::string reason) { annotations_.note(node, {kName, pattern, false, std::move(reason)}); }
  // What has to be said when a setting takes an operator.
  std::string asked() const { return setting_ + (config_.is_dynamic() ? " asks for it, with qparams chosen at run time" : " asks for it"); }

  // Whether the pattern does not apply: to its operators, or to the weight and bias nodes that PyTorch counts as members of it. Nothing
  // is noted for operators that the setting does not reach, or that this quantizer has taken with an earlier pattern.
  bool skip(const char* pattern, const std::vector<Node*>& operators, const std::vector<Node*>& parameters) {
    const auto within = [&](const Node* n) { return passes(n); };
    const auto out_of_reach = std::find_if_not(operators.begin(), operators.end(), within);
    if (out_of_reach != operators.end()) {
      for (const Node* node : operators)
        if (passes(node)) refuse(node, pattern, concat(setting_, " does not reach ", (*out_of_reach)->name(), ", which belongs to the pattern"));
      return true;
    }
    for (Node* taken : operators) {
      if (!is_annotated(annotations_, {taken})) continue;
      const QuantizationAnnotation& annotation = annotations_.at(taken);
      for (const Node* node : operators)
        if (annotation.id <= began_)
          refuse(node, pattern,
                 concat(node == taken ? "it" : taken->name() + ", which belongs to the pattern,", " is already annotated by ", annotation.annotator));
      return true;
    }
    if (!strict()) return false;
    for (Node* parameter : parameters) {
      if (!parameter) continue;
      const bool is_taken = is_annotated(annotations_, {parameter});
      if (!is_taken && passes(parameter)) continue;
      if (is_taken)
        refuse(operators.back(), pattern,
               concat("its parameter ", parameter->name(), " already belongs to another call, and PyTorch 2.6 does not ",
                      "quantize it twice; without compat torch-2.6 it does not matter"));
      else
        refuse(operators.back(), pattern,
               concat(setting_, " does not reach its parameter ", parameter->name(), ", which belongs to no module, and ",
                      "PyTorch 2.6 looks at it too; without compat torch-2.6 the operator alone counts"));
      return true;
    }
    return false;
  }

  void set_weighted_inputs(QuantizationAnnotation& annotation, const Node* node) const {
    annotation.set_input(node->arg(0).node(), config_.input_qspec());
    annotation.set_input(node->arg(1).node(), config_.weight_qspec());
    if (Node* bias = node->arg(2).node()) annotation.set_input(bias, config_.bias_qspec());
  }

  // Whether others than the relu read the node, so that its own value is needed and the two cannot be one.
  bool read_by_others(const Node* node, const Node* relu, const char* pattern) {
    if (node->users().size() <= 1) return false;
    if (passes(relu)) refuse(relu, pattern, concat("others read ", node->name(), " too, so the two are not computed together"));
    return true;
  }

  // {conv, linear} -> relu
  void weighted_relu(bool (*is_weighted)(const Node&), const char* pattern) {
    for (Node* relu : graph_.nodes()) {
      Node* node = is_relu(*relu) ? relu->arg(0).node() : nullptr;
      if (node == nullptr || !is_weighted(*node) || !node->arg(1).node()) continue;
      if (read_by_others(node, relu, pattern)) continue;
      const std::vector<Node*> parameters = {node->arg(1).node(), node->arg(2).node()};
      if (skip(pattern, {relu, node}, parameters)) continue;
      set_weighted_inputs(write(node, pattern, concat(asked(), ", together with ", relu->name())), node);
      write(relu, pattern, concat("it is computed together with ", node->name())).output_qspec = config_.output_qspec();
      mark_annotated(annotations_, parameters);
    }
  }

  void conv() {
    for (Node* node : graph_.nodes()) {
      if (!is_conv(*node) || !node->arg(1).node()) continue;
      const std::vector<Node*> parameters = {node->arg(1).node(), node->arg(2).node()};
      if (skip("conv", {node}, parameters)) continue;
      QuantizationAnnotation& annotation = write(node, "conv", asked());
      set_weighted_inputs(annotation, node);
      annotation.output_qspec = config_.output_qspec();
      mark_annotated(annotations_, parameters);
    }
  }

  // PyTorch looks at the linear alone here, neither at its weight's mark nor at its filter.
  void linear() {
    for (Node* node : graph_.nodes()) {
      if (!is_linear(*node) || !node->arg(1).node() || skip("linear", {node}, {})) continue;
      QuantizationAnnotation& annotation = annotations_[node];
      set_weighted_inputs(annotation, node);
      annotation.output_qspec = config_.output_qspec();
      annotation.annotator = kName + " linear";
      annotations_.note(node, {kName, "linear", true, asked()});
      mark_annotated(annotations_, {node, node->arg(1).node(), node->arg(2).node()});
    }
  }

  // conv -> batch_norm in training form (-> relu); in PTQ they are folded before.
  void conv_bn(bool (*is_weighted)(const Node&), bool has_relu) {
    for (Node* norm : graph_.nodes()) {
      if (!norm->is("torch.ops.aten.batch_norm.default")) continue;
      Node* node = norm->arg(0).node();
      if (node == nullptr || !is_weighted(*node) || node->users().size() != 1 || !node->arg(1).node()) continue;
      Node* output = norm;
      if (has_relu) {
        if (norm->users().size() != 1 || !is_relu(*norm->users()[0])) continue;
        output = norm->users()[0];
      }
      const std::vector<Node*> parameters = {node->arg(1).node(), node->arg(2).node()};
      if (skip("conv_bn", {node}, parameters)) continue;
      set_weighted_inputs(write(node, "conv_bn", concat(asked(), ", together with ", norm->name())), node);
      write(output, "conv_bn", concat("it is computed together with ", node->name())).output_qspec = config_.output_qspec();
      mark_annotated(annotations_, parameters);
    }
  }

  bool is_large_scalar(const Node& node) const {
    if (node.op() != Node::Op::kGetAttr) return false;
    const Tensor& tensor = program_.attribute_of(node);
    return tensor.numel() == 1 && std::fabs(tensor.item()) > kHistcBound;
  }

  // Fills the inputs of add or mul; false, with the reason noted, if an operand cannot be observed.
  bool set_operands(QuantizationAnnotation& annotation, const Node* node, const char* pattern) {
    for (size_t i = 0; i < 2; ++i) {
      Node* operand = node->arg(i).node();
      if (operand == nullptr) continue;
      const TensorMeta* meta = operand->meta.val.tensor();
      const bool is_float = meta != nullptr && meta->dtype == DType::kF32;
      if (is_large_scalar(*operand) || !is_float) {
        const std::string what = meta ? concat("is ", to_string(meta->dtype)) : std::string("is no tensor");
        refuse(
            node, pattern,
            concat("its operand ", operand->name(),
                   is_float ? concat(" is too large to observe (above ", kHistcBound, ")") : concat(" ", what, ", and only float32 is quantized")));
        return false;
      }
      annotation.set_input(operand, config_.input_qspec());
    }
    return true;
  }

  void binary(bool (*is_binary)(const Node&), const char* pattern) {
    for (Node* node : graph_.nodes()) {
      if (!is_binary(*node) || skip(pattern, {node}, {})) continue;
      QuantizationAnnotation inputs;
      if (!set_operands(inputs, node, pattern)) continue;
      QuantizationAnnotation& annotation = write(node, pattern, asked());
      annotation.input_qspec_map = std::move(inputs.input_qspec_map);
      annotation.output_qspec = config_.output_qspec();
    }
  }

  void binary_relu(bool (*is_binary)(const Node&), const char* pattern) {
    for (Node* relu : graph_.nodes()) {
      Node* node = is_relu(*relu) ? relu->arg(0).node() : nullptr;
      if (node == nullptr || !is_binary(*node) || read_by_others(node, relu, pattern) || skip(pattern, {relu, node}, {})) continue;
      QuantizationAnnotation inputs;
      if (!set_operands(inputs, node, pattern)) continue;
      write(node, pattern, concat(asked(), ", together with ", relu->name())).input_qspec_map = std::move(inputs.input_qspec_map);
      write(relu, pattern, concat("it is computed together with ", node->name())).output_qspec = config_.output_qspec();
    }
  }

  // The nodes of a target: those that PyTorch finds by their recorded source, or all.
  std::vector<Node*> by_source(const std::vector<std::string>& sources, std::string_view target) const {
    std::vector<Node*> out;
    if (!strict()) {
      for (Node* node : graph_.nodes())
        if (node->is(target) && passes(node)) out.push_back(node);
      return out;
    }
    for (const SourcePartition& partition : get_source_partitions(graph_, sources, filter_)) {
      QDQ_CHECK(!partition.output_nodes.empty() && partition.output_nodes[0]->is(target), kInvalidArgument, "the nodes that came from ",
                partition.source, " do not end in ", target);
      out.push_back(partition.output_nodes[0]);
    }
    return out;
  }

  void adaptive_avg_pool2d() {
    for (Node* pool : by_source({"torch.nn.modules.pooling.AdaptiveAvgPool2d", "torch.nn.functional.adaptive_avg_pool2d"},
                                "torch.ops.aten.adaptive_avg_pool2d.default")) {
      if (skip("adaptive_avg_pool2d", {pool}, {})) continue;
      Node* input = pool->arg(0).node();
      const auto producer = annotations_.find(input);
      const bool is_quantized =
          producer != annotations_.end() && producer->second.annotated && !std::holds_alternative<std::monostate>(producer->second.output_qspec);
      QuantizationAnnotation& annotation = write(pool, "adaptive_avg_pool2d", concat(asked(), ", output in terms of its input"));
      annotation.set_input(input, is_quantized ? QSpec(SharedQuantizationSpec{input}) : config_.input_qspec());
      annotation.output_qspec = SharedQuantizationSpec{Edge{input, pool}};
    }
  }

  // The input and the hidden state of a GRU. Both belong to the same node, and the second annotation takes the place of the first.
  void gru_io_only() {
    for (const SourcePartition& partition : get_source_partitions(graph_, {"torch.nn.modules.rnn.GRU"}, filter_)) {
      std::vector<Node*> ends = partition.input_nodes;
      ends.insert(ends.end(), partition.output_nodes.begin(), partition.output_nodes.end());
      if (is_annotated(annotations_, ends)) continue;
      QDQ_CHECK(!strict() || partition.input_nodes.size() >= 2, kInvalidArgument,
                "PyTorch 2.6 refuses a GRU whose first state is not given, like that of ", partition.nodes.front()->name(),
                "; without \"compat\": \"torch-2.6\" it stays in float");
      if (partition.input_nodes.size() < 2) continue;
      for (size_t i = 0; i < 2; ++i) {
        Node* input = partition.input_nodes[i];
        write(input->users().front(), "gru_io_only", "it reads the input or state of a GRU, whose inside stays in float")
            .set_input(input, config_.input_qspec());
      }
      QDQ_CHECK(!strict() || partition.output_nodes.size() == 2, kInvalidArgument, "a GRU has two outputs, but here ", partition.output_nodes.size(),
                " of its nodes are used outside of it");
      for (Node* output : partition.output_nodes)
        write(output, "gru_io_only", "it gives a result of a GRU, whose inside stays in float").output_qspec = config_.output_qspec();
      mark_annotated(annotations_, partition.nodes);
    }
  }

  void cat() {
    for (Node* node : by_source({"torch.cat"}, "torch.ops.aten.cat.default")) {
      if (!node->arg(0).is_list() || node->arg(0).list().empty() || skip("cat", {node}, {})) continue;
      const Argument::List& inputs = node->arg(0).list();
      QuantizationAnnotation annotation;
      const QSpec shared = SharedQuantizationSpec{Edge{inputs[0].node(), node}};
      annotation.set_input(inputs[0].node(), config_.input_qspec());
      for (size_t i = 1; i < inputs.size(); ++i)
        if (!annotation.find_input(inputs[i].node())) annotation.set_input(inputs[i].node(), shared);
      QuantizationAnnotation& written = write(node, "cat", concat(asked(), ", all inputs and the output in the same terms"));
      written.input_qspec_map = std::move(annotation.input_qspec_map);
      written.output_qspec = shared;
    }
  }

  Program& program_;
  Graph& graph_;
  Annotations& annotations_;
  const QuantizationConfig& config_;
  NodeFilter filter_;
  Compat compat_;
  std::string setting_;
  uint64_t began_;
};

void propagate(Graph& graph, Annotations& annotations, const NodeFilter& filter) {
  for (Node* node : graph.nodes()) {
    Node* input = keeps_numbers(*node) ? node->arg(0).node() : nullptr;
    if (input == nullptr || is_annotated(annotations, {node}) || (filter && !filter(*node))) continue;
    const auto producer = annotations.find(input);
    if (producer == annotations.end() || std::holds_alternative<std::monostate>(producer->second.output_qspec)) {
      annotations.note(node, {kName, "propagation", false, concat("the output of ", input->name(), " is not quantized: nothing to hand on")});
      continue;
    }
    QuantizationAnnotation annotation;
    annotation.set_input(input, SharedQuantizationSpec{input});
    annotation.output_qspec = SharedQuantizationSpec{input};
    annotation.annotated = true;
    annotation.annotator = kName + " propagation";
    annotations[node] = std::move(annotation);
    annotations.note(node, {kName, "propagation", true, concat("it hands on the numbers of ", input->name(), " in the same terms")});
  }
}

// "torch.ops.aten.linear" is the packet of "torch.ops.aten.linear.default".
bool is_of_packet(const Node& node, const std::string& packet) {
  const std::string& target = node.target();
  return node.op() == Node::Op::kCallFunction && target.size() > packet.size() && target.compare(0, packet.size(), packet) == 0 &&
         target[packet.size()] == '.';
}

}  // namespace

QuantizationConfig get_symmetric_quantization_config(const SymmetricConfigOptions& options) {
  QuantizationConfig config;
  config.is_qat = options.is_qat;

  const QuantizationSpec activation = default_activation_spec(DType::kS8, options.act_qmin, options.act_qmax, options.is_qat, options.is_dynamic);
  const QuantizationSpec weight = default_weight_spec(options.weight_qmin, options.weight_qmax, options.is_per_channel, options.is_qat);
  check_spec(activation, "activations");
  check_spec(weight, "weights");
  config.input_activation = activation;
  if (!options.is_dynamic) config.output_activation = activation;
  config.weight = weight;
  return config;
}

XNNPACKQuantizer& XNNPACKQuantizer::set_global(std::optional<QuantizationConfig> config) {
  global_ = std::move(config);
  return *this;
}

XNNPACKQuantizer& XNNPACKQuantizer::set_operator_type(const std::string& operator_type, std::optional<QuantizationConfig> config) {
  set_config(operator_types_, operator_type, std::move(config));
  return *this;
}

XNNPACKQuantizer& XNNPACKQuantizer::set_module_type(const std::string& module_type, std::optional<QuantizationConfig> config) {
  set_config(module_types_, source_name(module_type), std::move(config));
  return *this;
}

XNNPACKQuantizer& XNNPACKQuantizer::set_module_name(const std::string& module_name, std::optional<QuantizationConfig> config) {
  QDQ_CHECK(config || compat_ != Compat::kTorch26, kInvalidArgument, "set_module_name('", module_name,
            "') was given no config, which PyTorch 2.6 does not support");
  set_config(module_names_, module_name, std::move(config));
  return *this;
}

XNNPACKQuantizer& XNNPACKQuantizer::set_filter_function(NodeFilter filter) {
  filter_ = std::move(filter);
  return *this;
}

const ConfigSetting* XNNPACKQuantizer::setting_of(const Node& node, const ConfigSetting* global) const {
  const auto innermost = [&](const std::vector<ConfigSetting>& settings, std::string ModuleStackEntry::* key) -> const ConfigSetting* {
    const auto& stack = node.meta.nn_module_stack;
    for (auto entry = stack.rbegin(); entry != stack.rend(); ++entry)
      for (const ConfigSetting& s : settings)
        if ((*entry).*key == s.first) return &s;
    return nullptr;
  };
  if (const ConfigSetting* named = innermost(module_names_, &ModuleStackEntry::path)) return named;
  if (const ConfigSetting* typed = innermost(module_types_, &ModuleStackEntry::type)) return typed;
  if (compat_ == Compat::kNone) {
    // A relu that is fused goes with the operator in front of it.
    const Node* producer = is_relu(node) ? node.arg(0).node() : nullptr;
    for (const ConfigSetting& s : operator_types_)
      if (is_of_packet(node, s.first) || (producer && is_of_packet(*producer, s.first))) return &s;
  }
  return global->second ? global : nullptr;
}

void XNNPACKQuantizer::transform_for_annotation(Program& program) { convert_scalars_to_attributes(program, compat_); }

void XNNPACKQuantizer::annotate(Program& program, Annotations& annotations) {
  const bool strict = compat_ == Compat::kTorch26;
  const bool all_dynamic = global_ && global_->is_dynamic();
  const size_t mark = annotations.num_decisions();
  const uint64_t began = QuantizationAnnotation::fresh_id();
  const auto is_dynamic = [&](const QuantizationConfig& config) { return strict ? all_dynamic : config.is_dynamic(); };
  const auto apply = [&](const std::optional<QuantizationConfig>& config, const std::string& setting, const NodeFilter& reaches) {
    if (!config) return;
    const NodeFilter filter = [&](const Node& node) { return reaches(node) && (!filter_ || filter_(node)); };
    Annotator annotator(program, annotations, *config, filter, compat_, setting, began);
    if (is_dynamic(*config)) annotator.annotate_dynamic();
    else annotator.annotate_static();
  };
  const ConfigSetting global{"", global_};
  const auto in_any = [](const std::vector<ConfigSetting>& settings, const Node& node, bool (*is_in)(const Node&, const std::string&)) {
    return std::any_of(settings.begin(), settings.end(), [&](const ConfigSetting& s) { return is_in(node, s.first); });
  };
  const auto holds = [&](const ConfigSetting& setting) { return [&](const Node& node) { return setting_of(node, &global) == &setting; }; };
  // PyTorch applies every setting in turn and lets the first one that annotates a node have it.
  for (const ConfigSetting& s : module_names_) {
    const auto is_in = [&](const Node& node) { return is_in_module(node, s.first); };
    apply(s.second, concat("the setting for module ", s.first), strict ? NodeFilter(is_in) : NodeFilter(holds(s)));
  }
  for (const ConfigSetting& s : module_types_) {
    const auto is_in = [&](const Node& node) { return is_in_module_type(node, s.first); };
    apply(s.second, concat("the setting for modules of type ", s.first), strict ? NodeFilter(is_in) : NodeFilter(holds(s)));
  }
  if (!strict)
    for (const ConfigSetting& s : operator_types_) apply(s.second, concat("the setting for operators ", s.first), holds(s));
  const auto in_none = [&](const Node& node) {
    return !in_any(module_names_, node, is_in_module) && !in_any(module_types_, node, is_in_module_type);
  };
  apply(global_, "the global setting", strict ? NodeFilter(in_none) : NodeFilter(holds(global)));
  propagate(*program.graph, annotations, filter_);

  // What no pattern has looked at.
  for (const Node* node : program.graph->nodes()) {
    if (node->op() != Node::Op::kCallFunction || annotations.decided_since(node, mark)) continue;
    const ConfigSetting* setting = setting_of(*node, &global);
    std::string reason;
    if (filter_ && !filter_(*node)) reason = "the filter function refuses it";
    else if (setting == nullptr) reason = "there is no global setting, and none for this module or operator";
    else if (!setting->second) reason = concat("the settings leave ", setting->first, " in float");
    else if (is_dynamic(*setting->second) && !is_linear(*node)) reason = kName + " quantizes only linear dynamically";
    else if (is_conv_transpose(*node)) reason = kName + " quantizes a transposed convolution only together with a relu behind it";
    else if (strict && (node->is("torch.ops.aten.cat.default") || node->is("torch.ops.aten.adaptive_avg_pool2d.default")))
      reason = "PyTorch 2.6 finds it by its recorded source, and here that is another or none; without compat torch-2.6 it is found";
    else reason = concat(kName, " has no pattern for ", node->target().rfind("torch.ops.", 0) == 0 ? node->target().substr(10) : node->target());
    annotations.note(node, {kName, "", false, std::move(reason)});
  }
}

}  // namespace qdq
