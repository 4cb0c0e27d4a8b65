// What quantizers decide, and what they can do, as JSON.
#include "report/explanation_report.h"

#include "format/json.h"
#include "quant/explain.h"
#include "report/graph_report.h"

namespace qdq {

using format::Json;
using format::json_object;

Json explanation_report(const Prepared& prepared) {
  Json operators = Json::array();
  for (const Explanation& explanation : explain(prepared)) {
    Json entry = json_object({{"node", explanation.node},
                              {"module", explanation.module},
                              {"op", explanation.op},
                              {"outcome", to_string(explanation.outcome)},
                              {"quantizer", explanation.quantizer},
                              {"pattern", explanation.pattern},
                              {"reason", explanation.reason}});
    entry["tensors"] = Json::array();
    for (const ExplainedTensor& tensor : explanation.tensors) {
      Json place = json_of(tensor.at);
      place["becomes"] = tensor.becomes;
      entry["tensors"].push_back(std::move(place));
    }
    entry["decisions"] = Json::array();
    for (const Decision& decision : explanation.decisions)
      entry["decisions"].push_back(json_object({{"quantizer", decision.quantizer},
                                                {"pattern", decision.pattern},
                                                {"taken", decision.taken},
                                                {"reason", decision.reason}}));
    operators.push_back(std::move(entry));
  }
  Json conflicts = Json::array();
  for (const SpecConflict& conflict : find_conflicts(prepared))
    conflicts.push_back(json_object({{"edge", json_of(conflict.edge)},
                                     {"producer_annotator", conflict.producer_annotator},
                                     {"consumer_annotator", conflict.consumer_annotator},
                                     {"message", conflict.message}}));
  return json_object({{"operators", std::move(operators)}, {"conflicts", std::move(conflicts)}});
}

Json capabilities_report(const QuantizationCapabilities& capabilities) {
  Json out =
      json_object({{"quantizer", capabilities.quantizer}, {"patterns", Json::array()}, {"parts", Json::array()}});
  for (const PatternCapability& c : capabilities.patterns)
    out["patterns"].push_back(json_object({{"pattern", c.pattern},
                                           {"operators", Json(c.operators)},
                                           {"static", c.static_quantization},
                                           {"dynamic", c.dynamic_quantization},
                                           {"qat", c.qat},
                                           {"note", c.note}}));
  for (const QuantizationCapabilities& part : capabilities.parts) out["parts"].push_back(capabilities_report(part));
  return out;
}

}  // namespace qdq
