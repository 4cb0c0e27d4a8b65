// The statistics of a prepared program as a value, and back.
#include "state/calibration_state.h"

#include <charconv>

#include "base/disk_blocks.h"
#include "base/stable_sort.h"
#include "base/version.h"
#include "format/bytes.h"
#include "format/sha256.h"
#include "quant/prepared_impl.h"
#include "tensor/strings.h"

namespace qdq {

namespace {

constexpr int64_t kMostShards = 1'000'000;

std::string sha256_of(std::string_view text) { return format::sha256(format::bytes_of(text)); }

std::string bytes_hash(const Tensor& tensor) {
  const Tensor flat = tensor.contiguous();
  if (flat.dtype() == DType::kString) {
    std::string texts;
    for (const std::string_view text : texts_of(flat)) texts += concat(text.size(), ":", text);
    return sha256_of(texts);
  }
  const std::string hash = format::sha256({flat.raw(), flat.nbytes()});
  release_pages({flat.raw(), flat.nbytes()});
  return hash;
}

std::string program_hash(const Program& program) {
  std::string text = to_text(*program.graph);
  std::vector<std::string> attributes;
  for (const Attribute& attribute : program.attributes)
    attributes.push_back(concat("\n", attribute.name, " ", to_string(attribute.tensor.dtype()),
                                to_string(attribute.tensor.sizes()), " ", bytes_hash(attribute.tensor)));
  sort_stably(attributes);
  for (const std::string& attribute : attributes) text += attribute;
  return sha256_of(text);
}

std::string place_of(const ObserverGroup& group) {
  return group.covers.empty() ? std::string("nothing") : to_string(group.covers[0]);
}

std::string recipe_hash(const Prepared& prepared) {
  std::string text;
  for (const ObserverGroup& group : prepared.observers()) {
    const Observer& observer = *group.observer;
    const ObserverArgs& args = observer.args();
    text += concat(observer.class_name(), " ", dtype_name(args), " ", to_string(args.qscheme), " ",
                   observer.quant_min(), " ", observer.quant_max(), " ", args.reduce_range, " ", args.ch_axis, " ",
                   format::base64(std::as_bytes(std::span(&args.eps, 1))), " ", args.is_dynamic);
    for (const EdgeOrNode& place : group.covers) text += " " + to_string(place);
    text += "\n";
  }
  return sha256_of(text);
}

// Whether calibration data tells an observer anything, and so its state belongs to the data.
bool sees_data(const Prepared& prepared, const ObserverGroup& group) {
  return !group.inserted_as.empty() && group.observer->min_val().defined() &&
         !Prepared::Impl::of(prepared).of_constants.count(group.observer.get());
}

std::vector<float> floats_of(const Tensor& tensor) {
  const Tensor flat = tensor.to(DType::kF32).contiguous();
  std::vector<float> out(flat.span<float>().begin(), flat.span<float>().end());
  for (float& value : out) value += 0.0f;  // -0 becomes 0, which a comparison cannot tell apart
  return out;
}

}  // namespace

std::string to_string(const Shards& shards) {
  std::string out;
  for (const auto& [first, last] : shards.ranges) {
    out += concat(out.empty() ? "" : ",", first);
    if (last != first) out += concat("-", last);
  }
  return concat(out, "/", shards.of);
}

Shards parse_shards(std::string_view text, const std::string& what) {
  const char *at = text.data(), *end = at + text.size();
  const auto wrong = [&]() -> Error {
    return Error(ErrorCode::kInvalidArgument,
                 concat(what, " is '", text, "'; wanted shards of so many, counted from 1: 3/16, or 1-4,7/16"));
  };
  const auto number = [&] {
    int64_t value = 0;
    const auto [next, error] = std::from_chars(at, end, value);
    if (error != std::errc() || value < 1 || value > kMostShards || *at == '0') throw wrong();
    at = next;
    return value;
  };
  const auto is_next = [&](char wanted) {
    const bool found = at != end && *at == wanted;
    if (found) ++at;
    return found;
  };
  Shards out;
  out.ranges.clear();
  do {
    const int64_t first = number();
    const int64_t last = is_next('-') ? number() : first;
    if (last < first || (!out.ranges.empty() && first <= out.ranges.back().second + 1)) throw wrong();
    out.ranges.emplace_back(first, last);
  } while (is_next(','));
  if (!is_next('/')) throw wrong();
  out.of = number();
  if (at != end || out.ranges.back().second > out.of) throw wrong();
  return out;
}

std::pair<int64_t, int64_t> batches_of_shard(int64_t batches, int64_t k, int64_t of) {
  QDQ_CHECK(of >= 1 && of <= kMostShards && k >= 1 && k <= of, kInvalidArgument, "there is no shard ", k, " of ", of,
            "; wanted 1 to at most ", kMostShards);
  // (k * batches) / of, without the product.
  const auto place = [&](int64_t i) { return batches / of * i + batches % of * i / of; };
  return {place(k - 1), place(k)};
}

void check_mergeable(const Prepared& prepared) {
  QDQ_CHECK(prepared.layers_to_equalize().empty(), kInvalidArgument,
            "a calibration in parts does not hold what the channels of inputs are, which the equalization of ",
            prepared.layers_to_equalize().empty() ? "" : prepared.layers_to_equalize()[0],
            " needs; calibrate in one piece, or leave the equalization config out");
  for (const ObserverGroup& group : prepared.observers()) {
    const Observer& observer = *group.observer;
    const std::string_view wanted = observer.mergeable_class();
    if (wanted == observer.class_name() || Prepared::Impl::of(prepared).of_constants.count(&observer)) continue;
    fail(ErrorCode::kInvalidArgument, "the observer of ", place_of(group), " is of class ", observer.class_name(), ", ",
         wanted.empty() ? std::string("whose statistics cannot be merged; calibrate it in one process by qdq quantize")
                        : concat("whose statistics depend on the order of the batches, so that they cannot be merged; "
                                 "name ",
                                 wanted, " in the recipe in its place"));
  }
}

CalibrationState state_of(const Prepared& prepared, const CalibrationData& data, const Shards& shards) {
  check_mergeable(prepared);
  CalibrationState out{QDQ_VERSION, program_hash(prepared.program()), recipe_hash(prepared), data, shards,
                       {},          layer_statistics(prepared)};
  for (size_t i = 0; i < prepared.observers().size(); ++i) {
    const ObserverGroup& group = prepared.observers()[i];
    if (!sees_data(prepared, group)) continue;
    const Observer& observer = *group.observer;
    ObserverStatistics seen{static_cast<int64_t>(i), std::string(observer.class_name()), {}, {}, {}};
    if (observer.calibrated()) {
      seen.min = floats_of(observer.min_val());
      seen.max = floats_of(observer.max_val());
      if (const Tensor histogram = observer.histogram(); histogram.defined()) {
        const std::span<const int64_t> counts = histogram.span<int64_t>();
        seen.histogram.emplace(FloatRange{seen.min[0], seen.max[0]}, std::vector(counts.begin(), counts.end()));
      }
    }
    out.observers.push_back(std::move(seen));
  }
  return out;
}

void load_state(Prepared& prepared, const CalibrationState& state, const std::string& what) {
  check_mergeable(prepared);
  QDQ_CHECK(state.shards.all(), kInvalidArgument, what, " is of shards ", to_string(state.shards),
            " only; merge all parts by qdq merge");
  QDQ_CHECK(state.version == QDQ_VERSION, kInvalidArgument, what, " was made by qdq ", state.version, ", this is ",
            QDQ_VERSION, ", which may give other numbers; calibrate again");
  const std::string program = program_hash(prepared.program()), recipe = recipe_hash(prepared);
  QDQ_CHECK(state.recipe == recipe, kInvalidArgument, what, " was made by another recipe (or for another model): the ",
            "observers' hash there is ", state.recipe, ", here ", recipe);
  QDQ_CHECK(state.program == program, kInvalidArgument, what,
            " was made of another model: the program's hash there is ", state.program, ", here ", program);
  size_t next = 0;
  for (size_t i = 0; i < prepared.observers().size(); ++i) {
    const ObserverGroup& group = prepared.observers()[i];
    if (!sees_data(prepared, group)) continue;
    QDQ_CHECK(next < state.observers.size() && state.observers[next].id == static_cast<int64_t>(i) &&
                  state.observers[next].class_name == group.observer->class_name(),
              kInvalidArgument, what, " does not hold what observer ", i, " of ", place_of(group), " saw");
    const ObserverStatistics& seen = state.observers[next++];
    if (seen.min.empty()) continue;
    const bool per_channel = is_per_channel(group.observer->args().qscheme);
    const auto tensor = [&](const std::vector<float>& values) {
      QDQ_CHECK(per_channel || values.size() == 1, kInvalidArgument, what, ", observer ", i, " of ", place_of(group),
                ": found the ranges of ", values.size(), " channels, wanted one range");
      return Tensor::of<float>(per_channel ? Shape{std::ssize(values)} : Shape{}, std::span<const float>(values));
    };
    const Tensor histogram = seen.histogram ? Tensor::of<int64_t>({RangeHistogram::kBins},
                                                                  std::span<const int64_t>(seen.histogram->counts()))
                                            : Tensor();
    try {
      prepared.set_state(i, {tensor(seen.min), tensor(seen.max), histogram});
    } catch (const Error& error) {
      fail(ErrorCode::kInvalidArgument, what, ", observer ", i, " of ", place_of(group), ": ", error.message);
    }
  }
  QDQ_CHECK(next == state.observers.size(), kInvalidArgument, what, " covers ", state.observers.size(),
            " observers, the model has ", next, " that see data");
  if (!state.layers.empty()) load_layer_statistics(prepared, state.layers, what);
}

}  // namespace qdq
