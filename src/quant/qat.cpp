// Preparing for quantization-aware training, and the switches of what was prepared.
#include "quant/qat.h"

#include <algorithm>

#include "quant/prepared_impl.h"

namespace qdq {
namespace {

void move_to(Prepared& prepared, bool training) {
  Prepared::Impl& impl = Prepared::Impl::of(prepared);
  impl.training = training;
  if (!set_training_mode(impl.program, training, impl.compat)) return;
  impl.interpreter.reset();
  ++impl.revision;
}

}  // namespace

Prepared prepare_qat_pt2e(Program program, Quantizer& quantizer, std::vector<OpBackend*> backends) {
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

void move_exported_model_to_train(Prepared& prepared) { move_to(prepared, true); }
void move_exported_model_to_eval(Prepared& prepared) { move_to(prepared, false); }
bool move_exported_model_to_eval(Program& program) { return set_training_mode(program, false, Compat::kNone); }

}  // namespace qdq
