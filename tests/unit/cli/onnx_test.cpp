// ONNX models against what ONNX Runtime makes of them; tests/golden/make_onnx.py made the cases.
#include "io/onnx.h"
#include "op/custom.h"
#include "op/infer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "cli/cli.h"
#include "exec/interpreter.h"
#include "format/npz.h"
#include "golden_bytes.h"
#include "io/model.h"
#include "io/pt2.h"
#include "lower/lower.h"
#include "quant/pt2e.h"
#include "quant/quantizers/x86_inductor_quantizer.h"
#include "quant/quantizers/xnnpack_quantizer.h"
#include "tensor/strings.h"
#include "unit/cli/memory_host.h"

namespace qdq::onnx_test {
namespace {

struct Case {
  std::vector<std::byte> model;
  std::vector<Tensor> inputs, outputs;
};

std::map<std::string, Case> cases(const std::string& file) {
  std::map<std::string, Case> out;
  for (const format::NamedTensor& array : format::read_npz(golden_bytes("onnx/" + file), file)) {
    const size_t slash = array.name.rfind('/');
    Case& c = out[array.name.substr(0, slash)];
    const std::string what = array.name.substr(slash + 1);
    if (what == "model") c.model.assign(array.tensor.raw(), array.tensor.raw() + array.tensor.nbytes());
    else (what.starts_with("input") ? c.inputs : c.outputs).push_back(array.tensor);
  }
  return out;
}

// Integers are equal; floats lie within rounding of sums, relative to the largest.
void expect_close(const std::vector<Tensor>& found, const std::vector<Tensor>& wanted, double tolerance) {
  ASSERT_EQ(found.size(), wanted.size());
  for (size_t i = 0; i < found.size(); ++i) {
    ASSERT_EQ(to_string(found[i].dtype()), to_string(wanted[i].dtype()));
    ASSERT_EQ(to_string(found[i].sizes()), to_string(wanted[i].sizes()));
    if (found[i].dtype() == DType::kString) {
      EXPECT_EQ(texts_of(found[i]), texts_of(wanted[i])) << "output " << i;
      continue;
    }
    const Tensor a = found[i].to(DType::kF64).contiguous(), b = wanted[i].to(DType::kF64).contiguous();
    double largest = 1;
    for (const double value : b.span<double>())
      if (std::isfinite(value)) largest = std::max(largest, std::fabs(value));
    for (int64_t k = 0; k < a.numel(); ++k) {
      if (a.data<double>()[k] == b.data<double>()[k]) continue;  // infinities too
      if (std::isnan(a.data<double>()[k]) && std::isnan(b.data<double>()[k])) continue;
      const double difference = std::fabs(a.data<double>()[k] - b.data<double>()[k]);
      ASSERT_LE(difference, is_floating(found[i].dtype()) ? tolerance * largest : 0.0)
          << "output " << i << ", element " << k;
    }
  }
}

std::vector<std::string> operators(const Program& program) {
  std::vector<std::string> out;
  for (const Node* node : program.graph->nodes())
    if (node->op() == Node::Op::kCallFunction) out.push_back(node->target().substr(node->target().find("ops.") + 4));
  return out;
}

int64_t count(const Program& program, const std::string& target) {
  int64_t out = 0;
  for (const std::string& found : operators(program)) out += found == target;
  return out;
}

TEST(OnnxGolden, Operators) {
  const std::map<std::string, Case> all = cases("operators.npz");
  EXPECT_GT(all.size(), 150u);
  for (const auto& [name, c] : all) {
    SCOPED_TRACE(name);
    ASSERT_NO_THROW({
      const Program program = load_onnx(c.model);
      expect_close(Interpreter(program, {}).run(c.inputs), c.outputs, 3e-6);
    });
  }
}

// Graphs in graphs, by the interpreter and fused.
TEST(OnnxGolden, ControlFlow) {
  const std::map<std::string, Case> all = cases("control.npz");
  EXPECT_GE(all.size(), 21u);
  for (const auto& [name, c] : all) {
    SCOPED_TRACE(name);
    ASSERT_NO_THROW({
      const Program program = load_onnx(c.model);
      expect_close(Interpreter(program, {}).run(c.inputs), c.outputs, 3e-6);
      expect_close(lower(program).run(c.inputs), c.outputs, 3e-6);
    });
  }
}

// Weights of few bits in blocks: as they are read, and as they are written again.
TEST(OnnxGolden, WeightsInBlocks) {
  const std::map<std::string, Case> all = cases("blocks.npz");
  EXPECT_EQ(all.size(), 11u);
  for (const auto& [name, c] : all) {
    SCOPED_TRACE(name);
    ASSERT_NO_THROW({
      const Program program = load_onnx(c.model);
      expect_close(Interpreter(program, {}).run(c.inputs), c.outputs, 3e-6);
      expect_close(lower(program).run(c.inputs), c.outputs, 3e-6);
      expect_close(Interpreter(load_onnx(save_onnx(program)), {}).run(c.inputs), c.outputs, 3e-6);
    });
  }
  const Program program = load_onnx(all.at("matmul_4_bits_zero_points").model);
  EXPECT_EQ(count(program, "quantized_decomposed.dequantize_per_channel_group.default"), 1);
}

// What quantize_dynamic makes of fused operators, and of an LSTM.
TEST(OnnxGolden, DynamicallyQuantizedOperatorsOfMicrosoft) {
  for (const char* file : {"qtransformers.npz", "qlstm.npz"})
    for (const auto& [name, c] : cases(file)) {
      SCOPED_TRACE(name);
      ASSERT_NO_THROW(expect_close(Interpreter(load_onnx(c.model), {}).run(c.inputs), c.outputs, 3e-6));
    }
}

// What is known when the file is read leaves no graph in a graph.
TEST(OnnxGolden, KnownBranchesAndShortLoopsAreWrittenOut) {
  for (const char* name : {"if_known", "loop_known", "scan_known_0", "scan_known_1", "function", "sequences"})
    for (const std::string& found : operators(load_onnx(cases("control.npz").at(name).model)))
      EXPECT_FALSE(found.starts_with("higher_order.")) << name << ": " << found;
  EXPECT_EQ(count(load_onnx(cases("control.npz").at("large_constants_are_joined").model), "aten.cat.default"), 0);
  EXPECT_EQ(count(load_onnx(cases("control.npz").at("if_True").model), "higher_order.cond"), 1);
  EXPECT_EQ(count(load_onnx(cases("control.npz").at("scan_0").model), "higher_order.loop"), 1);
}

// x -> conv -> com.example.Blur -> conv, which only the file tells the shape of.
std::vector<std::byte> with_blur(const char* op_type) {
  format::OnnxFile file;
  file.ir_version = 8;
  file.opsets = {{"", 17}, {"com.example", 1}};
  const std::vector<format::OnnxDimension> image = {{1, ""}, {2, ""}, {4, ""}, {4, ""}};
  file.inputs.push_back({"x", DType::kF32, image});
  file.values.push_back({"b", DType::kF32, image});
  file.outputs.push_back({"y", DType::kF32, image});
  file.initializers.emplace_back("w", Tensor::full({2, 2, 1, 1}, DType::kF32, 0.5));
  file.nodes.push_back({"first", "Conv", "", {"x", "w"}, {"a"}, {}, {}});
  file.nodes.push_back({"blur", op_type, "com.example", {"a"}, {"b"}, {}, {}});
  file.nodes[1].attributes.push_back({});
  file.nodes[1].attributes[0].name = "sigma";
  file.nodes[1].attributes[0].kind = format::OnnxKind::kFloat;
  file.nodes[1].attributes[0].f = 3;
  file.nodes.push_back({"second", "Conv", "", {"b", "w"}, {"y"}, {}, {}});
  return format::write_onnx_file(file);
}

// What can be quantized around an operator that qdq does not have is quantized; only running it is refused.
TEST(OnnxUnknownOperators, AreNoWall) {
  Program program = load_onnx(with_blur("Blur"));
  EXPECT_EQ(count(program, "aten.conv2d.default"), 2);
  XNNPACKQuantizer quantizer;
  quantizer.set_global(get_symmetric_quantization_config());
  Prepared prepared = prepare_pt2e(std::move(program), quantizer);
  prepared.run({Tensor::full({1, 2, 4, 4}, DType::kF32, 1)});
  const Program quantized = convert_pt2e(prepared);
  // Input and output of the first convolution; nothing of the second.
  EXPECT_EQ(count(quantized, "quantized_decomposed.quantize_per_tensor.default"), 2);
  EXPECT_EQ(count(quantized, "com_example.Blur.default"), 1);
  const char* said = "qdq does not have 1 operator of this program: torch.ops.com_example.Blur.default (node blur)";
  try {
    lower(quantized);
    ADD_FAILURE() << "it was lowered";
  } catch (const Error& error) {
    EXPECT_EQ(error.code, ErrorCode::kUnsupported);
    EXPECT_NE(error.message.find(said), std::string::npos) << error.message;
  }
  // The command line warns of it.
  MemoryHost host;
  host.contents["model"] = with_blur("Blur");
  host.contents["x.npz"] =
      format::write_npz(std::vector<format::NamedTensor>{{"x", Tensor::full({1, 2, 4, 4}, DType::kF32, 1)}});
  run_cli(std::vector<std::string>{"quantize", "model", "--calibrate", "x.npz", "-o", "int8.pt2"}, host);
  EXPECT_NE(host.err.find(concat("qdq: warning: ", said, "; they and everything behind them stay as they are")),
            std::string::npos)
      << host.err;
  EXPECT_NE(host.err.find("bring it by register_operator, or write an .onnx file"), std::string::npos) << host.err;
}

TEST(OnnxUnknownOperators, RunOnceTheyAreRegistered) {
  register_operator({"com_example::Double(Tensor x, *, float sigma=1.0) -> Tensor",
                     [](const Call<TensorMeta>& call) -> MetaValue { return call.tensor(0); },
                     [](const Call<Tensor>& call) -> Value {
                       Tensor out = call.tensor(0).contiguous().clone();
                       for (float& x : out.span<float>()) x *= static_cast<float>(call.number(1));
                       return out;
                     }});
  const Program program = load_onnx(with_blur("Double"));
  const Tensor x = Tensor::full({1, 2, 4, 4}, DType::kF32, 1);
  expect_close(Interpreter(program, {}).run(std::vector<Tensor>{x}), {Tensor::full({1, 2, 4, 4}, DType::kF32, 3)},
               1e-6);
  expect_close(lower(program).run(std::vector<Tensor>{x}), {Tensor::full({1, 2, 4, 4}, DType::kF32, 3)}, 1e-6);
  EXPECT_EQ(count(program, "aten.conv2d.default"), 2);
}

TEST(OnnxGolden, OperatorsOfElementsByOpset) {
  const std::map<std::string, Case> all = cases("elements.npz");
  EXPECT_GT(all.size(), 600u);
  for (const auto& [name, c] : all) {
    SCOPED_TRACE(name);
    ASSERT_NO_THROW({
      const Program program = load_onnx(c.model);
      const bool is_half =
          std::any_of(c.inputs.begin(), c.inputs.end(), [](const Tensor& x) { return x.dtype() == DType::kF16; });
      expect_close(Interpreter(program, {}).run(c.inputs), c.outputs, is_half ? 2e-3 : 3e-6);
    });
  }
}

// Strings, by the reference, fused, and as they are written again.
TEST(OnnxGolden, Strings) {
  const std::map<std::string, Case> all = cases("strings.npz");
  EXPECT_GT(all.size(), 100u);
  for (const auto& [name, c] : all) {
    SCOPED_TRACE(name);
    EXPECT_NO_THROW({
      const Program program = load_onnx(c.model);
      expect_close(Interpreter(program, {}).run(c.inputs), c.outputs, 3e-6);
      expect_close(lower(program).run(c.inputs), c.outputs, 3e-6);
      if (name.starts_with("Unique")) continue;
      const Program again = load_onnx(save_onnx(program, {.opset = 21}));
      expect_close(Interpreter(again, {}).run(c.inputs), c.outputs, 3e-6);
    });
  }
}

// Recurrent layers also as they are written again; those of PyTorch's kind want weights that are known.
TEST(OnnxGolden, Layers) {
  const std::map<std::string, Case> all = cases("layers.npz");
  EXPECT_GT(all.size(), 250u);
  for (const auto& [name, c] : all) {
    SCOPED_TRACE(name);
    EXPECT_NO_THROW({
      const Program program = load_onnx(c.model);
      expect_close(Interpreter(program, {}).run(c.inputs), c.outputs, 1e-5);
      const bool is_recurrent = name.starts_with("LSTM") || name.starts_with("GRU") || name.starts_with("RNN");
      const bool has_form = name.starts_with("RoiAlign avg") || name.find("indices") != std::string::npos;
      if ((!is_recurrent && !has_form) || name == "LSTM by computed weights") continue;
      expect_close(Interpreter(load_onnx(save_onnx(program)), {}).run(c.inputs), c.outputs, 1e-5);
    });
  }
}

// The integer products of ONNX Runtime's quantize_dynamic are layers between dequantize nodes again.
TEST(OnnxGolden, DynamicQuantizationIsOfLayers) {
  for (const auto& [name, c] : cases("dynamic.npz")) {
    SCOPED_TRACE(name);
    const Program program = load_onnx(c.model);
    EXPECT_EQ(count(program, "aten.conv2d.default"), 1);
    EXPECT_EQ(count(program, "aten.linear.default"), 1);
    EXPECT_EQ(count(program, "quantized_decomposed.dequantize_per_tensor.tensor"), 2);
    EXPECT_EQ(count(program, "aten.matmul.default"), 0);
    for (const Attribute& attribute : program.attributes)
      EXPECT_FALSE(attribute.tensor.dim() > 1 && is_floating(attribute.tensor.dtype()) && attribute.tensor.numel() > 8)
          << attribute.name;
    expect_close(Interpreter(program, {}).run(c.inputs), c.outputs, 1e-2);
    expect_close(lower(program).run(c.inputs), c.outputs, 1e-2);
  }
}

TEST(OnnxGolden, Networks) {
  for (const auto& [name, c] : cases("networks.npz")) {
    SCOPED_TRACE(name);
    const Program program = load_onnx(c.model);
    // Two values of another kernel's last bit can fall on the two sides of a quantized step.
    const double tolerance =
        name.find("QInt8") == std::string::npos && name.find("QUInt8") == std::string::npos ? 2e-6 : 2e-2;
    expect_close(Interpreter(program, {}).run(c.inputs), c.outputs, tolerance);
    expect_close(lower(program).run(c.inputs), c.outputs, tolerance);
    // What is loaded can be saved for PyTorch, and is the same then.
    const Program again = load_pt2(save_pt2(program));
    EXPECT_EQ(operators(again), operators(program));
    expect_close(Interpreter(again, {}).run(c.inputs), Interpreter(program, {}).run(c.inputs), 0);
  }
}

// What is saved is read back as the same calls, and computes the same.
TEST(OnnxGolden, SavedNetworks) {
  for (const auto& [name, c] : cases("networks.npz")) {
    SCOPED_TRACE(name);
    const Program program = load_onnx(c.model);
    const std::vector<std::byte> bytes = save_onnx(program);
    EXPECT_TRUE(bytes == save_onnx(program));
    const Program again = load_onnx(bytes);
    EXPECT_EQ(operators(again), operators(program));
    for (const Node* node : program.graph->nodes()) {
      const Node* same = again.graph->find(node->name());
      if (node->op() != Node::Op::kCallFunction || !same || node->target().starts_with("torch.ops.quantized")) continue;
      EXPECT_EQ(same->meta.module_path(), node->meta.module_path()) << node->name();
    }
    EXPECT_EQ(to_string(again.graph->placeholders()[0]->meta.val.tensor()->sizes),
              to_string(program.graph->placeholders()[0]->meta.val.tensor()->sizes));
    expect_close(Interpreter(again, {}).run(c.inputs), Interpreter(program, {}).run(c.inputs), 1e-6);
  }
}

TEST(OnnxGolden, SavedOperators) {
  std::string refused;
  int64_t saved = 0;
  for (const auto& [name, c] : cases("operators.npz")) {
    SCOPED_TRACE(name);
    const Program program = load_onnx(c.model);
    try {
      const std::vector<std::byte> bytes = save_onnx(program);
      ++saved;
      ASSERT_NO_THROW(expect_close(Interpreter(load_onnx(bytes), {}).run(c.inputs), c.outputs, 3e-6));
    } catch (const Error& error) {
      EXPECT_EQ(error.code, ErrorCode::kUnsupported);
      refused += name + ", ";
    }
  }
  EXPECT_EQ(refused, "");
  EXPECT_GT(saved, 150);
}

// Refused are the places of ONNX's Unique, and weights and scales that are computed.
TEST(OnnxGolden, SavedElementsAndLayers) {
  const auto is_refused = [](const std::string& name) {
    return name.starts_with("Unique") || name == "LSTM by computed weights" ||
           name == "DequantizeLinear by computed scales" || name == "QLinearConv computed";
  };
  std::string refused;
  for (const char* file : {"elements.npz", "layers.npz"})
    for (const auto& [name, c] : cases(file)) {
      SCOPED_TRACE(name);
      const Program program = load_onnx(c.model);
      try {
        const std::vector<std::byte> bytes = save_onnx(program);
        const bool is_half =
            std::any_of(c.inputs.begin(), c.inputs.end(), [](const Tensor& x) { return x.dtype() == DType::kF16; });
        ASSERT_NO_THROW(
            expect_close(Interpreter(load_onnx(bytes), {}).run(c.inputs), c.outputs, is_half ? 2e-3 : 1e-5));
      } catch (const Error& error) {
        EXPECT_EQ(error.code, ErrorCode::kUnsupported);
        if (!is_refused(name)) refused += name + ": " + error.message + "\n";
      }
    }
  EXPECT_EQ(refused, "");
}

TEST(OnnxGolden, SavedDistances) {
  const std::map<std::string, Case> all = cases("layers.npz");
  for (const char* name : {"CDist euclidean", "CDist sqeuclidean of open sizes", "CDist of doubles"}) {
    SCOPED_TRACE(name);
    const Case& c = all.at(name);
    const Program again = load_onnx(save_onnx(load_onnx(c.model)));
    EXPECT_EQ(count(again, "aten.cdist.default"), 1);
    expect_close(Interpreter(again, {}).run(c.inputs), c.outputs, 3e-6);
  }
}

// Weights that are written transposed, float or int8, are not written twice.
TEST(OnnxGolden, SavedWeightsStandOnce) {
  // Not a bias, which may be one row.
  const auto is_matrix = [](const Tensor& tensor) { return tensor.dim() == 2 && tensor.size(0) > 1; };
  const Case c = cases("networks.npz").at("text");
  XNNPACKQuantizer quantizer;
  quantizer.set_global(get_symmetric_quantization_config({.is_per_channel = true}));
  Prepared prepared = prepare_pt2e(load_onnx(c.model), quantizer);
  prepared.run(c.inputs);
  for (const Program& program : {load_onnx(c.model), convert_pt2e(prepared)}) {
    uint64_t bytes = 0, saved = 0;
    for (const Attribute& attribute : program.attributes)
      if (is_matrix(attribute.tensor)) bytes += attribute.tensor.nbytes();
    for (const auto& [name, tensor] : format::read_onnx_file(save_onnx(program)).initializers)
      if (is_matrix(tensor)) saved += tensor.nbytes();
    EXPECT_EQ(saved, bytes);
  }
}

TEST(OnnxGolden, SavedDynamicallyQuantizedPrograms) {
  const Case c = cases("networks.npz").at("text");
  XNNPACKQuantizer quantizer;
  quantizer.set_global(get_symmetric_quantization_config({.is_per_channel = true, .is_dynamic = true}));
  Prepared prepared = prepare_pt2e(load_onnx(c.model), quantizer);
  const Program converted = convert_pt2e(prepared);
  const Program again = load_onnx(save_onnx(converted));
  for (const char* op : {"choose_qparams.tensor", "quantize_per_tensor.tensor", "dequantize_per_tensor.tensor"}) {
    EXPECT_EQ(count(again, concat("quantized_decomposed.", op)), count(converted, concat("quantized_decomposed.", op)))
        << op;
    EXPECT_GT(count(again, concat("quantized_decomposed.", op)), 0) << op;
  }
  expect_close(Interpreter(again, {}).run(c.inputs), Interpreter(converted, {}).run(c.inputs), 1e-2);
  expect_close(lower(again).run(c.inputs), lower(converted).run(c.inputs), 1e-2);
}

TEST(OnnxGolden, SavedQuantizedPrograms) {
  const Case c = cases("networks.npz").at("vision");
  for (const bool is_x86 : {false, true}) {
    XNNPACKQuantizer xnnpack;
    xnnpack.set_global(get_symmetric_quantization_config({.is_per_channel = true}));
    X86InductorQuantizer x86;
    x86.set_global(get_default_x86_inductor_quantization_config());
    Quantizer& quantizer = is_x86 ? static_cast<Quantizer&>(x86) : xnnpack;
    Prepared prepared = prepare_pt2e(load_onnx(c.model), quantizer);
    prepared.run(c.inputs);
    const Program converted = convert_pt2e(prepared);
    const Program again = load_onnx(save_onnx(converted));
    EXPECT_EQ(count(again, "quantized_decomposed.dequantize_per_channel.default"), 3);
    EXPECT_EQ(operators(again), operators(converted));
    // The biases are rounded to multiples of their scales.
    expect_close(Interpreter(again, {}).run(c.inputs), Interpreter(converted, {}).run(c.inputs), 2e-2);
    for (const Attribute& attribute : again.attributes)
      EXPECT_FALSE(attribute.tensor.dim() > 1 && is_floating(attribute.tensor.dtype())) << attribute.name;
  }
}

TEST(OnnxCommandLine, TakesAndWritesBothKinds) {
  const Case c = cases("networks.npz").at("vision");
  MemoryHost host;
  host.contents["model"] = c.model;  // no name tells the kind
  host.contents["x.npz"] = format::write_npz(std::vector<format::NamedTensor>{{"x", c.inputs[0]}});
  const auto run = [&](std::vector<std::string> args) {
    host.out.clear();
    host.err.clear();
    return run_cli(args, host);
  };
  ASSERT_EQ(run({"quantize", "model", "--calibrate", "x.npz", "-o", "int8.onnx"}), 0) << host.err;
  EXPECT_NE(host.out.find("layers quantized  4 of 4"), std::string::npos) << host.out;
  EXPECT_TRUE(looks_like_onnx(host.contents["int8.onnx"]));
  ASSERT_EQ(run({"convert", "int8.onnx", "int8.pt2"}), 0) << host.err;
  EXPECT_FALSE(looks_like_onnx(host.contents["int8.pt2"]));
  for (const std::string model : {"int8.onnx", "int8.pt2"}) {
    ASSERT_EQ(run({"run", model, "--inputs", "x.npz", "-o", model + ".npz"}), 0) << host.err;
    expect_close({format::read_npz(host.contents[model + ".npz"])[0].tensor}, c.outputs, 0.1);
  }
  EXPECT_EQ(host.contents["int8.onnx.npz"], host.contents["int8.pt2.npz"]);
  ASSERT_EQ(run({"inspect", "int8.onnx"}), 0) << host.err;
  EXPECT_NE(host.out.find("x: float32[s0, 3, 8, 8]"), std::string::npos) << host.out;
  EXPECT_EQ(run({"convert", "int8.onnx", "int8.tflite"}), 2);
  EXPECT_NE(host.err.find("wanted one that ends in .onnx or .pt2"), std::string::npos) << host.err;
}

TEST(OnnxCommandLine, ReadsTensorsInOtherFiles) {
  const Case c = cases("networks.npz").at("vision");
  MemoryHost host;
  host.contents["models/vision.onnx"] = golden_bytes("onnx/external/vision.onnx");
  host.contents["models/vision.onnx.data"] = golden_bytes("onnx/external/vision.onnx.data");
  host.contents["x.npz"] = format::write_npz(std::vector<format::NamedTensor>{{"x", c.inputs[0]}});
  const auto run = [&] {
    return run_cli(std::vector<std::string>{"run", "models/vision.onnx", "--inputs", "x.npz", "-o", "y.npz"}, host);
  };
  ASSERT_EQ(run(), 0) << host.err;
  EXPECT_EQ(host.reads["models/vision.onnx.data"], 1);
  expect_close({format::read_npz(host.contents["y.npz"])[0].tensor}, c.outputs, 1e-5);
  host.contents["models/vision.onnx.data"].resize(1000);
  EXPECT_EQ(run(), 1);
  EXPECT_NE(host.err.find("of vision.onnx.data, which has 1000"), std::string::npos) << host.err;
  host.contents.erase("models/vision.onnx.data");
  EXPECT_EQ(run(), 1);
  EXPECT_NE(host.err.find("cannot read models/vision.onnx.data"), std::string::npos) << host.err;
  try {
    load_onnx(golden_bytes("onnx/external/vision.onnx"));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code, ErrorCode::kUnsupported);
    EXPECT_NE(error.message.find("vision.onnx.data, which is not at hand"), std::string::npos) << error.message;
  }
}

TEST(OnnxSave, NamesAllThatHasNoForm) {
  Program program;
  Graph& graph = *program.graph;
  Node* x = graph.create(Node::Op::kPlaceholder, "x", {}, {}, "x");
  x->meta.val.value = TensorMeta{DType::kF32, {2, 8}, {}, false};
  Node* a = graph.call("torch.ops.aten.digamma.default", {x}, {}, "a");
  Node* b = graph.call("torch.ops.aten.erfinv.default", {a}, {}, "b");
  Node* c = graph.call("torch.ops.aten.digamma.default", {b}, {}, "c");
  Node* d = graph.call("torch.ops.aten.softplus.default", {c, 2.0}, {}, "d");
  graph.create(Node::Op::kOutput, "output", {Argument(Argument::List{d})}, {}, "output");
  try {
    save_onnx(program);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code, ErrorCode::kUnsupported);
    EXPECT_EQ(
        error.message,
        "the program cannot be written as an ONNX model: qdq has no ONNX form for torch.ops.aten.digamma.default "
        "(nodes a "
        "and 1 more), torch.ops.aten.erfinv.default (node b); d has beta 2, ONNX's Softplus has 1; write a .pt2, or "
        "export the model without what is named");
  }
}

// y = x * 2; y[:, 1:3] = x[:, 0:2]; y[0] = 7; y + y[1], as torch.export has it.
TEST(OnnxSave, WritesToSlicesBecomeValues) {
  Program program;
  Graph& graph = *program.graph;
  Node* x = graph.create(Node::Op::kPlaceholder, "x", {}, {}, "x");
  x->meta.val.value = TensorMeta{DType::kF32, {2, 4}, {}, false};
  const auto call = [&](const char* target, std::vector<Argument> args) {
    Node* node = graph.call(concat("torch.ops.aten.", target), std::move(args));
    infer_value(*node);
    return node;
  };
  Node* y = call("mul.Tensor", {x, 2.0});
  call("copy_.default", {call("slice.Tensor", {y, 1, 1, 3}), call("slice.Tensor", {x, 1, 0, 2})});
  call("fill_.Scalar", {call("select.int", {y, 0, 0}), 7.0});
  Node* sum = call("add.Tensor", {y, call("select.int", {y, 0, 1})});
  graph.create(Node::Op::kOutput, "output", {Argument(Argument::List{sum})}, {}, "output");
  const std::vector<Tensor> inputs = {Tensor::of<float>({2, 4}, {1, 2, 3, 4, 5, 6, 7, 8})};
  const std::vector<Tensor> wanted = {Tensor::of<float>({2, 4}, {17, 12, 13, 23, 20, 10, 12, 32})};
  expect_close(Interpreter(program, {}).run(inputs), wanted, 0);
  expect_close(Interpreter(load_onnx(save_onnx(program)), {}).run(inputs), wanted, 0);
}

// What ONNX has no form for is computed where it depends on constants alone.
TEST(OnnxSave, ComputesWhatDependsOnConstants) {
  Program program;
  Graph& graph = *program.graph;
  Attribute weight;
  weight.name = "v";
  weight.kind = Attribute::Kind::kConstant;
  weight.tensor = Tensor::of<float>({2, 2}, {0.5F, 0.25F, 1, 2});
  Node* v = graph.get_attr("v", "v");
  v->meta.val.value = meta_of(weight.tensor);
  program.add_attribute(std::move(weight));
  Node* x = graph.create(Node::Op::kPlaceholder, "x", {}, {}, "x");
  x->meta.val.value = TensorMeta{DType::kF32, {2, 2}, {}, false};
  Node* digamma = graph.call("torch.ops.aten.digamma.default", {v});
  Node* sum = graph.call("torch.ops.aten.add.Tensor", {x, digamma});
  for (Node* node : {digamma, sum}) infer_value(*node);
  graph.create(Node::Op::kOutput, "output", {Argument(Argument::List{sum})}, {}, "output");
  const std::vector<Tensor> inputs = {Tensor::of<float>({2, 2}, {1, 2, 3, 4})};
  const Program again = load_onnx(save_onnx(program));
  EXPECT_EQ(operators(again), std::vector<std::string>{"aten.add.Tensor"});
  expect_close(Interpreter(again, {}).run(inputs), Interpreter(program, {}).run(inputs), 1e-6);
}

TEST(Onnx, HardSwishInPartsIsOneOperator) {
  Program program;
  Graph& graph = *program.graph;
  Node* x = graph.create(Node::Op::kPlaceholder, "x", {}, {}, "x");
  x->meta.val.value = TensorMeta{DType::kF32, {2, 3}, {}, false};
  Node* sum = graph.call("torch.ops.aten.add.Tensor", {x, 3.0});
  Node* clamp = graph.call("torch.ops.aten.clamp.default", {sum, 0.0, 6.0});
  Node* product = graph.call("torch.ops.aten.mul.Tensor", {x, clamp});
  Node* sixth = graph.call("torch.ops.aten.div.Tensor", {product, 6.0});
  for (Node* node : {sum, clamp, product, sixth}) infer_value(*node);
  graph.create(Node::Op::kOutput, "output", {Argument(Argument::List{sixth})}, {}, "output");
  EXPECT_EQ(operators(load_onnx(save_onnx(program))), std::vector<std::string>{"aten.hardswish.default"});
}

TEST(OnnxGolden, LooksAsTorchExportMakesIt) {
  const std::map<std::string, Case> all = cases("networks.npz");
  const Program vision = load_onnx(all.at("vision").model);
  EXPECT_EQ(operators(vision),
            (std::vector<std::string>{
                "aten.conv2d.default", "aten.relu.default", "aten.conv2d.default", "aten.silu.default",
                "aten.add.Tensor", "aten.pad.default", "aten.max_pool2d.default", "aten.hardtanh.default",
                "aten.adaptive_avg_pool2d.default", "aten.flatten.using_ints", "aten.linear.default"}));
  EXPECT_EQ(vision.graph->find("conv2d_1")->meta.module_path(), "squeeze");
  EXPECT_EQ(vision.graph->find("conv2d")->meta.module_path(), "layer1.0");
  EXPECT_EQ(to_string(vision.graph->placeholders()[0]->meta.val.tensor()->sizes), "[s0, 3, 8, 8]");
  EXPECT_EQ(count(load_onnx(all.at("vision unfolded").model), "aten.batch_norm.default"), 1);
  const Program text = load_onnx(all.at("text").model);
  EXPECT_EQ(count(text, "aten.linear.default"), 3);
  EXPECT_EQ(count(text, "aten.scaled_dot_product_attention.default"), 1);
  EXPECT_EQ(count(text, "aten.gelu.default"), 2);
  EXPECT_EQ(count(text, "aten.embedding.default"), 1);
  EXPECT_EQ(count(text, "aten.softmax.int"), 0);
}

TEST(OnnxGolden, QuantizedFilesRunInIntegers) {
  for (const std::string name : {"vision QInt8", "vision QUInt8"}) {
    const Program program = load_onnx(cases("networks.npz").at(name).model);
    EXPECT_EQ(count(program, "quantized_decomposed.dequantize_per_channel.default"), 3);
    for (const Attribute& attribute : program.attributes)
      EXPECT_FALSE(attribute.tensor.dim() > 1 && is_floating(attribute.tensor.dtype())) << attribute.name;
  }
}

TEST(OnnxGolden, BytesTellTheKind) {
  const Case c = cases("networks.npz").at("vision");
  EXPECT_TRUE(looks_like_onnx(c.model));
  const std::vector<std::byte> saved = save_pt2(load_program(c.model));
  EXPECT_FALSE(looks_like_onnx(saved));
  EXPECT_EQ(operators(load_program(saved)), operators(load_onnx(c.model)));
}

}  // namespace
}  // namespace qdq::onnx_test
