// Images in files as batches, decoded ahead of who asks for them.
#include <algorithm>
#include <deque>
#include <exception>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "base/background.h"
#include "base/parallel.h"
#include "base/undo.h"
#include "data/file_names.h"
#include "data/image_files.h"
#include "data/samples.h"
#include "format/sha256.h"

namespace qdq {

namespace {

// Neighbours among the names: the samples from `sample` on are those from `place` on.
struct Run {
  int64_t place, count, sample = 0;
};

using Folders = std::map<std::string, std::vector<Run>, std::less<>>;

// The places of each folder's files.
Folders folders_of(const SortedNames& names) {
  Folders folders;
  Run* run = nullptr;
  std::string last;
  int64_t place = 0;
  names.for_each([&](std::string_view name) {
    const std::string_view front = front_of(name);
    if (run == nullptr || front != last) {
      last = front;
      run = &folders[last].emplace_back(Run{place, 0});
    }
    ++run->count;
    ++place;
  });
  return folders;
}

int64_t count_of(const std::vector<Run>& runs) {
  int64_t count = 0;
  for (const Run& run : runs) count += run.count;
  return count;
}

// As many files as the limit says, evenly over the folders (data.h says how).
std::vector<Run> spread(const Folders& folders, int64_t limit) {
  const auto after = [&](int64_t turns) {
    int64_t taken = 0;
    for (const auto& [folder, runs] : folders) taken += std::min(turns, count_of(runs));
    return taken;
  };
  // The turns in which every folder that has files left gives one, and how many give one more.
  int64_t turns = 0;
  for (int64_t most = limit; turns < most;) {
    const int64_t middle = turns + (most - turns + 1) / 2;
    if (after(middle) <= limit) turns = middle;
    else most = middle - 1;
  }
  int64_t more = limit - after(turns);
  std::vector<Run> taken;
  for (const auto& [folder, runs] : folders) {
    int64_t left = turns;
    if (more > 0 && count_of(runs) > turns) {
      ++left;
      --more;
    }
    for (const Run& run : runs) {
      const int64_t count = std::min(left, run.count);
      if (count > 0) taken.push_back({run.place, count});
      left -= count;
    }
  }
  std::sort(taken.begin(), taken.end(), [](const Run& a, const Run& b) { return a.place < b.place; });
  int64_t sample = 0;
  for (Run& run : taken) {
    run.sample = sample;
    sample += run.count;
  }
  return taken;
}

// The end of a sentence that says that there are no images: what is there in place of them, and what helps.
std::string what_else_is_in(const ImageFiles& files) {
  if (const auto& foreign = files.foreign_images(); foreign.count > 0)
    return concat("; it has ", foreign.first, ", an image of a kind that is not read: convert it to PNG or JPEG");
  if (const auto& other = files.other_files(); other.count > 0)
    return concat("; it has ", other.first, ": data other than images goes into an .npy or .npz");
  return {};
}

// An image that is decoded by whoever comes first, a worker or who needs it.
struct Picture {
  Picture(std::string path, std::function<Tensor()> make)
      : path(std::move(path)), task([this, make = std::move(make)] { image = make(); }) {}
  std::string path;
  Tensor image;
  Background task;
};

class ImageData final : public Data {
 public:
  // `count` of the images are used.
  ImageData(std::unique_ptr<ImageFiles> files, int64_t count, ReadPreprocess how, const Input& input,
            int64_t batch_size)
      : files_(std::move(files)), count_(count), how_(std::move(how.how)), preprocess_(std::move(how.text)),
        sizes_(input.meta->sizes), name_(input.shown()), is_one_image_(input.is_one_image()), batch_size_(batch_size) {
    const Folders folders = folders_of(files_->names());
    runs_ = spread(folders, count);
    for (const auto& [folder, runs] : folders)
      if (!folder.empty() && !ends_with(folder, ".tar")) folders_.push_back(folder);
  }

  int64_t num_samples() const override { return count_; }
  int64_t num_samples_in_all() const override { return files_->names().size(); }
  int64_t num_batches() const override { return (count_ + batch_size_ - 1) / batch_size_; }
  int64_t place_of(int64_t sample) const override {
    const auto behind = std::upper_bound(runs_.begin(), runs_.end(), sample,
                                         [](int64_t wanted, const Run& run) { return wanted < run.sample; });
    const Run& run = *std::prev(behind);
    return run.place + sample - run.sample;
  }
  std::string file_of(int64_t sample) const override { return files_->names()[place_of(sample)]; }
  const std::vector<std::string>& folders() const override { return folders_; }
  format::Bytes read(const std::string& name) const override { return files_->read(name); }
  std::vector<std::string> warnings() const override {
    const auto& [count, first] = files_->foreign_images();
    if (count == 0) return {};
    return {concat(files_->path(), " holds ", count, count == 1 ? " image" : " images", " of a kind that is not read (",
                   first, count == 1 ? "" : ", ...", "); convert to PNG or JPEG what should count")};
  }

  std::string id() const override {
    format::Sha256 hash;
    hash.add(format::bytes_of(preprocess_));
    int64_t place = 0;
    auto run = runs_.begin();
    files_->names().for_each([&](std::string_view name) {
      if (run != runs_.end() && place == run->place + run->count) ++run;
      if (run != runs_.end() && place++ >= run->place) hash.add(format::bytes_of(concat("\n", name)));
    });
    return hash.finish();
  }

  void expect(int64_t begin, int64_t end) override {
    expected_begin_ = begin * batch_size_;
    expected_end_ = std::min(end * batch_size_, count_);
  }

  std::vector<Tensor> batch(int64_t index) override {
    const int64_t begin = index * batch_size_, end = std::min(begin + batch_size_, count_);
    if (begin != next_) ahead_.clear();
    next_ = begin;
    const bool is_expected = expected_begin_ <= begin && begin < expected_end_;
    Tensor out;
    Undo forget([&] { ahead_.clear(); });
    for (int64_t i = begin; i < end; ++i) {
      reach(is_expected ? std::min(expected_end_, std::max(end, i + 1 + most_ahead())) : end);
      const std::unique_ptr<Picture> picture = std::move(ahead_.front());
      ahead_.pop_front();
      ++next_;
      picture->task.finish();
      add(picture->image, i - begin, end - begin, picture->path, out);
    }
    forget.keep();
    return {out};
  }

 private:
  // How many images may be decoded before their batch is asked for.
  int64_t most_ahead() const {
    constexpr int64_t kMostBytes = int64_t{256} << 20;
    if (num_threads() == 1 || image_bytes_ == 0) return 0;
    return std::min(std::max(2 * batch_size_, int64_t{2} * num_threads()), kMostBytes / image_bytes_);
  }

  // Offers the images up to `end` to the workers.
  void reach(int64_t end) {
    for (auto i = next_ + std::ssize(ahead_); i < end; ++i) {
      std::string name = file_of(i), path = files_->path_of(name);
      if (num_threads() == 1 || files_->serves_threads()) {
        auto make = [this, path, name = std::move(name)] { return decoded(files_->read(name), path); };
        ahead_.push_back(std::make_unique<Picture>(std::move(path), std::move(make)));
        continue;
      }
      // What cannot be read is told when its turn comes.
      auto bytes = std::make_shared<format::Bytes>();
      std::exception_ptr error;
      try {
        *bytes = files_->read(name);
      } catch (...) {
        error = std::current_exception();
      }
      auto make = [this, path, bytes, error] {
        if (error) std::rethrow_exception(error);
        return decoded(std::exchange(*bytes, {}), path);
      };
      ahead_.push_back(std::make_unique<Picture>(std::move(path), std::move(make)));
    }
  }

  Tensor decoded(const format::Bytes& bytes, const std::string& path) const {
    const Tensor image = format::decode_image(bytes, path);
    try {
      return format::preprocess(image, how_);
    } catch (const Error& error) {
      fail(error.code, path, ": ", error.message);
    }
  }

  // Puts an image into its place of the batch.
  void add(const Tensor& image, int64_t place, int64_t count, const std::string& path, Tensor& out) {
    Shape sizes = image.sizes();
    if (!is_one_image_) sizes.insert(sizes.begin(), count);
    if (!out.defined()) {
      check_sizes_of(sizes, path);
      out = Tensor::empty(sizes, image.dtype());
      image_bytes_ = std::max<int64_t>(1, static_cast<int64_t>(image.nbytes()));
    }
    QDQ_CHECK(out.sizes() == sizes, kInvalidArgument, path, " gives an input of shape ", to_string(image.sizes()),
              " where the images before it gave ", to_string(Shape(out.sizes().begin() + 1, out.sizes().end())),
              "; put a resize and a crop into the preprocess file");
    (is_one_image_ ? out : out.select(0, place)).copy_from(image);
  }

  void check_sizes_of(const Shape& sizes, const std::string& path) const {
    bool fits = sizes.size() == sizes_.size();
    for (size_t axis = is_one_image_ ? 0 : 1; fits && axis < sizes.size(); ++axis) {
      const auto wanted = sizes_[axis].constant();
      fits = !wanted || *wanted == sizes[axis];
    }
    QDQ_CHECK(fits, kInvalidArgument, path, " gives an input of shape ", to_string(Shape(sizes.end() - 3, sizes.end())),
              ", input ", name_, " of the program is ", to_string(sizes_),
              "; see resize, crop and layout in the preprocess file");
  }

  std::unique_ptr<ImageFiles> files_;
  int64_t count_;
  std::vector<Run> runs_;  // of the samples
  std::vector<std::string> folders_;
  format::Preprocess how_;
  std::string preprocess_;
  SymShape sizes_;
  std::string name_;
  bool is_one_image_;
  int64_t batch_size_;
  int64_t expected_begin_ = 0, expected_end_ = 0;  // samples
  int64_t image_bytes_ = 0;                        // of an input, once one is known
  int64_t next_ = 0;                               // the sample of the first of `ahead_`
  std::deque<std::unique_ptr<Picture>> ahead_;     // destroyed first: workers look at what is above
};

}  // namespace

std::unique_ptr<Data> open_images(const std::string& path, const std::vector<Input>& inputs, const DataOptions& options,
                                  Files& disk) {
  auto files = std::make_unique<ImageFiles>(path, disk);
  QDQ_CHECK(inputs.size() == 1, kInvalidArgument, "a folder of images feeds one input, but the program has ",
            inputs.size(), " (", names_of(inputs), "); use an .npz");
  QDQ_CHECK(!options.preprocess.empty(), kInvalidArgument, path,
            " holds images, which needs --preprocess FILE.json that says how they become inputs; most networks of "
            "torchvision take {\"resize\": 256, \"crop\": 224, \"mean\": [0.485, 0.456, 0.406], \"std\": [0.229, "
            "0.224, 0.225]}");
  const int64_t found = files->names().size();
  QDQ_CHECK(found > 0, kInvalidArgument, path, " holds no .jpg, .jpeg, .png or .bmp files", what_else_is_in(*files));
  const int64_t count = options.limit > 0 ? std::min(options.limit, found) : found;
  int64_t batch_size = std::min(options.batch_size, count);
  if (const auto fixed = inputs[0].fixed_batch()) {
    batch_size = *fixed;
    QDQ_CHECK(batch_size > 0 && count % batch_size == 0, kInvalidArgument, "the ", count, " images of ", path,
              " do not divide into batches of ", batch_size, ", which the program fixes (--limit N leaves some out)");
  }
  return std::make_unique<ImageData>(std::move(files), count, read_preprocess(options.preprocess, disk), inputs[0],
                                     batch_size);
}

}  // namespace qdq
