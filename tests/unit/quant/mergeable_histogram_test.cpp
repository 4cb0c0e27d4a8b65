#include "quant/observers/observer_mergeable_histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "quant/pt2e.h"
#include "quant/quantizers/mergeable_quantizer.h"
#include "quant/quantizers/x86_inductor_quantizer.h"
#include "unit/quant/program_builder.h"

namespace qdq {
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
}  // namespace qdq
