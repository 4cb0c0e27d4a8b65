#include "lower/as_images.h"

#include <algorithm>
#include <string>
#include <utility>

#include "lower/fuse_nodes.h"
#include "op/facts.h"
#include "op/infer.h"
#include "op/targets.h"

namespace qdq {
namespace {

// The value that is quantized and dequantized.
Node* origin_of(Node* x) {
  while (dequantizes_tensor(*x) || quantizes_tensor(*x)) {
    Node* before = x->arg(0).node();
    if (before == nullptr || before->op() == Node::Op::kGetAttr) break;
    x = before;
  }
  return x;
}

// What quantizes or dequantizes a value of a run.
bool rounds_value(const Node& node) {
  return (quantizes_tensor(node) || dequantizes_tensor(node)) && node.arg(0).node()->op() != Node::Op::kGetAttr;
}

}  // namespace

void AsImages::run() {
  const std::vector<Node*> nodes = program_.graph->nodes();
  for (Node* node : nodes) join(*node);
  if (group_of_.empty()) return;
  for (Node* node : nodes)
    if (const auto at = group_of_.find(node); at != group_of_.end()) weigh(*node, groups_[find(at->second)]);
  for (Node* node : nodes)
    if (takes(node)) rewrite(*node);
  for (Node* image : images_) lower_for_others(image);
  program_.graph->eliminate_dead_code();
  program_.erase_unused_attributes();
}

// Groups.

// Each step halves the way that the next call goes.
size_t AsImages::find(size_t group) {
  while (groups_[group].parent != group) {
    size_t& parent = groups_[group].parent;
    parent = groups_[parent].parent;
    group = parent;
  }
  return group;
}

bool AsImages::is_value(const Node* node) const {
  const TensorMeta* meta = node == nullptr ? nullptr : node->meta.val.tensor();
  return meta != nullptr && meta->sizes.size() == rank_ && takes_sizes(meta->sizes);
}

bool AsImages::is_convolution(const Node& node) const {
  if (!node.is(convolution_) || float_meta(node) == nullptr || !is_value(&node)) return false;
  const Node *x = node.arg(0).node(), *weight = node.arg(1).node();
  if (!is_value(x) || float_meta(*x) == nullptr || x->op() == Node::Op::kGetAttr || weight == nullptr) return false;
  const Node* values = weight;
  if (weight->is(op::kDequantizeChannels) || weight->is(op::kDequantize)) values = weight->arg(0).node();
  return values != nullptr && values->op() == Node::Op::kGetAttr &&
         program_.attribute_of(*values).dim() == static_cast<int64_t>(rank_) && takes_convolution(node);
}

// What does to images what it does to values, once its numbers are changed.
bool AsImages::passes(const Node& node) const {
  if (node.op() != Node::Op::kCallFunction) return false;
  if (is_pool(node)) return true;
  if (node.is(op::kCat)) {
    if (!node.arg(1).is_none() && !node.arg(1).integer()) return false;
    return image_axis(wrap_axis(node.arg(1).integer().value_or(0), static_cast<int64_t>(rank_))).has_value();
  }
  return quantizes_tensor(node) || dequantizes_tensor(node) || node.is(op::kBatchNorm) || is_idle_dropout(node) ||
         is_form_of(node, op::kAdd) || is_form_of(node, op::kMul) || activation_function(node).has_value();
}

// Whether operands of other sizes than the result's are nothing strange.
bool AsImages::has_own_shape(const Node& node) const {
  return node.is(op::kCat) || quantizes_tensor(node) || dequantizes_tensor(node) || is_pool(node);
}

// Makes a node part of a group: a convolution, or what has a value of a group as an operand and all of its shape.
void AsImages::join(Node& node) {
  if (is_convolution(node)) return add_to_new_group(node, {node.arg(0).node()});
  if (!is_value(&node) || !passes(node)) return;
  std::vector<Node*> joined;
  for (Node* input : node.input_nodes()) {
    if (node.is(op::kBatchNorm) && input->op() == Node::Op::kGetAttr) continue;
    if (!is_value(input) || input->op() == Node::Op::kGetAttr) return;
    if (!has_own_shape(node) && input->meta.val.tensor()->sizes != node.meta.val.tensor()->sizes) return;
    if (group_of_.count(input) != 0) joined.push_back(input);
    else if (float_meta(*input) == nullptr) return;
  }
  if (!joined.empty()) add_to_new_group(node, joined);
}

void AsImages::add_to_new_group(Node& node, const std::vector<Node*>& with) {
  const size_t group = groups_.size();
  groups_.push_back({group});
  group_of_[&node] = group;
  for (const Node* other : with)
    if (const auto at = group_of_.find(other); at != group_of_.end()) groups_[find(at->second)].parent = find(group);
}

void AsImages::weigh(const Node& node, Group& group) {
  const bool is_layer = node.is(convolution_);
  if (is_layer) {
    ++group.convolutions;
    group.is_quantized = group.is_quantized || dequantizes_tensor(*node.arg(0).node());
  }
  for (Node* input : node.input_nodes()) {
    if (is_layer && input != node.arg(0).node()) continue;
    if (!is_value(input) || rounds_value(node)) continue;
    Node* source = origin_of(input);
    if (group_of_.count(source) == 0 && group.sources.insert(source).second) ++group.borders;
  }
  const std::vector<Node*>& users = node.users();
  const auto is_outside = [&](const Node* user) {
    return group_of_.count(user) == 0 && !quantizes_tensor(*user) && !dequantizes_tensor(*user);
  };
  if (std::any_of(users.begin(), users.end(), is_outside)) ++group.borders;
}

bool AsImages::takes(const Node* node) {
  const auto at = group_of_.find(node);
  if (at == group_of_.end()) return false;
  const Group& group = groups_[find(at->second)];
  return group.is_quantized || (floats_ && group.convolutions >= group.borders);
}

// Rewriting.

void AsImages::lift(Node& node) {
  const SymShape sizes = node.meta.val.tensor()->sizes;
  infer_value(node);
  if (lifted_.emplace(&node, sizes).second) images_.push_back(&node);
}

void AsImages::replace(Node& node, Node* image) {
  lifted_.emplace(image, node.meta.val.tensor()->sizes);
  images_.push_back(image);
  node.replace_all_uses_with(image, [&](Node* user) { return added_.count(user) == 0; });
}

bool AsImages::is_raised(const Node* x) const { return lifted_.count(x) != 0; }

SymShape AsImages::sizes_of(const Node* x) const {
  if (const auto image = lifted_.find(x); image != lifted_.end()) return image->second;
  const TensorMeta* meta = x == nullptr ? nullptr : x->meta.val.tensor();
  return meta == nullptr ? SymShape() : meta->sizes;
}

Node* AsImages::add_call(std::string_view target, std::vector<Argument> args) {
  Node* node = program_.graph->call(std::string(target), std::move(args));
  infer_value(*node);
  added_.insert(node);
  return node;
}

Node* AsImages::raised(Node* x) {
  std::vector<Node*> roundings;  // the last first
  while (!is_raised(x) && rounds_value(*x)) {
    roundings.push_back(x);
    x = x->arg(0).node();
  }
  Node* image = is_raised(x) ? x : image_of(x);
  for (auto rounding = roundings.rbegin(); rounding != roundings.rend(); ++rounding) {
    Node* node = *rounding;
    node->set_arg(0, image);
    lift(*node);
    // All who read the integers read those of the image.
    for (Node* user : node->users())
      if (quantizes_tensor(*node) && dequantizes_tensor(*user)) lift(*user);
    image = node;
  }
  return image;
}

Node* AsImages::image_of(Node* x) {
  const auto known = raised_.find(x);
  if (known != raised_.end()) return known->second;
  Node* behind = x->next();
  while (behind->op() == Node::Op::kPlaceholder || behind->op() == Node::Op::kGetAttr) behind = behind->next();
  const auto point = program_.graph->insert_before(behind);
  Node* image = to_image(x);
  raised_.emplace(x, image);
  return image;
}

const Tensor& AsImages::weight_values(const Node& weight) const {
  return program_.attribute_of(weight.op() == Node::Op::kGetAttr ? weight : *weight.arg(0).node());
}

Node* AsImages::reshaped_weight(Node* weight, Node* before, const Shape& sizes) {
  const auto point = program_.graph->insert_before(before);
  const std::string name = program_.unique_attribute_name(concat("_raised_", weight->name()));
  const Tensor raised = weight_values(*weight).reshape(sizes);
  program_.add_attribute({name, raised, Attribute::Kind::kBuffer});
  Node* constant = program_.graph->get_attr(name);
  TensorMeta meta{raised.dtype(), {}, {}, false};
  meta.sizes.assign(sizes.begin(), sizes.end());
  constant->meta.val.value = std::move(meta);
  if (weight->op() == Node::Op::kGetAttr) return constant;
  std::vector<Argument> args = weight->args();
  args[0] = constant;
  Node* dequantized = program_.graph->call(weight->target(), std::move(args), weight->kwargs());
  infer_value(*dequantized);
  return dequantized;
}

void AsImages::rewrite(Node& node) {
  if (is_raised(&node)) return;
  if (node.is(convolution_)) return rewrite_convolution(node);
  if (is_pool(node)) return rewrite_pool(node);
  if (node.is(op::kCat)) {
    Argument::List values;
    for (const Argument& value : node.arg(0).list()) values.emplace_back(raised(value.node()));
    node.set_arg(0, Argument(std::move(values)));
    node.set_arg(1, *image_axis(wrap_axis(node.arg(1).integer().value_or(0), static_cast<int64_t>(rank_))));
  } else {
    for (size_t i = 0; i < node.args().size(); ++i)
      if (Node* input = node.arg(i).node(); input != nullptr && input->op() != Node::Op::kGetAttr)
        node.set_arg(i, raised(input));
  }
  lift(node);
}

// The value again for the users that stayed as they were.
void AsImages::lower_for_others(Node* image) {
  const auto stays = [&](const Node* user) { return lifted_.count(user) == 0 && added_.count(user) == 0; };
  const std::vector<Node*> users = image->users();
  if (std::none_of(users.begin(), users.end(), stays)) return;
  const auto point = program_.graph->insert_after(image);
  Node* value = from_image(image, lifted_.at(image));
  image->replace_all_uses_with(value, stays);
}

}  // namespace qdq
