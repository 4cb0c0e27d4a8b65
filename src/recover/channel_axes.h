// Where the channels of a value lie, and where operators move them that change no channel but by its own factor.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "quant/observers/observer.h"

namespace qdq {

// The axes of a value along which its channels lie, the outermost first: one, or those that a view cut it into.
using Axes = std::vector<int64_t>;

// The names of a value's channels, the innermost axis fastest. Channels of one name are scaled by one factor.
struct Channels {
  Axes axes;
  std::vector<int64_t> names;
};

// A value that has some channels of another one, or all of them in another order.
struct Part {
  const Node* of;
  Axes axes;                   // of its channels
  std::vector<int64_t> shown;  // of the channels of the other one
};

// "relu_" of torch.ops.aten.relu_.default.
std::string_view name_of(const Node& node);
// The argument "dim" of an operator on values of this rank, from the front.
int64_t axis_of(const Node& node, int64_t rank);
// How many channels lie along these axes, if none of them is open.
std::optional<int64_t> count_along(const TensorMeta& value, const Axes& axes);

// If f(s x) = s f(x) for s > 0, channel by channel, as long as x and s x lie within `clamps`, which are narrowed: the
// channels of f(x).
std::optional<Channels> channels_behind(const Node& node, const Node& x, const Channels& channels, FloatRange& clamps);
// Those of the first argument of `node`, by the ones of its result.
std::optional<Channels> channels_before(const Node& node, const Channels& channels);

// Whether the node is a slice, a part of a split, a shuffle of channels, or repeats them.
bool is_part(const Node& node);
// The axes that channels have in what such a node shows a part of, if they may be others than in the part.
std::optional<Axes> axes_shown(const Node& node, const Axes& axes);
// What such a node shows of a value with its channels along these axes.
std::optional<Part> part_of(const Node& node, Axes axes);

}  // namespace qdq
