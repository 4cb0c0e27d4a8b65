// Merging what the shards of a calibration saw.
#include <algorithm>
#include <cmath>

#include "state/calibration_state.h"

namespace qdq {

namespace {

// As observers compare: what is no number stays, whichever side it is on.
float least(float a, float b) { return std::isnan(a) || a < b ? a : b; }
float largest(float a, float b) { return std::isnan(a) || a > b ? a : b; }

void merge(ObserverStatistics& into, ObserverStatistics& from, const std::string& name) {
  if (from.min.empty()) return;
  if (into.min.empty()) {
    into = std::move(from);
    return;
  }
  QDQ_CHECK(into.min.size() == from.min.size() && into.histogram.has_value() == from.histogram.has_value(),
            kInvalidArgument, name, " has ", from.min.size(), " ranges for observer ", from.id, ", the parts before ",
            into.min.size());
  for (size_t i = 0; i < into.min.size(); ++i) {
    into.min[i] = least(from.min[i], into.min[i]);
    into.max[i] = largest(from.max[i], into.max[i]);
  }
  if (!into.histogram) return;
  QDQ_CHECK(from.histogram->total() <= RangeHistogram::kMost - into.histogram->total(), kInvalidArgument, "with ", name,
            " observer ", from.id, " counts more than 2^50 values, which a state cannot hold");
  into.histogram->merge(*from.histogram);
}

void merge(LayerStatistics& into, LayerStatistics& from, const std::string& name) {
  if (from.places == 0) return;
  if (into.places == 0) {
    into = std::move(from);
    return;
  }
  QDQ_CHECK(into.least.size() == from.least.size() && from.places <= RangeHistogram::kMost - into.places,
            kInvalidArgument, name, " has ", from.least.size(), " channels and ", from.places, " places of the layer ",
            from.layer, ", the parts before ", into.least.size(), " and ", into.places);
  for (size_t i = 0; i < into.least.size(); ++i) {
    into.least[i] = least(from.least[i], into.least[i]);
    into.largest[i] = largest(from.largest[i], into.largest[i]);
  }
  into.places += from.places;
  try {
    into.sums.merge(from.sums);
    into.squares.merge(from.squares);
  } catch (const Error& error) {
    fail(ErrorCode::kInvalidArgument, name, ", the layer ", from.layer, ": ", error.message);
  }
}

// What two states must have in common.
void check_belongs(const CalibrationState& state, const CalibrationState& first, const std::string& name,
                   const std::string& first_name) {
  const auto check = [&](const char* what, const auto& found, const auto& wanted, const char* remedy) {
    QDQ_CHECK(found == wanted, kInvalidArgument, name, " does not belong to ", first_name, ": ", what, " ", found,
              ", there ", wanted, remedy);
  };
  check("it was made by qdq", state.version, first.version, "; calibrate all parts with one version");
  check("the SHA-256 of its program is", state.program, first.program, "; it was made of another model");
  check("the SHA-256 of its recipe is", state.recipe, first.recipe, "; it was made by another recipe");
  check("the data's name is", state.data.id, first.data.id,
        "; it was made of other data or with another preprocessing");
  check("the number of the data's samples is", state.data.samples, first.data.samples, "");
  check("the number of the data's batches is", state.data.batches, first.data.batches,
        "; give all parts the same --batch-size");
  check("the number of shards is", state.shards.of, first.shards.of, "; divide the data into as many everywhere");
  const bool same =
      std::equal(state.observers.begin(), state.observers.end(), first.observers.begin(), first.observers.end(),
                 [](const auto& a, const auto& b) { return a.id == b.id && a.class_name == b.class_name; });
  QDQ_CHECK(same, kInvalidArgument, name, " does not belong to ", first_name, ": it covers other observers");
  QDQ_CHECK(state.layers.empty() == first.layers.empty(), kInvalidArgument, name, " does not belong to ", first_name,
            ": only one of them holds what layers read; calibrate all parts with --recover, or none");
  const bool same_layers = std::equal(state.layers.begin(), state.layers.end(), first.layers.begin(),
                                      first.layers.end(), [](const auto& a, const auto& b) {
                                        return a.layer == b.layer && a.groups == b.groups && a.depth == b.depth &&
                                               a.has_products == b.has_products;
                                      });
  QDQ_CHECK(same_layers, kInvalidArgument, name, " does not belong to ", first_name, ": it covers other layers");
}

}  // namespace

void StateMerger::add(CalibrationState state, const std::string& name) {
  names_.push_back(name);
  if (merged_) check_belongs(state, *merged_, name, names_[0]);
  else owners_.assign(static_cast<size_t>(state.shards.of), 0);
  for (const auto& [first, last] : state.shards.ranges)
    for (int64_t shard = first; shard <= last; ++shard) {
      uint32_t& owner = owners_[static_cast<size_t>(shard - 1)];
      QDQ_CHECK(owner == 0, kInvalidArgument, "shard ", shard, " of ", state.shards.of, " is there twice: in ",
                names_[owner - 1], " and in ", name, "; give each part once");
      owner = static_cast<uint32_t>(names_.size());
    }
  if (!merged_) {
    merged_ = std::move(state);
    return;
  }
  for (size_t i = 0; i < state.observers.size(); ++i) merge(merged_->observers[i], state.observers[i], name);
  for (size_t i = 0; i < state.layers.size(); ++i) merge(merged_->layers[i], state.layers[i], name);
}

CalibrationState StateMerger::finish(bool partial) {
  QDQ_CHECK(merged_, kInvalidArgument, "there are no parts to merge; wanted what qdq calibrate --shard wrote");
  const auto of = static_cast<int64_t>(owners_.size());
  Shards there{of, {}}, missing{of, {}};
  for (int64_t shard = 1; shard <= of; ++shard) {
    auto& ranges = (owners_[static_cast<size_t>(shard - 1)] != 0 ? there : missing).ranges;
    if (!ranges.empty() && ranges.back().second == shard - 1) ranges.back().second = shard;
    else ranges.emplace_back(shard, shard);
  }
  if (!partial && !missing.ranges.empty()) {
    constexpr size_t kMost = 8;
    const bool more = missing.ranges.size() > kMost;
    if (more) missing.ranges.resize(kMost);
    fail(ErrorCode::kInvalidArgument, "these shards are missing: ", to_string(missing), more ? " and more" : "",
         "; give their parts too, or say --partial to merge what is there");
  }
  CalibrationState out = std::move(*merged_);
  out.shards = missing.ranges.empty() ? Shards() : there;
  *this = {};
  return out;
}

CalibrationState merge_states(std::span<const CalibrationState> states, bool partial) {
  StateMerger merger;
  for (size_t i = 0; i < states.size(); ++i) merger.add(states[i], concat("state ", i));
  return merger.finish(partial);
}

}  // namespace qdq
