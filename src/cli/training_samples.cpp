#include "cli/training_samples.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "cli/progress.h"
#include "format/sha256.h"

namespace qdq {
namespace {

Tensor gathered(const Tensor& from, const std::vector<int64_t>& places) {
  Shape sizes = from.sizes();
  sizes[0] = static_cast<int64_t>(places.size());
  const Tensor out = Tensor::empty(sizes, from.dtype());
  const size_t bytes = places.empty() ? 0 : out.nbytes() / places.size();
  for (size_t i = 0; i < places.size(); ++i)
    std::memcpy(out.raw() + i * bytes, from.raw() + static_cast<size_t>(places[i]) * bytes, bytes);
  return out;
}

}  // namespace

TrainingSamples::TrainingSamples(Data& data, const std::vector<int64_t>& labels, Host& host) {
  if (!labels.empty()) labels_ = Tensor::of<int64_t>({data.num_samples()}, labels);
  std::vector<std::vector<Tensor>> parts;
  Progress progress(host, "reading", data.num_batches(), "batches");
  data.expect(0, data.num_batches());
  for (int64_t i = 0; i < data.num_batches(); ++i) {
    const std::vector<Tensor> batch = data.batch(i);
    parts.resize(batch.size());
    for (size_t input = 0; input < batch.size(); ++input) parts[input].push_back(batch[input]);
    if (i == 0) batch_size_ = batch[0].size(0);
    progress.advance();
  }
  for (const std::vector<Tensor>& part : parts) inputs_.push_back(join_batches(part).contiguous());
  order_.resize(static_cast<size_t>(data.num_samples()));
  std::iota(order_.begin(), order_.end(), 0);
}

TrainingSamples::Batch TrainingSamples::batch(int64_t index) const {
  const auto begin = order_.begin() + index * batch_size_;
  Batch out;
  out.samples.assign(begin, begin + std::min<int64_t>(batch_size_, order_.end() - begin));
  for (const Tensor& input : inputs_) out.inputs.push_back(gathered(input, out.samples));
  if (labels_.defined()) out.target = gathered(labels_, out.samples);
  return out;
}

void TrainingSamples::shuffle(uint64_t& state) {
  for (size_t i = order_.size(); i-- > 1;) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    std::swap(order_[i], order_[static_cast<size_t>((state >> 33) % (i + 1))]);
  }
}

std::string TrainingSamples::fingerprint() const {
  std::string out;
  const auto add = [&](const Tensor& tensor) {
    out += concat(to_string(tensor.dtype()), to_string(tensor.sizes()),
                  format::sha256({reinterpret_cast<const std::byte*>(tensor.raw()), tensor.nbytes()}));
  };
  for (const Tensor& input : inputs_) add(input);
  if (labels_.defined()) add(labels_);
  return out;
}

void TrainingSamples::set_order(std::vector<int64_t> order) {
  std::vector<int64_t> sorted = order, places(order_.size());
  std::sort(sorted.begin(), sorted.end());
  std::iota(places.begin(), places.end(), 0);
  QDQ_CHECK(sorted == places, kInvalidArgument, "the order of the samples does not have each of ", size(), " once");
  order_ = std::move(order);
}

}  // namespace qdq
