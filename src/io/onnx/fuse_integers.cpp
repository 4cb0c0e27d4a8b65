// Products of integers that ONNX Runtime's dynamic quantization writes, put together as a layer between dequantize
// nodes, which has an integer kernel.
#include <algorithm>

#include "io/onnx/import.h"
#include "op/facts.h"
#include "op/infer.h"
#include "op/targets.h"

namespace qdq {
namespace {

bool calls(const Node* node, std::string_view name) {
  return node && node->op() == Node::Op::kCallFunction && local_name(node->target()) == name;
}

}  // namespace

Node* origin_of(Node* node) {
  while (calls(node, "to.dtype") || calls(node, "reshape.default")) node = node->arg(0).node();
  return node;
}

ShiftedIntegers shifted_integers(Node* node) {
  Node *wide = node, *zero_point = nullptr;
  if (calls(node, "sub.Tensor")) {
    wide = node->arg(0).node();
    zero_point = node->arg(1).node();
    if (!zero_point) return {};
  }
  if (!calls(wide, "to.dtype") || node->users().size() != 1) return {};
  return {wide->arg(0).node(), zero_point};
}

namespace {

class Fuser {
 public:
  explicit Fuser(Program& program) : program_(program) {}

  //   q - z -> matmul or conv with a weight - z -> float -> * (scale of q * scale of the weight)
  // becomes the layer of both dequantized.
  void fuse(Node* mul) {
    for (const size_t i : {size_t{0}, size_t{1}}) {
      Node *cast = mul->arg(i).node(), *scales = mul->arg(1 - i).node();
      if (!calls(cast, "to.dtype") || cast->users().size() != 1 || !calls(scales, "mul.Tensor")) continue;
      Node* product = cast->arg(0).node();
      if (!product || product->users().size() != 1 || product->op() != Node::Op::kCallFunction) continue;
      const bool is_matmul = calls(product, "matmul.default"), is_conv = is_a(*product, Family::kConvolution);
      if (!is_matmul && !is_conv) continue;
      for (const size_t k : {size_t{0}, size_t{1}})
        if (scales->arg(k).is_node() &&
            replace(mul, product, origin_of(scales->arg(k).node()), known(scales->arg(1 - k))))
          return;
    }
  }

  // Integers that DynamicQuantizeLinear gives to more than a layer are what ONNX says to the last bit: values divided
  // by the scale, where PyTorch's operator multiplies by its reciprocal.
  void divide(Node* quantize) {
    const Node* scale = quantize->arg(1).node();
    if (!calls(scale, "operator.getitem") || !scale->arg(0).is_node() || !scale->arg(0).node()->is(op::kChooseQParams))
      return;
    const auto is_dequantize = [](const Node* user) { return is_a(*user, Family::kDequantize); };
    const std::vector<Node*>& users = quantize->users();
    if (std::all_of(users.begin(), users.end(), is_dequantize)) return;
    const auto point = program_.graph->insert_before(quantize);
    const auto number = [&](const Argument& qparam) {
      Node* scalar = call(quantize, op::kReshape, {qparam, Argument(Argument::List{})});
      return call(quantize, op::kToDtype, {scalar, DType::kF32});
    };
    Node* out = call(quantize, op::kDiv, {quantize->arg(0), number(quantize->arg(1))});
    out = call(quantize, op::aten("round.default"), {out});
    out = call(quantize, op::kAdd, {out, number(quantize->arg(2))});
    out = call(quantize, op::kClamp, {out, quantize->arg(3), quantize->arg(4)});
    quantize->replace_all_uses_with(call(quantize, op::kToDtype, {out, quantize->arg(5)}));
  }

 private:
  Tensor known(const Argument& argument) const {
    if (const auto number = argument.number()) return Tensor::scalar(static_cast<float>(*number));
    const Node* node = argument.node();
    return node && node->op() == Node::Op::kGetAttr ? program_.attribute_of(*node) : Tensor();
  }

  Node* constant(Tensor tensor, const std::string& base) {
    Attribute attribute;
    attribute.name = program_.unique_attribute_name(base);
    attribute.kind = Attribute::Kind::kBuffer;
    attribute.tensor = std::move(tensor);
    const auto point = program_.graph->insert_before(program_.graph->first());
    Node* node = program_.graph->get_attr(attribute.name, attribute.name);
    node->meta.val.value = meta_of(attribute.tensor);
    program_.add_attribute(std::move(attribute));
    return node;
  }

  Node* call(Node* like, std::string_view target, std::vector<Argument> args) {
    Node* node = program_.graph->call(std::string(target), std::move(args), {}, std::string(base_name(target)));
    node->meta.nn_module_stack = like->meta.nn_module_stack;
    infer_value(*node);
    return node;
  }

  // What an earlier layer reads of the same integers: layers that share it quantize as they read.
  static Node* shared_dequantize(const Node& integers, const std::vector<Argument>& args) {
    for (Node* user : integers.users())
      if (user->is(op::kDequantizeByTensors) && user->args() == args) return user;
    return nullptr;
  }

  bool replace(Node* mul, Node* product, Node* scale, const Tensor& weight_scales) {
    const ShiftedIntegers input = shifted_integers(product->arg(0).node()),
                          weight = shifted_integers(product->arg(1).node());
    if (!input.integers || !weight.integers || !weight_scales.defined()) return false;
    const Tensor integers = known(weight.integers),
                 weight_zeros = weight.zero_point ? known(weight.zero_point) : Tensor::scalar(int64_t{0});
    if (!input.integers->is(op::kQuantizeByTensors) || !integers.defined() || !weight_zeros.defined() ||
        input.integers->arg(1).node() != scale)
      return false;
    Node* zero_point = input.integers->arg(2).node();
    if (!input.zero_point || origin_of(input.zero_point) != zero_point) return false;
    const bool is_matmul = calls(product, "matmul.default");
    if (is_matmul && integers.dim() != 2) return false;
    // Rows of the weight are its channels.
    const Tensor rows = is_matmul ? integers.transpose(0, 1).contiguous() : integers;
    const int64_t channels = rows.size(0);
    for (const Tensor& each : {weight_scales, weight_zeros})
      if (each.numel() != 1 && (each.numel() != channels || (is_matmul && each.dim() > 2))) return false;
    // Scales of a convolution's channels stand in their axis.
    const DType dtype = rows.dtype();
    const Argument low = min_of(dtype), high = max_of(dtype);
    const auto point = program_.graph->insert_before(mul);
    Node* table = constant(rows, weight.integers->name() + "_int8");
    const auto each_channel = [&](const Tensor& tensor, DType as) {
      return tensor.reshape({tensor.numel()}).to(as).expand({channels}).clone();
    };
    Node* dequantized_weight = nullptr;
    if (weight_scales.numel() == 1 && weight_zeros.numel() == 1) {
      dequantized_weight =
          call(mul, op::kDequantize, {table, weight_scales.item(), weight_zeros.item_int(), low, high, dtype});
    } else {
      Node* scales = constant(each_channel(weight_scales, DType::kF32), table->name() + "_scale");
      Node* zeros = constant(each_channel(weight_zeros, DType::kS64), table->name() + "_zero_point");
      dequantized_weight = call(mul, op::kDequantizeChannels, {table, scales, zeros, 0, low, high, dtype});
    }
    const DType own = input.integers->meta.val.tensor()->dtype;
    const std::vector<Argument> qparams = {input.integers, scale, zero_point, min_of(own), max_of(own), own};
    Node* dequantized_input = shared_dequantize(*input.integers, qparams);
    if (!dequantized_input) dequantized_input = call(mul, op::kDequantizeByTensors, qparams);
    std::vector<Argument> args = {dequantized_input, dequantized_weight};
    if (!is_matmul) args.insert(args.end(), product->args().begin() + 2, product->args().end());
    Node* layer = call(mul, is_matmul ? op::kLinear : std::string_view(product->target()), std::move(args));
    mul->replace_all_uses_with(layer);
    return true;
  }

  Program& program_;
};

}  // namespace

void fuse_integer_products(Program& program) {
  Fuser fuser(program);
  for (Node* node : program.graph->nodes())
    if (calls(node, "mul.Tensor")) fuser.fuse(node);
  program.graph->eliminate_dead_code();
  for (Node* node : program.graph->nodes())
    if (node->is(op::kQuantizeByTensors)) fuser.divide(node);
  program.graph->eliminate_dead_code();
}

}  // namespace qdq
