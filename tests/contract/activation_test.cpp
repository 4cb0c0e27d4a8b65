// Walks the activations that have a name (kernel/activation.h) through all tables that must know them: operators, float
// loops, the SIMD backend, fused steps on every backend, ONNX both ways, gradients. A new one that lacks a place fails
// here, with the place in the message; CONTRIBUTING.md lists them.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "io/onnx.h"
#include "op/facts.h"
#include "op/targets.h"
#include "train/backward.h"
#include "unit/lower/graph_builder.h"

namespace qdq {
namespace {

using kernel::Activation;
using Kind = Activation::Kind;

// A call of an operator that computes an activation, as a model has it.
struct Sample {
  const OpDef* op;
  bool by_tanh = false;  // approximate="tanh"

  Node* call(GraphBuilder& g, Node* x) const {
    std::vector<Argument> args = {x};
    for (size_t i = 1; i < op->schema->arguments.size(); ++i) {
      const SchemaArgument& argument = op->schema->arguments[i];
      if (!argument.kwarg_only && (!argument.default_value || argument.default_value->is_none()))
        args.emplace_back(i == 1 ? -0.5 : 1.5);
    }
    Node* node = g.call(op->target, std::move(args));
    if (by_tanh) node->set_kwargs({{"approximate", Argument("tanh")}});
    return node;
  }
  std::string name() const { return concat(op->short_name(), by_tanh ? " by tanh" : ""); }
};

std::vector<Sample> samples() {
  std::vector<Sample> out;
  for (const OpDef& op : all_ops()) {
    if (op.computes.function.kind == Kind::kNone || op.is_in_place()) continue;
    out.push_back({&op});
    if (op.computes.function.kind == Kind::kGelu) out.push_back({&op, true});
  }
  return out;
}

Program alone(const Sample& sample) {
  GraphBuilder g;
  return g.done({sample.call(g, g.input({1, 8, 5, 5}))});
}

// The activation of a program that has one, if it has exactly one.
std::optional<Activation> only_activation(const Program& program) {
  std::optional<Activation> found;
  for (const Node* node : program.graph->nodes()) {
    const std::optional<Activation> here = activation_function(*node);
    if (here && found) return std::nullopt;
    if (here) found = here;
  }
  return found;
}

bool nearly_equal(double a, double b) { return a == b || std::fabs(a - b) < 1e-6; }

TEST(ActivationContract, EveryKindIsComputedByAnOperator) {
  std::set<Kind> computed = {Kind::kNone, Kind::kNearSilu};  // which SiLU becomes behind integer products
  for (const Sample& sample : samples()) {
    const std::optional<Activation> function = only_activation(alone(sample));
    ASSERT_TRUE(function) << sample.name() << ": activation_function of op/facts.h does not read its arguments";
    computed.insert(function->kind);
  }
  for (uint8_t i = 0; !to_string(static_cast<Kind>(i)).empty(); ++i)
    EXPECT_TRUE(computed.count(static_cast<Kind>(i)))
        << to_string(static_cast<Kind>(i)) << ": no entry of op/ says that it computes this activation";
}

TEST(ActivationContract, FloatLoopsComputeWhatTheOperatorsDo) {
  const Tensor x = random_tensor({1, 8, 5, 5}, 3);
  for (const Sample& sample : samples()) {
    const Program program = alone(sample);
    const Tensor wanted = lower(program, {{"reference"}, false}).run({{x}})[0].contiguous();
    std::vector<float> found(static_cast<size_t>(x.numel()));
    kernel::activate_f32(*only_activation(program), x.data<float>(), x.numel(), found.data());
    for (int64_t i = 0; i < x.numel(); ++i)
      ASSERT_NEAR(found[static_cast<size_t>(i)], wanted.data<float>()[i], 1e-6)
          << sample.name() << ": activate_f32 of kernel/activation.cpp at " << x.data<float>()[i];
  }
}

TEST(ActivationContract, TheSimdBackendRunsThem) {
  for (const Sample& sample : samples()) {
    if (sample.op->family != Family::kActivation) continue;
    Session session = lower(alone(sample), {{"simd"}, false});
    for (const Session::Placement& placement : session.placements())
      EXPECT_EQ(placement.backend, "simd") << sample.name() << ": exec/simd_elements.cpp";
  }
}

TEST(ActivationContract, EveryBackendFusesThemBehindAnIntegerConvolution) {
  for (const Sample& sample : samples()) {
    GraphBuilder g;
    Node* convolution = g.conv(g.round(g.input({1, 8, 5, 5}), 0.02, 120), {12, 8, 1, 1});
    Node* activation = sample.call(g, convolution);
    constexpr double kScale = 0.02;
    const std::string name = activation->name();
    const Program program = g.done({g.round(activation, kScale, 60)});
    const Tensor x = random_tensor({2, 8, 5, 5}, 4);
    const Tensor wanted = lower(program, {{"reference"}, false}).run({{x}})[0].contiguous();
    for (const std::string_view backend : backend_names()) {
      if (backend == "reference") continue;  // it runs operators one by one
      const bool falls_back = backend == "onednn" && int8_products_saturate();
      Session session = lower(program, {{std::string(backend)}});
      const Tensor found = session.run({{x}})[0].contiguous();
      for (int64_t i = 0; i < found.numel(); ++i)
        ASSERT_NEAR(found.data<float>()[i], wanted.data<float>()[i], 1.5 * kScale)
            << sample.name() << ": the fused step on " << backend;
      for (const Session::Placement& placement : session.placements()) {
        if (placement.node != name) continue;
        EXPECT_TRUE(!placement.step.empty() && placement.backend == (falls_back ? "simd" : backend))
            << sample.name() << ": " << backend << " does not fuse it (" << placement.backend << ")";
      }
    }
  }
}

TEST(ActivationContract, OnnxWritesAndReadsThem) {
  for (const Sample& sample : samples()) {
    const Program program = alone(sample);
    const Activation wanted = *only_activation(program);
    try {
      const std::optional<Activation> found = only_activation(load_onnx(save_onnx(program)));
      ASSERT_TRUE(found) << sample.name() << ": io/onnx/read_elements.cpp or fuse.cpp does not read what is written";
      EXPECT_EQ(to_string(found->kind), to_string(wanted.kind)) << sample.name();
      EXPECT_TRUE(nearly_equal(found->low, wanted.low) && nearly_equal(found->high, wanted.high) &&
                  nearly_equal(found->slope, wanted.slope))
          << sample.name() << ": its parameters change in ONNX";
    } catch (const Error& error) {
      ADD_FAILURE() << sample.name() << ": " << error.message;
    }
  }
}

TEST(ActivationContract, TrainingHasTheirGradients) {
  for (const Sample& sample : samples()) {
    const BackwardDef* backward = find_backward(sample.op->target);
    EXPECT_TRUE(backward != nullptr && backward->backward != nullptr)
        << sample.name() << ": train/backward_elementwise.cpp";
  }
}

}  // namespace
}  // namespace qdq
