#include "lower/plan_builder.h"

#include <algorithm>

#include "lower/fuse_nodes.h"
#include "lower/round_in_pools.h"
#include "op/targets.h"

namespace qdq {
namespace {

using Location = PlanBuffer::Location;

// [A, B, C, D] as rows of its last axis.
SymShape rows_of(const SymShape& sizes) { return {sizes[0], sizes[1] * sizes[2], sizes[3]}; }

// Strides of axes of one element do not matter.
bool same_order(const SymShape& sizes, const SymShape& a, const SymShape& b) {
  for (size_t axis = 0; axis < sizes.size(); ++axis)
    if (!(sizes[axis] == SymInt(1)) && !(a[axis] == b[axis])) return false;
  return true;
}

// Only moves numbers between u8 and f32, or bytes.
bool is_idle(const PlanStep& step) {
  using Kind = PlanStep::Kind;
  const Kind kind = step.kind();
  return step.activation.kind == Activation::Kind::kNone &&
         (kind == Kind::kQuantize || kind == Kind::kDequantize || kind == Kind::kCopy || kind == Kind::kArrange);
}

}  // namespace

SymShape c_order(const SymShape& sizes) {
  SymShape strides(sizes.size());
  SymInt stride = 1;
  for (size_t axis = sizes.size(); axis-- > 0;) {
    strides[axis] = stride;
    stride = stride * sizes[axis];
  }
  return strides;
}

SymShape image_order(const SymShape& sizes) {
  return {sizes[1] * sizes[2] * sizes[3], 1, sizes[3] * sizes[1], sizes[1]};
}

SymShape strides_of(const PlanBuffer& buffer) {
  if (buffer.location == Location::kView) return buffer.symbolic_view_strides;
  return buffer.channels_last ? image_order(buffer.symbolic_sizes) : c_order(buffer.symbolic_sizes);
}

bool is_in_c_order(const PlanBuffer& buffer) {
  return same_order(buffer.symbolic_sizes, strides_of(buffer), c_order(buffer.symbolic_sizes));
}

// What plans hold.

bool PlanBuilder::is_constant(const Node& node) {
  const std::vector<Node*> inputs = node.input_nodes();
  return !inputs.empty() &&
         std::all_of(inputs.begin(), inputs.end(), [](const Node* n) { return n->op() == Node::Op::kGetAttr; });
}

const PlanBuffer& PlanBuilder::held(const Node* node) const {
  const PlanValue place = real_.at(node);
  return plans_[place.plan].plan.buffers[place.buffer];
}

const Node* PlanBuilder::writer_beside(const Node& node) const {
  if (writers_.empty()) return nullptr;
  if (const auto writer = writers_.find(&node); writer != writers_.end()) return writer->second;
  for (const Node* input : node.input_nodes())
    if (const auto writer = writers_.find(input); writer != writers_.end()) return writer->second;
  return nullptr;
}

bool PlanBuilder::is_readable(const Node* node) const {
  return node != nullptr && node->op() != Node::Op::kGetAttr && writers_.count(node) == 0 &&
         (is_held(node) || (float_meta(*node) != nullptr && !is_constant(*node)));
}

bool PlanBuilder::is_fused(const Node* node) const {
  const auto fate = fates_.find(node);
  return fate != fates_.end() && fate->second.plan >= 0;
}

PlanBuilder::Open& PlanBuilder::open() {
  if (plans_.empty() || plans_.back().before != nullptr) plans_.emplace_back();
  return plans_.back();
}

size_t PlanBuilder::open_index() {
  open();
  return plans_.size() - 1;
}

size_t PlanBuilder::last_step(size_t plan) const { return std::max<size_t>(plans_[plan].plan.steps.size(), 1) - 1; }

void PlanBuilder::set_fate(const Node& node, size_t plan, size_t step) {
  fates_[&node] = {node.name(), node.target(), static_cast<int>(plan), step, {}};
}

// Reading.

size_t PlanBuilder::read_as_is(Node* node) {
  Open& plan = open();
  if (const auto at = real_.find(node); at != real_.end()) {
    const PlanValue place = at->second;
    return place.plan == open_index() ? place.buffer : imported(place);
  }
  const auto [known, is_new] = plan.from_graph.emplace(node, plan.plan.buffers.size());
  if (is_new) {
    PlanBuffer input = buffer_like(*node, DType::kF32);
    input.channels_last = false;
    input.location = Location::kInput;
    add_input(std::move(input), node);
  }
  return known->second;
}

// A value of an earlier plan in the open one; a view comes as a view of its base, and what that plan was itself given
// comes from where it had it.
size_t PlanBuilder::imported(PlanValue place) {
  Open& plan = open();
  if (const auto known = plan.from_plans.find(place); known != plan.from_plans.end()) return known->second;
  PlanBuffer copy = plans_[place.plan].plan.buffers[place.buffer];
  size_t at;
  if (copy.location == Location::kView) {
    copy.base = imported({place.plan, copy.base});
    at = add_buffer(std::move(copy));
  } else if (copy.location == Location::kInput) {
    const Open& of = plans_[place.plan];
    const auto input = std::find(of.plan.inputs.begin(), of.plan.inputs.end(), place.buffer);
    const auto source = of.args[static_cast<size_t>(input - of.plan.inputs.begin())];
    Node* const* node = std::get_if<Node*>(&source);
    if (node != nullptr && copy.dtype == DType::kU8) {
      at = plan.plan.buffers.size();
      add_input(std::move(copy), *node);
    } else {
      at = node != nullptr ? read_as_is(*node) : imported(std::get<PlanValue>(source));
    }
  } else {
    copy.location = Location::kInput;
    plans_[place.plan].is_imported = true;
    make_output(place);
    at = plan.plan.buffers.size();
    add_input(std::move(copy), place);
  }
  plan.from_plans.emplace(place, at);
  return at;
}

void PlanBuilder::add_input(PlanBuffer buffer, std::variant<Node*, PlanValue> source) {
  const size_t at = add_buffer(std::move(buffer));
  open().plan.inputs.push_back(at);
  open().args.push_back(source);
}

size_t PlanBuilder::read(Node* node) {
  const size_t at = read_as_is(node);
  const PlanBuffer& given = buffer(at);
  if (given.symbolic_sizes.size() != 4 ? is_in_c_order(given) : given.channels_last) return at;
  return arranged(at, given.symbolic_sizes.size() == 4);
}

size_t PlanBuilder::read_in_c_order(Node* node) {
  const size_t at = read_as_is(node);
  return is_in_c_order(buffer(at)) ? at : arranged(at, false);
}

size_t PlanBuilder::read_floats(Node* node) { return in_floats(read(node)); }

size_t PlanBuilder::in_floats(size_t at) {
  Open& plan = open();
  const PlanBuffer& given = plan.plan.buffers[at];
  if (given.dtype == DType::kF32) return at;
  const auto [known, is_new] = plan.floats.emplace(at, plan.plan.buffers.size());
  if (is_new) append_copy(plan, PlanStep::Dequantize{}, at, given.channels_last, DType::kF32);
  return known->second;
}

size_t PlanBuilder::read_rows(Node* node) {
  const size_t at = read_as_is(node);
  return strides_of(buffer(at)).back() == SymInt(1) ? at : arranged(at, false);
}

size_t PlanBuilder::read_float_rows(Node* node) {
  return buffer(read_as_is(node)).dtype == DType::kF32 ? read_rows(node) : in_floats(read_in_c_order(node));
}

bool PlanBuilder::is_sequence(const Node* node) const {
  return is_held(node) && !held(node).channels_last && strides_of(held(node)).back() == SymInt(1);
}

size_t PlanBuilder::read_sequence(Node* node) {
  if (buffer(read_as_is(node)).symbolic_sizes.size() != 4) return read(node);
  const size_t at = read_in_c_order(node);
  Open& plan = open();
  const auto [known, is_new] = plan.rows.emplace(at, plan.plan.buffers.size());
  if (!is_new) return known->second;
  PlanBuffer rows = buffer(at);
  rows.symbolic_sizes = rows_of(rows.symbolic_sizes);
  rows.channels_last = false;
  if (rows.location != Location::kView) {
    rows.location = Location::kView;
    rows.base = at;
    rows.symbolic_view_offset = 0;
  } else if (const PlanBuffer& base = buffer(rows.base);
             rows.symbolic_view_offset == SymInt(0) && base.symbolic_sizes == rows.symbolic_sizes) {
    return known->second = rows.base;
  }
  rows.symbolic_view_strides = c_order(rows.symbolic_sizes);
  return add_buffer(std::move(rows));
}

size_t PlanBuilder::arranged(size_t at, bool channels_last) {
  Open& plan = open();
  const auto [known, is_new] = plan.reordered.emplace(std::pair(at, channels_last), plan.plan.buffers.size());
  if (is_new) append_copy(plan, PlanStep::Arrange{}, at, channels_last, plan.plan.buffers[at].dtype);
  return known->second;
}

size_t PlanBuilder::viewed(size_t at, SymShape sizes, SymShape strides) {
  PlanBuffer view = buffer(at);
  if (view.location != Location::kView) {
    view.location = Location::kView;
    view.base = at;
    view.symbolic_view_offset = 0;
  }
  view.channels_last = false;
  view.symbolic_sizes = std::move(sizes);
  view.symbolic_view_strides = std::move(strides);
  return add_buffer(std::move(view));
}

size_t PlanBuilder::permuted_copy(size_t at, const std::vector<size_t>& axes) {
  const SymShape &own = buffer(at).symbolic_sizes, from = strides_of(buffer(at));
  SymShape sizes, strides;
  for (const size_t axis : axes) {
    sizes.push_back(own[axis]);
    strides.push_back(from[axis]);
  }
  return arranged(viewed(at, std::move(sizes), std::move(strides)), false);
}

size_t PlanBuilder::expanded_copy(size_t at, const SymShape& sizes) {
  const SymShape &own = buffer(at).symbolic_sizes, from = strides_of(buffer(at));
  const size_t missing = sizes.size() - own.size();
  SymShape strides(sizes.size(), SymInt(0));
  for (size_t axis = missing; axis < sizes.size(); ++axis)
    if (own[axis - missing] == sizes[axis]) strides[axis] = from[axis - missing];
  return arranged(viewed(at, sizes, std::move(strides)), sizes.size() == 4);
}

void PlanBuilder::append_copy(Open& plan, PlanStep::Form form, size_t from, bool channels_last, DType dtype) {
  PlanBuffer copy = plan.plan.buffers[from];
  copy.location = Location::kArena;
  copy.channels_last = channels_last;
  copy.dtype = dtype;
  PlanStep step;
  step.form = std::move(form);
  step.name = copy.name;
  step.inputs = {from};
  step.output = plan.plan.buffers.size();
  plan.plan.buffers.push_back(std::move(copy));
  plan.plan.steps.push_back(std::move(step));
}

// Writing.

PlanBuffer PlanBuilder::buffer_like(const Node& node, DType dtype, PlanQParams qparams) {
  PlanBuffer buffer;
  buffer.name = node.name();
  buffer.symbolic_sizes = node.meta.val.tensor()->sizes;
  buffer.dtype = dtype;
  buffer.channels_last = buffer.symbolic_sizes.size() == 4;
  buffer.qparams = qparams;
  return buffer;
}

size_t PlanBuilder::add_buffer(PlanBuffer buffer) {
  Plan& plan = open().plan;
  plan.buffers.push_back(std::move(buffer));
  return plan.buffers.size() - 1;
}

void PlanBuilder::add_step(PlanStep step, PlanBuffer out, const Node& last, const std::vector<Node*>& nodes) {
  Open& plan = open();
  const size_t result = step.output = add_buffer(std::move(out));
  if (step.in_place_input >= 0) {  // only where the bytes correspond one to one
    const PlanBuffer &from = plan.plan.buffers[step.inputs[static_cast<size_t>(step.in_place_input)]],
                     &to = plan.plan.buffers[step.output];
    if (from.dtype != to.dtype || from.symbolic_sizes != to.symbolic_sizes || from.channels_last != to.channels_last)
      step.in_place_input = -1;
  }
  plan.is_idle = plan.is_idle && is_idle(step);
  for (const Node* node : nodes) set_fate(*node, open_index(), plan.plan.steps.size());
  plan.plan.steps.push_back(std::move(step));
  hold_result(last, result);
}

void PlanBuilder::add_sequence_step(PlanStep step, PlanBuffer out, const Node& last, const std::vector<Node*>& nodes) {
  if (out.symbolic_sizes.size() != 4) return add_step(std::move(step), std::move(out), last, nodes);
  PlanBuffer view = out;
  out.symbolic_sizes = rows_of(out.symbolic_sizes);
  out.channels_last = false;
  add_step(std::move(step), std::move(out), last, nodes);
  view.location = Location::kView;
  view.channels_last = false;
  view.base = open().plan.buffers.size() - 1;
  view.symbolic_view_offset = 0;
  view.symbolic_view_strides = c_order(view.symbolic_sizes);
  hold_result(last, add_buffer(std::move(view)));
}

void PlanBuilder::hold_result(const Node& last, size_t buffer) {
  const PlanValue place{open_index(), buffer};
  if (open().plan.buffers[buffer].dtype == DType::kU8 && quantizes_tensor(last)) rounded_[&last] = place;
  else real_[&last] = place;
}

void PlanBuilder::add_view(Node& node, size_t from, SymInt offset, SymShape strides) {
  const PlanBuffer& source = buffer(from);
  const bool is_view = source.location == Location::kView;
  PlanBuffer view = buffer_like(node, source.dtype, source.qparams);
  view.location = Location::kView;
  view.base = is_view ? source.base : from;
  view.symbolic_view_offset = is_view ? source.symbolic_view_offset + offset : offset;
  view.channels_last =
      view.symbolic_sizes.size() == 4 && same_order(view.symbolic_sizes, strides, image_order(view.symbolic_sizes));
  view.symbolic_view_strides = std::move(strides);
  const PlanValue place{open_index(), add_buffer(std::move(view))};
  real_[&node] = place;
  set_fate(node, place.plan, last_step(place.plan));
}

void PlanBuilder::hold_same(const Node& node, const Node& x) {
  const PlanValue place = real_.at(&x);
  real_[&node] = place;
  set_fate(node, place.plan, last_step(place.plan));
}

void PlanBuilder::hold_same_integers(const Node& quantize, const Node& x) {
  const PlanValue place = real_.at(&x);
  rounded_[&quantize] = place;
  set_fate(quantize, place.plan, 0);
}

bool PlanBuilder::hold_dequantized(const Node& dequantize, const Node* quantize) {
  const auto at = rounded_.find(quantize);
  if (at == rounded_.end()) return false;
  real_[&dequantize] = at->second;
  set_fate(dequantize, at->second.plan, last_step(at->second.plan));
  return true;
}

void PlanBuilder::hold_given_integers(const Node& dequantize, Node* integers, PlanQParams qparams) {
  PlanBuffer input = buffer_like(*integers, DType::kU8, qparams);
  input.channels_last = false;
  input.location = Location::kInput;
  size_t at = open().plan.buffers.size();
  add_input(std::move(input), integers);
  if (integers->meta.val.tensor()->dtype == DType::kS8) {  // kept 128 higher, which is another first bit
    const Tensor table = Tensor::empty({256}, DType::kU8);
    for (int q = 0; q < 256; ++q) table.data<uint8_t>()[q] = static_cast<uint8_t>(q ^ 128);
    append_copy(open(), PlanStep::Map{table}, at, false, DType::kU8);
    at = open().plan.buffers.size() - 1;
  }
  const PlanValue place{open_index(), at};
  real_[&dequantize] = place;
  set_fate(dequantize, place.plan, last_step(place.plan));
}

void PlanBuilder::share_step(const Node& node, const Node& of) {
  const NodeFate fate = fates_.at(&of);
  set_fate(node, static_cast<size_t>(fate.plan), fate.step);
}

void PlanBuilder::pass_over(const Node& node, const Node& x) {
  const size_t plan = real_.at(&x).plan;
  set_fate(node, plan, last_step(plan));
}

// The border of a plan.

void PlanBuilder::make_output(PlanValue place) {
  Plan& plan = plans_[place.plan].plan;
  PlanBuffer& buffer = plan.buffers[place.buffer];
  if (buffer.location != Location::kArena) return;
  buffer.location = Location::kOutput;
  plan.outputs.push_back(place.buffer);
}

void PlanBuilder::leave(Node& node, std::string refusal) {
  need_inputs(node);
  fates_[&node] = {node.name(), node.target(), -1, 0, std::move(refusal)};
}

void PlanBuilder::need_inputs(Node& node) {
  for (Node* input : node.input_nodes()) {
    const auto at = real_.find(input);
    if (at == real_.end()) continue;
    if (plans_[at->second.plan].before == nullptr) plans_[at->second.plan].before = &node;
    uses_.push_back({&node, input, plain(at->second)});
  }
}

// The value as f32 in C order, an output of its plan.
PlanValue PlanBuilder::plain(PlanValue place) {
  Open& plan = plans_[place.plan];
  const PlanBuffer& buffer = plan.plan.buffers[place.buffer];
  const bool is_own = buffer.location == Location::kArena || buffer.location == Location::kOutput;
  if (buffer.dtype == DType::kF32 && !buffer.channels_last && is_own) {
    make_output(place);
    return place;
  }
  const auto known = plan.plain.find(place.buffer);
  if (known != plan.plain.end()) return {place.plan, known->second};
  size_t from = place.buffer;
  if (buffer.location == Location::kView && !is_in_c_order(buffer) && !buffer.channels_last) {
    append_copy(plan, PlanStep::Arrange{}, from, false, buffer.dtype);
    from = plan.plan.buffers.size() - 1;
  }
  if (from == place.buffer || plan.plan.buffers[from].dtype != DType::kF32) {
    append_copy(plan, PlanStep::Dequantize{}, from, false, DType::kF32);
    from = plan.plan.buffers.size() - 1;
  }
  plan.plain.emplace(place.buffer, from);
  make_output({place.plan, from});
  return {place.plan, from};
}

// The end.

Fusion PlanBuilder::finish(const std::vector<Node*>& nodes) {
  drop_idle_plans();
  std::vector<std::vector<size_t>> steps;  // of each plan, where its steps are now; empty: where they were
  for (Open& plan : plans_) steps.push_back(round_in_pools(plan.plan));
  for (auto& [node, fate] : fates_)
    if (fate.plan >= 0 && !steps[static_cast<size_t>(fate.plan)].empty())
      fate.step = steps[static_cast<size_t>(fate.plan)][fate.step];
  Fusion fusion;
  for (const Node* node : nodes)
    if (const auto fate = fates_.find(node); fate != fates_.end()) fusion.fates.push_back(fate->second);
  rewrite();
  for (Open& plan : plans_) fusion.plans.push_back(std::move(plan.plan));
  return fusion;
}

// A plan that only converts between u8 and f32 is better left to the operators.
void PlanBuilder::drop_idle_plans() {
  std::vector<bool> is_dropped;
  for (Open& plan : plans_) {
    const bool imports = std::any_of(plan.args.begin(), plan.args.end(),
                                     [](const auto& arg) { return std::holds_alternative<PlanValue>(arg); });
    is_dropped.push_back(plan.is_idle && !plan.is_imported && !imports);
    if (!is_dropped.back()) continue;
    plan.plan = {};
    plan.args.clear();
  }
  std::erase_if(uses_, [&](const Use& use) { return is_dropped[use.place.plan]; });
  for (auto& [node, fate] : fates_)
    if (fate.plan >= 0 && is_dropped[static_cast<size_t>(fate.plan)])
      fate = {fate.node, fate.target, -1, 0, "nothing but conversions would be in its plan"};
}

void PlanBuilder::rewrite() {
  Graph& graph = *program_.graph;
  std::map<PlanValue, Node*> results;
  for (size_t p = 0; p < plans_.size(); ++p) {
    const Open& plan = plans_[p];
    if (plan.plan.steps.empty() || plan.plan.outputs.empty()) continue;
    std::vector<Argument> args;
    for (const auto& arg : plan.args) {
      if (Node* const* node = std::get_if<Node*>(&arg)) args.emplace_back(*node);
      else args.emplace_back(results.at(*std::get_if<PlanValue>(&arg)));
    }
    const auto point = graph.insert_before(plan.before != nullptr ? plan.before : graph.output_node());
    const std::string name = concat("plan_", p);
    Node* call = graph.create(Node::Op::kCallModule, name, std::move(args), {}, name);
    for (size_t i = 0; i < plan.plan.outputs.size(); ++i) {
      Node* item = graph.call(std::string(op::kGetItem), {call, static_cast<int64_t>(i)});
      const PlanBuffer& buffer = plan.plan.buffers[plan.plan.outputs[i]];
      item->meta.val.value = TensorMeta{buffer.dtype, buffer.symbolic_sizes, {}, false};
      results[{p, plan.plan.outputs[i]}] = item;
    }
  }
  for (const Use& use : uses_) use.user->replace_input_with(use.value, results.at(use.place));
  // From the end, so that a node's users go before it; in-place operators would survive the elimination of dead code.
  const std::vector<Node*> nodes = graph.nodes();
  for (auto node = nodes.rbegin(); node != nodes.rend(); ++node)
    if (is_fused(*node) && (*node)->users().empty()) graph.erase(*node);
  graph.eliminate_dead_code();
  program_.erase_unused_attributes();
}

}  // namespace qdq
