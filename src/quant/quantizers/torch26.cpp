// The rules of PyTorch 2.6 for both quantizers, and how it finds operators by their sources.
#include "quant/quantizers/torch26.h"

#include <algorithm>

namespace qdq {

namespace {

struct SourcesOfOperator {
  std::string_view name;  // with an overload, or for all of them and the in-place forms
  std::string_view module, function = {};
};
constexpr SourcesOfOperator kSources[] = {
    {"aten.conv2d.default", "torch.nn.modules.conv.Conv2d", "torch.conv2d"},
    {"aten.linear.default", "torch.nn.modules.linear.Linear", "torch._C._nn.linear"},
    {"aten.max_pool2d.default", "torch.nn.modules.pooling.MaxPool2d", "torch.nn.functional.max_pool2d"},
    {"aten.avg_pool2d.default", "torch.nn.modules.pooling.AvgPool2d", "torch._C._nn.avg_pool2d"},
    {"aten.adaptive_avg_pool2d.default", "torch.nn.modules.pooling.AdaptiveAvgPool2d",
     "torch.nn.functional.adaptive_avg_pool2d"},
    {"aten.cat.default", "torch.cat"},
    {"aten.flatten.using_ints", "torch.flatten"},
    {"aten.matmul.default", "torch.matmul"},
    {"aten.batch_norm.default", "torch.nn.modules.batchnorm.BatchNorm2d"},
    {"aten.add", "_operator.add"},
    {"aten.relu", "torch.nn.modules.activation.ReLU"},
    {"aten.hardtanh", "torch.nn.modules.activation.Hardtanh"},
    {"aten.hardswish", "torch.nn.modules.activation.Hardswish"},
    {"aten.relu6", "torch.nn.modules.activation.ReLU6"},
    {"aten.silu", "torch.nn.modules.activation.SiLU"},
    {"aten.leaky_relu", "torch.nn.modules.activation.LeakyReLU"},
    {"aten.tanh", "torch.nn.modules.activation.Tanh"},
    {"aten.gelu", "torch.nn.modules.activation.GELU"},
};

using Chains = std::optional<std::vector<PatternChain>>;

// The sources of operators, or of their modules where there are any, each once.
std::vector<std::string> modules_of(std::string_view operators) {
  std::vector<std::string> out;
  for (const std::string_view name : words_of(operators))
    if (std::string module = sources_of_operator(name).at(0); std::find(out.begin(), out.end(), module) == out.end())
      out.push_back(std::move(module));
  return out;
}

void check_end(const SourcePartition& partition, std::string_view operators) {
  QDQ_CHECK(!partition.output_nodes.empty() && is_one_of(*partition.output_nodes[0], operators), kInvalidArgument,
            "the nodes that came from ", partition.source, " do not end in torch.ops.", operators);
}

Node* output_of(const SourcePartition& partition) {
  QDQ_CHECK(partition.output_nodes.size() == 1, kInvalidArgument, "the nodes that came from one call of ",
            partition.source, " have ", partition.output_nodes.size(),
            " outputs instead of one, which PyTorch 2.6 refuses");
  return partition.output_nodes[0];
}

constexpr std::string_view kFoundBySource = "aten.adaptive_avg_pool2d.default aten.cat.default";

// _annotate_cat and _annotate_adaptive_avg_pool2d ask get_source_partitions; all others look at operators.
Chains find_as_xnnpack(const Graph& graph, const PatternRow& row, size_t, const NodeFilter& passes) {
  const std::string_view name = row.places[0].operators;
  if (kFoundBySource.find(name) == std::string_view::npos) return std::nullopt;
  std::vector<PatternChain> out;
  for (const SourcePartition& partition : get_source_partitions(graph, sources_of_operator(name), passes)) {
    check_end(partition, name);
    out.push_back({partition.output_nodes[0]});
  }
  return out;
}

// Convolutions and linears are found by get_source_partitions, and with what follows them by
// find_sequential_partitions, which is asked for one activation after the other. All else is found by its operator.
Chains find_as_x86(const Graph& graph, const PatternRow& row, size_t length, const NodeFilter&) {
  const std::string_view first = row.places[0].operators;
  if (first != "aten.conv2d.default" && first != "aten.linear.default") return std::nullopt;
  std::vector<PatternChain> out;
  if (length == 1) {
    for (const SourcePartition& partition : get_source_partitions(graph, sources_of_operator(first))) {
      out.push_back({output_of(partition)});
      check_end(partition, first);
    }
    return out;
  }
  std::vector<std::string> sources;
  for (size_t i = 0; i + 1 < length; ++i) sources.push_back(modules_of(row.places[i].operators)[0]);
  for (const std::string& last : modules_of(row.places[length - 1].operators)) {
    sources.push_back(last);
    for (const auto& partitions : find_sequential_partitions(graph, sources)) {
      PatternChain chain;
      for (const SourcePartition& partition : partitions) chain.push_back(output_of(partition));
      out.push_back(std::move(chain));
    }
    sources.pop_back();
  }
  return out;
}

// _annotate_all_... with _get_module_name_filter, _get_module_type_filter and _get_not_module_type_or_name_filter
bool overlap(const std::vector<ConfigSetting>& module_names, const std::vector<ConfigSetting>& module_types,
             const ConfigSetting& setting, const Node& node) {
  bool in_any = false;
  for (const ConfigSetting& s : module_names) {
    if (&s == &setting) return is_in_module(node, s.first);
    in_any = in_any || is_in_module(node, s.first);
  }
  for (const ConfigSetting& s : module_types) {
    if (&s == &setting) return is_in_module_type(node, s.first);
    in_any = in_any || is_in_module_type(node, s.first);
  }
  return !in_any;  // the global setting
}

void check_recurrent(const SourcePartition& call) {
  QDQ_CHECK(call.input_nodes.size() >= 2, kInvalidArgument,
            "PyTorch 2.6 refuses a GRU whose first state is not given, like that of ", call.nodes.front()->name(),
            "; without \"compat\": \"torch-2.6\" it stays in float");
  QDQ_CHECK(call.output_nodes.size() == 2, kInvalidArgument, "a GRU has two outputs, but here ",
            call.output_nodes.size(), " of its nodes are used outside of it");
}

constexpr XnnpackRules kXnnpack{.matching = {.find = find_as_xnnpack,
                                             .parameters_are_members = true,
                                             .takes_positions = true,
                                             .takes_computed_weights = true,
                                             .check_recurrent = check_recurrent},
                                .reaches = overlap,
                                .ignores_operator_types = true,
                                .global_says_dynamic = true,
                                .refuses_float_modules = true,
                                .found_by_source = kFoundBySource};

constexpr X86Rules kX86{.matching = {.find = find_as_x86,
                                     .fuses_what_others_read = true,
                                     .refuses_numbers = true,
                                     .asks_for_readers_first = true,
                                     .takes_positions = true,
                                     .takes_computed_weights = true},
                        .is_in_module = is_in_module,
                        .refuses_several_operators = true,
                        .finds_by_source = true};

}  // namespace

const XnnpackRules& xnnpack_rules(Compat compat) {
  static constexpr XnnpackRules own;
  return compat == Compat::kTorch26 ? kXnnpack : own;
}

const X86Rules& x86_rules(Compat compat) {
  static constexpr X86Rules own;
  return compat == Compat::kTorch26 ? kX86 : own;
}

std::string not_found_by_source(const Node& node) {
  if (node.meta.source_fn_stack.empty())
    return "the export recorded no source for it (non-strict), by which PyTorch 2.6 finds patterns; without compat "
           "torch-2.6 it is found";
  return concat("PyTorch 2.6 has no pattern for its recorded source ", node.meta.source_fn_stack.back().second,
                "; without compat torch-2.6 it is found");
}

std::vector<std::string> sources_of_operator(std::string_view name) {
  std::vector<std::string> out;
  for (const SourcesOfOperator& known : kSources) {
    if (!stands_for(known.name, name)) continue;
    out.emplace_back(known.module);
    if (!known.function.empty()) out.emplace_back(known.function);
  }
  return out;
}

std::string_view operator_of_source(std::string_view source) {
  for (const SourcesOfOperator& known : kSources)
    if (source == known.module || source == known.function) return known.name;
  return {};
}

}  // namespace qdq
