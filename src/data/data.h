// Samples: arrays or images in files as batches of a program's inputs, and the labels that belong to them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/files.h"
#include "graph/program.h"

namespace qdq {

struct DataOptions {
  std::string preprocess;   // the JSON file that says how images become inputs; folders of images need one
  int64_t batch_size = 16;  // where the program leaves it open
  // the largest number of samples, 0 for all: the first ones of an array, or equally many images of each folder
  int64_t limit = 0;
  bool is_batch_size_wanted = false;  // refuse a program that fixes another
};

// Batches of inputs, made when they are asked for.
class Data {
 public:
  virtual ~Data() = default;
  virtual int64_t num_batches() const = 0;
  virtual int64_t num_samples() const = 0;
  // One tensor for each input of the program. Throws what reading and decoding throw.
  virtual std::vector<Tensor> batch(int64_t index) = 0;
  // Says that the batches from `begin` to `end` will be asked for in their order. While one of them is used the images
  // of the next are decoded on the other threads of set_num_threads: at most as many as two batches or twice the
  // threads need, and as 256 MB of inputs are. Batches and errors come as without; arrays are read when they are asked
  // for.
  virtual void expect(int64_t /*begin*/, int64_t /*end*/) {}
  // A SHA-256 that tells the samples from others, wherever they lie: of images their names and the preprocessing, of
  // arrays the size of their file and its first and last 4096 bytes (where an .npz has the checksums of all), and the
  // preprocessing.
  virtual std::string id() const = 0;
  // How many samples there are without the limit.
  virtual int64_t num_samples_in_all() const = 0;
  // The index that a sample would have without the limit.
  virtual int64_t place_of(int64_t sample) const { return sample; }
  // The file behind a sample, relative to the folder; empty for arrays.
  virtual std::string file_of(int64_t /*sample*/) const { return {}; }
  // The subfolders that hold images, in the order of their names, those that the limit emptied included.
  virtual const std::vector<std::string>& folders() const = 0;
  // What the data holds and the program does not read, a sentence each.
  virtual std::vector<std::string> warnings() const { return {}; }
  // The bytes of a file beside the samples, named as file_of() names them. Throws Error{kInvalidArgument} for arrays.
  virtual std::vector<std::byte> read(const std::string& name) const {
    fail(ErrorCode::kInvalidArgument, "the data has no file ", name, "; it is made of arrays");
  }
};

// Opens one of
//   an .npz: arrays named as the program's inputs or as its ONNX file names them, or arr_0, arr_1, ..., or
//   b<batch>_i<input>;
//   an .npy: the array of the only input;
//   a folder of images, in it or in folders in it, decoded batch by batch in the order of the bytes of their names
//   (FOLDER/FILE);
//   a .tar of images, or a folder of such archives and no images, in the order of the bytes of their names
//   (ARCHIVE/MEMBER) too;
//   "-": an .npz or an .npy that the files give by parts under that name, the disk from its standard input.
// All is read batch by batch, but for arrays that are compressed or in Fortran order; of images the names are held, in
// 6 to 20 bytes each. With options.preprocess an array holds images as well: uint8 pixels [N, H, W, 3], [N, H, W, 1] or
// [N, H, W].
// An array of its input's rank holds samples along the first axis, which is cut into batches of the program's own size,
// or of batch_size where that is open. An array with one axis more holds batches along it. A limit takes images from
// all folders, or archives, in turn: the first of each, folders in the order of their names, then the second of each,
// and so on; the images taken keep the order of their names.
// Throws Error{kInvalidArgument} if the data does not fit the program's inputs. `files` must outlive the data.
std::unique_ptr<Data> open_data(const std::string& path, const Program& program, const DataOptions& options = {},
                                Files& files = disk());

// What is wrong with the name of a file as data, or as labels; "" if open_data() or read_labels() reads such files.
std::string name_problem_of_data(const std::string& path);
std::string name_problem_of_labels(const std::string& path);

// Tensors of several batches as one, along the first axis. Throws Error{kInvalidArgument} if they have no axes.
Tensor join_batches(const std::vector<Tensor>& parts);

// The classes of a model, as far as they are known.
struct Classes {
  std::optional<int64_t> count;    // of the model's outputs
  std::vector<std::string> names;  // in the order of the classes; empty if unknown
};
// The classes of a model with `count` outputs. `path`, if not empty, is a text file with one name a line. Throws
// Error{kInvalidArgument} if it has another number of names.
Classes read_classes(const std::string& path, std::optional<int64_t> count, Files& files = disk());

// The class of each sample: from an .npy or .npz of integers in the data's order, or a .csv with lines `file,label`,
// which are looked up by file for images and taken in order for arrays. The label is a number, or one of the names of
// classes. It stands in the column that a heading calls label, else in the second, else (behind names) in the last
// one. A path in a line may begin with folders above the data's. Fields may be quoted. With "cls" for a path it is
// the number in the file or member KEY.cls beside KEY.jpg, as WebDataset has it. With "folders" for a path an image's
// class is the folder that it lies in:
//   with names of classes: the place of the folder's name among them;
//   else, if all folders are named by whole numbers: that number;
//   else the place of its name among all folders in order of their bytes, as torchvision's ImageFolder has it, if there
//   is a folder for each class.
// Throws Error{kInvalidArgument} naming the first sample without a label, or one whose label is no class of the model,
// and for a list that has not one label for each sample, with or without those that the limit leaves out.
// If the folders are in the order of the classes, their names become the names of the classes.
std::vector<int64_t> read_labels(const std::string& path, const Data& data, Classes& classes, Files& files = disk());

}  // namespace qdq
