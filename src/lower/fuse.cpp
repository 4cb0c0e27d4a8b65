// Fusion walks the graph once, in execution order. A value that a plan holds is known by its buffer, which stands for the real value of
// the node: a u8 buffer for what a quantize node rounded, an f32 buffer for what it did not. A head (a convolution, an addition, ...)
// looks ahead along values with one user for what it can take with it (residual, activation, quantize); its step is made where the last
// of these nodes stands, when all inputs exist. A node that no plan can do ends the open plan if it needs one of its values.
#include "lower/fuse.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "lower/fuse_nodes.h"
#include "lower/fuse_products.h"
#include "lower/plan_builder.h"
#include "lower/round_in_pools.h"
#include "op/op.h"

namespace qdq {
namespace {

// What a head takes with it, the last node last.
struct Tail {
  Node* last = nullptr;
  Node* residual = nullptr;
  Activation activation;
  Node* quantize = nullptr;
};

class Fuser : private PlanBuilder {
 public:
  Fuser(Program& program, const FusionOptions& options) : PlanBuilder(program), options_(options) {}

  Fusion run() {
    const std::vector<Node*> nodes = program_.graph->nodes();
    collect_symbols();
    const std::string obstacle = fusion_obstacle(*program_.graph);
    for (Node* node : nodes) {
      if (node->op() == Node::Op::kOutput) need_inputs(*node);
      if (node->op() != Node::Op::kCallFunction) continue;
      if (is_constant(*node)) continue;
      const std::string refusal = obstacle.empty() ? visit(*node) : obstacle;
      if (refusal.empty()) continue;
      need_inputs(*node);
      fates_[node] = {node->name(), node->target(), -1, 0, refusal};
    }
    drop_idle_plans();
    for (size_t p = 0; p < plans_.size(); ++p) {
      const std::vector<size_t> step_of = round_in_pools(plans_[p].plan);
      for (auto& [node, fate] : fates_)
        if (fate.plan == static_cast<int>(p) && !step_of.empty()) fate.step = step_of[fate.step];
    }
    Fusion fusion;
    for (const Node* node : nodes)
      if (const auto fate = fates_.find(node); fate != fates_.end()) fusion.fates.push_back(fate->second);
    rewrite();
    for (Open& plan : plans_) fusion.plans.push_back(std::move(plan.plan));
    return fusion;
  }

 private:
  void collect_symbols() {
    for (const Node* input : program_.graph->placeholders())
      if (const TensorMeta* meta = input->meta.val.tensor())
        for (const SymInt& size : meta->sizes)
          if (!size.is_constant()) symbols_[size.to_string()] = 1;
  }

  // Empty if the node goes into a plan, else why not.
  std::string visit(Node& node) {
    if (const auto pending = pending_.find(&node); pending != pending_.end()) {
      pending->second();
      return {};
    }
    if (taken_.count(&node) != 0) return {};  // on the way from a head to its last node
    if (node.is("torch.ops.aten.unbind.int")) return unbind(node);
    if (options_.dynamic && take_dynamic(node)) return {};
    const TensorMeta* meta = node.meta.val.tensor();
    if (meta == nullptr) return "its shape is not known";
    for (const SymInt& size : meta->sizes)
      if (!size.evaluate(symbols_)) return concat("its size ", size.to_string(), " does not follow from those of the inputs");
    if (quantizes_tensor(node)) return quantize(node);
    if (dequantizes_tensor(node)) return dequantize(node);
    if (float_meta(node) == nullptr) return "its result is not float32";
    using Method = std::string (Fuser::*)(Node&);
    static const std::unordered_map<std::string_view, Method> kMethods = {
        {"torch.ops.aten.conv2d.default", &Fuser::product},
        {"torch.ops.aten.linear.default", &Fuser::product},
        {"torch.ops.aten.add.Tensor", &Fuser::binary},
        {"torch.ops.aten.add_.Tensor", &Fuser::binary},
        {"torch.ops.aten.mul.Tensor", &Fuser::binary},
        {"torch.ops.aten.mul_.Tensor", &Fuser::binary},
        {"torch.ops.aten.cat.default", &Fuser::cat},
        {"torch.ops.aten.max_pool2d.default", &Fuser::max_pool},
        {"torch.ops.aten.avg_pool2d.default", &Fuser::average_pool},
        {"torch.ops.aten.adaptive_avg_pool2d.default", &Fuser::adaptive_average_pool},
        {"torch.ops.aten.mean.dim", &Fuser::mean},
        {"torch.ops.aten.flatten.using_ints", &Fuser::reshape},
        {"torch.ops.aten.view.default", &Fuser::reshape},
        {"torch.ops.aten.reshape.default", &Fuser::reshape},
        {"torch.ops.aten._unsafe_view.default", &Fuser::reshape},
        {"torch.ops.aten.squeeze.dim", &Fuser::reshape},
        {"torch.ops.aten.squeeze.dims", &Fuser::reshape},
        {"torch.ops.aten.unsqueeze.default", &Fuser::reshape},
        {"torch.ops.aten.permute.default", &Fuser::permute},
        {"torch.ops.aten.transpose.int", &Fuser::transpose},
        {"torch.ops.aten.select.int", &Fuser::select},
        {"operator.getitem", &Fuser::item},
        {"torch.ops.aten.layer_norm.default", &Fuser::layer_norm},
        {"torch.ops.aten.scaled_dot_product_attention.default", &Fuser::attention},
        {"torch.ops.aten.dropout.default", &Fuser::identity},
        {"torch.ops.aten.dropout_.default", &Fuser::identity},
        {"torch.ops.aten.contiguous.default", &Fuser::identity},
        {"torch.ops.aten.clone.default", &Fuser::identity},
        {"torch.ops.aten.alias.default", &Fuser::identity},
        {"torch.ops.aten.detach.default", &Fuser::identity},
    };
    if (const auto method = kMethods.find(node.target()); method != kMethods.end()) return (this->*method->second)(node);
    if (activation_of(node)) return activation(node);
    return "no step does this operator";
  }

  // heads and tails.

  // What stands behind `head` along values with one user. A residual is taken where `may_add`.
  Tail tail_of(Node& head, bool may_add, bool may_round = true) const {
    Tail tail;
    tail.last = &head;
    if (may_add) take_residual(tail);
    Node* next = user_of(tail);
    if (next != nullptr && next->arg(0).node() == tail.last)
      if (const std::optional<Activation> found = activation_of(*next); found && float_meta(*next) != nullptr) {
        tail.activation = *found;
        tail.last = next;
        next = user_of(tail);
      }
    // The quantize node may have several users, the value before it only this one.
    if (may_round && next != nullptr && is_fusable_quantize(*next)) tail.last = tail.quantize = next;
    // A u8 residual asks for a u8 result, so that one can be written over the other.
    if (tail.residual != nullptr && tail.quantize == nullptr && dequantizes_tensor(*tail.residual)) return tail_of(head, false, may_round);
    return tail;
  }
  // Who alone uses the tail's value; dropouts that do nothing are taken along.
  static Node* user_of(Tail& tail) {
    Node* next = single_user(*tail.last);
    for (; next != nullptr && is_idle_dropout(*next); next = single_user(*next)) tail.last = next;
    return next;
  }
  void take_residual(Tail& tail) const {
    Node* add = user_of(tail);
    if (add == nullptr || !(add->is("torch.ops.aten.add.Tensor") || add->is("torch.ops.aten.add_.Tensor"))) return;
    if (!add->kwargs().empty() || add->args().size() != 2 || taken_.count(add) != 0) return;
    Node* other = add->arg(0).node() == tail.last ? add->arg(1).node() : add->arg(0).node();
    if (other == nullptr || other->op() == Node::Op::kGetAttr || float_meta(*other) == nullptr || float_meta(*add) == nullptr) return;
    if (other->op() == Node::Op::kCallFunction && is_constant(*other)) return;
    const SymShape& sizes = tail.last->meta.val.tensor()->sizes;
    if (other->meta.val.tensor()->sizes != sizes || add->meta.val.tensor()->sizes != sizes) return;
    tail.residual = other;
    tail.last = add;
  }

  // Makes the step now, or when the walk comes to the tail's last node. `fill` sets kind and what belongs to it, and the inputs.
  template <class Fill> void emit(Node& head, const Tail& tail, Fill fill) {
    std::vector<Node*> nodes{&head};
    while (nodes.back() != tail.last) nodes.push_back(single_user(*nodes.back()));
    taken_.insert(nodes.begin(), nodes.end());
    const auto make = [this, tail, nodes, fill] {
      PlanStep step;
      step.name = tail.last->name();
      step.activation = tail.activation;
      fill(step);
      if (tail.residual != nullptr) {
        step.inputs.push_back(has_float_weight(step) ? read_floats(tail.residual) : read(tail.residual));
        step.in_place_input = 1;
      }
      const bool rounds = tail.quantize != nullptr;
      PlanBuffer out = buffer_like(*tail.last, rounds ? DType::kU8 : DType::kF32, rounds ? plan_qparams(*tail.quantize) : PlanQParams{});
      add_step(std::move(step), std::move(out), *tail.last, nodes);
      const NodeFate fate = fates_.at(tail.last);
      for (const Node* part : companions_[nodes.front()]) set_fate(*part, static_cast<size_t>(fate.plan), fate.step);
      open().is_idle = false;
    };
    if (tail.last == &head) make();
    else pending_.emplace(tail.last, make);
  }

  // the operators.

  std::string quantize(Node& node) {
    if (!is_fusable_quantize(node)) return "its integers are read by other operators than dequantize";
    Node* value = node.arg(0).node();
    if (!is_readable(value)) return "what it quantizes is not float32";
    const PlanQParams qparams = plan_qparams(node);
    if (is_held_u8(value)) {
      if (held(value).qparams == qparams) {  // the same integers again
        rounded_[&node] = real_.at(value);
        set_fate(node, real_.at(value).plan, 0);
        return {};
      }
      map(node, value, {}, &node);
      return {};
    }
    PlanStep step;
    step.kind = Kind::kQuantize;
    step.name = node.name();
    const size_t at = read_as_is(value);
    step.inputs = {is_in_c_order(open().plan.buffers[at]) ? at : read(value)};
    add_step(std::move(step), buffer_like(node, DType::kU8, qparams), node, {&node});
    return {};
  }

  std::string dequantize(Node& node) {
    const auto at = rounded_.find(node.arg(0).node());
    if (at == rounded_.end()) return "its integers come from another operator than quantize";
    real_[&node] = at->second;
    set_fate(node, at->second.plan, last_step(at->second.plan));
    return {};
  }

  // A function of a u8 value as a table of all 256.
  void map(Node& head, Node* value, const Activation& activation, Node* quantize) {
    Tail tail;
    tail.last = quantize != nullptr ? quantize : &head;
    tail.quantize = quantize;
    emit_map(head, tail, value, activation);
  }
  void emit_map(Node& head, const Tail& tail, Node* value, const Activation& activation) {
    emit(head, tail, [this, value, activation, quantize = tail.quantize](PlanStep& step) {
      step.kind = Kind::kMap;
      step.activation = {};
      step.inputs = {read(value)};
      step.in_place_input = 0;
      const PlanQParams from = open().plan.buffers[step.inputs[0]].qparams;
      const Tensor reals = Tensor::empty({256}, DType::kF32);
      for (int q = 0; q < 256; ++q) reals.data<float>()[q] = static_cast<float>(q - from.zero_point) * static_cast<float>(from.scale);
      apply_activation(activation, reals.data<float>(), 256, reals.data<float>());
      step.table = reals;
      if (quantize == nullptr) return;
      const PlanQParams to = plan_qparams(*quantize);
      const Requantization rounding = rounding_to(to);
      step.table = Tensor::empty({256}, DType::kU8);
      for (size_t q = 0; q < 256; ++q) step.table.data<uint8_t>()[q] = quantize_result(reals.data<float>()[q], rounding);
    });
  }

  std::string activation(Node& node) {
    Node* value = node.arg(0).node();
    if (!is_held(value)) return "its input is not in a plan";
    Tail tail;
    tail.last = &node;
    if (Node* next = single_user(node); next != nullptr && is_fusable_quantize(*next)) tail.last = tail.quantize = next;
    const Activation function = *activation_of(node);
    if (is_held_u8(value)) {
      emit_map(node, tail, value, function);
    } else {
      tail.activation = function;
      emit(node, tail, [this, value, rounds = tail.quantize != nullptr](PlanStep& step) {
        step.kind = rounds ? Kind::kQuantize : Kind::kDequantize;
        step.inputs = {read(value)};
        step.in_place_input = 0;
      });
    }
    return {};
  }

  // A range that is found in every run, and what quantizes by it, if only linear layers read that:
  //   x -> choose_qparams -> scale, zero_point;   x, scale, zero_point -> quantize -> dequantize -> linear
  bool take_dynamic(Node& choose) {
    if (!choose.is("torch.ops.quantized_decomposed.choose_qparams.tensor")) return false;
    const std::optional<DynamicInput> found = dynamic_input(choose);
    if (!found || !is_readable(found->x) || float_meta(*found->x) == nullptr || float_meta(*found->x)->sizes.size() == 4) return false;
    for (const Node* linear : found->dequantize->users()) {
      if (!linear->is("torch.ops.aten.linear.default") || linear->arg(0).node() != found->dequantize || float_meta(*linear) == nullptr) return false;
      const auto weight = quantized_weight(program_, linear->arg(1));
      if (weight.index() != 0 || std::get<0>(weight).values.dim() != 2 || constant_bias(program_, linear->arg(2)).index() != 0) return false;
    }
    for (const Node* node : found->nodes) taken_.insert(const_cast<Node*>(node));
    dynamic_.emplace(found->dequantize, *found);
    return true;
  }

  // A convolution or a linear layer.
  std::string product(Node& node) {
    Node* x = node.arg(0).node();
    if (const auto dynamic = dynamic_.find(x); dynamic != dynamic_.end()) {
      auto form = quantized_product(program_, node);
      if (const std::string* reason = std::get_if<std::string>(&form)) return *reason;
      PlanStep& step = std::get<PlanStep>(form);
      step.kind = Kind::kDynamicLinear;
      step.qmin = dynamic->second.range.qmin;
      step.qmax = dynamic->second.range.qmax;
      step.epsilon = dynamic->second.epsilon;
      companions_[&node] = dynamic->second.nodes;
      emit_product(node, step, dynamic->second.x, tail_of(node, true, false));
      return {};
    }
    std::string refusal = "its input is not quantized";
    if (is_held_u8(x)) {
      auto form = quantized_product(program_, node);
      if (const PlanStep* step = std::get_if<PlanStep>(&form)) {
        emit_product(node, *step, x, tail_of(node, true));
        return {};
      }
      refusal = std::get<std::string>(form);
    }
    if (!options_.floats || !is_readable(x)) return refusal;
    auto form = float_product(program_, node);
    if (const std::string* reason = std::get_if<std::string>(&form)) return *reason;
    FloatProduct& found = std::get<FloatProduct>(form);
    emit_product(node, found.step, x, tail_of(*found.last, true, false));
    return {};
  }
  void emit_product(Node& node, const PlanStep& form, Node* x, const Tail& tail) {
    emit(node, tail, [this, form, x](PlanStep& step) {
      const PlanStep named = step;
      step = form;
      step.name = named.name;
      step.activation = named.activation;
      step.inputs = {has_float_weight(form) || form.kind == Kind::kDynamicLinear ? read_floats(x) : read(x)};
    });
  }

  std::string binary(Node& node) {
    const bool is_add = node.target().find("add") != std::string::npos;
    if (!node.kwargs().empty() || node.args().size() != 2) return "it has a factor";
    Node *a = node.arg(0).node(), *b = node.arg(1).node();
    if (!is_readable(a) || !is_readable(b)) return "an operand is a number or a constant";
    if (!is_held(a) && !is_held(b)) return "its inputs are not in a plan";
    const size_t rank = float_meta(node)->sizes.size();
    for (const Node* operand : {a, b})
      if (operand->meta.val.tensor() == nullptr || operand->meta.val.tensor()->sizes.size() != rank) return "its operands differ in rank";
    emit(node, tail_of(node, false), [this, is_add, a, b, sizes = float_meta(node)->sizes](PlanStep& step) {
      step.kind = is_add ? Kind::kAdd : Kind::kMul;
      step.inputs = {read(a), read(b)};
      const auto is_whole = [&](size_t i) { return open().plan.buffers[step.inputs[i]].symbolic_sizes == sizes; };
      if (is_whole(0)) step.in_place_input = 0;
      else if (is_whole(1)) step.in_place_input = 1;
    });
    return {};
  }

  std::string cat(Node& node) {
    if (!node.arg(0).is_list()) return "its tensors are not a list";
    std::vector<Node*> values;
    bool any_held = false;
    const size_t rank = float_meta(node)->sizes.size();
    for (const Argument& argument : node.arg(0).list()) {
      Node* value = argument.node();
      if (!is_readable(value) || value->meta.val.tensor() == nullptr || value->meta.val.tensor()->sizes.size() != rank)
        return "an input is no float32 tensor of its rank";
      any_held = any_held || is_held(value);
      values.push_back(value);
    }
    if (!any_held) return "its inputs are not in a plan";
    const int64_t axis = wrap_axis(node.arg(1).integer().value_or(0), static_cast<int64_t>(rank));
    emit(node, tail_of(node, false), [this, values, axis](PlanStep& step) {
      step.kind = Kind::kConcat;
      step.axis = axis;
      for (Node* value : values) step.inputs.push_back(read(value));
    });
    return {};
  }

  std::string max_pool(Node& node) {
    Node* x = node.arg(0).node();
    if (!is_held(x) || held(x).symbolic_sizes.size() != 4) return "its input is not an image of a plan";
    if (!is_held_u8(x) && !options_.floats) return "its input is not quantized";
    const auto kernel = int_pair(node, 1, {1, 1});
    if (!kernel) return "its window is not constant";
    const auto stride = int_pair(node, 2, *kernel), padding = int_pair(node, 3, {0, 0}), dilation = int_pair(node, 4, {1, 1});
    if (!stride || !padding || !dilation) return "its window is not constant";
    PlanStep step;
    step.kind = Kind::kMaxPool;
    step.name = node.name();
    step.window = {(*kernel)[0], (*kernel)[1], (*stride)[0], (*stride)[1], (*padding)[0], (*padding)[1], (*dilation)[0], (*dilation)[1]};
    step.inputs = {read(x)};
    const PlanBuffer& from = open().plan.buffers[step.inputs[0]];
    PlanBuffer to = buffer_like(node, from.dtype, from.qparams);
    add_step(std::move(step), std::move(to), node, {&node});
    open().is_idle = false;
    return {};
  }

  std::string average_pool(Node& node) {
    const auto kernel = int_pair(node, 1, {1, 1});
    if (!kernel) return "its window is not constant";
    const auto stride = int_pair(node, 2, *kernel), padding = int_pair(node, 3, {0, 0});
    const bool is_ceil = node.arg(4).integer().value_or(0) != 0;
    if (!stride || !padding || is_ceil) return is_ceil ? "ceil_mode" : "its window is not constant";
    PlanStep form;
    form.window = {(*kernel)[0], (*kernel)[1], (*stride)[0], (*stride)[1], (*padding)[0], (*padding)[1], 1, 1};
    form.count_include_pad = node.arg(5).integer().value_or(1) != 0;
    form.divisor_override = node.arg(6).integer().value_or(0);
    return emit_average(node, node, form);
  }
  // The image's constant height and width, if it has them.
  static std::optional<std::array<int64_t, 2>> extents_of(const Node* image) {
    const TensorMeta* meta = image == nullptr ? nullptr : image->meta.val.tensor();
    if (meta == nullptr || meta->sizes.size() != 4) return std::nullopt;
    const auto h = meta->sizes[2].constant(), w = meta->sizes[3].constant();
    if (!h || !w || *h < 1 || *w < 1) return std::nullopt;
    return std::array<int64_t, 2>{*h, *w};
  }
  std::string adaptive_average_pool(Node& node) {
    const auto in = extents_of(node.arg(0).node());
    const auto out = int_pair(node, 1, {0, 0});
    if (!in || !out || (*out)[0] < 1 || (*out)[1] < 1) return "its extents are not constant";
    if ((*in)[0] % (*out)[0] != 0 || (*in)[1] % (*out)[1] != 0) return "its windows differ in size";
    const int64_t h = (*in)[0] / (*out)[0], w = (*in)[1] / (*out)[1];
    PlanStep form;
    form.window = {h, w, h, w, 0, 0, 1, 1};
    return emit_average(node, node, form);
  }
  std::string mean(Node& node) {
    const auto in = extents_of(node.arg(0).node());
    if (!in || !node.arg(1).is_list() || node.arg(1).list().size() != 2 || !node.kwargs().empty()) return "it is not the mean of an image";
    for (const Argument& axis : node.arg(1).list())
      if (const int64_t at = axis.integer().value_or(0); at != -1 && at != -2 && at != 2 && at != 3)
        return "it is not the mean over rows and columns";
    PlanStep form;
    form.window = {(*in)[0], (*in)[1], (*in)[0], (*in)[1], 0, 0, 1, 1};
    return emit_average(node, node, form);
  }
  std::string emit_average(Node& node, Node& head, PlanStep form) {
    Node* x = node.arg(0).node();
    if (!is_held(x)) return "its input is not in a plan";
    if (x->meta.val.tensor() == nullptr || x->meta.val.tensor()->sizes.size() != 4) return "its input is not a batch of images";
    if (float_meta(node)->sizes.size() != 4) return "its result is not a batch of images";
    emit(head, tail_of(head, false), [this, form, x](PlanStep& step) {
      step.kind = Kind::kAveragePool;
      step.window = form.window;
      step.count_include_pad = form.count_include_pad;
      step.divisor_override = form.divisor_override;
      step.inputs = {read(x)};
    });
    return {};
  }

  std::string reshape(Node& node) {
    Node* x = node.arg(0).node();
    if (!is_held(x)) return "its input is not in a plan";
    size_t at = read_as_is(x);
    if (!is_in_c_order(open().plan.buffers[at])) {
      if (open().plan.buffers[at].place != PlanBuffer::Place::kView) return reshape_image(node, at);
      at = arranged(at, false);
    }
    add_view(node, at, 0, c_order(float_meta(node)->sizes));
    return {};
  }
  // An image stored channels last as another shape: its bytes move.
  std::string reshape_image(Node& node, size_t at) {
    PlanStep step;
    step.kind = Kind::kCopy;
    step.name = node.name();
    step.inputs = {at};
    const PlanBuffer& from = open().plan.buffers[at];
    PlanBuffer to = buffer_like(node, from.dtype, from.qparams);
    const Place place{open_index(), open().plan.buffers.size()};
    step.output = add_buffer(std::move(to));
    set_fate(node, place.plan, open().plan.steps.size());
    open().plan.steps.push_back(std::move(step));
    real_[&node] = place;
    return {};
  }
  std::string permute(Node& node) {
    if (!node.arg(1).is_list()) return "its axes are not constant";
    std::vector<size_t> axes;
    const int64_t rank = static_cast<int64_t>(float_meta(node)->sizes.size());
    for (const Argument& axis : node.arg(1).list()) axes.push_back(static_cast<size_t>(wrap_axis(axis.integer().value_or(0), rank)));
    return permuted(node, axes);
  }
  std::string transpose(Node& node) {
    const int64_t rank = static_cast<int64_t>(float_meta(node)->sizes.size());
    std::vector<size_t> axes(static_cast<size_t>(rank));
    for (size_t i = 0; i < axes.size(); ++i) axes[i] = i;
    std::swap(axes[static_cast<size_t>(wrap_axis(node.arg(1).integer().value_or(0), rank))],
              axes[static_cast<size_t>(wrap_axis(node.arg(2).integer().value_or(0), rank))]);
    return permuted(node, axes);
  }
  std::string permuted(Node& node, const std::vector<size_t>& axes) {
    Node* x = node.arg(0).node();
    if (!is_held(x)) return "its input is not in a plan";
    const size_t at = read_as_is(x);
    const SymShape from = strides_of(open().plan.buffers[at]);
    SymShape strides;
    for (const size_t axis : axes) strides.push_back(from[axis]);
    add_view(node, at, 0, std::move(strides));
    return {};
  }
  std::string select(Node& node) { return element(node, node.arg(0).node(), node.arg(1), node.arg(2)); }
  std::string unbind(Node& node) {
    if (!is_held(node.arg(0).node())) return "its input is not in a plan";
    for (const Node* user : node.users())
      if (!user->is("operator.getitem") || float_meta(*user) == nullptr) return "its results are not taken one by one";
    set_fate(node, real_.at(node.arg(0).node()).plan, last_step(real_.at(node.arg(0).node()).plan));
    return {};
  }
  std::string item(Node& node) {
    const Node* list = node.arg(0).node();
    const auto fate = fates_.find(list);
    if (list == nullptr || !list->is("torch.ops.aten.unbind.int") || fate == fates_.end() || fate->second.plan < 0)
      return "it is not part of a plan's value";
    return element(node, list->arg(0).node(), list->arg(1), node.arg(1));
  }
  // x.select(axis, index) as a view.
  std::string element(Node& node, Node* x, const Argument& axis_argument, const Argument& index_argument) {
    if (!is_held(x)) return "its input is not in a plan";
    const SymShape& sizes = x->meta.val.tensor()->sizes;
    const auto axis = static_cast<size_t>(wrap_axis(axis_argument.integer().value_or(0), static_cast<int64_t>(sizes.size())));
    const std::optional<int64_t> index = index_argument.integer();
    if (!index || *index < 0) return "its index is not a constant from the front";
    const size_t at = read_as_is(x);
    SymShape strides = strides_of(open().plan.buffers[at]);
    const SymInt offset = SymInt(*index) * strides[axis];
    strides.erase(strides.begin() + static_cast<std::ptrdiff_t>(axis));
    add_view(node, at, offset, std::move(strides));
    return {};
  }

  std::string layer_norm(Node& node) {
    Node* x = node.arg(0).node();
    if (!is_held(x) || is_held_u8(x)) return "its input is no float32 value of a plan";
    if (!node.arg(1).is_list() || node.arg(1).list().size() != 1) return "it normalizes over several axes";
    auto gamma = constant_bias(program_, node.arg(2)), beta = constant_bias(program_, node.arg(3));
    if (std::holds_alternative<std::string>(gamma) || std::holds_alternative<std::string>(beta)) return "its weight or bias is not constant";
    if (float_meta(node)->sizes.size() == 4) return "its input is an image";
    PlanStep form;
    form.gamma = std::get<Tensor>(gamma);
    form.beta = std::get<Tensor>(beta);
    form.epsilon = node.arg(4).number().value_or(1e-5);
    form.kind = Kind::kLayerNorm;
    form.name = node.name();
    form.inputs = {read(x)};
    form.in_place_input = 0;
    add_step(std::move(form), buffer_like(node, DType::kF32), node, {&node});
    open().is_idle = false;
    return {};
  }

  std::string attention(Node& node) {
    std::vector<Node*> values;
    for (size_t i = 0; i < 3; ++i) {
      Node* value = node.arg(i).node();
      if (!is_held(value) || is_held_u8(value) || value->meta.val.tensor()->sizes.size() != 4)
        return "an input is no float32 value of a plan with four axes";
      values.push_back(value);
    }
    const SymShape &q = values[0]->meta.val.tensor()->sizes, &k = values[1]->meta.val.tensor()->sizes, &v = values[2]->meta.val.tensor()->sizes;
    if (!node.arg(3).is_none() || node.arg(4).number().value_or(0) != 0 || node.arg(5).integer().value_or(0) != 0) return "a mask or dropout";
    if (!(q[1] == k[1]) || !(q[1] == v[1]) || !(q[0] == k[0]) || !(q[0] == v[0]) || !q[3].is_constant()) return "its operands are broadcast";
    PlanStep form;
    const Argument* scale = node.kwarg("scale");
    form.factor = scale != nullptr && scale->number() ? *scale->number() : 1 / std::sqrt(static_cast<double>(*q[3].constant()));
    form.kind = Kind::kAttention;
    form.name = node.name();
    for (Node* value : values) form.inputs.push_back(read_rows(value));
    // Stored [N, L, H, E], so that the transpose and reshape behind it move nothing.
    PlanBuffer out = buffer_like(node, DType::kF32);
    out.channels_last = false;
    std::swap(out.symbolic_sizes[1], out.symbolic_sizes[2]);
    const SymShape strides = c_order(out.symbolic_sizes);
    add_step(std::move(form), std::move(out), node, {&node});
    open().is_idle = false;
    const NodeFate fate = fates_.at(&node);
    add_view(node, real_.at(&node).buffer, 0, {strides[0], strides[2], strides[1], strides[3]});
    fates_[&node] = fate;
    return {};
  }

  std::string identity(Node& node) {
    Node* x = node.arg(0).node();
    if (!is_held(x)) return "its input is not in a plan";
    if (node.target().find("dropout") != std::string::npos && !is_idle_dropout(node)) return "it drops out at random";
    real_[&node] = real_.at(x);
    set_fate(node, real_.at(x).plan, last_step(real_.at(x).plan));
    return {};
  }

  FusionOptions options_;
  std::unordered_map<const Node*, std::vector<const Node*>> companions_;  // of a head: what its step does as well
  std::unordered_map<const Node*, DynamicInput> dynamic_;                 // by the dequantize node in front of linear layers
  std::map<std::string, int64_t> symbols_;                                // those of the inputs' sizes
  std::unordered_set<const Node*> taken_;                                 // by a head
  std::unordered_map<const Node*, std::function<void()>> pending_;        // last node of a tail -> makes its step
};

}  // namespace

Fusion fuse(Program& program, const FusionOptions& options) { return Fuser(program, options).run(); }

}  // namespace qdq
