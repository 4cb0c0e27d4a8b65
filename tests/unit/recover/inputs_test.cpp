// A scale and an offset for each channel in front of the first layers.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <span>

#include "unit/recover/networks.h"

namespace qdq::inputs_test {
namespace {

// x[8, 16] with columns of 0.1 to 10,000 around ten times that.
std::vector<Batch> tables() {
  std::vector<Batch> out = rows();
  for (Batch& batch : out) {
    batch[0] = batch[0].clone();
    for (size_t i = 0; i < 128; ++i) {
      float& value = batch[0].span<float>()[i];
      const float size = std::array{0.1f, 1.0f, 100.0f, 10000.0f}[i % 4];
      value = size * (value + (i % 3 == 0 ? 10.0f : 0.0f));
    }
  }
  return out;
}

// x[8, 16] -> linear -> relu -> linear -> [8, 4], which weighs all columns of tables() alike.
Program reads_table() {
  ProgramBuilder b;
  Node* x = b.input("x", {8, 16});
  Node* first = b.call("linear.default", {x, b.weight("first.weight", {6, 16})});
  Node* relu = b.call("relu.default", {first});
  Program program = b.finish({b.call("linear.default", {relu, b.weight("last.weight", {4, 6})})});
  const std::span<float> weights = program.find_attribute("first.weight")->tensor.span<float>();
  for (size_t i = 0; i < weights.size(); ++i) weights[i] /= std::array{0.1f, 1.0f, 100.0f, 10000.0f}[i % 4];
  return program;
}

// x[4, 3, 8, 8] -> conv -> [4, 6, 8, 8] of channels of 1 to 10,000.
Program reads_bands() {
  ProgramBuilder b;
  Node* x = b.input("x", {4, 3, 8, 8});
  Node* conv = b.call("conv2d.default", {x, b.weight("conv.weight", {6, 3, 3, 3}), b.weight("conv.bias", {6}),
                                         Argument::List{1, 1}, Argument::List{1, 1}});
  Program program = b.finish({conv});
  const std::span<float> weights = program.find_attribute("conv.weight")->tensor.span<float>();
  for (size_t i = 0; i < weights.size(); ++i) weights[i] /= std::array{1.0f, 100.0f, 10000.0f}[i / 9 % 3];
  return program;
}

std::vector<Batch> bands() {
  std::vector<Batch> out = batches();
  for (Batch& batch : out) {
    batch[0] = batch[0].clone();
    for (size_t i = 0; i < 768; ++i) batch[0].span<float>()[i] *= std::array{1.0f, 100.0f, 10000.0f}[i / 64 % 3];
  }
  return out;
}

Prepared calibrated_on(const Program& program, Quantizer& quantizer, const std::vector<Batch>& data) {
  Prepared prepared = prepare_pt2e(program.clone(), quantizer);
  for (const Batch& batch : data) prepared.run(batch);
  return prepared;
}

int64_t count(const Prepared& prepared, std::string_view target) {
  const std::vector<Node*> nodes = prepared.program().graph->nodes();
  return std::count_if(nodes.begin(), nodes.end(), [&](const Node* node) { return node->target() == target; });
}

// Runs the remedy alone, and expects that the float program computes what it did.
int64_t scaled(Prepared& prepared, const Program& program, const std::vector<Batch>& data, double least_gain) {
  Recovery recovery(prepared, data);
  const double before = recovery.decibels();
  const int64_t changed = scale_inputs(recovery);
  EXPECT_GE(recovery.decibels(), before + least_gain);
  for (const Batch& batch : data) {
    const Tensor wanted = run_node_by_node(program, batch)[0], found = float_interpreter(prepared).run(batch)[0];
    for (size_t i = 0; i < static_cast<size_t>(wanted.numel()); ++i)
      EXPECT_NEAR(found.span<float>()[i], wanted.span<float>()[i], 1e-4);
  }
  return changed;
}

TEST(Inputs, ColumnsOfATableGetOffsetsAndScales) {
  const Program program = reads_table();
  XNNPACKQuantizer quantizer = xnnpack();
  Prepared prepared = calibrated_on(program, quantizer, tables());
  EXPECT_EQ(scaled(prepared, program, tables(), 20), 1);
  EXPECT_EQ(count(prepared, "torch.ops.aten.sub.Tensor"), 1);
  EXPECT_EQ(count(prepared, "torch.ops.aten.mul.Tensor"), 1);
  const Program converted = convert_pt2e(prepared);
  OutputError error;
  for (const Batch& batch : tables())
    error.add({run_node_by_node(program, batch)[0]}, {run_node_by_node(converted, batch)[0]});
  EXPECT_GT(error.decibels(), 25);
}

TEST(Inputs, ConvolutionsThatPadTakeScalesAlone) {
  const Program program = reads_bands();
  XNNPACKQuantizer quantizer = xnnpack();
  Prepared prepared = calibrated_on(program, quantizer, bands());
  EXPECT_EQ(scaled(prepared, program, bands(), 20), 1);
  EXPECT_EQ(count(prepared, "torch.ops.aten.sub.Tensor"), 0);
  EXPECT_EQ(count(prepared, "torch.ops.aten.mul.Tensor"), 1);
}

// A concatenation of a table and an embedding rounds both by one scale, before a layer reads either.
TEST(Inputs, WhatIsJoinedInFrontOfTheFirstLayerIsNotRounded) {
  ProgramBuilder b;
  Node* x = b.input("x", {8, 16});
  Node* joined = b.call("cat.default", {Argument::List{x, b.call("tanh.default", {x})}, 1});
  Program program = b.finish({b.call("linear.default", {joined, b.weight("weight", {6, 32})})});
  const std::span<float> weights = program.find_attribute("weight")->tensor.span<float>();
  for (size_t i = 0; i < weights.size(); ++i)
    if (i % 32 < 16) weights[i] /= std::array{0.1f, 1.0f, 100.0f, 10000.0f}[i % 4];
  XNNPACKQuantizer quantizer = xnnpack();
  Prepared prepared = calibrated_on(program, quantizer, tables());
  EXPECT_EQ(scaled(prepared, program, tables(), 20), 1);
}

TEST(Inputs, AreLeftAsTheyAreWhereOneRangeServesAll) {
  const Program program = reads_table();
  XNNPACKQuantizer quantizer = xnnpack();
  Prepared prepared = calibrated_on(program, quantizer, rows());
  EXPECT_EQ(scaled(prepared, program, rows(), 0), 0);
  EXPECT_EQ(count(prepared, "torch.ops.aten.mul.Tensor"), 0);
}

// The noise of a far larger branch hides what the scales gain.
TEST(Inputs, AreUndoneWhereTheOutputsDoNotGain) {
  ProgramBuilder b;
  Node* x = b.input("x", {8, 16});
  Node* first = b.call("linear.default", {x, b.weight("first.weight", {4, 16}), b.weight("first.bias", {4})});
  Node* large =
      b.call("linear.default", {b.input("y", {8, 16}), b.weight("large.weight", {4, 16}), b.weight("large.bias", {4})});
  Program program = b.finish({b.call("add.Tensor", {first, large})});
  for (float& weight : program.find_attribute("first.weight")->tensor.span<float>()) weight /= 1e6f;
  for (float& weight : program.find_attribute("large.weight")->tensor.span<float>()) weight *= 100;
  std::vector<Batch> data = tables();
  for (size_t i = 0; i < data.size(); ++i) data[i].push_back(rows()[i][0]);
  XNNPACKQuantizer quantizer = xnnpack(2);
  Prepared prepared = calibrated_on(program, quantizer, data);
  Recovery recovery(prepared, data);
  const double before = recovery.decibels();
  ASSERT_LT(before, 20);
  EXPECT_EQ(scale_inputs(recovery), 0);
  EXPECT_EQ(recovery.decibels(), before);
  EXPECT_EQ(count(prepared, "torch.ops.aten.mul.Tensor"), 0);
  for (const char* name : {"first.weight", "first.bias"}) {
    const Tensor wanted = program.find_attribute(name)->tensor, found = prepared.program().find_attribute(name)->tensor;
    for (size_t i = 0; i < static_cast<size_t>(wanted.numel()); ++i)
      EXPECT_EQ(found.span<float>()[i], wanted.span<float>()[i]);
  }
}

}  // namespace
}  // namespace qdq::inputs_test
