// Settings of quantizers that reach nothing of a program.
#include "quant/unmatched_settings.h"

#include <algorithm>
#include <unordered_set>

#include "base/error.h"
#include "base/nearest_word.h"
#include "graph/shown_module.h"

namespace qdq {

std::string nearest_name(std::string_view name, const std::vector<std::string>& known) {
  const std::string whole = nearest_word(name, known);
  const size_t dot = name.rfind('.');
  if (!whole.empty() || dot == std::string_view::npos) return whole;
  std::vector<std::string> parts;
  for (const std::string& each : known) parts.push_back(each.substr(each.rfind('.') + 1));
  const std::string part = nearest_word(name.substr(dot + 1), parts);
  const auto found = std::find(parts.begin(), parts.end(), part);
  return found == parts.end() ? std::string() : known[static_cast<size_t>(found - parts.begin())];
}

ProgramNames::ProgramNames(const Graph& graph) {
  std::unordered_set<std::string> seen_modules, seen_types, seen_operators;
  const auto add = [](std::vector<std::string>& to, std::unordered_set<std::string>& seen, const std::string& name) {
    if (!name.empty() && seen.insert(name).second) to.push_back(name);
  };
  for (const Node* node : graph.nodes()) {
    for (const ModuleStackEntry& entry : node->meta.nn_module_stack) {
      if (entry.path == kNoModule) continue;
      add(modules, seen_modules, entry.path);
      add(module_types, seen_types, entry.type);
    }
    for (const auto& [what, name] : node->meta.extra)
      if (what == kOnnxNode) add(modules, seen_modules, name);
    if (node->op() == Node::Op::kCallFunction)
      add(operators, seen_operators, node->target().substr(0, node->target().rfind('.')));
  }
}

std::string meant_or_known(std::string_view name, const std::vector<std::string>& known) {
  const std::string meant = nearest_name(name, known);
  if (!meant.empty()) return concat("; did you mean ", meant, "?");
  if (known.empty()) return "; it tells no such name at all";
  constexpr size_t kShown = 8;
  std::string out = concat("; it has ", known[0]);
  for (size_t i = 1; i < std::min(known.size(), kShown); ++i) out += ", " + known[i];
  return known.size() > kShown ? concat(out, " and ", known.size() - kShown, " others") : out;
}

std::string unmatched_setting(std::string_view kind, std::string_view name, const std::vector<std::string>& known) {
  return concat("the setting for ", kind, " ", name, " reaches nothing: the program has no such ", kind,
                meant_or_known(name, known));
}

}  // namespace qdq
