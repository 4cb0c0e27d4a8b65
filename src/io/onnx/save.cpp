// Writes a Program as an ONNX graph: values, constants and nodes; what each operator becomes stands in
// onnx_export*.cpp.
#include <algorithm>
#include <cmath>
#include <map>
#include <unordered_set>

#include "io/onnx.h"
#include "io/onnx/export.h"
#include "io/onnx/import.h"
#include "op/facts.h"
#include "op/infer.h"

namespace qdq {

using format::OnnxAttribute;
using format::OnnxKind;

namespace {

// Every ONNX Runtime since 1.12 takes it: LayerNormalization came with 17, quantization per channel with 13.
constexpr int64_t kOpset = 17, kIrVersion = 8;

OnnxAttribute attribute_of(std::string name, OnnxKind kind) {
  OnnxAttribute out;
  out.name = std::move(name);
  out.kind = kind;
  return out;
}

format::OnnxValueInfo info_of(std::string name, const ValueMeta& value) {
  format::OnnxValueInfo out;
  out.name = std::move(name);
  const TensorMeta* meta = value.tensor();
  if (meta == nullptr) return out;
  out.dtype = meta->dtype;
  out.dims.emplace();
  for (const SymInt& size : meta->sizes) {
    const auto known = size.constant();
    out.dims->push_back({known, known ? std::string() : size.to_string()});
  }
  return out;
}

// Whether nobody but the in-place operator sees what it writes to.
bool writes_alone(const Node* input) {
  while (input && input->op() == Node::Op::kCallFunction && input->users().size() == 1) {
    const OpDef* op = op_of(*input);
    if (op == nullptr || !op->roles.shares_qparams) return true;
    input = input->arg(0).node();
  }
  return false;
}

}  // namespace

void OnnxNames::add(const std::string& name) { list.push_back(name); }
void OnnxNames::add(const char* name) { list.emplace_back(name); }
void OnnxNames::add(const std::vector<std::string>& names) { list.insert(list.end(), names.begin(), names.end()); }

void OnnxAttributes::add(const char* name, int64_t value) {
  list.emplace_back(attribute_of(name, OnnxKind::kInt)).i = value;
}
void OnnxAttributes::add(const char* name, double value) {
  list.emplace_back(attribute_of(name, OnnxKind::kFloat)).f = static_cast<float>(value);
}
void OnnxAttributes::add(const char* name, const char* value) {
  list.emplace_back(attribute_of(name, OnnxKind::kString)).s = value;
}
void OnnxAttributes::add(const char* name, const std::vector<int64_t>& value) {
  list.emplace_back(attribute_of(name, OnnxKind::kInts)).ints = value;
}
void OnnxAttributes::add(const char* name, const Tensor& value) {
  list.emplace_back(attribute_of(name, OnnxKind::kTensor)).t = value;
}

std::string OnnxExport::fresh(const std::string& name) {
  const auto [at, is_new] = taken_.try_emplace(name, 0);
  if (is_new) return name;
  std::string out;
  do out = concat(name, "_", ++at->second);
  while (!taken_.try_emplace(out, 0).second);
  return out;
}

std::string OnnxExport::constant(const Tensor& tensor, const std::string& name) {
  std::string out = fresh(name);
  file_.initializers.emplace_back(out, tensor);
  return out;
}

std::string OnnxExport::scalar(double value, DType dtype) {
  if (std::isnan(value)) return constant(Tensor::full({}, dtype, value), "nan");
  const auto [known, is_new] = scalars_.try_emplace({dtype, value});
  if (is_new) known->second = constant(Tensor::full({}, dtype, value), "scalar");
  return known->second;
}

std::string OnnxExport::value(const Node* node) {
  const auto found = values_.find(node);
  if (found != values_.end()) return found->second;
  if (node->op() != Node::Op::kGetAttr)
    throw Error(ErrorCode::kUnsupported, concat("a list of results, ", node->name(), ", is used as a whole"),
                node->name(), node->target());
  return values_[node] = constant(program_.attribute_of(*node), node->target());
}

void OnnxExport::emit_many(const char* op, const OnnxNames& inputs, const OnnxAttributes& attributes,
                           std::vector<std::string> outputs) {
  format::OnnxNode& node = file_.nodes.emplace_back();
  node.name = outputs[0];
  node.op_type = op;
  node.inputs = inputs.list;
  while (!node.inputs.empty() && node.inputs.back().empty()) node.inputs.pop_back();
  node.outputs = std::move(outputs);
  node.attributes = attributes.list;
  if (written_ && !is_a(*written_, Family::kQuantize) && !is_a(*written_, Family::kDequantize) &&
      !is_a(*written_, Family::kChooseQParams))
    node.metadata = metadata_of(written_->meta.nn_module_stack);
}

std::string OnnxExport::emit(const char* op, const OnnxNames& inputs, const OnnxAttributes& attributes,
                             std::string output) {
  emit_many(op, inputs, attributes, {output});
  return output;
}

void OnnxExport::write_input(const Node& node) {
  format::OnnxValueInfo info = info_of(fresh(node.name()), node.meta.val);
  QDQ_CHECK(info.dtype, kUnsupported, "the input ", node.name(), " is no tensor, and ONNX has no others");
  values_[&node] = info.name;
  file_.inputs.push_back(std::move(info));
}

// Outputs go by the names that qdq run gives them.
void OnnxExport::write_outputs() {
  const Argument::List& results = program_.graph->output_node()->arg(0).list();
  for (size_t i = 0; i < results.size(); ++i) {
    QDQ_CHECK(results[i].is_node(), kUnsupported, "output ", i, " of the program is no tensor, and ONNX has no others");
    const std::string name = emit("Identity", value(results[i].node()), {}, fresh(concat("output_", i)));
    file_.outputs.push_back(info_of(name, results[i].node()->meta.val));
  }
}

// Leaves out what nobody reads: a weight that is written transposed is not written as it was.
void OnnxExport::eliminate_dead_code() {
  std::unordered_set<std::string> read;
  for (const format::OnnxValueInfo& output : file_.outputs) read.insert(output.name);
  std::vector<format::OnnxNode> alive;
  for (auto node = file_.nodes.rbegin(); node != file_.nodes.rend(); ++node) {
    if (std::none_of(node->outputs.begin(), node->outputs.end(),
                     [&](const std::string& output) { return read.contains(output); }))
      continue;
    read.insert(node->inputs.begin(), node->inputs.end());
    alive.push_back(std::move(*node));
  }
  std::reverse(alive.begin(), alive.end());
  file_.nodes = std::move(alive);
  std::erase_if(file_.initializers, [&](const auto& initializer) { return !read.contains(initializer.first); });
}

format::OnnxFile OnnxExport::run() {
  file_.ir_version = kIrVersion;
  file_.producer_name = "qdq";
  file_.producer_version = "0.1.0";
  file_.name = "main";
  file_.opsets = {{"", kOpset}};
  QDQ_CHECK(program_.buffer_mutations.empty(), kUnsupported, "the program writes to its buffer ",
            program_.buffer_mutations[0].buffer, ", which an ONNX model cannot");
  std::map<std::string, std::vector<std::string>> refusals;  // operator or reason -> nodes
  for (const Node* node : program_.graph->nodes()) {
    if (node->op() == Node::Op::kPlaceholder) write_input(*node);
    if (node->op() == Node::Op::kCallModule)
      fail(ErrorCode::kUnsupported, "the program calls the module '", node->target(), "'; convert the program first");
    if (node->op() != Node::Op::kCallFunction) continue;
    const OpDef* op = find_op(node->target());
    written_ = node;
    try {
      if (op == nullptr) throw Error(ErrorCode::kUnsupported, "");
      AtenCall call(*this, *node, *op);
      const std::string name = call.name();
      const AtenExporter* exporter = find_layer_exporter(name);
      if (exporter == nullptr) exporter = find_aten_exporter(name);
      const OnnxOperator* plain = exporter ? nullptr : find_onnx_operator_of(name);
      if (!exporter && !plain) throw Error(ErrorCode::kUnsupported, "");
      if (op->schema.arguments[0].is_mutated && !writes_alone(node->arg(0).node()))
        call.refuse("writes to a value that others read; export the model without in-place operators");
      if (exporter) {
        exporter->write(call);
        continue;
      }
      std::vector<std::string> inputs;
      for (size_t i = 0; i < op->schema.arguments.size() && !call.is_none(i) && call.arg(i).is_node(); ++i)
        inputs.push_back(call.tensor(i));
      call.finish(std::string(plain->name).c_str(), inputs);
    } catch (const Error& error) {
      if (error.code != ErrorCode::kUnsupported) throw;
      refusals[error.message.empty() ? node->target() : error.message].push_back(node->name());
      values_[node] = node->name();  // so that the others can be looked at
    }
  }
  written_ = nullptr;
  if (refusals.empty()) {
    write_outputs();
    eliminate_dead_code();
    return std::move(file_);
  }
  std::string list;
  for (const auto& [reason, nodes] : refusals) {
    list += concat(list.empty() ? "" : "; ", reason);
    if (reason.starts_with("torch.ops.") || reason.starts_with("operator."))
      list += concat(nodes.size() == 1 ? " (node " : " (nodes ", nodes[0],
                     nodes.size() == 1 ? ")" : concat(" and ", nodes.size() - 1, " more)"));
  }
  throw Error(ErrorCode::kUnsupported,
              concat("the program cannot be written as an ONNX model: qdq has no ONNX form for ", list),
              refusals.begin()->second[0]);
}

std::string AtenCall::name() const { return std::string(local_name(plain_form(op_).target)); }

const Argument& AtenCall::arg(size_t i) const { return argument_of(node_, i); }

int64_t AtenCall::integer(size_t i) const {
  const auto value = arg(i).integer();
  if (!value) refuse("has an argument '", op_.schema.arguments[i].name, "' that is known only when it runs");
  return *value;
}

double AtenCall::number(size_t i) const {
  const auto value = arg(i).number();
  if (!value) refuse("has an argument '", op_.schema.arguments[i].name, "' that is known only when it runs");
  return *value;
}

std::vector<int64_t> AtenCall::integers(size_t i, size_t count) const {
  std::vector<int64_t> out;
  if (arg(i).is_list()) {
    for (const Argument& element : arg(i).list()) {
      if (!element.integer())
        refuse("has an argument '", op_.schema.arguments[i].name, "' that is known only when it runs");
      out.push_back(*element.integer());
    }
  } else {
    out.push_back(integer(i));
  }
  if (out.size() == 1 && count > 1) out.assign(count, int64_t{out[0]});
  return out;
}

const TensorMeta& AtenCall::meta_of(const Node* node) const {
  const TensorMeta* meta = node ? node->meta.val.tensor() : nullptr;
  if (meta == nullptr) refuse("has an argument or a result that is no tensor");
  return *meta;
}
const TensorMeta& AtenCall::meta(size_t i) const { return meta_of(arg(i).node()); }

int64_t AtenCall::axis(size_t i, size_t rank) const {
  return wrap_axis(integer(i), std::max<int64_t>(1, static_cast<int64_t>(rank)));
}

std::vector<int64_t> AtenCall::axes(size_t i, size_t rank) const {
  std::vector<int64_t> out;
  if (!is_none(i)) out = integers(i);
  for (int64_t& a : out) a = wrap_axis(a, static_cast<int64_t>(rank));
  if (out.empty())
    for (size_t a = 0; a < rank; ++a) out.push_back(static_cast<int64_t>(a));
  return out;
}

std::string AtenCall::tensor(size_t i) {
  const Node* node = arg(i).node();
  if (node == nullptr) refuse("lacks the tensor '", op_.schema.arguments[i].name, "'");
  return file_.value(node);
}

std::string AtenCall::operand(const Argument& argument, DType dtype) {
  if (!argument.is_node()) {
    if (!argument.number()) refuse("has an operand that is no tensor and no number");
    return scalar(*argument.number(), dtype);
  }
  const TensorMeta* meta = argument.node()->meta.val.tensor();
  const DType own = meta ? meta->dtype : DType::kS64;  // a size
  const std::string value = file_.value(argument.node());
  return own == dtype ? value : emit("Cast", {value}, {"to", format::onnx_number(dtype)});
}

std::string AtenCall::integers_as_tensor(const std::vector<int64_t>& values) {
  return file_.constant(Tensor::of<int64_t>({static_cast<int64_t>(values.size())}, std::span<const int64_t>(values)),
                        node_.name() + "_constant");
}

std::string AtenCall::sizes(size_t i, bool infers) {
  const Argument::List& list = arg(i).list();
  const auto open = std::count_if(list.begin(), list.end(), [](const Argument& size) { return size.is_node(); });
  const bool has_minus =
      std::any_of(list.begin(), list.end(), [](const Argument& size) { return size.integer() == -1; });
  if (open == 0 || (infers && open == 1 && !has_minus)) {
    std::vector<int64_t> known;
    for (const Argument& size : list) known.push_back(size.is_node() ? -1 : *size.integer());
    return integers_as_tensor(known);
  }
  std::vector<std::string> parts;
  for (const Argument& size : list)
    parts.push_back(size.is_node() ? emit("Reshape", {file_.value(size.node()), integers_as_tensor({1})})
                                   : integers_as_tensor({*size.integer()}));
  return emit("Concat", parts, {"axis", 0});
}

DType AtenCall::common_dtype(size_t i, size_t j) const {
  const auto kind = [&](size_t k) -> OperandKind {
    const Argument& argument = arg(k);
    if (const Node* node = argument.node()) {
      const TensorMeta* meta = node->meta.val.tensor();
      return meta ? OperandKind{meta->dtype, meta->sizes.empty() ? 1 : 2} : OperandKind{DType::kS64, 0};
    }
    return {argument.is<double>() ? DType::kF32 : argument.is<bool>() ? DType::kBool : DType::kS64, 0};
  };
  return result_dtype({kind(i), kind(j)});
}

std::string AtenCall::emit(const char* op, const OnnxNames& inputs, const OnnxAttributes& attributes) {
  return file_.emit(op, inputs, attributes, file_.fresh(node_.name() + "_part"));
}
void AtenCall::finish(const char* op, const OnnxNames& inputs, const OnnxAttributes& attributes) {
  file_.set(&node_, file_.emit(op, inputs, attributes, file_.fresh(node_.name())));
}
void AtenCall::refuse_because(std::initializer_list<MessagePart> parts) const {
  throw Error(ErrorCode::kUnsupported, concat(node_.name(), " ", concat(parts)), node_.name(), node_.target());
}

std::vector<std::byte> save_onnx(const Program& program) {
  Program complete = program.clone();
  complete.graph->eliminate_dead_code();
  infer_shapes(complete);
  return format::write_onnx_file(OnnxExport(complete).run());
}

}  // namespace qdq
