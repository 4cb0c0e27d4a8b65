// Sizes of channels for weights in groups.
#include "recover/awq.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "base/undo.h"
#include "kernel/gemm.h"
#include "op/math.h"
#include "quant/observers/fake_quantize.h"
#include "recover/seams.h"

namespace qdq {

namespace {

// What layers read along the last axis: some rows of it, and the sums of all magnitudes.
struct ReadRows {
  std::vector<float> rows;
  std::vector<double> magnitudes;
  int64_t count = 0;

  void add(const Tensor& read, int64_t most) {
    const Tensor x = read.contiguous();
    const int64_t depth = x.dim() == 0 ? 0 : x.size(-1);
    if (depth == 0 || x.dtype() != DType::kF32) return;
    const int64_t all = x.numel() / depth, step = std::max<int64_t>(1, (all + most - 1) / most);
    magnitudes.resize(static_cast<size_t>(depth));
    const float* values = x.data<float>();
    for (int64_t row = 0; row < all; ++row, values += depth) {
      for (int64_t i = 0; i < depth; ++i)
        magnitudes[static_cast<size_t>(i)] += static_cast<double>(std::fabs(values[i]));
      if (row % step == 0) rows.insert(rows.end(), values, values + depth);
    }
    count += all;
  }
};

bool is_grouped(const Prepared::Impl& impl, const Reader& reader) {
  return reader.weight.observer && impl.groups[*reader.weight.observer].observer->args().group_size != 0;
}

// The places where channels can be scaled for the sake of weights in groups alone.
std::vector<Seam> seams_of_groups(const Prepared& prepared) {
  const Prepared::Impl& impl = Prepared::Impl::of(prepared);
  std::vector<Seam> out = seams_of(prepared, true);
  std::erase_if(out, [&](const Seam& seam) {
    const auto suits = [&](const Reader& reader) { return !reader.weight.observer || is_grouped(impl, reader); };
    const auto grouped = [&](const Reader& reader) { return is_linear(*reader.node) && is_grouped(impl, reader); };
    return has_clamps(seam) || !seam.looks.empty() || !std::all_of(seam.readers.begin(), seam.readers.end(), suits) ||
           std::none_of(seam.readers.begin(), seam.readers.end(), grouped);
  });
  return out;
}

std::map<const Node*, ReadRows> rows_read(const Prepared& prepared, const std::vector<Seam>& seams,
                                          const std::vector<Batch>& batches) {
  constexpr int64_t kMostRows = 512;
  const int64_t most = (kMostRows + std::ssize(batches) - 1) / std::ssize(batches);
  std::map<const Node*, ReadRows> out;
  for (const Seam& seam : seams)
    for (const Reader& reader : seam.readers) out[reader.input];
  Interpreter floats = float_interpreter(prepared);
  floats.set_node_hook([&](const Node& node, const Value& value) {
    const auto found = out.find(&node);
    const Tensor* x = value.get_if<Tensor>();
    if (found != out.end() && x != nullptr) found->second.add(*x, most);
  });
  for (const Batch& batch : batches) floats.run(batch);
  return out;
}

// The logarithm of each channel's mean magnitude, nothing for channels that keep their size.
std::vector<std::optional<double>> logarithms(const Seam& seam, const std::map<const Node*, ReadRows>& read) {
  std::vector<double> sums(seam.fixed.size()), counts(seam.fixed.size());
  for (const Reader& reader : seam.readers) {
    const ReadRows& rows = read.at(reader.input);
    for (size_t i = 0; i < std::min(reader.channels.size(), rows.magnitudes.size()); ++i) {
      sums[static_cast<size_t>(reader.channels[i])] += rows.magnitudes[i];
      counts[static_cast<size_t>(reader.channels[i])] += static_cast<double>(rows.count);
    }
  }
  std::vector<std::optional<double>> out(sums.size());
  for (size_t c = 0; c < sums.size(); ++c)
    if (!seam.fixed[c] && sums[c] > 0 && std::isfinite(sums[c])) out[c] = math::log(sums[c] / counts[c]);
  return out;
}

std::vector<float> factors_of(const std::vector<std::optional<double>>& logarithms, double alpha) {
  double least = 0, most = 0;
  bool is_first = true;
  for (const auto& each : logarithms) {
    if (!each) continue;
    least = is_first ? *each : std::min(least, *each);
    most = is_first ? *each : std::max(most, *each);
    is_first = false;
  }
  std::vector<float> out(logarithms.size(), 1.0f);
  for (size_t c = 0; c < out.size(); ++c)
    if (logarithms[c]) out[c] = static_cast<float>(math::exp(alpha * (*logarithms[c] - (least + most) / 2)));
  return out;
}

// What rounding takes from the columns of a weight that are multiplied by these factors, divided by them again.
Tensor rounding_of(const Tensor& weight, const Observer& observer, const std::vector<float>& factors) {
  const int64_t depth = weight.size(1), group = observer.args().group_size;
  const Tensor scaled = weight.clone();
  for (int64_t i = 0; i < scaled.numel(); ++i) scaled.data<float>()[i] *= factors[static_cast<size_t>(i % depth)];
  const Tensor rounded = fake_quantized(scaled.reshape({scaled.numel() / group, group}), observer.qparams_after(scaled),
                                        observer.args(), {observer.quant_min(), observer.quant_max()});
  const Tensor out = rounded.contiguous().reshape(weight.sizes()).clone();
  for (int64_t i = 0; i < out.numel(); ++i)
    out.data<float>()[i] = out.data<float>()[i] / factors[static_cast<size_t>(i % depth)] - weight.data<float>()[i];
  return out;
}

// The sum of squares of what a layer gives on rows with this weight, or for what rounding takes from it.
double squares_on(const ReadRows& read, const Tensor& weight) {
  const int64_t rows = weight.size(0), depth = weight.size(1), places = std::ssize(read.rows) / depth;
  std::vector<float> out(static_cast<size_t>(places * rows));
  kernel::gemm_f32(places, rows, depth, {read.rows.data(), depth, 1}, {weight.data<float>(), 1, depth}, nullptr,
                   kernel::BiasAxis::kNone, out.data(), rows);
  double sum = 0;
  for (const float each : out) sum += static_cast<double>(each) * static_cast<double>(each);
  return sum;
}

// What layers lose by rounding of what they give, each layer's part counted the same.
double share_lost(const Prepared::Impl& impl, const BeforeChannels& before, const Seam& seam,
                  const std::map<const Node*, ReadRows>& read, const std::vector<float>& factors) {
  double sum = 0;
  for (const Reader& reader : seam.readers) {
    if (!is_grouped(impl, reader)) continue;
    const Tensor weight = impl.program.find_attribute(reader.weight.name)->tensor.contiguous();
    const Tensor rounding =
        rounding_of(weight, *before.observers[*reader.weight.observer], factors_at(reader.channels, factors));
    const ReadRows& rows = read.at(reader.input);
    const double signal = squares_on(rows, weight);
    if (signal > 0) sum += squares_on(rows, rounding) / signal;
  }
  return sum;
}

// The factors with the least error; nothing if those are 1.
std::optional<std::vector<float>> best_factors(const Prepared::Impl& impl, const BeforeChannels& before,
                                               const Seam& seam, const std::map<const Node*, ReadRows>& read) {
  constexpr int kSteps = 20;
  const auto sizes = logarithms(seam, read);
  std::optional<std::vector<float>> out;
  double least = 0;
  for (int step = 0; step < kSteps; ++step) {
    std::vector<float> factors = factors_of(sizes, static_cast<double>(step) / kSteps);
    const double error = share_lost(impl, before, seam, read, factors);
    if (step != 0 && !(error < least)) continue;
    least = error;
    if (step != 0) out = std::move(factors);
  }
  return out;
}

}  // namespace

bool awq_has_places(Prepared& prepared) { return !seams_of_groups(prepared).empty(); }

int64_t awq(Prepared& prepared, const std::vector<Batch>& batches,
            const std::function<void(int64_t done, int64_t total)>& on_scaling) {
  QDQ_CHECK(!batches.empty(), kInvalidArgument, "there are no samples to scale channels by");
  Prepared::Impl& impl = Prepared::Impl::of(prepared);
  impl.check_idle();
  QDQ_CHECK(impl.float_constants.empty(), kInvalidArgument,
            "the weights are rounded already, which channels cannot be scaled behind; call awq before gptq");
  const std::vector<Seam> seams = seams_of_groups(prepared);
  if (seams.empty()) return 0;
  const std::map<const Node*, ReadRows> read = rows_read(prepared, seams, batches);
  BeforeChannels before = before_channels(impl);
  Undo undo_all([&] { undo(impl, before); });
  int64_t changed = 0;
  for (size_t i = 0; i < seams.size(); ++i) {
    if (on_scaling) on_scaling(static_cast<int64_t>(i), std::ssize(seams));
    const auto factors = best_factors(impl, before, seams[i], read);
    if (!factors) continue;
    apply_seam(prepared, before, seams[i], *factors);
    ++changed;
  }
  if (on_scaling) on_scaling(std::ssize(seams), std::ssize(seams));
  undo_all.keep();
  return changed;
}

}  // namespace qdq
