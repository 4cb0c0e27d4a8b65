// Modules by name and class.
#include "quant/fx/prepare_custom_config.h"

#include <algorithm>

#include "quant/unmatched_settings.h"

namespace qdq {

namespace {

bool is_class(const std::string& type, const std::string& wanted) {
  return is_object_type(type, wanted) || (wanted.find('.') == std::string::npos && type.ends_with(concat(".", wanted)));
}

}  // namespace

const PrepareCustomConfig::StandaloneModule* PrepareCustomConfig::standalone(const std::string& path,
                                                                             const std::string& type) const {
  for (const StandaloneModule& entry : standalone_module_names)
    if (entry.module == path) return &entry;
  for (const StandaloneModule& entry : standalone_module_classes)
    if (is_class(type, entry.module)) return &entry;
  return nullptr;
}

bool PrepareCustomConfig::is_non_traceable(const std::string& path, const std::string& type) const {
  const auto& names = non_traceable_module_names;
  return std::find(names.begin(), names.end(), path) != names.end() ||
         std::any_of(non_traceable_module_classes.begin(), non_traceable_module_classes.end(),
                     [&](const std::string& wanted) { return is_class(type, wanted); });
}

std::vector<std::string> PrepareCustomConfig::unmatched(const Graph& graph) const {
  std::vector<std::string> out;
  const ProgramNames known(graph);
  const auto check_name = [&](std::string_view kind, const std::string& name) {
    if (std::find(known.modules.begin(), known.modules.end(), name) == known.modules.end())
      out.push_back(unmatched_setting(kind, name, known.modules));
  };
  const auto check_class = [&](std::string_view kind, const std::string& wanted) {
    const auto& types = known.module_types;
    if (std::none_of(types.begin(), types.end(), [&](const std::string& type) { return is_class(type, wanted); }))
      out.push_back(unmatched_setting(kind, wanted, types));
  };
  for (const StandaloneModule& entry : standalone_module_names) check_name("standalone module", entry.module);
  for (const StandaloneModule& entry : standalone_module_classes) check_class("standalone module class", entry.module);
  for (const std::string& name : non_traceable_module_names) check_name("non-traceable module", name);
  for (const std::string& wanted : non_traceable_module_classes) check_class("non-traceable module class", wanted);
  return out;
}

}  // namespace qdq
