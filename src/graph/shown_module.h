// The modules of nodes for people to read.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "graph/graph.h"

namespace qdq {

// PyTorch's name for the module of a node that it adds itself, such as a size behind a check, and for its type.
inline constexpr std::string_view kNoModule = "_empty_nn_module_stack_from_metadata_hook";

// NodeMeta::module_path, or nothing if that is no module of the model.
inline std::optional<std::string> shown_module(const NodeMeta& meta) {
  std::optional<std::string> out = meta.module_path();
  if (out == kNoModule) out.reset();
  return out;
}

}  // namespace qdq
