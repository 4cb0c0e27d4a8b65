// Compares graphs of this build with graphs in case.json.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "graph/program.h"

namespace qdq {

// What stands for what, from the expected graph to ours: nodes that a pass created, and the attributes and modules
// behind them, may be named differently.
struct Renaming {
  std::map<std::string, const Node*> nodes;
  std::map<std::string, std::string> targets;  // of get_attr and call_module nodes
};

struct NumberTolerance {
  double relative = 0;   // of float literals
  int64_t integers = 0;  // of the zero points of quantize and dequantize nodes
};

// Throws Mismatch naming the first node whose kind, target, arguments, users, module or debug handle differs. Nodes
// correspond in order.
Renaming expect_same_graph(const std::string& what, const Graph& graph, const nlohmann::json& expected,
                           const NumberTolerance& tolerance = {});

// One argument in the notation of case.json: {"node": "x"}, {"dtype": "int8"}, 1.5, [1, 1], null.
nlohmann::json json_of_argument(const Argument& argument);

}  // namespace qdq
