// The graph that is being written: its values, constants, nodes and their names.
#include "io/onnx/export.h"

#include <algorithm>
#include <cctype>
#include <cmath>

#include "io/onnx/import.h"
#include "op/facts.h"
#include "op/targets.h"
#include "tensor/complex.h"

namespace qdq {

using format::OnnxAttribute;
using format::OnnxKind;

namespace {

// Operators that came after the first opset that is written.
constexpr std::pair<std::string_view, int64_t> kNewOperators[] = {
    {"BitwiseAnd", 18}, {"BitwiseNot", 18},     {"BitwiseOr", 18},    {"BitwiseXor", 18}, {"Col2Im", 18},
    {"Mish", 18},       {"RegexFullMatch", 20}, {"StringConcat", 20}, {"StringSplit", 20}};

OnnxAttribute attribute_of(std::string name, OnnxKind kind) {
  OnnxAttribute out;
  out.name = std::move(name);
  out.kind = kind;
  return out;
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
void OnnxAttributes::add(const char* name, const std::vector<float>& value) {
  list.emplace_back(attribute_of(name, OnnxKind::kFloats)).floats = value;
}
void OnnxAttributes::add(const char* name, const std::vector<std::string>& value) {
  list.emplace_back(attribute_of(name, OnnxKind::kStrings)).strings = value;
}
void OnnxAttributes::add(const char* name, const Tensor& value) {
  list.emplace_back(attribute_of(name, OnnxKind::kTensor)).t = value;
}

void OnnxAttributes::add(const char* name, std::shared_ptr<const format::OnnxGraph> value) {
  list.emplace_back(attribute_of(name, OnnxKind::kGraph)).graphs = {std::move(value)};
}

OnnxExport::OnnxExport(const OnnxOptions& options, int64_t opset, std::unordered_set<const Node*> refused)
    : file_(std::make_shared<File>()) {
  QDQ_CHECK(opset >= kFirstWritten && opset <= kLastWritten, kInvalidArgument, "ONNX models are written in opset ",
            kFirstWritten, " to ", kLastWritten, ", found ", opset);
  file_->options = options;
  file_->refused = std::move(refused);
  file_->opset = file_->needed = opset;
}
OnnxExport::OnnxExport(OnnxExport& around) : file_(around.file_), written_(around.written_) {
  graph_.name = fresh("graph");
}

bool OnnxExport::reaches(int64_t version) {
  if (opset() >= version) return true;
  if (options().opset || version > kLastWritten) return false;
  file_->needed = std::max(file_->needed, version);
  return true;
}

std::string OnnxExport::unique(std::map<std::string, int64_t>& taken, const std::string& name) {
  const auto [at, is_new] = taken.try_emplace(name, 0);
  if (is_new) return name;
  std::string out;
  do out = concat(name, "_", ++at->second);
  while (!taken.try_emplace(out, 0).second);
  return out;
}
std::string OnnxExport::fresh(const std::string& name) { return unique(file_->taken, name); }

std::string OnnxExport::name_of(const Node* node) {
  auto kept = names_.extract(node);
  return kept.empty() ? fresh(node->name()) : std::move(kept.mapped());
}

std::string OnnxExport::constant(const Tensor& tensor, const std::string& name) {
  std::vector<size_t>& known = constants_[name];
  for (const size_t i : known)
    if (bitwise_equal(graph_.initializers[i].second, tensor)) return graph_.initializers[i].first;
  std::string out = fresh(name);
  known.push_back(graph_.initializers.size());
  graph_.initializers.emplace_back(out, tensor);
  return out;
}

std::string OnnxExport::four_bit_constant(const Tensor& tensor, const std::string& name) {
  std::string out = constant(tensor, name);
  std::vector<std::string>& all = graph_.four_bit_tensors;
  if (std::find(all.begin(), all.end(), out) == all.end()) all.push_back(out);
  file_->has_four_bits = true;
  return out;
}

std::string OnnxExport::scalar(double value, DType dtype) {
  if (std::isnan(value)) return constant(Tensor::full({}, dtype, value), "nan");
  const auto [known, is_new] = scalars_.try_emplace({dtype, value});
  if (is_new) known->second = constant(Tensor::full({}, dtype, value), "scalar");
  return known->second;
}

std::string OnnxExport::scalar(const Argument& number, DType dtype) {
  constexpr int64_t kExact = int64_t{1} << 53;  // the integers that a double has
  const int64_t whole = number.is<int64_t>() ? number.as<int64_t>() : 0;
  if (whole >= -kExact && whole <= kExact) return scalar(*number.number(), dtype);
  return constant(Tensor::scalar(whole).to(dtype), "scalar");
}

std::string OnnxExport::value(const Node* node) {
  const auto found = values_.find(node);
  if (found != values_.end()) return found->second;
  if (node->op() != Node::Op::kGetAttr)
    throw Error(ErrorCode::kUnsupported, concat("a list of results, ", node->name(), ", is used as a whole"),
                node->name(), node->target());
  const auto kept = names_.find(node);
  const std::string name = kept == names_.end() ? fresh(node->target()) : kept->second;
  const Tensor& tensor = program().attribute_of(*node);
  graph_.initializers.emplace_back(name, is_complex(tensor.dtype()) ? view_as_real(tensor) : tensor);
  return values_[node] = name;
}

const std::string& OnnxExport::item(const Node* node, size_t i) const {
  const auto found = items_.find(node);
  const auto refused = values_.find(node);  // so that the others can be looked at
  if (found == items_.end() && refused != values_.end() && !file_->refusals.empty()) return refused->second;
  if (found == items_.end() || i >= found->second.size())
    throw Error(ErrorCode::kUnsupported, concat("item ", i, " of ", node->name(), ", which does not give it, is used"),
                node->name(), node->target());
  return found->second[i];
}

std::vector<std::string> OnnxExport::name_items(const Node& node, size_t count) {
  std::vector<std::string> out(count);
  for (const Node* user : node.users()) {
    const auto place = user->is(op::kGetItem) ? user->arg(1).integer() : std::nullopt;
    if (!place || *place < 0 || *place >= static_cast<int64_t>(count) || !names_.contains(user)) continue;
    if (std::string& name = out[static_cast<size_t>(*place)]; name.empty()) name = name_of(user);
  }
  const std::string prefix = fresh(node.name());
  for (size_t i = 0; i < count; ++i)
    if (out[i].empty()) out[i] = fresh(concat(prefix, "/", i));
  return out;
}

void OnnxExport::use_domain(const std::string& domain, int64_t version) {
  const auto [known, is_new] = file_->domains.try_emplace(domain, version);
  if (!is_new && known->second != version)
    throw Error(ErrorCode::kUnsupported, concat("operators of ", domain, " in the versions ", known->second, " and ",
                                                version, ", of which a file can have one"));
}

void OnnxExport::emit_many(const std::string& op, const OnnxNames& inputs, const OnnxAttributes& attributes,
                           std::vector<std::string> outputs, const std::string& name) {
  for (const auto& [known, version] : kNewOperators)
    if (known == op && !reaches(version))
      throw Error(ErrorCode::kUnsupported, concat(op, " before opset ", version, ", found ", opset()));
  format::OnnxNode& node = graph_.nodes.emplace_back();
  node.name = unique(file_->taken_by_nodes, name.empty() ? outputs[0] : name);
  const size_t dot = op.rfind('.');
  node.op_type = dot == std::string::npos ? op : op.substr(dot + 1);
  if (dot != std::string::npos) node.domain = op.substr(0, dot);
  if (!node.domain.empty()) file_->domains.try_emplace(node.domain, 1);
  node.inputs = inputs.list;
  while (!node.inputs.empty() && node.inputs.back().empty()) node.inputs.pop_back();
  node.outputs = std::move(outputs);
  node.attributes = attributes.list;
  if (written_ && !is_a(*written_, Family::kQuantize) && !is_a(*written_, Family::kDequantize) &&
      !is_a(*written_, Family::kChooseQParams))
    node.metadata = metadata_of(written_->meta.nn_module_stack);
}

std::string OnnxExport::emit(const std::string& op, const OnnxNames& inputs, const OnnxAttributes& attributes,
                             std::string output) {
  emit_many(op, inputs, attributes, {output});
  return output;
}

// Sizes that are open in a graph within another are left open: they need not be those of the graph around.
format::OnnxValueInfo OnnxExport::info_of(std::string name, const ValueMeta& value, bool is_inner) {
  format::OnnxValueInfo out;
  out.name = std::move(name);
  if (std::holds_alternative<SymInt>(value.value)) {
    out.dtype = DType::kS64;
    out.dims.emplace();
  }
  const TensorMeta* meta = value.tensor();
  if (meta == nullptr) return out;
  QDQ_CHECK(!is_float8(meta->dtype) || reaches(kFirstWithFloat8), kUnsupported, "ONNX has ", to_string(meta->dtype),
            ", the type of ", out.name, ", from opset ", kFirstWithFloat8, " on, found ", opset());
  QDQ_CHECK(!is_complex(meta->dtype), kUnsupported, "ONNX's operators take pairs instead of complex numbers, and ",
            out.name, " is complex64; let the model take and give view_as_real of it");
  out.dtype = meta->dtype;
  out.dims.emplace();
  for (const SymInt& size : meta->sizes) {
    format::OnnxDimension& dimension = out.dims->emplace_back();
    dimension.value = size.constant();
    if (dimension.value || is_inner) continue;
    // A symbol by the name that the file gave it, in sums and products too.
    const std::string text = size.to_string();
    for (size_t begin = 0, end; begin < text.size(); begin = end) {
      const auto is_letter = [&](size_t i) {
        return std::isalnum(static_cast<unsigned char>(text[i])) || text[i] == '_';
      };
      end = begin + 1;
      while (end < text.size() && is_letter(end) == is_letter(begin)) ++end;
      const std::string part = text.substr(begin, end - begin);
      const auto known = file_->symbols.find(part);
      dimension.param += known == file_->symbols.end() ? part : known->second;
    }
  }
  return out;
}

std::string OnnxExport::add_input(const std::string& name, const ValueMeta& meta) {
  graph_.inputs.push_back(info_of(fresh(name), meta, true));
  return graph_.inputs.back().name;
}

void OnnxExport::add_output(const std::string& value, const ValueMeta& meta) {
  graph_.outputs.push_back(info_of(emit("Identity", value, {}, fresh("result")), meta, true));
}

std::shared_ptr<const format::OnnxGraph> OnnxExport::finish() {
  eliminate_dead_code();
  return std::make_shared<const format::OnnxGraph>(std::move(graph_));
}

// Leaves out what nobody reads: a weight that is written transposed is not written as it was.
void OnnxExport::eliminate_dead_code() {
  std::unordered_set<std::string> read;
  for (const format::OnnxValueInfo& output : graph_.outputs) read.insert(output.name);
  const auto note = [&](const auto& self, const format::OnnxNode& node) -> void {
    read.insert(node.inputs.begin(), node.inputs.end());
    for (const OnnxAttribute& attribute : node.attributes)
      for (const auto& graph : attribute.graphs)
        for (const format::OnnxNode& inner : graph->nodes) self(self, inner);
  };
  std::vector<format::OnnxNode> alive;
  for (auto node = graph_.nodes.rbegin(); node != graph_.nodes.rend(); ++node) {
    if (std::none_of(node->outputs.begin(), node->outputs.end(),
                     [&](const std::string& output) { return read.contains(output); }))
      continue;
    note(note, *node);
    alive.push_back(std::move(*node));
  }
  std::reverse(alive.begin(), alive.end());
  graph_.nodes = std::move(alive);
  std::erase_if(graph_.initializers, [&](const auto& initializer) { return !read.contains(initializer.first); });
}

// Takes the names that values had in the file the program was read from, so that no other value gets them. What is
// quantized by qdq has a name of its own.
void OnnxExport::keep_names(const Program& program) {
  for (const Node* node : program.graph->nodes()) {
    const std::string& name = node->meta.extra_of(kOnnxValue);
    const bool is_wanted = node->op() == Node::Op::kGetAttr || node->op() == Node::Op::kCallFunction;
    if (name.empty() || !is_wanted || names_.contains(node)) continue;
    if (!file_->taken.contains(name)) names_[node] = fresh(name);
  }
}

void OnnxExport::emit_results(const Node& node, const std::string& op, const std::vector<std::string>& inputs,
                              const OnnxAttributes& attributes) {
  const auto* several = std::get_if<std::vector<ValueMeta>>(&node.meta.val.value);
  size_t count = several ? several->size() : 1;
  bool has_items = several != nullptr;
  for (const Node* user : node.users())
    if (user->is(op::kGetItem)) {
      has_items = true;
      count = std::max(count, static_cast<size_t>(user->arg(1).integer().value_or(0)) + 1);
    }
  std::vector<std::string> outputs;
  if (has_items) outputs = name_items(node, count);
  else outputs = {name_of(&node)};
  emit_many(op, inputs, attributes, outputs, node.meta.extra_of(kOnnxNode));
  if (has_items) set_items(&node, outputs);
  else set(&node, outputs[0]);
}

}  // namespace qdq
