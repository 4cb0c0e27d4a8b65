// What `qdq quantize` prints at its end.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/verbs.h"
#include "data/data.h"
#include "format/json.h"
#include "profile/runtime_profile.h"
#include "quant/pt2e.h"
#include "report/layer_gains.h"

namespace qdq {

// What --calibrate names: samples, what others saw of samples, or nothing.
struct Calibration {
  std::unique_ptr<Data> data;  // the samples; null: there are none
  format::Json statistics;     // null: none
  bool is_state = false;       // that merges exactly, rather than the file of --observers
  std::string text;            // of the state
  bool needs_data = false;     // whether the prepared program takes ranges of samples
  double began = 0, ended = 0;
  int64_t scaled = 0, rounded = 0;               // places of --awq and layers of --gptq
  format::Json recovery;                         // null: none
  std::optional<std::vector<LayerTimes>> times;  // of --time-layers
  bool uses_data() const { return data && needs_data; }
};

struct Quantized {
  const Prepared& prepared;
  const Program& converted;
  const Calibration& calibration;
  const Program* floats;          // the model before it was prepared; null: no advice is wanted
  const RuntimeProfile* profile;  // null without --for
  std::string note;               // about the file; "" for none
  std::pair<uint64_t, uint64_t> bytes;
  double began;
};
void print_quantized(const QuantizeOptions& options, const Quantized& made, Host& host);

// Whether the options leave it to a quantizer which layers become int8, so that another choice is worth a word.
bool can_advise(const QuantizeOptions& options);

}  // namespace qdq
