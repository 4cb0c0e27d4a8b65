// Layers whose weights are integers that lie in the file.
#pragma once

#include "io/onnx/export.h"

namespace qdq {

// The tensor of a get_attr node; undefined for others.
Tensor stored_tensor(AtenCall& call, const Node* node);

// Integers that lie in the file and their scales, behind a dequantize node without zero points.
struct StoredWeight {
  Tensor integers, scales;
  int64_t axis = 0;  // of several scales
};
StoredWeight stored_weight(AtenCall& call, const Node* node);

// Whether all that read the value round it, perhaps behind an activation.
bool is_read_rounded(const Node& node);

// Conv, ConvTranspose or Gemm of (input, weight, bias); the weight has the result's channels, those of each of the
// groups, along `axis`. A bias that does not fit int32 is added behind it: ONNX Runtime 1.21 makes int32 of a bias in
// float, and where that saturates, the layer gives other numbers. `input`: what it reads instead of its first argument.
void finish_layer(AtenCall& call, const char* op, const OnnxAttributes& attributes, size_t axis, int64_t groups = 1,
                  const Node* input = nullptr);

// A linear layer of int8 weights whose input is quantized by the range that it turns out to have:
// DynamicQuantizeLinear, MatMulInteger, Cast and Mul, as ONNX Runtime joins them to DynamicQuantizeMatMul or
// MatMulIntegerToFloat (onnxruntime/core/optimizer/matmul_integer_to_float.cc, dynamic_quantize_matmul_fusion.cc). The
// sums are those of integers, which the float product of both rounds. False, and nothing written, if it is none.
bool write_dynamic_linear(AtenCall& call);

// The same of a convolution: DynamicQuantizeLinear, ConvInteger, Cast and Mul. Its weights are uint8 with zero points
// of 128 in any case: ONNX Runtime has ConvInteger for those alone (core/providers/cpu/quantization/conv_integer.cc).
bool write_dynamic_convolution(AtenCall& call, const OnnxAttributes& attributes);

// A convolution of integers less their zero points, as ConvInteger is read, perhaps behind padding: ConvInteger again,
// for Conv takes floats alone. False if its input holds floats; refuses other integers.
bool write_integer_convolution(AtenCall& call, OnnxAttributes attributes);

// Rows of a table of int8 that lies in the file: Gather, Cast and Mul, so that the table is not dequantized as a whole.
bool write_embedding_of_integers(AtenCall& call);

// Rows of a table of 4 bits in groups: GatherBlockQuantized.
bool write_embedding_of_blocks(AtenCall& call);

// Where OnnxOptions::bnb4 asks for it, a linear layer of float32 weights that lie in the file: com.microsoft.MatMulBnb4
// with the numbers of NF4 (QLoRA: Efficient Finetuning of Quantized LLMs, appendix E) in blocks of 64 along the rows,
// which begin anew with no row. Each weight takes the nearest of the 16 numbers times the block's largest magnitude; of
// two as near, the lower one.
bool write_linear_of_normal_floats(AtenCall& call);

// A linear layer with weights of 4 bits in blocks of 16 to 256 along its rows: com.microsoft.MatMulNBits
// (docs/ContribOperators.md of microsoft/onnxruntime), of 8 bits as well where OnnxOptions::groups asks for it. Where
// that asks for blocks: DequantizeLinear with blocks and MatMul. False if it is none.
bool write_linear_of_blocks(AtenCall& call);

// Where OnnxOptions::groups asks for it, a matrix in groups as DequantizeLinear with blocks. False if it is none.
bool write_blocks(AtenCall& call);

}  // namespace qdq
