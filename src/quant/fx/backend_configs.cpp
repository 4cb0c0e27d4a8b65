// PyTorch's backend configs as tables of text. Semantics: _common_operator_config_utils.py, native.py, fbgemm.py,
// x86.py, qnnpack.py, onednn.py, executorch.py and tensorrt.py in torch/ao/quantization/backend_config of PyTorch 2.6.
#include <algorithm>
#include <array>
#include <map>

#include "base/error.h"
#include "base/nearest_word.h"
#include "quant/fx/backend_config.h"

namespace qdq {

namespace {

using O = ObservationType;
constexpr O kOwn = O::kOutputUseDifferentObserverAsInput, kShared = O::kOutputShareObserverWithInput;

// Patterns with a blank between: "a+b" is b behind a, "a(b,*)" is a with its first input from b. "nn.", "nni." and "F."
// are short for torch.nn, torch.ao.nn.intrinsic and torch.nn.functional, "#" is each of 1, 2 and 3 that the backend
// has.
struct PatternRow {
  std::string_view group, patterns, root_module{}, fused_module{};
  O observation = kOwn;
  bool by_tensors = false;  // of two tensors kOwn, of a tensor and a number kShared
  double fixed_scale = 0;   // what quint8 activations must have; 0: anything
  int64_t fixed_zero_point = 0;
};
constexpr PatternRow kPatterns[] = {
    {"conv", "nn.Conv#d nni.ConvReLU#d nni.ConvBn#d nni.ConvBnReLU#d", "nn.Conv#d"},
    {"conv", "F.conv#d F.conv#d+nn.ReLU F.conv#d+F.relu"},
    {"conv", "nn.Conv#d+nn.ReLU nn.Conv#d+F.relu", "", "nni.ConvReLU#d"},
    {"conv", "nn.Conv#d+nn.BatchNorm#d", "", "nni.ConvBn#d"},
    {"conv", "nn.Conv#d+nn.BatchNorm#d+nn.ReLU nn.Conv#d+nn.BatchNorm#d+F.relu", "", "nni.ConvBnReLU#d"},
    {"conv_transpose", "nn.ConvTranspose#d", "nn.ConvTranspose#d"},
    {"conv_transpose", "nn.ConvTranspose#d+nn.BatchNorm#d", "nn.ConvTranspose#d", "nn.ConvTranspose#d"},
    {"conv_transpose", "F.conv_transpose#d"},
    {"conv_add",
     "torch.add(nn.BatchNorm2d(nn.Conv2d),*) operator.add(nn.BatchNorm2d(nn.Conv2d),*) torch.add(nn.Conv2d,*) "
     "operator.add(nn.Conv2d,*) torch.add(*,nn.BatchNorm2d(nn.Conv2d)) operator.add(*,nn.BatchNorm2d(nn.Conv2d)) "
     "torch.add(*,nn.Conv2d) operator.add(*,nn.Conv2d)",
     "", "nni.ConvAdd2d"},
    {"conv_add",
     "nn.ReLU(torch.add(nn.BatchNorm2d(nn.Conv2d),*)) nn.ReLU(operator.add(nn.BatchNorm2d(nn.Conv2d),*)) "
     "nn.ReLU(torch.add(nn.Conv2d,*)) nn.ReLU(operator.add(nn.Conv2d,*)) "
     "nn.ReLU(torch.add(*,nn.BatchNorm2d(nn.Conv2d))) nn.ReLU(operator.add(*,nn.BatchNorm2d(nn.Conv2d))) "
     "nn.ReLU(torch.add(*,nn.Conv2d)) nn.ReLU(operator.add(*,nn.Conv2d))",
     "", "nni.ConvAddReLU2d"},
    {"conv_add", "nni.ConvAdd2d nni.ConvAddReLU2d", "nn.Conv2d"},
    {"linear", "nn.Linear", "nn.Linear"},
    {"linear", "F.linear"},
    {"linear_relu", "nn.Linear+nn.ReLU nn.Linear+F.relu", "", "nni.LinearReLU"},
    {"linear_relu", "nni.LinearReLU nni.LinearBn1d", "nn.Linear"},
    {"linear_relu", "F.linear+nn.ReLU F.linear+F.relu"},
    {"linear_relu", "nn.Linear+nn.BatchNorm1d", "", "nni.LinearBn1d"},
    {"linear_activation", "nn.Linear+nn.LeakyReLU nn.Linear+F.leaky_relu nn.Linear+nn.BatchNorm1d+nn.LeakyReLU", "",
     "nni.LinearLeakyReLU"},
    {"linear_activation", "nn.Linear+nn.Tanh nn.Linear+torch.tanh", "", "nni.LinearTanh"},
    {"linear_activation", "nni.LinearLeakyReLU nni.LinearTanh", "nn.Linear"},
    {"linear_activation", "F.linear+nn.LeakyReLU F.linear+F.leaky_relu F.linear+nn.Tanh F.linear+torch.tanh"},
    {.group = "add",
     .patterns = "operator.add+nn.ReLU operator.add+F.relu operator.add+torch.relu operator.add torch.add+nn.ReLU "
                 "torch.add+F.relu torch.add+torch.relu torch.add",
     .by_tensors = true},
    {.group = "sub",
     .patterns = "operator.sub+nn.ReLU operator.sub+F.relu operator.sub+torch.relu operator.sub torch.sub+nn.ReLU "
                 "torch.sub+F.relu torch.sub+torch.relu torch.sub",
     .by_tensors = true},
    {.group = "mul",
     .patterns = "operator.mul+nn.ReLU operator.mul+F.relu operator.mul+torch.relu operator.mul torch.mul+nn.ReLU "
                 "torch.mul+F.relu torch.mul+torch.relu torch.mul",
     .by_tensors = true},
    {"matmul", "torch.matmul"},
    {"addmm", "torch.addmm"},
    {.group = "cat", .patterns = "torch.cat", .observation = kShared},
    {.group = "concat", .patterns = "torch.concat torch.concatenate", .observation = kShared},
    {"layer_norm", "nn.LayerNorm F.layer_norm"},
    {"batch_norm", "nn.BatchNorm#d+nn.ReLU nn.BatchNorm#d+F.relu", "", "nni.BNReLU#d"},
    {"batch_norm", "nn.BatchNorm#d nni.BNReLU#d"},
    {"batch_norm_alone", "nn.BatchNorm#d"},
    {"default",
     "nn.ELU nn.LeakyReLU nn.Hardswish nn.InstanceNorm1d nn.InstanceNorm2d nn.InstanceNorm3d nn.Dropout nn.PReLU F.elu "
     "F.hardswish F.leaky_relu F.dropout F.group_norm F.instance_norm"},
    {.group = "fixed_qparams",
     .patterns = "nn.Hardsigmoid F.hardsigmoid hardsigmoid hardsigmoid_ nn.Sigmoid torch.sigmoid sigmoid sigmoid_ "
                 "nn.Softmax",
     .fixed_scale = 1.0 / 256},
    {.group = "fixed_qparams",
     .patterns = "nn.Tanh torch.tanh tanh tanh_",
     .fixed_scale = 2.0 / 256,
     .fixed_zero_point = 128},
    {.group = "shares_qparams",
     .patterns =
         "nn.AdaptiveAvgPool1d nn.AdaptiveAvgPool2d nn.AdaptiveAvgPool3d nn.AvgPool1d nn.AvgPool2d nn.AvgPool3d "
         "nn.Hardtanh nn.Identity nn.MaxPool1d nn.MaxPool2d nn.MaxPool3d nn.PixelShuffle nn.PixelUnshuffle nn.ReLU "
         "nn.ReLU6 torch.adaptive_avg_pool1d F.adaptive_avg_pool2d F.adaptive_avg_pool3d F.hardtanh F.hardtanh_ "
         "F.interpolate F.max_pool1d F.max_pool2d F.max_pool3d F.pixel_shuffle F.pixel_unshuffle F.relu F.relu6 "
         "torch.avg_pool1d torch._C._nn.avg_pool2d torch._C._nn.avg_pool3d torch.clamp torch.flatten torch.mean "
         "torch.narrow torch.repeat_interleave torch.transpose torch.squeeze torch.stack torch.unsqueeze "
         "operator.floordiv contiguous clamp detach detach_ mean permute repeat repeat_interleave reshape resize_ relu "
         "relu_ squeeze squeeze_ transpose unsqueeze unsqueeze_ view",
     .observation = kShared},
    {.group = "executorch_shares_qparams",
     .patterns =
         "nn.Flatten F.adaptive_avg_pool2d F.elu F.hardtanh F.max_pool2d F.pad F.relu F.relu6 F.leaky_relu "
         "F.leaky_relu_ nn.AdaptiveAvgPool2d nn.ConstantPad2d nn.ELU nn.MaxPool2d nn.ReLU6 nn.Hardtanh nn.LeakyReLU "
         "torch.clamp torch.flatten torch.mean torch.permute torch.permute_copy torch.squeeze clamp mean permute "
         "reshape relu relu_ squeeze squeeze_ leaky_relu",
     .observation = kShared},
    {.group = "tensor_info", .patterns = "shape size", .observation = O::kInputOutputNotObserved},
    {"recurrent", "nn.GRUCell", "nn.GRUCell"},
    {"recurrent", "nn.LSTMCell", "nn.LSTMCell"},
    {"recurrent", "nn.RNNCell", "nn.RNNCell"},
    {"recurrent", "nn.LSTM", "nn.LSTM"},
    {"recurrent", "nn.GRU", "nn.GRU"},
    {"embedding", "nn.Embedding", "nn.Embedding"},
    {"embedding", "nn.EmbeddingBag", "nn.EmbeddingBag"},
    {"embedding_function", "F.embedding"},
};

const DTypeWithConstraints kQint8Act{.dtype = "qint8", .scale_min_lower_bound = 0x1p-12};
const DTypeWithConstraints kQint8Weight{
    .dtype = "qint8", .quant_min_lower_bound = -127, .quant_max_upper_bound = 127, .scale_min_lower_bound = 0x1p-12};

struct NamedDTypes {
  std::string_view name;
  DTypeConfig config;
};
DTypeConfig dtypes(std::string input, std::string output, std::string weight = "", std::string bias = "",
                   bool is_dynamic = false) {
  return {{.dtype = std::move(input)},
          {.dtype = std::move(output)},
          {.dtype = std::move(weight)},
          std::move(bias),
          is_dynamic};
}
const NamedDTypes kDTypes[] = {
    {"weighted", dtypes("quint8", "quint8", "qint8", "float32")},
    {"quint8", dtypes("quint8", "quint8")},
    {"float_weight", dtypes("quint8", "quint8", "float32", "float32")},
    {"dynamic_int8", dtypes("quint8", "float32", "qint8", "float32", true)},
    {"dynamic_float16", dtypes("float16", "float32", "float16", "float32", true)},
    {"weight_quint8", dtypes("float32", "float32", "quint8")},
    {"weight_quint4x2", dtypes("float32", "float32", "quint4x2")},
    {"weight_qint8", dtypes("float32", "float32", "qint8")},
    {"symmetric_weighted", {kQint8Act, kQint8Act, kQint8Weight, "float32"}},
    {"symmetric", {kQint8Act, kQint8Act}},
    {"dynamic_qint8", {kQint8Act, {.dtype = "float32"}, kQint8Weight, "float32", true}},
    {"qint8_weighted", dtypes("qint8", "qint8", "qint8", "float32")},
    {"qint8", dtypes("qint8", "qint8")},
};

// The groups of a backend in their order, "conv/2" with these dimensions alone, each with its dtypes.
struct BackendRow {
  std::string_view backend, groups, dtypes;
};
constexpr BackendRow kBackendRows[] = {
    {"native fbgemm x86 onednn", "conv conv_transpose", "weighted"},
    {"onednn", "conv_add", "weighted"},
    {"native fbgemm x86", "linear linear_relu", "weighted dynamic_int8 dynamic_float16"},
    {"onednn", "linear linear_relu linear_activation", "weighted dynamic_int8"},
    {"native fbgemm onednn", "add mul matmul", "quint8"},
    {"x86", "add mul matmul", "weighted"},
    {"native fbgemm x86 onednn", "cat default", "quint8"},
    {"native fbgemm onednn", "fixed_qparams", "quint8"},
    {"x86", "fixed_qparams", "weighted"},
    {"native fbgemm x86 onednn", "shares_qparams", "quint8"},
    {"native fbgemm x86", "tensor_info", "quint8"},
    {"native fbgemm x86 onednn", "batch_norm/23", "quint8"},
    {"native onednn", "layer_norm", "float_weight"},
    {"native fbgemm x86", "recurrent", "dynamic_int8 dynamic_float16"},
    {"onednn", "recurrent", "dynamic_int8"},
    {"native fbgemm x86", "embedding", "weight_quint8 weight_quint4x2"},
    {"onednn", "embedding", "weight_qint8"},

    {"qnnpack", "conv conv_transpose", "symmetric_weighted weighted"},
    {"qnnpack", "linear linear_relu", "symmetric_weighted weighted dynamic_int8 dynamic_float16"},
    {"qnnpack", "add mul matmul cat default fixed_qparams shares_qparams batch_norm/23", "symmetric quint8"},
    {"qnnpack", "recurrent", "dynamic_int8 dynamic_float16"},
    {"qnnpack", "embedding", "weight_quint8 weight_quint4x2"},

    {"executorch", "linear", "symmetric_weighted weighted dynamic_int8 dynamic_qint8 dynamic_float16"},
    {"executorch", "conv/2", "symmetric_weighted weighted"},
    {"executorch", "add sub mul", "symmetric weighted"},
    {"executorch", "executorch_shares_qparams batch_norm_alone/2 cat concat", "symmetric quint8"},
    {"executorch", "embedding embedding_function", "weight_quint8"},

    {"tensorrt", "conv conv_transpose addmm", "qint8_weighted"},
    {"tensorrt", "cat", "qint8"},
    {"tensorrt", "linear linear_relu add mul matmul", "qint8_weighted"},
    {"tensorrt", "shares_qparams tensor_info", "qint8"},
};
constexpr std::array<std::string_view, 7> kBackendNames = {"native", "fbgemm",     "x86",     "qnnpack",
                                                           "onednn", "executorch", "tensorrt"};

std::vector<std::string_view> words_of(std::string_view text, char between = ' ') {
  std::vector<std::string_view> out;
  while (!text.empty()) {
    out.push_back(text.substr(0, text.find(between)));
    text.remove_prefix(std::min(text.size(), out.back().size() + 1));
  }
  return out;
}

std::string full_name(std::string_view name) {
  if (name == "*") return "MatchAllNode";
  for (const auto& [brief, full] : {std::pair("nn.", "torch.nn."), std::pair("nni.", "torch.ao.nn.intrinsic."),
                                    std::pair("F.", "torch.nn.functional.")})
    if (name.starts_with(brief)) return concat(full, name.substr(std::string_view(brief).size()));
  return std::string(name);
}

// "a(b,c(d))"; `text` goes on behind it.
BackendPattern parse_nested(std::string_view& text) {
  const size_t end = std::min(text.size(), text.find_first_of("(,)"));
  BackendPattern out{full_name(text.substr(0, end)), {}};
  text.remove_prefix(end);
  if (!text.starts_with('(')) return out;
  while (!text.starts_with(')')) {
    text.remove_prefix(1);
    out.inputs.push_back(parse_nested(text));
  }
  text.remove_prefix(1);
  return out;
}

BackendPattern parse_pattern_text(std::string_view text) {
  if (text.find('(') != std::string_view::npos) return parse_nested(text);
  std::vector<std::string> types;
  for (const std::string_view word : words_of(text, '+')) types.push_back(full_name(word));
  return pattern_of_sequence(types);
}

std::vector<DTypeConfig> dtypes_of(const BackendRow& backend, const PatternRow& row) {
  std::vector<DTypeConfig> out;
  for (const std::string_view name : words_of(backend.dtypes))
    for (const NamedDTypes& known : kDTypes)
      if (known.name == name) out.push_back(known.config);
  if (row.fixed_scale == 0) return out;
  for (DTypeConfig& config : out)
    for (DTypeWithConstraints* dtype : {&config.input_dtype, &config.output_dtype}) {
      if (dtype->dtype != "quint8") continue;
      dtype->quant_min_lower_bound = 0;
      dtype->quant_max_upper_bound = 255;
      dtype->scale_exact_match = row.fixed_scale;
      dtype->zero_point_exact_match = row.fixed_zero_point;
    }
  return out;
}

std::string with_dimension(std::string_view text, char dimension) {
  std::string out(text);
  std::replace(out.begin(), out.end(), '#', dimension);
  return out;
}

void add_row(const PatternRow& row, const BackendRow& backend, char dimension, BackendConfig& out) {
  const std::string patterns = with_dimension(row.patterns, dimension);
  for (const std::string_view text : words_of(patterns)) {
    BackendPatternConfig config{.pattern = parse_pattern_text(text)};
    config.name = row.group;
    config.observation_type = row.observation;
    config.dtype_configs = dtypes_of(backend, row);
    config.root_module = full_name(with_dimension(row.root_module, dimension));
    config.fused_module = full_name(with_dimension(row.fused_module, dimension));
    if (row.by_tensors) config.num_tensor_args_to_observation_type = {{0, kOwn}, {1, kShared}, {2, kOwn}};
    out.set_backend_pattern_config(std::move(config));
  }
}

BackendConfig make_backend_config(std::string_view name) {
  BackendConfig out{std::string(name), {}};
  for (const BackendRow& backend : kBackendRows) {
    const std::vector<std::string_view> backends = words_of(backend.backend);
    if (std::find(backends.begin(), backends.end(), name) == backends.end()) continue;
    for (const std::string_view word : words_of(backend.groups)) {
      const size_t slash = word.find('/');
      const std::string_view group = word.substr(0, slash);
      const std::string_view dimensions = slash == std::string_view::npos ? "123" : word.substr(slash + 1);
      for (const char dimension : dimensions)
        for (const PatternRow& row : kPatterns)
          if (row.group == group && (dimension == dimensions[0] || row.patterns.find('#') != std::string_view::npos))
            add_row(row, backend, dimension, out);
    }
  }
  return out;
}

}  // namespace

const BackendConfig& get_backend_config(std::string_view name) {
  static const std::map<std::string, BackendConfig, std::less<>> known = [] {
    std::map<std::string, BackendConfig, std::less<>> out;
    for (const std::string_view backend : kBackendNames) out.emplace(backend, make_backend_config(backend));
    return out;
  }();
  const auto found = known.find(name);
  if (found != known.end()) return found->second;
  const std::string nearest =
      nearest_word(std::string(name), std::vector<std::string>(kBackendNames.begin(), kBackendNames.end()));
  fail(ErrorCode::kInvalidArgument, "there is no backend config '", name, "'; ",
       nearest.empty() ? "wanted native, fbgemm, x86, qnnpack, onednn, executorch or tensorrt"
                       : concat("did you mean '", nearest, "'?"));
}

std::vector<std::string_view> backend_config_names() { return {kBackendNames.begin(), kBackendNames.end()}; }

}  // namespace qdq
