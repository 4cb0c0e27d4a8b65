// What runtimes take: which operators each computes in integers, of which data types, and in what file. A profile is a
// row of a table; from it come the recipe that quantizes for the runtime, how the file is written, and what is said of
// a file that is there (runtime_verdicts.h). docs/profiles.md shows them all.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "format/json_fwd.h"
#include "io/onnx.h"
#include "tensor/dtype.h"

namespace qdq {

// How an operator runs in integers.
enum class IntegerForm : uint8_t {
  kLayer,      // with a weight: the inputs, the weight and the result are integers
  kOpenLayer,  // the same, and the result may be float
  kProduct,    // of two tensors; the result may be float
  kElements,   // all inputs and the result are integers of one data type
  kSameTerms,  // and of one scale and zero point: what moves numbers, or chooses among them
  kTable,      // its weight alone, whose rows are looked up
};

struct RuntimeRule {
  std::string_view name;       // what reasons call it
  std::string_view operators;  // as those of a PatternPlace
  IntegerForm form;
  std::string_view kernel = {};  // what the runtime calls it then: "QLinearConv"; "" where it has no name
  // The range of the result, where it is known beforehand: its least value and how far it goes.
  struct Range {
    double low, width;
  };
  std::optional<Range> range = std::nullopt;
};

struct RuntimeProfile {
  std::string_view name;     // "ort"
  std::string_view runtime;  // "ONNX Runtime on x86-64 with VNNI"
  std::string_view ending;   // of its files: ".onnx"
  OnnxOptions onnx = {};     // how those are written
  // Integers of activations (256 of them, affine) and of weights (symmetric).
  DType activations = DType::kU8;
  int64_t weight_min = -127, weight_max = 127;
  bool is_by_channel_in_convolutions_alone = false;  // else weights of linear layers have a scale by channel, too
  bool is_dynamic = false;                           // ranges of activations are found while the model runs
  bool can_dynamic = false;                          // or may be
  // What is computed along with a layer, an addition or a product behind it: words as in a PatternPlace.
  std::string_view fused = {};
  std::span<const RuntimeRule> rules;
  bool quantizes_all = false;      // float operators between integer ones cost it more than rounding does
  bool wants_same_dtypes = false;  // of activations and weights
  bool wants_bias = false;         // layers without one stay float
  bool joins_lone_int8 = false;    // int8 activations only where a tensor has one reader
  bool saturates = false;          // sums of products of 8 bits, on processors without VNNI
  std::string_view recipe = {};    // a quantizer with scales by channel, where it is not made of the rules
  std::string_view note = {};      // what else its user has to know, in one sentence
};

// All of them.
std::span<const RuntimeProfile> runtime_profiles();
// The one of this name. Throws Error{kInvalidArgument} that lists the names.
const RuntimeProfile& runtime_profile(std::string_view name);

// The recipe that quantizes for the runtime, as parse_recipe reads it. `is_dynamic`: ranges of activations are found
// while the model runs. Throws Error{kInvalidArgument} if the runtime does not compute so.
format::Json recipe_of(const RuntimeProfile& profile, bool is_dynamic = false);

// How ONNX files are written, as data: {opset, signed_activations, unsigned_weights, float16, bnb4}.
format::Json onnx_report(const OnnxOptions& options);

// {name, runtime, file, recipe, onnx, note}: the profile as data.
format::Json profile_report(const RuntimeProfile& profile, bool is_dynamic = false);

// Throws Error{kInvalidArgument} unless the path ends as the runtime's files do.
void check_ending(const RuntimeProfile& profile, std::string_view path);

}  // namespace qdq
