// Observers as JSON: for `quantize --observers`, and back for `quantize --calibrate FILE.json`.
#pragma once

#include <string>

#include "format/json_fwd.h"
#include "quant/pt2e.h"

namespace qdq {

// Every observer instance: id, class, settings, state, qparams (or the reason why there are none), covers, inserted_as,
// derived_from.
format::Json observers_report(const Prepared& prepared);
// Restores the statistics of an earlier calibration, so that converting needs no data. `report` is the observers_report
// of a program that was prepared from the same model by the same recipe; `what` names it in errors. Throws
// Error{kInvalidArgument} naming the first observer that has another class, other settings or another place, or whose
// weight is not the one that the report saw.
void load_observers(Prepared& prepared, const format::Json& report, const std::string& what);

}  // namespace qdq
