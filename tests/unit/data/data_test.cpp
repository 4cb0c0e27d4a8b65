// Arrays and images as batches of a program's inputs.
#include <mutex>
#include <thread>

#include "base/parallel.h"
#include "unit/data/data_fixture.h"
#include "unit/format/expect_error.h"

namespace qdq::data_test {
namespace {

TEST_F(DataTest, CutsSamplesIntoBatches) {
  save("in.npz", {{"x", counting({5, 2})}});
  const auto data = open("in.npz", program_with(SymInt::symbol("s0")), {"", 2, 0});
  EXPECT_EQ(data->num_batches(), 3);
  EXPECT_EQ(data->num_samples(), 5);
  EXPECT_EQ(data->batch(2)[0].sizes(), (Shape{1, 2}));
  EXPECT_EQ(data->batch(1)[0].contiguous().span<float>()[0], 4);
}

TEST_F(DataTest, TheLargestBatchHasAllSamples) {
  save("in.npz", {{"x", counting({5, 2})}});
  const auto data = open("in.npz", program_with(SymInt::symbol("s0")), {"", INT64_MAX, 0});
  EXPECT_EQ(data->num_batches(), 1);
  EXPECT_EQ(data->batch(0)[0].sizes(), (Shape{5, 2}));
}

TEST_F(DataTest, HonoursLimitAndFixedBatch) {
  save("in.npz", {{"arr_0", counting({5, 2})}});
  EXPECT_EQ(open("in.npz", program_with(2), {"", 16, 4})->num_batches(), 2);
  EXPECT_NE(refusal("in.npz", program_with(2)).find("do not divide into batches"), std::string::npos);
  EXPECT_EQ(open("in.npz", program_with(SymInt::symbol("s0")), {"", 16, 3})->num_samples(), 3);
}

// Such as those of a decoder's cache, "past_key_values.0.key" of the input past_key_values_0_key.
TEST_F(DataTest, ArraysMayHaveTheNamesOfTheOnnxFile) {
  const Program program = program_with(SymInt::symbol("s0"), true);
  program.graph->placeholders()[0]->meta.extra.emplace_back(kOnnxValue, "past.0.x");
  save("in.npz", {{"ids", counting({4, 3}, DType::kS64)}, {"past.0.x", counting({4, 2})}});
  EXPECT_EQ(open("in.npz", program)->batch(0)[0].sizes(), (Shape{4, 2}));
  save("both.npz", {{"past.0.x", counting({4, 5})}, {"x", counting({4, 2})}, {"ids", counting({4, 3}, DType::kS64)}});
  EXPECT_EQ(open("both.npz", program)->batch(0)[0].sizes(), (Shape{4, 2})) << "the input's own name comes first";
  save("wrong.npz", {{"ids", counting({4, 3}, DType::kS64)}, {"past.0.x", counting({4, 7})}});
  EXPECT_NE(refusal("wrong.npz", program).find("for input 'past.0.x' has shape [4, 7]"), std::string::npos);
  save("less.npz", {{"ids", counting({4, 3}, DType::kS64)}, {"other", counting({4, 2})}});
  EXPECT_NE(refusal("less.npz", program).find("name the arrays past.0.x, ids"), std::string::npos);
}

TEST_F(DataTest, TakesAnAxisMoreForBatches) {
  save("in.npz", {{"x", counting({3, 4, 2})}});
  const auto data = open("in.npz", program_with(4));
  EXPECT_EQ(data->num_batches(), 3);
  EXPECT_EQ(data->batch(1)[0].sizes(), (Shape{4, 2}));
}

TEST_F(DataTest, ReadsNumberedBatchesInTheirOrder) {
  save("in.npz", {{"b10_i0", counting({1, 2})}, {"b2_i0", counting({3, 2})}});
  const auto data = open("in.npz", program_with(SymInt::symbol("s0")));
  EXPECT_EQ(data->batch(0)[0].size(0), 3);
  EXPECT_EQ(data->batch(1)[0].size(0), 1);
}

// Every kind of batches, and inputs of which one has no samples.
TEST_F(DataTest, ALimitCutsTheBatchThatItEndsIn) {
  const Program open_size = program_with(SymInt::symbol("s0")), fixed = program_with(4);
  save("keyed.npz", {{"b0_i0", counting({4, 2})}, {"b1_i0", counting({4, 2})}, {"b2_i0", counting({4, 2})}});
  save("axis.npz", {{"x", counting({3, 4, 2})}});
  struct Wanted {
    int64_t limit, batches, last;
  };
  for (const char* path : {"keyed.npz", "axis.npz"}) {
    for (const auto& [limit, batches, last] :
         {Wanted{1, 1, 1}, Wanted{4, 1, 4}, Wanted{5, 2, 1}, Wanted{8, 2, 4}, Wanted{11, 3, 3}, Wanted{99, 3, 4}}) {
      const auto data = open(path, open_size, {"", 16, limit});
      EXPECT_EQ(data->num_samples(), std::min<int64_t>(limit, 12)) << path;
      ASSERT_EQ(data->num_batches(), batches) << path << limit;
      EXPECT_EQ(data->batch(batches - 1)[0].sizes(), (Shape{last, 2})) << path << limit;
      EXPECT_EQ(data->batch(0)[0].size(0), std::min<int64_t>(limit, 4)) << path << limit;
    }
    EXPECT_EQ(open(path, fixed, {"", 16, 8})->num_samples(), 8);
    EXPECT_NE(refusal(path, fixed, {"", 16, 5})
                  .find("batch 1 cannot be cut to the limit of 5 samples: input 'x' has a "
                        "fixed batch of 4; wanted a limit of 4 or of 8"),
              std::string::npos)
        << refusal(path, fixed, {"", 16, 5});
  }
  EXPECT_EQ(open("axis.npz", open_size, {"", 16, 6})->batch(1)[0].contiguous().span<float>()[2], 10);
  const Program two = program_with(SymInt::symbol("s0"), true);
  save("two.npz", {{"b0_i0", counting({4, 2})}, {"b0_i1", counting({4, 3}, DType::kS64)}});
  EXPECT_EQ(open("two.npz", two, {"", 16, 3})->batch(0)[1].sizes(), (Shape{3, 3}));
  save("uneven.npz", {{"b0_i0", counting({4, 2})}, {"b0_i1", counting({5, 3}, DType::kS64)}});
  EXPECT_NE(refusal("uneven.npz", two, {"", 16, 3}).find("it has 4 for input 'x' and 5 for input 'ids'"),
            std::string::npos);
}

TEST_F(DataTest, MatchesSeveralInputsByName) {
  save("in.npz", {{"ids", counting({4, 3}, DType::kS32)}, {"x", counting({4, 2}, DType::kF64)}});
  const auto batch = open("in.npz", program_with(SymInt::symbol("s0"), true))->batch(0);
  EXPECT_EQ(batch[0].dtype(), DType::kF32);
  EXPECT_EQ(batch[1].dtype(), DType::kS64);
}

TEST_F(DataTest, RefusesWhatDoesNotFit) {
  const Program one = program_with(SymInt::symbol("s0")), two = program_with(SymInt::symbol("s0"), true);
  save("rank.npz", {{"x", counting({4})}});
  EXPECT_NE(refusal("rank.npz", one).find("has shape [4], the program needs [s0, 2]"), std::string::npos);
  save("dtype.npz", {{"x", counting({4, 2}, DType::kU8)}});
  EXPECT_NE(refusal("dtype.npz", one).find("holds uint8, the program needs float32"), std::string::npos);
  save("missing.npz", {{"x", counting({4, 2})}, {"y", counting({4, 2})}});
  EXPECT_NE(refusal("missing.npz", two).find("no array for input 'ids'"), std::string::npos);
  save("counts.npz", {{"x", counting({40, 2})}, {"ids", counting({4, 3}, DType::kS64)}});
  EXPECT_NE(refusal("counts.npz", two).find("same number of samples"), std::string::npos);
  save("hole.npz", {{"b0_i0", counting({4, 2})}});
  EXPECT_NE(refusal("hole.npz", two).find("batch 0 has no array for input 'ids'"), std::string::npos);
  save("empty.npz", {{"x", counting({0, 2})}});
  EXPECT_NE(refusal("empty.npz", one).find("holds no samples: the arrays have 0 rows"), std::string::npos);
  EXPECT_NE(refusal("in.txt", one).find("cannot read in.txt"), std::string::npos);
  files.add("in.txt", "1 2");
  EXPECT_NE(refusal("in.txt", one).find("not data that qdq reads"), std::string::npos);
  EXPECT_NE(refusal("rank.npz", one, {"", 0, 0}).find("batch size is 0"), std::string::npos);
}

TEST_F(DataTest, DecodesImagesBatchByBatch) {
  for (const char* name : {"img/b.bmp", "img/a.BMP", "img/inner/c.bmp"}) files.add(name, bmp());
  files.add("img/notes.txt", "");
  files.add("how.json", R"({"scale": 1})");
  const auto data = open("img", image_program(), {"how.json", 2, 0});
  EXPECT_EQ(files_of(*data), (std::vector<std::string>{"a.BMP", "b.bmp", "inner/c.bmp"}));
  EXPECT_EQ(data->num_batches(), 2);
  EXPECT_EQ(files.reads["img/a.BMP"], 0);
  const Tensor batch = data->batch(0)[0];
  EXPECT_EQ(files.reads["img/a.BMP"], 1);
  EXPECT_EQ(files.reads["img/inner/c.bmp"], 0);
  EXPECT_EQ(batch.sizes(), (Shape{2, 3, 1, 2}));
  EXPECT_EQ(std::vector<float>(batch.span<float>().begin(), batch.span<float>().begin() + 6),
            (std::vector<float>{255, 0, 0, 0, 0, 255}));
}

TEST_F(DataTest, TheLargestBatchHasAllImages) {
  for (const char* name : {"img/b.bmp", "img/a.bmp", "img/c.bmp"}) files.add(name, bmp());
  files.add("how.json", R"({"scale": 1})");
  const auto data = open("img", image_program(), {"how.json", INT64_MAX, 0});
  EXPECT_EQ(data->num_batches(), 1);
  data->expect(0, 1);
  EXPECT_EQ(data->batch(0)[0].sizes(), (Shape{3, 3, 1, 2}));
}

TEST_F(DataTest, DecodesWithAnyNumberOfThreads) {
  for (int i = 0; i < 9; ++i) {
    std::string image = bmp();
    image[54] = static_cast<char>(i);
    files.add(concat("img/", i, ".bmp"), image);
  }
  files.add("how.json", R"({"scale": 1})");
  for (const int threads : {1, 3}) {
    set_num_threads(threads);
    const Tensor batch = open("img", image_program(), {"how.json", 9, 0})->batch(0)[0];
    for (int64_t i = 0; i < 9; ++i)
      EXPECT_EQ(batch.span<float>()[static_cast<size_t>(i * 6 + 4)], static_cast<float>(i));
  }
  files.add("img/5.bmp", "no picture");
  EXPECT_NE(refusal("img", image_program(), {"how.json", 9, 0}).find("img/5.bmp"), std::string::npos);
  set_num_threads(1);
}

// The files of a disk, which any thread may read.
struct SharedFiles : MemoryFiles {
  std::vector<std::byte> read(const std::string& path) override {
    const std::lock_guard<std::mutex> lock(mutex);
    return MemoryFiles::read(path);
  }
  bool serves_threads() const override { return is_shared; }
  std::mutex mutex;
  bool is_shared = true;
};

struct DataAheadTest : DataTest {
  // `count` images, the red of the second pixel of each its number.
  void add_images(SharedFiles& to, int count) {
    for (int i = 0; i < count; ++i) {
      std::string image = bmp();
      image[54] = static_cast<char>(i);
      to.add(concat("img/", 10 + i, ".bmp"), image);
    }
    to.add("how.json", R"({"scale": 1})");
  }
  void TearDown() override { set_num_threads(1); }
};

TEST_F(DataAheadTest, BatchesAreTheSameHoweverTheyAreAskedFor) {
  for (const bool is_shared : {true, false}) {
    SharedFiles shared;
    shared.is_shared = is_shared;
    add_images(shared, 50);
    for (const int threads : {1, 2, 4}) {
      set_num_threads(threads);
      const auto data = open_data("img", image_program(), {"how.json", 3, 0}, shared);
      const auto expect_batch = [&](int64_t index) {
        const Tensor batch = data->batch(index)[0];
        for (int64_t k = 0; k < batch.size(0); ++k)
          ASSERT_EQ(batch.span<float>()[static_cast<size_t>(k * 6 + 4)], static_cast<float>(3 * index + k));
      };
      data->expect(2, 12);
      for (int64_t i = 2; i < 12; ++i) expect_batch(i);
      for (const int64_t i : {16, 0, 2, 3, 3, 9, 10, 11, 12, 1}) expect_batch(i);
      data->expect(0, 17);
      for (int64_t i = 0; i < 5; ++i) expect_batch(i);  // and leaves others undone
    }
  }
}

TEST_F(DataAheadTest, OnlyWhatIsExpectedIsReadAhead) {
  SharedFiles shared;
  add_images(shared, 50);
  set_num_threads(3);
  const auto data = open_data("img", image_program(), {"how.json", 5, 0}, shared);
  data->batch(0);
  EXPECT_EQ(shared.reads.size(), 6U);  // and how.json
  data->expect(2, 4);
  data->batch(2);
  data->batch(3);
  EXPECT_EQ(shared.reads.size(), 16U);
  EXPECT_EQ(shared.reads["img/30.bmp"], 0);
  // Two batches of five, where a build has threads.
  data->expect(0, 10);
  shared.is_shared = false;  // so that all are read when they are offered
  shared.reads.clear();
  data->batch(0);
  EXPECT_EQ(shared.reads.size(), num_threads() == 1 ? 5U : 15U);
}

// Hangs where nobody else does it.
TEST_F(DataAheadTest, OtherThreadsDecodeWhileABatchIsUsed) {
  SharedFiles shared;
  add_images(shared, 50);
  set_num_threads(2);
  if (num_threads() == 1) GTEST_SKIP() << "this build has no threads";
  const auto data = open_data("img", image_program(), {"how.json", 5, 0}, shared);
  data->expect(0, 10);
  data->batch(0);
  const auto num_read = [&] {
    const std::lock_guard<std::mutex> lock(shared.mutex);
    return shared.reads.size();
  };
  while (num_read() < 16) std::this_thread::yield();  // how.json, this batch and two more
}

TEST_F(DataAheadTest, ErrorsComeInTheirOrder) {
  for (const bool is_shared : {true, false}) {
    SharedFiles shared;
    shared.is_shared = is_shared;
    add_images(shared, 20);
    shared.add("img/15.bmp", "no picture");
    shared.add("img/16.bmp", "no picture either");
    for (const int threads : {1, 4}) {
      set_num_threads(threads);
      const auto data = open_data("img", image_program(), {"how.json", 4, 0}, shared);
      shared.contents.erase("img/17.bmp");
      data->expect(0, 5);
      EXPECT_EQ(data->batch(0)[0].size(0), 4);
      expect_error(ErrorCode::kBadFile, "img/15.bmp", [&] { data->batch(1); });
      expect_error(ErrorCode::kBadFile, "img/15.bmp", [&] { data->batch(1); });
      EXPECT_EQ(data->batch(2)[0].size(0), 4);
      shared.add("img/15.bmp", bmp());
      shared.add("img/16.bmp", bmp());
      expect_error(ErrorCode::kIo, "img/17.bmp", [&] { data->batch(1); });
      add_images(shared, 20);
      shared.add("img/15.bmp", "no picture");
      shared.add("img/16.bmp", "no picture either");
    }
  }
}

TEST_F(DataTest, RefusesImagesWithoutPreprocessOrOfAnotherSize) {
  files.add("img/a.bmp", bmp());
  files.add("how.json", R"({"resize": [4, 4]})");
  EXPECT_NE(refusal("img", image_program()).find("needs --preprocess"), std::string::npos);
  EXPECT_NE(refusal("img", image_program(), {"how.json", 16, 0}).find("gives an input of shape [3, 4, 4]"),
            std::string::npos);
  EXPECT_NE(refusal("img", program_with(1, true), {"how.json", 16, 0}).find("feeds one input"), std::string::npos);
}

// One member of a tar archive.
std::string tar_member(const std::string& name, const std::string& bytes) {
  std::string header(512, '\0');
  const auto put = [&](size_t at, const std::string& text) { header.replace(at, text.size(), text); };
  char size[13], sum[9];
  std::snprintf(size, sizeof size, "%011zo", bytes.size());
  put(0, name);
  put(124, size);
  put(156, "0");
  put(257, "ustar");
  put(148, "        ");
  unsigned total = 0;
  for (const char c : header) total += static_cast<unsigned char>(c);
  std::snprintf(sum, sizeof sum, "%06o", total);
  put(148, std::string(sum) + '\0');
  return header + bytes + std::string((512 - bytes.size() % 512) % 512, '\0');
}

TEST_F(DataTest, ReadsShardsOfImagesWithTheirClasses) {
  files.add("how.json", R"({"scale": 1})");
  for (const char* name : {"img/a.bmp", "img/b.bmp"}) files.add(name, bmp());
  files.add("shard.tar", tar_member("b.bmp", bmp()) + tar_member("b.cls", "2\n") + tar_member("a.bmp", bmp()) +
                             tar_member("a.cls", "0") + tar_member("a.json", "{}") + std::string(1024, '\0'));
  const DataOptions options{"how.json", 2, 0};
  const auto shard = open("shard.tar", image_program(), options), folder = open("img", image_program(), options);
  EXPECT_EQ(files_of(*shard), (std::vector<std::string>{"a.bmp", "b.bmp"}));
  EXPECT_TRUE(bitwise_equal(shard->batch(0)[0], folder->batch(0)[0]));
  Classes classes;
  EXPECT_EQ(read_labels("cls", *shard, classes, files), (std::vector<int64_t>{0, 2}));

  files.add("cut.tar", tar_member("b.bmp", bmp()).substr(0, 540));
  files.add("text.tar", std::string(600, 'x'));
  files.add("bad.tar", tar_member("a.bmp", bmp()) + tar_member("a.cls", "cat"));
  EXPECT_NE(refusal("cut.tar", image_program(), options).find("was probably cut off"), std::string::npos);
  EXPECT_NE(
      refusal("text.tar", image_program(), options).find("this is not a tar archive; it is a text that begins with"),
      std::string::npos);
  files.add("packed.tar", "\x1F\x8B" + std::string(600, 'x'));
  EXPECT_NE(refusal("packed.tar", image_program(), options).find("packed.tar is compressed by gzip"),
            std::string::npos);
  EXPECT_NE(refusal_of_labels("cls", *open("bad.tar", image_program(), options), classes).find("wanted the number"),
            std::string::npos);
}

TEST_F(DataTest, ReadsFoldersOfShards) {
  files.add("how.json", R"({"scale": 1})");
  files.add("shards/1.tar", tar_member("b.bmp", bmp()) + tar_member("b.cls", "2") + tar_member("c.bmp", "old") +
                                tar_member("c.bmp", bmp()) + tar_member("c.cls", "3") + std::string(1024, '\0'));
  files.add("shards/0.tar", tar_member("d.bmp", bmp()) + tar_member("d.cls", "4") + std::string(1024, '\0'));
  files.add("shards/0.index", "");
  const auto shards = open("shards", image_program(), {"how.json", 16, 0});
  EXPECT_EQ(files_of(*shards), (std::vector<std::string>{"0.tar/d.bmp", "1.tar/b.bmp", "1.tar/c.bmp"}));
  EXPECT_EQ(shards->batch(0)[0].size(0), 3);
  Classes classes;
  EXPECT_EQ(read_labels("cls", *shards, classes, files), (std::vector<int64_t>{4, 2, 3}));
  EXPECT_NE(refusal_of_labels("folders", *shards, classes).find("0.tar/d.bmp lies in no folder"), std::string::npos);
  EXPECT_EQ(files_of(*open("shards", image_program(), {"how.json", 16, 2})),
            (std::vector<std::string>{"0.tar/d.bmp", "1.tar/b.bmp"}));
  // An archive beside images is none of them.
  files.add("shards/a.bmp", bmp());
  EXPECT_EQ(files_of(*open("shards", image_program(), {"how.json", 16, 0})), (std::vector<std::string>{"a.bmp"}));
}

TEST_F(DataTest, TakesPixelsInArraysForImages) {
  files.add("how.json", R"({"scale": 1})");
  for (const char* name : {"img/a.bmp", "img/b.bmp"}) files.add(name, bmp());
  const Tensor pixels = Tensor::of<uint8_t>({2, 1, 2, 3}, {255, 0, 0, 0, 0, 255, 255, 0, 0, 0, 0, 255});
  files.contents["pixels.npy"] = format::write_npy(pixels);
  const DataOptions options{"how.json", 2, 0};
  EXPECT_TRUE(bitwise_equal(open("pixels.npy", image_program(), options)->batch(0)[0],
                            open("img", image_program(), options)->batch(0)[0]));
  files.contents["grey.npy"] = format::write_npy(Tensor::of<uint8_t>({1, 1, 2}, {7, 9}));
  const Tensor grey = open("grey.npy", image_program(), options)->batch(0)[0];
  EXPECT_EQ(std::vector<float>(grey.span<float>().begin(), grey.span<float>().end()),
            (std::vector<float>{7, 9, 7, 9, 7, 9}));

  EXPECT_NE(refusal("pixels.npy", image_program()).find("say by --preprocess"), std::string::npos);
  files.contents["floats.npy"] = format::write_npy(counting({2, 3, 1, 2}));
  EXPECT_NE(refusal("floats.npy", image_program(), options).find("wanted uint8 pixels"), std::string::npos);
  files.add("large.json", R"({"resize": [4, 4]})");
  EXPECT_NE(refusal("pixels.npy", image_program(), {"large.json", 2, 0}).find("has shape [2, 3, 4, 4]"),
            std::string::npos);
}

// A detector of torchvision takes one image [3, H, W] of any size.
TEST_F(DataTest, AnInputWithoutABatchTakesImagesOneByOne) {
  Program program = image_program();
  std::get<TensorMeta>(program.graph->placeholders()[0]->meta.val.value).sizes = {3, SymInt::symbol("h"),
                                                                                  SymInt::symbol("w")};
  files.add("how.json", R"({"scale": 1})");
  for (const char* name : {"img/a.bmp", "img/b.bmp"}) files.add(name, bmp());
  files.contents["pixels.npy"] =
      format::write_npy(Tensor::of<uint8_t>({2, 1, 2, 3}, {255, 0, 0, 0, 0, 255, 255, 0, 0, 0, 0, 255}));
  const DataOptions options{"how.json", 16, 0};
  for (const char* path : {"img", "pixels.npy"}) {
    const auto data = open(path, program, options);
    EXPECT_EQ(data->num_batches(), 2) << path;
    EXPECT_EQ(data->num_samples(), 2) << path;
    EXPECT_EQ(data->batch(1)[0].sizes(), (Shape{3, 1, 2})) << path;
    EXPECT_EQ(open(path, program, {"how.json", 16, 1})->num_samples_in_all(), 2) << path;
    EXPECT_EQ(open(path, program, {"how.json", 16, 1})->num_samples(), 1) << path;
  }
  save("two.npz", {{"b0_i0", Tensor::of<uint8_t>({2, 1, 2, 3}, {255, 0, 0, 0, 0, 255, 255, 0, 0, 0, 0, 255})}});
  EXPECT_NE(refusal("two.npz", program, options).find("batch 0 holds 2 images, input 'x' of the program takes one"),
            std::string::npos);
  files.contents["floats.npy"] = format::write_npy(counting({4, 3, 5, 6}));
  EXPECT_EQ(open("floats.npy", program)->num_samples(), 4);
  EXPECT_EQ(open("floats.npy", program)->batch(3)[0].sizes(), (Shape{3, 5, 6}));
  EXPECT_EQ(open("floats.npy", program, {"", 16, 2})->num_batches(), 2);
  files.contents["one.npy"] = format::write_npy(counting({3, 5, 6}));
  EXPECT_EQ(open("one.npy", program)->num_samples(), 1);
  EXPECT_EQ(open("one.npy", program)->batch(0)[0].sizes(), (Shape{3, 5, 6}));
  EXPECT_NE(refusal("img", program, {"how.json", 2, 0, true}).find("fixed batch of 1"), std::string::npos);
}

// What is not asked for is not read.
TEST_F(DataTest, ReadsArraysPartByPart) {
  struct CountingFiles : MemoryFiles {
    std::vector<std::byte> read_part(const std::string& path, uint64_t offset, uint64_t count) override {
      std::vector<std::byte> out = MemoryFiles::read_part(path, offset, count);
      most = std::max<uint64_t>(most, out.size());
      return out;
    }
    uint64_t most = 0;
  } counted;
  const Tensor all = counting({1000000, 2});
  counted.contents["x.npy"] = format::write_npy(all);
  counted.contents["x.npz"] = format::write_npz(std::vector<format::NamedTensor>{{"x", all}});
  const Program program = program_with(SymInt::symbol("s0"));
  for (const char* path : {"x.npy", "x.npz"}) {
    counted.most = 0;
    const auto data = open_data(path, program, {"", 16, 0}, counted);
    EXPECT_EQ(data->num_samples(), 1000000);
    for (const int64_t batch : {0, 62499, 3}) {
      const Tensor found = data->batch(batch)[0];
      EXPECT_TRUE(bitwise_equal(found, all.slice(0, 16 * batch, 16 * batch + 16).clone())) << path << " " << batch;
    }
    EXPECT_LE(counted.most, uint64_t{1} << 20) << path;
  }
  counted.contents["x.npz"][500] ^= std::byte{1};
  expect_error(ErrorCode::kBadFile, "its CRC does not match", [&] { open_data("x.npz", program, {}, counted); });
}

TEST_F(DataTest, ReadsTheStandardInput) {
  const Tensor all = counting({3, 2});
  for (const bool is_npz : {false, true}) {
    files.contents["-"] =
        is_npz ? format::write_npz(std::vector<format::NamedTensor>{{"x", all}}) : format::write_npy(all);
    EXPECT_TRUE(bitwise_equal(open("-", program_with(SymInt::symbol("s0")))->batch(0)[0], all));
  }
  files.add("-", "text");
  EXPECT_NE(refusal("-", program_with(SymInt::symbol("s0"))).find("this is not a .npy file"), std::string::npos);
}

TEST_F(DataTest, TellsOfImagesOfKindsThatAreNotRead) {
  for (const char* name : {"img/a.bmp", "img/b.WEBP", "img/c/d.gif", "img/notes.txt"}) files.add(name, bmp());
  files.add("how.json", "{}");
  EXPECT_EQ(open("img", image_program(), {"how.json", 1, 0})->warnings(),
            std::vector<std::string>{"img holds 2 images of a kind that is not read (b.WEBP, ...); convert to PNG or "
                                     "JPEG what should count"});
  files.add("webp/a.webp", "RIFF");
  EXPECT_NE(refusal("webp", image_program(), {"how.json", 1, 0})
                .find("webp holds no .jpg, .jpeg, .png or .bmp files; it has a.webp, an image of a kind that is not "
                      "read: convert it to PNG or JPEG"),
            std::string::npos);
  files.add("sounds/a.wav", "RIFF");
  EXPECT_NE(refusal("sounds", image_program(), {"how.json", 1, 0})
                .find("it has a.wav: data other than images goes into an .npy or .npz"),
            std::string::npos);
}

TEST_F(DataTest, TellsOfArraysWhoseChannelsLieAtTheOtherEnd) {
  files.contents["x.npy"] = format::write_npy(counting({2, 4, 5, 3}));
  Program program = program_with(SymInt::symbol("s0"));
  const auto refusal_for = [&](SymInt channels, SymInt height, SymInt width) {
    program.graph->placeholders()[0]->meta.val = {
        TensorMeta{DType::kF32, {SymInt::symbol("s0"), channels, height, width}, {}, false}};
    return refusal("x.npy", program);
  };
  EXPECT_TRUE(refusal_for(3, 4, 5).ends_with("; its channels are last: save x.transpose(0, 3, 1, 2)"));
  EXPECT_TRUE(refusal_for(5, 3, 4).ends_with("; its channels are second: save x.transpose(0, 2, 3, 1)"));
  EXPECT_TRUE(refusal_for(3, 4, 6).ends_with("the program needs [s0, 3, 4, 6]"));
}

}  // namespace
}  // namespace qdq::data_test
