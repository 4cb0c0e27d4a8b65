// Builds a Program from an ONNX graph: values, sizes and calls; what each operator becomes stands in
// read_*.cpp.
#include <algorithm>
#include <new>

#include "io/onnx.h"
#include "io/onnx/import.h"
#include "op/facts.h"
#include "op/infer.h"
#include "op/targets.h"

namespace qdq {

using format::OnnxAttribute;
using format::OnnxKind;
using format::OnnxNode;

namespace {

constexpr int64_t kFirstOpset = 13;

bool equals_default(const Argument& argument, const Argument& default_value) {
  if (!argument.is_list() || default_value.is_list()) return argument == default_value;
  const Argument::List& list = argument.list();
  return !list.empty() &&
         std::all_of(list.begin(), list.end(), [&](const Argument& element) { return element == default_value; });
}

}  // namespace

void Arguments::add(Node* node) { list.emplace_back(node); }
void Arguments::add(bool value) { list.emplace_back(value); }
void Arguments::add(int value) { list.emplace_back(value); }
void Arguments::add(int64_t value) { list.emplace_back(value); }
void Arguments::add(double value) { list.emplace_back(value); }
void Arguments::add(const char* value) { list.emplace_back(value); }
void Arguments::add(const std::string& value) { list.emplace_back(value); }
void Arguments::add(DType value) { list.emplace_back(value); }
void Arguments::add(const Argument& value) { list.push_back(value); }
void Arguments::add(const std::vector<Argument>& values) { list.insert(list.end(), values.begin(), values.end()); }

int64_t OnnxImport::num_uses(const std::string& value) const {
  const auto found = uses_.find(value);
  return found == uses_.end() ? 0 : found->second;
}

std::string OnnxImport::attribute_name(const std::string& name) const {
  std::string out;
  for (const char c : name) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    const bool is_dot = c == '.' && !out.empty() && out.back() != '.';
    out += is_plain || is_dot ? c : '_';
  }
  if (out.empty() || out.back() == '.') out += '_';
  return program_.unique_attribute_name(out);
}

Node* OnnxImport::constant(Tensor tensor, const std::string& name, Attribute::Kind kind) {
  Attribute attribute;
  attribute.name = attribute_name(name.empty() ? "constant" : name);
  attribute.kind = kind;
  attribute.persistent = kind != Attribute::Kind::kConstant;
  attribute.tensor = std::move(tensor);
  Node* before = first_input_ ? first_input_ : program_.graph->first();
  const auto point = program_.graph->insert_before(before);
  Node* node = program_.graph->get_attr(attribute.name, node_name_of(attribute.name));
  node->meta.val.value = meta_of(attribute.tensor);
  program_.add_attribute(std::move(attribute));
  return node;
}

Tensor OnnxImport::constant_of(const Node* node) const {
  return is_constant(node) ? program_.attribute_of(*node) : Tensor();
}

Node* OnnxImport::call(const std::string& target, std::vector<Argument> args, Node::Kwargs kwargs,
                       const std::vector<ModuleStackEntry>& modules, bool fold) {
  const OpDef* op = find_op(target);
  QDQ_CHECK(op, kInternal, "the ONNX importer makes ", target, ", which qdq does not have");
  const auto& arguments = op->schema.arguments;
  while (!args.empty() && args.size() <= arguments.size() && arguments[args.size() - 1].default_value &&
         equals_default(args.back(), *arguments[args.size() - 1].default_value))
    args.pop_back();
  std::erase_if(kwargs, [&](const auto& kwarg) {
    const auto i = op->schema.index_of(kwarg.first);
    return i && arguments[*i].default_value == kwarg.second;
  });
  Node* node = program_.graph->call(target, std::move(args), std::move(kwargs), std::string(base_name(target)));
  node->meta.nn_module_stack = modules;
  infer_value(*node);
  const std::vector<Node*> inputs = node->input_nodes();
  const TensorMeta* meta = node->meta.val.tensor();
  if (!fold || inputs.empty() || meta == nullptr ||
      !std::all_of(inputs.begin(), inputs.end(), [&](const Node* n) { return is_constant(n); }))
    return node;
  // Nothing becomes much larger than what the file holds.
  int64_t room = 1 << 12;
  for (const Node* input : inputs) room = std::max(room, constant_of(input).numel());
  if (numel_of(constant_shape(meta->sizes)) > room) return node;
  // A view that lies otherwise is copied, as the weights of the layers that a file is loaded with lie in C order.
  Tensor result = eval_constant(program_, *node).contiguous();
  const std::string name = node->name();
  program_.graph->erase(node);
  return constant(std::move(result), name);
}

void OnnxImport::know_size(const SymInt& size, Node* node, int64_t axis) {
  if (size.is_constant()) return;
  SizeSource source;
  source.node = node;
  source.axis = axis;
  sizes_.try_emplace(size.to_string(), source);
}

void OnnxImport::know_size(const SymInt& size, const char* operation, const SymInt& a, const SymInt& b) {
  if (size.is_constant()) return;
  SizeSource source;
  source.operation = operation;
  source.a = a;
  source.b = b;
  sizes_.try_emplace(size.to_string(), source);
}

Argument OnnxImport::size_argument(const SymInt& size) {
  if (const auto constant = size.constant()) return *constant;
  const auto found = sizes_.find(size.to_string());
  QDQ_CHECK(found != sizes_.end(), kUnsupported, "it needs the open size ", size.to_string(),
            ", which no Shape gives; export the model with fixed sizes");
  SizeSource& source = found->second;
  if (source.computed == nullptr) {
    if (source.node) {
      // Next to the value that has it, so that every later node can use it.
      const auto point = program_.graph->insert_before(
          source.node->op() == Node::Op::kPlaceholder ? after_inputs() : source.node->next());
      source.computed = program_.graph->call(std::string(op::kSymSize), {Argument(source.node), Argument(source.axis)},
                                             {}, "sym_size_int");
    } else {
      const Argument a = size_argument(source.a), b = size_argument(source.b);
      source.computed = program_.graph->call(source.operation, {a, b}, {}, std::string(base_name(source.operation)));
    }
    infer_value(*source.computed);
  }
  return source.computed;
}

Node* OnnxImport::after_inputs() const {
  Node* node = first_input_;
  while (node && node->op() == Node::Op::kPlaceholder) node = node->next();
  return node;
}

void OnnxImport::check_operators() const {
  std::map<std::string, std::vector<std::string>> unknown;
  for (const OnnxNode& node : file_.nodes)
    if (!node.domain.empty() || find_onnx_operator(node.op_type) == nullptr)
      unknown[node.domain.empty() ? node.op_type : node.domain + "." + node.op_type].push_back(
          node.name.empty() && !node.outputs.empty() ? node.outputs[0] : node.name);
  if (unknown.empty()) return;
  std::string list;
  for (const auto& [op, nodes] : unknown) {
    list += concat(list.empty() ? "" : "; ", op, nodes.size() == 1 ? " (node " : " (nodes ");
    constexpr size_t kShown = 5;
    for (size_t i = 0; i < std::min(nodes.size(), kShown); ++i) list += (i ? ", " : "") + nodes[i];
    if (nodes.size() > kShown) list += concat(" and ", nodes.size() - kShown, " more");
    list += ")";
  }
  const auto& [op, nodes] = *unknown.begin();
  throw Error(ErrorCode::kUnsupported,
              concat("qdq cannot read ", unknown.size(), unknown.size() == 1 ? " operator" : " operators",
                     " of this ONNX model: ", list),
              nodes[0], op);
}

void OnnxImport::read_inputs() {
  for (const format::OnnxValueInfo& input : file_.inputs) {
    if (initializers_.count(input.name) != 0) continue;
    QDQ_CHECK(input.dtype && input.dims, kUnsupported, "the input ", input.name,
              " of the ONNX model is not a tensor of known data type and number of axes");
    TensorMeta meta;
    meta.dtype = *input.dtype;
    for (const format::OnnxDimension& size : *input.dims) {
      QDQ_CHECK(size.value.value_or(0) >= 0, kBadFile, "the input ", input.name, " of the ONNX model has the size ",
                size.value.value_or(0));
      if (size.value) {
        meta.sizes.emplace_back(*size.value);
        continue;
      }
      const std::string fresh = "s" + std::to_string(program_.symbol_ranges.size());
      const std::string symbol = size.param.empty() ? fresh : symbols_.try_emplace(size.param, fresh).first->second;
      program_.symbol_ranges[symbol].min = 1;
      meta.sizes.push_back(SymInt::symbol(symbol));
    }
    const std::string name = node_name_of(input.name.empty() ? "input" : input.name);
    Node* node = program_.graph->create(Node::Op::kPlaceholder, name, {}, {}, name);
    node->set_target(node->name());
    if (first_input_ == nullptr) first_input_ = node;
    for (size_t axis = 0; axis < meta.sizes.size(); ++axis)
      know_size(meta.sizes[axis], node, static_cast<int64_t>(axis));
    node->meta.val.value = std::move(meta);
    program_.forward_arg_names.push_back(node->name());
    QDQ_CHECK(values_.emplace(input.name, OnnxValue{node, {}, true}).second, kBadFile, "the ONNX model has two inputs ",
              input.name);
  }
}

void OnnxImport::read_node(const OnnxNode& node) {
  const OnnxOperator& op = *find_onnx_operator(node.op_type);
  OnnxCall call(*this, node, op);
  try {
    for (const std::string& output : node.outputs)
      QDQ_CHECK(output.empty() || (values_.count(output) == 0 && initializers_.count(output) == 0), kBadFile,
                "the value ", output, " of the ONNX model is made twice");
    if (!import_sizes(call)) op.import(call);
  } catch (Error& error) {
    if (error.message.find(node.name) == std::string::npos || node.name.empty())
      error.message = concat("the ONNX node ", node.name.empty() && !node.outputs.empty() ? node.outputs[0] : node.name,
                             " (", node.op_type, "): ", error.message);
    error.node = node.name;
    error.op = node.op_type;
    throw;
  }
}

void OnnxImport::write_outputs() {
  Argument::List results;
  for (const format::OnnxValueInfo& output : file_.outputs)
    results.emplace_back(value_node(output.name, "the outputs"));
  QDQ_CHECK(!results.empty(), kBadFile, "the ONNX model has no outputs");
  program_.graph->create(Node::Op::kOutput, "output", {Argument(std::move(results))}, {}, "output");
}

Node* OnnxImport::value_node(const std::string& name, const std::string& reader) {
  auto found = values_.find(name);
  if (found == values_.end()) {
    const auto initializer = initializers_.find(name);
    QDQ_CHECK(initializer != initializers_.end(), kBadFile, "the ONNX model uses the value ", name, " in ", reader,
              ", which nothing before makes");
    const bool is_float = is_floating(initializer->second.dtype());
    found = values_.emplace(name, OnnxValue{}).first;
    found->second.node = constant(std::move(initializer->second), name,
                                  is_float ? Attribute::Kind::kParameter : Attribute::Kind::kBuffer);
    initializers_.erase(initializer);
  }
  OnnxValue& value = found->second;
  if (value.node) return value.node;
  // Sizes that are used as a tensor.
  Argument::List elements;
  for (const SymInt& size : value.sizes)
    elements.emplace_back(
        call(std::string(op::kScalarTensor), {size_argument(size)}, {{"dtype", DType::kS64}}, {}, false));
  value.node = value.is_vector ? call(std::string(op::kStack), {Argument(std::move(elements))}, {}, {}, false)
                               : elements[0].node();
  return value.node;
}

Program OnnxImport::run() {
  for (const auto& [domain, version] : file_.opsets)
    if (domain.empty()) opset_ = version;
  QDQ_CHECK(opset_ >= kFirstOpset, kUnsupported, "the ONNX model is of opset ", opset_, ", qdq reads ", kFirstOpset,
            " and later; export it anew or convert it (onnx.version_converter)");
  check_operators();
  for (const OnnxNode& node : file_.nodes)
    for (const std::string& input : node.inputs) ++uses_[input];
  for (const format::OnnxValueInfo& output : file_.outputs) ++uses_[output.name];
  for (auto& [name, tensor] : file_.initializers)
    QDQ_CHECK(initializers_.emplace(name, std::move(tensor)).second, kBadFile, "the ONNX model has two initializers ",
              name);
  file_.initializers.clear();
  read_inputs();
  for (const OnnxNode& node : file_.nodes) read_node(node);
  write_outputs();
  program_.graph->eliminate_dead_code();
  fuse_onnx_patterns(program_);
  program_.erase_unused_attributes();
  verify_program(program_);
  return std::move(program_);
}

OnnxCall::OnnxCall(OnnxImport& import, const OnnxNode& node, const OnnxOperator& op)
    : import_(import), node_(node), op_(op), modules_(module_stack_of(node)) {}

void OnnxCall::refuse_because(std::initializer_list<MessagePart> parts) const {
  throw Error(ErrorCode::kUnsupported, concat("the ONNX node ", where(), " ", concat(parts)), node_.name,
              node_.op_type);
}

std::string OnnxCall::where() const {
  return concat(node_.name.empty() && !node_.outputs.empty() ? node_.outputs[0] : node_.name, " (", node_.op_type, ")");
}

OnnxValue& OnnxCall::value(size_t i) {
  QDQ_CHECK(has(i), kBadFile, "the ONNX node ", where(), " lacks its input ", i);
  const auto found = import_.values_.find(node_.inputs[i]);
  if (found != import_.values_.end()) return found->second;
  import_.value_node(node_.inputs[i], where());
  return import_.values_.at(node_.inputs[i]);
}

Node* OnnxCall::tensor(size_t i) {
  value(i);
  return import_.value_node(node_.inputs[i], where());
}

const TensorMeta& OnnxCall::meta_of(const Node* node) const {
  const TensorMeta* meta = node->meta.val.tensor();
  if (meta == nullptr) refuse("reads ", node->name(), ", which is no tensor");
  return *meta;
}

Argument OnnxCall::operand(size_t i, size_t other) {
  const Tensor known = constant(i);
  if (!known.defined() || known.numel() != 1 || known.dtype() == DType::kBool || is_constant(other) ||
      static_cast<size_t>(known.dim()) > rank(other))
    return tensor(i);
  return is_floating(known.dtype()) ? Argument(known.item()) : Argument(known.item_int());
}

Tensor OnnxCall::wanted_constant(size_t i) {
  Tensor tensor = constant(i);
  if (!tensor.defined())
    refuse("wants a constant as its input ", i, ", found ", node_.inputs[i], ", which is computed");
  return tensor;
}

double OnnxCall::number(size_t i) {
  const Tensor tensor = wanted_constant(i);
  if (tensor.numel() != 1)
    refuse("wants a number as its input ", i, ", found a tensor of shape ", to_string(tensor.sizes()));
  return tensor.item();
}

bool OnnxCall::is_sizes(size_t i) const {
  const auto found = has(i) ? import_.values_.find(node_.inputs[i]) : import_.values_.end();
  return found != import_.values_.end() && !found->second.sizes.empty();
}

bool OnnxCall::is_vector(size_t i) { return is_sizes(i) ? value(i).is_vector : constant(i).dim() == 1; }

std::vector<SymInt> OnnxCall::sizes(size_t i) {
  if (is_sizes(i)) return value(i).sizes;
  const std::vector<int64_t> known = integers(i);
  return {known.begin(), known.end()};
}

std::vector<int64_t> OnnxCall::integers(size_t i) {
  const Tensor tensor = wanted_constant(i);
  if (is_floating(tensor.dtype()) || tensor.dim() > 1)
    refuse("wants integers as its input ", i, ", found ", to_string(tensor.dtype()), to_string(tensor.sizes()));
  const Tensor wide = tensor.to(DType::kS64).contiguous();
  return {wide.data<int64_t>(), wide.data<int64_t>() + wide.numel()};
}

SymInt OnnxCall::size(size_t i) {
  const std::vector<SymInt> all = sizes(i);
  if (all.size() != 1) refuse("wants one integer as its input ", i, ", found ", all.size());
  return all[0];
}

int64_t OnnxCall::whole_number(size_t i) {
  const auto known = size(i).constant();
  if (!known) refuse("wants a known integer as its input ", i);
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

Node* OnnxCall::call(std::string_view target, const Arguments& args) {
  const bool is_operator = target.starts_with("operator.");
  return import_.call(is_operator ? std::string(target) : op::aten(target), args.list, {}, modules_, !is_operator);
}
Node* OnnxCall::call(std::string_view target, const Arguments& args, const char* keyword, const Argument& value) {
  return import_.call(op::aten(target), args.list, {{keyword, value}}, modules_, true);
}
Node* OnnxCall::call_as_it_is(const std::string& full_target, const Arguments& args) {
  return import_.call(full_target, args.list, {}, modules_, false);
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
  if (has_output(output)) import_.values_[node_.outputs[output]].node = node;
}
void OnnxCall::set(Tensor constant) {
  set(import_.constant(std::move(constant), node_.outputs.empty() ? "" : node_.outputs[0]));
}
void OnnxCall::set(std::vector<SymInt> sizes, bool is_vector) {
  if (!sizes.empty() &&
      std::any_of(sizes.begin(), sizes.end(), [](const SymInt& size) { return !size.is_constant(); })) {
    if (has_output(0)) import_.values_[node_.outputs[0]] = {nullptr, std::move(sizes), is_vector};
    return;
  }
  Tensor known = Tensor::empty(is_vector ? Shape{static_cast<int64_t>(sizes.size())} : Shape{}, DType::kS64);
  for (size_t i = 0; i < sizes.size(); ++i) known.data<int64_t>()[i] = *sizes[i].constant();
  set(std::move(known));
}
void OnnxCall::same_as_input(size_t i) {
  const OnnxValue same = value(i);
  if (has_output(0)) {
    // Who reads this one reads the other.
    import_.uses_[node_.inputs[i]] += import_.num_uses(node_.outputs[0]) - 1;
    import_.values_[node_.outputs[0]] = same;
  }
}

Program load_onnx(std::span<const std::byte> bytes, const format::OnnxExternalData& external) {
  try {
    return OnnxImport(format::read_onnx_file(bytes, external)).run();
  } catch (const std::bad_alloc&) {
    fail(ErrorCode::kOutOfMemory, "the ONNX file of ", bytes.size(), " bytes does not fit into memory when it is read");
  }
}

// A ModelProto begins with the tag of one of its fields: its version nearly always, else its producer or its graph. A
// zip archive begins with PK.
bool looks_like_onnx(std::span<const std::byte> bytes) {
  static constexpr uint8_t kTags[] = {0x08, 0x12, 0x1A, 0x3A};
  return bytes.size() > 1 &&
         std::any_of(std::begin(kTags), std::end(kTags), [&](uint8_t tag) { return bytes[0] == std::byte{tag}; });
}

}  // namespace qdq
