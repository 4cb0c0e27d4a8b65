// Labels of samples: files of them, columns, folders.
#include "unit/data/data_fixture.h"

namespace qdq::labels_test {
namespace {

struct LabelsTest : DataTest {};

TEST_F(LabelsTest, FindsLabelsByFileOrInOrder) {
  files.add("img/a.bmp", bmp());
  files.add("img/b.bmp", bmp());
  files.add("how.json", "{}");
  files.add("labels.csv", "file,label\r\nb.bmp,7\r\na.bmp,3\r\n");
  Classes unknown;
  const auto images = open("img", image_program(), {"how.json", 2, 0});
  EXPECT_EQ(read_labels("labels.csv", *images, unknown, files), (std::vector<int64_t>{3, 7}));
  files.contents["many.npy"] = format::write_npy(Tensor::of<int32_t>({3}, {5, 6, 7}));
  EXPECT_NE(
      refusal_of_labels("many.npy", *images, unknown).find("many.npy holds 3 labels for 2 samples; wanted one for"),
      std::string::npos);
  files.contents["hot.npy"] = format::write_npy(Tensor::of<int32_t>({2, 2}, {1, 0, 0, 1}));
  EXPECT_NE(refusal_of_labels("hot.npy", *images, unknown).find("hot.npy holds int32[2, 2]; labels are one class"),
            std::string::npos);
  files.contents["labels.npy"] = format::write_npy(Tensor::of<int32_t>({2, 1}, {5, 6}));
  EXPECT_EQ(read_labels("labels.npy", *images, unknown, files), (std::vector<int64_t>{5, 6}));
  files.contents["few.npy"] = format::write_npy(Tensor::of<int64_t>({1}, {5}));
  EXPECT_THROW(read_labels("few.npy", *images, unknown, files), Error);
  files.contents["float.npy"] = format::write_npy(Tensor::of<float>({2}, {5, 6}));
  EXPECT_THROW(read_labels("float.npy", *images, unknown, files), Error);
  files.add("hole.csv", "a.bmp,1\n");
  EXPECT_THROW(read_labels("hole.csv", *images, unknown, files), Error);
  files.add("bad.csv", "a.bmp,1\nb.bmp,cat\n");
  EXPECT_THROW(read_labels("bad.csv", *images, unknown, files), Error);
  Classes seven{7, {}};
  EXPECT_NE(refusal_of_labels("labels.csv", *images, seven).find("label of b.bmp is 7; the model has classes 0 to 6"),
            std::string::npos);
  // Names of classes, columns behind the label, and a name in front of its number.
  Classes named{3, {"cat", "dog", "owl"}};
  files.add("names.csv", "file,label\na.bmp,owl\nb.bmp,cat\n");
  EXPECT_EQ(read_labels("names.csv", *images, named, files), (std::vector<int64_t>{2, 0}));
  files.add("columns.csv", "file,label,name\na.bmp,2,an owl\nb.bmp,0,a cat\n");
  EXPECT_EQ(read_labels("columns.csv", *images, unknown, files), (std::vector<int64_t>{2, 0}));
  files.add("front.csv", "a.bmp,an owl,2\nb.bmp,a cat,0\n");
  EXPECT_EQ(read_labels("front.csv", *images, unknown, files), (std::vector<int64_t>{2, 0}));
  EXPECT_NE(refusal_of_labels("names.csv", *images, unknown).find("a name of a class that --classes FILE.txt has"),
            std::string::npos);
  files.add("unknown.csv", "a.bmp,owl\nb.bmp,bat\n");
  EXPECT_NE(refusal_of_labels("unknown.csv", *images, named).find("line 2: found \"b.bmp,bat\""), std::string::npos);
  files.add("twice.csv", "a.bmp,1\nb.bmp,0\na.bmp,1\n");
  EXPECT_EQ(read_labels("twice.csv", *images, unknown, files), (std::vector<int64_t>{1, 0}));
  files.add("two.csv", "a.bmp,1\nb.bmp,0\na.bmp,2\n");
  EXPECT_NE(refusal_of_labels("two.csv", *images, unknown).find("has lines with different labels for a.bmp"),
            std::string::npos);
  files.add("negative.csv", "a.bmp,-1\nb.bmp,0\n");
  EXPECT_NE(refusal_of_labels("negative.csv", *images, unknown).find("counted from 0"), std::string::npos);
}

TEST_F(LabelsTest, ReadsLabelsAsSpreadsheetsAndScriptsWriteThem) {
  for (const char* name : {"img/a.bmp", "img/b,c.bmp", "img/d/a.bmp"}) files.add(name, bmp());
  files.add("how.json", "{}");
  const auto images = open("img", image_program(), {"how.json", 3, 0});
  ASSERT_EQ(files_of(*images), (std::vector<std::string>{"a.bmp", "b,c.bmp", "d/a.bmp"}));
  Classes unknown;
  const std::vector<int64_t> wanted = {3, 1, 2};
  for (const char* text : {"\"a.bmp\",\"3\"\n\"b,c.bmp\",\"1\"\n\"d/a.bmp\",\"2\"\n",     // quotes
                           "a.bmp,3\nb,c.bmp,1\nd/a.bmp,2\n",                             // a comma without quotes
                           "x/img/a.bmp,3\nx/img/\"b,c.bmp\",1\nx/img/d/a.bmp,2\n",       // folders above the data's
                           "file,Label,fold\na.bmp,3,0\n\"b,c.bmp\",1,1\nd/a.bmp,2,0\n",  // columns behind the label
                           "\xef\xbb\xbf"
                           "file,fold,label\na.bmp,0,3\n\"b,c.bmp\",1,1\nd/a.bmp,0,2\n"}) {
    files.add("l.csv", text);
    EXPECT_EQ(read_labels("l.csv", *images, unknown, files), wanted) << text;
  }
  // A heading that calls a column label means that one alone.
  files.add("l.csv", "file,label,fold\na.bmp,cat,0\n");
  EXPECT_NE(refusal_of_labels("l.csv", *images, unknown).find("line 2: found \"a.bmp,cat,0\""), std::string::npos);
}

TEST_F(LabelsTest, TellsOfAFirstLineThatIsNoHeading) {
  for (const char* name : {"img/a.bmp", "img/b.bmp"}) files.add(name, bmp());
  files.add("how.json", "{}");
  Classes unknown;
  files.add("l.csv", "a.bmp,zero\nb.bmp,1\n");
  EXPECT_NE(refusal_of_labels("l.csv", *open("img", image_program(), {"how.json", 2, 0}), unknown)
                .find("l.csv, line 1: found \"a.bmp,zero\", which is no heading, as the data has a.bmp"),
            std::string::npos);
  files.contents["x.npy"] = format::write_npy(counting({2, 2}));
  EXPECT_NE(refusal_of_labels("l.csv", *open("x.npy", program_with(SymInt::symbol("s0"))), unknown)
                .find("l.csv holds 1 label for 2 samples; wanted one for each, in their order (\"a.bmp,zero\" counts "
                      "as a heading)"),
            std::string::npos);
}

TEST_F(LabelsTest, TakesFoldersForClasses) {
  for (const char* name : {"img/cat/1.bmp", "img/cat-like/1.bmp", "img/dog/1.bmp", "img/dog/2.bmp"})
    files.add(name, bmp());
  files.add("how.json", "{}");
  const auto images = open("img", image_program(), {"how.json", 2, 0});
  EXPECT_EQ(files_of(*images), (std::vector<std::string>{"cat-like/1.bmp", "cat/1.bmp", "dog/1.bmp", "dog/2.bmp"}));
  // As torchvision's ImageFolder: the order of the folders' names, not that of the paths.
  Classes three{3, {}};
  EXPECT_EQ(read_labels("folders", *images, three, files), (std::vector<int64_t>{1, 0, 2, 2}));
  EXPECT_EQ(three.names, (std::vector<std::string>{"cat", "cat-like", "dog"}));
  // A limit leaves the classes what they are.
  Classes again{3, {}};
  const auto first = open("img", image_program(), {"how.json", 2, 3});
  EXPECT_EQ(read_labels("folders", *first, again, files), (std::vector<int64_t>{1, 0, 2}));
  // Some of a model's classes need names.
  Classes five{5, {}};
  EXPECT_NE(refusal_of_labels("folders", *images, five).find("3 folders (cat, ...) but the model has 5 classes apart"),
            std::string::npos);
  files.add("classes.txt", "dog\r\nbird\ncat\ncat-like\nfish\n");
  Classes named = read_classes("classes.txt", 5, files);
  EXPECT_EQ(named.names.size(), 5U);
  EXPECT_EQ(read_labels("folders", *images, named, files), (std::vector<int64_t>{3, 2, 0, 0}));
  EXPECT_THROW(read_classes("classes.txt", 4, files), Error);
  Classes others{2, {"ant", "bee"}};
  EXPECT_NE(refusal_of_labels("folders", *images, others).find("the folder cat has the name of none of the 2 classes"),
            std::string::npos);
  files.add("img/loose.bmp", bmp());
  Classes loose{3, {}};
  const auto with_loose = open("img", image_program(), {"how.json", 1, 0});
  EXPECT_NE(refusal_of_labels("folders", *with_loose, loose).find("loose.bmp lies in no folder"), std::string::npos);
}

TEST_F(LabelsTest, ALimitTakesAsManyImagesOfEachFolderAsCanBe) {
  for (const char* name :
       {"img/b/1.bmp", "img/b/2.bmp", "img/b/3.bmp", "img/b-c/1.bmp", "img/a/1.bmp", "img/a/2.bmp", "img/a/3.bmp"})
    files.add(name, bmp());
  files.add("how.json", "{}");
  files.contents["labels.npy"] = format::write_npy(Tensor::of<int64_t>({7}, {10, 11, 12, 13, 14, 15, 16}));
  using Files = std::vector<std::string>;
  const std::vector<std::pair<int64_t, Files>> wanted = {
      {1, {"a/1.bmp"}},
      {2, {"a/1.bmp", "b/1.bmp"}},
      {3, {"a/1.bmp", "b-c/1.bmp", "b/1.bmp"}},
      {5, {"a/1.bmp", "a/2.bmp", "b-c/1.bmp", "b/1.bmp", "b/2.bmp"}},
      {6, {"a/1.bmp", "a/2.bmp", "a/3.bmp", "b-c/1.bmp", "b/1.bmp", "b/2.bmp"}},
      {9, {"a/1.bmp", "a/2.bmp", "a/3.bmp", "b-c/1.bmp", "b/1.bmp", "b/2.bmp", "b/3.bmp"}}};
  for (const auto& [limit, names] : wanted)
    EXPECT_EQ(files_of(*open("img", image_program(), {"how.json", 4, limit})), names) << limit;
  // A list of labels is that of all images.
  Classes unknown;
  EXPECT_EQ(read_labels("labels.npy", *open("img", image_program(), {"how.json", 4, 5}), unknown, files),
            (std::vector<int64_t>{10, 11, 13, 14, 15}));
  files.contents["labels.npy"] = format::write_npy(Tensor::of<int64_t>({5}, {10, 11, 12, 13, 14}));
  EXPECT_NE(refusal_of_labels("labels.npy", *open("img", image_program(), {"how.json", 4, 5}), unknown)
                .find("holds 5 labels for 7 samples, of which --limit takes 5"),
            std::string::npos);
}

TEST_F(LabelsTest, FoldersNamedByNumbersAreThoseClasses) {
  for (const char* name : {"img/2/a.bmp", "img/10/a.bmp", "img/007/a.bmp"}) files.add(name, bmp());
  files.add("how.json", "{}");
  const auto images = open("img", image_program(), {"how.json", 3, 0});
  Classes many{11, {}};
  EXPECT_EQ(read_labels("folders", *images, many, files), (std::vector<int64_t>{7, 10, 2}));
  Classes few{10, {}};
  EXPECT_NE(
      refusal_of_labels("folders", *images, few).find("the label of 10/a.bmp is 10; the model has classes 0 to 9"),
      std::string::npos);
  save("in.npz", {{"x", counting({2, 2})}});
  const auto arrays = open("in.npz", program_with(SymInt::symbol("s0")));
  EXPECT_NE(refusal_of_labels("folders", *arrays, many).find("need a folder of images"), std::string::npos);
}

}  // namespace
}  // namespace qdq::labels_test
