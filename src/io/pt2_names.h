// What attributes are called in a .pt2 file.
#pragma once

#include <string>
#include <unordered_map>

#include "graph/program.h"

namespace qdq {

// By the attribute's name: that name, where PyTorch can have it, else another.
std::unordered_map<std::string, std::string> pt2_attribute_names(const Program& program);

}  // namespace qdq
