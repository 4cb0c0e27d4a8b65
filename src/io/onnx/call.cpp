// One ONNX node as its importer sees it: inputs, attributes, and the calls that it becomes.
#include <algorithm>
#include <cmath>

#include "io/onnx/import.h"
#include "io/onnx/node_order.h"
#include "op/facts.h"
#include "op/infer.h"
#include "op/targets.h"

namespace qdq {

using format::OnnxAttribute;
using format::OnnxGraph;
using format::OnnxKind;
using format::OnnxNode;

void Arguments::add(Node* node) { list.emplace_back(node); }
void Arguments::add(bool value) { list.emplace_back(value); }
void Arguments::add(int value) { list.emplace_back(value); }
void Arguments::add(int64_t value) { list.emplace_back(value); }
void Arguments::add(double value) { list.emplace_back(value); }
void Arguments::add(const char* value) { list.emplace_back(value); }
void Arguments::add(const std::string& value) { list.emplace_back(value); }
void Arguments::add(DType value) { list.emplace_back(value); }
void Arguments::add(const Subprogram& value) { list.emplace_back(value); }
void Arguments::add(const Argument& value) { list.push_back(value); }
void Arguments::add(const std::vector<Argument>& values) { list.insert(list.end(), values.begin(), values.end()); }

OnnxCall::OnnxCall(OnnxImport& import, const OnnxNode& node, const OnnxOperator& op)
    : import_(import), node_(node), op_(op), opset_(import.opset(node.domain)), modules_(module_stack_of(node)) {}

void OnnxCall::refuse_because(const PartKind* kinds, const MessagePart* parts) const {
  throw Error(ErrorCode::kUnsupported, concat("the ONNX node ", where(), " ", concat_parts(kinds, parts)), node_.name,
              node_.op_type);
}

std::string OnnxCall::where() const { return concat(name_of(node_), " (", node_.op_type, ")"); }

OnnxValue& OnnxCall::value(size_t i) {
  QDQ_CHECK(has(i), kBadFile, "the ONNX node ", where(), " lacks its input ", i);
  return import_.value(node_.inputs[i], where());
}

Node* OnnxCall::tensor(size_t i) { return import_.node_of(value(i), where()); }

bool OnnxCall::has_four_bits(size_t i) const {
  if (!has(i)) return false;
  for (size_t k = import_.scopes_.size(); k-- > 0;) {
    if (import_.scopes_[k]->four_bit_tensors.count(node_.inputs[i]) != 0) return true;
    if (!import_.scopes_[k]->sees_outer) break;
  }
  return false;
}

const OnnxGraph& OnnxCall::graph(std::string_view name) const {
  const OnnxAttribute* found = attribute(name);
  QDQ_CHECK(found && found->kind == OnnxKind::kGraph, kBadFile, "the ONNX node ", where(), " lacks its graph ", name);
  return *found->graphs[0];
}

const TensorMeta& OnnxCall::meta_of(const Node* node) const {
  const TensorMeta* meta = node->meta.val.tensor();
  if (meta == nullptr) refuse("reads ", node->name(), ", which is not a tensor");
  return *meta;
}

const SymInt& OnnxCall::extent(const Node* node, size_t axis) const {
  const SymShape& sizes = meta_of(node).sizes;
  if (axis >= sizes.size())
    refuse("reads a tensor of ", sizes.size(), " axes, ", node->name(), ", wanted ", axis + 1, " at least");
  return sizes[axis];
}

Argument OnnxCall::operand(size_t i, size_t other) {
  const Tensor known = constant(i);
  if (!known.defined() || known.numel() != 1 || known.dtype() == DType::kBool || known.dtype() == DType::kString ||
      is_constant(other) || static_cast<size_t>(known.dim()) > rank(other))
    return tensor(i);
  return is_floating(known.dtype()) ? Argument(known.item()) : Argument(known.item_int());
}

Tensor OnnxCall::wanted_constant(size_t i) {
  Tensor tensor = constant(i);
  if (!tensor.defined()) {
    // What counts up from known numbers stays a call, as torch.export has it.
    const Node* node = this->tensor(i);
    const std::vector<Node*> inputs = node->input_nodes();
    const bool is_known = node->op() == Node::Op::kCallFunction && op_of(*node) != nullptr &&
                          std::all_of(inputs.begin(), inputs.end(), [&](Node* n) { return import_.is_constant(n); });
    if (is_known) tensor = eval_constant(import_.program(), *node);
  }
  if (!tensor.defined())
    refuse("needs a constant as its input ", i, ", found ", node_.inputs[i], ", which is computed");
  return tensor;
}

double OnnxCall::number(size_t i) {
  const Tensor tensor = wanted_constant(i);
  if (tensor.numel() != 1)
    refuse("needs a number as its input ", i, ", found a tensor of shape ", to_string(tensor.sizes()));
  return tensor.item();
}

bool OnnxCall::is_sizes(size_t i) const {
  const OnnxValue* found = has(i) ? import_.find(node_.inputs[i]) : nullptr;
  return found != nullptr && !found->sizes.empty();
}

bool OnnxCall::is_vector(size_t i) { return is_sizes(i) ? value(i).is_vector : rank(i) == 1; }

std::vector<SymInt> OnnxCall::sizes(size_t i) {
  if (is_sizes(i)) return value(i).sizes;
  if (is_constant(i)) {
    const std::vector<int64_t> known = integers(i);
    return {known.begin(), known.end()};
  }
  // Integers that a run computes.
  const TensorMeta& found = meta(i);
  if (is_floating(found.dtype) || found.sizes.size() > 1)
    refuse("needs integers as its input ", i, ", found ", to_string(found.dtype), to_string(found.sizes));
  const auto count = found.sizes.empty() ? std::optional<int64_t>(1) : found.sizes[0].constant();
  constexpr int64_t kMost = 64;
  if (!count || *count > kMost)
    refuse("needs integers as its input ", i, ", found ", found.sizes[0].to_string(), " of them");
  Node* all = tensor(i);
  std::vector<SymInt> out;
  for (int64_t k = 0; k < *count; ++k) {
    Node* one = found.sizes.empty() ? all : call("select.int", {all, 0, k});
    Node* item = call_as_it_is("item.default", {one});
    const auto* symbol = std::get_if<SymInt>(&item->meta.val.value);
    if (symbol == nullptr) refuse("needs integers as its input ", i);
    import_.know_size(*symbol, item);
    out.push_back(*symbol);
  }
  OnnxValue& known = value(i);
  known.sizes = out;
  known.is_vector = !meta(i).sizes.empty();
  known.dtype = meta(i).dtype;
  return out;
}

std::vector<int64_t> OnnxCall::integers(size_t i) {
  const Tensor tensor = wanted_constant(i);
  if (is_floating(tensor.dtype()) || tensor.dim() > 1)
    refuse("needs integers as its input ", i, ", found ", to_string(tensor.dtype()), to_string(tensor.sizes()));
  const Tensor wide = tensor.to(DType::kS64).contiguous();
  return {wide.data<int64_t>(), wide.data<int64_t>() + wide.numel()};
}

SymInt OnnxCall::size(size_t i) {
  const std::vector<SymInt> all = sizes(i);
  if (all.size() != 1) refuse("needs one integer as its input ", i, ", found ", all.size());
  return all[0];
}

int64_t OnnxCall::whole_number(size_t i) {
  const auto known = size(i).constant();
  if (!known) refuse("needs a known integer as its input ", i);
  return *known;
}

std::optional<std::vector<int64_t>> OnnxCall::axes(size_t i, size_t rank) {
  std::vector<int64_t> out;
  if (has(i)) out = integers(i);
  else if (attribute("axes")) out = integers("axes", {});
  else return std::nullopt;
  for (int64_t& a : out) a = axis(a, rank);
  return out;
}

const OnnxAttribute* OnnxCall::attribute(std::string_view name) const {
  for (const OnnxAttribute& attribute : node_.attributes)
    if (attribute.name == name) return &attribute;
  return nullptr;
}

int64_t OnnxCall::integer(std::string_view name, int64_t if_none) const {
  const OnnxAttribute* found = attribute(name);
  return found ? found->i : if_none;
}
double OnnxCall::real(std::string_view name, double if_none) const {
  const OnnxAttribute* found = attribute(name);
  if (found && name == "epsilon" && !std::isfinite(found->f)) refuse("has the epsilon ", found->f);
  return found ? static_cast<double>(found->f) : if_none;
}
std::string OnnxCall::text(std::string_view name, std::string_view if_none) const {
  const OnnxAttribute* found = attribute(name);
  return found ? found->s : std::string(if_none);
}
std::vector<int64_t> OnnxCall::integers(std::string_view name, std::vector<int64_t> if_none) const {
  const OnnxAttribute* found = attribute(name);
  return found ? found->ints : if_none;
}

int64_t OnnxCall::axis(int64_t axis, size_t rank) const { return wrap_axis(axis, static_cast<int64_t>(rank)); }

namespace {

// Of a local name of ATen ("add.Tensor"), a short name ("onnx.find.default"), or one that is whole.
std::string full_target(std::string_view target) {
  if (target.starts_with("operator.") || !space_of(target).empty()) return std::string(target);
  return std::count(target.begin(), target.end(), '.') > 1 ? op::target(target) : op::aten(target);
}

}  // namespace

Node* OnnxCall::call(std::string_view target, const Arguments& args) {
  return import_.call(full_target(target), args.list, {}, modules_, !target.starts_with("operator."));
}
Node* OnnxCall::call(std::string_view target, const Arguments& args, const char* keyword, const Argument& value) {
  return import_.call(op::aten(target), args.list, {{keyword, value}}, modules_, true);
}
Node* OnnxCall::call_as_it_is(std::string_view target, const Arguments& args) {
  return import_.call(full_target(target), args.list, {}, modules_, false);
}

Argument OnnxCall::list(const std::vector<int64_t>& integers) {
  return Argument::List(integers.begin(), integers.end());
}
Argument OnnxCall::list(const std::vector<SymInt>& sizes) {
  Argument::List out;
  for (const SymInt& size : sizes) out.push_back(import_.size_argument(size));
  return out;
}

void OnnxCall::set(Node* node, size_t output) {
  OnnxValue value;
  value.node = node;
  set(std::move(value), output);
}
void OnnxCall::set(OnnxValue value, size_t output) {
  if (has_output(output)) import_.scope().values[node_.outputs[output]] = std::move(value);
}
void OnnxCall::set(Tensor constant) {
  set(import_.constant(std::move(constant), node_.outputs.empty() ? "" : node_.outputs[0]));
}
void OnnxCall::set(std::vector<SymInt> sizes, bool is_vector) {
  DType dtype = DType::kS64;
  const bool makes_sizes = op().name == std::string_view("Shape") || op().name == std::string_view("Size");
  for (size_t i = num_inputs(); i-- > 0 && !makes_sizes;)
    if (is_sizes(i)) dtype = value(i).dtype;
  if (!sizes.empty() &&
      std::any_of(sizes.begin(), sizes.end(), [](const SymInt& size) { return !size.is_constant(); })) {
    OnnxValue value;
    value.sizes = std::move(sizes);
    value.is_vector = is_vector;
    value.dtype = dtype;
    return set(std::move(value), 0);
  }
  Tensor known = Tensor::empty(is_vector ? Shape{static_cast<int64_t>(sizes.size())} : Shape{}, DType::kS64);
  for (size_t i = 0; i < sizes.size(); ++i) known.data<int64_t>()[i] = *sizes[i].constant();
  set(known.to(dtype));
}
void OnnxCall::cast_sizes(DType dtype) {
  OnnxValue out = value(0);
  if (out.dtype == dtype) return same_as_input(0);
  out.dtype = dtype;
  if (out.node != nullptr) out.node = call("to.dtype", {out.node, dtype});
  set(std::move(out), 0);
}
void OnnxCall::set_four_bits(size_t output) {
  if (has_output(output)) import_.scope().four_bit_tensors.insert(node_.outputs[output]);
}
void OnnxCall::same_as_input(size_t i, size_t output) {
  if (!has_output(output)) return;
  if (has_four_bits(i)) set_four_bits(output);
  const OnnxValue same = value(i);
  // Who reads this one reads the other.
  import_.scope().uses[node_.inputs[i]] += import_.num_uses(node_.outputs[output]) - 1;
  set(same, output);
}

}  // namespace qdq
