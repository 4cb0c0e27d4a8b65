// ONNX operators of com.microsoft whose weights are integers of few bits, in blocks that share a scale.
#include <algorithm>

#include "io/onnx/import.h"
#include "io/onnx/normal_floats.h"
#include "io/onnx/quantized.h"
#include "io/onnx/window.h"
#include "op/targets.h"

namespace qdq {
namespace {

// Rows of bytes as `count` integers of `bits` each, the first in the lowest bits.
Tensor unpacked(const Tensor& packed, int64_t rows, int64_t count, int64_t bits) {
  const Tensor bytes = packed.contiguous();
  const int64_t stride = bytes.numel() / std::max<int64_t>(rows, 1), per_byte = 8 / bits;
  const Tensor out = Tensor::empty({rows, count}, DType::kU8);
  const auto mask = static_cast<uint8_t>((1 << bits) - 1);
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t i = 0; i < count; ++i) {
      const uint8_t byte = bytes.data<uint8_t>()[row * stride + i / per_byte];
      out.data<uint8_t>()[row * count + i] = static_cast<uint8_t>(byte >> (i % per_byte * bits)) & mask;
    }
  return out;
}

// Integers without sign of so many bits, their middle at zero.
Tensor centred(const Tensor& integers, int64_t bits, DType dtype) {
  const Tensor out = Tensor::empty(integers.sizes(), DType::kS32);
  for (int64_t i = 0; i < out.numel(); ++i) out.data<int32_t>()[i] = integers.data<uint8_t>()[i] - (1 << (bits - 1));
  return out.to(dtype);
}

int64_t bits_of(OnnxCall& call) {
  const int64_t bits = call.integer("bits", 4);
  if (bits != 2 && bits != 4 && bits != 8) call.refuse("has weights of ", bits, " bits, wanted 2, 4 or 8");
  return bits;
}

int64_t block_of(OnnxCall& call, int64_t if_none) {
  const int64_t block = call.integer("block_size", if_none);
  if (block < 16 || block > (1 << 16) || (block & (block - 1)) != 0)
    call.refuse("has blocks of ", block, ", wanted a power of two from 16 on");
  return block;
}

const Tensor& checked(OnnxCall& call, const Tensor& tensor, DType dtype, int64_t elements, const char* what) {
  if (!tensor.defined()) call.refuse("has ", what, " that are computed, wanted constants");
  if (tensor.dtype() != dtype || tensor.numel() != elements)
    call.refuse("has ", what, " of ", tensor.numel(), " elements of ", to_string(tensor.dtype()), ", wanted ", elements,
                " of ", to_string(dtype));
  return tensor;
}

// A, B [N, blocks, bytes of a block], scales, zero points (packed as B is, or floats), g_idx, bias.
void matmul_n_bits(OnnxCall& call) {
  const int64_t bits = bits_of(call), block = block_of(call, 0), depth = call.integer("K", 0),
                rows = call.integer("N", 0);
  constexpr int64_t kMost = int64_t{1} << 31;
  if (depth < 1 || rows < 1 || depth >= kMost || rows >= kMost) call.refuse("has a weight of ", rows, " x ", depth);
  if (call.has(4)) call.refuse("reorders its weight (g_idx)");
  const int64_t blocks = (depth + block - 1) / block, most = int64_t{1} << (bits - 1);
  const Tensor packed = call.constant(1);
  checked(call, packed, DType::kU8, rows * blocks * (block * bits / 8), "weights");
  const Tensor scales = call.constant(2);
  const DType dtype = call.meta(0).dtype;
  checked(call, scales, dtype, rows * blocks, "scales");
  const std::string base = call.tensor(1)->name();
  const auto keep = [&](const Tensor& tensor, const char* name) {
    return call.import().constant(tensor, base + name, Attribute::Kind::kBuffer);
  };
  // What a last block has beyond the depth is left out, which shares no scale with what follows.
  const bool is_whole = depth == blocks * block;
  Node* weight = keep(centred(unpacked(packed, rows, blocks * block, bits), bits, DType::kS8), "_integers");
  const Shape by_block = {rows, blocks};
  Node* scale = keep(scales.to(DType::kF32).reshape(by_block), "_scale");
  Node* zero_point = nullptr;
  const Tensor zeros = call.has(3) ? call.constant(3) : Tensor();
  if (!call.has(3)) {
    zero_point = keep(Tensor::empty(by_block, DType::kS32), "_zero_point");
  } else if (zeros.defined() && zeros.dtype() == DType::kU8) {
    checked(call, zeros, DType::kU8, rows * ((blocks * bits + 7) / 8), "zero points");
    zero_point = keep(centred(unpacked(zeros, rows, blocks, bits), bits, DType::kS32), "_zero_point");
  }
  if (zero_point != nullptr) {
    weight = call.call_as_it_is(op::kDequantizeGroups,
                                {weight, scale, zero_point, -most, most - 1, DType::kS8, block, DType::kF32});
  } else {  // zero points between the integers
    checked(call, zeros, dtype, rows * blocks, "zero points");
    const Tensor off = zeros.to(DType::kF32).reshape({rows, blocks, 1});
    Node* integers = call.call("unflatten.int", {weight, 1, OnnxCall::list(std::vector<int64_t>{blocks, block})});
    Node* shifted = call.call("add.Tensor", {call.call("to.dtype", {integers, DType::kF32}), most});
    shifted = call.call("sub.Tensor", {shifted, keep(off, "_zero_point")});
    weight = call.call("mul.Tensor", {shifted, call.call("unsqueeze.default", {scale, 2})});
    weight = call.call("flatten.using_ints", {weight, 1, 2});
  }
  if (!is_whole) weight = call.call("slice.Tensor", {weight, 1, 0, depth});
  if (dtype != DType::kF32) weight = call.call("to.dtype", {weight, dtype});
  Node* linear = call.call("linear.default", {call.tensor(0), weight, call.optional_tensor(5)});
  if (const int64_t level = call.integer("accuracy_level", 0); level != 0)
    linear->meta.extra.emplace_back(kOnnxAccuracyLevel, std::to_string(level));
  call.set(linear);
}

// Rows of a table of integers: data, indices, scales, zero points.
void gather_block_quantized(OnnxCall& call) {
  const size_t rank = call.rank(0);
  const int64_t axis = call.axis(call.integer("gather_axis", 0), rank),
                blocks_axis = call.axis(call.integer("quantize_axis", 1), rank), block = block_of(call, 128);
  if (axis == blocks_axis) call.refuse("gathers along the axis of its blocks");
  const Tensor data = call.constant(0);
  Node* integers = call.tensor(0);
  // Data that is said to be four bits is bytes here; in uint8 two may share a byte.
  const bool is_packed = !call.has_four_bits(0) && call.meta(0).dtype == DType::kU8 && call.integer("bits", 4) < 8;
  if (is_packed) {
    const int64_t bits = bits_of(call);
    if (!data.defined()) call.refuse("has packed data that is computed, wanted a constant");
    Shape sizes = data.sizes();
    const int64_t rows = data.numel() / std::max<int64_t>(sizes.back(), 1);
    sizes.back() *= 8 / bits;
    integers = call.import().constant(unpacked(data, rows, sizes.back(), bits).reshape(sizes),
                                      call.tensor(0)->name() + "_integers", Attribute::Kind::kBuffer);
  }
  const auto rows_of = [&](Node* table) {
    Argument::List places(static_cast<size_t>(axis));
    places.emplace_back(call.tensor(1));
    return call.call("index.Tensor", {table, Argument(std::move(places))});
  };
  const DType dtype = call.meta(2).dtype;
  Node* out = call.call("to.dtype", {rows_of(integers), DType::kF32});
  // Behind the rows an axis stands where the indices' axes moved it.
  const int64_t shift = blocks_axis > axis ? static_cast<int64_t>(call.rank(1)) - 1 : 0, at = blocks_axis + shift;
  const auto size = call.extent(out, static_cast<size_t>(at)).constant();
  if (!size || *size % block != 0) call.refuse("has an axis that is not a multiple of its blocks of ", block);
  out = call.call("unflatten.int", {out, at, OnnxCall::list(std::vector<int64_t>{*size / block, block})});
  const auto by_block = [&](Node* table) {
    return call.call("unsqueeze.default", {call.call("to.dtype", {rows_of(table), DType::kF32}), at + 1});
  };
  if (call.has(3)) {
    Node* zero_point = call.tensor(3);
    if (is_packed) {
      const int64_t bits = bits_of(call);
      const Tensor zeros = call.constant(3);
      if (!zeros.defined()) call.refuse("has packed zero points that are computed, wanted constants");
      Shape sizes;
      for (const SymInt& each : call.meta(2).sizes) sizes.push_back(each.constant().value_or(0));
      const int64_t last = sizes.empty() ? 1 : sizes.back(), rows = numel_of(sizes) / std::max<int64_t>(last, 1);
      checked(call, zeros, DType::kU8, rows * ((last * bits + 7) / 8), "zero points");
      zero_point = call.import().constant(unpacked(zeros, rows, last, bits).reshape(sizes),
                                          call.tensor(3)->name() + "_integers", Attribute::Kind::kBuffer);
    }
    out = call.call("sub.Tensor", {out, by_block(zero_point)});
  } else if (call.meta(0).dtype == DType::kU8 && !call.has_four_bits(0)) {
    out = call.call("sub.Tensor", {out, int64_t{1} << (bits_of(call) - 1)});
  }
  out = call.call("mul.Tensor", {out, by_block(call.tensor(2))});
  out = call.call("flatten.using_ints", {out, at, at + 1});
  call.set(dtype == DType::kF32 ? out : call.call("to.dtype", {out, dtype}));
}

// A, B packed with the first element in the upper bits, the largest magnitude of each block.
void matmul_bnb4(OnnxCall& call) {
  const int64_t block = block_of(call, 0), depth = call.integer("K", 0), rows = call.integer("N", 0);
  constexpr int64_t kMost = int64_t{1} << 24;
  if (depth < 1 || rows < 1 || depth >= kMost || rows >= kMost) call.refuse("has a weight of ", rows, " x ", depth);
  if (call.integer("transB", 1) != 1) call.refuse("has a weight that is not transposed");
  const int64_t count = rows * depth, kind = call.integer("quant_type", 1);
  if (kind != 0 && kind != 1) call.refuse("has the quant_type ", kind, ", wanted 0 (FP4) or 1 (NF4)");
  const float* table = kind == 0 ? kFloat4 : kNormalFloat4;
  const Tensor packed = call.constant(1), largest = call.constant(2);
  const DType dtype = call.meta(0).dtype;
  checked(call, packed, DType::kU8, (count + 1) / 2, "weights");
  checked(call, largest, dtype, (count + block - 1) / block, "magnitudes");
  const Tensor bytes = packed.contiguous(), scales = largest.to(DType::kF32).contiguous();
  const Tensor weight = Tensor::empty({rows, depth}, DType::kF32);
  for (int64_t i = 0; i < count; ++i) {
    const int code = bytes.data<uint8_t>()[i / 2] >> (i % 2 == 0 ? 4 : 0) & 15;
    weight.data<float>()[i] = table[code] * scales.data<float>()[i / block];
  }
  Node* floats =
      call.import().constant(weight.to(dtype), call.tensor(1)->name() + "_floats", Attribute::Kind::kParameter);
  call.set(call.call("linear.default", {call.tensor(0), floats}));
}

constexpr OnnxOperator kBlockOperators[] = {
    {"com.microsoft.GatherBlockQuantized", gather_block_quantized, nullptr},
    {"com.microsoft.MatMulBnb4", matmul_bnb4, nullptr},
    {"com.microsoft.MatMulNBits", matmul_n_bits, nullptr},
};

}  // namespace

std::span<const OnnxOperator> onnx_block_operators() { return kBlockOperators; }

}  // namespace qdq
