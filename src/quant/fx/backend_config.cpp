// The native BackendConfig as a table.
#include "quant/fx/backend_config.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "graph/source_partition.h"

namespace qdq {

namespace {

using D = QuantizedDType;

constexpr DTypeConfig kWeighted{D::kQuint8, D::kQuint8, D::kQint8, D::kFloat32};
constexpr DTypeConfig kDynamicInt8{D::kQuint8, D::kFloat32, D::kQint8, D::kFloat32, true};
constexpr DTypeConfig kDynamicFloat16{D::kFloat16, D::kFloat32, D::kFloat16, D::kFloat32, true};
constexpr std::array kConvTypes = {kWeighted};
constexpr std::array kLinearTypes = {kWeighted, kDynamicInt8, kDynamicFloat16};
constexpr std::array kDefaultTypes = {DTypeConfig{D::kQuint8, D::kQuint8}};
constexpr std::array kLayerNormTypes = {DTypeConfig{D::kQuint8, D::kQuint8, D::kFloat32, D::kFloat32}};
constexpr std::array kRecurrentTypes = {kDynamicInt8, kDynamicFloat16};
constexpr std::array kEmbeddingTypes = {DTypeConfig{D::kFloat32, D::kFloat32, D::kQuint8},
                                        DTypeConfig{D::kFloat32, D::kFloat32, D::kQuint4x2}};

// Of names with a blank between; "conv.Conv1d" is short for "torch.nn.modules.conv.Conv1d", "F.elu" for
// "torch.nn.functional.elu".
struct Row {
  std::string_view types;
  BackendPattern pattern;
};
constexpr Row kRows[] = {
    {"conv.Conv1d conv.Conv2d conv.Conv3d torch.conv1d torch.conv2d torch.conv3d",
     {.name = "conv", .dtype_configs = kConvTypes, .takes_relu = true, .has_weight = true}},
    {"conv.ConvTranspose1d conv.ConvTranspose2d conv.ConvTranspose3d torch.conv_transpose1d torch.conv_transpose2d "
     "torch.conv_transpose3d",
     {.name = "conv_transpose", .dtype_configs = kConvTypes, .has_weight = true}},
    {"linear.Linear torch._C._nn.linear",
     {.name = "linear", .dtype_configs = kLinearTypes, .takes_relu = true, .has_weight = true}},
    {"torch.add _operator.add",
     {.name = "add",
      .observation = Observation::kSharedWithNumber,
      .dtype_configs = kDefaultTypes,
      .takes_relu = true}},
    {"torch.mul _operator.mul",
     {.name = "mul",
      .observation = Observation::kSharedWithNumber,
      .dtype_configs = kDefaultTypes,
      .takes_relu = true}},
    {"torch.matmul", {.name = "matmul", .dtype_configs = kDefaultTypes}},
    {"torch.cat", {.name = "cat", .observation = Observation::kShared, .dtype_configs = kDefaultTypes}},
    {"normalization.LayerNorm F.layer_norm", {.name = "layer_norm", .dtype_configs = kLayerNormTypes}},
    {"batchnorm.BatchNorm2d batchnorm.BatchNorm3d",
     {.name = "batch_norm", .dtype_configs = kDefaultTypes, .takes_relu = true}},
    {"activation.ELU activation.LeakyReLU activation.Hardswish activation.PReLU instancenorm.InstanceNorm1d "
     "instancenorm.InstanceNorm2d "
     "instancenorm.InstanceNorm3d dropout.Dropout F.elu F.hardswish F.leaky_relu F.dropout F.group_norm "
     "F.instance_norm",
     {.name = "default", .dtype_configs = kDefaultTypes}},
    {"activation.Hardsigmoid F.hardsigmoid hardsigmoid hardsigmoid_ activation.Sigmoid torch.sigmoid sigmoid sigmoid_ "
     "activation.Softmax",
     {.name = "fixed_qparams", .dtype_configs = kDefaultTypes, .fixed_scale = 1.0 / 256}},
    {"activation.Tanh torch.tanh tanh tanh_",
     {.name = "fixed_qparams", .dtype_configs = kDefaultTypes, .fixed_scale = 2.0 / 256, .fixed_zero_point = 128}},
    {"pooling.AdaptiveAvgPool1d pooling.AdaptiveAvgPool2d pooling.AdaptiveAvgPool3d pooling.AvgPool1d "
     "pooling.AvgPool2d pooling.AvgPool3d "
     "activation.Hardtanh linear.Identity pooling.MaxPool1d pooling.MaxPool2d pooling.MaxPool3d "
     "pixelshuffle.PixelShuffle "
     "pixelshuffle.PixelUnshuffle activation.ReLU activation.ReLU6 torch.adaptive_avg_pool1d F.adaptive_avg_pool2d "
     "F.adaptive_avg_pool3d "
     "F.hardtanh torch._C._nn.hardtanh_ F.interpolate F.max_pool1d F.max_pool2d F.max_pool3d torch.pixel_shuffle "
     "torch.pixel_unshuffle F.relu "
     "F.relu6 torch.avg_pool1d torch._C._nn.avg_pool2d torch._C._nn.avg_pool3d torch.clamp torch.flatten torch.mean "
     "torch.narrow "
     "torch.repeat_interleave torch.transpose torch.squeeze torch.stack torch.unsqueeze _operator.floordiv contiguous "
     "clamp detach detach_ mean "
     "permute repeat repeat_interleave reshape resize_ relu relu_ squeeze squeeze_ transpose unsqueeze unsqueeze_ view",
     {.name = "shares_qparams", .observation = Observation::kShared, .dtype_configs = kDefaultTypes}},
    {"rnn.GRUCell rnn.LSTMCell rnn.RNNCell rnn.LSTM rnn.GRU",
     {.name = "recurrent", .dtype_configs = kRecurrentTypes, .has_weight = true}},
    {"sparse.Embedding sparse.EmbeddingBag",
     {.name = "embedding", .dtype_configs = kEmbeddingTypes, .has_weight = true}},
};

// The name as the rows write it.
std::string row_name(std::string_view type) {
  constexpr std::string_view kModules = "torch.nn.modules.", kFunctions = "torch.nn.functional.";
  if (type.starts_with(kModules)) return std::string(type.substr(kModules.size()));
  if (type.starts_with(kFunctions)) return concat("F.", type.substr(kFunctions.size()));
  return std::string(type);
}

bool is_word(std::string_view words, std::string_view word) {
  for (size_t at = words.find(word); at != std::string_view::npos; at = words.find(word, at + 1))
    if ((at == 0 || words[at - 1] == ' ') && (at + word.size() == words.size() || words[at + word.size()] == ' '))
      return true;
  return false;
}

bool fits(QuantizedDType wanted, QuantizedDType found) { return wanted == D::kAny || wanted == found; }

}  // namespace

QuantizedDType quantized_dtype(const ObserverArgs& settings) {
  if (settings.qdtype == QDType::kQuint4x2) return D::kQuint4x2;
  switch (settings.dtype) {
    case DType::kU8: return D::kQuint8;
    case DType::kS8: return D::kQint8;
    case DType::kF16: return D::kFloat16;
    case DType::kF32: return D::kFloat32;
    default: return D::kOther;
  }
}

const BackendPattern* find_backend_pattern(std::string_view type) {
  const std::string name = row_name(type);
  for (const Row& row : kRows)
    if (is_word(row.types, name)) return &row.pattern;
  return nullptr;
}

std::vector<std::pair<std::vector<std::string>, const BackendPattern*>> backend_patterns() {
  std::vector<std::pair<std::vector<std::string>, const BackendPattern*>> out;
  for (const Row& row : kRows) {
    std::vector<std::string> types;
    for (std::string_view rest = row.types; !rest.empty();) {
      const std::string_view word = rest.substr(0, rest.find(' '));
      rest.remove_prefix(std::min(rest.size(), word.size() + 1));
      // Classes have their module in front, methods nothing.
      if (word.starts_with("F.")) types.push_back(concat("torch.nn.functional.", word.substr(2)));
      else if (word.find('.') != std::string_view::npos && !word.starts_with("torch.") && word[0] != '_')
        types.push_back(concat("torch.nn.modules.", word));
      else types.emplace_back(word);
    }
    out.emplace_back(std::move(types), &row.pattern);
  }
  return out;
}

std::string function_of_operator(std::string_view target) {
  constexpr std::string_view kAten = "torch.ops.aten.";
  if (!target.starts_with(kAten)) return source_name(target);
  std::string_view name = target.substr(kAten.size());
  name = name.substr(0, name.find('.'));
  if (name.size() > 1 && name.ends_with('_') && name[0] != '_') name.remove_suffix(1);
  if (name.starts_with("upsample_")) name = "interpolate";
  for (const std::string_view prefix : {"torch._C._nn.", "torch.nn.functional.", "torch.", ""})
    if (find_backend_pattern(concat(prefix, name))) return concat(prefix, name);
  return concat("torch.", name);
}

bool supports(const BackendPattern& pattern, const QConfig& qconfig, bool weight_counts) {
  const ObserverArgs activation = qconfig.activation ? qconfig.activation->settings() : ObserverArgs();
  const QuantizedDType input =
      qconfig.activation && qconfig.activation->class_name != "Identity" ? quantized_dtype(activation) : D::kAny;
  const QuantizedDType weight = qconfig.weight ? quantized_dtype(qconfig.weight->settings()) : D::kAny;
  const bool is_float16 = input == D::kFloat16 && weight == D::kFloat16 && !activation.is_dynamic;
  if (pattern.fixed_scale != 0 && input == D::kQuint8)
    if (activation.scale != pattern.fixed_scale || activation.zero_point != pattern.fixed_zero_point) return false;
  for (const DTypeConfig& config : pattern.dtype_configs)
    if (fits(config.input, input) && config.is_dynamic == activation.is_dynamic &&
        fits(config.output, activation.is_dynamic ? D::kFloat32 : input) &&
        (!weight_counts || (fits(config.weight, weight) && fits(config.bias, is_float16 ? D::kFloat16 : D::kFloat32))))
      return true;
  return false;
}

}  // namespace qdq
