// Rewriting of convolutions in front of batch norms for quantization-aware training.
#include "quant/qat_conv_bn.h"

#include <algorithm>
#include <unordered_map>

#include "base/stable_sort.h"
#include "graph/dead_code.h"
#include "op/facts.h"
#include "op/targets.h"
#include "quant/fold_batch_norm.h"
#include "quant/training_mode.h"

namespace qdq {
namespace {

// What F.batch_norm has if nobody says otherwise, and so PyTorch's patterns.
constexpr double kDefaultEps = 1e-5, kDefaultMomentum = 0.1;

// PyTorch's passes replace nodes by traces of their own, which belong to no module of the model.
const std::vector<ModuleStackEntry> kRoot = {{"L__self__", "", "torch.nn.Module"}};

bool is_parameter(const Node* node) { return node != nullptr && node->op() == Node::Op::kGetAttr; }

// The convolution in front of a batch norm, if the two are to be rewritten.
Node* rewritable_conv(const Node& norm, const Quantizer& quantizer) {
  Node* conv = norm.is(op::kBatchNorm) ? norm.arg(0).node() : nullptr;
  if (conv == nullptr || conv->users().size() != 1 || !quantizer.trains_as_one(*conv, norm)) return nullptr;
  for (size_t i = 1; i <= 4; ++i)
    if (!is_parameter(norm.arg(i).node())) return nullptr;
  if (!is_parameter(conv->arg(1).node()) || (!conv->arg(2).is_none() && !is_parameter(conv->arg(2).node())))
    return nullptr;
  if (is_conv_transpose(*conv) && conv->arg(6).integer().value_or(1) != 1) return nullptr;
  return conv->meta.val.tensor() != nullptr && conv->arg(1).node()->meta.val.tensor() != nullptr ? conv : nullptr;
}

void set_defaults(Node* norm, Compat compat) {
  if (compat != Compat::kTorch26) return;
  norm->set_arg(6, kDefaultMomentum);
  norm->set_arg(7, kDefaultEps);
}

// Builds the nodes of one rewritten convolution in front of its batch norm.
class ConvNormBuilder {
 public:
  ConvNormBuilder(Graph& graph, Node* before) : graph_(graph), point_(graph.insert_before(before)) {}

  Node* call(std::string_view op, std::vector<Argument> args, const ValueMeta& val, Node::Kwargs kwargs = {}) {
    Node* node = graph_.call(op::aten(op), std::move(args), std::move(kwargs));
    node->meta.val = val;
    node->meta.nn_module_stack = kRoot;
    return node;
  }
  // [C] as a tensor of the given rank whose channels lie along the axis.
  Node* along(Node* vector, int64_t rank, int64_t axis) {
    TensorMeta meta = *vector->meta.val.tensor();
    const SymInt channels = meta.sizes.at(0);
    Argument::List shape(static_cast<size_t>(rank), 1);
    meta.sizes = SymShape(static_cast<size_t>(rank), SymInt(1));
    meta.strides.clear();
    shape[static_cast<size_t>(axis)] = -1;
    meta.sizes[static_cast<size_t>(axis)] = channels;
    return call("reshape.default", {vector, std::move(shape)}, {meta});
  }

 private:
  Graph& graph_;
  Graph::InsertPoint point_;
};

// PyTorch's passes put what they write in front of the first reader of what they replace.
Node* first_reader(const Graph& graph, const Node* node) {
  for (Node* reader : graph.nodes())
    if (std::find(node->users().begin(), node->users().end(), reader) != node->users().end()) return reader;
  return nullptr;
}

// Makes a node the last among the readers of its inputs, as if it were made anew.
void renew(Node* node) {
  const std::vector<Argument> args = node->args();
  node->set_args({});
  node->set_args(args);
}

// The same in front of the first reader of `result`.
void renew_before_reader(Graph& graph, Node* node, const Node* result) {
  if (Node* reader = first_reader(graph, result)) graph.move_before(node, reader);
  renew(node);
}

// The passes of PyTorch, each of which looks for one kind: its number in their order.
size_t pass_of(const Node& conv) {
  constexpr std::string_view kPasses[] = {op::kConv1d, op::kConv2d, op::kConvTranspose1d, op::kConvTranspose2d};
  const auto kind =
      std::find_if(std::begin(kPasses), std::end(kPasses), [&](std::string_view target) { return conv.is(target); });
  return 2 * static_cast<size_t>(kind - std::begin(kPasses)) + (conv.arg(2).is_none() ? 1 : 0);
}

QatConvBn rewrite(Graph& graph, Node* norm, Node* conv, Compat compat) {
  Node *weight = conv->arg(1).node(), *bias = conv->arg(2).node(), *gamma = norm->arg(1).node(),
       *var = norm->arg(4).node();
  const auto rank = static_cast<int64_t>(weight->meta.val.tensor()->sizes.size());
  set_defaults(norm, compat);
  norm->set_arg(5, true);
  if (compat == Compat::kTorch26) {
    renew_before_reader(graph, conv, norm);
    renew_before_reader(graph, norm, norm);
  }
  ConvNormBuilder build(graph, norm);
  const ValueMeta channels = gamma->meta.val, image = conv->meta.val;
  Node* sum = build.call("add.Tensor", {var, norm->arg(7).number().value_or(kDefaultEps)}, channels);
  Node* deviation = build.call("sqrt.default", {sum}, channels);
  Node* factor = build.call("div.Tensor", {gamma, deviation}, channels);
  Node* column = build.along(factor, rank, is_conv_transpose(*conv) ? 1 : 0);
  Node* scaled = build.call("mul.Tensor", {weight, column}, weight->meta.val);
  scaled->meta.nn_module_stack = conv->meta.nn_module_stack;
  QatConvBn out{conv->name(), norm->name(), weight->name(), scaled->name(), "", ""};
  conv->set_arg(1, scaled);
  if (conv->args().size() == 2) conv->set_arg(2, Argument());  // PyTorch writes the missing bias out
  if (bias != nullptr) {
    Node* zero = build.call("zeros_like.default", {bias}, bias->meta.val,
                            {{"dtype", conv->meta.val.tensor()->dtype}, {"pin_memory", false}});
    zero->meta.nn_module_stack.clear();
    conv->set_arg(2, zero);
    out.bias = bias->name();
    out.zero_bias = zero->name();
  }
  graph.move_before(conv, norm);
  Node* row = build.along(factor, rank, 1);
  Node* unscaled = build.call("div.Tensor", {conv, row}, image);
  if (bias != nullptr) {
    Node* added = build.along(bias, rank, 1);
    unscaled = build.call("add.Tensor", {unscaled, added}, image);
  }
  norm->set_arg(0, unscaled);
  return out;
}

// The edge (from, conv) is (to, conv) now, in the map of the convolution and wherever a spec names it.
void move_edge(Annotations& annotations, Node* conv, Node* from, Node* to) {
  const Edge old{from, conv}, now{to, conv};
  const auto follow = [&](EdgeOrNode& at) {
    if (const Edge* edge = std::get_if<Edge>(&at); edge != nullptr && *edge == old) at = now;
  };
  const auto follow_spec = [&](QSpec& spec) {
    if (auto* shared = std::get_if<SharedQuantizationSpec>(&spec)) follow(shared->with);
    if (auto* derived = std::get_if<DerivedQuantizationSpec>(&spec))
      for (EdgeOrNode& source : derived->derived_from) follow(source);
  };
  for (auto& [node, annotation] : annotations) {
    for (auto& [input, spec] : annotation.input_qspec_map) {
      if (node == conv && input == from) input = to;
      follow_spec(spec);
    }
    follow_spec(annotation.output_qspec);
  }
}

// The readers of the batch norms that were rewritten name them as they were. Only convolutions that were rewritten in
// the same pass or a later one of the four (each with and without bias) have been told.
void forget_norms(const std::vector<std::pair<Node*, Node*>>& rewritten, Annotations& annotations, Graph& replaced) {
  for (const auto& [conv, norm] : rewritten) {
    Node* before = replaced.create(Node::Op::kCallFunction, norm->target(), {}, {}, norm->name());
    for (auto& [reader, annotation] : annotations) {
      const auto as_conv =
          std::find_if(rewritten.begin(), rewritten.end(), [&](const auto& pair) { return pair.first == reader; });
      if (as_conv != rewritten.end() && pass_of(*as_conv->first) / 2 >= pass_of(*conv) / 2) continue;
      for (auto& [input, spec] : annotation.input_qspec_map)
        if (input == norm) input = before;
    }
  }
}

// The user of `source` on the way to the node, looking through quantize and dequantize operators.
Node* reader_on_the_way(Node* node, size_t argument, const Node* source) {
  Node* input = node->arg(argument).node();
  while (input != source) {
    QDQ_CHECK(input != nullptr && input->op() == Node::Op::kCallFunction, kInternal, "the rewritten weight or bias of ",
              node->name(), " is lost");
    node = input;
    input = node->arg(0).node();
  }
  return node;
}

// The operators that stand between the source and an argument of the node, in order of execution.
std::vector<Node*> on_the_way(const Node* node, size_t argument, const Node* source) {
  std::vector<Node*> out;
  for (Node* input = node->arg(argument).node(); input != source; input = input->arg(0).node())
    out.insert(out.begin(), input);
  return out;
}

// The order in which PyTorch's passes fold: by the kind of convolution, then weights that are quantized per channel,
// then those with a bias, then as they lie in the graph.
std::vector<QatConvBn> in_order_of_passes(const Graph& graph, std::vector<QatConvBn> rewritten) {
  const auto rank = [&](const QatConvBn& names) {
    const Node* conv = graph.find(names.conv);
    if (conv == nullptr) return size_t{0};
    const Node* weight = conv->arg(1).node();
    const bool by_channel = weight != nullptr && weight->is(op::kDequantizeChannels);
    const size_t pass = pass_of(*conv);
    return pass / 2 * 4 + (by_channel ? 0 : 2) + (names.bias.empty() ? 1 : 0);
  };
  std::unordered_map<std::string, size_t> place;
  for (const Node* node : graph.nodes()) place.emplace(node->name(), place.size());
  sort_stably(rewritten, [&](const QatConvBn& a, const QatConvBn& b) { return place[a.norm] < place[b.norm]; });
  sort_stably(rewritten, [&](const QatConvBn& a, const QatConvBn& b) { return rank(a) < rank(b); });
  return rewritten;
}

// num_batches_tracked += 1
bool counts_batches(const Node& node, Compat compat) {
  if (!is_form_of(node, op::kAdd) || !op_of(node)->is_in_place() || !is_parameter(node.arg(0).node()) ||
      node.arg(1).number() != 1 || !node.users().empty())
    return false;
  if (compat == Compat::kNone) return node.arg(0).node()->target().ends_with("num_batches_tracked");
  return std::any_of(node.meta.source_fn_stack.begin(), node.meta.source_fn_stack.end(),
                     [](const auto& source) { return source.second == "torch.nn.modules.batchnorm.BatchNorm2d"; });
}

}  // namespace

std::vector<QatConvBn> fuse_conv_bn_qat(Program& program, Annotations& annotations, const Quantizer& quantizer,
                                        Graph& replaced) {
  Graph& graph = *program.graph;
  std::vector<QatConvBn> out;
  std::vector<std::pair<Node*, Node*>> found;  // convolutions and their batch norms
  const std::vector<Node*> nodes = graph.nodes();
  // The passes begin with what nobody reads.
  if (std::any_of(nodes.begin(), nodes.end(), [](const Node* node) { return node->is(op::kBatchNorm); }) &&
      eliminate_dead_code(program))
    annotations.forget_all_but(graph);
  for (Node* norm : graph.nodes())
    if (Node* conv = rewritable_conv(*norm, quantizer)) found.emplace_back(conv, norm);
  if (quantizer.compat() == Compat::kTorch26)
    sort_stably(found, [](const auto& a, const auto& b) { return pass_of(*a.first) < pass_of(*b.first); });
  for (const auto& [conv, norm] : found) {
    Node *weight = conv->arg(1).node(), *bias = conv->arg(2).node();
    out.push_back(rewrite(graph, norm, conv, quantizer.compat()));
    move_edge(annotations, conv, weight, conv->arg(1).node());
    if (bias != nullptr) move_edge(annotations, conv, bias, conv->arg(2).node());
  }
  if (quantizer.compat() == Compat::kTorch26) forget_norms(found, annotations, replaced);
  return out;
}

void fold_conv_bn_qat(Program& program, const std::vector<QatConvBn>& rewritten, Compat compat) {
  Graph& graph = *program.graph;
  for (const QatConvBn& names : compat == Compat::kTorch26 ? in_order_of_passes(graph, rewritten) : rewritten) {
    Node *conv = graph.find(names.conv), *norm = graph.find(names.norm);
    if (conv == nullptr || norm == nullptr) continue;  // nobody reads them
    Node *weight = graph.find(names.weight), *scaled = graph.find(names.scaled_weight);
    // its pattern has the quantized weight in it
    if (compat == Compat::kTorch26 && conv->arg(1).node() == scaled) continue;
    Node* weight_reader = reader_on_the_way(conv, 1, scaled);
    weight_reader->replace_input_with(scaled, weight);
    Node *bias = nullptr, *bias_reader = conv;
    if (!names.bias.empty()) {
      Node* zero = graph.find(names.zero_bias);
      bias = graph.find(names.bias);
      bias_reader = reader_on_the_way(conv, 2, zero);
      bias_reader->replace_input_with(zero, bias);
    }
    norm->set_arg(0, conv);
    if (Node* reader = compat == Compat::kTorch26 ? first_reader(graph, norm) : nullptr) {
      for (Node* node : on_the_way(conv, 1, weight)) graph.move_before(node, reader);
      if (bias != nullptr)
        for (Node* node : on_the_way(conv, 2, bias)) graph.move_before(node, reader);
      graph.move_before(conv, reader);
      graph.move_before(norm, reader);
    }
    eliminate_dead_code(program);
    fold_batch_norm(program, {conv, weight, weight_reader, bias, bias_reader, norm}, compat);
    if (compat == Compat::kTorch26) renew(conv);  // its literal arguments are copied at the end
  }
  for (Node* node : graph.nodes())
    if (counts_batches(*node, compat)) graph.erase(node);
  eliminate_dead_code(program);
}

bool set_training_mode(Program& program, bool training, Compat compat) {
  bool changed = false;
  const auto set = [&](Node* node, size_t argument) {
    if (!node->arg(argument).is<bool>() || node->arg(argument).as<bool>() == training) return false;
    node->set_arg(argument, training);
    return changed = true;
  };
  for (Node* node : program.graph->nodes()) {
    const bool is_norm = node->is(op::kBatchNorm);
    if (is_norm && has_no_running_statistics(*node)) continue;
    if (!(is_norm && set(node, 5)) && !(is_form_of(*node, op::kDropout) && set(node, 2))) continue;
    if (compat != Compat::kTorch26) continue;
    node->meta.nn_module_stack = kRoot;
    renew_before_reader(*program.graph, node, node);
    if (is_norm) set_defaults(node, compat);
    else node->set_arg(1, 0.5);
  }
  return changed;
}

}  // namespace qdq
