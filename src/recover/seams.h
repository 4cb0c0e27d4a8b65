// Channels that can be scaled between the layers or norms that make them and the layers that read them.
#pragma once

#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "quant/layers.h"

namespace qdq {

// The part of the range that factors take over; see equalize in recovery.h.
inline constexpr double kAlphas[] = {0.25, 0.5, 0.75, 1};

// A layer that reads the channels along an axis of its input: which channel each element of its weight reads.
struct Reader {
  const Node* node;
  const Node* input;  // as the layer reads it: an observer, mostly
  int64_t axis;       // of the channels there
  OwnConstant weight;
  int64_t groups = 1;  // of a convolution: weight [rows, channels / groups, ...]
};

// A layer, a norm, or a product with a constant for each channel, whose rows give the channels their size.
struct Producer {
  const Node* node;
  OwnConstant weight;
  std::optional<OwnConstant> bias;
  std::optional<size_t> observer;  // that sees the weight as it sees activations
};

// Channels that can be scaled: what makes them, and who reads them. Several make them where residual sums add them up.
struct Seam {
  std::vector<Producer> producers;
  int64_t channels = 0;
  std::vector<Reader> readers;
  std::vector<size_t> observers;                       // that the values pass
  FloatRange clamps{-kInf, kInf};                      // what all clamps that the values pass let through
  std::vector<std::pair<const Node*, int64_t>> cut{};  // what the clamps read, and the axis of the channels there
  std::vector<float> min{}, max{};                     // of each channel, where the readers read it
  std::vector<float> low{}, high{};                    // of each channel, where clamps read it
  double plain = 0;                                    // error as it is, and for each alpha
  std::vector<double> errors = std::vector<double>(std::size(kAlphas));
};

// In the order of the graph.
std::vector<Seam> seams_of(const Prepared& prepared);
// Whether something between producers and readers clamps the values.
bool has_clamps(const Seam& seam);
// What each channel is divided by, from `min` and `max` of the seam and the weights as they are.
std::vector<float> factors_of(const Prepared::Impl& impl, const Seam& seam, double alpha);

// The channel that an element of a reader's weight reads.
int64_t channel_at(const Reader& reader, const Tensor& weight, int64_t channels, int64_t element);
Tensor with_columns_scaled(const Reader& reader, const Tensor& weight, const std::vector<float>& by);
Tensor with_rows_divided(const Tensor& weight, const std::vector<float>& by);
// The weight rounded by the range that it has now, whatever eps the recipe has.
Tensor rounded_weight(const Tensor& weight, const Observer& observer);

// What equalization changes, as it was.
struct BeforeEqualizing {
  std::vector<std::pair<std::string, Tensor>> constants;
  std::vector<std::shared_ptr<Observer>> observers;
  std::unordered_set<const Observer*> of_constants;
};

// Divides the rows of the producers' weights and biases by the factors, multiplies the columns of the readers' weights,
// and gives their observers the ranges that they have then. `before` notes what that changes.
void apply_seam(Prepared& prepared, BeforeEqualizing& before, const Seam& seam, const std::vector<float>& by);

}  // namespace qdq
