// How libFuzzer changes exported programs: a byte now and then, else one to three things in the JSON of the program.
#include <cstring>
#include <iterator>
#include <limits>
#include <string>

#include "format/json.h"
#include "format/zip.h"
#include "unit/fuzz_random.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace qdq::fuzz {
namespace {

using format::Json;

Json& child(Json& parent, uint64_t i) {
  return *std::next(parent.begin(), static_cast<std::ptrdiff_t>(i % parent.size()));
}

// Some value of the document: deep ones are as likely as those near the root.
Json& some_value(Json& root, Random& random) {
  Json* at = &root;
  while (at->is_structured() && !at->empty() && random.below(12) != 0) at = &child(*at, random.below(at->size()));
  return *at;
}

void change(Json& value, Json& root, Random& random) {
  constexpr int64_t kNumbers[] = {0,
                                  1,
                                  -1,
                                  2,
                                  7,
                                  64,
                                  65535,
                                  std::numeric_limits<int32_t>::max(),
                                  std::numeric_limits<int64_t>::max(),
                                  std::numeric_limits<int64_t>::min()};
  if (value.is_structured() && !value.empty()) {
    const auto at = std::next(value.begin(), static_cast<std::ptrdiff_t>(random.below(value.size())));
    switch (random.below(4)) {
      case 0: value.erase(at); return;
      case 1: *at = Json(child(value, random.below(value.size()))); return;
      case 2: std::swap(*at, child(value, random.below(value.size()))); return;
      default:
        if (value.is_array()) value.push_back(Json(*at));
        return;
    }
  }
  switch (random.below(value.is_number() ? 2 : 4)) {
    case 0: value = kNumbers[random.below(std::size(kNumbers))]; return;
    case 1: value = value.is_boolean() ? Json(!value.get<bool>()) : Json(some_value(root, random)); return;
    default:  // most strings are names of other things of the same kind
      for (int tries = 0; tries < 64; ++tries)
        if (const Json& other = some_value(root, random); other.type() == value.type()) {
          value = Json(other);
          return;
        }
  }
}

format::Bytes with_other_program(format::ByteSpan file, Random& random) {
  const format::ZipReader zip(file);
  format::ZipWriter out;
  for (const format::ZipEntry& entry : zip.entries()) {
    const format::ByteData data = zip.read(entry);
    if (!entry.name.ends_with("serialized_exported_program.json")) {
      out.add(entry.name, data.bytes());
      continue;
    }
    Json program = format::parse_json(format::text_of(data.bytes()), entry.name);
    for (uint64_t changes = 1 + random.below(3); changes > 0; --changes)
      change(some_value(program, random), program, random);
    out.add(entry.name, format::bytes_of(format::print_json(program)));
  }
  return out.finish();
}

}  // namespace
}  // namespace qdq::fuzz

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  qdq::Random random(seed);
  if (random.below(8) == 0) return LLVMFuzzerMutate(data, size, max_size);
  try {
    const qdq::format::Bytes bytes = qdq::fuzz::with_other_program(std::as_bytes(std::span(data, size)), random);
    if (bytes.empty() || bytes.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
    std::memcpy(data, bytes.data(), bytes.size());
    return bytes.size();
  } catch (const qdq::Error&) {  // what is no archive has no program to change
    return LLVMFuzzerMutate(data, size, max_size);
  }
}
