// Writes a Program as an ONNX model; what each operator becomes stands in write_*.cpp.
#include <algorithm>
#include <map>
#include <span>
#include <unordered_set>
#include <utility>

#include "io/onnx.h"
#include "io/onnx/dedicated_pairs.h"
#include "io/onnx/export.h"
#include "io/onnx/float16.h"
#include "io/onnx/import.h"
#include "io/onnx/unsigned_activations.h"
#include "io/onnx/widen.h"
#include "io/onnx/write_qoperators.h"
#include "io/onnx/zero_pads.h"
#include "op/facts.h"
#include "op/infer.h"
#include "op/targets.h"

namespace qdq {

namespace {

constexpr std::pair<std::string_view, OnnxGroups> kGroups[] = {
    {"", OnnxGroups::kDefault}, {"matmul-nbits", OnnxGroups::kMatMulNBits}, {"blocks", OnnxGroups::kBlocks}};

constexpr std::pair<std::string_view, OnnxFormat> kFormats[] = {{"qdq", OnnxFormat::kQdq},
                                                                {"qoperator", OnnxFormat::kQOperator}};

constexpr const char* kNoState =
    ", which an ONNX model cannot do; let the model take the buffer as an input and return its new value";

// The first version of the file that may have the opset, and int4.
int64_t ir_version_of(int64_t opset, bool has_four_bits) {
  return opset >= 21 || has_four_bits ? 10 : opset >= 19 ? 9 : 8;
}

// A number that a program returns, as qdq run gives it.
std::optional<Tensor> tensor_of_number(const Argument& result) {
  if (result.is<bool>()) return Tensor::full({}, DType::kBool, result.as<bool>() ? 1 : 0);
  if (result.is<int64_t>()) return Tensor::scalar(result.as<int64_t>());
  if (result.is<double>()) return Tensor::full({}, DType::kF64, result.as<double>());
  return std::nullopt;
}

bool has_complex_numbers(const Node& node) {
  const auto is_of_complex = [](const Node* value) {
    const TensorMeta* meta = value->meta.val.tensor();
    return meta && is_complex(meta->dtype);
  };
  const std::vector<Node*> inputs = node.input_nodes();
  return is_of_complex(&node) || std::any_of(inputs.begin(), inputs.end(), is_of_complex);
}

}  // namespace

OnnxGroups onnx_groups_of(std::string_view word) {
  for (const auto& [known, groups] : kGroups)
    if (known == word) return groups;
  fail(ErrorCode::kInvalidArgument, "the form of weights in groups is ", word, ", wanted matmul-nbits or blocks");
}
std::string_view to_string(OnnxGroups groups) {
  return std::find_if(std::begin(kGroups), std::end(kGroups), [=](const auto& each) { return each.second == groups; })
      ->first;
}

OnnxFormat onnx_format_of(std::string_view word) {
  for (const auto& [known, format] : kFormats)
    if (known == word) return format;
  fail(ErrorCode::kInvalidArgument, "the format of quantized operators is ", word, ", wanted qdq or qoperator");
}

void OnnxExport::write_call(const Node& node) {
  const OpDef* op = find_op(node.target());
  if (!node.meta.extra_of(kOnnxVersion).empty()) return write_unknown(node);
  if (op == nullptr) throw Error(ErrorCode::kUnsupported, "");
  AtenCall call(*this, node, *op);
  const std::string name = call.name();
  const bool is_complex = has_complex_numbers(node);
  const AtenExporter* exporter = is_complex ? find_complex_exporter(name) : find_aten_exporter(name);
  if (is_complex && !exporter) throw Error(ErrorCode::kUnsupported, concat(node.target(), " of complex numbers"));
  const OnnxOperator* plain = exporter ? nullptr : find_onnx_operator_of(name);
  if (!exporter && !plain) throw Error(ErrorCode::kUnsupported, "");
  if (op->schema->arguments[0].is_mutated &&
      (program_ == file_->prepared ? file_->refused.count(&node) != 0 : !writes_alone(node.arg(0).node()))) {
    const Node* written = node.arg(0).node();
    while (written && written->op() == Node::Op::kCallFunction && is_view(*written)) written = written->arg(0).node();
    if (written && written->op() == Node::Op::kGetAttr)
      call.refuse("writes to the buffer ", written->target(), kNoState);
    if (written && written->op() == Node::Op::kPlaceholder)
      call.refuse("writes to the input ", written->name(), "; let the model write to a clone of it");
    call.refuse("writes to a value that others read; export the model without in-place operators");
  }
  if (exporter) return exporter->write(call);
  static constexpr std::string_view kLogical[] = {"And", "Or", "Xor", "Not"};
  const bool is_logical = std::find(std::begin(kLogical), std::end(kLogical), plain->name) != std::end(kLogical);
  std::vector<std::string> inputs;
  for (size_t i = 0; i < op->schema->arguments.size() && !call.is_none(i) && call.arg(i).is_node(); ++i)
    inputs.push_back(is_logical ? call.operand(i, DType::kBool) : call.tensor(i));
  // PyTorch takes such a function of integers in floats.
  const TensorMeta* result = node.meta.val.tensor();
  if (inputs.size() == 1 && result && is_floating(result->dtype) && is_integral(call.meta(0).dtype))
    inputs = {call.operand(0, result->dtype)};
  call.finish(std::string(plain->name), inputs);
}

std::vector<std::string> OnnxExport::write(const Program& program, const std::vector<std::string>& inputs) {
  const Program* const around = program_;
  const Node* const node_around = written_;
  program_ = &program;
  keep_names(program);
  size_t next_input = 0;
  for (const Node* node : program.graph->nodes()) {
    if (node->op() == Node::Op::kPlaceholder) {
      QDQ_CHECK(next_input < inputs.size(), kInvalidArgument,
                "a program within the program takes more inputs than the ", inputs.size(), " that it gets");
      values_[node] = inputs[next_input++];
    }
    if (node->op() == Node::Op::kCallModule)
      fail(ErrorCode::kUnsupported, "the program calls the module '", node->target(), "'; convert the program first");
    if (node->op() != Node::Op::kCallFunction) continue;
    written_ = node;
    try {
      const size_t written_before = graph_.nodes.size();
      write_call(*node);
      const std::span made = std::span(graph_.nodes).subspan(written_before);
      if (!take_floats_of(made, *node)) file_->narrow.insert(node);
    } catch (const Error& error) {
      if (error.code != ErrorCode::kUnsupported) throw;
      file_->refusals[error.message.empty() ? node->target() : error.message].push_back(node->name());
      values_[node] = node->name();  // so that the others can be looked at
    }
  }
  written_ = nullptr;
  std::vector<std::string> out;
  const Argument::List& results = program.graph->output_node()->arg(0).list();
  for (size_t i = 0; i < results.size(); ++i) {
    const std::optional<Tensor> number = tensor_of_number(results[i]);
    QDQ_CHECK(results[i].is_node() || results[i].is_none() || number, kUnsupported, "output ", i, " of the program is ",
              to_text(results[i]),
              ", neither a tensor nor a number, and ONNX has no others; write a .pt2, or export the model without this "
              "output");
    if (number) out.push_back(constant(*number, "number"));
    else if (results[i].is_none()) out.emplace_back();
    else if (file_->refusals.empty()) out.push_back(value(results[i].node()));
    else out.emplace_back();
  }
  written_ = node_around;
  program_ = around;
  return out;
}

namespace {

// Reports all that cannot be written at once: what has no form, then clauses about nodes, which begin with their names.
[[noreturn]] void fail_for(const std::map<std::string, std::vector<std::string>>& refusals) {
  std::string without_form, clauses;
  for (const auto& [reason, nodes] : refusals) {
    if (reason.starts_with(nodes[0] + " ")) {
      clauses += concat("; ", reason);
      continue;
    }
    without_form += concat(without_form.empty() ? "; qdq has no ONNX form for " : ", ", reason);
    if (!space_of(reason).empty() || reason.starts_with("operator."))
      without_form += concat(nodes.size() == 1 ? " (node " : " (nodes ", nodes[0],
                             nodes.size() == 1 ? ")" : concat(" and ", nodes.size() - 1, " more)"));
  }
  throw Error(ErrorCode::kUnsupported,
              concat("the program cannot be written as an ONNX model: ", (without_form + clauses).substr(2),
                     "; write a .pt2, or export the model without what is named"),
              refusals.begin()->second[0]);
}

// What the file that was read said of itself, its inputs and its outputs.
void copy_notes(const Program& program, format::OnnxFile& out) {
  out.metadata = program.metadata;
  out.domain = program.notes.domain;
  out.model_version = program.notes.model_version;
  out.model_doc_string = program.notes.doc_string;
  for (auto* values : {&out.inputs, &out.outputs})
    for (format::OnnxValueInfo& value : *values)
      if (const auto found = program.notes.value_doc_strings.find(value.name);
          found != program.notes.value_doc_strings.end())
        value.doc_string = found->second;
}

}  // namespace

format::OnnxFile OnnxExport::run(const Program& program) {
  QDQ_CHECK(program.buffer_mutations.empty(), kUnsupported, "the program writes to its buffer ",
            program.buffer_mutations[0].buffer, kNoState);
  file_->prepared = &program;
  file_->symbols = program.symbol_names;
  graph_.name = program.notes.graph_name.empty() ? "main" : program.notes.graph_name;
  graph_.doc_string = program.notes.graph_doc_string;
  std::vector<std::string> inputs, names;
  for (const Node* node : program.graph->placeholders()) {
    const std::string& name = node->meta.extra_of(kOnnxValue);
    graph_.inputs.push_back(info_of(fresh(name.empty() ? node->name() : name), node->meta.val, false));
    QDQ_CHECK(graph_.inputs.back().dtype, kUnsupported, "the input ", node->name(),
              " is not a tensor, and ONNX has no others; export the model with tensors as inputs");
    inputs.push_back(graph_.inputs.back().name);
  }
  // Outputs go by the names that the file gave them, or those that qdq run gives them, which leaves out None.
  const Argument::List& results = program.graph->output_node()->arg(0).list();
  int64_t given = 0;
  for (size_t i = 0; i < results.size(); ++i) {
    const bool has_name = program.output_names.size() == results.size();
    if (results[i].is_none()) names.emplace_back();
    else names.push_back(fresh(has_name ? program.output_names[i] : concat("output_", given++)));
    const Node* node = results[i].node();
    if (node && node->op() == Node::Op::kCallFunction) names_.try_emplace(node, names[i]);
  }
  const std::vector<std::string> values = write(program, inputs);
  if (!file_->refusals.empty()) fail_for(file_->refusals);
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i].is_none()) continue;
    if (values[i] != names[i]) emit("Identity", values[i], {}, names[i]);
    ValueMeta meta;
    if (const auto number = tensor_of_number(results[i])) meta.value = qdq::meta_of(*number);
    else meta = results[i].node()->meta.val;
    graph_.outputs.push_back(info_of(names[i], meta, false));
    QDQ_CHECK(graph_.outputs.back().dtype, kUnsupported, "the output ", names[i],
              " has an unknown data type, and an ONNX model must name it");
  }
  eliminate_dead_code();
  if (options().format == OnnxFormat::kQOperator) {
    QDQ_CHECK(use_qoperators(graph_) > 0, kInvalidArgument,
              "the model should have operators of integers (qoperator), but none has quantized inputs and a quantized "
              "result of known ranges, or is a product of matrices with such inputs; quantize it with samples, by a "
              "recipe that quantizes results, or leave the format out");
    file_->domains.try_emplace("com.microsoft", 1);
    eliminate_dead_code();
  }
  format::OnnxFile out;
  static_cast<format::OnnxGraph&>(out) = std::move(graph_);
  out.ir_version = ir_version_of(opset(), file_->has_four_bits);
  out.producer_name = "qdq";
  out.producer_version = "0.1.0";
  out.opsets = {{"", opset()}};
  for (const auto& [domain, version] : file_->domains) out.opsets.emplace_back(domain, version);
  copy_notes(program, out);
  return out;
}

bool has_onnx_form(const Node& node) {
  const OpDef* op = find_op(node.target());
  if (op == nullptr || !node.meta.extra_of(kOnnxVersion).empty()) return true;  // written as it was
  const std::string_view name = local_name(plain_form(*op).target);
  return has_complex_numbers(node) || find_aten_exporter(name) || find_onnx_operator_of(name);
}

void infer_anew(Node& node) {
  const ValueMeta before = node.meta.val;
  const std::vector<Node*> inputs = node.input_nodes();
  // Behind an operator that qdq does not have nothing follows from the inputs.
  if (std::any_of(inputs.begin(), inputs.end(), [](const Node* n) { return n->meta.val.value.index() == 0; })) return;
  infer_value(node);
  if (node.meta.val.value.index() == 0) node.meta.val = before;
  auto* found = std::get_if<TensorMeta>(&node.meta.val.value);
  const TensorMeta* known = before.tensor();
  if (!found || !known || found->sizes.size() != known->sizes.size()) return;
  for (size_t i = 0; i < known->sizes.size(); ++i)
    if (!known->sizes[i].is_constant()) found->sizes[i] = known->sizes[i];
}

namespace {

format::OnnxFile file_of(const Program& program, const OnnxOptions& options) {
  Program complete = program.clone();
  complete.graph->eliminate_dead_code();
  const std::unordered_set<const Node*> refused = prepare_to_write(complete);
  pad_behind_rounding(*complete.graph);
  if (!options.signed_activations) make_activations_unsigned(complete);
  QDQ_CHECK(!options.dedicated_pairs || dedicate_pairs(complete) > 0, kInvalidArgument,
            "each reader should get its own QuantizeLinear and DequantizeLinear, but no activation of the model is "
            "quantized with a known range; quantize the model with samples first, or leave the option out");
  const std::optional<int64_t> level = options.accuracy_level;
  QDQ_CHECK(!level || (*level >= 0 && *level <= 4), kInvalidArgument, "the accuracy level of MatMulNBits is ", *level,
            ", wanted 0 to 4");
  for (Node* node : complete.graph->nodes()) {
    if (node->op() == Node::Op::kGetAttr) node->meta.val.value = meta_of(complete.attribute_of(*node));
    if (node->op() == Node::Op::kCallFunction && find_op(node->target()) != nullptr) infer_anew(*node);
  }
  if (options.float16) make_floats_half(complete);
  bool is_widened = false;
  for (int64_t opset = options.opset.value_or(kFirstWritten);;) {
    OnnxExport exporter(options, opset, refused);
    format::OnnxFile file = exporter.run(complete);
    if (exporter.needed() != opset) {
      opset = exporter.needed();
      continue;
    }
    if (!exporter.narrow().empty() && !std::exchange(is_widened, true)) {
      compute_in_float32(complete, exporter.narrow());
      continue;
    }
    QDQ_CHECK(
        !level || exporter.has_blocks(), kInvalidArgument,
        "an accuracy level is for linear layers of 4-bit weights in groups (MatMulNBits), but the model has none; "
        "quantize it with 4 bits and a group size first, or leave the level out");
    QDQ_CHECK(options.groups == OnnxGroups::kDefault || exporter.has_groups(), kInvalidArgument,
              "linear layers with weights in groups should be written as ", to_string(options.groups),
              ", but the model has none; quantize it with a group size first, or leave the option out");
    return file;
  }
}

}  // namespace

format::Parts save_onnx_parts(const Program& program, const OnnxOptions& options, const std::string& data_name,
                              format::Parts& data) {
  const format::OnnxFile file = file_of(program, options);
  const bool is_beside = options.external_data || !format::fits_in_one_file(file);
  return format::onnx_file_parts(file, data_name, is_beside ? &data : nullptr);
}

std::vector<std::byte> save_onnx(const Program& program, const OnnxOptions& options) {
  QDQ_CHECK(!options.external_data, kInvalidArgument, "external data of an ONNX model needs a file of its own");
  return format::write_onnx_file(file_of(program, options));
}

}  // namespace qdq
