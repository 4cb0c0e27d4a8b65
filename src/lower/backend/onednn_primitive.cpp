#include "lower/backend/onednn_primitive.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace qdq::onednn {

using dnnl::algorithm;
using dnnl::memory;
using dnnl::primitive_attr;

memory::data_type data_type(DType dtype) {
  if (dtype == DType::kU8) return memory::data_type::u8;
  return dtype == DType::kBF16 ? memory::data_type::bf16 : memory::data_type::f32;
}
memory::desc desc_of(const PlanBuffer& buffer) { return {buffer.sizes, data_type(buffer.dtype), buffer.strides()}; }

memory::dims padding_behind(const Window2d& w, const Shape& in, const Shape& out) {
  return {(out[2] - 1) * w.stride_h + (w.kernel_h - 1) * w.dilation_h + 1 - in[2] - w.pad_h,
          (out[3] - 1) * w.stride_w + (w.kernel_w - 1) * w.dilation_w + 1 - in[3] - w.pad_w};
}

memory::dims weight_dims(const PlanStep::Convolution& step) {
  memory::dims dims = step.weights.values.sizes();
  if (step.groups > 1) {
    dims[0] /= step.groups;
    dims.insert(dims.begin(), step.groups);
  }
  return dims;
}

memory constants(const std::vector<float>& values) {
  memory out({{static_cast<int64_t>(values.size())}, memory::data_type::f32, memory::format_tag::a}, engine());
  std::memcpy(out.get_data_handle(), values.data(), values.size() * sizeof(float));
  return out;
}
memory constant(int32_t value) {
  memory out({{1}, memory::data_type::s32, memory::format_tag::a}, engine());
  *static_cast<int32_t*>(out.get_data_handle()) = value;
  return out;
}

primitive_attr plain_attr() {
  primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

void append_activation(dnnl::post_ops& ops, const Activation& activation) {
  using Kind = Activation::Kind;
  const auto bounded = [](double bound) {
    return static_cast<float>(std::min<double>(std::max<double>(bound, std::numeric_limits<float>::lowest()),
                                               std::numeric_limits<float>::max()));
  };
  switch (activation.kind) {
    case Kind::kNone: return;
    case Kind::kClamp:
      if (activation.low == 0 && std::isinf(activation.high)) ops.append_eltwise(algorithm::eltwise_relu, 0, 0);
      else ops.append_eltwise(algorithm::eltwise_clip, bounded(activation.low), bounded(activation.high));
      return;
    case Kind::kLeakyRelu: return ops.append_eltwise(algorithm::eltwise_relu, static_cast<float>(activation.slope), 0);
    case Kind::kHardSwish: return ops.append_eltwise(algorithm::eltwise_hardswish, 1.0f / 6, 0.5f);
    case Kind::kHardSigmoid: return ops.append_eltwise(algorithm::eltwise_hardsigmoid, 1.0f / 6, 0.5f);
    case Kind::kSigmoid: return ops.append_eltwise(algorithm::eltwise_logistic, 0, 0);
    case Kind::kSilu:
    case Kind::kNearSilu: return ops.append_eltwise(algorithm::eltwise_swish, 1, 0);
    case Kind::kGelu: return ops.append_eltwise(algorithm::eltwise_gelu_erf, 0, 0);
    case Kind::kGeluTanh: return ops.append_eltwise(algorithm::eltwise_gelu_tanh, 0, 0);
    case Kind::kTanh: return ops.append_eltwise(algorithm::eltwise_tanh, 0, 0);
  }
}

}  // namespace qdq::onednn
