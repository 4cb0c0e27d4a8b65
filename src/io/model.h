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

// A .pt2 or an ONNX file, whichever the bytes are. Throws what load_pt2 and load_onnx throw, Error{kBadFile} if it is
// neither, and Error{kInvalidArgument} if something of a .pt2 file shall be fixed.
Program load_program(std::span<const std::byte> bytes, const format::OnnxExternalData& external = {},
                     const OnnxFixed& fixed = {});
// The same of a file that is read part by part: an archive weight by weight, an ONNX model at once.
Program load_program(std::shared_ptr<const format::ByteSource> source, const format::OnnxExternalData& external = {},
                     const OnnxFixed& fixed = {});

// A program as a file of the kind that its path's ending says: .onnx, or else .pt2; and beside it, of an ONNX model
// that keeps its tensors there, the one of that name with OnnxOptions::data_ending behind.
struct ModelFiles {
  std::string path;
  format::Parts model, data;  // the program's tensors in place: they must not change before all is written
  std::string data_name;      // of the file beside it
  std::string warning;        // that PyTorch does not load this .pt2 file, for want of operators; "" if it does
  std::string note;           // onnx_saturation_warning() of an .onnx file
  uint64_t size() const { return model.size() + data.size(); }
  // The data first, so that nobody sees a model without it. Throws Error{kIo}.
  void write(Files& files) const;
};
ModelFiles save_program(const Program& program, const std::string& path, const OnnxOptions& options = {});

struct Model {
  Program program;
  uint64_t file_bytes;  // with the files beside an ONNX model that hold its tensors
};
// Reads a model; errors name the file. Files of a gigabyte and more are read part by part, and the tensors of such a
// model lie on disk (base/disk_blocks.h), as do those that are made of it by convert_pt2e and save_program. One
// that is `to_run` must hold no operator that qdq does not have: throws
// Error{kUnsupported} that lists those (check_ops).
Model load_model(const std::string& path, Files& files = disk(), bool to_run = true, const OnnxFixed& fixed = {});

}  // namespace qdq
