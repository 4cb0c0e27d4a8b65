// What ONNX files tell of the modules that their nodes come from (torch/onnx/_internal/exporter/_core.py,
// _set_node_metadata).

#include "io/onnx/import.h"

namespace qdq {
namespace {

constexpr const char *kScopes = "pkg.torch.onnx.name_scopes", *kClasses = "pkg.torch.onnx.class_hierarchy";

std::string key_of(const std::string& path) { return path.empty() ? "L__self__" : "L__self___" + node_name_of(path); }

// A list of strings as Python prints it: "['', 'layer1', \"L['self'].conv\"]".
std::vector<std::string> read_list(const std::string& text) {
  std::vector<std::string> out;
  for (size_t at = 0; (at = text.find_first_of("'\"", at)) != std::string::npos;) {
    const size_t end = text.find(text[at], at + 1);
    if (end == std::string::npos) break;
    out.push_back(text.substr(at + 1, end - at - 1));
    at = end + 1;
  }
  return out;
}

std::string print_list(const std::vector<std::string>& words) {
  std::string out = "[";
  for (const std::string& word : words) out += concat(out.size() > 1 ? ", '" : "'", word, "'");
  return out + "]";
}

// "/layer1/layer1.0/conv1/Conv": a child of a Sequential has the path of its parent in its name, others have their own
// alone.
std::string path_in_name(const std::string& name) {
  std::string path, last;
  if (!name.starts_with('/')) return path;
  for (size_t begin = 1, end; (end = name.find('/', begin)) != std::string::npos; begin = end + 1) {
    const std::string part = name.substr(begin, end - begin);
    if (part.starts_with(last + ".") && !last.empty()) path.resize(path.size() - last.size());
    else if (!path.empty()) path += '.';
    path += part;
    last = part;
  }
  return path;
}

}  // namespace

std::vector<ModuleStackEntry> module_stack_of(const format::OnnxNode& node) {
  std::vector<std::string> scopes, classes;
  for (const auto& [key, value] : node.metadata) {
    if (key == kScopes) scopes = read_list(value);
    if (key == kClasses) classes = read_list(value);
  }
  std::vector<ModuleStackEntry> out;
  // The last of each is the node's own name and target.
  for (size_t i = 0; i + 1 < scopes.size() && i + 1 < classes.size(); ++i) {
    const std::string path = without_frame(scopes[i]);
    out.push_back({key_of(path), path, classes[i]});
  }
  if (!out.empty()) return out;
  out.push_back({key_of(""), "", ""});
  const std::string path = path_in_name(node.name);
  for (size_t dot = 0; !path.empty() && dot != std::string::npos;) {
    dot = path.find('.', dot + 1);
    const std::string inner = path.substr(0, dot);
    out.push_back({key_of(inner), inner, ""});
  }
  return out;
}

std::vector<std::pair<std::string, std::string>> metadata_of(const std::vector<ModuleStackEntry>& modules) {
  std::vector<std::string> scopes, classes;
  for (const ModuleStackEntry& module : modules) {
    scopes.push_back(module.path);
    classes.push_back(module.type);
  }
  if (scopes.size() < 2) return {};
  scopes.emplace_back("");
  classes.emplace_back("");
  return {{kClasses, print_list(classes)}, {kScopes, print_list(scopes)}};
}

}  // namespace qdq
