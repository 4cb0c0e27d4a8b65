// Observers and fake quantizers: what they saw, and the qparams that follow from it.
// Semantics: torch/ao/quantization/observer.py and fake_quantize.py of PyTorch 2.6.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tensor/tensor.h"

namespace qdq {

enum class QScheme { kPerTensorAffine, kPerTensorSymmetric, kPerChannelAffine, kPerChannelSymmetric, kPerChannelAffineFloatQParams };
std::string_view to_string(QScheme scheme);  // "per_tensor_affine"
QScheme qscheme_from_name(std::string_view name);  // throws Error{kInvalidArgument}
bool is_per_channel(QScheme scheme);
bool is_symmetric(QScheme scheme);

// The settings that an observer is constructed with; those a class does not have are ignored by it.
struct ObserverArgs {
  DType dtype = DType::kU8;
  QScheme qscheme = QScheme::kPerTensorAffine;
  bool reduce_range = false;
  std::optional<int64_t> quant_min, quant_max;
  int64_t ch_axis = 0;
  double eps = 1.1920928955078125e-07;  // float32 epsilon
  bool is_dynamic = false;
  double averaging_constant = 0.01;
  int64_t bins = 2048;
  double scale = 0;        // FixedQParamsObserver
  int64_t zero_point = 0;  // FixedQParamsObserver
};

// Scales are float32 values. zero_point is float for per_channel_affine_float_qparams, else an integer.
struct QParams {
  std::vector<float> scale;
  std::vector<int64_t> zero_point;
  std::vector<float> float_zero_point;
};

// One observer or fake-quantize instance. Several edges and nodes may share it.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual std::string_view class_name() const = 0;  // "HistogramObserver"
  const ObserverArgs& args() const { return args_; }

  // Sees a batch; returns what the graph goes on with (the same tensor; a fake-quantized one for fake quantizers).
  virtual Tensor forward(const Tensor& x) = 0;
  // Throws Error{kNotCalibrated} if no data was seen where PyTorch would only warn and return scale 1.
  virtual QParams calculate_qparams() const = 0;
  // Integer range in force (after reduce_range and custom limits).
  int64_t quant_min() const { return quant_min_; }
  int64_t quant_max() const { return quant_max_; }

  // State, for reports and for saving: empty tensors where the class has none.
  virtual Tensor min_val() const { return {}; }
  virtual Tensor max_val() const { return {}; }
  virtual Tensor histogram() const { return {}; }

 protected:
  explicit Observer(ObserverArgs args) : args_(args) {}
  ObserverArgs args_;
  int64_t quant_min_ = 0;
  int64_t quant_max_ = 0;
};

// The constructor of a class by PyTorch's name: MinMaxObserver, MovingAverageMinMaxObserver, PerChannelMinMaxObserver,
// MovingAveragePerChannelMinMaxObserver, HistogramObserver, FixedQParamsObserver, PlaceholderObserver, NoopObserver, ...
// Throws Error{kInvalidArgument} listing the known names, or where PyTorch's constructor refuses the settings.
std::shared_ptr<Observer> make_observer(std::string_view class_name, const ObserverArgs& args);
std::vector<std::string_view> observer_class_names();

}  // namespace qdq
