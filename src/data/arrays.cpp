// Arrays in .npz and .npy files as batches, read part by part.
#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>

#include "base/parallel.h"
#include "data/samples.h"
#include "format/npz.h"
#include "format/sha256.h"

namespace qdq {

namespace {

// Only conversions that keep every value, or that go from one float to a smaller one, are done unasked.
void check_dtype(const Input& input, DType found, const std::string& path) {
  const DType wanted = input.meta->dtype;
  const bool widens = is_integral(found) && found != DType::kU64 && wanted == DType::kS64;
  QDQ_CHECK(found == wanted || widens || (is_floating(found) && is_floating(wanted)), kInvalidArgument, path,
            ": the array for input '", input.shown(), "' holds ", to_string(found), ", the program needs ",
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
  std::optional<int64_t> first;  // of a batch that a limit cuts: so many of its samples alone

  Shape sizes() const {
    Shape out = array->sizes();
    if (kind == Kind::kRows) out[0] = end - begin;
    if (kind == Kind::kOne) out.erase(out.begin());
    if (first) out[0] = *first;
    return out;
  }
  Tensor read() const {
    if (kind == Kind::kWhole) return first ? array->rows(0, *first) : array->read();
    const Tensor rows = array->rows(begin, first && kind == Kind::kRows ? begin + *first : end);
    if (kind == Kind::kRows) return rows;
    const Tensor one = rows.select(0, 0);
    return first ? one.slice(0, 0, *first) : one;
  }
};
using Parts = std::vector<Part>;  // one for each input

// One input's array, cut into batches of `step` of its `count` samples or, each of one, its batches.
struct Cut {
  Array array;
  Part::Kind kind = Part::Kind::kWhole;
  int64_t count = 1, step = 1;

  int64_t size() const { return (count + step - 1) / step; }
  Part operator[](int64_t batch) const { return {array, kind, batch * step, std::min((batch + 1) * step, count), {}}; }
};

// All batches: each with arrays of its own, or one cut for each input.
struct Batches {
  std::vector<Parts> named;
  std::vector<Cut> cuts;
  int64_t size = 0;
  std::optional<int64_t> last;     // the samples of the last batch that a limit leaves of it
  int64_t in_all = 0;              // the samples without a limit
  bool are_single_images = false;  // without an axis in front for batches: the first is that of the channels

  Parts operator[](int64_t batch) const {
    Parts out;
    if (cuts.empty()) out = named[static_cast<size_t>(batch)];
    for (const Cut& cut : cuts) out.push_back(cut[batch]);
    if (!last || batch + 1 < size) return out;
    for (Part& part : out)
      if (!part.sizes().empty()) part.first = last;
    return out;
  }
  // Those of which each may have sizes of its own: of a cut the first and the last.
  std::vector<int64_t> different() const {
    if (!cuts.empty()) return size > 1 ? std::vector<int64_t>{0, size - 1} : std::vector<int64_t>(1, 0);
    std::vector<int64_t> all(static_cast<size_t>(size));
    std::iota(all.begin(), all.end(), 0);
    return all;
  }
  int64_t samples_of(const Parts& batch) const {
    const Shape sizes = batch[0].sizes();
    return sizes.empty() || are_single_images ? 1 : sizes[0];
  }
  int64_t num_samples() const {
    if (size == 0) return 0;
    if (!cuts.empty()) return (size - 1) * samples_of((*this)[0]) + samples_of((*this)[size - 1]);
    int64_t count = 0;
    for (int64_t i = 0; i < size; ++i) count += samples_of((*this)[i]);
    return count;
  }
  // Leaves out what is behind so many samples: batches, and the rest of the one that these end in.
  void limit_to(int64_t samples, const std::vector<Input>& inputs, const std::string& path) {
    int64_t keep = 0, before = 0;
    for (int64_t seen = 0; keep < size && seen < samples; ++keep) {
      before = seen;
      seen += samples_of((*this)[keep]);
    }
    size = keep;
    const Parts end = (*this)[size - 1];
    const int64_t left = samples - before;
    if (left >= samples_of(end)) return;
    for (size_t i = 0; i < end.size(); ++i) {
      const Shape sizes = end[i].sizes();
      if (sizes.empty()) continue;
      QDQ_CHECK(sizes[0] == samples_of(end), kInvalidArgument, path, ": batch ", size - 1,
                " cannot be cut to the limit of ", samples, " samples: it has ", samples_of(end), " for input '",
                inputs[0].shown(), "' and ", sizes[0], " for input '", inputs[i].shown(), "'; wanted a limit of ",
                before, " or of ", before + samples_of(end));
      const SymShape& wanted = inputs[i].meta->sizes;
      QDQ_CHECK(wanted.empty() || wanted[0].constant().value_or(left) == left, kInvalidArgument, path, ": batch ",
                size - 1, " cannot be cut to the limit of ", samples, " samples: input '", inputs[i].shown(),
                "' has a fixed batch of ", wanted[0].constant().value_or(0), "; wanted a limit of ", before, " or of ",
                before + samples_of(end));
    }
    last = left;
  }
};

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
  ArrayData(Batches batches, std::vector<DType> dtypes, std::optional<format::Preprocess> how, std::string path,
            std::string id, std::vector<std::string> warnings)
      : batches_(std::move(batches)), dtypes_(std::move(dtypes)), how_(std::move(how)), path_(std::move(path)),
        id_(std::move(id)), warnings_(std::move(warnings)) {}

  int64_t num_batches() const override { return batches_.size; }
  int64_t num_samples() const override { return batches_.num_samples(); }
  int64_t num_samples_in_all() const override { return batches_.in_all; }
  std::vector<Tensor> batch(int64_t index) override {
    std::vector<Tensor> out;
    const Parts parts = batches_[index];
    for (size_t i = 0; i < parts.size(); ++i) {
      Tensor tensor = parts[i].read();
      if (how_) tensor = preprocessed(tensor, *how_, path_);
      if (how_ && batches_.are_single_images) tensor = tensor.select(0, 0);
      out.push_back(tensor.to(dtypes_[i]));
    }
    return out;
  }
  std::string id() const override { return id_; }
  const std::vector<std::string>& folders() const override { return none_; }
  std::vector<std::string> warnings() const override { return warnings_; }

 private:
  Batches batches_;
  std::vector<DType> dtypes_;  // of the inputs
  std::optional<format::Preprocess> how_;
  std::string path_, id_;
  std::vector<std::string> none_, warnings_;
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
std::optional<Batches> explicit_batches(const std::vector<NamedArray>& arrays, const std::vector<Input>& inputs,
                                        const std::string& path) {
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
  Batches batches;
  for (auto& [number, batch] : found) {
    for (size_t i = 0; i < inputs.size(); ++i)
      QDQ_CHECK(batch[i].array, kInvalidArgument, path, ": batch ", number, " has no array for input '",
                inputs[i].shown(), "' (b", number, "_i", i, ")");
    batches.named.push_back(std::move(batch));
  }
  batches.size = std::ssize(batches.named);
  return batches;
}

// A sentence for each array that no input reads. Labels may lie beside the samples.
std::vector<std::string> unread(const std::vector<Input>& inputs, const std::vector<NamedArray>& arrays,
                                const std::vector<Array>& read, const std::string& path) {
  std::vector<std::string> out;
  for (const NamedArray& array : arrays)
    if (array.name != "labels" && std::find(read.begin(), read.end(), array.array) == read.end())
      out.push_back(concat(path, " holds an array ", array.name, " that no input of the program reads; its inputs are ",
                           names_of(inputs)));
  return out;
}

// The array for each input: by the input's name or that of the ONNX file, by arr_<i>, or the only one for the only
// input.
std::vector<Array> arrays_for(const std::vector<Input>& inputs, const std::vector<NamedArray>& arrays,
                              const std::string& path) {
  std::vector<Array> out;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto named = [&](const std::string& name) {
      return std::find_if(arrays.begin(), arrays.end(), [&](const NamedArray& array) { return array.name == name; });
    };
    auto array = named(inputs[i].name);
    if (array == arrays.end() && !inputs[i].onnx_name.empty()) array = named(inputs[i].onnx_name);
    if (array == arrays.end()) array = named("arr_" + std::to_string(i));
    if (array == arrays.end() && inputs.size() == 1 && arrays.size() == 1) array = arrays.begin();
    if (array == arrays.end()) {
      std::string found;
      for (const auto& other : arrays) found += (found.empty() ? "" : ", ") + other.name;
      fail(ErrorCode::kInvalidArgument, path, " has no array for input '", inputs[i].shown(),
           "' of the program; it holds ", found.empty() ? "none" : found, "; name the arrays ", names_of(inputs),
           " or arr_0, arr_1, ...");
    }
    out.push_back(array->array);
  }
  return out;
}

// One input's array in batches; of `rank` axes where it holds samples.
Cut cut(const Input& input, const Array& array, int64_t rank, bool is_preprocessed, const DataOptions& options,
        const std::string& path) {
  const auto wrong = [&](const char* why) {
    fail(ErrorCode::kInvalidArgument, path, ": the array for input '", input.shown(), "' has shape ",
         to_string(array->sizes()), ", the program needs ", to_string(input.meta->sizes), why);
  };
  if (array->dim() == rank + 1) return {array, Part::Kind::kOne, array->size(0), 1};
  if (array->dim() != rank) wrong(", or that with one axis more in front for batches");
  if (rank == 0) return {array};
  if (is_preprocessed && input.is_one_image()) return {array, Part::Kind::kRows, array->size(0), 1};
  const auto fixed = input.meta->sizes[0].constant();
  const int64_t count = options.limit > 0 ? std::min(options.limit, array->size(0)) : array->size(0);
  const int64_t step = fixed ? *fixed : std::min(options.batch_size, std::max<int64_t>(count, 1));
  if (fixed && (step == 0 || count % step != 0))
    wrong("; the samples do not divide into batches of that size (--limit N leaves some out)");
  return {array, Part::Kind::kRows, count, step};
}

// What to do about a batch whose channels lie at the other end; "" if that is not what is wrong.
std::string layout_hint(const Shape& found, const SymShape& wanted) {
  constexpr size_t kImages = 4;
  if (found.size() != kImages || wanted.size() != kImages) return {};
  const auto fits = [&](std::array<size_t, kImages> order) {
    for (size_t i = 1; i < kImages; ++i)
      if (wanted[i].constant().value_or(found[order[i]]) != found[order[i]]) return false;
    return true;
  };
  if (fits({0, 3, 1, 2})) return "; its channels are last: save x.transpose(0, 3, 1, 2)";
  if (fits({0, 2, 3, 1})) return "; its channels are second: save x.transpose(0, 2, 3, 1)";
  return {};
}

// Refuses a batch whose sizes are not those of the input, before any of the work begins.
void check_sizes(const Input& input, const Shape& found, const std::string& path) {
  const SymShape& wanted = input.meta->sizes;
  bool fits = found.size() == wanted.size();
  for (size_t i = 0; fits && i < wanted.size(); ++i) fits = wanted[i].constant().value_or(found[i]) == found[i];
  QDQ_CHECK(fits, kInvalidArgument, path, ": a batch for input '", input.shown(), "' has shape ", to_string(found),
            ", the program needs ", to_string(wanted), layout_hint(found, wanted));
}

// Data::id of arrays.
std::string id_of(const format::ByteSource& source, const std::string& preprocess) {
  constexpr uint64_t kEnd = 4096;
  const uint64_t size = source.size(), count = std::min(kEnd, size);
  const format::ByteData head = source.read(0, count), tail = source.read(size - count, count);
  return format::sha256(
      format::bytes_of(concat(size, " ", format::sha256(head.bytes()), format::sha256(tail.bytes()), preprocess)));
}

// How many axes an array of samples has: as many as the input, but for images without an axis of channels.
int64_t rank_of_samples(const Input& input, const Array& array, bool is_images, const std::string& path) {
  const auto rank = static_cast<int64_t>(input.meta->sizes.size());
  if (!is_images) return rank;
  const bool has_channels = array->dim() == 4 && (array->size(3) == 3 || array->size(3) == 1);
  QDQ_CHECK(array->dtype() == DType::kU8 && (has_channels || array->dim() == 3), kInvalidArgument, path, " holds ",
            to_string(array->dtype()), to_string(array->sizes()),
            ", but --preprocess says how images become inputs; wanted uint8 pixels [N, H, W, 3], [N, H, W, 1] or "
            "[N, H, W], or no --preprocess");
  return array->dim();
}

void check_batches(const Batches& batches, const std::vector<Input>& inputs,
                   const std::optional<format::Preprocess>& how, const std::string& path) {
  for (const int64_t index : batches.different()) {
    const Parts batch = batches[index];
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (how) {
        rank_of_samples(inputs[i], batch[i].array, true, path);
        const int64_t images = batch[i].sizes()[0];
        QDQ_CHECK(!batches.are_single_images || images == 1, kInvalidArgument, path, ": batch ", index, " holds ",
                  images, " images, input '", inputs[i].shown(),
                  "' of the program takes one; give each a batch of its own");
        continue;
      }
      check_dtype(inputs[i], batch[i].array->dtype(), path);
      check_sizes(inputs[i], batch[i].sizes(), path);
    }
  }
  if (how) {
    Part first = batches[0][0];
    if (first.kind == Part::Kind::kWhole) first.kind = Part::Kind::kRows;
    first.end = first.begin + 1;
    Shape sizes = preprocessed(first.read(), *how, path).sizes();
    if (batches.are_single_images) sizes.erase(sizes.begin());
    else sizes[0] = batches[0][0].sizes()[0];
    check_sizes(inputs[0], sizes, path);
  }
}

}  // namespace

std::unique_ptr<Data> open_arrays(std::shared_ptr<const format::ByteSource> source, bool is_npz,
                                  const std::vector<Input>& inputs, const DataOptions& options, const std::string& path,
                                  Files& files) {
  std::vector<NamedArray> arrays;
  if (is_npz) {
    for (format::NamedArray& one : format::open_npz(source, path))
      arrays.push_back({one.name, std::make_shared<format::NpyReader>(std::move(one.array))});
  } else {
    arrays.push_back({"arr_0", std::make_shared<format::NpyReader>(source, 0, source->size(), path)});
  }
  std::optional<format::Preprocess> how;
  std::string preprocess;
  if (!options.preprocess.empty()) {
    QDQ_CHECK(inputs.size() == 1, kInvalidArgument, "--preprocess makes one input from images, but the program has ",
              inputs.size(), " (", names_of(inputs), ")");
    ReadPreprocess read = read_preprocess(options.preprocess, files);
    how = std::move(read.how);
    preprocess = std::move(read.text);
  }
  const bool are_single_images = !inputs.empty() && inputs[0].is_one_image();
  auto batches = explicit_batches(arrays, inputs, path);
  std::vector<std::string> warnings;
  if (!batches) {
    batches.emplace();
    const std::vector<Array> whole = arrays_for(inputs, arrays, path);
    warnings = unread(inputs, arrays, whole, path);
    for (size_t i = 0; i < inputs.size(); ++i) {
      const int64_t rank = rank_of_samples(inputs[i], whole[i], how.has_value(), path);
      batches->cuts.push_back(cut(inputs[i], whole[i], rank, how.has_value(), options, path));
      const int64_t first = batches->cuts[0].size(), count = batches->cuts[i].size();
      QDQ_CHECK(count == first, kInvalidArgument, path, ": the array for input '", inputs[i].shown(), "' makes ", count,
                " batches, that for '", inputs[0].shown(), "' makes ", first,
                "; they must hold the same number of samples");
    }
    batches->size = batches->cuts[0].size();
  }
  batches->are_single_images = are_single_images;
  batches->in_all = batches->num_samples();
  if (!batches->cuts.empty() && batches->cuts[0].kind == Part::Kind::kRows && !are_single_images)
    batches->in_all = batches->cuts[0].array->size(0);
  QDQ_CHECK(batches->size > 0, kInvalidArgument, path,
            " holds no samples: the arrays have 0 rows, and each row is one; wanted one at least");
  check_batches(*batches, inputs, how, path);
  if (options.limit > 0) batches->limit_to(options.limit, inputs, path);
  std::vector<DType> dtypes;
  for (const Input& input : inputs) dtypes.push_back(input.meta->dtype);
  return std::make_unique<ArrayData>(std::move(*batches), std::move(dtypes), std::move(how), path,
                                     id_of(*source, preprocess), std::move(warnings));
}

}  // namespace qdq
