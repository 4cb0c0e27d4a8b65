// The patterns of the reference representation and what stands for them.
#include "quant/reference_representation.h"

#include <string_view>
#include <variant>

#include "op/match.h"
#include "op/op.h"
#include "op/facts.h"
#include "op/targets.h"

namespace qdq {

namespace {

// An argument of a sketched call. There are hundreds, which cost little code as long as they own nothing.
using Operand = std::variant<std::monostate, Node*, int64_t, DType>;

// A pattern or a replacement under construction.
class Sketch {
 public:
  explicit Sketch(size_t num_inputs) {
    for (size_t i = 0; i < num_inputs; ++i)
      inputs_.push_back(graph_->create(Node::Op::kPlaceholder, "in" + std::to_string(i)));
  }
  Node* in(size_t i) const { return inputs_[i]; }

  Node* aten(std::string_view name, std::vector<Operand> args) { return call(op::aten(name), {}, args); }
  Node* decomposed(std::string_view name, std::vector<Operand> args) {
    return call(op::target(concat("quantized_decomposed.", name)), {}, args);
  }
  Node* item(Node* tuple, int64_t i) { return call(std::string(op::kGetItem), {}, {tuple, i}); }
  Node* to(Operand x, DType dtype) { return aten("to.dtype", {x, dtype}); }
  // An operator computed in the wider of its operands' types and truncated to int32.
  Node* as_int32(std::string_view aten_name, std::vector<Operand> args) {
    return call(std::string(op::kOutDtype), {op::aten(aten_name), DType::kS32}, args);
  }
  Node* clamp(Operand x, Operand low, Operand high) { return aten("clamp.default", {x, low, high}); }

  // Matched without regard to the overload: qparams may be numbers or tensors.
  Node* quantize(Operand x, Operand scale, Operand zero_point, Operand low, Operand high) {
    return decomposed("quantize_per_tensor", {x, scale, zero_point, low, high, DType::kS8});
  }
  Node* dequantize(Operand x, Operand scale, Operand zero_point, Operand low, Operand high) {
    return decomposed("dequantize_per_tensor", {x, scale, zero_point, low, high, DType::kS8});
  }
  // clamp(round(x / scale) + zero_point)
  Node* quantized(Operand x, Operand scale, Operand zero_point, Operand low, Operand high) {
    Node* rounded = aten("round.default", {aten("div.Tensor", {x, scale})});
    return to(clamp(aten("add.Tensor", {to(rounded, DType::kS32), zero_point}), low, high), DType::kS8);
  }

  const Graph& returning(Node* result) {
    graph_->create(Node::Op::kOutput, "output", {Argument(Argument::List{result})}, {}, "output");
    return *graph_;
  }

 private:
  // The arguments are `first` and then `args`.
  Node* call(std::string target, std::vector<Argument> first, const std::vector<Operand>& args) {
    for (const Operand& operand : args)
      first.push_back(std::visit([](const auto& value) { return argument_of(value); }, operand));
    std::string name(base_name(target));
    return graph_->call(std::move(target), std::move(first), {}, std::move(name));
  }
  static Argument argument_of(std::monostate) { return {}; }
  template <class T> static Argument argument_of(T value) { return value; }

  std::unique_ptr<Graph> graph_ = std::make_unique<Graph>();
  std::vector<Node*> inputs_;
};

// The nodes of a replacement belong to the root module.
void replace(Program& program, const Graph& pattern, const Graph& replacement, const MatchOptions& options = {}) {
  replace_pattern(
      *program.graph, pattern, replacement, [](Node& node) { node.meta.nn_module_stack = {{"", "", ""}}; }, options);
}

// Only matches in which that placeholder is a node: a linear without bias has None there, which the replacement cannot
// compute on.
MatchOptions with_node_at(const Node* placeholder) {
  MatchOptions options;
  options.accept = [placeholder](const Match& match) { return match.nodes_map.at(placeholder).is_node(); };
  return options;
}

// in: x, its quant_min, quant_max, eps; weight, its scale, zero point, quant_min, quant_max; bias
void dynamic_linear(Program& program) {
  Sketch p(10), r(10);
  Node* choose = p.decomposed("choose_qparams.tensor", {p.in(0), p.in(1), p.in(2), p.in(3), DType::kS8});
  Node* scale = p.item(choose, 0);
  Node* zero_point = p.item(choose, 1);
  Node* x = p.dequantize(p.quantize(p.in(0), scale, zero_point, p.in(1), p.in(2)), scale, zero_point, p.in(1), p.in(2));
  Node* weight = p.dequantize(p.in(4), p.in(5), p.in(6), p.in(7), p.in(8));
  const Graph& pattern = p.returning(p.aten("linear.default", {x, weight, p.in(9)}));

  choose = r.decomposed("choose_qparams.tensor", {r.in(0), r.in(1), r.in(2), r.in(3), DType::kS8});
  scale = r.item(choose, 0);
  zero_point = r.item(choose, 1);
  x = r.quantized(r.in(0), scale, zero_point, r.in(1), r.in(2));
  weight = r.clamp(r.in(4), r.in(7), r.in(8));
  Node* x16 = r.to(x, DType::kS16);
  Node* weight16 = r.to(weight, DType::kS16);
  Node* x_centred = r.aten("sub.Tensor", {x16, zero_point});
  Node* weight_centred = r.aten("sub.Tensor", {weight16, r.in(6)});
  Node* sum = r.as_int32("linear.default", {x_centred, weight_centred, Operand()});
  Node* bias = r.as_int32("div.Tensor", {r.in(9), r.aten("mul.Tensor", {scale, r.in(5)})});
  sum = r.aten("add.Tensor", {sum, bias});
  replace(program, pattern, r.returning(r.aten("mul.Tensor", {sum, r.aten("mul.Tensor", {scale, r.in(5)})})),
          with_node_at(p.in(9)));
}

// in: x, weight, each with scale, zero point, quant_min, quant_max; bias; the output's scale, zero point, quant_min,
// quant_max
void static_linear(Program& program) {
  Sketch p(15), r(15);
  Node* x = p.dequantize(p.in(0), p.in(1), p.in(2), p.in(3), p.in(4));
  Node* weight = p.dequantize(p.in(5), p.in(6), p.in(7), p.in(8), p.in(9));
  const Graph& pattern =
      p.returning(p.quantize(p.aten("linear.default", {x, weight, p.in(10)}), p.in(11), p.in(12), p.in(13), p.in(14)));

  x = r.clamp(r.in(0), r.in(3), r.in(4));
  weight = r.clamp(r.in(5), r.in(8), r.in(9));
  Node* x16 = r.to(x, DType::kS16);
  Node* weight16 = r.to(weight, DType::kS16);
  Node* x_centred = r.aten("sub.Tensor", {x16, r.in(2)});
  Node* weight_centred = r.aten("sub.Tensor", {weight16, r.in(7)});
  Node* sum = r.as_int32("linear.default", {x_centred, weight_centred, Operand()});
  Node* bias = r.as_int32("div.Tensor", {r.in(10), r.aten("mul.Tensor", {r.in(1), r.in(6)})});
  sum = r.aten("add.Tensor", {sum, bias});
  Node* factor = r.aten("div.Tensor", {r.aten("mul.Tensor", {r.in(1), r.in(6)}), r.in(11)});
  Node* out = r.aten("add.Tensor", {r.as_int32("mul.Tensor", {sum, factor}), r.in(12)});
  replace(program, pattern, r.returning(r.to(r.clamp(out, r.in(13), r.in(14)), DType::kS8)), with_node_at(p.in(10)));
}

// in: x, weight, each with scale, zero point, quant_min, quant_max; bias; the output's scale, zero point, quant_min,
// quant_max; then the operator's other arguments, of which `num_settings` are given. `convolution` is the operator.
void conv2d(Program& program, std::string_view convolution, size_t num_settings) {
  for (const bool has_bias : {true, false}) {
    Sketch p(15 + num_settings), r(15 + num_settings);
    const auto settings = [&](const Sketch& sketch, std::vector<Operand> args) {
      for (size_t i = 0; i < num_settings; ++i) args.push_back(sketch.in(15 + i));
      return args;
    };
    Node* x = p.dequantize(p.in(0), p.in(1), p.in(2), p.in(3), p.in(4));
    Node* weight = p.dequantize(p.in(5), p.in(6), p.in(7), p.in(8), p.in(9));
    Node* conv = p.aten(convolution, settings(p, {x, weight, p.in(10)}));
    const Graph& pattern = p.returning(p.quantize(conv, p.in(11), p.in(12), p.in(13), p.in(14)));

    x = r.clamp(r.in(0), r.in(3), r.in(4));
    weight = r.clamp(r.in(5), r.in(8), r.in(9));
    Node* x16 = r.to(x, DType::kS16);
    Node* weight16 = r.to(weight, DType::kS16);
    Node* x_centred = r.aten("sub.Tensor", {x16, r.in(2)});
    Node* weight_centred = r.aten("sub.Tensor", {weight16, r.in(7)});
    Node* sum = r.as_int32(convolution, settings(r, {x_centred, weight_centred, Operand()}));
    if (has_bias) {
      Node* bias = r.as_int32("div.Tensor", {r.in(10), r.aten("mul.Tensor", {r.in(1), r.in(6)})});
      bias = r.aten("unsqueeze.default", {r.aten("unsqueeze.default", {bias, -1}), -1});
      sum = r.aten("add.Tensor", {sum, bias});
    }
    Node* factor = r.aten("div.Tensor", {r.aten("mul.Tensor", {r.in(1), r.in(6)}), r.in(11)});
    Node* out = r.aten("add.Tensor", {r.as_int32("mul.Tensor", {sum, factor}), r.in(12)});
    MatchOptions options;
    // The bias is spread over two axes, so the operator must have them: PyTorch rewrites 1-d convolutions too, which
    // cannot run then.
    options.accept = [&p, conv, has_bias](const Match& match) {
      const TensorMeta* meta = match.nodes_map.at(conv).node()->meta.val.tensor();
      if (meta == nullptr || meta->sizes.size() != 4) return false;
      return match.nodes_map.at(p.in(10)).is_node() == has_bias;
    };
    replace(program, pattern, r.returning(r.to(r.clamp(out, r.in(13), r.in(14)), DType::kS8)), options);
  }
}

// in: x, y, each with scale and zero point; the output's scale and zero point; quant_min and quant_max of all three
const Graph& add_pattern(Sketch& p, bool has_relu) {
  Node* x = p.dequantize(p.in(0), p.in(1), p.in(2), p.in(8), p.in(9));
  Node* y = p.dequantize(p.in(3), p.in(4), p.in(5), p.in(8), p.in(9));
  Node* sum = p.aten("add.Tensor", {x, y});
  if (has_relu) sum = p.aten("relu.default", {sum});
  return p.returning(p.quantize(sum, p.in(6), p.in(7), p.in(8), p.in(9)));
}

void add_relu(Program& program) {
  Sketch p(10), r(10);
  const Graph& pattern = add_pattern(p, true);
  Node* x = r.to(r.in(0), DType::kS32);
  Node* y = r.to(r.in(3), DType::kS32);
  Node* x_centred = r.aten("sub.Tensor", {x, r.in(2)});
  x = r.as_int32("mul.Tensor", {x_centred, r.aten("div.Tensor", {r.in(1), r.in(6)})});
  Node* y_centred = r.aten("sub.Tensor", {y, r.in(5)});
  y = r.as_int32("mul.Tensor", {y_centred, r.aten("div.Tensor", {r.in(4), r.in(6)})});
  Node* sum = r.aten("add.Tensor", {r.aten("add.Tensor", {x, y}), r.in(7)});
  replace(program, pattern, r.returning(r.to(r.clamp(sum, r.in(7), r.in(9)), DType::kS8)));
}

void add(Program& program) {
  Sketch p(10), r(10);
  const Graph& pattern = add_pattern(p, false);
  Node* x = r.to(r.in(0), DType::kS32);
  Node* y = r.to(r.in(3), DType::kS32);
  const auto rescaled = [&](Node* q, Node* scale, Node* zero_point) {
    Node* factor = r.aten("div.Tensor", {scale, r.in(6)});
    Node* product = r.aten("mul.Tensor", {factor, r.aten("sub.Tensor", {q, zero_point})});
    return r.to(r.aten("round.default", {product}), DType::kS32);
  };
  x = rescaled(x, r.in(1), r.in(2));
  y = rescaled(y, r.in(4), r.in(5));
  Node* sum = r.aten("add.Tensor", {r.aten("add.Tensor", {x, y}), r.in(7)});
  // PyTorch clamps to the whole of int8 here, whatever the spec says.
  replace(program, pattern, r.returning(r.to(r.clamp(sum, -128, 127), DType::kS8)));
}

// in: x with scale, zero point, quant_min, quant_max; the output's; then the operator's other arguments, of which there
// are `num_settings`. `pool` is the operator; with indices it has two results.
void max_pool2d(Program& program, std::string_view pool, size_t num_settings) {
  Sketch p(9 + num_settings), r(9 + num_settings);
  const auto pooled = [&](Sketch& sketch, Node* x) {
    std::vector<Operand> args = {x};
    for (size_t i = 0; i < num_settings; ++i) args.push_back(sketch.in(9 + i));
    Node* out = sketch.aten(pool, std::move(args));
    return pool == "max_pool2d.default" ? out : sketch.item(out, 0);
  };
  Node* x = p.dequantize(p.in(0), p.in(1), p.in(2), p.in(3), p.in(4));
  const Graph& pattern = p.returning(p.quantize(pooled(p, x), p.in(5), p.in(6), p.in(7), p.in(8)));

  x = r.to(r.clamp(r.in(0), r.in(3), r.in(4)), DType::kS32);
  Node* out = pooled(r, r.aten("sub.Tensor", {x, r.in(2)}));
  out = r.aten("mul.Tensor", {out, r.aten("div.Tensor", {r.in(1), r.in(5)})});
  out = r.clamp(r.aten("add.Tensor", {out, r.in(6)}), r.in(7), r.in(8));
  replace(program, pattern, r.returning(r.to(out, DType::kS8)));
}

// in: the tensor, scale, zero point, quant_min, quant_max
void quantize_per_tensor(Program& program) {
  Sketch p(5), r(5);
  const Graph& pattern = p.returning(p.quantize(p.in(0), p.in(1), p.in(2), p.in(3), p.in(4)));
  replace(program, pattern, r.returning(r.quantized(r.in(0), r.in(1), r.in(2), r.in(3), r.in(4))));
}

void dequantize_per_tensor(Program& program) {
  Sketch p(5), r(5);
  const Graph& pattern = p.returning(p.dequantize(p.in(0), p.in(1), p.in(2), p.in(3), p.in(4)));
  Node* x = r.to(r.clamp(r.in(0), r.in(3), r.in(4)), DType::kF32);
  x = r.aten("mul.Tensor", {r.aten("sub.Tensor", {x, r.in(2)}), r.in(1)});
  replace(program, pattern, r.returning(r.to(x, DType::kF32)));
}

// in: the tensor, scales, zero points, axis, quant_min, quant_max
void quantize_per_channel(Program& program) {
  Sketch p(6), r(6);
  const Graph& pattern = p.returning(
      p.decomposed("quantize_per_channel", {p.in(0), p.in(1), p.in(2), p.in(3), p.in(4), p.in(5), DType::kS8}));
  Node* x = r.aten("transpose.int", {r.in(0), r.in(3), -1});
  x = r.to(r.aten("round.default", {r.aten("div.Tensor", {x, r.in(1)})}), DType::kS32);
  x = r.clamp(r.aten("add.Tensor", {x, r.in(2)}), r.in(4), r.in(5));
  replace(program, pattern, r.returning(r.to(r.aten("transpose.int", {x, r.in(3), -1}), DType::kS8)));
}

void dequantize_per_channel(Program& program) {
  Sketch p(6), r(6);
  const Graph& pattern = p.returning(
      p.decomposed("dequantize_per_channel", {p.in(0), p.in(1), p.in(2), p.in(3), p.in(4), p.in(5), DType::kS8}));
  Node* x = r.aten("transpose.int", {r.clamp(r.in(0), r.in(4), r.in(5)), r.in(3), -1});
  x = r.to(r.aten("sub.Tensor", {r.to(x, DType::kS32), r.in(2)}), DType::kF32);
  replace(program, pattern, r.returning(r.aten("transpose.int", {r.aten("mul.Tensor", {x, r.in(1)}), r.in(3), -1})));
}

}  // namespace

void rewrite_as_reference_representation(Program& program, Compat compat) {
  dynamic_linear(program);
  static_linear(program);
  conv2d(program, "convolution.default", 6);
  if (compat != Compat::kTorch26)
    for (size_t n = 0; n <= 4; ++n) conv2d(program, "conv2d.default", n);
  add_relu(program);
  add(program);
  max_pool2d(program, "max_pool2d_with_indices.default", 2);
  if (compat != Compat::kTorch26) {
    for (size_t n = 3; n <= 5; ++n) max_pool2d(program, "max_pool2d_with_indices.default", n);
    for (size_t n = 1; n <= 5; ++n) max_pool2d(program, "max_pool2d.default", n);
  }
  quantize_per_tensor(program);
  dequantize_per_tensor(program);
  quantize_per_channel(program);
  dequantize_per_channel(program);
  infer_shapes(program);
}

}  // namespace qdq
