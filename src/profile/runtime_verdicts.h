// What a runtime would run in integers of a quantized program, what it would not, and why.
#pragma once

#include <string>
#include <vector>

#include "format/json_fwd.h"
#include "graph/program.h"
#include "profile/runtime_profile.h"

namespace qdq {

struct RuntimeVerdict {
  std::string node;
  std::string module;    // "" for the root or if unknown
  std::string op;        // "aten.conv2d.default"
  int64_t products = 0;  // how many convolutions and matrix products it is: attention is two
  bool in_integers = false;
  std::string kernel;  // what the runtime calls it in integers: "QLinearConv"; "" if it stays float
  std::string reason;  // why it stays float, in words that follow "because"; else ""
};

// One of each convolution and matrix product of the program, and of each other operator beside quantized values that
// the runtime could run in integers, in the order of the graph. What qdq quantized is judged as save_onnx or save_pt2
// writes it for the profile; what was read from an ONNX file as it stands there. Judged by the rules of the profile,
// whose sources stand beside its table: a runtime may know more.
std::vector<RuntimeVerdict> runtime_verdicts(const Program& program, const RuntimeProfile& profile);

// Whether the runtime computes a layer in integers only if this value, its result or what is computed along with it, is
// rounded.
bool needs_rounding(const Node& value, const RuntimeProfile& profile);

// How many convolutions and matrix products run in integers, and how many there are.
struct ProductCount {
  int64_t in_integers = 0, total = 0;
};
ProductCount count_products(const std::vector<RuntimeVerdict>& verdicts);

// {profile, runtime, products: {in_integers, total}, operators: [{node, products, module, op, runs, kernel?,
// reason?}]}: `runs` is "integers" or "float".
format::Json verdicts_report(const std::vector<RuntimeVerdict>& verdicts, const RuntimeProfile& profile);

}  // namespace qdq
