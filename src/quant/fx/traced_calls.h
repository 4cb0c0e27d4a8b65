// The calls of modules, functions and methods that an exported program was made of, as symbolic tracing (FX graph mode)
// sees them. Semantics: torch/fx/_symbolic_trace.py (Tracer.is_leaf_module) and torch/ao/quantization/fx/tracer.py of
// PyTorch 2.6.
#pragma once

#include <functional>
#include <string>
#include <unordered_set>
#include <vector>

#include "graph/program.h"

namespace qdq {

// One node of a traced graph: the operators that it became.
struct TracedCall {
  enum class Kind { kModule, kFunction, kMethod };
  Kind kind = Kind::kFunction;
  // "torch.nn.modules.conv.Conv2d"; the function as recorded, "torch._C._nn.linear" or "_operator.add"; the name of the
  // method, "view". Of a program without such records the function that the operator stands for.
  std::string type;
  std::string key;          // of the call of a module, as nn_module_stack has it; empty for functions and methods
  std::string path;         // of the module that is called; for functions and methods, of the module around the call
  std::string module_type;  // the type of that module
  std::vector<Node*> nodes;
  // tensors and lists of tensors that come from outside; of modules without their parameters
  std::vector<Argument> args;
  Node* output = nullptr;  // the one node whose tensor is used outside; null if there are several or none
};

// What a tracer looks at: the inside of one call of a module, with paths as that module knows them, or all of a
// program.
struct TracerScope {
  std::string key;   // of the call, as nn_module_stack has it; empty: the program
  std::string path;  // of that module in the program
  // Modules besides those of torch.nn that are one call, by path and type. Empty: none.
  std::function<bool(const std::string& path, const std::string& type)> is_leaf{};
};

// In execution order. A call of a module of torch.nn (other than Sequential) is one call whatever is inside of it; `+=`
// is `+`, as the tracer cannot tell them apart. What leaves no operator in the program (nn.Identity, x.size()) is not
// there; nor are operators on buffers and constants alone, which have run when the tracer is done.
std::vector<TracedCall> traced_calls(const Program& program, const TracerScope& scope = {});

// The buffers, the constants, what is made of nothing (torch.arange) and what is computed from these alone. A tracer
// does not follow them: each reading of one has a node of its own. (A parameter is one node, however often it is read.)
std::unordered_set<const Node*> untraced_constants(const Program& program, const TracerScope& scope = {});

// The one operator of the call, behind the padding that a convolution does by itself (padding_mode); null if there are
// several.
Node* layer_of(const TracedCall& call);

// The function that the operator of the call stands for, whatever was recorded; empty if there are several operators.
std::string computed_function(const TracedCall& call);

}  // namespace qdq
