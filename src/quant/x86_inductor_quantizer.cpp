// X86InductorQuantizer's patterns and the order in which they are tried.
#include "quant/x86_inductor_quantizer.h"

#include <algorithm>
#include <functional>

namespace qdq {

namespace {

constexpr std::string_view kConv2d = "torch.ops.aten.conv2d.default";
constexpr std::string_view kLinear = "torch.ops.aten.linear.default";
constexpr std::string_view kMatmul = "torch.ops.aten.matmul.default";
constexpr std::string_view kMaxPool2d = "torch.ops.aten.max_pool2d.default";
constexpr std::string_view kCat = "torch.ops.aten.cat.default";
constexpr std::string_view kFlatten = "torch.ops.aten.flatten.using_ints";

// Sources, as a file names them.
const std::string kConv2dSource = "torch.nn.modules.conv.Conv2d";
const std::string kLinearSource = "torch.nn.modules.linear.Linear";
const std::string kBatchNormSource = "torch.nn.modules.batchnorm.BatchNorm2d";
const std::string kAddSource = "_operator.add";
const std::string kReluSource = "torch.nn.modules.activation.ReLU";

struct OperatorOfSource {
  std::string_view source, target;
};
constexpr OperatorOfSource kOperators[] = {
    {"torch.nn.modules.conv.Conv2d", kConv2d},
    {"torch.conv2d", kConv2d},
    {"torch.nn.modules.linear.Linear", kLinear},
    {"torch._C._nn.linear", kLinear},
    {"torch.nn.modules.pooling.MaxPool2d", kMaxPool2d},
    {"torch.nn.functional.max_pool2d", kMaxPool2d},
    {"torch.cat", kCat},
    {"torch.nn.modules.pooling.AvgPool2d", "torch.ops.aten.avg_pool2d.default"},
    {"torch._C._nn.avg_pool2d", "torch.ops.aten.avg_pool2d.default"},
    {"torch.nn.modules.pooling.AdaptiveAvgPool2d", "torch.ops.aten.adaptive_avg_pool2d.default"},
    {"torch.nn.functional.adaptive_avg_pool2d", "torch.ops.aten.adaptive_avg_pool2d.default"},
    {"torch.flatten", kFlatten},
    {"torch.matmul", kMatmul},
};

// Operators that take int8 in and give int8 out.
bool is_int8_in_out(const Node& node) {
  return node.is(kMaxPool2d) || node.is(kCat) || node.is("torch.ops.aten.avg_pool2d.default") ||
         node.is("torch.ops.aten.adaptive_avg_pool2d.default") || node.is(kFlatten);
}
bool is_default_quantizable(const Node& node) { return is_int8_in_out(node) || node.is(kConv2d) || node.is(kLinear); }
bool is_quantizable(const Node& node) { return is_default_quantizable(node) || node.is(kMatmul); }

using Nodes = std::vector<Node*>;
using PatternFilter = std::function<bool(const Nodes&)>;  // over the operators of one pattern

// What a source becomes in a graph, for looking at operators instead of records.
bool is_source(const Node& node, const std::string& source) {
  const auto any = [&](std::initializer_list<std::string_view> targets) {
    return std::any_of(targets.begin(), targets.end(), [&](std::string_view target) { return node.is(target); });
  };
  const auto bounds = [&](double low, double high) { return node.arg(1).number().value_or(-1) == low && node.arg(2).number().value_or(1) == high; };
  if (source == kConv2dSource) return node.is(kConv2d);
  if (source == kLinearSource) return node.is(kLinear);
  if (source == kBatchNormSource) return any({"torch.ops.aten.batch_norm.default"});
  if (source == kAddSource) return any({"torch.ops.aten.add.Tensor", "torch.ops.aten.add_.Tensor"});
  if (source == kReluSource) return any({"torch.ops.aten.relu.default", "torch.ops.aten.relu_.default"});
  const bool clamps = any({"torch.ops.aten.hardtanh.default", "torch.ops.aten.hardtanh_.default"});
  if (source == source_name("torch.nn.Hardtanh")) return clamps && !bounds(0, 6);
  if (source == source_name("torch.nn.ReLU6"))
    return (clamps && bounds(0, 6)) || any({"torch.ops.aten.relu6.default", "torch.ops.aten.relu6_.default"});
  if (source == source_name("torch.nn.Hardswish")) return any({"torch.ops.aten.hardswish.default", "torch.ops.aten.hardswish_.default"});
  if (source == source_name("torch.nn.SiLU")) return any({"torch.ops.aten.silu.default", "torch.ops.aten.silu_.default"});
  if (source == source_name("torch.nn.LeakyReLU")) return any({"torch.ops.aten.leaky_relu.default", "torch.ops.aten.leaky_relu_.default"});
  if (source == source_name("torch.nn.Tanh")) return any({"torch.ops.aten.tanh.default", "torch.ops.aten.tanh_.default"});
  if (source == source_name("torch.nn.GELU")) return any({"torch.ops.aten.gelu.default"});
  return false;
}

const std::string kName = "X86InductorQuantizer";

// Annotates a program under one setting.
class Annotator {
 public:
  // `setting` names the setting in reasons: "the global setting". Annotations with an id up to `began` are those of other quantizers.
  Annotator(Program& program, Annotations& annotations, const std::optional<QuantizationConfig>& config, PatternFilter filter, Compat compat,
            std::string setting, uint64_t began)
      : graph_(*program.graph), annotations_(annotations), config_(config), filter_(std::move(filter)), compat_(compat), setting_(std::move(setting)),
        began_(began) {}

  void run() {
    if (!config_ || config_->is_qat) {
      qat_conv_bn_binary(true);
      qat_conv_bn_binary(false);
      qat_conv_bn_unary();
      qat_conv_bn();
    }
    weighted_binary(kConv2dSource, true);
    weighted_binary(kConv2dSource, false);
    for (const char* unary : {"torch.nn.ReLU", "torch.nn.Hardtanh", "torch.nn.Hardswish", "torch.nn.ReLU6", "torch.nn.SiLU"})
      weighted_unary(kConv2dSource, source_name(unary));
    weighted(kConv2dSource, {kConv2dSource, "torch.conv2d"}, kConv2d);
    weighted_binary(kLinearSource, true);
    weighted_binary(kLinearSource, false);
    for (const char* unary : {"torch.nn.ReLU", "torch.nn.LeakyReLU", "torch.nn.Tanh", "torch.nn.GELU"})
      weighted_unary(kLinearSource, source_name(unary));
    weighted(kLinearSource, {kLinearSource, "torch._C._nn.linear"}, kLinear);
    matmul();
    for (Node* node : graph_.nodes()) propagate(node);
  }

 private:
  bool strict() const { return compat_ == Compat::kTorch26; }

  // Chains of operators, one of each source, each reading the one before.
  std::vector<Nodes> chains(const std::vector<std::string>& sources) const {
    std::vector<Nodes> out;
    if (!strict()) {
      for (Node* node : graph_.nodes())
        if (is_source(*node, sources[0])) out.push_back({node});
      for (size_t i = 1; i < sources.size(); ++i) {
        std::vector<Nodes> longer;
        for (const Nodes& chain : out)
          for (Node* user : chain.back()->users())
            if (is_source(*user, sources[i])) {
              longer.push_back(chain);
              longer.back().push_back(user);
            }
        out = std::move(longer);
      }
      return out;
    }
    for (const auto& partitions : find_sequential_partitions(graph_, sources)) {
      Nodes nodes;
      for (const SourcePartition& partition : partitions) nodes.push_back(output_of(partition));
      out.push_back(std::move(nodes));
    }
    return out;
  }

  static Node* output_of(const SourcePartition& partition) {
    QDQ_CHECK(partition.output_nodes.size() == 1, kInvalidArgument, "the nodes that came from one call of ", partition.source, " have ",
              partition.output_nodes.size(), " outputs instead of one, which PyTorch 2.6 refuses");
    return partition.output_nodes[0];
  }

  // Whether the pattern does not apply. Nothing is noted for what the setting does not reach, or this quantizer has taken already.
  bool skip(const char* pattern, const Nodes& nodes) {
    if (!filter_(nodes)) return true;
    for (Node* taken : nodes) {
      if (!is_annotated(annotations_, {taken})) continue;
      const QuantizationAnnotation& annotation = annotations_.at(taken);
      for (const Node* node : nodes)
        if (annotation.id <= began_)
          refuse(node, pattern,
                 concat(node == taken ? "it" : taken->name() + ", which belongs to the pattern,", " is already annotated by ", annotation.annotator));
      return true;
    }
    return false;
  }

  // An annotation of the node, with the reason for it.
  QuantizationAnnotation& write(Node* node, const char* pattern, std::string reason) {
    QuantizationAnnotation annotation;
    annotation.annotated = true;
    annotation.in_pattern = true;
    annotation.annotator = concat(kName, " ", pattern);
    annotations_.note(node, {kName, pattern, true, std::move(reason)});
    return annotations_[node] = std::move(annotation);
  }
  void refuse(const Node* node, const char* pattern, std::string reason) { annotations_.note(node, {kName, pattern, false, std::move(reason)}); }
  // What has to be said when a setting takes an operator, alone or with others.
  std::string asked(const Nodes& together = {}) const {
    std::string out = setting_ + " asks for it";
    for (size_t i = 1; i < together.size(); ++i) out += (i == 1 ? ", together with " : " and ") + together[i]->name();
    return out + (config_->is_dynamic() ? ", with qparams chosen at run time" : "");
  }
  static std::string joined(const Node* first) { return concat("it is computed together with ", first->name()); }

  // Nodes marked as annotated, so that later settings leave them alone.
  void leave_float(const Nodes& nodes) {
    for (Node* node : nodes) {
      QuantizationAnnotation annotation;
      annotation.annotated = true;
      annotation.annotator = concat(kName, " ", setting_);
      annotations_[node] = std::move(annotation);
      refuse(node, "", concat(setting_, " leaves it in float"));
    }
  }

  // The inputs of a conv or linear; `is_end` tells that nothing is fused behind it.
  void annotate_weighted(Node* node, bool is_end, const char* pattern, std::string reason) {
    QuantizationAnnotation& annotation = write(node, pattern, std::move(reason));
    annotation.set_input(node->arg(0).node(), config_->input_qspec());
    annotation.set_input(node->arg(1).node(), config_->weight_qspec());
    if (Node* bias = node->arg(2).node()) annotation.set_input(bias, config_->bias_qspec());
    annotation.is_output_of_quantized_pattern = is_end;
  }

  // The other operand of an add that one operand of comes from `node`; nothing if the add does not read it or it is a number.
  std::optional<Node*> extra_operand(const Node* node, const Node* binary) const {
    for (size_t i = 0; i < 2; ++i)
      if (binary->arg(i).node() == node && node->op() == Node::Op::kCallFunction) {
        Node* extra = binary->arg(1 - i).node();
        QDQ_CHECK(extra || !strict(), kInvalidArgument, "the operator ", binary->name(), " adds a number to the quantized operator ", node->name(),
                  ", which PyTorch 2.6 refuses");
        return extra ? std::optional<Node*>(extra) : std::nullopt;
      }
    return std::nullopt;
  }

  // Whether others than `fused`, the next one of the chain, read the node: the float value that they need would not exist.
  bool read_by_others(const Node* node, const Node* fused, const char* pattern, const Nodes& chain) {
    if (node->users().size() == 1) return false;
    if (strict() || filter_(chain)) refuse(fused, pattern, concat("others read ", node->name(), " too, so the two are not computed together"));
    return true;
  }

  // {conv2d, linear} -> add (-> relu). The extra operand of a convolution's add is quantized, that of a linear's is not.
  void weighted_binary(const std::string& source, bool has_unary) {
    const bool is_conv = source == kConv2dSource;
    const char* pattern = is_conv ? (has_unary ? "conv2d_binary_unary" : "conv2d_binary") : (has_unary ? "linear_binary_unary" : "linear_binary");
    std::vector<std::string> sources = {source, kAddSource};
    if (has_unary) sources.push_back(kReluSource);
    for (const Nodes& chain : chains(sources)) {
      Node* node = chain[0];
      Node* binary = chain[1];
      if (read_by_others(node, binary, pattern, chain)) continue;
      const std::optional<Node*> extra = extra_operand(node, binary);
      if (!extra || !node->is(is_conv ? kConv2d : kLinear)) continue;
      if (!strict() && has_unary && read_by_others(binary, chain[2], pattern, chain)) continue;
      const Nodes reversed(chain.rbegin(), chain.rend());
      if (skip(pattern, reversed)) continue;
      if (!config_) {
        leave_float(chain);
        continue;
      }
      annotate_weighted(node, false, pattern, asked(chain));
      QuantizationAnnotation& annotation = write(binary, pattern, joined(node));
      if (is_conv) annotation.set_input(*extra, config_->input_qspec());
      annotation.is_output_of_quantized_pattern = !has_unary;
      if (has_unary) write(chain[2], pattern, joined(node)).is_output_of_quantized_pattern = true;
    }
  }

  // {conv2d, linear} -> activation function
  void weighted_unary(const std::string& source, const std::string& unary) {
    const bool is_conv = source == kConv2dSource;
    const char* pattern = is_conv ? "conv2d_unary" : "linear_unary";
    for (const Nodes& chain : chains({source, unary})) {
      Node* node = chain[0];
      if (!node->is(is_conv ? kConv2d : kLinear)) continue;
      // PyTorch fuses even if others read the convolution's result; the float value they need would not exist.
      if (!strict() && read_by_others(node, chain[1], pattern, chain)) continue;
      if (skip(pattern, {chain[1], node})) continue;
      if (!config_) {
        leave_float(chain);
        continue;
      }
      annotate_weighted(node, false, pattern, asked(chain));
      write(chain[1], pattern, joined(node)).is_output_of_quantized_pattern = true;
    }
  }

  void weighted(const std::string& source, const std::vector<std::string>& sources, std::string_view target) {
    Nodes nodes;
    if (strict()) {
      for (const SourcePartition& partition : get_source_partitions(graph_, sources)) {
        nodes.push_back(output_of(partition));
        QDQ_CHECK(nodes.back()->is(target), kInvalidArgument, "the nodes that came from ", partition.source, " do not end in ", target);
      }
    } else {
      for (Node* node : graph_.nodes())
        if (is_source(*node, source)) nodes.push_back(node);
    }
    const char* pattern = target == kConv2d ? "conv2d" : "linear";
    for (Node* node : nodes) {
      if (skip(pattern, {node})) continue;
      if (config_) annotate_weighted(node, true, pattern, asked());
      else leave_float({node});
    }
  }

  // What the end of a pattern says in QAT, where the output is observed.
  void write_qat_end(Node* node, const Node* first) {
    QuantizationAnnotation& annotation = write(node, "conv2d_bn", joined(first));
    annotation.output_qspec = config_->output_qspec();
    annotation.is_output_of_quantized_pattern = true;
  }

  // conv2d -> batch_norm -> add (-> relu)
  void qat_conv_bn_binary(bool has_unary) {
    std::vector<std::string> sources = {kConv2dSource, kBatchNormSource, kAddSource};
    if (has_unary) sources.push_back(kReluSource);
    for (const Nodes& chain : chains(sources)) {
      Node* norm = chain[1];
      Node* binary = chain[2];
      if (norm->users().size() != 1) continue;
      const std::optional<Node*> extra = extra_operand(norm, binary);
      if (!extra || !chain[0]->is(kConv2d)) continue;
      if (skip("conv2d_bn", Nodes(chain.rbegin(), chain.rend()))) continue;
      if (!config_) {
        leave_float(chain);
        continue;
      }
      annotate_weighted(chain[0], false, "conv2d_bn", asked(chain));
      QuantizationAnnotation inputs;
      inputs.set_input(*extra, config_->input_qspec());
      if (has_unary) write(binary, "conv2d_bn", joined(chain[0]));
      else write_qat_end(binary, chain[0]);
      annotations_[binary].input_qspec_map = std::move(inputs.input_qspec_map);
      if (has_unary) write_qat_end(chain[3], chain[0]);
      mark_annotated(annotations_, chain);
    }
  }

  void qat_conv_bn_unary() {
    for (const char* unary : {"torch.nn.ReLU", "torch.nn.Hardtanh", "torch.nn.Hardswish", "torch.nn.ReLU6", "torch.nn.SiLU"})
      for (const Nodes& chain : chains({kConv2dSource, kBatchNormSource, source_name(unary)})) qat_chain(chain);
  }

  void qat_conv_bn() {
    for (const Nodes& chain : chains({kConv2dSource, kBatchNormSource})) qat_chain(chain);
  }

  void qat_chain(const Nodes& chain) {
    if (!chain[0]->is(kConv2d) || skip("conv2d_bn", Nodes(chain.rbegin(), chain.rend()))) return;
    if (!config_) {
      leave_float(chain);
      return;
    }
    annotate_weighted(chain[0], false, "conv2d_bn", asked(chain));
    write_qat_end(chain.back(), chain[0]);
    mark_annotated(annotations_, chain);
  }

  void matmul() {
    for (Node* node : graph_.nodes()) {
      if (!node->is(kMatmul) || skip("matmul", {node})) continue;
      if (!config_) {
        leave_float({node});
        continue;
      }
      QuantizationAnnotation& annotation = write(node, "matmul", asked());
      for (const Argument& argument : node->args())
        if (Node* operand = argument.node()) annotation.set_input(operand, config_->input_qspec());
      annotation.is_output_of_quantized_pattern = true;
    }
  }

  bool is_quantized_output(const Node* node) const {
    const auto found = annotations_.find(node);
    return found != annotations_.end() && found->second.annotated && found->second.is_output_of_quantized_pattern;
  }

  // Pools, cat and flatten behind something that is quantized.
  void propagate(Node* node) {
    constexpr const char* kPattern = "propagation";
    if (!is_int8_in_out(*node) || skip(kPattern, {node})) return;
    if (!config_) {
      leave_float({node});
      return;
    }
    const Nodes inputs = node->input_nodes();
    if (inputs.empty()) return;
    const bool is_cat = node->is(kCat);
    const Nodes to_check = is_cat ? inputs : Nodes{inputs[0]};
    if (node->is(kFlatten) && !node->users().empty() &&
        std::none_of(node->users().begin(), node->users().end(), [](const Node* user) { return is_quantizable(*user); })) {
      refuse(node, kPattern, "nothing behind it is quantized, so integers would only be turned back");
      return;
    }
    for (const Node* input : to_check)
      if (!is_quantized_output(input)) {
        refuse(node, kPattern, concat("its input ", input->name(), " does not come from a quantized operator: there is nothing to hand on"));
        return;
      }
    QuantizationAnnotation& annotation = write(node, kPattern, "it hands on the numbers of a quantized operator, in the same terms");
    annotation.set_input(inputs[0], config_->input_qspec());
    for (size_t i = 1; is_cat && i < inputs.size(); ++i) annotation.set_input(inputs[i], SharedQuantizationSpec{Edge{inputs[0], node}});
    annotation.is_output_of_quantized_pattern = true;
  }

  Graph& graph_;
  Annotations& annotations_;
  const std::optional<QuantizationConfig>& config_;
  PatternFilter filter_;
  Compat compat_;
  std::string setting_;
  uint64_t began_;
};

// Whether PyTorch's patterns fuse this behind a convolution or linear, were it recorded as they want it.
bool is_fusible_function(const Node& node) {
  const Node* producer = node.arg(0).node();
  if (producer == nullptr || (!producer->is(kConv2d) && !producer->is(kLinear))) return false;
  for (const char* unary : {"torch.nn.ReLU", "torch.nn.Hardtanh", "torch.nn.Hardswish", "torch.nn.ReLU6", "torch.nn.SiLU", "torch.nn.LeakyReLU",
                            "torch.nn.Tanh", "torch.nn.GELU"})
    if (is_source(node, source_name(unary))) return true;
  return false;
}

// Why PyTorch 2.6, which goes by what an export recorded, does not see what the operators show.
std::string not_found_by_source(const Node& node) {
  if (node.meta.source_fn_stack.empty())
    return "the export recorded no source for it (non-strict), by which PyTorch 2.6 finds patterns; without compat torch-2.6 it is found";
  return concat("PyTorch 2.6 has no pattern for its recorded source ", node.meta.source_fn_stack.back().second,
                "; without compat torch-2.6 it is found");
}

// A filter that wants exactly one operator of a kind in a pattern.
PatternFilter exactly_one(std::function<bool(const Node&)> which, std::string what, Compat compat) {
  return [which = std::move(which), what = std::move(what), compat](const Nodes& nodes) {
    const auto count = std::count_if(nodes.begin(), nodes.end(), [&](const Node* node) { return which(*node); });
    QDQ_CHECK(count <= 1 || compat != Compat::kTorch26, kUnsupported, "one pattern holds several nodes that are ", what,
              "; PyTorch 2.6 does not support that");
    return compat == Compat::kTorch26 ? count == 1 : count >= 1;
  };
}

}  // namespace

QuantizationConfig get_default_x86_inductor_quantization_config(const X86InductorConfigOptions& options) {
  const QuantizationSpec activation = default_activation_spec(DType::kU8, 0, options.reduce_range ? 127 : 255, options.is_qat, options.is_dynamic);
  QuantizationConfig config;
  config.input_activation = config.output_activation = activation;
  config.weight = default_weight_spec(-128, 127, /*is_per_channel=*/true, options.is_qat);
  config.is_qat = options.is_qat;
  return config;
}

QuantizationConfig get_x86_inductor_linear_dynamic_fp16_config() {
  QuantizationSpec weight;
  weight.dtype = DType::kF16;
  weight.observer.class_name = "PlaceholderObserver";
  QuantizationConfig config;
  config.weight = weight;
  return config;
}

// Whether the config goes together with those set before.
bool X86InductorQuantizer::accepts(const std::string& name, const std::optional<QuantizationConfig>& config) {
  if (!config) return true;
  std::vector<const QuantizationConfig*> others;
  for (const auto* settings : {&module_names_, &operator_types_})
    for (const ConfigSetting& setting : *settings)
      if (setting.second) others.push_back(&*setting.second);
  if (global_) others.push_back(&*global_);
  for (const QuantizationConfig* other : others) {
    const bool other_mode = other->is_qat != config->is_qat;
    const bool other_time = other->input_activation && config->input_activation && other->is_dynamic() != config->is_dynamic();
    if (!other_mode && !other_time) continue;
    warnings_.push_back(concat("the config for ", name, " is left out: ", other_mode ? "training-aware and post-training" : "static and dynamic",
                               " quantization cannot be mixed"));
    return false;
  }
  return true;
}

void X86InductorQuantizer::set_operator(const std::string& name, std::optional<QuantizationConfig> config) {
  if (!accepts(name, config)) return;
  const std::string source = source_name(name);
  for (const auto& [known, target] : kOperators)
    if (source == known) {
      set_config(operator_types_, std::string(target), std::move(config));
      return;
    }
  warnings_.push_back(concat("the config for ", name, " is left out: X86InductorQuantizer does not quantize that"));
}

X86InductorQuantizer& X86InductorQuantizer::set_global(std::optional<QuantizationConfig> config) {
  if (accepts("all operators", config)) global_ = std::move(config);
  return *this;
}

X86InductorQuantizer& X86InductorQuantizer::set_function_type_qconfig(const std::string& function, std::optional<QuantizationConfig> config) {
  set_operator(function, std::move(config));
  return *this;
}

X86InductorQuantizer& X86InductorQuantizer::set_module_type_qconfig(const std::string& module_type, std::optional<QuantizationConfig> config) {
  set_operator(module_type, std::move(config));
  return *this;
}

X86InductorQuantizer& X86InductorQuantizer::set_module_name_qconfig(const std::string& module_name, std::optional<QuantizationConfig> config) {
  if (accepts("module " + module_name, config)) set_config(module_names_, module_name, std::move(config));
  return *this;
}

X86InductorQuantizer& X86InductorQuantizer::set_filter_function(NodeFilter filter) {
  filter_ = std::move(filter);
  return *this;
}

void X86InductorQuantizer::annotate(Program& program, Annotations& annotations) {
  const size_t mark = annotations.num_decisions();
  const uint64_t began = QuantizationAnnotation::fresh_id();
  const auto apply = [&](const std::optional<QuantizationConfig>& config, const std::string& setting, const PatternFilter& reaches) {
    const PatternFilter filter = [&](const Nodes& nodes) {
      return (!filter_ || std::all_of(nodes.begin(), nodes.end(), [&](const Node* node) { return filter_(*node); })) && reaches(nodes);
    };
    Annotator(program, annotations, config, filter, compat_, setting, began).run();
  };
  // Of nested modules the innermost one's setting holds; PyTorch takes the first that was set.
  const auto holds = [&](const Node& node, const std::string& path) {
    if (compat_ == Compat::kTorch26) return is_in_module(node, path);
    const auto& stack = node.meta.nn_module_stack;
    for (auto entry = stack.rbegin(); entry != stack.rend(); ++entry)
      for (const ConfigSetting& s : module_names_)
        if (entry->path == s.first) return s.first == path;
    return false;
  };
  for (const auto& [path, config] : module_names_)
    apply(config, concat("the setting for module ", path), [&, path = path](const Nodes& nodes) {
      return std::all_of(nodes.begin(), nodes.end(), [&](const Node* node) { return holds(*node, path); });
    });
  for (const auto& [target, config] : operator_types_)
    apply(config, concat("the setting for ", target.substr(10)),
          exactly_one([target = target](const Node& node) { return node.is(target); }, target, compat_));
  if (global_) apply(global_, "the global setting", exactly_one(is_default_quantizable, "quantizable by default", compat_));

  // int8-in-int8-out operators give their output in their input's terms.
  for (Node* node : program.graph->nodes()) {
    if (!is_int8_in_out(*node)) continue;
    const auto found = annotations.find(node);
    if (found == annotations.end() || !found->second.annotated || !found->second.is_output_of_quantized_pattern) continue;
    found->second.output_qspec = SharedQuantizationSpec{Edge{node->input_nodes()[0], node}};
  }
  note_rest(program, annotations, mark);
}

// Why no pattern has looked at an operator.
void X86InductorQuantizer::note_rest(const Program& program, Annotations& annotations, size_t mark) const {
  const bool strict = compat_ == Compat::kTorch26;
  for (const Node* node : program.graph->nodes()) {
    if (node->op() != Node::Op::kCallFunction || annotations.decided_since(node, mark)) continue;
    const auto any = [&](const auto& settings, const auto& reaches) { return std::any_of(settings.begin(), settings.end(), reaches); };
    const bool named = any(module_names_, [&](const ConfigSetting& s) { return is_in_module(*node, s.first); });
    const bool typed = any(operator_types_, [&](const ConfigSetting& s) { return node->is(s.first); });
    std::string reason;
    if (filter_ && !filter_(*node)) reason = "the filter function refuses it";
    else if (is_source(*node, kAddSource))
      reason = concat(kName, " quantizes an addition only directly behind a convolution or linear that nobody else reads");
    else if (strict && is_fusible_function(*node)) reason = not_found_by_source(*node);
    else if (node->is(kMatmul) && !named && !typed) reason = concat(kName, " quantizes matmul only on request (function type torch.matmul)");
    else if (!is_quantizable(*node))
      reason = concat(kName, " has no pattern for ", node->target().rfind("torch.ops.", 0) == 0 ? node->target().substr(10) : node->target());
    else if (!named && !typed && !global_) reason = "there is no global setting, and none for this module or operator";
    else reason = strict ? not_found_by_source(*node) : "the settings that reach it were not taken; see the quantizer's warnings";
    annotations.note(node, {kName, "", false, std::move(reason)});
  }
}

}  // namespace qdq
