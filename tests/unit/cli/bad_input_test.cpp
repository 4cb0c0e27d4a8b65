// Every kind of bad input, from the command line: exit status 1, one sentence that says what is wrong, and no file
// written. Runs natively, with sanitizers and as WASM.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "cli/cli.h"
#include "format/json.h"
#include "format/npz.h"
#include "io/pt2.h"
#include "unit/cli/memory_host.h"
#include "unit/cli/onnx_node.h"
#include "unit/io/edited_pt2.h"

namespace qdq::bad_input_test {
namespace {

using format::Bytes;
using format::Json;

constexpr const char* kProgram = "serialized_exported_program.json";

// The graph of conv_net: conv2d, batch_norm, relu, max_pool2d, flatten, linear; x is float32[1, 2, 4, 4].
struct BadInput : testing::Test {
  BadInput() {
    model = golden_pt2("conv_net");
    host.contents["model.pt2"] = model;
    host.contents["data.npz"] = data(Tensor::empty(input_shape, DType::kF32));
  }

  static Bytes data(const Tensor& tensor, const char* name = "x") {
    return format::write_npz(std::vector<format::NamedTensor>{{name, tensor}});
  }

  // Runs `args` and wants one line with all `words`.
  void refuses(const std::vector<std::string>& args, const std::vector<std::string>& words) {
    SCOPED_TRACE(testing::PrintToString(args) + testing::PrintToString(words));
    host.out.clear();
    host.err.clear();
    EXPECT_EQ(run_cli(args, host), 1);
    const size_t line = host.err.find("qdq: ");
    ASSERT_NE(line, std::string::npos) << host.err;
    EXPECT_TRUE(line == 0 || host.err[line - 1] == '\n') << host.err;
    EXPECT_EQ(host.err.find('\n', line), host.err.size() - 1) << host.err;
    for (const std::string& word : words)
      EXPECT_NE(host.err.find(word, line), std::string::npos) << "no '" << word << "' in: " << host.err;
    EXPECT_EQ(host.out, "");
    EXPECT_FALSE(host.contents.contains("out.pt2"));
  }
  void refuses_model(const Bytes& bytes, const std::vector<std::string>& words) {
    host.contents["bad.pt2"] = bytes;
    refuses({"quantize", "bad.pt2", "--calibrate", "data.npz", "-o", "out.pt2"}, words);
    refuses({"run", "bad.pt2", "--inputs", "data.npz", "-o", "out.npz"}, words);
    refuses({"evaluate", "bad.pt2", "--data", "data.npz", "--labels", "none.csv"}, words);
  }
  void refuses_data(const Bytes& bytes, const std::vector<std::string>& words) {
    host.contents["bad.npz"] = bytes;
    refuses({"quantize", "model.pt2", "--calibrate", "bad.npz", "-o", "out.pt2"}, words);
  }

  MemoryHost host;
  Bytes model;
  Shape input_shape{1, 2, 4, 4};
};

TEST_F(BadInput, EmptyFilesAndFilesCutAnywhere) {
  refuses_model({}, {"bad.pt2"});
  for (size_t length = 1; length < model.size(); length += model.size() / 23 + 1)
    refuses_model(Bytes(model.begin(), model.begin() + static_cast<std::ptrdiff_t>(length)), {"bad.pt2"});
  const Bytes whole = host.contents["data.npz"];
  refuses_data({}, {"bad.npz"});
  for (size_t length = 1; length < whole.size(); length += whole.size() / 11 + 1)
    refuses_data(Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length)), {"bad.npz"});
}

TEST_F(BadInput, FilesOfAnotherType) {
  refuses_model(host.contents["data.npz"], {"bad.pt2"});
  Bytes text;
  set_text(text, "not a model");
  refuses_model(text, {"bad.pt2"});
  refuses_data(model, {"bad.npz"});
  refuses_data(text, {"bad.npz"});
}

TEST_F(BadInput, HugeSizes) {
  refuses_model(with_json("conv_net", kProgram,
                          [](Json& p) {
                            for (Json& size : p["graph_module"]["graph"]["tensor_values"]["x"]["sizes"])
                              size["as_int"] = INT64_MAX;
                          }),
                {"bad.pt2", "absurd sizes"});
  Bytes npy;
  set_text(npy, std::string("\x93NUMPY\x01\0\x76\0", 10) +
                    "{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4, 4), }" +
                    std::string(38, ' ') + "\n");
  host.contents["bad.npy"] = npy;
  refuses({"quantize", "model.pt2", "--calibrate", "bad.npy", "-o", "out.pt2"}, {"bad.npy"});
}

TEST_F(BadInput, WeightsThatAreMissingOrOfAnotherShape) {
  refuses_model(with_json("conv_net", kProgram,
                          [](Json& p) {
                            p["graph_module"]["signature"]["input_specs"][0]["parameter"]["parameter_name"] =
                                "conv.bias";
                          }),
                {"bad.pt2", "conv.bias", "no such tensor"});
  refuses_model(with_json("conv_net", kProgram,
                          [](Json& p) {
                            p["graph_module"]["graph"]["tensor_values"]["p_conv_weight"]["sizes"][3]["as_int"] = 5;
                          }),
                {"bad.pt2", "'conv.weight'", "float32[4, 2, 3, 5]", "float32[4, 2, 3, 3]"});
}

TEST_F(BadInput, PicklesThatWouldRunSomething) { refuses_model(pt2_with_system_call(), {"bad.pt2", "os.system"}); }

TEST_F(BadInput, UnknownOperatorsAreAllNamedWithTheirNodes) {
  host.contents["bad.pt2"] = with_json("conv_net", kProgram, [](Json& p) {
    Json& nodes = p["graph_module"]["graph"]["nodes"];
    nodes[0]["target"] = "torch.ops.mine.first.default";
    nodes[2]["target"] = "torch.ops.mine.second.default";
  });
  const std::vector<std::string> words = {"bad.pt2", "mine.first.default", "conv2d", "mine.second.default", "relu"};
  refuses({"run", "bad.pt2", "--inputs", "data.npz", "-o", "out.npz"}, words);
  refuses({"evaluate", "bad.pt2", "--data", "data.npz", "--labels", "none.csv"}, words);
  // What lies around them can be quantized.
  host.err.clear();
  EXPECT_EQ(run_cli(std::vector<std::string>{"quantize", "bad.pt2", "--calibrate", "data.npz", "-o", "out.pt2"}, host),
            0)
      << host.err;
  EXPECT_NE(
      host.err.find("torch.ops.mine.first.default (node conv2d); torch.ops.mine.second.default (node relu); they"),
      std::string::npos)
      << host.err;
}

TEST_F(BadInput, RecipesWithMisspeltFields) {
  const auto refuses_recipe = [&](std::string_view recipe, const std::vector<std::string>& words) {
    host.add("recipe.json", recipe);
    refuses({"quantize", "model.pt2", "--calibrate", "data.npz", "-o", "out.pt2", "--recipe", "recipe.json"}, words);
  };
  refuses_recipe(R"({"quantizer": "XNNPACKQuantizer", "globl": {}})", {"recipe.json", "globl", "global"});
  refuses_recipe(R"({"quantizer": "XNNPACQuantizer"})", {"recipe.json", "XNNPACQuantizer", "XNNPACKQuantizer"});
  refuses_recipe(R"({"quantizer": "XNNPACKQuantizer", "global": {"is_per_chanel": true}})",
                 {"recipe.json", "is_per_chanel"});
  refuses_recipe("{", {"recipe.json"});
}

TEST_F(BadInput, CalibrationDataThatDoesNotFit) {
  Shape other = input_shape;
  other.back() += 1;
  refuses_data(data(Tensor::empty(other, DType::kF32)), {"bad.npz", "the program needs"});
  refuses_data(data(Tensor::empty(input_shape, DType::kU8)), {"bad.npz", "uint8", "float32"});
  Shape none = input_shape;
  none[0] = 0;
  refuses_data(data(Tensor::empty(none, DType::kF32)), {"bad.npz", "no samples"});
  const Tensor broken = Tensor::empty(input_shape, DType::kF32);
  broken.data<float>()[3] = std::numeric_limits<float>::quiet_NaN();
  refuses_data(data(broken), {"the calibration input 'x' holds NaN"});
  broken.data<float>()[3] = std::numeric_limits<float>::infinity();
  refuses_data(data(broken), {"holds NaN, the values of linear in sample 0 of", "infinite"});
}

// NaN says that a number is missing, for which the graph puts another one.
TEST_F(BadInput, NumbersThatAreMissingMayBeReplacedByTheModel) {
  for (const bool is_replaced : {true, false}) {
    format::OnnxFile file;
    file.ir_version = 8;
    file.opsets = {{"", 17}};
    file.inputs.push_back({"x", DType::kF32, std::vector<format::OnnxDimension>{{{}, "rows"}, {2, ""}}});
    file.initializers.emplace_back("w", Tensor::of<float>({2, 2}, {1, 2, 3, 4}));
    file.initializers.emplace_back("mean", Tensor::of<float>({2}, {0.5F, 1}));
    file.nodes = {onnx_node("IsNaN", {"x"}, "missing"), onnx_node("Where", {"missing", "mean", "x"}, "all"),
                  onnx_node("MatMul", {is_replaced ? "all" : "x", "w"}, "y"), onnx_node("Add", {"y", "all"}, "z")};
    file.outputs.push_back({"z", std::nullopt, std::nullopt});
    host.contents["table.onnx"] = format::write_onnx_file(file);
    host.contents["table.npz"] = data(Tensor::of<float>({3, 2}, {1, NAN, 2, 3, NAN, -1}));
    const std::vector<std::string> quantize = {"quantize", "table.onnx", "--calibrate", "table.npz", "-o", "out.onnx"};
    if (is_replaced) EXPECT_EQ(run_cli(quantize, host), 0) << host.err;
    else refuses(quantize, {"holds NaN, the values of x in sample 0 of"});
  }
}

}  // namespace
}  // namespace qdq::bad_input_test
