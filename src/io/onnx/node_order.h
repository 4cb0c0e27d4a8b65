// What ONNX nodes read, and the order in which they can run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "format/onnx_file.h"

namespace qdq {

// What errors call a node: its name, or that of its first result.
std::string name_of(const format::OnnxNode& node);

// Adds the names that a node reads, those that its graphs read of the graphs around among them.
void collect_reads(const format::OnnxNode& node, std::vector<std::string>& reads);

// How often the nodes of a graph, with the graphs inside them, and its outputs read a value.
int64_t num_reads(const format::OnnxGraph& graph, const std::string& value);

// The nodes such that each stands behind those whose values it reads; files may have them in any order. Those that are
// in order stay so. Throws Error{kBadFile} for a value that is made twice, or from itself.
std::vector<const format::OnnxNode*> in_order(const std::vector<format::OnnxNode>& nodes);

}  // namespace qdq
