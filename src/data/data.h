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
  // at most so many samples; 0: all. The first of an array; of images in folders as many of each folder as can be
  int64_t limit = 0;
};

// Batches of inputs, made when they are asked for.
class Data {
 public:
  virtual ~Data() = default;
  virtual int64_t num_batches() const = 0;
  virtual int64_t num_samples() const = 0;
  // One tensor for each input of the program. Throws what reading and decoding throw.
  virtual std::vector<Tensor> batch(int64_t index) = 0;
  // Where a sample stands among all of them, those that the limit leaves out included.
  virtual int64_t place_of(int64_t sample) const { return sample; }
  // The files behind the samples, relative to the folder; empty for arrays.
  virtual const std::vector<std::string>& files() const = 0;
  // The folders in the folder that hold images, in the order of their names, whatever the limit leaves out of them.
  virtual const std::vector<std::string>& folders() const = 0;
};

// Opens an .npz (arrays named as the program's inputs, or arr_0, arr_1, ..., or b<batch>_i<input>), an .npy (of the
// only input) or a folder of images, which are decoded batch by batch. In an array of an input's rank the first axis
// holds samples, which are cut into batches of the program's own size, or of batch_size where that is open; with one
// axis more, that axis holds batches. Images come in the order of the bytes of their names (FOLDER/FILE); a limit takes
// the first of each folder, folders in the order of their names, then the second of each that has one, and so on until
// they are enough, and leaves what it took in the order of the names.
// Throws Error{kInvalidArgument} if the data does not fit the program's inputs. `files` must outlive the data.
std::unique_ptr<Data> open_data(const std::string& path, const Program& program, const DataOptions& options = {},
                                Files& files = disk());

// Tensors of several batches as one, along the first axis. Throws Error{kInvalidArgument} if they have no axes.
Tensor join_batches(const std::vector<Tensor>& parts);

// What is known of a model's classes.
struct Classes {
  std::optional<int64_t> count;    // of the model's outputs
  std::vector<std::string> names;  // in their order; none if nobody gave them
};
// The classes of a model that has `count` of them; `path`, if not empty, is a text with a name on each line. Throws
// Error{kInvalidArgument} if their number is another.
Classes read_classes(const std::string& path, std::optional<int64_t> count, Files& files = disk());

// The class of each sample: from an .npy or .npz of integers in the data's order, or a .csv with lines `file,label`,
// which are looked up by file for images and taken in order for arrays. With "folders" for a path an image's class is
// the folder that it lies in:
//   with names of classes: the place of the folder's name among them;
//   else, if all folders are named by whole numbers: that number;
//   else the place of its name among all folders in order of their bytes, as torchvision's ImageFolder has it, if there
//   is a folder for each class.
// Throws Error{kInvalidArgument} naming the first sample without a label, or one whose label is no class of the model.
// Where the order of the folders is that of the classes, their names become those of the classes.
std::vector<int64_t> read_labels(const std::string& path, const Data& data, Classes& classes, Files& files = disk());

}  // namespace qdq
