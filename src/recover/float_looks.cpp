#include "recover/float_looks.h"

#include <algorithm>

#include "op/facts.h"
#include "quant/prepared_impl.h"

namespace qdq {

namespace {

// What the clamps that alone read a value let through of it.
FloatRange let_through(const Node& observer) {
  FloatRange out{kInf, -kInf};
  for (const Node* user : observer.users()) {
    const auto function = activation_function(*user);
    if (!function || user->arg(0).node() != &observer) return {-kInf, kInf};
    if (function->kind == kernel::Activation::Kind::kClamp) {
      out = {std::min(out.min, static_cast<float>(function->low)),
             std::max(out.max, static_cast<float>(function->high))};
    } else {
      return {-kInf, kInf};
    }
  }
  return out.min <= out.max ? out : FloatRange{-kInf, kInf};
}

Tensor clamped(const Tensor& x, const FloatRange& bounds) {
  if (bounds.min == -kInf && bounds.max == kInf) return x;
  const Tensor out = x.to(DType::kF32).clone();
  for (float& value : out.span<float>()) value = std::clamp(value, bounds.min, bounds.max);
  return out;
}

void widen(std::vector<float>& min, std::vector<float>& max, const Tensor& x, int64_t axis) {
  const ChannelRanges ranges = channel_ranges_of(x, axis);
  if (min.empty()) {
    min = ranges.min;
    max = ranges.max;
  }
  for (size_t c = 0; c < min.size(); ++c) {
    min[c] = std::min(min[c], ranges.min[c]);
    max[c] = std::max(max[c], ranges.max[c]);
  }
}

// Takes the ranges of the seams' channels from what nodes give.
Interpreter::NodeHook channel_hook(std::vector<Seam>& seams) {
  std::map<const Node*, std::vector<std::pair<Seam*, int64_t>>> by_input;
  std::map<const Node*, std::pair<Seam*, int64_t>> clamped;
  for (Seam& seam : seams) {
    for (const Reader& reader : seam.readers) by_input[reader.input].emplace_back(&seam, reader.axis);
    for (const auto& [value, axis] : seam.cut) clamped[value] = {&seam, axis};
  }
  if (by_input.empty()) return {};
  return [by_input, clamped](const Node& node, const Value& value) {
    const Tensor* x = value.get_if<Tensor>();
    if (x == nullptr || x->numel() == 0) return;
    if (const auto seam = clamped.find(&node); seam != clamped.end())
      widen(seam->second.first->low, seam->second.first->high, *x, seam->second.second);
    if (const auto found = by_input.find(&node); found != by_input.end())
      for (const auto& [seam, axis] : found->second) widen(seam->min, seam->max, *x, axis);
  };
}

}  // namespace

FloatLooks FloatLooks::of(const Prepared& prepared, const std::vector<std::vector<Tensor>>& batches,
                          const std::function<void()>& tell,
                          const std::function<void(std::vector<Tensor> outputs)>& take) {
  const Prepared::Impl& impl = Prepared::Impl::of(prepared);
  FloatLooks out;
  out.seams = seams_of(prepared);
  for (size_t i = 0; i < impl.groups.size(); ++i) {
    const Observer* observer = impl.groups[i].observer.get();
    if (impl.takes_range(i) && !is_per_channel(observer->args().qscheme) && impl.of_constants.count(observer) == 0)
      out.histograms[i];
  }
  Interpreter floats(impl.program, impl.backends);
  floats.set_module_handler([&](const Node& node, std::span<const Value> args, const kernel::MinMax*) {
    const Tensor* x = args[0].get_if<Tensor>();
    const auto histogram = out.histograms.find(impl.group_of_module(node).value());
    if (histogram != out.histograms.end() && x != nullptr) histogram->second.add(clamped(*x, let_through(node)));
    return args[0];
  });
  floats.set_node_hook(channel_hook(out.seams));
  for (const std::vector<Tensor>& batch : batches) {
    tell();
    std::vector<Tensor> outputs = floats.run(batch);
    if (take) take(std::move(outputs));
  }
  return out;
}

}  // namespace qdq
