// What remedies that move something between layers, channel by channel, have in common: equalization and shifts.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "quant/layers.h"
#include "recover/recovery.h"

namespace qdq {

// Constants and observers as they were before such a remedy.
struct BeforeChannels {
  std::vector<std::pair<std::string, Tensor>> constants;
  std::vector<std::shared_ptr<Observer>> observers;
  std::unordered_set<const Observer*> of_constants;
};
BeforeChannels before_channels(const Prepared::Impl& impl);
void undo(Prepared::Impl& impl, BeforeChannels& before);

// Gives the constant this value and its observer the range of it. `before` notes what that changes.
void set_constant(Prepared& prepared, BeforeChannels& before, const OwnConstant& constant, const Tensor& value);

// Whether the observer has one range that can be set.
bool takes_one_range(const Prepared::Impl& impl, size_t observer);

// Changes the program by `change`, which returns how many places it changed and adds the observers that see other
// values then; gives these observers the whole range of what they see or the one of least error, whichever serves the
// outputs for 32 samples better. Returns the places, or 0 if the outputs do not gain 1 dB. The caller undoes it then.
int64_t change_channels(Recovery& recovery, const std::function<int64_t(std::vector<size_t>& touched)>& change);

}  // namespace qdq
