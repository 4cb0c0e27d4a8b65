#include "recover/statistics.h"

#include <algorithm>
#include <unordered_set>

#include "base/listed.h"
#include "quant/observers/qparams.h"
#include "recover/moments.h"
#include "recover/seams.h"

namespace qdq {

double LayerMoments::square_of(int64_t group, int64_t column) const {
  if (!has_products) return squares[static_cast<size_t>(group * depth + column)];
  return squares[static_cast<size_t>(group * (depth * (depth + 1) / 2) + column * (column + 1) / 2 + column)];
}

void LayerMoments::divide(const std::vector<float>& by) {
  const auto channels = static_cast<int64_t>(by.size()), taps = groups * depth / channels;
  const auto factor = [&](int64_t group, int64_t column) {
    return static_cast<double>(by[static_cast<size_t>((group * depth + column) / taps)]);
  };
  for (size_t c = 0; c < by.size(); ++c) {
    least[c] /= by[c];
    largest[c] /= by[c];
  }
  size_t at = 0;
  for (int64_t group = 0; group < groups; ++group)
    for (int64_t i = 0; i < depth; ++i) {
      sums[static_cast<size_t>(group * depth + i)] /= factor(group, i);
      if (!has_products) squares[at++] /= factor(group, i) * factor(group, i);
      for (int64_t j = 0; has_products && j <= i; ++j) squares[at++] /= factor(group, i) * factor(group, j);
    }
}

MomentsOfLayers moments_of_layers(const Prepared& prepared) {
  QDQ_CHECK(!layer_statistics(prepared).empty(), kNotCalibrated,
            "there are no statistics of layers to recover accuracy by; observe the layers while the program is "
            "calibrated (qdq calibrate --recover)");
  MomentsOfLayers out;
  for (const LayerStatistics& layer : layer_statistics(prepared)) {
    if (layer.places == 0) continue;
    out[layer.layer] = {layer.groups, layer.depth,   layer.places,        layer.has_products,
                        layer.least,  layer.largest, layer.sums.values(), layer.squares.values()};
  }
  return out;
}

namespace {

// The mean over the rows of noise over signal, each at most 1, of a layer with this weight: by the difference of the
// rounded weight, and by what it reads having the variance `noise`.
double foreseen_share(const LayerMoments& seen, const Tensor& weight, const Tensor& rounded, double noise) {
  const std::span<const float> exact = weight.span<float>(), found = rounded.span<float>();
  const auto rows = weight.size(0), rows_of_group = rows / seen.groups;
  double share = 0;
  int64_t speaking = 0;
  for (int64_t row = 0; row < rows; ++row) {
    double lost = 0, signal = 0;
    for (int64_t k = 0; k < seen.depth; ++k) {
      const auto at = static_cast<size_t>(row * seen.depth + k);
      const double square = seen.square_of(row / rows_of_group, k) / static_cast<double>(seen.places);
      const double value = exact[at], off = value - static_cast<double>(found[at]);
      lost += off * off * square + value * value * noise;
      signal += value * value * square;
    }
    if (!(signal > 0)) continue;
    share += std::min(1.0, lost / signal);
    ++speaking;
  }
  return speaking > 0 ? share / static_cast<double>(speaking) : 0;
}

double variance_of_step(double scale) { return scale * scale / 12; }

Tensor constant_value(const Prepared& prepared, const OwnConstant& constant) {
  return prepared.program().find_attribute(constant.name)->tensor.contiguous();
}

Tensor rounded_if_observed(const Prepared& prepared, const OwnConstant& constant, const Tensor& weight) {
  return constant.observer ? rounded_weight(weight, *prepared.observers()[*constant.observer].observer) : weight;
}

// The error that all layers around a seam are foreseen to have with these factors; none: as they are, by the range that
// their observer has now.
double foreseen_error(const Prepared& prepared, const Seam& seam, const MomentsOfLayers& moments,
                      const std::vector<float>& factors) {
  const std::vector<float> by = factors.empty() ? std::vector<float>(seam.fixed.size(), 1.0f) : factors;
  double error = 0;
  for (const Producer& producer : seam.producers)
    if (const auto seen = moments.find(producer.node->name()); seen != moments.end()) {
      const Tensor weight = with_rows_divided(producer, constant_value(prepared, producer.weight), by);
      error += foreseen_share(seen->second, weight, rounded_if_observed(prepared, producer.weight, weight), 0);
    }
  for (const Reader& reader : seam.readers) {
    LayerMoments seen = moments.at(reader.node->name());
    seen.divide(factors_at(reader.channels, by));
    const Tensor weight = with_columns_scaled(reader, constant_value(prepared, reader.weight), by);
    double noise = 0;
    if (const auto group = Prepared::Impl::of(prepared).group_of_module(*reader.input)) {
      const Observer& observer = *prepared.observers()[*group].observer;
      const FloatRange range = range_seen(seam, *group, by);
      const QParams qparams = factors.empty()
                                  ? observer.calculate_qparams()
                                  : qparams_of_range(std::span(&range.min, 1), std::span(&range.max, 1),
                                                     observer.args(), {observer.quant_min(), observer.quant_max()});
      noise = variance_of_step(static_cast<double>(qparams.scale[0]));
    }
    error += foreseen_share(seen, weight, rounded_if_observed(prepared, reader.weight, weight), noise);
  }
  return error;
}

// Whether the sums tell all that the seam needs: what each reader reads, and all that its observers see.
bool is_told(const Prepared& prepared, Seam& seam, const MomentsOfLayers& moments) {
  if (has_clamps(seam)) return false;
  std::unordered_set<size_t> before_readers;
  std::vector<bool> told(seam.fixed.size());
  seam.min.resize(told.size());
  seam.max.resize(told.size());
  for (const Reader& reader : seam.readers) {
    const auto seen = moments.find(reader.node->name());
    if (seen == moments.end() || seen->second.least.size() != reader.channels.size()) return false;
    if (const auto group = Prepared::Impl::of(prepared).group_of_module(*reader.input)) before_readers.insert(*group);
    for (size_t i = 0; i < reader.channels.size(); ++i) {
      const auto c = static_cast<size_t>(reader.channels[i]);
      told[c] = true;
      seam.min[c] = std::min(seam.min[c], seen->second.least[i]);
      seam.max[c] = std::max(seam.max[c], seen->second.largest[i]);
    }
  }
  if (std::count(told.begin(), told.end(), false) != 0) return false;
  return std::all_of(seam.looks.begin(), seam.looks.end(), [&](const Look& one) {
    const auto looks = std::count_if(seam.looks.begin(), seam.looks.end(),
                                     [&](const Look& look) { return look.observer == one.observer; });
    return before_readers.count(one.observer) != 0 &&
           looks == std::ssize(prepared.observers()[one.observer].inserted_as);
  });
}

}  // namespace

int64_t equalize_by(Prepared& prepared, MomentsOfLayers& moments) {
  const Prepared::Impl& impl = Prepared::Impl::of(prepared);
  if (!impl.float_constants.empty()) return 0;  // what is rounded already cannot be shared out
  int64_t changed = 0;
  for (Seam& seam : seams_of(prepared)) {
    if (!is_told(prepared, seam, moments)) continue;
    double least = foreseen_error(prepared, seam, moments, {});
    constexpr double kWorthIt = 0.67;
    least *= kWorthIt;
    std::vector<float> best;
    for (const double alpha : kAlphas) {
      std::vector<float> by = factors_of(impl, seam, alpha);
      const double error = foreseen_error(prepared, seam, moments, by);
      if (!(error < least)) continue;
      least = error;
      best = std::move(by);
    }
    if (best.empty()) continue;
    BeforeChannels before;
    apply_seam(prepared, before, seam, best);
    for (const Look& look : seam.looks) {
      const FloatRange range = range_seen(seam, look.observer, best);
      prepared.set_range(look.observer, Tensor::scalar(range.min), Tensor::scalar(range.max));
    }
    for (const Reader& reader : seam.readers) moments.at(reader.node->name()).divide(factors_at(reader.channels, best));
    ++changed;
  }
  return changed;
}

std::vector<AppliedRemedy> recover_by_statistics(Prepared& prepared) {
  Prepared::Impl& impl = Prepared::Impl::of(prepared);
  impl.check_idle();
  QDQ_CHECK(!prepared.needs_data(), kNotCalibrated,
            "the program is not calibrated; give it the state of the calibration before accuracy is recovered");
  const std::vector<std::string> unseen = prepared.values_without_data();
  QDQ_CHECK(unseen.empty(), kNotCalibrated, "no sample of the calibration has reached ", listed(unseen, 5),
            "; calibrate on samples that reach every part of the model before accuracy is recovered by its state");
  QDQ_CHECK(impl.equalized.empty(), kInvalidArgument,
            "the recipe equalizes inputs with their weights when it converts, which recovery does not foresee (it "
            "equalizes channels itself); leave the equalization config out");
  MomentsOfLayers moments = moments_of_layers(prepared);
  std::vector<AppliedRemedy> out;
  out.push_back({"equalization", equalize_by(prepared, moments)});
  out.push_back({"rounding", round_weights_by(prepared, moments)});
  out.push_back({"bias correction", correct_biases_by(prepared, moments)});
  impl.interpreter.reset();
  return out;
}

}  // namespace qdq
