// Empirical bias correction, layer after layer.
#include <algorithm>
#include <array>
#include <cmath>
#include <unordered_map>

#include "base/undo.h"
#include "kernel/activation.h"
#include "kernel/pointwise.h"
#include "op/facts.h"
#include "quant/prepared_impl.h"
#include "quant/layers.h"
#include "recover/moments.h"
#include "recover/recovery.h"

namespace qdq {

namespace {

// Of fewer values a mean says more of these samples than of the layer.
constexpr int64_t kFewestValues = 8;

// The activation that alone reads the layer's value, observers aside.
kernel::Activation activation_behind(const Node& layer) {
  const Node* node = &layer;
  while (node->users().size() == 1) {
    node = node->users()[0];
    if (node->op() == Node::Op::kCallModule) continue;
    return activation_function(*node).value_or(kernel::Activation());
  }
  return {};
}

// Of those that lie beside each other.
int64_t values_of_channel(const Tensor& x, int64_t axis) {
  int64_t inner = 1;
  for (int64_t i = axis + 1; i < x.dim(); ++i) inner *= x.size(i);
  return inner;
}

// Sums over the channels of many tensors behind an activation, in double: row by row, batch after batch.
struct ChannelSums {
  std::vector<double> sums;
  double count = 0;  // of the values of one channel

  // Of activation(x + shift[channel]); no shifts: of activation(x).
  void add(const Tensor& x, int64_t axis, const kernel::Activation& activation, std::span<const float> shifts = {}) {
    const Tensor values = x.to(DType::kF32).contiguous();
    const int64_t channels = x.size(axis), inner = values_of_channel(x, axis);
    sums.resize(static_cast<size_t>(channels));
    if (values.numel() == 0) return;
    const int64_t rows = values.numel() / inner;
    for (int64_t row = 0; row < rows; row += kRowsAtOnce) {
      std::array<float, kRowsAtOnce> by{};
      const int64_t some = std::min(kRowsAtOnce, rows - row);
      for (int64_t r = 0; r < some && !shifts.empty(); ++r)
        by[static_cast<size_t>(r)] = shifts[static_cast<size_t>((row + r) % channels)];
      const auto found = sums_of_rows(values.data<float>() + row * inner, some, inner, by, activation);
      for (int64_t r = 0; r < some; ++r)
        sums[static_cast<size_t>((row + r) % channels)] += found[static_cast<size_t>(r)];
    }
    count += static_cast<double>(values.numel()) / static_cast<double>(channels);
  }

 private:
  static constexpr int64_t kRowsAtOnce = 8;

  // Of activation(row + by) for some rows that lie behind one another. Each sum is in the order of its row; the rows go
  // side by side, as an addition waits for the one before.
  static std::array<double, kRowsAtOnce> sums_of_rows(const float* from, int64_t rows, int64_t length,
                                                      const std::array<float, kRowsAtOnce>& by,
                                                      const kernel::Activation& activation) {
    constexpr int64_t kColumns = 256;  // at once, which stay in the nearest cache
    std::array<float, kRowsAtOnce * kColumns> part{};
    std::array<double, kRowsAtOnce> out{};
    for (int64_t first = 0; first < length; first += kColumns) {
      const int64_t columns = std::min(kColumns, length - first);
      for (int64_t r = 0; r < rows; ++r)
        kernel::add_scalar_f32(from + r * length + first, by[static_cast<size_t>(r)], columns,
                               part.data() + r * columns);
      if (activation.kind != kernel::Activation::Kind::kNone)
        kernel::activate_f32(activation, part.data(), rows * columns, part.data());
      for (int64_t i = 0; i < columns; ++i)
        for (int64_t r = 0; r < kRowsAtOnce; ++r)
          out[static_cast<size_t>(r)] += static_cast<double>(part[static_cast<size_t>(r * columns + i)]);
    }
    return out;
  }
};

// A layer whose bias is corrected, and what undoes it.
struct Correction {
  const Node* node;
  int64_t axis;
  OwnBias bias;
  kernel::Activation activation;
  ChannelSums wanted{};
};

constexpr uint64_t kBytes = uint64_t{1} << 30;  // of values between two layers

// The sums of all layers that may be corrected, of all samples.
class LayerWatcher : public Watcher {
 public:
  explicit LayerWatcher(const Prepared& prepared) {
    for (const QuantizedLayer& layer : quantized_layers(prepared))
      layers_[layer.node] = {layer.channel_axis, activation_behind(*layer.node), {}};
  }
  void see(const Node& node, const Tensor& x) override {
    if (const auto found = layers_.find(&node); found != layers_.end())
      found->second.wanted.add(x, found->second.axis, found->second.activation);
  }
  ChannelSums wanted(const Correction& correction) const { return layers_.at(correction.node).wanted; }

 private:
  struct Layer {
    int64_t axis = 0;
    kernel::Activation activation;
    ChannelSums wanted;
  };
  std::unordered_map<const Node*, Layer> layers_;
};

// The shift of each channel of the node's values that gives them, behind the activation, the means that are wanted: by
// Newton's method, whose slope is the mean slope of the activation. A channel that the activation shuts nearly always
// stays as it is.
Tensor shift_to_means(const std::vector<Interpreter::Walk>& walks, const Node& node, int64_t axis,
                      const kernel::Activation& activation, const ChannelSums& wanted) {
  const Tensor out = Tensor::empty({static_cast<int64_t>(wanted.sums.size())}, DType::kF32);
  const std::span<float> shift = out.span<float>();
  const auto sums_at = [&](std::span<const float> shifts) {
    ChannelSums sums;
    for (const Interpreter::Walk& walk : walks) sums.add(*walk.value(node).get_if<Tensor>(), axis, activation, shifts);
    return sums;
  };
  const bool is_linear = activation.kind == kernel::Activation::Kind::kNone;
  // Others than clamps cost far more to compute than they gain by a further round.
  const int rounds = is_linear ? 1 : activation.kind == kernel::Activation::Kind::kClamp ? 4 : 2;
  for (int round = 0; round < rounds; ++round) {
    const ChannelSums now = sums_at(shift);
    if (now.count < kFewestValues) break;
    std::vector<float> ahead(shift.begin(), shift.end());
    std::vector<double> steps(shift.size());
    for (size_t c = 0; c < shift.size(); ++c) {
      steps[c] = (wanted.sums[c] - now.sums[c]) / now.count;
      ahead[c] += static_cast<float>(steps[c]);
    }
    const ChannelSums then = is_linear ? ChannelSums() : sums_at(ahead);
    for (size_t c = 0; c < shift.size(); ++c) {
      const double gain = is_linear ? steps[c] : (then.sums[c] - now.sums[c]) / now.count;
      constexpr double kLeastSlope = 0.05;
      if (steps[c] == 0 || !std::isfinite(steps[c]) || gain / steps[c] < kLeastSlope) continue;
      shift[c] += static_cast<float>(steps[c] * steps[c] / gain);
    }
  }
  return out;
}

// The sums that the float layers have.
void add_wanted(Recovery& recovery, const std::vector<const Batch*>& batches, std::vector<Correction>& corrections) {
  std::unordered_map<const Node*, Correction*> by_node;
  for (Correction& correction : corrections) by_node[recovery.floats().node(*correction.node)] = &correction;

  Interpreter floats = recovery.floats().interpreter();
  floats.set_node_hook([&](const Node& node, const Value& value) {
    if (const auto found = by_node.find(&node); found != by_node.end())
      found->second->wanted.add(*value.get_if<Tensor>(), found->second->axis, found->second->activation);
  });
  for (const Batch* batch : batches) {
    recovery.tell_again();
    floats.run(*batch);
  }
}

void correct(Recovery& recovery, const std::vector<const Batch*>& batches, const std::vector<Correction>& corrections) {
  Prepared::Impl& impl = Prepared::Impl::of(recovery.prepared());
  Simulation simulation(recovery.prepared());
  std::vector<Interpreter::Walk> walks;
  for (const Batch* batch : batches) walks.push_back(simulation.walk(*batch));
  double done = 0;
  for (const Correction& correction : corrections) {
    recovery.tell("bias correction", done++ / static_cast<double>(corrections.size()));
    const Node& node = *simulation.node(*correction.node);
    for (Interpreter::Walk& walk : walks) {
      bool ran = false;
      while (!ran) {
        ran = walk.next() == &node;
        walk.advance();
      }
    }
    const Tensor shift = shift_to_means(walks, node, correction.axis, correction.activation, correction.wanted);
    const Tensor bias = impl.program.find_attribute(correction.bias.name)->tensor.clone();
    for (int64_t c = 0; c < bias.numel(); ++c) bias.data<float>()[c] += shift.data<float>()[c];
    impl.program.find_attribute(correction.bias.name)->tensor = bias;
    for (Interpreter::Walk& walk : walks) {
      const Tensor value = walk.value(node).get_if<Tensor>()->contiguous().clone();
      const int64_t inner = values_of_channel(value, correction.axis);
      float* out = value.data<float>();
      for (int64_t row = 0; row * inner < value.numel(); ++row, out += inner) {
        const float by = shift.data<float>()[row % shift.numel()];
        for (int64_t i = 0; i < inner; ++i) out[i] += by;
      }
      walk.set_value(node, value);
    }
  }
}

}  // namespace

std::unique_ptr<Watcher> watch_to_correct(Recovery& recovery) {
  const bool sees_all = recovery.some_batches(recovery.samples_within(kBytes)).size() == recovery.batches().size();
  return sees_all ? std::make_unique<LayerWatcher>(recovery.prepared()) : nullptr;
}

int64_t correct_biases(Recovery& recovery) {
  Prepared::Impl& impl = Prepared::Impl::of(recovery.prepared());
  Rehearsal rehearsal(recovery, correct_biases, Rehearsal::When::kFewSamples);
  const double before = recovery.decibels();
  recovery.floats();
  std::vector<Correction> corrections;
  for (const QuantizedLayer& layer : quantized_layers(recovery.prepared())) {
    const TensorMeta* value = layer.node->meta.val.tensor();
    const auto channels = value->sizes[static_cast<size_t>(layer.channel_axis)].constant();
    if (!channels) continue;
    if (auto bias = own_bias(impl, *layer.node, *channels))
      corrections.push_back({layer.node, layer.channel_axis, std::move(*bias), activation_behind(*layer.node)});
  }
  Undo undo_all([&] {
    for (const Correction& correction : corrections) undo(impl, correction.bias);
    impl.interpreter.reset();
    recovery.forget_simulation();
  });
  const std::vector<const Batch*> some = recovery.some_batches(recovery.samples_within(kBytes));
  if (const auto seen = recovery.kept(watch_to_correct))
    for (Correction& each : corrections) each.wanted = static_cast<const LayerWatcher&>(*seen).wanted(each);
  else add_wanted(recovery, some, corrections);
  correct(recovery, some, corrections);
  impl.interpreter.reset();
  recovery.forget_simulation();
  if (!(recovery.decibels() > before) || !rehearsal.succeeds()) return 0;
  undo_all.keep();
  for (const Correction& correction : corrections) keep(impl, correction.bias);
  return static_cast<int64_t>(corrections.size());
}

int64_t correct_biases_by(Prepared& prepared, const MomentsOfLayers& moments) {
  Prepared::Impl& impl = Prepared::Impl::of(prepared);
  const Simulation simulation(prepared);
  int64_t corrected = 0;
  for (const QuantizedLayer& layer : quantized_layers(prepared)) {
    const auto found = moments.find(layer.node->name());
    const auto constant = own_constant(impl, weight_of(*layer.node));
    // Rounding took the bias with it.
    if (found == moments.end() || !constant || impl.float_constants.count(constant->name) != 0) continue;
    const LayerMoments& seen = found->second;
    if (seen.places < kFewestValues) continue;
    const Tensor weight = impl.program.find_attribute(constant->name)->tensor.contiguous();
    const auto own = own_bias(impl, *layer.node, weight.size(0));
    if (!own) continue;
    const Tensor rounded = simulation.rounded(layer.weight_observer, weight);
    Tensor& bias = impl.program.find_attribute(own->name)->tensor;
    bias = bias.contiguous().clone();
    for (int64_t row = 0; row < weight.size(0); ++row) {
      const int64_t first = row / (weight.size(0) / seen.groups) * seen.depth;
      double moved = 0;
      for (int64_t k = 0; k < seen.depth; ++k) {
        const int64_t at = row * seen.depth + k;
        moved += (static_cast<double>(weight.data<float>()[at]) - static_cast<double>(rounded.data<float>()[at])) *
                 seen.sums[static_cast<size_t>(first + k)];
      }
      bias.data<float>()[row] += static_cast<float>(moved / static_cast<double>(seen.places));
    }
    keep(impl, *own);
    ++corrected;
  }
  return corrected;
}

}  // namespace qdq
