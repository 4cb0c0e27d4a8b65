// Layer norms that a graph spells out, which may be rounded to integers on the way.
#pragma once

#include <optional>
#include <vector>

#include "graph/program.h"
#include "lower/plan.h"

namespace qdq {

struct LayerNormPattern {
  Node *x = nullptr, *last = nullptr;
  Node *gamma = nullptr, *beta = nullptr;  // constants of the last axis, or null
  double epsilon = 0;
  int64_t columns = 0;
  NormRoundings roundings;
  std::vector<Node*> nodes;  // all between x and the end of `last`, those that round among them
};

// (x - mean(x)) / sqrt(mean((x - mean(x)) ** 2) + epsilon) * gamma + beta along the last axis, if this division is in
// its middle; factor and summand may be missing. Nothing reads a node of it but others of it, where it is rounded.
std::optional<LayerNormPattern> layer_norm_around(const Program& program, Node& division);

// x / sqrt(mean(x ** 2) + epsilon) * gamma along the last axis, in the ways in which exporters write it, if this node
// divides; the factor may be missing. Nothing of it is rounded; `nodes` stays empty.
std::optional<LayerNormPattern> rms_norm_around(const Program& program, Node& node);

// A number, or a constant of one element.
std::optional<double> number_of(const Program& program, const Argument& argument);
// The argument's node, if it is a call of this operator without keywords; else null.
Node* input_if(const Argument& argument, std::string_view target);

}  // namespace qdq
