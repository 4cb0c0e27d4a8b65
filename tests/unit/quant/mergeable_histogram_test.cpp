#include "quant/observers/observer_mergeable_histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "quant/pt2e.h"
#include "quant/quantizers/mergeable_quantizer.h"
#include "quant/quantizers/x86_inductor_quantizer.h"
#include "unit/quant/program_builder.h"

namespace qdq::mergeable_histogram_test {
namespace {

ObserverArgs args_of(const char* dtype, QScheme qscheme = QScheme::kPerTensorAffine) {
  ObserverArgs args;
  set_dtype(args, dtype);
  args.qscheme = qscheme;
  return args;
}

// Sums of numbers from -1 to 1, and of these what a relu leaves.
Tensor bell(uint32_t seed, bool relu) {
  const Tensor out = sample({20000}, seed);
  for (uint32_t k = 1; k < 6; ++k) {
    const Tensor more = sample({20000}, seed * 31 + k);
    for (size_t i = 0; i < 20000; ++i) out.span<float>()[i] += more.span<float>()[i];
  }
  if (relu)
    for (float& value : out.span<float>()) value = std::max(value, 0.0f);
  return out;
}

TEST(MergeableHistogramObserver, FindsAlmostTheScaleOfHistogramObserver) {
  for (const bool relu : {false, true})
    for (const char* dtype : {"int8", "uint8"}) {
      const ObserverArgs args = args_of(dtype);
      const auto ours = make_observer("MergeableHistogramObserver", args);
      const auto theirs = make_observer("HistogramObserver", args);
      for (uint32_t seed = 1; seed <= 4; ++seed) {
        ours->forward(bell(seed, relu));
        theirs->forward(bell(seed, relu));
      }
      const float a = ours->calculate_qparams().scale[0], b = theirs->calculate_qparams().scale[0];
      EXPECT_NEAR(a / b, 1, 0.02) << dtype << " " << relu;
      EXPECT_LT(a, (ours->max_val().item() - ours->min_val().item()) / 255) << "the ends are worth cutting";
    }
}

constexpr const char* kByRules[] = {"PercentileObserver", "EntropyObserver", "MSEObserver"};

double range_of(Observer& observer) {
  return static_cast<double>(observer.calculate_qparams().scale[0]) *
         static_cast<double>(observer.quant_max() - observer.quant_min());
}

// But for MSEObserver, which one far value costs more than the rounding of 20,000 others.
TEST(ObserversByRule, CutOutliersAway) {
  Tensor x = bell(3, true);
  x.span<float>()[7] = 100;
  for (const char* name : {"PercentileObserver", "EntropyObserver"})
    for (const QScheme scheme : {QScheme::kPerTensorAffine, QScheme::kPerTensorSymmetric}) {
      const auto observer = make_observer(name, args_of("uint8", scheme));
      observer->forward(x);
      EXPECT_GT(range_of(*observer), 2) << name;
      EXPECT_LT(range_of(*observer), 80) << name;
      EXPECT_EQ(observer->max_val().item(), 100) << name;
    }
}

TEST(ObserversByRule, KeepWhatIsSpreadEvenly) {
  const Tensor x = Tensor::empty({20000}, DType::kF32);
  for (size_t i = 0; i < 20000; ++i) x.span<float>()[i] = static_cast<float>(i) / 20000 - 0.5F;
  for (const char* name : kByRules) {
    const auto observer = make_observer(name, args_of("int8"));
    observer->forward(x);
    EXPECT_NEAR(range_of(*observer), 1, 0.02) << name;
  }
}

TEST(PercentileObserver, HoldsItsShareOfTheValues) {
  const Tensor x = bell(5, false);
  std::vector<float> sorted(x.span<float>().begin(), x.span<float>().end());
  std::sort(sorted.begin(), sorted.end());
  for (const double percent : {90.0, 99.0, 100.0}) {
    ObserverArgs args = args_of("int8");
    args.percentile = percent;
    const auto observer = make_observer("PercentileObserver", args);
    observer->forward(x);
    const auto cut = static_cast<size_t>(std::lround(20000 * (1 - percent / 100) / 2));
    EXPECT_NEAR(range_of(*observer), sorted[19999 - cut] - sorted[cut], 0.02) << percent;
  }
  for (const double wrong : {0.0, -1.0, 100.5, std::nan("")}) {
    ObserverArgs args = args_of("int8");
    args.percentile = wrong;
    EXPECT_THROW(make_observer("PercentileObserver", args), Error) << wrong;
  }
}

// Rounded in the range that is found, values are as near as in any other range.
TEST(MSEObserver, LeavesTheLeastSquaredError) {
  Tensor x = bell(9, true);
  for (size_t i = 0; i < 20; ++i) x.span<float>()[i] *= 4;
  const auto observer = make_observer("MSEObserver", args_of("uint8"));
  observer->forward(x);
  const auto error_of = [&](double range) {
    const double step = range / 255;
    double sum = 0;
    for (const float value : x.span<float>())
      sum += std::pow(value - step * std::clamp(std::round(value / step), 0.0, 255.0), 2);
    return sum;
  };
  const double found = error_of(range_of(*observer));
  for (double range = 1; range < observer->max_val().item(); range += 0.1)
    EXPECT_LT(found, 1.1 * error_of(range)) << range;
}

// The divergence as its definition has it, value by value, for the range that is found and for others.
TEST(EntropyObserver, LeavesTheLeastDivergence) {
  Tensor x = bell(11, true);
  for (size_t i = 0; i < 20; ++i) x.span<float>()[i] *= 6;
  const auto observer = make_observer("EntropyObserver", args_of("uint8"));
  observer->forward(x);
  const double most = observer->max_val().item(), width = std::exp2(std::ceil(std::log2(most)) - 11);
  const auto divergence_of = [&](double range) {
    const auto bins = static_cast<size_t>(std::ceil(range / width));
    std::vector<double> counts(bins), inside(bins), left(bins);
    for (const float value : x.span<float>()) {
      const auto bin = static_cast<size_t>(value / width);
      ++counts[std::min(bin, bins - 1)];
      if (bin < bins) ++inside[bin];
    }
    inside[0] = counts[0] = std::min(counts[0], counts[1]);  // of zeros
    const auto integer_of = [&](size_t bin) {
      return std::lround((static_cast<double>(bin) + 0.5) * width / (range / 255));
    };
    double kept = 0, sum = 0;
    const double total = std::accumulate(counts.begin(), counts.end(), 0.0);
    for (size_t bin = 0; bin < bins; ++bin) {
      double all = 0, filled = 0;
      for (size_t other = 0; other < bins; ++other)
        if (integer_of(other) == integer_of(bin)) {
          all += inside[other];
          filled += counts[other] > 0;
        }
      if (counts[bin] > 0) left[bin] = std::max(all / filled, 1e-3);
      kept += inside[bin];
    }
    for (size_t bin = 0; bin < bins; ++bin)
      if (counts[bin] > 0) sum += counts[bin] / total * std::log(counts[bin] / total / (left[bin] / kept));
    return sum;
  };
  const double found = divergence_of(range_of(*observer));
  for (int i = 128; most * i / 128 >= 255 * width; i -= 4) EXPECT_LE(found, divergence_of(most * i / 128) + 1e-9) << i;
}

TEST(MergeableHistogramObserver, GivesTheSameInAnyOrder) {
  std::vector<Tensor> batches;
  for (uint32_t seed = 1; seed <= 5; ++seed) {
    batches.push_back(bell(seed, seed % 2 == 0));
    for (float& value : batches.back().span<float>()) value *= std::ldexp(1.0f, static_cast<int>(seed * 7) - 20);
  }
  std::vector<size_t> order{0, 1, 2, 3, 4};
  std::optional<QParams> wanted;
  do {
    MergeableHistogramObserver observer(args_of("int8"));
    for (const size_t i : order) observer.forward(batches[i]);
    const QParams found = observer.calculate_qparams();
    if (!wanted) wanted = found;
    ASSERT_EQ(found.scale, wanted->scale);
    ASSERT_EQ(found.zero_point, wanted->zero_point);
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(MergeableHistogramObserver, TakesHugeTinyAndEqualNumbers) {
  const auto range_of_values = [](std::initializer_list<float> values) {
    MergeableHistogramObserver observer(args_of("uint8"));
    observer.forward(Tensor::of<float>({static_cast<int64_t>(values.size())}, values));
    const QParams found = observer.calculate_qparams();
    return std::pair(found.scale[0], found.zero_point[0]);
  };
  EXPECT_NEAR(range_of_values({3e38f, 1e38f, 0}).first / (3e38f / 255), 1, 0.02);
  EXPECT_EQ(range_of_values({1e-44f, -1e-44f}).first, 1.1920928955078125e-07f);  // eps
  EXPECT_EQ(range_of_values({0, -0.0f}).first, 1.1920928955078125e-07f);
  EXPECT_EQ(range_of_values({5, 5, 5}), std::pair(5.0f / 255, int64_t{0}));
  EXPECT_EQ(range_of_values({5, INFINITY, 5}), std::pair(5.0f / 255, int64_t{0}));
}

TEST(MergeableHistogramObserver, RefusesWhatHistogramObserverRefuses) {
  MergeableHistogramObserver observer(args_of("int8"));
  EXPECT_THROW(observer.forward(Tensor::of<float>({2}, {1, NAN})), Error);
  EXPECT_THROW(observer.forward(Tensor::empty({2}, DType::kS32)), Error);
  EXPECT_THROW(observer.calculate_qparams(), Error);
  EXPECT_THROW(MergeableHistogramObserver(args_of("int8", QScheme::kPerChannelAffine)), Error);
  ObserverArgs args = args_of("int8");
  args.bins = 256;
  EXPECT_THROW(MergeableHistogramObserver{args}, Error);
}

TEST(MergeableHistogramObserver, TakesOverWhatAnotherSaw) {
  MergeableHistogramObserver first(args_of("int8")), second(args_of("int8"));
  first.forward(bell(1, false));
  second.set_state(first.min_val(), first.max_val(), first.histogram());
  EXPECT_EQ(second.calculate_qparams().scale, first.calculate_qparams().scale);
  first.forward(bell(2, false));
  second.forward(bell(2, false));
  EXPECT_EQ(second.calculate_qparams().scale, first.calculate_qparams().scale);
  EXPECT_THROW(second.set_state(first.min_val(), first.max_val(), first.histogram().to(DType::kF32)), Error);
  EXPECT_THROW(second.set_state(first.min_val(), Tensor::scalar(100.0f), first.histogram()), Error);
}

TEST(MergeableQuantizer, ChangesTheHistogramsAlone) {
  const auto classes = [](bool mergeable) {
    ProgramBuilder b;
    Node* x = b.input("x", {2, 8});
    Node* linear = b.call("linear.default", {x, b.weight("weight", {3, 8})});
    const Program program = b.finish({Argument(linear)});
    auto inner = std::make_unique<X86InductorQuantizer>();
    inner->set_global(get_default_x86_inductor_quantization_config());
    std::unique_ptr<Quantizer> quantizer = std::move(inner);
    if (mergeable) quantizer = std::make_unique<MergeableQuantizer>(std::move(quantizer));
    const Prepared prepared = prepare_pt2e(program.clone(), *quantizer);
    std::vector<std::string> out;
    for (const ObserverGroup& group : prepared.observers()) out.emplace_back(group.observer->class_name());
    return out;
  };
  std::vector<std::string> wanted = classes(false);
  EXPECT_NE(std::find(wanted.begin(), wanted.end(), "HistogramObserver"), wanted.end());
  EXPECT_NE(std::find(wanted.begin(), wanted.end(), "PerChannelMinMaxObserver"), wanted.end());
  std::replace(wanted.begin(), wanted.end(), std::string("HistogramObserver"),
               std::string("MergeableHistogramObserver"));
  EXPECT_EQ(classes(true), wanted);
}

}  // namespace
}  // namespace qdq::mergeable_histogram_test
