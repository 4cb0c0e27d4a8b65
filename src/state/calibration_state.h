// The statistics of a calibration, as a value that merges with those of other parts of the data, exactly and in any
// order.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "quant/layer_statistics.h"
#include "quant/observers/range_histogram.h"
#include "quant/pt2e.h"

namespace qdq {

// Which of the `of` shards of the data, counted from 1: ranges [first, last], in order, with gaps between them.
struct Shards {
  int64_t of = 1;
  std::vector<std::pair<int64_t, int64_t>> ranges = {{1, 1}};

  bool all() const { return ranges.size() == 1 && ranges[0].first == 1 && ranges[0].second == of; }
  bool operator==(const Shards&) const = default;
};
// "3/16", "1-4,7/16", and back. Throws Error{kInvalidArgument}, naming `what`, for text that names no shards, or more
// than 1,000,000.
std::string to_string(const Shards& shards);
Shards parse_shards(std::string_view text, const std::string& what);

// The divided data: what identifies it ("" if unknown), and its size.
struct CalibrationData {
  std::string id;
  int64_t samples = 0, batches = 0;
  bool operator==(const CalibrationData&) const = default;
};

// The batches [begin, end) of shard `k` of `of`, counted from 1: begin = (k - 1) * batches / of and
// end = k * batches / of, rounded down. More shards than batches leave some with none. Throws Error{kInvalidArgument}
// for a shard that is none.
std::pair<int64_t, int64_t> batches_of_shard(int64_t batches, int64_t k, int64_t of);

// The statistics of one observer. `min` and `max` have one element, or one per channel; none before data.
struct ObserverStatistics {
  int64_t id = 0;  // its place in Prepared::observers()
  std::string class_name;
  std::vector<float> min, max;
  std::optional<RangeHistogram> histogram;  // of a MergeableHistogramObserver
};

// The statistics of a prepared program's observers on some shards, without those of weights, which follow from the
// program.
struct CalibrationState {
  std::string version;  // of the qdq that calibrated
  std::string program;  // SHA-256 of the prepared program: its graph and its tensors
  std::string recipe;   // SHA-256 of what the recipe came to: each observer's class, settings and place
  CalibrationData data;
  Shards shards;
  std::vector<ObserverStatistics> observers;
  std::vector<LayerStatistics> layers;  // none unless observe_layers was asked for
};

// The state of a program that was calibrated on these shards of the data. Throws Error{kInvalidArgument}, naming the
// first observer, and the class to use in its place, if what it keeps depends on the order of the data; and for fake
// quantizers and classes of one's own, of which nothing is known.
CalibrationState state_of(const Prepared& prepared, const CalibrationData& data = {}, const Shards& shards = {});
// Gives a program that was prepared from the same model by the same recipe what the observers saw, so that converting
// needs no data; `what` names the state in errors. Throws Error{kInvalidArgument} if it was made of another program, by
// another recipe or by another version, or is one of some shards only.
void load_state(Prepared& prepared, const CalibrationState& state, const std::string& what);

// Throws what state_of throws for observers and for inputs that are equalized, before the work begins.
void check_mergeable(const Prepared& prepared);

// Merges states one by one and holds only one. The merge is exact: it adds counts, and compares minima and maxima. So
// the order and the grouping change nothing, and the state of all shards equals that of one process. It also adds the
// statistics of layers' inputs exactly (ExactSums) if all parts have the same batches.
class StateMerger {
 public:
  // `name` says in errors where the state is from: "part3.json". Throws Error{kInvalidArgument}, naming both, if it
  // does not belong to those before it, or a shard of it is there already.
  void add(CalibrationState state, const std::string& name);
  // The merged state. Unless `partial`, throws Error{kInvalidArgument} naming the shards that are missing.
  CalibrationState finish(bool partial = false);

 private:
  std::optional<CalibrationState> merged_;
  std::vector<std::string> names_;
  std::vector<uint32_t> owners_;  // of each shard: the place of its name in names_, counted from 1; 0: none yet
};
// All at once; states are named by their place: "state 0".
CalibrationState merge_states(std::span<const CalibrationState> states, bool partial = false);

}  // namespace qdq
