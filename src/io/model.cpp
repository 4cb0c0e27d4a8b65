// Models as files: the kind of a file is known by its bytes, that of one to be written by its ending.
#include "io/model.h"

#include <map>
#include <optional>

#include "base/disk_blocks.h"
#include "base/memory.h"
#include "format/bytes.h"
#include "format/file_kind.h"
#include "io/onnx.h"
#include "io/onnx/import.h"
#include "io/pt2.h"
#include "op/op.h"

namespace qdq {

namespace {
Program load_fixed_pt2(std::shared_ptr<const format::ByteSource> source, const OnnxFixed& fixed) {
  QDQ_CHECK(
      fixed.values.empty() && fixed.shapes.empty(), kInvalidArgument,
      "inputs and sizes can be fixed only in ONNX models, and this is a .pt2 file; export the program again with ",
      fixed.values.empty() ? fixed.shapes.begin()->first : fixed.values.begin()->first, " fixed");
  register_deferred_onnx();  // which a program has that was an ONNX model
  return load_pt2(std::move(source));
}
}  // namespace

Program load_program(std::span<const std::byte> bytes, const format::OnnxExternalData& external,
                     const OnnxFixed& fixed) {
  if (looks_like_onnx(bytes)) return load_onnx(bytes, external, fixed);
  QDQ_CHECK(format::text_of(bytes).starts_with("PK"), kBadFile,
            "this is neither a .pt2 file, which is a zip archive, nor an ONNX model, and ",
            kind_of_file(format::MemorySource(bytes)), "; wanted a file of torch.export.save or torch.onnx.export");
  return load_fixed_pt2(std::make_shared<format::MemorySource>(bytes), fixed);
}

Program load_program(std::shared_ptr<const format::ByteSource> source, const format::OnnxExternalData& external,
                     const OnnxFixed& fixed) {
  const uint64_t size = source->size();
  if (size >= 2 && source->read(0, 2).text() == "PK") return load_fixed_pt2(std::move(source), fixed);
  // What is in no archive is a message of protobuf, which is less than two gigabytes.
  QDQ_CHECK(size < uint64_t{1} << 31, kBadFile,
            "this is neither a .pt2 file, which is a zip archive, nor an ONNX model, which has less than 2 GB, and ",
            kind_of_file(*source), "; wanted a file of torch.export.save or torch.onnx.export");
  check_memory_of_file(size, "a copy of the model's file");
  const format::ByteData bytes = source->read(0, size);
  source->let_go(0, size);
  return load_program(bytes.bytes(), external, fixed);
}

void ModelFiles::write(Files& files) const {
  if (!data.empty()) files.write_parts(path.substr(0, path.find_last_of("/\\") + 1) + data_name, data.spans());
  files.write_parts(path, model.spans());
}

ModelFiles save_program(const Program& program, const std::string& path, const OnnxOptions& options) {
  const BlocksOnDisk as_the_weights(has_disk_blocks());
  ModelFiles out{path, {}, {}, {}, {}, {}};
  const std::string name = path.substr(path.find_last_of("/\\") + 1);
  if (path.ends_with(".onnx")) {
    out.data_name = name + options.data_ending;
    out.model = save_onnx_parts(program, options, out.data_name, out.data);
    out.note = onnx_saturation_warning(program);
    return out;
  }
  QDQ_CHECK(!options.dedicated_pairs, kInvalidArgument, path,
            " is not an .onnx file, and only those can have QuantizeLinear and DequantizeLinear for each reader");
  out.model = save_pt2_parts(program);
  const std::vector<std::string> foreign = operators_outside_pytorch(program);
  if (foreign.empty()) return out;
  out.warning = concat("PyTorch does not load ", path, ", but qdq does: it has no ");
  for (size_t i = 0; i < foreign.size(); ++i) out.warning += (i ? ", " : "") + foreign[i];
  return out;
}

namespace {

// The files of a model, of which large ones are read part by part, their tensors to disk.
class ModelReader {
 public:
  ModelReader(const std::string& path, Files& files) : path_(path), files_(files) {}

  Program read(const OnnxFixed& fixed) {
    const std::shared_ptr<const format::ByteSource> model = source(path_, [&] { return files_.read(path_); });
    const auto external = [&](const std::string& location) {
      const auto [other, is_new] = beside_.try_emplace(location);
      if (is_new)
        other->second =
            source(files_.path_beside(path_, location), [&] { return files_.read_beside(path_, location); });
      return other->second;
    };
    if (blocks_) return load_program(model, external, fixed);
    const format::ByteData bytes = model->read(0, model->size());
    return load_program(bytes.bytes(), external, fixed);
  }

  uint64_t file_bytes() const { return file_bytes_; }

 private:
  template <class Read>
  std::shared_ptr<const format::ByteSource> source(const std::optional<std::string>& path, const Read& read) {
    constexpr uint64_t kLarge = uint64_t{1} << 30;
    std::shared_ptr<const format::ByteSource> out;
    if (path && size_of(*path) >= kLarge) {
      out = std::make_shared<format::FileSource>(files_, *path);
      if (!blocks_) blocks_.emplace();
    } else {
      out = std::make_shared<format::MemorySource>(format::ByteData(read()));
    }
    file_bytes_ += out->size();
    return out;
  }

  // 0 of pipes and devices, which are read to their end.
  uint64_t size_of(const std::string& path) const {
    try {
      return files_.is_file(path) ? files_.size_of(path) : 0;
    } catch (const Error&) {
      return 0;
    }
  }

  const std::string& path_;
  Files& files_;
  std::optional<BlocksOnDisk> blocks_;
  std::map<std::string, std::shared_ptr<const format::ByteSource>> beside_;  // what an ONNX model keeps its tensors in
  uint64_t file_bytes_ = 0;
};

}  // namespace

Model load_model(const std::string& path, Files& files, bool to_run, const OnnxFixed& fixed) {
  ModelReader reader(path, files);
  try {
    Program program = reader.read(fixed);
    if (to_run) check_ops(*program.graph);
    return {std::move(program), reader.file_bytes()};
  } catch (Error& error) {
    if (error.message.find(path) == std::string::npos) error.message = concat(path, ": ", error.message);
    throw;
  }
}

}  // namespace qdq
