// What ONNX Runtime computes otherwise on processors without VNNI.
#include <algorithm>

#include "base/disk_blocks.h"
#include "io/onnx.h"
#include "io/onnx/integer_layers.h"
#include "op/facts.h"
#include "op/targets.h"

namespace qdq {

namespace {

// The distance between the smallest and the largest integer that a per-tensor pair lets through; 0 for other nodes.
int64_t span_of(const Node* dequantize) {
  if (dequantize == nullptr || !is_a(*dequantize, Family::kDequantize) || dequantize->args().size() < 5) return 0;
  const Argument &least = dequantize->arg(3), &most = dequantize->arg(4);
  return least.is<int64_t>() && most.is<int64_t>() ? most.as<int64_t>() - least.as<int64_t>() : 0;
}

// The largest absolute value of an int8 weight; 0 for other weights.
int largest_weight(const Program& program, const Node* dequantize) {
  if (dequantize == nullptr || !is_a(*dequantize, Family::kDequantize)) return 0;
  const Node* integers = dequantize->arg(0).node();
  if (integers == nullptr || integers->op() != Node::Op::kGetAttr) return 0;
  const Tensor weight = program.attribute_of(*integers);
  if (weight.dtype() != DType::kS8) return 0;
  int out = 0;
  const Tensor flat = weight.contiguous();
  for (const int8_t value : flat.span<int8_t>()) out = std::max(out, std::abs(static_cast<int>(value)));
  release_pages({flat.raw(), flat.nbytes()});
  return out;
}

// Whether ONNX Runtime computes a layer of integers in integers: convolutions where their results are rounded.
bool runs_in_integers(const Node& layer) {
  return is_a(layer, Family::kConvolution) ? is_read_rounded(layer) : !is_a(layer, Family::kTransposedConvolution);
}

}  // namespace

std::string onnx_saturation_warning(const Program& program) {
  // Two products of an activation of 0..255 and a weight fit 16 bits up to 64; of one of 0..127 always.
  constexpr int64_t kNarrow = 127;
  constexpr int kSmall = 64;
  int64_t layers = 0;
  for (const Node* node : program.graph->nodes())
    layers += node->op() == Node::Op::kCallFunction && weight_of(*node) && span_of(input_of(*node)) > kNarrow &&
              runs_in_integers(*node) && largest_weight(program, weight_of(*node)) > kSmall;
  if (layers == 0) return "";
  return concat("ONNX Runtime can lose accuracy in ", layers, layers == 1 ? " layer" : " layers",
                " on x86 processors without VNNI, where 8-bit sums saturate; for these, use --for x86 or "
                "--reduce-range (\"reduce_range\" in a recipe)");
}

}  // namespace qdq
