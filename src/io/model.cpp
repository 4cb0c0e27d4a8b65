// Models as files: the kind of a file is known by its bytes, that of one to be written by its ending.
#include "io/model.h"

#include <map>

#include "format/bytes.h"
#include "io/onnx.h"
#include "io/pt2.h"
#include "op/op.h"

namespace qdq {

Program load_program(std::span<const std::byte> bytes, const format::OnnxExternalData& external,
                     const OnnxFixed& fixed) {
  if (looks_like_onnx(bytes)) return load_onnx(bytes, external, fixed);
  QDQ_CHECK(format::text_of(bytes).starts_with("PK"), kBadFile,
            "this is neither a .pt2 file, which is a zip archive, nor an ONNX model; wanted what torch.export.save or "
            "torch.onnx.export writes");
  QDQ_CHECK(
      fixed.values.empty() && fixed.shapes.empty(), kInvalidArgument,
      "inputs and sizes can be fixed in ONNX models alone, and this is a .pt2 file; export the program anew with ",
      fixed.values.empty() ? fixed.shapes.begin()->first : fixed.values.begin()->first, " fixed");
  return load_pt2(bytes);
}

void ModelFiles::write(Files& files) const {
  if (!data.empty()) files.write(path.substr(0, path.find_last_of("/\\") + 1) + data_name, data);
  files.write(path, model);
}

ModelFiles save_program(const Program& program, const std::string& path, const OnnxOptions& options) {
  ModelFiles out{path, {}, {}, {}, {}};
  const std::string name = path.substr(path.find_last_of("/\\") + 1);
  if (path.ends_with(".onnx")) {
    out.data_name = name + options.data_ending;
    out.model = save_onnx(program, options, out.data_name, out.data);
    out.warning = onnx_saturation_warning(program);
    return out;
  }
  out.model = save_pt2(program);
  const std::vector<std::string> foreign = operators_outside_pytorch(program);
  if (foreign.empty()) return out;
  out.warning = concat("PyTorch does not load ", path, ", but qdq does: it has no ");
  for (size_t i = 0; i < foreign.size(); ++i) out.warning += (i ? ", " : "") + foreign[i];
  return out;
}

Model load_model(const std::string& path, Files& files, bool to_run, const OnnxFixed& fixed) {
  const auto bytes = files.read(path);
  uint64_t file_bytes = bytes.size();
  std::map<std::string, std::vector<std::byte>> beside;  // the files that an ONNX model keeps its tensors in
  const auto external = [&](const std::string& location) -> format::ByteSpan {
    const auto [file, is_new] = beside.try_emplace(location);
    if (is_new) file->second = files.read_beside(path, location);
    if (is_new) file_bytes += file->second.size();
    return file->second;
  };
  try {
    Program program = load_program(bytes, external, fixed);
    if (to_run) check_ops(*program.graph);
    return {std::move(program), file_bytes};
  } catch (Error& error) {
    if (error.message.find(path) == std::string::npos) error.message = concat(path, ": ", error.message);
    throw;
  }
}

}  // namespace qdq
