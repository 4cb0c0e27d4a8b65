// Programs that were exported in training mode.
#include "quant/training_mode.h"

#include "op/facts.h"
#include "op/targets.h"

namespace qdq {

void check_in_inference_form(const Graph& graph) {
  for (const Node* node : graph.nodes()) {
    const bool is_norm = node->is(op::kBatchNorm);
    if (!is_norm && !is_form_of(*node, op::kDropout)) continue;
    const Argument& training = node->arg(is_norm ? 5 : 2);
    if (!training.is<bool>() || !training.as<bool>()) continue;
    throw Error(ErrorCode::kInvalidArgument,
                concat("the program was exported in training mode: ", node->name(), " ",
                       is_norm ? "uses the statistics of each batch" : "drops values at random",
                       "; export it after model.eval(), or let it be moved to its inference form "
                       "(--allow-training-mode, move_exported_model_to_eval)"),
                node->name(), node->target());
  }
}

}  // namespace qdq
