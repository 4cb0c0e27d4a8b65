// Observers and fake quantizers against PyTorch (tests/golden/quant/observers.json, made by make_observers.py), and
// what they refuse.
#include "quant/observers/observer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>

#include "quant/observers/fake_quantize.h"
#include "quant/observers/observer_histogram.h"
#include "quant/observers/observer_statistics.h"
#include "source_dir.h"

namespace qdq::observer_test {
namespace {

using Json = nlohmann::json;
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

const Json& golden() {
  static const Json json = [] {
    std::ifstream file(std::string(kSourceDir) + "/tests/golden/quant/observers.json");
    return Json::parse(file).at("entries");
  }();
  return json;
}

// The generator that make_observers.py documents.
Tensor numbers(const Json& batch) {
  Tensor out = Tensor::empty(batch.at("shape").get<Shape>(), DType::kF32);
  auto state = batch.at("seed").get<uint32_t>();
  const auto factor = batch.at("factor").get<float>();
  const auto offset = batch.at("offset").get<float>();
  for (float& value : out.span<float>()) {
    int32_t total = 0;
    for (int i = 0; i < 4; ++i) {
      state = state * 1664525u + 1013904223u;
      total += static_cast<int32_t>(state >> 16);
    }
    value = static_cast<float>(total - 131070) * factor + offset;
    if (batch.contains("relu") && value < 0) value = 0;
  }
  return out;
}

std::string fnv(const Tensor& tensor) {
  uint64_t value = 0xCBF29CE484222325;
  for (size_t i = 0; i < tensor.nbytes(); ++i) value = (value ^ static_cast<uint64_t>(tensor.raw()[i])) * 0x100000001B3;
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

std::shared_ptr<Observer> construct(const Json& entry) {
  const auto name = entry.at("class").get<std::string>();
  ObserverArgs args = default_observer_args(name);
  for (const auto& [key, value] : entry.at("args").items()) {
    if (key == "dtype") set_dtype(args, value.get<std::string>());
    if (key == "qscheme") args.qscheme = qscheme_from_name(value.get<std::string>());
    if (key == "inner_class") args.inner_class = value.get<std::string>();
    if (key == "reduce_range") args.reduce_range = value.get<bool>();
    if (key == "is_dynamic") args.is_dynamic = value.get<bool>();
    if (key == "quant_min") args.quant_min = value.get<int64_t>();
    if (key == "quant_max") args.quant_max = value.get<int64_t>();
    if (key == "ch_axis") args.ch_axis = value.get<int64_t>();
    if (key == "bins") args.bins = value.get<int64_t>();
    if (key == "eps") args.eps = value.get<double>();
    if (key == "averaging_constant") args.averaging_constant = value.get<double>();
  }
  return make_observer(name, args);
}

std::vector<float> values(const Tensor& tensor) {
  const auto span = tensor.span<float>();
  return {span.begin(), span.end()};
}

void expect_qparams(const QParams& found, const Json& expected) {
  EXPECT_EQ(found.scale, expected.at("scale").get<std::vector<float>>());
  if (found.zero_point_dtype == DType::kF32)
    EXPECT_EQ(found.float_zero_point, expected.at("zero_point").get<std::vector<float>>());
  else EXPECT_EQ(found.zero_point, expected.at("zero_point").get<std::vector<int64_t>>());
}

void expect_state(const Observer& observer, const Json& expected, const Tensor& output) {
  EXPECT_EQ(values(observer.min_val()), expected.at("min").get<std::vector<float>>());
  EXPECT_EQ(values(observer.max_val()), expected.at("max").get<std::vector<float>>());
  if (expected.contains("histogram")) {
    EXPECT_EQ(fnv(observer.histogram()), expected["histogram"].get<std::string>());
  }
  if (expected.contains("output")) {
    EXPECT_EQ(fnv(output), expected["output"].get<std::string>());
    expect_qparams(static_cast<const FakeQuantize&>(observer).qparams_in_force(), expected);
  }
}

void throw_switch(Observer& observer, const std::string& method) {
  const bool on = method.starts_with("enable");
  if (method.ends_with("observer")) observer.enable_observer(on);
  else observer.enable_fake_quant(on);
}

// What PyTorch refuses is refused at the same stage, with an Error; the rest agrees to the last bit.
void check(const Json& entry) {
  const std::string stage = entry.value("error", "");
  if (stage == "construct") {
    EXPECT_THROW(construct(entry), Error);
    return;
  }
  const std::shared_ptr<Observer> observer = construct(entry);
  const Json& batches = entry.at("batches");
  for (size_t n = 0; n < batches.size(); ++n) {
    if (entry.contains("switches"))
      for (const Json& method : entry["switches"].value(std::to_string(n), Json::array()))
        throw_switch(*observer, method);
    const Tensor input = numbers(batches[n]);
    if (stage == "forward" && n + 1 == batches.size()) {
      EXPECT_THROW(observer->forward(input), Error);
      return;
    }
    expect_state(*observer, entry.at("states")[n], observer->forward(input));
  }
  const QParams qparams = observer->calculate_qparams();
  expect_qparams(qparams, entry);
  EXPECT_EQ(to_string(qparams.zero_point_dtype), entry.at("zero_point_dtype").get<std::string>());
  if (observer->class_name() == "HistogramObserver") {
    const FloatRange range = static_cast<const HistogramObserver&>(*observer).search().range;
    EXPECT_EQ((std::vector<float>{range.min, range.max}), entry.at("ranges").back().get<std::vector<float>>());
  }
}

TEST(Observer, AgreesWithPyTorchToTheLastBit) {
  ASSERT_GE(golden().size(), 40u);
  for (const Json& entry : golden()) {
    SCOPED_TRACE(entry.at("class").get<std::string>() + " " + entry.at("args").dump());
    check(entry);
  }
}

Tensor vector_of(std::initializer_list<float> list) {
  return Tensor::of<float>({static_cast<int64_t>(list.size())}, list);
}

std::shared_ptr<Observer> make_plain(std::string_view name) {
  ObserverArgs args = default_observer_args(name);
  set_dtype(args, "int8");
  return make_observer(name, args);
}

// Runs the body and returns the error it throws.
template <class Body> Error error_of(Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "nothing was thrown";
  return Error(ErrorCode::kInternal, "");
}

TEST(Observer, WithoutDataHasNoQParams) {
  for (const char* name :
       {"MinMaxObserver", "MovingAverageMinMaxObserver", "PerChannelMinMaxObserver", "HistogramObserver"}) {
    SCOPED_TRACE(name);
    const auto observer = make_plain(name);
    observer->forward(Tensor::empty({0, 3}, DType::kF32));
    EXPECT_FALSE(observer->calibrated());
    EXPECT_EQ(error_of([&] { observer->calculate_qparams(); }).code, ErrorCode::kNotCalibrated);
    const QParams as_pytorch = observer->calculate_qparams_or_default();
    EXPECT_EQ(as_pytorch.scale, std::vector<float>{1.0f});
    EXPECT_EQ(as_pytorch.zero_point, std::vector<int64_t>{0});
  }
}

TEST(Observer, NanStaysInARangeAndIsRefusedThere) {
  for (const char* name : {"MinMaxObserver", "MovingAverageMinMaxObserver"}) {
    SCOPED_TRACE(name);
    const auto observer = make_plain(name);
    observer->forward(vector_of({1, kNan, 2}));
    observer->forward(vector_of({1, 2}));
    EXPECT_TRUE(std::isnan(observer->min_val().item()));
    EXPECT_EQ(error_of([&] { observer->calculate_qparams(); }).code, ErrorCode::kInvalidArgument);
  }
}

TEST(Observer, TakesARangeThatIsKnownAsItWouldFindIt) {
  const std::vector<Tensor> batches = {
      Tensor::of<float>({2, 3}, {0, 1, 2, -1, 0.5f, 1.5f}), Tensor::of<float>({2, 3}, {4, 1, 2, -3, 0.5f, 1.5f}),
      Tensor::of<float>({1, 2}, {0.25f, INFINITY}), Tensor::empty({0, 3}, DType::kF32)};
  for (const std::string_view name : {"HistogramObserver", "MinMaxObserver", "MovingAverageMinMaxObserver",
                                      "PerChannelMinMaxObserver", "FixedQParamsObserver"}) {
    ObserverArgs args = default_observer_args(name);
    args.scale = 0.5;
    const auto looks = make_observer(name, args), is_told = make_observer(name, args);
    const bool per_channel = is_per_channel(args.qscheme);
    for (const Tensor& batch : batches) {
      if (per_channel && batch.numel() == 2) continue;  // another number of channels
      looks->forward(batch);
      const Tensor same = is_told->forward_with_range(batch, range_of(batch));
      EXPECT_EQ(same.raw(), batch.raw());
    }
    EXPECT_TRUE(bitwise_equal(looks->min_val(), is_told->min_val())) << name;
    EXPECT_TRUE(bitwise_equal(looks->max_val(), is_told->max_val())) << name;
    EXPECT_TRUE(bitwise_equal(looks->histogram(), is_told->histogram())) << name;
  }
  const auto histogram = make_observer("HistogramObserver", default_observer_args("HistogramObserver"));
  EXPECT_THROW(histogram->forward_with_range(batches[0], {NAN, NAN}), Error);
}

TEST(Observer, HistogramKnowsWhatAClampDoesToTheNewestTensor) {
  std::mt19937 random(5);
  const struct {
    float low, high;
  } clamps[] = {{0, 6}, {0, kInf}, {-1, 1}, {-100, 100}, {0.3f, 0.3f}, {-kInf, -0.5f}, {-0.0f, 2}};
  for (const auto& [low, high] : clamps) {
    for (const int64_t bins : {1, 3, 64, 2048}) {
      ObserverArgs args = default_observer_args("HistogramObserver");
      args.bins = bins;
      const auto counts = make_observer("HistogramObserver", args), is_told = make_observer("HistogramObserver", args);
      int known = 0;
      for (const float width : {2.0f, 1.0f, 9.0f, 0.25f}) {
        std::normal_distribution<float> normal(0, width);
        Tensor x = Tensor::empty({5, 101}, DType::kF32), clamped = Tensor::empty({5, 101}, DType::kF32);
        for (int64_t i = 0; i < x.numel(); ++i) {
          x.data<float>()[i] = normal(random);
          clamped.data<float>()[i] = std::clamp(x.data<float>()[i], low, high);
        }
        counts->forward(x);
        counts->forward(clamped);
        is_told->forward(x);
        if (is_told->forward_clamped(low, high)) ++known;
        else is_told->forward(clamped);
        EXPECT_TRUE(bitwise_equal(counts->min_val(), is_told->min_val())) << low << " " << high << " " << bins;
        EXPECT_TRUE(bitwise_equal(counts->max_val(), is_told->max_val())) << low << " " << high << " " << bins;
        EXPECT_TRUE(bitwise_equal(counts->histogram(), is_told->histogram())) << low << " " << high << " " << bins;
      }
      EXPECT_EQ(known, 4) << "all bounds lie inside of the data's range";
    }
  }
}

TEST(Observer, HistogramLooksWhereAClampCannotBeKnown) {
  const auto told_of = [](const Tensor& x, float low, float high) {
    const auto observer = make_plain("HistogramObserver");
    observer->forward(x);
    return observer->forward_clamped(low, high);
  };
  EXPECT_TRUE(told_of(vector_of({-1, 0, 2}), 0, 6));
  EXPECT_FALSE(told_of(vector_of({-3, -2, -1}), 0, 6)) << "the range grows";
  EXPECT_FALSE(told_of(vector_of({1, 2, kInf}), 0, 6)) << "what is infinite was not counted";
  EXPECT_FALSE(told_of(vector_of({1, 1, 1}), 0, 6)) << "one value";
  EXPECT_FALSE(told_of(Tensor::empty({0}, DType::kF32), 0, 6));
  EXPECT_FALSE(told_of(vector_of({-1, 0, 2}), 1, 0)) << "bounds in no order";
  EXPECT_FALSE(told_of(vector_of({-3e38f, 0, 3e38f}), -1, 1)) << "no finite width";
  const auto observer = make_plain("HistogramObserver");
  observer->forward(vector_of({-1, 0, 2}));
  observer->forward(Tensor::empty({0}, DType::kF32));
  EXPECT_FALSE(observer->forward_clamped(0, 1)) << "the newest tensor is empty";
}

TEST(Observer, TellsWhatOneMoreLookWouldGive) {
  for (const char* name : {"MinMaxObserver", "MovingAverageMinMaxObserver", "HistogramObserver", "FakeQuantize",
                           "FusedMovingAvgObsFakeQuantize", "FixedQParamsObserver"}) {
    SCOPED_TRACE(name);
    ObserverArgs args = default_observer_args(name);
    args.scale = 0.5;
    const auto observer = make_observer(name, args), other = make_observer(name, args);
    const Tensor first = vector_of({-1, 0, 2}), second = vector_of({-3, 1, 5});
    observer->forward(first);
    other->forward(first);
    const QParams before = observer->calculate_qparams(), told = observer->qparams_after(second),
                  after = observer->calculate_qparams();
    EXPECT_EQ(after.scale, before.scale);
    EXPECT_EQ(after.zero_point, before.zero_point);
    other->forward(second);
    const QParams seen = other->calculate_qparams();
    EXPECT_EQ(told.scale, seen.scale);
    EXPECT_EQ(told.zero_point, seen.zero_point);
  }
}

TEST(Observer, HistogramRefusesNanAndLeavesOutInfinities) {
  const auto observer = make_plain("HistogramObserver");
  EXPECT_EQ(error_of([&] { observer->forward(vector_of({1, kNan})); }).code, ErrorCode::kInvalidArgument);
  EXPECT_FALSE(observer->calibrated());
  observer->forward(vector_of({kInf, -kInf}));
  EXPECT_FALSE(observer->calibrated());
  observer->forward(vector_of({kInf, 1, 2, -kInf}));
  EXPECT_EQ(observer->min_val().item(), 1);
  EXPECT_EQ(observer->max_val().item(), 2);
  float sum = 0;
  for (const float count : values(observer->histogram())) sum += count;
  EXPECT_EQ(sum, 2);
  EXPECT_THROW(observer->forward(Tensor::of<int32_t>({2}, {1, 2})), Error);
}

TEST(Observer, InfinityMakesAnInfiniteScale) {
  // As in PyTorch: scale inf, and the zero point of an infinite minimum ends at quant_max.
  const auto observer = make_plain("MinMaxObserver");
  observer->forward(vector_of({1, -kInf}));
  const QParams qparams = observer->calculate_qparams();
  EXPECT_EQ(qparams.scale[0], kInf);
  EXPECT_EQ(qparams.zero_point[0], 127);
}

TEST(Observer, LayoutAndDtypeDoNotMatter) {
  const Tensor plain = numbers(golden()[0].at("batches")[0]).reshape({4, 25, 20});
  const Tensor twice = Tensor::empty({4, 25, 40}, DType::kF32);
  twice.slice(2, 0, 40, 2).copy_from(plain);
  for (const char* name : {"MinMaxObserver", "HistogramObserver", "PerChannelMinMaxObserver"}) {
    SCOPED_TRACE(name);
    const auto expected = make_plain(name), permuted = make_plain(name), strided = make_plain(name),
               wide = make_plain(name);
    expected->forward(plain);
    permuted->forward(plain.permute({0, 2, 1}).contiguous().permute({0, 2, 1}));
    strided->forward(twice.slice(2, 0, 40, 2));
    wide->forward(plain.to(DType::kF64));
    for (const auto& other : {permuted, strided, wide}) {
      EXPECT_TRUE(bitwise_equal(other->min_val(), expected->min_val()));
      EXPECT_TRUE(bitwise_equal(other->max_val(), expected->max_val()));
      EXPECT_EQ(other->calculate_qparams().scale, expected->calculate_qparams().scale);
    }
    if (expected->histogram().defined()) {
      EXPECT_TRUE(bitwise_equal(strided->histogram(), expected->histogram()));
    }
  }
}

TEST(Observer, ChannelsMustStayTheSame) {
  const auto observer = make_plain("PerChannelMinMaxObserver");
  observer->forward(Tensor::full({3, 2}, DType::kF32, 1));
  const Error error = error_of([&] { observer->forward(Tensor::full({4, 2}, DType::kF32, 1)); });
  EXPECT_EQ(error.code, ErrorCode::kInvalidArgument);
  EXPECT_NE(error.message.find("3 channels"), std::string::npos) << error.message;
}

TEST(Observer, SingleLargeValuesAreRefusedOnlyWhereBinsDoNotFit) {
  const auto observer = make_plain("HistogramObserver");
  observer->forward(Tensor::full({4}, DType::kF32, 1e10));
  EXPECT_EQ(values(observer->histogram())[0], 4);
  EXPECT_THROW(make_plain("HistogramObserver")->forward(Tensor::full({4}, DType::kF32, 3e38)), Error);
}

TEST(Observer, BlindClassesHaveNoQParams) {
  for (const char* name : {"PlaceholderObserver", "NoopObserver", "ReuseInputObserver", "RecordingObserver"}) {
    SCOPED_TRACE(name);
    const auto observer = make_observer(name, default_observer_args(name));
    observer->forward(vector_of({1, 2}));
    EXPECT_EQ(error_of([&] { observer->calculate_qparams(); }).code, ErrorCode::kInvalidArgument);
  }
}

TEST(Observer, RecordingKeepsCopies) {
  const auto observer = make_plain("RecordingObserver");
  const Tensor x = vector_of({1, 2});
  observer->forward(x);
  x.data<float>()[0] = 5;
  ASSERT_EQ(observer->recorded().size(), 1u);
  EXPECT_EQ(observer->recorded()[0].span<float>()[0], 1);
}

TEST(Observer, FixedQParamsStayAndMustNotBeDynamic) {
  ObserverArgs args = default_observer_args("FixedQParamsObserver");
  args.scale = 0.05;
  args.zero_point = -7;
  const auto observer = make_observer("FixedQParamsObserver", args);
  observer->forward(vector_of({1000}));
  EXPECT_EQ(observer->calculate_qparams().scale, std::vector<float>{0.05f});
  EXPECT_EQ(observer->calculate_qparams().zero_point, std::vector<int64_t>{-7});
  args.is_dynamic = true;
  EXPECT_THROW(make_observer("FixedQParamsObserver", args), Error);
}

TEST(Observer, DerivedQParamsFollowTheirSources) {
  const auto a = make_plain("MinMaxObserver"), b = make_plain("MinMaxObserver");
  const auto derived = make_derived_observer({}, {a, b}, [](const auto& sources) {
    return QParams{{sources[0]->calculate_qparams().scale[0] * sources[1]->calculate_qparams().scale[0]}, {0}, {}};
  });
  EXPECT_FALSE(derived->calibrated());
  a->forward(vector_of({0, 255}));
  b->forward(vector_of({0, 510}));
  EXPECT_TRUE(derived->calibrated());
  EXPECT_EQ(derived->calculate_qparams().scale, std::vector<float>{2.0f});
}

TEST(Observer, UnknownClassNamesTheKnownOnes) {
  const Error error = error_of([] { make_observer("MinMaxObserve", {}); });
  EXPECT_EQ(error.code, ErrorCode::kInvalidArgument);
  for (const std::string_view name : observer_class_names())
    EXPECT_NE(error.message.find(name), std::string::npos) << name;
}

TEST(Observer, DtypeNamesGoBothWays) {
  for (const char* name :
       {"int8", "uint8", "int16", "uint16", "int32", "quint8", "qint8", "qint32", "quint4x2", "float16"}) {
    ObserverArgs args;
    set_dtype(args, name);
    EXPECT_EQ(dtype_name(args), name);
  }
  ObserverArgs args;
  EXPECT_THROW(set_dtype(args, "int9"), Error);
  EXPECT_THROW(qscheme_from_name("per_row"), Error);
}

}  // namespace
}  // namespace qdq::observer_test
