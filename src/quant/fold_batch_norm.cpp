// Folding of batch norm into convolutions.
#include "quant/fold_batch_norm.h"

#include <algorithm>
#include <cmath>

#include "graph/dead_code.h"
#include "op/facts.h"
#include "op/targets.h"

namespace qdq {

namespace {

struct FoldedNorm : ConvBn {
  Tensor gamma, beta, mean, var;  // gamma and beta may be undefined
  double eps = 1e-5;
};

Tensor constant_of(const Program& program, const Node& norm, const Argument& argument) {
  if (argument.is_none()) return {};
  const Node* node = argument.node();
  if (node == nullptr || node->op() != Node::Op::kGetAttr)
    throw Error(ErrorCode::kUnsupported,
                concat("cannot fold batch norm ", norm.name(),
                       ": its statistics or weights are computed by the graph, not stored in the model"),
                norm.name(), norm.target());
  return program.attribute_of(*node);
}

bool can_fold(const Tensor& tensor) {
  return !tensor.defined() || tensor.dtype() == DType::kF32 || tensor.dtype() == DType::kF16 ||
         tensor.dtype() == DType::kBF16;
}

// The batch norm's parts, or nothing if one is no constant of float32, float16 or bfloat16.
std::optional<FoldedNorm> read(const Program& program, const ConvBn& parts) {
  const Node* norm = parts.norm;
  FoldedNorm out{parts, {}, {}, {}, {}, 1e-5};
  if (out.weight == nullptr || out.weight->op() != Node::Op::kGetAttr) return std::nullopt;
  if (out.bias != nullptr && out.bias->op() != Node::Op::kGetAttr) return std::nullopt;
  out.gamma = constant_of(program, *norm, norm->arg(1));
  out.beta = constant_of(program, *norm, norm->arg(2));
  out.mean = constant_of(program, *norm, norm->arg(3));
  out.var = constant_of(program, *norm, norm->arg(4));
  if (!out.mean.defined() || !out.var.defined()) return std::nullopt;
  out.eps = norm->arg(norm->target() == op::kBatchNorm ? 7 : 6).number().value_or(1e-5);
  const Tensor weight = program.attribute_of(*out.weight);
  if (!can_fold(weight) || !can_fold(out.gamma) || !can_fold(out.beta) || !can_fold(out.mean) || !can_fold(out.var) ||
      (out.bias && !can_fold(program.attribute_of(*out.bias))))
    return std::nullopt;
  return out;
}

// The batch norm's parts, or nothing if it cannot be folded.
std::optional<FoldedNorm> foldable(const Program& program, Node* norm, Compat compat) {
  Node* conv = norm->arg(0).node();
  if (conv == nullptr || !(is_conv(*conv) || is_conv_transpose(*conv))) return std::nullopt;
  const bool plain = norm->target() == op::kBatchNorm;
  // The training form normalises with the batch's own statistics, so there is nothing to fold.
  if (plain && norm->arg(5).is<bool>() && norm->arg(5).as<bool>() && compat == Compat::kNone) return std::nullopt;
  if (compat == Compat::kNone && conv->users().size() != 1) return std::nullopt;
  return read(program, {conv, conv->arg(1).node(), conv, conv->arg(2).node(), conv, norm});
}

// A number of each channel. Operators round to the dtype as PyTorch's do.
struct Channels {
  std::vector<float> values;
  DType dtype = DType::kF32;
};

float rounded(float value, DType dtype) {
  return dtype == DType::kF16 ? F16(value) : dtype == DType::kBF16 ? BF16(value) : value;
}

Channels combined(const Channels& a, const Channels& b, float (*compute)(float, float)) {
  Channels out{{}, a.dtype == b.dtype ? a.dtype : DType::kF32};
  for (size_t c = 0; c < a.values.size(); ++c)
    out.values.push_back(rounded(compute(a.values[c], b.values[c]), out.dtype));
  return out;
}

Channels product(const Channels& a, const Channels& b) {
  return combined(a, b, [](float x, float y) { return x * y; });
}

// Channel by channel: what the weight is multiplied with, and the new bias.
struct NormFactors {
  Channels factor, bias;
};

// As fuse_conv_bn_weights of PyTorch 2.6 (torch/nn/utils/fusion.py).
NormFactors factors_of(const FoldedNorm& fold, const Tensor& conv_bias) {
  const size_t channels = static_cast<size_t>(fold.mean.numel());
  const auto values = [&](const Tensor& tensor, float otherwise, const char* what) {
    if (!tensor.defined()) return Channels{std::vector<float>(channels, otherwise), fold.mean.dtype()};
    QDQ_CHECK(static_cast<size_t>(tensor.numel()) == channels, kInvalidArgument, "the batch norm ", fold.norm->name(),
              " has ", channels, " channels, but its ", what, " has ", tensor.numel(), " elements");
    const Tensor flat = tensor.to(DType::kF32).contiguous();
    return Channels{{flat.span<float>().begin(), flat.span<float>().end()}, tensor.dtype()};
  };
  const Channels gamma = values(fold.gamma, 1.0f, "weight"), beta = values(fold.beta, 0.0f, "bias");
  const Channels bias = values(conv_bias, 0.0f, "convolution's bias"), mean = values(fold.mean, 0.0f, "mean");
  Channels root = values(fold.var, 0.0f, "variance");
  // Vectors of 32 stay in float until the end, and what is left is a half after each step.
  constexpr size_t kVector = 32;
  for (size_t c = 0; c < channels; ++c) {
    float& value = root.values[c];
    value = rounded(value + rounded(static_cast<float>(fold.eps), root.dtype), root.dtype);
    const bool is_left = c >= channels / kVector * kVector;
    value = rounded(1.0f / (is_left ? rounded(std::sqrt(value), root.dtype) : std::sqrt(value)), root.dtype);
  }
  const Channels centered = combined(bias, mean, [](float x, float y) { return x - y; });
  return {product(gamma, root),
          combined(product(product(centered, root), gamma), beta, [](float x, float y) { return x + y; })};
}

Tensor scaled_weight(const FoldedNorm& fold, const Tensor& weight, const std::vector<float>& factor) {
  const bool transposed = is_a(*fold.conv, Family::kTransposedConvolution);
  const int64_t axis = transposed ? 1 : 0;
  const int64_t groups = transposed ? fold.conv->arg(6).integer().value_or(1) : 1;
  const int64_t out_channels = weight.dim() > axis ? weight.size(axis) * groups : -1;
  QDQ_CHECK(out_channels == static_cast<int64_t>(factor.size()) && groups >= 1 && weight.size(0) % groups == 0,
            kInvalidArgument, "the batch norm ", fold.norm->name(), " has ", factor.size(),
            " channels, but the convolution ", fold.conv->name(), " in front of it has the weight ",
            to_string(weight.sizes()));
  const Tensor from = weight.to(DType::kF32).contiguous();
  const Tensor out(std::make_shared<Storage>(from.nbytes()), DType::kF32, from.sizes(),
                   contiguous_strides(from.sizes()), 0);
  const float* old = from.data<float>();
  float* scaled = out.data<float>();
  const int64_t rows = axis == 0 ? out.size(0) : out.size(0) * out.size(1),
                inner = out.numel() / std::max<int64_t>(1, rows);
  for (int64_t row = 0; row < rows; ++row) {
    // A transposed convolution's weight is [in, out / groups, ...]: its group follows from the input channel.
    const int64_t channel =
        transposed ? (row / out.size(1)) / (out.size(0) / groups) * out.size(1) + row % out.size(1) : row;
    const float scale = factor[static_cast<size_t>(channel)];
    for (int64_t i = row * inner; i < (row + 1) * inner; ++i) scaled[i] = old[i] * scale;
  }
  return out.to(weight.dtype());
}

// Writes a parameter's new value, under a name of its own if others read the old one too (unless PyTorch is followed).
void store(Program& program, Node* get_attr, const Node* reader, Tensor value, Compat compat) {
  bool shared = false;
  for (const Node* node : program.graph->nodes())
    if (node->op() == Node::Op::kGetAttr && node->target() == get_attr->target())
      for (const Node* user : node->users()) shared = shared || user != reader;
  if (!shared || compat == Compat::kTorch26) {
    program.find_attribute(get_attr->target())->tensor = std::move(value);
    return;
  }
  Attribute copy = *program.find_attribute(get_attr->target());
  copy.name = program.unique_attribute_name(copy.name + "_folded");
  copy.tensor = std::move(value);
  const auto point = program.graph->insert_before(const_cast<Node*>(reader));
  Node* own = program.graph->get_attr(copy.name);
  own->meta = get_attr->meta;
  const_cast<Node*>(reader)->replace_input_with(get_attr, own);
  program.add_attribute(std::move(copy));
}

void fold(Program& program, const FoldedNorm& parts, Compat compat) {
  const Tensor old_bias = parts.bias ? program.attribute_of(*parts.bias) : Tensor();
  const Tensor weight = program.attribute_of(*parts.weight);
  const NormFactors factors = factors_of(parts, old_bias);
  store(program, parts.weight, parts.weight_reader, scaled_weight(parts, weight, factors.factor.values), compat);
  const int64_t channels = static_cast<int64_t>(factors.bias.values.size());
  const Tensor bias = Tensor::of<float>({channels}, std::span<const float>(factors.bias.values))
                          .to((old_bias.defined() ? old_bias : weight).dtype());
  if (parts.bias) {
    store(program, parts.bias, parts.bias_reader, bias, compat);
  } else {
    std::string name = parts.weight->target() + "_bias";
    if (Attribute* taken = program.find_attribute(name)) {
      // PyTorch overwrites it; the same name comes up again only for a shared weight.
      if (compat == Compat::kTorch26) taken->tensor = bias;
      else name = program.unique_attribute_name(name);
    }
    if (!program.find_attribute(name)) program.add_attribute({name, bias, Attribute::Kind::kParameter, true, true});
    const auto point = program.graph->insert_before(parts.conv);
    Node* node = program.graph->get_attr(name);
    node->meta.val.value = TensorMeta{bias.dtype(), {SymInt(channels)}, {}, true};
    parts.conv->set_arg(2, node);
  }
  if (parts.norm->target() == op::kBatchNorm) {
    parts.norm->replace_all_uses_with(parts.conv);
  } else {
    for (Node* user : std::vector<Node*>(parts.norm->users()))
      if (user->is(op::kGetItem) && user->arg(1).integer() == 0) user->replace_all_uses_with(parts.conv);
  }
  eliminate_dead_code(program);
}

}  // namespace

namespace {

FoldedNorm read_or_refuse(const Program& program, const ConvBn& parts) {
  auto out = read(program, parts);
  if (!out)
    throw Error(ErrorCode::kUnsupported,
                concat("cannot fold batch norm ", parts.norm->name(), " into ", parts.conv->name(),
                       ": a parameter or statistic is not float32, float16 or bfloat16"),
                parts.norm->name(), parts.norm->target());
  return std::move(*out);
}

}  // namespace

void fold_batch_norm(Program& program, const ConvBn& parts, Compat compat) {
  fold(program, read_or_refuse(program, parts), compat);
}

Tensor folded_weight(const Program& program, const ConvBn& parts) {
  const FoldedNorm fold = read_or_refuse(program, parts);
  return scaled_weight(fold, program.attribute_of(*fold.weight), factors_of(fold, {}).factor.values);
}

bool is_conv(const Node& node) { return node.is(op::kConv1d) || node.is(op::kConv2d); }
bool is_conv_transpose(const Node& node) { return node.is(op::kConvTranspose1d) || node.is(op::kConvTranspose2d); }

std::vector<NormBehindConv> norms_behind_convs(const Program& program) {
  std::vector<NormBehindConv> out;
  for (Node* norm : program.graph->nodes()) {
    if (!norm->is(op::kBatchNorm) && !norm->is(op::kBatchNormInference)) continue;
    const auto is_computed = [&](size_t i) {
      return !norm->arg(i).is_none() && (!norm->arg(i).node() || norm->arg(i).node()->op() != Node::Op::kGetAttr);
    };
    if (is_computed(1) || is_computed(2) || is_computed(3) || is_computed(4)) continue;
    const auto parts = foldable(program, norm, Compat::kTorch26);
    if (!parts) continue;
    const auto channels = static_cast<size_t>(parts->mean.numel());
    const auto values = [&](const Tensor& tensor, float otherwise) {
      if (!tensor.defined()) return std::vector<float>(channels, otherwise);
      const Tensor flat = tensor.to(DType::kF32).contiguous();
      return std::vector<float>(flat.span<float>().begin(), flat.span<float>().end());
    };
    ChannelNormals normals{values(parts->beta, 0), values(parts->gamma, 1)};
    for (float& value : normals.deviation) value = std::fabs(value);
    if (normals.mean.size() == channels && normals.deviation.size() == channels)
      out.push_back({parts->conv->name(), norm->name(), std::move(normals)});
  }
  return out;
}

void fold_batch_norms(Program& program, Compat compat) {
  std::vector<std::string> names;
  for (const Node* node : program.graph->nodes())
    if (node->is(op::kBatchNorm) || node->is(op::kBatchNormInference)) names.push_back(node->name());
  if (names.empty()) return;
  for (const std::string& name : names) {
    Node* norm = program.graph->find(name);  // dead code elimination may have taken it
    if (norm == nullptr) continue;
    if (const auto parts = foldable(program, norm, compat)) fold(program, *parts, compat);
  }
  eliminate_dead_code(program);
  program.erase_unused_attributes();
}

}  // namespace qdq
