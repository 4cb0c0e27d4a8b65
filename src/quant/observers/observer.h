// Observers and fake quantizers: what they saw, and the qparams that follow from it.
// Semantics: torch/ao/quantization/observer.py and fake_quantize.py of PyTorch 2.6.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tensor/tensor.h"

namespace qdq {

enum class QScheme {
  kPerTensorAffine,
  kPerTensorSymmetric,
  kPerChannelAffine,
  kPerChannelSymmetric,
  kPerChannelAffineFloatQParams,
  kPerTokenAffine  // a scale for each row along the last axis, found while the model runs; PyTorch has no name for it
};
std::string_view to_string(QScheme scheme);        // "per_tensor_affine"
QScheme qscheme_from_name(std::string_view name);  // throws Error{kInvalidArgument}
std::vector<std::string_view> qscheme_names();
bool is_per_channel(QScheme scheme);
bool is_symmetric(QScheme scheme);

// Whether a dtype stands for plain integers (torch.uint8), which PT2E uses, or for one of the quantized types that
// eager and FX mode have on them: torch.quint8, qint8 and qint32, or torch.quint4x2 on uint8. A few refusals of PyTorch
// depend on it.
enum class QDType { kPlain, kQuantized, kQuint4x2 };
// Whether quantization rounds tensors of this dtype: as in PyTorch float32, and widened to it float16 and bfloat16.
inline bool is_quantizable(DType t) { return t == DType::kF32 || t == DType::kF16 || t == DType::kBF16; }

// The settings that an observer is constructed with; those a class does not have are ignored by it (observer_reads).
struct ObserverArgs {
  DType dtype = DType::kU8;
  QDType qdtype = QDType::kPlain;
  QScheme qscheme = QScheme::kPerTensorAffine;
  bool reduce_range = false;
  std::optional<int64_t> quant_min, quant_max;
  int64_t ch_axis = 0;
  double eps = 1.1920928955078125e-07;  // float32 epsilon
  bool is_dynamic = false;
  double averaging_constant = 0.01;
  int64_t bins = 2048;
  int64_t group_size = 0;         // PerGroup classes
  double percentile = 99.99;      // PercentileObserver
  double scale = 0;               // FixedQParamsObserver
  int64_t zero_point = 0;         // FixedQParamsObserver
  bool use_grad_scaling = false;  // _LearnableFakeQuantize
  std::string inner_class;  // fake quantizers: the class inside; empty: MovingAverageMinMaxObserver, as in PyTorch
};

// PyTorch's default arguments of a class (dtype quint8 almost everywhere; per_channel_affine for PerChannel classes).
ObserverArgs default_observer_args(std::string_view class_name);
// Whether a class reads the argument averaging_constant, bins, group_size, percentile, reduce_range, use_grad_scaling,
// scale or zero_point; all classes take the others, and classes of one's own all. inner_class as in ObserverArgs.
// PyTorch refuses the rest (TypeError).
bool observer_reads(std::string_view class_name, std::string_view inner_class, std::string_view argument);
// "int8", "quint8", "quint4x2", ... of dtype and qdtype, and back. Throws Error{kInvalidArgument} for an unknown name.
std::string dtype_name(const ObserverArgs& args);
void set_dtype(ObserverArgs& args, std::string_view name);
// The names that are none of DType's: "quint8", "qint8", ...
std::vector<std::string_view> quantized_dtype_names();

// Scales are float32 values. zero_point is float for per_channel_affine_float_qparams, else an integer.
struct QParams {
  std::vector<float> scale;
  std::vector<int64_t> zero_point;
  std::vector<float> float_zero_point;
  // The dtype of PyTorch's zero point tensor: int32 where it was computed from an affine range or given, int64 for
  // symmetric schemes and for an observer that saw nothing, float32 for float zero points.
  DType zero_point_dtype = DType::kS64;
};

// What set_attribute takes; a dtype or qscheme is given by its name.
using AttributeValue = std::variant<bool, int64_t, double, std::string>;

struct FloatRange;  // quant/observers/observer_statistics.h

// One observer or fake-quantize instance. Several edges and nodes may share it.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual std::string_view class_name() const = 0;  // "HistogramObserver"
  const ObserverArgs& args() const { return args_; }

  // Sees a batch; returns what the graph goes on with (the same tensor; a fake-quantized one for fake quantizers).
  virtual Tensor forward(const Tensor& x) = 0;
  // Whether forward looks for the range of x, and whoever knows range_of(x) saves it that by forward_with_range, which
  // does the same.
  virtual bool wants_range() const { return false; }
  virtual Tensor forward_with_range(const Tensor& x, const FloatRange& range);
  // Whether it keeps enough of the newest tensor that forward_clamped may succeed: forward(clamp(x, low, high)) for the
  // tensor x of the last call of any forward, without a look at an element. False, and nothing changes, where what it
  // kept does not tell enough.
  virtual bool foresees_clamps() const { return false; }
  virtual bool forward_clamped(float low, float high);
  // forward for training: `mask`, if given, becomes a uint8 tensor of x's shape with 1 where x was rounded and 0 where
  // it was clipped, which is the derivative of a fake quantizer that PyTorch takes; it stays undefined where x itself
  // is returned.
  virtual Tensor forward_with_mask(const Tensor& x, Tensor* mask);
  // The class whose statistics do not depend on the order of the data, so that those of parts can be merged: its own
  // name, or that of the class to use in its place; empty if there is none.
  virtual std::string_view mergeable_class() const { return {}; }
  // Whether a second look at the same tensor changes nothing, so that one look at a constant is enough.
  virtual bool is_idempotent() const { return false; }
  // Throws Error{kNotCalibrated} if no data was seen where PyTorch would only warn and return scale 1,
  // Error{kInvalidArgument} if the range holds NaN or the class has no qparams.
  virtual QParams calculate_qparams() const = 0;
  // What calculate_qparams would give after forward(x), while this instance stays as it is. Default: of classes that
  // data does not change.
  virtual QParams qparams_after(const Tensor& x) const;
  // Changes a setting of this instance before it has seen data, as `observer.quant_max = 127` does in Python: dtype,
  // qscheme, quant_min, quant_max, ch_axis, eps, averaging_constant, bins, is_dynamic; scale and zero_point of
  // FixedQParams classes. Nothing follows from it but what reads it: a new dtype keeps the old limits. Throws
  // Error{kInvalidArgument} for another name or a value that makes no sense.
  virtual void set_attribute(std::string_view name, const AttributeValue& value);
  // Throws Error{kInvalidArgument} if the settings cannot make sense together: limits beyond the dtype or in the wrong
  // order, eps or a constant that is no usable number; of FixedQParams classes a scale that is not above zero, or a
  // zero point outside of the limits.
  void check_settings() const;
  // Whether calculate_qparams has something to work on. True for classes that need no data.
  virtual bool calibrated() const { return true; }
  // What PyTorch returns, which does not refuse an observer without data: scale 1, zero point 0.
  QParams calculate_qparams_or_default() const;
  // Integer range in force (after reduce_range and custom limits).
  int64_t quant_min() const { return quant_min_; }
  int64_t quant_max() const { return quant_max_; }

  // State, for reports and for saving: undefined tensors where the class has none. Per tensor: rank 0, inf and -inf
  // before data; per channel: [channels], [0] before data.
  virtual Tensor min_val() const { return {}; }
  virtual Tensor max_val() const { return {}; }
  virtual Tensor histogram() const { return {}; }
  // From the first edge of the histogram's bins to the last. By default min_val and max_val.
  virtual FloatRange histogram_range() const;
  virtual std::vector<Tensor> recorded() const { return {}; }  // RecordingObserver: copies of all it saw
  // Takes over what another instance of the same class and settings saw: its min_val, max_val and histogram, of the
  // dtypes that those have, undefined where there are none. Throws Error{kInvalidArgument} if they are not the
  // statistics of such an instance.
  virtual void set_state(const Tensor& min_val, const Tensor& max_val, const Tensor& histogram);

  // Whether it is a FakeQuantize (quant/observers/fake_quantize.h), and the switches that those have: whether it takes
  // in what passes, and whether it rounds it. Observers that do not round have none.
  virtual bool is_fake_quantize() const { return false; }
  virtual void enable_observer(bool enabled) { (void)enabled; }
  virtual void enable_fake_quant(bool enabled) { (void)enabled; }
  // Whether it is a LearnableFakeQuantize, and the switch that those have: whether training moves their qparams.
  virtual bool is_learnable() const { return false; }
  virtual void enable_param_learning(bool enabled) { (void)enabled; }

 protected:
  explicit Observer(ObserverArgs args) : args_(std::move(args)) {}
  ObserverArgs args_;
  int64_t quant_min_ = 0;
  int64_t quant_max_ = 0;
};

// The constructor of a class by PyTorch's name: MinMaxObserver, MovingAverageMinMaxObserver, PerChannelMinMaxObserver,
// MovingAveragePerChannelMinMaxObserver, HistogramObserver, FixedQParamsObserver, PlaceholderObserver, NoopObserver,
// ..., and what PyTorch does not have: MergeableHistogramObserver, PercentileObserver, EntropyObserver, MSEObserver,
// PerGroupMinMaxObserver and PerGroupMSEObserver.
// Throws Error{kInvalidArgument} listing the known names, or where PyTorch's constructor refuses the settings.
std::shared_ptr<Observer> make_observer(std::string_view class_name, const ObserverArgs& args);
std::vector<std::string_view> observer_class_names();

// An observer whose qparams follow from those of others (_DerivedObserverOrFakeQuantize); it looks at no data itself.
// Of the arguments, dtype, quant_min, quant_max, qscheme and ch_axis count.
using DeriveQParams = std::function<QParams(const std::vector<std::shared_ptr<Observer>>&)>;
std::shared_ptr<Observer> make_derived_observer(const ObserverArgs& args,
                                                std::vector<std::shared_ptr<Observer>> derived_from,
                                                DeriveQParams derive);

}  // namespace qdq
