// What ONNX exporters spell out, put together again: the quantizers know these operators, not their parts.
#include <cmath>

#include "io/onnx/import.h"
#include "op/facts.h"
#include "op/infer.h"
#include "op/targets.h"

namespace qdq {
namespace {

bool is_aten(const Node* node, std::string_view name) {
  return node && node->op() == Node::Op::kCallFunction && local_name(node->target()) == name;
}

// The node behind an argument if it is a call of the operator that nobody else reads.
Node* only(const Argument& argument, std::string_view name) {
  Node* node = argument.node();
  return is_aten(node, name) && node->users().size() == 1 ? node : nullptr;
}

bool is_number(const Argument& argument, double wanted) {
  const auto number = argument.number();
  return number && std::fabs(*number - wanted) <= 1e-6 * std::fabs(wanted);
}

// Puts a call in the place of `last`, which computes the same.
void replace(Node* last, const std::string& name, std::vector<Argument> args, Node::Kwargs kwargs = {}) {
  Graph& graph = last->graph();
  Node* node = nullptr;
  {
    const auto point = graph.insert_before(last);
    node = graph.call(op::aten(name), std::move(args), std::move(kwargs), name.substr(0, name.find('.')));
  }
  node->meta = last->meta;
  last->replace_all_uses_with(node);
}

// x * sigmoid(x)
void silu(Node* mul) {
  for (const size_t i : {size_t{0}, size_t{1}}) {
    const Node* sigmoid = only(mul->arg(i), "sigmoid.default");
    if (sigmoid && sigmoid->arg(0) == mul->arg(1 - i)) return replace(mul, "silu.default", {mul->arg(1 - i)});
  }
}

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
    const Node* sum = only(factors[i], "add.Tensor");
    if (!sum || !is_number(sum->arg(1), 1) || !x.is_node()) continue;
    if (const Node* erf = only(sum->arg(0), "erf.default")) {
      const Node* scaled = erf->arg(0).node();
      const bool divides = is_aten(scaled, "div.Tensor") && is_number(scaled->arg(1), std::sqrt(2.0));
      const bool multiplies = is_aten(scaled, "mul.Tensor") && is_number(scaled->arg(1), std::sqrt(0.5));
      if ((divides || multiplies) && scaled->arg(0) == x) return replace(mul, "gelu.default", {x});
    } else if (const Node* tanh = only(sum->arg(0), "tanh.default")) {
      // tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))
      const Node* scaled = only(tanh->arg(0), "mul.Tensor");
      const Node* inner =
          scaled && is_number(scaled->arg(1), std::sqrt(2 / M_PI)) ? only(scaled->arg(0), "add.Tensor") : nullptr;
      if (!inner) continue;
      for (const size_t k : {size_t{0}, size_t{1}}) {
        const Node* cubic = only(inner->arg(k), "mul.Tensor");
        const Node* cube = cubic && is_number(cubic->arg(1), 0.044715) ? cubic->arg(0).node() : nullptr;
        const bool is_power = is_aten(cube, "pow.Tensor_Scalar") && is_number(cube->arg(1), 3) && cube->arg(0) == x;
        const auto is_square = [&](const Argument& argument) {
          const Node* square = argument.node();
          return is_aten(square, "mul.Tensor") && square->arg(0) == x && square->arg(1) == x;
        };
        const bool is_product = is_aten(cube, "mul.Tensor") && ((is_square(cube->arg(0)) && cube->arg(1) == x) ||
                                                                (is_square(cube->arg(1)) && cube->arg(0) == x));
        if ((is_power || is_product) && inner->arg(1 - k) == x)
          return replace(mul, "gelu.default", {x}, {{"approximate", "tanh"}});
      }
    }
  }
}

// The axes of a transpose or permute node as a permutation; empty for other nodes.
std::vector<int64_t> permutation_of(const Node* node) {
  std::vector<int64_t> axes;
  const TensorMeta* meta = node->meta.val.tensor();
  const auto rank = static_cast<int64_t>(meta ? meta->sizes.size() : 0);
  if (is_aten(node, "transpose.int")) {
    for (int64_t i = 0; i < rank; ++i) axes.push_back(i);
    std::swap(axes[static_cast<size_t>(wrap_axis(*node->arg(1).integer(), rank))],
              axes[static_cast<size_t>(wrap_axis(*node->arg(2).integer(), rank))]);
  } else if (is_aten(node, "permute.default")) {
    for (const Argument& axis : node->arg(1).list()) axes.push_back(wrap_axis(*axis.integer(), rank));
  }
  return axes;
}

// A factor of attention: x times the square root of the scale. Gives x, and multiplies `scale`.
Node* scaled(const Argument& argument, double& scale) {
  const Node* mul = only(argument, "mul.Tensor");
  if (!mul || !mul->arg(0).is_node() || !mul->arg(1).number()) return nullptr;
  scale *= *mul->arg(1).number();
  return mul->arg(0).node();
}

//   q * c, k^T * c -> matmul (-> add mask) -> softmax -> matmul v      becomes      scaled_dot_product_attention
// Exporters scale both factors of PyTorch's operator so; attention that a model spells out itself has its scale
// elsewhere, and stays.
void attention(Node* last) {
  const Node* softmax = only(last->arg(0), "softmax.int");
  if (!softmax || !last->arg(1).is_node()) return;
  const auto rank = static_cast<int64_t>(last->meta.val.tensor()->sizes.size());
  const auto has_rank = [&](const Node* node) {
    const TensorMeta* meta = node->meta.val.tensor();
    return meta != nullptr && static_cast<int64_t>(meta->sizes.size()) == rank;
  };
  if (rank < 3 || !has_rank(softmax) || !has_rank(last->arg(1).node())) return;
  if (wrap_axis(*softmax->arg(1).integer(), rank) != rank - 1) return;
  const Node* scores = only(softmax->arg(0), "matmul.default");
  Argument mask;
  if (const Node* sum = scores ? nullptr : only(softmax->arg(0), "add.Tensor")) {
    for (const size_t i : {size_t{0}, size_t{1}}) {
      if (scores || !(scores = only(sum->arg(i), "matmul.default"))) continue;
      mask = sum->arg(1 - i);
    }
    if (!mask.is_node()) return;
  }
  if (!scores) return;
  double scale = 1;
  Node* query = scaled(scores->arg(0), scale);
  Node* turned = query ? scaled(scores->arg(1), scale) : nullptr;
  std::vector<int64_t> axes = turned ? permutation_of(turned) : std::vector<int64_t>();
  const auto width = query ? query->meta.val.tensor()->sizes.back().constant() : std::nullopt;
  if (static_cast<int64_t>(axes.size()) != rank || !width || *width < 1) return;

  std::swap(axes[axes.size() - 1], axes[axes.size() - 2]);
  std::vector<size_t> moved;
  for (size_t i = 0; i < axes.size(); ++i)
    if (axes[i] != static_cast<int64_t>(i)) moved.push_back(i);
  Node* key = turned->arg(0).node();
  if (!moved.empty()) {
    const auto point = last->graph().insert_before(turned);
    if (moved.size() == 2)
      key = last->graph().call(std::string(op::kTranspose),
                               {key, static_cast<int64_t>(moved[0]), static_cast<int64_t>(moved[1])}, {}, "transpose");
    else
      key = last->graph().call(std::string(op::kPermute),
                               {Argument(key), Argument(Argument::List(axes.begin(), axes.end()))}, {}, "permute");
    key->meta = turned->meta;
    infer_value(*key);
  }
  Node::Kwargs kwargs;
  if (!is_number(scale, 1 / std::sqrt(static_cast<double>(*width)))) kwargs.emplace_back("scale", scale);
  std::vector<Argument> args = {query, key, last->arg(1)};
  if (mask.is_node()) args.push_back(mask);
  replace(last, "scaled_dot_product_attention.default", std::move(args), std::move(kwargs));
}

}  // namespace

void fuse_onnx_patterns(Program& program) {
  fuse_integer_products(program);
  for (Node* node : program.graph->nodes()) {
    if (is_aten(node, "matmul.default")) attention(node);
    if (!is_aten(node, "mul.Tensor")) continue;
    silu(node);
    if (!node->users().empty()) gelu(node);
  }
  program.graph->eliminate_dead_code();
}

}  // namespace qdq
