// QConfigMapping: which QConfig FX graph mode gives to which operator.
// Semantics: torch/ao/quantization/qconfig_mapping.py and fx/qconfig_mapping_utils.py of PyTorch 2.6.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "quant/fx/qconfig.h"

namespace qdq {

// Settings in increasing priority: global, object type, regular expression on the module's name, module's name, the
// n-th call of a type in a module. Of a module's name, the innermost of the modules around an operator that has a
// setting counts; of regular expressions, the first that matches at the start of the name. A second setting for the
// same key replaces the first in its place.
class QConfigMapping {
 public:
  struct Setting {
    std::string key;  // type, expression or name
    OptionalQConfig qconfig;
  };
  struct OrderSetting {
    std::string module_name, object_type;
    int64_t index = 0;
    OptionalQConfig qconfig;
  };

  QConfigMapping& set_global(OptionalQConfig qconfig);
  // A module class ("torch.nn.Linear"), a function ("torch.nn.functional.linear", "operator.add"), the name of a method
  // ("reshape") or an operator ("torch.ops.aten.linear"), which counts before the others.
  QConfigMapping& set_object_type(const std::string& object_type, OptionalQConfig qconfig);
  // Throws Error{kInvalidArgument} for what is no regular expression, or uses what qdq's do not have (see
  // module_name_regex.h).
  QConfigMapping& set_module_name_regex(const std::string& regex, OptionalQConfig qconfig);
  QConfigMapping& set_module_name(const std::string& module_name, OptionalQConfig qconfig);
  // The call number `index` (from 0) of that type inside of the module ("": the model itself).
  QConfigMapping& set_module_name_object_type_order(const std::string& module_name, const std::string& object_type,
                                                    int64_t index, OptionalQConfig qconfig);

  const OptionalQConfig& global() const { return global_; }
  const std::vector<Setting>& object_types() const { return object_types_; }
  const std::vector<Setting>& module_name_regexes() const { return module_name_regexes_; }
  const std::vector<Setting>& module_names() const { return module_names_; }
  const std::vector<OrderSetting>& module_name_object_type_orders() const { return orders_; }

  // Whether it has no setting at all, so that everything stays float.
  bool empty() const {
    return !global_ && object_types_.empty() && module_name_regexes_.empty() && module_names_.empty() &&
           orders_.empty();
  }

 private:
  OptionalQConfig global_;
  std::vector<Setting> object_types_, module_name_regexes_, module_names_;
  std::vector<OrderSetting> orders_;
};

// PyTorch's defaults for a backend: "x86", "fbgemm", "qnnpack" or "onednn"; for "executorch" PyTorch's symmetric
// mapping of qnnpack. Throws Error{kInvalidArgument} as
// get_default_qconfig does.
QConfigMapping get_default_qconfig_mapping(std::string_view backend = "x86", int64_t version = 0);
QConfigMapping get_default_qat_qconfig_mapping(std::string_view backend = "x86", int64_t version = 1);

// Whether a recorded type is the one that a setting names; a class of torch.nn is known by its own name, wherever its
// module lies.
bool is_object_type(const std::string& recorded, const std::string& object_type);

}  // namespace qdq
