// The fusions of FX graph mode alone.
#include "quant/fx/fuse_fx.h"

#include <algorithm>

#include "op/facts.h"
#include "quant/fx/qconfig_mapping_quantizer.h"
#include "quant/training_mode.h"

namespace qdq {

int64_t fuse_fx(Program& program, const BackendConfig& backend) {
  check_in_inference_form(*program.graph);
  const auto norms = [&] {
    const std::vector<Node*> nodes = program.graph->nodes();
    return std::count_if(nodes.begin(), nodes.end(), [](const Node* node) { return is_a(*node, Family::kBatchNorm); });
  };
  const int64_t before = norms();
  QConfigMappingQuantizer quantizer{QConfigMapping()};
  quantizer.set_backend_config(backend).fold_batch_norms(program);
  return before - norms();
}

}  // namespace qdq
