// Files of torch.save: those of PyTorch 2.6 are read, what is written comes back, everything else is refused.
#include "format/torch_file.h"

#include <gtest/gtest.h>

#include "format/pickle.h"
#include "format/zip.h"
#include "golden_bytes.h"
#include "unit/format/expect_error.h"

namespace qdq::format::torch_file_test {
namespace {

using Kind = PickleValue::Kind;

Tensor counted(const Shape& shape, DType dtype) {
  Tensor out = Tensor::empty(shape, DType::kS64);
  for (int64_t i = 0; i < out.numel(); ++i) out.data<int64_t>()[i] = i;
  return out.to(dtype);
}

const TorchTensor& named(const std::vector<TorchTensor>& tensors, std::string_view name) {
  for (const TorchTensor& entry : tensors)
    if (entry.name == name) return entry;
  throw Error(ErrorCode::kInternal, "no tensor " + std::string(name));
}

TEST(TorchFile, EveryDtypeOfPyTorchIsRead) {
  const std::vector<TorchTensor> tensors = read_torch_file(golden_bytes("format/dtypes.pt"));
  ASSERT_EQ(tensors.size(), 11u);
  for (const TorchTensor& entry : tensors) {
    EXPECT_EQ(entry.name, to_string(entry.tensor.dtype()));
    EXPECT_TRUE(bitwise_equal(entry.tensor, counted({2, 3}, entry.tensor.dtype()))) << entry.name;
    EXPECT_FALSE(entry.is_parameter);
  }
}

TEST(TorchFile, NestedNamesViewsAndSharingAreRead) {
  const std::vector<TorchTensor> t = read_torch_file(golden_bytes("format/nested.pt"));
  std::string names;
  for (const TorchTensor& entry : t) names += entry.name + " ";
  EXPECT_EQ(names,
            "weight tied inner.transposed inner.tail inner.base inner.step listed.0 listed.1 frozen with_state "
            "with_attribute ");
  EXPECT_TRUE(bitwise_equal(t[0].tensor, counted({4, 3}, DType::kF32)));
  EXPECT_TRUE(t[0].is_parameter && t[0].requires_grad);
  EXPECT_EQ(t[0].tensor.storage(), t[1].tensor.storage());
  EXPECT_TRUE(bitwise_equal(t[2].tensor, counted({2, 3}, DType::kF32).transpose(0, 1)));
  EXPECT_EQ(t[2].tensor.strides(), (Shape{1, 3}));
  EXPECT_EQ(t[3].tensor.storage(), t[4].tensor.storage());
  EXPECT_EQ(t[3].tensor.storage_offset(), 4);
  EXPECT_TRUE(bitwise_equal(t[5].tensor, Tensor::of<float>({3}, {1, 4, 7})));
  EXPECT_TRUE(bitwise_equal(t[6].tensor, Tensor::scalar(int64_t{7})));
  EXPECT_EQ(t[7].tensor.sizes(), (Shape{0, 5}));
  EXPECT_TRUE(named(t, "frozen").is_parameter && !named(t, "frozen").requires_grad);
  EXPECT_TRUE(named(t, "with_state").is_parameter);
  EXPECT_FALSE(named(t, "with_attribute").is_parameter);
}

TEST(TorchFile, WhatIsWrittenComesBack) {
  std::vector<TorchTensor> tensors = read_torch_file(golden_bytes("format/dtypes.pt"));
  for (TorchTensor& entry : read_torch_file(golden_bytes("format/nested.pt"))) tensors.push_back(std::move(entry));
  const Bytes bytes = write_torch_file(tensors);
  EXPECT_EQ(bytes, write_torch_file(tensors));
  const std::vector<TorchTensor> back = read_torch_file(bytes);
  ASSERT_EQ(back.size(), tensors.size());
  for (size_t i = 0; i < back.size(); ++i) {
    EXPECT_EQ(back[i].name, tensors[i].name);
    EXPECT_EQ(back[i].is_parameter, tensors[i].is_parameter);
    EXPECT_EQ(back[i].requires_grad, tensors[i].requires_grad);
    EXPECT_EQ(back[i].tensor.strides(), tensors[i].tensor.strides());
    EXPECT_TRUE(bitwise_equal(back[i].tensor, tensors[i].tensor)) << back[i].name;
  }
  EXPECT_EQ(named(back, "inner.tail").tensor.storage(), named(back, "inner.base").tensor.storage());
  const ZipReader archive(bytes);
  for (const ZipEntry& entry : archive.entries())
    EXPECT_EQ((archive.read(entry).bytes().data() - bytes.data()) % 64, 0) << entry.name;
}

TEST(TorchFile, ACallThatIsNoTensorIsRefusedAndNotExecuted) {
  expect_error(ErrorCode::kUnsupported, "'posix.system'", [] { read_torch_file(golden_bytes("format/refused.pt")); });
  expect_error(ErrorCode::kUnsupported, "nothing was executed",
               [] { read_torch_file(golden_bytes("format/refused.pt")); });
}

// A file with one tensor "w" of four floats, changed by `edit` before it is written.
struct Parts {
  Pickle pickle;
  PickleValue* root = nullptr;
  PickleValue* id = nullptr;
  PickleValue* args = nullptr;
  std::string byteorder = "little";
};

template <class Edit> Bytes file(Edit&& edit) {
  Parts parts;
  Pickle& p = parts.pickle;
  parts.id = p.add(Kind::kTuple);
  parts.id->items = {p.str("storage"), p.global("torch.FloatStorage"), p.str("0"), p.str("cpu"), p.integer(4)};
  PickleValue* reference = p.add(Kind::kPersistentId);
  reference->args = parts.id;
  parts.args = p.add(Kind::kTuple);
  parts.args->items = {reference,
                       p.integer(0),
                       p.tuple({p.integer(4)}),
                       p.tuple({p.integer(1)}),
                       p.boolean(false),
                       p.call(p.global("collections.OrderedDict"), {})};
  PickleValue* tensor = p.add(Kind::kObject);
  tensor->callee = p.global("torch._utils._rebuild_tensor_v2");
  tensor->args = parts.args;
  parts.root = p.add(Kind::kDict);
  parts.root->entries = {{p.str("w"), tensor}};
  p.root = parts.root;
  edit(parts);
  ZipWriter writer;
  writer.add("archive/data.pkl", write_pickle(p));
  writer.add("archive/byteorder", bytes_of(parts.byteorder));
  const float values[] = {1, 2, 3, 4};
  writer.add("archive/data/0", std::as_bytes(std::span(values)));
  return writer.finish();
}

TEST(TorchFile, BadFilesAreRefused) {
  EXPECT_EQ(read_torch_file(file([](Parts&) {})).size(), 1u);
  const auto refuse = [](auto edit, std::string_view words, ErrorCode code = ErrorCode::kBadFile) {
    expect_error(code, words, [&] { read_torch_file(file(edit), "weights.pt"); });
  };
  refuse([](Parts& p) { p.args->items[1] = p.pickle.integer(1); }, "weights.pt: the tensor 'w': a tensor of shape [4]");
  refuse([](Parts& p) { p.args->items[1] = p.pickle.integer(-1); }, "reaches outside its storage");
  refuse([](Parts& p) { p.args->items[2] = p.pickle.tuple({p.pickle.integer(5)}); }, "reaches outside its storage");
  refuse([](Parts& p) { p.args->items[2] = p.pickle.tuple({p.pickle.integer(-4)}); }, "negative size");
  refuse([](Parts& p) { p.args->items[3] = p.pickle.tuple({p.pickle.integer(int64_t{1} << 62)}); },
         "reaches outside its storage");
  refuse([](Parts& p) { p.args->items[3] = p.pickle.tuple({}); }, "1 sizes but 0 strides");
  refuse([](Parts& p) { p.args->items[3] = p.pickle.integer(1); }, "not a tuple");
  refuse([](Parts& p) { p.args->items[2] = p.pickle.tuple({p.pickle.str("4")}); }, "not an integer");
  refuse([](Parts& p) { p.args->items.resize(3); }, "has 3 arguments, wanted 6");
  refuse([](Parts& p) { p.args->items[0] = p.pickle.integer(0); }, "refers to no storage");
  refuse([](Parts& p) { p.id->items[4] = p.pickle.integer(5); }, "should have 5 elements, found 4");
  refuse([](Parts& p) { p.id->items[1] = p.pickle.global("torch.DoubleStorage"); }, "should have 4 elements, found 2");
  refuse([](Parts& p) { p.id->items[1] = p.pickle.global("torch.QInt8Storage"); }, "'torch.QInt8Storage'",
         ErrorCode::kUnsupported);
  refuse([](Parts& p) { p.id->items[1] = p.pickle.global("torch.Tensor"); }, "storage of type torch.Tensor");
  refuse([](Parts& p) { p.id->items[2] = p.pickle.str("../../x"); }, "'archive/data/../../x' is missing");
  refuse([](Parts& p) { p.byteorder = "big"; }, "big-endian", ErrorCode::kUnsupported);
  refuse([](Parts& p) { p.root->entries.push_back(p.root->entries[0]); }, "two tensors have the name 'w'");
  refuse([](Parts& p) { p.root->entries[0].second = p.pickle.integer(3); }, "'w' is not a tensor",
         ErrorCode::kUnsupported);
  refuse([](Parts& p) { p.root->entries[0].first = p.pickle.boolean(true); }, "not a string");
  refuse([](Parts& p) { p.root->entries[0].first = p.pickle.str(std::string(5000, 'n')); }, "more than 4096 bytes");
}

TEST(TorchFile, ATreeThatUnfoldsEndlesslyIsRefused) {
  Pickle p;
  const PickleValue* below = p.add(Kind::kDict);
  const PickleValue *a = p.str("a"), *b = p.str("b");
  for (int i = 0; i < 60; ++i) {
    PickleValue* dict = p.add(Kind::kDict);
    dict->entries = {{a, below}, {b, below}};
    below = dict;
  }
  p.root = below;
  ZipWriter writer;
  writer.add("archive/data.pkl", write_pickle(p));
  expect_error(ErrorCode::kBadFile, "more than 2000000 values", [&] { read_torch_file(writer.finish()); });
}

TEST(TorchFile, OtherArchivesAreRefusedByName) {
  expect_error(ErrorCode::kUnsupported, "before PyTorch 1.6", [] { read_torch_file(bytes_of("\x80\x02N.")); });
  ZipWriter other;
  other.add("model.txt", {});
  expect_error(ErrorCode::kBadFile, "torch.save did not write it", [&] { read_torch_file(other.finish()); });
  ZipWriter script;
  script.add("m/data.pkl", bytes_of("\x80\x02N."));
  script.add("m/constants.pkl", {});
  expect_error(ErrorCode::kUnsupported, "TorchScript", [&] { read_torch_file(script.finish()); });
}

TEST(TorchFile, TwoTensorsOfOneNameAreNotWritten) {
  const TorchTensor tensors[] = {{"w", Tensor::scalar(1.0f)}, {"w", Tensor::scalar(2.0f)}};
  expect_error(ErrorCode::kInvalidArgument, "two tensors have the name 'w'", [&] { write_torch_file(tensors); });
  const TorchTensor undefined[] = {{"none", {}}};
  expect_error(ErrorCode::kInvalidArgument, "undefined", [&] { write_torch_file(undefined); });
}

TEST(TorchFile, RawBytesBecomeStorages) {
  const uint8_t bytes[] = {0, 1, 9, 0};
  ZipWriter writer;
  writer.add("w", std::as_bytes(std::span(bytes)));
  const Bytes file = writer.finish();
  const ZipReader archive(file);
  const Tensor bools(read_storage(archive, *archive.find("w"), true), DType::kBool, {2}, {1}, 1);
  EXPECT_TRUE(bitwise_equal(bools, Tensor::of<bool>({2}, {true, true})));
  const auto plain = read_storage(archive, *archive.find("w"), false);
  EXPECT_EQ(static_cast<int>(plain->data()[2]), 9);
}

// What is written without being put together is what is written as one.
TEST(TorchFile, PartsAreTheFile) {
  const TorchTensor tensors[] = {{"small", Tensor::full({3}, DType::kF32, 1)},
                                 {"large", Tensor::full({70, 70}, DType::kF32, 2)},
                                 {"half", Tensor::full({50, 50}, DType::kF16, 3)}};
  const auto parts = torch_file_parts(tensors);
  EXPECT_GT(parts.spans().size(), 3U);
  EXPECT_EQ(parts.size(), write_torch_file(tensors).size());
  EXPECT_EQ(parts.joined(), write_torch_file(tensors));
  EXPECT_EQ(parts.spans()[1].data(), reinterpret_cast<const std::byte*>(tensors[1].tensor.raw()));
}

}  // namespace
}  // namespace qdq::format::torch_file_test
