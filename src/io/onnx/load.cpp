// Builds a Program from an ONNX graph, node by node; what each operator becomes stands in read_*.cpp, what names stand
// for in values.cpp.
#include <algorithm>
#include <new>

#include "base/memory.h"
#include "base/undo.h"
#include "io/onnx.h"
#include "io/onnx/fix.h"
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
using format::OnnxValueInfo;

namespace {

constexpr int64_t kFirstOpset = 1;

// "Conv", "com.microsoft.FusedConv"
std::string full_name(const OnnxNode& node) {
  return node.domain.empty() ? node.op_type : concat(node.domain, ".", node.op_type);
}

// Why nobody can read what ONNX Runtime writes when it saves a model as it runs it here; nothing of other domains.
std::string reason_of_domain(const std::string& domain) {
  if (domain != "com.microsoft.nchwc") return {};
  return "ONNX Runtime changed the layout for one kind of processor when it saved this file; open the model that it "
         "was made from, or save it at the level ORT_ENABLE_EXTENDED";
}

// Operators of sequences and optionals.
bool is_list_operator(const std::string& op_type) {
  return op_type.find("Sequence") != std::string::npos || op_type.starts_with("Optional");
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
    Shape known;
    for (const format::OnnxDimension& size : *input.dims) {
      // Some exporters write -1 where a size is open.
      QDQ_CHECK(size.value.value_or(0) >= -1, kBadFile, "the input ", input.name, " of the ONNX model has the size ",
                size.value.value_or(0));
      const bool is_known = size.value && *size.value >= 0;
      if (is_known) known.push_back(*size.value);
      meta.sizes.push_back(is_known ? SymInt(*size.value) : symbol_of({std::nullopt, size.param}));
    }
    try {
      numel_of(known);
    } catch (const Error& error) {
      fail(ErrorCode::kBadFile, "the input ", input.name, " of the ONNX model cannot be: ", error.message);
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

// Functions that call each other twice grow a small file without end. No error that the rest of the model would open
// after.
void OnnxImport::count_written_out() {
  constexpr int64_t kMost = 100'000, kEach = 512;
  constexpr uint64_t kBytes = 2048;  // that a node and its value take at least
  ++written_out_;
  QDQ_CHECK(written_out_ <= kMost, kBadFile, "the ONNX model has functions of more than ", kMost,
            " nodes when each call is written out; export it with fewer calls");
  if (written_out_ % kEach == 0) check_memory_of_file(kEach * kBytes, "writing out the functions of the ONNX model");
}

// A node may make each sequence of the one before, which stays.
void OnnxImport::count_sequence(uint64_t bytes) {
  constexpr uint64_t kEach = uint64_t{1} << 20;
  uncounted_bytes_ += bytes;
  if (uncounted_bytes_ < kEach) return;
  check_memory_of_file(uncounted_bytes_, "reading the sequences of the ONNX model");
  uncounted_bytes_ = 0;
}

void OnnxImport::read_node(const OnnxNode& node) {
  if (scopes_.size() > 1) count_written_out();
  if (read_function(node)) return;
  const OnnxOperator* op = find_onnx_operator(full_name(node));
  if (op == nullptr) return read_unknown(node, reason_of_domain(node.domain));
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
    const std::string where = concat("the ONNX node ", name_of(node), " (", node.op_type, ")");
    const bool is_named = !node.name.empty() && error.message.find(node.name) != std::string::npos;
    if (!is_named && error.message.find(where) == std::string::npos) error.message = concat(where, ": ", error.message);
    if (error.node.empty()) error.node = node.name;
    if (error.op.empty()) error.op = node.op_type;
    if (error.code != ErrorCode::kUnsupported) throw;
    // A call of an unknown operator takes tensors.
    const bool reads_list = std::any_of(node.inputs.begin(), node.inputs.end(), [&](const std::string& input) {
      const OnnxValue* known = input.empty() ? nullptr : find(input);
      return known != nullptr && (known->elements != nullptr || known->kind.is_list);
    });
    if (reads_list) throw;
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
  target = op::target(concat(space, ".", node.op_type, ".default"));
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
  {
    const Undo leave([&] { scopes_.pop_back(); });
    read_nodes(body.nodes);
    results = outputs_of(body);
  }
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
  const Undo leave([&] { scopes_.pop_back(); });
  QDQ_CHECK(graph.inputs.size() == inputs.size(), kBadFile, "a graph of the ONNX model takes ", graph.inputs.size(),
            " inputs, its node gives ", inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) inner.values[graph.inputs[i].name] = inputs[i];
  read_nodes(graph.nodes);
  return outputs_of(graph);
}

OnnxImport::Subprograms OnnxImport::subprograms(const std::vector<const OnnxGraph*>& graphs,
                                                const std::vector<std::vector<GraphInput>>& inputs) {
  const size_t num_frames = frames_.size(), num_scopes = scopes_.size();
  const format::OnnxOpsets opsets = scope().opsets;
  Subprograms out;
  std::vector<std::unique_ptr<Frame>> built;
  Undo leave([&] {
    frames_.resize(num_frames);
    scopes_.resize(num_scopes);
  });
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
  leave.keep();
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

Program OnnxImport::run() {
  int64_t opset = 0;
  for (const auto& [domain, version] : file_.opsets)
    if (domain.empty()) opset = version;
  // Files that only use other domains may leave ONNX's own out.
  if (opset == 0 && !file_.opsets.empty()) file_.opsets.emplace_back("", opset = kFirstOpset);
  QDQ_CHECK(opset >= kFirstOpset, kUnsupported, "the ONNX model is of opset ", opset, ", qdq reads ", kFirstOpset,
            " and later; export it again or convert it (onnx.version_converter)");
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
  program().notes = {file_.model_doc_string, file_.domain, file_.model_version, file_.name, file_.doc_string, {}};
  for (const auto* values : {&file_.inputs, &file_.outputs})
    for (const format::OnnxValueInfo& value : *values)
      if (!value.doc_string.empty()) program().notes.value_doc_strings[value.name] = value.doc_string;
  write_outputs(outputs);
  return finish_frame();
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
