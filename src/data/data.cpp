// The DATA of the command line: arrays or images as batches of a program's inputs.
#include "data/data.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <string_view>

#include "base/parallel.h"
#include "data/file_names.h"
#include "format/image.h"
#include "format/json.h"
#include "format/npz.h"
#include "format/sha256.h"
#include "format/tar.h"

namespace qdq {

namespace {

struct Input {
  std::string name;
  const TensorMeta* meta;
};

std::vector<Input> inputs_of(const Program& program) {
  std::vector<Input> inputs;
  for (const Node* node : program.graph->placeholders()) {
    const TensorMeta* meta = node->meta.val.tensor();
    QDQ_CHECK(meta != nullptr, kUnsupported, "input ", node->name(),
              " of the program is not a tensor, so data cannot be read for it");
    inputs.push_back({node->name(), meta});
  }
  QDQ_CHECK(!inputs.empty(), kInvalidArgument, "the program has no inputs, so there is nothing to give it");
  return inputs;
}

std::string names_of(const std::vector<Input>& inputs) {
  std::string names;
  for (const Input& input : inputs) names += (names.empty() ? "" : ", ") + input.name;
  return names;
}

// Only conversions that keep every value, or that go from one float to a smaller one, are done unasked.
void check_dtype(const Input& input, DType found, const std::string& path) {
  const DType wanted = input.meta->dtype;
  const bool widens = is_integral(found) && found != DType::kU64 && wanted == DType::kS64;
  QDQ_CHECK(found == wanted || widens || (is_floating(found) && is_floating(wanted)), kInvalidArgument, path,
            ": the array for input ", input.name, " holds ", to_string(found), ", the program wants ",
            to_string(wanted), "; convert it before it is saved",
            found == DType::kU8 && is_floating(wanted)
                ? ", or say by --preprocess FILE.json how its pixels become inputs, if it holds images"
                : "");
}

using Array = std::shared_ptr<const format::NpyReader>;

// What one input gets in one batch: a part of an array, read when its turn comes.
struct Part {
  enum class Kind { kWhole, kRows, kOne };  // the array; samples along its first axis; a batch along its first axis
  Array array;
  Kind kind = Kind::kWhole;
  int64_t begin = 0, end = 0;

  Shape sizes() const {
    Shape out = array->sizes();
    if (kind == Kind::kRows) out[0] = end - begin;
    if (kind == Kind::kOne) out.erase(out.begin());
    return out;
  }
  Tensor read() const {
    if (kind == Kind::kWhole) return array->read();
    const Tensor rows = array->rows(begin, end);
    return kind == Kind::kOne ? rows.select(0, 0) : rows;
  }
};
using Parts = std::vector<Part>;  // one for each input

// Pixels [N, H, W], [N, H, W, 1] or [N, H, W, 3] as what a model reads.
Tensor preprocessed(const Tensor& pixels, const format::Preprocess& how, const std::string& path) {
  const Tensor images = pixels.dim() == 3 ? pixels.unsqueeze(3) : pixels;
  std::vector<Tensor> out(static_cast<size_t>(images.size(0)));
  parallel_for(images.size(0), 1, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      const Tensor image = images.select(0, i);
      const Tensor colours =
          image.size(2) == 3 ? image : image.expand({image.size(0), image.size(1), 3});  // grey is three equal ones
      try {
        out[static_cast<size_t>(i)] = format::preprocess(colours.contiguous(), how).unsqueeze(0);
      } catch (const Error& error) {
        fail(error.code, path, ", sample ", i, ": ", error.message);
      }
    }
  });
  return join_batches(out);
}

// Batches of arrays in files.
class ArrayData final : public Data {
 public:
  ArrayData(std::vector<Parts> batches, std::vector<DType> dtypes, std::optional<format::Preprocess> how,
            std::string path, std::string id)
      : batches_(std::move(batches)), dtypes_(std::move(dtypes)), how_(std::move(how)), path_(std::move(path)),
        id_(std::move(id)) {}

  int64_t num_batches() const override { return static_cast<int64_t>(batches_.size()); }
  int64_t num_samples() const override {
    int64_t count = 0;
    for (const Parts& batch : batches_) {
      const Shape sizes = batch[0].sizes();
      count += sizes.empty() ? 1 : sizes[0];
    }
    return count;
  }
  std::vector<Tensor> batch(int64_t index) override {
    std::vector<Tensor> out;
    const Parts& parts = batches_[static_cast<size_t>(index)];
    for (size_t i = 0; i < parts.size(); ++i) {
      const Tensor tensor = parts[i].read();
      out.push_back((how_ ? preprocessed(tensor, *how_, path_) : tensor).to(dtypes_[i]));
    }
    return out;
  }
  std::string id() const override { return id_; }
  const std::vector<std::string>& files() const override { return none_; }
  const std::vector<std::string>& folders() const override { return none_; }

 private:
  std::vector<Parts> batches_;
  std::vector<DType> dtypes_;  // of the inputs
  std::optional<format::Preprocess> how_;
  std::string path_, id_;
  std::vector<std::string> none_;
};

// "b3_i0" -> (3, 0).
std::optional<std::pair<int64_t, int64_t>> batch_and_input(std::string_view name) {
  const size_t middle = name.find("_i");
  if (middle == std::string_view::npos || name[0] != 'b') return {};
  const auto number = [](std::string_view digits) -> std::optional<int64_t> {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc() || end != digits.data() + digits.size() || value < 0) return {};
    return value;
  };
  const auto batch = number(name.substr(1, middle - 1)), input = number(name.substr(middle + 2));
  if (!batch || !input) return {};
  return std::pair(*batch, *input);
}

struct NamedArray {
  std::string name;
  Array array;
};

// Arrays named b<batch>_i<input>; nothing if the first is named otherwise.
std::optional<std::vector<Parts>> explicit_batches(const std::vector<NamedArray>& arrays,
                                                   const std::vector<Input>& inputs, const std::string& path) {
  if (arrays.empty() || !batch_and_input(arrays[0].name)) return {};
  std::map<int64_t, Parts> found;
  for (const auto& [name, array] : arrays) {
    const auto place = batch_and_input(name);
    QDQ_CHECK(place && place->second < static_cast<int64_t>(inputs.size()), kInvalidArgument, path, ": array ", name,
              " does not belong to a batch and one of the ", inputs.size(), " inputs (", names_of(inputs),
              "); wanted names b<batch>_i<input>");
    auto& batch = found[place->first];
    batch.resize(inputs.size());
    batch[static_cast<size_t>(place->second)].array = array;
  }
  std::vector<Parts> batches;
  for (auto& [number, batch] : found) {
    for (size_t i = 0; i < inputs.size(); ++i)
      QDQ_CHECK(batch[i].array, kInvalidArgument, path, ": batch ", number, " has no array for input ", inputs[i].name,
                " (b", number, "_i", i, ")");
    batches.push_back(std::move(batch));
  }
  return batches;
}

// The array for each input: by the input's name, by arr_<i>, or the only one for the only input.
std::vector<Array> arrays_for(const std::vector<Input>& inputs, const std::vector<NamedArray>& arrays,
                              const std::string& path) {
  std::vector<Array> out;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto named = [&](const std::string& name) {
      return std::find_if(arrays.begin(), arrays.end(), [&](const NamedArray& array) { return array.name == name; });
    };
    auto array = named(inputs[i].name);
    if (array == arrays.end()) array = named("arr_" + std::to_string(i));
    if (array == arrays.end() && inputs.size() == 1 && arrays.size() == 1) array = arrays.begin();
    if (array == arrays.end()) {
      std::string found;
      for (const auto& other : arrays) found += (found.empty() ? "" : ", ") + other.name;
      fail(ErrorCode::kInvalidArgument, path, " has no array for input ", inputs[i].name, " of the program; it holds ",
           found.empty() ? "none" : found, "; name the arrays ", names_of(inputs), " or arr_0, arr_1, ...");
    }
    out.push_back(array->array);
  }
  return out;
}

// One input's array as one part a batch; of `rank` axes where it holds samples.
Parts cut(const Input& input, const Array& array, int64_t rank, const DataOptions& options, const std::string& path) {
  const auto wrong = [&](const char* why) {
    fail(ErrorCode::kInvalidArgument, path, ": the array for input ", input.name, " has shape ",
         to_string(array->sizes()), ", the program wants ", to_string(input.meta->sizes), why);
  };
  Parts batches;
  if (array->dim() == rank + 1) {
    for (int64_t i = 0; i < array->size(0); ++i) batches.push_back({array, Part::Kind::kOne, i, i + 1});
    return batches;
  }
  if (array->dim() != rank) wrong(", or that with one axis more in front for batches");
  if (rank == 0) return {{array}};
  const auto fixed = input.meta->sizes[0].constant();
  const int64_t count = options.limit > 0 ? std::min(options.limit, array->size(0)) : array->size(0);
  const int64_t step = fixed ? *fixed : options.batch_size;
  if (fixed && (step == 0 || count % step != 0))
    wrong("; the samples do not divide into batches of that size (--limit N leaves some out)");
  for (int64_t begin = 0; begin < count; begin += step)
    batches.push_back({array, Part::Kind::kRows, begin, std::min(begin + step, count)});
  return batches;
}

// Refuses a batch whose sizes are not those of the input, before any of the work begins.
void check_sizes(const Input& input, const Shape& found, const std::string& path) {
  const SymShape& wanted = input.meta->sizes;
  bool fits = found.size() == wanted.size();
  for (size_t i = 0; fits && i < wanted.size(); ++i) fits = wanted[i].constant().value_or(found[i]) == found[i];
  QDQ_CHECK(fits, kInvalidArgument, path, ": a batch for input ", input.name, " has shape ", to_string(found),
            ", the program wants ", to_string(wanted));
}

// How images become inputs, and the JSON that says so.
struct ReadPreprocess {
  format::Preprocess how;
  std::string text;
};

ReadPreprocess read_preprocess(const std::string& path, Files& disk) {
  const format::Json json = format::parse_json(format::text_of(disk.read(path)), path);
  return {format::parse_preprocess(json, path), format::print_json(json)};
}

std::string sha256_of(std::string_view text) { return format::sha256(format::bytes_of(text)); }

// Data::id of arrays.
std::string id_of(const format::ByteSource& source, const std::string& preprocess) {
  constexpr uint64_t kEnd = 4096;
  const uint64_t size = source.size(), count = std::min(kEnd, size);
  const format::ByteData head = source.read(0, count), tail = source.read(size - count, count);
  return sha256_of(concat(size, " ", format::sha256(head.bytes()), format::sha256(tail.bytes()), preprocess));
}

// How many axes an array of samples has: as many as the input, but for images without an axis of channels.
int64_t rank_of_samples(const Input& input, const Array& array, bool is_images, const std::string& path) {
  const auto rank = static_cast<int64_t>(input.meta->sizes.size());
  if (!is_images) return rank;
  const bool has_channels = array->dim() == 4 && (array->size(3) == 3 || array->size(3) == 1);
  QDQ_CHECK(array->dtype() == DType::kU8 && (has_channels || array->dim() == 3), kInvalidArgument, path, " holds ",
            to_string(array->dtype()), to_string(array->sizes()),
            ", and --preprocess says how images become inputs; wanted uint8 pixels [N, H, W, 3], [N, H, W, 1] or "
            "[N, H, W], or no --preprocess");
  return array->dim();
}

std::unique_ptr<Data> open_arrays(const std::vector<NamedArray>& arrays, const std::vector<Input>& inputs,
                                  const DataOptions& options, const std::string& path, const format::ByteSource& source,
                                  Files& disk) {
  std::optional<format::Preprocess> how;
  std::string preprocess;
  if (!options.preprocess.empty()) {
    QDQ_CHECK(inputs.size() == 1, kInvalidArgument, "--preprocess makes one input of images, the program has ",
              inputs.size(), " (", names_of(inputs), ")");
    ReadPreprocess read = read_preprocess(options.preprocess, disk);
    how = std::move(read.how);
    preprocess = std::move(read.text);
  }
  auto batches = explicit_batches(arrays, inputs, path);
  if (!batches) {
    batches.emplace();
    const std::vector<Array> whole = arrays_for(inputs, arrays, path);
    for (size_t i = 0; i < inputs.size(); ++i) {
      const int64_t rank = rank_of_samples(inputs[i], whole[i], how.has_value(), path);
      const Parts parts = cut(inputs[i], whole[i], rank, options, path);
      if (i == 0) batches->resize(parts.size());
      QDQ_CHECK(parts.size() == batches->size(), kInvalidArgument, path, ": the array for input ", inputs[i].name,
                " makes ", parts.size(), " batches, that for ", inputs[0].name, " makes ", batches->size(),
                "; they must hold the same number of samples");
      for (size_t b = 0; b < parts.size(); ++b) (*batches)[b].push_back(parts[b]);
    }
  }
  QDQ_CHECK(!batches->empty(), kInvalidArgument, path, " holds no samples");
  for (const Parts& batch : *batches)
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (how) {
        rank_of_samples(inputs[i], batch[i].array, true, path);
        continue;
      }
      check_dtype(inputs[i], batch[i].array->dtype(), path);
      check_sizes(inputs[i], batch[i].sizes(), path);
    }
  if (how) {
    Part first = (*batches)[0][0];
    if (first.kind == Part::Kind::kWhole) first.kind = Part::Kind::kRows;
    first.end = first.begin + 1;
    Shape sizes = preprocessed(first.read(), *how, path).sizes();
    sizes[0] = (*batches)[0][0].sizes()[0];
    check_sizes(inputs[0], sizes, path);
  }
  if (options.limit > 0) {
    int64_t seen = 0;
    size_t keep = 0;
    while (keep < batches->size() && seen < options.limit) {
      const Shape first = (*batches)[keep++][0].sizes();
      seen += first.empty() ? 1 : first[0];
    }
    batches->resize(keep);
  }
  std::vector<DType> dtypes;
  for (const Input& input : inputs) dtypes.push_back(input.meta->dtype);
  return std::make_unique<ArrayData>(std::move(*batches), std::move(dtypes), std::move(how), path,
                                     id_of(source, preprocess));
}

// The places of as many of the sorted files as the limit says, evenly over the folders (data.h says how).
std::vector<size_t> spread(const std::vector<std::string>& files, size_t limit) {
  std::map<std::string_view, std::vector<size_t>> folders;
  for (size_t i = 0; i < files.size(); ++i) folders[front_of(files[i])].push_back(i);
  std::vector<size_t> taken;
  for (size_t turn = 0; taken.size() < limit; ++turn)
    for (const auto& [folder, places] : folders)
      if (turn < places.size() && taken.size() < limit) taken.push_back(places[turn]);
  std::sort(taken.begin(), taken.end());
  return taken;
}

// Where images come from: files by their names, relative to the source's path.
class Images {
 public:
  Images(std::string path, Files& disk) : path_(std::move(path)), disk_(disk) {}
  virtual ~Images() = default;
  // In the order of their bytes.
  virtual std::vector<std::string> names() const = 0;
  virtual format::Bytes read(const std::string& name) const = 0;
  std::string path_of(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 protected:
  std::string path_;
  Files& disk_;
};

// The images of a folder and of the folders in it (one a class, often).
class FolderImages final : public Images {
 public:
  using Images::Images;
  std::vector<std::string> names() const override {
    std::vector<std::string> files;
    for (const std::string& name : disk_.list(path_)) {
      if (is_image(name)) {
        files.push_back(name);
      } else if (disk_.is_folder(path_ + "/" + name)) {
        for (const std::string& inner : disk_.list(path_ + "/" + name))
          if (is_image(inner)) files.push_back(name + "/" + inner);
      }
    }
    std::sort(files.begin(), files.end());
    return files;
  }
  format::Bytes read(const std::string& name) const override { return disk_.read(path_of(name)); }
};

// The images of a tar archive.
class TarImages final : public Images {
 public:
  TarImages(std::string path, Files& disk) : Images(std::move(path), disk) {
    for (format::TarEntry& entry : format::list_tar(format::FileSource(disk_, path_), path_))
      members_[entry.name] = {entry.offset, entry.size};
  }
  std::vector<std::string> names() const override {
    std::vector<std::string> files;
    for (const auto& [name, place] : members_)
      if (is_image(name)) files.push_back(name);
    return files;
  }
  format::Bytes read(const std::string& name) const override {
    const auto found = members_.find(name);
    QDQ_CHECK(found != members_.end(), kInvalidArgument, path_, " has no member ", name);
    return disk_.read_part(path_, found->second.first, found->second.second);
  }

 private:
  std::map<std::string, std::pair<uint64_t, uint64_t>> members_;  // offset and size
};

// Batches of images, read and decoded when their turn comes.
class ImageData final : public Data {
 public:
  // `files` are sorted; `limit` of them are used.
  ImageData(std::unique_ptr<Images> images, const std::vector<std::string>& files, size_t limit, ReadPreprocess how,
            const Input& input, int64_t batch_size)
      : images_(std::move(images)), places_(spread(files, limit)), how_(std::move(how.how)),
        preprocess_(std::move(how.text)), sizes_(input.meta->sizes), name_(input.name), batch_size_(batch_size) {
    for (const std::string& file : files)
      if (const std::string_view front = front_of(file); !front.empty()) folders_.emplace_back(front);
    std::sort(folders_.begin(), folders_.end());  // "a-b/1.png" stands before "a/1.png", "a" before "a-b"
    folders_.erase(std::unique(folders_.begin(), folders_.end()), folders_.end());
    for (const size_t place : places_) files_.push_back(files[place]);
  }

  int64_t num_samples() const override { return static_cast<int64_t>(files_.size()); }
  int64_t num_batches() const override { return (num_samples() + batch_size_ - 1) / batch_size_; }
  int64_t place_of(int64_t sample) const override { return static_cast<int64_t>(places_[static_cast<size_t>(sample)]); }
  const std::vector<std::string>& files() const override { return files_; }
  const std::vector<std::string>& folders() const override { return folders_; }
  format::Bytes read(const std::string& name) const override { return images_->read(name); }
  std::string id() const override {
    std::string text = preprocess_;
    for (const std::string& file : files_) text += "\n" + file;
    return sha256_of(text);
  }

  std::vector<Tensor> batch(int64_t index) override {
    const int64_t begin = index * batch_size_, end = std::min(begin + batch_size_, num_samples());
    const auto path_of = [&](int64_t i) { return images_->path_of(files_[static_cast<size_t>(i)]); };
    // The files are read by one thread alone. Photographs of a phone take longer to decode than many a model to run.
    std::vector<std::vector<std::byte>> bytes;
    for (int64_t i = begin; i < end; ++i) bytes.push_back(images_->read(files_[static_cast<size_t>(i)]));
    std::vector<Tensor> images(bytes.size());
    parallel_for(end - begin, 1, [&](int64_t first, int64_t last) {
      for (int64_t k = first; k < last; ++k) {
        const auto at = static_cast<size_t>(k);
        const std::string path = path_of(begin + k);
        const Tensor image = format::decode_image(bytes[at], path);
        try {
          images[at] = format::preprocess(image, how_);
        } catch (const Error& error) {
          fail(error.code, path, ": ", error.message);
        }
        bytes[at] = {};
      }
    });
    Tensor out;
    for (int64_t i = begin; i < end; ++i) {
      const std::string path = path_of(i);
      const Tensor& image = images[static_cast<size_t>(i - begin)];
      Shape sizes = image.sizes();
      sizes.insert(sizes.begin(), end - begin);
      if (!out.defined()) {
        check_sizes(sizes, path);
        out = Tensor::empty(sizes, image.dtype());
      }
      QDQ_CHECK(out.sizes() == sizes, kInvalidArgument, path, " gives an input of shape ", to_string(image.sizes()),
                " where the images before it gave ", to_string(Shape(out.sizes().begin() + 1, out.sizes().end())),
                "; put a resize and a crop into the preprocess file");
      out.select(0, i - begin).copy_from(image);
    }
    return {out};
  }

 private:
  void check_sizes(const Shape& sizes, const std::string& path) const {
    bool fits = sizes.size() == sizes_.size();
    for (size_t axis = 1; fits && axis < sizes.size(); ++axis) {
      const auto wanted = sizes_[axis].constant();
      fits = !wanted || *wanted == sizes[axis];
    }
    QDQ_CHECK(fits, kInvalidArgument, path, " gives an input of shape ",
              to_string(Shape(sizes.begin() + 1, sizes.end())), ", input ", name_, " of the program is ",
              to_string(sizes_), "; see resize, crop and layout in the preprocess file");
  }

  std::unique_ptr<Images> images_;
  std::vector<size_t> places_;
  std::vector<std::string> files_, folders_;
  format::Preprocess how_;
  std::string preprocess_;
  SymShape sizes_;
  std::string name_;
  int64_t batch_size_;
};

std::unique_ptr<Data> open_images(std::unique_ptr<Images> images, const std::vector<Input>& inputs,
                                  const DataOptions& options, Files& disk) {
  const std::string folder = images->path();
  QDQ_CHECK(inputs.size() == 1, kInvalidArgument, "a folder of images feeds one input, the program has ", inputs.size(),
            " (", names_of(inputs), "); use an .npz");
  QDQ_CHECK(!options.preprocess.empty(), kInvalidArgument, folder,
            " holds images, which needs --preprocess FILE.json (resize, crop, scale, mean, std, "
            "channel_order, layout)");
  const std::vector<std::string> files = images->names();
  QDQ_CHECK(!files.empty(), kInvalidArgument, folder, " holds no .jpg, .jpeg, .png or .bmp files");
  const auto found = static_cast<int64_t>(files.size());
  const int64_t count = options.limit > 0 ? std::min(options.limit, found) : found;
  int64_t batch_size = options.batch_size;
  if (const auto fixed = inputs[0].meta->sizes.empty() ? std::nullopt : inputs[0].meta->sizes[0].constant()) {
    batch_size = *fixed;
    QDQ_CHECK(batch_size > 0 && count % batch_size == 0, kInvalidArgument, "the ", count, " images of ", folder,
              " do not divide into batches of ", batch_size, ", which the program fixes (--limit N leaves some out)");
  }
  return std::make_unique<ImageData>(std::move(images), files, static_cast<size_t>(count),
                                     read_preprocess(options.preprocess, disk), inputs[0], batch_size);
}

}  // namespace

std::unique_ptr<Data> open_data(const std::string& path, const Program& program, const DataOptions& options,
                                Files& disk) {
  QDQ_CHECK(options.batch_size >= 1, kInvalidArgument, "the batch size is ", options.batch_size,
            ", it must be at least 1");
  QDQ_CHECK(options.limit >= 0, kInvalidArgument, "the limit is ", options.limit,
            " samples, it must be at least 1 (0: all)");
  const std::vector<Input> inputs = inputs_of(program);
  for (const Input& input : inputs) {
    const auto fixed = input.meta->sizes.empty() ? std::nullopt : input.meta->sizes[0].constant();
    QDQ_CHECK(!options.is_batch_size_wanted || !fixed || *fixed == options.batch_size, kInvalidArgument, "input ",
              input.name, " has a fixed batch of ", fixed.value_or(0), ", so that it cannot have ", options.batch_size,
              " samples a batch");
  }
  if (disk.is_folder(path)) return open_images(std::make_unique<FolderImages>(path, disk), inputs, options, disk);
  if (ends_with(path, ".tar")) return open_images(std::make_unique<TarImages>(path, disk), inputs, options, disk);
  const bool is_input = path == "-";
  // A file that is not there is told first, whatever its ending.
  std::shared_ptr<const format::ByteSource> source;
  if (!is_input) source = std::make_shared<format::FileSource>(disk, path);
  bool is_npz = ends_with(path, ".npz");
  QDQ_CHECK(is_npz || is_input || ends_with(path, ".npy"), kInvalidArgument, path,
            " is not data that qdq reads; wanted an .npz, an .npy, a folder of images or a .tar of images, or - for "
            "arrays on the standard input");
  if (is_input) {
    source = std::make_shared<format::MemorySource>(format::ByteData(disk.read(path)));
    is_npz = source->size() > 1 && source->read(0, 2).text() == "PK";
  }
  std::vector<NamedArray> arrays;
  if (is_npz) {
    for (format::NamedArray& one : format::open_npz(source, path))
      arrays.push_back({one.name, std::make_shared<format::NpyReader>(std::move(one.array))});
  } else {
    arrays.push_back({"arr_0", std::make_shared<format::NpyReader>(source, 0, source->size(), path)});
  }
  return open_arrays(arrays, inputs, options, path, *source, disk);
}

Tensor join_batches(const std::vector<Tensor>& parts) {
  if (parts.size() == 1) return parts[0];
  Shape sizes = parts[0].sizes();
  QDQ_CHECK(!sizes.empty(), kInvalidArgument, "a tensor without axes cannot be joined over ", parts.size(),
            " batches; give all samples in one batch (--batch-size)");
  sizes[0] = 0;
  for (const Tensor& part : parts) sizes[0] += part.size(0);
  const Tensor out = Tensor::empty(sizes, parts[0].dtype());
  int64_t at = 0;
  for (const Tensor& part : parts) {
    out.slice(0, at, at + part.size(0)).copy_from(part);
    at += part.size(0);
  }
  return out;
}

}  // namespace qdq
