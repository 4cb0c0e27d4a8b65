// What the table of operators knows of nodes.
#include "op/facts.h"

#include <gtest/gtest.h>

#include <limits>

#include "op/targets.h"

namespace qdq::facts_test {
namespace {

using Kind = kernel::Activation::Kind;
using kernel::Activation;
constexpr double kInf = std::numeric_limits<double>::infinity();

struct Calls {
  Graph graph;
  Node* x = graph.create(Node::Op::kPlaceholder, "x");
  // A call whose first argument is x.
  Node& of(std::string_view name, const std::vector<Argument>& more = {}, const Node::Kwargs& kwargs = {}) {
    std::vector<Argument> args(1, x);
    for (const Argument& argument : more) args.push_back(argument);
    return *graph.call(concat("torch.ops.", name), std::move(args), kwargs);
  }
};

TEST(Facts, FamiliesHoldInPlaceFormsAndSecondNames) {
  Calls calls;
  for (const char* name : {"aten.add.Tensor", "aten.add_.Tensor", "aten.add_.Scalar"})
    EXPECT_TRUE(is_a(calls.of(name, {1}), Family::kAdd)) << name;
  EXPECT_TRUE(is_a(calls.of("aten.multiply_.Tensor", {1}), Family::kMultiply));
  EXPECT_TRUE(is_a(calls.of("aten.concatenate.default"), Family::kConcat));
  EXPECT_TRUE(is_a(calls.of("quantized_decomposed.dequantize_per_channel.default"), Family::kDequantize));
  EXPECT_FALSE(is_a(calls.of("aten.no_such.default"), Family::kOther));
  EXPECT_FALSE(is_a(*calls.x, Family::kOther));
}

TEST(Facts, FormsArePairedByOverload) {
  Calls calls;
  EXPECT_TRUE(is_form_of(calls.of("aten.relu_.default"), op::kRelu));
  EXPECT_TRUE(is_form_of(calls.of("aten.relu.default"), op::kRelu));
  EXPECT_TRUE(is_form_of(calls.of("aten.add_.Tensor", {calls.x}), op::kAdd));
  EXPECT_FALSE(is_form_of(calls.of("aten.add_.Scalar", {1}), op::kAdd));
  EXPECT_FALSE(is_form_of(calls.of("aten.multiply.Tensor", {calls.x}), op::kMul));
  EXPECT_EQ(&plain_form(*find_op("torch.ops.aten.multiply_.Tensor")), find_op(op::kMul));
  EXPECT_EQ(&plain_form(*find_op("torch.ops.aten.zero_.default")), find_op("torch.ops.aten.zero_.default"));
  for (const OpDef& entry : all_ops()) {
    EXPECT_TRUE(entry.functional != nullptr || entry.is_in_place()) << entry.target;
    for (const OpDef* form : {entry.functional, entry.in_place}) {
      if (form == nullptr) continue;
      EXPECT_EQ(form->functional, entry.functional) << entry.target;
      EXPECT_EQ(form->in_place, entry.in_place) << entry.target;
      EXPECT_EQ(form->family, entry.family) << entry.target;
      EXPECT_EQ(form->computes.function, entry.computes.function) << entry.target;
    }
  }
}

TEST(Facts, ArgumentsAreFoundByRole) {
  Calls calls;
  Node* w = calls.graph.get_attr("w");
  Node* b = calls.graph.get_attr("b");
  Node& conv = calls.of("aten.conv2d.default", {w}, {{"bias", b}});
  EXPECT_EQ(input_of(conv), calls.x);
  EXPECT_EQ(weight_of(conv), w);
  EXPECT_EQ(bias_of(conv), b);
  EXPECT_EQ(other_of(conv), nullptr);
  EXPECT_EQ(argument_of(conv, 6), Argument(1));
  Node& addmm = *calls.graph.call("torch.ops.aten.addmm.default", {b, calls.x, w});
  EXPECT_EQ(input_of(addmm), calls.x);
  EXPECT_EQ(weight_of(addmm), w);
  EXPECT_EQ(bias_of(addmm), b);
  EXPECT_EQ(bias_of(calls.of("aten.linear.default", {w})), nullptr);
}

TEST(Facts, ActivationsHaveTheirParameters) {
  Calls calls;
  EXPECT_EQ(activation_function(calls.of("aten.relu_.default")), (Activation{Kind::kClamp, 0, kInf, 0}));
  EXPECT_EQ(activation_function(calls.of("aten.relu6.default")), (Activation{Kind::kClamp, 0, 6, 0}));
  EXPECT_EQ(activation_function(calls.of("aten.hardtanh.default")), (Activation{Kind::kClamp, -1, 1, 0}));
  EXPECT_EQ(activation_function(calls.of("aten.hardtanh_.default", {0, 6})), (Activation{Kind::kClamp, 0, 6, 0}));
  EXPECT_EQ(activation_function(calls.of("aten.clamp.default", {Argument(), 3})),
            (Activation{Kind::kClamp, -kInf, 3, 0}));
  EXPECT_EQ(activation_function(calls.of("aten.clip.default", {}, {{"max", 3}})),
            (Activation{Kind::kClamp, -kInf, 3, 0}));
  EXPECT_EQ(activation_function(calls.of("aten.clamp_min.default", {2})), (Activation{Kind::kClamp, 2, kInf, 0}));
  EXPECT_EQ(activation_function(calls.of("aten.clamp_max_.default", {2})), (Activation{Kind::kClamp, -kInf, 2, 0}));
  EXPECT_EQ(activation_function(calls.of("aten.leaky_relu.default")), (Activation{Kind::kLeakyRelu, 0, 0, 0.01}));
  EXPECT_EQ(activation_function(calls.of("aten.gelu.default"))->kind, Kind::kGelu);
  EXPECT_EQ(activation_function(calls.of("aten.gelu.default", {}, {{"approximate", "tanh"}}))->kind, Kind::kGeluTanh);
  EXPECT_FALSE(activation_function(calls.of("aten.clamp.default", {calls.x})));
  EXPECT_FALSE(activation_function(calls.of("aten.clamp.Tensor", {calls.x})));
  EXPECT_FALSE(activation_function(calls.of("aten.softplus.default")));
  EXPECT_FALSE(activation_function(*calls.x));
}

TEST(Facts, ShortNamesAreThoseOfReports) {
  EXPECT_EQ(short_name("torch.ops.aten.relu_.default"), "aten.relu_.default");
  EXPECT_EQ(short_name("operator.getitem"), "operator.getitem");
  EXPECT_EQ(find_op(op::kConv2d)->short_name(), "aten.conv2d.default");
  EXPECT_EQ(find_op(op::kConv2d)->spatial_axes, 2);
  EXPECT_EQ(find_op(op::kMaxPool2d)->spatial_axes, 2);
}

TEST(Facts, WhatKeepsNumbersChoosesAmongThem) {
  for (const char* name : {"aten.view.default", "aten.max_pool2d.default", "aten.cat.default", "aten.clone.default",
                           "aten.upsample_nearest2d.vec", "aten.gather.default"})
    EXPECT_TRUE(find_op(concat("torch.ops.", name))->keeps_numbers) << name;
  for (const char* name : {"aten.relu.default", "aten.avg_pool2d.default", "aten.mean.dim", "aten.to.dtype",
                           "aten.upsample_bilinear2d.vec", "aten.dropout.default", "aten.add.Tensor"})
    EXPECT_FALSE(find_op(concat("torch.ops.", name))->keeps_numbers) << name;
}

}  // namespace
}  // namespace qdq::facts_test
