// What operators cost as integers, as JSON for the command line and JavaScript.
#pragma once

#include <vector>

#include "format/json_fwd.h"
#include "recover/sensitivity.h"

namespace qdq {

// {all, operators: [{node, module, op, own, alone, without}]}, ratios in dB, in the order given.
format::Json sensitivity_report(const std::vector<Sensitivity>& sensitivities, double all);

}  // namespace qdq
