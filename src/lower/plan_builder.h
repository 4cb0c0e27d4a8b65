// Plans while fusion makes them: buffers, views, what crosses a plan's border, and at the end the rewriting of the graph.
// In the class itself, because only fuse.cpp uses it.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "lower/fuse.h"
#include "lower/fuse_nodes.h"

namespace qdq {

// Where a plan holds a value.
struct PlanPlace {
  size_t plan, buffer;
  auto operator<=>(const PlanPlace&) const = default;
};

class PlanBuilder {
 protected:
  using Kind = PlanStep::Kind;
  using Place = PlanPlace;

  explicit PlanBuilder(Program& program) : program_(program) {}

  // A plan while it is made.
  struct Open {
    Plan plan;
    Node* before = nullptr;                        // its call goes in front of this node; null: the plan is open
    std::vector<std::variant<Node*, Place>> args;  // who brings its inputs: a node of the graph, or an earlier plan
    std::unordered_map<const Node*, size_t> from_graph;
    std::map<Place, size_t> from_plans;
    std::map<std::pair<size_t, bool>, size_t> reordered;  // (buffer, channels last) -> the same, in that order or in C order
    std::map<size_t, size_t> plain;                       // buffer -> f32 in C order
    std::map<size_t, size_t> floats;                      // u8 buffer -> the same in f32
    bool is_idle = true;                                  // only moves numbers between u8 and f32
    bool is_imported = false;                             // a later plan reads from it
  };
  struct Use {
    Node* user;
    Node* value;
    Place place;
  };

  // Made of constants alone: folded later, if anybody still needs it.
  static bool is_constant(const Node& node) {
    const std::vector<Node*> inputs = node.input_nodes();
    return !inputs.empty() && std::all_of(inputs.begin(), inputs.end(), [](const Node* n) { return n->op() == Node::Op::kGetAttr; });
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
      return place.plan == open_index() ? place.buffer : imported(place);
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
  // A value of an earlier plan in the open one; a view comes as a view of its base.
  size_t imported(Place place) {
    Open& plan = open();
    PlanBuffer copy = plans_[place.plan].plan.buffers[place.buffer];
    if (const auto known = plan.from_plans.find(place); known != plan.from_plans.end()) return known->second;
    size_t at;
    if (copy.place == PlanBuffer::Place::kView) {
      copy.base = imported({place.plan, copy.base});
      at = add_buffer(std::move(copy));
    } else {
      copy.place = PlanBuffer::Place::kInput;
      plans_[place.plan].is_imported = true;
      make_output(place);
      at = plan.plan.buffers.size();
      add_input(std::move(copy), place);
    }
    plan.from_plans.emplace(place, at);
    return at;
  }
  void add_input(PlanBuffer buffer, std::variant<Node*, Place> source) {
    const size_t at = add_buffer(std::move(buffer));
    open().plan.inputs.push_back(at);
    open().args.push_back(source);
  }

  // The same in a storage order that every step knows: images channels last, all else in C order.
  size_t read(Node* node) {
    const size_t at = read_as_is(node);
    const PlanBuffer& buffer = open().plan.buffers[at];
    if (buffer.symbolic_sizes.size() != 4 ? is_in_c_order(buffer) : buffer.channels_last) return at;
    return arranged(at, buffer.symbolic_sizes.size() == 4);
  }
  // The same in f32.
  size_t read_floats(Node* node) {
    const size_t at = read(node);
    Open& plan = open();
    const PlanBuffer& buffer = plan.plan.buffers[at];
    if (buffer.dtype == DType::kF32) return at;
    const auto [known, is_new] = plan.floats.emplace(at, plan.plan.buffers.size());
    if (is_new) append_copy(plan, Kind::kDequantize, at, buffer.channels_last, DType::kF32);
    return known->second;
  }
  // The same with a dense last axis.
  size_t read_rows(Node* node) {
    const size_t at = read_as_is(node);
    return strides_of(open().plan.buffers[at]).back() == SymInt(1) ? at : arranged(at, false);
  }
  size_t arranged(size_t at, bool channels_last) {
    Open& plan = open();
    const auto [known, is_new] = plan.reordered.emplace(std::pair(at, channels_last), plan.plan.buffers.size());
    if (is_new) append_copy(plan, Kind::kArrange, at, channels_last, plan.plan.buffers[at].dtype);
    return known->second;
  }
  static void append_copy(Open& plan, Kind kind, size_t from, bool channels_last, DType dtype) {
    PlanBuffer copy = plan.plan.buffers[from];
    copy.place = PlanBuffer::Place::kArena;
    copy.channels_last = channels_last;
    copy.dtype = dtype;
    PlanStep step;
    step.kind = kind;
    step.name = copy.name;
    step.inputs = {from};
    step.output = plan.plan.buffers.size();
    plan.plan.buffers.push_back(std::move(copy));
    plan.plan.steps.push_back(std::move(step));
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
    const bool is_own = buffer.place == PlanBuffer::Place::kArena || buffer.place == PlanBuffer::Place::kOutput;
    if (buffer.dtype == DType::kF32 && !buffer.channels_last && is_own) {
      make_output(place);
      return place;
    }
    const auto known = plan.plain.find(place.buffer);
    if (known != plan.plain.end()) return {place.plan, known->second};
    size_t from = place.buffer;
    if (buffer.place == PlanBuffer::Place::kView && !is_in_c_order(buffer) && !buffer.channels_last) {
      append_copy(plan, Kind::kArrange, from, false, buffer.dtype);
      from = plan.plan.buffers.size() - 1;
    }
    if (from == place.buffer || plan.plan.buffers[from].dtype != DType::kF32) {
      append_copy(plan, Kind::kDequantize, from, false, DType::kF32);
      from = plan.plan.buffers.size() - 1;
    }
    plan.plain.emplace(place.buffer, from);
    make_output({place.plan, from});
    return {place.plan, from};
  }

  // views.

  static SymShape c_order(const SymShape& sizes) {
    SymShape strides(sizes.size());
    SymInt stride = 1;
    for (size_t axis = sizes.size(); axis-- > 0;) {
      strides[axis] = stride;
      stride = stride * sizes[axis];
    }
    return strides;
  }
  static SymShape image_order(const SymShape& sizes) { return {sizes[1] * sizes[2] * sizes[3], 1, sizes[3] * sizes[1], sizes[1]}; }
  static SymShape strides_of(const PlanBuffer& buffer) {
    if (buffer.place == PlanBuffer::Place::kView) return buffer.symbolic_view_strides;
    return buffer.channels_last ? image_order(buffer.symbolic_sizes) : c_order(buffer.symbolic_sizes);
  }
  // Strides of axes of one element do not matter.
  static bool same_order(const SymShape& sizes, const SymShape& a, const SymShape& b) {
    for (size_t axis = 0; axis < sizes.size(); ++axis)
      if (!(sizes[axis] == SymInt(1)) && !(a[axis] == b[axis])) return false;
    return true;
  }
  static bool is_in_c_order(const PlanBuffer& buffer) {
    return same_order(buffer.symbolic_sizes, strides_of(buffer), c_order(buffer.symbolic_sizes));
  }

  // `node` is what lies behind `from` at the strides, from `offset` elements on.
  void add_view(Node& node, size_t from, SymInt offset, SymShape strides) {
    Open& plan = open();
    const PlanBuffer& source = plan.plan.buffers[from];
    const bool is_view = source.place == PlanBuffer::Place::kView;
    PlanBuffer view = buffer_like(node, source.dtype, source.qparams);
    view.place = PlanBuffer::Place::kView;
    view.base = is_view ? source.base : from;
    view.symbolic_view_offset = is_view ? source.symbolic_view_offset + offset : offset;
    view.channels_last = view.symbolic_sizes.size() == 4 && same_order(view.symbolic_sizes, strides, image_order(view.symbolic_sizes));
    view.symbolic_view_strides = std::move(strides);
    const Place place{open_index(), add_buffer(std::move(view))};
    real_[&node] = place;
    set_fate(node, place.plan, last_step(place.plan));
  }
  size_t last_step(size_t plan) const { return std::max<size_t>(plans_[plan].plan.steps.size(), 1) - 1; }

  void set_fate(const Node& node, size_t plan, size_t step) { fates_[&node] = {node.name(), node.target(), static_cast<int>(plan), step, {}}; }

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
  std::vector<Open> plans_;
  std::unordered_map<const Node*, Place> real_;     // who holds a node's real value
  std::unordered_map<const Node*, Place> rounded_;  // who holds a quantize node's integers
  std::vector<Use> uses_;                           // of plans' values by nodes that stay
  std::unordered_map<const Node*, NodeFate> fates_;
};

}  // namespace qdq
