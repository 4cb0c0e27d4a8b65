// Quantize and dequantize nodes, activations, sums and products of two values, concatenations.
#include <algorithm>

#include "lower/fuser.h"
#include "op/facts.h"

namespace qdq {
namespace {

// A function of a u8 value as a table of all 256.
void emit_map(Fuser& fuser, Node& head, const Epilogue& epilogue, Node* value, const Activation& activation) {
  fuser.emit(head, epilogue,
             [&fuser, value, activation, quantize = epilogue.quantize](PlanStep& step, Fuser::Order order) {
               step.activation = {};
               step.inputs = {fuser.read(value, order)};
               step.in_place_input = 0;
               const PlanQParams from = fuser.plans.buffer(step.inputs[0]).qparams;
               Tensor table = Tensor::empty({256}, DType::kF32);
               float* reals = table.data<float>();
               for (int q = 0; q < 256; ++q)
                 reals[q] = static_cast<float>(q - from.zero_point) * static_cast<float>(from.scale);
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

// These numbers as an attribute that `node` reads.
Node* add_constant(Program& program, Node& node, const Tensor& values) {
  const std::string name = program.unique_attribute_name(concat("_constant_", node.name()));
  program.add_attribute({name, values, Attribute::Kind::kBuffer});
  const auto point = program.graph->insert_before(&node);
  Node* constant = program.graph->get_attr(name);
  constant->meta.val.value = TensorMeta{DType::kF32, {values.sizes().begin(), values.sizes().end()}, {}, false};
  return constant;
}

// A number beside `node`'s other operand, as a constant along the axis that is stored densely: rows of one number cost
// the kernels more. Null if the axis is open.
Node* as_constant(Program& program, Node& node, double number, Fuser::Order order) {
  const SymShape& sizes = float_meta(node)->sizes;
  if (sizes.empty()) return nullptr;
  const bool is_image = sizes.size() == 4 && order == Fuser::Order::kImages;
  const std::optional<int64_t> extent = (is_image ? sizes[1] : sizes.back()).constant();
  if (!extent) return nullptr;
  const Shape shape = is_image ? Shape{*extent, 1, 1} : Shape{*extent};
  return add_constant(program, node, Tensor::full(shape, DType::kF32, number));
}

// Whether the kernels take an operand as it is repeated along `sizes`: its own axes, as they are stored, are the last,
// the first, or those between.
bool is_repeated_by_rows(const SymShape& operand, const SymShape& sizes, Fuser::Order order) {
  const size_t rank = sizes.size();
  const bool is_image = rank == 4 && order == Fuser::Order::kImages;
  const auto own = std::count_if(operand.begin(), operand.end(), [](const SymInt& size) { return size != SymInt(1); });
  // Of lower rank than an image it is stored in another order.
  if (operand.size() > rank || (is_image && operand.size() < rank && own > 1)) return false;
  std::vector<size_t> axes(rank);
  for (size_t axis = 0; axis < rank; ++axis) axes[axis] = axis;
  if (is_image) axes = {0, 2, 3, 1};
  std::vector<bool> repeats;
  for (const size_t axis : axes) {
    if (sizes[axis] == SymInt(1)) continue;
    const size_t missing = rank - operand.size();
    repeats.push_back(axis < missing || operand[axis - missing] == SymInt(1));
  }
  const auto first = std::find(repeats.begin(), repeats.end(), true);
  return std::find(std::find(first, repeats.end(), false), repeats.end(), true) == repeats.end();
}

// Whether each axis of an operand has one element or as many as the result. An open size beside another may be either.
bool is_of_ones_beside(const SymShape& operand, const SymShape& sizes) {
  const size_t missing = sizes.size() - operand.size();
  for (size_t axis = 0; axis < operand.size(); ++axis)
    if (operand[axis] != SymInt(1) && operand[axis] != sizes[axis + missing]) return false;
  return true;
}

// What a binary step reads for an argument of `node`; null, with the reason, if no step can.
Node* operand_of(Fuser& fuser, Node& node, const Argument& argument, Fuser::Order order, std::string& refusal) {
  Program& program = fuser.plans.program();
  Node* operand = argument.node();
  std::optional<double> number = argument.number();
  SymShape constant_sizes;
  const bool is_constant = operand != nullptr && !fuser.plans.is_readable(operand);
  if (is_constant) {
    const std::optional<Tensor> tensor = constant_operand(program, argument);
    if (!tensor) {
      refusal = "an operand is neither float32 nor a constant";
      return nullptr;
    }
    if (tensor->numel() == 1) number = tensor->item();
    else if (operand->op() != Node::Op::kGetAttr) operand = add_constant(program, node, tensor->contiguous());
    constant_sizes.assign(tensor->sizes().begin(), tensor->sizes().end());
  }
  if (number) {
    Node* constant = as_constant(program, node, *number, order);
    if (constant == nullptr) refusal = "a number beside an axis of open size";
    return constant;
  }
  const SymShape& sizes = float_meta(node)->sizes;
  const TensorMeta* meta = operand != nullptr ? float_meta(*operand) : nullptr;
  if (is_constant && meta != nullptr && constant_sizes != meta->sizes) meta = nullptr;  // a file may tell others
  if (meta != nullptr &&
      ((!is_constant && meta->sizes.size() == sizes.size()) || is_repeated_by_rows(meta->sizes, sizes, order)))
    return operand;
  refusal = "an operand is repeated along scattered axes";
  return nullptr;
}

std::string fuse_binary(Fuser& fuser, Node& node, const PlanStep::Form& form) {
  if (!node.kwargs().empty() || node.args().size() != 2) return "it has a factor";
  if (!fuser.plans.is_held(node.arg(0).node()) && !fuser.plans.is_held(node.arg(1).node()))
    return "its inputs are not in a plan";
  const Fuser::Order order = fuser.order_of(node);
  std::vector<Node*> operands;
  std::string refusal;
  for (const size_t i : {size_t{0}, size_t{1}}) {
    operands.push_back(operand_of(fuser, node, node.arg(i), order, refusal));
    if (operands.back() == nullptr) return refusal;
  }
  const SymShape& sizes = float_meta(node)->sizes;
  const auto is_whole = [&](size_t i) { return float_meta(*operands[i])->sizes == sizes; };
  // Kernels repeat one operand, and that by rows.
  std::array<bool, 2> expands{};
  for (const size_t i : {size_t{0}, size_t{1}})
    expands[i] = !is_whole(i) && !is_repeated_by_rows(float_meta(*operands[i])->sizes, sizes, order);
  if (!is_whole(0) && !is_whole(1) && !expands[1]) expands[0] = true;
  for (const size_t i : {size_t{0}, size_t{1}})
    if (expands[i] && !is_of_ones_beside(float_meta(*operands[i])->sizes, sizes))
      return "an operand has an open size that may be 1";
  const int in_place_input = is_whole(0) ? 0 : is_whole(1) ? 1 : -1;
  fuser.emit(node, fuser.epilogue_of(node, false), [=, &fuser, sizes = sizes](PlanStep& step, Fuser::Order used) {
    step.form = form;
    for (const size_t i : {size_t{0}, size_t{1}}) {
      // Beside values of another rank four axes are no image.
      const bool is_image = sizes.size() == 4 || float_meta(*operands[i])->sizes.size() != 4;
      const size_t at = is_image ? fuser.read(operands[i], used) : fuser.plans.read_in_c_order(operands[i]);
      step.inputs.push_back(expands[i] ? fuser.plans.expanded_copy(at, sizes) : at);
    }
    step.in_place_input = in_place_input;
  });
  return {};
}

}  // namespace

std::string fuse_quantize(Fuser& fuser, Node& node) {
  if (!is_fusable_quantize(node)) return "operators other than dequantize read its integers";
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
  if (fuser.order_of(node) == Fuser::Order::kSequence) {
    step.inputs = {plans.read_sequence(value)};
    plans.add_sequence_step(std::move(step), PlanBuilder::buffer_like(node, DType::kU8, qparams), node, {&node});
    return {};
  }
  const size_t at = plans.read_as_is(value);
  step.inputs = {is_in_c_order(plans.buffer(at)) ? at : plans.read(value)};
  plans.add_step(std::move(step), PlanBuilder::buffer_like(node, DType::kU8, qparams), node, {&node});
  return {};
}

std::string fuse_dequantize(Fuser& fuser, Node& node) {
  Node* integers = node.arg(0).node();
  if (fuser.plans.hold_dequantized(node, integers)) return {};
  const PlanQParams qparams = plan_qparams(node);
  const TensorMeta* meta = integers->meta.val.tensor();
  if (meta == nullptr || meta->dtype != node.arg(5).as<DType>() || qparams.qmin != 0 || qparams.qmax != 255)
    return "its integers come from another operator than quantize, and may be beyond its range";
  fuser.plans.hold_given_integers(node, integers, qparams);
  return {};
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
  fuser.emit(node, epilogue,
             [&fuser, value, rounds = epilogue.quantize != nullptr](PlanStep& step, Fuser::Order order) {
               if (rounds) step.form = PlanStep::Quantize{};
               else step.form = PlanStep::Dequantize{};
               step.inputs = {fuser.read(value, order)};
               step.in_place_input = 0;
             });
  return {};
}

std::string fuse_add(Fuser& fuser, Node& node) { return fuse_binary(fuser, node, PlanStep::Add{}); }
std::string fuse_mul(Fuser& fuser, Node& node) { return fuse_binary(fuser, node, PlanStep::Mul{}); }

std::string fuse_prelu(Fuser& fuser, Node& node) {
  Node* value = node.arg(0).node();
  if (!fuser.plans.is_held(value)) return "its input is not in a plan";
  const SymShape& sizes = float_meta(node)->sizes;
  if (sizes.size() != 2 && sizes.size() != 4) return "its channels are not stored last";
  const std::optional<Tensor> slopes = constant_operand(fuser.plans.program(), node.arg(1));
  if (!slopes) return "its slopes are not constant";
  if (sizes[1] != SymInt(slopes->numel())) return "its slopes are not those of the channels";
  fuser.emit(node, fuser.epilogue_of(node, false), [&fuser, value, slopes](PlanStep& step, Fuser::Order order) {
    step.form = PlanStep::Prelu{slopes->contiguous()};
    step.inputs = {fuser.read(value, order)};
    step.in_place_input = 0;
  });
  return {};
}

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
      return "an input is not a float32 tensor of its rank";
    any_held = any_held || plans.is_held(value);
    values.push_back(value);
  }
  if (!any_held) return "its inputs are not in a plan";
  const int64_t axis = wrap_axis(node.arg(1).integer().value_or(0), static_cast<int64_t>(rank));
  fuser.emit(node, fuser.epilogue_of(node, false), [&plans, values, axis](PlanStep& step, Fuser::Order) {
    step.form = PlanStep::Concat{axis};
    for (Node* value : values) step.inputs.push_back(plans.read(value));
  });
  return {};
}

}  // namespace qdq
