// Importers of ONNX's layers: what has weights, windows, normalization or quantization.
#pragma once

#include "io/onnx_import.h"

namespace qdq::onnx {

void conv(OnnxCall& call);
void conv_transpose(OnnxCall& call);
void gemm(OnnxCall& call);
void matmul(OnnxCall& call);
void max_pool(OnnxCall& call);
void average_pool(OnnxCall& call);
void global_average_pool(OnnxCall& call);
void global_max_pool(OnnxCall& call);
void batch_norm(OnnxCall& call);
void instance_norm(OnnxCall& call);
void group_norm(OnnxCall& call);
void layer_norm(OnnxCall& call);
void resize(OnnxCall& call);
void quantize_linear(OnnxCall& call);
void dequantize_linear(OnnxCall& call);
void dynamic_quantize_linear(OnnxCall& call);

}  // namespace qdq::onnx
