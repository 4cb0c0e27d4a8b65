// From decomposed operators to those that models call.
#include "op/recompose.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "graph/dead_code.h"
#include "op/einsum.h"
#include "op/facts.h"
#include "op/infer.h"
#include "op/spelled_out.h"
#include "op/targets.h"
#include "op/written_attributes.h"

namespace qdq {

namespace {

// Makes the node another call of the same value.
void become(Node* node, std::string_view name, std::vector<Argument> args, Node::Kwargs kwargs = {}) {
  node->set_target(op::aten(name));
  const Schema& schema = *op_of(*node)->schema;
  while (!args.empty() && args.back() == schema.arguments[args.size() - 1].default_value) args.pop_back();
  node->set_args(std::move(args));
  node->set_kwargs(std::move(kwargs));
}

std::vector<Argument> arguments_of(const Node& node, std::initializer_list<size_t> indices) {
  std::vector<Argument> out;
  for (const size_t i : indices) out.push_back(argument_of(node, i));
  return out;
}

bool is_true(const Argument& argument) { return argument == Argument(true); }

// A node with several results, of which others read the first alone, becomes one with that result: its items go.
bool takes_first_alone(Node* node) {
  const std::vector<Node*> items = node->users();
  for (const Node* item : items)
    if (!item->is(op::kGetItem) || (item->arg(1).integer() != 0 && !item->users().empty())) return false;
  const auto* results = std::get_if<std::vector<ValueMeta>>(&node->meta.val.value);
  if (items.empty() || results == nullptr || results->empty()) return false;
  node->meta.val = ValueMeta((*results)[0]);
  for (Node* item : items) {
    if (!item->users().empty()) item->replace_all_uses_with(node);
    node->graph().erase(item);
  }
  return true;
}

constexpr std::array<std::string_view, 3> kConvolutions = {"conv1d.default", "conv2d.default", "conv3d.default"};

void convolution(Node* node) {
  // input, weight, bias, stride, padding, dilation, transposed, output_padding, groups
  const TensorMeta* weight = weight_of(*node) ? weight_of(*node)->meta.val.tensor() : nullptr;
  if (weight == nullptr || weight->sizes.size() < 3 || weight->sizes.size() > 5) return;
  constexpr std::array<std::string_view, 3> kTransposed = {"conv_transpose1d.default", "conv_transpose2d.input",
                                                           "conv_transpose3d.input"};
  const size_t place = weight->sizes.size() - 3;
  if (is_true(argument_of(*node, 6))) become(node, kTransposed[place], arguments_of(*node, {0, 1, 2, 3, 4, 7, 8, 5}));
  else become(node, kConvolutions[place], arguments_of(*node, {0, 1, 2, 3, 4, 5, 8}));
}

// input, weight, bias, stride, padding ("same" or "valid"), dilation, groups. The odd element lies behind.
void padding_in_words(Node* node) {
  const TensorMeta* weight = weight_of(*node) ? weight_of(*node)->meta.val.tensor() : nullptr;
  const Argument& dilation = argument_of(*node, 5);
  if (weight == nullptr || weight->sizes.size() < 3 || weight->sizes.size() > 5 || !dilation.is_list()) return;
  const bool is_same = argument_of(*node, 4) == Argument("same");
  Argument::List pads, behind;
  bool is_odd = false;
  for (size_t i = 2; i < weight->sizes.size(); ++i) {
    const Argument::List& steps = dilation.list();
    const std::optional<int64_t> size = weight->sizes[i].constant();
    const std::optional<int64_t> step = steps.empty() ? 1 : steps[std::min(i - 2, steps.size() - 1)].integer();
    if (!size || !step) return;
    const int64_t all = is_same ? *step * (*size - 1) : 0;
    pads.emplace_back(all / 2);
    behind.insert(behind.begin(), {Argument(int64_t{0}), Argument(all % 2)});
    is_odd |= all % 2 != 0;
  }
  std::vector<Argument> args = arguments_of(*node, {0, 1, 2, 3, 4, 5, 6});
  args[4] = Argument(std::move(pads));
  if (is_odd) {
    const auto point = node->graph().insert_before(node);
    Node* pad = node->graph().call(op::aten("pad.default"), {args[0], Argument(std::move(behind))}, {}, "pad");
    pad->meta.nn_module_stack = node->meta.nn_module_stack;
    infer_value(*pad);
    args[0] = pad;
  }
  become(node, kConvolutions[weight->sizes.size() - 3], std::move(args));
}

void batch_norm(Node* node) {
  // input, weight, bias, running_mean, running_var, (training,) momentum, eps
  const bool says_form = !is_aten(node, "_native_batch_norm_legit_no_training.default");
  if ((says_form && is_true(argument_of(*node, 5))) || !takes_first_alone(node)) return;
  std::vector<Argument> args = arguments_of(*node, {0, 1, 2, 3, 4});
  args.insert(args.end(), {false, argument_of(*node, says_form ? 6 : 5), argument_of(*node, says_form ? 7 : 6), true});
  become(node, "batch_norm.default", std::move(args));
}

void norm(Node* node) {
  if (!takes_first_alone(node)) return;
  if (is_aten(node, "native_layer_norm.default"))
    become(node, "layer_norm.default", arguments_of(*node, {0, 1, 2, 3, 4}));
  else become(node, "group_norm.default", arguments_of(*node, {0, 6, 1, 2, 7}));
}

void max_pool(Node* node) {
  const bool flat = is_aten(node, "max_pool2d_with_indices.default");
  const std::vector<Argument> args = arguments_of(*node, {0, 1, 2, 3, 4, 5});
  if (takes_first_alone(node)) become(node, flat ? "max_pool2d.default" : "max_pool3d.default", args);
}

void softmax(Node* node) {
  if (is_true(argument_of(*node, 2))) return;  // from half to float
  become(node, is_aten(node, "_softmax.default") ? "softmax.int" : "log_softmax.int", arguments_of(*node, {0, 1}));
}

void attention(Node* node) {
  // query, key, value, dropout_p, is_causal; attn_mask, scale
  if (!takes_first_alone(node)) return;
  Node::Kwargs kwargs;
  if (const Argument& scale = argument_of(*node, 6); !scale.is_none()) kwargs.emplace_back("scale", scale);
  become(node, "scaled_dot_product_attention.default", arguments_of(*node, {0, 1, 2, 5, 3, 4}), std::move(kwargs));
}

bool is_reshape(const Node& node) { return node.is(op::kView) || node.is(op::kUnsafeView) || node.is(op::kReshape); }

const SymShape* sizes_of(const Node* node) {
  const TensorMeta* meta = node ? node->meta.val.tensor() : nullptr;
  return meta ? &meta->sizes : nullptr;
}

// Whether both have the same axes but for the last `count`, of which they need have as many alone.
bool same_but_for_last(const SymShape& a, const SymShape& b, size_t count) {
  return a.size() >= count && a.size() == b.size() &&
         std::equal(a.begin(), a.end() - static_cast<std::ptrdiff_t>(count), b.begin());
}

// The view that alone reads the product, if it only parts the front axes; else null.
Node* view_behind(const Node& product) {
  Node* view = product.users().size() == 1 ? product.users()[0] : nullptr;
  return view && is_reshape(*view) && sizes_of(view) && !sizes_of(view)->empty() ? view : nullptr;
}

// Lets the product give what the view behind it gives.
void take(Node* product, Node* view) {
  product->meta.val = view->meta.val;
  view->replace_all_uses_with(product);
  product->graph().erase(view);
}

// Erases those of the nodes that nobody reads, and then what only they read: others shall see that they are alone with
// their input.
void erase_unread(std::vector<Node*> nodes) {
  std::unordered_set<const Node*> erased;
  while (!nodes.empty()) {
    Node* node = nodes.back();
    nodes.pop_back();
    if (erased.count(node) || !node->users().empty() || node->op() != Node::Op::kCallFunction) continue;
    const std::vector<Node*> inputs = node->input_nodes();
    nodes.insert(nodes.end(), inputs.begin(), inputs.end());
    erased.insert(node);
    node->graph().erase(node);
  }
}

// Products of rows with weights.
class Products {
 public:
  explicit Products(Program& program) : program_(program) {
    const WrittenAttributes written = written_attributes(program);
    for (const Node* node : program.graph->nodes())
      if (node->op() == Node::Op::kGetAttr ? !written.count(node->target()) : computes_of_constants(*node))
        constants_.insert(node->name());
  }

  void recompose(Node* node) {
    const bool has_bias = is_aten(node, "addmm.default");
    const Argument bias = has_bias ? argument_of(*node, 0) : Argument();
    if (has_bias) {
      const SymShape* sizes = sizes_of(bias.node());
      if (!sizes || sizes->size() != 1 || !is_number(argument_of(*node, 3), 1) || !is_number(argument_of(*node, 4), 1))
        return;
    }
    const Argument x = argument_of(*node, has_bias ? 1 : 0);
    Node* matrix = argument_of(*node, has_bias ? 2 : 1).node();
    if (!is_constant_matrix(matrix)) return;
    become(node, "linear.default", {x, transposed(matrix, node), bias});
    take_views(node);
  }

  // matmul(x, matrix) and the row that is added to it, as models spell a linear layer that is no module; and
  // matmul(x, expand(matrix)), which is left of a linear layer whose rows do not lie one behind the other.
  void recompose_matmul(Node* node) {
    Node* factor = node->arg(1).node();
    Node* matrix = is_aten(factor, "expand.default") ? factor->arg(0).node() : factor;
    const SymShape* rows = sizes_of(node->arg(0).node());
    if (!is_constant_matrix(matrix) || is_constant(node->arg(0)) || rows == nullptr || rows->size() < 2 ||
        !same_but_for_last(*rows, *sizes_of(node), 1))
      return;
    become(node, "linear.default", {node->arg(0), transposed(matrix, node)});
    erase_unread({factor});
    Node* sum = node->users().size() == 1 ? node->users()[0] : nullptr;
    if (!is_aten(sum, "add.Tensor") || !sum->kwargs().empty()) return;
    const Argument bias = sum->arg(sum->arg(0) == Argument(node) ? 1 : 0);
    if (is_constant(bias) && sizes_of(bias.node()) && *sizes_of(bias.node()) == SymShape{sizes_of(node)->back()})
      become(sum, "linear.default", {node->arg(0), node->arg(1), bias});
  }

  // The product of a tensor and a constant.
  void recompose_einsum(Node* node) {
    const Argument::List& operands = node->arg(1).list();
    if (operands.size() != 2 || is_constant(operands[0]) == is_constant(operands[1])) return;
    const size_t weight = is_constant(operands[0]) ? 0 : 1;
    Node *x = operands[1 - weight].node(), *constant = operands[weight].node();
    const TensorMeta *input = x->meta.val.tensor(), *matrix = constant->meta.val.tensor();
    const std::optional<EinsumLayer> layer =
        input && matrix ? layer_of_einsum(node->arg(0).as<std::string>(), *input, *matrix, weight) : std::nullopt;
    if (!layer) return;
    const auto point = node->graph().insert_before(node);
    Node* linear = linear_of_einsum(*layer, x, constant, [&](std::string_view name, std::vector<Argument> args) {
      Node* made = node->graph().call(op::aten(name), std::move(args), {}, std::string(name.substr(0, name.find('.'))));
      made->meta.nn_module_stack = node->meta.nn_module_stack;
      infer_value(*made);
      return made;
    });
    node->set_target(linear->target());
    node->set_args(linear->args());
    node->set_kwargs({});
    node->graph().erase(linear);
  }

  // Constants that only their transposes stand for now.
  void erase_unused() {
    if (!transposed_.empty()) program_.erase_unused_attributes();
  }

 private:
  bool is_constant_matrix(const Node* node) const {
    const SymShape* sizes = sizes_of(node);
    return sizes && sizes->size() == 2 && constants_.count(node->name()) != 0;
  }

  bool is_constant(const Argument& operand) const {
    return operand.is_node() && constants_.count(operand.node()->name()) != 0;
  }

  bool computes_of_constants(const Node& node) const {
    const std::vector<Node*> inputs = node.input_nodes();
    if (node.op() != Node::Op::kCallFunction || inputs.empty()) return false;
    return std::all_of(inputs.begin(), inputs.end(),
                       [&](const Node* input) { return constants_.count(input->name()) != 0; });
  }

  // Whether the node exchanges the two axes of a matrix.
  static bool transposes(const Node& node) {
    return is_aten(&node, "t.default") || permutation_of(node) == std::vector<int64_t>{1, 0};
  }

  // What the matrix is the transpose of, or its transpose: a constant of its own, or computed in front of the reader.
  Node* transposed(Node* matrix, Node* reader) {
    if (transposes(*matrix)) return matrix->arg(0).node();
    const auto point = reader->graph().insert_before(reader);
    Node* out = nullptr;
    if (matrix->op() == Node::Op::kGetAttr) {
      out = reader->graph().get_attr(transposed_attribute(matrix->target()));
      const Tensor& tensor = program_.attribute_of(*out);
      out->meta = matrix->meta;
      out->meta.val.value = meta_of(tensor);
    } else {
      out = reader->graph().call(std::string(op::kPermute), {matrix, Argument::List{1, 0}}, {}, "permute");
      out->meta = matrix->meta;
      infer_value(*out);
    }
    return out;
  }

  const std::string& transposed_attribute(const std::string& name) {
    std::string& out = transposed_[name];
    if (!out.empty()) return out;
    Attribute attribute = *program_.find_attribute(name);
    attribute.name = out = program_.unique_attribute_name(name + "_transposed");
    attribute.tensor = attribute.tensor.transpose(0, 1).contiguous();
    program_.add_attribute(std::move(attribute));
    return out;
  }

  // view(linear(view(x, [rows, in])), [..., out]) is the linear layer of x, if both views part or join the front axes.
  static void take_views(Node* linear) {
    const Node* rows = linear->arg(0).node();
    Node* back = view_behind(*linear);
    if (rows == nullptr || back == nullptr || !is_reshape(*rows)) return;
    Node* x = rows->arg(0).node();
    const SymShape *in = sizes_of(x), *flat = sizes_of(rows), *out = sizes_of(back);
    if (!in || !flat || flat->empty() || sizes_of(linear)->empty() || !same_but_for_last(*in, *out, 1) ||
        in->back() != flat->back() || out->back() != sizes_of(linear)->back())
      return;
    linear->set_arg(0, x);
    take(linear, back);
  }

  Program& program_;
  std::unordered_set<std::string> constants_;                // names of nodes, which others never get
  std::unordered_map<std::string, std::string> transposed_;  // attribute -> the one of its transpose
};

// x of view(clone(expand(x))) that only joins the front axes; clone and expand may be missing. Else null.
Node* before_joined_front(const Argument& argument) {
  const Node* view = argument.node();
  if (view == nullptr || !is_reshape(*view)) return nullptr;
  Node* x = view->arg(0).node();
  if (x && x->is(op::kClone)) x = x->arg(0).node();
  if (is_aten(x, "expand.default") && sizes_of(x->arg(0).node()) && *sizes_of(x->arg(0).node()) == *sizes_of(x))
    x = x->arg(0).node();
  const SymShape *before = sizes_of(x), *after = sizes_of(view);
  if (!before || !after || before->size() < 3 || after->size() != 3) return nullptr;
  return std::equal(before->end() - 2, before->end(), after->begin() + 1) ? x : nullptr;
}

// view(bmm(view(expand(a)), view(expand(b)))) is matmul(a, b).
void matmul(Node* node) {
  Node *a = before_joined_front(node->arg(0)), *b = before_joined_front(node->arg(1)), *back = view_behind(*node);
  if (a == nullptr || b == nullptr || back == nullptr) return;
  const SymShape &left = *sizes_of(a), &right = *sizes_of(b), &out = *sizes_of(back);
  if (!same_but_for_last(left, right, 2) || !same_but_for_last(left, out, 1) || out.back() != right.back()) return;
  std::vector<Node*> views = node->input_nodes();
  become(node, "matmul.default", {a, b});
  take(node, back);
  erase_unread(std::move(views));
}

// where(all of x are -inf, 0, softmax(x)), as attention wants it.
void safe_softmax(Node* where) {
  const Node* softmax = where->arg(2).node();
  const Node* none_left = sole_call(where->arg(0), "logical_not.default");
  const Node* any = none_left ? sole_call(none_left->arg(0), "any.dim") : nullptr;
  const Node* finite = any ? sole_call(any->arg(0), "logical_not.default") : nullptr;
  const Node* equal = finite ? sole_call(finite->arg(0), "eq.Scalar") : nullptr;
  const Node* zeros = where->arg(1).node();
  if (!equal || !is_aten(softmax, "softmax.int") || equal->arg(0) != softmax->arg(0) ||
      softmax->arg(1) != any->arg(1) || equal->arg(1).number() != -INFINITY || !any->arg(2).is<bool>() ||
      !is_aten(zeros, "full_like.default") || zeros->arg(1).number() != 0.0)
    return;
  std::vector<Node*> inputs = where->input_nodes();
  become(where, "_safe_softmax.default", {softmax->arg(0), softmax->arg(1)});
  erase_unread(std::move(inputs));
}

struct Decomposed {
  std::string_view name;
  void (*recompose)(Node*);
  bool is_called = false;  // models call it themselves, for what has no other name
};
constexpr Decomposed kDecomposed[] = {
    {"convolution.default", convolution},
    {"_native_batch_norm_legit_no_training.default", batch_norm},
    {"_native_batch_norm_legit.default", batch_norm},
    {"native_batch_norm.default", batch_norm},
    {"native_layer_norm.default", norm},
    {"native_group_norm.default", norm},
    {"max_pool2d_with_indices.default", max_pool},
    {"max_pool3d_with_indices.default", max_pool},
    {"_adaptive_avg_pool2d.default",
     [](Node* node) { become(node, "adaptive_avg_pool2d.default", arguments_of(*node, {0, 1})); }},
    {"_softmax.default", softmax},
    {"_log_softmax.default", softmax},
    {"_scaled_dot_product_flash_attention_for_cpu.default", attention},
    {"conv1d.padding", padding_in_words, true},
    {"conv2d.padding", padding_in_words, true},
    {"conv3d.padding", padding_in_words, true},
    {"where.self", safe_softmax, true},
    {"bmm.default", matmul, true},
};

bool is_float(const Node& node) {
  const TensorMeta* meta = node.meta.val.tensor();
  return meta != nullptr && is_floating(meta->dtype);
}

}  // namespace

void recompose(Program& program) {
  Products products(program);
  for (Node* node = program.graph->first(); node != nullptr; node = node->next()) {
    for (const Decomposed& decomposed : kDecomposed)
      if (is_aten(node, decomposed.name)) {
        decomposed.recompose(node);
        break;
      }
    if (!is_float(*node)) continue;
    if (is_aten(node, "addmm.default") || is_aten(node, "mm.default")) products.recompose(node);
    if (is_aten(node, "einsum.default")) products.recompose_einsum(node);
    if (is_aten(node, "matmul.default")) products.recompose_matmul(node);
    if (is_aten(node, "matmul.default")) join_attention_parts(node);
    if (!join_hard_curve(node)) join_silu(node);
  }
  eliminate_dead_code(program);
  products.erase_unused();
}

bool is_decomposed(std::string_view name) {
  return std::any_of(std::begin(kDecomposed), std::end(kDecomposed), [&](const Decomposed& decomposed) {
    const std::string full = concat("aten.", decomposed.name);
    return !decomposed.is_called && (name == full || name == full.substr(0, full.rfind('.')));
  });
}

}  // namespace qdq
