// The call_function targets that code outside the table must name: calls that a rewrite creates, and single operators
// that a policy of PyTorch or a kernel concerns. For facts about a whole family use op/facts.h.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"

namespace qdq::op {

// The target of an operator by its short or its local name (op/facts.h): "aten.relu.default" and "relu.default" are
// both "torch.ops.aten.relu.default".
inline std::string target(std::string_view short_name) { return concat("torch.ops.", short_name); }
inline std::string aten(std::string_view local_name) { return concat("torch.ops.aten.", local_name); }

inline constexpr std::string_view kConv1d = "torch.ops.aten.conv1d.default";
inline constexpr std::string_view kConv2d = "torch.ops.aten.conv2d.default";
inline constexpr std::string_view kConv3d = "torch.ops.aten.conv3d.default";
inline constexpr std::string_view kConvolution = "torch.ops.aten.convolution.default";
inline constexpr std::string_view kConvTranspose1d = "torch.ops.aten.conv_transpose1d.default";
inline constexpr std::string_view kConvTranspose2d = "torch.ops.aten.conv_transpose2d.input";
inline constexpr std::string_view kLinear = "torch.ops.aten.linear.default";
inline constexpr std::string_view kMatmul = "torch.ops.aten.matmul.default";
inline constexpr std::string_view kBmm = "torch.ops.aten.bmm.default";
inline constexpr std::string_view kEmbedding = "torch.ops.aten.embedding.default";

inline constexpr std::string_view kAdd = "torch.ops.aten.add.Tensor";
inline constexpr std::string_view kSub = "torch.ops.aten.sub.Tensor";
inline constexpr std::string_view kMul = "torch.ops.aten.mul.Tensor";
inline constexpr std::string_view kDiv = "torch.ops.aten.div.Tensor";

inline constexpr std::string_view kPrelu = "torch.ops.aten.prelu.default";
inline constexpr std::string_view kRelu = "torch.ops.aten.relu.default";
inline constexpr std::string_view kClamp = "torch.ops.aten.clamp.default";
inline constexpr std::string_view kGelu = "torch.ops.aten.gelu.default";

inline constexpr std::string_view kBatchNorm = "torch.ops.aten.batch_norm.default";
inline constexpr std::string_view kBatchNormInference = "torch.ops.aten._native_batch_norm_legit_no_training.default";
inline constexpr std::string_view kLayerNorm = "torch.ops.aten.layer_norm.default";
inline constexpr std::string_view kAttention = "torch.ops.aten.scaled_dot_product_attention.default";

inline constexpr std::string_view kMaxPool2d = "torch.ops.aten.max_pool2d.default";
inline constexpr std::string_view kAvgPool2d = "torch.ops.aten.avg_pool2d.default";
inline constexpr std::string_view kAdaptiveAvgPool2d = "torch.ops.aten.adaptive_avg_pool2d.default";
inline constexpr std::string_view kMean = "torch.ops.aten.mean.default";
inline constexpr std::string_view kMeanDim = "torch.ops.aten.mean.dim";

inline constexpr std::string_view kView = "torch.ops.aten.view.default";
inline constexpr std::string_view kViewCopy = "torch.ops.aten.view_copy.default";
inline constexpr std::string_view kReshape = "torch.ops.aten.reshape.default";
inline constexpr std::string_view kUnsafeView = "torch.ops.aten._unsafe_view.default";
inline constexpr std::string_view kFlatten = "torch.ops.aten.flatten.using_ints";
inline constexpr std::string_view kSqueezeDim = "torch.ops.aten.squeeze.dim";
inline constexpr std::string_view kSqueezeDims = "torch.ops.aten.squeeze.dims";
inline constexpr std::string_view kSqueezeCopyDim = "torch.ops.aten.squeeze_copy.dim";
inline constexpr std::string_view kUnsqueeze = "torch.ops.aten.unsqueeze.default";
inline constexpr std::string_view kPermute = "torch.ops.aten.permute.default";
inline constexpr std::string_view kPermuteCopy = "torch.ops.aten.permute_copy.default";
inline constexpr std::string_view kTranspose = "torch.ops.aten.transpose.int";
inline constexpr std::string_view kSelect = "torch.ops.aten.select.int";
inline constexpr std::string_view kSlice = "torch.ops.aten.slice.Tensor";
inline constexpr std::string_view kSliceCopy = "torch.ops.aten.slice_copy.Tensor";
inline constexpr std::string_view kSliceScatter = "torch.ops.aten.slice_scatter.default";
inline constexpr std::string_view kSelectScatter = "torch.ops.aten.select_scatter.default";
inline constexpr std::string_view kSplit = "torch.ops.aten.split.Tensor";
inline constexpr std::string_view kUnbind = "torch.ops.aten.unbind.int";
inline constexpr std::string_view kCat = "torch.ops.aten.cat.default";
inline constexpr std::string_view kStack = "torch.ops.aten.stack.default";
inline constexpr std::string_view kCond = "torch.ops.higher_order.cond";
inline constexpr std::string_view kWhileLoop = "torch.ops.higher_order.while_loop";
inline constexpr std::string_view kLoop = "torch.ops.higher_order.loop";
inline constexpr std::string_view kMap = "torch.ops.higher_order.map_impl";
inline constexpr std::string_view kScan = "torch.ops.higher_order.scan";
inline constexpr std::string_view kGetItem = "operator.getitem";

inline constexpr std::string_view kCopyTo = "torch.ops.aten.copy_.default";
inline constexpr std::string_view kClone = "torch.ops.aten.clone.default";
inline constexpr std::string_view kDropout = "torch.ops.aten.dropout.default";
inline constexpr std::string_view kToDtype = "torch.ops.aten.to.dtype";
inline constexpr std::string_view kZerosLike = "torch.ops.aten.zeros_like.default";
inline constexpr std::string_view kScalarTensor = "torch.ops.aten.scalar_tensor.default";
inline constexpr std::string_view kSymSize = "torch.ops.aten.sym_size.int";

inline constexpr std::string_view kQuantize = "torch.ops.quantized_decomposed.quantize_per_tensor.default";
inline constexpr std::string_view kQuantizeByTensors = "torch.ops.quantized_decomposed.quantize_per_tensor.tensor";
inline constexpr std::string_view kQuantizeChannels = "torch.ops.quantized_decomposed.quantize_per_channel.default";
inline constexpr std::string_view kDequantize = "torch.ops.quantized_decomposed.dequantize_per_tensor.default";
inline constexpr std::string_view kDequantizeByTensors = "torch.ops.quantized_decomposed.dequantize_per_tensor.tensor";
inline constexpr std::string_view kDequantizeChannels = "torch.ops.quantized_decomposed.dequantize_per_channel.default";
inline constexpr std::string_view kQuantizeGroups = "torch.ops.quantized_decomposed.quantize_per_channel_group.default";
inline constexpr std::string_view kDequantizeGroups =
    "torch.ops.quantized_decomposed.dequantize_per_channel_group.default";
inline constexpr std::string_view kChooseQParamsPerToken =
    "torch.ops.quantized_decomposed.choose_qparams_per_token_asymmetric.default";
inline constexpr std::string_view kQuantizePerToken = "torch.ops.quantized_decomposed.quantize_per_token.default";
inline constexpr std::string_view kDequantizePerToken = "torch.ops.quantized_decomposed.dequantize_per_token.default";
inline constexpr std::string_view kChooseQParams = "torch.ops.quantized_decomposed.choose_qparams.tensor";
inline constexpr std::string_view kConvertElementType = "torch.ops.quantized_decomposed.convert_element_type.no_fuse";
inline constexpr std::string_view kOutDtype = "torch.ops.higher_order.out_dtype";

}  // namespace qdq::op
