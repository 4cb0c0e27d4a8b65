// Quantize and dequantize nodes, activations, sums and products of two values, concatenations.
#include "lower/fuser.h"
#include "op/facts.h"

namespace qdq {
namespace {

// A function of a u8 value as a table of all 256.
void emit_map(Fuser& fuser, Node& head, const Epilogue& epilogue, Node* value, const Activation& activation) {
  fuser.emit(head, epilogue, [&fuser, value, activation, quantize = epilogue.quantize](PlanStep& step) {
    step.activation = {};
    step.inputs = {fuser.plans.read(value)};
    step.in_place_input = 0;
    const PlanQParams from = fuser.plans.buffer(step.inputs[0]).qparams;
    Tensor table = Tensor::empty({256}, DType::kF32);
    float* reals = table.data<float>();
    for (int q = 0; q < 256; ++q) reals[q] = static_cast<float>(q - from.zero_point) * static_cast<float>(from.scale);
    kernel::activate_f32(activation, reals, 256, reals);
    if (quantize != nullptr) {
      const Requantization rounding = rounding_to(plan_qparams(*quantize));
      const Tensor bytes = Tensor::empty({256}, DType::kU8);
      for (size_t q = 0; q < 256; ++q) bytes.data<uint8_t>()[q] = quantize_result(reals[q], rounding);
      table = bytes;
    }
    step.form = PlanStep::Map{table};
  });
}

std::string fuse_binary(Fuser& fuser, Node& node, const PlanStep::Form& form) {
  if (!node.kwargs().empty() || node.args().size() != 2) return "it has a factor";
  PlanBuilder& plans = fuser.plans;
  Node *a = node.arg(0).node(), *b = node.arg(1).node();
  if (!plans.is_readable(a) || !plans.is_readable(b)) return "an operand is a number or a constant";
  if (!plans.is_held(a) && !plans.is_held(b)) return "its inputs are not in a plan";
  const size_t rank = float_meta(node)->sizes.size();
  for (const Node* operand : {a, b})
    if (operand->meta.val.tensor() == nullptr || operand->meta.val.tensor()->sizes.size() != rank)
      return "its operands differ in rank";
  fuser.emit(node, fuser.epilogue_of(node, false),
             [&plans, form, a, b, sizes = float_meta(node)->sizes](PlanStep& step) {
               step.form = form;
               step.inputs = {plans.read(a), plans.read(b)};
               const auto is_whole = [&](size_t i) { return plans.buffer(step.inputs[i]).symbolic_sizes == sizes; };
               if (is_whole(0)) step.in_place_input = 0;
               else if (is_whole(1)) step.in_place_input = 1;
             });
  return {};
}

}  // namespace

std::string fuse_quantize(Fuser& fuser, Node& node) {
  if (!is_fusable_quantize(node)) return "its integers are read by other operators than dequantize";
  PlanBuilder& plans = fuser.plans;
  Node* value = node.arg(0).node();
  if (!plans.is_readable(value)) return "what it quantizes is not float32";
  const PlanQParams qparams = plan_qparams(node);
  if (plans.is_held_u8(value)) {
    if (plans.held(value).qparams == qparams) {  // the same integers again
      plans.hold_same_integers(node, *value);
      return {};
    }
    Epilogue epilogue;
    epilogue.last = epilogue.quantize = &node;
    emit_map(fuser, node, epilogue, value, {});
    return {};
  }
  PlanStep step;
  step.form = PlanStep::Quantize{};
  step.name = node.name();
  const size_t at = plans.read_as_is(value);
  step.inputs = {is_in_c_order(plans.buffer(at)) ? at : plans.read(value)};
  plans.add_step(std::move(step), PlanBuilder::buffer_like(node, DType::kU8, qparams), node, {&node});
  return {};
}

std::string fuse_dequantize(Fuser& fuser, Node& node) {
  const bool is_held = fuser.plans.hold_dequantized(node, node.arg(0).node());
  return is_held ? "" : "its integers come from another operator than quantize";
}

std::string fuse_activation(Fuser& fuser, Node& node) {
  Node* value = node.arg(0).node();
  if (!fuser.plans.is_held(value)) return "its input is not in a plan";
  Epilogue epilogue;
  epilogue.last = &node;
  if (Node* next = single_user(node); next != nullptr && is_fusable_quantize(*next))
    epilogue.last = epilogue.quantize = next;
  const Activation function = *activation_function(node);
  if (fuser.plans.is_held_u8(value)) {
    emit_map(fuser, node, epilogue, value, function);
    return {};
  }
  epilogue.activation = function;
  fuser.emit(node, epilogue, [&plans = fuser.plans, value, rounds = epilogue.quantize != nullptr](PlanStep& step) {
    if (rounds) step.form = PlanStep::Quantize{};
    else step.form = PlanStep::Dequantize{};
    step.inputs = {plans.read(value)};
    step.in_place_input = 0;
  });
  return {};
}

std::string fuse_add(Fuser& fuser, Node& node) { return fuse_binary(fuser, node, PlanStep::Add{}); }
std::string fuse_mul(Fuser& fuser, Node& node) { return fuse_binary(fuser, node, PlanStep::Mul{}); }

std::string fuse_concat(Fuser& fuser, Node& node) {
  if (!node.arg(0).is_list()) return "its tensors are not a list";
  PlanBuilder& plans = fuser.plans;
  std::vector<Node*> values;
  bool any_held = false;
  const size_t rank = float_meta(node)->sizes.size();
  for (const Argument& argument : node.arg(0).list()) {
    Node* value = argument.node();
    if (!plans.is_readable(value) || value->meta.val.tensor() == nullptr ||
        value->meta.val.tensor()->sizes.size() != rank)
      return "an input is no float32 tensor of its rank";
    any_held = any_held || plans.is_held(value);
    values.push_back(value);
  }
  if (!any_held) return "its inputs are not in a plan";
  const int64_t axis = wrap_axis(node.arg(1).integer().value_or(0), static_cast<int64_t>(rank));
  fuser.emit(node, fuser.epilogue_of(node, false), [&plans, values, axis](PlanStep& step) {
    step.form = PlanStep::Concat{axis};
    for (Node* value : values) step.inputs.push_back(plans.read(value));
  });
  return {};
}

}  // namespace qdq
