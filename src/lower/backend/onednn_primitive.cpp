#include "lower/backend/onednn_primitive.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <ranges>

namespace qdq::onednn {

using dnnl::algorithm;
using dnnl::memory;
using dnnl::primitive_attr;

memory::data_type data_type(DType dtype) {
  if (dtype == DType::kU8) return memory::data_type::u8;
  return dtype == DType::kBF16 ? memory::data_type::bf16 : memory::data_type::f32;
}
memory::desc desc_of(const PlanBuffer& buffer) {
  // An axis of one element gets the stride of dense tensors, whatever it has in a part of another tensor: by another
  // one the sums of oneDNN 3.7 read other elements of the second operand ([1, 5, 64] with strides 640, 64, 1).
  std::vector<size_t> axes(buffer.sizes.size());
  std::iota(axes.begin(), axes.end(), size_t{0});
  if (buffer.channels_last) axes = {0, 2, 3, 1};
  memory::dims strides = buffer.strides();
  int64_t dense = 1;
  for (const size_t axis : std::views::reverse(axes)) {
    if (buffer.sizes[axis] == 1) strides[axis] = dense;
    dense = strides[axis] * buffer.sizes[axis];
  }
  return {buffer.sizes, data_type(buffer.dtype), strides};
}

memory::desc volumes_of(const memory::desc& images, int64_t frames) {
  memory::dims sizes = images.get_dims(), strides = images.get_strides();
  sizes[0] /= frames;
  sizes.insert(sizes.begin() + 2, frames);
  strides.insert(strides.begin() + 2, strides[0]);
  strides[0] *= frames;
  return {sizes, images.get_data_type(), strides};
}

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

bool has_wrong_sums(const memory::dims& weights, const memory::dims& out, const memory::dims& strides,
                    const memory::dims& dilation, const memory::dims& padding, const memory::dims& padding_end) {
  const size_t first = weights.size() - out.size();  // 1 behind the number of groups
  const bool is_depthwise = first == 1 && weights[1] == 1;
  if (weights[first + 1] != 1 || is_depthwise) return false;
  if (out.back() == 1 && strides.back() > 1) return true;
  for (size_t i = 0; i < strides.size(); ++i) {
    const int64_t reach = (weights[first + 2 + i] - 1) * (dilation[i] + 1) + 1;
    if (std::max(padding[i], padding_end[i]) >= reach) return true;
  }
  return false;
}

bool has_wrong_sums(const Plan& plan, const PlanStep& step, const PlanStep::Convolution& conv) {
  const Shape &in = plan.buffers[step.inputs[0]].sizes, &out = plan.buffers[step.output].sizes;
  if (conv.is_of_volumes()) return false;
  const Window2d& w = conv.window;
  return has_wrong_sums(weight_dims(conv), out, {w.stride_h, w.stride_w}, {w.dilation_h - 1, w.dilation_w - 1},
                        {w.pad_h, w.pad_w}, padding_behind(w, in, out));
}

void avoid_wrong_tiles(dnnl::convolution_forward::primitive_desc& desc) {
  constexpr int64_t kTileRow = 64;  // bytes
  const memory::dims weights = desc.weights_desc().get_dims();
  const size_t axes = desc.src_desc().get_ndims() - 2;
  const auto size = static_cast<int64_t>(memory::data_type_size(desc.src_desc().get_data_type()));
  const int64_t pixel = weights[weights.size() - axes - 1] * size, columns = weights.back() * pixel;
  const bool mixes_columns = pixel < kTileRow / 2 && pixel % 4 == 0 && columns > kTileRow && columns % kTileRow == 0;
  const bool has_one_result = desc.dst_desc().get_dims().back() == 1 && desc.get_strides().back() > 1;
  if (!mixes_columns && !has_one_result) return;
  while (std::string_view(desc.impl_info_str()).find("amx") != std::string_view::npos && desc.next_impl()) continue;
}

namespace {

// Where the elements of a tensor lie is a sum of one offset for each axis: offsets[axis][index], in elements.
std::vector<std::vector<int64_t>> offsets_of(const memory::desc& desc) {
  const memory::dims sizes = desc.get_dims(), strides = desc.get_strides();
  const memory::dims blocks = desc.get_inner_blks(), axes = desc.get_inner_idxs();
  std::vector<std::vector<int64_t>> out;
  for (size_t axis = 0; axis < sizes.size(); ++axis) {
    std::vector<int64_t>& offsets = out.emplace_back(sizes[axis]);
    for (int64_t i = 0; i < sizes[axis]; ++i) {
      int64_t rest = i, stride = 1;
      for (size_t block = blocks.size(); block-- > 0; stride *= blocks[block]) {
        if (axes[block] != static_cast<int64_t>(axis)) continue;
        offsets[i] += rest % blocks[block] * stride;
        rest /= blocks[block];
      }
      offsets[i] += rest * strides[axis];
    }
  }
  return out;
}

template <class T> void move_elements(const memory& from, const memory& to) {
  auto sources = offsets_of(from.get_desc()), targets = offsets_of(to.get_desc());
  // The longest axis last, so that its loop has work: the windows of most convolutions are 1x1.
  const auto longest = [](const std::vector<int64_t>& a, const std::vector<int64_t>& b) { return a.size() < b.size(); };
  const auto inner = std::max_element(sources.begin(), sources.end(), longest) - sources.begin();
  std::swap(sources[static_cast<size_t>(inner)], sources.back());
  std::swap(targets[static_cast<size_t>(inner)], targets.back());
  const size_t last = sources.size() - 1, length = sources[last].size();
  const int64_t *from_inner = sources[last].data(), *to_inner = targets[last].data();
  const T* in = static_cast<const T*>(from.get_data_handle());
  T* out = static_cast<T*>(to.get_data_handle());
  std::vector<size_t> at(last, 0);
  for (bool more = true; more;) {
    const T* source = in;
    T* target = out;
    for (size_t axis = 0; axis < last; ++axis) {
      source += sources[axis][at[axis]];
      target += targets[axis][at[axis]];
    }
    for (size_t i = 0; i < length; ++i) target[to_inner[i]] = source[from_inner[i]];
    more = false;
    for (size_t axis = last; axis-- > 0 && !more;) {
      more = ++at[axis] < sources[axis].size();
      if (!more) at[axis] = 0;
    }
  }
}

bool has_padding(const memory::desc& desc) { return desc.get_dims() != desc.get_padded_dims(); }

// Whether nothing lies behind the elements: some int8 weights carry sums of themselves for zero points.
bool is_elements_alone(const memory::desc& desc) {
  const memory::dims sizes = desc.get_padded_dims();
  const int64_t elements = std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
  return desc.get_size() == static_cast<size_t>(elements) * memory::data_type_size(desc.get_data_type());
}

}  // namespace

void reorder(memory from, memory to) {
  const memory::desc source = from.get_desc(), target = to.get_desc();
  const auto type = target.get_data_type();
  const bool converts = source.get_data_type() != type;
  const bool is_padded = has_padding(target) || (has_padding(source) && !converts);
  if (!is_padded || !is_elements_alone(source) || !is_elements_alone(target))
    return dnnl::reorder(from, to).execute(stream(), from, to);
  if (converts) {
    // The other data type first, while nothing is padded.
    memory converted({source.get_dims(), type, source.get_strides()}, engine());
    dnnl::reorder(from, converted).execute(stream(), from, converted);
    stream().wait();
    return reorder(converted, to);
  }
  stream().wait();
  if (has_padding(target)) std::memset(to.get_data_handle(), 0, target.get_size());
  switch (memory::data_type_size(type)) {
    case 1: return move_elements<uint8_t>(from, to);
    case 2: return move_elements<uint16_t>(from, to);
    default: return move_elements<uint32_t>(from, to);
  }
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
