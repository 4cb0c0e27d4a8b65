#include "cli/training_checkpoint.h"

namespace qdq {
namespace {

using format::NamedTensor;

constexpr std::string_view kPrefix = "run.";

std::vector<int64_t> codes_of(const std::string& text) { return {text.begin(), text.end()}; }

Tensor of_integers(const std::vector<int64_t>& values) {
  return Tensor::of<int64_t>({static_cast<int64_t>(values.size())}, std::span<const int64_t>(values));
}

// Takes the entry out of the list. Throws Error{kBadFile} if it is not a list of such numbers.
Tensor take(std::vector<NamedTensor>& entries, const std::string& name, DType dtype, const std::string& path) {
  const std::string full = concat(kPrefix, name);
  for (size_t i = 0; i < entries.size(); ++i) {
    if (entries[i].name != full) continue;
    const Tensor out = entries[i].tensor.contiguous();
    QDQ_CHECK(out.dtype() == dtype && out.dim() == 1, kBadFile, path, ": ", full, " is ", to_string(out.dtype()), " ",
              to_string(out.sizes()), "; a checkpoint has a list of ", to_string(dtype));
    entries.erase(entries.begin() + static_cast<int64_t>(i));
    return out;
  }
  fail(ErrorCode::kBadFile, path, " has no ", full, ", so it is not a checkpoint of qdq train");
}

template <class T> std::vector<T> values_of(const Tensor& tensor) {
  return {tensor.span<T>().begin(), tensor.span<T>().end()};
}

}  // namespace

void save_checkpoint(const std::string& path, const std::string& identity, const Trainer& trainer,
                     const TrainingPlace& place, Files& files) {
  std::vector<NamedTensor> out;
  const auto add = [&](std::string_view name, Tensor tensor) {
    out.push_back({concat(kPrefix, name), std::move(tensor)});
  };
  add("identity", of_integers(codes_of(identity)));
  add("place", of_integers({place.epoch, place.batch, static_cast<int64_t>(place.shuffle)}));
  add("order", of_integers(place.order));
  std::vector<double> losses = place.epoch_losses;
  losses.push_back(place.loss);
  add("losses", Tensor::of<double>({static_cast<int64_t>(losses.size())}, std::span<const double>(losses)));
  for (NamedTensor& entry : trainer.state_dict()) out.push_back(std::move(entry));
  files.write(path, format::write_npz(out));
}

std::optional<TrainingPlace> load_checkpoint(const std::string& path, const std::string& identity, Trainer& trainer,
                                             Files& files) {
  if (!files.is_file(path)) return std::nullopt;
  std::vector<NamedTensor> entries = format::read_npz(files.read(path), path);
  QDQ_CHECK(values_of<int64_t>(take(entries, "identity", DType::kS64, path)) == codes_of(identity), kInvalidArgument,
            path,
            " is the checkpoint of another training; model, data, labels, recipe and options must be those that it "
            "began with. Give them, or another file to begin again");
  const std::vector<int64_t> numbers = values_of<int64_t>(take(entries, "place", DType::kS64, path));
  QDQ_CHECK(numbers.size() == 3 && numbers[0] >= 0 && numbers[1] >= 0, kBadFile, path, ": ", kPrefix,
            "place is not a position in a training");
  TrainingPlace place;
  place.epoch = numbers[0];
  place.batch = numbers[1];
  place.shuffle = static_cast<uint64_t>(numbers[2]);
  place.order = values_of<int64_t>(take(entries, "order", DType::kS64, path));
  place.epoch_losses = values_of<double>(take(entries, "losses", DType::kF64, path));
  QDQ_CHECK(static_cast<int64_t>(place.epoch_losses.size()) == place.epoch + 1, kBadFile, path, ": ", kPrefix,
            "losses has ", place.epoch_losses.size(), " numbers in epoch ", place.epoch);
  place.loss = place.epoch_losses.back();
  place.epoch_losses.pop_back();
  trainer.load_state_dict(entries);
  return place;
}

}  // namespace qdq
