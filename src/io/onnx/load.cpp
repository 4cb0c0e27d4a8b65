// Builds a Program from an ONNX graph: values, sizes, scopes and calls; what each operator becomes stands in
// read_*.cpp.
#include <algorithm>
#include <new>
#include <queue>

#include "io/onnx.h"
#include "io/onnx/fix.h"
#include "io/onnx/import.h"
#include "op/facts.h"
#include "op/infer.h"
#include "op/targets.h"

namespace qdq {

using format::OnnxAttribute;
using format::OnnxGraph;
using format::OnnxKind;
using format::OnnxNode;
using format::OnnxValueInfo;

namespace {

constexpr int64_t kFirstOpset = 1;
constexpr size_t kMaxScopes = 64;  // graphs and functions that lie in each other

bool equals_default(const Argument& argument, const Argument& default_value) {
  if (!argument.is_list() || default_value.is_list()) return argument == default_value;
  const Argument::List& list = argument.list();
  return !list.empty() &&
         std::all_of(list.begin(), list.end(), [&](const Argument& element) { return element == default_value; });
}

std::string name_of(const OnnxNode& node) {
  return node.name.empty() && !node.outputs.empty() ? node.outputs[0] : node.name;
}

// "Conv", "com.microsoft.FusedConv"
std::string full_name(const OnnxNode& node) {
  return node.domain.empty() ? node.op_type : concat(node.domain, ".", node.op_type);
}

// Operators of sequences and optionals.
bool is_list_operator(const std::string& op_type) {
  return op_type.find("Sequence") != std::string::npos || op_type.starts_with("Optional");
}

// The names that a node reads, those that its graphs read of the graphs around among them.
void collect_reads(const OnnxNode& node, std::vector<std::string>& reads) {
  for (const std::string& input : node.inputs)
    if (!input.empty()) reads.push_back(input);
  for (const OnnxAttribute& attribute : node.attributes)
    for (const auto& graph : attribute.graphs) {
      std::vector<std::string> inner;
      for (const OnnxNode& each : graph->nodes) collect_reads(each, inner);
      for (const OnnxValueInfo& output : graph->outputs) inner.push_back(output.name);
      std::unordered_set<std::string> own;
      for (const OnnxValueInfo& input : graph->inputs) own.insert(input.name);
      for (const auto& [name, tensor] : graph->initializers) own.insert(name);
      for (const OnnxNode& each : graph->nodes) own.insert(each.outputs.begin(), each.outputs.end());
      for (std::string& name : inner)
        if (own.count(name) == 0) reads.push_back(std::move(name));
    }
}

// The nodes such that each stands behind those whose values it reads; files may have them in any order. Those that are
// in order stay so.
std::vector<const OnnxNode*> in_order(const std::vector<OnnxNode>& nodes) {
  std::unordered_map<std::string, size_t> maker;
  for (size_t i = 0; i < nodes.size(); ++i)
    for (const std::string& output : nodes[i].outputs)
      if (!output.empty())
        QDQ_CHECK(maker.emplace(output, i).second, kBadFile, "the value ", output, " of the ONNX model is made twice");
  std::vector<std::vector<size_t>> readers(nodes.size());
  std::vector<size_t> missing(nodes.size(), 0);
  for (size_t i = 0; i < nodes.size(); ++i) {
    std::vector<std::string> reads;
    collect_reads(nodes[i], reads);
    for (const std::string& name : reads)
      if (const auto found = maker.find(name); found != maker.end()) {
        readers[found->second].push_back(i);
        ++missing[i];
      }
  }
  std::priority_queue<size_t, std::vector<size_t>, std::greater<>> ready;
  for (size_t i = 0; i < nodes.size(); ++i)
    if (missing[i] == 0) ready.push(i);
  std::vector<const OnnxNode*> out;
  while (!ready.empty()) {
    const size_t i = ready.top();
    ready.pop();
    out.push_back(&nodes[i]);
    for (const size_t reader : readers[i])
      if (--missing[reader] == 0) ready.push(reader);
  }
  for (size_t i = 0; i < nodes.size(); ++i)
    QDQ_CHECK(missing[i] == 0, kBadFile, "the ONNX node ", name_of(nodes[i]), " (", nodes[i].op_type,
              ") reads what is made from its own result");
  return out;
}

// A copy of a function's node with the attributes of the call in place of the references to them.
OnnxNode bound(const OnnxNode& node, const std::map<std::string, const OnnxAttribute*>& values) {
  OnnxNode out = node;
  std::erase_if(out.attributes, [&](const OnnxAttribute& attribute) {
    return !attribute.reference.empty() && values.count(attribute.reference) == 0;
  });
  for (OnnxAttribute& attribute : out.attributes) {
    if (!attribute.reference.empty()) {
      const std::string name = attribute.name;
      attribute = *values.at(attribute.reference);
      attribute.name = name;
    }
    for (auto& graph : attribute.graphs) {
      auto copy = std::make_shared<OnnxGraph>(*graph);
      for (OnnxNode& inner : copy->nodes) inner = bound(inner, values);
      graph = std::move(copy);
    }
  }
  return out;
}

// The elements of all tensors that stand in a graph.
int64_t elements_of(const format::OnnxGraph& graph) {
  int64_t out = 0;
  for (const auto& [name, tensor] : graph.initializers) out += tensor.numel();
  for (const format::OnnxNode& node : graph.nodes)
    for (const format::OnnxAttribute& attribute : node.attributes) {
      if (attribute.t.defined()) out += attribute.t.numel();
      for (const auto& inner : attribute.graphs) out += elements_of(*inner);
    }
  return out;
}

}  // namespace

OnnxImport::OnnxImport(format::OnnxFile file, bool defers)
    : file_(std::move(file)), file_elements_(elements_of(file_)), defers_(defers) {}
OnnxImport::~OnnxImport() = default;

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

std::string OnnxImport::attribute_name(const std::string& name) const {
  std::string out;
  for (const char c : name) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    const bool is_dot = c == '.' && !out.empty() && out.back() != '.';
    out += is_plain || is_dot ? c : '_';
  }
  if (out.empty() || out.back() == '.') out += '_';
  return program().unique_attribute_name(out);
}

Node* OnnxImport::constant(Tensor tensor, const std::string& name, Attribute::Kind kind) {
  Attribute attribute;
  attribute.name = attribute_name(name.empty() ? "constant" : name);
  attribute.kind = kind;
  attribute.persistent = kind != Attribute::Kind::kConstant;
  attribute.tensor = std::move(tensor);
  Node* before = frame().first_input ? frame().first_input : program().graph->first();
  const auto point = program().graph->insert_before(before);
  Node* node = program().graph->get_attr(attribute.name, node_name_of(attribute.name));
  node->meta.val.value = meta_of(attribute.tensor);
  program().add_attribute(std::move(attribute));
  return node;
}

Tensor OnnxImport::constant_of(const Node* node) const {
  return is_constant(node) ? program().attribute_of(*node) : Tensor();
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
  Node* node = program().graph->call(target, std::move(args), std::move(kwargs), std::string(base_name(target)));
  node->meta.nn_module_stack = modules;
  infer_value(*node);
  const std::vector<Node*> inputs = node->input_nodes();
  const TensorMeta* meta = node->meta.val.tensor();
  if (!fold || inputs.empty() || meta == nullptr ||
      !std::all_of(inputs.begin(), inputs.end(), [&](const Node* n) { return is_constant(n); }))
    return node;
  // Nothing becomes much larger than what the file holds.
  int64_t room = std::max<int64_t>(file_elements_, 1 << 12);
  for (const Node* input : inputs) room = std::max(room, constant_of(input).numel());
  if (numel_of(constant_shape(meta->sizes)) > room) return node;
  // A view that lies otherwise is copied, as the weights of the layers that a file is loaded with lie in C order.
  Tensor result = eval_constant(program(), *node).contiguous();
  const std::string name = node->name();
  program().graph->erase(node);
  return constant(std::move(result), name);
}

void OnnxImport::know_size(const SymInt& size, Node* integer) { know_size(size, integer, -1); }

void OnnxImport::know_size(const SymInt& size, Node* node, int64_t axis) {
  if (size.is_constant()) return;
  SizeSource source;
  source.node = node;
  source.axis = axis;
  frame().sizes.try_emplace(size.to_string(), source);
}

void OnnxImport::know_size(const SymInt& size, const char* operation, const SymInt& a, const SymInt& b) {
  if (size.is_constant()) return;
  SizeSource source;
  source.operation = operation;
  source.a = a;
  source.b = b;
  frame().sizes.try_emplace(size.to_string(), source);
}

bool OnnxImport::find_size(const SymInt& size) {
  for (Node* node = program().graph->first(); node; node = node->next()) {
    const TensorMeta* meta = node->meta.val.tensor();
    if (meta == nullptr) continue;
    const auto axis = std::find(meta->sizes.begin(), meta->sizes.end(), size);
    if (axis == meta->sizes.end()) continue;
    know_size(size, node, axis - meta->sizes.begin());
    return true;
  }
  return false;
}

SymInt OnnxImport::fresh_symbol() { return SymInt::symbol(concat("v", fresh_symbols_++)); }

Argument OnnxImport::size_argument(const SymInt& size) {
  if (const auto constant = size.constant()) return *constant;
  Graph& graph = *program().graph;
  auto found = frame().sizes.find(size.to_string());
  if (found == frame().sizes.end() && find_size(size)) found = frame().sizes.find(size.to_string());
  if (found == frame().sizes.end() && frames_.size() > 1) {
    // A size of the program around: a further input, as a tensor.
    std::unique_ptr<Frame> inner = std::move(frames_.back());
    frames_.pop_back();
    Node* tensor = nullptr;
    try {
      tensor = call(std::string(op::kScalarTensor), {size_argument(size)}, {{"dtype", DType::kS64}}, {}, false);
    } catch (...) {
      frames_.push_back(std::move(inner));
      throw;
    }
    frames_.push_back(std::move(inner));
    Node* input = captured(tensor, frames_.size() - 2);
    Node* item = graph.call(op::aten("item.default"), {Argument(input)}, {}, "item");
    item->meta.val.value = size;
    know_size(size, item);
    found = frame().sizes.find(size.to_string());
  }
  QDQ_CHECK(found != frame().sizes.end(), kUnsupported, "it needs the open size ", size.to_string(),
            ", which no Shape gives; export the model with fixed sizes");
  SizeSource& source = found->second;
  if (source.computed == nullptr) {
    if (source.node && source.axis < 0) {
      source.computed = source.node;
      return source.computed;
    }
    if (source.node) {
      // Next to the value that has it, so that every later node can use it.
      const bool is_input = source.node->op() == Node::Op::kPlaceholder || source.node->op() == Node::Op::kGetAttr;
      const auto point = graph.insert_before(is_input ? after_inputs() : source.node->next());
      source.computed =
          graph.call(std::string(op::kSymSize), {Argument(source.node), Argument(source.axis)}, {}, "sym_size_int");
    } else {
      const SymInt first = source.a, second = source.b;
      const Argument a = size_argument(first), b = size_argument(second);
      source.computed = graph.call(source.operation, {a, b}, {}, std::string(base_name(source.operation)));
    }
    infer_value(*source.computed);
  }
  return source.computed;
}

Node* OnnxImport::after_inputs() {
  Node* node = program().graph->first();
  while (node && (node->op() == Node::Op::kPlaceholder || node->op() == Node::Op::kGetAttr)) node = node->next();
  return node;
}

int64_t OnnxImport::opset(const std::string& domain) const {
  for (const auto& [known, version] : scopes_.back()->opsets)
    if (known == domain) return version;
  return 1;
}

OnnxImport::Scope* OnnxImport::scope_of(const std::string& name) {
  for (size_t i = scopes_.size(); i-- > 0;) {
    Scope& scope = *scopes_[i];
    if (scope.values.count(name) != 0 || scope.initializers.count(name) != 0) return &scope;
    if (!scope.sees_outer) return nullptr;
  }
  return nullptr;
}

int64_t OnnxImport::num_uses(const std::string& value) {
  int64_t out = 0;
  for (size_t i = scopes_.size(); i-- > 0;) {
    const auto found = scopes_[i]->uses.find(value);
    if (found != scopes_[i]->uses.end()) out += found->second;
    if (!scopes_[i]->sees_outer) break;
  }
  return out;
}

// What the file says of a value whose operator qdq does not have.
std::optional<TensorMeta> OnnxImport::meta_said_of(const std::string& value) {
  const auto found = scope().said.find(value);
  if (found == scope().said.end() || !found->second->dtype || !found->second->dims) return std::nullopt;
  TensorMeta meta;
  meta.dtype = *found->second->dtype;
  for (const format::OnnxDimension& size : *found->second->dims) {
    if (size.value && *size.value < 0) return std::nullopt;
    meta.sizes.push_back(size.value ? SymInt(*size.value) : symbol_of(size));
  }
  return meta;
}

// Dimensions of one name are one symbol; those without, and those that are called "?", are each their own.
SymInt OnnxImport::symbol_of(const format::OnnxDimension& dimension) {
  const bool has_name = std::any_of(dimension.param.begin(), dimension.param.end(),
                                    [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); });
  const std::string fresh = concat("s", input_symbols_.size());
  const std::string symbol = has_name ? symbols_.try_emplace(dimension.param, fresh).first->second : fresh;
  if (symbol == fresh) {
    input_symbols_.push_back(symbol);
    frames_.front()->program.symbol_ranges[symbol].min = 1;
    if (has_name) frames_.front()->program.symbol_names[symbol] = dimension.param;
  }
  return SymInt::symbol(symbol);
}

OnnxImport::Scope& OnnxImport::enter(const OnnxGraph& graph, bool sees_outer, const format::OnnxOpsets& opsets) {
  QDQ_CHECK(scopes_.size() < kMaxScopes, kUnsupported, "the ONNX model has graphs and functions in each other beyond ",
            kMaxScopes, " levels");
  Scope& scope = *scopes_.emplace_back(std::make_unique<Scope>());
  scope.frame = frames_.size() - 1;
  scope.sees_outer = sees_outer;
  scope.opsets = opsets;
  for (const OnnxNode& node : graph.nodes) {
    std::vector<std::string> reads;
    collect_reads(node, reads);
    for (const std::string& name : reads) ++scope.uses[name];
  }
  for (const OnnxValueInfo& output : graph.outputs) ++scope.uses[output.name];
  for (const auto* infos : {&graph.values, &graph.outputs})
    for (const OnnxValueInfo& info : *infos) scope.said.emplace(info.name, &info);
  for (const auto& [name, tensor] : graph.initializers)
    QDQ_CHECK(scope.initializers.emplace(name, tensor).second, kBadFile, "the ONNX model has two initializers ", name);
  scope.four_bit_tensors.insert(graph.four_bit_tensors.begin(), graph.four_bit_tensors.end());
  for (const OnnxValueInfo& input : graph.inputs)
    if (input.has_four_bits) scope.four_bit_tensors.insert(input.name);
  return scope;
}

Node* OnnxImport::add_input(const std::string& name, ValueMeta value) {
  const std::string wanted = node_name_of(name.empty() ? "input" : name);
  Node* node = nullptr;
  {
    const auto point = program().graph->insert_before(after_inputs());
    node = program().graph->create(Node::Op::kPlaceholder, wanted, {}, {}, wanted);
  }
  node->set_target(node->name());
  if (frame().first_input == nullptr) frame().first_input = node;
  if (const TensorMeta* meta = value.tensor())
    for (size_t axis = 0; axis < meta->sizes.size(); ++axis)
      know_size(meta->sizes[axis], node, static_cast<int64_t>(axis));
  node->meta.val = std::move(value);
  program().forward_arg_names.push_back(node->name());
  return node;
}

// An input that is a list of tensors or may be None. Nothing is known of the tensors.
bool OnnxImport::read_loose_input(const OnnxValueInfo& input) {
  using Type = OnnxValueInfo::Type;
  OnnxValue value;
  value.kind.is_list = input.type == Type::kSequence || input.type == Type::kOptionalSequence;
  value.kind.may_be_none = input.type == Type::kOptional || input.type == Type::kOptionalSequence;
  if (value.kind.is_tensor()) return false;
  value.node = add_input(input.name, {});
  value.node->meta.extra.emplace_back(kOnnxValue, input.name);
  value.node->meta.extra.emplace_back(
      kInputKind, concat(value.kind.may_be_none ? kOptional : "",
                         value.kind.is_list && value.kind.may_be_none ? " " : "", value.kind.is_list ? kSequence : ""));
  QDQ_CHECK(scope().values.emplace(input.name, std::move(value)).second, kBadFile, "the ONNX model has two inputs ",
            input.name);
  return true;
}

void OnnxImport::read_inputs(const OnnxGraph& graph) {
  for (const OnnxValueInfo& input : graph.inputs) {
    if (scope().initializers.count(input.name) != 0) continue;  // a default that a caller may override; qdq does not
    if (read_loose_input(input)) continue;
    QDQ_CHECK(input.dtype && input.dims, kUnsupported, "the input ", input.name,
              " of the ONNX model is not a tensor of known data type and number of axes");
    TensorMeta meta;
    meta.dtype = *input.dtype;
    for (const format::OnnxDimension& size : *input.dims) {
      // Some exporters write -1 where a size is open.
      QDQ_CHECK(size.value.value_or(0) >= -1, kBadFile, "the input ", input.name, " of the ONNX model has the size ",
                size.value.value_or(0));
      const bool is_known = size.value && *size.value >= 0;
      meta.sizes.push_back(is_known ? SymInt(*size.value) : symbol_of({std::nullopt, size.param}));
    }
    QDQ_CHECK(scope().values.emplace(input.name, OnnxValue()).second, kBadFile, "the ONNX model has two inputs ",
              input.name);
    Node* node = add_input(input.name, {std::move(meta)});
    node->meta.extra.emplace_back(kOnnxValue, input.name);
    scope().values[input.name].node = node;
  }
}

void OnnxImport::read_nodes(const std::vector<OnnxNode>& nodes) {
  for (const OnnxNode* node : in_order(nodes)) {
    for (const std::string& output : node->outputs)
      QDQ_CHECK(output.empty() || (scope().values.count(output) == 0 && scope().initializers.count(output) == 0),
                kBadFile, "the value ", output, " of the ONNX model is made twice");
    read_node(*node);
  }
}

void OnnxImport::read_node(const OnnxNode& node) {
  if (read_function(node)) return;
  const OnnxOperator* op = find_onnx_operator(full_name(node));
  if (op == nullptr) return read_unknown(node, {});
  const bool has_graphs = std::any_of(node.attributes.begin(), node.attributes.end(),
                                      [](const OnnxAttribute& attribute) { return !attribute.graphs.empty(); });
  // Nothing is known of the tensors in lists either.
  const bool takes_lists = is_list_operator(node.op_type);
  for (const std::string& input : node.inputs) {
    const OnnxValue* known = input.empty() || has_graphs || takes_lists ? nullptr : find(input);
    if (known == nullptr || known->node == nullptr || is_constant(known->node) || !known->kind.is_tensor() ||
        known->node->meta.val.value.index() != 0)
      continue;
    if (!read_deferred(node)) read_unknown(node, concat("nothing is known of its input ", input));
    return;
  }
  try {
    read_known(node, *op);
  } catch (Error& error) {
    if (error.message.find(node.name) == std::string::npos || node.name.empty())
      error.message = concat("the ONNX node ", name_of(node), " (", node.op_type, "): ", error.message);
    if (error.node.empty()) error.node = node.name;
    if (error.op.empty()) error.op = node.op_type;
    if (error.code != ErrorCode::kUnsupported) throw;
    // The rest of the model opens.
    for (const std::string& output : node.outputs) scope().values.erase(output);
    if (has_graphs || !read_deferred(node)) read_unknown(node, error.message);
  }
}

void OnnxImport::read_known(const OnnxNode& node, const OnnxOperator& op) {
  OnnxCall call(*this, node, op);
  if (!import_sizes(call)) op.import(call);
  name_results(node);
}

// Tells the nodes that give an ONNX node's results what the file calls them. One that stands for several ONNX nodes
// has the names of all.
void OnnxImport::name_results(const OnnxNode& node) {
  // A result that is an input too, and read under that name elsewhere.
  const auto reads = [&](const Node* result) {
    return std::any_of(node.inputs.begin(), node.inputs.end(), [&](const std::string& input) {
      const OnnxValue* known = input.empty() ? nullptr : find(input);
      return known && known->node == result && num_uses(input) != 1;
    });
  };
  for (const std::string& output : node.outputs) {
    const auto found = scope().values.find(output);
    Node* result = found == scope().values.end() ? nullptr : found->second.node;
    if (result == nullptr || result->op() != Node::Op::kCallFunction || reads(result)) continue;
    result->meta.extra.emplace_back(kOnnxValue, output);
    Node* maker = result->is(op::kGetItem) ? result->arg(0).node() : result;
    if (maker->meta.extra_of(kOnnxNode) != name_of(node)) maker->meta.extra.emplace_back(kOnnxNode, name_of(node));
  }
}

Argument OnnxImport::argument_of(const OnnxNode& node, const OnnxAttribute& attribute) {
  const auto list = [](const auto& values) {
    Argument::List out;
    for (const auto& value : values) out.emplace_back(value);
    return Argument(std::move(out));
  };
  switch (attribute.kind) {
    case OnnxKind::kFloat: return static_cast<double>(attribute.f);
    case OnnxKind::kInt: return attribute.i;
    case OnnxKind::kString: return attribute.s;
    case OnnxKind::kSparseTensor:
    case OnnxKind::kTensor: return constant(attribute.t, concat(node.op_type, "_", attribute.name));
    case OnnxKind::kFloats: return list(std::vector<double>(attribute.floats.begin(), attribute.floats.end()));
    case OnnxKind::kInts: return list(attribute.ints);
    case OnnxKind::kStrings: return list(attribute.strings);
    default: return std::string(kLostGraph);
  }
}

// An operator that qdq cannot read becomes a call of that name: inputs in order, attributes as keywords. Whoever brings
// the operator (register_op) makes it run; until then running it is refused, and nothing else.
void OnnxImport::read_unknown(const OnnxNode& node, const std::string& reason) {
  std::string target = full_name(node);
  const size_t dot = target.rfind('.');
  std::string space = dot == std::string::npos ? "onnx" : target.substr(0, dot);
  std::replace(space.begin(), space.end(), '.', '_');
  target = concat("torch.ops.", space, ".", node.op_type, ".default");
  std::vector<Argument> inputs;
  for (const std::string& input : node.inputs)
    inputs.emplace_back(input.empty() ? Argument() : Argument(node_of(value(input, name_of(node)), name_of(node))));
  while (!inputs.empty() && inputs.back().is_none()) inputs.pop_back();
  Node::Kwargs kwargs;
  for (const OnnxAttribute& attribute : node.attributes)
    kwargs.emplace_back(attribute.name, argument_of(node, attribute));
  Node* result = program().graph->call(target, std::move(inputs), std::move(kwargs), node_name_of(node.op_type));
  result->meta.nn_module_stack = module_stack_of(node);
  result->meta.extra.emplace_back(kOnnxDomain, node.domain);
  result->meta.extra.emplace_back(kOnnxVersion, std::to_string(opset(node.domain)));
  const bool is_registered = find_op(target) != nullptr;
  if (is_registered) infer_value(*result);
  else if (!reason.empty()) result->meta.extra.emplace_back(std::string(kUnsupportedReason), reason);
  set_outputs(node, result, node.outputs.size() > 1);
}

// A node that values and sizes which a run brings may make readable.
bool OnnxImport::read_deferred(const OnnxNode& node) {
  // What gives a sequence cannot be one of a program's results.
  if (!defers_ || is_list_operator(node.op_type)) return false;
  std::vector<OnnxValue*> values;
  bool may_be_told = false;
  for (const std::string& input : node.inputs) {
    values.push_back(input.empty() ? nullptr : &value(input, name_of(node)));
    if (values.back() == nullptr) continue;
    if (values.back()->elements || values.back()->is_empty_optional || !values.back()->kind.is_tensor()) return false;
    const Node* known = values.back()->node;
    const TensorMeta* meta = known ? known->meta.val.tensor() : nullptr;
    const bool is_open = meta && std::any_of(meta->sizes.begin(), meta->sizes.end(),
                                             [](const SymInt& size) { return !size.is_constant(); });
    const bool is_computed = meta && !is_constant(known) && (!is_floating(meta->dtype) || meta->sizes.size() < 2);
    may_be_told |= meta == nullptr || is_open || (is_computed && meta->dtype != DType::kString);
  }
  const std::string target = deferred_target(node, opset(node.domain));
  if (!may_be_told || target.empty()) return false;
  Argument::List inputs, attributes, outputs;
  for (OnnxValue* each : values) inputs.push_back(each ? Argument(node_of(*each, name_of(node))) : Argument());
  for (const OnnxAttribute& attribute : node.attributes) {
    attributes.emplace_back(attribute.name);
    attributes.push_back(argument_of(node, attribute));
  }
  for (size_t i = 0; i < node.outputs.size(); ++i)
    outputs.emplace_back(node.outputs[i].empty() ? std::string() : concat("output_", i));
  Node* result = program().graph->call(
      target, {Argument(std::move(inputs)), Argument(std::move(attributes)), Argument(std::move(outputs))}, {},
      node_name_of(node.op_type));
  result->meta.nn_module_stack = module_stack_of(node);
  result->meta.extra.emplace_back(kOnnxDomain, node.domain);
  result->meta.extra.emplace_back(kOnnxVersion, std::to_string(opset(node.domain)));
  set_outputs(node, result, node.outputs.size() > 1);
  return true;
}

// Names the results of a call of which the importers know nothing, or what the file says.
void OnnxImport::set_outputs(const OnnxNode& node, Node* result, bool is_list) {
  const bool is_known = result->meta.val.value.index() != 0;
  std::vector<ValueMeta> metas;
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    Node* output = result;
    if (is_list)
      output =
          program().graph->call(std::string(op::kGetItem), {Argument(result), static_cast<int64_t>(i)}, {}, "getitem");
    if (is_known && is_list) {
      infer_value(*output);
    } else if (!is_known) {
      if (auto meta = meta_said_of(node.outputs[i])) output->meta.val.value = std::move(*meta);
      metas.push_back(output->meta.val);
    }
    if (const TensorMeta* meta = output->meta.val.tensor())
      for (size_t axis = 0; axis < meta->sizes.size(); ++axis)
        know_size(meta->sizes[axis], output, static_cast<int64_t>(axis));
    if (!node.outputs[i].empty()) scope().values[node.outputs[i]].node = output;
  }
  if (is_list && !is_known) result->meta.val.value = std::move(metas);
  name_results(node);
}

// A call of an operator that the file defines itself.
bool OnnxImport::read_function(const OnnxNode& node) {
  const auto found = functions_.find({node.domain, node.op_type});
  // qdq's own reading of an operator beats its definition as a function.
  if (found == functions_.end() || find_onnx_operator(full_name(node)) != nullptr) return false;
  const format::OnnxFunction& function = *found->second;
  std::map<std::string, const OnnxAttribute*> attributes;
  for (const OnnxAttribute& attribute : function.default_attributes) attributes[attribute.name] = &attribute;
  for (const OnnxAttribute& attribute : node.attributes) attributes[attribute.name] = &attribute;
  OnnxGraph body;
  for (const OnnxNode& each : function.nodes) body.nodes.push_back(bound(each, attributes));
  for (const std::string& output : function.outputs) body.outputs.push_back({output, {}, {}});
  std::vector<OnnxValue> inputs;
  for (const std::string& input : node.inputs)
    inputs.push_back(input.empty() ? OnnxValue() : value(input, name_of(node)));
  Scope& inner = enter(body, false, function.opsets);
  for (size_t i = 0; i < function.inputs.size() && i < inputs.size(); ++i)
    if (!node.inputs[i].empty()) inner.values[function.inputs[i]] = inputs[i];
  // An input that the call leaves out is left out by the function's nodes too.
  for (OnnxNode& each : body.nodes)
    for (std::string& input : each.inputs) {
      const auto place = std::find(function.inputs.begin(), function.inputs.end(), input);
      if (place != function.inputs.end() && inner.values.count(input) == 0) input.clear();
    }
  std::vector<OnnxValue> results;
  try {
    read_nodes(body.nodes);
    results = outputs_of(body);
  } catch (...) {
    scopes_.pop_back();
    throw;
  }
  scopes_.pop_back();
  for (size_t i = 0; i < node.outputs.size() && i < results.size(); ++i)
    if (!node.outputs[i].empty()) scope().values[node.outputs[i]] = results[i];
  return true;
}

std::vector<OnnxValue> OnnxImport::outputs_of(const OnnxGraph& graph) {
  std::vector<OnnxValue> out;
  for (const OnnxValueInfo& output : graph.outputs) out.push_back(value(output.name, "the outputs of a graph"));
  return out;
}

std::vector<OnnxValue> OnnxImport::inline_graph(const OnnxGraph& graph, const std::vector<OnnxValue>& inputs) {
  Scope& inner = enter(graph, true, scope().opsets);
  std::vector<OnnxValue> results;
  try {
    QDQ_CHECK(graph.inputs.size() == inputs.size(), kBadFile, "a graph of the ONNX model takes ", graph.inputs.size(),
              " inputs, its node gives ", inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) inner.values[graph.inputs[i].name] = inputs[i];
    read_nodes(graph.nodes);
    results = outputs_of(graph);
  } catch (...) {
    scopes_.pop_back();
    throw;
  }
  scopes_.pop_back();
  return results;
}

OnnxImport::Subprograms OnnxImport::subprograms(const std::vector<const OnnxGraph*>& graphs,
                                                const std::vector<std::vector<GraphInput>>& inputs) {
  const size_t num_frames = frames_.size(), num_scopes = scopes_.size();
  const format::OnnxOpsets opsets = scope().opsets;
  Subprograms out;
  std::vector<std::unique_ptr<Frame>> built;
  try {
    for (size_t i = 0; i < graphs.size(); ++i) {
      frames_.push_back(std::make_unique<Frame>());
      enter(*graphs[i], true, opsets);
      QDQ_CHECK(graphs[i]->inputs.size() == inputs[i].size(), kBadFile, "a graph of the ONNX model takes ",
                graphs[i]->inputs.size(), " inputs, its node gives ", inputs[i].size());
      for (size_t k = 0; k < inputs[i].size(); ++k) {
        OnnxValue& input = scope().values[graphs[i]->inputs[k].name];
        input.node = add_input(inputs[i][k].name, inputs[i][k].meta);
        input.kind = inputs[i][k].kind;
      }
      read_nodes(graphs[i]->nodes);
      std::vector<OnnxValue> results = outputs_of(*graphs[i]);
      out.results.resize(std::max(out.results.size(), results.size()));
      for (size_t k = 0; k < results.size(); ++k) {
        results[k] = as_it_runs(results[k], "the outputs of a graph");
        out.results[k].is_list |= results[k].kind.is_list;
        out.results[k].may_be_none |= results[k].kind.may_be_none;
      }
      write_outputs(results);
      scopes_.pop_back();
      built.push_back(std::move(frames_.back()));
      frames_.pop_back();
    }
  } catch (...) {
    frames_.resize(num_frames);
    scopes_.resize(num_scopes);
    throw;
  }
  // All take what any of them needs.
  std::vector<const Node*> captured;
  for (const auto& one : built)
    for (const Node* node : one->captured)
      if (std::find(captured.begin(), captured.end(), node) == captured.end()) captured.push_back(node);
  for (auto& one : built) {
    Graph& graph = *one->program.graph;
    frames_.push_back(std::move(one));
    std::vector<Node*> order;
    for (const Node* node : captured) {
      const auto found = frame().copies.find(node);
      order.push_back(found != frame().copies.end() ? found->second : add_input(node->name(), node->meta.val));
    }
    Node* end = after_inputs();
    for (Node* input : order) graph.move_before(input, end);
    program().forward_arg_names.clear();
    for (const Node* input : graph.placeholders()) program().forward_arg_names.push_back(input->name());
    out.programs.push_back(std::make_shared<Program>(finish_frame()));
    frames_.pop_back();
  }
  for (const Node* node : captured) out.captured.push_back(const_cast<Node*>(node));
  return out;
}

Program OnnxImport::finish_frame() {
  Program& program = frame().program;
  program.graph->eliminate_dead_code();
  fuse_onnx_patterns(program);
  program.erase_unused_attributes();
  if (frames_.size() > 1) {
    program.symbol_ranges = frames_.front()->program.symbol_ranges;
    program.symbol_names = frames_.front()->program.symbol_names;
  }
  verify_program(program);
  return std::move(program);
}

void OnnxImport::write_outputs(const std::vector<OnnxValue>& values) {
  Argument::List results;
  for (OnnxValue value : values) {
    if (value.elements == nullptr) {
      const OnnxValue result = as_it_runs(value, "the outputs");
      results.push_back(result.node ? Argument(result.node) : Argument());
      continue;
    }
    for (OnnxValue element : *value.elements) results.emplace_back(node_of(element, "the outputs"));
  }
  program().graph->create(Node::Op::kOutput, "output", {Argument(std::move(results))}, {}, "output");
}

// A node of the frame `from`, in the current one.
Node* OnnxImport::captured(Node* node, size_t from) {
  for (size_t level = from + 1; level < frames_.size(); ++level) {
    Frame& inner = *frames_[level];
    const auto found = inner.copies.find(node);
    if (found != inner.copies.end()) {
      node = found->second;
      continue;
    }
    // The functions that make nodes work on the last frame.
    std::vector<std::unique_ptr<Frame>> deeper;
    while (frames_.size() > level + 1) {
      deeper.push_back(std::move(frames_.back()));
      frames_.pop_back();
    }
    Node* copy = nullptr;
    if (node->op() == Node::Op::kGetAttr) {
      const Attribute& attribute = *frames_[level - 1]->program.find_attribute(node->target());
      copy = constant(attribute.tensor, attribute.name, attribute.kind);
    } else {
      copy = add_input(node->name(), node->meta.val);
      inner.captured.push_back(node);
    }
    while (!deeper.empty()) {
      frames_.push_back(std::move(deeper.back()));
      deeper.pop_back();
    }
    inner.copies[node] = copy;
    node = copy;
  }
  return node;
}

OnnxValue OnnxImport::captured(const OnnxValue& value, size_t from) {
  OnnxValue out = value;
  if (out.node) out.node = captured(out.node, from);
  if (out.elements) {
    auto elements = std::make_shared<std::vector<OnnxValue>>();
    for (const OnnxValue& element : *out.elements) elements->push_back(captured(element, from));
    out.elements = std::move(elements);
  }
  return out;
}

OnnxValue* OnnxImport::find(const std::string& name) {
  Scope* home = scope_of(name);
  if (home == nullptr) return nullptr;
  const size_t here = frames_.size() - 1;
  auto found = home->values.find(name);
  if (found == home->values.end()) {
    // An initializer that is read for the first time: a constant of the frame that reads it. Frames share its bytes.
    const Tensor& tensor = home->initializers.at(name);
    OnnxValue value;
    value.node =
        constant(tensor, name, is_floating(tensor.dtype()) ? Attribute::Kind::kParameter : Attribute::Kind::kBuffer);
    value.node->meta.extra.emplace_back(kOnnxValue, name);
    if (home->frame == here) {
      home->initializers.erase(name);
      return &home->values.emplace(name, std::move(value)).first->second;
    }
    return &scope().values.emplace(name, std::move(value)).first->second;
  }
  if (home->frame == here) return &found->second;
  OnnxValue copy = captured(found->second, home->frame);
  return &scope().values.emplace(name, std::move(copy)).first->second;
}

OnnxValue& OnnxImport::value(const std::string& name, const std::string& reader) {
  OnnxValue* found = find(name);
  QDQ_CHECK(found != nullptr, kBadFile, "the ONNX model uses the value ", name, " in ", reader,
            ", which nothing makes");
  return *found;
}

OnnxValue OnnxImport::as_it_runs(OnnxValue& value, const std::string& reader) {
  if (!value.kind.is_tensor()) return value;
  OnnxValue out;
  out.kind.is_list = value.elements != nullptr;
  out.kind.may_be_none = value.is_empty_optional;
  if (value.elements) {
    Argument::List all;
    for (OnnxValue element : *value.elements) all.emplace_back(node_of(element, reader));
    out.node = call("torch.ops.onnx.sequence_construct.default", {Argument(std::move(all))}, {}, {}, false);
  } else if (!value.is_empty_optional) {
    out.node = node_of(value, reader);
  }
  return out;
}

Node* OnnxImport::node_of(OnnxValue& value, const std::string& reader) {
  const bool is_list = value.elements || value.kind.is_list, is_optional = value.kind.may_be_none;
  QDQ_CHECK(!is_list && !is_optional && !value.is_empty_optional, kUnsupported, reader, " reads ",
            is_list       ? "a sequence"
            : is_optional ? "an optional"
                          : "a value that is not there",
            " as a tensor");
  if (value.node) return value.node;
  // Sizes that are used as a tensor.
  Argument::List elements;
  for (const SymInt& size : value.sizes)
    elements.emplace_back(
        call(std::string(op::kScalarTensor), {size_argument(size)}, {{"dtype", value.dtype}}, {}, false));
  value.node = value.is_vector ? call(std::string(op::kStack), {Argument(std::move(elements))}, {}, {}, false)
                               : elements[0].node();
  return value.node;
}

Program OnnxImport::run() {
  int64_t opset = 0;
  for (const auto& [domain, version] : file_.opsets)
    if (domain.empty()) opset = version;
  // Files that only use other domains may leave ONNX's own out.
  if (opset == 0 && !file_.opsets.empty()) file_.opsets.emplace_back("", opset = kFirstOpset);
  QDQ_CHECK(opset >= kFirstOpset, kUnsupported, "the ONNX model is of opset ", opset, ", qdq reads ", kFirstOpset,
            " and later; export it anew or convert it (onnx.version_converter)");
  for (const format::OnnxFunction& function : file_.functions) functions_[{function.domain, function.name}] = &function;
  frames_.push_back(std::make_unique<Frame>());
  enter(file_, false, file_.opsets);
  file_.initializers.clear();
  read_inputs(file_);
  read_nodes(file_.nodes);
  QDQ_CHECK(!file_.outputs.empty(), kBadFile, "the ONNX model has no outputs");
  const std::vector<OnnxValue> outputs = outputs_of(file_);
  for (size_t i = 0; i < outputs.size(); ++i) {
    const auto& elements = outputs[i].elements;
    if (elements == nullptr) program().output_names.push_back(file_.outputs[i].name);
    for (size_t k = 0; elements && k < elements->size(); ++k)
      program().output_names.push_back(concat(file_.outputs[i].name, "_", k));
  }
  program().metadata = file_.metadata;
  write_outputs(outputs);
  return finish_frame();
}

OnnxCall::OnnxCall(OnnxImport& import, const OnnxNode& node, const OnnxOperator& op)
    : import_(import), node_(node), op_(op), opset_(import.opset(node.domain)), modules_(module_stack_of(node)) {}

void OnnxCall::refuse_because(std::initializer_list<MessagePart> parts) const {
  throw Error(ErrorCode::kUnsupported, concat("the ONNX node ", where(), " ", concat(parts)), node_.name,
              node_.op_type);
}

std::string OnnxCall::where() const {
  return concat(node_.name.empty() && !node_.outputs.empty() ? node_.outputs[0] : node_.name, " (", node_.op_type, ")");
}

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
  if (meta == nullptr) refuse("reads ", node->name(), ", which is no tensor");
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
    refuse("wants integers as its input ", i, ", found ", to_string(found.dtype), to_string(found.sizes));
  const auto count = found.sizes.empty() ? std::optional<int64_t>(1) : found.sizes[0].constant();
  constexpr int64_t kMost = 64;
  if (!count || *count > kMost)
    refuse("wants integers as its input ", i, ", found ", found.sizes[0].to_string(), " of them");
  Node* all = tensor(i);
  std::vector<SymInt> out;
  for (int64_t k = 0; k < *count; ++k) {
    Node* one = found.sizes.empty() ? all : call("select.int", {all, 0, k});
    Node* item = call_as_it_is(op::aten("item.default"), {one});
    const auto* symbol = std::get_if<SymInt>(&item->meta.val.value);
    if (symbol == nullptr) refuse("wants integers as its input ", i);
    import_.know_size(*symbol, item);
    out.push_back(*symbol);
  }
  OnnxValue& known = value(i);
  known.sizes = out;
  known.is_vector = !meta(i).sizes.empty();
  return out;
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

std::vector<int64_t> OnnxCall::integers(size_t i, std::string_view name, std::vector<int64_t> if_none) {
  return has(i) ? integers(i) : integers(name, std::move(if_none));
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
  const bool is_operator = target.starts_with("operator."), is_full = is_operator || target.starts_with("torch.ops.");
  return import_.call(is_full ? std::string(target) : op::aten(target), args.list, {}, modules_, !is_operator);
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
  if (!sizes.empty() &&
      std::any_of(sizes.begin(), sizes.end(), [](const SymInt& size) { return !size.is_constant(); })) {
    OnnxValue value;
    value.sizes = std::move(sizes);
    value.is_vector = is_vector;
    return set(std::move(value), 0);
  }
  Tensor known = Tensor::empty(is_vector ? Shape{static_cast<int64_t>(sizes.size())} : Shape{}, DType::kS64);
  for (size_t i = 0; i < sizes.size(); ++i) known.data<int64_t>()[i] = *sizes[i].constant();
  set(std::move(known));
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

Program load_onnx(std::span<const std::byte> bytes, const format::OnnxExternalData& external, const OnnxFixed& fixed) {
  register_deferred_onnx();
  register_image_decoder();
  try {
    format::OnnxFile file = format::read_onnx_file(bytes, external);
    fix_values(file, fixed);
    return OnnxImport(std::move(file)).run();
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
