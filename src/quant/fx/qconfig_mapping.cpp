// QConfigMapping and PyTorch's default ones.
#include "quant/fx/qconfig_mapping.h"

#include <algorithm>

#include "graph/source_partition.h"
#include "quant/fx/module_name_regex.h"

namespace qdq {

namespace {

constexpr std::string_view kPublic = "torch.nn.", kRecorded = "torch.nn.modules.",
                           kIntrinsic = "torch.ao.nn.intrinsic.";

std::string_view last_part(std::string_view name) { return name.substr(name.rfind('.') + 1); }
// "torch.nn.Linear": a name right below the package.
bool is_right_below(std::string_view name, std::string_view package) {
  return name.starts_with(package) && name.find('.', package.size()) == std::string_view::npos;
}

void set(std::vector<QConfigMapping::Setting>& settings, std::string key, OptionalQConfig qconfig) {
  const auto found = std::find_if(settings.begin(), settings.end(), [&](const auto& s) { return s.key == key; });
  if (found == settings.end()) settings.push_back({std::move(key), std::move(qconfig)});
  else found->qconfig = std::move(qconfig);
}

// The types that have settings of their own in the other default mappings, and that of the whole here
// (qconfig_mapping.py, _get_symmetric_qnnpack_qconfig_mapping).
constexpr const char* kOfSymmetricMappings[] = {"reshape",
                                                "torch.nn.ConvTranspose1d",
                                                "torch.nn.ConvTranspose2d",
                                                "torch.nn.ConvTranspose3d",
                                                "torch.nn.functional.conv_transpose1d",
                                                "torch.nn.functional.conv_transpose2d",
                                                "torch.nn.functional.conv_transpose3d",
                                                "torch.nn.functional.layer_norm",
                                                "torch.nn.LayerNorm",
                                                "torch.nn.PReLU"};

QConfigMapping default_mapping(const QConfig& qconfig, std::string_view backend, bool is_qat) {
  const ObserverWithArgs default_weight =
      named_observer(is_qat ? "default_weight_fake_quant" : "default_weight_observer");
  // The kernels of these backends want one scale for the weight of a transposed convolution.
  const bool per_tensor = backend == "fbgemm" || backend == "x86";
  const QConfig transposed{qconfig.activation, per_tensor ? default_weight : qconfig.weight};
  const QConfig layer_norm{qconfig.activation, named_observer("default_placeholder_observer")};
  QConfigMapping out;
  out.set_global(qconfig).set_object_type("reshape", named_qconfig("default_reuse_input_qconfig"));
  for (const char* type : {"torch.nn.ConvTranspose1d", "torch.nn.ConvTranspose2d", "torch.nn.ConvTranspose3d",
                           "torch.nn.functional.conv_transpose1d", "torch.nn.functional.conv_transpose2d",
                           "torch.nn.functional.conv_transpose3d"})
    out.set_object_type(type, transposed);
  out.set_object_type("torch.nn.functional.layer_norm", layer_norm).set_object_type("torch.nn.LayerNorm", layer_norm);
  out.set_object_type("torch.nn.PReLU", named_qconfig("default_quint8_weight_qconfig"));
  for (const char* type :
       {"torch.nn.Hardsigmoid", "torch.nn.functional.hardsigmoid", "hardsigmoid", "hardsigmoid_", "torch.nn.Sigmoid",
        "torch.sigmoid", "sigmoid", "sigmoid_", "torch.nn.Softmax", "torch.nn.Tanh", "torch.tanh", "tanh", "tanh_"}) {
    const bool is_tanh = std::string_view(type).find("anh") != std::string_view::npos;
    const char* observer =
        is_tanh ? (is_qat ? "fixed_qparams_fake_quant_neg1to1" : "default_fixed_qparams_range_neg1to1_observer")
                : (is_qat ? "fixed_qparams_fake_quant_0to1" : "default_fixed_qparams_range_0to1_observer");
    out.set_object_type(type, QConfig{named_observer(observer), default_weight});
  }
  if (backend == "executorch")
    for (const char* type : kOfSymmetricMappings) out.set_object_type(type, qconfig);
  return out;
}

}  // namespace

bool is_object_type(const std::string& recorded, const std::string& object_type) {
  if (recorded == object_type || recorded == source_name(object_type)) return true;
  for (const auto& [outer, inner] : {std::pair(kPublic, kRecorded), std::pair(kIntrinsic, kIntrinsic)})
    if (is_right_below(object_type, outer) && recorded.starts_with(inner) &&
        last_part(recorded) == last_part(object_type))
      return true;
  return false;
}

QConfigMapping& QConfigMapping::set_global(OptionalQConfig qconfig) {
  global_ = std::move(qconfig);
  return *this;
}

QConfigMapping& QConfigMapping::set_object_type(const std::string& object_type, OptionalQConfig qconfig) {
  set(object_types_, source_name(object_type), std::move(qconfig));
  return *this;
}

QConfigMapping& QConfigMapping::set_module_name_regex(const std::string& regex, OptionalQConfig qconfig) {
  matches_at_start(regex, "");
  set(module_name_regexes_, regex, std::move(qconfig));
  return *this;
}

QConfigMapping& QConfigMapping::set_module_name(const std::string& module_name, OptionalQConfig qconfig) {
  set(module_names_, module_name, std::move(qconfig));
  return *this;
}

QConfigMapping& QConfigMapping::set_module_name_object_type_order(const std::string& module_name,
                                                                  const std::string& object_type, int64_t index,
                                                                  OptionalQConfig qconfig) {
  QDQ_CHECK(index >= 0, kInvalidArgument, "the order of ", object_type, " in module '", module_name, "' is ", index,
            "; calls count from 0");
  const std::string type = source_name(object_type);
  const auto found = std::find_if(orders_.begin(), orders_.end(), [&](const OrderSetting& s) {
    return s.module_name == module_name && s.object_type == type && s.index == index;
  });
  if (found == orders_.end()) orders_.push_back({module_name, type, index, std::move(qconfig)});
  else found->qconfig = std::move(qconfig);
  return *this;
}

QConfigMapping get_default_qconfig_mapping(std::string_view backend, int64_t version) {
  return default_mapping(get_default_qconfig(backend, version), backend, false);
}

QConfigMapping get_default_qat_qconfig_mapping(std::string_view backend, int64_t version) {
  return default_mapping(get_default_qat_qconfig(backend, version), backend, true);
}

}  // namespace qdq
