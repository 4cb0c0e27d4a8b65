// Writes operators as they were read: those that qdq does not have, and those that are read when they run.
#include <algorithm>

#include "io/onnx/export.h"
#include "io/onnx/import.h"
#include "op/facts.h"

namespace qdq {

using format::OnnxAttribute;
using format::OnnxKind;

namespace {

// Whether an operator means the same in a later opset: whether none of the versions that changed it lies between.
bool is_same_operator(const std::string& op, int64_t from, int64_t to) {
  static constexpr std::pair<std::string_view, int64_t> kChanges[] = {{"BatchNormalization", 14},
                                                                      {"BatchNormalization", 9},
                                                                      {"Clip", 11},
                                                                      {"Dropout", 12},
                                                                      {"GroupNormalization", 21},
                                                                      {"Hardmax", 13},
                                                                      {"LogSoftmax", 13},
                                                                      {"OneHot", 11},
                                                                      {"Pad", 11},
                                                                      {"ReduceL1", 18},
                                                                      {"ReduceL2", 18},
                                                                      {"ReduceLogSum", 18},
                                                                      {"ReduceLogSumExp", 18},
                                                                      {"ReduceMax", 18},
                                                                      {"ReduceMean", 18},
                                                                      {"ReduceMin", 18},
                                                                      {"ReduceProd", 18},
                                                                      {"ReduceSum", 13},
                                                                      {"ReduceSumSquare", 18},
                                                                      {"Resize", 11},
                                                                      {"Scan", 9},
                                                                      {"Slice", 10},
                                                                      {"Softmax", 13},
                                                                      {"Split", 13},
                                                                      {"Split", 18},
                                                                      {"Squeeze", 13},
                                                                      {"TopK", 10},
                                                                      {"Unsqueeze", 13},
                                                                      {"Upsample", 10}};
  if (from < 7 || from > 21) return from == to;
  for (const auto& [name, version] : kChanges)
    if (name == op && (from < version) != (to < version)) return false;
  return true;
}

// A list of numbers or texts.
OnnxAttribute list_attribute(const std::string& name, const Argument::List& values) {
  OnnxAttribute out;
  out.name = name;
  out.kind = OnnxKind::kInts;
  for (const Argument& value : values) {
    if (value.is<std::string>()) {
      out.kind = OnnxKind::kStrings;
      out.strings.push_back(value.as<std::string>());
    } else if (value.is<double>()) {
      out.kind = OnnxKind::kFloats;
      out.floats.push_back(static_cast<float>(value.as<double>()));
    } else {
      out.ints.push_back(value.integer().value_or(0));
    }
  }
  return out;
}

// What a node of the file was.
struct Read {
  std::string op;
  int64_t opset = 0;
  std::vector<Argument> inputs;
  Node::Kwargs attributes;
};

// Inputs are arguments in order and attributes keywords; or lists of inputs and of names and values of attributes.
Read read_of(const Node& node) {
  const std::string& version = node.meta.extra_of(kOnnxVersion);
  if (space_of(node.target()).empty() || version.empty()) throw Error(ErrorCode::kUnsupported, "");
  const std::string_view name = local_name(node.target());
  Read out{std::string(name.substr(0, name.rfind('.'))), std::stoll(version), node.args(), node.kwargs()};
  const bool is_deferred = node.args().size() == 3 && node.arg(0).is_list() && node.arg(1).is_list();
  if (is_deferred) {
    out.inputs = node.arg(0).list();
    const Argument::List& pairs = node.arg(1).list();
    for (size_t i = 0; i + 1 < pairs.size(); i += 2)
      out.attributes.emplace_back(pairs[i].as<std::string>(), pairs[i + 1]);
  }
  for (const auto& [key, argument] : out.attributes)
    if (argument == Argument(std::string(kLostGraph)))
      throw Error(ErrorCode::kUnsupported, concat(out.op, " with a graph as its ", key, " (node ", node.name(), ")"));
  return out;
}

// Whether the attribute became an input by this opset: axes and sizes of parts.
bool is_input_by(int64_t opset, const Read& read, const std::string& key, const Argument& argument) {
  const bool is_reduction = read.op.starts_with("Reduce");
  const int64_t since = is_reduction && read.op != "ReduceSum" ? 18 : 13;
  const bool is_moved = key == "axes" ? read.op == "Squeeze" || read.op == "Unsqueeze" || is_reduction
                                      : key == "split" && read.op == "Split";
  return is_moved && argument.is_list() && read.opset < since && since <= opset;
}

// Whether Resize finds its places as it does in opsets 11 and 12 alone.
bool has_former_places(const Read& read) {
  return read.op == "Resize" && read.opset < 13 &&
         std::any_of(
             read.attributes.begin(), read.attributes.end(),
             [](const auto& attribute) { return attribute.second == Argument(std::string("tf_half_pixel_for_nn")); });
}

// Upsample, which went with opset 10, is the Resize that counts from corners.
void write_upsample(OnnxExport& file, const Node& node, const Read& read) {
  std::string mode = "nearest", scales;
  for (const auto& [key, argument] : read.attributes) {
    if (key == "mode") mode = argument.as<std::string>();
    if (key != "scales") continue;
    const std::vector<float> numbers = list_attribute(key, argument.list()).floats;
    scales = file.constant(Tensor::of<float>({static_cast<int64_t>(numbers.size())}, std::span(numbers)),
                           node.name() + "_scales");
  }
  if (scales.empty() && read.inputs.size() > 1) scales = file.value(read.inputs[1].node());
  file.emit_results(node, "Resize", {file.value(read.inputs[0].node()), "", scales},
                    {"mode", mode.c_str(), "coordinate_transformation_mode", "asymmetric", "nearest_mode", "floor"});
}

}  // namespace

void OnnxExport::write_unknown(const Node& node) {
  const std::string& domain = node.meta.extra_of(kOnnxDomain);
  const Read read = read_of(node);
  if (domain.empty() && read.op == "Upsample" && read.opset < 10) return write_upsample(*this, node, read);
  const auto moved = [&](const auto& kwarg) {
    return domain.empty() && is_input_by(opset(), read, kwarg.first, kwarg.second);
  };
  if (!domain.empty()) {
    use_domain(domain, read.opset);
  } else if (std::none_of(read.attributes.begin(), read.attributes.end(), moved) &&
             (has_former_places(read) ||
              !(read.opset > opset() ? reaches(read.opset) : is_same_operator(read.op, read.opset, opset())))) {
    throw Error(ErrorCode::kUnsupported,
                concat(read.op, " of opset ", read.opset, ", which is another operator in opset ", opset(), " (node ",
                       node.name(), ")"));
  }
  std::vector<std::string> inputs;
  for (const Argument& input : read.inputs) inputs.push_back(input.is_node() ? value(input.node()) : std::string());
  OnnxAttributes attributes;
  for (const auto& kwarg : read.attributes) {
    const char* name = kwarg.first.c_str();
    const Argument& argument = kwarg.second;
    if (moved(kwarg)) {
      const std::vector<int64_t> list = list_attribute(kwarg.first, argument.list()).ints;
      inputs.push_back(constant(Tensor::of<int64_t>({static_cast<int64_t>(list.size())}, std::span(list)),
                                node.name() + "_constant"));
    } else if (argument.is_node()) attributes.add(name, program().attribute_of(*argument.node()));
    else if (argument.is<std::string>()) attributes.add(name, argument.as<std::string>().c_str());
    else if (argument.is<int64_t>()) attributes.add(name, argument.as<int64_t>());
    else if (argument.is<double>()) attributes.add(name, argument.as<double>());
    else if (argument.is_list()) attributes.list.push_back(list_attribute(kwarg.first, argument.list()));
  }
  emit_results(node, domain.empty() ? read.op : concat(domain, ".", read.op), inputs, attributes);
}

}  // namespace qdq
