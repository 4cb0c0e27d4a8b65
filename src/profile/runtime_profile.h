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
#include "graph/graph.h"
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
  // What is computed along with it, where that is not what the profile says.
  std::optional<std::string_view> fused = std::nullopt;
  std::string_view dynamic_kernel = {};  // `kernel`, where ranges are found while the model runs and it is another
  int64_t weight_axis = 0;               // of its weight: the axis of the result's channels
  bool only_global_pools = false;        // why_not_global_pool refuses the others
  bool is_foreign = false;               // other tools quantize it, the profile's recipe does not
  // Why the runtime does not take a call; "": it does. `is_dynamic`: its ranges are found while the model runs.
  std::string (*refuses)(const Node& node, bool is_dynamic) = nullptr;
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
  bool can_16_bits = false;                          // activations of uint16 as well
  // What is computed along with a layer, an addition or a product behind it: words as in a PatternPlace.
  std::string_view fused = {};
  std::span<const RuntimeRule> rules;
  bool quantizes_all = false;      // float operators between integer ones cost it more than rounding does
  bool wants_same_dtypes = false;  // of activations and weights
  bool wants_bias = false;         // layers without one stay float
  bool keeps_residuals = false;    // sums with floats stay float: rounding them to 8 bits costs more than it saves
  bool joins_lone_int8 = false;    // int8 activations only where a tensor has one reader
  bool saturates = false;          // sums of products of 8 bits, on processors without VNNI
  bool clips_freely = false;       // what is fused may cut off more than the integers of the result do
  std::string_view dynamic = {};   // the quantizer of the dynamic form, where it is not made of the rules
  std::string_view note = {};      // what else its user has to know, in one sentence
};

// All of them.
std::span<const RuntimeProfile> runtime_profiles();
// The one of this name. Throws Error{kInvalidArgument} that lists the names.
const RuntimeProfile& runtime_profile(std::string_view name);

// What else is asked of a profile.
struct RuntimeSettings {
  bool is_dynamic = false;      // ranges of activations are found while the model runs
  int64_t activation_bits = 8;  // or 16, which only runtimes with can_16_bits take
  int64_t weight_bits = 8;      // or 7, for runtimes that saturate
};

// The recipe that quantizes for the runtime, as parse_recipe reads it. Throws Error{kInvalidArgument} if the runtime
// does not compute so, and for bits that would do nothing.
format::Json recipe_of(const RuntimeProfile& profile, const RuntimeSettings& settings = {});

// How the runtime's ONNX files are written: 16 bits of activations want opset 21, whose QuantizeLinear has them.
OnnxOptions onnx_options_of(const RuntimeProfile& profile, const RuntimeSettings& settings = {});

// How ONNX files are written, as data: {opset, signed_activations, unsigned_weights, dedicated_pairs, accuracy_level,
// format, groups, float16, bnb4}.
format::Json onnx_report(const OnnxOptions& options);

// {name, runtime, file, recipe, onnx, note}: the profile as data.
format::Json profile_report(const RuntimeProfile& profile, const RuntimeSettings& settings = {});

}  // namespace qdq
