// Loads mutations of valid programs: a short fuzzing without a fuzzer, the same every time.
// QDQ_FUZZ_SEED and QDQ_FUZZ_ROUNDS in the environment make it another or a longer one.
#include <gtest/gtest.h>

#include "fuzz/pt2_fuzz.cpp"
#include "unit/fuzz_random.h"
#include "unit/io/edited_pt2.h"

namespace qdq::pt2_fuzz_test {
namespace {

using format::Bytes;
using format::Json;

void collect(Json& json, std::vector<Json*>& out) {
  out.push_back(&json);
  if (json.is_structured())
    for (Json& child : json) collect(child, out);
}

// Puts something else in a random place: another part of the document, an extreme value, nothing, twice the same.
void mutate(Json& json, Random& random) {
  std::vector<Json*> places;
  collect(json, places);
  Json& place = *places[random.below(places.size())];
  static const Json kExtreme[] = {nullptr,
                                  true,
                                  0,
                                  -1,
                                  1,
                                  3,
                                  255,
                                  INT64_MAX,
                                  INT64_MIN,
                                  UINT64_MAX,
                                  1e300,
                                  "",
                                  "x",
                                  "as_name",
                                  Json::array(),
                                  Json::object(),
                                  "Symbol('s0', positive=True, integer=True)",
                                  "FloorDiv(Symbol('s0'), Integer(0))",
                                  "Mul(((("};
  switch (random.below(6)) {
    case 0:
    case 1: place = Json(*places[random.below(places.size())]); break;
    case 2: place = kExtreme[random.below(std::size(kExtreme))]; break;
    case 3:
      if (place.is_array() && !place.empty()) place.push_back(Json(place[random.below(place.size())]));
      else if (place.is_number_integer()) place = place.get<int64_t>() / 2 + static_cast<int64_t>(random.below(5)) - 2;
      break;
    case 4:
      if (place.is_array() && !place.empty()) place.erase(random.below(place.size()));
      else if (place.is_object() && !place.empty())
        place.erase(std::next(place.begin(), static_cast<std::ptrdiff_t>(random.below(place.size()))));
      break;
    case 5:
      if (place.is_array() && place.size() > 1)
        std::swap(place[random.below(place.size())], place[random.below(place.size())]);
      break;
  }
}

void run(const Bytes& bytes, uint64_t seed, int64_t round) {
  try {
    LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  } catch (const std::exception& error) {
    FAIL() << "QDQ_FUZZ_SEED=" << seed << ", round " << round << ": " << error.what();
  }
}

void fuzz_json(const std::string& file, const std::string& member, int64_t rounds) {
  const auto seed = static_cast<uint64_t>(setting("QDQ_FUZZ_SEED", 20261120));
  rounds = setting("QDQ_FUZZ_ROUNDS", rounds);
  const Members members = members_of(file);
  const Json whole = format::parse_json(format::text_of(members.at(member)), member);
  Random random(seed);
  for (int64_t round = 0; round < rounds; ++round) {
    Json json = whole;
    for (uint64_t changes = 1 + random.below(3); changes > 0; --changes) mutate(json, random);
    Members changed = members;
    set_text(changed[member], format::print_json(json));
    run(zip_of(changed), seed, round);
  }
}

TEST(FuzzPt2, PlacesInTheProgram) {
  for (const std::string file : {"conv_net", "many_results", "dynamic_batch", "arguments", "shared_aten",
                                 "control/nested", "control/while_of_branches", "control/no_grad"})
    fuzz_json(file, "serialized_exported_program.json", 40);
}

TEST(FuzzPt2, PlacesInTheConfigsOfTheArchive) {
  fuzz_json("shared_archive", "shared_archive/data/weights/model_weights_config.json", 60);
  fuzz_json("shared_archive", "shared_archive/data/constants/model_constants_config.json", 30);
  fuzz_json("arguments_archive", "arguments_archive/models/model.json", 40);
}

TEST(FuzzPt2, BytesOfTheMembers) {
  const auto seed = static_cast<uint64_t>(setting("QDQ_FUZZ_SEED", 20261120));
  const int64_t rounds = setting("QDQ_FUZZ_ROUNDS", 60);
  for (const std::string file : {"shared", "shared_archive"}) {
    const Members members = members_of(file);
    Random random(seed);
    for (int64_t round = 0; round < rounds; ++round) {
      Members changed = members;
      auto member = std::next(changed.begin(), static_cast<std::ptrdiff_t>(random.below(changed.size())));
      if (member->second.empty()) continue;
      for (uint64_t changes = 1 + random.below(4); changes > 0; --changes)
        member->second[random.below(member->second.size())] = static_cast<std::byte>(random.below(256));
      if (random.below(4) == 0) member->second.resize(random.below(member->second.size()));
      run(zip_of(changed), seed, round);
    }
  }
}

}  // namespace
}  // namespace qdq::pt2_fuzz_test
