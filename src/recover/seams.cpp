#include "recover/seams.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "op/facts.h"
#include "op/math.h"
#include "op/targets.h"
#include "quant/observers/fake_quantize.h"

namespace qdq {

namespace {

// The axes of a value along which its channels lie, the outermost first: one, or those that a view cut it into.
using Axes = std::vector<int64_t>;

// The axes that they have behind a reshaping, if those of `from` lie beside each other.
std::optional<Axes> axes_behind_reshape(const SymShape& from, const Axes& axes, const SymShape& to) {
  SymInt channels = 1, inner = 1, passed = 1;
  for (size_t i = 0; i < axes.size(); ++i) {
    if (axes[i] != axes[0] + static_cast<int64_t>(i)) return std::nullopt;
    channels = channels * from[static_cast<size_t>(axes[i])];
  }
  for (size_t i = static_cast<size_t>(axes.back()) + 1; i < from.size(); ++i) inner = inner * from[i];
  size_t end = to.size();
  while (end > 0 && !(passed == inner && to[end - 1] != SymInt(1))) passed = passed * to[--end];
  Axes out;
  SymInt found = 1;
  while (end > 0 && !(found == channels)) {
    found = found * to[--end];
    out.insert(out.begin(), static_cast<int64_t>(end));
  }
  return found == channels && !out.empty() ? std::optional(out) : std::nullopt;
}

// The axes that those of `value` have in a product or in attention that weighs its rows.
std::optional<Axes> axes_behind_weighing(const Node& node, const Node& value, const Axes& axes) {
  const bool attends = is_form_of(node, op::kAttention);
  const size_t operand = attends ? 2 : 1;
  if (node.args().size() <= operand || node.arg(operand).node() != &value) return std::nullopt;
  for (size_t i = 0; i < operand; ++i)
    if (node.arg(i).node() == &value) return std::nullopt;
  const std::string& name = op_of(node)->schema.arguments[1].name;
  if (!attends && name != "other" && name != "mat2") return std::nullopt;
  const SymShape &from = value.meta.val.tensor()->sizes, &to = node.meta.val.tensor()->sizes;
  const bool fits =
      from.size() == to.size() && from.size() >= 2 && std::all_of(axes.begin(), axes.end(), [&](int64_t axis) {
        const auto at = static_cast<size_t>(axis);
        return at + 2 != from.size() && from[at] == to[at];
      });
  return fits ? std::optional(axes) : std::nullopt;
}

std::optional<Axes> axes_behind_permutation(const Node& node, const Axes& axes, int64_t rank) {
  std::vector<int64_t> order;  // the axis of the value that each of the result is
  const auto axis_in = [&](const Argument& argument) {
    const int64_t axis = argument.integer().value_or(0);
    return axis < 0 ? axis + rank : axis;
  };
  if (is_form_of(node, op::kTranspose)) {
    for (int64_t i = 0; i < rank; ++i) order.push_back(i);
    std::swap(order.at(static_cast<size_t>(axis_in(argument_of(node, 1)))),
              order.at(static_cast<size_t>(axis_in(argument_of(node, 2)))));
  } else if (argument_of(node, 1).is_list()) {
    for (const Argument& axis : argument_of(node, 1).list()) order.push_back(axis_in(axis));
  }
  Axes out;
  for (const int64_t axis : axes) {
    const auto found = std::find(order.begin(), order.end(), axis);
    if (found == order.end()) return std::nullopt;
    out.push_back(found - order.begin());
  }
  return out;
}

bool pads_zeros_behind(const Node& node, int64_t axis, int64_t rank) {
  const Argument& pad = argument_of(node, 1);
  if (!pad.is_list() || rank - static_cast<int64_t>(pad.list().size() / 2) <= axis) return false;
  // Others than constants are values of the tensor; only aten.pad says by a word which of both it takes.
  const Schema& schema = op_of(node)->schema;
  if (schema.index_of("mode") && !(argument_called(node, "mode") == Argument("constant"))) return true;
  if (!schema.index_of("value")) return true;
  const Argument& value = argument_called(node, "value");
  return value.is_none() || value.number() == 0.0;
}

// If f(s x) = s f(x) for s > 0, channel by channel, as long as x and s x lie within `clamps`, which are narrowed: the
// axes that the channels have in f(x).
std::optional<Axes> axes_behind(const Node& node, const Node& x, const Axes& axes, FloatRange& clamps) {
  const TensorMeta *from = x.meta.val.tensor(), *to = node.meta.val.tensor();
  if (from == nullptr || to == nullptr || op_of(node) == nullptr) return std::nullopt;
  if (is_a(node, Family::kMatmul) || is_form_of(node, op::kAttention)) return axes_behind_weighing(node, x, axes);
  if (node.args().empty() || node.arg(0).node() != &x) return std::nullopt;
  const int64_t axis = axes.size() == 1 ? axes[0] : -1;
  const auto if_passes = [&](bool passes) { return passes ? std::optional(axes) : std::nullopt; };
  const auto rank = static_cast<int64_t>(from->sizes.size());
  if (is_a(node, Family::kDropout) || is_a(node, Family::kCopy)) return axes;
  if (is_a(node, Family::kMaxPool) || is_a(node, Family::kAveragePool)) return if_passes(axis == 1);
  if (is_a(node, Family::kPad)) return if_passes(axis >= 0 && pads_zeros_behind(node, axis, rank));
  for (const std::string_view target : {op::kFlatten, op::kReshape, op::kView, op::kUnsafeView})
    if (is_form_of(node, target)) return axes_behind_reshape(from->sizes, axes, to->sizes);
  if (is_form_of(node, op::kTranspose) || is_form_of(node, op::kPermute))
    return axes_behind_permutation(node, axes, rank);
  if (is_form_of(node, op::kMeanDim)) {
    const Argument& axes = argument_of(node, 1);
    bool spares = axes.is_list() && axis == 1;
    if (axes.is_list())
      for (const Argument& one : axes.list()) {
        const int64_t at = one.integer().value_or(0);
        spares = spares && (at < 0 ? at + rank : at) > axis;
      }
    return if_passes(spares);
  }
  const auto function = activation_function(node);
  if (!function) return std::nullopt;
  using Kind = kernel::Activation::Kind;
  if (function->kind != Kind::kClamp) return if_passes(function->kind == Kind::kLeakyRelu);
  if (function->low < 0) clamps.min = std::max(clamps.min, static_cast<float>(function->low));
  if (function->high > 0) clamps.max = std::min(clamps.max, static_cast<float>(function->high));
  return if_passes(function->low <= 0 && function->high > 0);
}

std::optional<Reader> reader_of(const Prepared::Impl& impl, const Node& node, const Node& input, int64_t axis) {
  const TensorMeta* value = input.meta.val.tensor();
  if (value == nullptr) return std::nullopt;
  const auto rank = static_cast<int64_t>(value->sizes.size());
  const bool convolves = is_plain_convolution(node);
  if (!(convolves ? axis == 1 : is_linear(node) && axis == rank - 1) || input_of(node) != &input) return std::nullopt;
  const auto weight = own_constant(impl, weight_of(node));
  if (!weight) return std::nullopt;
  Reader out{&node, &input, axis, *weight};
  if (!convolves) return out;
  out.groups = argument_called(node, "groups").integer().value_or(0);
  return out.groups > 0 ? std::optional(out) : std::nullopt;
}

// A constant of its own that a product takes for each channel, as exporters spell out the weight of an RMS norm or the
// scale of a layer.
struct ChannelScale {
  OwnConstant constant;
  std::optional<size_t> observer;  // that sees it as it sees activations
  int64_t axis;                    // of the channels in the product
};

std::optional<ChannelScale> channel_scale_of(const Prepared::Impl& impl, const Node& node) {
  const TensorMeta* value = node.meta.val.tensor();
  if (!is_a(node, Family::kMultiply) || value == nullptr || node.args().size() < 2) return std::nullopt;
  for (size_t i = 0; i < 2; ++i) {
    const Node* argument = node.arg(i).node();
    if (argument == nullptr || node.arg(1 - i).node() == nullptr) continue;
    std::optional<OwnConstant> constant = own_constant(impl, argument);
    std::optional<size_t> observer;
    if (!constant && (observer = impl.group_of_module(*argument)) && argument->users().size() == 1)
      constant = own_constant(impl, argument->arg(0).node());
    if (!constant) continue;
    const Shape& sizes = impl.program.find_attribute(constant->name)->tensor.sizes();
    const auto is_many = [](int64_t size) { return size != 1; };
    const auto channels = std::find_if(sizes.begin(), sizes.end(), is_many);
    if (channels == sizes.end() || std::any_of(channels + 1, sizes.end(), is_many)) continue;
    const auto axis = static_cast<int64_t>(value->sizes.size()) - (sizes.end() - channels);
    if (axis >= 0 && value->sizes[static_cast<size_t>(axis)] == SymInt(*channels))
      return ChannelScale{*constant, observer, axis};
  }
  return std::nullopt;
}

// What makes the channels of a value, and their axis there.
std::optional<std::pair<Producer, int64_t>> producer_of(const Prepared::Impl& impl, const Node& node) {
  const TensorMeta* value = node.meta.val.tensor();
  if (value == nullptr || value->dtype != DType::kF32 || node.op() != Node::Op::kCallFunction || op_of(node) == nullptr)
    return std::nullopt;
  if (const auto scale = channel_scale_of(impl, node))
    return {{{&node, scale->constant, std::nullopt, scale->observer}, scale->axis}};
  const auto rank = static_cast<int64_t>(value->sizes.size());
  const bool convolves = is_plain_convolution(node), norms = is_a(node, Family::kNorm);
  if (!convolves && !norms && !is_linear(node)) return std::nullopt;
  const auto weight = own_constant(impl, weight_of(node));
  if (!weight) return std::nullopt;
  const Tensor& values = impl.program.find_attribute(weight->name)->tensor;
  if (values.dim() == 0 || (norms && (values.dim() != 1 || node.target().find("group_norm") != std::string::npos)))
    return std::nullopt;
  Producer out{&node, *weight, std::nullopt, std::nullopt};
  const Node* bias = bias_of(node);
  if (bias != nullptr && (!(out.bias = own_constant(impl, bias)) || out.bias->observer)) return std::nullopt;
  if (norms && value->sizes.back() != SymInt(values.size(0))) return std::nullopt;
  return {{std::move(out), convolves ? 1 : rank - 1}};
}

bool same_sizes(const Node& a, const Node& b) {
  const TensorMeta *x = a.meta.val.tensor(), *y = b.meta.val.tensor();
  return x != nullptr && y != nullptr && x->sizes == y->sizes;
}

// Finds all that has to be scaled together with what one producer makes.
class SeamSearch {
 public:
  explicit SeamSearch(const Prepared::Impl& impl) : impl_(impl) {}

  std::optional<Seam> from(const Node& producer) {
    const auto first = producer_of(impl_, producer);
    if (!first || !reach(producer, {first->second}, false)) return std::nullopt;
    const auto channels = producer.meta.val.tensor()->sizes[static_cast<size_t>(first->second)].constant();
    if (!channels) return std::nullopt;
    seam_.channels = *channels;
    for (size_t i = 0; i < open_.size(); ++i) {
      const auto [value, is_made] = open_[i];
      if (!is_made && !trace(*value)) return std::nullopt;
      for (const Node* user : value->users())
        if (!pass(*value, *user)) return std::nullopt;
    }
    if (seam_.readers.empty() || seam_.observers.empty()) return std::nullopt;
    for (const Node* product : products_)  // both factors would scale
      if (axes_.count(product->arg(0).node()) + axes_.count(product->arg(1).node()) != 1) return std::nullopt;
    return std::move(seam_);
  }

 private:
  // Notes that the channels along these axes of a value scale; `is_made`: what makes the value is one of these values.
  bool reach(const Node& value, const Axes& axes, bool is_made) {
    const auto [known, is_new] = axes_.try_emplace(&value, axes);
    if (is_new) open_.emplace_back(&value, is_made);
    return known->second == axes;
  }

  bool takes_one_range(size_t observer) const {
    return impl_.takes_range(observer) && !is_per_channel(impl_.groups[observer].observer->args().qscheme);
  }

  // Goes back to what makes a value.
  bool trace(const Node& value) {
    const Axes axes = axes_.at(&value);
    if (auto producer = producer_of(impl_, value)) {
      if (axes != Axes{producer->second}) return false;
      if (const auto& observer = producer->first.observer) {
        if (!takes_one_range(*observer)) return false;
        seam_.observers.push_back(*observer);
      }
      seam_.producers.push_back(std::move(producer->first));
      return true;
    }
    const Node* from = value.args().empty() ? nullptr : value.arg(0).node();
    if (from == nullptr) return false;
    if (impl_.group_of_module(value)) return reach(*from, axes, false);
    if (op_of(value) == nullptr) return false;
    const Node* other = addend(value, *from);
    if (other != nullptr) return reach(*from, axes, false) && reach(*other, axes, false);
    FloatRange clamps{-kInf, kInf};
    return axes_behind(value, *from, axes, clamps) == axes && reach(*from, axes, false);
  }

  // Goes on to what an operator makes of a value, or notes it as a reader.
  bool pass(const Node& value, const Node& user) {
    const Axes axes = axes_.at(&value);
    if (const auto observer = impl_.group_of_module(user)) {
      if (!takes_one_range(*observer)) return false;
      seam_.observers.push_back(*observer);
      return reach(user, axes, true);
    }
    if (user.op() == Node::Op::kCallFunction && op_of(user) != nullptr) {
      if (const Node* other = addend(user, value)) return reach(*other, axes, false) && reach(user, axes, true);
      if (is_a(user, Family::kMultiply) && same_sizes(user, value) && !channel_scale_of(impl_, user)) {
        if (user.arg(0).node() != nullptr && user.arg(1).node() != nullptr) products_.push_back(&user);
        return reach(user, axes, true);
      }
    }
    if (const auto behind = axes_behind(user, value, axes, seam_.clamps)) {
      const auto function = activation_function(user);
      if (function && function->kind == kernel::Activation::Kind::kClamp &&
          (function->low < 0 || function->high < static_cast<double>(kInf))) {
        if (axes.size() != 1) return false;
        seam_.cut.emplace_back(&value, axes[0]);
      }
      return reach(user, *behind, true);
    }
    auto reader = axes.size() == 1 ? reader_of(impl_, user, value, axes[0]) : std::nullopt;
    if (!reader) return false;
    seam_.readers.push_back(std::move(*reader));
    return true;
  }

  // What a sum adds to this value, of the same sizes; null if it is no such sum.
  static const Node* addend(const Node& sum, const Node& value) {
    if (!(is_a(sum, Family::kAdd) || is_a(sum, Family::kSubtract)) || sum.args().size() < 2) return nullptr;
    const Node *a = sum.arg(0).node(), *b = sum.arg(1).node();
    if (a == nullptr || b == nullptr || !same_sizes(*a, sum) || !same_sizes(*b, sum)) return nullptr;
    return a == &value ? b : b == &value ? a : nullptr;
  }

  const Prepared::Impl& impl_;
  Seam seam_;
  std::map<const Node*, Axes> axes_;
  std::vector<std::pair<const Node*, bool>> open_;
  std::vector<const Node*> products_;  // of a value and another one
};

// The least factor that keeps a channel within the clamps on the samples; nothing if they cut it as it is.
std::optional<double> least_factor(const Seam& seam, size_t channel) {
  if (!has_clamps(seam)) return 0;
  const double low = static_cast<double>(seam.low[channel]) / static_cast<double>(seam.clamps.min);
  const double high = static_cast<double>(seam.high[channel]) / static_cast<double>(seam.clamps.max);
  const double least = std::max({low, high, 0.0});
  return least < 1 ? std::optional(least) : std::nullopt;
}

void set_constant(Prepared::Impl& impl, BeforeEqualizing& before, const OwnConstant& constant, const Tensor& value) {
  Tensor& tensor = impl.program.find_attribute(constant.name)->tensor;
  before.constants.emplace_back(constant.name, tensor);
  tensor = value;
}

}  // namespace

std::vector<Seam> seams_of(const Prepared& prepared) {
  const Prepared::Impl& impl = Prepared::Impl::of(prepared);
  std::vector<Seam> out;
  std::unordered_set<const Node*> known;
  for (const Node* node : impl.program.graph->nodes()) {
    if (known.count(node) != 0) continue;
    auto seam = SeamSearch(impl).from(*node);
    if (!seam) continue;
    for (const Producer& producer : seam->producers) known.insert(producer.node);
    out.push_back(std::move(*seam));
  }
  return out;
}

bool has_clamps(const Seam& seam) { return seam.clamps.min > -kInf || seam.clamps.max < kInf; }

int64_t channel_at(const Reader& reader, const Tensor& weight, int64_t channels, int64_t element) {
  const int64_t columns = weight.size(1), inner = weight.numel() / std::max<int64_t>(1, weight.size(0) * columns);
  const int64_t row = element / (columns * inner), column = element / inner % columns;
  const int64_t group = row / std::max<int64_t>(1, weight.size(0) / reader.groups);
  return std::min(group * columns + column, channels - 1);
}

Tensor with_columns_scaled(const Reader& reader, const Tensor& weight, const std::vector<float>& by) {
  const Tensor out = weight.clone();
  float* const values = out.data<float>();
  for (int64_t i = 0; i < out.numel(); ++i)
    values[i] *= by[static_cast<size_t>(channel_at(reader, out, static_cast<int64_t>(by.size()), i))];
  return out;
}

Tensor with_rows_divided(const Tensor& weight, const std::vector<float>& by) {
  const Tensor out = weight.clone();
  const int64_t inner = by.empty() ? 0 : out.numel() / static_cast<int64_t>(by.size());
  for (int64_t i = 0; i < out.numel(); ++i) out.data<float>()[i] /= by[static_cast<size_t>(i / inner)];
  return out;
}

std::vector<float> factors_of(const Prepared::Impl& impl, const Seam& seam, double alpha) {
  const auto channels = static_cast<size_t>(seam.channels);
  std::vector<double> largest(channels);
  for (const Reader& reader : seam.readers) {
    const Tensor weight = impl.program.find_attribute(reader.weight.name)->tensor.contiguous();
    for (int64_t i = 0; i < weight.numel(); ++i) {
      double& most = largest[static_cast<size_t>(channel_at(reader, weight, seam.channels, i))];
      most = std::max(most, static_cast<double>(std::fabs(weight.data<float>()[i])));
    }
  }
  std::vector<double> factors(channels, 0);
  // Channels that a clamp cuts stay as they are, so the others come to their size.
  double middle = 0, middle_of_cut = 0;
  int64_t known = 0, cut = 0;
  for (size_t c = 0; c < channels; ++c) {
    const double range = std::max(std::fabs(seam.min[c]), std::fabs(seam.max[c]));
    if (!(range > 0) || !(largest[c] > 0)) continue;
    factors[c] = alpha * math::log(range) - (1 - alpha) * math::log(largest[c]);
    middle += factors[c];
    ++known;
    if (least_factor(seam, c)) continue;
    middle_of_cut += factors[c];
    ++cut;
  }
  if (cut > 0) middle = middle_of_cut / static_cast<double>(cut);
  else if (known > 0) middle /= static_cast<double>(known);
  // A channel that carries nothing keeps its size; others move by at most a factor of 2^20.
  constexpr double kMost = 13.86;
  std::vector<float> out(channels, 1.0f);
  for (size_t c = 0; c < channels; ++c)
    if (const auto least = least_factor(seam, c); least && factors[c] != 0)
      out[c] = static_cast<float>(std::max(*least, math::exp(std::clamp(factors[c] - middle, -kMost, kMost))));
  return out;
}

Tensor rounded_weight(const Tensor& weight, const Observer& observer) {
  ObserverArgs args = observer.args();
  args.eps = 0x1p-40;
  ChannelRanges ranges;
  if (is_per_channel(args.qscheme)) {
    ranges = channel_ranges_of(weight, args.ch_axis);
  } else {
    const FloatRange range = range_of(weight);
    ranges = {{range.min}, {range.max}};
  }
  const IntegerRange limits{observer.quant_min(), observer.quant_max()};
  return fake_quantized(weight, qparams_of_range(ranges.min, ranges.max, args, limits), args, limits);
}

void apply_seam(Prepared& prepared, BeforeEqualizing& before, const Seam& seam, const std::vector<float>& by) {
  Prepared::Impl& impl = Prepared::Impl::of(prepared);
  const auto change = [&](const OwnConstant& constant, const Tensor& value) {
    set_constant(impl, before, constant, value);
    if (!constant.observer) return;
    const Observer& observer = *impl.groups[*constant.observer].observer;
    if (is_per_channel(observer.args().qscheme)) {
      const ChannelRanges ranges = channel_ranges_of(value, observer.args().ch_axis);
      const auto count = static_cast<int64_t>(ranges.min.size());
      prepared.set_range(*constant.observer, Tensor::of<float>({count}, std::span<const float>(ranges.min)),
                         Tensor::of<float>({count}, std::span<const float>(ranges.max)));
    } else {
      const FloatRange range = range_of(value);
      prepared.set_range(*constant.observer, Tensor::scalar(range.min), Tensor::scalar(range.max));
    }
  };
  const auto value_of = [&](const OwnConstant& constant) {
    return impl.program.find_attribute(constant.name)->tensor.contiguous();
  };
  for (const Producer& producer : seam.producers) {
    change(producer.weight, with_rows_divided(value_of(producer.weight), by));
    if (producer.bias) change(*producer.bias, with_rows_divided(value_of(*producer.bias), by));
  }
  for (const Reader& reader : seam.readers)
    change(reader.weight, with_columns_scaled(reader, value_of(reader.weight), by));
}

}  // namespace qdq
