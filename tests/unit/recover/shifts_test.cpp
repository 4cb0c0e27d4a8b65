// Offsets of channels that move from a layer's bias to those of the layers behind it.
#include <gtest/gtest.h>

#include <functional>

#include "unit/recover/networks.h"

namespace qdq::shifts_test {
namespace {

void add_to_channel(const Program& program, const std::string& bias, int64_t channel, float offset) {
  program.find_attribute(bias)->tensor.span<float>()[static_cast<size_t>(channel)] += offset;
}

// x[8, 16] -> layer norm -> two linear layers, the second without a bias -> [8, 4] and [8, 4]; the norm's channels lie
// around -60, 0 and 60.
Program far_apart() {
  ProgramBuilder b;
  Node* x = b.input("x", {8, 16});
  Node* norm =
      b.call("layer_norm.default", {x, Argument::List{16}, b.weight("norm.weight", {16}), b.weight("norm.bias", {16})});
  Node* first = b.call("linear.default", {norm, b.weight("first.weight", {4, 16}), b.weight("first.bias", {4})});
  Node* second = b.call("linear.default", {norm, b.weight("second.weight", {4, 16})});
  Program program = b.finish({first, second});
  for (int64_t c = 0; c < 16; ++c) add_to_channel(program, "norm.bias", c, 60.0f * static_cast<float>(c % 3 - 1));
  return program;
}

// x[4, 3, 8, 8] -> conv -> clamp -> conv -> [4, 6, 8, 8]; half of the first convolution's channels stay above 20.
Program high_biases(double low, double high, int64_t kernel, int64_t padding) {
  ProgramBuilder b;
  Node* x = b.input("x", {4, 3, 8, 8});
  Node* first = b.call("conv2d.default", {x, b.weight("first.weight", {8, 3, 1, 1}), b.weight("first.bias", {8})});
  Node* clamped = b.call("hardtanh.default", {first, low, high});
  Node* last = b.call("conv2d.default", {clamped, b.weight("last.weight", {6, 8, kernel, kernel}), Argument(),
                                         Argument::List{1, 1}, Argument::List{padding, padding}});
  Program program = b.finish({last});
  for (int64_t c = 0; c < 8; c += 2) add_to_channel(program, "first.bias", c, 30);
  return program;
}

// Runs shifts alone, and expects that the float program computes what it did.
int64_t shifted(const std::function<Program()>& make, const std::vector<Batch>& data, double least_gain) {
  XNNPACKQuantizer quantizer = xnnpack();
  Prepared prepared = prepare_pt2e(make(), quantizer);
  for (const Batch& batch : data) prepared.run(batch);
  Recovery recovery(prepared, data);
  const double before = recovery.decibels();
  const std::vector<Tensor> outputs = Simulation(prepared).run(data[0]);
  const int64_t changed = shift_channels(recovery);
  EXPECT_GE(recovery.decibels(), before + least_gain);
  for (const Batch& batch : data) {
    const std::vector<Tensor> wanted = run_node_by_node(make(), batch), found = float_interpreter(prepared).run(batch);
    for (size_t i = 0; i < wanted.size(); ++i)
      for (size_t k = 0; k < static_cast<size_t>(wanted[i].numel()); ++k)
        EXPECT_NEAR(found[i].contiguous().span<float>()[k], wanted[i].contiguous().span<float>()[k], 2e-4);
  }
  const std::vector<Tensor> now = Simulation(prepared).run(data[0]);
  for (size_t i = 0; changed == 0 && i < now.size(); ++i)
    for (size_t k = 0; k < static_cast<size_t>(now[i].numel()); ++k)
      EXPECT_EQ(now[i].contiguous().span<float>()[k], outputs[i].contiguous().span<float>()[k]);
  return changed;
}

TEST(Shifts, BringChannelsBehindANormToTheMiddle) { EXPECT_EQ(shifted(far_apart, rows(), 5), 1); }

TEST(Shifts, AbsorbHighBiasesThroughRelu) {
  EXPECT_EQ(shifted([] { return high_biases(0, 1e30, 1, 0); }, batches(), 3), 1);
  EXPECT_EQ(shifted([] { return high_biases(0, 1e30, 3, 0); }, batches(), 3), 1);
}

TEST(Shifts, LeaveChannelsThatTheClampCuts) {
  EXPECT_EQ(shifted([] { return high_biases(0, 6, 1, 0); }, batches(), 0), 0);
}

TEST(Shifts, LeaveWhatAConvolutionPadsWithZeros) {
  EXPECT_EQ(shifted([] { return high_biases(0, 1e30, 3, 1); }, batches(), 0), 0);
}

// Each reads the one before it, so that its bias both takes an offset and gives one away.
TEST(Shifts, PassThroughSeveralLayers) {
  const auto make = [] {
    ProgramBuilder b;
    Node* x = b.input("x", {8, 16});
    for (const std::string name : {"a", "b", "c"})
      x = b.call("linear.default", {x, b.weight(name + ".weight", {16, 16}), b.weight(name + ".bias", {16})});
    Program program = b.finish({x});
    for (const std::string name : {"a.bias", "b.bias"})
      for (int64_t c = 0; c < 16; ++c) add_to_channel(program, name, c, c % 2 == 0 ? 40.0f : -40.0f);
    return program;
  };
  EXPECT_EQ(shifted(make, rows(), 4), 2);
}

// The noise of a far larger branch hides what the shift gains.
TEST(Shifts, AreUndoneWhereTheOutputsDoNotGain) {
  const auto make = [] {
    ProgramBuilder b;
    Node* x = b.input("x", {8, 16});
    Node* norm = b.call("layer_norm.default",
                        {x, Argument(Argument::List{16}), b.weight("norm.weight", {16}), b.weight("norm.bias", {16})});
    Node* first = b.call("linear.default", {norm, b.weight("first.weight", {4, 16}), b.weight("first.bias", {4})});
    Node* large = b.call("linear.default", {x, b.weight("large.weight", {4, 16}), b.weight("large.bias", {4})});
    Program program = b.finish({b.call("add.Tensor", {first, large})});
    for (int64_t c = 0; c < 16; ++c) add_to_channel(program, "norm.bias", c, 60.0f * static_cast<float>(c % 3 - 1));
    for (float& weight : program.find_attribute("large.weight")->tensor.span<float>()) weight *= 10000;
    return program;
  };
  XNNPACKQuantizer quantizer = xnnpack();
  Prepared prepared = prepare_pt2e(make(), quantizer);
  for (const Batch& batch : rows()) prepared.run(batch);
  Recovery recovery(prepared, rows());
  const double before = recovery.decibels();
  const Tensor wanted = Simulation(prepared).run(rows()[0])[0];
  EXPECT_EQ(shift_channels(recovery), 0);
  EXPECT_EQ(recovery.decibels(), before);
  const Tensor found = Simulation(prepared).run(rows()[0])[0];
  for (size_t i = 0; i < 32; ++i) EXPECT_EQ(found.span<float>()[i], wanted.span<float>()[i]);
  for (const char* name : {"norm.bias", "first.bias"}) {
    const Program fresh = make();
    const Tensor x = fresh.find_attribute(name)->tensor, y = prepared.program().find_attribute(name)->tensor;
    for (size_t i = 0; i < static_cast<size_t>(x.numel()); ++i) EXPECT_EQ(y.span<float>()[i], x.span<float>()[i]);
  }
}

}  // namespace
}  // namespace qdq::shifts_test
