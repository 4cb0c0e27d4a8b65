// Linear layers that are written as products of integers, and read back.
#include <gtest/gtest.h>

#include <algorithm>

#include "unit/cli/integer_files.h"
#include "unit/cli/onnx_node.h"
#include "format/json.h"
#include "format/onnx_file.h"
#include "io/onnx.h"
#include "lower/integer_layers.h"
#include "lower/lower.h"
#include "op/targets.h"
#include "quant/pt2e.h"
#include "profile/transformers_js.h"
#include "quant/quantizers/xnnpack_quantizer.h"
#include "recipe/recipe.h"
#include "unit/format/expect_error.h"
#include "unit/quant/program_builder.h"

namespace qdq::onnx_integers_test {
namespace {

using format::OnnxFile;
using integer_files::count;
using integer_files::ramp;
using integer_files::run;

format::OnnxValueInfo info(const std::string& name, std::vector<format::OnnxDimension> dims) {
  format::OnnxValueInfo out;
  out.name = name;
  out.dtype = DType::kF32;
  out.dims = std::move(dims);
  return out;
}

float largest_difference(const Tensor& a, const Tensor& b) {
  float out = 0;
  const Tensor x = a.contiguous(), y = b.contiguous();
  for (int64_t i = 0; i < x.numel(); ++i) out = std::max(out, std::abs(x.data<float>()[i] - y.data<float>()[i]));
  return out;
}

// x [2, 3, 8] -> MatMul and Add -> MatMul, the second without a bias.
OnnxFile two_layers() {
  OnnxFile out;
  out.ir_version = 8;
  out.opsets = {{"", 17}};
  out.inputs = {info("x", {{2, ""}, {3, ""}, {8, ""}})};
  out.initializers = {{"w0", ramp({8, 6})}, {"b0", ramp({6})}, {"w1", ramp({6, 4})}};
  out.nodes = {onnx_node("MatMul", {"x", "w0"}, "product"), onnx_node("Add", {"product", "b0"}, "sum"),
               onnx_node("MatMul", {"sum", "w1"}, "y")};
  out.outputs = {info("y", {{2, ""}, {3, ""}, {4, ""}})};
  return out;
}

// As quantize_dynamic writes queries and keys: one DynamicQuantizeLinear, a MatMulInteger of uint8 weights for each.
OnnxFile shared_range() {
  OnnxFile out = two_layers();
  format::OnnxNode quantize = onnx_node("DynamicQuantizeLinear", {"x"}, "xq");
  quantize.outputs = {"xq", "xs", "xz"};
  out.nodes = {quantize};
  out.initializers = {{"ws", Tensor::scalar(0.02F)}, {"wz", Tensor::full({}, DType::kU8, 100)}};
  for (const std::string name : {"a", "b"}) {
    Tensor weight = Tensor::empty({8, 4}, DType::kU8);
    for (int64_t i = 0; i < weight.numel(); ++i) weight.data<uint8_t>()[i] = static_cast<uint8_t>(i * 8 + 3);
    out.initializers.push_back({"w" + name, weight});
    format::OnnxNode cast = onnx_node("Cast", {name}, name + "f");
    cast.attributes.emplace_back();
    cast.attributes[0].name = "to";
    cast.attributes[0].kind = format::OnnxKind::kInt;
    cast.attributes[0].i = 1;
    out.nodes.push_back(onnx_node("MatMulInteger", {"xq", "w" + name, "xz", "wz"}, name));
    out.nodes.push_back(cast);
    out.nodes.push_back(onnx_node("Mul", {"xs", "ws"}, name + "s"));
    out.nodes.push_back(onnx_node("Mul", {name + "f", name + "s"}, name + "y"));
  }
  out.nodes.push_back(onnx_node("Mul", {"ay", "by"}, "y"));
  return out;
}

TEST(OnnxIntegers, LayersThatShareTheirRangeAreMultipliedInIntegers) {
  const Program program = load_onnx(format::write_onnx_file(shared_range()));
  const IntegerLayers layers = integer_layers(program);
  EXPECT_EQ(layers.total, 2u);
  EXPECT_EQ(float_layers_text(layers), "");
  const Tensor x = ramp({2, 3, 8});
  EXPECT_LE(largest_difference(lower(program).run({{x}})[0], run(program, x)), 1e-3);
}

TEST(OnnxIntegers, DynamicLinearLayersAreMatMulInteger) {
  const Tensor input = ramp({2, 3, 8});
  for (const bool is_per_channel : {false, true}) {
    XNNPACKQuantizer quantizer;
    quantizer.set_global(get_symmetric_quantization_config({.is_per_channel = is_per_channel, .is_dynamic = true}));
    Prepared prepared = prepare_pt2e(load_onnx(format::write_onnx_file(two_layers())), quantizer);
    const Program converted = convert_pt2e(prepared);
    const std::vector<std::byte> bytes = save_onnx(converted);
    const OnnxFile file = format::read_onnx_file(bytes);
    EXPECT_EQ(count(file, "MatMulInteger"), 2);
    EXPECT_EQ(count(file, "DynamicQuantizeLinear"), 2);
    for (const char* op : {"MatMul", "DequantizeLinear"}) EXPECT_EQ(count(file, op), 0) << op;
    for (const auto& [name, tensor] : file.initializers)
      EXPECT_TRUE(tensor.dim() < 2 || tensor.dtype() == DType::kS8) << name;
    const Tensor wanted = run(converted, input), found = run(load_onnx(bytes), input);
    EXPECT_LT(largest_difference(found, wanted), 1e-4F);
    EXPECT_GT(largest_difference(run(load_onnx(format::write_onnx_file(two_layers())), input), wanted), 1e-4F);
  }
}

// y = x w' with weights of 4 bits in three blocks of 16.
OnnxFile of_blocks(bool has_zeros) {
  constexpr int64_t kRows = 5, kDepth = 48, kBlock = 16, kBlocks = kDepth / kBlock;
  const Tensor bytes = Tensor::empty({kRows, kBlocks, kBlock / 2}, DType::kU8),
               zeros = Tensor::empty({kRows * ((kBlocks + 1) / 2)}, DType::kU8);
  for (int64_t i = 0; i < bytes.numel(); ++i) bytes.data<uint8_t>()[i] = static_cast<uint8_t>(i * 37);
  for (int64_t i = 0; i < zeros.numel(); ++i) zeros.data<uint8_t>()[i] = static_cast<uint8_t>(i % 2 ? 0x07 : 0x95);
  OnnxFile out;
  out.ir_version = 8;
  out.opsets = {{"", 17}, {"com.microsoft", 1}};
  out.inputs = {info("x", {{2, ""}, {kDepth, ""}})};
  out.initializers = {{"w", bytes}, {"scale", ramp({kRows * kBlocks})}};
  out.nodes = {onnx_node("MatMulNBits", {"x", "w", "scale"}, "y")};
  if (has_zeros) {
    out.initializers.emplace_back("zeros", zeros);
    out.nodes[0].inputs.push_back("zeros");
  }
  out.nodes[0].domain = "com.microsoft";
  for (const auto& [name, value] : {std::pair("K", kDepth), std::pair("N", kRows), std::pair("bits", int64_t{4}),
                                    std::pair("block_size", kBlock)}) {
    format::OnnxAttribute attribute;
    attribute.name = name;
    attribute.kind = format::OnnxKind::kInt;
    attribute.i = value;
    out.nodes[0].attributes.push_back(attribute);
  }
  out.outputs = {info("y", {{2, ""}, {kRows, ""}})};
  return out;
}

TEST(OnnxIntegers, BlocksOfFourBitsComeBackAsTheyWere) {
  for (const bool has_zeros : {false, true}) {
    SCOPED_TRACE(has_zeros);
    const OnnxFile given = of_blocks(has_zeros);
    const Program program = load_onnx(format::write_onnx_file(given));
    const std::vector<std::byte> bytes = save_onnx(program);
    const OnnxFile file = format::read_onnx_file(bytes);
    ASSERT_EQ(file.nodes.size(), 1u);
    const format::OnnxNode& node = file.nodes[0];
    EXPECT_EQ(node.op_type, "MatMulNBits");
    EXPECT_EQ(node.domain, "com.microsoft");
    ASSERT_EQ(node.inputs.size(), has_zeros ? 4u : 3u);
    for (size_t i = 1; i < node.inputs.size(); ++i) {
      const auto found = std::find_if(file.initializers.begin(), file.initializers.end(),
                                      [&](const auto& initializer) { return initializer.first == node.inputs[i]; });
      ASSERT_NE(found, file.initializers.end());
      EXPECT_TRUE(bitwise_equal(found->second, given.initializers[i - 1].second)) << i;
    }
    const Tensor input = ramp({2, 48});
    EXPECT_TRUE(bitwise_equal(run(load_onnx(bytes), input), run(program, input)));
  }
}

TEST(OnnxIntegers, BlocksSayHowTheyAreMultipliedWhereThatIsAsked) {
  OnnxFile given = of_blocks(false);
  Program program = load_onnx(format::write_onnx_file(given));
  const auto level_of = [&](std::optional<int64_t> level) {
    std::optional<int64_t> out;
    const OnnxFile file = format::read_onnx_file(save_onnx(program, {.accuracy_level = level}));
    for (const format::OnnxAttribute& attribute : file.nodes.at(0).attributes)
      if (attribute.name == "accuracy_level") out = attribute.i;
    return out;
  };
  EXPECT_EQ(level_of({}), std::nullopt);
  EXPECT_EQ(level_of(4), 4);
  EXPECT_EQ(level_of(0), 0);
  expect_error(ErrorCode::kInvalidArgument, "is 5, wanted 0 to 4", [&] { level_of(5); });
  expect_error(ErrorCode::kInvalidArgument, "but the model has none",
               [] { save_onnx(load_onnx(format::write_onnx_file(two_layers())), {.accuracy_level = 4}); });
  // What a file says is kept.
  format::OnnxAttribute level;
  level.name = "accuracy_level";
  level.kind = format::OnnxKind::kInt;
  level.i = 4;
  given.nodes[0].attributes.push_back(level);
  program = load_onnx(format::write_onnx_file(given));
  EXPECT_EQ(level_of({}), 4);
  EXPECT_EQ(level_of(1), 1);
}

// A table of 6 rows of 64 numbers, in 4 bits by groups of 32, and the rows that ids [2, 3] choose.
Program table_of_groups(const std::string& low, const std::string& scheme) {
  ProgramBuilder b;
  Node* table = b.weight("table", {6, 64});
  Program floats = b.finish({b.call("embedding.default", {table, b.input("ids", {2, 3}, DType::kS64)})});
  const std::string high = low == "0" ? "15" : "7", dtype = low == "0" ? "uint8" : "int8";
  const auto quantizer = parse_recipe(
      format::parse_json(
          R"({"quantizer": "PatternQuantizer", "patterns": [{"name": "embedding", "operators": ["aten.embedding"],
              "output": "float"}], "global": {"weight": {"spec": "quantization", "dtype": ")" +
              dtype + R"(", "quant_min": )" + low + R"(, "quant_max": )" + high + R"(, "qscheme": ")" + scheme +
              R"(", "ch_axis": 0, "observer": {"class": "PerGroupMinMaxObserver", "args": {"group_size": 32}}}}})",
          "recipe"),
      "recipe");
  Prepared prepared = prepare_pt2e(std::move(floats), *quantizer);
  return convert_pt2e(prepared);
}

TEST(OnnxIntegers, TablesOfFourBitsInGroupsAreGatheredAsTheyAre) {
  for (const auto& [low, scheme] : {std::pair("-8", "per_channel_symmetric"), std::pair("0", "per_channel_affine")}) {
    SCOPED_TRACE(scheme);
    const Program converted = table_of_groups(low, scheme);
    const std::vector<std::byte> bytes = save_onnx(converted);
    const OnnxFile file = format::read_onnx_file(bytes);
    EXPECT_EQ(file.ir_version, 10);  // the first that has int4
    ASSERT_EQ(file.nodes.size(), 1u);
    EXPECT_EQ(file.nodes[0].op_type, "GatherBlockQuantized");
    const bool has_zeros = std::string(low) == "0";
    ASSERT_EQ(file.nodes[0].inputs.size(), has_zeros ? 4u : 3u);
    EXPECT_EQ(file.four_bit_tensors.size(), has_zeros ? 2u : 1u);
    EXPECT_LT(bytes.size(), 6 * 64 / 2 + 6 * 2 * 5 + 700);  // the table, its scales and zero points, the rest
    const Tensor ids = Tensor::of<int64_t>({2, 3}, {5, 0, 1, 2, 2, 4});
    EXPECT_LT(largest_difference(run(load_onnx(bytes), ids), run(converted, ids)), 1e-6F);
  }
}

// Rows of embeddings have float zero points: -1275 for numbers from 5 to 6, which uint8 cannot hold.
TEST(OnnxIntegers, RowsFarFromZeroKeepTheirZeroPoints) {
  ProgramBuilder b;
  Node* table = b.weight("table", {3, 4});
  Program floats = b.finish({b.call("embedding.default", {table, b.input("ids", {2, 2}, DType::kS64)})});
  const std::vector<float> rows = {5, 5.25F, 5.5F, 6, -1, 0, 0.5F, 2, -9, -8.5F, -8.25F, -8};
  floats.find_attribute("table")->tensor = Tensor::of<float>({3, 4}, std::span<const float>(rows));
  const auto quantizer = parse_recipe(
      format::parse_json(
          R"({"quantizer": "PatternQuantizer", "patterns": [{"name": "embedding", "operators": ["aten.embedding"],
              "output": "float"}], "global": {"weight": {"spec": "quantization", "dtype": "uint8", "quant_min": 0,
              "quant_max": 255, "qscheme": "per_channel_affine_float_qparams", "ch_axis": 0,
              "observer": {"class": "PerChannelMinMaxObserver"}}}})",
          "recipe"),
      "recipe");
  Prepared prepared = prepare_pt2e(std::move(floats), *quantizer);
  const Program converted = convert_pt2e(prepared);
  const Tensor ids = Tensor::of<int64_t>({2, 2}, {0, 1, 2, 0});
  const float step = 3.0F / 255;  // of the widest row
  EXPECT_LT(largest_difference(run(load_onnx(save_onnx(converted)), ids), run(converted, ids)), step / 2);
}

// What transformers.js gets of a program for this dtype.
OnnxFile transformers_js(const std::vector<std::byte>& floats, std::string_view dtype, std::vector<std::byte>& bytes) {
  Program program = load_onnx(floats);
  const TransformersJsFile file = transformers_js_file(program, dtype);
  if (!file.recipe.is_null()) {
    const auto quantizer = parse_recipe(file.recipe, "the recipe");
    program = convert_pt2e(prepare_pt2e(std::move(program), *quantizer));
  }
  bytes = save_onnx(program, file.onnx);
  return format::read_onnx_file(bytes);
}

const Tensor& initializer(const OnnxFile& file, const std::string& name) {
  for (const auto& [known, tensor] : file.initializers)
    if (known == name) return tensor;
  static const Tensor none;
  ADD_FAILURE() << "no initializer " << name;
  return none;
}

format::OnnxNode node_of(const OnnxFile& file, const std::string& op) {
  return *std::find_if(file.nodes.begin(), file.nodes.end(), [&](const auto& node) { return node.op_type == op; });
}

// x [1, 2, 6, 6] -> Conv with padding and a bias.
std::vector<std::byte> a_convolution() {
  OnnxFile out;
  out.ir_version = 8;
  out.opsets = {{"", 17}};
  out.inputs = {info("x", {{1, ""}, {2, ""}, {6, ""}, {6, ""}})};
  out.initializers = {{"w", ramp({4, 2, 3, 3})}, {"b", ramp({4})}};
  out.nodes = {onnx_node("Conv", {"x", "w", "b"}, "y")};
  format::OnnxAttribute pads;
  pads.name = "pads";
  pads.kind = format::OnnxKind::kInts;
  pads.ints = {1, 1, 1, 1};
  out.nodes[0].attributes = {pads};
  out.outputs = {info("y", {{1, ""}, {4, ""}, {6, ""}, {6, ""}})};
  return format::write_onnx_file(out);
}

TEST(OnnxIntegers, DynamicConvolutionsAreConvIntegerOfUnsignedWeights) {
  const Tensor input = ramp({1, 2, 6, 6});
  const Tensor exact = run(load_onnx(a_convolution()), input);
  for (const char* dtype : {"q8", "int8", "uint8"}) {
    SCOPED_TRACE(dtype);
    std::vector<std::byte> bytes;
    const OnnxFile file = transformers_js(a_convolution(), dtype, bytes);
    ASSERT_EQ(count(file, "ConvInteger"), 1);
    EXPECT_EQ(count(file, "Conv"), 0);
    const format::OnnxNode node = node_of(file, "ConvInteger");
    ASSERT_EQ(node.inputs.size(), 4u);
    EXPECT_EQ(initializer(file, node.inputs[1]).dtype(), DType::kU8);
    EXPECT_EQ(initializer(file, node.inputs[3]).item_int(), 128);
    const float off = largest_difference(run(load_onnx(bytes), input), exact);
    EXPECT_GT(off, 0);
    EXPECT_LT(off, 0.25F);
  }
}

TEST(OnnxIntegers, ConvolutionsOfIntegersComeBackWithTheirPadding) {
  OnnxFile file;
  file.ir_version = 8;
  file.opsets = {{"", 17}};
  file.inputs = {info("x", {{1, ""}, {2, ""}, {5, ""}, {6, ""}})};
  file.inputs[0].dtype = DType::kU8;
  file.initializers = {{"w", Tensor::full({3, 2, 2, 2}, DType::kU8, 7)}, {"zero", Tensor::full({}, DType::kU8, 126)}};
  file.nodes = {onnx_node("ConvInteger", {"x", "w", "zero"}, "y")};
  format::OnnxAttribute pads;
  pads.name = "pads";
  pads.kind = format::OnnxKind::kInts;
  for (const std::vector<int64_t>& sides : {std::vector<int64_t>{1, 1, 1, 1}, {0, 1, 1, 0}}) {
    pads.ints = sides;
    file.nodes[0].attributes = {pads};
    file.outputs = {info("y", {{1, ""}, {3, ""}, {}, {}})};
    file.outputs[0].dtype = DType::kS32;
    const Program program = load_onnx(format::write_onnx_file(file));
    const std::vector<std::byte> bytes = save_onnx(program);
    const OnnxFile again = format::read_onnx_file(bytes);
    ASSERT_EQ(count(again, "ConvInteger"), 1);
    EXPECT_EQ(count(again, "Conv"), 0);
    EXPECT_EQ(count(again, "Pad"), 0);
    EXPECT_EQ(initializer(again, node_of(again, "ConvInteger").inputs.at(2)).dtype(), DType::kU8);
    const auto& attributes = node_of(again, "ConvInteger").attributes;
    EXPECT_TRUE(std::any_of(attributes.begin(), attributes.end(),
                            [&](const auto& each) { return each.name == "pads" && each.ints == sides; }));
    const Tensor input = ramp({1, 2, 5, 6}).to(DType::kU8);
    EXPECT_TRUE(bitwise_equal(run(load_onnx(bytes), input).contiguous(), run(program, input).contiguous()));
  }
}

// ONNX Runtime makes int32 of a bias in float, and saturates. Here one channel's weights are tiny, as in a network that
// was pruned.
TEST(OnnxIntegers, ABiasThatDoesNotFitIsAddedBehindItsLayer) {
  for (const auto& [op, sizes] : {std::pair<const char*, Shape>("Gemm", {2, 3}), {"Conv", {2, 3, 4, 4}}}) {
    SCOPED_TRACE(op);
    OnnxFile layer;
    layer.ir_version = 8;
    layer.opsets = {{"", 17}};
    std::vector<format::OnnxDimension> dims;
    for (const int64_t size : sizes) dims.push_back({size, ""});
    layer.inputs = {info("x", dims)};
    Shape of_weight(sizes.size(), 1);
    of_weight[0] = of_weight[1] = 3;
    layer.initializers = {{"w", Tensor::full(of_weight, DType::kF32, 1e-9)},
                          {"b", Tensor::of<float>({3}, {0.5F, 500, -2})}};
    layer.nodes = {onnx_node(op, {"x", "w", "b"}, "y")};
    layer.outputs = {{"y", std::nullopt, std::nullopt}};
    XNNPACKQuantizer quantizer;
    quantizer.set_global(get_symmetric_quantization_config({.is_per_channel = true}));
    Prepared prepared = prepare_pt2e(load_onnx(format::write_onnx_file(layer)), quantizer);
    const Tensor input = Tensor::full(sizes, DType::kF32, 1e-3);
    prepared.run({input});
    const Program converted = convert_pt2e(prepared);
    const std::vector<std::byte> bytes = save_onnx(converted);
    const OnnxFile file = format::read_onnx_file(bytes);
    EXPECT_EQ(node_of(file, op).inputs.size(), 2u);
    EXPECT_EQ(count(file, "Add"), 1);
    EXPECT_EQ(largest_difference(run(load_onnx(bytes), input), run(converted, input)), 0);
  }
}

TEST(OnnxIntegers, WeightsOfProductsMayBeUnsigned) {
  const std::vector<std::byte> floats = format::write_onnx_file(two_layers());
  std::vector<std::byte> signed_bytes, unsigned_bytes, eight;
  const OnnxFile with_sign = transformers_js(floats, "int8", signed_bytes),
                 without = transformers_js(floats, "uint8", unsigned_bytes), q8 = transformers_js(floats, "q8", eight);
  EXPECT_EQ(initializer(with_sign, node_of(with_sign, "MatMulInteger").inputs[1]).dtype(), DType::kS8);
  EXPECT_EQ(initializer(without, node_of(without, "MatMulInteger").inputs[1]).dtype(), DType::kU8);
  EXPECT_EQ(eight, signed_bytes) << "without convolutions q8 is int8";
  const Tensor input = ramp({2, 3, 8});
  EXPECT_TRUE(bitwise_equal(run(load_onnx(unsigned_bytes), input), run(load_onnx(signed_bytes), input)));
}

TEST(OnnxIntegers, RowsOfTablesAreLookedUpAsIntegers) {
  OnnxFile floats;
  floats.ir_version = 8;
  floats.opsets = {{"", 17}};
  format::OnnxValueInfo ids = info("ids", {{2, ""}, {3, ""}});
  ids.dtype = DType::kS64;
  floats.inputs = {ids};
  floats.initializers = {{"table", ramp({7, 4})}};
  floats.nodes = {onnx_node("Gather", {"table", "ids"}, "y")};
  floats.outputs = {info("y", {{2, ""}, {3, ""}, {4, ""}})};
  std::vector<std::byte> bytes;
  const OnnxFile file = transformers_js(format::write_onnx_file(floats), "q8", bytes);
  EXPECT_EQ(count(file, "Gather"), 2) << "integers and scales";
  EXPECT_EQ(count(file, "DequantizeLinear"), 0) << "the whole table";
  const Tensor input = Tensor::of<int64_t>({2, 3}, {0, 6, 3, 1, 1, 5});
  const Tensor exact = run(load_onnx(format::write_onnx_file(floats)), input), found = run(load_onnx(bytes), input);
  EXPECT_GT(largest_difference(found, exact), 0);
  EXPECT_LT(largest_difference(found, exact), 0.01F);
}

// y = x w' + b in [2, 64] and [64, 5].
std::vector<std::byte> a_wide_layer() {
  OnnxFile out;
  out.ir_version = 8;
  out.opsets = {{"", 17}};
  out.inputs = {info("x", {{2, ""}, {64, ""}})};
  out.initializers = {{"w", ramp({64, 5})}, {"b", ramp({5})}};
  out.nodes = {onnx_node("Gemm", {"x", "w", "b"}, "y")};
  out.outputs = {info("y", {{2, ""}, {5, ""}})};
  return format::write_onnx_file(out);
}

TEST(OnnxIntegers, EachDtypeOfFourBitsHasItsOperator) {
  const Tensor input = ramp({2, 64});
  const Tensor exact = run(load_onnx(a_wide_layer()), input);
  for (const auto& [dtype, op, scales] :
       {std::tuple("q4", "MatMulNBits", DType::kF32), std::tuple("q4f16", "MatMulNBits", DType::kF16),
        std::tuple("bnb4", "MatMulBnb4", DType::kF32)}) {
    SCOPED_TRACE(dtype);
    std::vector<std::byte> bytes;
    const OnnxFile file = transformers_js(a_wide_layer(), dtype, bytes);
    ASSERT_EQ(count(file, op), 1);
    EXPECT_EQ(count(file, "Gemm") + count(file, "MatMul"), 0);
    EXPECT_EQ(initializer(file, node_of(file, op).inputs[2]).dtype(), scales);
    const float off = largest_difference(run(load_onnx(bytes), input), exact);
    EXPECT_GT(off, 1e-3F);
    EXPECT_LT(off, 0.2F * largest_difference(exact, Tensor::full(exact.sizes(), DType::kF32, 0)));
  }
}

TEST(OnnxIntegers, Float16StaysWithinTheModel) {
  std::vector<std::byte> bytes;
  const OnnxFile file = transformers_js(a_wide_layer(), "fp16", bytes);
  EXPECT_EQ(file.inputs[0].dtype, DType::kF32);
  EXPECT_EQ(file.outputs[0].dtype, DType::kF32);
  EXPECT_EQ(count(file, "Cast"), 2);
  for (const auto& [name, tensor] : file.initializers) EXPECT_EQ(tensor.dtype(), DType::kF16) << name;
  const Tensor input = ramp({2, 64}), exact = run(load_onnx(a_wide_layer()), input);
  const float off = largest_difference(run(load_onnx(bytes), input), exact);
  EXPECT_GT(off, 0);
  EXPECT_LT(off, 0.1F);
}

// Numbers beyond float16 become its largest, and a mask stays one.
TEST(OnnxIntegers, Float16HoldsMasks) {
  OnnxFile floats;
  floats.ir_version = 8;
  floats.opsets = {{"", 17}};
  floats.inputs = {info("x", {{2, ""}})};
  floats.initializers = {{"mask", Tensor::of<float>({2}, {0, -3.4e38F})}};
  floats.nodes = {onnx_node("Add", {"x", "mask"}, "masked"), onnx_node("Softmax", {"masked"}, "y")};
  floats.outputs = {info("y", {{2, ""}})};
  std::vector<std::byte> bytes;
  transformers_js(format::write_onnx_file(floats), "fp16", bytes);
  const Tensor found = run(load_onnx(bytes), Tensor::of<float>({2}, {1, 2}));
  EXPECT_EQ(found.data<float>()[0], 1);
  EXPECT_EQ(found.data<float>()[1], 0);
}

// That of of_blocks, with integers from -128 to 127.
Program of_blocks_of_eight_bits() {
  Program program = load_onnx(format::write_onnx_file(of_blocks(true)));
  for (Node* node : program.graph->nodes()) {
    if (!node->is(op::kDequantizeGroups)) continue;
    node->set_arg(3, -128);
    node->set_arg(4, 127);
    Tensor& integers = program.find_attribute(node->arg(0).node()->target())->tensor;
    for (int8_t& value : integers.span<int8_t>()) value = static_cast<int8_t>(value * 15);
  }
  return program;
}

// Integers that do not fit four bits are written as older runtimes read them, unless the operator is asked for.
TEST(OnnxIntegers, BlocksOfMoreBitsAreDequantizedOrMatMulNBits) {
  const Program program = of_blocks_of_eight_bits();
  const Tensor input = ramp({2, 48}), wanted = run(program, input);
  for (const bool asks : {false, true}) {
    SCOPED_TRACE(asks);
    const OnnxOptions options{.groups = asks ? OnnxGroups::kMatMulNBits : OnnxGroups::kDefault};
    const std::vector<std::byte> bytes = save_onnx(program, options);
    const OnnxFile file = format::read_onnx_file(bytes);
    EXPECT_EQ(count(file, "MatMulNBits"), asks);
    EXPECT_EQ(count(file, "DequantizeLinear"), !asks);
    EXPECT_LT(largest_difference(run(load_onnx(bytes), input), wanted), 1e-5F);
    if (asks) {
      EXPECT_EQ(initializer(file, node_of(file, "MatMulNBits").inputs[1]).sizes(), (Shape{5, 3, 16}));
    }
  }
}

TEST(OnnxIntegers, GroupsMayBeBlocksOfDequantizeLinear) {
  for (const bool is_of_four : {false, true})
    for (const bool has_zeros : {false, true}) {
      if (!is_of_four && !has_zeros) continue;
      SCOPED_TRACE(std::to_string(is_of_four) + std::to_string(has_zeros));
      const Program program =
          is_of_four ? load_onnx(format::write_onnx_file(of_blocks(has_zeros))) : of_blocks_of_eight_bits();
      const std::vector<std::byte> bytes = save_onnx(program, {.groups = OnnxGroups::kBlocks});
      const OnnxFile file = format::read_onnx_file(bytes);
      EXPECT_EQ(file.opsets.at(0).second, 21);
      ASSERT_EQ(count(file, "DequantizeLinear"), 1);
      EXPECT_EQ(count(file, "MatMul"), 1);
      const format::OnnxNode node = node_of(file, "DequantizeLinear");
      EXPECT_EQ(node.inputs.size(), has_zeros ? 3u : 2u);
      EXPECT_EQ(file.four_bit_tensors.size(), is_of_four ? node.inputs.size() - 1 : 0u);
      EXPECT_EQ(initializer(file, node.inputs[1]).sizes(), (Shape{3, 5})) << "blocks along the first axis";
      // Read back they are the same groups, which the other form holds as it did.
      const Program again = load_onnx(bytes);
      const Tensor input = ramp({2, 48});
      EXPECT_TRUE(bitwise_equal(run(again, input), run(program, input)));
      const OnnxOptions nbits{.groups = OnnxGroups::kMatMulNBits};
      const OnnxFile first = format::read_onnx_file(save_onnx(program, nbits)),
                     second = format::read_onnx_file(save_onnx(again, nbits));
      for (size_t i = 1; i < first.nodes.at(0).inputs.size(); ++i)
        EXPECT_TRUE(bitwise_equal(initializer(first, first.nodes[0].inputs[i]),
                                  initializer(second, second.nodes.at(0).inputs.at(i))))
            << i;
    }
}

TEST(OnnxIntegers, FormsOfGroupsWantGroupsAndTheirOpset) {
  const Program program = load_onnx(format::write_onnx_file(of_blocks(false)));
  expect_error(ErrorCode::kUnsupported, "DequantizeLinear takes from opset 21 on, found 17",
               [&] { save_onnx(program, {.opset = 17, .groups = OnnxGroups::kBlocks}); });
  for (const OnnxGroups groups : {OnnxGroups::kBlocks, OnnxGroups::kMatMulNBits})
    expect_error(ErrorCode::kInvalidArgument, "but the model has none",
                 [&] { save_onnx(load_onnx(format::write_onnx_file(two_layers())), {.groups = groups}); });
  expect_error(ErrorCode::kInvalidArgument, "wanted matmul-nbits or blocks", [] { onnx_groups_of("nbits"); });
}

TEST(OnnxIntegers, TablesInGroupsMayBeBlocksToo) {
  const Program converted = table_of_groups("0", "per_channel_affine");
  const std::vector<std::byte> bytes = save_onnx(converted, {.groups = OnnxGroups::kBlocks});
  const OnnxFile file = format::read_onnx_file(bytes);
  EXPECT_EQ(count(file, "GatherBlockQuantized"), 0);
  EXPECT_EQ(count(file, "DequantizeLinear"), 1);
  const Tensor ids = Tensor::of<int64_t>({2, 3}, {5, 0, 1, 2, 2, 4});
  EXPECT_TRUE(bitwise_equal(run(load_onnx(bytes), ids), run(converted, ids)));
}

}  // namespace
}  // namespace qdq::onnx_integers_test
