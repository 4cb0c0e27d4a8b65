// Modules by name and class.
#include "quant/fx/prepare_custom_config.h"

#include <algorithm>

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

}  // namespace qdq
