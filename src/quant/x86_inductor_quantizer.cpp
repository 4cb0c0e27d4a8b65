// X86InductorQuantizer's patterns and the order in which they are tried.
#include "quant/x86_inductor_quantizer.h"

#include <algorithm>
#include <functional>

namespace qdq {

namespace {

constexpr double kEps = 0.000244140625;  // 2^-12
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
  if (source == source_name("torch.nn.ReLU6")) return (clamps && bounds(0, 6)) || any({"torch.ops.aten.relu6.default", "torch.ops.aten.relu6_.default"});
  if (source == source_name("torch.nn.Hardswish")) return any({"torch.ops.aten.hardswish.default", "torch.ops.aten.hardswish_.default"});
  if (source == source_name("torch.nn.SiLU")) return any({"torch.ops.aten.silu.default", "torch.ops.aten.silu_.default"});
  if (source == source_name("torch.nn.LeakyReLU")) return any({"torch.ops.aten.leaky_relu.default", "torch.ops.aten.leaky_relu_.default"});
  if (source == source_name("torch.nn.Tanh")) return any({"torch.ops.aten.tanh.default", "torch.ops.aten.tanh_.default"});
  if (source == source_name("torch.nn.GELU")) return any({"torch.ops.aten.gelu.default"});
  return false;
}

// Annotates a program under one setting.
class Annotator {
 public:
  Annotator(Program& program, Annotations& annotations, const std::optional<QuantizationConfig>& config, PatternFilter filter, Compat compat)
      : graph_(*program.graph), annotations_(annotations), config_(config), filter_(std::move(filter)), compat_(compat) {}

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

  bool skip(const Nodes& nodes) const { return is_annotated(annotations_, nodes) || !filter_(nodes); }

  QuantizationAnnotation& write(Node* node, const char* pattern) {
    QuantizationAnnotation annotation;
    annotation.annotated = true;
    annotation.in_pattern = true;
    annotation.annotator = concat("X86InductorQuantizer ", pattern);
    return annotations_[node] = std::move(annotation);
  }

  void leave_float(const Nodes& nodes) {
    for (Node* node : nodes) write(node, "leaves it in float").in_pattern = false;
  }

  // The inputs of a conv or linear; `is_end` tells that nothing is fused behind it.
  void annotate_weighted(Node* node, bool is_end, const char* pattern) {
    QuantizationAnnotation& annotation = write(node, pattern);
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
        QDQ_CHECK(extra || !strict(), kInvalidArgument, "the operator ", binary->name(), " adds a number to the quantized operator ",
                  node->name(), ", which PyTorch 2.6 refuses");
        return extra ? std::optional<Node*>(extra) : std::nullopt;
      }
    return std::nullopt;
  }

  // {conv2d, linear} -> add (-> relu). The extra operand of a convolution's add is quantized, that of a linear's is not.
  void weighted_binary(const std::string& source, bool has_unary) {
    const bool is_conv = source == kConv2dSource;
    std::vector<std::string> sources = {source, kAddSource};
    if (has_unary) sources.push_back(kReluSource);
    for (const Nodes& chain : chains(sources)) {
      Node* node = chain[0];
      Node* binary = chain[1];
      if (node->users().size() != 1) continue;
      const std::optional<Node*> extra = extra_operand(node, binary);
      if (!extra || !node->is(is_conv ? kConv2d : kLinear)) continue;
      if (!strict() && has_unary && binary->users().size() != 1) continue;
      const Nodes reversed(chain.rbegin(), chain.rend());
      if (skip(reversed)) continue;
      if (!config_) {
        leave_float(chain);
        continue;
      }
      annotate_weighted(node, false, is_conv ? "conv2d_binary" : "linear_binary");
      QuantizationAnnotation& annotation = write(binary, is_conv ? "conv2d_binary" : "linear_binary");
      if (is_conv) annotation.set_input(*extra, config_->input_qspec());
      annotation.is_output_of_quantized_pattern = !has_unary;
      if (has_unary) write(chain[2], "binary_unary").is_output_of_quantized_pattern = true;
    }
  }

  // {conv2d, linear} -> activation function
  void weighted_unary(const std::string& source, const std::string& unary) {
    const bool is_conv = source == kConv2dSource;
    for (const Nodes& chain : chains({source, unary})) {
      Node* node = chain[0];
      if (!node->is(is_conv ? kConv2d : kLinear)) continue;
      // PyTorch fuses even if others read the convolution's result; the float value they need would not exist.
      if (!strict() && node->users().size() != 1) continue;
      if (skip({chain[1], node})) continue;
      if (!config_) {
        leave_float(chain);
        continue;
      }
      annotate_weighted(node, false, is_conv ? "conv2d_unary" : "linear_unary");
      write(chain[1], "unary").is_output_of_quantized_pattern = true;
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
    for (Node* node : nodes) {
      if (skip({node})) continue;
      if (config_) annotate_weighted(node, true, target == kConv2d ? "conv2d" : "linear");
      else leave_float({node});
    }
  }

  // What the end of a pattern says in QAT, where the output is observed.
  void write_qat_end(Node* node) {
    QuantizationAnnotation& annotation = write(node, "conv2d_bn");
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
      if (skip(Nodes(chain.rbegin(), chain.rend()))) continue;
      if (!config_) {
        leave_float(chain);
        continue;
      }
      annotate_weighted(chain[0], false, "conv2d_bn");
      QuantizationAnnotation inputs;
      inputs.set_input(*extra, config_->input_qspec());
      if (has_unary) write(binary, "conv2d_bn");
      else write_qat_end(binary);
      annotations_[binary].input_qspec_map = std::move(inputs.input_qspec_map);
      if (has_unary) write_qat_end(chain[3]);
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
    if (!chain[0]->is(kConv2d) || skip(Nodes(chain.rbegin(), chain.rend()))) return;
    if (!config_) {
      leave_float(chain);
      return;
    }
    annotate_weighted(chain[0], false, "conv2d_bn");
    write_qat_end(chain.back());
    mark_annotated(annotations_, chain);
  }

  void matmul() {
    for (Node* node : graph_.nodes()) {
      if (!node->is(kMatmul) || skip({node})) continue;
      if (!config_) {
        leave_float({node});
        continue;
      }
      QuantizationAnnotation& annotation = write(node, "matmul");
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
    if (!is_int8_in_out(*node) || skip({node})) return;
    if (!config_) {
      leave_float({node});
      return;
    }
    const Nodes inputs = node->input_nodes();
    if (inputs.empty()) return;
    const bool is_cat = node->is(kCat);
    const Nodes to_check = is_cat ? inputs : Nodes{inputs[0]};
    if (node->is(kFlatten) && !node->users().empty() &&
        std::none_of(node->users().begin(), node->users().end(), [](const Node* user) { return is_quantizable(*user); }))
      return;
    if (!std::all_of(to_check.begin(), to_check.end(), [&](const Node* input) { return is_quantized_output(input); })) return;
    QuantizationAnnotation& annotation = write(node, "propagation");
    annotation.set_input(inputs[0], config_->input_qspec());
    for (size_t i = 1; is_cat && i < inputs.size(); ++i) annotation.set_input(inputs[i], SharedQuantizationSpec{Edge{inputs[0], node}});
    annotation.is_output_of_quantized_pattern = true;
  }

  Graph& graph_;
  Annotations& annotations_;
  const std::optional<QuantizationConfig>& config_;
  PatternFilter filter_;
  Compat compat_;
};

// A filter that wants exactly one operator of a kind in a pattern.
PatternFilter exactly_one(std::function<bool(const Node&)> which, std::string what, Compat compat) {
  return [which = std::move(which), what = std::move(what), compat](const Nodes& nodes) {
    const auto count = std::count_if(nodes.begin(), nodes.end(), [&](const Node* node) { return which(*node); });
    QDQ_CHECK(count <= 1 || compat != Compat::kTorch26, kUnsupported, "one pattern holds several nodes that are ", what,
              "; PyTorch 2.6 does not support that");
    return compat == Compat::kTorch26 ? count == 1 : count >= 1;
  };
}

template <class Settings>
void assign(Settings& settings, const std::string& key, std::optional<QuantizationConfig> config) {
  const auto found = std::find_if(settings.begin(), settings.end(), [&](const auto& setting) { return setting.first == key; });
  if (found == settings.end()) settings.emplace_back(key, std::move(config));
  else found->second = std::move(config);
}

}  // namespace

QuantizationConfig get_default_x86_inductor_quantization_config(const X86InductorConfigOptions& options) {
  QuantizationSpec activation;
  activation.dtype = DType::kU8;
  activation.quant_min = 0;
  activation.quant_max = options.reduce_range ? 127 : 255;
  activation.qscheme = QScheme::kPerTensorAffine;
  activation.is_dynamic = options.is_dynamic;
  activation.observer.eps = kEps;
  if (options.is_qat && options.is_dynamic) {
    activation.observer.class_name = "FakeQuantize";
    activation.observer.inner_class = "MovingAverageMinMaxObserver";
    activation.observer.averaging_constant = 1.0;
  } else if (options.is_qat) {
    activation.observer.class_name = "FusedMovingAvgObsFakeQuantize";
  } else {
    activation.observer.class_name = options.is_dynamic ? "PlaceholderObserver" : "HistogramObserver";
  }

  QuantizationSpec weight;
  weight.dtype = DType::kS8;
  weight.quant_min = -128;
  weight.quant_max = 127;
  weight.qscheme = QScheme::kPerChannelSymmetric;
  weight.ch_axis = 0;
  weight.observer.eps = kEps;
  weight.observer.class_name = options.is_qat ? "FusedMovingAvgObsFakeQuantize" : "PerChannelMinMaxObserver";
  if (options.is_qat) weight.observer.inner_class = "MovingAveragePerChannelMinMaxObserver";

  QuantizationConfig config;
  config.input_activation = config.output_activation = activation;
  config.weight = weight;
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
    for (const Setting& setting : *settings)
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
      assign(operator_types_, std::string(target), std::move(config));
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
  if (accepts("module " + module_name, config)) assign(module_names_, module_name, std::move(config));
  return *this;
}

void X86InductorQuantizer::annotate(Program& program, Annotations& annotations) {
  for (const auto& [path, config] : module_names_)
    Annotator(program, annotations, config, [path = path](const Nodes& nodes) {
      return std::all_of(nodes.begin(), nodes.end(), [&](const Node* node) { return is_in_module(*node, path); });
    }, compat_).run();
  for (const auto& [target, config] : operator_types_)
    Annotator(program, annotations, config, exactly_one([target = target](const Node& node) { return node.is(target); }, target, compat_), compat_).run();
  if (global_)
    Annotator(program, annotations, global_, exactly_one(is_default_quantizable, "quantizable by default", compat_), compat_).run();

  // int8-in-int8-out operators give their output in their input's terms.
  for (Node* node : program.graph->nodes()) {
    if (!is_int8_in_out(*node)) continue;
    const auto found = annotations.find(node);
    if (found == annotations.end() || !found->second.annotated || !found->second.is_output_of_quantized_pattern) continue;
    found->second.output_qspec = SharedQuantizationSpec{Edge{node->input_nodes()[0], node}};
  }
}

std::string X86InductorQuantizer::why_float(const Program&, const Node& node) const {
  for (const auto& [path, config] : module_names_)
    if (!config && is_in_module(node, path)) return concat("the settings leave the module '", path, "' in float");
  for (const auto& [target, config] : operator_types_) {
    if (!node.is(target)) continue;
    if (!config) return concat("the settings leave ", target.substr(10), " in float");
    return concat(name(), " found no pattern with it");
  }
  for (const std::string_view target : {"torch.ops.aten.add.Tensor", "torch.ops.aten.add_.Tensor"})
    if (node.is(target)) return concat(name(), " quantizes an addition only directly behind a convolution or linear that nobody else reads");
  if (node.is(kMatmul)) return concat(name(), " quantizes matmul only on request (function type torch.matmul)");
  if (!is_quantizable(node)) return concat(name(), " has no pattern for ", node.target().substr(10));
  if (!global_) return "there is no global setting, and none for this module or operator";
  if (compat_ == Compat::kTorch26 && node.meta.source_fn_stack.empty())
    return "the export recorded no source for it (non-strict), by which PyTorch 2.6 finds patterns; without compat torch-2.6 it is found";
  return compat_ == Compat::kTorch26 ? "PyTorch 2.6 finds no pattern by the recorded source; without compat torch-2.6 it is found" : "";
}

}  // namespace qdq
