// Fusion walks the graph once, in execution order. A value that a plan holds is known by its buffer, which stands for the real value of
// the node: a u8 buffer for what a quantize node rounded, an f32 buffer for what it did not. A head (a convolution, an addition, ...)
// looks ahead along values with one user for what it can take with it (residual, activation, quantize); its step is made where the last
// of these nodes stands, when all inputs exist. A node that no plan can do ends the open plan if it needs one of its values.
#include "lower/fuse.h"

#include <algorithm>
#include <functional>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "lower/fuse_nodes.h"
#include "op/op.h"

namespace qdq {
namespace {

using Kind = PlanStep::Kind;

// Where a plan holds a value.
struct Place {
  size_t plan, buffer;
  auto operator<=>(const Place&) const = default;
};

// What a head takes with it, the last node last.
struct Tail {
  Node* last = nullptr;
  Node* residual = nullptr;
  Activation activation;
  Node* quantize = nullptr;
};

class Fuser {
 public:
  explicit Fuser(Program& program) : program_(program) {}

  Fusion run() {
    const std::vector<Node*> nodes = program_.graph->nodes();
    collect_symbols();
    std::string obstacle = obstacle_of(nodes);
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
    Fusion fusion;
    for (const Node* node : nodes)
      if (const auto fate = fates_.find(node); fate != fates_.end()) fusion.fates.push_back(fate->second);
    rewrite();
    for (Open& plan : plans_) fusion.plans.push_back(std::move(plan.plan));
    return fusion;
  }

 private:
  // A plan while it is made.
  struct Open {
    Plan plan;
    Node* before = nullptr;                        // its call goes in front of this node; null: the plan is open
    std::vector<std::variant<Node*, Place>> args;  // who brings its inputs: a node of the graph, or an earlier plan
    std::unordered_map<const Node*, size_t> from_graph;
    std::map<Place, size_t> from_plans;
    std::map<size_t, size_t> reordered;            // f32 image in C order -> channels last
    std::map<size_t, size_t> plain;                // buffer -> f32 in C order
    bool is_idle = true;                           // only moves numbers between u8 and f32
    bool is_imported = false;                      // a later plan reads from it
  };
  struct Use {
    Node* user;
    Node* value;
    Place place;
  };

  void collect_symbols() {
    for (const Node* input : program_.graph->placeholders())
      if (const TensorMeta* meta = input->meta.val.tensor())
        for (const SymInt& size : meta->sizes)
          if (!size.is_constant()) symbols_[size.to_string()] = 1;
  }

  // Why nothing of this graph can go into a plan; empty: something may.
  std::string obstacle_of(const std::vector<Node*>& nodes) const {
    for (const Node* node : nodes) {
      if (node->op() == Node::Op::kCallModule) return "the graph calls modules (observers)";
      if (node->op() != Node::Op::kCallFunction) continue;
      const OpDef* op = find_op(node->target());
      if (op == nullptr || is_idle_dropout(*node)) continue;
      for (size_t i = 0; i < op->schema.arguments.size(); ++i) {
        if (!op->schema.arguments[i].is_mutated) continue;
        const Node* written = node->arg(i).node();
        if (written == nullptr || single_user(*written) != node || !is_fresh(*written))
          return concat("the graph writes to a value that others may read, in node ", node->name());
      }
    }
    return {};
  }

  static bool is_idle_dropout(const Node& node) {
    return (node.is("torch.ops.aten.dropout.default") || node.is("torch.ops.aten.dropout_.default")) && node.arg(2).integer().value_or(1) == 0;
  }

  // Whether a node's value has bytes of its own, so that writing to it is the same as making a new one.
  static bool is_fresh(const Node& node) {
    if (activation_of(node)) return true;
    static const std::unordered_set<std::string_view> kFresh = {
        "torch.ops.aten.conv2d.default", "torch.ops.aten.linear.default", "torch.ops.aten.add.Tensor", "torch.ops.aten.add_.Tensor",
        "torch.ops.aten.mul.Tensor", "torch.ops.aten.mul_.Tensor", "torch.ops.aten.cat.default", "torch.ops.aten.batch_norm.default",
        "torch.ops.aten.max_pool2d.default", "torch.ops.aten.avg_pool2d.default", "torch.ops.aten.adaptive_avg_pool2d.default"};
    return node.op() == Node::Op::kCallFunction && (dequantizes_tensor(node) || kFresh.count(node.target()) != 0);
  }

  // Made of constants alone: folded later, if anybody still needs it.
  static bool is_constant(const Node& node) {
    const std::vector<Node*> inputs = node.input_nodes();
    return !inputs.empty() && std::all_of(inputs.begin(), inputs.end(), [](const Node* n) { return n->op() == Node::Op::kGetAttr; });
  }

  // Empty if the node goes into a plan, else why not.
  std::string visit(Node& node) {
    if (const auto pending = pending_.find(&node); pending != pending_.end()) {
      pending->second();
      return {};
    }
    if (taken_.count(&node) != 0) return {};  // on the way from a head to its last node
    const TensorMeta* meta = node.meta.val.tensor();
    if (meta == nullptr) return "its shape is not known";
    for (const SymInt& size : meta->sizes)
      if (!size.evaluate(symbols_)) return concat("its size ", size.to_string(), " does not follow from those of the inputs");
    if (quantizes_tensor(node)) return quantize(node);
    if (dequantizes_tensor(node)) return dequantize(node);
    if (float_meta(node) == nullptr) return "its result is not float32";
    using Method = std::string (Fuser::*)(Node&);
    static const std::unordered_map<std::string_view, Method> kMethods = {
        {"torch.ops.aten.conv2d.default", &Fuser::convolution},
        {"torch.ops.aten.linear.default", &Fuser::linear},
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

  // values and plans.

  bool is_held(const Node* node) const { return node != nullptr && real_.count(node) != 0; }
  const PlanBuffer& held(const Node* node) const {
    const Place place = real_.at(node);
    return plans_[place.plan].plan.buffers[place.buffer];
  }
  bool is_held_u8(const Node* node) const { return is_held(node) && held(node).dtype == DType::kU8; }
  // Whether a step may read the node's value: a plan has it, or it is an f32 tensor of the graph.
  bool is_readable(const Node* node) const {
    return node != nullptr && node->op() != Node::Op::kGetAttr && (is_held(node) || (float_meta(*node) != nullptr && !is_constant(*node)));
  }

  Open& open() {
    if (plans_.empty() || plans_.back().before != nullptr) plans_.emplace_back();
    return plans_.back();
  }
  size_t open_index() {
    open();
    return plans_.size() - 1;
  }

  static PlanBuffer buffer_like(const Node& node, DType dtype, PlanQParams qparams = {}) {
    PlanBuffer buffer;
    buffer.name = node.name();
    buffer.symbolic_sizes = node.meta.val.tensor()->sizes;
    buffer.dtype = dtype;
    buffer.channels_last = buffer.symbolic_sizes.size() == 4;
    buffer.qparams = qparams;
    return buffer;
  }
  size_t add_buffer(PlanBuffer buffer) {
    Plan& plan = open().plan;
    plan.buffers.push_back(std::move(buffer));
    return plan.buffers.size() - 1;
  }

  // The buffer of the open plan that holds the real value of `node`, in the order it comes in.
  size_t read_as_is(Node* node) {
    Open& plan = open();
    if (const auto at = real_.find(node); at != real_.end()) {
      const Place place = at->second;
      if (place.plan == open_index()) return place.buffer;
      const auto [known, is_new] = plan.from_plans.emplace(place, plan.plan.buffers.size());
      if (is_new) {
        PlanBuffer copy = plans_[place.plan].plan.buffers[place.buffer];
        copy.place = PlanBuffer::Place::kInput;
        plans_[place.plan].is_imported = true;
        make_output(place);
        add_input(std::move(copy), place);
      }
      return known->second;
    }
    const auto [known, is_new] = plan.from_graph.emplace(node, plan.plan.buffers.size());
    if (is_new) {
      PlanBuffer input = buffer_like(*node, DType::kF32);
      input.channels_last = false;
      input.place = PlanBuffer::Place::kInput;
      add_input(std::move(input), node);
    }
    return known->second;
  }
  void add_input(PlanBuffer buffer, std::variant<Node*, Place> source) {
    const size_t at = add_buffer(std::move(buffer));
    open().plan.inputs.push_back(at);
    open().args.push_back(source);
  }

  // The same with images channels last.
  size_t read(Node* node) {
    const size_t at = read_as_is(node);
    Open& plan = open();
    const PlanBuffer& buffer = plan.plan.buffers[at];
    if (buffer.channels_last || buffer.symbolic_sizes.size() != 4) return at;
    const auto [known, is_new] = plan.reordered.emplace(at, plan.plan.buffers.size());
    if (is_new) {
      PlanBuffer copy = buffer;
      copy.channels_last = true;
      copy.place = PlanBuffer::Place::kArena;
      PlanStep step;
      step.kind = Kind::kDequantize;
      step.name = buffer.name;
      step.inputs = {at};
      step.output = add_buffer(std::move(copy));
      plan.plan.steps.push_back(std::move(step));
    }
    return known->second;
  }

  void make_output(Place place) {
    Plan& plan = plans_[place.plan].plan;
    PlanBuffer& buffer = plan.buffers[place.buffer];
    if (buffer.place != PlanBuffer::Place::kArena) return;
    buffer.place = PlanBuffer::Place::kOutput;
    plan.outputs.push_back(place.buffer);
  }

  // Notes that `node` stays in the graph and reads what plans hold: f32 in C order.
  void need_inputs(Node& node) {
    for (Node* input : node.input_nodes()) {
      const auto at = real_.find(input);
      if (at == real_.end()) continue;
      if (plans_[at->second.plan].before == nullptr) plans_[at->second.plan].before = &node;
      uses_.push_back({&node, input, plain(at->second)});
    }
  }
  Place plain(Place place) {
    Open& plan = plans_[place.plan];
    const PlanBuffer& buffer = plan.plan.buffers[place.buffer];
    if (buffer.dtype == DType::kF32 && !buffer.channels_last && buffer.place != PlanBuffer::Place::kInput) {
      make_output(place);
      return place;
    }
    const auto [known, is_new] = plan.plain.emplace(place.buffer, plan.plan.buffers.size());
    if (is_new) {
      PlanBuffer copy = buffer;
      copy.dtype = DType::kF32;
      copy.channels_last = false;
      copy.place = PlanBuffer::Place::kArena;
      PlanStep step;
      step.kind = Kind::kDequantize;
      step.name = copy.name;
      step.inputs = {place.buffer};
      step.output = plan.plan.buffers.size();
      plan.plan.buffers.push_back(std::move(copy));
      plan.plan.steps.push_back(std::move(step));
      make_output({place.plan, known->second});
    }
    return {place.plan, known->second};
  }

  void set_fate(const Node& node, size_t plan, size_t step) { fates_[&node] = {node.name(), node.target(), static_cast<int>(plan), step, {}}; }

  // heads and tails.

  // What stands behind `head` along values with one user. A residual is taken where `may_add`.
  Tail tail_of(Node& head, bool may_add) const {
    Tail tail;
    tail.last = &head;
    if (may_add) take_residual(tail);
    Node* next = single_user(*tail.last);
    if (next != nullptr && next->arg(0).node() == tail.last)
      if (const std::optional<Activation> found = activation_of(*next); found && float_meta(*next) != nullptr) {
        tail.activation = *found;
        tail.last = next;
        next = single_user(*next);
      }
    // The quantize node may have several users, the value before it only this one.
    if (next != nullptr && is_fusable_quantize(*next)) tail.last = tail.quantize = next;
    // A u8 residual asks for a u8 result, so that one can be written over the other.
    if (tail.residual != nullptr && tail.quantize == nullptr && dequantizes_tensor(*tail.residual)) return tail_of(head, false);
    return tail;
  }
  void take_residual(Tail& tail) const {
    Node* add = single_user(*tail.last);
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
  template <class Fill>
  void emit(Node& head, const Tail& tail, Fill fill) {
    std::vector<Node*> nodes{&head};
    while (nodes.back() != tail.last) nodes.push_back(single_user(*nodes.back()));
    taken_.insert(nodes.begin(), nodes.end());
    const auto make = [this, tail, nodes, fill] {
      PlanStep step;
      step.name = tail.last->name();
      step.activation = tail.activation;
      fill(step);
      if (tail.residual != nullptr) {
        step.inputs.push_back(read(tail.residual));
        step.in_place_input = 1;
      }
      PlanBuffer out = tail.quantize != nullptr ? buffer_like(*tail.last, DType::kU8, plan_qparams(*tail.quantize)) : buffer_like(*tail.last, DType::kF32);
      add_step(std::move(step), std::move(out), *tail.last, nodes);
      open().is_idle = false;
    };
    if (tail.last == &head) make();
    else pending_.emplace(tail.last, make);
  }
  void add_step(PlanStep step, PlanBuffer out, const Node& last, const std::vector<Node*>& nodes) {
    Open& plan = open();
    const DType dtype = out.dtype;
    step.output = add_buffer(std::move(out));
    if (step.in_place_input >= 0) {  // only where the bytes correspond one to one
      const PlanBuffer &from = plan.plan.buffers[step.inputs[static_cast<size_t>(step.in_place_input)]], &to = plan.plan.buffers[step.output];
      if (from.dtype != to.dtype || from.symbolic_sizes != to.symbolic_sizes || from.channels_last != to.channels_last) step.in_place_input = -1;
    }
    const Place place{open_index(), step.output};
    for (const Node* node : nodes) set_fate(*node, place.plan, plan.plan.steps.size());
    plan.plan.steps.push_back(std::move(step));
    if (dtype == DType::kU8 && quantizes_tensor(last)) rounded_[&last] = place;
    else real_[&last] = place;
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
    step.inputs = {read_as_is(value)};
    add_step(std::move(step), buffer_like(node, DType::kU8, qparams), node, {&node});
    return {};
  }

  std::string dequantize(Node& node) {
    const auto at = rounded_.find(node.arg(0).node());
    if (at == rounded_.end()) return "its integers come from another operator than quantize";
    real_[&node] = at->second;
    set_fate(node, at->second.plan, plans_[at->second.plan].plan.steps.size() - 1);
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
      Requantization rounding;
      rounding.inverse_scale = static_cast<float>(1.0 / to.scale);
      rounding.zero_point = to.zero_point;
      rounding.low = to.qmin;
      rounding.high = to.qmax;
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

  std::string convolution(Node& node) {
    Node* x = node.arg(0).node();
    if (!is_held_u8(x)) return "its input is not quantized";
    auto weight = quantized_weight(program_, node.arg(1));
    if (const std::string* reason = std::get_if<std::string>(&weight)) return *reason;
    auto bias = constant_bias(program_, node.arg(2));
    if (const std::string* reason = std::get_if<std::string>(&bias)) return *reason;
    const QuantizedWeight& w = std::get<QuantizedWeight>(weight);
    const auto stride = int_pair(node, 3, {1, 1}), padding = int_pair(node, 4, {0, 0}), dilation = int_pair(node, 5, {1, 1});
    const int64_t groups = node.arg(6).integer().value_or(1);
    if (!stride || !padding || !dilation || float_meta(node)->sizes.size() != 4 || w.values.dim() != 4 || groups < 1)
      return "its extents are not those of a 2-d convolution with constant settings";
    PlanStep form;
    form.weight = w.values;
    form.weight_scales = w.scales;
    form.bias = std::get<Tensor>(bias);
    form.groups = groups;
    form.window = {w.values.size(2), w.values.size(3), (*stride)[0], (*stride)[1], (*padding)[0], (*padding)[1], (*dilation)[0], (*dilation)[1]};
    emit_product(node, Kind::kConvolution, form, x);
    return {};
  }
  std::string linear(Node& node) {
    Node* x = node.arg(0).node();
    if (!is_held_u8(x)) return "its input is not quantized";
    auto weight = quantized_weight(program_, node.arg(1));
    if (const std::string* reason = std::get_if<std::string>(&weight)) return *reason;
    auto bias = constant_bias(program_, node.arg(2));
    if (const std::string* reason = std::get_if<std::string>(&bias)) return *reason;
    if (std::get<QuantizedWeight>(weight).values.dim() != 2) return "the weight is not a matrix";
    if (held(x).symbolic_sizes.size() == 4) return "its input is an image";
    PlanStep form;
    form.weight = std::get<QuantizedWeight>(weight).values;
    form.weight_scales = std::get<QuantizedWeight>(weight).scales;
    form.bias = std::get<Tensor>(bias);
    emit_product(node, Kind::kLinear, form, x);
    return {};
  }
  void emit_product(Node& node, Kind kind, const PlanStep& form, Node* x) {
    const Tail tail = tail_of(node, true);
    emit(node, tail, [this, kind, form, x](PlanStep& step) {
      const PlanStep named = step;
      step = form;
      step.kind = kind;
      step.name = named.name;
      step.activation = named.activation;
      step.inputs = {read(x)};
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
    if (!is_held_u8(x) || held(x).symbolic_sizes.size() != 4) return "its input is not a quantized image";
    const auto kernel = int_pair(node, 1, {1, 1});
    if (!kernel) return "its window is not constant";
    const auto stride = int_pair(node, 2, *kernel), padding = int_pair(node, 3, {0, 0}), dilation = int_pair(node, 4, {1, 1});
    if (!stride || !padding || !dilation) return "its window is not constant";
    PlanStep step;
    step.kind = Kind::kMaxPool;
    step.name = node.name();
    step.window = {(*kernel)[0], (*kernel)[1], (*stride)[0], (*stride)[1], (*padding)[0], (*padding)[1], (*dilation)[0], (*dilation)[1]};
    step.inputs = {read(x)};
    add_step(std::move(step), buffer_like(node, DType::kU8, held(x).qparams), node, {&node});
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
      if (const int64_t at = axis.integer().value_or(0); at != -1 && at != -2 && at != 2 && at != 3) return "it is not the mean over rows and columns";
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

  std::string reshape(Node& node) { return move(node, {}); }
  std::string permute(Node& node) {
    if (!node.arg(1).is_list()) return "its axes are not constant";
    std::vector<int64_t> axes;
    const int64_t rank = static_cast<int64_t>(float_meta(node)->sizes.size());
    for (const Argument& axis : node.arg(1).list()) axes.push_back(wrap_axis(axis.integer().value_or(0), rank));
    return move(node, axes);
  }
  // Bytes at other places, with the qparams they have.
  std::string move(Node& node, std::vector<int64_t> permutation) {
    Node* x = node.arg(0).node();
    if (!is_held(x)) return "its input is not in a plan";
    PlanStep step;
    step.kind = Kind::kCopy;
    step.name = node.name();
    step.inputs = {read(x)};
    const PlanBuffer from = open().plan.buffers[step.inputs[0]];
    PlanBuffer to = buffer_like(node, from.dtype, from.qparams);
    const bool has_plane = from.symbolic_sizes.size() == 4 && !(from.symbolic_sizes[2] == SymInt(1) && from.symbolic_sizes[3] == SymInt(1));
    const bool is_image = to.symbolic_sizes.size() == 4 && !(to.symbolic_sizes[2] == SymInt(1) && to.symbolic_sizes[3] == SymInt(1));
    const bool same_order = permutation.empty() && !has_plane && !is_image;
    step.permutation = std::move(permutation);
    if (same_order) step.in_place_input = 0;
    const Place place{open_index(), open().plan.buffers.size()};
    step.output = add_buffer(std::move(to));
    set_fate(node, place.plan, open().plan.steps.size());
    open().plan.steps.push_back(std::move(step));
    real_[&node] = place;
    return {};
  }
  std::string identity(Node& node) {
    Node* x = node.arg(0).node();
    if (!is_held(x)) return "its input is not in a plan";
    if (node.target().find("dropout") != std::string::npos && !is_idle_dropout(node)) return "it drops out at random";
    real_[&node] = real_.at(x);
    set_fate(node, real_.at(x).plan, plans_[real_.at(x).plan].plan.steps.size() - 1);
    return {};
  }

  // the end.

  // A plan that only converts between u8 and f32 is better left to the operators.
  void drop_idle_plans() {
    for (size_t p = 0; p < plans_.size(); ++p) {
      if (!plans_[p].is_idle || plans_[p].is_imported) continue;
      bool imports = false;
      for (const auto& arg : plans_[p].args) imports = imports || std::holds_alternative<Place>(arg);
      if (imports) continue;
      plans_[p].plan = {};
      plans_[p].args.clear();
      uses_.erase(std::remove_if(uses_.begin(), uses_.end(), [&](const Use& use) { return use.place.plan == p; }), uses_.end());
      for (auto& [node, fate] : fates_)
        if (fate.plan == static_cast<int>(p)) fate = {fate.node, fate.target, -1, 0, "nothing but conversions would be in its plan"};
    }
  }

  void rewrite() {
    Graph& graph = *program_.graph;
    std::map<Place, Node*> results;
    for (size_t p = 0; p < plans_.size(); ++p) {
      const Open& plan = plans_[p];
      if (plan.plan.steps.empty() || plan.plan.outputs.empty()) continue;
      std::vector<Argument> args;
      for (const auto& arg : plan.args) {
        if (Node* const* node = std::get_if<Node*>(&arg)) args.emplace_back(*node);
        else args.emplace_back(results.at(std::get<Place>(arg)));
      }
      const auto point = graph.insert_before(plan.before != nullptr ? plan.before : graph.output_node());
      const std::string name = concat("plan_", p);
      Node* call = graph.create(Node::Op::kCallModule, name, std::move(args), {}, name);
      for (size_t i = 0; i < plan.plan.outputs.size(); ++i) {
        Node* item = graph.call("operator.getitem", {call, static_cast<int64_t>(i)});
        const PlanBuffer& buffer = plan.plan.buffers[plan.plan.outputs[i]];
        item->meta.val.value = TensorMeta{buffer.dtype, buffer.symbolic_sizes, {}, false};
        results[{p, plan.plan.outputs[i]}] = item;
      }
    }
    for (const Use& use : uses_) use.user->replace_input_with(use.value, results.at(use.place));
    // From the end, so that a node's users go before it; in-place operators would survive the elimination of dead code.
    const std::vector<Node*> nodes = graph.nodes();
    for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {
      const auto fate = fates_.find(*node);
      if (fate != fates_.end() && fate->second.plan >= 0 && (*node)->users().empty()) graph.erase(*node);
    }
    graph.eliminate_dead_code();
    program_.erase_unused_attributes();
  }

  Program& program_;
  std::map<std::string, int64_t> symbols_;                            // those of the inputs' sizes
  std::vector<Open> plans_;
  std::unordered_map<const Node*, Place> real_;                       // who holds a node's real value
  std::unordered_map<const Node*, Place> rounded_;                    // who holds a quantize node's integers
  std::unordered_set<const Node*> taken_;                             // by a head
  std::unordered_map<const Node*, std::function<void()>> pending_;    // last node of a tail -> makes its step
  std::vector<Use> uses_;                                             // of plans' values by nodes that stay
  std::unordered_map<const Node*, NodeFate> fates_;
};

}  // namespace

Fusion fuse(Program& program) { return Fuser(program).run(); }

}  // namespace qdq
