// Source partitions: grouping nodes by what export recorded about their origin.
#include "graph/source_partition.h"

#include <algorithm>
#include <array>
#include <unordered_set>

namespace qdq {

namespace {

struct PublicName {
  std::string_view name, recorded;
};
constexpr PublicName kPublicNames[] = {
    {"torch.nn.Conv1d", "torch.nn.modules.conv.Conv1d"},
    {"torch.nn.Conv2d", "torch.nn.modules.conv.Conv2d"},
    {"torch.nn.Conv3d", "torch.nn.modules.conv.Conv3d"},
    {"torch.nn.ConvTranspose1d", "torch.nn.modules.conv.ConvTranspose1d"},
    {"torch.nn.ConvTranspose2d", "torch.nn.modules.conv.ConvTranspose2d"},
    {"torch.nn.Linear", "torch.nn.modules.linear.Linear"},
    {"torch.nn.BatchNorm1d", "torch.nn.modules.batchnorm.BatchNorm1d"},
    {"torch.nn.BatchNorm2d", "torch.nn.modules.batchnorm.BatchNorm2d"},
    {"torch.nn.MaxPool2d", "torch.nn.modules.pooling.MaxPool2d"},
    {"torch.nn.AvgPool2d", "torch.nn.modules.pooling.AvgPool2d"},
    {"torch.nn.AdaptiveAvgPool2d", "torch.nn.modules.pooling.AdaptiveAvgPool2d"},
    {"torch.nn.ReLU", "torch.nn.modules.activation.ReLU"},
    {"torch.nn.ReLU6", "torch.nn.modules.activation.ReLU6"},
    {"torch.nn.LeakyReLU", "torch.nn.modules.activation.LeakyReLU"},
    {"torch.nn.Hardtanh", "torch.nn.modules.activation.Hardtanh"},
    {"torch.nn.Hardswish", "torch.nn.modules.activation.Hardswish"},
    {"torch.nn.SiLU", "torch.nn.modules.activation.SiLU"},
    {"torch.nn.Tanh", "torch.nn.modules.activation.Tanh"},
    {"torch.nn.GELU", "torch.nn.modules.activation.GELU"},
    {"torch.nn.MultiheadAttention", "torch.nn.modules.activation.MultiheadAttention"},
    {"torch.nn.Embedding", "torch.nn.modules.sparse.Embedding"},
    {"torch.nn.LayerNorm", "torch.nn.modules.normalization.LayerNorm"},
    {"torch.nn.GRU", "torch.nn.modules.rnn.GRU"},
    {"torch.nn.LSTM", "torch.nn.modules.rnn.LSTM"},
    {"torch.nn.functional.linear", "torch._C._nn.linear"},
    {"torch.nn.functional.conv1d", "torch.conv1d"},
    {"torch.nn.functional.conv2d", "torch.conv2d"},
    {"torch.nn.functional.avg_pool2d", "torch._C._nn.avg_pool2d"},
    {"torch.nn.functional.relu_", "torch.relu_"},
    {"torch.nn.functional.hardtanh_", "torch._C._nn.hardtanh_"},
    {"operator.add", "_operator.add"},
    {"operator.iadd", "_operator.iadd"},
    {"operator.mul", "_operator.mul"},
    {"operator.imul", "_operator.imul"},
};

const std::vector<std::vector<std::string>>& equivalence_classes() {
  static const std::vector<std::vector<std::string>> classes = {
      {"torch.nn.modules.conv.Conv1d", "torch.conv1d"},
      {"torch.nn.modules.conv.Conv2d", "torch.conv2d"},
      {"torch.nn.modules.pooling.AdaptiveAvgPool2d", "torch.nn.functional.adaptive_avg_pool2d"},
      {"torch.nn.modules.activation.ReLU", "torch.nn.functional.relu", "torch.relu_"},
      {"torch.nn.modules.batchnorm.BatchNorm2d", "torch.nn.functional.batch_norm"},
      {"torch.nn.modules.activation.Hardtanh", "torch.nn.functional.hardtanh", "torch._C._nn.hardtanh_"},
      {"torch.add", "_operator.add", "_operator.iadd", "add", "add_"},
      {"torch.mul", "_operator.mul", "_operator.imul", "mul", "mul_"},
  };
  return classes;
}

// (source, name of the call) of a node; both empty if nothing is recorded.
std::pair<std::string, std::string> source_of(const Node& node) {
  if (!node.meta.source_fn_stack.empty()) {
    const auto& [name, source] = node.meta.source_fn_stack.back();
    return {source, name};
  }
  const std::string& record = node.meta.torch_fn;  // "conv2d_1;builtin_function_or_method.conv2d"
  const size_t semicolon = record.find(';');
  if (semicolon == std::string::npos) return {};
  const size_t dot = record.find('.', semicolon);
  if (dot == std::string::npos) return {};
  const size_t end = record.find('.', dot + 1);
  return {record.substr(dot + 1, end == std::string::npos ? end : end - dot - 1), record.substr(0, semicolon)};
}

void find_borders(SourcePartition& partition) {
  const std::unordered_set<const Node*> inside(partition.nodes.begin(), partition.nodes.end());
  const auto add_once = [](std::vector<Node*>& list, Node* node) {
    if (std::find(list.begin(), list.end(), node) == list.end()) list.push_back(node);
  };
  for (Node* node : partition.nodes) {
    if (node->op() == Node::Op::kGetAttr) partition.params.push_back(node);
    // Only direct arguments count: PyTorch does not look into lists here.
    for (const Argument& argument : node->args())
      if (Node* input = argument.node(); input && !inside.count(input)) add_once(partition.input_nodes, input);
    for (Node* user : node->users())
      if (!inside.count(user)) add_once(partition.output_nodes, node);
  }
}

}  // namespace

std::string source_name(std::string_view public_name) {
  for (const auto& [name, recorded] : kPublicNames)
    if (name == public_name) return std::string(recorded);
  return std::string(public_name);
}

std::vector<std::string> equivalent_sources(const std::string& source) {
  std::vector<std::string> out = {source};
  for (const auto& members : equivalence_classes())
    if (std::find(members.begin(), members.end(), source) != members.end())
      for (const std::string& member : members)
        if (member != source) out.push_back(member);
  return out;
}

std::vector<SourcePartition> get_source_partitions(const Graph& graph, const std::vector<std::string>& wanted_sources, const NodeFilter& filter) {
  struct BySource {
    std::string source;
    std::vector<std::pair<std::string, SourcePartition>> calls;
  };
  std::vector<BySource> groups;
  for (Node* node : graph.nodes()) {
    const auto [source, name] = source_of(*node);
    if (source.empty() || std::find(wanted_sources.begin(), wanted_sources.end(), source) == wanted_sources.end()) continue;
    auto group = std::find_if(groups.begin(), groups.end(), [&](const BySource& g) { return g.source == source; });
    if (group == groups.end()) group = groups.insert(groups.end(), BySource{source, {}});
    auto call = std::find_if(group->calls.begin(), group->calls.end(), [&](const auto& c) { return c.first == name; });
    if (call == group->calls.end()) call = group->calls.insert(group->calls.end(), {name, SourcePartition{source, {}, {}, {}, {}}});
    call->second.nodes.push_back(node);
  }
  std::vector<SourcePartition> out;
  for (BySource& group : groups)
    for (auto& [name, partition] : group.calls) {
      if (filter && !std::all_of(partition.nodes.begin(), partition.nodes.end(), [&](const Node* n) { return filter(*n); })) continue;
      find_borders(partition);
      out.push_back(std::move(partition));
    }
  return out;
}

bool are_connected(const SourcePartition& first, const SourcePartition& second) {
  for (const Node* node : first.nodes)
    for (Node* user : node->users())
      if (std::find(second.nodes.begin(), second.nodes.end(), user) != second.nodes.end()) return true;
  return false;
}

std::vector<std::vector<SourcePartition>> find_sequential_partitions(const Graph& graph, const std::vector<std::string>& sources,
                                                                     const NodeFilter& filter) {
  std::vector<std::vector<SourcePartition>> chains = {{}};
  std::vector<std::string> seen;
  for (const std::string& source : sources) {
    const std::vector<std::string> wanted = equivalent_sources(source);
    for (const std::string& name : wanted)
      QDQ_CHECK(std::find(seen.begin(), seen.end(), name) == seen.end(), kInvalidArgument, "the pattern contains ", source,
                " and an equivalent of it; every source of a sequence must be different");
    seen.insert(seen.end(), wanted.begin(), wanted.end());
    const std::vector<SourcePartition> partitions = get_source_partitions(graph, wanted, filter);
    std::vector<std::vector<SourcePartition>> longer;
    for (const auto& chain : chains)
      for (const SourcePartition& partition : partitions)
        if (chain.empty() || are_connected(chain.back(), partition)) {
          longer.push_back(chain);
          longer.back().push_back(partition);
        }
    chains = std::move(longer);
  }
  return chains;
}

}  // namespace qdq
