// How often a loop of an ONNX model runs, where the file tells.
#pragma once

#include <cstdint>
#include <optional>

#include "io/onnx/import.h"

namespace qdq {

// A loop of more turns is not written out.
inline constexpr int64_t kMostUnrolled = 64;

// The tensor of a name in a body or around it that the file tells; undefined for others.
Tensor known_in(OnnxCall& call, const format::OnnxGraph& body, const std::string& name);

// Whether the condition that a body gives is the one that it got, or always true.
bool goes_on(OnnxCall& call, const format::OnnxGraph& body);

// How often a loop runs whose condition follows from numbers that it counts itself, as TensorFlow's do; at most `most`
// times. Nothing if only a run can tell, or the loop is long.
std::optional<int64_t> counted_trips(OnnxCall& call, const format::OnnxGraph& body, size_t carried, int64_t most);

}  // namespace qdq
