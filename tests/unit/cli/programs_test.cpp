// Exported programs against what PyTorch computes with them: tests/golden/programs, made by its make_control.py and
// make_complex.py.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "exec/interpreter.h"
#include "format/npz.h"
#include "golden_bytes.h"
#include "io/onnx.h"
#include "io/pt2.h"
#include "lower/lower.h"
#include "op/targets.h"
#include "quant/explain.h"
#include "quant/fx/qconfig_mapping_quantizer.h"
#include "quant/pt2e.h"
#include "quant/quantizers/pattern_quantizer.h"
#include "quant/quantizers/x86_inductor_quantizer.h"
#include "quant/quantizers/xnnpack_quantizer.h"
#include "tensor/complex.h"
#include "unit/format/expect_error.h"

namespace qdq::programs_test {
namespace {

struct Run {
  std::vector<Tensor> inputs, outputs;
};
struct Golden {
  std::vector<std::byte> model;
  std::map<std::string, Run> runs;  // by their numbers; "" where a file has one of each model
};

std::map<std::string, Golden> read_golden(const std::string& file) {
  std::map<std::string, Golden> out;
  for (const format::NamedTensor& array : format::read_npz(golden_bytes(file), file)) {
    const size_t slash = array.name.rfind('/');
    Golden& golden = out[array.name.substr(0, slash)];
    const std::string what = array.name.substr(slash + 1);
    if (what == "model") {
      golden.model.assign(array.tensor.raw(), array.tensor.raw() + array.tensor.nbytes());
      continue;
    }
    const size_t first = what.find('_'), last = what.rfind('_');
    Run& run = golden.runs[first == last ? "" : what.substr(first + 1, last - first - 1)];
    (what.starts_with("input") ? run.inputs : run.outputs).push_back(array.tensor);
  }
  return out;
}

void expect_close(const std::vector<Tensor>& found, const std::vector<Tensor>& wanted, double tolerance) {
  ASSERT_EQ(found.size(), wanted.size());
  for (size_t i = 0; i < found.size(); ++i) {
    ASSERT_EQ(to_string(found[i].dtype()), to_string(wanted[i].dtype()));
    ASSERT_EQ(to_string(found[i].sizes()), to_string(wanted[i].sizes()));
    const auto numbers = [](const Tensor& x) {
      return (is_complex(x.dtype()) ? view_as_real(x) : x).to(DType::kF64).contiguous();
    };
    const Tensor a = numbers(found[i]), b = numbers(wanted[i]);
    double largest = 1;
    for (const double value : b.span<double>()) largest = std::max(largest, std::fabs(value));
    for (int64_t k = 0; k < a.numel(); ++k)
      ASSERT_LE(std::fabs(a.data<double>()[k] - b.data<double>()[k]),
                is_floating(found[i].dtype()) || is_complex(found[i].dtype()) ? tolerance * largest : 0.0)
          << "output " << i << ", element " << k;
  }
}

void expect_runs(const Program& program, const Golden& golden, double tolerance) {
  verify_program(program);
  for (const auto& [name, run] : golden.runs) {
    SCOPED_TRACE(name);
    expect_close(Interpreter(program, {}).run(run.inputs), run.outputs, tolerance);
    expect_close(lower(program).run(run.inputs), run.outputs, tolerance);
  }
}

// Read, and read again after it was written.
void expect_golden(const std::string& file, size_t programs) {
  const std::map<std::string, Golden> all = read_golden(file);
  EXPECT_EQ(all.size(), programs);
  for (const auto& [name, golden] : all) {
    SCOPED_TRACE(name);
    try {
      const Program program = load_pt2(golden.model);
      expect_runs(program, golden, 2e-6);
      const std::vector<std::byte> bytes = save_pt2(program);
      const Program again = load_pt2(bytes);
      expect_runs(again, golden, 2e-6);
      EXPECT_TRUE(bytes == save_pt2(again));
    } catch (const Error& error) {
      ADD_FAILURE() << error.message;
    }
  }
}

TEST(ProgramsGolden, ControlFlow) { expect_golden("programs/control.npz", 10); }

TEST(ProgramsGolden, ComplexNumbers) { expect_golden("programs/complex.npz", 13); }

// ONNX's If, Loop and Scan become cond, while_loop and scan; but PyTorch wants to know how many axes a result has.
TEST(ProgramsGolden, ControlFlowOfOnnxIsWrittenAsPyTorchs) {
  size_t written = 0;
  for (const auto& [name, golden] : read_golden("onnx/control.npz")) {
    SCOPED_TRACE(name);
    try {
      const std::vector<std::byte> bytes = save_pt2(load_onnx(golden.model));
      expect_runs(load_pt2(bytes), golden, 3e-6);
      ++written;
    } catch (const Error& error) {
      EXPECT_EQ(error.code, ErrorCode::kUnsupported);
      EXPECT_NE(error.message.find("nothing is known of its result"), std::string::npos) << error.message;
      const bool branches = error.message.find("node cond") != std::string::npos;
      EXPECT_EQ(error.message.find("read the ONNX model with --fix x=SHAPE") != std::string::npos, branches)
          << error.message;
    }
  }
  EXPECT_GE(written, 18u);
}

// A loop without a number of iterations that carries x and joins it; its condition holds once, or for ever.
Program joining_loop(bool is_endless) {
  const auto tensor = [](Program& program, const char* name, DType dtype) {
    Node* input = program.graph->create(Node::Op::kPlaceholder, name, {}, {}, name);
    input->meta.val.value = TensorMeta{dtype, {}, {}, false};
    return input;
  };
  auto body = std::make_shared<Program>();
  tensor(*body, "i", DType::kS64);
  Node* goes_on = tensor(*body, "condition", DType::kBool);
  Node* x = tensor(*body, "x", DType::kF32);
  Node* next =
      body->graph->call(is_endless ? "torch.ops.aten.clone.default" : "torch.ops.aten.logical_not.default", {goes_on});
  body->graph->create(Node::Op::kOutput, "output", {Argument(Argument::List{next, x, x})}, {}, "output");
  infer_shapes(*body);
  Program program;
  Node* start = tensor(program, "start", DType::kF32);
  Node* loop =
      program.graph->call(std::string(op::kLoop), {Argument(), Argument(), Argument(Subprogram(body)),
                                                   Argument(Argument::List{start}), Argument(Argument::List{})});
  Node* parts = program.graph->call("operator.getitem", {loop, 1});
  program.graph->create(Node::Op::kOutput, "output", {Argument(Argument::List{parts})}, {}, "output");
  infer_shapes(program);
  return program;
}

// A loop that ends by a condition and joins what its iterations gave has no form in PyTorch.
TEST(ProgramsGolden, LoopsThatPyTorchDoesNotHaveAreRefused) {
  try {
    save_pt2(joining_loop(false));
    ADD_FAILURE() << "nothing was refused";
  } catch (const Error& error) {
    EXPECT_EQ(
        error.message,
        "node higher_order_loop cannot be written to a .pt2 file: PyTorch has no loop that ends by a condition and "
        "joins what its iterations gave");
  }
}

TEST(ProgramsGolden, EndlessLoopsAreRefused) {
  const std::vector<Tensor> inputs{Tensor::scalar(1.0f)};
  EXPECT_EQ(Interpreter(joining_loop(false), {}).run(inputs)[0].sizes(), Shape{1});
  try {
    Interpreter(joining_loop(true), {}).run(inputs);
    ADD_FAILURE() << "nothing was refused";
  } catch (const Error& error) {
    EXPECT_NE(error.message.find("has run 131072 iterations, its condition still holds, and the model says no number "
                                 "of them; qdq takes it for endless"),
              std::string::npos)
        << error.message;
  }
}

// As in PyTorch: layers around become integers, those in branches do not, and that is said.
TEST(ProgramsGolden, BranchesStayFloat) {
  const std::map<std::string, Golden> all = read_golden("programs/control.npz");
  const Golden& golden = all.at("branches");
  XNNPACKQuantizer quantizer;
  quantizer.set_global(get_symmetric_quantization_config({.is_per_channel = true}));
  Prepared prepared = prepare_pt2e(load_pt2(golden.model), quantizer);
  for (const auto& [name, run] : golden.runs) prepared.run(run.inputs);
  const Program converted = convert_pt2e(prepared);
  EXPECT_EQ(count_layers(prepared.program()), 4);
  std::vector<std::string> left;
  for (const LeftInFloat& layer : left_in_float(prepared, converted)) left.push_back(layer.node + ": " + layer.reason);
  const std::string why = ": it is in a program that higher_order.cond runs; those stay float, as in PyTorch";
  EXPECT_EQ(left, (std::vector<std::string>{"cond/linear_1" + why, "cond/linear_1" + why}));
  const std::vector<Tensor> found = lower(load_pt2(save_pt2(converted))).run(golden.runs.at("0").inputs);
  expect_close(found, golden.runs.at("0").outputs, 0.05);
}

// Complex values stay in float, whoever asks, and that is said; what is around them becomes integers.
TEST(ProgramsGolden, ComplexNumbersAreNotQuantized) {
  XNNPACKQuantizer xnnpack;
  xnnpack.set_global(get_symmetric_quantization_config({.is_per_channel = true}));
  X86InductorQuantizer x86;
  x86.set_global(get_default_x86_inductor_quantization_config());
  QConfigMappingQuantizer fx(get_default_qconfig_mapping());
  QuantizationConfig int8;
  int8.input_activation = int8.output_activation = default_activation_spec(DType::kS8, -128, 127, false, false);
  int8.weight = default_weight_spec(-127, 127, true, false);
  PatternQuantizer patterns("All",
                            {{.name = "linear", .places = {{{"aten.linear"}}}},
                             {.name = "products", .places = {{{"aten.mul"}}}},
                             {.name = "sizes", .places = {{{"aten.abs aten.view_as_real"}}}},
                             {.name = "frames", .places = {{{"aten.stft"}}}},
                             {.name = "pairs", .places = {{{"aten.view_as_complex"}}}, .output = Output::kLikeInput}});
  patterns.set_global(int8);
  const std::string operand = " is complex64, and only float32 is quantized";
  const std::map<Quantizer*, std::pair<std::string, std::string>> all{
      {&xnnpack, {"its operand stft" + operand, "its operand view_as_complex" + operand}},
      {&x86, {"X86InductorQuantizer has no pattern for aten.mul.Tensor", ""}},
      {&fx, {"its operand stft is complex64, which is not quantized", ""}},
      {&patterns, {"its operand stft" + operand, "its operand view_as_complex" + operand}}};
  const std::map<std::string, Golden> golden = read_golden("programs/complex.npz");
  for (const auto& [quantizer, reasons] : all)
    for (const std::string name : {"mask", "rotary", "spectral"}) {
      SCOPED_TRACE(concat(reasons.first, " ", name));
      const auto& run = golden.at(name).runs.at("0");
      Prepared prepared = prepare_pt2e(load_pt2(golden.at(name).model), *quantizer);
      prepared.run(run.inputs);
      for (const Node* node : prepared.program().graph->nodes())
        if (node->op() == Node::Op::kCallModule) {
          EXPECT_EQ(to_string(node->arg(0).node()->meta.val.tensor()->dtype), "float32") << node->name();
        }
      const std::string& reason = name == "mask" ? reasons.first : reasons.second;
      if (name != "spectral" && !reason.empty()) {
        EXPECT_EQ(explain(prepared, "mul").reason, reason);
      }
      const Program converted = convert_pt2e(prepared);
      expect_close(lower(load_pt2(save_pt2(converted))).run(run.inputs), run.outputs, 0.05);
    }
}

// What maps and scans become in a file runs there, too.
TEST(ProgramsGolden, ControlFlowIsWrittenToOnnx) {
  for (const auto& [name, golden] : read_golden("programs/control.npz")) {
    SCOPED_TRACE(name);
    try {
      expect_runs(load_onnx(save_onnx(load_pt2(golden.model))), golden, 1e-5);
    } catch (const Error& error) {
      ADD_FAILURE() << error.message;
    }
  }
}

// ONNX has pairs, DFT and STFT; what it lacks is spelled.
TEST(ProgramsGolden, ComplexNumbersAreWrittenToOnnxAsPairs) {
  const std::map<std::string, Golden> all = read_golden("programs/complex.npz");
  for (const int64_t opset : {17, 20})
    for (const std::string name : {"rotary", "spectral", "spectrogram_center", "spectrogram_frames", "mask",
                                   "mask_length", "transforms", "moves"}) {
      SCOPED_TRACE(concat(name, " opset ", opset));
      try {
        const std::vector<std::byte> bytes = save_onnx(load_pt2(all.at(name).model), {.opset = opset});
        expect_runs(load_onnx(bytes), all.at(name), 1e-5);
      } catch (const Error& error) {
        ADD_FAILURE() << error.message;
      }
    }
  expect_error(ErrorCode::kUnsupported,
               "ONNX's operators take pairs instead of complex numbers, and z is complex64; let the model take and "
               "give view_as_real of it",
               [&] { save_onnx(load_pt2(all.at("complex").model)); });
}

}  // namespace
}  // namespace qdq::programs_test
