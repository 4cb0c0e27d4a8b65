// Node metadata as text and back.
#include "io/pt2_metadata.h"

namespace qdq {
namespace {

constexpr std::string_view kModuleStack = "nn_module_stack", kSourceStack = "source_fn_stack", kTorchFn = "torch_fn",
                           kStackTrace = "stack_trace", kCustom = "custom", kDebugHandle = "numeric_debug_handle";

std::vector<std::string> split(std::string_view text, char at) {
  std::vector<std::string> out;
  for (;;) {
    const size_t end = text.find(at);
    out.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return out;
    text.remove_prefix(end + 1);
  }
}

// "L__self___conv,conv,torch.nn.modules.conv.Conv2d"; a slice of a Sequential has commas inside parentheses in key and
// path.
bool read_module(std::string_view text, ModuleStackEntry& out) {
  std::vector<size_t> commas;
  int depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    depth += (text[i] == '(') - (text[i] == ')');
    if (text[i] == ',' && depth == 0) commas.push_back(i);
  }
  if (commas.size() != 2) return false;
  out.key = text.substr(0, commas[0]);
  out.path = without_frame(text.substr(commas[0] + 1, commas[1] - commas[0] - 1));
  out.type = text.substr(commas[1] + 1);
  return true;
}

bool read_module_stack(const std::string& text, std::vector<ModuleStackEntry>& out) {
  for (const std::string& part : split(text, ';'))
    if (!read_module(part, out.emplace_back())) return out.clear(), false;
  return true;
}

bool read_source_stack(const std::string& text, std::vector<std::pair<std::string, std::string>>& out) {
  for (const std::string& part : split(text, ';')) {
    const size_t comma = part.find(',');
    if (comma == std::string::npos) return out.clear(), false;
    out.emplace_back(part.substr(0, comma), part.substr(comma + 1));
  }
  return true;
}

// The text is JSON of the exporting program's own; what is not an object stays as it is.
Place::Json parse_custom(const std::string& text) {
  try {
    return format::parse_json(text, std::string(kCustom));
  } catch (const Error&) {
    return {};
  }
}

}  // namespace

NodeMeta read_node_metadata(const Place& metadata) {
  NodeMeta out;
  metadata.for_each_member([&](const std::string& key, const Place& place) {
    const std::string& text = place.string();
    if (key == kInputNames) return;
    if (key == kModuleStack && read_module_stack(text, out.nn_module_stack)) return;
    if (key == kSourceStack && read_source_stack(text, out.source_fn_stack)) return;
    if (key == kTorchFn) out.torch_fn = text;
    else if (key == kStackTrace) out.stack_trace = text;
    else out.extra.emplace_back(key, text);
    if (key != kCustom) return;
    const Place::Json custom = parse_custom(text);
    const auto handle = custom.is_object() ? custom.find(kDebugHandle) : custom.end();
    if (handle != custom.end() && handle->is_number_integer()) out.debug_handle = handle->get<int64_t>();
  });
  return out;
}

std::vector<std::pair<std::string, std::string>> node_metadata(const NodeMeta& meta) {
  std::vector<std::pair<std::string, std::string>> out;
  if (!meta.stack_trace.empty()) out.emplace_back(kStackTrace, meta.stack_trace);
  std::string text;
  for (const ModuleStackEntry& entry : meta.nn_module_stack)
    text += (text.empty() ? "" : ";") + entry.key + "," + entry.path + "," + entry.type;
  if (!text.empty()) out.emplace_back(kModuleStack, std::move(text));
  text.clear();
  for (const auto& [name, source] : meta.source_fn_stack) text += (text.empty() ? "" : ";") + name + "," + source;
  if (!text.empty()) out.emplace_back(kSourceStack, std::move(text));
  if (!meta.torch_fn.empty()) out.emplace_back(kTorchFn, meta.torch_fn);
  Place::Json custom;
  for (const auto& [key, value] : meta.extra) {
    if (key == kInputNames) continue;
    if (key == kCustom && meta.debug_handle) custom = parse_custom(value);
    else out.emplace_back(key, value);
  }
  if (meta.debug_handle) {
    custom[std::string(kDebugHandle)] = *meta.debug_handle;
    out.emplace_back(kCustom, format::print_json(custom));
  }
  return out;
}

const std::string* find_mark(const NodeMeta& meta, std::string_view mark) {
  for (const auto& [key, text] : meta.extra)
    if (key == mark) return &text;
  return nullptr;
}

SymShape strides_in_c_order(const SymShape& sizes) {
  SymShape out(sizes.size());
  SymInt stride = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    out[i] = stride;
    if (sizes[i] != SymInt(0)) stride = stride * sizes[i];
  }
  return out;
}

TensorMeta meta_of_tensor(const Tensor& tensor, bool requires_grad) {
  TensorMeta out;
  out.dtype = tensor.dtype();
  out.sizes.assign(tensor.sizes().begin(), tensor.sizes().end());
  out.strides.assign(tensor.strides().begin(), tensor.strides().end());
  if (out.strides == strides_in_c_order(out.sizes)) out.strides.clear();
  out.requires_grad = requires_grad;
  return out;
}

}  // namespace qdq
