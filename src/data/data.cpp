// The DATA of the command line: arrays or images as batches of a program's inputs, and the labels that belong to them.
#include "data/data.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "base/parallel.h"
#include "format/image.h"
#include "format/json.h"
#include "format/npz.h"
#include "tensor/strings.h"

namespace qdq {

namespace {

bool ends_with(std::string_view text, std::string_view end) {
  if (text.size() < end.size()) return false;
  return std::equal(
      end.begin(), end.end(), text.end() - static_cast<std::ptrdiff_t>(end.size()),
      [](char wanted, char found) { return wanted == (found >= 'A' && found <= 'Z' ? found + ('a' - 'A') : found); });
}

bool is_image(std::string_view name) {
  static constexpr std::string_view kEnds[] = {".jpg", ".jpeg", ".png", ".bmp"};
  return std::any_of(std::begin(kEnds), std::end(kEnds), [&](std::string_view end) { return ends_with(name, end); });
}

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

// The array in the input's dtype. Only conversions that keep every value, or that go from one float to a smaller one,
// are done unasked.
Tensor with_dtype_of(const Input& input, const Tensor& array, const std::string& path) {
  const DType wanted = input.meta->dtype;
  if (array.dtype() == wanted) return array;
  const bool widens = is_integral(array.dtype()) && array.dtype() != DType::kU64 && wanted == DType::kS64;
  QDQ_CHECK(widens || (is_floating(array.dtype()) && is_floating(wanted)), kInvalidArgument, path,
            ": the array for input ", input.name, " holds ", to_string(array.dtype()), ", the program wants ",
            to_string(wanted), "; convert it before it is saved");
  return array.to(wanted);
}

// Batches of arrays that are already in memory.
class ArrayData final : public Data {
 public:
  explicit ArrayData(std::vector<std::vector<Tensor>> batches) : batches_(std::move(batches)) {}

  int64_t num_batches() const override { return static_cast<int64_t>(batches_.size()); }
  int64_t num_samples() const override {
    int64_t count = 0;
    for (const auto& batch : batches_) count += batch[0].dim() > 0 ? batch[0].size(0) : 1;
    return count;
  }
  std::vector<Tensor> batch(int64_t index) override { return batches_[static_cast<size_t>(index)]; }
  const std::vector<std::string>& files() const override { return none_; }
  const std::vector<std::string>& folders() const override { return none_; }

 private:
  std::vector<std::vector<Tensor>> batches_;
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

// Arrays named b<batch>_i<input>; nothing if the first is named otherwise.
std::optional<std::vector<std::vector<Tensor>>> explicit_batches(const std::vector<format::NamedTensor>& arrays,
                                                                 const std::vector<Input>& inputs,
                                                                 const std::string& path) {
  if (arrays.empty() || !batch_and_input(arrays[0].name)) return {};
  std::map<int64_t, std::vector<Tensor>> found;
  for (const auto& [name, array] : arrays) {
    const auto place = batch_and_input(name);
    QDQ_CHECK(place && place->second < static_cast<int64_t>(inputs.size()), kInvalidArgument, path, ": array ", name,
              " does not belong to a batch and one of the ", inputs.size(), " inputs (", names_of(inputs),
              "); wanted names b<batch>_i<input>");
    auto& batch = found[place->first];
    batch.resize(inputs.size());
    const auto i = static_cast<size_t>(place->second);
    batch[i] = with_dtype_of(inputs[i], array, path);
  }
  std::vector<std::vector<Tensor>> batches;
  for (auto& [number, batch] : found) {
    for (size_t i = 0; i < inputs.size(); ++i)
      QDQ_CHECK(batch[i].defined(), kInvalidArgument, path, ": batch ", number, " has no array for input ",
                inputs[i].name, " (b", number, "_i", i, ")");
    batches.push_back(std::move(batch));
  }
  return batches;
}

// The array for each input: by the input's name, by arr_<i>, or the only one for the only input.
std::vector<Tensor> arrays_for(const std::vector<Input>& inputs, const std::vector<format::NamedTensor>& arrays,
                               const std::string& path) {
  std::vector<Tensor> out;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto named = [&](const std::string& name) {
      return std::find_if(arrays.begin(), arrays.end(),
                          [&](const format::NamedTensor& array) { return array.name == name; });
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
    out.push_back(with_dtype_of(inputs[i], array->tensor, path));
  }
  return out;
}

// One input's array as one tensor a batch.
std::vector<Tensor> cut(const Input& input, const Tensor& array, const DataOptions& options, const std::string& path) {
  const auto rank = static_cast<int64_t>(input.meta->sizes.size());
  const auto wrong = [&](const char* why) {
    fail(ErrorCode::kInvalidArgument, path, ": the array for input ", input.name, " has shape ",
         to_string(array.sizes()), ", the program wants ", to_string(input.meta->sizes), why);
  };
  std::vector<Tensor> batches;
  if (array.dim() == rank + 1) {
    for (int64_t i = 0; i < array.size(0); ++i) batches.push_back(array.select(0, i));
    return batches;
  }
  if (array.dim() != rank) wrong(", or that with one axis more in front for batches");
  if (rank == 0) return {array};
  const auto fixed = input.meta->sizes[0].constant();
  const int64_t count = options.limit > 0 ? std::min(options.limit, array.size(0)) : array.size(0);
  const int64_t step = fixed ? *fixed : options.batch_size;
  if (fixed && (step == 0 || count % step != 0))
    wrong("; the samples do not divide into batches of that size (--limit N leaves some out)");
  for (int64_t begin = 0; begin < count; begin += step)
    batches.push_back(array.slice(0, begin, std::min(begin + step, count)));
  return batches;
}

// Refuses a batch whose sizes are not those of the input, before any of the work begins.
void check_sizes(const Input& input, const Tensor& batch, const std::string& path) {
  const SymShape& wanted = input.meta->sizes;
  bool fits = static_cast<size_t>(batch.dim()) == wanted.size();
  for (size_t i = 0; fits && i < wanted.size(); ++i)
    fits = wanted[i].constant().value_or(batch.sizes()[i]) == batch.sizes()[i];
  QDQ_CHECK(fits, kInvalidArgument, path, ": a batch for input ", input.name, " has shape ", to_string(batch.sizes()),
            ", the program wants ", to_string(wanted));
}

std::unique_ptr<Data> open_arrays(const std::vector<format::NamedTensor>& arrays, const std::vector<Input>& inputs,
                                  const DataOptions& options, const std::string& path) {
  auto batches = explicit_batches(arrays, inputs, path);
  if (!batches) {
    batches.emplace();
    const std::vector<Tensor> whole = arrays_for(inputs, arrays, path);
    for (size_t i = 0; i < inputs.size(); ++i) {
      const std::vector<Tensor> parts = cut(inputs[i], whole[i], options, path);
      if (i == 0) batches->resize(parts.size());
      QDQ_CHECK(parts.size() == batches->size(), kInvalidArgument, path, ": the array for input ", inputs[i].name,
                " makes ", parts.size(), " batches, that for ", inputs[0].name, " makes ", batches->size(),
                "; they must hold the same number of samples");
      for (size_t b = 0; b < parts.size(); ++b) (*batches)[b].push_back(parts[b]);
    }
  }
  QDQ_CHECK(!batches->empty(), kInvalidArgument, path, " holds no samples");
  for (const std::vector<Tensor>& batch : *batches)
    for (size_t i = 0; i < inputs.size(); ++i) check_sizes(inputs[i], batch[i], path);
  if (options.limit > 0) {
    int64_t seen = 0;
    size_t keep = 0;
    while (keep < batches->size() && seen < options.limit) {
      const Tensor& first = (*batches)[keep++][0];
      seen += first.dim() > 0 ? first.size(0) : 1;
    }
    batches->resize(keep);
  }
  return std::make_unique<ArrayData>(std::move(*batches));
}

// The first part of a path of several, else "".
std::string_view front_of(std::string_view file) {
  const size_t slash = file.find('/');
  return slash == std::string_view::npos ? std::string_view() : file.substr(0, slash);
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

// Batches of images, read and decoded when their turn comes.
class ImageData final : public Data {
 public:
  // `files` are sorted; `limit` of them are used.
  ImageData(std::string folder, const std::vector<std::string>& files, size_t limit, format::Preprocess how,
            const Input& input, int64_t batch_size, Files& disk)
      : folder_(std::move(folder)), places_(spread(files, limit)), how_(std::move(how)), sizes_(input.meta->sizes),
        name_(input.name), batch_size_(batch_size), disk_(disk) {
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

  std::vector<Tensor> batch(int64_t index) override {
    const int64_t begin = index * batch_size_, end = std::min(begin + batch_size_, num_samples());
    const auto path_of = [&](int64_t i) { return folder_ + "/" + files_[static_cast<size_t>(i)]; };
    // The files are read by one thread alone. Photographs of a phone take longer to decode than many a model to run.
    std::vector<std::vector<std::byte>> bytes;
    for (int64_t i = begin; i < end; ++i) bytes.push_back(disk_.read(path_of(i)));
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

  std::string folder_;
  std::vector<size_t> places_;
  std::vector<std::string> files_, folders_;
  format::Preprocess how_;
  SymShape sizes_;
  std::string name_;
  int64_t batch_size_;
  Files& disk_;
};

// The images of a folder and of the folders in it (one a class, often), in order of their names.
std::vector<std::string> list_images(const std::string& folder, Files& disk) {
  std::vector<std::string> files;
  for (const std::string& name : disk.list(folder)) {
    if (is_image(name)) {
      files.push_back(name);
    } else if (disk.is_folder(folder + "/" + name)) {
      for (const std::string& inner : disk.list(folder + "/" + name))
        if (is_image(inner)) files.push_back(name + "/" + inner);
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::unique_ptr<Data> open_images(const std::string& folder, const std::vector<Input>& inputs,
                                  const DataOptions& options, Files& disk) {
  QDQ_CHECK(inputs.size() == 1, kInvalidArgument, "a folder of images feeds one input, the program has ", inputs.size(),
            " (", names_of(inputs), "); use an .npz");
  QDQ_CHECK(!options.preprocess.empty(), kInvalidArgument, folder,
            " is a folder of images, which needs --preprocess FILE.json (resize, crop, scale, mean, std, "
            "channel_order, layout)");
  const std::vector<std::string> files = list_images(folder, disk);
  QDQ_CHECK(!files.empty(), kInvalidArgument, folder, " holds no .jpg, .jpeg, .png or .bmp files");
  const auto found = static_cast<int64_t>(files.size());
  const int64_t count = options.limit > 0 ? std::min(options.limit, found) : found;
  int64_t batch_size = options.batch_size;
  if (const auto fixed = inputs[0].meta->sizes.empty() ? std::nullopt : inputs[0].meta->sizes[0].constant()) {
    batch_size = *fixed;
    QDQ_CHECK(batch_size > 0 && count % batch_size == 0, kInvalidArgument, "the ", count, " images of ", folder,
              " do not divide into batches of ", batch_size, ", which the program fixes (--limit N leaves some out)");
  }
  const auto text = disk.read(options.preprocess);
  auto how =
      format::parse_preprocess(format::parse_json(format::text_of(text), options.preprocess), options.preprocess);
  return std::make_unique<ImageData>(folder, files, static_cast<size_t>(count), std::move(how), inputs[0], batch_size,
                                     disk);
}

std::vector<int64_t> integers_of(const Tensor& labels, const std::string& path) {
  QDQ_CHECK(is_integral(labels.dtype()), kInvalidArgument, path, " holds ", to_string(labels.dtype()),
            ", labels must be integers");
  const Tensor wide = labels.to(DType::kS64).contiguous();
  return {wide.span<int64_t>().begin(), wide.span<int64_t>().end()};
}

struct CsvLine {
  std::string file;
  int64_t label;
};

std::vector<CsvLine> read_csv(std::string_view text, const std::string& path) {
  std::vector<CsvLine> lines;
  for (size_t number = 1; !text.empty(); ++number) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (line.empty()) continue;
    const size_t comma = line.rfind(',');
    std::string_view digits = comma == std::string_view::npos ? line : line.substr(comma + 1);
    while (!digits.empty() && digits[0] == ' ') digits.remove_prefix(1);
    int64_t label = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), label);
    const bool is_number = error == std::errc() && end == digits.data() + digits.size();
    if (!is_number && number == 1) continue;  // a heading
    QDQ_CHECK(is_number && comma != std::string_view::npos, kBadFile, path, ", line ", number, ": found \"",
              line.substr(0, 60), "\", wanted file,label with the label as a number");
    lines.push_back({std::string(line.substr(0, comma)), label});
  }
  return lines;
}

std::vector<int64_t> labels_of_files(const std::vector<CsvLine>& lines, const std::vector<std::string>& files,
                                     const std::string& path) {
  std::unordered_map<std::string_view, int64_t> by_file;
  for (const CsvLine& line : lines) by_file.emplace(line.file, line.label);
  std::vector<int64_t> labels;
  for (const std::string& file : files) {
    auto found = by_file.find(file);
    if (found == by_file.end()) found = by_file.find(std::string_view(file).substr(file.rfind('/') + 1));
    QDQ_CHECK(found != by_file.end(), kInvalidArgument, path, " has no label for ", file, "; wanted a line ", file,
              ",CLASS with the number of its class");
    labels.push_back(found->second);
  }
  return labels;
}

// The number that a folder is named by.
std::optional<int64_t> number_of(std::string_view name) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), value);
  if (error != std::errc() || end != name.data() + name.size() || value < 0) return {};
  return value;
}

// The class that each folder stands for.
std::unordered_map<std::string_view, int64_t> classes_of_folders(const std::vector<std::string>& folders,
                                                                 Classes& classes) {
  std::unordered_map<std::string_view, int64_t> out;
  if (!classes.names.empty()) {
    for (const std::string& folder : folders) {
      const auto at = std::find(classes.names.begin(), classes.names.end(), folder);
      QDQ_CHECK(at != classes.names.end(), kInvalidArgument, "the folder ", folder, " is named like none of the ",
                classes.names.size(), " classes (", classes.names[0],
                ", ...); wanted labels in a .csv, or folders that are named like classes");
      out[folder] = at - classes.names.begin();
    }
  } else if (std::all_of(folders.begin(), folders.end(), [](const std::string& folder) { return number_of(folder); })) {
    for (const std::string& folder : folders) out[folder] = *number_of(folder);
  } else {
    QDQ_CHECK(!classes.count || *classes.count == static_cast<int64_t>(folders.size()), kInvalidArgument,
              "the images lie in ", folders.size(), " folders (", folders[0], ", ...) and the model tells ",
              *classes.count,
              " classes apart, so their order does not say which is which; give the names of all classes (classes.txt, "
              "one on a line)");
    for (size_t i = 0; i < folders.size(); ++i) out[folders[i]] = static_cast<int64_t>(i);
    classes.names = folders;
  }
  return out;
}

std::vector<int64_t> labels_of_folders(const Data& data, Classes& classes) {
  QDQ_CHECK(!data.files().empty(), kInvalidArgument,
            "labels from folders need a folder of images; arrays take an .npy, .npz or .csv of labels");
  std::vector<int64_t> labels;
  std::unordered_map<std::string_view, int64_t> by_folder;
  if (!data.folders().empty()) by_folder = classes_of_folders(data.folders(), classes);
  for (const std::string& file : data.files()) {
    const auto found = by_folder.find(front_of(file));
    QDQ_CHECK(found != by_folder.end(), kInvalidArgument, file,
              " lies in no folder that would be its class; wanted CLASS/", file);
    labels.push_back(found->second);
  }
  return labels;
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
  if (disk.is_folder(path)) return open_images(path, inputs, options, disk);
  const auto bytes = disk.read(path);
  if (ends_with(path, ".npz")) return open_arrays(format::read_npz(bytes, path), inputs, options, path);
  QDQ_CHECK(ends_with(path, ".npy"), kInvalidArgument, path,
            " is not data that qdq reads; wanted an .npz, an .npy or a folder of images");
  return open_arrays({{"arr_0", format::read_npy(bytes, path)}}, inputs, options, path);
}

Classes read_classes(const std::string& path, std::optional<int64_t> count, Files& disk) {
  Classes classes{count, {}};
  if (path.empty()) return classes;
  const auto bytes = disk.read(path);
  std::string_view text = format::text_of(bytes);
  QDQ_CHECK(is_utf8(text), kBadFile, path, " is not text in UTF-8; wanted the name of a class on each line");
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (!line.empty()) classes.names.emplace_back(line);
  }
  QDQ_CHECK(!count || *count == static_cast<int64_t>(classes.names.size()), kInvalidArgument, path, " names ",
            classes.names.size(), " classes, the model tells ", *count,
            " apart; wanted one name on each line, in the order of the outputs");
  return classes;
}

std::vector<int64_t> read_labels(const std::string& path, const Data& data, Classes& classes, Files& disk) {
  std::vector<int64_t> labels;
  const bool by_file = path == "folders" || (ends_with(path, ".csv") && !data.files().empty());
  if (path == "folders") {
    labels = labels_of_folders(data, classes);
  } else if (const auto bytes = disk.read(path); ends_with(path, ".csv")) {
    const auto lines = read_csv(format::text_of(bytes), path);
    if (by_file) labels = labels_of_files(lines, data.files(), path);
    else
      for (const CsvLine& line : lines) labels.push_back(line.label);
  } else if (ends_with(path, ".npz")) {
    const auto arrays = format::read_npz(bytes, path);
    const auto named =
        std::find_if(arrays.begin(), arrays.end(), [](const auto& array) { return array.name == "labels"; });
    QDQ_CHECK(named != arrays.end() || arrays.size() == 1, kInvalidArgument, path, " holds ", arrays.size(),
              " arrays; wanted one, or one named labels");
    labels = integers_of((named != arrays.end() ? *named : arrays[0]).tensor, path);
  } else {
    QDQ_CHECK(ends_with(path, ".npy"), kInvalidArgument, path,
              " is not a file of labels; wanted .npy, .npz or .csv, or the word folders");
    labels = integers_of(format::read_npy(bytes, path), path);
  }
  // Lists have also the labels of the samples that the limit leaves out.
  if (!by_file) {
    const int64_t samples = data.num_samples(), count = samples == 0 ? 0 : data.place_of(samples - 1) + 1;
    QDQ_CHECK(static_cast<int64_t>(labels.size()) >= count, kInvalidArgument, path, " holds ", labels.size(),
              " labels for ", count, " samples");
    for (int64_t i = 0; i < samples; ++i)
      labels[static_cast<size_t>(i)] = labels[static_cast<size_t>(data.place_of(i))];
    labels.resize(static_cast<size_t>(samples));
  }
  for (size_t i = 0; i < labels.size(); ++i)
    QDQ_CHECK(labels[i] >= 0 && (!classes.count || labels[i] < *classes.count), kInvalidArgument, "the label of ",
              i < data.files().size() ? data.files()[i] : concat("sample ", i), " is ", labels[i],
              classes.count ? concat("; the model has classes 0 to ", *classes.count - 1)
                            : std::string("; classes are counted from 0"));
  return labels;
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
