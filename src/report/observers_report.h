// Observers as JSON: for `quantize --observers`, and back for `quantize --calibrate FILE.json`.
#pragma once

#include <string>

#include "format/json_fwd.h"
#include "quant/pt2e.h"

namespace qdq {

// Every observer instance: id, class, settings, state, qparams (or the reason why there are none), covers, inserted_as,
// derived_from.
format::Json observers_report(const Prepared& prepared);
// Gives the observers what others saw: `report` is observers_report of a program that was prepared from the same model
// by the same recipe, `what` names it in errors. So converting needs no data. Throws Error{kInvalidArgument} naming the
// first observer that is of another class, has other settings or looks at other values, or that has seen something else
// before: weights are looked at here.
void load_observers(Prepared& prepared, const format::Json& report, const std::string& what);

}  // namespace qdq
