// Models as files, whichever kind they are: .pt2 or ONNX.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "format/onnx_file.h"
#include "graph/program.h"
#include "io/onnx.h"
#include "io/pt2.h"

namespace qdq {

// A .pt2 or an ONNX file, whichever the bytes are. Throws what load_pt2 and load_onnx throw, and Error{kBadFile} if it
// is neither.
Program load_program(std::span<const std::byte> bytes, const format::OnnxExternalData& external = {});

// The bytes of a program as a file of the kind that the path's ending says: .onnx, or else .pt2.
std::vector<std::byte> save_program(const Program& program, std::string_view path);

struct Model {
  Program program;
  uint64_t file_bytes;  // with the files beside an ONNX model that hold its tensors
};
// Reads a model; errors name the file. One that is `to_run` must hold no operator that qdq does not have: throws
// Error{kUnsupported} that lists those (check_ops).
Model load_model(const std::string& path, Files& files = disk(), bool to_run = true);

}  // namespace qdq
