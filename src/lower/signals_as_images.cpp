#include "lower/signals_as_images.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "lower/fuse_nodes.h"
#include "op/facts.h"
#include "op/infer.h"
#include "op/targets.h"

namespace qdq {
namespace {

// Of the family those that pool a signal.
constexpr std::string_view kMaxPool1d = "torch.ops.aten.max_pool1d.default",
                           kAvgPool1d = "torch.ops.aten.avg_pool1d.default";

bool is_signal(const Node* node) {
  const TensorMeta* meta = node == nullptr ? nullptr : node->meta.val.tensor();
  return meta != nullptr && meta->sizes.size() == 3;
}

std::optional<int64_t> single(const Argument& argument, int64_t if_none) {
  if (argument.is_none() || (argument.is_list() && argument.list().empty())) return if_none;
  if (argument.is_list()) return argument.list().size() == 1 ? argument.list()[0].integer() : std::nullopt;
  return argument.integer();
}

// A list for two axes, of which the first is of one element.
Argument pair(int64_t first, int64_t second) { return Argument::List{first, second}; }

class SignalsAsImages {
 public:
  SignalsAsImages(Program& program, bool floats) : program_(program), floats_(floats) {}

  void run() {
    const std::vector<Node*> nodes = program_.graph->nodes();
    for (Node* node : nodes) join(*node);
    if (group_of_.empty()) return;
    for (Node* node : nodes)
      if (const auto at = group_of_.find(node); at != group_of_.end()) weigh(*node, groups_[find(at->second)]);
    for (Node* node : nodes)
      if (takes(node)) rewrite(*node);
    for (Node* node : nodes)
      if (lifted_.count(node) != 0) lower_for_others(*node);
    program_.graph->eliminate_dead_code();
    program_.erase_unused_attributes();
  }

 private:
  // Operators that hang together, by union of their indices.
  struct Group {
    size_t parent = 0;
    int64_t convolutions = 0, borders = 0;
    bool is_quantized = false;
    std::unordered_set<const Node*> sources{};
  };

  size_t find(size_t group) {
    while (groups_[group].parent != group) group = groups_[group].parent;
    return group;
  }

  bool is_convolution(const Node& node) const {
    if (!node.is(op::kConv1d) || float_meta(node) == nullptr || !is_signal(&node)) return false;
    const Node *x = node.arg(0).node(), *weight = node.arg(1).node();
    if (!is_signal(x) || float_meta(*x) == nullptr || x->op() == Node::Op::kGetAttr) return false;
    for (const size_t i : {size_t{3}, size_t{4}, size_t{5}})
      if (!single(node.arg(i), 1)) return false;
    const Node* values = weight;
    if (weight != nullptr && (weight->is(op::kDequantizeChannels) || weight->is(op::kDequantize)))
      values = weight->arg(0).node();
    return values != nullptr && values->op() == Node::Op::kGetAttr && program_.attribute_of(*values).dim() == 3;
  }

  // What does to images what it does to signals, once its numbers are changed.
  bool passes(const Node& node) const {
    if (node.op() != Node::Op::kCallFunction) return false;
    if (node.is(kMaxPool1d) || node.is(kAvgPool1d)) {
      for (const size_t i : {size_t{1}, size_t{2}, size_t{3}})
        if (!single(node.arg(i), 1)) return false;
      return !node.is(kMaxPool1d) || single(node.arg(4), 1).has_value();
    }
    if (node.is(op::kCat)) return node.arg(1).integer().has_value() || node.arg(1).is_none();
    return quantizes_tensor(node) || dequantizes_tensor(node) || node.is(op::kBatchNorm) || is_idle_dropout(node) ||
           is_form_of(node, op::kAdd) || is_form_of(node, op::kMul) || activation_function(node).has_value();
  }

  // Makes a node part of a group: a convolution, or what has nothing but values of groups as operands of its shape.
  void join(Node& node) {
    if (is_convolution(node)) {
      const size_t group = groups_.size();
      groups_.push_back({group});
      group_of_[&node] = group;
      unite(node, *node.arg(0).node());
      return;
    }
    if (!is_signal(&node) || !passes(node)) return;
    std::vector<Node*> joined;
    for (Node* input : node.input_nodes()) {
      if (node.is(op::kBatchNorm) && input->op() == Node::Op::kGetAttr) continue;
      const bool one_shape = node.is(op::kCat) || quantizes_tensor(node) || dequantizes_tensor(node) ||
                             node.is(kMaxPool1d) || node.is(kAvgPool1d) ||
                             (is_signal(input) && input->meta.val.tensor()->sizes == node.meta.val.tensor()->sizes);
      if (group_of_.count(input) == 0 || !one_shape) return;
      joined.push_back(input);
    }
    if (joined.empty()) return;
    const size_t group = groups_.size();
    groups_.push_back({group});
    group_of_[&node] = group;
    for (const Node* input : joined) unite(node, *input);
  }
  void unite(const Node& a, const Node& b) {
    const auto other = group_of_.find(&b);
    if (other != group_of_.end()) groups_[find(other->second)].parent = find(group_of_.at(&a));
  }

  // What quantizes and dequantizes the value that a convolution reads goes with it.
  static Node* source_of(Node* x) {
    while (dequantizes_tensor(*x) || quantizes_tensor(*x)) {
      Node* before = x->arg(0).node();
      if (before == nullptr || before->op() == Node::Op::kGetAttr) break;
      x = before;
    }
    return x;
  }

  void weigh(Node& node, Group& group) {
    if (node.is(op::kConv1d)) {
      ++group.convolutions;
      Node* x = node.arg(0).node();
      group.is_quantized = group.is_quantized || dequantizes_tensor(*x);
      Node* source = source_of(x);
      if (group_of_.count(source) == 0 && group.sources.insert(source).second) ++group.borders;
    }
    const std::vector<Node*>& users = node.users();
    const auto is_outside = [&](const Node* user) {
      return group_of_.count(user) == 0 && !quantizes_tensor(*user) && !dequantizes_tensor(*user);
    };
    if (std::any_of(users.begin(), users.end(), is_outside)) ++group.borders;
  }

  bool takes(const Node* node) {
    const auto at = group_of_.find(node);
    if (at == group_of_.end()) return false;
    const Group& group = groups_[find(at->second)];
    return group.is_quantized || (floats_ && group.convolutions >= group.borders);
  }

  void lift(Node& node) {
    infer_value(node);
    lifted_.insert(&node);
  }

  // The value as an image.
  Node* raised(Node* x) {
    if (lifted_.count(x) != 0) return x;
    if ((dequantizes_tensor(*x) || quantizes_tensor(*x)) && x->arg(0).node()->op() != Node::Op::kGetAttr) {
      const bool rounds = quantizes_tensor(*x);
      x->set_arg(0, raised(x->arg(0).node()));
      lift(*x);
      // All who read the integers read those of the image.
      for (Node* user : x->users())
        if (rounds && dequantizes_tensor(*user)) lift(*user);
      return x;
    }
    const auto known = raised_.find(x);
    if (known != raised_.end()) return known->second;
    Graph& graph = *program_.graph;
    Node* behind = x->next();
    while (behind->op() == Node::Op::kPlaceholder || behind->op() == Node::Op::kGetAttr) behind = behind->next();
    const auto point = graph.insert_before(behind);
    Node* image = graph.call(std::string(op::kUnsqueeze), {x, 2});
    infer_value(*image);
    raised_.emplace(x, image);
    return image;
  }

  // The weight [OC, C, K] as [OC, C, 1, K].
  Node* raised_weight(Node* weight, Node* before) {
    const auto point = program_.graph->insert_before(before);
    const bool is_quantized = weight->op() != Node::Op::kGetAttr;
    const Tensor& values = program_.attribute_of(is_quantized ? *weight->arg(0).node() : *weight);
    Shape sizes = values.sizes();
    sizes.insert(sizes.begin() + 2, 1);
    const std::string name = program_.unique_attribute_name(concat("_raised_", weight->name()));
    const Tensor raised = values.reshape(sizes);
    program_.add_attribute({name, raised, Attribute::Kind::kBuffer});
    Node* constant = program_.graph->get_attr(name);
    TensorMeta meta{raised.dtype(), {}, {}, false};
    meta.sizes.assign(sizes.begin(), sizes.end());
    constant->meta.val.value = std::move(meta);
    if (!is_quantized) return constant;
    std::vector<Argument> args = weight->args();
    args[0] = constant;
    Node* dequantized = program_.graph->call(weight->target(), std::move(args), weight->kwargs());
    infer_value(*dequantized);
    return dequantized;
  }

  void rewrite(Node& node) {
    if (node.is(op::kConv1d)) {
      node.set_arg(0, raised(node.arg(0).node()));
      node.set_arg(1, raised_weight(node.arg(1).node(), &node));
      node.set_arg(3, pair(1, *single(node.arg(3), 1)));
      node.set_arg(4, pair(0, *single(node.arg(4), 0)));
      node.set_arg(5, pair(1, *single(node.arg(5), 1)));
      if (node.arg(6).is_none()) node.set_arg(6, 1);
      node.set_target(std::string(op::kConv2d));
    } else if (node.is(kMaxPool1d) || node.is(kAvgPool1d)) {
      const bool is_max = node.is(kMaxPool1d);
      const int64_t size = *single(node.arg(1), 1);
      node.set_arg(1, pair(1, size));
      node.set_arg(2, pair(1, *single(node.arg(2), size)));
      node.set_arg(3, pair(0, *single(node.arg(3), 0)));
      if (is_max) node.set_arg(4, pair(1, *single(node.arg(4), 1)));
      std::vector<Argument> args = node.args();
      const auto set_default = [&](size_t i, bool value) {
        if (args.size() > i && args[i].is_none()) args[i] = value;
      };
      set_default(is_max ? 5 : 4, false);
      set_default(5, is_max ? false : true);
      node.set_args(std::move(args));
      node.set_target(std::string(is_max ? op::kMaxPool2d : op::kAvgPool2d));
    } else if (node.is(op::kCat)) {
      const int64_t axis = wrap_axis(node.arg(1).integer().value_or(0), 3);
      node.set_arg(1, axis == 2 ? 3 : axis);
    }
    lift(node);
  }

  // A signal again for the users that stayed as they were.
  void lower_for_others(Node& node) {
    const auto stays = [&](const Node* user) { return lifted_.count(user) == 0; };
    const std::vector<Node*> users = node.users();
    if (std::none_of(users.begin(), users.end(), stays)) return;
    const auto point = program_.graph->insert_after(&node);
    Node* signal = program_.graph->call(std::string(op::kSqueezeDim), {&node, 2});
    infer_value(*signal);
    node.replace_all_uses_with(signal, [&](Node* user) { return user != signal && stays(user); });
  }

  Program& program_;
  bool floats_;
  std::vector<Group> groups_;
  std::unordered_map<const Node*, size_t> group_of_;
  std::unordered_set<const Node*> lifted_;
  std::unordered_map<const Node*, Node*> raised_;
};

}  // namespace

void make_images_of_signals(Program& program, bool floats) {
  if (fusion_obstacle(*program.graph).empty()) SignalsAsImages(program, floats).run();
}

}  // namespace qdq
