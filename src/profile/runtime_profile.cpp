// The table of runtimes, and the recipes that it makes.
#include "profile/runtime_profile.h"

#include <algorithm>

#include "base/nearest_word.h"
#include "format/json.h"
#include "op/facts.h"
#include "op/targets.h"
#include "quant/quantizers/patterns.h"

namespace qdq {

namespace {

using format::Json;

constexpr std::string_view kConvolution = "convolution";  // the names of their rules
constexpr std::string_view kTransposed = "transposed convolution";
constexpr std::string_view kCat = "aten.cat", kSigmoid = "aten.sigmoid";
constexpr std::string_view kConvolutions = "aten.conv1d aten.conv2d";
constexpr std::string_view kTransposedConvolutions = "aten.conv_transpose1d aten.conv_transpose2d";
constexpr std::string_view kAveragePools = "aten.avg_pool1d aten.avg_pool2d aten.adaptive_avg_pool2d";
constexpr std::string_view kMaxPools = "aten.max_pool1d aten.max_pool2d";
constexpr std::string_view kMoves =
    "aten.view aten.reshape aten.flatten aten.permute aten.transpose aten.squeeze aten.unsqueeze aten.slice "
    "aten.select aten.expand";
constexpr std::string_view kClips = "aten.relu aten.relu6 aten.hardtanh aten.clamp aten.clamp_min";
constexpr RuntimeRule::Range kUnit = {0, 1}, kBothSides = {-1, 2};  // of sigmoid and softmax, of tanh

// Rows of int8, each with its scale: operators/gather.py of ONNX Runtime's quantization tools.
constexpr RuntimeRule kEmbedding = {"embedding", "aten.embedding", IntegerForm::kTable, "Gather"};

// ONNX Runtime's CPU provider, native and Web: onnxruntime/core/optimizer/qdq_transformer/selectors_actions of
// github.com/microsoft/onnxruntime. qdq_selector_action_transformer.cc lists what is joined to which operator, and the
// Check functions of qdq_selectors.cc say what each asks for. Convolutions want a quantized result, Gemm and MatMul do
// not. What is behind an addition of floats stays float. Recipes leave softmax in float: its input is often masked, and
// 8 bits do not hold a mask and the numbers beside it.
constexpr RuntimeRule kOnnxRuntime[] = {
    {.name = kConvolution,
     .operators = "aten.conv1d aten.conv2d aten.conv3d",
     .form = IntegerForm::kLayer,
     .kernel = "QLinearConv",
     .dynamic_kernel = "ConvInteger"},
    {.name = "linear",
     .operators = "aten.linear",
     .form = IntegerForm::kOpenLayer,
     .kernel = "QGemm or MatMulIntegerToFloat",
     .dynamic_kernel = "DynamicQuantizeMatMul or MatMulIntegerToFloat"},
    {"product", "aten.matmul aten.bmm aten.mm", IntegerForm::kProduct, "QLinearMatMul or MatMulIntegerToFloat"},
    {"addition", "aten.add.Tensor", IntegerForm::kElements, "QLinearAdd"},
    {"multiplication", "aten.mul.Tensor", IntegerForm::kElements, "QLinearMul"},
    {"sigmoid", kSigmoid, IntegerForm::kElements, "QLinearSigmoid", kUnit},
    {.name = "softmax",
     .operators = "aten.softmax",
     .form = IntegerForm::kElements,
     .kernel = "QLinearSoftmax",
     .is_foreign = true},
    {"leaky relu", "aten.leaky_relu", IntegerForm::kElements, "QLinearLeakyRelu"},
    {"average pool", kAveragePools, IntegerForm::kElements, "QLinearAveragePool"},
    {"cat", kCat, IntegerForm::kElements, "QLinearConcat"},
    {"max pool", kMaxPools, IntegerForm::kSameTerms, "MaxPool"},
    {"resize", "aten.upsample_nearest1d aten.upsample_nearest2d", IntegerForm::kSameTerms, "Resize"},
    {"move", kMoves, IntegerForm::kSameTerms},
    kEmbedding};

// Its dynamic form: DynamicQuantizeLinear and MatMulInteger or ConvInteger (operators/matmul.py and conv.py there).
constexpr RuntimeRule kOnnxRuntimeDynamic[] = {
    {"linear", "aten.linear", IntegerForm::kOpenLayer, "DynamicQuantizeMatMul"},
    {kConvolution, "aten.conv1d aten.conv2d aten.conv3d", IntegerForm::kOpenLayer, "ConvInteger"},
    kEmbedding};

// WebNN as Chromium builds it for LiteRT: CanFuseQuantizeAndGetOutput of services/webnn/tflite/graph_builder_tflite.cc
// asks for activations and weights of one data type, for a bias, for scales that are one number, and for the ranges of
// sigmoid, softmax and tanh that LiteRT's specification of int8 gives
// (ai.google.dev/edge/litert/models/quantization_spec).
constexpr RuntimeRule kWebnn[] = {{kConvolution, kConvolutions, IntegerForm::kLayer, "conv2d"},
                                  {"linear", "aten.linear", IntegerForm::kLayer, "gemm"},
                                  {"addition", "aten.add.Tensor", IntegerForm::kElements, "add"},
                                  {"subtraction", "aten.sub.Tensor", IntegerForm::kElements, "sub"},
                                  {"multiplication", "aten.mul.Tensor", IntegerForm::kElements, "mul"},
                                  {"sigmoid", kSigmoid, IntegerForm::kElements, "sigmoid", kUnit},
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
    {.name = kTransposed,
     .operators = kTransposedConvolutions,
     .form = IntegerForm::kLayer,
     .kernel = "ConvolutionBackpropData",
     .weight_axis = 1},
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
// onnxruntime/python/tools/quantization/execution_providers/qnn/quant_config.py. Scales of transposed convolutions are
// of the second axis: QDQConv of onnxruntime/python/tools/quantization/operators/conv.py.
constexpr RuntimeRule kQnn[] = {
    {kConvolution, kConvolutions, IntegerForm::kLayer, "Conv2d"},
    {.name = kTransposed,
     .operators = kTransposedConvolutions,
     .form = IntegerForm::kLayer,
     .kernel = "TransposeConv2d",
     .weight_axis = 1},
    {"linear", "aten.linear", IntegerForm::kLayer, "FullyConnected"},
    {"product", "aten.matmul aten.bmm", IntegerForm::kElements, "MatMul"},
    {"addition", "aten.add.Tensor", IntegerForm::kElements, "ElementWiseAdd"},
    {"subtraction", "aten.sub.Tensor", IntegerForm::kElements, "ElementWiseSubtract"},
    {"multiplication", "aten.mul.Tensor", IntegerForm::kElements, "ElementWiseMultiply"},
    {"division", "aten.div.Tensor", IntegerForm::kElements, "ElementWiseDivide"},
    {"relu", "aten.relu aten.hardtanh aten.relu6 aten.clamp aten.clamp_min", IntegerForm::kElements, "ReluMinMax"},
    {"sigmoid", kSigmoid, IntegerForm::kElements, "Sigmoid", kUnit},
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

// ExecuTorch's XNNPACK partitioner takes dequantize nodes, an operator, what it fuses and a quantize node together:
// GEMMConfig of gemm_configs.py and the STATIC_QUANT classes of generic_node_configs.py in
// backends/xnnpack/partition/config of github.com/pytorch/executorch (August 2026). It sees what decompositions leave:
// pools to 1 x 1 are mean.dim, relu6 is hardtanh, flatten is view_copy. tests/unit/cli/executorch_test.cpp has those
// rules as data of its own.
constexpr std::string_view kXnnpackClips = "aten.relu aten.relu6 aten.hardtanh";
constexpr std::string_view kNothing = "";

bool is_open(const Node* node) {
  const TensorMeta* meta = node ? node->meta.val.tensor() : nullptr;
  return meta != nullptr && std::any_of(meta->sizes.begin(), meta->sizes.end(),
                                        [](const SymInt& size) { return !size.constant().has_value(); });
}

// ConvolutionConfig: of dynamic ones those over images alone, and none of one channel each.
std::string refuses_convolution(const Node& node, bool is_dynamic) {
  if (!is_dynamic) return "";
  const TensorMeta* meta = node.meta.val.tensor();
  if (meta == nullptr || meta->sizes.size() != 4) return "only dynamic convolutions over images are taken";
  return node.arg(6).integer().value_or(1) > 1 ? "only dynamic convolutions without groups are taken" : "";
}

// ConvolutionConfig: of transposed ones those without groups whose scales are of the results' channels.
std::string refuses_transposed(const Node& node, bool /*is_dynamic*/) {
  const Node* weight = weight_of(node);
  if (weight == nullptr || !weight->is(op::kDequantizeChannels)) return "";
  const bool is_taken = weight->arg(3).integer() == 1 && node.arg(6).integer().value_or(1) == 1;
  return is_taken ? "" : "scales by channel are taken only for the second axis of its weight, and without groups";
}

// GEMMConfig: dynamic products want a scale for each channel of the weight.
std::string refuses_linear(const Node& node, bool is_dynamic) {
  const Node* weight = weight_of(node);
  return is_dynamic && weight && weight->is(op::kDequantize)
             ? "dynamic products want a scale for each channel of the weight"
             : "";
}

// ViewCopyConfig, SliceCopyConfig and UnsqueezeCopyConfig.
std::string refuses_move(const Node& node, bool /*is_dynamic*/) {
  const bool is_slice = is_one_of(node, "aten.slice");
  if (!is_one_of(node, "aten.permute aten.transpose") && is_open(&node)) return "its result has open sizes";
  if (is_slice && (is_open(node.arg(0).node()) || node.arg(4).integer().value_or(1) != 1))
    return "only slices with steps of 1 and known sizes are taken";
  const TensorMeta* meta = node.meta.val.tensor();
  if (is_one_of(node, "aten.unsqueeze") && meta && node.arg(1).integer().value_or(0) != -1 &&
      node.arg(1).integer().value_or(0) != static_cast<int64_t>(meta->sizes.size()) - 1)
    return "axes are added only behind the last one";
  return "";
}

// MaxPool2dConfig: strides no larger than windows, and ceil_mode for known sizes.
std::string refuses_max_pool(const Node& node, bool /*is_dynamic*/) {
  const auto of = [&](size_t argument, size_t i) -> int64_t {
    const Argument& value = node.arg(argument);
    if (!value.is_list()) return value.integer().value_or(0);
    const Argument::List& list = value.list();
    return list.empty() ? 0 : list[std::min(i, list.size() - 1)].integer().value_or(0);
  };
  for (const size_t i : {size_t{0}, size_t{1}})
    if (of(2, i) > of(1, i)) return "its stride is larger than its window";
  return node.arg(5).integer().value_or(0) != 0 && is_open(&node) ? "it rounds open sizes up" : "";
}

constexpr RuntimeRule kExecutorch[] = {
    {.name = kConvolution,
     .operators = kConvolutions,
     .form = IntegerForm::kLayer,
     .kernel = "Conv2d",
     .fused = kXnnpackClips,
     .refuses = refuses_convolution},
    {.name = kTransposed,
     .operators = kTransposedConvolutions,
     .form = IntegerForm::kLayer,
     .kernel = "ConvTranspose2d",
     .fused = kXnnpackClips,
     .is_foreign = true,
     .refuses = refuses_transposed},
    {.name = "linear",
     .operators = "aten.linear",
     .form = IntegerForm::kLayer,
     .kernel = "FullyConnected",
     .fused = kXnnpackClips,
     .refuses = refuses_linear},
    {.name = "addition",
     .operators = "aten.add.Tensor",
     .form = IntegerForm::kElements,
     .kernel = "Add",
     .fused = "aten.relu"},
    {.name = "subtraction",
     .operators = "aten.sub.Tensor",
     .form = IntegerForm::kElements,
     .kernel = "Subtract",
     .fused = kNothing},
    {.name = "multiplication",
     .operators = "aten.mul.Tensor",
     .form = IntegerForm::kElements,
     .kernel = "Multiply",
     .fused = kNothing},
    {.name = "mean",
     .operators = "aten.mean.dim aten.adaptive_avg_pool2d",
     .form = IntegerForm::kElements,
     .kernel = "GlobalAvgPooling2d",
     .only_global_pools = true},
    {.name = "cat", .operators = kCat, .form = IntegerForm::kSameTerms, .kernel = "Concatenate"},
    {.name = "max pool",
     .operators = "aten.max_pool2d",
     .form = IntegerForm::kSameTerms,
     .kernel = "MaxPooling2d",
     .refuses = refuses_max_pool},
    {.name = "clamp",
     .operators = "aten.relu aten.relu6 aten.hardtanh aten.clamp",
     .form = IntegerForm::kSameTerms,
     .kernel = "Clamp"},
    {.name = "move",
     .operators = "aten.view aten.reshape aten.flatten aten.permute aten.transpose aten.slice aten.unsqueeze",
     .form = IntegerForm::kSameTerms,
     .refuses = refuses_move}};

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
     .keeps_residuals = true,
     .note = "it takes no open sizes: fix them by --fix, or by freeDimensionOverrides of the session"},
    // uint8 activations, symmetric int8 weights by channel: the default preset of NNCF. Saturation without VNNI:
    // docs.openvino.ai, "Saturation (overflow) Issue Workaround".
    {.name = "openvino",
     .runtime = "OpenVINO on CPUs and GPUs",
     .ending = ".onnx",
     .fused = kClips,
     .rules = kOpenVino,
     .saturates = true},
    // uint8 activations, uint16 ones where asked for, and the least range of 0.0001 that all profiles here have:
    // get_qnn_qdq_config. Scales by channel for convolutions alone: pull request 20154 of microsoft/onnxruntime.
    {.name = "qnn",
     .runtime = "ONNX Runtime with Qualcomm's QNN (HTP)",
     .ending = ".onnx",
     .is_by_channel_in_convolutions_alone = true,
     .can_16_bits = true,
     .fused = kClips,
     .rules = kQnn,
     .quantizes_all = true,
     .note = "operators that stay float run on the CPU"},
    {.name = "executorch",
     .runtime = "ExecuTorch with XNNPACK",
     .ending = ".pt2",
     .activations = DType::kS8,
     .can_dynamic = true,
     .rules = kExecutorch,
     .wants_same_dtypes = true,
     .clips_freely = true,
     .dynamic = "XNNPACKQuantizer",
     .note = "to_edge_transform_and_lower with XnnpackPartitioner makes a .pte of the file"},
    // Weights of 7 bits: quantization.html as above, "When and why do I need to try U8U8?" and reduce_range: without
    // VNNI two products are added in 16 bits, and 2 * 255 * 63 fits. From -64 on, the scale would be the largest weight
    // over 63.5, which 63 cuts off: in every other channel the weight that matters most would lose half a step or more.
    {.name = "x86",
     .runtime = "ONNX Runtime on any x86-64, without VNNI too",
     .ending = ".onnx",
     .weight_min = -63,
     .weight_max = 63,
     .can_dynamic = true,
     .fused = kClips,
     .rules = kOnnxRuntime,
     .joins_lone_int8 = true}};

// The least scales. That of activations is a range of 1e-4, the MinimumRealRange of ONNX Runtime's tools for QNN; with
// that of weights a bias fits int32 in units of both. Texts have six digits of a number.
constexpr double kLeastScale = 4e-7, kLeastScaleOf16Bits = 1.5e-9, kLeastWeightScale = 1.5e-5;

std::string names() {
  std::string out;
  for (const RuntimeProfile& profile : kProfiles) out += concat(out.empty() ? "" : ", ", profile.name);
  return out;
}

// Recipes are put together as text, which takes a fifth of the code that values of JSON take.

// A profile as its settings make it.
struct Wanted {
  const RuntimeProfile& profile;
  RuntimeSettings settings;
  bool has_16_bits() const { return settings.activation_bits == 16; }
  bool has_7_bits() const { return settings.weight_bits == 7 || profile.weight_max < 64; }
  DType activations() const { return has_16_bits() ? DType::kU16 : profile.activations; }
};

// 65536 integers leave nothing to gain by cutting off ends of a range, for which a histogram would look.
std::string activation_spec(const Wanted& wanted) {
  const DType dtype = wanted.activations();
  const bool is_dynamic = wanted.settings.is_dynamic;
  return concat(R"({"spec": "quantization", "dtype": ")", to_string(dtype), R"(", "quant_min": )", min_of(dtype),
                R"(, "quant_max": )", max_of(dtype), R"(, "qscheme": "per_tensor_affine", "is_dynamic": )",
                is_dynamic ? "true" : "false", R"(, "observer": {"class": ")",
                is_dynamic             ? "PlaceholderObserver"
                : wanted.has_16_bits() ? "MinMaxObserver"
                                       : "HistogramObserver",
                R"(", "args": {"eps": )", wanted.has_16_bits() ? kLeastScaleOf16Bits : kLeastScale, "}}}");
}

// The axis along which weights have a scale by channel; nothing: they have one scale.
using WeightAxis = std::optional<int64_t>;

// `is_table`: rows are looked up, and nothing sums them, so that nothing saturates.
std::string weight_spec(const Wanted& wanted, WeightAxis axis, bool is_table) {
  const bool is_narrow = wanted.settings.weight_bits == 7;
  const int64_t least = is_table ? -127 : is_narrow ? -63 : wanted.profile.weight_min;
  const int64_t most = is_table ? 127 : is_narrow ? 63 : wanted.profile.weight_max;
  return concat(R"({"spec": "quantization", "dtype": "int8", "quant_min": )", least, R"(, "quant_max": )", most,
                R"(, "qscheme": "per_)", axis ? "channel" : "tensor", "_symmetric\"",
                axis ? concat(R"(, "ch_axis": )", *axis) : "", R"(, "observer": {"class": ")", axis ? "PerChannel" : "",
                R"(MinMaxObserver", "args": {"eps": )", kLeastWeightScale, "}}}");
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

// Of operators on elements: which of them are quantized.
std::string_view inputs_of(const RuntimeProfile& profile, const RuntimeRule& rule) {
  if (profile.quantizes_all) return "";
  const bool is_sum = rule.name == "addition" || rule.name == "subtraction";
  return profile.keeps_residuals && is_sum ? R"(, "inputs": "all_behind_quantized")"
                                           : R"(, "inputs": "behind_quantized")";
}

// The rows of a rule: with what is computed along with it, then without.
void add_rows(const Wanted& wanted, const RuntimeRule& rule, std::string& rows) {
  const RuntimeProfile& profile = wanted.profile;
  const bool is_layer = rule.form == IntegerForm::kLayer || rule.form == IntegerForm::kOpenLayer;
  const bool is_open = rule.form == IntegerForm::kOpenLayer || rule.form == IntegerForm::kProduct;
  const std::string operators = words(rule.operators);
  if (rule.form == IntegerForm::kSameTerms && rule.operators != kCat)
    return add_row(rows, rule.name, operators, R"(, "inputs": "handed_on")");
  std::string rest;
  if (rule.form == IntegerForm::kTable) return add_row(rows, rule.name, operators, R"(, "output": "float")");
  if (!is_layer && rule.form != IntegerForm::kProduct)
    rest = concat(inputs_of(profile, rule), R"(, "only_float32": true)");
  if (is_open) rest += R"(, "output": "float")";
  if (rule.form == IntegerForm::kSameTerms) rest += R"(, "output": "like_input")";
  if (rule.range) {
    const DType dtype = wanted.activations();
    const double steps = wanted.has_16_bits() ? 65536 : 256;
    const int64_t least = min_of(dtype);
    rest += concat(R"(, "output": {"spec": "fixed_qparams", "dtype": ")", to_string(dtype), R"(", "scale": )",
                   format::print_json(Json(rule.range->width / steps)), R"(, "zero_point": )",
                   least - static_cast<int64_t>(rule.range->low * steps / rule.range->width), R"(, "quant_min": )",
                   least, R"(, "quant_max": )", max_of(dtype), "}");
  }
  if (rule.only_global_pools) rest += R"(, "only_global_pools": true)";
  const std::string_view fused = rule.fused.value_or(profile.fused);
  const bool takes_more =
      !fused.empty() && (rule.form == IntegerForm::kLayer || rule.name == "addition" || rule.name == "multiplication");
  if (takes_more) add_row(rows, concat(rule.name, " and what follows"), concat(operators, ", ", words(fused)), rest);
  add_row(rows, rule.name, operators, rest);
}

WeightAxis weight_axis_of(const RuntimeProfile& profile, const RuntimeRule& rule) {
  const bool has_channels =
      !profile.is_by_channel_in_convolutions_alone || rule.name == kConvolution || rule.name == kTransposed;
  return has_channels ? WeightAxis(rule.weight_axis) : std::nullopt;
}

// Rules of one kind of weights, which are a quantizer.
struct Part {
  WeightAxis axis;
  bool is_table = false;  // tables whose integers are others than those of layers
  std::vector<const RuntimeRule*> rules = {};
};
// The last part has the operators without weights, which stand behind others.
std::vector<Part> parts_of(const Wanted& wanted) {
  Part parts[] = {{.axis = 0, .is_table = true}, {.axis = 1}, {.axis = 0}, {}};
  for (const RuntimeRule& rule : wanted.profile.rules) {
    if (rule.is_foreign) continue;
    const bool is_table = rule.form == IntegerForm::kTable && wanted.has_7_bits();
    for (Part& part : parts)
      if (part.is_table == is_table && part.axis == weight_axis_of(wanted.profile, rule)) part.rules.push_back(&rule);
  }
  std::vector<Part> out;
  for (Part& part : parts)
    if (!part.rules.empty()) out.push_back(std::move(part));
  return out;
}

// The rules as a quantizer's recipe.
std::string patterns_of(const Wanted& wanted, const Part& part) {
  const bool is_dynamic = wanted.settings.is_dynamic;
  std::string rows;
  bool has_sigmoid = false;
  for (const RuntimeRule* rule : part.rules) {
    has_sigmoid |= rule->operators == kSigmoid;
    if (!is_dynamic) add_rows(wanted, *rule, rows);
    else if (rule->form == IntegerForm::kOpenLayer || rule->form == IntegerForm::kTable)
      add_row(rows, rule->name, words(rule->operators), R"(, "modes": ["dynamic"], "output": "float")");
  }
  // Once more, for what stands behind an operator that only the first turn has found.
  for (const RuntimeRule* rule : part.rules)
    if (!is_dynamic && (rule->form == IntegerForm::kElements || rule->form == IntegerForm::kSameTerms))
      add_rows(wanted, *rule, rows);
  const std::string activation = activation_spec(wanted);
  // SiLU is a sigmoid and a product to runtimes that have integers of those, and none of SiLU.
  const bool splits_silu = has_sigmoid && !is_dynamic;
  const std::string weight = weight_spec(wanted, part.axis, part.is_table);
  return concat(R"({"quantizer": "PatternQuantizer", "name": ")", wanted.profile.name, R"(", "patterns": [)", rows, "]",
                splits_silu ? R"(, "transform": "split_silu")" : "", R"(, "global": {"input_activation": )", activation,
                R"(, "weight": )", weight, is_dynamic ? "" : R"(, "output_activation": )", is_dynamic ? "" : activation,
                "}}");
}

std::string text_of(const Wanted& wanted) {
  const RuntimeProfile& profile = wanted.profile;
  if (wanted.settings.is_dynamic && !profile.dynamic.empty())
    return concat(R"({"quantizer": ")", profile.dynamic,
                  R"(", "global": {"is_per_channel": true, "is_dynamic": true}})");
  const std::vector<Part> parts = parts_of(wanted);
  if (parts.size() == 1) return patterns_of(wanted, parts[0]);
  std::string quantizers;
  for (const Part& part : parts) quantizers += concat(quantizers.empty() ? "" : ", ", patterns_of(wanted, part));
  return concat(R"({"quantizer": "ComposableQuantizer", "quantizers": [)", quantizers, "]}");
}

void check_settings(const RuntimeProfile& profile, const RuntimeSettings& settings) {
  QDQ_CHECK(!settings.is_dynamic || profile.can_dynamic, kInvalidArgument, "the profile ", profile.name, " is for ",
            profile.runtime, ", which does not find ranges while it runs; leave out --dynamic, and give samples");
  QDQ_CHECK(settings.activation_bits == 8 || settings.activation_bits == 16, kInvalidArgument,
            "a profile's activations have 8 or 16 bits, found ", settings.activation_bits);
  QDQ_CHECK(settings.activation_bits == 8 || profile.can_16_bits, kInvalidArgument, profile.runtime, " (", profile.name,
            ") has no kernels for activations of 16 bits and would compute in float; only qnn has");
  QDQ_CHECK(settings.weight_bits == 7 || settings.weight_bits == 8, kInvalidArgument,
            "a profile's weights have 7 or 8 bits, found ", settings.weight_bits);
  QDQ_CHECK(settings.weight_bits == 8 || profile.weight_max < 64 || profile.saturates, kInvalidArgument,
            "weights of 7 bits keep sums from saturating, and those of ", profile.runtime, " (", profile.name,
            ") do not; leave the bits out");
  QDQ_CHECK(settings.weight_bits == 8 || profile.weight_max >= 64, kInvalidArgument, "the profile ", profile.name,
            " gives weights 7 bits by itself; leave the bits out");
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

Json recipe_of(const RuntimeProfile& profile, const RuntimeSettings& settings) {
  Wanted wanted{profile, settings};
  wanted.settings.is_dynamic |= profile.is_dynamic;
  check_settings(profile, wanted.settings);
  return format::parse_json(text_of(wanted), std::string(profile.name));
}

OnnxOptions onnx_options_of(const RuntimeProfile& profile, const RuntimeSettings& settings) {
  check_settings(profile, settings);
  OnnxOptions out = profile.onnx;
  if (settings.activation_bits == 16) out.opset = 21;
  return out;
}

Json onnx_report(const OnnxOptions& options) {
  Json out = format::json_object({{"signed_activations", options.signed_activations},
                                  {"unsigned_weights", options.unsigned_weights},
                                  {"dedicated_pairs", options.dedicated_pairs},
                                  {"float16", options.float16},
                                  {"bnb4", options.bnb4}});
  if (options.opset) out["opset"] = *options.opset;
  if (options.accuracy_level) out["accuracy_level"] = *options.accuracy_level;
  if (options.format == OnnxFormat::kQOperator) out["format"] = "qoperator";
  if (options.groups != OnnxGroups::kDefault) out["groups"] = to_string(options.groups);
  return out;
}

Json profile_report(const RuntimeProfile& profile, const RuntimeSettings& settings) {
  using format::json_object;
  return json_object({{"name", profile.name},
                      {"runtime", profile.runtime},
                      {"file", profile.ending},
                      {"recipe", recipe_of(profile, settings)},
                      {"onnx", onnx_report(onnx_options_of(profile, settings))},
                      {"note", profile.note}});
}

}  // namespace qdq
