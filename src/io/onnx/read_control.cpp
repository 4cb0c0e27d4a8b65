// ONNX operators that hold graphs, sequences of tensors and optional values.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>

#include "io/onnx/bag_loops.h"
#include "io/onnx/chains.h"
#include "io/onnx/import.h"
#include "io/onnx/loop_trips.h"
#include "io/onnx/node_order.h"
#include "op/targets.h"

namespace qdq {
namespace {

using format::OnnxKind;
using Values = std::vector<OnnxValue>;

void set_all(OnnxCall& call, const Values& values) {
  for (size_t i = 0; i < values.size(); ++i) call.set(values[i], i);
}

TensorMeta tensor_meta_of(DType dtype) {
  TensorMeta meta;
  meta.dtype = dtype;
  return meta;
}

// The results of a node that runs programs.
void set_results(OnnxCall& call, Node* results, const std::vector<OnnxValue::Kind>& kinds) {
  for (size_t i = 0; i < call.num_outputs(); ++i) {
    Node* one = call.call("operator.getitem", {results, static_cast<int64_t>(i)});
    if (const TensorMeta* meta = one->meta.val.tensor())
      for (size_t axis = 0; axis < meta->sizes.size(); ++axis)
        call.import().know_size(meta->sizes[axis], one, static_cast<int64_t>(axis));
    OnnxValue value;
    value.node = one;
    if (i < kinds.size()) value.kind = kinds[i];
    call.set(std::move(value), i);
  }
}

Argument::List list_of(const std::vector<Node*>& nodes) { return {nodes.begin(), nodes.end()}; }

// A branch that is known when the file is read takes the node's place.
void import_if(OnnxCall& call) {
  const Tensor condition = call.constant(0);
  if (!condition.defined()) {
    // Whatever made it: ONNX says that it is one truth value.
    if (call.tensor(0)->meta.val.value.index() == 0) call.tensor(0)->meta.val.value = tensor_meta_of(DType::kBool);
    const auto branches = call.import().subprograms({&call.graph("then_branch"), &call.graph("else_branch")}, {{}, {}});
    return set_results(call,
                       call.call_as_it_is(op::kCond, {call.tensor(0), branches.programs[0], branches.programs[1],
                                                      Argument(list_of(branches.captured))}),
                       branches.results);
  }
  if (condition.numel() != 1) call.refuse("branches on ", condition.numel(), " values, wanted one");
  const bool is_true = condition.to(DType::kBool).item_int() != 0;
  set_all(call, call.import().inline_graph(call.graph(is_true ? "then_branch" : "else_branch"), {}));
}

// How many times a loop may be written out: short ones, so that what is around them is optimized with them. Loops in
// loops stay loops where those around them have already become many nodes.
constexpr int64_t kMostInAll = 8'192;
constexpr size_t kMostUnrolledNodes = 2048;

bool may_unroll(OnnxCall& call, std::optional<int64_t> trips, const format::OnnxGraph& body) {
  return trips && *trips >= 0 && *trips <= kMostUnrolled &&
         static_cast<size_t>(*trips) * body.nodes.size() <= kMostUnrolledNodes &&
         call.import().written_out() <= kMostInAll;
}

// Joins what every iteration gave along a new axis.
void set_scan(OnnxCall& call, size_t output, const Values& parts, int64_t axis) {
  if (!call.has_output(output)) return;
  if (parts.empty()) call.refuse("joins the results of no iteration");
  Argument::List all;
  for (OnnxValue part : parts) all.emplace_back(call.import().node_of(part, "a loop"));
  const size_t rank = call.meta_of(all[0].node()).sizes.size();
  call.set(call.call("stack.default", {Argument(std::move(all)), call.axis(axis, rank + 1)}), output);
}

// The body of a loop as a program, its carried values having shapes that all iterations have.
struct LoopBody {
  OnnxImport::Subprograms body;
  std::vector<Node*> carried;
};

LoopBody loop_body(OnnxCall& call, const format::OnnxGraph& body, const Values& initial,
                   const std::vector<OnnxImport::GraphInput>& first) {
  std::vector<OnnxImport::GraphInput> inputs = first;
  LoopBody out;
  for (const OnnxValue& value : initial) {
    if (value.node == nullptr) call.refuse("begins with an optional that holds nothing");
    inputs.push_back({value.node->name(), value.node->meta.val, value.kind});
    out.carried.push_back(value.node);
  }
  // A size that an iteration changes is open, and of a value whose data type or rank changes nothing is known; then the
  // rest is looked at again.
  for (;;) {
    out.body = call.import().subprograms({&body}, {inputs});
    const Argument::List& results = out.body.programs[0]->graph->output_node()->arg(0).list();
    bool is_stable = true;
    for (size_t i = 0; i < initial.size(); ++i) {
      const Node* result = 1 + i < results.size() ? results[1 + i].node() : nullptr;
      OnnxImport::GraphInput& wanted = inputs[first.size() + i];
      OnnxValue::Kind found_kind;
      if (1 + i < out.body.results.size()) found_kind = out.body.results[1 + i];
      if (found_kind.is_list != wanted.kind.is_list) call.refuse("carries a value that is a list, or not, by turns");
      if (found_kind.may_be_none && !wanted.kind.may_be_none) {
        wanted.kind.may_be_none = true;
        is_stable = false;
      }
      if (!wanted.kind.is_tensor()) continue;
      const TensorMeta* found = result ? result->meta.val.tensor() : nullptr;
      auto* known = std::get_if<TensorMeta>(&wanted.meta.value);
      if (known == nullptr) continue;
      if (found == nullptr || found->dtype != known->dtype || found->sizes.size() != known->sizes.size()) {
        wanted.meta = {};
        is_stable = false;
        continue;
      }
      for (size_t axis = 0; axis < known->sizes.size(); ++axis) {
        const bool is_open = known->sizes[axis].to_string().starts_with("v");
        if (found->sizes[axis] == known->sizes[axis] || is_open) continue;
        known->sizes[axis] = call.import().fresh_symbol();
        is_stable = false;
      }
    }
    if (!is_stable) continue;
    // Without an iteration the first values come out.
    for (size_t i = 0; i < initial.size(); ++i) out.body.results[1 + i] = inputs[first.size() + i].kind;
    return out;
  }
}

format::OnnxNode node_of(const char* op_type, std::vector<std::string> inputs, std::string output) {
  format::OnnxNode out;
  out.op_type = op_type;
  out.inputs = std::move(inputs);
  out.outputs = {std::move(output)};
  return out;
}

// Makes the graph the only attribute of a Loop.
void set_body(format::OnnxNode& loop, std::shared_ptr<const format::OnnxGraph> body) {
  loop.attributes.clear();
  format::OnnxAttribute& attribute = loop.attributes.emplace_back();
  attribute.name = "body";
  attribute.kind = OnnxKind::kGraph;
  attribute.graphs = {std::move(body)};
}

// The node that inserts at the end of the list that is carried as value `i`: the list begins empty, nothing else reads
// it in the body, and behind the loop it is only joined along a new axis, as scripts do that append to a list. Or null.
const format::OnnxNode* growth_of(OnnxCall& call, const format::OnnxGraph& body, size_t i) {
  const auto& begin = call.value(2 + i).elements;
  if (!begin || !begin->empty() || !call.has_output(i) || !call.is_only_stacked(i)) return nullptr;
  const std::string &before = body.inputs[2 + i].name, &after = body.outputs[1 + i].name;
  const auto maker = std::find_if(body.nodes.begin(), body.nodes.end(), [&](const format::OnnxNode& node) {
    return node.op_type == "SequenceInsert" && node.inputs.size() == 2 && node.inputs[0] == before &&
           node.outputs == std::vector<std::string>{after};
  });
  const bool is_alone = maker != body.nodes.end() && num_reads(body, before) == 1 && num_reads(body, after) == 1;
  return is_alone ? &*maker : nullptr;
}

// Reads a loop with such lists as one that gives what it would insert. False if it has none.
bool read_with_growing_lists(OnnxCall& call, const format::OnnxGraph& body, size_t carried) {
  if (call.num_outputs() >= body.outputs.size()) return false;  // more than there are
  const std::string prefix = concat("\x01", call.node().outputs.empty() ? "" : call.node().outputs[0]);
  format::OnnxNode loop = call.node();
  auto steps = std::make_shared<format::OnnxGraph>(body);
  loop.outputs.resize(body.outputs.size() - 1);
  for (size_t k = 0; k < loop.outputs.size(); ++k)
    if (!loop.outputs[k].empty()) loop.outputs[k] = concat(prefix, "output", k);
  const std::vector<std::string> names = loop.outputs;
  const auto at = [](auto& list, size_t i) { return list.begin() + static_cast<std::ptrdiff_t>(i); };
  std::vector<bool> grows(call.num_outputs());
  for (size_t i = carried; i-- > 0;) {
    const format::OnnxNode* growth = growth_of(call, body, i);
    if (growth == nullptr) continue;
    grows[i] = true;
    const std::string part = concat(prefix, "part", i);
    *at(steps->nodes, static_cast<size_t>(growth - body.nodes.data())) = node_of("Identity", {growth->inputs[1]}, part);
    loop.inputs.erase(at(loop.inputs, 2 + i));
    steps->inputs.erase(at(steps->inputs, 2 + i));
    steps->outputs.erase(at(steps->outputs, 1 + i));
    steps->outputs.push_back({part, std::nullopt, std::nullopt});
    loop.outputs.erase(at(loop.outputs, i));
    loop.outputs.push_back(names[i]);
  }
  if (std::find(grows.begin(), grows.end(), true) == grows.end()) return false;
  set_body(loop, steps);
  call.import().read(loop);
  for (size_t i = 0; i < call.num_outputs(); ++i) {
    if (!call.has_output(i)) continue;
    OnnxValue result = call.import().value(names[i], "Loop");
    if (grows[i]) {
      result.stacked = call.import().node_of(result, "Loop");
      result.kind.is_list = true;
    }
    call.set(std::move(result), i);
  }
  return true;
}

void import_loop(OnnxCall& call) {
  const format::OnnxGraph& body = call.graph("body");
  const size_t carried = call.num_inputs() < 2 ? 0 : call.num_inputs() - 2;
  if (body.inputs.size() != carried + 2 || body.outputs.size() < carried + 1)
    call.refuse("carries ", carried, " values, its body takes ", body.inputs.size(), " and gives ",
                body.outputs.size());
  if (read_with_growing_lists(call, body, carried)) return;
  const size_t scans = body.outputs.size() - 1 - carried;
  const bool is_counted = call.has(0) && !call.is_sizes(0) && call.is_constant(0);
  std::optional<int64_t> trips = is_counted ? std::optional(call.whole_number(0)) : std::nullopt;
  const Tensor condition = call.has(1) ? call.constant(1) : Tensor::full({}, DType::kBool, 1);
  const bool begins = condition.defined() && condition.numel() == 1 && condition.item() != 0;
  const bool is_whole = goes_on(call, body);
  if (begins && is_whole && read_equal_bags(call, body)) return;
  if (begins && !is_whole && (trips || !call.has(0)))
    trips = counted_trips(call, body, carried, trips.value_or(INT64_MAX));
  else if (!is_whole) trips.reset();
  if (begins && may_unroll(call, trips, body) && (*trips > 0 || scans == 0)) {
    Values values;
    for (size_t i = 0; i < carried; ++i) values.push_back(call.value(2 + i));
    std::vector<Values> parts(scans);
    for (int64_t trip = 0; trip < *trips; ++trip) {
      Values inputs(2);
      inputs[0].node = call.import().constant(Tensor::scalar(trip), "iteration");
      inputs[1].node = call.import().constant(Tensor::full({}, DType::kBool, 1), "condition");
      inputs.insert(inputs.end(), values.begin(), values.end());
      const Values results = call.import().inline_graph(body, inputs);
      values.assign(results.begin() + 1, results.begin() + 1 + static_cast<std::ptrdiff_t>(carried));
      for (size_t k = 0; k < scans; ++k) parts[k].push_back(results[1 + carried + k]);
    }
    set_all(call, values);
    for (size_t k = 0; k < scans; ++k) set_scan(call, carried + k, parts[k], 0);
    return;
  }
  Values initial;
  for (size_t i = 0; i < carried; ++i) initial.push_back(call.import().as_it_runs(call.value(2 + i), "Loop"));
  const LoopBody loop =
      loop_body(call, body, initial,
                {{"iteration", {tensor_meta_of(DType::kS64)}, {}}, {"condition", {tensor_meta_of(DType::kBool)}, {}}});
  Node* results =
      call.call_as_it_is(op::kLoop, {call.optional_tensor(0), call.optional_tensor(1), loop.body.programs[0],
                                     Argument(list_of(loop.carried)), Argument(list_of(loop.body.captured))});
  set_results(call, results, {loop.body.results.begin() + 1, loop.body.results.end()});
}

int64_t number_in(OnnxCall& call, std::string_view list, size_t i) {
  const std::vector<int64_t> all = call.integers(list, {});
  return i < all.size() ? all[i] : int64_t{0};
}

// Reads input `i` of those that a Scan goes along, after `states` others, as `name`, and gives its axis; the first
// defines how many trips there are.
int64_t read_scanned(OnnxCall& call, size_t i, size_t states, const std::string& name, const std::string& trips_name) {
  const int64_t axis = call.axis(number_in(call, "scan_input_axes", i), call.rank(states + i));
  OnnxValue input;
  input.node = call.tensor(states + i);
  const SymInt length = call.extent(input.node, static_cast<size_t>(axis));
  call.import().know_size(length, input.node, axis);
  if (number_in(call, "scan_input_directions", i) != 0)
    input.node = call.call("flip.default", {input.node, Argument(Argument::List{axis})});
  if (i == 0) {
    OnnxValue trips;
    if (length.is_constant()) trips.node = call.import().constant(Tensor::scalar(*length.constant()), "trips");
    else trips.sizes = {length};
    trips.is_vector = false;
    call.import().define(trips_name, std::move(trips));
  }
  call.import().define(name, std::move(input));
  return axis;
}

// Scan is a loop whose body takes the slices of the inputs itself.
void import_scan(OnnxCall& call) {
  if (call.opset() < 9) call.refuse("is of opset 8, whose Scan has a batch axis; qdq reads that of opset 9");
  const format::OnnxGraph& body = call.graph("body");
  const auto along = static_cast<size_t>(std::max<int64_t>(call.integer("num_scan_inputs", 1), 0));
  if (along < 1 || along > call.num_inputs() || body.inputs.size() != call.num_inputs())
    call.refuse("goes along ", along, " of ", call.num_inputs(), " inputs, its body takes ", body.inputs.size());
  const size_t states = call.num_inputs() - along;
  if (body.outputs.size() < states || body.outputs.size() < call.num_outputs())
    call.refuse("has a body with too few results");
  // Names that no exporter gives.
  const std::string prefix = concat("\x01", call.node().outputs.empty() ? "" : call.node().outputs[0]);
  format::OnnxNode loop = call.node();
  loop.op_type = "Loop";
  loop.inputs = {prefix + "trips", ""};
  auto steps = std::make_shared<format::OnnxGraph>(body);
  steps->inputs = {{prefix + "i", DType::kS64, std::vector<format::OnnxDimension>()},
                   {prefix + "condition", DType::kBool, std::vector<format::OnnxDimension>()}};
  steps->outputs.insert(steps->outputs.begin(),
                        {prefix + "condition", DType::kBool, std::vector<format::OnnxDimension>()});
  for (size_t i = 0; i < states; ++i) {
    loop.inputs.push_back(call.node().inputs[i]);
    steps->inputs.push_back(body.inputs[i]);
  }
  std::vector<format::OnnxNode> slices;
  for (size_t i = 0; i < along; ++i) {
    const std::string name = concat(prefix, "input", i);
    const int64_t axis = read_scanned(call, i, states, name, prefix + "trips");
    slices.push_back(node_of("Gather", {name, prefix + "i"}, body.inputs[states + i].name));
    format::OnnxAttribute& attribute = slices.back().attributes.emplace_back();
    attribute.name = "axis";
    attribute.kind = OnnxKind::kInt;
    attribute.i = axis;
  }
  steps->nodes.insert(steps->nodes.begin(), slices.begin(), slices.end());
  set_body(loop, steps);
  for (size_t i = 0; i < loop.outputs.size(); ++i) loop.outputs[i] = concat(prefix, "output", i);
  call.import().read(loop);
  for (size_t i = 0; i < call.num_outputs(); ++i) {
    OnnxValue result = call.import().value(loop.outputs[i], "Scan");
    if (i >= states && result.node) {
      const size_t rank = call.meta_of(result.node).sizes.size(), k = i - states;
      const int64_t axis = call.axis(number_in(call, "scan_output_axes", k), rank);
      if (number_in(call, "scan_output_directions", k) != 0)
        result.node = call.call("flip.default", {result.node, Argument(Argument::List{0})});
      if (axis != 0) result.node = call.call("movedim.int", {result.node, 0, axis});
    }
    call.set(std::move(result), i);
  }
}

// The elements of a sequence, where they are known before it runs.
std::shared_ptr<const Values> elements(OnnxCall& call) {
  const OnnxValue& found = call.value(0);
  if (found.elements == nullptr && !found.kind.is_list) call.refuse("needs a sequence as its input 0, found a tensor");
  return found.elements;
}
// The same, and null too where the integer `i`, if there is one, is not known.
std::shared_ptr<const Values> elements_at_known(OnnxCall& call, size_t i) {
  auto found = elements(call);
  if (call.has(i) && !call.is_sizes(i) && !call.is_constant(i)) return nullptr;
  return found;
}

// A call of an operator that works on lists as they are when it runs. Its first argument is the sequence.
Node* on_list(OnnxCall& call, std::string_view name, std::vector<Argument> others) {
  std::vector<Argument> args = {call.import().as_it_runs(call.value(0), std::string(name)).node};
  args.insert(args.end(), others.begin(), others.end());
  return call.call_as_it_is(concat("onnx.", name, ".default"), {args});
}
void set_list(OnnxCall& call, Node* list) {
  OnnxValue out;
  out.node = list;
  out.kind.is_list = true;
  call.set(std::move(out), 0);
}

void set_sequence(OnnxCall& call, Values values) {
  call.import().count_sequence(values.size() * sizeof(OnnxValue));
  OnnxValue out;
  out.elements = std::make_shared<const Values>(std::move(values));
  call.set(std::move(out), 0);
}

// The place that the input `i` says in a sequence of `count`; `if_none` without that input.
size_t place(OnnxCall& call, size_t i, size_t count, int64_t if_none) {
  const int64_t given = call.has(i) ? call.whole_number(i) : if_none;
  const int64_t at = given < 0 ? given + static_cast<int64_t>(count) : given;
  if (at < 0 || at > static_cast<int64_t>(count)) call.refuse("goes to ", given, " in a sequence of ", count);
  return static_cast<size_t>(at);
}

void sequence_empty(OnnxCall& call) { set_sequence(call, {}); }

void sequence_construct(OnnxCall& call) {
  Values values;
  for (size_t i = 0; i < call.num_inputs(); ++i) values.push_back(call.value(i));
  set_sequence(call, std::move(values));
}

void sequence_insert(OnnxCall& call) {
  const auto known = elements_at_known(call, 2);
  if (!known) return set_list(call, on_list(call, "sequence_insert", {call.tensor(1), call.optional_tensor(2)}));
  Values values = *known;
  const size_t at = place(call, 2, values.size(), static_cast<int64_t>(values.size()));
  values.insert(values.begin() + static_cast<std::ptrdiff_t>(at), call.value(1));
  set_sequence(call, std::move(values));
}

void sequence_erase(OnnxCall& call) {
  const auto known = elements_at_known(call, 1);
  if (!known) return set_list(call, on_list(call, "sequence_erase", {call.optional_tensor(1)}));
  Values values = *known;
  const size_t at = place(call, 1, values.size(), -1);
  if (at >= values.size()) call.refuse("erases ", at, " of a sequence of ", values.size());
  values.erase(values.begin() + static_cast<std::ptrdiff_t>(at));
  set_sequence(call, std::move(values));
}

void sequence_at(OnnxCall& call) {
  const auto values = elements_at_known(call, 1);
  if (!values) return call.set(on_list(call, "sequence_at", {call.tensor(1)}));
  const size_t at = place(call, 1, values->size(), 0);
  if (at >= values->size()) call.refuse("reads ", at, " of a sequence of ", values->size());
  call.set((*values)[at], 0);
}

void sequence_length(OnnxCall& call) {
  const auto known = elements(call);
  if (!known) return call.set(on_list(call, "sequence_length", {}));
  call.set(Tensor::scalar(static_cast<int64_t>(known->size())));
}

void split_to_sequence(OnnxCall& call) {
  const bool by_one = !call.has(1), keeps_axis = call.integer("keepdims", 1) != 0;
  const TensorMeta* meta = call.tensor(0)->meta.val.tensor();
  const bool has_parts = by_one || call.is_sizes(1) || call.is_constant(1);
  const int64_t given = call.integer("axis", 0);
  int64_t size = -1;  // open
  if (meta && !meta->sizes.empty())
    size = meta->sizes[static_cast<size_t>(call.axis(given, meta->sizes.size()))].constant().value_or(-1);
  if (!has_parts || size < 0)
    return set_list(call, on_list(call, "split_to_sequence", {call.optional_tensor(1), given, keeps_axis}));
  const int64_t axis = call.axis(given, meta->sizes.size());
  constexpr int64_t kMost = 4096;
  std::vector<int64_t> parts;
  bool is_dropped = false;  // the axis
  if (call.has(1) && call.is_vector(1)) {
    parts = call.integers(1);
  } else {
    const int64_t each = by_one ? 1 : call.whole_number(1);
    is_dropped = each == 1 && !keeps_axis;
    if (each < 1 || size / each > kMost) call.refuse("divides ", size, " into parts of ", each);
    for (int64_t rest = size; rest > 0; rest -= each) parts.push_back(std::min(rest, each));
  }
  Values values;
  for (Node* part : split_parts(call, call.tensor(0), parts, axis)) {
    OnnxValue value;
    value.node = is_dropped ? call.call("squeeze.dim", {part, axis}) : part;
    values.push_back(std::move(value));
  }
  set_sequence(call, std::move(values));
}

void concat_from_sequence(OnnxCall& call) {
  if (Node* all = call.value(0).stacked) {
    const TensorMeta* meta = all->meta.val.tensor();
    const int64_t given = call.integer("axis", 0), axis = meta ? call.axis(given, meta->sizes.size()) : given;
    return call.set(axis == 0 ? all : call.call("movedim.int", {all, 0, axis}));
  }
  const auto values = elements(call);
  const bool is_new = call.integer("new_axis", 0) != 0;
  if (!values) return call.set(on_list(call, "concat_from_sequence", {call.integer("axis", 0), is_new}));
  if (values->empty()) call.refuse("joins an empty sequence");
  Argument::List all;
  for (OnnxValue value : *values) all.emplace_back(call.import().node_of(value, "ConcatFromSequence"));
  const size_t rank = call.meta_of(all[0].node()).sizes.size();
  const int64_t axis = call.axis(call.integer("axis", 0), is_new ? rank + 1 : rank);
  call.set(call.call(is_new ? "stack.default" : "cat.default", {Argument(std::move(all)), axis}));
}

// Along a list whose length a run tells: a loop that inserts what the body gives into lists that begin empty.
void map_by_loop(OnnxCall& call) {
  const format::OnnxGraph& body = call.graph("body");
  if (body.inputs.size() != call.num_inputs() || body.outputs.size() != call.num_outputs())
    call.refuse("has ", call.num_inputs(), " inputs and ", call.num_outputs(), " outputs, its body ",
                body.inputs.size(), " and ", body.outputs.size());
  // Names that no exporter gives.
  const std::string prefix = concat("\x01", call.node().outputs.empty() ? "" : call.node().outputs[0]);
  auto steps = std::make_shared<format::OnnxGraph>(body);
  std::vector<format::OnnxNode> elements;
  for (size_t i = 0; i < call.num_inputs(); ++i) {
    const OnnxValue& value = call.value(i);
    const bool is_list = value.kind.is_list || value.elements;
    const std::string name = concat(prefix, "input", i);
    call.import().define(name, value);
    elements.push_back(is_list ? node_of("SequenceAt", {name, prefix + "i"}, body.inputs[i].name)
                               : node_of("Identity", {name}, body.inputs[i].name));
  }
  call.import().read(node_of("SequenceLength", {prefix + "input0"}, prefix + "trips"));
  format::OnnxNode loop = call.node();
  loop.op_type = "Loop";
  loop.inputs = {prefix + "trips", ""};
  const auto number = [](std::string name, DType dtype) {
    format::OnnxValueInfo out;
    out.name = std::move(name);
    out.dtype = dtype;
    out.dims.emplace();
    return out;
  };
  steps->inputs = {number(prefix + "i", DType::kS64), number(prefix + "condition", DType::kBool)};
  steps->outputs = {number(prefix + "condition", DType::kBool)};
  steps->nodes.insert(steps->nodes.begin(), elements.begin(), elements.end());
  for (size_t k = 0; k < body.outputs.size(); ++k) {
    const std::string empty = concat(prefix, "empty", k), before = concat(prefix, "before", k),
                      after = concat(prefix, "after", k);
    call.import().read(node_of("SequenceEmpty", {}, empty));
    loop.inputs.push_back(empty);
    steps->inputs.push_back({before, std::nullopt, std::nullopt});
    steps->nodes.push_back(node_of("SequenceInsert", {before, body.outputs[k].name}, after));
    steps->outputs.push_back({after, std::nullopt, std::nullopt});
  }
  set_body(loop, steps);
  call.import().read(loop);
}

void sequence_map(OnnxCall& call) {
  const auto first = elements(call);
  bool is_known = first != nullptr;
  for (size_t i = 0; i < call.num_inputs(); ++i) is_known &= !call.value(i).kind.is_list;
  if (!is_known) return map_by_loop(call);
  std::vector<Values> results(call.num_outputs());
  for (size_t k = 0; k < first->size(); ++k) {
    Values inputs;
    for (size_t i = 0; i < call.num_inputs(); ++i) {
      const OnnxValue& value = call.value(i);
      if (value.elements && k >= value.elements->size()) call.refuse("goes along sequences of different lengths");
      inputs.push_back(value.elements ? (*value.elements)[k] : value);
    }
    const Values outputs = call.import().inline_graph(call.graph("body"), inputs);
    for (size_t i = 0; i < results.size() && i < outputs.size(); ++i) results[i].push_back(outputs[i]);
  }
  for (size_t i = 0; i < results.size(); ++i) {
    OnnxValue out;
    out.elements = std::make_shared<const Values>(std::move(results[i]));
    call.set(std::move(out), i);
  }
}

void optional(OnnxCall& call) {
  if (call.has(0)) return call.same_as_input(0);
  OnnxValue none;
  none.is_empty_optional = true;
  call.set(std::move(none), 0);
}

void optional_has_element(OnnxCall& call) {
  if (call.has(0) && call.value(0).kind.may_be_none) return call.set(on_list(call, "optional_has_element", {}));
  Tensor out = Tensor::empty({}, DType::kBool);
  out.data<bool>()[0] = call.has(0) && !call.value(0).is_empty_optional;
  call.set(std::move(out));
}

void optional_get_element(OnnxCall& call) {
  const OnnxValue& value = call.value(0);
  if (value.is_empty_optional) call.refuse("reads an optional that holds nothing");
  if (!value.kind.may_be_none) return call.same_as_input(0);
  OnnxValue out;
  out.kind.is_list = value.kind.is_list;
  out.node = on_list(call, "optional_get_element", {});
  call.set(std::move(out), 0);
}

constexpr OnnxOperator kControlOperators[] = {
    {"ConcatFromSequence", concat_from_sequence, nullptr},
    {"If", import_if, nullptr},
    {"Loop", import_loop, nullptr},
    {"Optional", optional, nullptr},
    {"OptionalGetElement", optional_get_element, nullptr},
    {"OptionalHasElement", optional_has_element, nullptr},
    {"Scan", import_scan, nullptr},
    {"SequenceAt", sequence_at, nullptr},
    {"SequenceConstruct", sequence_construct, nullptr},
    {"SequenceEmpty", sequence_empty, nullptr},
    {"SequenceErase", sequence_erase, nullptr},
    {"SequenceInsert", sequence_insert, nullptr},
    {"SequenceLength", sequence_length, nullptr},
    {"SequenceMap", sequence_map, nullptr},
    {"SplitToSequence", split_to_sequence, nullptr},
};

}  // namespace

std::span<const OnnxOperator> onnx_control_operators() { return kControlOperators; }

}  // namespace qdq
