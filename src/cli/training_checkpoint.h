// Where a training stands, as a file that a later one goes on from.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/files.h"
#include "train/trainer.h"

namespace qdq {

struct TrainingPlace {
  int64_t epoch = 0, batch = 0;      // the ones to come next; batch 0 before the epoch has begun
  uint64_t shuffle = 0;              // the state that orders the samples
  std::vector<int64_t> order;        // of the samples
  std::vector<double> epoch_losses;  // of the epochs that are over
  double loss = 0;                   // the sum over the batches of this one
};

// Writes the trainer's state and its place as an .npz. `identity` is a hash of all that makes the training what it is.
void save_checkpoint(const std::string& path, const std::string& identity, const Trainer& trainer,
                     const TrainingPlace& place, Files& files);
// Puts the trainer where the file says and returns the place; nothing if there is no such file. Throws
// Error{kInvalidArgument} if the identity is another one, Error{kBadFile} for bytes that are no checkpoint.
std::optional<TrainingPlace> load_checkpoint(const std::string& path, const std::string& identity, Trainer& trainer,
                                             Files& files);

}  // namespace qdq
