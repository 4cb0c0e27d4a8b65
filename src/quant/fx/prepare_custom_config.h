// What FX graph mode is told about single modules, inputs and outputs.
// Semantics: torch/ao/quantization/fx/custom_config.py and fx/prepare.py of PyTorch 2.6.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "quant/fx/backend_config.h"
#include "quant/fx/qconfig_mapping.h"

namespace qdq {

struct PrepareCustomConfig {
  // A module that is quantized on its own, as one unit. Names in its settings are those inside of it.
  struct StandaloneModule {
    std::string module;                             // its path, or its class
    std::optional<QConfigMapping> qconfig_mapping;  // without: the QConfig that the whole has for it, for everything
    std::shared_ptr<const PrepareCustomConfig> prepare_custom_config;  // null: none
    std::optional<BackendConfig> backend_config;                       // without: that of the whole
  };
  std::vector<StandaloneModule> standalone_module_names, standalone_module_classes;
  // Modules that are left alone: nothing in them is quantized, but that a backend config has a pattern for the class.
  // Classes are "net.Block" as export recorded them, or "Block" wherever it lies.
  std::vector<std::string> non_traceable_module_names, non_traceable_module_classes;
  // Inputs that come, and outputs that go, as integers (quint8): the program takes and gives uint8, whose scale and
  // zero point are those of the dequantize operator behind the input and of the quantize operator of the output. Inputs
  // of a standalone module count in the order in which it reads them.
  std::vector<int64_t> input_quantized_indexes, output_quantized_indexes;

  // The entry for a module; names go before classes. Null: it is none.
  const StandaloneModule* standalone(const std::string& path, const std::string& type) const;
  bool is_non_traceable(const std::string& path, const std::string& type) const;
  // A sentence for each name and class of a module that the program does not have.
  std::vector<std::string> unmatched(const Graph& graph) const;
};

}  // namespace qdq
