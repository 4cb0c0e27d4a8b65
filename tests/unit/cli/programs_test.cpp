// Exported programs against what PyTorch computes with them: tests/golden/programs, made by its make_control.py and
// make_complex.py.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

#include "exec/interpreter.h"
#include "format/npz.h"
#include "io/onnx.h"
#include "io/pt2.h"
#include "lower/lower.h"
#include "op/targets.h"
#include "quant/explain.h"
#include "quant/pt2e.h"
#include "quant/quantizers/xnnpack_quantizer.h"
#include "source_dir.h"

namespace qdq {
namespace {

struct Run {
  std::vector<Tensor> inputs, outputs;
};
struct Golden {
  std::vector<std::byte> model;
  std::map<std::string, Run> runs;  // by their numbers; "" where a file has one of each model
};

std::map<std::string, Golden> read_golden(const std::string& file) {
  std::ifstream in(std::filesystem::path(kSourceDir) / "tests/golden" / file, std::ios::binary);
  EXPECT_TRUE(in.good()) << file;
  const std::vector<char> bytes((std::istreambuf_iterator<char>(in)), {});
  std::map<std::string, Golden> out;
  for (const format::NamedTensor& array : format::read_npz(format::bytes_of({bytes.data(), bytes.size()}), file)) {
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
    const Tensor a = found[i].to(DType::kF64).contiguous(), b = wanted[i].to(DType::kF64).contiguous();
    double largest = 1;
    for (const double value : b.span<double>()) largest = std::max(largest, std::fabs(value));
    for (int64_t k = 0; k < a.numel(); ++k)
      ASSERT_LE(std::fabs(a.data<double>()[k] - b.data<double>()[k]),
                is_floating(found[i].dtype()) ? tolerance * largest : 0.0)
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

TEST(ProgramsGolden, ControlFlow) { expect_golden("programs/control.npz", 9); }

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
    }
  }
  EXPECT_GE(written, 18u);
}

// A loop that ends by a condition and joins what its iterations gave has no form in PyTorch.
TEST(ProgramsGolden, LoopsThatPyTorchDoesNotHaveAreRefused) {
  const auto tensor = [](Program& program, const char* name, DType dtype) {
    Node* input = program.graph->create(Node::Op::kPlaceholder, name, {}, {}, name);
    input->meta.val.value = TensorMeta{dtype, {}, {}, false};
    return input;
  };
  auto body = std::make_shared<Program>();
  tensor(*body, "i", DType::kS64);
  Node* goes_on = tensor(*body, "condition", DType::kBool);
  Node* x = tensor(*body, "x", DType::kF32);
  Node* ends = body->graph->call("torch.ops.aten.logical_not.default", {goes_on});
  body->graph->create(Node::Op::kOutput, "output", {Argument(Argument::List{ends, x, x})}, {}, "output");
  infer_shapes(*body);
  Program program;
  Node* start = tensor(program, "start", DType::kF32);
  Node* loop =
      program.graph->call(std::string(op::kLoop), {Argument(), Argument(), Argument(Subprogram(body)),
                                                   Argument(Argument::List{start}), Argument(Argument::List{})});
  Node* parts = program.graph->call("operator.getitem", {loop, 1});
  program.graph->create(Node::Op::kOutput, "output", {Argument(Argument::List{parts})}, {}, "output");
  infer_shapes(program);
  try {
    save_pt2(program);
    ADD_FAILURE() << "nothing was refused";
  } catch (const Error& error) {
    EXPECT_EQ(
        error.message,
        "node higher_order_loop cannot be written to a .pt2 file: PyTorch has no loop that ends by a condition and "
        "joins what its iterations gave");
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

}  // namespace
}  // namespace qdq
