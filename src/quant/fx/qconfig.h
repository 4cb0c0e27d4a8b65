// QConfig: which observers FX graph mode gives to the activations and to the weight of a layer, and PyTorch's named
// ones. Semantics: torch/ao/quantization/qconfig.py, observer.py and fake_quantize.py of PyTorch 2.6.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "quant/spec.h"

namespace qdq {

// An observer class and the arguments it will be made with: PyTorch's `MinMaxObserver.with_args(dtype=torch.qint8)`.
// Arguments that are not named here have the class's own defaults.
struct ObserverWithArgs {
  std::string class_name;  // as make_observer knows it; "Identity" observes nothing
  std::vector<std::pair<std::string, AttributeValue>> args;
  std::shared_ptr<const ObserverWithArgs> observer;  // fake quantizers: the one inside, their argument `observer`
  // An observer of one's own, made in the place of the class, which then only says what arguments there are. Equal
  // numbers mean the same function.
  std::function<std::shared_ptr<Observer>(const ObserverArgs&)> custom = {};
  int64_t custom_number = -1;

  // The settings that an instance has. Throws Error{kInvalidArgument} for an argument that observers do not have, or of
  // another type.
  ObserverArgs settings() const;
};

// The spec that makes such observers. In a program quint8, qint8 and qint32 are uint8, int8 and int32, and quint4x2 is
// uint8 from 0 to 15. Nothing (it stays float) for dtype float32 and for "Identity".
QSpec spec_of(const ObserverWithArgs& observer);

struct QConfig {
  std::optional<ObserverWithArgs> activation, weight;
};
// Nothing: it stays float (PyTorch's None).
using OptionalQConfig = std::optional<QConfig>;

// Whether it says: whatever is observed at the input, take that at the output too (default_reuse_input_qconfig).
bool is_reuse_input(const QConfig& qconfig);

// By PyTorch's name: "default_qconfig", "default_dynamic_qconfig", "float_qparams_weight_only_qconfig", ...
// Throws Error{kInvalidArgument} naming the nearest one for a name that is none.
QConfig named_qconfig(std::string_view name);
// The settings of input-weight equalization (torch/ao/quantization/fx/_equalize.py, default_equalization_qconfig),
// which QConfigMappingQuantizer::set_equalization_config takes; by that name named_qconfig gives it, too.
QConfig default_equalization_qconfig();
std::vector<std::string> named_qconfigs();

// What a backend ("x86", "fbgemm", "qnnpack", "onednn") wants after training, and for quantization-aware training; and
// "executorch", a name that PyTorch 2.6 has for backend configs alone: its default_symmetric_qnnpack_qconfig and
// default_symmetric_qnnpack_qat_qconfig, which that backend takes.
// Throws Error{kInvalidArgument} for another backend, or a version that PyTorch does not have (0; with QAT 0 or 1).
QConfig get_default_qconfig(std::string_view backend = "x86", int64_t version = 0);
QConfig get_default_qat_qconfig(std::string_view backend = "x86", int64_t version = 1);

// The backends that these two know.
std::vector<std::string_view> qconfig_backend_names();

// One of PyTorch's named observers: "default_weight_observer", "default_fixed_qparams_range_0to1_observer", ...
ObserverWithArgs named_observer(std::string_view name);

}  // namespace qdq
