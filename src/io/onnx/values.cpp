// What the names of an ONNX graph stand for: constants, sizes and values, in scopes and in the programs of graphs.
#include <algorithm>

#include "base/undo.h"
#include "io/onnx.h"
#include "io/onnx/import.h"
#include "io/onnx/node_order.h"
#include "op/facts.h"
#include "op/infer.h"
#include "op/targets.h"

namespace qdq {

using format::OnnxGraph;
using format::OnnxNode;
using format::OnnxValueInfo;

namespace {

constexpr size_t kMaxScopes = 64;  // graphs and functions that lie in each other

bool equals_default(const Argument& argument, const Argument& default_value) {
  if (!argument.is_list() || default_value.is_list()) return argument == default_value;
  const Argument::List& list = argument.list();
  return !list.empty() &&
         std::all_of(list.begin(), list.end(), [&](const Argument& element) { return element == default_value; });
}

}  // namespace

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
  const auto& arguments = op->schema->arguments;
  while (!args.empty() && args.size() <= arguments.size() && arguments[args.size() - 1].default_value &&
         equals_default(args.back(), *arguments[args.size() - 1].default_value))
    args.pop_back();
  std::erase_if(kwargs, [&](const auto& kwarg) {
    const auto i = op->schema->index_of(kwarg.first);
    return i && arguments[*i].default_value == kwarg.second;
  });
  Node* node = program().graph->call(target, std::move(args), std::move(kwargs), std::string(base_name(target)));
  node->meta.nn_module_stack = modules;
  infer_value(*node);
  const std::vector<Node*> inputs = node->input_nodes();
  const TensorMeta* meta = node->meta.val.tensor();
  if (!fold || inputs.empty() || meta == nullptr ||
      !std::all_of(inputs.begin(), inputs.end(), [&](const Node* n) { return is_constant(n); }) ||
      !std::all_of(meta->sizes.begin(), meta->sizes.end(), [](const SymInt& size) { return size.is_constant(); }))
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
    {
      const Undo enter_again([&] { frames_.push_back(std::move(inner)); });
      tensor = call(std::string(op::kScalarTensor), {size_argument(size)}, {{"dtype", DType::kS64}}, {}, false);
    }
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

bool OnnxCall::is_only_stacked(size_t output) const {
  const auto& stacks = import_.scope().stacks;
  const auto found = stacks.find(node_.outputs[output]);
  return found != stacks.end() && found->second == num_uses(output);
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
    frames_.front()->program.symbol_ranges[symbol].min = 0;
    if (has_name) frames_.front()->program.symbol_names[symbol] = dimension.param;
  }
  return SymInt::symbol(symbol);
}

bool OnnxImport::know_more_than_zero(const SymInt& size) {
  std::map<std::string, int64_t> ones;
  for (const std::string& symbol : input_symbols_) ones[symbol] = 1;
  if (!size.evaluate(ones)) return false;
  const bool is_symbol =
      std::find(input_symbols_.begin(), input_symbols_.end(), size.to_string()) != input_symbols_.end();
  for (const std::string& symbol : input_symbols_)
    if (!is_symbol || size == SymInt::symbol(symbol)) frames_.front()->program.symbol_ranges[symbol].min = 1;
  return true;
}

OnnxImport::Scope& OnnxImport::enter(const OnnxGraph& graph, bool sees_outer, const format::OnnxOpsets& opsets) {
  QDQ_CHECK(scopes_.size() < kMaxScopes, kUnsupported, "the ONNX model has graphs and functions in each other beyond ",
            kMaxScopes, " levels; export it with fewer");
  Scope& scope = *scopes_.emplace_back(std::make_unique<Scope>());
  scope.frame = frames_.size() - 1;
  scope.sees_outer = sees_outer;
  scope.opsets = opsets;
  for (const OnnxNode& node : graph.nodes) {
    std::vector<std::string> reads;
    collect_reads(node, reads);
    for (const std::string& name : reads) ++scope.uses[name];
    const auto is_new_axis = [](const format::OnnxAttribute& one) { return one.name == "new_axis" && one.i != 0; };
    if (node.op_type == "ConcatFromSequence" && node.domain.empty() && !node.inputs.empty() &&
        std::any_of(node.attributes.begin(), node.attributes.end(), is_new_axis))
      ++scope.stacks[node.inputs[0]];
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
    out.node = call(op::target("onnx.sequence_construct.default"), {Argument(std::move(all))}, {}, {}, false);
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

}  // namespace qdq
