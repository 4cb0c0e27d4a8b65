#include "state/state_file.h"

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <span>
#include <utility>

#include "format/bytes.h"
#include "format/json.h"
#include "quant/observers/observer_mergeable_histogram.h"

namespace qdq {

namespace {

using format::Fields;
using format::Json;
using format::json_object;

constexpr std::string_view kFormat = "qdq calibration state 1";
constexpr int64_t kMostBatches = int64_t{1} << 40;

void append_leb128(format::Bytes& out, uint64_t value) {
  for (; value >= 128; value >>= 7) out.push_back(static_cast<std::byte>(value | 128));
  out.push_back(static_cast<std::byte>(value));
}

std::string packed(const std::vector<int64_t>& counts) {
  format::Bytes out;
  for (size_t i = 0; i < counts.size(); ++i) {
    append_leb128(out, static_cast<uint64_t>(counts[i]));
    if (counts[i] != 0) continue;
    size_t end = i + 1;
    while (end < counts.size() && counts[end] == 0) ++end;
    append_leb128(out, end - i - 1);
    i = end - 1;
  }
  return format::base64(out);
}

std::vector<int64_t> unpacked(std::string_view text, const std::string& what) {
  const format::Bytes bytes = format::base64_bytes(text, what);
  std::vector<int64_t> out(static_cast<size_t>(RangeHistogram::kBins));
  size_t at = 0, bin = 0;
  const auto number = [&] {
    uint64_t value = 0;
    for (int shift = 0; at < bytes.size() && shift < 56; shift += 7) {
      const auto byte = std::to_integer<uint64_t>(bytes[at++]);
      value |= (byte & 127) << shift;
      if (byte < 128) return value;
    }
    fail(ErrorCode::kBadFile, what, " ends within a number, or has one above 2^56");
  };
  while (at < bytes.size()) {
    const uint64_t count = number();
    const uint64_t places = count == 0 ? number() + 1 : 1;
    QDQ_CHECK(places <= out.size() - bin, kBadFile, what, " has more than ", out.size(), " counts");
    if (count != 0) out[bin] = static_cast<int64_t>(count);
    bin += static_cast<size_t>(places);
  }
  QDQ_CHECK(bin == out.size(), kBadFile, what, " has ", bin, " counts, wanted ", out.size());
  return out;
}

std::string packed(const ExactSums& sums) {
  format::Bytes out;
  for (const std::vector<int64_t>* digits : {&sums.high(), &sums.low()})
    for (const int64_t digit : *digits)
      append_leb128(out, (static_cast<uint64_t>(digit) << 1) ^ static_cast<uint64_t>(digit >> 63));
  return format::base64(out);
}

Json sums_json(const ExactSums& sums) { return json_object({{"place", sums.place()}, {"digits", packed(sums)}}); }

ExactSums sums_of(const Fields& fields, size_t count, const std::string& what) {
  const format::Bytes bytes = format::base64_bytes(fields.required<std::string>("digits"), what);
  QDQ_CHECK(count <= bytes.size() / 2, kBadFile, what, " has ", bytes.size(), " bytes, too few for ", 2 * count,
            " digits");
  size_t at = 0;
  const auto number = [&] {
    uint64_t value = 0;
    for (int shift = 0; at < bytes.size() && shift < 64; shift += 7) {
      const auto byte = std::to_integer<uint64_t>(bytes[at++]);
      value |= (byte & 127) << shift;
      if (byte < 128) return static_cast<int64_t>(value >> 1) ^ -static_cast<int64_t>(value & 1);
    }
    fail(ErrorCode::kBadFile, what, " ends within a number, or has one above 2^64");
  };
  std::vector<int64_t> high(count), low(count);
  for (std::vector<int64_t>* digits : {&high, &low})
    for (int64_t& digit : *digits) digit = number();
  QDQ_CHECK(at == bytes.size(), kBadFile, what, " has more than ", 2 * count, " digits");
  const auto place = fields.required<int64_t>("place");
  fields.reject_unknown();
  QDQ_CHECK(place >= ExactSums::kNothing && place < 1000, kBadFile, what, " has digits at the place ", place);
  try {
    return ExactSums(static_cast<int>(place), std::move(high), std::move(low));
  } catch (const Error& error) {
    fail(ErrorCode::kBadFile, what, ": ", error.message);
  }
}

std::string packed_floats(const std::vector<float>& values) { return format::base64(std::as_bytes(std::span(values))); }

std::vector<float> floats_in(const std::string& text, const std::string& what) {
  const format::Bytes bytes = format::base64_bytes(text, what);
  QDQ_CHECK(bytes.size() % sizeof(float) == 0, kBadFile, what, " has ", bytes.size(),
            " bytes, which are not whole floats");
  std::vector<float> out(bytes.size() / sizeof(float));
  if (!out.empty()) std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

Json layer_json(const LayerStatistics& layer) {
  return json_object({{"layer", layer.layer},
                      {"groups", layer.groups},
                      {"depth", layer.depth},
                      {"products", layer.has_products},
                      {"places", layer.places},
                      {"least", packed_floats(layer.least)},
                      {"largest", packed_floats(layer.largest)},
                      {"sums", sums_json(layer.sums)},
                      {"squares", sums_json(layer.squares)}});
}

LayerStatistics parse_layer(const Json& json, const std::string& what) {
  const Fields fields(json, what);
  LayerStatistics out;
  out.layer = fields.required<std::string>("layer");
  out.groups = fields.required<int64_t>("groups");
  out.depth = fields.required<int64_t>("depth");
  out.has_products = fields.required<bool>("products");
  out.places = fields.required<int64_t>("places");
  constexpr int64_t kMost = int64_t{1} << 18;  // so that all products of these are numbers of 64 bits
  QDQ_CHECK(out.groups >= 1 && out.groups <= kMost && out.depth >= 1 && out.depth <= kMost && out.places >= 0 &&
                out.places <= RangeHistogram::kMost,
            kBadFile, what, " has ", out.places, " places of ", out.groups, " groups of ", out.depth);
  out.least = floats_in(fields.required<std::string>("least"), "least of " + what);
  out.largest = floats_in(fields.required<std::string>("largest"), "largest of " + what);
  QDQ_CHECK(out.least.size() == out.largest.size() && out.least.empty() == (out.places == 0), kBadFile, what, " has ",
            out.least.size(), " least and ", out.largest.size(), " largest values of ", out.places, " places");
  for (size_t i = 0; i < out.least.size(); ++i)
    QDQ_CHECK(out.least[i] <= out.largest[i] && std::isfinite(out.least[i]) && std::isfinite(out.largest[i]), kBadFile,
              what, " has a channel that reads ", out.least[i], " to ", out.largest[i]);
  const auto sums = [&](const char* name, size_t count) {
    return sums_of(fields.object(name), count, concat(name, " of ", what));
  };
  out.sums = sums("sums", static_cast<size_t>(out.groups * out.depth));
  out.squares = sums("squares", out.num_squares());
  fields.reject_unknown();
  return out;
}

Json values_json(const ObserverStatistics& seen, const std::vector<float>& values) {
  if (seen.class_name != "PerChannelMinMaxObserver") return format::json_of_number(values[0]);
  Json out = Json::array();
  for (const float value : values) out.push_back(format::json_of_number(value));
  return out;
}

std::vector<float> values_of(const Json& json, const std::string& what) {
  const auto number = [&](const Json& value) { return static_cast<float>(format::number_of_json(value, what)); };
  if (!json.is_array()) return {number(json)};
  std::vector<float> out;
  for (const Json& value : json) out.push_back(number(value));
  return out;
}

Json seen_batches(const CalibrationState& state) {
  Json out = Json::array();
  for (const auto& [first, last] : state.shards.ranges) {
    const int64_t begin = batches_of_shard(state.data.batches, first, state.shards.of).first;
    const int64_t end = batches_of_shard(state.data.batches, last, state.shards.of).second;
    out.push_back(Json::array({begin, end}));
  }
  return out;
}

// JSON text, and the histograms that were taken out of it: a mark with the place in the list stands for each. Most of a
// part is histograms, and a reader of JSON takes ten times as long to walk through their characters.
struct LiftedText {
  std::string text;
  std::vector<std::string_view> histograms;
};
constexpr char kMark = '#';  // which base64 has not

LiftedText lifted(std::string_view text) {
  // Such quotes cannot stand inside of a JSON string, so that this is a field; anything else is for the reader of JSON.
  constexpr std::string_view kField = "\"histogram\": \"";
  LiftedText out;
  for (size_t at = 0;;) {
    const size_t found = text.find(kField, at);
    const size_t begin = found + kField.size();
    const size_t end = found == std::string_view::npos ? found : text.find('"', begin);
    if (end == std::string_view::npos) {
      out.text += text.substr(at);
      return out;
    }
    out.text += text.substr(at, begin - at);
    out.text += concat(std::string(1, kMark), out.histograms.size());
    out.histograms.push_back(text.substr(begin, end - begin));
    at = end;
  }
}

// What stands for a histogram in the JSON, or the histogram itself. Each may be asked for once.
std::string_view histogram_of(const std::string& field, std::vector<std::string_view>& histograms,
                              const std::string& what) {
  if (field.empty() || field[0] != kMark) return field;
  const auto place = static_cast<size_t>(std::strtoull(field.c_str() + 1, nullptr, 10));
  QDQ_CHECK(place < histograms.size() && histograms[place].data() != nullptr, kBadFile, what, " is not base64");
  return std::exchange(histograms[place], std::string_view());
}

ObserverStatistics parse_observer(const Json& json, std::vector<std::string_view>& histograms,
                                  const std::string& what) {
  const Fields fields(json, what);
  ObserverStatistics out{fields.required<int64_t>("id"), fields.required<std::string>("class"), {}, {}, {}};
  const bool has_histogram = is_mergeable_histogram(out.class_name);
  const bool per_channel = out.class_name == "PerChannelMinMaxObserver";
  QDQ_CHECK(has_histogram || per_channel || out.class_name == "MinMaxObserver", kInvalidArgument, what, " is a ",
            out.class_name, ", whose statistics do not merge");
  if (const Json* min = fields.find("min_val")) {
    const Json* max = fields.find("max_val");
    QDQ_CHECK(max != nullptr, kBadFile, what, " has min_val without max_val");
    out.min = values_of(*min, "min_val of " + what);
    out.max = values_of(*max, "max_val of " + what);
    QDQ_CHECK(!out.min.empty() && out.min.size() == out.max.size() && (per_channel || out.min.size() == 1), kBadFile,
              what, " has ", out.min.size(), " least and ", out.max.size(), " largest values",
              per_channel ? "" : ", wanted one of each");
    for (size_t i = 0; i < out.min.size(); ++i)
      QDQ_CHECK(!(out.min[i] > out.max[i]), kBadFile, what, " has the range ", out.min[i], " to ", out.max[i]);
    if (has_histogram) {
      const std::string name = "the histogram of " + what;
      const auto field = fields.required<std::string>("histogram");
      std::vector<int64_t> counts = unpacked(histogram_of(field, histograms, name), name);
      try {
        out.histogram.emplace(FloatRange{out.min[0], out.max[0]}, std::move(counts));
      } catch (const Error& error) {
        fail(ErrorCode::kBadFile, what, ": ", error.message);
      }
    }
  }
  fields.reject_unknown();
  return out;
}

}  // namespace

std::string print_state(const CalibrationState& state) {
  Json observers = Json::array();
  for (const ObserverStatistics& seen : state.observers) {
    Json entry = json_object({{"id", seen.id}, {"class", seen.class_name}});
    if (!seen.min.empty()) {
      entry["min_val"] = values_json(seen, seen.min);
      entry["max_val"] = values_json(seen, seen.max);
      if (seen.histogram) entry["histogram"] = packed(seen.histogram->counts());
    }
    observers.push_back(std::move(entry));
  }
  const Json data =
      json_object({{"id", state.data.id}, {"samples", state.data.samples}, {"batches", state.data.batches}});
  Json out = json_object({{"format", kFormat},
                          {"qdq", state.version},
                          {"program", state.program},
                          {"recipe", state.recipe},
                          {"data", data},
                          {"shards", to_string(state.shards)},
                          {"seen", seen_batches(state)},
                          {"observers", observers}});
  for (const LayerStatistics& layer : state.layers) out["layers"].push_back(layer_json(layer));
  return format::print_json(out, 1) + "\n";
}

bool is_state(const Json& json) { return json.is_object() && json.contains("format") && json["format"].is_string(); }

namespace {

CalibrationState parse_lifted(const Json& json, std::vector<std::string_view> histograms, const std::string& what) {
  const Fields fields(json, what);
  const auto found = fields.optional<std::string>("format", "");
  QDQ_CHECK(found == kFormat, kBadFile, what, " is not a calibration state: its format is '", found, "', wanted '",
            kFormat, "', which qdq calibrate and qdq merge write");
  CalibrationState out;
  out.version = fields.required<std::string>("qdq");
  out.program = fields.required<std::string>("program");
  out.recipe = fields.required<std::string>("recipe");
  const Fields data = fields.object("data");
  out.data = {data.required<std::string>("id"), data.required<int64_t>("samples"), data.required<int64_t>("batches")};
  data.reject_unknown();
  QDQ_CHECK(out.data.batches >= 0 && out.data.batches <= kMostBatches && out.data.samples >= out.data.batches, kBadFile,
            what, " is of ", out.data.samples, " samples in ", out.data.batches, " batches");
  out.shards = parse_shards(fields.required<std::string>("shards"), fields.where("shards"));
  const Json seen = seen_batches(out);
  QDQ_CHECK(fields.required<Json>("seen") == seen, kBadFile, what, " saw the batches ",
            fields.required<Json>("seen").dump(), ", those of its shards ", to_string(out.shards), " are ",
            seen.dump());
  const Json* observers = fields.find("observers");
  QDQ_CHECK(observers != nullptr && observers->is_array(), kBadFile, what, " has no list of observers");
  for (size_t i = 0; i < observers->size(); ++i)
    out.observers.push_back(parse_observer((*observers)[i], histograms, concat("observer ", i, " of ", what)));
  if (const Json* layers = fields.find("layers")) {
    QDQ_CHECK(layers->is_array(), kBadFile, what, " has layers that are not a list");
    for (size_t i = 0; i < layers->size(); ++i)
      out.layers.push_back(parse_layer((*layers)[i], concat("layer ", i, " of ", what)));
  }
  fields.reject_unknown();
  return out;
}

}  // namespace

CalibrationState parse_state(std::string_view text, const std::string& what) {
  LiftedText read = lifted(text);
  return parse_lifted(format::parse_json(read.text, what), std::move(read.histograms), what);
}

}  // namespace qdq
