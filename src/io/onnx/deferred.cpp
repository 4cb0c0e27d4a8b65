// ONNX nodes that only a run tells how to read: their sizes, axes and the like are computed, or the shapes of their
// inputs are not known. When they run, the node is read as a model of its own, with these as constants.
#include <algorithm>
#include <optional>

#include "io/onnx/import.h"
#include "op/control_flow.h"
#include "op/custom.h"
#include "op/facts.h"
#include "op/families.h"
#include "op/targets.h"

namespace qdq {
namespace {

using format::OnnxAttribute;
using format::OnnxKind;

// Domains as they stand in targets.
constexpr std::pair<std::string_view, std::string_view> kSpaces[] = {
    {"onnx", ""}, {"com_microsoft", "com.microsoft"}, {"ai_onnx_ml", "ai.onnx.ml"}};

struct DeferredName {
  std::string domain, op_type;
  int64_t opset = 0;
};

std::optional<DeferredName> parse_target(std::string_view target) {
  if (space_of(target).empty()) return std::nullopt;
  target = short_name(target);
  const size_t first = target.find('.'), last = target.rfind(".v");
  if (first == std::string_view::npos || last == std::string_view::npos || last <= first) return std::nullopt;
  const std::string_view space = target.substr(0, first), version = target.substr(last + 2);
  const auto known =
      std::find_if(std::begin(kSpaces), std::end(kSpaces), [&](const auto& entry) { return entry.first == space; });
  constexpr size_t kMostDigits = 4;
  if (known == std::end(kSpaces) || version.empty() || version.size() > kMostDigits ||
      version.find_first_not_of("0123456789") != std::string_view::npos)
    return std::nullopt;
  DeferredName out{std::string(known->second), std::string(target.substr(first + 1, last - first - 1)), 0};
  for (const char digit : version) out.opset = 10 * out.opset + (digit - '0');
  const std::string full = out.domain.empty() ? out.op_type : concat(out.domain, ".", out.op_type);
  if (find_onnx_operator(full) == nullptr) return std::nullopt;
  return out;
}

OnnxAttribute attribute_of(const std::string& name, const Value& value) {
  OnnxAttribute out;
  out.name = name;
  if (const auto* integer = value.get_if<int64_t>()) {
    out.kind = OnnxKind::kInt;
    out.i = *integer;
  } else if (const auto* number = value.get_if<double>()) {
    out.kind = OnnxKind::kFloat;
    out.f = static_cast<float>(*number);
  } else if (const auto* text = value.get_if<std::string>()) {
    out.kind = OnnxKind::kString;
    out.s = *text;
  } else if (const auto* tensor = value.get_if<Tensor>()) {
    out.kind = OnnxKind::kTensor;
    out.t = *tensor;
  } else if (const auto* list = value.get_if<Value::List>()) {
    out.kind = OnnxKind::kInts;
    for (const Value& element : *list) {
      if (const auto* each = element.get_if<int64_t>()) {
        out.ints.push_back(*each);
      } else if (const auto* real = element.get_if<double>()) {
        out.kind = OnnxKind::kFloats;
        out.floats.push_back(static_cast<float>(*real));
      } else if (const auto* word = element.get_if<std::string>()) {
        out.kind = OnnxKind::kStrings;
        out.strings.push_back(*word);
      }
    }
  }
  return out;
}

Subprogram expand(const Call<Tensor>& call) {
  const std::optional<DeferredName> name = parse_target(call.op().target);
  const auto* inputs = call[0].get_if<Value::List>();
  const auto* attributes = call[1].get_if<Value::List>();
  const auto* outputs = call[2].get_if<Value::List>();
  QDQ_CHECK(name && inputs && attributes && outputs, kInvalidArgument, call.op().target,
            " needs lists of inputs, attributes and outputs");
  format::OnnxFile file;
  file.ir_version = 10;
  file.opsets = {{name->domain, name->opset}};
  constexpr int64_t kOpset = 21;
  if (!name->domain.empty()) file.opsets.emplace_back("", kOpset);
  format::OnnxNode& node = file.nodes.emplace_back();
  node.op_type = name->op_type;
  node.domain = name->domain;
  for (size_t i = 0; i < inputs->size(); ++i) {
    const Tensor* tensor = (*inputs)[i].get_if<Tensor>();
    node.inputs.push_back(tensor ? concat("input_", i) : std::string());
    if (tensor == nullptr) continue;
    if (is_bound(*tensor)) {
      file.initializers.emplace_back(node.inputs.back(), tensor->contiguous());
      continue;
    }
    std::vector<format::OnnxDimension> sizes;
    for (const int64_t size : tensor->sizes()) sizes.push_back({size, ""});
    file.inputs.push_back({node.inputs.back(), tensor->dtype(), std::move(sizes)});
  }
  for (size_t i = 0; i + 1 < attributes->size(); i += 2)
    if (const auto* key = (*attributes)[i].get_if<std::string>())
      node.attributes.push_back(attribute_of(*key, (*attributes)[i + 1]));
  for (const Value& output : *outputs) {
    node.outputs.push_back(output.is<std::string>() ? *output.get_if<std::string>() : std::string());
    if (!node.outputs.back().empty()) file.outputs.push_back({node.outputs.back(), std::nullopt, std::nullopt});
  }
  return std::make_shared<const Program>(OnnxImport(std::move(file), /*defers=*/false).run());
}

MetaValue infer_nothing(const Call<TensorMeta>&) { return {}; }

std::optional<OpDef> resolve(std::string_view target) {
  const auto name = parse_target(target);
  if (!name) return std::nullopt;
  OpDef out = define(concat("onnx::", name->op_type, "(Any[] inputs, Any[] attributes, Any[] outputs) -> Any"),
                     infer_nothing, eval_control_flow, {}, Family::kControlFlow);
  out.target = target;
  out.expand = expand;
  out.takes_strings = true;
  return out;
}

}  // namespace

std::string deferred_target(const format::OnnxNode& node, int64_t opset) {
  const auto known = std::find_if(std::begin(kSpaces), std::end(kSpaces),
                                  [&](const auto& entry) { return entry.second == node.domain; });
  if (known == std::end(kSpaces)) return {};
  return op::target(concat(known->first, ".", node.op_type, ".v", opset));
}

void register_deferred_onnx() { set_op_resolver(resolve); }

}  // namespace qdq
