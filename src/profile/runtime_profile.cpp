// The table of runtimes, and the recipes that it makes.
#include "profile/runtime_profile.h"

#include "base/nearest_word.h"
#include "format/json.h"

namespace qdq {

namespace {

using format::Json;

constexpr std::string_view kConvolution = "convolution";  // the name of their rules
constexpr std::string_view kCat = "aten.cat";
constexpr std::string_view kConvolutions = "aten.conv1d aten.conv2d";
constexpr std::string_view kAveragePools = "aten.avg_pool1d aten.avg_pool2d aten.adaptive_avg_pool2d";
constexpr std::string_view kMaxPools = "aten.max_pool1d aten.max_pool2d";
constexpr std::string_view kMoves =
    "aten.view aten.reshape aten.flatten aten.permute aten.transpose aten.squeeze aten.unsqueeze aten.slice "
    "aten.select aten.expand";
constexpr std::string_view kClips = "aten.relu aten.relu6 aten.hardtanh aten.clamp aten.clamp_min";
constexpr RuntimeRule::Range kUnit = {0, 1}, kBothSides = {-1, 2};  // of sigmoid and softmax, of tanh

// ONNX Runtime's CPU provider, native and Web: onnxruntime/core/optimizer/qdq_transformer/selectors_actions of
// github.com/microsoft/onnxruntime. qdq_selector_action_transformer.cc lists what is joined to which operator, and the
// Check functions of qdq_selectors.cc say what each asks for. Convolutions want a quantized result, Gemm and MatMul do
// not. What is behind an addition of floats stays float. Softmax is left in float: its input is often masked, and 8
// bits do not hold a mask and the numbers beside it.
constexpr RuntimeRule kOnnxRuntime[] = {
    {kConvolution, "aten.conv1d aten.conv2d aten.conv3d", IntegerForm::kLayer, "QLinearConv"},
    {"linear", "aten.linear", IntegerForm::kOpenLayer, "QGemm or MatMulIntegerToFloat"},
    {"product", "aten.matmul aten.bmm", IntegerForm::kProduct, "QLinearMatMul or MatMulIntegerToFloat"},
    {"addition", "aten.add.Tensor", IntegerForm::kElements, "QLinearAdd"},
    {"multiplication", "aten.mul.Tensor", IntegerForm::kElements, "QLinearMul"},
    {"sigmoid", "aten.sigmoid", IntegerForm::kElements, "QLinearSigmoid", kUnit},
    {"leaky relu", "aten.leaky_relu", IntegerForm::kElements, "QLinearLeakyRelu"},
    {"average pool", kAveragePools, IntegerForm::kElements, "QLinearAveragePool"},
    {"cat", kCat, IntegerForm::kElements, "QLinearConcat"},
    {"max pool", kMaxPools, IntegerForm::kSameTerms, "MaxPool"},
    {"resize", "aten.upsample_nearest1d aten.upsample_nearest2d", IntegerForm::kSameTerms, "Resize"},
    {"move", kMoves, IntegerForm::kSameTerms}};

// Its dynamic form: DynamicQuantizeLinear and MatMulInteger or ConvInteger (operators/matmul.py, conv.py and
// gather.py of its quantization tools).
constexpr RuntimeRule kOnnxRuntimeDynamic[] = {
    {"linear", "aten.linear", IntegerForm::kOpenLayer, "DynamicQuantizeMatMul"},
    {kConvolution, "aten.conv1d aten.conv2d aten.conv3d", IntegerForm::kOpenLayer, "ConvInteger"},
    {"embedding", "aten.embedding", IntegerForm::kTable, "Gather"}};

// WebNN as Chromium builds it for LiteRT: CanFuseQuantizeAndGetOutput of services/webnn/tflite/graph_builder_tflite.cc
// asks for activations and weights of one data type, for a bias, for scales that are one number, and for the ranges of
// sigmoid, softmax and tanh that LiteRT's specification of int8 gives
// (ai.google.dev/edge/litert/models/quantization_spec).
constexpr RuntimeRule kWebnn[] = {{kConvolution, kConvolutions, IntegerForm::kLayer, "conv2d"},
                                  {"linear", "aten.linear", IntegerForm::kLayer, "gemm"},
                                  {"addition", "aten.add.Tensor", IntegerForm::kElements, "add"},
                                  {"subtraction", "aten.sub.Tensor", IntegerForm::kElements, "sub"},
                                  {"multiplication", "aten.mul.Tensor", IntegerForm::kElements, "mul"},
                                  {"sigmoid", "aten.sigmoid", IntegerForm::kElements, "sigmoid", kUnit},
                                  {"tanh", "aten.tanh", IntegerForm::kElements, "tanh", kBothSides},
                                  {"leaky relu", "aten.leaky_relu", IntegerForm::kElements, "leakyRelu"},
                                  {"average pool", kAveragePools, IntegerForm::kSameTerms, "averagePool2d"},
                                  {"cat", kCat, IntegerForm::kSameTerms, "concat"},
                                  {"max pool", kMaxPools, IntegerForm::kSameTerms, "maxPool2d"},
                                  {"resize", "aten.upsample_nearest2d", IntegerForm::kSameTerms, "resample2d"},
                                  {"move", kMoves, IntegerForm::kSameTerms}};

// OpenVINO's low precision transformations take what has quantized data and weights and move dequantization behind it:
// "Low Precision IR (INT8 Inference)" and "OpenVINO Low Precision Transformations" of docs.openvino.ai, which lists the
// operators. Results of convolutions are quantized so that sums of them are.
constexpr RuntimeRule kOpenVino[] = {
    {kConvolution, "aten.conv1d aten.conv2d aten.conv3d", IntegerForm::kLayer, "Convolution"},
    {"linear", "aten.linear", IntegerForm::kOpenLayer, "MatMul"},
    {"product", "aten.matmul aten.bmm", IntegerForm::kProduct, "MatMul"},
    {"addition", "aten.add.Tensor", IntegerForm::kElements, "Add"},
    {"multiplication", "aten.mul.Tensor", IntegerForm::kElements, "Multiply"},
    {"average pool", kAveragePools, IntegerForm::kElements, "AvgPool"},
    {"cat", kCat, IntegerForm::kElements, "Concat"},
    {"max pool", kMaxPools, IntegerForm::kSameTerms, "MaxPool"},
    {"resize", "aten.upsample_nearest1d aten.upsample_nearest2d", IntegerForm::kSameTerms, "Interpolate"},
    {"move", kMoves, IntegerForm::kSameTerms}};

// Qualcomm's HTP runs node units of DequantizeLinear, an operator and QuantizeLinear; what is not one falls to the CPU
// (onnxruntime.ai/docs/execution-providers/QNN-ExecutionProvider.html, "Supported ONNX operators" and "Running a model
// with QNN EP's HTP backend"). Ranges of sigmoid and tanh: get_qnn_qdq_config of
// onnxruntime/python/tools/quantization/execution_providers/qnn/quant_config.py.
constexpr RuntimeRule kQnn[] = {
    {kConvolution, kConvolutions, IntegerForm::kLayer, "Conv2d"},
    {"linear", "aten.linear", IntegerForm::kLayer, "FullyConnected"},
    {"product", "aten.matmul aten.bmm", IntegerForm::kElements, "MatMul"},
    {"addition", "aten.add.Tensor", IntegerForm::kElements, "ElementWiseAdd"},
    {"subtraction", "aten.sub.Tensor", IntegerForm::kElements, "ElementWiseSubtract"},
    {"multiplication", "aten.mul.Tensor", IntegerForm::kElements, "ElementWiseMultiply"},
    {"division", "aten.div.Tensor", IntegerForm::kElements, "ElementWiseDivide"},
    {"relu", "aten.relu aten.hardtanh aten.relu6 aten.clamp aten.clamp_min", IntegerForm::kElements, "ReluMinMax"},
    {"sigmoid", "aten.sigmoid", IntegerForm::kElements, "Sigmoid", kUnit},
    {"softmax", "aten.softmax", IntegerForm::kElements, "Softmax", kUnit},
    {"tanh", "aten.tanh", IntegerForm::kElements, "Tanh", kBothSides},
    {"gelu", "aten.gelu", IntegerForm::kElements, "Gelu"},
    {"hardswish", "aten.hardswish", IntegerForm::kElements, "HardSwish"},
    {"leaky relu", "aten.leaky_relu", IntegerForm::kElements, "Prelu"},
    {"mean", "aten.mean.dim", IntegerForm::kElements, "ReduceMean"},
    {"average pool", kAveragePools, IntegerForm::kElements, "PoolAvg2d"},
    {"cat", kCat, IntegerForm::kElements, "Concat"},
    {"max pool", kMaxPools, IntegerForm::kSameTerms, "PoolMax2d"},
    {"resize", "aten.upsample_nearest2d aten.upsample_bilinear2d", IntegerForm::kElements, "Resize"},
    {"move", kMoves, IntegerForm::kSameTerms}};

// The configs of executorch/backends/xnnpack/partition/config in github.com/pytorch/executorch: what stands between
// dequantize and quantize nodes as XNNPACKQuantizer writes them.
constexpr RuntimeRule kExecutorch[] = {
    {kConvolution, kConvolutions, IntegerForm::kLayer, "Conv2d"},
    {"linear", "aten.linear", IntegerForm::kLayer, "FullyConnected"},
    {"addition", "aten.add.Tensor", IntegerForm::kElements, "Add"},
    {"multiplication", "aten.mul.Tensor", IntegerForm::kElements, "Multiply"},
    {"mean", "aten.mean.dim", IntegerForm::kElements, "GlobalAvgPooling2d"},
    {"average pool", "aten.adaptive_avg_pool2d", IntegerForm::kElements, "GlobalAvgPooling2d"},
    {"cat", kCat, IntegerForm::kSameTerms, "Concatenate"},
    {"max pool", "aten.max_pool2d", IntegerForm::kSameTerms, "MaxPooling2d"},
    {"clamp", "aten.hardtanh aten.relu", IntegerForm::kSameTerms, "Clamp"},
    {"move", "aten.view aten.permute aten.slice aten.squeeze aten.unsqueeze", IntegerForm::kSameTerms}};

constexpr RuntimeProfile kProfiles[] = {
    // uint8 activations, int8 weights by channel, QDQ pairs: "Data type selection" and "Quantization representation" of
    // onnxruntime.ai/docs/performance/model-optimizations/quantization.html. int8 activations become uint8 only where
    // a tensor has one reader (qdq_s8_to_u8.cc).
    {.name = "ort",
     .runtime = "ONNX Runtime on x86-64 with VNNI, and on ARM",
     .ending = ".onnx",
     .can_dynamic = true,
     .fused = kClips,
     .rules = kOnnxRuntime,
     .joins_lone_int8 = true,
     .saturates = true},
    // The same optimizer and kernels, compiled to WebAssembly, whose products of 8 bits are summed in 32.
    {.name = "ort-web",
     .runtime = "ONNX Runtime Web on WebAssembly",
     .ending = ".onnx",
     .can_dynamic = true,
     .fused = kClips,
     .rules = kOnnxRuntime,
     .joins_lone_int8 = true,
     .note = "its WebGPU provider computes such a file in float"},
    // scripts/quantize.py of github.com/huggingface/transformers.js: dynamic, for it knows no samples.
    {.name = "transformers.js",
     .runtime = "transformers.js, which is ONNX Runtime Web",
     .ending = ".onnx",
     .is_dynamic = true,
     .can_dynamic = true,
     .rules = kOnnxRuntimeDynamic,
     .note = "the file is onnx/model_quantized.onnx of the model's folder there, or model_int8.onnx"},
    {.name = "webnn",
     .runtime = "WebNN in Chromium, by ONNX Runtime Web",
     .ending = ".onnx",
     .onnx = {.signed_activations = true},
     .activations = DType::kS8,
     .fused = kClips,
     .rules = kWebnn,
     .wants_same_dtypes = true,
     .wants_bias = true,
     .note = "it takes no open sizes: fix them by --fix, or by freeDimensionOverrides of the session"},
    // uint8 activations, symmetric int8 weights by channel: the default preset of NNCF. Saturation without VNNI:
    // docs.openvino.ai, "Saturation (overflow) Issue Workaround".
    {.name = "openvino",
     .runtime = "OpenVINO on CPUs and GPUs",
     .ending = ".onnx",
     .fused = kClips,
     .rules = kOpenVino,
     .saturates = true},
    // uint8 activations, and the least range of 0.0001 that all profiles here have: get_qnn_qdq_config. Scales by
    // channel for convolutions alone: pull request 20154 of microsoft/onnxruntime.
    {.name = "qnn",
     .runtime = "ONNX Runtime with Qualcomm's QNN (HTP)",
     .ending = ".onnx",
     .is_by_channel_in_convolutions_alone = true,
     .fused = kClips,
     .rules = kQnn,
     .quantizes_all = true,
     .note = "operators that stay float run on the CPU"},
    {.name = "executorch",
     .runtime = "ExecuTorch with XNNPACK",
     .ending = ".pt2",
     .activations = DType::kS8,
     .can_dynamic = true,
     .fused = "aten.relu aten.hardtanh",
     .rules = kExecutorch,
     .wants_same_dtypes = true,
     .recipe = "XNNPACKQuantizer",
     .note = "to_edge_transform_and_lower with XnnpackPartitioner makes a .pte of the file"},
    // Weights of 7 bits: quantization.html as above, "When and why do I need to try U8U8?" and reduce_range: without
    // VNNI two products are added in 16 bits, and 2 * 255 * 64 fits.
    {.name = "x86",
     .runtime = "ONNX Runtime on any x86-64, without VNNI too",
     .ending = ".onnx",
     .weight_min = -64,
     .weight_max = 63,
     .can_dynamic = true,
     .fused = kClips,
     .rules = kOnnxRuntime,
     .joins_lone_int8 = true}};

// The least scales. That of activations is a range of 1e-4, the MinimumRealRange of ONNX Runtime's tools for QNN; with
// that of weights a bias fits int32 in units of both. Texts have six digits of a number.
constexpr double kLeastScale = 4e-7, kLeastWeightScale = 1.5e-5;

std::string names() {
  std::string out;
  for (const RuntimeProfile& profile : kProfiles) out += concat(out.empty() ? "" : ", ", profile.name);
  return out;
}

// Recipes are put together as text, which takes a fifth of the code that values of JSON take.

std::string activation_spec(const RuntimeProfile& profile, bool is_dynamic) {
  const DType dtype = profile.activations;
  return concat(R"({"spec": "quantization", "dtype": ")", to_string(dtype), R"(", "quant_min": )", min_of(dtype),
                R"(, "quant_max": )", max_of(dtype), R"(, "qscheme": "per_tensor_affine", "is_dynamic": )",
                is_dynamic ? "true" : "false", R"(, "observer": {"class": ")",
                is_dynamic ? "PlaceholderObserver" : "HistogramObserver", R"(", "args": {"eps": )", kLeastScale, "}}}");
}

std::string weight_spec(const RuntimeProfile& profile, bool is_per_channel) {
  return concat(R"({"spec": "quantization", "dtype": "int8", "quant_min": )", profile.weight_min, R"(, "quant_max": )",
                profile.weight_max, R"(, "qscheme": "per_)", is_per_channel ? "channel" : "tensor", "_symmetric\"",
                is_per_channel ? R"(, "ch_axis": 0)" : "", R"(, "observer": {"class": ")",
                is_per_channel ? "PerChannel" : "", R"(MinMaxObserver", "args": {"eps": )", kLeastWeightScale, "}}}");
}

// Words with blanks between as a list.
std::string words(std::string_view text) {
  std::string out = "[\"";
  for (const char c : text) out += c == ' ' ? std::string("\", \"") : std::string(1, c);
  return out + "\"]";
}

void add_row(std::string& rows, std::string_view name, const std::string& operators, const std::string& rest) {
  rows += concat(rows.empty() ? "" : ", ", R"({"name": ")", name, R"(", "operators": [)", operators, "]", rest, "}");
}

// The rows of a rule: with what is computed along with it, then without.
void add_rows(const RuntimeProfile& profile, const RuntimeRule& rule, std::string& rows) {
  const bool is_layer = rule.form == IntegerForm::kLayer || rule.form == IntegerForm::kOpenLayer;
  const bool is_open = rule.form == IntegerForm::kOpenLayer || rule.form == IntegerForm::kProduct;
  const std::string operators = words(rule.operators);
  if (rule.form == IntegerForm::kSameTerms && rule.operators != kCat)
    return add_row(rows, rule.name, operators, R"(, "inputs": "handed_on")");
  std::string rest;
  if (!is_layer && rule.form != IntegerForm::kProduct)
    rest = concat(profile.quantizes_all ? "" : R"(, "inputs": "behind_quantized")", R"(, "only_float32": true)");
  if (is_open) rest += R"(, "output": "float")";
  if (rule.form == IntegerForm::kSameTerms) rest += R"(, "output": "like_input")";
  if (rule.range) {
    const double scale = rule.range->width / 256;
    const int64_t least = min_of(profile.activations);
    rest +=
        concat(R"(, "output": {"spec": "fixed_qparams", "dtype": ")", to_string(profile.activations), R"(", "scale": )",
               scale, R"(, "zero_point": )", least - static_cast<int64_t>(rule.range->low / scale),
               R"(, "quant_min": )", least, R"(, "quant_max": )", max_of(profile.activations), "}");
  }
  const bool takes_more = !profile.fused.empty() && (rule.form == IntegerForm::kLayer || rule.name == "addition" ||
                                                     rule.name == "multiplication");
  if (takes_more)
    add_row(rows, concat(rule.name, " and what follows"), concat(operators, ", ", words(profile.fused)), rest);
  add_row(rows, rule.name, operators, rest);
}

// Which rules of a profile are meant.
enum class Which : uint8_t { kAll, kConvolutions, kOthers };
bool is_meant(const RuntimeRule& rule, Which which) {
  return which == Which::kAll || (rule.name == kConvolution) == (which == Which::kConvolutions);
}

// The rules as a quantizer's recipe.
std::string patterns_of(const RuntimeProfile& profile, bool is_dynamic, bool is_per_channel, Which which) {
  std::string rows;
  for (const RuntimeRule& rule : profile.rules) {
    if (!is_meant(rule, which)) continue;
    if (!is_dynamic) add_rows(profile, rule, rows);
    else if (rule.form == IntegerForm::kOpenLayer || rule.form == IntegerForm::kTable)
      add_row(rows, rule.name, words(rule.operators), R"(, "modes": ["dynamic"], "output": "float")");
  }
  // Once more, for what stands behind an operator that only the first turn has found.
  for (const RuntimeRule& rule : profile.rules)
    if (!is_dynamic && is_meant(rule, which) &&
        (rule.form == IntegerForm::kElements || rule.form == IntegerForm::kSameTerms))
      add_rows(profile, rule, rows);
  const std::string activation = activation_spec(profile, is_dynamic);
  return concat(R"({"quantizer": "PatternQuantizer", "name": ")", profile.name, R"(", "patterns": [)", rows,
                R"(], "global": {"input_activation": )", activation, R"(, "weight": )",
                weight_spec(profile, is_per_channel), is_dynamic ? "" : R"(, "output_activation": )",
                is_dynamic ? "" : activation, "}}");
}

std::string text_of(const RuntimeProfile& profile, bool is_dynamic) {
  if (!profile.recipe.empty())
    return concat(R"({"quantizer": ")", profile.recipe, R"(", "global": {"is_per_channel": true)",
                  is_dynamic ? R"(, "is_dynamic": true)" : "", "}}");
  if (!profile.is_by_channel_in_convolutions_alone) return patterns_of(profile, is_dynamic, true, Which::kAll);
  return concat(R"({"quantizer": "ComposableQuantizer", "quantizers": [)",
                patterns_of(profile, is_dynamic, true, Which::kConvolutions), ", ",
                patterns_of(profile, is_dynamic, false, Which::kOthers), "]}");
}

}  // namespace

std::span<const RuntimeProfile> runtime_profiles() { return kProfiles; }

const RuntimeProfile& runtime_profile(std::string_view name) {
  std::vector<std::string> known;
  for (const RuntimeProfile& profile : kProfiles) {
    if (profile.name == name) return profile;
    known.emplace_back(profile.name);
  }
  const std::string meant = nearest_word(std::string(name), known);
  fail(ErrorCode::kInvalidArgument, "there is no profile '", name, "'",
       meant.empty() ? concat("; wanted ", names()) : concat(", did you mean ", meant, "? There are ", names()));
}

Json recipe_of(const RuntimeProfile& profile, bool is_dynamic) {
  is_dynamic = is_dynamic || profile.is_dynamic;
  QDQ_CHECK(!is_dynamic || profile.can_dynamic, kInvalidArgument, "the profile ", profile.name, " is for ",
            profile.runtime, ", which does not find ranges while it runs; leave out --dynamic, and give samples");
  return format::parse_json(text_of(profile, is_dynamic), std::string(profile.name));
}

Json onnx_report(const OnnxOptions& options) {
  Json out = format::json_object({{"signed_activations", options.signed_activations},
                                  {"unsigned_weights", options.unsigned_weights},
                                  {"float16", options.float16},
                                  {"bnb4", options.bnb4}});
  if (options.opset) out["opset"] = *options.opset;
  return out;
}

Json profile_report(const RuntimeProfile& profile, bool is_dynamic) {
  using format::json_object;
  return json_object({{"name", profile.name},
                      {"runtime", profile.runtime},
                      {"file", profile.ending},
                      {"recipe", recipe_of(profile, is_dynamic)},
                      {"onnx", onnx_report(profile.onnx)},
                      {"note", profile.note}});
}

void check_ending(const RuntimeProfile& profile, std::string_view path) {
  QDQ_CHECK(path.ends_with(profile.ending), kInvalidArgument, profile.runtime, " (--for ", profile.name, ") reads a ",
            profile.ending, " file, and the output is ", path, "; give it that ending");
}

}  // namespace qdq
