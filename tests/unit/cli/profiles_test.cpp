// Profiles of runtimes: what they quantize and how, and what is said of files.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "cli/cli.h"
#include "unit/cli/onnx_node.h"
#include "format/json.h"
#include "format/npz.h"
#include "format/onnx_file.h"
#include "io/model.h"
#include "op/targets.h"
#include "profile/runtime_verdicts.h"
#include "quant/pt2e.h"
#include "recipe/recipe.h"
#include "unit/cli/memory_host.h"
#include "unit/format/expect_error.h"

namespace qdq::profiles_test {
namespace {

using format::OnnxAttribute;
using format::OnnxKind;

Tensor ramp(const Shape& sizes) {
  const Tensor out = Tensor::empty(sizes, DType::kF32);
  for (int64_t i = 0; i < out.numel(); ++i) out.data<float>()[i] = static_cast<float>(i * 7 % 23) / 8 - 1;
  return out;
}

// x [2, 3, 6, 6]: a convolution with a ReLU6, one without, their sum, a gate, a pool and a matrix product.
std::vector<std::byte> network() {
  format::OnnxFile out;
  out.ir_version = 8;
  out.opsets = {{"", 17}};
  format::OnnxValueInfo x;
  x.name = "x";
  x.dtype = DType::kF32;
  x.dims = std::vector<format::OnnxDimension>{{2, ""}, {3, ""}, {6, ""}, {6, ""}};
  out.inputs = {x};
  const Tensor low = Tensor::scalar(0.0F), high = Tensor::scalar(6.0F);
  out.initializers = {{"w0", ramp({4, 3, 1, 1})},
                      {"b0", ramp({4})},
                      {"w1", ramp({4, 4, 1, 1})},
                      {"b1", ramp({4})},
                      {"fc", ramp({4, 5})},
                      {"fcb", ramp({5})},
                      {"low", low},
                      {"high", high}};
  out.nodes = {onnx_node("Conv", {"x", "w0", "b0"}, "conv0"),     onnx_node("Clip", {"conv0", "low", "high"}, "clip"),
               onnx_node("Conv", {"clip", "w1", "b1"}, "conv1"),  onnx_node("Add", {"conv1", "clip"}, "sum"),
               onnx_node("Sigmoid", {"conv1"}, "gate"),           onnx_node("Mul", {"sum", "gate"}, "gated"),
               onnx_node("GlobalAveragePool", {"gated"}, "pool"), onnx_node("Flatten", {"pool"}, "flat"),
               onnx_node("Gemm", {"flat", "fc", "fcb"}, "y")};
  format::OnnxValueInfo y;
  y.name = "y";
  y.dtype = DType::kF32;
  y.dims = std::vector<format::OnnxDimension>{{2, ""}, {5, ""}};
  out.outputs = {y};
  return format::write_onnx_file(out);
}

// x [1, 3, 2, 6, 6]: two convolutions of volumes.
std::vector<std::byte> volumes() {
  format::OnnxFile out;
  out.ir_version = 8;
  out.opsets = {{"", 17}};
  format::OnnxValueInfo x, y;
  x.name = "x";
  x.dtype = y.dtype = DType::kF32;
  x.dims = std::vector<format::OnnxDimension>{{1, ""}, {3, ""}, {2, ""}, {6, ""}, {6, ""}};
  out.inputs = {x};
  out.initializers = {{"w0", ramp({4, 3, 2, 3, 3})}, {"w1", ramp({5, 4, 1, 1, 1})}};
  out.nodes = {onnx_node("Conv", {"x", "w0"}, "first"), onnx_node("Conv", {"first", "w1"}, "y")};
  y.name = "y";
  y.dims = std::vector<format::OnnxDimension>{{1, ""}, {5, ""}, {1, ""}, {4, ""}, {4, ""}};
  out.outputs = {y};
  return format::write_onnx_file(out);
}

class Profiles : public testing::Test {
 protected:
  Profiles() {
    host.contents["m.onnx"] = network();
    host.contents["x.npz"] = format::write_npz(std::vector<format::NamedTensor>{{"x", ramp({2, 3, 6, 6})}});
  }
  int run(std::vector<std::string> words) {
    host.out.clear();
    host.err.clear();
    return run_cli(words, host);
  }
  std::string quantized(const std::string& profile, std::vector<std::string> more = {}) {
    const std::string file = profile + std::string(runtime_profile(profile).ending);
    std::vector<std::string> words = {"quantize", "m.onnx", "--calibrate", "x.npz", "--for", profile, "-o", file};
    words.insert(words.end(), more.begin(), more.end());
    EXPECT_EQ(run(words), 0) << profile << ": " << host.err;
    return file;
  }
  MemoryHost host;
};

TEST_F(Profiles, MakeRecipesThatAreRead) {
  for (const RuntimeProfile& profile : runtime_profiles()) {
    const std::string name(profile.name);
    EXPECT_NE(parse_recipe(recipe_of(profile), name), nullptr);
    if (profile.can_dynamic) {
      EXPECT_NE(parse_recipe(recipe_of(profile, {.is_dynamic = true}), name), nullptr);
    } else {
      expect_error(ErrorCode::kInvalidArgument, "leave out --dynamic",
                   [&] { recipe_of(profile, {.is_dynamic = true}); });
    }
    if (profile.can_16_bits) {
      EXPECT_NE(parse_recipe(recipe_of(profile, {.activation_bits = 16}), name), nullptr);
    } else {
      expect_error(ErrorCode::kInvalidArgument, "no kernels for activations of 16 bits",
                   [&] { recipe_of(profile, {.activation_bits = 16}); });
    }
    if (profile.saturates) {
      EXPECT_NE(parse_recipe(recipe_of(profile, {.weight_bits = 7}), name), nullptr);
    } else {
      expect_error(ErrorCode::kInvalidArgument, "leave the bits out", [&] { recipe_of(profile, {.weight_bits = 7}); });
    }
    const format::Json report = profile_report(profile);
    EXPECT_EQ(report["name"], name);
    EXPECT_FALSE(report["onnx"].contains("opset"));  // the first that has all operators
  }
  expect_error(ErrorCode::kInvalidArgument, "did you mean openvino", [] { runtime_profile("openvin"); });
  expect_error(ErrorCode::kInvalidArgument, "wanted ort, ort-web, transformers.js, webnn, openvino, qnn",
               [] { runtime_profile("tensorrt"); });
}

TEST_F(Profiles, QuantizeAllThatTheirRuntimesRunInIntegers) {
  for (const RuntimeProfile& profile : runtime_profiles()) {
    if (profile.is_dynamic) continue;
    SCOPED_TRACE(profile.name);
    const std::string file = quantized(std::string(profile.name));
    EXPECT_NE(host.out.find("in integers       3 of 3 products by " + std::string(profile.runtime)), std::string::npos)
        << host.out;
    EXPECT_EQ(host.out.find("saturate") != std::string::npos, profile.saturates) << host.out;
    ASSERT_EQ(run({"inspect", file, "--for", std::string(profile.name), "--json"}), 0) << host.err;
    const format::Json report = format::parse_json(host.out, "inspect");
    EXPECT_EQ(report["products"]["in_integers"], 3);
    EXPECT_EQ(report["products"]["total"], 3);
    if (profile.ending != ".onnx") continue;
    std::map<std::string, Tensor> stored;
    const format::OnnxFile saved = format::read_onnx_file(host.contents[file]);
    EXPECT_EQ(saved.opsets.front(), (std::pair<std::string, int64_t>("", 17)));
    for (const auto& [name, tensor] : saved.initializers) stored[name] = tensor;
    std::map<std::string, std::string> producers;  // the operator that gives a value
    for (const format::OnnxNode& node : saved.nodes) producers[node.outputs[0]] = node.op_type;
    int64_t gates = 0;
    for (const format::OnnxNode& node : saved.nodes) {
      if (node.op_type == "QuantizeLinear") {
        EXPECT_EQ(stored.at(node.inputs[2]).dtype(), profile.activations);
      }
      if (node.op_type == "QuantizeLinear" && producers[node.inputs[0]] == "Sigmoid") {
        ++gates;
        EXPECT_EQ(profile.name != "openvino" ? stored.at(node.inputs[1]).item() : 1.0 / 256, 1.0 / 256);
      }
      if (node.op_type != "DequantizeLinear" || !stored.contains(node.inputs[0])) continue;
      const Tensor integers = stored.at(node.inputs[0]);
      if (integers.dtype() != DType::kS8) continue;
      const bool by_channel = !profile.is_by_channel_in_convolutions_alone || integers.dim() == 4;
      EXPECT_EQ(stored.at(node.inputs[1]).numel() > 1, by_channel);
      const std::span<const int8_t> values = integers.span<int8_t>();
      EXPECT_GE(*std::min_element(values.begin(), values.end()), profile.weight_min);
      EXPECT_EQ(*std::max_element(values.begin(), values.end()), profile.weight_max);
    }
    EXPECT_EQ(gates, 1);
  }
}

// A convolution, SiLU as exporters write it, another convolution.
std::vector<std::byte> with_silu() {
  format::OnnxFile out = format::read_onnx_file(network());
  out.nodes = {onnx_node("Conv", {"x", "w0", "b0"}, "conv0"),     onnx_node("Sigmoid", {"conv0"}, "sigmoid"),
               onnx_node("Mul", {"conv0", "sigmoid"}, "silu"),    onnx_node("Conv", {"silu", "w1", "b1"}, "conv1"),
               onnx_node("GlobalAveragePool", {"conv1"}, "pool"), onnx_node("Flatten", {"pool"}, "flat"),
               onnx_node("Gemm", {"flat", "fc", "fcb"}, "y")};
  return format::write_onnx_file(out);
}

TEST_F(Profiles, QuantizeSiluAsASigmoidAndAProductWhereTheRuntimeHasBoth) {
  host.contents["m.onnx"] = with_silu();
  for (const RuntimeProfile& profile : runtime_profiles()) {
    if (profile.is_dynamic || profile.ending != ".onnx") continue;
    SCOPED_TRACE(profile.name);
    const std::string file = quantized(std::string(profile.name));
    ASSERT_EQ(run({"inspect", file, "--for", std::string(profile.name), "--json"}), 0) << host.err;
    const format::Json report = format::parse_json(host.out, "inspect");
    std::map<std::string, std::string> runs;
    for (const format::Json& entry : report["operators"])
      runs[entry["op"].get<std::string>()] = entry["runs"].get<std::string>();
    const bool has_sigmoid = profile.name != "openvino";
    EXPECT_EQ(runs.count("aten.sigmoid.default"), has_sigmoid ? 1u : 0u) << report;
    if (!has_sigmoid) continue;
    EXPECT_EQ(runs["aten.sigmoid.default"], "integers") << report;
    EXPECT_EQ(runs["aten.mul.Tensor"], "integers") << report;
    // The sigmoid is quantized once, and so are the convolution's results, which it and the product read.
    const format::OnnxFile saved = format::read_onnx_file(host.contents[file]);
    std::map<std::string, int64_t> readers;
    for (const format::OnnxNode& node : saved.nodes)
      if (node.op_type == "QuantizeLinear") ++readers[node.inputs[0]];
    for (const format::OnnxNode& node : saved.nodes)
      if (node.op_type == "Sigmoid" || node.op_type == "Conv") {
        EXPECT_EQ(readers[node.outputs[0]], 1) << node.op_type;
      }
  }
}

// The integers' data types of all QuantizeLinear nodes, and the scales of those behind an operator.
struct Quantizers {
  std::vector<DType> dtypes;
  std::map<std::string, double> scales;
};
Quantizers quantizers_of(const format::OnnxFile& file) {
  std::map<std::string, Tensor> stored(file.initializers.begin(), file.initializers.end());
  std::map<std::string, std::string> producers;
  Quantizers out;
  for (const format::OnnxNode& node : file.nodes) {
    producers[node.outputs[0]] = node.op_type;
    if (node.op_type != "QuantizeLinear") continue;
    EXPECT_EQ(node.domain, "");
    out.dtypes.push_back(stored.at(node.inputs[2]).dtype());
    if (const auto producer = producers.find(node.inputs[0]); producer != producers.end())
      out.scales[producer->second] = stored.at(node.inputs[1]).item();
  }
  return out;
}

TEST_F(Profiles, HaveActivationsOf16BitsWhereTheRuntimeDoes) {
  const std::string file = quantized("qnn", {"--activation-bits", "16"});
  EXPECT_NE(host.out.find("in integers       3 of 3 products"), std::string::npos) << host.out;
  const format::OnnxFile saved = format::read_onnx_file(host.contents[file]);
  EXPECT_EQ(saved.opsets.front(), (std::pair<std::string, int64_t>("", 21)));
  const Quantizers quantizers = quantizers_of(saved);
  EXPECT_GT(quantizers.dtypes.size(), 4u);
  for (const DType dtype : quantizers.dtypes) EXPECT_EQ(dtype, DType::kU16);
  EXPECT_EQ(quantizers.scales.at("Sigmoid"), 1.0 / 65536);  // to the bit
  // It is read back as it was written, and no other runtime computes so.
  ASSERT_EQ(run({"inspect", file, "--for", "qnn"}), 0) << host.err;
  EXPECT_NE(host.out.find("3 of 3 convolutions"), std::string::npos) << host.out;
  ASSERT_EQ(run({"inspect", file, "--for", "ort"}), 0) << host.err;
  EXPECT_NE(host.out.find("is uint16, wanted uint8\n"), std::string::npos) << host.out;
}

TEST_F(Profiles, GiveWeights7BitsWhereSumsSaturate) {
  quantized("openvino", {"--weight-bits", "7"});
  EXPECT_EQ(host.out.find("saturate"), std::string::npos) << host.out;
  const format::OnnxFile saved = format::read_onnx_file(host.contents["openvino.onnx"]);
  for (const auto& [name, tensor] : saved.initializers) {
    if (tensor.dtype() != DType::kS8 || tensor.dim() < 2) continue;
    const std::span<const int8_t> values = tensor.span<int8_t>();
    EXPECT_LE(*std::max_element(values.begin(), values.end()), 63) << name;
  }
}

int64_t count(const format::OnnxFile& file, const std::string& op) {
  return std::count_if(file.nodes.begin(), file.nodes.end(), [&](const auto& node) { return node.op_type == op; });
}

TEST_F(Profiles, GiveEachReaderItsPairWhereThatIsWanted) {
  const format::OnnxFile shared = format::read_onnx_file(host.contents[quantized("ort")]);
  const format::OnnxFile own = format::read_onnx_file(host.contents[quantized("ort", {"--onnx-dedicated-pairs"})]);
  // The first convolution's result is read by the second and by the sum, the second's by the sum and the gate.
  EXPECT_EQ(count(own, "QuantizeLinear"), count(shared, "QuantizeLinear") + 2);
  std::map<std::string, int64_t> readers;
  for (const format::OnnxNode& node : own.nodes)
    for (const std::string& input : node.inputs) ++readers[input];
  for (const format::OnnxNode& node : own.nodes)
    if (node.op_type == "QuantizeLinear" || (node.op_type == "DequantizeLinear" && readers.contains(node.outputs[0]))) {
      EXPECT_EQ(readers[node.outputs[0]], 1) << node.name;
    }
  ASSERT_EQ(run({"inspect", "ort.onnx", "--for", "ort"}), 0) << host.err;
  EXPECT_NE(host.out.find("3 of 3 convolutions"), std::string::npos) << host.out;
  ASSERT_EQ(run({"run", "ort.onnx", "--inputs", "x.npz", "-o", "own.npz"}), 0) << host.err;
  quantized("ort");
  ASSERT_EQ(run({"run", "ort.onnx", "--inputs", "x.npz", "-o", "shared.npz"}), 0) << host.err;
  EXPECT_EQ(host.contents["own.npz"], host.contents["shared.npz"]);
  ASSERT_EQ(run({"convert", "ort.onnx", "own.onnx", "--onnx-dedicated-pairs"}), 0) << host.err;
  EXPECT_EQ(host.err.find("does nothing"), std::string::npos) << host.err;
  ASSERT_EQ(run({"convert", "own.onnx", "again.onnx", "--onnx-dedicated-pairs"}), 0) << host.err;
  EXPECT_NE(host.err.find("warning: --onnx-dedicated-pairs does nothing: no two operators of this model read the same "
                          "quantized value"),
            std::string::npos)
      << host.err;
  EXPECT_EQ(run({"convert", "m.onnx", "again.onnx", "--onnx-dedicated-pairs"}), 1);
  EXPECT_NE(host.err.find("no activation of the model is quantized"), std::string::npos) << host.err;
}

TEST_F(Profiles, WithoutVnniHaveANote) {
  quantized("ort");
  EXPECT_NE(host.out.find("use --for x86 or --reduce-range"), std::string::npos) << host.out;
  quantized("x86");
  EXPECT_EQ(host.err.find("warning"), std::string::npos) << host.err;
}

TEST_F(Profiles, AreAdvisedWhereTheyMakeMoreInt8) {
  const auto advice = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"quantize", "m.onnx", "--calibrate", "x.npz", "--json"});
    EXPECT_EQ(run(words), 0) << host.err;
    return format::parse_json(host.out, "output")["advice"].get<std::string>();
  };
  EXPECT_EQ(advice({"--quantizer", "x86-inductor", "-o", "a.onnx"}),
            "ONNX Runtime computes 1 of 3 products of this file in integers; made with --for ort, at least 2");
  EXPECT_EQ(advice({"-o", "a.onnx"}), "");
  EXPECT_EQ(advice({"--for", "openvino", "-o", "a.onnx"}), "");
  EXPECT_EQ(advice({"--dynamic", "-o", "a.pt2"}), "");
  EXPECT_EQ(advice({"--quantizer", "x86-inductor", "-o", "a.pt2"}), "");
  host.contents["m.onnx"] = volumes();
  host.contents["x.npz"] = format::write_npz(std::vector<format::NamedTensor>{{"x", ramp({1, 3, 2, 6, 6})}});
  EXPECT_EQ(advice({"-o", "a.pt2"}),
            "of the layers left in float, at least 2 become int8 with --for ort, which writes .onnx");
  EXPECT_EQ(advice({"--exclude", "torch.nn.Conv3d", "-o", "a.pt2"}), "");
}

TEST_F(Profiles, RefuseWhatDoesNotGoWithThem) {
  const auto says = [&](std::vector<std::string> words, int status, const std::string& part) {
    words.insert(words.begin(), {"quantize", "m.onnx", "--calibrate", "x.npz"});
    EXPECT_EQ(run(words), status);
    EXPECT_NE(host.err.find(part), std::string::npos) << host.err;
  };
  says({"--for", "ort", "-o", "a.pt2"}, 2,
       "-o a.pt2: ONNX Runtime on x86-64 with VNNI, and on ARM (--for ort) reads files that end in .onnx");
  says({"--for", "executorch", "-o", "a.onnx"}, 2, "reads files that end in .pt2");
  says({"--for", "tflite", "-o", "a.onnx"}, 2, "--for: found tflite, wanted ort, ");
  says({"--for", "openvin", "-o", "a.onnx"}, 2, "--for: found openvin (did you mean openvino?), wanted ort, ");
  says({"--for", "webnn", "--dynamic", "-o", "a.onnx"}, 2, "leave out --dynamic");
  says({"--for", "ort", "--activation-bits", "16", "-o", "a.onnx"}, 2, "only qnn has");
  says({"--for", "x86", "--weight-bits", "7", "-o", "a.onnx"}, 2, "gives weights 7 bits by itself");
  says({"--for", "ort", "--weight-bits", "4", "-o", "a.onnx"}, 2, "7 or 8 bits, found 4");
  says({"--activation-bits", "16", "-o", "a.onnx"}, 2, "--for");
  says({"--for", "executorch", "--onnx-dedicated-pairs", "-o", "a.pt2"}, 2,
       "--onnx-dedicated-pairs is for .onnx files only, but the output is a.pt2");
  says({"--for", "executorch", "--onnx-accuracy-level", "4", "-o", "a.pt2"}, 2,
       "--onnx-accuracy-level is for .onnx files only, but the output is a.pt2");
  says({"--for", "ort", "--onnx-accuracy-level", "4", "-o", "a.onnx"}, 1, "but the model has none");
  for (const std::string option : {"--reduce-range", "--weights-only", "--onnx-signed-activations", "--qat"})
    says({"--for", "ort", option, "-o", "a.onnx"}, 2, option);
}

// The verdict on an operator by its place in the graph.
std::map<std::string, RuntimeVerdict> verdicts_of(const Program& program, const std::string& profile) {
  std::map<std::string, RuntimeVerdict> out;
  for (const RuntimeVerdict& verdict : runtime_verdicts(program, runtime_profile(profile))) out[verdict.node] = verdict;
  return out;
}

TEST_F(Profiles, SayWhyAnOperatorStaysFloat) {
  const Program floats = load_onnx(host.contents["m.onnx"]);
  for (const auto& [name, verdict] : verdicts_of(floats, "ort")) {
    EXPECT_FALSE(verdict.in_integers) << name;
    EXPECT_NE(verdict.reason.find("is not quantized"), std::string::npos) << verdict.reason;
  }
  // Others' recipes: XNNPACK's has activations of int8, and its ReLU6 stands for itself.
  ASSERT_EQ(run({"quantize", "m.onnx", "--calibrate", "x.npz", "-o", "s8.onnx", "--onnx-signed-activations"}), 0);
  const Program as_signed = load_onnx(host.contents["s8.onnx"]);
  const auto ort = verdicts_of(as_signed, "ort");
  int64_t in_float = 0;
  for (const auto& [name, verdict] : ort) {
    in_float += verdict.products > 0 && !verdict.in_integers;
    if (verdict.products > 0 && !verdict.in_integers) {
      EXPECT_NE(verdict.reason.find("is int8 and has several readers"), std::string::npos) << verdict.reason;
    }
  }
  EXPECT_EQ(in_float, 1);  // the convolution whose input the addition reads, too
  // What is read of a file whose activations are uint8.
  const Program for_ort = load_onnx(host.contents[quantized("ort")]);
  for (const auto& [name, verdict] : verdicts_of(for_ort, "webnn"))
    if (verdict.products > 0) {
      EXPECT_NE(verdict.reason.find("is uint8, wanted int8"), std::string::npos) << name;
    }
  for (const auto& [name, verdict] : verdicts_of(for_ort, "transformers.js"))
    if (verdict.op == "aten.linear.default") {
      EXPECT_NE(verdict.reason.find("this profile finds them while the model runs"), std::string::npos);
    }
  // A result that others read as float.
  Program program = load_onnx(host.contents["ort.onnx"]);
  Node* output = program.graph->output_node();
  const std::vector<Node*> nodes = program.graph->nodes();
  Node* conv = *std::find_if(nodes.begin(), nodes.end(), [](const Node* node) {
    return node->target().find("conv2d") != std::string::npos && node->users()[0]->is(op::kQuantize);
  });
  output->set_arg(0, Argument(Argument::List{output->arg(0).list()[0], conv}));
  EXPECT_NE(verdicts_of(program, "ort").at(conv->name()).reason.find("others read its result"), std::string::npos);
  EXPECT_NE(verdicts_of(program, "qnn").at(conv->name()).reason.find("others read its result"), std::string::npos);
}

format::OnnxFile of_nodes(std::vector<format::OnnxNode> nodes,
                          std::vector<std::pair<std::string, Tensor>> initializers) {
  format::OnnxFile out = format::read_onnx_file(network());
  out.nodes = std::move(nodes);
  out.initializers = std::move(initializers);
  out.outputs[0].dims = std::vector<format::OnnxDimension>{{2, ""}, {4, ""}, {6, ""}, {6, ""}};
  return out;
}

// As quantize_static writes it: zeros on one side, which qdq reads as a pad, and a pair for each reader.
TEST_F(Profiles, KnowWhatOthersWrite) {
  const Tensor scale = Tensor::scalar(0.05F), zero = Tensor::full({}, DType::kU8, 128);
  format::OnnxNode conv = onnx_node("Conv", {"xd", "wd"}, "c");
  conv.attributes = {onnx_integers("pads", {0, 0, 1, 1}), onnx_integers("kernel_shape", {2, 2})};
  const format::OnnxFile file = of_nodes(
      {onnx_node("QuantizeLinear", {"x", "s", "z"}, "xq"), onnx_node("DequantizeLinear", {"xq", "s", "z"}, "xd"),
       onnx_node("DequantizeLinear", {"w", "s", "wz"}, "wd"), conv, onnx_node("QuantizeLinear", {"c", "s", "z"}, "q1"),
       onnx_node("DequantizeLinear", {"q1", "s", "z"}, "d1"), onnx_node("QuantizeLinear", {"c", "s", "z"}, "q2"),
       onnx_node("DequantizeLinear", {"q2", "s", "z"}, "d2"), onnx_node("Add", {"d1", "d2"}, "sum"),
       onnx_node("QuantizeLinear", {"sum", "s", "z"}, "q3"), onnx_node("DequantizeLinear", {"q3", "s", "z"}, "y")},
      {{"s", scale},
       {"z", zero},
       {"w", Tensor::full({4, 3, 2, 2}, DType::kS8, 3)},
       {"wz", Tensor::full({}, DType::kS8, 0)}});
  const Program program = load_onnx(format::write_onnx_file(file));
  for (const char* profile : {"ort", "qnn", "openvino"})
    for (const auto& [name, verdict] : verdicts_of(program, profile))
      EXPECT_TRUE(verdict.in_integers) << profile << ", " << name << ": " << verdict.reason;
}

TEST_F(Profiles, KnowThatConvIntegerWantsUnsignedWeights) {
  format::OnnxNode quantize = onnx_node("DynamicQuantizeLinear", {"x"}, "xq");
  quantize.outputs = {"xq", "xs", "xz"};
  format::OnnxNode cast = onnx_node("Cast", {"c"}, "f");
  cast.attributes.emplace_back();
  cast.attributes[0].name = "to";
  cast.attributes[0].kind = format::OnnxKind::kInt;
  cast.attributes[0].i = 1;
  for (const bool is_signed : {false, true}) {
    const DType dtype = is_signed ? DType::kS8 : DType::kU8;
    const format::OnnxFile file = of_nodes({quantize, onnx_node("ConvInteger", {"xq", "w", "xz", "wz"}, "c"), cast,
                                            onnx_node("Mul", {"xs", "ws"}, "s"), onnx_node("Mul", {"f", "s"}, "y")},
                                           {{"w", Tensor::full({4, 3, 1, 1}, dtype, 3)},
                                            {"wz", Tensor::full({}, dtype, 0)},
                                            {"ws", Tensor::scalar(0.05F)}});
    const Program program = load_onnx(format::write_onnx_file(file));
    int64_t convolutions = 0;
    for (const auto& [name, verdict] : verdicts_of(program, "transformers.js")) {
      convolutions += verdict.products;
      EXPECT_EQ(verdict.reason.find("no ConvInteger of int8 weights") != std::string::npos, is_signed)
          << verdict.reason;
    }
    EXPECT_EQ(convolutions, 1);
  }
}

TEST_F(Profiles, ComputeDynamicallyWhereTheRuntimeDoes) {
  const std::string file = quantized("ort", {"--dynamic"});
  EXPECT_NE(host.out.find("in integers       1 of 3 products"), std::string::npos) << host.out;
  const format::OnnxFile saved = format::read_onnx_file(host.contents[file]);
  EXPECT_EQ(std::count_if(saved.nodes.begin(), saved.nodes.end(),
                          [](const auto& node) { return node.op_type == "DynamicQuantizeLinear"; }),
            1);
}

TEST_F(Profiles, MakeAFolderForTransformersJs) {
  ASSERT_EQ(run({"quantize", "m.onnx", "--for", "transformers.js", "-o", "folder"}), 0) << host.err;
  for (const char* ending : {"", "_fp16", "_quantized", "_int8", "_uint8", "_q4", "_q4f16", "_bnb4"}) {
    const std::string path = concat("folder/onnx/model", ending, ".onnx");
    ASSERT_TRUE(host.contents.contains(path)) << path;
    EXPECT_NE(host.out.find("wrote " + path), std::string::npos) << host.out;
    EXPECT_NO_THROW(load_program(host.contents[path])) << path;
  }
  EXPECT_EQ(host.contents["folder/onnx/model_quantized.onnx"], host.contents["folder/onnx/model_uint8.onnx"])
      << "a model with convolutions";
}

TEST_F(Profiles, MakeTheFilesThatAreAskedFor) {
  ASSERT_EQ(run({"quantize", "m.onnx", "--for", "transformers.js", "-o", "f", "--dtypes", "q8,fp16",
                 "--model-file-name", "vision", "--json"}),
            0)
      << host.err;
  const format::Json json = format::parse_json(host.out, "the summary");
  ASSERT_EQ(json["files"].size(), 2u);
  EXPECT_EQ(json["files"][0]["path"], "f/onnx/vision_quantized.onnx");
  EXPECT_EQ(json["files"][0]["layers"]["quantized"], 3);
  EXPECT_EQ(json["files"][1]["path"], "f/onnx/vision_fp16.onnx");
  EXPECT_FALSE(host.contents.contains("f/onnx/vision.onnx"));
  // The model that is read may be the float file of the folder.
  host.contents["f/onnx/model.onnx"] = network();
  const auto before = host.contents["f/onnx/model.onnx"];
  ASSERT_EQ(run({"quantize", "f/onnx/model.onnx", "--for", "transformers.js", "-o", "f", "--dtypes", "fp32,q4"}), 0);
  EXPECT_NE(host.out.find("found f/onnx/model.onnx"), std::string::npos) << host.out;
  EXPECT_EQ(host.contents["f/onnx/model.onnx"], before);
}

TEST_F(Profiles, RefuseWhatDoesNotGoWithAFolder) {
  const auto refused = [&](std::vector<std::string> more) {
    std::vector<std::string> words = {"quantize", "m.onnx", "-o", "f", "--for", "transformers.js"};
    words.insert(words.end(), more.begin(), more.end());
    EXPECT_NE(run(words), 0);
    EXPECT_FALSE(host.is_folder("f"));
    return host.err;
  };
  EXPECT_NE(refused({"--dtypes", "q8,q9"}).find("--dtypes: found q9 (did you mean q8?), wanted fp32, fp16, q8, "),
            std::string::npos)
      << host.err;
  EXPECT_NE(refused({"--report", "r.html"}).find("--report is for one file"), std::string::npos) << host.err;
  EXPECT_NE(refused({"--model-file-name", "a/b"}).find("'a/b'"), std::string::npos) << host.err;
  EXPECT_NE(run({"quantize", "m.onnx", "-o", "m.q.onnx", "--for", "ort", "--dtypes", "q4", "--calibrate", "x.npz"}), 0);
  EXPECT_NE(host.err.find("--dtypes goes with --for transformers.js"), std::string::npos) << host.err;
}

}  // namespace
}  // namespace qdq::profiles_test
