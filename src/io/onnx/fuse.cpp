// What ONNX exporters spell out, put together again: the quantizers know these operators, not their parts.
#include <cmath>
#include <utility>
#include <vector>

#include "io/onnx/import.h"
#include "op/facts.h"
#include "op/spelled_out.h"
#include "op/targets.h"

namespace qdq {
namespace {

// x * (1 + erf(x / sqrt(2))) * 0.5, with the factors in any place.
void gelu(Node* mul) {
  // The factors of a product of three, and 0.5 among them or not.
  std::vector<Argument> factors;
  int64_t halves = 0;
  const auto collect = [&](auto& self, const Argument& argument, int depth) -> void {
    const Node* node = argument.node();
    if (is_number(argument, 0.5)) {
      ++halves;
    } else if (depth < 3 && is_aten(node, "mul.Tensor") && (node == mul || node->users().size() == 1)) {
      self(self, node->arg(0), depth + 1);
      self(self, node->arg(1), depth + 1);
    } else {
      factors.push_back(argument);
    }
  };
  collect(collect, mul, 0);
  if (halves != 1 || factors.size() != 2) return;
  for (const size_t i : {size_t{0}, size_t{1}}) {
    const Argument& x = factors[1 - i];
    const Node* sum = sole_call(factors[i], "add.Tensor");
    if (!sum || !is_number(sum->arg(1), 1) || !x.is_node()) continue;
    if (const Node* erf = sole_call(sum->arg(0), "erf.default")) {
      const Node* scaled = erf->arg(0).node();
      const bool divides = is_aten(scaled, "div.Tensor") && is_number(scaled->arg(1), std::sqrt(2.0));
      const bool multiplies = is_aten(scaled, "mul.Tensor") && is_number(scaled->arg(1), std::sqrt(0.5));
      if ((divides || multiplies) && scaled->arg(0) == x) return replace_with_call(mul, "gelu.default", {x});
    } else if (const Node* tanh = sole_call(sum->arg(0), "tanh.default")) {
      // tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))
      const Node* scaled = sole_call(tanh->arg(0), "mul.Tensor");
      const Node* inner =
          scaled && is_number(scaled->arg(1), std::sqrt(2 / M_PI)) ? sole_call(scaled->arg(0), "add.Tensor") : nullptr;
      if (!inner) continue;
      for (const size_t k : {size_t{0}, size_t{1}}) {
        const Node* cubic = sole_call(inner->arg(k), "mul.Tensor");
        const Node* cube = cubic && is_number(cubic->arg(1), 0.044715) ? cubic->arg(0).node() : nullptr;
        const bool is_power = is_aten(cube, "pow.Tensor_Scalar") && is_number(cube->arg(1), 3) && cube->arg(0) == x;
        const auto is_square = [&](const Argument& argument) {
          const Node* square = argument.node();
          return is_aten(square, "mul.Tensor") && square->arg(0) == x && square->arg(1) == x;
        };
        const bool is_product = is_aten(cube, "mul.Tensor") && ((is_square(cube->arg(0)) && cube->arg(1) == x) ||
                                                                (is_square(cube->arg(1)) && cube->arg(0) == x));
        if ((is_power || is_product) && inner->arg(1 - k) == x)
          return replace_with_call(mul, "gelu.default", {x}, {{"approximate", "tanh"}});
      }
    }
  }
}

// A tensor with its last two axes swapped, as PyTorch's newer exporter writes the keys of attention: between two
// reshapes, the first of which makes the axes in front one.
void swap_between_reshapes(Node* last) {
  const Node* turned = sole_call(last->arg(0), "transpose.int");
  if (!turned) turned = sole_call(last->arg(0), "permute.default");
  const Node* rows = turned ? sole_call(turned->arg(0), "reshape.default") : nullptr;
  if (!rows || !rows->arg(0).is_node() || permutation_of(*turned) != std::vector<int64_t>{0, 2, 1}) return;
  const TensorMeta *from = rows->arg(0).node()->meta.val.tensor(), *middle = rows->meta.val.tensor(),
                   *to = last->meta.val.tensor();
  if (!from || !middle || !to || from->sizes.size() < 3 || from->sizes.size() != to->sizes.size()) return;
  SymShape swapped = from->sizes;
  const size_t rank = swapped.size();
  if (middle->sizes[1] != swapped[rank - 2] || middle->sizes[2] != swapped[rank - 1]) return;
  std::swap(swapped[rank - 2], swapped[rank - 1]);
  if (to->sizes != swapped) return;
  const auto axis = static_cast<int64_t>(rank);
  replace_with_call(last, "transpose.int", {rows->arg(0), axis - 2, axis - 1});
}

}  // namespace

void fuse_onnx_patterns(Program& program) {
  fuse_integer_products(program);
  fuse_norms(program);
  for (Node* node : program.graph->nodes()) {
    if (is_aten(node, "reshape.default")) swap_between_reshapes(node);
    if (is_aten(node, "matmul.default")) join_attention_parts(node);
    if (join_hard_curve(node) || join_silu(node)) continue;
    if (is_aten(node, "mul.Tensor")) gelu(node);
  }
  program.graph->eliminate_dead_code();
}

}  // namespace qdq
