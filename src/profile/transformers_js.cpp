// What transformers.js calls its files, and how each is made.
#include "profile/transformers_js.h"

#include <algorithm>

#include "base/nearest_word.h"
#include "op/facts.h"
#include "profile/runtime_profile.h"

namespace qdq {

namespace {

enum class Made : uint8_t { kFloat, kFolded, kDynamic, kBlocks };

struct KnownFile {
  std::string_view dtype, suffix;
  Made made = Made::kFloat;
  bool is_unsigned = false, is_half = false, is_bnb4 = false;
};

constexpr KnownFile kFiles[] = {{.dtype = "fp32", .suffix = ""},
                                {.dtype = "fp16", .suffix = "_fp16", .made = Made::kFolded, .is_half = true},
                                {.dtype = "q8", .suffix = "_quantized", .made = Made::kDynamic},
                                {.dtype = "int8", .suffix = "_int8", .made = Made::kDynamic},
                                {.dtype = "uint8", .suffix = "_uint8", .made = Made::kDynamic, .is_unsigned = true},
                                {.dtype = "q4", .suffix = "_q4", .made = Made::kBlocks},
                                {.dtype = "q4f16", .suffix = "_q4f16", .made = Made::kBlocks, .is_half = true},
                                {.dtype = "bnb4", .suffix = "_bnb4", .is_bnb4 = true}};

// Nothing is quantized, but batch norms are folded: float16 may not hold their variances.
constexpr std::string_view kFoldedAlone =
    R"({"quantizer": "PatternQuantizer", "name": "transformers.js", "patterns": []})";

// Linear layers' weights in blocks; what they read and give stays float.
constexpr std::string_view kBlocksOf32 =
    R"({"quantizer": "PatternQuantizer", "name": "transformers.js", "patterns": [{"name": "linear", "operators": )"
    R"([["aten.linear"]], "output": "float"}], "global": {"weight": {"spec": "quantization", "dtype": "int8", )"
    R"("quant_min": -8, "quant_max": 7, "qscheme": "per_channel_symmetric", "ch_axis": 0, "observer": {"class": )"
    R"("PerGroupMSEObserver", "args": {"group_size": 32}}}}})";

// Whether ONNX Runtime Web runs the dynamic form of the model with uint8 weights alone, or faster: QUINT8_OPS of
// quantize.py.
bool wants_unsigned(const Program& program) {
  const std::vector<Node*> nodes = program.graph->nodes();
  return std::any_of(nodes.begin(), nodes.end(), [](const Node* node) {
    return is_a(*node, Family::kConvolution) || node->target().find("GroupQueryAttention") != std::string::npos ||
           node->target().find("MultiHeadAttention") != std::string::npos;
  });
}

}  // namespace

std::vector<std::string> transformers_js_dtypes() {
  std::vector<std::string> out;
  for (const KnownFile& file : kFiles) out.emplace_back(file.dtype);
  return out;
}

TransformersJsFile transformers_js_file(const Program& program, std::string_view dtype) {
  const auto* file =
      std::find_if(std::begin(kFiles), std::end(kFiles), [&](const auto& f) { return f.dtype == dtype; });
  if (file == std::end(kFiles)) {
    const std::vector<std::string> known = transformers_js_dtypes();
    std::string names;
    for (const std::string& name : known) names += concat(names.empty() ? "" : ", ", name);
    const std::string meant = nearest_word(dtype, known);
    fail(ErrorCode::kInvalidArgument, "transformers.js has no dtype '", dtype, "' that qdq makes",
         meant.empty() ? concat("; wanted ", names) : concat(", did you mean ", meant, "? There are ", names));
  }
  const RuntimeProfile& profile = runtime_profile("transformers.js");
  TransformersJsFile out{file->dtype, file->suffix, nullptr, profile.onnx};
  if (file->made == Made::kDynamic) out.recipe = recipe_of(profile);
  if (file->made == Made::kFolded) out.recipe = format::parse_json(kFoldedAlone, "transformers.js");
  if (file->made == Made::kBlocks) out.recipe = format::parse_json(kBlocksOf32, "transformers.js");
  out.onnx.unsigned_weights = file->is_unsigned || (file->dtype == "q8" && wants_unsigned(program));
  out.onnx.float16 = file->is_half;
  out.onnx.bnb4 = file->is_bnb4;
  out.onnx.data_ending = "_data";
  return out;
}

std::string transformers_js_path(const TransformersJsFile& file, const std::string& model_file_name) {
  QDQ_CHECK(!model_file_name.empty() && model_file_name.find_first_of("/\\") == std::string::npos &&
                !model_file_name.ends_with(".onnx"),
            kInvalidArgument, "the model's file name is '", model_file_name,
            "', wanted a name without folders and without .onnx, such as model or decoder_model_merged");
  return concat("onnx/", model_file_name, file.suffix, ".onnx");
}

format::Json transformers_js_report(const TransformersJsFile& file, const std::string& model_file_name) {
  return format::json_object({{"dtype", file.dtype},
                              {"path", transformers_js_path(file, model_file_name)},
                              {"recipe", file.recipe},
                              {"onnx", onnx_report(file.onnx)}});
}

}  // namespace qdq
