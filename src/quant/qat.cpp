// Preparing for quantization-aware training, and the switches of what was prepared.
#include "quant/qat.h"

#include <algorithm>

#include "op/facts.h"
#include "quant/observers/learnable_fake_quantize.h"
#include "quant/prepared_impl.h"

namespace qdq {
namespace {

void move_to(Prepared& prepared, bool training) {
  Prepared::Impl& impl = Prepared::Impl::of(prepared);
  impl.check_idle();
  impl.training = training;
  if (!set_training_mode(impl.program, training, impl.compat)) return;
  impl.interpreter.reset();
  ++impl.revision;
}

// The constant that an operator reads through views and transposes; null: none.
const Node* constant_behind(const Node* node) {
  while (node != nullptr && node->op() == Node::Op::kCallFunction && is_a(*node, Family::kView))
    node = node->arg(0).node();
  return node != nullptr && node->op() == Node::Op::kGetAttr ? node : nullptr;
}

// ONNX files do not say which of their constants learn: what layers and norms read as weights and biases does.
void let_onnx_weights_learn(Program& program) {
  const bool is_onnx = !program.output_names.empty();
  const auto learns = [](const Attribute& each) { return each.requires_grad; };
  if (!is_onnx || std::any_of(program.attributes.begin(), program.attributes.end(), learns)) return;
  const auto mark = [&](const Node* node) {
    const Node* constant = constant_behind(node);
    Attribute* attribute = constant == nullptr ? nullptr : program.find_attribute(constant->target());
    if (attribute == nullptr || attribute->tensor.dtype() != DType::kF32) return;
    attribute->kind = Attribute::Kind::kParameter;
    attribute->requires_grad = true;
  };
  for (const Node* node : program.graph->nodes()) {
    mark(weight_of(*node));
    mark(bias_of(*node));
    if (is_a(*node, Family::kMatmul))
      for (const Node* input : node->input_nodes()) mark(input);
  }
}

}  // namespace

Prepared prepare_qat_pt2e(Program program, Quantizer& quantizer, std::vector<OpBackend*> backends) {
  let_onnx_weights_learn(program);
  Prepared prepared = Prepared::Impl::prepare(std::move(program), quantizer, std::move(backends), /*is_qat=*/true);
  const std::vector<ObserverGroup>& groups = prepared.observers();
  const bool any = std::any_of(groups.begin(), groups.end(),
                               [](const ObserverGroup& group) { return group.observer->is_fake_quantize(); });
  QDQ_CHECK(
      any || groups.empty(), kInvalidArgument, "the quantizer ", quantizer.name(),
      " places observers, which training cannot learn from: give it settings with is_qat, whose fake quantizers round");
  // Batch norms write their statistics in place, and the bytes may belong to the caller's program too.
  for (Attribute& attribute : Prepared::Impl::of(prepared).program.attributes)
    if (attribute.kind == Attribute::Kind::kBuffer && attribute.tensor.defined())
      attribute.tensor = attribute.tensor.clone();
  return prepared;
}

void enable_observer(Prepared& prepared, bool enabled) {
  for (const ObserverGroup& group : prepared.observers()) group.observer->enable_observer(enabled);
}

void enable_fake_quant(Prepared& prepared, bool enabled) {
  for (const ObserverGroup& group : prepared.observers()) group.observer->enable_fake_quant(enabled);
}

void learn_qparams(Prepared& prepared, bool use_grad_scaling) {
  Prepared::Impl& impl = Prepared::Impl::of(prepared);
  impl.check_idle();
  std::unordered_set<const Observer*> kept = impl.of_constants;
  for (const ObserverGroup& group : impl.groups)
    for (const std::shared_ptr<Observer>& source : group.derived_from) kept.insert(source.get());
  for (ObserverGroup& group : impl.groups) {
    const Observer& old = *group.observer;
    if (kept.count(&old) || !old.is_fake_quantize() || old.is_learnable() || !quantizes_statically(old) ||
        old.class_name() == "FixedQParamsFakeQuantize" || old.args().qscheme == QScheme::kPerChannelAffineFloatQParams)
      continue;
    const auto& fake = static_cast<const FakeQuantize&>(old);
    ObserverArgs args = old.args();
    args.use_grad_scaling = use_grad_scaling;
    args.inner_class = fake.inner().class_name();
    const auto learnable = std::make_shared<LearnableFakeQuantize>(args);
    if (old.calibrated()) learnable->take_over(fake);
    learnable->enable_observer(fake.observer_enabled());
    learnable->enable_fake_quant(fake.fake_quant_enabled());
    group.observer = learnable;
  }
}

void enable_param_learning(Prepared& prepared, bool enabled) {
  for (const ObserverGroup& group : prepared.observers()) {
    if (!group.observer->is_learnable()) continue;
    group.observer->enable_param_learning(enabled);
    if (!enabled) continue;
    group.observer->enable_fake_quant(true);
    group.observer->enable_observer(false);
  }
}

void move_exported_model_to_train(Prepared& prepared) { move_to(prepared, true); }
void move_exported_model_to_eval(Prepared& prepared) { move_to(prepared, false); }
bool move_exported_model_to_eval(Program& program) { return set_training_mode(program, false, Compat::kNone); }

}  // namespace qdq
