// Channels that can be scaled between the layers or norms that make them and the layers that read them.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "quant/layers.h"
#include "recover/channel_changes.h"

namespace qdq {

// The part of the range that factors take over; see equalize in recovery.h.
inline constexpr double kAlphas[] = {0.25, 0.5, 0.75, 1};

// A layer that reads the channels along an axis of its input: which channel each element of its weight reads.
struct Reader {
  const Node* node;
  const Node* input;              // as the layer reads it: an observer, mostly
  int64_t axis;                   // of the channels there
  std::vector<int64_t> channels;  // of the seam, which the input's are
  OwnConstant weight;
  int64_t groups = 1;          // of a convolution: weight [rows, channels / groups, ...]
  bool is_transposed = false;  // a convolution with a weight [channels, rows / groups, ...]
};

// A layer, a norm, or a product with a constant for each channel, whose rows give the channels their size.
struct Producer {
  const Node* node;
  std::vector<int64_t> channels;  // of the seam, which each row makes
  OwnConstant weight;
  std::optional<OwnConstant> bias;
  std::optional<size_t> observer;  // that sees the weight as it sees activations
  int64_t axis = 0;                // of the channels in the result
  int64_t groups = 1;              // of a transposed convolution, as in Reader
  bool is_transposed = false;
};

// An observer that values of the seam pass.
struct Look {
  size_t observer;
  std::vector<int64_t> channels;  // of the seam, which the value's are
};

// A value that a clamp reads.
struct Cut {
  const Node* value;
  int64_t axis;  // of the channels there
  std::vector<int64_t> channels;
};

// Channels that can be scaled: what makes them, and who reads them. Several make one channel where residual sums add
// them up; values that concatenations join have channels of their own.
struct Seam {
  std::vector<Producer> producers;
  std::vector<Reader> readers;
  std::vector<Look> looks;
  std::vector<bool> fixed;  // for each channel: something needs it as it is
  // Of each channel the one that a product sums up with it, which gets the inverse factor: queries and keys; -1: none.
  std::vector<int64_t> twins{};
  FloatRange clamps{-kInf, kInf};  // what all clamps that the values pass let through
  std::vector<Cut> cuts{};
  std::vector<float> min{}, max{};   // of each channel, where the readers read it; with a twin, where it is made
  std::vector<float> low{}, high{};  // of each channel, where clamps read it
  double plain = 0;                  // error as it is, and for each alpha
  std::vector<double> errors = std::vector<double>(std::size(kAlphas));
};

// The layer as a reader of the channels that `input` has along an axis, its channels still without numbers.
std::optional<Reader> reader_of(const Prepared::Impl& impl, const Node& node, const Node& input, int64_t axis);
// What makes the channels of a value, without their numbers, and their axis there.
std::optional<std::pair<Producer, int64_t>> producer_of(const Prepared::Impl& impl, const Node& node);

// In the order of the graph. Values that get scales while the program runs stay as they are if activations are what
// matters; if weights are (`of_weights`), a seam may pass these, and no observer at all.
std::vector<Seam> seams_of(const Prepared& prepared, bool of_weights = false);
// Whether products that sum over channels lose less than now if both of their operands have channels of one size.
bool gains_by_twins(const Seam& seam);
// Whether something between producers and readers clamps the values.
bool has_clamps(const Seam& seam);
// What each channel is divided by, from `min` and `max` of the seam and the weights as they are. Channels with a twin
// come to one size with it, whatever alpha is, if that gains.
std::vector<float> factors_of(const Prepared::Impl& impl, const Seam& seam, double alpha);
// Those of these channels.
std::vector<float> factors_at(const std::vector<int64_t>& channels, const std::vector<float>& factors);
// What the observer sees of the seam once its channels are divided, 0 included.
FloatRange range_seen(const Seam& seam, size_t observer, const std::vector<float>& factors);

// Calls visit(row, begin, end, channel) for the pieces of a reader's weight in order, where the elements from `begin`
// to `end` read the same channel of its input.
template <class Visit> void for_each_column(const Reader& reader, const Tensor& weight, const Visit& visit) {
  const int64_t outer = weight.size(0), columns = weight.size(1), last = std::ssize(reader.channels) - 1;
  const int64_t inner = weight.numel() / std::max<int64_t>(1, outer * columns);
  for (int64_t i = 0, at = 0; i < outer; ++i) {
    const int64_t first = i / std::max<int64_t>(1, outer / reader.groups) * columns;
    for (int64_t column = 0; column < columns; ++column, at += inner) {
      const int64_t j = first + column;
      visit(reader.is_transposed ? j : i, at, at + inner,
            static_cast<size_t>(std::min(reader.is_transposed ? i : j, last)));
    }
  }
}
// The weights of a reader and a producer with these factors.
Tensor with_columns_scaled(const Reader& reader, const Tensor& weight, const std::vector<float>& factors);
Tensor with_rows_divided(const Producer& producer, const Tensor& weight, const std::vector<float>& factors);
// Whether the layer reads its channels alike with an offset less, if its bias takes up what the offset weighs: it is a
// constant or none, and no zeros are read beside the values.
bool takes_offset(const Node& layer);
// Adds what the offsets of its channels weigh to the reader's bias, which it gets if it has none.
OwnBias take_back(Prepared::Impl& impl, const Reader& reader, const std::vector<float>& offsets);
// The weight rounded by the range that it has now, whatever eps the recipe has.
Tensor rounded_weight(const Tensor& weight, const Observer& observer);

// Divides the rows of the producers' weights and biases by the factors, multiplies the columns of the readers' weights,
// and gives their observers the ranges that they have then. `before` notes what that changes.
void apply_seam(Prepared& prepared, BeforeChannels& before, const Seam& seam, const std::vector<float>& factors);

}  // namespace qdq
