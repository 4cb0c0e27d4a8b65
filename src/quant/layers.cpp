#include "quant/layers.h"

#include <algorithm>

#include "op/facts.h"

namespace qdq {

std::vector<QuantizedLayer> quantized_layers(const Prepared& prepared) {
  const Prepared::Impl& impl = Prepared::Impl::of(prepared);
  std::vector<QuantizedLayer> out;
  for (const Node* node : impl.program.graph->nodes()) {
    const Node* weight = weight_of(*node);
    const bool convolves = is_a(*node, Family::kConvolution) || is_a(*node, Family::kTransposedConvolution);
    if (weight == nullptr || !(convolves || is_a(*node, Family::kLinear))) continue;
    const auto group = impl.group_of_module(*weight);
    if (!group || impl.of_constants.count(impl.groups[*group].observer.get()) == 0) continue;
    const TensorMeta* value = node->meta.val.tensor();
    if (value == nullptr || value->sizes.empty()) continue;
    out.push_back({node, *group, convolves ? 1 : static_cast<int64_t>(value->sizes.size()) - 1});
  }
  return out;
}

bool has_few_integers(const Observer& observer) {
  constexpr int64_t kMost = 31;
  return quantizes_statically(observer) && observer.quant_max() - observer.quant_min() <= kMost;
}

bool is_plain_convolution(const Node& node) {
  const OpDef* op = op_of(node);
  return op != nullptr && op->family == Family::kConvolution && op->spatial_axes > 0;
}
bool is_linear(const Node& node) {
  const OpDef* op = op_of(node);
  return op != nullptr && op->family == Family::kLinear && op->roles.weight_axis == 0;
}

bool multiplies_tensors(const Node& node) {
  for (const Family family : {Family::kConvolution, Family::kTransposedConvolution, Family::kLinear, Family::kMatmul,
                              Family::kAttention, Family::kRecurrent, Family::kEmbedding, Family::kControlFlow})
    if (is_a(node, family)) return true;
  return false;
}

void erase_observers(Prepared::Impl& impl, const std::vector<Node*>& modules, const std::string& reason) {
  std::vector<Node*> around;
  for (Node* node : modules) {
    Node* value = node->arg(0).node();
    around.push_back(value);
    around.insert(around.end(), node->users().begin(), node->users().end());
    std::erase(impl.groups[*impl.group_of_module(*node)].inserted_as, node->name());
    impl.modules.erase(node->target());
    node->replace_all_uses_with(value);
    std::erase(around, node);
    impl.program.graph->erase(node);
  }
  const auto is_observer = [&](const Node* node) { return impl.group_of_module(*node).has_value(); };
  for (const Node* node : around) {
    const std::vector<Node*> inputs = node->input_nodes();
    if (node->op() == Node::Op::kCallFunction && std::none_of(inputs.begin(), inputs.end(), is_observer) &&
        std::none_of(node->users().begin(), node->users().end(), is_observer))
      impl.annotations.note(node, {"", "", true, reason});
  }
  impl.interpreter.reset();
}

void erase_unseen_observers(Prepared& prepared) {
  Prepared::Impl& impl = Prepared::Impl::of(prepared);
  impl.unreached = prepared.values_without_data();
  std::vector<Node*> modules;
  for (Node* node : impl.program.graph->nodes())
    if (const auto group = impl.group_of_module(*node); group && impl.is_unseen(*group)) modules.push_back(node);
  if (!modules.empty()) erase_observers(impl, modules, "no sample of the calibration has reached it");
}

const Argument& argument_called(const Node& node, std::string_view name) {
  const auto& arguments = op_of(node)->schema->arguments;
  const auto found = std::find_if(arguments.begin(), arguments.end(), [&](const auto& a) { return a.name == name; });
  QDQ_CHECK(found != arguments.end(), kInternal, node.name(), " has no argument ", name);
  return argument_of(node, static_cast<size_t>(found - arguments.begin()));
}

std::optional<OwnConstant> own_constant(const Prepared::Impl& impl, const Node* argument) {
  OwnConstant out;
  for (; argument != nullptr; argument = argument->arg(0).node()) {
    if (argument->users().size() != 1) return std::nullopt;
    if (argument->op() == Node::Op::kGetAttr) break;
    out.observer = impl.group_of_module(*argument);
    if (!out.observer || impl.groups[*out.observer].inserted_as.size() != 1 || !impl.takes_range(*out.observer) ||
        impl.of_constants.count(impl.groups[*out.observer].observer.get()) == 0)
      return std::nullopt;
  }
  if (argument == nullptr) return std::nullopt;
  out.name = argument->target();
  int64_t readers = 0;
  for (const Node* node : impl.program.graph->nodes())
    readers += node->op() == Node::Op::kGetAttr && node->target() == out.name;
  const bool plain = impl.program.attribute_of(*argument).dtype() == DType::kF32;
  return readers == 1 && plain ? std::optional(out) : std::nullopt;
}

void undo(Prepared::Impl& impl, const OwnBias& bias) {
  if (bias.added == nullptr) {
    impl.program.find_attribute(bias.name)->tensor = bias.before;
    return;
  }
  bias.layer->set_args(bias.old_args);
  bias.layer->set_kwargs(bias.old_kwargs);
  impl.program.graph->erase(bias.added);
  impl.program.erase_attribute(bias.name);
}

void keep(Prepared::Impl& impl, const OwnBias& bias) {
  const Tensor& now = impl.program.find_attribute(bias.name)->tensor;
  const Tensor zeros = Tensor::empty(now.sizes(), now.dtype());
  impl.float_constants.try_emplace(bias.name, bias.before.defined() ? bias.before : zeros);
}

std::optional<OwnBias> own_bias(Prepared::Impl& impl, const Node& of, int64_t channels) {
  Node& layer = *impl.program.graph->find(of.name());
  OwnBias out;
  out.layer = &layer;
  const OpDef* op = op_of(layer);
  if (op->roles.bias < 0) return std::nullopt;
  const auto index = static_cast<size_t>(op->roles.bias);
  const Argument& given = argument_of(layer, index);
  Node* node = given.node();
  if (node == nullptr ? !given.is_none() : node->op() != Node::Op::kGetAttr) return std::nullopt;
  if (of.meta.val.tensor() == nullptr || of.meta.val.tensor()->dtype != DType::kF32) return std::nullopt;
  if (node != nullptr) {
    int64_t readers = 0;
    for (const Node* other : impl.program.graph->nodes())
      if (other->op() == Node::Op::kGetAttr && other->target() == node->target())
        readers += static_cast<int64_t>(other->users().size());
    Attribute* attribute = impl.program.find_attribute(node->target());
    if (attribute->tensor.dtype() != DType::kF32 || attribute->tensor.numel() != channels) return std::nullopt;
    out.name = attribute->name;
    out.before = attribute->tensor;
    if (readers == 1) return out;
  }
  const Node* weight = weight_of(layer);
  while (weight->op() == Node::Op::kCallModule) weight = weight->arg(0).node();
  const std::string name = impl.program.unique_attribute_name(weight->target() + "_bias");
  const Tensor zeros = Tensor::empty({channels}, DType::kF32);
  impl.program.add_attribute(
      {name, node ? impl.program.attribute_of(*node) : zeros, Attribute::Kind::kParameter, true, false});
  Node* reader = nullptr;
  {
    const auto point = impl.program.graph->insert_before(impl.program.graph->first());
    reader = impl.program.graph->get_attr(name, node_name_of(name));
    reader->meta.val.value = TensorMeta{DType::kF32, {SymInt(channels)}, {}, false};
  }
  out.name = name;
  out.added = reader;
  out.old_args = layer.args();
  out.old_kwargs = layer.kwargs();
  if (index < layer.args().size() || layer.kwarg(op->schema->arguments[index].name) == nullptr) {
    layer.set_arg(index, reader);
  } else {
    Node::Kwargs kwargs = layer.kwargs();
    for (auto& [key, value] : kwargs)
      if (key == op->schema->arguments[index].name) value = reader;
    layer.set_kwargs(std::move(kwargs));
  }
  return out;
}

}  // namespace qdq
