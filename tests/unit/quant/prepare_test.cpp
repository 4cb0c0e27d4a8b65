// Sharing and placing of observers, and refusals of annotations.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <functional>

#include "message_of.h"
#include "quant/pt2e.h"
#include "quant/qat.h"
#include "quant/observer_map.h"
#include "quant/quantizers/xnnpack_quantizer.h"
#include "unit/base/limited_memory.h"
#include "unit/format/expect_error.h"
#include "program_builder.h"

namespace qdq::prepare_test {
namespace {

QuantizationSpec int8_spec() {
  QuantizationSpec spec;
  spec.dtype = DType::kS8;
  spec.qscheme = QScheme::kPerTensorAffine;
  spec.quant_min = -128;
  spec.quant_max = 127;
  return spec;
}

// A quantizer that is a function.
class Lambda : public Quantizer {
 public:
  explicit Lambda(std::function<void(Graph&, Annotations&)> body, Compat compat = Compat::kNone)
      : body_(std::move(body)), compat_(compat) {}
  std::string_view name() const override { return "Lambda"; }
  Compat compat() const override { return compat_; }
  void annotate(Program& program, Annotations& annotations) override { body_(*program.graph, annotations); }

 private:
  std::function<void(Graph&, Annotations&)> body_;
  Compat compat_;
};

// x -> relu, per channel of the second axis, which has 3.
Prepared per_channel_relu() {
  ProgramBuilder b;
  Node* relu = b.call("relu.default", {b.input("x", {2, 3})});
  QuantizationSpec spec;
  spec.qscheme = QScheme::kPerChannelAffine;
  spec.ch_axis = 1;
  spec.observer.class_name = "PerChannelMinMaxObserver";
  Lambda quantizer(
      [spec](Graph& graph, Annotations& annotations) { annotations[graph.find("relu")].output_qspec = spec; });
  return prepare_pt2e(b.finish({relu}), quantizer);
}

// x -> relu -> {sigmoid, tanh}
Program two_consumers() {
  ProgramBuilder b;
  Node* x = b.input("x", {2, 3});
  Node* relu = b.call("relu.default", {x});
  Node* sigmoid = b.call("sigmoid.default", {relu});
  Node* tanh = b.call("tanh.default", {relu});
  return b.finish({sigmoid, tanh});
}

Prepared prepare(Program program, std::function<void(Graph&, Annotations&)> annotate, Compat compat = Compat::kNone) {
  Lambda quantizer(std::move(annotate), compat);
  return prepare_pt2e(std::move(program), quantizer);
}

TEST(Prepare, AProgramThatCannotFitIsRefusedBeforeItsQuantizerIsAsked) {
  ProgramBuilder b;
  Program program = b.finish({b.call("outer.default", {b.input("x", {25'000}), b.input("y", {50'000})})});
  const LimitedMemory limit(4'000'000'000);
  try {
    prepare(std::move(program), [](Graph&, Annotations&) { FAIL() << "the work began"; });
    FAIL() << "nothing was refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.code, ErrorCode::kOutOfMemory);
    EXPECT_EQ(error.message.find("calibrating the program needs at least 5000 MB of memory, and "), 0u)
        << error.message;
  }
}

// The histogram of a value and of the same value clamped, which is not counted element by element, and of a third one
// by the same observer.
TEST(Prepare, HistogramsAroundAClampAreThoseOfBothTensors) {
  for (const bool has_other : {false, true}) {
    ProgramBuilder b;
    Node* sum = b.call("add.Tensor", {b.input("x", {7, 9}), b.input("y", {7, 9})});
    Node* other = has_other ? b.call("mul.Tensor", {sum, sum}) : nullptr;
    Node* clamped = b.call("hardtanh.default", {has_other ? other : sum, -0.25, 0.75});
    Program program = b.finish({clamped});
    Prepared prepared = prepare(std::move(program), [&](Graph& g, Annotations& a) {
      Node *source = g.find("add"), *last = g.find("hardtanh");
      QuantizationSpec spec = int8_spec();
      spec.observer.class_name = "HistogramObserver";
      a[source].output_qspec = spec;
      a[last].set_input(last->arg(0).node(), SharedQuantizationSpec{source});
      a[last].output_qspec = SharedQuantizationSpec{source};
    });
    const auto expected = make_observer("HistogramObserver", prepared.observers().at(0).observer->args());
    for (uint32_t seed : {1u, 2u, 3u}) {
      const Tensor x = sample({7, 9}, seed), y = sample({7, 9}, seed + 10), whole = Tensor::empty({7, 9}, DType::kF32);
      const Tensor clamp = Tensor::empty({7, 9}, DType::kF32);
      for (int64_t i = 0; i < x.numel(); ++i) whole.data<float>()[i] = x.data<float>()[i] + y.data<float>()[i];
      expected->forward(whole);
      if (has_other) {
        for (int64_t i = 0; i < x.numel(); ++i) whole.data<float>()[i] *= whole.data<float>()[i];
        expected->forward(whole);
      }
      for (int64_t i = 0; i < x.numel(); ++i)
        clamp.data<float>()[i] = std::clamp(whole.data<float>()[i], -0.25f, 0.75f);
      expected->forward(clamp);
      prepared.run({x, y});
    }
    ASSERT_EQ(prepared.observers().size(), 1u);
    EXPECT_TRUE(bitwise_equal(prepared.observers()[0].observer->histogram(), expected->histogram())) << has_other;
    EXPECT_TRUE(bitwise_equal(prepared.observers()[0].observer->min_val(), expected->min_val())) << has_other;
    EXPECT_TRUE(bitwise_equal(prepared.observers()[0].observer->max_val(), expected->max_val())) << has_other;
  }
}

TEST(Prepare, StatisticsOfAnEarlierRunStandForData) {
  Prepared prepared = per_channel_relu();
  EXPECT_TRUE(prepared.needs_data());
  prepared.set_state(0, {Tensor::of<float>({3}, {-1, 0, -2}), Tensor::of<float>({3}, {1, 2, 3}), {}});
  EXPECT_FALSE(prepared.needs_data());
  EXPECT_EQ(prepared.observers()[0].observer->calculate_qparams().scale.size(), 3u);
  expect_error(ErrorCode::kInvalidArgument, "it has seen data already", [&] {
    prepared.set_state(0, {Tensor::of<float>({3}, {-1, 0, -2}), Tensor::of<float>({3}, {1, 2, 3}), {}});
  });
}

TEST(Prepare, StatisticsThatNoObserverCanHaveSeenAreRefused) {
  Prepared prepared = per_channel_relu();
  const auto refuses = [&](const std::string& words, const ObserverState& state) {
    expect_error(ErrorCode::kInvalidArgument, words, [&] { prepared.set_state(0, state); });
  };
  const auto of = [](std::initializer_list<float> values) {
    return Tensor::of<float>({static_cast<int64_t>(values.size())}, values);
  };
  refuses("it covers 4 channels, and relu has 3", {of({0, 0, 0, 0}), of({1, 1, 1, 1}), {}});
  refuses("its least value 2 is not below its largest, 1", {of({0, 2, 0}), of({1, 1, 1}), {}});
  refuses("its least value nan is not below its largest, 1", {of({0, NAN, 0}), of({1, 1, 1}), {}});
  refuses("keeps a least and a largest value for each channel and nothing else", {of({0, 0, 0}), of({1, 1}), {}});
  refuses("its histogram counts -1 values", {of({0, 0, 0}), of({1, 1, 1}), of({-1})});
  EXPECT_TRUE(prepared.needs_data());
}

std::string refusal(const std::function<void()>& body) { return message_of(body, ErrorCode::kInvalidArgument); }

TEST(Prepare, ConsumersWithEqualSpecsShare) {
  const Prepared prepared = prepare(two_consumers(), [](Graph& g, Annotations& a) {
    a[g.find("sigmoid")].set_input(g.find("relu"), int8_spec());
    a[g.find("tanh")].set_input(g.find("relu"), int8_spec());
  });
  ASSERT_EQ(prepared.observers().size(), 1u);
  EXPECT_EQ(prepared.observers()[0].covers.size(), 2u);
  EXPECT_EQ(prepared.observers()[0].inserted_as.size(), 1u);
  const Graph& graph = *prepared.program().graph;
  EXPECT_EQ(graph.find("sigmoid")->arg(0).node(), graph.find("tanh")->arg(0).node());
}

// Each reader compared with each other one takes 40 s for this many.
TEST(Prepare, ManyReadersOfAValueShareInTimeThatGrowsWithTheirNumber) {
  constexpr size_t kReaders = 30000;
  Graph graph;
  Annotations annotations;
  Node* x = graph.create(Node::Op::kPlaceholder, "x");
  for (size_t i = 0; i < kReaders; ++i)
    annotations[graph.call("torch.ops.aten.relu.default", {x})].set_input(x, int8_spec());
  const std::clock_t begin = std::clock();
  const ObserverMap observers = make_observers(graph, annotations);
  EXPECT_LT(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC, 10);
  ASSERT_EQ(observers.size(), kReaders);
  for (const auto& [at, observer] : observers) ASSERT_EQ(observer, observers.front().second);
}

TEST(Prepare, NoImplicitSharingWhereItIsForbidden) {
  const Prepared prepared = prepare(two_consumers(), [](Graph& g, Annotations& a) {
    for (const char* name : {"sigmoid", "tanh"}) {
      a[g.find(name)].set_input(g.find("relu"), int8_spec());
      a[g.find(name)].allow_implicit_sharing = false;
    }
  });
  EXPECT_EQ(prepared.observers().size(), 2u);
}

TEST(Prepare, ProducerOutputAndConsumerEdgeShareOneObserver) {
  const Prepared prepared = prepare(two_consumers(), [](Graph& g, Annotations& a) {
    a[g.find("relu")].output_qspec = int8_spec();
    a[g.find("sigmoid")].set_input(g.find("relu"), int8_spec());
  });
  ASSERT_EQ(prepared.observers().size(), 1u);
  EXPECT_EQ(targets(*prepared.program().graph),
            (std::vector<std::string>{"x", "relu.default", "activation_post_process_0", "sigmoid.default",
                                      "tanh.default", "output"}));
}

TEST(Prepare, SharingIsTransitive) {
  const Prepared prepared = prepare(two_consumers(), [](Graph& g, Annotations& a) {
    Node* relu = g.find("relu");
    a[relu].set_input(g.find("x"), int8_spec());
    a[relu].output_qspec = SharedQuantizationSpec{Edge{g.find("x"), relu}};
    a[g.find("tanh")].set_input(relu, SharedQuantizationSpec{relu});
  });
  ASSERT_EQ(prepared.observers().size(), 1u);
  EXPECT_EQ(prepared.observers()[0].covers.size(), 3u);
  EXPECT_EQ(prepared.observers()[0].inserted_as.size(), 2u);
}

TEST(Prepare, DifferentDtypesOnOneTensorStandBehindEachOther) {
  const Prepared prepared = prepare(two_consumers(), [](Graph& g, Annotations& a) {
    QuantizationSpec uint8 = int8_spec();
    uint8.dtype = DType::kU8;
    uint8.quant_min = 0;
    uint8.quant_max = 255;
    a[g.find("relu")].output_qspec = int8_spec();
    a[g.find("sigmoid")].set_input(g.find("relu"), uint8);
  });
  const Graph& graph = *prepared.program().graph;
  EXPECT_EQ(prepared.observers().size(), 2u);
  EXPECT_EQ(graph.find("sigmoid")->arg(0).node()->arg(0).node(), graph.find("tanh")->arg(0).node());
}

TEST(Prepare, RefusesCirclesMissingAndLaterSpecs) {
  const auto edges = [](Graph& g) {
    return std::pair{Edge{g.find("relu"), g.find("sigmoid")}, Edge{g.find("relu"), g.find("tanh")}};
  };
  EXPECT_NE(refusal([&] {
              prepare(two_consumers(), [&](Graph& g, Annotations& a) {
                const auto [first, second] = edges(g);
                a[first.second].set_input(first.first, SharedQuantizationSpec{second});
                a[second.second].set_input(second.first, SharedQuantizationSpec{first});
              });
            }).find("circle"),
            std::string::npos);
  EXPECT_NE(refusal([&] {
              prepare(two_consumers(), [&](Graph& g, Annotations& a) {
                a[g.find("sigmoid")].output_qspec = SharedQuantizationSpec{edges(g).second};
              });
            }).find("sigmoid shares with (relu, tanh), which carries no spec"),
            std::string::npos);
  EXPECT_NE(refusal([&] {
              prepare(two_consumers(), [&](Graph& g, Annotations& a) {
                a[g.find("relu")].output_qspec = SharedQuantizationSpec{g.find("sigmoid")};
                a[g.find("sigmoid")].output_qspec = int8_spec();
              });
            }).find("no observer yet"),
            std::string::npos);
}

TEST(Prepare, RefusesSenselessLimitsAndForeignInputs) {
  EXPECT_NE(refusal([&] {
              prepare(two_consumers(), [&](Graph& g, Annotations& a) {
                QuantizationSpec spec = int8_spec();
                spec.quant_min = 10;
                spec.quant_max = -10;
                a[g.find("relu")].output_qspec = spec;
              });
            }).find("quant_min 10"),
            std::string::npos);
  EXPECT_NE(refusal([&] {
              prepare(two_consumers(),
                      [&](Graph& g, Annotations& a) { a[g.find("tanh")].set_input(g.find("sigmoid"), int8_spec()); });
            }).find("does not read"),
            std::string::npos);
}

TEST(Prepare, WarnsWhereNothingIsQuantized) {
  ProgramBuilder b;
  Node* relu = b.call("relu.default", {b.input("x", {2, 4})});
  const Prepared prepared = prepare(b.finish({relu}), [](Graph&, Annotations&) {});
  ASSERT_EQ(prepared.warnings().size(), 1u);
  EXPECT_EQ(prepared.warnings()[0],
            "the quantizer asks for no tensor of this program, so that everything stays float; explain(), or qdq "
            "inspect --explain, tells why");
}

TEST(Prepare, RefusesNaNNamingTheInputAndTheSample) {
  Prepared prepared =
      prepare(two_consumers(), [](Graph& g, Annotations& a) { a[g.find("relu")].output_qspec = int8_spec(); });
  Tensor x = sample({2, 3}, 1);
  prepared.run({x});
  x.data<float>()[4] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_NE(refusal([&] { prepared.run({x}); }).find("'x' holds NaN in sample 3 of this calibration (counted from 0)"),
            std::string::npos);
}

// Packed weights and values would go while they are read.
TEST(Prepare, ACallbackCannotRunChangeOrConvertWhatRuns) {
  Prepared prepared =
      prepare(two_consumers(), [](Graph& g, Annotations& a) { a[g.find("relu")].output_qspec = int8_spec(); });
  const Tensor x = sample({2, 3}, 1);
  const auto of_range = Tensor::scalar(1.0f);
  int looks = 0;
  const auto misuse = [&](int64_t, int64_t) {
    ++looks;
    for (const std::function<void()>& work : std::vector<std::function<void()>>{
             [&] { prepared.run({x}); }, [&] { convert_pt2e(prepared); }, [&] { prepared.set_state(0, {}); },
             [&] { prepared.set_range(0, of_range, of_range); }, [&] { move_exported_model_to_eval(prepared); }})
      expect_error(ErrorCode::kInvalidArgument, "the prepared program is running; run() must return before", work);
    EXPECT_EQ(prepared.observers().size(), 1u) << "which a callback may look at";
  };
  prepared.run({x}, misuse);
  EXPECT_EQ(looks, 1);
  EXPECT_THROW(prepared.run({x}, [](int64_t, int64_t) { throw Error(ErrorCode::kCancelled, "enough"); }), Error);
  prepared.run({x});
  convert_pt2e(prepared);
}

TEST(Prepare, RunGivesTheFloatOutputsAndObserves) {
  Prepared prepared =
      prepare(two_consumers(), [](Graph& g, Annotations& a) { a[g.find("relu")].output_qspec = int8_spec(); });
  const Tensor x = Tensor::of<float>({2, 3}, {-1, 0.5f, 2, -3, 0, 1});
  const std::vector<Tensor> out = prepared.run({x});
  ASSERT_EQ(out.size(), 2u);
  EXPECT_FLOAT_EQ(out[0].data<float>()[0], 0.5f);
  EXPECT_EQ(prepared.observers()[0].observer->max_val().item(), 2.0);
  EXPECT_EQ(prepared.observers()[0].observer->min_val().item(), 0.0);
}

}  // namespace
}  // namespace qdq::prepare_test
