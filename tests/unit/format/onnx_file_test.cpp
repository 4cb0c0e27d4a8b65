// ONNX files as structs: what is written is read, and what is broken is refused with its place.
#include "format/onnx_file.h"

#include <gtest/gtest.h>

#include "tensor/strings.h"
#include "unit/format/expect_error.h"

namespace qdq::format::onnx_file_test {
namespace {

OnnxFile small() {
  OnnxFile file;
  file.ir_version = 8;
  file.producer_name = "test";
  file.name = "main";
  file.opsets = {{"", 17}, {"other", 1}};
  OnnxNode& node = file.nodes.emplace_back();
  node.name = "n";
  node.op_type = "Op";
  node.domain = "other";
  node.inputs = {"x", "", "w"};
  node.outputs = {"y", ""};
  const auto add = [&](const char* name, OnnxKind kind) -> OnnxAttribute& {
    OnnxAttribute& attribute = node.attributes.emplace_back();
    attribute.name = name;
    attribute.kind = kind;
    return attribute;
  };
  add("f", OnnxKind::kFloat).f = -1.5f;
  add("i", OnnxKind::kInt).i = INT64_MIN;
  add("s", OnnxKind::kString).s = std::string("a\0b", 3);
  add("t", OnnxKind::kTensor).t = Tensor::of<int64_t>({2}, {-1, INT64_MAX});
  add("floats", OnnxKind::kFloats).floats = {1, -2};
  add("ints", OnnxKind::kInts).ints = {0, -7, 300};
  add("strings", OnnxKind::kStrings).strings = {"", "q"};
  file.initializers.emplace_back("w", Tensor::of<float>({1, 3}, {1, 2, 3}));
  const std::string texts[] = {"", "Z\xC3\xBCrich"};
  file.initializers.emplace_back("texts", string_tensor({2, 1}, texts));
  file.initializers.emplace_back("none", Tensor::empty({0, 4}, DType::kS8));
  file.inputs.push_back(
      {"x", DType::kU8, std::vector<OnnxDimension>{{3, ""}, {std::nullopt, "batch"}, {std::nullopt, ""}, {0, ""}}});
  file.inputs.push_back({"scalar", DType::kBF16, std::vector<OnnxDimension>{}});
  file.outputs.push_back({"y", std::nullopt, std::nullopt});
  return file;
}

TEST(OnnxFile, RoundTrip) {
  const OnnxFile file = small();
  const Bytes bytes = write_onnx_file(file);
  const OnnxFile again = read_onnx_file(bytes);
  EXPECT_TRUE(bytes == write_onnx_file(again));
  EXPECT_EQ(again.opsets, file.opsets);
  ASSERT_EQ(again.nodes.size(), 1u);
  EXPECT_EQ(again.nodes[0].inputs, file.nodes[0].inputs);
  EXPECT_EQ(again.nodes[0].outputs, file.nodes[0].outputs);
  EXPECT_EQ(again.nodes[0].domain, "other");
  const std::vector<OnnxAttribute>& attributes = again.nodes[0].attributes;
  ASSERT_EQ(attributes.size(), 7u);
  EXPECT_EQ(attributes[0].f, -1.5f);
  EXPECT_EQ(attributes[1].i, INT64_MIN);
  EXPECT_EQ(attributes[2].s, std::string("a\0b", 3));
  EXPECT_TRUE(bitwise_equal(attributes[3].t, file.nodes[0].attributes[3].t));
  EXPECT_EQ(attributes[4].floats, (std::vector<float>{1, -2}));
  EXPECT_EQ(attributes[5].ints, (std::vector<int64_t>{0, -7, 300}));
  EXPECT_EQ(attributes[6].strings, (std::vector<std::string>{"", "q"}));
  ASSERT_EQ(again.initializers.size(), 3u);
  EXPECT_TRUE(bitwise_equal(again.initializers[0].second, file.initializers[0].second));
  EXPECT_TRUE(bitwise_equal(again.initializers[1].second, file.initializers[1].second));
  ASSERT_TRUE(again.inputs[0].dims && again.inputs[1].dims);
  ASSERT_EQ(again.inputs[0].dims->size(), 4u);
  EXPECT_EQ(again.inputs[0].dims->at(0).value, 3);
  EXPECT_EQ(again.inputs[0].dims->at(1).param, "batch");
  EXPECT_FALSE(again.inputs[0].dims->at(2).value);
  EXPECT_EQ(again.inputs[0].dims->at(3).value, 0);
  EXPECT_EQ(again.inputs[1].dims->size(), 0u);
  EXPECT_FALSE(again.outputs[0].dims);
}

void append_field(Bytes& out, uint8_t tag, const Bytes& message) {
  append_number(out, tag);
  append_number(out, static_cast<uint8_t>(message.size()));
  append(out, message);
}
Bytes bytes(std::initializer_list<int> values) {
  Bytes out;
  for (const int value : values) append_number(out, static_cast<uint8_t>(value));
  return out;
}
// A model with one initializer of these fields.
Bytes with_tensor(const Bytes& tensor) {
  Bytes graph, model = bytes({0x08, 8});
  append_field(graph, 0x2A, tensor);
  append_field(model, 0x3A, graph);
  return model;
}

TEST(OnnxFile, DataInFieldsOfItsType) {
  // dims [2], data_type int8, int32_data [-1, 5] packed; then unpacked.
  const Bytes packed =
      bytes({0x08, 2, 0x10, 3, 0x2A, 11, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01, 5});
  const Bytes unpacked =
      bytes({0x08, 2, 0x10, 3, 0x28, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01, 0x28, 5});
  for (const Bytes& tensor : {packed, unpacked})
    EXPECT_TRUE(
        bitwise_equal(read_onnx_file(with_tensor(tensor)).initializers.at(0).second, Tensor::of<int8_t>({2}, {-1, 5})));
  // float_data, alone and packed.
  EXPECT_EQ(read_onnx_file(with_tensor(bytes({0x10, 1, 0x25, 0, 0, 0x80, 0x3F}))).initializers.at(0).second.item(),
            1.0);
  EXPECT_EQ(read_onnx_file(with_tensor(bytes({0x10, 1, 0x22, 4, 0, 0, 0x80, 0x3F}))).initializers.at(0).second.item(),
            1.0);
}

// A tensor with external_data {location, offset} and data_location EXTERNAL: by default dims [2] and data_type float.
Bytes elsewhere(std::string_view location, std::string_view offset, Bytes tensor = bytes({0x08, 2, 0x10, 1})) {
  const auto entry = [](std::string_view key, std::string_view value) {
    Bytes out;
    append_field(out, 0x0A, Bytes(bytes_of(key).begin(), bytes_of(key).end()));
    append_field(out, 0x12, Bytes(bytes_of(value).begin(), bytes_of(value).end()));
    return out;
  };
  append(tensor, bytes({0x70, 1}));
  append_field(tensor, 0x6A, entry("location", location));
  append_field(tensor, 0x6A, entry("offset", offset));
  return with_tensor(tensor);
}

TEST(OnnxFile, DataInAnotherFile) {
  const std::vector<float> values = {7, 1, 2, 8};
  std::string asked;
  const OnnxExternalData external = [&](const std::string& location) {
    asked += location;
    return std::make_shared<MemorySource>(std::as_bytes(std::span(values)));
  };
  EXPECT_TRUE(bitwise_equal(read_onnx_file(elsewhere("a/b.data", "4"), external).initializers.at(0).second,
                            Tensor::of<float>({2}, {1, 2})));
  EXPECT_EQ(asked, "a/b.data");
  expect_error(ErrorCode::kBadFile, "needs 8 bytes at 12 of w, which has 16",
               [&] { read_onnx_file(elsewhere("w", "12"), external); });
  expect_error(ErrorCode::kBadFile, "needs 8 bytes at 18446744073709551615",
               [&] { read_onnx_file(elsewhere("w", "18446744073709551615"), external); });
  expect_error(ErrorCode::kBadFile, "wanted a number", [&] { read_onnx_file(elsewhere("w", "-4"), external); });
  // 2^47 integers of 4 bits: no memory is asked for before the other file is seen to have so many.
  const Bytes vast = bytes({0x08, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x20, 0x10, 22});
  expect_error(ErrorCode::kBadFile, "needs 70368744177664 bytes at 0 of w, which has 16",
               [&] { read_onnx_file(elsewhere("w", "0", vast), external); });
  asked.clear();
  for (const std::string_view path : {"/etc/passwd", "../x", "a/../../x", "..", "C:x", "a\\..\\x", ""})
    expect_error(ErrorCode::kBadFile, "which is not in the model's folder",
                 [&] { read_onnx_file(elsewhere(path, "0"), external); });
  EXPECT_EQ(asked, "");
}

TEST(OnnxFile, IntegersOfFourBitsAreWrittenTwoToAByte) {
  OnnxFile file = small();
  file.initializers = {{"signed", Tensor::of<int8_t>({3}, {-8, 7, -1})}, {"other", Tensor::of<int8_t>({1}, {5})}};
  file.initializers.emplace_back("unsigned", Tensor::of<uint8_t>({2, 2}, {15, 0, 3, 9}));
  file.four_bit_tensors = {"signed", "unsigned"};
  const Bytes written = write_onnx_file(file);
  const OnnxFile read = read_onnx_file(written);
  EXPECT_EQ(read.four_bit_tensors, file.four_bit_tensors);
  ASSERT_EQ(read.initializers.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(read.initializers[i].first, file.initializers[i].first);
    EXPECT_TRUE(bitwise_equal(read.initializers[i].second, file.initializers[i].second));
  }
  const auto holds = [&](const Bytes& part) {
    return std::search(written.begin(), written.end(), part.begin(), part.end()) != written.end();
  };
  EXPECT_TRUE(holds(bytes({0x4A, 2, 0x78, 0x0F})));  // raw_data: -8 and 7, then -1 alone
  EXPECT_TRUE(holds(bytes({0x4A, 2, 0x0F, 0x93})));
  // The same in a file beside the model, where tensors of 1,024 bytes and more lie.
  file.initializers[0].second = Tensor::full({4096}, DType::kS8, -3);
  Parts data;
  const Bytes model = onnx_file_parts(file, "m.data", &data).joined();
  const Bytes beside = data.joined();
  EXPECT_EQ(beside.size(), 2048u);
  const auto external = [&](const std::string&) { return std::make_shared<MemorySource>(beside); };
  EXPECT_TRUE(bitwise_equal(read_onnx_file(model, external).initializers[0].second, file.initializers[0].second));
}

TEST(OnnxFile, Refusals) {
  expect_error(ErrorCode::kBadFile, "not an ONNX model", [] { read_onnx_file({}); });
  expect_error(ErrorCode::kBadFile, "no graph", [] { read_onnx_file(bytes({0x08, 8})); });
  const Bytes whole = write_onnx_file(small());
  expect_error(ErrorCode::kBadFile, "cut off", [&] { read_onnx_file(ByteSpan(whole).first(whole.size() - 3)); });
  expect_error(ErrorCode::kBadFile, "wire type", [] { read_onnx_file(bytes({0x0A, 1, 0})); });
  // Sizes are held against the bytes before memory is taken.
  expect_error(ErrorCode::kBadFile, "its shape [2] needs 8",
               [] { read_onnx_file(with_tensor(bytes({0x08, 2, 0x10, 1, 0x4A, 4, 0, 0, 0, 0}))); });
  expect_error(ErrorCode::kBadFile, "absurd sizes", [] {
    const Bytes huge = bytes({0x08, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x40, 0x08,
                              0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x40, 0x10, 1});
    read_onnx_file(with_tensor(huge));
  });
  expect_error(ErrorCode::kUnsupported, "data in another file", [] { read_onnx_file(elsewhere("w", "0")); });
  expect_error(ErrorCode::kUnsupported, "data type 14", [] { read_onnx_file(with_tensor(bytes({0x10, 14}))); });
  expect_error(ErrorCode::kBadFile, "has 0 strings, its shape [] needs 1",
               [] { read_onnx_file(with_tensor(bytes({0x10, 8}))); });
  expect_error(ErrorCode::kBadFile, "a string of 1 bytes is not text in UTF-8",
               [] { read_onnx_file(with_tensor(bytes({0x10, 8, 0x32, 1, 0xFF}))); });
  expect_error(ErrorCode::kBadFile, "wanted string_data",
               [] { read_onnx_file(with_tensor(bytes({0x10, 8, 0x4A, 1, 'a'}))); });
}

TEST(OnnxFile, GraphsThatLieTooDeepAreRefusedAsSuch) {
  const auto nested = [](int levels) {
    OnnxGraph graph;
    graph.outputs.push_back({"y", DType::kF32, std::vector<OnnxDimension>{{2, ""}}});
    for (int level = 0; level < levels; ++level) {
      OnnxGraph outer;
      outer.outputs = graph.outputs;
      OnnxNode& node = outer.nodes.emplace_back();
      node.op_type = "If";
      OnnxAttribute& branch = node.attributes.emplace_back();
      branch.name = "then_branch";
      branch.kind = OnnxKind::kGraph;
      branch.graphs = {std::make_shared<OnnxGraph>(std::move(graph))};
      graph = std::move(outer);
    }
    OnnxFile file;
    static_cast<OnnxGraph&>(file) = std::move(graph);
    file.ir_version = 8;
    file.opsets = {{"", 17}};
    return write_onnx_file(file);
  };
  EXPECT_EQ(read_onnx_file(nested(20)).nodes.size(), 1u);
  for (const int levels : {21, 22, 40})
    expect_error(ErrorCode::kUnsupported, "graphs in nodes (If, Loop, Scan) or types in types more than 64 messages",
                 [&] { read_onnx_file(nested(levels)); });
}

}  // namespace
}  // namespace qdq::format::onnx_file_test
