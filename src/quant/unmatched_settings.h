// Settings of quantizers that reach nothing of a program.
#pragma once

#include <string>
#include <vector>

#include "graph/program.h"

namespace qdq {

// What a program's nodes are known by, each name once, in the order of the graph.
struct ProgramNames {
  explicit ProgramNames(const Graph& graph);
  std::vector<std::string> modules;       // paths, and what an ONNX file calls its nodes
  std::vector<std::string> module_types;  // "torch.nn.modules.linear.Linear"
  std::vector<std::string> operators;     // packets: "torch.ops.aten.linear"
};

// The name that was probably meant; if none is near, the one whose last part is: "torch.nn.Linaer" may be
// "torch.nn.modules.linear.Linear". Empty if neither is.
std::string nearest_name(std::string_view name, const std::vector<std::string>& known);

// What a message that ends in "the program has no such module" goes on with: "; did you mean head?", or if no name is
// near "; it has stem, body and 3 others".
std::string meant_or_known(std::string_view name, const std::vector<std::string>& known);

// The sentence that tells of a setting which reaches nothing, with the name that was probably meant: "the setting for
// module heda reaches nothing: the program has no such module; did you mean head?"
std::string unmatched_setting(std::string_view kind, std::string_view name, const std::vector<std::string>& known);

}  // namespace qdq
