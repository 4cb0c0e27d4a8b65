// Source partitions: grouping nodes by what export recorded about their origin.
#include "graph/source_partition.h"

#include <algorithm>
#include <unordered_set>

namespace qdq {

namespace {

// Where the classes of torch.nn lie.
constexpr std::pair<std::string_view, std::string_view> kModules[] = {
    {"conv.", "Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d"},
    {"linear.", "Identity Linear Bilinear"},
    {"batchnorm.", "BatchNorm1d BatchNorm2d BatchNorm3d"},
    {"normalization.", "LayerNorm GroupNorm LocalResponseNorm RMSNorm"},
    {"instancenorm.", "InstanceNorm1d InstanceNorm2d InstanceNorm3d"},
    {"activation.",
     "ReLU ReLU6 LeakyReLU PReLU ELU SELU CELU GELU SiLU Mish Hardswish Hardsigmoid Hardtanh Sigmoid Tanh Softmax "
     "LogSoftmax Softplus "
     "Softsign Threshold GLU MultiheadAttention"},
    {"pooling.",
     "AvgPool1d AvgPool2d AvgPool3d MaxPool1d MaxPool2d MaxPool3d AdaptiveAvgPool1d AdaptiveAvgPool2d "
     "AdaptiveAvgPool3d "
     "AdaptiveMaxPool1d AdaptiveMaxPool2d AdaptiveMaxPool3d"},
    {"sparse.", "Embedding EmbeddingBag"},
    {"dropout.", "Dropout Dropout1d Dropout2d Dropout3d AlphaDropout"},
    {"rnn.", "RNN GRU LSTM RNNCell GRUCell LSTMCell"},
    {"pixelshuffle.", "PixelShuffle PixelUnshuffle"},
    {"upsampling.", "Upsample UpsamplingNearest2d UpsamplingBilinear2d"},
    {"flatten.", "Flatten Unflatten"},
    {"container.", "Sequential ModuleList ModuleDict"},
};

struct PublicName {
  std::string_view name, recorded;
};
constexpr PublicName kPublicNames[] = {
    {"torch.nn.functional.linear", "torch._C._nn.linear"},
    {"torch.nn.functional.conv1d", "torch.conv1d"},
    {"torch.nn.functional.conv2d", "torch.conv2d"},
    {"torch.nn.functional.conv3d", "torch.conv3d"},
    {"torch.nn.functional.conv_transpose1d", "torch.conv_transpose1d"},
    {"torch.nn.functional.conv_transpose2d", "torch.conv_transpose2d"},
    {"torch.nn.functional.conv_transpose3d", "torch.conv_transpose3d"},
    {"torch.nn.functional.avg_pool1d", "torch.avg_pool1d"},
    {"torch.nn.functional.avg_pool3d", "torch._C._nn.avg_pool3d"},
    {"torch.nn.functional.adaptive_avg_pool1d", "torch.adaptive_avg_pool1d"},
    {"torch.nn.functional.pixel_shuffle", "torch.pixel_shuffle"},
    {"torch.nn.functional.pixel_unshuffle", "torch.pixel_unshuffle"},
    {"torch.nn.functional.prelu", "torch.prelu"},
    {"torch.nn.functional.gelu", "torch._C._nn.gelu"},
    {"torch.nn.functional.pad", "torch._C._nn.pad"},
    {"torch.nn.functional.avg_pool2d", "torch._C._nn.avg_pool2d"},
    {"torch.nn.functional.relu_", "torch.relu_"},
    {"torch.nn.functional.hardtanh_", "torch._C._nn.hardtanh_"},
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
  constexpr std::string_view kClasses = "torch.nn.", kOperators = "operator.";
  if (public_name.starts_with(kOperators)) return concat("_", public_name);
  const std::string_view name = public_name.substr(std::min(public_name.size(), kClasses.size()));
  if (public_name.starts_with(kClasses) && name.find('.') == std::string_view::npos)
    for (const auto& [module, classes] : kModules)
      if (concat(" ", classes, " ").find(concat(" ", name, " ")) != std::string::npos)
        return concat("torch.nn.modules.", module, name);
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

std::vector<SourcePartition> get_source_partitions(const Graph& graph, const std::vector<std::string>& wanted_sources,
                                                   const NodeFilter& filter) {
  struct BySource {
    std::string source;
    std::vector<std::pair<std::string, SourcePartition>> calls;
  };
  std::vector<BySource> groups;
  for (Node* node : graph.nodes()) {
    const auto [source, name] = source_of(*node);
    if (source.empty() || std::find(wanted_sources.begin(), wanted_sources.end(), source) == wanted_sources.end())
      continue;
    auto group = std::find_if(groups.begin(), groups.end(), [&](const BySource& g) { return g.source == source; });
    if (group == groups.end()) group = groups.insert(groups.end(), BySource{source, {}});
    auto call = std::find_if(group->calls.begin(), group->calls.end(), [&](const auto& c) { return c.first == name; });
    if (call == group->calls.end())
      call = group->calls.insert(group->calls.end(), {name, SourcePartition{source, {}, {}, {}, {}}});
    call->second.nodes.push_back(node);
  }
  std::vector<SourcePartition> out;
  for (BySource& group : groups)
    for (auto& [name, partition] : group.calls) {
      if (filter &&
          !std::all_of(partition.nodes.begin(), partition.nodes.end(), [&](const Node* n) { return filter(*n); }))
        continue;
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

std::vector<std::vector<SourcePartition>> find_sequential_partitions(const Graph& graph,
                                                                     const std::vector<std::string>& sources,
                                                                     const NodeFilter& filter) {
  std::vector<std::vector<SourcePartition>> chains = {{}};
  std::vector<std::string> seen;
  for (const std::string& source : sources) {
    const std::vector<std::string> wanted = equivalent_sources(source);
    for (const std::string& name : wanted)
      QDQ_CHECK(std::find(seen.begin(), seen.end(), name) == seen.end(), kInvalidArgument, "the pattern contains ",
                source, " and an equivalent of it; every source of a sequence must be different");
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
