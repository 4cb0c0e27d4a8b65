// Programs that were exported in training mode.
#include "quant/training_mode.h"

#include "op/facts.h"
#include "op/targets.h"

namespace qdq {

bool has_no_running_statistics(const Node& batch_norm) { return batch_norm.arg(3).is_none(); }

void check_in_inference_form(const Graph& graph) {
  for (const Node* node : graph.nodes()) {
    const bool is_norm = node->is(op::kBatchNorm);
    if (!is_norm && !is_form_of(*node, op::kDropout)) continue;
    const Argument& training = node->arg(is_norm ? 5 : 2);
    if (!training.is<bool>() || !training.as<bool>() || (is_norm && has_no_running_statistics(*node))) continue;
    throw Error(ErrorCode::kInvalidArgument,
                concat("the program was exported in training mode: ", node->name(), " ",
                       is_norm ? "uses the statistics of each batch" : "drops values at random",
                       "; export it after model.eval(), or let it be moved to its inference form "
                       "(--allow-training-mode, move_exported_model_to_eval)"),
                node->name(), node->target());
  }
}

}  // namespace qdq
