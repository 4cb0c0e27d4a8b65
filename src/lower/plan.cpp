#include "lower/plan.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/stable_sort.h"

namespace qdq {
namespace {

double scale_of(const PlanBuffer& buffer) {
  return buffer.dtype == DType::kU8 ? static_cast<float>(buffer.qparams.scale) : 1.0;
}

// The quantized bound of a clamp, computed as the graph does: clamp in reals, then quantize.
int32_t quantized_bound(double bound, const PlanQParams& qparams) {
  const float steps = std::nearbyint(static_cast<float>(bound) * static_cast<float>(1.0 / qparams.scale));
  const float low = static_cast<float>(qparams.qmin - qparams.zero_point),
              high = static_cast<float>(qparams.qmax - qparams.zero_point);
  return static_cast<int32_t>(std::clamp(steps, low, high)) + qparams.zero_point;
}

// Bytes of the arena that one or more buffers (in-place chains) hold from the first writing step to the last reading
// one.
struct Tenancy {
  size_t begin = 0, end = 0;
  uint64_t bytes = 0, offset = 0;
};

class ArenaPlanner {
 public:
  explicit ArenaPlanner(Plan& plan)
      : plan_(plan), tenancy_of_(plan.buffers.size(), kNone), last_use_(plan.buffers.size(), 0) {}

  void run() {
    for (size_t s = 0; s < plan_.steps.size(); ++s)
      for (const size_t input : plan_.steps[s].inputs) last_use_[root_of(input)] = s;
    for (size_t s = 0; s < plan_.steps.size(); ++s) place_output(s);
    std::vector<size_t> order(tenancies_.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    sort_stably(order, [&](size_t a, size_t b) { return tenancies_[a].bytes > tenancies_[b].bytes; });
    std::vector<size_t> placed;
    for (const size_t i : order) {
      place(tenancies_[i], placed);
      placed.push_back(i);
    }
    for (size_t b = 0; b < plan_.buffers.size(); ++b)
      if (tenancy_of_[b] != kNone) plan_.buffers[b].offset = tenancies_[tenancy_of_[b]].offset;
  }

 private:
  static constexpr size_t kNone = std::numeric_limits<size_t>::max();

  size_t root_of(size_t buffer) const {
    return plan_.buffers[buffer].location == PlanBuffer::Location::kView ? plan_.buffers[buffer].base : buffer;
  }

  void place_output(size_t s) {
    const PlanStep& step = plan_.steps[s];
    const PlanBuffer& out = plan_.buffers[step.output];
    if (out.location != PlanBuffer::Location::kArena) return;
    const size_t end = std::max(s, last_use_[step.output]);
    if (step.in_place_input >= 0) {
      const size_t input = step.inputs[static_cast<size_t>(step.in_place_input)];
      // An input that is read twice may be wanted at other places than where it is overwritten (a convolution's own
      // residual).
      const bool is_read_once = std::count_if(step.inputs.begin(), step.inputs.end(),
                                              [&](size_t other) { return root_of(other) == input; }) == 1;
      if (tenancy_of_[input] != kNone && is_read_once && last_use_[input] == s &&
          plan_.buffers[input].bytes() == out.bytes()) {
        tenancy_of_[step.output] = tenancy_of_[input];
        tenancies_[tenancy_of_[input]].end = end;
        return;
      }
    }
    tenancy_of_[step.output] = tenancies_.size();
    tenancies_.push_back({s, end, aligned(out.bytes()), 0});
  }

  // The lowest offset that no tenancy of an overlapping time holds.
  void place(Tenancy& tenancy, const std::vector<size_t>& placed) {
    std::vector<const Tenancy*> rivals;
    for (const size_t i : placed)
      if (tenancies_[i].begin <= tenancy.end && tenancy.begin <= tenancies_[i].end) rivals.push_back(&tenancies_[i]);
    sort_stably(rivals, [](const Tenancy* a, const Tenancy* b) { return a->offset < b->offset; });
    for (const Tenancy* rival : rivals) {
      if (tenancy.offset + tenancy.bytes <= rival->offset) break;
      tenancy.offset = std::max(tenancy.offset, rival->offset + rival->bytes);
    }
    plan_.arena_bytes = std::max(plan_.arena_bytes, tenancy.offset + tenancy.bytes);
  }

  Plan& plan_;
  std::vector<Tenancy> tenancies_;
  std::vector<size_t> tenancy_of_, last_use_;
};

}  // namespace

Shape PlanBuffer::strides() const {
  if (location == Location::kView) return view_strides;
  if (!channels_last) return contiguous_strides(sizes);
  const int64_t c = sizes[1], h = sizes[2], w = sizes[3];
  return {h * w * c, 1, w * c, c};
}

const PlanStep::Convolution* PlanStep::convolution() const {
  if (const DynamicConvolution* dynamic = std::get_if<DynamicConvolution>(&form)) return &dynamic->convolution;
  return std::get_if<Convolution>(&form);
}

const DynamicRange* PlanStep::range() const {
  if (const DynamicLinear* linear = std::get_if<DynamicLinear>(&form)) return &linear->range;
  if (const DynamicConvolution* dynamic = std::get_if<DynamicConvolution>(&form)) return &dynamic->range;
  if (const DynamicRound* round = std::get_if<DynamicRound>(&form)) return &round->range;
  return nullptr;
}

const ProductWeights* PlanStep::weights() const {
  if (const Convolution* taken = convolution()) return &taken->weights;
  if (const Linear* linear = std::get_if<Linear>(&form)) return &linear->weights;
  if (const DynamicLinear* linear = std::get_if<DynamicLinear>(&form)) return &linear->weights;
  return nullptr;
}

bool has_float_weight(const PlanStep& step) {
  const ProductWeights* weights = step.weights();
  return weights != nullptr && weights->is_float();
}

int32_t largest_factor(const Plan& plan, const PlanStep& step) {
  if (step.weights() == nullptr || has_float_weight(step)) return 0;
  const DynamicRange* dynamic = step.range();
  return dynamic != nullptr ? dynamic->qmax : plan.buffers[step.inputs[0]].qparams.qmax;
}

std::string_view to_string(PlanStep::Kind kind) {
  switch (kind) {
    case PlanStep::Kind::kQuantize: return "quantize";
    case PlanStep::Kind::kDequantize: return "dequantize";
    case PlanStep::Kind::kConvolution: return "convolution";
    case PlanStep::Kind::kLinear: return "linear";
    case PlanStep::Kind::kDynamicLinear: return "dynamic_linear";
    case PlanStep::Kind::kGroupLinear: return "group_linear";
    case PlanStep::Kind::kDynamicConvolution: return "dynamic_convolution";
    case PlanStep::Kind::kDynamicRound: return "dynamic_round";
    case PlanStep::Kind::kMaxPool: return "max_pool";
    case PlanStep::Kind::kAveragePool: return "average_pool";
    case PlanStep::Kind::kAdd: return "add";
    case PlanStep::Kind::kMul: return "mul";
    case PlanStep::Kind::kPrelu: return "prelu";
    case PlanStep::Kind::kConcat: return "concat";
    case PlanStep::Kind::kMap: return "map";
    case PlanStep::Kind::kCopy: return "copy";
    case PlanStep::Kind::kArrange: return "arrange";
    case PlanStep::Kind::kLayerNorm: return "layer_norm";
    case PlanStep::Kind::kAttention: return "attention";
    case PlanStep::Kind::kRotary: return "rotary";
  }
  return "";
}

Requantization requantization(const Plan& plan, const PlanStep& step, int64_t divisor) {
  using Kind = PlanStep::Kind;
  const PlanBuffer& out = plan.buffers[step.output];
  const PlanStep::AveragePool* pool = std::get_if<PlanStep::AveragePool>(&step.form);
  const auto input_scale = [&](size_t i) {
    return pool != nullptr && pool->rounding ? static_cast<double>(static_cast<float>(pool->rounding->scale))
                                             : scale_of(plan.buffers[step.inputs[i]]);
  };
  const bool is_u8 = out.dtype == DType::kU8;
  const bool folded =
      is_u8 && (step.activation.kind == Activation::Kind::kNone || step.activation.kind == Activation::Kind::kClamp);
  const double by = folded ? out.qparams.scale : 1.0;
  Requantization to;
  switch (step.kind()) {
    case Kind::kConvolution:
    case Kind::kLinear:
    case Kind::kDynamicLinear:
    case Kind::kDynamicConvolution: {
      const ProductWeights& weights = *step.weights();
      const float* scales = weights.is_float() ? nullptr : weights.scales.data<float>();
      const float* bias = weights.bias.defined() ? weights.bias.data<float>() : nullptr;
      for (int64_t c = 0; c < weights.channels(); ++c) {
        to.multiplier.push_back(
            static_cast<float>(input_scale(0) * (scales != nullptr ? static_cast<double>(scales[c]) : 1.0) / by));
        to.offset.push_back(bias != nullptr ? static_cast<float>(static_cast<double>(bias[c]) / by) : 0.0f);
      }
      if (step.inputs.size() > 1) to.residual_multiplier = static_cast<float>(input_scale(1) / by);
      break;
    }
    case Kind::kAdd:
    case Kind::kConcat:
      for (size_t i = 0; i < step.inputs.size(); ++i) to.multiplier.push_back(static_cast<float>(input_scale(i) / by));
      break;
    case Kind::kMul: to.multiplier.push_back(static_cast<float>(input_scale(0) * input_scale(1) / by)); break;
    default: to.multiplier.push_back(static_cast<float>(input_scale(0) / (static_cast<double>(divisor) * by)));
  }
  if (!folded) to.activation = step.activation;
  const bool is_int8_product =
      (step.kind() == Kind::kConvolution || step.kind() == Kind::kLinear) && !has_float_weight(step);
  if (is_int8_product && to.activation.kind == Activation::Kind::kSilu)
    to.activation.kind = Activation::Kind::kNearSilu;
  if (!is_u8) return to;
  to.zero_point = out.qparams.zero_point;
  to.low = out.qparams.qmin;
  to.high = out.qparams.qmax;
  if (!folded) to.inverse_scale = static_cast<float>(1.0 / out.qparams.scale);
  else if (step.activation.kind == Activation::Kind::kClamp) {
    to.low = quantized_bound(step.activation.low, out.qparams);
    to.high = quantized_bound(step.activation.high, out.qparams);
  }
  return to;
}

PlanQParams dynamic_qparams(const DynamicRange& range, float min, float max) {
  const float low = std::min(min, 0.0f), high = std::max(max, 0.0f),
              width = static_cast<float>(range.qmax - range.qmin);
  const float scale = std::max((high - low) / width, static_cast<float>(range.epsilon));
  const float steps = std::nearbyint(low / scale);
  return {static_cast<double>(scale), range.qmin + static_cast<int32_t>(std::clamp(-steps, 0.0f, width)), range.qmin,
          range.qmax};
}

Requantization rounding_to(const PlanQParams& qparams) {
  Requantization to;
  to.inverse_scale = static_cast<float>(1.0 / qparams.scale);
  to.zero_point = qparams.zero_point;
  to.low = qparams.qmin;
  to.high = qparams.qmax;
  return to;
}

kernel::RoundedNorm rounded_norm_of(const PlanStep::LayerNorm& form) {
  const auto rounding = [](const std::optional<PlanQParams>& by) {
    if (!by) return kernel::RealRounding{};
    return kernel::RealRounding{true, static_cast<float>(1.0 / by->scale), static_cast<float>(by->scale),
                                static_cast<float>(by->qmin - by->zero_point),
                                static_cast<float>(by->qmax - by->zero_point)};
  };
  const auto data_of = [](const Tensor& tensor) { return tensor.defined() ? tensor.data<float>() : nullptr; };
  const NormRoundings& by = form.roundings;
  return {rounding(by.mean),       rounding(by.variance), rounding(by.shifted),
          rounding(by.normalized), rounding(by.scaled),   static_cast<float>(form.epsilon),
          data_of(form.gamma),     data_of(form.beta)};
}

uint8_t quantize_result(float y, const Requantization& to) {
  const float steps = std::nearbyint(y * to.inverse_scale);
  if (!(steps == steps)) return static_cast<uint8_t>(std::clamp(0, to.low, to.high));
  const float low = static_cast<float>(to.low - to.zero_point), high = static_cast<float>(to.high - to.zero_point);
  return static_cast<uint8_t>(static_cast<int32_t>(std::clamp(steps, low, high)) + to.zero_point);
}

AverageWindow average_window(const PlanStep::AveragePool& pool, const Shape& image, int64_t oh, int64_t ow) {
  const Window2d& w = pool.window;
  const int64_t row = oh * w.stride_h - w.pad_h, column = ow * w.stride_w - w.pad_w;
  const int64_t row_end = std::min(row + w.kernel_h, image[2] + w.pad_h),
                column_end = std::min(column + w.kernel_w, image[3] + w.pad_w);
  AverageWindow out{std::max<int64_t>(row, 0), std::min(row_end, image[2]), std::max<int64_t>(column, 0),
                    std::min(column_end, image[3]), 0};
  if (pool.divisor_override != 0) out.divisor = pool.divisor_override;
  else if (pool.count_include_pad) out.divisor = (row_end - row) * (column_end - column);
  else out.divisor = (out.row_end - out.row_begin) * (out.column_end - out.column_begin);
  return out;
}

namespace {

// Of two open sizes that meet in an elementwise operator the result has the first one's: exported programs hold them to
// be the same. In ONNX files that call them differently one may be 1 where the other is not.
void check_operands(const Plan& plan, const PlanStep& step, size_t first) {
  const Shape& out = plan.buffers[step.output].sizes;
  for (size_t i = first; i < step.inputs.size(); ++i) {
    const Shape& in = plan.buffers[step.inputs[i]].sizes;
    bool fits = in.size() <= out.size();
    for (size_t k = 1; fits && k <= in.size(); ++k)
      fits = in[in.size() - k] == 1 || in[in.size() - k] == out[out.size() - k];
    QDQ_CHECK(fits, kUnsupported, step.name, " has an operand of shape ", to_string(in), " and a result of shape ",
              to_string(out),
              ", for sizes that the model leaves open are taken for the same where they meet; run it node "
              "by node (--node-by-node), or give the sizes names that are the same");
  }
}

}  // namespace

Plan specialize(const Plan& plan, const std::map<std::string, int64_t>& symbols) {
  Plan out = plan;
  for (PlanBuffer& buffer : out.buffers) {
    const auto evaluated = [&](const SymInt& size) {
      const std::optional<int64_t> value = size.evaluate(symbols);
      QDQ_CHECK(value.has_value() && *value >= 0, kUnsupported, "the size ", size.to_string(), " of ", buffer.name,
                " cannot be computed from the sizes of the inputs");
      return *value;
    };
    buffer.sizes.clear();
    for (const SymInt& size : buffer.symbolic_sizes) buffer.sizes.push_back(evaluated(size));
    if (buffer.location != PlanBuffer::Location::kView) continue;
    buffer.view_offset = evaluated(buffer.symbolic_view_offset);
    buffer.view_strides.clear();
    for (const SymInt& stride : buffer.symbolic_view_strides) buffer.view_strides.push_back(evaluated(stride));
  }
  for (const PlanStep& step : out.steps) {
    const bool is_elementwise = step.kind() == PlanStep::Kind::kAdd || step.kind() == PlanStep::Kind::kMul;
    const bool has_residual = step.kind() == PlanStep::Kind::kConvolution || step.kind() == PlanStep::Kind::kLinear;
    if (is_elementwise || has_residual) check_operands(out, step, is_elementwise ? 0 : 1);
  }
  for (PlanStep& step : out.steps)
    if (step.kind() == PlanStep::Kind::kAveragePool && step.as<PlanStep::AveragePool>().is_global) {
      const Shape& image = out.buffers[step.inputs[0]].sizes;
      QDQ_CHECK(image[2] > 0 && image[3] > 0, kInvalidArgument, "an image of shape ", to_string(image), " has no mean");
      step.as<PlanStep::AveragePool>().window = {image[2], image[3], image[2], image[3]};
    }
  ArenaPlanner(out).run();
  return out;
}

}  // namespace qdq
