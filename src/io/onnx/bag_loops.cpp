#include "io/onnx/bag_loops.h"

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "io/onnx/loop_trips.h"

namespace qdq {
namespace {

using format::OnnxGraph;
using format::OnnxNode;

const OnnxNode* maker_of(const OnnxGraph& body, const std::string& name, std::string_view op_type) {
  const auto found = std::find_if(body.nodes.begin(), body.nodes.end(), [&](const OnnxNode& node) {
    return !node.outputs.empty() && node.outputs[0] == name;
  });
  return found != body.nodes.end() && found->op_type == op_type && !found->inputs.empty() ? &*found : nullptr;
}

bool is_only(const Tensor& known, int64_t wanted) {
  return known.defined() && known.numel() == 1 && !is_floating(known.dtype()) && known.item_int() == wanted;
}

const format::OnnxAttribute* attribute_of(const OnnxNode& node, std::string_view name) {
  const auto found = std::find_if(node.attributes.begin(), node.attributes.end(),
                                  [&](const format::OnnxAttribute& one) { return one.name == name; });
  return found == node.attributes.end() ? nullptr : &*found;
}
bool is_integer(const OnnxNode& node, std::string_view name, int64_t wanted, int64_t if_none) {
  const format::OnnxAttribute* found = attribute_of(node, name);
  return (found ? found->i : if_none) == wanted;
}

// The parts of a body; null where it does something else.
struct Bags {
  const OnnxNode* gather = nullptr;  // of rows
  const OnnxNode* reduce = nullptr;
  std::string indices, begins, ends;  // of the graph around
};

// The list whose element of this turn a bound of the slice is; "" if it is none.
std::string list_of_bound(const OnnxGraph& body, const std::string& bound) {
  const OnnxNode* unsqueeze = maker_of(body, bound, "Unsqueeze");
  const OnnxNode* gather = unsqueeze ? maker_of(body, unsqueeze->inputs[0], "Gather") : nullptr;
  return gather && gather->inputs.size() == 2 && gather->inputs[1] == body.inputs[0].name ? gather->inputs[0]
                                                                                          : std::string();
}

// Whether a reduction is one over the first axis, which goes.
bool reduces_rows(OnnxCall& call, const OnnxGraph& body, const OnnxNode& reduce) {
  if (!is_integer(reduce, "keepdims", 0, 1)) return false;
  if (const format::OnnxAttribute* axes = attribute_of(reduce, "axes")) return axes->ints == std::vector<int64_t>{0};
  return reduce.inputs.size() == 2 && is_only(known_in(call, body, reduce.inputs[1]), 0);
}

std::optional<Bags> bags_of(OnnxCall& call, const OnnxGraph& body) {
  if (body.inputs.size() != 2 || body.outputs.size() != 2) return std::nullopt;
  Bags out;
  for (const char* kind : {"ReduceSum", "ReduceMean", "ReduceMax"})
    if (out.reduce == nullptr) out.reduce = maker_of(body, body.outputs[1].name, kind);
  if (out.reduce == nullptr || !reduces_rows(call, body, *out.reduce)) return std::nullopt;
  out.gather = maker_of(body, out.reduce->inputs[0], "Gather");
  if (out.gather == nullptr || out.gather->inputs.size() != 2 || !is_integer(*out.gather, "axis", 0, 0))
    return std::nullopt;
  const OnnxNode* slice = maker_of(body, out.gather->inputs[1], "Slice");
  if (slice == nullptr || slice->inputs.size() < 4 || !is_only(known_in(call, body, slice->inputs[3]), 0) ||
      (slice->inputs.size() > 4 && !is_only(known_in(call, body, slice->inputs[4]), 1)))
    return std::nullopt;
  out.indices = slice->inputs[0];
  out.begins = list_of_bound(body, slice->inputs[1]);
  out.ends = list_of_bound(body, slice->inputs[2]);
  if (out.begins.empty() || out.ends.empty()) return std::nullopt;
  const auto is_made_here = [&](const std::string& name) {
    return std::any_of(body.nodes.begin(), body.nodes.end(), [&](const OnnxNode& node) {
      return std::find(node.outputs.begin(), node.outputs.end(), name) != node.outputs.end();
    });
  };
  for (const std::string& name : {out.indices, out.begins, out.ends, out.gather->inputs[0]})
    if (is_made_here(name)) return std::nullopt;
  return out;
}

bool divides(int64_t size, const SymInt& indices) { return indices.floor_div(SymInt(size)) * SymInt(size) == indices; }

// The size of bags that begin at 0, size, 2 size, ... and end where the next begins, the last with the indices; 0 if
// these are others. `trips` is their number.
int64_t size_of_known(const Tensor& begins, const Tensor& ends, const SymInt& trips, const SymInt& indices) {
  const auto count = trips.constant();
  if (!begins.defined() || !ends.defined() || !count || *count < 1 || ends.numel() != *count || begins.numel() < *count)
    return 0;
  const Tensor first = begins.to(DType::kS64).contiguous(), last = ends.to(DType::kS64).contiguous();
  const int64_t size = last.data<int64_t>()[0];
  if (size < 1 || !divides(size, indices) || indices.floor_div(SymInt(size)) != trips) return 0;
  for (int64_t i = 0; i < *count; ++i)
    if (first.data<int64_t>()[i] != i * size || last.data<int64_t>()[i] != (i + 1) * size) return 0;
  return size;
}

// A size as a call has it; nothing if it is something else.
std::optional<SymInt> size_of(const Argument& argument) {
  if (const std::optional<int64_t> number = argument.integer()) return SymInt(*number);
  const Node* node = argument.is_node() ? argument.node() : nullptr;
  const auto* symbol = node ? std::get_if<SymInt>(&node->meta.val.value) : nullptr;
  return symbol ? std::optional(*symbol) : std::nullopt;
}
bool is_call_of(const Node* node, std::string_view target, size_t args) {
  return node->op() == Node::Op::kCallFunction && node->target() == target && node->args().size() >= args;
}

// The same where the begins are counted in the run: cat([arange(0, n, size), [n]]), n being the number of indices.
int64_t size_of_counted(const Node* begins, const Node* ends, const SymInt& trips, const SymInt& indices) {
  if (!is_call_of(ends, "torch.ops.aten.slice.Tensor", 4) || ends->arg(0).node() != begins ||
      size_of(ends->arg(1)) != SymInt(0) || size_of(ends->arg(2)) != SymInt(1) ||
      size_of(ends->arg(3)) != SymInt(INT64_MAX) || !is_call_of(begins, "torch.ops.aten.cat.default", 1))
    return 0;
  const Argument::List& parts = begins->arg(0).list();
  if (parts.size() != 2 || (begins->args().size() > 1 && size_of(begins->arg(1)) != SymInt(0))) return 0;
  const Node *counted = parts[0].node(), *end = parts[1].node();
  if (!is_call_of(counted, "torch.ops.aten.arange.start_step", 3) || size_of(counted->arg(0)) != SymInt(0) ||
      size_of(counted->arg(1)) != indices || !is_call_of(end, "torch.ops.aten.stack.default", 1))
    return 0;
  const Argument::List& ones = end->arg(0).list();
  if (ones.size() != 1 || !is_call_of(ones[0].node(), "torch.ops.aten.scalar_tensor.default", 1) ||
      size_of(ones[0].node()->arg(0)) != indices)
    return 0;
  const std::optional<SymInt> step = size_of(counted->arg(2));
  const int64_t size = step && step->is_constant() ? *step->constant() : 0;
  return size > 0 && divides(size, indices) && trips == ends->meta.val.tensor()->sizes[0] ? size : 0;
}

int64_t size_of_bags(OnnxCall& call, const Bags& bags) {
  if (!call.has(0) || !(call.is_sizes(0) || call.is_constant(0))) return 0;
  const SymInt trips = call.size(0);
  const Node* nodes[3];
  size_t i = 0;
  for (const std::string& name : {bags.indices, bags.begins, bags.ends}) {
    OnnxValue& value = call.import().value(name, "Loop");
    if (!value.kind.is_tensor() || value.elements || value.is_empty_optional) return 0;
    nodes[i] = call.import().node_of(value, "Loop");
    const TensorMeta* meta = nodes[i++]->meta.val.tensor();
    if (meta == nullptr || meta->sizes.size() != 1) return 0;
  }
  const SymInt& indices = nodes[0]->meta.val.tensor()->sizes[0];
  const Tensor begins = call.import().constant_of(nodes[1]), ends = call.import().constant_of(nodes[2]);
  if (begins.defined()) return size_of_known(begins, ends, trips, indices);
  return size_of_counted(nodes[1], nodes[2], trips, indices);
}

}  // namespace

bool read_equal_bags(OnnxCall& call, const OnnxGraph& body) {
  const std::optional<Bags> bags = bags_of(call, body);
  const int64_t size = bags && call.has_output(0) ? size_of_bags(call, *bags) : 0;
  if (size == 0) return false;
  // Names that no exporter gives.
  const std::string prefix = concat("\x01", call.node().outputs[0]);
  const auto define = [&](const char* name, std::initializer_list<int64_t> numbers) {
    OnnxValue value;
    value.node = call.import().constant(
        Tensor::of<int64_t>({static_cast<int64_t>(numbers.size())}, std::span(numbers.begin(), numbers.size())), name);
    call.import().define(prefix + name, std::move(value));
    return prefix + name;
  };
  const auto read = [&](OnnxNode node, std::vector<std::string> inputs, const char* output) {
    node.name = call.node().name;  // which tells its module
    node.inputs = std::move(inputs);
    node.outputs = {prefix + output};
    call.import().read(node);
    return prefix + output;
  };
  OnnxNode reshape, reduce = *bags->reduce;
  reshape.op_type = "Reshape";
  const std::string listed = read(reshape, {bags->indices, define("shape", {-1, size})}, "indices");
  const std::string rows = read(*bags->gather, {bags->gather->inputs[0], listed}, "rows");
  std::vector<std::string> reduced = {rows};
  if (reduce.inputs.size() > 1) reduced.push_back(define("axes", {1}));
  for (format::OnnxAttribute& attribute : reduce.attributes)
    if (attribute.name == "axes") attribute.ints = {1};
  call.set(call.import().value(read(reduce, std::move(reduced), "reduced"), "Loop"), 0);
  return true;
}

}  // namespace qdq
