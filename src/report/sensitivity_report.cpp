#include "report/sensitivity_report.h"

#include "format/json.h"

namespace qdq {

format::Json sensitivity_report(const std::vector<Sensitivity>& sensitivities, double all) {
  format::Json operators = format::Json::array();
  for (const Sensitivity& each : sensitivities)
    operators.push_back(format::json_object({{"node", each.node},
                                             {"module", each.module},
                                             {"op", each.op},
                                             {"own", each.own},
                                             {"alone", each.alone},
                                             {"without", each.without}}));
  return format::json_object({{"all", all}, {"operators", std::move(operators)}});
}

}  // namespace qdq
