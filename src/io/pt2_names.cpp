#include "io/pt2_names.h"

#include <algorithm>
#include <unordered_set>

namespace qdq {
namespace {

// What PyTorch's modules have already, which an attribute cannot be called ("attribute 'to' already exists").
constexpr std::string_view kModuleMembers =
    " T_destination add_module add_submodule apply bfloat16 buffers call_super_init children code compile cpu cuda "
    "delete_all_unused_submodules delete_submodule double dump_patches eval extra_repr float forward get_buffer "
    "get_extra_state get_parameter get_submodule graph half ipu load_state_dict meta modules mtia named_buffers "
    "named_children named_modules named_parameters parameters print_readable recompile register_backward_hook "
    "register_buffer register_forward_hook register_forward_pre_hook register_full_backward_hook "
    "register_full_backward_pre_hook register_load_state_dict_post_hook register_load_state_dict_pre_hook "
    "register_module register_parameter register_state_dict_post_hook register_state_dict_pre_hook requires_grad_ "
    "set_extra_state set_submodule share_memory state_dict to to_empty to_folder train training type xpu zero_grad ";

// Whether PyTorch can have an attribute of this name: modules by their names, one in the other, and a tensor in the
// last, none of which is something else already.
bool is_path_of_modules(const std::string& name, const std::unordered_set<std::string>& all) {
  for (size_t begin = 0; begin <= name.size();) {
    const size_t end = std::min(name.find('.', begin), name.size());
    const std::string_view part = std::string_view(name).substr(begin, end - begin);
    if (part.empty() || part.find(' ') != std::string_view::npos) return false;
    if (kModuleMembers.find(concat(" ", part, " ")) != std::string_view::npos) return false;
    if (end < name.size() && all.contains(name.substr(0, end))) return false;
    begin = end + 1;
  }
  return true;
}

}  // namespace

std::unordered_map<std::string, std::string> pt2_attribute_names(const Program& program) {
  std::unordered_map<std::string, std::string> names;
  std::unordered_set<std::string> all;
  for (const Attribute& attribute : program.attributes) all.insert(attribute.name);
  for (const Attribute& attribute : program.attributes) {
    std::string& name = names[attribute.name] = attribute.name;
    if (is_path_of_modules(name, all)) continue;
    const std::string plain = node_name_of(name) + "_tensor";
    name = plain;
    for (int64_t i = 1; !all.insert(name).second; ++i) name = concat(plain, "_", i);
  }
  return names;
}

}  // namespace qdq
